/* verdict and update (ir/update.h): tasks over pieces of tensors.
 *
 * Which thread takes a piece changes nothing: a piece writes its own elements and its own partial
 * sums, and these are added in the order of the pieces, in eight running sums of double that are
 * added pairwise. Products and sums are not contracted. An update may be in place: every element is
 * read before it is written, by the phase that writes it.
 */
#include "codegen/body/rule.h"
#include "ir/ops.h"
#include "codegen/cpu/host/host.h"

#include <string.h>

/* A row of the table: tensor, begin, count, the tensor's first piece and how many it has. */
enum { SUM_LANES = 8, ROW = 5 };

typedef struct piece_task {
  vtb_cpu *c;
  vtb_cpu_task *t;
  LLVMTypeRef f64;
  LLVMValueRef row[ROW]; /* i64 */
} piece_task;

/* ---- pieces ---------------------------------------------------------------------------------- */

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

static LLVMValueRef table_of(vtb_cpu *c, vtb_value *const *tensors, int n, int *n_pieces) {
  vtb_piece *pieces;
  int *first = vtb_xcalloc((size_t)n + 1, sizeof *first);
  *n_pieces = vtb_cut_pieces(tensors, n, &pieces, first);
  int32_t *rows = vtb_xcalloc((size_t)*n_pieces * ROW + 1, sizeof *rows);
  for (int i = 0; i < *n_pieces; i++) {
    const vtb_piece *p = &pieces[i];
    const int32_t row[ROW] = {p->tensor, (int32_t)p->begin, (int32_t)p->count, first[p->tensor],
                              first[p->tensor + 1] - first[p->tensor]};
    memcpy(&rows[i * ROW], row, sizeof row);
  }
  LLVMValueRef table = vtb_cpu_const_i32(c, rows, (size_t)*n_pieces * ROW);
  vtb_free(rows), vtb_free(first), vtb_free(pieces);
  return table;
}

static piece_task open_pieces(vtb_cpu *c, const vtb_inst *inst, const char *kind,
                              LLVMValueRef table, int n) {
  piece_task p = {.c = c, .f64 = LLVMDoubleTypeInContext(c->ctx)};
  p.t = vtb_cpu_task_begin(c, inst, kind, n, 1);
  for (int i = 0; i < ROW; i++) {
    LLVMValueRef at = vtb_cpu_add(c, vtb_cpu_mul(c, p.t->index, ROW), k_(c, i));
    p.row[i] = LLVMBuildSExt(c->b, vtb_cpu_load_i32(c, vtb_cpu_at(c, table, at)), c->i64, "");
  }
  return p;
}

/* Operand or result `first` + the piece's tensor, at the piece's beginning. */
static LLVMValueRef piece_of(const piece_task *p, int first) {
  vtb_cpu *c = p->c;
  LLVMValueRef slot = vtb_cpu_add(c, p->row[0], k_(c, 1 + first));
  LLVMValueRef at = LLVMBuildInBoundsGEP2(c->b, c->ptr, p->t->closure, &slot, 1, "");
  return vtb_cpu_at(c, LLVMBuildLoad2(c->b, c->ptr, at, ""), p->row[1]);
}

/* ---- numbers in double ----------------------------------------------------------------------- */

static LLVMValueRef d_(const piece_task *p, double v) { return LLVMConstReal(p->f64, v); }

static LLVMValueRef widen(const piece_task *p, LLVMValueRef x) {
  return LLVMBuildFPExt(p->c->b, x, p->f64, "");
}

static LLVMValueRef load_double(const piece_task *p, LLVMValueRef ptr, LLVMValueRef at) {
  return widen(p, vtb_cpu_load(p->c, vtb_cpu_at(p->c, ptr, at), 1));
}

/* Row of the scalars: the sum of its two numbers. */
static LLVMValueRef scalar_row(const piece_task *p, int row) {
  LLVMValueRef ptr = p->t->t[0].ptr;
  return LLVMBuildFAdd(p->c->b, load_double(p, ptr, k_(p->c, 2 * row)),
                       load_double(p, ptr, k_(p->c, 2 * row + 1)), "");
}

static LLVMValueRef part_at(const piece_task *p, LLVMValueRef parts, LLVMValueRef piece, int n_sums,
                            int sum) {
  LLVMValueRef at = vtb_cpu_add(p->c, vtb_cpu_mul(p->c, piece, n_sums), k_(p->c, sum));
  return LLVMBuildInBoundsGEP2(p->c->b, p->f64, parts, &at, 1, "");
}

