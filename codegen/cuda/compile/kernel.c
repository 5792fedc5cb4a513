/* Kernels as text: arguments, shared memory, lines, texts with holes; equal texts are one kernel.
 * See cuda.h. */
#include <string.h>

#include "codegen/cuda/cost.h"
#include "ir/ops.h"
#include "codegen/cuda/plan/program.h"
#include "codegen/label.h"
#include "runtime/launch/launch_check.h"

/* ---- texts ----------------------------------------------------------------------------------- */

const char *vtb_cuda_intrinsics(void) { return vtb__text_find("intrinsics.cuh"); }
const char *vtb_cuda_library(void) { return vtb__text_find("library.cuh"); }

/* ---- a kernel -------------------------------------------------------------------------------- */

enum { MOST_THREADS = 1024 };

vtb_cuda_kernel *vtb_cuda_begin(vtb_cuda *c, const char *kind, int threads) {
  vtb_check(threads > 0 && threads % 32 == 0, "a block of %d threads", threads);
  if (threads > MOST_THREADS)
    vtb_cuda_unsupported(c, c->unit.inst, "%s: blocks of %d threads, and %d are the most", kind,
                         threads, MOST_THREADS);
  vtb_cuda_kernel *k = VTB_NEW(&c->arena, vtb_cuda_kernel);
  k->c = c;
  k->kind = vtb_arena_strdup(&c->arena, kind);
  k->threads = threads < MOST_THREADS ? threads : MOST_THREADS;
  k->indent = 1;
  return k;
}

static void free_text(vtb_cuda_kernel *k) {
  vtb_strbuf_free(&k->shared);
  vtb_strbuf_free(&k->body);
  vtb_strbuf_free(&k->signature);
  vtb_vec_free(&k->params);
  vtb_vec_free(&k->stored);
  vtb__text_free(&k->of);
}

void vtb__cuda_discard(vtb_cuda_kernel *k) { free_text(k); }

static void add_param(vtb_cuda_kernel *k, const char *type, const char *name, vtb_cuda_ref ref) {
  if (k->signature.n) vtb_strbuf_puts(&k->signature, ", ");
  vtb_strbuf_printf(&k->signature, "%s(%s) %s",
                    ref.access & VTB_LAUNCH_WRITE ? "VTB_OUT" : "VTB_IN", type, name);
  vtb_vec_push(&k->params, ((vtb_cuda_param){vtb_arena_strdup(&k->c->arena, name), ref}));
}

static vtb_cuda_param *param_of(const vtb_cuda_kernel *k, const char *name) {
  for (size_t i = 0; i < k->params.n; i++)
    if (strcmp(k->params.at[i].name, name) == 0) return &k->params.at[i];
  return NULL;
}

static bool declared(const vtb_cuda_kernel *k, const char *name) {
  return param_of(k, name) != NULL;
}

void vtb__cuda_touches(vtb_cuda_kernel *k, const char *name, int64_t elements) {
  vtb_cuda_ref *r = &param_of(k, name)->ref;
  int64_t bytes = elements * vtb__cuda_element(r);
  if (!r->touched || bytes < r->touched) r->touched = bytes;
}

void vtb__cuda_stores(vtb_cuda_kernel *k, const char *name, const vtb_value *value,
                      int64_t offset) {
  vtb_cuda_ref *r = &param_of(k, name)->ref;
  bool first = true;
  for (size_t i = 0; i < k->stored.n; i++) {
    const vtb_cuda_stored *s = &k->stored.at[i];
    if (strcmp(s->param, name) != 0) continue;
    if (s->value == value && s->offset == offset) return;
    first = false;
  }
  r->touched = (first ? 0 : r->touched) + vtb_type_count(&value->type) * vtb__cuda_element(r);
  vtb_vec_push(&k->stored, ((vtb_cuda_stored){name, value, offset}));
}

const char *vtb__cuda_type_name(vtb_dtype d) {
  static const char *const names[] = {
      [VTB_F32] = "float", [VTB_I32] = "int", [VTB_BF16] = "vtb_bf16", [VTB_F16] = "vtb_f16"};
  return names[d];
}

