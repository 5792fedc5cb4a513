/* Convolutions: im2col and dwconv as Conv. */
#include "frontend/onnx/internal.h"
#include "ir/ops.h"
#include "ir/convolution.h"
#include "ir/product.h"

/* The attributes of Conv; axes of the grid alone, the outermost first. */
typedef struct conv {
  int rank;
  int64_t kernel[VTB_GRID_AXES], stride[VTB_GRID_AXES], pads[2 * VTB_GRID_AXES];
  int64_t out[VTB_GRID_AXES], group;
} conv;

static ox_value *convolve(ox *x, const conv *c, ox_value *image, ox_value *weight) {
  ox_type t = {.elem = OX_F32, .rank = 2 + c->rank};
  t.dim[0] = image->type.dim[0], t.dim[1] = weight->type.dim[0];
  for (int i = 0; i < c->rank; i++) t.dim[2 + i] = c->out[i];
  const vtb_attr attrs[] = {
      VTB_A_INT("group", c->group), VTB_A_INTS("kernel_shape", c->kernel, c->rank),
      VTB_A_INTS("strides", c->stride, c->rank), VTB_A_INTS("pads", c->pads, 2 * c->rank)};
  return vtb__ox_one(x, "Conv", t, attrs, 4, OX_IN(image, weight));
}

/* ---- im2col ---------------------------------------------------------------------------------- */

static conv conv_of_patches(const vtb_patches *p) {
  conv c = {.rank = p->rank, .group = 1};
  for (int i = 0; i < p->rank; i++) {
    int at = VTB_GRID_AXES - p->rank + i;
    c.kernel[i] = p->kernel[at], c.stride[i] = p->stride[at], c.out[i] = p->out[at];
    c.pads[i] = p->low[at], c.pads[p->rank + i] = p->high[at];
  }
  return c;
}

/* Patches that touch neither each other nor padding are the image's elements in another order. */
static bool is_tiling(const vtb_patches *p) {
  bool is = true;
  for (int i = 0; i < VTB_GRID_AXES; i++)
    is &= p->kernel[i] == p->stride[i] && !p->low[i] && !p->high[i] &&
          p->out[i] * p->kernel[i] == p->size[i];
  return is;
}

/* [B, C, o1, k1, o2, k2...] to [B, o1, o2, C, k1, k2] */
static ox_value *tiles(ox *x, const vtb_patches *p, ox_value *image) {
  int64_t dim[OX_MAX_RANK] = {image->type.dim[0], p->channels}, perm[OX_MAX_RANK] = {0};
  for (int i = 0; i < p->rank; i++) {
    int at = VTB_GRID_AXES - p->rank + i;
    dim[2 + 2 * i] = p->out[at], dim[3 + 2 * i] = p->kernel[at];
    perm[1 + i] = 2 + 2 * i, perm[2 + p->rank + i] = 3 + 2 * i;
  }
  perm[1 + p->rank] = 1;
  return vtb__ox_transpose(x, vtb__ox_reshape(x, image, 2 + 2 * p->rank, dim), perm);
}

/* A weight a channel and tap that is 1 there and 0 elsewhere: [C taps, 1, kernel]. */
static ox_value *unit_taps(ox *x, const vtb_patches *p, const conv *c) {
  int64_t taps = vtb_axes_product(p->kernel), n = p->channels * taps;
  ox_type t = {.elem = OX_F32, .rank = 2 + c->rank, .dim = {n, 1}};
  float *w = VTB_NEW_ARRAY(&x->arena, float, n *taps);
  for (int i = 0; i < c->rank; i++) t.dim[2 + i] = c->kernel[i];
  for (int64_t i = 0; i < n; i++) w[i * taps + i % taps] = 1;
  return vtb__ox_data(x, &t, w);
}

/* "bnc,ec->bne" of the patches and a weight [E, C taps]. */
static bool reads_as_conv(const vtb_inst *reader, const vtb_value *patches) {
  if (reader->op != VTB_OP_einsum || reader->operands[0] != patches ||
      reader->operands[1] == patches)
    return false;
  vtb_product p = vtb_product_of(reader);
  return p.rank[0] == 3 && p.rank[1] == 2 && vtb_product_keeps_rows(&p) &&
         vtb_product_only(&p, VTB_LETTER_SUM)->at[1] == 1;
}

bool vtb__ox_conv_of_einsum(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  const vtb_inst *cols = inst->operands[0]->def;
  ox_value *image = cols && cols->op == VTB_OP_im2col ? in[0]->from : NULL;
  vtb_patches p;
  if (!image || !reads_as_conv(inst, inst->operands[0])) return false;
  vtb_check(vtb_patches_of(cols, &cols->operands[0]->type, &p), "im2col: attributes");
  conv c = conv_of_patches(&p);
  int64_t e = in[1]->type.dim[0], n = vtb_axes_product(p.out);
  int64_t dim[OX_MAX_RANK] = {e, p.channels};
  for (int i = 0; i < c.rank; i++) dim[2 + i] = c.kernel[i];
  ox_value *y = convolve(x, &c, image, vtb__ox_reshape(x, in[1], 2 + c.rank, dim));
  y = OX_TRANSPOSE(x, OX_RESHAPE(x, y, image->type.dim[0], e, n), 0, 2, 1);
  out[0] = inst->n_operands == 3 ? vtb__ox_binary(x, "Add", y, in[2]) : y;
  return true;
}

