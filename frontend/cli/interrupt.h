/* Ctrl-C, SIGTERM and, unless the process was told to ignore it (nohup), SIGHUP as a request to
 * stop, for commands that count images. */
#ifndef VTB_CLI_INTERRUPT_H
#define VTB_CLI_INTERRUPT_H

#include "frontend/cli/cli.h"

/* From now on the first such signal sets *the result, and the second ends the process. */
const volatile int *cli_interrupt_wait(void);
/* "interrupted after 3 of 10 images"; 128 and the signal, for the exit status. */
vtb_status cli_interrupt_say(int64_t done, int64_t total, const char *what);

#endif
