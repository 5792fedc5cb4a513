/* The verifier: every rule that a module keeps between passes. The first broken one is reported. */
#include "ir/checks.h"
#include "ir/ops.h"
#include "ir/internal.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct verifier {
  const vtb_module *module;
  const vtb_func *func;
  const vtb_inst *inst; /* NULL: about the function */
  vtb_error *err;
  bool *defined; /* by value id */
} verifier;

static bool broken(const verifier *v, const char *fmt, ...) VTB_PRINTF(2, 3);
static bool broken(const verifier *v, const char *fmt, ...) {
  char rule[600];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(rule, sizeof rule, fmt, ap);
  va_end(ap);
  vtb_strbuf line = {0};
  if (v->inst) vtb_inst_print(v->inst, &line);
  vtb_fail(v->err, VTB_E_INTERNAL, "@%s%s%.300s: %s", v->func ? v->func->name : "",
           v->inst ? ": " : "", line.at ? line.at : "", rule);
  vtb_strbuf_free(&line);
  return false;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool value_rules(verifier *v, const vtb_value *value, const vtb_inst *def, int index,
                        vtb_map *names) {
  if (!value) return broken(v, "a value is missing");
  if (value->func != v->func) return broken(v, "%%%s belongs to another function", value->name);
  if (value->def != def || value->index != index)
    return broken(v, "%%%s does not know where it is defined", value->name);
  if (value->id < 0 || value->id >= v->func->n_values || v->defined[value->id])
    return broken(v, "%%%s has the id %d, which is taken or out of range", value->name, value->id);
  size_t n = names->n;
  vtb_map_set(names, value->name, (void *)(uintptr_t)1);
  if (names->n == n) return broken(v, "two values are named %%%s", value->name);
  v->defined[value->id] = true;
  return true;
}

static bool use_rules(verifier *v, const vtb_value *value) {
  if (!value) return broken(v, "an operand is missing");
  if (value->func != v->func)
    return broken(v, "operand %%%s belongs to another function", value->name);
  if (value->id < 0 || value->id >= v->func->n_values || !v->defined[value->id])
    return broken(v, "%%%s is used before its definition", value->name);
  for (int r = 0; v->inst; r++) {
    if (r == value->n_readers) return broken(v, "%%%s does not know its reader", value->name);
    if (value->readers[r] == v->inst) break;
  }
  return true;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static bool callee_rules(verifier *v) {
  const vtb_inst *inst = v->inst;
  const vtb_func *callee = inst->callee;
  if (inst->op == VTB_OP_state_scale && v->func->kind != VTB_FUNC_STEP)
    return broken(v, "state_scale outside a step function");
  if (!callee) return true;
  if (vtb_module_find(v->module, callee->name) != callee)
    return broken(v, "@%s is not in the module", callee->name);
  vtb_func_kind want = inst->op == VTB_OP_recurrence ? VTB_FUNC_STEP
                       : inst->op == VTB_OP_fused    ? VTB_FUNC_KERNEL
                       : inst->op == VTB_OP_update   ? VTB_FUNC_RULE
                                                     : VTB_FUNC_PLAIN;
  bool one_kernel = inst->op == VTB_OP_fold && vtb_attr_int(inst, "tile", 0) > 0;
  if (one_kernel && callee->kind == VTB_FUNC_KERNEL) want = VTB_FUNC_KERNEL;
  return callee->kind == want ||
         broken(v, "@%s is of the wrong kind for %s", callee->name, vtb_op_get(inst->op)->name);
}

static bool shape_rules(verifier *v) {
  const vtb_inst *inst = v->inst;
  VTB_VEC(vtb_type) given = {0};
  for (int i = 0; i < inst->n_results; i++) vtb_vec_push(&given, inst->results[i]->type);
  vtb__shape s;
  bool good = vtb__shape_infer(&s, inst, given.at, inst->n_results);
  if (!good)
    broken(v, "%s", s.text);
  else if ((int)s.results.n != inst->n_results)
    good = broken(v, "the rule gives %zu results", s.results.n);
  for (int i = 0; good && i < inst->n_results; i++)
    if (!vtb_type_equal(&s.results.at[i], &given.at[i]))
      good = broken(v, "%%%s is %s and should be %s", inst->results[i]->name,
                    vtb__shape_text(&s, &given.at[i]), vtb__shape_text(&s, &s.results.at[i]));
  vtb__shape_free(&s);
  vtb_vec_free(&given);
  return good;
}

/* Moves of elements keep them as they are stored: it may be an address and nothing else. */
static bool view_rules(verifier *v) {
  const vtb_inst *inst = v->inst;
  if (vtb_op_get(inst->op)->klass != VTB_CLASS_SHAPE || v->func->kind != VTB_FUNC_PLAIN)
    return true;
  for (int r = 0; r < inst->n_results; r++)
    for (int o = 0; o < inst->n_operands && inst->op != VTB_OP_random; o++)
      if (inst->results[r]->type.dtype != inst->operands[o]->type.dtype)
        return broken(v, "%%%s is not stored as %%%s is", inst->results[r]->name,
                      inst->operands[o]->name);
  return true;
}

static bool inst_rules(verifier *v, vtb_map *names) {
  const vtb_inst *inst = v->inst;
  if ((unsigned)inst->op >= VTB_OP_COUNT) return broken(v, "no such op");
  if (inst->func != v->func) return broken(v, "the instruction belongs to another function");
  for (int i = 0; i < inst->n_operands; i++)
    if (!use_rules(v, inst->operands[i])) return false;
  if (!callee_rules(v) || !shape_rules(v) || !view_rules(v)) return false;
  for (int i = 0; i < inst->n_results; i++)
    if (!value_rules(v, inst->results[i], inst, i, names)) return false;
  return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool body_rules(verifier *v, vtb_map *names) {
  const vtb_inst *before = NULL;
  for (int i = 0; i < v->func->n_args; i++)
    if (!value_rules(v, v->func->args[i], NULL, i, names)) return false;
  for (const vtb_inst *inst = v->func->first; inst; before = inst, inst = inst->next) {
    v->inst = inst;
    if (inst->prev != before) return broken(v, "the list of instructions is broken");
    if (!inst_rules(v, names)) return false;
  }
  v->inst = NULL;
  if (v->func->last != before) return broken(v, "the list of instructions is broken at its end");
  for (int i = 0; i < v->func->n_returns; i++)
    if (!use_rules(v, v->func->returns[i])) return false;
  return true;
}

static bool func_rules(verifier *v) {
  vtb_map names = {0};
  v->defined = vtb_xcalloc((size_t)v->func->n_values + 1, sizeof *v->defined);
  v->inst = NULL;
  bool good = v->func->module == v->module || broken(v, "the function belongs to another module");
  good = good && (vtb_module_find(v->module, v->func->name) == v->func ||
                  broken(v, "two functions have this name"));
  good = good && body_rules(v, &names);
  vtb_free(v->defined);
  vtb_map_free(&names);
  return good;
}

/* Callees come before callers in post order unless a function reaches itself. */
static bool call_rules(verifier *v) {
  vtb__func_order order = {0};
  vtb_map placed = {0};
  bool good = true;
  for (vtb_func *root = v->module->first; root; root = root->next) vtb__order_add(&order, root);
  for (size_t i = 0; i < order.list.n && good; i++) {
    v->func = order.list.at[i];
    for (const vtb_inst *inst = v->func->first; inst && good; inst = inst->next)
      if (inst->callee && !vtb_map_has(&placed, inst->callee->name))
        good = broken(v, "the function calls itself through @%s", inst->callee->name);
    vtb_map_set(&placed, v->func->name, order.list.at[i]);
  }
  vtb_map_free(&placed);
  vtb_map_free(&order.seen);
  vtb_vec_free(&order.list);
  return good;
}

bool vtb_module_verify(const vtb_module *m, vtb_error *err) {
  verifier v = {.module = m, .err = err};
  for (const vtb_func *f = m->first; f; f = f->next) {
    v.func = f;
    if (!func_rules(&v)) return false;
  }
  v.func = m->entry;
  v.inst = NULL;
  if (m->entry && vtb_module_find(m, m->entry->name) != m->entry)
    return broken(&v, "the entry is not in the module");
  if (m->entry && m->entry->kind != VTB_FUNC_PLAIN && m->entry->kind != VTB_FUNC_RULE)
    return broken(&v, "the entry is not a plain function");
  return call_rules(&v);
}

#ifdef NDEBUG
static atomic_bool checks;
#else
static atomic_bool checks = true;
#endif
bool vtb_checks(void) { return atomic_load_explicit(&checks, memory_order_relaxed); }

void vtb_checks_begin(void) { atomic_store(&checks, true); }
