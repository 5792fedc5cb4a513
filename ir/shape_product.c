/* Shape rules of einsum, patches and depthwise convolutions; taking an einsum spec apart. */
#include "ir/internal.h"

#include <inttypes.h>

/* ---- einsum ---------------------------------------------------------------------------------- */

/* Reads letters, no letter twice. Returns their number, -1 if there are too many or one comes
 * twice. */
static int read_letters(const char **p) {
  const char *begin = *p;
  while ((**p >= 'a' && **p <= 'z') || (**p >= 'A' && **p <= 'Z')) (*p)++;
  int n = (int)(*p - begin < 100 ? *p - begin : 100);
  if (n > VTB_MAX_RANK) return -1;
  for (int i = 0; i < n; i++)
    if (memchr(begin + i + 1, begin[i], (size_t)(n - i - 1))) return -1;
  return n;
}

const char *vtb__einsum_parse(const char *spec, vtb__einsum *e) {
  const char *p = spec;
  e->in[0] = p;
  e->rank[0] = read_letters(&p);
  if (*p++ != ',') return "want \"ab,bc->ac\"";
  e->in[1] = p;
  e->rank[1] = read_letters(&p);
  if (p[0] != '-' || p[1] != '>') return "want \"ab,bc->ac\"";
  p += 2;
  e->out = p;
  e->out_rank = read_letters(&p);
  if (*p) return "want \"ab,bc->ac\"";
  if (e->rank[0] < 0 || e->rank[1] < 0 || e->out_rank < 0)
    return "a letter comes twice in one place, or too many letters";
  for (int i = 0; i < e->out_rank; i++)
    if (!memchr(e->in[0], e->out[i], (size_t)e->rank[0]) &&
        !memchr(e->in[1], e->out[i], (size_t)e->rank[1]))
      return "a letter of the result is in no operand";
  return NULL;
}

static bool bind_letters(vtb__shape *s, const vtb__einsum *e, int which, vtb_dim *letters) {
  const vtb_type *x = vtb__shape_operand(s, which);
  const char *spec = vtb_attr_str(s->inst, "spec", "");
  if (x->rank != e->rank[which])
    return vtb__shape_fail(s, VTB_DIAG_IR_EINSUM,
                           "einsum \"%s\": operand %d is %s, which has %d axes", spec, which + 1,
                           vtb__shape_text(s, x), x->rank);
  for (int i = 0; i < x->rank; i++) {
    vtb_dim *d = &letters[(unsigned char)e->in[which][i]];
    if (d->size && d->size != x->dim[i].size)
      return vtb__shape_fail(s, VTB_DIAG_IR_EINSUM, "einsum \"%s\" of %s and %s: %c has two sizes",
                             spec, vtb__shape_text(s, vtb__shape_operand(s, 0)),
                             vtb__shape_text(s, vtb__shape_operand(s, 1)), e->in[which][i]);
    d->size = x->dim[i].size;
    if (!d->name) d->name = x->dim[i].name;
  }
  return true;
}

bool vtb__shape_einsum(vtb__shape *s) {
  const char *spec = vtb_attr_str(s->inst, "spec", "");
  vtb__einsum e;
  const char *wrong = vtb__einsum_parse(spec, &e);
  if (wrong) return vtb__shape_fail(s, VTB_DIAG_IR_EINSUM, "einsum \"%s\": %s", spec, wrong);
  vtb_dim letters[128] = {0};
  if (!vtb__shape_f32(s) || !bind_letters(s, &e, 0, letters) || !bind_letters(s, &e, 1, letters))
    return false;
  vtb_type t = {.dtype = VTB_F32, .rank = e.out_rank};
  for (int i = 0; i < e.out_rank; i++) t.dim[i] = letters[(unsigned char)e.out[i]];
  if (s->inst->n_operands == 3) {
    const vtb_type *init = vtb__shape_operand(s, 2);
    vtb_type sum;
    if (!vtb_type_broadcast(init, &t, &sum) || !vtb_type_equal(&sum, &t))
      return vtb__shape_fail(s, VTB_DIAG_IR_EINSUM, "einsum \"%s\": %s cannot be added to %s", spec,
                             vtb__shape_text(s, init), vtb__shape_text(s, &t));
  }
  vtb__shape_push(s, t);
  return true;
}

/* ---- patches --------------------------------------------------------------------------------- */

/* Output positions along one axis, or -1 if the kernel does not fit. */
static int64_t out_size(int64_t size, int64_t low, int64_t high, int64_t kernel, int64_t stride) {
  int64_t room = size + low + high - kernel;
  return room < 0 ? -1 : room / stride + 1;
}

typedef struct patches {
  int64_t oh, ow, k; /* k: kernel elements */
} patches;

