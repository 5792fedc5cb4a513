/* Linear recurrences by products with what is computed of their rows as one kernel
 * (passes/fuse/words_mixer.c): emulated CUDA against the interpreter, at ragged shapes, along
 * paths, with and without normalizer and norms, all that a body may store. */
#include "tests/codegen/cuda_check.h"
#include "ir/ops.h"

#include "ir/kernels.h"
#include "ir/recurrence.h"

#include <math.h>

typedef struct mixer_case {
  vtb_decay_class decay;
  const char *mode, *path;
  int64_t chunk, B, N, h, K, V;
  bool normalizer, norm, narrow, also; /* narrow: rows of 16 bits; also: others are wanted, too */
  bool gain;                           /* keys are multiplied by one a token */
  int64_t maps; /* rows are made by matrices of so many columns; 0: as they are */
  bool same;    /* queries and keys are made of the same rows */
  bool gates;   /* decays and gains are made of gates, by their running maximum */
} mixer_case;

#define CONSTANT VTB_DECAY_CONSTANT
#define SCALAR VTB_DECAY_SCALAR

static const mixer_case cases[] = {
    {SCALAR, "parallel", NULL, 0, 2, 70, 2, 24, 40, true, true, true, false, true, 4, false, false},
    {SCALAR, "parallel", "cols~@11x9", 0, 1, 99, 2, 48, 24, true, true, false, false, true, 4, true,
     false},
    {SCALAR, "parallel", "rows~@10x17", 0, 1, 170, 2, 20, 28, true, true, false, false, true, 4,
     false, true},
    {SCALAR, "parallel", NULL, 0, 1, 33, 2, 8, 12, true, false, false, false, false, 4, false,
     true},
    {SCALAR, "parallel", "rows~@10x15", 0, 1, 150, 2, 40, 136, true, true, true, true, true, 4,
     false, false},
    {SCALAR, "chunkwise", "cols@5x15", 16, 1, 75, 2, 8, 12, true, true, false, true, false, 0,
     false, false},
    {CONSTANT, "parallel", NULL, 0, 2, 67, 3, 16, 8, false, true, true, false, false, 4, false,
     false},
    {CONSTANT, "parallel", "cols~@3x7", 0, 1, 21, 1, 5, 7, false, false, false, true, true, 0,
     false, false},
    {SCALAR, "chunkwise", "snake@6x11", 64, 1, 66, 1, 136, 260, true, false, true, false, false, 0,
     false, false},
    {SCALAR, "parallel", NULL, 0, 1, 1, 1, 1, 2, true, true, false, false, false, 0, false, false},
    {SCALAR, "parallel", "rows~@10x7", 0, 1, 70, 1, 576, 576, true, true, true, false, true, 4,
     true, false},
    {SCALAR, "parallel", NULL, 0, 1, 66, 1, 40, 520, true, false, false, true, true, 8, false,
     false},
    {SCALAR, "parallel", NULL, 0, 1, 40, 2, 176, 144, true, true, true, false, true, 16, false,
     true},
    {SCALAR, "parallel", "rows~@10x17", 0, 1, 170, 2, 20, 28, true, true, false, false, true, 2,
     false, true},
    {SCALAR, "parallel", NULL, 0, 2, 70, 2, 24, 40, true, true, true, false, true, 8, false, true},
    {SCALAR, "parallel", "cols~@11x9", 0, 1, 99, 2, 48, 32, true, true, false, false, true, 16,
     true, false},
    {SCALAR, "parallel", NULL, 0, 1, 50, 2, 64, 96, true, true, true, false, true, 32, true, true},
    {CONSTANT, "parallel", NULL, 0, 1, 40, 2, 32, 64, false, true, false, false, false, 32, false,
     false},
    {SCALAR, "parallel", "rows~@10x15", 0, 1, 150, 2, 40, 136, true, true, true, true, true, 8,
     false, false},
    {SCALAR, "parallel", NULL, 0, 1, 81, 1, 48, 208, true, true, true, false, true, 16, false,
     false},
    {SCALAR, "parallel", NULL, 0, 1, 70, 2, 320, 160, true, true, false, false, true, 32, true,
     false},
    {SCALAR, "parallel", NULL, 0, 1, 70, 1, 140, 132, true, true, false, false, true, 2, true,
     false},
    {SCALAR, "parallel", "rows~@5x7", 0, 1, 35, 2, 20, 28, true, true, false, false, true, 1, false,
     true},
    {SCALAR, "parallel", NULL, 0, 1, 20, 1, 140, 132, true, true, false, false, true, 1, true,
     false},
    {SCALAR, "parallel", NULL, 0, 1, 50, 2, 96, 48, true, true, true, false, true, 3, false, true},
    {SCALAR, "parallel", "cols~@11x9", 0, 1, 99, 2, 24, 60, true, true, false, false, true, 12,
     true, false},
    {SCALAR, "parallel", "rows~@5x7", 0, 1, 35, 2, 66, 30, true, true, false, false, true, 6, true,
     true},
    {SCALAR, "parallel", NULL, 0, 1, 70, 1, 144, 240, true, true, false, false, true, 24, true,
     false},
};

