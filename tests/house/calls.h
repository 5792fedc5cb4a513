/* Who calls whom, file by file: the symbols that the build's objects define and use, as nm lists
 * them. A function in a table counts as called by the file that holds the table. */
#ifndef VTB_HOUSE_CALLS_H
#define VTB_HOUSE_CALLS_H

#include "runtime/base/base.h"

typedef struct house_node {
  char *file;
  VTB_VEC(int) calls; /* numbers of nodes */
  int unused;         /* names that the file exports, and no other file outside of tests uses */
  int ring;           /* files that call each other in a ring with it, itself among them; else 0 */
  int index, low;     /* of Tarjan's algorithm; index 0: not seen */
  bool on_stack;
} house_node;

/* Ownership: owns its nodes; graph_free(). */
typedef struct house_graph {
  VTB_VEC(house_node) nodes;
  VTB_VEC(int) stack;
  int n_seen;
  vtb_strbuf rings; /* after graph_find_rings(): a line a ring of more than two files */
} house_graph;

int graph_node(house_graph *g, const char *file); /* of this name, which is added if need be */
/* That of a build's folder; exits if nm cannot. */
void graph_read(house_graph *g, const char *build);
void graph_find_rings(house_graph *g);
void graph_free(house_graph *g);

#endif
