/* What the files of the data set share. */
#ifndef VTB_DATASET_INTERNAL_H
#define VTB_DATASET_INTERNAL_H

#include "runtime/data/dataset.h"

struct vtb_dataset {
  char *name;
  int64_t count;
  int32_t *labels;
  int n_classes;
  char **class_names;

  /* IDX: all pixels in memory, (count, channels, height, width) with channels 1 or 3 interleaved */
  unsigned char *pixels;
  int channels, height, width;

  /* folders: one path a sample */
  char **files;
};

/* Does `folder` hold IDX files of the split? Fills the data set if so; *found says. */
VTB_MUST_USE vtb_status vtb__idx_open(const char *folder, const char *split, vtb_dataset *d,
                                      bool *found, vtb_error *err);
/* Labels are positions in the list of sub-folders of `class_folder`, which may be another
 * split's. */
VTB_MUST_USE vtb_status vtb__folder_open(const char *folder, const char *class_folder,
                                         vtb_dataset *d, vtb_error *err);

/* One IDX file, plain or gzip: sizes in dim[0..rank-1], bytes malloc'd. */
VTB_MUST_USE vtb_status vtb__idx_read(const char *path, int want_rank_min, int want_rank_max,
                                      int *rank, int64_t *dim, unsigned char **bytes,
                                      vtb_error *err);

#endif
