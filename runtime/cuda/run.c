/* A launch plan on a device, as a program: modules loaded once, memory allocated once, every run
 * copies the arguments in, walks the plan on one stream and copies the results out. What has its
 * place in the plan's state stays on the device from run to run and is copied on request.
 *
 * The first run launches step by step; the second one, without the prepared steps, is captured in a
 * graph, which all later ones launch: every address in the plan is fixed, and one graph costs the
 * host what one launch does. A loop of many launches has a graph of one turn, launched so often.
 * Runs that are submitted ahead (ahead.c) have two sets of inputs, and so two graphs. Timing of
 * single steps (a profile, by the device's clock) and VTB_CUDA_SYNC=1, which finds the kernel
 * behind an error, go step by step.
 */
#include "runtime/cuda/run.h"
#include "runtime/launch/launch_walk.h"

#include <stdio.h>
#include <string.h>

/* ---- segments: what runs between two buckets that somebody waits for, and loops -------------- */

/* The first segment of a range. */
static vtb_launch_range segment_of(const vtb__run *r, vtb_launch_range range) {
  for (int i = 0; r->program.on_bucket && i < r->plan->n_buckets; i++) {
    int step = r->plan->buckets[i].step;
    if (step >= range.first && step < range.end) {
      range.end = step + 1;
      break;
    }
  }
  return range;
}

/* A loop is part of a segment if a graph may hold all its turns, nobody waits in it, and nobody
 * asks whether it goes on. */
enum { MOST_LAUNCHES = 4096 };
static bool is_part(void *user, int loop) {
  const vtb__run *r = user;
  const vtb_launch_loop *l = &r->plan->loops[loop];
  for (int i = 0; r->program.on_bucket && i < r->plan->n_buckets; i++)
    if (r->plan->buckets[i].step >= l->first && r->plan->buckets[i].step < l->first + l->n)
      return false;
  return !vtb_launch_asks(r->plan, loop) &&
         vtb_launch_loop_launches(r->plan, loop) <= MOST_LAUNCHES;
}

/* Called behind the segment that ends with step `last`. */
static vtb_status tell_buckets(const vtb__run *r, int last, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int i = 0; r->program.on_bucket && i < r->plan->n_buckets && status == VTB_OK; i++) {
    const vtb_launch_bucket *b = &r->plan->buckets[i];
    vtb_cu_address base = b->where == VTB_BUCKET_STATE       ? r->state
                          : b->where == VTB_BUCKET_WORKSPACE ? r->workspace
                                                             : r->set->tensors[b->tensor];
    const vtb_bucket told = {i,
                             base + (vtb_cu_address)b->offset,
                             b->bytes,
                             b->n_tensors,
                             r->device->stream,
                             b->where != VTB_BUCKET_STATE};
    bool wanted = b->where != VTB_BUCKET_STATE || !r->program.is_part;
    if (b->step == last && wanted)
      status = r->program.on_bucket(r->program.bucket_user, &told, err);
  }
  return status;
}

static void free_graphs(const vtb__run *r, vtb__set *set) {
  for (int i = 0; set->graphs && i < r->plan->n_steps; i++)
    if (set->graphs[i]) (void)r->device->api.cuGraphExecDestroy(set->graphs[i]);
  free(set->graphs);
  set->graphs = NULL;
}

void vtb__set_clear(const vtb__run *r, vtb__set *set) {
  free_graphs(r, set);
  free(set->tensors);
  free(set->maps);
  *set = (vtb__set){0};
}

/* Work that is under way may still use what is freed here. */
void vtb__run_free(vtb__run *r) {
  const vtb_cu_api *api = &r->device->api;
  vtb__ahead_wait(r->ahead);
  (void)api->cuStreamSynchronize(r->device->stream);
  if (r->device->own != r->device->stream) (void)api->cuStreamSynchronize(r->device->own);
  for (int i = 0; i < 2; i++) vtb__set_clear(r, &r->sets[i]);
  vtb__places_free(r);
  vtb__ahead_free(r->ahead);
  vtb__products_free(r->products);
  for (int i = 0; r->modules && i < r->plan->n_sources; i++)
    if (r->modules[i]) (void)api->cuModuleUnload(r->modules[i]);
  if (r->answer) (void)api->cuMemFreeHost(r->answer);
  if (r->memory) (void)api->cuMemFree_v2(r->memory);
  if (r->workspace) (void)api->cuMemFree_v2(r->workspace);
  if (r->constants) (void)api->cuMemFree_v2(r->constants);
  if (r->state) (void)api->cuMemFree_v2(r->state);
  for (int i = 0; r->events && i <= r->plan->n_steps; i++)
    if (r->events[i]) (void)api->cuEventDestroy_v2(r->events[i]);
  free(r->events);
  free(r->modules);
  free(r->functions);
  free(r->addresses);
  free(r->parameters);
  free(r);
}