vtb_factors vtb__cuda_factors(const vtb_cuda *c) {
  const vtb_inst *whole = c->unit.inst;
  if (!whole->callee) return vtb_factors_of(whole);
  for (const vtb_inst *i = whole->callee->first; i; i = i->next)
    if (vtb_attr_find(i, "precision")) return vtb_factors_of(i);
  return VTB_FACTORS_FP32;
}

const char *vtb__cuda_tile_type(const vtb_cuda *c) {
  vtb_factors factors = vtb__cuda_factors(c);
  return factors == VTB_FACTORS_BF16   ? "vtb_bf16"
         : factors == VTB_FACTORS_FP16 ? "vtb_f16"
                                       : "float";
}

void vtb__cuda_use(vtb_cuda_kernel *k, int t, const char *name, int access) {
  const vtb_cuda_unit *u = &k->c->unit;
  vtb_check(t >= 0 && t < u->n_operands + u->n_results, "tensor %d of a kernel", t);
  if (declared(k, name)) return;
  vtb_cuda_ref ref = u->ref[t];
  ref.access = access;
  add_param(k, vtb__cuda_type_name(u->t[t].type->dtype), name, ref);
}

void vtb_cuda_in(vtb_cuda_kernel *k, int tensor, const char *name) {
  vtb__cuda_use(k, tensor, name, VTB_LAUNCH_READ);
}
void vtb_cuda_map(vtb_cuda_kernel *k, int tensor, const vtb_launch_map *map, const char *name) {
  vtb_cuda_ref ref = k->c->unit.ref[tensor];
  ref.access = VTB_LAUNCH_READ;
  ref.map = vtb_arena_memdup(&k->c->arena, map, sizeof *map);
  if (k->signature.n) vtb_strbuf_puts(&k->signature, ", ");
  vtb_strbuf_printf(&k->signature, "VTB_MAP(%s)", name);
  vtb_vec_push(&k->params, ((vtb_cuda_param){vtb_arena_strdup(&k->c->arena, name), ref}));
}
bool vtb_cuda_is_hopper(const vtb_cuda *c) { return vtb_streq(c->options->arch, "sm_90a"); }

bool vtb_cuda_wants_wgmma(const vtb_cuda *c) { return c->options->wgmma; }
bool vtb_cuda_wants_clusters(const vtb_cuda *c) { return c->options->clusters; }
void vtb_cuda_out(vtb_cuda_kernel *k, int tensor, const char *name) {
  vtb__cuda_use(k, tensor, name, VTB_LAUNCH_WRITE);
}

int vtb_cuda_temp(vtb_cuda *c, int64_t n_bytes) {
  vtb_cuda_unit *u = &c->unit;
  if (!u->temps.n && u->tail_bytes < c->func->turn) u->tail_bytes = c->func->turn;
  vtb_cuda_ref ref = {.place = VTB_CUDA_TAIL,
                      .value = c->func->n_values++,
                      .offset = u->tail_bytes,
                      .bytes = n_bytes};
  vtb_vec_push(&u->temps, ref);
  u->tail_bytes += vtb_places_round(&c->steps.places, n_bytes);
  return (int)u->temps.n - 1;
}

void vtb__cuda_use_temp(vtb_cuda_kernel *k, int temp, const char *type, const char *name,
                        int access) {
  if (declared(k, name)) return;
  vtb_cuda_ref ref = k->c->unit.temps.at[temp];
  ref.access = access;
  add_param(k, type, name, ref);
}

void vtb_cuda_temp_in(vtb_cuda_kernel *k, int temp, const char *type, const char *name) {
  vtb__cuda_use_temp(k, temp, type, name, VTB_LAUNCH_READ);
}
void vtb_cuda_temp_out(vtb_cuda_kernel *k, int temp, const char *type, const char *name) {
  vtb__cuda_use_temp(k, temp, type, name, VTB_LAUNCH_WRITE);
}

