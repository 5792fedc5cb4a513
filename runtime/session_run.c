/* Runs of any number of rows by programs that were built for fixed ones. */
#include "runtime/model.h"

#include "runtime/base/update.h"
#include "runtime/launch/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which programs -------------------------------------------------------------------------- */

/* The cost of a run beside its rows, in rows: little where a call of a function is all, more where
 * kernels are launched. */
static double overhead(vtb_device device) { return device == VTB_DEVICE_CUDA ? 8 : 0.1; }

static int *best_of(const vtb_session *s, int size) {
  return s->best + (size_t)size * ((size_t)s->batch + 1);
}

/* best[n]: the part that begins the cheapest way to run n rows, whose rest is best[n - batch]. */
bool vtb__session_plan(vtb_session *s) {
  size_t n = (size_t)s->batch + 1;
  double *cost = calloc(n, sizeof *cost);
  s->best = calloc(n * (size_t)s->n_sizes, sizeof *s->best);
  for (int size = 0; size < s->n_sizes && cost && s->best; size++) {
    int *best = best_of(s, size);
    for (int64_t rows = 1; rows <= s->batch; rows++) {
      cost[rows] = INFINITY;
      for (int i = 0; i < s->n_parts; i++) {
        int64_t batch = s->parts[i].variant->about.batch, rest = rows > batch ? rows - batch : 0;
        double c = overhead(s->device) + (double)batch + cost[rest];
        if (s->parts[i].size == size && c < cost[rows]) cost[rows] = c, best[rows] = i;
      }
    }
  }
  free(cost);
  return cost && s->best;
}

static bool is_parameter(const vtb_tensor_info *t) {
  return t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER;
}

/* ---- memory of a run ------------------------------------------------------------------------- */

static size_t row_bytes(const vtb_tensor_info *t) {
  return t->dim[0] ? (size_t)(vtb_tensor_info_count(t) / t->dim[0]) * 4 : 0;
}

static void *staging(vtb__buffer *b, size_t bytes) {
  if (b->staging && b->staging_bytes >= bytes) return b->staging;
  void *memory = vtb_aligned_alloc(bytes);
  if (!memory) return NULL;
  free(b->staging);
  b->staging = memory;
  b->staging_bytes = bytes;
  return memory;
}

static bool works_in_place(const vtb_session *s, const vtb__slice *c, int i, const void *memory) {
  const vtb__variant *v = c->part->variant;
  const vtb__buffer *b = &s->buffers[i];
  if ((uintptr_t)memory % 4) return false;
  if (s->options.role == VTB_SESSION_VJP) return vtb__vjp_in_place(c, i, vtb__has_rows(s, i));
  if (!vtb__has_rows(s, i)) return true;
  int64_t limit = vtb_tensor_is_result(&v->tensors[i]) && b->is_bound ? c->from + c->n
                                                                      : vtb__session_rows(s, i);
  return c->from + v->about.batch <= limit;
}

static vtb_status no_parameter(const vtb_session *s, const char *name, vtb_error *err) {
  if (s->model->has_params)
    return vtb_fail(err, VTB_E_INPUT, "the weights have no tensor %s", name);
  return vtb_fail(err, VTB_E_INPUT,
                  "the model has no weights: name a file of them in vtb_open_options.weights, or "
                  "build it with --weights");
}

/* Where the program works for its tensor `arg`; inputs are copied there if that is elsewhere. */
static vtb_status place_tensor(vtb_session *s, const vtb__slice *c, int arg, vtb_error *err) {
  int i = c->part->tensor[arg];
  const vtb__variant *v = c->part->variant;
  const vtb_tensor_info *t = &v->tensors[i];
  char *memory = vtb__session_memory(s, i);
  bool is_param = t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER;
  if (!memory) return is_param ? no_parameter(s, t->name, err) : vtb_no_memory(err, t->name);
  size_t each = vtb__has_rows(s, i) ? row_bytes(t) : 0;
  size_t all = (size_t)vtb_tensor_info_count(t) * 4, used = each ? (size_t)c->n * each : all;
  memory += (size_t)c->from * each;
  s->args[arg] = memory;
  if (works_in_place(s, c, i, memory)) return VTB_OK;
  char *copy = staging(&s->buffers[i], all);
  if (!copy) return vtb_no_memory(err, t->name);
  s->args[arg] = copy;
  if (vtb_tensor_is_result(t)) return VTB_OK;
  memcpy(copy, memory, used);
  memset(copy + used, 0, all - used);
  if (s->options.role == VTB_SESSION_VJP && each) vtb__vjp_fill(c, i, copy, each);
  return VTB_OK;
}

