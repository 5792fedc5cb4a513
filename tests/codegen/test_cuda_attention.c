/* attention and attention_grad: emulated CUDA kernels against the interpreter, over ragged shapes,
 * shared heads, biases, causal order, views, and logits far beyond what exp can take. */
#include "tests/codegen/cuda_check.h"
#include "ir/ops.h"

typedef struct attention_case {
  int B, N, M, h, g, K, V;
  int bias[3], bias_rank; /* axes before [N, M] */
  bool has_bias, causal, dlse, transposed,
      forward;         /* forward: no adjoints, which are zero but for rounding */
  double scale, range; /* range: of operands */
  double bias_shift;   /* of all of the bias */
} attention_case;

static const attention_case cases[] = {
    {.B = 1,
     .N = 1,
     .M = 1,
     .h = 1,
     .g = 1,
     .K = 1,
     .V = 1,
     .scale = 1,
     .range = 1,
     .forward = true},
    {.B = 2,
     .N = 7,
     .M = 7,
     .h = 3,
     .g = 3,
     .K = 5,
     .V = 6,
     .scale = 0.4,
     .range = 1,
     .dlse = true},
    {.B = 1, .N = 130, .M = 150, .h = 2, .g = 1, .K = 70, .V = 20, .scale = 0.2, .range = 1},
    {.B = 1,
     .N = 20,
     .M = 66,
     .h = 2,
     .g = 2,
     .K = 12,
     .V = 136,
     .scale = 0.3,
     .range = 1,
     .transposed = true},
    {.B = 2,
     .N = 67,
     .M = 67,
     .h = 2,
     .g = 2,
     .K = 8,
     .V = 8,
     .scale = 0.5,
     .range = 1,
     .causal = true},
    {.B = 1,
     .N = 100,
     .M = 30,
     .h = 2,
     .g = 2,
     .K = 8,
     .V = 4,
     .scale = 1,
     .range = 1,
     .causal = true,
     .dlse = true},
    {.B = 2,
     .N = 10,
     .M = 13,
     .h = 4,
     .g = 4,
     .K = 8,
     .V = 8,
     .scale = 0.5,
     .range = 1,
     .has_bias = true},
    {.B = 2,
     .N = 49,
     .M = 70,
     .h = 6,
     .g = 3,
     .K = 8,
     .V = 8,
     .scale = 0.5,
     .range = 1,
     .has_bias = true,
     .bias = {3},
     .bias_rank = 1},
    {.B = 2,
     .N = 9,
     .M = 12,
     .h = 4,
     .g = 2,
     .K = 8,
     .V = 8,
     .scale = 1,
     .range = 1,
     .has_bias = true,
     .bias = {2, 1},
     .bias_rank = 2,
     .causal = true},
    {.B = 1,
     .N = 30,
     .M = 40,
     .h = 1,
     .g = 1,
     .K = 16,
     .V = 8,
     .scale = 3,
     .range = 40,
     .forward = true},
    /* a whole head a block: an image of 224 pixels, full shared memory, windows; and one key too
     * many for that */
    {.B = 1,
     .N = 197,
     .M = 197,
     .h = 1,
     .g = 1,
     .K = 24,
     .V = 20,
     .scale = 0.2,
     .range = 1,
     .forward = true},
    {.B = 1,
     .N = 33,
     .M = 256,
     .h = 1,
     .g = 1,
     .K = 64,
     .V = 64,
     .scale = 0.1,
     .range = 1,
     .forward = true},
    {.B = 1,
     .N = 64,
     .M = 64,
     .h = 2,
     .g = 1,
     .K = 12,
     .V = 16,
     .scale = 0.4,
     .range = 1,
     .causal = true,
     .forward = true},
    {.B = 66,
     .N = 20,
     .M = 33,
     .h = 4,
     .g = 4,
     .K = 4,
     .V = 4,
     .scale = 0.5,
     .range = 1,
     .forward = true},
    {.B = 66,
     .N = 49,
     .M = 49,
     .h = 4,
     .g = 2,
     .K = 4,
     .V = 4,
     .scale = 0.5,
     .range = 1,
     .forward = true},
    {.B = 1,
     .N = 70,
     .M = 257,
     .h = 2,
     .g = 1,
     .K = 8,
     .V = 8,
     .has_bias = true,
     .scale = 1,
     .range = 1,
     .causal = true},
};

/* Of the ops being built: attribute precision, or NULL. */
static const char *factors;

