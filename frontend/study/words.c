/* The commands of steps. */
#include "frontend/study/options.h"
#include "frontend/study/record.h"
#include "frontend/study/split.h"

#include <string.h>

/* --test-image is eval's --image, behind that of training if there is one: the last one counts. */
static void put_name(study_texts *out, const char *name) {
  if (vtb_starts_with(name, STUDY_TEST_IMAGE)) name += strlen("test-");
  vtb_vec_push(out, vtb_need(vtb_strprintf("--%s", name)));
}

static void put_option(study_texts *out, const char *name, const char *value) {
  vtb_vec_push(out, vtb_need(vtb_strprintf("--%s", name)));
  study_texts_add(out, value);
}

char *study_run_folder(const study_cell *c, int n, const char *folder) {
  const char *between = vtb_ends_with(folder, "/") ? "" : "/";
  return vtb_need(vtb_strprintf("%s%scells/%s/train-%d", folder, between, c->id, n));
}

/* A word of the study's own options, "--lr" or "--lr=3"; the name ends at *n. NULL: no option. */
static const char *option_name(const char *word, size_t *n) {
  if (!vtb_starts_with(word, "--") || !word[2]) return NULL;
  *n = strcspn(word + 2, "=");
  return word + 2;
}

static bool is_set(const study_settings *settings, const char *name, size_t n) {
  for (size_t i = 0; i < settings->n; i++)
    if (strlen(settings->at[i].name) == n && strncmp(settings->at[i].name, name, n) == 0 &&
        settings->at[i].kind == STUDY_OPTION)
      return true;
  return false;
}

/* "chunk" where a cell's mode is chunkwise(16), which says it. */
static bool is_said_by_mode(const study_settings *settings, const char *name, size_t n) {
  if (n != 5 || strncmp(name, "chunk", 5) != 0) return false;
  for (size_t i = 0; i < settings->n; i++)
    if (strcmp(settings->at[i].name, "mode") == 0 && settings->at[i].kind == STUDY_OPTION)
      return true;
  return false;
}

/* Words that hold for all cells, as far as the step takes them and the cell has nothing else for
 * them. */
static void put_common(study_texts *out, const study_texts *words, const study_settings *settings,
                       study_step step) {
  for (size_t i = 0; i < words->n; i++) {
    size_t n = 0;
    const char *word = words->at[i], *name = option_name(word, &n);
    bool joined = name && name[n] == '=', valued = !joined && i + 1 < words->n;
    bool taken = true;
    if (name) {
      char *bare = study_trimmed(name, n);
      const study_option *o = study_option_find(bare);
      vtb_free(bare);
      valued &= !o || o->kind != STUDY_VALUE_FLAG;
      taken = (!o || (o->steps & (1 << step))) && !is_set(settings, name, n) &&
              !is_said_by_mode(settings, name, n);
    } else {
      valued &= strcmp(word, "-D") == 0;
    }
    if (taken && name) put_name(out, name);
    if (taken && !name) study_texts_add(out, word);
    if (valued) i++;
    if (taken && valued) study_texts_add(out, words->at[i]);
  }
}

/* mode = chunkwise(16) is two options. */
static bool put_mode(study_texts *out, const char *value) {
  size_t n = strlen(value);
  const char *open = strchr(value, '(');
  if (!open || value[n - 1] != ')') return false;
  char *mode = study_trimmed(value, (size_t)(open - value));
  char *chunk = study_trimmed(open + 1, n - (size_t)(open - value) - 2);
  put_option(out, "mode", mode);
  if (*chunk) put_option(out, "chunk", chunk);
  vtb_free(mode);
  vtb_free(chunk);
  return true;
}

static void put_setting(study_texts *out, const study_setting *s, study_step step) {
  if (s->kind == STUDY_HYPERPARAMETER) {
    study_texts_add(out, "-D");
    vtb_vec_push(out, vtb_need(vtb_strprintf("%s=%s", s->name, s->value)));
  }
  const study_option *o = s->kind == STUDY_OPTION ? study_option_find(s->name) : NULL;
  if (!o || !(o->steps & (1 << step))) return;
  if (o->kind == STUDY_VALUE_FLAG) {
    if (strcmp(s->value, "true") == 0) vtb_vec_push(out, vtb_xstrdup(o->word));
  } else if (strcmp(s->name, "mode") != 0 || !put_mode(out, s->value)) {
    put_name(out, s->name);
    study_texts_add(out, s->value);
  }
}

