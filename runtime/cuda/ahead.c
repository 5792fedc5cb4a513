/* Runs that are begun before those before them are done: the device does not wait for the host.
 *
 *   host            fill feed k % 5          fill feed (k+1) % 5
 *   copy stream     .. (set k % 2 is free) inputs -> set k % 2, event "copied"
 *   compute stream  .. (copied) graph of set k % 2, results -> answer k % 257, event "finished"
 *
 * A feed is pinned memory for a run's inputs, an answer for its results, made when it is first
 * needed: results are small and wait for who reads them, inputs need not. Inputs go to the device
 * beside the run before, into the set of tensors that the run before that one has left; each set
 * has its graph, since addresses in a graph are fixed. collect waits once for all runs but the
 * newest; submit where the feed it fills is not copied yet, of the run five before, so that two
 * runs or more still wait for the device. An image that comes as bytes becomes floats on the copy
 * stream, behind its copy (pixels.c).
 *
 * Parameters and buffers that have no place in the state go to the device as in any other run
 * (run.c), in the order of the compute stream, unless they are kept.
 */
#include "runtime/cuda/run.h"

#include <string.h>

enum { FEEDS = 5, ANSWERS = VTB__MOST_AHEAD + 1 };

typedef struct slot {
  char *bytes; /* pinned */
  void *done;  /* the event behind its copies */
} slot;

struct vtb__ahead {
  vtb__run *run;
  void *stream;          /* of copies */
  vtb_cu_address inputs; /* of the second set */
  vtb_cu_address
      pixels;      /* an image's bytes, until they are floats; 0: of programs that take none */
  size_t *place;   /* of each tensor in its feed or answer; 0 of those that have none, from 1 */
  size_t bytes[2]; /* of a feed, of an answer */
  slot feeds[FEEDS], answers[ANSWERS];
  int64_t submitted, collected, known; /* known: runs that are waited for */
};

bool vtb__ahead_is_possible(const vtb_launch_plan *p) {
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    bool moves = vtb_launch_place(p, i) < 0 && vtb__tensor_bytes(t);
    if (moves && (t->io == VTB_IO_GRAD_IN || t->io == VTB_IO_GRAD_OUT || t->io == VTB_IO_STATE))
      return false;
  }
  return true;
}

/* ---- making it ------------------------------------------------------------------------------- */

static bool has_place(const vtb__ahead *a, int tensor) { return a->place[tensor] != 0; }
static char *in_slot(const vtb__ahead *a, const slot *s, int tensor) {
  return s->bytes + a->place[tensor] - 1;
}

/* In a feed: of the image as bytes or floats, whichever are more. */
static size_t slot_bytes(const vtb__ahead *a, int tensor) {
  const vtb_tensor_info *t = &a->run->plan->tensors[tensor];
  size_t bytes = vtb__tensor_bytes(t);
  size_t pixels = a->run->program.pixels == tensor + 1 ? vtb__pixels_of(t).size : 0;
  return bytes > pixels ? bytes : pixels;
}

static void lay_out(vtb__ahead *a) {
  const vtb_launch_plan *p = a->run->plan;
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    bool result = vtb_tensor_is_result(t);
    size_t bytes = slot_bytes(a, i), *end = &a->bytes[result];
    if (vtb_launch_place(p, i) >= 0 || !bytes || (!result && t->io != VTB_IO_INPUT)) continue;
    a->place[i] = *end + 1;
    *end += vtb__padded(bytes);
  }
}

/* One that was made in part is finished by the next call, or freed. */
static vtb_status make_slot(vtb__ahead *a, slot *s, size_t bytes, vtb_error *err) {
  vtb_cuda_device *d = a->run->device;
  vtb_status status = VTB_OK;
  if (!s->bytes && bytes)
    status = VTB_CU_CALL(d, cuMemHostAlloc, ((void **)&s->bytes, bytes, 0), err);
  if (status == VTB_OK && !s->done)
    status = VTB_CU_CALL(d, cuEventCreate, (&s->done, VTB__CU_EVENT_NO_TIME), err);
  return status;
}

