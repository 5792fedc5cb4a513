/* Guards: where memory that runs out becomes a status, with everything freed that was taken. */
#include "runtime/base/base.h"
#include "tests/failing_malloc.h"
#include "tests/test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a piece of work that uses all that never fails ------------------------------------------ */

typedef struct work {
  vtb_arena *arena; /* outlives the work */
  int undone, done;
  bool inner_failed;
} work;

static void undo(void *what) { ((work *)what)->undone++; }

static vtb_status strings_and_maps(void *arg, vtb_error *err) {
  (void)arg;
  (void)err;
  vtb_map m = {0};
  vtb_strbuf s = {0};
  VTB_VEC(char *) names = {0};
  for (int i = 0; i < 40; i++) {
    s.n = 0;
    vtb_strbuf_printf(&s, "name number %d of many", i);
    vtb_map_set(&m, s.at, &m);
    vtb_vec_push(&names, vtb_xstrdup(s.at));
  }
  for (size_t i = 0; i < names.n; i++) vtb_free(names.at[i]);
  vtb_vec_free(&names);
  vtb_strbuf_free(&s);
  vtb_map_free(&m);
  return VTB_OK;
}

static vtb_status everything(void *arg, vtb_error *err) {
  work *w = arg;
  vtb_arena mine;
  vtb_arena_init(&mine);
  vtb_defer(undo, w);
  int *numbers = vtb_xcalloc(100, sizeof *numbers);
  numbers = vtb_xrealloc(numbers, 20000, sizeof *numbers);
  for (int i = 0; i < 5; i++) memset(vtb_arena_alloc(&mine, 40000), 1, 40000);
  vtb_error inner = {0};
  w->inner_failed = vtb_guard(strings_and_maps, NULL, &inner) != VTB_OK;
  if (w->inner_failed) CHECK(strstr(inner.text, "out of memory") != NULL);
  CHECK(numbers[99] == 0); /* an inner guard leaves the outer one's memory alone */
  numbers[99] = 7;
  vtb_free(numbers);
  vtb_arena_free(&mine);
  vtb_forget(w);
  w->done++;
  return err->text[0] ? VTB_E_INPUT : VTB_OK;
}

/* Every allocation in turn. What is not freed is found by LeakSanitizer. */
TEST(each_allocation_that_fails_is_a_status) {
  int failures = 0, inner = 0;
  for (int64_t n = 1;; n++) {
    work w = {0};
    vtb_error err = {0};
    fail_nth(n);
    vtb_status status = vtb_guard(everything, &w, &err);
    bool reached = fail_off();
    CHECK(status == (w.done ? VTB_OK : VTB_E_MEMORY));
    CHECK(w.done || strstr(err.text, "out of memory") != NULL);
    CHECK(w.undone <= !w.done);
    failures += !w.done;
    inner += w.inner_failed;
    if (!reached) break;
  }
  CHECK(failures > 5 && inner > 40);
}

/* ---- what is kept, what is not --------------------------------------------------------------- */

static vtb_status takes_and_fails(void *arg, vtb_error *err) {
  (void)err;
  VTB_VEC(int) *v = arg;
  (void)v;
  (void)vtb_xstrdup("lost");
  fail_nth(1);
  (void)vtb_xstrdup("not there");
  return VTB_OK;
}

static vtb_status takes_and_returns(void *arg, vtb_error *err) {
  char **out = arg;
  *out = vtb_xstrdup("kept");
  return vtb_fail(err, VTB_E_INPUT, "a status of its own");
}

typedef struct keeper {
  char *before, *from_inner;
} keeper;

static vtb_status keeps_what_inner_returned(void *arg, vtb_error *err) {
  keeper *k = arg;
  vtb_error inner = {0};
  CHECK(vtb_guard(takes_and_returns, &k->from_inner, &inner) == VTB_E_INPUT);
  CHECK_STR(inner.text, "a status of its own");
  CHECK(vtb_guard(takes_and_fails, NULL, &inner) == VTB_E_MEMORY);
  CHECK_STR(k->from_inner, "kept");               /* a later inner guard does not take it back */
  k->before = vtb_xrealloc(k->before, 100000, 1); /* and nobody what was there before */
  (void)err;
  fail_nth(1);
  (void)vtb_xmalloc(1); /* this guard does: from_inner is freed */
  return VTB_OK;
}

TEST(what_is_taken_belongs_to_the_guard_until_it_returns) {
  keeper k = {.before = strdup("was there")};
  vtb_error err = {0};
  CHECK(vtb_guard(keeps_what_inner_returned, &k, &err) == VTB_E_MEMORY);
  CHECK_STR(k.before, "was there");
  free(k.before);
  char *kept = NULL;
  CHECK(vtb_guard(takes_and_returns, &kept, NULL) == VTB_E_INPUT);
  CHECK_STR(kept, "kept");
  vtb_free(kept); /* outside of guards it is free() */
}

/* ---- what is deferred ------------------------------------------------------------------------ */

