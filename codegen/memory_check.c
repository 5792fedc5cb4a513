/* The check that a memory plan is sound. Nothing of the planner's is used here: places are compared
 * as addresses of elements, lives are found again. */
#include "codegen/memory_plan.h"
#include "ir/ops.h"

#include <stdlib.h>
#include <string.h>

typedef struct checker {
  const vtb_plan *plan;
  const vtb_places *places; /* may be NULL */
  const vtb_func *f;
  const vtb_frame *frame;
  bool small; /* small values keep their places */
  vtb_error *err;
} checker;

static bool broken(const checker *c, const vtb_value *v, const char *fmt, ...) VTB_PRINTF(3, 4);
static bool broken(const checker *c, const vtb_value *v, const char *fmt, ...) {
  char rule[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(rule, sizeof rule, fmt, ap);
  va_end(ap);
  vtb_fail(c->err, VTB_E_INTERNAL, "memory plan of @%s: %s%s %s", c->f->name, v ? "%" : "",
           v ? v->name : "", rule);
  return false;
}

static const vtb_slot *slot_of(const checker *c, const vtb_value *v) {
  return &c->frame->slots[v->id];
}

/* The value in whose storage v lies. */
static const vtb_value *storage_of(const checker *c, const vtb_value *v) {
  return slot_of(c, v)->place == VTB_PLACE_VIEW ? slot_of(c, v)->base : v;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool check_room(const checker *c, const vtb_value *v, int64_t room) {
  const vtb_slot *s = slot_of(c, v);
  int64_t bytes = vtb_type_bytes(&v->type);
  if (s->offset < 0 || s->offset % 64) return broken(c, v, "lies at %lld", (long long)s->offset);
  if (s->bytes < bytes)
    return broken(c, v, "has %lld bytes for %lld", (long long)s->bytes, (long long)bytes);
  return s->offset + s->bytes <= room ||
         broken(c, v, "ends at %lld, behind the frame of %lld bytes",
                (long long)(s->offset + s->bytes), (long long)room);
}

static bool check_kind(const checker *c, const vtb_value *v, const bool *constants) {
  const vtb_slot *s = slot_of(c, v);
  int64_t bytes = vtb_type_bytes(&v->type);
  if ((s->base != NULL) != (s->place == VTB_PLACE_VIEW))
    return broken(c, v, s->base ? "has a base and is no view" : "is a view without a base");
  switch (s->place) {
  case VTB_PLACE_ARG:
    return (s->index >= 0 && s->index < c->f->n_args && c->f->args[s->index] == v) ||
           broken(c, v, "is said to be argument %d", s->index);
  case VTB_PLACE_RETURN:
    return (s->index >= 0 && s->index < c->f->n_returns &&
            vtb_type_bytes(&c->f->returns[s->index]->type) == bytes) ||
           broken(c, v, "is said to be return %d", s->index);
  case VTB_PLACE_CONSTANT:
    return (v->def && v->def->op == VTB_OP_constant && s->index >= 0 && s->index < c->f->n_values &&
            constants[s->index]) ||
           broken(c, v, "is said to be constant %d", s->index);
  case VTB_PLACE_KEPT:
    if (!c->places || !c->places->kept || !v->def || !vtb_attr_int(v->def, "prepared", 0))
      return broken(c, v, "is kept and not prepared");
    return check_room(c, v, c->frame->kept_bytes);
  case VTB_PLACE_WORKSPACE:
    return check_room(c, v, c->frame->bytes);
  case VTB_PLACE_VIEW:
    return slot_of(c, s->base)->place != VTB_PLACE_VIEW ||
           broken(c, v, "is a view of the view %%%s", s->base->name);
  case VTB_PLACE_NONE:
    break;
  }
  return broken(c, v, "has no place");
}

/* Row-major, or of an image with its channels as neighbours. */
static bool is_stored_so(const checker *c, const vtb_value *v) {
  const vtb_type *t = &v->type;
  const int64_t *stride = slot_of(c, v)->stride;
  int64_t dense = 1, apart = t->rank > 1 ? t->dim[1].size : 1;
  bool rows = true, channels = c->places && c->places->channels_last && v->def &&
                               v->def->op == VTB_OP_col2im && stride[1] == 1;
  for (int a = t->rank - 1; a >= 0; a--) {
    rows &= stride[a] == dense;
    channels &= a == 1 || stride[a] == (a ? dense * apart : dense);
    dense *= t->dim[a].size;
  }
  return rows || channels;
}

static bool check_strides(const checker *c, const vtb_value *v) {
  const vtb_slot *s = slot_of(c, v);
  int64_t last = s->view_offset, first = s->view_offset;
  if (s->place != VTB_PLACE_VIEW) {
    if (s->view_offset) return broken(c, v, "is no view and begins inside its storage");
    return is_stored_so(c, v) || broken(c, v, "is not stored row by row");
  }
  for (int a = 0; a < v->type.rank; a++) {
    int64_t reach = s->stride[a] * (v->type.dim[a].size - 1);
    *(reach < 0 ? &first : &last) += reach;
  }
  return vtb_type_count(&v->type) == 0 || (first >= 0 && last < vtb_type_count(&s->base->type)) ||
         broken(c, v, "reaches from element %lld to %lld of the %lld of %%%s", (long long)first,
                (long long)last, (long long)vtb_type_count(&s->base->type), s->base->name);
}

/* ---- views are what their instructions say --------------------------------------------------- */

static int64_t address(const checker *c, const vtb_value *v, const int64_t *at) {
  int64_t sum = slot_of(c, v)->view_offset;
  for (int a = 0; a < v->type.rank; a++) sum += at[a] * slot_of(c, v)->stride[a];
  return sum;
}

/* Where element `at` of the result is in the operand; false: the op is no view. */
static bool source_of(const vtb_inst *i, const int64_t *at, int64_t *from) {
  const vtb_type *x = &i->operands[0]->type, *y = &i->results[0]->type;
  int64_t row = 0;
  int n;
  switch (i->op) {
  case VTB_OP_reshape:
    for (int a = 0; a < y->rank; a++) row = row * y->dim[a].size + at[a];
    for (int a = x->rank - 1; a >= 0; row /= x->dim[a--].size) from[a] = row % x->dim[a].size;
    return true;
  case VTB_OP_slice:
    memcpy(from, at, sizeof *at * (size_t)y->rank);
    n = (int)vtb_attr_int(i, "axis", 0);
    from[n] = vtb_attr_int(i, "start", 0) + at[n] * vtb_attr_int(i, "step", 1);
    return true;
  case VTB_OP_transpose: {
    const int64_t *perm = vtb_attr_ints(i, "perm", &n);
    for (int a = 0; a < n; a++) from[perm[a]] = at[a];
    return true;
  }
  case VTB_OP_broadcast:
    for (int a = 0; a < x->rank; a++) from[a] = x->dim[a].size == 1 ? 0 : at[a + y->rank - x->rank];
    return true;
  case VTB_OP_sum_ranks:
    memcpy(from, at, sizeof *at * (size_t)y->rank);
    return true;
  default:
    return false;
  }
}

/* Elements that tell: the first, the second and the last along each axis, all others at 0; the last
 * of all. Addresses are sums of what each axis adds, but where a reshape cuts axes. */
static int sample(const vtb_type *t, int64_t at[][VTB_MAX_RANK]) {
  int n = 2;
  memset(at, 0, sizeof *at * 2);
  for (int a = 0; a < t->rank; a++) at[1][a] = t->dim[a].size - 1;
  for (int a = 0; a < t->rank; a++)
    for (int k = 0; k < 3; k++) {
      int64_t size = t->dim[a].size, index = k == 0 ? 1 : k == 1 ? size / 2 : size - 1;
      if (size < 2) continue;
      memset(at[n], 0, sizeof *at);
      at[n++][a] = index;
    }
  return n;
}

static bool check_view(const checker *c, const vtb_inst *i) {
  const vtb_value *x = i->operands[0], *y = i->results[0];
  int64_t at[3 * VTB_MAX_RANK + 2][VTB_MAX_RANK], from[VTB_MAX_RANK] = {0};
  if (storage_of(c, x) != storage_of(c, y) || vtb_type_count(&y->type) == 0) return true;
  int n = sample(&y->type, at);
  for (int k = 0; k < n; k++) {
    if (i->op == VTB_OP_sum_ranks && !vtb_type_equal(&x->type, &y->type))
      return broken(c, y, "has another shape than %%%s, in whose place it is summed", x->name);
    if (!source_of(i, at[k], from)) return true;
    if (address(c, x, from) == address(c, y, at[k])) continue;
    return broken(c, y, "is said to have an element of %%%s at %lld, where it has another", x->name,
                  (long long)address(c, y, at[k]));
  }
  return true;
}

/* The axis along which `i` puts its operands end to end; -1: it does not. */
static int concat_axis(const vtb_inst *i) {
  const vtb_inst *concat = i->op == VTB_OP_fused ? i->callee->first : i;
  return concat && concat->op == VTB_OP_concat ? (int)vtb_attr_int(concat, "axis", 0) : -1;
}

static bool check_concat(const checker *c, const vtb_inst *i) {
  int64_t start = 0, at[3 * VTB_MAX_RANK + 2][VTB_MAX_RANK], whole[VTB_MAX_RANK];
  const vtb_value *y = i->results[0];
  int axis = concat_axis(i);
  if (!slot_of(c, y)->in_place) return true;
  if (axis < 0 || i->n_results != 1) return broken(c, y, "is in place and no concatenation");
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_value *x = i->operands[o];
    int n = sample(&x->type, at);
    if (storage_of(c, x) != storage_of(c, y))
      return broken(c, y, "is in place, and its part %%%s is elsewhere", x->name);
    for (int k = 0; k < n; k++) {
      memcpy(whole, at[k], sizeof whole);
      whole[axis] += start;
      if (address(c, x, at[k]) != address(c, y, whole))
        return broken(c, y, "is in place, and its part %%%s is not where it belongs", x->name);
    }
    start += x->type.dim[axis].size;
  }
  return true;
}

/* ---- lives ----------------------------------------------------------------------------------- */

typedef struct life {
  const vtb_value *v; /* stored */
  int from, to;
  int64_t begin, end; /* bytes */
} life;

static bool ends_update(const vtb_func *entry) {
  for (const vtb_inst *i = entry->last; i; i = i->prev)
    if (i->op == VTB_OP_update) return true;
  return false;
}

/* By id of the stored value: from the first instruction that writes into it to the last that reads
 * it or a view of it. */
static life *find_lives(const checker *c, int n_insts) {
  life *lives = vtb_xcalloc((size_t)c->f->n_values + 1, sizeof *lives);
  for (const vtb_inst *i = c->f->first; i; i = i->next) {
    for (int o = 0; o < i->n_operands; o++) lives[storage_of(c, i->operands[o])->id].to = i->order;
    for (int r = 0; r < i->n_results; r++) {
      const vtb_value *v = storage_of(c, i->results[r]);
      const vtb_slot *s = slot_of(c, v);
      life *l = &lives[v->id];
      if (s->place != VTB_PLACE_WORKSPACE && s->place != VTB_PLACE_KEPT) continue;
      /* what is kept as if it lay behind the frame, for ever */
      int64_t at = s->offset + (s->place == VTB_PLACE_KEPT ? c->frame->bytes : 0);
      if (!l->v) *l = (life){v, i->order, i->order, at, at + s->bytes};
      l->to = s->place == VTB_PLACE_KEPT ? n_insts : i->order > l->to ? i->order : l->to;
    }
  }
  for (const vtb_inst *i = c->f->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++) {
      life *l = &lives[i->results[r]->id];
      bool keeps = l->v && c->small && l->end - l->begin <= c->places->small_bytes;
      bool stays = vtb_attr_int(i, "prepared", 0) && !(c->places && c->places->kept);
      if (keeps || (l->v && stays)) l->to = n_insts;
    }
  for (int r = 0; r < c->f->n_returns; r++) lives[storage_of(c, c->f->returns[r])->id].to = n_insts;
  return lives;
}

static int by_begin(const void *x, const void *y) {
  const life *a = x, *b = y;
  return (a->begin > b->begin) - (a->begin < b->begin);
}

static bool check_lives(const checker *c) {
  int n_insts = 0, n = 0;
  bool good = true;
  for (const vtb_inst *i = c->f->first; i; i = i->next) n_insts++;
  life *lives = find_lives(c, n_insts);
  for (int k = 0; k < c->f->n_values; k++)
    if (lives[k].v) lives[n++] = lives[k];
  qsort(lives, (size_t)n, sizeof *lives, by_begin);
  for (int k = 0; k < n && good; k++)
    for (int o = k + 1; o < n && good && lives[o].begin < lives[k].end; o++)
      if (lives[o].from <= lives[k].to && lives[k].from <= lives[o].to)
        good =
            broken(c, lives[k].v, "lies where %%%s does, while both are needed", lives[o].v->name);
  vtb_free(lives);
  return good;
}

/* Runs may begin behind what is prepared: nothing from there on reads what it left in the
 * workspace. */
static bool check_kept(const checker *c, const vtb_inst *i) {
  if (!c->places || !c->places->kept || vtb_attr_int(i, "prepared", 0)) return true;
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_value *v = storage_of(c, i->operands[o]);
    if (v->def && vtb_attr_int(v->def, "prepared", 0) &&
        slot_of(c, v)->place == VTB_PLACE_WORKSPACE)
      return broken(c, v, "is prepared, not kept, and read by what is not prepared");
  }
  return true;
}

