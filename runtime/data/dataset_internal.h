/* Shared by the files of the data set. */
#ifndef VTB_DATASET_INTERNAL_H
#define VTB_DATASET_INTERNAL_H

#include "runtime/data/dataset.h"

#include <pthread.h>
#include <stdatomic.h>

typedef VTB_VEC(char *) vtb__names;
typedef struct vtb__source vtb__source;

/* The splits that data have, as a set; none: all samples are one. */
enum { VTB__TRAIN = 1, VTB__VAL = 2, VTB__TEST = 4 };

/* A format of data sets; dataset.c has the list. Samples are numbered from 0 to d->count. */
typedef struct vtb__format {
  bool is_file;     /* `path` is one, not a folder */
  bool ordered;     /* neighbours belong together: what is held out are the last samples */
  bool mixed;       /* the first samples are as good as others */
  const char *what; /* what a folder of it holds, for messages */
  /* Are there samples of this format at `path`, and in which splits? */
  vtb_status (*find)(const char *path, unsigned *splits, bool *found, vtb_error *err);
  /* Fills count, labels, n_classes, class_names if the data name them, and data. split: one that
   * find() gave, or 0 where it gave none. */
  vtb_status (*open)(const char *path, unsigned split, vtb__source *d, vtb_error *err);
  /* Thread-safe. channels 0: as stored. The caller frees the image. */
  vtb_status (*image)(const vtb__source *d, int64_t i, int channels, vtb_image *out,
                      vtb_error *err); /* NULL: no images */
  vtb_status (*mask)(const vtb__source *d, int64_t i, vtb_image *out, vtb_error *err); /* or NULL */
  int (*arrays)(const vtb__source *d); /* NULL: none */
  vtb_array_info (*array)(const vtb__source *d, int array);
  vtb_status (*read)(const vtb__source *d, int array, int64_t i, bool as_int, void *out,
                     vtb_error *err);
  const char *(*file)(const vtb__source *d, int64_t i); /* NULL: a sample has no file */
  void (*close)(vtb__source *d);                        /* frees data, which is not NULL */
} vtb__format;
extern const vtb__format vtb__folder_format, vtb__tar_format; /* that others ask, too */

typedef struct vtb__damage {
  int64_t sample;
  char *why;
} vtb__damage;

enum { VTB__MOST_CLASSES = 1 << 20 };

/* The labels that are numbers and say by the largest of them how many classes there are. */
typedef struct vtb__census {
  VTB_VEC(bool) seen; /* by label */
  int64_t where;      /* the first sample of the largest */
  char file[400];     /* it is of */
  bool all_splits;    /* not of the opened one alone */
} vtb__census;

/* The samples of one split, or of data without splits, as they are stored. Several data sets may
 * look at them. */
struct vtb__source {
  atomic_int users;
  char *name;
  unsigned split; /* 0: the data have none */
  int64_t count;
  int32_t *labels;    /* NULL: none */
  vtb__census census; /* empty: the format knows its classes otherwise */
  int n_classes;
  char **class_names;
  bool named; /* the data name the classes; else they are called by their numbers */
  const vtb__format *format;
  void *data;       /* the format's */
  vtb_strbuf notes; /* lines: what was left out at opening */

  pthread_mutex_t lock; /* of what follows */
  VTB_VEC(vtb__damage) damaged;
};

/* The samples of them that a split has. */
struct vtb_dataset {
  vtb__source *source;
  int64_t count;
  int64_t *pick; /* sample of the source; NULL: the same number */
  int32_t *labels;
  int n_classes;
  char **class_names; /* others than the source's; NULL */
  int64_t skip_damaged;
  const char *split; /* its name */
  double held_out;   /* the share of the source that is "val"; 0: none */
  uint64_t held_seed;
  vtb_strbuf notes;
};

/* ---- dataset.c ------------------------------------------------------------------------------- */

/* The place `path`, which becomes the folder of a data set known by name. */
typedef struct vtb__place {
  const char *path;
  const vtb__format *format;
  unsigned splits;
} vtb__place;
VTB_MUST_USE vtb_status vtb__find(const char *path, vtb__place *out, vtb_error *err);
VTB_MUST_USE vtb_status vtb__source_open(const vtb__place *at, unsigned split, vtb__source **out,
                                         vtb_error *err);
/* All samples of a source, which the data set uses from now on. */
VTB_MUST_USE vtb_status vtb__view_open(vtb__source *s, const vtb_dataset_options *o,
                                       vtb_dataset **out, vtb_error *err);
void vtb__source_leave(vtb__source *s);
const char *vtb__split_name(unsigned split);

/* ---- class_names.c --------------------------------------------------------------------------- */

/* Known data sets of gray images: mean and deviation; NULL: not known. */
typedef struct vtb__known {
  const char *name;
  float mean, std;
  const char *classes[10];
} vtb__known;
const vtb__known *vtb__find_known(const char *name);
/* Names for the classes of what was opened at `path`, from a file beside the data, a table, or
 * their numbers. */
