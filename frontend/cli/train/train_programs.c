/* See train_programs.h. A classifier's number of classes follows the data; so does the
 * hyperparameter num_classes of a model that declares its losses, if it has one. */
#include "frontend/cli/train/train_programs.h"

#include "frontend/compile/classes.h"
#include "frontend/compile/memory.h"
#include "frontend/draw/number.h"
#include "frontend/cli/say/progress.h"

#include "ir/axes.h"
#include "ir/objective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Runs of the step an update. */
static int64_t runs_of(const train_options *o) {
  return o->train.accumulate > 1 ? o->train.accumulate : 1;
}

/* ---- compiled here --------------------------------------------------------------------------- */

static bool defines(const train_options *o, const char *begin) {
  for (size_t i = 0; i < o->model.defines.n; i++)
    if (vtb_starts_with(o->model.defines.at[i], begin)) return true;
  return false;
}

static vtb_compile_options options_for(const char *what, const train_options *o, bool training) {
  vtb_compile_options with = cli_compile_options(&o->model, o->source ? o->source : what);
  with.training = training;
  with.evaluation = !training;
  if (!with.optimizer) with.optimizer = CLI_DEFAULT_OPTIMIZER;
  with.average = o->train.optim.ema_decay > 0;
  if (!training) return with;
  with.accumulate = o->train.accumulate;
  if (vtb_ranks_count(o->train.ranks) > 1) {
    with.ranks = vtb_ranks_count(o->train.ranks);
    with.rank = vtb_ranks_rank(o->train.ranks);
    with.shard = o->train.shard;
  }
  return with;
}

/* True if the model can be built with that setting. */
static bool takes(const char *what, train_options *o, const char *define) {
  vtb_report *quiet = vtb_need(vtb_report_new());
  vtb_compilation c;
  size_t n = o->model.defines.n;
  cli_define(&o->model, define);
  vtb_compile_options with = options_for(what, o, true);
  bool does = vtb_compilation_load(&c, &with, NULL, quiet) == VTB_OK;
  vtb_compilation_free(&c);
  vtb_report_free(quiet);
  o->model.defines.n = o->model.compile.n_defines = n;
  return does;
}

/* The model for this many classes: the hyperparameter that its scores follow from follows the data,
 * unless the user set it. */
static vtb_status load_for_classes(const char *what, train_options *o, bool training, int classes,
                                   train_programs *p, vtb_compilation *c) {
  vtb_compile_options with = options_for(what, o, training);
  const vtb_instantiate_options more = {.augment_inside = training && train_augments_inside(o),
                                        .augment_arrays =
                                            !vtb_dataset_has_images(o->train.train_set)};
  VTB_TRY(vtb_compilation_load(c, &with, &more, o->model.report));
  int have = vtb_class_scores(c->module->entry);
  p->measured = vtb_has_measure(c->module->entry);
  if (p->measured) {
    char define[64];
    snprintf(define, sizeof define, "num_classes=%d", classes);
    bool again = p->define[0] == '\0' && !defines(o, "num_classes=");
    if (!again || classes < 1 || !takes(what, o, define)) return VTB_OK;
    snprintf(p->define, sizeof p->define, "%s", define);
  } else {
    if (have == classes && have) return VTB_OK;
    if (!have)
      return vtb_fail(&c->report->error, VTB_E_INPUT,
                      "%s has no class scores to train: its first output must be [batch, classes], "
                      "or it declares a loss (docs/language.md, \"Objectives\")",
                      what);
    if (!classes)
      return vtb_fail(&c->report->error, VTB_E_INPUT,
                      "%s declares no loss, and the data has no label for each sample", what);
    if (!vtb_class_setting(&with, c, classes, p->define, sizeof p->define))
      return vtb_wrong_classes(&with, c, have, classes);
    if (!o->quiet && !vtb_starts_with(p->define, "num_classes="))
      cli_say("the data has %d classes, the model %d: -D %s\n", classes, have, p->define);
  }
  vtb_compilation_free(c);
  cli_define(&o->model, p->define);
  return load_for_classes(what, o, training, classes, p, c);
}

/* The data set has images, and the model an input for one. */
static bool takes_images(const vtb_func *f, const train_options *o) {
  bool takes = false;
  for (int a = 0; a < f->n_args; a++)
    takes |= f->arg_info[a].role == VTB_ROLE_INPUT && f->args[a]->type.rank == 4 &&
             f->args[a]->type.dtype == VTB_F32;
  return takes && vtb_dataset_has_images(o->train.train_set);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const vtb_source_file *)a)->name, ((const vtb_source_file *)b)->name);
}

