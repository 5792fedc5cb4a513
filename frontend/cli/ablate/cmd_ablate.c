/* vertebra ablate: a study of a model, from what is varied to a report: the options. */
#include "frontend/cli/ablate/ablate.h"
#include "frontend/cli/ranks.h"
#include "frontend/study/options.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 80 };

/* Rows of what the commands of steps take, too; n of them all. */
static int add_rows(cli_opt *rows, int n, ablate_command *c) {
  size_t n_table;
  const study_option *table = study_option_table(&n_table);
  c->option = vtb_xcalloc(n_table, sizeof *c->option);
  c->flag = vtb_xcalloc(n_table, sizeof *c->flag);
  for (size_t i = 0; i < n_table && n < MOST_ROWS; i++) {
    bool flag = table[i].kind == STUDY_VALUE_FLAG;
    if (cli_find_option(rows, n, table[i].word) || strcmp(table[i].word, "--recipe") == 0) continue;
    rows[n++] = (cli_opt){table[i].word, flag ? CLI_FLAG : CLI_STR,
                          flag ? (void *)&c->flag[i] : (void *)&c->option[i], table[i].metavar,
                          table[i].help};
  }
  return n;
}

static vtb_status run_ablate(void *user, const cli_list *rest, vtb_error *err) {
  ablate_command *c = user;
  if (c->list) return ablate_list();
  if (rest->n != 1)
    return cli_usage_error("ablate", "one MODEL and --vary, or one STUDY.yaml, are needed");
  c->what = rest->at[0];
  study s = study_defaults();
  vtb_status status = VTB_OK;
  bool launched = !c->run.launcher && cli_ranks_launched() > 1;
  if (!c->run.launcher) c->run.launcher = launched ? "mpi" : "local";
  if (strcmp(c->run.launcher, "local") != 0 && !c->run.folder)
    return cli_usage_error("ablate", "%s needs -o DIR, which all ranks share",
                           launched ? "a study on ranks" : "--launcher mpi");
  setenv("VTB_RANKS", "off", 1); /* its steps are processes by themselves */
  status = ablate_study(c, &s, err);
  if (status == VTB_OK && c->dry_run)
    status = ablate_plan(&s, c->run.folder, err);
  else if (status == VTB_OK)
    status = ablate_run(&s, &c->run);
  study_free(&s);
  return status;
}

vtb_status cli_cmd_ablate(int argc, char **argv) {
  ablate_command c = {.seed = -1, .threads = -1, .seconds = -1};
  cli_opt rows[MOST_ROWS] = {
      {"--vary", CLI_LIST, &c.vary, "NAME=A,B,...",
       "what differs between cells: a hyperparameter, an option of train, bench or check, or "
       "model; NAME,NAME=A:B,C:D varies several together; repeatable"},
      {"--where", CLI_LIST, &c.where, "EXPR",
       "leave out cells of which this does not hold: 'chunk < 64 or paths == quad'"},
      {"--pairwise", CLI_FLAG, &c.pairwise, NULL,
       "few cells, in which every two values of two axes meet"},
      {"--one-at-a-time", CLI_FLAG, &c.one_at_a_time, NULL,
       "the baseline, and cells that differ from it in one axis"},
      {"--sample", CLI_POSITIVE, &c.sample, "N", "N cells of the grid, drawn by --seed"},
      {"--seed", CLI_INT, &c.seed, "N", "of --sample (default 0)"},
      {"--train", CLI_STR, &c.recipe, "RECIPE",
       "train each cell by this recipe, a file or a name such as quick"},
      {"--data", CLI_STR, &c.data, "D",
       "what is trained and judged on (default: the recipe's, else fashion-mnist)"},
      {"--seeds", CLI_POSITIVE, &c.seeds, "N", "trainings a cell, seeds 0 to N - 1 (default 1)"},
      {"--bench", CLI_FLAG, &c.bench, NULL, "time each cell (default without --train)"},
      {"--bench-train", CLI_FLAG, &c.bench_train, NULL,
       "time a training step instead of the forward pass"},
      {"--rounds", CLI_POSITIVE, &c.rounds, "N", "rounds of timing (default 3)"},
      {"--seconds", CLI_FLOAT, &c.seconds, "S", "of timing, a cell and round (default 1)"},
      {"--jobs", CLI_POSITIVE, &c.jobs, "N", "processes at a time (default: chosen, and said)"},
      {"--threads", CLI_THREADS, &c.threads, "N", "of each process (default: cores / jobs)"},
      {"--launcher", CLI_STR, &c.run.launcher, "NAME",
       "mpi (default under mpirun, srun ...): ranks share the cells; local: alone"},
      {"--against", CLI_STR, &c.run.against, "DIR", "compare with that report, cell by cell"},
      {"--retry", CLI_FLAG, &c.run.retry, NULL, "do steps that have failed again"},
      {"--extend", CLI_FLAG, &c.run.extend, NULL,
       "-o may be a report of another study: what both have is kept"},
      {"--dry-run", CLI_FLAG, &c.dry_run, NULL, "show the cells and what they cost, run nothing"},
      {"--list", CLI_FLAG, &c.list, NULL, "the studies that are there by name"},
      {"--title", CLI_STR, &c.title, "TEXT", "of the report"},
      {"-D", CLI_LIST, &c.defines, "NAME=VALUE", "set a hyperparameter in all cells"},
      {"-o", CLI_FOLDER, &c.run.folder, "DIR", "the report's folder (default reports/MODEL-DATE)"}};
  int n = 0;
  while (rows[n].name) n++;
  vtb_status status = cli_run(&(cli_call){.command = "ablate",
                                          .opts = rows,
                                          .n_opts = add_rows(rows, n, &c),
                                          .run = run_ablate,
                                          .options = &c},
                              argc, argv);
  vtb_free((void *)c.option);
  vtb_free(c.flag);
  vtb_free(c.folder);
  return status;
}
