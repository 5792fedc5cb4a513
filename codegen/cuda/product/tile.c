/* Tiles of a product and ranges of its depth: what takes least by the model of passes/gpu.h.
 *
 * Large tiles read shared memory less often for a product, small ones fill the machine; a long
 * depth in several ranges fills it too, and costs parts that are written and added. The numbers
 * below are those of text/product.cu, a block and 16 of the depth. */
#include <math.h>

#include "codegen/cuda/cost.h"
#include "codegen/cuda/product/product.h"

enum { STAGES = 3, WARPS = THREADS / 32, SHORTEST_RANGE = 256, MOST_SPLITS = 64 };

typedef struct tile {
  int bm, bn, warps_n;
  bool narrow; /* sums take so many registers that factors must come by ldmatrix */
} tile;

static const tile tiles[] = {{128, 128, 4, false}, {128, 64, 2, false}, {64, 64, 4, false},
                             {128, 16, 1, false},  {256, 128, 2, true}, {128, 256, 4, true},
                             {64, 128, 4, false},  {128, 32, 1, false}, {256, 64, 1, true}};
enum { N_TILES = sizeof tiles / sizeof *tiles };

static double up(double n, double by) { return ceil(n / by); }

static int bytes_of(const product *p, int which) {
  return vtb_dtype_bytes(vtb__product_type(p, which)->dtype);
}

/* Products of a warp for one of the factors as they are rounded, and which unit makes them. */
static double effort_of(vtb_factors f, vtb_tensor_unit *unit) {
  bool tf32 = f == VTB_FACTORS_FP32 || f == VTB_FACTORS_TF32;
  *unit = tf32 ? VTB_TENSOR_WARP_TF32 : VTB_TENSOR_WARP_16;
  return f == VTB_FACTORS_FP32 || f == VTB_FACTORS_SPLIT ? 3 : 1;
}

/* Seconds of the product with this tile and so many ranges, and of adding the ranges. */
static double seconds(const product *p, const tile *t, vtb_factors factors, double splits) {
  const vtb_gpu *gpu = vtb_cuda_gpu(p->c);
  double m = (double)p->of[M].size, n = (double)p->of[N].size, k = (double)p->of[K].size,
         batch = (double)p->of[BATCH].size;
  double mi = (double)t->bm / (WARPS / t->warps_n) / 16, ni = (double)t->bn / t->warps_n / 8;
  double blocks = batch * up(m, t->bm) * up(n, t->bn) * splits;
  double steps = up(up(k, splits), p->k_step) * p->k_step / 16, depth = steps * 16;
  double a = bytes_of(p, p->a), b = bytes_of(p, p->b), out = batch * m * n * 4;
  bool half = factors >= VTB_FACTORS_BF16 && factors != VTB_FACTORS_SPLIT && a == 2 && b == 2;
  vtb_tensor_unit unit;
  double effort = effort_of(factors, &unit);
  vtb_work w = {.blocks = blocks,
                .threads = THREADS,
                .registers = 4 * mi * ni + 8 * mi + 56,
                .shared_bytes = STAGES * (p->k_step + 8) * (t->bm * a + t->bn * b),
                .bytes = batch * (m * k * a + n * k * b) + out * (splits > 1 ? splits : 1)};
  w.tensor[unit] = effort * blocks * 2 * t->bm * t->bn * depth;
  w.wavefronts =
      blocks * steps *
      (WARPS * (mi * (half ? 4 : 16) + ni * (half ? 2 : 8)) + (t->bm * a + t->bn * b) / 8);
  w.issue = blocks * WARPS *
            (steps * (effort * mi * ni + (half ? 2 : 8) * (mi + ni / 2) + 12) + 16 * mi * ni + 200);
  /* copies are under way for two stages: more than the model takes a warp to have */
  double l2 = (w.bytes + blocks * depth * (t->bm * a + t->bn * b)) / gpu->l2_bytes;
  double time = fmax(vtb_gpu_time(gpu, &w).seconds, l2);
  if (splits > 1) {
    vtb_work add = {.blocks = up(out, 4 * 4 * THREADS),
                    .threads = THREADS,
                    .registers = 32,
                    .bytes = out * (splits + 1)};
    time += vtb_gpu_time(gpu, &add).seconds;
  }
  return time;
}

static void take(product *p, const tile *t, int64_t splits) {
  int64_t k = p->of[K].size, range = (k + splits - 1) / splits;
  p->bm = t->bm;
  p->bn = t->bn;
  p->warps_n = t->warps_n;
  p->k_range = (range + p->k_step - 1) / p->k_step * p->k_step;
  p->splits = (k + p->k_range - 1) / p->k_range;
}

void vtb__product_choose_tile(product *p, vtb_factors factors) {
  bool narrow = bytes_of(p, A) == 2 && bytes_of(p, B) == 2;
  int64_t wanted = vtb_attr_int(p->einsum, "tile", -1), most = p->of[K].size / SHORTEST_RANGE;
  double best = HUGE_VAL;
  for (int t = 0; t < N_TILES; t++) {
    if (wanted >= 0 ? t != wanted : tiles[t].narrow && !narrow) continue;
    for (int64_t splits = 1; splits == 1 || (splits <= most && splits <= MOST_SPLITS); splits++) {
      double time = seconds(p, &tiles[t], factors, (double)splits);
      if (time >= best) continue;
      best = time;
      take(p, &tiles[t], splits);
    }
  }
  vtb_check(best < HUGE_VAL, "no tile %d", (int)wanted);
}
