/* Tiles of a product and ranges of its depth: what takes least by the model of passes/cost/gpu.h.
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

static double bytes_of_result(const product *p, double splits) {
  return (double)p->of[BATCH].size * (double)p->of[M].size * (double)p->of[N].size *
         (splits > 1 ? 4 * splits : bytes_of(p, OUT));
}

/* Seconds of adding ranges of k, and statistics of parts of rows if tiles have no whole ones. */
static double seconds_of_parts(const product *p, double splits, bool whole_rows) {
  const vtb_gpu *gpu = vtb_cuda_gpu(p->c);
  const double rows = (double)p->of[BATCH].size * (double)p->of[M].size,
               out = rows * (double)p->of[N].size * 4;
  double time = 0;
  if (splits > 1)
    time += vtb_gpu_time(gpu, &(vtb_work){.blocks = up(out, 4 * 4 * THREADS),
                                          .threads = THREADS,
                                          .registers = 32,
                                          .bytes = out * (splits + 1)})
                .seconds;
  if (p->parts.of && !whole_rows)
    time += vtb_gpu_time(gpu, &(vtb_work){.blocks = up(rows * 8, THREADS),
                                          .threads = THREADS,
                                          .registers = 32,
                                          .bytes = out / VTB_ROW_PART * 2})
                .seconds;
  return time;
}

/* Seconds of the product with this tile and so many ranges, and of adding parts of it. */
static double seconds(const product *p, const tile *t, vtb_factors factors, double splits) {
  const vtb_gpu *gpu = vtb_cuda_gpu(p->c);
  double m = (double)p->of[M].size, n = (double)p->of[N].size, k = (double)p->of[K].size,
         batch = (double)p->of[BATCH].size;
  double mi = (double)t->bm / (WARPS / t->warps_n) / 16, ni = (double)t->bn / t->warps_n / 8;
  double blocks = batch * up(m, t->bm) * up(n, t->bn) * splits;
  double steps = up(up(k, splits), p->k_step) * p->k_step / 16, depth = steps * 16;
  double a = bytes_of(p, p->a), b = bytes_of(p, p->b);
  bool half = factors >= VTB_FACTORS_BF16 && factors != VTB_FACTORS_SPLIT && a == 2 && b == 2;
  vtb_tensor_unit unit;
  double effort = effort_of(factors, &unit);
  vtb_work w = {.blocks = blocks,
                .threads = THREADS,
                .registers = 4 * mi * ni + 8 * mi + 56,
                .shared_bytes = STAGES * (p->k_step + 8) * (t->bm * a + t->bn * b),
                .bytes = batch * (m * k * a + n * k * b) + bytes_of_result(p, splits)};
  w.tensor[unit] = effort * blocks * 2 * t->bm * t->bn * depth;
  w.wavefronts =
      blocks * steps *
      (WARPS * (mi * (half ? 4 : 16) + ni * (half ? 2 : 8)) + (t->bm * a + t->bn * b) / 8);
  w.issue = blocks * WARPS *
            (steps * (effort * mi * ni + (half ? 2 : 8) * (mi + ni / 2) + 12) + 16 * mi * ni + 200);
  /* copies are under way for two stages: more than the model takes a warp to have */
  double l2 = (w.bytes + blocks * depth * (t->bm * a + t->bn * b)) / gpu->l2_bytes;
  double time = fmax(vtb_gpu_time(gpu, &w).seconds, l2);
  return time + seconds_of_parts(p, splits, false);
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
    if (p->parts.of && tiles[t].bn / tiles[t].warps_n % VTB_ROW_PART) continue;
    for (int64_t splits = 1; splits == 1 || (splits <= most && splits <= MOST_SPLITS); splits++) {
      double time = seconds(p, &tiles[t], factors, (double)splits);
      if (time >= best) continue;
      best = time;
      take(p, &tiles[t], splits);
    }
  }
  p->seconds = best;
  vtb_check(best < HUGE_VAL, "no tile %d", (int)wanted);
}

/* ---- by wgmma (text/product_wgmma.cu) -------------------------------------------------------- */

