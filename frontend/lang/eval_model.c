/* A model or preset called inside another model, as a function of its inputs:
 *
 *   freeze { scope "teacher" { t = vil_base(picture, drop_path = 0) } }
 *
 * Its body is evaluated in place of the call. Arguments by place are its inputs in their order,
 * named ones inputs or hyperparameters; its outputs are the call's values. Scopes, shares and
 * freezes around the call hold for its params. Its losses, metrics and preparation of images are
 * not taken over: an input that only losses and metrics read need not be given. */
#include "frontend/lang/entry.h"

/* ---- arguments ------------------------------------------------------------------------------- */

static bool is_active(const vtb__eval *e, const vtb_decl *model) {
  for (const vtb__model_call *m = e->models; m; m = m->up)
    if (m->decl == model) return true;
  return false;
}

/* Inputs are evaluated where the call stands; the others are left for vtb__bind_params(), in place
 * of what presets say. */
static bool take_arguments(vtb__eval *e, vtb__model_call *m, const vtb__actual *args, size_t n,
                           vtb__actual *rest, size_t *n_rest) {
  for (size_t i = 0; i < n; i++) {
    const vtb_param *p = args[i].name ? vtb__param_find(m->decl, args[i].name) : NULL;
    vtb__val v = p ? VTB__NIL : vtb__expr(e, args[i].expr);
    if (v.kind == VTB__ERROR) return false;
    if (v.kind == VTB__TENSOR) {
      m->inputs[m->n_inputs++] =
          (vtb__actual){.name = args[i].name, .value = v, .span = args[i].span};
      continue;
    }
    if (!args[i].name) {
      vtb__report(e, VTB_DIAG_TYPE_MISMATCH, args[i].span,
                  "an input of model '%s' is a tensor, not %s", m->decl->name.text,
                  vtb__describe(e, v));
      vtb__help(e, "hyperparameters are named: %s(x, %s = ...)", m->decl->name.text,
                m->decl->params.n ? m->decl->params.at[0]->name.text : "dim");
      return false;
    }
    size_t k = 0;
    while (k < *n_rest && (!p || !rest[k].name || vtb__param_find(m->decl, rest[k].name) != p)) k++;
    if (k == *n_rest) ++*n_rest;
    rest[k] = args[i];
  }
  return true;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static const vtb__actual *given(vtb__model_call *m, const char *name) {
  for (int by_place = 0; by_place < 2; by_place++)
    for (size_t i = 0; i < m->n_inputs; i++) {
      const char *n = m->inputs[i].name;
      if (m->taken[i] || (by_place ? n != NULL : !n || strcmp(n, name) != 0)) continue;
      m->taken[i] = true;
      return &m->inputs[i];
    }
  return NULL;
}

static bool same_axes(const vtb_type *a, const vtb_type *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++) same = a->dim[i].size == b->dim[i].size;
  return same;
}

/* Samples of the call: the batch, or several end to end, of all inputs the same. */
static int64_t batch_of(const vtb__eval *e, vtb__model_call *m, const vtb_type *t) {
  int64_t n = t->rank ? vtb__batches_of(e, t->dim[0]) : 0;
  if (!m->batch) m->batch = n ? n * e->batch : e->batch;
  return m->batch;
}

/* Tokens in an order of their own, or beside extra ones, are no input. */
static bool same_layout(const vtb__layout *is, const vtb__layout *want) {
  if (is->kind == VTB__PLAIN || want->kind == VTB__PLAIN) return true;
  return is->kind == want->kind && !is->via && !vtb__layout_extra(is) &&
         is->grid.rank == want->grid.rank && is->grid.t == want->grid.t &&
         is->grid.h == want->grid.h && is->grid.w == want->grid.w;
}

