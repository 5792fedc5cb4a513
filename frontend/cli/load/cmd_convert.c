/* vertebra convert: a checkpoint of another tool as .safetensors. */
#include "frontend/cli/load/checkpoints.h"
#include "frontend/cli/load/weights.h"
#include "frontend/cli/names.h"
#include "frontend/compile/stored.h"
#include "runtime/artefact/content_hash.h"

#include <string.h>

/* ---- element types --------------------------------------------------------------------------- */

/* A store of the same tensors, floating-point ones as `to`; it borrows from `w`. */
static vtb_status convert(const vtb_weights *w, vtb_elem to, vtb_weights *into, int64_t *changed,
                          vtb_error *err) {
  vtb_status status = VTB_OK;
  *changed = 0;
  for (size_t i = 0; i < w->n && status == VTB_OK; i++) {
    const vtb_weight *t = w->at[i];
    if (!vtb_elem_is_float(t->elem) || t->elem == to) {
      (void)vtb_weights_borrow(into, t->name, t->elem, t->rank, t->dim, t->data);
      continue;
    }
    status = vtb_store_as(into, t, to, err);
    ++*changed;
  }
  for (size_t i = 0; i < w->meta.n; i++)
    vtb_weights_set_meta(into, w->meta.at[i].key, w->meta.at[i].value);
  return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

typedef struct conversion {
  const char *in, *out, *type;
  const vtb_elem *to; /* NULL: as they are */
  cli_part_options part;
  const char *model; /* whose names the tensors get; NULL: they keep theirs */
  cli_model_options options;
  cli_load_options load; /* what of the model or the file may be missing */
} conversion;

/* Metadata: what the model is, so that nobody need say it again: the options, and what IN says
 * besides. */
static void describe_model(const conversion *c, vtb_weights *w) {
  const char *text = vtb_weights_meta(w, "defines");
  cJSON *stored = text ? cJSON_Parse(text) : NULL, *item;
  cli_list defines = {0};
  cJSON_ArrayForEach(item, stored) if (cJSON_IsString(item))
      vtb_vec_push(&defines, (const char *)item->valuestring);
  for (size_t i = 0; i < c->options.defines.n; i++)
    vtb_vec_push(&defines, c->options.defines.at[i]);
  vtb_weights_set_meta(w, "format", "vertebra-weights-1");
  vtb_content_hash_want(w);
  cli_describe_model(w, c->model, c->options.compile.entry, &defines);
  vtb_vec_free(&defines);
  cJSON_Delete(stored);
}

/* Opens IN; with a model, what of it are the model's parameters, under its names. Errors are
 * printed. */
static vtb_status open_input(const conversion *c, vtb_weights **out, vtb_strbuf *said) {
  vtb_error err = {0};
  vtb_weights *file = NULL;
  vtb_status status = cli_checkpoint_open(c->in, &c->part, &file, said);
  *out = file;
  if (status != VTB_OK || !c->model) return status;
  cli_load_options load = c->load;
  load.weights = c->in;
  load.file = file;
  const vtb_compile_options o = cli_compile_options(&c->options, c->model);
  status = vtb_classes_keep(file, &err);
  if (status == VTB_OK) status = cli_load_open(&load, &err);
  if (status == VTB_OK) status = vtb_load_config(&o, &load, &err);
  if (status == VTB_OK) status = cli_fit_source(c->model, &c->options, &load, out, &err);
  vtb_weights_free(file);
  if (status == VTB_OK) describe_model(c, *out);
  return err.text[0] ? cli_error(&err) : status;
}

static void report(const conversion *c, const vtb_weights *w, int64_t changed,
                   const vtb_strbuf *said) {
  doc *d = doc_new(doc_object(F("from", c->in), F("to", c->out)));
  cli_checkpoint_tell(c->out, w, said, d);
  doc_put(d->json, F("n_converted", changed));
  if (c->to)
    doc_say(d, 4, "  %lld of %zu tensors converted to %s", (long long)changed, w->n,
            vtb_elem_name(*c->to));
  cli_tell(d);
}

static vtb_status run_convert(void *user, const cli_list *files, vtb_error *err) {
  conversion *c = user;
  vtb_elem type;
  if (files->n != 2) return cli_usage_error("convert", "IN and OUT are needed");
  c->in = files->at[0], c->out = files->at[1];
  if (c->type) {
    VTB_TRY(vtb_store_type(c->type, &type, err));
    c->to = &type;
  }
  VTB_TRY(cli_check_name("convert", "OUT", c->out, ".safetensors"));
  vtb_weights *from = NULL, *into = NULL;
  const vtb_weights *w;
  vtb_strbuf said = {0};
  int64_t changed = 0;
  vtb_status status = open_input(c, &from, &said);
  if (status == VTB_OK) {
    w = from;
    if (c->to) {
      w = into = vtb_need(vtb_weights_new());
      status = convert(from, *c->to, into, &changed, err);
    }
    if (!vtb_weights_meta(w, "format")) /* other tools ask for it */
      vtb_weights_set_meta(c->to ? into : from, "format", "pt");
    if (status == VTB_OK) status = vtb_safetensors_save(c->out, w, err);
    if (status == VTB_OK) report(c, w, changed, &said);
  }
  vtb_weights_free(into);
  vtb_weights_free(from);
  vtb_strbuf_free(&said);
  return status;
}

vtb_status cli_cmd_convert(int argc, char **argv) {
  conversion c = {0};
  const cli_opt opts[] = {CLI_PART_OPTS(c.part),
                          {"--model", CLI_STR, &c.model, "MODEL",
                           "the tensors under the names of this model, which they must fit"},
                          CLI_SOURCE_OPTS(c.options),
                          {"--allow-missing", CLI_FLAG, &c.load.allow_missing, NULL,
                           "parameters that IN lacks get their initial values"},
                          {"--allow-unused", CLI_FLAG, &c.load.allow_unused, NULL,
                           "IN may have tensors that the model lacks"},
                          {"--dtype", CLI_CHOICE, &c.type, "f32|f16|bf16",
                           "floating-point tensors as f32, f16 or bf16"}};
  return CLI_RUN("convert", opts, .run = run_convert, .options = &c, .model = &c.options);
}
