/* attention and attention_grad: machine code against the interpreter, over ragged shapes, shared
 * heads, biases, causal order, views of one tensor, and logits far beyond what exp can take. */
#include "tests/codegen/codegen_check.h"

#include <stdio.h>

typedef struct attention_case {
  const char *name;
  int B, N, M, h, g, K, V;
  const char *bias;  /* its shape, NULL for none */
  const char *attrs; /* beside the flags of the adjoint */
  double range;      /* of operands */
} attention_case;

static const attention_case cases[] = {
    {"one token", 1, 1, 1, 1, 1, 1, 1, NULL, "", 1},
    {"odd sizes", 2, 7, 7, 3, 3, 5, 6, NULL, "scale = 0.4", 1},
    {"whole vectors", 1, 16, 16, 2, 2, 16, 16, NULL, "scale = 0.25", 1},
    {"an image's tokens", 1, 197, 197, 3, 3, 64, 64, NULL, "scale = 0.125", 1},
    {"several tiles of keys", 1, 50, 613, 2, 2, 12, 20, NULL, "scale = 0.3", 1},
    {"few keys", 2, 61, 3, 4, 4, 8, 8, NULL, "", 1},
    {"shared keys and values", 2, 33, 20, 6, 2, 9, 7, NULL, "scale = 0.5", 1},
    {"causal", 2, 67, 67, 2, 2, 8, 8, NULL, "causal = 1, scale = 0.5", 1},
    {"causal, more keys", 1, 19, 530, 2, 1, 8, 8, NULL, "causal = 1", 1},
    {"causal, queries that see nothing", 1, 110, 60, 2, 2, 8, 4, NULL, "causal = 1", 1},
    {"bias for all", 2, 10, 13, 4, 4, 8, 8, "f32[10, 13]", "scale = 0.5", 1},
    {"bias by head", 2, 49, 49, 6, 6, 8, 8, "f32[3, 49, 49]", "scale = 0.5", 1},
    {"bias by sample", 2, 9, 300, 4, 2, 8, 8, "f32[2, 1, 9, 300]", "causal = 1", 1},
    {"extreme logits", 1, 40, 270, 2, 2, 16, 8, NULL, "scale = 3.0", 40},
    {"extreme bias", 1, 40, 21, 2, 2, 4, 8, "f32[2, 40, 21]", "", 300},
};
#define N_CASES (sizeof cases / sizeof *cases)

static void shapes(const attention_case *a, char *y, char *lse, size_t size) {
  snprintf(y, size, "f32[%d, %d, %d, %d]", a->B, a->N, a->h, a->V);
  snprintf(lse, size, "f32[%d, %d, %d]", a->B, a->N, a->h);
}

static void check_forward(const attention_case *a) {
  char y[80], lse[80], name[120];
  shapes(a, y, lse, sizeof y);
  snprintf(name, sizeof name, "attention, %s", a->name);
  check_format(name, &(check_options){.low = -a->range, .high = a->range},
               "func @f(%%q: f32[%d, %d, %d, %d], %%k: f32[%d, %d, %d, %d], %%v: f32[%d, %d, %d, "
               "%d]%s%s) -> (%s, %s) {\n"
               "  %%y, %%l = attention %%q, %%k, %%v%s {%s} : %s, %s\n  return %%y, %%l\n}\n",
               a->B, a->N, a->h, a->K, a->B, a->M, a->g, a->K, a->B, a->M, a->g, a->V,
               a->bias ? ", %b: " : "", a->bias ? a->bias : "", y, lse, a->bias ? ", %b" : "",
               a->attrs, y, lse);
}

/* y and lse are those of the forward op, so that probabilities are what they are in a model. */
static void check_adjoint(const attention_case *a, bool dlse) {
  char y[80], lse[80], name[120];
  shapes(a, y, lse, sizeof y);
  snprintf(name, sizeof name, "attention_grad, %s%s", a->name, dlse ? ", with dlse" : "");
  const char *b = a->bias ? a->bias : "";
  check_format(name, &(check_options){.low = -a->range, .high = a->range, .tolerance = 1e-4},
               "func @f(%%q: f32[%d, %d, %d, %d], %%k: f32[%d, %d, %d, %d], %%v: f32[%d, %d, %d, "
               "%d], %%dy: %s, %%dl: %s%s%s)"
               " -> (f32[%d, %d, %d, %d], f32[%d, %d, %d, %d], f32[%d, %d, %d, %d]%s%s) {\n"
               "  %%y, %%l = attention %%q, %%k, %%v%s {%s} : %s, %s\n"
               "  %%dq, %%dk, %%dv%s = attention_grad %%q, %%k, %%v%s, %%y, %%l, %%dy%s {%s%s%s%s} "
               ": f32[%d, %d, %d, %d], "
               "f32[%d, %d, %d, %d], f32[%d, %d, %d, %d]%s%s\n"
               "  return %%dq, %%dk, %%dv%s\n}\n",
               a->B, a->N, a->h, a->K, a->B, a->M, a->g, a->K, a->B, a->M, a->g, a->V, y, lse,
               a->bias ? ", %b: " : "", b, a->B, a->N, a->h, a->K, a->B, a->M, a->g, a->K, a->B,
               a->M, a->g, a->V, a->bias ? ", " : "", b, a->bias ? ", %b" : "", a->attrs, y, lse,
               a->bias ? ", %db" : "", a->bias ? ", %b" : "", dlse ? ", %dl" : "", a->attrs,
               *a->attrs && (dlse || a->bias) ? ", " : "",
               dlse ? (a->bias ? "dlse = 1, " : "dlse = 1") : "",
               a->bias ? "bias = 1, dbias = 1" : "", a->B, a->N, a->h, a->K, a->B, a->M, a->g, a->K,
               a->B, a->M, a->g, a->V, a->bias ? ", " : "", b, a->bias ? ", %db" : "");
}

