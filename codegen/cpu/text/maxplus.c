/* m_t = max(m_{t-1} + g_t, i_t) in path order. */
#include "codegen/cpu/text/lanes.h"

hole int INIT; /* 1: there is an m_0 */
enum { G, I, FIRST };

LANES_TASK(maxplus) {
  EACH_VECTOR(l) {
    vf m = INIT ? get(&l, FIRST, 0) : (vf)-INFINITY;
    for (long step = 0; step < TOKENS; step++) {
      const long pos = place(step);
      const vf kept = m + get(&l, G, pos);
      m = max(kept, get(&l, I, pos));
      put(&l, 2 + INIT, pos, m);
    }
  }
}
