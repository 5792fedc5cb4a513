#include "runtime/image/resize.h"
#include "tests/runtime/support.h"

#include <jpeglib.h>
#include <png.h>

static vtb_image noise(int w, int h, int c, unsigned long long state) {
  vtb_image im = vtb_image_new(w, h, c);
  for (int i = 0; i < w * h * c; i++) im.pixels[i] = (uint8_t)(128 + 127 * test_random(&state));
  return im;
}

/* A smooth picture, which survives JPEG. */
static vtb_image gradient(int w, int h, int c) {
  vtb_image im = vtb_image_new(w, h, c);
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++)
      for (int k = 0; k < c; k++)
        im.pixels[(y * w + x) * c + k] = (uint8_t)(40 + 6 * x + 3 * y + 20 * k);
  return im;
}

static unsigned char *encode_jpeg(const vtb_image *im, J_COLOR_SPACE space, int components,
                                  unsigned long *n) {
  struct jpeg_compress_struct j;
  struct jpeg_error_mgr errors;
  unsigned char *data = NULL;
  *n = 0;
  j.err = jpeg_std_error(&errors);
  jpeg_create_compress(&j);
  jpeg_mem_dest(&j, &data, n);
  j.image_width = (JDIMENSION)im->width;
  j.image_height = (JDIMENSION)im->height;
  j.input_components = components;
  j.in_color_space = space;
  jpeg_set_defaults(&j);
  jpeg_set_quality(&j, 95, TRUE);
  jpeg_start_compress(&j, TRUE);
  while (j.next_scanline < j.image_height) {
    JSAMPROW row = im->pixels + (size_t)j.next_scanline * (size_t)im->width * (size_t)components;
    jpeg_write_scanlines(&j, &row, 1);
  }
  jpeg_finish_compress(&j);
  jpeg_destroy_compress(&j);
  return data;
}

/* A PNG of any type through libpng's writer. */
static void write_png(const char *path, int w, int h, int type, int depth,
                      const unsigned char *bytes, size_t row_bytes) {
  FILE *f = fopen(path, "wb");
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, f);
  png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, depth, type, PNG_INTERLACE_ADAM7, 0, 0);
  if (type == PNG_COLOR_TYPE_PALETTE) {
    png_color palette[4] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {9, 8, 7}};
    png_byte alpha[2] = {0, 128};
    png_set_PLTE(png, info, palette, 4);
    png_set_tRNS(png, info, alpha, 2, NULL);
  }
  png_set_interlace_handling(png);
  png_write_info(png, info);
  png_bytep rows[16];
  for (int y = 0; y < h; y++) rows[y] = (png_bytep)(uintptr_t)(bytes + (size_t)y * row_bytes);
  png_write_image(png, rows);
  png_write_end(png, NULL);
  png_destroy_write_struct(&png, &info);
  fclose(f);
}

TEST(png_round_trip_is_exact) {
  for (int c = 1; c <= 3; c += 2) {
    vtb_image im = noise(13, 7, c, 5), back = {0};
    CHECK_OK(vtb_image_save_png(temp_path("a.png"), &im, err));
    CHECK_OK(vtb_image_load(temp_path("a.png"), 0, &back, err));
    CHECK(back.width == 13 && back.height == 7 && back.channels == c);
    CHECK(memcmp(im.pixels, back.pixels, (size_t)(13 * 7 * c)) == 0);
    vtb_image_free(&im);
    vtb_image_free(&back);
  }
}

TEST(png_types_become_gray_or_rgb) {
  const unsigned char palette[4] = {0x1b, 0x1b}; /* two bits a pixel: 0 1 2 3 */
  const unsigned char gray16[4] = {0x12, 0x34, 0xff, 0x00}, rgba[8] = {1, 2, 3, 0, 4, 5, 6, 255},
                      bits[1] = {0x40};
  vtb_image im = {0};
  write_png(temp_path("p.png"), 4, 2, PNG_COLOR_TYPE_PALETTE, 2, palette, 1);
  CHECK_OK(vtb_image_load(temp_path("p.png"), 0, &im, err));
  CHECK(im.channels == 3 && im.pixels[0] == 255 && im.pixels[4] == 255 && im.pixels[11] == 7);
  vtb_image_free(&im);
  write_png(temp_path("g.png"), 2, 1, PNG_COLOR_TYPE_GRAY, 16, gray16, 4);
  CHECK_OK(vtb_image_load(temp_path("g.png"), 0, &im, err));
  CHECK(im.channels == 1 && im.pixels[0] == 0x12 && im.pixels[1] == 0xff);
  vtb_image_free(&im);
  write_png(temp_path("r.png"), 2, 1, PNG_COLOR_TYPE_RGB_ALPHA, 8, rgba, 8);
  CHECK_OK(vtb_image_load(temp_path("r.png"), 0, &im, err));
  CHECK(im.channels == 3 && memcmp(im.pixels, (unsigned char[]){1, 2, 3, 4, 5, 6}, 6) == 0);
  vtb_image_free(&im);
  write_png(temp_path("b.png"), 2, 1, PNG_COLOR_TYPE_GRAY, 1, bits, 1);
  CHECK_OK(vtb_image_load(temp_path("b.png"), 3, &im, err));
  CHECK(im.channels == 3 && im.pixels[0] == 0 && im.pixels[3] == 255 && im.pixels[5] == 255);
  vtb_image_free(&im);
}

