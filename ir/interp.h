/* The double-precision interpreter: the oracle every target is compared with. No contraction, no
 * fast math.
 *
 * Tensors are row-major arrays of double (i32 values are exact in it), owned by the caller. One
 * evaluation runs on the calling thread. Every mode of linscan is executed as that mode, so that
 * modes can be compared.
 */
#ifndef VTB_INTERP_H
#define VTB_INTERP_H

#include "ir/ir.h"

typedef struct vtb_tensor {
  vtb_type type; /* no VTB_DYN */
  double *data;
} vtb_tensor;

vtb_tensor vtb_tensor_new(vtb_type type); /* zeroed, malloc'd */
void vtb_tensor_free(vtb_tensor *t);

/* Called for every result computed, callees included, in order; returning false stops with
 * VTB_E_NUMBERS. */
typedef bool (*vtb_interp_watch)(void *user, const vtb_value *value, const vtb_tensor *t);

typedef struct vtb_interp_options {
  int64_t batch; /* value of VTB_DYN; 0: taken from the first dynamic argument */
  vtb_interp_watch watch;
  /* op sum_ranks: in place, over all ranks, of which this is one; NULL: it is alone */
  void (*sum)(void *user, double *at, int64_t n);
  int bits; /* of significand that every f32 result is rounded to, 24 of a float; 0: all */
  void *user;
} vtb_interp_options;

/* args: f->n_args tensors in order. results: f->n_returns tensors, allocated here, freed by the
 * caller. */
VTB_MUST_USE vtb_status vtb_interpret(vtb_func *f, const vtb_tensor *args, vtb_tensor *results,
                                      const vtb_interp_options *options, vtb_error *err);

/* The hash of op `random`, shared with code generation: uniform in [0,1) with 24 bits. */
float vtb_random_uniform(uint32_t seed, uint32_t stream, uint32_t index);

#endif
