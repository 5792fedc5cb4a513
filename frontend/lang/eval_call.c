/* Calls: arguments to parameters, fn bodies in line, blocks as IR functions.
 *
 * A block sees only its arguments, so that one instantiation serves every call with the same
 * compile-time arguments, tensor types and layouts: a backbone of 24 equal blocks is one function
 * called 24 times. */
#include "frontend/lang/habits.h"
#include "frontend/lang/value.h"

void vtb__enter_call(vtb__eval *e, vtb_diag_call *call, const vtb_decl *d, vtb_span span) {
  *call = (vtb_diag_call){d->name.text, e->prefix, span, e->diags->calls};
  bool is_entry = span.source == d->name.span.source && span.begin == d->name.span.begin;
  if (!is_entry) e->diags->calls = call;
}

void vtb__leave_call(vtb__eval *e, const vtb_diag_call *call) { e->diags->calls = call->up; }

/* ---- binding --------------------------------------------------------------------------------- */

const vtb_param *vtb__param_find(const vtb_decl *d, const char *name) {
  for (size_t i = 0; i < d->params.n; i++) {
    const vtb_param *p = d->params.at[i];
    if (strcmp(p->name.text, name) == 0) return p;
    for (size_t k = 0; k < p->n_aliases; k++)
      if (strcmp(p->aliases[k].text, name) == 0) return p;
  }
  return NULL;
}

static void note_declared(vtb__eval *e, const vtb_decl *d) {
  if (!e->stopped)
    vtb_diag_note(e->diags, d->name.span, "%s '%s' is declared here", vtb__decl_kind_text(d->kind),
                  d->name.text);
}

static void list_parameters(vtb__eval *e, const vtb_decl *d) {
  vtb_strbuf s = {0};
  for (size_t i = 0; i < d->params.n; i++)
    vtb_strbuf_printf(&s, "%s%s", i ? ", " : "", d->params.at[i]->name.text);
  if (d->kind == VTB_DECL_RECURRENCE) {
    vtb_strbuf_puts(&s, "; every recurrence also takes mode, chunk, states");
    for (size_t i = 0; i < d->body.n; i++)
      for (size_t k = 0; d->body.at[i]->kind == VTB_STMT_STATE && k < d->body.at[i]->u.state.n; k++)
        vtb_strbuf_printf(&s, ", %s0", d->body.at[i]->u.state.at[k]->name.text);
  }
  if (!e->stopped) vtb_diag_help(e->diags, "it takes %s", s.n ? s.at : "no arguments");
  vtb_strbuf_free(&s);
}

static void unknown_argument(vtb__eval *e, const vtb_decl *d, const char *name, vtb_span span) {
  VTB_VEC(const char *) names = {0};
  for (size_t i = 0; i < d->params.n; i++) {
    vtb_vec_push(&names, d->params.at[i]->name.text);
    for (size_t k = 0; k < d->params.at[i]->n_aliases; k++)
      vtb_vec_push(&names, d->params.at[i]->aliases[k].text);
  }
  vtb__report(e, VTB_DIAG_UNKNOWN_ARGUMENT, span, "%s '%s' has no parameter '%s'",
              vtb__decl_kind_text(d->kind), d->name.text, name);
  const char *habit = vtb__habit(VTB__HABIT_PARAMETER, name);
  if (habit)
    vtb__help(e, "%s", habit);
  else if (!vtb__suggest_help(e, name, names.at, names.n))
    list_parameters(e, d);
  note_declared(e, d);
  vtb_vec_free(&names);
}

/* Which actual goes to which parameter; given[] has params.n entries. */
static bool match_arguments(vtb__eval *e, const vtb_decl *d, const vtb__actual *args, size_t n,
                            const vtb__actual **given) {
  size_t position = 0;
  bool ok = true;
  for (size_t i = 0; i < n; i++) {
    size_t at;
    if (!args[i].name) {
      at = position++;
      if (at >= d->params.n) {
        vtb__report(e, VTB_DIAG_TOO_MANY_ARGUMENTS, args[i].span, "%s '%s' has %zu parameter%s",
                    vtb__decl_kind_text(d->kind), d->name.text, d->params.n,
                    d->params.n == 1 ? "" : "s");
        note_declared(e, d);
        list_parameters(e, d);
        return false;
      }
    } else {
      const vtb_param *p = vtb__param_find(d, args[i].name);
      if (!p) {
        unknown_argument(e, d, args[i].name, args[i].span);
        ok = false;
        continue;
      }
      for (at = 0; d->params.at[at] != p;) at++;
    }
    if (given[at]) {
      vtb__report(e, VTB_DIAG_REPEATED_ARGUMENT, args[i].span, "parameter '%s' gets two values",
                  d->params.at[at]->name.text);
      if (!e->stopped) vtb_diag_note(e->diags, given[at]->span, "the other one");
      ok = false;
      continue;
    }
    given[at] = &args[i];
  }
  return ok;
}

