/* Calls of recurrences: arguments to operands of op recurrence (ir/recurrence.h).
 *
 * A step parameter [X...] takes tokens [B, N, h..., X...]; h... is whatever stands between the
 * token axis and the step's axes, the same for all. A tensor without tokens is a constant of the
 * step, [X...] or [h..., X...]. */
#include "ir/recurrence.h"
#include "ir/ops.h"
#include "frontend/lang/recurrence.h"
#include "runtime/base/names.h"

/* ---- the declaration ------------------------------------------------------------------------- */

/* Fills decl, states and arrays. */
static void begin_call(vtb__eval *e, vtb__rcall *c, const vtb_decl *d, vtb_span span) {
  size_t n = d->params.n;
  *c = (vtb__rcall){.decl = d, .mode = "auto", .span = span, .n_heads = -1, .layout = &vtb__plain};
  c->values = VTB_NEW_ARRAY(&e->arena, vtb__val, n);
  c->is_step = VTB_NEW_ARRAY(&e->arena, bool, n);
  c->is_seq = VTB_NEW_ARRAY(&e->arena, bool, n);
  c->spans = VTB_NEW_ARRAY(&e->arena, vtb_span, n);
  for (size_t i = 0; i < n; i++) {
    c->is_step[i] = d->params.at[i]->type->kind == VTB_TYPE_SHAPE;
    c->spans[i] = span;
  }
  size_t count = 0;
  for (size_t i = 0; i < d->body.n; i++)
    if (d->body.at[i]->kind == VTB_STMT_STATE) count += d->body.at[i]->u.state.n;
  c->state = VTB_NEW_ARRAY(&e->arena, const vtb_state_decl *, count);
  c->init = VTB_NEW_ARRAY(&e->arena, vtb__val, count);
  for (size_t i = 0; i < d->body.n; i++)
    for (size_t k = 0; d->body.at[i]->kind == VTB_STMT_STATE && k < d->body.at[i]->u.state.n; k++)
      c->state[c->n_states++] = d->body.at[i]->u.state.at[k];
}

int vtb__axis_index(const vtb__rcall *c, const char *name) {
  for (int i = 0; i < c->n_axes; i++)
    if (strcmp(c->axes[i], name) == 0) return i;
  return -1;
}

static bool declare_axes(vtb__eval *e, vtb__rcall *c, const vtb_type_expr *t) {
  for (size_t i = 0; i < t->dims.n; i++) {
    const vtb_expr *x = t->dims.at[i];
    if (x->kind != VTB_EXPR_NAME) {
      vtb__report(e, VTB_DIAG_UNKNOWN_AXIS, x->span, "axes of a step have names, [K, V]");
      return false;
    }
    if (vtb__axis_index(c, x->u.name) >= 0) continue;
    if (c->n_axes == VTB_MAX_RANK) {
      vtb__report(e, VTB_DIAG_TOO_MANY_AXES, x->span, "a step has at most %d axes", VTB_MAX_RANK);
      return false;
    }
    c->axes[c->n_axes++] = x->u.name;
  }
  return true;
}

/* Does an axis that is not placed yet stand before `axis` in a state? */
static bool waits(const vtb__rcall *c, const char *axis, const bool *placed) {
  for (size_t i = 0; i < c->n_states; i++) {
    const vtb_type_expr *t = c->state[i]->type;
    bool before = false;
    for (size_t k = 0; k < t->dims.n; k++) {
      const char *name = t->dims.at[k]->u.name;
      if (strcmp(name, axis) == 0 && before) return true;
      before |= !placed[vtb__axis_index(c, name)];
    }
  }
  return false;
}

/* Brings the axes of the states into an order that every state has, if there is one: [K, V] and
 * [L, V] make K, L, V. Else, and where states leave it open, the order of first appearance. */
