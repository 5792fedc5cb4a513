/* augment { }: what becomes of one sample in training, before the model sees it.
 *
 *   input picture: image[3]            input a, b: view(picture)
 *   augment {                          augment {
 *     picture = jitter(picture)          picture = jitter(picture)
 *   }                                  }
 *
 * Inputs of the model are variables of the body, all of f32: the image as the numbers of its bytes,
 * whole numbers as they are. The model gets what the body assigns to them. The body is evaluated in
 * a function of its own in every program, so that mistakes are found, and for each size of a view;
 * the function is kept where the options ask for it. */
#include "ir/axes.h"
#include "runtime/base/augment.h"
#include "ir/ops.h"
#include "frontend/lang/ast_walk.h"
#include "frontend/lang/value.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool is_picture(const vtb__declared *d) {
  const vtb__layout *l = d->value.u.t.layout;
  return l->kind == VTB__IMAGE && l->grid.rank == 2;
}

static int64_t count_views(const vtb__frame *f) {
  int64_t n = 0;
  for (size_t i = 0; i < f->inputs.n; i++) n += f->inputs.at[i].view != NULL;
  return n;
}

/* Views count from 1; whoever feeds the program reads it where params have their initialiser. */
static void number_view(vtb__eval *e, const vtb__declared *d, int64_t n) {
  e->frame->func->arg_info[d->value.u.t.v->index].init =
      vtb_intern(e->module, vtb_arena_printf(&e->arena, "view %lld", (long long)n));
}

void vtb__declare_input(vtb__eval *e, vtb_name name, vtb__val v, const vtb_type_expr *view) {
  vtb__frame *f = e->frame;
  vtb__declared d = {.name = name, .value = v, .view = view ? view->name.text : NULL};
  if (view && !is_picture(&d)) {
    vtb__report(e, VTB_DIAG_BAD_VIEW, view->span, "a view is an image, not %s",
                vtb__describe(e, v));
    vtb__help(e, "view(%s) is image[3]; another size is view(%s, image[3, 96, 96])", d.view,
              d.view);
  }
  vtb_vec_push(&f->inputs, d);
  if (view) number_view(e, &d, count_views(f));
}

/* The first that is a view; NULL: there is none. */
static const vtb__declared *first_view(const vtb__frame *f) {
  for (size_t i = 0; i < f->inputs.n; i++)
    if (f->inputs.at[i].view) return &f->inputs.at[i];
  return NULL;
}

static int64_t channels_of(const vtb__declared *d) { return d->value.u.t.v->type.dim[1].size; }

/* Views are of one picture, which is no input itself, and all images are such. */
static bool check_views(vtb__eval *e) {
  const vtb__frame *f = e->frame;
  const vtb__declared *view = first_view(f);
  for (size_t i = 0; view && i < f->inputs.n; i++) {
    const vtb__declared *d = &f->inputs.at[i];
    if (d->view && channels_of(d) != channels_of(view)) {
      vtb__report(e, VTB_DIAG_BAD_VIEW, d->name.span,
                  "'%s' takes %lld of the picture's channels, and '%s' %lld", d->name.text,
                  (long long)channels_of(d), view->name.text, (long long)channels_of(view));
      vtb__help(e, "views of one picture have the same channels");
      return false;
    }
    if (d->view && strcmp(d->view, view->view) != 0)
      vtb__report(e, VTB_DIAG_BAD_VIEW, d->name.span,
                  "'%s' is a view of '%s', and '%s' one of '%s': a sample has one picture",
                  d->name.text, d->view, view->name.text, view->view);
    else if (strcmp(d->name.text, view->view) == 0)
      vtb__report(e, VTB_DIAG_BAD_VIEW, d->name.span,
                  "'%s' is an input itself, and '%s' a view of it: views are of the data's picture",
                  d->name.text, view->name.text);
    else if (!d->view && is_picture(d))
      vtb__report(e, VTB_DIAG_BAD_VIEW, d->name.span,
                  "'%s' is an image beside views of '%s', and not one of them", d->name.text,
                  view->view);
    else
      continue;
    vtb__help(e, "input %s, NAME: view(PICTURE) are two views of a picture that has no input",
              view->name.text);
    return false;
  }
  return true;
}

