/* vertebra ablate: its options (cmd_ablate.c), and running the study (ablate_run.c). */
#ifndef VTB_CLI_ABLATE_H
#define VTB_CLI_ABLATE_H

#include "frontend/cli/cli.h"
#include "frontend/study/study.h"

typedef struct ablate_options {
  const char *folder;   /* of the report */
  const char *launcher; /* local, mpi */
  const char *against;  /* the folder of another report; NULL: none */
  bool retry;           /* steps that have failed are done again */
  bool extend;          /* the folder may hold another study: what both have is kept */
} ablate_options;

/* The command line, field by field; what was not given is 0, NULL, or below 0. */
typedef struct ablate_command {
  const char *what; /* MODEL, a study's name or file, or a report's folder */
  ablate_options run;
  cli_list vary, where, defines;
  const char *title, *recipe, *data;
  const char **option; /* of study_option_table(), one a row */
  bool *flag;
  bool bench, bench_train, pairwise, one_at_a_time, dry_run, list;
  int64_t sample, seed, seeds, rounds, jobs, threads;
  double seconds;
  char *folder; /* owned: where nobody gave one */
} ablate_command;

/* The study that the command asks for, resolved; run.folder is set. What was decided is said. *s is
 * for study_free() after failures too. ablate_study.c */
VTB_MUST_USE vtb_status ablate_study(ablate_command *c, study *s, vtb_error *err);
/* The cells and what they will cost, by `vertebra check` of each. ablate_plan.c */
VTB_MUST_USE vtb_status ablate_plan(const study *s, const char *folder, vtb_error *err);
/* The studies that are there by name. */
vtb_status ablate_list(void);

/* Does what is left to do of the study, and writes the report. The study is resolved; fields that
 * are 0 for "by itself" (jobs, threads) are filled in. */
VTB_MUST_USE vtb_status ablate_run(study *s, const ablate_options *o);

#endif
