#include "frontend/report/sections.h"
bool sec_scaling(const rp_report *r, vtb_strbuf *out) {
  (void)r;
  (void)out;
  return false;
}
