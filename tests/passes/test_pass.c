/* The pass manager, and the passes that rewrite in place: taps, bind, select_mode. */
#include "tests/passes/pass_check.h"
#include "ir/ops.h"

#define T "f32[B, N=3]"
static const char *const small = "entry func @f(%x: " T ") -> (" T ") {\n%a = neg %x : " T
                                 "\n%r = neg %a : " T "\nreturn %r\n}\n";

static void note(void *said, const char *text) { vtb_strbuf_puts(said, text); }

static vtb_status run_text(const char *pipeline, const char *print_after, vtb_strbuf *said,
                           vtb_error *err) {
  vtb_module *m = parse_ir(small);
  vtb_pass_context c = {.module = m, .batch = 2};
  vtb_status s = vtb_run_pipeline(&c,
                                  &(vtb_pipeline_options){.pipeline = pipeline,
                                                          .print_after = print_after,
                                                          .say = said ? note : NULL,
                                                          .user = said,
                                                          .verify_each = true},
                                  err);
  vtb_module_free(m);
  return s;
}

static void check_usage(const char *pipeline, const char *says) {
  vtb_error err = {0};
  CHECK(run_text(pipeline, NULL, NULL, &err) == VTB_E_USAGE);
  CHECK_MSG(strstr(err.text, says), "\"%s\" is not in \"%s\"", says, err.text);
}

TEST(pipelines_are_checked) {
  vtb_error err = {0};
  CHECK(run_text("simplify,cse{any text},dce", NULL, NULL, &err) == VTB_OK);
  CHECK(run_text("", NULL, NULL, &err) == VTB_OK);
  CHECK(run_text(NULL, NULL, NULL, &err) == VTB_OK);
  check_usage("simplfy", "did you mean \"simplify\"");
  check_usage("simplify,", "no pass is named \"\"");
  check_usage("cse{x", "no closing brace");
  check_usage("cse{x}dce", "a comma must follow");
  check_usage("autodiff", "no gradient is asked for");
  check_usage("update", "there is no optimiser");
  CHECK(run_text("cse", "nothing", NULL, &err) == VTB_E_USAGE);
}

TEST(every_pass_can_be_found) {
  static const char *const names[] = {
#define X(name, summary) #name,
#define M(name, summary) #name,
#define F(name, summary) #name,
#include "passes/passes.def"
#undef X
#undef M
#undef F
  };
  vtb_error err = {0};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    CHECK(run_text("cse", names[i], NULL, &err) == VTB_OK);
}

static char *dump_of(const char *print_after) {
  vtb_strbuf said = {0};
  vtb_error err = {0};
  CHECK(run_text("simplify,dce", print_after, &said, &err) == VTB_OK);
  return said.at;
}

TEST(modules_are_printed_after_passes) {
  char *one = dump_of("simplify"), *all = dump_of("all");
  CHECK(strstr(one, "// after simplify") && !strstr(one, "// after dce") &&
        strstr(one, "return %x"));
  CHECK(strstr(all, "// after simplify") && strstr(all, "// after dce"));
  free(one);
  free(all);
}

TEST(bind_replaces_the_batch_everywhere) {
  CHECK_PASS("bind",
             "entry func @f(%x: f32[B, 3]) -> (f32[B, 3, 4]) {\n%r = reshape %x {shape = [-1, 3, "
             "1]} : f32[B, 3, 1]\n"
             "%b = broadcast %r {shape = [-1, 3, 4]} : f32[B, 3, 4]\nreturn %b\n}\n",
             "entry func @f(%x: f32[B=2, 3]) -> (f32[B=2, 3, 4]) {\n%r = reshape %x {shape = [2, "
             "3, 1]} : f32[B=2, 3, 1]\n"
             "%b = broadcast %r {shape = [2, 3, 4]} : f32[B=2, 3, 4]\nreturn %b\n}\n");
  vtb_module *m = parse_ir(small);
  vtb_error err = {0};
  vtb_pass_context c = {.module = m};
  CHECK(vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = "bind"}, &err) == VTB_E_USAGE);
  vtb_module_free(m);
}

