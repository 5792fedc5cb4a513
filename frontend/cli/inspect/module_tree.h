/* A model as a tree of modules, by the scopes that its instructions and parameters stand in:
 * "blocks.0.layer.proj_up" is four modules, one in the other. */
#ifndef VTB_CLI_MODULE_TREE_H
#define VTB_CLI_MODULE_TREE_H

#include "ir/ir.h"

typedef struct module_node {
  const char *name;       /* last part of the path; of the root the entry's name */
  const char *kind;       /* the block that it is, or its op: "einsum", "linscan"; "" */
  const vtb_type *output; /* of what is computed in it last; NULL: it only holds parameters */
  /* with all that is in it */
  int64_t parameters, frozen;
  double flops, layer_macs, mixer_macs; /* an image; as executed, as papers count */
  double bytes; /* written by products, convolutions, recurrences and attention, an image */
  struct module_node *first, *last, *next; /* the modules in it, in order of use */
} module_node;

/* The tree of an entry function in which the forms of recurrences are chosen. Everything is the
 * arena's. */
module_node *module_tree(const vtb_func *entry, vtb_arena *arena);

#endif
