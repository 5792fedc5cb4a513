/* The options of commands with a MODEL, and what compiling it had to say. */
#include "frontend/cli/cli.h"

#include <stdlib.h>
#include <string.h>

void cli_model_opts(cli_model_options *m, cli_opt *rows) {
  const cli_opt table[CLI_N_MODEL_OPTS] = {
      {"-D", CLI_LIST, &m->defines, "NAME=VALUE",
       "set a hyperparameter; VALUE is .vtb text, e.g. depth=12, paths=\"[rows, cols]\""},
      {"--entry", CLI_STR, &m->compile.entry, "NAME",
       "the model or preset of a file that declares several"},
      {"--image", CLI_STR, &m->compile.image, "SIZE", "image size: 512 or 224x384"},
      {"--mode", CLI_STR, &m->compile.mode, "MODE",
       "form of every recurrence: auto, parallel, recurrent, chunkwise"},
      {"--chunk", CLI_INT, &m->compile.chunk, "N", "chunk size; implies --mode chunkwise"},
      {"--batch", CLI_INT, &m->compile.batch, "N", "images at a time"},
      {"--threads", CLI_INT, &m->threads, "N",
       "threads (default: VTB_THREADS, OMP_NUM_THREADS, or the cores)"},
      {"--json", CLI_FLAG, &m->json, NULL, "machine-readable output"},
      {"--precision", CLI_STR, &m->compile.precision, "P",
       "of products on CUDA: fp32 (default), tf32, bf16, fp16, bf16-all"},
      {"--time-passes", CLI_FLAG, &m->compile.time_passes, NULL,
       "how long each pass took, on stderr"},
      {"--print-after", CLI_STR, &m->compile.print_after, "PASS",
       "print the IR after a pass, or after \"all\", on stderr"},
  };
  memcpy(rows, table, sizeof table);
}

static void say(void *user, const char *text) {
  (void)user;
  fputs(text, stderr);
}

void cli_define(cli_model_options *m, const char *define) {
  vtb_vec_push(&m->defines, define);
  m->compile.defines = m->defines.at;
  m->compile.n_defines = m->defines.n;
}

void cli_model_parsed(cli_model_options *m) {
  m->compile.size = sizeof m->compile;
  m->compile.defines = m->defines.at;
  m->compile.n_defines = m->defines.n;
  m->compile.say = say;
  m->report = vtb_report_new();
}

void cli_model_options_free(cli_model_options *m) {
  vtb_vec_free(&m->defines);
  vtb_report_free(m->report);
}

vtb_compile_options cli_compile_options(const cli_model_options *m, const char *what) {
  vtb_compile_options o = m->compile;
  o.model = what;
  return o;
}

vtb_status cli_report(const cli_model_options *m, vtb_status status) {
  char *text = vtb_report_text(m->report, vtb_color_enabled(stderr));
  fputs(text, stderr);
  vtb_free(text);
  if (status != VTB_OK && m->report->error.text[0]) cli_error(&m->report->error);
  m->report->error = (vtb_error){0};
  return status;
}

const vtb_target *cli_next_target(const char *wanted, const vtb_target *after) {
  size_t n;
  const vtb_target *table = vtb_targets(&n);
  for (const vtb_target *t = after ? after + 1 : table; t < table + n; t++)
    if (vtb_streq(wanted, "all") ? !t->needs : vtb_streq(wanted, t->name)) return t;
  return NULL;
}

vtb_status cli_program_image_size(const vtb_program *p, int *channels, int *height, int *width,
                                  vtb_error *err) {
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    if (t->io != VTB_IO_INPUT || t->rank != 4 || t->is_int) continue;
    *channels = (int)t->dim[1];
    *height = (int)t->dim[2];
    *width = (int)t->dim[3];
    return VTB_OK;
  }
  return vtb_fail(err, VTB_E_INPUT, "the model has no image input");
}
