/* Adjoints of a recurrence by products whose keys have a number a token, as one kernel (row
 * "mixer_adjoints" of ir/kernels.def), and of rows that small matrices make, through these and to
 * the sums for them (passes/fuse/words_mixer_back.c): emulated CUDA against the interpreter, at
 * ragged shapes, along paths, with gains that hide tokens and decays of 0 and 1.
 */
#include "tests/codegen/cuda_check.h"
#include "ir/ops.h"

#include "ir/kernels.h"
#include "ir/recurrence.h"

#include <math.h>

typedef struct grad_case {
  vtb_decay_class decay;
  const char *path;
  int64_t B, N, h, K, V;
  bool normalizer, extreme;
  int maps;                           /* rows that matrices make: bits of q, k, v */
  int backs;                          /* whose adjoints go through them */
  enum { APART, SHARED, BEGUN } rows; /* of q and k; the sum of their adjoints begins with one */
  int64_t size;                       /* columns of a matrix */
} grad_case;

#define CONSTANT VTB_DECAY_CONSTANT
#define SCALAR VTB_DECAY_SCALAR

static const grad_case cases[] = {
    {SCALAR, NULL, 1, 17, 1, 5, 33, true, false, 0, 0, APART, 4},
    {SCALAR, "snake@7x7", 2, 49, 2, 40, 24, true, true, 7, 7, SHARED, 4},
    {SCALAR, "rows~@14x14", 1, 196, 1, 48, 72, true, true, 2, 2, APART, 4},
    {CONSTANT, NULL, 2, 33, 2, 24, 16, false, false, 5, 5, APART, 4},
    {SCALAR, NULL, 1, 100, 2, 16, 8, false, true, 0, 0, APART, 4},
    {SCALAR, "cols~@5x7", 2, 35, 3, 100, 76, true, false, 7, 7, BEGUN, 4},
    {SCALAR, NULL, 4, 21, 1, 12, 20, true, false, 3, 3, BEGUN, 4},
    {SCALAR, NULL, 3, 50, 1, 20, 52, true, false, 7, 6, APART, 4},
    {CONSTANT, NULL, 4, 16, 2, 4, 4, false, true, 7, 7, SHARED, 4},
    {SCALAR, NULL, 2, 65, 1, 64, 12, true, false, 7, 0, SHARED, 4},
    {SCALAR, "snake@7x7", 2, 49, 2, 40, 24, true, true, 7, 7, SHARED, 2},
    {SCALAR, "cols~@5x7", 2, 35, 3, 104, 72, true, false, 7, 7, BEGUN, 8},
    {SCALAR, NULL, 1, 100, 1, 48, 80, true, false, 7, 7, SHARED, 16},
    {SCALAR, NULL, 2, 50, 1, 48, 32, true, false, 7, 6, APART, 16},
    {SCALAR, NULL, 2, 65, 2, 64, 32, true, false, 7, 7, BEGUN, 32},
    {SCALAR, NULL, 2, 33, 1, 96, 64, false, false, 5, 5, APART, 32},
    {SCALAR, "cols~@5x7", 2, 35, 2, 24, 40, true, false, 7, 7, BEGUN, 1},
    {SCALAR, NULL, 2, 33, 1, 24, 16, true, false, 7, 6, APART, 1},
    /* a slab of 48, and of 32 of which 24 are used */
    {SCALAR, "cols~@5x7", 2, 35, 2, 60, 96, true, false, 7, 7, BEGUN, 3},
    {SCALAR, NULL, 1, 196, 1, 72, 48, true, false, 7, 7, SHARED, 6},
    {SCALAR, NULL, 2, 50, 1, 36, 84, true, true, 7, 6, APART, 12},
    /* one triangle, in one pass and in two */
    {SCALAR, "rows~@211", 1, 211, 1, 40, 24, true, true, 7, 7, BEGUN, 4},
    {CONSTANT, NULL, 1, 225, 1, 24, 16, false, true, 5, 4, APART, 2},
    /* by tiles */
    {SCALAR, "rows~@2x131", 1, 262, 1, 32, 20, true, true, 0, 0, APART, 4},
    {SCALAR, NULL, 1, 259, 1, 136, 24, true, false, 0, 0, APART, 4},
    /* with VTB_GOLDEN_MODES=all: one triangle of shared rows */
    {SCALAR, NULL, 1, 249, 1, 16, 40, true, false, 7, 7, SHARED, 8},
};
enum { N_CASES = sizeof cases / sizeof *cases, N_ON_DEMAND = 1 };