VTB_MUST_USE vtb_status vtb__name_classes(const char *path, vtb__source *d, vtb_error *err);

/* Lines of folder/name, if there is such a file, as names of the classes; there may be more of them
 * than d->n_classes, which they become. */
VTB_MUST_USE vtb_status vtb__read_class_names(const char *folder, const char *name, vtb__source *d,
                                              vtb_error *err);

/* The lines of a text, which it cuts, without spaces at their ends; false when out of memory. */
bool vtb__read_lines(char *text, vtb__names *lines);

/* ---- labels.c -------------------------------------------------------------------------------- */

/* Labels of n samples: numbers, if all are whole and not `names`, else the classes are the
 * different texts, in byte order. */
VTB_MUST_USE vtb_status vtb__take_labels(char *const *texts, int64_t n, bool names, vtb__source *d,
                                         vtb_error *err);
/* Labels of n samples of `file` that count classes, of which there are one more than the largest;
 * negative ones are none. */
VTB_MUST_USE vtb_status vtb__count_labels(vtb__source *d, const char *file, const int32_t *labels,
                                          int64_t n, vtb_error *err);
/* After the classes have their names: those that were counted are mostly there. folder: where
 * classes.txt would lie. */
VTB_MUST_USE vtb_status vtb__check_census(const char *folder, vtb__source *d, vtb_error *err);

/* ---- class_maps.c ---------------------------------------------------------------------------- */

/* Names and order of the classes of a folder, where a file beside them says. */
VTB_MUST_USE vtb_status vtb__map_classes(const char *folder, vtb__source *d, vtb_error *err);

/* ---- relabel.c ------------------------------------------------------------------------------- */

/* `val` takes over the classes of `train`. */
VTB_MUST_USE vtb_status vtb__agree_on_classes(const vtb_dataset *train, vtb_dataset *val,
                                              vtb_error *err);

/* ---- augmenter.c ----------------------------------------------------------------------------- */

/* The equations of an image feed with memory for several threads. */
typedef struct vtb__augmenter vtb__augmenter;
/* image: which of the feeds they are of. They and `a` must outlive it. */
VTB_MUST_USE vtb_status vtb__augmenter_open(const vtb_augment *a, const vtb_feed *feeds,
                                            int n_feeds, int image, int n_workers,
                                            vtb__augmenter **out, vtb_error *err);
/* Changes the image's pixels, or its row if it is an array (im NULL), and the rows of the others,
 * of which there is a pointer a feed. A worker's own thread.
 * VTB_E_INPUT: what they give is no sample. */
VTB_MUST_USE vtb_status vtb__augmenter_run(vtb__augmenter *a, int worker, uint64_t key,
                                           vtb_image *im, void *const *rows, vtb_error *err);
void vtb__augmenter_close(vtb__augmenter *a); /* NULL is fine */
/* Its "seed" by the key. */
int32_t vtb__augment_seed(uint64_t key);

/* ---- names.c --------------------------------------------------------------------------------- */

/* The sub-folder of a split, by any of its names. */
char *vtb__split_folder(const char *path, unsigned split, bool *no_memory);
/* The splits that have a sub-folder. */
VTB_MUST_USE vtb_status vtb__split_folders(const char *path, unsigned *splits, vtb_error *err);
/* Name k of a split, "val", "valid", "validation"; NULL behind the last. */
const char *vtb__split_alias(unsigned split, int k);
void vtb__free_names(vtb__names *v);
char *vtb__join(const char *folder, const char *name); /* NULL when out of memory */
/* Takes the name; false when out of memory. */
bool vtb__add_name(vtb__names *v, char *name);
/* Sorted entries of a folder that are sub-folders (endings NULL), or regular files with one of
 * these endings. notes: what was left out, being neither; NULL: not said. */
VTB_MUST_USE vtb_status vtb__list_folder(const char *folder, const char *const *endings,
                                         vtb__names *out, vtb_strbuf *notes, vtb_error *err);
/* Entries of folders that are neither hidden nor files with the wanted endings: how many,
 * and the first of each kind by its path. Zeroed at first. */
typedef struct vtb__others {
  int64_t files, folders;
  char *file, *folder;
} vtb__others;
/* Adds what one more folder has. */
VTB_MUST_USE vtb_status vtb__count_others(const char *folder, const char *const *endings,
                                          vtb__others *o, vtb_error *err);
void vtb__free_others(vtb__others *o);
int vtb__find_name(const vtb__names *sorted, const char *name); /* -1: not there */
/* A number of the sample that does not depend on where the data lie. */
uint64_t vtb__sample_hash(const vtb__source *s, int64_t i);
extern const char *const vtb__image_endings[];
void vtb__free_texts(char **texts, int64_t n);

/* One IDX file, plain or gzip: sizes in dim[0..rank-1], bytes malloc'd. */
VTB_MUST_USE vtb_status vtb__idx_read(const char *path, int want_rank_min, int want_rank_max,
                                      int *rank, int64_t *dim, unsigned char **bytes,
                                      vtb_error *err);

#endif
