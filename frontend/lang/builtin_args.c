/* Arguments of builtin functions: taken one by one, by name or by place. */
#include "frontend/lang/value.h"

static size_t self_count(const vtb__args *a) { return a->n - a->list->n; }

const char *vtb__arg_name(const vtb__args *a, size_t i) {
  return i < self_count(a) ? NULL : a->list->at[i - self_count(a)]->name.text;
}

vtb_span vtb__arg_span(const vtb__args *a, size_t i) {
  if (i >= a->n || i < self_count(a)) return a->span;
  return a->list->at[i - self_count(a)]->span;
}

bool vtb__take_optional(vtb__eval *e, vtb__args *a, const char *name, vtb__val *out) {
  (void)e;
  for (size_t i = 0; i < a->n; i++) {
    if (a->used[i] || !vtb_streq(vtb__arg_name(a, i), name)) continue;
    a->used[i] = true;
    a->last = i;
    *out = a->at[i];
    if (out->kind == VTB__ERROR) a->failed = true;
    return true;
  }
  while (a->next < a->n && (a->used[a->next] || vtb__arg_name(a, a->next))) a->next++;
  if (a->next == a->n) return false;
  a->used[a->next] = true;
  a->last = a->next;
  *out = a->at[a->next++];
  if (out->kind == VTB__ERROR) a->failed = true;
  return true;
}

vtb__val vtb__take(vtb__eval *e, vtb__args *a, const char *name) {
  vtb__val v;
  if (vtb__take_optional(e, a, name, &v)) return v;
  if (!a->failed)
    vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, a->span, "builtin '%s' needs '%s'", a->name, name);
  a->failed = true;
  return VTB__ERR;
}

static bool wrong_type(vtb__eval *e, vtb__args *a, const char *name, const char *want, vtb__val v) {
  if (v.kind != VTB__ERROR)
    vtb__report(e, v.kind == VTB__TENSOR ? VTB_DIAG_NOT_COMPILE_TIME : VTB_DIAG_TYPE_MISMATCH,
                vtb__arg_span(a, a->last), "'%s' of '%s' is %s, and %s is needed", name, a->name,
                vtb__describe(e, v), want);
  a->failed = true;
  return false;
}

vtb_value *vtb__take_tensor(vtb__eval *e, vtb__args *a, const char *name, vtb__val *whole) {
  vtb__val v = vtb__take(e, a, name);
  if (whole) *whole = v;
  if (v.kind == VTB__TENSOR) return v.u.t.v;
  if (v.kind != VTB__ERROR)
    vtb__report(e, VTB_DIAG_TYPE_MISMATCH, vtb__arg_span(a, a->last),
                "'%s' of '%s' is %s, and a tensor is needed", name, a->name, vtb__describe(e, v));
  a->failed = true;
  return NULL;
}

bool vtb__take_int(vtb__eval *e, vtb__args *a, const char *name, int64_t *out) {
  vtb__val v = vtb__take(e, a, name);
  if (v.kind != VTB__INT) return wrong_type(e, a, name, "an int", v);
  *out = v.u.i;
  return true;
}

bool vtb__option_bool(vtb__eval *e, vtb__args *a, const char *name, bool *out) {
  vtb__val v;
  if (!vtb__take_optional(e, a, name, &v)) return true;
  if (v.kind != VTB__BOOL) return wrong_type(e, a, name, "true or false", v);
  *out = v.u.b;
  return true;
}

bool vtb__option_number(vtb__eval *e, vtb__args *a, const char *name, double *out) {
  vtb__val v;
  if (!vtb__take_optional(e, a, name, &v)) return true;
  if (!vtb__is_number(v)) return wrong_type(e, a, name, "a number", v);
  *out = vtb__val_number(v);
  return true;
}

bool vtb__option_string(vtb__eval *e, vtb__args *a, const char *name, const char **out) {
  vtb__val v;
  if (!vtb__take_optional(e, a, name, &v)) return true;
  if (v.kind != VTB__STRING) return wrong_type(e, a, name, "a string", v);
  *out = v.u.str.s;
  return true;
}

bool vtb__option_size(vtb__eval *e, vtb__args *a, const char *name, vtb_grid *out) {
  vtb__val v;
  if (!vtb__take_optional(e, a, name, &v)) return true;
  if (v.kind == VTB__SIZE) {
    *out = v.u.size;
    return true;
  }
  if (v.kind != VTB__INT) return wrong_type(e, a, name, "a size", v);
  *out = (vtb_grid){0, v.u.i, v.u.i, v.u.i};
  return true;
}

bool vtb__sides(vtb__eval *e, vtb__args *a, const char *name, const vtb_grid *size, int rank,
                int64_t *out) {
  static const char *const forms[] = {"an int", "an int, or one like 7x14",
                                      "an int, or one like 4x7x7"};
  vtb_grid g = *size;
  if (!g.rank) g.rank = rank;
  if (g.rank == rank) {
    vtb_grid_sides(&g, out);
    return true;
  }
  vtb__report(e, VTB_DIAG_BAD_SIZE, a->span, "%s of %s is %s, and the grid has %d ax%ss", name,
              a->name, vtb__grid_text(e, size), rank, rank == 1 ? "i" : "e");
  if (!e->stopped) vtb_diag_help(e->diags, "give %s", forms[rank - 1]);
  a->failed = true;
  return false;
}

bool vtb__channels_last(vtb__eval *e, const vtb__args *a, vtb__val x) {
  if (x.u.t.layout->kind != VTB__IMAGE) return true;
  vtb__report(e, VTB_DIAG_IMAGE_AXIS, a->span,
              "%s works along the last axis, and that of %s is its width", a->name,
              vtb__describe(e, x));
  vtb__help(e, "pixels(x) of std.conv has the channels last, as tokens, and to_image(y) is the way "
               "back");
  return false;
}
