/* Costs of kernels' launches: for emitters that choose between tiles, and to say what a kernel
 * does. The model itself is passes/cost/gpu.h; docs/cuda_cost.md.
 *
 *   vtb_work w = {.blocks = tiles, .threads = 256, .shared_bytes = 49152, .bytes = read + written};
 *   w.tensor[VTB_TENSOR_WARP_16] = 2.0 * m * n * k;
 *   double seconds = vtb_gpu_time(vtb_cuda_gpu(c), &w).seconds;
 *
 * A kernel says what it does in one of three ways, the first that there is:
 *   - its text declares it, a block: `cost tensor = 2 * BM * BN * RANGE;` (compile/text.h)
 *   - its emitter does, a launch: vtb_cuda_spend(), before vtb_cuda_launch()
 *   - nobody: operations and elements of the instruction, at what loops usually take
 * Bytes, blocks, threads and shared memory are always those of the launch.
 */
#ifndef VTB_CODEGEN_CUDA_COST_H
#define VTB_CODEGEN_CUDA_COST_H

#include "codegen/cuda/cuda.h"
#include "passes/cost/gpu.h"

/* The machine that code is made for (vtb_codegen_options.gpu). */
const vtb_gpu *vtb_cuda_gpu(const vtb_cuda *c);

/* Adds to the work of a launch of the kernel: tensor, issue, special, wavefronts, after; the
 * longest chain, most registers and bytes under way. */
void vtb_cuda_spend(vtb_cuda_kernel *k, const vtb_work *w);

/* The time of a launch of text/<file> with these numbers, all that its costs and arrays depend on,
 * for an emitter that chooses between texts; vtb_cuda_takes() has said that it is taken. w: its
 * bytes, and how many times `blocks`, a number or constant of the text, blocks it has. */
double vtb_cuda_text_seconds(vtb_cuda *c, const char *file, const char *type,
                             const vtb_cuda_number *numbers, size_t n, const char *blocks,
                             vtb_work w);

#endif
