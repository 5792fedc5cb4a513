/* vertebra build: a model compiled into a file, which `run`, `eval`, `bench` and `train` take in
 * place of it, and which C programs open with runtime/vertebra.h alone. See docs/artefact.md. */
#include "frontend/cli/builder.h"
#include "frontend/cli/built.h"
#include "frontend/cli/verify.h"
#include "frontend/cli/weights.h"
#include "runtime/launch/launch_check.h"

#include <stdlib.h>
#include <string.h>

typedef struct build_options {
  cli_model_options model;
  const char *output, *target, *weights, *optimizer;
  double smoothing;
  int64_t eval_batch;
  bool train, ema;
  vtb_update_rule rule; /* what --optimizer says */
} build_options;

/* ---- targets --------------------------------------------------------------------------------- */

static bool take_level(const char *name, cli_build_targets *t) {
  int level = strcmp(name, "host") == 0 ? vtb_cpu_level_here() : vtb_cpu_level_find(name);
  if (level < 0) return false;
  return t->cpu = t->level[level] = true;
}

static bool take_arch(const char *name, cli_build_targets *t) {
  for (int i = 0; i < CLI_BUILD_ARCHS; i++)
    if (strcmp(name, vtb_archs[i].name) == 0) return t->cuda = t->arch[i] = true;
  return false;
}

/* "cpu" is this machine's level, "cuda" every architecture. */
static bool take_target(const char *name, cli_build_targets *t) {
  if (strcmp(name, "cpu") == 0) return take_level("host", t);
  if (strcmp(name, "cuda") == 0) {
    for (int i = 0; i < CLI_BUILD_ARCHS; i++) t->arch[i] = true;
    return t->cuda = true;
  }
  if (vtb_starts_with(name, "cpu:")) return take_level(name + strlen("cpu:"), t);
  if (vtb_starts_with(name, "cuda:")) return take_arch(name + strlen("cuda:"), t);
  return take_level(name, t) || take_arch(name, t);
}

vtb_status cli_build_targets_parse(const char *text, cli_build_targets *out) {
  char *copy = vtb_xstrdup(text), *rest = copy;
  vtb_status status = VTB_OK;
  *out = (cli_build_targets){0};
  for (char *name; status == VTB_OK && (name = strsep(&rest, ","));)
    if (!take_target(name, out))
      status = cli_usage_error(
          "build",
          "'%s' is no target: there are cpu (this machine's level), cpu:x86-64, cpu:x86-64-v2, "
          "cpu:x86-64-v3, cpu:x86-64-v4, cuda (all), cuda:sm_80, cuda:sm_90a and cuda:sm_100a",
          name);
  vtb_free(copy);
  return status;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The tensors that the program has, as they are in the file, which may hold others: an optimiser's,
 * say. */
static vtb_status take_weights(const vtb_artefact_program *p, const char *path, const char *prefix,
                               vtb_weights **file, vtb_weights **out, vtb_error *err) {
  vtb_program about = {.n_tensors = p->n_tensors, .tensors = p->tensors};
  void **buffers = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *buffers);
  vtb_error inner = {0};
  vtb_status status = vtb_safetensors_load(path, file, err);
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++)
    if (p->tensors[i].io == VTB_IO_PARAM || p->tensors[i].io == VTB_IO_BUFFER)
      buffers[i] = vtb_xmalloc((size_t)vtb_tensor_info_count(&p->tensors[i]) * 4 + 4);
  if (status == VTB_OK &&
      vtb_weights_bind(&about, *file, prefix, buffers, NULL, NULL, &inner) != VTB_OK)
    status = vtb_fail(err, VTB_E_INPUT, "%s: %s", path, inner.text);
  *out = vtb_weights_new();
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++) {
    vtb_strbuf name = {0};
    vtb_strbuf_printf(&name, "%s%s", prefix, p->tensors[i].name);
    const vtb_weight *t = buffers[i] ? vtb_weights_find(*file, name.at) : NULL;
    if (t) vtb_weights_borrow(*out, p->tensors[i].name, t->elem, t->rank, t->dim, t->data);
    vtb_strbuf_free(&name);
  }
  for (int i = 0; i < p->n_tensors; i++) vtb_free(buffers[i]);
  vtb_free(buffers);
  return status;
}

