/* Rotary embeddings in the prologue of attention: emulated CUDA kernels against the interpreter, over whole and partial
 * turns, tables for all heads or each, shared heads, layouts with and without 16-byte rows, one slab of channels and
 * several. The emulator finds a missing barrier between copying, turning and reading. */
#include "tests/codegen/cuda_check.h"

#include "ir/attention.h"

typedef struct turned_case {
  int64_t B, N, M, h, g, K, V, r_q, r_k; /* r: channels that turn; 0: none */
  bool by_head, causal, has_bias;
  bool packed; /* q, k and v are slices of one tensor; N = M, h = g, K = V */
} turned_case;

static const turned_case cases[] = {
    /* all keys in shared memory; windows; many blocks a head; rows of 8 and 4 bytes; half a piece of 16 */
    {.B = 1, .N = 5, .M = 5, .h = 1, .g = 1, .K = 8, .V = 8, .r_q = 8, .r_k = 8},
    {.B = 2, .N = 49, .M = 49, .h = 2, .g = 2, .K = 32, .V = 32, .r_q = 32, .r_k = 32, .by_head = true, .packed = true},
    {.B = 1, .N = 150, .M = 30, .h = 2, .g = 1, .K = 16, .V = 8, .r_q = 12, .r_k = 4, .by_head = true},
    {.B = 1, .N = 33, .M = 110, .h = 2, .g = 2, .K = 12, .V = 20, .r_q = 10, .r_k = 6, .causal = true},
    {.B = 2, .N = 19, .M = 21, .h = 2, .g = 2, .K = 6, .V = 5, .r_q = 2, .r_k = 6, .by_head = true, .has_bias = true},
    {.B = 1, .N = 9, .M = 12, .h = 2, .g = 2, .K = 7, .V = 8, .r_q = 6, .r_k = 4},
    {.B = 1, .N = 17, .M = 17, .h = 2, .g = 2, .K = 24, .V = 24, .r_k = 24},
    {.B = 2, .N = 10, .M = 10, .h = 2, .g = 2, .K = 10, .V = 10, .r_q = 10, .packed = true},
    {.B = 1, .N = 20, .M = 256, .h = 1, .g = 1, .K = 64, .V = 64, .r_q = 64, .r_k = 64},
    /* tiles of keys; two slabs of channels, the turn ending in either; several parts of the result */
    {.B = 1, .N = 70, .M = 260, .h = 2, .g = 1, .K = 16, .V = 16, .r_q = 16, .r_k = 16, .causal = true},
    {.B = 1, .N = 66, .M = 131, .h = 2, .g = 2, .K = 72, .V = 12, .r_q = 72, .r_k = 66, .by_head = true},
    {.B = 1, .N = 40, .M = 70, .h = 1, .g = 1, .K = 70, .V = 136, .r_q = 38, .r_k = 70, .has_bias = true},
    {.B = 1, .N = 20, .M = 65, .h = 1, .g = 1, .K = 9, .V = 72, .r_q = 8, .r_k = 6},
    {.B = 1, .N = 18, .M = 66, .h = 1, .g = 1, .K = 8, .V = 72, .r_k = 8},
    {.B = 1, .N = 18, .M = 66, .h = 1, .g = 1, .K = 8, .V = 72, .r_q = 8},
    {.B = 1, .N = 17, .M = 66, .h = 1, .g = 1, .K = 260, .V = 4, .r_q = 260, .r_k = 200}, /* too wide to be kept */
};

static vtb_type shape(int rank, const int64_t *dims) { return vtb_type_make(VTB_F32, rank, dims); }

/* What rotate_heads of std.attention becomes. */
static vtb_value *turn(cuda_cases *c, vtb_value *x, int64_t r, bool by_head) {
  vtb_builder *b = &c->b;
  const vtb_dim *d = x->type.dim;
  int64_t B = d[0].size, n = d[1].size, h = d[2].size, K = d[3].size, t = by_head ? h : 1;
  vtb_type pairs = shape(5, (int64_t[]){B, n, h, r / 2, 2}), rows = shape(4, (int64_t[]){B, n, h, r});
  vtb_type table = shape(3, (int64_t[]){n, t, r / 2}), column = shape(4, (int64_t[]){n, t, r / 2, 1});
  vtb_value *cosines = vtb_b_reshape(b, cuda_arg(c, table, 1, 0), &column);
  vtb_value *sines = vtb_b_reshape(b, cuda_arg(c, table, 1, 0), &column);
  vtb_value *split = vtb_b_reshape(b, r < K ? vtb_b_slice(b, x, 3, 0, r, 1) : x, &pairs);
  vtb_value *even = vtb_b_slice(b, split, 4, 0, 1, 1), *odd = vtb_b_slice(b, split, 4, 1, 2, 1);
  vtb_value *halves[2] = {
      vtb_b_binary(b, VTB_OP_sub, vtb_b_binary(b, VTB_OP_mul, even, cosines), vtb_b_binary(b, VTB_OP_mul, odd, sines)),
      vtb_b_binary(b, VTB_OP_add, vtb_b_binary(b, VTB_OP_mul, even, sines), vtb_b_binary(b, VTB_OP_mul, odd, cosines))};
  vtb_value *y = vtb_b_reshape(b, vtb_b_concat(b, halves, 2, 4), &rows);
  if (r == K) return y;
  return vtb_b_concat(b, (vtb_value *[]){y, vtb_b_slice(b, x, 3, r, K, 1)}, 2, 3);
}

static void rows_of(cuda_cases *c, const turned_case *t, vtb_value *v[3]) {
  vtb_type q = shape(4, (int64_t[]){t->B, t->N, t->h, t->K}), k = shape(4, (int64_t[]){t->B, t->M, t->g, t->K});
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

static void add(cuda_cases *c, const turned_case *t) {
  vtb_value *v[4];
  rows_of(c, t, v);
  if (t->r_q) v[0] = turn(c, v[0], t->r_q, t->by_head);
  if (t->r_k) v[1] = turn(c, v[1], t->r_k, t->by_head);
  if (t->has_bias) v[3] = cuda_arg(c, shape(2, (int64_t[]){t->N, t->M}), 2, 0);
  vtb_attr attrs[2] = {VTB_A_FLOAT("scale", 0.4), VTB_A_INT("causal", 1)};
  cuda_return(c, vtb_build(&c->b, VTB_OP_attention, v, 3 + t->has_bias, attrs, 1 + t->causal));
}

/* The pass moves what is returned: the cases end here, not in cuda_end(). */
TEST(turned_queries_and_keys) {
  cuda_cases c;
  int n_cases = (int)(sizeof cases / sizeof *cases), kernels = 0, others = 0;
  cuda_begin(&c);
  for (; c.n_cases < n_cases; c.n_cases++) add(&c, &cases[c.n_cases]);
  vtb_func_set_returns(c.f, c.returns, NULL, c.n_returns);
  c.m->entry = c.f;
  cuda_passes(c.m, "prologue");
  for (const vtb_inst *i = c.f->first; i; i = i->next) {
    kernels += vtb_is_turned_attention(i);
    others += vtb_op_get(i->op)->klass != VTB_CLASS_SHAPE && !vtb_is_turned_attention(i);
  }
  CHECK_MSG(kernels == n_cases && others == 0, "%d kernels, %d other ops", kernels, others);
  cuda_check(c.m, c.f, c.args, 1e-4, "turned attention");
  for (int i = 0; i < c.f->n_args; i++) vtb_tensor_free(&c.args[i]);
  vtb_module_free(c.m);
}

int main(void) {
  emulate_or_skip();
  RUN(turned_queries_and_keys);
  return test_done();
}
