/* Questions about kernels that are not there yet, what they take and what they refuse: fusions are
 * decided by it.
 *
 *   vtb_answer whole = vtb_ask(c->asker, fused), a = vtb_ask(c->asker, scan), ...
 *   if (whole.takes && whole.seconds < a.seconds + b.seconds) ...
 *
 * The instruction is one of a bound module: a `fused` with its kernel function, or a bare op. It
 * need not be linked into a function, nor its callee be in a module that is whole; only the types
 * of its operands and results count, not who makes or reads them. Tensors are taken to lie in
 * memory row-major, as their types say; with `narrow`, those of them that the pass `storage` would
 * make 16 bits wide if it knew no more (passes/memory/storage.c) are.
 *
 * The answer is what the target's emitter would make of the instruction as a program of its own on
 * the context's machine: by codegen/estimate.c, with nothing in L2 but what its own launches leave
 * there. Equal questions are answered from memory. An asker is of one machine, one precision and
 * one thread; texts of answers are its own and live as long.
 */
#ifndef VTB_ASK_H
#define VTB_ASK_H

#include "ir/ir.h"

typedef struct vtb_answer {
  bool takes;
  double seconds; /* of all launches */
  double bytes;   /* that they touch, of memory and L2 */
  int launches;
  const char *why; /* of a refusal: "heads of 520 columns: linscan_tiles.cu requires ..."; NULL */
} vtb_answer;

typedef struct vtb_asker vtb_asker;
struct vtb_asker {
  vtb_answer (*ask)(vtb_asker *a, const vtb_inst *const *insts, int n);
  void (*free)(vtb_asker *a);
  bool narrow;         /* see above; may be changed between questions */
  int64_t asked, made; /* questions, and those that were not answered from memory */
};

/* No asker, of a target that has none, takes everything, in no time. */
vtb_answer vtb_ask(vtb_asker *a, const vtb_inst *inst);
/* Several are one program that runs them in this order: what one leaves in L2 is there for the
 * next. One that refuses refuses all. */
vtb_answer vtb_ask_all(vtb_asker *a, const vtb_inst *const *insts, int n);
void vtb_asker_free(vtb_asker *a); /* NULL is fine */

#endif
