/* Data sets: labelled images (IDX files, folders of images), images with dense labels, arrays by
 * name, with transforms and a loader that prepares batches ahead: a buffer for each input of a
 * program.
 *
 * Everything random is a function of (seed, epoch, sample number), so the batches do not depend on
 * the number of threads and a run can be resumed at any batch. Ownership: a dataset is read-only
 * after opening and may be shared by threads; loaders and transforms refer to it.
 */
#ifndef VTB_DATASET_H
#define VTB_DATASET_H

#include "runtime/image/prepare.h"

typedef struct vtb_dataset vtb_dataset;

typedef struct vtb_dataset_options {
  /* "train", "val", "test", or "all" of data without splits; NULL: "train" */
  const char *split;
  /* keep that many samples: the first of IDX files, evenly spread ones of others; 0: all */
  int64_t limit;
  /* Where the data have no val split: that share of the training samples, of every class, is "val"
   * and not "train". Which ones is a function of their names (or numbers) and val_seed alone. 0:
   * none. */
  double val_fraction;
  uint64_t val_seed;
  /* So many samples may be damaged: see vtb_dataset_damaged(). VTB_SKIP_SOME: one in a hundred, at
   * least one */
  int64_t skip_damaged;
} vtb_dataset_options;
enum { VTB_SKIP_SOME = -1 };

/* `path` is one of
 *  - a folder with IDX files {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz] (MNIST family;
 *    t10k is "test")
 *  - a folder with sub-folders train/, val/ (valid/, validation/), test/, each as next
 *  - a folder with one sub-folder a class, in byte order, holding .png, .jpg, .jpeg, .webp files
 *  - a folder with images/ and labels/ (or masks/), below train/, val/ and test/ or holding them:
 *    images, and for each a PNG of the same stem whose grey values or palette entries are the
 *    class of each pixel; 255 is to be ignored
 *  - a .safetensors file, or a folder of .npy files, with an array an input: named as the input,
 *    its first axis the samples. "train/x", "val/x" or "test/x" is of that split; what is held out
 *    of arrays are the last samples
 *  - the word "fashion-mnist": the folder Debian's package dataset-fashion-mnist installs.
 * A split that the data do not have is VTB_E_INPUT, but for a val split that is held out. */
VTB_MUST_USE vtb_status vtb_dataset_open(const char *path, const vtb_dataset_options *options,
                                         vtb_dataset **out, vtb_error *err);
/* The splits of a training: "train", and "val", which is NULL where there is none and
 * o->val_fraction is 0. `watch`: another split in place of "val", "test"; then nothing is held out.
 */
VTB_MUST_USE vtb_status vtb_dataset_open_pair(const char *path, const vtb_dataset_options *o,
                                              const char *watch, vtb_dataset **train,
                                              vtb_dataset **val, vtb_error *err);
/* The split that judges finished weights: "test", or else "val"; of data without splits what the
 * training left out, where `trained_on` (vtb_dataset_describe(), stored with the weights; NULL: not
 * known) says that they were trained on these, and otherwise all. */
VTB_MUST_USE vtb_status vtb_dataset_open_judge(const char *path, const vtb_dataset_options *o,
                                               const char *trained_on, vtb_dataset **out,
                                               vtb_error *err);
void vtb_dataset_free(vtb_dataset *d);
/* Decisions at opening, a sentence a line: what is held out, what was left out and why; "" if there
 * is nothing to say. */
const char *vtb_dataset_notes(const vtb_dataset *d);
/* A number of all samples of the files that `d` is from, held out or not: their number, labels,
 * names, the pixels of a few. */
uint64_t vtb_dataset_fingerprint(const vtb_dataset *d);
/* "FINGERPRINT FRACTION SEED" for vtb_dataset_open_judge(); malloc'd, NULL when out of memory. */
char *vtb_dataset_describe(const vtb_dataset *d);

int64_t vtb_dataset_count(const vtb_dataset *d);
int vtb_dataset_classes(const vtb_dataset *d);
/* classes.txt, sub-folder, known table, or number; of its kind with no name vtb_dataset_named() is
 * false */
const char *vtb_dataset_class_name(const vtb_dataset *d, int label);
bool vtb_dataset_named(const vtb_dataset *d);
/* Labels become positions in `names`, found by the classes' names. VTB_E_INPUT names the classes
 * with samples that are not among them. *moved: whether any label changed. */
VTB_MUST_USE vtb_status vtb_dataset_relabel(vtb_dataset *d, char *const *names, int n, bool *moved,
                                            vtb_error *err);
int vtb_dataset_label(const vtb_dataset *d, int64_t i);
const char *vtb_dataset_name(const vtb_dataset *d); /* last part of the path */
/* "train", "val", "test", or "all" of data without splits */
const char *vtb_dataset_split(const vtb_dataset *d);
bool vtb_dataset_held_out(const vtb_dataset *d); /* samples of it are another split's */
/* Folder data sets: the file of sample i; NULL for IDX. */
const char *vtb_dataset_file(const vtb_dataset *d, int64_t i);
bool vtb_dataset_has_images(const vtb_dataset *d);
bool vtb_dataset_has_labels(const vtb_dataset *d); /* one a sample */
bool vtb_dataset_has_masks(const vtb_dataset *d);
/* Decoded sample; thread-safe. The caller frees it. channels 0: as stored. */
VTB_MUST_USE vtb_status vtb_dataset_image(const vtb_dataset *d, int64_t i, int channels,
                                          vtb_image *out, vtb_error *err);
