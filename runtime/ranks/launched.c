/* What the environment says of a launcher: Open MPI's mpirun, anything that speaks PMIx, Slurm. */
#include "runtime/ranks/ranks.h"

#include <stdlib.h>

/* Of a step (srun), not of the script that sbatch runs, which has SLURM_NTASKS, too. */
static const struct {
  const char *rank, *size;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"PMIX_RANK", "PMIX_SIZE"},
    {"PMI_RANK", "PMI_SIZE"}, /* MPICH's, which is another MPI: open() says so */
    {"PMIX_RANK", NULL},
};

static bool is_number(const char *name, long *out) {
  const char *text = name ? getenv(name) : NULL;
  char *end;
  if (!text || !*text) return false;
  *out = strtol(text, &end, 10);
  return !*end && *out >= 0 && *out < 1 << 20;
}

bool vtb_ranks_launched(int *n) {
  if (n) *n = 0;
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    long rank = 0, size = 0;
    if (!is_number(launchers[i].rank, &rank)) continue;
    if (launchers[i].size && !(is_number(launchers[i].size, &size) && size > rank)) continue;
    if (n) *n = (int)size;
    return true;
  }
  return false;
}
