/* jvp(f, x, dx): a function's values, and how they move as its arguments do.
 *
 * The call f(x) is evaluated as the body of a block is, into a function of its own with the tensors
 * as arguments and the params of f behind them; op tangent is that function with tangents beside
 * some arguments. Params, and arguments without a tangent, stand still. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

typedef struct tangent_call {
  const vtb__args *a;
  vtb__argument *x, *dx; /* those by place; dx as they were given */
  size_t n;
  vtb_decl *decl; /* the call as a body: its parameters are .f, x.0, x.1 ..., then named ones */
  vtb__env *bound;
} tangent_call;

static vtb__val wrong(vtb__eval *e, vtb_span span, const char *text) {
  vtb__report(e, VTB_DIAG_BAD_TANGENT, span, "%s", text);
  vtb__hint_call(e, "jvp");
  return VTB__ERR;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static size_t parts(vtb__eval *e, const vtb__argument *whole, vtb__argument **out) {
  bool list = whole->value.kind == VTB__LIST;
  size_t n = list ? whole->value.u.list.n : 1;
  *out = VTB_NEW_ARRAY(&e->arena, vtb__argument, n);
  for (size_t i = 0; i < n; i++) {
    (*out)[i] = *whole;
    if (list) (*out)[i].value = whole->value.u.list.at[i];
  }
  return n;
}

static bool stands_still(vtb__val dx) {
  return dx.kind == VTB__NONE || (vtb__is_number(dx) && vtb__val_number(dx) == 0);
}

/* A tangent in the shape and the order of what moves. */
static vtb_value *tangent_for(vtb__eval *e, const vtb__argument *x, const vtb__argument *dx) {
  vtb__val v = dx->value;
  if (x->value.kind != VTB__TENSOR || x->value.u.t.v->type.dtype != VTB_F32) {
    vtb__report(e, VTB_DIAG_BAD_TANGENT, x->span, "%s has no tangent: it is no tensor of floats",
                vtb__describe(e, x->value));
    vtb__help(e, "none, in the list dx, is for what stands still: jvp(f, [x, labels], [dx, none])");
    return NULL;
  }
  const vtb_type *want = &x->value.u.t.v->type;
  if (vtb__is_number(v)) {
    vtb_builder *b = vtb__at(e, dx->span);
    return b ? vtb_b_splat(b, vtb__val_number(v), want) : NULL;
  }
  if (v.kind != VTB__TENSOR || !vtb_type_equal(&v.u.t.v->type, want)) {
    vtb__report(e, VTB_DIAG_BAD_TANGENT, dx->span, "the tangent of %s is %s",
                vtb__describe(e, x->value), vtb__describe(e, v));
    vtb__help(e, "a tangent has the shape of what moves; a number moves all of it alike, none "
                 "nothing");
    return NULL;
  }
  return vtb__layout_merge(e, x->value, v, dx->span) ? v.u.t.v : NULL;
}

static bool take_parts(vtb__eval *e, tangent_call *c) {
  const vtb__args *a = c->a;
  if (vtb__arg(a, "f").kind != VTB__FUNCTION) {
    vtb__report(e, VTB_DIAG_BAD_TANGENT, vtb__arg_of(a, "f")->span,
                "jvp takes what is called, not %s", vtb__describe(e, vtb__arg(a, "f")));
    vtb__help(e,
              "name a fn, block, recurrence, builtin or model, without calling it: jvp(f, x, dx)");
    return false;
  }
  c->n = parts(e, vtb__arg_of(a, "x"), &c->x);
  size_t n = parts(e, vtb__arg_of(a, "dx"), &c->dx);
  bool same =
      c->n == n && (vtb__arg(a, "x").kind == VTB__LIST) == (vtb__arg(a, "dx").kind == VTB__LIST);
  if (!same)
    vtb__report(e, VTB_DIAG_BAD_TANGENT, a->span, "x is %s, and dx is %s",
                vtb__describe(e, vtb__arg(a, "x")), vtb__describe(e, vtb__arg(a, "dx")));
  if (!same) vtb__help(e, "each argument has a tangent, or none: jvp(f, [x, t], [dx, none])");
  return same;
}

/* ---- the function ---------------------------------------------------------------------------- */

static vtb_expr *expr(vtb__eval *e, vtb_expr_kind kind, vtb_span span) {
  vtb_expr *x = VTB_NEW(&e->arena, vtb_expr);
  *x = (vtb_expr){.kind = kind, .depth = 1, .span = span};
  return x;
}

/* A parameter of the body, and the argument of f that it is. */
static void add_argument(vtb__eval *e, tangent_call *c, vtb_arg_list *args, const char *name,
                         const char *as, const vtb__argument *given) {
  vtb_param *p = VTB_NEW(&e->arena, vtb_param);
  *p = (vtb_param){.name = {.text = name, .span = given->span}, .span = given->span};
  c->decl->params.at[c->decl->params.n++] = p;
  vtb__env_bind(e, name, given->value, NULL, given->span);
  if (!args) return;
  vtb_arg *arg = VTB_NEW(&e->arena, vtb_arg);
  *arg = (vtb_arg){.name = {.text = as, .span = given->span},
                   .value = expr(e, VTB_EXPR_NAME, given->span),
                   .span = given->span};
  arg->value->u.name = name;
  args->at[args->n++] = arg;
}

/* f(x.0, x.1, name = name) as the body of a declaration. */
static void make_body(vtb__eval *e, tangent_call *c) {
  const vtb__args *a = c->a;
  const vtb__argument *f = vtb__arg_of(a, "f");
  size_t n = 1 + c->n + a->n_more;
  vtb_decl *d = c->decl = VTB_NEW(&e->arena, vtb_decl);
  vtb_stmt *s = VTB_NEW(&e->arena, vtb_stmt);
  vtb_expr *call = expr(e, VTB_EXPR_CALL, a->span);
  vtb__env env = {0}, *caller = e->env;
  *d = (vtb_decl){.kind = VTB_DECL_FN, .span = a->span, .doc = "", .file = (vtb_file *)e->file};
  d->name = (vtb_name){.text = vtb__function_name(f->value), .span = a->span};
  d->params.at = VTB_NEW_ARRAY(&e->arena, vtb_param *, n);
  call->u.call.callee = (vtb_name){.text = ".f", .span = f->span}; /* no parameter's name */
  call->u.call.args.at = VTB_NEW_ARRAY(&e->arena, vtb_arg *, n);
  *s = (vtb_stmt){.kind = VTB_STMT_EXPR, .depth = 2, .span = a->span, .u.value = call};
  d->body.at = vtb_arena_memdup(&e->arena, &s, sizeof s);
  d->body.n = 1;
  d->body.span = a->span;
  e->env = c->bound = vtb_arena_memdup(&e->arena, &env, sizeof env);
  vtb__argument called = *f;
  called.value.u.fn.at = VTB_NO_SPAN; /* where it was named is the call */
  add_argument(e, c, NULL, ".f", NULL, &called);
  for (size_t i = 0; i < c->n; i++)
    add_argument(e, c, &call->u.call.args, vtb_arena_printf(&e->arena, "x.%zu", i), NULL, &c->x[i]);
  for (size_t i = 0; i < a->n_more; i++)
    add_argument(e, c, &call->u.call.args, a->more[i].name, a->more[i].name, &a->more[i]);
  e->env = caller;
}

static int count_tensors(vtb__val v) {
  int n = v.kind == VTB__TENSOR;
  for (size_t i = 0; (v.kind == VTB__LIST || v.kind == VTB__TUPLE) && i < v.u.list.n; i++)
    n += count_tensors(v.u.list.at[i]);
  return n;
}

static vtb_inst *build(vtb__eval *e, const tangent_call *c, const vtb__instance *in) {
  vtb_value **at = VTB_NEW_ARRAY(&e->arena, vtb_value *, in->func->n_args + (int)c->n);
  int64_t *wrt = VTB_NEW_ARRAY(&e->arena, int64_t, c->n);
  int n = 0, argument = 0;
  memcpy(at, in->operands, (size_t)in->func->n_args * sizeof *at);
  for (size_t i = 0; i < c->n; i++) {
    bool still = stands_still(c->dx[i].value);
    vtb_value *d = still ? NULL : tangent_for(e, &c->x[i], &c->dx[i]);
    if (!still && !d) return NULL;
    if (d) at[in->func->n_args + n] = d, wrt[n++] = argument;
    argument += count_tensors(c->x[i].value);
  }
  if (!n) return wrong(e, c->a->span, "nothing moves: every tangent is 0 or none"), NULL;
  vtb_attr attr = VTB_A_INTS("wrt", wrt, n);
  vtb_builder *b = vtb__at(e, c->a->span);
  return b ? vtb_build_call(b, VTB_OP_tangent, in->func, at, in->func->n_args + n, &attr, 1) : NULL;
}

static bool has_tangents(vtb__eval *e, const tangent_call *c, const vtb__instance *in) {
  for (size_t i = 0; i < in->n_results; i++) {
    if (in->results[i].u.t.v->type.dtype == VTB_F32) continue;
    vtb__report(e, VTB_DIAG_BAD_TANGENT, c->a->span, "'%s' gives %s, which has no tangent",
                c->decl->name.text, vtb__describe(e, in->results[i]));
    return false;
  }
  return true;
}

vtb__val vtb__b_jvp(vtb__eval *e, const vtb__args *a) {
  tangent_call c = {.a = a};
  if (!take_parts(e, &c)) return VTB__ERR;
  make_body(e, &c);
  bool frozen = e->frozen;
  e->frozen |= vtb__freezes_scope(e);
  const vtb__instance *in = vtb__instance_of(e, "jvp", c.decl, c.bound, a->span);
  e->frozen = frozen;
  vtb_inst *made = in && has_tangents(e, &c, in) ? build(e, &c, in) : NULL;
  if (!made) return VTB__ERR;
  size_t n = in->n_results;
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, 2 * n);
  if (!vtb__instance_results(e, in, made, at)) return VTB__ERR;
  for (size_t i = 0; i < n; i++)
    at[n + i] = vtb__tensor(made->results[(size_t)in->func->n_returns + i], at[i].u.t.layout);
  return (vtb__val){.kind = VTB__TUPLE, .u.list = {at, 2 * n}};
}
