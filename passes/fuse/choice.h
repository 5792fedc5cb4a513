/* Fusions that a module gets or not, decided place by place: each saves bytes and launches, and
 * makes another kernel longer. A place is taken if its kernel takes no longer than its members by
 * themselves, as the target answers (passes/cost/ask.h). A kernel that refuses all of them may take
 * some, and so may one that is clearly quicker without the others.
 *
 *   products         attn.proj.einsum          0.0204   0.0138  fused
 *   filter_adjoints  conv.d_x                  0.0310   0.0402  left out
 *   mixers           mlstm.y                   0.0523   0.0301  in part
 *     heads of 520 columns: linscan_tiles.cu requires VALUES <= 512
 *
 * A fusion that costs less than VTB_FUSION_MARGIN more stays: it moves fewer bytes, which is
 * certain, and the estimate of one kernel is not better than that.
 */
#ifndef VTB_CHOICE_H
#define VTB_CHOICE_H

#include "ir/ir.h"

#define VTB_FUSION_MARGIN 0.1

/* Fusions by name: passes, and rows of ir/kernels.def; bit i of a set is number i. */
int vtb_fusion_find(const char *name);   /* -1: none has it */
const char *vtb_fusion_name(int number); /* NULL: there are no more */

typedef enum vtb_verdict {
  VTB_FUSED,
  VTB_FUSED_IN_PART, /* without what the kernel refuses, or what costs more than it saves */
  VTB_LEFT_OUT       /* it would cost more than it saves, or no part is taken */
} vtb_verdict;

typedef struct vtb_decision {
  const char *fusion;
  char place[64];
  /* seconds: of the members by themselves, of the kernel and what is left; INFINITY: refused */
  double apart, fused;
  vtb_verdict verdict;
  char why[240]; /* in part: what the kernel refused of all of it, or its time; empty */
} vtb_decision;

typedef struct vtb_decisions {
  VTB_VEC(vtb_decision) at;
  unsigned declined; /* a set: fusions that are not wanted */
  bool all;          /* all others that kernels take, whatever they cost */
} vtb_decisions;
void vtb_decisions_free(vtb_decisions *d);

#endif