static void bring_results(vtb_session *s, const vtb__slice *c) {
  for (int arg = 0; arg < c->part->program->n_tensors; arg++) {
    int i = c->part->tensor[arg];
    const vtb_tensor_info *t = &c->part->variant->tensors[i];
    if (!vtb_tensor_is_result(t) || s->args[arg] != s->buffers[i].staging) continue;
    size_t each = vtb__has_rows(s, i) ? row_bytes(t) : 0;
    char *memory = (char *)vtb__session_memory(s, i) + (size_t)c->from * each;
    size_t bytes = each ? (size_t)c->n * each : (size_t)vtb_tensor_info_count(t) * 4;
    if (s->options.role == VTB_SESSION_VJP && !each)
      vtb__vjp_add(c, i, memory, s->args[arg], bytes);
    else
      memcpy(memory, s->args[arg], bytes);
  }
}

/* ---- one program ----------------------------------------------------------------------------- */

/* Code for processors and for a device may have their tensors in another order. */
static vtb_status match_tensors(vtb_session *s, vtb__part *p, vtb_error *err) {
  const vtb_program *program = p->program;
  const vtb__variant *v = p->variant;
  int *numbers = calloc((size_t)program->n_tensors + 1, sizeof *numbers);
  if (!numbers) return vtb_no_memory(err, "a session");
  free(p->tensor);
  p->tensor = numbers;
  for (int k = 0; k < program->n_tensors; k++) {
    const vtb_tensor_info *t = &program->tensors[k];
    int i = k < v->n_tensors && vtb_streq(v->tensors[k].name, t->name) ? k : 0;
    while (i < v->n_tensors && !vtb_streq(v->tensors[i].name, t->name)) i++;
    if (i == v->n_tensors || v->tensors[i].io != t->io ||
        vtb_tensor_info_count(&v->tensors[i]) != vtb_tensor_info_count(t))
      return vtb_fail(err, VTB_E_INPUT, "a program's array \"%s\" is not in the model's manifest",
                      t->name);
    numbers[k] = i;
  }
  if (program->n_tensors <= s->n_args) return VTB_OK;
  void *args = realloc(s->args, (size_t)program->n_tensors * sizeof *s->args);
  if (!args) return vtb_no_memory(err, "a session");
  s->args = args;
  void *places = realloc(s->places, (size_t)program->n_tensors * sizeof *s->places);
  if (!places) return vtb_no_memory(err, "a session");
  s->places = places;
  s->n_args = program->n_tensors;
  return VTB_OK;
}

/* Where tensor `arg` of the part's program is in the host's memory; NULL: it is not the model's. */
static const void *host_weight(const vtb_session *s, const vtb__part *p, int arg) {
  const vtb__variant *v = p->variant;
  const vtb_tensor_info *t = &v->tensors[p->tensor[arg]];
  bool shared =
      v->params && is_parameter(t) && !vtb__session_owns(s, t) && vtb_tensor_info_count(t);
  return shared ? v->params[p->tensor[arg]] : NULL;
}

/* The model's parameters, if the program is on a device. */
static vtb_status upload(vtb_session *s, vtb__part *p, vtb_error *err) {
  const vtb_program *program = p->program;
  if (!program->device) return VTB_OK;
  const void **there = calloc((size_t)program->n_tensors + 1, sizeof *there);
  free(p->weights);
  p->weights = calloc((size_t)program->n_tensors + 1, sizeof *p->weights);
  for (int arg = 0; there && arg < program->n_tensors; arg++) there[arg] = host_weight(s, p, arg);
  vtb_status status = there && p->weights
                          ? vtb__device_weights_use(&s->model->on_devices, program, there,
                                                    p->weights, &s->weights, err)
                          : vtb_no_memory(err, "a session");
  free(there);
  return status;
}

static vtb_status load_part(vtb_session *s, vtb__part *p, vtb_error *err) {
  if (p->program) return VTB_OK;
  const vtb_session_options *o = &s->options;
  const vtb_device_choice where = {.how = &s->how,
                                   .has_number = o->has_cuda_device,
                                   .has_stream = o->has_cuda_stream,
                                   .number = o->cuda_device,
                                   .stream = o->cuda_stream};
  vtb_status status = vtb__model_load(s->model, p->variant, s->device, &where, &p->program, err);
  if (status == VTB_OK) status = match_tensors(s, p, err);
  if (status == VTB_OK) status = upload(s, p, err);
  if (status == VTB_OK || !p->program) return status;
  vtb__model_give_back(s->model, p->program);
  p->program = NULL;
  return status;
}

