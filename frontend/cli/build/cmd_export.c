/* vertebra export: a model with its parameters as a file of ONNX, for other runtimes. */
#include "frontend/cli/load/built.h"
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
static vtb_status open_weights(const char *what, export_options *e, vtb_weights **out,
                               vtb_error *err) {
  *out = NULL;
  if (!e->load.weights) {
    cli_say("no --weights: the file has random weights\n");
    return VTB_OK;
  }
  VTB_TRY(cli_load_for(what, &e->model, &e->load, err));
  return cli_fit_source(what, &e->model, &e->load, out, err);
}

static void tell_export(const export_options *e, const char *path, const vtb_onnx_summary *s) {
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

static vtb_status export_model(void *user, const cli_list *args, vtb_error *err) {
  export_options *e = user;
  const char *what = args->at[0];
  vtb_weights *weights;
  vtb_onnx_summary made = {0};
  vtb_load_given(&e->load);
  if (cli_is_built(what))
    return cli_usage_error("export", "%s is compiled already: export the model it was built from",
                           what);
  if (vtb_streq(e->model.compile.mode, "scan"))
    e->model.compile.mode = "recurrent"; /* of the model as it is loaded */
  vtb_status status = open_weights(what, e, &weights, err);
  if (status != VTB_OK) return vtb_load_free(&e->load), status;
  vtb_compile_options o = cli_compile_options(&e->model, what);
  char *output = e->output ? vtb_xstrdup(e->output) : default_output(what);
  o.parameters = weights;
  cli_progress_note("exporting %s", what);
  status = vtb_compile_onnx(&o, &e->onnx, output, &made, e->model.report);
  cli_report(&e->model, status);
  if (status == VTB_OK) tell_export(e, output, &made);
  vtb_free(output);
  vtb_weights_free(weights);
  vtb_load_free(&e->load);
  return status;
}

vtb_status cli_cmd_export(int argc, char **argv) {
  export_options e = {.onnx = {.size = sizeof e.onnx}};
  vtb_compile_options *c = &e.model.compile;
  const cli_opt opts[] = {
      {"-o", CLI_FILE, &e.output, "FILE.onnx",
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
  return CLI_RUN("export", opts, .one = "one MODEL is needed", .run = export_model, .options = &e,
                 .model = &e.model);
}
