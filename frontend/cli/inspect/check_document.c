/* The document of `vertebra check`: docs/commands.md has its members. */
#include "frontend/cli/inspect/check.h"
#include "ir/objective.h"

#include <math.h>
#include <string.h>

/* Operations of one image. */
static double flops_of(const check_facts *c) {
  return vtb_func_cost(c->modes, 1).flops / (double)c->batch;
}

static vtb_published_macs published_macs(const check_facts *c) {
  vtb_published_macs macs = vtb_func_published_macs(c->modes);
  return (vtb_published_macs){macs.layers / (double)c->batch, macs.mixers / (double)c->batch};
}

/* The files that the model is made of, by which a study sees that one has changed. */
static cJSON *sources_json(const vtb_compilation *c) {
  vtb_source_file *files;
  cJSON *list = cJSON_CreateArray();
  size_t n = vtb_unit_sources(c->unit, &files);
  for (size_t i = 0; i < n; i++) {
    char hash[33];
    vtb_hash128(files[i].text, files[i].n, hash);
    doc_item(list, F("path", files[i].path), F("hash", hash));
  }
  vtb_free(files);
  return list;
}

/* ---- inputs, outputs, what is trained for ---------------------------------------------------- */

static void say_type(doc *d, const char *what, const char *name, const vtb_type *type,
                     const char *more) {
  vtb_strbuf text = {0};
  vtb_type_print(type, &text);
  doc_say(d, 22, "  %-6s %-12s %s%s", what, name, text.at, more);
  vtb_strbuf_free(&text);
}

static void say_io(doc *d, const vtb_module *m) {
  const vtb_func *f = m->entry;
  for (int a = 0; a < f->n_args; a++)
    if (f->arg_info[a].role == VTB_ROLE_INPUT)
      say_type(d, "input", f->arg_info[a].official, &f->args[a]->type, "");
  if (m->prepare) doc_say(d, 22, "  images %-12s %s", "", m->prepare);
  if (m->augment) doc_say(d, 22, "  augment %-11s in training, by %s", "", m->augment);
  for (int r = 0; r < f->n_returns; r++)
    say_type(d, "output", f->return_names[r] ? f->return_names[r] : "", &f->returns[r]->type, "");
}

/* The objective that the model is trained for and measured by, and the inputs that only this
 * reads. */