/* Mean and deviation of pixels in [0, 1]: known values of known data sets, those of ImageNet for
 * colour images, else measured on up to 2048 samples. */
VTB_MUST_USE vtb_status vtb_dataset_moments(const vtb_dataset *d, int channels, float mean[3],
                                            float std[3], vtb_error *err);

/* A sample that could not be decoded: counted once, with why, unless that is no fault of
 * the sample's (memory, a library): then the error is that one. VTB_OK while there are no more of
 * them than skip_damaged allows; then an error that names some. Thread-safe. */
VTB_MUST_USE vtb_status vtb_dataset_skip(const vtb_dataset *d, int64_t i, const vtb_error *why,
                                         vtb_error *err);
/* How many were found so far, and what is wrong with number k of them, a sentence with the file. */
int64_t vtb_dataset_damaged(const vtb_dataset *d);
const char *vtb_dataset_damage(const vtb_dataset *d, int64_t k);

/* The class of each pixel, as an image of one channel; of data sets with masks. */
VTB_MUST_USE vtb_status vtb_dataset_mask(const vtb_dataset *d, int64_t i, vtb_image *out,
                                         vtb_error *err);

/* An array of the data set, by name. */
typedef struct vtb_array_info {
  const char *name;
  bool is_int;
  int rank; /* of a sample */
  int64_t dim[8];
} vtb_array_info;
int vtb_dataset_arrays(const vtb_dataset *d);
vtb_array_info vtb_dataset_array(const vtb_dataset *d, int array);
/* Sample i of an array: f32, or i32 where `as_int`; as many as a sample has. */
VTB_MUST_USE vtb_status vtb_dataset_read(const vtb_dataset *d, int array, int64_t i, bool as_int,
                                         void *out, vtb_error *err);

/* ---- transforms ------------------------------------------------------------------------------ */

/* Changes of training images; all off at zero. */
typedef struct vtb_augmentation {
  double scale_min;  /* random resized crop of area fraction [scale_min, 1], aspect 3/4 .. 4/3 */
  int64_t shift;     /* pad by that many zero pixels and crop at random */
  bool flip;         /* mirror with probability 1/2 */
  double erase_prob; /* probability of erasing a rectangle of area 2 % .. 33 % (to the mean) */
} vtb_augmentation;

/* VTB_E_USAGE: a number that means nothing for images of that size. */
VTB_MUST_USE vtb_status vtb_augmentation_check(const vtb_augmentation *a, int height, int width,
                                               vtb_error *err);

/* In this order: random resized crop, or what the preparation says; shift; flip; normalise;
 * erase. */
typedef struct vtb_transform {
  vtb_preparation prepare;
  vtb_augmentation augment;
} vtb_transform;

/* No augmentation; moments from the data set. */
VTB_MUST_USE vtb_status vtb_transform_init(vtb_transform *t, const vtb_dataset *d, int channels,
                                           int height, int width, vtb_error *err);
/* out (C, H, W). key: vtb_sample_key() in training; ignored where nothing is random. False when out
 * of memory. */
VTB_MUST_USE bool vtb_transform_apply(const vtb_transform *t, const vtb_image *im, uint64_t key,
                                      float *out);

/* Its two halves, between which equations may change the pixels: what is resized, cut, moved and
 * mirrored, {0} without memory; then numbers, some of them erased. */
vtb_image vtb_transform_frame(const vtb_transform *t, const vtb_image *im, uint64_t key);
void vtb_transform_values(const vtb_transform *t, const vtb_image *framed, uint64_t key,
                          float *out);
/* The second half as bytes (C, H, W), before they are normalised, and the box (x, y, width, height)
 * that is erased: out[c, y, x] of the above is vtb_image_values() of the byte, or 0 in the box. */
void vtb_transform_pixels(const vtb_transform *t, const vtb_image *framed, uint64_t key,
                          uint8_t *out, int32_t erased[4]);

/* The mask of an image that was transformed with this key: the same crop, shift and flip, by the
 * nearest pixel; what comes in from outside is 255. out: i32 (h, w), the classes at the middles of
 * h x w cells of the image. */
VTB_MUST_USE bool vtb_transform_mask(const vtb_transform *t, const vtb_image *mask, uint64_t key,
                                     int h, int w, int32_t *out);

/* Hash of (seed, epoch, sample), and the epoch's order: a bijection on [0, n), position -> sample
 * number. */
uint64_t vtb_sample_key(uint64_t seed, int64_t epoch, int64_t sample);
int64_t vtb_permute(uint64_t seed, int64_t epoch, int64_t n, int64_t position);
/* The key of a view of the sample, from 1; the first has the sample's own. */
uint64_t vtb_view_key(uint64_t key, int view);

