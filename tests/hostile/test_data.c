/* Damaged files of data sets: CIFAR's records, tar shards, WebP, and whatever says labels; see
 * hostile.h. */
#include "runtime/data/dataset.h"
#include "tests/hostile/hostile.h"

#include <webp/encode.h>

static vtb_status read_dataset(const char *path, const char *folder, vtb_error *err) {
  (void)path;
  vtb_dataset *d = NULL;
  vtb_status status = vtb_dataset_open(folder, NULL, &d, err);
  for (int64_t i = 0; status == VTB_OK && i < vtb_dataset_count(d) && i < 50; i++) {
    vtb_image im = {0};
    status = vtb_dataset_image(d, i, 3, &im, err);
    vtb_image_free(&im);
  }
  vtb_dataset_free(d);
  return status;
}

/* Labels and names of classes, not the images. */
static vtb_status open_dataset(const char *path, const char *folder, vtb_error *err) {
  (void)path;
  vtb_dataset *d = NULL;
  vtb_status status = vtb_dataset_open(folder, NULL, &d, err);
  vtb_dataset_free(d);
  return status;
}

static vtb_status read_image(const char *path, const char *folder, vtb_error *err) {
  (void)folder;
  vtb_image im = {0};
  vtb_status status = vtb_image_load(path, 3, &im, err);
  vtb_image_free(&im);
  return status;
}

/* ---- sound files ----------------------------------------------------------------------------- */

enum { SIDE = 12, RECORD = 2 + 3072, RECORDS = 3 };

static vtb_image picture(int number) {
  vtb_image im = vtb_image_new(SIDE, SIDE, 3);
  for (int i = 0; i < SIDE * SIDE * 3; i++) im.pixels[i] = (uint8_t)((i * 7 + number) % 251);
  return im;
}

static bytes sound_webp(void) {
  vtb_image im = picture(0);
  uint8_t *data = NULL;
  size_t n = WebPEncodeRGB(im.pixels, SIDE, SIDE, SIDE * 3, 80, &data);
  vtb_image_free(&im);
  return (bytes){data, n};
}

static bytes sound_cifar(void) {
  static unsigned char file[RECORDS * RECORD];
  for (int i = 0; i < RECORDS * RECORD; i++) file[i] = (unsigned char)(i * 13);
  for (int r = 0; r < RECORDS; r++) file[r * RECORD] = (unsigned char)r, file[r * RECORD + 1] = 5;
  return hostile_copy(file, sizeof file);
}

static void beside_cifar(const char *folder) {
  char path[600];
  bytes b = sound_cifar();
  snprintf(path, sizeof path, "%s/test.bin", folder);
  write_file(path, b.at, b.n);
  free(b.at);
}

/* A member of a tar file as POSIX.1-1988 has it: a header and the bytes, in blocks of 512. */
static size_t put_member(unsigned char *at, const char *name, const void *data, size_t n) {
  unsigned sum = 0;
  char *head = (char *)at;
  memset(at, 0, 512);
  snprintf(head, 100, "%s", name);
  snprintf(head + 100, 8, "0000644");
  snprintf(head + 124, 12, "%011zo", n);
  snprintf(head + 136, 12, "00000000000");
  memset(head + 148, ' ', 8);
  head[156] = '0';
  memcpy(head + 257, "ustar\00000", 8);
  for (int i = 0; i < 512; i++) sum += at[i];
  snprintf(head + 148, 8, "%06o", sum);
  size_t blocks = (n + 511) / 512 * 512;
  memset(at + 512, 0, blocks);
  memcpy(at + 512, data, n);
  return 512 + blocks;
}

static bytes sound_tar(void) {
  static unsigned char file[1 << 15];
  size_t n = 0;
  for (int i = 0; i < 4; i++) {
    char name[40], class[4];
    vtb_image im = picture(i);
    CHECK_OK(vtb_image_save_png(temp_path("member.png"), &im, err));
    vtb_image_free(&im);
    bytes png = hostile_sample(temp_path("member.png"));
    snprintf(name, sizeof name, "sample%d.png", i);
    n += put_member(file + n, name, png.at, png.n);
    snprintf(name, sizeof name, "sample%d.cls", i);
    snprintf(class, sizeof class, "%d", i % 2);
    n += put_member(file + n, name, class, 1);
    free(png.at);
  }
  return hostile_copy(file, n + 1024);
}

