/* Small questions about instructions that several passes ask. */
#include "passes/passes_internal.h"

#include <string.h>

#include "ir/checks.h"
#include "ir/path.h"

vtb_status vtb__verify(const vtb_module *m, const char *when, vtb_error *err) {
  vtb_error broken = {0};
  if (vtb_module_verify(m, &broken)) return VTB_OK;
  return vtb_fail(err, VTB_E_INTERNAL, "%s: %s", when, broken.text);
}

vtb_status vtb__verified(const vtb_module *m, const char *when, vtb_status made, vtb_error *err) {
  return made == VTB_OK && vtb_checks() ? vtb__verify(m, when, err) : made;
}

/* ---- memory of a pass ------------------------------------------------------------------------ */

/* malloc'd, with room for a NULL. */
static void *take(vtb_module *m, void *from, size_t n, size_t size_bytes) {
  char *list = vtb_arena_array(&m->scratch, n + 1, size_bytes);
  if (n) memcpy(list, from, n * size_bytes);
  vtb_free(from);
  return list;
}

int *vtb__uses(vtb_func *f) {
  return take(f->module, vtb_count_uses(f), (size_t)f->n_values, sizeof(int));
}

vtb_inst **vtb__readers(const vtb_value *v) {
  vtb_inst **all;
  size_t n = vtb_value_readers(v, &all);
  return take(v->func->module, all, n, sizeof(vtb_inst *));
}

vtb_func **vtb__callees_first(vtb_module *m, vtb_func *root) {
  VTB_VEC(vtb_func *) all = {0};
  if (root) all.n = vtb_module_post_order(root, &all.at);
  for (vtb_func *f = m->first; f && !root; f = f->next) vtb_vec_push(&all, f);
  return take(m, all.at, all.n, sizeof(vtb_func *));
}

/* The instructions of an op, or with a callee. */
static vtb_inst **listed(vtb_module *m, vtb_op op, const vtb_func *callee) {
  VTB_VEC(vtb_inst *) all = {0};
  for (vtb_func *f = m->first; f; f = f->next)
    for (vtb_inst *i = f->first; i; i = i->next)
      if (callee ? i->callee == callee : i->op == op) vtb_vec_put(&m->scratch, &all, i);
  vtb_vec_put(&m->scratch, &all, NULL);
  return all.at;
}

vtb_inst **vtb__all_of(vtb_module *m, vtb_op op) { return listed(m, op, NULL); }

vtb_inst **vtb__calls_of(const vtb_func *f) { return listed(f->module, VTB_OP_call, f); }

/* ---- building -------------------------------------------------------------------------------- */

vtb_builder vtb__before(vtb_inst *i) {
  return (vtb_builder){.module = i->func->module, .func = i->func, .before = i, .span = i->span};
}

vtb_value *vtb__joined(vtb_builder *b, vtb_op op, vtb_value *x, vtb_value *y) {
  return !x ? y : !y ? x : vtb_b_binary(b, op, x, y);
}

vtb_value *vtb__among_ones(vtb_builder *b, vtb_value *x, const int *to, int rank) {
  vtb_type t = vtb_type_among_ones(&x->type, to, rank);
  return vtb_b_shaped(b, x, &t);
}

vtb_inst *vtb__call_with(vtb_inst *call, vtb_func *callee, vtb_value *const *more, int n) {
  vtb_value **all = VTB_SCRATCH(call->func, vtb_value *, call->n_operands + n);
  for (int o = 0; o < call->n_operands + n; o++)
    all[o] = o < call->n_operands ? call->operands[o] : more[o - call->n_operands];
  return vtb__replace_call(call, callee, all, call->n_operands + n, NULL);
}

/* ---- questions ------------------------------------------------------------------------------- */

bool vtb__splat(const vtb_value *v, double *value) {
  for (; v->def; v = v->def->operands[0]) {
    const vtb_inst *i = v->def;
    if (i->op == VTB_OP_constant) {
      if (vtb_attr_find(i, "data")) return false;
      *value = vtb_attr_float(i, "value", 0);
      return true;
    }
    if (i->op != VTB_OP_reshape && i->op != VTB_OP_broadcast) return false;
  }
  return false;
}

bool vtb__is_constant(const vtb_value *v, double value) {
  double x;
  return vtb__splat(v, &x) && x == value;
}

bool vtb__attrs_within(const vtb_inst *a, const vtb_inst *b, const char *but) {
  for (int i = 0; i < a->n_attrs; i++) {
    const vtb_attr *x = &a->attrs[i], *y = vtb_attr_find(b, x->key);
    if (!vtb_streq(x->key, but) && (!y || !vtb_attr_equal(x, y))) return false;
  }
  return true;
}

vtb_path vtb__path_of(const char *text) {
  vtb_path p;
  vtb_error err = {0};
  vtb_check(vtb_path_parse(text, &p, &err) == VTB_OK, "path \"%s\": %s", text, err.text);
  return p;
}

