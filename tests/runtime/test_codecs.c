/* Files of every kind against what Pillow reads from them (tests/runtime/images/make_images.py),
 * and what is no image. */
#include "runtime/artefact/safetensors.h"
#include "runtime/image/codec.h"
#include "tests/runtime/support.h"

#include <dlfcn.h>

#define IMAGES VTB_SOURCE_DIR "/tests/runtime/images/"

/* A machine without a library: every other is found. */
static const char *absent;
void *dlopen(const char *name, int flags) {
  static void *(*next)(const char *, int);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
  if (absent && name && strstr(name, absent)) return NULL;
  return next(name, flags);
}

static const char *image_file(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, IMAGES "%s", name);
  return path;
}

/* Decoders of lossy formats may round otherwise on another machine. */
static int allowed(const char *name) {
  return vtb_ends_with(name, ".jpg") || strstr(name, "lossy") ? 1 : 0;
}

static bool is_mapped(const char *name) {
  char line[1024];
  bool found = false;
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) found |= strstr(line, name) != NULL;
  if (f) fclose(f);
  return found;
}

/* Before any other test: once found, a library stays. */
TEST(libraries_of_images_are_opened_with_the_first_image) {
  static const struct {
    const char *file, *name, *variable, *image, *remedy;
  } rows[] = {{"libpng16", "libpng", "VTB_LIBPNG", "gray.png", "apt install libpng16-16"},
              {"libjpeg.so", "libjpeg", "VTB_LIBJPEG", "gray.jpg", "apt install libjpeg62-turbo"},
              {"libwebp.so", "libwebp", "VTB_LIBWEBP", "turned8.webp", "apt install libwebp7"}};
  for (int i = 0; i < 3; i++) {
    const char *file = image_file(rows[i].image);
    vtb_image im = {0};
    CHECK_MSG(!is_mapped(rows[i].file), "%s is there before it is needed", rows[i].file);
    absent = rows[i].file;
    CHECK_REFUSED(vtb_image_load(file, 3, &im, err), rows[i].remedy);
    CHECK_REFUSED(vtb_image_load(file, 3, &im, err), rows[i].variable);
    absent = NULL;
    setenv(rows[i].variable, "libm.so.6", 1);
    CHECK_REFUSED(vtb_image_load(file, 3, &im, err), "libm.so.6 is too old: it has no ");
    unsetenv(rows[i].variable);
    if (i == 0) {
      im = vtb_image_new(1, 1, 1);
      absent = rows[i].file;
      CHECK_REFUSED(vtb_image_save_png(temp_path("out.png"), &im, err), rows[i].remedy);
      absent = NULL;
      CHECK(!vtb_path_exists(temp_path("out.png")));
      vtb_image_free(&im);
    }
    CHECK_OK(vtb_image_load(file, 3, &im, err)); /* what failed is tried again */
    CHECK(is_mapped(rows[i].file));
    vtb_image_free(&im);
  }
}

TEST(pixels_are_those_that_pillow_reads) {
  vtb_weights *want = NULL;
  CHECK_OK(vtb_safetensors_load(IMAGES "expected.safetensors", &want, err));
  CHECK(want->n >= 30);
  for (size_t i = 0; i < want->n; i++) {
    const vtb_weight *w = want->at[i];
    vtb_image im = {0};
    CHECK_OK(vtb_image_load(image_file(w->name), 3, &im, err));
    CHECK_MSG(im.height == w->dim[0] && im.width == w->dim[1] && im.channels == 3, "%s: %d x %d",
              w->name, im.width, im.height);
    int most = 0;
    for (int64_t k = 0; k < w->count && im.pixels; k++) {
      int d = abs(im.pixels[k] - ((const uint8_t *)w->data)[k]);
      most = d > most ? d : most;
    }
    CHECK_MSG(most <= allowed(w->name), "%s: %d", w->name, most);
    vtb_image_free(&im);
  }
  vtb_weights_free(want);
}

TEST(gray_stays_gray_unless_colour_is_wanted) {
  static const char *const gray[] = {"gray.jpg", "gray.png", "bits1.png", "la.png", "gray16.png"};
  for (int i = 0; i < 5; i++) {
    vtb_image im = {0};
    CHECK_OK(vtb_image_load(image_file(gray[i]), 0, &im, err));
    CHECK_MSG(im.channels == 1, "%s", gray[i]);
    vtb_image_free(&im);
  }
}

/* 1 2      3 1      5: mirrored along the diagonal, and so on
 * 3 4  6:  4 2 */
