/* The launcher of this process, by its environment. */
#include "runtime/base/launched.h"

#include <stdlib.h>

/* The first row whose variables are set counts. */
static const struct {
  const char *rank, *size, *here;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    /* of a step (srun), not of the script that sbatch runs, which has SLURM_NTASKS, too */
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL},
    {"PMIX_RANK", "PMIX_SIZE", NULL},
    {"PMI_RANK", "PMI_SIZE",
     "MPI_LOCALNRANKS"}, /* MPICH's, another MPI: vtb_ranks_open() says so */
    {"PMIX_RANK", NULL, NULL},
};

/* False: it is not set, or no number of ranks. */
static bool number_of(const char *name, int *out) {
  enum { MOST = 1 << 20 };
  const char *text = name ? getenv(name) : NULL;
  char *end;
  if (!text || !*text) return false;
  long n = strtol(text, &end, 10);
  *out = (int)n;
  return !*end && n >= 0 && n < MOST;
}

bool vtb_launched(vtb_launch *out) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    *out = (vtb_launch){.rank = 0};
    if (!number_of(launchers[i].rank, &out->rank)) continue;
    if (launchers[i].size && !(number_of(launchers[i].size, &out->size) && out->size > out->rank))
      continue;
    if (!number_of(launchers[i].here, &out->here)) out->here = 0;
    return true;
  }
  *out = (vtb_launch){.rank = 0};
  return false;
}