/* The value of one parameter: the argument, evaluated where the call stands, or the default, where
 * the declaration stands. */
static vtb__val actual_value(vtb__eval *e, const vtb_decl *d, const vtb_param *p,
                             const vtb__actual *a, vtb__env *callee_env, vtb__env *caller_env,
                             const vtb_file *caller_file, vtb_span span) {
  const char *what = vtb_arena_printf(&e->arena, "'%s'", p->name.text);
  if (a && !a->expr) return vtb__coerce(e, a->value, p->type, a->span, what, false);
  vtb__val v = VTB__ERR;
  if (a) {
    e->env = caller_env;
    e->file = caller_file;
    v = vtb__expr_as(e, a->expr, p->type, what);
  } else if (p->fallback) {
    vtb_diag_call call;
    e->env = callee_env;
    e->file = d->file;
    vtb__enter_call(e, &call, d, span);
    v = vtb__expr_as(e, p->fallback, p->type, what);
    vtb__leave_call(e, &call);
  } else {
    vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, span, "parameter '%s' of %s '%s' has no value",
                p->name.text, vtb__decl_kind_text(d->kind), d->name.text);
    bool rule = d->kind == VTB_DECL_OPTIMIZER || d->kind == VTB_DECL_SCHEDULE;
    if (rule)
      vtb__help(e, "set it in parentheses, \"%s(%s = ...)\", or give it a default", d->name.text,
                p->name.text);
    else if (span.begin == d->name.span.begin && span.source == d->name.span.source)
      vtb__help(e, "set it with -D %s=..., or give it a default: '%s: %s = ...'", p->name.text,
                p->name.text, p->type->name.text ? p->type->name.text : "[...]");
    else
      note_declared(e, d);
  }
  return v;
}

/* A value of the wrong kind in its place: what follows it by place is wrong too, mostly. */
static bool wrong_kind(const vtb__eval *e, const vtb__actual *a, int errors) {
  if (!a || a->name || !a->expr || e->diags->n_errors == errors) return false;
  for (size_t i = e->diags->list.n; i-- > 0;) {
    const vtb_diag *d = &e->diags->list.at[i];
    if (d->severity != VTB_SEV_ERROR) continue;
    return (d->code == VTB_DIAG_TYPE_MISMATCH || d->code == VTB_DIAG_NOT_COMPILE_TIME) &&
           d->span.source == a->expr->span.source && d->span.begin == a->expr->span.begin;
  }
  return false;
}

bool vtb__bind_params(vtb__eval *e, const vtb_decl *d, const vtb__actual *args, size_t n,
                      vtb__env *caller_env, const vtb_file *caller_file, vtb_span span) {
  const vtb__actual **given = VTB_NEW_ARRAY(&e->arena, const vtb__actual *, d->params.n);
  vtb__env *env = e->env;
  const vtb_file *file = e->file;
  if (!match_arguments(e, d, args, n, given)) return false;
  bool ok = true;
  for (size_t i = 0; i < d->params.n; i++) {
    const vtb_param *p = d->params.at[i];
    int errors = e->diags->n_errors;
    vtb__val v = actual_value(e, d, p, given[i], env, caller_env, caller_file, span);
    e->env = env;
    e->file = file;
    ok &= v.kind != VTB__ERROR;
    if (!ok && wrong_kind(e, given[i], errors)) {
      if (i == 0 && strcmp(p->name.text, "name") == 0)
        vtb__help(e, "a layer has a name first, that of its params: %s(\"name\", x, ...)",
                  d->name.text);
      else
        list_parameters(e, d);
      note_declared(e, d);
      return false;
    }
    vtb__env_bind(e, p->name.text, v, vtb__is_tensor_type(p->type) ? NULL : "a parameter",
                  p->name.span);
  }
  return ok;
}