TEST(jpeg_decodes_gray_rgb_and_cmyk) {
  unsigned long n;
  vtb_image im = gradient(16, 16, 3), gray = gradient(16, 16, 1), back = {0};
  unsigned char *data = encode_jpeg(&im, JCS_RGB, 3, &n);
  CHECK_OK(vtb_image_decode("rgb", data, n, 0, &back, err));
  CHECK(back.channels == 3 && back.width == 16);
  for (int i = 0; i < 16 * 16 * 3; i++) CHECK_NEAR(back.pixels[i], im.pixels[i], 6);
  vtb_image_free(&back);
  free(data);
  data = encode_jpeg(&gray, JCS_GRAYSCALE, 1, &n);
  CHECK_OK(vtb_image_decode("gray", data, n, 3, &back, err));
  CHECK(back.channels == 3 && abs(back.pixels[3 * 17] - gray.pixels[17]) <= 3);
  vtb_image_free(&back);
  free(data);
  /* All four inks at 255 in the inverted convention that goes with the Adobe marker: white. */
  vtb_image wide = vtb_image_new(16, 64, 1);
  memset(wide.pixels, 255, 16 * 64);
  wide.height = 16;
  data = encode_jpeg(&wide, JCS_CMYK, 4, &n);
  CHECK_OK(vtb_image_decode("cmyk", data, n, 0, &back, err));
  CHECK(back.channels == 3 && back.pixels[0] >= 250 && back.pixels[100] >= 250);
  vtb_image_free(&back);
  free(data);
  vtb_image_free(&im), vtb_image_free(&gray), vtb_image_free(&wide);
}

/* Every cut must be refused by name, and no change of a byte may crash. */
static void torture(const char *name, const unsigned char *file, size_t n) {
  for (size_t cut = 0; cut < n; cut++) {
    unsigned char *copy = malloc(cut ? cut : 1);
    vtb_image im = {0};
    memcpy(copy, file, cut);
    CHECK_REFUSED(vtb_image_decode(name, copy, cut, 0, &im, err), name);
    CHECK(!im.pixels);
    vtb_image_free(&im);
    free(copy);
  }
  unsigned char *copy = malloc(n);
  for (size_t at = 0; at < n; at++)
    for (int k = 0; k < 3; k++) {
      memcpy(copy, file, n);
      copy[at] ^= (unsigned char)(k == 0 ? 1 : k == 1 ? 0x80 : 0xff);
      vtb_image im = {0};
      vtb_error err = {0};
      if (vtb_image_decode(name, copy, n, 3, &im, &err) != VTB_OK) CHECK(err.text[0]);
      vtb_image_free(&im);
    }
  free(copy);
}

TEST(damaged_files_are_refused_and_never_crash) {
  vtb_image im = noise(9, 6, 3, 8);
  CHECK_OK(vtb_image_save_png(temp_path("t.png"), &im, err));
  size_t n;
  char *png = read_file(temp_path("t.png"), &n);
  torture("t.png", (unsigned char *)png, n);
  free(png);
  unsigned long jn;
  unsigned char *jpeg = encode_jpeg(&im, JCS_RGB, 3, &jn);
  torture("t.jpg", jpeg, jn);
  free(jpeg);
  vtb_image_free(&im);
  CHECK_REFUSED(vtb_image_load(temp_path("none.png"), 0, &im, err), "cannot open");
  write_file(temp_path("text.png"), "hello", 5);
  CHECK_REFUSED(vtb_image_load(temp_path("text.png"), 0, &im, err),
                "neither a PNG, a JPEG nor a WebP");
  write_file(temp_path("empty.png"), "", 0);
  CHECK_REFUSED(vtb_image_load(temp_path("empty.png"), 0, &im, err), "empty");
  im = noise(2, 2, 1, 1);
  CHECK_REFUSED(vtb_image_save_png("/nonexistent/a.png", &im, err), "cannot write");
  vtb_image_free(&im);
}

/* Expected values: the filter formula in exact arithmetic, by hand or in double precision, rounded
 * to 8 bits. */
