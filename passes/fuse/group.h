/* Instructions of a function that are to become one kernel: what is in, whether it can be, and the
 * kernel. The rules that hold for all groups stand here:
 *
 *   order    the anchor stands first in the kernel, behind what it reads of the group; its operands
 *            are the kernel's first arguments. With `loop` there is no anchor but for the name
 *   readers  what somebody outside reads is a result, too; with `whole`, all that the anchor and
 *            its like compute
 *   views    reshapes are no members: of what is inside they are made again inside; outside they
 *            stay for who reads them there
 *   place    no way leads out of the group and back in; what reads it and stands too early moves
 *            behind it
 */
#ifndef VTB_GROUP_H
#define VTB_GROUP_H

#include "ir/kernels.h"
#include "ir/rewrite.h"
#include "passes/passes_internal.h"

/* Code generation looks at a kernel's ops in depth, so a group has at most this many; what is
 * longer is several kernels. */
enum { VTB__GROUP_MOST = 128 };

typedef struct vtb__group {
  vtb_func *func; /* numbered */
  vtb_inst *anchor;
  vtb_inst *at[VTB__GROUP_MOST]; /* in any order; the anchor first */
  int n, ops;
  bool views;   /* reshapes of what the group reads are made inside, too */
  bool factors; /* each operand of the anchor is an argument of its own */
  bool shared;  /* and what others read of it, too */
  bool whole;   /* reshapes stay outside, and results that nobody reads are results */
  bool loop;    /* of the pass `fuse`: in the order of the function, numbers are made inside */
} vtb__group;

/* Each value *v that the members m read, as often as they do. */
#define VTB__EACH_MEMBER_READ(g, m, v)                                                             \
  for (int m = 0; m < (g)->n; m++)                                                                 \
    for (vtb_value **v = (g)->at[m]->operands; v < (g)->at[m]->operands + (g)->at[m]->n_operands;  \
         v++)

vtb__group vtb__group_round(vtb_func *f, vtb_inst *anchor);
bool vtb__group_has(const vtb__group *g, const vtb_inst *i);
bool vtb__group_add(vtb__group *g, vtb_inst *i); /* false: there is no room */
/* Ops of i and of its body. */
int vtb__group_ops(const vtb_inst *i);
/* True if something outside the group reads v, a result of a member or not; reshapes count as what
 * reads them. */
bool vtb__group_is_read(const vtb__group *g, const vtb_value *v);
/* True if the group is all that reads results of i. */
bool vtb__group_reads_alone(const vtb__group *g, const vtb_inst *i);
/* The member that makes v, or what v is a reshape of; NULL: none does. */
vtb_inst *vtb__group_maker(const vtb__group *g, const vtb_value *v);
/* True if a member reads results of i, through reshapes. */
bool vtb__group_needs(const vtb__group *g, const vtb_inst *i);
bool vtb__group_is_whole(const vtb__group *g);
/* VTB_E_INTERNAL if the group is not one that can be joined; vtb__group_join() asks where checks
 * are wanted (ir/checks.h). */
VTB_MUST_USE vtb_status vtb__group_check(const vtb__group *g, vtb_error *err);
/* The members as one `fused`, called as the anchor; its results are what is read outside. The
 * function's order holds. */
vtb_inst *vtb__group_join(vtb__group *g, vtb_kernel_kind kind);

/* True if the members of g become a kernel where those of `all` could: by what it takes with what
 * is left of `all` beside it, and what all members take by themselves. The decision, of which the
 * caller fills in the fusion, gets the rest; it is noted, once, by vtb__group_decided(). */
bool vtb__group_pays(vtb_pass_context *c, vtb_decision *d, vtb__group *g, vtb_kernel_kind kind,
                     const vtb__group *all);
/* Where somebody listens (vtb_pass_context.decisions). */
void vtb__group_decided(vtb_pass_context *c, const vtb_decision *d);

#endif
