/* Gradient checks: a function in text, differentiated, against central differences of the
 * interpreter. */
#ifndef VTB_TEST_GRAD_CHECK_H
#define VTB_TEST_GRAD_CHECK_H

#include "ir/interp.h"
#include "passes/passes.h"
#include "tests/test.h"

#define GRAD_BATCH 2

static vtb_source grad_source;

static inline vtb_module *grad_parse(const char *text) {
  grad_source = (vtb_source){.path = "test.ir", .text = text, .n = strlen(text)};
  vtb_diags diags = {0};
  vtb_module *m = vtb_module_parse(&grad_source, &diags);
  if (!m) {
    vtb_diags_print(&diags, stderr);
    fprintf(stderr, "%s\n", text);
    CHECK(m != NULL);
    exit(1);
  }
  vtb_diags_free(&diags);
  vtb_error err = {0};
  CHECK_MSG(vtb_module_verify(m, &err), "%s", err.text);
  return m;
}

static inline vtb_func *grad_func(vtb_module *m, const char *name) {
  vtb_func *f = vtb_module_find(m, name);
  CHECK_MSG(f != NULL, "no function @%s", name);
  if (!f) exit(1);
  return f;
}

/* In [lo, hi), or for lo == hi in [-1, 1). */
static inline vtb_tensor grad_random(vtb_type t, double lo, double hi, unsigned long long *seed) {
  for (int a = 0; a < t.rank; a++)
    if (t.dim[a].size == VTB_DYN) t.dim[a].size = GRAD_BATCH;
  vtb_tensor x = vtb_tensor_new(t);
  if (lo == hi) lo = -1, hi = 1;
  for (int64_t i = 0; i < vtb_type_count(&t); i++) {
    x.data[i] = lo + (hi - lo) * (test_random(seed) + 1) / 2;
    if (t.dtype == VTB_I32) x.data[i] = floor(fabs(x.data[i]) * 3);
  }
  return x;
}

static inline void grad_free(vtb_tensor *t, int n) {
  for (int i = 0; i < n; i++) vtb_tensor_free(&t[i]);
  free(t);
}

static inline vtb_tensor *grad_run(vtb_func *f, const vtb_tensor *args) {
  vtb_tensor *results = vtb_xcalloc((size_t)f->n_returns + 1, sizeof *results);
  vtb_interp_options o = {.batch = GRAD_BATCH};
  vtb_error err = {0};
  vtb_status status = vtb_interpret(f, args, results, &o, &err);
  CHECK_MSG(status == VTB_OK, "@%s: %s", f->name, err.text);
  if (status != VTB_OK) exit(1);
  return results;
}

static inline double grad_dot(const vtb_tensor *x, const vtb_tensor *y) {
  double s = 0;
  for (int64_t i = 0; i < vtb_type_count(&x->type); i++) s += x->data[i] * y->data[i];
  return s;
}

/* sum over outs of <out, cotangent> */
static inline double grad_objective(vtb_func *f, const vtb_tensor *args,
                                    const vtb_tensor *cotangents) {
  vtb_tensor *r = grad_run(f, args);
  double s = 0;
  for (int i = 0; i < f->n_returns; i++) s += grad_dot(&r[i], &cotangents[i]);
  grad_free(r, f->n_returns);
  return s;
}

/* Differentiates all f32 outs in all f32 args. */
static inline vtb_func *grad_of(vtb_func *f) {
  int *outs = vtb_xcalloc((size_t)f->n_returns + 1, sizeof *outs), n_outs = 0;
  int *wrt = vtb_xcalloc((size_t)f->n_args + 1, sizeof *wrt), n_wrt = 0;
  for (int i = 0; i < f->n_returns; i++)
    if (f->returns[i]->type.dtype == VTB_F32) outs[n_outs++] = i;
  for (int i = 0; i < f->n_args; i++)
    if (f->args[i]->type.dtype == VTB_F32) wrt[n_wrt++] = i;
  vtb_func *grad = NULL;
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_status status = vtb_autodiff(f->module, f, outs, n_outs, wrt, n_wrt, &grad, &diags, &err);
  CHECK_MSG(status == VTB_OK, "@%s: %s", f->name, err.text);
  if (status != VTB_OK) exit(1);
  CHECK_MSG(vtb_module_verify(f->module, &err), "%s", err.text);
  vtb_diags_free(&diags);
  free(outs);
  free(wrt);
  return grad;
}

/* What a check of one function works on. */
typedef struct grad_case {
  vtb_func *f, *grad;
  vtb_tensor *args, *results; /* args: those of grad; results: outs, then adjoints of f32 args */
} grad_case;

