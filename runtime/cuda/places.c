/* Runs in memory of others: tensors stand on the device where the caller has them, and only what
 * is elsewhere, or badly aligned, or shorter than the program works on, is copied.
 *
 * Addresses in a graph are fixed. So a set of addresses is launched step by step the first time,
 * captured the second, and replayed from then on; as many sets as VTB__MOST_PLACES are remembered.
 * While the caller records its stream into a graph of its own, the steps go there one by one. */
#include "runtime/cuda/run.h"

#include <string.h>

/* ---- addresses ------------------------------------------------------------------------------- */

/* The alignment that steps rely on: a kernel's arguments say it, the copy engine wants 16 bytes,
 * and cublasLt was asked for ways that take what memory of our own has. */
static void find_alignment(vtb__run *r) {
  const vtb_launch_plan *p = r->plan;
  for (int i = 0; i < p->n_tensors; i++) r->align[i] = 4;
  for (int s = 0; s < p->n_steps; s++)
    for (int k = 0; k < p->steps[s].n_args; k++) {
      const vtb_launch_arg *a = &p->args[p->steps[s].first_arg + k];
      unsigned align = p->steps[s].kind == VTB_LAUNCH_GEMM ? VTB__ALIGNMENT
                       : a->map                            ? 16
                                                           : a->align;
      if (a->space == VTB_LAUNCH_TENSOR && align > r->align[a->tensor]) r->align[a->tensor] = align;
    }
}

static vtb_status begin_run(vtb__run *r, vtb_error *err) {
  size_t n = (size_t)r->plan->n_tensors + 1;
  vtb_status status = vtb__run_begin(r, false, err);
  if (status != VTB_OK || r->align) return status;
  if (!r->wanted) r->wanted = calloc(n, sizeof *r->wanted);
  if (!r->own) r->own = calloc(n, sizeof *r->own);
  r->align = r->wanted && r->own ? calloc(n, sizeof *r->align) : NULL;
  if (!r->align) return vtb_no_memory(err, "the addresses of a program");
  find_alignment(r);
  return VTB_OK;
}

/* Tensors that have neither bytes nor a place in the state need no place at all. */
static bool is_placed(const vtb__run *r, int i) {
  return vtb_launch_place(r->plan, i) < 0 && vtb__tensor_bytes(&r->plan->tensors[i]);
}

static bool works_there(const vtb__run *r, int i, const vtb_run_place *p) {
  return p->on_device && p->bytes >= vtb__tensor_bytes(&r->plan->tensors[i]) &&
         p->at % r->align[i] == 0;
}

static vtb_status find_address(vtb__run *r, int i, const vtb_run_place *p, vtb_error *err) {
  const vtb_tensor_info *t = &r->plan->tensors[i];
  int64_t place = vtb_launch_place(r->plan, i);
  vtb_status status = VTB_OK;
  if (place >= 0) {
    r->wanted[i] = r->state + (vtb_cu_address)place;
  } else if (is_placed(r, i) && works_there(r, i, p)) {
    r->wanted[i] = p->at;
  } else {
    if (!r->own[i])
      status = vtb__allocate(r->device, &r->own[i], vtb__tensor_bytes(t), t->name, err);
    r->wanted[i] = r->own[i];
  }
  return status;
}

/* The set with these addresses, else the one that was not used for longest. */
static vtb_status find_set(vtb__run *r, vtb_error *err) {
  size_t bytes = (size_t)r->plan->n_tensors * sizeof *r->wanted;
  vtb__set *oldest = &r->places[0];
  for (int i = 0; i < VTB__MOST_PLACES; i++) {
    vtb__set *s = &r->places[i];
    if (s->tensors && memcmp(s->tensors, r->wanted, bytes) == 0) {
      r->set = s;
      return VTB_OK;
    }
    if (!s->tensors || (oldest->tensors && s->last < oldest->last)) oldest = s;
  }
  vtb__set_clear(r, oldest);
  oldest->tensors = malloc(bytes + 1);
  if (!oldest->tensors) return vtb_no_memory(err, "the addresses of a program");
  memcpy(oldest->tensors, r->wanted, bytes);
  r->set = oldest;
  vtb_status status = vtb__encode_maps(r, err);
  if (status != VTB_OK) vtb__set_clear(r, oldest);
  return status;
}

/* ---- one run --------------------------------------------------------------------------------- */

enum { FIXED = 1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER };

