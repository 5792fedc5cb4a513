/* What a data set is, in a line: whatever of it is another makes another line, and says what. */
#include "runtime/artefact/safetensors.h"
#include "runtime/train/fingerprint.h"
#include "tests/runtime/support.h"

enum { SIDE = 4, N = 5 };

static char *print_of(const char *path) {
  vtb_dataset *d = NULL;
  static char prints[4][VTB_FINGERPRINT];
  static int next;
  char *out = prints[next++ % 4];
  CHECK_OK(vtb_dataset_open(temp_path(path), &(vtb_dataset_options){.split = "all"}, &d, err));
  if (!d) exit(1);
  CHECK_OK(vtb_fingerprint(d, out, err));
  vtb_dataset_free(d);
  return out;
}

static void save_png(const char *name, int value) {
  vtb_image im = vtb_image_new(SIDE, SIDE, 1);
  memset(im.pixels, 1, SIDE * SIDE);
  im.pixels[7] = (uint8_t)value;
  CHECK_OK(vtb_image_save_png(temp_path(name), &im, err));
  vtb_image_free(&im);
}

/* The words that differ between two lines. */
static void expect(const char *was, const char *is, const char *const *words) {
  char said[400] = "";
  vtb_tell_differences(was, is, said, sizeof said);
  for (; *words; words++)
    CHECK_MSG(strstr(said, *words) != NULL, "\"%s\" does not say %s", said, *words);
}
#define EXPECT(was, is, ...) expect(was, is, (const char *const[]){__VA_ARGS__, NULL})

TEST(images_labels_and_names_count) {
  char name[64], was[VTB_FINGERPRINT];
  for (int c = 0; c < 2; c++) {
    snprintf(name, sizeof name, "folder/%c", 'a' + c);
    CHECK_OK(vtb_make_dirs(temp_path(name), err));
    for (int i = 0; i < N; i++) {
      snprintf(name, sizeof name, "folder/%c/%d.png", 'a' + c, i);
      save_png(name, 10 * c + i);
    }
  }
  strcpy(was, print_of("folder"));
  CHECK_STR(print_of("folder"), was);
  save_png("folder/b/4.png", 99);
  EXPECT(was, print_of("folder"), "contents=");
  save_png("folder/b/4.png", 14);
  CHECK_STR(print_of("folder"), was);
  CHECK(rename(temp_path("folder/b/4.png"), temp_path("folder/a/9.png")) == 0);
  EXPECT(was, print_of("folder"), "labels=");
  CHECK(rename(temp_path("folder/a/9.png"), temp_path("folder/b/4.png")) == 0);
  CHECK(rename(temp_path("folder/b"), temp_path("folder/c")) == 0);
  EXPECT(was, print_of("folder"), "classes=");
  CHECK(rename(temp_path("folder/c"), temp_path("folder/b")) == 0);
  CHECK(remove(temp_path("folder/b/4.png")) == 0);
  EXPECT(was, print_of("folder"), "samples=10 (now samples=9)");
}

/* One pixel of one mask. */
TEST(masks_count) {
  char name[64], was[VTB_FINGERPRINT];
  CHECK_OK(vtb_make_dirs(temp_path("seg/images"), err));
  CHECK_OK(vtb_make_dirs(temp_path("seg/masks"), err));
  for (int i = 0; i < N; i++) {
    snprintf(name, sizeof name, "seg/images/%d.png", i);
    save_png(name, 50 + i);
    snprintf(name, sizeof name, "seg/masks/%d.png", i);
    save_png(name, 2);
  }
  strcpy(was, print_of("seg"));
  for (int i = 0; i < N; i++) {
    snprintf(name, sizeof name, "seg/masks/%d.png", i);
    save_png(name, 3);
    EXPECT(was, print_of("seg"), "contents=");
    save_png(name, 2);
    CHECK_STR(print_of("seg"), was);
  }
}

/* `other`: number of the element that is another; -1: none. swapped: the arrays' numbers. */
static void save_arrays(int other_x, int other_z, bool swapped) {
  vtb_weights *w = vtb_weights_new();
  for (int k = 0; k < 2; k++) {
    vtb_weight *a = vtb_weights_add(w, k ? "z" : "x", VTB_ELEM_F32, 2, (int64_t[]){N, 3});
    int other = k ? other_z : other_x, of = swapped ? 1 - k : k;
    for (int i = 0; i < N * 3; i++)
      ((float *)a->data)[i] = (float)(i + 100 * of) + (i == other ? 0.5f : 0);
  }
  CHECK_OK(vtb_safetensors_save(temp_path("arrays.safetensors"), w, err));
  vtb_weights_free(w);
}

TEST(arrays_count) {
  char was[VTB_FINGERPRINT];
  save_arrays(-1, -1, false);
  strcpy(was, print_of("arrays.safetensors"));
  for (int i = 0; i < N * 3; i += 2) {
    save_arrays(i, -1, false);
    EXPECT(was, print_of("arrays.safetensors"), "contents=");
    save_arrays(-1, i, false);
    EXPECT(was, print_of("arrays.safetensors"), "contents=");
  }
  save_arrays(-1, -1, true);
  EXPECT(was, print_of("arrays.safetensors"), "contents=");
  save_arrays(-1, -1, false);
  CHECK_STR(print_of("arrays.safetensors"), was);
}

TEST(what_differs_is_told) {
  char said[200] = "";
  vtb_tell_differences("lr=0.1 model=a/x.vtb flip", "lr=0.2 model=b/x.vtb flip ema=0.9", said,
                       sizeof said);
  CHECK_STR(said, "lr=0.1 (now lr=0.2), now ema=0.9");
  *said = 0;
  vtb_tell_differences("lr=0.1 flip", "lr=0.1", said, sizeof said);
  CHECK_MSG(strstr(said, "flip") != NULL, "%s", said);
  *said = 0;
  vtb_tell_others("init=a/w.pth seed=1", "init=b/v.pth seed=1", "there", said, sizeof said);
  CHECK_STR(said, "init=a/w.pth (there init=b/v.pth)");
  *said = 0;
  vtb_tell_differences("data=a/x", "data=b/x", said,
                       sizeof said); /* of these the whole path counts */
  CHECK_STR(said, "data=a/x (now data=b/x)");
  *said = 0;
  vtb_tell_differences("lr=0.1 b=2", "lr=0.1 b=2", said, sizeof said);
  CHECK_STR(said, "");
}

int main(void) {
  RUN(images_labels_and_names_count);
  RUN(masks_count);
  RUN(arrays_count);
  RUN(what_differs_is_told);
  return test_done();
}
