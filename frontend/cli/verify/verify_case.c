/* Reference cases: a safetensors file names an entry, its hyperparameters, parameters, inputs, and
 * what comes out. */
#include "frontend/cli/verify/case_map.h"
#include "frontend/cli/verify/verify.h"
#include "ir/ops.h"
#include "frontend/cli/verify/verify_bounds.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct case_file {
  const char *path;
  vtb_weights *w;
  const char *named;        /* the entry in the file and its map; what follows is what it means */
  const char *entry, *file; /* file: where the entry is; NULL: in the search folders */
  cJSON *config;
  case_map map; /* its arena has the texts of overrides */
  case_overrides overrides;
  VTB_VEC(vtb_shape_binding) inputs;
} case_file;

static void case_free(case_file *c) {
  vtb_vec_free(&c->overrides);
  vtb_vec_free(&c->inputs);
  cJSON_Delete(c->config);
  vtb_weights_free(c->w);
  case_map_free(&c->map);
}

/* JSON to .vtb text. */
static void literal(const cJSON *v, vtb_strbuf *out) {
  if (cJSON_IsBool(v)) {
    vtb_strbuf_puts(out, cJSON_IsTrue(v) ? "true" : "false");
  } else if (cJSON_IsNumber(v)) {
    if (v->valuedouble == floor(v->valuedouble) && fabs(v->valuedouble) < 1e15)
      vtb_strbuf_printf(out, "%lld", (long long)v->valuedouble);
    else
      vtb_strbuf_printf(out, "%.17g", v->valuedouble);
  } else if (cJSON_IsString(v)) {
    vtb_strbuf_putc(out, '"');
    for (const char *p = v->valuestring; *p; p++) {
      if (*p == '"' || *p == '\\' || *p == '{') vtb_strbuf_putc(out, '\\');
      vtb_strbuf_putc(out, *p);
    }
    vtb_strbuf_putc(out, '"');
  } else if (cJSON_IsArray(v)) {
    const cJSON *item;
    vtb_strbuf_putc(out, '[');
    cJSON_ArrayForEach(item, v) {
      if (item != v->child) vtb_strbuf_puts(out, ", ");
      literal(item, out);
    }
    vtb_strbuf_putc(out, ']');
  } else {
    vtb_strbuf_puts(out, "\"\"");
  }
}

/* Fields of a nested object are named after it: {"rope": {"base": 100}} is rope_base = 100. */
static void add_overrides(case_file *c, const cJSON *object, const char *prefix) {
  const cJSON *field;
  cJSON_ArrayForEach(field, object) {
    if (cJSON_IsNull(field)) continue;
    const char *name = vtb_arena_printf(&c->map.arena, "%s%s", prefix, field->string);
    vtb_strbuf text = {0};
    if (cJSON_IsObject(field)) {
      add_overrides(c, field, vtb_arena_printf(&c->map.arena, "%s_", name));
      continue;
    }
    literal(field, &text);
    vtb_vec_push(&c->overrides, ((vtb_override){.name = name,
                                                .value = vtb_arena_strdup(&c->map.arena, text.at),
                                                .from_config = true}));
    vtb_strbuf_free(&text);
  }
}

/* map: a cases.map; NULL: the one that case_map_open() finds. */
static vtb_status case_load(const char *path, const char *map, case_file *c, vtb_error *err) {
  *c = (case_file){.path = path};
  VTB_TRY(case_map_open(&c->map, map, path, err));
  VTB_TRY(vtb_safetensors_load(path, &c->w, err));
  c->named = c->entry = vtb_weights_meta(c->w, "entry");
  const char *config = vtb_weights_meta(c->w, "config");
  if (!c->entry)
    return vtb_fail(err, VTB_E_INPUT, "%s is not a case: its metadata has no `entry`", path);
  c->config = cJSON_Parse(config ? config : "{}");
  if (!cJSON_IsObject(c->config))
    return vtb_fail(err, VTB_E_INPUT, "%s: metadata `config` is not a JSON object", path);
  add_overrides(c, c->config, "");
  case_map_fields(&c->map, c->named, &c->overrides);
  case_map_entry(&c->map, &c->entry, &c->file);
  for (size_t i = 0; i < c->w->n; i++) {
    const vtb_weight *t = c->w->at[i];
    if (!vtb_starts_with(t->name, "input/") || t->rank > VTB_MAX_RANK) continue;
    bool is_float = t->elem <= VTB_ELEM_BF16;
    vtb_vec_push(&c->inputs,
                 ((vtb_shape_binding){
                     t->name + 6, vtb_type_make(is_float ? VTB_F32 : VTB_I32, t->rank, t->dim)}));
  }
  return VTB_OK;
}

