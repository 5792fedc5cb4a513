/* Images in tar files and in CIFAR's files: what is found, and what is refused. */
#include "runtime/data/dataset.h"
#include "tests/runtime/support.h"

/* ---- tar files, made by hand ----------------------------------------------------------------- */

typedef struct bytes {
  unsigned char at[1 << 16];
  size_t n;
} bytes;

/* One member; type '0' a file, '1' and '2' links to /etc/passwd, '6' a pipe. */
static void add_member(bytes *b, const char *name, char type, const void *data, size_t n,
                       unsigned long long size) {
  unsigned char *h = b->at + b->n;
  memset(h, 0, 512);
  snprintf((char *)h, 100, "%s", name);
  memcpy(h + 100, "0000644", 7), memcpy(h + 108, "0000000", 7), memcpy(h + 116, "0000000", 7);
  snprintf((char *)h + 124, 12, "%011llo", size);
  memcpy(h + 136, "00000000000", 11);
  h[156] = (unsigned char)type;
  if (type != '0') memcpy(h + 157, "/etc/passwd", 11);
  memcpy(h + 257, "ustar\00000", 8);
  memset(h + 148, ' ', 8);
  unsigned sum = 0;
  for (int i = 0; i < 512; i++) sum += h[i];
  snprintf((char *)h + 148, 8, "%06o", sum);
  memcpy(h + 512, data, n);
  memset(h + 512 + n, 0, (512 - n % 512) % 512);
  b->n += 512 + (n + 511) / 512 * 512;
}

static void add_text(bytes *b, const char *name, const char *text) {
  add_member(b, name, '0', text, strlen(text), strlen(text));
}

static void add_image(bytes *b, const char *name, int value) {
  vtb_image im = vtb_image_new(4, 4, 3);
  memset(im.pixels, value, 48);
  CHECK_OK(vtb_image_save_png(temp_path("one.png"), &im, err));
  vtb_image_free(&im);
  size_t n;
  char *png = read_file(temp_path("one.png"), &n);
  add_member(b, name, '0', png, n, n);
  free(png);
}

static void save_tar(const char *name, bytes *b) {
  memset(b->at + b->n, 0, 1024);
  write_file(temp_path(name), b->at, b->n + 1024);
  b->n = 0;
}

static bytes b;

static vtb_dataset *open_all(const char *name) {
  vtb_dataset *d = NULL;
  CHECK_OK(vtb_dataset_open(temp_path(name), &(vtb_dataset_options){.split = "all"}, &d, err));
  if (!d) exit(1);
  return d;
}

static int first_pixel(const vtb_dataset *d, int64_t i) {
  vtb_image im = {0};
  CHECK_OK(vtb_dataset_image(d, i, 0, &im, err));
  int value = im.pixels ? im.pixels[0] : -1;
  vtb_image_free(&im);
  return value;
}

TEST(labels_stand_beside_images_in_either_order) {
  add_image(&b, "a/000.png", 10), add_text(&b, "a/000.cls", "2\n");
  add_text(&b, "a/001.json", "{\"caption\": [1], \"label\": 1}"), add_image(&b, "a/001.png", 20);
  add_text(&b, "a/002.txt", "left out"), add_image(&b, "a/002.png", 30);
  add_text(&b, "a/002.cls", "0"), add_text(&b, "a/002.json", "{\"label\": 7}");
  save_tar("labels.tar", &b);
  vtb_dataset *d = open_all("labels.tar");
  CHECK(vtb_dataset_count(d) == 3 && vtb_dataset_classes(d) == 3 && !vtb_dataset_named(d));
  for (int i = 0; i < 3; i++)
    CHECK(vtb_dataset_label(d, i) == 2 - i && first_pixel(d, i) == 10 * (i + 1));
  CHECK(vtb_ends_with(vtb_dataset_file(d, 1), "labels.tar/a/001.png"));
  CHECK(strstr(vtb_dataset_notes(d), "1 members of"));
  vtb_dataset_free(d);
}

TEST(folders_in_a_tar_file_are_classes_where_no_member_says_one) {
  add_image(&b, "set/dog/1.png", 1), add_image(&b, "set/cat/1.png", 2);
  save_tar("folders.tar", &b);
  vtb_dataset *d = open_all("folders.tar");
  CHECK(vtb_dataset_classes(d) == 2 && vtb_dataset_label(d, 0) == 1);
  CHECK_STR(vtb_dataset_class_name(d, 0), "cat");
  vtb_dataset_free(d);
  add_image(&b, "set/dog/1.png", 1), add_text(&b, "set/dog/1.cls", "3");
  add_image(&b, "set/cat/1.png", 2);
  save_tar("half.tar", &b);
  CHECK_REFUSED(vtb_dataset_open(temp_path("half.tar"), NULL, &d, err), "cat/1.png has no label");
}