void vtb__check_inputs(vtb__eval *e) {
  const vtb__frame *f = e->frame;
  if (!check_views(e) || !f->augment || f->n_augmented == f->inputs.n) return;
  vtb__report(e, VTB_DIAG_BAD_AUGMENT, f->inputs.at[f->n_augmented].name.span,
              "input '%s' stands behind augment, which would leave it as it is",
              f->inputs.at[f->n_augmented].name.text);
  vtb__help(e, "put augment behind the inputs");
}

/* ---- what a body may not have ---------------------------------------------------------------- */

typedef struct names {
  vtb__visitor visitor;
  vtb__eval *e;
  vtb_map assigned; /* by name */
  bool ok;
} names;

/* Beside views the picture is all that a body knows: they go by its name, and a sample has one of
 * every other input, which the views' equations would each change. */
static bool is_beside_picture(names *n, const char *name, vtb_span at) {
  const vtb__frame *f = n->e->frame;
  const vtb__declared *view = first_view(f), *d = NULL;
  for (size_t i = 0; view && i < f->inputs.n && !d; i++)
    if (strcmp(f->inputs.at[i].name.text, name) == 0) d = &f->inputs.at[i];
  if (!d || !n->ok) return d != NULL;
  if (d->view)
    vtb__report(n->e, VTB_DIAG_BAD_AUGMENT, at, "'%s' is called '%s' in augment", name, d->view);
  else
    vtb__report(n->e, VTB_DIAG_BAD_AUGMENT, at,
                "'%s' is not known in augment, which beside views is of '%s' alone", name,
                view->view);
  vtb__help(n->e, "each view of '%s' is made for itself, by the same equations", view->view);
  n->ok = false;
  return true;
}

static bool note_assigned(vtb__visitor *v, const vtb_stmt *s) {
  names *n = (names *)v;
  bool assigns = s->kind == VTB_STMT_ASSIGN || s->kind == VTB_STMT_OP_ASSIGN;
  for (size_t i = 0; assigns && i < s->u.assign.n_targets; i++) {
    vtb_name target = s->u.assign.targets[i];
    if (!is_beside_picture(n, target.text, target.span)) vtb_map_set(&n->assigned, target.text, n);
  }
  const char *what = s->kind == VTB_STMT_LOSS     ? "a loss"
                     : s->kind == VTB_STMT_METRIC ? "a metric"
                     : s->kind == VTB_STMT_INPUT  ? "an input"
                     : s->kind == VTB_STMT_OUTPUT ? "an output"
                     : s->kind == VTB_STMT_TAP    ? "a tap"
                                                  : NULL;
  if (!what && s->kind == VTB_STMT_SCOPE && s->u.scope.kind == VTB_SCOPE_AUGMENT)
    what = "an augment";
  if (what && n->ok) {
    vtb__report(n->e, VTB_DIAG_BAD_AUGMENT, s->span,
                "augment has %s: it only makes other samples, before the model", what);
    n->ok = false;
  }
  return true;
}

static bool holds_tensor(vtb__val v) {
  if (v.kind == VTB__TENSOR) return true;
  bool any = false;
  if (v.kind == VTB__LIST || v.kind == VTB__TUPLE)
    for (size_t i = 0; i < v.u.list.n; i++) any |= holds_tensor(v.u.list.at[i]);
  return any;
}

static bool is_input(const vtb__frame *f, const char *name) {
  const vtb__declared *view = first_view(f);
  if (view) return strcmp(name, view->view) == 0;
  for (size_t i = 0; i < f->inputs.n; i++)
    if (strcmp(f->inputs.at[i].name.text, name) == 0) return true;
  return false;
}

