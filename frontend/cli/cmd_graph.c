/* vertebra graph: a model as a picture: blocks, ops, fused kernels, shapes. */
#include "frontend/cli/cli.h"

vtb_status cli_cmd_graph(int argc, char **argv) {
  cli_list rest = {0};
  int parsed = cli_parse("graph", NULL, 0, argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  vtb_vec_free(&rest);
  return cli_usage_error("graph", "one MODEL is needed");
}
