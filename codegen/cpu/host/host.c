/* The host program: every planned function becomes straight-line code that fills closures and launches tasks.
 *
 *   void f(ptr args, ptr workspace, ptr services)
 *
 * args holds one pointer an argument, then one a return. The workspace of a function is its planned frame, then copies
 * of call operands that are not dense, then (sharing one place, since never alive together) the temporaries of the
 * kernel that runs and the frame of the callee that runs. A fold is a loop around a call; its steps and second states
 * lie before the callee's frame.
 */
#include "codegen/cpu/loop/order.h"
#include "codegen/cpu/host/host.h"
#include "ir/attention.h"
#include "ir/fold.h"
#include "ir/recurrence.h"

#include <stdlib.h>
#include <string.h>

typedef void (*emit_fn)(vtb_cpu *, const vtb_inst *);

/* The cpu column of ir/ops.def. */
#define vtb__cpu_scalar vtb__cpu_body
#define vtb__cpu_view vtb__cpu_body
#define vtb__cpu_by_lowering NULL
#define vtb__cpu_call NULL
static const emit_fn emitters[VTB_OP_COUNT] = {
#define VTB_OP(name, klass, lo, hi, shape, interp, grad, cpu, ...) [VTB_OP_##name] = vtb__cpu_##cpu,
#include "ir/ops.def"
#undef VTB_OP
};
#undef vtb__cpu_scalar
#undef vtb__cpu_view
#undef vtb__cpu_by_lowering
#undef vtb__cpu_call

typedef struct host_func { /* the function under construction */
  vtb_host *h;
  vtb_func *func;
  const vtb_frame *frame;
  LLVMBuilderRef b;
  LLVMValueRef fn, args, workspace, services;
  LLVMValueRef closure; /* one, as large as the largest */
  int closure_slots;
  LLVMValueRef *constants;       /* by value id */
  int64_t copy_base, copy_bytes; /* of call operands */
  int64_t tail_base, tail_bytes; /* temporaries and callees */
} host_func;

/* ---- addresses -------------------------------------------------------------------------------------------- */

static LLVMValueRef bytes_from(host_func *f, LLVMValueRef ptr, int64_t bytes) {
  vtb_cpu *c = &f->h->cpu;
  if (bytes == 0) return ptr;
  return LLVMBuildInBoundsGEP2(f->b, c->i8, ptr, (LLVMValueRef[]){vtb_cpu_i64(c, bytes)}, 1, "");
}

static LLVMValueRef argument(host_func *f, int i) {
  vtb_cpu *c = &f->h->cpu;
  LLVMValueRef at =
      LLVMBuildInBoundsGEP2(f->b, c->ptr, f->args, (LLVMValueRef[]){vtb_cpu_i64(c, i)}, 1, "");
  return LLVMBuildLoad2(f->b, c->ptr, at, "");
}

/* A splat is one element with zero strides. */
static LLVMValueRef constant(host_func *f, const vtb_value *v) {
  if (f->constants[v->id]) return f->constants[v->id];
  const vtb_attr *data = vtb_attr_find(v->def, "data");
  size_t n = data ? (size_t)data->n : 1;
  void *copy = vtb_xmalloc(n * 4 + 1);
  for (size_t i = 0; i < n; i++) {
    double x = data ? data->floats[i] : vtb_attr_float(v->def, "value", 0);
    if (v->type.dtype == VTB_F32)
      ((float *)copy)[i] = (float)x;
    else
      ((int32_t *)copy)[i] = (int32_t)x;
  }
  LLVMValueRef global = vtb__const_bytes(&f->h->cpu, copy, n * 4);
  free(copy);
  return f->constants[v->id] = global;
}

static const vtb_slot *slot_of(host_func *f, const vtb_value *v) { return &f->frame->slots[v->id]; }

static const vtb_value *stored_value(host_func *f, const vtb_value *v) {
  return slot_of(f, v)->place == VTB_PLACE_VIEW ? slot_of(f, v)->base : v;
}

static bool is_splat_constant(host_func *f, const vtb_value *v) {
  const vtb_value *base = stored_value(f, v);
  return slot_of(f, base)->place == VTB_PLACE_CONSTANT && !vtb_attr_find(base->def, "data");
}

