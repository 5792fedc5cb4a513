/* A model whose tokens are read one way, strip by strip of its image's rows: docs/strips.md.
 *
 * Errors: VTB_E_INPUT, with the place in diags, where tokens read what comes later; VTB_E_USAGE.
 */
#ifndef VTB_STRIPS_RUN_H
#define VTB_STRIPS_RUN_H

#include "ir/ir.h"

typedef struct vtb_strips {
  int64_t height; /* rows of patches of a strip; asked for: 0: as many as are best */
  int64_t count;  /* of strips of that height */
  int64_t head;   /* rows before them, by themselves */
  int64_t rows;   /* of the image */
} vtb_strips;

/* The entry of a graph with a symbolic batch, behind the graph's passes, returns what it did;
 * values exist for one strip at a time. What the entry does no more need is still there: dce. Fills
 * in what was decided. */
VTB_MUST_USE vtb_status vtb_make_strips(vtb_module *m, vtb_strips *strips, vtb_diags *diags,
                                        vtb_error *err);

#endif
