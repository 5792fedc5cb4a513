/* Shared by the commands that look at checkpoints. */
#include "frontend/cli/load/checkpoints.h"

#include "runtime/weights/open.h"

#include <string.h>

vtb_status cli_checkpoint_open(const char *path, const cli_part_options *o, vtb_weights **out,
                               vtb_strbuf *said) {
  vtb_error err = {0};
  const char *part = o->part ? o->part : o->averages ? "ema" : NULL;
  vtb_status status = vtb_weights_open_part(path, part, out, said, &err);
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}

void cli_checkpoint_tell(const char *path, const vtb_weights *w, const vtb_strbuf *said, doc *d) {
  size_t n[VTB_N_ELEMS] = {0};
  int64_t elements = 0;
  double bytes = 0;
  char number[40];
  vtb_strbuf types = {0};
  for (size_t i = 0; i < w->n; i++) {
    const vtb_weight *t = w->at[i];
    n[t->elem]++;
    elements += t->count;
    bytes += (double)t->count * (double)vtb_elem_bytes(t->elem);
  }
  for (int e = 0; e < VTB_N_ELEMS; e++)
    if (n[e])
      vtb_strbuf_printf(&types, "%s%zu %s", types.n ? ", " : ": ", n[e],
                        vtb_elem_name((vtb_elem)e));
  doc_say(d, 4, "%s: %zu tensor%s, %s numbers, %.*f %s%s", path, w->n, w->n == 1 ? "" : "s",
          cli_grouped(elements, number, sizeof number), bytes < 1e4 ? 0 : 1,
          bytes < 1e4 ? bytes : bytes / 1e6, bytes < 1e4 ? "bytes" : "MB", vtb_strbuf_text(&types));
  vtb_strbuf_free(&types);
  doc_put(d->json, F("n_tensors", w->n), F("n_elements", elements), F("bytes", bytes));
  cJSON *lines = cJSON_AddArrayToObject(d->json, "said");
  char *copy = vtb_xstrdup(vtb_strbuf_text(said)), *rest = copy, *line;
  while ((line = strsep(&rest, "\n"))) {
    if (!*line) continue;
    doc_append(lines, cJSON_CreateString(line));
    doc_say(d, 8, "  %s", line);
  }
  vtb_free(copy);
}
