/* quantize: products of rows with matrices made of parameters alone are of numbers of 8 bits.
 *
 *   %y = einsum %x, %w, %b {spec = "bnc,ec->bne"}
 *   =>
 *   %q, %s, %t = quantize %w
 *   %y = product8 %x, %q, %s, %t, %b {columns = 768}
 *
 * ir/int8.h has the numbers. Where it is asked for (`int8` of the context), for targets that know
 * it and programs without gradients. Behind what gives products their addends, before they are
 * fused; hoist and prepare then bring a matrix to 8 bits once, when a session opens.
 *
 * Declines what gains nothing, matrices of fewer than LEAST columns or terms, and products of other
 * forms; how many of which is told (vtb_quantized).
 */
#include "passes/passes_internal.h"

#include "ir/int8.h"
#include "ir/product.h"

/* Thinner ones are bound by what they read, and are gates, of which recurrences are made. */
enum { LEAST = 32 };

/* "bnc,ec->bne" */
static bool is_of_rows(const vtb_product *p) {
  return vtb_product_keeps_rows(p) && !p->count[VTB_LETTER_BATCH] && !p->count[VTB_LETTER_ALONE] &&
         p->count[VTB_LETTER_SUM] == 1 && p->count[VTB_LETTER_COLUMNS] == 1 && p->rank[1] == 2;
}

static vtb_quantized_verdict verdict_of(const vtb_inst *einsum) {
  vtb_product p = vtb_product_of(einsum);
  vtb_blocks blocks;
  if (vtb_blocks_of(einsum, &blocks)) return VTB_LEFT_BLOCKS;
  if (!is_of_rows(&p)) return VTB_LEFT_FORM;
  int64_t k = vtb_product_size(&p, VTB_LETTER_SUM, 1),
          columns = vtb_product_size(&p, VTB_LETTER_COLUMNS, 1);
  return k < LEAST || columns < LEAST || k > VTB_INT8_MOST_K ? VTB_LEFT_NARROW : VTB_QUANTIZED;
}

/* The matrix as quantize takes it, [columns, K]. */
static vtb_value *matrix_of(vtb_builder *b, const vtb_inst *einsum) {
  vtb_product p = vtb_product_of(einsum);
  bool turned = vtb_product_at(&p, 1, 0)->role == VTB_LETTER_SUM;
  return turned ? vtb_b_transpose(b, einsum->operands[1], (int64_t[]){1, 0}) : einsum->operands[1];
}

static void rewrite(vtb_inst *einsum) {
  vtb_builder b = vtb__before(einsum);
  const vtb_type *y = &einsum->results[0]->type;
  vtb_value *w = matrix_of(&b, einsum);
  const vtb_inst *q = vtb_build(&b, VTB_OP_quantize, &w, 1, NULL, 0);
  vtb_value *operands[] = {einsum->operands[0], q->results[0], q->results[1], q->results[2],
                           einsum->n_operands == 3 ? einsum->operands[2] : NULL};
  vtb_attr columns = VTB_A_INT("columns", y->dim[y->rank - 1].size);
  vtb__become(einsum, vtb_b_op(&b, VTB_OP_product8, operands, 2 + einsum->n_operands, &columns, 1));
}

/* How often a run calls the function. */
static int64_t runs_of(const vtb_func *f) {
  int64_t n = f == f->module->entry;
  for (vtb_inst **c = vtb__calls_of(f); *c; c++) n += (*c)->func == f ? 0 : runs_of((*c)->func);
  return n;
}

static void quantize_func(vtb_func *f, vtb_quantized *told) {
  const bool *ready = vtb__made_of_parameters(f);
  int64_t runs = runs_of(f);
  VTB__EACH_INST(f, i, next) {
    if (i->op != VTB_OP_einsum || !ready[i->operands[1]->id] || ready[i->operands[0]->id]) continue;
    vtb_quantized_verdict verdict = verdict_of(i);
    told->n[verdict] += runs;
    told->work[verdict] += (double)runs * vtb_inst_cost(i, 1).flops;
    if (verdict == VTB_QUANTIZED) rewrite(i);
  }
}

void vtb__change_quantize(vtb_pass_context *c) {
  vtb_quantized none = {0};
  if (!c->int8) return;
  vtb__find_made_of_parameters(c->module);
  for (vtb_func *f = c->module->first; f; f = f->next)
    if (f->kind == VTB_FUNC_PLAIN) quantize_func(f, c->quantized ? c->quantized : &none);
}

static const char *const reasons[VTB_N_QUANTIZED] = {
    [VTB_LEFT_NARROW] = "of fewer than 32 columns or terms",
    [VTB_LEFT_BLOCKS] = "of small matrices a group",
    [VTB_LEFT_FORM] = "of no rows with a matrix"};

void vtb_quantized_print(const vtb_quantized *q, vtb_strbuf *out) {
  int64_t all = 0;
  double work = 0;
  for (int i = 0; i < VTB_N_QUANTIZED; i++) all += q->n[i], work += q->work[i];
  vtb_strbuf_printf(out, "int8: %lld of %lld products with parameters, %.1f %% of their work",
                    (long long)q->n[VTB_QUANTIZED], (long long)all,
                    work > 0 ? 100 * q->work[VTB_QUANTIZED] / work : 0);
  const char *before = "; left in float32: ";
  for (int i = 0; i < VTB_N_QUANTIZED; i++) {
    if (!q->n[i] || i == VTB_QUANTIZED) continue;
    vtb_strbuf_printf(out, "%s%lld %s", before, (long long)q->n[i], reasons[i]);
    before = ", ";
  }
}
