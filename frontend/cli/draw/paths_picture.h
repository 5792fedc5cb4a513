/* The picture of `vertebra paths`: one title a set of blocks that read alike, one grid a direction.
 *
 * Cells are patches in the image's order, a line with arrows is the traversal, dashed where it
 * jumps; a green disc marks its first token, a dark square its last; extra tokens stand beside the
 * grid where the sequence has them. Grids wrap into rows. */
#ifndef VTB_CLI_PATHS_PICTURE_H
#define VTB_CLI_PATHS_PICTURE_H

#include "frontend/cli/draw/traversals.h"
#include "frontend/draw/picture.h"

void paths_draw(picture *p, const char *model, const traversals *t);

#endif
