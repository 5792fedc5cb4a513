/* The fastest of timed cells, and where they take turns. */
#include "frontend/study/ranking.h"
#include "tests/test.h"

/* Two forms over four sizes and two batches, in the order of the design: batch, image, mode. */
enum { SIZES = 4, CELLS = 16 };

typedef struct timed {
  study study;
  study_cells cells;
  study_ranking ranking;
} timed;

static void open_grid(timed *t, const double ms[CELLS]) {
  vtb_error err = {0};
  *t = (timed){.study = study_defaults()};
  t->study.model = vtb_xstrdup("m");
  CHECK(study_vary(&t->study, "batch=1,8", &err) == VTB_OK);
  CHECK(study_vary(&t->study, "image=100,200,400,200x3200", &err) == VTB_OK);
  CHECK(study_vary(&t->study, "mode=parallel,chunkwise(16)", &err) == VTB_OK);
  CHECK(study_design(&t->study, &t->cells, &err) == VTB_OK && t->cells.n == CELLS);
  study_rank(&t->study, &t->cells, ms, 0.04, &t->ranking);
}

static void close_grid(timed *t) {
  study_ranking_free(&t->ranking);
  study_cells_free(&t->cells);
  study_free(&t->study);
}

static void says(const timed *t, size_t n, const char *const *want) {
  study_crossovers list = {0};
  study_find_crossovers(&t->ranking, &list);
  CHECK_MSG(list.n == n, "%zu crossovers", list.n);
  for (size_t i = 0; i < list.n && i < n; i++) {
    vtb_strbuf text = {0};
    study_put_crossover(&t->ranking, &list.at[i], &text);
    CHECK_MSG(strcmp(text.at, want[i]) == 0, "%s", text.at);
    vtb_strbuf_free(&text);
  }
  vtb_vec_free(&list);
}

/* parallel doubles twice a step, chunkwise once: they are equal at 200 at a batch of 1. */
TEST(they_take_turns_where_times_are_equal) {
  const double ms[CELLS] = {1, 2, 4, 4.01, 16, 8, 64, 16, 1, 3, 4, 6, 16, 12, 64, 24};
  timed t;
  open_grid(&t, ms);
  CHECK(t.ranking.compared == 2 && t.ranking.along == 1);
  CHECK(study_is_best(&t.ranking, 0) && !study_is_best(&t.ranking, 1));
  CHECK(study_is_best(&t.ranking, 5) && !study_is_close(&t.ranking, 4));
  CHECK(study_is_best(&t.ranking, 2) && study_is_close(&t.ranking, 3));
  const char *const want[] = {
      "batch 1: mode chunkwise(16) overtakes parallel between image 100 and 400, at about 200",
      "batch 8: mode chunkwise(16) overtakes parallel between image 200 and 400, at about 300"};
  says(&t, 2, want);
  close_grid(&t);
}

/* An image of two sides counts by its area: 200x3200 is an 800. */
TEST(images_are_compared_by_their_areas) {
  const double ms[CELLS] = {1, 2, 2, 3, 4, 5, 16, 8, 1, 2, 2, 3, 4, 5, 6, 7};
  study_crossovers list = {0};
  timed t;
  open_grid(&t, ms);
  for (size_t i = 0; i < CELLS; i++)
    CHECK(!study_is_best(&t.ranking, i) || !study_is_close(&t.ranking, i));
  study_find_crossovers(&t.ranking, &list);
  CHECK_MSG(list.n == 1, "%zu crossovers", list.n);
  if (list.n == 1) {
    vtb_strbuf text = {0};
    study_put_crossover(&t.ranking, &list.at[0], &text);
    CHECK_MSG(strstr(text.at, "between image 400 and 200x3200, at about ") != NULL, "%s", text.at);
    vtb_strbuf_free(&text);
  }
  vtb_vec_free(&list);
  close_grid(&t);
}

/* At 100 it is not clear who is faster: nothing is overtaken. */
TEST(what_is_within_the_spreads_is_no_crossover) {
  const double ms[CELLS] = {1, 1.01, 4, 3, 16, 8, 64, 16, 1, 3, 2, 6, 3, 12, 4, 24};
  timed t;
  open_grid(&t, ms);
  CHECK(study_is_close(&t.ranking, 1));
  says(&t, 0, NULL);
  close_grid(&t);
}

/* Nothing of parallel at the larger sizes: it failed there. Without times for both sides the place
 * is not told. */
TEST(cells_that_failed_are_no_rivals) {
  const double ms[CELLS] = {1, 2, 2, 4, NAN, 8, NAN, NAN, NAN, 3, NAN, 6, NAN, 12, NAN, 24};
  timed t;
  open_grid(&t, ms);
  CHECK(!study_is_best(&t.ranking, 4) && study_is_best(&t.ranking, 5));
  CHECK(!study_is_best(&t.ranking, 6) && !study_is_best(&t.ranking, 7));
  CHECK(!study_is_close(&t.ranking, 6));
  const char *const want[] = {
      "batch 1: mode chunkwise(16) overtakes parallel between image 200 and 400"};
  says(&t, 1, want);
  close_grid(&t);
}

/* Numbers of the model are no alternatives, but batches are; what is no number is. */
TEST(what_is_compared) {
  vtb_error err = {0};
  study s = study_defaults();
  study_cells none = {0};
  study_ranking r;
  CHECK(study_vary(&s, "dim=192,384", &err) == VTB_OK);
  study_rank(&s, &none, NULL, 0, &r);
  CHECK(r.compared == -1 && r.along == 0);
  study_ranking_free(&r);
  CHECK(study_vary(&s, "batch=1,8", &err) == VTB_OK);
  study_rank(&s, &none, NULL, 0, &r);
  CHECK(r.compared == 1 && r.along == 0);
  study_ranking_free(&r);
  CHECK(study_vary(&s, "paths=uni,bi", &err) == VTB_OK);
  study_rank(&s, &none, NULL, 0, &r);
  CHECK(r.compared == 2 && r.along == 1);
  study_ranking_free(&r);
  study_free(&s);
}

int main(void) {
  RUN(they_take_turns_where_times_are_equal);
  RUN(images_are_compared_by_their_areas);
  RUN(what_is_within_the_spreads_is_no_crossover);
  RUN(cells_that_failed_are_no_rivals);
  RUN(what_is_compared);
  return test_done();
}
