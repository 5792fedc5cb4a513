/* Commands with a MODEL: how it is compiled, and what compiling it had to say. */
#include "frontend/cli/cli.h"
#include "ir/checks.h"
#include "runtime/launch/threads.h"

#include <math.h>

static void say(void *user, const char *text) {
  cli_model_options *m = user;
  m->said = true;
  fputs(text, stderr);
}

void cli_define(cli_model_options *m, const char *define) {
  vtb_vec_push(&m->defines, define);
  m->compile.defines = m->defines.at;
  m->compile.n_defines = m->defines.n;
}

static vtb_behaviour how = {.size = sizeof how};

vtb_status cli_how_begin(vtb_error *err) {
  VTB_TRY(vtb_options_from_environment(&how, err));
  vtb_set_default_threads(how.threads);
  vtb_log_verbose(how.verbose == VTB_YES);
  if (how.checks == VTB_YES) vtb_checks_begin();
  return VTB_OK;
}

const vtb_behaviour *cli_how(void) { return &how; }

void cli_model_parsed(cli_model_options *m) {
  m->compile.size = sizeof m->compile;
  m->compile.behaviour = cli_how();
  m->compile.defines = m->defines.at;
  m->compile.n_defines = m->defines.n;
  m->compile.say = say;
  m->compile.user = m;
  m->report = vtb_report_new();
}

void cli_model_options_free(cli_model_options *m) {
  vtb_vec_free(&m->defines);
  vtb_report_free(m->report);
}

vtb_compile_options cli_compile_options(const cli_model_options *m, const char *what) {
  vtb_compile_options o = m->compile;
  o.model = what;
  o.threads = m->threads;
  return o;
}

vtb_status cli_report(const cli_model_options *m, vtb_status status) {
  cli_progress_clear();
  char *text = vtb_report_text(m->report, vtb_color_enabled(stderr));
  cli_print_wrapped(stderr, text);
  vtb_free(text);
  if (status != VTB_OK) cli_add_diagnostics(m->report);
  if (status != VTB_OK && m->report->error.text[0]) cli_error(&m->report->error);
  m->report->error = (vtb_error){0};
  return status;
}

const vtb_target *cli_next_target(const char *wanted, const vtb_target *after) {
  size_t n;
  const vtb_target *table = vtb_targets(&n);
  for (const vtb_target *t = after ? after + 1 : table; t < table + n; t++)
    if (vtb_streq(wanted, "all") ? !t->needs && vtb_target_runs(t) : vtb_streq(wanted, t->name))
      return t;
  return NULL;
}

void cli_put_measures(vtb_strbuf *out, const vtb_measured_list *l, const char *prefix) {
  int losses = 0;
  for (int i = 0; i < l->n; i++) losses += l->at[i].is_loss;
  for (int i = 0; i < l->n; i++) {
    const vtb_measured *m = &l->at[i];
    if (m->is_loss && losses < 2) continue;
    if (isnan(m->value)) /* every divisor was 0: all labels are ignored, say */
      vtb_strbuf_printf(out, ", %s%s not measured: nothing in the data counts for it", prefix,
                        m->name);
    else
      vtb_strbuf_printf(out, ", %s%s %.4f", prefix, m->name, m->value);
  }
}

vtb_status cli_program_image_size(const vtb_program *p, int *channels, int *height, int *width,
                                  vtb_error *err) {
  const vtb_tensor_info *image = vtb_tensors_image(p->tensors, p->n_tensors);
  if (!image) return vtb_fail(err, VTB_E_INPUT, "the model has no image input");
  *channels = (int)image->dim[1];
  *height = (int)image->dim[2];
  *width = (int)image->dim[3];
  return VTB_OK;
}

int64_t cli_count_params(const vtb_func *f, bool frozen_only) {
  int64_t n = 0;
  for (int a = 0; a < f->n_args; a++) {
    const vtb_arg_info *info = &f->arg_info[a];
    if (info->frozen || (!frozen_only && info->role == VTB_ROLE_PARAM))
      n += vtb_type_count(&f->args[a]->type);
  }
  return n;
}
