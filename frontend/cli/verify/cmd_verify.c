/* vertebra verify: numbers against reference cases, or a model against the interpreter in every
 * mode. */
#include "frontend/cli/verify/verify.h"
#include "frontend/compile/words.h"
#include "frontend/cli/verify/verify_bounds.h"

#include <string.h>

static const verify_mode every_mode[] = {{"parallel", 0},  {"recurrent", 0},  {"chunkwise", 1},
                                         {"chunkwise", 7}, {"chunkwise", 16}, {"chunkwise", 64}};

static vtb_status verify_cases(const cli_list *cases, const verify_options *o) {
  static const verify_mode as_written = {NULL, 0};
  const verify_mode *modes = o->modes ? every_mode : &as_written;
  size_t n_modes = o->modes ? sizeof every_mode / sizeof *every_mode : 1;
  doc *d = doc_new(cJSON_CreateArray());
  vtb_status worst = VTB_OK;
  int runs = 0, failed = 0;
  for (size_t i = 0; i < cases->n; i++)
    for (const vtb_target *t = NULL; (t = cli_next_target(o->target, t));) {
      bool scans = true;
      for (size_t m = 0; m < n_modes && scans; m++) {
        vtb_status s = verify_case(cases->at[i], &modes[m], t, o, d, &scans);
        runs++;
        failed += s != VTB_OK;
        if (s != VTB_OK && (worst == VTB_OK || worst == VTB_E_NUMBERS)) worst = s;
      }
    }
  doc_say(d, 2, "%d runs of %zu cases, %d failed", runs, cases->n, failed);
  cli_tell(d);
  return worst;
}

/* Tolerances that were not asked for follow from the precision. */
static vtb_status set_tolerances(verify_options *o, vtb_error *err) {
  VTB_TRY(vtb_precision_find(o->model.compile.precision, &o->precision, err));
  o->given = o->tol >= 0 || o->grad_tol >= 0;
  if (o->tol < 0) o->tol = verify_tolerance(o->precision);
  if (o->grad_tol < 0) o->grad_tol = verify_tolerance(o->precision);
  return VTB_OK;
}

static vtb_status verify(void *user, const cli_list *args, vtb_error *err) {
  verify_options *o = user;
  const vtb_target *target;
  vtb_error unknown = {0};
  if (o->modes && strcmp(o->modes, "all") != 0)
    return cli_usage_error("verify", "--modes takes only \"all\"; use --mode for one");
  if (strcmp(o->target, "all") != 0 &&
      vtb_compile_target(o->target, true, &target, &unknown) != VTB_OK)
    return cli_usage_error("verify", "%s; all is those that need nothing else", unknown.text);
  VTB_TRY(set_tolerances(o, err));
  if (o->unused && !o->map) return cli_usage_error("verify", "--unused is asked of a --map FILE");
  if (o->unused) return verify_map(args, o->map, err);
  if (vtb_ends_with(args->at[0], ".safetensors")) return verify_cases(args, o);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < args->n && (status == VTB_OK || status == VTB_E_NUMBERS); i++) {
    vtb_status s = verify_model(args->at[i], o);
    if (s != VTB_OK) status = s;
  }
  return status;
}

vtb_status cli_cmd_verify(int argc, char **argv) {
  verify_options o = {.target = "cpu", .tol = -1, .grad_tol = -1}; /* below 0: by precision */
  bool grad = false;
  const cli_opt opts[] = {
      {"--model", CLI_STR, &o.model_file, "FILE", "look for the case's entry in this .vtb file"},
      {"--map", CLI_STR, &o.map, "FILE",
       "the cases.map with what configs say in other words (default: the one in the case's folder "
       "or above it, else that of the published models' cases)"},
      {"--unused", CLI_FLAG, &o.unused, NULL,
       "run nothing: tell the lines of --map FILE that no CASE needs"},
      {"--modes", CLI_STR, &o.modes, "all",
       "run each case that has a recurrence in every mode and chunk sizes 1, 7, 16, 64"},
      {"--target", CLI_STR, &o.target, "T",
       "{targets}, interp, or all that need nothing but this program (default cpu)"},
      {"--tol", CLI_FLOAT, &o.tol, "X",
       "bound of the largest error over the largest magnitude, held exactly (default 2e-4; tf32 "
       "and fp16 2e-3, bf16 and bf16-all 1e-2, and 4 times what these roundings cost)"},
      {"--grad-tol", CLI_FLOAT, &o.grad_tol, "X", "the same for gradients"},
      {"--grad", CLI_FLAG, &grad, NULL, "gradients too (the default where the case has them)"},
      {"--no-grad", CLI_FLAG, &o.no_grad, NULL, "outputs only"},
      {"--nan", CLI_FLAG, &o.nan, NULL, "find the first op that gives NaN or Inf"},
      {"-v", CLI_FLAG, &o.verbose, NULL, "a line for every tensor"},
      CLI_MODEL_OPTS(o.model)};
  return CLI_RUN("verify", opts, .some = "a CASE file or a MODEL is needed", .run = verify,
                 .options = &o, .model = &o.model);
}
