/* Resizing and preparing against what Pillow, torchvision and timm make of the same images
 * (tests/runtime/prepare/make_prepare.py), and preparations as text. */
#include "runtime/artefact/safetensors.h"
#include "runtime/image/prepare.h"
#include "tests/runtime/support.h"

#include <limits.h>

/* Noise over a slope, as make_prepare.py has it. */
static vtb_image picture(int w, int h, int c) {
  vtb_image im = vtb_image_new(w, h, c);
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++)
      for (int k = 0; k < c; k++) {
        uint32_t v = (uint32_t)(x * 73 + y * 151 + k * 199 + x * y * 7) * 2654435761u >> 24;
        im.pixels[(y * w + x) * c + k] = (uint8_t)(v + (uint32_t)(3 * x + 5 * y));
      }
  return im;
}

static int largest_difference(const uint8_t *a, const uint8_t *b, int64_t n) {
  int most = 0;
  for (int64_t i = 0; i < n; i++)
    if (abs(a[i] - b[i]) > most) most = abs(a[i] - b[i]);
  return most;
}

static void check_resize(const vtb_weight *want) {
  char name[16];
  int c, w, h, to_w, to_h;
  vtb_filter filter;
  CHECK(sscanf(want->name, "resize/%15[a-z]/%d/%dx%d/%dx%d", name, &c, &w, &h, &to_w, &to_h) == 6);
  CHECK(vtb_filter_find(name, &filter));
  vtb_image im = picture(w, h, c), out = vtb_image_resize(&im, to_w, to_h, filter);
  CHECK(out.width == to_w && out.height == to_h && want->count == (int64_t)to_w * to_h * c);
  CHECK_MSG(largest_difference(out.pixels, want->data, want->count) == 0, "%s: %d", want->name,
            largest_difference(out.pixels, want->data, want->count));
  /* a part is that part of the whole */
  int x = to_w / 3, y = to_h / 2, pw = (to_w - x + 1) / 2, ph = (to_h - y + 1) / 2;
  vtb_image part = vtb_image_resize_part(&im, to_w, to_h, filter, x, y, pw, ph),
            cut = vtb_image_crop(&out, x, y, pw, ph);
  CHECK(memcmp(part.pixels, cut.pixels, (size_t)(pw * ph * c)) == 0);
  vtb_image_free(&part), vtb_image_free(&cut), vtb_image_free(&im), vtb_image_free(&out);
}

static void check_preparation(const vtb_weight *want) {
  char mode[16], filter[16], crop[16];
  int c, w, h, to_w, to_h;
  CHECK(sscanf(want->name, "prepare/%15[a-z]/%15[a-z]/%15[0-9.]/%d/%dx%d/%dx%d", mode, filter, crop,
               &c, &w, &h, &to_w, &to_h) == 8);
  vtb_preparation p = {.channels = c,
                       .height = to_h,
                       .width = to_w,
                       .crop = strtod(crop, NULL),
                       .mean = {0.35f, 0.35f, 0.35f},
                       .std = {1, 1, 1}};
  CHECK(vtb_resize_mode_find(mode, &p.resize) && vtb_filter_find(filter, &p.filter));
  vtb_image im = picture(w, h, c);
  float *out = calloc((size_t)want->count, sizeof *out);
  CHECK_OK(vtb_image_prepare(&p, &im, out, err));
  int most = 0;
  for (int k = 0; k < c; k++)
    for (int i = 0; i < to_w * to_h; i++) {
      double got = 255 * ((double)out[k * to_w * to_h + i] + 0.35);
      int d = (int)fabs(round(got) - ((const uint8_t *)want->data)[i * c + k]);
      most = d > most ? d : most;
    }
  CHECK_MSG(most == 0, "%s: %d", want->name, most);
  free(out);
  vtb_image_free(&im);
}

