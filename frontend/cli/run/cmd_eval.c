/* vertebra eval: what a model declares to be measured by, or accuracy on a labelled data set. */
#include "frontend/cli/load/built.h"
#include "frontend/cli/data/data.h"
#include "frontend/cli/interrupt.h"
#include "frontend/cli/load/prepare.h"
#include "frontend/cli/say/progress.h"
#include "frontend/cli/ranks.h"
#include "ir/objective.h"
#include "runtime/train/fingerprint.h"

#include <math.h>
#include <string.h>

typedef struct eval_options {
  cli_model_options model;
  cli_data_options data;
  cli_load_options load;
  cli_prepare_options prepare;
  const char *write_images;
  bool confusion;
  vtb_ranks *ranks;
  const volatile int *stop;
} eval_options;

static void on_batch(void *start, int64_t done, int64_t total) {
  cli_progress_images("evaluated", done, total, *(const double *)start);
}

/* Classes against predictions. */
static void say_confusion(doc *d, const vtb_dataset *data, const vtb_eval_result *r) {
  doc_column *columns = VTB_NEW_ARRAY(&d->arena, doc_column, r->classes + 1);
  doc_value *row = VTB_NEW_ARRAY(&d->arena, doc_value, r->classes + 2);
  columns[0] = (doc_column){.heading = "class", .width = -16};
  for (int j = 0; j < r->classes; j++)
    columns[j + 1] = (doc_column){.heading = vtb_dataset_class_name(data, j), .width = 6};
  doc_table *t = doc_add_table(d, NULL, columns, r->classes + 1);
  t->gap = 1, t->headless = true;
  for (int i = 0; i < r->classes; i++) {
    row[0] = V(vtb_dataset_class_name(data, i));
    for (int j = 0; j < r->classes; j++) row[j + 1] = V(r->confusion[i * r->classes + j]);
    doc_add_row(d, t, row);
  }
}

/* "top-1 87.56 % float32, 87.43 % int8: -0.13", or the same of each metric. */
static void say_quantized(doc *d, const vtb_eval_result *plain, const vtb_eval_result *r) {
  vtb_strbuf text = {0};
  cJSON *json = doc_object(F("loss", plain->loss));
  if (!r->measures.n) {
    double before = 100 * plain->top1, now = 100 * r->top1;
    vtb_strbuf_printf(&text, "top-1 %.2f %% float32, %.2f %% int8: %+.2f", before, now,
                      now - before);
    doc_put(json, F("top1", plain->top1), F("top5", plain->top5));
  }
  for (int i = 0; i < r->measures.n; i++) {
    double before = plain->measures.at[i].value, now = r->measures.at[i].value;
    vtb_strbuf_printf(&text, "%s%s %.4f float32, %.4f int8: %+.4f", i ? "; " : "",
                      r->measures.at[i].name, before, now, now - before);
    doc_put(json, F(plain->measures.at[i].name, before));
  }
  doc_say(d, 4, "%s", text.at);
  doc_put(d->json, F("float32", json));
  vtb_strbuf_free(&text);
}

/* plain: of the same model before it was quantized, or NULL. */
static void tell_result(const vtb_dataset *data, const vtb_eval_result *r,
                        const vtb_eval_result *plain, const char *label) {
  bool images = vtb_dataset_has_images(data);
  doc *d = doc_new(doc_object(F("images", r->n)));
  vtb_strbuf text = {0};
  if (r->measures.n) {
    vtb_strbuf_printf(&text, "%lld %s: loss %.4f", (long long)r->n, images ? "images" : "samples",
                      r->loss);
    cli_put_measures(&text, &r->measures, "");
  } else {
    vtb_strbuf_printf(&text, "%lld images: top-1 %.2f %%, top-5 %.2f %%, loss %.4f",
                      (long long)r->n, 100 * r->top1, 100 * r->top5, r->loss);
    doc_put(d->json, F("top1", r->top1), F("top5", r->top5));
  }
  doc_say(d, 4, "%s (%.0f %s/s)", text.at, r->images_per_second,
          images || !r->measures.n ? "img" : "samples");
  vtb_strbuf_free(&text);
  if (plain) say_quantized(d, plain, r);
  doc_put(d->json, F("loss", r->loss));
  for (int i = 0; i < r->measures.n; i++)
    doc_put(d->json, F(r->measures.at[i].name, r->measures.at[i].value));
  doc_put(d->json, F("seconds", r->seconds), F("images_per_second", r->images_per_second),
          F("peak_bytes", cli_peak_bytes()), F("split", vtb_dataset_split(data)),
          K("label", label));
  if (r->confusion && !r->measures.n) say_confusion(d, data, r);
  cli_tell(d);
}

