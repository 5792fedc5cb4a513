/* Hovering over a name: how it is declared, and what it came to be when the model was evaluated. */
#include "frontend/lsp/server.h"

/* The name that the text before the place gave its value last: what was evaluated is known of
 * places where names are written. */
static const lsp_fact *fact_of(const lsp_server *s, const lsp_document *d,
                               const vtb_occurrence *o) {
  const lsp_fact *f = lsp_fact_at(s, d->path, o->at.begin);
  const vtb_occurrence *list, *last = NULL;
  size_t n = vtb_symbols_occurrences(d->symbols, &list);
  for (size_t i = 0; i < n && !f; i++) {
    const vtb_occurrence *w = &list[i];
    if (w->symbol != o->symbol || !w->writes || w->at.source != o->at.source) continue;
    if (w->at.begin < o->at.begin && (!last || w->at.begin > last->at.begin)) last = w;
  }
  return f || !last ? f : lsp_fact_at(s, d->path, last->at.begin);
}

static void add_facts(vtb_strbuf *out, const lsp_fact *f, const char *name) {
  for (size_t i = 0; f && i < f->texts.n; i++)
    vtb_strbuf_printf(out, "%s`%s`: %s", i ? "  \n" : "\n\n", name, f->texts.at[i]);
}

static void add_code(vtb_strbuf *out, const char *text) {
  vtb_strbuf_printf(out, "```vertebra\n%s\n```", text);
}

static char *text_of(const lsp_server *s, const lsp_document *d, const vtb_occurrence *o) {
  const vtb_lang_symbol *symbol = o->symbol;
  vtb_strbuf out = {0};
  add_code(&out, symbol->signature);
  if (symbol->kind == VTB_SYMBOL_BUILTIN)
    vtb_strbuf_printf(&out, "\n\na %s of the language", symbol->is_function ? "function" : "word");
  if (*symbol->doc) vtb_strbuf_printf(&out, "\n\n%s", symbol->doc);
  add_facts(&out, fact_of(s, d, o), symbol->name);
  if (symbol->at.source && symbol->at.source != o->at.source)
    vtb_strbuf_printf(&out, "\n\ndeclared in %s",
                      symbol->at.source->name ? symbol->at.source->name : symbol->at.source->path);
  return out.at;
}

static cJSON *markdown(const char *text) {
  cJSON *contents = cJSON_CreateObject();
  cJSON_AddStringToObject(contents, "kind", "markdown");
  cJSON_AddStringToObject(contents, "value", text);
  return contents;
}

cJSON *lsp_hover(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err) {
  const vtb_occurrence *o =
      d->symbols ? vtb_symbols_at(d->symbols, lsp_offset_of(s, d, params)) : NULL;
  (void)err;
  if (!o) return NULL;
  char *text = text_of(s, d, o);
  cJSON *result = cJSON_CreateObject();
  cJSON_AddItemToObject(result, "contents", markdown(text));
  cJSON_AddItemToObject(result, "range",
                        lsp_range(lsp_text_of(d), o->at.begin, o->at.end, s->encoding));
  vtb_free(text);
  return result;
}

/* The parameter that a comma count leads to is the editor's to mark: names may come in any
 * order. */
cJSON *lsp_signature_help(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err) {
  const vtb_lang_symbol *callee =
      d->symbols ? vtb_symbols_call(d->symbols, lsp_offset_of(s, d, params)) : NULL;
  (void)err;
  if (!callee || !callee->n_parameters) return NULL;
  cJSON *result = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(result, "signatures");
  cJSON *row = cJSON_CreateObject(), *parameters = cJSON_CreateArray();
  cJSON_AddStringToObject(row, "label", callee->signature);
  if (*callee->doc) cJSON_AddItemToObject(row, "documentation", markdown(callee->doc));
  for (size_t i = 0; i < callee->n_parameters; i++) {
    cJSON *parameter = cJSON_CreateObject();
    cJSON_AddStringToObject(parameter, "label", callee->parameters[i]->signature);
    cJSON_AddItemToArray(parameters, parameter);
  }
  cJSON_AddItemToObject(row, "parameters", parameters);
  cJSON_AddItemToArray(list, row);
  return result;
}
