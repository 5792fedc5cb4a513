/* vertebra tune: times modes and chunk sizes of a model's recurrences on this machine, for
 * `auto`. */
#include "frontend/cli/cli.h"
#include "frontend/cli/interrupt.h"
#include "frontend/cli/say/progress.h"
#include "frontend/compile/tune.h"
#include "frontend/compile/tuning.h"

#include <string.h>

typedef struct tune_options {
  cli_model_options model;
  double seconds;
  bool train;
} tune_options;

/* One command. */
typedef struct tuning_run {
  const tune_options *o;
  vtb_tune tune;
  const volatile int *interrupted;
  cJSON *cases;
  vtb_tuning known;   /* what was measured, of all parts */
  size_t done, total; /* cases */
} tuning_run;

/* ---- what was found -------------------------------------------------------------------------- */

static void put_form(const char *mode, int64_t chunk, vtb_strbuf *out) {
  vtb_strbuf_puts(out, mode);
  if (chunk) vtb_strbuf_printf(out, "(%lld)", (long long)chunk);
}

/* What the cost model chose. */
static const vtb_tune_form *modelled(const vtb_tune_case *c) {
  const char *mode = vtb_attr_str(c->inst, "mode", "auto");
  int64_t chunk = vtb_attr_int(c->inst, "chunk", 0);
  for (size_t i = 0; i < c->forms.n; i++)
    if (vtb_streq(c->forms.at[i].mode, mode) && c->forms.at[i].chunk == chunk)
      return &c->forms.at[i];
  return NULL;
}

static void print_case(const vtb_tune_case *c) {
  const vtb_tune_form *best = vtb_tune_fastest(c), *model = modelled(c);
  const vtb_tuning_key *k = &c->key;
  vtb_strbuf text = {0};
  cli_printf(2, "%s: %s, %s decay, %lld tokens, %lld heads of %lld x %lld, batch %lld", c->name,
             k->op, k->klass, (long long)k->tokens, (long long)k->heads, (long long)k->K,
             (long long)k->V, (long long)k->batch);
  if (best) {
    vtb_strbuf_puts(&text, "  fastest: ");
    put_form(best->mode, best->chunk, &text);
    vtb_strbuf_printf(&text, " %.4g ms;", 1e3 * best->seconds);
  }
  const char *between = " ";
  for (size_t i = 0; i < c->forms.n; i++) {
    const vtb_tune_form *f = &c->forms.at[i];
    if (f == best) continue;
    vtb_strbuf_puts(&text, between);
    between = ", ";
    put_form(f->mode, f->chunk, &text);
    if (f->seconds > 0)
      vtb_strbuf_printf(&text, " %.4g", 1e3 * f->seconds);
    else
      vtb_strbuf_puts(&text, f->failed ? " failed" : " not measured");
  }
  cli_printf(4, "%s", vtb_strbuf_text(&text));
  text.n = 0;
  if (best && model && model->seconds > 0) {
    put_form(model->mode, model->chunk, &text);
    cli_printf(4, "  the cost model takes %s: %.2f x", text.at, model->seconds / best->seconds);
  }
  vtb_strbuf_free(&text);
}

static cJSON *form_json(const vtb_tune_form *f) {
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "mode", f->mode);
  if (f->chunk) cJSON_AddNumberToObject(out, "chunk", (double)f->chunk);
  if (f->seconds > 0) cJSON_AddNumberToObject(out, "ms", 1e3 * f->seconds);
  if (f->failed) cJSON_AddBoolToObject(out, "failed", true);
  return out;
}

static cJSON *case_json(const vtb_tune_case *c) {
  const vtb_tune_form *best = vtb_tune_fastest(c), *model = modelled(c);
  const vtb_tuning_key *k = &c->key;
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "name", c->name);
  cJSON_AddStringToObject(out, "op", k->op);
  cJSON_AddStringToObject(out, "class", k->klass);
  cJSON_AddNumberToObject(out, "batch", (double)k->batch);
  cJSON_AddNumberToObject(out, "tokens", (double)k->tokens);
  cJSON_AddNumberToObject(out, "heads", (double)k->heads);
  cJSON_AddNumberToObject(out, "rank", (double)k->rank);
  cJSON_AddNumberToObject(out, "keys", (double)k->K);
  cJSON_AddNumberToObject(out, "values", (double)k->V);
  if (best) cJSON_AddItemToObject(out, "fastest", form_json(best));
  if (model) cJSON_AddItemToObject(out, "cost_model", form_json(model));
  cJSON *forms = cJSON_AddArrayToObject(out, "forms");
  for (size_t i = 0; i < c->forms.n; i++) cJSON_AddItemToArray(forms, form_json(&c->forms.at[i]));
  return out;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static bool on_progress(void *user, size_t number, double part) {
  const tuning_run *r = user;
  const vtb_tune_case *c = &r->tune.cases.at[number];
  cli_line l = {0};
  if (*r->interrupted) return false;
  if (!cli_progress_due()) return true;
  cli_line_add(&l, "%zu/%zu", r->done + 1, r->total);
  cli_line_add(&l, "%s of %lld tokens", c->key.op, (long long)c->key.tokens);
  cli_progress_show(&l, part);
  return true;
}

