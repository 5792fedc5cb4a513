/* Launchers of processes that share a report. */
#include "frontend/study/launcher.h"
#include "runtime/base/launched.h"
#include "runtime/base/names.h"

static const char *const launchers[] = {"local", "mpi"};
enum { N_LAUNCHERS = sizeof launchers / sizeof *launchers };

static vtb_status unknown(const char *name, vtb_error *err) {
  vtb_strbuf all = {0};
  vtb_strbuf_names(&all, launchers, N_LAUNCHERS, ", ", ", ");
  vtb_fail(err, VTB_E_USAGE, "no launcher is called '%s'; there are %s", name, all.at);
  vtb_strbuf_free(&all);
  return VTB_E_USAGE;
}

vtb_status study_launch_find(const char *name, study_launch *out, vtb_error *err) {
  vtb_launch l;
  *out = (study_launch){0, 1, 1};
  if (!name || vtb_streq(name, "local")) return VTB_OK;
  if (!vtb_streq(name, "mpi")) return unknown(name, err);
  if (!vtb_launched(&l) || !l.size)
    return vtb_fail(err, VTB_E_USAGE,
                    "--launcher %s: nothing in the environment says which rank this is "
                    "(OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE); begin it by `mpirun -n N "
                    "vertebra ablate ... --launcher mpi`",
                    name);
  *out = (study_launch){l.rank, l.size, l.here > 0 ? l.here : l.size};
  return VTB_OK;
}
