/* Records: what a step of a study was and what came of it, one JSON file a step in the report's
 * folder (docs/studies.md). A record is written when its step has ended by itself; a step that was
 * interrupted leaves none. */
#ifndef VTB_STUDY_RECORD_H
#define VTB_STUDY_RECORD_H

#include "frontend/study/json.h"
#include "frontend/study/study.h"

typedef struct study_record {
  const char *step; /* "train"; a constant */
  int n;
  study_texts command;
  char *key;          /* of what it depends on: another key is another step */
  int status, signal; /* of the process; signal 0: it ended by itself */
  double seconds;     /* of wall time */
  double cpu_seconds; /* of the process */
  double others;      /* cores that other processes kept busy meanwhile; below 0: not known */
  int64_t peak_bytes; /* of memory */
  char *host, *began; /* "2026-11-22T10:00:00Z" */
  char *messages;     /* the end of its standard error */
  cJSON *document;    /* what it printed; NULL: none */
} study_record;

const char *study_step_name(study_step step);

/* "<folder>/cells/<id>"; to be freed. */
char *study_cell_folder(const char *folder, const char *id);

/* VTB_OK and found: false where there is no file. VTB_E_INPUT and found: true for one that is no
 * record, or lacks what a step that did what it should has printed; false: it cannot be read. */
VTB_MUST_USE vtb_status study_record_read(const char *path, study_record *out, bool *found,
                                          vtb_error *err);
VTB_MUST_USE vtb_status study_record_write(const char *path, const study_record *r, vtb_error *err);
void study_record_free(study_record *r);

/* True if the step did what it should. */
bool study_record_ok(const study_record *r);
/* Why it did not: the error of its document, or what ended it. To be freed. */
char *study_record_message(const study_record *r);

#endif
