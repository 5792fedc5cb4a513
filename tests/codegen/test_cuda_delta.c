/* delta: emulated CUDA kernels against the interpreter, over classes, modes, chunks, ranks, paths
 * and ragged shapes; its launches. All cases of a test are one function, so that they are compiled
 * together. */
#include "tests/codegen/cuda_check.h"
#include "ir/ops.h"

#include "codegen/cuda/compile/nvrtc.h"
#include "ir/recurrence.h"

typedef struct delta_case {
  vtb_decay_class decay;
  const char *mode, *path;
  int64_t chunk, B, N, h, R, K, V;
  bool init, views;
} delta_case;

#define CONSTANT VTB_DECAY_CONSTANT
#define SCALAR VTB_DECAY_SCALAR
#define KEY VTB_DECAY_KEY

static const delta_case products[] = {
    {SCALAR, "parallel", NULL, 0, 1, 1, 1, 1, 1, 1, false, false},
    {SCALAR, "chunkwise", "rows~@5x9", 16, 2, 45, 2, 1, 24, 40, true, false},
    {SCALAR, "chunkwise", "hilbert@6x5", 7, 1, 30, 1, 2, 12, 8, false, true},
    {SCALAR, "parallel", NULL, 0, 1, 23, 1, 3, 33, 5, true, false},
    {CONSTANT, "chunkwise", "cols@4x9", 64, 1, 36, 3, 1, 16, 64, true, false},
    {CONSTANT, "parallel", NULL, 0, 2, 17, 1, 4, 7, 33, false, true},
    {CONSTANT, "chunkwise", NULL, 3, 1, 5, 1, 16, 4, 4, true, false},
    {KEY, "chunkwise", "snake@5x7", 16, 2, 35, 2, 1, 20, 12, true, false},
    {KEY, "parallel", NULL, 0, 1, 33, 1, 1, 70, 36, false, false},
    {KEY, "chunkwise", "cols~@3x7", 7, 1, 21, 1, 3, 9, 6, true, true},
    {KEY, "parallel", NULL, 0, 1, 10, 2, 5, 16, 8, true, false},
    {SCALAR, "chunkwise", NULL, 64, 1, 18, 1, 1, 256, 9, false, false},
    {KEY, "chunkwise", NULL, 64, 1, 18, 1, 1, 250, 8, true, false},
};

static const delta_case steps[] = {
    {SCALAR, "recurrent", "rows~@3x5", 0, 2, 15, 2, 1, 24, 40, true, false},
    {KEY, "recurrent", NULL, 0, 1, 9, 1, 3, 33, 5, true, true},
    {CONSTANT, "recurrent", "cols@2x3", 0, 1, 6, 3, 2, 1, 64, false, false},
    {SCALAR, "chunkwise", NULL, 4, 1, 5, 1, 17, 6, 4, true, false}, /* many rows */
    {KEY, "parallel", NULL, 0, 1, 4, 1, 1, 800, 3, true, false},    /* many keys, and no room */
};

static vtb_type shape(int rank, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  return vtb_type_make(VTB_F32, rank, (int64_t[]){a, b, c, d, e});
}

static vtb_value *rows(cuda_cases *c, const delta_case *s, int64_t width, double scale) {
  vtb_type t = shape(5, s->B, s->N, s->h, s->R, width);
  if (!s->views) return cuda_arg(c, t, scale, 0);
  t = shape(5, s->B, s->h, s->N, s->R, width);
  return vtb_b_transpose(&c->b, cuda_arg(c, t, scale, 0), (int64_t[]){0, 2, 1, 3, 4});
}

