/* taps: named inspection points leave the graph.
 *
 *   %y = tap %x {name="blocks.0.h"}     =>   uses of %y read %x
 *   kept: the entry function returns %x as "tap:blocks.0.h" after its own outputs; calls between
 *   the tap and the entry return it outward.
 *
 * Taps in step functions, kernels, bodies of loops and what a tangent is taken of have no single
 * value and vanish in either case. Two taps of one name get the suffixes "#2", "#3" in the order of
 * execution.
 */
#include "passes/passes_internal.h"

typedef struct tapped {
  const char *name;
  vtb_value *value;
} tapped;
typedef VTB_VEC(tapped) taps;

static void drop_tap(vtb_inst *inst) {
  vtb_replace_all(inst->results[0], inst->operands[0]);
  vtb_inst_unlink(inst);
}

/* What the callee returns beyond the call's results, its taps. */
static void collect_call(vtb_inst *call, taps *out) {
  const vtb_func *f = call->callee;
  for (int r = call->n_results; r < f->n_returns; r++)
    vtb__put(f, out,
             ((tapped){f->return_names[r], vtb_inst_add_result(call, &f->returns[r]->type)}));
}

static void collect(vtb_func *f, taps *out) {
  VTB__EACH_INST(f, inst, next) {
    if (inst->op == VTB_OP_tap) {
      const char *name = vtb_attr_str(inst, "name", "");
      vtb__put(f, out,
               ((tapped){vtb_arena_printf(&f->module->arena, "tap:%s", name), inst->operands[0]}));
      drop_tap(inst);
    } else if (inst->op == VTB_OP_call) {
      collect_call(inst, out);
    }
  }
}

/* A body of a loop, or what a tangent is taken of: its returns mean something to who calls it. */
static bool is_body(const vtb_func *f) {
  for (vtb_inst **i = vtb__calls_of(f); *i; i++)
    if ((*i)->op == VTB_OP_fold || (*i)->op == VTB_OP_tangent) return true;
  return false;
}

static const char *unique_name(vtb_func *f, const tapped *all, size_t i) {
  int same = 1;
  for (size_t j = 0; j < i; j++) same += vtb_streq(all[j].name, all[i].name);
  return same == 1 ? all[i].name : vtb_arena_printf(&f->module->arena, "%s#%d", all[i].name, same);
}

void vtb__change_taps(vtb_pass_context *c) {
  vtb_func *entry = c->keep_taps ? c->module->entry : NULL;
  for (vtb_func **f = entry ? vtb__callees_first(c->module, entry) : NULL; f && *f; f++) {
    taps t = {0};
    if ((*f)->kind == VTB_FUNC_PLAIN) collect(*f, &t);
    for (size_t i = 0; i < t.n && !is_body(*f); i++)
      vtb_func_add_return(*f, t.at[i].value, unique_name(*f, t.at, i));
  }
  for (vtb_inst **i = vtb__all_of(c->module, VTB_OP_tap); *i; i++) drop_tap(*i);
}
