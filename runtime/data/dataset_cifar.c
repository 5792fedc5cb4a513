/* CIFAR-10 and CIFAR-100 in their binary version: records of one or two labels and 3072 bytes, the
 * red, green and blue plane of 32 x 32 pixels (Krizhevsky 2009). Of the two labels of CIFAR-100 the
 * second, fine one is taken. */
#include "runtime/data/dataset_internal.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, PIXELS = 3 * PLANE };
#define FILE_LIMIT ((size_t)1 << 30)

typedef struct kind {
  const char *train[5], *test, *names;
  int labels, classes; /* bytes before the pixels; of the last one */
} kind;
static const kind kinds[] = {
    {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
      "data_batch_5.bin"},
     "test_batch.bin",
     "batches.meta.txt",
     1,
     10},
    {{"train.bin"}, "test.bin", "fine_label_names.txt", 2, 100},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* Interleaved pixels of all samples. */
typedef struct cifar {
  unsigned char *pixels;
} cifar;

static vtb_status has_file(const char *folder, const char *name, bool *has, vtb_error *err) {
  char *path = vtb__join(folder, name);
  if (!path) return vtb_no_memory(err, folder);
  *has = vtb_path_exists(path);
  free(path);
  return VTB_OK;
}

static vtb_status find_cifar(const char *folder, unsigned *splits, bool *found, vtb_error *err) {
  bool train = false, test = false, python = false;
  for (int k = 0; k < N_KINDS && !*found; k++) {
    VTB_TRY(has_file(folder, kinds[k].train[0], &train, err));
    VTB_TRY(has_file(folder, kinds[k].test, &test, err));
    *splits = (train ? VTB__TRAIN : 0) | (test ? VTB__TEST : 0);
    *found = *splits != 0;
  }
  VTB_TRY(has_file(folder, "data_batch_1", &python, err));
  if (python && !*found)
    return vtb_fail(err, VTB_E_INPUT,
                    "%s is CIFAR's Python version, whose files are programs of a kind: take the "
                    "binary version, cifar-10-binary.tar.gz",
                    folder);
  return VTB_OK;
}

/* Appends the samples of a file. */
static vtb_status add_file(const kind *k, const char *path, vtb__source *d, vtb_error *err) {
  cifar *c = d->data;
  char *bytes = NULL;
  size_t n, record = (size_t)k->labels + PIXELS;
  vtb_status status = vtb_file_read(path, FILE_LIMIT, &bytes, &n, err);
  if (status == VTB_OK && (n == 0 || n % record))
    status = vtb_fail(err, VTB_E_INPUT,
                      "%s: damaged: it has %zu bytes, which are no whole number of images of %zu",
                      path, n, record);
  size_t more = status == VTB_OK ? n / record : 0, have = (size_t)d->count;
  if (more) {
    unsigned char *pixels = realloc(c->pixels, (have + more) * PIXELS);
    if (pixels) c->pixels = pixels;
    int32_t *labels = realloc(d->labels, (have + more) * sizeof *labels);
    if (labels) d->labels = labels;
    if (!pixels || !labels) status = vtb_no_memory(err, path);
  }
  for (size_t i = 0; i < more && status == VTB_OK; i++) {
    const unsigned char *from = (unsigned char *)bytes + i * record;
    int label = from[k->labels - 1];
    if (label >= k->classes)
      status = vtb_fail(err, VTB_E_INPUT, "%s: damaged: image %zu has the label %d, of %d classes",
                        path, i, label, k->classes);
    from += k->labels;
    d->labels[have + i] = label;
    for (int p = 0; p < PLANE; p++)
      for (int plane = 0; plane < 3; plane++)
        c->pixels[(have + i) * PIXELS + (size_t)(3 * p + plane)] = from[plane * PLANE + p];
  }
  if (status == VTB_OK) d->count += (int64_t)more;
  free(bytes);
  return status;
}

static vtb_status add_named(const kind *k, const char *folder, const char *name, vtb__source *d,
                            vtb_error *err) {
  char *path = vtb__join(folder, name);
  vtb_status status = path ? add_file(k, path, d, err) : vtb_no_memory(err, folder);
  free(path);
  return status;
}

static vtb_status open_cifar(const char *folder, unsigned split, vtb__source *d, vtb_error *err) {
  const kind *k = kinds;
  bool first = false;
  vtb_status status = has_file(folder, split == VTB__TRAIN ? k->train[0] : k->test, &first, err);
  if (!first) k++;
  if (status == VTB_OK && !(d->data = calloc(1, sizeof(cifar))))
    status = vtb_no_memory(err, folder);
  if (split == VTB__TEST && status == VTB_OK) status = add_named(k, folder, k->test, d, err);
  for (int i = 0; split == VTB__TRAIN && i < 5 && k->train[i] && status == VTB_OK; i++)
    status = add_named(k, folder, k->train[i], d, err);
  d->n_classes = k->classes;
  return status == VTB_OK ? vtb__read_class_names(folder, k->names, d, err) : status;
}

static vtb_status copy_record(const vtb__source *d, int64_t i, int channels, vtb_image *out,
                              vtb_error *err) {
  const cifar *c = d->data;
  vtb_image view = {SIDE, SIDE, 3, c->pixels + (size_t)i * PIXELS};
  vtb_image made = vtb_image_convert(&view, channels ? channels : 3);
  if (!made.pixels) return vtb_no_memory(err, "an image");
  *out = made;
  return VTB_OK;
}

static void close_cifar(vtb__source *d) {
  cifar *c = d->data;
  free(c->pixels);
  free(c);
}

const vtb__format vtb__cifar_format = {.what = "CIFAR's binary files (data_batch_1.bin ...)",
                                       .mixed = true,
                                       .find = find_cifar,
                                       .open = open_cifar,
                                       .image = copy_record,
                                       .close = close_cifar};