/* By groups of four warps, on sm_90a. */
static const mixer_case grouped[] = {
    {SCALAR, "parallel", "rows~@13x20", 0, 1, 260, 1, 24, 40, true, true, true, false, true, 4,
     false, false},
    {SCALAR, "parallel", NULL, 0, 1, 66, 1, 32, 208, true, true, false, true, true, 8, true, false},
};

/* Nothing is computed of the rows. */
static const mixer_case alone[] = {
    {CONSTANT, "parallel", "cols~@5x15", 0, 1, 75, 3, 16, 24, false, false, true, false, false, 0,
     false, false},
    {SCALAR, "parallel", NULL, 0, 2, 37, 2, 8, 12, true, false, false, false, false, 0, false,
     false},
};

static vtb_type shape(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  return vtb_type_make(VTB_F32, rank, (int64_t[]){a, b, c, d});
}

static vtb_value *unary(cuda_cases *c, vtb_op op, vtb_value *x) {
  return vtb_b_unary(&c->b, op, x);
}
static vtb_value *binary(cuda_cases *c, vtb_op op, vtb_value *x, vtb_value *y) {
  return vtb_b_binary(&c->b, op, x, y);
}
static vtb_value *number(cuda_cases *c, double x) { return vtb_b_constant(&c->b, x); }

static void wanted(cuda_cases *c, vtb_value *v) {
  char name[40];
  snprintf(name, sizeof name, "case%d_%d", c->n_cases, c->n_returns);
  v->name = vtb_intern(c->m, name);
  c->returns[c->n_returns++] = v;
}

static vtb_value *row_sum(cuda_cases *c, vtb_value *x) {
  vtb_attr attrs[] = {VTB_A_INTS("axes", ((int64_t[]){3}), 1), VTB_A_INT("keep", 1)};
  return vtb_build(&c->b, VTB_OP_reduce_sum, &x, 1, attrs, 2)->results[0];
}

/* Groups of columns of x times a matrix each, turned round or not, and a bias. */
static vtb_value *map(cuda_cases *c, const mixer_case *s, vtb_value *x, int o) {
  vtb_type type = x->type, groups = x->type;
  int64_t n = s->h * type.dim[3].size / s->maps;
  groups.dim[2].size = n, groups.dim[3].size = s->maps;
  vtb_value *operands[] = {
      vtb_b_reshape(&c->b, x, &groups),
      cuda_arg(c, shape(3, n, s->maps, s->maps, 0), 1 / sqrt((double)s->maps), 0),
      cuda_arg(c, shape(2, n, s->maps, 0, 0), 0.3, 0)};
  vtb_attr spec = VTB_A_STR("spec", o == 1 ? "bngi,gio->bngo" : "bngi,goi->bngo");
  int with_bias = o < 2 || s->normalizer ? 3 : 2;
  x = vtb_build(&c->b, VTB_OP_einsum, operands, with_bias, &spec, 1)->results[0];
  return vtb_b_reshape(&c->b, x, &type);
}