/* The sum of the parts of pieces [from, to). */
static LLVMValueRef add_parts(const piece_task *p, LLVMValueRef parts, LLVMValueRef from,
                              LLVMValueRef to, int n_sums, int sum) {
  vtb_cpu *c = p->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, from, to, k_(c, 1));
  LLVMValueRef before = vtb_cpu_carry(c, &l, d_(p, 0));
  LLVMValueRef part = LLVMBuildLoad2(c->b, p->f64, part_at(p, parts, l.i, n_sums, sum), "");
  vtb_cpu_carry_next(&l, 0, LLVMBuildFAdd(c->b, before, part, ""));
  vtb_cpu_for_end(c, &l);
  return vtb_cpu_carried(&l, 0);
}

/* Eight lanes: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)). */
static LLVMValueRef add_lanes(const piece_task *p, LLVMValueRef v) {
  LLVMValueRef lane[SUM_LANES];
  for (int i = 0; i < SUM_LANES; i++)
    lane[i] = LLVMBuildExtractElement(p->c->b, v, k_(p->c, i), "");
  for (int n = SUM_LANES; n > 1; n /= 2)
    for (int i = 0; i < n / 2; i++)
      lane[i] = LLVMBuildFAdd(p->c->b, lane[2 * i], lane[2 * i + 1], "");
  return lane[0];
}

/* |x| < infinity */
static LLVMValueRef is_finite(const piece_task *p, LLVMValueRef x) {
  LLVMValueRef size = vtb_cpu_intrinsic(p->c, "llvm.fabs", &x, 1);
  return LLVMBuildFCmp(p->c->b, LLVMRealOLT, size, d_(p, __builtin_inf()), "");
}

/* ---- loops over a piece ---------------------------------------------------------------------- */

typedef void (*lanes_fn)(const piece_task *p, LLVMValueRef at, LLVMValueRef mask, int lanes,
                         LLVMValueRef *carry, void *user);

/* body(at, mask) over the piece in whole vectors, then once under a mask. carry: n values handed
 * on. */
static void over_piece(const piece_task *p, int lanes, LLVMValueRef *carry, int n, lanes_fn body,
                       void *user) {
  vtb_cpu *c = p->c;
  LLVMValueRef now[VTB_CPU_MAX_CARRY], count = p->row[2];
  LLVMValueRef rest = vtb_cpu_rem(c, count, lanes), whole = LLVMBuildNSWSub(c->b, count, rest, "");
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), whole, k_(c, lanes));
  for (int i = 0; i < n; i++) now[i] = vtb_cpu_carry(c, &l, carry[i]);
  body(p, l.i, NULL, lanes, now, user);
  for (int i = 0; i < n; i++) vtb_cpu_carry_next(&l, i, now[i]);
  vtb_cpu_for_end(c, &l);
  for (int i = 0; i < n; i++) carry[i] = vtb_cpu_carried(&l, i);
  vtb_cpu_for tail = vtb_cpu_for_begin(c, whole, count, k_(c, lanes));
  for (int i = 0; i < n; i++) now[i] = vtb_cpu_carry(c, &tail, carry[i]);
  body(p, tail.i, vtb_cpu_mask(c, rest, lanes), lanes, now, user);
  for (int i = 0; i < n; i++) vtb_cpu_carry_next(&tail, i, now[i]);
  vtb_cpu_for_end(c, &tail);
  for (int i = 0; i < n; i++) carry[i] = vtb_cpu_carried(&tail, i);
}

static LLVMValueRef load_lanes(const piece_task *p, LLVMValueRef ptr, LLVMValueRef at,
                               LLVMValueRef mask, int lanes) {
  ptr = vtb_cpu_at(p->c, ptr, at);
  return mask ? vtb_cpu_load_masked(p->c, ptr, mask, lanes) : vtb_cpu_load(p->c, ptr, lanes);
}

static LLVMValueRef zero_lanes(const piece_task *p) {
  return LLVMConstNull(LLVMVectorType(p->f64, SUM_LANES));
}

/* sum + x in double; lanes behind the mask count as 0. */
static LLVMValueRef accumulate(const piece_task *p, LLVMValueRef sum, LLVMValueRef x) {
  LLVMValueRef wide = LLVMBuildFPExt(p->c->b, x, LLVMTypeOf(sum), "");
  return LLVMBuildFAdd(p->c->b, sum, wide, "");
}

