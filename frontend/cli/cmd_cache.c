/* vertebra cache: the compiled kernels kept on disk. */
#include "codegen/cuda/compile/nvrtc.h"
#include "frontend/cli/cli.h"

#include <string.h>

static vtb_status list(bool json) {
  vtb_cuda_cache_entry *entries = NULL;
  size_t n = 0;
  vtb_error err = {0};
  vtb_status status = vtb_cuda_cache_list(&entries, &n, &err);
  if (status != VTB_OK) return cli_error(&err);
  char *folder = vtb_cuda_cache_folder();
  cJSON *all = json ? cJSON_CreateObject() : NULL,
        *rows = json ? cJSON_AddArrayToObject(all, "entries") : NULL;
  double bytes = 0;
  for (size_t i = 0; i < n; i++) {
    bytes += (double)entries[i].bytes;
    if (json) {
      cJSON *row = cJSON_CreateObject();
      cJSON_AddStringToObject(row, "key", entries[i].key);
      cJSON_AddNumberToObject(row, "bytes", (double)entries[i].bytes);
      cJSON_AddNumberToObject(row, "used_seconds_ago", (double)entries[i].used_seconds_ago);
      cJSON_AddItemToArray(rows, row);
    } else {
      printf("%s %10.1f KB  used %.1f hours ago\n", entries[i].key, (double)entries[i].bytes / 1e3,
             (double)entries[i].used_seconds_ago / 3600);
    }
  }
  if (json) {
    cJSON_AddStringToObject(all, "folder", folder);
    cli_print_json(all);
  } else {
    printf("%zu entries, %.1f MB in %s\n", n, bytes / 1e6, folder);
  }
  vtb_free(folder);
  vtb_free(entries);
  return VTB_OK;
}

static vtb_status clear(bool json) {
  size_t n = 0;
  vtb_error err = {0};
  vtb_status status = vtb_cuda_cache_clear(&n, &err);
  if (status != VTB_OK) return cli_error(&err);
  if (json) {
    cJSON *out = cJSON_CreateObject();
    cJSON_AddNumberToObject(out, "removed", (double)n);
    cli_print_json(out);
  } else {
    printf("%zu entries removed\n", n);
  }
  return VTB_OK;
}

vtb_status cli_cmd_cache(int argc, char **argv) {
  bool json = false;
  const cli_opt opts[] = {{"--json", CLI_FLAG, &json, NULL, "machine-readable output"}};
  cli_list what = {0};
  int parsed = cli_parse("cache", opts, CLI_COUNT(opts), argc, argv, &what);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  vtb_status status;
  if (what.n == 1 && strcmp(what.at[0], "ls") == 0)
    status = list(json);
  else if (what.n == 1 && strcmp(what.at[0], "clear") == 0)
    status = clear(json);
  else
    status = cli_usage_error("cache", "`ls` or `clear` is needed");
  vtb_vec_free(&what);
  return status;
}
