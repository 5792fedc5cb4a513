/* vertebra dump: the model at any stage of the compiler. */
#include "frontend/cli/inspect/dump_estimate.h"

typedef struct dump_options {
  cli_model_options model;
  const char *stage, *cpu, *arch, *optimizer, *estimate;
  double bucket_mb;
  int64_t ranks;
  bool train, taps, library, params, audit;
} dump_options;

/* The stage of the compile library that has what is asked for. */
static const char *stage_of(const dump_options *d) {
  if (!d->audit) return d->stage;
  return cli_json() ? "audit-json" : "audit";
}

static void print(const dump_options *d, const char *text) {
  if (d->audit && cli_json())
    cli_print_json(cJSON_Parse(text));
  else
    cli_print_text("stage", d->stage, text);
}

/* A plan for the machine at hand has the library's products if runs here have: `--target cuda`
 * without a machine or architecture that is named. */
static bool is_of_this_machine(const dump_options *d, const vtb_compile_options *o) {
  return o->target && vtb_streq(o->target, "cuda") && !o->machine && !d->estimate && !d->audit &&
         !d->arch;
}

/* A pass may exist and not be of this stage. */
static void note_silence(const dump_options *d) {
  const vtb_compile_options *o = &d->model.compile;
  if (o->print_after && !o->time_passes && !d->model.said)
    cli_say("pass %s does not run up to stage %s; `--print-after all --time-passes` names those "
            "that do\n",
            o->print_after, d->stage);
}

static vtb_status check_options(const dump_options *o) {
  if (o->estimate && !vtb_streq(o->stage, "launches"))
    return cli_usage_error("dump", "--estimate is of --stage launches");
  if (o->ranks > 1 && !o->train && !vtb_streq(o->stage, "grad"))
    return cli_usage_error("dump", "--ranks is of training steps: add --train");
  if (o->audit && !vtb_streq(o->stage, "launches"))
    return cli_usage_error("dump", "--audit is of --stage launches");
  if (o->audit && o->estimate)
    return cli_usage_error("dump", "--audit and --estimate are two tables: one at a time");
  return VTB_OK;
}

static vtb_status dump(void *user, const cli_list *args, vtb_error *err) {
  (void)err;
  const dump_options *d = user;
  vtb_compile_options o = cli_compile_options(&d->model, args->at[0]);
  VTB_TRY(check_options(d));
  char *text = NULL;
  o.training = d->train;
  o.optimizer = !d->train ? NULL : d->optimizer ? d->optimizer : CLI_DEFAULT_OPTIMIZER;
  o.taps = d->taps;
  o.fold = !d->params;
  o.bucket_mb = d->bucket_mb;
  o.ranks = (int)d->ranks;
  o.library = d->library                  ? VTB_LIBRARY_YES
              : is_of_this_machine(d, &o) ? VTB_LIBRARY_AUTO
                                          : VTB_LIBRARY_NO;
  if (d->estimate) {
    o.machine = d->estimate;
    return cli_report(&d->model, cli_dump_estimate(&o, d->arch, &d->model));
  }
  const char *target = o.target;
  if (d->audit && target && !vtb_streq(target, "cuda") && !vtb_streq(target, "cuda-emulated"))
    return cli_usage_error("dump", "target %s launches nothing that --audit could run", target);
  vtb_status status =
      vtb_compile_stage(&o, stage_of(d), d->cpu ? d->cpu : d->arch, &text, d->model.report);
  if (status == VTB_OK) print(d, text);
  if (status == VTB_OK) note_silence(d);
  vtb_free(text);
  return cli_report(&d->model, status);
}

vtb_status cli_cmd_dump(int argc, char **argv) {
  dump_options o = {.stage = "ir"};
  const cli_opt opts[] = {
      {"--stage", CLI_STR, &o.stage, "STAGE", "{stages} (default ir)"},
      {"--train", CLI_FLAG, &o.train, NULL, "the training step instead of the forward pass"},
      {"--optimizer", CLI_STR, &o.optimizer, "NAME",
       "with --train: whose update ends the step (default adamw)"},
      CLI_RECOMPUTE_OPT(o.model),
      CLI_MEMORY_OPT(o.model, "--train: recompute as little as keeps the step below 4G, say"),
      {"--bucket-mb", CLI_FLOAT, &o.bucket_mb, "MB",
       "launches with --train: largest bucket of gradients (default 25)"},
      {"--ranks", CLI_INT, &o.ranks, "N",
       "with --train, grad: the step of one of N processes that share every batch"},
      {"--params", CLI_FLAG, &o.params, NULL,
       "ir to fused: every parameter on a line of its own; such text parses back"},
      {"--taps", CLI_FLAG, &o.taps, NULL, "keep `tap` statements"},
      {"--cpu", CLI_STR, &o.cpu, "NAME",
       "code for another processor: x86-64-v3, x86-64-v4, aarch64 (default: this one)"},
      {"--arch", CLI_STR, &o.arch, "NAME",
       "of ptx: compute_80, compute_90; of resources: sm_80, sm_90a (default), sm_100a; with "
       "--estimate: whose plan"},
      {"--target", CLI_STR, &o.model.compile.target, "T",
       "whose passes: {targets} (default of what is lowered: cpu), or interp"},
      CLI_QUANTIZE_OPT(o.model),
      {"--estimate", CLI_STR, &o.estimate, "GPU",
       "launches: what each takes on {machines}, or on what a calibrated file says, and what "
       "binds"},
      {"--audit", CLI_FLAG, &o.audit, NULL,
       "launches: run some blocks of each and count sectors, bank conflicts, idle threads"},
      {"--library", CLI_FLAG, &o.library, NULL,
       "large products by the vendor's library, as with --target cuda where it is installed"},
      CLI_STRIPS_OPT(o.model, "--strips"),
      CLI_MODEL_OPTS(o.model)};
  return CLI_RUN("dump", opts, .one = "one MODEL is needed", .run = dump, .options = &o,
                 .model = &o.model);
}
