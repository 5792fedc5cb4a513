/* vertebra tune: times modes and chunk sizes of a model's recurrences on this machine, for
 * `auto`. */
#include "frontend/cli/cli.h"
#include "frontend/cli/interrupt.h"
#include "frontend/cli/say/progress.h"
#include "frontend/compile/tune.h"
#include "frontend/compile/tuning.h"

#include <math.h>
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
  doc *told;
  cJSON *cases;       /* of what is told */
  vtb_tuning known;   /* what was measured, of all parts */
  size_t done, total; /* cases */
} tuning_run;

#define NONE ((double)NAN)

/* ---- what was found -------------------------------------------------------------------------- */

static void put_form(const char *mode, int64_t chunk, vtb_strbuf *out) {
  vtb_strbuf_puts(out, mode);
  if (chunk) vtb_strbuf_printf(out, "(%lld)", (long long)chunk);
}

/* The form that the cost model chose. */
static const vtb_tune_form *modelled(const vtb_tune_case *c) {
  const char *mode = vtb_attr_str(c->inst, "mode", "auto");
  int64_t chunk = vtb_attr_int(c->inst, "chunk", 0);
  for (size_t i = 0; i < c->forms.n; i++)
    if (vtb_streq(c->forms.at[i].mode, mode) && c->forms.at[i].chunk == chunk)
      return &c->forms.at[i];
  return NULL;
}

static cJSON *form_json(const vtb_tune_form *f) {
  if (!f) return NULL;
  cJSON *out = doc_object(F("mode", f->mode), K("chunk", f->chunk ? (double)f->chunk : NONE),
                          K("ms", f->seconds > 0 ? 1e3 * f->seconds : NONE));
  return f->failed ? doc_put(out, F("failed", (bool)true)) : out;
}

/* The fastest form, then the others. */
static void say_forms(doc *d, const vtb_tune_case *c, const vtb_tune_form *best) {
  vtb_strbuf text = {0};
  const char *between = " ";
  if (best) {
    vtb_strbuf_puts(&text, "  fastest: ");
    put_form(best->mode, best->chunk, &text);
    vtb_strbuf_printf(&text, " %.4g ms;", 1e3 * best->seconds);
  }
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
  doc_say(d, 4, "%s", vtb_strbuf_text(&text));
  vtb_strbuf_free(&text);
}

static void tell_case(doc *d, cJSON *cases, const vtb_tune_case *c) {
  const vtb_tune_form *best = vtb_tune_fastest(c), *model = modelled(c);
  const vtb_tuning_key *k = &c->key;
  cJSON *forms = cJSON_CreateArray();
  for (size_t i = 0; i < c->forms.n; i++) doc_append(forms, form_json(&c->forms.at[i]));
  doc_item(cases, F("name", c->name), F("op", k->op), F("class", k->klass), F("batch", k->batch),
           F("tokens", k->tokens), F("heads", k->heads), F("rank", k->rank), F("keys", k->K),
           F("values", k->V), K("fastest", form_json(best)), K("cost_model", form_json(model)),
           F("forms", forms));
  doc_say(d, 2, "%s: %s, %s decay, %lld tokens, %lld heads of %lld x %lld, batch %lld", c->name,
          k->op, k->klass, (long long)k->tokens, (long long)k->heads, (long long)k->K,
          (long long)k->V, (long long)k->batch);
  say_forms(d, c, best);
  if (best && model && model->seconds > 0) {
    vtb_strbuf form = {0};
    put_form(model->mode, model->chunk, &form);
    doc_say(d, 4, "  the cost model takes %s: %.2f x", form.at, model->seconds / best->seconds);
    vtb_strbuf_free(&form);
  }
  cli_tell_so_far(d);
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
  if (status == VTB_OK && rows.rows.n)
    status = vtb_tuning_store(r->tune.target, cli_how(), &rows, err);
  vtb_tuning_free(&rows);
  if (status != VTB_OK) return status;
  tell_case(r->told, r->cases, c);
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

static vtb_status tune(void *user, const cli_list *args, vtb_error *err) {
  const tune_options *o = user;
  const char *what = args->at[0];
  const vtb_target *target;
  char *path = NULL, processor[128];
  tuning_run r = {.o = o, .interrupted = cli_interrupt_wait()};
  vtb_status status = vtb_compile_target(o->model.compile.target, false, &target, err);
  if (status == VTB_OK && !vtb_tuning_file(target, cli_how(), &path, processor))
    status = vtb_fail(err, VTB_E_DEVICE, "no device here runs target %s as it is", target->name);
  if (status != VTB_OK) return status;
  doc *d = r.told = doc_new(doc_object(F("model", what), F("processor", (const char *)processor),
                                       F("target", target->name), F("file", path)));
  r.cases = cJSON_AddArrayToObject(d->json, "cases");
  doc_say(d, 2, "%s on %s%s", what, processor,
          !o->model.compile.no_tuning && cli_how()->tuning != VTB_NO
              ? ""
              : "; auto does not read what is stored");
  cli_tell_so_far(d);
  status = measure_part(&r, what, false);
  if (status == VTB_OK && o->train && !*r.interrupted) status = measure_part(&r, what, true);
  if (status == VTB_OK && !r.total)
    doc_say(d, 2, "%s has no recurrence that can be computed in more than one form", what);
  else if (status == VTB_OK)
    doc_say(d, 2, "%zu measured, for `auto`, in %s", r.done, path);
  cli_tell(d);
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
  return CLI_RUN("tune", opts, .one = "one MODEL is needed", .run = tune, .options = &o,
                 .model = &o.model);
}
