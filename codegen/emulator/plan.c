/* A launch plan as a program that runs in the emulator.
 *
 * Every tensor, the workspace and the constants have memory of their own, aligned as on the device;
 * args are copied in before a run and results out after it; what has its place in the state stays
 * there. The workspace and the results are filled with NaN before every run, so that what is read
 * before it was written shows in the numbers. All sources of the plan are one translation unit.
 */
#include "codegen/emulator/emulator.h"
#include "runtime/base/half.h"
#include "runtime/launch/launch_walk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { ALIGNMENT = 256 }; /* of tensors, workspace and constants, as on the device */

/* Shared by the programs of one plan. Their runs come one after another. */
typedef struct shared {
  atomic_int users;
  pthread_mutex_t running;
  vtb_launch_plan *plan;
  vtb_emulator *emulator;
} shared;

typedef struct emulated {
  vtb_program program;
  shared *shared;
  vtb_launch_plan *plan;
  vtb_emulator *emulator;
  char **tensors; /* one a tensor of the plan; in the state or its own */
  char *workspace, *constants, *state;
  vtb_emu_map *maps; /* the plan's */
  vtb_emu_arg *args; /* of the step that runs */
} emulated;

static void free_all_but_plan(emulated *e) {
  for (int i = 0; e->tensors && i < e->plan->n_tensors; i++)
    if (vtb_launch_place(e->plan, i) < 0) vtb_free(e->tensors[i]);
  vtb_free(e->tensors);
  vtb_free(e->workspace);
  vtb_free(e->constants);
  vtb_free(e->state);
  vtb_free(e->args);
  vtb_free(e->maps);
  vtb_free(e);
}

static void free_shared(shared *s, bool plan) {
  if (atomic_fetch_sub(&s->users, 1) > 1) return;
  vtb_emulator_free(s->emulator);
  if (plan) vtb_launch_plan_free(s->plan);
  pthread_mutex_destroy(&s->running);
  vtb_free(s);
}

static void free_emulated(void *owner) {
  shared *s = ((emulated *)owner)->shared;
  free_all_but_plan(owner);
  free_shared(s, true);
}

static size_t tensor_bytes(const vtb_tensor_info *t) {
  return (size_t)vtb_tensor_info_count(t) * 4;
}

static char *allocate(int64_t bytes) {
  return aligned_alloc(ALIGNMENT,
                       ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + ALIGNMENT);
}

/* ---- one run --------------------------------------------------------------------------------- */

static vtb_emu_arg address(const emulated *e, const vtb_launch_arg *a) {
  char *base = a->space == VTB_LAUNCH_TENSOR      ? e->tensors[a->tensor]
               : a->space == VTB_LAUNCH_WORKSPACE ? e->workspace
               : a->space == VTB_LAUNCH_STATE     ? e->state
                                                  : e->constants;
  return (vtb_emu_arg){.begin = base + a->offset,
                       .end = base + a->offset + a->bytes,
                       .map = a->map ? &e->maps[a->map - 1] : NULL};
}

static vtb_status run_kernel(emulated *e, const vtb_launch_step *s, const vtb_services *services,
                             vtb_error *err) {
  const vtb_launch_kernel *k = &e->plan->kernels[s->index];
  vtb_emulator_launch l = {.kernel = k->name,
                           .grid = s->grid,
                           .threads = k->threads,
                           .cluster = k->cluster,
                           .shared_bytes = k->shared_bytes,
                           .n_args = s->n_args,
                           .args = e->args};
  if (services && services->kernel_begin) services->kernel_begin(services, s->index);
  vtb_status status = vtb_emulator_run(e->emulator, &l, services, err);
  if (services && services->kernel_end) services->kernel_end(services, s->index);
  return status;
}

/* A product's argument as floats: itself, or `copy`. */
static float *as_floats(const vtb_emu_arg *arg, bool narrow, bool fp16, float **copy) {
  if (!narrow) return (float *)(void *)arg->begin;
  size_t n = (size_t)((char *)arg->end - (char *)arg->begin) / 2;
  const uint16_t *from = (const uint16_t *)(void *)arg->begin;
  *copy = vtb_xmalloc((n + 1) * sizeof **copy);
  for (size_t i = 0; i < n; i++)
    (*copy)[i] = fp16 ? vtb_f16_to_f32(from[i]) : vtb_bf16_to_f32(from[i]);
  return *copy;
}

/* c = op(a) op(b), or added to c. */
static void multiply(const vtb_launch_gemm *g, const float *a, const float *b, float *c) {
  for (int64_t i = 0; i < g->m; i++) {
    float *row = c + i * g->ldc;
    for (int64_t j = 0; !g->accumulate && j < g->n; j++) row[j] = 0;
    for (int64_t l = 0; l < g->k; l++) {
      float x = g->trans_a ? a[l * g->lda + i] : a[i * g->lda + l];
      const float *y = g->trans_b ? b + l : b + l * g->ldb;
      for (int64_t j = 0, step = g->trans_b ? g->ldb : 1; j < g->n; j++) row[j] += x * y[j * step];
    }
  }
}

