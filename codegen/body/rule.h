/* How a rule (ir/update.h) is computed: the common ground of the targets' emitters of op update.
 *
 * A sum over a tensor must be known before what depends on it, so a rule has phases: phase p adds
 * up the sums of level p + 1, the last phase stores the results. Each computes again what it needs.
 * What has no axis is computed once a piece, in double; what has one, once an element, in float.
 * The unit of work, and of summation, is a piece.
 */
#ifndef VTB_CODEGEN_RULE_H
#define VTB_CODEGEN_RULE_H

#include "ir/update.h"

enum { VTB_PIECE = 1 << 14 /* elements */ };

typedef struct vtb_rule {
  const vtb_func *func;
  vtb_update u;
  int n_vectors; /* arguments with an axis: value, gradient, states */
  int n_phases;
  int n_sums;
  int *level;   /* by value id: phases that come before it is known */
  int *sum;     /* by value id: number of the sum, -1: it is none */
  bool *needed; /* by value id, of the phase begun last */
} vtb_rule;

void vtb_rule_open(const vtb_inst *update, vtb_rule *r);
void vtb_rule_close(vtb_rule *r);
/* Marks what phase `p` computes. Sums of its level and below count as known. */
void vtb_rule_begin(vtb_rule *r, int p);
/* True if phase p adds up this sum. */
bool vtb_rule_adds(const vtb_rule *r, const vtb_value *v, int p);
static inline bool vtb_rule_is_vector(const vtb_value *v) { return v->type.rank > 0; }

/* The tensors of an update or verdict, cut. */
typedef struct vtb_piece {
  int tensor;
  int64_t begin, count; /* elements */
} vtb_piece;
/* *out is malloc'd; first (room for n + 1): the number of each tensor's first piece, then of all.
 * */
int vtb_cut_pieces(vtb_value *const *tensors, int n, vtb_piece **out, int *first);

#endif
