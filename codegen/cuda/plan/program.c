/* The module as a launch plan: every planned function is emitted once as steps with places relative to its arguments
 * and frame; calls are then expanded from the entry, which gives each step its addresses.
 *
 * The workspace of a function is its planned frame, then copies of call operands that are not dense, then (sharing one
 * place, since never alive together) the temporaries of the instruction that runs and the frame of the callee that
 * runs: as on the CPU (codegen/cpu/host/host.c).
 */
#include "codegen/cuda/plan/program.h"
#include "ir/attention.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/emitters.h"
#include "ir/recurrence.h"

typedef void (*emit_fn)(vtb_cuda *, const vtb_inst *);

/* The cpu column of ir/ops.def. */
#define vtb__cuda_scalar vtb__cuda_body
#define vtb__cuda_view vtb__cuda_body
#define vtb__cuda_by_lowering NULL
#define vtb__cuda_call NULL
static const emit_fn emitters[VTB_OP_COUNT] = {
#define VTB_OP(name, klass, lo, hi, shape, interp, grad, cpu, ...)                                 \
  [VTB_OP_##name] = vtb__cuda_##cpu,
#include "ir/ops.def"
#undef VTB_OP
};
#undef vtb__cuda_scalar
#undef vtb__cuda_view
#undef vtb__cuda_by_lowering
#undef vtb__cuda_call

void vtb_cuda_unsupported(vtb_cuda *c, const vtb_inst *inst, const char *why) {
  vtb_strbuf text = {0};
  char place[160] = "";
  vtb_inst_print(inst, &text);
  vtb_span_text(inst->span, place, sizeof place);
  vtb_fail(c->err, VTB_E_INTERNAL, "no CUDA kernel for %s%s%s: %s", text.at, place[0] ? " at " : "",
           place, why);
  vtb_strbuf_free(&text);
  c->failed = true;
}

/* ---- constants -------------------------------------------------------------------------------------------- */

int64_t vtb__cuda_constant(vtb_cuda *c, const void *data, size_t n_bytes) {
  static const char digits[] = "0123456789abcdef";
  vtb_strbuf key = {0};
  for (size_t i = 0; i < n_bytes; i++) {
    unsigned char b = ((const unsigned char *)data)[i];
    vtb_strbuf_putc(&key, digits[b >> 4]);
    vtb_strbuf_putc(&key, digits[b & 15]);
  }
  int64_t at = (int64_t)(intptr_t)vtb_map_get(&c->constant_at, key.at ? key.at : "") - 1;
  if (at < 0) {
    while (c->constants.n % 16) vtb_strbuf_putc(&c->constants, 0);
    at = (int64_t)c->constants.n;
    vtb_strbuf_write(&c->constants, data, n_bytes);
    vtb_map_set(&c->constant_at, key.at ? key.at : "", (void *)(intptr_t)(at + 1));
  }
  vtb_strbuf_free(&key);
  return at;
}

/* A splat is one element with zero strides. */
static int64_t constant_of(vtb_cuda *c, const vtb_value *v) {
  const vtb_attr *data = vtb_attr_find(v->def, "data");
  size_t n = data ? (size_t)data->n : 1;
  float *copy = vtb_xcalloc(n + 1, 4);
  for (size_t i = 0; i < n; i++) {
    double x = data ? data->floats[i] : vtb_attr_float(v->def, "value", 0);
    int32_t whole = (int32_t)x;
    copy[i] = (float)x;
    if (v->type.dtype == VTB_I32) memcpy(&copy[i], &whole, 4);
  }
  int64_t at = vtb__cuda_constant(c, copy, n * 4);
  free(copy);
  return at;
}

/* ---- places ----------------------------------------------------------------------------------------------- */

static const vtb_slot *slot_of(const vtb_cuda *c, const vtb_value *v) {
  return &c->func->frame->slots[v->id];
}

static const vtb_value *stored_value(const vtb_cuda *c, const vtb_value *v) {
  return slot_of(c, v)->place == VTB_PLACE_VIEW ? slot_of(c, v)->base : v;
}

static bool is_splat(const vtb_cuda *c, const vtb_value *v) {
  const vtb_value *base = stored_value(c, v);
  return slot_of(c, base)->place == VTB_PLACE_CONSTANT && !vtb_attr_find(base->def, "data");
}

static void strides_of(const vtb_cuda *c, const vtb_value *v, int64_t *stride) {
  memset(stride, 0, sizeof(int64_t) * VTB_MAX_RANK);
  if (!is_splat(c, v))
    memcpy(stride, slot_of(c, v)->stride, sizeof(int64_t) * (size_t)v->type.rank);
}

vtb_cuda_ref vtb__cuda_place(vtb_cuda *c, const vtb_value *v) {
  const vtb_value *base = stored_value(c, v);
  const vtb_slot *s = slot_of(c, base);
  int64_t stride[VTB_MAX_RANK];
  vtb_cuda_ref r = {.value = base->id, .element = vtb_dtype_bytes(base->type.dtype)};
  switch (s->place) {
  case VTB_PLACE_ARG:
    r.place = VTB_CUDA_ARG;
    r.index = s->index;
    break;
  case VTB_PLACE_RETURN:
    r.place = VTB_CUDA_ARG;
    r.index = c->func->func->n_args + s->index;
    break;
  case VTB_PLACE_WORKSPACE:
    r.place = VTB_CUDA_FRAME;
    r.offset = s->offset;
    break;
  case VTB_PLACE_CONSTANT:
    r.place = VTB_CUDA_CONSTANT;
    r.value = -1;
    r.offset = constant_of(c, base);
    break;
  default:
    vtb_bug("value %%%s of @%s has no place", v->name, c->func->func->name);
  }
  if (base != v && !is_splat(c, v)) r.offset += slot_of(c, v)->view_offset * r.element;
  strides_of(c, v, stride);
  r.bytes = vtb_cuda_reach(&v->type, stride) * r.element;
  return r;
}

static int element_of(const vtb_cuda_ref *r) { return r->element ? r->element : 4; }

/* In elements. Arguments of functions and tensors of the program start at multiples of 16 bytes, as do frames and
 * temporaries. */
static int align_of(const vtb_cuda_ref *r) {
  int align = 16 / element_of(r);
  while (r->offset % (align * element_of(r))) align /= 2;
  return align;
}

/* ---- units: one instruction or copy ----------------------------------------------------------------------- */

const vtb_cuda_tensor *vtb_cuda_tensor_of(const vtb_cuda *c, int i) {
  vtb_check(i >= 0 && i < c->unit.n_operands + c->unit.n_results, "tensor %d of an instruction", i);
  return &c->unit.t[i];
}

static void begin_unit(vtb_cuda *c, const vtb_inst *inst, int n_operands, int n_results) {
  vtb_cuda_unit *u = &c->unit;
  int n = n_operands + n_results;
  u->inst = inst;
  u->what = "copy";
  u->n_operands = n_operands;
  u->n_results = n_results;
  u->t = VTB_NEW_ARRAY(&c->arena, vtb_cuda_tensor, n + 1);
  u->ref = VTB_NEW_ARRAY(&c->arena, vtb_cuda_ref, n + 1);
  u->temps.n = 0;
  u->temp_bytes = 0;
}

static void set_tensor(vtb_cuda *c, int i, const vtb_type *type, const int64_t *stride,
                       vtb_cuda_ref ref) {
  vtb_cuda_tensor *t = &c->unit.t[i];
  t->type = type;
  memcpy(t->stride, stride, sizeof t->stride);
  for (int a = 0; a < type->rank; a++)
    if (type->dim[a].size == 1) t->stride[a] = 0;
  t->align = align_of(&ref);
  c->unit.ref[i] = ref;
}

/* Temporaries sit at the tail of the frame, whose place is known once the frame is. */
static void end_unit(vtb_cuda *c) {
  if (c->unit.temp_bytes > c->func->tail_bytes) c->func->tail_bytes = c->unit.temp_bytes;
}

void vtb__cuda_begin_unit(vtb_cuda *c, const char *what) {
  begin_unit(c, NULL, 0, 0);
  c->unit.what = what;
}
void vtb__cuda_end_unit(vtb_cuda *c) { end_unit(c); }

/* Structured ops address rows: their last axis must be contiguous, in operands that the plan made views. */
static void copy_in_operands(vtb_cuda *c, const vtb_inst *inst) {
  for (int i = 0; i < inst->n_operands; i++) {
    const vtb_cuda_tensor *t = &c->unit.t[i];
    int last = t->type->rank - 1;
    if (last < 0 || t->type->dim[last].size == 1 || t->stride[last] == 1) continue;
    int temp = vtb_cuda_temp(c, vtb_type_bytes(t->type));
    c->unit.temps.at[temp].element = vtb_dtype_bytes(t->type->dtype);
    int64_t dense[VTB_MAX_RANK] = {0};
    vtb__cuda_copy(c, inst->operands[i], i, -1, temp);
    vtb__dense_strides(t->type, dense);
    set_tensor(c, i, t->type, dense, c->unit.temps.at[temp]);
  }
}

static void emit_unit(vtb_cuda *c, const vtb_inst *inst) {
  begin_unit(c, inst, inst->n_operands, inst->n_results);
  for (int i = 0; i < inst->n_operands + inst->n_results; i++) {
    const vtb_value *v =
        i < inst->n_operands ? inst->operands[i] : inst->results[i - inst->n_operands];
    int64_t stride[VTB_MAX_RANK];
    strides_of(c, v, stride);
    set_tensor(c, i, &v->type, stride, vtb__cuda_place(c, v));
  }
  bool rows = vtb_op_get(inst->op)->klass == VTB_CLASS_STRUCTURED && inst->op != VTB_OP_einsum;
  if (rows || vtb_is_scans(inst) || vtb_is_turned_attention(inst)) copy_in_operands(c, inst);
  emitters[inst->op](c, inst);
  end_unit(c);
}

void vtb__cuda_copy_between(vtb_cuda *c, const vtb_type *type, vtb_cuda_ref from,
                            const int64_t *from_stride, vtb_cuda_ref to, const int64_t *to_stride) {
  vtb_value v = {.name = "copied", .type = *type};
  begin_unit(c, NULL, 1, 1);
  set_tensor(c, 0, type, from_stride, from);
  set_tensor(c, 1, type, to_stride, to);
  vtb__cuda_copy(c, &v, 0, 1, -1);
  end_unit(c);
}

/* A dense copy of `v`, whatever its strides. */
static void emit_copy(vtb_cuda *c, const vtb_value *v, vtb_cuda_ref to) {
  int64_t stride[VTB_MAX_RANK], dense[VTB_MAX_RANK] = {0};
  strides_of(c, v, stride);
  vtb__dense_strides(&v->type, dense);
  vtb__cuda_copy_between(c, &v->type, vtb__cuda_place(c, v), stride, to, dense);
}

static int find_gemm(vtb_cuda *c, const vtb_launch_gemm *g) {
  for (size_t i = 0; i < c->gemms.n; i++)
    if (memcmp(&c->gemms.at[i], g, sizeof *g) == 0) return (int)i;
  vtb_vec_push(&c->gemms, *g);
  return (int)c->gemms.n - 1;
}

void vtb__cuda_gemm(vtb_cuda *c, const vtb_launch_gemm *g, const int tensors[4]) {
  vtb_cuda_step s = {.gemm = find_gemm(c, g),
                     .n_refs = 3 + g->has_bias,
                     .refs = VTB_NEW_ARRAY(&c->arena, vtb_cuda_ref, 4)};
  for (int i = 0; i < s.n_refs; i++) {
    s.refs[i] = c->unit.ref[tensors[i]];
    s.refs[i].access = i == 2 ? VTB_LAUNCH_WRITE : VTB_LAUNCH_READ;
  }
  vtb_vec_push(&c->func->steps, s);
}

/* ---- calls and returns ------------------------------------------------------------------------------------ */

const vtb_cuda_func *vtb__cuda_find_func(const vtb_cuda *c, const vtb_func *func) {
  for (size_t i = 0; i < c->funcs.n; i++)
    if (c->funcs.at[i].func == func) return &c->funcs.at[i];
  vtb_bug("@%s is not in the memory plan", func->name);
}

static bool needs_copy(vtb_cuda *c, const vtb_value *v) {
  int64_t stride[VTB_MAX_RANK];
  strides_of(c, v, stride);
  vtb_cuda_ref r = vtb__cuda_place(c, v);
  return !vtb__is_dense(&v->type, stride) || align_of(&r) * element_of(&r) != 16;
}

static int64_t padded_bytes(const vtb_type *t) { return (vtb_type_bytes(t) + 255) / 256 * 256; }

void vtb__cuda_dense_operands(vtb_cuda *c, const vtb_inst *inst, vtb_cuda_ref *refs) {
  int64_t copied = c->func->copy_base;
  for (int i = 0; i < inst->n_operands; i++) {
    const vtb_value *v = inst->operands[i];
    refs[i] = vtb__cuda_place(c, v);
    if (!needs_copy(c, v)) continue;
    refs[i] =
        (vtb_cuda_ref){.place = VTB_CUDA_FRAME, .offset = copied, .value = c->func->n_values++};
    refs[i].element = vtb_dtype_bytes(v->type.dtype);
    refs[i].bytes = vtb_type_bytes(&v->type);
    emit_copy(c, v, refs[i]);
    copied += padded_bytes(&v->type);
  }
}

static void emit_call(vtb_cuda *c, const vtb_inst *inst) {
  const vtb_cuda_func *callee = vtb__cuda_find_func(c, inst->callee);
  int n = inst->n_operands + inst->n_results;
  vtb_cuda_step s = {
      .callee = callee, .n_refs = n, .refs = VTB_NEW_ARRAY(&c->arena, vtb_cuda_ref, n + 1)};
  vtb__cuda_dense_operands(c, inst, s.refs);
  for (int r = 0; r < inst->n_results; r++)
    s.refs[inst->n_operands + r] = vtb__cuda_place(c, inst->results[r]);
  if (callee->total_bytes > c->func->tail_bytes) c->func->tail_bytes = callee->total_bytes;
  vtb_vec_push(&c->func->steps, s);
}

/* Returned values that were not computed in place: arguments, constants, views, and one value returned twice. */
static void emit_returns(vtb_cuda *c) {
  const vtb_func *f = c->func->func;
  for (int r = 0; r < f->n_returns; r++) {
    const vtb_value *v = f->returns[r];
    if (vtb_type_count(&v->type) == 0) continue;
    const vtb_slot *s = slot_of(c, v), *base = slot_of(c, stored_value(c, v));
    bool in_place = base->place == VTB_PLACE_RETURN && base->index == r;
    if (in_place && (base == s || (s->view_offset == 0 && !needs_copy(c, v)))) continue;
    vtb_cuda_ref to = {.place = VTB_CUDA_ARG, .index = f->n_args + r, .value = c->func->n_values++};
    to.element = vtb_dtype_bytes(v->type.dtype);
    to.bytes = vtb_type_bytes(&v->type);
    emit_copy(c, v, to);
  }
}

/* ---- functions -------------------------------------------------------------------------------------------- */

static void emit_inst(vtb_cuda *c, const vtb_inst *i) {
  if (i->op == VTB_OP_constant) return; /* read where it is used */
  if (i->op == VTB_OP_call) {
    emit_call(c, i);
    return;
  }
  if (i->op == VTB_OP_fold) {
    vtb__cuda_emit_fold(c, i);
    return;
  }
  if (i->n_results == 1) {
    const vtb_slot *s = slot_of(c, i->results[0]);
    if (s->in_place || (s->place == VTB_PLACE_VIEW && vtb_op_get(i->op)->klass == VTB_CLASS_SHAPE))
      return;
  }
  if (!emitters[i->op]) {
    vtb_cuda_unsupported(c, i, "it should have been lowered");
    return;
  }
  bool empty = i->n_results > 0;
  for (int r = 0; r < i->n_results; r++) empty &= vtb_type_count(&i->results[r]->type) == 0;
  if (!empty) emit_unit(c, i);
}

static void emit_func(vtb_cuda *c, vtb_cuda_func *f) {
  c->func = f;
  f->frame = vtb_plan_frame(&c->plan, f->func);
  f->n_values = f->func->n_values;
  f->copy_base = (f->frame->bytes + 255) / 256 * 256;
  int64_t copies = 0;
  for (const vtb_inst *i = f->func->first; i; i = i->next) {
    int64_t bytes = 0;
    for (int o = 0; (i->op == VTB_OP_call || i->op == VTB_OP_fold) && o < i->n_operands; o++)
      if (needs_copy(c, i->operands[o])) bytes += padded_bytes(&i->operands[o]->type);
    if (bytes > copies) copies = bytes;
  }
  f->tail_base = f->copy_base + copies;
  for (const vtb_inst *i = f->func->first; i && !c->failed; i = i->next) {
    emit_inst(c, i);
    if (vtb_attr_int(i, "prepared", 0)) f->n_prepared = f->steps.n;
  }
  if (!c->failed) emit_returns(c);
  if (!c->failed && c->update) vtb__cuda_emit_update(c);
  f->total_bytes = f->tail_base + (f->tail_bytes + 255) / 256 * 256;
  c->func = NULL;
}

/* ---- expansion -------------------------------------------------------------------------------------------- */

typedef struct expansion {
  vtb_launch_plan *plan;
  int next_value;
  VTB_VEC(vtb_launch_step) steps;
  VTB_VEC(vtb_launch_arg) args;
} expansion;

static vtb_launch_arg resolve(const vtb_cuda_func *f, const vtb_cuda_ref *r,
                              const vtb_launch_arg *outer, int64_t frame, int first_value) {
  int element = element_of(r);
  vtb_launch_arg a = {.element_bytes = (uint8_t)element,
                      .align = (uint8_t)(align_of(r) * element),
                      .access = (uint8_t)r->access};
  a.value = first_value + r->value;
  a.offset = r->offset;
  switch (r->place) {
  case VTB_CUDA_ARG:
    a.space = outer[r->index].space;
    a.tensor = outer[r->index].tensor;
    a.value = outer[r->index].value;
    a.offset += outer[r->index].offset;
    break;
  case VTB_CUDA_FRAME:
    a.space = VTB_LAUNCH_WORKSPACE;
    a.offset += frame;
    break;
  case VTB_CUDA_TAIL:
    a.space = VTB_LAUNCH_WORKSPACE;
    a.offset += frame + f->tail_base;
    break;
  case VTB_CUDA_CONSTANT:
    a.space = VTB_LAUNCH_CONSTANT;
    a.value = -1;
    break;
  case VTB_CUDA_STATE:
    a.space = VTB_LAUNCH_STATE;
    a.value = -1;
    break;
  }
  a.bytes = r->bytes;
  return a;
}

/* The steps of one call, with its arguments and returns in `outer` and its frame at `frame`. */
static void expand(expansion *x, const vtb_cuda_func *f, const vtb_launch_arg *outer,
                   int64_t frame) {
  int first_value = x->next_value;
  x->next_value += f->n_values;
  for (size_t i = 0; i < f->steps.n; i++) {
    const vtb_cuda_step *s = &f->steps.at[i];
    vtb_launch_arg *args = vtb_xcalloc((size_t)s->n_refs + 1, sizeof *args);
    for (int r = 0; r < s->n_refs; r++)
      args[r] = resolve(f, &s->refs[r], outer, frame, first_value);
    if (s->callee) {
      expand(x, s->callee, args, frame + f->tail_base + s->frame);
    } else {
      vtb_launch_step step = {VTB_LAUNCH_GEMM, s->gemm, 0, (int32_t)x->args.n, s->n_refs};
      if (s->kernel) {
        step.kind = VTB_LAUNCH_KERNEL;
        step.index = s->kernel->number;
        step.grid = s->grid;
        s->kernel->launches++;
      }
      vtb_vec_push(&x->steps, step);
      for (int r = 0; r < s->n_refs; r++) vtb_vec_push(&x->args, args[r]);
    }
    if (f->n_prepared == i + 1) x->plan->n_prepared = (int32_t)x->steps.n;
    free(args);
  }
}

static void expand_entry(expansion *x, const vtb_cuda_func *entry) {
  int n = x->plan->n_tensors;
  vtb_launch_arg *outer = vtb_xcalloc((size_t)n + 1, sizeof *outer);
  for (int i = 0; i < n; i++)
    outer[i] = (vtb_launch_arg){.space = VTB_LAUNCH_TENSOR, .tensor = i, .value = i};
  x->next_value = n;
  expand(x, entry, outer, 0);
  free(outer);
}

/* ---- the plan --------------------------------------------------------------------------------------------- */

/* Sources are compiled in parallel and kept in a cache, but each costs its own start: a few kernels in each. */
enum { SOURCE_BYTES = 16 << 10 };

static void end_source(vtb_launch_plan *p, vtb_strbuf *text) {
  if (!text->n) return;
  p->sources[p->n_sources++].text = vtb_arena_strdup(&p->arena, text->at);
  text->n = 0;
}

static void fill_common(const vtb_cuda *c, vtb_launch_plan *p) {
  vtb_strbuf text = {0};
  for (size_t i = 0; i < c->includes.n; i++)
    vtb_strbuf_printf(&text, "%s\n", (const char *)c->includes.at[i].value);
  p->common = vtb_arena_strdup(&p->arena, text.n ? text.at : "");
  vtb_strbuf_free(&text);
}

static void fill_kernels(const vtb_cuda *c, vtb_launch_plan *p) {
  vtb_arena *a = &p->arena;
  vtb_strbuf text = {0};
  fill_common(c, p);
  p->n_kernels = (int32_t)c->kernel_list.n;
  p->kernels = VTB_NEW_ARRAY(a, vtb_launch_kernel, p->n_kernels + 1);
  p->sources = VTB_NEW_ARRAY(a, vtb_launch_source, p->n_kernels + 1);
  for (int i = 0; i < p->n_kernels; i++) {
    const vtb_cuda_kernel *k = c->kernel_list.at[i];
    char *name = vtb_arena_strdup(a, k->name);
    p->kernels[i] = (vtb_launch_kernel){.name = name,
                                        .source = p->n_sources,
                                        .threads = k->threads,
                                        .shared_bytes = (int32_t)k->shared_bytes,
                                        .n_args = k->n_args,
                                        .info = {name, vtb_arena_strdup(a, k->ops),
                                                 vtb_arena_strdup(a, k->origin), k->flops, k->bytes,
                                                 k->launches}};
    vtb_strbuf_printf(&text, "%s%s", text.n ? "\n" : "", k->text);
    if (text.n >= SOURCE_BYTES) end_source(p, &text);
  }
  end_source(p, &text);
  vtb_strbuf_free(&text);
}

static vtb_launch_plan *make_plan(vtb_cuda *c, const vtb_func *entry) {
  vtb_launch_plan *p = vtb_xcalloc(1, sizeof *p);
  vtb_program tensors = {0};
  vtb_arena_init(&p->arena);
  vtb__describe_tensors(entry, &tensors, &p->arena);
  p->n_tensors = tensors.n_tensors;
  p->tensors = tensors.tensors;
  p->batch = tensors.batch;
  if (c->update) vtb__cuda_update_tensors(c, p);
  expansion x = {.plan = p};
  const vtb_cuda_func *f = vtb__cuda_find_func(c, entry);
  expand_entry(&x, f);
  p->workspace_bytes = f->total_bytes;
  p->constant_bytes = (int64_t)c->constants.n;
  p->constants = vtb_arena_memdup(&p->arena, c->constants.n ? c->constants.at : "", c->constants.n);
  p->n_gemms = (int32_t)c->gemms.n;
  p->gemms = vtb_arena_memdup(&p->arena, c->gemms.n ? (void *)c->gemms.at : "",
                              c->gemms.n * sizeof *c->gemms.at);
  p->n_steps = (int32_t)x.steps.n;
  p->n_args = (int32_t)x.args.n;
  p->steps = vtb_arena_memdup(&p->arena, x.steps.n ? (void *)x.steps.at : "",
                              x.steps.n * sizeof *x.steps.at);
  p->args =
      vtb_arena_memdup(&p->arena, x.args.n ? (void *)x.args.at : "", x.args.n * sizeof *x.args.at);
  fill_kernels(c, p);
  vtb_vec_free(&x.steps);
  vtb_vec_free(&x.args);
  return p;
}

static void free_program(vtb_cuda *c) {
  for (size_t i = 0; i < c->funcs.n; i++) vtb_vec_free(&c->funcs.at[i].steps);
  vtb_vec_free(&c->funcs);
  vtb_vec_free(&c->kernel_list);
  vtb_vec_free(&c->gemms);
  vtb_vec_free(&c->unit.temps);
  vtb_strbuf_free(&c->constants);
  vtb_map_free(&c->kernels);
  vtb_map_free(&c->includes);
  vtb_map_free(&c->constant_at);
  vtb_plan_free(&c->plan);
  vtb_arena_free(&c->arena);
}

/* Kernels as this target has them. Products of the library have no room for epilogues. */
static vtb_status fuse_again(vtb_module *m, const vtb_cuda_options *o, vtb_error *err) {
  vtb_pass_context c = {.module = m};
  if (o->library_products) return VTB_OK;
  return vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = "fuse_products"}, err);
}

