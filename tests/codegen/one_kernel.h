/* Runs a function by the interpreter and as machine code, and compares: used by the tests of single
 * kernels.
 *
 * The workspace, the results and every thread's scratch memory hold NaN beforehand, so that a
 * kernel that reads what it has not written fails. The program runs split over one, two and three
 * ranges a task, and all bits must agree.
 */
#ifndef VTB_TEST_ONE_KERNEL_H
#define VTB_TEST_ONE_KERNEL_H

#include <sys/mman.h>

#include "codegen/codegen.h"
#include "ir/interp.h"
#include "tests/test.h"

#define KERNEL_PAGE ((size_t)4096)

/* Bytes of NaN right before a page without access; a float's alignment only. kernel_free needs the
 * size again. */
static void *kernel_alloc(size_t bytes) {
  size_t pages = (bytes + KERNEL_PAGE - 1) / KERNEL_PAGE * KERNEL_PAGE;
  char *at =
      mmap(NULL, pages + KERNEL_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || mprotect(at + pages, KERNEL_PAGE, PROT_NONE) != 0) exit(3);
  memset(at, 0xff, pages);
  return at + (pages - bytes);
}

static void kernel_free(void *p, size_t bytes) {
  size_t pages = (bytes + KERNEL_PAGE - 1) / KERNEL_PAGE * KERNEL_PAGE;
  munmap((char *)p - (pages - bytes), pages + KERNEL_PAGE);
}

static struct {
  void *at;
  size_t bytes;
} kernel_scratch;

static void *kernel_scratch_fn(const vtb_services *s, int64_t bytes) {
  (void)s;
  if (kernel_scratch.at) kernel_free(kernel_scratch.at, kernel_scratch.bytes);
  kernel_scratch.bytes = ((size_t)bytes + 63) / 64 * 64;
  kernel_scratch.at = kernel_alloc(kernel_scratch.bytes);
  return kernel_scratch.at;
}

/* Last range first: tasks may not lean on their order. */
static void kernel_parallel_fn(const vtb_services *s, vtb_task_fn fn, void *closure, int64_t n,
                               int64_t grain) {
  int64_t units = (n + grain - 1) / grain,
          share = (units + s->n_threads - 1) / s->n_threads * grain;
  if (share < 1) return;
  for (int64_t begin = (n - 1) / share * share; begin >= 0; begin -= share)
    fn(closure, begin, begin + share < n ? begin + share : n);
}

static int64_t kernel_count(const vtb_type *t) { return vtb_type_count(t); }

static vtb_program *kernel_compile(vtb_module *m, vtb_func *f, const char *what) {
  vtb_error err = {0};
  vtb_program *p = NULL;
  CHECK_MSG(vtb_module_verify(m, &err), "%s: %s", what, err.text);
  if (vtb_jit(m, f, &(vtb_codegen_options){.no_opt = test_is_quick()}, &p, &err) != VTB_OK) {
    CHECK_MSG(false, "%s: %s", what, err.text);
    return NULL;
  }
  return p;
}

/* args: f32 values as doubles. out: n_returns arrays from kernel_alloc. */
static void kernel_run(const vtb_program *p, const vtb_func *f, const vtb_tensor *args,
                       int n_threads, float **out) {
  vtb_services s = {.size = sizeof s,
                    .n_threads = n_threads,
                    .parallel = kernel_parallel_fn,
                    .scratch = kernel_scratch_fn};
  void **pointers = vtb_xcalloc((size_t)(f->n_args + f->n_returns), sizeof *pointers);
  for (int i = 0; i < f->n_args + f->n_returns; i++) {
    int64_t n = kernel_count(i < f->n_args ? &args[i].type : &f->returns[i - f->n_args]->type);
    float *at = kernel_alloc((size_t)n * sizeof *at);
    for (int64_t k = 0; i < f->n_args && k < n; k++) at[k] = (float)args[i].data[k];
    pointers[i] = at;
    if (i >= f->n_args) out[i - f->n_args] = at;
  }
  size_t workspace_bytes = ((size_t)p->workspace_bytes + 63) / 64 * 64;
  void *workspace = kernel_alloc(workspace_bytes);
  p->entry(pointers, workspace, &s);
  for (int i = 0; i < f->n_args; i++)
    kernel_free(pointers[i], (size_t)kernel_count(&args[i].type) * sizeof(float));
  kernel_free(workspace, workspace_bytes);
  free(pointers);
}

static void kernel_compare(const vtb_func *f, int r, const float *got, const vtb_tensor *want,
                           double tol, const char *what) {
  double scale = 0, worst = 0;
  int64_t at = 0, n = kernel_count(&want->type);
  for (int64_t k = 0; k < n; k++)
    scale = fmax(scale, fabs(isinf(want->data[k]) ? 0 : want->data[k]));
  for (int64_t k = 0; k < n; k++) {
    double error = got[k] == want->data[k] ? 0 : fabs(got[k] - want->data[k]);
    if (!(error <= worst)) worst = isnan(error) ? HUGE_VAL : error, at = k;
  }
  CHECK_MSG(worst <= tol * scale + 1e-15,
            "%s: result %d of %d, element %lld: %.9g, want %.9g (largest %.3g)", what, r,
            f->n_returns, (long long)at, (double)got[at], want->data[at], scale);
}

/* Compares all results within tol of each result's largest value. */
static inline void kernel_check(vtb_module *m, vtb_func *f, const vtb_tensor *args, double tol,
                                const char *what) {
  vtb_error err = {0};
  vtb_tensor *want = vtb_xcalloc((size_t)f->n_returns, sizeof *want);
  float *first[16] = {0}, *again[16] = {0};
  vtb_program *p = kernel_compile(m, f, what);
  if (p && vtb_interpret(f, args, want, NULL, &err) == VTB_OK) {
    kernel_run(p, f, args, 1, first);
    for (int r = 0; r < f->n_returns; r++) kernel_compare(f, r, first[r], &want[r], tol, what);
    for (int n_threads = 2; n_threads <= 3; n_threads++) {
      kernel_run(p, f, args, n_threads, again);
      for (int r = 0; r < f->n_returns; r++) {
        size_t bytes = (size_t)kernel_count(&want[r].type) * sizeof(float);
        CHECK_MSG(memcmp(first[r], again[r], bytes) == 0, "%s: result %d depends on the threads",
                  what, r);
        kernel_free(again[r], bytes);
      }
    }
    for (int r = 0; r < f->n_returns; r++) {
      kernel_free(first[r], (size_t)kernel_count(&want[r].type) * sizeof(float));
      vtb_tensor_free(&want[r]);
    }
  } else {
    CHECK_MSG(false, "%s: %s", what, err.text);
  }
  free(want);
  if (p) vtb_program_free(p);
}

/* A tensor of f32 values scale * [-1, 1) + shift. */
static inline vtb_tensor kernel_random(vtb_type type, unsigned long long *seed, double scale,
                                       double shift) {
  vtb_tensor t = vtb_tensor_new(type);
  for (int64_t k = 0; k < kernel_count(&type); k++)
    t.data[k] = (float)(scale * test_random(seed) + shift);
  return t;
}

#endif
