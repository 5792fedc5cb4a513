/* im2col and col2im: patches [B, oh*ow, C*kh*kw] of an image [B, C, H, W], a series or a video,
 * zeros outside it, and the adjoint. Patches go through shared memory, since they lie along other
 * axes than the image; of an adjoint whose patches overlap a thread gathers what becomes of a
 * pixel, so that sums have an order, in shared memory where the patches of a block fit it. */
#include "codegen/cuda/emitters.h"
#include "codegen/cuda/plan/program.h"
#include "ir/convolution.h"

#define THREADS 256
#define MOST_TILE 81920 /* bytes of shared memory */
#define MOST_CHANNELS_TILE 65536
#define MOST_PATCHES_TILE 24576 /* so that a multiprocessor has all blocks that its threads allow */

/* Each pixel lies in one patch. */
static bool tiles_image(const vtb_patches *p) {
  for (int a = 0; a < VTB_GRID_AXES; a++)
    if (p->low[a] || p->kernel[a] != p->stride[a] || p->out[a] * p->stride[a] != p->size[a])
      return false;
  return true;
}

/* Holes that all the texts declare. */
static void fill(vtb_cuda_kernel *k, vtb_cuda *c, const vtb_patches *p, bool gather) {
  static const char *const places[VTB_GRID_AXES] = {"t", "y", "x"};
  const char *at[2 + VTB_GRID_AXES] = {"b", "ch"};
  for (int n = 0; n < p->rank; n++) at[2 + n] = places[VTB_GRID_AXES - p->rank + n];
  vtb_cuda_in(k, 0, "from");
  vtb_cuda_out(k, 1, "to");
  VTB_CUDA_NUMBERS(k, {"C", p->channels}, {"KT", p->kernel[0]}, {"KH", p->kernel[1]},
                   {"KW", p->kernel[2]}, {"ST", p->stride[0]}, {"SH", p->stride[1]},
                   {"SW", p->stride[2]}, {"OT", p->out[0]}, {"OH", p->out[1]}, {"OW", p->out[2]});
  vtb_cuda_fill(k, "image_at", "%s", vtb_cuda_offset(c, !gather, at));
  vtb_cuda_fill(k, "patch_at", "%s",
                vtb_cuda_offset(c, gather, (const char *const[]){"b", "patch", "element"}));
}

static void fill_edges(vtb_cuda_kernel *k, const vtb_patches *p) {
  VTB_CUDA_NUMBERS(k, {"T", p->size[0]}, {"H", p->size[1]}, {"W", p->size[2]}, {"FRONT", p->low[0]},
                   {"TOP", p->low[1]}, {"LEFT", p->low[2]});
}

static void launch_tiles(vtb_cuda_kernel *k, const vtb_patches *p) {
  int64_t rows = p->batch * vtb_axes_product(p->out);
  VTB_CUDA_NUMBERS(k, {"ROWS", rows});
  int64_t side = vtb_cuda_value(k, "SIDE");
  vtb_cuda_launch(k, (rows + side - 1) / side * vtb_cuda_value(k, "SLABS"));
}

static vtb_patches patches_of(const vtb_inst *inst, const vtb_type *image) {
  vtb_patches p;
  vtb_check(vtb_patches_of(inst, image, &p), "patches: attributes");
  return p;
}

/* ---- channels as neighbours ------------------------------------------------------------------ */

static bool has_channels_last(const vtb_cuda *c, int tensor) {
  const vtb_cuda_tensor *t = vtb_cuda_tensor_of(c, tensor);
  return t->type->dim[1].size > 1 && t->stride[1] == 1 && t->stride[t->type->rank - 1] != 1;
}

/* Threads have four channels of the image, and four elements of the patches. */
static bool are_fours(const vtb_cuda *c, int image, int patches) {
  const vtb_cuda_tensor *t = vtb_cuda_tensor_of(c, image);
  bool four = t->align >= 4 && t->type->dim[1].size % 4 == 0 && vtb_cuda_rows_of_four(c, patches);
  for (int a = 0; a < t->type->rank; a++)
    four &= a == 1 || t->type->dim[a].size == 1 || t->stride[a] % 4 == 0;
  return four;
}

/* Bytes of a patch's elements of some channels in shared memory (APART of the texts). */
static int64_t patch_bytes(const vtb_cuda *c, int64_t taps, int64_t channels) {
  int64_t apart = channels + (32 / taps + 3) / 4 * 4 + (taps > 32 ? 4 : 0);
  return taps * apart * (int64_t)vtb_dtype_bytes(vtb_cuda_tensor_of(c, 0)->type->dtype);
}

static void fill_channels(vtb_cuda_kernel *k, vtb_cuda *c, bool four) {
  vtb_cuda_fill(k, "value", four ? "vtb_f4" : "float");
  vtb_cuda_fill(k, "kept", "%s", vtb__cuda_type_name(vtb_cuda_tensor_of(c, 0)->type->dtype));
}

