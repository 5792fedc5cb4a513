/* path_fold: permutations of tokens sink through everything that treats tokens alike, into the ops
 * that depend on order.
 *
 *   %p = permute %x {axis=1, path="cols@14x14"}         %g = gelu %x
 *   %g = gelu %p                                   =>   %y = linscan %g, ... {path="cols@14x14"}
 *   %y = linscan %g, ...
 *   %z = permute %y {axis=1, inverse=1, path="cols@14x14"}      uses of %z read %y
 *
 * Walking forward, each value is known as "what the instruction now computes, visited in order o
 * along axis a". A permutation only changes what is known. An op over operands known in one order
 * computes on the values as stored and passes the order on; linscan, delta, maxplus, shift,
 * recurrence and dwconv take it as their path (composed with one they have). Operands of other
 * orders are permuted to fit. Ops that mix tokens in another way get real permutations in front:
 * attention scores, slices of several tokens, concatenation of tokens. Calls with permuted
 * arguments call a copy of the callee in which the permutation goes on sinking. Needs no other
 * pass; runs on recurrences as well as on linscan.
 */
#include "ir/axes.h"
#include "passes/graph/path_order.h"

/* A value of the original function as it is known: `v` visited in `order` along `axis`; order NULL:
 * v itself. */
typedef struct known {
  vtb_value *v;
  const vtb__path_order *order;
  int axis;
  vtb_value *permuted; /* the permutation, once it had to be made */
} known;

typedef struct folder folder;

/* A callee compiled for arguments in certain orders. */
typedef struct variant {
  const vtb_func *original;
  const char *signature;
  vtb_func *func;
  known *returns; /* order and axis only */
} variant;

struct folder {
  vtb_module *module;
  vtb__orders orders;
  VTB_VEC(variant) variants;
};

/* One function being walked. */
typedef struct walk {
  folder *all;
  vtb_func *func;
  VTB_VEC(known) table; /* by value id */
  vtb_builder b;
} walk;

static known *entry(walk *w, const vtb_value *v) {
  known *k = vtb__by_id(w->func, &w->table, v->id);
  if (!k->v) k->v = (vtb_value *)v;
  return k;
}

/* v as the original function had it. */
static vtb_value *as_written(walk *w, const vtb_value *v) {
  known k = *entry(w, v);
  if (!k.order) return k.v;
  if (!k.permuted) {
    k.permuted = vtb_b_permute(&w->b, k.v, k.axis, k.order->text, false);
    *entry(w, v) = k;
  }
  return k.permuted;
}

/* A value that, visited in `order` along `axis`, is v. */
static vtb_value *in_order(walk *w, const vtb_value *v, const vtb__path_order *order, int axis) {
  const known *k = entry(w, v);
  if (k->order == order && k->axis == axis) return k->v;
  return vtb_b_permute(&w->b, as_written(w, v), axis, order->text, true);
}

static void know(walk *w, const vtb_value *v, vtb_value *as, const vtb__path_order *order,
                 int axis) {
  known *k = entry(w, v);
  *k = (known){.v = as, .order = order && !order->identity ? order : NULL, .axis = axis};
}

/* ---- ops that have a path -------------------------------------------------------------------- */

/* Operands first..last have a token axis 1 and must be in one order. */
static bool path_operands(const vtb_inst *inst, int *first, int *last) {
  *first = 0;
  switch (inst->op) {
  case VTB_OP_recurrence:
    *first = (int)vtb_attr_int(inst, "inits", 0);
    *last = *first + (int)vtb_attr_int(inst, "seqs", 0) - 1;
    return true;
  case VTB_OP_delta:
  case VTB_OP_linscan:
    *last = vtb_streq(vtb_attr_str(inst, "class", ""), "constant") ? 2 : 3;
    return true;
  case VTB_OP_maxplus:
    *last = 1;
    return true;
  case VTB_OP_shift:
  case VTB_OP_prefix_sum:
  case VTB_OP_dwconv:
    *last = 0;
    return true;
  default:
    return false;
  }
}

static bool result_has_tokens(const vtb_inst *inst, int i) {
  if (inst->op == VTB_OP_recurrence)
    return i < inst->callee->n_returns - (int)vtb_attr_int(inst, "states", 0);
  if (inst->op == VTB_OP_linscan) return i % 2 == 0;
  return true;
}

