/* vertebra cache: the compiled kernels and the tables of tuning kept on disk. */
#include "codegen/cuda/compile/nvrtc.h"
#include "frontend/cli/cli.h"
#include "frontend/compile/tuning.h"

#include <string.h>

static cJSON *table_json(const vtb_tuning_entry *e) {
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "file", e->name);
  cJSON_AddStringToObject(row, "processor", e->processor);
  cJSON_AddNumberToObject(row, "bytes", (double)e->bytes);
  if (e->rows >= 0) cJSON_AddNumberToObject(row, "rows", (double)e->rows);
  cJSON_AddBoolToObject(row, "damaged", e->rows < 0);
  return row;
}

/* What `vertebra tune` stored, to stdout or as a member of `all`. */
static vtb_status list_tuning(cJSON *all) {
  vtb_tuning_entry *entries = NULL;
  size_t n = 0;
  vtb_error err = {0};
  vtb_status status = vtb_tuning_list(&entries, &n, &err);
  if (status != VTB_OK) return cli_error(&err);
  char *folder = vtb_tuning_folder();
  cJSON *rows = all ? cJSON_AddArrayToObject(all, "tuning") : NULL;
  for (size_t i = 0; i < n; i++)
    if (all)
      cJSON_AddItemToArray(rows, table_json(&entries[i]));
    else if (entries[i].rows < 0)
      cli_printf(2, "%s is damaged: `vertebra tune` replaces it", entries[i].name);
    else
      cli_printf(2, "%s: %lld times measured on %s", entries[i].name, (long long)entries[i].rows,
                 entries[i].processor);
  if (!all) cli_printf(2, "%zu table%s of tuning in %s", n, n == 1 ? "" : "s", folder);
  vtb_free(folder);
  vtb_free(entries);
  return VTB_OK;
}

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
  } else {
    printf("%zu entries, %.1f MB in %s\n", n, bytes / 1e6, folder);
  }
  vtb_free(folder);
  vtb_free(entries);
  status = list_tuning(all);
  if (all) cli_print_json(all);
  return status;
}

static vtb_status clear(bool json) {
  size_t n = 0, tables = 0;
  vtb_error err = {0};
  vtb_status status = vtb_cuda_cache_clear(&n, &err);
  if (status == VTB_OK) status = vtb_tuning_clear(&tables, &err);
  if (status != VTB_OK) return cli_error(&err);
  if (json) {
    cJSON *out = cJSON_CreateObject();
    cJSON_AddNumberToObject(out, "removed", (double)n);
    cJSON_AddNumberToObject(out, "tuning_removed", (double)tables);
    cli_print_json(out);
  } else {
    printf("%zu entries removed, %zu table%s of tuning\n", n, tables, tables == 1 ? "" : "s");
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
