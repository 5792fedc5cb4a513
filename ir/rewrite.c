/* Rewriting: linking, moving, replacing, copying instructions; what rewrites ask. */
#include "ir/internal.h"
#include "ir/ops.h"
#include "ir/rewrite.h"

#include <assert.h>

void vtb__inst_link(vtb_func *f, vtb_inst *inst, vtb_inst *before) {
  assert(!before || before->func == f);
  assert(!inst->prev && !inst->next && f->first != inst && "linked already");
  inst->func = f;
  inst->next = before;
  inst->prev = before ? before->prev : f->last;
  if (inst->prev)
    inst->prev->next = inst;
  else
    f->first = inst;
  if (before)
    before->prev = inst;
  else
    f->last = inst;
}

void vtb_inst_unlink(vtb_inst *inst) {
  vtb_func *f = inst->func;
  assert(!inst->prev || inst->prev->next == inst);
  assert(!inst->next || inst->next->prev == inst);
  if (inst->prev)
    inst->prev->next = inst->next;
  else if (f->first == inst)
    f->first = inst->next;
  if (inst->next)
    inst->next->prev = inst->prev;
  else if (f->last == inst)
    f->last = inst->prev;
  inst->prev = inst->next = NULL;
}

void vtb_inst_move_before(vtb_inst *inst, vtb_inst *pos) {
  if (inst == pos) return;
  vtb_func *f = inst->func;
  vtb_inst_unlink(inst);
  vtb__inst_link(f, inst, pos);
}

static void add_reader(vtb_value *v, vtb_inst *inst) {
  if (v->n_readers && v->readers[v->n_readers - 1] == inst) return;
  v->readers =
      vtb__array_grow(&v->func->module->arena, v->readers, v->n_readers, sizeof *v->readers);
  v->readers[v->n_readers++] = inst;
}

void vtb_inst_set_operand(vtb_inst *inst, int at, vtb_value *v) {
  inst->operands[at] = v;
  if (v) add_reader(v, inst);
}

/* A copy of n values, with room for one behind them. */
static vtb_value **longer(vtb_inst *inst, vtb_value *const *values, int n) {
  vtb_value **more = VTB_NEW_ARRAY(&inst->func->module->arena, vtb_value *, n + 1);
  for (int i = 0; i < n; i++) more[i] = values[i];
  return more;
}

void vtb_inst_add_operand(vtb_inst *inst, vtb_value *v) {
  inst->operands = longer(inst, inst->operands, inst->n_operands);
  vtb_inst_set_operand(inst, inst->n_operands++, v);
}

vtb_value *vtb_inst_add_result(vtb_inst *inst, const vtb_type *type) {
  inst->results = longer(inst, inst->results, inst->n_results);
  vtb_value *v = vtb__value_new(inst->func, inst->results[0]->name, type, inst, inst->n_results);
  return inst->results[inst->n_results++] = v;
}

bool vtb_is_splat(const vtb_inst *i) {
  return i->op == VTB_OP_constant && !vtb_attr_find(i, "data");
}

bool vtb_is_linked(const vtb_inst *i) { return i->prev || i->func->first == i; }

void vtb_inst_replace_operand(vtb_inst *inst, const vtb_value *old, vtb_value *with) {
  for (int i = 0; i < inst->n_operands; i++)
    if (inst->operands[i] == old) vtb_inst_set_operand(inst, i, with);
}

void vtb_replace_all(vtb_value *old, vtb_value *with) {
  vtb_func *f = old->func;
  vtb_check(with->func == f, "replacing %%%s by a value of @%s", old->name, with->func->name);
  assert(old != with);
  int kept = 0;
  for (int r = 0; r < old->n_readers; r++) {
    vtb_inst *inst = old->readers[r];
    if (vtb_is_linked(inst))
      vtb_inst_replace_operand(inst, old, with);
    else
      old->readers[kept++] = inst;
  }
  old->n_readers = kept;
  for (int i = 0; i < f->n_returns; i++)
    if (f->returns[i] == old) f->returns[i] = with;
}

static bool reads(const vtb_inst *inst, const vtb_value *v) {
  for (int i = 0; i < inst->n_operands; i++)
    if (inst->operands[i] == v) return vtb_is_linked(inst);
  return false;
}

/* By order; those made during a pass may share one, and are told apart by what they made. */
static int by_order(const void *a, const void *b) {
  const vtb_inst *x = *(vtb_inst *const *)a, *y = *(vtb_inst *const *)b;
  if (x->order != y->order) return x->order < y->order ? -1 : 1;
  int ix = x->n_results ? x->results[0]->id : -1, iy = y->n_results ? y->results[0]->id : -1;
  return (ix > iy) - (ix < iy);
}

size_t vtb_value_readers(const vtb_value *v, vtb_inst ***out) {
  size_t n = 0, kept = 0;
  vtb_inst **all = *out = vtb_xcalloc((size_t)v->n_readers + 1, sizeof(vtb_inst *));
  for (int r = 0; r < v->n_readers; r++)
    if (reads(v->readers[r], v)) all[n++] = v->readers[r];
  if (n > 1) qsort(all, n, sizeof(vtb_inst *), by_order);
  for (size_t i = 0; i < n; i++)
    if (!kept || all[kept - 1] != all[i]) all[kept++] = all[i];
  return kept;
}

