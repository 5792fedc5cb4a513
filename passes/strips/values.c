/* Values that do not follow the rows where a part of the rows is computed: as they are, or the
 * part's elements of tables that have as many entries as there are tokens. */
#include "passes/strips/strips.h"

#include "ir/axes.h"

int64_t vtb__strips_count(const vtb__strip_part *p, const vtb__flow *x) {
  const vtb__strips *s = p->s;
  int64_t lag = x->lag + p->shift;
  if (p->part == VTB__HEAD) return x->head + (s->head - lag) * x->per_row;
  if (p->part == VTB__STRIP) return s->height * x->per_row;
  return (s->rows - s->head - s->count * s->height + lag) * x->per_row + x->tail;
}

/* ---- whole values ---------------------------------------------------------------------------- */

/* The values of a call for those that do not follow the rows. */
static vtb__strip_part inside(vtb__strip_part *p, const vtb_inst *call) {
  vtb__strip_part in = *p;
  in.f = p->f->callee[call->order];
  in.of = VTB_SCRATCH(call->callee, vtb_value *, call->callee->n_values);
  in.slot = p->slot ? p->slot + p->f->slot_of[call->order] : NULL;
  in.outer = NULL;
  for (int a = 0; a < call->n_operands; a++)
    if (p->f->of[call->operands[a]->id].when != VTB__ROWS)
      in.of[call->callee->args[a]->id] = vtb__strips_value(p, call->operands[a]);
  return in;
}

static vtb_value *compute(vtb__strip_part *p, const vtb_value *v) {
  const vtb_inst *i = v->def;
  if (i->op == VTB_OP_call && p->f->callee[i->order]) {
    vtb__strip_part in = inside(p, i);
    return p->of[v->id] = vtb__strips_value(&in, i->callee->returns[v->index]);
  }
  vtb_value **operands = VTB_SCRATCH(v->func, vtb_value *, i->n_operands);
  for (int o = 0; o < i->n_operands; o++) operands[o] = vtb__strips_value(p, i->operands[o]);
  p->b.span = i->span;
  vtb_inst *copy = vtb_inst_clone(&p->b, i, operands);
  for (int r = 0; r < i->n_results; r++) p->of[i->results[r]->id] = copy->results[r];
  return p->of[v->id];
}

vtb_value *vtb__strips_value(vtb__strip_part *p, const vtb_value *v) {
  const vtb__flow *x = &p->f->of[v->id];
  if (x->when == VTB__LATE && x->slot >= 0) return p->slot[x->slot];
  vtb_value *known = p->of[v->id];
  if (!known && x->when == VTB__WHOLE && p->outer) known = p->outer(p, v);
  if (known) return p->of[v->id] = known;
  vtb_check(v->def && x->when != VTB__ROWS, "strips: %%%s is not known", v->name);
  return compute(p, v);
}

vtb_value *vtb__strips_first(vtb__strip_part *p, int at) {
  const vtb__strip_slot *slot = &p->f->slots.at[at];
  if (slot->of) {
    vtb__strip_part in = inside(p, slot->call);
    return vtb__strips_first(&in, slot->at);
  }
  return slot->from ? vtb__strips_value(p, slot->from)
                    : vtb_b_splat(&p->b, slot->init, &slot->type);
}

/* ---- parts of tables ------------------------------------------------------------------------- */

/* Of a strip: the number of its first element, i32; of other parts *known. */
static vtb_value *start_of(vtb__strip_part *p, const vtb__flow *x, int64_t *known) {
  *known = p->part == VTB__HEAD ? 0 : vtb__strips_total(p->s, x) - vtb__strips_count(p, x);
  if (p->part != VTB__STRIP) return NULL;
  vtb_type one = {.dtype = VTB_I32};
  double first = (double)(x->head - x->lag * x->per_row);
  vtb_value *a =
      vtb_b_binary(&p->b, VTB_OP_mul, p->row, vtb_b_splat(&p->b, (double)x->per_row, &one));
  return vtb_b_binary(&p->b, VTB_OP_add, a, vtb_b_splat(&p->b, first, &one));
}

