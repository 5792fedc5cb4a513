/* The caller's side of a job of several ranks: buckets are filled, jobs begun and waited for. */
#include "runtime/ranks/ranks.h"
#include "runtime/ranks/internal.h"
#include "runtime/base/launched.h"

#include <string.h>

/* A share is large enough for any network, and what is in flight stays in the last cache. */
enum { SHARE_BYTES = 512 << 10, MOST_BUCKET_BYTES = 16 << 20, PART_BYTES = 4 << 20 };

static int64_t bucket_bytes(const vtb_ranks *r) {
  int64_t wanted = r->options.bucket_bytes, n = r->n;
  if (wanted >= (int64_t)sizeof(float)) return wanted - wanted % (int64_t)sizeof(float);
  return n * SHARE_BYTES < MOST_BUCKET_BYTES ? n * SHARE_BYTES : MOST_BUCKET_BYTES;
}

int vtb_ranks_rank(const vtb_ranks *r) { return r ? r->rank : 0; }
int vtb_ranks_count(const vtb_ranks *r) { return r ? r->n : 1; }

void vtb_ranks_name(vtb_ranks *r, int rank, char *out, size_t size) {
  if (!r || rank < 0 || rank >= r->n) {
    snprintf(out, size, "rank %d", rank);
    return;
  }
  pthread_mutex_lock(&r->lock);
  vtb__watch_name(&r->watch, rank, out, size);
  pthread_mutex_unlock(&r->lock);
}

void vtb_ranks_get_stats(vtb_ranks *r, vtb_ranks_stats *out) {
  *out = (vtb_ranks_stats){0};
  if (!r) return;
  pthread_mutex_lock(&r->lock);
  *out = r->stats;
  pthread_mutex_unlock(&r->lock);
}

static bool is_alone(const vtb_ranks *r) { return !r || r->n < 2; }

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Under the lock. */
static vtb_status status_of(const vtb_ranks *r, vtb_error *err) {
  return r->status == VTB_OK ? VTB_OK : vtb_fail(err, r->status, "%s", r->why);
}

/* Takes the job. */
static vtb_status begin_job(vtb_ranks *r, vtb__job *j, vtb_error *err) {
  pthread_mutex_lock(&r->lock);
  vtb_status status = status_of(r, err);
  if (status == VTB_OK) {
    j->number = r->begun++;
    *r->last = j;
    r->last = &j->next;
    j = NULL;
    pthread_cond_signal(&r->work);
  }
  pthread_mutex_unlock(&r->lock);
  vtb__job_free(j);
  return status;
}

static vtb_status wait_for_all(vtb_ranks *r, vtb_error *err) {
  double since = vtb_now();
  pthread_mutex_lock(&r->lock);
  r->waiting = since;
  while (r->status == VTB_OK && r->ended < r->begun) pthread_cond_wait(&r->change, &r->lock);
  r->waiting = 0;
  r->stats.waited += vtb_now() - since;
  vtb__note_span(r, since, vtb_now(), -1);
  vtb_status status = status_of(r, err);
  pthread_mutex_unlock(&r->lock);
  return status;
}

int64_t vtb_ranks_trace(vtb_ranks *r, vtb_ranks_span *at, int64_t most) {
  if (!r) return 0;
  pthread_mutex_lock(&r->lock);
  int64_t before = r->n_spans;
  r->spans = at;
  r->n_spans = 0;
  r->most_spans = at ? most : 0;
  pthread_mutex_unlock(&r->lock);
  return before;
}

/* This rank cannot go on as the others do: they must know. */
static vtb_status no_memory(vtb_ranks *r, vtb_error *err) {
  vtb_ranks_fail(r, VTB_E_MEMORY, "out of memory for what is exchanged");
  return vtb_no_memory(err, "what is exchanged with other processes");
}

static vtb_status bad_root(const vtb_ranks *r, int root, vtb_error *err) {
  if (root >= 0 && root < r->n) return VTB_OK;
  return vtb_fail(err, VTB_E_USAGE, "there is no rank %d among %d", root, r->n);
}

/* ---- buckets --------------------------------------------------------------------------------- */

/* The open bucket of sums (root -1), or of what a rank shares. */
static vtb__job **bucket_of(vtb_ranks *r, int root) { return &r->buckets[root + 1]; }

static vtb__job *open_bucket(vtb_ranks *r, int root) {
  vtb__job **at = bucket_of(r, root);
  if (!*at && (*at = calloc(1, sizeof **at))) {
    (*at)->kind = root < 0 ? VTB__SUM : VTB__SHARE;
    (*at)->root = root;
  }
  return *at;
}

