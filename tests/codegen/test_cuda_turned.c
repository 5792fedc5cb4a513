/* Rotary embeddings in the kernels of attention and its adjoint: emulated CUDA kernels against the
 * interpreter, over whole and partial turns, tables for all heads or each, shared heads, layouts
 * with and without 16-byte rows, one slab of channels and several. The emulator finds a missing
 * barrier between copying, turning and reading. */
#include "tests/codegen/cuda_check.h"
#include "ir/ops.h"
#include "tests/codegen/turned.h"

typedef struct turned_case {
  int64_t B, N, M, h, g, K, V, r_q, r_k; /* r: channels that turn; 0: none */
  bool by_head, causal, has_bias, dlse;
  bool packed; /* q, k and v are slices of one tensor; N = M, h = g, K = V */
} turned_case;

static const turned_case cases[] = {
    /* all keys in shared memory; windows; many blocks a head; rows of 8 and 4 bytes; half a piece
     * of 16 */
    {.B = 1, .N = 5, .M = 5, .h = 1, .g = 1, .K = 8, .V = 8, .r_q = 8, .r_k = 8},
    {.B = 2,
     .N = 49,
     .M = 49,
     .h = 2,
     .g = 2,
     .K = 32,
     .V = 32,
     .r_q = 32,
     .r_k = 32,
     .by_head = true,
     .packed = true},
    {.B = 1,
     .N = 150,
     .M = 30,
     .h = 2,
     .g = 1,
     .K = 16,
     .V = 8,
     .r_q = 12,
     .r_k = 4,
     .by_head = true},
    {.B = 1,
     .N = 33,
     .M = 110,
     .h = 2,
     .g = 2,
     .K = 12,
     .V = 20,
     .r_q = 10,
     .r_k = 6,
     .causal = true},
    {.B = 2,
     .N = 19,
     .M = 21,
     .h = 2,
     .g = 2,
     .K = 6,
     .V = 5,
     .r_q = 2,
     .r_k = 6,
     .by_head = true,
     .has_bias = true},
    {.B = 1, .N = 9, .M = 12, .h = 2, .g = 2, .K = 7, .V = 8, .r_q = 6, .r_k = 4},
    {.B = 1, .N = 17, .M = 17, .h = 2, .g = 2, .K = 24, .V = 24, .r_k = 24},
    {.B = 2, .N = 10, .M = 10, .h = 2, .g = 2, .K = 10, .V = 10, .r_q = 10, .packed = true},
    {.B = 1, .N = 20, .M = 256, .h = 1, .g = 1, .K = 64, .V = 64, .r_q = 64, .r_k = 64},
    /* tiles of keys; two slabs of channels, the turn ending in either; several parts of the
     * result */
    {.B = 1,
     .N = 70,
     .M = 260,
     .h = 2,
     .g = 1,
     .K = 16,
     .V = 16,
     .r_q = 16,
     .r_k = 16,
     .causal = true},
    {.B = 1,
     .N = 66,
     .M = 131,
     .h = 2,
     .g = 2,
     .K = 72,
     .V = 12,
     .r_q = 72,
     .r_k = 66,
     .by_head = true},
    {.B = 1,
     .N = 40,
     .M = 70,
     .h = 1,
     .g = 1,
     .K = 70,
     .V = 136,
     .r_q = 38,
     .r_k = 70,
     .has_bias = true},
    {.B = 1, .N = 20, .M = 65, .h = 1, .g = 1, .K = 9, .V = 72, .r_q = 8, .r_k = 6},
    {.B = 1, .N = 18, .M = 66, .h = 1, .g = 1, .K = 8, .V = 72, .r_k = 8},
    {.B = 1, .N = 18, .M = 66, .h = 1, .g = 1, .K = 8, .V = 72, .r_q = 8},
    {.B = 1,
     .N = 17,
     .M = 66,
     .h = 1,
     .g = 1,
     .K = 260,
     .V = 4,
     .r_q = 260, /* too wide to be kept */
     .r_k = 200},
};

static const char *factors; /* attribute precision, or NULL */

static vtb_type shape(int rank, const int64_t *dims) { return vtb_type_make(VTB_F32, rank, dims); }

