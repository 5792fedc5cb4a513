/* param and tap: the weights of a function with their official names, and the values it shows.
 *
 * A function under construction keeps its weights under names relative to itself. A caller asks for
 * the same weights under its own scopes and passes them on, so names become official in the entry,
 * and blocks stay shared. */
#include "frontend/lang/value.h"
#include "ir/ops.h"

#include <fnmatch.h>
#include <math.h>

/* ---- names ----------------------------------------------------------------------------------- */

static bool good_name(const char *s) {
  if (!*s || *s == '.') return false;
  for (const char *c = s; *c; c++) {
    bool ok = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              strchr("_-/", *c);
    if (!ok && (*c != '.' || c[1] == '.' || !c[1])) return false;
  }
  return true;
}

/* The suffix of `along each` goes to the first name inside its body, before any dot: q_proj +
 * "_rev", conv.conv -> conv_rev.conv. A name that says {suffix} itself is left alone. */
static const char *suffixed(vtb__eval *e, const char *name, bool spelled) {
  if (!e->suffix || !*e->suffix || spelled || strcmp(e->prefix, e->suffix_at) != 0) return name;
  size_t n = strcspn(name, ".");
  return vtb_arena_printf(&e->arena, "%.*s%s%s", (int)n, name, e->suffix, name + n);
}

static const char *join_name(vtb__eval *e, const char *name) {
  if (strlen(e->prefix) + strlen(name) > VTB__MAX_TEXT) return name;
  return *e->prefix ? vtb_arena_printf(&e->arena, "%s.%s", e->prefix, name) : name;
}

const char *vtb__official(vtb__eval *e, const char *name, vtb_span span) {
  if (!good_name(name))
    vtb__report(e, VTB_DIAG_BAD_SCOPE_NAME, span, "'%s' cannot be part of an official name", name),
        vtb__help(e, "names are letters, digits, _ - and /, joined by dots");
  bool spelled = e->suffix_read;
  e->suffix_read = false;
  return join_name(e, suffixed(e, name, spelled));
}

/* ---- initialisers ---------------------------------------------------------------------------- */

typedef struct init_rule {
  const char *name;
  int min, max;
} init_rule;
static const init_rule inits[] = {
    {"zeros", 0, 0},          {"ones", 0, 0},           {"constant", 1, 1},
    {"normal", 1, 1},         {"trunc_normal", 1, 1},   {"uniform", 1, 2},
    {"uniform_fan_in", 0, 1}, {"xavier_uniform", 0, 0}, {"linspace", 2, 2},
    {"s4d_real", 0, 0},       {"dt_bias", 3, 3},        {"xavier_normal", 0, 0},
    {"normal_fan_out", 0, 1}, {"normal_fan_in", 0, 1},  {"rotary_cos", 1, 1},
    {"rotary_sin", 1, 1},     {"sincos_columns", 0, 1}, {"sincos_rows", 0, 1},
    {"identity", 0, 1},       {"dirac", 0, 1},          {"orthogonal", 0, 1},
    {"table", 1, 1}};

static const init_rule *init_find(const char *name) {
  for (size_t i = 0; i < sizeof inits / sizeof *inits; i++)
    if (strcmp(inits[i].name, name) == 0) return &inits[i];
  return NULL;
}

bool vtb__init_builtin(const char *name) { return init_find(name) != NULL; }

/* Numbers of a list and the lists in it, row by row. */
static bool put_table(vtb__eval *e, vtb__val v, int64_t *n, vtb_strbuf *out, vtb_span span) {
  if (v.kind == VTB__LIST) {
    for (size_t i = 0; i < v.u.list.n; i++)
      if (!put_table(e, v.u.list.at[i], n, out, span)) return false;
    return true;
  }
  if (vtb__is_number(v) && isfinite(vtb__val_number(v)) && ++*n <= VTB__MAX_LIST) {
    vtb_strbuf_printf(out, *n > 1 ? ", %.9g" : "%.9g", vtb__val_number(v));
    return true;
  }
  if (v.kind == VTB__ERROR) return false;
  if (*n > VTB__MAX_LIST)
    vtb__report(e, VTB_DIAG_TOO_LARGE, span, "a table has at most %d numbers", VTB__MAX_LIST);
  else
    vtb__report(e, VTB_DIAG_TYPE_MISMATCH, span, "a table holds numbers, and lists of them, not %s",
                vtb__describe(e, v));
  return false;
}

