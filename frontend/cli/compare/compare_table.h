/* Runs side by side as text and as data. */
#ifndef VTB_CLI_COMPARE_TABLE_H
#define VTB_CLI_COMPARE_TABLE_H

#include "frontend/cli/compare/compare_runs.h"

void compare_print_plain(const compare_runs *c);    /* what fits the terminal */
void compare_print_markdown(const compare_runs *c); /* all of it */
void compare_print_json(const compare_runs *c);     /* a list of runs */

#endif
