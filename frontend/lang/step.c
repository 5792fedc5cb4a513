/* Step functions: the body of a recurrence evaluated once on the shapes of one step.
 *
 * Axes are known by name. Every value in the step has its axes in one order, that of the states
 * (order_axes in recurrence.c), then of their first appearance in the parameters; operands of
 * elementwise operators meet by name, so [E] * [E, N] needs no reshaping.
 */
#include "frontend/lang/builtin.h"
#include "frontend/lang/recurrence.h"
#include "ir/ops.h"

/* ---- builtins of steps ----------------------------------------------------------------------- */

/* Letters of the axes in `set`, of `all` that stand for the axes of the step. */
static void axis_text(const vtb__step *s, unsigned set, const char *all, char *out) {
  for (int a = 0; a < s->n_axes; a++)
    if (set & (1u << a)) *out++ = all[a];
  *out = '\0';
}

/* dot(x, y): the product summed over the axes both have. */
vtb__val vtb__b_dot(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), y = vtb__arg(a, "y");
  vtb_value *vx = x.u.t.v, *vy = y.u.t.v;
  const vtb__step *s = e->frame->step;
  unsigned sx = vtb__step_axes_of(s, &vx->type), sy = vtb__step_axes_of(s, &vy->type);
  if (!(sx & sy))
    return vtb__report(e, VTB_DIAG_SHAPE_MISMATCH, a->span,
                       "dot of %s and %s, which have no axis in common", vtb__describe(e, x),
                       vtb__describe(e, y));
  char in1[VTB_MAX_RANK + 1], in2[VTB_MAX_RANK + 1], out[VTB_MAX_RANK + 1];
  char all[VTB_MAX_RANK + 1];
  vtb_type whole = vtb__step_type_of_axes(s, (1u << s->n_axes) - 1);
  vtb__axis_letters(&whole, s->n_axes, "", all);
  axis_text(s, sx, all, in1);
  axis_text(s, sy, all, in2);
  axis_text(s, sx ^ sy, all, out);
  const char *spec = vtb_arena_printf(&e->arena, "%s,%s->%s", in1, in2, out);
  vtb_value *r = vtb_b_einsum(vtb__at(e, a->span), spec, vx, vy);
  vtb_type t = vtb__step_type_of_axes(s, sx ^ sy);
  for (int i = 0; r && i < t.rank; i++) r->type.dim[i].name = vtb_intern(e->module, t.dim[i].name);
  return vtb__tensor(r, NULL);
}

/* outer(x, y): every product of an element of x and one of y. */
vtb__val vtb__b_outer(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), y = vtb__arg(a, "y");
  vtb_value *vx = x.u.t.v, *vy = y.u.t.v;
  const vtb__step *s = e->frame->step;
  if (vtb__step_axes_of(s, &vx->type) & vtb__step_axes_of(s, &vy->type))
    return vtb__report(e, VTB_DIAG_SHAPE_MISMATCH, a->span,
                       "outer of %s and %s, which have an axis in common; write *",
                       vtb__describe(e, x), vtb__describe(e, y));
  return vtb__elementwise2(e, VTB_OP_mul, x, y, a->span);
}

/* rename_axis(x, "J", "K"): axis J of x as axis K, which has the same size: for a matrix that maps
 * a state to itself. */
vtb__val vtb__b_rename_axis(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  const char *names[] = {vtb__arg(a, "from").u.str.s, vtb__arg(a, "to").u.str.s};
  vtb_value *v = x.u.t.v;
  const vtb__step *s = e->frame->step;
  int from = vtb__step_axis_of(s, names[0]), to = vtb__step_axis_of(s, names[1]);
  unsigned own = vtb__step_axes_of(s, &v->type);
  if (from < 0 || to < 0)
    return vtb__report(e, VTB_DIAG_UNKNOWN_AXIS, a->span, "'%s' is no axis of this recurrence",
                       names[from >= 0]);
  if (!(own & (1u << from)) || (own & (1u << to)) || s->sizes[from] != s->sizes[to])
    return vtb__report(e, VTB_DIAG_SHAPE_MISMATCH, a->span,
                       "axis %s [%lld] of %s cannot become axis %s [%lld]", names[0],
                       (long long)s->sizes[from], vtb__describe(e, x), names[1],
                       (long long)s->sizes[to]);
  vtb_type t = vtb__step_type_of_axes(s, (own & ~(1u << from)) | 1u << to);
  int64_t perm[VTB_MAX_RANK];
  bool moved = false;
  for (int i = 0; i < t.rank; i++) { /* where the axes of the result were */
    int was =
        vtb__step_axis_of(s, t.dim[i].name) == to ? from : vtb__step_axis_of(s, t.dim[i].name);
    perm[i] = 0;
    for (int k = 0; k < v->type.rank; k++)
      if (vtb__step_axis_of(s, v->type.dim[k].name) == was) perm[i] = k;
    moved |= perm[i] != i;
  }
  vtb_builder *b = vtb__at(e, a->span);
  v = moved ? vtb_b_transpose(b, v, perm) : vtb_b_reshape(b, v, &t);
  for (int i = 0; v && i < t.rank; i++) v->type.dim[i].name = vtb_intern(e->module, t.dim[i].name);
  return vtb__tensor(v, NULL);
}

