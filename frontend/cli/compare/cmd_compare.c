/* vertebra compare: training runs side by side, from the logs and weights they left: a table, and a
 * plot of accuracy in evaluations, or of the score that the model declares. */
#include "frontend/cli/compare/compare_table.h"
#include "frontend/draw/plot.h"

/* The words that tell the run from the others; its name where nothing does. */
static const char *legend_of(const compare_runs *c, size_t i) {
  const compare_run *r = &c->at.at[i];
  if (!*r->label) return r->name;
  for (size_t k = 0; k < c->at.n; k++)
    if (k != i && !c->at.at[k].problem && vtb_streq(c->at.at[k].label, r->label)) return r->name;
  return r->label;
}

static vtb_status draw(const compare_runs *c, bool by_epoch, const char *title, const char *path,
                       vtb_error *err) {
  plot_series *series = vtb_xcalloc(c->at.n, sizeof *series);
  const compare_run *first = NULL;
  size_t n = 0;
  for (size_t i = 0; i < c->at.n; i++) {
    const compare_run *r = &c->at.at[i];
    if (r->problem) continue;
    if (!first) first = r;
    series[n++] = (plot_series){legend_of(c, i), r->x.at, r->test.at, r->test.n};
  }
  plot p = {.title = title          ? title
                     : first->score ? first->score
                                    : "top-1 accuracy in evaluations",
            .x_label = by_epoch ? "epoch" : "seconds",
            .y_label = first->score ? "" : "%",
            .series = series,
            .n_series = n};
  vtb_status status = plot_save(&p, path, err);
  vtb_free(series);
  return status;
}

/* Not one of them can be compared: why the first cannot. */
static vtb_status refuse_runs(const compare_runs *c, vtb_error *err) {
  if (!c->at.n) return vtb_fail(err, VTB_E_INPUT, "the report holds no trainings");
  return vtb_fail(err, VTB_E_INPUT, "%s", c->at.at[0].problem);
}

typedef struct compare_options {
  const char *out, *title;
  bool by_epoch, by_run, markdown;
} compare_options;

static vtb_status compare(void *user, const cli_list *folders, vtb_error *err) {
  const compare_options *o = user;
  compare_runs c;
  compare_read(&c, folders, o->by_epoch, o->by_run);
  vtb_status status = c.groups.n ? VTB_OK : refuse_runs(&c, err);
  if (status == VTB_OK && o->out) status = draw(&c, o->by_epoch, o->title, o->out, err);
  if (status == VTB_OK && (o->markdown || !cli_columns(stdout)))
    cli_tell_markdown(compare_document(&c, true));
  else if (status == VTB_OK)
    cli_tell(compare_document(&c, false));
  compare_free(&c);
  return status;
}

vtb_status cli_cmd_compare(int argc, char **argv) {
  compare_options o = {0};
  const cli_opt opts[] = {
      {"-o", CLI_FILE, &o.out, PICTURE_FILE,
       "also draw accuracy in evaluations, or the declared score, one curve a run: .svg, .png, "
       ".pdf"},
      {"--by-epoch", CLI_FLAG, &o.by_epoch, NULL, "against epochs instead of seconds"},
      {"--by-run", CLI_FLAG, &o.by_run, NULL,
       "a row a run, also where runs differ in nothing but their seeds"},
      {"--markdown", CLI_FLAG, &o.markdown, NULL,
       "the whole table as Markdown, as where the output is no terminal"},
      {"--title", CLI_STR, &o.title, "TEXT", "of the plot"}};
  return CLI_RUN("compare", opts, .some = "the output folder of at least one run is needed",
                 .run = compare, .options = &o);
}
