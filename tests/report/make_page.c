/* make_page RESULTS.json PAGE.html: the page of a document, without a study. */
#include "frontend/report/page.h"

#include <string.h>

int main(int argc, char **argv) {
  char *text = NULL;
  size_t n = 0;
  vtb_error err = {0};
  vtb_strbuf page = {0};
  if (argc != 3) return VTB_E_USAGE;
  vtb_status status = vtb_file_read(argv[1], (size_t)1 << 30, &text, &n, &err);
  cJSON *results = status == VTB_OK ? cJSON_ParseWithLength(text, n) : NULL;
  if (status == VTB_OK) status = report_page(results, &page, &err);
  if (status == VTB_OK) status = vtb_file_write_atomic(argv[2], page.at, page.n, &err);
  if (status != VTB_OK) fprintf(stderr, "make_page: %s\n", err.text);
  cJSON_Delete(results);
  vtb_strbuf_free(&page);
  vtb_free(text);
  return (int)status;
}