vtb_status vtb_cuda_plan(vtb_module *m, vtb_func *f, const vtb_cuda_options *o,
                         vtb_launch_plan **plan, vtb_error *err) {
  static const vtb_cuda_options defaults = {0};
  vtb_error ignored = {0};
  vtb_cuda c = {.options = o ? o : &defaults, .err = err ? err : &ignored};
  vtb_status status = fuse_again(m, c.options, err);
  if (status != VTB_OK) return status;
  vtb__cuda_choose_factors(&c, m, f);
  vtb__cuda_choose_storage(&c, m, f);
  if (!c.options->update) vtb__cuda_prepare(f);
  status = vtb_plan_memory(m, f, &c.plan, err);
  if (status != VTB_OK) return status;
  vtb_arena_init(&c.arena);
  for (size_t i = 0; i < c.plan.n_funcs; i++)
    vtb_vec_push(&c.funcs, ((vtb_cuda_func){.func = c.plan.funcs[i]}));
  if (c.options->update) c.failed = !vtb__cuda_update_layout(&c, f);
  for (size_t i = 0; i < c.funcs.n && !c.failed; i++) emit_func(&c, &c.funcs.at[i]);
  if (!c.failed) *plan = make_plan(&c, f);
  status = c.failed ? c.err->status : VTB_OK;
  free_program(&c);
  return status;
}
