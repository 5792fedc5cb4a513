/* vtb_instantiate: an entry of a unit, with hyperparameters, to a module.
 *
 * Values for an entry's parameters come from presets, then overrides, then defaults. Fields of a
 * config must reach a parameter, or equal a fact given beside them or a top-level `let`, so that
 * nothing a config says is ignored. Blocks, functions and recurrences become entries by binding
 * their tensors to given shapes. */
#include "frontend/lang/entry.h"

#include <math.h>

/* ---- settings that are not parameters -------------------------------------------------------- */

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b)); }

static bool let_equal(vtb__eval *e, vtb__val let, vtb__val config) {
  if (vtb__is_number(let) && vtb__is_number(config))
    return near(vtb__val_number(let), vtb__val_number(config));
  if (config.kind == VTB__STRING && let.kind != VTB__STRING) {
    const vtb_decl *d = vtb__file_lookup(e->file, config.u.str.s);
    if (d && d->kind == VTB_DECL_CONST)
      config = vtb__const(e, d);
    else
      vtb__builtin_name(e, config.u.str.s, &config);
  }
  if (let.kind == VTB__LIST && config.kind == VTB__LIST && let.u.list.n == config.u.list.n) {
    for (size_t i = 0; i < let.u.list.n; i++)
      if (!let_equal(e, let.u.list.at[i], config.u.list.at[i])) return false;
    return true;
  }
  return vtb__val_equal(let, config);
}

static void unknown_setting(vtb__eval *e, const vtb__entry *n, const vtb__setting *s,
                            const vtb__env *lets) {
  const char *kind = vtb__decl_kind_text(n->decl->kind);
  VTB_VEC(const char *) names = {0};
  for (size_t i = 0; i < n->decl->params.n; i++) {
    vtb_vec_push(&names, n->decl->params.at[i]->name.text);
    for (size_t k = 0; k < n->decl->params.at[i]->n_aliases; k++)
      vtb_vec_push(&names, n->decl->params.at[i]->aliases[k].text);
  }
  for (const vtb__binding *b = lets && s->o->from_config ? lets->first : NULL; b; b = b->next)
    if (b->fixed && strcmp(b->fixed, "a let") == 0) vtb_vec_push(&names, b->name);
  if (s->o->from_config)
    vtb__report(e, VTB_DIAG_UNKNOWN_FIELD, s->x->span,
                "%s '%s' has neither a hyperparameter nor a let '%s', and no fact says what it is",
                kind, n->decl->name.text, s->o->name);
  else
    vtb__report(e, VTB_DIAG_UNKNOWN_OVERRIDE, s->x->span, "%s '%s' has no hyperparameter '%s'",
                kind, n->decl->name.text, s->o->name);
  bool near = vtb__suggest_help(e, s->o->name, names.at, names.n);
  if (strcmp(s->o->name, "image") == 0 && !near)
    vtb__help(e, "--image sets the hyperparameter 'image: size': declare it, and the input as "
                 "image[3], which takes its size from it");
  if ((!near || n->decl->kind == VTB_DECL_OPTIMIZER || n->decl->kind == VTB_DECL_SCHEDULE) &&
      !e->stopped)
    vtb__list_hyperparameters(e, n->decl);
  vtb_vec_free(&names);
}

static void check_let(vtb__eval *e, const vtb__entry *n, vtb__setting *s, vtb__val let,
                      vtb_span span) {
  vtb__val v = vtb__global_value(e, n->decl->file, s->x, NULL, "");
  s->used = true;
  if (v.kind == VTB__ERROR || let.kind == VTB__ERROR || let_equal(e, let, v)) return;
  vtb__report(e, VTB_DIAG_LET_MISMATCH, s->x->span, "config field '%s' is %s, and %s '%s' has %s",
              s->o->name, vtb__describe(e, v), vtb__decl_kind_text(n->decl->kind),
              n->decl->name.text, vtb__describe(e, let));
  if (!e->stopped && span.source) vtb_diag_note(e->diags, span, "computed here");
}

