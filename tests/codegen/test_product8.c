/* Products of numbers of 8 bits against the interpreter, and bit by bit among instruction sets. */
#include "ir/int8.h"
#include "tests/codegen/codegen_check.h"

static const char *const cpus[] = {NULL,        "x86-64",    "x86-64-v2",
                                   "x86-64-v3", "x86-64-v4", "x86-64-v3-wide"};
enum { N_CPUS = sizeof cpus / sizeof *cpus };

/* @f of rows [lead, k] times weights [n, k], `add` of that type added; none: "". */
static char *text_of(const char *lead, int k, int n, const char *add) {
  static char text[4096];
  int panels = (int)vtb_int8_panels(n), groups = (int)vtb_int8_groups(k);
  snprintf(text, sizeof text,
           "func @f(%%x: f32[%s%d], %%w: f32[%d, %d]%s%s%s) -> (f32[%s%d]) {\n"
           "  %%q, %%s, %%t = quantize %%w : i32[%d, %d, 16], f32[%d, 16], i32[%d, 16]\n"
           "  %%y = product8 %%x, %%q, %%s, %%t%s {columns = %d} : f32[%s%d]\n"
           "  return %%y\n}\n",
           lead, k, n, k, *add ? ", %a: f32[" : "", add, *add ? "]" : "", lead, n, panels, groups,
           panels, panels, *add ? ", %a" : "", n, lead, n);
  return text;
}

typedef struct shape {
  const char *lead, *add;
  int k, n;
} shape;
static const shape shapes[] = {{"2, 9, ", "48", 24, 48}, {"1, ", "", 64, 10},
                               {"7, ", "7, 1", 33, 50},  {"3, 5, ", "3, 5, 19", 7, 19},
                               {"197, ", "96", 96, 96},  {"2, 2, 3, ", "3, 1", 130, 17},
                               {"", "", 4, 16},          {"230, ", "1", 20, 130},
                               {"13, ", "64", 1, 64}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

TEST(products_are_those_of_the_interpreter) {
  for (int c = 0; c < N_CPUS; c++)
    for (int i = 0; i < N_SHAPES; i += c && c != 3 ? 4 : 1) { /* bits are compared below */
      const shape *s = &shapes[i];
      check_text(s->lead, text_of(s->lead, s->k, s->n, s->add),
                 &(check_options){.cpu = cpus[c], .tolerance = 1e-6});
    }
}

/* ---- bits ------------------------------------------------------------------------------------ */

static float *random_floats(int64_t n, unsigned long long seed) {
  float *x = vtb_aligned_alloc((size_t)n * 4 + 64);
  for (int64_t i = 0; i < n; i++) x[i] = (float)test_random(&seed);
  return x;
}

/* The result of m rows; NULL where this machine has not the instructions. For free(). */
static float *product_of(const char *cpu, int m, int k, int n, float *x, float *w) {
  char lead[16];
  snprintf(lead, sizeof lead, "%d, ", m);
  vtb_module *module = parse_ir(text_of(lead, k, n, ""));
  vtb_program *p = NULL;
  vtb_error err = {0};
  vtb_func *f = vtb_module_find(module, "f");
  module->entry = f;
  vtb_status status = vtb_jit(module, f, &(vtb_codegen_options){.cpu = cpu}, &p, &err);
  CHECK_MSG(status == VTB_OK || status == VTB_E_DEVICE, "%s", err.text);
  float *y = NULL;
  if (status == VTB_OK) {
    void **all = run_program(p, 2, (void *const[]){x, w}, 2);
    y = all[2];
    free(all);
    vtb_program_free(p);
  }
  vtb_module_free(module);
  return y;
}

TEST(bits_are_those_of_every_instruction_set) {
  enum { M = 29, K = 203, N = 77 };
  float *x = random_floats(M * K, 7), *w = random_floats(N * K, 11);
  float *want = product_of(NULL, M, K, N, x, w);
  for (int c = 1; c < N_CPUS; c++) {
    float *y = product_of(cpus[c], M, K, N, x, w);
    CHECK_MSG(!y || memcmp(y, want, M * N * sizeof *y) == 0, "%s gives other bits", cpus[c]);
    free(y);
  }
  free(want), free(x), free(w);
}

TEST(a_row_has_its_bits_wherever_it_stands) {
  enum { M = 131, K = 65, N = 33 };
  float *x = random_floats(M * K, 5), *w = random_floats(N * K, 3);
  float *all = product_of(NULL, M, K, N, x, w);
  for (int r = 0; r < M; r += 13) {
    float *one = product_of(NULL, 1, K, N, x + r * K, w);
    CHECK_MSG(memcmp(one, all + r * N, N * sizeof *one) == 0, "row %d differs when alone", r);
    free(one);
  }
  free(all), free(x), free(w);
}

/* ---- what is lost ---------------------------------------------------------------------------- */

TEST(the_error_is_that_of_eight_bits) {
  enum { M = 16, K = 384, N = 64 };
  float *x = random_floats(M * K, 5), *w = random_floats(N * K, 3);
  float *y = product_of(NULL, M, K, N, x, w);
  double error = 0, size = 0;
  for (int r = 0; r < M; r++)
    for (int c = 0; c < N; c++) {
      double sum = 0;
      for (int k = 0; k < K; k++) sum += (double)x[r * K + k] * (double)w[c * K + k];
      error += (y[r * N + c] - sum) * (y[r * N + c] - sum), size += sum * sum;
    }
  double relative = sqrt(error / size); /* two roundings of 1/254 of the largest, uniform */
  CHECK_MSG(relative > 2e-3 && relative < 8e-3, "a relative error of %g", relative);
  free(x), free(w), free(y);
}

TEST(rows_of_no_numbers_give_none_and_rows_of_nothing_nothing) {
  enum { K = 40, N = 20 };
  float x[4 * K] = {0}, *w = random_floats(N * K, 3);
  for (int k = 0; k < K; k++) x[k] = x[2 * K + k] = 1, x[3 * K + k] = 1e-35f;
  x[5] = NAN, x[2 * K + 7] = -INFINITY;
  float *y = product_of(NULL, 4, K, N, x, w);
  for (int c = 0; c < N; c++)
    CHECK(isnan(y[c]) && y[N + c] == 0 && isnan(y[2 * N + c]) && y[3 * N + c] == 0);
  free(w), free(y);
}

/* A matrix that is its numbers times their scales is brought to the same numbers and scales. */
TEST(what_is_of_eight_bits_stays) {
  enum { K = 200, N = 32 };
  float x[K], *w = random_floats(N * K, 9), again[N * K];
  for (int k = 0; k < K; k++) x[k] = (float)(k % 7) - 3;
  for (int r = 0; r < N; r++) {
    int8_t q[K], same[K];
    float scale = vtb_int8_row(w + r * K, K, true, q);
    for (int k = 0; k < K; k++) again[r * K + k] = scale * (float)q[k];
    CHECK(vtb_int8_row(again + r * K, K, true, same) == scale && !memcmp(q, same, K));
  }
  float *y = product_of(NULL, 1, K, N, x, w), *z = product_of(NULL, 1, K, N, x, again);
  CHECK(memcmp(y, z, N * sizeof *y) == 0);
  free(w), free(y), free(z);
}

int main(void) {
  RUN(products_are_those_of_the_interpreter);
  RUN(bits_are_those_of_every_instruction_set);
  RUN(a_row_has_its_bits_wherever_it_stands);
  RUN(the_error_is_that_of_eight_bits);
  RUN(rows_of_no_numbers_give_none_and_rows_of_nothing_nothing);
  RUN(what_is_of_eight_bits_stays);
  return test_done();
}