static const char *const tapped =
    "func @g(%x: " T ") -> (" T ") {\n%a = neg %x : " T "\n%t = tap %a {name = \"inner\"} : " T
    "\n%r = exp %t : " T "\nreturn %r\n}\n"
    "func @h(%x: " T ") -> (" T ") {\n%r = call @g(%x) : " T "\nreturn %r\n}\n"
    "entry func @f(%x: " T ") -> (" T " \"y\") {\n%o = tap %x {name = \"outer\"} : " T
    "\n%r = call @h(%o) : " T "\nreturn %r\n}\n";

TEST(taps_are_removed) {
  CHECK_PASS(
      "taps", tapped,
      "func @g(%x: " T ") -> (" T ") {\n%a = neg %x : " T "\n%r = exp %a : " T "\nreturn %r\n}\n"
      "func @h(%x: " T ") -> (" T ") {\n%r = call @g(%x) : " T "\nreturn %r\n}\n"
      "entry func @f(%x: " T ") -> (" T " \"y\") {\n%r = call @h(%x) : " T "\nreturn %r\n}\n");
}

TEST(kept_taps_are_returned_outward) {
  vtb_module *before = parse_ir(tapped), *m = parse_ir(tapped);
  vtb_pass_context c = {.module = m, .keep_taps = true};
  if (!before || !m || !run_passes_in(&c, "taps,simplify,cse,dce")) return;
  CHECK(count_ops(m, VTB_OP_tap) == 0 && m->entry->n_returns == 3);
  CHECK_STR(m->entry->return_names[0], "y");
  CHECK_STR(m->entry->return_names[1], "tap:outer");
  CHECK_STR(m->entry->return_names[2], "tap:inner");
  vtb_tensor *args = random_args(m->entry, 2, 4), *r = interpret(m, args, 2);
  for (int k = 0; r && k < 6; k++) {
    CHECK_NEAR(r[0].data[k], exp(-args[0].data[k]), 1e-15);
    CHECK_NEAR(r[1].data[k], args[0].data[k], 0);
    CHECK_NEAR(r[2].data[k], -args[0].data[k], 0);
  }
  if (r) free_tensors(r, 3);
  free_tensors(args, 1);
  vtb_module_free(before), vtb_module_free(m);
}

TEST(a_tap_called_twice_gets_a_suffix) {
  vtb_module *m = parse_ir("func @g(%x: " T ") -> (" T ") {\n%a = neg %x : " T
                           "\n%t = tap %a {name = \"a\"} : " T "\nreturn %t\n}\n"
                           "entry func @f(%x: " T ") -> (" T ") {\n%p = call @g(%x) : " T
                           "\n%q = call @g(%p) : " T "\nreturn %q\n}\n");
  vtb_pass_context c = {.module = m, .keep_taps = true};
  if (!m || !run_passes_in(&c, "taps")) return;
  CHECK_STR(m->entry->return_names[1], "tap:a");
  CHECK_STR(m->entry->return_names[2], "tap:a#2");
  vtb_module_free(m);
}

static void check_choice(const char *text, const char *override, int64_t chunk, const char *mode,
                         int64_t want_chunk) {
  vtb_module *m = parse_ir(text);
  vtb_pass_context c = {.module = m, .batch = 2, .mode = override, .chunk = chunk};
  if (!m || !run_passes_in(&c, "select_mode")) return;
  CHECK_STR(vtb_attr_str(m->entry->first, "mode", ""), mode);
  CHECK(vtb_attr_int(m->entry->first, "chunk", 0) == want_chunk);
  vtb_module_free(m);
}

/* The mode that is chosen for a scan of T tokens with K = V = size. */
static void check_mode(const char *klass, int size, const char *dims, int tokens, const char *attrs,
                       const char *override, int64_t chunk, const char *mode, int64_t want_chunk) {
  char text[700];
  snprintf(text, sizeof text,
           "entry func @f(%%q: f32[2, %d, 1, %d], %%d: f32[%s]) -> (f32[2, %d, 1, %d]) {\n%%y, %%s "
           "= linscan %%q, %%q, "
           "%%q, %%d {class = \"%s\"%s} : "
           "f32[2, %d, 1, %d], f32[2, 1, %d, %d]\nreturn %%y\n}\n",
           tokens, size, dims, tokens, size, klass, attrs, tokens, size, size, size);
  check_choice(text, override, chunk, mode, want_chunk);
}