/* The file says of itself what the weights say: class names, normalisation. */
static void copy_meta(cli_builder *b, const vtb_weights *from, vtb_weights *to) {
  static const char *const said[] = {"classes", "mean", "std"};
  for (size_t i = 0; i < from->meta.n; i++)
    vtb_weights_set_meta(to, from->meta.at[i].key, from->meta.at[i].value);
  for (size_t i = 0; i < sizeof said / sizeof *said; i++)
    if (vtb_weights_meta(from, said[i]))
      cli_builder_meta(b, said[i], vtb_weights_meta(from, said[i]));
}

static vtb_status write_file(const char *weights, const char *prefix, const char *output,
                             cli_builder *b) {
  vtb_weights *file = NULL, *kept = NULL;
  vtb_error err = {0};
  vtb_status status = VTB_OK;
  if (weights) {
    status = take_weights(&b->programs[0], weights, prefix, &file, &kept, &err);
    if (status == VTB_OK) {
      copy_meta(b, file, kept);
      b->weights = kept;
    } else {
      cli_error(&err);
    }
  }
  if (status == VTB_OK) status = cli_builder_write(b, output);
  vtb_weights_free(kept);
  vtb_weights_free(file);
  return status;
}

/* ---- the model ------------------------------------------------------------------------------- */

static vtb_status load(const char *what, const build_options *o, bool training, cli_model *model,
                       char **settings) {
  vtb_instantiate_options more = {.training = training};
  vtb_status status = cli_model_load_for(what, &o->model, o->weights, &more, model, settings);
  if (status != VTB_OK) return status;
  status = cli_run_passes(model->module, &o->model, vtb_pipeline_graph, false, 0);
  if (status != VTB_OK) cli_model_free(model);
  return status;
}

static void describe(const char *what, const build_options *o, const char *settings,
                     cli_builder *b) {
  char number[32];
  b->manifest.model = vtb_arena_strdup(&b->arena, what);
  cli_builder_meta(b, "defines", settings);
  if (o->model.entry) cli_builder_meta(b, "entry", o->model.entry);
  if (o->model.image) cli_builder_meta(b, "image", o->model.image);
  if (o->model.mode) cli_builder_meta(b, "mode", o->model.mode);
  snprintf(number, sizeof number, "%lld", (long long)o->model.chunk);
  if (o->model.chunk) cli_builder_meta(b, "chunk", number);
  snprintf(number, sizeof number, "%.9g", o->smoothing);
  if (o->train) cli_builder_meta(b, "label_smoothing", number);
}

static vtb_status add_inference(const char *what, const build_options *o, int64_t batch,
                                cli_builder *b) {
  cli_model model;
  char *settings = NULL;
  vtb_status status = load(what, o, false, &model, &settings);
  if (status != VTB_OK) return status;
  describe(what, o, settings, b);
  status = cli_builder_add(b, VTB_ARTEFACT_INFERENCE, model.module, model.name, batch);
  cJSON_free(settings);
  cli_model_free(&model);
  return status;
}

static vtb_status add_step(const char *what, const build_options *o, int64_t batch,
                           cli_builder *b) {
  cli_model model;
  const char *name;
  vtb_status status = load(what, o, true, &model, NULL);
  if (status != VTB_OK) return status;
  status = cli_add_train_step(model.module, &o->model, o->smoothing, &name);
  if (status == VTB_OK) status = cli_builder_add(b, VTB_ARTEFACT_STEP, model.module, name, batch);
  cli_model_free(&model);
  return status;
}

/* A reference case of `verify`: its entry and gradient with its parameters, for machines that
 * cannot compile. */
static bool is_case(const char *what) { return vtb_ends_with(what, ".safetensors"); }