TEST(pixels_are_those_of_the_usual_libraries) {
  vtb_weights *all = NULL;
  CHECK_OK(
      vtb_safetensors_load(VTB_SOURCE_DIR "/tests/runtime/prepare/cases.safetensors", &all, err));
  CHECK(all->n > 200);
  for (size_t i = 0; i < all->n; i++)
    if (vtb_starts_with(all->at[i]->name, "resize/"))
      check_resize(all->at[i]);
    else
      check_preparation(all->at[i]);
  vtb_weights_free(all);
}

TEST(images_become_what_the_model_takes) {
  vtb_image gray = vtb_image_new(8, 8, 1), rgb;
  memset(gray.pixels, 51, 64);
  rgb = vtb_image_convert(&gray, 3);
  vtb_preparation p = vtb_preparation_default(3, 4, 4);
  float a[48], b[48];
  CHECK_OK(vtb_image_prepare(&p, &gray, a, err));
  CHECK_OK(vtb_image_prepare(&p, &rgb, b, err));
  CHECK(memcmp(a, b, sizeof a) == 0);
  CHECK_NEAR((double)a[0], (0.2 - 0.485) / 0.229, 1e-6);
  p = vtb_preparation_default(1, 4, 4);
  CHECK_OK(vtb_image_prepare(&p, &rgb, a, err));
  CHECK_NEAR((double)a[0], (0.2 - 0.449) / 0.226, 1e-6);
  vtb_image_free(&gray), vtb_image_free(&rgb);
}

/* Strips of a pixel would grow without bound. */
/* Numbers of classes stay what they are, whatever the filter and however they are resized. */
TEST(classes_are_not_mixed) {
  static const vtb_resize_mode modes[] = {VTB_RESIZE_CROP, VTB_RESIZE_SQUASH, VTB_RESIZE_PAD};
  vtb_image im = vtb_image_new(9, 6, 1);
  for (int i = 0; i < 54; i++) im.pixels[i] = i % 9 < 4 ? 3 : 200;
  for (int k = 0; k < 3; k++) {
    vtb_preparation p = {.channels = 1, .height = 8, .width = 8, .crop = 0.9};
    p.filter = VTB_FILTER_BICUBIC, p.resize = modes[k], p.std[0] = 1;
    vtb_image out = vtb_image_fit(&p, &im, true);
    int other = 0, first = 0;
    for (int i = 0; i < 64; i++) {
      first += out.pixels[i] == 3;
      other += out.pixels[i] != 3 && out.pixels[i] != 200 && out.pixels[i] != 255;
    }
    CHECK_MSG(out.width == 8 && out.height == 8 && first > 10 && !other, "%s: %d of none",
              vtb_resize_mode_name(modes[k]), other);
    vtb_image_free(&out);
  }
  vtb_image_free(&im);
}

TEST(strips_are_prepared_without_their_whole_length) {
  vtb_preparation p = vtb_preparation_default(1, 224, 224);
  float *out = calloc(224 * 224, sizeof *out);
  for (int turned = 0; turned < 2; turned++) {
    vtb_image im = vtb_image_new(turned ? 1 : 65535, turned ? 65535 : 1, 1);
    memset(im.pixels, 9, 65535);
    for (int m = 0; m < VTB_RESIZE_MODES; m++) {
      p.resize = (vtb_resize_mode)m;
      CHECK_OK(vtb_image_prepare(&p, &im, out, err));
    }
    vtb_image_free(&im);
  }
  free(out);
}