/* Copies of the texts, each once. */
void train_programs_keep(train_programs *p, vtb_unit *u) {
  train_sources *all = &p->sources;
  vtb_source_file *files;
  size_t n = vtb_unit_sources(u, &files);
  for (size_t k = 0; k < n; k++) {
    bool have = false;
    for (size_t i = 0; i < all->n; i++) have |= strcmp(all->at[i].name, files[k].name) == 0;
    if (have) continue;
    char *text = vtb_xmalloc(files[k].n + 1);
    memcpy(text, files[k].text, files[k].n + 1);
    vtb_vec_push(all, ((vtb_source_file){.name = vtb_xstrdup(files[k].name),
                                         .path = vtb_xstrdup(files[k].path),
                                         .text = text,
                                         .n = files[k].n}));
  }
  vtb_free(files);
  if (all->n) qsort(all->at, all->n, sizeof *all->at, by_name);
}

static void free_sources(train_sources *all) {
  for (size_t i = 0; i < all->n; i++) {
    vtb_free((char *)all->at[i].name);
    vtb_free((char *)all->at[i].path);
    vtb_free((char *)all->at[i].text);
  }
  vtb_vec_free(all);
}

/* The model's `augment`, for the loader, or inside the step already. */
static vtb_status find_augment(const vtb_compilation *c, const train_options *o,
                               train_programs *p) {
  bool inside = train_augments_inside(o);
  const char *where = c->module->augment;
  if (!where && inside)
    return vtb_fail(&c->report->error, VTB_E_USAGE,
                    "--augment-in step: the model says no augment { }");
  if (where)
    snprintf(p->augmented, sizeof p->augmented, "%s%s", where, inside ? " in the step" : "");
  return inside ? VTB_OK : vtb_compile_augments(c, &p->augments, c->report);
}

static vtb_status compile_step(const char *what, train_options *o, int classes, int64_t batch,
                               train_programs *p) {
  vtb_compilation c;
  vtb_status status = load_for_classes(what, o, true, classes, p, &c);
  if (status == VTB_OK)
    status = train_layers_check(&o->layers, c.module->entry, o->quiet, &o->model.report->error);
  if (status == VTB_OK) status = find_augment(&c, o, p);
  if (status == VTB_OK) status = vtb_compilation_graph(&c);
  if (status == VTB_OK && (!p->measured || takes_images(c.module->entry, o)))
    status = vtb_compilation_image_size(&c, &p->channels, &p->height, &p->width);
  if (status == VTB_OK) status = vtb_compilation_train(&c);
  if (status == VTB_OK) status = vtb_compilation_program(&c, batch, o->trace, &p->step);
  if (status == VTB_OK) train_programs_keep(p, c.unit);
  if (status == VTB_OK && c.rule) train_programs_keep(p, c.rule->unit);
  vtb_compilation_free(&c);
  return status;
}

/* Images of an update, on all ranks; of a file those that it takes at a time. */
static int64_t update_batch(const train_options *o) {
  return o->model.compile.batch ? o->model.compile.batch : 64;
}

/* Images of an evaluation at a time: those of an update where samples meet, whose losses are of the
 * batch; else four times those of a run, which need no memory for gradients, or as many where
 * memory is short. */
static int64_t evaluation_batch(const train_options *o, const vtb_compilation *c, int64_t batch) {
  if (o->model.compile.eval_batch) return o->model.compile.eval_batch;
  if (vtb_mixes_samples(c->module)) return update_batch(o);
  return o->model.compile.memory ? batch : 4 * batch;
}

static vtb_status open_eval(const char *what, train_options *o, int classes, train_programs *p,
                            vtb_compilation *c) {
  vtb_status status = load_for_classes(what, o, false, classes, p, c);
  if (status == VTB_OK) status = vtb_compilation_graph(c);
  return status == VTB_OK && p->measured ? vtb_compilation_evaluation(c) : status;
}

static vtb_status compile_eval(const char *what, train_options *o, int classes, int64_t batch,
                               train_programs *p) {
  vtb_compilation c;
  vtb_status status = open_eval(what, o, classes, p, &c);
  if (status == VTB_OK) batch = evaluation_batch(o, &c, batch);
  if (status == VTB_OK) status = vtb_compilation_program(&c, batch, false, &p->eval);
  vtb_compilation_free(&c);
  return status;
}