static vtb_status add_case(const char *path, const build_options *o, cli_builder *b) {
  cli_model model;
  const char *func;
  int64_t batch;
  vtb_error err = {0};
  vtb_status status = verify_case_model(path, &o->model, &model, &func, &batch, &err);
  if (status != VTB_OK) return err.text[0] ? cli_error(&err) : status;
  describe(path, o, "[]", b);
  status = cli_builder_add(b, VTB_ARTEFACT_INFERENCE, model.module, func, batch);
  cli_model_free(&model);
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

/* What was written can be read. */
static vtb_status show(const char *path, bool json) {
  vtb_artefact *a;
  vtb_error err = {0};
  if (vtb_artefact_open(path, &a, &err) != VTB_OK) return cli_error(&err);
  cli_built_show(path, a, false, json);
  vtb_artefact_close(a);
  return VTB_OK;
}

static vtb_status build(const char *what, const build_options *o,
                        const cli_build_targets *targets) {
  double start = vtb_now();
  cli_builder b;
  char *output = o->output ? vtb_xstrdup(o->output) : default_output(what);
  int64_t batch = o->model.batch ? o->model.batch : o->train ? 64 : 1;
  int64_t eval_batch = !o->train ? batch : o->eval_batch ? o->eval_batch : 4 * batch;
  cli_builder_init(&b, targets, &o->model);
  b.rule = o->rule;
  b.average = o->ema;
  vtb_status status =
      is_case(what) ? add_case(what, o, &b) : add_inference(what, o, eval_batch, &b);
  if (status == VTB_OK && o->train) status = add_step(what, o, batch, &b);
  if (status == VTB_OK)
    status = is_case(what) ? write_file(what, "param/", output, &b)
                           : write_file(o->weights, "", output, &b);
  if (status == VTB_OK) status = show(output, o->model.json);
  vtb_log("built in %.1f s", vtb_now() - start);
  cli_builder_free(&b);
  vtb_free(output);
  return status;
}

/* What is wrong can be said before anything is compiled. */
static vtb_status check_options(const char *what, build_options *o, const cli_build_targets *t) {
  vtb_precision precision;
  vtb_error err = {0};
  if (cli_optimizer(o->optimizer, &o->rule, &err) != VTB_OK)
    return cli_usage_error("build", "%s", err.text);
  if (vtb_precision_find(o->model.precision, &precision, &err) != VTB_OK) return cli_error(&err);
  if (!t->cuda && vtb_target_knows(vtb_target_find("cpu"), precision, &err) != VTB_OK)
    return cli_usage_error("build", "%s", err.text);
  if (!o->train && (o->smoothing > 0 || o->eval_batch || o->ema || o->rule != VTB_UPDATE_ADAMW))
    return cli_usage_error(
        "build", "--label-smoothing, --eval-batch, --optimizer and --ema are for --train");
  if (is_case(what) && (o->train || o->weights || o->model.batch))
    return cli_usage_error("build",
                           "a case has its own parameters and batch, and no training step");
  if (cli_is_built(what)) return cli_usage_error("build", "%s is compiled already", what);
  return VTB_OK;
}

vtb_status cli_cmd_build(int argc, char **argv) {
  build_options o = {.target = "cpu", .optimizer = "adamw"};
  enum { OWN = 8 };
  cli_opt opts[OWN + CLI_N_MODEL_OPTS] = {
      {"-o", CLI_STR, &o.output, "FILE", "the file to write (default: the model's name with .so)"},
      {"--target", CLI_STR, &o.target, "LIST",
       "cpu (this machine's level, default), cpu:x86-64-v3, cuda (all), cuda:sm_80,sm_90a,sm_100a, "
       "or several"},
      {"--weights", CLI_STR, &o.weights, "FILE",
       "safetensors file whose parameters go into the file"},
      {"--train", CLI_FLAG, &o.train, NULL, "a training step too, for vertebra train"},
      {"--label-smoothing", CLI_FLOAT, &o.smoothing, "X", "of the training step (default 0)"},
      {"--optimizer", CLI_STR, &o.optimizer, "NAME",
       "of the training step on CUDA: adamw (default) or sgd"},
      {"--ema", CLI_FLAG, &o.ema, NULL, "the training step on CUDA can average the weights"},
      {"--eval-batch", CLI_INT, &o.eval_batch, "N",
       "with --train: images at a time in evaluation (default 4 x batch)"}};
  cli_model_opts(&o.model, opts + OWN);
  cli_list rest = {0};
  cli_build_targets targets;
  int parsed = cli_parse("build", opts, OWN + CLI_N_MODEL_OPTS, argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (rest.n != 1) return cli_usage_error("build", "one MODEL is needed");
  vtb_status status = cli_build_targets_parse(o.target, &targets);
  if (status == VTB_OK) status = check_options(rest.at[0], &o, &targets);
  if (status == VTB_OK) status = build(rest.at[0], &o, &targets);
  vtb_vec_free(&rest);
  vtb_vec_free(&o.model.defines);
  return status;
}