static void strides_of(host_func *f, const vtb_value *v, int64_t *stride) {
  const vtb_slot *s = slot_of(f, v);
  memset(stride, 0, sizeof(int64_t) * VTB_MAX_RANK);
  if (is_splat_constant(f, v)) return;
  memcpy(stride, s->stride, sizeof(int64_t) * (size_t)v->type.rank);
}

static LLVMValueRef address(host_func *f, const vtb_value *v) {
  const vtb_slot *s = slot_of(f, v);
  switch (s->place) {
  case VTB_PLACE_ARG:
    return argument(f, s->index);
  case VTB_PLACE_RETURN:
    return argument(f, f->func->n_args + s->index);
  case VTB_PLACE_WORKSPACE:
    return bytes_from(f, f->workspace, s->offset);
  case VTB_PLACE_CONSTANT:
    return constant(f, v);
  case VTB_PLACE_VIEW: {
    LLVMValueRef base = address(f, s->base);
    return is_splat_constant(f, v) ? base : bytes_from(f, base, s->view_offset * 4);
  }
  case VTB_PLACE_NONE:
    break;
  }
  vtb_bug("value %%%s of @%s has no place", v->name, f->func->name);
}

/* ---- kernels ---------------------------------------------------------------------------------------------- */

static vtb_cpu_kernel *new_kernel(vtb_host *h, int n_operands, int n_results) {
  vtb_cpu_kernel *k = VTB_NEW(&h->arena, vtb_cpu_kernel);
  int n = n_operands + n_results;
  k->n_operands = n_operands;
  k->n_results = n_results;
  k->types = VTB_NEW_ARRAY(&h->arena, const vtb_type *, n + 1);
  k->stride = vtb_arena_array(&h->arena, (size_t)n + 1, sizeof *k->stride);
  k->operand_temp = VTB_NEW_ARRAY(&h->arena, int64_t, n + 1);
  for (int i = 0; i < n; i++) k->operand_temp[i] = -1;
  return k;
}

static void list_ops(const vtb_inst *inst, vtb_strbuf *out) {
  if (inst->op != VTB_OP_fused) {
    vtb_strbuf_puts(out, vtb_op_get(inst->op)->name);
    return;
  }
  for (const vtb_inst *i = inst->callee->first; i; i = i->next) {
    if (i->op == VTB_OP_constant) continue;
    if (out->n) vtb_strbuf_putc(out, ' ');
    vtb_strbuf_puts(out, vtb_op_get(i->op)->name);
  }
}

static void describe_kernel(vtb_host *h, vtb_cpu_kernel *k, const vtb_inst *inst) {
  vtb_strbuf ops = {0};
  const char *kind = "copy";
  vtb_cost cost = {0};
  if (inst) {
    list_ops(inst, &ops);
    kind =
        inst->op == VTB_OP_fused ? vtb_attr_str(inst, "kind", "fused") : vtb_op_get(inst->op)->name;
    vtb_span_text(inst->span, k->origin, sizeof k->origin);
    if (inst->op == VTB_OP_fused && !k->origin[0] && inst->callee->first)
      vtb_span_text(inst->callee->first->span, k->origin, sizeof k->origin);
    if (inst->op == VTB_OP_fused)
      for (const vtb_inst *i = inst->callee->first; i; i = i->next)
        cost.flops += vtb_inst_cost(i, 1).flops;
    else
      cost = vtb_inst_cost(inst, 1);
  } else {
    vtb_strbuf_puts(&ops, "copy");
  }
  k->bytes = 0;
  for (int i = 0; i < k->n_operands + k->n_results;
       i++) { /* what is really stored: broadcast axes count once */
    double n = 4;
    for (int a = 0; a < k->types[i]->rank; a++)
      if (k->stride[i][a]) n *= (double)k->types[i]->dim[a].size;
    k->bytes += n;
  }
  k->flops = cost.flops;
  k->ops = vtb_arena_strdup(&h->arena, ops.at ? ops.at : "");
  k->name = vtb_arena_printf(&h->arena, "%s_%zu", kind, h->kernel_list.n);
  vtb_strbuf_free(&ops);
}

