#include "runtime/data/dataset.h"
#include "runtime/launch/pixels.h"
#include "tests/runtime/support.h"

#include <zlib.h>

enum { N = 50, SIDE = 6 };

static unsigned char pixel_of(int64_t sample, int i) { return (unsigned char)(sample * 5 + i); }

/* IDX files of N samples of SIDE x SIDE; label = sample % 4. */
static unsigned char *make_images(size_t *n) {
  *n = 16 + N * SIDE * SIDE;
  unsigned char *f = calloc(*n, 1);
  memcpy(f, (unsigned char[]){0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, SIDE, 0, 0, 0, SIDE}, 16);
  for (int s = 0; s < N; s++)
    for (int i = 0; i < SIDE * SIDE; i++) f[16 + s * SIDE * SIDE + i] = pixel_of(s, i);
  return f;
}

static unsigned char *make_labels(size_t *n) {
  *n = 8 + N;
  unsigned char *f = calloc(*n, 1);
  memcpy(f, (unsigned char[]){0, 0, 8, 1, 0, 0, 0, N}, 8);
  for (int s = 0; s < N; s++) f[8 + s] = (unsigned char)(s % 4);
  return f;
}

static void write_gz(const char *path, const void *data, size_t n) {
  gzFile f = gzopen(path, "wb");
  if (!f || gzwrite(f, data, (unsigned)n) != (int)n || gzclose(f) != Z_OK) exit(1);
}

static void write_idx(const char *folder, const char *stem, bool gz) {
  char path[256];
  vtb_error err = {0};
  if (vtb_make_dirs(temp_path(folder), &err) != VTB_OK) exit(1);
  size_t n;
  unsigned char *images = make_images(&n);
  snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte%s", folder, stem, gz ? ".gz" : "");
  (gz ? write_gz : write_file)(temp_path(path), images, n);
  unsigned char *labels = make_labels(&n);
  snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte%s", folder, stem, gz ? ".gz" : "");
  (gz ? write_gz : write_file)(temp_path(path), labels, n);
  free(images);
  free(labels);
}

static vtb_dataset *open_set(const char *folder, const char *split) {
  vtb_dataset *d = NULL;
  CHECK_OK(vtb_dataset_open(temp_path(folder), &(vtb_dataset_options){.split = split}, &d, err));
  if (!d) exit(1);
  return d;
}

TEST(idx_reads_plain_and_gzip_files_and_splits) {
  write_idx("idx", "train", false);
  write_idx("idx", "t10k", true);
  for (int k = 0; k < 3; k++) {
    vtb_dataset *d = open_set("idx", k == 0 ? NULL : k == 1 ? "train" : "test");
    vtb_image im = {0};
    CHECK(vtb_dataset_count(d) == N && vtb_dataset_classes(d) == 4 && vtb_dataset_label(d, 7) == 3);
    CHECK_STR(vtb_dataset_class_name(d, 2), "2");
    CHECK_OK(vtb_dataset_image(d, 9, 3, &im, err));
    CHECK(im.width == SIDE && im.height == SIDE && im.channels == 3);
    CHECK(im.pixels[3 * 5] == pixel_of(9, 5) && im.pixels[3 * 5 + 2] == pixel_of(9, 5));
    vtb_image_free(&im);
    vtb_dataset_free(d);
  }
  vtb_dataset *d = NULL;
  CHECK_OK(vtb_dataset_open(temp_path("idx"), &(vtb_dataset_options){.limit = 10}, &d, err));
  CHECK(d && vtb_dataset_count(d) == 10);
  vtb_dataset_free(d);
}