static const vtb_weight *find_of(const case_file *c, const char *kind, const char *name) {
  vtb_strbuf key = {0};
  vtb_strbuf_printf(&key, "%s/%s", kind, name);
  const vtb_weight *found = vtb_weights_find(c->w, key.at);
  vtb_strbuf_free(&key);
  return found;
}

/* Gradients without a probe are those of the loss: of the one output that is one number. */
static vtb_status add_loss(case_file *c, const vtb_func *f, vtb_error *err) {
  const vtb_type *loss = NULL;
  const char *name = NULL;
  for (size_t i = 0; i < c->w->n; i++)
    if (vtb_starts_with(c->w->at[i]->name, "probe/")) return VTB_OK;
  for (int r = 0; r < f->n_returns; r++) {
    const vtb_weight *want = find_of(c, "output", f->return_names[r]);
    if (!want || want->count != 1 || f->returns[r]->type.dtype != VTB_F32) continue;
    if (loss)
      return vtb_fail(err, VTB_E_INPUT,
                      "%s has gradients and no probe, and both '%s' and '%s' are one number: a "
                      "tensor probe/NAME of the output's shape says what they are the gradients of",
                      c->path, name, f->return_names[r]);
    loss = &f->returns[r]->type;
    name = f->return_names[r];
  }
  if (!loss)
    return vtb_fail(err, VTB_E_INPUT,
                    "%s has gradients, but neither a probe nor an output of one number: a tensor "
                    "probe/NAME of the output's shape says what they are the gradients of",
                    c->path);
  vtb_strbuf key = {0};
  int64_t dims[VTB_MAX_RANK];
  for (int d = 0; d < loss->rank; d++) dims[d] = 1;
  vtb_strbuf_printf(&key, "probe/%s", name);
  vtb_weights_put(c->w, key.at, VTB_ELEM_F64, loss->rank, dims, &(double){1});
  vtb_strbuf_free(&key);
  return VTB_OK;
}

/* Outputs with a probe, and every argument whose gradient the case knows, become the gradient
 * function. */
static vtb_status add_gradient(case_file *c, vtb_compilation *model) {
  vtb_func *f = model->module->entry;
  vtb_status status = add_loss(c, f, &model->report->error);
  if (status != VTB_OK) return status;
  int *outs = vtb_xcalloc((size_t)f->n_returns + 1, sizeof *outs), n_outs = 0;
  int *wrt = vtb_xcalloc((size_t)f->n_args + 1, sizeof *wrt), n_wrt = 0;
  for (int r = 0; r < f->n_returns; r++)
    if (find_of(c, "probe", f->return_names[r])) outs[n_outs++] = r;
  for (int a = 0; a < f->n_args; a++) {
    const vtb_arg_info *info = &f->arg_info[a];
    const char *kind = info->role == VTB_ROLE_PARAM ? "grad" : "grad_input";
    if (info->official && find_of(c, kind, info->official)) wrt[n_wrt++] = a;
  }
  if (n_outs && n_wrt) status = vtb_compilation_gradient(model, outs, n_outs, wrt, n_wrt);
  if (status != VTB_OK) vtb_fail(&model->report->error, status, "%s: no gradient", c->path);
  vtb_free(outs);
  vtb_free(wrt);
  return status;
}

/* The name of a case's tensor among the results; NULL if it is not something that comes out. */
static const char *result_name(const char *tensor, vtb_strbuf *buf) {
  buf->n = 0;
  if (vtb_starts_with(tensor, "output/")) return tensor + 7;
  if (vtb_starts_with(tensor, "inter/"))
    vtb_strbuf_printf(buf, "tap:%s", tensor + 6);
  else if (vtb_starts_with(tensor, "grad_input/"))
    vtb_strbuf_printf(buf, "d:%s", tensor + 11);
  else if (vtb_starts_with(tensor, "grad/"))
    vtb_strbuf_printf(buf, "d:%s", tensor + 5);
  else
    return NULL;
  return buf->at;
}

/* The repeated unit a parameter belongs to: its name up to and including the last component that is
 * a number. */
