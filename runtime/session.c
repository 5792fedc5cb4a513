/* Sessions: what one thread runs of a model. Making them, and the memory of their arrays. */
#include "runtime/model.h"

#include "runtime/behaviour.h"
#include "runtime/launch/threads.h"

#include <stdlib.h>
#include <string.h>

/* ---- one thread at a time -------------------------------------------------------------------- */

/* Memory on a device is the process's that put it there. */
static bool is_of_parent(const vtb_session *s) {
  return s->device == VTB_DEVICE_CUDA && s->process != getpid();
}

vtb_status vtb__session_take(vtb_session *s, vtb_error *err) {
  if (is_of_parent(s))
    return vtb_fail(err, VTB_E_USAGE,
                    "the session is on a device, and of the process that this one was forked from: "
                    "CUDA cannot be used in a child");
  if (!atomic_exchange(&s->busy, true)) return VTB_OK;
  return vtb_fail(err, VTB_E_USAGE,
                  "the session is in use: by another thread, each of which needs a session of its "
                  "own, or at the moment when this process was forked: open another");
}

void vtb__session_give(vtb_session *s) { atomic_store(&s->busy, false); }

/* ---- programs -------------------------------------------------------------------------------- */

static bool runs_on(const vtb__variant *v, vtb_device device) {
  return device == VTB_DEVICE_CUDA ? v->about.cuda : v->about.cpu;
}

static vtb_status choose_device(vtb_session *s, vtb_error *err) {
  bool cpu = false, cuda = false;
  for (int i = 0; i < s->model->n_variants; i++) {
    const vtb__variant *v = &s->model->variants[i];
    if (v->about.role != s->options.role) continue;
    cpu |= v->about.cpu;
    cuda |= v->about.cuda;
  }
  s->device = s->options.device;
  if (s->device == VTB_DEVICE_ANY) s->device = cpu || !cuda ? VTB_DEVICE_CPU : VTB_DEVICE_CUDA;
  if (s->device == VTB_DEVICE_CPU ? cpu : cuda) return VTB_OK;
  if (cpu || cuda)
    return vtb_fail(err, VTB_E_DEVICE, "the model has no code for %s: build it with --target %s",
                    cpu ? "CUDA" : "processors", cpu ? "cuda" : "cpu");
  static const char *const missing[] = {[VTB_SESSION_INFER] = "run",
                                        [VTB_SESSION_STEP] = "train: build it with --train",
                                        [VTB_SESSION_EVALUATE] = "evaluate: build it with --train",
                                        [VTB_SESSION_VJP] = "make gradients: build it with --vjp"};
  return vtb_fail(err, VTB_E_INPUT, "the model has no program to %s", missing[s->options.role]);
}

static int by_size_and_batch(const void *a, const void *b) {
  const vtb__part *x = a, *y = b;
  int64_t p = x->variant->about.batch, q = y->variant->about.batch;
  return x->size != y->size ? x->size - y->size : (p < q) - (p > q);
}

/* Numbers of sizes follow their order in the file. */
static void add_part(vtb_session *s, const vtb__variant *v) {
  int size = 0;
  while (size < s->n_sizes) {
    const vtb__part *p = s->parts;
    while (p->size != size) p++;
    if (p->variant->about.height == v->about.height && p->variant->about.width == v->about.width)
      break;
    size++;
  }
  if (size == s->n_sizes) s->n_sizes++;
  s->parts[s->n_parts++] = (vtb__part){.variant = v, .size = size};
}

/* Programs of one model have the same tensors, some in other shapes. */
static bool alike(const vtb__variant *a, const vtb__variant *b) {
  if (a->n_tensors != b->n_tensors) return false;
  for (int i = 0; i < a->n_tensors; i++) {
    const vtb_tensor_info *x = &a->tensors[i], *y = &b->tensors[i];
    if (!vtb_streq(x->name, y->name) || x->io != y->io || x->is_int != y->is_int ||
        x->rank != y->rank)
      return false;
  }
  return true;
}

