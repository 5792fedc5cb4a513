/* Claims: several processes work on one report, and each step is done by one of them. A claim is a
 * lock on a file; it ends with its process, however that ends. Works over NFS (fcntl locks). */
#ifndef VTB_STUDY_CLAIM_H
#define VTB_STUDY_CLAIM_H

#include "runtime/base/base.h"

typedef struct study_claim {
  char *path;
  int file; /* -1: none */
} study_claim;

/* taken: false where another process has it. The folder of `path` is there. */
VTB_MUST_USE vtb_status study_claim_take(study_claim *c, const char *path, bool *taken,
                                         vtb_error *err);
/* Also takes the file away; fine where nothing was taken. */
void study_claim_give(study_claim *c);

#endif
