/* The adjoint of maxplus: r_t = dm_t + (what m_t passes on to later steps) goes to g_t and on to
 * m_{t-1} where m_{t-1} + g_t > i_t, else to i_t. */
#include "codegen/cpu/text/lanes.h"

hole int INIT; /* 1: there is an m_0, whose adjoint is the last result */
enum { G, I, FIRST };

LANES_TASK(maxplus_grad) {
  const int M = 2 + INIT, DM = M + 1, DG = M + 2, DI = M + 3, DFIRST = M + 4;
  EACH_VECTOR(l) {
    const vf first = INIT ? get(&l, FIRST, 0) : (vf)-INFINITY;
    vf later = 0;
    for (long step = TOKENS - 1; step >= 0; step--) {
      const long pos = place(step);
      const vf before = get(&l, M, place(step ? step - 1 : 0)), m = step ? before : first;
      const vf d = get(&l, DM, pos) + later;
      const vf kept = m + get(&l, G, pos), other = get(&l, I, pos);
      later = kept > other ? d : (vf)0;
      put(&l, DG, pos, later);
      put(&l, DI, pos, kept > other ? (vf)0 : d);
    }
    if (INIT) put(&l, DFIRST, 0, later);
  }
}