/* ---- verdict --------------------------------------------------------------------------------- */

static void add_squares(const piece_task *p, LLVMValueRef at, LLVMValueRef mask, int lanes,
                        LLVMValueRef *carry, void *user) {
  LLVMValueRef x = load_lanes(p, user, at, mask, lanes);
  x = LLVMBuildFPExt(p->c->b, x, LLVMTypeOf(carry[0]), "");
  carry[0] = LLVMBuildFAdd(p->c->b, carry[0], LLVMBuildFMul(p->c->b, x, x, ""), "");
}

/* The tensor of the first piece whose part is not finite, -1 if there is none, as a float. */
static LLVMValueRef culprit(const piece_task *p, LLVMValueRef table, LLVMValueRef parts, int n) {
  vtb_cpu *c = p->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, n), k_(c, 1));
  LLVMValueRef none = LLVMConstInt(c->i32, (unsigned long long)-1, 1);
  LLVMValueRef found = vtb_cpu_carry(c, &l, none);
  LLVMValueRef part = LLVMBuildLoad2(c->b, p->f64, part_at(p, parts, l.i, 1, 0), "");
  LLVMValueRef tensor = vtb_cpu_load_i32(c, vtb_cpu_at(c, table, vtb_cpu_mul(c, l.i, ROW)));
  LLVMValueRef first = LLVMBuildAnd(c->b, LLVMBuildICmp(c->b, LLVMIntEQ, found, none, ""),
                                    LLVMBuildNot(c->b, is_finite(p, part), ""), "");
  vtb_cpu_carry_next(&l, 0, LLVMBuildSelect(c->b, first, tensor, found, ""));
  vtb_cpu_for_end(c, &l);
  return LLVMBuildSIToFP(c->b, vtb_cpu_carried(&l, 0), c->f32, "");
}

/* min(1, clip / (norm + 1e-6)) / scale */
static LLVMValueRef factor_of(const piece_task *p, LLVMValueRef norm, LLVMValueRef scale) {
  LLVMBuilderRef b = p->c->b;
  LLVMValueRef clip = scalar_row(p, VTB_SCALAR_CLIP), one = d_(p, 1);
  LLVMValueRef ratio = LLVMBuildFDiv(b, clip, LLVMBuildFAdd(b, norm, d_(p, 1e-6), ""), "");
  LLVMValueRef small = LLVMBuildFCmp(b, LLVMRealOLT, ratio, one, "");
  LLVMValueRef bound = LLVMBuildFCmp(b, LLVMRealOGT, clip, d_(p, 0), "");
  LLVMValueRef cut = LLVMBuildSelect(b, LLVMBuildAnd(b, bound, small, ""), ratio, one, "");
  return LLVMBuildFDiv(b, cut, scale, "");
}

static void emit_decision(vtb_cpu *c, const vtb_inst *inst, LLVMValueRef table, int n,
                          int64_t temp) {
  piece_task p = {.c = c, .f64 = LLVMDoubleTypeInContext(c->ctx)};
  p.t = vtb_cpu_task_begin(c, inst, "decide", 1, 1);
  LLVMValueRef parts = vtb_cpu_temp_ptr(c, p.t, temp), out = p.t->t[inst->n_operands].ptr;
  LLVMValueRef sum = add_parts(&p, parts, k_(c, 0), k_(c, n), 1, 0);
  LLVMValueRef scale = scalar_row(&p, VTB_SCALAR_SCALE);
  LLVMValueRef norm = LLVMBuildFDiv(c->b, vtb_cpu_intrinsic(c, "llvm.sqrt", &sum, 1), scale, "");
  LLVMValueRef loss = load_double(&p, p.t->t[1].ptr, k_(c, 0));
  LLVMValueRef counts = LLVMBuildAnd(c->b, is_finite(&p, norm), is_finite(&p, loss), "");
  LLVMValueRef results[VTB_N_VERDICT] = {
      [VTB_VERDICT_FACTOR] = LLVMBuildFPTrunc(c->b, factor_of(&p, norm, scale), c->f32, ""),
      [VTB_VERDICT_COUNTS] = LLVMBuildUIToFP(c->b, counts, c->f32, ""),
      [VTB_VERDICT_NORM] = LLVMBuildFPTrunc(c->b, norm, c->f32, ""),
      [VTB_VERDICT_CULPRIT] = culprit(&p, table, parts, n)};
  for (int i = 0; i < VTB_N_VERDICT; i++)
    vtb_cpu_store(c, results[i], vtb_cpu_at(c, out, k_(c, i)));
  vtb_cpu_task_end(c, p.t);
}

