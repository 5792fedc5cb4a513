/* linscan and linscan_grad: emulated CUDA kernels against the interpreter, over classes, modes,
 * chunks, paths and ragged shapes. All cases of a test are one function, so that they are compiled
 * together. */
#include "tests/codegen/cuda_check.h"
#include "ir/ops.h"

#include "ir/recurrence.h"

/* Of the scans being built: attribute precision, or NULL; rows and results are bf16 in memory. */
static const char *factors;
static bool narrow;

typedef struct scan_case {
  vtb_decay_class decay;
  const char *mode, *path;
  int64_t chunk, B, N, h, K, V;
  bool normalizer, init, dlast, views, negative; /* negative: half of the decays */
} scan_case;

#define CONSTANT VTB_DECAY_CONSTANT
#define SCALAR VTB_DECAY_SCALAR
#define KEY VTB_DECAY_KEY
#define VALUE VTB_DECAY_VALUE
#define FULL VTB_DECAY_FULL
#define RATES VTB_DECAY_RATES

static const scan_case products[] = {
    {SCALAR, "parallel", NULL, 0, 1, 1, 1, 1, 1, false, false, false, false, false},
    {SCALAR, "parallel", "rows~@10x15", 0, 1, 150, 2, 24, 20, true, false, false, false, false},
    {SCALAR, "chunkwise", "cols@5x15", 16, 1, 75, 2, 8, 12, true, true, true, false, false},
    {SCALAR, "chunkwise", "hilbert@13x11", 70, 1, 143, 1, 70, 130, false, false, false, true,
     false},
    {CONSTANT, "chunkwise", "snake@6x7", 7, 2, 42, 3, 5, 6, false, true, false, true, false},
    {CONSTANT, "parallel", NULL, 0, 2, 67, 2, 16, 9, true, true, true, false, false},
    {SCALAR, "recurrent", "rows.hflip@3x7", 0, 2, 21, 2, 12, 40, true, true, true, false, false},
    {SCALAR, "chunkwise", "rows~@4x9", 20, 1, 36, 2, 12, 8, true, true, true, false, true},
    {CONSTANT, "chunkwise", "cols@2x9", 8, 1, 18, 4, 8, 4, false, true, true, false, true},
};

static const scan_case steps[] = {
    {KEY, "recurrent", "cols~@4x5", 0, 1, 20, 2, 3, 40, true, true, true, false, false},
    {KEY, "chunkwise", NULL, 8, 2, 17, 1, 33, 5, false, false, false, true, false},
    {VALUE, "parallel", "rows~@3x5", 0, 2, 15, 2, 1, 33, false, true, true, false, false},
    {FULL, "recurrent", "snake@3x5", 0, 1, 15, 1, 16, 140, false, true, true, false, false},
    {FULL, "parallel", NULL, 0, 2, 7, 2, 5, 3, false, false, false, true, false},
    {RATES, "recurrent", "rows~@5x5", 0, 2, 25, 1, 16, 150, false, true, true, false, false},
    {RATES, "chunkwise", NULL, 4, 1, 10, 2, 3, 8, false, false, false, false, false},
    {KEY, "recurrent", NULL, 0, 1, 9, 1, 700, 1, true, true, true, false, false},
    {FULL, "recurrent", NULL, 0, 2, 3, 1, 261, 1, false, false, true, false, false},
    {KEY, "chunkwise", NULL, 4, 1, 19, 1, 6, 5, true, true, true, false, true},
    {VALUE, "recurrent", "rows~@3x5", 0, 1, 15, 1, 3, 6, false, true, false, false, true},
    {FULL, "parallel", NULL, 0, 1, 11, 1, 4, 5, false, false, true, false, true},
};

/* Factors of 16 bits (linscan_tiles.c): narrow results, and wide ones, whose rows several warps
 * share. */
