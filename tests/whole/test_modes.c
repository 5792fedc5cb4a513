/* Which form each preset's recurrences take on each target: decided by the costs of the target's
 * row and, on CUDA, by what launches take on the machine (passes/recurrence/select_mode.c); held
 * here so that a change of a number is seen. */
#include "frontend/lang/lang.h"
#include "ir/ops.h"
#include "passes/passes.h"
#include "tests/test.h"

typedef struct decision {
  const char *target; /* "cuda@a100": on that machine */
  vtb_precision precision;
  int64_t batch;
  const char *mode;
  int64_t chunk;
} decision;

static vtb_module *graph_of(vtb_unit *unit, const char *model, const char *image) {
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_override set = {.name = "image", .value = image};
  vtb_instantiate_options o = {.overrides = &set, .n_overrides = 1};
  vtb_module *m = vtb_instantiate(unit, model, &o, &diags);
  vtb_pass_context c = {.module = m, .diags = &diags};
  CHECK_MSG(m && vtb_run_pipeline(&c, NULL, &err) == VTB_OK, "%s: %s", model, err.text);
  vtb_diags_free(&diags);
  return m;
}

static void check(const vtb_module *graph, const char *what, const decision *d) {
  vtb_error err = {0};
  vtb_module *m = vtb_module_clone(graph);
  const char *machine = strchr(d->target, '@');
  char target[32];
  snprintf(target, sizeof target, "%.*s", (int)strcspn(d->target, "@"), d->target);
  vtb_pass_context c = {
      .module = m, .target = vtb_target_find(target), .precision = d->precision, .batch = d->batch};
  int scans = 0;
  if (machine) c.gpu = *vtb_gpu_find(machine + 1);
  CHECK(vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = "bind,select_mode"}, &err) ==
        VTB_OK);
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next) {
      if (i->op != VTB_OP_linscan) continue;
      const char *mode = vtb_attr_str(i, "mode", "");
      int64_t chunk = vtb_attr_int(i, "chunk", 0);
      scans++;
      CHECK_MSG(vtb_streq(mode, d->mode) && chunk == d->chunk,
                "%s on %s in %s, batch %d: %s(%d), not %s(%d)", what, d->target,
                vtb_precision_names[d->precision], (int)d->batch, mode, (int)chunk, d->mode,
                (int)d->chunk);
    }
  CHECK_MSG(scans > 0, "%s has no recurrence", what);
  vtb_module_free(m);
}

static void check_all(const char *model, const char *image, const decision *d) {
  vtb_diags diags = {0};
  vtb_unit *unit = vtb_unit_find(model, vtb_search_default(), &diags);
  vtb_module *m = unit ? graph_of(unit, model, image) : NULL;
  CHECK_MSG(m != NULL, "%s", model);
  for (; m && d->target; d++) check(m, model, d);
  vtb_module_free(m);
  vtb_unit_free(unit);
  vtb_diags_free(&diags);
}

#define FP32 VTB_PRECISION_FP32
#define BF16 VTB_PRECISION_BF16
#define BF16_ALL VTB_PRECISION_BF16_ALL

/* 12 heads of 64 x 64 with one decay: operations alone say chunks from 144 tokens on, bytes later.
 * */
TEST(vir_base_at_197_tokens_is_parallel_on_cuda) {
  check_all("vir_base", "224x224",
            (const decision[]){{"interp", FP32, 1, "chunkwise", 16},
                               {"cpu", FP32, 1, "chunkwise", 16},
                               {"cpu", FP32, 32, "chunkwise", 16},
                               {"cuda", FP32, 32, "parallel", 0},
                               {"cuda", BF16_ALL, 32, "parallel", 0},
                               {"cuda", BF16_ALL, 128, "parallel", 0},
                               {"cuda@a100", BF16_ALL, 128, "parallel", 0},
                               {"cuda@b200", BF16_ALL, 128, "parallel", 0},
                               {"cuda-emulated", FP32, 1, "parallel", 0},
                               {0}});
}

TEST(vir_base_at_1025_tokens_goes_by_chunks_once_the_machine_is_full) {
  check_all("vir_base", "512x512",
            (const decision[]){{"cpu", FP32, 1, "chunkwise", 16},
                               {"cuda", FP32, 1, "parallel", 0},
                               {"cuda", FP32, 32, "chunkwise", 64},
                               {"cuda", BF16_ALL, 1, "parallel", 0},
                               {"cuda", BF16_ALL, 32, "chunkwise", 256},
                               {"cuda@a100", BF16_ALL, 32, "chunkwise", 256},
                               {0}});
}

/* 4 heads with wide states, whose way to memory and back is what chunks cost: three products of
 * tf32 for each of fp32 cost more than that, one of bf16 less. */
TEST(vil_base_at_1024_tokens) {
  check_all("vil_base", "512x512",
            (const decision[]){{"cpu", FP32, 1, "chunkwise", 32},
                               {"cuda", FP32, 32, "chunkwise", 64},
                               {"cuda", BF16, 32, "parallel", 0},
                               {"cuda", BF16_ALL, 32, "parallel", 0},
                               {"cuda@a100", BF16_ALL, 32, "parallel", 0},
                               {0}});
}

TEST(vil_tiny_at_196_tokens) {
  check_all("vil_tiny", "224x224",
            (const decision[]){{"cpu", FP32, 1, "parallel", 0},
                               {"cuda", FP32, 32, "parallel", 0},
                               {"cuda", BF16_ALL, 1, "parallel", 0},
                               {0}});
}

TEST(selective_scans_run_step_by_step) {
  check_all("vim_tiny", "224x224",
            (const decision[]){
                {"cpu", FP32, 1, "recurrent", 0}, {"cuda", FP32, 32, "recurrent", 0}, {0}});
}

int main(void) {
  RUN(vir_base_at_197_tokens_is_parallel_on_cuda);
  RUN(vir_base_at_1025_tokens_goes_by_chunks_once_the_machine_is_full);
  RUN(vil_base_at_1024_tokens);
  RUN(vil_tiny_at_196_tokens);
  RUN(selective_scans_run_step_by_step);
  return test_done();
}
