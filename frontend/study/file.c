/* The study as a YAML file. */
#include "frontend/study/study.h"

vtb_status study_read(const char *path, study *out, vtb_error *err) {
  *out = study_defaults();
  return vtb_fail(err, VTB_E_INPUT, "%s: studies are not read from files yet", path);
}

static void put_text(vtb_strbuf *out, const char *text) { vtb_strbuf_json(out, text); }

static void put_list(vtb_strbuf *out, const char *name, const study_texts *list) {
  if (!list->n) return;
  vtb_strbuf_printf(out, "%s: [", name);
  for (size_t i = 0; i < list->n; i++) {
    vtb_strbuf_puts(out, i ? ", " : "");
    put_text(out, list->at[i]);
  }
  vtb_strbuf_puts(out, "]\n");
}

void study_text(const study *s, vtb_strbuf *out) {
  static const char *const arrangements[] = {[STUDY_GRID] = "grid",
                                             [STUDY_PAIRWISE] = "pairwise",
                                             [STUDY_ONE_AT_A_TIME] = "one-at-a-time",
                                             [STUDY_SAMPLE] = "sample"};
  if (s->text) {
    vtb_strbuf_puts(out, s->text);
    return;
  }
  if (s->title)
    vtb_strbuf_puts(out, "title: "), put_text(out, s->title), vtb_strbuf_putc(out, '\n');
  vtb_strbuf_puts(out, "model: "), put_text(out, s->model), vtb_strbuf_putc(out, '\n');
  vtb_strbuf_puts(out, "vary:\n");
  for (size_t i = 0; i < s->axes.n; i++) {
    vtb_strbuf_puts(out, "  ");
    put_list(out, s->axes.at[i].name, &s->axes.at[i].values);
  }
  vtb_strbuf_printf(out, "arrangement: %s\n", arrangements[s->arrangement]);
  put_list(out, "where", &s->where);
  put_list(out, "options", &s->options);
}

vtb_status study_write(const study *s, const char *path, vtb_error *err) {
  vtb_strbuf text = {0};
  study_text(s, &text);
  vtb_status status = vtb_file_write_atomic(path, vtb_strbuf_text(&text), text.n, err);
  vtb_strbuf_free(&text);
  return status;
}