/* The same for a decay a key, K = V = size, and for the gradient of that scan. */
static void check_vector_mode(bool grad, int size, int tokens, const char *mode, int64_t chunk) {
  char text[900], rows[40], state[40];
  snprintf(rows, sizeof rows, "f32[2, %d, 1, %d]", tokens, size);
  snprintf(state, sizeof state, "f32[2, 1, %d, %d]", size, size);
  if (grad)
    snprintf(text, sizeof text,
             "entry func @f(%%q: %s) -> (%s) {\n%%a, %%b, %%c, %%d = linscan_grad %%q, %%q, %%q, "
             "%%q, %%q {class = "
             "\"key\"} : %s, %s, %s, %s\nreturn %%a\n}\n",
             rows, rows, rows, rows, rows, rows);
  else
    snprintf(text, sizeof text,
             "entry func @f(%%q: %s) -> (%s) {\n%%y, %%s = linscan %%q, %%q, %%q, %%q {class = "
             "\"key\"} : %s, %s\n"
             "return %%y\n}\n",
             rows, rows, rows, state);
  check_choice(text, NULL, 0, mode, chunk);
}

TEST(vector_decays_pay_where_the_state_is_large) {
  check_vector_mode(false, 16, 1000, "recurrent", 0);
  check_vector_mode(false, 32, 1000, "recurrent", 0);
  check_vector_mode(false, 64, 1000, "chunkwise", 32);
  check_vector_mode(false, 256, 200, "parallel", 0);
  check_vector_mode(false, 256, 4000, "chunkwise", 32);
  check_vector_mode(true, 16, 1000, "recurrent", 0);
  check_vector_mode(true, 64, 1000, "chunkwise", 64);
}

TEST(modes_are_decided_by_cost_and_class) {
  check_mode("constant", 64, "1", 143, "", NULL, 0, "parallel", 0);
  check_mode("constant", 64, "1", 144, "", NULL, 0, "chunkwise", 16);
  check_mode("constant", 256, "1", 1000, "", NULL, 0, "chunkwise", 32);
  /* few operations a step */
  check_mode("constant", 16, "1", 41, "", NULL, 0, "parallel", 0);
  check_mode("constant", 16, "1", 42, "", NULL, 0, "recurrent", 0);
  check_mode("scalar", 64, "2, 200, 1", 200, ", mode = \"auto\"", NULL, 0, "chunkwise", 16);
  check_mode("key", 16, "2, 10, 1, 16", 10, "", NULL, 0, "recurrent", 0);
  check_mode("value", 16, "2, 10, 1, 16", 10, "", NULL, 0, "recurrent", 0);
  check_mode("full", 16, "2, 10, 1, 16, 16", 10, "", NULL, 0, "recurrent", 0);
}

TEST(the_source_and_then_the_command_line_decide) {
  check_mode("constant", 64, "1", 10, ", mode = \"chunkwise\", chunk = 5", NULL, 0, "chunkwise", 5);
  check_mode("constant", 64, "1", 10, ", mode = \"recurrent\"", NULL, 0, "recurrent", 0);
  check_mode("constant", 64, "1", 10, ", mode = \"chunkwise\", chunk = 5", "parallel", 0,
             "parallel", 0);
  check_mode("constant", 64, "1", 10, ", mode = \"recurrent\"", "chunkwise", 0, "chunkwise", 16);
  check_mode("constant", 64, "1", 10, ", mode = \"recurrent\"", "chunkwise", 7, "chunkwise", 7);
  check_mode("constant", 64, "1", 10, ", mode = \"recurrent\"", "auto", 0, "parallel", 0);
  vtb_module *m = parse_ir(small);
  vtb_error err = {0};
  vtb_pass_context c = {.module = m, .mode = "fast"};
  CHECK(vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = "select_mode"}, &err) ==
        VTB_E_USAGE);
  vtb_module_free(m);
}

int main(void) {
  RUN(pipelines_are_checked);
  RUN(every_pass_can_be_found);
  RUN(modules_are_printed_after_passes);
  RUN(bind_replaces_the_batch_everywhere);
  RUN(taps_are_removed);
  RUN(kept_taps_are_returned_outward);
  RUN(a_tap_called_twice_gets_a_suffix);
  RUN(modes_are_decided_by_cost_and_class);
  RUN(vector_decays_pay_where_the_state_is_large);
  RUN(the_source_and_then_the_command_line_decide);
  return test_done();
}
