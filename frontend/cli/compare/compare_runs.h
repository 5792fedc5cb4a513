/* Training runs as `compare` reads them: from their logs, records and weights. A run that cannot be
 * read has a problem instead. */
#ifndef VTB_CLI_COMPARE_RUNS_H
#define VTB_CLI_COMPARE_RUNS_H

#include "frontend/cli/cli.h"
#include "frontend/study/statistics.h"

typedef struct compare_setting {
  char *name, *value;
  bool define; /* -D */
} compare_setting;

typedef struct compare_run {
  char *folder, *name, *model;
  char *problem; /* why it is not compared; NULL: it is */
  VTB_VEC(compare_setting) settings;
  char *label;             /* "lr 0.002, seed 1": as it was given with --label, else what differs */
  char *seedless;          /* the same without the seed */
  char *seed;              /* NULL: not known */
  double images;           /* evaluated on; 0: not known */
  int64_t parameters;      /* 0: not known */
  VTB_VEC(double) x, test; /* of evaluations: epochs or seconds; per cent, or score */
  char *score;             /* what the model declares to be measured by; NULL: top-1 accuracy */
  bool lower;              /* is better */
  double last, best;       /* from 0 to 1, or score */
  double epochs, steps, seconds, images_per_second, loss;
  int group; /* of compare_runs.groups; -1: it has a problem */
} compare_run;

/* Runs that differ in nothing but their seeds, in order. */
typedef struct compare_group {
  VTB_VEC(int) runs;
  study_score last, best; /* over the runs, from 0 to 1 of accuracies */
  bool ahead;             /* its best is better than every other's by more than chance */
} compare_group;

typedef struct compare_runs {
  VTB_VEC(compare_run) at;
  VTB_VEC(compare_group) groups;
} compare_runs;

/* A folder is one run, or the report of a study: all of its runs. by_run: every run is a group. */
void compare_read(compare_runs *out, const cli_list *folders, bool by_epoch, bool by_run);
void compare_free(compare_runs *c);

bool compare_differs(const compare_runs *c, const char *name, const char *value);

#endif