static void order_axes(vtb__rcall *c) {
  const char *order[VTB_MAX_RANK];
  bool placed[VTB_MAX_RANK] = {false};
  for (int n = 0; n < c->n_axes; n++) {
    int next = -1, first = -1;
    for (int a = c->n_axes - 1; a >= 0; a--) {
      if (placed[a]) continue;
      first = a;
      if (!waits(c, c->axes[a], placed)) next = a;
    }
    if (next < 0) next = first;
    placed[next] = true;
    order[n] = c->axes[next];
  }
  memcpy(c->axes, order, sizeof order[0] * (size_t)c->n_axes);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static vtb__val step_error(vtb__eval *e, const vtb__rcall *c, size_t i, const char *why) {
  const vtb_param *p = c->decl->params.at[i];
  vtb_strbuf s = {0};
  for (size_t k = 0; k < p->type->dims.n; k++)
    vtb_strbuf_printf(&s, k ? ", %s" : "%s", p->type->dims.at[k]->u.name);
  vtb__report(e, VTB_DIAG_STEP_ARGUMENT, c->spans[i],
              "'%s: [%s]' of recurrence '%s' does not take %s: %s", p->name.text, s.at ? s.at : "",
              c->decl->name.text, vtb__describe(e, c->values[i]), why);
  if (!e->stopped) vtb_diag_note(e->diags, p->span, "declared here");
  vtb_strbuf_free(&s);
  return VTB__ERR;
}

static const char *first_with_axis(const vtb__rcall *c, int axis) {
  const vtb_decl *d = c->decl;
  for (int seq = 1; seq >= 0; seq--) /* in the order they are measured in */
    for (size_t i = 0; i < d->params.n; i++) {
      const vtb_expr_list *dims = &d->params.at[i]->type->dims;
      for (size_t k = 0; c->is_step[i] && c->is_seq[i] == (seq == 1) && k < dims->n; k++)
        if (vtb__axis_index(c, dims->at[k]->u.name) == axis) return d->params.at[i]->name.text;
    }
  return "another";
}

/* The last axes of argument i are the step's axes. */
static bool measure_step(vtb__eval *e, vtb__rcall *c, size_t i) {
  const vtb_type_expr *t = c->decl->params.at[i]->type;
  const vtb_type *v = &c->values[i].u.t.v->type;
  for (size_t k = 0; k < t->dims.n; k++) {
    int64_t size = v->dim[v->rank - (int)t->dims.n + (int)k].size;
    int axis = vtb__axis_index(c, t->dims.at[k]->u.name);
    if (c->sizes[axis] && c->sizes[axis] != size) {
      step_error(e, c, i,
                 vtb_arena_printf(&e->arena, "axis %s is %lld here and %lld in '%s'", c->axes[axis],
                                  (long long)size, (long long)c->sizes[axis],
                                  first_with_axis(c, axis)));
      return false;
    }
    if (vtb_is_batch(size)) {
      step_error(e, c, i, "an axis of the step would be the batch");
      return false;
    }
    c->sizes[axis] = size;
  }
  return true;
}

static const char *count_heads(vtb__eval *e, int n, const vtb_dim *heads) {
  if (n == 0) return "no head axis";
  if (n > 1) return vtb_arena_printf(&e->arena, "%d head axes", n);
  return vtb_arena_printf(&e->arena, "a head axis of %lld", (long long)heads[0].size);
}

/* Argument i has another number of head axes than those before it, or too few axes at all. */
static void head_axes_differ(vtb__eval *e, const vtb__rcall *c, size_t i, int heads) {
  const vtb_type *v = &c->values[i].u.t.v->type;
  const char *name = c->decl->params.at[i]->name.text;
  int dims = (int)c->decl->params.at[i]->type->dims.n, wanted = c->n_heads < 0 ? 0 : c->n_heads;
  if (heads < 0) {
    step_error(
        e, c, i,
        vtb_arena_printf(&e->arena, "batch, tokens and the step's axes are %d axes", dims + 2));
  } else {
    size_t first = 0;
    while (!c->is_step[first] || !c->is_seq[first]) first++;
    step_error(e, c, i,
               vtb_arena_printf(&e->arena, "it has %s, and '%s' before it has %s",
                                count_heads(e, heads, v->dim + 2),
                                c->decl->params.at[first]->name.text,
                                count_heads(e, c->n_heads, c->heads)));
  }
  if (e->stopped) return;
  int64_t last = v->dim[v->rank - 1].size;
  if (wanted == heads + 1 && heads >= 0 && last % c->heads[c->n_heads - 1].size == 0)
    vtb_diag_help(e->diags,
                  "group(x, %lld) of '%s' has these heads; for one head in all, "
                  "group(x, 1) of the arguments before it",
                  (long long)c->heads[c->n_heads - 1].size, name);
  else if (heads == wanted + 1)
    vtb_diag_help(e->diags,
                  "give the arguments before it a head axis too: group(x, %lld), or "
                  "ungroup(x) of '%s'",
                  (long long)v->dim[2].size, name);
  else if (dims > 0)
    vtb_diag_help(e->diags, "group(x, heads) makes the head axis, group(x, 1) one of one head");
}

static bool measure_seq(vtb__eval *e, vtb__rcall *c, size_t i) {
  const vtb_type *v = &c->values[i].u.t.v->type;
  int heads = v->rank - 2 - (int)c->decl->params.at[i]->type->dims.n;
  if (heads < 0 || (c->n_heads >= 0 && heads != c->n_heads)) {
    head_axes_differ(e, c, i, heads);
    return false;
  }
  if (c->n_heads < 0) {
    c->n_heads = heads;
    c->batch = v->dim[0];
    c->tokens = v->dim[1];
    for (int k = 0; k < heads; k++) c->heads[k] = v->dim[2 + k];
    c->layout = c->values[i].u.t.layout;
  }
  if (v->dim[0].size != c->batch.size || v->dim[1].size != c->tokens.size) {
    vtb__report(e, VTB_DIAG_SEQUENCE_LENGTHS, c->spans[i],
                "'%s' is %s, and the arguments before it have %lld tokens",
                c->decl->params.at[i]->name.text, vtb__describe(e, c->values[i]),
                (long long)c->tokens.size);
    return false;
  }
  for (int k = 0; k < heads; k++)
    if (v->dim[2 + k].size != c->heads[k].size) {
      step_error(e, c, i,
                 vtb_arena_printf(&e->arena, "it has %lld heads and the arguments before it %lld",
                                  (long long)v->dim[2 + k].size, (long long)c->heads[k].size));
      return false;
    }
  if (!vtb__layout_equal(c->layout, c->values[i].u.t.layout)) {
    vtb__report(e, VTB_DIAG_LAYOUT_MISMATCH, c->spans[i],
                "'%s' holds its tokens in another order than the arguments before it",
                c->decl->params.at[i]->name.text);
    return false;
  }
  return measure_step(e, c, i);
}

static bool measure_const(vtb__eval *e, vtb__rcall *c, size_t i) {
  const vtb_type *v = &c->values[i].u.t.v->type;
  int rank = (int)c->decl->params.at[i]->type->dims.n;
  bool fits = v->rank == rank || v->rank == rank + c->n_heads;
  for (int k = 0; fits && v->rank > rank && k < c->n_heads; k++)
    fits = v->dim[k].size == c->heads[k].size;
  if (fits) return measure_step(e, c, i);
  step_error(e, c, i, "a constant has the step's axes, or the head axes and these");
  return false;
}

/* Sizes of axes and heads from the arguments; false after messages. */
static bool measure_call(vtb__eval *e, vtb__rcall *c) {
  const vtb_decl *d = c->decl;
  if (!c->n_states) {
    vtb__report(e, VTB_DIAG_NO_STATE, d->name.span, "recurrence '%s' has no state", d->name.text);
    return false;
  }
  for (size_t i = 0; i < c->n_states; i++)
    if (!declare_axes(e, c, c->state[i]->type)) return false;
  order_axes(c);
  for (size_t i = 0; i < d->params.n; i++)
    if (c->is_step[i] && !declare_axes(e, c, d->params.at[i]->type)) return false;
  for (size_t i = 0; i < d->params.n; i++)
    if (c->is_step[i] && c->is_seq[i] && !measure_seq(e, c, i)) return false;
  if (c->n_heads < 0) {
    vtb__report(e, VTB_DIAG_NEEDS_TOKENS, c->span,
                "recurrence '%s' needs tokens in at least one argument", d->name.text);
    vtb__help(e, "patches(image, kernel = 4x4) and patch_embed of std.nn make tokens of an image");
    return false;
  }
  for (size_t i = 0; i < d->params.n; i++)
    if (c->is_step[i] && !c->is_seq[i] && !measure_const(e, c, i)) return false;
  for (int a = 0; a < c->n_axes; a++) {
    for (size_t i = 0; i < d->params.n && !c->sizes[a]; i++)
      if (!c->is_step[i] && c->values[i].kind == VTB__INT &&
          strcmp(d->params.at[i]->name.text, c->axes[a]) == 0)
        c->sizes[a] = c->values[i].u.i;
    if (c->sizes[a] > 0) continue;
    vtb__report(e, VTB_DIAG_UNKNOWN_AXIS, d->name.span,
                "axis %s of recurrence '%s' belongs to no parameter", c->axes[a], d->name.text);
    return false;
  }
  return true;
}

/* ---- the op ---------------------------------------------------------------------------------- */

static vtb_type outer_type(const vtb__rcall *c, const vtb_type_expr *t) {
  vtb_type r = {.dtype = VTB_F32, .rank = 1, .dim = {c->batch}};
  for (int i = 0; i < c->n_heads; i++) r.dim[r.rank++] = c->heads[i];
  for (size_t i = 0; t && i < t->dims.n; i++) {
    int a = vtb__axis_index(c, t->dims.at[i]->u.name);
    if (r.rank < VTB_MAX_RANK) r.dim[r.rank++] = (vtb_dim){c->sizes[a], c->axes[a]};
  }
  return r;
}

/* A given initial state in the type it must have, or zeros. */
static vtb_value *initial(vtb__eval *e, vtb__rcall *c, vtb__val v, vtb_type want,
                          const char *name) {
  vtb_builder *b = vtb__at(e, c->span);
  if (!b) return NULL;
  if (v.kind == VTB__NONE) return vtb_b_splat(b, 0, &want);
  if (vtb_type_equal(&v.u.t.v->type, &want)) return v.u.t.v;
  if (vtb_type_count(&v.u.t.v->type) == vtb_type_count(&want) &&
      v.u.t.v->type.dim[0].size == want.dim[0].size)
    return vtb_b_reshape(b, v.u.t.v, &want);
  vtb__report(e, VTB_DIAG_STEP_ARGUMENT, c->span, "the initial value of '%s' is %s, not %s", name,
              vtb__describe(e, v), vtb__type_string(e, &want));
  if (v.u.t.v->type.rank == want.rank - 1)
    vtb__help(e, "one state for all samples gets their axis from a number a sample: "
                 "S0 + 0 * mean(x, axis = \"sample\")");
  return NULL;
}

static bool initial_operands(vtb__eval *e, vtb__rcall *c, vtb_value **at, int *n) {
  bool any = c->scaled;
  for (size_t i = 0; i < c->n_states; i++) any |= c->init[i].kind != VTB__NONE;
  if (!any) return true;
  for (size_t i = 0; i < c->n_states; i++)
    if (!(at[(*n)++] =
              initial(e, c, c->init[i], outer_type(c, c->state[i]->type), c->state[i]->name.text)))
      return false;
  if (c->scaled && !(at[(*n)++] = initial(e, c, c->scale0, outer_type(c, NULL), "the scale")))
    return false;
  return true;
}

/* The last results of the op; yields are called what the caller assigns them to. */
static void name_states(const vtb__rcall *c, vtb_value **last) {
  for (size_t i = 0; i < c->n_states; i++) vtb_value_rename(last[i], c->state[i]->name.text);
  vtb_value_rename(last[c->n_states], "m");
}

/* The op, with results yields, taps, states, scale. NULL after messages. */
static vtb_inst *build_call(vtb__eval *e, vtb__rcall *c, const vtb__rstep *step) {
  const vtb_decl *d = c->decl;
  vtb_value **at = VTB_NEW_ARRAY(&e->arena, vtb_value *, c->n_states + 1 + d->params.n);
  int n = 0, seqs = 0;
  if (!initial_operands(e, c, at, &n)) return NULL;
  int inits = n;
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < d->params.n; i++) {
      if (!c->is_step[i] || c->is_seq[i] != (pass == 0)) continue;
      at[n++] = c->values[i].u.t.v;
      seqs += pass == 0;
    }
  vtb_attr attrs[7] = {VTB_A_INT("states", (int64_t)c->n_states), VTB_A_INT("inits", inits),
                       VTB_A_INT("seqs", seqs), VTB_A_STR("mode", c->mode)};
  int n_attrs = 4;
  if (c->chunk) attrs[n_attrs++] = VTB_A_INT("chunk", c->chunk);
  if (e->options->mode) attrs[n_attrs++] = VTB_A_INT("asked", 1); /* of all that have it */
  const char *layout = vtb__layout_attr(e, c->layout, c->tokens.size);
  if (layout) attrs[n_attrs++] = VTB_A_STR("layout", layout);
  vtb_builder *b = vtb__at(e, c->span);
  if (!b) return NULL;
  vtb_inst *op = vtb_build_call(b, VTB_OP_recurrence, step->func, at, n, attrs, n_attrs);
  if (op) name_states(c, op->results + step->n_yields + step->n_taps);
  return op;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Mode and chunk of the call, overridden by the options. */
static bool take_mode(vtb__eval *e, vtb__rcall *c, vtb__val mode, vtb_span span) {
  if (mode.kind == VTB__ERROR) return false;
  if (mode.kind == VTB__STRING && !vtb__builtin_name(e, mode.u.str.s, &mode))
    mode.kind = VTB__STRING;
  if (mode.kind != VTB__MODE) {
    vtb_strbuf modes = {0};
    vtb_strbuf_names(&modes, vtb_mode_names, VTB_N_MODES, ", ", " or ");
    vtb__report(e, VTB_DIAG_BAD_MODE, span, "a mode is %s(n), not %s", modes.at,
                vtb__describe(e, mode));
    vtb_strbuf_free(&modes);
    if (mode.kind == VTB__STRING) vtb__suggest_help(e, mode.u.str.s, vtb_mode_names, VTB_N_MODES);
    return false;
  }
  c->mode = mode.u.mode.name;
  if (mode.u.mode.chunk) c->chunk = mode.u.mode.chunk;
  return true;
}

static void override_mode(vtb__eval *e, vtb__rcall *c) {
  if (e->options->mode) {
    c->mode = e->options->mode;
    c->chunk = 0;
  }
  if (e->options->chunk > 0) c->chunk = e->options->chunk;
  if (strcmp(c->mode, "chunkwise") != 0)
    c->chunk = 0;
  else if (!c->chunk)
    c->chunk = 64;
}

/* Arguments that every recurrence has: mode, chunk, states, scale, and initial values named after
 * the states. */
static bool take_common(vtb__eval *e, vtb__rcall *c, const vtb__actual *a, bool *ok) {
  if (!a->name || vtb__param_find(c->decl, a->name)) return false;
  vtb__val v = a->expr ? vtb__expr(e, a->expr) : a->value;
  if (v.kind == VTB__ERROR) return *ok = false, true;
  if (vtb_streq(a->name, "mode")) {
    *ok &= take_mode(e, c, v, a->span);
    return true;
  }
  if (vtb_streq(a->name, "chunk") && v.kind == VTB__INT) {
    if (v.u.i < 0) { /* 0: the compiler's choice */
      vtb__report(e, VTB_DIAG_BAD_CHUNK, a->span, "a chunk of %lld tokens", (long long)v.u.i);
      vtb__chunk_help(e);
      *ok = false;
    }
    c->chunk = v.u.i;
    return true;
  }
  if ((vtb_streq(a->name, "states") || vtb_streq(a->name, "scale")) && v.kind == VTB__BOOL) {
    *(a->name[1] == 't' ? &c->want_states : &c->want_scale) = v.u.b;
    return true;
  }
  if ((vtb_streq(a->name, "scale0") || vtb_streq(a->name, "m0")) &&
      (v.kind == VTB__TENSOR || v.kind == VTB__NONE)) {
    c->scale0 = v;
    c->scaled = v.kind == VTB__TENSOR;
    return true;
  }
  for (size_t i = 0; i < c->n_states; i++) {
    size_t n = strlen(c->state[i]->name.text);
    if (strncmp(a->name, c->state[i]->name.text, n) != 0 || strcmp(a->name + n, "0") != 0) continue;
    if (v.kind != VTB__TENSOR && v.kind != VTB__NONE) break;
    c->init[i] = v;
    return true;
  }
  return false;
}

static bool take_arguments(vtb__eval *e, vtb__rcall *c, const vtb__actual *args, size_t n) {
  vtb__actual *rest = VTB_NEW_ARRAY(&e->arena, vtb__actual, n);
  size_t n_rest = 0;
  bool ok = true;
  for (size_t i = 0; i < n; i++)
    if (!take_common(e, c, &args[i], &ok)) rest[n_rest++] = args[i];
  vtb__env env = {0}, *caller = e->env;
  vtb__env *bound = vtb_arena_memdup(&e->arena, &env, sizeof env);
  const vtb_file *file = e->file;
  e->env = bound;
  ok &= vtb__bind_params(e, c->decl, rest, n_rest, caller, file, c->span);
  e->env = caller;
  e->file = file;
  for (size_t i = 0; ok && i < c->decl->params.n; i++) {
    const vtb_param *p = c->decl->params.at[i];
    c->values[i] = vtb__env_find_here(bound, p->name.text)->value;
    for (size_t k = 0; k < n_rest; k++)
      if (rest[k].name ? vtb__param_find(c->decl, rest[k].name) == p : k == i)
        c->spans[i] = rest[k].span;
    if (!c->is_step[i]) continue;
    if (vtb__is_number(c->values[i]))
      c->values[i] = vtb__tensor(vtb__as_tensor(e, c->values[i], c->spans[i]), NULL);
    if (c->values[i].kind != VTB__TENSOR) {
      step_error(e, c, i, "a tensor is needed");
      ok = false;
    }
    c->is_seq[i] = ok && c->values[i].u.t.layout->kind == VTB__TOKENS;
  }
  return ok;
}

static void emit_taps(vtb__eval *e, const vtb__rcall *c, const vtb__rstep *step, vtb_inst *op) {
  for (size_t i = 0; i < step->n_taps; i++) {
    vtb_attr name = VTB_A_STR("name", vtb__tap_name(e, step->tap_names[i]));
    vtb_builder *b = vtb__at(e, c->span);
    if (b) vtb_build(b, VTB_OP_tap, &op->results[step->n_yields + i], 1, &name, 1);
  }
}

vtb__val vtb__call_recurrence(vtb__eval *e, const vtb_decl *d, const vtb__actual *args, size_t n,
                              vtb_span span) {
  if (!e->frame || e->frame->step)
    return vtb__report(e, VTB_DIAG_NOT_A_STEP_OPERATION, span,
                       "a recurrence cannot be called here");
  vtb__rcall c;
  begin_call(e, &c, d, span);
  if (!take_arguments(e, &c, args, n) || !measure_call(e, &c)) return VTB__ERR;
  override_mode(e, &c);
  vtb_diag_call call;
  vtb__enter_call(e, &call, d, span);
  vtb__rstep *step = vtb__rcall_step(e, &c);
  vtb__leave_call(e, &call);
  vtb_inst *op = step->func ? build_call(e, &c, step) : NULL;
  if (!op) return VTB__ERR;
  emit_taps(e, &c, step, op);
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, step->n_yields + c.n_states + 1);
  size_t k = 0;
  for (; k < step->n_yields; k++) at[k] = vtb__tensor(op->results[k], c.layout);
  vtb_value **last = op->results + step->n_yields + step->n_taps;
  for (size_t i = 0; c.want_states && i < c.n_states; i++) at[k++] = vtb__tensor(last[i], NULL);
  if (c.want_scale) at[k++] = vtb__tensor(last[c.n_states], NULL);
  if (k == 1) return at[0];
  return (vtb__val){.kind = VTB__TUPLE, .u.list = {at, k}};
}

