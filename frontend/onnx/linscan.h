/* The parts that forms of a linear recurrence share: linscan.c, steps.c. */
#ifndef VTB_ONNX_LINSCAN_H
#define VTB_ONNX_LINSCAN_H

#include "frontend/onnx/internal.h"
#include "ir/recurrence.h"

typedef struct ox_form {
  ox *x;
  const vtb_inst *inst;
  ox_value *const *in;
  vtb_scan s;
  int64_t L, C, V1; /* tokens a chunk, chunks; columns of values with the normalizer's */
} ox_form;

/* chunk: tokens. */
ox_form vtb__ox_form_of(ox *x, const vtb_inst *inst, ox_value *const *in, int64_t chunk);
ox_value *vtb__ox_form_values(const ox_form *f); /* [B, N, h, V1], storage order */
ox_value *vtb__ox_form_start(const ox_form *f);  /* the state before the first token; NULL: 0 */
typedef ox_value *ox_carry_fn(const ox_form *f, ox_value *p, ox_value *u);
void vtb__ox_form_last(const ox_form *f, ox_value *last, ox_value **out);
void vtb__ox_form_outputs(const ox_form *f, ox_value *y, ox_value **out);

#endif
