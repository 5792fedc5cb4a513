/* Shared by the chunk forms of delta. Shapes and meaning: ir/recurrence.h.
 *
 * With R corrections a token, rows i = (t, r) and j = (s, r') of a chunk and P[t,s] the product of
 * the decays of the tokens between s and t, neither with it, p_t that of the chunk's tokens before
 * t, the corrections of a chunk are the solution of
 *   (I - A) W = V + (b o p) S      A[i,j] = b_i . (P[t,s] o k_j) for s < t, else 0
 * Rows of one token read the same state and not each other. A row lies in scratch memory at
 * t * STEP + r; the rows from R on are zero.
 */
#include "codegen/cpu/text/chunks.h"

hole long RANK, STEP; /* R; from token to token: R, or more where a form wants whole groups */
hole int AT_B, AT_W;

/* Rows of n tokens from t0 on, those beyond a token's RANK zeros; and back. */
static inline void pack_rows(const cols *c, const scan *s, float *out, long ld, int tensor, long t0,
                             long n) {
  for (long i = 0; i < n; i++) {
    const float *from = row(s, tensor, place(t0 + i));
    float *rows = out + i * STEP * ld;
    for (long r = 0; r < RANK; r++) pack_row(c, rows + r * ld, from + r * STRIDE[tensor][3], 0);
    if (STEP > RANK) fill(rows + RANK * ld, 0, (STEP - RANK) * ld);
  }
}
static inline void unpack_rows(const cols *c, const scan *s, int tensor, const float *rows, long t0,
                               long n) {
  for (long i = 0; i < n; i++) {
    float *to = row(s, tensor, place(t0 + i));
    for (long r = 0; r < RANK; r++)
      unpack_row(c, to + r * STRIDE[tensor][3], 0, rows + (i * STEP + r) * LD_V);
  }
}
