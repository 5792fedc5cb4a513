/* The table of tuning: its text, damaged texts, what is fastest, and what select_mode makes of
 * it. */
#include "frontend/compile/tuning.h"
#include "tests/passes/pass_check.h"

#define ROW(tokens, form, ns) "cpu fp32 1 linscan scalar 1 " tokens " 2 1 8 8 0 " form " " ns "\n"
#define HEAD "vertebra-tuning 1\na processor\n"

static vtb_tuning parsed(const char *text) {
  vtb_tuning t = {0};
  vtb_error err = {0};
  vtb_status status = vtb_tuning_parse(text, strlen(text), &t, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  return t;
}

static void refused(const char *text, const char *why) {
  vtb_tuning t = {0};
  vtb_error err = {0};
  CHECK(vtb_tuning_parse(text, strlen(text), &t, &err) == VTB_E_INPUT);
  CHECK(t.rows.n == 0 && t.rows.at == NULL);
  CHECK_MSG(strstr(err.text, why), "'%s' does not say '%s'", err.text, why);
}

static vtb_tuning_key key_of(int64_t tokens) {
  return (vtb_tuning_key){.target = "cpu",
                          .op = "linscan",
                          .klass = "scalar",
                          .threads = 1,
                          .batch = 1,
                          .tokens = tokens,
                          .heads = 2,
                          .rank = 1,
                          .K = 8,
                          .V = 8};
}

TEST(text) {
  const char *text = HEAD ROW("64", "parallel 0", "700")
      ROW("64", "chunkwise 16",
          "500") "cuda bf16-all 4 delta key 8 100 3 2 4 5 0 recurrent 0 12345678901\n";
  vtb_tuning t = parsed(text);
  vtb_strbuf again = {0};
  CHECK(t.rows.n == 3);
  CHECK_STR(t.processor, "a processor");
  CHECK(t.rows.at[2].nanoseconds == 12345678901 && t.rows.at[2].key.rank == 2);
  vtb_tuning_print(&t, &again);
  CHECK_STR(again.at, text);
  /* a row of the same form is replaced, others are kept */
  vtb_tuning more = parsed(HEAD ROW("64", "parallel 0", "600") ROW("64", "recurrent 0", "900"));
  vtb_tuning_merge(&t, &more);
  CHECK(t.rows.n == 4 && t.rows.at[0].nanoseconds == 600);
  vtb_strbuf_free(&again);
  vtb_tuning_free(&t);
  vtb_tuning_free(&more);
}

TEST(damage) {
  refused("", "line 1");
  refused("vertebra-tuning 2\nx\n", "line 1");
  refused("vertebra-tuning 1", "ends in line 1");
  refused(HEAD "cpu fp32 1 linscan scalar 1 64 2 1 8 8 0 parallel 0\n", "line 3");
  refused(HEAD ROW("64", "parallel 0", "700") "\n" ROW("64", "parallel 0", "700"), "line 4");
  refused(HEAD ROW("64", "parallel 8", "700"), "line 3");
  refused(HEAD ROW("64", "chunkwise 0", "700"), "line 3");
  refused(HEAD ROW("64", "chunkwise 65", "700"), "line 3");
  refused(HEAD ROW("64", "sideways 0", "700"), "line 3");
  refused(HEAD ROW("64", "parallel 0", "0"), "line 3");
  refused(HEAD ROW("64", "parallel 0", "-5"), "line 3");
  refused(HEAD ROW("64", "parallel 0", "1e9"), "line 3");
  refused(HEAD ROW("99999999999999999999999", "parallel 0", "7"), "line 3");
  refused(HEAD ROW("64", "parallel 0", "7 7"), "line 3");
  refused(HEAD "cpu fp32 1 linscan crooked 1 64 2 1 8 8 0 parallel 0 7\n", "line 3");
  refused(HEAD "cpu fp33 1 linscan scalar 1 64 2 1 8 8 0 parallel 0 7\n", "line 3");
  refused(HEAD
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa fp32 1 linscan scalar 1 64 2 1 8 8 0 parallel 0 7",
          "line 3");
  /* cut anywhere it is a shorter table or none, and nothing else happens */
  const char *whole = HEAD ROW("64", "parallel 0", "700") ROW("64", "chunkwise 16", "500");
  for (size_t n = 0; n <= strlen(whole); n++) {
    vtb_tuning t = {0};
    vtb_error err = {0};
    vtb_status status = vtb_tuning_parse(whole, n, &t, &err);
    CHECK(status == VTB_OK || status == VTB_E_INPUT);
    CHECK(t.rows.n <= 2);
    vtb_tuning_free(&t);
  }
}

TEST(fastest) {
  vtb_tuned best;
  vtb_tuning t = parsed(HEAD ROW("64", "parallel 0", "700") ROW("64", "chunkwise 16", "500")
                            ROW("64", "chunkwise 32", "480") ROW("64", "recurrent 0", "900"));
  vtb_tuning_key key = key_of(64);
  CHECK(vtb_tuning_best(&t, &key, &best));
  CHECK_STR(best.mode, "chunkwise");
  CHECK(best.chunk == 32 && best.below == 64 && best.above == 64);
  CHECK_NEAR(best.seconds, 480e-9, 1e-15);
  CHECK_STR(best.other, "parallel");
  CHECK_NEAR(best.other_seconds, 700e-9, 1e-15);
  CHECK_NEAR(vtb_tuning_seconds(&t, &key, "chunkwise", 16), 500e-9, 1e-15);
  CHECK(vtb_tuning_seconds(&t, &key, "chunkwise", 24) == 0);
  /* other sizes, threads, targets, precisions are others */
  for (int i = 0; i < 6; i++) {
    vtb_tuning_key other = key;
    if (i == 0) other.K = 9;
    if (i == 1) other.threads = 2;
    if (i == 2) other.precision = 1;
    if (i == 3) other.normalizer = 1;
    if (i == 4) snprintf(other.op, sizeof other.op, "linscan_grad");
    if (i == 5) snprintf(other.target, sizeof other.target, "cuda");
    CHECK(!vtb_tuning_best(&t, &other, &best));
  }
  /* heads that keep all threads busy in both batches: the order is the same */
  key.batch = 4;
  CHECK(vtb_tuning_best(&t, &key, &best) && best.chunk == 32 && best.batch == 1);
  CHECK_NEAR(best.seconds, 4 * 480e-9, 1e-15);
  vtb_tuning_free(&t);
}

TEST(between_tokens) {
  vtb_tuned best;
  vtb_tuning t = parsed(HEAD ROW("64", "parallel 0", "100") ROW("64", "recurrent 0", "300")
                            ROW("256", "parallel 0", "1600") ROW("256", "recurrent 0", "1200")
                                ROW("256", "chunkwise 64", "1100"));
  /* parallel grows with the square: 400 at 128; recurrent linearly: 600 */
  vtb_tuning_key key = key_of(128);
  CHECK(vtb_tuning_best(&t, &key, &best));
  CHECK_STR(best.mode, "parallel");
  CHECK_NEAR(best.seconds, 400e-9, 1e-12);
  CHECK_NEAR(best.other_seconds, 600e-9, 1e-12);
  CHECK(best.below == 64 && best.above == 256);
  key = key_of(240); /* chunks of 64 were not measured with 64 tokens */
  CHECK(vtb_tuning_best(&t, &key, &best));
  CHECK_STR(best.mode, "recurrent");
  key = key_of(270); /* beyond, but near */
  CHECK(vtb_tuning_best(&t, &key, &best) && best.below == 256 && best.above == 256);
  CHECK_STR(best.mode, "chunkwise");
  key = key_of(300);
  CHECK(!vtb_tuning_best(&t, &key, &best));
  vtb_tuning_free(&t);
  /* five times apart says nothing of what is between */
  t = parsed(HEAD ROW("64", "parallel 0", "100") ROW("320", "parallel 0", "1600"));
  key = key_of(128);
  CHECK(!vtb_tuning_best(&t, &key, &best));
  vtb_tuning_free(&t);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static const char scan[] =
    "entry func @f(%q: f32[1, 64, 2, 8], %k: f32[1, 64, 2, 8], %v: f32[1, 64, 2, 8], %d: f32[1, "
    "64, "
    "2]) -> (f32[1, 64, 2, 8]) {\n"
    "  %y, %S = linscan %q, %k, %v, %d {class = \"scalar\", mode = \"auto\"} : f32[1, 64, 2, 8], "
    "f32[1, 2, 8, 8]\n"
    "  return %y\n}\n";

static void selected(vtb_pass_context c, const char *mode, int64_t chunk, const char *reason) {
  vtb_module *m = parse_ir(scan);
  vtb_strbuf why = {0};
  if (!m) return;
  c.module = m;
  c.batch = 1;
  c.target = vtb_target_find("cpu");
  CHECK(run_passes_in(&c, "select_mode"));
  const vtb_inst *i = m->entry->first;
  CHECK_STR(vtb_attr_str(i, "mode", ""), mode);
  CHECK(vtb_attr_int(i, "chunk", 0) == chunk);
  vtb_mode_reason(&c, i, &why);
  CHECK_MSG(strstr(why.at, reason), "'%s' does not say '%s'", why.at, reason);
  vtb_strbuf_free(&why);
  vtb_module_free(m);
}

TEST(a_pass_takes_what_is_fastest) {
  vtb_tuning t = parsed(HEAD ROW("64", "parallel 0", "700000") ROW("64", "chunkwise 22", "500000")
                            ROW("64", "recurrent 0", "900000"));
  selected((vtb_pass_context){.tuning = &t}, "chunkwise", 22,
           "scalar decay, chunkwise(22): measured 0.5 ms against 0.7 of parallel");
  t.rows.at[2].nanoseconds = 300000;
  selected((vtb_pass_context){.tuning = &t}, "recurrent", 0,
           "recurrent: measured 0.3 ms against 0.5 of chunkwise(22)");
  /* what the prices say, where it is as fast */
  t.rows.at[2].nanoseconds = 510000;
  selected((vtb_pass_context){.tuning = &t}, "recurrent", 0,
           "recurrent: measured 0.51 ms against 0.5 of chunkwise(22)");
  t.rows.at[2].nanoseconds = 520000;
  selected((vtb_pass_context){.tuning = &t}, "chunkwise", 22, "measured 0.5 ms against 0.52");
  /* what is asked for is more than what is measured */
  selected((vtb_pass_context){.tuning = &t, .mode = "chunkwise", .chunk = 8}, "chunkwise", 8,
           "as asked");
  /* of other threads nothing is known */
  vtb_tuning none = {0};
  vtb_module *m = parse_ir(scan);
  vtb_pass_context model = {.module = m, .batch = 1, .target = vtb_target_find("cpu")};
  CHECK(run_passes_in(&model, "select_mode"));
  const vtb_inst *i = m->entry->first;
  selected((vtb_pass_context){.tuning = &t, .threads = 2}, vtb_attr_str(i, "mode", ""),
           vtb_attr_int(i, "chunk", 0), "cheaper than");
  selected((vtb_pass_context){.tuning = &none}, vtb_attr_str(i, "mode", ""),
           vtb_attr_int(i, "chunk", 0), "cheaper than");
  vtb_module_free(m);
  vtb_tuning_free(&t);
}

int main(void) {
  RUN(text);
  RUN(damage);
  RUN(fastest);
  RUN(between_tokens);
  RUN(a_pass_takes_what_is_fastest);
  return test_done();
}
