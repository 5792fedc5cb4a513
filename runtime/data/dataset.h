/* Labelled images: IDX files and folders of images, with transforms and a loader that prepares
 * batches ahead.
 *
 * Everything random is a function of (seed, epoch, sample number), so the batches do not depend on
 * the number of threads and a run can be resumed at any batch. Ownership: a dataset is read-only
 * after opening and may be shared by threads; loaders and transforms refer to it.
 */
#ifndef VTB_DATASET_H
#define VTB_DATASET_H

#include "runtime/data/image.h"

typedef struct vtb_dataset vtb_dataset;

typedef struct vtb_dataset_options {
  /* "train", "val" or "test"; NULL: "train". "val" and "test" stand for each other */
  const char *split;
  /* keep that many samples: the first of IDX files, evenly spread ones of folders; 0: all */
  int64_t limit;
} vtb_dataset_options;

/* `path` is one of
 *  - a folder with IDX files {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz] (MNIST family;
 *    "val", "test" are t10k)
 *  - a folder with sub-folders train/ and val/ (or test/), each as next
 *  - a folder with one sub-folder a class, in byte order, holding .png, .jpg, .jpeg files
 *  - the word "fashion-mnist": the folder Debian's package dataset-fashion-mnist installs. */
VTB_MUST_USE vtb_status vtb_dataset_open(const char *path, const vtb_dataset_options *options,
                                         vtb_dataset **out, vtb_error *err);
void vtb_dataset_free(vtb_dataset *d);

int64_t vtb_dataset_count(const vtb_dataset *d);
int vtb_dataset_classes(const vtb_dataset *d);
/* classes.txt, sub-folder, known table, or number */
const char *vtb_dataset_class_name(const vtb_dataset *d, int label);
int vtb_dataset_label(const vtb_dataset *d, int64_t i);
const char *vtb_dataset_name(const vtb_dataset *d); /* last part of the path */
/* Folder data sets: the file of sample i; NULL for IDX. */
const char *vtb_dataset_file(const vtb_dataset *d, int64_t i);
/* Decoded sample; thread-safe. The caller frees it. channels 0: as stored. */
VTB_MUST_USE vtb_status vtb_dataset_image(const vtb_dataset *d, int64_t i, int channels,
                                          vtb_image *out, vtb_error *err);
/* Size of the first sample. */
VTB_MUST_USE vtb_status vtb_dataset_size(const vtb_dataset *d, int *channels, int *height,
                                         int *width, vtb_error *err);
/* Mean and deviation of pixels in [0, 1]: known values of known data sets, those of ImageNet for
 * colour images, else measured on up to 2048 samples. */
VTB_MUST_USE vtb_status vtb_dataset_moments(const vtb_dataset *d, int channels, float mean[3],
                                            float std[3], vtb_error *err);

/* ---- transforms ------------------------------------------------------------------------------ */

/* Of training images; all off at zero. */
typedef struct vtb_augmentation {
  double scale_min;  /* random resized crop of area fraction [scale_min, 1], aspect 3/4 .. 4/3 */
  int64_t shift;     /* pad by that many zero pixels and crop at random */
  bool flip;         /* mirror with probability 1/2 */
  double erase_prob; /* probability of erasing a rectangle of area 2 % .. 33 % (to the mean) */
} vtb_augmentation;

/* In this order: random resized crop, or resize and centre crop; shift; flip; normalise; erase. */
typedef struct vtb_transform {
  int channels, height, width; /* the model's input */
  float mean[3], std[3];
  vtb_filter filter;
  /* evaluation: short side is resized to size / crop_ratio, then cropped; 1: no margin */
  double crop_ratio;
  vtb_augmentation augment;
} vtb_transform;

/* No augmentation; moments from the data set. */
VTB_MUST_USE vtb_status vtb_transform_init(vtb_transform *t, const vtb_dataset *d, int channels,
                                           int height, int width, vtb_error *err);
/* out (C, H, W). key: vtb_sample_key() in training; ignored where nothing is random. False when out
 * of memory. */
VTB_MUST_USE bool vtb_transform_apply(const vtb_transform *t, const vtb_image *im, uint64_t key,
                                      float *out);

/* Hash of (seed, epoch, sample), and the epoch's order: a bijection on [0, n), position -> sample
 * number. */
uint64_t vtb_sample_key(uint64_t seed, int64_t epoch, int64_t sample);
int64_t vtb_permute(uint64_t seed, int64_t epoch, int64_t n, int64_t position);

/* ---- loader ---------------------------------------------------------------------------------- */

typedef struct vtb_loader vtb_loader;

typedef struct vtb_loader_options {
  const vtb_dataset *dataset;
  vtb_transform transform;
  int64_t batch;
  bool shuffle; /* else in order, and the last batch is padded */
  /* leave out the samples that do not fill a batch; else they are padded with label -1, zeros */
  bool drop_last;
  uint64_t seed;
  int64_t start_epoch, start_batch,
      n_epochs;  /* n_epochs counts from epoch 0; batches before the start are skipped */
  int n_threads; /* preparing threads; 0: 2 */
} vtb_loader_options;

typedef struct vtb_batch {
  float *images;   /* (B, C, H, W), 64-byte aligned */
  int32_t *labels; /* (B), 64-byte aligned; -1: padding */
  int64_t n;       /* samples that are not padding */
  int64_t epoch, index;
  const int64_t *samples; /* sample numbers (n) */
} vtb_batch;

int64_t vtb_loader_batches(int64_t n_samples, int64_t batch, bool drop_last); /* an epoch */
VTB_MUST_USE vtb_status vtb_loader_open(const vtb_loader_options *o, vtb_loader **out,
                                        vtb_error *err);
/* The next batch, valid until the following call; NULL after the last. A sample that cannot be
 * decoded is an error. */
VTB_MUST_USE vtb_status vtb_loader_next(vtb_loader *l, const vtb_batch **out, vtb_error *err);
void vtb_loader_close(vtb_loader *l); /* NULL is fine */

#endif
