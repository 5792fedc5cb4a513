/* Taking linscan instructions apart, and moving rows between tensors in storage order and scratch
 * memory in path order: see linscan.h. */
#include "codegen/cpu/scan/linscan.h"

vtb__cpu_scan vtb__scan_make(vtb_cpu *c, const vtb_inst *inst) {
  vtb__cpu_scan s = {.c = c, .of = vtb_scan_of(inst)};
  s.order = vtb__order_make(c, s.of.path, s.of.n_tokens);
  return s;
}

/* ---- columns --------------------------------------------------------------------------------- */

static int64_t tail_of(const vtb_cpu *c, const vtb__cols *cols) { return cols->n % c->width; }
static bool has_tail(const vtb_cpu *c, const vtb__cols *cols) {
  return tail_of(c, cols) > 0 || cols->extra;
}

vtb__cols vtb__cols_all(vtb_cpu *c, int64_t n, bool extra) {
  return (vtb__cols){n, extra, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, n / c->width * c->width), NULL};
}

vtb__cols vtb__cols_tile(vtb_cpu *c, int64_t n, bool extra, int64_t width, LLVMValueRef tile) {
  int64_t n_tiles = (vtb__cols_stored(c, n, extra) + width - 1) / width;
  if (n_tiles == 1) return vtb__cols_all(c, n, extra);
  LLVMValueRef from = vtb_cpu_mul(c, tile, width);
  LLVMValueRef left = LLVMBuildNSWSub(c->b, vtb_cpu_i64(c, n / c->width * c->width), from, "");
  LLVMValueRef last = LLVMBuildICmp(c->b, LLVMIntEQ, tile, vtb_cpu_i64(c, n_tiles - 1), "");
  return (vtb__cols){n, extra, from, vtb_cpu_min(c, left, vtb_cpu_i64(c, width)), last};
}

LLVMValueRef vtb__cols_vectors(vtb_cpu *c, const vtb__cols *cols) {
  LLVMValueRef whole = vtb_cpu_div(c, cols->whole, c->width);
  if (!has_tail(c, cols)) return whole;
  return vtb_cpu_add(
      c, whole, cols->tail_if ? LLVMBuildZExt(c->b, cols->tail_if, c->i64, "") : vtb_cpu_i64(c, 1));
}

int64_t vtb__cols_stored(const vtb_cpu *c, int64_t n, bool extra) {
  return vtb__padded(c, n + extra);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static LLVMValueRef scaled(vtb_cpu *c, LLVMValueRef v, LLVMValueRef scale) {
  return scale ? LLVMBuildFMul(c->b, v, vtb_cpu_splat(c, scale, c->width), "") : v;
}

void vtb__row_pack(vtb_cpu *c, const vtb__cols *cols, LLVMValueRef x, LLVMValueRef extra,
                   LLVMValueRef scale, LLVMValueRef out) {
  x = vtb_cpu_at(c, x, cols->from);
  vtb_cpu_for l = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), cols->whole, vtb_cpu_i64(c, c->width));
  vtb_cpu_store(c, scaled(c, vtb_cpu_load(c, vtb_cpu_at(c, x, l.i), c->width), scale),
                vtb_cpu_at(c, out, l.i));
  vtb_cpu_for_end(c, &l);
  if (!has_tail(c, cols)) return;
  vtb_cpu_if test;
  if (cols->tail_if) test = vtb_cpu_if_begin(c, cols->tail_if);
  LLVMValueRef left = vtb_cpu_i64(c, tail_of(c, cols)), v = LLVMConstNull(c->vf32);
  if (tail_of(c, cols))
    v = vtb_cpu_load_masked(c, vtb_cpu_at(c, x, cols->whole), vtb_cpu_mask(c, left, c->width),
                            c->width);
  if (cols->extra) v = LLVMBuildInsertElement(c->b, v, extra, left, "");
  vtb_cpu_store(c, scaled(c, v, scale), vtb_cpu_at(c, out, cols->whole));
  if (cols->tail_if) vtb_cpu_if_end(c, &test);
}