TEST(class_names_come_from_the_class_file) {
  write_idx("named", "train", false);
  write_file(temp_path("named/classes.txt"), "cat\r\ndog\nbird \n\nfish\n", 21);
  vtb_dataset *d = open_set("named", "train");
  CHECK_STR(vtb_dataset_class_name(d, 1), "dog");
  CHECK_STR(vtb_dataset_class_name(d, 2), "bird");
  CHECK_STR(vtb_dataset_class_name(d, 9), "?");
  vtb_dataset_free(d);
  write_file(temp_path("named/classes.txt"), "cat\n", 4);
  CHECK_REFUSED(vtb_dataset_open(temp_path("named"), NULL, &d, err), "1 names for 4 classes");
}

TEST(damaged_idx_files_are_refused) {
  write_idx("bad", "train", false);
  size_t n;
  unsigned char *images = make_images(&n);
  char keep[512];
  snprintf(keep, sizeof keep, "%s", temp_path("bad/train-images-idx3-ubyte"));
  vtb_dataset *d = NULL;
  for (size_t cut = 0; cut < n; cut += cut < 20 ? 1 : 97) {
    write_file(keep, images, cut);
    CHECK_REFUSED(vtb_dataset_open(temp_path("bad"), NULL, &d, err), "train-images-idx3-ubyte");
  }
  static const struct {
    int at;
    unsigned char value;
    const char *reason;
  } cases[] = {{0, 1, "not an IDX"},     {2, 0x0d, "type 0d"},    {3, 1, "rank 1"},
               {7, N + 1, "sizes need"}, {8, 0xff, "sizes need"}, {11, 0, "sizes need"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unsigned char saved = images[cases[i].at];
    images[cases[i].at] = cases[i].value;
    write_file(keep, images, n);
    CHECK_REFUSED(vtb_dataset_open(temp_path("bad"), NULL, &d, err), cases[i].reason);
    images[cases[i].at] = saved;
  }
  write_file(keep, images, n);
  size_t nl;
  unsigned char *labels = make_labels(&nl);
  labels[7] = N - 1;
  write_file(temp_path("bad/train-labels-idx1-ubyte"), labels, nl - 1);
  CHECK_REFUSED(vtb_dataset_open(temp_path("bad"), NULL, &d, err), "49 labels for 50 images");
  labels[7] = N;
  labels[8 + 17] = 200; /* one byte among 0 .. 3 */
  write_file(temp_path("bad/train-labels-idx1-ubyte"), labels, nl);
  CHECK_REFUSED(vtb_dataset_open(temp_path("bad"), NULL, &d, err),
                "sample 17 has the label 200, and 196 of the classes below it have no samples");
  remove(temp_path("bad/train-labels-idx1-ubyte"));
  CHECK_REFUSED(vtb_dataset_open(temp_path("bad"), NULL, &d, err), "but not the labels");
  free(images);
  free(labels);
}

TEST(damaged_gzip_is_refused) {
  write_idx("badgz", "train", true);
  size_t n;
  char path[512]; /* temp_path's own buffers come round again */
  snprintf(path, sizeof path, "%s", temp_path("badgz/train-images-idx3-ubyte.gz"));
  char *file = read_file(path, &n);
  vtb_dataset *d = NULL;
  for (size_t cut = 1; cut < n; cut += 7) {
    write_file(path, file, cut);
    CHECK_REFUSED(vtb_dataset_open(temp_path("badgz"), NULL, &d, err), "train-images");
  }
  file[n / 2] ^= 0x55;
  write_file(path, file, n);
  CHECK_REFUSED(vtb_dataset_open(temp_path("badgz"), NULL, &d, err), "damaged");
  free(file);
}

static void save_png(const char *name, int side, int value) {
  vtb_image im = vtb_image_new(side, side, 3);
  memset(im.pixels, value, (size_t)(side * side * 3));
  CHECK_OK(vtb_image_save_png(temp_path(name), &im, err));
  vtb_image_free(&im);
}

static void make_dirs(const char *name) { CHECK_OK(vtb_make_dirs(temp_path(name), err)); }

TEST(image_folders_sort_classes_and_files) {
  make_dirs("folder/train/zebra"), make_dirs("folder/train/ant"), make_dirs("folder/val/ant");
  make_dirs("folder/val/zebra");
  save_png("folder/train/zebra/b.png", 8, 1), save_png("folder/train/zebra/a.PNG", 8, 2);
  save_png("folder/train/ant/x.png", 8, 3), save_png("folder/val/zebra/v.png", 8, 4);
  write_file(temp_path("folder/train/ant/notes.txt"), "x", 1);
  vtb_dataset *d = open_set("folder", "train");
  CHECK(vtb_dataset_count(d) == 3 && vtb_dataset_classes(d) == 2);
  CHECK_STR(vtb_dataset_class_name(d, 0), "ant");
  CHECK(vtb_dataset_label(d, 0) == 0 && vtb_dataset_label(d, 1) == 1 &&
        vtb_dataset_label(d, 2) == 1);
  CHECK(vtb_ends_with(vtb_dataset_file(d, 1), "zebra/a.PNG"));
  vtb_image im = {0};
  CHECK_OK(vtb_dataset_image(d, 1, 0, &im, err));
  CHECK(im.pixels && im.pixels[0] == 2);
  vtb_image_free(&im);
  vtb_dataset_free(d);
  CHECK_OK(vtb_dataset_open(temp_path("folder"), &(vtb_dataset_options){.limit = 2}, &d,
                            err)); /* one of each class */
  CHECK(vtb_dataset_count(d) == 2 && vtb_dataset_label(d, 0) == 0 && vtb_dataset_label(d, 1) == 1);
  vtb_dataset_free(d);
  d = open_set("folder", "val");
  CHECK(vtb_dataset_count(d) == 1 && vtb_dataset_label(d, 0) == 1);
  vtb_dataset_free(d);
  CHECK_REFUSED(
      vtb_dataset_open(temp_path("folder"), &(vtb_dataset_options){.split = "test"}, &d, err),
      "has train and val but none for \"test\"");
  d = open_set("folder/train", "train"); /* no splits inside */
  CHECK(vtb_dataset_count(d) == 3);
  vtb_dataset_free(d);
}

TEST(splits_share_the_classes_of_train) {
  make_dirs("uneven/train/a"), make_dirs("uneven/train/b"), make_dirs("uneven/val/b");
  save_png("uneven/train/a/1.png", 2, 0), save_png("uneven/train/b/1.png", 2, 0),
      save_png("uneven/val/b/1.png", 2, 0);
  vtb_dataset *d = open_set("uneven", "val");
  CHECK(vtb_dataset_classes(d) == 2 && vtb_dataset_label(d, 0) == 1);
  CHECK_STR(vtb_dataset_class_name(d, 0), "a");
  vtb_dataset_free(d);
  make_dirs("uneven/val/c");
  CHECK_REFUSED(
      vtb_dataset_open(temp_path("uneven"), &(vtb_dataset_options){.split = "val"}, &d, err),
      "class c is not among those of");
  write_idx("idx2", "train", false), write_idx("idx2", "t10k", false);
  size_t n;
  unsigned char *labels = make_labels(&n);
  for (size_t i = 8; i < n; i++) labels[i] = 0;
  write_file(temp_path("idx2/t10k-labels-idx1-ubyte"), labels, n);
  free(labels);
  d = open_set("idx2", "test");
  CHECK(vtb_dataset_classes(d) == 4);
  vtb_dataset_free(d);
}

TEST(missing_data_is_explained) {
  vtb_dataset *d = NULL;
  make_dirs("nothing"), make_dirs("half/train/a");
  save_png("half/train/a/1.png", 2, 0);
  CHECK_REFUSED(vtb_dataset_open(temp_path("nothing"), NULL, &d, err), "expected IDX files");
  CHECK_REFUSED(vtb_dataset_open(temp_path("none"), NULL, &d, err), "no data set at");
  CHECK_REFUSED(
      vtb_dataset_open(temp_path("half"), &(vtb_dataset_options){.split = "val"}, &d, err),
      "none for \"val\"");
  CHECK_REFUSED(
      vtb_dataset_open(temp_path("half"), &(vtb_dataset_options){.split = "best"}, &d, err),
      "none of train");
  CHECK_REFUSED(vtb_dataset_open(temp_path("half/train/a/1.png"), NULL, &d, err),
                "expected a .safetensors file");
}

TEST(permutations_are_bijections_that_differ_by_epoch) {
  const int64_t sizes[] = {1, 2, 3, 17, 256, 1000};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    int64_t n = sizes[s], same = 0, fixed = 0;
    char *seen = calloc((size_t)n, 1);
    for (int64_t i = 0; i < n; i++) {
      int64_t p = vtb_permute(7, 3, n, i);
      CHECK(p >= 0 && p < n && !seen[p]);
      seen[p] = 1;
      same += p == vtb_permute(7, 4, n, i);
      fixed += p == i;
    }
    if (n >= 256)
      CHECK_MSG(same < 10 && fixed < 10, "n %d: %d equal, %d fixed", (int)n, (int)same, (int)fixed);
    free(seen);
  }
}