static void free_slot(const vtb_cu_api *api, slot *s) {
  if (s->done) (void)api->cuEventDestroy_v2(s->done);
  if (s->bytes) (void)api->cuMemFreeHost(s->bytes);
}

static vtb_status make_set(vtb__ahead *a, vtb_error *err) {
  vtb__run *r = a->run;
  const vtb_launch_plan *p = r->plan;
  vtb_status status =
      vtb__allocate(r->device, &a->inputs, a->bytes[0], "inputs of a run ahead of another", err);
  if (status == VTB_OK && r->program.pixels)
    status = vtb__allocate(r->device, &a->pixels,
                           vtb__pixels_of(&p->tensors[r->program.pixels - 1]).size,
                           "images as bytes", err);
  if (status != VTB_OK) return status;
  vtb_cu_address *tensors = r->sets[1].tensors = calloc((size_t)p->n_tensors + 1, sizeof *tensors);
  if (!tensors) return vtb_no_memory(err, "the addresses of a program");
  for (int i = 0; i < p->n_tensors; i++) {
    bool own = has_place(a, i) && !vtb_tensor_is_result(&p->tensors[i]);
    tensors[i] = own ? a->inputs + a->place[i] - 1 : r->sets[0].tensors[i];
  }
  r->set = &r->sets[1];
  return vtb__encode_maps(r, err);
}

static vtb_status fill_ahead(vtb__ahead *a, vtb_error *err) {
  vtb_cuda_device *d = a->run->device;
  a->place = calloc((size_t)a->run->plan->n_tensors + 1, sizeof *a->place);
  if (!a->place) return vtb_no_memory(err, "runs ahead of others");
  lay_out(a);
  vtb_status status =
      VTB_CU_CALL(d, cuStreamCreate, (&a->stream, VTB__CU_STREAM_NON_BLOCKING), err);
  return status == VTB_OK ? make_set(a, err) : status;
}

void vtb__ahead_wait(vtb__ahead *a) {
  if (a && a->stream) (void)a->run->device->api.cuStreamSynchronize(a->stream);
}

