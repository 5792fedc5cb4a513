/* precision: how the factors of each product are rounded, by what the product is for.
 *
 *   %y = einsum %x, %w {spec = "abc,dc->abd"}
 *   =>
 *   %y = einsum %x, %w {spec = "abc,dc->abd", precision = "bf16"}
 *
 * The error of a product's factors goes on into all that is computed from its result: layer norms,
 * softmax and above all the quotients of gated recurrences (a sum over tokens by the sum of its
 * weights) make it larger, up to two hundred times in small mLSTMs. The gradient of a parameter
 * ends there, and adds up over tokens. So what a product is for decides:
 *
 *                                     tf32     bf16     fp16
 *   carried on, recurrences behind    two bf16 numbers a factor (2^-16) in all three: "split"
 *   convolutions, gradients wanted    likewise
 *   carried on, gradients wanted      tf32     tf32     fp16
 *   carried on, inference             tf32     bf16     fp16
 *   attention, gradients wanted       tf32     tf32     fp16
 *   attention, inference              tf32     bf16     fp16
 *   gradients of parameters           tf32     bf16     fp16
 *
 * bf16-all rounds the factors of all products to bf16 and trusts whoever asks for it, as mixed
 * precision usually does; also those of a selective scan's adjoint, whose sums over columns are
 * products (linscan_rates_pairs.cu) while its recurrences stay fp32.
 *
 * Convolutions (im2col) are in this table for the sake of the relu that follows most of them: its
 * derivative jumps where its argument changes sign, however small the error.
 *
 * Needs a bound batch, modes of recurrences, and einsums that stand alone (before grow).
 * Declines what is no product: sums a thread, scans that run step by step. docs/cuda_products.md
 * has the errors that are left.
 */
#include "passes/passes_internal.h"

#include "ir/narrow.h"
#include "ir/product.h"
#include "ir/recurrence.h"

typedef struct choice {
  vtb_factors carried, ending, scored, convolved, stepped;
} choice;

static bool is_recurrent(const vtb_module *m) {
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      if (i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad || i->op == VTB_OP_delta ||
          i->op == VTB_OP_fold)
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

static choice choose(vtb_precision precision, const vtb_module *m) {
  static const vtb_factors plain[VTB_N_PRECISIONS] = {[VTB_PRECISION_FP32] = VTB_FACTORS_FP32,
                                                      [VTB_PRECISION_TF32] = VTB_FACTORS_TF32,
                                                      [VTB_PRECISION_BF16] = VTB_FACTORS_BF16,
                                                      [VTB_PRECISION_FP16] = VTB_FACTORS_FP16,
                                                      [VTB_PRECISION_BF16_ALL] = VTB_FACTORS_BF16};
  vtb_factors all = plain[precision];
  choice c = {all, all, all, all, VTB_FACTORS_FP32};
  if (precision == VTB_PRECISION_BF16_ALL) c.stepped = all;
  if (precision == VTB_PRECISION_BF16_ALL) return c;
  bool gradients = has_gradients(m->entry);
  if (precision == VTB_PRECISION_BF16 && gradients) c.carried = c.scored = VTB_FACTORS_TF32;
  if (is_recurrent(m)) c.carried = VTB_FACTORS_SPLIT;
  c.convolved = gradients ? VTB_FACTORS_SPLIT : c.carried;
  return c;
}

static bool is_convolution(const vtb_inst *einsum) {
  for (int o = 0; o < 2; o++) {
    const vtb_value *v = vtb_behind_moves(einsum->operands[o]);
    if (v->def && v->def->op == VTB_OP_im2col) return true;
  }
  return false;
}

static vtb_factors factors_of(const choice *c, const vtb_inst *i) {
  switch (i->op) {
  case VTB_OP_einsum:
    if (!vtb_is_product(i)) return VTB_FACTORS_FP32;
    if (vtb_ends_in_parameter(i)) return c->ending;
    return is_convolution(i) ? c->convolved : c->carried;
  case VTB_OP_linscan:
    return vtb_scan_is_product(i) ? c->carried : VTB_FACTORS_FP32;
  case VTB_OP_linscan_grad:
    if (vtb_scan_is_product(i)) return c->carried;
    return vtb_scan_of(i).decay->rates ? c->stepped : VTB_FACTORS_FP32;
  case VTB_OP_attention:
  case VTB_OP_attention_grad:
    return c->scored;
  default:
    return VTB_FACTORS_FP32;
  }
}

void vtb__change_precision(vtb_pass_context *c) {
  if (c->precision == VTB_PRECISION_FP32) return;
  choice by = choose(c->precision, c->module);
  for (vtb_func *f = c->module->first; f; f = f->next)
    for (vtb_inst *i = f->first; i; i = i->next) {
      vtb_factors factors = factors_of(&by, i);
      if (factors != VTB_FACTORS_FP32)
        vtb_attr_set(i, VTB_A_STR("precision", vtb_factors_names[factors]));
    }
}
