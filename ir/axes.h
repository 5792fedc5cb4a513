/* Where an axis goes through an op: what permutations of tokens, samples of a batch and rows of a
 * state ask of an instruction that treats the positions along an axis alike.
 *
 *   %y = einsum %x, %w {spec = "bnd,ed->bne"}      axis 0 of %x: 0      2 of %x: VTB_AXIS_GONE
 *   %z = slice %y {axis=1, start=0, limit=4}       axis 0 of %y: 0      1 of %y: VTB_AXIS_MIXED
 *
 * Of elementwise ops, of those that move elements, of sums, maxima and products; all others mix.
 */
#ifndef VTB_AXES_H
#define VTB_AXES_H

#include "ir/ir.h"

enum {
  VTB_AXIS_GONE = -1, /* summed over, or the largest along it is taken */
  VTB_AXIS_MIXED = -2 /* cut, moved, or merged with another */
};

/* The axis of the one result that an axis of an operand becomes, position by position, or one of
 * those. Of an axis of size 1 that is stretched it is the axis it is stretched along. */
int vtb_axis_after(const vtb_inst *inst, int operand, int axis);
/* The axis of another operand that moves together with it; -1: it has none of that size. */
int vtb_axis_beside(const vtb_inst *inst, int operand, int axis, int other);
/* The axis of a reshape to `to`; VTB_AXIS_MIXED: none. */
int vtb_axis_reshaped(const vtb_type *from, const vtb_type *to, int axis);

/* The op of `inst`, which reduces, transposes or is along an axis, on operands of which each has n
 * more axes before axis `at`; in the result they stand behind what was before them. */
vtb_value *vtb_b_with_axes(vtb_builder *b, const vtb_inst *inst, vtb_value *const *operands, int at,
                           int n);

/* True if a reduction, or whatever has the attribute, names the axis. */
bool vtb_has_axis(const vtb_inst *inst, const char *key, int axis);
/* The part of an axis that a slice shows. */
typedef struct vtb_slice {
  int axis;
  int64_t start, limit, step;
} vtb_slice;
vtb_slice vtb_slice_of(const vtb_inst *slice);
/* A reduction over the last axis alone; over how many axes it is, if they are the first, 0: others
 * or no reduction. */
bool vtb_reduces_last(const vtb_inst *inst);
int vtb_reduces_leading(const vtb_inst *inst);
/* The axis of the batch; -1 if there is none, or several. */
int vtb_batch_axis(const vtb_type *t);
/* Some value is of pairs of samples, or of several batches, or a row of it is another's. */
bool vtb_mixes_samples(const vtb_module *m);
/* Results of a sample depend on those beside it: pairs, rows of others, sums over them. */
bool vtb_samples_meet(const vtb_module *m);
/* Values have one axis of the batch at most, and an operand's becomes that of the result. */
bool vtb_keeps_samples(const vtb_inst *inst);

#endif