static vtb_status send_bucket(vtb_ranks *r, int root, vtb_error *err) {
  vtb__job **at = bucket_of(r, root), *j = *at;
  *at = NULL;
  return j ? begin_job(r, j, err) : VTB_OK;
}

static vtb_status send_buckets(vtb_ranks *r, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int root = -1; root < r->n && status == VTB_OK; root++) status = send_bucket(r, root, err);
  return status;
}

static void drop_buckets(vtb_ranks *r) {
  for (int root = -1; r->buckets && root < r->n; root++) vtb__job_free(*bucket_of(r, root));
  free(r->buckets);
}

static vtb_status fill_from_root(vtb_ranks *r, int root, char *at, int64_t bytes, vtb_error *err) {
  vtb_status status = VTB_OK;
  while (bytes > 0 && status == VTB_OK) {
    vtb__job *j = open_bucket(r, root);
    int64_t part = j ? vtb__bucket_room(j->bytes, bytes, r->options.bucket_bytes) : 0;
    if (!j || !vtb_vec_try_push(&j->pieces, ((vtb__piece){at, part}))) return no_memory(r, err);
    j->bytes += part;
    at += part;
    bytes -= part;
    if (j->bytes == r->options.bucket_bytes) status = send_bucket(r, root, err);
  }
  return status;
}

static vtb_status failed_before(vtb_ranks *r, vtb_error *err) {
  pthread_mutex_lock(&r->lock);
  vtb_status status = status_of(r, err);
  pthread_mutex_unlock(&r->lock);
  return status;
}

vtb_status vtb_ranks_sum_begin(vtb_ranks *r, float *at, int64_t n, vtb_error *err) {
  if (is_alone(r)) return VTB_OK;
  vtb_status status = failed_before(r, err);
  return status == VTB_OK ? fill_from_root(r, -1, (char *)at, n * (int64_t)sizeof *at, err)
                          : status;
}

vtb_status vtb_ranks_share_begin(vtb_ranks *r, int root, float *at, int64_t n, vtb_error *err) {
  if (is_alone(r)) return VTB_OK;
  vtb_status status = bad_root(r, root, err);
  if (status == VTB_OK) status = failed_before(r, err);
  return status == VTB_OK ? fill_from_root(r, root, (char *)at, n * (int64_t)sizeof *at, err)
                          : status;
}

vtb_status vtb_ranks_sum_wait(vtb_ranks *r, vtb_error *err) {
  if (is_alone(r)) return VTB_OK;
  vtb_status status = send_buckets(r, err);
  return status == VTB_OK ? wait_for_all(r, err) : status;
}

/* ---- what waits ------------------------------------------------------------------------------ */

/* A large one is cut, so that a message's length is an int and memory stays small. */
static vtb_status exchange(vtb_ranks *r, vtb__job what, char *at, int64_t bytes, vtb_error *err) {
  vtb_status status = send_buckets(r, err);
  for (int64_t done = 0; done < bytes && status == VTB_OK;) {
    int64_t part = vtb__bucket_room(0, bytes - done, PART_BYTES);
    vtb__job *j = malloc(sizeof *j);
    if (j) *j = what;
    if (!j || !vtb_vec_try_push(&j->pieces, ((vtb__piece){at + done, part}))) {
      free(j);
      return no_memory(r, err);
    }
    j->bytes = part;
    if (j->all) j->all += done;
    done += part;
    status = begin_job(r, j, err);
  }
  return status == VTB_OK ? wait_for_all(r, err) : status;
}

vtb_status vtb_ranks_sum(vtb_ranks *r, double *at, int64_t n, vtb_error *err) {
  if (is_alone(r)) return VTB_OK;
  return exchange(r, (vtb__job){.kind = VTB__ADD}, (char *)at, n * (int64_t)sizeof *at, err);
}

vtb_status vtb_ranks_max(vtb_ranks *r, double *at, int64_t n, vtb_error *err) {
  if (is_alone(r)) return VTB_OK;
  return exchange(r, (vtb__job){.kind = VTB__MAX}, (char *)at, n * (int64_t)sizeof *at, err);
}

vtb_status vtb_ranks_broadcast(vtb_ranks *r, int root, void *at, int64_t bytes, vtb_error *err) {
  if (is_alone(r)) return VTB_OK;
  VTB_TRY(bad_root(r, root, err));
  return exchange(r, (vtb__job){.kind = VTB__SHARE, .root = root}, at, bytes, err);
}