static turn_tables tables(cuda_cases *c, int64_t n, int64_t heads, int64_t r) {
  vtb_value *cosines = cuda_arg(c, turn_table_type(n, heads, r), 1, 0);
  return turn_tables_of(&c->b, cosines, cuda_arg(c, turn_table_type(n, heads, r), 1, 0));
}

static void rows_of(cuda_cases *c, const turned_case *t, vtb_value *v[3]) {
  vtb_type q = shape(4, (int64_t[]){t->B, t->N, t->h, t->K}),
           k = shape(4, (int64_t[]){t->B, t->M, t->g, t->K});
  vtb_type values = shape(4, (int64_t[]){t->B, t->M, t->g, t->V});
  if (t->packed) {
    int64_t width = t->h * t->K;
    vtb_value *all = cuda_arg(c, shape(3, (int64_t[]){t->B, t->N, 3 * width}), 1, 0);
    for (int i = 0; i < 3; i++)
      v[i] = vtb_b_reshape(&c->b, vtb_b_slice(&c->b, all, 2, i * width, (i + 1) * width, 1), &q);
  } else {
    v[0] = cuda_arg(c, q, 1, 0);
    v[1] = cuda_arg(c, k, 1, 0);
    v[2] = cuda_arg(c, values, 1, 0);
  }
}

static void add(cuda_cases *c, const turned_case *t, bool grad) {
  turn_tables q = {0}, k = {0};
  vtb_value *v[8];
  vtb_attr attrs[6] = {VTB_A_FLOAT("scale", 0.4)};
  int n = 3, n_attrs = 1;
  rows_of(c, t, v);
  if (t->r_q) q = tables(c, t->N, t->by_head ? t->h : 1, t->r_q);
  if (t->r_k) k = tables(c, t->M, t->by_head ? t->g : 1, t->r_k);
  if (t->r_q) v[0] = turned(&c->b, v[0], &q);
  if (t->r_k) v[1] = turned(&c->b, v[1], &k);
  if (t->has_bias) v[n++] = cuda_arg(c, shape(2, (int64_t[]){t->N, t->M}), 2, 0);
  if (t->causal) attrs[n_attrs++] = VTB_A_INT("causal", 1);
  if (factors) attrs[n_attrs++] = VTB_A_STR("precision", factors);
  if (!grad) {
    cuda_return(c, vtb_build(&c->b, VTB_OP_attention, v, n, attrs, n_attrs));
    return;
  }
  vtb_type y = shape(4, (int64_t[]){t->B, t->N, t->h, t->V}),
           lse = shape(3, (int64_t[]){t->B, t->N, t->h});
  v[n++] = cuda_arg(c, y, 1, 0), v[n++] = cuda_arg(c, lse, 1, 2), v[n++] = cuda_arg(c, y, 1, 0);
  if (t->dlse) v[n++] = cuda_arg(c, lse, 1, 0);
  if (t->has_bias)
    attrs[n_attrs++] = VTB_A_INT("bias", 1), attrs[n_attrs++] = VTB_A_INT("dbias", 1);
  if (t->dlse) attrs[n_attrs++] = VTB_A_INT("dlse", 1);
  vtb_inst *d = vtb_build(&c->b, VTB_OP_attention_grad, v, n, attrs, n_attrs);
  if (t->r_q) cuda_return(c, turned_back(&c->b, d->results[0], &q)->def);
  if (t->r_k) cuda_return(c, turned_back(&c->b, d->results[1], &k)->def);
  for (int r = 0; r < d->n_results; r++)
    if (r > 1 || !(r ? t->r_k : t->r_q)) c->returns[c->n_returns++] = d->results[r];
}

