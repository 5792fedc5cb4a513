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

/* Does what is left to do of the study, and writes the report. The study is resolved; fields that
 * are 0 for "by itself" (jobs, threads) are filled in. */
VTB_MUST_USE vtb_status ablate_run(study *s, const ablate_options *o);

#endif