static int order[3], n_order;
static void note(void *what) { order[n_order++] = *(int *)what; }

static vtb_status defers(void *arg, vtb_error *err) {
  int numbers[3] = {1, 2, 3}; /* of this frame, which still stands when they are undone */
  (void)err;
  for (int i = 0; i < 3; i++) vtb_defer(note, &numbers[i]);
  vtb_forget(&numbers[1]);
  if (arg) vtb_bug("number %d", 4);
  return VTB_OK;
}

TEST(deferred_actions_are_undone_the_latest_first) {
  vtb_error err = {0};
  CHECK(vtb_guard(defers, NULL, &err) == VTB_OK && n_order == 0);
  CHECK(vtb_guard(defers, &err, &err) == VTB_E_INTERNAL);
  CHECK(n_order == 2 && order[0] == 3 && order[1] == 1);
  CHECK(strstr(err.text, "internal error at ") && strstr(err.text, "number 4"));
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *guarded_thread(void *arg) {
  vtb_error err = {0};
  for (int i = 0; i < 200; i++) {
    work w = {0};
    if (vtb_guard(everything, &w, &err) != VTB_OK) *(int *)arg = 1;
  }
  return NULL;
}

TEST(guards_are_of_their_threads) {
  pthread_t threads[2];
  int bad[2] = {0};
  for (int i = 0; i < 2; i++) CHECK(!pthread_create(&threads[i], NULL, guarded_thread, &bad[i]));
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  CHECK(!bad[0] && !bad[1]);
}

/* ---- the checked family ---------------------------------------------------------------------- */

TEST(the_checked_family_says_so) {
  vtb_arena a;
  vtb_map m = {0};
  VTB_VEC(int) v = {0};
  vtb_strbuf s = VTB_CHECKED_STRBUF;
  vtb_error err = {0};
  vtb_arena_init(&a);
  fail_nth(1);
  CHECK(vtb_arena_try(&a, 3, 8) == NULL);
  fail_nth(1);
  CHECK(!vtb_vec_try_push(&v, 1) && v.n == 0);
  for (int n = 1; n <= 3; n++) {
    fail_nth(n);
    CHECK(!vtb_map_try_set(&m, "key", &m));
    CHECK(!vtb_map_has(&m, "key"));
    vtb_map_free(&m);
  }
  fail_nth(1);
  vtb_strbuf_puts(&s, "text");
  vtb_strbuf_printf(&s, "%d", 7);
  CHECK(s.failed && s.n == 0);
  CHECK_STR(vtb_strbuf_text(&s), "");
  CHECK(vtb_strbuf_check(&s, &err) == VTB_E_MEMORY);
  CHECK_STR(err.text, "out of memory for text");
  fail_nth(1);
  CHECK(vtb_strprintf("%d", 1) == NULL);
  fail_off();
  CHECK(vtb_arena_try(&a, 3, 8) && vtb_vec_try_push(&v, 1) && vtb_map_try_set(&m, "key", &m));
  CHECK(vtb_arena_try(&a, SIZE_MAX / 2, 8) == NULL);
  vtb_strbuf_free(&s);
  CHECK_STR(vtb_strbuf_format(&s, "%d", 7), "7");
  vtb_strbuf_free(&s);
  vtb_vec_free(&v);
  vtb_map_free(&m);
  vtb_arena_free(&a);
}

/* ---- without a guard ------------------------------------------------------------------------- */

static void breaks(void) { vtb_check(order[0] < 0, "order %d is below %d", 7, 0); }
static void asks_for_too_much(void) { (void)vtb_xmalloc(SIZE_MAX / 2); }

/* What a process says on its standard error before it breaks off; it must not end well. */
static void last_words(void (*breaks_off)(void), char *out, size_t size) {
  int ends[2], status = 0;
  CHECK(pipe(ends) == 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    breaks_off();
    _exit(0);
  }
  close(ends[1]);
  size_t n = 0;
  for (ssize_t got; (got = read(ends[0], out + n, size - 1 - n)) > 0;) n += (size_t)got;
  out[n] = '\0';
  close(ends[0]);
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

TEST(a_broken_invariant_outside_of_guards_says_which) {
  char said[2048];
  last_words(breaks, said, sizeof said);
  CHECK_MSG(strstr(said, "internal error at ") && strstr(said, "test_guard.c:") &&
                strstr(said, ": order 7 is below 0\n"),
            "%s", said);
  last_words(asks_for_too_much, said, sizeof said);
  CHECK_MSG(strstr(said, "out of memory (a request for "), "%s", said);
}

int main(void) {
  RUN(each_allocation_that_fails_is_a_status);
  RUN(what_is_taken_belongs_to_the_guard_until_it_returns);
  RUN(deferred_actions_are_undone_the_latest_first);
  RUN(guards_are_of_their_threads);
  RUN(the_checked_family_says_so);
  RUN(a_broken_invariant_outside_of_guards_says_which);
  return test_done();
}