/* ---- as an entry ----------------------------------------------------------------------------- */

static const vtb_shape_binding *binding(const vtb__eval *e, const char *name) {
  for (size_t i = 0; i < e->options->n_inputs; i++)
    if (strcmp(e->options->inputs[i].name, name) == 0) return &e->options->inputs[i];
  return NULL;
}

static vtb_value *input_argument(vtb__eval *e, const vtb_shape_binding *in, vtb_span span) {
  vtb_func *f = e->frame->func;
  vtb_value *v = vtb_func_add_arg(f, in->name, in->type);
  f->arg_info[v->index] = (vtb_arg_info){
      .role = VTB_ROLE_INPUT, .official = vtb_intern(e->module, in->name), .span = span};
  return v;
}

/* [B, h..., N, X...] to [B, N, h..., X...], and back. */
static vtb_value *swap_heads(vtb__eval *e, vtb_value *v, int heads, bool back, vtb_span span) {
  int64_t perm[VTB_MAX_RANK];
  for (int i = 0; i < v->type.rank; i++) perm[i] = i;
  for (int i = 1; i <= heads + 1; i++)
    perm[i] = back ? (i == heads + 1 ? 1 : i + 1) : (i == 1 ? heads + 1 : i - 1);
  vtb_builder *b = vtb__at(e, span);
  return heads && b ? vtb_b_transpose(b, v, perm) : v;
}