/* ---- within a limit of memory ---------------------------------------------------------------- */

/* The search for a plan that --memory allows. */
typedef struct memory_search {
  const char *what;
  train_options *options;
  int classes;
  train_programs *programs;
  vtb_compilation eval; /* to ask what an evaluation takes; without a module before it is asked */
} memory_search;

static vtb_status open_step(void *user, int64_t pieces, int64_t recompute, vtb_report *r,
                            vtb_compilation *c) {
  memory_search *s = user;
  train_options *o = s->options;
  const int64_t said_pieces = o->train.accumulate, said_recompute = o->model.compile.recompute;
  vtb_report *report = o->model.report;
  cli_progress_note("--memory: looking at a batch in %lld piece%s", (long long)pieces,
                    pieces > 1 ? "s" : "");
  o->train.accumulate = pieces;
  o->model.compile.recompute = recompute;
  o->model.report = r;
  vtb_status status = load_for_classes(s->what, o, true, s->classes, s->programs, c);
  if (status == VTB_OK) status = vtb_compilation_graph(c);
  if (status == VTB_OK) status = vtb_compilation_train(c);
  o->train.accumulate = said_pieces;
  o->model.compile.recompute = said_recompute;
  o->model.report = report;
  return status;
}

/* Evaluation has its own workspace and batches, and on a device its own parameters. */
static vtb_status add_evaluation(void *user, int64_t rows, int64_t *bytes) {
  memory_search *s = user;
  train_options *o = s->options;
  vtb_outline out;
  vtb_status status = VTB_OK;
  if (!o->train.eval_set) return VTB_OK;
  if (!s->eval.module) status = open_eval(s->what, o, s->classes, s->programs, &s->eval);
  if (status != VTB_OK) return status;
  status = vtb_outline_make(&s->eval, evaluation_batch(o, &s->eval, rows), NULL, &out);
  if (status == VTB_OK)
    *bytes += vtb_memory_of(&out, VTB_LOADER_BATCHES) - (out.plan ? 0 : out.takes.kept);
  vtb_outline_free(&out);
  return status;
}

/* "--memory 4G: recomputes 11 of 12 blocks, batch 64 in 4 pieces of 16: 3.6 GiB" */
static void say_plan(const train_options *o, const vtb_memory_plan *p) {
  char limit[24], bytes[32], pieces[64] = "at once", again[64] = "recomputes nothing";
  if (p->recompute && p->blocks)
    snprintf(again, sizeof again, "recomputes %lld of %lld blocks", (long long)p->recompute,
             (long long)p->blocks);
  else if (p->recompute)
    snprintf(again, sizeof again, "recomputes %lld blocks", (long long)p->recompute);
  if (p->pieces > 1)
    snprintf(pieces, sizeof pieces, "in %lld pieces of %lld", (long long)p->pieces,
             (long long)p->rows);
  cli_say("--memory %s: %s, batch %lld %s: %s", vtb_memory_typed(o->model.compile.memory, limit),
          again, (long long)(p->pieces * p->rows), pieces, nr_bytes((double)p->bytes, bytes));
}

static vtb_status say_least(const char *what, const vtb_memory_plan *p, vtb_error *err) {
  char least[24], bytes[32], how[96] = "";
  snprintf(how, sizeof how, "%lld image%s at a time%s", (long long)p->rows, p->rows == 1 ? "" : "s",
           p->recompute ? ", recomputing all but the last block" : "");
  return vtb_fail(err, VTB_E_USAGE,
                  "training %s needs at least %s (%s): --memory %s, a smaller --image or a smaller "
                  "model",
                  what, nr_bytes((double)p->bytes, bytes), how, vtb_memory_typed(p->bytes, least));
}

/* Decides what is recomputed, and in how many pieces a batch is run, so that all of it keeps within
 * --memory. What the user set stays; ranks do what rank 0 decides. */