TEST(forward_matches_the_interpreter) {
  for (size_t i = 0; i < N_CASES; i++) check_forward(&cases[i]);
}

TEST(adjoints_match_the_interpreter) {
  for (size_t i = 0; i < N_CASES; i++) check_adjoint(&cases[i], i % 2);
}

/* Queries, keys and values as slices of one product, heads inside: what models have. */
TEST(views_of_one_tensor) {
  check_text(
      "slices of qkv",
      "func @f(%x: f32[2, 20, 72], %dy: f32[2, 20, 2, 12]) -> (f32[2, 20, 2, 12], f32[2, 20, 2, "
      "12]) {\n"
      "  %a = slice %x {axis = 2, start = 0, limit = 24} : f32[2, 20, 24]\n"
      "  %b = slice %x {axis = 2, start = 24, limit = 48} : f32[2, 20, 24]\n"
      "  %c = slice %x {axis = 2, start = 48, limit = 72} : f32[2, 20, 24]\n"
      "  %q = reshape %a {shape = [2, 20, 2, 12]} : f32[2, 20, 2, 12]\n"
      "  %k = reshape %b {shape = [2, 20, 2, 12]} : f32[2, 20, 2, 12]\n"
      "  %v = reshape %c {shape = [2, 20, 2, 12]} : f32[2, 20, 2, 12]\n"
      "  %y, %l = attention %q, %k, %v {scale = 0.3} : f32[2, 20, 2, 12], f32[2, 20, 2]\n"
      "  %dq, %dk, %dv = attention_grad %q, %k, %v, %y, %l, %dy {scale = 0.3} : f32[2, 20, 2, 12], "
      "f32[2, 20, 2, 12], f32[2, 20, 2, 12]\n"
      "  return %y, %dk\n}\n",
      NULL);
  check_text("heads first in memory",
             "func @f(%x: f32[2, 3, 9, 8]) -> (f32[2, 9, 3, 8]) {\n"
             "  %q = transpose %x {perm = [0, 2, 1, 3]} : f32[2, 9, 3, 8]\n"
             "  %y, %l = attention %q, %q, %q : f32[2, 9, 3, 8], f32[2, 9, 3]\n  return %y\n}\n",
             NULL);
}

/* Keys shut out by a bias of -inf, for one query all of them. */
TEST(masked_keys) {
  check_text(
      "masks",
      "func @f(%q: f32[2, 3, 2, 4], %dy: f32[2, 3, 2, 4]) -> (f32[2, 3, 2, 4], f32[2, 3, 2], "
      "f32[2, 3, 2, 4], "
      "f32[2, 3, 2, 4]) {\n"
      "  %z = constant {data = [0, 0, 1, 1, 0, 0, 1, 1, 1]} : f32[3, 3]\n"
      "  %one = constant {value = -1.0} : f32[]\n  %zero = constant {value = 0.0} : f32[]\n"
      "  %inf = div %one, %zero : f32[]\n  %b = select %z, %inf, %zero : f32[3, 3]\n"
      "  %y, %l = attention %q, %q, %q, %b : f32[2, 3, 2, 4], f32[2, 3, 2]\n"
      "  %dq, %dk, %dv = attention_grad %q, %q, %q, %b, %y, %l, %dy {bias = 1} : f32[2, 3, 2, 4], "
      "f32[2, 3, 2, 4], f32[2, 3, 2, 4]\n"
      "  return %y, %l, %dq, %dk\n}\n",
      NULL);
}

int main(void) {
  RUN(forward_matches_the_interpreter);
  RUN(adjoints_match_the_interpreter);
  RUN(views_of_one_tensor);
  RUN(masked_keys);
  return test_done();
}
