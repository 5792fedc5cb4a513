/* im2col and col2im: patches [B, oh*ow, C*kh*kw] of an image [B, C, H, W], zeros outside it, and
 * the adjoint.
 *
 * A row of a patch is kw neighbours of an image row: copied in whole vectors where it lies inside
 * the image, by elements where it may stick out. im2col: a task owns a row of patches; col2im: a
 * plane of the image, so that sums have an order.
 */
#include "codegen/cpu/cpu.h"

typedef struct patches {
  vtb_cpu *c;
  vtb_cpu_task *t;
  int image, cols; /* tensor numbers */
  int64_t n_batch, C, H, W, kh, kw, sh, sw, top, left, oh, ow;
} patches;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

static patches take_apart(vtb_cpu *c, const vtb_inst *inst, const vtb_type *image,
                          const vtb_type *cols) {
  int n;
  const int64_t *kernel = vtb_attr_ints(inst, "kernel", &n),
                *stride = vtb_attr_ints(inst, "stride", &n);
  const int64_t *pad = vtb_attr_ints(inst, "pad", &n);
  patches p = {
      .c = c, .n_batch = image->dim[0].size, .C = image->dim[1].size, .H = image->dim[2].size};
  p.W = image->dim[3].size;
  p.kh = kernel[0], p.kw = kernel[1], p.sh = stride[0], p.sw = stride[1], p.top = pad[0],
  p.left = pad[1];
  p.oh = (p.H + pad[0] + pad[2] - p.kh) / p.sh + 1;
  p.ow = (p.W + pad[1] + pad[3] - p.kw) / p.sw + 1;
  vtb_check(p.oh * p.ow == cols->dim[1].size, "patches: wrong grid");
  return p;
}

/* Places of one row of one patch. */
typedef struct patch_row {
  LLVMValueRef row_inside;  /* i1: the image has this row */
  LLVMValueRef x;           /* image column of the first element */
  LLVMValueRef image, cols; /* addresses of the first elements; image's is valid only inside */
} patch_row;

static patch_row locate(const patches *p, LLVMValueRef b, LLVMValueRef ch, LLVMValueRef oy,
                        LLVMValueRef ox, LLVMValueRef a) {
  vtb_cpu *c = p->c;
  patch_row r;
  LLVMValueRef y = vtb_cpu_add(c, vtb_cpu_add(c, vtb_cpu_mul(c, oy, p->sh), a), k_(c, -p->top));
  r.x = vtb_cpu_add(c, vtb_cpu_mul(c, ox, p->sw), k_(c, -p->left));
  r.row_inside = LLVMBuildICmp(c->b, LLVMIntULT, y, k_(c, p->H), "");
  LLVMValueRef patch = vtb_cpu_add(c, vtb_cpu_mul(c, oy, p->ow), ox);
  LLVMValueRef element = vtb_cpu_mul(c, vtb_cpu_add(c, vtb_cpu_mul(c, ch, p->kh), a), p->kw);
  r.image = vtb_cpu_element(c, &p->t->t[p->image], (LLVMValueRef[]){b, ch, y, r.x}, 4);
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
  bool always = p->top == 0 && p->left == 0 && (p->oh - 1) * p->sh + p->kh <= p->H &&
                (p->ow - 1) * p->sw + p->kw <= p->W;
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
  p.t = vtb_cpu_task_begin(c, inst, "im2col", p.n_batch * p.oh, 1);
  LLVMValueRef b = vtb_cpu_div(c, p.t->index, p.oh), oy = vtb_cpu_rem(c, p.t->index, p.oh),
               zero = k_(c, 0), one = k_(c, 1);
  vtb_cpu_for ox = vtb_cpu_for_begin(c, zero, k_(c, p.ow), one);
  vtb_cpu_for ch = vtb_cpu_for_begin(c, zero, k_(c, p.C), one);
  vtb_cpu_for a = vtb_cpu_for_begin(c, zero, k_(c, p.kh), one);
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
  p.t = vtb_cpu_task_begin(c, inst, "col2im", p.n_batch * p.C, 1);
  LLVMValueRef b = vtb_cpu_div(c, p.t->index, p.C), ch = vtb_cpu_rem(c, p.t->index, p.C),
               zero = k_(c, 0), one = k_(c, 1);
  vtb_cpu_for y = vtb_cpu_for_begin(c, zero, k_(c, p.H), one);
  zero_row(c, vtb_cpu_element(c, &p.t->t[p.image], (LLVMValueRef[]){b, ch, y.i}, 3), k_(c, p.W));
  vtb_cpu_for_end(c, &y);
  vtb_cpu_for oy = vtb_cpu_for_begin(c, zero, k_(c, p.oh), one);
  vtb_cpu_for ox = vtb_cpu_for_begin(c, zero, k_(c, p.ow), one);
  vtb_cpu_for a = vtb_cpu_for_begin(c, zero, k_(c, p.kh), one);
  patch_row r = locate(&p, b, ch, oy.i, ox.i, a.i);
  one_row(&p, &r, false);
  vtb_cpu_for_end(c, &a);
  vtb_cpu_for_end(c, &ox);
  vtb_cpu_for_end(c, &oy);
  vtb_cpu_task_end(c, p.t);
}
