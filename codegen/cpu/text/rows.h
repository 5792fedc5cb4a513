/* Tokens and states of a recurrence as rows of scratch memory. Its normalizer is the extra column.
 */
#include "codegen/cpu/text/cols.h"
#include "codegen/cpu/text/scan.h"

hole int AT_N0, AT_Z, AT_N, AT_DZ, AT_DN, AT_DN0; /* the normalizer's tensors */
hole int NORMALIZER;                              /* 1: there is one */

/* Tokens t0 ... t0 + n of a tensor in path order to rows `ld` apart, a factor each unless `by` is
 * NULL; extra: the tensor of the extra column, -1: ones. And back; extra -1: dropped. */
static inline void pack_tokens_times(const cols *c, const scan *s, float *out, long ld, int tensor,
                                     int extra, long t0, long n, const float *by) {
  for (long i = 0; i < n; i++) {
    const long pos = place(t0 + i);
    const float last = c->extra && extra >= 0 ? *row(s, extra, pos) : 1;
    pack_row_times(c, out + i * ld, row(s, tensor, pos), last, by ? (vf)by[i] : (vf)1);
  }
}
static inline void pack_tokens(const cols *c, const scan *s, float *out, long ld, int tensor,
                               int extra, long t0, long n) {
  pack_tokens_times(c, s, out, ld, tensor, extra, t0, n, 0);
}
static inline void unpack_tokens(const cols *c, const scan *s, int tensor, int extra,
                                 const float *rows, long ld, long t0, long n) {
  for (long i = 0; i < n; i++) {
    const long pos = place(t0 + i);
    unpack_row(c, row(s, tensor, pos), c->extra && extra >= 0 ? row(s, extra, pos) : 0,
               rows + i * ld);
  }
}

/* A state [batch, head, K, V] with the vector [batch, head, K] as extra column, to and from rows
 * of K. */
static inline void pack_state(const cols *c, const scan *s, float *out, int state, int vector,
                              long ld) {
  for (long k = 0; k < K; k++)
    pack_row(c, out + k * ld, state_row(s, state, k), c->extra ? *state_row(s, vector, k) : 0);
}
static inline void unpack_state(const cols *c, const scan *s, int state, int vector,
                                const float *rows, long ld) {
  for (long k = 0; k < K; k++)
    unpack_row(c, state_row(s, state, k), c->extra ? state_row(s, vector, k) : 0, rows + k * ld);
}
