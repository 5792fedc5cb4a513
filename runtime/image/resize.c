/* See resize.h. Both passes work on blocks in which neighbours in memory are independent sums, so
 * that compilers make vector code of them. */
#include "runtime/image/resize.h"

#include "runtime/base/prepare.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  COEFF_BITS = 22, /* 8-bit pixels, sums of weights up to about 2 in magnitude, 32-bit sums */
  LANES = 32,      /* rows that the first pass works on at once */
  STRIPE = 512     /* sums that the second pass works on at once: they stay in the nearest cache */
};

/* ---- filters --------------------------------------------------------------------------------- */

static double bicubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

static double triangle(double x) {
  x = fabs(x);
  return x < 1 ? 1 - x : 0;
}

static double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

static double hamming(double x) {
  x = fabs(x);
  if (x == 0) return 1;
  if (x >= 1) return 0;
  x *= M_PI;
  return sin(x) / x * (0.54 + 0.46 * cos(x));
}

static double sinc(double x) {
  if (x == 0) return 1;
  x *= M_PI;
  return sin(x) / x;
}

static double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

static const char *const filter_names[VTB_FILTERS] = {VTB_FILTER_WORDS};
static const struct {
  double (*weight)(double x);
  double support;
} filters[VTB_FILTERS] = {
    [VTB_FILTER_BICUBIC] = {bicubic, 2}, [VTB_FILTER_BILINEAR] = {triangle, 1},
    [VTB_FILTER_BOX] = {box, 0.5},       [VTB_FILTER_HAMMING] = {hamming, 1},
    [VTB_FILTER_LANCZOS] = {lanczos, 3},
};

const char *vtb_filter_name(vtb_filter f) { return filter_names[f]; }

