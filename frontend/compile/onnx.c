/* A model as a file of ONNX: docs/onnx.md. */
#include "frontend/onnx/onnx.h"
#include "frontend/compile/driver.h"
#include "ir/axes.h"
#include "runtime/artefact/init.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/base/prepare.h"

#include <cjson/cJSON.h>

/* ---- parameters ------------------------------------------------------------------------------ */

/* As the model says that they begin. */
static vtb_status initial_weights(const vtb_func *f, vtb_weights **out, vtb_error *err) {
  vtb_weights *w = vtb_need(vtb_weights_new());
  vtb_status status = VTB_OK;
  for (int a = 0; a < f->n_args && status == VTB_OK; a++) {
    const vtb_arg_info *info = &f->arg_info[a];
    const vtb_type *t = &f->args[a]->type;
    int64_t dim[VTB_MAX_RANK];
    if (info->role != VTB_ROLE_PARAM && info->role != VTB_ROLE_BUFFER) continue;
    for (int i = 0; i < t->rank; i++) dim[i] = t->dim[i].size;
    vtb_elem elem = t->dtype == VTB_I32 ? VTB_ELEM_I32 : VTB_ELEM_F32;
    vtb_weight *to = vtb_need(vtb_weights_add(w, info->official, elem, t->rank, dim));
    if (elem == VTB_ELEM_F32)
      status = vtb_init_tensor(info->init, info->official, 0, t->rank, dim, to->data, err);
  }
  *out = w;
  return status;
}

/* ---- what the file says of itself ------------------------------------------------------------ */

typedef struct pairs {
  VTB_VEC(vtb_onnx_pair) list;
} pairs;

static void add_pair(pairs *p, const char *key, const char *value) {
  if (value) vtb_vec_push(&p->list, ((vtb_onnx_pair){key, value}));
}

static void describe_model(pairs *p, const vtb_compilation *c, const vtb_weights *w,
                           const char *settings) {
  const char *kept = vtb_weights_meta(w, VTB_META_PREPARE);
  add_pair(p, "model", c->options.model ? c->options.model : "<text>");
  add_pair(p, "entry", c->options.entry);
  add_pair(p, "defines", settings);
  add_pair(p, "image", c->options.image);
  add_pair(p, VTB_META_PREPARE, kept ? kept : c->module->prepare);
  add_pair(p, "classes", vtb_weights_meta(w, "classes"));
  add_pair(p, "mean", vtb_weights_meta(w, "mean"));
  add_pair(p, "std", vtb_weights_meta(w, "std"));
}

/* ---- the file -------------------------------------------------------------------------------- */

static vtb_onnx_mode mode_of(const vtb_compile_options *o) {
  if (vtb_streq(o->mode, "parallel")) return VTB_ONNX_PARALLEL;
  if (vtb_streq(o->mode, "recurrent")) return VTB_ONNX_SCAN;
  return vtb_streq(o->mode, "chunkwise") || o->chunk ? VTB_ONNX_CHUNKWISE : VTB_ONNX_AUTO;
}

static vtb_status write_file(vtb_compilation *c, const vtb_onnx_options *x, const vtb_weights *w,
                             const char *path, vtb_onnx_summary *s) {
  const vtb_compile_options *o = &c->options;
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_onnx_made made = {0};
  pairs meta = {0};
  char *settings = vtb_compilation_settings(c);
  describe_model(&meta, c, w, settings);
  const vtb_onnx_job job = {.entry = c->module->entry,
                            .weights = w,
                            .mode = mode_of(o),
                            .chunk = o->chunk,
                            .half = x->half,
                            .external = x->external,
                            .meta = meta.list.at,
                            .n_meta = meta.list.n};
  vtb_status status = vtb_onnx_write(&job, path, &made, &diags, &err);
  *s = (vtb_onnx_summary){made.n_nodes, made.n_initialisers, made.n_bytes, made.n_data_bytes};
  vtb_vec_free(&meta.list);
  cJSON_free(settings);
  vtb__report_end(c->report, status, &diags, &err);
  return status;
}

vtb_status vtb__onnx(const vtb_compile_options *given, const vtb_onnx_options *x, const char *path,
                     vtb_onnx_summary *s, vtb_report *r) {
  vtb_compile_options o = *given;
  vtb_compilation c;
  vtb_weights *own = NULL;
  const vtb_weights *w = o.parameters;
  if (vtb_streq(o.mode, "scan")) o.mode = "recurrent";
  vtb_status status = vtb_compilation_load(&c, &o, NULL, r);
  if (status == VTB_OK && c.module->entry->kind != VTB_FUNC_PLAIN)
    status = vtb_fail(&r->error, VTB_E_USAGE, "%s is no model that could be exported",
                      c.module->entry->name);
  if (status == VTB_OK) status = vtb_compilation_graph(&c);
  if (status == VTB_OK && !o.batch && vtb_mixes_samples(c.module))
    status = vtb_fail(&r->error, VTB_E_USAGE,
                      "samples meet in %s, so that its file is of one number of them: --batch N",
                      c.module->entry->name);
  if (status == VTB_OK && o.batch) status = vtb_compilation_bind(&c, o.batch);
  if (status == VTB_OK && !w && o.weights)
    status = vtb_safetensors_load(o.weights, &own, &r->error);
  else if (status == VTB_OK && !w)
    status = initial_weights(c.module->entry, &own, &r->error);
  if (status == VTB_OK) status = write_file(&c, x, w ? w : own, path, s);
  vtb_weights_free(own);
  vtb_compilation_free(&c);
  return status;
}