/* ---- one run --------------------------------------------------------------------------------- */

static vtb_cu_address address(const vtb__run *r, const vtb_launch_arg *a) {
  vtb_cu_address base = a->space == VTB_LAUNCH_TENSOR      ? r->set->tensors[a->tensor]
                        : a->space == VTB_LAUNCH_WORKSPACE ? r->workspace
                        : a->space == VTB_LAUNCH_STATE     ? r->state
                                                           : r->constants;
  return base + (vtb_cu_address)a->offset;
}

static vtb_status enqueue_step(vtb__run *r, const vtb_launch_step *s, vtb_error *err) {
  for (int a = 0; a < s->n_args; a++) {
    int number = s->first_arg + a;
    r->addresses[a] = address(r, &r->plan->args[number]);
    r->parameters[a] =
        r->plan->args[number].map ? (void *)&r->set->maps[number] : (void *)&r->addresses[a];
  }
  if (s->kind == VTB_LAUNCH_GEMM)
    return vtb__products_run(r->products, s->index, r->addresses, err);
  const vtb_launch_kernel *k = &r->plan->kernels[s->index];
  if (k->cluster > 1) {
    const vtb_cu_attribute cluster = vtb__cluster_of(k);
    const vtb_cu_launch how = vtb__launch_of(r, k, (unsigned)s->grid, &cluster);
    return VTB_CU_CALL(r->device, cuLaunchKernelEx,
                       (&how, r->functions[s->index], r->parameters, NULL), err);
  }
  return VTB_CU_CALL(r->device, cuLaunchKernel,
                     (r->functions[s->index], (unsigned)s->grid, 1, 1, (unsigned)k->threads, 1, 1,
                      (unsigned)k->shared_bytes, r->device->stream, r->parameters, NULL),
                     err);
}

/* Says at which step it was. */
static vtb_status blame(const vtb__run *r, int i, const vtb_error *inner, vtb_status status,
                        vtb_error *err) {
  const vtb_launch_step *s = &r->plan->steps[i];
  const vtb_kernel_info *k = vtb_launch_info(r->plan, s);
  const char *name = s->kind == VTB_LAUNCH_KERNEL ? r->plan->kernels[s->index].name : k->name;
  return vtb_fail(err, status, "step %d, %s (%s): %s", i, name ? name : "a library product",
                  k->origin ? k->origin : "-", inner->text);
}

static vtb_status enqueue_straight(void *user, vtb_launch_range range, vtb_error *err) {
  vtb__run *r = user;
  for (int i = range.first; i < range.end; i++) {
    vtb_error inner = {0};
    vtb_status status = enqueue_step(r, &r->plan->steps[i], &inner);
    if (status == VTB_OK && r->sync)
      status = VTB_CU_CALL(r->device, cuStreamSynchronize, (r->device->stream), &inner);
    if (status != VTB_OK) return blame(r, i, &inner, status, err);
  }
  return VTB_OK;
}

/* Waits for what is queued, a condition being what it makes. */
static vtb_status ask(void *user, int loop, int32_t *turns, vtb_error *err) {
  vtb__run *r = user;
  vtb_cuda_device *d = r->device;
  const vtb_launch_arg *a = &r->plan->args[r->plan->loops[loop].condition - 1];
  vtb_status status = VTB_OK;
  if (!r->answer)
    status = VTB_CU_CALL(d, cuMemHostAlloc, ((void **)&r->answer, sizeof *r->answer, 0), err);
  if (status == VTB_OK)
    status = VTB_CU_CALL(d, cuMemcpyDtoHAsync_v2,
                         (r->answer, address(r, a), sizeof *r->answer, d->stream), err);
  if (status == VTB_OK) status = VTB_CU_CALL(d, cuStreamSynchronize, (d->stream), err);
  if (status == VTB_OK) *turns = *r->answer;
  return status;
}

