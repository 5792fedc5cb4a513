/* See run_log.h. */
#include "frontend/study/run_log.h"

#include <math.h>
#include <string.h>

enum { MOST_BYTES = 1 << 30 };

vtb_status run_log_read(const char *folder, run_log *out, vtb_error *err) {
  VTB_TRY(run_log_read_rest(folder, out, err));
  if (!out->broken) return VTB_OK;
  run_log_free(out);
  return vtb_fail(err, VTB_E_INPUT, "%s%slog.jsonl:%d: a line that is not JSON", folder,
                  vtb_ends_with(folder, "/") ? "" : "/", out->broken);
}

vtb_status run_log_read_rest(const char *folder, run_log *out, vtb_error *err) {
  char *text = NULL,
       *path =
           vtb_need(vtb_strprintf("%s%slog.jsonl", folder, vtb_ends_with(folder, "/") ? "" : "/"));
  size_t n = 0;
  *out = (run_log){.cut = false};
  vtb_status status = vtb_file_read(path, MOST_BYTES, &text, &n, err);
  char *line = text, *end;
  for (int number = 1; status == VTB_OK && (end = strchr(line, '\n')); line = end + 1, number++) {
    *end = 0;
    if (!*line || vtb_starts_with(line, "{\"event\":\"step\"")) continue;
    cJSON *event = cJSON_Parse(line);
    if (cJSON_IsObject(event)) {
      vtb_vec_push(&out->events, event);
    } else {
      if (!out->broken) out->broken = number;
      cJSON_Delete(event);
    }
  }
  out->cut = status == VTB_OK && *line;
  vtb_free(text);
  vtb_free(path);
  return status;
}

void run_log_free(run_log *l) {
  for (size_t i = 0; i < l->events.n; i++) cJSON_Delete(l->events.at[i]);
  vtb_vec_free(&l->events);
}

bool run_event_is(const cJSON *event, const char *kind) {
  return vtb_streq(run_event_text(event, "event"), kind);
}

double run_event_number(const cJSON *event, const char *name) {
  const cJSON *v = cJSON_GetObjectItem(event, name);
  return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

const char *run_event_text(const cJSON *event, const char *name) {
  const cJSON *v = cJSON_GetObjectItem(event, name);
  return cJSON_IsString(v) ? v->valuestring : NULL;
}

run_score run_event_score(const cJSON *event) {
  char key[96];
  const char *name = run_event_text(event, "score");
  if (!name || !*name) name = "top1";
  snprintf(key, sizeof key, "eval_%s", name);
  return (run_score){name, vtb_streq(run_event_text(event, "better"), "lower"),
                     run_event_number(event, key)};
}

bool run_score_beats(const run_score *s, double best) {
  if (isnan(best)) return !isnan(s->value);
  return s->lower ? s->value < best : s->value > best;
}

const cJSON *run_log_last(const run_log *l, const char *kind) {
  for (size_t i = l->events.n; i > 0; i--)
    if (run_event_is(l->events.at[i - 1], kind)) return l->events.at[i - 1];
  return NULL;
}
