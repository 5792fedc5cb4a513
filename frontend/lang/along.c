/* `along`: a body run on sequences in another order, or once an order of several. */
#include "frontend/lang/value.h"

static vtb__val along_one(vtb__eval *e, const vtb_expr *x, const vtb__path *p, int64_t index) {
  vtb__env env = {.up = e->env, .along = p};
  vtb__env *inner = vtb_arena_memdup(&e->arena, &env, sizeof env);
  vtb__env *saved = e->env;
  e->env = inner;
  if (x->u.along.as.text)
    vtb__env_bind(e, x->u.along.as.text, vtb__int(index), "the index of a direction",
                  x->u.along.as.span);
  vtb__val v = vtb__body_value(e, &x->u.along.body);
  e->env = saved;
  vtb__env_end(e, inner);
  if (v.kind == VTB__NONE) {
    vtb__report(e, VTB_DIAG_NO_VALUE, x->u.along.body.span, "the body of along has no value");
    vtb__help(e, "end it with a line that is only the value, or with return");
    return VTB__ERR;
  }
  return vtb__leave_path(e, v, p, x->span);
}

/* A path argument given as a string comes from a config: the const of that name. */
static bool take_path(vtb__eval *e, vtb__val v, vtb_span span, const vtb__path **p) {
  if (v.kind == VTB__PATH) {
    *p = v.u.path;
    return true;
  }
  if (v.kind != VTB__ERROR)
    vtb__report(e, VTB_DIAG_BAD_PATH, span, "along needs a path, not %s", vtb__describe(e, v));
  return false;
}

/* A bare word where a path stands is most likely meant for one. */
static bool unknown_path(vtb__eval *e, const vtb_expr *x) {
  static const char *const paths[] = {"rows", "cols", "snake", "diagonal", "hilbert"};
  vtb__val known;
  if (x->kind != VTB_EXPR_NAME || vtb__env_has(e, x->u.name) ||
      vtb__file_lookup(e->file, x->u.name) || vtb__builtin_name(e, x->u.name, &known))
    return false;
  vtb__report(e, VTB_DIAG_BAD_PATH, x->span, "unknown path '%s'", x->u.name);
  if (!vtb__suggest_help(e, x->u.name, paths, sizeof paths / sizeof *paths) && !e->stopped)
    vtb_diag_help(e->diags, "paths are rows, cols, snake, diagonal, hilbert, path([...]) and "
                            "these with ~, .hflip, .vflip");
  return true;
}

static vtb__val along_each(vtb__eval *e, const vtb_expr *x) {
  vtb__val paths = vtb__expr(e, x->u.along.path);
  if (paths.kind == VTB__ERROR) return paths;
  if (paths.kind != VTB__LIST)
    return vtb__report(e, VTB_DIAG_BAD_PATH, x->u.along.path->span,
                       "along each needs a list of paths, not %s", vtb__describe(e, paths));
  if (!paths.u.list.n)
    return vtb__report(e, VTB_DIAG_EMPTY_LIST, x->u.along.path->span,
                       "along each needs at least one path");
  vtb__val suffixes = VTB__NIL;
  if (x->u.along.suffix) {
    suffixes = vtb__expr(e, x->u.along.suffix);
    if (suffixes.kind == VTB__ERROR) return suffixes;
    if (suffixes.kind != VTB__LIST || suffixes.u.list.n != paths.u.list.n)
      return vtb__report(e, VTB_DIAG_VALUE_COUNT, x->u.along.suffix->span,
                         "along each has %zu paths and needs a list of as many suffixes, not %s",
                         paths.u.list.n, vtb__describe(e, suffixes));
  }
  const char *suffix = e->suffix, *suffix_at = e->suffix_at;
  bool suffix_empty = e->suffix_empty;
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, paths.u.list.n);
  bool failed = false;
  for (size_t i = 0; i < paths.u.list.n; i++) {
    const vtb__path *p;
    vtb__val s = suffixes.kind == VTB__LIST ? suffixes.u.list.at[i] : vtb__val_string("");
    if (s.kind != VTB__STRING) {
      if (s.kind != VTB__ERROR)
        vtb__report(e, VTB_DIAG_TYPE_MISMATCH, x->u.along.suffix->span,
                    "a suffix is a string, not %s", vtb__describe(e, s));
      failed = true;
      break;
    }
    if (!take_path(e, paths.u.list.at[i], x->u.along.path->span, &p)) {
      failed = true;
      break;
    }
    e->suffix = s.u.str.s;
    e->suffix_at = e->prefix;
    e->suffix_empty = !x->u.along.suffix && i == 0 && paths.u.list.n > 1;
    at[i] = along_one(e, x, p, (int64_t)i);
    failed |= at[i].kind == VTB__ERROR;
  }
  e->suffix = suffix;
  e->suffix_at = suffix_at;
  e->suffix_empty = suffix_empty;
  if (failed) return VTB__ERR;
  return (vtb__val){.kind = VTB__LIST, .u.list = {at, paths.u.list.n}};
}

vtb__val vtb__along(vtb__eval *e, const vtb_expr *x) {
  if (e->frame && e->frame->step)
    return vtb__report(e, VTB_DIAG_NOT_A_STEP_OPERATION, x->span,
                       "along has no place in a step, which sees one token");
  if (x->u.along.each) return along_each(e, x);
  const vtb__path *p;
  if (unknown_path(e, x->u.along.path)) return VTB__ERR;
  vtb__val v = vtb__expr(e, x->u.along.path);
  if (!take_path(e, v, x->u.along.path->span, &p)) return VTB__ERR;
  return along_one(e, x, p, 0);
}
