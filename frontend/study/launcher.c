#include "frontend/study/launcher.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 5, MOST_RANKS = 1 << 20 };

/* Variables of the environment; the first that is set counts. */
typedef struct launcher {
  const char *name;
  const char *rank[MOST_NAMES], *size[MOST_NAMES], *here[MOST_NAMES];
} launcher;

static const launcher launchers[] = {
    {"local", {NULL}, {NULL}, {NULL}},
    {"mpi", /* Open MPI, a step of Slurm, MPICH and its like, PMIx */
     {"OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "PMIX_RANK"},
     {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE", "PMIX_SIZE"},
     {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}},
};

/* The number of the first variable that is set; -1: none is, or it is none. */
static int number_of(const char *const *names) {
  for (int i = 0; i < MOST_NAMES && names[i]; i++) {
    const char *text = getenv(names[i]);
    char *end;
    if (!text || !*text) continue;
    long n = strtol(text, &end, 10);
    return *end || n < 0 || n > MOST_RANKS ? -1 : (int)n;
  }
  return -1;
}

static vtb_status unknown(const char *name, vtb_error *err) {
  vtb_strbuf all = {0};
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
    vtb_strbuf_printf(&all, "%s%s", i ? ", " : "", launchers[i].name);
  vtb_status status =
      vtb_fail(err, VTB_E_USAGE, "no launcher is called '%s'; there are %s", name, all.at);
  vtb_strbuf_free(&all);
  return status;
}

vtb_status study_launch_find(const char *name, study_launch *out, vtb_error *err) {
  const launcher *l = NULL;
  *out = (study_launch){0, 1, 1};
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
    if (strcmp(launchers[i].name, name ? name : "local") == 0) l = &launchers[i];
  if (!l) return unknown(name, err);
  if (!l->rank[0]) return VTB_OK;
  int rank = number_of(l->rank), size = number_of(l->size), here = number_of(l->here);
  if (rank < 0 || size < 1 || rank >= size)
    return vtb_fail(err, VTB_E_USAGE,
                    "--launcher %s: nothing in the environment says which rank this is (%s and "
                    "%s); begin it by `mpirun -n N vertebra ablate ... --launcher mpi`",
                    name, l->rank[0], l->size[0]);
  *out = (study_launch){rank, size, here > 0 ? here : size};
  return VTB_OK;
}
