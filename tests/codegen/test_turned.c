/* Attention with rotary embeddings in its kernel: machine code against the interpreter, over
 * widths, parts of the channels, tables for all heads or each, more keys than queries, several
 * tiles of keys. */
#include "tests/codegen/one_kernel.h"
#include "ir/ops.h"

#include <inttypes.h>

#include "ir/attention.h"

typedef struct turned_case {
  int64_t B, N, M, h, K, r_q, r_k; /* r: channels that turn; 0: none */
  bool tables_by_head;
} turned_case;

/* %<out> = rows %<x> [B, N, h, K] with channels below r turned. */
static void put_turn(vtb_strbuf *s, const turned_case *c, int64_t n, int64_t r, const char *x) {
  int64_t B = c->B, h = c->h, K = c->K, p = r / 2, t = c->tables_by_head ? h : 1;
#define ROWS "f32[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]"
#define PAIRS "f32[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", 1]"
  if (r < K)
    vtb_strbuf_printf(
        s, "  %%%s0 = slice %%%s {axis = 3, start = 0, limit = %" PRId64 "} : " ROWS "\n", x, x, r,
        B, n, h, r);
  vtb_strbuf_printf(s,
                    "  %%%s1 = reshape %%%s%s {shape = [%" PRId64 ", %" PRId64 ", %" PRId64
                    ", %" PRId64 ", 2]} : ",
                    x, x, r < K ? "0" : "", B, n, h, p);
  vtb_strbuf_printf(s, "f32[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", 2]\n", B, n, h, p);
  for (int i = 0; i < 2; i++) {
    vtb_strbuf_printf(s, "  %%%s%c = slice %%%s1 {axis = 4, start = %d, limit = %d} : " PAIRS "\n",
                      x, "eo"[i], x, i, i + 1, B, n, h, p);
    vtb_strbuf_printf(
        s, "  %%%s%c4 = reshape %%%s%c {shape = [%" PRId64 ", %" PRId64 ", %" PRId64 ", 1]} : ", x,
        "cs"[i], x, "cs"[i], n, t, p);
    vtb_strbuf_printf(s, "f32[%" PRId64 ", %" PRId64 ", %" PRId64 ", 1]\n", n, t, p);
  }
  static const char *const ops[][3] = {
      {"m", "e", "c"}, {"n", "o", "s"}, {"u", "e", "s"}, {"v", "o", "c"}};
  for (int i = 0; i < 4; i++)
    vtb_strbuf_printf(s, "  %%%s%s = mul %%%s%s, %%%s%s4 : " PAIRS "\n", x, ops[i][0], x, ops[i][1],
                      x, ops[i][2], B, n, h, p);
  vtb_strbuf_printf(s, "  %%%sa = sub %%%sm, %%%sn : " PAIRS "\n", x, x, x, B, n, h, p);
  vtb_strbuf_printf(s, "  %%%sb = add %%%su, %%%sv : " PAIRS "\n", x, x, x, B, n, h, p);
  vtb_strbuf_printf(s,
                    "  %%%s2 = concat %%%sa, %%%sb {axis = 4} : f32[%" PRId64 ", %" PRId64
                    ", %" PRId64 ", %" PRId64 ", 2]\n",
                    x, x, x, B, n, h, p);
  vtb_strbuf_printf(s,
                    "  %%%s%s = reshape %%%s2 {shape = [%" PRId64 ", %" PRId64 ", %" PRId64
                    ", %" PRId64 "]} : " ROWS "\n",
                    x, r < K ? "3" : "t", x, B, n, h, r, B, n, h, r);
  if (r == K) return;
  vtb_strbuf_printf(
      s, "  %%%s4 = slice %%%s {axis = 3, start = %" PRId64 ", limit = %" PRId64 "} : " ROWS "\n",
      x, x, r, K, B, n, h, K - r);
  vtb_strbuf_printf(s, "  %%%st = concat %%%s3, %%%s4 {axis = 3} : " ROWS "\n", x, x, x, B, n, h,
                    K);
}

