/* Shared by the interpreter's files. Not for other folders. */
#ifndef VTB_IR_INTERP_INTERNAL_H
#define VTB_IR_INTERP_INTERNAL_H

#include "ir/internal.h"
#include "ir/interp.h"

/* Results of stop_gradient at the point where a tangent is taken, in the order of execution: they
 * are constant for the differences around that point. */
typedef struct vtb__held {
  VTB_VEC(double *) values;
  size_t next; /* at the point: all there are */
  bool at_point;
  struct vtb__held *up; /* of a tangent that this one is inside of */
} vtb__held;
void vtb__hold(vtb__held *h, vtb_tensor *t);

/* One run of vtb_interpret(). */
typedef struct vtb__machine {
  int64_t batch;
  const vtb_interp_options *options;
  bool silent;      /* the watcher is not called: values are computed a second time */
  int depth;        /* of calls */
  double log_scale; /* m of the step being evaluated, for state_scale */
  vtb__held *held;  /* NULL outside of tangents */
  vtb_error *err;
} vtb__machine;

/* The values of one function under evaluation. */
typedef struct vtb__interp_frame {
  const vtb_func *func;
  vtb_tensor *t;  /* by value id; data NULL until computed */
  bool *borrowed; /* by value id: data belongs to the caller */
  int *uses;      /* remaining uses by value id, values are freed at zero; NULL: all are kept */
} vtb__interp_frame;

void vtb__frame_init(vtb__interp_frame *f, const vtb_func *func, bool keep_all);
void vtb__frame_free(vtb__interp_frame *f);
/* Evaluates the instructions; the arguments' tensors are in place. May be called again on a frame
 * that keeps all. */
vtb_status vtb__frame_run(vtb__machine *m, vtb__interp_frame *f);
vtb_type vtb__resolve(const vtb__machine *m, const vtb_type *t); /* VTB_DYN replaced by the batch */

/* One instruction under evaluation. Results are allocated; what they hold before is unspecified. */
typedef struct vtb__interp_eval {
  vtb__machine *machine;
  vtb__interp_frame *frame;
  const vtb_inst *inst;
  vtb_tensor **in, **out;
} vtb__interp_eval;
typedef vtb_status (*vtb__interp_fn)(vtb__interp_eval *e);
/* The callee of e's instruction for these arguments; out[i] takes its return i. */
vtb_status vtb__interp_callee(vtb__interp_eval *e, vtb_tensor *const *in, vtb_tensor *const *out);

/* ---- strided loops --------------------------------------------------------------------------- */

#define VTB__MAX_STREAMS 4
/* A loop nest over up to four arrays walked together; axes that all of them walk as one are
 * merged. */
typedef struct vtb__loops {
  int rank, n_streams;
  int64_t size[VTB_MAX_RANK +
               1]; /* one more than a tensor has: a caller may append an axis of size 1 */
  int64_t stride[VTB__MAX_STREAMS][VTB_MAX_RANK + 1];
} vtb__loops;

void vtb__strides(const vtb_type *t, int64_t *strides); /* row-major */
/* 0 where stretched */
void vtb__broadcast_strides(const vtb_type *t, const vtb_type *to, int64_t *strides);
void vtb__loops_merge(vtb__loops *l); /* leaves rank >= 1 */
/* Steps the outer axes; `offset` of each stream is kept. False after the last. `index` starts as
 * zeros. */
bool vtb__loops_next(const vtb__loops *l, int64_t *index, int64_t *offset);
void vtb__copy_strided(int rank, const int64_t *size, double *dst, const int64_t *dst_stride,
                       const double *src, const int64_t *src_stride);

/* y += x, x broadcast numpy's way. */
void vtb__add_broadcast(vtb_tensor *y, const vtb_tensor *x);

/* The permutation of the attribute `path`, or of storage order; malloc'd. */
int64_t *vtb__path_perm(const vtb_inst *inst, int64_t n);

vtb_status vtb__interp_constant(vtb__interp_eval *e);
vtb_status vtb__interp_iota(vtb__interp_eval *e);
vtb_status vtb__interp_random(vtb__interp_eval *e);
vtb_status vtb__interp_scalar(vtb__interp_eval *e);
vtb_status vtb__interp_cast(vtb__interp_eval *e);
vtb_status vtb__interp_reduce(vtb__interp_eval *e);
vtb_status vtb__interp_reshape(vtb__interp_eval *e);
vtb_status vtb__interp_broadcast(vtb__interp_eval *e);
vtb_status vtb__interp_transpose(vtb__interp_eval *e);
vtb_status vtb__interp_slice(vtb__interp_eval *e);
vtb_status vtb__interp_pad(vtb__interp_eval *e);
vtb_status vtb__interp_concat(vtb__interp_eval *e);
vtb_status vtb__interp_permute(vtb__interp_eval *e);
vtb_status vtb__interp_shift(vtb__interp_eval *e);
vtb_status vtb__interp_prefix_sum(vtb__interp_eval *e);
vtb_status vtb__interp_gather(vtb__interp_eval *e);
vtb_status vtb__interp_scatter_sum(vtb__interp_eval *e);
vtb_status vtb__interp_einsum(vtb__interp_eval *e);
vtb_status vtb__interp_quantize(vtb__interp_eval *e);
vtb_status vtb__interp_product8(vtb__interp_eval *e);
vtb_status vtb__interp_im2col(vtb__interp_eval *e);
vtb_status vtb__interp_col2im(vtb__interp_eval *e);
vtb_status vtb__interp_dwconv(vtb__interp_eval *e);
vtb_status vtb__interp_dwconv_dx(vtb__interp_eval *e);
vtb_status vtb__interp_dwconv_dw(vtb__interp_eval *e);
vtb_status vtb__interp_recurrence(vtb__interp_eval *e);
vtb_status vtb__interp_state_scale(vtb__interp_eval *e);
vtb_status vtb__interp_linscan(vtb__interp_eval *e);
vtb_status vtb__interp_linscan_grad(vtb__interp_eval *e);
vtb_status vtb__interp_delta(vtb__interp_eval *e);
vtb_status vtb__interp_maxplus(vtb__interp_eval *e);
vtb_status vtb__interp_maxplus_grad(vtb__interp_eval *e);
vtb_status vtb__interp_attention(vtb__interp_eval *e);
vtb_status vtb__interp_attention_grad(vtb__interp_eval *e);
vtb_status vtb__interp_call(vtb__interp_eval *e);
vtb_status vtb__interp_tangent(vtb__interp_eval *e);
vtb_status vtb__interp_fold(vtb__interp_eval *e);
vtb_status vtb__interp_verdict(vtb__interp_eval *e);
vtb_status vtb__interp_update(vtb__interp_eval *e);
vtb_status vtb__interp_sum_ranks(vtb__interp_eval *e);
vtb_status vtb__interp_tap(vtb__interp_eval *e);

#endif