static vtb_transform augmenting(const vtb_dataset *d) {
  vtb_transform t;
  CHECK_OK(vtb_transform_init(&t, d, 1, SIDE, SIDE, err));
  t.augment.shift = 2, t.augment.flip = true, t.augment.erase_prob = 0.5;
  return t;
}

/* Hash of everything the loader gives from (epoch, batch) on, and of the last `tail` batches of
 * it. */
static uint64_t hash_batches(const vtb_dataset *d, int threads, int64_t epoch, int64_t batch,
                             int64_t skip, int64_t *n) {
  vtb_loader_options o = {.dataset = d,
                          .transform = augmenting(d),
                          .batch = 8,
                          .shuffle = true,
                          .drop_last = false,
                          .seed = 11,
                          .start_epoch = epoch,
                          .start_batch = batch,
                          .n_epochs = 3,
                          .n_threads = threads};
  vtb_loader *l = NULL;
  const vtb_batch *b = NULL;
  uint64_t h = VTB_HASH_INIT;
  CHECK_OK(vtb_loader_open(&o, &l, err));
  *n = 0;
  for (;;) {
    CHECK_OK(vtb_loader_next(l, &b, err));
    if (!b) break;
    if ((*n)++ < skip) continue;
    h = vtb_hash_bytes(h, b->images, 8 * SIDE * SIDE * sizeof(float));
    h = vtb_hash_bytes(h, b->labels, 8 * sizeof(int32_t));
    h = vtb_hash_bytes(h, &b->epoch, sizeof b->epoch);
    h = vtb_hash_bytes(h, &b->index, sizeof b->index);
  }
  vtb_loader_close(l);
  return h;
}

