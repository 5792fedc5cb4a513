/* One exchange between ranks. What it is of is copied into memory of the communicator's and the
 * result back, so that nothing of the caller's is touched any more when a call of his has failed.
 *
 * A sum has two phases. First rank r sends share q of its numbers to rank q; rank q adds the n
 * copies of its share in the order of the ranks, and sends the sum to all. So every rank sends and
 * receives 2 (n-1)/n of the bytes, whatever n is, and every element is added up once. */
#include "runtime/ranks/internal.h"

#include <string.h>

enum { FIRST_TAG = 16, TAG_NUMBERS = 1000 }; /* messages of a tag stay in order: tags may recur */

void vtb__job_free(vtb__job *j) {
  if (!j) return;
  free(j->pieces.at);
  free(j);
}

void vtb__slot_free(vtb__slot *s) {
  free(s->mine);
  free(s->others);
  free(s->requests);
  free(s->copies);
}

static bool grow(char **at, size_t *bytes, size_t need) {
  if (*bytes >= need) return true;
  free(*at);
  *bytes = 0;
  *at = vtb_aligned_alloc(need);
  if (*at) *bytes = need;
  return *at != NULL;
}

static bool prepare(vtb__slot *s, int n_ranks, size_t mine, size_t others) {
  if (!s->requests) s->requests = calloc(2 * (size_t)n_ranks, sizeof *s->requests);
  if (!s->copies) s->copies = calloc((size_t)n_ranks, sizeof *s->copies);
  return s->requests && s->copies && grow(&s->mine, &s->mine_bytes, mine ? mine : 1) &&
         grow(&s->others, &s->others_bytes, others ? others : 1);
}

static void pack(const vtb__job *j, char *to) {
  for (size_t i = 0; i < j->pieces.n; i++) {
    memcpy(to, j->pieces.at[i].at, (size_t)j->pieces.at[i].bytes);
    to += j->pieces.at[i].bytes;
  }
}

static void unpack(const vtb__job *j, const char *from) {
  for (size_t i = 0; i < j->pieces.n; i++) {
    memcpy(j->pieces.at[i].at, from, (size_t)j->pieces.at[i].bytes);
    from += j->pieces.at[i].bytes;
  }
}

/* ---- messages -------------------------------------------------------------------------------- */

static int tag_of(const vtb__slot *s) {
  return FIRST_TAG + 2 * (int)(s->job->number % TAG_NUMBERS) + s->phase;
}

static bool send(vtb__slot *s, vtb__link *l, int to, const void *at, int64_t bytes, int64_t *sent) {
  if (!bytes) return true;
  *sent += bytes;
  return l->send(l, to, tag_of(s), at, bytes, &s->requests[s->n_requests++]);
}

static bool receive(vtb__slot *s, vtb__link *l, int from, void *at, int64_t bytes) {
  return !bytes || l->receive(l, from, tag_of(s), at, bytes, &s->requests[s->n_requests++]);
}

/* The ranks that follow this one, first the next: nobody is sent to by all at once. */
static int other(const vtb__link *l, int i) { return (l->rank + 1 + i) % l->n; }

static int64_t share_at(const vtb__slot *s, const vtb__link *l, int q) {
  return vtb__share_begin(s->job->bytes / (int64_t)sizeof(float), l->n, q) * (int64_t)sizeof(float);
}
static int64_t share_bytes(const vtb__slot *s, const vtb__link *l, int q) {
  return share_at(s, l, q + 1) - share_at(s, l, q);
}

