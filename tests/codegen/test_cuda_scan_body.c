/* Recurrences with elementwise ops before and behind them as one kernel
 * (passes/fuse/words_scans.c): emulated CUDA against the interpreter, at ragged shapes, along
 * paths, one and two recurrences, all that a body may store. */
#include "tests/codegen/cuda_check.h"
#include "ir/ops.h"

#include "ir/kernels.h"
#include "ir/recurrence.h"

typedef struct body_case {
  vtb_decay_class decay;
  const char *path, *back; /* back: of a second recurrence; NULL: there is none */
  int64_t B, N, h, K, V;
  bool init, last, grouped, also; /* grouped: heads are one axis behind; also: y is wanted, too */
} body_case;

#define RATES VTB_DECAY_RATES
#define KEY VTB_DECAY_KEY
#define VALUE VTB_DECAY_VALUE

static const body_case cases[] = {
    {RATES, NULL, NULL, 2, 19, 1, 16, 70, false, false, true, false},
    {RATES, "rows~@3x7", NULL, 1, 21, 2, 5, 33, true, true, false, true},
    {RATES, "rows@3x7", "rows~@3x7", 2, 21, 1, 16, 150, false, false, true, false},
    {RATES, "cols@2x4", "rows~@2x4", 1, 8, 2, 3, 7, false, false, true, true},
    {RATES, NULL, "rows~@1x11", 1, 11, 1, 40, 36, false, false, false, false},
    {VALUE, NULL, "rows~@3x5", 2, 15, 1, 4, 9, false, false, true, true},
    {KEY, "cols@2x5", NULL, 1, 10, 2, 20, 40, false, false, true, false},
    {RATES, NULL, NULL, 1, 1, 1, 1, 1, false, false, false, false},
    {RATES, "rows~@3x7", "rows@3x7", 1, 21, 2, 24, 33, false, false, true, false},
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

/* softplus(p) u as values, decays of softplus(p), -exp(a) as rates. */
static vtb_inst *scan(cuda_cases *c, const body_case *s, vtb_value *u, const char *path) {
  vtb_type keys = shape(4, s->B, s->N, s->h, s->K), values = shape(4, s->B, s->N, s->h, s->V);
  vtb_value *p = cuda_arg(c, s->decay == KEY ? keys : values, 1, -1), *operands[6];
  vtb_value *step = unary(c, VTB_OP_softplus, p);
  int n = 0;
  operands[n++] = unary(c, VTB_OP_tanh, cuda_arg(c, keys, 1, 0));
  operands[n++] = cuda_arg(c, keys, 1, 0);
  operands[n++] = s->decay == KEY ? u : binary(c, VTB_OP_mul, step, u);
  operands[n++] = s->decay == RATES ? step : unary(c, VTB_OP_sigmoid, step);
  if (s->decay == RATES) {
    vtb_value *a = cuda_arg(c, shape(3, s->h, s->V, s->K, 0), 1, 0);
    operands[n++] =
        unary(c, VTB_OP_neg, unary(c, VTB_OP_exp, vtb_b_transpose(&c->b, a, (int64_t[]){0, 2, 1})));
  }
  if (s->init) operands[n++] = cuda_arg(c, shape(4, s->B, s->h, s->K, s->V), 1, 0);
  vtb_attr attrs[] = {VTB_A_STR("class", vtb_decay_class_name(s->decay)),
                      VTB_A_STR("mode", "recurrent"), VTB_A_INT("init", s->init),
                      VTB_A_INT("last", s->last), VTB_A_STR("path", path)};
  return vtb_build(&c->b, VTB_OP_linscan, operands, n, attrs, path ? 5 : 4);
}

static void wanted(cuda_cases *c, vtb_value *v) {
  char name[40];
  snprintf(name, sizeof name, "case%d_%d", c->n_cases, c->n_returns);
  v->name = vtb_intern(c->m, name);
  c->returns[c->n_returns++] = v;
}

static void add(cuda_cases *c, const body_case *s) {
  vtb_type values = shape(4, s->B, s->N, s->h, s->V), rows = shape(3, s->B, s->N, s->h * s->V, 0);
  vtb_type *behind = s->grouped ? &rows : &values;
  vtb_value *u = cuda_arg(c, values, 1, 0);
  vtb_inst *one = scan(c, s, u, s->path), *two = s->back ? scan(c, s, u, s->back) : NULL;
  vtb_value *gate = unary(c, VTB_OP_silu, cuda_arg(c, *behind, 1, 0));
  vtb_value *skip = cuda_arg(c, shape(1, behind->dim[behind->rank - 1].size, 0, 0, 0), 1, 0);
  vtb_value *x = s->grouped ? vtb_b_reshape(&c->b, u, behind) : u, *sum = NULL;
  for (int d = 0; d < (two ? 2 : 1); d++) {
    vtb_value *y = (d ? two : one)->results[0];
    if (s->grouped) y = vtb_b_reshape(&c->b, y, behind);
    y = binary(c, VTB_OP_add, y, binary(c, VTB_OP_mul, x, skip));
    if (s->also) wanted(c, y);
    y = binary(c, VTB_OP_mul, y, gate);
    sum = sum ? binary(c, VTB_OP_add, sum, y) : y;
  }
  wanted(c, sum);
  if (s->last) wanted(c, one->results[1]);
}

/* ---- adjoints -------------------------------------------------------------------------------- */

static const body_case adjoints[] = {
    {RATES, NULL, NULL, 2, 19, 1, 16, 150, false, false, true, true},
    {RATES, "rows~@3x7", NULL, 3, 21, 2, 5, 33, false, false, false, false},
    {RATES, "cols@2x4", NULL, 1, 8, 2, 3, 7, false, false, true, false},
    {RATES, NULL, NULL, 1, 1, 1, 1, 1, false, false, false, true},
    {RATES, "rows~@3x7", NULL, 2, 21, 1, 40, 70, false, false, true,
     true}, /* keys of three warps */
    {RATES, NULL, NULL, 1, 11, 2, 32, 33, false, false, false, false},
};

static vtb_value *column_sums(cuda_cases *c, vtb_value *x) {
  vtb_attr axes = VTB_A_INTS("axes", ((int64_t[]){0, 1}), 2);
  return vtb_build(&c->b, VTB_OP_reduce_sum, &x, 1, &axes, 1)->results[0];
}

/* Where factors round to 16 bits, besides: whole segments and tails, one token, columns that are no
 * multiple of a warp's, keys that fill no quad, several blocks. */
static const body_case halves[] = {
    {RATES, NULL, NULL, 2, 33, 1, 16, 150, false, false, true, true},
    {RATES, "rows~@3x7", NULL, 1, 21, 2, 3, 33, false, false, false, false},
    {RATES, NULL, NULL, 1, 5, 1, 8, 130, false, false, true, false},
    {RATES, NULL, NULL, 2, 1, 1, 1, 1, false, false, false, true},
    {RATES, "cols~@8x4", NULL, 1, 32, 1, 13, 64, false, false, false, false},
    {RATES, NULL, NULL, 2, 33, 1, 16, 150, false, true, true, true},
    {RATES, "rows~@3x7", NULL, 1, 21, 2, 4, 33, false, true, false, false},
    {RATES, "cols@2x8", NULL, 2, 16, 1, 12, 40, false, true, false, false},
    {RATES, NULL, NULL, 1, 9, 1, 8, 129, false, true, true, false},
    {RATES, "rows~@3x7", NULL, 2, 21, 1, 32, 70, false, true, true,
     true}, /* keys of two warps, three */
    {RATES, NULL, NULL, 1, 33, 2, 40, 33, false, false, false, false},
    {RATES, NULL, NULL, 1, 19, 1, 24, 150, false, true, false, false},
};
static const char *factors; /* of adjoints */

/* What autodiff makes around a selective scan; grouped: the adjoint of y is gated before it; also:
 * the adjoint of the values is wanted as it is; last: the forward scan leaves states for it. */
static void add_adjoint(cuda_cases *c, const body_case *s) {
  vtb_type keys = shape(4, s->B, s->N, s->h, s->K), values = shape(4, s->B, s->N, s->h, s->V);
  vtb_value *u = cuda_arg(c, values, 1, 0), *p = cuda_arg(c, values, 1, -1);
  vtb_value *step = unary(c, VTB_OP_softplus, p), *dy = cuda_arg(c, values, 1, 0);
  vtb_value *skip = cuda_arg(c, shape(1, s->V, 0, 0, 0), 1, 0);
  if (s->grouped) dy = binary(c, VTB_OP_mul, dy, unary(c, VTB_OP_silu, u));
  vtb_value *rates = cuda_arg(c, shape(3, s->h, s->K, s->V, 0), 1, -1);
  vtb_value *operands[] = {cuda_arg(c, keys, 1, 0),
                           cuda_arg(c, keys, 1, 0),
                           binary(c, VTB_OP_mul, step, u),
                           step,
                           unary(c, VTB_OP_neg, unary(c, VTB_OP_exp, rates)),
                           dy,
                           NULL};
  vtb_attr attrs[] = {VTB_A_STR("class", "rates"), VTB_A_STR("mode", "recurrent"),
                      VTB_A_INT("starts", s->last ? 8 : 0), VTB_A_STR("path", s->path)};
  int n_attrs = s->path ? 4 : 3;
  if (s->last) {
    const vtb_inst *ahead = vtb_build(&c->b, VTB_OP_linscan, operands, 5, attrs, n_attrs);
    wanted(c, ahead->results[0]);
    operands[6] = ahead->results[1];
  }
  vtb_inst *scan = vtb_build(&c->b, VTB_OP_linscan_grad, operands, s->last ? 7 : 6, attrs, n_attrs);
  if (factors) vtb_attr_set(scan, VTB_A_STR("precision", factors));
  vtb_value *d_step =
      binary(c, VTB_OP_add, scan->results[3], binary(c, VTB_OP_mul, scan->results[2], u));
  vtb_value *d_p = binary(c, VTB_OP_mul, d_step, unary(c, VTB_OP_sigmoid, p));
  vtb_value *d_u = binary(c, VTB_OP_add, binary(c, VTB_OP_mul, scan->results[2], step),
                          binary(c, VTB_OP_mul, dy, skip));
  for (int r = 0; r < 5; r++)
    if (r < 2 || r == 4 || (r == 2 && s->also)) wanted(c, scan->results[r]);
  wanted(c, d_u);
  wanted(c, d_p);
  wanted(c, column_sums(c, d_p));
  if (!s->grouped) wanted(c, column_sums(c, binary(c, VTB_OP_mul, dy, u)));
}

static void check_bodies(const body_case *all, int n,
                         void (*build)(cuda_cases *, const body_case *), double tol,
                         const char *what) {
  cuda_cases c;
  cuda_begin(&c);
  for (c.n_cases = 0; c.n_cases < n; c.n_cases++) build(&c, &all[c.n_cases]);
  vtb_func_set_returns(c.f, c.returns, NULL, c.n_returns);
  c.m->entry = c.f;
  cuda_passes(c.m, "fuse,copy_for_scans,grow{scans+scan_adjoints+maxima},dce");
  int kernels = 0, others = 0;
  for (const vtb_inst *i = c.f->first; i; i = i->next) {
    kernels += vtb_kernel_kind_of(i) == VTB_KERNEL_SCAN;
    others += i->op == VTB_OP_fused || i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad;
  }
  for (int i = 0; i < c.n_cases && factors; i++) n += all[i].last; /* the scan ahead */
  CHECK_MSG(kernels == n && others == n, "%s: %d kernels, %d in all", what, kernels, others);
  cuda_check(c.m, c.f, c.args, tol, what);
  for (int i = 0; i < c.f->n_args; i++) vtb_tensor_free(&c.args[i]);
  vtb_module_free(c.m);
}

/* ---- maxima ---------------------------------------------------------------------------------- */

typedef struct max_case {
  const char *path;
  int64_t B, N, h;
  bool wide; /* numbers of a head are an axis of their own, and gates come as slices */
} max_case;

/* Pieces of lanes that are full, ragged and empty; a sequence a lane. */
static const max_case maxima[] = {{NULL, 2, 70, 3, false},       {"rows~@5x7", 3, 35, 2, true},
                                  {"cols~@4x4", 1, 16, 1, true}, {"rows@3x11", 1, 33, 5, false},
                                  {NULL, 1, 1, 1, false},        {"cols@1x3", 8200, 3, 4, false}};

static vtb_value *shift(cuda_cases *c, const max_case *s, vtb_value *x, int by, double fill) {
  vtb_attr attrs[] = {VTB_A_INT("axis", 1), VTB_A_INT("by", by), VTB_A_FLOAT("fill", fill),
                      VTB_A_STR("path", s->path)};
  return vtb_build(&c->b, VTB_OP_shift, &x, 1, attrs, s->path ? 4 : 3)->results[0];
}

static vtb_value *gate(cuda_cases *c, const max_case *s, double scale) {
  vtb_type rows = shape(3, s->B, s->N, s->h, 0), pairs = shape(3, s->B, s->N, 2 * s->h, 0);
  vtb_value *x = cuda_arg(c, s->wide ? pairs : rows, scale, 0);
  return s->wide ? vtb_b_slice(&c->b, x, 2, s->h, 2 * s->h, 1) : x;
}

/* A cell with gates in exponents: decay and gain of the scale of a state. */
static void add_maxima(cuda_cases *c, const max_case *s) {
  vtb_value *bias = cuda_arg(c, shape(1, s->h, 0, 0, 0), 1, 0);
  vtb_value *g = unary(c, VTB_OP_log_sigmoid, binary(c, VTB_OP_add, gate(c, s, 1), bias));
  vtb_value *i = binary(c, VTB_OP_add, gate(c, s, 2), bias), *operands[] = {g, i};
  vtb_attr path = VTB_A_STR("path", s->path);
  vtb_value *m = vtb_build(&c->b, VTB_OP_maxplus, operands, 2, &path, s->path != NULL)->results[0];
  vtb_value *before = shift(c, s, m, 1, 0.5);
  wanted(c, unary(c, VTB_OP_exp, binary(c, VTB_OP_sub, binary(c, VTB_OP_add, g, before), m)));
  vtb_type column = shape(4, s->B, s->N, s->h, 1);
  wanted(c, vtb_b_reshape(&c->b, unary(c, VTB_OP_exp, binary(c, VTB_OP_sub, i, m)), &column));
  if (s->wide) wanted(c, i);
  if (s->wide) wanted(c, m);
}

/* The adjoint of m reads what the token behind makes of it; ties are of measure zero. */
static void add_maxima_adjoint(cuda_cases *c, const max_case *s) {
  vtb_value *g = unary(c, VTB_OP_log_sigmoid, gate(c, s, 1)), *i = gate(c, s, 2);
  vtb_value *operands[] = {g, i, gate(c, s, 1), NULL};
  vtb_value *d = binary(c, VTB_OP_mul, gate(c, s, 1), gate(c, s, 1));
  operands[3] = binary(c, VTB_OP_sub, shift(c, s, d, -1, 0), d);
  vtb_attr path = VTB_A_STR("path", s->path);
  vtb_inst *grad = vtb_build(&c->b, VTB_OP_maxplus_grad, operands, 4, &path, s->path != NULL);
  wanted(c, binary(c, VTB_OP_add, grad->results[0], d));
  wanted(c, grad->results[1]);
  if (s->wide) wanted(c, d);
}

static void check_maxima(void (*build)(cuda_cases *, const max_case *), const char *what) {
  cuda_cases c;
  int n = (int)(sizeof maxima / sizeof *maxima), kernels = 0, others = 0;
  cuda_begin(&c);
  for (c.n_cases = 0; c.n_cases < n; c.n_cases++) build(&c, &maxima[c.n_cases]);
  vtb_func_set_returns(c.f, c.returns, NULL, c.n_returns);
  c.m->entry = c.f;
  cuda_passes(c.m, "fuse,copy_for_scans,grow{scans+scan_adjoints+maxima},dce");
  for (const vtb_inst *i = c.f->first; i; i = i->next) {
    kernels += vtb_kernel_kind_of(i) == VTB_KERNEL_SCAN;
    others += i->op != VTB_OP_reshape && i->op != VTB_OP_slice;
  }
  CHECK_MSG(kernels == n && others == n, "%s: %d kernels, %d in all", what, kernels, others);
  cuda_check(c.m, c.f, c.args, 2e-5, what);
  for (int i = 0; i < c.f->n_args; i++) vtb_tensor_free(&c.args[i]);
  vtb_module_free(c.m);
}

TEST(bodies_of_maxima) { check_maxima(add_maxima, "maxima"); }
TEST(bodies_of_adjoint_maxima) { check_maxima(add_maxima_adjoint, "adjoints of maxima"); }

#define COUNT(cases) ((int)(sizeof cases / sizeof *cases))
TEST(bodies) { check_bodies(cases, COUNT(cases), add, 2e-5, "bodies"); }
TEST(bodies_of_adjoints) {
  check_bodies(adjoints, COUNT(adjoints), add_adjoint, 5e-5, "bodies of adjoints");
}

TEST(bodies_of_adjoints_in_pairs) {
  factors = "bf16";
  check_bodies(halves, COUNT(halves), add_adjoint, 2e-2, "bodies of adjoints in pairs");
  factors = NULL;
}

/* `text` has @f; its kernels of kind scan. */
static void check_text(const char *what, const char *text, int kernels) {
  vtb_source source = {.path = "<test>", .text = text, .n = strlen(text)};
  vtb_diags d = {0};
  vtb_module *m = vtb_module_parse(&source, &d);
  vtb_diags_print(&d, stderr);
  CHECK_MSG(m != NULL, "%s does not parse", what);
  if (!m) return;
  vtb_func *f = m->entry = vtb_module_find(m, "f");
  vtb_tensor args[8];
  unsigned long long seed = 5;
  cuda_passes(m, "fuse,copy_for_scans,grow{scans+scan_adjoints+maxima},dce");
  for (const vtb_inst *i = f->first; i; i = i->next)
    kernels -= vtb_kernel_kind_of(i) == VTB_KERNEL_SCAN;
  CHECK_MSG(kernels == 0, "%s: %d kernels are missing", what, kernels);
  for (int a = 0; a < f->n_args; a++) {
    args[a] = vtb_tensor_new(f->args[a]->type);
    for (int64_t k = 0; k < vtb_type_count(&args[a].type); k++)
      args[a].data[k] = (float)(test_random(&seed) - (a == 3));
  }
  cuda_check(m, f, args, 2e-5, what);
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&args[a]);
  vtb_module_free(m);
  vtb_diags_free(&d);
}