static void check(const turned_case *c, unsigned long long *seed) {
  vtb_strbuf s = {0};
  int64_t t = c->tables_by_head ? c->h : 1;
  vtb_strbuf_printf(&s, "func @f(%%q: " ROWS ", %%k: " ROWS ", %%v: " ROWS, c->B, c->N, c->h, c->K,
                    c->B, c->M, c->h, c->K, c->B, c->M, c->h, c->K);
  for (int i = 0; i < 2; i++) { /* tables */
    int64_t n = i ? c->M : c->N, r = i ? c->r_k : c->r_q;
    if (r)
      vtb_strbuf_printf(&s,
                        ", %%%cc: f32[%" PRId64 ", %" PRId64 ", %" PRId64 "], %%%cs: f32[%" PRId64
                        ", %" PRId64 ", %" PRId64 "]",
                        "qk"[i], n, t, r / 2, "qk"[i], n, t, r / 2);
  }
  vtb_strbuf_printf(&s, ") -> (" ROWS ") {\n", c->B, c->N, c->h, c->K);
  if (c->r_q) put_turn(&s, c, c->N, c->r_q, "q");
  if (c->r_k) put_turn(&s, c, c->M, c->r_k, "k");
  vtb_strbuf_printf(&s,
                    "  %%y, %%lse = attention %%q%s, %%k%s, %%v {scale = 0.3} : " ROWS
                    ", f32[%" PRId64 ", %" PRId64 ", %" PRId64 "]\n  return %%y\n}\n",
                    c->r_q ? "t" : "", c->r_k ? "t" : "", c->B, c->N, c->h, c->K, c->B, c->N, c->h);
  vtb_source source = {.path = "<test>", .text = s.at, .n = s.n};
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_module *m = vtb_module_parse(&source, &d);
  if (!m) vtb_diags_print(&d, stderr);
  CHECK(m != NULL);
  if (!m) return;
  vtb_func *f = m->entry = vtb_module_find(m, "f");
  vtb_pass_context context = {.module = m};
  CHECK(vtb_run_pipeline(&context,
                         &(vtb_pipeline_options){.pipeline = "grow{rotary}", .verify_each = true},
                         &err) == VTB_OK);
  int kernels = 0, bare = 0;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    kernels += vtb_is_turned_attention(i);
    bare += i->op == VTB_OP_attention || i->op == VTB_OP_mul;
  }
  CHECK_MSG(kernels == 1 && bare == 0, "%d kernels, %d other ops: not joined", kernels, bare);
  vtb_tensor args[8];
  for (int i = 0; i < f->n_args; i++) args[i] = kernel_random(f->args[i]->type, seed, 1, 0);
  char what[128];
  snprintf(what, sizeof what,
           "N %" PRId64 " M %" PRId64 " K %" PRId64 " turned %" PRId64 " and %" PRId64, c->N, c->M,
           c->K, c->r_q, c->r_k);
  kernel_check(m, f, args, 2e-5, what);
  for (int i = 0; i < f->n_args; i++) vtb_tensor_free(&args[i]);
  vtb_module_free(m);
  vtb_diags_free(&d);
  vtb_strbuf_free(&s);
}

TEST(turned_queries_and_keys) {
  unsigned long long state = 11, *seed = &state;
  static const turned_case cases[] = {
      {1, 5, 5, 1, 8, 8, 8, false},      {2, 49, 49, 3, 32, 32, 32, true},
      {1, 50, 50, 2, 64, 64, 64, false}, {2, 7, 13, 2, 20, 12, 20, false},
      {1, 9, 300, 2, 16, 4, 8, true},    {1, 33, 20, 3, 6, 2, 6, false},
      {1, 17, 17, 2, 24, 0, 24, false},  {2, 10, 10, 2, 10, 10, 0, true},
      {1, 300, 300, 1, 12, 6, 6, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i], seed);
}

int main(void) {
  RUN(turned_queries_and_keys);
  return test_done();
}