TEST(batches_do_not_depend_on_threads_and_can_be_resumed) {
  write_idx("load", "train", false);
  vtb_dataset *d = open_set("load", "train");
  int64_t n;
  uint64_t whole = hash_batches(d, 1, 0, 0, 0, &n);
  CHECK(n == 21); /* 3 epochs of 7 */
  CHECK(hash_batches(d, 4, 0, 0, 0, &n) == whole);
  uint64_t tail = hash_batches(d, 2, 0, 0, 10, &n);
  CHECK(hash_batches(d, 3, 1, 3, 0, &n) == tail);
  CHECK(n == 11);
  CHECK(tail != whole);
  vtb_dataset_free(d);
}

TEST(the_last_batch_is_padded_and_every_sample_comes_once) {
  vtb_dataset *d = open_set("load", "train");
  vtb_loader_options o = {.dataset = d,
                          .transform = augmenting(d),
                          .batch = 8,
                          .shuffle = true,
                          .n_epochs = 1,
                          .seed = 2};
  vtb_loader *l = NULL;
  const vtb_batch *b = NULL;
  int seen[N] = {0}, padding = 0;
  CHECK_OK(vtb_loader_open(&o, &l, err));
  for (;;) {
    CHECK_OK(vtb_loader_next(l, &b, err));
    if (!b) break;
    for (int i = 0; i < 8; i++) {
      if (i < b->n) {
        seen[b->samples[i]]++;
        CHECK(b->labels[i] == b->samples[i] % 4);
      } else {
        padding++;
        CHECK(b->labels[i] == -1 && (double)b->images[i * SIDE * SIDE + 3] == 0);
      }
    }
  }
  for (int i = 0; i < N; i++) CHECK(seen[i] == 1);
  CHECK(padding == 6);
  vtb_loader_close(l);
  o.drop_last = true;
  o.batch = 64;
  CHECK_REFUSED(vtb_loader_open(&o, &l, err), "fewer than a batch of 64");
  vtb_dataset_free(d);
}

