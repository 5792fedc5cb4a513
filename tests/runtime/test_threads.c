#include "runtime/launch/trace.h"
#include "tests/runtime/support.h"

#include <pthread.h>

typedef struct coverage {
  int *hits;
  int64_t n, grain;
  int ranges;
  bool aligned;
  pthread_mutex_t lock;
} coverage;

static void cover(void *closure, int64_t begin, int64_t end) {
  coverage *c = closure;
  for (int64_t i = begin; i < end; i++) c->hits[i]++;
  pthread_mutex_lock(&c->lock);
  c->ranges++;
  if (begin % c->grain || (end % c->grain && end != c->n) || begin >= end) c->aligned = false;
  pthread_mutex_unlock(&c->lock);
}

TEST(every_index_is_run_once_in_ranges_of_whole_grains) {
  const int64_t sizes[] = {0, 1, 2, 7, 64, 65, 1000}, grains[] = {1, 3, 64};
  for (int threads = 1; threads <= 5; threads++) {
    vtb_services *s = vtb_services_default(threads);
    for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
      for (size_t b = 0; b < 3; b++) {
        coverage c = {calloc((size_t)sizes[a] + 1, sizeof(int)),
                      sizes[a],
                      grains[b],
                      0,
                      true,
                      PTHREAD_MUTEX_INITIALIZER};
        s->parallel(s, cover, &c, c.n, c.grain);
        bool once = true;
        for (int64_t i = 0; i < c.n; i++) once = once && c.hits[i] == 1;
        CHECK_MSG(once && c.aligned && c.ranges <= 4 * threads, "threads %d n %d grain %d", threads,
                  (int)c.n, (int)c.grain);
        free(c.hits);
      }
    vtb_services_free(s);
  }
}

typedef struct nested {
  const vtb_services *s;
  bool good;
} nested;

static void inner(void *closure, int64_t begin, int64_t end) {
  nested *n = closure;
  (void)begin, (void)end;
  memset(n->s->scratch(n->s, 4096), 0x22, 4096);
}

static void outer(void *closure, int64_t begin, int64_t end) {
  nested *n = closure;
  (void)begin, (void)end;
  unsigned char *mine = n->s->scratch(n->s, 100);
  if ((uintptr_t)mine % 64) n->good = false;
  memset(mine, 0x11, 100);
  n->s->parallel(n->s, inner, n, 4, 1); /* must not touch this task's scratch */
  for (int i = 0; i < 100; i++)
    if (mine[i] != 0x11) n->good = false;
  unsigned char *grown = n->s->scratch(n->s, 1 << 20);
  memset(grown, 0x33, 1 << 20);
  /* Outgrown memory stays the task's; a request that fits gives the same memory again. */
  if (mine[0] != (grown == mine ? 0x33 : 0x11)) n->good = false;
}

TEST(scratch_survives_nested_tasks_and_growth) {
  vtb_services *s = vtb_services_default(2);
  nested n = {s, true};
  unsigned char *base = s->scratch(s, 64);
  memset(base, 0x44, 64);
  for (int i = 0; i < 3; i++) s->parallel(s, outer, &n, 8, 1);
  CHECK(n.good);
  CHECK(base[0] == 0x44 && base[63] == 0x44);
  vtb_services_free(s);
}

static void make_denormal(void *closure, int64_t begin, int64_t end) {
  float *x = closure;
  volatile float tiny = 1e-38f;
  for (int64_t i = begin; i < end; i++) x[i] = tiny * 0.1f;
}

TEST(denormals_are_flushed_in_tasks_and_only_there) {
  vtb_services *s = vtb_services_default(2);
  float x[8];
  s->parallel(s, make_denormal, x, 8, 1);
  for (int i = 0; i < 8; i++) CHECK((double)x[i] == 0);
  volatile float tiny = 1e-38f;
  CHECK((double)(tiny * 0.1f) > 0);
  vtb_services_free(s);
}

TEST(profiling_sums_launches) {
  vtb_services *s = vtb_services_profiling(1, 2);
  for (int i = 0; i < 3; i++) {
    s->kernel_begin(s, 1);
    s->kernel_end(s, 1);
  }
  s->kernel_begin(s, 9); /* out of range: ignored */
  s->kernel_end(s, 9);
  int n;
  const vtb_kernel_time *t = vtb_services_times(s, &n);
  CHECK(n == 2 && t[0].launches == 0 && t[1].launches == 3 && t[1].seconds >= 0);
  s->kernel_took(s, 0, 10, 10.5);
  s->kernel_took(s, 0, 11, 11.25);
  s->kernel_took(s, 2, 1, 2);
  CHECK(t[0].launches == 2 && t[0].seconds == 0.75);
  vtb_services_reset_times(s);
  CHECK(t[1].launches == 0);
  vtb_services_free(s);
}