static size_t block_prefix(const char *name) {
  size_t end = 0;
  for (const char *p = name; *p;) {
    size_t n = strcspn(p, ".");
    bool number = n > 0;
    for (size_t i = 0; i < n; i++) number &= isdigit((unsigned char)p[i]) != 0;
    if (number) end = (size_t)(p - name) + n + 1;
    p += n + (p[n] == '.');
  }
  return end;
}

static double largest(const vtb_weight *t) {
  double *x = vtb_xcalloc((size_t)t->count + 1, sizeof *x), m = 0;
  vtb_weight_read_f64(t, x);
  for (int64_t i = 0; i < t->count; i++) m = fmax(m, fabs(x[i]));
  vtb_free(x);
  return m;
}

/* Gradients whose true value cancels have no digits of their own: what is left of them is measured
 * against the largest of their block. */
static double block_scale(const case_file *c, const vtb_weight *t) {
  const char *prefix = vtb_starts_with(t->name, "grad_input/") ? "grad_input/" : "grad/";
  size_t n = strlen(prefix) + block_prefix(t->name + strlen(prefix));
  double m = 0;
  for (size_t i = 0; i < c->w->n; i++)
    if (strncmp(c->w->at[i]->name, t->name, n) == 0) m = fmax(m, largest(c->w->at[i]));
  return m;
}

typedef struct tally {
  int compared, failed, ill, missing;
  int untapped; /* intermediates the model does not show */
  bool scans;
  double worst, bound; /* of the tensor nearest to its bound, or farthest beyond it */
  char worst_name[256];
} tally;

static void say_tensor(doc *d, const char *name, const verify_judged *v) {
  const cli_difference *of = &v->j.d;
  char place[96] = "";
  if (v->verdict == VERIFY_FAIL && !isfinite(of->got) && !isfinite(of->want))
    snprintf(place, sizeof place, "  at %lld: both not finite", (long long)of->index);
  else if (v->verdict == VERIFY_FAIL)
    snprintf(place, sizeof place, "  at %lld: %.9g, want %.9g", (long long)of->index, of->got,
             of->want);
  doc_say(d, 7, "  %-4s %-58s abs %.2e rel %.2e bound %.2e%s%s%s", verify_verdicts[v->verdict],
          name, of->max_abs, of->relative, v->j.bound, *v->j.why ? "  " : "", v->j.why, place);
}

static void record(tally *all, doc *d, cJSON *tensors, const verify_options *o, const char *name,
                   const verify_judged *v) {
  all->compared++;
  all->failed += v->verdict == VERIFY_FAIL;
  all->ill += v->verdict == VERIFY_ILL_CONDITIONED;
  if (!(v->j.d.relative / v->j.bound <= all->worst / all->bound) || !*all->worst_name) {
    all->worst = v->j.d.relative;
    all->bound = v->j.bound;
    snprintf(all->worst_name, sizeof all->worst_name, "%s", name);
  }
  doc_item(tensors, F("name", name), F("max_abs", v->j.d.max_abs), F("relative", v->j.d.relative),
           F("bound", v->j.bound), F("cosine", v->j.cosine), F("norm", v->j.norm),
           F("ok", (bool)(v->verdict != VERIFY_FAIL)), F("verdict", verify_verdicts[v->verdict]),
           F("why", v->j.why));
  if (v->verdict != VERIFY_OK || o->verbose) say_tensor(d, name, v);
}

/* An intermediate that the entry calls otherwise. */
static const vtb_weight *find_renamed(const case_file *c, const vtb_weights *results,
                                      const char *tensor, vtb_strbuf *buf) {
  const vtb_weight *found = NULL;
  vtb_strbuf name = {0};
  size_t at = 0;
  while (!found && vtb_starts_with(tensor, "inter/") &&
         case_map_name(&c->map, c->named, false, tensor + 6, &at, &name)) {
    buf->n = 0;
    vtb_strbuf_printf(buf, "tap:%s", name.at);
    found = vtb_weights_find(results, buf->at);
  }
  vtb_strbuf_free(&name);
  return found;
}