/* False: kernels so large that a patch's share of the channels does not fit shared memory. */
static bool im2col_of_channels(vtb_cuda *c, const vtb_patches *p) {
  int64_t most = 64, taps = vtb_axes_product(p->kernel);
  while (most > 16 && patch_bytes(c, taps, most) > MOST_PATCHES_TILE) most /= 2;
  int64_t channels = p->channels < most ? p->channels : most;
  int64_t side = MOST_PATCHES_TILE / patch_bytes(c, taps, channels);
  if (side < 1) return false;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "im2col", "im2col_channels.cu", THREADS);
  fill(k, c, p, true);
  fill_edges(k, p);
  fill_channels(k, c, are_fours(c, 0, 1));
  int64_t rows = p->batch * vtb_axes_product(p->out);
  if (side > 32) side = 32;
  VTB_CUDA_NUMBERS(k, {"CHANNELS", channels}, {"SIDE", side}, {"ROWS", rows});
  vtb_cuda_launch(k, (rows + side - 1) / side * vtb_cuda_value(k, "PARTS"));
  return true;
}

/* The first of the pieces whose patches fit shared memory: rows, columns, channels. */
static bool choose_channels(const vtb_cuda *c, const vtb_patches *p, int64_t piece[3]) {
  static const int pieces[][3] = {{8, 16, 32}, {8, 8, 32}, {8, 16, 16}, {8, 8, 16},
                                  {4, 8, 16},  {2, 4, 16}, {1, 1, 16}};
  if (p->kernel[0] != 1 || p->stride[0] != 1 || p->low[0] || p->size[0] != p->out[0]) return false;
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    const int64_t most[] = {p->size[1], p->size[2], p->channels};
    for (int a = 0; a < 3; a++) piece[a] = pieces[i][a] < most[a] ? pieces[i][a] : most[a];
    int64_t down = (piece[0] + p->kernel[1] - 2) / p->stride[1] + 1,
            across = (piece[1] + p->kernel[2] - 2) / p->stride[2] + 1;
    if (down * across * patch_bytes(c, p->kernel[1] * p->kernel[2], piece[2]) <= MOST_CHANNELS_TILE)
      return true;
  }
  return false;
}

static bool col2im_of_channels(vtb_cuda *c, const vtb_patches *p) {
  int64_t piece[3];
  if (!choose_channels(c, p, piece)) return false;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "col2im", "col2im_channels.cu", THREADS);
  fill(k, c, p, false);
  fill_edges(k, p);
  fill_channels(k, c, are_fours(c, 1, 0));
  VTB_CUDA_NUMBERS(k, {"ROWS", piece[0]}, {"COLUMNS", piece[1]}, {"CHANNELS", piece[2]});
  vtb_cuda_launch(k, p->batch * p->size[0] * vtb_cuda_value(k, "PARTS * DOWN * ACROSS"));
  return true;
}

/* ---- the ops --------------------------------------------------------------------------------- */

void vtb__cuda_im2col(vtb_cuda *c, const vtb_inst *inst) {
  vtb_patches p = patches_of(inst, &inst->operands[0]->type);
  if (has_channels_last(c, 0) && im2col_of_channels(c, &p)) return;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "im2col", "im2col.cu", THREADS);
  fill(k, c, &p, true);
  fill_edges(k, &p);
  launch_tiles(k, &p);
}

/* A block's piece of the image: rows of 8 pixels and more, so that stores fill sectors, whose
 * patches fit shared memory. False: they do not, or it is a video with kernels over time. */
static bool choose_piece(const vtb_patches *p, int64_t piece[3]) {
  int64_t taps = p->kernel[1] * p->kernel[2];
  if (p->kernel[0] != 1 || p->stride[0] != 1 || p->low[0] || p->size[0] != p->out[0]) return false;
  piece[1] = p->size[2] <= 32 ? p->size[2] : 16;
  piece[0] = 128 / piece[1] < p->size[1] ? 128 / piece[1] : p->size[1];
  piece[2] = taps > 72 ? 1 : 72 / taps;
  if (piece[2] > p->channels) piece[2] = p->channels;
  int64_t down = (piece[0] + p->kernel[1] - 2) / p->stride[1] + 1,
          across = (piece[1] + p->kernel[2] - 2) / p->stride[2] + 1;
  return down * across * (piece[2] * taps + 1) * 4 <= MOST_TILE;
}

/* Patches overlap. */
static void gather(vtb_cuda *c, const vtb_patches *p, int64_t elements) {
  int64_t piece[3];
  bool staged = choose_piece(p, piece);
  vtb_cuda_kernel *k =
      vtb_cuda_begin_text(c, "col2im", staged ? "col2im_overlap.cu" : "col2im.cu", THREADS);
  fill(k, c, p, false);
  fill_edges(k, p);
  if (staged)
    VTB_CUDA_NUMBERS(k, {"ROWS", piece[0]}, {"COLUMNS", piece[1]}, {"CHANNELS", piece[2]});
  else
    VTB_CUDA_NUMBERS(k, {"ELEMENTS", elements});
  vtb_cuda_launch(k, staged ? p->batch * p->size[0] * vtb_cuda_value(k, "PARTS * DOWN * ACROSS")
                            : (elements + THREADS - 1) / THREADS);
}

void vtb__cuda_col2im(vtb_cuda *c, const vtb_inst *inst) {
  vtb_patches p = patches_of(inst, &inst->results[0]->type);
  if (has_channels_last(c, 1) && col2im_of_channels(c, &p)) return;
  if (tiles_image(&p)) {
    vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "col2im", "col2im_tile.cu", THREADS);
    fill(k, c, &p, false);
    launch_tiles(k, &p);
    return;
  }
  gather(c, &p, vtb_type_count(&inst->results[0]->type));
}
