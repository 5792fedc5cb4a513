/* Sweeps: `vertebra bench` of every combination of listed options, as a study that leaves no folder
 * (frontend/study). A cell is a process that runs an ordinary `vertebra bench ... --json`. */
#ifndef VTB_CLI_BENCH_SWEEP_H
#define VTB_CLI_BENCH_SWEEP_H

#include "frontend/cli/bench/bench.h"
#include "frontend/study/ranking.h"
#include "frontend/study/rounds.h"

typedef struct bench_cell {
  study_settings settings;
  char *command; /* as it can be pasted */
  study_times times;
  cJSON *document; /* of its best round; NULL: none */
  int status;      /* of the process that failed, VTB_OK: none did */
  char *message;   /* why */
} bench_cell;

typedef struct bench_sweep {
  const bench_options *options;
  study study;
  study_cells cells;
  bench_cell *at;        /* one a cell */
  cJSON *told;           /* what is told of each cell, once it is judged; a list, owned */
  double *ms;            /* one a cell: an image at best; NAN: not measured */
  study_ranking ranking; /* once it is judged */
  size_t repeated;       /* cells that had further rounds */
} bench_sweep;

/* True if an option is a list, or something is varied. */
bool bench_is_sweep(const bench_options *o);
/* One value of an option that may be a list. Usage errors are printed. */
VTB_MUST_USE int bench_take_value(bench_options *o, const char *name, const char *value);
/* Lists are taken for single values. Usage errors are printed. */
VTB_MUST_USE int bench_take_values(bench_options *o);
/* All of it: VTB_OK, or why cells failed. Errors are printed. */
VTB_MUST_USE vtb_status bench_sweep_run(const char *model, const bench_options *o);

/* ---- bench_table.c: what came of it ---------------------------------------------------------- */

/* When all is measured. */
void bench_sweep_judge(bench_sweep *s);
/* The document of a sweep; failures are said on stderr where a terminal shows it. */
doc *bench_sweep_document(const bench_sweep *s);

#endif