static vtb_status choose_size(vtb_session *s, vtb_error *err) {
  int64_t height = s->options.height, width = s->options.width;
  for (int i = 0; i < s->n_parts && (height || width); i++) {
    const vtb_program_info *p = &s->parts[i].variant->about;
    if (p->height != height || p->width != width) continue;
    s->size = s->parts[i].size;
    return VTB_OK;
  }
  if (!height && !width) return VTB_OK;
  const vtb_program_info *first = &s->parts[0].variant->about;
  return vtb_fail(err, VTB_E_INPUT,
                  "the model has no program for images of %lldx%lld: its first is for %lldx%lld; "
                  "build it with --image",
                  (long long)height, (long long)width, (long long)first->height,
                  (long long)first->width);
}

static vtb_status list_parts(vtb_session *s, vtb_error *err) {
  s->parts = calloc((size_t)s->model->n_variants + 1, sizeof *s->parts);
  if (!s->parts) return vtb_no_memory(err, "a session");
  for (int i = 0; i < s->model->n_variants; i++) {
    const vtb__variant *v = &s->model->variants[i];
    if (v->about.role == s->options.role && runs_on(v, s->device)) add_part(s, v);
  }
  qsort(s->parts, (size_t)s->n_parts, sizeof *s->parts, by_size_and_batch);
  for (int i = 0; i < s->n_parts; i++) {
    const vtb_program_info *p = &s->parts[i].variant->about;
    if (!s->options.batch && p->batch > s->batch) s->batch = p->batch;
    if (!alike(s->parts[0].variant, s->parts[i].variant))
      return vtb_fail(err, VTB_E_INPUT, "the model's programs have not the same arrays");
  }
  if (s->options.batch) s->batch = s->options.batch;
  return choose_size(s, err);
}

const vtb__variant *vtb__session_variant(const vtb_session *s) {
  const vtb__part *p = s->parts;
  while (p->size != s->size) p++;
  return p->variant;
}

/* ---- making ---------------------------------------------------------------------------------- */

static vtb_status check_options(const vtb_session_options *o, vtb_error *err) {
  if (o->threads < 0 || o->threads > VTB_MOST_THREADS)
    return vtb_fail(err, VTB_E_USAGE, "vtb_session_options.threads is %d: 0 to %d are possible",
                    (int)o->threads, VTB_MOST_THREADS);
  if (o->batch < 0 || o->batch > 1 << 20)
    return vtb_fail(err, VTB_E_USAGE, "vtb_session_options.batch is %lld: 0 to %d are possible",
                    (long long)o->batch, 1 << 20);
  if ((unsigned)o->role > VTB_SESSION_VJP || (unsigned)o->device > VTB_DEVICE_CUDA)
    return vtb_fail(err, VTB_E_USAGE, "vtb_session_options: there is no such role or device");
  if (o->has_cuda_device && o->cuda_device < 0)
    return vtb_fail(err, VTB_E_USAGE, "vtb_session_options.cuda_device is %d", (int)o->cuda_device);
  return VTB_OK;
}

static vtb_status check_device(const vtb_session *s, vtb_error *err) {
  const vtb_session_options *o = &s->options;
  if (s->device == VTB_DEVICE_CUDA || !(o->has_cuda_stream || o->has_cuda_device)) return VTB_OK;
  return vtb_fail(err, VTB_E_USAGE,
                  "vtb_session_options names a stream or device of CUDA, and the session runs on "
                  "the processor: set .device to VTB_DEVICE_CUDA");
}

static vtb_status make(vtb_session *s, vtb_error *err) {
  const vtb_session_options *o = &s->options;
  VTB_TRY(check_options(o, err));
  VTB_TRY(vtb_behaviour_of(o->behaviour, &s->how, err));
  VTB_TRY(choose_device(s, err));
  VTB_TRY(check_device(s, err));
  VTB_TRY(list_parts(s, err));
  s->n_tensors = s->parts[0].variant->n_tensors;
  s->buffers = calloc((size_t)s->n_tensors + 1, sizeof *s->buffers);
  int threads = o->threads ? o->threads : s->how.threads;
  s->services =
      o->pool ? vtb_services_pooled(threads, o->pool, o->pool_user) : vtb_services_default(threads);
  if (!s->buffers || !s->services || !vtb__session_plan(s)) return vtb_no_memory(err, "a session");
  vtb__session_match(s);
  vtb__part *first = s->parts;
  while (first->size != s->size) first++;
  vtb_status status = vtb__session_ready(s, first, err);
  return status == VTB_OK ? vtb__session_begin(s, err) : status;
}