/* Structured ops address rows: their last axis must be contiguous, in operands that the plan made views. */
static void copy_in_operands(vtb_cpu *c, const vtb_inst *inst) {
  vtb_cpu_kernel *k = c->kernel;
  for (int i = 0; i < k->n_operands; i++) {
    const vtb_type *t = k->types[i];
    bool bad = false;
    for (int a = 0; a < t->rank; a++)
      bad |= a == t->rank - 1 && t->dim[a].size > 1 && k->stride[i][a] != 1;
    if (!bad) continue;
    int64_t temp = vtb_cpu_temp(c, vtb_type_count(t) * 4);
    vtb__cpu_copy_in(c, inst, i, temp);
    k->operand_temp[i] = temp;
    vtb__dense_strides(t, k->stride[i]);
  }
}

/* Finds or emits the kernel for `k`'s types and strides; `value` is what a copy (inst NULL) copies. */
static vtb_cpu_kernel *intern_kernel(vtb_host *h, vtb_cpu_kernel *k, const vtb_inst *inst,
                                     const vtb_value *value) {
  vtb_strbuf key = {0};
  vtb__kernel_key(inst, k, &key);
  vtb_cpu_kernel *known = vtb_map_get(&h->kernels, key.at);
  if (known) {
    vtb_strbuf_free(&key);
    return known;
  }
  k->key = vtb_arena_strdup(&h->arena, key.at);
  vtb_strbuf_free(&key);
  vtb_map_set(&h->kernels, k->key, k);
  describe_kernel(h, k, inst);
  vtb_vec_push(&h->kernel_list, k);
  h->cpu.kernel = k;
  if (!inst) {
    vtb__cpu_copy(&h->cpu, value);
  } else {
    bool structured =
        vtb_op_get(inst->op)->klass == VTB_CLASS_STRUCTURED && inst->op != VTB_OP_einsum;
    if (structured || vtb_is_scans(inst) || vtb_is_turned_attention(inst))
      copy_in_operands(&h->cpu, inst);
    emitters[inst->op](&h->cpu, inst);
  }
  h->cpu.kernel = NULL;
  return k;
}

static int kernel_number(vtb_host *h, const vtb_cpu_kernel *k) {
  for (size_t i = 0; i < h->kernel_list.n; i++)
    if (h->kernel_list.at[i] == k) return (int)i;
  vtb_bug("kernel %s is not listed", k->name);
}

static LLVMValueRef service(host_func *f, size_t offset) {
  LLVMValueRef at = bytes_from(f, f->services, (int64_t)offset);
  return LLVMBuildLoad2(f->b, f->h->cpu.ptr, at, "");
}

/* services->kernel_begin / kernel_end may be NULL. */
static void emit_timing(host_func *f, size_t offset, const vtb_cpu_kernel *k) {
  vtb_cpu *c = &f->h->cpu;
  LLVMTypeRef w = LLVMIntTypeInContext(c->ctx, sizeof(int) * 8);
  LLVMValueRef fn = service(f, offset);
  LLVMBasicBlockRef call = LLVMAppendBasicBlockInContext(c->ctx, f->fn, "timed");
  LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(c->ctx, f->fn, "untimed");
  LLVMBuildCondBr(f->b, LLVMBuildIsNotNull(f->b, fn, ""), call, after);
  LLVMPositionBuilderAtEnd(f->b, call);
  LLVMTypeRef type = LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr, w}, 2, 0);
  LLVMValueRef number = LLVMConstInt(w, (unsigned long long)kernel_number(f->h, k), 0);
  LLVMBuildCall2(f->b, type, fn, (LLVMValueRef[]){f->services, number}, 2, "");
  LLVMBuildBr(f->b, after);
  LLVMPositionBuilderAtEnd(f->b, after);
}

static void store_closure(host_func *f, int slot, LLVMValueRef v) {
  vtb_cpu *c = &f->h->cpu;
  LLVMValueRef at = LLVMBuildInBoundsGEP2(f->b, c->ptr, f->closure,
                                          (LLVMValueRef[]){vtb_cpu_i64(c, slot)}, 1, "");
  LLVMBuildStore(f->b, v, at);
}

