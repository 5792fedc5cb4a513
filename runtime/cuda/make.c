/* Programs of launch plans on a device: modules are loaded when one is made, memory and library
 * products are there from its first run on, so that a program which others are only opened of has
 * none. */
#include "runtime/cuda/run.h"
#include "runtime/launch/launch_check.h"

#include <string.h>

enum { SHARED_WITHOUT_ASKING = 48 * 1024 };

/* ---- the end --------------------------------------------------------------------------------- */

static void free_code(vtb__code *c, bool plan) {
  if (!c || atomic_fetch_sub(&c->users, 1) > 1) return;
  for (int i = 0; c->images && i < c->plan->n_sources; i++)
    free((void *)(uintptr_t)c->images[i].data);
  free(c->images);
  if (plan) vtb_launch_plan_free(c->plan);
  free(c);
}

static void free_run(void *owner) {
  vtb__run *r = owner;
  vtb__code *code = r->code;
  vtb_cuda_device *device = r->device;
  vtb_error none = {0};
  bool inside = vtb__cu_enter(device, &none) == VTB_OK;
  vtb__run_free(r);
  if (inside) vtb__cu_leave(device);
  vtb_cuda_device_close(device);
  free_code(code, true);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* A cluster runs on neighbouring multiprocessors: some parts of a device may have too few of them.
 */
static vtb_status check_cluster(const vtb__run *r, int i, vtb_error *err) {
  const vtb_launch_kernel *k = &r->plan->kernels[i];
  vtb_cuda_device *d = r->device;
  const vtb_cu_attribute cluster = vtb__cluster_of(k);
  const vtb_cu_launch how = vtb__launch_of(r, k, (unsigned)k->cluster, &cluster);
  int clusters = 0;
  vtb_status status =
      VTB_CU_CALL(d, cuOccupancyMaxActiveClusters, (&clusters, r->functions[i], &how), err);
  if (status != VTB_OK || clusters > 0) return status;
  return vtb_fail(err, VTB_E_DEVICE,
                  "no cluster of %d of its blocks fits on %s as it is now (is it cut into parts?); "
                  "VTB_CUDA_WGMMA=0 takes the kernels without clusters",
                  k->cluster, d->name);
}

static vtb_status load_kernel(vtb__run *r, int i, vtb_error *err) {
  const vtb_launch_kernel *k = &r->plan->kernels[i];
  vtb_cuda_device *d = r->device;
  vtb_status status =
      VTB_CU_CALL(d, cuModuleGetFunction, (&r->functions[i], r->modules[k->source], k->name), err);
  if (status == VTB_OK && k->shared_bytes > d->shared_bytes)
    return vtb_fail(err, VTB_E_DEVICE, "it wants %d bytes of shared memory; %s has %d a block",
                    k->shared_bytes, d->name, d->shared_bytes);
  if (status == VTB_OK && k->shared_bytes > SHARED_WITHOUT_ASKING)
    status = VTB_CU_CALL(d, cuFuncSetAttribute,
                         (r->functions[i], VTB__CU_MAX_DYNAMIC_SHARED, k->shared_bytes), err);
  return status == VTB_OK && k->cluster > 1 ? check_cluster(r, i, err) : status;
}

static vtb_status load_images(vtb__run *r, const vtb_cuda_image *images, vtb_error *err) {
  const vtb_launch_plan *p = r->plan;
  vtb_cuda_device *d = r->device;
  vtb_status status = VTB_OK;
  r->modules = calloc((size_t)p->n_sources + 1, sizeof *r->modules);
  r->functions = calloc((size_t)p->n_kernels + 1, sizeof *r->functions);
  if (!r->modules || !r->functions) return vtb_no_memory(err, "the kernels of a program");
  for (int i = 0; i < p->n_sources && status == VTB_OK; i++)
    status =
        VTB_CU_CALL(d, cuModuleLoadDataEx, (&r->modules[i], images[i].data, 0, NULL, NULL), err);
  for (int i = 0; i < p->n_kernels && status == VTB_OK; i++) {
    const vtb_launch_kernel *k = &p->kernels[i];
    vtb_error inner = {0};
    status = load_kernel(r, i, &inner);
    if (status != VTB_OK)
      return vtb_fail(err, status, "kernel %s (%s): %s", k->name,
                      k->info.origin ? k->info.origin : "-", inner.text);
  }
  return status;
}

/* ---- memory ---------------------------------------------------------------------------------- */

vtb_status vtb__allocate(vtb_cuda_device *d, vtb_cu_address *to, size_t n, const char *what,
                         vtb_error *err) {
  vtb_error inner = {0};
  vtb_status status = VTB_CU_CALL(d, cuMemAlloc_v2, (to, n ? n : VTB__ALIGNMENT), &inner);
  if (status == VTB_OK) return VTB_OK;
  return vtb_fail(err, status, "%.1f MB of device memory for the %s: %s", (double)n / 1e6, what,
                  inner.text);
}

/* Memory of each tensor, for runs that copy all of them. */
static vtb_status take_tensors(vtb__run *r, vtb_error *err) {
  const vtb_launch_plan *p = r->plan;
  size_t total = 0, at = 0;
  for (int i = 0; i < p->n_tensors; i++)
    if (vtb_launch_place(p, i) < 0) total += vtb__padded(vtb__tensor_bytes(&p->tensors[i]));
  if (r->memory) return VTB_OK;
  vtb_status status =
      vtb__allocate(r->device, &r->memory, total, "parameters, inputs and results", err);
  if (status != VTB_OK) return status;
  r->sets[0].tensors = calloc((size_t)p->n_tensors + 1, sizeof *r->sets[0].tensors);
  if (!r->sets[0].tensors) return vtb_no_memory(err, "the addresses of a program");
  for (int i = 0; i < p->n_tensors; i++) {
    if (vtb_launch_place(p, i) >= 0) continue;
    r->sets[0].tensors[i] = r->memory + at;
    at += vtb__padded(vtb__tensor_bytes(&p->tensors[i]));
  }
  return VTB_OK;
}

/* Places tensors that lie in the state, which is there now. */
static vtb_status place_tensors(vtb__run *r, vtb_error *err) {
  const vtb_launch_plan *p = r->plan;
  for (int i = 0; i < p->n_tensors; i++) {
    int64_t place = vtb_launch_place(p, i);
    if (place >= 0) r->sets[0].tensors[i] = r->state + (vtb_cu_address)place;
  }
  r->set = &r->sets[0];
  return vtb__encode_maps(r, err);
}

static vtb_status take_memory(vtb__run *r, vtb_error *err) {
  const vtb_launch_plan *p = r->plan;
  vtb_cuda_device *d = r->device;
  vtb_status status = VTB_OK;
  if (!r->workspace)
    status = vtb__allocate(d, &r->workspace, (size_t)p->workspace_bytes, "workspace", err);
  if (status == VTB_OK && !r->constants)
    status = vtb__allocate(d, &r->constants, (size_t)p->constant_bytes, "constants", err);
  if (status == VTB_OK && p->state_bytes && !r->state)
    status = vtb__allocate(d, &r->state, (size_t)p->state_bytes, "state of the training", err);
  if (status == VTB_OK && p->state_bytes)
    status = VTB_CU_CALL(d, cuMemsetD8Async, (r->state, 0, (size_t)p->state_bytes, d->own), err);
  if (status == VTB_OK && p->constant_bytes)
    status = VTB_CU_CALL(d, cuMemcpyHtoDAsync_v2,
                         (r->constants, p->constants, (size_t)p->constant_bytes, d->own), err);
  if (status != VTB_OK || (!p->constant_bytes && !p->state_bytes)) return status;
  return VTB_CU_CALL(d, cuStreamSynchronize, (d->own), err);
}

/* Products are timed on the device's own stream, too: the caller's may be busy. */
static vtb_status open_products(vtb__run *r, vtb_error *err) {
  void *stream = r->device->stream;
  r->device->stream = r->device->own;
  vtb_status status = vtb__products_open(r->device, r->plan, &r->products, err);
  r->device->stream = stream;
  return status;
}

/* A failure leaves the rest to be freed with the run, or to the next that begins. */
vtb_status vtb__run_begin(vtb__run *r, bool tensors, vtb_error *err) {
  vtb_status status = VTB_OK;
  if (tensors && !r->has_tensors) status = take_tensors(r, err);
  if (status == VTB_OK && !r->begun) {
    status = take_memory(r, err);
    if (status == VTB_OK) status = open_products(r, err);
    r->begun = status == VTB_OK;
  }
  if (status != VTB_OK || !tensors || r->has_tensors) return status;
  status = place_tensors(r, err);
  r->has_tensors = status == VTB_OK;
  return status;
}

/* ---- making one ------------------------------------------------------------------------------ */

static vtb_status describe_run(vtb__run *r, vtb_error *err) {
  r->program = (vtb_program){.run = vtb__run_copying,
                             .keep = vtb__run_keep,
                             .exchange = vtb__run_exchange,
                             .owner = r,
                             .free = free_run};
  r->program.device = r->code->images ? &vtb__cuda_calls : &vtb__cuda_calls_alone;
  bool one_by_one = r->sync || r->device->how.cuda_ahead == VTB_NO;
  if (!one_by_one && vtb__ahead_is_possible(r->plan)) {
    r->program.submit = vtb__ahead_submit;
    r->program.collect = vtb__ahead_collect;
    r->program.most_ahead = VTB__MOST_AHEAD;
    if (r->device->how.cuda_pixels != VTB_NO) r->program.pixels = vtb__pixels_tensor(r->plan) + 1;
  }
  return vtb_launch_plan_describe(r->plan, &r->program, err);
}

static vtb_status copy_images(vtb__code *c, const vtb_cuda_image *images, vtb_error *err) {
  c->images = calloc((size_t)c->plan->n_sources + 1, sizeof *c->images);
  for (int i = 0; c->images && i < c->plan->n_sources; i++) {
    void *copy = malloc(images[i].n_bytes + 1);
    if (!copy) return vtb_no_memory(err, "the kernels of a program");
    c->images[i] =
        (vtb_cuda_image){memcpy(copy, images[i].data, images[i].n_bytes), images[i].n_bytes};
  }
  return c->images ? VTB_OK : vtb_no_memory(err, "the kernels of a program");
}

/* A program of the code, which it takes also on failure, without the plan. */
static vtb_status make(vtb__code *code, const vtb_cuda_image *images, vtb_cuda_device *device,
                       vtb__run **out, vtb_error *err) {
  vtb__run *r = calloc(1, sizeof *r);
  if (!r) return vtb_no_memory(err, "a program");
  size_t most = 1;
  r->code = code;
  r->plan = code->plan;
  r->device = device;
  r->set = &r->sets[0];
  r->no_graph = device->how.cuda_graph == VTB_NO;
  r->sync = device->how.cuda_sync == VTB_YES;
  for (int i = 0; i < r->plan->n_steps; i++)
    if ((size_t)r->plan->steps[i].n_args > most) most = (size_t)r->plan->steps[i].n_args;
  r->addresses = calloc(most, sizeof *r->addresses);
  r->parameters = calloc(most, sizeof *r->parameters);
  vtb_status status =
      r->addresses && r->parameters ? VTB_OK : vtb_no_memory(err, "the addresses of a program");
  if (status == VTB_OK) status = vtb__cu_enter(device, err);
  if (status == VTB_OK) {
    status = load_images(r, images, err);
    if (status != VTB_OK) vtb__run_free(r);
    vtb__cu_leave(device);
  } else {
    free(r->addresses);
    free(r->parameters);
    free(r);
  }
  if (status == VTB_OK) *out = r;
  return status;
}

vtb_status vtb__cuda_program(vtb_launch_plan *plan, const vtb_cuda_image *images, bool others,
                             vtb_cuda_device *device, vtb_program **program, vtb_error *err) {
  vtb_status status = vtb_launch_plan_check(plan, vtb_arch_find(device->arch), err);
  if (status != VTB_OK) return status;
  vtb__code *code = calloc(1, sizeof *code);
  vtb__run *r = NULL;
  if (!code) return vtb_no_memory(err, "a program");
  atomic_init(&code->users, 1);
  code->plan = plan;
  snprintf(code->arch, sizeof code->arch, "%s", device->arch);
  if (others && images) status = copy_images(code, images, err);
  if (status == VTB_OK) status = make(code, images, device, &r, err);
  if (status == VTB_OK && (status = describe_run(r, err)) == VTB_OK) {
    *program = &r->program;
    return VTB_OK;
  }
  vtb_error none = {0};
  bool inside = r && vtb__cu_enter(device, &none) == VTB_OK;
  if (r) vtb__run_free(r);
  if (inside) vtb__cu_leave(device);
  free_code(code, false);
  return status;
}

vtb_status vtb_cuda_program(vtb_launch_plan *plan, const vtb_cuda_image *images,
                            vtb_cuda_device *device, vtb_program **program, vtb_error *err) {
  return vtb__cuda_program(plan, images, true, device, program, err);
}

vtb_cuda_device *vtb_cuda_device_of(const vtb_program *p) {
  return p->run == vtb__run_copying ? ((const vtb__run *)p->owner)->device : NULL;
}

vtb_status vtb__cuda_open(void *owner, const vtb_device_choice *where, vtb_program **out,
                          vtb_error *err) {
  const vtb__run *of = owner;
  vtb_cuda_device *device = NULL;
  vtb__run *r = NULL;
  vtb_status status = vtb__cu_open(where, &device, err);
  if (status != VTB_OK) return status;
  if (strcmp(device->arch, of->code->arch) != 0)
    status = vtb_fail(err, VTB_E_DEVICE, "the program was compiled for %s, and %s takes %s",
                      of->code->arch, device->name, device->arch);
  if (status == VTB_OK) status = make(of->code, of->code->images, device, &r, err);
  if (status != VTB_OK) {
    vtb_cuda_device_close(device);
    return status;
  }
  atomic_fetch_add(&of->code->users, 1);
  r->program = of->program; /* with its tables, which are the plan's */
  r->program.owner = r;
  *out = &r->program;
  return VTB_OK;
}
