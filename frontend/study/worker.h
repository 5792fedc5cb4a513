/* A worker: one process of this program that does one step. What it prints is its document, what it
 * says is kept to its end. It does not outlive the process that began it. */
#ifndef VTB_STUDY_WORKER_H
#define VTB_STUDY_WORKER_H

#include "frontend/study/study.h"

#include <sys/types.h>

typedef struct study_worker {
  pid_t pid;    /* 0: none */
  int wait;     /* a descriptor that is readable when it has ended; -1: poll */
  int out, err; /* files in memory */
  double start;
  double busy; /* of the machine when it began, see study_machine_busy() */
} study_worker;

typedef struct study_ending {
  int status, signal;
  double seconds, cpu_seconds;
  double others; /* cores that other processes kept busy; below 0: not known */
  int64_t peak_bytes;
  char *out;      /* all of standard output */
  char *messages; /* the last 4 KiB of standard error */
} study_ending;

/* Begins the command `words`, "vertebra" first, in a process group of its own: a Ctrl-C of the
 * terminal does not reach it. */
VTB_MUST_USE vtb_status study_worker_start(study_worker *w, const study_texts *words,
                                           vtb_error *err);
/* True if it has ended; then *out, whose texts are the caller's, and the worker is over. */
bool study_worker_ended(study_worker *w, study_ending *out);
/* Until one of them may have ended, or so many milliseconds, or a signal. */
void study_workers_wait(const study_worker *w, size_t n, int milliseconds);
void study_worker_signal(const study_worker *w, int number);
void study_ending_free(study_ending *e);

/* Seconds that the machine's cores have been busy since it began; below 0: not known. */
double study_machine_busy(void);
/* Cores that this process may use. */
int study_machine_cores(void);
/* Bytes of memory that are free for new processes; 0: not known. */
double study_machine_memory(void);

#endif
