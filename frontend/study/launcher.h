/* Launchers: who begins the processes that share a report. Each process learns from its environment
 * which of them it is; nothing is linked. */
#ifndef VTB_STUDY_LAUNCHER_H
#define VTB_STUDY_LAUNCHER_H

#include "runtime/base/base.h"

typedef struct study_launch {
  int rank, size; /* 0 of 1: alone */
  int here;       /* how many of them are on this machine */
} study_launch;

/* VTB_E_USAGE: there is no launcher of that name, or it did not begin this process. name: NULL is
 * "local". */
VTB_MUST_USE vtb_status study_launch_find(const char *name, study_launch *out, vtb_error *err);

#endif
