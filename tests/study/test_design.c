/* From axes to cells: what names and values mean, the four designs, conditions, ids and labels. */
#include "frontend/study/options.h"
#include "frontend/study/study.h"
#include "tests/test.h"

#define MODEL VTB_SOURCE_DIR "/tests/study/reader.vtb"

static vtb_error err;
static study_texts notes;

/* The study of the axes, up to a NULL; resolved. */
static study make(vtb_status *status, const char *const *axes) {
  study s = study_defaults();
  err = (vtb_error){0};
  study_texts_free(&notes);
  s.model = vtb_xstrdup(MODEL);
  *status = VTB_OK;
  for (; *axes && *status == VTB_OK; axes++) *status = study_vary(&s, *axes, &err);
  if (*status == VTB_OK) study_complete(&s);
  if (*status == VTB_OK) *status = study_resolve(&s, &notes, &err);
  return s;
}
#define STUDY(...) make(&status, (const char *const[]){__VA_ARGS__, NULL})

static void refuses(const char *axis, const char *want) {
  vtb_status status;
  study s = STUDY(axis);
  CHECK_MSG(status == VTB_E_USAGE && strstr(err.text, want), "--vary %s: %d, '%s'", axis,
            (int)status, err.text);
  study_free(&s);
}

/* ---- names and values ------------------------------------------------------------------------ */

TEST(commas_split_outside_of_brackets_and_quotes) {
  study s = study_defaults();
  CHECK(study_vary(&s, "paths = uni, [rows, cols~],chunkwise(16) ,\"a,b\"", &err) == VTB_OK);
  const study_axis *a = &s.axes.at[0];
  CHECK(a->values.n == 4);
  CHECK_STR(a->name, "paths");
  CHECK_STR(a->values.at[1], "[rows, cols~]");
  CHECK_STR(a->values.at[2], "chunkwise(16)");
  CHECK_STR(a->values.at[3], "\"a,b\"");
  CHECK(study_vary(&s, "paths=[rows", &err) == VTB_E_USAGE && strstr(err.text, "not closed"));
  study_free(&s);
}

TEST(a_name_is_a_hyperparameter_or_an_option) {
  vtb_status status;
  study s = STUDY("paths=uni,quad", "mode=auto,chunkwise(4)", "image=8,16", "dim,depth=8:1,16:2");
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  CHECK(s.axes.at[0].kind == STUDY_HYPERPARAMETER && s.axes.at[1].kind == STUDY_OPTION);
  CHECK(s.axes.at[2].kind == STUDY_OPTION); /* the size of the image is --image */
  CHECK(s.axes.at[3].parts.n == 2 && s.axes.at[3].parts.at[1].kind == STUDY_HYPERPARAMETER);
  CHECK(notes.n == 1 && strstr(notes.at[0], "that alias is task"));
  study_free(&s);
  s = STUDY("lr=0.1,0.2"); /* the model's own name counts before the option's */
  CHECK(status == VTB_OK && s.axes.at[0].kind == STUDY_HYPERPARAMETER && notes.n == 1);
  study_free(&s);
}

TEST(what_no_cell_can_use_is_an_error_at_once) {
  refuses("pahts=uni", "did you mean 'paths'?");
  refuses("paths=uni,quod", "did you mean 'quad'?");
  refuses("paths=uni,uni", "twice");
  refuses("depth=two", "unknown name 'two'");
  refuses("gate=sigmiod", "sigmoid");
  refuses("mode=paralel", "did you mean parallel?");
  refuses("mode=chunkwise(0)", "chunkwise(N)");
  refuses("mode=parallel(4)", "chunkwise(N)");
  refuses("chunk=0", "whole number from 1");
  refuses("image=8x", "224x384");
  refuses("batch=1.5", "whole number");
  refuses("seed=1,2", "--seeds N");
  refuses("epochs=1,2", "--train RECIPE");
  refuses("dim,depth=8:1,16", "has 1 values");
  refuses("model=no_such_model", "no_such_model");
  refuses("paths=", "a value");
}

