/* The steps of a study in their order. */
#include "frontend/study/work.h"

#include <ftw.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the list -------------------------------------------------------------------------------- */

/* Tasks by name; values are numbers from 1. */
static void task_key(int cell, int step, int n, char key[48]) {
  snprintf(key, 48, "%d.%d.%d", cell, step, n);
}

size_t study_work_add(study_work *w, int cell, int step, int n) {
  char key[48];
  vtb_vec_push(&w->tasks, ((study_task){.cell = cell, .step = step, .n = n}));
  task_key(cell, step, n, key);
  vtb_map_set(&w->index, key, (void *)(uintptr_t)w->tasks.n);
  return w->tasks.n - 1;
}

/* Every cell's first seed comes before any second one, so that the report is soon whole; an
 * evaluation comes before the next training. */
void study_work_begin(study_work *w, const study *s, const study_cells *cells, const char *folder) {
  char *text = NULL, name[33] = "";
  size_t n;
  *w = (study_work){.study = s, .cells = cells, .folder = folder};
  for (size_t i = 0; i < cells->n; i++) vtb_vec_push(&w->model, vtb_xstrdup(""));
  if (s->recipe_file && vtb_file_read(s->recipe_file, 1 << 24, &text, &n, NULL) == VTB_OK)
    vtb_hash128(text, n, name);
  vtb_free(text);
  w->recipe = vtb_xstrdup(name);
  for (size_t i = 0; i < cells->n; i++) {
    if (cells->at[i].excluded) continue;
    study_work_add(w, (int)i, STUDY_CHECK, 0);
    study_work_add(w, (int)i, STUDY_PATHS, 0);
  }
  for (int seed = 0; seed < s->seeds; seed++)
    for (size_t i = 0; i < cells->n; i++) {
      if (cells->at[i].excluded) continue;
      if (!s->untested) study_work_add(w, (int)i, STUDY_EVAL, seed);
      study_work_add(w, (int)i, STUDY_TRAIN, seed);
    }
}

void study_work_free(study_work *w) {
  for (size_t i = 0; i < w->tasks.n; i++) study_record_free(&w->tasks.at[i].record);
  vtb_vec_free(&w->tasks);
  vtb_map_free(&w->index);
  study_texts_free(&w->model);
  vtb_free(w->recipe);
  vtb_free(w->changed);
  vtb_free(w->damaged);
  *w = (study_work){.study = NULL};
}

study_task *study_work_find(const study_work *w, int cell, int step, int n) {
  char key[48];
  task_key(cell, step, n, key);
  size_t number = (size_t)(uintptr_t)vtb_map_get(&w->index, key);
  return number ? &w->tasks.at[number - 1] : NULL;
}

/* The step that another builds on; NULL: nothing. */
static const study_task *before(const study_work *w, const study_task *t) {
  switch (t->step) {
  case STUDY_PATHS:
    return study_work_find(w, t->cell, STUDY_CHECK, 0);
  case STUDY_EVAL:
    return study_work_find(w, t->cell, STUDY_TRAIN, t->n);
  case STUDY_TRAIN: /* a seed that fails is not the last one to */
  case STUDY_BENCH:
    return t->n ? study_work_find(w, t->cell, t->step, t->n - 1)
                : study_work_find(w, t->cell, STUDY_CHECK, 0);
  default:
    return NULL;
  }
}

/* Another seed is begun at once: only a failure of the one before it counts. */
study_task_state study_work_state(const study_work *w, const study_task *t) {
  const study_task *b = before(w, t);
  if (t->known) return STUDY_TASK_DONE;
  if (!b) return STUDY_TASK_READY;
  if (b->known) return study_record_ok(&b->record) ? STUDY_TASK_READY : STUDY_TASK_DROPPED;
  study_task_state s = study_work_state(w, b);
  if (s == STUDY_TASK_DROPPED) return s;
  return t->step == STUDY_TRAIN && t->n ? s : STUDY_TASK_WAITS;
}

/* ---- names, words, keys ---------------------------------------------------------------------- */

const char *study_task_name(const study_task *t) {
  return t->step == STUDY_PATHS  ? "paths"
         : t->step == STUDY_PEAK ? "peak"
                                 : study_step_name((study_step)t->step);
}

