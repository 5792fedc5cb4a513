/* Which orders the recurrences of a model read their tokens in, and in which windows attention
 * sees them. */
#ifndef VTB_CLI_TRAVERSALS_H
#define VTB_CLI_TRAVERSALS_H

#include "ir/ir.h"
#include "ir/path.h"

/* One order, and whether its sequence stands on a known grid (else its path is one row); or, where
 * windows.grid.rank is not 0, the windows of an attention, and `path` its grid in storage order. */
typedef struct traversal {
  vtb_path path;
  bool on_grid;
  vtb_windows windows;
} traversal;

/* "cols~@14x14", "windows 7x7/14x14-3x3". */
void traversal_print(const traversal *t, vtb_strbuf *out);

/* Blocks that read in the same orders. */
typedef struct traversal_group {
  VTB_VEC(traversal) orders;
  VTB_VEC(char *) blocks; /* official prefixes of their weights, or the function's name */
} traversal_group;

typedef struct traversals {
  VTB_VEC(traversal_group) groups;
} traversals;

/* Finds those of the module's entry, after path folding. Free with traversals_free(). */
void traversals_find(const vtb_module *m, traversals *out);
void traversals_free(traversals *t);
/* "blocks.{0, 2, ..., 10}" for blocks.0, blocks.2 ... and so on. */
void traversals_print_blocks(const traversal_group *g, vtb_strbuf *out);

#endif
