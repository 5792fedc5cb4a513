/* Shape rules of attention; ir/attention.h has the meaning of the operands. */
#include "ir/attention.h"
#include "ir/ops.h"
#include "ir/path.h"
#include "ir/internal.h"
#include "ir/kernels.h"

bool vtb_is_turned_attention(const vtb_inst *inst) {
  return vtb_kernel_kind_of(inst) == VTB_KERNEL_ATTENTION;
}

const vtb_inst *vtb_turned_attention(const vtb_inst *fused) {
  for (const vtb_inst *i = fused->callee->first; i; i = i->next)
    if (i->op == VTB_OP_attention || i->op == VTB_OP_attention_grad) return i;
  vtb_bug("no attention in @%s", fused->callee->name);
}

/* The source of v, up to an argument or a result of `attention`: what turns it reads rows first. */
static const vtb_value *source_of(const vtb_value *v, const vtb_inst *attention) {
  while (v->def && v->def != attention) v = v->def->operands[0];
  return v;
}

/* first = even c - odd s */
static vtb_turn turn_of(const vtb_value *v) {
  while (v->def && v->def->op != VTB_OP_sub) v = v->def->operands[0];
  if (!v->def) return (vtb_turn){0};
  const vtb_value *cosines = source_of(v->def->operands[0]->def->operands[1], NULL),
                  *sines = source_of(v->def->operands[1]->def->operands[1], NULL);
  return (vtb_turn){cosines->index, sines->index, 2 * cosines->type.dim[2].size};
}

/* Numbers of a kernel's tensors in the place of those of its attention. */
static void renumber(vtb_attention *a, const vtb_inst *fused, const vtb_inst *attention) {
  int *const numbers[] = {&a->q, &a->k, &a->v, &a->bias, &a->y, &a->lse, &a->dy, &a->dlse};
  for (int o = 0; o < 2; o++) a->turn[o] = turn_of(attention->operands[o]);
  for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
    if (*numbers[n] >= 0)
      *numbers[n] = source_of(attention->operands[*numbers[n]], attention)->index;
  for (int r = 0; r < fused->n_results; r++)
    a->result[source_of(fused->callee->returns[r], attention)->index] = fused->n_operands + r;
}

vtb_attention vtb_attention_of(const vtb_inst *whole) {
  const vtb_inst *inst = whole->op == VTB_OP_fused ? vtb_turned_attention(whole) : whole;
  const vtb_type *q = &inst->operands[0]->type, *k = &inst->operands[1]->type,
                 *v = &inst->operands[2]->type;
  vtb_attention a = {.q = 0,
                     .k = 1,
                     .v = 2,
                     .bias = -1,
                     .y = -1,
                     .lse = -1,
                     .dy = -1,
                     .dlse = -1,
                     .bias_batch = 1,
                     .bias_heads = 1};
  a.n_batch = q->dim[0].size, a.n_queries = q->dim[1].size, a.n_heads = q->dim[2].size,
  a.width = q->dim[3].size;
  a.n_keys = k->dim[1].size, a.kv_heads = k->dim[2].size, a.value_width = v->dim[3].size;
  a.scale = vtb_attr_float(inst, "scale", 1);
  a.causal = vtb_attr_int(inst, "causal", 0) != 0;
  bool grad = inst->op == VTB_OP_attention_grad;
  int n = 3;
  if (grad ? vtb_attr_int(inst, "bias", 0) != 0 : inst->n_operands > 3) a.bias = n++;
  if (grad) {
    a.y = n++, a.lse = n++, a.dy = n++;
    if (vtb_attr_int(inst, "dlse", 0)) a.dlse = n++;
    a.wants_dbias = vtb_attr_int(inst, "dbias", 0) != 0;
  }
  const vtb_type none = {0}, *t = a.bias < 0 ? &none : &inst->operands[a.bias]->type;
  for (int r = 0; r < inst->n_results; r++) a.result[r] = inst->n_operands + r;
  if (whole != inst) renumber(&a, whole, inst);
  if (t->rank >= 3) a.bias_heads = t->dim[t->rank - 3].size;
  if (t->rank == 4) a.bias_batch = t->dim[0].size;
  return a;
}

static const char *name_of(const vtb__shape *s) { return vtb_op_get(s->inst->op)->name; }

static bool expect(vtb__shape *s, int operand, const char *what, const vtb_dim *dims, int rank) {
  vtb_type want = {.dtype = VTB_F32, .rank = rank};
  for (int i = 0; i < rank; i++) want.dim[i] = dims[i];
  if (vtb_type_equal(&want, vtb__shape_operand(s, operand))) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_ATTENTION, "%s: %s is %s, not %s", name_of(s), what,
                         vtb__shape_text(s, vtb__shape_operand(s, operand)),
                         vtb__shape_text(s, &want));
}