/* Values of the model are not there yet when a sample is made. */
static bool check_name(vtb__visitor *v, const vtb_expr *x) {
  names *n = (names *)v;
  const vtb__binding *b =
      x->kind == VTB_EXPR_NAME ? vtb__env_find_here(n->e->env, x->u.name) : NULL;
  if (x->kind == VTB_EXPR_NAME && is_beside_picture(n, x->u.name, x->span)) return true;
  if (!n->ok || !b || !holds_tensor(b->value) || is_input(n->e->frame, x->u.name) ||
      vtb_map_has(&n->assigned, x->u.name))
    return true;
  vtb__report(n->e, VTB_DIAG_BAD_AUGMENT, x->span,
              "'%s' is not known in augment, which is before the model", x->u.name);
  vtb__help(n->e, "%s, and what is known when compiling",
            first_view(n->e->frame) ? "the picture is" : "inputs are");
  n->ok = false;
  return true;
}

static bool check_body(vtb__eval *e, const vtb_stmt *s) {
  names n = {.visitor = {.stmt = note_assigned}, .e = e, .ok = true};
  vtb__walk_stmts(&n.visitor, &s->u.scope.body);
  n.visitor = (vtb__visitor){.expr = check_name};
  if (n.ok) vtb__walk_stmts(&n.visitor, &s->u.scope.body);
  vtb_map_free(&n.assigned);
  return n.ok;
}

static bool is_placed(vtb__eval *e, const vtb_stmt *s) {
  if (!e->frame || !e->frame->is_model || e->decl->kind != VTB_DECL_MODEL) {
    vtb__report(e, VTB_DIAG_MISPLACED, s->span, "augment belongs to models");
    return false;
  }
  if (!e->frame->augment) return true;
  vtb__report(e, VTB_DIAG_BAD_AUGMENT, s->span, "a model has one augment");
  if (!e->stopped) vtb_diag_note(e->diags, e->frame->augment->span, "the other one");
  return false;
}

/* The images: the one there is, or the views. */
static const vtb__declared *first_picture(vtb__eval *e, const vtb_stmt *s) {
  const vtb__frame *f = e->frame;
  const vtb__declared *found = first_view(f);
  bool several = false;
  for (size_t i = 0; !found && !several && i < f->inputs.n; i++)
    if (is_picture(&f->inputs.at[i])) found = &f->inputs.at[i];
  for (size_t i = 0; found && !found->view && i < f->inputs.n; i++)
    several |= is_picture(&f->inputs.at[i]) && &f->inputs.at[i] != found;
  if (found && !several) return found;
  vtb__report(e, VTB_DIAG_BAD_AUGMENT, s->span,
              several ? "augment is of one image, and the model has several"
                      : "augment is of an image, and the model has no such input before it");
  vtb__help(e, several ? "input a, b: view(picture) are several of one picture"
                       : "input picture: image[3] before it");
  return NULL;
}

/* ---- the function ---------------------------------------------------------------------------- */

/* An input as the body sees it: numbers, whatever they are of; a map of classes has its axes by
 * name. */
static void bind_input(vtb__eval *e, vtb_func *f, const char *name, const vtb__declared *d) {
  vtb_type t = d->value.u.t.v->type;
  if (t.dtype == VTB_I32 && t.rank == 3) t.dim[1].name = "height", t.dim[2].name = "width";
  t.dtype = VTB_F32;
  vtb_value *arg = vtb_func_add_arg(f, name, t);
  f->arg_info[arg->index] = (vtb_arg_info){
      .role = VTB_ROLE_INPUT, .official = vtb_intern(e->module, name), .span = d->name.span};
  vtb__env_bind(e, name, vtb__tensor(arg, d->value.u.t.layout), NULL, d->name.span);
}

/* Everything that is known when compiling. */
static void bind_known(vtb__eval *e, const vtb__env *model) {
  for (const vtb__binding *b = model->first; b; b = b->next)
    if (!holds_tensor(b->value)) vtb__env_bind(e, b->name, b->value, b->fixed, b->span);
}

