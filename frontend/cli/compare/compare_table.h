/* Runs side by side as text and as data. */
#ifndef VTB_CLI_COMPARE_TABLE_H
#define VTB_CLI_COMPARE_TABLE_H

#include "frontend/cli/compare/compare_runs.h"

/* A list of runs for programs; groups for people: whole, or the most important first, of which a
 * terminal shows what fits. */
doc *compare_document(const compare_runs *c, bool whole);

#endif
