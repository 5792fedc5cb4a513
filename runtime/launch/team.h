/* A team of threads that stays together for one call of a program.
 *
 * One OpenMP region holds the team; the first thread runs the program and publishes jobs, the
 * others take chunks of the current job until the region ends. Chunks are taken by whoever is free,
 * and nobody waits for a thread that took none: on a machine shared with other work a descheduled
 * thread delays a job by its own chunk at most, not by its share. Which thread runs a chunk is not
 * defined; what a chunk computes must not depend on it.
 */
#ifndef VTB_TEAM_H
#define VTB_TEAM_H

#include "runtime/launch/program.h"

typedef struct vtb_team vtb_team;

/* Runs body(arg) on the calling thread with n_threads - 1 helpers at its disposal. */
void vtb_team_run(int n_threads, void (*body)(vtb_team *team, void *arg), void *arg);

/* fn over [0, n) in ranges that are multiples of grain; returns when all are done. Called by the
 * body's thread only. */
void vtb_team_parallel(vtb_team *team, vtb_task_fn fn, void *closure, int64_t n, int64_t grain);

#endif