static void say_objective(doc *d, const vtb_func *model, const vtb_func *f) {
  for (int a = 0; a < f->n_args; a++) {
    bool known = f->arg_info[a].role != VTB_ROLE_INPUT;
    for (int k = 0; k < model->n_args && !known; k++)
      known = vtb_streq(model->arg_info[k].official, f->arg_info[a].official);
    if (!known) say_type(d, "target", f->arg_info[a].official, &f->args[a]->type, "");
  }
  for (int r = 0; r < f->n_returns; r++) {
    const char *prefix, *name = f->return_names[r];
    if (!vtb_is_measure(name, &prefix)) continue;
    bool loss = strcmp(prefix, VTB_MEASURE_LOSS) == 0;
    char more[48];
    snprintf(more, sizeof more, "%s%s",
             vtb_find_measure(f, VTB_MEASURE_BY, name) >= 0 ? ", a quotient" : "",
             loss                                     ? ""
             : strcmp(prefix, VTB_MEASURE_LOWER) == 0 ? ", lower is better"
                                                      : ", higher is better");
    say_type(d, loss ? "loss" : "metric", name + strlen(prefix), &f->returns[r]->type, more);
  }
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void add_counts(doc *d, const check_facts *c) {
  vtb_published_macs macs = published_macs(c);
  char number[32], part[64] = "";
  int64_t frozen = cli_count_params(c->model->module->entry, true);
  if (frozen)
    snprintf(part, sizeof part, ", %s of them frozen", cli_grouped(frozen, number, sizeof number));
  doc_say(d, 15, "  parameters   %s (%.1f MiB in f32)%s",
          cli_grouped(c->params, number, sizeof number), (double)c->params * 4 / 1048576, part);
  part[0] = 0;
  if (macs.mixers > 0)
    snprintf(part, sizeof part, ", %.2f without the mixers' own", macs.layers * 1e-9);
  doc_say(d, 15,
          "  FLOPs        %.3f G an image as executed; %.2f GMACs in the papers' count (\"FLOPs\" "
          "there)%s",
          flops_of(c) * 1e-9, (macs.layers + macs.mixers) * 1e-9, part);
  part[0] = 0;
  if (c->trained)
    snprintf(part, sizeof part, "; %.1f MiB of a training step",
             (double)c->training.workspace_bytes / 1048576);
  doc_say(d, 15, "  workspace    %.1f MiB for batch %lld%s",
          (double)c->run.workspace_bytes / 1048576, (long long)c->batch, part);
  doc_put(d->json, F("flops", flops_of(c)), F("published_macs", macs.layers + macs.mixers),
          F("layer_macs", macs.layers), F("gmacs", (macs.layers + macs.mixers) * 1e-9),
          K("img_size", c->image[0] ? c->image : NULL), F("tokens", c->run.tokens),
          F("target", c->target->name), F("batch", c->batch), F("threads", c->threads));
}

/* The outline of a run on the target, and what it may take. */
static void add_outline(doc *d, cJSON *out, const check_facts *c, const char *title,
                        const vtb_outline *o) {
  char threads[24] = "";
  const vtb_estimate *e = &o->estimate;
  if (!c->target->needs) snprintf(threads, sizeof threads, " x %d", c->threads);
  doc_say(d, 15, "  %-12s %lld launches, %.1f MiB moved, about %.3g ms on %s%s", title,
          (long long)e->launches, e->bytes / 1048576, 1e3 * e->seconds, c->target->name, threads);
  doc_put(out, F("workspace_bytes", o->workspace_bytes), F("launches", e->launches),
          F("bytes", e->bytes), F("predicted_ms", 1e3 * e->seconds));
  cJSON *list = cJSON_AddArrayToObject(out, "recurrences");
  for (size_t i = 0; i < o->recurrences.n; i++) {
    const vtb_outline_recurrence *r = &o->recurrences.at[i];
    doc_item(list, F("name", r->name), F("op", r->op), F("class", r->klass), F("mode", r->mode),
             K("chunk", r->chunk ? (double)r->chunk : (double)NAN), F("tokens", r->tokens),
             F("count", r->count), F("reason", r->reason));
  }
}

static void add_params(doc *d, const vtb_func *f, bool shown) {
  static const doc_column columns[] = {
      {"name", "name", .width = -1},
      {.key = "shape"},
      {.heading = "type", .width = -18},
      {.key = "init"},
      {.heading = "init", .width = -1},
      {.key = "decay"},
      {.key = "frozen"},
      {.key = "uses"},
      {.heading = "uses", .width = -1},
  };
  doc_table *t = DOC_TABLE(d, cJSON_AddArrayToObject(d->json, "params"), columns);
  t->indent = 2, t->headless = true, t->cut = 2;
  for (int a = 0; a < f->n_args; a++) {
    const vtb_arg_info *p = &f->arg_info[a];
    const vtb_type *of = &f->args[a]->type;
    vtb_strbuf type = {0};
    int64_t dim[VTB_MAX_RANK];
    if (!check_is_param(p)) continue;
    for (int k = 0; k < of->rank; k++) dim[k] = of->dim[k].size;
    vtb_type_print(of, &type);
    const char *init = vtb_arena_printf(&d->arena, "%.60s%s", p->init ? p->init : "",
                                        p->frozen ? " frozen" : ""),
               *uses = vtb_arena_printf(&d->arena, "shared by %d", p->uses);
    doc_row(d, t, V(p->official), V(doc_numbers(dim, of->rank)), V(type.at),
            V(p->init ? p->init : "zeros"), V(init), doc_truth(p->decay), doc_truth(p->frozen),
            V(p->uses), V(p->uses > 1 ? uses : NULL));
    if (!shown) doc_hide_row(t);
    vtb_strbuf_free(&type);
  }
}

doc *check_document(const check_facts *c, const vtb_func *objective, bool list_params) {
  const vtb_module *m = c->model->module;
  doc *d = doc_new(doc_object(F("model", c->model->func), F("text_hash", c->text_hash),
                              F("sources", sources_json(c->model)), F("parameters", c->params),
                              K("prepare", m->prepare ? cJSON_Parse(m->prepare) : NULL),
                              K("augment", m->augment)));
  doc_say(d, 0, "%s", c->model->func);
  say_io(d, m);
  say_objective(d, m->entry, objective);
  add_counts(d, c);
  add_outline(d, d->json, c, "a run", &c->run);
  if (c->trained)
    add_outline(d, cJSON_AddObjectToObject(d->json, "train"), c, "training", &c->training);
  doc_say(d, 0, "  structure");
  check_add_structure(c, d);
  add_params(d, m->entry, list_params);
  return d;
}
