/* From a decoded sample to the model's input: resize, crop, augment, normalise. Draws come from the
 * sample's key. */
#include "runtime/data/dataset.h"
#include "runtime/base/random.h"

#include <assert.h>
#include <math.h>
#include <string.h>

vtb_status vtb_transform_init(vtb_transform *t, const vtb_dataset *d, int channels, int height,
                              int width, vtb_error *err) {
  vtb_transform made = {.prepare = vtb_preparation_default(channels, height, width)};
  vtb_status status = vtb_preparation_check(&made.prepare, err);
  if (status == VTB_OK)
    status = vtb_dataset_moments(d, channels, made.prepare.mean, made.prepare.std, err);
  if (status == VTB_OK) *t = made;
  return status;
}

uint64_t vtb_sample_key(uint64_t seed, int64_t epoch, int64_t sample) {
  return vtb_random_u64(vtb_random_u64(seed, (uint64_t)epoch), (uint64_t)sample);
}

uint64_t vtb_view_key(uint64_t key, int view) {
  return view > 1 ? vtb_random_u64(key, UINT64_C(0x76696577) + (uint64_t)view) : key;
}

/* ---- the epoch's order ----------------------------------------------------------------------- */

/* A four-round Feistel network on the smallest even number of bits that holds n; values beyond n
 * are sent through again (cycle walking), which keeps it a bijection on [0, n). */
static uint64_t feistel(uint64_t key, uint64_t x, int half_bits) {
  uint64_t mask = (UINT64_C(1) << half_bits) - 1, left = x >> half_bits, right = x & mask;
  for (uint64_t round = 0; round < 4; round++) {
    uint64_t mixed = (left ^ vtb_random_u64(key + round, right)) & mask;
    left = right;
    right = mixed;
  }
  return left << half_bits | right;
}

int64_t vtb_permute(uint64_t seed, int64_t epoch, int64_t n, int64_t position) {
  assert(position >= 0 && position < n);
  int half_bits = 1;
  while (half_bits < 31 && (UINT64_C(1) << (2 * half_bits)) < (uint64_t)n) half_bits++;
  uint64_t key = vtb_random_u64(seed ^ UINT64_C(0x5bd1e9955bd1e995), (uint64_t)epoch),
           x = (uint64_t)position;
  do x = feistel(key, x, half_bits);
  while (x >= (uint64_t)n);
  return (int64_t)x;
}

/* ---- draws ----------------------------------------------------------------------------------- */

/* Numbers of a sample's draws: each augmentation has its own, so that switching one does not change
 * the others. */
enum { DRAW_FLIP = 1, DRAW_SHIFT_X, DRAW_SHIFT_Y, DRAW_ERASE = 16, DRAW_CROP = 64 };

static double unit(uint64_t key, int draw) { return vtb_random_unit(key, (uint64_t)draw); }

/* Integer in [0, n). */
static int below(uint64_t key, int draw, int n) { return (int)(unit(key, draw) * n); }

typedef struct box {
  int x, y, w, h;
} box;

/* A box of area fraction in [lo, hi] and log-uniform aspect ratio; ten tries, false if none
 * fits. */
static bool random_box(uint64_t key, int draw, int width, int height, double lo, double hi,
                       double aspect_min, double aspect_max, box *out) {
  double log_lo = log(aspect_min), log_hi = log(aspect_max);
  for (int i = 0; i < 10; i++, draw += 4) {
    double area = (lo + (hi - lo) * unit(key, draw)) * width * height;
    double aspect = exp(log_lo + (log_hi - log_lo) * unit(key, draw + 1));
    int w = (int)lrint(sqrt(area * aspect)), h = (int)lrint(sqrt(area / aspect));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    *out = (box){below(key, draw + 2, width - w + 1), below(key, draw + 3, height - h + 1), w, h};
    return true;
  }
  return false;
}

/* ---- steps; each takes an image and gives a new one ------------------------------------------ */

static vtb_image convert_and_free(vtb_image im, vtb_image made) {
  vtb_image_free(&im);
  return made;
}

/* classes: numbers that cannot be mixed. */
static vtb_image random_crop_resize(const vtb_transform *t, vtb_image im, uint64_t key,
                                    bool classes) {
  box b;
  if (!random_box(key, DRAW_CROP, im.width, im.height, t->augment.scale_min, 1, 3.0 / 4, 4.0 / 3,
                  &b)) {
    int side = im.width < im.height ? im.width : im.height;
    b = (box){(im.width - side) / 2, (im.height - side) / 2, side, side};
  }
  vtb_image cut = vtb_image_crop(&im, b.x, b.y, b.w, b.h);
  im = convert_and_free(im, cut);
  return convert_and_free(im, vtb_image_resize(&im, t->prepare.width, t->prepare.height,
                                               classes ? VTB_FILTER_NEAREST : t->prepare.filter));
}

