/* A machine watched while it measures: what else runs on it. */
#include "frontend/cli/bench/bench.h"
#include "frontend/study/worker.h"

#include <malloc.h>
#include <sys/resource.h>

static double own_seconds(void) {
  struct rusage u;
  if (getrusage(RUSAGE_SELF, &u) != 0) return 0;
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

void bench_watch_begin(bench_watch *w) {
  *w = (bench_watch){.others = -1,
                     .cores = study_machine_cores(),
                     .start = vtb_now(),
                     .own = own_seconds(),
                     .busy = study_machine_busy(),
                     .peak_bytes = cli_peak_bytes()};
  /* the compiler's own peak is forgotten, where the system lets us */
  malloc_trim(0);
  FILE *f = fopen("/proc/self/clear_refs", "w");
  if (f) w->is_forgotten = fputs("5", f) >= 0;
  if (f && fclose(f) != 0) w->is_forgotten = false;
}

void bench_watch_end(bench_watch *w) {
  /* the clock of /proc/stat ticks a hundred times a second */
  const double shortest = 0.2;
  double busy = study_machine_busy(), elapsed = vtb_now() - w->start;
  if (w->busy >= 0 && busy >= 0 && elapsed > shortest) {
    w->others = (busy - w->busy - (own_seconds() - w->own)) / elapsed;
    if (w->others < 0) w->others = 0;
  }
  int64_t peak = cli_peak_bytes();
  if (w->is_forgotten) w->timed_peak_bytes = peak;
  if (peak > w->peak_bytes) w->peak_bytes = peak;
}

bool bench_watch_is_busy(const bench_watch *w, int threads) {
  return w->others > 0.2 && w->others + threads > w->cores + 0.2;
}