vtb__val vtb__b_scale(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "state");
  vtb_value *v = x.u.t.v;
  const vtb__step *s = e->frame->step;
  bool known = !v->def && v->index < s->n_states;
  for (int i = 0; i < s->n_states && !known; i++) {
    vtb__binding *b = vtb__env_find_here(e->env, s->states[i]);
    known = b && b->value.kind == VTB__TENSOR && b->value.u.t.v == v;
  }
  if (!known)
    return vtb__report(e, VTB_DIAG_SCALE_OF, a->span, "%s takes a state, not %s", a->name,
                       vtb__describe(e, x));
  vtb_type t = vtb_type_scalar();
  vtb_attr attr = VTB_A_INT("log", 1);
  int n_attrs = strcmp(a->name, "log_scale") == 0;
  vtb_inst *i =
      vtb_build_typed(vtb__at(e, a->span), VTB_OP_state_scale, NULL, 0, &attr, n_attrs, &t, 1);
  return vtb__tensor(i ? i->results[0] : NULL, NULL);
}

/* ---- equal subterms -------------------------------------------------------------------------- */

static bool inst_equal(const vtb_inst *a, const vtb_inst *b) {
  if (a->op != b->op || a->n_operands != b->n_operands || a->n_attrs != b->n_attrs ||
      a->n_results != 1 || b->n_results != 1)
    return false;
  for (int i = 0; i < a->n_operands; i++)
    if (a->operands[i] != b->operands[i]) return false;
  for (int i = 0; i < a->n_attrs; i++)
    if (!vtb_attr_equal(&a->attrs[i], &b->attrs[i])) return false;
  return vtb_type_equal(&a->results[0]->type, &b->results[0]->type);
}

/* Users write a gate wherever it acts; the analysis of decays wants to see that it is the same
 * gate. */
static void share_equal(vtb_func *f) {
  for (vtb_inst *inst = f->first, *next; inst; inst = next) {
    next = inst->next;
    for (vtb_inst *earlier = f->first; earlier != inst; earlier = earlier->next) {
      if (!inst_equal(inst, earlier)) continue;
      vtb_replace_all(inst->results[0], earlier->results[0]);
      vtb_inst_unlink(inst);
      break;
    }
  }
}

/* ---- the step function ----------------------------------------------------------------------- */

/* An argument of the step, in the order it was declared with; what the body sees has the step's
 * order. */
static vtb_value *argument(vtb__eval *e, vtb__rcall *c, vtb_name name, const vtb_type_expr *type) {
  vtb_type t = {.dtype = VTB_F32, .rank = (int)type->dims.n};
  int order[VTB_MAX_RANK];
  bool sorted = true;
  for (int i = 0; i < t.rank; i++) {
    order[i] = vtb__axis_index(c, type->dims.at[i]->u.name);
    t.dim[i] = (vtb_dim){c->sizes[order[i]], c->axes[order[i]]};
    sorted &= i == 0 || order[i] > order[i - 1];
  }
  vtb_value *v = vtb_func_add_arg(e->frame->func, name.text, t);
  if (sorted) return v;
  int64_t perm[VTB_MAX_RANK];
  int n = 0;
  for (int a = 0; a < c->n_axes; a++)
    for (int i = 0; i < t.rank; i++)
      if (order[i] == a) perm[n++] = i;
  return n == t.rank ? vtb_b_transpose(vtb__at(e, name.span), v, perm) : NULL;
}