/* A task that would be one piece anyway is called; else the services split it. */
static void emit_step(host_func *f, const vtb_cpu_step *s) {
  vtb_cpu *c = &f->h->cpu;
  LLVMValueRef n = vtb_cpu_i64(c, s->n);
  if (s->n <= s->grain) {
    LLVMValueRef args[] = {f->closure, vtb_cpu_i64(c, 0), n};
    LLVMBuildCall2(f->b, f->h->task_type, s->fn, args, 3, "");
    return;
  }
  LLVMTypeRef type =
      LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr, c->ptr, c->ptr, c->i64, c->i64}, 5, 0);
  LLVMValueRef args[] = {f->services, s->fn, f->closure, n, vtb_cpu_i64(c, s->grain)};
  LLVMBuildCall2(f->b, type, service(f, offsetof(vtb_services, parallel)), args, 5, "");
}

static void launch(host_func *f, vtb_cpu_kernel *k, LLVMValueRef *pointers) {
  int n = k->n_operands + k->n_results;
  vtb_check(n + 2 <= f->closure_slots, "closure of %s is too small", k->name);
  if (k->temp_bytes > f->tail_bytes) f->tail_bytes = k->temp_bytes;
  if (f->h->options->profile) emit_timing(f, offsetof(vtb_services, kernel_begin), k);
  store_closure(f, 0, f->services);
  for (int i = 0; i < n; i++) store_closure(f, 1 + i, pointers[i]);
  if (k->temp_bytes) store_closure(f, 1 + n, bytes_from(f, f->workspace, f->tail_base));
  for (size_t i = 0; i < k->steps.n; i++) emit_step(f, &k->steps.at[i]);
  if (f->h->options->profile) emit_timing(f, offsetof(vtb_services, kernel_end), k);
}

static void count_launch(host_func *f, vtb_cpu_kernel *k) {
  for (size_t i = 0; i < f->h->funcs.n; i++)
    if (f->h->funcs.at[i].func == f->func) k->launches += f->h->funcs.at[i].runs;
}

static void emit_kernel(host_func *f, const vtb_inst *inst) {
  vtb_host *h = f->h;
  vtb_cpu_kernel *k = new_kernel(h, inst->n_operands, inst->n_results);
  int n = inst->n_operands + inst->n_results;
  LLVMValueRef *pointers = vtb_xcalloc((size_t)n + 1, sizeof *pointers);
  for (int i = 0; i < n; i++) {
    const vtb_value *v =
        i < inst->n_operands ? inst->operands[i] : inst->results[i - inst->n_operands];
    k->types[i] = &v->type;
    strides_of(f, v, k->stride[i]);
    pointers[i] = address(f, v);
  }
  k = intern_kernel(h, k, inst, NULL);
  launch(f, k, pointers);
  count_launch(f, k);
  free(pointers);
}

/* A dense copy of `v`, whatever its strides, at `to`. */
static void emit_copy(host_func *f, const vtb_value *v, LLVMValueRef to) {
  vtb_cpu_kernel *k = new_kernel(f->h, 1, 1);
  k->types[0] = k->types[1] = &v->type;
  strides_of(f, v, k->stride[0]);
  vtb__dense_strides(&v->type, k->stride[1]);
  LLVMValueRef pointers[] = {address(f, v), to};
  k = intern_kernel(f->h, k, NULL, v);
  launch(f, k, pointers);
  count_launch(f, k);
}

/* ---- calls and returns ------------------------------------------------------------------------------------ */

static const vtb_host_func *find_func(vtb_host *h, const vtb_func *func) {
  for (size_t i = 0; i < h->funcs.n; i++)
    if (h->funcs.at[i].func == func) return &h->funcs.at[i];
  vtb_bug("@%s is not in the memory plan", func->name);
}

static bool needs_copy(host_func *f, const vtb_value *v) {
  int64_t stride[VTB_MAX_RANK];
  strides_of(f, v, stride);
  return !vtb__is_dense(&v->type, stride);
}

static int64_t padded_bytes(const vtb_type *t) { return (vtb_type_count(t) * 4 + 63) / 64 * 64; }