static int n_cases(void) {
  return vtb_streq(getenv("VTB_GOLDEN_MODES"), "all") ? N_CASES : N_CASES - N_ON_DEMAND;
}

static vtb_type shape(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  return vtb_type_make(VTB_F32, rank, (int64_t[]){a, b, c, d});
}

/* Numbers of size at most 1, those of extreme cases with some 0, some 1, some tiny. */
static vtb_value *fractions(cuda_cases *c, vtb_type t, bool extreme) {
  vtb_value *v = cuda_arg(c, t, 0.2, 0.8);
  vtb_tensor *at = &c->args[c->f->n_args - 1];
  for (int64_t i = 0; extreme && i < vtb_type_count(&t); i++) {
    double u = test_random(&c->seed);
    if (u < -0.4) at->data[i] = u < -0.8 ? 0 : u < -0.6 ? 1 : (float)exp(-30 * (u + 1));
  }
  return v;
}

static void wanted(cuda_cases *c, vtb_value *v) {
  char name[40];
  snprintf(name, sizeof name, "case%d_%d", c->n_cases, c->n_returns);
  v->name = vtb_intern(c->m, name);
  c->returns[c->n_returns++] = v;
}

/* Groups of columns of x times a matrix each, turned round or not, and a bias. */
static vtb_value *map(cuda_cases *c, int64_t size, vtb_value *x, bool turned, vtb_value **matrix) {
  vtb_type type = x->type, groups = x->type;
  int64_t n = type.dim[2].size * type.dim[3].size / size;
  groups.dim[2].size = n, groups.dim[3].size = size;
  *matrix = cuda_arg(c, shape(3, n, size, size, 0), 1 / sqrt((double)size), 0);
  vtb_value *operands[] = {vtb_b_reshape(&c->b, x, &groups), *matrix,
                           cuda_arg(c, shape(2, n, size, 0, 0), 0.3, 0)};
  vtb_attr spec = VTB_A_STR("spec", turned ? "bngi,gio->bngo" : "bngi,goi->bngo");
  x = vtb_build(&c->b, VTB_OP_einsum, operands, turned ? 2 : 3, &spec, 1)->results[0];
  return vtb_b_reshape(&c->b, x, &type);
}

/* d, of what such a matrix made, on to what it made it of, and the matrix's and bias's gradients;
 * the sum begins with `start`, if there is one. */
static vtb_value *back(cuda_cases *c, vtb_value *d, vtb_value *x, vtb_value *matrix, bool turned,
                       bool bias, vtb_value *start) {
  vtb_type groups = d->type;
  groups.dim[2].size = matrix->type.dim[0].size, groups.dim[3].size = matrix->type.dim[1].size;
  vtb_value *fours = vtb_b_reshape(&c->b, d, &groups);
  if (start && !vtb_type_equal(&start->type, &groups)) start = vtb_b_reshape(&c->b, start, &groups);
  vtb_value *operands[] = {fours, matrix, start};
  vtb_attr spec = VTB_A_STR("spec", turned ? "bngo,gio->bngi" : "bngo,goi->bngi");
  vtb_value *dx = vtb_build(&c->b, VTB_OP_einsum, operands, start ? 3 : 2, &spec, 1)->results[0];
  wanted(c, vtb_b_einsum(&c->b, "bngo,bngi->goi", fours, vtb_b_reshape(&c->b, x, &groups)));
  if (bias)
    wanted(c, vtb_b_reduce(&c->b, VTB_OP_reduce_sum, fours, (const int64_t[]){0, 1}, 2, false));
  return dx;
}

/* Rows made of the adjoint of the decays: of what the kernel makes. */
static vtb_value *thin_of(cuda_cases *c, const vtb_inst *grad, const vtb_type *type) {
  int64_t n = type->dim[2].size * type->dim[3].size;
  return vtb_b_einsum(&c->b, "bne,ed->bnd", grad->results[3],
                      cuda_arg(c, shape(2, type->dim[2].size, n, 0, 0), 1, 0));
}

