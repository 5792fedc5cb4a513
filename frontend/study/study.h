/* A study: a model, what is varied of it, and what is measured of each combination. A combination
 * is a cell; what is done for a cell are steps, each an ordinary command of this program that
 * leaves one record in the report's folder (docs/studies.md has the layout). Whoever finds a record
 * has nothing left to do for that step, so a study that was killed goes on where it stood, and
 * several processes may work on one.
 *
 *   study_read()     the study of a file; or study_vary() for each axis, and the fields
 *   study_resolve()  what the names and values mean for the model; errors before anything runs
 *   study_design()   its cells, in a fixed order
 *   study_words()    the command of a step
 *
 * Strings are owned by the study and its cells. Errors: VTB_E_USAGE, a name or value of the command
 * line is at fault, VTB_E_INPUT, a file; the text names the place and the remedy.
 */
#ifndef VTB_STUDY_H
#define VTB_STUDY_H

#include "runtime/base/base.h"

typedef VTB_VEC(char *) study_texts; /* each owned */

/* The kinds of things that an axis' name stands for. */
typedef enum study_axis_kind {
  STUDY_HYPERPARAMETER, /* -D name=value */
  STUDY_OPTION,         /* --name value: mode, chunk, image, batch, lr, ... */
  STUDY_MODEL           /* MODEL itself */
} study_axis_kind;

typedef struct study_part {
  char *name;
  study_axis_kind kind;
} study_part;

/* Several names may vary together, "dim,heads" with values "192:3", "384:6": one axis of two parts.
 */
typedef struct study_axis {
  char *name;           /* as typed: "paths", "dim,heads" */
  study_axis_kind kind; /* of its first part */
  VTB_VEC(study_part) parts;
  study_texts values; /* as typed: "quad", "chunkwise(16)", "[rows, cols]", "192:3" */
  study_texts labels; /* as legends show them, one a value */
  size_t base;        /* the value of the baseline: the model's own, else the first */
} study_axis;

typedef enum study_arrangement {
  STUDY_GRID,
  STUDY_PAIRWISE,      /* every two values of two axes meet in a cell */
  STUDY_ONE_AT_A_TIME, /* one axis differs from the defaults */
  STUDY_SAMPLE         /* so many cells of the grid, drawn by the seed */
} study_arrangement;

typedef struct study {
  char *title;
  char *model;
  VTB_VEC(study_axis) axes;
  study_arrangement arrangement;
  int64_t sample, seed;  /* of STUDY_SAMPLE */
  study_texts where;     /* all must hold of a cell; the others are excluded */
  study_texts options;   /* words that every command of a cell has, "-D", "depth=4", ... */
  bool bench;            /* time each cell */
  bool bench_train;      /* a training step instead of the forward */
  int64_t rounds;        /* of timing */
  double seconds;        /* of timing, a cell and round */
  char *recipe;          /* of training; NULL: none */
  char *recipe_file;     /* where it was found; NULL: nowhere, or nobody looked */
  char *data;            /* of training and evaluation; NULL: what the recipe says */
  bool assumed_data;     /* nobody said so in the study */
  bool untested;         /* the data have no test split: val judges, nothing is evaluated */
  study_texts train;     /* further words of train; with them it trains, recipe or not */
  int64_t seeds;         /* trainings a cell: seeds 0 to seeds - 1; 0: nothing is trained */
  int64_t jobs, threads; /* processes at a time; threads of each, 0: cores / jobs */
  char *text;            /* the study file that it was read from; NULL: there is none */
} study;

typedef struct study_cell {
  int number;        /* from 0, in the order of the design */
  char *id;          /* the name of its folder below cells/: letters, digits, "-_.=" */
  char *label;       /* the settings that differ between cells: "quad, chunkwise(16)" */
  study_texts value; /* one an axis */
  char *excluded;    /* the condition that it does not meet; NULL: it is part of the study */
} study_cell;
typedef VTB_VEC(study_cell) study_cells;