static vtb_status enqueue(vtb__run *r, vtb_launch_range range, vtb_error *err) {
  const vtb_launch_walk walk = {.plan = r->plan, .user = r, .steps = enqueue_straight, .ask = ask};
  return vtb_launch_walk_range(&walk, range, err);
}

static vtb_status make_events(vtb__run *r, vtb_error *err) {
  int n = r->plan->n_steps + 1;
  vtb_status status = VTB_OK;
  if (!r->events) r->events = calloc((size_t)n, sizeof *r->events);
  if (!r->events) return vtb_no_memory(err, "the events of a profile");
  for (int i = 0; i < n && status == VTB_OK; i++)
    if (!r->events[i])
      status = VTB_CU_CALL(r->device, cuEventCreate, (&r->events[i], VTB__CU_EVENT_DEFAULT), err);
  return status;
}

/* Tells who counts the events' times; the first was recorded at about `begin` of the host's. */
static vtb_status tell_times(const vtb__run *r, vtb_launch_range range, double begin,
                             vtb_error *err) {
  double from = begin;
  for (int i = range.first; i < range.end; i++) {
    const vtb_launch_step *s = &r->plan->steps[i];
    float milliseconds = 0;
    VTB_TRY(VTB_CU_CALL(r->device, cuEventElapsedTime,
                        (&milliseconds, r->events[range.first], r->events[i + 1]), err));
    double to = begin + (double)milliseconds / 1e3;
    int number = s->kind == VTB_LAUNCH_KERNEL ? s->index : r->plan->n_kernels + s->index;
    r->services->kernel_took(r->services, number, from, to);
    from = to;
  }
  return VTB_OK;
}

/* With an event behind each step, library products too: the host does not wait in between. */
static vtb_status time_straight(void *user, vtb_launch_range range, vtb_error *err) {
  vtb__run *r = user;
  vtb_cuda_device *d = r->device;
  vtb_status status = VTB_CU_CALL(d, cuStreamSynchronize, (d->stream), err);
  double begin = vtb_now();
  if (status == VTB_OK)
    status = VTB_CU_CALL(d, cuEventRecord, (r->events[range.first], d->stream), err);
  for (int i = range.first; i < range.end && status == VTB_OK; i++) {
    status = enqueue_straight(r, (vtb_launch_range){i, i + 1, 0}, err);
    if (status == VTB_OK)
      status = VTB_CU_CALL(d, cuEventRecord, (r->events[i + 1], d->stream), err);
    if (status == VTB_OK) status = tell_buckets(r, i, err);
  }
  if (status == VTB_OK) status = VTB_CU_CALL(d, cuStreamSynchronize, (d->stream), err);
  return status == VTB_OK ? tell_times(r, range, begin, err) : status;
}

static vtb_status run_timed(vtb__run *r, int first, const vtb_services *services, vtb_error *err) {
  const vtb_launch_walk walk = {.plan = r->plan, .user = r, .steps = time_straight, .ask = ask};
  r->services = services;
  VTB_TRY(make_events(r, err));
  return vtb_launch_walk_range(&walk, vtb_launch_range_of(r->plan, first, r->plan->n_steps), err);
}

/* On the device's own stream: a default stream cannot be captured. */
static vtb_status capture(vtb__run *r, vtb_launch_range segment, void **executable,
                          vtb_error *err) {
  vtb_cuda_device *d = r->device;
  void *graph = NULL, *stream = d->stream;
  vtb_status status =
      VTB_CU_CALL(d, cuStreamBeginCapture_v2, (d->own, VTB__CU_CAPTURE_THREAD_LOCAL), err);
  if (status != VTB_OK) return status;
  d->stream = d->own;
  status = enqueue(r, segment, err);
  d->stream = stream;
  /* also after a failure, to leave the mode */
  vtb_cu_result ended = d->api.cuStreamEndCapture(d->own, &graph);
  if (status == VTB_OK)
    status = vtb__cu_check(d, ended, "cuStreamEndCapture", __FILE__, __LINE__, err);
  if (status == VTB_OK)
    status = VTB_CU_CALL(d, cuGraphInstantiateWithFlags, (executable, graph, 0), err);
  if (graph) (void)d->api.cuGraphDestroy(graph);
  return status;
}

