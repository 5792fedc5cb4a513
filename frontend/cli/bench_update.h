/* The update of a training step that is measured: bench_update.c. */
#ifndef VTB_CLI_BENCH_UPDATE_H
#define VTB_CLI_BENCH_UPDATE_H

#include "frontend/cli/cli.h"

typedef struct cli_update {
  const vtb_program *program;
  void **buffers;
  bool inside; /* a run of the program makes it */
  vtb_optim *optim;
} cli_update;

bool cli_updates_itself(const vtb_program *p);
/* Fills what the program needs for its update among `buffers`, and gives it its parameters. Borrows
 * all of it. On failure too cli_update_close() frees. */
VTB_MUST_USE vtb_status cli_update_open(const vtb_program *p, void **buffers, const vtb_services *s,
                                        cli_update *u, vtb_error *err);
void cli_update_close(cli_update *u);
/* After a run. */
VTB_MUST_USE vtb_status cli_update_step(cli_update *u, vtb_error *err);
/* After a run whose results were copied: an update that was left out, since gradients were not
 * finite, is no measure. */
VTB_MUST_USE vtb_status cli_update_check(const cli_update *u, vtb_error *err);

#endif