/* A fact is an expression over what the entry has computed. */
static void check_fact(vtb__eval *e, const vtb__entry *n, vtb__setting *s, vtb__env *scope) {
  const vtb_expr *x = vtb__parse_expr_text(e->unit, "<fact>", s->o->fact, e->diags);
  int64_t batch = e->batch;
  vtb__env *env = e->env;
  s->used = true;
  if (!x) return;
  for (size_t i = 0; e->batch == VTB_DYN && i < e->options->n_inputs; i++)
    if (e->options->inputs[i].type.rank == 4) e->batch = e->options->inputs[i].type.dim[0].size;
  e->env = scope;
  vtb__val v = vtb__expr(e, x);
  if (v.kind == VTB__STRING && strcmp(v.u.str.s, "batch") == 0 && e->batch != VTB_DYN)
    v = vtb__int(e->batch); /* the word is a number here */
  check_let(e, n, s, v, x->span);
  e->env = env;
  e->batch = batch;
}

/* A let that is left over must be a fact or a let of the entry. */
static void check_lets(vtb__eval *e, vtb__entry *n, vtb__env *lets) {
  e->file = n->decl->file;
  for (size_t i = 0; i < n->n_settings; i++) {
    vtb__setting *s = &n->settings[i];
    if (s->used || s->o->optional) continue;
    vtb__binding *b = s->o->from_config && lets ? vtb__env_find_here(lets, s->o->name) : NULL;
    if (s->o->fact && lets)
      check_fact(e, n, s, lets);
    else if (b && b->fixed && strcmp(b->fixed, "a let") == 0)
      check_let(e, n, s, b->value, b->span);
    else
      unknown_setting(e, n, s, lets);
  }
}

bool vtb__entry_check(vtb__eval *e, vtb__entry *n) {
  check_lets(e, n, NULL);
  return e->diags->n_errors == e->errors_before;
}

/* ---- models, blocks, functions --------------------------------------------------------------- */

static bool model_tensors(vtb__eval *e, vtb__entry *n);

static void run_model(vtb__eval *e, vtb__entry *n) {
  vtb__env *env = vtb__entry_env(e);
  if (!model_tensors(e, n)) return;
  if (!vtb__entry_bind(e, n, env)) return;
  vtb__model_call outermost = {.decl = n->decl};
  e->decl = n->decl;
  e->models = &outermost;
  vtb__body_value(e, &n->decl->body);
  e->models = NULL;
  check_lets(e, n, env);
  vtb__check_inputs(e);
  for (size_t i = n->presets.n; i-- > 0;)
    vtb__prepare_preset(e, n->presets.at[i], (int)(n->presets.n - i));
  vtb__set_preparation(e);
  bool has_input = false;
  for (int i = 0; i < e->frame->func->n_args; i++)
    has_input |= e->frame->func->arg_info[i].role == VTB_ROLE_INPUT;
  if (e->diags->n_errors > e->errors_before) return;
  if (!has_input)
    vtb__report(e, VTB_DIAG_NO_INPUT, n->decl->name.span, "model '%s' has no input",
                n->decl->name.text);
  if (!e->frame->outputs.n)
    vtb__report(e, VTB_DIAG_NO_OUTPUT, n->decl->name.span, "model '%s' has no output",
                n->decl->name.text);
}

static const vtb_shape_binding *binding_of(const vtb__eval *e, const vtb_param *p) {
  for (size_t i = 0; i < e->options->n_inputs; i++) {
    const vtb_shape_binding *b = &e->options->inputs[i];
    if (strcmp(b->name, p->name.text) == 0) return b;
    for (size_t k = 0; k < p->n_aliases; k++)
      if (strcmp(b->name, p->aliases[k].text) == 0) return b;
  }
  return NULL;
}

/* An int or size hyperparameter's value as far as it is known before binding; a setting of that
 * name if the entry has no such hyperparameter. */
