/* Sequences side by side: kernels that carry one number from token to token and do nothing across
 * sequences (maxplus, prefix_sum). Their texts include text/lanes.h. Axes after the tokens that lie
 * densely in all tensors count as one.
 */
#ifndef VTB_CODEGEN_CPU_LANES_H
#define VTB_CODEGEN_CPU_LANES_H

#include "codegen/cpu/text.h"

typedef struct vtb__lanes {
  vtb_cpu_text *text;
  vtb__loop_order order;
} vtb__lanes;

/* The text with the holes of text/lanes.h filled. Operand 0 has the sequences' full type; the
 * others too, or that without the axis of tokens. The result stays where it is until the text has
 * run. */
void vtb__lanes_open(vtb__lanes *l, vtb_cpu *c, const vtb_inst *inst, const char *text, int axis);

#endif