static void run_gemm(const emulated *e, int index, const vtb_services *s) {
  const vtb_launch_gemm *g = &e->plan->gemms[index];
  int number = e->plan->n_kernels + index;
  if (s->kernel_begin) s->kernel_begin(s, number);
  float *copies[4] = {NULL};
  bool fp16 = g->precision == 3;
  const float *a = as_floats(&e->args[0], g->narrow_factors, fp16, &copies[0]);
  const float *b = as_floats(&e->args[1], g->narrow_factors, fp16, &copies[1]);
  float *c = as_floats(&e->args[2], g->narrow_result, fp16, &copies[2]);
  const float *bias =
      g->has_bias ? as_floats(&e->args[3], g->narrow_result, fp16, &copies[3]) : NULL;
  for (int64_t i = 0; i < g->batch; i++) {
    float *to = c + i * g->stride_c;
    multiply(g, a + i * g->stride_a, b + i * g->stride_b, to);
    for (int64_t r = 0; bias && r < g->m; r++)
      for (int64_t col = 0; col < g->n; col++) to[r * g->ldc + col] += bias[col];
    for (int64_t r = 0; g->narrow_result && r < g->m; r++) /* only what is the product's */
      for (int64_t col = 0; col < g->n; col++) {
        int64_t at = i * g->stride_c + r * g->ldc + col;
        ((uint16_t *)(void *)e->args[2].begin)[at] =
            fp16 ? vtb_f32_to_f16(c[at]) : vtb_f32_to_bf16(c[at]);
      }
  }
  for (int i = 0; i < 4; i++) vtb_free(copies[i]);
  if (s->kernel_end) s->kernel_end(s, number);
}

/* places, if there are any, instead of args: an argument's rest is zero. */
static void copy_argument(emulated *e, int i, void *const *args, const vtb_run_place *places) {
  size_t all = tensor_bytes(&e->plan->tensors[i]);
  size_t n = places && places[i].bytes < all ? places[i].bytes : all;
  memcpy(e->tensors[i], places ? (const void *)(uintptr_t)places[i].at : args[i], n);
  if (!places || !places[i].repeats) memset(e->tensors[i] + n, 0, all - n);
  for (size_t at = n; at < all && places && places[i].repeats; at += places[i].repeats)
    memcpy(e->tensors[i] + at, e->tensors[i], places[i].repeats);
}

static void copy_in(emulated *e, void *const *args, const vtb_run_place *places) {
  for (int i = 0; i < e->plan->n_tensors; i++) {
    const vtb_tensor_info *t = &e->plan->tensors[i];
    if (t->io == VTB_IO_UPDATE && vtb_launch_place(e->plan, i) >= 0)
      continue; /* there is what it updates */
    if (vtb_tensor_is_result(t))
      memset(e->tensors[i], 0xff, tensor_bytes(t));
    else if (vtb_launch_place(e->plan, i) < 0)
      copy_argument(e, i, args, places);
  }
  memset(e->workspace, 0xff, (size_t)e->plan->workspace_bytes);
}

static vtb_status tell_buckets(const emulated *e, int step, vtb_error *err) {
  const vtb_launch_plan *p = e->plan;
  vtb_status status = VTB_OK;
  for (int i = 0; i < p->n_buckets && e->program.on_bucket && status == VTB_OK; i++) {
    const vtb_launch_bucket *b = &p->buckets[i];
    const char *base = b->where == VTB_BUCKET_STATE       ? (const char *)e->state
                       : b->where == VTB_BUCKET_WORKSPACE ? (const char *)e->workspace
                                                          : (const char *)e->tensors[b->tensor];
    const vtb_bucket told = {i,        (uint64_t)(uintptr_t)(base + b->offset),
                             b->bytes, b->n_tensors,
                             NULL,     b->where != VTB_BUCKET_STATE};
    bool wanted = b->where != VTB_BUCKET_STATE || !e->program.is_part;
    if (b->step == step && wanted)
      status = e->program.on_bucket(e->program.bucket_user, &told, err);
  }
  return status;
}

static void copy_out(const emulated *e, void *const *args, const vtb_run_place *places) {
  const vtb_launch_plan *p = e->plan;
  for (int i = 0; i < p->n_tensors; i++) {
    size_t n = tensor_bytes(&p->tensors[i]);
    if (!vtb_tensor_is_result(&p->tensors[i]) || vtb_launch_place(p, i) >= 0) continue;
    if (places && places[i].bytes < n) n = places[i].bytes;
    memcpy(places ? (void *)(uintptr_t)places[i].at : args[i], e->tensors[i], n);
  }
}