static bool has_option(const study_settings *settings, const char *name) {
  return is_set(settings, name, strlen(name));
}

static void put_train(const study *s, const study_cell *c, const study_settings *settings, int n,
                      const char *folder, study_texts *out) {
  char number[32], *run = study_run_folder(c, n, folder);
  if (s->recipe && !has_option(settings, "recipe")) put_option(out, "recipe", s->recipe);
  if (s->data && !has_option(settings, "data")) put_option(out, "data", s->data);
  put_common(out, &s->train, settings, STUDY_TRAIN);
  snprintf(number, sizeof number, "%d", n);
  put_option(out, "seed", number);
  put_option(out, "label", c->label);
  put_option(out, "checkpoint-minutes", "0.25");
  put_option(out, "out", run);
  study_texts_add(out, "--quiet");
  vtb_free(run);
}

static void put_eval(const study *s, const study_cell *c, const study_settings *settings, int n,
                     const char *folder, study_texts *out) {
  char *run = study_run_folder(c, n, folder);
  char *last = vtb_need(vtb_strprintf("%s/weights.safetensors", run));
  char *best = vtb_need(vtb_strprintf("%s/best.safetensors", run));
  /* without a val split nothing was chosen by it */
  put_option(out, "weights", vtb_path_exists(last) && !vtb_path_exists(best) ? last : best);
  if (s->data && !has_option(settings, "data")) put_option(out, "data", s->data);
  put_option(out, "split", "test");
  vtb_free(best);
  vtb_free(last);
  vtb_free(run);
}

static void put_bench(const study *s, study_texts *out) {
  vtb_strbuf seconds = {0};
  vtb_strbuf_double(&seconds, s->seconds);
  if (s->bench_train) study_texts_add(out, "--train");
  put_option(out, "seconds", vtb_strbuf_text(&seconds));
  vtb_strbuf_free(&seconds);
}

static const char *model_of(const study *s, const study_settings *settings) {
  for (size_t i = 0; i < settings->n; i++)
    if (settings->at[i].kind == STUDY_MODEL) return settings->at[i].value;
  return s->model;
}

static void put_threads(const study *s, const study_settings *settings, study_texts *out) {
  char number[32];
  snprintf(number, sizeof number, "%lld", (long long)s->threads);
  if (s->threads > 0 && !has_option(settings, "threads")) put_option(out, "threads", number);
}

void study_words(const study *s, const study_cell *c, study_step step, int n, const char *folder,
                 study_texts *out) {
  study_settings settings = {0};
  study_cell_settings(s, c, &settings);
  study_texts_add(out, "vertebra");
  study_texts_add(out, study_step_name(step));
  study_texts_add(out, model_of(s, &settings));
  put_common(out, &s->options, &settings, step);
  for (size_t i = 0; i < settings.n; i++) put_setting(out, &settings.at[i], step);
  if (step == STUDY_CHECK && (s->seeds || s->bench_train)) study_texts_add(out, "--train");
  if (step == STUDY_TRAIN) put_train(s, c, &settings, n, folder, out);
  if (step == STUDY_EVAL) put_eval(s, c, &settings, n, folder, out);
  if (step == STUDY_BENCH) put_bench(s, out);
  if (step != STUDY_CHECK) put_threads(s, &settings, out);
  study_texts_add(out, "--json");
  study_settings_free(&settings);
}

void study_words_resume(const study *s, const study_cell *c, int n, const char *folder,
                        study_texts *out) {
  study_settings settings = {0};
  char *run = study_run_folder(c, n, folder);
  study_cell_settings(s, c, &settings);
  study_texts_add(out, "vertebra");
  study_texts_add(out, "train");
  put_option(out, "resume", run);
  study_texts_add(out, "--quiet");
  put_threads(s, &settings, out);
  study_texts_add(out, "--json");
  study_settings_free(&settings);
  vtb_free(run);
}