/* Adjoints of few keys in 16 bits: one launch, as long as shared memory has room for the head. */
static const attention_case halves[] = {
    {.B = 2,
     .N = 1,
     .M = 1,
     .h = 1,
     .g = 1,
     .K = 16,
     .V = 16,
     .scale = 1,
     .range = 1,
     .dlse = true},
    {.B = 2, .N = 17, .M = 17, .h = 3, .g = 3, .K = 5, .V = 6, .scale = 0.4, .range = 1},
    {.B = 2, .N = 49, .M = 49, .h = 2, .g = 2, .K = 32, .V = 32, .scale = 0.2, .range = 1},
    {.B = 1, .N = 197, .M = 197, .h = 2, .g = 2, .K = 64, .V = 64, .scale = 0.1, .range = 1},
    {.B = 1, .N = 70, .M = 256, .h = 2, .g = 1, .K = 24, .V = 40, .scale = 0.3, .range = 1},
    {.B = 1, .N = 256, .M = 40, .h = 4, .g = 2, .K = 64, .V = 16, .scale = 0.1, .range = 1},
    {.B = 1, .N = 256, .M = 256, .h = 1, .g = 1, .K = 64, .V = 64, .scale = 0.1, .range = 1},
    {.B = 1, .N = 40, .M = 257, .h = 1, .g = 1, .K = 64, .V = 64, .scale = 0.1, .range = 1},
    {.B = 1, .N = 50, .M = 197, .h = 1, .g = 1, .K = 72, .V = 128, .scale = 0.1, .range = 1},
    {.B = 1, .N = 40, .M = 50, .h = 1, .g = 1, .K = 128, .V = 72, .scale = 0.1, .range = 1},
    {.B = 1, .N = 70, .M = 300, .h = 2, .g = 1, .K = 160, .V = 136, .scale = 0.1, .range = 1},
    /* four groups of warps, which share scores */
    {.B = 1, .N = 70, .M = 70, .h = 1, .g = 1, .K = 384, .V = 384, .scale = 0.05, .range = 1},
    {.B = 1, .N = 37, .M = 50, .h = 2, .g = 1, .K = 270, .V = 21, .scale = 0.1, .range = 1},
    {.B = 1,
     .N = 81,
     .M = 66,
     .h = 2,
     .g = 1,
     .K = 24,
     .V = 258,
     .scale = 0.1,
     .range = 1,
     .has_bias = true,
     .causal = true,
     .dlse = true},
    {.B = 1,
     .N = 300,
     .M = 290,
     .h = 2,
     .g = 1,
     .K = 20,
     .V = 8,
     .scale = 0.3,
     .range = 1,
     .causal = true,
     .dlse = true,
     .transposed = true},
    {.B = 2,
     .N = 60,
     .M = 262,
     .h = 2,
     .g = 2,
     .K = 100,
     .V = 66,
     .scale = 0.2,
     .range = 1,
     .has_bias = true,
     .bias = {2},
     .bias_rank = 1},
    /* logits so far below 0 that one of 0, as of keys beyond the last, is infinitely likely */
    {.B = 1,
     .N = 20,
     .M = 270,
     .h = 1,
     .g = 1,
     .K = 16,
     .V = 8,
     .scale = 0.3,
     .range = 1,
     .has_bias = true,
     .bias_shift = -300},
    {.B = 2,
     .N = 50,
     .M = 30,
     .h = 2,
     .g = 2,
     .K = 8,
     .V = 4,
     .scale = 1,
     .range = 1,
     .causal = true,
     .dlse = true,
     .transposed = true},
    {.B = 2,
     .N = 49,
     .M = 70,
     .h = 6,
     .g = 3,
     .K = 8,
     .V = 8,
     .scale = 0.5,
     .range = 1,
     .has_bias = true,
     .bias = {3},
     .bias_rank = 1},
};

static vtb_type shape(int64_t a, int64_t b, int64_t c, int64_t d) {
  return vtb_type_make(VTB_F32, 4, (int64_t[]){a, b, c, d});
}

static vtb_value *heads(cuda_cases *c, const attention_case *a, int64_t n, int64_t h,
                        int64_t width) {
  if (!a->transposed) return cuda_arg(c, shape(a->B, n, h, width), a->range, 0);
  return vtb_b_transpose(&c->b, cuda_arg(c, shape(a->B, h, n, width), a->range, 0),
                         (int64_t[]){0, 2, 1, 3});
}

static vtb_type bias_type(const attention_case *a) {
  int64_t dims[4];
  int rank = 0;
  for (int i = 0; i < a->bias_rank; i++) dims[rank++] = a->bias[i];
  dims[rank++] = a->N, dims[rank++] = a->M;
  return vtb_type_make(VTB_F32, rank, dims);
}

static void add(cuda_cases *c, const attention_case *a, bool grad) {
  vtb_value *v[8] = {heads(c, a, a->N, a->h, a->K), heads(c, a, a->M, a->g, a->K),
                     heads(c, a, a->M, a->g, a->V)};
  int n = 3, n_attrs = 0;
  vtb_attr attrs[6];
  if (a->has_bias) v[n++] = cuda_arg(c, bias_type(a), 2, a->bias_shift);
  attrs[n_attrs++] = VTB_A_FLOAT("scale", a->scale);
  if (a->causal) attrs[n_attrs++] = VTB_A_INT("causal", 1);
  if (factors) attrs[n_attrs++] = VTB_A_STR("precision", factors);
  vtb_inst *y = vtb_build(&c->b, VTB_OP_attention, v, n, attrs, n_attrs);
  cuda_return(c, y);
  if (!grad) return;
  v[n++] = y->results[0], v[n++] = y->results[1];
  v[n++] = cuda_arg(c, shape(a->B, a->N, a->h, a->V), 1, 0);
  if (a->dlse) v[n++] = cuda_arg(c, y->results[1]->type, 1, 0);
  if (a->has_bias)
    attrs[n_attrs++] = VTB_A_INT("bias", 1), attrs[n_attrs++] = VTB_A_INT("dbias", 1);
  if (a->dlse) attrs[n_attrs++] = VTB_A_INT("dlse", 1);
  cuda_return(c, vtb_build(&c->b, VTB_OP_attention_grad, v, n, attrs, n_attrs));
}

