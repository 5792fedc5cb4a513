/* cublasLt without a GPU, beside fake_cuda.c: products of fp32 in host memory, at once, when the
 * test's fake_lt_before has seen to what is before them on the stream. It refuses a heuristic
 * before the bias is known, and offers the candidates that the test asks for: those whose state is
 * not 0 cannot be run.
 *
 *   fake_lt_states = {15, 0}; fake_lt_n = 2; fake_lt_fail_number = 3;        found by dlsym
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 7, INTERNAL = 14, NOT_SUPPORTED = 15, MOST = 8 };
enum { TRANS_A = 3, TRANS_B = 4, EPILOGUE = 7, BIAS = 8, EPILOGUE_BIAS = 4 };
int fake_lt_states[MOST], fake_lt_n = 1, fake_lt_alive, fake_lt_used = -1, fake_lt_wanted;
int fake_lt_times[MOST], *fake_lt_clock; /* what each takes; the clock of fake_cuda */
int fake_lt_products;                    /* so many were made */
void (*fake_lt_before)(void *stream);
int fake_lt_fail_number; /* so many calls from now on, one fails */

typedef struct product {
  int32_t trans_a, trans_b;
  uint32_t epilogue;
  const float *bias;
} product;
typedef struct layout {
  uint64_t rows, columns;
  int64_t leading;
} layout;
typedef struct choice {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
} choice;

static int is_to_fail(void) { return fake_lt_fail_number && --fake_lt_fail_number == 0; }

static int make(void **out, size_t n) {
  if (is_to_fail()) return INTERNAL;
  *out = calloc(1, n);
  fake_lt_alive++;
  return OK;
}
static int drop(void *what) {
  if (!what) return INVALID;
  free(what);
  fake_lt_alive--;
  return OK;
}

size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) { return 120401; }
int cublasLtCreate(void **handle);
int cublasLtCreate(void **handle) { return make(handle, 8); }
int cublasLtDestroy(void *handle);
int cublasLtDestroy(void *handle) { return drop(handle); }

int cublasLtMatmulDescCreate(void **out, int compute, int scale);
int cublasLtMatmulDescCreate(void **out, int compute, int scale) {
  (void)compute, (void)scale;
  return make(out, sizeof(product));
}
int cublasLtMatmulDescDestroy(void *p);
int cublasLtMatmulDescDestroy(void *p) { return drop(p); }
int cublasLtMatmulDescSetAttribute(void *to, int attribute, const void *value, size_t n);
int cublasLtMatmulDescSetAttribute(void *to, int attribute, const void *value, size_t n) {
  product *p = to;
  void *at = attribute == TRANS_A    ? (void *)&p->trans_a
             : attribute == TRANS_B  ? (void *)&p->trans_b
             : attribute == EPILOGUE ? (void *)&p->epilogue
             : attribute == BIAS     ? (void *)&p->bias
                                     : NULL;
  if (is_to_fail()) return INTERNAL;
  if (!at || n != (attribute == BIAS ? 8u : 4u)) return INVALID;
  memcpy(at, value, n);
  return OK;
}

int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t lead);
int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns,
                               int64_t lead) {
  (void)type;
  int status = make(out, sizeof(layout));
  if (status == OK) *(layout *)*out = (layout){rows, columns, lead};
  return status;
}
int cublasLtMatrixLayoutDestroy(void *l);
int cublasLtMatrixLayoutDestroy(void *l) { return drop(l); }
int cublasLtMatrixLayoutSetAttribute(void *l, int attribute, const void *value, size_t n);
int cublasLtMatrixLayoutSetAttribute(void *l, int attribute, const void *value, size_t n) {
  (void)l, (void)attribute, (void)value, (void)n;
  return NOT_SUPPORTED; /* no batches */
}

int cublasLtMatmulPreferenceCreate(void **out);
int cublasLtMatmulPreferenceCreate(void **out) { return make(out, 8); }
int cublasLtMatmulPreferenceDestroy(void *p);
int cublasLtMatmulPreferenceDestroy(void *p) { return drop(p); }
int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t n);
int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t n) {
  (void)attribute, (void)n;
  if (is_to_fail()) return INTERNAL;
  return p && value ? OK : INVALID;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *what, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, choice *choices, int *found);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *what, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, choice *choices, int *found) {
  const product *p = what;
  if (is_to_fail()) return INTERNAL;
  if (!handle || !a || !b || !c || !d || !preference) return INVALID;
  if (p->epilogue == EPILOGUE_BIAS && !p->bias) return INVALID;
  fake_lt_wanted = wanted;
  *found = fake_lt_n < wanted ? fake_lt_n : wanted;
  for (int i = 0; i < *found; i++)
    choices[i] = (choice){.algorithm = {(uint64_t)i}, .state = fake_lt_states[i]};
  return OK;
}

/* Element (i, j) of a matrix by columns, or of its transpose. */
static float at(const float *m, const layout *l, int trans, uint64_t i, uint64_t j) {
  return trans ? m[j + i * (uint64_t)l->leading] : m[i + j * (uint64_t)l->leading];
}

int cublasLtMatmul(void *handle, void *what, const void *alpha, uint64_t a, void *a_layout,
                   uint64_t b, void *b_layout, const void *beta, uint64_t c, void *c_layout,
                   uint64_t d, void *d_layout, const void *algorithm, uint64_t workspace,
                   size_t workspace_bytes, void *stream);
int cublasLtMatmul(void *handle, void *what, const void *alpha, uint64_t a, void *a_layout,
                   uint64_t b, void *b_layout, const void *beta, uint64_t c, void *c_layout,
                   uint64_t d, void *d_layout, const void *algorithm, uint64_t workspace,
                   size_t workspace_bytes, void *stream) {
  const product *p = what;
  const layout *la = a_layout, *lb = b_layout, *ld = d_layout;
  uint64_t number, depth = p->trans_a ? la->rows : la->columns;
  memcpy(&number, algorithm, sizeof number);
  if (is_to_fail()) return INTERNAL;
  if (!handle || !workspace || !workspace_bytes || !stream || c != d || c_layout != d_layout)
    return INVALID;
  if (number >= (uint64_t)fake_lt_n || fake_lt_states[number]) return NOT_SUPPORTED;
  fake_lt_used = (int)number;
  fake_lt_products++;
  if (fake_lt_clock) *fake_lt_clock += fake_lt_times[number];
  if (fake_lt_before) fake_lt_before(stream);
  float *to = (float *)(uintptr_t)d;
  for (uint64_t j = 0; j < ld->columns; j++)
    for (uint64_t i = 0; i < ld->rows; i++) {
      float sum = 0, *out = &to[i + j * (uint64_t)ld->leading];
      for (uint64_t k = 0; k < depth; k++)
        sum += at((const float *)(uintptr_t)a, la, p->trans_a, i, k) *
               at((const float *)(uintptr_t)b, lb, p->trans_b, k, j);
      *out = *(const float *)alpha * sum + (*(const float *)beta == 0 ? 0 : *out) +
             (p->epilogue == EPILOGUE_BIAS ? p->bias[i] : 0);
    }
  return OK;
}