/* The log scale is m0 and m_last, or scale0 and scale_last beside a state of that name. */
static bool has_state_m(const vtb__rcall *c) {
  for (size_t i = 0; i < c->n_states; i++)
    if (strcmp(c->state[i]->name.text, "m") == 0) return true;
  return false;
}

/* The sequences of a case are [batch, heads..., tokens, axes...]; what has no room for batch and
 * tokens is a constant. */
static bool entry_inputs(vtb__eval *e, vtb__rcall *c) {
  const vtb_decl *d = c->decl;
  int heads = -1;
  for (size_t i = 0; i < d->params.n; i++) {
    if (!c->is_step[i]) continue;
    const vtb_shape_binding *in = binding(e, d->params.at[i]->name.text);
    if (!in) {
      vtb__report_shape(e, d->params.at[i]);
      return false;
    }
    int extra = in->type.rank - (int)d->params.at[i]->type->dims.n - 2;
    if (heads < 0) heads = extra;
    vtb_value *v = input_argument(e, in, d->params.at[i]->name.span);
    c->is_seq[i] = extra == heads && heads >= 0;
    if (c->is_seq[i]) v = swap_heads(e, v, heads, false, c->span);
    c->values[i] = vtb__tensor(v, NULL);
    if (!v) return false;
  }
  for (size_t i = 0; i < c->n_states; i++) {
    const vtb_shape_binding *in =
        binding(e, vtb_arena_printf(&e->arena, "%s0", c->state[i]->name.text));
    if (in) c->init[i] = vtb__tensor(input_argument(e, in, c->state[i]->name.span), NULL);
  }
  const vtb_shape_binding *m = has_state_m(c) ? NULL : binding(e, "m0");
  if (!m) m = binding(e, "scale0");
  if (m) {
    c->scale0 = vtb__tensor(input_argument(e, m, c->span), NULL);
    c->scaled = true;
  }
  return true;
}