/* ---- fn -------------------------------------------------------------------------------------- */

vtb__val vtb__run_body(vtb__eval *e, const vtb_decl *d, vtb__env *env, vtb_span span) {
  if (e->calls >= VTB__MAX_CALLS) {
    vtb__report(e, VTB_DIAG_CALL_CYCLE, span, "calls are nested %d deep; does '%s' call itself?",
                VTB__MAX_CALLS, d->name.text);
    e->stopped = true;
    return VTB__ERR;
  }
  vtb__env *saved_env = e->env;
  const vtb_file *file = e->file;
  const vtb_decl *decl = e->decl;
  env->caller = e->env;
  e->env = env;
  e->file = d->file;
  e->decl = d;
  e->calls++;
  vtb__val v = vtb__body_value(e, &d->body);
  e->calls--;
  e->env = saved_env;
  e->file = file;
  e->decl = decl;
  if (v.kind == VTB__NONE) {
    vtb__report(e, VTB_DIAG_NO_VALUE, span, "%s '%s' returns nothing", vtb__decl_kind_text(d->kind),
                d->name.text);
    note_declared(e, d);
    return VTB__ERR;
  }
  return v;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* `what` tells declarations apart. */
static const char *instance_key(vtb__eval *e, const char *what, const vtb_decl *d,
                                vtb__env *bound) {
  vtb_strbuf s = {0};
  vtb_strbuf_puts(&s, what);
  for (size_t i = 0; i < d->params.n; i++) {
    vtb_strbuf_printf(&s, ";%s ", d->params.at[i]->name.text);
    vtb__val_key(vtb__env_find_here(bound, d->params.at[i]->name.text)->value, &s);
  }
  if (e->frozen) vtb_strbuf_puts(&s, ";frozen"); /* its backward wants less */
  if (e->models) vtb_strbuf_printf(&s, ";samples %lld", (long long)e->models->batch);
  if (e->options->taps) vtb_strbuf_printf(&s, ";taps %s", e->tap_prefix);
  const char *key = vtb_arena_strndup(&e->arena, s.at, s.n);
  vtb_strbuf_free(&s);
  return key;
}

static void frame_free(vtb__frame *f) {
  vtb_vec_free(&f->weights);
  vtb_vec_free(&f->outputs);
  vtb_vec_free(&f->taps);
  vtb_vec_free(&f->updates);
}

/* Sets the results of a block's function from the value of its body, and its updates behind
 * them. */
static bool set_results(vtb__eval *e, const vtb_decl *d, vtb__frame *f, vtb__instance *in,
                        vtb__val v) {
  in->kind = v.kind;
  bool several = v.kind == VTB__TUPLE || v.kind == VTB__LIST;
  in->n_results = several ? v.u.list.n : 1;
  in->results = VTB_NEW_ARRAY(&e->arena, vtb__val, in->n_results);
  vtb_value **values = VTB_NEW_ARRAY(&e->arena, vtb_value *, in->n_results + f->updates.n);
  for (size_t i = 0; i < in->n_results; i++) {
    in->results[i] = several ? v.u.list.at[i] : v;
    if (in->results[i].kind == VTB__ERROR) return false;
    if (in->results[i].kind != VTB__TENSOR) {
      const char *made = vtb__describe(e, in->results[i]);
      if (d->kind == VTB_DECL_BLOCK)
        vtb__report(e, VTB_DIAG_TYPE_MISMATCH, d->name.span,
                    "block '%s' returns %s, and blocks return tensors; make it a fn", d->name.text,
                    made);
      else
        vtb__report(e, VTB_DIAG_BAD_TANGENT, d->name.span,
                    "'%s' gives %s here, and only tensors have tangents", d->name.text, made);
      return false;
    }
    values[i] = in->results[i].u.t.v;
  }
  in->n_updates = f->updates.n;
  in->updates = VTB_NEW_ARRAY(&e->arena, vtb__update, in->n_updates);
  for (size_t i = 0; i < in->n_updates; i++) {
    in->updates[i] = f->updates.at[i];
    values[in->n_results + i] = in->updates[i].value;
  }
  vtb_func_set_returns(f->func, values, NULL, (int)(in->n_results + in->n_updates));
  return true;
}

/* The value with an argument of the block's function in place of each tensor, also in lists. */
static vtb__val as_arguments(vtb__eval *e, vtb_func *func, const char *name, vtb__val v) {
  if (v.kind == VTB__TENSOR) v.u.t.v = vtb_func_add_arg(func, name, v.u.t.v->type);
  if (v.kind != VTB__LIST && v.kind != VTB__TUPLE) return v;
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, v.u.list.n);
  for (size_t i = 0; i < v.u.list.n; i++)
    at[i] = as_arguments(e, func, vtb_arena_printf(&e->arena, "%s.%zu", name, i), v.u.list.at[i]);
  v.u.list.at = at;
  return v;
}

