/* vertebra doctor --ranks: whether the processes of a job can talk to each other, and how fast. */
#include "frontend/cli/cli.h"

#include "frontend/cli/machine/doctor_ranks.h"
#include "runtime/ranks/ranks.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { SMALL_ROUNDS = 50, MOST_ROUNDS = 50, FIRST_WARMED = 2, COPIES_WARMED = 4 };
static const double seconds_a_size = 0.5;
static const int64_t sizes[] = {4 << 10, 256 << 10, 4 << 20, 64 << 20};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* A rank as it describes itself. */
typedef struct member {
  char host[64], version[32];
  int32_t process, threads;
} member;

typedef struct visit {
  vtb_ranks *ranks;
  int rank, n;
  double latency, seconds[N_SIZES]; /* of a sum of one number, of so many bytes */
  member *members;                  /* rank 0's */
  double *sends;                    /* one a rank: seconds of a copy of 4 MB to all others */
  float *memory;
} visit;

/* Element i of a rank: sums of them are exact. */
static float element(int rank, int64_t i) { return (float)(i % 1000 + rank); }

static vtb_status check_sum(const visit *v, int64_t n, vtb_error *err) {
  for (int64_t i = 0; i < n; i++) {
    float want = (float)(i % 1000 * v->n + v->n * (v->n - 1) / 2);
    if (v->memory[i] != want)
      return vtb_fail(err, VTB_E_NUMBERS,
                      "a sum over the ranks is wrong: element %lld of %lld is %g, and should be %g",
                      (long long)i, (long long)n, (double)v->memory[i], (double)want);
  }
  return VTB_OK;
}

/* All ranks take the same number of rounds. */
static vtb_status agree(const visit *v, double *x, vtb_error *err) {
  return vtb_ranks_max(v->ranks, x, 1, err);
}

static vtb_status time_small(visit *v, vtb_error *err) {
  vtb_status status = VTB_OK;
  double x = 1, begin = 0;
  for (int i = -FIRST_WARMED; i < SMALL_ROUNDS && status == VTB_OK; i++) {
    if (i == 0) begin = vtb_now();
    status = vtb_ranks_sum(v->ranks, &x, 1, err);
  }
  v->latency = (vtb_now() - begin) / SMALL_ROUNDS;
  return status == VTB_OK ? agree(v, &v->latency, err) : status;
}

static vtb_status sum_once(visit *v, int64_t n, double *seconds, vtb_error *err) {
  for (int64_t i = 0; i < n; i++) v->memory[i] = element(v->rank, i);
  double x = 0;
  vtb_status status = agree(v, &x, err); /* all begin together */
  double begin = vtb_now();
  if (status == VTB_OK) status = vtb_ranks_sum_begin(v->ranks, v->memory, n, err);
  if (status == VTB_OK) status = vtb_ranks_sum_wait(v->ranks, err);
  *seconds = vtb_now() - begin;
  if (status == VTB_OK) status = check_sum(v, n, err);
  return status == VTB_OK ? agree(v, seconds, err) : status;
}

/* The best of half a second. */
static vtb_status time_sums(visit *v, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int s = 0; s < N_SIZES && status == VTB_OK; s++) {
    double total = 0, best = 0;
    for (int i = 0; i < MOST_ROUNDS && total < seconds_a_size && status == VTB_OK; i++) {
      double seconds = 0;
      status = sum_once(v, sizes[s] / (int64_t)sizeof(float), &seconds, err);
      total += seconds;
      if (i == 0 || seconds < best) best = seconds;
    }
    v->seconds[s] = best;
  }
  return status;
}

/* From each rank to all others; a rank that sends slowly is seen here. */
static vtb_status time_copies(visit *v, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int q = 0; q < v->n && status == VTB_OK; q++)
    for (int i = -COPIES_WARMED; i < 3 && status == VTB_OK; i++) {
      double seconds = 0;
      status = agree(v, &seconds, err);
      double begin = vtb_now();
      if (status == VTB_OK) status = vtb_ranks_broadcast(v->ranks, q, v->memory, 4 << 20, err);
      seconds = vtb_now() - begin;
      if (status == VTB_OK) status = agree(v, &seconds, err);
      if (i <= 0 || seconds < v->sends[q]) v->sends[q] = seconds;
    }
  return status;
}

static vtb_status time_all(visit *v, vtb_error *err) {
  vtb_status status = time_small(v, err);
  if (status == VTB_OK) status = time_sums(v, err);
  return status == VTB_OK ? time_copies(v, err) : status;
}

static vtb_status meet(visit *v, vtb_error *err) {
  member me = {.process = (int32_t)getpid(), .threads = vtb_default_threads()};
  if (gethostname(me.host, sizeof me.host - 1) != 0) snprintf(me.host, 2, "?");
  snprintf(me.version, sizeof me.version, "%s", VTB_VERSION);
  v->members = vtb_xcalloc((size_t)v->n, sizeof *v->members);
  v->sends = vtb_xcalloc((size_t)v->n, sizeof *v->sends);
  v->memory = vtb_xmalloc((size_t)sizes[N_SIZES - 1]);
  return vtb_ranks_gather(v->ranks, 0, &me, sizeof me, v->members, err);
}

