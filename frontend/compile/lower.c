/* From a module to a module that code is made of: the pipelines, the training step. */
#include "frontend/compile/driver.h"
#include "frontend/compile/fusions.h"
#include "frontend/compile/tuning.h"
#include "frontend/compile/words.h"
#include "ir/update.h"

static void fill_context(const vtb_compile_options *o, vtb_pass_context *context) {
  context->mode = o->mode ? o->mode : o->chunk ? "chunkwise" : NULL;
  context->chunk = o->chunk;
  context->keep_taps = o->taps;
}

vtb_status vtb__run_passes(vtb_compilation *c, vtb_pass_context context, const char *pipeline) {
  const vtb_compile_options *o = &c->options;
  vtb_diags diags = {0};
  vtb_error err = {0};
  context.module = c->module;
  context.diags = &diags;
  fill_context(o, &context);
  vtb_pipeline_options p = {.pipeline = pipeline,
                            .print_after = o->print_after,
                            .time = o->time_passes,
                            .say = o->say,
                            .user = o->user};
  vtb_status status = vtb_run_pipeline(&context, &p, &err);
  vtb__report_end(c->report, status, &diags, &err);
  return status;
}

vtb_status vtb_compilation_run(vtb_compilation *c, const char *pipeline) {
  return vtb__run_passes(c, (vtb_pass_context){0}, pipeline);
}

/* Strips are of values alone: a way back keeps all of them. */
static vtb_status take_strips(vtb_compilation *c) {
  const vtb_compile_options *o = &c->options;
  vtb_diags diags = {0};
  vtb_error err = {0};
  if (!o->strips || o->training || o->part != VTB_PART_VALUE) return VTB_OK;
  c->strips.height = o->strips > 0 ? o->strips : 0;
  vtb_status status = vtb_make_strips(c->module, &c->strips, &diags, &err);
  vtb__report_end(c->report, status, &diags, &err);
  return status == VTB_OK ? vtb_compilation_run(c, "simplify,cse,dce") : status;
}

vtb_status vtb_compilation_graph(vtb_compilation *c) {
  vtb_status status = vtb_compilation_run(c, vtb_pipeline_graph);
  return status == VTB_OK ? take_strips(c) : status;
}

vtb_status vtb_compilation_bind(vtb_compilation *c, int64_t batch) {
  return vtb__run_passes(c, (vtb_pass_context){.batch = batch}, "bind,simplify,cse,dce");
}

/* The one target of the options; NULL if they name none. */
static const vtb_target *target_of(const vtb_compilation *c) {
  return c->options.target ? vtb_target_find(c->options.target) : NULL;
}

static bool memory_is_the_limit(const vtb_compilation *c) {
  const vtb_target *target = target_of(c);
  return target && target->memory_bound;
}

/* A state rounds as factors do: states are kept for adjoints where that is allowed. */
static bool keeps_starts(const vtb_compilation *c) {
  const char *all = vtb_precision_names[VTB_PRECISION_BF16_ALL];
  return memory_is_the_limit(c) && c->options.precision && vtb_streq(c->options.precision, all);
}

/* The passes that a target wants before autodiff. */
static vtb_status prepare_graph(vtb_compilation *c) {
  const vtb_target *target = target_of(c);
  return target && target->graph ? vtb_compilation_run(c, target->graph) : VTB_OK;
}

static vtb_status check_ranks(const vtb_compile_options *o, vtb_error *err) {
  const vtb_target *target = vtb_target_find(o->target ? o->target : VTB_DEFAULT_TARGET);
  if (o->ranks < 0 || o->ranks > VTB_MOST_RANKS)
    return vtb_fail(err, VTB_E_USAGE, "there cannot be %d ranks: 1 to %d can", o->ranks,
                    VTB_MOST_RANKS);
  if (o->rank < 0 || o->rank >= (o->ranks ? o->ranks : 1))
    return vtb_fail(err, VTB_E_USAGE, "rank %d is none of %d", o->rank, o->ranks ? o->ranks : 1);
  if (o->accumulate < 0)
    return vtb_fail(err, VTB_E_USAGE, "an update cannot be made of %lld runs",
                    (long long)o->accumulate);
  if (o->recompute < 0)
    return vtb_fail(err, VTB_E_USAGE, "%lld blocks cannot be recomputed", (long long)o->recompute);
  if (o->shard && o->ranks > 1 && target && target->tells_gradients)
    return vtb_fail(err, VTB_E_USAGE,
                    "the optimiser's state is sharded on processors, not on %s: do without",
                    target->name);
  return VTB_OK;
}