static vtb_status bring(vtb__run *r, int i, const vtb_run_place *p, vtb_error *err) {
  vtb_cuda_device *d = r->device;
  size_t all = vtb__tensor_bytes(&r->plan->tensors[i]), n = p->bytes < all ? p->bytes : all;
  vtb_cu_address to = r->wanted[i];
  vtb_status status = VTB_OK;
  if (n && p->on_device)
    status = VTB_CU_CALL(d, cuMemcpyDtoDAsync_v2, (to, p->at, n, d->stream), err);
  else if (n)
    status =
        VTB_CU_CALL(d, cuMemcpyHtoDAsync_v2, (to, (void *)(uintptr_t)p->at, n, d->stream), err);
  if (status == VTB_OK && n < all && !p->repeats)
    status = VTB_CU_CALL(d, cuMemsetD8Async, (to + n, 0, all - n, d->stream), err);
  for (size_t at = n; at < all && p->repeats && status == VTB_OK; at += p->repeats)
    status = VTB_CU_CALL(d, cuMemcpyDtoDAsync_v2, (to + at, to, p->repeats, d->stream), err);
  return status;
}

static vtb_status bring_arguments(vtb__run *r, const vtb_run_place *places, bool fixed,
                                  vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < r->plan->n_tensors && status == VTB_OK; i++) {
    const vtb_tensor_info *t = &r->plan->tensors[i];
    bool there = fixed && FIXED >> t->io & 1u;
    if (is_placed(r, i) && !vtb_tensor_is_result(t) && !there && r->wanted[i] == r->own[i])
      status = bring(r, i, &places[i], err);
  }
  return status;
}

static vtb_status take_results(vtb__run *r, const vtb_run_place *places, vtb_error *err) {
  vtb_cuda_device *d = r->device;
  vtb_status status = VTB_OK;
  for (int i = 0; i < r->plan->n_tensors && status == VTB_OK; i++) {
    const vtb_tensor_info *t = &r->plan->tensors[i];
    size_t all = vtb__tensor_bytes(t), n = places[i].bytes < all ? places[i].bytes : all;
    if (!is_placed(r, i) || !vtb_tensor_is_result(t) || r->wanted[i] != r->own[i] || !n) continue;
    void *host = (void *)(uintptr_t)places[i].at;
    status =
        places[i].on_device
            ? VTB_CU_CALL(d, cuMemcpyDtoDAsync_v2, (places[i].at, r->own[i], n, d->stream), err)
            : VTB_CU_CALL(d, cuMemcpyDtoHAsync_v2, (host, r->own[i], n, d->stream), err);
  }
  return status;
}

static vtb_status is_recorded(const vtb__run *r, bool *out, vtb_error *err) {
  int state = 0;
  vtb_status status =
      r->device->stream == r->device->own
          ? VTB_OK
          : VTB_CU_CALL(r->device, cuStreamIsCapturing, (r->device->stream, &state), err);
  *out = state != 0;
  return status;
}

static vtb_status run_inside(vtb__run *r, const vtb_run_place *places, bool fixed, vtb_error *err) {
  vtb_cuda_device *d = r->device;
  bool recorded = false;
  vtb_status status = begin_run(r, err);
  if (status == VTB_OK) status = is_recorded(r, &recorded, err);
  for (int i = 0; i < r->plan->n_tensors && status == VTB_OK; i++)
    status = find_address(r, i, &places[i], err);
  if (status == VTB_OK) status = find_set(r, err);
  if (status != VTB_OK) return status;
  for (int i = 0; recorded && i < r->plan->n_loops; i++)
    if (r->plan->loops[i].condition)
      return vtb_fail(err, VTB_E_INPUT,
                      "a program with a loop that ends by its values cannot be recorded into a "
                      "graph: the host reads whether it goes on");
  bool prepared = fixed && r->is_prepared;
  r->is_prepared = false; /* until nothing has failed */
  r->set->last = ++r->n_placed;
  status = bring_arguments(r, places, prepared, err);
  if (status == VTB_OK && !prepared) status = vtb__enqueue_prepared(r, err);
  if (status == VTB_OK) {
    void **graphs = r->set->graphs;
    if (recorded) r->set->graphs = NULL; /* a graph cannot be launched into another */
    status = vtb__enqueue_run(r, !recorded && r->set->n_runs > 0, err);
    if (recorded) r->set->graphs = graphs;
  }
  if (status == VTB_OK) status = take_results(r, places, err);
  if (status == VTB_OK && d->stream == d->own)
    status = VTB_CU_CALL(d, cuStreamSynchronize, (d->stream), err);
  if (status != VTB_OK) return status;
  r->is_prepared = prepared || !recorded; /* what is recorded has not run */
  r->set->n_runs++;
  return VTB_OK;
}

