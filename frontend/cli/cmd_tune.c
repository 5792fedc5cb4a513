/* vertebra tune: times modes and chunk sizes of recurrences on this machine, for `auto`. */
#include "frontend/cli/cli.h"

vtb_status cli_cmd_tune(int argc, char **argv) {
  cli_list rest = {0};
  int parsed = cli_parse("tune", NULL, 0, argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  vtb_vec_free(&rest);
  return cli_usage_error("tune", "one MODEL is needed");
}