int *vtb_count_uses(vtb_func *f) {
  int *uses = vtb_xcalloc((size_t)f->n_values + 1, sizeof *uses);
  for (vtb_inst *inst = f->first; inst; inst = inst->next)
    for (int i = 0; i < inst->n_operands; i++) uses[inst->operands[i]->id]++;
  for (int i = 0; i < f->n_returns; i++) uses[f->returns[i]->id]++;
  return uses;
}

vtb_inst *vtb_inst_clone(vtb_builder *b, const vtb_inst *inst, vtb_value *const *operands) {
  vtb_inst *copy = vtb__inst_new(b->func, inst->op, inst->callee, operands, inst->n_operands,
                                 inst->attrs, inst->n_attrs, b->span.source ? b->span : inst->span);
  /* Result types follow the new operands; where the rule cannot know them they are the old ones. */
  VTB_VEC(vtb_type) given = {0};
  for (int i = 0; i < inst->n_results; i++) vtb_vec_push(&given, inst->results[i]->type);
  vtb__shape s;
  if (!vtb__shape_infer(&s, copy, given.at, inst->n_results))
    vtb_bug("copy of %s: %s", vtb_op_get(inst->op)->name, s.text);
  copy->n_results = (int)s.results.n;
  copy->results = VTB_NEW_ARRAY(&b->func->module->arena, vtb_value *, s.results.n);
  for (size_t i = 0; i < s.results.n; i++) {
    const char *name = i < given.n ? inst->results[i]->name : NULL;
    vtb_type t = vtb__type_with_names(s.results.at[i], i < given.n ? &given.at[i] : NULL);
    copy->results[i] = vtb__value_new(b->func, name, &t, copy, (int)i);
  }
  vtb__inst_link(b->func, copy, b->before);
  vtb__shape_free(&s);
  vtb_vec_free(&given);
  return copy;
}

vtb_inst *vtb_inst_copy(vtb_builder *b, const vtb_inst *inst, vtb_value **of) {
  vtb_value **operands = vtb_xcalloc((size_t)inst->n_operands + 1, sizeof *operands);
  for (int i = 0; i < inst->n_operands; i++) operands[i] = of[inst->operands[i]->id];
  vtb_inst *copy = vtb_inst_clone(b, inst, operands);
  for (int i = 0; i < inst->n_results; i++) of[inst->results[i]->id] = copy->results[i];
  vtb_free(operands);
  return copy;
}

/* ---- sets of values -------------------------------------------------------------------------- */

bool vtb_makes_any(const vtb_inst *i, const bool *set) {
  for (int r = 0; r < i->n_results; r++)
    if (set[i->results[r]->id]) return true;
  return false;
}

static bool reads_any(const vtb_inst *i, const bool *set) {
  for (int o = 0; o < i->n_operands; o++)
    if (set[i->operands[o]->id]) return true;
  return false;
}

void vtb_add_sources(const vtb_inst *first, const vtb_inst *last, bool *set) {
  for (const vtb_inst *i = last; i; i = i == first ? NULL : i->prev)
    for (int o = 0; o < i->n_operands && vtb_makes_any(i, set); o++) set[i->operands[o]->id] = true;
}

void vtb_add_uses(const vtb_inst *first, bool *set) {
  for (const vtb_inst *i = first; i; i = i->next)
    for (int r = 0; r < i->n_results && reads_any(i, set); r++) set[i->results[r]->id] = true;
}

/* ---- questions ------------------------------------------------------------------------------- */

int vtb_return_of(const vtb_value *v) {
  for (int r = 0; r < v->func->n_returns; r++)
    if (v->func->returns[r] == v) return r;
  return -1;
}

bool vtb_is_returned(const vtb_value *v) { return vtb_return_of(v) >= 0; }

/* The first instruction that reads v and is not `but`, NULL: none. */
static vtb_inst *a_reader(const vtb_value *v, const vtb_inst *but) {
  for (int r = 0; r < v->n_readers; r++)
    if (v->readers[r] != but && reads(v->readers[r], v)) return v->readers[r];
  return NULL;
}

int vtb_reader_count(const vtb_value *v) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  vtb_free(readers);
  return (int)n;
}

bool vtb_is_read(const vtb_value *v) { return a_reader(v, NULL) || vtb_is_returned(v); }

vtb_inst *vtb_only_reader(const vtb_value *v) {
  vtb_inst *one = a_reader(v, NULL);
  return one && !a_reader(v, one) && !vtb_is_returned(v) ? one : NULL;
}

bool vtb_is_used_once(const vtb_value *v) {
  const vtb_inst *i = vtb_only_reader(v);
  int n = 0;
  for (int o = 0; i && o < i->n_operands; o++) n += i->operands[o] == v;
  return n == 1;
}

bool vtb_made_before(const vtb_value *v, const vtb_inst *i) {
  return !v->def || v->def->order < i->order;
}

bool vtb_is_view(vtb_op op) {
  return op == VTB_OP_reshape || op == VTB_OP_transpose || op == VTB_OP_broadcast ||
         op == VTB_OP_slice;
}

bool vtb_is_free(vtb_op op) {
  return vtb_op_get(op)->klass == VTB_CLASS_SHAPE && op != VTB_OP_random && op != VTB_OP_concat;
}

vtb_value *vtb_behind_reshapes(const vtb_value *v) {
  while (v->def && v->def->op == VTB_OP_reshape) v = v->def->operands[0];
  return (vtb_value *)v;
}

const vtb_value *vtb_behind_moves(const vtb_value *v) {
  while (v->def && vtb_op_get(v->def->op)->klass == VTB_CLASS_SHAPE && v->def->n_operands == 1)
    v = v->def->operands[0];
  return v;
}