static bool patch_grid(vtb__shape *s, int64_t h, int64_t w, patches *out) {
  const int64_t *kernel = vtb__shape_list(s, "kernel", 2),
                *stride = vtb__shape_list(s, "stride", 2);
  const int64_t *pad = vtb__shape_list(s, "pad", 4);
  if (!kernel || !stride || !pad) return false;
  bool positive = kernel[0] > 0 && kernel[1] > 0 && stride[0] > 0 && stride[1] > 0;
  for (int i = 0; i < 4; i++) positive = positive && pad[i] >= 0;
  if (!positive)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID,
                           "kernel and stride are at least 1, padding at least 0");
  out->oh = out_size(h, pad[0], pad[2], kernel[0], stride[0]);
  out->ow = out_size(w, pad[1], pad[3], kernel[1], stride[1]);
  out->k = kernel[0] * kernel[1];
  if (out->oh > VTB__MAX_DIM / (out->ow > 0 ? out->ow : 1) || out->k > VTB__MAX_DIM)
    return vtb__shape_fail(s, VTB_DIAG_IR_SIZE, "too many patches or too large a kernel");
  if (out->oh > 0 && out->ow > 0) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_GRID,
                         "a %" PRId64 "x%" PRId64 " kernel does not fit on a %" PRId64 "x%" PRId64
                         " image",
                         kernel[0], kernel[1], h, w);
}

bool vtb__shape_im2col(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  patches p;
  if (!vtb__shape_f32(s)) return false;
  if (x->rank != 4 || x->dim[1].size < 1 || x->dim[2].size < 1 || x->dim[3].size < 1)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "im2col of %s; want an image [B, C, H, W]",
                           vtb__shape_text(s, x));
  if (!patch_grid(s, x->dim[2].size, x->dim[3].size, &p)) return false;
  if (p.k > VTB__MAX_DIM / x->dim[1].size)
    return vtb__shape_fail(s, VTB_DIAG_IR_SIZE, "im2col: the result is too large");
  vtb_type t = {
      .dtype = VTB_F32,
      .rank = 3,
      .dim = {x->dim[0], vtb__dim(p.oh * p.ow, "N"), vtb__dim(x->dim[1].size * p.k, NULL)}};
  vtb__shape_push(s, t);
  return true;
}

bool vtb__shape_col2im(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  const int64_t *image = vtb__shape_list(s, "image", 3);
  patches p;
  if (!image || !vtb__shape_f32(s)) return false;
  if (image[0] < 1 || image[1] < 1 || image[2] < 1)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "col2im to an empty image");
  if (!patch_grid(s, image[1], image[2], &p)) return false;
  /* Sizes are at most 2^31, so the products below stay within 64 bits. */
  if (x->rank != 3 || x->dim[1].size != p.oh * p.ow || x->dim[2].size / p.k != image[0] ||
      x->dim[2].size % p.k)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID,
                           "col2im of %s; want [B, %" PRId64 ", %" PRId64 "x%" PRId64 "]",
                           vtb__shape_text(s, x), p.oh * p.ow, image[0], p.k);
  vtb_type t = {.dtype = VTB_F32,
                .rank = 4,
                .dim = {x->dim[0], vtb__dim(image[0], "C"), vtb__dim(image[1], "H"),
                        vtb__dim(image[2], "W")}};
  vtb__shape_push(s, t);
  return true;
}

/* ---- depthwise convolution ------------------------------------------------------------------- */

/* Tokens [B, N, C] on the grid of attribute `grid`, N known. */
static bool token_grid(vtb__shape *s, const vtb_type *x) {
  const int64_t *grid = vtb__shape_list(s, "grid", 2), *pad = vtb__shape_list(s, "pad", 2);
  if (!grid || !pad || !vtb__shape_f32(s)) return false;
  if (x->rank != 3 || x->dim[1].size == VTB_DYN || x->dim[2].size == VTB_DYN)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "%s of %s; want tokens [B, N, C]",
                           vtb_op_get(s->inst->op)->name, vtb__shape_text(s, x));
  if (grid[0] < 1 || grid[1] < 1 || grid[0] * grid[1] != x->dim[1].size)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "%s is not on a grid of %" PRId64 "x%" PRId64,
                           vtb__shape_text(s, x), grid[0], grid[1]);
  if (pad[0] < 0 || pad[1] < 0)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "padding is at least 0");
  return vtb__shape_path(s, x->dim[1].size);
}

static bool depthwise_kernel(vtb__shape *s, const vtb_type *x, const vtb_type *w) {
  if (w->rank == 3 && w->dim[0].size == x->dim[2].size && w->dim[1].size > 0 && w->dim[2].size > 0)
    return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_GRID,
                         "a depthwise kernel for %s is [%" PRId64 ", kh, kw], not %s",
                         vtb__shape_text(s, x), x->dim[2].size, vtb__shape_text(s, w));
}

bool vtb__shape_dwconv(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  if (!token_grid(s, x) || !depthwise_kernel(s, x, vtb__shape_operand(s, 1))) return false;
  vtb__shape_push(s, *x);
  return true;
}

bool vtb__shape_dwconv_dx(vtb__shape *s) { return vtb__shape_dwconv(s); }

bool vtb__shape_dwconv_dw(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0), *dy = vtb__shape_operand(s, 1);
  const int64_t *kernel = vtb__shape_list(s, "kernel", 2);
  if (!kernel || !token_grid(s, x)) return false;
  if (!vtb_type_equal(x, dy))
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "dwconv_dw of %s and %s: shapes differ",
                           vtb__shape_text(s, x), vtb__shape_text(s, dy));
  if (kernel[0] < 1 || kernel[1] < 1)
    return vtb__shape_fail(s, VTB_DIAG_IR_GRID, "a kernel is at least 1x1");
  vtb_type t = {.dtype = VTB_F32,
                .rank = 3,
                .dim = {x->dim[2], vtb__dim(kernel[0], NULL), vtb__dim(kernel[1], NULL)}};
  vtb__shape_push(s, t);
  return true;
}