static bool same_axes(const vtb_type *a, const vtb_type *b) {
  bool same = a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++) same = a->dim[i].size == b->dim[i].size;
  return same;
}

/* The value of an input behind the body; NULL after an error. */
static vtb_value *made(vtb__eval *e, const vtb_value *arg) {
  const vtb__binding *b = vtb__env_find_here(e->env, arg->name);
  if (b->value.kind == VTB__ERROR) return NULL;
  vtb_value *v = b->value.kind == VTB__TENSOR ? b->value.u.t.v : NULL;
  if (v && same_axes(&v->type, &arg->type))
    return v->type.dtype == VTB_F32 ? v : vtb_b_cast(vtb__at(e, b->span), v, VTB_F32);
  vtb__report(e, VTB_DIAG_BAD_AUGMENT, b->span, "augment leaves '%s' as %s, and the model takes %s",
              b->name, vtb__describe(e, b->value), vtb__type_string(e, &arg->type));
  return NULL;
}

static bool set_results(vtb__eval *e, const vtb_stmt *s, int n_inputs) {
  vtb_func *f = e->frame->func;
  vtb_value **values = VTB_NEW_ARRAY(&e->arena, vtb_value *, n_inputs);
  const char **called = VTB_NEW_ARRAY(&e->arena, const char *, n_inputs);
  int n = 0;
  for (int i = 0; i < n_inputs; i++) {
    called[n] = f->arg_info[i].official;
    values[n] = made(e, f->args[i]);
    if (!values[n]) return false;
    n += values[n] != f->args[i];
  }
  vtb_func_set_returns(f, values, called, n);
  if (n) return true;
  vtb__report(e, VTB_DIAG_BAD_AUGMENT, s->span, "augment assigns to no input: it makes nothing");
  vtb__help(e, "%s = ... in its braces", f->arg_info[0].official);
  return false;
}

/* Inputs that nothing reads, but for the image. */
static void remove_unread(vtb_func *f, int n_inputs) {
  int *uses = vtb_count_uses(f);
  for (int a = n_inputs - 1; a > 0; a--)
    if (!uses[f->args[a]->id]) vtb_func_remove_arg(f, a);
  vtb_free(uses);
}

/* True if it takes an axis of the batch apart, or sums over it. */
static bool is_of_several(const vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++) {
    int axis = vtb_batch_axis(&i->operands[o]->type);
    if (axis < 0) continue;
    if (vtb_has_axis(i, "axis", axis) || vtb_has_axis(i, "axes", axis)) return true;
    if (i->op == VTB_OP_einsum && vtb_axis_after(i, o, axis) == VTB_AXIS_GONE) return true;
  }
  for (int r = 0; r < i->n_results; r++)
    if (vtb_type_batch_axes(&i->results[r]->type) > 1) return true;
  return false;
}

/* Results are of one sample each, as far as the body itself says; blocks are not looked into. */
static bool is_of_samples(vtb__eval *e, const vtb_func *f) {
  for (const vtb_inst *i = f->first; i; i = i->next) {
    if (i->op == VTB_OP_call || !is_of_several(i)) continue;
    vtb__report(e, VTB_DIAG_BAD_AUGMENT, i->span,
                "augment makes a sample of one sample, and this is of several");
    vtb__help(e, "samples meet in the model itself: mixup(...) there");
    return false;
  }
  return true;
}

static bool run_body(vtb__eval *e, const vtb_stmt *s, int n_inputs) {
  int errors = e->diags->n_errors;
  vtb__body_value(e, &s->u.scope.body);
  if (e->stopped || e->diags->n_errors > errors) return false;
  vtb_func *f = e->frame->func;
  for (int a = n_inputs; a < f->n_args; a++) {
    if (f->args[a] == e->frame->seed) continue;
    vtb__report(e, VTB_DIAG_BAD_AUGMENT, f->arg_info[a].span,
                "augment has param '%s': it is before the model, and nothing trains it",
                f->args[a]->name);
    return false;
  }
  if (!set_results(e, s, n_inputs) || (e->batch == VTB_DYN && !is_of_samples(e, f))) return false;
  remove_unread(f, n_inputs);
  return true;
}

