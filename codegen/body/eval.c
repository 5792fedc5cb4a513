/* Values of a body at an index: every op that is an expression of its operands or a change of
 * index.
 *
 * What was computed at an index is remembered until the place where it is known ends. Conditions
 * exclude reads: where a condition is the same for all lanes, what it excludes is never evaluated;
 * else indices are clamped, and both sides are.
 */
#include "codegen/body/body.h"
#include "ir/ops.h"
#include "ir/scalar.h"

#include <string.h>

const vtb_leaf *vtb__leaf_find(const vtb_body *b, const vtb_value *v) {
  for (size_t i = 0; i < b->leaves.n; i++)
    if (b->leaves.at[i].value == v) return &b->leaves.at[i];
  return NULL;
}

/* ---- conditions ------------------------------------------------------------------------------ */

typedef enum truth { NEVER, ALWAYS, SOMETIMES } truth;

/* lo <= x < hi; *condition is set when that is not known now. */
static truth in_range(vtb_body *b, const vtb_index *x, int64_t lo, int64_t hi, void **condition) {
  int64_t min = INT64_MIN, max = INT64_MAX;
  if (vtb__index_bounds(b, x, &min, &max)) {
    if (min >= lo && max < hi) return ALWAYS;
    if (max < lo || min >= hi) return NEVER;
  }
  *condition = b->target->within(b, x, lo, hi, min >= lo, max < hi);
  return SOMETIMES;
}

/* An arm of a condition: a value at an index, or a number if value is NULL. */
typedef struct arm {
  const vtb_value *value;
  const vtb_index *index;
  double fill;
} arm;

typedef struct choice {
  arm yes, no;
  vtb_dtype dtype;
} choice;

static void *eval_arm(vtb_body *b, const void *user, bool yes) {
  const choice *c = user;
  const arm *a = yes ? &c->yes : &c->no;
  return a->value ? vtb__body_eval(b, a->value, a->index) : b->target->number(b, c->dtype, a->fill);
}

static void *choose(vtb_body *b, truth t, void *condition, const choice *c) {
  if (t != SOMETIMES) return eval_arm(b, c, t == ALWAYS);
  return b->target->choose(b, c->dtype, condition, eval_arm, c);
}

/* ---- sources --------------------------------------------------------------------------------- */

static void *eval_constant(vtb_body *b, const vtb_value *v, const vtb_index *index) {
  const vtb_attr *data = vtb_attr_find(v->def, "data");
  if (!data) return b->target->number(b, v->type.dtype, vtb_attr_float(v->def, "value", 0));
  int64_t stride[VTB_MAX_RANK];
  int32_t *bits = vtb_xcalloc((size_t)data->n + 1, sizeof *bits);
  for (int k = 0; k < data->n; k++) {
    float f = (float)data->floats[k];
    bits[k] = (int32_t)data->floats[k];
    if (v->type.dtype == VTB_F32) memcpy(&bits[k], &f, sizeof f);
  }
  vtb__dense_strides(&v->type, stride);
  vtb_index at = vtb__linear(b, &v->type, stride, index);
  void *r = b->target->table(b, v->type.dtype, bits, (size_t)data->n, &at);
  vtb_free(bits);
  return r;
}

static void *eval_random(vtb_body *b, const vtb_value *v, const vtb_index *index) {
  int64_t stride[VTB_MAX_RANK];
  vtb_index zero[VTB_MAX_RANK] = {{0}};
  vtb__dense_strides(&v->type, stride);
  void *seed = vtb__body_eval(b, v->def->operands[0], zero);
  vtb_index at = vtb__linear(b, &v->type, stride, index);
  if (v->def->n_operands > 1) {
    void *first = vtb__body_eval(b, v->def->operands[1], zero);
    vtb_index from = vtb__index_dyn(b->target->as_dyn(b, first), false);
    at = vtb__index_add(b, &at, &from);
  }
  return b->target->random(b, seed, (uint32_t)vtb_attr_int(v->def, "stream", 0), &at);
}

/* ---- views ----------------------------------------------------------------------------------- */

