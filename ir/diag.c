/* Diagnostics: collecting and keeping them within a limit. Rendering is in diag_render.c. */
#include "ir/diag.h"

#include <stdlib.h>
#include <string.h>

static const vtb_diag_code codes[] = {
#define X(number, title, explanation, example, remedy)                                             \
  {number, title, explanation, example, remedy},
#include "ir/diag_codes.def"
#undef X
};

const vtb_diag_code *vtb_diag_codes(size_t *n) {
  *n = sizeof codes / sizeof codes[0];
  return codes;
}

const vtb_diag_code *vtb_diag_code_find(int number) {
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
    if (codes[i].number == number) return &codes[i];
  return NULL;
}

vtb_span vtb_span_join(vtb_span a, vtb_span b) {
  if (!a.source) return b;
  if (a.source != b.source) return a;
  if (b.end > a.end) a.end = b.end;
  if (b.begin < a.begin) a.begin = b.begin;
  return a;
}

void vtb_diags_free(vtb_diags *d) {
  for (size_t i = 0; i < d->list.n; i++) vtb_free(d->list.at[i].text);
  vtb_vec_free(&d->list);
  d->n_errors = 0;
}

static bool full(const vtb_diags *d) { return d->n_errors > (d->limit > 0 ? d->limit : 20); }

static void add(vtb_diags *d, vtb_severity severity, int code, vtb_span span, const char *fmt,
                va_list ap) {
  if (severity == VTB_SEV_ERROR) d->n_errors++;
  if (full(d)) return; /* notes and help of a dropped error are dropped with it */
  vtb_strbuf text = {0};
  vtb_strbuf_vprintf(&text, fmt, ap);
  if (!text.at) vtb_strbuf_puts(&text, "");
  vtb_diag diag = {severity, code, span, text.at ? text.at : vtb_xstrdup("")};
  vtb_vec_push(&d->list, diag);
}

void vtb_diag_error(vtb_diags *d, int code, vtb_span span, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add(d, VTB_SEV_ERROR, code, span, fmt, ap);
  va_end(ap);
}

void vtb_diag_warning(vtb_diags *d, int code, vtb_span span, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add(d, VTB_SEV_WARNING, code, span, fmt, ap);
  va_end(ap);
}

void vtb_diag_note(vtb_diags *d, vtb_span span, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add(d, VTB_SEV_NOTE, 0, span, fmt, ap);
  va_end(ap);
}

void vtb_diag_help(vtb_diags *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add(d, VTB_SEV_HELP, 0, VTB_NO_SPAN, fmt, ap);
  va_end(ap);
}