/* Pieces of shares of batches of 24 are the rows of the whole ones, from the second of the second
 * epoch on; the last batch is padded, some pieces have no sample at all. */
static void check_shares(const vtb_dataset *d, int ranks, int pieces, bool drop_last) {
  int64_t rows = 24 / ranks / pieces;
  vtb_loader_options o = {.dataset = d,
                          .transform = augmenting(d),
                          .batch = 24,
                          .shuffle = true,
                          .drop_last = drop_last,
                          .seed = 3,
                          .start_epoch = 1,
                          .start_batch = 1,
                          .n_epochs = 3};
  vtb_loader *whole = NULL, *share[24] = {NULL};
  const vtb_batch *want = NULL, *got = NULL;
  CHECK_OK(vtb_loader_open(&o, &whole, err));
  o.batch = rows, o.whole = 24, o.pieces = pieces;
  for (int r = 0; r < ranks; r++, o.first += rows * pieces)
    CHECK_OK(vtb_loader_open(&o, &share[r], err));
  int batches = 0;
  for (;; batches++) {
    CHECK_OK(vtb_loader_next(whole, &want, err));
    for (int i = 0; i < ranks * pieces; i++) {
      int64_t first = rows * i, left = want ? want->n - first : 0;
      CHECK_OK(vtb_loader_next(share[i / pieces], &got, err));
      CHECK(!got == !want);
      if (!got || !want) continue;
      CHECK(got->epoch == want->epoch && got->index == want->index && got->piece == i % pieces);
      CHECK(got->n == (left < 0 ? 0 : left < rows ? left : rows));
      CHECK(memcmp(got->labels, want->labels + first, (size_t)rows * 4) == 0);
      CHECK(memcmp(got->images, want->images + first * SIDE * SIDE,
                   (size_t)(rows * SIDE * SIDE) * sizeof(float)) == 0);
    }
    if (!want) break;
  }
  CHECK(batches == (drop_last ? 3 : 5));
  vtb_loader_close(whole);
  for (int r = 0; r < ranks; r++) vtb_loader_close(share[r]);
}

TEST(shares_of_batches_are_their_rows) {
  vtb_dataset *d = open_set("load", "train");
  const int parts[][2] = {{1, 1}, {2, 1}, {3, 1}, {1, 4}, {4, 2}, {24, 1}, {2, 12}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    check_shares(d, parts[i][0], parts[i][1], true);
    check_shares(d, parts[i][0], parts[i][1], false);
  }
  vtb_dataset_free(d);
}

/* Element i of sample s of a batch whose images are bytes. */
static float made_of(const char *pixels, int s, int i) {
  vtb_pixels at = vtb_pixels_layout(8, 1, SIDE * SIDE);
  const int32_t *box = (const int32_t *)(const void *)(pixels + at.erased) + 4 * s;
  int x = i % SIDE - box[0], y = i / SIDE - box[1];
  if (x >= 0 && x < box[2] && y >= 0 && y < box[3]) return 0;
  int byte = (unsigned char)pixels[at.bytes + (size_t)(s * SIDE * SIDE + i)];
  return ((const float *)(const void *)(pixels + at.values))[byte];
}

