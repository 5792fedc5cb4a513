/* Variables. A body has one flat set of names: assignments in if, repeat and scope are to the
 * body's own variables. An `along` body also sees the variables outside it; token tensors among
 * them are put into its order when first used, once each, and kept as its own. */
#include "frontend/lang/value.h"

vtb__binding *vtb__env_find_here(vtb__env *env, const char *name) {
  for (vtb__binding *b = env->first; b; b = b->next)
    if (strcmp(b->name, name) == 0) return b;
  return NULL;
}

vtb__binding *vtb__env_bind(vtb__eval *e, const char *name, vtb__val v, const char *fixed,
                            vtb_span span) {
  vtb__binding *b = vtb__env_find_here(e->env, name);
  if (!b) {
    b = VTB_NEW(&e->arena, vtb__binding);
    b->name = name;
    b->next = e->env->first;
    e->env->first = b;
  }
  b->value = v;
  b->fixed = fixed;
  b->span = span;
  vtb__observe(e, span, v);
  return b;
}

static vtb__val enter(vtb__eval *e, vtb__val v, const vtb__path *p, vtb_span span) {
  if (v.kind == VTB__TENSOR)
    return v.u.t.layout->kind == VTB__TOKENS ? vtb__enter_path(e, v, p, span) : v;
  if (v.kind != VTB__LIST && v.kind != VTB__TUPLE) return v;
  bool any = false;
  for (size_t i = 0; i < v.u.list.n; i++) any |= v.u.list.at[i].kind == VTB__TENSOR;
  if (!any) return v;
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, v.u.list.n);
  for (size_t i = 0; i < v.u.list.n; i++) at[i] = enter(e, v.u.list.at[i], p, span);
  v.u.list.at = at;
  return v;
}

static bool get(vtb__eval *e, vtb__env *env, const char *name, vtb_span span, vtb__val *out) {
  vtb__binding *b = vtb__env_find_here(env, name);
  if (b) {
    *out = b->value;
    return true;
  }
  if (!env->up || !get(e, env->up, name, span, out)) return false;
  *out = enter(e, *out, env->along, span);
  b = VTB_NEW(&e->arena, vtb__binding);
  *b = (vtb__binding){.name = name, .value = *out, .span = span, .next = env->first};
  env->first = b;
  return true;
}

bool vtb__env_get(vtb__eval *e, const char *name, vtb_span span, vtb__val *out) {
  return get(e, e->env, name, span, out);
}

bool vtb__env_has(vtb__eval *e, const char *name) {
  for (vtb__env *env = e->env; env; env = env->up)
    if (vtb__env_find_here(env, name)) return true;
  return false;
}

void vtb__env_end(vtb__eval *e, vtb__env *inner) {
  inner->ended_next = e->env->ended;
  e->env->ended = inner;
}

void vtb__env_unbind(vtb__eval *e, const char *name, const vtb__binding *was) {
  for (vtb__binding **at = &e->env->first; *at; at = &(*at)->next) {
    vtb__binding *b = *at;
    if (strcmp(b->name, name) != 0) continue;
    vtb__env *gone = VTB_NEW(&e->arena, vtb__env);
    gone->first = VTB_NEW(&e->arena, vtb__binding);
    *gone->first = *b;
    gone->first->next = NULL;
    vtb__env_end(e, gone);
    if (was)
      b->value = was->value, b->fixed = was->fixed, b->span = was->span;
    else
      *at = b->next;
    return;
  }
}