void vtb__cpu_verdict(vtb_cpu *c, const vtb_inst *inst) {
  int n;
  LLVMValueRef table = table_of(c, inst->operands + 2, inst->n_operands - 2, &n);
  int64_t temp = vtb_cpu_temp(c, n * (int64_t)sizeof(double));
  piece_task p = open_pieces(c, inst, "norm", table, n);
  LLVMValueRef sum = zero_lanes(&p), parts = vtb_cpu_temp_ptr(c, p.t, temp);
  over_piece(&p, SUM_LANES, &sum, 1, add_squares, piece_of(&p, 2));
  LLVMBuildStore(c->b, add_lanes(&p, sum), part_at(&p, parts, p.t->index, 1, 0));
  vtb_cpu_task_end(c, p.t);
  emit_decision(c, inst, table, n, temp);
}

/* ---- rules ----------------------------------------------------------------------------------- */

typedef struct phase {
  vtb_rule *r;
  const vtb_inst *inst;
  piece_task p;
  int number, n_adds;
  LLVMValueRef parts;
  LLVMValueRef *value;  /* by value id: what has no axis, in double; in a loop: vectors */
  LLVMValueRef *ptr;    /* of the vector arguments, by number */
  LLVMValueRef *result; /* of the results */
} phase;

static LLVMValueRef truth(phase *h, LLVMRealPredicate k, LLVMValueRef *a) {
  LLVMBuilderRef b = h->p.c->b;
  return LLVMBuildUIToFP(b, LLVMBuildFCmp(b, k, a[0], a[1], ""), h->p.f64, "");
}

static LLVMValueRef choose(phase *h, LLVMValueRef cond, LLVMValueRef x, LLVMValueRef y) {
  LLVMBuilderRef b = h->p.c->b;
  LLVMValueRef yes = LLVMBuildFCmp(b, LLVMRealUNE, cond, LLVMConstNull(LLVMTypeOf(cond)), "");
  return LLVMBuildSelect(b, yes, x, y, "");
}

/* Ops whose name LLVM has for double too. */
static const char *const intrinsics[VTB_OP_COUNT] = {
    [VTB_OP_abs] = "llvm.fabs",  [VTB_OP_exp] = "llvm.exp",     [VTB_OP_log] = "llvm.log",
    [VTB_OP_sqrt] = "llvm.sqrt", [VTB_OP_floor] = "llvm.floor", [VTB_OP_pow] = "llvm.pow"};

/* In double; what is no arithmetic is computed in float. */
static LLVMValueRef number_op(phase *h, const vtb_inst *i, LLVMValueRef *a) {
  vtb_cpu *c = h->p.c;
  LLVMBuilderRef b = c->b;
  if (intrinsics[i->op]) return vtb_cpu_intrinsic(c, intrinsics[i->op], a, i->n_operands);
  switch (i->op) {
  case VTB_OP_neg:
    return LLVMBuildFNeg(b, a[0], "");
  case VTB_OP_square:
    return LLVMBuildFMul(b, a[0], a[0], "");
  case VTB_OP_rsqrt:
    return LLVMBuildFDiv(b, d_(&h->p, 1), vtb_cpu_intrinsic(c, "llvm.sqrt", a, 1), "");
  case VTB_OP_add:
    return LLVMBuildFAdd(b, a[0], a[1], "");
  case VTB_OP_sub:
    return LLVMBuildFSub(b, a[0], a[1], "");
  case VTB_OP_mul:
    return LLVMBuildFMul(b, a[0], a[1], "");
  case VTB_OP_div:
    return LLVMBuildFDiv(b, a[0], a[1], "");
  case VTB_OP_max:
    return vtb_cpu_fmax(c, a[0], a[1]);
  case VTB_OP_min:
    return vtb_cpu_fmin(c, a[0], a[1]);
  case VTB_OP_gt:
    return truth(h, LLVMRealOGT, a);
  case VTB_OP_ge:
    return truth(h, LLVMRealOGE, a);
  case VTB_OP_eq:
    return truth(h, LLVMRealOEQ, a);
  case VTB_OP_select:
    return choose(h, a[0], a[1], a[2]);
  case VTB_OP_broadcast:
    return a[0];
  default:
    for (int k = 0; k < i->n_operands; k++) a[k] = LLVMBuildFPTrunc(b, a[k], c->f32, "");
    return widen(&h->p, vtb_cpu_scalar_op(c, i->op, a));
  }
}

