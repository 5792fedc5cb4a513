/* linscan and linscan_grad: emulated CUDA kernels against the interpreter, over classes, modes, chunks, paths and
 * ragged shapes. All cases of a test are one function, so that they are compiled together. */
#include "tests/codegen/cuda_check.h"

#include "ir/recurrence.h"

typedef struct scan_case {
  vtb_decay_class decay;
  const char *mode, *path;
  int64_t chunk, B, N, h, K, V;
  bool normalizer, init, dlast, views;
} scan_case;

#define CONSTANT VTB_DECAY_CONSTANT
#define SCALAR VTB_DECAY_SCALAR
#define KEY VTB_DECAY_KEY
#define VALUE VTB_DECAY_VALUE
#define FULL VTB_DECAY_FULL
#define RATES VTB_DECAY_RATES

static const scan_case products[] = {
    {SCALAR, "parallel", NULL, 0, 1, 1, 1, 1, 1, false, false, false, false},
    {SCALAR, "parallel", "rows~@10x15", 0, 1, 150, 2, 24, 20, true, false, false, false},
    {SCALAR, "chunkwise", "cols@5x15", 16, 1, 75, 2, 8, 12, true, true, true, false},
    {SCALAR, "chunkwise", "hilbert@13x11", 70, 1, 143, 1, 70, 130, false, false, false, true},
    {CONSTANT, "chunkwise", "snake@6x7", 7, 2, 42, 3, 5, 6, false, true, false, true},
    {CONSTANT, "parallel", NULL, 0, 2, 67, 2, 16, 9, true, true, true, false},
    {SCALAR, "chunkwise", NULL, 1, 1, 5, 1, 3, 4, false, false, true, false},
    {SCALAR, "recurrent", "rows.hflip@3x7", 0, 2, 21, 2, 12, 40, true, true, true, false},
};

static const scan_case steps[] = {
    {KEY, "recurrent", "cols~@4x5", 0, 1, 20, 2, 3, 40, true, true, true, false},
    {KEY, "chunkwise", NULL, 8, 2, 17, 1, 33, 5, false, false, false, true},
    {VALUE, "parallel", "rows~@3x5", 0, 2, 15, 2, 1, 33, false, true, true, false},
    {VALUE, "recurrent", NULL, 0, 1, 9, 1, 20, 7, false, false, false, false},
    {FULL, "recurrent", "snake@3x5", 0, 1, 15, 1, 16, 140, false, true, true, false},
    {FULL, "parallel", NULL, 0, 2, 7, 2, 5, 3, false, false, false, true},
    {RATES, "recurrent", "rows~@5x5", 0, 2, 25, 1, 16, 150, false, true, true, false},
    {RATES, "chunkwise", NULL, 4, 1, 10, 2, 3, 8, false, false, false, false},
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

/* Decays from all over [0, 1]: mostly near 1, some exactly 0 or 1, some tiny. */
static void fill_decays(vtb_tensor *t, unsigned long long *seed) {
  for (int64_t i = 0; i < vtb_type_count(&t->type); i++) {
    double u = test_random(seed), v = 0.5 + 0.5 * test_random(seed);
    t->data[i] = (float)(u < -0.9 ? 0 : u < -0.8 ? 1 : u < -0.7 ? 1e-6 * v : u < -0.4 ? v : 1 - 0.05 * v);
  }
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
  if (i == 3) fill_decays(&c->args[c->f->n_args - 1], &c->seed);
  return v;
}

static void add(cuda_cases *c, const scan_case *s, bool grad) {
  vtb_type types[12];
  vtb_value *operands[12];
  vtb_attr attrs[8];
  int n = operand_types(s, grad, types), n_attrs = 0;
  for (int i = 0; i < n; i++) operands[i] = operand(c, s, i, types[i]);
  attrs[n_attrs++] = VTB_A_STR("class", vtb_decay_class_name(s->decay));
  attrs[n_attrs++] = VTB_A_STR("mode", s->mode);
  if (vtb_streq(s->mode, "chunkwise")) attrs[n_attrs++] = VTB_A_INT("chunk", s->chunk);
  if (s->path) attrs[n_attrs++] = VTB_A_STR("path", s->path);
  if (s->normalizer) attrs[n_attrs++] = VTB_A_INT("normalizer", 1);
  if (s->init) attrs[n_attrs++] = VTB_A_INT("init", 1);
  if (grad && s->dlast) attrs[n_attrs++] = VTB_A_INT("dlast", 1);
  if (!grad && !s->dlast) attrs[n_attrs++] = VTB_A_INT("last", 0);
  vtb_inst *inst = vtb_build(&c->b, grad ? VTB_OP_linscan_grad : VTB_OP_linscan, operands, n, attrs, n_attrs);
  cuda_return(c, inst);
  if (grad || s->dlast) return;
  if (s->normalizer) c->returns[c->n_returns - 3] = c->returns[c->n_returns - 2]; /* nobody asks for final states */
  c->n_returns -= s->normalizer ? 2 : 1;
}

static void check(const scan_case *cases, int n, bool grad, double tol, const char *what) {
  cuda_cases c;
  cuda_begin(&c);
  for (c.n_cases = 0; c.n_cases < n; c.n_cases++) add(&c, &cases[c.n_cases], grad);
  cuda_end(&c, tol, what);
}

#define COUNT(cases) ((int)(sizeof cases / sizeof *cases))
TEST(products_forward) { check(products, COUNT(products), false, 2e-5, "products"); }
TEST(products_adjoint) { check(products, COUNT(products), true, 5e-5, "adjoints of products"); }
TEST(steps_forward) { check(steps, COUNT(steps), false, 2e-5, "steps"); }
TEST(steps_adjoint) { check(steps, COUNT(steps), true, 5e-5, "adjoints of steps"); }

int main(int argc, char **argv) {
  emulate_or_skip();
  const char *only = argc > 1 ? argv[1] : NULL; /* one test by its letter: f, a, s, t */
  if (!only || *only == 'f') RUN(products_forward);
  if (!only || *only == 'a') RUN(products_adjoint);
  if (!only || *only == 's') RUN(steps_forward);
  if (!only || *only == 't') RUN(steps_adjoint);
  return test_done();
}
