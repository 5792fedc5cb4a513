/* The work of a study: its steps, in the order in which they are best done, with the records of
 * those that are done. A record counts if it was made by the same command, of the same model text,
 * with the same settings of training; else it is stale, and its step is done again. */
#ifndef VTB_STUDY_WORK_H
#define VTB_STUDY_WORK_H

#include "frontend/study/record.h"

enum {
  STUDY_PATHS = STUDY_BENCH + 1, /* vertebra paths: the picture cells/ID/paths.svg */
  STUDY_PEAK                     /* vertebra bench --peak, of no cell; n: the round */
};

typedef struct study_task {
  int cell; /* its number; -1: of no cell */
  int step, n;
  bool known; /* there is a record, and it counts */
  bool running;
  study_record record;
} study_task;

typedef struct study_work {
  const study *study;
  const study_cells *cells;
  const char *folder;
  VTB_VEC(study_task) tasks;
  vtb_map index;     /* of the tasks */
  study_texts model; /* one a cell: a name for the text of its model, "" until its check is known */
  char *recipe;      /* a name for the text of the recipe */
  int64_t threads;   /* of the steps that are begun now; 0: as the study says */
  int stale;         /* records that do not count */
  char *damaged;     /* a record that is none, and does not count; NULL: there is none */
  char *changed;     /* a file whose text is another one than when they were made; NULL: none */
} study_work;

typedef enum study_task_state {
  STUDY_TASK_DONE,
  STUDY_TASK_READY,
  STUDY_TASK_WAITS,  /* for another step */
  STUDY_TASK_DROPPED /* a step that it builds on has failed */
} study_task_state;

/* Study, cells and folder must outlive the work. */
void study_work_begin(study_work *w, const study *s, const study_cells *cells, const char *folder);
void study_work_free(study_work *w);
/* Removes what writers that were killed have left half done. */
void study_work_tidy(const study_work *w);

/* NULL: there is none. Pointers hold until a task is added. */
study_task *study_work_find(const study_work *w, int cell, int step, int n);
size_t study_work_add(study_work *w, int cell, int step, int n);
study_task_state study_work_state(const study_work *w, const study_task *t);

const char *study_task_name(const study_task *t); /* "train" */
char *study_task_path(const study_work *w, const study_task *t, const char *ending);
/* As it begins anew, or, of a training whose folder holds what it has left, as it goes on. */
void study_task_words(const study_work *w, const study_task *t, bool resume, study_texts *out);
char *study_task_key(const study_work *w, const study_task *t);

/* Reads the record that a task may have, of those that are not known. */
VTB_MUST_USE vtb_status study_task_load(study_work *w, study_task *t, vtb_error *err);
/* Loads the records of every task of the step. */
VTB_MUST_USE vtb_status study_work_load(study_work *w, int step, vtb_error *err);
/* True if a training of the same key was interrupted and can go on. */
bool study_task_can_resume(const study_work *w, const study_task *t);
/* Before a step begins: takes away what stale ones left, and notes the key of a training. */
VTB_MUST_USE vtb_status study_task_prepare(const study_work *w, const study_task *t, bool resume,
                                           vtb_error *err);
/* A record becomes the task's, and is written. It is taken over. */
VTB_MUST_USE vtb_status study_task_finish(study_work *w, study_task *t, study_record *r,
                                          vtb_error *err);
/* A failed step is as if it had never been. */
void study_task_forget(study_work *w, study_task *t);

#endif