vtb_value *vtb__strips_out(vtb__strip_part *p, vtb_value *v, int axis, const vtb__flow *x) {
  int64_t n = vtb__strips_count(p, x), at;
  vtb_value *first = start_of(p, x, &at);
  if (!first) return vtb_b_slice(&p->b, v, axis, at, at + n, 1);
  vtb_type line = vtb_type_make(VTB_I32, 1, &n), lines = v->type;
  vtb_value *picks = vtb_b_binary(&p->b, VTB_OP_add, vtb_b_iota(&p->b, 0, &line), first);
  lines.dtype = VTB_I32;
  lines.rank = axis + 1;
  lines.dim[axis] = line.dim[0];
  return vtb_b_gather(&p->b, v, vtb_b_broadcast(&p->b, picks, &lines), axis);
}

static vtb_value *count_up(vtb__strip_part *p, const vtb_inst *iota, int axis, const vtb__flow *x) {
  int64_t at;
  vtb_type t = iota->results[0]->type;
  t.dim[axis].size = vtb__strips_count(p, x);
  vtb_value *first = start_of(p, x, &at),
            *y = vtb_b_iota(&p->b, (int)vtb_attr_int(iota, "axis", 0), &t);
  if (vtb_attr_int(iota, "axis", 0) != axis) return y;
  vtb_type one = {.dtype = VTB_I32};
  if (!first) first = vtb_b_splat(&p->b, (double)at, &one);
  return vtb_b_binary(&p->b, VTB_OP_add, y,
                      t.dtype == VTB_I32 ? first : vtb_b_cast(&p->b, first, t.dtype));
}

/* The instruction again, of the part's elements of what it reads; NULL: it is not of that kind. */
static vtb_value *cut_sources(vtb__strip_part *p, const vtb_inst *i, int axis, const vtb__flow *x) {
  const vtb_type *y = &i->results[0]->type;
  bool stretches = i->op == VTB_OP_broadcast;
  if (vtb_op_get(i->op)->klass != VTB_CLASS_ELEMENTWISE && i->op != VTB_OP_einsum && !stretches)
    return NULL;
  vtb_value **operands = VTB_SCRATCH(i->func, vtb_value *, i->n_operands);
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_value *v = i->operands[o];
    int at = vtb__strips_axis(i, o, axis);
    bool cut = at >= 0 && v->type.dim[at].size == y->dim[axis].size;
    operands[o] = cut ? vtb__strips_cut(p, v, at, x) : vtb__strips_value(p, v);
  }
  p->b.span = i->span;
  if (!stretches)
    return vtb_build(&p->b, i->op, operands, i->n_operands, i->attrs, i->n_attrs)->results[0];
  vtb_type t = *y;
  t.dim[axis].size = vtb__strips_count(p, x);
  return vtb_b_broadcast(&p->b, operands[0], &t);
}

static vtb_value *cut_reshaped(vtb__strip_part *p, const vtb_inst *i, int axis,
                               const vtb__flow *x) {
  vtb__flow in = *x;
  in.axis = axis;
  if (!vtb__strips_reshaped(p->s, &i->results[0]->type, &i->operands[0]->type, &in)) return NULL;
  vtb_type t = i->results[0]->type;
  t.dim[axis].size = vtb__strips_count(p, x);
  return vtb_b_reshape(&p->b, vtb__strips_cut(p, i->operands[0], in.axis, &in), &t);
}

vtb_value *vtb__strips_cut(vtb__strip_part *p, const vtb_value *v, int axis, const vtb__flow *x) {
  const vtb_inst *i = v->def;
  vtb_value *y = NULL;
  if (i && i->op == VTB_OP_iota) return count_up(p, i, axis, x);
  if (i && i->op == VTB_OP_constant && vtb_is_splat(i)) {
    vtb_type t = v->type;
    t.dim[axis].size = vtb__strips_count(p, x);
    return vtb_b_splat(&p->b, vtb_attr_float(i, "value", 0), &t);
  }
  if (i && i->op == VTB_OP_reshape) y = cut_reshaped(p, i, axis, x);
  if (i && !y) y = cut_sources(p, i, axis, x);
  return y ? y : vtb__strips_out(p, vtb__strips_value(p, v), axis, x);
}