#define ROW "f32[2, 6, 1, 5]"
#define KEYS "f32[2, 6, 1, 3]"

/* Two that are added up, of which the second reads the first. */
TEST(a_scan_of_a_scan) {
  check_text("a scan of a scan",
             "func @f(%q: " KEYS ", %k: " KEYS ", %u: " ROW ", %A: f32[1, 3, 5], %d: " ROW
             ") -> (" ROW ") {\n"
             "  %y, %s = linscan %q, %k, %u, %d, %A {class = \"rates\", last = 0} : " ROW
             ", f32[2, 1, 3, 5]\n"
             "  %z, %t = linscan %q, %k, %y, %d, %A {class = \"rates\", last = 0} : " ROW
             ", f32[2, 1, 3, 5]\n"
             "  %o = add %y, %z : " ROW "\n"
             "  return %o\n"
             "}\n",
             1);
}

/* Of columns that are not the scan's: two tokens side by side. */
TEST(sums_of_other_columns) {
  check_text(
      "sums of other columns",
      "func @f(%q: " KEYS ", %k: " KEYS ", %u: " ROW ", %A: f32[1, 3, 5], %d: " ROW ", %dy: " ROW
      ", %g: " ROW ") -> (f32[10], f32[5]) {\n"
      "  %a, %b, %c, %e, %h = linscan_grad %q, %k, %u, %d, %A, %dy {class = \"rates\"} : " KEYS
      ", " KEYS ", " ROW ", " ROW ", f32[1, 3, 5]\n"
      "  %o = mul %c, %g : " ROW "\n"
      "  %r = reshape %o {shape = [2, 3, 10]} : f32[2, 3, 10]\n"
      "  %s = reduce_sum %r {axes = [0, 1]} : f32[10]\n"
      "  %v = reshape %o {shape = [2, 6, 5]} : f32[2, 6, 5]\n"
      "  %t = reduce_sum %v {axes = [0, 1]} : f32[5]\n"
      "  return %s, %t\n"
      "}\n",
      1);
}

int main(void) {
  emulate_or_skip();
  RUN(a_scan_of_a_scan);
  RUN(sums_of_other_columns);
  RUN(bodies);
  RUN(bodies_of_adjoints);
  RUN(bodies_of_adjoints_in_pairs);
  RUN(bodies_of_maxima);
  RUN(bodies_of_adjoint_maxima);
  return test_done();
}
