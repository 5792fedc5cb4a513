#include "frontend/cli/bench.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Seconds that the machine's cores worked, and that they could have, since it started; false:
 * /proc does not tell. */
static bool cores_worked(double *worked, double *could) {
  /* user, nice, system, idle, waiting, interrupts, soft ones, stolen by other machines */
  double t[8] = {0};
  FILE *f = fopen("/proc/stat", "r");
  if (!f) return false;
  int n = fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5],
                 &t[6], &t[7]);
  fclose(f);
  double all = 0, ticks = (double)sysconf(_SC_CLK_TCK);
  for (int i = 0; i < 8; i++) all += t[i];
  *worked = (all - t[3] - t[4]) / ticks;
  *could = all / ticks;
  return n >= 7;
}

static double own_seconds(void) {
  struct rusage u;
  if (getrusage(RUSAGE_SELF, &u) != 0) return 0;
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* What stands behind a name of /proc/self/status, in bytes; 0: it is not there. */
static int64_t own_memory(const char *name) {
  char line[256];
  long long kib = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (vtb_starts_with(line, name)) sscanf(line + strlen(name), ": %lld", &kib);
  if (f) fclose(f);
  return kib * 1024;
}

void bench_watch_begin(bench_watch *w) {
  *w = (bench_watch){.others = -1, .start = vtb_now(), .own = own_seconds()};
  if (!cores_worked(&w->worked, &w->could)) w->could = -1;
  /* the compiler's own peak is forgotten, where the system lets us */
  malloc_trim(0);
  FILE *f = fopen("/proc/self/clear_refs", "w");
  if (f) w->is_forgotten = fputs("5", f) >= 0;
  if (f && fclose(f) != 0) w->is_forgotten = false;
  struct rusage u;
  if (getrusage(RUSAGE_SELF, &u) == 0) w->peak_bytes = (int64_t)u.ru_maxrss * 1024;
}

void bench_watch_end(bench_watch *w) {
  /* the clock of /proc/stat ticks a hundred times a second */
  const double shortest = 0.2;
  double worked, could, elapsed = vtb_now() - w->start;
  if (w->could >= 0 && elapsed > shortest && cores_worked(&worked, &could) && could > w->could) {
    w->cores = (could - w->could) / elapsed;
    w->others = (worked - w->worked - (own_seconds() - w->own)) / elapsed;
    if (w->others < 0) w->others = 0;
  }
  int64_t peak = own_memory("VmHWM");
  if (w->is_forgotten) w->timed_peak_bytes = peak;
  struct rusage u;
  if (getrusage(RUSAGE_SELF, &u) == 0 && (int64_t)u.ru_maxrss * 1024 > w->peak_bytes)
    w->peak_bytes = (int64_t)u.ru_maxrss * 1024;
  if (peak > w->peak_bytes) w->peak_bytes = peak;
}

bool bench_watch_is_busy(const bench_watch *w, int threads) {
  return w->others > 0.2 && w->others + threads > w->cores + 0.2;
}