static bool early_value(vtb__eval *e, vtb__entry *n, const char *name, vtb__val *v) {
  int i = vtb__param_index(n->decl, name);
  const vtb_param *p = i < 0 ? NULL : n->decl->params.at[i];
  *v = p && n->set[i] ? n->values[i] : VTB__ERR;
  if (p && !n->set[i] && p->fallback &&
      (p->fallback->kind == VTB_EXPR_INT || p->fallback->kind == VTB_EXPR_SIZE))
    *v = vtb__global_value(e, n->decl->file, p->fallback, p->type, name);
  for (size_t k = 0; !p && k < n->n_settings; k++)
    if (strcmp(n->settings[k].o->name, name) == 0) {
      *v = vtb__global_value(e, n->decl->file, n->settings[k].x, NULL, name);
      n->settings[k].used = true;
    }
  return v->kind == VTB__INT || v->kind == VTB__SIZE;
}

static bool token_layout(vtb__eval *e, vtb__entry *n, const vtb_param *p, const vtb_type *t,
                         vtb__layout *l) {
  vtb__val h, w;
  *l =
      (vtb__layout){.kind = VTB__TOKENS, .grid = vtb_grid_series(t->rank > 1 ? t->dim[1].size : 0)};
  if (early_value(e, n, "grid", &h) && h.kind == VTB__SIZE)
    l->grid = h.u.size.rank ? h.u.size : vtb_grid_image(h.u.size.h, h.u.size.w);
  else if (early_value(e, n, "grid_height", &h) && early_value(e, n, "grid_width", &w))
    l->grid = vtb_grid_image(h.u.i, w.u.i);
  const vtb_grid *g = &l->grid;
  bool some = t->rank >= 2 && g->t > 0 && g->h > 0 && g->w > 0;
  if (some && vtb_grid_cells(g) == t->dim[1].size) return true;
  vtb__report(e, VTB_DIAG_BAD_INPUT_TYPE, p->span,
              "'%s' is %s, which are not the tokens of a grid %s", p->name.text,
              vtb__type_string(e, t), vtb__grid_text(e, g));
  return false;
}

static bool entry_tensor(vtb__eval *e, vtb__entry *n, size_t i, const vtb_shape_binding *b) {
  const vtb_param *p = n->decl->params.at[i];
  static const char *const token_names[] = {"B", "N", "C"}, *const sides[] = {"T", "H", "W"};
  vtb_type t = b->type;
  vtb__layout l = vtb__plain;
  bool tokens = strcmp(p->type->name.text, "tokens") == 0;
  int image = vtb__image_rank(p->type->name.text);
  if (!vtb__check_elements(e, &t, "an input", p->span)) return false;
  if (tokens && !token_layout(e, n, p, &t, &l)) return false;
  if (image && t.rank != 2 + image) {
    static const char *const axes[] = {"C, W", "C, H, W", "C, T, H, W"};
    vtb__report(e, VTB_DIAG_BAD_INPUT_TYPE, p->span, "'%s' is %s, not %s [B, %s]", p->name.text,
                vtb__type_string(e, &t), p->type->name.text, axes[image - 1]);
    return false;
  }
  int64_t side[VTB_GRID_AXES];
  for (int k = 0; k < image; k++) side[k] = t.dim[2 + k].size;
  if (image) l = (vtb__layout){.kind = VTB__IMAGE, .grid = vtb_grid_of(image, side)};
  for (int k = 0; k < t.rank; k++) {
    if (tokens && k < 3)
      t.dim[k].name = token_names[k];
    else if (image)
      t.dim[k].name = k == 0 ? "B" : k == 1 ? "C" : sides[k + 1 - image];
    else if (k == 0 && t.rank == 1 && t.dim[0].size == e->batch)
      t.dim[k].name = "B";
  }
  vtb_func *f = e->frame->func;
  vtb_value *v = vtb_func_add_arg(f, b->name, t);
  f->arg_info[v->index] = (vtb_arg_info){
      .role = VTB_ROLE_INPUT, .official = vtb_intern(e->module, b->name), .span = p->name.span};
  n->values[i] = vtb__tensor(v, vtb__layout_new(e, l));
  n->spans[i] = p->span;
  n->set[i] = true;
  return true;
}

