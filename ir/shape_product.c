/* Shape rules of einsum, patches and depthwise convolutions. */
#include "ir/convolution.h"
#include "ir/internal.h"

#include <inttypes.h>

/* ---- einsum ---------------------------------------------------------------------------------- */

static bool bind_letters(vtb__shape *s, int place, vtb_dim *letters) {
  const vtb_product *p = s->inst->product;
  const vtb_type *x = vtb__shape_operand(s, place);
  const char *spec = vtb_einsum_text(s->inst);
  if (x->rank != p->rank[place])
    return vtb__shape_fail(s, VTB_DIAG_IR_EINSUM,
                           "einsum \"%s\": operand %d is %s, which has %d axes", spec, place + 1,
                           vtb__shape_text(s, x), x->rank);
  for (int i = 0; i < x->rank; i++) {
    int l = p->of[place][i];
    vtb_dim *d = &letters[l];
    if (d->size && d->size != x->dim[i].size)
      return vtb__shape_fail(s, VTB_DIAG_IR_EINSUM, "einsum \"%s\" of %s and %s: %c has two sizes",
                             spec, vtb__shape_text(s, vtb__shape_operand(s, 0)),
                             vtb__shape_text(s, vtb__shape_operand(s, 1)), p->letters[l].name);
    d->size = x->dim[i].size;
    if (!d->name) d->name = x->dim[i].name;
  }
  return true;
}

bool vtb__shape_adds(vtb__shape *s, int operand, const vtb_type *t) {
  const vtb_type *init = vtb__shape_operand(s, operand);
  vtb_type sum;
  if (vtb_type_broadcast(init, t, &sum) && vtb_type_equal(&sum, t)) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_EINSUM, "%s: %s cannot be added to %s",
                         vtb_op_get(s->inst->op)->name, vtb__shape_text(s, init),
                         vtb__shape_text(s, t));
}

bool vtb__shape_einsum(vtb__shape *s) {
  const char *spec = vtb_einsum_text(s->inst);
  const vtb_product *p = s->inst->product;
  if (!p) {
    vtb_product none;
    return vtb__shape_fail(s, VTB_DIAG_IR_EINSUM, "einsum \"%s\": %s", spec,
                           vtb__product_parse(spec, &none));
  }
  vtb_dim letters[VTB_MOST_LETTERS] = {0};
  if (!vtb__shape_f32(s) || !bind_letters(s, 0, letters) || !bind_letters(s, 1, letters))
    return false;
  vtb_type t = {.dtype = VTB_F32, .rank = p->rank[VTB_IN_RESULT]};
  for (int i = 0; i < t.rank; i++) t.dim[i] = letters[p->of[VTB_IN_RESULT][i]];
  if (s->inst->n_operands == 3 && !vtb__shape_adds(s, 2, &t)) return false;
  vtb__shape_push(s, t);
  return true;
}

/* ---- patches --------------------------------------------------------------------------------- */

/* Geometry of patches of an image [B, C, grid...]; false after a message. */
static bool patch_grid(vtb__shape *s, const vtb_type *image, vtb_patches *p) {
  bool known = image->rank >= 3 && image->rank <= 2 + VTB_GRID_AXES;
  for (int k = 1; k < image->rank; k++) known = known && image->dim[k].size >= 1;
  if (!known)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID,
                           "%s of %s; want an image [B, C, H, W], a series "
                           "[B, C, W] or a video [B, C, T, H, W]",
                           vtb_op_get(s->inst->op)->name, vtb__shape_text(s, image));
  if (!vtb_patches_of(s->inst, image, p))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR,
                           "kernel and stride of %s have an entry for each of %d axes, pad two",
                           vtb_op_get(s->inst->op)->name, image->rank - 2);
  bool positive = true, fits = true;
  double taps = 1, patches = 1;
  for (int k = 0; k < VTB_GRID_AXES; k++) {
    positive =
        positive && p->kernel[k] > 0 && p->stride[k] > 0 && p->low[k] >= 0 && p->high[k] >= 0;
    fits = fits && p->out[k] > 0;
    taps *= (double)p->kernel[k], patches *= (double)p->out[k];
  }
  if (!positive)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID,
                           "kernel and stride are at least 1, padding at least 0");
  if (!fits)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID,
                           "a kernel of %" PRId64 "x%" PRId64 "x%" PRId64 " does not fit on %s",
                           p->kernel[0], p->kernel[1], p->kernel[2], vtb__shape_text(s, image));
  if (patches > (double)VTB__MAX_DIM || taps * (double)p->channels > (double)VTB__MAX_DIM)
    return vtb__shape_fail(s, VTB_DIAG_IR_SIZE, "too many patches or too large a kernel");
  return true;
}

bool vtb__shape_im2col(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  vtb_patches p;
  if (!vtb__shape_f32(s) || !patch_grid(s, x, &p)) return false;
  vtb_type t = {.dtype = VTB_F32,
                .rank = 3,
                .dim = {x->dim[0], vtb__dim(vtb_axes_product(p.out), "N"),
                        vtb__dim(p.channels * vtb_axes_product(p.kernel), NULL)}};
  vtb__shape_push(s, t);
  return true;
}