bool vtb_filter_find(const char *name, vtb_filter *out) {
  for (int f = 0; f < VTB_FILTERS; f++)
    if (vtb_streq(name, filter_names[f])) {
      *out = (vtb_filter)f;
      return true;
    }
  return false;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Output i, of n, is the sum over k < count[i] of coeff[i * taps + k] * input[first[i] + k]. */
typedef struct resample {
  int n, taps;
  int *first, *count;
  int32_t *coeff;
} resample;

static void resample_free(resample *r) {
  free(r->first);
  free(r->count);
  free(r->coeff);
}

static void make_taps(resample *r, int i, double center, double support, double shrink, int n_in,
                      vtb_filter filter, double *weights) {
  int lo = (int)(center - support + 0.5), hi = (int)(center + support + 0.5);
  if (lo < 0) lo = 0;
  if (hi > n_in) hi = n_in;
  double sum = 0, scale = 1 / shrink;
  for (int k = 0; k < hi - lo; k++) {
    weights[k] = filters[filter].weight((k + lo - center + 0.5) * scale);
    sum += weights[k];
  }
  r->first[i] = lo;
  r->count[i] = hi - lo;
  for (int k = 0; k < hi - lo; k++) {
    double w = sum != 0 ? weights[k] / sum : weights[k];
    r->coeff[(size_t)i * (size_t)r->taps + (size_t)k] =
        (int32_t)(w * (1 << COEFF_BITS) + (w < 0 ? -0.5 : 0.5));
  }
}

/* The weights of the outputs [from, from + n) of n_out. False when out of memory; to be freed in
 * any case. */
static bool make_resample(resample *r, int n_in, int n_out, int from, int n, vtb_filter filter) {
  double scale = (double)n_in / n_out, shrink = scale > 1 ? scale : 1;
  double support = filters[filter].support * shrink;
  *r = (resample){.n = n, .taps = (int)ceil(support) * 2 + 1};
  r->first = calloc((size_t)n, sizeof *r->first);
  r->count = calloc((size_t)n, sizeof *r->count);
  r->coeff = calloc((size_t)n * (size_t)r->taps, sizeof *r->coeff);
  double *weights = calloc((size_t)r->taps, sizeof *weights);
  bool enough = r->first && r->count && r->coeff && weights;
  for (int i = 0; enough && i < n; i++)
    make_taps(r, i, (from + i + 0.5) * scale, support, shrink, n_in, filter, weights);
  free(weights);
  return enough;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static inline uint8_t to_pixel(int32_t sum) {
  sum >>= COEFF_BITS;
  return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Always in line, into a function for the machine at hand. */
#define IN_LINE static inline __attribute__((always_inline))

/* columns: of LANES rows, (columns, LANES), from column `first` on; out: (LANES, width). */
IN_LINE void across(const resample *r, int first, int channels, const uint8_t *columns,
                    uint8_t *out, size_t width) {
  for (int x = 0; x < r->n; x++)
    for (int j = 0; j < channels; j++) {
      int32_t sum[LANES];
      for (int l = 0; l < LANES; l++) sum[l] = 1 << (COEFF_BITS - 1);
      const int32_t *w = r->coeff + (size_t)x * (size_t)r->taps;
      const uint8_t *at =
          columns + ((size_t)(r->first[x] - first) * (size_t)channels + (size_t)j) * LANES;
      for (int k = 0; k < r->count[x]; k++, at += channels * LANES)
        for (int l = 0; l < LANES; l++) sum[l] += w[k] * at[l];
      uint8_t *to = out + (size_t)x * (size_t)channels + (size_t)j;
      for (int l = 0; l < LANES; l++) to[(size_t)l * width] = to_pixel(sum[l]);
    }
}

/* One row of n numbers from `count` rows. */
IN_LINE void down(const int32_t *w, int count, const uint8_t *rows, size_t n, uint8_t *out) {
  int32_t sum[STRIPE];
  for (size_t from = 0; from < n; from += STRIPE) {
    size_t m = n - from < STRIPE ? n - from : STRIPE;
    for (size_t i = 0; i < m; i++) sum[i] = 1 << (COEFF_BITS - 1);
    for (int k = 0; k < count; k++) {
      const uint8_t *row = rows + (size_t)k * n + from;
      for (size_t i = 0; i < m; i++) sum[i] += w[k] * row[i];
    }
    for (size_t i = 0; i < m; i++) out[from + i] = to_pixel(sum[i]);
  }
}

typedef struct passes {
  void (*across)(const resample *r, int first, int channels, const uint8_t *columns, uint8_t *out,
                 size_t width);
  void (*down)(const int32_t *w, int count, const uint8_t *rows, size_t n, uint8_t *out);
} passes;

static void across_plain(const resample *r, int first, int channels, const uint8_t *columns,
                         uint8_t *out, size_t width) {
  across(r, first, channels, columns, out, width);
}
static void down_plain(const int32_t *w, int count, const uint8_t *rows, size_t n, uint8_t *out) {
  down(w, count, rows, n, out);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void across_avx2(const resample *r, int first, int channels,
                                                        const uint8_t *columns, uint8_t *out,
                                                        size_t width) {
  across(r, first, channels, columns, out, width);
}
__attribute__((target("avx2"))) static void down_avx2(const int32_t *w, int count,
                                                      const uint8_t *rows, size_t n, uint8_t *out) {
  down(w, count, rows, n, out);
}
#endif

/* The same numbers everywhere: the arithmetic is of integers. */
static passes passes_here(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) return (passes){across_avx2, down_avx2};
#endif
  return (passes){across_plain, down_plain};
}

/* ---- resizing -------------------------------------------------------------------------------- */

/* The result for an image for which there is no memory. */
static vtb_image give_up(vtb_image im) {
  vtb_image_free(&im);
  return im;
}

/* A block of rows, lying on its side. Rows behind the last are as the last. */
static void turn(const vtb_image *im, int y, uint8_t *columns) {
  size_t n = (size_t)im->width * (size_t)im->channels;
  for (int l = 0; l < LANES; l++) {
    const uint8_t *row = im->pixels + (size_t)(y + l < im->height ? y + l : im->height - 1) * n;
    for (size_t i = 0; i < n; i++) columns[i * LANES + (size_t)l] = row[i];
  }
}

/* Each pass is of an image that begins at column or row `first` of the one that r is about. */
static vtb_image resize_rows(const vtb_image *im, const resample *r, int first) {
  vtb_image out = vtb_image_new(r->n, im->height, im->channels);
  size_t n = (size_t)r->n * (size_t)im->channels;
  uint8_t *columns = malloc((size_t)im->width * (size_t)im->channels * LANES);
  uint8_t *block = malloc(n * LANES);
  bool enough = out.pixels && columns && block;
  passes p = passes_here();
  for (int y = 0; enough && y < im->height; y += LANES) {
    int rows = im->height - y < LANES ? im->height - y : LANES;
    turn(im, y, columns);
    p.across(r, first, im->channels, columns, block, n);
    memcpy(out.pixels + (size_t)y * n, block, (size_t)rows * n);
  }
  free(columns);
  free(block);
  return enough ? out : give_up(out);
}

static vtb_image resize_columns(const vtb_image *im, const resample *r, int first) {
  vtb_image out = vtb_image_new(im->width, r->n, im->channels);
  size_t n = (size_t)im->width * (size_t)im->channels;
  passes p = passes_here();
  for (int y = 0; out.pixels && y < r->n; y++)
    p.down(r->coeff + (size_t)y * (size_t)r->taps, r->count[y],
           im->pixels + (size_t)(r->first[y] - first) * n, n, out.pixels + (size_t)y * n);
  return out;
}

/* Pixels [from, from + n) of n_out: the ones that cover their middles. The places are added up one
 * by one, as Pillow does: where a middle lies on an edge rounding decides. */
static bool nearest(int n_in, int n_out, int from, int n, int *at) {
  double scale = (double)n_in / n_out, place = scale * 0.5;
  for (int i = 0; at && i < from + n; i++, place += scale)
    if (i >= from) at[i - from] = place < n_in ? (int)place : n_in - 1;
  return at != NULL;
}

static vtb_image resize_nearest(const vtb_image *im, int width, int height, int x, int y, int w,
                                int h) {
  vtb_image out = vtb_image_new(w, h, im->channels);
  int *columns = calloc((size_t)w, sizeof *columns), *rows = calloc((size_t)h, sizeof *rows);
  bool enough = out.pixels && nearest(im->width, width, x, w, columns) &&
                nearest(im->height, height, y, h, rows);
  size_t c = (size_t)im->channels;
  uint8_t *to = out.pixels;
  for (int i = 0; enough && i < h; i++) {
    const uint8_t *row = im->pixels + (size_t)rows[i] * (size_t)im->width * c;
    for (int k = 0; k < w; k++, to += c) memcpy(to, row + (size_t)columns[k] * c, c);
  }
  free(columns);
  free(rows);
  return enough ? out : give_up(out);
}

/* Columns or rows of the source that r reads: [first, last). */
typedef struct range {
  int first, last;
} range;

static range reads(const resample *r) {
  return (range){r->first[0], r->first[r->n - 1] + r->count[r->n - 1]};
}

/* Rows first, unless the height shrinks by more than twice what the width does: the order of
 * Pillow's passes since version 13. It shows, as 8 bits are all that is kept in between. */
static vtb_image two_passes(const vtb_image *im, const resample *across, const resample *down,
                            bool rows_first) {
  range x = reads(across), y = reads(down);
  vtb_image used = vtb_image_crop(im, x.first, y.first, x.last - x.first, y.last - y.first);
  vtb_image half = {0}, out = {0};
  if (used.pixels)
    half = rows_first ? resize_rows(&used, across, x.first) : resize_columns(&used, down, y.first);
  if (half.pixels)
    out = rows_first ? resize_columns(&half, down, y.first) : resize_rows(&half, across, x.first);
  vtb_image_free(&used);
  vtb_image_free(&half);
  return out;
}

/* The side that stays as it is has a window of its own. */
static vtb_image one_pass(const vtb_image *im, const resample *r, bool rows, int from, int n) {
  range used = reads(r);
  vtb_image part = rows ? vtb_image_crop(im, used.first, from, used.last - used.first, n)
                        : vtb_image_crop(im, from, used.first, n, used.last - used.first);
  if (!part.pixels) return part;
  vtb_image out = rows ? resize_rows(&part, r, used.first) : resize_columns(&part, r, used.first);
  vtb_image_free(&part);
  return out;
}

vtb_image vtb_image_resize_part(const vtb_image *im, int width, int height, vtb_filter filter,
                                int x, int y, int w, int h) {
  if (!im->pixels) return *im;
  assert(x >= 0 && y >= 0 && w <= width - x && h <= height - y);
  bool wider = im->width != width, higher = im->height != height;
  int less_w = im->width - width, less_h = im->height - height;
  if (!wider && !higher) return vtb_image_crop(im, x, y, w, h);
  if (filter == VTB_FILTER_NEAREST) return resize_nearest(im, width, height, x, y, w, h);
  resample across = {0}, down = {0};
  vtb_image out = {0};
  if ((!wider || make_resample(&across, im->width, width, x, w, filter)) &&
      (!higher || make_resample(&down, im->height, height, y, h, filter))) {
    if (!higher)
      out = one_pass(im, &across, true, y, h);
    else if (!wider)
      out = one_pass(im, &down, false, x, w);
    else
      out = two_passes(im, &across, &down, !(less_h > 0 && less_h / 2.0 > less_w));
  }
  resample_free(&across);
  resample_free(&down);
  return out;
}

vtb_image vtb_image_resize(const vtb_image *im, int width, int height, vtb_filter filter) {
  return vtb_image_resize_part(im, width, height, filter, 0, 0, width, height);
}