static bool is_number(const vtb_inst *i) {
  return !vtb_rule_is_vector(i->results[0]) || i->op == VTB_OP_constant;
}

/* The rule's scalars that are wanted: from the verdict, the tensor's rates, the scalars. */
static void bind_numbers(phase *h) {
  vtb_cpu *c = h->p.c;
  vtb_value **lead = h->r->func->args + h->r->n_vectors;
  LLVMValueRef rate = vtb_cpu_mul(c, h->p.row[0], 2);
  const struct {
    int operand;
    LLVMValueRef at;
  } from[VTB_RULE_LEAD] = {
      {2, k_(c, VTB_VERDICT_FACTOR)}, {1, rate}, {1, vtb_cpu_add(c, rate, k_(c, 1))}};
  for (int i = 0; i < VTB_RULE_LEAD + h->r->u.scalars; i++) {
    if (!h->r->needed[lead[i]->id]) continue;
    h->value[lead[i]->id] = i < VTB_RULE_LEAD
                                ? load_double(&h->p, h->p.t->t[from[i].operand].ptr, from[i].at)
                                : scalar_row(&h->p, i - VTB_RULE_LEAD);
  }
}

static void compute_numbers(phase *h) {
  for (const vtb_inst *i = h->r->func->first; i; i = i->next) {
    const vtb_value *v = i->results[0];
    LLVMValueRef a[3];
    if (!h->r->needed[v->id] || !is_number(i)) continue;
    if (i->op == VTB_OP_constant) {
      h->value[v->id] = d_(&h->p, vtb_attr_float(i, "value", 0));
    } else if (i->op == VTB_OP_reduce_sum) {
      LLVMValueRef from = h->p.row[3], to = vtb_cpu_add(h->p.c, from, h->p.row[4]);
      h->value[v->id] = add_parts(&h->p, h->parts, from, to, h->r->n_sums, h->r->sum[v->id]);
    } else {
      for (int k = 0; k < i->n_operands; k++) a[k] = h->value[i->operands[k]->id];
      h->value[v->id] = number_op(h, i, a);
    }
  }
}

/* A value as a vector: numbers are rounded to float here. */
static LLVMValueRef as_lanes(phase *h, const vtb_value *v, int lanes) {
  vtb_cpu *c = h->p.c;
  LLVMValueRef x = h->value[v->id];
  if (LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind) return x;
  return vtb_cpu_splat(c, LLVMBuildFPTrunc(c->b, x, c->f32, ""), lanes);
}

/* The phase's elements at `at`: sums are carried, results stored. */
static void elements(const piece_task *p, LLVMValueRef at, LLVMValueRef mask, int lanes,
                     LLVMValueRef *carry, void *user) {
  phase *h = user;
  const vtb_func *f = h->r->func;
  int n = 0;
  for (int i = 0; i < h->r->n_vectors; i++)
    if (h->r->needed[f->args[i]->id])
      h->value[f->args[i]->id] = load_lanes(p, h->ptr[i], at, mask, lanes);
  for (const vtb_inst *i = f->first; i; i = i->next) {
    const vtb_value *v = i->results[0];
    LLVMValueRef a[3];
    if (vtb_rule_adds(h->r, v, h->number)) {
      LLVMValueRef x = as_lanes(h, i->operands[0], lanes);
      if (mask) x = LLVMBuildSelect(p->c->b, mask, x, LLVMConstNull(LLVMTypeOf(x)), "");
      carry[n] = accumulate(p, carry[n], x);
      n++;
    }
    if (!h->r->needed[v->id] || is_number(i)) continue;
    for (int k = 0; k < i->n_operands; k++) a[k] = as_lanes(h, i->operands[k], lanes);
    h->value[v->id] = i->op == VTB_OP_select      ? choose(h, a[0], a[1], a[2])
                      : i->op == VTB_OP_broadcast ? a[0]
                                                  : vtb_cpu_scalar_op(p->c, i->op, a);
  }
  for (int i = 0; h->number == h->r->n_phases - 1 && i < f->n_returns; i++) {
    LLVMValueRef to = vtb_cpu_at(p->c, h->result[i], at), x = as_lanes(h, f->returns[i], lanes);
    if (mask)
      vtb_cpu_store_masked(p->c, x, to, mask);
    else
      vtb_cpu_store(p->c, x, to);
  }
}

