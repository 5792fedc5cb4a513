/* vertebra export: a model with its parameters as a file of ONNX, for other runtimes. */
#include "frontend/cli/load/built.h"
#include "frontend/cli/names.h"
#include "frontend/cli/say/progress.h"
#include "frontend/cli/load/weights.h"

#include <math.h>
#include <string.h>

typedef struct export_options {
  cli_model_options model;
  cli_load_options load;
  vtb_onnx_options onnx;
  const char *output;
} export_options;

static char *default_output(const char *what) {
  const char *slash = strrchr(what, '/'), *base = slash ? slash + 1 : what;
  size_t n = strlen(base);
  vtb_strbuf s = {0};
  if (vtb_ends_with(base, ".vtb")) n -= strlen(".vtb");
  vtb_strbuf_printf(&s, "%.*s.onnx", (int)n, base);
  return s.at;
}

/* The parameters under the model's names; none: initial values. */
static vtb_status open_weights(const char *what, export_options *e, vtb_weights **out) {
  vtb_error err = {0};
  *out = NULL;
  if (!e->load.weights) {
    cli_say("no --weights: the file has random weights\n");
    return VTB_OK;
  }
  vtb_status status = cli_load_for(what, &e->model, &e->load, &err);
  if (status == VTB_OK) status = cli_fit_source(what, &e->model, &e->load, out, &err);
  return err.text[0] ? cli_error(&err) : status;
}

static void tell(const export_options *e, const char *path, const vtb_onnx_summary *s) {
  char a[32], b[32], c[32];
  int64_t batch = e->model.compile.batch;
  doc *d =
      doc_new(doc_object(F("file", path), F("bytes", s->n_bytes), F("data_bytes", s->n_data_bytes),
                         F("nodes", s->n_nodes), F("initialisers", s->n_initialisers),
                         F("batch", batch ? (double)batch : (double)NAN)));
  doc_say(d, 2, "%s: %s nodes, %s initialisers, %s bytes", path,
          cli_grouped(s->n_nodes, a, sizeof a), cli_grouped(s->n_initialisers, b, sizeof b),
          cli_grouped(s->n_bytes, c, sizeof c));
  if (s->n_data_bytes)
    doc_say(d, 2, "%s.data: %s bytes; keep it beside the file", path,
            cli_grouped(s->n_data_bytes, a, sizeof a));
  cli_tell(d);
}

static vtb_status export_model(const char *what, export_options *e) {
  vtb_weights *weights;
  vtb_onnx_summary made = {0};
  VTB_TRY(open_weights(what, e, &weights));
  vtb_compile_options o = cli_compile_options(&e->model, what);
  char *output = e->output ? vtb_xstrdup(e->output) : default_output(what);
  o.parameters = weights;
  cli_progress_note("exporting %s", what);
  vtb_status status = vtb_compile_onnx(&o, &e->onnx, output, &made, e->model.report);
  cli_report(&e->model, status);
  if (status == VTB_OK) tell(e, output, &made);
  vtb_free(output);
  vtb_weights_free(weights);
  return status;
}

vtb_status cli_cmd_export(int argc, char **argv) {
  export_options e = {.onnx = {.size = sizeof e.onnx}};
  vtb_compile_options *c = &e.model.compile;
  const cli_opt opts[] = {
      {"-o", CLI_STR, &e.output, "FILE.onnx",
       "the file to write (default: the model's name with .onnx)"},
      CLI_LOAD_OPTS(e.load, "--weights", CLI_WEIGHTS_HELP ", which go into the file"),
      {"--half", CLI_FLAG, &e.onnx.half, NULL,
       "parameters are stored as f16, half the size, and computed with as f32"},
      {"--external", CLI_FLAG, &e.onnx.external, NULL,
       "numbers in FILE.onnx.data, as always beyond 2 GB"},
      CLI_SOURCE_OPTS(e.model),
      {"--image", CLI_STR, &c->image, "SIZE", "image size: 512 or 224x384"},
      {"--batch", CLI_POSITIVE, &c->batch, "N", "images at a time (default: any number)"},
      {"--mode", CLI_STR, &c->mode, "MODE",
       "form of every recurrence: {modes} (default auto); recurrent, or scan, is step by step"},
      {"--chunk", CLI_POSITIVE, &c->chunk, "N", "chunk size; implies --mode chunkwise"},
      CLI_OUTPUT_OPTS(e.model)};
  cli_list rest = {0};
  int parsed = cli_parse("export", opts, CLI_COUNT(opts), argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  vtb_status status = VTB_OK;
  if (rest.n != 1)
    status = cli_usage_error("export", "one MODEL is needed");
  else if (cli_is_built(rest.at[0]))
    status = cli_usage_error("export", "%s is compiled already: export the model it was built from",
                             rest.at[0]);
  else
    status = cli_check_name("export", "-o", e.output, ".onnx");
  if (status == VTB_OK) {
    if (vtb_streq(c->mode, "scan")) c->mode = "recurrent"; /* of the model as it is loaded */
    cli_model_parsed(&e.model);
    status = export_model(rest.at[0], &e);
  }
  vtb_vec_free(&rest);
  vtb_load_free(&e.load);
  cli_model_options_free(&e.model);
  return status;
}