/* Without a graph launches cost more, and that is all: what is wrong with a kernel shows again when
 * it is launched by itself. */
static void capture_or_warn(vtb__run *r, vtb_launch_range segment) {
  vtb_error why = {0};
  if (capture(r, segment, &r->set->graphs[segment.first], &why) == VTB_OK) return;
  r->no_graph = true;
  char text[sizeof why.text + 128];
  snprintf(text, sizeof text,
           "no CUDA graph: %s; kernels are launched one by one, as with VTB_CUDA_GRAPH=0",
           why.text);
  if (r->program.warn) r->program.warn(text);
}

/* Each by its graph, if the set has graphs; with whoever waits for gradients called in between. */
static vtb_status run_segments(void *user, vtb_launch_range range, vtb_error *err) {
  vtb__run *r = user;
  vtb_status status = VTB_OK;
  while (range.first < range.end && status == VTB_OK) {
    vtb_launch_range segment = segment_of(r, range);
    void **graph = r->set->graphs ? &r->set->graphs[segment.first] : NULL;
    if (graph && !*graph && !r->no_graph) capture_or_warn(r, segment);
    status = graph && *graph
                 ? VTB_CU_CALL(r->device, cuGraphLaunch, (*graph, r->device->stream), err)
                 : enqueue(r, segment, err);
    if (status == VTB_OK) status = tell_buckets(r, segment.end - 1, err);
    range.first = segment.end;
    while (range.loop < r->plan->n_loops && r->plan->loops[range.loop].first < range.first)
      range.loop++;
  }
  return status;
}

/* The steps behind the prepared ones. */
static vtb_status run_steps(vtb__run *r, vtb_error *err) {
  const vtb_launch_walk walk = {
      .plan = r->plan, .user = r, .steps = run_segments, .whole = is_part, .ask = ask};
  int n = r->plan->n_steps;
  return vtb_launch_walk_range(&walk, vtb_launch_range_of(r->plan, r->plan->n_prepared, n), err);
}

static bool is_copied(const vtb__run *r, int i) {
  return vtb__tensor_bytes(&r->plan->tensors[i]) && vtb_launch_place(r->plan, i) < 0;
}

enum { FIXED = 1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER };

/* Copies tensors of these roles. */
static vtb_status copy_in(vtb__run *r, unsigned roles, void *const *args, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < r->plan->n_tensors && status == VTB_OK; i++) {
    const vtb_tensor_info *t = &r->plan->tensors[i];
    if (!(roles >> t->io & 1u) || vtb_tensor_is_result(t) || !is_copied(r, i) ||
        (r->n_runs && r->kept >> t->io & 1u))
      continue;
    status =
        VTB_CU_CALL(r->device, cuMemcpyHtoDAsync_v2,
                    (r->set->tensors[i], args[i], vtb__tensor_bytes(t), r->device->stream), err);
  }
  return status;
}

static vtb_status copy_out(vtb__run *r, void *const *args, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < r->plan->n_tensors && status == VTB_OK; i++) {
    const vtb_tensor_info *t = &r->plan->tensors[i];
    if (!vtb_tensor_is_result(t) || !is_copied(r, i) || r->kept >> t->io & 1u) continue;
    status =
        VTB_CU_CALL(r->device, cuMemcpyDtoHAsync_v2,
                    (args[i], r->set->tensors[i], vtb__tensor_bytes(t), r->device->stream), err);
  }
  if (status == VTB_OK)
    status = VTB_CU_CALL(r->device, cuStreamSynchronize, (r->device->stream), err);
  return status;
}

/* Between args and the state: what a training run goes on from. */
static vtb_status exchange_inside(vtb__run *r, void *const *args, bool in, vtb_error *err) {
  vtb_cuda_device *d = r->device;
  vtb_status status = vtb__run_begin(r, false, err);
  if (status == VTB_OK) status = vtb__ahead_is_empty(r->ahead, err);
  for (int i = 0; i < r->plan->n_tensors && status == VTB_OK; i++) {
    const vtb_tensor_info *t = &r->plan->tensors[i];
    if (vtb_launch_place(r->plan, i) < 0 || vtb_tensor_is_result(t) || !vtb__tensor_bytes(t))
      continue;
    vtb_cu_address at = r->state + (vtb_cu_address)vtb_launch_place(r->plan, i);
    status = in ? VTB_CU_CALL(d, cuMemcpyHtoDAsync_v2,
                              (at, args[i], vtb__tensor_bytes(t), d->stream), err)
                : VTB_CU_CALL(d, cuMemcpyDtoHAsync_v2,
                              (args[i], at, vtb__tensor_bytes(t), d->stream), err);
  }
  return status == VTB_OK ? VTB_CU_CALL(d, cuStreamSynchronize, (d->stream), err) : status;
}

