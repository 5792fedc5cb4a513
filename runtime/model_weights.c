/* Weights as a model's parameters. Those that stand under the model's names are used where they are
 * mapped; of others, which other tools name, split or cut otherwise, the model keeps a copy that
 * fits (runtime/weights). The rules of names are in the built file. */
#include "runtime/model.h"

#include "runtime/weights/beside.h"
#include "runtime/weights/fit.h"
#include "runtime/weights/open.h"
#include "runtime/artefact/init.h"

#include <stdlib.h>
#include <string.h>

/* ---- where they stand ------------------------------------------------------------------------ */

static void forget(vtb_model *m) {
  for (int i = 0; i < m->n_variants; i++) {
    free(m->variants[i].params);
    m->variants[i].params = NULL;
  }
  vtb_weights_free(m->made);
  m->made = NULL;
  m->has_params = false;
}

static vtb_status find_params(vtb_model *m, const vtb_weights *w, vtb_error *err) {
  m->made = vtb_weights_new();
  if (!m->made) return vtb_no_memory(err, "parameters");
  for (int i = 0; i < m->n_variants; i++) {
    vtb__variant *v = &m->variants[i];
    vtb_program about = {.n_tensors = v->n_tensors,
                         .tensors = (vtb_tensor_info *)(uintptr_t)v->tensors};
    v->params = calloc((size_t)v->n_tensors + 1, sizeof *v->params);
    if (!v->params) return vtb_no_memory(err, "parameters");
    VTB_TRY(vtb_weights_view(&about, w, m->made, v->params, err));
  }
  m->has_params = true;
  return VTB_OK;
}

