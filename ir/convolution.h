/* The geometry of im2col, col2im and of the depthwise convolutions, on grids of one to three axes.
 *
 * Axes that a grid does not have are frames or rows of extent 1, so that whoever computes needs one
 * set of three loops: axis 0 frames, 1 rows, 2 columns. Attributes list the axes of the grid, the
 * outermost first; the pads of im2col list those before each axis, then those behind. */
#ifndef VTB_CONVOLUTION_H
#define VTB_CONVOLUTION_H

#include "ir/ir.h"
#include "ir/path.h"

typedef struct vtb_patches {
  int rank;
  int64_t batch, channels;
  int64_t size[VTB_GRID_AXES]; /* of the image */
  int64_t kernel[VTB_GRID_AXES], stride[VTB_GRID_AXES];
  int64_t low[VTB_GRID_AXES], high[VTB_GRID_AXES]; /* zeros before and behind */
  int64_t out[VTB_GRID_AXES]; /* patches along each axis; below 1 if the kernel does not fit */
} vtb_patches;

/* The patches of im2col and col2im; `image` is the type [B, C, grid...]. False if a list has not an
 * entry an axis. */
bool vtb_patches_of(const vtb_inst *inst, const vtb_type *image, vtb_patches *out);

/* `extra` lists the steps of the path whose tokens are not of the grid, in their order, as the
 * attribute does; the others are its cells, row-major. */
typedef struct vtb_depthwise {
  int rank, n_extra;
  int64_t batch, tokens, channels;
  int64_t grid[VTB_GRID_AXES], kernel[VTB_GRID_AXES], pad[VTB_GRID_AXES];
  const int64_t *extra;
} vtb_depthwise;

/* The convolution of dwconv, dwconv_dx and dwconv_dw, whose first operand is tokens [B, N, C]; the
 * kernel is that of the operand w [C, kernel...] or the attribute. False if a list has not an entry
 * an axis. */
bool vtb_depthwise_of(const vtb_inst *inst, vtb_depthwise *out);
/* Storage places of the grid's cells, then of the extra tokens: one a token. */
void vtb_depthwise_places(const vtb_inst *inst, const vtb_depthwise *d, int64_t *places);

/* Product of the three. */
static inline int64_t vtb_axes_product(const int64_t n[VTB_GRID_AXES]) {
  return n[0] * n[1] * n[2];
}

#endif