static void *eval_pad(vtb_body *b, const vtb_value *v, const vtb_index *index) {
  const vtb_inst *i = v->def;
  int axis = (int)vtb_attr_int(i, "axis", 0);
  int64_t step = vtb_attr_int(i, "step", 1),
          reach = (i->operands[0]->type.dim[axis].size - 1) * step + 1;
  vtb_index at[VTB_MAX_RANK];
  choice c = {{i->operands[0], at, 0}, {0}, v->type.dtype};
  void *condition = NULL, *whole = NULL;
  memcpy(at, index, sizeof *at * (size_t)v->type.rank);
  at[axis] = vtb__index_shift(&index[axis], -vtb_attr_int(i, "low", 0));
  truth t = in_range(b, &at[axis], 0, reach, &condition);
  if (t == SOMETIMES && (vtb__index_varies(b, &at[axis]) || step > 1))
    at[axis] = b->target->clamp(b, &at[axis], 0, reach);
  if (t != NEVER && step > 1) { /* only multiples of step come from x */
    vtb_index q, r;
    vtb__index_split(b, &at[axis], step, &q, &r);
    truth on = in_range(b, &r, 0, 1, &whole);
    if (on == SOMETIMES) condition = condition ? b->target->both(b, condition, whole) : whole;
    if (on != ALWAYS) t = on;
    at[axis] = q;
  }
  return choose(b, t, condition, &c);
}

typedef struct rest { /* of a concatenation, from operand k on, which starts at `start` */
  const vtb_value *v;
  const vtb_index *index;
  int k;
  int64_t start;
} rest;

static void *eval_concat(vtb_body *b, const rest *c);

static void *concat_arm(vtb_body *b, const void *user, bool yes) {
  const rest *c = user;
  const vtb_inst *i = c->v->def;
  int axis = (int)vtb_attr_int(i, "axis", 0);
  const vtb_value *x = i->operands[c->k];
  int64_t size = x->type.dim[axis].size;
  if (!yes) return eval_concat(b, &(rest){c->v, c->index, c->k + 1, c->start + size});
  vtb_index at[VTB_MAX_RANK];
  memcpy(at, c->index, sizeof *at * (size_t)c->v->type.rank);
  at[axis] = vtb__index_shift(&c->index[axis], -c->start);
  int64_t lo, hi;
  bool inside = vtb__index_bounds(b, &at[axis], &lo, &hi) && lo >= 0 && hi < size;
  if (!inside && vtb__index_varies(b, &at[axis]))
    at[axis] = b->target->clamp(b, &at[axis], 0, size);
  return vtb__body_eval(b, x, at);
}

static void *eval_concat(vtb_body *b, const rest *c) {
  const vtb_inst *i = c->v->def;
  int axis = (int)vtb_attr_int(i, "axis", 0);
  int64_t size = i->operands[c->k]->type.dim[axis].size;
  void *condition = NULL;
  truth t = ALWAYS;
  if (c->k + 1 < i->n_operands)
    t = in_range(b, &c->index[axis], c->start, c->start + size, &condition);
  if (t != SOMETIMES) return concat_arm(b, c, t == ALWAYS);
  return b->target->choose(b, c->v->type.dtype, condition, concat_arm, c);
}

/* ---- along a path ---------------------------------------------------------------------------- */

/* The position that step `at` reads, as an entry of a table. */
static truth look_up(vtb_body *b, const int32_t *from, int64_t n, const vtb_index *at,
                     vtb_index *out, void **condition) {
  void *entry = b->target->as_dyn(b, b->target->table(b, VTB_I32, from, (size_t)n, at));
  bool missing = false;
  for (int64_t s = 0; s < n; s++) missing |= from[s] < 0;
  *out = vtb__index_dyn(entry, vtb__index_varies(b, at));
  if (!missing) return ALWAYS;
  *condition = b->target->within(b, out, 0, n, false, true);
  if (out->lanes) *out = b->target->clamp(b, out, 0, n);
  return SOMETIMES;
}

