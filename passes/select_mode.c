/* select_mode: "auto" becomes a mode and a chunk; the command line's mode replaces the source's.
 *
 *   linscan ... {class="scalar", mode="auto"}
 *   =>
 *   linscan ... {chunk=64, class="scalar", mode="chunkwise"}
 *
 * Multiply-adds a token and head are (K + V)(T + 1)/2 in parallel form and (K + V)(L + 1)/2 + 2 K V
 * in chunks of L, so parallel form wins below T = L + 4 K V / (K + V). A full decay has no matrix
 * form and runs step by step. A decay along keys or values has both, at a price that small states
 * do not repay: vector_choice. A linscan whose final states have no use is told so: last=0.
 */
#include "passes/passes_internal.h"

#include <stdlib.h>

#include "ir/recurrence.h"

enum { DEFAULT_CHUNK = 64, VECTOR_CHUNK = 32 };

typedef struct choice {
  const char *mode;
  int64_t chunk;
} choice;

/* Classes key and value, a token and head, in multiply-adds of a product of matrices (measured,
 * docs/results): a step costs about 5.5 K V, since it loads and stores the state; the other forms
 * pay some 50 (K + V) for the decays inside sub-blocks, 0.9 K V to move the state for every
 * sub-block, and 1.4 times the plain price for pairs of tokens. The adjoint of a step costs three
 * times what its products do, once the state has a few rows and columns. */
static choice vector_choice(const vtb_inst *inst, double t, double k, double v) {
  if (inst->op == VTB_OP_linscan_grad)
    return k * v < 10 * (k + v) ? (choice){"recurrent", 0} : (choice){"chunkwise", DEFAULT_CHUNK};
  double steps = 5.5 * k * v, parallel = (k + v) * (50 + 0.7 * t),
         chunks = (k + v) * (50 + 0.7 * VECTOR_CHUNK) + 2.9 * k * v;
  if (steps <= parallel && steps <= chunks) return (choice){"recurrent", 0};
  return parallel <= chunks ? (choice){"parallel", 0} : (choice){"chunkwise", VECTOR_CHUNK};
}

static choice automatic(const vtb_inst *inst) {
  vtb_decay_form form = vtb_scan_of(inst).decay->form;
  double t = (double)inst->operands[0]->type.dim[1].size;
  double k = (double)inst->operands[0]->type.dim[3].size,
         v = (double)inst->operands[2]->type.dim[3].size;
  if (form > VTB_FORM_VECTOR) return (choice){"recurrent", 0};
  if (form == VTB_FORM_VECTOR) return vector_choice(inst, t, k, v);
  if (t < DEFAULT_CHUNK + 4 * k * v / (k + v)) return (choice){"parallel", 0};
  return (choice){"chunkwise", DEFAULT_CHUNK};
}

static void decide(const vtb_pass_context *c, vtb_inst *inst) {
  choice now = {vtb_attr_str(inst, "mode", "auto"), vtb_attr_int(inst, "chunk", 0)};
  if (c->mode) now.mode = c->mode;
  if (c->chunk > 0) now.chunk = c->chunk;
  if (vtb_streq(now.mode, "auto")) {
    int64_t asked = now.chunk;
    now = automatic(inst);
    if (asked > 0 && now.chunk) now.chunk = asked;
  }
  vtb_attr_set(inst, VTB_A_STR("mode", now.mode));
  if (vtb_streq(now.mode, "chunkwise"))
    vtb_attr_set(inst, VTB_A_INT("chunk", now.chunk > 0 ? now.chunk : DEFAULT_CHUNK));
  else
    vtb_attr_remove(inst, "chunk");
}

static bool known_mode(const char *mode) {
  return !mode || vtb_streq(mode, "auto") || vtb_streq(mode, "recurrent") ||
         vtb_streq(mode, "parallel") || vtb_streq(mode, "chunkwise");
}

/* Final states that nobody reads are not computed. Late, because autodiff copies attributes to
 * linscan_grad. */
static void drop_last_states(vtb_func *f) {
  int *uses = vtb_count_uses(f);
  for (vtb_inst *inst = f->first; inst; inst = inst->next)
    if (inst->op == VTB_OP_linscan && !uses[inst->results[1]->id] &&
        (inst->n_results < 4 || !uses[inst->results[3]->id]))
      vtb_attr_set(inst, VTB_A_INT("last", 0));
  vtb_free(uses);
}

vtb_status vtb__pass_select_mode(vtb_pass_context *c, vtb_error *err) {
  if (!known_mode(c->mode))
    return vtb_fail(err, VTB_E_USAGE,
                    "no mode is named \"%s\"; there are auto, recurrent, parallel and chunkwise",
                    c->mode);
  for (vtb_func *f = c->module->first; f; f = f->next) {
    for (vtb_inst *inst = f->first; inst; inst = inst->next)
      if (inst->op == VTB_OP_linscan || inst->op == VTB_OP_linscan_grad) decide(c, inst);
    drop_last_states(f);
  }
  return VTB_OK;
}