const char *vtb__path_text(vtb_module *m, const vtb_path *p) {
  vtb_strbuf s = {0};
  vtb_path_print(p, &s);
  const char *text = vtb_arena_strdup(&m->scratch, s.at);
  vtb_strbuf_free(&s);
  return text;
}

int64_t *vtb__path_indices(vtb_module *m, const char *path, int64_t n) {
  int64_t *perm = VTB_NEW_ARRAY(&m->scratch, int64_t, n + 1);
  for (int64_t t = 0; t < n; t++) perm[t] = t;
  if (!path) return perm;
  vtb_path p = vtb__path_of(path);
  vtb_check(p.n == n, "path \"%s\" visits %lld tokens of %lld", path, (long long)p.n, (long long)n);
  vtb_path_indices(&p, perm);
  vtb_path_free(&p);
  return perm;
}

int64_t vtb__path_end(vtb_module *m, const char *path, int64_t n, bool last) {
  return vtb__path_indices(m, path, n)[last ? n - 1 : 0];
}

void vtb__swap_names(vtb_value *x, vtb_value *y) {
  const char *name = x->name;
  x->name = y->name;
  y->name = name;
}

bool vtb__is_parameter(const vtb_value *v) {
  if (v->def) return false;
  vtb_role role = v->func->arg_info[v->index].role;
  return role == VTB_ROLE_PARAM || role == VTB_ROLE_BUFFER;
}

bool vtb__is_left_alone(const vtb_pass_context *c) {
  const vtb_func *f = c->module->entry;
  if (!vtb_streq(c->options, "of inference")) return false;
  for (int r = 0; r < f->n_returns; r++)
    if (f->return_names[r] && vtb_starts_with(f->return_names[r], "d:")) return true;
  return c->updates;
}

vtb_value *vtb__named_arg(vtb_func *f, const char *name, vtb_type type, vtb_role role) {
  vtb_value *v = vtb_func_add_arg(f, name, type);
  f->arg_info[v->index] = (vtb_arg_info){.role = role, .official = vtb_intern(f->module, name)};
  return v;
}

vtb_func *vtb__kernel_new(const vtb_inst *inst) {
  const char *scope = inst->span.scope ? vtb_scope_end(inst->span.scope) : "";
  const char *name = inst->results[0]->name;
  char buf[256];
  bool placed = strstr(name, scope) != NULL;
  snprintf(buf, sizeof buf, "%s%s%s", placed ? "" : scope, placed ? "" : ".", name);
  buf[vtb_name_stem(buf)] = 0;
  return vtb_func_new(inst->func->module, buf, VTB_FUNC_KERNEL, inst->span);
}

vtb_value **vtb__inlined(vtb_builder *b, const vtb_func *f, vtb_value *const *operands) {
  vtb_value **of = VTB_SCRATCH(b, vtb_value *, f->n_values);
  vtb_value **made = VTB_SCRATCH(b, vtb_value *, f->n_returns);
  for (int a = 0; a < f->n_args; a++) of[f->args[a]->id] = operands[a];
  for (const vtb_inst *i = f->first; i; i = i->next) vtb_inst_copy(b, i, of);
  for (int r = 0; r < f->n_returns; r++) made[r] = of[f->returns[r]->id];
  return made;
}

void vtb__expand(vtb_inst *call) {
  vtb_builder b = vtb__before(call);
  b.span = VTB_NO_SPAN; /* copies keep their own */
  vtb_value **made = vtb__inlined(&b, call->callee, call->operands);
  for (int r = 0; r < call->n_results; r++) vtb_replace_all(call->results[r], made[r]);
  vtb_inst_unlink(call);
}

void vtb__expand_calls(vtb_func *f) {
  VTB__EACH_INST(f, i, next) {
    if (i->op != VTB_OP_call) continue;
    vtb_inst *before = i->prev;
    vtb__expand(i);
    next = before ? before->next : f->first; /* calls may stand in what was put there */
  }
}

void vtb__stand_in(vtb_value *old, vtb_value *with) {
  vtb_replace_all(old, with);
  vtb__swap_names(old, with);
}

void vtb__become(vtb_inst *old, vtb_value *with) {
  vtb__stand_in(old->results[0], with);
  vtb_inst_unlink(old);
}

vtb_inst *vtb__replace_call(vtb_inst *inst, vtb_func *callee, vtb_value *const *operands, int n,
                            const int *map) {
  vtb_builder b = vtb__before(inst);
  vtb_inst *call = vtb_build_call(&b, inst->op, callee, operands, n, inst->attrs, inst->n_attrs);
  for (int i = 0; i < inst->n_results; i++) {
    int to = map ? map[i] : i;
    if (to < 0) continue; /* unused */
    vtb_value *old = inst->results[i], *now = call->results[to];
    vtb__swap_names(old, now); /* dumps keep the user's names */
    vtb_replace_all(old, now);
  }
  vtb_inst_unlink(inst);
  return call;
}
