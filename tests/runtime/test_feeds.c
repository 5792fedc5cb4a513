/* What fills the inputs of a program: images with the classes of their pixels, arrays by name, and
 * files that are not sound. */
#include "runtime/artefact/safetensors.h"
#include "runtime/data/dataset.h"
#include "tests/runtime/support.h"

enum { N = 6, H = 8, W = 12 };

/* Pixel (y, x) of sample i has the class (i + x + 2 y) % 5, and its brightness is 50 times that. */
static int class_of(int i, int y, int x) { return (i + x + 2 * y) % 5; }

static void make_dirs(const char *name) { CHECK_OK(vtb_make_dirs(temp_path(name), err)); }

static void save(const char *folder, int i, int factor) {
  char name[128];
  vtb_image im = vtb_image_new(W, H, 1);
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++) im.pixels[y * W + x] = (uint8_t)(factor * class_of(i, y, x));
  snprintf(name, sizeof name, "%s/%d.png", folder, i);
  CHECK_OK(vtb_image_save_png(temp_path(name), &im, err));
  vtb_image_free(&im);
}

static vtb_dataset *masks(void) {
  vtb_dataset *d = NULL;
  make_dirs("seg/images"), make_dirs("seg/masks");
  for (int i = 0; i < N; i++) save("seg/images", i, 50), save("seg/masks", i, 1);
  CHECK_OK(vtb_dataset_open(temp_path("seg"), NULL, &d, err));
  if (!d) exit(1);
  return d;
}

static vtb_transform plain(void) {
  return (vtb_transform){.prepare = {.channels = 1,
                                     .height = H,
                                     .width = W,
                                     .std = {1.0f / 255, 1.0f / 255, 1.0f / 255},
                                     .crop = 1}};
}

static vtb_feed feed(const char *name, bool is_int, int rank, int64_t a, int64_t b, int64_t c) {
  return (vtb_feed){.name = name, .is_int = is_int, .rank = rank, .dim = {a, b, c}};
}

/* After shifts and flips each pixel still has the class that its brightness says; what came in from
 * outside is to be ignored. */
TEST(masks_follow_their_images) {
  vtb_dataset *d = masks();
  vtb_transform t = plain();
  vtb_feed feeds[] = {feed("picture", false, 3, 1, H, W), feed("y", true, 2, H, W, 0),
                      feed("flat", true, 1, H * W, 0, 0)};
  t.augment.flip = true, t.augment.shift = 3;
  for (int i = 0; i < 3; i++) CHECK_OK(vtb_feed_find(&feeds[i], d, &t, err));
  CHECK(vtb_dataset_has_masks(d) && !vtb_dataset_has_labels(d) && vtb_dataset_count(d) == N);
  vtb_loader_options o = {.dataset = d,
                          .transform = t,
                          .batch = 4,
                          .feeds = feeds,
                          .n_feeds = 3,
                          .shuffle = true,
                          .seed = 5,
                          .n_epochs = 4};
  vtb_loader *l = NULL;
  const vtb_batch *b = NULL;
  CHECK_OK(vtb_loader_open(&o, &l, err));
  int moved = 0, ignored = 0, batches = 0;
  for (;; batches++) {
    CHECK_OK(vtb_loader_next(l, &b, err));
    if (!b) break;
    const float *image = b->at[0];
    const int32_t *y = b->at[1], *flat = b->at[2];
    for (int64_t s = 0; s < 4; s++)
      for (int p = 0; p < H * W; p++) {
        int64_t at = s * H * W + p;
        CHECK(y[at] == flat[at]);
        if (s >= b->n) {
          CHECK(y[at] == -1 && (double)image[at] == 0);
        } else if (y[at] == 255) {
          CHECK((double)image[at] == 0);
          ignored++;
        } else {
          CHECK_NEAR((double)image[at], 50.0 * y[at], 1e-3);
          moved += y[at] != class_of((int)b->samples[s], p / W, p % W);
        }
      }
  }
  CHECK(batches == 8 && moved > 0 && ignored > 0);
  vtb_loader_close(l);
  vtb_dataset_free(d);
}

/* Labels of fewer cells than pixels are those of the pixels at the middles of the cells. */
TEST(classes_of_cells_are_those_at_their_middles) {
  vtb_dataset *d = masks();
  vtb_transform t = plain();
  vtb_feed f = feed("y", true, 1, 24, 0, 0);
  vtb_image mask = {0};
  int32_t y[24];
  CHECK_OK(vtb_feed_find(&f, d, &t, err));
  CHECK(f.height == 4 && f.width == 6);
  CHECK_OK(vtb_dataset_mask(d, 2, &mask, err));
  CHECK(vtb_transform_mask(&t, &mask, 0, 4, 6, y));
  for (int i = 0; i < 24; i++) CHECK(y[i] == class_of(2, 2 * (i / 6) + 1, 2 * (i % 6) + 1));
  vtb_image_free(&mask);
  vtb_dataset_free(d);
}