static vtb_status run_places(void *owner, const vtb_run_place *places, bool fixed,
                             const vtb_services *services, vtb_error *err) {
  vtb__run *r = owner;
  (void)services;
  VTB_TRY(vtb__cu_enter(r->device, err));
  vtb_status status = run_inside(r, places, fixed, err);
  vtb__cu_leave(r->device);
  return status;
}

void vtb__places_free(vtb__run *r) {
  for (int i = 0; i < VTB__MOST_PLACES; i++) vtb__set_clear(r, &r->places[i]);
  for (int i = 0; r->own && i < r->plan->n_tensors; i++)
    if (r->own[i]) (void)r->device->api.cuMemFree_v2(r->own[i]);
  free(r->own);
  free(r->wanted);
  free(r->align);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static const void *space(const void *owner) { return ((const vtb__run *)owner)->device->context; }

static vtb_status take_zeros(vtb_cuda_device *d, size_t n, uint64_t *at, vtb_error *err) {
  VTB_TRY(vtb__allocate(d, at, n, "arrays of a session", err));
  vtb_status status = VTB_CU_CALL(d, cuMemsetD8Async, (*at, 0, n, d->own), err);
  if (status == VTB_OK) status = VTB_CU_CALL(d, cuStreamSynchronize, (d->own), err);
  if (status != VTB_OK) (void)d->api.cuMemFree_v2(*at);
  return status;
}

static vtb_status take_memory(void *owner, size_t n, uint64_t *at, vtb_error *err) {
  vtb_cuda_device *d = ((vtb__run *)owner)->device;
  VTB_TRY(vtb__cu_enter(d, err));
  vtb_status status = take_zeros(d, n, at, err);
  vtb__cu_leave(d);
  return status;
}

/* Freeing waits for the whole device. */
static void give(void *owner, uint64_t at) {
  const vtb_cuda_device *d = ((vtb__run *)owner)->device;
  vtb_error none = {0};
  bool inside = vtb__cu_enter(d, &none) == VTB_OK;
  (void)d->api.cuMemFree_v2(at);
  if (inside) vtb__cu_leave(d);
}

/* Behind the runs that are queued, for which it waits. */
static vtb_status copy_place(void *owner, uint64_t at, void *host, size_t n, bool in,
                             vtb_error *err) {
  vtb_cuda_device *d = ((vtb__run *)owner)->device;
  VTB_TRY(vtb__cu_enter(d, err));
  vtb_status status = in ? VTB_CU_CALL(d, cuMemcpyHtoDAsync_v2, (at, host, n, d->stream), err)
                         : VTB_CU_CALL(d, cuMemcpyDtoHAsync_v2, (host, at, n, d->stream), err);
  if (status == VTB_OK) status = VTB_CU_CALL(d, cuStreamSynchronize, (d->stream), err);
  vtb__cu_leave(d);
  return status;
}

static vtb_status wait(void *owner, vtb_error *err) {
  vtb_cuda_device *d = ((vtb__run *)owner)->device;
  VTB_TRY(vtb__cu_enter(d, err));
  vtb_status status = VTB_CU_CALL(d, cuStreamSynchronize, (d->stream), err);
  vtb__cu_leave(d);
  return status;
}

static vtb_status check_place(void *owner, uint64_t at, const char *what, vtb_error *err) {
  vtb_cuda_device *d = ((vtb__run *)owner)->device;
  int type = 0, number = d->number;
  vtb_status status = vtb__cu_enter(d, err);
  if (status != VTB_OK) return status;
  vtb_cu_result known = d->api.cuPointerGetAttribute(&type, VTB__CU_POINTER_MEMORY_TYPE, at);
  if (known == 0 && type != VTB__CU_MEMORY_HOST)
    status = VTB_CU_CALL(d, cuPointerGetAttribute, (&number, VTB__CU_POINTER_DEVICE, at), err);
  vtb__cu_leave(d);
  if (known != 0 || type == VTB__CU_MEMORY_HOST)
    return vtb_fail(err, VTB_E_DEVICE, "the array for \"%s\" is not in the memory of a device",
                    what);
  if (status == VTB_OK && number != d->number)
    return vtb_fail(err, VTB_E_DEVICE,
                    "the array for \"%s\" is on device %d, and the session on device %d", what,
                    number, d->number);
  return status;
}

const vtb_device_calls vtb__cuda_calls = {.open = vtb__cuda_open,
                                          .run = run_places,
                                          .space = space,
                                          .take = take_memory,
                                          .give = give,
                                          .copy = copy_place,
                                          .wait = wait,
                                          .check = check_place};
const vtb_device_calls vtb__cuda_calls_alone = {.run = run_places,
                                                .space = space,
                                                .take = take_memory,
                                                .give = give,
                                                .copy = copy_place,
                                                .wait = wait,
                                                .check = check_place};