/* Addresses of the operands, those that are not dense copied first. */
static void dense_operands(host_func *f, const vtb_inst *inst, LLVMValueRef *pointers) {
  int64_t copied = 0;
  for (int i = 0; i < inst->n_operands; i++) {
    const vtb_value *v = inst->operands[i];
    if (needs_copy(f, v)) {
      pointers[i] = bytes_from(f, f->workspace, f->copy_base + copied);
      emit_copy(f, v, pointers[i]);
      copied += padded_bytes(&v->type);
    } else {
      pointers[i] = address(f, v);
    }
  }
}

static void emit_call(host_func *f, const vtb_inst *inst) {
  vtb_cpu *c = &f->h->cpu;
  const vtb_host_func *callee = find_func(f->h, inst->callee);
  int n = inst->n_operands + inst->n_results;
  LLVMValueRef *pointers = vtb_xcalloc((size_t)n + 1, sizeof *pointers);
  dense_operands(f, inst, pointers);
  for (int r = 0; r < inst->n_results; r++)
    pointers[inst->n_operands + r] = address(f, inst->results[r]);
  /* the closure's memory serves as the callee's argument array */
  for (int i = 0; i < n; i++) store_closure(f, i, pointers[i]);
  if (callee->total_bytes > f->tail_bytes) f->tail_bytes = callee->total_bytes;
  LLVMValueRef args[] = {f->closure, bytes_from(f, f->workspace, f->tail_base), f->services};
  LLVMBuildCall2(f->b, c->host->host_type, callee->fn, args, 3, "");
  free(pointers);
}

/* Returned values that were not computed in place: arguments, constants, views, and one value returned twice. */
static void emit_returns(host_func *f) {
  for (int r = 0; r < f->func->n_returns; r++) {
    const vtb_value *v = f->func->returns[r];
    const vtb_slot *s = slot_of(f, v), *base = slot_of(f, stored_value(f, v));
    bool in_place = base->place == VTB_PLACE_RETURN && base->index == r;
    if (in_place && (base == s || (s->view_offset == 0 && !needs_copy(f, v)))) continue;
    emit_copy(f, v, argument(f, f->func->n_args + r));
  }
  LLVMBuildRetVoid(f->b);
}

/* ---- folds -------------------------------------------------------------------------------------------------- */

/* A sequence [B, N, len] and its step [B, 1, len]: with one sample the step lies in the sequence, else it is copied to
 * or from `step`. */
typedef struct fold_part {
  LLVMValueRef sequence, step;
  int64_t batch, n, len;
} fold_part;

static int64_t take_tail(int64_t *used, int64_t bytes) {
  int64_t at = *used;
  *used += (bytes + 63) / 64 * 64;
  return at;
}

static fold_part fold_part_of(host_func *f, const vtb_value *v, LLVMValueRef sequence,
                              int64_t *tail) {
  const vtb_type *t = &v->type;
  fold_part p = {.sequence = sequence, .batch = t->dim[0].size, .n = t->dim[1].size};
  p.len = vtb_type_count(t) / (p.batch * p.n);
  if (p.batch > 1)
    p.step = bytes_from(f, f->workspace, f->tail_base + take_tail(tail, p.batch * p.len * 4));
  return p;
}

/* Copies the step at `pos` between the sequence and `step`, contiguous by sample. */
static void move_step(host_func *f, const fold_part *p, LLVMValueRef pos, LLVMValueRef step,
                      bool out) {
  vtb_cpu *c = &f->h->cpu;
  vtb_cpu_for b =
      vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, p->batch), vtb_cpu_i64(c, 1));
  LLVMValueRef row = vtb_cpu_add(c, vtb_cpu_mul(c, b.i, p->n), pos);
  LLVMValueRef all = vtb_cpu_at(c, p->sequence, vtb_cpu_mul(c, row, p->len));
  LLVMValueRef one = vtb_cpu_at(c, step, vtb_cpu_mul(c, b.i, p->len));
  LLVMBuildMemCpy(c->b, out ? all : one, 4, out ? one : all, 4, vtb_cpu_i64(c, p->len * 4));
  vtb_cpu_for_end(c, &b);
}

static LLVMValueRef step_pointer(host_func *f, const fold_part *p, LLVMValueRef pos) {
  return p->batch > 1 ? p->step
                      : vtb_cpu_at(&f->h->cpu, p->sequence, vtb_cpu_mul(&f->h->cpu, pos, p->len));
}