/* One PNG a class, so that `vertebra run` has files to look at. */
static vtb_status write_images(const vtb_dataset *d, const char *folder, vtb_error *err) {
  vtb_status status = vtb_make_dirs(folder, err);
  bool *done = vtb_xcalloc((size_t)vtb_dataset_classes(d), sizeof *done);
  for (int64_t i = 0; i < vtb_dataset_count(d) && status == VTB_OK; i++) {
    int label = vtb_dataset_label(d, i);
    vtb_image image = {0};
    if (label < 0 || done[label]) continue;
    done[label] = true;
    vtb_strbuf path = {0};
    vtb_strbuf_printf(&path, "%s/%02d-%s.png", folder, label, vtb_dataset_class_name(d, label));
    for (char *p = path.at + strlen(folder) + 1; *p; p++)
      if (*p == '/' || *p == ' ') *p = '-';
    if ((status = vtb_dataset_image(d, i, 0, &image, err)) == VTB_OK)
      status = vtb_image_save_png(path.at, &image, err);
    vtb_image_free(&image);
    vtb_strbuf_free(&path);
  }
  vtb_free(done);
  return status;
}

/* Finds whether the model, or the file built of it, has losses or metrics of its own. */
static vtb_status find_measures(const char *what, eval_options *o) {
  if (cli_is_built(what)) {
    vtb_artefact *a;
    vtb_error err = {0};
    if (vtb_artefact_open(what, &a, &err) != VTB_OK) return cli_error(&err);
    const vtb_artefact_program *p = vtb_artefact_find(a, VTB_ARTEFACT_EVALUATION);
    o->model.compile.evaluation = p != NULL;
    vtb_artefact_close(a);
    return VTB_OK;
  }
  vtb_compilation c;
  vtb_compile_options with = cli_compile_options(&o->model, what);
  with.evaluation = true;
  vtb_error err = {0};
  if (cli_load_for(what, &o->model, &o->load, &err) != VTB_OK) return cli_error(&err);
  with.parameters = o->load.file;
  vtb_status status = vtb_compilation_load(&c, &with, NULL, o->model.report);
  o->model.compile.evaluation = status == VTB_OK && vtb_has_measure(c.module->entry);
  vtb_compilation_free(&c);
  return cli_report(&o->model, status);
}

static vtb_status check_images(const cli_inference *inf, const char *what, vtb_error *err) {
  if (inf->channels || vtb_program_measures(inf->program)) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT, "%s has no image input, and declares no metrics", what);
}

/* Class scores of the first output, 0: it has none. */
static int scores_of(const vtb_program *p) {
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_OUTPUT)
      return p->tensors[i].rank == 2 ? (int)p->tensors[i].dim[1] : 0;
  return 0;
}

/* The outcome: the results, or why there are none. */
static vtb_status tell_evaluation(const char *what, const vtb_dataset *d, const vtb_eval_result *r,
                                  const vtb_eval_result *plain, const char *label, vtb_error *err) {
  if (r->stopped) return cli_interrupt_say(r->n, vtb_dataset_count(d), "images");
  if (!isfinite(r->loss)) {
    vtb_fail(err, VTB_E_NUMBERS,
             "the outputs of %s are not finite; vertebra verify %s --nan names the first op", what,
             what);
    return cli_error(err);
  }
  tell_result(d, r, plain, label);
  return VTB_OK;
}

/* Compares what must be the same on all ranks: each reads the weights and the data. */
static vtb_status compare(const cli_inference *inf, const eval_options *o, const vtb_dataset *d,
                          void *const *params, vtb_error *err) {
  char data[VTB_FINGERPRINT] = "", values[40];
  uint64_t h = VTB_HASH_INIT;
  if (vtb_ranks_count(o->ranks) == 1) return VTB_OK;
  for (int i = 0; i < inf->program->n_tensors; i++) {
    uint64_t one =
        params[i]
            ? vtb_hash64(params[i], (size_t)vtb_tensor_info_count(&inf->program->tensors[i]) * 4)
            : 0;
    h = vtb_hash_bytes(h, &one, sizeof one);
  }
  snprintf(values, sizeof values, "values=%016llx", (unsigned long long)h);
  vtb_status status = vtb_fingerprint(d, data, err);
  if (status == VTB_OK) status = vtb_train_compare(o->ranks, "data", data, err);
  return status == VTB_OK ? vtb_train_compare(o->ranks, "weights", values, err) : status;
}

/* The model with the same parameters as it is without --quantize, whose program takes the same
 * tensors. */
static vtb_status evaluate_plain(const char *what, const eval_options *o, const cli_inference *inf,
                                 void *const *params, const vtb_eval_options *e, vtb_eval_result *r,
                                 vtb_error *err) {
  vtb_compile_options with = cli_compile_options(&o->model, what);
  vtb_program *program;
  with.batch = inf->program->batch;
  with.parameters = o->load.file;
  with.quantize = NULL;
  vtb_status status = vtb_compile(&with, &program, o->model.report);
  if (status != VTB_OK) return *err = o->model.report->error, status;
  vtb_check(program->n_tensors == inf->program->n_tensors, "quantized programs take other tensors");
  vtb_eval_options plain = *e;
  plain.confusion = false;
  status = vtb_evaluate(program, params, &plain, r, err);
  vtb_program_free(program);
  return status;
}