/* The batch over the ranks; functions that nothing calls any more are left behind. */
static vtb_status share_out(vtb_compilation *c) {
  const vtb_compile_options *o = &c->options;
  vtb_pass_context context = {
      .ranks = o->ranks, .pieces = o->accumulate > 1, .target = target_of(c)};
  return o->ranks > 1 || o->accumulate > 1 ? vtb__run_passes(c, context, "dce,ranks") : VTB_OK;
}

vtb_status vtb_compilation_number_rows(vtb_compilation *c) {
  return vtb__run_passes(c, (vtb_pass_context){.draws = true, .target = target_of(c)}, "dce,ranks");
}

vtb_status vtb_compilation_train(vtb_compilation *c) {
  const vtb_func *entry = c->module->entry;
  vtb_precision precision;
  vtb_status status = check_ranks(&c->options, &c->report->error);
  if (status == VTB_OK)
    status = vtb_precision_find(c->options.precision, &precision, &c->report->error);
  if (status == VTB_OK) status = prepare_graph(c);
  if (status != VTB_OK) return status;
  vtb_train_step step = {.logits = entry->n_returns ? entry->return_names[0] : NULL,
                         .label_smoothing = c->options.label_smoothing,
                         .loss_scale = precision == VTB_PRECISION_FP16,
                         .keeps = memory_is_the_limit(c),
                         .starts = keeps_starts(c),
                         .recompute = c->options.recompute,
                         .recomputed = &c->recomputed};
  VTB_TRY(vtb__run_passes(c, (vtb_pass_context){.train_step = &step}, "train_step"));
  c->func = c->module->entry->name;
  if (c->options.optimizer) status = vtb_compilation_update(c);
  return status == VTB_OK ? share_out(c) : status;
}

void vtb_compilation_check_training(vtb_compilation *c) {
  vtb_diags diags = {0};
  vtb_error none = {0};
  vtb_check_training(c->module->entry, &diags);
  vtb__report_end(c->report, VTB_OK, &diags, &none);
}

vtb_status vtb_compilation_evaluation(vtb_compilation *c) {
  vtb_func *made = NULL;
  VTB_TRY(vtb_build_evaluation(c->module, c->module->entry, &made, &c->report->error));
  c->module->entry = made;
  c->func = made->name;
  return VTB_OK;
}

static vtb_status differentiate(vtb_compilation *c, vtb_gradients *g) {
  g->keeps = memory_is_the_limit(c);
  g->starts = keeps_starts(c);
  VTB_TRY(prepare_graph(c));
  return vtb__run_passes(c, (vtb_pass_context){.autodiff = g}, "autodiff");
}

vtb_status vtb_compilation_gradient(vtb_compilation *c, const int *outs, int n_outs, const int *wrt,
                                    int n_wrt) {
  vtb_gradients g = {.outs = outs, .n_outs = n_outs, .wrt = wrt, .n_wrt = n_wrt};
  vtb_status status = differentiate(c, &g);
  if (status == VTB_OK) c->func = g.grad->name;
  return status;
}

vtb_status vtb_compilation_half(vtb_compilation *c, bool backward, const int *outs, int n_outs,
                                const int *wrt, int n_wrt) {
  vtb_gradients g = {.outs = outs, .n_outs = n_outs, .wrt = wrt, .n_wrt = n_wrt, .halves = true};
  vtb_status status = differentiate(c, &g);
  if (status == VTB_OK) c->func = backward ? g.bwd->name : g.fwd->name;
  return status;
}

vtb_status vtb_compilation_open(vtb_compilation *c, const vtb_compile_options *o, vtb_report *r) {
  vtb_status status = vtb_compilation_load(c, o, NULL, r);
  if (status == VTB_OK) status = vtb_compilation_outputs(c);
  if (status == VTB_OK) status = vtb_compilation_graph(c);
  if (status == VTB_OK && o->training) status = vtb_compilation_train(c);
  if (status == VTB_OK && o->evaluation && !o->training) status = vtb_compilation_evaluation(c);
  bool value = !o->evaluation && !o->training;
  if (status == VTB_OK && value && o->numbers_rows) status = vtb_compilation_number_rows(c);
  if (status == VTB_OK && value) status = vtb_compilation_part(c);
  return status;
}

/* Elements of a tensor at most, which every count and offset in bytes has room for. */
#define MOST_ELEMENTS (INT64_C(1) << 44)

static bool has_room(const vtb_value *v, int64_t batch) {
  int64_t most = MOST_ELEMENTS;
  for (int k = vtb_type_batch_axes(&v->type); k > 0; k--) most /= batch;
  return !vtb_type_is_dynamic(&v->type) || vtb_type_count(&v->type) <= most;
}

