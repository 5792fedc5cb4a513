/* What follows from the numbers of a study: the table, what is best, main effects, the comparison
 * of two reports. */
#include "frontend/study/against.h"
#include "frontend/study/results.h"
#include "frontend/study/scores.h"
#include "tests/test.h"

/* Four cells of two axes; the fourth failed. */
static const char document[] =
    "{\"vertebra\": \"1\", \"machine\": {\"cores\": 2},"
    "\"study\": {\"model\": \"m\", \"axes\": [{\"name\": \"paths\", \"values\": [\"uni\", \"bi\"]},"
    "{\"name\": \"dim,heads\", \"values\": [\"16:2\", \"32:4\"]}]},"
    "\"cells\": ["
    "{\"id\": \"a\", \"label\": \"uni, 16\", \"status\": \"done\", \"message\": \"\","
    "\"settings\": {\"paths\": \"uni\", \"dim\": \"16\", \"heads\": \"2\"},"
    "\"model\": {\"param_count\": 1000, \"gmacs\": 0.5, \"img_size\": \"8x8\"},"
    "\"train\": {\"score\": \"top1\", \"mean\": 0.80, \"spread\": 0.01, \"val_mean\": 0.83,"
    "\"images\": 1000, \"seeds\": [{}, {}, {}]},"
    "\"bench\": {\"timed\": \"forward\", \"batch\": 2, \"best_ms\": 4, \"spread\": 0.02,"
    "\"samples_per_sec\": 500, \"rounds\": ["
    "{\"best_ms\": 4}, {\"best_ms\": 4.4}, {\"best_ms\": 4.1}]}},"
    "{\"id\": \"b\", \"label\": \"uni, 32\", \"status\": \"done\", \"message\": \"\","
    "\"settings\": {\"paths\": \"uni\", \"dim\": \"32\", \"heads\": \"4\"},"
    "\"train\": {\"score\": \"top1\", \"mean\": 0.815, \"spread\": 0.01, \"val_mean\": 0.82,"
    "\"images\": 1000, \"seeds\": [{}, {}, {}]},"
    "\"bench\": {\"timed\": \"forward\", \"batch\": 2, \"best_ms\": 8, \"spread\": 0.02,"
    "\"samples_per_sec\": 250, \"rounds\": ["
    "{\"best_ms\": 8}, {\"best_ms\": 8.6}, {\"best_ms\": 8.3}]}},"
    "{\"id\": \"c\", \"label\": \"bi, 16\", \"status\": \"done\", \"message\": \"\","
    "\"settings\": {\"paths\": \"bi\", \"dim\": \"16\", \"heads\": \"2\"},"
    "\"train\": {\"score\": \"top1\", \"mean\": 0.70, \"spread\": 0.01, \"val_mean\": 0.71,"
    "\"images\": 1000, \"seeds\": [{}, {}, {}]},"
    "\"bench\": {\"timed\": \"forward\", \"batch\": 2, \"best_ms\": 3.9, \"spread\": 0.02,"
    "\"samples_per_sec\": 512.8, \"rounds\": ["
    "{\"best_ms\": 3.9}, {\"best_ms\": 4.2}, {\"best_ms\": 4.2}]}},"
    "{\"id\": \"d\", \"label\": \"bi, 32\", \"status\": \"failed\","
    "\"message\": \"train of seed 0: out of memory, \\\"m\\\"\\nneeds more\","
    "\"settings\": {\"paths\": \"bi\", \"dim\": \"32\", \"heads\": \"4\"}}]}";

static cJSON *parse(void) { return cJSON_Parse(document); }
static cJSON *cell(cJSON *results, int i) {
  return cJSON_GetArrayItem(cJSON_GetObjectItem(results, "cells"), i);
}

TEST(the_table_has_a_line_a_cell) {
  cJSON *r = parse();
  vtb_strbuf csv = {0};
  study_csv(r, &csv);
  CHECK_STR(csv.at,
            "model,paths,dim,heads,label,status,img_size,top1,top1_err,top1_spread,top5,top5_err,"
            "val_top1,val_top1_spread,seeds,param_count,infer_gmacs,infer_batch_size,"
            "infer_samples_per_sec,infer_step_time,infer_spread,infer_peak_mib,"
            "train_samples_per_sec,train_step_time,train_peak_mib,message\n"
            "m,uni,16,2,\"uni, 16\",done,8x8,80.000,20.000,1.000,,,83.000,,3,0.0010,0.500000,2,"
            "500.00,4.0000,0.0200,,,,,\n"
            "m,uni,32,4,\"uni, 32\",done,,81.500,18.500,1.000,,,82.000,,3,,,2,250.00,8.0000,0.0200,"
            ",,,,\n"
            "m,bi,16,2,\"bi, 16\",done,,70.000,30.000,1.000,,,71.000,,3,,,2,512.80,3.9000,0.0200,"
            ",,,,\n"
            "m,bi,32,4,\"bi, 32\",failed,,,,,,,,,,,,,,,,,,,,"
            "\"train of seed 0: out of memory, \"\"m\"\" needs more\"\n");
  vtb_strbuf_free(&csv);
  cJSON_Delete(r);
}