TEST(nothing_is_varied_twice_or_fixed_too) {
  vtb_status status;
  study s = STUDY("depth=1,2", "depth,dim=1:8,2:8");
  CHECK(status == VTB_E_USAGE && strstr(err.text, "varied twice"));
  study_free(&s);
  s = STUDY("depth=1,2");
  study_set(&s.options, "-D", "depth", "3");
  CHECK(study_resolve(&s, &notes, &err) == VTB_E_USAGE && strstr(err.text, "set by -D depth=3"));
  study_free(&s);
}

/* ---- designs --------------------------------------------------------------------------------- */

static study_cells cells_of(const study *s) {
  study_cells cells = {0};
  vtb_status status = study_design(s, &cells, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  return cells;
}

TEST(the_grid_has_every_combination_once) {
  vtb_status status;
  study s = STUDY("paths=uni,quad", "depth=1,2,3");
  study_cells cells = cells_of(&s);
  CHECK(cells.n == 6);
  CHECK_STR(cells.at[0].id, "paths=uni-depth=1");
  CHECK_STR(cells.at[1].label, "uni, depth 2");
  CHECK_STR(cells.at[5].id, "paths=quad-depth=3");
  study_cells_free(&cells);
  study_free(&s);
}

TEST(one_at_a_time_begins_with_the_models_own_values) {
  vtb_status status;
  study s = STUDY("paths=quad,uni", "depth=1,2,3", "gate=sigmoid");
  s.arrangement = STUDY_ONE_AT_A_TIME;
  study_cells cells = cells_of(&s);
  CHECK(cells.n == 4); /* the baseline, one of paths, two of depth */
  CHECK_STR(cells.at[0].id, "paths=uni-depth=2-gate=sigmoid");
  CHECK_STR(cells.at[0].label, "baseline");
  CHECK_STR(cells.at[1].label, "quad");
  CHECK_STR(cells.at[3].label, "depth 3");
  study_cells_free(&cells);
  study_free(&s);
}

/* Whether some cell has both values. */
static bool meet(const study *s, const study_cells *cells, size_t i, size_t a, size_t j, size_t b) {
  for (size_t k = 0; k < cells->n; k++)
    if (strcmp(cells->at[k].value.at[i], s->axes.at[i].values.at[a]) == 0 &&
        strcmp(cells->at[k].value.at[j], s->axes.at[j].values.at[b]) == 0)
      return true;
  return false;
}

static size_t missing_pairs(const study *s, const study_cells *cells) {
  size_t missing = 0;
  for (size_t i = 0; i < s->axes.n; i++)
    for (size_t j = i + 1; j < s->axes.n; j++)
      for (size_t a = 0; a < s->axes.at[i].values.n; a++)
        for (size_t b = 0; b < s->axes.at[j].values.n; b++) missing += !meet(s, cells, i, a, j, b);
  return missing;
}

TEST(pairwise_covers_every_pair_in_few_cells) {
  vtb_status status;
  study s = STUDY("a=1,2,3,4");
  study_free(&s);
  s = study_defaults();
  s.arrangement = STUDY_PAIRWISE;
  for (int i = 0; i < 10; i++) {
    char axis[32];
    snprintf(axis, sizeof axis, "x%d=a,b,c,d", i);
    CHECK(study_vary(&s, axis, &err) == VTB_OK);
  }
  study_cells cells = cells_of(&s), again = cells_of(&s);
  CHECK(missing_pairs(&s, &cells) == 0);
  CHECK_MSG(cells.n < 45, "%zu cells of 1,048,576", cells.n); /* at least 16 */
  CHECK(again.n == cells.n);
  for (size_t k = 0; k < cells.n; k++) CHECK_STR(again.at[k].id, cells.at[k].id);
  study_cells_free(&cells);
  study_cells_free(&again);
  study_free(&s);
}

TEST(pairwise_covers_what_conditions_leave) {
  vtb_status status;
  study s = STUDY("paths=uni,quad", "depth=1,2,3", "gate=sigmoid,none", "dim=8,16");
  s.arrangement = STUDY_PAIRWISE;
  vtb_vec_push(&s.where, vtb_xstrdup("depth != 2 or paths == uni"));
  study_cells cells = cells_of(&s);
  CHECK(missing_pairs(&s, &cells) == 1); /* depth 2 with quad */
  for (size_t k = 0; k < cells.n; k++) CHECK(!cells.at[k].excluded);
  CHECK(cells.n < 12);
  study_cells_free(&cells);
  study_free(&s);
}

TEST(a_sample_is_drawn_by_its_seed_without_repeats) {
  vtb_status status;
  study s = STUDY("paths=uni,quad", "depth=1,2,3,4,5,6,7,8,9", "dim=8,16,24");
  s.arrangement = STUDY_SAMPLE;
  s.sample = 10;
  study_cells cells = cells_of(&s), again = cells_of(&s);
  s.seed = 1;
  study_cells other = cells_of(&s);
  s.sample = 1000;
  study_cells all = cells_of(&s);
  bool differs = false;
  CHECK(cells.n == 10 && other.n == 10 && all.n == 54);
  for (size_t k = 0; k < 10; k++) {
    CHECK_STR(again.at[k].id, cells.at[k].id);
    differs |= strcmp(other.at[k].id, cells.at[k].id) != 0;
    for (size_t i = 0; i < k; i++) CHECK(strcmp(cells.at[i].id, cells.at[k].id) != 0);
  }
  CHECK(differs);
  study_cells_free(&cells);
  study_cells_free(&again);
  study_cells_free(&other);
  study_cells_free(&all);
  study_free(&s);
}

TEST(a_sample_of_a_huge_grid_is_quick) {
  study s = study_defaults();
  for (int i = 0; i < 40; i++) {
    char axis[32];
    snprintf(axis, sizeof axis, "x%d=a,b,c,d", i);
    CHECK(study_vary(&s, axis, &err) == VTB_OK);
  }
  s.arrangement = STUDY_SAMPLE;
  s.sample = 25;
  study_cells cells = cells_of(&s);
  CHECK(cells.n == 25);
  study_cells_free(&cells);
  s.arrangement = STUDY_GRID;
  err = (vtb_error){0};
  CHECK(study_design(&s, &cells, &err) == VTB_E_USAGE && strstr(err.text, "--pairwise"));
  study_free(&s);
}

/* ---- conditions ------------------------------------------------------------------------------ */

/* Cells of paths uni, quad x mode chunkwise(4), parallel x depth 1, 2 that meet the condition; -1:
 * an error. */
static int left(const char *condition) {
  vtb_status status;
  study s = STUDY("paths=uni,quad", "mode=chunkwise(4),parallel", "depth=1,2");
  study_cells cells = {0};
  int n = -1;
  vtb_vec_push(&s.where, vtb_xstrdup(condition));
  if (study_design(&s, &cells, &err) == VTB_OK) {
    n = 0;
    for (size_t k = 0; k < cells.n; k++) {
      n += !cells.at[k].excluded;
      if (cells.at[k].excluded) CHECK_STR(cells.at[k].excluded, condition);
    }
  }
  study_cells_free(&cells);
  study_free(&s);
  return n;
}

TEST(conditions_are_expressions_of_the_language) {
  CHECK(left("paths != quad") == 4);
  CHECK(left("directions == [rows]") == 4); /* its own name, its value */
  CHECK(left("mode == \"chunkwise\" and chunk < 8") == 4);
  CHECK(left("mode == parallel or depth > 1") == 6);
  CHECK(left("chunk == 4") == 4); /* parallel has no chunks: 0 */
  CHECK(left("num_blocks * dim == 16") == 4);
  CHECK(left("len(paths) > 1") == 4);
  CHECK(left("image.h == 8") == 8);
  CHECK(left("true") == 8 && left("false") == 0);
}

TEST(wrong_conditions_tell_what_is_wrong) {
  CHECK(left("pths != uni") == -1 && strstr(err.text, "did you mean 'paths'?"));
  CHECK(left("paths !=") == -1 && strstr(err.text, "--where 'paths !='"));
  CHECK(left("depth + 1") == -1 && strstr(err.text, "not true or false"));
  CHECK(left("gate == sigmiod") == -1 && strstr(err.text, "sigmoid"));
  CHECK(left("linear(\"a\", 3, 4) == 1") == -1); /* no tensors here */
  CHECK(left("((((((((((") == -1);
}

TEST(a_condition_on_options_reads_them_as_numbers_and_words) {
  vtb_status status;
  study s = STUDY("image=8,16,32x16", "batch=1,8");
  vtb_vec_push(&s.where, vtb_xstrdup("batch == 1 or image == 8"));
  study_cells cells = {0};
  status = study_design(&s, &cells, &err);
  int kept = 0;
  for (size_t k = 0; k < cells.n; k++) kept += !cells.at[k].excluded;
  CHECK_MSG(status == VTB_OK && kept == 5, "%d, %s", kept, err.text); /* 32x16 is no number: kept */
  study_cells_free(&cells);
  study_free(&s);
}

/* ---- ids and labels -------------------------------------------------------------------------- */

TEST(ids_are_names_of_files_and_stay_when_values_are_added) {
  vtb_status status;
  study s = STUDY("paths=uni,[rows, cols~],[rows~, cols]", "mode=chunkwise(4),auto");
  study_cells cells = cells_of(&s);
  study more =
      STUDY("paths=quad,[rows~, cols],uni,[rows, cols~]", "mode=auto,chunkwise(4),parallel");
  study_cells others = cells_of(&more);
  for (size_t i = 0; i < cells.n; i++) {
    const char *id = cells.at[i].id;
    bool found = false;
    CHECK(strlen(id) <= 80);
    CHECK_MSG(strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.=") ==
                  strlen(id),
              "%s", id);
    for (size_t k = 0; k < i; k++) CHECK(strcmp(cells.at[k].id, id) != 0);
    for (size_t k = 0; k < others.n; k++) found |= strcmp(others.at[k].id, id) == 0;
    CHECK_MSG(found, "%s is gone", id);
  }
  CHECK_STR(cells.at[0].id, "paths=uni-mode=chunkwise.4");
  CHECK_STR(cells.at[0].label, "uni, chunkwise(4)");
  study_cells_free(&cells);
  study_cells_free(&others);
  study_free(&s);
  study_free(&more);
}

TEST(long_ids_end_with_a_hash) {
  study s = study_defaults();
  CHECK(study_vary(&s,
                   "recipe=a_recipe_with_a_very_long_name_that_goes_on_and_on_and_on_until_it_"
                   "is_too_long_for_it/../x,"
                   "a_recipe_with_a_very_long_name_that_goes_on_and_on_and_on_until_it_is_too_"
                   "long_for_it/../y",
                   &err) == VTB_OK);
  study_cells cells = cells_of(&s);
  CHECK(cells.n == 2 && strlen(cells.at[0].id) <= 80 &&
        strcmp(cells.at[0].id, cells.at[1].id) != 0);
  study_cells_free(&cells);
  study_free(&s);
}

int main(void) {
  RUN(commas_split_outside_of_brackets_and_quotes);
  RUN(a_name_is_a_hyperparameter_or_an_option);
  RUN(what_no_cell_can_use_is_an_error_at_once);
  RUN(nothing_is_varied_twice_or_fixed_too);
  RUN(the_grid_has_every_combination_once);
  RUN(one_at_a_time_begins_with_the_models_own_values);
  RUN(pairwise_covers_every_pair_in_few_cells);
  RUN(pairwise_covers_what_conditions_leave);
  RUN(a_sample_is_drawn_by_its_seed_without_repeats);
  RUN(a_sample_of_a_huge_grid_is_quick);
  RUN(conditions_are_expressions_of_the_language);
  RUN(wrong_conditions_tell_what_is_wrong);
  RUN(a_condition_on_options_reads_them_as_numbers_and_words);
  RUN(ids_are_names_of_files_and_stay_when_values_are_added);
  RUN(long_ids_end_with_a_hash);
  study_texts_free(&notes);
  return test_done();
}