/* More ranges are more bytes, and nearly as fast ones no better. */
static const double WORTH_PARTS = 0.03;

/* On sm_90a, of factors of 16 bits in memory that the copy engine can read. */
enum { STEP = 64, BOX = 64, SHORTEST_WIDE_RANGE = 512 };

static const struct wide_tile {
  int groups, bn;
} wide_tiles[] = {{2, 128}, {2, 256}, {1, 256}, {2, 64}, {1, 128}, {1, 64}, {2, 192}};
enum { N_WIDE_TILES = sizeof wide_tiles / sizeof *wide_tiles };

/* ---- what the copy engine can read ----------------------------------------------------------- */

/* Factor t with rows of `class`, `box` of which are copied at a time; false: no map has it. */
static bool map_of(const product *p, int t, letter_class class, int box, vtb_launch_map *map) {
  const letter *r = p->of[class].at, *k = p->of[K].at, *batch = p->of[BATCH].at;
  if (p->of[class].n != 1 || p->of[K].n != 1 || p->of[BATCH].n > 1) return false;
  bool along = k->stride[t] == 1;
  const letter *inner = along ? k : r, *outer = along ? r : k;
  int64_t between = p->of[BATCH].n ? batch->stride[t] : 0;
  *map = (vtb_launch_map){.rank = 3, .element_bytes = 2, .swizzle = 128};
  map->size[0] = inner->size;
  map->size[1] = outer->size;
  map->size[2] = between ? batch->size : 1;
  map->stride[1] = outer->stride[t] * 2;
  map->stride[2] = between ? between * 2 : 16;
  map->box[0] = BOX;
  map->box[1] = along ? box : BOX;
  map->box[2] = 1;
  return inner->stride[t] == 1 && outer->stride[t] > 0 && map->stride[1] % 16 == 0 &&
         map->stride[2] % 16 == 0 &&
         vtb_cuda_tensor_of(p->c, vtb__product_tensor(p, t))->align == 8;
}

/* The columns' factor in the order in which a lane's sums are neighbours, half of it at a time
 * (product_wgmma.cu): of one that lies along k, whose map has it. */
static bool spread_map(const product *p, vtb_launch_map *map) {
  if (map->size[2] > 1 || p->of[K].at->stride[p->b] != 1 || p->of[N].size % 16 ||
      (p->sum && p->sum_of == p->b))
    return false;
  const int64_t row = map->stride[1], n = p->of[N].size;
  *map = (vtb_launch_map){.rank = 4,
                          .element_bytes = 2,
                          .swizzle = 128,
                          .size = {map->size[0], 4, 4, n / 16},
                          .stride = {0, row, 4 * row, 16 * row},
                          .box = {BOX, 2, 4, p->bn / 16}};
  return true;
}

static bool fits(const product *p, vtb_factors factors) {
  vtb_launch_map map;
  vtb_dtype a = vtb__product_type(p, A)->dtype, b = vtb__product_type(p, B)->dtype;
  vtb_dtype wanted = factors == VTB_FACTORS_FP16 ? VTB_F16 : VTB_BF16;
  return vtb_cuda_is_hopper(p->c) && a == wanted && b == wanted && map_of(p, p->a, M, 128, &map) &&
         map_of(p, p->b, N, 128, &map);
}

/* ---- the tile -------------------------------------------------------------------------------- */

/* As the text has them. */
static double wide_stages(double bm, double bn) {
  return fmin(floor(196608 / ((bm + bn) * STEP * 2)), 6);
}

static double effort_of_four(const product *p, double bm, double bn) {
  const double m = (double)p->of[M].size, n = (double)p->of[N].size;
  const bool edges = fmod(m, bm) > 0 || fmod(n, bn) > 0;
  if (p->of[N].size % 4) return 20;
  return (p->of[K].at->stride[p->b] == 1 ? 4 : 8) + (edges ? 8 : 0) + (p->parts.of ? 12 : 0);
}

/* Two blocks of a cluster pace each other: who gains little by it goes alone. */
static const double WORTH_CLUSTERS = 0.02;

