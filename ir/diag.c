/* Diagnostics: collecting and keeping them within a limit. Rendering is in diag_render.c. */
#include "ir/diag.h"

enum { MAX_CALLS_SHOWN = 4 };

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

void vtb_diags_free(vtb_diags *d) {
  for (size_t i = 0; i < d->list.n; i++) vtb_free(d->list.at[i].text);
  vtb_vec_free(&d->list);
  d->n_errors = 0;
}

static bool full(const vtb_diags *d) { return d->n_errors > (d->limit > 0 ? d->limit : 20); }

/* The innermost call from which a user's line leads to `span`; NULL if the span is the user's or no
 * call is. */
static const vtb_diag_call *own_call(const vtb_diags *d, vtb_span span) {
  const vtb_diag_call *c = d->calls;
  if (!span.source || !span.source->library) return NULL;
  while (c && (!c->span.source || c->span.source->library)) c = c->up;
  return c;
}

vtb_span vtb_diags_own(const vtb_diags *d, vtb_span span) {
  const vtb_diag_call *own = own_call(d, span);
  return own ? own->span : span;
}

static bool same_place(vtb_span a, vtb_span b) {
  return a.source == b.source && a.begin == b.begin && a.end == b.end;
}

/* A call of a library says the same thing once, however many lines of the library find it. */
static bool said(const vtb_diags *d, int code, vtb_span at) {
  for (size_t i = 0; i < d->list.n; i++)
    if (d->list.at[i].code == code && same_place(d->list.at[i].span, at)) return true;
  return false;
}

/* From the user's call down to the place itself, outermost first. */
static void lead_down(vtb_diags *d, const vtb_diag_call *inner, const vtb_diag_call *own,
                      vtb_span to) {
  if (inner != own) lead_down(d, inner->up, own, inner->span);
  vtb_diag_note(d, to, "in %s", inner->callee);
}

/* From there to the first call, with the scopes, which tell rounds of a repeat apart. */
static void lead_up(vtb_diags *d, const vtb_diag_call *c) {
  for (int n = 0; c; c = c->up, n++) {
    if (n == MAX_CALLS_SHOWN) {
      vtb_diag_note(d, VTB_NO_SPAN, "and from further calls around these");
      return;
    }
    bool scoped = c->scope && *c->scope;
    vtb_diag_note(d, c->span, "%s is called from here%s%s", c->callee, scoped ? ", in scope " : "",
                  scoped ? c->scope : "");
  }
}

static void add(vtb_diags *d, vtb_severity severity, int code, vtb_span span, const char *fmt,
                va_list ap) {
  if (severity == VTB_SEV_ERROR) d->n_errors++;
  if (full(d)) return; /* notes and help of a dropped error are dropped with it */
  bool message = severity <= VTB_SEV_WARNING;
  const vtb_diag_call *own = message ? own_call(d, span) : NULL;
  if (message) d->muted = own && said(d, code, own->span);
  if (d->muted) return;
  vtb_strbuf text = {0};
  vtb_strbuf_vprintf(&text, fmt, ap);
  if (!text.at) vtb_strbuf_puts(&text, "");
  vtb_diag diag = {severity, code, own ? own->span : span, text.at ? text.at : vtb_xstrdup("")};
  vtb_vec_push(&d->list, diag);
  if (own) lead_down(d, d->calls, own, span);
  const vtb_diag_call *around = own ? own->up : d->calls;
  if (around && same_place(around->span, span)) around = around->up; /* of the call itself */
  if (message && span.source) lead_up(d, around);
}

void vtb_diag_say(vtb_diags *d, vtb_severity severity, int code, vtb_span span, const char *fmt,
                  ...) {
  va_list ap;
  va_start(ap, fmt);
  add(d, severity, code, span, fmt, ap);
  va_end(ap);
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
