/* Records of steps, a file each. */
#include "frontend/study/record.h"

#include "frontend/document/document.h"
#include "runtime/base/utf8.h"

#include <math.h>
#include <signal.h>
#include <string.h>

enum { MOST_BYTES = 256 << 20 };

const char *study_step_name(study_step step) {
  static const char *const names[] = {[STUDY_CHECK] = "check",
                                      [STUDY_TRAIN] = "train",
                                      [STUDY_EVAL] = "eval",
                                      [STUDY_BENCH] = "bench"};
  return names[step];
}

static char *take_text(vtb_strbuf *s) {
  char *text = vtb_xstrdup(vtb_strbuf_text(s));
  vtb_strbuf_free(s);
  return text;
}

char *study_cell_folder(const char *folder, const char *id) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "%s/cells/%s", folder, id);
  return take_text(&s);
}

/* ---- reading --------------------------------------------------------------------------------- */

static char *copy_text(const cJSON *j, const char *name) {
  return vtb_xstrdup(study_text_of(j, name));
}

static double number_or(const cJSON *j, const char *name, double otherwise) {
  double x = study_number(j, name);
  return isfinite(x) ? x : otherwise;
}

static int small_number(const cJSON *j, const char *name) {
  double x = number_or(j, name, 0);
  return x > -1e6 && x < 1e6 ? (int)x : 0;
}

static void fill_record(cJSON *j, study_record *out) {
  const cJSON *word;
  *out = (study_record){.n = small_number(j, "n"),
                        .key = copy_text(j, "key"),
                        .status = small_number(j, "status"),
                        .signal = small_number(j, "signal"),
                        .seconds = number_or(j, "seconds", 0),
                        .cpu_seconds = number_or(j, "cpu_seconds", 0),
                        .others = number_or(j, "others", -1),
                        .host = copy_text(j, "host"),
                        .began = copy_text(j, "began"),
                        .messages = copy_text(j, "messages")};
  double bytes = number_or(j, "peak_bytes", 0);
  out->peak_bytes = bytes >= 0 && bytes < 1e18 ? (int64_t)bytes : 0;
  cJSON_ArrayForEach(word, study_member(j, "command")) {
    vtb_vec_push(&out->command, vtb_xstrdup(cJSON_IsString(word) ? word->valuestring : ""));
  }
  out->document = cJSON_DetachItemFromObjectCaseSensitive(j, "document");
}

vtb_status study_record_read(const char *path, study_record *out, bool *found, vtb_error *err) {
  char *text = NULL;
  size_t n;
  *out = (study_record){.n = 0};
  *found = false;
  if (!vtb_path_exists(path)) return VTB_OK;
  vtb_status status = vtb_file_read(path, MOST_BYTES, &text, &n, err);
  if (status != VTB_OK) return status;
  *found = true;
  cJSON *j = cJSON_ParseWithLength(text, n);
  if (cJSON_IsObject(j) && cJSON_IsString(study_member(j, "step"))) fill_record(j, out);
  if (!out->key || (study_record_ok(out) && !cJSON_IsObject(out->document)))
    status = vtb_fail(err, VTB_E_INPUT, "%s is no record of a step", path);
  vtb_free(text);
  cJSON_Delete(j);
  return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Strings of JSON are UTF-8; bytes that are none are shown as \x1b. */
static cJSON *text_json(const char *text) {
  vtb_strbuf visible = {0};
  if (text) vtb_lines_visible(&visible, text);
  cJSON *out = cJSON_CreateString(vtb_strbuf_text(&visible));
  vtb_strbuf_free(&visible);
  return out;
}

static cJSON *to_json(const study_record *r) {
  cJSON *words = cJSON_CreateArray();
  for (size_t i = 0; i < r->command.n; i++) doc_append(words, cJSON_CreateString(r->command.at[i]));
  return doc_object(
      F("step", r->step), F("n", r->n), F("command", words), F("key", text_json(r->key)),
      F(r->signal ? "signal" : "status", r->signal ? r->signal : r->status),
      F("seconds", r->seconds), F("cpu_seconds", r->cpu_seconds),
      K("others", r->others >= 0 ? r->others : (double)NAN), F("peak_bytes", r->peak_bytes),
      F("host", text_json(r->host)), F("began", text_json(r->began)),
      F("messages", text_json(r->messages)), K("document", cJSON_Duplicate(r->document, true)));
}

vtb_status study_record_write(const char *path, const study_record *r, vtb_error *err) {
  cJSON *j = to_json(r);
  char *text = cJSON_Print(j);
  vtb_status status =
      text ? vtb_file_write_atomic(path, text, strlen(text), err) : vtb_no_memory(err, "a record");
  cJSON_free(text);
  cJSON_Delete(j);
  return status;
}

void study_record_free(study_record *r) {
  for (size_t i = 0; i < r->command.n; i++) vtb_free(r->command.at[i]);
  vtb_vec_free(&r->command);
  vtb_free(r->key);
  vtb_free(r->host);
  vtb_free(r->began);
  vtb_free(r->messages);
  cJSON_Delete(r->document);
  *r = (study_record){.n = 0};
}

/* ---- what came of it ------------------------------------------------------------------------- */

bool study_record_ok(const study_record *r) { return r->signal == 0 && r->status == 0; }

/* The last line that says something, where there is no document. */
static void last_line(const char *messages, vtb_strbuf *out) {
  size_t n = strlen(messages);
  while (n && (messages[n - 1] == '\n' || messages[n - 1] == ' ')) n--;
  size_t from = n;
  while (from && messages[from - 1] != '\n') from--;
  vtb_strbuf_write(out, messages + from, n - from);
}

/* The C++ library, and LLVM with it, ends the process where it finds no memory. */
static void put_signal(const study_record *r, vtb_strbuf *out) {
  const char *messages = r->messages ? r->messages : "";
  bool without = strstr(messages, "bad_alloc") != NULL;
  vtb_strbuf_printf(out, "ended by signal %d (%s%s)", r->signal, strsignal(r->signal),
                    without                ? ", for want of memory"
                    : r->signal == SIGKILL ? ", perhaps for want of memory"
                                           : "");
  if (r->signal != SIGABRT || without || !*messages) return;
  vtb_strbuf_puts(out, ": ");
  last_line(messages, out);
}

char *study_record_message(const study_record *r) {
  vtb_strbuf out = {0};
  const cJSON *error = study_member(r->document, "error");
  const char *message = study_text_of(error, "message"), *code = study_text_of(error, "code");
  bool numbered = vtb_starts_with(code, "VTB");
  if (study_record_ok(r)) return vtb_xstrdup("");
  if (r->signal)
    put_signal(r, &out);
  else if (*message)
    vtb_strbuf_printf(&out, "%s%s%s", numbered ? code : "", numbered ? ": " : "", message);
  else
    last_line(r->messages ? r->messages : "", &out);
  if (!out.n) vtb_strbuf_printf(&out, "ended with status %d", r->status);
  return take_text(&out);
}