TEST(what_cannot_be_filled_is_refused) {
  vtb_dataset *d = masks();
  vtb_transform t = plain();
  vtb_feed label = feed("label", true, 0, 0, 0, 0), other = feed("x", false, 2, 3, 4, 0),
           odd = feed("y", true, 1, 25, 0, 0);
  CHECK_REFUSED(vtb_feed_find(&label, d, &t, err), "cannot fill the input \"label\"");
  CHECK_REFUSED(vtb_feed_find(&other, d, &t, err), "numbers of [3, 4] a sample");
  CHECK_REFUSED(vtb_feed_find(&odd, d, &t, err), "images and a class for each pixel");
  vtb_image colour = vtb_image_new(W, H, 3), out = {0};
  memset(colour.pixels, 0, (size_t)W * H * 3);
  CHECK_OK(vtb_image_save_png(temp_path("colour.png"), &colour, err));
  CHECK_REFUSED(vtb_image_load_classes(temp_path("colour.png"), &out, err), "not colours");
  vtb_image_free(&colour);
  vtb_dataset_free(d);
  remove(temp_path("seg/masks/3.png"));
  CHECK_REFUSED(vtb_dataset_open(temp_path("seg"), NULL, &d, err), "3.png has no labels");
}

static void save_arrays(const char *name, const char *const *names, int64_t n) {
  vtb_weights *w = vtb_weights_new();
  for (int k = 0; names[k]; k++) {
    const int64_t of_x[] = {n, 3}, of_label[] = {n};
    bool label = vtb_ends_with(names[k], "label");
    vtb_weight *a = vtb_weights_add(w, names[k], label ? VTB_ELEM_I64 : VTB_ELEM_F64, label ? 1 : 2,
                                    label ? of_label : of_x);
    for (int64_t i = 0; i < a->count; i++) {
      if (label)
        ((int64_t *)a->data)[i] = i % 4;
      else
        ((double *)a->data)[i] = (double)i + 1000 * k;
    }
  }
  CHECK_OK(vtb_safetensors_save(temp_path(name), w, err));
  vtb_weights_free(w);
}

TEST(arrays_are_found_by_name_and_split) {
  static const char *const whole[] = {"x", "label", NULL}, *const split[] = {"train/x",
                                                                             "train/label", "val/x",
                                                                             "val/label", NULL};
  vtb_dataset *d = NULL;
  float x[3];
  int32_t label;
  save_arrays("a.safetensors", whole, 25);
  for (int test = 0; test < 2; test++) {
    vtb_dataset_options o = {.split = test ? "val" : "train", .val_fraction = 0.1};
    CHECK_OK(vtb_dataset_open(temp_path("a.safetensors"), &o, &d, err));
    CHECK(vtb_dataset_count(d) == (test ? 3 : 22) && vtb_dataset_classes(d) == 4);
    CHECK(vtb_dataset_label(d, 1) == (test ? 23 % 4 : 1) && !vtb_dataset_has_images(d));
    vtb_feed of_x = feed("x", false, 1, 3, 0, 0), of_label = feed("label", true, 0, 0, 0, 0);
    CHECK_OK(vtb_feed_find(&of_x, d, NULL, err));
    CHECK_OK(vtb_feed_find(&of_label, d, NULL, err));
    CHECK_OK(vtb_dataset_read(d, of_x.array, 1, false, x, err));
    CHECK_OK(vtb_dataset_read(d, of_label.array, 1, true, &label, err));
    CHECK_NEAR((double)x[2], (test ? 23 * 3 : 3) + 2, 0);
    CHECK(label == vtb_dataset_label(d, 1));
    vtb_feed wide = feed("x", false, 1, 4, 0, 0), none = feed("y", false, 1, 3, 0, 0);
    CHECK_REFUSED(vtb_feed_find(&wide, d, NULL, err), "is [3], the input takes [4]");
    CHECK_REFUSED(vtb_feed_find(&none, d, NULL, err), "it has label, x");
    vtb_dataset_free(d);
  }
  save_arrays("b.safetensors", split, 5);
  CHECK_REFUSED(vtb_dataset_open(temp_path("b.safetensors"),
                                 &(vtb_dataset_options){.split = "test"}, &d, err),
                "has train and val but none for \"test\"");
  CHECK_OK(vtb_dataset_open(temp_path("b.safetensors"), &(vtb_dataset_options){.split = "val"}, &d,
                            err));
  CHECK(vtb_dataset_count(d) == 5 && vtb_dataset_arrays(d) == 2);
  vtb_dataset_free(d);
}