/* The running maximum of gates; decays and gains beside it. */
static vtb_value *gates(cuda_cases *c, const mixer_case *s, vtb_value **decay, vtb_value **gain) {
  vtb_type by_token = shape(3, s->B, s->N, s->h, 0);
  vtb_value *operands[] = {unary(c, VTB_OP_log_sigmoid, cuda_arg(c, by_token, 4, 1)),
                           cuda_arg(c, by_token, 4, 0)};
  vtb_attr path = VTB_A_STR("path", s->path);
  vtb_value *m = vtb_build(&c->b, VTB_OP_maxplus, operands, 2, &path, s->path ? 1 : 0)->results[0];
  vtb_attr attrs[] = {VTB_A_INT("axis", 1), VTB_A_INT("by", 1), VTB_A_FLOAT("fill", -1e30), path};
  vtb_value *before = vtb_build(&c->b, VTB_OP_shift, &m, 1, attrs, s->path ? 4 : 3)->results[0];
  vtb_value *step = binary(c, VTB_OP_sub, binary(c, VTB_OP_add, operands[0], before), m);
  *decay = unary(c, VTB_OP_exp, step);
  *gain = unary(c, VTB_OP_exp, binary(c, VTB_OP_sub, operands[1], m));
  return m;
}

static vtb_inst *scan(cuda_cases *c, const mixer_case *s, vtb_value **maximum) {
  vtb_type keys = shape(4, s->B, s->N, s->h, s->K), values = shape(4, s->B, s->N, s->h, s->V);
  vtb_type by_token = shape(3, s->B, s->N, s->h, 0), by_head = shape(1, s->h, 0, 0, 0);
  vtb_value *operands[] = {cuda_arg(c, keys, 1, 0.2), cuda_arg(c, keys, 1, 0.2),
                           cuda_arg(c, values, 1, 0),
                           cuda_arg(c, s->decay == SCALAR ? by_token : by_head, 0.2, 0.8)};
  vtb_type one = shape(4, s->B, s->N, s->h, 1);
  if (s->same) operands[1] = operands[0];
  for (int o = 0; s->maps && o < 3; o++) operands[o] = map(c, s, operands[o], o);
  vtb_value *gain = NULL;
  *maximum = s->gates ? gates(c, s, &operands[3], &gain) : NULL;
  if (s->gain) gain = s->gates ? vtb_b_reshape(&c->b, gain, &one) : cuda_arg(c, one, 0.5, 0.6);
  if (s->gain) operands[1] = binary(c, VTB_OP_mul, gain, operands[1]);
  vtb_attr attrs[8] = {VTB_A_STR("class", vtb_decay_class_name(s->decay)),
                       VTB_A_STR("mode", s->mode), VTB_A_INT("last", 0),
                       VTB_A_INT("normalizer", s->normalizer), VTB_A_STR("precision", "bf16")};
  int n = 5;
  if (s->chunk) attrs[n++] = VTB_A_INT("chunk", s->chunk);
  if (s->path) attrs[n++] = VTB_A_STR("path", s->path);
  return vtb_build(&c->b, VTB_OP_linscan, operands, 4, attrs, n);
}

/* y / max(|z|, 1), its head's norm, a skip and a gate. */
static void add(cuda_cases *c, const mixer_case *s) {
  vtb_type values = shape(4, s->B, s->N, s->h, s->V), one = shape(4, s->B, s->N, s->h, 1);
  vtb_type columns = shape(2, s->h, s->V, 0, 0);
  vtb_value *maximum;
  vtb_inst *of = scan(c, s, &maximum);
  vtb_value *x = of->results[0], *z = s->normalizer ? of->results[2] : NULL;
  vtb_value *skipped = s->maps ? cuda_arg(c, values, 1, 0) : of->operands[2];
  if (s->also) wanted(c, x);
  if (z) {
    vtb_value *bound = binary(c, VTB_OP_max, unary(c, VTB_OP_abs, z), number(c, 1));
    if (maximum)
      bound = binary(c, VTB_OP_max, bound, unary(c, VTB_OP_exp, unary(c, VTB_OP_neg, maximum)));
    if (s->also) wanted(c, z);
    x = binary(c, VTB_OP_div, x, vtb_b_reshape(&c->b, bound, &one));
  }
  if (s->norm) {
    vtb_value *part = number(c, 1.0 / (double)s->V);
    vtb_value *centred = binary(c, VTB_OP_sub, x, binary(c, VTB_OP_mul, row_sum(c, x), part));
    vtb_value *square = row_sum(c, unary(c, VTB_OP_square, centred));
    vtb_value *variance = binary(c, VTB_OP_mul, square, part);
    vtb_value *scale = unary(c, VTB_OP_rsqrt, binary(c, VTB_OP_add, variance, number(c, 0.1)));
    if (s->also) wanted(c, scale);
    x = binary(c, VTB_OP_mul, centred, scale);
  }
  x = binary(c, VTB_OP_mul, x, cuda_arg(c, columns, 1, 0));
  x = binary(c, VTB_OP_add, x, binary(c, VTB_OP_mul, skipped, cuda_arg(c, columns, 1, 0)));
  wanted(c, binary(c, VTB_OP_mul, x, unary(c, VTB_OP_silu, cuda_arg(c, values, 1, 0))));
}