/* Content moves by (-dx, -dy); what comes in from outside is `fill`. */
static vtb_image moved(const vtb_image *im, int dx, int dy, int fill) {
  if (!im->pixels) return *im;
  vtb_image out = vtb_image_new(im->width, im->height, im->channels);
  if (!out.pixels) return out;
  size_t c = (size_t)im->channels;
  memset(out.pixels, fill, (size_t)im->width * (size_t)im->height * c);
  int x0 = dx < 0 ? -dx : 0, x1 = dx > 0 ? im->width - dx : im->width;
  for (int y = 0; y < im->height; y++) {
    int from = y + dy;
    if (from < 0 || from >= im->height || x1 <= x0) continue;
    memcpy(out.pixels + ((size_t)y * (size_t)im->width + (size_t)x0) * c,
           im->pixels + ((size_t)from * (size_t)im->width + (size_t)(x0 + dx)) * c,
           (size_t)(x1 - x0) * c);
  }
  return out;
}

static void mirror(vtb_image *im) {
  int c = im->channels;
  for (int y = 0; y < im->height; y++) {
    uint8_t *row = im->pixels + (size_t)y * (size_t)im->width * (size_t)c;
    for (int a = 0, b = im->width - 1; a < b; a++, b--)
      for (int j = 0; j < c; j++) {
        uint8_t v = row[a * c + j];
        row[a * c + j] = row[b * c + j];
        row[b * c + j] = v;
      }
  }
}

/* The box that becomes 0; without extent if there is none. */
static box erased_box(const vtb_transform *t, uint64_t key) {
  box b = {0};
  if (!(t->augment.erase_prob > 0) || unit(key, DRAW_ERASE) >= t->augment.erase_prob) return b;
  (void)random_box(key, DRAW_ERASE + 1, t->prepare.width, t->prepare.height, 0.02, 1.0 / 3, 0.3,
                   1 / 0.3, &b);
  return b;
}

static void erase(const vtb_transform *t, const box *b, float *chw) {
  for (int c = 0; c < t->prepare.channels; c++)
    for (int y = b->y; y < b->y + b->h; y++)
      for (int x = b->x; x < b->x + b->w; x++)
        chw[((size_t)c * (size_t)t->prepare.height + (size_t)y) * (size_t)t->prepare.width +
            (size_t)x] = 0;
}

/* The transform that images and their classes have in common. */
static vtb_image framed(const vtb_transform *t, vtb_image im, uint64_t key, bool classes) {
  im = t->augment.scale_min > 0 ? random_crop_resize(t, im, key, classes)
                                : convert_and_free(im, vtb_image_fit(&t->prepare, &im, classes));
  if (t->augment.shift > 0) {
    int most = (int)t->augment.shift, dx = below(key, DRAW_SHIFT_X, 2 * most + 1) - most,
        dy = below(key, DRAW_SHIFT_Y, 2 * most + 1) - most;
    im = convert_and_free(im, moved(&im, dx, dy, classes ? 255 : 0));
  }
  if (im.pixels && t->augment.flip && unit(key, DRAW_FLIP) < 0.5) mirror(&im);
  return im;
}

vtb_image vtb_transform_frame(const vtb_transform *t, const vtb_image *source, uint64_t key) {
  vtb_image im = vtb_image_convert(source, t->prepare.channels);
  return im.pixels ? framed(t, im, key, false) : im;
}

void vtb_transform_values(const vtb_transform *t, const vtb_image *framed, uint64_t key,
                          float *out) {
  box erased = erased_box(t, key);
  vtb_image_to_chw(framed, t->prepare.mean, t->prepare.std, out);
  erase(t, &erased, out);
}

void vtb_transform_pixels(const vtb_transform *t, const vtb_image *framed, uint64_t key,
                          uint8_t *out, int32_t erased[4]) {
  box b = erased_box(t, key);
  memcpy(erased, (int32_t[]){b.x, b.y, b.w, b.h}, 4 * sizeof *erased);
  vtb_image_to_planes(framed, out);
}

bool vtb_transform_apply(const vtb_transform *t, const vtb_image *source, uint64_t key,
                         float *out) {
  vtb_image im = vtb_transform_frame(t, source, key);
  if (im.pixels) vtb_transform_values(t, &im, key, out);
  bool done = im.pixels != NULL;
  vtb_image_free(&im);
  return done;
}

bool vtb_transform_mask(const vtb_transform *t, const vtb_image *source, uint64_t key, int h, int w,
                        int32_t *out) {
  vtb_image im = vtb_image_convert(source, 1);
  if (im.pixels) im = framed(t, im, key, true);
  if (!im.pixels) return false;
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      int64_t row = (2 * (int64_t)y + 1) * im.height / (2 * h),
              column = (2 * (int64_t)x + 1) * im.width / (2 * w);
      out[(int64_t)y * w + x] = im.pixels[row * im.width + column];
    }
  vtb_image_free(&im);
  return true;
}
