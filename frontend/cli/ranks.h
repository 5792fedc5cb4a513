/* The processes that mpirun, srun and their like begin for one command: rank 0 speaks, the others
 * work with it.
 *
 * A command that works on ranks calls cli_ranks_enter() before it does anything that could be said,
 * cli_ranks_open() when it has understood its options, and cli_ranks_leave() at its end.
 */
#ifndef VTB_CLI_RANKS_H
#define VTB_CLI_RANKS_H

#include "frontend/cli/cli.h"
#include "runtime/ranks/ranks.h"

/* How many processes a launcher began for this command; 1: alone, or VTB_RANKS=off. */
int cli_ranks_launched(void);
/* Ranks other than 0 fall silent. */
void cli_ranks_enter(void);
/* Connects with the others; stop: is set by signals. NULL where this process is alone, which is
 * fine for all that takes ranks. An error is said. */
VTB_MUST_USE vtb_status cli_ranks_open(const volatile int *stop, vtb_ranks **out);
/* Leaves the others; where status is an error they end too, with its text. err: NULL or empty: what
 * was said. Returns the status that this process ends with. */
vtb_status cli_ranks_leave(vtb_ranks *r, vtb_status status, const vtb_error *err);

/* Threads of this rank where nobody says how many: its share of the cores that it and others on
 * this machine may use. */
VTB_MUST_USE vtb_status cli_ranks_threads(vtb_ranks *r, int64_t *threads, vtb_error *err);
/* A text of rank 0 on all; to be freed. NULL is one too. */
VTB_MUST_USE vtb_status cli_ranks_text(vtb_ranks *r, const char *text, char **out, vtb_error *err);
/* Says of a command that knows nothing of ranks that each process does all of it. */
void cli_ranks_warn(const char *command);

#endif