static bool bind_arguments(vtb__eval *e, vtb__rcall *c, vtb__step *s) {
  const vtb_decl *d = c->decl;
  for (int i = 0; i < c->n_axes; i++)
    vtb__env_bind(e, c->axes[i], vtb__int(c->sizes[i]), "the size of an axis", d->name.span);
  for (size_t i = 0; i < c->n_states; i++) {
    vtb_value *v = argument(e, c, c->state[i]->name, c->state[i]->type);
    if (!v) return false;
    s->state[i] = v;
    s->states[i] = c->state[i]->name.text;
  }
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < d->params.n; i++) {
      const vtb_param *p = d->params.at[i];
      if (!c->is_step[i] && pass == 0 && vtb__axis_index(c, p->name.text) < 0)
        vtb__env_bind(e, p->name.text, c->values[i], "a parameter", p->name.span);
      if (!c->is_step[i] || c->is_seq[i] != (pass == 0)) continue;
      vtb_value *v = argument(e, c, p->name, p->type);
      if (!v) return false;
      vtb__env_bind(e, p->name.text, vtb__tensor(v, NULL), NULL, p->name.span);
    }
  return true;
}

/* A state's new value, or what is yielded, with its axes in the order that it was declared with. */
static vtb_value *as_declared(vtb__eval *e, vtb__rcall *c, vtb_value *v, const vtb_type_expr *t,
                              vtb_span span) {
  int64_t perm[VTB_MAX_RANK];
  bool moved = false;
  for (size_t i = 0; i < t->dims.n; i++) {
    int own = vtb__axis_index(c, t->dims.at[i]->u.name);
    perm[i] = 0; /* how many of the state's axes stand before it in the step's order */
    for (size_t k = 0; k < t->dims.n; k++)
      perm[i] += vtb__axis_index(c, t->dims.at[k]->u.name) < own;
    moved |= perm[i] != (int64_t)i;
  }
  if (!moved) return v;
  return vtb_b_transpose(vtb__at(e, span), v, perm);
}

static bool same_axes(vtb__eval *e, vtb__rcall *c, const vtb__step *s, vtb__val v,
                      const vtb_type_expr *t, vtb_span span, vtb_value **out) {
  unsigned want = 0;
  for (size_t i = 0; i < t->dims.n; i++) {
    int a = t->dims.at[i]->kind == VTB_EXPR_NAME ? vtb__axis_index(c, t->dims.at[i]->u.name) : -1;
    if (a < 0) {
      vtb__report(e, VTB_DIAG_UNKNOWN_AXIS, t->dims.at[i]->span,
                  "unknown axis; axes come from parameters and states");
      return false;
    }
    want |= 1u << a;
  }
  vtb_value *x = vtb__as_tensor(e, v, span);
  if (!x) return false;
  vtb_type full = vtb__step_type_of_axes(s, want);
  if (vtb__step_axes_of(s, &x->type) & ~want) {
    unsigned more = vtb__step_axes_of(s, &x->type) & ~want;
    int first = __builtin_ctz(more);
    vtb__report(e, VTB_DIAG_YIELD_SHAPE, span, "the yield is %s, and %s is declared",
                vtb__type_string(e, &x->type), vtb__type_string(e, &full));
    if (e->stopped) return false;
    vtb_diag_note(e->diags, t->span, "declared here, without %s", s->axes[first]);
    vtb__help(e,
              "dot(x, y) sums over %s, where both have it; rename_axis(x, \"%s\", ...) takes it "
              "for another axis of that size",
              s->axes[first], s->axes[first]);
    return false;
  }
  if (!vtb_type_equal(&x->type, &full)) {
    x = vtb__step_spread(e, x, want, span);
    x = vtb_b_broadcast(vtb__at(e, span), x, &full);
  }
  return (*out = x ? as_declared(e, c, x, t, span) : NULL) != NULL;
}

/* The place of the i-th value that the body yields. */
static vtb_span yield_span(const vtb_decl *d, size_t i) {
  for (size_t k = 0; k < d->body.n; k++)
    if (d->body.at[k]->kind == VTB_STMT_YIELD && i < d->body.at[k]->u.values.n)
      return d->body.at[k]->u.values.at[i]->span;
  return d->name.span;
}