void vtb__cuda_use_ref(vtb_cuda_kernel *k, vtb_cuda_ref ref, const char *type, const char *name,
                       int access) {
  ref.access = access;
  add_param(k, type, name, ref);
}

static void add_table(vtb_cuda_kernel *k, const void *data, size_t n, const char *type,
                      const char *name) {
  if (declared(k, name)) return;
  vtb_cuda_ref ref = {
      .place = VTB_CUDA_CONSTANT, .value = -1, .access = VTB_LAUNCH_READ, .bytes = (int64_t)n * 4};
  ref.offset = vtb__cuda_constant(k->c, data, n * 4);
  add_param(k, type, name, ref);
}

void vtb_cuda_table_i32(vtb_cuda_kernel *k, const int32_t *data, size_t n, const char *name) {
  add_table(k, data, n, "int", name);
}
void vtb_cuda_table_f32(vtb_cuda_kernel *k, const float *data, size_t n, const char *name) {
  add_table(k, data, n, "float", name);
}

void vtb_cuda_shared(vtb_cuda_kernel *k, const char *type, int type_bytes, const char *name,
                     int64_t count) {
  vtb_strbuf_printf(&k->shared, "  VTB_SHARED(%s, %s, %lld, %lld);\n", type, name,
                    (long long)k->shared_bytes, (long long)count);
  k->shared_bytes += (count * type_bytes + 15) / 16 * 16;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void indent(vtb_cuda_kernel *k) {
  for (int i = 0; i < k->indent; i++) vtb_strbuf_puts(&k->body, "  ");
}

void vtb_cuda_line(vtb_cuda_kernel *k, const char *fmt, ...) {
  va_list ap;
  indent(k);
  va_start(ap, fmt);
  vtb_strbuf_vprintf(&k->body, fmt, ap);
  va_end(ap);
  vtb_strbuf_putc(&k->body, '\n');
}

void vtb_cuda_open(vtb_cuda_kernel *k, const char *fmt, ...) {
  va_list ap;
  indent(k);
  va_start(ap, fmt);
  vtb_strbuf_vprintf(&k->body, fmt, ap);
  va_end(ap);
  vtb_strbuf_puts(&k->body, " {\n");
  k->indent++;
}

void vtb_cuda_close(vtb_cuda_kernel *k) {
  k->indent--;
  indent(k);
  vtb_strbuf_puts(&k->body, "}\n");
}

void vtb_cuda_include(vtb_cuda_kernel *k, const char *file) {
  if (vtb_streq(file, "hopper.cuh")) k->arch = 90;
  if (vtb_map_has(&k->c->includes, file)) return;
  vtb_map_set(&k->c->includes, file, (void *)(uintptr_t)vtb__text_find(file));
}

void vtb_cuda_together(vtb_cuda_kernel *k, int blocks) { k->together = blocks; }
void vtb_cuda_cluster(vtb_cuda_kernel *k, int blocks) { k->cluster = blocks; }

/* ---- from a text ----------------------------------------------------------------------------- */

vtb_cuda_kernel *vtb_cuda_begin_text(vtb_cuda *c, const char *kind, const char *file, int threads) {
  vtb_cuda_kernel *k = vtb_cuda_begin(c, kind, threads);
  vtb_error err = {0};
  vtb_status status = vtb__text_parse(file, vtb__text_find(file), &c->arena, &k->of, &err);
  vtb_check(status == VTB_OK, "%s", err.text);
  for (size_t i = 0; i < k->of.all.n; i++)
    if (k->of.all.at[i].kind == VTB__TEXT_INCLUDE) vtb_cuda_include(k, k->of.all.at[i].name);
  if (vtb__text_has(&k->of, "THREADS")) vtb__text_fill_number(&k->of, "THREADS", threads);
  return k;
}

void vtb_cuda_numbers(vtb_cuda_kernel *k, const vtb_cuda_number *numbers, size_t n) {
  for (size_t i = 0; i < n; i++) vtb__text_fill_number(&k->of, numbers[i].name, numbers[i].number);
}

void vtb_cuda_fill(vtb_cuda_kernel *k, const char *name, const char *fmt, ...) {
  vtb_strbuf s = {0};
  va_list ap;
  va_start(ap, fmt);
  vtb_strbuf_vprintf(&s, fmt, ap);
  va_end(ap);
  vtb__text_fill(&k->of, name, vtb_arena_strdup(&k->c->arena, s.n ? s.at : ""));
  vtb_strbuf_free(&s);
}

int64_t vtb_cuda_value(vtb_cuda_kernel *k, const char *name) {
  vtb_error err = {0};
  int64_t value = vtb__text_value(&k->of, name, &err);
  vtb_check(err.status == VTB_OK || k->c->failed, "%s", err.text);
  return value;
}

bool vtb_cuda_has(const vtb_cuda_kernel *k, const char *name) {
  return vtb__text_has(&k->of, name);
}

int64_t vtb_cuda_formula(const char *f, int64_t x) {
  vtb_error err = {0};
  vtb__text none = {.file = f};
  char call[80];
  snprintf(call, sizeof call, "%s(%lld)", f, (long long)x);
  int64_t value = vtb__text_value(&none, call, &err);
  vtb_check(err.status == VTB_OK, "%s", err.text);
  return value;
}

static void write_text(vtb_cuda_kernel *k) {
  vtb_error err = {0};
  vtb_status status = vtb__text_write(&k->of, &k->body, &k->shared_bytes, &err);
  vtb_check(status == VTB_OK, "%s", err.text);
}

/* ---- what is taken --------------------------------------------------------------------------- */

/* A block's, of the machine at hand where the kernel is for it alone, else of every one. */
static int64_t shared_room(const vtb_cuda *c, bool hopper) {
  const vtb_gpu *gpu = vtb_cuda_gpu(c);
  bool own = !hopper || vtb_streq(gpu->arch, "sm_90a"); /* plans for others are not its own */
  int64_t room = own ? (int64_t)vtb_gpu_block_shared(gpu, 1) : INT64_MAX;
  for (int i = 0; i < vtb_n_archs; i++)
    if ((!hopper || vtb_streq(vtb_archs[i].name, "sm_90a")) && vtb_archs[i].shared_bytes < room)
      room = vtb_archs[i].shared_bytes;
  return room;
}

int64_t vtb_cuda_shared_room(const vtb_cuda *c) { return shared_room(c, vtb_cuda_is_hopper(c)); }

/* With these numbers, and all types the same. */
static void open_text(vtb_cuda *c, const char *file, const char *type,
                      const vtb_cuda_number *numbers, size_t n, vtb__text *t) {
  vtb_error err = {0};
  vtb_status status = vtb__text_parse(file, vtb__text_find(file), &c->arena, t, &err);
  vtb_check(status == VTB_OK, "%s", err.text);
  for (size_t i = 0; i < t->all.n; i++)
    if (t->all.at[i].kind == VTB__TEXT_TYPE) vtb__text_fill(t, t->all.at[i].name, type);
  for (size_t i = 0; i < n; i++) vtb__text_fill_number(t, numbers[i].name, numbers[i].number);
}

static int64_t bytes_of(vtb__text *t) {
  vtb__text_arrays arrays = {0};
  vtb_error err = {0};
  int64_t bytes;
  vtb_status status = vtb__text_layout(t, &arrays, &bytes, &err);
  vtb_check(status == VTB_OK, "%s", err.text);
  vtb_vec_free(&arrays);
  return bytes;
}

bool vtb_cuda_takes(vtb_cuda *c, const char *file, const char *type, const vtb_cuda_number *numbers,
                    size_t n, int64_t *shared_bytes) {
  vtb__text t;
  open_text(c, file, type, numbers, n, &t);
  bool takes = !vtb__text_refusal(&t, &c->arena);
  if (takes && shared_bytes) {
    *shared_bytes = bytes_of(&t);
    takes = *shared_bytes <= vtb_cuda_shared_room(c);
  }
  vtb__text_free(&t);
  return takes;
}

double vtb_cuda_text_seconds(vtb_cuda *c, const char *file, const char *type,
                             const vtb_cuda_number *numbers, size_t n, const char *blocks,
                             vtb_work w) {
  vtb__text t;
  vtb_error err = {0};
  open_text(c, file, type, numbers, n, &t);
  w.blocks *= (double)vtb__text_value(&t, blocks, &err);
  w.threads = (double)vtb__text_value(&t, "THREADS", &err);
  w.shared_bytes = (double)bytes_of(&t);
  vtb__cuda_add_declared(c, &t, &w);
  vtb_check(!*err.text, "%s", err.text);
  vtb__text_free(&t);
  return vtb_gpu_time(vtb_cuda_gpu(c), &w).seconds;
}

/* The kernel can be, of so many blocks; else it is unsupported. */
static bool is_taken(vtb_cuda_kernel *k, int64_t blocks) {
  vtb_cuda *c = k->c;
  const char *why = k->of.file ? vtb__text_refusal(&k->of, &c->arena) : NULL;
  if (c->failed) return false;
  if (!why && (blocks < 1 || blocks > INT32_MAX))
    why = vtb_arena_printf(&c->arena, "%s: %lld blocks, and %d are the most", k->kind,
                           (long long)blocks, INT32_MAX);
  if (why) vtb_cuda_unsupported(c, c->unit.inst, "%s", why);
  return !why;
}

/* When its text is whole. What only the machine at hand has room for is for it alone. */
static bool has_room(vtb_cuda_kernel *k) {
  int64_t room = vtb_cuda_shared_room(k->c);
  if (k->shared_bytes > shared_room(k->c, false) && k->shared_bytes <= room) k->arch = 90;
  if (k->shared_bytes <= room) return true;
  vtb_cuda_unsupported(
      k->c, k->c->unit.inst, "%s: %lld bytes of shared memory a block, and there are %lld",
      k->of.file ? k->of.file : k->kind, (long long)k->shared_bytes, (long long)room);
  return false;
}

/* ---- launches -------------------------------------------------------------------------------- */

static void list_ops(const vtb_cuda_unit *u, vtb_strbuf *out) {
  const vtb_inst *inst = u->inst;
  if (!inst) {
    vtb_strbuf_puts(out, u->what);
  } else if (inst->op != VTB_OP_fused) {
    vtb_strbuf_puts(out, vtb_op_get(inst->op)->name);
  } else {
    for (const vtb_inst *i = inst->callee->first; i; i = i->next) {
      if (i->op == VTB_OP_constant) continue;
      if (out->n) vtb_strbuf_putc(out, ' ');
      vtb_strbuf_puts(out, vtb_op_get(i->op)->name);
    }
  }
}

/* For profiles and the comment over the kernel: from the instruction that used it first. */
static void describe(vtb_cuda_kernel *k) {
  const vtb_inst *inst = k->c->unit.inst;
  vtb_strbuf ops = {0};
  list_ops(&k->c->unit, &ops);
  k->ops = vtb_arena_strdup(&k->c->arena, ops.at ? ops.at : "");
  vtb_strbuf_free(&ops);
  if (inst) vtb_span_text(inst->span, k->origin, sizeof k->origin);
  if (inst && inst->op == VTB_OP_fused) {
    if (!k->origin[0] && inst->callee->first)
      vtb_span_text(inst->callee->first->span, k->origin, sizeof k->origin);
    for (const vtb_inst *i = inst->callee->first; i; i = i->next)
      k->flops += vtb_inst_cost(i, 1).flops;
  } else if (inst) {
    k->flops = vtb_inst_cost(inst, 1).flops;
  }
}

static void finish(vtb_cuda_kernel *k, const char *text) {
  vtb_cuda *c = k->c;
  k->number = (int)c->kernel_list.n;
  k->n_args = (int)k->params.n;
  k->label = c->unit.label;
  k->text = vtb_arena_strdup(&c->arena, text);
  describe(k);
  vtb_vec_push(&c->kernel_list, k);
}

static void add_step(vtb_cuda *c, vtb_cuda_kernel *k, const vtb_cuda_kernel *params,
                     int64_t blocks) {
  vtb_cuda_step s = {.kernel = k, .grid = blocks, .n_refs = (int)params->params.n};
  s.refs = VTB_NEW_ARRAY(&c->arena, vtb_cuda_ref, s.n_refs + 1);
  for (int i = 0; i < s.n_refs; i++) s.refs[i] = params->params.at[i].ref;
  vtb_vec_push(&c->func->steps, s);
}

void vtb_cuda_launch(vtb_cuda_kernel *k, int64_t blocks) {
  vtb_cuda *c = k->c;
  vtb_strbuf text = {0}, key = {0};
  if (!is_taken(k, blocks)) {
    free_text(k);
    return;
  }
  vtb_check(k->indent == 1, "launch of %s: indentation %d", k->kind, k->indent);
  if (k->of.file) write_text(k);
  if (!has_room(k)) {
    free_text(k);
    return;
  }
  vtb_strbuf_printf(&text, "(%s) {\n%s", k->signature.at ? k->signature.at : "",
                    k->shared.at ? k->shared.at : "");
  vtb_strbuf_write(&text, k->body.at ? k->body.at : "", k->body.n);
  vtb_strbuf_puts(&text, "}\n");
  vtb_check(k->cluster < 2 || blocks % k->cluster == 0, "%lld blocks in clusters of %d",
            (long long)blocks, k->cluster);
  vtb_strbuf_printf(&key, "%s %d %d %lld ", k->kind, k->threads, k->cluster,
                    (long long)k->shared_bytes);
  vtb_strbuf_write(&key, text.at, text.n);
  vtb_cuda_kernel *known = vtb_map_get(&c->kernels, key.at);
  if (!known) {
    known = k;
    vtb__cuda_cost(k, blocks);
    finish(k, text.at);
    vtb_map_set(&c->kernels, key.at, k);
  }
  known->label = vtb_label_merge(known->label, c->unit.label, &c->arena);
  add_step(c, known, k, blocks);
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&key);
  free_text(k);
}