vtb_status vtb__run_exchange(void *owner, void *const *args, bool in, vtb_error *err) {
  vtb__run *r = owner;
  VTB_TRY(vtb__cu_enter(r->device, err));
  vtb_status status = exchange_inside(r, args, in, err);
  vtb__cu_leave(r->device);
  return status;
}

void vtb__run_keep(void *owner, unsigned roles) { ((vtb__run *)owner)->kept = roles; }

static bool is_prepared(const vtb__run *r) { return r->n_runs && (r->kept & FIXED) == FIXED; }

vtb_status vtb__enqueue_fixed(vtb__run *r, void *const *args, vtb_error *err) {
  vtb_status status = copy_in(r, FIXED, args, err);
  if (status != VTB_OK || is_prepared(r)) return status;
  return vtb__enqueue_prepared(r, err);
}

vtb_status vtb__enqueue_prepared(vtb__run *r, vtb_error *err) {
  return enqueue(r, vtb_launch_range_of(r->plan, 0, r->plan->n_prepared), err);
}

vtb_status vtb__enqueue_run(vtb__run *r, bool again, vtb_error *err) {
  const char *note = r->n_runs || r->n_placed ? NULL : vtb__products_note(r->products);
  if (note && r->program.warn) r->program.warn(note);
  if (again && !r->set->graphs && !r->no_graph && !r->sync) {
    r->set->graphs = calloc((size_t)r->plan->n_steps + 1, sizeof *r->set->graphs);
    if (!r->set->graphs) return vtb_no_memory(err, "graphs");
  }
  return run_steps(r, err);
}

static vtb_status run_inside(vtb__run *r, void *const *args, const vtb_services *services,
                             vtb_error *err) {
  bool timed = services && services->size >= sizeof *services && services->kernel_took;
  bool prepared = is_prepared(r);
  int behind = r->plan->n_prepared;
  vtb_status status = vtb__run_begin(r, true, err);
  if (status == VTB_OK) status = vtb__ahead_is_empty(r->ahead, err);
  r->set = &r->sets[0];
  if (status == VTB_OK) status = copy_in(r, ~0u, args, err);
  if (status == VTB_OK && !prepared && !timed) status = vtb__enqueue_prepared(r, err);
  if (status != VTB_OK) return status;
  status = timed ? run_timed(r, prepared ? behind : 0, services, err)
                 : vtb__enqueue_run(r, r->n_runs > 0, err);
  if (status == VTB_OK) status = copy_out(r, args, err);
  if (!timed) r->n_runs++;
  return status;
}

vtb_status vtb__run_copying(void *owner, void *const *args, const vtb_services *services,
                            vtb_error *err) {
  vtb__run *r = owner;
  VTB_TRY(vtb__cu_enter(r->device, err));
  vtb_status status = run_inside(r, args, services, err);
  vtb__cu_leave(r->device);
  return status;
}

/* Maps of the set at hand, whose addresses are fixed by now. */
vtb_status vtb__encode_maps(vtb__run *r, vtb_error *err) {
  const vtb_launch_plan *p = r->plan;
  vtb_status status = VTB_OK;
  if (!p->n_maps) return VTB_OK;
  if (!r->set->maps) r->set->maps = aligned_alloc(64, (size_t)p->n_args * sizeof *r->set->maps);
  vtb__cu_map *maps = r->set->maps;
  if (!maps) return vtb_no_memory(err, "the tensor maps of a program");
  for (int i = 0; i < p->n_steps; i++)
    for (int n = p->steps[i].first_arg, end = n + p->steps[i].n_args; n < end; n++) {
      vtb_error inner = {0};
      if (!p->args[n].map) continue;
      status = vtb__cu_encode_map(r->device, &p->maps[p->args[n].map - 1], address(r, &p->args[n]),
                                  &maps[n], &inner);
      if (status != VTB_OK) return blame(r, i, &inner, status, err);
    }
  return status;
}