/* The parameters are the model's, and so is what is made of them alone. */
static bool shares_prepared(const vtb_session *s, const vtb__part *p) {
  bool shares = p->program->kept_bytes > 0 && s->options.role != VTB_SESSION_STEP;
  for (int i = 0; i < s->n_tensors && shares; i++)
    shares = !s->buffers[i].is_bound || !is_parameter(&p->variant->tensors[i]);
  return shares;
}

vtb_status vtb__session_ready(vtb_session *s, vtb__part *p, vtb_error *err) {
  VTB_TRY(load_part(s, p, err));
  int64_t shared = shares_prepared(s, p) ? p->program->kept_bytes : 0;
  size_t bytes = (size_t)(p->program->workspace_bytes - shared);
  if (bytes <= s->workspace_bytes) return VTB_OK;
  void *memory = vtb_aligned_alloc(bytes);
  if (!memory)
    return vtb_fail(err, VTB_E_MEMORY, "out of memory for the model's workspace of %zu bytes",
                    bytes);
  free(s->workspace);
  s->workspace = memory;
  s->workspace_bytes = bytes;
  return VTB_OK;
}

/* ---- one program on a device ----------------------------------------------------------------- */

/* True of a gradient without rows, to be added to what programs before it made. */
static bool is_sum(const vtb_session *s, const vtb__slice *c, int tensor) {
  return s->options.role == VTB_SESSION_VJP && !vtb__vjp_in_place(c, tensor, false) &&
         !vtb__has_rows(s, tensor);
}

/* Cuts a slice's rows. A tensor on the device has all of the program's, if it can: then nothing is
 * copied. */
static void cut_rows(const vtb_session *s, const vtb__slice *c, int i, vtb_run_place *out) {
  const vtb_tensor_info *t = &c->part->variant->tensors[i];
  bool vjp = s->options.role == VTB_SESSION_VJP,
       short_one = vtb_tensor_is_result(t) && s->buffers[i].is_bound;
  int64_t rows = vjp || short_one ? c->n : vtb__session_rows(s, i) - c->from;
  size_t each = row_bytes(t);
  out->at += (uint64_t)c->from * each;
  if (!out->on_device || rows < c->part->variant->about.batch) out->bytes = (size_t)c->n * each;
  if (vjp && t->io == VTB_IO_INPUT) out->repeats = each;
}

/* Where the program finds its tensor `arg`. */
static vtb_status place_there(vtb_session *s, const vtb__slice *c, int arg, vtb_run_place *out,
                              vtb_error *err) {
  const vtb__part *p = c->part;
  int i = p->tensor[arg], target = vtb__session_target(s, i);
  const vtb_tensor_info *t = &p->variant->tensors[i];
  vtb__buffer *b = &s->buffers[target];
  size_t all = (size_t)vtb_tensor_info_count(t) * 4;
  *out = (vtb_run_place){.bytes = all, .on_device = true};
  if (!b->is_bound && p->weights[arg]) {
    out->at = p->weights[arg];
    return VTB_OK;
  }
  out->on_device = vtb__session_is_there(s, target) && !is_sum(s, c, i);
  out->at = out->on_device    ? vtb__session_address(s, target, err)
            : is_sum(s, c, i) ? (uint64_t)(uintptr_t)staging(b, all)
                              : (uint64_t)(uintptr_t)vtb__session_memory(s, i);
  if (!out->at && out->on_device) return VTB_E_DEVICE;
  if (!out->at)
    return is_parameter(t) ? no_parameter(s, t->name, err) : vtb_no_memory(err, t->name);
  if (vtb__has_rows(s, i)) cut_rows(s, c, i, out);
  return VTB_OK;
}