static vtb_status compare_all(const case_file *c, const vtb_weights *results, bool grads,
                              const verify_options *o, verify_noise *noise, doc *d, cJSON *tensors,
                              tally *all) {
  vtb_strbuf buf = {0};
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < c->w->n && status == VTB_OK; i++) {
    const vtb_weight *want = c->w->at[i];
    const char *name = result_name(want->name, &buf);
    bool is_grad = vtb_starts_with(want->name, "grad");
    if (!name || (is_grad && !grads)) continue;
    const vtb_weight *got = vtb_weights_find(results, name);
    if (!got && (got = find_renamed(c, results, want->name, &buf))) name = buf.at;
    if (!got) {
      bool wanted = !vtb_starts_with(want->name, "inter/"); /* those only help to find a mistake */
      all->missing += wanted;
      all->untapped += !wanted;
      if (wanted || o->verbose)
        doc_say(d, 7, "  MISS %s: the model does not produce it", want->name);
      continue;
    }
    double tol = is_grad ? o->grad_tol : o->tol;
    verify_judged v;
    status = verify_judge(noise, name, got, want, tol,
                          is_grad ? 1e-3 * tol * block_scale(c, want) : 0, &v);
    if (status == VTB_OK) record(all, d, tensors, o, want->name, &v);
  }
  vtb_strbuf_free(&buf);
  return status;
}

/* Parameters of the file that nothing took are a sign of a wrong name somewhere. */
static vtb_status check_params_used(const case_file *c, const vtb_func *f, vtb_error *err) {
  for (size_t i = 0; i < c->w->n; i++) {
    if (!vtb_starts_with(c->w->at[i]->name, "param/")) continue;
    bool used = false;
    for (int a = 0; a < f->n_args && !used; a++)
      used = f->arg_info[a].official && strcmp(f->arg_info[a].official, c->w->at[i]->name + 6) == 0;
    if (!used)
      return vtb_fail(err, VTB_E_INPUT, "%s: %s has no parameter %s", c->path, c->entry,
                      c->w->at[i]->name + 6);
  }
  return VTB_OK;
}

/* Parameters that the case does not know take the names that its map gives them. */
static void take_names(const case_file *c, vtb_module *m) {
  vtb_func *f = m->entry;
  vtb_strbuf name = {0};
  for (int a = 0; a < f->n_args; a++) {
    vtb_arg_info *info = &f->arg_info[a];
    size_t at = 0;
    if (info->role == VTB_ROLE_INPUT || !info->official || find_of(c, "param", info->official))
      continue;
    while (case_map_name(&c->map, c->named, true, info->official, &at, &name))
      if (find_of(c, "param", name.at)) {
        info->official = vtb_intern(m, name.at);
        break;
      }
  }
  vtb_strbuf_free(&name);
}

static bool has_scan(const vtb_module *m) {
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      if (i->op == VTB_OP_linscan) return true;
  return false;
}

/* The case's entry at graph level, with its gradient if it is wanted. */
static vtb_status make_model(case_file *c, const vtb_compile_options *o, const char *model_file,
                             bool grads, vtb_report *r, vtb_compilation *model) {
  vtb_instantiate_options more = {.overrides = c->overrides.at,
                                  .n_overrides = c->overrides.n,
                                  .inputs = c->inputs.at,
                                  .n_inputs = c->inputs.n,
                                  .shared_names = true};
  vtb_compile_options with = *o;
  with.taps = true;
  const char *file = model_file ? model_file : c->file;
  with.model = file ? file : c->entry;
  if (file && !with.entry) with.entry = c->entry;
  vtb_status status = vtb_compilation_load(model, &with, &more, r);
  if (status != VTB_OK)
    return vtb_fail(&r->error, status, "%s: cannot build entry %s", c->path, c->entry);
  take_names(c, model->module);
  status = check_params_used(c, model->module->entry, &r->error);
  if (status == VTB_OK) status = vtb_compilation_graph(model);
  return status == VTB_OK && grads ? add_gradient(c, model) : status;
}

static bool knows_gradients(const case_file *c) {
  for (size_t i = 0; i < c->w->n; i++)
    if (vtb_starts_with(c->w->at[i]->name, "grad")) return true;
  return false;
}

vtb_status verify_case_model(const char *path, const char *map, const vtb_compile_options *o,
                             vtb_report *r, vtb_compilation *model, int64_t *batch) {
  case_file c;
  vtb_status status = case_load(path, map, &c, &r->error);
  if (status == VTB_OK) status = make_model(&c, o, NULL, knows_gradients(&c), r, model);
  if (status == VTB_OK) *batch = cli_infer_batch(vtb_module_find(model->module, model->func), c.w);
  case_free(&c);
  return status;
}

