/* Runs that are begun before those before them are done: the device does not wait for the host.
 *
 *   host            fill slot k % 5          fill slot (k+1) % 5
 *   copy stream     .. (set k % 2 is free) inputs -> set k % 2, event "copied"
 *   compute stream  .. (copied) graph of set k % 2, results -> slot, event "finished"
 *
 * A slot is pinned memory for a run's inputs and results. Its inputs go to the device beside the
 * run before, into the set of tensors that the run before that one has left; each set has its
 * graph, since addresses in a graph are fixed. There is a slot more than runs may be under way, so
 * that a slot is filled when its last run has been collected, and no call here waits but collect's,
 * once for all runs but the newest. An image that comes as bytes becomes floats on the copy stream,
 * behind its copy (pixels.c).
 */
#include "runtime/cuda/run.h"

#include <string.h>

enum { SLOTS = VTB__MOST_AHEAD + 1 };

typedef struct slot {
  char *bytes;             /* pinned: inputs, then results */
  void *copied, *finished; /* events */
} slot;

struct vtb__ahead {
  vtb__run *run;
  void *stream;          /* of copies */
  vtb_cu_address inputs; /* of the second set */
  vtb_cu_address
      pixels;    /* an image's bytes, until they are floats; 0: of programs that take none */
  size_t *place; /* of each tensor in a slot; 0 of those that have none, from 1 */
  slot slots[SLOTS];
  int64_t submitted, collected, known; /* known: runs that are waited for */
};

bool vtb__ahead_is_possible(const vtb_launch_plan *p) {
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    bool moves = vtb_launch_place(p, i) < 0 && vtb__tensor_bytes(t);
    if (moves && t->io != VTB_IO_INPUT && t->io != VTB_IO_OUTPUT) return false;
  }
  return p->n_prepared == 0;
}

/* ---- making it ------------------------------------------------------------------------------- */

static bool has_place(const vtb__ahead *a, int tensor) { return a->place[tensor] != 0; }
static char *in_slot(const vtb__ahead *a, const slot *s, int tensor) {
  return s->bytes + a->place[tensor] - 1;
}

/* In a slot: of the image as bytes or floats, whichever are more. */
static size_t slot_bytes(const vtb__ahead *a, int tensor) {
  const vtb_tensor_info *t = &a->run->plan->tensors[tensor];
  size_t bytes = vtb__tensor_bytes(t);
  size_t pixels = a->run->program.pixels == tensor + 1 ? vtb__pixels_of(t).size : 0;
  return bytes > pixels ? bytes : pixels;
}

/* *inputs: bytes of the inputs in a set. */
static size_t lay_out(vtb__ahead *a, size_t *inputs) {
  const vtb_launch_plan *p = a->run->plan;
  size_t at = 0;
  for (int results = 0; results < 2; results++) {
    for (int i = 0; i < p->n_tensors; i++) {
      const vtb_tensor_info *t = &p->tensors[i];
      size_t bytes = slot_bytes(a, i);
      if (vtb_launch_place(p, i) >= 0 || !bytes || vtb__is_result(t) != results) continue;
      a->place[i] = at + 1;
      at += vtb__padded(bytes);
    }
    if (!results) *inputs = at;
  }
  return at;
}

static vtb_status make_set(vtb__ahead *a, size_t inputs, vtb_error *err) {
  vtb__run *r = a->run;
  const vtb_launch_plan *p = r->plan;
  vtb_status status =
      vtb__allocate(r->device, &a->inputs, inputs, "inputs of a run ahead of another", err);
  if (status == VTB_OK && r->program.pixels)
    status = vtb__allocate(r->device, &a->pixels,
                           vtb__pixels_of(&p->tensors[r->program.pixels - 1]).size,
                           "images as bytes", err);
  if (status != VTB_OK) return status;
  vtb_cu_address *tensors = r->sets[1].tensors = calloc((size_t)p->n_tensors + 1, sizeof *tensors);
  if (!tensors) return vtb_no_memory(err, "the addresses of a program");
  for (int i = 0; i < p->n_tensors; i++) {
    bool own = has_place(a, i) && !vtb__is_result(&p->tensors[i]);
    tensors[i] = own ? a->inputs + a->place[i] - 1 : r->sets[0].tensors[i];
  }
  r->set = &r->sets[1];
  return vtb__encode_maps(r, err);
}

