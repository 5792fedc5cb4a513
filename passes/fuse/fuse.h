/* Between the files of the pass `fuse`: groups under construction. */
#ifndef VTB_FUSE_H
#define VTB_FUSE_H

#include "ir/kernels.h"
#include "passes/fuse/fuse_groups.h"
#include "passes/fuse/group.h"

typedef struct vtb__fuse_node {
  vtb_inst *inst;
  vtb_kernel_kind kind;
  vtb_type shape; /* iteration shape of the group (valid on representatives) */
  bool has_leaf;  /* a pad, permute, shift or concat is inside */
  int strip;      /* leading axes that sums beside the rows or elements are over; 0: none */
  int ops;        /* in the group */
} vtb__fuse_node;

typedef struct vtb__fuser {
  vtb_func *func;
  vtb__groups groups;
  vtb__fuse_node *nodes; /* what a group is stands in the node that names it */
  bool *returned;        /* by value id */
  int *reads, reads_now; /* by value id: read by the column sums that siblings are looked for */
  bool memory_bound;     /* passes/target.h */
  int strips;            /* of rows, that fill the machine twice */
  int totals;            /* sums of parts that rewriting has left */
} vtb__fuser;

static inline int vtb__fuse_find(vtb__fuser *f, int i) { return vtb__group_of(&f->groups, i); }
/* Each value *v that the nodes i of a group read, as often as they do. */
#define VTB__EACH_READ(f, group, i, v)                                                             \
  VTB__EACH_NODE(&(f)->groups, group, i)                                                           \
    for (vtb_value **v = (f)->nodes[i].inst->operands;                                             \
         v < (f)->nodes[i].inst->operands + (f)->nodes[i].inst->n_operands; v++)
/* After vtb__groups_path() said no. */
void vtb__fuse_merge(vtb__fuser *f, int into, int from, vtb_kernel_kind kind,
                     const vtb_type *shape);

/* ---- sums over leading axes (fuse_sums.c) ---------------------------------------------------- */

/* Groups that walk the same space, and of which neither waits for the other, become one kernel. */
typedef enum vtb__fuse_rule {
  VTB__STRIPS,     /* sums and the rows or elements that they read: sums are parts of these */
  VTB__NEIGHBOURS, /* loops and rows that read a value in common, or make parts of a small one */
  VTB__SIBLINGS,   /* sums that read a value in common */
  VTB__TOTALS,     /* sums of parts */
} vtb__fuse_rule;
/* True if there are any. */
bool vtb__fuse_beside(vtb__fuser *f, vtb__fuse_rule rule);
/* The sum `inst` of a group with strips becomes one in parts, which is returned; what they come to,
 * before `behind`, is read in its place. */
vtb_inst *vtb__fuse_cut(const vtb__fuser *f, vtb_inst *inst, vtb_inst *behind);

#endif