/* States go to and fro between two buffers, so that the last step writes the result. */
typedef struct fold_state {
  LLVMValueRef result, other;
  int64_t bytes;
} fold_state;

typedef struct fold_code {
  const vtb_inst *inst;
  const vtb_host_func *callee;
  vtb_fold p;
  int64_t n, tail;
  fold_state *states;
  fold_part *parts; /* sequences, yields, kept states */
  LLVMValueRef *operands;
  vtb__order order;
} fold_code;

static void emit_fold_step(host_func *f, const fold_code *k, LLVMValueRef t) {
  vtb_cpu *c = &f->h->cpu;
  const vtb_fold *p = &k->p;
  LLVMValueRef left = LLVMBuildSub(c->b, vtb_cpu_i64(c, k->n), t, "left");
  LLVMValueRef odd = LLVMBuildTrunc(c->b, left, c->i1, "odd");
  LLVMValueRef along = p->reverse ? LLVMBuildSub(c->b, left, vtb_cpu_i64(c, 1), "") : t;
  LLVMValueRef pos = vtb__order_at(c, &k->order, along);
  const fold_part *yields = k->parts + p->seqs, *kept = yields + p->yields;
  int slot = 0;
  for (int i = 0; i < p->states; i++) {
    const fold_state *s = &k->states[i];
    LLVMValueRef old = LLVMBuildSelect(c->b, odd, s->other, s->result, "");
    if (p->keep) move_step(f, &kept[i], pos, old, true);
    store_closure(f, slot++, old);
  }
  for (int i = 0; i < p->seqs; i++) {
    LLVMValueRef at = step_pointer(f, &k->parts[i], pos);
    if (k->parts[i].batch > 1) move_step(f, &k->parts[i], pos, at, false);
    store_closure(f, slot++, at);
  }
  for (int i = 0; i < p->consts; i++)
    store_closure(f, slot++, k->operands[p->states + p->seqs + i]);
  for (int i = 0; i < p->states; i++)
    store_closure(f, slot++,
                  LLVMBuildSelect(c->b, odd, k->states[i].result, k->states[i].other, ""));
  for (int i = 0; i < p->yields; i++) store_closure(f, slot++, step_pointer(f, &yields[i], pos));
  LLVMValueRef args[] = {f->closure, bytes_from(f, f->workspace, f->tail_base + k->tail),
                         f->services};
  LLVMBuildCall2(c->b, f->h->host_type, k->callee->fn, args, 3, "");
  for (int i = 0; i < p->yields; i++)
    if (yields[i].batch > 1) move_step(f, &yields[i], pos, yields[i].step, true);
}

static void fold_buffers(host_func *f, fold_code *k) {
  vtb_cpu *c = &f->h->cpu;
  const vtb_fold *p = &k->p;
  const vtb_inst *inst = k->inst;
  for (int i = 0; i < p->states; i++) {
    fold_state *s = &k->states[i];
    s->bytes = vtb_type_count(&inst->operands[i]->type) * 4;
    s->result = address(f, inst->results[p->yields + i]);
    s->other = bytes_from(f, f->workspace, f->tail_base + take_tail(&k->tail, s->bytes));
    LLVMBuildMemCpy(f->b, k->n % 2 ? s->other : s->result, 4, k->operands[i], 4,
                    vtb_cpu_i64(c, s->bytes));
  }
  int n = 0;
  for (int i = 0; i < p->seqs; i++) {
    int o = p->states + i;
    k->parts[n++] = fold_part_of(f, inst->operands[o], k->operands[o], &k->tail);
  }
  for (int i = 0; i < p->yields; i++)
    k->parts[n++] = fold_part_of(f, inst->results[i], address(f, inst->results[i]), &k->tail);
  for (int i = 0; p->keep && i < p->states; i++) {
    const vtb_value *v = inst->results[p->yields + p->states + i];
    k->parts[n++] = fold_part_of(f, v, address(f, v), &k->tail);
  }
}