typedef struct running {
  emulated *e;
  const vtb_services *services;
} running;

static vtb_status run_range(void *user, vtb_launch_range range, vtb_error *err) {
  emulated *e = ((running *)user)->e;
  const vtb_services *services = ((running *)user)->services;
  const vtb_launch_plan *p = e->plan;
  vtb_status status = VTB_OK;
  for (int i = range.first; i < range.end && status == VTB_OK; i++) {
    const vtb_launch_step *s = &p->steps[i];
    for (int a = 0; a < s->n_args; a++) e->args[a] = address(e, &p->args[s->first_arg + a]);
    if (s->kind == VTB_LAUNCH_GEMM)
      run_gemm(e, s->index, services);
    else
      status = run_kernel(e, s, services, err);
    if (status == VTB_OK) status = tell_buckets(e, i, err);
  }
  return status;
}

static vtb_status ask(void *user, int loop, int32_t *turns, vtb_error *err) {
  const emulated *e = ((const running *)user)->e;
  (void)err;
  memcpy(turns, address(e, &e->plan->args[e->plan->loops[loop].condition - 1]).begin, 4);
  return VTB_OK;
}

static vtb_status run_steps(emulated *e, const vtb_services *services, vtb_error *err) {
  running r = {e, services};
  const vtb_launch_walk walk = {.plan = e->plan, .user = &r, .steps = run_range, .ask = ask};
  return vtb_launch_walk_range(&walk, vtb_launch_range_of(e->plan, 0, e->plan->n_steps), err);
}

static vtb_status run_with(emulated *e, void *const *args, const vtb_run_place *places,
                           const vtb_services *services, vtb_error *err) {
  pthread_mutex_lock(&e->shared->running);
  copy_in(e, args, places);
  vtb_status status = run_steps(e, services, err);
  copy_out(e, args, places);
  pthread_mutex_unlock(&e->shared->running);
  return status;
}

static vtb_status run(void *owner, void *const *args, const vtb_services *services,
                      vtb_error *err) {
  return run_with(owner, args, NULL, services, err);
}

static vtb_status exchange(void *owner, void *const *args, bool in, vtb_error *err) {
  const emulated *e = owner;
  (void)err;
  for (int i = 0; i < e->plan->n_tensors; i++) {
    const vtb_tensor_info *t = &e->plan->tensors[i];
    if (vtb_launch_place(e->plan, i) < 0 || vtb_tensor_is_result(t)) continue;
    memcpy(in ? e->tensors[i] : args[i], in ? args[i] : e->tensors[i], tensor_bytes(t));
  }
  return VTB_OK;
}

/* ---- making one ------------------------------------------------------------------------------ */

/* Operations of a run from which on optimised code repays its compilation. */
static const double MANY_FLOPS = 1e8;

static vtb_status compile(emulated *e, const vtb_emulator_options *o, vtb_error *err) {
  const vtb_launch_plan *p = e->plan;
  vtb_emulator_options with = o ? *o : (vtb_emulator_options){0};
  double flops = 0;
  for (int i = 0; i < p->n_steps; i++)
    if (p->steps[i].kind == VTB_LAUNCH_KERNEL) flops += p->kernels[p->steps[i].index].info.flops;
  with.optimise |= flops > MANY_FLOPS;
  vtb_strbuf text = {0};
  if (p->common) vtb_strbuf_puts(&text, p->common);
  for (int i = 0; i < p->n_sources; i++) vtb_strbuf_printf(&text, "%s\n", p->sources[i].text);
  const char **names = vtb_xcalloc((size_t)p->n_kernels + 1, sizeof *names);
  for (int i = 0; i < p->n_kernels; i++) names[i] = p->kernels[i].name;
  vtb_status status =
      vtb_emulator_new(text.at ? text.at : "", names, p->n_kernels, &with, &e->emulator, err);
  vtb_free(names);
  vtb_strbuf_free(&text);
  return status;
}

static vtb_status allocate_all(emulated *e, vtb_error *err) {
  const vtb_launch_plan *p = e->plan;
  int most = 1;
  for (int i = 0; i < p->n_steps; i++)
    if (p->steps[i].n_args > most) most = p->steps[i].n_args;
  e->args = vtb_xcalloc((size_t)most, sizeof *e->args);
  e->tensors = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *e->tensors);
  e->workspace = allocate(p->workspace_bytes);
  e->constants = allocate(p->constant_bytes);
  e->state = allocate(p->state_bytes);
  bool enough = e->workspace && e->constants && e->state;
  if (enough) memset(e->state, 0, (size_t)p->state_bytes);
  for (int i = 0; i < p->n_tensors && enough; i++) {
    int64_t place = vtb_launch_place(p, i);
    e->tensors[i] = place >= 0 ? e->state + place : allocate((int64_t)tensor_bytes(&p->tensors[i]));
    enough = e->tensors[i] != NULL;
  }
  if (!enough) return vtb_fail(err, VTB_E_MEMORY, "out of memory for the emulated model");
  if (p->constant_bytes) memcpy(e->constants, p->constants, (size_t)p->constant_bytes);
  return VTB_OK;
}

