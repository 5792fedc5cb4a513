/* How many trainings of a study run at a time: as many as there are cores for small models and room
 * in the memory, with a quarter to spare, or as it was told. */
#include "frontend/study/runner.h"
#include "tests/test.h"

static char said[400];

static void note(void *user, const study_event *e) {
  (void)user;
  if (e->kind == STUDY_SAYS) snprintf(said, sizeof said, "%s", e->text);
}

typedef struct chosen {
  size_t jobs;
  int64_t threads;
} chosen;

/* Of a study with one cell, whose check printed this. */
static chosen choose(const char *document, int64_t jobs, int64_t threads, int here) {
  vtb_error err = {0};
  study s = study_defaults();
  study_cells cells = {0};
  study_work w;
  study_run_options o = {.launch = {0, 1, here}, .on_event = note};
  static study_runner r; /* large */
  chosen c;
  s.model = vtb_xstrdup("m");
  s.jobs = jobs, s.threads = threads;
  CHECK(study_vary(&s, "depth=3", &err) == VTB_OK);
  CHECK_MSG(study_design(&s, &cells, &err) == VTB_OK && cells.n == 1, "%s", err.text);
  study_work_begin(&w, &s, &cells, "/nowhere");
  study_task *t = study_work_find(&w, 0, STUDY_CHECK, 0);
  if (!t) t = &w.tasks.at[study_work_add(&w, 0, STUDY_CHECK, 0)];
  t->known = true;
  t->record.document = cJSON_Parse(document);
  CHECK(t->record.document != NULL);
  r = (study_runner){.work = &w, .options = &o};
  *said = '\0';
  c.jobs = study_choose_jobs(&r, &c.threads);
  study_work_free(&w);
  study_cells_free(&cells);
  study_free(&s);
  return c;
}

static const char *check_of(double flops, double parameters, double batch, double workspace) {
  static char text[300];
  snprintf(text, sizeof text,
           "{\"flops\": %.0f, \"parameters\": %.0f, \"batch\": %.0f, \"workspace_bytes\": 1, "
           "\"train\": {\"workspace_bytes\": %.0f}}",
           flops, parameters, batch, workspace);
  return text;
}

TEST(small_models_train_side_by_side_and_large_ones_with_all_cores) {
  size_t cores = (size_t)study_machine_cores();
  chosen small = choose(check_of(1e7, 1000, 8, 1000), 0, 0, 1),
         large = choose(check_of(1e9, 1000, 8, 1000), 0, 0, 1),
         told = choose(check_of(1e9, 1000, 8, 1000), 3, 0, 1),
         threads = choose(check_of(1e9, 1000, 8, 1000), 0, 1, 1);
  CHECK(small.jobs == cores && small.threads == 1);
  CHECK(large.jobs == 1 && large.threads == (int64_t)cores);
  CHECK(told.jobs == 3 && told.threads == (cores / 3 > 1 ? (int64_t)cores / 3 : 1));
  CHECK(threads.jobs == cores && threads.threads == 1);
  chosen shared = choose(check_of(1e7, 1000, 8, 1000), 0, 0, 2); /* two of them on this machine */
  CHECK(shared.jobs == (cores / 2 ? cores / 2 : 1));
}

/* Weights, gradients, two moments; what a training needs besides; of a check of one image as many
 * times as the recipe has images. */
TEST(as_many_as_have_room) {
  double room = 0.75 * study_machine_memory() - 200e6; /* of a program each, and its data */
  size_t cores = (size_t)study_machine_cores();
  if (cores < 2 || room < 1e9) return;
  chosen wide = choose(check_of(1, room / 16 / 1.8, 8, 1), 0, 0, 1);
  CHECK_MSG(wide.jobs == 1, "%zu at a time", wide.jobs);
  CHECK(strstr(said, "more of them have no room") != NULL);
  chosen narrow = choose(check_of(1, room / 16 / (2.2 * (double)cores), 8, 1), 0, 0, 1);
  CHECK_MSG(narrow.jobs == cores, "%zu at a time: %s", narrow.jobs, said);
  chosen whole = choose(check_of(1, 1, 8, room / (2.2 * (double)cores)), 0, 0, 1);
  CHECK_MSG(whole.jobs == cores, "%zu at a time of batches", whole.jobs);
  chosen one = choose(check_of(1, 1, 1, room / 64 / 1.8), 0, 0, 1);
  CHECK_MSG(one.jobs == 1, "%zu at a time of single images", one.jobs);
}

int main(void) {
  RUN(small_models_train_side_by_side_and_large_ones_with_all_cores);
  RUN(as_many_as_have_room);
  return test_done();
}