static bool build_instance(vtb__eval *e, const vtb_decl *d, vtb__env *bound, vtb__instance *in,
                           vtb_span span) {
  vtb__frame frame = {0}, *saved = e->frame;
  const char *prefix = e->prefix, *suffix = e->suffix, *suffix_at = e->suffix_at;
  int share = e->share;
  bool frozen = e->frozen;
  vtb_func *func = vtb_func_new(e->module, d->name.text, VTB_FUNC_PLAIN, d->name.span);
  frame.b = (vtb_builder){.module = e->module, .func = func, .diags = e->diags};
  frame.func = func;
  frame.calls = e->calls + 1;
  vtb__env env = {0}, *inner = vtb_arena_memdup(&e->arena, &env, sizeof env), *saved_env = e->env;
  e->env = inner;
  for (size_t i = 0; i < d->params.n; i++) {
    const vtb_param *p = d->params.at[i];
    const vtb__binding *b = vtb__env_find_here(bound, p->name.text);
    vtb__val v = as_arguments(e, func, p->name.text, b->value);
    vtb__env_bind(e, p->name.text, v, b->fixed, b->span);
  }
  e->env = saved_env;
  e->frame = &frame;
  e->prefix = "";
  e->suffix = e->suffix_at = NULL;
  e->share = 0;
  e->frozen = false;
  int errors = e->diags->n_errors;
  vtb__val v = vtb__run_body(e, d, inner, span);
  e->frame = saved;
  e->prefix = prefix;
  e->suffix = suffix;
  e->suffix_at = suffix_at;
  e->share = share;
  e->frozen = frozen;
  bool ok = v.kind != VTB__ERROR && e->diags->n_errors == errors && !e->stopped &&
            set_results(e, d, &frame, in, v);
  in->n_weights = frame.weights.n;
  in->weights = VTB_NEW_ARRAY(&e->arena, vtb__weight, frame.weights.n);
  if (frame.weights.n) memcpy(in->weights, frame.weights.at, frame.weights.n * sizeof *in->weights);
  in->seeded = frame.seed != NULL;
  in->seed_index = frame.seed ? frame.seed->index : -1;
  in->func = ok ? func : NULL;
  frame_free(&frame);
  return ok;
}

/* The tensors of a value in the order of as_arguments(), from at on; the place behind them. */
static vtb_value **put_tensors(vtb__val v, vtb_value **at) {
  if (v.kind == VTB__TENSOR) *at++ = v.u.t.v;
  if (v.kind == VTB__LIST || v.kind == VTB__TUPLE)
    for (size_t i = 0; i < v.u.list.n; i++) at = put_tensors(v.u.list.at[i], at);
  return at;
}

/* Operands of a call in the order of the callee's arguments: tensors, weights under the caller's
 * scopes, the seed. */
static vtb_value **call_operands(vtb__eval *e, const vtb_decl *d, vtb__env *bound,
                                 const vtb__instance *in, vtb_span span) {
  vtb_value **at = VTB_NEW_ARRAY(&e->arena, vtb_value *, in->func->n_args);
  vtb_value **next = at;
  int shared = 0; /* this call as an evaluation of what the body shares */
  for (size_t i = 0; i < d->params.n; i++)
    next = put_tensors(vtb__env_find_here(bound, d->params.at[i]->name.text)->value, next);
  for (size_t i = 0; i < in->n_weights; i++) {
    const vtb__weight *w = &in->weights[i];
    vtb__weight like = *w;
    like.name = vtb__official(e, w->name, w->span);
    like.made = span;
    int outside = e->share;
    if (w->share && !outside) e->share = shared = shared ? shared : ++e->n_shares;
    vtb_value *arg = vtb__weight_get(e, like, &w->arg->type);
    e->share = outside;
    if (!arg) return NULL;
    at[w->arg->index] = arg;
  }
  if (in->seeded && !(at[in->seed_index] = vtb__seed(e, true, span))) return NULL;
  return at;
}