TEST(pixels_are_the_images_before_they_are_normalised) {
  vtb_dataset *d = open_set("load", "train");
  vtb_loader_options o = {.dataset = d,
                          .transform = augmenting(d),
                          .batch = 8,
                          .shuffle = true,
                          .n_epochs = 2,
                          .seed = 5};
  vtb_loader *floats = NULL, *pixels = NULL;
  const vtb_batch *want = NULL, *got = NULL;
  int wrong = 0, zeros = 0, batches = 0;
  CHECK_OK(vtb_loader_open(&o, &floats, err));
  o.pixels = true;
  CHECK_OK(vtb_loader_open(&o, &pixels, err));
  for (;; batches++) {
    CHECK_OK(vtb_loader_next(floats, &want, err));
    CHECK_OK(vtb_loader_next(pixels, &got, err));
    if (!want || !got) break;
    CHECK(memcmp(want->labels, got->labels, 8 * sizeof *want->labels) == 0);
    for (int i = 0; i < 8 * SIDE * SIDE; i++) {
      float made = made_of((const char *)got->images, i / (SIDE * SIDE), i % (SIDE * SIDE));
      wrong += memcmp(&made, &want->images[i], sizeof made) != 0;
      zeros += made == 0;
    }
  }
  CHECK(!want && !got && batches == 14 && zeros > 12 * SIDE * SIDE); /* padding is erased */
  CHECK_MSG(wrong == 0, "%d differ", wrong);
  vtb_loader_close(floats);
  vtb_loader_close(pixels);
  vtb_dataset_free(d);
}

TEST(a_damaged_sample_stops_the_loader_with_its_name) {
  make_dirs("mixed/a");
  for (int i = 0; i < 9; i++) {
    char name[64];
    snprintf(name, sizeof name, "mixed/a/%d.png", i);
    save_png(name, 4, i);
  }
  write_file(temp_path("mixed/a/5.png"), "\x89PNG\r\n\x1a\nrest", 12);
  vtb_dataset *d = open_set("mixed", "train");
  vtb_transform t;
  CHECK_OK(vtb_transform_init(&t, d, 3, 4, 4, err));
  vtb_loader_options o = {.dataset = d, .transform = t, .batch = 3, .n_epochs = 2};
  vtb_loader *l = NULL;
  CHECK_OK(vtb_loader_open(&o, &l, err));
  vtb_error err = {0};
  vtb_status status = VTB_OK;
  const vtb_batch *b = NULL;
  for (int i = 0; i < 6 && status == VTB_OK; i++) status = vtb_loader_next(l, &b, &err);
  CHECK(status != VTB_OK && strstr(err.text, "5.png"));
  vtb_loader_close(l);
  vtb_dataset_free(d);
}

TEST(closing_early_does_not_hang) {
  vtb_dataset *d = open_set("load", "train");
  vtb_loader_options o = {.dataset = d, .transform = augmenting(d), .batch = 4, .n_epochs = 1000};
  for (int i = 0; i < 20; i++) {
    vtb_loader *l = NULL;
    const vtb_batch *b;
    CHECK_OK(vtb_loader_open(&o, &l, err));
    for (int k = 0; k < i % 4; k++) CHECK_OK(vtb_loader_next(l, &b, err));
    vtb_loader_close(l);
  }
  vtb_dataset_free(d);
}

