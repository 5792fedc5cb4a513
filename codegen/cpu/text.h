/* Kernels as texts: C of codegen/cpu/text, compiled to bitcode when the tree is built (once a width
 * of vectors), specialised and linked into the program where an emitter asks for one:
 *
 *   vtb_cpu_text *x = vtb_cpu_text_open(c, "prefix_sum", c->width);
 *   vtb_cpu_text_number(x, "TOKENS", n);
 *   vtb_cpu_text_order(x, "place", &order);
 *   vtb_cpu_text_run(x, inst);
 *
 * Bitcode is only IR: which instructions it becomes is decided by the machine of the program, as
 * for everything else. What a text may say: text/kernel.h. A hole that the text does not have, or
 * that nobody fills, is a bug that names text and hole.
 * Ownership: vtb_cpu_text_run frees the text. Between open and run nothing else may be emitted.
 */
#ifndef VTB_CODEGEN_CPU_TEXT_H
#define VTB_CODEGEN_CPU_TEXT_H

#include "codegen/cpu/loop/order.h"

typedef struct vtb_cpu_text vtb_cpu_text;

/* Whether the LLVM that was opened reads the texts. */
VTB_MUST_USE vtb_status vtb__texts_check(vtb_error *err);

/* width: 1, 4, 8 or 16. */
vtb_cpu_text *vtb_cpu_text_open(vtb_cpu *c, const char *name, int width);

/* `hole long` or `hole int`; `hole float` or `hole double`; an array of long, row by row, zeros
 * behind the n values. */
void vtb_cpu_text_number(vtb_cpu_text *x, const char *hole, int64_t v);
/* A hole that texts of a family may have or not. */
void vtb_cpu_text_offer(vtb_cpu_text *x, const char *hole, int64_t v);
void vtb_cpu_text_real(vtb_cpu_text *x, const char *hole, double v);
void vtb_cpu_text_numbers(vtb_cpu_text *x, const char *hole, const int64_t *v, int n);

/* Many numbers: vtb_cpu_text_fill(x, {"ROWS", rows}, {"COLUMNS", columns}). */
typedef struct vtb_cpu_hole {
  const char *name;
  int64_t v;
} vtb_cpu_hole;
void vtb__cpu_text_fill(vtb_cpu_text *x, const vtb_cpu_hole *v, size_t n);
#define vtb_cpu_text_fill(x, ...)                                                                  \
  vtb__cpu_text_fill(x, (const vtb_cpu_hole[]){__VA_ARGS__},                                       \
                     sizeof((const vtb_cpu_hole[]){__VA_ARGS__}) / sizeof(vtb_cpu_hole))

/* A function that the text declares and does not define: `build` emits its body at c->b and returns
 * what it gives (NULL: nothing). type: of the result. It becomes part of its callers. */
typedef LLVMValueRef vtb_cpu_text_fn(vtb_cpu *c, LLVMTypeRef type, LLVMValueRef *args,
                                     const void *user);
void vtb_cpu_text_function(vtb_cpu_text *x, const char *name, vtb_cpu_text_fn *build,
                           const void *user);
/* A function of a step that gives its storage position: `place` along the path. `order` must live
 * until run. */
void vtb_cpu_text_order(vtb_cpu_text *x, const char *name, const vtb__loop_order *order);

/* Memory of vtb_cpu_temp() as a tensor of the text: its number among `t`. */
int vtb_cpu_text_temp(vtb_cpu_text *x, int64_t temp);

/* Memory of vtb_cpu_temp() as a tensor of the text: its number among `t`. */
int vtb_cpu_text_temp(vtb_cpu_text *x, int64_t temp);

/* Links the text into the program and emits its tasks, in the order in which they stand; one of no
 * index is left out. */
void vtb_cpu_text_run(vtb_cpu_text *x, const vtb_inst *inst);

#endif