/* Index into x along the axis; *condition as in_range. */
static truth source_index(vtb_body *b, const vtb_inst *i, int64_t n, const vtb_index *at,
                          vtb_index *out, void **condition) {
  int32_t *from = vtb__source_table(i, n);
  int64_t lo, hi, x, y;
  truth t = ALWAYS;
  bool done = vtb__table_is_line(from, n, &lo, &hi, &x, &y);
  if (done) {
    t = hi > lo ? in_range(b, at, lo, hi, condition) : NEVER;
    *out = vtb__index_scale(b, at, x);
    *out = vtb__index_shift(out, y);
    if (t == SOMETIMES && vtb__index_varies(b, out)) *out = b->target->clamp(b, out, 0, n);
  } else if (vtb__table_is_grid(from, n, &lo, &x, &y)) {
    vtb_index q, r;
    done = vtb__index_split(b, at, lo, &q, &r) || b->target->grids_by_division;
    q = vtb__index_scale(b, &q, x);
    r = vtb__index_scale(b, &r, y);
    *out = vtb__index_add(b, &q, &r);
    *out = vtb__index_shift(out, from[0]);
  }
  if (!done) t = look_up(b, from, n, at, out, condition);
  vtb_free(from);
  return t;
}

static void *eval_moved(vtb_body *b, const vtb_value *v, const vtb_index *index) {
  const vtb_inst *i = v->def;
  int axis = (int)vtb_attr_int(i, "axis", 0);
  vtb_index at[VTB_MAX_RANK], edge[VTB_MAX_RANK];
  choice c = {{i->operands[0], at, 0}, {.fill = vtb_attr_float(i, "fill", 0)}, v->type.dtype};
  void *condition = NULL;
  memcpy(at, index, sizeof *at * (size_t)v->type.rank);
  truth t = source_index(b, i, v->type.dim[axis].size, &index[axis], &at[axis], &condition);
  for (int a = 0; a + 1 < v->type.rank; a++) edge[a] = index[a < axis ? a : a + 1];
  if (i->n_operands == 2) c.no = (arm){.value = i->operands[1], .index = edge};
  return choose(b, t, condition, &c);
}

/* An op that is none of a body's, or has no value there. */
static void *unknown(vtb_body *b, const vtb_value *v) {
  if (b->target->unknown) return b->target->unknown(b, v);
  vtb_bug("op %s inside a kernel body", vtb_op_get(v->def->op)->name);
}

static void *eval_shape(vtb_body *b, const vtb_value *v, const vtb_index *index) {
  const vtb_inst *i = v->def;
  vtb_index at[VTB_MAX_RANK] = {{0}};
  int n, axis = (int)vtb_attr_int(i, "axis", 0);
  const int64_t *perm = vtb_attr_ints(i, "perm", &n);
  switch (i->op) {
  case VTB_OP_constant:
    return eval_constant(b, v, index);
  case VTB_OP_iota:
    return b->target->position(b, v->type.dtype, &index[axis]);
  case VTB_OP_random:
    return eval_random(b, v, index);
  case VTB_OP_reshape:
    vtb__reshape_index(b, &v->type, index, &i->operands[0]->type, at);
    break;
  case VTB_OP_broadcast:
    vtb__operand_index(i->operands[0], &v->type, index, at);
    break;
  case VTB_OP_transpose:
    for (int a = 0; a < n; a++) at[perm[a]] = index[a];
    break;
  case VTB_OP_slice:
    memcpy(at, index, sizeof *at * (size_t)v->type.rank);
    at[axis] = vtb__index_scale(b, &index[axis], vtb_attr_int(i, "step", 1));
    at[axis] = vtb__index_shift(&at[axis], vtb_attr_int(i, "start", 0));
    break;
  case VTB_OP_pad:
    return eval_pad(b, v, index);
  case VTB_OP_concat:
    return eval_concat(b, &(rest){v, index, 0, 0});
  case VTB_OP_permute:
  case VTB_OP_shift:
    return eval_moved(b, v, index);
  default:
    return unknown(b, v);
  }
  return vtb__body_eval(b, i->operands[0], at);
}

/* ---- values ---------------------------------------------------------------------------------- */

bool vtb__is_costly(vtb_op op) {
  const vtb_scalar *s = vtb_scalar_get(op);
  return s && s->costly;
}

