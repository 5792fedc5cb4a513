/* vertebra weights: what a checkpoint holds. */
#include "frontend/cli/load/checkpoints.h"
#include "runtime/base/utf8.h"

#include <string.h>

enum { META_MOST = 300, NUMBERS = 23 }; /* NUMBERS: columns of type and count */

static int shape_columns(const vtb_weight *t) {
  vtb_strbuf shape = {0};
  vtb_shape_print(&shape, t->rank, t->dim);
  int n = (int)shape.n;
  vtb_strbuf_free(&shape);
  return n;
}

/* Columns of the widest name that shares its line with the rest. */
static int name_columns(const vtb_weights *w) {
  int most = 4, shapes = 0, all = cli_columns(stdout);
  for (size_t i = 0; i < w->n; i++) {
    int n = shape_columns(w->at[i]);
    if (n > shapes) shapes = n;
  }
  int room = all ? all - NUMBERS - shapes - 2 : 200;
  if (room < 16) room = 16;
  for (size_t i = 0; i < w->n; i++) {
    int n = vtb_text_columns(w->at[i]->name, strlen(w->at[i]->name));
    if (n > most && n <= room) most = n;
  }
  return most;
}

/* "blocks.0.attn.qkv.weight   [576, 192]   F32   110,592"; a longer name has a line of its own. */
static void print_tensor(const vtb_weight *t, int columns) {
  vtb_strbuf name = {0}, shape = {0};
  char number[40];
  vtb_text_visible(&name, t->name, strlen(t->name));
  vtb_shape_print(&shape, t->rank, t->dim);
  int n = vtb_text_columns(vtb_strbuf_text(&name), name.n);
  if (n > columns)
    printf("  %s\n  %*s", vtb_strbuf_text(&name), columns, "");
  else
    printf("  %s%*s", vtb_strbuf_text(&name), columns - n, "");
  printf("  %-5s %11s  %s\n", vtb_elem_name(t->elem), cli_grouped(t->count, number, sizeof number),
         vtb_strbuf_text(&shape));
  vtb_strbuf_free(&name);
  vtb_strbuf_free(&shape);
}

/* Long values are cut: --json has all of them. */
static void print_entry(const char *key, const char *text, int columns) {
  vtb_strbuf out = {0}, name = {0};
  size_t n = strlen(text), fits = vtb_text_fit(text, n, META_MOST);
  vtb_text_visible(&name, key, strlen(key));
  vtb_text_visible(&out, text, fits);
  if (fits < n) vtb_strbuf_printf(&out, "... (%zu characters)", n);
  printf("  %-*s  ", columns, vtb_strbuf_text(&name));
  int at = 4 + (name.n > (size_t)columns ? (int)name.n : columns);
  cli_print_paragraph(vtb_strbuf_text(&out), at, columns + 4);
  vtb_strbuf_free(&out);
  vtb_strbuf_free(&name);
}

static void print_meta(const vtb_weights *w) {
  int columns = 4;
  for (size_t i = 0; i < w->meta.n; i++) {
    int n = (int)strlen(w->meta.at[i].key);
    if (n > columns && n <= 24) columns = n;
  }
  if (w->meta.n) puts("metadata");
  for (size_t i = 0; i < w->meta.n; i++)
    print_entry(w->meta.at[i].key, w->meta.at[i].value, columns);
}

static void print(const char *path, const vtb_weights *w, const vtb_strbuf *said) {
  vtb_strbuf totals = {0};
  int columns = name_columns(w);
  cli_checkpoint_totals(w, &totals);
  printf("%s: %s\n", path, totals.at);
  cli_checkpoint_print_said(said, stdout);
  for (size_t i = 0; i < w->n; i++) print_tensor(w->at[i], columns);
  print_meta(w);
  vtb_strbuf_free(&totals);
}

static cJSON *tensor_json(const vtb_weight *t) {
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "name", t->name);
  cJSON_AddStringToObject(row, "dtype", vtb_elem_name(t->elem));
  cJSON *shape = cJSON_AddArrayToObject(row, "shape");
  for (int i = 0; i < t->rank; i++)
    cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t->dim[i]));
  cJSON_AddNumberToObject(row, "bytes", (double)t->count * (double)vtb_elem_bytes(t->elem));
  return row;
}

static void print_json(const char *path, const vtb_weights *w, const vtb_strbuf *said) {
  cJSON *all = cJSON_CreateObject();
  cJSON_AddStringToObject(all, "file", path);
  cli_checkpoint_totals_json(w, said, all);
  cJSON *rows = cJSON_AddArrayToObject(all, "tensors");
  for (size_t i = 0; i < w->n; i++) cJSON_AddItemToArray(rows, tensor_json(w->at[i]));
  cJSON *meta = cJSON_AddObjectToObject(all, "metadata");
  for (size_t i = 0; i < w->meta.n; i++)
    cJSON_AddStringToObject(meta, w->meta.at[i].key, w->meta.at[i].value);
  cli_print_json(all);
}

vtb_status cli_cmd_weights(int argc, char **argv) {
  cli_part_options part = {0};
  bool json = false;
  const cli_opt opts[] = {CLI_PART_OPTS(part),
                          {"--json", CLI_FLAG, &json, NULL, "machine-readable output"}};
  cli_list files = {0};
  int parsed = cli_parse("weights", opts, CLI_COUNT(opts), argc, argv, &files);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (files.n != 1) return cli_usage_error("weights", "one FILE or folder is needed");
  vtb_weights *w = NULL;
  vtb_strbuf said = {0};
  vtb_status status = cli_checkpoint_open(files.at[0], &part, &w, &said);
  if (status == VTB_OK) (json ? print_json : print)(files.at[0], w, &said);
  vtb_weights_free(w);
  vtb_strbuf_free(&said);
  vtb_vec_free(&files);
  return status;
}