static bool entry_tensors(vtb__eval *e, vtb__entry *n) {
  const vtb_decl *d = n->decl;
  bool ok = true;
  for (size_t i = 0; i < d->params.n; i++) {
    const vtb_param *p = d->params.at[i];
    const vtb_shape_binding *b = vtb__is_tensor_type(p->type) ? binding_of(e, p) : NULL;
    if (b && strcmp(p->type->name.text, "tensor") != 0 && b->type.rank && e->batch == VTB_DYN)
      e->batch = b->type.dim[0].size;
  }
  for (size_t i = 0; i < d->params.n; i++) {
    const vtb_param *p = d->params.at[i];
    if (!vtb__is_tensor_type(p->type)) continue;
    const vtb_shape_binding *b = binding_of(e, p);
    if (b)
      ok &= entry_tensor(e, n, i, b);
    else if (!p->fallback) {
      vtb__report_shape(e, p);
      ok = false;
    }
  }
  for (size_t k = 0; k < e->options->n_inputs; k++) {
    const vtb_param *p = vtb__param_find(d, e->options->inputs[k].name);
    if (p && vtb__is_tensor_type(p->type)) continue;
    vtb__report(e, VTB_DIAG_UNKNOWN_BINDING, d->name.span, "%s '%s' has no tensor '%s'",
                vtb__decl_kind_text(d->kind), d->name.text, e->options->inputs[k].name);
    ok = false;
  }
  return ok;
}

/* Tensor parameters of a model are inputs that it can do without; they fix the batch, since no axis
 * of theirs need be the batch. */
static bool model_tensors(vtb__eval *e, vtb__entry *n) {
  bool ok = true;
  for (size_t i = 0; i < n->decl->params.n; i++) {
    const vtb_param *p = n->decl->params.at[i];
    const vtb_shape_binding *b = vtb__is_tensor_type(p->type) ? binding_of(e, p) : NULL;
    for (size_t k = 0; b && e->batch == VTB_DYN && k < e->options->n_inputs; k++)
      if (e->options->inputs[k].type.rank == 4) e->batch = e->options->inputs[k].type.dim[0].size;
    if (b) ok &= entry_tensor(e, n, i, b);
  }
  return ok;
}

static const vtb_arg_info *argument_called(const vtb__eval *e, const char *name) {
  const vtb_func *f = e->frame->func;
  for (int i = 0; i < f->n_args; i++)
    if (vtb_streq(f->arg_info[i].official, name)) return &f->arg_info[i];
  return NULL;
}

static const char *numbered(vtb__eval *e, const char *stem, size_t i) {
  return i ? vtb_arena_printf(&e->arena, "%s%zu", stem, i + 1) : stem;
}

/* Results are y, y2, ...; or result, result2, ... where an argument has one of those names. */
static const char *stem_of_results(vtb__eval *e, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (argument_called(e, numbered(e, "y", i))) return "result";
  return "y";
}

static void run_function(vtb__eval *e, vtb__entry *n) {
  if (!entry_tensors(e, n)) return;
  vtb__env *env = vtb__entry_env(e);
  if (!vtb__entry_bind(e, n, env)) return;
  e->frame->calls++;
  vtb__val v = vtb__run_body(e, n->decl, env, n->decl->name.span);
  check_lets(e, n, env);
  size_t count = v.kind == VTB__TUPLE || v.kind == VTB__LIST ? v.u.list.n : 1;
  vtb__binding *names = vtb__env_find_here(env, "results");
  const char *stem = stem_of_results(e, count);
  for (size_t i = 0; i < count; i++) {
    vtb__val r = v.kind == VTB__TUPLE || v.kind == VTB__LIST ? v.u.list.at[i] : v;
    if (r.kind == VTB__ERROR) continue;
    if (r.kind != VTB__TENSOR) {
      vtb__report(e, VTB_DIAG_TYPE_MISMATCH, n->decl->name.span,
                  "'%s' returns %s, and an entry returns tensors", n->decl->name.text,
                  vtb__describe(e, r));
      continue;
    }
    const char *name = numbered(e, stem, i);
    /* let results = ["y", "state"] */
    if (names && names->value.kind == VTB__LIST && i < names->value.u.list.n &&
        names->value.u.list.at[i].kind == VTB__STRING)
      name = names->value.u.list.at[i].u.str.s;
    vtb__output o = {name, r.u.t.v, n->decl->name.span, NULL};
    vtb_vec_push(&e->frame->outputs, o);
  }
}