static void *eval_elementwise(vtb_body *b, const vtb_value *v, const vtb_index *index) {
  const vtb_inst *i = v->def;
  void *operands[3] = {NULL, NULL, NULL};
  for (int o = 0; o < i->n_operands; o++) {
    vtb_index at[VTB_MAX_RANK];
    vtb__operand_index(i->operands[o], &v->type, index, at);
    operands[o] = vtb__body_eval(b, i->operands[o], at);
  }
  return b->target->elementwise(b, i, operands);
}

static void *eval_new(vtb_body *b, const vtb_leaf *leaf, const vtb_value *v,
                      const vtb_index *index) {
  if (leaf) return b->target->load(b, leaf, index);
  vtb_check(v->def != NULL, "value %%%s of a kernel is neither an operand nor computed", v->name);
  switch (vtb_op_get(v->def->op)->klass) {
  case VTB_CLASS_ELEMENTWISE:
    return eval_elementwise(b, v, index);
  case VTB_CLASS_SHAPE:
    return eval_shape(b, v, index);
  case VTB_CLASS_REDUCE:
    return b->reduce ? b->reduce(b, v, index) : unknown(b, v);
  case VTB_CLASS_STRUCTURED:
    if (b->target->structured) return b->target->structured(b, v, index);
    break;
  default:
    break;
  }
  return unknown(b, v);
}

static bool same_place(const vtb_body *b, const vtb_value *v, const vtb_index *x,
                       const vtb_index *y) {
  for (int a = 0; a < v->type.rank; a++)
    if (!vtb__index_equal(b, &x[a], &y[a])) return false;
  return true;
}

/* Number of the entry for a value that the row's loop has element by element and that is worth
 * keeping; made while probing. -1: none. */
static int kept_entry(vtb_body *b, const vtb_value *v, const vtb_index *index, bool leaf) {
  if (!b->keep || b->conditions || b->vec < 0 || v->type.dtype == VTB_I32) return -1;
  bool quotient = !leaf && v->def && v->def->op == VTB_OP_div && b->target->keeps_leaves;
  if (leaf ? !b->target->keeps_leaves : !v->def || !(quotient || vtb__is_costly(v->def->op)))
    return -1;
  bool along_row = false;
  for (int a = 0; a < v->type.rank; a++) along_row |= index[a].coef[b->groups[b->vec].last] != 0;
  if (!along_row) return -1;
  for (size_t k = 0; k < b->kept.n; k++)
    if (b->kept.at[k].value == v && same_place(b, v, index, b->kept.at[k].index)) return (int)k;
  if (!b->probing) return -1;
  vtb_kept fresh = {.value = v, .stored = -1};
  memcpy(fresh.index, index, sizeof *index * (size_t)v->type.rank);
  vtb_vec_push(&b->kept, fresh);
  return (int)b->kept.n - 1;
}

static void *eval_kept(vtb_body *b, int entry, const vtb_leaf *leaf, const vtb_value *v,
                       const vtb_index *index) {
  vtb_kept *k = &b->kept.at[entry];
  if (b->probing) k->passes |= 1u << (b->pass < VTB_LAST_PASS ? b->pass : VTB_LAST_PASS);
  if (b->probing || !k->place) return eval_new(b, leaf, v, index);
  if (k->stored >= 0 && k->stored < b->pass) return b->target->load_kept(b, k);
  void *r = eval_new(b, leaf, v, index);
  k = &b->kept.at[entry];
  k->stored = b->pass;
  return b->target->store_kept(b, k, r);
}

void *vtb__body_eval(vtb_body *b, const vtb_value *v, const vtb_index *index) {
  for (size_t m = b->memo.n; m-- > 0;)
    if (b->memo.at[m].value == v && same_place(b, v, b->memo.at[m].index, index))
      return b->memo.at[m].result;
  const vtb_leaf *leaf = vtb__leaf_find(b, v);
  int kept = kept_entry(b, v, index, leaf != NULL);
  vtb_memo known = {.value = v};
  known.result = kept >= 0 ? eval_kept(b, kept, leaf, v, index) : eval_new(b, leaf, v, index);
  memcpy(known.index, index, sizeof *index * (size_t)v->type.rank);
  vtb_vec_push(&b->memo, known);
  return known.result;
}