static void store_sums(phase *h, LLVMValueRef *sums) {
  int n = 0;
  for (const vtb_inst *i = h->r->func->first; i; i = i->next) {
    const vtb_value *v = i->results[0];
    if (!vtb_rule_adds(h->r, v, h->number)) continue;
    LLVMBuildStore(h->p.c->b, add_lanes(&h->p, sums[n++]),
                   part_at(&h->p, h->parts, h->p.t->index, h->r->n_sums, h->r->sum[v->id]));
  }
}

/* Results are the old values; they need no copy where they share their memory. */
static void keep_old(phase *h) {
  vtb_cpu *c = h->p.c;
  LLVMValueRef bytes = vtb_cpu_mul(c, h->p.row[2], 4);
  for (int i = 0; i < h->r->func->n_returns; i++)
    LLVMBuildMemMove(c->b, h->result[i], 4, h->ptr[i ? i + 1 : 0], 4, bytes);
}

static void emit_elements(phase *h) {
  vtb_cpu *c = h->p.c;
  bool last = h->number == h->r->n_phases - 1;
  LLVMValueRef sums[VTB_CPU_MAX_CARRY];
  int n = 0;
  for (int v = 0; v < h->r->func->n_values; v++)
    n += !last && h->r->sum[v] >= 0 && h->r->level[v] == h->number + 1;
  vtb_check(n <= VTB_CPU_MAX_CARRY, "%d sums in a phase of @%s", n, h->r->func->name);
  for (int i = 0; i < n; i++) sums[i] = zero_lanes(&h->p);
  bind_numbers(h);
  compute_numbers(h);
  over_piece(&h->p, last ? c->width : SUM_LANES, sums, n, elements, h);
  store_sums(h, sums);
}

static void emit_phase(phase *h, LLVMValueRef table, int n_pieces, int64_t temp) {
  vtb_cpu *c = h->p.c;
  const vtb_update *u = &h->r->u;
  vtb_rule_begin(h->r, h->number);
  h->p = open_pieces(c, h->inst, "rule", table, n_pieces);
  h->parts = h->r->n_sums ? vtb_cpu_temp_ptr(c, h->p.t, temp) : NULL;
  for (int i = 0; i < h->r->n_vectors; i++)
    h->ptr[i] = piece_of(&h->p, vtb_update_operand(u, i, 0));
  for (int i = 0; i < h->r->func->n_returns; i++)
    h->result[i] = piece_of(&h->p, h->inst->n_operands + vtb_update_result(u, i, 0));
  LLVMValueRef counts = load_double(&h->p, h->p.t->t[2].ptr, k_(c, VTB_VERDICT_COUNTS));
  vtb_cpu_if branch =
      vtb_cpu_if_begin(c, LLVMBuildFCmp(c->b, LLVMRealUNE, counts, d_(&h->p, 0), ""));
  emit_elements(h);
  vtb_cpu_else(c, &branch);
  if (h->number == h->r->n_phases - 1) keep_old(h);
  vtb_cpu_if_end(c, &branch);
  vtb_cpu_task_end(c, h->p.t);
}

void vtb__cpu_update(vtb_cpu *c, const vtb_inst *inst) {
  vtb_rule r;
  int n_pieces;
  vtb_rule_open(inst, &r);
  size_t n = (size_t)r.func->n_values + 1;
  phase h = {.r = &r, .inst = inst, .p = {.c = c}};
  h.value = vtb_xcalloc(n, sizeof *h.value);
  h.ptr = vtb_xcalloc(n, sizeof *h.ptr);
  h.result = vtb_xcalloc(n, sizeof *h.result);
  LLVMValueRef table = table_of(c, inst->operands + VTB_UPDATE_LEAD, r.u.tensors, &n_pieces);
  int64_t temp = r.n_sums ? vtb_cpu_temp(c, n_pieces * (int64_t)(sizeof(double)) * r.n_sums) : 0;
  for (h.number = 0; h.number < r.n_phases; h.number++) emit_phase(&h, table, n_pieces, temp);
  vtb_free(h.value), vtb_free(h.ptr), vtb_free(h.result);
  vtb_rule_close(&r);
}
