/* The launcher that began this process, by the environment: Open MPI's mpirun, anything that speaks
 * PMIx, Slurm. */
#ifndef VTB_LAUNCHED_H
#define VTB_LAUNCHED_H

#include "runtime/base/base.h"

/* Rank of `size`; `here`: how many of them are on this machine. 0: it does not say. */
typedef struct vtb_launch {
  int rank, size, here;
} vtb_launch;
/* False: none did; *out is zeroes. */
bool vtb_launched(vtb_launch *out);

#endif
