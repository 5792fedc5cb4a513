/* vertebra run: image files and arrays in, the most likely classes or feature files out. */
#include "frontend/cli/run/inputs.h"
#include "frontend/cli/interrupt.h"
#include "frontend/cli/load/prepare.h"
#include "frontend/cli/say/progress.h"
#include "frontend/cli/run/run_files.h"

#include <math.h>
#include <string.h>

typedef struct run_options {
  cli_model_options model;
  cli_load_options load;
  const char *output;
  cli_list inputs;
  cli_prepare_options prepare;
  int64_t top, seed;
} run_options;

typedef struct runner {
  cli_inference inf;
  cli_inputs inputs;
  run_files files;
  vtb_transform transform;
  const vtb_tensor_info *logits; /* the first output if it is [batch, classes], else NULL */
  char **names;
  int n_names;
  doc *told; /* a list of images */
  vtb_weights *kept;
  int64_t top, unread, not_finite; /* images without a result */
  int64_t given_so;                /* of not_finite those whose inputs were not either */
} runner;

/* False: the scores are no finite numbers, and p holds nothing. */
static bool softmax(const float *x, int n, double *p) {
  double top = x[0], sum = 0;
  for (int i = 1; i < n; i++) top = fmax(top, (double)x[i]);
  for (int i = 0; i < n; i++) sum += p[i] = exp((double)x[i] - top);
  for (int i = 0; i < n; i++) p[i] /= sum;
  return isfinite(sum);
}

/* An image without a result, and why. */
static void report_bad(const runner *r, const char *file, const char *why) {
  doc_item(r->told->json, F("file", file), F("error", why));
  doc_say(r->told, 2, "%s", doc_visible(r->told, file));
  doc_say(r->told, 4, "  not classified: %s", doc_visible(r->told, why));
}

/* Reports scores that are not finite: not of the model, where it was given such numbers. */
static void report_not_finite(runner *r, const char *file, int64_t row) {
  const char *input = cli_inputs_not_finite(&r->inputs, r->inf.model, row);
  char why[160] = "its scores are not finite";
  if (input)
    snprintf(why, sizeof why, "the input \"%.64s\" holds a number that is not finite", input);
  r->not_finite++;
  r->given_so += input != NULL;
  report_bad(r, file, why);
}

static void report_class(const runner *r, int class, double p, cJSON *list) {
  char number[24];
  snprintf(number, sizeof number, "class %d", class);
  const char *name = class < r->n_names ? r->names[class] : number;
  doc_item(list, F("class", class), F("name", name), F("probability", p));
  doc_say(r->told, 11, "  %5.1f %%  %s", 100 * p, doc_visible(r->told, name));
}

static void report_image(runner *r, const char *file, int64_t row, const float *logits,
                         int classes) {
  double *p = vtb_xcalloc((size_t)classes, sizeof *p);
  if (softmax(logits, classes, p)) {
    cJSON *list = cJSON_CreateArray();
    doc_item(r->told->json, F("file", file), F("top", list));
    doc_say(r->told, 2, "%s", doc_visible(r->told, file));
    for (int64_t k = 0; k < r->top && k < classes; k++) {
      int best = 0;
      for (int i = 1; i < classes; i++)
        if (p[i] > p[best]) best = i;
      report_class(r, best, p[best], list);
      p[best] = -1;
    }
  } else {
    report_not_finite(r, file, row);
  }
  vtb_free(p);
}

/* Row `row` of every output becomes a tensor "<file>/<output>"; an output without rows is the first
 * image's. */
static void keep_outputs(const cli_inference *inf, const char *file, int64_t row, vtb_weights *w) {
  const vtb_tensor_info *t;
  int n = vtb_runner_tensors(inf->model, &t);
  for (int i = 0; i < n; i++) {
    int64_t count, batch = vtb_runner_batch(inf->model), dim[VTB_PROGRAM_MAX_RANK];
    if (t[i].io != VTB_IO_OUTPUT) continue;
    const float *data = vtb_runner_output(inf->model, t[i].name, &count);
    memcpy(dim, t[i].dim, sizeof dim);
    bool rows = t[i].rank > 0 && dim[0] == batch;
    if (rows) {
      dim[0] = 1;
      data += row * (count / batch);
    }
    vtb_strbuf name = {0};
    vtb_strbuf_printf(&name, "%s/%s", file, t[i].name);
    if ((rows || row == 0) && !vtb_weights_find(w, name.at))
      vtb_weights_put(w, name.at, VTB_ELEM_F32, t[i].rank, dim, data);
    vtb_strbuf_free(&name);
  }
}

static void find_logits(runner *r) {
  const vtb_tensor_info *t;
  int n = vtb_runner_tensors(r->inf.model, &t), i = 0;
  while (i < n && t[i].io != VTB_IO_OUTPUT) i++;
  if (i < n && t[i].rank == 2) r->logits = &t[i];
}

