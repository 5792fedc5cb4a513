/* Run logs. Lines are complete or absent: each is written by one call and flushed. */
#include "runtime/train/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct vtb_run_log {
  char *csv_path, *json_path;
  FILE *csv, *json;
  bool csv_empty;
};

/* ---- lines ----------------------------------------------------------------------------------- */

static void json_value(vtb_strbuf *out, const vtb_log_field *f) {
  bool is_null = f->kind == VTB_LOG_TEXT ? !f->text : f->kind == VTB_LOG_REAL && !isfinite(f->r);
  if (is_null)
    vtb_strbuf_puts(out, "null");
  else if (f->kind == VTB_LOG_TEXT)
    vtb_strbuf_json(out, f->text);
  else if (f->kind == VTB_LOG_INT)
    vtb_strbuf_printf(out, "%lld", (long long)f->i);
  else
    vtb_strbuf_printf(out, "%.9g", f->r);
}

void vtb_json_line(vtb_strbuf *out, const vtb_log_field *fields, size_t n) {
  vtb_strbuf_putc(out, '{');
  for (size_t i = 0; i < n; i++) {
    if (i) vtb_strbuf_putc(out, ',');
    vtb_strbuf_json(out, fields[i].key);
    vtb_strbuf_putc(out, ':');
    json_value(out, &fields[i]);
  }
  vtb_strbuf_puts(out, "}\n");
}

static void csv_text(vtb_strbuf *out, const char *text) {
  if (!strpbrk(text, ",\"\n\r")) {
    vtb_strbuf_puts(out, text);
    return;
  }
  vtb_strbuf_putc(out, '"');
  for (; *text; text++) {
    if (*text == '"') vtb_strbuf_putc(out, '"');
    vtb_strbuf_putc(out, *text);
  }
  vtb_strbuf_putc(out, '"');
}

static void csv_value(vtb_strbuf *out, const vtb_log_field *f) {
  switch (f->kind) {
  case VTB_LOG_INT:
    vtb_strbuf_printf(out, "%lld", (long long)f->i);
    break;
  case VTB_LOG_REAL:
    if (isfinite(f->r)) vtb_strbuf_printf(out, "%.9g", f->r);
    break;
  case VTB_LOG_TEXT:
    csv_text(out, f->text ? f->text : "");
    break;
  }
}

/* ---- resuming: keep what was recorded up to a step ------------------------------------------- */

static bool csv_step(const char *line, long long *step) { return sscanf(line, "%lld", step) == 1; }

static bool json_step(const char *line, long long *step) {
  const char *at = strstr(line, "\"step\":");
  return at && sscanf(at + 7, "%lld", step) == 1;
}

/* Rewrites the file with the lines whose step is at most `keep`, those of epochs `keep_epochs`; the
 * CSV header has no step and stays. A last line without newline was cut by a crash and goes. */
static vtb_status trim(const char *path, int64_t keep, int64_t keep_epochs, bool csv,
                       vtb_error *err) {
  if (!vtb_path_exists(path)) return VTB_OK;
  char *text = NULL;
  size_t n = 0;
  VTB_TRY(vtb_file_read(path, (size_t)1 << 30, &text, &n, err));
  vtb_strbuf out = VTB_CHECKED_STRBUF;
  vtb_strbuf_write(&out, "", 0);
  bool first = true;
  for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, first = false) {
    long long step = 0;
    *end = 0;
    bool has = csv ? csv_step(line, &step) : json_step(line, &step);
    bool epoch = csv || strstr(line, "\"event\":\"epoch\"") != NULL;
    if (has ? step <= (epoch ? keep_epochs : keep) : csv && first)
      vtb_strbuf_printf(&out, "%s\n", line);
  }
  vtb_status status = vtb_strbuf_check(&out, err);
  if (status == VTB_OK) status = vtb_file_write_atomic(path, out.at, out.n, err);
  vtb_strbuf_free(&out);
  free(text);
  return status;
}

/* ---- the log --------------------------------------------------------------------------------- */

