/* linscan and linscan_grad: texts of codegen/cpu/text, by the form of the decay. */
#include "codegen/cpu/scan/scan.h"

static int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

/* The least number whose square is n or more. */
static int64_t root(int64_t n) {
  int64_t x = 1;
  while (x * x < n) x++;
  return x;
}

/* ---- chunk by chunk, as products of matrices ------------------------------------------------- */

static void products(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu_text_run(vtb__chunks_text(s, "linscan_products"), inst);
}

/* Adjoints of products are products in mode recurrent too, in short chunks. */
static void products_grad(vtb__cpu_scan *s, const vtb_inst *inst) {
  enum { RECURRENT_CHUNK = 32 };
  if (s->of.recurrent) s->of.chunk = smaller(s->of.chunk, RECURRENT_CHUNK);
  vtb_cpu_text_run(vtb__chunks_text(s, "linscan_products_grad"), inst);
}

static vtb_cpu_text *vector_text(const vtb__cpu_scan *s, const char *name) {
  vtb_cpu_text *x = vtb__chunks_text(s, name);
  vtb_cpu_text_number(x, "ALONG_KEY", s->of.decay->axes == VTB_ALONG_KEY);
  return x;
}

static void vector(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu_text_run(vector_text(s, "linscan_vector"), inst);
}

/* Beyond the root's length a chunk keeps more states inside than it saves before the others. */
static void vector_grad(vtb__cpu_scan *s, const vtb_inst *inst) {
  enum { SUB = 16 }; /* of text/direct.h */
  s->of.chunk = smaller(s->of.chunk, root((s->of.n_tokens + SUB - 1) / SUB) * SUB);
  vtb_cpu_text_run(vector_text(s, "linscan_vector_grad"), inst);
}

/* ---- token by token -------------------------------------------------------------------------- */

static void steps(vtb__cpu_scan *s, const vtb_inst *inst) {
  const char *name = vtb_scan_is_wide(&s->of) ? "linscan_steps_wide" : "linscan_steps";
  vtb_cpu_text_run(vtb__steps_text(s, name, 64), inst);
}

static void steps_grad(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu_text *x = vtb__steps_text(s, "linscan_steps_grad", 8);
  vtb_cpu_text_number(x, "SEGMENT", root(s->of.n_tokens)); /* fewest states are kept */
  vtb_cpu_text_run(x, inst);
}

static void rates(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu_text_run(vtb__scan_text(s, "linscan_rates"), inst);
}

/* Tiles of V that a task of the adjoint takes: many share one row of sums, few feed all threads. */
static int64_t group_of(const vtb_scan *of) {
  enum { TILE = 16, MAX_GROUP = 8, MIN_TASKS = 8 }; /* TILE: LANES of text/rates.h */
  int64_t n_tiles = (of->V + TILE - 1) / TILE, group = smaller(n_tiles, MAX_GROUP);
  int64_t bh = of->n_batch * of->n_heads;
  while (group > 1 && bh * ((n_tiles + group - 1) / group) < MIN_TASKS) group /= 2;
  return group;
}

static void rates_grad(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu_text *x = vtb__scan_text(s, "linscan_rates_grad");
  vtb_cpu_text_number(x, "GROUP", group_of(&s->of));
  vtb_cpu_text_run(x, inst);
}

/* ---- by form --------------------------------------------------------------------------------- */

typedef void scan_fn(vtb__cpu_scan *, const vtb_inst *);

static vtb__cpu_scan take_apart(vtb_cpu *c, const vtb_inst *inst) {
  vtb__cpu_scan s = {.c = c, .of = vtb_scan_of(inst)};
  s.order = vtb__order_make(c, s.of.path, s.of.n_tokens);
  return s;
}

void vtb__cpu_linscan(vtb_cpu *c, const vtb_inst *inst) {
  static scan_fn *const emit[VTB_N_FORMS] = {[VTB_FORM_PRODUCTS] = products,
                                             [VTB_FORM_VECTOR] = vector,
                                             [VTB_FORM_STEPS] = steps,
                                             [VTB_FORM_EXPONENTS] = rates};
  vtb__cpu_scan s = take_apart(c, inst);
  emit[vtb_scan_form(&s.of)](&s, inst);
}

void vtb__cpu_linscan_grad(vtb_cpu *c, const vtb_inst *inst) {
  static scan_fn *const emit[VTB_N_FORMS] = {[VTB_FORM_PRODUCTS] = products_grad,
                                             [VTB_FORM_VECTOR] = vector_grad,
                                             [VTB_FORM_STEPS] = steps_grad,
                                             [VTB_FORM_EXPONENTS] = rates_grad};
  vtb__cpu_scan s = take_apart(c, inst);
  bool is_products = s.of.decay->form == VTB_FORM_PRODUCTS;
  emit[is_products ? VTB_FORM_PRODUCTS : vtb_scan_form(&s.of)](&s, inst);
}