/* Rows of images that cannot be read are zeros, and bad[row] is set: the others are run. */
static vtb_status fill_images(runner *r, size_t from, int64_t n, bool *bad, vtb_error *err) {
  if (r->inputs.image < 0) return VTB_OK;
  const char *name = r->inf.program->tensors[r->inputs.image].name;
  int64_t count, batch = vtb_runner_batch(r->inf.model);
  float *input = vtb_runner_input(r->inf.model, name, &count);
  memset(input, 0, (size_t)count * sizeof *input);
  for (int64_t i = 0; i < n; i++) {
    vtb_image image = {0};
    vtb_error why = {0};
    vtb_status status = run_files_image(&r->files, from + (size_t)i, r->inf.channels, &image, &why);
    if (status == VTB_E_MEMORY) return vtb_fail(err, status, "%s", why.text);
    bad[i] = status != VTB_OK;
    r->unread += bad[i];
    if (bad[i])
      report_bad(r, r->files.paths.at[from + (size_t)i], why.text);
    else if (!vtb_transform_apply(&r->transform, &image, 0, input + i * (count / batch)))
      status = VTB_E_MEMORY;
    vtb_image_free(&image);
    if (status == VTB_E_MEMORY) return vtb_no_memory(err, r->files.paths.at[from + (size_t)i]);
  }
  return VTB_OK;
}

/* At most the model's batch, from sample `from`. */
static vtb_status run_batch(runner *r, const char *const *names, int64_t from, int64_t n, bool *bad,
                            vtb_error *err) {
  names += from;
  memset(bad, 0, (size_t)n);
  vtb_status status = fill_images(r, (size_t)from, n, bad, err);
  if (status == VTB_OK) status = cli_inputs_fill(&r->inputs, r->inf.model, from, n, err);
  if (status == VTB_OK) status = vtb_runner_run(r->inf.model, err);
  for (int64_t i = 0; i < n && status == VTB_OK; i++) {
    if (bad[i]) continue;
    if (r->kept) keep_outputs(&r->inf, names[i], i, r->kept);
    if (!r->logits) continue;
    const float *logits = vtb_runner_output(r->inf.model, r->logits->name, NULL);
    int classes = (int)r->logits->dim[1];
    report_image(r, names[i], i, logits + i * classes, classes);
  }
  cli_tell_so_far(r->told);
  return status;
}

/* The names of the samples: files, or numbers of what arrays hold. */
static vtb_status name_samples(const runner *r, const char *what, const cli_list *files,
                               cli_list *names, vtb_arena *arena, vtb_error *err) {
  int64_t n = cli_inputs_count(&r->inputs);
  if (r->inputs.image >= 0 && !files->n)
    return vtb_fail(err, VTB_E_USAGE, "%s has an image input: at least one IMAGE is needed", what);
  if (r->inputs.image < 0 && files->n)
    return vtb_fail(err, VTB_E_USAGE, "%s has no image input for %s", what, files->at[0]);
  if (r->inputs.image >= 0 && n > 1 && n != (int64_t)files->n)
    return vtb_fail(err, VTB_E_USAGE, "%zu images, and arrays of %lld samples", files->n,
                    (long long)n);
  for (size_t i = 0; i < files->n; i++) vtb_vec_push(names, files->at[i]);
  for (int64_t i = 0; i < n && !files->n; i++)
    vtb_vec_push(names, vtb_arena_printf(arena, "sample %lld", (long long)i));
  return VTB_OK;
}

/* Samples that meet do so within a run, and with what fills the last one up. */
static void say_of_samples(const runner *r, const char *what, size_t n) {
  const vtb_manifest *file = r->inf.built ? vtb_artefact_manifest(r->inf.built) : NULL;
  bool meet = file ? vtb_streq(vtb_manifest_meta(file, VTB_META_SAMPLES), VTB_SAMPLES_MEET)
                   : r->inf.program->samples_meet;
  int64_t batch = vtb_runner_batch(r->inf.model);
  if (meet && (int64_t)n != batch)
    cli_say("samples meet in %s, and do so %lld at a time: --batch %zu runs all together\n", what,
            (long long)batch, n);
}

static vtb_status run_samples(runner *r, const cli_list *names, vtb_error *err) {
  size_t batch = (size_t)vtb_runner_batch(r->inf.model);
  double start = vtb_now();
  vtb_status status = VTB_OK;
  const volatile int *stop = cli_interrupt_wait();
  bool *bad = vtb_xcalloc(batch, sizeof *bad);
  for (size_t f = 0; f < names->n && status == VTB_OK; f += batch) {
    size_t left = names->n - f;
    status = run_batch(r, names->at, (int64_t)f, (int64_t)(left < batch ? left : batch), bad, err);
    cli_progress_images("done", (int64_t)(f + batch), (int64_t)names->n, start);
    if (*stop && left > batch) {
      status = cli_interrupt_say((int64_t)(f + batch), (int64_t)names->n, "images");
      break;
    }
  }
  vtb_free(bad);
  return status;
}

