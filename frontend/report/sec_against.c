#include "frontend/report/sections.h"
bool sec_against(const rp_report *r, vtb_strbuf *out) {
  (void)r;
  (void)out;
  return false;
}