TEST(a_label_of_nothing_is_none_and_blanks_are_no_part_of_one) {
  vtb_dataset *d = NULL;
  add_image(&b, "0.png", 1), add_text(&b, "0.cls", " 1 \n");
  add_image(&b, "1.png", 2), add_text(&b, "1.cls", "0\t");
  save_tar("blanks.tar", &b);
  d = open_all("blanks.tar");
  CHECK(!vtb_dataset_named(d) && vtb_dataset_classes(d) == 2 && vtb_dataset_label(d, 0) == 1);
  vtb_dataset_free(d);
  static const char *const endings[] = {"1.cls", "1.json"}, *const empty[] = {" \n",
                                                                              "{\"label\": \"\"}"};
  for (int k = 0; k < 2; k++) {
    add_image(&b, "0.png", 1), add_text(&b, "0.cls", "1");
    add_image(&b, "1.png", 2), add_text(&b, endings[k], empty[k]);
    save_tar("nothing.tar", &b);
    CHECK_REFUSED(vtb_dataset_open(temp_path("nothing.tar"), NULL, &d, err), "1.png has no label");
  }
}

TEST(shards_are_one_data_set_with_splits_by_their_names) {
  CHECK_OK(vtb_make_dirs(temp_path("shards"), err));
  for (int s = 0; s < 3; s++) {
    char name[64];
    add_image(&b, "0.png", s), add_text(&b, "0.cls", s == 1 ? "1" : "0");
    snprintf(name, sizeof name, "shards/%s-%02d.tar", s < 2 ? "train" : "valid", s);
    save_tar(name, &b);
  }
  vtb_dataset *train = NULL, *val = NULL;
  vtb_dataset_options o = {.val_fraction = 0.1};
  CHECK_OK(vtb_dataset_open_pair(temp_path("shards"), &o, NULL, &train, &val, err));
  CHECK(vtb_dataset_count(train) == 2 && vtb_dataset_count(val) == 1);
  CHECK(vtb_dataset_classes(val) == 2); /* as many as in train */
  vtb_dataset_free(train), vtb_dataset_free(val);
  train = open_all("shards/train-{00..01}.tar");
  CHECK(vtb_dataset_count(train) == 2 && first_pixel(train, 1) == 1);
  vtb_dataset_free(train);
  train = open_all("shards/*.tar");
  CHECK(vtb_dataset_count(train) == 3);
  vtb_dataset_free(train);
  CHECK_REFUSED(vtb_dataset_open(temp_path("shards/train-{00..07}.tar"), NULL, &train, err),
                "there is no");
}

TEST(hostile_members_are_left_out_or_refused) {
  vtb_dataset *d = NULL;
  add_image(&b, "/etc/../../x.png", 5), add_text(&b, "/etc/../../x.cls", "0");
  add_member(&b, "link.png", '2', "", 0, 0), add_member(&b, "hard.png", '1', "", 0, 0);
  add_member(&b, "pipe.png", '6', "", 0, 0);
  save_tar("evil.tar", &b);
  d = open_all("evil.tar");
  CHECK(vtb_dataset_count(d) == 1 && first_pixel(d, 0) == 5);
  CHECK(strstr(vtb_dataset_notes(d), "3 members of"));
  vtb_dataset_free(d);

  add_member(&b, "huge.png", '0', "x", 1, 0777777777);
  save_tar("huge.tar", &b);
  CHECK_REFUSED(vtb_dataset_open(temp_path("huge.tar"), NULL, &d, err), "huge.png has");
  add_member(&b, "0.cls", '0', "x", 1, 077777777);
  save_tar("label.tar", &b);
  CHECK_REFUSED(vtb_dataset_open(temp_path("label.tar"), NULL, &d, err), "too large for a label");
  add_text(&b, "readme.txt", "no image");
  save_tar("none.tar", &b);
  CHECK_REFUSED(vtb_dataset_open(temp_path("none.tar"), NULL, &d, err), "no .jpg");
  write_file(temp_path("packed.tar.gz"), "\x1f\x8b\x08", 3);
  CHECK_REFUSED(vtb_dataset_open(temp_path("packed.tar.gz"), NULL, &d, err), "gunzip");
  write_file(temp_path("renamed.tar"), "\x1f\x8b\x08 and more", 12);
  CHECK_REFUSED(vtb_dataset_open(temp_path("renamed.tar"), NULL, &d, err), "renamed.tar");
}

