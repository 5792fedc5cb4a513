/* A study: a model, what is varied of it, and what is measured of each combination. A combination
 * is a cell; what is done for a cell are steps, each an ordinary command of this program that
 * leaves one record in the report's folder (docs/studies.md has the layout). Whoever finds a record
 * has nothing left to do for that step, so a study that was killed goes on where it stood, and
 * several processes may work on one.
 *
 *   study_read()     the study of a file
 *   study_design()   its cells, in a fixed order
 *   study_words()    the command of a step
 *
 * Strings are owned by the study and its cells.
 */
#ifndef VTB_STUDY_H
#define VTB_STUDY_H

#include "runtime/base/base.h"

typedef VTB_VEC(char *) study_texts; /* each owned */

/* What the name of an axis stands for. */
typedef enum study_axis_kind {
  STUDY_HYPERPARAMETER, /* -D name=value */
  STUDY_OPTION,         /* --name value: mode, chunk, image, batch, lr, ... */
  STUDY_MODEL           /* MODEL itself */
} study_axis_kind;

typedef struct study_axis {
  char *name;
  study_axis_kind kind;
  study_texts values; /* as typed: "quad", "chunkwise(16)", "[rows, cols]" */
  bool has_default;   /* values.at[0] is what the model has by itself */
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
  char *data;            /* of training and evaluation; NULL: what the recipe says */
  study_texts train;     /* further words of train */
  int64_t seeds;         /* trainings a cell: seeds 0 to seeds - 1 */
  int64_t jobs, threads; /* processes at a time; threads of each, 0: cores / jobs */
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

void study_free(study *s);
void study_cells_free(study_cells *cells);

#endif
