/* vertebra ablate: a study of a model, from what is varied to a report. */
#include "frontend/cli/cli.h"

vtb_status cli_cmd_ablate(int argc, char **argv) {
  cli_list rest = {0};
  int parsed = cli_parse("ablate", NULL, 0, argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  vtb_vec_free(&rest);
  return cli_usage_error("ablate", "a MODEL and --vary are needed");
}