static vtb_status plan_memory(const char *what, train_options *o, int classes, int64_t batch,
                              train_programs *p) {
  memory_search s = {.what = what, .options = o, .classes = classes, .programs = p};
  const vtb_memory_wish wish = {.limit = o->model.compile.memory,
                                .batch = batch,
                                .pieces = o->train.accumulate,
                                .recompute = o->model.compile.recompute,
                                .ready = VTB_LOADER_BATCHES,
                                .open = open_step,
                                .beside = add_evaluation,
                                .user = &s};
  vtb_memory_plan plan = {0};
  vtb_error *err = &o->model.report->error;
  vtb_status status = vtb_memory_fit(&wish, &plan, o->model.report);
  if (status == VTB_E_USAGE && plan.rows) status = say_least(what, &plan, err);
  if (status == VTB_OK) status = vtb_ranks_broadcast(o->train.ranks, 0, &plan, sizeof plan, err);
  if (s.eval.report) vtb_compilation_free(&s.eval);
  cli_progress_clear();
  if (status != VTB_OK) return status;
  if (plan.pieces > 1) o->train.accumulate = plan.pieces;
  o->model.compile.recompute = plan.recompute;
  if (!o->quiet) say_plan(o, &plan);
  return VTB_OK;
}

static vtb_status compile_both(const char *what, train_options *o, int classes, train_programs *p) {
  int64_t batch = 0;
  int ranks = vtb_ranks_count(o->train.ranks);
  vtb_error *err = &o->model.report->error;
  vtb_status status = vtb_train_divide(update_batch(o), ranks, runs_of(o), &batch, err);
  if (status == VTB_OK && o->model.compile.memory) {
    status = plan_memory(what, o, classes, batch * runs_of(o), p);
    if (status == VTB_OK)
      status = vtb_train_divide(update_batch(o), ranks, runs_of(o), &batch, err);
  }
  if (status == VTB_OK) status = compile_step(what, o, classes, batch, p);
  if (status == VTB_OK) status = compile_eval(what, o, classes, batch, p);
  if (status == VTB_OK && o->search.n) /* a run's own copy: the run has warned */
    o->model.report->n_shown = o->model.report->diags.list.n;
  return cli_report(&o->model, status);
}

/* ---- built files instead of a model ---------------------------------------------------------- */

/* Takes what was decided when the file was built: settings as if they were the user's, so that a
 * run of the file and one of its model write the same. */
static void take_settings(train_options *o, train_programs *c) {
  const vtb_manifest *m = vtb_artefact_manifest(c->file);
  const char *smoothing = vtb_manifest_meta(m, "label_smoothing"),
             *defines = vtb_manifest_meta(m, "defines");
  o->model.compile.label_smoothing = smoothing ? strtod(smoothing, NULL) : 0;
  o->model.compile.image = vtb_manifest_meta(m, "image");
  o->model.compile.batch = c->step->batch * runs_of(o);
  o->model.compile.precision = m->precision;
  o->init.load.rules = vtb_manifest_meta(m, VTB_META_NAMES);
  c->settings = defines ? cJSON_Parse(defines) : NULL;
  cJSON *item;
  cJSON_ArrayForEach(item, c->settings) if (cJSON_IsString(item))
      cli_define(&o->model, item->valuestring);
}

/* Options that the step has compiled in, one way or the other. */
static vtb_status check_built(const char *path, const train_options *o, int classes,
                              const train_programs *c) {
  const char *text = vtb_manifest_meta(vtb_artefact_manifest(c->file), "label_smoothing"),
             *augment = vtb_manifest_meta(vtb_artefact_manifest(c->file), "augment");
  if (augment)
    return cli_usage_error("train",
                           "%s is of a model with augment (%s), which a training of the model's "
                           "source runs, and none of a built file",
                           path, augment);
  bool averages = vtb_optim_has_averages(c->step);
  int64_t have = c->measured ? classes : 0;
  for (int i = 0; i < c->step->n_tensors; i++) {
    const vtb_tensor_info *t = &c->step->tensors[i];
    if (!c->measured && t->io == VTB_IO_OUTPUT && t->rank == 2 && !have) have = t->dim[1];
  }
  if (have != classes) {
    cli_say("vertebra train: the data has %d classes and %s gives %lld scores: build it with -D "
            "num_classes=%d\n",
            classes, path, (long long)have, classes);
    return VTB_E_INPUT;
  }
  if (o->model.compile.label_smoothing > 0 &&
      (!text || o->model.compile.label_smoothing != strtod(text, NULL)))
    return cli_usage_error("train", "%s was built with --label-smoothing %s", path,
                           text ? text : "0");
  if (averages != (o->train.optim.ema_decay > 0))
    return cli_usage_error("train", "%s was built %s averages: %s", path,
                           averages ? "with" : "without",
                           averages ? "--ema D is needed" : "build it with --ema");
  return VTB_OK;
}

