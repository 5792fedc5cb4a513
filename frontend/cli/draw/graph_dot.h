/* A module as a picture in the language of graphviz: the entry as a column, and beside it each kind
 * of block once, with what is in it. */
#ifndef VTB_CLI_GRAPH_DOT_H
#define VTB_CLI_GRAPH_DOT_H

#include "ir/ir.h"

typedef struct graph_options {
  const char *title;
  int depth;  /* of blocks in blocks that are drawn; 0: the entry alone */
  bool fold;  /* what repeats is drawn once */
  bool fused; /* units are kernels, not ops of a module */
} graph_options;

void graph_dot(const vtb_func *entry, const graph_options *o, vtb_strbuf *out);

/* Lays the picture out, in "svg" or "png", with graphviz as a library. VTB_E_INPUT with what to
 * install where it is not there. *data is for vtb_free(). */
VTB_MUST_USE vtb_status graph_render(const vtb_strbuf *dot, const char *format, const char *title,
                                     char **data, size_t *n, vtb_error *err);

#endif
