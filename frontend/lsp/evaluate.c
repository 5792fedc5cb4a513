/* Documents evaluated: the models they declare are compiled as far as the graph, so that what is
 * wrong is known as `vertebra check` would say it, and the shape, layout and order of every name.
 *
 * Presets of one model differ little, and there may be dozens: each model is evaluated once before
 * any a second time, and not for longer than the server's limit. */
#include "frontend/compile/driver.h"
#include "frontend/lsp/server.h"

#include <string.h>

enum { MOST_FACTS = 4, MOST_PROBLEMS = 200 };

/* ---- facts ----------------------------------------------------------------------------------- */

void lsp_clear_facts(lsp_document *d) {
  for (size_t i = 0; i < d->facts.n; i++) {
    lsp_fact *f = d->facts.at[i];
    for (size_t k = 0; k < f->texts.n; k++) vtb_free(f->texts.at[k]);
    vtb_vec_free(&f->texts);
    vtb_free(f->path);
    vtb_free(f);
  }
  vtb_vec_free(&d->facts);
  vtb_map_free(&d->fact_at);
  d->evaluated = false;
}

static char *key_of(const char *path, uint32_t begin) {
  return vtb_strprintf("%u:%s", begin, path);
}

static void observe(void *user, vtb_span at, const char *what) {
  lsp_document *d = user;
  char *key = key_of(at.source->path, at.begin);
  lsp_fact *f = vtb_map_get(&d->fact_at, key);
  if (!f) {
    f = vtb_xcalloc(1, sizeof *f);
    f->path = vtb_xstrdup(at.source->path);
    f->begin = at.begin;
    vtb_vec_push(&d->facts, f);
    vtb_map_set(&d->fact_at, key, f);
  }
  vtb_free(key);
  for (size_t i = 0; i < f->texts.n; i++)
    if (strcmp(f->texts.at[i], what) == 0) return;
  if (f->texts.n < MOST_FACTS) vtb_vec_push(&f->texts, vtb_xstrdup(what));
}

const lsp_fact *lsp_fact_at(const lsp_server *s, const char *path, uint32_t begin) {
  const lsp_fact *f = NULL;
  char *key = key_of(path, begin);
  for (size_t i = 0; i < s->documents.n && !f; i++)
    f = vtb_map_get(&s->documents.at[i]->fact_at, key);
  vtb_free(key);
  return f;
}

/* ---- what is evaluated ----------------------------------------------------------------------- */

static bool complete(const vtb_lang_symbol *d) {
  if (d->decl_kind == VTB_DECL_PRESET) return true;
  for (size_t i = 0; i < d->n_parameters; i++)
    if (d->parameters[i]->required) return false;
  return d->decl_kind == VTB_DECL_MODEL;
}

/* True if an earlier one is of the same model. */
static bool repeats(const vtb_lang_symbol *const *list, size_t i) {
  for (size_t k = 0; k < i; k++)
    if (complete(list[k]) && list[k]->parameters == list[i]->parameters) return true;
  return false;
}

/* The entries to evaluate, each model's first before any second. */
static size_t entries_of(const vtb_symbols *symbols, const vtb_lang_symbol ***out) {
  const vtb_lang_symbol **all;
  size_t n = vtb_symbols_decls(symbols, &all), n_entries = 0;
  const vtb_lang_symbol **entries = vtb_xcalloc(n + 1, sizeof *entries);
  for (int again = 0; again < 2; again++)
    for (size_t i = 0; i < n; i++)
      if (complete(all[i]) && repeats(all, i) == again) entries[n_entries++] = all[i];
  vtb_free(all);
  *out = entries;
  return n_entries;
}

typedef struct compiling {
  lsp_server *s;
  lsp_document *d;
  const char *entry;
  vtb_report *report;
} compiling;

/* Both structs are a path, a text and its bytes. */
static size_t overlay_of(const lsp_server *s, vtb_compile_overlay **out) {
  vtb_overlay *list;
  size_t n = lsp_overlay(s, &list);
  vtb_compile_overlay *copy = vtb_xcalloc(n + 1, sizeof *copy);
  for (size_t i = 0; i < n; i++)
    copy[i] = (vtb_compile_overlay){list[i].path, list[i].text, list[i].n};
  vtb_free(list);
  *out = copy;
  return n;
}

static void compile(const compiling *k) {
  vtb_compile_overlay *overlay;
  vtb_compile_options o = {.size = sizeof o,
                           .model = k->d->path,
                           .text = k->d->text,
                           .text_bytes = k->d->n,
                           .entry = k->entry,
                           .no_tuning = true};
  o.n_overlay = overlay_of(k->s, &overlay);
  o.overlay = overlay;
  vtb_instantiate_options more = {.observe = observe, .observer = k->d};
  vtb_compilation c;
  vtb_status status = vtb_compilation_load(&c, &o, &more, k->report);
  if (status == VTB_OK) status = vtb_compilation_graph(&c);
  vtb_compilation_free(&c);
  vtb_free(overlay);
}

