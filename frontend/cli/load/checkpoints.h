/* Checkpoints of any tool, as the commands weights and convert open them. */
#ifndef VTB_CLI_CHECKPOINTS_H
#define VTB_CLI_CHECKPOINTS_H

#include "frontend/cli/cli.h"

typedef struct cli_part_options {
  const char *part; /* the name of one set of tensors; NULL: the model's */
  bool averages;    /* the averaged weights, whatever they are called */
} cli_part_options;
#define CLI_PART_OPTS(o)                                                                           \
  {"--part", CLI_STR, &(o).part, "NAME",                                                           \
   "of a checkpoint with several sets of tensors, this one"},                                      \
  {                                                                                                \
    "--ema-weights", CLI_FLAG, &(o).averages, NULL,                                                \
        "of a checkpoint with averaged weights too, those"                                         \
  }

/* `said` gets the lines of what was decided. Errors are printed. */
VTB_MUST_USE vtb_status cli_checkpoint_open(const char *path, const cli_part_options *o,
                                            vtb_weights **out, vtb_strbuf *said);
/* Tells what it holds, and the lines of `said`: "FILE: 152 tensors, 5,717,416 numbers, 22.9 MB: 150
 * F32, 2 I64". */
void cli_checkpoint_tell(const char *path, const vtb_weights *w, const vtb_strbuf *said, doc *d);

#endif
