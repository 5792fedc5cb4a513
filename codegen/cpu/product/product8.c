/* Products of numbers of 8 bits: text/quantize.c, text/product8.c. */
#include "codegen/cpu/text.h"
#include "ir/int8.h"

#include <string.h>

void vtb__cpu_quantize(vtb_cpu *c, const vtb_inst *inst) {
  const vtb_type *w = &inst->operands[0]->type;
  vtb_cpu_text *x = vtb_cpu_text_open(c, "quantize", c->width);
  vtb_cpu_text_fill(x, {"ROWS", w->dim[0].size}, {"K", w->dim[1].size});
  vtb_cpu_text_run(x, inst);
}

/* ---- four numbers of a row, and of each of several columns ----------------------------------- */

static LLVMValueRef load(vtb_cpu *c, LLVMTypeRef type, LLVMValueRef at) {
  LLVMValueRef x = LLVMBuildLoad2(c->b, type, at, "");
  LLVMSetAlignment(x, 4);
  return x;
}

/* The row's without sign, by one instruction. */
static LLVMValueRef build_dot_of_bytes(vtb_cpu *c, LLVMTypeRef type, LLVMValueRef *args,
                                       const void *user) {
  (void)user;
  const char *name =
      c->width == 16 ? "llvm.x86.avx512.vpdpbusd.512" : "llvm.x86.avx512.vpdpbusd.256";
  LLVMValueRef row = vtb_cpu_splat(c, load(c, c->i32, args[1]), c->width);
  LLVMValueRef all[] = {args[0], row, load(c, type, args[2])};
  return vtb_cpu_machine_intrinsic(c, name, all, 3);
}

/* Lanes 0, 2, 4 ... of x from `from` on, `n` of them. */
static LLVMValueRef every_other(vtb_cpu *c, LLVMValueRef x, int from, int n) {
  LLVMValueRef lanes[16];
  for (int i = 0; i < n; i++)
    lanes[i] = LLVMConstInt(c->i32, (unsigned long long)(2 * i + from), 0);
  return LLVMBuildShuffleVector(c->b, x, LLVMGetPoison(LLVMTypeOf(x)),
                                LLVMConstVector(lanes, (unsigned)n), "");
}

/* Sums of two products each of 2 lanes words, as x86 has them for up to 8 lanes. */
static LLVMValueRef add_pairs(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y, int lanes) {
  const char *name = lanes == 8 ? "llvm.x86.avx2.pmadd.wd" : "llvm.x86.sse2.pmadd.wd";
  return vtb_cpu_machine_intrinsic(c, name, (LLVMValueRef[]){x, y}, 2);
}

/* The same on every machine. */
static LLVMValueRef add_pairs_anywhere(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y, int lanes) {
  LLVMTypeRef wide = LLVMVectorType(c->i32, (unsigned)lanes * 2);
  LLVMValueRef each =
      LLVMBuildNSWMul(c->b, LLVMBuildSExt(c->b, x, wide, ""), LLVMBuildSExt(c->b, y, wide, ""), "");
  return LLVMBuildAdd(c->b, every_other(c, each, 0, lanes), every_other(c, each, 1, lanes), "");
}

/* x, then y: 16 lanes. */
static LLVMValueRef joined(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef lanes[16];
  for (int i = 0; i < 16; i++) lanes[i] = LLVMConstInt(c->i32, (unsigned long long)i, 0);
  return LLVMBuildShuffleVector(c->b, x, y, LLVMConstVector(lanes, 16), "");
}