void vtb__row_unpack(vtb_cpu *c, const vtb__cols *cols, LLVMValueRef row, LLVMValueRef extra_at,
                     LLVMValueRef x) {
  x = vtb_cpu_at(c, x, cols->from);
  vtb_cpu_for l = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), cols->whole, vtb_cpu_i64(c, c->width));
  vtb_cpu_store(c, vtb_cpu_load(c, vtb_cpu_at(c, row, l.i), c->width), vtb_cpu_at(c, x, l.i));
  vtb_cpu_for_end(c, &l);
  if (!has_tail(c, cols)) return;
  vtb_cpu_if test;
  if (cols->tail_if) test = vtb_cpu_if_begin(c, cols->tail_if);
  LLVMValueRef left = vtb_cpu_i64(c, tail_of(c, cols)),
               v = vtb_cpu_load(c, vtb_cpu_at(c, row, cols->whole), c->width);
  if (tail_of(c, cols))
    vtb_cpu_store_masked(c, v, vtb_cpu_at(c, x, cols->whole), vtb_cpu_mask(c, left, c->width));
  if (cols->extra && extra_at)
    vtb_cpu_store(c, LLVMBuildExtractElement(c->b, v, left, ""), extra_at);
  if (cols->tail_if) vtb_cpu_if_end(c, &test);
}

LLVMValueRef vtb__scan_row(const vtb__cpu_scan *s, int i, LLVMValueRef pos) {
  return vtb_cpu_element(s->c, &s->t->t[i], (LLVMValueRef[]){s->batch, pos, s->head}, 3);
}

void vtb__scan_pack(const vtb__cpu_scan *s, const vtb__cols *cols, vtb__pack p, LLVMValueRef t0,
                    LLVMValueRef n, LLVMValueRef out, int64_t ld) {
  vtb_cpu *c = s->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), n, vtb_cpu_i64(c, 1));
  LLVMValueRef pos = vtb__order_at(c, &s->order, vtb_cpu_add(c, t0, l.i)), extra = NULL,
               scale = NULL;
  if (cols->extra)
    extra = p.ones ? vtb_cpu_f32(c, 1) : vtb_cpu_load(c, vtb__scan_row(s, p.extra, pos), 1);
  if (p.scales) scale = vtb_cpu_load(c, vtb_cpu_at(c, p.scales, l.i), 1);
  vtb__row_pack(c, cols, vtb__scan_row(s, p.tensor, pos), extra, scale,
                vtb_cpu_at(c, out, vtb_cpu_mul(c, l.i, ld)));
  vtb_cpu_for_end(c, &l);
}

void vtb__scan_unpack(const vtb__cpu_scan *s, const vtb__cols *cols, int tensor, int extra,
                      LLVMValueRef t0, LLVMValueRef n, LLVMValueRef rows, int64_t ld) {
  vtb_cpu *c = s->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), n, vtb_cpu_i64(c, 1));
  LLVMValueRef pos = vtb__order_at(c, &s->order, vtb_cpu_add(c, t0, l.i));
  LLVMValueRef extra_at = cols->extra && extra >= 0 ? vtb__scan_row(s, extra, pos) : NULL;
  vtb__row_unpack(c, cols, vtb_cpu_at(c, rows, vtb_cpu_mul(c, l.i, ld)), extra_at,
                  vtb__scan_row(s, tensor, pos));
  vtb_cpu_for_end(c, &l);
}

static LLVMValueRef state_element(const vtb__cpu_scan *s, int tensor, LLVMValueRef k) {
  return vtb_cpu_element(s->c, &s->t->t[tensor], (LLVMValueRef[]){s->batch, s->head, k}, 3);
}

void vtb__scan_pack_state(const vtb__cpu_scan *s, const vtb__cols *cols, int tensor, int vector,
                          LLVMValueRef out, int64_t ld) {
  vtb_cpu *c = s->c;
  vtb_cpu_for l =
      vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, s->of.K), vtb_cpu_i64(c, 1));
  LLVMValueRef extra = cols->extra ? vtb_cpu_load(c, state_element(s, vector, l.i), 1) : NULL;
  vtb__row_pack(c, cols, state_element(s, tensor, l.i), extra, NULL,
                vtb_cpu_at(c, out, vtb_cpu_mul(c, l.i, ld)));
  vtb_cpu_for_end(c, &l);
}

void vtb__scan_unpack_state(const vtb__cpu_scan *s, const vtb__cols *cols, int tensor, int vector,
                            LLVMValueRef rows, int64_t ld) {
  vtb_cpu *c = s->c;
  vtb_cpu_for l =
      vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, s->of.K), vtb_cpu_i64(c, 1));
  LLVMValueRef extra_at = cols->extra ? state_element(s, vector, l.i) : NULL;
  vtb__row_unpack(c, cols, vtb_cpu_at(c, rows, vtb_cpu_mul(c, l.i, ld)), extra_at,
                  state_element(s, tensor, l.i));
  vtb_cpu_for_end(c, &l);
}

/* ---- decays ---------------------------------------------------------------------------------- */

/* Decays nearer to 0 than `floor` (either sign) become `floor`. */
static LLVMValueRef floored(vtb_cpu *c, LLVMValueRef d, double floor) {
  LLVMValueRef least = vtb_cpu_like(c, d, floor), size = vtb_cpu_intrinsic(c, "llvm.fabs", &d, 1);
  return LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealOLT, size, least, ""), least, d, "");
}

