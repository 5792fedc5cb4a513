/* The forms of a recurrence as launches (passes/cost/gpu.h), as codegen/cuda/scan makes them:
 *
 *   products   a block a tile of 64 tokens and up to 128 columns of the result: scores with the
 *              tiles of its chunk, and their product with the values
 *   states     of chunks: a block walks all tiles with 64 x 64 numbers of the state; what it leaves
 *              at the border of a chunk is written once and read once
 *
 * The adjoint makes four products (of dq, dk, dv and the decays), and states in both directions.
 */
#include "passes/cost/scan_gpu.h"

#include <math.h>

enum {
  TILE = 64,
  TURN_CLOCKS = 1500, /* of a tile of states: what the next one waits for */
  MMA_FLOPS = 4096,   /* of m16n8k16 */
  MMA_ISSUE = 4       /* instructions for each, as the texts have: fragments, copies and itself */
};

/* Numbers of two parts meet three times; fp32 is made of tf32. */
static void add_product(vtb_work *w, int64_t p, double flops) {
  bool tf32 = p == VTB_PRECISION_FP32 || p == VTB_PRECISION_TF32;
  bool whole = p == VTB_PRECISION_TF32 || p == VTB_PRECISION_BF16_ALL;
  w->tensor[tf32 ? VTB_TENSOR_WARP_TF32 : VTB_TENSOR_WARP_16] += whole ? flops : 3 * flops;
  w->issue += (whole ? 1 : 3) * (tf32 ? 2 : 1) * MMA_ISSUE * flops / MMA_FLOPS;
}

double vtb_gpu_scan_seconds(const vtb_gpu *g, const vtb_tuning_key *s, bool grad, int64_t chunk) {
  bool chunked = chunk > 0 && chunk < s->tokens;
  double tokens = (double)s->tokens, length = chunked ? (double)chunk : tokens;
  double n_chunks = ceil(tokens / length), tiles = ceil(length / TILE);
  double scans = (double)(s->batch * s->heads), k = (double)s->K, v = (double)s->V;
  double rows = n_chunks * tiles, pairs = rows * (tiles + 1) / 2;
  double element = s->precision == VTB_PRECISION_BF16_ALL ? 2 : 4;
  double sequences = scans * tokens * element * (k + v),
         states = scans * n_chunks * k * v * element;
  double products = grad ? 4 : 1, directions = grad ? 2 : 1;
  /* of one product: its three factors and its result, about; the states that enter */
  vtb_work product = {.blocks = scans * rows * ceil(v / 128),
                      .threads = 128,
                      .shared_bytes = 40 << 10,
                      .bytes = 2 * sequences + (chunked ? states : 0)};
  add_product(&product, s->precision, scans * pairs * 2 * TILE * TILE * (k + v));
  if (chunked) add_product(&product, s->precision, scans * rows * 2 * TILE * k * v);
  double seconds = products * vtb_gpu_time(g, &product).seconds;
  if (!chunked) return seconds;
  vtb_work walk = {.blocks = scans * ceil(k / TILE) * ceil(v / TILE),
                   .threads = 256,
                   .shared_bytes = 40 << 10,
                   .bytes = sequences + states,
                   .chain = TURN_CLOCKS * rows};
  add_product(&walk, s->precision, scans * rows * 2 * TILE * k * v);
  return seconds + directions * vtb_gpu_time(g, &walk).seconds;
}