void vtb__ahead_free(vtb__ahead *a) {
  if (!a) return;
  const vtb_cu_api *api = &a->run->device->api;
  for (int i = 0; i < FEEDS; i++) free_slot(api, &a->feeds[i]);
  for (int i = 0; i < ANSWERS; i++) free_slot(api, &a->answers[i]);
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
  return fill_ahead(r->ahead, err);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static bool is_copied(const vtb__ahead *a, int i, bool results) {
  const vtb__run *r = a->run;
  const vtb_tensor_info *t = &r->plan->tensors[i];
  return has_place(a, i) && vtb_tensor_is_result(t) == results &&
         !(results && r->kept >> t->io & 1u); /* results that stay on the device */
}

static bool is_pixels(const vtb__ahead *a, int tensor) {
  return a->run->program.uses_pixels && a->run->program.pixels == tensor + 1;
}

static size_t row_bytes(const vtb__ahead *a, int tensor) {
  const vtb_tensor_info *t = &a->run->plan->tensors[tensor];
  return is_pixels(a, tensor) ? vtb__pixels_of(t).size : vtb__tensor_bytes(t);
}

static vtb_status bring_input(vtb__ahead *a, const slot *s, int i, vtb_error *err) {
  vtb__run *r = a->run;
  bool pixels = is_pixels(a, i);
  vtb_cu_address to = pixels ? a->pixels : r->set->tensors[i];
  vtb_status status = VTB_CU_CALL(r->device, cuMemcpyHtoDAsync_v2,
                                  (to, in_slot(a, s, i), row_bytes(a, i), a->stream), err);
  return status == VTB_OK && pixels ? vtb__pixels_run(r, a->pixels, a->stream, err) : status;
}

/* A feed is free when its last contents are on the device, as those of runs waited for are. */
static vtb_status free_feed(const vtb__ahead *a, slot *s, vtb_error *err) {
  if (a->submitted - FEEDS < a->known) return VTB_OK;
  return VTB_CU_CALL(a->run->device, cuEventSynchronize, (s->done), err);
}

/* Into the set that the run before the last has left. */
static vtb_status bring_inputs(vtb__ahead *a, slot *s, void *const *args, vtb_error *err) {
  vtb__run *r = a->run;
  vtb_cuda_device *d = r->device;
  vtb_status status = free_feed(a, s, err);
  if (status != VTB_OK) return status;
  for (int i = 0; i < r->plan->n_tensors; i++)
    if (is_copied(a, i, false)) memcpy(in_slot(a, s, i), args[i], row_bytes(a, i));
  if (a->submitted >= 2)
    status = VTB_CU_CALL(d, cuStreamWaitEvent,
                         (a->stream, a->answers[(a->submitted - 2) % ANSWERS].done, 0), err);
  for (int i = 0; i < r->plan->n_tensors && status == VTB_OK; i++)
    if (is_copied(a, i, false)) status = bring_input(a, s, i, err);
  if (status == VTB_OK) status = VTB_CU_CALL(d, cuEventRecord, (s->done, a->stream), err);
  return status == VTB_OK ? VTB_CU_CALL(d, cuStreamWaitEvent, (d->stream, s->done, 0), err)
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
  return status == VTB_OK ? VTB_CU_CALL(d, cuEventRecord, (s->done, d->stream), err) : status;
}

/* A run that was begun in part is over before the next one takes its place. */
static vtb_status end_part(const vtb__ahead *a, vtb_status status) {
  const vtb_cuda_device *d = a->run->device;
  vtb__ahead_wait(a->run->ahead);
  (void)d->api.cuStreamSynchronize(d->stream);
  return status;
}

static vtb_status submit(vtb__run *r, void *const *args, vtb_error *err) {
  VTB_TRY(vtb__run_begin(r, true, err));
  VTB_TRY(open_once(r, err));
  vtb__ahead *a = r->ahead;
  if (a->submitted - a->collected >= VTB__MOST_AHEAD)
    return vtb_fail(err, VTB_E_INTERNAL, "%d runs are under way, whose results nobody takes",
                    VTB__MOST_AHEAD);
  slot *feed = &a->feeds[a->submitted % FEEDS], *answer = &a->answers[a->submitted % ANSWERS];
  r->set = &r->sets[a->submitted % 2];
  vtb_status status = make_slot(a, feed, a->bytes[0], err);
  if (status == VTB_OK) status = make_slot(a, answer, a->bytes[1], err);
  if (status == VTB_OK) status = bring_inputs(a, feed, args, err);
  if (status == VTB_OK) status = vtb__enqueue_fixed(r, args, err);
  if (status == VTB_OK) status = vtb__enqueue_run(r, r->n_runs > 0, err);
  if (status == VTB_OK) status = bring_results(a, answer, err);
  if (status != VTB_OK) return end_part(a, status);
  r->n_runs++;
  a->submitted++;
  return VTB_OK;
}

vtb_status vtb__ahead_submit(void *owner, void *const *args, vtb_error *err) {
  vtb__run *r = owner;
  VTB_TRY(vtb__cu_enter(r->device, err));
  vtb_status status = submit(r, args, err);
  vtb__cu_leave(r->device);
  return status;
}

/* One call waits for all runs but the newest, which keeps the device busy meanwhile. */
static vtb_status wait_for(vtb__ahead *a, int64_t run, vtb_error *err) {
  if (run < a->known) return VTB_OK;
  int64_t last = run > a->submitted - 2 ? run : a->submitted - 2;
  vtb_status status =
      VTB_CU_CALL(a->run->device, cuEventSynchronize, (a->answers[last % ANSWERS].done), err);
  if (status == VTB_OK) a->known = last + 1;
  return status;
}

vtb_status vtb__ahead_collect(void *owner, void *const *args, vtb_error *err) {
  vtb__run *r = owner;
  vtb__ahead *a = r->ahead;
  if (!a || a->collected == a->submitted)
    return vtb_fail(err, VTB_E_INTERNAL, "no run is under way whose results could be taken");
  vtb_status status = vtb__cu_enter(r->device, err);
  if (status == VTB_OK) {
    status = wait_for(a, a->collected, err);
    vtb__cu_leave(r->device);
  }
  const slot *s = &a->answers[a->collected++ % ANSWERS];
  if (status != VTB_OK) return status;
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