static vtb__val table_value(vtb__eval *e, vtb__val list, vtb_span span) {
  vtb_strbuf s = {0};
  vtb__val v = VTB__ERR;
  int64_t n = 0;
  vtb_strbuf_puts(&s, "table(");
  if (put_table(e, list, &n, &s, span)) {
    vtb_strbuf_putc(&s, ')');
    v = (vtb__val){.kind = VTB__INIT, .u.init = vtb_arena_strndup(&e->arena, s.at, s.n)};
  }
  vtb_strbuf_free(&s);
  return n || v.kind == VTB__ERROR
             ? v
             : vtb__report(e, VTB_DIAG_EMPTY_LIST, span, "a table without numbers");
}

static const char *init_counts(vtb__eval *e, const init_rule *r) {
  return r->min == r->max ? vtb_arena_printf(&e->arena, "%d", r->min)
                          : vtb_arena_printf(&e->arena, "%d to %d", r->min, r->max);
}

/* The rules of runtime/artefact/init.c for the numbers, said where the initialiser stands; NULL:
 * all is well. */
static const char *init_wants(const char *name, const vtb__val *args, size_t n) {
  double at[3] = {0};
  for (size_t i = 0; i < n && i < 3; i++) at[i] = vtb__val_number(args[i]);
  if (strcmp(name, "dt_bias") == 0 && !(at[0] > 0 && at[1] >= at[0] && at[2] > 0))
    return "0 < min <= max and 0 < floor";
  if (strcmp(name, "uniform_fan_in") == 0 && n && at[0] <= 0) return "a fan-in above 0";
  if (strcmp(name, "uniform") == 0 && n == 2 && at[0] > at[1])
    return "its lower end first: uniform(a, b) with a <= b";
  if (strstr(name, "normal") && n && at[0] < 0) return "a number of at least 0";
  return NULL;
}

vtb__val vtb__init_value(vtb__eval *e, const char *name, const vtb__val *args, size_t n,
                         vtb_span span) {
  const init_rule *r = init_find(name);
  if ((int)n < r->min || (int)n > r->max)
    return vtb__report(e, (int)n < r->min ? VTB_DIAG_MISSING_ARGUMENT : VTB_DIAG_TOO_MANY_ARGUMENTS,
                       span, "initialiser '%s' takes %s number%s, not %zu", name, init_counts(e, r),
                       r->max == 1 ? "" : "s", n),
           vtb__hint_call(e, name), VTB__ERR;
  if (strcmp(name, "table") == 0) return table_value(e, args[0], span);
  vtb_strbuf s = {0};
  vtb_strbuf_puts(&s, name);
  for (size_t i = 0; i < n; i++) {
    if (args[i].kind == VTB__ERROR || !vtb__is_number(args[i]) ||
        !isfinite(vtb__val_number(args[i]))) {
      if (args[i].kind != VTB__ERROR)
        vtb__report(e, VTB_DIAG_TYPE_MISMATCH, span, "initialiser '%s' takes numbers, not %s", name,
                    vtb__describe(e, args[i]));
      vtb_strbuf_free(&s);
      return VTB__ERR;
    }
    vtb_strbuf_puts(&s, i ? ", " : "(");
    vtb_strbuf_double(&s, vtb__val_number(args[i]));
    /* uniform(a) means [-a, a]. */
    if (n == 1 && strcmp(name, "uniform") == 0) {
      vtb_strbuf_free(&s);
      double a = vtb__val_number(args[0]);
      return vtb__init_value(e, name, (vtb__val[]){vtb__float(-a), vtb__float(a)}, 2, span);
    }
  }
  if (n) vtb_strbuf_putc(&s, ')');
  const char *wants = init_wants(name, args, n);
  if (wants) {
    vtb_strbuf_free(&s);
    return vtb__report(e, VTB_DIAG_BAD_VALUE, span, "%s needs %s", name, wants);
  }
  vtb__val v = {.kind = VTB__INIT, .u.init = vtb_arena_strndup(&e->arena, s.at, s.n)};
  vtb_strbuf_free(&s);
  return v;
}