static void entry_output(vtb__eval *e, const char *name, vtb_value *v, vtb_span span) {
  vtb__output o = {vtb_arena_strdup(&e->arena, name), v, span, NULL};
  if (v) vtb_vec_push(&e->frame->outputs, o);
}

static vtb_value *add_axis(vtb__eval *e, vtb_value *v, vtb_span span) {
  vtb_type t = v->type;
  t.dim[t.rank++] = (vtb_dim){1, NULL};
  vtb_builder *b = vtb__at(e, span);
  return b ? vtb_b_reshape(b, v, &t) : NULL;
}

static void tap_value(vtb__eval *e, const char *name, vtb_value *v, vtb_span span) {
  vtb_builder *b = v ? vtb__at(e, span) : NULL;
  vtb_attr attr = VTB_A_STR("name", name);
  if (b) vtb_build(b, VTB_OP_tap, &v, 1, &attr, 1);
}

/* The call on tokens [from, to), begun from the states that `before` ended with. */
static vtb_inst *part(vtb__eval *e, const vtb__rcall *whole, const vtb__rstep *step,
                      vtb_inst *before, int64_t from, int64_t to) {
  vtb__rcall c = *whole;
  size_t n = c.decl->params.n, at = step->n_yields + step->n_taps;
  c.values = vtb_arena_memdup(&e->arena, whole->values, n * sizeof *c.values);
  c.init = VTB_NEW_ARRAY(&e->arena, vtb__val, c.n_states);
  for (size_t i = 0; i < n; i++) {
    vtb_builder *b = vtb__at(e, c.span);
    if (!b) return NULL;
    if (c.is_step[i] && c.is_seq[i])
      c.values[i].u.t.v = vtb_b_slice(b, c.values[i].u.t.v, 1, from, to, 1);
  }
  for (size_t i = 0; before && i < c.n_states; i++)
    c.init[i] = vtb__tensor(before->results[at + i], NULL);
  if (before) c.scale0 = vtb__tensor(before->results[at + c.n_states], NULL);
  c.scaled = before != NULL;
  return build_call(e, &c, step);
}

