/* One rank of a job, for test_mpi.sh: `mpirun -n 3 ranks_job sums`. What it says begins with its
 * rank; it ends with the status that its last call gave. */
#include "runtime/ranks/ranks.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static vtb_ranks *ranks;
static vtb_error err;
static volatile int stop;

/* Of a call whose error is in `err`. */
static void keep(vtb_status status) { (void)status; }
static void say(const char *text) { fprintf(stderr, "%d: %s\n", vtb_ranks_rank(ranks), text); }
/* Of a rank that is not open: its number is what its launcher gave it. */
static void say_unopened(const char *text) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  fprintf(stderr, "%s%s%s\n", rank ? rank : "", rank ? ": " : "", text);
}
static void warn(void *user, const char *text) {
  (void)user;
  fprintf(stderr, "%d: warning: %s\n", vtb_ranks_rank(ranks), text);
}
static void on_signal(int number) {
  (void)number;
  stop++;
}

static float number(int rank, int64_t at, int round) {
  return (float)(sin((double)(at + 7 * round) * (rank + 1)) *
                 exp2((double)((at * 13 + rank) % 40)));
}

/* 1 if a sum had other bits than those of the ranks' order. */
static bool sum_once(float *x, int64_t n, int round) {
  const int64_t cut = n / 3;
  int count = vtb_ranks_count(ranks), rank = vtb_ranks_rank(ranks);
  for (int64_t i = 0; i < n; i++) x[i] = number(rank, i, round);
  if (vtb_ranks_sum_begin(ranks, x, cut, &err) != VTB_OK ||
      vtb_ranks_sum_begin(ranks, x + cut, n - cut, &err) != VTB_OK ||
      vtb_ranks_sum_wait(ranks, &err) != VTB_OK)
    return false;
  for (int64_t i = 0; i < n; i++) {
    float want = number(0, i, round);
    for (int q = 1; q < count; q++) want += number(q, i, round);
    if (x[i] != want) {
      vtb_fail(&err, VTB_E_NUMBERS, "element %lld of round %d differs", (long long)i, round);
      return false;
    }
  }
  return true;
}

static void sums(int rounds, int64_t most) {
  float *x = malloc((size_t)most * sizeof *x);
  double top = vtb_ranks_rank(ranks), all[64] = {0};
  char word[6] = "";
  for (int i = 0; i < rounds && err.status == VTB_OK; i++) sum_once(x, most >> i % 18, i);
  if (err.status == VTB_OK) keep(vtb_ranks_max(ranks, &top, 1, &err));
  if (err.status == VTB_OK && top != vtb_ranks_count(ranks) - 1)
    vtb_fail(&err, VTB_E_NUMBERS, "the largest rank is not %g", top);
  if (vtb_ranks_rank(ranks) == 0) memcpy(word, "hello", 6);
  if (err.status == VTB_OK) keep(vtb_ranks_broadcast(ranks, 0, word, 6, &err));
  if (err.status == VTB_OK && strcmp(word, "hello") != 0)
    vtb_fail(&err, VTB_E_NUMBERS, "nobody said hello");
  if (err.status == VTB_OK) keep(vtb_ranks_gather(ranks, 0, &top, sizeof top, all, &err));
  free(x);
}

/* Sums until somebody ends it. Once a file of its own says that this rank has begun. */
static void loop(const char *folder) {
  char path[256];
  double x = 1;
  snprintf(path, sizeof path, "%s/%d", folder, vtb_ranks_rank(ranks));
  for (int i = 0; err.status == VTB_OK; i++) {
    FILE *f = i == 0 ? fopen(path, "w") : NULL;
    if (f) {
      fprintf(f, "%d\n", (int)getpid());
      fclose(f);
    }
    usleep(10000);
    double asked = stop;
    if (vtb_ranks_sum(ranks, &x, 1, &err) != VTB_OK || vtb_ranks_max(ranks, &asked, 1, &err) != 0)
      break;
    if (asked > 0) {
      say("stopped");
      break;
    }
  }
}

int main(int argc, char **argv) {
  const char *verb = argc > 1 ? argv[1] : "sums", *name = getenv("RANKS_NAME_SECONDS");
  vtb_ranks_options o = {
      .name_seconds = name ? atof(name) : 0, .warn = warn, .stop = &stop, .bucket_bytes = 1 << 20};
  alarm(250);
  signal(SIGTERM, on_signal);
  if (vtb_ranks_open(&o, &ranks, &err) != VTB_OK) {
    say_unopened(err.text);
    return err.status;
  }
  if (strcmp(verb, "sums") == 0) {
    sums(argc > 2 ? atoi(argv[2]) : 40, argc > 3 ? atoll(argv[3]) : 1500001);
    if (err.status == VTB_OK) say("good");
  } else if (strcmp(verb, "loop") == 0) {
    loop(argv[2]);
  } else if (strcmp(verb, "fail") == 0) {
    double x = 1;
    if (vtb_ranks_rank(ranks) == vtb_ranks_count(ranks) - 1)
      vtb_fail(&err, VTB_E_INPUT, "the disk is full");
    else
      keep(vtb_ranks_sum(ranks, &x, 1, &err));
  } else if (strcmp(verb, "exit") == 0) { /* without a word */
    double x = 1;
    if (vtb_ranks_sum(ranks, &x, 1, &err) == VTB_OK && vtb_ranks_rank(ranks) == 1) _exit(3);
    if (err.status == VTB_OK) keep(vtb_ranks_sum(ranks, &x, 1, &err));
  }
  if (err.status != VTB_OK) {
    say(err.text);
    vtb_ranks_fail(ranks, err.status, err.text);
  }
  vtb_ranks_close(ranks);
  return err.status;
}