static vtb_status evaluate(const char *what, eval_options *o) {
  cli_inference inf;
  vtb_error err = {0};
  vtb_dataset *d = NULL;
  VTB_TRY(find_measures(what, o));
  vtb_status status =
      cli_load_for_inference("eval", what, &o->model,
                             o->model.compile.batch ? o->model.compile.batch : 64, &o->load, &inf);
  if (status != VTB_OK) return status;
  status = cli_data_open_judge(&o->data, cli_inference_meta(&inf, "data"), &d);
  if (status != VTB_OK) {
    cli_inference_free(&inf);
    return status;
  }
  double start = vtb_now();
  vtb_eval_options e = {.dataset = d,
                        .services = vtb_runner_services(inf.model),
                        .stop = o->stop,
                        .loader_threads =
                            (int)(o->data.workers ? o->data.workers : o->model.threads),
                        .ranks = o->ranks,
                        .confusion = o->confusion,
                        .on_batch = on_batch,
                        .user = &start};
  vtb_eval_result r = {0}, plain = {0};
  bool quantized = o->model.compile.quantize != NULL;
  void **params = vtb_xcalloc((size_t)inf.program->n_tensors, sizeof *params);
  for (int i = 0; i < inf.program->n_tensors; i++)
    if (inf.program->tensors[i].io == VTB_IO_PARAM || inf.program->tensors[i].io == VTB_IO_BUFFER)
      params[i] = vtb_runner_param(inf.model, inf.program->tensors[i].name, NULL);
  status = check_images(&inf, what, &err);
  if (status == VTB_OK)
    status = cli_prepare_transform("eval", what, &inf, &o->prepare, d, &e.transform, &err);
  if (status == VTB_OK && !inf.weights)
    status = vtb_fail(&err, VTB_E_USAGE, "%s has no weights in it: --weights FILE is needed", what);
  if (status == VTB_OK) status = cli_data_match_classes(d, &inf, scores_of(inf.program), &err);
  if (status == VTB_OK) status = compare(&inf, o, d, params, &err);
  if (status == VTB_OK && quantized)
    status = evaluate_plain(what, o, &inf, params, &e, &plain, &err);
  start = vtb_now();
  if (status == VTB_OK && !plain.stopped) status = vtb_evaluate(inf.program, params, &e, &r, &err);
  if (plain.stopped) r = plain;
  if (status == VTB_OK && o->write_images && !vtb_ranks_rank(o->ranks))
    status = write_images(d, o->write_images, &err);
  if (status == VTB_OK)
    status = tell_evaluation(what, d, &r, quantized ? &plain : NULL,
                             cli_inference_meta(&inf, "label"), &err);
  else
    cli_error(&err);
  if (status == VTB_OK) cli_data_say_damaged(d);
  vtb_free(r.confusion);
  vtb_free(params);
  cli_inference_free(&inf);
  vtb_dataset_free(d);
  return status;
}

/* Batches are shared out among the ranks, if there are some. */
static vtb_status on_ranks(void *user, const cli_list *args, vtb_error *err) {
  eval_options *o = user;
  vtb_load_given(&o->load);
  if (!o->load.weights && !cli_is_built(args->at[0]))
    return cli_usage_error("eval", "--weights FILE is needed");
  if (!o->data.path)
    return cli_usage_error("eval", "--data D is needed (for example: --data fashion-mnist)");
  o->stop = cli_interrupt_wait();
  vtb_status status = cli_ranks_open(NULL, &o->ranks);
  if (status == VTB_OK) status = cli_ranks_threads(o->ranks, &o->model.threads, err);
  if (status == VTB_OK) status = evaluate(args->at[0], o);
  vtb_load_free(&o->load);
  return cli_ranks_leave(o->ranks, status, err);
}

vtb_status cli_cmd_eval(int argc, char **argv) {
  eval_options o = {.data = CLI_DATA_DEFAULTS};
  const cli_opt opts[] = {CLI_TARGET_OPT(o.model),
                          CLI_QUANTIZE_OPT(o.model),
                          CLI_LOAD_OPTS(o.load, "--weights", CLI_WEIGHTS_HELP),
                          CLI_DATA_OPTS(o.data),
                          CLI_PREPARE_OPTS(o.prepare),
                          {"--split", CLI_STR, &o.data.split, "train|val|test|all",
                           "all: of data without splits (default test, else val)"},
                          {"--write-images", CLI_STR, &o.write_images, "DIR",
                           "write the first image of each class as PNG"},
                          {"--confusion", CLI_FLAG, &o.confusion, NULL,
                           "also the table of classes against predictions"},
                          CLI_MEMORY_OPT(o.model, "smaller batches where they would take more than "
                                                  "4G, say"),
                          CLI_MODEL_OPTS(o.model)};
  cli_ranks_enter();
  return CLI_RUN("eval", opts, .one = "one MODEL or built FILE is needed", .run = on_ranks,
                 .options = &o, .model = &o.model);
}