LLVMValueRef vtb__scan_decays(const vtb__cpu_scan *s, LLVMValueRef t0, LLVMValueRef n, double floor,
                              LLVMValueRef d, LLVMValueRef b, LLVMValueRef suffix) {
  vtb_cpu *c = s->c;
  LLVMValueRef zero = vtb_cpu_i64(c, 0), one = vtb_cpu_i64(c, 1), unit = vtb_cpu_f32(c, 1);
  vtb_cpu_for l = vtb_cpu_for_begin(c, zero, n, one);
  LLVMValueRef product = vtb_cpu_carry(c, &l, unit), at;
  if (!s->of.decay->by_step)
    at = vtb_cpu_element(c, &s->t->t[s->of.at.d], &s->head, 1);
  else
    at = vtb__scan_row(s, s->of.at.d, vtb__order_at(c, &s->order, vtb_cpu_add(c, t0, l.i)));
  LLVMValueRef x = vtb_cpu_load(c, at, 1);
  if (floor > 0) x = floored(c, x, floor);
  product = LLVMBuildFMul(c->b, product, x, "");
  vtb_cpu_store(c, x, vtb_cpu_at(c, d, l.i));
  vtb_cpu_store(c, product, vtb_cpu_at(c, b, l.i));
  vtb_cpu_carry_next(&l, 0, product);
  vtb_cpu_for_end(c, &l);

  vtb_cpu_for r = vtb_cpu_for_begin(c, zero, n, one);
  LLVMValueRef after = vtb_cpu_carry(c, &r, unit);
  LLVMValueRef i = vtb_cpu_add(c, LLVMBuildNSWSub(c->b, n, r.i, ""), vtb_cpu_i64(c, -1));
  vtb_cpu_store(c, after, vtb_cpu_at(c, suffix, i));
  vtb_cpu_carry_next(&r, 0,
                     LLVMBuildFMul(c->b, after, vtb_cpu_load(c, vtb_cpu_at(c, d, i), 1), ""));
  vtb_cpu_for_end(c, &r);
  return vtb_cpu_carried(&l, 0);
}

void vtb__fill(vtb_cpu *c, LLVMValueRef at, LLVMValueRef n, double v) {
  vtb_cpu_for l = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), n, vtb_cpu_i64(c, c->width));
  vtb_cpu_store(c, vtb_cpu_like(c, LLVMConstNull(c->vf32), v), vtb_cpu_at(c, at, l.i));
  vtb_cpu_for_end(c, &l);
}

void vtb__rows_times(vtb_cpu *c, LLVMValueRef out, LLVMValueRef x, LLVMValueRef y, int64_t ld,
                     int64_t y_ld, LLVMValueRef n, LLVMValueRef n_vectors) {
  vtb_cpu_for r = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), n, vtb_cpu_i64(c, 1));
  LLVMValueRef row = vtb_cpu_mul(c, r.i, ld), y_row = vtb_cpu_at(c, y, vtb_cpu_mul(c, r.i, y_ld));
  vtb_cpu_for j = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_mul(c, n_vectors, c->width),
                                    vtb_cpu_i64(c, c->width));
  LLVMValueRef at = vtb_cpu_add(c, row, j.i);
  LLVMValueRef product = LLVMBuildFMul(c->b, vtb_cpu_load(c, vtb_cpu_at(c, x, at), c->width),
                                       vtb_cpu_load(c, vtb_cpu_at(c, y_row, j.i), c->width), "");
  vtb_cpu_store(c, product, vtb_cpu_at(c, out, at));
  vtb_cpu_for_end(c, &j);
  vtb_cpu_for_end(c, &r);
}

void vtb__keys_times(vtb_cpu *c, LLVMValueRef rows, int64_t ld, LLVMValueRef by, LLVMValueRef n,
                     LLVMValueRef n_vectors) {
  vtb_cpu_for r = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), n, vtb_cpu_i64(c, 1));
  LLVMValueRef f = vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, by, r.i), 1), c->width);
  LLVMValueRef row = vtb_cpu_mul(c, r.i, ld);
  vtb_cpu_for j = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_mul(c, n_vectors, c->width),
                                    vtb_cpu_i64(c, c->width));
  LLVMValueRef at = vtb_cpu_add(c, row, j.i);
  LLVMValueRef here = vtb_cpu_at(c, rows, at);
  vtb_cpu_store(c, LLVMBuildFMul(c->b, vtb_cpu_load(c, here, c->width), f, ""), here);
  vtb_cpu_for_end(c, &j);
  vtb_cpu_for_end(c, &r);
}