/* Which tile the two blocks of a cluster share, neighbours along the other side. */
typedef enum share { SHARE_NONE, SHARE_B, SHARE_A, N_SHARES } share;

static double wide_seconds(const product *p, const struct wide_tile *t, double splits,
                           share shared) {
  const vtb_gpu *gpu = vtb_cuda_gpu(p->c);
  const double along_m = shared == SHARE_B ? 2 : 1, along_n = shared == SHARE_A ? 2 : 1;
  double m = (double)p->of[M].size, n = (double)p->of[N].size, k = (double)p->of[K].size,
         batch = (double)p->of[BATCH].size, bm = t->groups * 64, bn = t->bn;
  double tiles_of = batch * up(m, bm * along_m) * along_m * up(n, bn * along_n) * along_n * splits,
         range = up(up(k, splits), STEP) * STEP;
  double blocks = fmin(tiles_of, gpu->processors);
  double turns = up(tiles_of, gpu->processors) * blocks; /* of all blocks: the last ones wait */
  vtb_work w = {.blocks = blocks,
                .threads = (t->groups + 1) * 128,
                .registers = 168,
                .shared_bytes = 200 << 10,
                .flight = (wide_stages(bm, bn) - 1) * (bm + bn) * STEP * 2,
                .bytes = batch * (m + n) * k * 2 + bytes_of_result(p, splits)};
  w.tensor[VTB_TENSOR_WIDE_16] = turns * 2 * bm * bn * range;
  w.after = turns * t->groups * bn * effort_of_four(p, bm, bn);
  w.issue = turns * (t->groups * 4 * range / STEP * 24 + 200) + w.after;
  w.wavefronts = turns * (range / STEP * (bm + bn + t->groups * (64 + bn)) + t->groups * 4 * bn);
  /* gpu->l2_bytes is what loads by threads reach. The copy engine asks for rows of 128 bytes stages
   * ahead: products of 8192 by wgmma without clusters, published at 610 Tflop/s on an H100 with
   * tiles of 128 x 256, read 7.1 TB/s. */
  double l2 = (w.bytes + turns * range * (bm / along_n + bn / along_m) * 2) / (1.3 * gpu->l2_bytes);
  double time = fmax(vtb_gpu_time(gpu, &w).seconds, l2) * (shared ? 1 + WORTH_CLUSTERS : 1);
  return time + seconds_of_parts(p, splits, splits <= 1 && n <= bn);
}

static bool has_neighbours(const product *p, const struct wide_tile *t, share shared) {
  return shared == SHARE_NONE ||
         (shared == SHARE_B ? p->of[M].size > t->groups * 64 : p->of[N].size > t->bn);
}

/* Chooses clusters for the tile and the ranges that are best for blocks alone: clusters read L2
 * less, and change nothing of what is read from and written to memory. */
static void choose_clusters(product *p, const struct wide_tile *t, double splits) {
  const bool wanted = vtb_cuda_wants_clusters(p->c);
  const int64_t sharing = vtb_attr_int(p->einsum, "share", -1);
  double best = sharing < 0 && !wanted ? wide_seconds(p, t, splits, SHARE_NONE) : HUGE_VAL;
  p->cluster = 1;
  p->share_a = false;
  for (int s = wanted ? SHARE_B : SHARE_NONE; s < N_SHARES; s++) {
    double time = wide_seconds(p, t, splits, (share)s);
    bool can = has_neighbours(p, t, (share)s) || (wanted && s == SHARE_B);
    if (time >= best || (sharing < 0 ? !can : s != sharing)) continue;
    best = time;
    p->cluster = s == SHARE_NONE ? 1 : 2;
    p->share_a = s == SHARE_A;
  }
}