/* Through the host, which waits for it: runs of more rows than a program has are for few. */
static vtb_status add_there(vtb_session *s, const vtb__slice *c, int i, vtb_error *err) {
  const vtb_program *p = c->part->program;
  size_t bytes = (size_t)vtb_tensor_info_count(&c->part->variant->tensors[i]) * 4;
  bool there = vtb__session_is_there(s, i);
  void *memory = there ? vtb_aligned_alloc(bytes) : vtb__session_memory(s, i);
  uint64_t at = there ? vtb__session_address(s, i, err) : 0;
  if (!memory) return vtb_no_memory(err, "a gradient");
  vtb_status status = there ? p->device->copy(p->owner, at, memory, bytes, false, err)
                            : p->device->wait(p->owner, err);
  if (status == VTB_OK) vtb__vjp_add(c, i, memory, s->buffers[i].staging, bytes);
  if (status == VTB_OK && there) status = p->device->copy(p->owner, at, memory, bytes, true, err);
  if (there) free(memory);
  return status;
}

/* A parameter is where others may change it between runs. */
static bool may_change(const vtb_session *s, const vtb__part *p) {
  for (int arg = 0; arg < p->program->n_tensors; arg++) {
    int i = p->tensor[arg];
    if (is_parameter(&p->variant->tensors[i]) && vtb__session_is_there(s, i)) return true;
  }
  return vtb__vjp_moves(s);
}

static vtb_status run_there(vtb_session *s, vtb__part *p, const vtb__slice *c, vtb_error *err) {
  const vtb_program *program = p->program;
  vtb_status status = vtb__session_exchange(s, true, err);
  for (int arg = 0; status == VTB_OK && arg < program->n_tensors; arg++)
    status = place_there(s, c, arg, &s->places[arg], err);
  if (status != VTB_OK) return status;
  unsigned mode = vtb_denormals_flush(); /* the emulator's */
  status = program->device->run(program->owner, s->places, p->kept && !may_change(s, p),
                                s->services, err);
  vtb_denormals_restore(mode);
  if (status == VTB_OK) p->kept = true;
  for (int arg = 0; status == VTB_OK && arg < program->n_tensors; arg++)
    if (is_sum(s, c, p->tensor[arg])) status = add_there(s, c, p->tensor[arg], err);
  return status;
}

/* Other sessions may wait for what is prepared: threads of the caller's are left out, which may be
 * those that wait. */
static vtb_status execute(vtb_session *s, vtb__part *p, vtb_error *err) {
  const vtb_program *program = p->program;
  if (!shares_prepared(s, p))
    return vtb_program_execute(program, s->args, s->workspace, s->services, err);
  vtb_services alone = *s->services;
  if (s->options.pool) alone.n_threads = 1;
  if (!p->prepared)
    VTB_TRY(
        vtb__model_prepare(s->model, program, s->args, s->workspace, &alone, &p->prepared, err));
  return vtb_program_execute_part(program, s->args, s->workspace, p->prepared, VTB_OTHER_STEPS,
                                  s->services, err);
}