/* A value that is summed where it lies has no other reader, as far as the sum's operand leads
 * back. */
static bool check_sum(const checker *c, const vtb_inst *sum, const int *uses) {
  const vtb_value *v = sum->operands[0], *y = sum->results[0];
  if (sum->op != VTB_OP_sum_ranks || storage_of(c, v) != storage_of(c, y)) return true;
  for (;; v = v->def->operands[0]) {
    if (uses[v->id] != 1)
      return broken(c, y, "is summed in place of %%%s, which others read", v->name);
    if (!v->def || v->def->op != VTB_OP_reshape) return true;
  }
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool check_value(const checker *c, const vtb_value *v, const bool *constants) {
  return check_kind(c, v, constants) && check_strides(c, v);
}

static bool check_values(const checker *c, bool *constants) {
  for (int a = 0; a < c->f->n_args; a++)
    if (!check_value(c, c->f->args[a], constants)) return false;
  for (const vtb_inst *i = c->f->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++) {
      const vtb_slot *s = slot_of(c, i->results[r]);
      if (s->place == VTB_PLACE_CONSTANT && s->index >= 0 && s->index < c->f->n_values) {
        if (constants[s->index])
          return broken(c, i->results[r], "is constant %d, as another is", s->index);
        constants[s->index] = true;
      }
      if (!check_value(c, i->results[r], constants)) return false;
    }
  return true;
}

static bool check_func(const checker *c) {
  bool *constants = vtb_xcalloc((size_t)c->f->n_values + 1, sizeof *constants);
  int *uses = vtb_count_uses((vtb_func *)c->f);
  bool good = check_values(c, constants);
  for (const vtb_inst *i = c->f->first; i && good; i = i->next) {
    if (i->n_operands && i->n_results == 1) good = check_view(c, i) && check_sum(c, i, uses);
    good = good && check_kept(c, i);
    for (int r = 0; r < i->n_results && good; r++) good = check_concat(c, i);
  }
  vtb_free(uses);
  vtb_free(constants);
  return good && check_lives(c);
}

/* A function's frame and the deepest of its callees', which come before it in the plan. */
static bool check_total(const checker *c, size_t at) {
  int64_t deepest = 0;
  for (const vtb_inst *i = c->f->first; i; i = i->next) {
    size_t k = 0;
    if (i->op != VTB_OP_call && i->op != VTB_OP_fold) continue;
    if (i->callee->kind != VTB_FUNC_PLAIN) continue;
    while (k < at && c->plan->funcs[k] != i->callee) k++;
    if (k == at) return broken(c, NULL, "@%s, which it calls, comes later", i->callee->name);
    if (c->plan->frames[k].total_bytes > deepest) deepest = c->plan->frames[k].total_bytes;
  }
  return c->frame->total_bytes == c->frame->bytes + deepest ||
         broken(c, NULL, "its total of %lld bytes is not its frame of %lld and callees of %lld",
                (long long)c->frame->total_bytes, (long long)c->frame->bytes, (long long)deepest);
}

vtb_status vtb_plan_check(const vtb_plan *p, const vtb_func *entry, const vtb_places *places,
                          vtb_error *err) {
  checker c = {.plan = p, .places = places, .err = err};
  c.small = places && places->small_bytes && ends_update(entry);
  for (size_t i = 0; i < p->n_funcs; i++) {
    c.f = p->funcs[i];
    c.frame = &p->frames[i];
    if (c.f->kind != VTB_FUNC_PLAIN) return broken(&c, NULL, "is of a kernel"), VTB_E_INTERNAL;
    if (!check_func(&c) || !check_total(&c, i)) return VTB_E_INTERNAL;
  }
  if (c.f != entry) return broken(&c, NULL, "is the last, not the entry's"), VTB_E_INTERNAL;
  if (p->peak_bytes != c.frame->total_bytes || p->kept_bytes != c.frame->kept_bytes)
    return broken(&c, NULL, "its total is not the plan's peak"), VTB_E_INTERNAL;
  return VTB_OK;
}
