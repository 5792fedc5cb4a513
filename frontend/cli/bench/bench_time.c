/* Timed runs of a program. */
#include "frontend/cli/bench/bench.h"
#include "frontend/study/statistics.h"

#include <stdlib.h>
#include <time.h>

enum { LONG = 3 }; /* times the seconds that were asked for: then two runs do instead of five */

static double processor_seconds(void) {
  struct timespec t = {0};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

vtb_status bench_time(const vtb_program *p, void **buffers, void *workspace, const vtb_services *s,
                      int64_t runs, double seconds, vtb_optim *u, bench_timing *out,
                      vtb_error *err) {
  vtb_status status = VTB_OK;
  double begun = vtb_now();
  vtb_services_keep(s, true);
  for (int i = 0; i < 2 && status == VTB_OK && (i == 0 || vtb_now() - begun < seconds); i++)
    status = vtb_program_execute(p, buffers, workspace, s, err);
  /* an update that was left out, since gradients were not finite, is no measure */
  if (status == VTB_OK && u) status = vtb_optim_judge(u, 0, NULL, NULL, err);
  vtb_program_keep(p, ~0u); /* a device's own time, without copies from and to the host */
  VTB_VEC(double) times = {0};
  double start = vtb_now(), sum = 0, least = 0;
  while (status == VTB_OK && times.n < (size_t)(runs > 0 ? runs : 1000) &&
         (runs > 0 || vtb_now() - start < seconds ||
          times.n < (vtb_now() - start < LONG * seconds ? 5u : 2u))) {
    double cpu = processor_seconds(), t = vtb_now();
    status = vtb_program_execute(p, buffers, workspace, s, err);
    vtb_vec_push(&times, vtb_now() - t);
    cpu = processor_seconds() - cpu;
    if (times.n == 1 || cpu < least) least = cpu;
    sum += times.at[times.n - 1];
  }
  if (status == VTB_OK)
    *out = (bench_timing){study_least(times.at, times.n), study_median(times.at, times.n),
                          sum / (double)times.n, least, (int64_t)times.n};
  vtb_services_keep(s, false);
  vtb_vec_free(&times);
  return status;
}

static double median_of(const bench_timing *rounds, size_t n, bool of_bests) {
  double *times = vtb_xcalloc(n, sizeof *times);
  for (size_t i = 0; i < n; i++) times[i] = of_bests ? rounds[i].best : rounds[i].median;
  double median = study_median(times, n);
  vtb_free(times);
  return median;
}

bench_timing bench_join(const bench_timing *rounds, size_t n) {
  bench_timing all = rounds[0];
  all.mean *= (double)all.runs;
  for (size_t i = 1; i < n; i++) {
    if (rounds[i].best < all.best) all.best = rounds[i].best;
    if (rounds[i].cpu < all.cpu) all.cpu = rounds[i].cpu;
    all.mean += rounds[i].mean * (double)rounds[i].runs;
    all.runs += rounds[i].runs;
  }
  all.mean /= (double)all.runs;
  all.median = median_of(rounds, n, false);
  return all;
}

double bench_spread(const bench_timing *rounds, size_t n) {
  double best = bench_join(rounds, n).best;
  return (median_of(rounds, n, n > 1) - best) / best;
}

static int by_seconds(const void *a, const void *b) {
  double x = ((const bench_row *)a)->seconds, y = ((const bench_row *)b)->seconds;
  return (x < y) - (x > y);
}

vtb_status bench_profile(const vtb_program *p, void **buffers, void *workspace, int64_t threads,
                         double seconds, bench_row **rows, int *n, vtb_error *err) {
  vtb_services *profiling = vtb_need(vtb_services_profiling((int)threads, p->n_kernels));
  double start = vtb_now();
  vtb_services_keep(profiling, true);
  vtb_status status = vtb_program_execute(p, buffers, workspace, profiling, err);
  int rounds = vtb_now() - start < seconds ? 5 : 1;
  if (rounds > 1) vtb_services_reset_times(profiling); /* else the first one has to do */
  for (int i = 0; i < rounds && rounds > 1 && status == VTB_OK; i++)
    status = vtb_program_execute(p, buffers, workspace, profiling, err);
  const vtb_kernel_time *times = vtb_services_times(profiling, n);
  *rows = vtb_xcalloc((size_t)*n + 1, sizeof **rows);
  int timed = 0; /* kernels inside others are not launched, nor prepared ones again */
  for (int i = 0; i < *n; i++)
    if (p->kernels[i].launches > 0 && times[i].launches > 0)
      (*rows)[timed++] = (bench_row){&p->kernels[i], times[i].seconds / rounds};
  *n = timed;
  qsort(*rows, (size_t)*n, sizeof **rows, by_seconds);
  vtb_services_free(profiling);
  return status;
}