void vtb__ox_im2col(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  vtb_patches p;
  vtb_check(vtb_patches_of(inst, &inst->operands[0]->type, &p), "im2col: attributes");
  int64_t batch = in[0]->type.dim[0], n = vtb_axes_product(p.out),
          width = p.channels * vtb_axes_product(p.kernel);
  if (is_tiling(&p)) {
    out[0] = OX_RESHAPE(x, tiles(x, &p, in[0]), batch, n, width);
  } else {
    conv c = conv_of_patches(&p);
    c.group = p.channels;
    ox_value *y = convolve(x, &c, in[0], unit_taps(x, &p, &c));
    out[0] = OX_TRANSPOSE(x, OX_RESHAPE(x, y, batch, width, n), 0, 2, 1);
  }
  out[0]->from = in[0];
}

/* ---- col2im ---------------------------------------------------------------------------------- */

/* Patches [B, N, C taps] added up where they overlap: the adjoint of a Conv of unit weights. What
 * no patch reaches at the end of an axis is 0. */
void vtb__ox_col2im(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  vtb_patches p;
  ox_type t = vtb__ox_type(&inst->results[0]->type);
  vtb_check(vtb_patches_of(inst, &inst->results[0]->type, &p), "col2im: attributes");
  conv c = conv_of_patches(&p);
  int64_t dim[OX_MAX_RANK] = {in[0]->type.dim[0], in[0]->type.dim[2]}, rest[VTB_GRID_AXES];
  for (int i = 0; i < c.rank; i++) {
    int64_t reach = (c.out[i] - 1) * c.stride[i] + c.kernel[i] - c.pads[i] - c.pads[c.rank + i];
    dim[2 + i] = c.out[i], rest[i] = t.dim[2 + i] - reach;
  }
  const vtb_attr attrs[] = {
      VTB_A_INT("group", p.channels), VTB_A_INTS("kernel_shape", c.kernel, c.rank),
      VTB_A_INTS("strides", c.stride, c.rank), VTB_A_INTS("pads", c.pads, 2 * c.rank),
      VTB_A_INTS("output_padding", rest, c.rank)};
  ox_value *cols = vtb__ox_reshape(x, OX_TRANSPOSE(x, in[0], 0, 2, 1), 2 + c.rank, dim);
  out[0] = vtb__ox_one(x, "ConvTranspose", t, attrs, 5, OX_IN(cols, unit_taps(x, &p, &c)));
}

/* ---- dwconv ---------------------------------------------------------------------------------- */

/* Extra tokens, if there are any, are gathered apart and put back: `places` are the cells', then
 * theirs. */
static ox_value *gathered(ox *x, ox_value *tokens, const int64_t *places, int64_t n) {
  return vtb__ox_gather(x, tokens, 1, vtb__ox_ints(x, (int)n, places));
}

static ox_value *with_extra(ox *x, const vtb_depthwise *d, const int64_t *places, ox_value *cells,
                            ox_value *tokens) {
  int64_t n_cells = d->tokens - d->n_extra, *at = VTB_NEW_ARRAY(&x->arena, int64_t, d->tokens);
  for (int64_t t = 0; t < d->tokens; t++) at[places[t]] = t;
  ox_value *both[] = {cells, gathered(x, tokens, places + n_cells, d->n_extra)};
  return gathered(x, vtb__ox_concat(x, both, 2, 1), at, d->tokens);
}

void vtb__ox_dwconv(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  vtb_depthwise d;
  vtb_check(vtb_depthwise_of(inst, &d), "dwconv: attributes");
  conv c = {.rank = d.rank, .group = d.channels};
  int64_t batch = in[0]->type.dim[0], image[OX_MAX_RANK] = {batch, d.channels},
          weight[OX_MAX_RANK] = {d.channels, 1};
  for (int i = 0; i < d.rank; i++) {
    int at = VTB_GRID_AXES - d.rank + i;
    int64_t high = d.kernel[at] - 1 - d.pad[at];
    c.kernel[i] = d.kernel[at], c.stride[i] = 1;
    c.pads[i] = d.pad[at], c.pads[d.rank + i] = high > 0 ? high : 0;
    c.out[i] = d.grid[at] - (high < 0 ? high : 0); /* more than wanted: cut below */
    image[2 + i] = d.grid[at], weight[2 + i] = d.kernel[at];
  }
  int64_t cells = d.tokens - d.n_extra, *places = VTB_NEW_ARRAY(&x->arena, int64_t, d.tokens);
  vtb_depthwise_places(inst, &d, places);
  ox_value *tokens =
      d.n_extra ? gathered(x, in[0], places, cells) : vtb__ox_along(x, inst, in[0], 1, false);
  ox_value *y = vtb__ox_reshape(x, OX_TRANSPOSE(x, tokens, 0, 2, 1), 2 + d.rank, image);
  y = convolve(x, &c, y, vtb__ox_reshape(x, in[1], 2 + d.rank, weight));
  for (int i = 0; i < d.rank; i++) y = vtb__ox_slice(x, y, 2 + i, 0, image[2 + i], 1);
  y = OX_TRANSPOSE(x, OX_RESHAPE(x, y, batch, d.channels, cells), 0, 2, 1);
  if (inst->n_operands == 3) y = vtb__ox_binary(x, "Add", y, in[2]);
  out[0] = d.n_extra ? with_extra(x, &d, places, y, in[0]) : vtb__ox_along(x, inst, y, 1, true);
}