static vtb_status measure_case(tuning_run *r, size_t number, vtb_error *err) {
  vtb_tuning rows = {0};
  const vtb_tune_case *c = &r->tune.cases.at[number];
  vtb_status status = vtb_tune_measure(&r->tune, number, r->o->seconds, on_progress, r, err);
  cli_progress_clear();
  vtb_tune_rows(c, &rows);
  vtb_tuning_merge(&r->known, &rows);
  if (status == VTB_OK && rows.rows.n) status = vtb_tuning_store(r->tune.target, &rows, err);
  vtb_tuning_free(&rows);
  if (status != VTB_OK) return status;
  if (r->cases)
    cJSON_AddItemToArray(r->cases, case_json(c));
  else
    print_case(c);
  r->done += !*r->interrupted;
  return VTB_OK;
}

/* The forward recurrences of a training step are those of a run. */
static bool is_known(const tuning_run *r, size_t number) {
  for (size_t i = 0; i < r->known.rows.n; i++)
    if (vtb_tuning_same_key(&r->known.rows.at[i].key, &r->tune.cases.at[number].key)) return true;
  return false;
}

/* The recurrences of a run, or of a training step. */
static vtb_status measure_part(tuning_run *r, const char *what, bool training) {
  const cli_model_options *m = &r->o->model;
  vtb_compilation c = {0};
  vtb_compile_options o = cli_compile_options(m, what);
  o.training = training;
  vtb_status status = vtb_compilation_open(&c, &o, m->report);
  if (status == VTB_OK) status = vtb_tune_open(&c, o.batch ? o.batch : 1, &r->tune);
  cli_report(m, status);
  vtb_error err = {0};
  for (size_t i = 0; i < r->tune.cases.n && status == VTB_OK; i++) r->total += !is_known(r, i);
  for (size_t i = 0; i < r->tune.cases.n && status == VTB_OK && !*r->interrupted; i++)
    if (!is_known(r, i) && (status = measure_case(r, i, &err)) != VTB_OK) cli_error(&err);
  vtb_tune_close(&r->tune);
  vtb_compilation_free(&c);
  return status;
}

static vtb_status tune(const char *what, const tune_options *o) {
  const vtb_target *target;
  char *path = NULL, processor[128];
  vtb_error err = {0};
  tuning_run r = {.o = o, .interrupted = cli_interrupt_wait()};
  vtb_status status = vtb_compile_target(o->model.compile.target, false, &target, &err);
  if (status == VTB_OK && !vtb_tuning_file(target, &path, processor))
    status = vtb_fail(&err, VTB_E_DEVICE, "no device here runs target %s as it is", target->name);
  if (status != VTB_OK) return cli_error(&err);
  if (o->model.json) r.cases = cJSON_CreateArray();
  if (!o->model.json)
    cli_printf(2, "%s on %s%s", what, processor,
               vtb_tuning_wanted(&o->model.compile) ? "" : "; auto does not read what is stored");
  status = measure_part(&r, what, false);
  if (status == VTB_OK && o->train && !*r.interrupted) status = measure_part(&r, what, true);
  if (r.cases) {
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "model", what);
    cJSON_AddStringToObject(out, "processor", processor);
    cJSON_AddStringToObject(out, "target", target->name);
    cJSON_AddStringToObject(out, "file", path);
    cJSON_AddItemToObject(out, "cases", r.cases);
    cli_print_json(out);
  } else if (status == VTB_OK && !r.total) {
    cli_printf(2, "%s has no recurrence that can be computed in more than one form", what);
  } else if (status == VTB_OK) {
    cli_printf(2, "%zu measured, for `auto`, in %s", r.done, path);
  }
  vtb_free(path);
  vtb_tuning_free(&r.known);
  if (status != VTB_OK || !*r.interrupted) return status;
  return cli_interrupt_say((int64_t)r.done, (int64_t)r.total, "recurrences; those are stored");
}

vtb_status cli_cmd_tune(int argc, char **argv) {
  tune_options o = {.seconds = 1};
  const cli_opt opts[] = {
      {"--train", CLI_FLAG, &o.train, NULL, "the recurrences of a training step, too"},
      {"--seconds", CLI_FLOAT, &o.seconds, "S", "measure each recurrence so long (default 1)"},
      CLI_TARGET_OPT(o.model),
      CLI_MODEL_OPTS(o.model)};
  cli_list rest = {0};
  int parsed = cli_parse("tune", opts, CLI_COUNT(opts), argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (rest.n != 1) return cli_usage_error("tune", "one MODEL is needed");
  cli_model_parsed(&o.model);
  vtb_status status = tune(rest.at[0], &o);
  vtb_vec_free(&rest);
  cli_model_options_free(&o.model);
  return status;
}