static const scan_case halves[] = {
    {SCALAR, "parallel", NULL, 0, 1, 1, 1, 1, 1, false, false, false, false, false},
    {SCALAR, "parallel", "rows~@10x15", 0, 1, 150, 2, 24, 20, true, false, false, false, false},
    {SCALAR, "chunkwise", "cols@5x15", 16, 1, 75, 2, 8, 12, true, true, true, false, false},
    {SCALAR, "chunkwise", "hilbert@13x11", 70, 1, 143, 1, 70, 130, true, false, false, true, false},
    {SCALAR, "chunkwise", NULL, 128, 1, 300, 1, 136, 144, true, true, true, false, false},
    {CONSTANT, "chunkwise", "snake@6x7", 7, 2, 42, 3, 5, 6, false, true, false, true, false},
    {SCALAR, "chunkwise", NULL, 1, 1, 5, 1, 3, 4, false, false, true, false, false},
    {SCALAR, "chunkwise", "rows~@4x9", 20, 1, 36, 2, 12, 8, true, true, true, false, true},
    {CONSTANT, "chunkwise", "cols@2x9", 8, 1, 18, 4, 8, 4, false, true, true, false, true},
    /* what decays multiply is summed with dq */
    {SCALAR, "parallel", "rows~@15x18", 0, 1, 270, 1, 16, 12, true, false, false, false, true},
    {SCALAR, "chunkwise", NULL, 150, 1, 210, 1, 48, 24, true, true, false, false, false},
};

/* Widths of both that are panels of wgmma, in whole and in part. */
static const scan_case grouped[] = {
    {SCALAR, "parallel", "rows~@13x20", 0, 1, 260, 1, 24, 72, true, false, false, false, false},
    {SCALAR, "parallel", NULL, 0, 1, 67, 1, 200, 136, false, false, false, false, true},
    {SCALAR, "chunkwise", NULL, 70, 1, 150, 1, 40, 104, true, true, true, false, false},
};

/* Rows and results of 16 bits: copies of 16 bytes, rows stored whole. */
static const scan_case stored[] = {
    {SCALAR, "parallel", "cols@5x14", 0, 2, 70, 2, 16, 24, true, false, false, false, false},
    {SCALAR, "chunkwise", NULL, 128, 1, 200, 1, 136, 160, true, true, true, false, false},
    {CONSTANT, "chunkwise", "rows~@8x10", 64, 1, 80, 2, 64, 64, false, false, false, false, false},
};

/* Adjoints in one launch (linscan_grad_short.cu): sequences that leave strips, tiles and slabs in
 * part, of widths that are no multiples of 16. */
static const scan_case shorts[] = {
    {SCALAR, "parallel", NULL, 0, 1, 17, 1, 5, 33, true, false, false, false, false},
    {SCALAR, "parallel", "snake@7x7", 0, 2, 49, 2, 40, 24, true, false, false, false, false},
    {CONSTANT, "parallel", NULL, 0, 1, 197, 2, 64, 64, false, false, false, false, false},
    {CONSTANT, "parallel", NULL, 0, 2, 33, 2, 24, 16, true, false, false, false, true},
    {SCALAR, "parallel", "rows~@14x14", 0, 1, 196, 1, 72, 104, true, false, false, false, false},
    {SCALAR, "parallel", NULL, 0, 1, 90, 1, 16, 20, false, false, false, true, true},
    {SCALAR, "parallel", NULL, 0, 1, 130, 1, 136, 72, true, false, false, false, false},
};
/* With the shared memory of sm_90a: two rounds of tiles, and wide slabs. */
static const scan_case shorts_of_hopper[] = {
    {SCALAR, "parallel", "rows@25x10", 0, 1, 250, 1, 24, 40, true, false, false, false, false},
    {SCALAR, "parallel", NULL, 0, 1, 205, 1, 72, 136, true, false, false, false, true},
};

static vtb_type shape(int rank, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  return vtb_type_make(VTB_F32, rank, (int64_t[]){a, b, c, d, e});
}

static vtb_type decay_type(const scan_case *s) {
  switch (s->decay) {
  case CONSTANT:
    return shape(1, s->h, 0, 0, 0, 0);
  case SCALAR:
    return shape(3, s->B, s->N, s->h, 0, 0);
  case KEY:
    return shape(4, s->B, s->N, s->h, s->K, 0);
  case FULL:
    return shape(5, s->B, s->N, s->h, s->K, s->V);
  default:
    return shape(4, s->B, s->N, s->h, s->V, 0);
  }
}