static vtb_status open_one(const char *path, int64_t keep, int64_t keep_epochs, bool csv,
                           FILE **out, vtb_error *err) {
  if (keep >= 0) VTB_TRY(trim(path, keep, keep_epochs, csv, err));
  *out = fopen(path, keep >= 0 ? "ab" : "wb");
  return *out ? VTB_OK : vtb_file_fail(err, "write", path);
}

vtb_status vtb_run_log_open(const char *path, int64_t keep, int64_t keep_epochs, vtb_run_log **out,
                            vtb_error *err) {
  vtb_run_log *l = calloc(1, sizeof *l);
  if (!l) return vtb_no_memory(err, "a log");
  l->csv_path = vtb_strprintf("%s.csv", path);
  l->json_path = vtb_strprintf("%s.jsonl", path);
  vtb_status status = l->csv_path && l->json_path ? VTB_OK : vtb_no_memory(err, "a log");
  if (status == VTB_OK) status = open_one(l->csv_path, keep, keep_epochs, true, &l->csv, err);
  if (status == VTB_OK) status = open_one(l->json_path, keep, keep_epochs, false, &l->json, err);
  if (status != VTB_OK) {
    vtb_run_log_close(l);
    return status;
  }
  (void)fseek(l->csv, 0, SEEK_END);
  l->csv_empty = ftell(l->csv) <= 0;
  *out = l;
  return VTB_OK;
}

void vtb_run_log_close(vtb_run_log *l) {
  if (!l) return;
  if (l->csv) fclose(l->csv);
  if (l->json) fclose(l->json);
  free(l->csv_path);
  free(l->json_path);
  free(l);
}

/* Takes the line. A file that could not take all of it has none of it. */
static vtb_status put_line(FILE *f, const char *path, vtb_strbuf *line, vtb_error *err) {
  vtb_status status = vtb_strbuf_check(line, err);
  off_t end = lseek(fileno(f), 0, SEEK_END);
  if (status == VTB_OK && (fwrite(line->at, 1, line->n, f) != line->n || fflush(f) != 0)) {
    status = vtb_file_fail(err, "write", path);
    (void)!ftruncate(fileno(f), end);
    clearerr(f);
  }
  vtb_strbuf_free(line);
  return status;
}

vtb_status vtb_run_log_event(vtb_run_log *l, const char *event, int64_t step,
                             const vtb_log_field *fields, size_t n, vtb_error *err) {
  vtb_log_field *all = calloc(n + 2, sizeof *all);
  if (!all) return vtb_no_memory(err, "a line of the log");
  all[0] = (vtb_log_field){.key = "event", .kind = VTB_LOG_TEXT, .text = event};
  all[1] = (vtb_log_field){.key = "step", .kind = VTB_LOG_INT, .i = step};
  if (n) memcpy(all + 2, fields, n * sizeof *fields);
  vtb_strbuf line = VTB_CHECKED_STRBUF;
  vtb_json_line(&line, all, n + 2);
  free(all);
  return put_line(l->json, l->json_path, &line, err);
}

vtb_status vtb_run_log_row(vtb_run_log *l, int64_t step, const vtb_log_field *fields, size_t n,
                           vtb_error *err) {
  vtb_strbuf line = VTB_CHECKED_STRBUF;
  bool has_head = !l->csv_empty;
  if (!has_head) {
    vtb_strbuf_puts(&line, "step");
    for (size_t i = 0; i < n; i++) {
      vtb_strbuf_putc(&line, ',');
      csv_text(&line, fields[i].key);
    }
    vtb_strbuf_putc(&line, '\n');
  }
  vtb_strbuf_printf(&line, "%lld", (long long)step);
  for (size_t i = 0; i < n; i++) {
    vtb_strbuf_putc(&line, ',');
    csv_value(&line, &fields[i]);
  }
  vtb_strbuf_putc(&line, '\n');
  vtb_status status = put_line(l->csv, l->csv_path, &line, err);
  l->csv_empty = !has_head && status != VTB_OK;
  return status;
}