TEST(resize_matches_the_formula) {
  vtb_image im = vtb_image_new(4, 1, 1);
  memcpy(im.pixels, (uint8_t[]){0, 100, 200, 255}, 4);
  static const struct {
    int width;
    vtb_filter filter;
    uint8_t want[8];
  } cases[] = {
      {2, VTB_FILTER_BICUBIC, {60, 221}},
      {2, VTB_FILTER_BILINEAR, {71, 209}},
      {3, VTB_FILTER_BICUBIC, {19, 152, 247}},
      {3, VTB_FILTER_BILINEAR, {30, 150, 239}},
      {8, VTB_FILTER_BICUBIC, {0, 17, 71, 126, 178, 219, 247, 255}},
      {8, VTB_FILTER_BILINEAR, {0, 25, 75, 125, 175, 214, 241, 255}},
      {1, VTB_FILTER_BICUBIC, {140}},
      {1, VTB_FILTER_BILINEAR, {141}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    vtb_image out = vtb_image_resize(&im, cases[i].width, 1, cases[i].filter);
    for (int x = 0; x < cases[i].width; x++)
      CHECK_MSG(out.pixels[x] == cases[i].want[x], "case %d pixel %d: %d, want %d", (int)i, x,
                out.pixels[x], cases[i].want[x]);
    vtb_image_free(&out);
  }
  vtb_image_free(&im);
}

TEST(resize_is_separable_and_keeps_constants) {
  vtb_image im = noise(11, 17, 3, 3), turned = vtb_image_new(17, 11, 3);
  for (int y = 0; y < 17; y++)
    for (int x = 0; x < 11; x++)
      memcpy(turned.pixels + (x * 17 + y) * 3, im.pixels + (y * 11 + x) * 3, 3);
  vtb_image a = vtb_image_resize(&im, 11, 5, VTB_FILTER_BICUBIC),
            b = vtb_image_resize(&turned, 5, 11, VTB_FILTER_BICUBIC);
  for (int y = 0; y < 5; y++)
    for (int x = 0; x < 11; x++)
      CHECK(memcmp(a.pixels + (y * 11 + x) * 3, b.pixels + (x * 5 + y) * 3, 3) == 0);
  vtb_image_free(&a), vtb_image_free(&b);
  memset(im.pixels, 77, 11 * 17 * 3);
  const int sizes[] = {1, 2, 11, 40};
  for (int i = 0; i < 4; i++) {
    a = vtb_image_resize(&im, sizes[i], sizes[3 - i],
                         i % 2 ? VTB_FILTER_BICUBIC : VTB_FILTER_BILINEAR);
    for (int k = 0; k < sizes[i] * sizes[3 - i] * 3; k++) CHECK(a.pixels[k] == 77);
    vtb_image_free(&a);
  }
  vtb_image_free(&im), vtb_image_free(&turned);
}

TEST(crops_are_centred_and_padded) {
  vtb_image im = vtb_image_new(5, 3, 1);
  for (int i = 0; i < 15; i++) im.pixels[i] = (uint8_t)(i + 1);
  vtb_image out = vtb_image_center_crop(&im, 3, 1, (uint8_t[]){0});
  CHECK(out.pixels[0] == 7 && out.pixels[2] == 9);
  vtb_image_free(&out);
  out = vtb_image_center_crop(&im, 7, 5, (uint8_t[]){0});
  CHECK(out.width == 7 && out.height == 5 && out.pixels[0] == 0 && out.pixels[8] == 1 &&
        out.pixels[34] == 0);
  vtb_image_free(&out);
  vtb_image_free(&im);
}

/* Halves go to the even side, as the usual preprocessing has it. */
TEST(the_middle_of_odd_sides) {
  CHECK(vtb_image_center(5, 4) == 0 && vtb_image_center(7, 4) == 2 && vtb_image_center(9, 4) == 2 &&
        vtb_image_center(11, 4) == 4 && vtb_image_center(8, 4) == 2 && vtb_image_center(3, 4) == 0);
}

TEST(conversion_to_model_input) {
  vtb_image im = vtb_image_new(2, 1, 3);
  memcpy(im.pixels, (uint8_t[]){255, 0, 51, 0, 102, 255}, 6);
  const float mean[3] = {0.5f, 0, 0.2f}, std[3] = {0.5f, 1, 0.1f};
  float out[6];
  vtb_image_to_chw(&im, mean, std, out);
  const double want[6] = {1, -1, 0, 0.4, 0, 8};
  for (int i = 0; i < 6; i++) CHECK_NEAR((double)out[i], want[i], 1e-5);
  vtb_image gray = vtb_image_convert(&im, 1);
  CHECK(gray.pixels[0] == 82 && gray.pixels[1] == 89); /* 76.2 + 5.8; 59.9 + 29.1 */
  vtb_image_free(&gray);
  vtb_image_free(&im);
}

int main(void) {
  RUN(png_round_trip_is_exact);
  RUN(png_types_become_gray_or_rgb);
  RUN(jpeg_decodes_gray_rgb_and_cmyk);
  RUN(damaged_files_are_refused_and_never_crash);
  RUN(resize_matches_the_formula);
  RUN(resize_is_separable_and_keeps_constants);
  RUN(crops_are_centred_and_padded);
  RUN(the_middle_of_odd_sides);
  RUN(conversion_to_model_input);
  return test_done();
}
