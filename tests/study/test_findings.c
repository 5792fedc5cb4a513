/* Which cell is best and what an axis does, as results.json has it; curves from logs of runs. */
#include "frontend/study/curve.h"
#include "frontend/study/results.h"
#include "frontend/study/json.h"
#include "tests/test.h"

#include <sys/stat.h>
#include <unistd.h>

#define CELL(a, d, h, better, mean, val, rate)                                                     \
  "{\"settings\": {\"a\": \"" a "\", \"dim\": \"" d "\", \"heads\": \"" h "\"}, \"train\": {"      \
  "\"score\": \"s\", \"better\": \"" better "\", \"mean\": " mean ", \"spread\": 0.001, "          \
  "\"val_mean\": " val ", \"images\": 1000, \"seeds\": [{}, {}, {}]}, "                            \
  "\"bench\": {\"best_ms\": " rate ", \"spread\": 0.01, \"samples_per_sec\": " rate "}}"
#define STUDY(cells)                                                                               \
  "{\"study\": {\"axes\": [{\"name\": \"a\", \"values\": [\"x\", \"y\"]}, "                        \
  "{\"name\": \"dim,heads\", \"values\": [\"16:2\", \"16:4\"]}]}, \"cells\": [" cells "]}"

static cJSON *found(const char *text) {
  cJSON *r = cJSON_Parse(text);
  CHECK(r != NULL);
  study_findings(r);
  return r;
}

static const char *rank_of(const cJSON *r, int cell, const char *part) {
  const cJSON *cells = study_member(r, "cells");
  return study_text_of(study_member(cJSON_GetArrayItem(cells, cell), part), "rank");
}

/* On val the third is best, on test the first; what is lower is better only where it is said. */
TEST(the_best_is_chosen_on_val_in_its_direction) {
  cJSON *r = found(STUDY(CELL("x", "16", "2", "higher", "0.9", "0.5", "10") "," CELL(
      "y", "16", "2", "higher", "0.7", "0.6", "30") "," CELL("x", "16", "4", "higher", "0.8", "0.7",
                                                             "20")));
  CHECK_STR(rank_of(r, 2, "train"), "best");
  CHECK_STR(rank_of(r, 1, "bench"), "best");
  CHECK_STR(rank_of(r, 0, "train"), "");
  cJSON_Delete(r);
  r = found(STUDY(CELL("x", "16", "2", "lower", "0.9", "0.5",
                       "10") "," CELL("y", "16", "2", "lower", "0.7", "0.6",
                                      "30") "," CELL("x", "16", "4", "lower", "0.8", "0.4", "20")));
  CHECK_STR(rank_of(r, 2, "train"), "best");
  CHECK_STR(rank_of(r, 1, "train"), "");
  CHECK_STR(rank_of(r, 1, "bench"), "best"); /* a speed is better where it is more, whatever */
  cJSON_Delete(r);
}

static void check_effect(const cJSON *r, int effect, int value, const char *name, double n,
                         double mean, double low, double high) {
  const cJSON *e = cJSON_GetArrayItem(study_member(r, "effects"), effect);
  const cJSON *v = cJSON_GetArrayItem(study_member(e, "values"), value);
  CHECK_STR(study_text_of(v, "value"), name);
  CHECK(study_number(v, "cells") == n);
  CHECK_NEAR(study_number(v, "mean"), mean, 1e-12);
  CHECK(study_number(v, "low") == low && study_number(v, "high") == high);
}

TEST(effects_are_means_over_the_cells_of_a_value) {
  cJSON *r = found(STUDY(CELL("x", "16", "2", "higher", "0.5", "0.5", "10") "," CELL(
      "y", "16", "2", "higher", "0.75", "0.5",
      "30") "," CELL("x", "16", "4", "higher", "1", "0.5", "20") "," CELL("y", "16", "4", "higher",
                                                                          "null", "null", "60")));
  CHECK(cJSON_GetArraySize(study_member(r, "effects")) == 4);
  check_effect(r, 0, 0, "x", 2, 0.75, 0.5, 1);
  check_effect(r, 0, 1, "y", 1, 0.75, 0.75, 0.75); /* what was not trained does not count */
  check_effect(r, 1, 0, "x", 2, 15, 10, 20);
  check_effect(r, 1, 1, "y", 2, 45, 30, 60);
  check_effect(r, 2, 0, "16:2", 2, 0.625, 0.5, 0.75);
  check_effect(r, 2, 1, "16:4", 1, 1, 1, 1);
  check_effect(r, 3, 1, "16:4", 2, 40, 20, 60);
  cJSON_Delete(r);
}

