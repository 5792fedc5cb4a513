/* Progress on stderr: one line that is redrawn at the bottom of a terminal, as wide as the window
 * is at that moment, and lines that stay.
 *
 * A line is a list of fields, the most important first; fields that do not fit are left out from
 * the right, so that no line wraps. Where stderr is no terminal, NO_COLOR is set or TERM is "dumb"
 * nothing is redrawn: there are only the lines that stay, whole.
 */
#ifndef VTB_CLI_PROGRESS_H
#define VTB_CLI_PROGRESS_H

#include "frontend/cli/cli.h"

enum { CLI_LINE_FIELDS = 2 * VTB_MOST_MEASURES + 16, CLI_FIELD_BYTES = 128 };

typedef struct cli_line {
  int n;
  bool cut; /* the first field that does not fit is cut, if a few columns are left */
  char field[CLI_LINE_FIELDS][CLI_FIELD_BYTES];
} cli_line;

/* Longer texts are cut, further fields are left out. */
void cli_line_add(cli_line *l, const char *fmt, ...) VTB_PRINTF(2, 3);
/* "45 s", "1:23", "2:01:15"; "?" below 0. */
const char *cli_duration(double seconds, char *buf, size_t size);
/* True if lines can be redrawn. */
bool cli_progress_live(void);
/* The same, and the last line is a tenth of a second old: what is drawn more often costs time. */
bool cli_progress_due(void);
/* Redraws; part: how much is done, from 0 to 1, as a bar where there is room, or below 0. */
void cli_progress_show(const cli_line *l, double part);
/* "compiling vil_tiny": what is being done where no part of it is known. */
void cli_progress_note(const char *fmt, ...) VTB_PRINTF(1, 2);
/* A line that stays. */
void cli_progress_print(const cli_line *l);

/* Progress through so many images, since `start` (vtb_now()): for evaluation and inference. */
void cli_progress_images(const char *what, int64_t done, int64_t total, double start);

/* An on_event of a training. */
void cli_progress_train(const vtb_train_event *e);

#endif
