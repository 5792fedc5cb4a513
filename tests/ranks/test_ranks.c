/* Ranks as threads of this process: sums in the order of the ranks, bit for bit and for any size of
 * buckets; copies and gathers; ranks that fail, do not come, do not answer. */
#include "runtime/ranks/internal.h"
#include "runtime/launch/threads.h"
#include "tests/test.h"

#include <unistd.h>

enum { MOST = 8 };

typedef struct world {
  int n;
  vtb_ranks *ranks[MOST];
} world;
typedef struct player {
  world *w;
  int rank;
  vtb_ranks *r;
  void (*play)(struct player *p);
  vtb_error err;
  vtb_status status;
  bool good;
} player;

static void *run_player(void *arg) {
  player *p = arg;
  p->play(p);
  vtb_ranks_close(p->r);
  return NULL;
}

/* Everybody plays on a thread of its own. */
static void play(int n, const vtb_ranks_options *o, void (*fn)(player *), player out[MOST]) {
  world w = {.n = n};
  vtb_error err = {0};
  pthread_t threads[MOST];
  CHECK_MSG(vtb_ranks_open_threads(n, o, w.ranks, &err) == VTB_OK, "%s", err.text);
  if (err.status != VTB_OK) return;
  for (int i = 0; i < n; i++) {
    out[i] = (player){.w = &w, .rank = i, .r = w.ranks[i], .play = fn, .good = true};
    CHECK(pthread_create(&threads[i], NULL, run_player, &out[i]) == 0);
  }
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static void play_well(int n, const vtb_ranks_options *o, void (*fn)(player *)) {
  player out[MOST];
  play(n, o, fn, out);
  for (int i = 0; i < n; i++)
    CHECK_MSG(out[i].good && out[i].err.status == VTB_OK, "n %d, rank %d: %s", n, i,
              out[i].err.text);
}

/* A number of a rank at a place, of any size; their sums depend on the order. */
static float number(int rank, int64_t at) {
  unsigned long long seed = (unsigned long long)(at * 31 + rank + 1) * 0x9e3779b97f4a7c15ull;
  double x = test_random(&seed);
  return (float)(x * exp(8 * test_random(&seed)));
}

static float sum_in_order(int n, int64_t at) {
  float sum = number(0, at);
  for (int q = 1; q < n; q++) sum += number(q, at);
  return sum;
}

/* Tensors one behind the other, poisoned between. */
static const int64_t sizes[] = {1, 3, 16, 17, 0, 1000, 7, 4097, 2, 64};
enum { N_SIZES = sizeof sizes / sizeof *sizes, ROOM = 6000 };
#define POISON (-12345.5f)

static void sum_tensors(player *p) {
  float *at[N_SIZES], *memory = malloc(ROOM * sizeof *memory);
  int64_t place = 0;
  for (int i = 0; i < ROOM; i++) memory[i] = POISON;
  for (int round = 0; round < 3; round++) {
    place = 1;
    for (int t = 0; t < N_SIZES; t++) {
      at[t] = memory + place;
      for (int64_t i = 0; i < sizes[t]; i++) at[t][i] = number(p->rank, place + i + round);
      p->good = p->good && !vtb_ranks_sum_begin(p->r, at[t], sizes[t], &p->err);
      place += sizes[t] + 3;
      if (t == 5 && round == 1) p->good = p->good && !vtb_ranks_sum_wait(p->r, &p->err);
    }
    p->good = p->good && !vtb_ranks_sum_wait(p->r, &p->err);
    place = 1;
    for (int t = 0; t < N_SIZES; t++) {
      for (int64_t i = 0; i < sizes[t]; i++)
        p->good = p->good && at[t][i] == sum_in_order(p->w->n, place + i + round);
      place += sizes[t] + 3;
      for (int i = 1; i <= 3; i++) p->good = p->good && memory[place - i] == POISON;
    }
  }
  free(memory);
}

TEST(sums_are_in_the_order_of_ranks_for_any_bucket) {
  const int64_t buckets[] = {4, 68, 1000, 4096, 0};
  for (int n = 1; n <= MOST; n++)
    for (size_t b = n < 4 ? 0 : 1; b < sizeof buckets / sizeof *buckets; b++)
      play_well(n, &(vtb_ranks_options){.bucket_bytes = buckets[b]}, sum_tensors);
}

static void share_tensors(player *p) {
  enum { N = 300 };
  float x[MOST][N + 1];
  int n = p->w->n;
  for (int q = 0; q < n; q++) {
    for (int i = 0; i <= N; i++) x[q][i] = q == p->rank ? number(q, i) : POISON;
    p->good = p->good && !vtb_ranks_share_begin(p->r, q, x[q], N / 2, &p->err);
  }
  for (int q = n - 1; q >= 0; q--)
    p->good = p->good && !vtb_ranks_share_begin(p->r, q, x[q] + N / 2, N - N / 2, &p->err);
  p->good = p->good && !vtb_ranks_sum_wait(p->r, &p->err);
  for (int q = 0; q < n; q++) {
    for (int i = 0; i < N; i++) p->good = p->good && x[q][i] == number(q, i);
    p->good = p->good && x[q][N] == (q == p->rank ? number(q, N) : POISON);
  }
  p->good = p->good && vtb_ranks_share_begin(p->r, n, x[0], 1, NULL) == VTB_E_USAGE;
}

TEST(owners_share_what_they_have) {
  for (int n = 2; n <= 5; n++) {
    play_well(n, &(vtb_ranks_options){.bucket_bytes = 260}, share_tensors);
    play_well(n, NULL, share_tensors);
  }
}

static void small_things(player *p) {
  int n = p->w->n, last = n - 1;
  double x[3] = {p->rank == 0 ? 1e16 : 1, p->rank, -p->rank - 1.0}, y[2] = {p->rank, 7};
  double sum = 1e16;
  for (int q = 1; q < n; q++) sum += 1;
  p->good = !vtb_ranks_sum(p->r, x, 3, &p->err);
  p->good = p->good && x[0] == sum && x[1] == n * last / 2 && x[2] == -n * (n + 1) / 2;
  if (p->rank == last) y[1] = NAN;
  p->good = p->good && !vtb_ranks_max(p->r, y, 2, &p->err) && y[0] == last && isnan(y[1]);
  char text[5] = "?", all[MOST * 3 + 1] = "", mine[4] = "a0:";
  if (p->rank == last) memcpy(text, "word", 5);
  p->good = p->good && !vtb_ranks_broadcast(p->r, last, text, 5, &p->err) && !strcmp(text, "word");
  mine[1] = (char)('0' + p->rank);
  p->good =
      p->good && !vtb_ranks_gather(p->r, last, mine, 3, p->rank == last ? all : NULL, &p->err);
  p->good = p->good && !strncmp(all, "a0:a1:a2:a3:", p->rank == last ? 3 * (size_t)n : 0);
  p->good = p->good && !vtb_ranks_broadcast(p->r, 0, NULL, 0, &p->err) && !p->err.status;
}

TEST(sums_and_copies_of_little) {
  for (int n = 1; n <= 4; n++) play_well(n, NULL, small_things);
}

static void gather_much(player *p) {
  const int64_t n = (9 << 20) + 5;
  char *mine = malloc((size_t)n), *all = p->rank ? NULL : malloc(2 * (size_t)n);
  memset(mine, 'a' + p->rank, (size_t)n);
  p->good = !vtb_ranks_gather(p->r, 0, mine, n, all, &p->err);
  if (all)
    for (int64_t i = 0; i < 2 * n; i++) p->good = p->good && all[i] == (i < n ? 'a' : 'b');
  free(mine);
  free(all);
}

TEST(large_gathers_come_in_pieces) { play_well(2, NULL, gather_much); }

TEST(nobody_is_a_job_of_one) {
  double x = 3;
  float f = 2;
  int copy = 0;
  vtb_ranks_stats stats;
  CHECK(vtb_ranks_rank(NULL) == 0 && vtb_ranks_count(NULL) == 1);
  CHECK(vtb_ranks_sum(NULL, &x, 1, NULL) == VTB_OK && x == 3);
  CHECK(vtb_ranks_sum_begin(NULL, &f, 1, NULL) == VTB_OK && f == 2);
  CHECK(vtb_ranks_sum_wait(NULL, NULL) == VTB_OK);
  CHECK(vtb_ranks_gather(NULL, 0, &(int){5}, sizeof copy, &copy, NULL) == VTB_OK && copy == 5);
  vtb_ranks_get_stats(NULL, &stats);
  CHECK(stats.bytes == 0);
  vtb_ranks_fail(NULL, VTB_E_INPUT, "nobody hears");
  vtb_ranks_close(NULL);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void fail_in_the_middle(player *p) {
  float x[100] = {0};
  double one = 1;
  p->status = vtb_ranks_sum(p->r, &one, 1, &p->err);
  if (p->rank == 1) {
    vtb_ranks_fail(p->r, VTB_E_INPUT, "the disk is full");
    p->status = vtb_ranks_sum_begin(p->r, x, 100, &p->err);
    return;
  }
  p->status = vtb_ranks_sum_begin(p->r, x, 100, &p->err);
  if (p->status == VTB_OK) p->status = vtb_ranks_sum_wait(p->r, &p->err);
  vtb_error again = {0};
  p->good = vtb_ranks_broadcast(p->r, 0, &one, sizeof one, &again) == VTB_E_INPUT &&
            strcmp(again.text, p->err.text) == 0;
}

TEST(a_rank_that_fails_ends_the_others_with_its_sentence) {
  player out[MOST];
  double begin = vtb_now();
  char host[64], want[256];
  gethostname(host, sizeof host);
  snprintf(want, sizeof want, "rank 1 (%s, process %d): the disk is full", host, (int)getpid());
  play(4, NULL, fail_in_the_middle, out);
  for (int i = 0; i < 4; i++) {
    CHECK_MSG(out[i].status == VTB_E_INPUT && out[i].good, "rank %d", i);
    CHECK_STR(out[i].err.text, i == 1 ? "the disk is full" : want);
  }
  CHECK(vtb_now() - begin < 15);
}

static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
static char told[2048];
static void tell(void *user, const char *text) {
  (void)user;
  pthread_mutex_lock(&told_lock);
  strncat(told, text, sizeof told - strlen(told) - 2);
  strcat(told, "\n");
  pthread_mutex_unlock(&told_lock);
}
static bool was_told(const char *text) {
  pthread_mutex_lock(&told_lock);
  bool found = strstr(told, text) != NULL;
  pthread_mutex_unlock(&told_lock);
  return found;
}

static void freeze_one(player *p) {
  double one = 1;
  p->good = !vtb_ranks_sum(p->r, &one, 1, &p->err);
  if (p->rank == 2) {
    atomic_store(&p->r->frozen, true);
    for (int i = 0; i < 500 && !was_told("not answered"); i++) usleep(10000);
    atomic_store(&p->r->frozen, false);
  }
  p->good = p->good && !vtb_ranks_sum(p->r, &one, 1, &p->err) && one == 9;
}

TEST(a_silent_rank_is_named_once_and_may_come_back) {
  *told = '\0';
  play_well(3, &(vtb_ranks_options){.name_seconds = 0.4, .warn = tell}, freeze_one);
  char *first = strstr(told, "has not answered for 0.");
  CHECK_MSG(first && strncmp(told, "rank 2 (", 8) == 0, "%s", told);
  CHECK_MSG(first && !strstr(first + 1, "has not answered"), "%s", told);
}

static void never_thaw(player *p) {
  double one = 1;
  if (p->rank == 0) {
    atomic_store(&p->r->frozen, true);
    usleep(1500000);
    atomic_store(&p->r->frozen, false);
  }
  p->status = vtb_ranks_sum(p->r, &one, 1, &p->err); /* what the others sent before may do */
  if (p->status == VTB_OK) p->status = vtb_ranks_sum(p->r, &one, 1, &p->err);
}

TEST(patience_ends_the_job) {
  player out[MOST];
  *told = '\0';
  play(3, &(vtb_ranks_options){.name_seconds = 0.3, .patience_seconds = 1, .warn = tell},
       never_thaw, out);
  for (int i = 0; i < 3; i++)
    CHECK_MSG(out[i].status == VTB_E_DEVICE && strstr(out[i].err.text, "rank 0") &&
                  strstr(out[i].err.text, "has not answered for 1"),
              "rank %d: %s", i, out[i].err.text);
  CHECK_MSG(strstr(told, "rank 0"), "the next one speaks for it: %s", told);
}

static void come_late(player *p) {
  double one = 1;
  for (int i = 0; p->rank == 1 && i < 500 && !was_told("answers, but"); i++) usleep(10000);
  p->good = !vtb_ranks_sum(p->r, &one, 1, &p->err);
}

TEST(a_rank_that_does_not_come_is_named_and_waited_for) {
  *told = '\0';
  play_well(2, &(vtb_ranks_options){.name_seconds = 0.1, .patience_seconds = 0.9, .warn = tell},
            come_late);
  CHECK_MSG(strstr(told, "rank 1") && strstr(told, "answers, but the others have waited"), "%s",
            told);
}

static int stops;
static void stop_twice(player *p) {
  double one = 1;
  if (p->rank == 1) {
    usleep(300000);
    __atomic_store_n(&stops, 2, __ATOMIC_RELAXED);
    usleep(500000);
  }
  p->status = vtb_ranks_sum(p->r, &one, 1, &p->err);
}

TEST(whoever_is_stopped_twice_waits_no_longer) {
  player out[MOST];
  stops = 0;
  play(2, &(vtb_ranks_options){.stop = &stops}, stop_twice, out);
  CHECK_MSG(out[0].status == VTB_E_DEVICE && strstr(out[0].err.text, "was asked to end"), "%s",
            out[0].err.text);
  CHECK(out[1].status == VTB_E_DEVICE);
}

static void leave_early(player *p) {
  double one = 1;
  p->status = VTB_OK;
  if (p->rank == 0) p->status = vtb_ranks_sum(p->r, &one, 1, &p->err);
}

TEST(a_rank_that_leaves_early_is_named) {
  player out[MOST];
  play(2, &(vtb_ranks_options){.name_seconds = 0.3}, leave_early, out);
  CHECK_MSG(out[0].status == VTB_E_DEVICE && strstr(out[0].err.text, "rank 1") &&
                strstr(out[0].err.text, "has left"),
            "%s", out[0].err.text);
}

/* ---- services, numbers ----------------------------------------------------------------------- */

static void use_services(player *p) {
  vtb_services *s = vtb_services_default(1);
  float x[40];
  vtb_ranks_stats stats;
  for (int i = 0; i < 40; i++) x[i] = number(p->rank, i);
  vtb_services_ranks(s, p->r);
  s->sum_begin(s, x, 40);
  s->sum_wait(s);
  for (int i = 0; i < 40; i++) p->good = p->good && x[i] == sum_in_order(p->w->n, i);
  vtb_services_ranks(s, NULL);
  p->good = p->good && !s->sum_begin && !s->sum_wait;
  vtb_services_free(s);
  vtb_ranks_get_stats(p->r, &stats);
  p->good = p->good && stats.buckets == 1 && stats.waited > 0 && stats.busy > 0 &&
            (stats.bytes == 160 || p->w->n != 2);
}

TEST(services_sum) {
  play_well(2, NULL, use_services);
  play_well(5, NULL, use_services);
}

TEST(buckets_and_shares_depend_on_sizes_alone) {
  CHECK(vtb__bucket_room(0, 10, 64) == 10 && vtb__bucket_room(60, 10, 64) == 4);
  for (int n = 1; n <= 9; n++)
    for (int64_t floats = 0; floats < 200; floats += 7) {
      CHECK(vtb__share_begin(floats, n, 0) == 0 && vtb__share_begin(floats, n, n) == floats);
      for (int q = 0; q < n; q++) {
        int64_t size = vtb__share_begin(floats, n, q + 1) - vtb__share_begin(floats, n, q);
        CHECK(size >= 0 && size <= (floats + 15) / 16 / n * 16 + 16);
      }
    }
}

TEST(wrong_numbers_of_ranks_are_refused) {
  vtb_ranks *r = NULL;
  vtb_error err = {0};
  CHECK(vtb_ranks_open_threads(0, NULL, &r, &err) == VTB_E_USAGE && !r);
}

int main(void) {
  alarm(120);
  RUN(buckets_and_shares_depend_on_sizes_alone);
  RUN(sums_are_in_the_order_of_ranks_for_any_bucket);
  RUN(owners_share_what_they_have);
  RUN(sums_and_copies_of_little);
  RUN(large_gathers_come_in_pieces);
  RUN(nobody_is_a_job_of_one);
  RUN(a_rank_that_fails_ends_the_others_with_its_sentence);
  RUN(a_silent_rank_is_named_once_and_may_come_back);
  RUN(patience_ends_the_job);
  RUN(a_rank_that_does_not_come_is_named_and_waited_for);
  RUN(whoever_is_stopped_twice_waits_no_longer);
  RUN(a_rank_that_leaves_early_is_named);
  RUN(services_sum);
  RUN(wrong_numbers_of_ranks_are_refused);
  return test_done();
}