static void emit_fold(host_func *f, const vtb_inst *inst) {
  vtb_cpu *c = &f->h->cpu;
  fold_code k = {.inst = inst, .callee = find_func(f->h, inst->callee), .p = vtb_fold_of(inst)};
  k.n = vtb_fold_steps(inst);
  k.states = vtb_xcalloc((size_t)k.p.states + 1, sizeof *k.states);
  k.parts = vtb_xcalloc((size_t)(inst->n_operands + inst->n_results) + 1, sizeof *k.parts);
  k.operands = vtb_xcalloc((size_t)inst->n_operands + 1, sizeof *k.operands);
  dense_operands(f, inst, k.operands);
  fold_buffers(f, &k);
  LLVMBuilderRef tasks = c->b; /* loops are built where c->b stands */
  c->b = f->b;
  k.order = vtb__order_make(c, k.p.path, k.n);
  vtb_cpu_for t = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, k.n), vtb_cpu_i64(c, 1));
  emit_fold_step(f, &k, t.i);
  vtb_cpu_for_end(c, &t);
  c->b = tasks;
  if (k.tail + k.callee->total_bytes > f->tail_bytes)
    f->tail_bytes = k.tail + k.callee->total_bytes;
  free(k.states);
  free(k.parts);
  free(k.operands);
}

static void size_closure(host_func *f) {
  f->closure_slots = 4;
  for (const vtb_inst *i = f->func->first; i; i = i->next) {
    int n = i->n_operands + i->n_results + 2;
    if (n > f->closure_slots) f->closure_slots = n;
    if (i->op != VTB_OP_call && i->op != VTB_OP_fold) continue;
    int64_t bytes = 0;
    for (int o = 0; o < i->n_operands; o++)
      if (needs_copy(f, i->operands[o])) bytes += padded_bytes(&i->operands[o]->type);
    if (bytes > f->copy_bytes) f->copy_bytes = bytes;
  }
}

/* ---- functions -------------------------------------------------------------------------------------------- */

static vtb_status emit_inst(host_func *f, const vtb_inst *i, vtb_error *err) {
  if (i->op == VTB_OP_constant) return VTB_OK; /* read where it is used */
  if (i->op == VTB_OP_call) {
    emit_call(f, i);
    return VTB_OK;
  }
  if (i->op == VTB_OP_fold) {
    emit_fold(f, i);
    return VTB_OK;
  }
  if (i->n_results == 1) {
    const vtb_slot *s = slot_of(f, i->results[0]);
    if (s->in_place || (s->place == VTB_PLACE_VIEW && vtb_op_get(i->op)->klass == VTB_CLASS_SHAPE))
      return VTB_OK;
  }
  if (!emitters[i->op])
    return vtb_fail(err, VTB_E_INTERNAL, "op %s reached code generation in @%s",
                    vtb_op_get(i->op)->name, f->func->name);
  bool empty = i->n_results > 0;
  for (int r = 0; r < i->n_results; r++) empty &= vtb_type_count(&i->results[r]->type) == 0;
  if (!empty) emit_kernel(f, i);
  return VTB_OK;
}

static vtb_status emit_func(vtb_host *h, vtb_host_func *out, bool is_entry, vtb_error *err) {
  vtb_cpu *c = &h->cpu;
  host_func f = {
      .h = h, .func = (vtb_func *)out->func, .frame = vtb_plan_frame(&h->plan, out->func)};
  vtb_strbuf name = {0};
  vtb_strbuf_printf(&name, "host.%s", out->func->name);
  f.fn = LLVMAddFunction(c->module, is_entry ? "vtb_entry" : name.at, h->host_type);
  vtb_strbuf_free(&name);
  if (!is_entry) LLVMSetLinkage(f.fn, LLVMInternalLinkage);
  unsigned noinline = LLVMGetEnumAttributeKindForName("noinline", 8);
  LLVMAddAttributeAtIndex(f.fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(c->ctx, noinline, 0));
  f.args = LLVMGetParam(f.fn, 0);
  f.workspace = LLVMGetParam(f.fn, 1);
  f.services = LLVMGetParam(f.fn, 2);
  f.b = LLVMCreateBuilderInContext(c->ctx);
  LLVMPositionBuilderAtEnd(f.b, LLVMAppendBasicBlockInContext(c->ctx, f.fn, "entry"));
  f.constants = vtb_xcalloc((size_t)out->func->n_values + 1, sizeof(LLVMValueRef));
  size_closure(&f);
  f.closure = LLVMBuildAlloca(f.b, LLVMArrayType2(c->ptr, (uint64_t)f.closure_slots), "closure");
  f.copy_base = (f.frame->bytes + 63) / 64 * 64;
  f.tail_base = f.copy_base + f.copy_bytes;
  vtb_status status = VTB_OK;
  for (const vtb_inst *i = out->func->first; i && status == VTB_OK; i = i->next)
    status = emit_inst(&f, i, err);
  emit_returns(&f);
  out->fn = f.fn;
  out->total_bytes = f.tail_base + (f.tail_bytes + 63) / 64 * 64;
  LLVMDisposeBuilder(f.b);
  free(f.constants);
  return status;
}