TEST(forward_and_adjoints) {
  cuda_cases c;
  cuda_begin(&c);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, c.n_cases++)
    add(&c, &cases[i], !cases[i].forward);
  cuda_end(&c, 1e-4, "attention");
}

/* Every `stride`th case. */
static void check_halves(const char *of, int stride, double tol) {
  cuda_cases c;
  factors = of;
  cuda_begin(&c);
  for (size_t i = 0; i < sizeof halves / sizeof *halves; i += (size_t)stride, c.n_cases++)
    add(&c, &halves[i], true);
  cuda_end(&c, tol, of);
  factors = NULL;
}

/* Kernels of an attention and its adjoint. */
static vtb_launch_plan *plan_of(const attention_case *a, const char *of) {
  cuda_cases c;
  vtb_launch_plan *plan = NULL;
  vtb_error err = {0};
  factors = of;
  cuda_begin(&c);
  add(&c, a, true);
  factors = NULL;
  vtb_func_set_returns(c.f, c.returns, NULL, c.n_returns);
  c.m->entry = c.f;
  CHECK_MSG(cuda_plan(c.m, c.f, &(vtb_codegen_options){0}, &plan, &err) == VTB_OK, "%s", err.text);
  for (int i = 0; i < c.f->n_args; i++) vtb_tensor_free(&c.args[i]);
  vtb_module_free(c.m);
  return plan;
}

/* Launches; `bytes` of shared memory at most. */
static int launches(const attention_case *a, const char *of, int64_t bytes) {
  vtb_launch_plan *plan = plan_of(a, of);
  int n = plan ? plan->n_steps : 0;
  for (int i = 0; i < n; i++) CHECK(plan->kernels[i].shared_bytes <= bytes);
  vtb_launch_plan_free(plan);
  return n;
}

/* Whether the first kernel keeps all keys of a head. */
static bool keeps_keys(const attention_case *a) {
  vtb_launch_plan *plan = plan_of(a, "bf16");
  bool keeps = plan && vtb_starts_with(plan->kernels[0].name, "attention_short");
  vtb_launch_plan_free(plan);
  return keeps;
}

/* Where a block of all keys is alone on a multiprocessor, tiles are quicker. */
TEST(the_quicker_text_is_taken) {
  attention_case a = {.B = 3, .N = 197, .M = 197, .h = 88, .g = 88, .K = 64, .V = 64};
  CHECK(keeps_keys(&a));
  a.K = a.V = 128;
  CHECK(!keeps_keys(&a));
}

TEST(few_keys_are_one_launch) {
  const attention_case image = {.B = 2, .N = 197, .M = 197, .h = 2, .g = 2, .K = 64, .V = 64},
                       large = {.B = 2, .N = 256, .M = 256, .h = 2, .g = 2, .K = 64, .V = 64};
  CHECK(launches(&image, "bf16", 163 * 1024) == 2);
  CHECK(launches(&image, NULL, 163 * 1024) == 5);   /* fp32: delta, dq, dk and dv */
  CHECK(launches(&large, "bf16", 163 * 1024) == 4); /* delta, dq, dk with dv */
}

TEST(bf16_adjoints) { check_halves("bf16", 1, 3e-2); }
/* The same texts, with another type. */
TEST(fp16_adjoints) {
  check_halves("fp16", vtb_streq(getenv("VTB_GOLDEN_MODES"), "all") ? 1 : 3, 4e-3);
}

/* Keys shut out by a bias of -infinity, for one query all of them. */
TEST(masked_keys) {
  cuda_cases c;
  cuda_begin(&c);
  attention_case a = {.B = 1,
                      .N = 3,
                      .M = 3,
                      .h = 2,
                      .g = 2,
                      .K = 4,
                      .V = 4,
                      .scale = 1,
                      .range = 1,
                      .has_bias = true};
  add(&c, &a, true);
  const int shut[9] = {0, 0, 1, 1, 0, 0, 1, 1, 1};
  for (int i = 0; i < 9; i++)
    if (shut[i]) c.args[3].data[i] = -INFINITY;
  c.n_returns--; /* the adjoint of a shut entry is not asked for */
  cuda_end(&c, 1e-4, "masked keys");
}

int main(void) {
  emulate_or_skip();
  RUN(forward_and_adjoints);
  RUN(few_keys_are_one_launch);
  RUN(the_quicker_text_is_taken);
  RUN(bf16_adjoints);
  RUN(fp16_adjoints);
  RUN(masked_keys);
  return test_done();
}