vtb_status vtb_session_open(vtb_model *m, const vtb_session_options *given, vtb_session **out,
                            vtb_error *err) {
  vtb_session_options o;
  if (!vtb__take_struct(given, &o, sizeof o)) return vtb__wrong_size("vtb_session_options", err);
  vtb_session *s = calloc(1, sizeof *s);
  if (!s) return vtb_no_memory(err, "a session");
  s->model = vtb_model_retain(m);
  s->options = o;
  s->process = getpid();
  vtb_status status = make(s, err);
  if (status == VTB_OK)
    *out = s;
  else
    vtb_session_close(s);
  return status;
}

/* Before the programs are given back. */
static void leave_device(vtb_session *s) {
  const vtb_program *p = vtb__session_device(s);
  for (int i = 0; p && s->buffers && i < s->n_tensors; i++)
    if (s->buffers[i].device) p->device->give(p->owner, s->buffers[i].device);
  if (p && s->weights) vtb__device_weights_leave(&s->model->on_devices, s->weights, p);
}

void vtb_session_close(vtb_session *s) {
  if (!s) return;
  if (!is_of_parent(s)) leave_device(s);
  for (int i = 0; i < s->n_parts; i++) {
    if (s->parts[i].program && !is_of_parent(s))
      vtb__model_give_back(s->model, s->parts[i].program);
    free(s->parts[i].tensor);
    free(s->parts[i].weights);
  }
  for (int i = 0; s->buffers && i < s->n_tensors; i++) {
    free(s->buffers[i].own);
    free(s->buffers[i].staging);
  }
  vtb_services_free(s->services);
  vtb_model_release(s->model);
  free(s->parts);
  free(s->buffers);
  free(s->args);
  free(s->places);
  free(s->workspace);
  free(s->best);
  free(s->prepare);
  free(s);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static bool is_of_kind(const vtb_tensor_info *t, vtb_array_kind kind) {
  return kind == VTB_ARRAY_ANY || vtb__array_of(t, VTB_DEVICE_CPU, NULL).kind == kind;
}

int vtb__session_find(const vtb_session *s, vtb_array_kind kind, const char *name, vtb_error *err) {
  static const char *const words[] = {"array",  "input",   "output",   "parameter",
                                      "buffer", "adjoint", "gradient", "updated parameter",
                                      "state"};
  const vtb_tensor_info *t = vtb__session_variant(s)->tensors;
  const char **names = NULL, *near = NULL;
  for (int i = 0; i < s->n_tensors; i++)
    if (is_of_kind(&t[i], kind) && (!name || vtb_streq(t[i].name, name))) return i;
  const char *what = (unsigned)kind <= VTB_ARRAY_STATE ? words[kind] : words[0];
  if (name) names = calloc((size_t)s->n_tensors + 1, sizeof *names);
  size_t n = 0;
  for (int i = 0; i < s->n_tensors && names; i++)
    if (is_of_kind(&t[i], kind)) names[n++] = t[i].name;
  if (names) near = vtb_suggest(name, names, n);
  free(names);
  if (name)
    vtb_fail(err, VTB_E_INPUT, "the model has no %s \"%s\"%s%s", what, name,
             near ? "; did you mean " : "", near ? near : "");
  else
    vtb_fail(err, VTB_E_INPUT, "the model has no %s", what);
  return -1;
}

/* The first axis is the batch: programs of other batches show it, else its length. */
bool vtb__has_rows(const vtb_session *s, int tensor) {
  const vtb__variant *v = vtb__session_variant(s);
  const vtb_tensor_info *t = &v->tensors[tensor];
  bool moves = t->io == VTB_IO_INPUT || t->io == VTB_IO_OUTPUT;
  if (t->io == VTB_IO_GRAD_IN || t->io == VTB_IO_GRAD_OUT)
    return s->buffers[tensor].of >= 0 && vtb__has_rows(s, s->buffers[tensor].of);
  if (!moves || t->rank == 0 || t->dim[0] != v->about.batch) return false;
  for (int i = 0; i < s->n_parts; i++) {
    const vtb__variant *other = s->parts[i].variant;
    if (s->parts[i].size == s->size && other->tensors[tensor].dim[0] != other->about.batch)
      return false;
  }
  return true;
}

int64_t vtb__session_rows(const vtb_session *s, int tensor) {
  const vtb__buffer *b = &s->buffers[tensor];
  int64_t built = vtb__session_variant(s)->about.batch;
  if (b->is_bound) return b->bound.dim[0];
  return s->batch > built ? s->batch : built; /* programs may work behind the last row */
}

static void *own_memory(vtb_session *s, int tensor) {
  vtb__buffer *b = &s->buffers[tensor];
  const vtb__variant *v = vtb__session_variant(s);
  size_t bytes = (size_t)vtb_tensor_info_count(&v->tensors[tensor]) * 4;
  if (vtb__has_rows(s, tensor))
    bytes = bytes / (size_t)v->about.batch * (size_t)vtb__session_rows(s, tensor);
  if (b->own && b->own_bytes >= bytes) return b->own;
  void *memory = vtb_aligned_alloc(bytes);
  if (!memory) return NULL;
  memset(memory, 0, bytes);
  free(b->own);
  b->own = memory;
  b->own_bytes = bytes;
  return memory;
}

void *vtb__session_memory(vtb_session *s, int tensor) {
  const vtb__variant *v = vtb__session_variant(s);
  const vtb_tensor_info *t = &v->tensors[tensor];
  int target = vtb__session_target(s, tensor);
  if (target != tensor) return vtb__session_memory(s, target);
  if (s->buffers[tensor].is_bound) return s->buffers[tensor].bound.data;
  if ((t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER) && !vtb__session_owns(s, t))
    return v->params ? (void *)(uintptr_t)v->params[tensor] : NULL;
  return own_memory(s, tensor);
}

uint64_t vtb__session_address(vtb_session *s, int tensor, vtb_error *err) {
  vtb__buffer *b = &s->buffers[tensor];
  const vtb__variant *v = vtb__session_variant(s);
  const vtb_program *program = vtb__session_device(s);
  size_t bytes = (size_t)vtb_tensor_info_count(&v->tensors[tensor]) * 4;
  uint64_t at = 0;
  if (b->is_bound) return (uint64_t)(uintptr_t)b->bound.data;
  if (vtb__has_rows(s, tensor))
    bytes = bytes / (size_t)v->about.batch * (size_t)vtb__session_rows(s, tensor);
  if (b->device && b->device_bytes >= bytes) return b->device;
  if (program->device->take(program->owner, bytes, &at, err) != VTB_OK) return 0;
  if (b->device) program->device->give(program->owner, b->device);
  b->device = at;
  b->device_bytes = bytes;
  return at;
}

static vtb_status give_array(vtb_session *s, vtb_array_kind kind, const char *name, vtb_array *out,
                             vtb_error *err) {
  int i = vtb__session_find(s, kind, name, err);
  if (i < 0) return VTB_E_INPUT;
  const vtb_tensor_info *t = &vtb__session_variant(s)->tensors[i];
  bool is_params = t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER;
  VTB_TRY(vtb__session_exchange(s, false, err));
  bool there = vtb__session_is_there(s, i);
  void *memory =
      there ? (void *)(uintptr_t)vtb__session_address(s, i, err) : vtb__session_memory(s, i);
  if (!memory && !is_params) return there ? VTB_E_DEVICE : vtb_no_memory(err, t->name);
  vtb_array a = vtb__array_of(t, there ? VTB_DEVICE_CUDA : VTB_DEVICE_CPU, memory);
  if (vtb__has_rows(s, i)) a.dim[0] = s->buffers[i].is_bound ? vtb__session_rows(s, i) : s->batch;
  return vtb__give_struct(&a, out, sizeof a) ? VTB_OK : vtb__wrong_size("vtb_array", err);
}

vtb_status vtb_session_array(vtb_session *s, vtb_array_kind kind, const char *name, vtb_array *out,
                             vtb_error *err) {
  VTB_TRY(vtb__session_take(s, err));
  vtb_status status = give_array(s, kind, name, out, err);
  vtb__session_give(s);
  return status;
}