vtb_status vtb_ranks_gather(vtb_ranks *r, int root, const void *mine, int64_t bytes, void *all,
                            vtb_error *err) {
  if (is_alone(r)) {
    if (all != mine && bytes > 0) memcpy(all, mine, (size_t)bytes);
    return VTB_OK;
  }
  VTB_TRY(bad_root(r, root, err));
  vtb__job what = {.kind = VTB__GATHER, .root = root, .stride = bytes};
  if (r->rank == root) what.all = all;
  return exchange(r, what, (char *)(uintptr_t)mine, bytes, err);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

void vtb_ranks_fail(vtb_ranks *r, vtb_status status, const char *text) {
  if (is_alone(r)) return;
  pthread_mutex_lock(&r->lock);
  if (r->status == VTB_OK) {
    r->status = status != VTB_OK ? status : VTB_E_DEVICE;
    snprintf(r->why, sizeof r->why, "%s", text);
    snprintf(r->to_tell, sizeof r->to_tell, "%s", *text ? text : "it failed");
    pthread_cond_signal(&r->work);
    pthread_cond_broadcast(&r->change);
  }
  pthread_mutex_unlock(&r->lock);
}

static void free_ranks(vtb_ranks *r) {
  drop_buckets(r);
  for (vtb__job *j = r->first, *next; j; j = next) {
    next = j->next;
    vtb__job_free(j);
  }
  free(r->watch.peers);
  pthread_cond_destroy(&r->work);
  pthread_cond_destroy(&r->change);
  pthread_mutex_destroy(&r->lock);
  pthread_mutex_destroy(&r->guard_lock);
  free(r);
}

void vtb_ranks_close(vtb_ranks *r) {
  if (!r) return;
  vtb__communicator_stop(r);
  free_ranks(r);
}

/* Takes arg once it is called. */
static vtb_status new_ranks(const vtb_ranks_options *o, vtb__link_open_fn open, void *arg,
                            vtb_ranks **out, vtb_error *err) {
  vtb_ranks *r = calloc(1, sizeof *r);
  if (!r) return vtb_no_memory(err, "the ranks of a job");
  if (o) r->options = *o;
  r->open = open;
  r->open_arg = arg;
  r->last = &r->first;
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_mutex_init(&r->lock, NULL);
  pthread_mutex_init(&r->guard_lock, NULL);
  pthread_cond_init(&r->work, &clock);
  pthread_cond_init(&r->change, &clock);
  pthread_condattr_destroy(&clock);
  vtb_status status = vtb__communicator_start(r, err);
  if (status == VTB_OK) {
    r->options.bucket_bytes = bucket_bytes(r);
    r->buckets = calloc((size_t)r->n + 1, sizeof *r->buckets);
    *out = r;
    if (r->buckets) return VTB_OK;
    vtb_ranks_fail(r, VTB_E_MEMORY, "out of memory");
    vtb_ranks_close(r);
    return vtb_no_memory(err, "the ranks of a job");
  }
  free_ranks(r);
  return status;
}

/* Ranks made so far end without last words: nobody has heard of it. */
static void abandon(vtb_ranks **ranks, int n) {
  for (int i = 0; i < n; i++) {
    pthread_mutex_lock(&ranks[i]->lock);
    ranks[i]->abandoned = true;
    pthread_mutex_unlock(&ranks[i]->lock);
    vtb_ranks_close(ranks[i]);
    ranks[i] = NULL;
  }
}

vtb_status vtb_ranks_open_threads(int n, const vtb_ranks_options *o, vtb_ranks **out,
                                  vtb_error *err) {
  if (n < 1) return vtb_fail(err, VTB_E_USAGE, "a job has one rank or more, not %d", n);
  vtb__hall *hall = vtb__hall_new(n);
  if (!hall) return vtb_no_memory(err, "the ranks of a job");
  for (int i = 0; i < n; i++) {
    vtb__join join = {hall, i, false};
    vtb_status status = new_ranks(o, vtb__hall_join, &join, &out[i], err);
    if (status == VTB_OK) continue;
    for (int k = i + join.taken; k < n; k++) vtb__hall_leave(hall);
    abandon(out, i);
    return status;
  }
  return VTB_OK;
}

vtb_status vtb_ranks_open(const vtb_ranks_options *o, vtb_ranks **out, vtb_error *err) {
  int launched = 0;
  if (!vtb_ranks_launched(&launched))
    return vtb_fail(err, VTB_E_USAGE,
                    "this process is one of no job; several are started by `mpirun -n 4 ...` or "
                    "`srun --mpi=pmix -n 4 ...`");
  return new_ranks(o, vtb__link_open_mpi, &launched, out, err);
}

bool vtb_ranks_launched(int *n) {
  vtb_launch l;
  bool is = vtb_launched(&l);
  if (n) *n = l.size;
  return is;
}
