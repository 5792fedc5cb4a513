/* im2col and col2im: patches [B, oh*ow, C*kh*kw] of an image [B, C, H, W], a series or a video,
 * zeros outside it, and the adjoint.
 *
 * A row of a patch is kw neighbours of an image row: copied in whole vectors where it lies inside
 * the image, by elements where it may stick out. im2col: a task owns a row of patches; col2im: a
 * plane of the image, so that sums have an order.
 */
#include "codegen/cpu/cpu.h"
#include "ir/convolution.h"

typedef struct patches {
  vtb_cpu *c;
  vtb_cpu_task *t;
  int image, cols; /* tensor numbers */
  vtb_patches g;
  int64_t W, kw;             /* columns of the image, of the kernel */
  int64_t rows, kernel_rows; /* of the image, of the kernel: of all frames */
  int64_t patch_rows, ow;    /* of the grid of patches, all frames; patches in one */
} patches;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

static patches take_apart(vtb_cpu *c, const vtb_inst *inst, const vtb_type *image,
                          const vtb_type *cols) {
  patches p = {.c = c};
  vtb_check(vtb_patches_of(inst, image, &p.g), "patches: attributes");
  p.W = p.g.size[2], p.kw = p.g.kernel[2], p.ow = p.g.out[2];
  p.rows = p.g.size[0] * p.g.size[1], p.kernel_rows = p.g.kernel[0] * p.g.kernel[1];
  p.patch_rows = p.g.out[0] * p.g.out[1];
  vtb_check(p.patch_rows * p.ow == cols->dim[1].size, "patches: wrong grid");
  return p;
}

/* Places of one row of one patch. */
typedef struct patch_row {
  LLVMValueRef row_inside;  /* i1: the image has this row */
  LLVMValueRef x;           /* image column of the first element */
  LLVMValueRef image, cols; /* addresses of the first elements; image's is valid only inside */
} patch_row;

/* The place along axis k of the image that patch n reads with element a of the kernel. */
static LLVMValueRef along(const patches *p, int k, LLVMValueRef n, LLVMValueRef a) {
  vtb_cpu *c = p->c;
  return vtb_cpu_add(c, vtb_cpu_add(c, vtb_cpu_mul(c, n, p->g.stride[k]), a), k_(c, -p->g.low[k]));
}

static LLVMValueRef below(vtb_cpu *c, LLVMValueRef v, int64_t n) {
  return LLVMBuildICmp(c->b, LLVMIntULT, v, k_(c, n), "");
}

/* Address of the element of the image at frame t, row y and column x. */
static LLVMValueRef pixel(const patches *p, LLVMValueRef b, LLVMValueRef ch, LLVMValueRef t,
                          LLVMValueRef y, LLVMValueRef x) {
  LLVMValueRef at[5] = {b, ch, t, y, x};
  if (p->g.rank < 3) at[2] = y, at[3] = x;
  if (p->g.rank < 2) at[2] = x;
  return vtb_cpu_element(p->c, &p->t->t[p->image], at, 2 + p->g.rank);
}

/* Row a of the kernel on the patch ox of row oy; both rows counted through all frames. */
static patch_row locate(const patches *p, LLVMValueRef b, LLVMValueRef ch, LLVMValueRef oy,
                        LLVMValueRef ox, LLVMValueRef a) {
  vtb_cpu *c = p->c;
  const vtb_patches *g = &p->g;
  patch_row r;
  LLVMValueRef y = along(p, 1, vtb_cpu_rem(c, oy, g->out[1]), vtb_cpu_rem(c, a, g->kernel[1])), t;
  t = along(p, 0, vtb_cpu_div(c, oy, g->out[1]), vtb_cpu_div(c, a, g->kernel[1]));
  r.x = along(p, 2, ox, k_(c, 0));
  r.row_inside = LLVMBuildAnd(c->b, below(c, y, g->size[1]), below(c, t, g->size[0]), "");
  LLVMValueRef patch = vtb_cpu_add(c, vtb_cpu_mul(c, oy, p->ow), ox), element;
  element = vtb_cpu_mul(c, vtb_cpu_add(c, vtb_cpu_mul(c, ch, p->kernel_rows), a), p->kw);
  r.image = pixel(p, b, ch, t, y, r.x);
  r.cols = vtb_cpu_element(c, &p->t->t[p->cols], (LLVMValueRef[]){b, patch, element}, 3);
  return r;
}

/* to[0 ... n) = from, or += from. */
static void copy_row(vtb_cpu *c, LLVMValueRef from, LLVMValueRef to, int64_t n, bool add) {
  int64_t j = 0;
  for (int lanes = c->width; lanes >= 1; lanes /= 2) {
    if (n - j >= 4 * lanes) {
      int64_t end = j + (n - j) / lanes * lanes;
      vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, j), k_(c, end), k_(c, lanes));
      LLVMValueRef v = vtb_cpu_load(c, vtb_cpu_at(c, from, l.i), lanes),
                   at = vtb_cpu_at(c, to, l.i);
      vtb_cpu_store(c, add ? LLVMBuildFAdd(c->b, vtb_cpu_load(c, at, lanes), v, "") : v, at);
      vtb_cpu_for_end(c, &l);
      j = end;
    }
    for (; n - j >= lanes; j += lanes) {
      LLVMValueRef v = vtb_cpu_load(c, vtb_cpu_at(c, from, k_(c, j)), lanes),
                   at = vtb_cpu_at(c, to, k_(c, j));
      vtb_cpu_store(c, add ? LLVMBuildFAdd(c->b, vtb_cpu_load(c, at, lanes), v, "") : v, at);
    }
  }
}

