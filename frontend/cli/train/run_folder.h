/* The folder of a training run: its name, its lock, the names of its files, and what keeps one run
 * from writing over another. */
#ifndef VTB_CLI_RUN_FOLDER_H
#define VTB_CLI_RUN_FOLDER_H

#include "frontend/cli/cli.h"

#define RUN_LOCK_FILE ".lock"

typedef struct run_folder {
  char *path;
  char *checkpoint, *weights, *best, *log, *curve, *record, *sources, *tensorboard;
  int lock;        /* -1: none */
  bool is_new;     /* the folder was made now */
  bool locked_new; /* the lock's file was made now: goes again if nothing is written beside it */
  size_t old;      /* bytes of `path` that were there before; the folders below go then, too */
} run_folder;

typedef enum run_entry {
  RUN_NEW,      /* refused where there is a run */
  RUN_RESUME,   /* goes on with it */
  RUN_OVERWRITE /* it goes, see run_folder_clear() */
} run_entry;

/* Makes `path`, or without one a new folder runs/MODEL-DATA-DATE, locks it, and removes what
 * writers that were killed left half done. Errors: a run that is there, another that writes. */
VTB_MUST_USE vtb_status run_folder_enter(run_folder *f, const char *path, const char *model,
                                         const char *data, run_entry entry, vtb_error *err);
/* The names alone, of a folder that another process has entered. */
void run_folder_follow(run_folder *f, const char *path);
/* Unlocks; written: false takes new folders away again. Fine after failures. */
void run_folder_leave(run_folder *f, bool written);
/* Removes all files of a run. */
VTB_MUST_USE vtb_status run_folder_clear(const run_folder *f, vtb_error *err);

/* "<folder>/<name>"; to be freed. */
char *run_file(const char *folder, const char *name);

#endif
