/* A model compiled into a file that runs without the compiler: docs/artefact.md. */
#include "frontend/compile/builder.h"
#include "frontend/compile/stored.h"
#include "frontend/compile/weights.h"
#include "ir/objective.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/base/prepare.h"
#include "runtime/image/prepare.h"

#include <cjson/cJSON.h>
#include <string.h>

/* ---- weights --------------------------------------------------------------------------------- */

/* The tensors that the program has, as they are in the file, which may hold others: an
 * optimiser's, say. */
static vtb_status check_weights(const vtb_artefact_program *p, const char *path, const char *prefix,
                                const vtb_weights *file, vtb_error *err) {
  vtb_program about = {.n_tensors = p->n_tensors, .tensors = p->tensors};
  void **buffers = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *buffers);
  vtb_error inner = {0};
  vtb_status status = VTB_OK;
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_PARAM || p->tensors[i].io == VTB_IO_BUFFER)
      buffers[i] = vtb_xmalloc((size_t)vtb_tensor_info_count(&p->tensors[i]) * 4 + 4);
  if (vtb_weights_bind(&about, file, prefix, buffers, NULL, NULL, &inner) != VTB_OK)
    status = vtb_fail(err, VTB_E_INPUT, "%s: %s", path, inner.text);
  for (int i = 0; i < p->n_tensors; i++) vtb_free(buffers[i]);
  vtb_free(buffers);
  return status;
}

/* In the type that the file has it in. */
static vtb_status store(vtb_file_builder *b, const vtb_weight *t) {
  const char *dtype = b->options->dtype;
  vtb_elem to = t->elem;
  if (vtb_file_builder_has_int8(b, t->name))
    return vtb_store_int8(b->weights, t, &b->report->error);
  if (dtype && vtb_elem_is_float(t->elem)) VTB_TRY(vtb_store_type(dtype, &to, &b->report->error));
  if (to != t->elem) return vtb_store_as(b->weights, t, to, &b->report->error);
  vtb_weights_borrow(b->weights, t->name, t->elem, t->rank, t->dim, t->data);
  return VTB_OK;
}

static vtb_status take_weights(vtb_file_builder *b, const vtb_weights *file, const char *prefix) {
  const vtb_artefact_program *p = &b->programs[0];
  vtb_status status = VTB_OK;
  b->weights = vtb_need(vtb_weights_new());
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++) {
    if (p->tensors[i].io != VTB_IO_PARAM && p->tensors[i].io != VTB_IO_BUFFER) continue;
    vtb_strbuf name = {0};
    vtb_strbuf_printf(&name, "%s%s", prefix, p->tensors[i].name);
    const vtb_weight *t = vtb_weights_find(file, name.at);
    vtb_weight named = t ? *t : (vtb_weight){0};
    named.name = (char *)(uintptr_t)p->tensors[i].name;
    if (t) status = store(b, &named);
    vtb_strbuf_free(&name);
  }
  return status;
}

/* Preprocessing: what the weights say of images holds over what the model says. */
static vtb_status merge_preparations(vtb_file_builder *b, const vtb_weights *file, const char *path,
                                     vtb_error *err) {
  const vtb_artefact_program *about = &b->programs[0];
  const vtb_tensor_info *image = vtb_tensors_image(about->tensors, about->n_tensors);
  int channels = image ? (int)image->dim[1] : 3;
  if (channels != 1 && channels != 3) return VTB_OK;
  vtb_preparation p = vtb_preparation_default(channels, 1, 1);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < b->meta.n && status == VTB_OK; i++)
    if (strcmp(b->meta.at[i].key, VTB_META_PREPARE) == 0)
      status = vtb_preparation_read(&p, b->meta.at[i].value, b->manifest.model, err);
  if (status == VTB_OK)
    status = vtb_preparation_read_meta(&p, vtb_weights_meta(file, VTB_META_PREPARE),
                                       vtb_weights_meta(file, "mean"),
                                       vtb_weights_meta(file, "std"), path, err);
  vtb_strbuf text = {0};
  vtb_preparation_write(&p, p.given, &text);
  if (status == VTB_OK && p.given) vtb_file_builder_meta(b, VTB_META_PREPARE, text.at);
  vtb_strbuf_free(&text);
  return status;
}

