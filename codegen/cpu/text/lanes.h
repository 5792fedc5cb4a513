/* Sequences side by side: texts that carry a number from token to token and do nothing across
 * sequences. Each lane is a sequence of its own. A task owns one index of the axes before and
 * behind the tokens and a piece of the last axis, which vectors run along; where the tokens are the
 * last axis there is one lane (W = 1). Filled by codegen/cpu/scan/lanes.c.
 */
#include "codegen/cpu/text/kernel.h"

hole long TOKENS, OUTER, INNER;  /* steps, indices of the outer axes, length of the last axis */
hole long AXES, SIZE[MOST_AXES]; /* outer axes, the innermost first */
hole long AT[MOST_TENSORS][MOST_AXES]; /* strides of the tensors along them */
hole long TOKEN[MOST_TENSORS];         /* and along the tokens, 0: has none */

#define PIECE (4 * W) /* of the last axis a task takes */
#define PIECES round_up(INNER, PIECE) / PIECE
#define LANES_TASK(name) TASK(name, OUTER *PIECES, 1, 0)
#define EACH_VECTOR(l) for (lanes l = first_lanes(t, index); l.j < l.end; l.j += W)

typedef struct lanes {
  float *const *t;
  long outer, j, end; /* of the last axis */
} lanes;

static inline lanes first_lanes(float *const *t, long index) {
  const long from = remainder(index, PIECES) * PIECE;
  return (lanes){t, quotient(index, PIECES), from, least(from + PIECE, INNER)};
}

static inline float *lanes_at(const lanes *l, int tensor, long pos) {
  long rest = l->outer, offset = l->j + pos * TOKEN[tensor];
  UNROLL for (long a = 0; a < AXES; a++) {
    offset += (a + 1 < AXES ? remainder(rest, SIZE[a]) : rest) * AT[tensor][a];
    rest = quotient(rest, SIZE[a]);
  }
  return l->t[tensor] + offset;
}

static inline vf get(const lanes *l, int tensor, long pos) {
  return load_part(lanes_at(l, tensor, pos), INNER - l->j);
}
static inline void put(const lanes *l, int tensor, long pos, vf x) {
  store_part(lanes_at(l, tensor, pos), x, INNER - l->j);
}