typedef enum study_step {
  STUDY_CHECK, /* vertebra check: sizes, modes, predicted time; what fails here never runs */
  STUDY_TRAIN, /* vertebra train, n: the seed */
  STUDY_EVAL,  /* vertebra eval of the best weights of seed n, on test */
  STUDY_BENCH  /* vertebra bench, n: the round */
} study_step;

/* Grid, 3 rounds of 1 second, nothing asked for. */
study study_defaults(void);
void study_free(study *s);
void study_axis_free(study_axis *a);
void study_axes_free(study *s);
/* Adds what follows from what was asked for: nothing trained has no seeds, something is
 * measured. */
void study_complete(study *s);
void study_cell_free(study_cell *c);
void study_cells_free(study_cells *cells);
void study_texts_add(study_texts *t, const char *text); /* a copy */
void study_texts_free(study_texts *t);

/* ---- design.c: axes and cells ---------------------------------------------------------------- */

/* "NAME=A,B,C" or "NAME,NAME=A:B,C:D" as one more axis. */
VTB_MUST_USE vtb_status study_vary(study *s, const char *text, vtb_error *err);
/* A value of an axis by its parts, appended to *out. */
void study_axis_value(const study_axis *a, const char *value, study_texts *out);
/* Finds what names and values mean for the model; bases of axes. Appends sentences about what was
 * decided to *notes. VTB_E_USAGE if a name or a value can be used by no cell. */
VTB_MUST_USE vtb_status study_resolve(study *s, study_texts *notes, vtb_error *err);
/* The cells, those that `where` excludes among them: of the grid and one-at-a-time. Other designs
 * are made of cells for which it holds. A condition that cannot be asked of a cell, since its model
 * has no such name, holds; one that can be asked of none is an error. */
VTB_MUST_USE vtb_status study_design(const study *s, study_cells *out, vtb_error *err);

/* A cell's settings one by one, axes of several parts taken apart; borrowed of study and cell but
 * for the values. */
typedef struct study_setting {
  const char *name;
  study_axis_kind kind;
  char *value;
} study_setting;
typedef VTB_VEC(study_setting) study_settings;
void study_cell_settings(const study *s, const study_cell *c, study_settings *out);
void study_settings_free(study_settings *settings);

/* ---- words.c: the commands of steps ---------------------------------------------------------- */

/* The words of the command, "vertebra" first; n: the seed or round; folder: the report's, as it is
 * reached from where the command runs. Appended to *out. s->threads is given if it is not 0. */
void study_words(const study *s, const study_cell *c, study_step step, int n, const char *folder,
                 study_texts *out);
/* The words of STUDY_TRAIN where the run's folder holds what a training has left: it goes on. */
void study_words_resume(const study *s, const study_cell *c, int n, const char *folder,
                        study_texts *out);
/* "folder/cells/ID/train-N" */
char *study_run_folder(const study_cell *c, int n, const char *folder);

/* Sets "name" to value in all cells, in place of what was set before: a hyperparameter ("-D"), or
 * an option "--name"; value NULL: a flag. */
void study_set(study_texts *words, const char *option, const char *name, const char *value);

/* ---- read.c: the study as a file ------------------------------------------------------------- */

/* Errors name file, line and column. *out is for study_free() after failures too. */
VTB_MUST_USE vtb_status study_read(const char *path, study *out, vtb_error *err);
VTB_MUST_USE vtb_status study_read_text(const char *path, const char *text, size_t n, study *out,
                                        vtb_error *err);

/* ---- file.c ---------------------------------------------------------------------------------- */

/* The text of study.yaml. Of a study that was read from a file its own, byte for byte; what was
 * changed since stands behind it, below `overrides`. Jobs and threads, on which no result depends,
 * are not part of it. */
void study_text(const study *s, vtb_strbuf *out);

#endif
