/* The weights that a training starts from. */
#ifndef VTB_CLI_TRAIN_INIT_H
#define VTB_CLI_TRAIN_INIT_H

#include "frontend/cli/load/weights.h"

/* Options, and what becomes of them; zero before train_init_open(). */
typedef struct train_init {
  cli_load_options load;
  vtb_names names;
  vtb_fit_options fit;
  vtb_fit_report report;
  vtb_arena arena; /* of texts */
  const cli_model_options *model;
  bool open;
} train_init;

/* Opens the file that --init names, if any. */
VTB_MUST_USE vtb_status train_init_open(train_init *t, vtb_error *err);
/* Tells the trainer: for so many classes and images of that size. */
VTB_MUST_USE vtb_status train_init_plan(train_init *t, const char *model,
                                        const cli_model_options *m, int classes, int height,
                                        int width, vtb_train_config *config, vtb_error *err);
/* Says what was taken, and with what other settings it was made, a line each on stderr; of what
 * does not fit, for --json alone. */
void train_init_say(const train_init *t, bool fits);
void train_init_free(train_init *t);

#endif