TEST(npy_files_are_read_and_damaged_ones_refused) {
  static const char head[] =
      "\x93NUMPY\x01\x00\x76\x00{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2), }";
  unsigned char file[128 + 12];
  vtb_dataset *d = NULL;
  float x[2];
  memset(file, ' ', sizeof file);
  memcpy(file, head, sizeof head - 1);
  file[127] = '\n';
  for (int i = 0; i < 6; i++) file[128 + 2 * i] = (unsigned char)(10 + i), file[129 + 2 * i] = 0;
  make_dirs("npy/train"), make_dirs("npy/test"), make_dirs("bad");
  write_file(temp_path("npy/train/x.npy"), file, sizeof file);
  write_file(temp_path("npy/test/x.npy"), file, sizeof file);
  CHECK_OK(vtb_dataset_open(temp_path("npy"), NULL, &d, err));
  CHECK(vtb_dataset_count(d) == 3);
  CHECK_OK(vtb_dataset_read(d, 0, 2, false, x, err));
  CHECK((double)x[0] == 14 && (double)x[1] == 15);
  vtb_dataset_free(d);
  write_file(temp_path("bad/x.npy"), file, sizeof file - 1);
  CHECK_REFUSED(vtb_dataset_open(temp_path("bad"), NULL, &d, err), "its shape needs 12");
  write_file(temp_path("bad/x.npy"), file, 20);
  CHECK_REFUSED(vtb_dataset_open(temp_path("bad"), NULL, &d, err), "not a .npy file");
  memcpy(file + 21, ">i2", 3);
  write_file(temp_path("bad/x.npy"), file, sizeof file);
  CHECK_REFUSED(vtb_dataset_open(temp_path("bad"), NULL, &d, err), "byte order");
}

/* An array of labels 0, 1, 2, ... whose last one is `last`. */
static void save_labels(const char *name, int64_t n, int64_t last) {
  vtb_weights *w = vtb_weights_new();
  vtb_weight *x = vtb_weights_add(w, "x", VTB_ELEM_F32, 1, &n),
             *labels = vtb_weights_add(w, "labels", VTB_ELEM_I64, 1, &n);
  for (int64_t i = 0; x && i < n; i++) ((int64_t *)labels->data)[i] = i + 1 < n ? i : last;
  CHECK_OK(vtb_safetensors_save(temp_path(name), w, err));
  vtb_weights_free(w);
}

TEST(one_wrong_label_makes_no_classes) {
  static const struct {
    int64_t last;
    const char *why;
  } wrong[] = {{872415233, "sample 7 has the label 872415233: classes are counted from 0"},
               {1 << 20, "there are at most 1048576"},
               {20000, "sample 7 has the label 20000, and 19993 of the classes below it have no"},
               {16, "classes below it have no samples; if that is right, name the classes"}};
  vtb_dataset *d = NULL;
  make_dirs("labels");
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    save_labels("labels/a.safetensors", 8, wrong[i].last);
    CHECK_REFUSED(vtb_dataset_open(temp_path("labels/a.safetensors"), NULL, &d, err), wrong[i].why);
  }
  save_labels("labels/a.safetensors", 8, 15);
  CHECK_OK(vtb_dataset_open(temp_path("labels/a.safetensors"), NULL, &d, err));
  CHECK(d && vtb_dataset_classes(d) == 16);
  CHECK(d && strstr(vtb_dataset_notes(d), "8 of the 16 classes of a.safetensors have no samples"));
  vtb_dataset_free(d);
  save_labels("labels/a.safetensors", 3, 5);
  write_file(temp_path("labels/classes.txt"), "a\nb\nc\nd\ne\nf\n", 12);
  CHECK_OK(vtb_dataset_open(temp_path("labels/a.safetensors"), NULL, &d, err));
  CHECK_STR(d ? vtb_dataset_class_name(d, 5) : NULL, "f");
  vtb_dataset_free(d);
  static const char list[] = "file,label\n1.png,0\n2.png,1\n3.png,9000\n";
  make_dirs("lists");
  write_file(temp_path("lists/train.csv"), list, strlen(list));
  CHECK_REFUSED(vtb_dataset_open(temp_path("lists"), NULL, &d, err), "has the label 9000");
  write_file(temp_path("lists/val.csv"), list, strlen(list)); /* a few samples may lack most */
  CHECK_OK(vtb_dataset_open(temp_path("lists/"), &(vtb_dataset_options){.split = "val"}, &d, err));
  vtb_dataset_free(d);
}

int main(void) {
  RUN(one_wrong_label_makes_no_classes);
  RUN(masks_follow_their_images);
  RUN(classes_of_cells_are_those_at_their_middles);
  RUN(what_cannot_be_filled_is_refused);
  RUN(arrays_are_found_by_name_and_split);
  RUN(npy_files_are_read_and_damaged_ones_refused);
  return test_done();
}