static void add(cuda_cases *c, const grad_case *s) {
  vtb_type keys = shape(4, s->B, s->N, s->h, s->K), values = shape(4, s->B, s->N, s->h, s->V);
  vtb_type by_token = shape(3, s->B, s->N, s->h, 0), by_head = shape(1, s->h, 0, 0, 0);
  bool turned[3] = {false, s->V > s->K && !(s->backs & 2), s->normalizer && !(s->backs & 4)};
  vtb_value *gain = fractions(c, shape(4, s->B, s->N, s->h, 1), s->extreme);
  vtb_value *x[3] = {cuda_arg(c, keys, 1, 0), cuda_arg(c, keys, 1, 0), cuda_arg(c, values, 1, 0)};
  if (s->rows != APART) x[1] = x[0];
  vtb_value *start = s->rows == BEGUN ? cuda_arg(c, keys, 1, 0) : NULL;
  vtb_value *dy = cuda_arg(c, values, 1, 0), *of[3], *matrix[3];
  vtb_value *d = fractions(c, s->decay == SCALAR ? by_token : by_head, s->extreme);
  for (int o = 0; o < 3; o++)
    of[o] = s->maps >> o & 1 ? map(c, s->size, x[o], turned[o], &matrix[o]) : x[o];
  vtb_value *kg = vtb_b_binary(&c->b, VTB_OP_mul, of[1], gain);
  vtb_value *operands[] = {of[0], kg, of[2],
                           d,     dy, s->normalizer ? cuda_arg(c, by_token, 1, 0) : NULL};
  vtb_attr attrs[5] = {VTB_A_STR("class", vtb_decay_class_name(s->decay)),
                       VTB_A_STR("mode", "parallel"), VTB_A_STR("precision", "bf16"),
                       VTB_A_INT("normalizer", s->normalizer)};
  if (s->path) attrs[4] = VTB_A_STR("path", s->path);
  vtb_inst *grad =
      vtb_build(&c->b, VTB_OP_linscan_grad, operands, 5 + s->normalizer, attrs, s->path ? 5 : 4);
  vtb_value *dk = grad->results[1], *each = vtb_b_binary(&c->b, VTB_OP_mul, dk, of[1]);
  vtb_attr sum[] = {VTB_A_INTS("axes", ((int64_t[]){3}), 1), VTB_A_INT("keep", 1)};
  vtb_value *back_of[3] = {grad->results[0], vtb_b_binary(&c->b, VTB_OP_mul, dk, gain),
                           grad->results[2]};
  wanted(c, grad->results[3]);
  wanted(c, vtb_build(&c->b, VTB_OP_reduce_sum, &each, 1, sum, 2)->results[0]);
  vtb_value *dx = NULL;
  for (int o = 0; o < 3; o++) {
    if (!(s->backs >> o & 1)) {
      wanted(c, back_of[o]);
      continue;
    }
    bool shared = o < 2 && s->rows != APART && (s->backs & 3) == 3;
    vtb_value *from = shared ? start : o == 2 && start ? thin_of(c, grad, &x[o]->type) : NULL;
    dx = back(c, back_of[o], x[o], matrix[o], turned[o], o != 1, shared && o == 1 ? dx : from);
    if (!shared || o == 1) wanted(c, vtb_b_reshape(&c->b, dx, &x[o]->type));
  }
}

/* Nothing reads the adjoints of rows that a matrix made but the kernel itself. */
TEST(adjoints_are_one_kernel) {
  cuda_cases c;
  cuda_begin(&c);
  for (c.n_cases = 0; c.n_cases < n_cases(); c.n_cases++) add(&c, &cases[c.n_cases]);
  vtb_func_set_returns(c.f, c.returns, NULL, c.n_returns);
  c.m->entry = c.f;
  cuda_passes(c.m, "grow{row_gradients},fuse,grow{mixer_adjoints},dce");
  int kernels = 0, others = 0, begun = 0, thin = 0;
  for (int i = 0; i < n_cases(); i++) thin += cases[i].rows == BEGUN && (cases[i].backs & 4);
  for (vtb_inst *i = c.f->first; i; i = i->next) {
    kernels += vtb_kernel_kind_of(i) == VTB_KERNEL_MIXER_GRAD;
    others += i->op == VTB_OP_linscan_grad || vtb_kernel_kind_of(i) == VTB_KERNEL_SUMS ||
              (i->op == VTB_OP_einsum && i->operands[0]->type.rank == 4);
    begun += i->op == VTB_OP_einsum && i->n_operands == 3;
  }
  CHECK_MSG(kernels == n_cases() && others == 0 && begun == thin,
            "%d kernels of %d, %d products, %d begun", kernels, n_cases(), others, begun);
  cuda_check(c.m, c.f, c.args, 4e-2, "adjoints of gains");
  for (int i = 0; i < c.f->n_args; i++) vtb_tensor_free(&c.args[i]);
  vtb_module_free(c.m);
}

int main(void) {
  emulate_or_skip();
  RUN(adjoints_are_one_kernel);
  return test_done();
}