char *study_task_path(const study_work *w, const study_task *t, const char *ending) {
  vtb_strbuf s = {0};
  vtb_strbuf_puts(&s, w->folder);
  if (t->cell >= 0) vtb_strbuf_printf(&s, "/cells/%s", w->cells->at[t->cell].id);
  vtb_strbuf_printf(&s, "/%s", study_task_name(t));
  if (t->step != STUDY_CHECK && t->step != STUDY_PATHS) vtb_strbuf_printf(&s, "-%d", t->n);
  vtb_strbuf_puts(&s, ending);
  return s.at;
}

/* Words of a picture: those of the check of a model that is not trained. */
static void paths_words(const study_work *w, study s, const study_task *t, study_texts *out) {
  s.seeds = 0;
  s.bench_train = false;
  study_words(&s, &w->cells->at[t->cell], STUDY_CHECK, 0, w->folder, out);
  vtb_free(out->at[1]);
  out->at[1] = vtb_xstrdup("paths");
  study_texts_add(out, "-o");
  vtb_vec_push(out, study_task_path(w, t, ".svg"));
}

static void peak_words(const study *s, study_texts *out) {
  char threads[24];
  study_texts_add(out, "vertebra");
  study_texts_add(out, "bench");
  study_texts_add(out, "--peak");
  study_texts_add(out, "--json");
  if (!s->threads) return;
  snprintf(threads, sizeof threads, "%lld", (long long)s->threads);
  study_texts_add(out, "--threads");
  study_texts_add(out, threads);
}

void study_task_words(const study_work *w, const study_task *t, bool resume, study_texts *out) {
  study s = *w->study;
  if (w->threads) s.threads = w->threads;
  if (t->step == STUDY_PEAK)
    peak_words(&s, out);
  else if (t->step == STUDY_PATHS)
    paths_words(w, s, t, out);
  else if (resume)
    study_words_resume(&s, &w->cells->at[t->cell], t->n, w->folder, out);
  else
    study_words(&s, &w->cells->at[t->cell], (study_step)t->step, t->n, w->folder, out);
}

/* Threads change no result, and the report's folder may be reached from elsewhere. */
char *study_task_key(const study_work *w, const study_task *t) {
  study_texts words = {0};
  vtb_strbuf text = {0};
  char key[33];
  bool timed = t->step == STUDY_BENCH || t->step == STUDY_PEAK;
  size_t below = strlen(w->folder);
  study_task_words(w, t, false, &words);
  vtb_strbuf_printf(&text, "%s\n", VTB_VERSION);
  for (size_t i = 0; i < words.n; i++) {
    const char *word = words.at[i];
    bool free = (!timed && strcmp(word, "--threads") == 0) || strcmp(word, "--label") == 0;
    if (free && i + 1 < words.n) {
      i++;
      continue;
    }
    bool inside = strncmp(word, w->folder, below) == 0 && word[below] == '/';
    vtb_strbuf_printf(&text, "%s\n", inside ? word + below : word);
  }
  if (t->step == STUDY_TRAIN || t->step == STUDY_EVAL) vtb_strbuf_puts(&text, w->recipe);
  if (t->cell >= 0 && t->step != STUDY_CHECK)
    vtb_strbuf_printf(&text, "\n%s", w->model.at[t->cell]);
  vtb_hash128(text.at, text.n, key);
  study_texts_free(&words);
  vtb_strbuf_free(&text);
  return vtb_xstrdup(key);
}

/* ---- the text of models ---------------------------------------------------------------------- */

/* The first of these files that is not what it was; NULL: they all are. */
static const char *changed_source(const cJSON *check) {
  const cJSON *file;
  cJSON_ArrayForEach(file, study_member(check, "sources")) {
    char *text = NULL, hash[33] = "";
    size_t n;
    if (vtb_file_read(study_text_of(file, "path"), 1 << 26, &text, &n, NULL) == VTB_OK)
      vtb_hash128(text, n, hash);
    vtb_free(text);
    if (strcmp(hash, study_text_of(file, "hash")) != 0) return study_text_of(file, "path");
  }
  return NULL;
}

static void know(study_work *w, study_task *t, study_record *r) {
  t->record = *r;
  t->known = true;
  *r = (study_record){.n = 0};
  if (t->step != STUDY_CHECK) return;
  vtb_free(w->model.at[t->cell]);
  w->model.at[t->cell] = vtb_xstrdup(study_text_of(t->record.document, "text_hash"));
}

/* ---- records --------------------------------------------------------------------------------- */

