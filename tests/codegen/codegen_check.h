/* Helpers of the code generation tests: a function of IR text through the interpreter and through
 * the JIT, on the same random arguments, with the workspace poisoned, for one, two and three
 * threads, as it stands and after fusion. */
#ifndef VTB_TEST_CODEGEN_CHECK_H
#define VTB_TEST_CODEGEN_CHECK_H

#include "codegen/codegen.h"
#include "ir/interp.h"
#include "runtime/launch/threads.h"
#include "tests/test.h"

static inline vtb_module *parse_ir(const char *text) {
  static vtb_source sources[8]; /* must outlive their modules; tests keep two at most */
  static int n;
  vtb_source *source = &sources[n++ % 8];
  *source = (vtb_source){.path = "<test>", .text = text, .n = strlen(text)};
  vtb_diags d = {0};
  vtb_module *m = vtb_module_parse(source, &d);
  if (!m) vtb_diags_print(&d, stderr);
  CHECK_MSG(m != NULL, "the IR does not parse:\n%s", text);
  vtb_diags_free(&d);
  return m;
}

typedef struct check_options {
  double tolerance; /* relative to the largest magnitude of the output; 0: 2e-5 */
  double low, high; /* of random arguments; both 0: -1 and 1 */
  int max_index;    /* i32 arguments are in [0, max_index); 0: 7 */
  const char *cpu;
  bool no_opt;
} check_options;

static inline void fill_argument(vtb_tensor *t, unsigned long long *seed, const check_options *o) {
  double low = o->low, high = o->high;
  if (low == 0 && high == 0) low = -1, high = 1;
  for (int64_t i = 0; i < vtb_type_count(&t->type); i++) {
    double u = (test_random(seed) + 1) / 2;
    t->data[i] = t->type.dtype == VTB_I32 ? floor(u * (o->max_index ? o->max_index : 7))
                                          : (float)(low + u * (high - low));
  }
}

static inline void *native_copy(const vtb_tensor *t) {
  int64_t n = vtb_type_count(&t->type);
  float *p = vtb_aligned_alloc((size_t)n * 4 + 64);
  for (int64_t i = 0; i < n; i++) {
    if (t->type.dtype == VTB_F32)
      p[i] = (float)t->data[i];
    else
      ((int32_t *)p)[i] = (int32_t)t->data[i];
  }
  return p;
}

/* The program's results for `args` (n_args pointers), fresh buffers with NaN in all of the
 * workspace and results. */
static inline void **run_program(const vtb_program *p, int n_args, void *const *args, int threads) {
  void **all = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *all);
  memcpy(all, args, (size_t)n_args * sizeof *args);
  for (int r = n_args; r < p->n_tensors; r++) {
    size_t bytes = (size_t)vtb_tensor_info_count(&p->tensors[r]) * 4;
    all[r] = vtb_aligned_alloc(bytes + 64);
    memset(all[r], 0xff, bytes + 64); /* a NaN pattern; the 64 bytes after it must stay */
  }
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  memset(workspace, 0xff, (size_t)p->workspace_bytes + 64);
  vtb_services *s = vtb_services_default(threads);
  CHECK(vtb_program_execute(p, all, workspace, s, NULL) == VTB_OK);
  vtb_services_free(s);
  for (size_t i = 0; i < 64; i++)
    CHECK_MSG(((unsigned char *)workspace)[p->workspace_bytes + (int64_t)i] == 0xff,
              "workspace overrun");
  for (int r = n_args; r < p->n_tensors; r++) {
    size_t bytes = (size_t)vtb_tensor_info_count(&p->tensors[r]) * 4;
    for (size_t i = 0; i < 64; i++)
      CHECK_MSG(((unsigned char *)all[r])[bytes + i] == 0xff, "result %d overrun", r - n_args);
  }
  free(workspace);
  return all;
}