/* ---- recurrences ----------------------------------------------------------------------------- */

/* Fields of a config that every recurrence understands: how it runs, and what its inputs' shapes
 * say. */
static bool recurrence_fact(vtb__eval *e, vtb__entry *n, vtb__setting *s,
                            const vtb__entry_values *v) {
  const struct {
    const char *name, *alias;
    int64_t value;
  } facts[] = {{"batch", "batch_size", v->batch},
               {"num_heads", "heads", v->heads},
               {"seq_len", "tokens", v->tokens}};
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
    if (strcmp(s->o->name, facts[i].name) == 0 || strcmp(s->o->name, facts[i].alias) == 0) {
      check_let(e, n, s, vtb__int(facts[i].value), n->decl->name.span);
      return true;
    }
  /* what the case's loss reads is in its probes */
  if (strcmp(s->o->name, "loss_includes_state") == 0) return s->used = true;
  if (strcmp(s->o->name, "initial_state") != 0) return false;
  check_let(e, n, s, vtb__bool(v->has_state), n->decl->name.span);
  return true;
}

/* Hyperparameters that nobody set. */
static void take_defaults(vtb__eval *e, vtb__entry *n) {
  const vtb_decl *d = n->decl;
  for (size_t i = 0; i < d->params.n; i++) {
    const vtb_param *p = d->params.at[i];
    if (p->type->kind == VTB_TYPE_SHAPE || n->set[i]) continue;
    if (p->fallback)
      n->values[i] = vtb__global_value(e, d->file, p->fallback, p->type, p->name.text);
    else
      vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, p->span, "hyperparameter '%s' has no value",
                  p->name.text);
  }
}

static void run_recurrence(vtb__eval *e, vtb__entry *n) {
  const vtb_decl *d = n->decl;
  vtb__entry_values v = {.values = n->values, .mode = VTB__NIL};
  take_defaults(e, n);
  for (size_t i = 0; i < n->n_settings; i++) {
    vtb__setting *s = &n->settings[i];
    bool mode = strcmp(s->o->name, "mode") == 0 || strcmp(s->o->name, "form") == 0;
    bool chunk = strcmp(s->o->name, "chunk") == 0 || strcmp(s->o->name, "chunk_size") == 0;
    if (s->used || (!mode && !chunk)) continue;
    vtb__val x = vtb__global_value(e, d->file, s->x, NULL, s->o->name);
    s->used = true;
    if (mode)
      v.mode = x;
    else if (x.kind == VTB__INT && x.u.i >= 0)
      v.chunk = x.u.i;
    else if (x.kind != VTB__ERROR)
      vtb__report(e, VTB_DIAG_BAD_CHUNK, s->x->span, "a chunk is a number of tokens, not %s",
                  vtb__describe(e, x));
  }
  if (e->diags->n_errors > e->errors_before || !vtb__recurrence_entry(e, d, &v)) return;
  for (size_t i = 0; i < n->n_settings; i++)
    if (!n->settings[i].used && n->settings[i].o->from_config && !n->settings[i].o->fact)
      recurrence_fact(e, n, &n->settings[i], &v);
  check_lets(e, n, e->step_env);
}

/* ---- optimizers ------------------------------------------------------------------------------ */

static void run_optimizer(vtb__eval *e, vtb__entry *n) {
  take_defaults(e, n);
  check_lets(e, n, NULL);
  if (e->diags->n_errors == e->errors_before) vtb__optimizer_entry(e, n->decl, n->values);
}

/* ---- schedules ------------------------------------------------------------------------------- */

/* A schedule has no program: it is tried at the first update of a run. */
static void run_schedule(vtb__eval *e, vtb__entry *n) {
  vtb__env *env = vtb__entry_env(e);
  vtb_pace pace;
  if (vtb__entry_check(e, n) && vtb__entry_bind(e, n, env))
    vtb__schedule_at(e, n->decl, env, &vtb_moment_example, &pace);
}

/* ---- the module ------------------------------------------------------------------------------ */