vtb_status vtb__model_find(vtb_model *m, const vtb_weights *w, vtb_error *err) {
  vtb_status status = find_params(m, w, err);
  if (status != VTB_OK) forget(m);
  return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The image input of the first program, which tables of positions are stretched to. */
static const vtb_tensor_info *image_of(const vtb_model *m) {
  return m->n_variants ? vtb_tensors_image(m->variants->tensors, m->variants->n_tensors) : NULL;
}

static vtb_status tell_line(const vtb_open_options *o, const char *text, vtb_error *err) {
  char *line = o->say ? vtb_strprintf("%s: %s\n", o->weights, text) : NULL;
  if (line) o->say(o->user, line);
  free(line);
  return o->say && !line ? vtb_no_memory(err, o->weights) : VTB_OK;
}

static vtb_status open_beside(vtb_model *m, const vtb_open_options *o, vtb_error *err) {
  const vtb_tensor_info *image = image_of(m);
  vtb_strbuf said = VTB_CHECKED_STRBUF;
  vtb_status status =
      vtb_weights_open_part(o->weights, o->averages ? "ema" : NULL, &m->beside, &said, err);
  if (status == VTB_OK) status = vtb_strbuf_check(&said, err);
  for (char *rest = said.at, *line; status == VTB_OK && (line = strsep(&rest, "\n"));)
    if (*line) status = tell_line(o, line, err);
  vtb_strbuf_free(&said);
  if (status == VTB_OK) status = vtb_classes_keep(m->beside, err);
  if (status == VTB_OK && image) status = vtb_prepare_keep(m->beside, (int)image->dim[1], err);
  return status;
}

/* ---- fitting --------------------------------------------------------------------------------- */

/* Every parameter of the programs once, and a tensor for its values. */
typedef struct wanted {
  vtb_tensor_info *at;
  void **buffers;
  int n;
  vtb_weights *values;
} wanted;

static vtb_status want(wanted *k, const vtb_tensor_info *t, const vtb_open_options *o,
                       vtb_error *err) {
  if (vtb_weights_find(k->values, t->name)) return VTB_OK;
  vtb_elem elem = t->is_int ? VTB_ELEM_I32 : VTB_ELEM_F32;
  vtb_weight *w = vtb_weights_add(k->values, t->name, elem, t->rank, t->dim);
  if (!w) return vtb_fail(err, k->values->error.status, "%s", k->values->error.text);
  k->buffers[k->n] = w->data;
  k->at[k->n++] = *t;
  if (t->is_int || !o->allow_missing) return VTB_OK;
  return vtb_init_tensor(t->init, t->name, 0, t->rank, t->dim, w->data, err);
}

static vtb_status list_wanted(const vtb_model *m, const vtb_open_options *o, wanted *k,
                              vtb_error *err) {
  size_t most = 1;
  for (int i = 0; i < m->n_variants; i++) most += (size_t)m->variants[i].n_tensors;
  k->at = calloc(most, sizeof *k->at);
  k->buffers = calloc(most, sizeof *k->buffers);
  k->values = vtb_weights_new();
  if (!k->at || !k->buffers || !k->values) return vtb_no_memory(err, "parameters");
  for (int i = 0; i < m->n_variants; i++)
    for (int j = 0; j < m->variants[i].n_tensors; j++) {
      const vtb_tensor_info *t = &m->variants[i].tensors[j];
      if (t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER) VTB_TRY(want(k, t, o, err));
    }
  for (size_t i = 0; i < m->beside->meta.n; i++)
    vtb_weights_set_meta(k->values, m->beside->meta.at[i].key, m->beside->meta.at[i].value);
  if (!k->values->error.text[0]) return VTB_OK;
  return vtb_fail(err, k->values->error.status, "%s", k->values->error.text);
}

static vtb_status fit_values(const vtb_model *m, const vtb_open_options *o, const vtb_names *names,
                             const wanted *k, vtb_error *err) {
  const vtb_tensor_info *image = image_of(m);
  vtb_fit_report r;
  vtb_fit_options how = {.path = o->weights,
                         .names = names,
                         .allow_missing = o->allow_missing,
                         .allow_unused = o->allow_unused,
                         .classes =
                             vtb_tensors_scores(m->variants->tensors, m->variants->n_tensors)};
  if (image) {
    how.height = (int)image->dim[2], how.width = (int)image->dim[3];
    (void)vtb_image_said(m->beside, &how.file_height, &how.file_width);
  }
  vtb_status status = vtb_fit(k->at, k->n, m->beside, &how, k->buffers, &r, err);
  vtb_strbuf line = VTB_CHECKED_STRBUF;
  vtb_strbuf_puts(&line, "loaded ");
  if (status == VTB_OK) vtb_fit_summary(&r, &line);
  if (status == VTB_OK) status = vtb_strbuf_check(&line, err);
  if (status == VTB_OK) status = tell_line(o, line.at, err);
  vtb_strbuf_free(&line);
  vtb_fit_report_free(&r);
  return status;
}

/* `beside` becomes the weights under the model's names. */
static vtb_status fit(vtb_model *m, const vtb_open_options *o, vtb_error *err) {
  const char *rules =
      m->file ? vtb_manifest_meta(vtb_artefact_manifest(m->file), VTB_META_NAMES) : NULL;
  wanted k = {0};
  vtb_names names;
  vtb_names_init(&names);
  vtb_status status = rules ? vtb_names_parse(&names, "the file's rules", rules, err) : VTB_OK;
  if (status == VTB_OK) status = list_wanted(m, o, &k, err);
  if (status == VTB_OK) status = fit_values(m, o, &names, &k, err);
  if (status == VTB_OK) {
    vtb_weights_free(m->beside);
    m->beside = k.values;
  } else {
    vtb_weights_free(k.values);
  }
  free(k.at);
  free(k.buffers);
  vtb_names_free(&names);
  return status;
}

vtb_status vtb__model_weights(vtb_model *m, const vtb_open_options *o, vtb_error *err) {
  VTB_TRY(open_beside(m, o, err));
  vtb_error as_they_are = {0};
  vtb_status status = vtb__model_find(m, m->beside, &as_they_are);
  if (status == VTB_OK) return VTB_OK;
  if (status != VTB_E_INPUT) return vtb_fail(err, status, "%s", as_they_are.text);
  VTB_TRY(fit(m, o, err));
  return vtb__model_find(m, m->beside, err);
}
