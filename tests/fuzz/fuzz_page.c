/* The page of a report: any document gives a well-formed page or an error. */
#include "frontend/report/page.h"
#include "tests/report/xml.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  cJSON *document = cJSON_ParseWithLength((const char *)data, n);
  vtb_strbuf out = {0};
  size_t at;
  if (document && report_page(document, &out, NULL) == VTB_OK)
    vtb_check(!xml_check(out.at, out.n, &at), "the page is no XML at byte %zu:\n%s", at, out.at);
  vtb_strbuf_free(&out);
  cJSON_Delete(document);
  return 0;
}
