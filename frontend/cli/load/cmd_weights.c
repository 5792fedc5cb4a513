/* vertebra weights: what a checkpoint holds. */
#include "frontend/cli/load/checkpoints.h"
#include "runtime/base/utf8.h"

#include <string.h>

enum { META_MOST = 300, MOST_NAME = 200 };

static void add_tensors(const vtb_weights *w, doc *d) {
  static const doc_column columns[] = {
      {"name", "name", .width = -4, .most = -MOST_NAME},
      {"dtype", "dtype", .width = -4},
      {.heading = "numbers", .width = 11, .write = cli_write_grouped},
      {.key = "shape"},
      {.heading = "shape", .width = -1},
      {.key = "bytes"},
  };
  doc_table *table = DOC_TABLE(d, cJSON_AddArrayToObject(d->json, "tensors"), columns);
  table->indent = 2, table->headless = true;
  for (size_t i = 0; i < w->n; i++) {
    const vtb_weight *t = w->at[i];
    vtb_strbuf shape = {0};
    vtb_shape_print(&shape, t->rank, t->dim);
    doc_row(d, table, V(t->name), V(vtb_elem_name(t->elem)), V(t->count),
            V(doc_numbers(t->dim, t->rank)), V(shape.at),
            V((double)t->count * (double)vtb_elem_bytes(t->elem)));
    vtb_strbuf_free(&shape);
  }
}

/* Long values are cut on a terminal. */
static void say_entry(doc *d, const char *key, const char *text, int columns) {
  vtb_strbuf out = {0}, name = {0};
  size_t n = strlen(text), fits = vtb_text_fit(text, n, META_MOST);
  vtb_text_visible(&name, key, strlen(key));
  vtb_text_visible(&out, text, fits);
  if (fits < n) vtb_strbuf_printf(&out, "... (%zu characters)", n);
  doc_say(d, columns + 4, "  %-*s  %s", columns, vtb_strbuf_text(&name), vtb_strbuf_text(&out));
  vtb_strbuf_free(&out);
  vtb_strbuf_free(&name);
}

static void add_meta(const vtb_weights *w, doc *d) {
  int columns = 4;
  cJSON *meta = cJSON_AddObjectToObject(d->json, "metadata");
  for (size_t i = 0; i < w->meta.n; i++) {
    int n = (int)strlen(w->meta.at[i].key);
    if (n > columns && n <= 24) columns = n;
  }
  if (w->meta.n) doc_say(d, 0, "metadata");
  for (size_t i = 0; i < w->meta.n; i++) {
    const char *key = w->meta.at[i].key, *value = w->meta.at[i].value;
    cJSON_AddStringToObject(meta, key, value); /* also of a key that is there twice */
    say_entry(d, key, value, columns);
  }
}

static vtb_status tell_weights(void *part, const cli_list *files, vtb_error *err) {
  (void)err;
  vtb_weights *w = NULL;
  vtb_strbuf said = {0};
  vtb_status status = cli_checkpoint_open(files->at[0], part, &w, &said);
  if (status == VTB_OK) {
    doc *d = doc_new(doc_object(F("file", files->at[0])));
    cli_checkpoint_tell(files->at[0], w, &said, d);
    add_tensors(w, d);
    add_meta(w, d);
    cli_tell(d);
  }
  vtb_weights_free(w);
  vtb_strbuf_free(&said);
  return status;
}

vtb_status cli_cmd_weights(int argc, char **argv) {
  cli_part_options part = {0};
  const cli_opt opts[] = {CLI_PART_OPTS(part)};
  return CLI_RUN("weights", opts, .one = "one FILE or folder is needed", .run = tell_weights,
                 .options = &part);
}
