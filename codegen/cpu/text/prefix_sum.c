/* y_t = x_1 + ... + x_t in double. A wrapped sum is wrapped at each step, so that what is carried
 * stays small. */
#include "codegen/cpu/text/lanes.h"

hole int REVERSE, EXCLUSIVE;
hole double WRAP; /* 0: none */
enum { X, Y };

/* s less the nearest multiple of WRAP. */
static inline vd wrapped(vd s) { return s - __builtin_elementwise_rint(s * (1 / WRAP)) * WRAP; }

LANES_TASK(prefix_sum) {
  EACH_VECTOR(l) {
    vd sum = 0;
    for (long step = 0; step < TOKENS; step++) {
      const long pos = place(REVERSE ? TOKENS - 1 - step : step);
      const vd before = sum;
      sum += WIDENED(get(&l, X, pos));
      if (WRAP > 0) sum = wrapped(sum);
      put(&l, Y, pos, NARROWED(EXCLUSIVE ? before : sum));
    }
  }
}
