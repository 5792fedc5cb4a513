/* Places and diagnostics of text that is being parsed. */
#include "frontend/lang/parse.h"

#include "ir/diag_codes.h"

vtb_span vtb__span(const vtb_parse *p, vtb_loc loc) {
  return (vtb_span){.source = p->source, .begin = loc.begin, .end = loc.end};
}

void vtb__error(vtb_parse *p, vtb_loc loc, int code, const char *fmt, ...) {
  vtb_strbuf text = {0};
  va_list ap;
  va_start(ap, fmt);
  vtb_strbuf_vprintf(&text, fmt, ap);
  va_end(ap);
  p->unit->has_syntax_errors = true;
  vtb_diag_error(p->diags, code, vtb__span(p, loc), "%s", text.at ? text.at : "");
  vtb_strbuf_free(&text);
}

void vtb__report_exhausted(vtb_parse *p, vtb_loc loc) {
  if (p->give_up) return;
  vtb__error(p, loc, VTB_DIAG_NESTING_TOO_DEEP, "nested more than %d deep", VTB_MAX_NESTING);
  p->give_up = true;
}