static void zero_row(vtb_cpu *c, LLVMValueRef to, LLVMValueRef n) {
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  vtb_cpu_store(c, vtb_cpu_f32(c, 0), vtb_cpu_at(c, to, l.i));
  vtb_cpu_for_end(c, &l);
}

/* Element by element: image to patch with zeros outside, or patch added to the image. */
static void edge_row(const patches *p, const patch_row *r, bool gather) {
  vtb_cpu *c = p->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, p->kw), k_(c, 1));
  LLVMValueRef inside = LLVMBuildICmp(c->b, LLVMIntULT, vtb_cpu_add(c, r->x, l.i), k_(c, p->W), "");
  LLVMValueRef image = vtb_cpu_at(c, r->image, l.i), cols = vtb_cpu_at(c, r->cols, l.i);
  vtb_cpu_if test = vtb_cpu_if_begin(c, inside);
  LLVMValueRef v = vtb_cpu_load(c, gather ? image : cols, 1);
  if (!gather) v = LLVMBuildFAdd(c->b, vtb_cpu_load(c, image, 1), v, "");
  vtb_cpu_store(c, v, gather ? cols : image);
  vtb_cpu_else(c, &test);
  if (gather) vtb_cpu_store(c, vtb_cpu_f32(c, 0), cols);
  vtb_cpu_if_end(c, &test);
  vtb_cpu_for_end(c, &l);
}

static void one_row(const patches *p, const patch_row *r, bool gather) {
  vtb_cpu *c = p->c;
  bool always = true;
  for (int k = 0; k < VTB_GRID_AXES; k++)
    always = always && p->g.low[k] == 0 &&
             (p->g.out[k] - 1) * p->g.stride[k] + p->g.kernel[k] <= p->g.size[k];
  if (always) {
    copy_row(c, gather ? r->image : r->cols, gather ? r->cols : r->image, p->kw, !gather);
    return;
  }
  vtb_cpu_if row = vtb_cpu_if_begin(c, r->row_inside);
  LLVMValueRef whole = p->W < p->kw
                           ? LLVMConstInt(c->i1, 0, 0)
                           : LLVMBuildICmp(c->b, LLVMIntULT, r->x, k_(c, p->W - p->kw + 1), "");
  vtb_cpu_if inside = vtb_cpu_if_begin(c, whole);
  copy_row(c, gather ? r->image : r->cols, gather ? r->cols : r->image, p->kw, !gather);
  vtb_cpu_else(c, &inside);
  edge_row(p, r, gather);
  vtb_cpu_if_end(c, &inside);
  if (gather) {
    vtb_cpu_else(c, &row);
    zero_row(c, r->cols, k_(c, p->kw));
  }
  vtb_cpu_if_end(c, &row);
}

void vtb__cpu_im2col(vtb_cpu *c, const vtb_inst *inst) {
  patches p = take_apart(c, inst, &inst->operands[0]->type, &inst->results[0]->type);
  p.image = 0, p.cols = 1;
  p.t = vtb_cpu_task_begin(c, inst, "im2col", p.g.batch * p.patch_rows, 1);
  LLVMValueRef b = vtb_cpu_div(c, p.t->index, p.patch_rows),
               oy = vtb_cpu_rem(c, p.t->index, p.patch_rows), zero = k_(c, 0), one = k_(c, 1);
  vtb_cpu_for ox = vtb_cpu_for_begin(c, zero, k_(c, p.ow), one);
  vtb_cpu_for ch = vtb_cpu_for_begin(c, zero, k_(c, p.g.channels), one);
  vtb_cpu_for a = vtb_cpu_for_begin(c, zero, k_(c, p.kernel_rows), one);
  patch_row r = locate(&p, b, ch.i, oy, ox.i, a.i);
  one_row(&p, &r, true);
  vtb_cpu_for_end(c, &a);
  vtb_cpu_for_end(c, &ch);
  vtb_cpu_for_end(c, &ox);
  vtb_cpu_task_end(c, p.t);
}

void vtb__cpu_col2im(vtb_cpu *c, const vtb_inst *inst) {
  patches p = take_apart(c, inst, &inst->results[0]->type, &inst->operands[0]->type);
  p.image = 1, p.cols = 0;
  p.t = vtb_cpu_task_begin(c, inst, "col2im", p.g.batch * p.g.channels, 1);
  LLVMValueRef b = vtb_cpu_div(c, p.t->index, p.g.channels),
               ch = vtb_cpu_rem(c, p.t->index, p.g.channels), zero = k_(c, 0), one = k_(c, 1);
  vtb_cpu_for y = vtb_cpu_for_begin(c, zero, k_(c, p.rows), one);
  LLVMValueRef frame = vtb_cpu_div(c, y.i, p.g.size[1]), row = vtb_cpu_rem(c, y.i, p.g.size[1]);
  zero_row(c, pixel(&p, b, ch, frame, row, zero), k_(c, p.W));
  vtb_cpu_for_end(c, &y);
  vtb_cpu_for oy = vtb_cpu_for_begin(c, zero, k_(c, p.patch_rows), one);
  vtb_cpu_for ox = vtb_cpu_for_begin(c, zero, k_(c, p.ow), one);
  vtb_cpu_for a = vtb_cpu_for_begin(c, zero, k_(c, p.kernel_rows), one);
  patch_row r = locate(&p, b, ch, oy.i, ox.i, a.i);
  one_row(&p, &r, false);
  vtb_cpu_for_end(c, &a);
  vtb_cpu_for_end(c, &ox);
  vtb_cpu_for_end(c, &oy);
  vtb_cpu_task_end(c, p.t);
}
