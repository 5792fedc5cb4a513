/* For interpreter tests: one-function modules from text, run on given or random tensors. */
#ifndef VTB_TESTS_INTERP_FIXTURE_H
#define VTB_TESTS_INTERP_FIXTURE_H

#include "ir/interp.h"
#include "tests/test.h"

typedef struct program {
  vtb_module *m;
  vtb_func *f;
  vtb_source source;
  char *text;
} program;

static inline program program_parse(const char *text) {
  program p = {.text = strdup(text)};
  p.source = (vtb_source){.path = "test.ir", .text = p.text, .n = strlen(p.text)};
  vtb_diags diags = {0};
  p.m = vtb_module_parse(&p.source, &diags);
  vtb_diags_print(&diags, stderr);
  vtb_diags_free(&diags);
  if (!p.m) exit(1);
  p.f = p.m->entry ? p.m->entry : p.m->first;
  return p;
}

static inline void program_free(program *p) {
  vtb_module_free(p->m);
  free(p->text);
}

static inline vtb_type bound(vtb_type t, int64_t batch) {
  for (int i = 0; i < t.rank; i++)
    if (t.dim[i].size == VTB_DYN) t.dim[i].size = batch;
  return t;
}

static inline vtb_tensor random_tensor(vtb_type t, double low, double high,
                                       unsigned long long *seed) {
  vtb_tensor x = vtb_tensor_new(t);
  for (int64_t i = 0; i < vtb_type_count(&t); i++)
    x.data[i] = low + (high - low) * (test_random(seed) + 1) / 2;
  return x;
}

static inline void run(program *p, const vtb_tensor *args, vtb_tensor *results) {
  vtb_error err = {0};
  vtb_status s = vtb_interpret(p->f, args, results, NULL, &err);
  CHECK_MSG(s == VTB_OK, "%s", err.text);
  if (s) exit(1);
}

/* Runs the function on `n_in` numbers for its first argument (and more arguments after them) and
 * compares its first result. */
static inline void check_run(const char *text, const double *const *in, const double *want,
                             int n_want, double tol) {
  program p = program_parse(text);
  vtb_tensor args[8], results[8];
  for (int i = 0; i < p.f->n_args; i++)
    args[i] = (vtb_tensor){bound(p.f->args[i]->type, 1), (double *)in[i]};
  run(&p, args, results);
  CHECK_MSG(vtb_type_count(&results[0].type) == n_want, "%s: %d results", text,
            (int)vtb_type_count(&results[0].type));
  for (int i = 0; i < n_want && i < vtb_type_count(&results[0].type); i++)
    CHECK_MSG(results[0].data[i] == want[i] || fabs(results[0].data[i] - want[i]) <= tol,
              "%s\nresult %d is %.17g, want %.17g", text, i, results[0].data[i], want[i]);
  for (int i = 0; i < p.f->n_returns; i++) vtb_tensor_free(&results[i]);
  program_free(&p);
}
#define NUMBERS(...) ((const double[]){__VA_ARGS__})
#define CHECK_RUN(text, in, want, tol)                                                             \
  check_run(text, in, want, (int)(sizeof(want) / sizeof(double)), tol)

/* <w, f(args)> for given weights of every result. */
static inline double weighted(program *p, const vtb_tensor *args, const vtb_tensor *weights) {
  vtb_tensor results[16];
  double sum = 0;
  run(p, args, results);
  for (int r = 0; r < p->f->n_returns; r++) {
    for (int64_t i = 0; i < vtb_type_count(&results[r].type); i++)
      sum += weights[r].data ? weights[r].data[i] * results[r].data[i] : 0;
    vtb_tensor_free(&results[r]);
  }
  return sum;
}

/* Central differences of <w, f(args)> in argument `which` against `adjoint`. */
static inline void check_gradient(program *p, vtb_tensor *args, const vtb_tensor *weights,
                                  int which, const vtb_tensor *adjoint, const char *what) {
  double worst = 0, h = 1e-6;
  for (int64_t i = 0; i < vtb_type_count(&adjoint->type); i++) {
    double *x = &args[which].data[i], x0 = *x;
    *x = x0 + h;
    double up = weighted(p, args, weights);
    *x = x0 - h;
    double down = weighted(p, args, weights);
    *x = x0;
    double err = fabs((up - down) / (2 * h) - adjoint->data[i]);
    if (!(err <= worst)) worst = err;
  }
  /* Central differences with h = 1e-6 carry about 1e-9 of rounding for values of order 1. */
  CHECK_MSG(worst <= 1e-7, "%s: adjoint %d is off by %g", what, which, worst);
}

#endif