static vtb_status run_case(case_file *c, const vtb_compile_options *with, const vtb_target *target,
                           const verify_options *o, doc *d, cJSON *tensors, tally *all) {
  vtb_compilation model = {0};
  vtb_weights *results = NULL;
  bool grads = !o->no_grad && knows_gradients(c);
  vtb_status status = make_model(c, with, o->model_file, grads, o->model.report, &model);
  if (status == VTB_OK) {
    all->scans = has_scan(model.module);
    status = cli_evaluate(&model, target, (int)o->model.threads, c->w, &results);
  }
  if (status == VTB_OK) {
    verify_noise noise = {
        .c = &model, .target = target, .args = c->w, .precision = o->precision, .given = o->given};
    status = compare_all(c, results, grads, o, &noise, d, tensors, all);
    verify_noise_free(&noise);
    if (status == VTB_OK && (all->failed || all->missing)) status = VTB_E_NUMBERS;
  }
  vtb_weights_free(results);
  vtb_compilation_free(&model);
  return status;
}

vtb_status verify_case(const char *path, const verify_mode *mode, const vtb_target *target,
                       const verify_options *o, doc *d, bool *scans) {
  case_file c;
  vtb_error *err = &o->model.report->error;
  tally all = {0};
  vtb_compile_options mo = o->model.compile;
  if (mode->mode) mo.mode = mode->mode;
  if (mode->chunk) mo.chunk = mode->chunk;
  char label[64];
  snprintf(label, sizeof label, "%s%s%s", target->name, mo.mode ? " " : "", mo.mode ? mo.mode : "");
  if (mo.chunk)
    snprintf(label + strlen(label), sizeof label - strlen(label), "(%lld)", (long long)mo.chunk);
  cJSON *tensors = cJSON_CreateArray(),
        *entry = doc_item(d->json, F("case", path), F("run", (const char *)label),
                          F("tensors", tensors));
  vtb_status status = case_load(path, o->map, &c, err);
  if (status == VTB_OK) status = run_case(&c, &mo, target, o, d, tensors, &all);
  *scans = all.scans;
  doc_put(entry, F("status", (int)status), F("error", (const char *)err->text));
  if (status == VTB_OK || status == VTB_E_NUMBERS) {
    const char *slash = strrchr(path, '/');
    char also[112] = "";
    size_t n = 0;
    if (all.ill) n = (size_t)snprintf(also, sizeof also, ", %d ill-conditioned", all.ill);
    if (all.untapped)
      snprintf(also + n, sizeof also - n, ", %d intermediates not tapped", all.untapped);
    doc_say(d, 5, "%-4s %-44s %-20s %3d tensors, worst %.1e, bound %.1e (%s)%s",
            status ? "FAIL" : "ok", slash ? slash + 1 : path, label, all.compared, all.worst,
            all.bound, all.worst_name, also);
  }
  cli_tell_so_far(d);
  cli_report(&o->model, o->model.json || status == VTB_E_NUMBERS ? VTB_OK : status);
  case_free(&c);
  return status;
}

/* ---- the map --------------------------------------------------------------------------------- */

/* Asks of the map all that running the case would. */
static vtb_status use_map(case_map *all, const char *path, const char *map, vtb_error *err) {
  case_file c;
  vtb_strbuf name = {0};
  vtb_status status = case_load(path, map, &c, err);
  for (size_t i = 0; status == VTB_OK && i < c.w->n; i++) {
    const char *slash = strchr(c.w->at[i]->name, '/');
    size_t at = 0;
    while (slash && case_map_name(&c.map, c.named, false, slash + 1, &at, &name)) continue;
  }
  if (status == VTB_OK) case_map_add_used(all, &c.map);
  vtb_strbuf_free(&name);
  case_free(&c);
  return status;
}

vtb_status verify_map(const cli_list *cases, const char *map, vtb_error *err) {
  case_map all;
  const char *text;
  size_t at = 0, n = 0;
  doc *d = doc_new(cJSON_CreateArray());
  vtb_status status = case_map_open(&all, map, NULL, err);
  for (size_t i = 0; i < cases->n && status == VTB_OK; i++)
    status = use_map(&all, cases->at[i], map, err);
  for (int line; status == VTB_OK && (line = case_map_unused(&all, &at, &text)); n++) {
    doc_item(d->json, F("line", line), F("text", text));
    doc_say(d, 2, "%s:%d: no case needs: %s", map, line, text);
  }
  if (status == VTB_OK) doc_say(d, 2, "%zu of %zu lines without a case", n, all.rows.n);
  case_map_free(&all);
  cli_tell(d);
  return status == VTB_OK && n ? VTB_E_INPUT : status;
}