static vtb_status fill(vtb__ahead *a, vtb_error *err) {
  vtb_cuda_device *d = a->run->device;
  size_t inputs = 0, bytes;
  a->place = calloc((size_t)a->run->plan->n_tensors + 1, sizeof *a->place);
  if (!a->place) return vtb_no_memory(err, "runs ahead of others");
  bytes = lay_out(a, &inputs);
  vtb_status status =
      VTB_CU_CALL(d, cuStreamCreate, (&a->stream, VTB__CU_STREAM_NON_BLOCKING), err);
  for (int i = 0; i < SLOTS && status == VTB_OK; i++) {
    slot *s = &a->slots[i];
    status = VTB_CU_CALL(d, cuMemHostAlloc, ((void **)&s->bytes, bytes, 0), err);
    if (status == VTB_OK)
      status = VTB_CU_CALL(d, cuEventCreate, (&s->copied, VTB__CU_EVENT_NO_TIME), err);
    if (status == VTB_OK)
      status = VTB_CU_CALL(d, cuEventCreate, (&s->finished, VTB__CU_EVENT_NO_TIME), err);
  }
  return status == VTB_OK ? make_set(a, inputs, err) : status;
}

void vtb__ahead_wait(vtb__ahead *a) {
  if (a && a->stream) (void)a->run->device->api.cuStreamSynchronize(a->stream);
}

void vtb__ahead_free(vtb__ahead *a) {
  if (!a) return;
  const vtb_cu_api *api = &a->run->device->api;
  for (int i = 0; i < SLOTS; i++) {
    if (a->slots[i].copied) (void)api->cuEventDestroy_v2(a->slots[i].copied);
    if (a->slots[i].finished) (void)api->cuEventDestroy_v2(a->slots[i].finished);
    if (a->slots[i].bytes) (void)api->cuMemFreeHost(a->slots[i].bytes);
  }
  if (a->inputs) (void)api->cuMemFree_v2(a->inputs);
  if (a->pixels) (void)api->cuMemFree_v2(a->pixels);
  if (a->stream) (void)api->cuStreamDestroy_v2(a->stream);
  free(a->place);
  free(a);
}