static int operand_types(const scan_case *s, bool grad, vtb_type *t) {
  int n = 0;
  t[n++] = shape(4, s->B, s->N, s->h, s->K, 0);
  t[n++] = shape(4, s->B, s->N, s->h, s->K, 0);
  t[n++] = shape(4, s->B, s->N, s->h, s->V, 0);
  t[n++] = decay_type(s);
  if (s->decay == RATES) t[n++] = shape(3, s->h, s->K, s->V, 0, 0);
  if (s->init) t[n++] = shape(4, s->B, s->h, s->K, s->V, 0);
  if (s->init && s->normalizer) t[n++] = shape(3, s->B, s->h, s->K, 0, 0);
  if (grad) t[n++] = shape(4, s->B, s->N, s->h, s->V, 0);
  if (grad && s->normalizer) t[n++] = shape(3, s->B, s->N, s->h, 0, 0);
  if (grad && s->dlast) t[n++] = shape(4, s->B, s->h, s->K, s->V, 0);
  if (grad && s->dlast && s->normalizer) t[n++] = shape(3, s->B, s->h, s->K, 0, 0);
  return n;
}

/* Decays from all over [0, 1]: mostly near 1, some exactly 0 or 1, some tiny. Or half of them less
 * than 0, the first 0. */
static void fill_decays(vtb_tensor *t, bool negative, unsigned long long *seed) {
  for (int64_t i = 0; i < vtb_type_count(&t->type); i++) {
    double u = test_random(seed), v = 0.5 + 0.5 * test_random(seed);
    t->data[i] = (float)(u < -0.9   ? 0
                         : u < -0.8 ? 1
                         : u < -0.7 ? 1e-6 * v
                         : u < -0.4 ? v
                                    : 1 - 0.05 * v);
    if (negative) t->data[i] *= i == 0 ? 0 : test_random(seed) < 0 ? -1 : 1;
  }
}

static vtb_value *cast(cuda_cases *c, vtb_value *v, const char *type) {
  return vtb_build(&c->b, VTB_OP_cast, &v, 1, &VTB_A_STR("to", type), 1)->results[0];
}

static vtb_value *operand(cuda_cases *c, const scan_case *s, int i, vtb_type t) {
  bool rates = s->decay == RATES;
  if (s->views && i < 3) { /* [B, N, h, X] read from [B, h, N, X] */
    vtb_dim swap = t.dim[1];
    t.dim[1] = t.dim[2];
    t.dim[2] = swap;
    return vtb_b_transpose(&c->b, cuda_arg(c, t, 1, 0), (int64_t[]){0, 2, 1, 3});
  }
  if (rates && i == 3) return cuda_arg(c, t, 0.15, 0.15);
  if (rates && i == 4) return cuda_arg(c, t, 2, -2);
  vtb_value *v = cuda_arg(c, t, 1, 0);
  if (i == 3) fill_decays(&c->args[c->f->n_args - 1], s->negative, &c->seed);
  if (narrow && (i < 3 || (t.rank == 4 && t.dim[1].size == s->N && s->N != s->h)))
    return cast(c, v, "bf16");
  return v;
}

static void build_scan(cuda_cases *c, const scan_case *s, bool grad, vtb_value *const *operands,
                       const char *path) {
  vtb_type types[12];
  vtb_attr attrs[8];
  int n = operand_types(s, grad, types), n_attrs = 0;
  attrs[n_attrs++] = VTB_A_STR("class", vtb_decay_class_name(s->decay));
  attrs[n_attrs++] = VTB_A_STR("mode", s->mode);
  if (vtb_streq(s->mode, "chunkwise")) attrs[n_attrs++] = VTB_A_INT("chunk", s->chunk);
  if (path) attrs[n_attrs++] = VTB_A_STR("path", path);
  if (factors) attrs[n_attrs++] = VTB_A_STR("precision", factors);
  if (s->normalizer) attrs[n_attrs++] = VTB_A_INT("normalizer", 1);
  if (s->init) attrs[n_attrs++] = VTB_A_INT("init", 1);
  if (grad && s->dlast) attrs[n_attrs++] = VTB_A_INT("dlast", 1);
  if (!grad && !s->dlast) attrs[n_attrs++] = VTB_A_INT("last", 0);
  vtb_inst *inst =
      vtb_build(&c->b, grad ? VTB_OP_linscan_grad : VTB_OP_linscan, operands, n, attrs, n_attrs);
  for (int r = 0; narrow && r < (grad ? 3 : 1); r++) {
    inst->results[r]->type.dtype = VTB_BF16;
    vtb_value *wide = cast(c, inst->results[r], "f32");
    cuda_return(c, wide->def);
  }
  if (narrow) return;
  cuda_return(c, inst);
  if (grad || s->dlast) return;
  if (s->normalizer)
    c->returns[c->n_returns - 3] = c->returns[c->n_returns - 2]; /* nobody asks for final states */
  c->n_returns -= s->normalizer ? 2 : 1;
}