/* A program's arrays are found by their names. */
static void check_outputs(vtb__eval *e, const vtb__entry *n) {
  for (size_t i = 0; i < e->frame->outputs.n; i++) {
    const vtb__output *o = &e->frame->outputs.at[i];
    const vtb_arg_info *a = argument_called(e, o->name);
    bool twice = false;
    for (size_t k = 0; k < i; k++) twice |= strcmp(e->frame->outputs.at[k].name, o->name) == 0;
    if (twice)
      vtb__report(e, VTB_DIAG_REPEATED_OUTPUT, o->span, "%s '%s' has two results called '%s'",
                  vtb__decl_kind_text(n->decl->kind), n->decl->name.text, o->name);
    if (!a || e->options->shared_names) continue;
    const char *what = a->role == VTB_ROLE_INPUT ? "input" : "parameter";
    vtb__report(e, VTB_DIAG_REPEATED_OUTPUT, o->span, "%s '%s' has %s %s and a result called '%s'",
                vtb__decl_kind_text(n->decl->kind), n->decl->name.text,
                a->role == VTB_ROLE_INPUT ? "an" : "a", what, o->name);
    if (!e->stopped && a->span.source)
      vtb_diag_note(e->diags, a->span, "the %s is declared here", what);
    vtb__help(e, "rename one of them");
  }
}

/* The function, under the name that was asked for, `d`. */
static void build_entry(vtb__eval *e, const vtb_decl *d, vtb__entry *n) {
  vtb__frame frame = {.is_model = true};
  bool schedule = n->decl->kind == VTB_DECL_SCHEDULE;
  bool optimizer = n->decl->kind == VTB_DECL_OPTIMIZER;
  frame.func =
      vtb_func_new(e->module, d->name.text, optimizer || schedule ? VTB_FUNC_RULE : VTB_FUNC_PLAIN,
                   n->decl->name.span);
  frame.b = (vtb_builder){.module = e->module, .func = frame.func, .diags = e->diags};
  frame.calls = e->calls;
  e->frame = &frame;
  e->file = n->decl->file;
  if (n->decl->kind == VTB_DECL_MODEL)
    run_model(e, n);
  else if (n->decl->kind == VTB_DECL_RECURRENCE)
    run_recurrence(e, n);
  else if (optimizer)
    run_optimizer(e, n);
  else if (schedule)
    run_schedule(e, n);
  else
    run_function(e, n);
  if (e->diags->n_errors == e->errors_before && !optimizer) check_outputs(e, n);
  if (e->diags->n_errors == e->errors_before) {
    vtb__set_returns(e);
    e->module->entry = frame.func;
    if (n->decl->kind == VTB_DECL_MODEL) {
      vtb__warn_unused(e);
      vtb__warn_unreached(e);
    }
    vtb__drop_objective(e);
  }
  if (e->options->augment && frame.augmented) {
    e->module->entry = frame.augmented;
    vtb_module_remove(e->module, frame.func);
  }
  vtb_vec_free(&frame.weights);
  vtb_vec_free(&frame.outputs);
  vtb_vec_free(&frame.taps);
  vtb_vec_free(&frame.updates);
  vtb_vec_free(&frame.measures);
  vtb_vec_free(&frame.inputs);
}

static void run_entry(vtb__eval *e, const char *name) {
  vtb__entry n = {0};
  vtb__warn_hidden(e);
  const vtb_decl *d = vtb__entry_find(e, name);
  if (d && vtb__entry_presets(e, d, &n) && vtb__entry_parse(e, &n) && vtb__entry_apply(e, &n))
    build_entry(e, d, &n);
  vtb_vec_free(&n.presets);
}

vtb_module *vtb_instantiate(vtb_unit *u, const char *name, const vtb_instantiate_options *o,
                            vtb_diags *diags) {
  if (!u || u->has_syntax_errors || !u->files.n) return NULL;
  vtb__eval e;
  vtb__eval_begin(&e, u, name, o, diags);
  vtb_module *m = e.module;
  run_entry(&e, name);
  vtb_module_renumber_names(m);
  vtb__eval_end(&e);
  if (diags->n_errors == e.errors_before && m->entry) return m;
  vtb_module_free(m);
  return NULL;
}