/* The file says of itself what the weights say: class names, normalisation. */
static void copy_meta(vtb_file_builder *b, const vtb_weights *file) {
  static const char *const said[] = {"classes", "mean", "std"};
  for (size_t i = 0; i < file->meta.n; i++)
    vtb_weights_set_meta(b->weights, file->meta.at[i].key, file->meta.at[i].value);
  for (size_t i = 0; i < sizeof said / sizeof *said; i++)
    if (vtb_weights_meta(file, said[i]))
      vtb_file_builder_meta(b, said[i], vtb_weights_meta(file, said[i]));
}

static vtb_status put_weights(vtb_file_builder *b, const char *path, const char *prefix,
                              const vtb_weights *file) {
  VTB_TRY(check_weights(&b->programs[0], path, prefix, file, &b->report->error));
  VTB_TRY(take_weights(b, file, prefix));
  copy_meta(b, file);
  return merge_preparations(b, file, path, &b->report->error);
}

vtb_status vtb_file_builder_weights(vtb_file_builder *b, const char *path, const char *prefix) {
  vtb_error *err = &b->report->error;
  vtb_status status = vtb_safetensors_load(path, &b->file, err);
  return status == VTB_OK ? put_weights(b, path, prefix, b->file) : status;
}

/* ---- the model ------------------------------------------------------------------------------- */

char *vtb_compilation_settings(const vtb_compilation *c) {
  cJSON *array = cJSON_CreateArray();
  for (size_t i = 0; i < c->settings.n; i++)
    cJSON_AddItemToArray(array, cJSON_CreateString(c->settings.at[i]));
  char *text = cJSON_PrintUnformatted(array);
  cJSON_Delete(array);
  return text;
}

vtb_status vtb_file_builder_describe(vtb_file_builder *b, const vtb_compilation *c) {
  const vtb_compile_options *o = b->options;
  char number[32], *settings = vtb_compilation_settings(c);
  b->manifest.model = vtb_arena_strdup(&b->arena, o->model ? o->model : "<text>");
  vtb_file_builder_meta(b, "defines", settings);
  if (c->module->prepare) vtb_file_builder_meta(b, VTB_META_PREPARE, c->module->prepare);
  if (c->module->augment) vtb_file_builder_meta(b, "augment", c->module->augment);
  if (c->options.entry) vtb_file_builder_meta(b, "entry", c->options.entry);
  if (o->image) vtb_file_builder_meta(b, "image", o->image);
  if (o->mode) vtb_file_builder_meta(b, "mode", o->mode);
  if (o->quantize) vtb_file_builder_meta(b, "quantize", o->quantize);
  snprintf(number, sizeof number, "%lld", (long long)o->chunk);
  if (o->chunk) vtb_file_builder_meta(b, "chunk", number);
  snprintf(number, sizeof number, "%.9g", o->label_smoothing);
  if (o->training) vtb_file_builder_meta(b, "label_smoothing", number);
  cJSON_free(settings);
  vtb_strbuf rules = {0};
  vtb_status status = vtb_load_rules(c->unit, &rules, &b->report->error);
  if (status == VTB_OK && rules.n) vtb_file_builder_meta(b, VTB_META_NAMES, rules.at);
  vtb_strbuf_free(&rules);
  return status;
}

static int64_t eval_batch(const vtb_compile_options *o) {
  return !o->training ? o->batch : o->eval_batch ? o->eval_batch : 4 * o->batch;
}

/* The programs for images of one size, the first of which is the one for most images: who asks for
 * no batch gets that one. tables: the size that a model's tables have if no weights say it. */
static vtb_status add_size(vtb_file_builder *b, vtb_artefact_role role, const char *image,
                           const char *tables) {
  vtb_compile_options o = *b->options;
  const vtb_override stretched = {.name = "table_image", .value = tables, .optional = true};
  const vtb_instantiate_options more = {.overrides = &stretched, .n_overrides = 1};
  int64_t one = eval_batch(&o);
  const int64_t *batch = o.n_batches ? o.batches : &one;
  vtb_compilation c;
  o.image = image;
  o.training = o.evaluation = false;
  o.part = role == VTB_ARTEFACT_GRADIENT ? VTB_PART_GRADIENT : VTB_PART_VALUE;
  vtb_status status = vtb_compilation_load(&c, &o, tables ? &more : NULL, b->report);
  if (status == VTB_OK) status = vtb_compilation_outputs(&c);
  if (status == VTB_OK) status = vtb_compilation_graph(&c);
  if (status == VTB_OK) status = vtb_compilation_number_rows(&c);
  if (status == VTB_OK) status = vtb_compilation_part(&c);
  if (status == VTB_OK && !b->manifest.n_programs) status = vtb_file_builder_describe(b, &c);
  for (size_t i = 0; i < (o.n_batches ? o.n_batches : 1) && status == VTB_OK; i++)
    status = vtb_file_builder_add(b, role, &c, batch[i]);
  vtb_compilation_free(&c);
  return status;
}

