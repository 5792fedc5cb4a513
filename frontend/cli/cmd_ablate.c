/* vertebra ablate: a study of a model, from what is varied to a report: the options. */
#include "frontend/cli/ablate.h"
#include "frontend/study/options.h"

#include <string.h>
#include <time.h>

typedef struct command {
  study study;
  ablate_options run;
  cli_list vary, where, defines;
  const char *model, *title, *recipe;
  const char **option; /* of the table of options, one a row; NULL: not given */
  bool *flag;
  bool pairwise, one_at_a_time, dry_run;
  int64_t sample;
} command;

/* ---- from options to a study ----------------------------------------------------------------- */

static void take(char **field, const char *text) {
  if (!text) return;
  vtb_free(*field);
  *field = vtb_xstrdup(text);
}

static void add_word(study *s, const char *word) { vtb_vec_push(&s->options, vtb_xstrdup(word)); }

/* Options that commands of steps have too. */
static void take_options(command *c) {
  size_t n;
  const study_option *table = study_option_table(&n);
  for (size_t i = 0; i < c->defines.n; i++) {
    add_word(&c->study, "-D");
    add_word(&c->study, c->defines.at[i]);
  }
  for (size_t i = 0; i < n; i++) {
    if (!c->option[i] && !c->flag[i]) continue;
    add_word(&c->study, table[i].word);
    if (c->option[i]) add_word(&c->study, c->option[i]);
  }
}

static vtb_status take_arrangement(command *c) {
  study *s = &c->study;
  if (c->pairwise + c->one_at_a_time + (c->sample > 0) > 1)
    return cli_usage_error("ablate", "--pairwise, --one-at-a-time and --sample exclude each other");
  if (c->pairwise) s->arrangement = STUDY_PAIRWISE;
  if (c->one_at_a_time) s->arrangement = STUDY_ONE_AT_A_TIME;
  if (c->sample > 0) s->arrangement = STUDY_SAMPLE;
  if (c->sample > 0) s->sample = c->sample;
  return VTB_OK;
}

static vtb_status make_study(command *c, vtb_error *err) {
  study *s = &c->study;
  take(&s->model, c->model);
  take(&s->title, c->title);
  take(&s->recipe, c->recipe);
  take_options(c);
  for (size_t i = 0; i < c->where.n; i++) vtb_vec_push(&s->where, vtb_xstrdup(c->where.at[i]));
  vtb_status status = take_arrangement(c);
  for (size_t i = 0; i < c->vary.n && status == VTB_OK; i++)
    status = study_vary(s, c->vary.at[i], err);
  if (s->recipe && !s->seeds) s->seeds = 1;
  if (!s->recipe) s->seeds = 0;
  if (s->bench_train || !s->recipe) s->bench = true;
  study_texts notes = {0};
  if (status == VTB_OK) status = study_resolve(s, &notes, err);
  for (size_t i = 0; i < notes.n && status == VTB_OK; i++) cli_say("%s\n", notes.at[i]);
  study_texts_free(&notes);
  return status;
}

/* ---- what is planned ------------------------------------------------------------------------- */

