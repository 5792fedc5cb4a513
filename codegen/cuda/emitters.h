/* Emitters of kernels, one a word of the `cpu` column of ir/ops.def (except scalar, view,
 * by_lowering, call). */
#ifndef VTB_CODEGEN_CUDA_EMITTERS_H
#define VTB_CODEGEN_CUDA_EMITTERS_H

#include "codegen/cuda/cuda.h"

void vtb__cuda_fused(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_reduce(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_einsum(vtb_cuda *c, const vtb_inst *inst);
/* An einsum of small matrices, one a group, or with a short sum; false, with nothing emitted: of
 * another form. */
bool vtb__cuda_blocks(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_im2col(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_col2im(vtb_cuda *c, const vtb_inst *inst);
/* A `fused` of kind "local": its convolution and what is behind it, or rows of it without. */
/* A `fused` of kind "sums", by its first op. */
void vtb__cuda_sums(vtb_cuda *c, const vtb_inst *fused);
void vtb__cuda_dwconv_sums(vtb_cuda *c, const vtb_inst *fused);
void vtb__cuda_blocks_sums(vtb_cuda *c, const vtb_inst *fused);
void vtb__cuda_local(vtb_cuda *c, const vtb_inst *fused);
void vtb__cuda_local_convolution(vtb_cuda *c, const vtb_inst *fused);
void vtb__cuda_dwconv(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_dwconv_dx(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_dwconv_dw(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_linscan(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_linscan_grad(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_delta(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_scans(vtb_cuda *c, const vtb_inst *inst);      /* a `fused` of kind "scans" */
void vtb__cuda_scan_body(vtb_cuda *c, const vtb_inst *inst);  /* of kind "scan" */
void vtb__cuda_mixer(vtb_cuda *c, const vtb_inst *inst);      /* of kind "mixer" */
void vtb__cuda_mixer_grad(vtb_cuda *c, const vtb_inst *inst); /* of kind "mixer_grad" */
void vtb__cuda_maxplus(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_maxplus_grad(vtb_cuda *c, const vtb_inst *inst);
/* Holes of a maxplus in the body of `whole`: ${gate} and ${entry} return its operands where the
 * text has b, pos and h; ${weigh} sets `step` and, unless it is NULL, `gain` of t, m and what was
 * before. */
void vtb__cuda_fill_gates(vtb_cuda_kernel *k, const vtb_inst *whole, const vtb_inst *scan,
                          const vtb_value *step, const vtb_value *gain);
void vtb__cuda_prefix_sum(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_gather(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_scatter_sum(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_attention(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_turned_attention(vtb_cuda *c, const vtb_inst *inst); /* vtb_is_turned_attention() */
void vtb__cuda_attention_grad(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_fold(vtb_cuda *c, const vtb_inst *inst); /* in tiles */
void vtb__cuda_verdict(vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_update(vtb_cuda *c, const vtb_inst *inst);

#endif