static bool is_param(const vtb_tensor_info *t) {
  return t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER;
}

static bool same_shape(const vtb_tensor_info *a, const vtb_tensor_info *b) {
  bool same = a->rank == b->rank;
  for (int i = 0; i < a->rank && same; i++) same = a->dim[i] == b->dim[i];
  return same;
}

/* There is one set of parameters in a file. */
static vtb_status check_alike(const vtb_file_builder *b) {
  const vtb_artefact_program *first = &b->programs[0];
  for (int i = 1; i < b->manifest.n_programs; i++) {
    const vtb_artefact_program *p = &b->programs[i];
    for (int k = 0; k < p->n_tensors; k++) {
      const vtb_tensor_info *t = &p->tensors[k];
      bool there = k < first->n_tensors && vtb_streq(first->tensors[k].name, t->name);
      if (!is_param(t) || (there && same_shape(&first->tensors[k], t))) continue;
      return vtb_fail(&b->report->error, VTB_E_INPUT,
                      "parameter %s has another shape for images of %lldx%lld than for the file's "
                      "first size, and a file has one of them: build a file a size",
                      t->name, (long long)p->height, (long long)p->width);
    }
  }
  return VTB_OK;
}

/* Programs of the role for each size and batch. */
static vtb_status add_role(vtb_file_builder *b, vtb_artefact_role role) {
  const vtb_compile_options *o = b->options;
  char tables[64];
  vtb_status status = add_size(b, role, o->n_images ? o->images[0] : o->image, NULL);
  bool said = o->weights || o->parameters; /* the weights say whose tables they have */
  snprintf(tables, sizeof tables, "%lldx%lld", (long long)b->programs[0].height,
           (long long)b->programs[0].width);
  for (size_t i = 1; i < o->n_images && status == VTB_OK; i++)
    status = add_size(b, role, o->images[i], said ? NULL : tables);
  return status == VTB_OK ? check_alike(b) : status;
}

static vtb_status add_step(vtb_file_builder *b) {
  vtb_compilation c;
  vtb_status status = vtb_compilation_open(&c, b->options, b->report);
  if (status == VTB_OK) status = vtb_file_builder_add(b, VTB_ARTEFACT_STEP, &c, b->options->batch);
  vtb_compilation_free(&c);
  return status;
}

/* The program that measures a model that declares losses and metrics. */
static vtb_status add_evaluation(vtb_file_builder *b) {
  vtb_compile_options o = *b->options;
  vtb_compilation c;
  o.training = false;
  o.evaluation = true;
  vtb_status status = vtb_compilation_load(&c, &o, NULL, b->report);
  if (status == VTB_OK && vtb_has_measure(c.module->entry)) {
    status = vtb_compilation_graph(&c);
    if (status == VTB_OK) status = vtb_compilation_evaluation(&c);
    if (status == VTB_OK)
      status = vtb_file_builder_add(b, VTB_ARTEFACT_EVALUATION, &c, eval_batch(b->options));
  }
  vtb_compilation_free(&c);
  return status;
}

vtb_status vtb__build(const vtb_compile_options *given, const char *path, vtb_report *r) {
  vtb_file_builder b;
  vtb_compile_options alike = *given, *o = &alike;
  o->no_tuning = true; /* the same file on every machine */
  if (o->ranks > 1)
    return vtb_fail(&r->error, VTB_E_USAGE,
                    "files are for one process: a step for %d ranks is compiled where it runs",
                    o->ranks);
  vtb_status status = vtb_file_builder_open(&b, o, r);
  if (status == VTB_OK && o->linked) status = vtb__linked_check(path, o->linked, &r->error);
  if (status == VTB_OK) status = add_role(&b, VTB_ARTEFACT_INFERENCE);
  if (status == VTB_OK && o->vjp) status = add_role(&b, VTB_ARTEFACT_GRADIENT);
  if (status == VTB_OK && o->training) status = add_step(&b);
  if (status == VTB_OK && o->training) status = add_evaluation(&b);
  if (status == VTB_OK && o->parameters)
    status = put_weights(&b, "weights", "", o->parameters);
  else if (status == VTB_OK && o->weights)
    status = vtb_file_builder_weights(&b, o->weights, "");
  if (status == VTB_OK) status = vtb_file_builder_write(&b, path);
  vtb_file_builder_free(&b);
  return status;
}