/* Equations that make another sample of a sample (`augment { }` of a model), as a program of one
 * for processors. Its inputs and results of the same names are those of the model, f32: the image
 * (1, C, H, W) as numbers of bytes, rounded and cut to bytes when it is done; whole numbers are
 * rounded. Its "seed" follows the key. */
typedef struct vtb_augment {
  const char *input; /* the image's; NULL: of a classifier, which has one */
  const struct vtb_program *program;
  const char *where; /* "m.vtb:12", for messages */
} vtb_augment;

/* ---- feeds: what fills an input of a program ------------------------------------------------- */

typedef enum vtb_feed_kind {
  VTB_FEED_NOTHING,
  VTB_FEED_IMAGE,  /* f32 (C, H, W): the image, transformed */
  VTB_FEED_LABEL,  /* i32: the sample's class */
  VTB_FEED_MASK,   /* i32 (h, w) or (h w): the class at each of h x w places of the image */
  VTB_FEED_ARRAY,  /* the array of the input's name */
  VTB_FEED_VALID,  /* f32: 1; of padding 0 */
  VTB_FEED_DRAW,   /* f32: what an `augment` in the step draws (runtime/base/augment.h) */
  VTB_FEED_MOMENTS /* f32 (2, C): with it images are the numbers of their bytes */
} vtb_feed_kind;

typedef struct vtb_feed {
  const char *name; /* the input's */
  bool is_int;
  int rank; /* of a sample: without the batch */
  int64_t dim[8];
  int classes; /* labels are below it, or 255; 0: not known */
  int view;    /* of the picture, from 1: an image of any size; 0: none */
  vtb_feed_kind kind;
  int64_t count;     /* elements of a sample */
  int height, width; /* MASK */
  int array;         /* ARRAY */
  int stream;        /* DRAW */
} vtb_feed;
/* Finds what fills the input that name, is_int, rank, dim and classes describe: an array of its
 * name; of images a f32 input (C, H, W) is the image, an i32 number the label, i32 (h, w) or (h w)
 * the mask. t: how images are made, all of one size. VTB_E_INPUT if the data set cannot fill it. */
VTB_MUST_USE vtb_status vtb_feed_find(vtb_feed *f, const vtb_dataset *d, const vtb_transform *t,
                                      vtb_error *err);
/* VTB_E_INPUT if they cannot be of one sample: the classes of places beside several views. */
VTB_MUST_USE vtb_status vtb_feeds_check(const vtb_feed *feeds, int n, vtb_error *err);

/* ---- loader ---------------------------------------------------------------------------------- */

typedef struct vtb_loader vtb_loader;

enum { VTB_LOADER_BATCHES = 3 }; /* that a loader has in memory: one in use, the next prepared */

typedef struct vtb_loader_options {
  const vtb_dataset *dataset;
  vtb_transform transform;
  int64_t batch;
  bool pixels;  /* images as bytes (runtime/launch/pixels.h) */
  bool shuffle; /* else in order, and the last batch is padded */
  /* what is prepared, a buffer each; none: the image and the label */
  const vtb_feed *feeds;
  int n_feeds;
  /* leave out the samples that do not fill a batch; else they are padded with label -1, zeros */
  bool drop_last;
  const vtb_augment *augments; /* one for each image, or none */
  int n_augments;
  uint64_t seed;
  int64_t start_epoch, start_batch,
      n_epochs;  /* n_epochs counts from epoch 0; batches before the start are skipped */
  int n_threads; /* preparing threads; 0: the cores, vtb_default_threads() */
  /* Batches that several processes share, or that are taken in pieces: rows [first, first + pieces
   * batch) of every `whole` of them are prepared, a piece of `batch` rows at a time. Epochs,
   * start_batch and drop_last count whole batches. whole 0: the batch is the whole. */
  int64_t whole, first, pieces;
} vtb_loader_options;

typedef struct vtb_batch {
  void *const *at; /* a buffer a feed, 64-byte aligned */
  float *images;   /* of the first feed of its kind, (B, C, H, W), or pixels; NULL: none */
  int32_t *labels; /* (B); -1: padding; NULL: none */
  int64_t n;       /* samples, none of some pieces; the rows behind them are padding */
  int64_t damaged; /* rows among them that are padding in the place of samples left out */
  int64_t epoch, index;
  int64_t piece;          /* of the batch `index` */
  const int64_t *samples; /* sample numbers (n) */
} vtb_batch;

int64_t vtb_loader_batches(int64_t n_samples, int64_t batch, bool drop_last); /* an epoch */
VTB_MUST_USE vtb_status vtb_loader_open(const vtb_loader_options *o, vtb_loader **out,
                                        vtb_error *err);
/* The next batch, valid until the following call; NULL after the last. In the place of a sample
 * that cannot be decoded stands the one after it where the order is shuffled, padding where it is
 * not, as long as vtb_dataset_skip() allows. */
VTB_MUST_USE vtb_status vtb_loader_next(vtb_loader *l, const vtb_batch **out, vtb_error *err);
void vtb_loader_close(vtb_loader *l); /* NULL is fine */

#endif
