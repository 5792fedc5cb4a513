/* What `vertebra check --json` says: docs/commands.md has its members. */
#include "frontend/cli/inspect/check.h"

double check_flops(const check_facts *c) {
  return vtb_func_cost(c->modes, 1).flops / (double)c->batch;
}

vtb_published_macs check_published_macs(const check_facts *c) {
  vtb_published_macs macs = vtb_func_published_macs(c->modes);
  return (vtb_published_macs){macs.layers / (double)c->batch, macs.mixers / (double)c->batch};
}

static cJSON *params_json(const vtb_func *f) {
  cJSON *list = cJSON_CreateArray();
  for (int a = 0; a < f->n_args; a++) {
    if (!check_is_param(&f->arg_info[a])) continue;
    cJSON *p = cJSON_CreateObject(), *shape = cJSON_CreateArray();
    for (int d = 0; d < f->args[a]->type.rank; d++)
      cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)f->args[a]->type.dim[d].size));
    cJSON_AddStringToObject(p, "name", f->arg_info[a].official);
    cJSON_AddItemToObject(p, "shape", shape);
    cJSON_AddStringToObject(p, "init", f->arg_info[a].init ? f->arg_info[a].init : "zeros");
    cJSON_AddBoolToObject(p, "decay", f->arg_info[a].decay);
    cJSON_AddBoolToObject(p, "frozen", f->arg_info[a].frozen);
    cJSON_AddNumberToObject(p, "uses", f->arg_info[a].uses);
    cJSON_AddItemToArray(list, p);
  }
  return list;
}

static cJSON *recurrence_json(const vtb_outline_recurrence *r) {
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "name", r->name);
  cJSON_AddStringToObject(out, "op", r->op);
  cJSON_AddStringToObject(out, "class", r->klass);
  cJSON_AddStringToObject(out, "mode", r->mode);
  if (r->chunk) cJSON_AddNumberToObject(out, "chunk", (double)r->chunk);
  cJSON_AddNumberToObject(out, "tokens", (double)r->tokens);
  cJSON_AddNumberToObject(out, "count", (double)r->count);
  cJSON_AddStringToObject(out, "reason", r->reason);
  return out;
}

/* What a run is on the target. */
static void add_outline(cJSON *out, const vtb_outline *o) {
  cJSON_AddNumberToObject(out, "workspace_bytes", (double)o->workspace_bytes);
  cJSON_AddNumberToObject(out, "launches", (double)o->estimate.launches);
  cJSON_AddNumberToObject(out, "bytes", o->estimate.bytes);
  cJSON_AddNumberToObject(out, "predicted_ms", 1e3 * o->estimate.seconds);
  cJSON *list = cJSON_AddArrayToObject(out, "recurrences");
  for (size_t i = 0; i < o->recurrences.n; i++)
    cJSON_AddItemToArray(list, recurrence_json(&o->recurrences.at[i]));
}

/* The files that the model is made of, by which a study sees that one has changed. */
static cJSON *sources_json(const vtb_compilation *c) {
  vtb_source_file *files;
  cJSON *list = cJSON_CreateArray();
  size_t n = vtb_unit_sources(c->unit, &files);
  for (size_t i = 0; i < n; i++) {
    char hash[33];
    cJSON *file = cJSON_CreateObject();
    vtb_hash128(files[i].text, files[i].n, hash);
    cJSON_AddStringToObject(file, "path", files[i].path);
    cJSON_AddStringToObject(file, "hash", hash);
    cJSON_AddItemToArray(list, file);
  }
  vtb_free(files);
  return list;
}

void check_print_json(const check_facts *c) {
  vtb_published_macs macs = check_published_macs(c);
  const char *prepare = c->model->module->prepare;
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "model", c->model->func);
  cJSON_AddStringToObject(out, "text_hash", c->text_hash);
  cJSON_AddItemToObject(out, "sources", sources_json(c->model));
  cJSON_AddNumberToObject(out, "parameters", (double)c->params);
  if (prepare) cJSON_AddItemToObject(out, "prepare", cJSON_Parse(prepare));
  cJSON_AddNumberToObject(out, "flops", check_flops(c));
  cJSON_AddNumberToObject(out, "published_macs", macs.layers + macs.mixers);
  cJSON_AddNumberToObject(out, "layer_macs", macs.layers);
  cJSON_AddNumberToObject(out, "gmacs", (macs.layers + macs.mixers) * 1e-9);
  if (c->image[0]) cJSON_AddStringToObject(out, "img_size", c->image);
  cJSON_AddNumberToObject(out, "tokens", (double)c->run.tokens);
  cJSON_AddStringToObject(out, "target", c->target->name);
  cJSON_AddNumberToObject(out, "batch", (double)c->batch);
  cJSON_AddNumberToObject(out, "threads", c->threads);
  add_outline(out, &c->run);
  if (c->trained) add_outline(cJSON_AddObjectToObject(out, "train"), &c->training);
  cJSON_AddItemToObject(out, "params", params_json(c->model->module->entry));
  cli_print_json(out);
}