/* One state (or the scale, index n_states) at every boundary: [B, h..., chunks + 1, X...]. */
static void tap_boundaries(vtb__eval *e, const vtb__rcall *c, const vtb__rstep *step,
                           vtb_inst *const *parts, int64_t n, size_t index) {
  size_t at = step->n_yields + step->n_taps + index;
  vtb_value **v = VTB_NEW_ARRAY(&e->arena, vtb_value *, n + 1);
  int axis = 1 + c->n_heads;
  for (int64_t i = 0; i <= n; i++) {
    vtb_builder *b = vtb__at(e, c->span);
    vtb_type t = parts[0]->results[at]->type;
    if (!b || t.rank == VTB_MAX_RANK) return;
    v[i] = i ? parts[i - 1]->results[at] : vtb_b_splat(b, 0, &t);
    t = vtb_type_with_axis(&t, axis, (vtb_dim){1, NULL});
    v[i] = vtb_b_reshape(b, v[i], &t);
  }
  const char *name = index < c->n_states ? c->state[index]->name.text : "m";
  vtb_builder *b = vtb__at(e, c->span);
  if (b)
    tap_value(e, vtb_arena_printf(&e->arena, "chunk_%s", name),
              vtb_b_concat(b, v, (int)n + 1, axis), c->span);
}

