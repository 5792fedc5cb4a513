/* Names of values in dumps: after the statement that assigns them, else after the scope or the
 * builtin that made them, else after the op (the builder's choice).
 *
 *   q = headwise("q_proj", x, 4)      %q_proj.group = reshape %x
 *                                     %q_proj.einsum = einsum %q_proj.group, %q_proj.weight
 *                                     %q = reshape %q_proj.einsum
 *
 * A function is in line where it is called: its own variables stand behind its scope, `proj_up.y`,
 * and give way to what the caller calls its value. At one depth of calls the first name stays, so
 * that `before = x` renames nothing. */
#include "frontend/lang/value.h"

#include <ctype.h>

/* Where the frame keeps the depth of calls at which a value was named: 0 is never. */
static int *depth_of(vtb__eval *e, const vtb_value *v) {
  vtb__frame *f = e->frame;
  while (f->named.n <= (size_t)v->id) vtb_vec_put(&e->arena, &f->named, 0);
  return &f->named.at[v->id];
}

static bool here(const vtb__eval *e, const vtb_value *v) {
  return e->frame && v->def && v->func == e->frame->func;
}

static void name_tensor(vtb__eval *e, vtb_value *v, const char *name) {
  int depth = e->calls + 1;
  if (!here(e, v) || (*depth_of(e, v) && *depth_of(e, v) <= depth)) return;
  vtb_value_rename(v, name);
  *depth_of(e, v) = depth;
}

static void name_all(vtb__eval *e, vtb__val v, const char *name) {
  if (v.kind == VTB__TENSOR) name_tensor(e, v.u.t.v, name);
  if (v.kind == VTB__LIST || v.kind == VTB__TUPLE)
    for (size_t i = 0; i < v.u.list.n; i++) name_all(e, v.u.list.at[i], name);
}

const char *vtb__scope(const vtb__eval *e) {
  bool inlined = e->frame && e->calls > e->frame->calls;
  return *e->prefix || !inlined ? e->prefix : e->decl->name.text;
}

/* "proj_up.y" */
static const char *in_scope(vtb__eval *e, const char *name) {
  const char *scope = vtb_scope_end(vtb__scope(e));
  return *scope ? vtb_arena_printf(&e->arena, "%s.%s", scope, name) : name;
}

void vtb__name_assigned(vtb__eval *e, vtb__val v, const char *variable) {
  if (e->frame) name_all(e, v, e->calls > e->frame->calls ? in_scope(e, variable) : variable);
}

/* The value of a scope that a function opens is what the function computes, whatever its variable
 * is called. */
void vtb__name_scoped(vtb__eval *e, vtb__val v) {
  if (!e->frame || e->calls <= e->frame->calls || v.kind != VTB__TENSOR || !here(e, v.u.t.v))
    return;
  if (*depth_of(e, v.u.t.v) > e->calls) *depth_of(e, v.u.t.v) = 0;
  name_tensor(e, v.u.t.v, vtb_scope_end(e->prefix));
}

void vtb__name_built(vtb__eval *e, vtb__val v, const char *builtin, int first_id) {
  if (v.kind == VTB__LIST || v.kind == VTB__TUPLE)
    for (size_t i = 0; i < v.u.list.n; i++) vtb__name_built(e, v.u.list.at[i], builtin, first_id);
  if (v.kind != VTB__TENSOR || !here(e, v.u.t.v) || v.u.t.v->id < first_id || *depth_of(e, v.u.t.v))
    return;
  vtb_value_rename(v.u.t.v, in_scope(e, builtin));
}

/* ---- letters of products --------------------------------------------------------------------- */

char vtb__axis_letter(const char *axis, const char *used) {
  static const char others[] = "defgijlmopqrstuvwxyzabchkn";
  char wish = axis ? (char)tolower((unsigned char)axis[0]) : 0;
  if (wish >= 'a' && wish <= 'z' && !strchr(used, wish)) return wish;
  for (const char *c = others; *c; c++)
    if (!strchr(used, *c)) return *c;
  vtb_bug("an einsum with more than 26 axes");
}

void vtb__axis_letters(const vtb_type *t, int n, const char *used, char *out) {
  char taken[27 + VTB_MAX_RANK];
  int at = snprintf(taken, 27, "%s", used);
  for (int a = 0; a < n; a++) {
    out[a] = taken[at++] = vtb__axis_letter(t->dim[a].name, taken);
    taken[at] = 0;
  }
  out[n] = 0;
}