/* What `storage` does: the scan's rows are of 16 bits. */
static void store_narrow(cuda_cases *c, vtb_inst *mixer) {
  const vtb_value *gain;
  const vtb_inst *map;
  int rows[3];
  for (int o = 0; o < 3; o++)
    rows[o] = vtb_mixer_rows(vtb_mixer_scan(mixer), o, &gain, &map)->index;
  vtb_attr to = VTB_A_STR("to", "bf16");
  c->b.before = mixer;
  for (int o = 0; o < 3; o++) {
    vtb_value *cast =
        vtb_build(&c->b, VTB_OP_cast, &mixer->operands[rows[o]], 1, &to, 1)->results[0];
    vtb_inst_set_operand(mixer, rows[o], cast);
  }
}

static void add_alone(cuda_cases *c, const mixer_case *s) {
  vtb_value *maximum;
  vtb_inst *of = scan(c, s, &maximum);
  wanted(c, of->results[0]);
  if (s->normalizer) wanted(c, of->results[2]);
}

static void check_mixers(const mixer_case *all, int n,
                         void (*adds)(cuda_cases *, const mixer_case *)) {
  cuda_cases c;
  cuda_begin(&c);
  for (c.n_cases = 0; c.n_cases < n; c.n_cases++) adds(&c, &all[c.n_cases]);
  vtb_func_set_returns(c.f, c.returns, NULL, c.n_returns);
  c.m->entry = c.f;
  cuda_passes(c.m, "fuse,copy_for_scans,grow{scans+scan_adjoints+maxima+mixers},dce");
  int kernels = 0, others = 0;
  for (vtb_inst *i = c.f->first; i; i = i->next) {
    bool mixer = vtb_kernel_kind_of(i) == VTB_KERNEL_MIXER;
    if (mixer && all[kernels].narrow) store_narrow(&c, i);
    kernels += mixer;
    others += vtb_kernel_kind_of(i) == VTB_KERNEL_ROW || vtb_kernel_kind_of(i) == VTB_KERNEL_LOOP ||
              i->op == VTB_OP_linscan || i->op == VTB_OP_einsum ||
              vtb_kernel_kind_of(i) == VTB_KERNEL_SCAN;
  }
  CHECK_MSG(kernels == n && others == 0, "%d mixers, %d others", kernels, others);
  /* factors of 8 bits, which interpreter and kernel round at places of their own */
  cuda_check(c.m, c.f, c.args, 1.5e-2, "mixers");
  for (int i = 0; i < c.f->n_args; i++) vtb_tensor_free(&c.args[i]);
  vtb_module_free(c.m);
}

TEST(rows_are_computed_where_they_are) { check_mixers(cases, sizeof cases / sizeof *cases, add); }
TEST(rows_of_which_nothing_is_computed) {
  check_mixers(alone, sizeof alone / sizeof *alone, add_alone);
}
TEST(rows_are_computed_by_groups_of_warps) {
  cuda_check_arch = "sm_90a";
  check_mixers(grouped, sizeof grouped / sizeof *grouped, add);
  cuda_check_arch = NULL;
}

int main(void) {
  emulate_or_skip();
  RUN(rows_are_computed_where_they_are);
  RUN(rows_of_which_nothing_is_computed);
  RUN(rows_are_computed_by_groups_of_warps);
  return test_done();
}
