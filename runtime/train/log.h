/* The record of a training run: PATH.csv (one row an epoch) and PATH.jsonl (one object an event),
 * appended and flushed.
 *
 * Opening for a resumed run drops what was recorded after the step that is resumed from, so that
 * the files read like those of one uninterrupted run.
 */
#ifndef VTB_LOG_H
#define VTB_LOG_H

#include "runtime/base/base.h"

typedef struct vtb_run_log vtb_run_log;

typedef struct vtb_log_field {
  const char *key;
  enum { VTB_LOG_INT, VTB_LOG_REAL, VTB_LOG_TEXT } kind;
  int64_t i;
  double r; /* written with 9 digits; not finite: null */
  const char *text;
} vtb_log_field;

/* path without extension; keep_until_step < 0 starts anew. Of epochs, what was recorded until
 * keep_epochs_until stays: a run that ended within one told of it as far as it was. */
VTB_MUST_USE vtb_status vtb_run_log_open(const char *path, int64_t keep_until_step,
                                         int64_t keep_epochs_until, vtb_run_log **out,
                                         vtb_error *err);
/* {"event": event, "step": step, fields...} */
VTB_MUST_USE vtb_status vtb_run_log_event(vtb_run_log *l, const char *event, int64_t step,
                                          const vtb_log_field *fields, size_t n, vtb_error *err);
/* A row: step and the fields' values; the first row of a new file is preceded by the keys. */
VTB_MUST_USE vtb_status vtb_run_log_row(vtb_run_log *l, int64_t step, const vtb_log_field *fields,
                                        size_t n, vtb_error *err);
void vtb_run_log_close(vtb_run_log *l);

/* One JSON object on one line, with a newline; used for every machine-readable line. */
void vtb_json_line(vtb_strbuf *out, const vtb_log_field *fields, size_t n);

#endif