/* The row's in 16 bits; two lanes a column. */
static LLVMValueRef build_dot_of_words(vtb_cpu *c, LLVMTypeRef type, LLVMValueRef *args,
                                       const void *user) {
  (void)type, (void)user;
  const bool x86 = strncmp(LLVMGetTarget(c->module), "x86_64", 6) == 0;
  const int lanes = c->width < 8 ? c->width : 8;
  LLVMTypeRef words = LLVMVectorType(LLVMInt16TypeInContext(c->ctx), (unsigned)lanes * 2);
  LLVMTypeRef bytes = LLVMVectorType(c->i8, (unsigned)lanes * 2);
  LLVMValueRef row = vtb_cpu_splat(c, load(c, c->i64, args[1]), lanes / 2), sums[2];
  row = LLVMBuildBitCast(c->b, row, words, "");
  for (int i = 0; i < c->width / lanes; i++) {
    LLVMValueRef at = vtb_cpu_at(c, args[2], vtb_cpu_i64(c, 4 * i)); /* of 4 bytes */
    LLVMValueRef columns = LLVMBuildSExt(c->b, load(c, bytes, at), words, "");
    sums[i] = x86 ? add_pairs(c, row, columns, lanes) : add_pairs_anywhere(c, row, columns, lanes);
  }
  LLVMValueRef all = c->width > lanes ? joined(c, sums[0], sums[1]) : sums[0];
  return LLVMBuildAdd(c->b, args[0], all, "");
}

/* ---- products -------------------------------------------------------------------------------- */

/* A tile of registers: sixteen of the processor's, or 32, of which one or two hold what is read. */
typedef struct tile {
  int64_t rows, vectors;
} tile;

static int64_t rounded_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

/* Of those that fit the one that computes least beyond the last row and column. */
static tile choose_tile(const vtb_cpu *c, int64_t rows, int64_t columns) {
  static const tile of_32[] = {{6, 4}, {8, 3}, {12, 2}}, of_16[] = {{6, 2}, {3, 4}};
  static const tile of_32_words[] = {{6, 4}, {12, 2}};
  const tile *all = c->width < 16 ? of_16 : c->byte_dots ? of_32 : of_32_words;
  int n = c->width == 16 && c->byte_dots ? 3 : 2;
  int64_t across = c->byte_dots ? c->width : c->width / 2, least = INT64_MAX;
  tile best = all[0];
  for (int i = 0; i < n; i++) {
    int64_t work = rounded_up(rows, all[i].rows) * rounded_up(columns, all[i].vectors * across);
    if (work >= least) continue;
    least = work, best = all[i];
  }
  if (rows < best.rows) best.rows = rows;
  return best;
}

static void fill_addend(vtb_cpu *c, vtb_cpu_text *x, const vtb_inst *inst, int rank) {
  int64_t stride[VTB_MAX_RANK] = {0};
  bool adds = inst->n_operands == 5;
  const vtb_type *add = adds ? &inst->operands[4]->type : NULL;
  for (int a = 0; adds && a < add->rank; a++)
    stride[rank - add->rank + a] = add->dim[a].size == 1 ? 0 : vtb_cpu_strides(c, 4)[a];
  vtb_cpu_text_number(x, "ADDS", adds);
  vtb_cpu_text_numbers(x, "ADD_STRIDE", stride, rank);
}

void vtb__cpu_product8(vtb_cpu *c, const vtb_inst *inst) {
  const vtb_type *x = &inst->operands[0]->type, *y = &inst->results[0]->type;
  int64_t size[VTB_MAX_RANK], columns = y->dim[y->rank - 1].size,
                              rows = vtb_type_count(y) / columns;
  for (int a = 0; a < y->rank; a++) size[a] = y->dim[a].size;
  tile t = choose_tile(c, rows, columns);
  vtb_cpu_text *text = vtb_cpu_text_open(c, "product8", c->width);
  vtb_cpu_text_fill(text, {"ROWS", rows}, {"K", x->dim[x->rank - 1].size}, {"COLUMNS", columns},
                    {"RANK", y->rank}, {"ROWS_AT", t.rows}, {"VECTORS", t.vectors},
                    {"UNSIGNED", c->byte_dots});
  vtb_cpu_text_numbers(text, "SIZE", size, y->rank);
  fill_addend(c, text, inst, y->rank);
  vtb_cpu_text_function(text, "dot", c->byte_dots ? build_dot_of_bytes : build_dot_of_words, NULL);
  vtb_cpu_text_run(text, inst);
}