bool vtb__shape_col2im(vtb__shape *s) {
  static const char *const names[] = {"T", "H", "W"};
  const vtb_type *x = vtb__shape_operand(s, 0);
  int n = 0;
  const int64_t *image = vtb_attr_ints(s->inst, "image", &n);
  if (!image || n < 2 || n > 1 + VTB_GRID_AXES)
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR,
                           "col2im: attribute image has %d entries, not 2 to 4", n);
  vtb_type t = {.dtype = VTB_F32, .rank = n + 1, .dim = {x->dim[0], vtb__dim(image[0], "C")}};
  for (int k = 1; k < n; k++) t.dim[k + 1] = vtb__dim(image[k], names[VTB_GRID_AXES - n + k]);
  vtb_patches p;
  if (!vtb__shape_f32(s) || !patch_grid(s, &t, &p)) return false;
  int64_t patches = vtb_axes_product(p.out), width = image[0] * vtb_axes_product(p.kernel);
  if (x->rank != 3 || x->dim[1].size != patches || x->dim[2].size != width)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "col2im of %s; want [B, %" PRId64 ", %" PRId64 "]",
                           vtb__shape_text(s, x), patches, width);
  vtb__shape_push(s, t);
  return true;
}

/* ---- depthwise convolution ------------------------------------------------------------------- */

/* Tokens [B, N, C] on the grid of attribute `grid`, N known, and the kernel's extents. */
static bool token_grid(vtb__shape *s, const vtb_type *x, vtb_depthwise *d) {
  if (!vtb__shape_f32(s)) return false;
  if (x->rank != 3 || vtb_is_batch(x->dim[1].size) || vtb_is_batch(x->dim[2].size))
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "%s of %s; want tokens [B, N, C]",
                           vtb_op_get(s->inst->op)->name, vtb__shape_text(s, x));
  if (!vtb_depthwise_of(s->inst, d))
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID,
                           "%s of %s: grid, pad and kernel have an entry for each axis of the grid",
                           vtb_op_get(s->inst->op)->name, vtb__shape_text(s, x));
  double cells = 1;
  bool good = true;
  for (int k = 0; k < VTB_GRID_AXES; k++) {
    good = good && d->grid[k] > 0 && d->pad[k] >= 0 && d->kernel[k] > 0;
    cells *= (double)d->grid[k];
  }
  if (!good)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "padding is at least 0, extents are at least 1");
  for (int e = 0; good && e < d->n_extra; e++)
    good = d->extra[e] >= (e ? d->extra[e - 1] + 1 : 0) && d->extra[e] < d->tokens;
  if (!good)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID,
                           "extra tokens are steps of the path in their order");
  if (cells != (double)(d->tokens - d->n_extra))
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID,
                           "%s is not on a grid of %" PRId64 "x%" PRId64 "x%" PRId64,
                           vtb__shape_text(s, x), d->grid[0], d->grid[1], d->grid[2]);
  return vtb__shape_path(s, x->dim[1].size);
}

bool vtb__shape_dwconv(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0), *w = vtb__shape_operand(s, 1);
  vtb_depthwise d;
  if (!token_grid(s, x, &d)) return false;
  if (w->rank != d.rank + 1 || w->dim[0].size != x->dim[2].size)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID,
                           "a depthwise kernel for %s is [%" PRId64 ", %s], not %s",
                           vtb__shape_text(s, x), x->dim[2].size,
                           d.rank == 1   ? "kw"
                           : d.rank == 2 ? "kh, kw"
                                         : "kt, kh, kw",
                           vtb__shape_text(s, w));
  const vtb_type *start = s->inst->n_operands == 3 ? vtb__shape_operand(s, 2) : NULL;
  if (start && (start->rank != 1 || start->dim[0].size != x->dim[2].size))
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "what is added to %s is [%" PRId64 "], not %s",
                           vtb__shape_text(s, x), x->dim[2].size, vtb__shape_text(s, start));
  vtb__shape_push(s, *x);
  return true;
}

bool vtb__shape_dwconv_dx(vtb__shape *s) { return vtb__shape_dwconv(s); }

bool vtb__shape_dwconv_dw(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0), *dy = vtb__shape_operand(s, 1);
  vtb_depthwise d;
  if (!vtb_attr_find(s->inst, "kernel"))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "dwconv_dw: attribute kernel is missing");
  if (!token_grid(s, x, &d)) return false;
  if (!vtb_type_equal(x, dy))
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "dwconv_dw of %s and %s: shapes differ",
                           vtb__shape_text(s, x), vtb__shape_text(s, dy));
  vtb_type t = {.dtype = VTB_F32, .rank = d.rank + 1, .dim = {x->dim[2]}};
  for (int k = 0; k < d.rank; k++)
    t.dim[k + 1] = vtb__dim(d.kernel[VTB_GRID_AXES - d.rank + k], NULL);
  vtb__shape_push(s, t);
  if (vtb_attr_int(s->inst, "start", 0))
    vtb__shape_push(s, (vtb_type){.dtype = VTB_F32, .rank = 1, .dim = {x->dim[2]}});
  return true;
}
