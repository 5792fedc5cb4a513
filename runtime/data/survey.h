/* The contents of a data set, found by decoding all of it. */
#ifndef VTB_SURVEY_H
#define VTB_SURVEY_H

#include "runtime/data/dataset.h"

/* "train", "val" and "test" where the data have them, in that order; none: no splits. */
typedef struct vtb_layout {
  const char *what; /* "one sub-folder of .png files for each class" */
  const char *split[3];
  int n_splits;
} vtb_layout;
VTB_MUST_USE vtb_status vtb_dataset_layout(const char *path, vtb_layout *out, vtb_error *err);

typedef struct vtb_sample_facts {
  int width, height, channels; /* 0: damaged */
  uint64_t hash;               /* of size and pixels */
} vtb_sample_facts;

/* Surveys every sample, by so many threads (0: the cores). Damaged ones are found as
 * vtb_dataset_skip() finds them, without end. on_sample: now and then, from the calling thread;
 * NULL. *stop ends it early, with *done samples. *out is the caller's to free. */
typedef struct vtb_survey_options {
  int n_threads;
  void (*on_sample)(void *user, int64_t done, int64_t total);
  void *user;
  const volatile int *stop; /* NULL */
} vtb_survey_options;
VTB_MUST_USE vtb_status vtb_dataset_survey(const vtb_dataset *d, const vtb_survey_options *o,
                                           vtb_sample_facts **out, int64_t *done, vtb_error *err);

#endif