static vtb__val does_not_fit(vtb__eval *e, const vtb__model_call *m, const vtb__actual *a,
                             vtb_name name, vtb__val want) {
  const vtb__layout *l = a->value.u.t.layout;
  const char *is = vtb__describe(e, a->value), *needs = vtb__describe(e, want);
  if (l->kind == VTB__TOKENS && want.u.t.layout->kind == VTB__TOKENS) {
    is = vtb_arena_printf(&e->arena, "%s of a grid %s%s", is, vtb__grid_text(e, &l->grid),
                          l->via                 ? ", along a path"
                          : vtb__layout_extra(l) ? " and extra tokens"
                                                 : "");
    needs = vtb_arena_printf(&e->arena, "%s of a grid %s", needs,
                             vtb__grid_text(e, &want.u.t.layout->grid));
  }
  vtb__report(e, VTB_DIAG_MODEL_INPUT, a->span, "%s does not fit input '%s' of model '%s', %s", is,
              name.text, m->decl->name.text, needs);
  if (e->stopped) return VTB__ERR;
  vtb_diag_note(e->diags, name.span, "the input is declared here");
  if (l->kind == VTB__IMAGE && l->grid.rank == want.u.t.layout->grid.rank &&
      !vtb__layout_equal(l, want.u.t.layout) && vtb__param_find(m->decl, "image"))
    vtb__help(e, "the model has the hyperparameter 'image': image = %s",
              vtb__grid_text(e, &l->grid));
  return VTB__ERR;
}

vtb__val vtb__model_input(vtb__eval *e, vtb__model_call *m, vtb_name name, const vtb_type *type,
                          const vtb__layout *l) {
  const vtb__actual *a = given(m, name.text);
  vtb_type declared = *type;
  if (declared.rank)
    declared.dim[0].size = a          ? batch_of(e, m, &a->value.u.t.v->type)
                           : m->batch ? m->batch
                                      : e->batch;
  type = &declared;
  vtb_value *v = a ? a->value.u.t.v : vtb_b_splat(vtb__at(e, m->span), 0, type);
  /* what was computed of labels is a number, and labels again where those are taken */
  if (v && type->dtype == VTB_I32 && v->type.dtype == VTB_F32)
    v = vtb_b_cast(vtb__at(e, m->span), v, VTB_I32);
  if (!v) return VTB__ERR;
  l = vtb__layout_new(e, *l);
  if (!a) {
    vtb_vec_push(&m->missing, ((vtb__output){name.text, v, name.span, NULL}));
    return vtb__tensor(v, l);
  }
  if (same_axes(&v->type, type) && same_layout(a->value.u.t.layout, l)) return vtb__tensor(v, l);
  vtb_func *like = vtb_func_new(e->module, "like", VTB_FUNC_PLAIN, name.span);
  return does_not_fit(e, m, a, name, vtb__tensor(vtb_func_add_arg(like, name.text, *type), l));
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Values of the frame's function that outputs of the call depend on. */
static void mark(const vtb_value *v, bool *marked) {
  VTB_VEC(const vtb_value *) open = {0};
  vtb_vec_push(&open, v);
  while (open.n) {
    v = open.at[--open.n];
    if (marked[v->id]) continue;
    marked[v->id] = true;
    for (int i = 0; v->def && i < v->def->n_operands; i++) vtb_vec_push(&open, v->def->operands[i]);
  }
  vtb_vec_free(&open);
}

static bool check_inputs(vtb__eval *e, const vtb__model_call *m) {
  for (size_t i = 0; i < m->n_inputs; i++) {
    if (m->taken[i]) continue;
    vtb__report(e, m->inputs[i].name ? VTB_DIAG_UNKNOWN_ARGUMENT : VTB_DIAG_TOO_MANY_ARGUMENTS,
                m->inputs[i].span,
                m->inputs[i].name ? "model '%s' has no input or hyperparameter '%s'"
                                  : "model '%s' has no more inputs",
                m->decl->name.text, m->inputs[i].name);
    if (!e->stopped) vtb_diag_note(e->diags, m->decl->name.span, "the model is declared here");
    return false;
  }
  if (!m->missing.n) return true;
  bool *read = vtb_xcalloc((size_t)e->frame->func->n_values, sizeof *read);
  for (size_t i = 0; i < m->outputs.n; i++) mark(m->outputs.at[i].u.t.v, read);
  bool ok = true;
  for (size_t i = 0; i < m->missing.n && ok; i++) {
    const vtb__output *x = &m->missing.at[i];
    ok = !read[x->value->id];
    if (ok) continue;
    vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, m->span, "input '%s' of model '%s' has no value",
                x->name, m->decl->name.text);
    if (!e->stopped) vtb_diag_note(e->diags, x->span, "the input is declared here");
  }
  vtb_free(read);
  return ok;
}