static void wait_a_little(void *closure, int64_t begin, int64_t end) {
  (void)closure;
  double until = vtb_now() + 1e-5 * (double)(end - begin);
  while (vtb_now() < until) continue;
}

/* Kernel 1 is in its launch's list once, and its 64 grains are among the parts of the threads, each
 * within the launch. */
TEST(a_trace_has_launches_and_what_each_thread_did_of_them) {
  enum { THREADS = 3 };
  vtb_services *s = vtb_services_profiling(THREADS, 2);
  vtb_trace *t = vtb_trace_new(THREADS, 100);
  s->kernel_begin(s, 0); /* before anybody looks */
  s->kernel_end(s, 0);
  vtb_services_trace(s, t);
  s->kernel_begin(s, 1);
  s->parallel(s, wait_a_little, NULL, 64, 1);
  s->kernel_end(s, 1);
  s->parallel(s, wait_a_little, NULL, 1, 1);
  vtb_services_trace(s, NULL);
  s->kernel_begin(s, 0); /* nor after */
  s->kernel_end(s, 0);
  CHECK(t->launches.n == 1 && t->launches.at[0].kernel == 1);
  const vtb_trace_event *launch = &t->launches.at[0];
  double worked = 0;
  size_t between = 0;
  for (int i = 0; i < THREADS; i++)
    for (size_t k = 0; k < t->parts[i].n; k++) {
      const vtb_trace_event *part = &t->parts[i].at[k];
      if (part->kernel < 0) between++;
      if (part->kernel < 0) continue;
      CHECK(part->kernel == 1 && part->begin >= launch->begin && part->end <= launch->end);
      worked += part->end - part->begin;
    }
  CHECK(between == 1);
  CHECK_MSG(worked >= 64e-5, "the parts last %g s", worked);
  vtb_trace_free(t);
  vtb_services_free(s);
}

TEST(a_trace_without_room_counts_what_it_leaves_out) {
  vtb_services *s = vtb_services_profiling(1, 1);
  vtb_trace *t = vtb_trace_new(1, 2);
  vtb_services_trace(s, t);
  for (int i = 0; i < 5; i++) {
    s->kernel_begin(s, 0);
    s->kernel_end(s, 0);
  }
  CHECK(t->launches.n == 5 && t->launches.most == 2);
  vtb_services_free(s);
  vtb_trace_free(t);
}

static void starve(void *const *args, void *workspace, const vtb_services *s) {
  (void)workspace;
  if (*(int *)args[0]) (void)s->scratch(s, INT64_MAX / 4);
}

/* A kernel that finds no memory fails its own run and no other. */
TEST(a_run_without_scratch_is_a_failure) {
  vtb_program p = {.entry = starve};
  vtb_services *s = vtb_services_default(1);
  int much = 1;
  void *args[] = {&much};
  CHECK_REFUSED(vtb_program_execute(&p, args, NULL, s, err), "scratch of a kernel");
  much = 0;
  CHECK_OK(vtb_program_execute(&p, args, NULL, s, err));
  vtb_services_free(s);
}

TEST(the_process_says_how_many_threads) {
  setenv("VTB_THREADS", "999", 1); /* which is for whoever reads the environment */
  int cores = vtb_default_threads();
  CHECK(cores >= 1 && cores != 999);
  unsetenv("VTB_THREADS");
  vtb_set_default_threads(cores + 3);
  CHECK(vtb_default_threads() == cores + 3);
  vtb_set_default_threads(0);
  CHECK(vtb_default_threads() == cores);
}

int main(void) {
  RUN(every_index_is_run_once_in_ranges_of_whole_grains);
  RUN(scratch_survives_nested_tasks_and_growth);
  RUN(denormals_are_flushed_in_tasks_and_only_there);
  RUN(profiling_sums_launches);
  RUN(a_trace_has_launches_and_what_each_thread_did_of_them);
  RUN(a_trace_without_room_counts_what_it_leaves_out);
  RUN(a_run_without_scratch_is_a_failure);
  RUN(the_process_says_how_many_threads);
  return test_done();
}