/* The body over the image d, as a function; NULL after errors. It is of training, whatever the
 * program is of, with blocks of its own. Its draws are numbered from 0, so that they do not depend
 * on what else the model draws, nor the model's on them. */
static vtb_func *evaluate(vtb__eval *e, const vtb_stmt *s, const vtb__declared *d) {
  vtb__frame *model = e->frame, frame = {.calls = e->calls};
  vtb__env *outside = e->env, *env = VTB_NEW(&e->arena, vtb__env);
  const char *prefix = e->prefix;
  const vtb_instantiate_options *options = e->options;
  vtb_instantiate_options training = *options;
  vtb_map blocks = e->blocks;
  int streams = e->n_streams, n_inputs = 0;
  frame.func = vtb_func_new(e->module, "augment", VTB_FUNC_PLAIN, s->span);
  frame.b = (vtb_builder){.module = e->module, .func = frame.func, .diags = e->diags};
  env->caller = outside;
  e->env = env;
  bind_known(e, outside);
  bind_input(e, frame.func, d->view ? d->view : d->name.text, d);
  for (size_t i = 0; !d->view && i < model->inputs.n; i++)
    if (&model->inputs.at[i] != d)
      bind_input(e, frame.func, model->inputs.at[i].name.text, &model->inputs.at[i]);
  n_inputs = frame.func->n_args;
  training.training = true;
  e->options = &training;
  e->blocks = (vtb_map){0};
  e->frame = &frame;
  e->n_streams = 0;
  bool ok = run_body(e, s, n_inputs);
  if (frame.seed)
    frame.func->arg_info[frame.seed->index] = (vtb_arg_info){
        .role = VTB_ROLE_INPUT, .official = vtb_intern(e->module, "seed"), .span = s->span};
  vtb_map_free(&e->blocks);
  e->blocks = blocks;
  e->options = options;
  e->n_streams = streams;
  e->frame = model;
  e->env = outside;
  e->prefix = prefix;
  vtb_vec_free(&frame.weights);
  vtb_vec_free(&frame.outputs);
  vtb_vec_free(&frame.taps);
  vtb_vec_free(&frame.updates);
  vtb_vec_free(&frame.measures);
  return ok ? frame.func : NULL;
}

/* ---- inside the step ------------------------------------------------------------------------- */

static vtb_value *add_input(vtb__eval *e, const char *name, const vtb_type *t, vtb_span span) {
  vtb_func *f = e->frame->func;
  vtb_value *arg = vtb_func_add_arg(f, name, *t);
  f->arg_info[arg->index] =
      (vtb_arg_info){.role = VTB_ROLE_INPUT, .official = vtb_intern(e->module, name), .span = span};
  return arg;
}

typedef VTB_VEC(vtb_value *) operands;

/* Draws of the function become arguments, which whoever feeds the model fills by sample. */
static bool lift_draws(vtb__eval *e, const vtb_stmt *s, vtb_func *f, int view, operands *out) {
  bool ok = true;
  for (vtb_inst *i = f->first, *next; i && ok; i = next) {
    next = i->next;
    if (i->op != VTB_OP_random) continue;
    const vtb_type *t = &i->results[0]->type;
    ok = t->rank > 0 && t->dim[0].size == e->batch;
    if (!ok) break;
    const char *name = vtb_arena_printf(&e->arena, "%s%d.%lld", VTB_AUGMENT_DRAW, view,
                                        (long long)vtb_attr_int(i, "stream", 0));
    vtb_vec_push(out, add_input(e, name, t, s->span));
    vtb_replace_all(i->results[0], vtb_func_add_arg(f, "draw", *t));
    vtb_inst_unlink(i);
  }
  int *uses = vtb_count_uses(f);
  for (int a = f->n_args - 1; a >= 0; a--) {
    if (!vtb_streq(f->arg_info[a].official, "seed")) continue;
    ok &= !uses[f->args[a]->id];
    if (ok) vtb_func_remove_arg(f, a);
  }
  vtb_free(uses);
  if (ok) return true;
  vtb__report(e, VTB_DIAG_BAD_AUGMENT, s->span,
              "augment draws in a block or a loop, or without the batch, which the step cannot do");
  vtb__help(e, "--augment-in loader");
  return false;
}

