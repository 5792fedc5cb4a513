/* Every row of ir/scalar_ops.def as one function of a module, its operands the samples of the row's
 * range: for tests that hold a target's forms to the interpreter. */
#ifndef VTB_TEST_SCALAR_OPS_H
#define VTB_TEST_SCALAR_OPS_H

#include "ir/interp.h"
#include "ir/ops.h"
#include "runtime/launch/threads.h"
#include "tests/scalar_samples.h"

typedef struct scalar_rows {
  vtb_module *m;
  vtb_func *f;
  int n;
  vtb_op op[VTB_OP_COUNT];
  int first_arg[VTB_OP_COUNT];
} scalar_rows;

static inline scalar_rows scalar_rows_new(void) {
  scalar_rows s = {.m = vtb_module_new("rows")};
  vtb_value *results[VTB_OP_COUNT];
  vtb_span none = {0};
  s.f = vtb_func_new(s.m, "f", VTB_FUNC_PLAIN, none);
  vtb_builder b = {.module = s.m, .func = s.f};
  vtb_type type = vtb_type_make(VTB_F32, 1, (int64_t[]){N_SCALAR_SAMPLES});
  EACH_SCALAR_OP(op, row) {
    vtb_value *x[VTB_SCALAR_OPERANDS];
    s.op[s.n] = op;
    s.first_arg[s.n] = s.f->n_args;
    for (int k = 0; k < row->n_operands; k++) x[k] = vtb_func_add_arg(s.f, "x", type);
    results[s.n++] = vtb_build(&b, op, x, row->n_operands, NULL, 0)->results[0];
  }
  vtb_func_set_returns(s.f, results, NULL, s.n);
  s.m->entry = s.f;
  return s;
}

static inline void scalar_rows_fill(const scalar_rows *s, float **tensors) {
  for (int o = 0; o < s->n; o++) {
    const vtb_scalar *row = vtb_scalar_get(s->op[o]);
    for (int i = 0; i < N_SCALAR_SAMPLES; i++) {
      double x[VTB_SCALAR_OPERANDS];
      scalar_sample(row, i, x);
      for (int k = 0; k < row->n_operands; k++) tensors[s->first_arg[o] + k][i] = (float)x[k];
    }
  }
}

/* Within 5e-6 of the value, or of the operands where they are small; 5e-6 where terms may cancel.
 */
static inline void scalar_rows_compare(const scalar_rows *s, float *const *tensors) {
  for (int o = 0; o < s->n; o++) {
    const vtb_scalar *row = vtb_scalar_get(s->op[o]);
    for (int i = 0; i < N_SCALAR_SAMPLES; i++) {
      double x[VTB_SCALAR_OPERANDS], largest = 0;
      scalar_sample(row, i, x);
      for (int k = 0; k < row->n_operands; k++) largest = fmax(largest, fabs(x[k]));
      float want = (float)vtb_scalar_eval(s->op[o], x), got = tensors[s->f->n_args + o][i];
      double tolerance = 5e-6 * fmax(fabs((double)want), fmin(1, largest));
      CHECK_MSG(got == want || fabs((double)got - (double)want) <= tolerance,
                "%s(%.9g, %.9g, %.9g) is %.9g, not %.9g", vtb_op_get(s->op[o])->name, x[0], x[1],
                x[2], (double)got, (double)want);
    }
  }
}

/* Runs the program on the samples and compares. */
static inline void scalar_rows_check(const scalar_rows *s, const vtb_program *p) {
  float **tensors = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *tensors);
  for (int i = 0; i < p->n_tensors; i++)
    tensors[i] = vtb_aligned_alloc(N_SCALAR_SAMPLES * sizeof(float) + 64);
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  vtb_services *services = vtb_services_default(1);
  scalar_rows_fill(s, tensors);
  CHECK(vtb_program_execute(p, (void **)tensors, workspace, services, NULL) == VTB_OK);
  scalar_rows_compare(s, tensors);
  vtb_services_free(services);
  for (int i = 0; i < p->n_tensors; i++) free(tensors[i]);
  free(workspace);
  free(tensors);
}

#endif
