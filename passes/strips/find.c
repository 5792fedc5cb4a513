/* Says of every value of a function how it follows the rows of the image, and what one strip hands
 * to the next; where something needs rows that come later, there are no strips, and it is told
 * what does. */
#include "passes/strips/strips.h"

#include <stdarg.h>

#include "ir/axes.h"
#include "ir/convolution.h"
#include "ir/fold.h"
#include "ir/recurrence.h"

enum { TOKENS = 1 };

typedef struct finder {
  vtb__strips *s;
  vtb__strip_func *f;
} finder;

static vtb__flow *flow(const finder *x, const vtb_value *v) { return &x->f->of[v->id]; }

static const vtb__flow *operand(const finder *x, const vtb_inst *i, int o) {
  return flow(x, i->operands[o]);
}

static bool follows(const finder *x, const vtb_inst *i, int o) {
  return operand(x, i, o)->when == VTB__ROWS;
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* "blocks.1.layer.conv: ", the scopes that an instruction stands in. */
static void put_scopes(const vtb__strips *s, const vtb_inst *at, vtb_strbuf *out) {
  for (size_t c = 0; c <= s->calls.n; c++) {
    const char *scope = (c < s->calls.n ? s->calls.at[c] : at)->span.scope;
    if (scope && *scope) vtb_strbuf_printf(out, "%s%s", out->n ? "." : "", scope);
  }
  if (out->n) vtb_strbuf_puts(out, ": ");
}

/* Tells why there are no strips, where `at` stands. False. */
VTB_PRINTF(3, 4) static bool refuse(vtb__strips *s, const vtb_inst *at, const char *fmt, ...) {
  char why[256];
  va_list args;
  vtb_strbuf text = {0};
  va_start(args, fmt);
  vsnprintf(why, sizeof why, fmt, args);
  va_end(args);
  put_scopes(s, at, &text);
  vtb_strbuf_printf(&text, "%s, so that there are no strips", why);
  vtb_diag_error(s->diags, VTB_DIAG_NO_STRIPS, at->span, "%s", text.at);
  for (size_t c = s->calls.n; c-- > 0;)
    vtb_diag_note(s->diags, s->calls.at[c]->span, "called from here");
  vtb_diag_help(s->diags, "strips are for models whose tokens are read one way, row after row");
  vtb_strbuf_free(&text);
  return false;
}

/* ---- what is handed on ----------------------------------------------------------------------- */

static int add_slot(const finder *x, vtb_type type, double init) {
  vtb__put(x->f->f, &x->f->slots, ((vtb__strip_slot){.type = type, .init = init}));
  return (int)x->f->slots.n - 1;
}

static vtb_type with_size(vtb_type t, int axis, int64_t size) {
  t.dim[axis] = (vtb_dim){.size = size};
  return t;
}

/* A sum over all tokens, or the largest: known behind the last strip. */
static bool gather_sum(const finder *x, const vtb_inst *i) {
  if (i->op == VTB_OP_einsum && i->n_operands > 2)
    return refuse(x->s, i, "a product over all tokens begins with a sum");
  double init = i->op == VTB_OP_reduce_max ? -3.4028234663852886e38 : 0;
  int slot = add_slot(x, i->results[0]->type, init);
  *flow(x, i->results[0]) = (vtb__flow){.when = VTB__LATE, .slot = slot};
  return true;
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* All operands that follow the rows do so alike; of those that lag less what came before waits. */
static bool align(const finder *x, const vtb_inst *i, vtb__flow *out) {
  int n = 0;
  for (int o = 0; o < i->n_operands; o++) {
    if (!follows(x, i, o)) continue;
    vtb__flow in = *operand(x, i, o);
    int axis = vtb__strips_after(i, o, in.axis);
    if (axis < 0 && axis != VTB_AXIS_GONE)
      return refuse(x->s, i, "%s takes tokens apart", vtb_op_get(i->op)->name);
    in.axis = axis;
    if (n && (in.axis != out->axis || in.head != out->head || in.per_row != out->per_row ||
              in.tail != out->tail))
      return refuse(x->s, i, "every token meets every other one");
    if (!n || in.lag > out->lag) {
      int64_t lag = in.lag;
      *out = in, out->lag = lag;
    }
    n++;
  }
  for (int o = 0; o < i->n_operands; o++) {
    const vtb__flow *in = operand(x, i, o);
    if (in->when == VTB__ROWS && in->lag < out->lag)
      add_slot(x, with_size(i->operands[o]->type, in->axis, (out->lag - in->lag) * in->per_row), 0);
  }
  return true;
}

static bool along(const finder *x, const vtb_inst *i) {
  return follows(x, i, 0) && operand(x, i, 0)->axis == (int)vtb_attr_int(i, "axis", 0);
}

/* A part of the tokens: all of those before the rows or behind them may go; any others are few. */
static bool visit_slice(const finder *x, const vtb_inst *i) {
  vtb__flow y = *operand(x, i, 0);
  vtb_slice p = vtb_slice_of(i);
  int64_t total = vtb__strips_total(x->s, &y), end = total - y.tail;
  bool first = p.start == 0 || p.start == y.head, last = p.limit == total || p.limit == end;
  if (p.step == 1 && first && last) {
    if (p.start) y.head = 0;
    if (p.limit < total) y.tail = 0;
    *flow(x, i->results[0]) = y;
    return true;
  }
  bool few = p.step == 1 && (p.limit - p.start == 1 || p.limit <= y.head || p.start >= end);
  if (!few)
    return refuse(x->s, i, "tokens %lld to %lld of %lld are read apart from the others",
                  (long long)p.start, (long long)p.limit - 1, (long long)total);
  y = (vtb__flow){.when = VTB__LATE, .slot = add_slot(x, i->results[0]->type, 0)};
  *flow(x, i->results[0]) = y;
  return true;
}

/* Tokens before the rows or behind them. */
static bool visit_concat(const finder *x, const vtb_inst *i) {
  vtb__flow y = {0};
  bool found = false;
  for (int o = 0; o < i->n_operands; o++) {
    int64_t size = i->operands[o]->type.dim[vtb_attr_int(i, "axis", 0)].size;
    if (follows(x, i, o)) {
      int64_t head = y.head;
      if (found) return refuse(x->s, i, "two sequences of tokens become one");
      y = *operand(x, i, o);
      y.head += head;
      found = true;
    } else if (found) {
      y.tail += size;
    } else {
      y.head += size;
    }
  }
  *flow(x, i->results[0]) = y;
  return true;
}

static bool visit_patches(const finder *x, const vtb_inst *i) {
  vtb__flow y = *operand(x, i, 0);
  vtb_patches p;
  if (y.axis != 2 || !vtb_patches_of(i, &i->operands[0]->type, &p))
    return refuse(x->s, i, "patches are not of rows");
  int a = VTB_GRID_AXES - p.rank;
  if (p.kernel[a] != p.stride[a] || p.low[a] || y.head || y.per_row % p.stride[a] ||
      y.tail >= p.stride[a] || p.out[a] != x->s->rows * y.per_row / p.stride[a])
    return refuse(x->s, i, "patches overlap or are cut off");
  y.axis = TOKENS;
  y.per_row = y.per_row / p.stride[a] * (vtb_axes_product(p.out) / p.out[a]);
  y.tail = 0;
  *flow(x, i->results[0]) = y;
  return true;
}

static bool visit_window(const finder *x, const vtb_inst *i, const vtb__window *w) {
  vtb__flow in = *operand(x, i, 0), y = in;
  int64_t carried = w->lag * w->lines + w->reach;
  int64_t line = in.per_row / w->lines, need = in.lag + (carried + w->lines - 1) / w->lines;
  if (need > x->f->need) x->f->need = need;
  add_slot(x, with_size(i->operands[0]->type, in.axis, carried * line), 0);
  y.axis = TOKENS;
  y.per_row = w->lines * w->width;
  y.lag += w->lag;
  *flow(x, i->results[0]) = y;
  return true;
}

static bool visit_convolution(const finder *x, const vtb_inst *i) {
  vtb__window w;
  int64_t behind = vtb__strips_causal(i);
  const vtb__flow *in = operand(x, i, 0);
  const char *order = i->op == VTB_OP_dwconv ? vtb__strips_order(i) : NULL;
  if (!follows(x, i, 0) || order)
    return refuse(x->s, i, "a convolution goes over the tokens %s",
                  order ? order : "that are its weights");
  if (behind >= 0) {
    if (behind) add_slot(x, with_size(i->operands[0]->type, TOKENS, behind), 0);
    *flow(x, i->results[0]) = *in;
    return true;
  }
  if (vtb__strips_window(x->s, i, in, &w)) return visit_window(x, i, &w);
  if (i->op == VTB_OP_im2col) return visit_patches(x, i);
  return refuse(x->s, i, "a convolution reads tokens that come later");
}

/* ---- recurrences ----------------------------------------------------------------------------- */

static void hand_on_states(const finder *x, const vtb_inst *i, int from, int first, int n,
                           int step) {
  for (int k = 0; k < n; k++) {
    vtb_value *state = i->results[first + k * step];
    int slot = add_slot(x, state->type, 0);
    if (from >= 0) x->f->slots.at[slot].from = i->operands[from + k];
    *flow(x, state) = (vtb__flow){.when = VTB__LATE, .slot = slot};
  }
}

static bool visit_recurrence(const finder *x, const vtb_inst *i) {
  vtb__flow y = {0};
  const char *order = vtb__strips_order(i);
  if (order) return refuse(x->s, i, "a recurrence reads the tokens %s", order);
  if (!align(x, i, &y)) return false;
  for (int r = 0; r < i->n_results; r++) *flow(x, i->results[r]) = y;
  if (i->op == VTB_OP_linscan) {
    vtb_scan p = vtb_scan_of(i);
    hand_on_states(x, i, p.init ? p.at.s0 : -1, 1, 1 + p.normalizer, 2);
  } else if (i->op == VTB_OP_delta) {
    vtb_delta p = vtb_delta_of(i);
    vtb_type t =
        VTB__F32(i->operands[0]->type.dim[0], {.size = p.n_heads}, {.size = p.K}, {.size = p.V});
    int slot = add_slot(x, t, 0);
    if (p.init) x->f->slots.at[slot].from = i->operands[p.at.s0];
  } else if (i->op == VTB_OP_maxplus) {
    vtb_type t = vtb_type_without_axis(&i->results[0]->type, TOKENS);
    int slot = add_slot(x, t, -1e30);
    if (i->n_operands == 3) x->f->slots.at[slot].from = i->operands[2];
  } else {
    vtb_fold p = vtb_fold_of(i);
    if (p.keep || p.steps || p.tile)
      return refuse(x->s, i, "a loop of so many steps goes over tokens");
    hand_on_states(x, i, 0, p.yields, p.states, 1);
  }
  return true;
}

/* The value of the token before. */
static bool visit_shift(const finder *x, const vtb_inst *i) {
  const vtb__flow *y = operand(x, i, 0);
  const char *order = vtb__strips_order(i);
  if (order || vtb_attr_int(i, "by", 0) != 1 || !follows(x, i, 0))
    return refuse(x->s, i, "a token reads what comes behind it");
  vtb_type t = vtb_type_without_axis(&i->operands[0]->type, y->axis);
  int slot = add_slot(x, t, vtb_attr_float(i, "fill", 0));
  if (i->n_operands > 1) x->f->slots.at[slot].from = i->operands[1];
  *flow(x, i->results[0]) = *y;
  return true;
}

static bool visit_prefix_sum(const finder *x, const vtb_inst *i) {
  const vtb__flow *y = operand(x, i, 0);
  const char *order = vtb__strips_order(i);
  if (order) return refuse(x->s, i, "a sum goes over the tokens %s", order);
  add_slot(x, with_size(i->operands[0]->type, y->axis, 1), 0);
  *flow(x, i->results[0]) = *y;
  return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool visit_call(const finder *x, const vtb_inst *i) {
  vtb__strips *s = x->s;
  int64_t shift = vtb__strips_shift(x->f, i);
  vtb__flow *args = VTB_SCRATCH(x->f->f, vtb__flow, i->n_operands);
  for (int o = 0; o < i->n_operands; o++) {
    args[o] = *operand(x, i, o);
    if (args[o].when == VTB__LATE) return refuse(s, i, "tokens read what is made of all of them");
    if (args[o].when == VTB__ROWS) args[o].lag -= shift;
  }
  vtb__put(s, &s->calls, i);
  vtb__strip_func *callee = vtb__strips_find(s, i->callee, args);
  s->calls.n--;
  if (!callee) return false;
  int first = (int)x->f->slots.n;
  x->f->callee[i->order] = callee;
  if (callee->need + shift > x->f->need) x->f->need = callee->need + shift;
  for (int k = 0; k < (int)callee->slots.n; k++) {
    vtb__strip_slot slot = {.type = callee->slots.at[k].type, .of = callee, .call = i, .at = k};
    vtb__put(x->f->f, &x->f->slots, slot);
  }
  for (int r = 0; r < i->n_results; r++) {
    vtb__flow y = callee->of[i->callee->returns[r]->id];
    if (y.when == VTB__ROWS) y.lag += shift;
    if (y.when == VTB__LATE && y.slot >= 0) y.slot += first;
    *flow(x, i->results[r]) = y;
  }
  return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

static const char *word_of(const vtb_inst *i) {
  return i->op == VTB_OP_permute ? "another order" : vtb_op_get(i->op)->name;
}

static bool visit_ordinary(const finder *x, const vtb_inst *i) {
  vtb_op_class klass = vtb_op_get(i->op)->klass;
  vtb__flow y = {0};
  bool known = klass == VTB_CLASS_ELEMENTWISE || klass == VTB_CLASS_REDUCE ||
               i->op == VTB_OP_einsum || i->op == VTB_OP_broadcast || i->op == VTB_OP_transpose ||
               i->op == VTB_OP_slice || i->op == VTB_OP_pad || i->op == VTB_OP_concat ||
               i->op == VTB_OP_tap || (i->op == VTB_OP_permute && !along(x, i));
  if (!known) return refuse(x->s, i, "%s reads tokens that come later", word_of(i));
  if (!align(x, i, &y)) return false;
  if (y.axis == VTB_AXIS_GONE) return gather_sum(x, i);
  *flow(x, i->results[0]) = y;
  return true;
}

static bool visit_rows(const finder *x, const vtb_inst *i) {
  vtb__flow y = i->n_operands ? *operand(x, i, 0) : (vtb__flow){0};
  switch (i->op) {
  case VTB_OP_call:
    return visit_call(x, i);
  case VTB_OP_reshape:
    if (!vtb__strips_reshaped(x->s, &i->operands[0]->type, &i->results[0]->type, &y))
      return refuse(x->s, i, "a reshape takes rows apart");
    *flow(x, i->results[0]) = y;
    return true;
  case VTB_OP_im2col:
  case VTB_OP_dwconv:
    return visit_convolution(x, i);
  case VTB_OP_linscan:
  case VTB_OP_delta:
  case VTB_OP_maxplus:
  case VTB_OP_fold:
    return visit_recurrence(x, i);
  case VTB_OP_slice:
    return along(x, i) ? visit_slice(x, i) : visit_ordinary(x, i);
  case VTB_OP_concat:
    for (int o = 0; o < i->n_operands; o++)
      if (follows(x, i, o) && operand(x, i, o)->axis == (int)vtb_attr_int(i, "axis", 0))
        return visit_concat(x, i);
    return visit_ordinary(x, i);
  case VTB_OP_shift:
    return along(x, i) ? visit_shift(x, i) : refuse(x->s, i, "values are moved");
  case VTB_OP_prefix_sum:
    return along(x, i) ? visit_prefix_sum(x, i) : refuse(x->s, i, "values are summed");
  default:
    return visit_ordinary(x, i);
  }
}

static bool visit(const finder *x, const vtb_inst *i) {
  bool rows = false, late = false;
  for (int o = 0; o < i->n_operands; o++) {
    rows |= follows(x, i, o);
    late |= operand(x, i, o)->when == VTB__LATE;
  }
  x->f->slot_of[i->order] = (int)x->f->slots.n;
  if (rows && late) return refuse(x->s, i, "tokens read what is made of all of them");
  for (int r = 0; r < i->n_results && late; r++)
    *flow(x, i->results[r]) = (vtb__flow){.when = VTB__LATE, .slot = -1};
  if (!rows) return true;
  if (!visit_rows(x, i)) return false;
  for (int r = 0; r < i->n_results; r++) {
    const vtb__flow *y = flow(x, i->results[r]);
    x->s->has_head |= y->when == VTB__ROWS && y->head > 0;
  }
  return true;
}

static bool same_flow(const vtb__flow *x, const vtb__flow *y) {
  return x->when == y->when &&
         (x->when == VTB__WHOLE ||
          (x->axis == y->axis && x->head == y->head && x->per_row == y->per_row &&
           x->tail == y->tail && x->lag == y->lag));
}

static vtb__strip_func *known(const vtb__strips *s, const vtb_func *f, const vtb__flow *args) {
  for (vtb__strip_func *x = s->funcs; x; x = x->next) {
    bool same = x->f == f;
    for (int a = 0; a < f->n_args && same; a++) same = same_flow(&x->of[f->args[a]->id], &args[a]);
    if (same) return x;
  }
  return NULL;
}

vtb__strip_func *vtb__strips_find(vtb__strips *s, vtb_func *f, const vtb__flow *args) {
  vtb__strip_func *made = known(s, f, args);
  if (made) return made;
  int n = vtb_func_number(f);
  made = VTB_SCRATCH(f, vtb__strip_func, 0);
  made->f = f;
  made->last = f->last;
  made->of = VTB_SCRATCH(f, vtb__flow, f->n_values);
  made->slot_of = VTB_SCRATCH(f, int, n);
  made->callee = VTB_SCRATCH(f, vtb__strip_func *, n);
  finder x = {s, made};
  for (int a = 0; a < f->n_args; a++) made->of[f->args[a]->id] = args[a];
  for (const vtb_inst *i = f->first; i; i = i->next)
    if (!visit(&x, i)) return NULL;
  made->next = s->funcs;
  return s->funcs = made;
}
