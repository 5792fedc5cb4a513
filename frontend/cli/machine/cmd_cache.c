/* vertebra cache: the compiled kernels and the tables of tuning kept on disk. */
#include "codegen/cuda/compile/nvrtc.h"
#include "frontend/cli/cli.h"
#include "frontend/compile/tuning.h"

#include <math.h>
#include <string.h>

/* Measurements that `vertebra tune` stored. */
static vtb_status list_tuning(doc *d) {
  vtb_tuning_entry *entries = NULL;
  size_t n = 0;
  vtb_error err = {0};
  vtb_status status = vtb_tuning_list(&entries, &n, &err);
  if (status != VTB_OK) return cli_error(&err);
  char *folder = vtb_tuning_folder();
  cJSON *rows = cJSON_AddArrayToObject(d->json, "tuning");
  for (size_t i = 0; i < n; i++) {
    const vtb_tuning_entry *e = &entries[i];
    bool damaged = e->rows < 0;
    doc_item(rows, F("file", e->name), F("processor", e->processor), F("bytes", e->bytes),
             K("rows", damaged ? (double)NAN : (double)e->rows), F("damaged", damaged));
    if (damaged)
      doc_say(d, 2, "%s is damaged: `vertebra tune` replaces it", e->name);
    else
      doc_say(d, 2, "%s: %lld times measured on %s", e->name, (long long)e->rows, e->processor);
  }
  doc_say(d, 2, "%zu table%s of tuning in %s", n, n == 1 ? "" : "s", folder);
  vtb_free(folder);
  vtb_free(entries);
  return VTB_OK;
}

static vtb_status list(void) {
  static const doc_column columns[] = {
      {"key", "key", .width = -1},
      {"bytes", "bytes", .width = 13, .format = "%.1f KB", .scale = 1e-3},
      {"used_seconds_ago", "used", .width = -1, .format = "used %.1f hours ago",
       .scale = 1.0 / 3600},
  };
  vtb_cuda_cache_entry *entries = NULL;
  size_t n = 0;
  vtb_error err = {0};
  vtb_status status = vtb_cuda_cache_list(&entries, &n, &err);
  if (status != VTB_OK) return cli_error(&err);
  char *folder = vtb_cuda_cache_folder();
  double bytes = 0;
  doc *d = doc_new(cJSON_CreateObject());
  doc_table *t = DOC_TABLE(d, cJSON_AddArrayToObject(d->json, "entries"), columns);
  t->headless = true;
  for (size_t i = 0; i < n; i++) {
    bytes += (double)entries[i].bytes;
    doc_row(d, t, V(entries[i].key), V(entries[i].bytes), V(entries[i].used_seconds_ago));
  }
  doc_put(d->json, F("folder", folder));
  doc_say(d, 2, "%zu entries, %.1f MB in %s", n, bytes / 1e6, folder);
  vtb_free(folder);
  vtb_free(entries);
  status = list_tuning(d);
  cli_tell(d);
  return status;
}

static vtb_status clear(void) {
  size_t n = 0, tables = 0;
  vtb_error err = {0};
  vtb_status status = vtb_cuda_cache_clear(&n, &err);
  if (status == VTB_OK) status = vtb_tuning_clear(&tables, &err);
  if (status != VTB_OK) return cli_error(&err);
  doc *d = doc_new(doc_object(F("removed", n), F("tuning_removed", tables)));
  doc_say(d, 2, "%zu entries removed, %zu table%s of tuning", n, tables, tables == 1 ? "" : "s");
  cli_tell(d);
  return VTB_OK;
}

static vtb_status run_cache(void *none, const cli_list *what, vtb_error *err) {
  (void)none, (void)err;
  if (what->n == 1 && strcmp(what->at[0], "ls") == 0) return list();
  if (what->n == 1 && strcmp(what->at[0], "clear") == 0) return clear();
  return cli_usage_error("cache", "`ls` or `clear` is needed");
}

vtb_status cli_cmd_cache(int argc, char **argv) {
  return cli_run(&(cli_call){.command = "cache", .run = run_cache}, argc, argv);
}