static inline grad_case grad_case_new(vtb_func *f, double lo, double hi) {
  unsigned long long seed = 88172645463325252ull;
  grad_case c = {.f = f, .grad = grad_of(f)};
  c.args = vtb_xcalloc((size_t)c.grad->n_args + 1, sizeof *c.args);
  for (int i = 0; i < c.grad->n_args; i++) {
    bool cotangent = i >= f->n_args;
    c.args[i] = grad_random(c.grad->args[i]->type, cotangent ? 0 : lo, cotangent ? 0 : hi, &seed);
  }
  c.results = grad_run(c.grad, c.args);
  return c;
}

static inline void grad_case_free(grad_case *c) {
  grad_free(c->results, c->grad->n_returns);
  grad_free(c->args, c->grad->n_args);
}

/* Compares every adjoint (at most 60 elements of each) with central differences. */
static inline void grad_compare(grad_case *c, double tolerance) {
  const vtb_tensor *cotangents = c->args + c->f->n_args;
  int k = c->f->n_returns;
  for (int i = 0; i < c->f->n_args; i++) {
    if (c->f->args[i]->type.dtype != VTB_F32) continue;
    vtb_tensor *x = &c->args[i], *d = &c->results[k++];
    CHECK_MSG(vtb_type_equal(&x->type, &d->type), "adjoint of %%%s has another shape",
              c->f->args[i]->name);
    int64_t n = vtb_type_count(&x->type), stride = n / 60 + 1;
    for (int64_t e = 0; e < n; e += stride) {
      double old = x->data[e], h = 1e-5;
      x->data[e] = old + h;
      double up = grad_objective(c->f, c->args, cotangents);
      x->data[e] = old - h;
      double down = grad_objective(c->f, c->args, cotangents);
      x->data[e] = old;
      double want = (up - down) / (2 * h), got = d->data[e];
      CHECK_MSG(fabs(got - want) <= tolerance * (1 + fabs(want)),
                "@%s: d_%s[%lld] = %.12g, differences give %.12g", c->f->name, c->f->args[i]->name,
                (long long)e, got, want);
    }
  }
}

/* The whole check for @f of a text. Also: the outputs of the gradient function are those of f. */
static inline void grad_check_text(const char *text, const char *name, double lo, double hi) {
  vtb_module *m = grad_parse(text);
  vtb_func *f = grad_func(m, name);
  grad_case c = grad_case_new(f, lo, hi);
  grad_compare(&c, 1e-6);
  vtb_tensor *plain = grad_run(f, c.args);
  for (int r = 0; r < f->n_returns; r++)
    for (int64_t e = 0; e < vtb_type_count(&plain[r].type); e++)
      CHECK_NEAR(c.results[r].data[e], plain[r].data[e], 1e-13);
  grad_free(plain, f->n_returns);
  grad_case_free(&c);
  vtb_module_free(m);
}

static inline int grad_count_ops(const vtb_func *f, vtb_op op) {
  int n = 0;
  for (vtb_inst *inst = f->first; inst; inst = inst->next) n += inst->op == op;
  return n;
}

/* Gradients, results from `first` on of a function made by vtb_autodiff, against central
 * differences of `before` in about `some` elements of each of its n_args arguments; behind those,
 * args has the cotangents of its first n_outs results. */
static inline void grad_differences(vtb_func *before, vtb_tensor *args, int n_args, int n_outs,
                                    const vtb_tensor *results, int first, int some,
                                    unsigned long long seed, const char *what) {
  for (int i = 0; i < n_args; i++) {
    int64_t n = vtb_type_count(&args[i].type), stride = n / some + 1;
    for (int64_t k = (int64_t)((test_random(&seed) + 1) / 2 * (double)stride); k < n; k += stride) {
      double old = args[i].data[k], h = 1e-5, sum[2];
      for (int side = 0; side < 2; side++) {
        args[i].data[k] = old + (side ? h : -h);
        vtb_tensor *y = grad_run(before, args);
        sum[side] = 0;
        for (int o = 0; o < n_outs; o++) sum[side] += grad_dot(&y[o], &args[n_args + o]);
        grad_free(y, before->n_returns);
      }
      args[i].data[k] = old;
      double want = (sum[1] - sum[0]) / (2 * h), got = results[first + i].data[k];
      CHECK_MSG(fabs(got - want) <= 2e-6 * (1 + fabs(want)),
                "d_%s[%lld] = %.10g, differences give %.10g, %s", before->args[i]->name,
                (long long)k, got, want, what);
    }
  }
}

#endif