vtb_status study_task_load(study_work *w, study_task *t, vtb_error *err) {
  study_record r;
  bool found;
  if (t->known) return VTB_OK;
  char *path = study_task_path(w, t, ".json"), *key = NULL;
  vtb_error damage = {0};
  vtb_status status = study_record_read(path, &r, &found, &damage);
  if (status == VTB_E_INPUT && found && !w->damaged) w->damaged = vtb_xstrdup(path);
  vtb_free(path);
  if (status == VTB_E_INPUT && found) {
    study_record_free(&r);
    return VTB_OK;
  }
  if (status != VTB_OK && err) *err = damage;
  if (status != VTB_OK || !found) return status;
  key = study_task_key(w, t);
  const char *changed = t->step == STUDY_CHECK ? changed_source(r.document) : NULL;
  /* a file that is not found from here may be what it was: the new check tells */
  if (changed && !w->changed && vtb_path_exists(changed)) w->changed = vtb_xstrdup(changed);
  if (!changed && strcmp(key, r.key) == 0) {
    r.step = study_task_name(t);
    know(w, t, &r);
  } else if (t->step != STUDY_CHECK) {
    w->stale++;
  }
  vtb_free(key);
  study_record_free(&r);
  return VTB_OK;
}

vtb_status study_work_load(study_work *w, int step, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < w->tasks.n && status == VTB_OK; i++)
    if (w->tasks.at[i].step == step) status = study_task_load(w, &w->tasks.at[i], err);
  return status;
}

vtb_status study_task_finish(study_work *w, study_task *t, study_record *r, vtb_error *err) {
  char *path = study_task_path(w, t, ".json");
  vtb_status status = study_record_write(path, r, err);
  if (status == VTB_OK)
    know(w, t, r);
  else
    study_record_free(r);
  vtb_free(path);
  return status;
}

void study_task_forget(study_work *w, study_task *t) {
  char *path = study_task_path(w, t, ".json");
  unlink(path);
  vtb_free(path);
  study_record_free(&t->record);
  t->known = false;
}

/* Removes what writers that were killed have left; young ones may be another process's. */
void study_work_tidy(const study_work *w) {
  static const char *const patterns[] = {"/*.tmp-*", "/cells/*/*.tmp-*"};
  enum { YOUNG = 60 };
  for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
    glob_t found;
    struct stat s;
    char *pattern = vtb_need(vtb_strprintf("%s%s", w->folder, patterns[k]));
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
      for (size_t i = 0; i < found.gl_pathc; i++)
        if (stat(found.gl_pathv[i], &s) == 0 && time(NULL) - s.st_mtime > YOUNG)
          unlink(found.gl_pathv[i]);
      globfree(&found);
    }
    vtb_free(pattern);
  }
}

/* ---- trainings that were interrupted --------------------------------------------------------- */

bool study_task_can_resume(const study_work *w, const study_task *t) {
  char *run = study_task_path(w, t, ""), *note = study_task_path(w, t, ".key"), *was = NULL;
  char *key = study_task_key(w, t);
  vtb_strbuf checkpoint = {0};
  size_t n;
  vtb_strbuf_printf(&checkpoint, "%s/checkpoint.safetensors", run);
  bool can = t->step == STUDY_TRAIN && vtb_path_exists(checkpoint.at) &&
             vtb_file_read(note, 4096, &was, &n, NULL) == VTB_OK && strcmp(was, key) == 0;
  vtb_strbuf_free(&checkpoint);
  vtb_free(was);
  vtb_free(key);
  vtb_free(note);
  vtb_free(run);
  return can;
}

static int take_away(const char *path, const struct stat *s, int what, struct FTW *place) {
  (void)s, (void)what, (void)place;
  return remove(path);
}

vtb_status study_task_prepare(const study_work *w, const study_task *t, bool resume,
                              vtb_error *err) {
  if (t->step != STUDY_TRAIN || resume) return VTB_OK;
  char *run = study_task_path(w, t, ""), *note = study_task_path(w, t, ".key");
  char *key = study_task_key(w, t);
  vtb_status status = VTB_OK;
  if (vtb_path_exists(run) && nftw(run, take_away, 16, FTW_DEPTH | FTW_PHYS) != 0)
    status = vtb_file_fail(err, "remove", run);
  if (status == VTB_OK) status = vtb_file_write_atomic(note, key, strlen(key), err);
  vtb_free(key);
  vtb_free(note);
  vtb_free(run);
  return status;
}