bool vtb__product_choose_wide(product *p, vtb_factors factors) {
  int64_t k = p->of[K].size, most = k / SHORTEST_WIDE_RANGE,
          wanted =
              vtb_attr_int(p->einsum, "wide", -1); /* a row of the table, or N_WIDE_TILES: none */
  double best = wanted < 0 && !vtb_cuda_wants_wgmma(p->c) ? p->seconds : HUGE_VAL;
  const struct wide_tile *of = NULL;
  int64_t ranges = 1;
  if (!fits(p, factors)) return false;
  for (int t = 0; t < N_WIDE_TILES; t++)
    for (int64_t splits = 1; splits == 1 || (splits <= most && splits <= MOST_SPLITS); splits++) {
      double time = wide_seconds(p, &wide_tiles[t], (double)splits, SHARE_NONE);
      if (time >= (splits > 1 ? (1 - WORTH_PARTS) * best : best) || (wanted >= 0 && t != wanted))
        continue;
      best = time;
      of = &wide_tiles[t];
      ranges = splits;
    }
  if (!of) return false;
  int64_t range = (k + ranges - 1) / ranges;
  p->groups = of->groups;
  p->bn = of->bn;
  p->k_range = (range + STEP - 1) / STEP * STEP;
  p->splits = (k + p->k_range - 1) / p->k_range;
  choose_clusters(p, of, (double)p->splits);
  return true;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void fill_factor(product *p, vtb_cuda_kernel *k, int t, letter_class class, char name) {
  vtb_launch_map map;
  char hole[] = {(char)(name - 'a' + 'A'), '_', 'A', 'L', 'O', 'N', 'G', 0};
  char own[] = {hole[0], '_', 'B', 'A', 'T', 'C', 'H', 0};
  bool sound = map_of(p, t, class, class == M ? p->groups * 64 : p->bn, &map);
  vtb_check(sound, "a product's factor has no map");
  bool batched = map.size[2] > 1;
  bool shared = p->cluster > 1 && p->share_a == (class == M);
  bool spread = class == N && vtb_cuda_value(k, "EACH") == 4 && spread_map(p, &map);
  if (class == N) VTB_CUDA_NUMBERS(k, {"SPREAD", spread});
  if (shared && !spread) map.box[1] /= 2; /* each block brings half of the tile */
  vtb_cuda_map(k, vtb__product_tensor(p, t), &map, (char[]){name, 0});
  VTB_CUDA_NUMBERS(k, {hole, p->of[K].at->stride[t] == 1}, {own, batched});
}

void vtb__product_write_wide(product *p, vtb_factors factors, int temp) {
  vtb_cuda_kernel *k =
      vtb_cuda_begin_text(p->c, "product", "product_wgmma.cu", (p->groups + 1) * 128);
  bool half = factors == VTB_FACTORS_FP16;
  int64_t rows = p->groups * 64 * (p->share_a ? 1 : p->cluster),
          columns = p->bn * (p->share_a ? p->cluster : 1);
  int64_t tiles_of = p->of[BATCH].size * p->splits * ((p->of[M].size + rows - 1) / rows) *
                     ((p->of[N].size + columns - 1) / columns);
  int64_t most = (int64_t)vtb_cuda_gpu(p->c)->processors / p->cluster,
          grid = (tiles_of < most ? tiles_of : most) * p->cluster;
  VTB_CUDA_NUMBERS(k, {"M", p->of[M].size}, {"N", p->of[N].size}, {"K", p->of[K].size},
                   {"BATCHES", p->of[BATCH].size}, {"GROUPS", p->groups}, {"BN", p->bn},
                   {"RANGE", p->k_range}, {"SPLITS", p->splits}, {"GRID", grid}, {"HALF", half},
                   {"CLUSTER", p->cluster}, {"SHARE_A", p->share_a});
  if (p->cluster > 1) vtb_cuda_cluster(k, p->cluster);
  vtb_cuda_fill(k, "T", "%s", half ? "vtb_f16" : "vtb_bf16");
  fill_factor(p, k, p->a, M, 'a');
  VTB_CUDA_NUMBERS(k, {"WHOLE", p->parts.of && p->whole_rows});
  vtb__product_accumulate(p, k, temp); /* whether four results are stored at a time */
  fill_factor(p, k, p->b, N, 'b');
  vtb__product_sum(p, k);
  vtb_cuda_launch(k, grid);
}
