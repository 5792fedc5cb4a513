/* The groups of instructions that `fuse` makes, as a graph without cycles.
 *
 * A node is an instruction, by its `order`. Every node is in one group, named by one of its nodes.
 * Groups have places such that each comes after those it reads; a question about paths looks at the
 * groups between two places only, and joining two groups moves those alone.
 */
#ifndef VTB_FUSE_GROUPS_H
#define VTB_FUSE_GROUPS_H

#include "ir/ir.h"

typedef VTB_VEC(int) vtb__node_list;

typedef struct vtb__groups { /* in its scratch memory */
  vtb_module *module;
  int n;                    /* nodes */
  vtb__node_list *users;    /* of a node, one an operand */
  int *parent;              /* towards the node that names the group */
  int *first, *last, *next; /* nodes of a group, -1 ends; unordered until vtb__groups_sort() */
  int *place, *at;          /* place of a group; group at a place, or -1 */
  int *mark, mark_now;      /* groups found by the last search */
  vtb__node_list stack;
} vtb__groups;

/* Every instruction alone. Numbers the function. */
void vtb__groups_init(vtb__groups *g, vtb_func *f);
int vtb__group_of(vtb__groups *g, int node);

/* True if a path leads from one of the two groups to the other, in either direction, through a
 * third or, with `direct`, by an edge. */
bool vtb__groups_path(vtb__groups *g, int a, int b, bool direct);
/* Makes `from` a part of `into`. vtb__groups_path() was just asked about them and said no. */
void vtb__groups_join(vtb__groups *g, int into, int from);
/* VTB_E_INTERNAL if the groups are not what is said of them above. */
VTB_MUST_USE vtb_status vtb__groups_check(vtb__groups *g, vtb_error *err);
/* Lists every group's nodes in the order of the function; checks them where that is wanted
 * (ir/checks.h). */
void vtb__groups_sort(vtb__groups *g);

/* The nodes of a group; the nodes that read node `i`. */
#define VTB__EACH_NODE(g, group, i) for (int i = (g)->first[group]; i >= 0; i = (g)->next[i])
#define VTB__EACH_USER(g, i, u)                                                                    \
  for (int *u = (g)->users[i].at; u < (g)->users[i].at + (g)->users[i].n; u++)

#endif