TEST(what_cannot_be_prepared_is_refused) {
  vtb_image im = picture(4, 4, 3);
  float out[48];
  const vtb_preparation good = vtb_preparation_default(3, 4, 4);
  vtb_preparation p = good;
  p.std[1] = 0;
  CHECK_REFUSED(vtb_image_prepare(&p, &im, out, err), "std has 0");
  p = good, p.std[2] = -1;
  CHECK_REFUSED(vtb_image_prepare(&p, &im, out, err), "std has -1");
  p = good, p.mean[0] = NAN;
  CHECK_REFUSED(vtb_image_prepare(&p, &im, out, err), "mean has");
  p = good, p.crop = 0;
  CHECK_REFUSED(vtb_image_prepare(&p, &im, out, err), "crop is 0");
  p = good, p.crop = 1.5;
  CHECK_REFUSED(vtb_image_prepare(&p, &im, out, err), "crop is 1.5");
  p = good, p.channels = 4;
  CHECK_REFUSED(vtb_image_prepare(&p, &im, out, err), "4 channels");
  p = good, p.width = 0;
  CHECK_REFUSED(vtb_image_prepare(&p, &im, out, err), "cannot be made from images");
  vtb_image_free(&im);
}

TEST(text_says_what_was_given_and_no_more) {
  vtb_preparation p = vtb_preparation_default(3, 8, 8), q = p;
  vtb_strbuf text = {0};
  CHECK_OK(vtb_preparation_read(
      &p, "{\"crop\": 0.875, \"filter\": \"lanczos\", \"mean\": 0.5, \"std\": [0.25, 0.5, 1]}", "x",
      err));
  CHECK(p.given == (VTB_PREPARE_CROP | VTB_PREPARE_FILTER | VTB_PREPARE_MEAN | VTB_PREPARE_STD));
  CHECK(p.crop == 0.875 && p.filter == VTB_FILTER_LANCZOS && p.resize == VTB_RESIZE_CROP);
  CHECK((double)p.mean[2] == 0.5 && (double)p.std[2] == 1);
  vtb_preparation_write(&p, p.given, &text);
  CHECK_STR(text.at, "{\"crop\": 0.875, \"filter\": \"lanczos\", \"mean\": [0.5, 0.5, 0.5], "
                     "\"std\": [0.25, 0.5, 1]}");
  CHECK_OK(vtb_preparation_read(&q, text.at, "x", err));
  CHECK(memcmp(&p, &q, sizeof p) == 0);
  p = vtb_preparation_default(1, 8, 8); /* gray takes the average */
  CHECK_OK(vtb_preparation_read(&p, "{\"mean\": [0.1, 0.2, 0.6]}", "x", err));
  CHECK_NEAR((double)p.mean[0], 0.3, 1e-6);
  vtb_strbuf_free(&text);
}

TEST(bad_text_is_refused_and_changes_nothing) {
  static const char *const cases[][2] = {
      {"", "no JSON object"},
      {"[1]", "no JSON object"},
      {"{\"crop\": 0.9} x", "no JSON object"},
      {"{\"crop\": \"0.9\"}", "\"crop\" of \"prepare\" is not a number"},
      {"{\"crop\": 0}", "crop is 0"},
      {"{\"filter\": \"cubic\"}", "not the name of a filter"},
      {"{\"resize\": 3}", "not crop, squash or pad"},
      {"{\"mean\": [0.5, 0.5]}", "not one number or three"},
      {"{\"mean\": [0.5, 0.5, 0.5, 0.5]}", "not one number or three"},
      {"{\"std\": []}", "not one number or three"},
      {"{\"std\": [1, 0, 1]}", "std has 0"},
      {"{\"std\": 1e60}", "std has inf"},
      {"{\"colour\": 1}", "unknown field \"colour\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    vtb_preparation p = vtb_preparation_default(3, 8, 8), before = p;
    CHECK_REFUSED(vtb_preparation_read(&p, cases[i][0], "w.safetensors", err), cases[i][1]);
    CHECK(memcmp(&p, &before, sizeof p) == 0);
  }
}

int main(void) {
  RUN(pixels_are_those_of_the_usual_libraries);
  RUN(images_become_what_the_model_takes);
  RUN(classes_are_not_mixed);
  RUN(strips_are_prepared_without_their_whole_length);
  RUN(what_cannot_be_prepared_is_refused);
  RUN(text_says_what_was_given_and_no_more);
  RUN(bad_text_is_refused_and_changes_nothing);
  return test_done();
}