static void set_path(walk *w, vtb_inst *inst, const vtb__path_order *order) {
  const char *path = vtb_attr_str(inst, "path", NULL);
  if (path)
    order = vtb__order_compose(&w->all->orders, order, vtb__order_of(&w->all->orders, path, false));
  if (order->identity)
    vtb_attr_remove(inst, "path");
  else
    vtb_attr_set(inst, VTB_A_STR("path", order->text));
}

static bool fold_into_path(walk *w, vtb_inst *inst) {
  bool named = inst->op == VTB_OP_shift || inst->op == VTB_OP_prefix_sum;
  int first, last, axis = named ? (int)vtb_attr_int(inst, "axis", 0) : 1;
  const vtb__path_order *order = NULL;
  if (!path_operands(inst, &first, &last)) return false;
  for (int i = first; i <= last && !order; i++) {
    const known *k = entry(w, inst->operands[i]);
    if (k->order && k->axis == axis) order = k->order;
  }
  if (!order) return false;
  for (int i = 0; i < inst->n_operands; i++)
    vtb_inst_set_operand(inst, i,
                         i >= first && i <= last ? in_order(w, inst->operands[i], order, axis)
                                                 : as_written(w, inst->operands[i]));
  set_path(w, inst, order);
  for (int i = 0; i < inst->n_results; i++)
    if (result_has_tokens(inst, i)) know(w, inst->results[i], inst->results[i], order, axis);
  return true;
}

/* ---- other ops ------------------------------------------------------------------------------- */

static void keep_as_written(walk *w, vtb_inst *inst) {
  for (int i = 0; i < inst->n_operands; i++)
    vtb_inst_set_operand(inst, i, as_written(w, inst->operands[i]));
}

/* One token out of a permuted sequence is one token of the stored one. */
static bool fold_token_slice(walk *w, vtb_inst *inst) {
  const known *k = entry(w, inst->operands[0]);
  vtb_slice s = vtb_slice_of(inst);
  if (inst->op != VTB_OP_slice || s.axis != k->axis || s.limit != s.start + 1) return false;
  vtb_inst_set_operand(inst, 0, k->v);
  vtb_attr_set(inst, VTB_A_INT("start", k->order->perm[s.start]));
  vtb_attr_set(inst, VTB_A_INT("limit", k->order->perm[s.start] + 1));
  return true;
}

/* The first operand known in some order that the op can pass on. */
static int leading_operand(walk *w, const vtb_inst *inst, int *to) {
  for (int i = 0; i < inst->n_operands; i++) {
    const known *k = entry(w, inst->operands[i]);
    if (!k->order) continue;
    *to = vtb_axis_after(inst, i, k->axis);
    if (*to != VTB_AXIS_MIXED) return i;
  }
  return -1;
}

static void fold_through(walk *w, vtb_inst *inst) {
  int to = VTB_AXIS_MIXED, lead = inst->n_results == 1 ? leading_operand(w, inst, &to) : -1;
  if (lead < 0) {
    keep_as_written(w, inst);
    return;
  }
  const known k = *entry(w, inst->operands[lead]);
  vtb_value **operands = VTB_SCRATCH(w->func, vtb_value *, inst->n_operands);
  for (int j = 0; j < inst->n_operands; j++) {
    int axis = j == lead ? k.axis : vtb_axis_beside(inst, lead, k.axis, j);
    operands[j] =
        axis < 0 ? as_written(w, inst->operands[j]) : in_order(w, inst->operands[j], k.order, axis);
  }
  for (int j = 0; j < inst->n_operands; j++) vtb_inst_set_operand(inst, j, operands[j]);
  if (to >= 0) know(w, inst->results[0], inst->results[0], k.order, to);
}

static void fold_permute(walk *w, vtb_inst *inst) {
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  const vtb__path_order *p = vtb__order_of(&w->all->orders, vtb_attr_str(inst, "path", ""),
                                           vtb_attr_int(inst, "inverse", 0) != 0);
  known k = *entry(w, inst->operands[0]);
  if (k.order && k.axis != axis) k = (known){.v = as_written(w, inst->operands[0])};
  const vtb__path_order *o = k.order ? vtb__order_compose(&w->all->orders, k.order, p) : p;
  know(w, inst->results[0], k.v, o, axis);
  vtb_inst_unlink(inst);
}