static vtb__val results(vtb__eval *e, const vtb__model_call *m) {
  if (!m->outputs.n)
    return vtb__report(e, VTB_DIAG_NO_OUTPUT, m->span, "model '%s' has no output",
                       m->decl->name.text);
  if (m->outputs.n == 1) return m->outputs.at[0];
  vtb__val *at = vtb_arena_memdup(&e->arena, m->outputs.at, m->outputs.n * sizeof *at);
  return (vtb__val){.kind = VTB__TUPLE, .u.list = {at, m->outputs.n}};
}

static vtb__val run(vtb__eval *e, vtb__model_call *m, vtb__env *env) {
  vtb__env *caller = e->env;
  const vtb_file *file = e->file;
  const vtb_decl *decl = e->decl;
  const char *taps = e->tap_prefix, *scope = vtb_scope_end(e->prefix);
  vtb_diag_call call;
  vtb__enter_call(e, &call, m->decl, m->span);
  int errors = e->diags->n_errors;
  env->caller = caller;
  e->env = env;
  e->file = m->decl->file;
  e->decl = m->decl;
  e->tap_prefix = vtb__tap_name(e, *scope ? scope : m->decl->name.text);
  e->models = m;
  e->calls++;
  vtb__body_value(e, &m->decl->body);
  e->calls--;
  e->models = m->up;
  e->tap_prefix = taps;
  e->env = caller;
  e->file = file;
  e->decl = decl;
  vtb__leave_call(e, &call);
  if (e->stopped || e->diags->n_errors > errors || !check_inputs(e, m)) return VTB__ERR;
  return results(e, m);
}

vtb__val vtb__call_model(vtb__eval *e, const vtb_decl *d, const vtb__actual *args, size_t n,
                         vtb_span span) {
  if (!e->frame || e->frame->step)
    return vtb__report(e, VTB_DIAG_NOT_A_STEP_OPERATION, span, "a model cannot be called here");
  vtb__entry entry = {0};
  bool ok = vtb__entry_presets(e, d, &entry);
  vtb_vec_free(&entry.presets);
  if (!ok) return VTB__ERR;
  d = entry.decl;
  if (is_active(e, d)) {
    vtb__report(e, VTB_DIAG_CALL_CYCLE, span, "model '%s' calls itself", d->name.text);
    vtb__help(e, "a model is called in another one; what repeats is a block, and repeat n as i "
                 "scope \"blocks.{i}\" { ... }");
    return VTB__ERR;
  }
  vtb__model_call m = {.decl = d, .frame = e->frame, .span = span, .up = e->models};
  vtb__actual *rest = VTB_NEW_ARRAY(&e->arena, vtb__actual, d->params.n + n);
  size_t n_rest = vtb__entry_actuals(&entry, rest);
  m.inputs = VTB_NEW_ARRAY(&e->arena, vtb__actual, n);
  m.taken = VTB_NEW_ARRAY(&e->arena, bool, n);
  vtb__env *env = vtb__entry_env(e), *caller = e->env;
  const vtb_file *file = e->file;
  ok = take_arguments(e, &m, args, n, rest, &n_rest);
  e->env = env;
  ok = ok && vtb__bind_params(e, d, rest, n_rest, caller, file, span);
  e->env = caller;
  e->file = file;
  vtb__val v = ok ? run(e, &m, env) : VTB__ERR;
  vtb_vec_free(&m.missing);
  vtb_vec_free(&m.outputs);
  return v;
}
