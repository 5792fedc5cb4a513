/* The ways of a measurement besides the screen: a file of comma-separated values, and what has
 * changed since an earlier one. A document is that of `bench --json`: one cell, or `cells`. */
#ifndef VTB_CLI_BENCH_OUTPUT_H
#define VTB_CLI_BENCH_OUTPUT_H

#include "frontend/cli/bench/bench.h"

/* Writes o->csv, compares with o->compare, and tells the document, unless the CSV is what goes to
 * stdout. Takes it over. Errors are printed. */
VTB_MUST_USE vtb_status bench_finish(const bench_options *o, doc *d);

/* The cells of a document: borrowed, *n of them, for vtb_free(). */
cJSON **bench_cells_of(cJSON *document, size_t *n);

/* ---- bench_csv.c ----------------------------------------------------------------------------- */

/* Columns named as those of timm's benchmarks where they have the same. Appended to *out. */
void bench_csv_put(cJSON *const *cells, size_t n, vtb_strbuf *out);
/* Lines of such a table as a document with cells; NULL: it is none. */
cJSON *bench_csv_read(const char *text);

/* ---- bench_compare.c ------------------------------------------------------------------------- */

/* With a document of `bench`, such a table, or the results.json of a study. What has changed is
 * added to the document. Errors are printed. */
VTB_MUST_USE vtb_status bench_compare(const char *path, doc *d);

#endif
