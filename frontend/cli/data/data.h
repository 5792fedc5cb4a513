/* Data sets of commands: the options that say which samples, and what is said about them. */
#ifndef VTB_CLI_DATA_H
#define VTB_CLI_DATA_H

#include "frontend/cli/load/weights.h"

typedef struct cli_data_options {
  const char *path, *split; /* split: of eval, what is judged; of train, what is looked at */
  int64_t limit, val_seed, workers;
  int64_t skip_damaged; /* VTB_SKIP_SOME: the default */
  double val_fraction;
} cli_data_options;
#define CLI_DATA_DEFAULTS ((cli_data_options){.skip_damaged = VTB_SKIP_SOME, .val_fraction = 0.1})
#define CLI_DATA_OPTS(data)                                                                        \
  {"--data", CLI_STR, &(data).path, "D",                                                           \
   "fashion-mnist, or what docs/data.md lists: folders of images a class, IDX or CIFAR files, "    \
   "images/ and labels/, arrays in FILE.safetensors"},                                             \
      {"--limit", CLI_INT, &(data).limit, "N", "only N samples, evenly spread; the first of IDX"}, \
      {"--val-fraction", CLI_FLOAT, &(data).val_fraction, "F",                                     \
       "of data without a val split, the share that training holds out (default 0.1; 0: none)"},   \
      {"--val-seed", CLI_INT, &(data).val_seed, "N", "another choice of them (default 0)"},        \
      {"--skip-damaged", CLI_INT, &(data).skip_damaged, "N",                                       \
       "damaged samples to do without (default one in a hundred, at least one)"},                  \
  {                                                                                                \
    "--workers", CLI_THREADS, &(data).workers, "N",                                                \
        "threads that decode and augment (default: cores)"                                         \
  }

/* Before many images are decoded: their memory is kept from one to the next. */
void cli_data_keep_memory(void);
vtb_dataset_options cli_data_for(const cli_data_options *o);
/* The data that training takes, and looks at after each epoch: *val is NULL where there is nothing
 * to look at. What was decided is said on stderr, and so are errors. */
VTB_MUST_USE vtb_status cli_data_open_training(const cli_data_options *o, vtb_dataset **train,
                                               vtb_dataset **val);
/* The data that `eval` is about: o->split, or what vtb_dataset_open_judge() finds. */
VTB_MUST_USE vtb_status cli_data_open_judge(const cli_data_options *o, const char *trained_on,
                                            vtb_dataset **out);
/* The data's labels as the classes that the weights name: by name, whatever their order. Where one
 * of them has no names the numbers stand for themselves; what was done is said. model_classes: its
 * scores; 0: not known. */
VTB_MUST_USE vtb_status cli_data_match_classes(vtb_dataset *d, const cli_inference *inf,
                                               int model_classes, vtb_error *err);
/* At a command's end, on stderr: the damaged samples that were skipped, if any. NULL is fine. */
void cli_data_say_damaged(const vtb_dataset *d);

#endif