/* Mostly near 1, some exactly 0 or 1, some tiny, some negative. */
static vtb_value *decays(cuda_cases *c, const delta_case *s) {
  vtb_type t = s->decay == CONSTANT ? shape(1, s->h, 0, 0, 0, 0)
               : s->decay == SCALAR ? shape(3, s->B, s->N, s->h, 0, 0)
                                    : shape(4, s->B, s->N, s->h, s->K, 0);
  vtb_value *v = cuda_arg(c, t, 1, 0);
  vtb_tensor *d = &c->args[c->f->n_args - 1];
  for (int64_t i = 0; i < vtb_type_count(&t); i++) {
    double u = d->data[i], x = 0.5 + 0.5 * test_random(&c->seed);
    d->data[i] = (float)(u < -0.9   ? 0
                         : u < -0.8 ? 1
                         : u < -0.7 ? 1e-6 * x
                         : u > 0.9  ? -x
                                    : 1 - 0.05 * x);
  }
  return v;
}

static void build(cuda_cases *c, const delta_case *s, vtb_value *const *operands,
                  const char *path) {
  vtb_attr attrs[6];
  int n = 0;
  attrs[n++] = VTB_A_STR("class", vtb_decay_class_name(s->decay));
  attrs[n++] = VTB_A_STR("mode", s->mode);
  if (vtb_streq(s->mode, "chunkwise")) attrs[n++] = VTB_A_INT("chunk", s->chunk);
  if (path) attrs[n++] = VTB_A_STR("path", path);
  if (s->init) attrs[n++] = VTB_A_INT("init", 1);
  cuda_return(c, vtb_build(&c->b, VTB_OP_delta, operands, s->init ? 5 : 4, attrs, n));
}

static void operands_of(cuda_cases *c, const delta_case *s, vtb_value **operands) {
  double reads = 1.2 / sqrt((double)s->K * (double)s->R);
  operands[0] = rows(c, s, s->K, 1 / sqrt((double)s->K));
  operands[1] = rows(c, s, s->V, 1);
  operands[2] = rows(c, s, s->K, reads);
  operands[3] = decays(c, s);
  if (s->init) operands[4] = cuda_arg(c, shape(4, s->B, s->h, s->K, s->V, 0), 1, 0);
}

static void check(const delta_case *cases, int n, const char *what) {
  cuda_cases c;
  vtb_value *operands[5];
  cuda_begin(&c);
  for (c.n_cases = 0; c.n_cases < n; c.n_cases++) {
    operands_of(&c, &cases[c.n_cases], operands);
    build(&c, &cases[c.n_cases], operands, cases[c.n_cases].path);
  }
  cuda_end(&c, 2e-5, what);
}

/* One launch for two directions, which have reads of their own. */
TEST(directions_share_a_launch) {
  static const delta_case cases[] = {
      {SCALAR, "chunkwise", "rows@4x5", 16, 2, 20, 2, 1, 12, 8, true, false},
      {KEY, "parallel", NULL, 0, 1, 20, 1, 2, 9, 40, false, false},
      {SCALAR, "recurrent", "cols@4x5", 0, 1, 20, 1, 1, 9, 4, false, false}};
  cuda_cases c;
  vtb_value *operands[5];
  cuda_begin(&c);
  c.pipeline = "grow{directions}";
  for (c.n_cases = 0; c.n_cases < 3; c.n_cases++) {
    const delta_case *s = &cases[c.n_cases];
    operands_of(&c, s, operands);
    build(&c, s, operands, s->path);
    operands[2] = rows(&c, s, s->K, 0.5 / sqrt((double)s->K));
    build(&c, s, operands, "rows~@4x5");
  }
  cuda_end(&c, 2e-5, "directions");
}

/* The plan of cases alone; of the last one with a second direction. */
static vtb_launch_plan *plan_of(const delta_case *cases, int n, const char *second) {
  cuda_cases c;
  vtb_launch_plan *plan = NULL;
  vtb_error err = {0};
  vtb_value *operands[5];
  cuda_begin(&c);
  for (int i = 0; i < n; i++) {
    operands_of(&c, &cases[i], operands);
    build(&c, &cases[i], operands, cases[i].path);
  }
  if (second) build(&c, &cases[n - 1], operands, second);
  vtb_func_set_returns(c.f, c.returns, NULL, c.n_returns);
  c.m->entry = c.f;
  if (second) cuda_passes(c.m, "grow{directions}");
  CHECK_MSG(cuda_plan(c.m, c.f, &(vtb_codegen_options){0}, &plan, &err) == VTB_OK, "%s", err.text);
  for (int i = 0; i < c.f->n_args; i++) vtb_tensor_free(&c.args[i]);
  vtb_module_free(c.m);
  return plan;
}

