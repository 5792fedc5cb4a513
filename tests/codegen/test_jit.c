/* The host program: calls, returns, constants, kernels shared between instructions, timing calls,
 * text, errors. */
#include "tests/codegen/codegen_check.h"

TEST(values_may_be_returned_in_any_way) {
  check_text("returns",
             "func @f(%x: f32[3, 4], %i: i32[5]) -> (f32[3, 4], f32[3, 4], f32[3, 4], f32[4, 3], "
             "f32[2, 2], i32[5], "
             "f32[12], f32[3]) {\n"
             "  %y = neg %x : f32[3, 4]\n"
             "  %t = transpose %y {perm = [1, 0]} : f32[4, 3]\n"
             "  %c = constant {data = [1, 2, 3, 4]} : f32[2, 2]\n"
             "  %s = constant {value = 2.5} : f32[3]\n"
             "  %r = reshape %x {shape = [12]} : f32[12]\n"
             "  return %y, %x, %y, %t, %c, %i, %r, %s\n}\n",
             NULL);
}

static const char *const with_calls =
    "func @inner(%x: f32[4, 6], %w: f32[6]) -> (f32[4, 6], f32[6]) {\n"
    "  %e = exp %x : f32[4, 6]\n"
    "  %s = reduce_sum %e {axes = [0]} : f32[6]\n"
    "  %q = square %e : f32[4, 6]\n"
    "  %y = mul %q, %w : f32[4, 6]\n"
    "  return %y, %s\n}\n"
    "func @block(%x: f32[4, 6], %w: f32[6]) -> (f32[4, 6]) {\n"
    "  %y, %s = call @inner(%x, %w) : f32[4, 6], f32[6]\n"
    "  %z, %t = call @inner(%y, %s) : f32[4, 6], f32[6]\n"
    "  %u = mul %z, %t : f32[4, 6]\n"
    "  %v = add %u, %y : f32[4, 6]\n"
    "  return %v\n}\n"
    "func @f(%x: f32[6, 4], %w: f32[2, 6]) -> (f32[4, 6], f32[4, 6]) {\n"
    "  %t = transpose %x {perm = [1, 0]} : f32[4, 6]\n"
    "  %s = slice %w {axis = 0, start = 1, limit = 2} : f32[1, 6]\n"
    "  %r = reshape %s {shape = [6]} : f32[6]\n"
    "  %a = call @block(%t, %r) : f32[4, 6]\n"
    "  %b = call @block(%a, %r) : f32[4, 6]\n"
    "  return %b, %a\n}\n";

TEST(calls_nest_and_take_views) {
  check_text("calls", with_calls, &(check_options){.low = -0.5, .high = 0.3});
}

TEST(unoptimised_code_agrees) {
  check_text("calls", with_calls, &(check_options){.low = -0.5, .high = 0.3, .no_opt = true});
}

TEST(structured_ops_take_strided_views) {
  check_text("strided maxplus",
             "func @f(%x: f32[2, 5, 12]) -> (f32[2, 5, 6]) {\n"
             "  %a = slice %x {axis = 2, start = 0, limit = 12, step = 2} : f32[2, 5, 6]\n"
             "  %b = slice %x {axis = 2, start = 1, limit = 12, step = 2} : f32[2, 5, 6]\n"
             "  %m = maxplus %a, %b : f32[2, 5, 6]\n"
             "  return %m\n}\n",
             NULL);
}

static vtb_program *compile(const char *text, const vtb_codegen_options *o, vtb_module **m) {
  vtb_error err = {0};
  vtb_program *p = NULL;
  *m = parse_ir(text);
  vtb_status status = vtb_jit(*m, vtb_module_find(*m, "f"), o, &p, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  return p;
}

TEST(equal_instructions_share_a_kernel) {
  vtb_module *m;
  vtb_program *p = compile(with_calls, NULL, &m);
  int exps = 0, launches = 0;
  for (int k = 0; k < p->n_kernels; k++) {
    if (!vtb_streq(p->kernels[k].ops, "exp")) continue;
    exps++;
    launches = p->kernels[k].launches;
    CHECK(p->kernels[k].bytes == 2 * 24 * 4);
  }
  CHECK(exps == 1);
  CHECK(launches == 4);
  CHECK(p->n_tensors == 4);
  CHECK(vtb_program_find(p, "w") == 1);
  CHECK(p->tensors[1].rank == 2 && p->tensors[1].dim[1] == 6);
  CHECK(p->tensors[2].io == VTB_IO_OUTPUT);
  CHECK(p->compile_seconds > 0);
  vtb_program_free(p);
  vtb_module_free(m);
}

TEST(kernels_are_timed_when_asked) {
  vtb_module *m;
  vtb_program *p = compile(with_calls, &(vtb_codegen_options){.profile = true}, &m);
  void *buffers[5] = {0};
  for (int i = 0; i < 4; i++) buffers[i] = memset(vtb_aligned_alloc(256), 0, 256);
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  vtb_services *s = vtb_services_profiling(1, p->n_kernels);
  CHECK(vtb_program_execute(p, buffers, workspace, s, NULL) == VTB_OK);
  int n;
  const vtb_kernel_time *times = vtb_services_times(s, &n);
  CHECK(n == p->n_kernels);
  for (int k = 0; k < n; k++)
    CHECK_MSG(times[k].launches == p->kernels[k].launches, "%s", p->kernels[k].name);
  vtb_services_free(s);
  vtb_services *plain = vtb_services_default(1);
  CHECK(vtb_program_execute(p, buffers, workspace, plain, NULL) ==
        VTB_OK); /* services without timing are fine */
  vtb_services_free(plain);
  free(workspace);
  for (int i = 0; i < 4; i++) free(buffers[i]);
  vtb_program_free(p);
  vtb_module_free(m);
}

TEST(text_for_every_cpu_level) {
  static const struct {
    const char *cpu, *vector;
  } levels[] = {{"x86-64", "<4 x float>"},
                {"x86-64-v3", "<8 x float>"},
                {"x86-64-v4", "<16 x float>"},
                {"aarch64", "<4 x float>"},
                {"host", "x float>"}};
  vtb_module *m = parse_ir(
      "func @f(%x: f32[64, 33]) -> (f32[64, 33]) {\n  %y = exp %x : f32[64, 33]\n  return %y\n}\n");
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    vtb_strbuf text = {0};
    vtb_error err = {0};
    vtb_codegen_options o = {.cpu = levels[i].cpu};
    vtb_status status = vtb_codegen_text(m, vtb_module_find(m, "f"), &o, false, &text, &err);
    CHECK_MSG(status == VTB_OK, "%s", err.text);
    CHECK_MSG(text.at && strstr(text.at, levels[i].vector), "%s has no %s", levels[i].cpu,
              levels[i].vector);
    CHECK(text.at && strstr(text.at, "@vtb_entry"));
    vtb_strbuf_free(&text);
    status = vtb_codegen_text(m, vtb_module_find(m, "f"), &o, true, &text, &err);
    CHECK(status == VTB_OK && text.at && strstr(text.at, "vtb_entry:"));
    vtb_strbuf_free(&text);
  }
  vtb_module_free(m);
}

