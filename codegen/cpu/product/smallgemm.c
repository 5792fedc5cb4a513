/* See smallgemm.h. */
#include "codegen/cpu/product/smallgemm.h"

#include "codegen/cpu/text.h"

int64_t vtb__padded(const vtb_cpu *c, int64_t n) {
  return (n + c->width - 1) / c->width * c->width;
}

void vtb__smallgemm_columns(vtb_cpu *c, LLVMValueRef a, LLVMValueRef a_row, LLVMValueRef a_col,
                            LLVMValueRef b, LLVMValueRef ldb, LLVMValueRef beta, LLVMValueRef out,
                            LLVMValueRef ldc, LLVMValueRef m, int64_t n, LLVMValueRef k) {
  bool whole = n % c->width == 0;
  LLVMValueRef fn = vtb_cpu_text_shared(c, whole ? "vtb_product" : "vtb_product_columns");
  LLVMValueRef args[] = {
      a, a_row, a_col, b, ldb, beta, out, ldc, m, vtb_cpu_i64(c, whole ? n / c->width : n), k};
  LLVMBuildCall2(c->b, LLVMGlobalGetValueType(fn), fn, args, 11, "");
}