static int launches(int64_t n_tokens, const char *mode, const char *second) {
  const delta_case s = {SCALAR, mode, NULL, 16, 1, n_tokens, 2, 1, 8, 8, false, false};
  vtb_launch_plan *plan = plan_of(&s, 1, second);
  int n = plan ? plan->n_steps : 0;
  vtb_launch_plan_free(plan);
  return n;
}

TEST(one_launch_at_any_length) {
  CHECK(launches(5, "chunkwise", NULL) == 1);
  CHECK(launches(3136, "chunkwise", NULL) == 1);
  CHECK(launches(3136, "parallel", NULL) == 1);
  CHECK(launches(3136, "recurrent", NULL) == 1);
  CHECK(launches(3136, "chunkwise", "rows~@56x56") == 1);
}

static void check_resources(const vtb_launch_plan *plan, const char *arch) {
  vtb_cuda_code *codes = vtb_xcalloc((size_t)plan->n_sources, sizeof *codes);
  vtb_error err = {0};
  vtb_status status = vtb_cuda_compile_plan(plan, arch, NULL, codes, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  int n = 0;
  for (int i = 0; status == VTB_OK && i < plan->n_sources; i++)
    for (int k = 0; k < plan->n_kernels; k++) {
      vtb_cuda_resources r;
      const char *name = plan->kernels[k].name;
      if (!vtb_cuda_resources_of(codes[i].log, name, &r)) continue;
      CHECK_MSG(r.spill_bytes == 0 && r.stack_bytes == 0,
                "%s, %s: %d registers, spills %d bytes, stack %d", arch, name, r.registers,
                r.spill_bytes, r.stack_bytes);
      n++;
    }
  CHECK(n == plan->n_kernels);
  for (int i = 0; status == VTB_OK && i < plan->n_sources; i++) vtb_cuda_code_free(&codes[i]);
  free(codes);
}

/* At the shapes of models, by NVRTC for every architecture. */
TEST(registers_suffice) {
  static const delta_case cases[] = {
      {SCALAR, "chunkwise", "cols@14x14", 64, 2, 196, 3, 1, 64, 64, false, false},
      {SCALAR, "chunkwise", NULL, 64, 2, 196, 3, 3, 128, 128, true, false},
      {KEY, "chunkwise", "cols@14x14", 64, 2, 196, 3, 1, 64, 64, false, false},
      {KEY, "parallel", NULL, 0, 2, 196, 3, 2, 256, 256, true, false},
      {KEY, "recurrent", NULL, 0, 2, 196, 3, 2, 64, 64, false, false},
  };
  static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
  vtb_launch_plan *plan = plan_of(cases, (int)(sizeof cases / sizeof *cases), NULL);
  for (int i = 0; plan && i < 3; i++) check_resources(plan, archs[i]);
  vtb_launch_plan_free(plan);
}

#define COUNT(cases) ((int)(sizeof cases / sizeof *cases))
TEST(as_products) { check(products, COUNT(products), "products"); }
TEST(token_by_token) { check(steps, COUNT(steps), "steps"); }

int main(int argc, char **argv) {
  emulate_or_skip();
  const char *only = argc > 1 ? argv[1] : NULL; /* one test by its letter: p, s, d */
  if (!only || *only == 'p') RUN(as_products);
  if (!only || *only == 's') RUN(token_by_token);
  if (!only || *only == 'd') RUN(directions_share_a_launch);
  RUN(one_launch_at_any_length);
  vtb_strbuf why = {0};
  if (vtb_cuda_describe_nvrtc(&why)) RUN(registers_suffice);
  vtb_strbuf_free(&why);
  return test_done();
}