/* Every width must give the right numbers; those this machine lacks are skipped, and said so. */
TEST(narrower_code_runs_too) {
  static const char *const cpus[] = {"x86-64", "x86-64-v3", "x86-64-v3-wide", "x86-64-v4"};
  for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
    vtb_module *m = parse_ir(with_calls);
    vtb_error err = {0};
    vtb_program *p = NULL;
    vtb_codegen_options o = {.cpu = cpus[i]};
    if (vtb_jit(m, vtb_module_find(m, "f"), &o, &p, &err) == VTB_E_DEVICE) {
      printf("skipped: this machine does not run %s\n", cpus[i]);
    } else {
      vtb_program_free(p);
      check_text(cpus[i], with_calls, &(check_options){.low = -0.5, .high = 0.3, .cpu = cpus[i]});
    }
    vtb_module_free(m);
  }
}

/* A machine of another architecture computes x * y + z as one rounding of a whole vector. */
TEST(code_for_another_architecture) {
  vtb_module *m = parse_ir(with_calls);
  vtb_codegen_options o = {.cpu = "aarch64"};
  vtb_strbuf text = {0};
  vtb_error err = {0};
  CHECK(vtb_codegen_text(m, vtb_module_find(m, "f"), &o, true, &text, &err) == VTB_OK);
  CHECK(text.at && strstr(text.at, "fmla\tv") && strstr(text.at, ".4s, v"));
  vtb_strbuf_free(&text);
#if !defined(__aarch64__)
  vtb_program *p = NULL;
  CHECK(vtb_jit(m, vtb_module_find(m, "f"), &o, &p, &err) == VTB_E_DEVICE);
  CHECK(strstr(err.text, "cannot run code for cpu aarch64") != NULL);
#endif
  vtb_module_free(m);
}

TEST(errors_are_reported) {
  vtb_module *m =
      parse_ir("func @f(%x: f32[4]) -> (f32[4]) {\n  %y = exp %x : f32[4]\n  return %y\n}\n");
  vtb_program *p = NULL;
  vtb_error err = {0};
  CHECK(vtb_jit(m, vtb_module_find(m, "f"), &(vtb_codegen_options){.cpu = "pentium"}, &p, &err) ==
        VTB_E_USAGE);
  CHECK(strstr(err.text, "pentium") != NULL);
  vtb_module_free(m);
  m = parse_ir(
      "func @f(%x: f32[B, 4]) -> (f32[B, 4]) {\n  %y = exp %x : f32[B, 4]\n  return %y\n}\n");
  err = (vtb_error){0};
  CHECK(vtb_jit(m, vtb_module_find(m, "f"), NULL, &p, &err) == VTB_E_INTERNAL);
  vtb_module_free(m);
  m = parse_ir(
      "func @f(%x: f32[4]) -> (f32[4]) {\n  %y = tap %x {name = \"t\"} : f32[4]\n  return %y\n}\n");
  err = (vtb_error){0};
  CHECK(vtb_jit(m, vtb_module_find(m, "f"), NULL, &p, &err) == VTB_E_INTERNAL);
  CHECK(p == NULL);
  vtb_module_free(m);
}

int main(void) {
  RUN(values_may_be_returned_in_any_way);
  RUN(calls_nest_and_take_views);
  RUN(unoptimised_code_agrees);
  RUN(structured_ops_take_strided_views);
  RUN(equal_instructions_share_a_kernel);
  RUN(kernels_are_timed_when_asked);
  RUN(text_for_every_cpu_level);
  RUN(narrower_code_runs_too);
  RUN(code_for_another_architecture);
  RUN(errors_are_reported);
  return test_done();
}