/* Where the copy of rank q is put. */
static char *place_of(const vtb__slot *s, const vtb__link *l, int q, int64_t bytes) {
  return s->others + (q < l->rank ? q : q - 1) * bytes;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static bool start_sum(vtb__slot *s, vtb__link *l, int64_t *sent) {
  int64_t own = share_bytes(s, l, l->rank);
  bool good = true;
  for (int i = 0; i < l->n - 1 && good; i++) {
    int q = other(l, i);
    good = receive(s, l, q, place_of(s, l, q, own), own) &&
           send(s, l, q, s->mine + share_at(s, l, q), share_bytes(s, l, q), sent);
  }
  return good;
}

static bool spread_sum(vtb__slot *s, vtb__link *l, int64_t *sent) {
  int64_t own = share_bytes(s, l, l->rank);
  char *mine = s->mine + share_at(s, l, l->rank);
  bool good = true;
  for (int q = 0; q < l->n; q++)
    s->copies[q] = (const float *)(q == l->rank ? mine : place_of(s, l, q, own));
  vtb__add_in_order((float *)mine, s->copies, l->n, own / (int64_t)sizeof(float));
  s->phase = 1;
  for (int i = 0; i < l->n - 1 && good; i++) {
    int q = other(l, i);
    good = receive(s, l, q, s->mine + share_at(s, l, q), share_bytes(s, l, q)) &&
           send(s, l, q, mine, own, sent);
  }
  return good;
}

static bool start_share(vtb__slot *s, vtb__link *l, int64_t *sent) {
  const vtb__job *j = s->job;
  if (l->rank != j->root) return receive(s, l, j->root, s->mine, j->bytes);
  bool good = true;
  for (int i = 0; i < l->n - 1 && good; i++)
    good = send(s, l, other(l, i), s->mine, j->bytes, sent);
  return good;
}

static bool start_exchange(vtb__slot *s, vtb__link *l, int64_t *sent) {
  const vtb__job *j = s->job;
  bool to_all = j->kind != VTB__GATHER, good = true;
  for (int i = 0; i < l->n - 1 && good; i++) {
    int q = other(l, i);
    if (to_all || l->rank == j->root)
      good = receive(s, l, q, place_of(s, l, q, j->bytes), j->bytes);
    if (good && (to_all || q == j->root)) good = send(s, l, q, s->mine, j->bytes, sent);
  }
  return good;
}

static double larger(double a, double b) { return a > b || a != a ? a : b; }

static void end_doubles(vtb__slot *s, const vtb__link *l) {
  const vtb__job *j = s->job;
  int64_t n = j->bytes / (int64_t)sizeof(double);
  double *out = (double *)j->pieces.at[0].at;
  for (int q = 0; q < l->n; q++) {
    const double *copy = (const double *)(q == l->rank ? s->mine : place_of(s, l, q, j->bytes));
    for (int64_t i = 0; i < n; i++)
      out[i] = q == 0 ? copy[i] : j->kind == VTB__ADD ? out[i] + copy[i] : larger(out[i], copy[i]);
  }
}

static void end_gather(vtb__slot *s, const vtb__link *l) {
  const vtb__job *j = s->job;
  for (int q = 0; q < l->n && l->rank == j->root; q++)
    memcpy(j->all + q * j->stride, q == l->rank ? s->mine : place_of(s, l, q, j->bytes),
           (size_t)j->bytes);
}

/* ---- a job's way ----------------------------------------------------------------------------- */

static size_t bytes_of_others(const vtb__slot *s, const vtb__link *l) {
  const vtb__job *j = s->job;
  size_t n = (size_t)l->n - 1;
  if (j->kind == VTB__SHARE || (j->kind == VTB__GATHER && l->rank != j->root)) return 0;
  return n * (size_t)(j->kind == VTB__SUM ? share_bytes(s, l, l->rank) : j->bytes);
}

vtb_status vtb__job_start(vtb__slot *s, vtb__job *j, vtb__link *l, int64_t *sent) {
  s->job = j;
  s->phase = s->n_requests = 0;
  if (!prepare(s, l->n, (size_t)j->bytes, bytes_of_others(s, l))) return VTB_E_MEMORY;
  if (j->kind != VTB__SHARE || l->rank == j->root) pack(j, s->mine);
  bool good = j->kind == VTB__SUM     ? start_sum(s, l, sent)
              : j->kind == VTB__SHARE ? start_share(s, l, sent)
                                      : start_exchange(s, l, sent);
  return good ? VTB_OK : VTB_E_DEVICE;
}

vtb_status vtb__job_advance(vtb__slot *s, vtb__link *l, int64_t *sent, bool *moved, bool *done) {
  int came = l->test(l, s->n_requests, s->requests);
  *done = false;
  if (came <= 0) return came < 0 ? VTB_E_DEVICE : VTB_OK;
  *moved = true;
  s->n_requests = 0;
  if (s->job->kind == VTB__SUM && s->phase == 0)
    return spread_sum(s, l, sent) ? VTB_OK : VTB_E_DEVICE;
  if (s->job->kind == VTB__ADD || s->job->kind == VTB__MAX)
    end_doubles(s, l);
  else if (s->job->kind == VTB__GATHER)
    end_gather(s, l);
  else if (s->job->kind == VTB__SUM || l->rank != s->job->root)
    unpack(s->job, s->mine);
  *done = true;
  return VTB_OK;
}
