/* A model behind the passes of a target with tensor cores, run by the interpreter: in fp32 the
 * numbers of the plain model, in 16 bits what rounding leaves of them; its text parses back. */
#include "frontend/lang/lang.h"
#include "ir/interp.h"
#include "passes/passes.h"
#include "tests/test.h"

static vtb_unit *unit;
static vtb_module *graph;

static vtb_module *lowered(const char *target, vtb_precision precision) {
  vtb_error err = {0};
  vtb_module *m = vtb_module_clone(graph);
  vtb_pass_context c = {
      .module = m, .target = vtb_target_find(target), .precision = precision, .batch = 1};
  vtb_status status = vtb_run_pipeline(&c, &(vtb_pipeline_options){.verify_each = true}, &err);
  CHECK_MSG(status == VTB_OK, "%s in %s: %s", target, vtb_precision_names[precision], err.text);
  return m;
}

/* The first result, of arguments that are the same every time. */
static vtb_tensor run(vtb_module *m) {
  const vtb_func *f = m->entry;
  vtb_error err = {0};
  unsigned long long seed = 3;
  vtb_tensor *args = vtb_xcalloc((size_t)f->n_args, sizeof *args);
  vtb_tensor *results = vtb_xcalloc((size_t)f->n_returns, sizeof *results);
  for (int i = 0; i < f->n_args; i++) {
    double scale = f->args[i]->type.rank > 1 ? 0.2 : 0.5;
    args[i] = vtb_tensor_new(f->args[i]->type);
    for (int64_t k = 0; k < vtb_type_count(&args[i].type); k++)
      args[i].data[k] = scale * test_random(&seed);
  }
  CHECK_MSG(vtb_interpret(m->entry, args, results, NULL, &err) == VTB_OK, "%s", err.text);
  vtb_tensor first = results[0];
  for (int i = 1; i < f->n_returns; i++) vtb_tensor_free(&results[i]);
  for (int i = 0; i < f->n_args; i++) vtb_tensor_free(&args[i]);
  vtb_free(args);
  vtb_free(results);
  return first;
}

static double error_of(const vtb_tensor *got, const vtb_tensor *want) {
  double worst = 0, scale = 0;
  for (int64_t k = 0; k < vtb_type_count(&want->type); k++) {
    worst = fmax(worst, fabs(got->data[k] - want->data[k]));
    scale = fmax(scale, fabs(want->data[k]));
  }
  return worst / scale;
}

TEST(the_interpreter_runs_what_a_target_runs) {
  const struct {
    vtb_precision precision;
    double least, most;
  } runs[] = {{VTB_PRECISION_FP32, 0, 1e-10},
              {VTB_PRECISION_TF32, 1e-8, 1e-3}, /* split factors, beside recurrences */
              {VTB_PRECISION_BF16, 1e-8, 1e-3},
              {VTB_PRECISION_BF16_ALL, 1e-4, 0.2}};
  vtb_module *plain = lowered("interp", VTB_PRECISION_FP32);
  vtb_tensor want = run(plain);
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    vtb_module *m = lowered("cuda", runs[i].precision);
    vtb_tensor got = run(m);
    double error = error_of(&got, &want);
    CHECK_MSG(error >= runs[i].least && error <= runs[i].most, "%s: %g",
              vtb_precision_names[runs[i].precision], error);
    vtb_tensor_free(&got);
    vtb_module_free(m);
  }
  vtb_tensor_free(&want);
  vtb_module_free(plain);
}

TEST(its_text_parses_back) {
  vtb_module *m = lowered("cuda", VTB_PRECISION_BF16_ALL);
  vtb_strbuf first = {0}, second = {0};
  vtb_diags diags = {0};
  vtb_module_print(m, NULL, &first);
  vtb_source source = {.path = "fused.ir", .text = first.at, .n = first.n};
  vtb_module *again = vtb_module_parse(&source, &diags);
  vtb_diags_print(&diags, stderr);
  if (again) vtb_module_print(again, NULL, &second);
  CHECK(again && strcmp(first.at, second.at) == 0 && strstr(first.at, ": bf16["));
  vtb_module_free(again);
  vtb_module_free(m);
  vtb_strbuf_free(&first);
  vtb_strbuf_free(&second);
  vtb_diags_free(&diags);
}

int main(void) {
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_override set = {.name = "depth", .value = "2"};
  vtb_instantiate_options o = {.overrides = &set, .n_overrides = 1};
  unit = vtb_unit_find("vil_nano", vtb_search_default(), &diags);
  graph = unit ? vtb_instantiate(unit, "vil_nano", &o, &diags) : NULL;
  vtb_diags_print(&diags, stderr);
  if (!graph || vtb_run_pipeline(&(vtb_pass_context){.module = graph, .diags = &diags}, NULL,
                                 &err) != VTB_OK) {
    fprintf(stderr, "no model: %s\n", err.text);
    return 1;
  }
  RUN(the_interpreter_runs_what_a_target_runs);
  RUN(its_text_parses_back);
  vtb_module_free(graph);
  vtb_unit_free(unit);
  vtb_diags_free(&diags);
  return test_done();
}
