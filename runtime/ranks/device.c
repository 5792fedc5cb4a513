/* Sums of programs that run on a device, or are emulated: what a step has ready is begun at once,
 * and what reads it comes behind.
 *
 *   compute   .. backward ..|.. backward ..|.. last of it |            norm, update
 *   sums                    | bucket 0     | bucket 1     | bucket 2 |
 *
 * On GPUs NCCL sums, on a stream of its own (runtime/cuda/group.h); its order of adding is NCCL's
 * own, the same at every run on the same devices. */
#include "runtime/cuda/group.h"
#include "runtime/ranks/internal.h"

struct vtb_ranks_device {
  vtb_ranks *ranks;
  vtb_program *program;
  vtb_cuda_group *group; /* NULL: in the host's memory */
  bool given_up;
};

/* Sums are given up when another rank has failed: what that one said counts. */
static vtb_status failed(vtb_ranks *r, const vtb_error *own, vtb_error *err) {
  pthread_mutex_lock(&r->lock);
  vtb_status status = r->status != VTB_OK ? vtb_fail(err, r->status, "%s", r->why)
                                          : vtb_fail(err, own->status, "%s", own->text);
  pthread_mutex_unlock(&r->lock);
  return status;
}

static vtb_status begin_bucket(const vtb_ranks_device *d, const vtb_bucket *b, vtb_error *err) {
  size_t n = (size_t)b->bytes / sizeof(float);
  vtb_error own = {0};
  if (!d->group) return vtb_ranks_sum_begin(d->ranks, (float *)(uintptr_t)b->at, (int64_t)n, err);
  if (vtb_cuda_group_sum_begin(d->group, b->stream, b->at, n, &own) == VTB_OK) return VTB_OK;
  return failed(d->ranks, &own, err);
}

/* Behind the last bucket comes what reads the gradients. */
static vtb_status on_bucket(void *user, const vtb_bucket *b, vtb_error *err) {
  const vtb_ranks_device *d = user;
  vtb_status status = begin_bucket(d, b, err);
  if (status != VTB_OK || (!b->inside && b->index + 1 < d->program->n_buckets)) return status;
  return d->group ? vtb_cuda_group_sum_wait(d->group, b->stream, err)
                  : vtb_ranks_sum_wait(d->ranks, err);
}

/* The communicator's thread calls it: a device waits for ever for a rank that is gone. */
static void watch(void *user, bool failed, vtb_error *err) {
  vtb_ranks_device *d = user;
  if (!failed && vtb_cuda_group_check(d->group, err) == VTB_OK) return;
  if (!d->given_up) vtb_cuda_group_abort(d->group);
  d->given_up = true;
}

static vtb_status join_group(vtb_ranks_device *d, vtb_cuda_device *device, vtb_error *err) {
  vtb_ranks *r = d->ranks;
  vtb_cuda_group_id id = {{0}};
  vtb_error own = {0};
  if (!r->rank) VTB_TRY(vtb_cuda_group_make_id(&id, err));
  VTB_TRY(vtb_ranks_broadcast(r, 0, &id, sizeof id, err));
  vtb_status status = vtb_cuda_group_join(&id, r->n, r->rank, device, &d->group, &own);
  if (status == VTB_OK) return VTB_OK;
  return vtb_fail(err, status, "%s (each rank needs a GPU of its own; NCCL_DEBUG=WARN says more)",
                  own.text);
}

/* All on GPUs, or none. */
static vtb_status same_kind(vtb_ranks *r, const vtb_cuda_device *device, vtb_error *err) {
  double kinds[2] = {device != NULL, device == NULL};
  vtb_status status = vtb_ranks_sum(r, kinds, 2, err);
  if (status != VTB_OK || kinds[0] == 0 || kinds[1] == 0) return status;
  return vtb_fail(err, VTB_E_INPUT, "%g ranks of %d run on a GPU, and the others do not", kinds[0],
                  r->n);
}

vtb_status vtb_ranks_attach(vtb_ranks *r, vtb_program *p, vtb_ranks_device **out, vtb_error *err) {
  *out = NULL;
  if (vtb_ranks_count(r) < 2 || !p->run) return VTB_OK;
  vtb_cuda_device *device = vtb_cuda_device_of(p);
  vtb_status status = same_kind(r, device, err);
  if (status != VTB_OK) return status;
  vtb_ranks_device *d = calloc(1, sizeof *d);
  if (!d) return vtb_no_memory(err, "sums of a device");
  *d = (vtb_ranks_device){.ranks = r, .program = p};
  if (device) status = join_group(d, device, err);
  if (status != VTB_OK) {
    free(d);
    return status;
  }
  if (d->group) vtb__communicator_guard(r, watch, d);
  p->on_bucket = on_bucket;
  p->bucket_user = d;
  *out = d;
  return VTB_OK;
}

void vtb_ranks_detach(vtb_ranks_device *d) {
  if (!d) return;
  if (d->group) vtb__communicator_guard(d->ranks, NULL, NULL);
  d->program->on_bucket = NULL;
  d->program->bucket_user = NULL;
  vtb_cuda_group_leave(d->group);
  free(d);
}
