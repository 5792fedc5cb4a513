/* taps: named inspection points leave the graph.
 *
 *   %y = tap %x {name="blocks.0.h"}     =>   uses of %y read %x
 *   kept: the entry function returns %x as "tap:blocks.0.h" after its own outputs; calls between
 *   the tap and the entry return it outward.
 *
 * Taps in step functions and kernels have no single value and vanish in either case. Two taps of
 * one name get the suffixes "#2", "#3" in the order of execution.
 */
#include "passes/passes_internal.h"

#include <string.h>

typedef struct tapped {
  const char *name;
  vtb_value *value;
} tapped;
typedef VTB_VEC(tapped) taps;

static void drop_tap(vtb_inst *inst) {
  vtb_replace_all(inst->results[0], inst->operands[0]);
  vtb_inst_unlink(inst);
}

/* The names that `callee` returns beyond its own outputs; they stand at the end of its returns. */
static int extra_returns(const vtb_func *callee) {
  int n = 0;
  while (n < callee->n_returns) {
    const char *name =
        callee->return_names ? callee->return_names[callee->n_returns - 1 - n] : NULL;
    if (!name || !vtb_starts_with(name, "tap:")) break;
    n++;
  }
  return n;
}

static void collect_call(vtb_inst *inst, taps *out) {
  int extra = extra_returns(inst->callee);
  if (!extra || inst->n_results == inst->callee->n_returns) return; /* already returned outward */
  vtb_func *f = inst->callee;
  vtb_inst *call = vtb__replace_call(inst, f, inst->operands, inst->n_operands, NULL);
  for (int i = f->n_returns - extra; i < f->n_returns; i++)
    vtb__put(f, out, ((tapped){f->return_names[i], call->results[i]}));
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
    for (size_t i = 0; i < t.n; i++)
      vtb_func_add_return(*f, t.at[i].value, unique_name(*f, t.at, i));
  }
  for (vtb_inst **i = vtb__all_of(c->module, VTB_OP_tap); *i; i++) drop_tap(*i);
}