static void translate_maps(emulated *e) {
  e->maps = vtb_xcalloc((size_t)e->plan->n_maps + 1, sizeof *e->maps);
  for (int i = 0; i < e->plan->n_maps; i++) {
    const vtb_launch_map *m = &e->plan->maps[i];
    e->maps[i] = (vtb_emu_map){m->rank, m->element_bytes, m->swizzle, {0}, {0}, {0}};
    for (int a = 0; a < m->rank; a++) {
      e->maps[i].size[a] = (long)m->size[a];
      e->maps[i].stride[a] = (long)m->stride[a];
      e->maps[i].box[a] = m->box[a];
    }
  }
}

/* ---- as a device whose memory is the host's -------------------------------------------------- */

static vtb_status run_in_places(void *owner, const vtb_run_place *places, bool fixed,
                                const vtb_services *services, vtb_error *err) {
  (void)fixed;
  return run_with(owner, NULL, places, services, err);
}

static vtb_status open_another(void *owner, const vtb_device_choice *where, vtb_program **out,
                               vtb_error *err) {
  const emulated *of = owner;
  emulated *e = vtb_xcalloc(1, sizeof *e);
  (void)where;
  e->shared = of->shared;
  e->plan = of->plan;
  e->emulator = of->emulator;
  translate_maps(e);
  vtb_status status = allocate_all(e, err);
  if (status != VTB_OK) {
    free_all_but_plan(e);
    return status;
  }
  atomic_fetch_add(&e->shared->users, 1);
  e->program = of->program; /* with its tables, which are the plan's */
  e->program.owner = e;
  *out = &e->program;
  return VTB_OK;
}

static const void *host_memory(const void *owner) {
  (void)owner;
  return allocate;
}

static vtb_status take_memory(void *owner, size_t n, uint64_t *at, vtb_error *err) {
  char *memory = allocate((int64_t)n);
  (void)owner;
  if (!memory) return vtb_no_memory(err, "an emulated device");
  memset(memory, 0, n);
  *at = (uint64_t)(uintptr_t)memory;
  return VTB_OK;
}

static void give_memory(void *owner, uint64_t at) {
  (void)owner;
  vtb_free((void *)(uintptr_t)at);
}

static vtb_status copy_memory(void *owner, uint64_t at, void *host, size_t n, bool in,
                              vtb_error *err) {
  void *there = (void *)(uintptr_t)at;
  (void)owner, (void)err;
  memcpy(in ? there : host, in ? host : there, n);
  return VTB_OK;
}

static vtb_status nothing_is_queued(void *owner, vtb_error *err) {
  (void)owner, (void)err;
  return VTB_OK;
}

static vtb_status any_address(void *owner, uint64_t at, const char *what, vtb_error *err) {
  (void)owner, (void)at, (void)what, (void)err;
  return VTB_OK;
}

static const vtb_device_calls calls = {.open = open_another,
                                       .run = run_in_places,
                                       .space = host_memory,
                                       .take = take_memory,
                                       .give = give_memory,
                                       .copy = copy_memory,
                                       .wait = nothing_is_queued,
                                       .check = any_address};

static vtb_status describe(emulated *e, vtb_error *err) {
  e->program = (vtb_program){
      .run = run, .exchange = exchange, .device = &calls, .owner = e, .free = free_emulated};
  return vtb_launch_plan_describe(e->plan, &e->program, err);
}

vtb_status vtb_emulator_program(vtb_launch_plan *plan, const vtb_emulator_options *o,
                                vtb_program **program, vtb_error *err) {
  emulated *e = vtb_xcalloc(1, sizeof *e);
  shared *s = e->shared = vtb_xcalloc(1, sizeof *s);
  e->plan = s->plan = plan;
  atomic_init(&s->users, 1);
  pthread_mutex_init(&s->running, NULL);
  double start = vtb_now();
  translate_maps(e);
  vtb_status status = compile(e, o, err);
  s->emulator = e->emulator;
  if (status == VTB_OK) status = allocate_all(e, err);
  if (status == VTB_OK) status = describe(e, err);
  if (status != VTB_OK) {
    free_all_but_plan(e);
    free_shared(s, false);
    return status;
  }
  e->program.compile_seconds = vtb_now() - start;
  *program = &e->program;
  return VTB_OK;
}
