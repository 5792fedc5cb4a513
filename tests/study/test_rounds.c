/* Rounds of timings: how many there are, and what the times of a cell add up to. */
#include "frontend/study/rounds.h"
#include "tests/test.h"

/* Cells are restless until so many rounds are measured; a round may fail. */
typedef struct machine {
  int64_t measured, calm_after, fails_at;
  size_t told;
  int64_t further, still;
} machine;

static vtb_status measure(void *user, int64_t round, vtb_error *err) {
  machine *m = user;
  CHECK(round == m->measured);
  if (round == m->fails_at) return vtb_fail(err, VTB_E_INPUT, "round %d", (int)round);
  m->measured++;
  return VTB_OK;
}

static size_t restless(void *user) {
  machine *m = user;
  return m->measured < m->calm_after ? 2 : 0;
}

static void again(void *user, size_t n, int64_t further) {
  machine *m = user;
  m->told = n;
  if (further) m->further = further;
  m->still += !further;
}

static machine run(int64_t planned, int64_t calm_after, int64_t fails_at) {
  machine m = {.calm_after = calm_after, .fails_at = fails_at};
  study_rounds r = {planned, measure, restless, again, &m};
  vtb_error err = {0};
  vtb_status status = study_rounds_run(&r, &err);
  CHECK(fails_at < 0 ? status == VTB_OK : status == VTB_E_INPUT && err.text[0]);
  return m;
}

TEST(restless_cells_are_measured_again_at_most_as_often) {
  machine calm = run(3, 0, -1), soon = run(3, 5, -1), never = run(3, 99, -1), once = run(1, 99, -1);
  CHECK(calm.measured == 3 && !calm.told);
  CHECK(soon.measured == 5 && soon.told == 2 && soon.further == 3 && !soon.still);
  CHECK(never.measured == 6 && never.still == 1);
  CHECK(once.measured == 1 && !once.told); /* of one round nothing is known */
  CHECK(run(3, 99, 1).measured == 1 && run(3, 99, 4).measured == 4);
}

static bool add(study_times *t, const char *json, double others) {
  cJSON *document = cJSON_Parse(json);
  bool best = study_times_add(t, document, (double)NAN, 7, others);
  cJSON_Delete(document);
  return best;
}

TEST(times_of_rounds_add_up) {
  study_times t = study_times_new();
  cJSON *out = cJSON_Parse("{\"best_ms\": 99, \"rounds\": 5, \"batch\": 2}");
  CHECK(isnan(study_times_spread(&t)));
  CHECK(add(&t, "{\"best_ms\": 5, \"median_ms\": 6}", 0.5));
  CHECK_NEAR(study_times_spread(&t), 0.2, 1e-12); /* of its runs */
  CHECK(add(&t, "{\"best_ms\": 4, \"median_ms\": 7, \"peak_bytes\": 3}", (double)NAN));
  CHECK(!add(&t, "{\"best_ms\": 4.4, \"median_ms\": 8}", 0.1));
  CHECK_NEAR(study_times_spread(&t), 0.1, 1e-12); /* of the rounds' times */
  CHECK(t.others == 0.5 && t.peak == 7 && isnan(t.percent));
  study_times_put(&t, out);
  CHECK(study_number(out, "best_ms") == 4 && study_number(out, "median_ms") == 7);
  CHECK(cJSON_GetArraySize(study_member(out, "rounds")) == 3 && study_number(out, "batch") == 2);
  CHECK(!study_member(out, "percent_of_peak") && cJSON_GetArraySize(out) == 6);
  cJSON_Delete(out);
  study_times_free(&t);
}

int main(void) {
  RUN(restless_cells_are_measured_again_at_most_as_often);
  RUN(times_of_rounds_add_up);
  return test_done();
}
