/* Names of a picture's units and what stands in them. */
#ifndef VTB_CLI_GRAPH_LABEL_H
#define VTB_CLI_GRAPH_LABEL_H

#include "frontend/cli/draw/graph_part.h"

typedef VTB_VEC(char *) graph_lines;
void graph_lines_free(graph_lines *l);

/* The module that a unit stands in, "layer.proj_up"; "": none of its own. */
void graph_scope(const graph_unit *u, vtb_strbuf *out);
/* The name of a unit: its module, without the first `within` bytes of its name; of what stands in
 * that itself the value that it gives; of a block its name. */
void graph_title(const graph_unit *u, size_t within, vtb_strbuf *out);
/* "linear 64 -> 256", "conv 4x4 / 4, 1 -> 64", "outnorm: normalise", ...: what it does. */
void graph_describe(const graph_unit *u, graph_lines *out);
/* "[B, 49, 64]" */
void graph_shape(const vtb_type *t, vtb_strbuf *out);
/* "196,026", "1.27 M" */
void graph_count(double n, vtb_strbuf *out);

/* Orders in which the recurrences of a function visit their tokens: "rows", "rows~"; each once. */
void graph_directions(const vtb_func *f, graph_lines *out);
/* How they are computed: "parallel", "chunkwise 64". */
void graph_modes(const vtb_func *f, graph_lines *out);

#endif
