/* The bytes that a plan says its launches move are those that they touch: every block of small
 * models' launches runs in the emulator, and the distinct bytes are counted. */
#include "codegen/emulator/audit.h"
#include "frontend/compile/driver.h"
#include "tests/test.h"

static vtb_launch_plan *plan_of(const char *model, bool training, const char *const *defines,
                                size_t n_defines) {
  vtb_compile_options o = {.size = sizeof o,
                           .model = model,
                           .defines = defines,
                           .n_defines = n_defines,
                           .target = "cuda-emulated",
                           .precision = "bf16-all",
                           .library = VTB_LIBRARY_NO,
                           .training = training,
                           .optimizer = training ? "adamw" : NULL,
                           .batch = 2};
  vtb_report *r = vtb_report_new();
  vtb_compilation c, lowered;
  vtb_codegen_options code;
  vtb_launch_plan *plan = NULL;
  const vtb_target *target = vtb_target_find(o.target);
  vtb_status status = vtb_compilation_load(&c, &o, NULL, r);
  if (status == VTB_OK) status = vtb_compilation_graph(&c);
  if (status == VTB_OK && training) status = vtb_compilation_train(&c);
  if (status == VTB_OK) status = vtb_compile_code(target, &o, &code, &r->error);
  CHECK_MSG(status == VTB_OK, "%s: %s", model, vtb_report_error(r));
  if (status == VTB_OK) {
    status = vtb_compilation_lower(&c, target, &code, o.batch, &lowered);
    vtb_module *m = lowered.module;
    if (status == VTB_OK)
      status = vtb_backend_of(target)->plan(m, m->entry, &code, &plan, &r->error);
    CHECK_MSG(status == VTB_OK, "%s: %s", model, vtb_report_error(r));
    vtb_compilation_free(&lowered);
  }
  vtb_compilation_free(&c);
  vtb_report_free(r);
  return plan;
}

/* Kernels with arguments that they do not touch: dv needs no v, the verdict one float of each
 * tensor's part, and an update nothing if the verdict is no. */
static bool reads_less(const char *kernel) {
  return vtb_starts_with(kernel, "attention_dv_") || vtb_starts_with(kernel, "verdict_") ||
         vtb_starts_with(kernel, "adamw_");
}
/* The history of a scan's states is written and read again within the launch. */
static bool reads_its_own(const char *kernel) { return strstr(kernel, "_grad_") != NULL; }

static void check_row(const char *what, const vtb_audit *a, const vtb_audit_row *r) {
  const char *name = a->plan->kernels[a->plan->steps[r->step].index].name;
  int64_t said = r->moved.read + r->moved.written, is = r->counts.block_useful;
  double slack = reads_less(name) ? (double)said : 0.02 * (double)said + 256;
  int64_t most = said + (reads_its_own(name) ? r->moved.written : 0);
  CHECK_MSG(is <= most && (double)said <= (double)is + slack,
            "%s, step %d, %s: touches %lld bytes, the plan says %lld", what, r->step, name,
            (long long)is, (long long)said);
}

static void check_model(const char *model, bool training) {
  static const char *const two[] = {"depth=2"};
  vtb_error err = {0};
  vtb_audit a;
  vtb_launch_plan *p = plan_of(model, training, two, 1);
  if (!p) return;
  vtb_status status = vtb_audit_plan(p, 0, true, &a, &err);
  CHECK_MSG(status == VTB_OK, "%s: %s", model, err.text);
  for (size_t i = 0; status == VTB_OK && i < a.rows.n; i++)
    if (a.rows.at[i].counted) check_row(model, &a, &a.rows.at[i]);
  if (status == VTB_OK) vtb_audit_free(&a);
  vtb_launch_plan_free(p);
}

TEST(forward) { check_model("vir_nano", false); }

TEST(training) {
  check_model("vil_nano", true);
  check_model("vim_nano", true);
  check_model("vit_nano", true);
}

int main(void) {
  vtb_error err = {0};
  setenv("XDG_CACHE_HOME", VTB_BINARY_DIR "/test-cache", 1);
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  if (!vtb_emulator_available(NULL, &err)) {
    printf("skipped: %s\n", err.text);
    return 77;
  }
  RUN(forward);
  RUN(training);
  return test_done();
}
