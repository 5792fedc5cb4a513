/* The results of a study as a table on the terminal. */
#ifndef VTB_CLI_ABLATE_TABLE_H
#define VTB_CLI_ABLATE_TABLE_H

#include "frontend/cli/cli.h"

/* On stdout: the cells by their score, else by their speed, and what became of the others. */
void ablate_print_table(const cJSON *results);
/* And their comparison with another report, if there is one. */
void ablate_print_against(const cJSON *results);

#endif