static vtb_status open_once(vtb__run *r, vtb_error *err) {
  if (r->ahead) return VTB_OK;
  r->ahead = calloc(1, sizeof *r->ahead);
  if (!r->ahead) return vtb_no_memory(err, "runs ahead of others");
  r->ahead->run = r;
  return fill(r->ahead, err);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static bool is_copied(const vtb__ahead *a, int i, bool results) {
  const vtb__run *r = a->run;
  const vtb_tensor_info *t = &r->plan->tensors[i];
  return has_place(a, i) && vtb__is_result(t) == results &&
         !(results && r->kept >> t->io & 1u); /* results that stay on the device */
}

static bool is_pixels(const vtb__ahead *a, int tensor) {
  return a->run->program.uses_pixels && a->run->program.pixels == tensor + 1;
}

static size_t bytes_of(const vtb__ahead *a, int tensor) {
  const vtb_tensor_info *t = &a->run->plan->tensors[tensor];
  return is_pixels(a, tensor) ? vtb__pixels_of(t).size : vtb__tensor_bytes(t);
}

static vtb_status bring_input(vtb__ahead *a, const slot *s, int i, vtb_error *err) {
  vtb__run *r = a->run;
  bool pixels = is_pixels(a, i);
  vtb_cu_address to = pixels ? a->pixels : r->set->tensors[i];
  vtb_status status = VTB_CU_CALL(r->device, cuMemcpyHtoDAsync_v2,
                                  (to, in_slot(a, s, i), bytes_of(a, i), a->stream), err);
  return status == VTB_OK && pixels ? vtb__pixels_run(r, a->pixels, a->stream, err) : status;
}

/* Into the set that the run before the last has left. */
static vtb_status bring_inputs(vtb__ahead *a, slot *s, void *const *args, vtb_error *err) {
  vtb__run *r = a->run;
  vtb_cuda_device *d = r->device;
  vtb_status status = VTB_OK;
  for (int i = 0; i < r->plan->n_tensors; i++)
    if (is_copied(a, i, false)) memcpy(in_slot(a, s, i), args[i], bytes_of(a, i));
  if (a->submitted >= 2)
    status = VTB_CU_CALL(d, cuStreamWaitEvent,
                         (a->stream, a->slots[(a->submitted - 2) % SLOTS].finished, 0), err);
  for (int i = 0; i < r->plan->n_tensors && status == VTB_OK; i++)
    if (is_copied(a, i, false)) status = bring_input(a, s, i, err);
  if (status == VTB_OK) status = VTB_CU_CALL(d, cuEventRecord, (s->copied, a->stream), err);
  return status == VTB_OK ? VTB_CU_CALL(d, cuStreamWaitEvent, (d->stream, s->copied, 0), err)
                          : status;
}

static vtb_status bring_results(vtb__ahead *a, slot *s, vtb_error *err) {
  vtb__run *r = a->run;
  vtb_cuda_device *d = r->device;
  vtb_status status = VTB_OK;
  for (int i = 0; i < r->plan->n_tensors && status == VTB_OK; i++)
    if (is_copied(a, i, true))
      status = VTB_CU_CALL(d, cuMemcpyDtoHAsync_v2,
                           (in_slot(a, s, i), r->set->tensors[i],
                            vtb__tensor_bytes(&r->plan->tensors[i]), d->stream),
                           err);
  return status == VTB_OK ? VTB_CU_CALL(d, cuEventRecord, (s->finished, d->stream), err) : status;
}

vtb_status vtb__ahead_submit(void *owner, void *const *args, vtb_error *err) {
  vtb__run *r = owner;
  vtb_status status = VTB_CU_CALL(r->device, cuCtxSetCurrent, (r->device->context), err);
  if (status == VTB_OK) status = open_once(r, err);
  if (status != VTB_OK) return status;
  vtb__ahead *a = r->ahead;
  if (a->submitted - a->collected >= VTB__MOST_AHEAD)
    return vtb_fail(err, VTB_E_INTERNAL, "%d runs are under way, whose results nobody takes",
                    VTB__MOST_AHEAD);
  slot *s = &a->slots[a->submitted % SLOTS];
  r->set = &r->sets[a->submitted % 2];
  status = bring_inputs(a, s, args, err);
  if (status == VTB_OK) status = vtb__enqueue_run(r, err);
  if (status == VTB_OK) status = bring_results(a, s, err);
  if (status != VTB_OK) return status;
  r->n_runs++;
  a->submitted++;
  return VTB_OK;
}

/* One call waits for all runs but the newest, which keeps the device busy meanwhile. */
static vtb_status wait_for(vtb__ahead *a, int64_t run, vtb_error *err) {
  if (run < a->known) return VTB_OK;
  int64_t last = run > a->submitted - 2 ? run : a->submitted - 2;
  vtb_status status =
      VTB_CU_CALL(a->run->device, cuEventSynchronize, (a->slots[last % SLOTS].finished), err);
  if (status == VTB_OK) a->known = last + 1;
  return status;
}

vtb_status vtb__ahead_collect(void *owner, void *const *args, vtb_error *err) {
  vtb__run *r = owner;
  vtb__ahead *a = r->ahead;
  if (!a || a->collected == a->submitted)
    return vtb_fail(err, VTB_E_INTERNAL, "no run is under way whose results could be taken");
  vtb_status status = VTB_CU_CALL(r->device, cuCtxSetCurrent, (r->device->context), err);
  if (status == VTB_OK) status = wait_for(a, a->collected, err);
  if (status != VTB_OK) return status;
  const slot *s = &a->slots[a->collected++ % SLOTS];
  for (int i = 0; i < r->plan->n_tensors; i++)
    if (is_copied(a, i, true))
      memcpy(args[i], in_slot(a, s, i), vtb__tensor_bytes(&r->plan->tensors[i]));
  return VTB_OK;
}

vtb_status vtb__ahead_is_empty(const vtb__ahead *a, vtb_error *err) {
  if (!a || a->submitted == a->collected) return VTB_OK;
  return vtb_fail(err, VTB_E_INTERNAL, "the results of %d runs wait to be taken first",
                  (int)(a->submitted - a->collected));
}