/* ---- curves ---------------------------------------------------------------------------------- */

static study_curve curve_of(const char *log) {
  char folder[] = "/tmp/vtb-curve-XXXXXX", path[64];
  study_curve c;
  if (!mkdtemp(folder)) exit(1);
  snprintf(path, sizeof path, "%s/log.jsonl", folder);
  FILE *f = fopen(path, "w");
  if (!f) exit(1);
  fputs(log, f);
  fclose(f);
  study_curve_read(folder, &c);
  unlink(path);
  rmdir(folder);
  return c;
}

static double point(const study_curve *c, int i, const char *key) {
  return study_number(cJSON_GetArrayItem(c->points, i), key);
}

TEST(curves_are_of_epochs_and_of_what_was_judged_within) {
  study_curve c = curve_of(
      "{\"event\":\"step\",\"step\":1,\"epoch\":0,\"loss\":9}\n"
      "{\"event\":\"eval\",\"step\":5,\"epoch\":0.5,\"loss\":3,\"eval_top1\":0.4,\"seconds\":1}\n"
      "{\"event\":\"epoch\",\"step\":10,\"epoch\":1,\"loss\":2,\"eval_top1\":0.6,\"seconds\":2}\n"
      "{\"event\":\"epo\n" /* a disk was full for a while */
      "{\"event\":\"epoch\",\"step\":20,\"epoch\":2,\"loss\":1,\"eval_top1\":0.5,\"seconds\":3}\n"
      "{\"event\":\"end\",\"step\":20,\"epoch\":2,\"loss\":1,\"eval_top1\":0.5,\"seconds\":4}\n"
      "a line that was cut");
  CHECK(cJSON_GetArraySize(c.points) == 3 && c.best == 0.6 && !c.lower && !c.windows);
  CHECK_STR(c.score, "top1");
  CHECK(point(&c, 0, "epoch") == 0.5 && point(&c, 1, "loss") == 2 && point(&c, 2, "val") == 0.5 &&
        point(&c, 2, "seconds") == 3);
  study_curve_free(&c);
}

TEST(the_end_counts_where_its_epoch_was_not_evaluated) {
  study_curve c =
      curve_of("{\"event\":\"epoch\",\"step\":10,\"epoch\":1,\"loss\":2,\"eval_top1\":0.6}\n"
               "{\"event\":\"epoch\",\"step\":20,\"epoch\":2,\"loss\":1,\"eval_top1\":null}\n"
               "{\"event\":\"end\",\"step\":20,\"epoch\":2,\"loss\":1,\"eval_top1\":0.7}\n");
  CHECK(cJSON_GetArraySize(c.points) == 3 && c.best == 0.7);
  study_curve_free(&c);
}

TEST(lower_scores_and_windows) {
  study_curve c =
      curve_of("{\"event\":\"window\",\"step\":2,\"epoch\":0.2,\"loss\":5}\n"
               "{\"event\":\"window\",\"step\":3,\"loss\":5}\n"
               "{\"event\":\"epoch\",\"step\":10,\"epoch\":1,\"loss\":2,\"score\":\"rmse\","
               "\"better\":\"lower\",\"eval_rmse\":0.6}\n"
               "{\"event\":\"epoch\",\"step\":20,\"epoch\":2,\"loss\":2,\"score\":\"rmse\","
               "\"better\":\"lower\",\"eval_rmse\":0.8}\n");
  CHECK(c.lower && c.windows && c.best == 0.6 && cJSON_GetArraySize(c.points) == 3);
  CHECK_STR(c.score, "rmse");
  CHECK(point(&c, 0, "loss") == 5 && isnan(point(&c, 1, "loss")) && point(&c, 2, "val") == 0.8);
  study_curve_free(&c);
  c = curve_of("");
  CHECK(cJSON_GetArraySize(c.points) == 0 && isnan(c.best));
  study_curve_free(&c);
}

int main(void) {
  RUN(the_best_is_chosen_on_val_in_its_direction);
  RUN(effects_are_means_over_the_cells_of_a_value);
  RUN(curves_are_of_epochs_and_of_what_was_judged_within);
  RUN(the_end_counts_where_its_epoch_was_not_evaluated);
  RUN(lower_scores_and_windows);
  return test_done();
}