vtb__instance *vtb__instance_of(vtb__eval *e, const char *what, const vtb_decl *d, vtb__env *bound,
                                vtb_span span) {
  const char *key = instance_key(e, what, d, bound);
  vtb__instance *in = vtb_map_get(&e->blocks, key);
  if (!in) {
    in = VTB_NEW(&e->arena, vtb__instance);
    vtb_map_set(&e->blocks, key, in);
    in->in_progress = true;
    vtb_diag_call call;
    vtb__enter_call(e, &call, d, span);
    build_instance(e, d, bound, in, span);
    vtb__leave_call(e, &call);
    in->in_progress = false;
  } else if (in->in_progress) {
    vtb__report(e, VTB_DIAG_CALL_CYCLE, span, "%s '%s' calls itself", vtb__decl_kind_text(d->kind),
                d->name.text);
    return NULL;
  }
  if (in->func) in->operands = call_operands(e, d, bound, in, span);
  return in->func && in->operands ? in : NULL;
}

bool vtb__instance_results(vtb__eval *e, const vtb__instance *in, const vtb_inst *call,
                           vtb__val *out) {
  for (size_t i = 0; i < in->n_results; i++)
    out[i] = vtb__tensor(call->results[i], in->results[i].u.t.layout);
  for (size_t i = 0; i < in->n_updates; i++) {
    const vtb_value *buffer = call->operands[in->weights[in->updates[i].weight].arg->index];
    if (!vtb__add_update(e, buffer, call->results[in->n_results + i], in->updates[i].span))
      return false;
  }
  return true;
}

static vtb__val call_block(vtb__eval *e, const vtb_decl *d, vtb__env *bound, vtb_span span) {
  const char *what = vtb_arena_printf(&e->arena, "%p", (const void *)d);
  const vtb__instance *in = vtb__instance_of(e, what, d, bound, span);
  vtb_builder *b = in ? vtb__at(e, span) : NULL;
  vtb_inst *call = b ? vtb_b_call(b, in->func, in->operands, in->func->n_args) : NULL;
  if (!call) return VTB__ERR;
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, in->n_results);
  if (!vtb__instance_results(e, in, call, at)) return VTB__ERR;
  if (in->kind == VTB__TENSOR) return at[0];
  return (vtb__val){.kind = in->kind, .u.list = {at, in->n_results}};
}