/* A score of another name is a column of that name, in its own unit. */
TEST(other_scores_have_their_own_columns) {
  cJSON *r = parse();
  for (int i = 0; i < 3; i++)
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(cell(r, i), "train"), "score",
                              cJSON_CreateString("iou"));
  vtb_strbuf csv = {0};
  study_csv(r, &csv);
  CHECK(strstr(csv.at, "img_size,iou,iou_spread,val_iou,val_iou_spread,seeds"));
  CHECK(strstr(csv.at, ",8x8,0.800000,0.010000,0.830000,"));
  vtb_strbuf_free(&csv);
  cJSON_Delete(r);
}

TEST(the_best_is_chosen_on_val_and_ties_are_told) {
  cJSON *r = parse();
  study_findings(r);
  CHECK_STR(study_text_of(study_member(cell(r, 0), "train"), "rank"), "best");
  CHECK_STR(study_text_of(study_member(cell(r, 1), "train"), "rank"), "tied");
  CHECK_STR(study_text_of(study_member(cell(r, 2), "train"), "rank"), "");
  CHECK_STR(study_text_of(study_member(cell(r, 2), "bench"), "rank"), "best");
  CHECK_STR(study_text_of(study_member(cell(r, 0), "bench"), "rank"), "tied");
  CHECK_STR(study_text_of(study_member(cell(r, 1), "bench"), "rank"), "");
  cJSON_Delete(r);
}

TEST(main_effects_are_means_over_the_other_axes) {
  cJSON *r = parse();
  study_findings(r);
  const cJSON *e = cJSON_GetArrayItem(study_member(r, "effects"), 0),
              *uni = cJSON_GetArrayItem(study_member(e, "values"), 0);
  CHECK_STR(study_text_of(e, "axis"), "paths");
  CHECK_STR(study_text_of(e, "of"), "score");
  CHECK_NEAR(study_number(uni, "mean"), 0.8075, 1e-12);
  CHECK_NEAR(study_number(uni, "low"), 0.80, 1e-12);
  CHECK_NEAR(study_number(uni, "cells"), 2, 0);
  e = cJSON_GetArrayItem(study_member(r, "effects"), 2);
  CHECK_STR(study_text_of(e, "axis"), "dim,heads");
  CHECK_NEAR(study_number(cJSON_GetArrayItem(study_member(e, "values"), 0), "mean"), 0.75, 1e-12);
  cJSON_Delete(r);
}

TEST(two_reports_are_compared_by_settings) {
  cJSON *now = parse(), *old = parse();
  cJSON_SetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(cell(old, 0), "train"), "mean"),
                       0.75);
  cJSON_SetNumberValue(
      cJSON_GetObjectItem(cJSON_GetObjectItem(cell(old, 2), "bench"), "samples_per_sec"), 500);
  cJSON_DeleteItemFromArray(cJSON_GetObjectItem(old, "cells"), 1);
  cJSON *a = study_against(now, old, "old/");
  const cJSON *cells = study_member(a, "cells"), *first = cJSON_GetArrayItem(cells, 0),
              *second = cJSON_GetArrayItem(cells, 1);
  CHECK(cJSON_GetArraySize(cells) == 2 && cJSON_IsTrue(study_member(a, "same_machine")));
  CHECK_NEAR(study_number(study_member(first, "score"), "difference"), 0.05, 1e-12);
  CHECK(cJSON_IsTrue(study_member(study_member(first, "score"), "significant")));
  CHECK(cJSON_IsFalse(study_member(study_member(second, "score"), "significant")));
  CHECK_NEAR(study_number(study_member(second, "samples_per_sec"), "difference"), 0.0256, 1e-9);
  CHECK(cJSON_IsFalse(study_member(study_member(second, "samples_per_sec"), "significant")));
  CHECK(cJSON_GetArraySize(study_member(a, "only_new")) == 1);
  CHECK_STR(cJSON_GetArrayItem(study_member(a, "only_new"), 0)->valuestring, "uni, 32");
  CHECK(cJSON_GetArraySize(study_member(a, "only_old")) == 0);
  cJSON_Delete(a);
  cJSON_Delete(now);
  cJSON_Delete(old);
}

/* Whatever a document holds, nothing is read that is not there. */
TEST(strange_documents_are_empty_ones) {
  static const char *const texts[] = {
      "{}", "{\"cells\": 3}", "{\"cells\": [null, 3, {}, {\"train\": 1, \"bench\": []}]}",
      "{\"cells\": [{\"settings\": {\"a\": 1}}]}",
      "{\"cells\": [], \"study\": {\"axes\": [{\"name\": \"a,,b\", \"values\": [\":\"]}]}}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    cJSON *r = cJSON_Parse(texts[i]), *a;
    vtb_strbuf csv = {0};
    CHECK(r != NULL);
    study_findings(r);
    study_csv(r, &csv);
    a = study_against(r, r, "itself");
    CHECK(csv.n > 0 && cJSON_GetArraySize(study_member(a, "only_new")) <= 4);
    vtb_strbuf_free(&csv);
    cJSON_Delete(a);
    cJSON_Delete(r);
  }
}

int main(void) {
  RUN(the_table_has_a_line_a_cell);
  RUN(other_scores_have_their_own_columns);
  RUN(the_best_is_chosen_on_val_and_ties_are_told);
  RUN(main_effects_are_means_over_the_other_axes);
  RUN(two_reports_are_compared_by_settings);
  RUN(strange_documents_are_empty_ones);
  return test_done();
}