/* Taps chunk_<state> and chunk_m: the states before each chunk and after the last, each chunk begun
 * from the one before. */
static void tap_chunks(vtb__eval *e, const vtb__rcall *c, const vtb__rstep *step, int64_t chunk) {
  int64_t tokens = c->tokens.size, n = (tokens + chunk - 1) / chunk;
  if (n > 1024) return;
  vtb_inst **parts = VTB_NEW_ARRAY(&e->arena, vtb_inst *, n);
  for (int64_t i = 0; i < n; i++) {
    int64_t to = (i + 1) * chunk < tokens ? (i + 1) * chunk : tokens;
    parts[i] = part(e, c, step, i ? parts[i - 1] : NULL, i * chunk, to);
    if (!parts[i]) return;
  }
  for (size_t i = 0; i <= c->n_states; i++) tap_boundaries(e, c, step, parts, n, i);
}

bool vtb__recurrence_entry(vtb__eval *e, const vtb_decl *d, vtb__entry_values *given) {
  vtb__rcall c;
  begin_call(e, &c, d, d->name.span);
  for (size_t i = 0; i < d->params.n; i++) c.values[i] = given->values[i];
  if (!entry_inputs(e, &c) || !measure_call(e, &c)) return false;
  if (given->mode.kind != VTB__NONE && !take_mode(e, &c, given->mode, d->name.span)) return false;
  if (given->chunk > 0) c.chunk = given->chunk;
  override_mode(e, &c);
  given->batch = c.batch.size;
  given->tokens = c.tokens.size;
  given->heads = 1;
  for (int i = 0; i < c.n_heads; i++) given->heads *= c.heads[i].size;
  given->has_state = false;
  for (size_t i = 0; i < c.n_states; i++) given->has_state |= c.init[i].kind != VTB__NONE;
  vtb__rstep *step = vtb__rcall_step(e, &c);
  vtb_inst *op = step->func ? build_call(e, &c, step) : NULL;
  if (!op) return false;
  for (size_t i = 0; i < step->n_yields; i++)
    entry_output(e, i ? vtb_arena_printf(&e->arena, "y%zu", i + 1) : "y",
                 swap_heads(e, op->results[i], c.n_heads, true, c.span), c.span);
  for (size_t i = 0; i < step->n_taps; i++) {
    vtb_value *v = swap_heads(e, op->results[step->n_yields + i], c.n_heads, true, c.span);
    tap_value(e, step->tap_names[i], v, c.span);
  }
  if (e->options->taps && given->chunk > 0 && !given->has_state)
    tap_chunks(e, &c, step, given->chunk);
  vtb_value **last = op->results + step->n_yields + step->n_taps;
  for (size_t i = 0; i < c.n_states; i++)
    entry_output(e, vtb_arena_printf(&e->arena, "%s_last", c.state[i]->name.text), last[i], c.span);
  entry_output(e, has_state_m(&c) ? "scale_last" : "m_last", add_axis(e, last[c.n_states], c.span),
               c.span);
  return true;
}