static const char *initialiser(vtb__eval *e, const vtb_expr *x) {
  bool word = x->kind == VTB_EXPR_NAME && !vtb__env_has(e, x->u.name);
  const char *name = word ? x->u.name : x->kind == VTB_EXPR_CALL ? x->u.call.callee.text : NULL;
  bool own = name && vtb__file_lookup(e->file, name);
  if (name && !init_find(name) && !own) {
    const char *names[sizeof inits / sizeof *inits];
    for (size_t i = 0; i < sizeof inits / sizeof *inits; i++) names[i] = inits[i].name;
    vtb__report(e, VTB_DIAG_UNKNOWN_INITIALISER, x->span, "unknown initialiser '%s'", name);
    vtb__suggest_help(e, name, names, sizeof inits / sizeof *inits);
    return NULL;
  }
  bool builtin = word && !own && init_find(name);
  vtb__val v = builtin ? vtb__init_value(e, name, NULL, 0, x->span) : vtb__expr(e, x);
  if (v.kind == VTB__INIT) return v.u.init;
  if (v.kind != VTB__ERROR)
    vtb__report(e, VTB_DIAG_TYPE_MISMATCH, x->span, "an initialiser is needed here, not %s",
                vtb__describe(e, v));
  return NULL;
}

/* ---- weights --------------------------------------------------------------------------------- */

static vtb__weight *weight_find(vtb__frame *f, const char *name) {
  for (size_t i = 0; i < f->weights.n; i++)
    if (strcmp(f->weights.at[i].name, name) == 0) return &f->weights.at[i];
  return NULL;
}

static bool same_place(vtb_span a, vtb_span b) {
  return a.source == b.source && a.begin == b.begin;
}

static vtb_value *repeated_weight(vtb__eval *e, const vtb__weight *w, const vtb__weight *new,
                                  const vtb_type *type) {
  if (e->stopped) return NULL;
  if (vtb_type_equal(&w->arg->type, type))
    vtb__report(e, VTB_DIAG_REPEATED_WEIGHT, new->made, "two params are named '%s'", w->name);
  else
    vtb__report(e, VTB_DIAG_REPEATED_WEIGHT, new->made,
                "two params are named '%s', with shapes %s and %s", w->name,
                vtb__type_string(e, &w->arg->type), vtb__type_string(e, type));
  if (same_place(w->made, vtb_diags_own(e->diags, new->made))) {
    vtb_diag_help(e->diags, "this line made both; a scope around it tells them apart: "
                            "repeat n as i scope \"blocks.{i}\" { ... }; to use one param many "
                            "times, share { ... }");
    return NULL;
  }
  vtb_diag_note(e->diags, w->made, "the other one");
  vtb_diag_help(e->diags, "give one of them another name, or put it in a scope of its own");
  return NULL;
}

/* Two declarations that mean one param: directions with the same suffix, or other evaluations of a
 * `share`. */
static bool same_weight(const vtb__eval *e, const vtb__weight *old, const vtb__weight *new,
                        const vtb_type *type) {
  if (!vtb_type_equal(&old->arg->type, type)) return false;
  if (e->share && old->share) return old->share != e->share;
  return e->suffix && same_place(old->span, new->span);
}

static vtb_value *another_use(vtb__eval *e, vtb__weight *old, const vtb__weight *new) {
  bool equal = vtb_streq(old->init, vtb_intern(e->module, new->init)) && old->role == new->role &&
               old->decay == new->decay && old->frozen == new->frozen;
  if (!equal) {
    vtb__report(e, VTB_DIAG_REPEATED_WEIGHT, new->made,
                "param '%s' is shared, and its uses differ in initialiser, decay or freezing",
                new->name);
    if (!e->stopped) vtb_diag_note(e->diags, old->made, "another use");
    return NULL;
  }
  old->share = e->share;
  e->frame->func->arg_info[old->arg->index].uses++;
  return old->arg;
}

/* True if a pattern of the options freezes the param of that name; names inside a block's function
 * are not official yet. */
static bool freezes(const vtb__eval *e, const char *name) {
  for (size_t i = 0; i < e->options->n_freeze && e->frame->is_model; i++)
    if (fnmatch(e->options->freeze[i], name, 0) == 0) return true;
  return false;
}

bool vtb__freezes_scope(const vtb__eval *e) {
  vtb_strbuf scope = {0};
  vtb_strbuf_printf(&scope, "%s.", e->prefix);
  bool all = false;
  for (size_t i = 0; i < e->options->n_freeze && e->frame->is_model && *e->prefix; i++)
    all |= vtb_ends_with(e->options->freeze[i], "*") &&
           fnmatch(e->options->freeze[i], scope.at, 0) == 0;
  vtb_strbuf_free(&scope);
  return all;
}

