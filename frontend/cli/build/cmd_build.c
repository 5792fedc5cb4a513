/* vertebra build: a model compiled into a file, which `run`, `eval`, `bench` and `train` take in
 * place of it, and which C programs open with runtime/vertebra.h alone. See docs/artefact.md. */
#include "frontend/cli/build/build_lists.h"
#include "frontend/cli/load/built.h"
#include "frontend/cli/names.h"
#include "frontend/cli/say/progress.h"
#include "frontend/cli/verify/verify.h"
#include "frontend/cli/load/weights.h"
#include "frontend/compile/builder.h"

#include <ctype.h>
#include <string.h>

typedef struct build_options {
  cli_model_options model;
  cli_load_options load;
  build_lists lists;
  cli_list shapes, wrt;
  const char *output, *name, *optimizer;
  const char *map; /* of a case: cases.map (frontend/cli/verify/case_map.h) */
  char *linked;    /* the name of a static model, or NULL */
} build_options;

/* A reference case of `verify`: its entry and gradient with its parameters, for machines that
 * cannot compile. */
static bool is_case(const char *what) { return vtb_ends_with(what, ".safetensors"); }

static vtb_status build_case(const char *path, const char *map, const vtb_compile_options *o,
                             const char *output, vtb_report *r) {
  vtb_compilation c = {0};
  vtb_file_builder b;
  int64_t batch;
  vtb_status status = vtb_file_builder_open(&b, o, r);
  if (status == VTB_OK && o->linked) status = vtb__linked_check(output, o->linked, &r->error);
  if (status == VTB_OK) status = verify_case_model(path, map, o, r, &c, &batch);
  if (status == VTB_OK) status = vtb_file_builder_describe(&b, &c);
  if (status == VTB_OK) status = vtb_file_builder_add(&b, VTB_ARTEFACT_INFERENCE, &c, batch);
  if (status == VTB_OK) status = vtb_file_builder_weights(&b, path, "param/");
  if (status == VTB_OK) status = vtb_file_builder_write(&b, output);
  vtb_compilation_free(&c);
  vtb_file_builder_free(&b);
  return status;
}

static char *default_output(const char *what) {
  const char *slash = strrchr(what, '/'), *base = slash ? slash + 1 : what;
  vtb_strbuf s = {0};
  const char *dot =
      vtb_ends_with(base, ".vtb") || is_case(base) ? strrchr(base, '.') : base + strlen(base);
  vtb_strbuf_printf(&s, "%.*s.so", (int)(dot - base), base);
  return s.at;
}

/* Shows the written file as it reads back. */
static vtb_status show(const char *path) {
  vtb_artefact *a;
  vtb_error err = {0};
  if (vtb_artefact_open(path, &a, &err) != VTB_OK) return cli_error(&err);
  cli_built_show(path, a, false);
  vtb_artefact_close(a);
  return VTB_OK;
}

/* The weights that go into the file, under the model's names. */
static vtb_status open_weights(const char *what, build_options *b, vtb_weights **out,
                               vtb_error *err) {
  *out = NULL;
  if (!b->load.weights) return VTB_OK;
  VTB_TRY(cli_load_for(what, &b->model, &b->load, err));
  return cli_fit_source(what, &b->model, &b->load, out, err);
}

static vtb_status build(const char *what, build_options *b, vtb_error *err) {
  double start = vtb_now();
  vtb_weights *weights;
  VTB_TRY(open_weights(what, b, &weights, err));
  vtb_compile_options o = cli_compile_options(&b->model, what);
  vtb_report *r = b->model.report;
  char *output = b->output ? vtb_xstrdup(b->output) : default_output(what);
  if (!o.batch && o.training) o.batch = 64;
  o.parameters = weights;
  cli_progress_note("compiling %s", what);
  vtb_status status =
      is_case(what) ? build_case(what, b->map, &o, output, r) : vtb_compile_file(&o, output, r);
  cli_report(&b->model, status);
  if (status == VTB_OK) cli_say_strips(&o, 0);
  if (status == VTB_OK) status = show(output);
  vtb_log("built in %.1f s", vtb_now() - start);
  vtb_free(output);
  vtb_weights_free(weights);
  return status;
}

/* The name by which C knows a static model: --name, else the file's as far as C has such names. */
static void find_name(build_options *b) {
  if (!b->output || !vtb_ends_with(b->output, ".o")) return;
  const char *slash = strrchr(b->output, '/'), *base = slash ? slash + 1 : b->output;
  b->linked = vtb_xstrdup(b->name ? b->name : base);
  if (!b->name) b->linked[strlen(base) - strlen(".o")] = 0;
  for (char *p = b->linked; *p && !b->name; p++)
    if (!isalnum((unsigned char)*p)) *p = '_';
  b->model.compile.linked = b->linked;
}

/* A shared object under the name of something else would be taken for that; model.so.2 is one. */
static vtb_status check_output(const char *path) {
  const char *so = path ? strstr(path, ".so.") : NULL;
  if (so && !strchr(so, '/') && !so[strspn(so, ".so0123456789")] && !vtb_path_is_dir(path))
    return VTB_OK;
  return cli_check_name("build", "-o", path, ".so|.o");
}

