/* Holes that texts of linear recurrences share: sizes and tensors, as ir/recurrence.h names them.
 * Filled by codegen/cpu/scan/scan_text.c. */
#include "codegen/cpu/text/kernel.h"

hole long BATCH, HEADS, TOKENS, K, V;
hole int INIT, LAST,
    DLAST; /* 1: there is an initial state; the last is wanted; it has an adjoint */
/* tensors */
hole int AT_Q, AT_K, AT_V, AT_D, AT_RATES, AT_S0, AT_Y, AT_S, AT_DY, AT_DS;
hole int AT_DQ, AT_DK, AT_DV, AT_DD, AT_DRATES, AT_DS0;

typedef struct scan {
  float *const *t;
  long batch, head;
} scan;

/* Index `bh` of batch and heads. */
static inline scan scan_at(float *const *t, long bh) {
  return (scan){t, quotient(bh, HEADS), remainder(bh, HEADS)};
}

/* Row of the token at storage position `pos`; row k of a state [batch, head, K, V]. */
static inline float *row(const scan *s, int tensor, long pos) {
  const long *stride = STRIDE[tensor];
  return s->t[tensor] + s->batch * stride[0] + pos * stride[1] + s->head * stride[2];
}
static inline float *state_row(const scan *s, int tensor, long k) {
  const long *stride = STRIDE[tensor];
  return s->t[tensor] + s->batch * stride[0] + s->head * stride[1] + k * stride[2];
}