static vtb_status check_batch(const vtb_module *m, int64_t batch, vtb_error *err) {
  bool room = true;
  for (const vtb_func *f = m->first; f; f = f->next) {
    for (int a = 0; a < f->n_args && f->kind == VTB_FUNC_PLAIN; a++)
      room &= has_room(f->args[a], batch);
    for (const vtb_inst *i = f->first; i && f->kind == VTB_FUNC_PLAIN; i = i->next)
      for (int r = 0; r < i->n_results; r++) room &= has_room(i->results[r], batch);
  }
  if (room) return VTB_OK;
  return vtb_fail(err, VTB_E_USAGE,
                  "a batch of %lld is too large: tensors would have more than 2^44 elements",
                  (long long)batch);
}

/* A damaged table decides nothing: `vertebra tune` and `cache ls` say that it is. */
static void read_tuning(const vtb_compilation *c, const vtb_pass_context *context,
                        const vtb_codegen_options *code, vtb_tuning *out) {
  vtb_error damaged = {0};
  if (code->cpu || code->arch || c->options.no_tuning || code->how.tuning == VTB_NO) return;
  if (vtb_tuning_read(context->target, &code->how, out, &damaged) != VTB_OK)
    vtb_log("%s", damaged.text);
}

/* Which products are of 8 bits, once a report; none is an error. */
static vtb_status tell_quantized(const vtb_compilation *c, const vtb_quantized *q) {
  vtb_strbuf text = {0};
  vtb_status status = VTB_OK;
  vtb_quantized_print(q, &text);
  if (!q->n[VTB_QUANTIZED])
    status = vtb_fail(&c->report->error, VTB_E_USAGE,
                      "%s has no product that int8 can be of: %s. Leave --quantize out",
                      c->options.model ? c->options.model : "the source", text.at);
  else if (c->options.say && !c->report->told_int8)
    c->options.say(c->options.user, (vtb_strbuf_putc(&text, '\n'), text.at));
  c->report->told_int8 = true;
  vtb_strbuf_free(&text);
  return status;
}

static vtb_status lower(const vtb_compilation *c, const vtb_target *target,
                        const vtb_codegen_options *code, int64_t batch, const char *pipeline,
                        vtb_compilation *lowered) {
  *lowered = (vtb_compilation){.options = c->options, .report = c->report};
  if (c->module->entry && c->module->entry->kind == VTB_FUNC_RULE)
    return vtb_fail(
        &c->report->error, VTB_E_USAGE,
        c->module->entry->n_args
            ? "%s is an optimizer, which runs behind a training step: vertebra train "
              "MODEL --optimizer NAME"
            : "%s is a schedule, of numbers alone: vertebra train MODEL --schedule NAME",
        c->module->entry->name);
  vtb_status checked = check_batch(c->module, batch, &c->report->error);
  if (checked != VTB_OK) return checked;
  vtb_quantized quantized = {0};
  vtb_pass_context context = {.batch = batch,
                              .target = target,
                              .lean = c->options.strips != 0 || c->options.memory > 0,
                              .gpu = code->gpu,
                              .precision = code->precision,
                              .int8 = code->int8,
                              .quantized = &quantized,
                              .library = code->library,
                              .updates = vtb_has_update(vtb_module_find(c->module, c->func))};
  *lowered = (vtb_compilation){.options = c->options,
                               .report = c->report,
                               .module = vtb_module_clone(c->module),
                               .func = c->func};
  lowered->module->entry = vtb_module_find(lowered->module, c->func);
  read_tuning(c, &context, code, &lowered->tuning);
  context.tuning = &lowered->tuning;
  context.threads = vtb_tuning_threads(&c->options, target);
  context.asker = vtb_backend_asker(target, code);
  if (context.asker) context.asker->narrow = true;
  fill_context(&c->options, &context);
  context.decisions = &lowered->decisions;
  const char *said = context.asker ? code->how.fusions : NULL;
  if (said) checked = vtb_decisions_parse(said, &lowered->decisions, &c->report->error);
  if (checked == VTB_OK) checked = vtb__run_passes(lowered, context, pipeline);
  vtb_asker_free(context.asker);
  context.asker = NULL;
  context.decisions = NULL;
  context.quantized = NULL;
  if (checked == VTB_OK && code->int8 && !pipeline) checked = tell_quantized(c, &quantized);
  lowered->context = context;
  return checked;
}

vtb_status vtb_compilation_lower(const vtb_compilation *c, const vtb_target *target,
                                 const vtb_codegen_options *code, int64_t batch,
                                 vtb_compilation *lowered) {
  return lower(c, target, code, batch, NULL, lowered);
}

vtb_status vtb_compilation_modes(const vtb_compilation *c, const vtb_target *target,
                                 const vtb_codegen_options *code, int64_t batch,
                                 vtb_compilation *lowered) {
  return lower(c, target, code, batch, "bind,select_mode", lowered);
}