TEST(cut_and_flipped_tar_files_never_give_wrong_bytes) {
  for (int i = 0; i < 4; i++) {
    char name[32];
    snprintf(name, sizeof name, "%d.png", i);
    add_image(&b, name, i);
    snprintf(name, sizeof name, "%d.cls", i);
    add_text(&b, name, "0");
  }
  size_t n = b.n;
  save_tar("whole.tar", &b);
  char *whole = read_file(temp_path("whole.tar"), &n);
  for (size_t k = 0; k < 300; k++) {
    char *copy = malloc(n);
    memcpy(copy, whole, n);
    size_t length = k % 2 ? n : n * k / 300;
    if (k % 2) copy[(k * 7919) % n] ^= (char)(1 << k % 8);
    write_file(temp_path("bent.tar"), copy, length);
    vtb_dataset *d = NULL;
    vtb_error err = {0};
    if (vtb_dataset_open(temp_path("bent.tar"), NULL, &d, &err) == VTB_OK) {
      for (int64_t i = 0; i < vtb_dataset_count(d); i++) {
        vtb_image im = {0};
        vtb_error why = {0};
        if (vtb_dataset_image(d, i, 0, &im, &why) == VTB_OK) CHECK(im.pixels[0] == im.pixels[47]);
        vtb_image_free(&im);
      }
      vtb_dataset_free(d);
    } else {
      CHECK_MSG(strstr(err.text, "bent.tar"), "it says: %s", err.text);
    }
    free(copy);
  }
  free(whole);
}

/* ---- CIFAR ----------------------------------------------------------------------------------- */

/* n images: planes of `i`, 2 i and 3 i; labels i % 4. */
static void save_cifar(const char *name, int n, int labels, size_t more) {
  size_t record = (size_t)labels + 3072;
  unsigned char *file = calloc((size_t)n * record + more, 1);
  for (int i = 0; i < n; i++) {
    unsigned char *at = file + (size_t)i * record;
    if (labels == 2) *at++ = 19;
    *at++ = (unsigned char)(i % 4);
    for (int p = 0; p < 3; p++) memset(at + 1024 * p, i * (p + 1), 1024);
  }
  write_file(temp_path(name), file, (size_t)n * record + more);
  free(file);
}

TEST(cifar_files_are_read_and_damaged_ones_refused) {
  vtb_dataset *d = NULL;
  CHECK_OK(vtb_make_dirs(temp_path("c10"), err));
  for (int k = 1; k < 6; k++) {
    char name[64];
    snprintf(name, sizeof name, "c10/data_batch_%d.bin", k);
    save_cifar(name, 8, 1, 0);
  }
  save_cifar("c10/test_batch.bin", 6, 1, 0);
  CHECK_OK(vtb_dataset_open(temp_path("c10"), NULL, &d, err));
  CHECK(vtb_dataset_count(d) == 40 && vtb_dataset_classes(d) == 10);
  CHECK(vtb_dataset_label(d, 8 + 3) == 3);
  vtb_image im = {0};
  CHECK_OK(vtb_dataset_image(d, 13, 0, &im, err));
  CHECK(im.width == 32 && im.channels == 3 && im.pixels[0] == 5 && im.pixels[1] == 10 &&
        im.pixels[3071] == 15);
  vtb_image_free(&im);
  vtb_dataset_free(d);

  CHECK_OK(vtb_make_dirs(temp_path("c100"), err));
  save_cifar("c100/train.bin", 5, 2, 0), save_cifar("c100/test.bin", 5, 2, 0);
  CHECK_OK(vtb_dataset_open(temp_path("c100"), &(vtb_dataset_options){.split = "test"}, &d, err));
  CHECK(vtb_dataset_count(d) == 5 && vtb_dataset_classes(d) == 100 && vtb_dataset_label(d, 3) == 3);
  vtb_dataset_free(d);

  save_cifar("c100/train.bin", 5, 2, 100);
  CHECK_REFUSED(vtb_dataset_open(temp_path("c100"), NULL, &d, err), "no whole number of images");
  save_cifar("c10/data_batch_3.bin", 3, 1, 0);
  size_t n;
  char *file = read_file(temp_path("c10/data_batch_3.bin"), &n);
  file[3073] = 77;
  write_file(temp_path("c10/data_batch_3.bin"), file, n);
  free(file);
  CHECK_REFUSED(vtb_dataset_open(temp_path("c10"), NULL, &d, err), "image 1 has the label 77");
  remove(temp_path("c10/data_batch_4.bin"));
  CHECK_OK(vtb_make_dirs(temp_path("py"), err));
  write_file(temp_path("py/data_batch_1"), "x", 1);
  CHECK_REFUSED(vtb_dataset_open(temp_path("py"), NULL, &d, err), "binary version");
}

int main(void) {
  RUN(labels_stand_beside_images_in_either_order);
  RUN(folders_in_a_tar_file_are_classes_where_no_member_says_one);
  RUN(a_label_of_nothing_is_none_and_blanks_are_no_part_of_one);
  RUN(shards_are_one_data_set_with_splits_by_their_names);
  RUN(hostile_members_are_left_out_or_refused);
  RUN(cut_and_flipped_tar_files_never_give_wrong_bytes);
  RUN(cifar_files_are_read_and_damaged_ones_refused);
  return test_done();
}
