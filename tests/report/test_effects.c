/* What an axis does to a measure, and how measures are named, written and compared. */
#include "frontend/report/effects.h"
#include "tests/test.h"

/* Cells of three values of one axis and two of another, with a score, a speed and memory. */
#define CELL(a, b, top1, rate, bytes)                                                              \
  "{\"status\": \"done\", \"settings\": {\"a\": \"" a "\", \"b\": \"" b "\"}, "                    \
  "\"model\": {\"param_count\": 5720000, \"workspace_bytes\": " bytes "}, "                        \
  "\"train\": {\"score\": \"SCORE\", \"better\": \"BETTER\", \"mean\": " top1 "}, "                \
  "\"bench\": {\"samples_per_sec\": " rate "}}"
static const char cells[] =
    CELL("x", "p", "0.5", "100", "1048576") "," CELL("y", "p", "0.3", "400", "2097152") "," CELL(
        "z", "p", "0.9", "200",
        "1048576") "," CELL("x", "q", "0.7", "900",
                            "1048576") "," CELL("y", "q", "0.1", "100",
                                                "1048576") "," CELL("z", "q", "0.8", "800",
                                                                    "1048576");

static cJSON *document;

static rp_report read_cells(const char *score, const char *better) {
  vtb_strbuf json = {0};
  rp_report r;
  vtb_strbuf_puts(&json, "{\"study\": {\"axes\": ["
                         "{\"name\": \"a\", \"values\": [\"x\", \"y\", \"z\"]},"
                         "{\"name\": \"b\", \"values\": [\"p\", \"q\"]}]}, \"cells\": [");
  for (const char *at = cells; *at; at++) {
    const char *word = vtb_starts_with(at, "SCORE")    ? score
                       : vtb_starts_with(at, "BETTER") ? better
                                                       : NULL;
    if (word) {
      vtb_strbuf_puts(&json, word);
      at += (word == score ? strlen("SCORE") : strlen("BETTER")) - 1;
    } else {
      vtb_strbuf_putc(&json, *at);
    }
  }
  vtb_strbuf_puts(&json, "]}");
  document = cJSON_Parse(json.at);
  CHECK(document != NULL);
  rp_read(&r, document);
  vtb_strbuf_free(&json);
  return r;
}

static void done(rp_report *r) {
  rp_free(r);
  cJSON_Delete(document);
}

TEST(means_best_and_worst_of_an_axis) {
  rp_report r = read_cells("top1", "higher");
  fx_axis f = fx_main(&r, RP_TEST, 0);
  const double mean[] = {0.6, 0.2, 0.85}, low[] = {0.5, 0.1, 0.8}, high[] = {0.7, 0.3, 0.9};
  CHECK(f.matched && f.measured == 3 && f.best == 2 && f.worst == 1);
  for (int i = 0; i < 3; i++) {
    CHECK(f.values.at[i].n == 2);
    CHECK_NEAR(f.values.at[i].mean, mean[i], 1e-12);
    CHECK(f.values.at[i].low == low[i] && f.values.at[i].high == high[i]);
  }
  CHECK_NEAR(fx_reach(&f, false), 0.65, 1e-12);
  fx_free(&f);
  f = fx_main(&r, RP_RATE, 0); /* 300, 200, 400 */
  CHECK(f.best == 2 && f.worst == 1);
  CHECK_NEAR(f.values.at[0].mean, 300, 1e-9);
  CHECK_NEAR(fx_reach(&f, true), 2, 1e-12);
  fx_free(&f);
  CHECK_NEAR(fx_pair(&r, RP_TEST, 0, 1, 1, 0), 0.3, 1e-12);
  CHECK_NEAR(fx_pair(&r, RP_TEST, 0, 1, 1, 1), 0.1, 1e-12);
  CHECK_NEAR(fx_pair(&r, RP_RATE, 0, 2, 1, 1), 800, 1e-9);
  CHECK(isnan(fx_pair(&r, RP_TEST, 0, 3, 1, 1)));
  done(&r);
}

TEST(a_lower_score_is_better_where_the_model_says_so) {
  rp_report r = read_cells("loss", "lower");
  fx_axis f = fx_main(&r, RP_TEST, 0);
  CHECK(r.lower && rp_direction(&r, RP_TEST) == -1 && rp_direction(&r, RP_VAL) == -1);
  CHECK(f.best == 1 && f.worst == 2);
  CHECK(rp_best(&r, RP_TEST, NULL) == &r.cells.at[4]);
  fx_free(&f);
  done(&r);
  r = read_cells("top1", "higher");
  CHECK(!r.lower && rp_direction(&r, RP_TEST) == 1);
  CHECK(rp_best(&r, RP_TEST, NULL) == &r.cells.at[2]);
  done(&r);
}

TEST(measures_have_directions_units_and_texts) {
  rp_report r = read_cells("top1", "higher");
  char text[32];
  static const int direction[RP_MEASURES] = {
      [RP_TEST] = 1, [RP_VAL] = 1,        [RP_RATE] = 1,  [RP_TRAIN_RATE] = 1,
      [RP_MS] = -1,  [RP_WORKSPACE] = -1, [RP_PEAK] = -1, [RP_GMACS] = 0};
  for (int m = 0; m < RP_MEASURES; m++) CHECK(rp_direction(&r, (rp_measure)m) == direction[m]);
  CHECK_NEAR(rp_in_unit(&r, RP_PEAK, 3 * 1048576.0), 3, 1e-12);
  CHECK_NEAR(rp_in_unit(&r, RP_WORKSPACE, 1048576), 1, 1e-12);
  CHECK_NEAR(rp_in_unit(&r, RP_PARAMS, 5.72e6), 5.72, 1e-12);
  CHECK_NEAR(rp_in_unit(&r, RP_MS, 7), 7, 1e-12);
  CHECK_NEAR(rp_in_unit(&r, RP_TEST, 0.5), r.percent ? 50 : 0.5, 1e-12);
  CHECK(r.percent);
  CHECK_STR(rp_format(&r, RP_TEST, 0.8123, text), "81.23");
  CHECK_STR(rp_format(&r, RP_PARAMS, 5.72e6, text), "5.72 M");
  CHECK_STR(rp_format(&r, RP_PEAK, 1048576, text), "1.00 MiB");
  CHECK_STR(rp_format(&r, RP_MS, 1.234, text), "1.23");
  CHECK_STR(rp_unit_name(&r, RP_PEAK), "peak memory, MiB");
  CHECK_STR(rp_unit_name(&r, RP_PARAMS), "parameters, millions");
  CHECK_STR(rp_name(&r, RP_TEST), "top-1 on test, %");
  CHECK(rp_quality(&r) == RP_TEST && rp_speed(&r) == RP_RATE);
  CHECK(rp_has(&r, RP_WORKSPACE) && !rp_has(&r, RP_TRAIN_RATE) && !rp_has(&r, RP_MEASURES));
  done(&r);
  r = read_cells("loss", "lower");
  CHECK(!r.percent);
  CHECK_STR(rp_format(&r, RP_TEST, 0.8123, text), "0.8123");
  CHECK_STR(rp_name(&r, RP_VAL), "score on val");
  done(&r);
}

int main(void) {
  RUN(means_best_and_worst_of_an_axis);
  RUN(a_lower_score_is_better_where_the_model_says_so);
  RUN(measures_have_directions_units_and_texts);
  return test_done();
}