static vtb_value *rounded(vtb_builder *b, vtb_value *x) { return vtb_b_unary(b, VTB_OP_round, x); }

/* y where x is a number, else NaN, which a loss then is. */
static vtb_value *where_number(vtb_builder *b, vtb_value *x, vtb_value *y) {
  return vtb_b_select(b, vtb_b_binary(b, VTB_OP_eq, x, x), y, x);
}

/* Bytes become what `prepare` makes of them: (x / 255 - mean) / std. */
static vtb_value *normalised(vtb_builder *b, vtb_value *x, vtb_value *moments) {
  vtb_type one = {.dtype = VTB_F32, .rank = 4, .dim = {x->type.dim[0], x->type.dim[1]}};
  one.dim[2] = one.dim[3] = (vtb_dim){1, NULL};
  vtb_value *part[2];
  for (int k = 0; k < 2; k++)
    part[k] = vtb_b_reshape(b, vtb_b_slice(b, moments, 1, k, k + 1, 1), &one);
  vtb_value *byte = vtb_b_binary(b, VTB_OP_max, x, vtb_b_constant(b, 0));
  byte = rounded(b, vtb_b_binary(b, VTB_OP_min, byte, vtb_b_constant(b, 255)));
  x = vtb_b_binary(b, VTB_OP_div, where_number(b, x, byte), vtb_b_constant(b, 255));
  return vtb_b_binary(b, VTB_OP_div, vtb_b_binary(b, VTB_OP_sub, x, part[0]), part[1]);
}

/* The input that the function's argument or result of this name is of. */
static vtb__declared *input_of(vtb__frame *f, vtb__declared *image, const char *name) {
  for (size_t i = 0; i < f->inputs.n; i++)
    if (strcmp(f->inputs.at[i].name.text, name) == 0) return &f->inputs.at[i];
  return image;
}

static void rebind(vtb__eval *e, const vtb__declared *d, vtb_value *v) {
  vtb__env_bind(e, d->name.text, vtb__tensor(v, d->value.u.t.layout), NULL, d->name.span);
}

/* Inputs of the model are from now on what the function makes of them. moments: NULL of an image
 * that is an array, whose numbers are no bytes. */
static bool go_through(vtb__eval *e, const vtb_stmt *s, vtb_func *f, vtb__declared *d, int view,
                       vtb_value *moments) {
  vtb_builder *b = vtb__at(e, s->span);
  bool bytes = moments != NULL;
  vtb_value *image = bytes ? rounded(b, d->value.u.t.v) : d->value.u.t.v;
  operands draws = {0}, all = {0};
  bool ok = lift_draws(e, s, f, view, &draws);
  int n_inputs = f->n_args - (int)draws.n;
  for (int a = 0; a < n_inputs && ok; a++) {
    const vtb__declared *of = input_of(e->frame, d, f->arg_info[a].official);
    vtb_value *v = of->value.u.t.v;
    vtb_vec_push(&all, of == d ? image : v->type.dtype == VTB_I32 ? vtb_b_cast(b, v, VTB_F32) : v);
  }
  for (size_t i = 0; i < draws.n; i++) vtb_vec_push(&all, draws.at[i]);
  vtb_inst *call = ok ? vtb_b_call(b, f, all.at, (int)all.n) : NULL;
  for (int r = 0; call && r < f->n_returns; r++) {
    vtb__declared *of = input_of(e->frame, d, f->return_names[r]);
    vtb_value *v = call->results[r];
    if (of == d)
      image = v;
    else if (of->value.u.t.v->type.dtype == VTB_I32)
      rebind(e, of, of->made = vtb_b_cast(b, rounded(b, v), VTB_I32));
    else
      rebind(e, of, v);
  }
  if (call) rebind(e, d, bytes ? normalised(b, image, moments) : image);
  vtb_vec_free(&draws);
  vtb_vec_free(&all);
  return call != NULL;
}

