/* Helpers of the pass tests: IR text through a pipeline, and functions compared through the
 * interpreter. */
#ifndef VTB_TEST_PASS_CHECK_H
#define VTB_TEST_PASS_CHECK_H

#include "ir/interp.h"
#include "passes/passes.h"
#include "tests/test.h"

/* Sources outlive the modules whose spans point at them: all are kept until the program ends. */
typedef struct kept_source {
  vtb_source source;
  struct kept_source *next;
} kept_source;
static kept_source *kept_sources;

/* NULL and a failed check if the text is wrong. */
static inline vtb_module *parse_ir(const char *text) {
  kept_source *kept = vtb_xcalloc(1, sizeof *kept);
  vtb_source *source = &kept->source;
  *source = (vtb_source){.path = "<test>", .text = text, .n = strlen(text)};
  kept->next = kept_sources;
  kept_sources = kept;
  vtb_diags d = {0};
  vtb_module *m = vtb_module_parse(source, &d);
  if (!m) vtb_diags_print(&d, stderr);
  CHECK_MSG(m != NULL, "the IR does not parse:\n%s", text);
  vtb_diags_free(&d);
  return m;
}

static inline bool run_passes_in(vtb_pass_context *c, const char *pipeline) {
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_pipeline_options o = {.pipeline = pipeline, .verify_each = true};
  c->diags = &d;
  vtb_status status = vtb_run_pipeline(c, &o, &err);
  if (status) vtb_diags_print(&d, stderr);
  CHECK_MSG(status == VTB_OK, "%s: %s", pipeline, err.text);
  vtb_diags_free(&d);
  c->diags = NULL;
  return status == VTB_OK;
}

static inline bool run_passes(vtb_module *m, const char *pipeline) {
  return run_passes_in(&(vtb_pass_context){.module = m, .batch = 2}, pipeline);
}

static inline char *print_ir(const vtb_module *m) {
  vtb_strbuf s = {0};
  vtb_module_print(m, NULL, &s);
  return s.at ? s.at : vtb_xstrdup("");
}

static inline int count_ops(const vtb_module *m, vtb_op op) {
  int n = 0;
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *inst = f->first; inst; inst = inst->next) n += inst->op == op;
  return n;
}

/* Both texts are IR; they are printed by the same printer before they are compared. */
static inline void check_pass(const char *file, int line, const char *pipeline, const char *before,
                              const char *after) {
  vtb_module *m = parse_ir(before), *want = parse_ir(after);
  if (m && want && run_passes(m, pipeline)) {
    char *got_text = print_ir(m), *want_text = print_ir(want);
    if (strcmp(got_text, want_text) != 0)
      test_fail_(file, line, "%s:\n--- got\n%s\n--- want\n%s", pipeline, got_text, want_text);
    free(got_text);
    free(want_text);
  }
  if (m) vtb_module_free(m);
  if (want) vtb_module_free(want);
}
#define CHECK_PASS(pipeline, before, after) check_pass(__FILE__, __LINE__, pipeline, before, after)

/* Kernels may round what they multiply elsewhere than the steps before them: compared is what is
 * computed without. */
static inline void forget_precision(vtb_module *m) {
  for (vtb_func *f = m->first; f; f = f->next)
    for (vtb_inst *inst = f->first; inst; inst = inst->next) vtb_attr_remove(inst, "precision");
}

/* The pass leaves the text alone. */
#define CHECK_KEPT(pipeline, text) CHECK_PASS(pipeline, text, text)

static inline vtb_tensor *random_args(const vtb_func *f, int64_t batch, unsigned long long seed) {
  vtb_tensor *args = vtb_xcalloc((size_t)f->n_args + 1, sizeof *args);
  for (int i = 0; i < f->n_args; i++) {
    vtb_type t = f->args[i]->type;
    for (int a = 0; a < t.rank; a++)
      if (t.dim[a].size == VTB_DYN) t.dim[a].size = batch;
    args[i] = vtb_tensor_new(t);
    for (int64_t k = 0; k < vtb_type_count(&t); k++) args[i].data[k] = test_random(&seed);
  }
  return args;
}

static inline void free_tensors(vtb_tensor *t, int n) {
  for (int i = 0; i < n; i++) vtb_tensor_free(&t[i]);
  free(t);
}

/* The entry's results; NULL after a failed check. */
static inline vtb_tensor *interpret(vtb_module *m, const vtb_tensor *args, int64_t batch) {
  vtb_error err = {0};
  vtb_tensor *results = vtb_xcalloc((size_t)m->entry->n_returns + 1, sizeof *results);
  vtb_status status =
      vtb_interpret(m->entry, args, results, &(vtb_interp_options){.batch = batch}, &err);
  CHECK_MSG(status == VTB_OK, "interpreter: %s", err.text);
  if (status == VTB_OK) return results;
  free(results);
  return NULL;
}

/* Largest |x - y| / (1 + |y|); infinite if a NaN is in either. */
static inline double largest_error(const vtb_tensor *x, const vtb_tensor *y) {
  double worst = 0;
  for (int64_t k = 0; k < vtb_type_count(&y->type); k++) {
    double e = fabs(x->data[k] - y->data[k]) / (1 + fabs(y->data[k]));
    if (!(e <= worst)) worst = e;
    if (e != e) return INFINITY;
  }
  return worst;
}

/* The largest error of all results of `after` against those of `before` on the same random
 * arguments. */
static inline double compare_modules(vtb_module *before, vtb_module *after,
                                     unsigned long long seed) {
  vtb_tensor *args = random_args(before->entry, 2, seed);
  vtb_tensor *want = interpret(before, args, 2), *got = interpret(after, args, 2);
  double worst = want && got ? 0 : INFINITY;
  for (int i = 0; want && got && i < before->entry->n_returns; i++)
    worst = fmax(worst, largest_error(&got[i], &want[i]));
  if (want) free_tensors(want, before->entry->n_returns);
  if (got) free_tensors(got, after->entry->n_returns);
  free_tensors(args, before->entry->n_args);
  return worst;
}

#endif
