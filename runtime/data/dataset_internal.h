/* What the files of the data set share. */
#ifndef VTB_DATASET_INTERNAL_H
#define VTB_DATASET_INTERNAL_H

#include "runtime/data/dataset.h"

/* A format of data sets; dataset.c has the list. Samples are numbered from 0 to d->count. */
typedef struct vtb__format {
  bool is_file;     /* `path` is one, not a folder */
  const char *what; /* what a folder of it holds, for messages */
  /* Fills count, labels, n_classes, class_names if the data name them, and data, if `path` has
   * samples of this format; *found says. */
  vtb_status (*open)(const char *path, const char *split, vtb_dataset *d, bool *found,
                     vtb_error *err);
  /* Thread-safe. channels 0: as stored. The caller frees the image. */
  vtb_status (*image)(const vtb_dataset *d, int64_t i, int channels, vtb_image *out,
                      vtb_error *err); /* NULL: no images */
  vtb_status (*mask)(const vtb_dataset *d, int64_t i, vtb_image *out, vtb_error *err); /* or NULL */
  int (*arrays)(const vtb_dataset *d); /* NULL: none */
  vtb_array_info (*array)(const vtb_dataset *d, int array);
  vtb_status (*read)(const vtb_dataset *d, int array, int64_t i, bool as_int, void *out,
                     vtb_error *err);
  const char *(*file)(const vtb_dataset *d, int64_t i); /* NULL: a sample has no file */
  void (*keep)(vtb_dataset *d, int64_t n);              /* n of count samples; NULL: the first */
  void (*close)(vtb_dataset *d);                        /* frees data, which is not NULL */
} vtb__format;
extern const vtb__format vtb__idx_format, vtb__folder_format, vtb__mask_format, vtb__array_file,
    vtb__array_folder;

struct vtb_dataset {
  char *name;
  int64_t count;
  int32_t *labels; /* NULL: none */
  int n_classes;
  char **class_names;
  const vtb__format *format;
  void *data; /* the format's */
};

/* path/name if that is a folder; *no_memory: that could not be found out. Caller frees. */
char *vtb__sub_folder(const char *path, const char *name, bool *no_memory);

typedef VTB_VEC(char *) vtb__names;
void vtb__free_names(vtb__names *v);
char *vtb__join(const char *folder, const char *name); /* NULL when out of memory */
/* Takes the name; false when out of memory. */
bool vtb__add_name(vtb__names *v, char *name);
/* Sorted entries of a folder that are sub-folders, or files with one of these endings. */
VTB_MUST_USE vtb_status vtb__list_folder(const char *folder, const char *const *endings,
                                         vtb__names *out, vtb_error *err);
extern const char *const vtb__image_endings[];
void vtb__free_texts(char **texts, int64_t n);

/* One IDX file, plain or gzip: sizes in dim[0..rank-1], bytes malloc'd. */
VTB_MUST_USE vtb_status vtb__idx_read(const char *path, int want_rank_min, int want_rank_max,
                                      int *rank, int64_t *dim, unsigned char **bytes,
                                      vtb_error *err);

#endif