static int add(cuda_cases *c, const scan_case *s, bool grad, vtb_value **operands) {
  vtb_type types[12];
  int n = operand_types(s, grad, types);
  for (int i = 0; i < n; i++) operands[i] = operand(c, s, i, types[i]);
  build_scan(c, s, grad, operands, s->path);
  return n;
}

/* Adjoints, which take five times as long to compile: two of three, or among the slow tests all. */
static void check(const scan_case *cases, int n, bool grad, double tol, const char *what) {
  cuda_cases c;
  vtb_value *operands[12];
  cuda_begin(&c);
  c.n_cases = 0;
  for (int i = 0; i < n; i++) {
    if (grad && i % 3 == 2 && n > 4 && !vtb_streq(getenv("VTB_GOLDEN_MODES"), "all")) continue;
    add(&c, &cases[i], grad, operands);
    c.n_cases++;
  }
  cuda_end(&c, tol, what);
}

/* ---- several directions of one cell ---------------------------------------------------------- */

static const struct {
  scan_case scan;
  const char *paths[4];
} directions[] = {
    {{SCALAR, "chunkwise", "rows@10x15", 70, 1, 150, 2, 8, 12, true, true, true, false, false},
     {"rows~@10x15", "cols@10x15", "cols~@10x15"}},
    {{SCALAR, "chunkwise", "cols@3x11", 8, 1, 33, 1, 12, 10, false, false, true, false, false},
     {"cols~@3x11"}},
    {{SCALAR, "parallel", NULL, 0, 1, 67, 2, 6, 5, false, false, false, true, false},
     {"rows~@1x67"}},
    {{CONSTANT, "chunkwise", "snake@3x7", 8, 2, 21, 3, 8, 4, false, false, false, false, false},
     {"hilbert@3x7", NULL}},
    {{RATES, "recurrent", "rows@3x5", 0, 2, 15, 1, 16, 136, false, true, false, false, false},
     {"cols~@3x5"}},
    {{KEY, "recurrent", NULL, 0, 1, 9, 2, 140, 3, true, false, true, false, false}, {"rows~@1x9"}},
};

/* Directions have a decay or values of their own, or nothing; some are pairs there and back. */
static void check_directions(bool grad, double tol, const char *what) {
  cuda_cases c;
  cuda_begin(&c);
  c.pipeline = "grow{directions}";
  for (c.n_cases = 0; c.n_cases < (int)(sizeof directions / sizeof *directions); c.n_cases++) {
    const scan_case *s = &directions[c.n_cases].scan;
    vtb_value *operands[12];
    add(&c, s, grad, operands);
    for (int d = 0; directions[c.n_cases].paths[d]; d++) {
      int own = d == 0 ? 3 : 2;
      if (d < 2) operands[own] = operand(&c, s, own, operands[own]->type);
      build_scan(&c, s, grad, operands, directions[c.n_cases].paths[d]);
    }
  }
  cuda_end(&c, tol, what);
}

/* One launch of each kernel, whatever number of directions; two where their tensors are not laid
 * out alike. */
static int launches(bool second, bool transposed) {
  cuda_cases c;
  vtb_launch_plan *plan = NULL;
  vtb_error err = {0};
  vtb_value *operands[12];
  const scan_case s = {SCALAR, "chunkwise", "rows@2x6", 4,     1,     12,    2,
                       4,      4,           true,       false, false, false, false};
  cuda_begin(&c);
  add(&c, &s, false, operands);
  if (transposed)
    operands[2] = vtb_b_transpose(&c.b, cuda_arg(&c, shape(4, 1, 2, 12, 4, 0), 1, 0),
                                  (int64_t[]){0, 2, 1, 3});
  if (second) build_scan(&c, &s, false, operands, "cols~@2x6");
  vtb_func_set_returns(c.f, c.returns, NULL, c.n_returns);
  c.m->entry = c.f;
  cuda_passes(c.m, "grow{directions}");
  CHECK_MSG(cuda_plan(c.m, c.f, &(vtb_codegen_options){0}, &plan, &err) == VTB_OK, "%s", err.text);
  int n = plan ? plan->n_steps : 0;
  vtb_launch_plan_free(plan);
  for (int i = 0; i < c.f->n_args; i++) vtb_tensor_free(&c.args[i]);
  vtb_module_free(c.m);
  return n;
}