static vtb_status show_plan(const study *s, const char *folder, vtb_error *err) {
  study_cells cells = {0};
  vtb_status status = study_design(s, &cells, err);
  for (size_t i = 0; i < cells.n; i++) {
    study_texts words = {0};
    vtb_strbuf line = {0};
    study_words(s, &cells.at[i], s->seeds ? STUDY_TRAIN : STUDY_BENCH, 0, folder, &words);
    for (size_t k = 0; k < words.n; k++) vtb_strbuf_word(&line, words.at[k]);
    cli_printf(4, "%s: %s", cells.at[i].label, line.at);
    vtb_strbuf_free(&line);
    study_texts_free(&words);
  }
  study_cells_free(&cells);
  return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* reports/MODEL-DATE */
static char *new_folder(const char *model) {
  char date[32];
  time_t now = time(NULL);
  struct tm tm;
  const char *name = strrchr(model, '/') ? strrchr(model, '/') + 1 : model;
  strftime(date, sizeof date, "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
  return vtb_need(
      vtb_strprintf("reports/%.*s-%s", (int)strcspn(name, "."), *name ? name : "model", date));
}

static vtb_status run(command *c) {
  vtb_error err = {0};
  char *folder = vtb_xstrdup(c->run.folder ? c->run.folder : "");
  vtb_status status = make_study(c, &err);
  if (status == VTB_OK && !c->run.folder) {
    vtb_free(folder);
    folder = new_folder(c->study.model);
  }
  c->run.folder = folder;
  if (status == VTB_OK && c->dry_run)
    status = show_plan(&c->study, folder, &err);
  else if (status == VTB_OK)
    status = ablate_run(&c->study, &c->run);
  if (status != VTB_OK && err.text[0]) cli_error(&err);
  vtb_free(folder);
  return status;
}

enum { MOST_ROWS = 80 };

static bool has_row(const cli_opt *rows, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(rows[i].name, name) == 0) return true;
  return false;
}

/* Rows of what the commands of steps take, too; n of them all. */
static int add_rows(cli_opt *rows, int n, command *c) {
  size_t n_table;
  const study_option *table = study_option_table(&n_table);
  c->option = vtb_xcalloc(n_table, sizeof *c->option);
  c->flag = vtb_xcalloc(n_table, sizeof *c->flag);
  for (size_t i = 0; i < n_table && n < MOST_ROWS; i++) {
    bool flag = table[i].kind == STUDY_VALUE_FLAG;
    if (has_row(rows, n, table[i].word) || strcmp(table[i].word, "--recipe") == 0) continue;
    rows[n++] = (cli_opt){table[i].word, flag ? CLI_FLAG : CLI_STR,
                          flag ? (void *)&c->flag[i] : (void *)&c->option[i], table[i].metavar,
                          table[i].help};
  }
  return n;
}

vtb_status cli_cmd_ablate(int argc, char **argv) {
  command c = {.study = study_defaults(), .run = {.launcher = "local"}};
  study *s = &c.study;
  const char *data = NULL;
  cli_opt rows[MOST_ROWS] = {
      {"--vary", CLI_LIST, &c.vary, "NAME=A,B,...",
       "what differs between cells: a hyperparameter, an option of train, bench or check, or "
       "model; NAME,NAME=A:B,C:D varies several together; repeatable"},
      {"--where", CLI_LIST, &c.where, "EXPR", "leave out cells of which this does not hold"},
      {"--pairwise", CLI_FLAG, &c.pairwise, NULL,
       "few cells, in which every two values of two axes meet"},
      {"--one-at-a-time", CLI_FLAG, &c.one_at_a_time, NULL,
       "the baseline, and cells that differ from it in one axis"},
      {"--sample", CLI_POSITIVE, &c.sample, "N", "N cells of the grid, drawn by --seed"},
      {"--seed", CLI_INT, &s->seed, "N", "of --sample (default 0)"},
      {"--train", CLI_STR, &c.recipe, "RECIPE", "train each cell by this recipe"},
      {"--data", CLI_STR, &data, "D", "what is trained and judged on (default: the recipe's)"},
      {"--seeds", CLI_POSITIVE, &s->seeds, "N", "trainings a cell, seeds 0 to N - 1 (default 1)"},
      {"--bench", CLI_FLAG, &s->bench, NULL, "time each cell (default without --train)"},
      {"--bench-train", CLI_FLAG, &s->bench_train, NULL,
       "time a training step instead of the forward pass"},
      {"--rounds", CLI_POSITIVE, &s->rounds, "N", "rounds of timing (default 3)"},
      {"--seconds", CLI_FLOAT, &s->seconds, "S", "of timing, a cell and round (default 1)"},
      {"--jobs", CLI_POSITIVE, &s->jobs, "N", "processes at a time (default: chosen, and said)"},
      {"--threads", CLI_THREADS, &s->threads, "N", "of each process (default: cores / jobs)"},
      {"--launcher", CLI_STR, &c.run.launcher, "NAME", "local (default), or mpi under mpirun"},
      {"--against", CLI_STR, &c.run.against, "DIR", "compare with that report, cell by cell"},
      {"--retry", CLI_FLAG, &c.run.retry, NULL, "do steps that have failed again"},
      {"--extend", CLI_FLAG, &c.run.extend, NULL,
       "-o may be a report of another study: what both have is kept"},
      {"--dry-run", CLI_FLAG, &c.dry_run, NULL, "show the cells and what they cost, run nothing"},
      {"--title", CLI_STR, &c.title, "TEXT", "of the report"},
      {"-D", CLI_LIST, &c.defines, "NAME=VALUE", "set a hyperparameter in all cells"},
      {"-o", CLI_STR, &c.run.folder, "DIR", "the report's folder (default reports/MODEL-DATE)"}};
  cli_list rest = {0};
  int n = 0;
  while (rows[n].name) n++;
  n = add_rows(rows, n, &c);
  int parsed = cli_parse("ablate", rows, n, argc, argv, &rest);
  vtb_status status = parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (!parsed && rest.n != 1)
    status = cli_usage_error("ablate", "one MODEL and --vary, or one STUDY.yaml, are needed");
  if (!parsed && status == VTB_OK) {
    c.model = rest.at[0];
    take(&s->data, data);
    status = run(&c);
  }
  vtb_vec_free(&rest);
  vtb_vec_free(&c.vary);
  vtb_vec_free(&c.where);
  vtb_vec_free(&c.defines);
  vtb_free((void *)c.option);
  vtb_free(c.flag);
  study_free(s);
  return status;
}