vtb_value *vtb__check_classes(vtb__eval *e, vtb_value *labels, vtb_value *table, vtb_span span) {
  const vtb__frame *f = e->frame;
  vtb_builder *b = vtb__at(e, span);
  double n = (double)table->type.dim[table->type.rank - 1].size;
  bool made = false;
  for (size_t i = 0; i < f->inputs.n; i++) made |= f->inputs.at[i].made == labels;
  if (!made) return table;
  vtb_value *x = labels->def->operands[0];
  vtb_type column = x->type;
  column.dim[column.rank++] = (vtb_dim){1, NULL};
  vtb_value *known =
      vtb_b_binary(b, VTB_OP_mul, vtb_b_binary(b, VTB_OP_ge, x, vtb_b_constant(b, 0)),
                   vtb_b_binary(b, VTB_OP_gt, vtb_b_constant(b, n), x));
  for (int c = -1; c < 256; c += 256)
    known = vtb_b_binary(b, VTB_OP_max, known, vtb_b_binary(b, VTB_OP_eq, x, vtb_b_constant(b, c)));
  return vtb_b_binary(b, VTB_OP_div, table, vtb_b_reshape(b, known, &column));
}

/* For all images the same. */
static vtb_value *add_moments(vtb__eval *e, const vtb__declared *d) {
  const vtb_type *image = &d->value.u.t.v->type;
  vtb_type t = {.dtype = VTB_F32, .rank = 3, .dim = {image->dim[0], {2, NULL}, image->dim[1]}};
  return add_input(e, VTB_AUGMENT_MOMENTS, &t, d->name.span);
}

/* ---- the statement --------------------------------------------------------------------------- */

/* An image of that size before it had the same body. */
static bool is_known(const vtb__frame *f, const vtb__declared *d) {
  for (const vtb__declared *x = f->inputs.at; x != d; x++)
    if (x->view && same_axes(&x->value.u.t.v->type, &d->value.u.t.v->type)) return true;
  return false;
}

static const char *line_of_statement(vtb__eval *e, vtb_span at) {
  return vtb_arena_printf(&e->arena, "%s:%d", at.source->path,
                          vtb_source_locate(at.source, at.begin).line);
}

vtb__val vtb__augment(vtb__eval *e, const vtb_stmt *s) {
  if (vtb__called_model(e)) return VTB__NIL; /* its inputs are made by whoever calls it */
  if (!is_placed(e, s)) return VTB__ERR;
  const vtb__declared *first = first_picture(e, s);
  if (!first || !check_views(e) || !check_body(e, s)) return VTB__ERR;
  vtb__frame *f = e->frame;
  const char *wanted = e->options->augment;
  bool inside = e->options->augment_inside;
  vtb_value *moments = inside && !e->options->augment_arrays ? add_moments(e, first) : NULL;
  int view = 0;
  f->augment = s;
  f->n_augmented = f->inputs.n;
  if (!first->view) number_view(e, first, 1);
  for (size_t i = 0; i < f->inputs.n; i++) {
    vtb__declared *d = &f->inputs.at[i];
    bool known = d->view && is_known(f, d) && !inside && !vtb_streq(wanted, d->name.text);
    if (known || (!d->view && d != first)) continue;
    vtb_func *func = evaluate(e, s, d);
    if (!func) return VTB__ERR;
    if (inside && !go_through(e, s, func, d, ++view, moments)) return VTB__ERR;
    if (inside) continue;
    if (vtb_streq(wanted, d->name.text))
      f->augmented = func;
    else
      vtb_module_remove(e->module, func);
  }
  e->module->augment = vtb_intern(e->module, line_of_statement(e, s->span));
  return VTB__NIL;
}