TEST(directions_share_launches) {
  CHECK(launches(false, false) == 2); /* states, products */
  CHECK(launches(true, false) == 2);
  CHECK(launches(true, true) == 4);
}

TEST(directions_forward) { check_directions(false, 2e-5, "directions"); }
TEST(directions_adjoint) { check_directions(true, 5e-5, "adjoints of directions"); }

#define COUNT(cases) ((int)(sizeof cases / sizeof *cases))
TEST(products_forward) { check(products, COUNT(products), false, 2e-5, "products"); }
TEST(products_adjoint) { check(products, COUNT(products), true, 5e-5, "adjoints of products"); }
static void check_halves(const char *of, const scan_case *cases, int n, bool grad, double tol) {
  factors = of;
  check(cases, n, grad, tol, of);
  factors = NULL;
}
TEST(halves_forward) { check_halves("bf16", halves, COUNT(halves), false, 1e-2); }
TEST(halves_adjoint) { check_halves("bf16", halves, COUNT(halves), true, 4e-2); }
TEST(short_adjoint) { check_halves("bf16", shorts, COUNT(shorts), true, 4e-2); }
TEST(short_adjoint_on_hopper) {
  cuda_check_arch = "sm_90a";
  check_halves("bf16", shorts_of_hopper, COUNT(shorts_of_hopper), true, 4e-2);
  cuda_check_arch = NULL;
}
static void check_stored(bool grad, double tol) {
  factors = "bf16";
  narrow = true;
  check(stored, COUNT(stored), grad, tol, "rows of 16 bits");
  factors = NULL;
  narrow = false;
}
/* By groups of four warps, as far as they take it. */
TEST(halves_on_hopper) {
  cuda_check_arch = "sm_90a";
  check_halves("bf16", grouped, COUNT(grouped), true, 4e-2);
  cuda_check_arch = NULL;
}
TEST(fp16_forward) { check_halves("fp16", stored, COUNT(stored), false, 1e-3); }
TEST(stored_forward) { check_stored(false, 1e-2); }
TEST(stored_adjoint) { check_stored(true, 2e-2); }
TEST(half_directions) {
  factors = "bf16";
  check_directions(false, 1e-2, "directions in 16 bits");
  factors = NULL;
}
TEST(steps_forward) { check(steps, COUNT(steps), false, 2e-5, "steps"); }
TEST(steps_adjoint) { check(steps, COUNT(steps), true, 5e-5, "adjoints of steps"); }

int main(int argc, char **argv) {
  emulate_or_skip();
  const char *only =
      argc > 1 ? argv[1] : NULL; /* one test by its letter: f, a, h to o, s, t, d, e */
  if (!only || *only == 'f') RUN(products_forward);
  if (!only || *only == 'a') RUN(products_adjoint);
  if (!only || *only == 'h') RUN(halves_forward);
  if (!only || *only == 'i') RUN(halves_adjoint);
  if (!only || *only == 'b') RUN(short_adjoint);
  if (!only || *only == 'b') RUN(short_adjoint_on_hopper);
  if (!only || *only == 'k') RUN(halves_on_hopper);
  if (!only || *only == 'j') RUN(fp16_forward);
  if (!only || *only == 'l') RUN(half_directions);
  if (!only || *only == 'n') RUN(stored_forward);
  if (!only || *only == 'o') RUN(stored_adjoint);
  if (!only || *only == 's') RUN(steps_forward);
  if (!only || *only == 't') RUN(steps_adjoint);
  if (!only || *only == 'd') RUN(directions_forward);
  if (!only || *only == 'e') RUN(directions_adjoint);
  RUN(directions_share_launches);
  return test_done();
}
