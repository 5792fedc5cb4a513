/* The words of a compilation: diagnostics collected, shown as text, and as plain data. */
#include "frontend/compile/driver.h"

#include <string.h>

static vtb_status make(void *made, vtb_error *err) {
  (void)err;
  *(vtb_report **)made = vtb_xcalloc(1, sizeof(vtb_report));
  return VTB_OK;
}

vtb_report *vtb_report_new(void) {
  vtb_report *r = NULL;
  return vtb_guard(make, &r, NULL) == VTB_OK ? r : NULL;
}

void vtb__report_clear(vtb_report *r) {
  for (size_t i = 0; i < r->units.n; i++) vtb_unit_free(r->units.at[i]);
  vtb_vec_free(&r->units);
  vtb_vec_free(&r->list);
  vtb_diags_free(&r->diags);
  vtb_arena_free(&r->arena);
}

void vtb_report_free(vtb_report *r) {
  if (!r) return;
  vtb__report_clear(r);
  vtb_free(r);
}

const char *vtb_report_error(const vtb_report *r) { return r->error.text; }

/* ---- collecting ------------------------------------------------------------------------------ */

static bool same_place(vtb_span a, vtb_span b) {
  return a.begin == b.begin && a.end == b.end && !a.source == !b.source &&
         (!a.source || vtb_streq(a.source->path, b.source->path));
}

static bool knows(const vtb_report *r, const vtb_diag *d) {
  for (size_t i = 0; i < r->diags.list.n; i++) {
    const vtb_diag *have = &r->diags.list.at[i];
    if (have->severity == d->severity && have->code == d->code && vtb_streq(have->text, d->text) &&
        same_place(have->span, d->span))
      return true;
  }
  return false;
}

/* Memory first: what is taken over after this cannot fail half way. */
static void make_room(vtb_report *r, size_t n_diags, size_t n_units) {
  size_t diags = r->diags.list.n + n_diags, units = r->units.n + n_units;
  vtb_diag *list = vtb_xcalloc(diags, sizeof *list);
  vtb_unit **all = vtb_xcalloc(units, sizeof *all);
  if (r->diags.list.n) memcpy(list, r->diags.list.at, r->diags.list.n * sizeof *list);
  if (r->units.n) memcpy(all, r->units.at, r->units.n * sizeof *all);
  vtb_free(r->diags.list.at);
  vtb_free(r->units.at);
  r->diags.list.at = list;
  r->diags.list.cap = diags;
  r->units.at = all;
  r->units.cap = units;
}

/* Into room that is there. */
static void take_over(vtb_report *r, vtb_diags *diags) {
  bool known = false; /* also the notes of what is known are */
  for (size_t i = 0; i < diags->list.n; i++) {
    vtb_diag *d = &diags->list.at[i];
    if (d->severity <= VTB_SEV_WARNING) known = d->severity == VTB_SEV_WARNING && knows(r, d);
    if (known)
      vtb_free(d->text);
    else
      vtb_vec_push(&r->diags.list, *d);
  }
  r->diags.n_errors += diags->n_errors;
  vtb_vec_free(&diags->list);
  *diags = (vtb_diags){0};
}

void vtb__report_take(vtb_report *r, vtb_diags *diags) {
  make_room(r, diags->list.n, 0);
  take_over(r, diags);
}

void vtb__report_join(vtb_report *r, vtb_report *from) {
  make_room(r, from->diags.list.n, from->units.n);
  take_over(r, &from->diags);
  for (size_t i = 0; i < from->units.n; i++) vtb_vec_push(&r->units, from->units.at[i]);
  from->units.n = 0;
}

void vtb__report_end(vtb_report *r, vtb_status status, vtb_diags *diags, const vtb_error *err) {
  if (status != VTB_OK && !diags->n_errors) r->error = *err;
  vtb__report_take(r, diags);
}

/* ---- as text --------------------------------------------------------------------------------- */

typedef struct rendering {
  vtb_report *report;
  bool color;
  char *text;
} rendering;

static vtb_status render(void *arg, vtb_error *err) {
  (void)err;
  rendering *v = arg;
  vtb_report *r = v->report;
  vtb_strbuf text = {0};
  vtb_diags news = r->diags;
  news.list.at += r->n_shown;
  news.list.n -= r->n_shown;
  if (news.list.n) vtb_diags_render(&news, &text, v->color);
  v->text = text.at ? text.at : vtb_xstrdup("");
  r->n_shown = r->diags.list.n;
  return VTB_OK;
}

char *vtb_report_text(vtb_report *r, bool color) {
  rendering v = {r, color, NULL};
  return vtb_guard(render, &v, NULL) == VTB_OK ? v.text : NULL;
}

/* ---- as data --------------------------------------------------------------------------------- */

static vtb_text_range range_of(vtb_span s) {
  if (!s.source) return (vtb_text_range){0};
  vtb_line_col at = vtb_source_locate(s.source, s.begin),
               end = vtb_source_locate(s.source, s.end > s.begin ? s.end : s.begin);
  return (vtb_text_range){.file = s.source->path,
                          .begin = s.begin,
                          .end = s.end,
                          .line = at.line,
                          .column = at.col,
                          .end_line = end.line,
                          .end_column = end.col};
}

/* The diagnostic at d[0] with the notes and the advice that follow it. */
static vtb_diagnostic describe_diagnostic(vtb_arena *arena, const vtb_diag *d, size_t n) {
  vtb_diagnostic_note *notes = VTB_NEW_ARRAY(arena, vtb_diagnostic_note, n);
  vtb_diagnostic out = {.is_error = d->severity == VTB_SEV_ERROR,
                        .code = d->code,
                        .text = d->text,
                        .at = range_of(d->span),
                        .notes = notes};
  for (size_t i = 1; i < n; i++) {
    if (d[i].severity == VTB_SEV_NOTE)
      notes[out.n_notes++] = (vtb_diagnostic_note){d[i].text, range_of(d[i].span)};
    else
      out.help = out.help ? vtb_arena_printf(arena, "%s\n%s", out.help, d[i].text) : d[i].text;
  }
  return out;
}

typedef struct listing {
  vtb_report *report;
  vtb_arena arena;
  VTB_VEC(vtb_diagnostic) list;
} listing;

static vtb_status list(void *arg, vtb_error *err) {
  (void)err;
  listing *l = arg;
  const vtb_diags *diags = &l->report->diags;
  const vtb_diag *all = diags->list.at;
  for (size_t i = 0, n; i < diags->list.n; i += n) {
    for (n = 1; i + n < diags->list.n && all[i + n].severity > VTB_SEV_WARNING;) n++;
    vtb_vec_push(&l->list, describe_diagnostic(&l->arena, &all[i], n));
  }
  return VTB_OK;
}

size_t vtb_report_diagnostics(vtb_report *r, const vtb_diagnostic **out) {
  listing l = {.report = r};
  vtb_arena_init(&l.arena);
  vtb_arena_free(&r->arena);
  vtb_vec_free(&r->list);
  *out = NULL;
  if (vtb_guard(list, &l, NULL) != VTB_OK) return 0;
  r->arena = l.arena;
  r->list.at = l.list.at;
  r->list.n = l.list.n;
  *out = r->list.at;
  return r->list.n;
}
