/* What the commands that look at checkpoints share. */
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

/* Tensors of each element type, elements, bytes. */
static void count(const vtb_weights *w, size_t n[VTB_N_ELEMS], int64_t *elements, double *bytes) {
  memset(n, 0, VTB_N_ELEMS * sizeof *n);
  *elements = 0;
  *bytes = 0;
  for (size_t i = 0; i < w->n; i++) {
    const vtb_weight *t = w->at[i];
    n[t->elem]++;
    *elements += t->count;
    *bytes += (double)t->count * (double)vtb_elem_bytes(t->elem);
  }
}

void cli_checkpoint_totals(const vtb_weights *w, vtb_strbuf *out) {
  size_t n[VTB_N_ELEMS];
  int64_t elements;
  double bytes;
  char number[40];
  const char *before = ": ";
  count(w, n, &elements, &bytes);
  vtb_strbuf_printf(out, "%zu tensor%s, %s numbers, %.*f %s", w->n, w->n == 1 ? "" : "s",
                    cli_grouped(elements, number, sizeof number), bytes < 1e4 ? 0 : 1,
                    bytes < 1e4 ? bytes : bytes / 1e6, bytes < 1e4 ? "bytes" : "MB");
  for (int e = 0; e < VTB_N_ELEMS; e++)
    if (n[e]) {
      vtb_strbuf_printf(out, "%s%zu %s", before, n[e], vtb_elem_name((vtb_elem)e));
      before = ", ";
    }
}

void cli_checkpoint_totals_json(const vtb_weights *w, const vtb_strbuf *said, cJSON *into) {
  size_t n[VTB_N_ELEMS];
  int64_t elements;
  double bytes;
  count(w, n, &elements, &bytes);
  cJSON_AddNumberToObject(into, "n_tensors", (double)w->n);
  cJSON_AddNumberToObject(into, "n_elements", (double)elements);
  cJSON_AddNumberToObject(into, "bytes", bytes);
  cJSON *lines = cJSON_AddArrayToObject(into, "said");
  char *copy = vtb_xstrdup(vtb_strbuf_text(said)), *rest = copy, *line;
  while ((line = strsep(&rest, "\n")))
    if (*line) cJSON_AddItemToArray(lines, cJSON_CreateString(line));
  vtb_free(copy);
}

void cli_checkpoint_print_said(const vtb_strbuf *said, FILE *f) {
  vtb_strbuf out = {0};
  char *copy = vtb_xstrdup(vtb_strbuf_text(said)), *rest = copy, *line;
  while ((line = strsep(&rest, "\n")))
    if (*line) vtb_strbuf_printf(&out, "  %s\n", line);
  cli_print_wrapped(f, vtb_strbuf_text(&out));
  vtb_strbuf_free(&out);
  vtb_free(copy);
}
