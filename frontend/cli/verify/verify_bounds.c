/* See verify_bounds.h. */
#include "frontend/cli/verify/verify_bounds.h"

#include <string.h>

const char *const verify_verdicts[] = {"ok", "ill-conditioned", "FAIL"};

/* tol: where the order of sums, and which of two neighbours a number is rounded to, are all that
 * the run and the interpreter differ in. */
static const struct {
  double tol, slice;
  int bits;
  bool narrow; /* roundings beyond those of f32, which the interpreter repeats */
} rows[VTB_N_PRECISIONS] = {[VTB_PRECISION_FP32] = {2e-4, 1e-2, 24, false},
                            [VTB_PRECISION_TF32] = {2e-3, 2e-2, 11, true},
                            [VTB_PRECISION_BF16] = {1e-2, 5e-2, 8, true},
                            [VTB_PRECISION_FP16] = {2e-3, 2e-2, 11, true},
                            [VTB_PRECISION_BF16_ALL] = {1e-2, 5e-2, 8, true}};

double verify_tolerance(vtb_precision p) { return rows[p].tol; }

void verify_noise_free(verify_noise *n) {
  vtb_weights_free(n->own_exact);
  vtb_weights_free(n->rounded);
  vtb_weights_free(n->coarse);
}

static vtb_status interpret(const verify_noise *n, const vtb_target *target, int bits,
                            vtb_weights **out) {
  return *out ? VTB_OK : cli_interpret(n->c, target, bits, n->args, out);
}

static vtb_status need_exact(verify_noise *n) {
  if (n->exact) return VTB_OK;
  vtb_status status = interpret(n, vtb_target_find("interp"), 0, &n->own_exact);
  n->exact = n->own_exact;
  return status;
}

vtb_status verify_judge(verify_noise *n, const char *name, const vtb_weight *got,
                        const vtb_weight *want, double tol, double least, verify_judged *out) {
  const vtb_target *interp = vtb_target_find("interp");
  cli_bounds bounds = {.tol = tol, .slice = rows[n->precision].slice, .least = least};
  cli_noise noise = {0};
  if (rows[n->precision].narrow && !n->given) {
    VTB_TRY(need_exact(n));
    VTB_TRY(interpret(n, n->target, 0, &n->rounded));
    noise =
        (cli_noise){vtb_weights_find(n->rounded, name), vtb_weights_find(n->exact, name), false};
  }
  out->j = cli_judge(got, want, &noise, &bounds);
  out->verdict = *out->j.why ? VERIFY_FAIL : VERIFY_OK;
  if (out->verdict == VERIFY_OK || n->given || n->target->in_double) return VTB_OK;
  VTB_TRY(need_exact(n));
  VTB_TRY(interpret(n, interp, rows[n->precision].bits, &n->coarse));
  noise = (cli_noise){vtb_weights_find(n->coarse, name), vtb_weights_find(n->exact, name), true};
  cli_judgement estimated = cli_judge(got, want, &noise, &bounds);
  if (*estimated.why) return VTB_OK;
  out->verdict = VERIFY_ILL_CONDITIONED;
  out->j.bound = estimated.bound;
  return VTB_OK;
}