/* ---- labels ---------------------------------------------------------------------------------- */

enum { SAMPLES = 40 };

/* One axis of numbers as numpy.save() writes it. */
static bytes npy_of(const char *type, const void *data, size_t n_bytes) {
  unsigned char file[10 + 118 + SAMPLES * 8] = "\x93NUMPY\x01\x00\x76";
  char head[128];
  int n = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }",
                   type, SAMPLES);
  memset(file + 10, ' ', 118);
  memcpy(file + 10, head, (size_t)n);
  file[127] = '\n';
  memcpy(file + 128, data, n_bytes);
  return hostile_copy(file, 128 + n_bytes);
}

static bytes sound_labels(void) {
  int32_t labels[SAMPLES];
  for (int i = 0; i < SAMPLES; i++) labels[i] = i % 4;
  return npy_of("<i4", labels, sizeof labels);
}

static void beside_labels(const char *folder) {
  char path[600];
  float x[SAMPLES] = {0};
  bytes b = npy_of("<f4", x, sizeof x);
  snprintf(path, sizeof path, "%s/x.npy", folder);
  write_file(path, b.at, b.n);
  free(b.at);
}

static bytes sound_list(void) {
  char text[2048];
  size_t n = (size_t)snprintf(text, sizeof text, "file,label\n");
  for (int i = 0; i < SAMPLES; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "%d.png,%d\n", i, i % 4);
  return hostile_copy(text, n);
}

static bytes sound_idx(void) {
  unsigned char file[8 + SAMPLES] = {0, 0, 8, 1, 0, 0, 0, SAMPLES};
  for (int i = 0; i < SAMPLES; i++) file[8 + i] = (unsigned char)(i % 4);
  return hostile_copy(file, sizeof file);
}

static void beside_idx(const char *folder) {
  char path[600];
  unsigned char file[16 + SAMPLES * 16] = {0, 0, 8, 3, 0, 0, 0, SAMPLES, 0, 0, 0, 4, 0, 0, 0, 4};
  snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", folder);
  write_file(path, file, sizeof file);
}

static bytes sound_map(void) {
  static const char text[] = "{\"cat\": 0, \"dog\": 1, \"cow\": 2}";
  return hostile_copy(text, strlen(text));
}

static void beside_map(const char *folder) {
  static const char *const classes[] = {"cat", "cow", "dog"};
  for (int i = 0; i < 3; i++) {
    char path[600];
    vtb_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, classes[i]);
    if (vtb_make_dirs(path, &err) != VTB_OK) exit(1);
    snprintf(path, sizeof path, "%s/%s/1.png", folder, classes[i]);
    write_file(path, "", 0);
  }
}

TEST(damaged_data_are_refused_with_a_sentence) {
  const hostile_format formats[] = {
      {"webp", "i.webp", sound_webp(), read_image, NULL, 40},
      {"cifar", "train.bin", sound_cifar(), read_dataset, beside_cifar, 80},
      {"tar", "train-000.tar", sound_tar(), read_dataset, NULL, 60},
      {"labels.npy", "labels.npy", sound_labels(), open_dataset, beside_labels, 100},
      {"labels.csv", "train.csv", sound_list(), open_dataset, NULL, 20},
      {"labels.idx", "train-labels-idx1-ubyte", sound_idx(), open_dataset, beside_idx, 100},
      {"labels.json", "class_to_idx.json", sound_map(), open_dataset, beside_map, 100},
  };
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    hostile_check(&formats[i]);
    free(formats[i].sound.at);
  }
}

int main(void) {
  RUN(damaged_data_are_refused_with_a_sentence);
  return test_done();
}