/* ---- addresses ------------------------------------------------------------------------------- */

int64_t vtb_cuda_reach(const vtb_type *t, const int64_t *stride) {
  int64_t n = 1;
  if (vtb_type_count(t) == 0) return 0;
  for (int a = 0; a < t->rank; a++) n += (t->dim[a].size - 1) * stride[a];
  return n;
}

bool vtb_cuda_is_far(const vtb_cuda *c, int64_t elements) {
  return c->options->far || elements > INT32_MAX;
}

bool vtb_cuda_rows_of_four(const vtb_cuda *c, int i) {
  const vtb_cuda_tensor *t = vtb_cuda_tensor_of(c, i);
  int last = t->type->rank - 1;
  if (last < 0 || t->align < 4 || t->type->dim[last].size % 4 || t->stride[last] != 1) return false;
  for (int a = 0; a < last; a++)
    if (t->type->dim[a].size > 1 && t->stride[a] % 4) return false;
  return true;
}

const char *vtb_cuda_offset(vtb_cuda *c, int tensor, const char *const *index) {
  const vtb_cuda_tensor *t = vtb_cuda_tensor_of(c, tensor);
  vtb_strbuf s = {0};
  bool wide = vtb_cuda_is_far(c, vtb_cuda_reach(t->type, t->stride));
  for (int a = 0; a < t->type->rank; a++) {
    if (!index[a] || t->stride[a] == 0 || t->type->dim[a].size == 1) continue;
    vtb_strbuf_printf(&s, "%s%s(%s)", s.n ? " + " : "", wide ? "(vtb_i64)" : "", index[a]);
    if (t->stride[a] != 1) vtb_strbuf_printf(&s, " * %lld", (long long)t->stride[a]);
  }
  const char *text = vtb_arena_strdup(&c->arena, s.n ? s.at : "0");
  vtb_strbuf_free(&s);
  return text;
}