/* Refuses what can be refused before anything is compiled. */
static vtb_status check_options(const char *what, build_options *b) {
  vtb_compile_options *o = &b->model.compile;
  if (!o->training && (o->label_smoothing > 0 || o->eval_batch || o->average || b->optimizer))
    return cli_usage_error(
        "build", "--label-smoothing, --eval-batch, --optimizer and --ema are for --train");
  if (!o->vjp && b->wrt.n) return cli_usage_error("build", "--wrt is for --vjp");
  if (o->dtype && !b->load.weights)
    return cli_usage_error("build", "--dtype is of weights: --weights FILE is needed");
  o->optimizer = b->optimizer ? b->optimizer : CLI_DEFAULT_OPTIMIZER;
  if (is_case(what) && (o->training || o->vjp || b->load.weights || o->batch || b->shapes.n))
    return cli_usage_error("build",
                           "a case has its own parameters, shapes and gradient, and no training "
                           "step");
  o->shapes = b->shapes.at, o->n_shapes = b->shapes.n;
  o->wrt = b->wrt.n ? b->wrt.at : NULL, o->n_wrt = b->wrt.n;
  if (b->name && !b->linked)
    return cli_usage_error("build", "--name is for objects: -o %s.o", b->name);
  if (cli_is_built(what)) return cli_usage_error("build", "%s is compiled already", what);
  return check_output(b->output);
}

static vtb_status run_build(void *user, const cli_list *args, vtb_error *err) {
  build_options *o = user;
  vtb_compile_options *c = &o->model.compile;
  const char *what = args->at[0];
  vtb_load_given(&o->load);
  vtb_status status = build_lists_parse(&o->lists, c->training || is_case(what), c);
  find_name(o);
  if (status == VTB_OK) status = check_options(what, o);
  if (status == VTB_OK) status = build(what, o, err);
  vtb_free(o->linked);
  build_lists_free(&o->lists);
  vtb_load_free(&o->load);
  return status;
}

vtb_status cli_cmd_build(int argc, char **argv) {
  build_options o = {0};
  vtb_compile_options *c = &o.model.compile;
  const cli_opt opts[] = {
      {"-o", CLI_STR, &o.output, "FILE",
       "the file to write (default: the model's name with .so); it is a program: run those of "
       "people you trust; FILE.o is for static linking, with a header FILE.h"},
      {"--name", CLI_STR, &o.name, "NAME",
       "of FILE.o: C knows the model as NAME_vtb (default: the file's name)"},
      {"--map", CLI_STR, &o.map, "FILE", "of a reference case: its cases.map, as for `verify`"},
      {"--target", CLI_STR, &c->target, "LIST",
       "cpu (this machine's level, default), cpu:x86-64-v3, cpu:aarch64, cuda (all), "
       "cuda:sm_80,sm_90a,sm_100a, or several"},
      CLI_QUANTIZE_OPT(o.model),
      CLI_LOAD_OPTS(o.load, "--weights", CLI_WEIGHTS_HELP ", which go into the file"),
      {"--dtype", CLI_CHOICE, &c->dtype, "f32|f16|bf16",
       "how the file has the weights (default: as they come); widened when it is opened"},
      {"--train", CLI_FLAG, &c->training, NULL, "a training step too, for vertebra train"},
      {"--vjp", CLI_FLAG, &c->vjp, NULL,
       "gradients too: of inputs and parameters, for adjoints of outputs that the caller gives"},
      {"--wrt", CLI_LIST, &o.wrt, "NAME",
       "with --vjp: by inputs and parameters of this name alone, x or \"*.weight\"; may be "
       "repeated"},
      {"--shape", CLI_LIST, &o.shapes, "NAME=SIZES",
       "of a block, fn or recurrence: shape of a tensor that it takes, x=Bx196x192 (B: --batch)"},
      {"--label-smoothing", CLI_FLOAT, &c->label_smoothing, "X",
       "of the training step (default 0)"},
      {"--optimizer", CLI_STR, &o.optimizer, "NAME",
       "of the training step: {optimizers} (default adamw), or a .vtb file"},
      {"--ema", CLI_FLAG, &c->average, NULL, "the training step averages the weights"},
      {"--eval-batch", CLI_INT, &c->eval_batch, "N",
       "with --train: images at a time in evaluation (default 4 x batch)"},
      CLI_STRIPS_OPT(o.model, "--stream"),
      CLI_SOURCE_OPTS(o.model),
      {"--image", CLI_STR, &o.lists.image, "SIZE,...",
       "image size: 512 or 224x384; several: a program for each, with the same parameters"},
      CLI_MODE_OPTS(o.model),
      {"--batch", CLI_STR, &o.lists.batch, "N,...",
       "images at a time: 16 is programs for 1, 2, 4, 8 and 16, =16 for 16 alone, 1,16 for these"},
      CLI_MACHINE_OPTS(o.model)};
  return CLI_RUN("build", opts, .one = "one MODEL is needed", .run = run_build, .options = &o,
                 .model = &o.model);
}