static vtb__val enter_block(vtb__eval *e, const vtb_decl *d, vtb__env *bound, vtb_span span) {
  bool frozen = e->frozen;
  e->frozen |= vtb__freezes_scope(e);
  vtb__val v = call_block(e, d, bound, span);
  e->frozen = frozen;
  return v;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static vtb__val not_callable(vtb__eval *e, vtb_name callee) {
  vtb_decl *d = vtb__file_lookup(e->file, callee.text);
  if (d) {
    vtb__report(e, VTB_DIAG_NOT_CALLABLE, callee.span, "'%s' is %s and cannot be called here",
                callee.text, vtb__decl_kind_an(d->kind));
    note_declared(e, d);
    return VTB__ERR;
  }
  vtb__val v;
  if (vtb__env_get(e, callee.text, callee.span, &v))
    return vtb__report(e, VTB_DIAG_NOT_CALLABLE, callee.span, "'%s' is %s, and no function",
                       callee.text, vtb__describe(e, v));
  return vtb__unknown(e, "function", callee.text, callee.span);
}

static vtb__val call_decl(vtb__eval *e, const vtb_decl *d, const vtb_expr *x) {
  const vtb_arg_list *list = &x->u.call.args;
  size_t n = list->n + (x->u.call.self ? 1 : 0), at = 0;
  vtb__actual *args = VTB_NEW_ARRAY(&e->arena, vtb__actual, n);
  if (x->u.call.self)
    args[at++] = (vtb__actual){.expr = x->u.call.self, .span = x->u.call.self->span};
  for (size_t i = 0; i < list->n; i++)
    args[at++] = (vtb__actual){
        .name = list->at[i]->name.text, .expr = list->at[i]->value, .span = list->at[i]->span};
  if (d->kind == VTB_DECL_RECURRENCE) return vtb__call_recurrence(e, d, args, n, x->span);
  if (d->kind == VTB_DECL_MODEL || d->kind == VTB_DECL_PRESET)
    return e->evaluator->model(e, d, args, n, x->span);
  if (e->frame && e->frame->step && d->kind == VTB_DECL_BLOCK)
    return vtb__report(e, VTB_DIAG_NOT_A_STEP_OPERATION, x->span,
                       "a step cannot call block '%s'; make it a fn, or call it outside on all "
                       "tokens",
                       d->name.text);
  vtb__env env = {0}, *bound = vtb_arena_memdup(&e->arena, &env, sizeof env), *caller = e->env;
  const vtb_file *file = e->file;
  e->env = bound;
  bool ok = vtb__bind_params(e, d, args, n, caller, file, x->span);
  e->env = caller;
  e->file = file;
  if (!ok) return VTB__ERR;
  if (d->kind == VTB_DECL_BLOCK) return enter_block(e, d, bound, x->span);
  vtb_diag_call call;
  vtb__enter_call(e, &call, d, x->span);
  vtb__val v = vtb__run_body(e, d, bound, x->span);
  vtb__leave_call(e, &call);
  return v;
}

/* The function that a variable or a constant of the callee's name is. */
static bool function_of(vtb__eval *e, const vtb_decl *d, vtb_name callee, vtb__val *f) {
  *f = VTB__NIL;
  if (vtb__env_has(e, callee.text))
    vtb__env_get(e, callee.text, callee.span, f);
  else if (d && d->kind == VTB_DECL_CONST)
    *f = vtb__const(e, d);
  return f->kind == VTB__FUNCTION;
}

static bool within(vtb_span inner, vtb_span outer) {
  return inner.source == outer.source && inner.begin >= outer.begin && inner.end <= outer.end;
}

/* A call of what a variable holds: where it got there is part of the message. */
static vtb__val call_value(vtb__eval *e, vtb__val f, const vtb_expr *x) {
  int errors = e->diags->n_errors;
  vtb__val v = f.u.fn.decl ? call_decl(e, f.u.fn.decl, x)
                           : vtb__builtin_call(e, f.u.fn.builtin, vtb__function_name(f), x);
  if (e->diags->n_errors == errors || e->stopped || !f.u.fn.at.source) return v;
  for (size_t i = e->diags->list.n; i-- > 0;) {
    const vtb_diag *d = &e->diags->list.at[i];
    if (d->severity != VTB_SEV_ERROR) continue;
    if (within(d->span, vtb_diags_own(e->diags, x->span)))
      vtb_diag_note(e->diags, f.u.fn.at, "'%s' became '%s' here", x->u.call.callee.text,
                    vtb__function_name(f));
    break;
  }
  return v;
}

static vtb__val call(vtb__eval *e, const vtb_expr *x) {
  vtb_name callee = x->u.call.callee;
  const vtb_decl *d = vtb__file_lookup(e->file, callee.text);
  vtb__val f;
  if (function_of(e, d, callee, &f)) return call_value(e, f, x);
  if (d && vtb__is_called(d)) return call_decl(e, d, x);
  const vtb__builtin *b = vtb__builtin_find(callee.text);
  if (!d && !b && vtb__name_now(callee.text)) {
    d = vtb__file_lookup(e->file, vtb__name_now(callee.text));
    if (d) vtb__warn_of_old(e, callee);
    if (d) return call_decl(e, d, x);
  }
  if (b) return vtb__builtin_call(e, b, callee.text, x);
  if (d && (d->kind == VTB_DECL_MODEL || d->kind == VTB_DECL_PRESET)) return call_decl(e, d, x);
  return not_callable(e, callee);
}

vtb__val vtb__call(vtb__eval *e, const vtb_expr *x) {
  vtb__val v = call(e, x);
  vtb__observe(e, x->u.call.callee.span, v);
  return v;
}