TEST(eight_orientations) {
  static const uint8_t want[9][6] = {{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4},
                                     {6, 5, 4, 3, 2, 1}, {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6},
                                     {4, 1, 5, 2, 6, 3}, {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int o = 0; o <= 8; o++) {
    vtb_image im = vtb_image_new(3, 2, 1);
    memcpy(im.pixels, want[0], 6);
    CHECK(vtb__orient(&im, o));
    CHECK(im.width == (o < 5 ? 3 : 2) && im.height == (o < 5 ? 2 : 3));
    CHECK_MSG(memcmp(im.pixels, want[o], 6) == 0, "orientation %d", o);
    vtb_image_free(&im);
  }
}

/* The parser sees nothing behind the end, whatever the numbers say. */
TEST(damaged_exif_says_nothing) {
  static const unsigned char good[] = {'E', 'x', 'i',  'f', 0, 0, 'I', 'I', '*', 0, 8, 0, 0, 0,
                                       1,   0,   0x12, 1,   3, 0, 1,   0,   0,   0, 6, 0, 0, 0};
  CHECK(vtb__exif_orientation(good, sizeof good) == 6);
  CHECK(vtb__exif_orientation(good + 6, sizeof good - 6) == 6);
  for (size_t cut = 0; cut < sizeof good; cut++) {
    unsigned char *copy = malloc(cut + 1);
    memcpy(copy, good, cut);
    CHECK(vtb__exif_orientation(copy, cut) == 0);
    free(copy);
  }
  for (size_t at = 0; at < sizeof good; at++)
    for (int v = 0; v < 256; v++) {
      unsigned char *copy = malloc(sizeof good);
      memcpy(copy, good, sizeof good);
      copy[at] = (unsigned char)v;
      int o = vtb__exif_orientation(copy, sizeof good);
      CHECK(o >= 0 && o <= 8);
      free(copy);
    }
}

TEST(damaged_webp_is_refused_and_never_crashes) {
  static const char *const files[] = {"lossy.webp", "lossless.webp", "alpha_lossy.webp",
                                      "turned8.webp"};
  for (int f = 0; f < 4; f++) {
    size_t n;
    char *data = read_file(image_file(files[f]), &n);
    for (size_t cut = 0; cut < n; cut++) {
      unsigned char *copy = malloc(cut + 1);
      vtb_image im = {0};
      memcpy(copy, data, cut);
      CHECK_REFUSED(vtb_image_decode("x.webp", copy, cut, 0, &im, err), "x.webp");
      CHECK(!im.pixels);
      free(copy);
    }
    for (size_t at = 0; at < n; at++) {
      vtb_image im = {0};
      vtb_error err = {0};
      data[at] ^= (char)0xff;
      if (vtb_image_decode("x.webp", data, n, 3, &im, &err) != VTB_OK) CHECK(err.text[0]);
      vtb_image_free(&im);
      data[at] ^= (char)0xff;
    }
    free(data);
  }
}

TEST(what_is_no_image_file_is_refused_at_once) {
  vtb_image im = {0};
  CHECK_REFUSED(vtb_image_load(image_file("animated.webp"), 3, &im, err), "animated WebP");
  CHECK(mkfifo(temp_path("x.png"), 0600) == 0);
  CHECK_REFUSED(vtb_image_load(temp_path("x.png"), 3, &im, err), "not a regular file");
  CHECK_REFUSED(vtb_image_load_classes(temp_path("x.png"), &im, err), "not a regular file");
  CHECK_REFUSED(vtb_image_load("/dev/zero", 3, &im, err), "not a regular file");
  CHECK_REFUSED(vtb_image_load(temp_path("none.png"), 3, &im, err), "cannot open");
  /* a header of 16383 x 16383 pixels and nothing behind it */
  static const unsigned char bomb[] = {'R',  'I',  'F',  'F', 24,  0,  0, 0, 'W', 'E',  'B',
                                       'P',  'V',  'P',  '8', 'L', 12, 0, 0, 0,   0x2f, 0xfe,
                                       0xbf, 0xff, 0x0f, 0,   0,   0,  0, 0, 0,   0};
  CHECK_REFUSED(vtb_image_decode("bomb.webp", bomb, sizeof bomb, 3, &im, err), "bomb.webp");
}

int main(void) {
  RUN(libraries_of_images_are_opened_with_the_first_image);
  RUN(pixels_are_those_that_pillow_reads);
  RUN(gray_stays_gray_unless_colour_is_wanted);
  RUN(eight_orientations);
  RUN(damaged_exif_says_nothing);
  RUN(damaged_webp_is_refused_and_never_crashes);
  RUN(what_is_no_image_file_is_refused_at_once);
  return test_done();
}
