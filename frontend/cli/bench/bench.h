/* Measurements of `vertebra bench`: runs of a program, its kernels, and the machine's own peak. */
#ifndef VTB_CLI_BENCH_H
#define VTB_CLI_BENCH_H

#include "frontend/cli/cli.h"
#include "frontend/cli/data/data.h"
#include "frontend/study/peak.h"

/* Options that may be lists, as they are typed; NULL: not given. */
typedef struct bench_lists {
  const char *image, *batch, *precision, *target, *threads, *mode, *chunk;
} bench_lists;

typedef struct bench_options {
  bench_lists lists;
  cli_list vary; /* "NAME=A,B" */
  cli_model_options model;
  cli_data_options data; /* its loading is measured instead of a model */
  int64_t runs, rounds, top;
  double seconds; /* of a round; below 0: not given */
  bool train, no_update;
  bool peers;         /* beside other libraries, */
  cli_list only;      /* of these names; none: all */
  const char *python; /* which runs them */
  bool peak;          /* the machine's own, alone or beside a model */
  bool calibrate;
  const char *output; /* of calibrate */
  const char *optimizer;
  const char *csv, *compare, *trace; /* files; NULL: not wanted */
} bench_options;

/* The parts of a run: "forward, backward, update". */
const char *bench_what_is_timed(const bench_options *o);

/* ---- bench_time.c: runs and kernels ---------------------------------------------------------- */

typedef struct bench_timing {
  double best, median, mean; /* seconds of a run */
  double cpu;                /* of the processor, at best, by all threads */
  int64_t runs;
} bench_timing;

/* How far times are from the best: the median of the rounds' bests or, of one round, of its runs,
 * beyond the best of all, as a part of that. */
double bench_spread(const bench_timing *rounds, size_t n);
/* The timing of all runs of the rounds: the best, the median of their medians. */
bench_timing bench_join(const bench_timing *rounds, size_t n);

/* Two runs that warm up, then `runs` of them or, if that is 0, at least 5 and as many as `seconds`
 * take. u: NULL without an update. */
VTB_MUST_USE vtb_status bench_time(const vtb_program *p, void **buffers, void *workspace,
                                   const vtb_services *s, int64_t runs, double seconds,
                                   vtb_optim *u, bench_timing *out, vtb_error *err);

typedef struct bench_row {
  const vtb_kernel_info *info;
  double seconds; /* its launches of one run */
} bench_row;

/* Time a kernel, longest first: the mean of five runs, or of one that takes longer than `seconds`.
 * *rows, of *n, is for vtb_free(). */
VTB_MUST_USE vtb_status bench_profile(const vtb_program *p, void **buffers, void *workspace,
                                      int64_t threads, double seconds, bench_row **rows, int *n,
                                      vtb_error *err);

/* ---- bench_peak.c: what the machine reaches -------------------------------------------------- */

enum { BENCH_PRODUCTS = 2, BENCH_COPIES = 4 }; /* sizes of each */
/* The peak of kernels that this compiler makes: a large product of matrices, and a copy. What a
 * copy reaches depends on whether its bytes stay in a cache, so that it is measured at several
 * sizes. */
typedef struct bench_peak {
  const char *target, *precision;
  int threads;
  study_peak rates; /* of all threads */
  double copy;      /* bytes read and written a second, far more than caches hold */
  double product_of_one, copy_of_one; /* of one thread; 0: the target is no processor */
} bench_peak;

/* In about a second, on the options' target with their threads and precision. Errors are
 * printed. */
VTB_MUST_USE vtb_status bench_peak_measure(const cli_model_options *o, bench_peak *out);
/* Sentences of the document, with members of an object. */
void bench_peak_tell(const bench_peak *p, doc *d, cJSON *out);

/* ---- bench_machine.c: what else happened meanwhile ------------------------------------------- */

typedef struct bench_watch {
  double others, cores; /* cores that other programs used, of so many; below 0: not known */
  /* The most memory that the process had at once, resident: since it began, with the compiler; and
   * while it was watched, 0 where the system does not tell. */
  int64_t peak_bytes, timed_peak_bytes;
  double start, own, busy; /* the state of the watch */
  bool is_forgotten;
} bench_watch;
void bench_watch_begin(bench_watch *w);
void bench_watch_end(bench_watch *w);
/* Other programs used cores that `threads` would have needed: times are upper bounds. */
bool bench_watch_is_busy(const bench_watch *w, int threads);

/* ---- bench_report.c -------------------------------------------------------------------------- */

/* Facts about the model itself. */
typedef struct bench_facts {
  const char *model;
  int64_t params;
  double macs; /* of an image, in the papers' count; 0: not known, of built files */
} bench_facts;

/* The result of measuring a program. */
typedef struct bench_result {
  bench_facts facts;
  const vtb_program *program;
  const bench_options *options;
  int threads;
  bench_timing timing; /* of all rounds */
  VTB_VEC(bench_timing) rounds;
  bench_watch watch;
  bench_row *rows; /* owned */
  int n_rows;
  double flops, bytes;    /* of a run */
  const bench_peak *peak; /* NULL: not asked for */
} bench_result;

/* On the screen, and as bench_output.h says. Errors are printed. */
VTB_MUST_USE vtb_status bench_report(const bench_result *r);

/* ---- bench_trace.c --------------------------------------------------------------------------- */

/* One more run of a program with calls around its kernels, into the file of the options. */
VTB_MUST_USE vtb_status bench_trace(const bench_result *r, const vtb_program *profiled,
                                    void **buffers, void *workspace, vtb_error *err);

#endif