static bool set_returns(vtb__eval *e, vtb__rcall *c, vtb__step *s, vtb__rstep *r) {
  const vtb_decl *d = c->decl;
  size_t n = c->n_states + s->yields.n + s->taps.n, k = 0;
  vtb_value **at = VTB_NEW_ARRAY(&e->arena, vtb_value *, n);
  for (size_t i = 0; i < c->n_states; i++) {
    const vtb__binding *b = vtb__env_find_here(e->env, s->states[i]);
    vtb__val v = b ? b->value : VTB__ERR;
    if (!s->updated[i]) {
      vtb__report(e, VTB_DIAG_MISSING_UPDATE, c->state[i]->name.span,
                  "state '%s' is never assigned", s->states[i]);
      return false;
    }
    if (v.kind != VTB__TENSOR) return false;
    at[k] = as_declared(e, c, v.u.t.v, c->state[i]->type, c->state[i]->name.span);
    if (!at[k++]) return false;
  }
  if (!s->yields.n) {
    vtb__report(e, VTB_DIAG_MISSING_YIELD, d->name.span, "recurrence '%s' yields nothing",
                d->name.text);
    return false;
  }
  if (d->n_results && d->n_results != s->yields.n) {
    vtb__report(e, VTB_DIAG_VALUE_COUNT, d->name.span,
                "recurrence '%s' declares %zu results and yields %zu", d->name.text, d->n_results,
                s->yields.n);
    return false;
  }
  for (size_t i = 0; i < s->yields.n; i++) {
    if (s->yields.at[i].kind == VTB__ERROR) return false;
    vtb_span span = yield_span(d, i);
    if (d->n_results ? !same_axes(e, c, s, s->yields.at[i], d->results[i], span, &at[k])
                     : !(at[k] = vtb__as_tensor(e, s->yields.at[i], span)))
      return false;
    k++;
  }
  r->n_yields = s->yields.n;
  r->n_taps = s->taps.n;
  r->tap_names = VTB_NEW_ARRAY(&e->arena, const char *, s->taps.n);
  for (size_t i = 0; i < s->taps.n; i++) {
    r->tap_names[i] = s->taps.at[i].name;
    at[k++] = s->taps.at[i].value;
  }
  vtb_func_set_returns(e->frame->func, at, NULL, (int)k);
  share_equal(e->frame->func);
  return true;
}

static void build_step(vtb__eval *e, vtb__rcall *c, vtb__rstep *r) {
  const vtb_decl *d = c->decl;
  vtb__step s = {.decl = d, .n_axes = c->n_axes, .n_states = (int)c->n_states};
  memcpy(s.axes, c->axes, sizeof s.axes);
  memcpy(s.sizes, c->sizes, sizeof s.sizes);
  s.states = VTB_NEW_ARRAY(&e->arena, const char *, c->n_states);
  s.state = VTB_NEW_ARRAY(&e->arena, vtb_value *, c->n_states);
  s.updated = VTB_NEW_ARRAY(&e->arena, bool, c->n_states);
  vtb__frame frame = {.step = &s, .calls = e->calls}, *saved_frame = e->frame;
  frame.func = vtb_func_new(e->module, d->name.text, VTB_FUNC_STEP, d->name.span);
  frame.b = (vtb_builder){.module = e->module, .func = frame.func, .diags = e->diags};
  vtb__env env = {0}, *saved_env = e->env;
  const vtb_file *file = e->file;
  const vtb_decl *decl = e->decl;
  int errors = e->diags->n_errors;
  e->frame = &frame;
  e->env = vtb_arena_memdup(&e->arena, &env, sizeof env);
  e->file = d->file;
  e->decl = d;
  if (bind_arguments(e, c, &s)) {
    vtb__body_value(e, &d->body);
    if (e->diags->n_errors == errors && !e->stopped && set_returns(e, c, &s, r) &&
        vtb__check_chain(e, frame.func, "the step of", d->name.text))
      r->func = frame.func;
  }
  r->env = e->env;
  e->frame = saved_frame;
  e->env = saved_env;
  e->file = file;
  e->decl = decl;
  vtb_vec_free(&s.yields);
  vtb_vec_free(&s.taps);
}

vtb__rstep *vtb__rcall_step(vtb__eval *e, vtb__rcall *c) {
  vtb_strbuf key = {0};
  vtb_strbuf_printf(&key, "%p", (const void *)c->decl);
  for (int i = 0; i < c->n_axes; i++) vtb_strbuf_printf(&key, ";%lld", (long long)c->sizes[i]);
  for (size_t i = 0; i < c->decl->params.n; i++) {
    vtb_strbuf_putc(&key, ';');
    if (c->is_step[i])
      vtb_strbuf_putc(&key, c->is_seq[i] ? 's' : 'c');
    else
      vtb__val_key(c->values[i], &key);
  }
  vtb__rstep *r = vtb_map_get(&e->steps, key.at);
  if (!r) {
    r = VTB_NEW(&e->arena, vtb__rstep);
    vtb_map_set(&e->steps, key.at, r);
    build_step(e, c, r);
  }
  e->step_env = r->env;
  vtb_strbuf_free(&key);
  return r;
}
