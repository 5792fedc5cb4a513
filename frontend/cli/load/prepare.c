/* See prepare.h. */
#include "frontend/cli/load/prepare.h"
#include "runtime/base/prepare.h"

#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

/* "0.5,0.5,0.5" or "0.5" as a list of JSON; anything else the reader refuses. */
static void add_field(vtb_strbuf *out, const char *key, const char *value, bool word, bool list) {
  if (!value) return;
  vtb_strbuf_printf(out, "%s\"%s\": ", out->n ? ", " : "{", key);
  if (word)
    vtb_strbuf_json(out, value);
  else
    vtb_strbuf_printf(out, list ? "[%s]" : "%s", value);
}

static vtb_status read_options(const cli_prepare_options *o, vtb_preparation *p, vtb_error *err) {
  vtb_strbuf text = {0};
  add_field(&text, "crop", o->crop, false, false);
  add_field(&text, "resize", o->resize, true, false);
  add_field(&text, "filter", o->filter, true, false);
  add_field(&text, "mean", o->mean, false, true);
  add_field(&text, "std", o->std, false, true);
  if (!text.n) return VTB_OK;
  vtb_strbuf_putc(&text, '}');
  vtb_error inner = {0};
  vtb_status status = VTB_OK;
  if (!p->channels)
    status = vtb_fail(err, VTB_E_USAGE,
                      "--crop, --resize, --filter, --mean and --std are for images, and the model "
                      "has no image input");
  else if (vtb_preparation_read(p, text.at, "the options", &inner) != VTB_OK)
    status = vtb_fail(err, VTB_E_USAGE,
                      "%s; --crop 0.9 --resize crop --filter bicubic --mean 0.5,0.5,0.5 --std 0.5 "
                      "is how they look",
                      inner.text);
  vtb_strbuf_free(&text);
  return status;
}

/* ---- sources --------------------------------------------------------------------------------- */

static const char *meta(const cli_prepare_sources *s, const char *key) {
  if (s->weights) return vtb_weights_meta(s->weights, key);
  return s->built ? vtb_manifest_meta(vtb_artefact_manifest(s->built), key) : NULL;
}

static vtb_status read_weights(const cli_prepare_sources *s, vtb_preparation *p, vtb_error *err) {
  VTB_TRY(vtb_prepare_hf(p, meta(s, "hf.preprocessor"), meta(s, "hf.config"), err));
  return vtb_preparation_read_meta(p, meta(s, VTB_META_PREPARE), meta(s, "mean"), meta(s, "std"),
                                   s->weights ? "the weights" : s->model, err);
}

/* The fields in which two differ, of those that both say. */
static unsigned differences(const vtb_preparation *a, const vtb_preparation *b) {
  unsigned d = 0;
  size_t n = (size_t)a->channels * sizeof *a->mean;
  if (a->crop != b->crop) d |= VTB_PREPARE_CROP;
  if (a->resize != b->resize) d |= VTB_PREPARE_RESIZE;
  if (a->filter != b->filter) d |= VTB_PREPARE_FILTER;
  if (memcmp(a->mean, b->mean, n) != 0) d |= VTB_PREPARE_MEAN;
  if (memcmp(a->std, b->std, n) != 0) d |= VTB_PREPARE_STD;
  return d & a->given & b->given;
}

static void say_differences(const cli_prepare_sources *s, const vtb_preparation *model,
                            const vtb_preparation *used) {
  unsigned d = differences(model, used);
  vtb_strbuf a = {0}, b = {0};
  if (!d) return;
  vtb_preparation_write(used, d, &a);
  vtb_preparation_write(model, d, &b);
  bool old = !meta(s, VTB_META_PREPARE) && meta(s, "mean");
  cli_say("vertebra %s: images are prepared as the weights say%s: %s; %s has %s\n", s->command,
          old ? ", which are of a version that knew no crop" : "", a.at, s->model, b.at);
  vtb_strbuf_free(&a);
  vtb_strbuf_free(&b);
}

vtb_status cli_prepare(const cli_prepare_sources *s, vtb_transform *t, vtb_error *err) {
  static const cli_prepare_options none = {0};
  const cli_prepare_options *options = s->options ? s->options : &none;
  *t = (vtb_transform){.prepare = vtb_preparation_default(s->channels, s->height, s->width)};
  vtb_preparation *p = &t->prepare;
  if (s->channels != 1 && s->channels != 3) {
    p->channels = 0;
    vtb_status status = read_options(options, p, err);
    p->channels = s->channels;
    return status;
  }
  vtb_status status = VTB_OK;
  if (s->data && vtb_dataset_has_images(s->data))
    status = vtb_transform_init(t, s->data, s->channels, s->height, s->width, err);
  if (status == VTB_OK && s->said && *s->said)
    status = vtb_preparation_read(p, s->said, s->model, err);
  vtb_preparation model = *p;
  if (status == VTB_OK) status = read_weights(s, p, err);
  if (status == VTB_OK) {
    vtb_preparation shown = *p; /* what options replace is not worth a word */
    if (options->crop) shown.crop = model.crop;
    if (options->resize) shown.resize = model.resize;
    if (options->filter) shown.filter = model.filter;
    if (options->mean) memcpy(shown.mean, model.mean, sizeof shown.mean);
    if (options->std) memcpy(shown.std, model.std, sizeof shown.std);
    say_differences(s, &model, &shown);
    status = read_options(options, p, err);
  }
  return status == VTB_OK ? vtb_preparation_check(p, err) : status;
}

vtb_status cli_prepare_transform(const char *command, const char *model, const cli_inference *inf,
                                 const cli_prepare_options *o, const vtb_dataset *d,
                                 vtb_transform *t, vtb_error *err) {
  const cli_prepare_sources s = {.command = command,
                                 .model = model,
                                 .said = inf->program->prepare,
                                 .weights = inf->weights,
                                 .built = inf->built,
                                 .data = d,
                                 .options = o,
                                 .channels = inf->channels,
                                 .height = inf->height,
                                 .width = inf->width};
  return cli_prepare(&s, t, err);
}

/* ---- what weights are told ------------------------------------------------------------------- */

void cli_prepare_describe(const vtb_transform *t, vtb_weights *w) {
  const vtb_preparation *p = &t->prepare;
  char numbers[128];
  vtb_strbuf text = {0};
  if (!p->channels) return;
  for (int k = 0; k < 2; k++) { /* as older versions read them */
    const float *x = k ? p->std : p->mean;
    snprintf(numbers, sizeof numbers, "%.9g,%.9g,%.9g", (double)x[0], (double)x[1], (double)x[2]);
    vtb_weights_set_meta(w, k ? "std" : "mean", numbers);
  }
  vtb_preparation_write(p, VTB_PREPARE_ALL, &text);
  vtb_weights_set_meta(w, VTB_META_PREPARE, text.at);
  vtb_strbuf_free(&text);
}