/* An empty text is none: it declares nothing, and nothing is wrong with it. */
static void evaluate_all(lsp_server *s, lsp_document *d, vtb_report *r) {
  const vtb_lang_symbol **entries = NULL;
  size_t n = d->symbols ? entries_of(d->symbols, &entries) : 0, done = 0;
  double begin = vtb_now();
  vtb_diags syntax = {0};
  vtb_overlay *overlay;
  vtb_search search = *vtb_search_default();
  search.n_overlay = lsp_overlay(s, &overlay);
  search.overlay = overlay;
  vtb_unit *u = vtb_unit_load_text(d->path, d->text, d->n, &search, &syntax);
  bool sound = u && syntax.n_errors == 0;
  vtb__report_take(r, &syntax);
  if (u) vtb_vec_push(&r->units, u); /* what was said points into it */
  vtb_free(overlay);
  while (sound && done < n && (!done || vtb_now() - begin < s->evaluate_s))
    compile(&(compiling){s, d, entries[done++]->name, r});
  vtb_free(entries);
}

/* ---- diagnostics ----------------------------------------------------------------------------- */

static bool is_here(const lsp_document *d, const vtb_text_range *at) {
  return at->file && strcmp(at->file, d->path) == 0;
}

static cJSON *related(const lsp_server *s, const lsp_document *d, const vtb_diagnostic *p) {
  cJSON *list = NULL;
  for (size_t i = 0; i < p->n_notes; i++) {
    const vtb_diagnostic_note *note = &p->notes[i];
    if (!note->at.file || !is_here(d, &note->at)) continue;
    if (!list) list = cJSON_CreateArray();
    cJSON *row = cJSON_CreateObject(), *place = cJSON_CreateObject();
    cJSON_AddStringToObject(place, "uri", d->uri);
    cJSON_AddItemToObject(place, "range",
                          lsp_range(lsp_text_of(d), note->at.begin, note->at.end, s->encoding));
    cJSON_AddItemToObject(row, "location", place);
    cJSON_AddStringToObject(row, "message", note->text);
    cJSON_AddItemToArray(list, row);
  }
  return list;
}

static char *message_of(const lsp_document *d, const vtb_diagnostic *p) {
  vtb_strbuf out = {0};
  vtb_strbuf_puts(&out, p->text);
  for (size_t i = 0; i < p->n_notes; i++) {
    const vtb_text_range *at = &p->notes[i].at;
    if (!at->file)
      vtb_strbuf_printf(&out, "\nnote: %s", p->notes[i].text);
    else if (!is_here(d, at))
      vtb_strbuf_printf(&out, "\n%s:%d: %s", at->file, at->line, p->notes[i].text);
  }
  if (p->help) vtb_strbuf_printf(&out, "\nhelp: %s", p->help);
  return out.at;
}

static cJSON *diagnostic(const lsp_server *s, const lsp_document *d, const vtb_diagnostic *p) {
  bool here = is_here(d, &p->at);
  cJSON *row = cJSON_CreateObject(), *notes = related(s, d, p);
  char code[16], *message = message_of(d, p);
  cJSON_AddItemToObject(
      row, "range",
      lsp_range(lsp_text_of(d), here ? p->at.begin : 0, here ? p->at.end : 0, s->encoding));
  cJSON_AddNumberToObject(row, "severity", p->is_error ? 1 : 2);
  snprintf(code, sizeof code, "VTB%d", p->code);
  if (p->code) cJSON_AddStringToObject(row, "code", code);
  cJSON_AddStringToObject(row, "source", "vertebra");
  cJSON_AddStringToObject(row, "message", message);
  if (notes) cJSON_AddItemToObject(row, "relatedInformation", notes);
  vtb_free(message);
  return row;
}

/* Several presets say the same. Warnings from other files are theirs. */
static bool is_wanted(const lsp_document *d, const vtb_diagnostic *list, size_t i) {
  if (!list[i].is_error && !is_here(d, &list[i].at)) return false;
  for (size_t k = 0; k < i; k++)
    if (list[k].code == list[i].code && list[k].at.begin == list[i].at.begin &&
        list[k].at.end == list[i].at.end && vtb_streq(list[k].at.file, list[i].at.file))
      return false;
  return true;
}

static void publish(lsp_server *s, const lsp_document *d, vtb_report *r) {
  const vtb_diagnostic *list;
  size_t n = vtb_report_diagnostics(r, &list), sent = 0;
  cJSON *message = cJSON_CreateObject(), *params = cJSON_CreateObject();
  cJSON *rows = cJSON_AddArrayToObject(params, "diagnostics");
  for (size_t i = 0; i < n && sent < MOST_PROBLEMS; i++)
    if (is_wanted(d, list, i)) cJSON_AddItemToArray(rows, diagnostic(s, d, &list[i])), sent++;
  cJSON_AddStringToObject(params, "uri", d->uri);
  cJSON_AddNumberToObject(params, "version", (double)d->version);
  cJSON_AddStringToObject(message, "jsonrpc", "2.0");
  cJSON_AddStringToObject(message, "method", "textDocument/publishDiagnostics");
  cJSON_AddItemToObject(message, "params", params);
  vtb_error err = {0};
  if (lsp_write(&s->wire, message, &err) != VTB_OK) s->wire.closed = true;
}

void lsp_evaluate(lsp_server *s, lsp_document *d) {
  vtb_report *r = vtb_need(vtb_report_new());
  vtb_defer((void (*)(void *))vtb_report_free, r);
  lsp_understand(s, d);
  lsp_clear_facts(d);
  evaluate_all(s, d, r);
  d->evaluated = true;
  publish(s, d, r);
  vtb_forget(r);
  vtb_report_free(r);
}
