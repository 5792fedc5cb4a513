#include "frontend/report/page.h"

vtb_status report_page(const cJSON *results, vtb_strbuf *out, vtb_error *err) {
  if (!cJSON_IsObject(results)) return vtb_fail(err, VTB_E_INPUT, "no document of results");
  vtb_strbuf_puts(out, "<!doctype html>\n<title>report</title>\n");
  return VTB_OK;
}
