/* malloc() and its like of the whole test process, libraries included, with a countdown: the n-th
 * call fails, and no other. Likewise pthread_create(), after so many threads. To be included by one
 * file of a test program. Works below AddressSanitizer too, whose malloc is the next one.
 *
 *   fail_nth(n); r = work(); bool reached = fail_off();   // reached: there was an n-th call
 */
#ifndef VTB_FAILING_MALLOC_H
#define VTB_FAILING_MALLOC_H

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* AddressSanitizer allocates before its shadow memory is there. */
#define RAW __attribute__((no_sanitize("address", "undefined")))

static _Atomic int64_t fail_countdown; /* 0 and below: off */

/* In the thread that asked, and in those that it starts while their own function runs: a sanitizer
 * that takes memory for a thread of its own accord cannot do without. */
static _Thread_local volatile bool fail_here;

static inline void fail_nth(int64_t n) {
  fail_here = true;
  atomic_store(&fail_countdown, n);
}
static inline bool fail_off(void) { return atomic_exchange(&fail_countdown, 0) <= 0; }

RAW static bool fails_now(void) {
  if (!fail_here || atomic_load(&fail_countdown) <= 0 || atomic_fetch_sub(&fail_countdown, 1) != 1)
    return false;
  errno = ENOMEM;
  return true;
}

/* dlsym() may allocate before the first of these is known: from here, never given back. */
static char early[1 << 14];
static size_t early_used;
RAW static void *take_early(size_t n) {
  void *p = early + early_used;
  early_used += (n + 15) & ~(size_t)15;
  if (early_used > sizeof early) {
    static const char words[] =
        "tests/failing_malloc.h: more is taken early than there is room for\n";
    (void)!write(2, words, sizeof words - 1);
    __builtin_trap();
  }
  return p;
}

#define NEXT(name)                                                                                 \
  static __typeof__(&name) next;                                                                   \
  static _Thread_local volatile bool looking;                                                      \
  if (!next && !looking) {                                                                         \
    looking = true;                                                                                \
    void *found = dlsym(RTLD_NEXT, #name);                                                         \
    memcpy(&next, &found, sizeof next);                                                            \
    looking = false;                                                                               \
  }

RAW void *malloc(size_t n) {
  NEXT(malloc)
  if (!next) return take_early(n);
  return fails_now() ? NULL : next(n);
}

RAW void *calloc(size_t count, size_t n) {
  NEXT(calloc)
  if (!next) return take_early(count * n); /* static memory is zero */
  return fails_now() ? NULL : next(count, n);
}

RAW void *realloc(void *p, size_t n) {
  NEXT(realloc)
  return fails_now() ? NULL : next(p, n);
}

RAW void *aligned_alloc(size_t align, size_t n) {
  NEXT(aligned_alloc)
  return fails_now() ? NULL : next(align, n);
}

RAW int posix_memalign(void **p, size_t align, size_t n) {
  NEXT(posix_memalign)
  return fails_now() ? ENOMEM : next(p, align, n);
}

RAW void free(void *p) {
  NEXT(free)
  bool is_early = (char *)p >= early && (char *)p < early + sizeof early;
  if (p && next && !is_early) next(p);
}

/* ---- threads --------------------------------------------------------------------------------- */

static atomic_int fail_threads_left = 1 << 20;

typedef struct fail_start {
  void *(*start)(void *);
  void *arg;
} fail_start;

static void *fail_run_thread(void *p) {
  fail_start s = *(fail_start *)p;
  free(p);
  fail_here = true;
  void *result = s.start(s.arg);
  fail_here = false;
  return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                   void *arg) {
  NEXT(pthread_create)
  if (atomic_fetch_sub(&fail_threads_left, 1) <= 0) return EAGAIN;
  bool here = fail_here;
  fail_here = false;
  fail_start *s = malloc(sizeof *s);
  fail_here = here;
  *s = (fail_start){start, arg};
  int error = next(thread, attr, fail_run_thread, s);
  if (error) free(s);
  return error;
}

#endif