/* ---- what is said ---------------------------------------------------------------------------- */

/* The rate of a sum: the bytes that are summed up, by its time. */
static double rate(int64_t bytes, double seconds) {
  return seconds > 0 ? (double)bytes / seconds / 1e9 : 0;
}

static const char *write_size(double bytes, char *out, size_t size) {
  if (bytes >= 1 << 20)
    snprintf(out, size, "%.0f MB", bytes / (1 << 20));
  else if (bytes > 0)
    snprintf(out, size, "%.0f KB", bytes / (1 << 10));
  else
    snprintf(out, size, "one number");
  return out;
}

static void add_ranks(const visit *v, doc *d) {
  static const doc_column columns[] = {
      {"rank", "rank", .width = 4},
      {.key = "host"},
      {"process", "process", .width = 8},
      {"threads", "threads", .width = 7},
      {"version", "version", .width = -8},
      {.key = "copy_bytes"},
      {.key = "copy_seconds"},
      {.heading = "sends to all others", .width = -20, .format = "%.2f GB/s", .none = "-"},
      {.heading = "host", .width = -1},
  };
  const int64_t copied = v->n > 1 ? 4 << 20 : 0;
  doc_table *t = DOC_TABLE(d, cJSON_AddArrayToObject(d->json, "ranks"), columns);
  t->indent = 2;
  for (int q = 0; q < v->n; q++) {
    const member *m = &v->members[q];
    doc_row(d, t, V(q), V(m->host), V(m->process), V(m->threads), V(m->version), V(copied),
            V(copied ? v->sends[q] : 0.0),
            V(copied ? rate((v->n - 1) * copied, v->sends[q]) : (double)NAN), V(m->host));
  }
}

static void add_sums(const visit *v, doc *d) {
  static const doc_column columns[] = {
      {.heading = "sum over all of", .width = -12, .write = write_size},
      {.heading = "time", .width = 12, .format = "%.3f ms", .scale = 1e3},
      {.heading = "rate", .width = 11, .format = "%.2f GB/s"},
  };
  cJSON *sums = cJSON_AddArrayToObject(d->json, "sums");
  if (v->n < 2) return;
  doc_say(d, 0, "%s", "");
  doc_table *t = DOC_TABLE(d, NULL, columns);
  t->indent = 2;
  doc_row(d, t, V(0), V(v->latency), V((double)NAN));
  for (int s = 0; s < N_SIZES; s++) {
    doc_item(sums, F("bytes", sizes[s]), F("seconds", v->seconds[s]));
    doc_row(d, t, V(sizes[s]), V(v->seconds[s]), V(rate(sizes[s], v->seconds[s])));
  }
}

static void tell_ranks(const visit *v, const char *mpi) {
  doc *d = doc_new(doc_object(F("mpi", mpi), F("n_ranks", v->n), F("latency_seconds", v->latency)));
  if (v->n > 1)
    doc_say(d, 2, "%d ranks talk to each other, by %s", v->n, mpi);
  else
    doc_say(d, 2, "1 rank, begun by %s: it has nobody to talk to (mpirun -n 2 ...)", mpi);
  doc_say(d, 0, "%s", "");
  add_ranks(v, d);
  add_sums(v, d);
  cli_tell(d);
}

/* Ranks of several versions could not train together. */
static vtb_status same_versions(const visit *v, vtb_error *err) {
  for (int q = 1; q < v->n && v->rank == 0; q++)
    if (strcmp(v->members[q].version, v->members[0].version) != 0)
      return vtb_fail(err, VTB_E_DEVICE, "rank %d (%s) is vertebra %s, rank 0 is %s", q,
                      v->members[q].host, v->members[q].version, v->members[0].version);
  return VTB_OK;
}

static void warn(void *user, const char *text) {
  (void)user;
  cli_say("%s", text);
}

vtb_status cli_doctor_ranks(void) {
  vtb_error err = {0};
  visit v = {0};
  if (!vtb_ranks_launched(NULL))
    return cli_usage_error("doctor", "--ranks asks several processes: mpirun -n 2 vertebra doctor "
                                     "--ranks");
  vtb_ranks_options options = {.warn = warn};
  if (vtb_ranks_open(&options, &v.ranks, &err) != VTB_OK) return cli_error(&err);
  v.rank = vtb_ranks_rank(v.ranks);
  v.n = vtb_ranks_count(v.ranks);
  if (v.rank) cli_without_document();
  vtb_status status = meet(&v, &err);
  if (status == VTB_OK) status = same_versions(&v, &err);
  if (status == VTB_OK && v.n > 1) status = time_all(&v, &err);
  if (status == VTB_OK && v.rank == 0) {
    vtb_strbuf mpi = {0};
    (void)vtb_ranks_probe_mpi(&mpi);
    tell_ranks(&v, vtb_strbuf_text(&mpi));
    vtb_strbuf_free(&mpi);
  }
  if (status != VTB_OK) {
    vtb_ranks_fail(v.ranks, status, err.text);
    status = cli_error(&err);
  }
  vtb_ranks_close(v.ranks);
  vtb_free(v.members);
  vtb_free(v.sends);
  vtb_free(v.memory);
  return status;
}