vtb_value *vtb__weight_get(vtb__eval *e, vtb__weight like, const vtb_type *type) {
  vtb__frame *f = e->frame;
  like.share = e->share;
  like.frozen |= (e->frozen || freezes(e, like.name)) && like.role == VTB_ROLE_PARAM;
  vtb__weight *w = weight_find(f, like.name);
  if (w)
    return same_weight(e, w, &like, type) ? another_use(e, w, &like)
                                          : repeated_weight(e, w, &like, type);
  vtb_value *arg = vtb_func_add_arg(f->func, like.name, *type);
  vtb_arg_info *info = &f->func->arg_info[arg->index];
  vtb_role role = like.frozen ? VTB_ROLE_BUFFER : like.role;
  *info = (vtb_arg_info){.role = f->is_model ? role : VTB_ROLE_PLAIN,
                         .official = vtb_intern(e->module, like.name),
                         .init = vtb_intern(e->module, like.init),
                         .decay = like.decay && !like.frozen,
                         .frozen = like.frozen,
                         .uses = like.arg ? like.arg->func->arg_info[like.arg->index].uses : 1,
                         .span = like.span};
  like.name = vtb_arena_strdup(&e->arena, like.name);
  like.arg = arg;
  like.init = info->init;
  like.made = vtb_diags_own(e->diags, like.made);
  vtb_vec_push(&f->weights, like);
  return arg;
}

static bool weight_type(vtb__eval *e, const vtb_expr *x, vtb_type *t) {
  const vtb_expr_list *dims = &x->u.param.dims;
  *t = (vtb_type){.dtype = VTB_F32};
  for (size_t i = 0; i < dims->n; i++) {
    vtb__val v = vtb__expr(e, dims->at[i]);
    if (v.kind == VTB__ERROR) return false;
    int64_t sizes[VTB_GRID_AXES] = {v.u.i};
    int n = 1;
    if (v.kind == VTB__SIZE) { /* an int given for a size is a square */
      n = v.u.size.rank ? v.u.size.rank : 2;
      vtb_grid_sides(&(vtb_grid){n, v.u.size.t, v.u.size.h, v.u.size.w}, sizes);
    } else if (v.kind != VTB__INT) {
      vtb__report(e, v.kind == VTB__TENSOR ? VTB_DIAG_NOT_COMPILE_TIME : VTB_DIAG_TYPE_MISMATCH,
                  dims->at[i]->span, "an axis of a param is an int, not %s", vtb__describe(e, v));
      if (vtb__batches_meant(v))
        vtb__help(e,
                  "params know no batch: of pairs [B, B] the last axis has samples, no channels");
      return false;
    }
    for (int k = 0; k < n; k++) {
      if (sizes[k] < 1 || sizes[k] >= VTB__MAX_SIZE) {
        const char *name = dims->at[i]->kind == VTB_EXPR_NAME ? dims->at[i]->u.name : NULL;
        vtb__report(e, VTB_DIAG_BAD_DIMENSION, dims->at[i]->span,
                    "an axis of %lld elements%s%s%s; it %s", (long long)sizes[k], name ? ": '" : "",
                    name ? name : "",
                    name ? vtb_arena_printf(&e->arena, "' is %lld", (long long)sizes[k]) : "",
                    sizes[k] < 1 ? "needs at least one" : "may have 2^31 - 1 at most");
        return false;
      }
      if (t->rank == VTB_MAX_RANK) {
        vtb__report(e, VTB_DIAG_TOO_MANY_AXES, x->u.param.dims_span, "a param has at most %d axes",
                    VTB_MAX_RANK);
        return false;
      }
      t->dim[t->rank++] = (vtb_dim){sizes[k], NULL};
    }
  }
  return vtb__check_elements(e, t, "a param", x->u.param.dims_span);
}