/* A file's step recomputes what it was built to. */
static vtb_status check_memory(const train_options *o, const vtb_program *step) {
  vtb_error err = {0};
  vtb_status status = vtb_program_within(step, o->model.compile.memory, &err);
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}

static vtb_status open_both(const char *path, train_options *o, int classes, train_programs *c) {
  if (vtb_ranks_count(o->train.ranks) > 1)
    return cli_usage_error("train",
                           "%s is compiled for one process: give the model that it was "
                           "built of, or VTB_RANKS=off",
                           path);
  vtb_status status = cli_built_open("train", path, &o->model, &c->file);
  if (status == VTB_OK)
    status =
        cli_built_program(c->file, VTB_ARTEFACT_STEP, &o->model, o->model.compile.batch, &c->step);
  if (status == VTB_OK) status = check_memory(o, c->step);
  c->measured = status == VTB_OK && vtb_program_measures(c->step);
  if (status == VTB_OK)
    status =
        cli_built_program(c->file, c->measured ? VTB_ARTEFACT_EVALUATION : VTB_ARTEFACT_INFERENCE,
                          &o->model, o->model.compile.eval_batch, &c->eval);
  if (status == VTB_OK) status = check_built(path, o, classes, c);
  if (status != VTB_OK) return status;
  vtb_error err = {0};
  status = cli_program_image_size(c->eval, &c->channels, &c->height, &c->width, &err);
  if (c->measured && (status != VTB_OK || !vtb_dataset_has_images(o->train.train_set))) {
    c->channels = 0;
    status = VTB_OK;
  }
  if (status != VTB_OK) return cli_error(&err);
  if (vtb_artefact_weights(c->file) && !o->init.load.weights)
    fprintf(
        stderr,
        "vertebra train: the weights in %s are not used: --init FILE starts from a weights file\n",
        path);
  take_settings(o, c);
  return VTB_OK;
}

void train_programs_free(train_programs *c) {
  vtb_program_free(c->step);
  vtb_program_free(c->eval);
  vtb_augments_free(&c->augments);
  vtb_artefact_close(c->file);
  cJSON_Delete(c->settings);
  vtb_rule_free(&c->optimizer);
  free_sources(&c->sources);
  vtb_vec_free(&c->given);
}

/* A file's optimizer is compiled: it must be the one, and only its numbers can be set. */
static vtb_status set_built(const char *text, train_programs *c, vtb_error *err) {
  vtb_rule_choice *o = &c->optimizer;
  vtb_status status = vtb_rule_parse(text, "optimizer", o, err);
  if (status == VTB_OK && strcmp(o->what, c->name) != 0)
    return vtb_fail(err, VTB_E_USAGE,
                    "the file updates by %s, which is compiled: build it with --optimizer %s",
                    c->name, o->what);
  for (size_t i = 0; i < o->defines.n && status == VTB_OK; i++) {
    const char *given = o->defines.at[i], *eq = strchr(given, '=');
    char *end;
    vtb_setting s = {vtb_arena_strndup(&o->arena, given, (size_t)(eq - given)),
                     strtod(eq + 1, &end)};
    if (*end)
      return vtb_fail(err, VTB_E_USAGE, "%s: of a built file only numbers can be set", given);
    vtb_vec_push(&c->given, s);
  }
  return status;
}

vtb_status train_programs_optimizer(train_programs *c, train_options *o, vtb_error *err) {
  vtb_optim_name(c->step, c->name);
  if (!o->model.compile.optimizer) o->model.compile.optimizer = c->name;
  vtb_status status = c->file ? set_built(o->model.compile.optimizer, c, err) : VTB_OK;
  if (!isnan(o->decay))
    vtb_vec_push(&c->given, ((vtb_setting){"decay", o->decay}));
  else if (!vtb_optim_default(c->step, "decay", &o->decay))
    o->decay = 0;
  o->train.optim.settings = c->given.at;
  o->train.optim.n_settings = (int)c->given.n;
  return status;
}

/* ---- either ---------------------------------------------------------------------------------- */

vtb_status train_programs_open(const char *what, train_options *o, int classes, train_programs *p) {
  cli_progress_note("compiling the training step and evaluation of %s", what);
  return cli_is_built(what) ? open_both(what, o, classes, p) : compile_both(what, o, classes, p);
}