static bool check_bias(vtb__shape *s, int operand) {
  const vtb_type *q = vtb__shape_operand(s, 0), *k = vtb__shape_operand(s, 1),
                 *t = vtb__shape_operand(s, operand);
  int r = t->rank;
  bool good = r >= 2 && r <= 4 && t->dim[r - 1].size == k->dim[1].size &&
              t->dim[r - 2].size == q->dim[1].size;
  if (good && r >= 3) good = t->dim[r - 3].size > 0 && q->dim[2].size % t->dim[r - 3].size == 0;
  if (good && r == 4) good = t->dim[0].size == 1 || t->dim[0].size == q->dim[0].size;
  return good ||
         vtb__shape_fail(
             s, VTB_DIAG_IR_ATTENTION,
             "%s: the bias is %s; want [N, M], [a, N, M] or [B, a, N, M] with %lld queries, %lld "
             "keys and a that divides %lld heads",
             name_of(s), vtb__shape_text(s, t), (long long)q->dim[1].size,
             (long long)k->dim[1].size, (long long)q->dim[2].size);
}

/* q, k, v, [bias]; *n is how many operands they are. */
static bool check_operands(vtb__shape *s, bool bias, int *n) {
  const vtb_type *q = vtb__shape_operand(s, 0), *k = vtb__shape_operand(s, 1),
                 *v = vtb__shape_operand(s, 2);
  if (!vtb__shape_f32(s)) return false;
  bool good = q->rank == 4 && k->rank == 4 && v->rank == 4;
  for (int i = 1; good && i < 4; i++)
    good = q->dim[i].size >= 1 && k->dim[i].size >= 1 &&
           v->dim[i].size >= 1; /* the batch alone may be symbolic */
  if (good)
    good = q->dim[0].size == k->dim[0].size && q->dim[0].size == v->dim[0].size &&
           k->dim[1].size == v->dim[1].size && k->dim[2].size == v->dim[2].size &&
           q->dim[2].size % k->dim[2].size == 0 && q->dim[3].size == k->dim[3].size;
  if (!good)
    return vtb__shape_fail(
        s, VTB_DIAG_IR_ATTENTION,
        "%s: q is %s, k is %s and v is %s; want [B, N, h, K], [B, M, g, K] and [B, M, g, V] with g "
        "that divides h",
        name_of(s), vtb__shape_text(s, q), vtb__shape_text(s, k), vtb__shape_text(s, v));
  *n = 3 + bias;
  return !bias || check_bias(s, 3);
}

static vtb_type like_queries(const vtb__shape *s, int rank, vtb_dim last) {
  vtb_type t = *vtb__shape_operand(s, 0);
  t.rank = rank;
  if (rank == 4) t.dim[3] = last;
  return t;
}

static bool windows_fit(vtb__shape *s) {
  const char *text = vtb_attr_str(s->inst, "windows", NULL);
  vtb_windows w;
  vtb_error err = {0};
  if (!text) return true;
  if (vtb_windows_parse(text, &w, &err))
    return vtb__shape_fail(s, VTB_DIAG_IR_PATH, "attention: %s", err.text);
  if (vtb_grid_cells(&w.window) == vtb__shape_operand(s, 0)->dim[1].size) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_PATH, "attention: windows %s of %s", text,
                         vtb__shape_text(s, vtb__shape_operand(s, 0)));
}

bool vtb__shape_attention(vtb__shape *s) {
  int n;
  if (!check_operands(s, s->inst->n_operands == 4, &n) || !windows_fit(s)) return false;
  vtb__shape_push(s, like_queries(s, 4, vtb__shape_operand(s, 2)->dim[3]));
  vtb__shape_push(s, like_queries(s, 3, (vtb_dim){0}));
  return true;
}

bool vtb__shape_attention_grad(vtb__shape *s) {
  bool bias = vtb_attr_int(s->inst, "bias", 0) != 0, dbias = vtb_attr_int(s->inst, "dbias", 0) != 0;
  bool dlse = vtb_attr_int(s->inst, "dlse", 0) != 0;
  int n, want = 6 + bias + dlse;
  if (s->inst->n_operands != want)
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTENTION, "%s: %d operands, want %d", name_of(s),
                           s->inst->n_operands, want);
  if (dbias && !bias)
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s: dbias needs a bias", name_of(s));
  if (!check_operands(s, bias, &n)) return false;
  vtb_type y = like_queries(s, 4, vtb__shape_operand(s, 2)->dim[3]);
  if (!expect(s, n, "y", y.dim, 4) || !expect(s, n + 1, "lse", y.dim, 3) ||
      !expect(s, n + 2, "dy", y.dim, 4))
    return false;
  if (dlse && !expect(s, n + 3, "dlse", y.dim, 3)) return false;
  for (int i = 0; i < 3 + dbias; i++) vtb__shape_push(s, *vtb__shape_operand(s, i));
  return true;
}