TEST(transforms_place_pixels_where_they_should) {
  vtb_image im = vtb_image_new(4, 4, 1);
  for (int i = 0; i < 16; i++) im.pixels[i] = (uint8_t)(i + 1);
  vtb_transform t = {
      .prepare = {.channels = 1, .height = 4, .width = 4, .std = {1.0f / 255}, .crop = 1}};
  float plain[16], out[16];
  CHECK(vtb_transform_apply(&t, &im, 1, plain));
  for (int i = 0; i < 16; i++) CHECK_NEAR((double)plain[i], i + 1, 1e-3);
  int flipped = 0, moved = 0, erased = 0;
  for (uint64_t key = 0; key < 200; key++) {
    vtb_transform flip = t, shift = t, erase = t;
    flip.augment.flip = true, shift.augment.shift = 1, erase.augment.erase_prob = 1;
    CHECK(vtb_transform_apply(&flip, &im, vtb_sample_key(1, 0, (int64_t)key), out));
    bool same = fabsf(out[0] - 1) < 0.1f;
    flipped += !same;
    CHECK_NEAR((double)out[5], same ? 6 : 7, 1e-3);
    CHECK(vtb_transform_apply(&shift, &im, vtb_sample_key(1, 0, (int64_t)key), out));
    moved += fabsf(out[5] - 6) > 0.5f;
    CHECK(vtb_transform_apply(&erase, &im, vtb_sample_key(1, 0, (int64_t)key), out));
    int zeros = 0;
    for (int i = 0; i < 16; i++) zeros += out[i] == 0;
    erased += zeros > 0;
    CHECK(zeros <= 8);
  }
  CHECK_MSG(flipped > 70 && flipped < 130, "%d of 200 flipped", flipped);
  CHECK_MSG(moved > 150 && erased > 100, "%d moved, %d erased", moved, erased);
  t.augment.scale_min = 0.5; /* random resized crop of a constant image stays constant */
  memset(im.pixels, 9, 16);
  for (uint64_t key = 0; key < 20; key++) {
    CHECK(vtb_transform_apply(&t, &im, key, out));
    for (int i = 0; i < 16; i++) CHECK_NEAR((double)out[i], 9, 1e-3);
  }
  vtb_image_free(&im);
  im = vtb_image_new(9, 30, 3);
  memset(im.pixels, 100, 9 * 30 * 3);
  vtb_transform fit = {
      .prepare = {.channels = 1, .height = 8, .width = 12, .std = {1}, .crop = 0.875}};
  float big[96];
  CHECK(vtb_transform_apply(&fit, &im, 0, big));
  for (int i = 0; i < 96; i++) CHECK_NEAR((double)big[i], 100 / 255.0, 1e-6);
  vtb_image_free(&im);
}

TEST(fashion_mnist_is_found_if_installed) {
  vtb_dataset *d = NULL;
  vtb_error why = {0};
  if (vtb_dataset_open("fashion-mnist", &(vtb_dataset_options){.split = "test"}, &d, &why) !=
      VTB_OK) {
    printf("skipped: %s\n", why.text);
    return;
  }
  float mean[3], std[3];
  CHECK(vtb_dataset_count(d) == 10000 && vtb_dataset_classes(d) == 10 &&
        vtb_dataset_label(d, 0) == 9);
  CHECK_STR(vtb_dataset_class_name(d, 9), "Ankle boot");
  CHECK_OK(vtb_dataset_moments(d, 1, mean, std, err));
  CHECK_NEAR((double)mean[0], 0.2860, 1e-6);
  vtb_dataset_free(d);
}

int main(void) {
  RUN(idx_reads_plain_and_gzip_files_and_splits);
  RUN(class_names_come_from_the_class_file);
  RUN(damaged_idx_files_are_refused);
  RUN(damaged_gzip_is_refused);
  RUN(image_folders_sort_classes_and_files);
  RUN(splits_share_the_classes_of_train);
  RUN(missing_data_is_explained);
  RUN(permutations_are_bijections_that_differ_by_epoch);
  RUN(batches_do_not_depend_on_threads_and_can_be_resumed);
  RUN(the_last_batch_is_padded_and_every_sample_comes_once);
  RUN(shares_of_batches_are_their_rows);
  RUN(pixels_are_the_images_before_they_are_normalised);
  RUN(a_damaged_sample_stops_the_loader_with_its_name);
  RUN(closing_early_does_not_hang);
  RUN(transforms_place_pixels_where_they_should);
  RUN(fashion_mnist_is_found_if_installed);
  return test_done();
}