/* How often each function runs in one run of the entry: callers are later in post order. */
static void count_runs(vtb_host *h) {
  for (size_t i = h->funcs.n; i-- > 0;) {
    vtb_host_func *caller = &h->funcs.at[i];
    if (i + 1 == h->funcs.n) caller->runs = 1;
    for (const vtb_inst *k = caller->func->first; k; k = k->next)
      for (size_t j = 0; (k->op == VTB_OP_call || k->op == VTB_OP_fold) && j < h->funcs.n; j++)
        if (h->funcs.at[j].func == k->callee)
          h->funcs.at[j].runs += caller->runs * (k->op == VTB_OP_fold ? (int)vtb_fold_steps(k) : 1);
  }
}

vtb_status vtb__host_build(vtb_host *h, vtb_func *entry, vtb_error *err) {
  vtb_status status = vtb_plan_memory(h->ir, entry, &h->plan, err);
  if (status != VTB_OK) return status;
  for (size_t i = 0; i < h->plan.n_funcs; i++)
    vtb_vec_push(&h->funcs, ((vtb_host_func){.func = h->plan.funcs[i]}));
  count_runs(h);
  for (size_t i = 0; i < h->funcs.n && status == VTB_OK; i++)
    status = emit_func(h, &h->funcs.at[i], h->funcs.at[i].func == entry, err);
  return status;
}

void vtb__host_init(vtb_host *h, vtb_module *m, const vtb_codegen_options *o, int width) {
  *h = (vtb_host){.options = o, .ir = m};
  vtb_arena_init(&h->arena);
  vtb_cpu *c = &h->cpu;
  *c = (vtb_cpu){.ctx = LLVMContextCreate(), .width = width, .host = h};
  c->module = LLVMModuleCreateWithNameInContext(m->name ? m->name : "vertebra", c->ctx);
  c->b = LLVMCreateBuilderInContext(c->ctx);
  c->f32 = LLVMFloatTypeInContext(c->ctx);
  c->i1 = LLVMInt1TypeInContext(c->ctx);
  c->i8 = LLVMInt8TypeInContext(c->ctx);
  c->i32 = LLVMInt32TypeInContext(c->ctx);
  c->i64 = LLVMInt64TypeInContext(c->ctx);
  c->ptr = LLVMPointerTypeInContext(c->ctx, 0);
  c->void_type = LLVMVoidTypeInContext(c->ctx);
  c->vf32 = LLVMVectorType(c->f32, (unsigned)width);
  c->vi32 = LLVMVectorType(c->i32, (unsigned)width);
  h->task_type = LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr, c->i64, c->i64}, 3, 0);
  h->host_type = LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr, c->ptr, c->ptr}, 3, 0);
}

void vtb__host_free(vtb_host *h) {
  LLVMDisposeBuilder(h->cpu.b);
  if (h->cpu.module) LLVMDisposeModule(h->cpu.module);
  if (h->cpu.ctx) LLVMContextDispose(h->cpu.ctx);
  for (size_t i = 0; i < h->kernel_list.n; i++) vtb_vec_free(&h->kernel_list.at[i]->steps);
  vtb_vec_free(&h->kernel_list);
  vtb_vec_free(&h->tables);
  vtb_vec_free(&h->funcs);
  vtb_map_free(&h->kernels);
  vtb_plan_free(&h->plan);
  vtb_arena_free(&h->arena);
}
