/* Tables of positions at another grid. */
#include "runtime/weights/fit_internal.h"

#include <math.h>

/* Cubic convolution with a = -0.75, as PyTorch's bicubic interpolation without antialiasing. */
static double cubic(double x) {
  const double a = -0.75;
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return a * (((x - 5) * x + 8) * x - 4);
  return 0;
}

typedef struct taps {
  int64_t at[4];
  double weight[4];
} taps;

/* Where cell i of `to` lies among `from`: half-pixel centres, clamped at the edges. */
static taps taps_of(int64_t i, int64_t from, int64_t to) {
  taps t;
  double centre = ((double)i + 0.5) * (double)from / (double)to - 0.5;
  int64_t first = (int64_t)floor(centre) - 1;
  for (int k = 0; k < 4; k++) {
    int64_t at = first + k;
    t.weight[k] = cubic(centre - (double)at);
    t.at[k] = at < 0 ? 0 : at >= from ? from - 1 : at;
  }
  return t;
}

void vtb_resize_table(const float *in, vtb_table_grid from, float *out, vtb_table_grid to,
                      int64_t channels) {
  for (int64_t y = 0; y < to.height; y++) {
    taps rows = taps_of(y, from.height, to.height);
    for (int64_t x = 0; x < to.width; x++) {
      taps cols = taps_of(x, from.width, to.width);
      float *cell = out + (y * to.width + x) * channels;
      for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int k = 0; k < 16; k++)
          sum += rows.weight[k / 4] * cols.weight[k % 4] *
                 (double)in[(rows.at[k / 4] * from.width + cols.at[k % 4]) * channels + c];
        cell[c] = (float)sum;
      }
    }
  }
}

/* ---- which grids ----------------------------------------------------------------------------- */

/* The grid of n cells that has the proportions of an image. */
static bool grid_of(int64_t n, double proportion, vtb_table_grid *out) {
  int64_t height = (int64_t)llround(sqrt((double)n * proportion));
  if (height < 1 || n % height) return false;
  *out = (vtb_table_grid){height, n / height};
  double have = (double)out->height / (double)out->width;
  return have < 1.15 * proportion && proportion < 1.15 * have;
}

bool vtb__table_plan(const vtb_tensor_info *want, const vtb_renamed *have, const vtb_fit_options *o,
                     vtb__table *out) {
  enum { MAX_EXTRA = 8 };
  int last = want->rank - 1;
  *out = (vtb__table){0};
  if (o->height < 1 || o->width < 1 || want->rank != have->rank || want->rank < 3) return false;
  if (want->dim[0] != 1 || have->dim[0] != 1 || have->dim[last] != want->dim[last]) return false;
  out->channels = want->dim[last];
  if (want->rank == 4) {
    out->from = (vtb_table_grid){have->dim[1], have->dim[2]};
    out->to = (vtb_table_grid){want->dim[1], want->dim[2]};
    return true;
  }
  bool square = o->file_height < 1 || o->file_width < 1;
  double of_file = square ? 1 : (double)o->file_height / o->file_width;
  for (int64_t e = 0; want->rank == 3 && e <= MAX_EXTRA; e++) {
    if (want->dim[1] <= e || have->dim[1] <= e) return false;
    out->extra = e;
    if (grid_of(want->dim[1] - e, (double)o->height / o->width, &out->to) &&
        grid_of(have->dim[1] - e, of_file, &out->from) &&
        (!square || out->from.height == out->from.width))
      return true;
  }
  return false;
}

vtb_status vtb__table_read(const vtb__table *t, const vtb_renamed *have, float *out,
                           vtb_error *err) {
  float *in = calloc((size_t)have->count + 1, sizeof *in);
  if (!in) return vtb_no_memory(err, have->name);
  vtb_status status = vtb_renamed_read_f32(have, in, err);
  int64_t kept = t->extra * t->channels;
  for (int64_t i = 0; i < kept; i++) out[i] = in[i];
  vtb_resize_table(in + kept, t->from, out + kept, t->to, t->channels);
  free(in);
  return status;
}