/* The tap shows what the user wrote; those who read on read the stored value. */
static void fold_tap(walk *w, vtb_inst *inst) {
  known k = *entry(w, inst->operands[0]);
  vtb_inst_set_operand(inst, 0, as_written(w, inst->operands[0]));
  if (k.order) know(w, inst->results[0], k.v, k.order, k.axis);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void fold_function(folder *all, vtb_func *f, const known *args, known *returns);

/* NULL if all are as written. */
static const char *signature_of(walk *w, const vtb_inst *call) {
  const char *s = NULL;
  for (int i = 0; i < call->n_operands; i++) {
    const known *k = entry(w, call->operands[i]);
    if (k->order) s = vtb__text(w->all, "%s%d:%d:%d;", s ? s : "", i, k->order->index, k->axis);
  }
  return s;
}

static const variant *variant_for(walk *w, const vtb_inst *call, const char *signature) {
  folder *all = w->all;
  for (size_t i = 0; i < all->variants.n; i++)
    if (all->variants.at[i].original == call->callee &&
        vtb_streq(all->variants.at[i].signature, signature))
      return &all->variants.at[i];
  variant v = {.original = call->callee, .signature = signature};
  known *args = VTB_SCRATCH(all, known, call->n_operands);
  for (int i = 0; i < call->n_operands; i++) args[i] = *entry(w, call->operands[i]);
  v.func = vtb_func_clone(call->callee, all->module, call->callee->name);
  v.returns = VTB_SCRATCH(all, known, call->callee->n_returns);
  fold_function(all, v.func, args, v.returns);
  vtb__put(all, &all->variants, v);
  return &all->variants.at[all->variants.n - 1];
}

static void fold_call(walk *w, vtb_inst *inst) {
  const char *signature = signature_of(w, inst);
  if (!signature) {
    keep_as_written(w, inst);
    return;
  }
  const variant *v = variant_for(w, inst, signature);
  for (int i = 0; i < inst->n_operands; i++)
    vtb_inst_set_operand(inst, i, entry(w, inst->operands[i])->v);
  inst->callee = v->func;
  for (int i = 0; i < inst->n_results; i++)
    know(w, inst->results[i], inst->results[i], v->returns[i].order, v->returns[i].axis);
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool all_as_written(walk *w, const vtb_inst *inst) {
  for (int i = 0; i < inst->n_operands; i++)
    if (entry(w, inst->operands[i])->order) return false;
  return true;
}

static void fold_inst(walk *w, vtb_inst *inst) {
  w->b.before = inst, w->b.span = inst->span;
  if (inst->op == VTB_OP_permute)
    fold_permute(w, inst);
  else if (all_as_written(w, inst))
    keep_as_written(w, inst); /* also renames operands */
  else if (inst->op == VTB_OP_tap)
    fold_tap(w, inst);
  else if (inst->op == VTB_OP_call)
    fold_call(w, inst);
  else if (!fold_into_path(w, inst) && !fold_token_slice(w, inst))
    fold_through(w, inst);
}

/* args: in which orders the arguments arrive (NULL: as written); returns: takes the orders of the
 * results (NULL: as written). */
static void fold_function(folder *all, vtb_func *f, const known *args, known *returns) {
  walk w = {.all = all, .func = f, .b = {.module = all->module, .func = f}};
  for (int i = 0; args && i < f->n_args; i++)
    know(&w, f->args[i], f->args[i], args[i].order, args[i].axis);
  VTB__EACH_INST(f, inst, next) {
    fold_inst(&w, inst);
  }
  w.b.before = NULL, w.b.span = f->span;
  for (int i = 0; i < f->n_returns; i++) {
    if (returns) returns[i] = *entry(&w, f->returns[i]);
    f->returns[i] = returns ? returns[i].v : as_written(&w, f->returns[i]);
  }
}

static void report(const vtb_func *f) {
  for (const vtb_inst *inst = f->first; inst; inst = inst->next)
    if (inst->op == VTB_OP_permute)
      vtb_log("path_fold: @%s keeps permute %%%s along %s", f->name, inst->results[0]->name,
              vtb_attr_str(inst, "path", ""));
}

void vtb__change_path_fold(vtb_pass_context *c) {
  folder all = {.module = c->module};
  all.orders.module = c->module;
  for (vtb_func **f = vtb__callees_first(c->module, c->module->entry); *f; f++)
    if ((*f)->kind == VTB_FUNC_PLAIN) fold_function(&all, *f, NULL, NULL);
  for (vtb_func *f = c->module->first; f; f = f->next) report(f);
}
