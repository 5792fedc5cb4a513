/* Small programs that measure a machine, and their time. */
#ifndef VTB_CLI_BENCH_SMALL_H
#define VTB_CLI_BENCH_SMALL_H

#include "frontend/cli/bench/bench.h"

typedef struct bench_small {
  const char *name, *text, *entry; /* the source, its name in messages, its model */
  const char *precision;           /* NULL: the options' */
  int height, width, dim;          /* tokens, and numbers of each: `image` and `dim` */
  int times;                       /* its hyperparameter `times`; 0: it has none */
  vtb_vendor_library library;
} bench_small;

/* On the options' target; errors are printed. */
VTB_MUST_USE vtb_status bench_small_compile(const cli_model_options *o, const bench_small *s,
                                            vtb_program **program);
/* Seconds of a run at best, measured for about `seconds`; errors are printed. */
VTB_MUST_USE vtb_status bench_small_best(const vtb_program *p, int64_t threads, double seconds,
                                         double *best, vtb_error *err);

/* bench_calibrate.c: the options' target is measured, and a description of it written (docs/
 * cuda_cost.md). What is not measured is --machine's. */
VTB_MUST_USE vtb_status bench_calibrate(const cli_model_options *o, const char *path);

#endif