static vtb_status run_part(vtb_session *s, vtb__part *p, const vtb__slice *c, vtb_error *err) {
  vtb_status status = vtb__session_ready(s, p, err);
  if (status == VTB_OK && p->program->device) return run_there(s, p, c, err);
  for (int i = 0; status == VTB_OK && i < p->program->n_tensors; i++)
    status = place_tensor(s, c, i, err);
  if (status == VTB_OK) status = vtb__session_exchange(s, true, err);
  if (status != VTB_OK) return status;
  if (!p->kept) vtb_program_keep(p->program, 0);
  VTB_TRY(execute(s, p, err));
  bool keep = !vtb__vjp_moves(s);
  if (!p->kept && keep) vtb_program_keep(p->program, 1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER);
  p->kept = keep;
  bring_results(s, c);
  return VTB_OK;
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* As many as the bound inputs have. */
static int64_t rows_of_inputs(const vtb_session *s) {
  int64_t rows = s->batch;
  for (int i = 0; i < s->n_tensors; i++) {
    bool counts = s->buffers[i].is_bound && vtb__has_rows(s, i) &&
                  !vtb_tensor_is_result(&vtb__session_variant(s)->tensors[i]);
    if (counts && s->buffers[i].bound.dim[0] < rows) rows = s->buffers[i].bound.dim[0];
  }
  return rows;
}

static bool is_whole_program(const vtb_session *s, int64_t rows) {
  for (int i = 0; i < s->n_parts; i++)
    if (s->parts[i].size == s->size && s->parts[i].variant->about.batch == rows) return true;
  return false;
}

/* A sample's result depends on those beside it: rows of several programs would not meet, and rows
 * that fill one up would. */
static vtb_status check_samples(const vtb_session *s, int64_t rows, vtb_error *err) {
  const vtb_artefact *file = s->model->file;
  const char *said = file ? vtb_manifest_meta(vtb_artefact_manifest(file), VTB_META_SAMPLES) : NULL;
  if (!vtb_streq(said, VTB_SAMPLES_MEET) || is_whole_program(s, rows)) return VTB_OK;
  return vtb_fail(err, VTB_E_USAGE,
                  "a run of %lld rows: samples meet in this model, so that a run needs a program "
                  "for so many; build it with --batch =%lld",
                  (long long)rows, (long long)rows);
}

/* An output without rows is of all rows that a program has: of several programs there are several,
 * and one adjoint would be for each of them. */
static vtb_status check_gradients(const vtb_session *s, int64_t rows, vtb_error *err) {
  const vtb__variant *v = vtb__session_variant(s);
  bool whole = is_whole_program(s, rows);
  const char *name = NULL;
  for (int i = 0; i < s->n_tensors && !name; i++)
    if (v->tensors[i].io == VTB_IO_OUTPUT && !vtb__has_rows(s, i)) name = v->tensors[i].name;
  if (whole || !name) return VTB_OK;
  return vtb_fail(err, VTB_E_USAGE,
                  "a run of %lld rows: \"%s\" is of all rows of a program, so that gradients need "
                  "one that was built for so many; build it with --batch =%lld",
                  (long long)rows, name, (long long)rows);
}

static vtb_status check_rows(const vtb_session *s, int64_t rows, vtb_error *err) {
  const vtb__variant *v = vtb__session_variant(s);
  if (rows < 1 || rows > s->batch)
    return vtb_fail(err, VTB_E_USAGE,
                    "a run of %lld rows: the session has a batch of %lld; say more in "
                    "vtb_session_options.batch",
                    (long long)rows, (long long)s->batch);
  if (s->options.role == VTB_SESSION_STEP && rows != v->about.batch)
    return vtb_fail(err, VTB_E_USAGE, "a training step takes %lld rows, not %lld",
                    (long long)v->about.batch, (long long)rows);
  if (s->options.role == VTB_SESSION_VJP && check_gradients(s, rows, err) != VTB_OK)
    return VTB_E_USAGE;
  if (s->options.role == VTB_SESSION_INFER) VTB_TRY(check_samples(s, rows, err));
  for (int i = 0; i < s->n_tensors; i++)
    if (vtb__has_rows(s, i) && vtb__session_rows(s, i) < rows)
      return vtb_fail(err, VTB_E_INPUT, "a run of %lld rows: the array for \"%s\" has %lld",
                      (long long)rows, v->tensors[i].name, (long long)vtb__session_rows(s, i));
  return VTB_OK;
}

/* The session's own number of the first row of a run, by which random numbers are; NULL: the model
 * draws none. Programs that a run is put together of count on from it. */
static int32_t *first_row(vtb_session *s) {
  const vtb__variant *v = vtb__session_variant(s);
  for (int i = 0; i < s->n_tensors; i++)
    if (v->tensors[i].io == VTB_IO_INPUT && vtb_streq(v->tensors[i].name, VTB_RANK_FIRST) &&
        !s->buffers[i].is_bound)
      return vtb__session_memory(s, i);
  return NULL;
}

static vtb_status run_session(vtb_session *s, int64_t rows, vtb_error *err) {
  vtb_status status = vtb__session_check(s, err);
  if (!rows) rows = rows_of_inputs(s);
  if (status == VTB_OK) status = check_rows(s, rows, err);
  int32_t *first = status == VTB_OK ? first_row(s) : NULL, before = first ? *first : 0;
  for (int64_t done = 0; done < rows && status == VTB_OK;) {
    vtb__part *p = &s->parts[best_of(s, s->size)[rows - done]];
    int64_t batch = p->variant->about.batch, left = rows - done;
    vtb__slice c = {.part = p, .from = done, .n = left < batch ? left : batch, .rows = rows};
    if (first) *first = before + (int32_t)done;
    status = run_part(s, p, &c, err);
    done += c.n;
  }
  if (first) *first = before;
  return status;
}

vtb_status vtb_session_run(vtb_session *s, int64_t rows, vtb_error *err) {
  VTB_TRY(vtb__session_take(s, err));
  vtb_status status = run_session(s, rows, err);
  vtb__session_give(s);
  return status;
}
