/* A team of threads: the one that publishes jobs, and helpers that take chunks of the current one.
 *
 * Helpers are threads of the team's own, which live as long as it does and sleep while there is
 * nothing to do; no OpenMP, whose library ends the process when it cannot start a thread. Chunks
 * are taken by whoever is free, and nobody waits for a thread that took none: on a machine shared
 * with other work a descheduled thread delays a job by its own chunk at most, not by its share, and
 * without helpers (none could be started, or the process is a fork) the publisher does it all.
 * Which thread runs a chunk is not defined; what a chunk computes must not depend on it. */
#ifndef VTB_TEAM_H
#define VTB_TEAM_H

#include "runtime/launch/program.h"

typedef struct vtb_team vtb_team;

/* At most n_threads - 1 helpers, fewer if the system has no more threads: see vtb_team_size(). Each
 * calls begin(user, number), from 1, before its first chunk; they take no signals. NULL when out of
 * memory. */
vtb_team *vtb_team_new(int n_threads, void (*begin)(void *user, int number), void *user);
void vtb_team_free(vtb_team *team);      /* NULL is fine */
int vtb_team_size(const vtb_team *team); /* with the publisher */

/* fn over [0, n) in ranges that are multiples of grain; returns when all are done. Called by one
 * thread at a time, and by no helper. */
void vtb_team_parallel(vtb_team *team, vtb_task_fn fn, void *closure, int64_t n, int64_t grain);

#endif