/* Initialisers that ask for a shape. */
static bool init_fits(vtb__eval *e, const char *init, const vtb_type *t, vtb_span span) {
  static const struct {
    const char *name;
    int least, most;
    const char *wants;
  } ranks[] = {{"identity", 2, VTB_MAX_RANK, "matrices [.., n, m]"},
               {"orthogonal", 2, VTB_MAX_RANK, "two axes or more"},
               {"dirac", 3, VTB_MAX_RANK, "the weight of a convolution [out, in, h, w]"}};
  int64_t n = 0;
  if (strncmp(init, "table(", 6) == 0) {
    n = 1;
    for (const char *c = init; *c; c++) n += *c == ',';
  }
  if (n && n != vtb_type_count(t)) {
    vtb__report(e, VTB_DIAG_WEIGHT_SHAPE, span,
                "the table has %lld numbers, and the param, %s, %lld elements", (long long)n,
                vtb__type_string(e, t), (long long)vtb_type_count(t));
    return false;
  }
  for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
    size_t k = strlen(ranks[i].name);
    if (strncmp(init, ranks[i].name, k) != 0 || (init[k] && init[k] != '(')) continue;
    if (t->rank >= ranks[i].least && t->rank <= ranks[i].most) continue;
    vtb__report(e, VTB_DIAG_WEIGHT_SHAPE, span, "%s fills %s, and the param is %s", ranks[i].name,
                ranks[i].wants, vtb__type_string(e, t));
    return false;
  }
  return true;
}

vtb__val vtb__eval_param(vtb__eval *e, const vtb_expr *x) {
  if (!e->frame || e->frame->step) {
    vtb__report(e, VTB_DIAG_MISPLACED, x->span,
                e->frame ? "a recurrence has no params of its own; pass them as arguments"
                         : "params stand in models, blocks and functions");
    if (e->frame)
      vtb__help(e, "layers stand outside the step, on all tokens at once; a step "
                   "takes their results as parameters");
    return VTB__ERR;
  }
  const char *name = vtb__text(e, x->u.param.name);
  const char *official = name ? vtb__official(e, name, x->u.param.name->span) : NULL;
  vtb_type type;
  bool typed = weight_type(e, x, &type);
  const char *init = initialiser(e, x->u.param.init);
  if (!official || !typed || !init || !init_fits(e, init, &type, x->u.param.init->span))
    return VTB__ERR;
  vtb__weight like = {.name = official,
                      .init = init,
                      .decay = !x->u.param.no_decay && !x->u.param.buffer,
                      .role = x->u.param.buffer ? VTB_ROLE_BUFFER : VTB_ROLE_PARAM,
                      .frozen = x->u.param.frozen && !x->u.param.buffer,
                      .span = x->span,
                      .made = x->span};
  return vtb__tensor(vtb__weight_get(e, like, &type), NULL);
}

/* ---- taps ------------------------------------------------------------------------------------ */

/* In a recurrence a tap is one more result; elsewhere an op that later passes keep. */
/* tapped("block0", ...) gives block0.q; tapped("layer0_", ...) gives layer0_q. */
const char *vtb__tap_name(vtb__eval *e, const char *name) {
  if (name[0] == '/')
    return name + 1; /* from the root; where it repeats, passes/graph/taps.c numbers it */
  size_t n = strlen(e->tap_prefix);
  if (!n) return name;
  return vtb_arena_printf(&e->arena, e->tap_prefix[n - 1] == '_' ? "%s%s" : "%s.%s", e->tap_prefix,
                          name);
}

void vtb__tap(vtb__eval *e, const vtb_expr *name_expr, const vtb_expr *value, vtb_span span) {
  if (!e->options->taps || e->frame->loop) return; /* in a loop there is no single value */
  const char *name = vtb__text(e, name_expr);
  vtb__val v = vtb__expr(e, value);
  if (!name || v.kind == VTB__ERROR) return;
  vtb_value *x = vtb__as_tensor(e, v, value->span);
  if (!x) return;
  if (e->frame->step) {
    vtb__output o = {name, x, span, NULL};
    vtb_vec_push(&e->frame->step->taps, o);
    return;
  }
  for (size_t i = 0; i < e->frame->taps.n; i++)
    if (strcmp(e->frame->taps.at[i].name, name) == 0 &&
        e->frame->taps.at[i].prefix == e->tap_prefix) {
      vtb__report(e, VTB_DIAG_REPEATED_TAP, name_expr->span, "two taps are named '%s'", name);
      if (!e->stopped) vtb_diag_note(e->diags, e->frame->taps.at[i].span, "the other one");
      return;
    }
  vtb__output seen = {name, x, name_expr->span, e->tap_prefix};
  vtb_vec_push(&e->frame->taps, seen);
  name = vtb__tap_name(e, name);
  vtb_builder *b = vtb__at(e, span);
  vtb_attr attr = VTB_A_STR("name", name);
  if (b) vtb_build(b, VTB_OP_tap, &x, 1, &attr, 1);
}