/* After all that could be done was done. */
static vtb_status judge(const runner *r, const char *what, size_t n, vtb_error *err) {
  if (r->given_so)
    return vtb_fail(
        err, VTB_E_NUMBERS,
        "the inputs of %lld of %zu samples hold numbers that are not finite, and so are "
        "their scores",
        (long long)r->given_so, n);
  if (r->not_finite)
    return vtb_fail(err, VTB_E_NUMBERS,
                    "the outputs of %s are not finite for %lld of %zu images; vertebra verify %s "
                    "--nan names the first op",
                    what, (long long)r->not_finite, n, what);
  if (r->unread)
    return vtb_fail(err, VTB_E_INPUT, "%lld of %zu images could not be read", (long long)r->unread,
                    n);
  return VTB_OK;
}

static const char needed[] = "a MODEL or built FILE and at least one IMAGE or --input are needed";

static vtb_status run_images(void *user, const cli_list *args, vtb_error *err) {
  run_options *o = user;
  vtb_load_given(&o->load);
  if (args->n < 2 && !o->inputs.n) return cli_usage_error("run", "%s", needed);
  const char *what = args->at[0];
  cli_list files = {.at = args->at + 1, .n = args->n - 1};
  runner r = {.top = o->top};
  o->model.compile.numbers_rows = true;
  int64_t batch = o->model.compile.batch ? o->model.compile.batch : 1;
  VTB_TRY(cli_load_for_inference("run", what, &o->model, batch, &o->load, &r.inf));
  if (!r.inf.weights) cli_say("no --weights: the model has random weights\n");
  vtb_status status =
      cli_prepare_transform("run", what, &r.inf, &o->prepare, NULL, &r.transform, err);
  find_logits(&r);
  r.names = cli_weights_classes(&r.inf, &r.n_names);
  r.told = doc_new(cJSON_CreateArray());
  r.kept = o->output ? vtb_need(vtb_weights_new()) : NULL;
  cli_list names = {0};
  vtb_arena arena;
  vtb_arena_init(&arena);
  if (status == VTB_OK) status = cli_inputs_open(&r.inputs, r.inf.program, &o->inputs, err);
  r.inputs.seed = (int32_t)o->seed;
  if (status == VTB_OK) status = run_files_open(&r.files, &files, err);
  if (status == VTB_OK) status = name_samples(&r, what, &r.files.paths, &names, &arena, err);
  if (status == VTB_OK) say_of_samples(&r, what, names.n);
  if (status == VTB_OK && !r.logits && !r.kept)
    status = vtb_fail(err, VTB_E_USAGE,
                      "%s gives features, not classes: say where to write them with -o "
                      "FILE.safetensors",
                      what);
  if (status == VTB_OK) status = run_samples(&r, &names, err);
  if (status == VTB_OK && r.kept && r.kept->n)
    status = vtb_safetensors_save(o->output, r.kept, err);
  if (status == VTB_OK) status = judge(&r, what, names.n, err);
  if (status == VTB_OK || r.unread || r.not_finite)
    cli_tell(r.told);
  else
    doc_free(r.told);
  for (int i = 0; i < r.n_names; i++) vtb_free(r.names[i]);
  vtb_free(r.names);
  vtb_weights_free(r.kept);
  vtb_vec_free(&names);
  vtb_arena_free(&arena);
  cli_inputs_free(&r.inputs);
  run_files_free(&r.files);
  cli_inference_free(&r.inf);
  vtb_load_free(&o->load);
  return status;
}

vtb_status cli_cmd_run(int argc, char **argv) {
  run_options o = {.top = 3};
  const cli_opt opts[] = {
      CLI_TARGET_OPT(o.model),
      CLI_QUANTIZE_OPT(o.model),
      CLI_LOAD_OPTS(o.load, "--weights", CLI_WEIGHTS_HELP),
      {"--input", CLI_LIST, &o.inputs, "NAME=FILE",
       "an array for an input that is no image: .npy or .safetensors, first axis the samples"},
      CLI_PREPARE_OPTS(o.prepare),
      {"--seed", CLI_INT, &o.seed, "N",
       "of random numbers: each sample has its own, for any --batch (default 0)"},
      {"--top", CLI_INT, &o.top, "K", "classes to print an image (default 3)"},
      {"-o", CLI_FILE, &o.output, "FILE.safetensors",
       "write every output of every image, as .safetensors"},
      CLI_STRIPS_OPT(o.model, "--strips"),
      CLI_MEMORY_OPT(o.model, "refuse what would take more than 4G, say"),
      CLI_MODEL_OPTS(o.model)};
  return CLI_RUN("run", opts, .some = needed, .run = run_images, .options = &o, .model = &o.model);
}