static inline void compare_result(const char *what, int r, const void *got, const vtb_tensor *want,
                                  double tolerance) {
  int64_t n = vtb_type_count(&want->type), worst = 0;
  double scale = 0, worst_error = -1;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(want->data[i]) && fabs(want->data[i]) > scale) scale = fabs(want->data[i]);
  for (int64_t i = 0; i < n; i++) {
    double g = want->type.dtype == VTB_F32 ? (double)((const float *)got)[i]
                                           : (double)((const int32_t *)got)[i];
    double w = (double)(float)want->data[i];
    double error = (isnan(g) && isnan(w)) || g == w ? 0 : fabs(g - w);
    if (isnan(error)) error = INFINITY;
    if (error > worst_error) worst_error = error, worst = i;
  }
  double g = want->type.dtype == VTB_F32 ? (double)((const float *)got)[worst]
                                         : (double)((const int32_t *)got)[worst];
  CHECK_MSG(worst_error <= tolerance * (scale > 0 ? scale : 1),
            "%s: result %d element %lld is %.9g, want %.9g (error %.3g of scale %.3g)", what, r,
            (long long)worst, g, want->data[worst], worst_error, scale);
}

static inline void check_function(vtb_module *m, vtb_func *f, const char *what,
                                  const check_options *o) {
  vtb_error err = {0};
  unsigned long long seed = 88172645463325252ull;
  vtb_tensor *args = vtb_xcalloc((size_t)f->n_args + 1, sizeof *args);
  vtb_tensor *want = vtb_xcalloc((size_t)f->n_returns + 1, sizeof *want);
  void **native = vtb_xcalloc((size_t)f->n_args + 1, sizeof *native);
  for (int a = 0; a < f->n_args; a++) {
    args[a] = vtb_tensor_new(f->args[a]->type);
    fill_argument(&args[a], &seed, o);
    native[a] = native_copy(&args[a]);
  }
  vtb_status status = vtb_interpret(f, args, want, &(vtb_interp_options){.batch = 1}, &err);
  CHECK_MSG(status == VTB_OK, "%s: %s", what, err.text);
  vtb_program *p = NULL;
  vtb_codegen_options options = {.cpu = o->cpu, .no_opt = o->no_opt || test_is_quick()};
  if (status == VTB_OK) {
    status = vtb_jit(m, f, &options, &p, &err);
    CHECK_MSG(status == VTB_OK, "%s: %s", what, err.text);
  }
  if (p) {
    void **first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
      void **got = run_program(p, f->n_args, native, threads);
      for (int r = 0; r < f->n_returns; r++) {
        void *mine = got[f->n_args + r];
        if (!first) {
          compare_result(what, r, mine, &want[r], o->tolerance > 0 ? o->tolerance : 2e-5);
          continue;
        }
        size_t bytes = (size_t)vtb_type_count(&want[r].type) * 4;
        CHECK_MSG(memcmp(mine, first[f->n_args + r], bytes) == 0,
                  "%s: result %d differs with %d threads", what, r, threads);
      }
      if (first) {
        for (int r = 0; r < f->n_returns; r++) free(got[f->n_args + r]);
        free(got);
      } else {
        first = got;
      }
    }
    for (int r = 0; r < f->n_returns; r++) free(first[f->n_args + r]);
    free(first);
    vtb_program_free(p);
  }
  for (int a = 0; a < f->n_args; a++) {
    vtb_tensor_free(&args[a]);
    free(native[a]);
  }
  for (int r = 0; r < f->n_returns; r++)
    if (want[r].data) vtb_tensor_free(&want[r]);
  free(args);
  free(want);
  free(native);
}

/* Function @f of the text, as it stands and (if it has no kernels of its own) fused. */
static inline void check_text(const char *what, const char *text, const check_options *o) {
  static const check_options defaults = {0};
  if (!o) o = &defaults;
  vtb_module *m = parse_ir(text);
  if (!m) return;
  vtb_func *f = vtb_module_find(m, "f");
  CHECK_MSG(f != NULL, "%s: no @f", what);
  m->entry = f;
  check_function(m, f, what, o);
  if (!strstr(text, "kernel @")) {
    vtb_error err = {0};
    vtb_diags d = {0};
    char name[200];
    snprintf(name, sizeof name, "%s (fused)", what);
    vtb_pass_context c = {.module = m, .diags = &d, .batch = 1};
    vtb_status status = vtb_run_pipeline(
        &c, &(vtb_pipeline_options){.pipeline = "fuse", .verify_each = true}, &err);
    CHECK_MSG(status == VTB_OK, "%s: %s", name, err.text);
    if (status == VTB_OK) check_function(m, f, name, o);
    vtb_diags_free(&d);
  }
  vtb_module_free(m);
}

/* The same with numbers put into a format. */
__attribute__((format(printf, 3, 4))) static inline void
check_format(const char *what, const check_options *o, const char *format, ...) {
  static char text[16384];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  check_text(what, text, o);
}

#endif
