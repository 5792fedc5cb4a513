/* What a program's precision means for each of its products.
 *
 * The error of a product's factors goes on into all that is computed from its result: layer norms,
 * softmax and above all the quotients of gated recurrences (a sum over tokens by the sum of its
 * weights) make it larger, up to two hundred times in small mLSTMs. The gradient of a parameter
 * ends there, and adds up over tokens. So what a product is for decides:
 *
 *                                     tf32     bf16     fp16
 *   carried on, recurrences behind    two bf16 numbers a factor (2^-16) in all three
 *   convolutions, gradients wanted    likewise
 *   carried on, gradients wanted      tf32     tf32     fp16
 *   carried on, inference             tf32     bf16     fp16
 *   gradients of parameters           tf32     bf16     fp16
 *
 * bf16-all rounds the factors of all products to bf16 and trusts whoever asks for it, as mixed
 * precision usually does.
 *
 * Convolutions (im2col) are in this table for the sake of the relu that follows most of them: its
 * derivative jumps where its argument changes sign, however small the error.
 *
 * docs/cuda.md has the errors that are left.
 */
#include <string.h>

#include "codegen/cuda/plan/program.h"

static bool is_recurrent(const vtb_module *m) {
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      if (i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad || i->op == VTB_OP_fold)
        return true;
  return false;
}

static bool has_gradients(const vtb_func *entry) {
  for (int r = 0; r < entry->n_returns; r++)
    if (entry->return_names && entry->return_names[r] &&
        vtb_starts_with(entry->return_names[r], "d:"))
      return true;
  return false;
}

void vtb__cuda_choose_factors(vtb_cuda *c, const vtb_module *m, const vtb_func *entry) {
  static const vtb__cuda_factors plain[] = {[VTB_PRECISION_FP32] = VTB__FACTORS_FP32,
                                            [VTB_PRECISION_TF32] = VTB__FACTORS_TF32,
                                            [VTB_PRECISION_BF16] = VTB__FACTORS_BF16,
                                            [VTB_PRECISION_FP16] = VTB__FACTORS_FP16,
                                            [VTB_PRECISION_BF16_ALL] = VTB__FACTORS_BF16};
  vtb_precision precision = c->options->precision;
  c->ending = c->carried = c->scored = c->convolved = plain[precision];
  if (precision == VTB_PRECISION_BF16_ALL) return;
  if (precision == VTB_PRECISION_BF16 && has_gradients(entry))
    c->carried = c->scored = VTB__FACTORS_TF32;
  if (precision != VTB_PRECISION_FP32 && is_recurrent(m)) c->carried = VTB__FACTORS_SPLIT;
  c->convolved =
      precision != VTB_PRECISION_FP32 && has_gradients(entry) ? VTB__FACTORS_SPLIT : c->carried;
}

/* Both operands begin with one index, and it is summed: over images, and over tokens. */
bool vtb__cuda_ends_in_parameter(const vtb_inst *einsum) {
  const char *spec = vtb_attr_str(einsum, "spec", ""), *second = strchr(spec, ','),
             *out = strchr(spec, '>');
  return second && out && spec[0] != ',' && second[1] == spec[0] && !strchr(out, spec[0]);
}

static bool is_convolution(const vtb_inst *whole) {
  for (int o = 0; o < 2; o++) {
    const vtb_value *v = whole->operands[o];
    while (v->def && vtb_op_get(v->def->op)->klass == VTB_CLASS_SHAPE && v->def->n_operands == 1)
      v = v->def->operands[0];
    if (v->def && v->def->op == VTB_OP_im2col) return true;
  }
  return false;
}

vtb__cuda_factors vtb__cuda_factors_of(const vtb_cuda *c, const vtb_inst *whole,
                                       const vtb_inst *einsum) {
  if (vtb__cuda_ends_in_parameter(einsum)) return c->ending;
  return is_convolution(whole) ? c->convolved : c->carried;
}