/* The pass moves what is returned: the cases end here, not in cuda_end(). */
static void check(const turned_case *all, int n_cases, bool grad) {
  cuda_cases c;
  int others;
  cuda_begin(&c);
  for (; c.n_cases < n_cases; c.n_cases++) add(&c, &all[c.n_cases], grad);
  vtb_func_set_returns(c.f, c.returns, NULL, c.n_returns);
  c.m->entry = c.f;
  cuda_passes(c.m, "grow{rotary}");
  int kernels = turned_kernels(c.f, &others);
  CHECK_MSG(kernels == n_cases && others == 0, "%d kernels, %d other ops", kernels, others);
  cuda_check(c.m, c.f, c.args, factors ? 3e-2 : 1e-4,
             grad ? "adjoint of turned attention" : "turned attention");
  for (int i = 0; i < c.f->n_args; i++) vtb_tensor_free(&c.args[i]);
  vtb_module_free(c.m);
}

TEST(turned_queries_and_keys) { check(cases, sizeof cases / sizeof *cases, false); }

TEST(adjoints_are_turned_back) {
  static const turned_case some[] = {
      {.B = 1, .N = 5, .M = 5, .h = 1, .g = 1, .K = 8, .V = 8, .r_q = 8, .r_k = 8, .dlse = true},
      {.B = 2,
       .N = 20,
       .M = 20,
       .h = 2,
       .g = 2,
       .K = 16,
       .V = 16,
       .r_q = 16,
       .r_k = 16,
       .by_head = true,
       .packed = true},
      {.B = 1,
       .N = 70,
       .M = 66,
       .h = 2,
       .g = 1,
       .K = 12,
       .V = 8,
       .r_q = 10,
       .r_k = 4,
       .by_head = true,
       .causal = true},
      {.B = 2,
       .N = 9,
       .M = 12,
       .h = 2,
       .g = 2,
       .K = 7,
       .V = 5,
       .r_q = 2,
       .r_k = 6,
       .has_bias = true,
       .dlse = true},
      {.B = 1, .N = 17, .M = 18, .h = 1, .g = 1, .K = 136, .V = 8, .r_q = 136, .r_k = 102},
      {.B = 1, .N = 10, .M = 10, .h = 2, .g = 2, .K = 10, .V = 10, .r_q = 10, .packed = true},
      {.B = 1, .N = 10, .M = 11, .h = 2, .g = 2, .K = 6, .V = 4, .r_k = 4},
  };
  check(some, sizeof some / sizeof *some, true);
  factors = "bf16";
  check(some, sizeof some / sizeof *some, true);
  factors = NULL;
}

/* What turns q and k for the adjoint's kernels stores them as these round factors. */
static void check_stored(vtb_precision precision, const char *stored) {
  static const turned_case some = {
      .B = 1, .N = 9, .M = 9, .h = 1, .g = 1, .K = 8, .V = 8, .r_q = 8, .r_k = 4, .packed = true};
  cuda_cases c;
  vtb_launch_plan *plan = NULL;
  vtb_error err = {0};
  cuda_begin(&c);
  add(&c, &some, true);
  vtb_func_set_returns(c.f, c.returns, NULL, c.n_returns);
  c.m->entry = c.f;
  cuda_passes(c.m, "grow{rotary}");
  vtb_codegen_options o = {.precision = precision};
  CHECK_MSG(cuda_plan(c.m, c.f, &o, &plan, &err) == VTB_OK, "%s", err.text);
  int found = 0;
  for (int i = 0; plan && i < plan->n_sources; i++)
    for (const char *at = plan->sources[i].text; (at = strstr(at, stored)); at++) found++;
  CHECK_MSG(found == 2, "%d kernels with %s", found, stored);
  vtb_launch_plan_free(plan);
  for (int i = 0; i < c.f->n_args; i++) vtb_tensor_free(&c.args[i]);
  vtb_module_free(c.m);
}

TEST(turned_rows_are_stored_as_factors_round) {
  check_stored(VTB_PRECISION_FP32, "VTB_OUT(float) turned");
  check_stored(VTB_PRECISION_TF32, "VTB_OUT(float) turned");
  check_stored(VTB_PRECISION_BF16, "VTB_OUT(vtb_bf16) turned");
  check_stored(VTB_PRECISION_FP16, "VTB_OUT(vtb_f16) turned");
}

int main(void) {
  emulate_or_skip();
  RUN(turned_queries_and_keys);
  RUN(adjoints_are_turned_back);
  RUN(turned_rows_are_stored_as_factors_round);
  return test_done();
}
