/* The end of a measurement: its files, its comparison. */
#include "frontend/cli/bench/bench_output.h"

#include <string.h>

cJSON **bench_cells_of(cJSON *document, size_t *n) {
  cJSON *list = cJSON_GetObjectItemCaseSensitive(document, "cells"), *cell;
  *n = list ? (size_t)cJSON_GetArraySize(list) : 1;
  cJSON **cells = vtb_xcalloc(*n + 1, sizeof *cells);
  size_t i = 0;
  if (!list) cells[0] = document;
  cJSON_ArrayForEach(cell, list) cells[i++] = cell;
  return cells;
}

static vtb_status write_csv(const char *path, cJSON *document) {
  vtb_error err = {0};
  vtb_strbuf text = {0};
  size_t n;
  cJSON **cells = bench_cells_of(document, &n);
  vtb_status status = VTB_OK;
  bench_csv_put(cells, n, &text);
  if (strcmp(path, "-") == 0)
    fwrite(text.at, 1, text.n, stdout);
  else
    status = vtb_file_write_atomic(path, text.at, text.n, &err);
  vtb_strbuf_free(&text);
  vtb_free(cells);
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}

vtb_status bench_finish(const bench_options *o, doc *d) {
  vtb_status status = o->csv ? write_csv(o->csv, d->json) : VTB_OK;
  if (status == VTB_OK && o->compare) status = bench_compare(o->compare, d);
  if (vtb_streq(o->csv, "-"))
    doc_free(d);
  else
    cli_tell(d);
  return status;
}
