/* Parameters that an objective leaves untrained. A parameter that no loss depends on would keep its
 * first value, or decay away from it, without a word: that is an error where a step is made and a
 * warning in a check. One that a loss depends on, but only through stop_gradient or comparisons, is
 * left as it is, neither moved nor decayed, which may be meant: a warning. */
#include "ir/diag_codes.h"
#include "ir/objective.h"
#include "passes/passes_internal.h"

static bool is_trainable(const vtb_func *f, int a) {
  return f->arg_info[a].role == VTB_ROLE_PARAM && f->args[a]->type.dtype == VTB_F32;
}

/* The first output of the model that the parameter enters; NULL. */
static const char *output_of(vtb_module *m, vtb_func *model, int param) {
  const char *name = NULL;
  bool *value = VTB_SCRATCH(model, bool, model->n_args);
  bool *gradient = VTB_SCRATCH(model, bool, model->n_args);
  for (int r = 0; r < model->n_returns && !name; r++) {
    const char *have = model->return_names[r];
    if (!have || vtb_is_measure(have, NULL) || vtb_starts_with(have, VTB_MEASURE_BY) ||
        vtb_starts_with(have, "updated."))
      continue;
    vtb__dependence(m, model, r, value, gradient);
    if (value[param]) name = have;
  }
  return name;
}

/* One message about n parameters, the first of which is `first`. */
static void report_untrained(vtb_module *m, vtb_func *model, int first, int n, bool as_error,
                             vtb_diags *diags) {
  const vtb_arg_info *info = &model->arg_info[first];
  const char *output = output_of(m, model, first);
  vtb_strbuf text = {0};
  vtb_strbuf_printf(&text, "nothing trains the parameter '%s'", info->official);
  if (n > 1) vtb_strbuf_printf(&text, " and %d more", n - 1);
  if (output)
    vtb_strbuf_printf(&text, ": no loss depends on %s, only the output '%s' does",
                      n > 1 ? "them" : "it", output);
  else
    vtb_strbuf_printf(&text, ": neither a loss nor an output depends on %s", n > 1 ? "them" : "it");
  vtb_diag_say(diags, as_error ? VTB_SEV_ERROR : VTB_SEV_WARNING, VTB_DIAG_UNTRAINED, info->span,
               "%s", text.at);
  vtb_strbuf_free(&text);
  vtb_diag_help(diags, vtb_has_loss(model)
                           ? "use what they compute in a loss, or write freeze { ... } around them"
                           : "without a `loss` only the first output is trained, by cross entropy: "
                             "declare the losses of all of them, or write freeze { ... }");
}

static void report_blocked(const vtb_func *f, int first, int n, vtb_diags *diags) {
  const vtb_arg_info *info = &f->arg_info[first];
  vtb_strbuf text = {0};
  vtb_strbuf_printf(&text, "the parameter '%s'", info->official);
  if (n > 1) vtb_strbuf_printf(&text, " and %d more", n - 1);
  vtb_strbuf_printf(&text, " %s no gradient: the loss depends on %s only where gradients stop",
                    n > 1 ? "have" : "has", n > 1 ? "them" : "it");
  vtb_diag_warning(diags, VTB_DIAG_NO_GRADIENT, info->span, "%s", text.at);
  vtb_strbuf_free(&text);
  vtb_diag_help(diags, "if that is meant, freeze { ... } around them says so");
}

int vtb__find_trained(vtb_func *model, vtb_func *loss, int *wrt, bool as_error, vtb_diags *diags) {
  vtb_module *m = model->module;
  /* by argument: the loss depends on it, and through a derivative */
  bool *value = VTB_SCRATCH(loss, bool, loss->n_args),
       *gradient = VTB_SCRATCH(loss, bool, loss->n_args);
  int n = 0, n_untrained = 0, n_blocked = 0, untrained = -1, blocked = -1;
  vtb__dependence(m, loss, 0, value, gradient);
  for (int a = 0; a < loss->n_args; a++) {
    if (!is_trainable(loss, a)) continue;
    if (gradient[a]) {
      wrt[n++] = a;
    } else if (value[a]) {
      if (!n_blocked++) blocked = a;
    } else if (!n_untrained++) {
      untrained = a;
    }
  }
  if (n_blocked && diags) report_blocked(loss, blocked, n_blocked, diags);
  if (n_untrained && diags) report_untrained(m, model, untrained, n_untrained, as_error, diags);
  return n_untrained ? -1 - n_untrained : n;
}
