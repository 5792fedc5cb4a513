/* Fusions decided by what plans take: each alternative is lowered and becomes a plan, whose
 * launches are estimated as `dump --estimate` does it (codegen/estimate.h). What kernels cost is in
 * their texts, so no pass could say it as well; a plan takes milliseconds. */
#include "codegen/estimate.h"
#include "frontend/compile/driver.h"

#include <stdlib.h>

typedef struct alternatives {
  const vtb_module *module;
  const char *func;
  const vtb_pass_context *context;
  const vtb_backend *backend;
  vtb_codegen_options code;
  vtb_gpu gpu;
} alternatives;

static vtb_status price(void *user, unsigned declined, unsigned *formed, double *seconds,
                        vtb_error *err) {
  const alternatives *a = user;
  vtb_pass_context context = *a->context;
  vtb_diags diags = {0};
  vtb_launch_plan *plan = NULL;
  context.module = vtb_module_clone(a->module);
  context.module->entry = vtb_module_find(context.module, a->func);
  context.diags = &diags;
  context.declined = declined;
  vtb_status status = vtb_run_pipeline(&context, NULL, err);
  if (status == VTB_OK)
    status = a->backend->plan(context.module, context.module->entry, &a->code, &plan, err);
  if (status == VTB_OK) *seconds = vtb_estimate_plan(plan, &a->gpu, NULL).seconds;
  *formed = context.formed;
  vtb_launch_plan_free(plan);
  vtb_module_free(context.module);
  vtb_diags_free(&diags);
  return status;
}

vtb_status vtb__choose_fusions(const vtb_module *m, const char *func,
                               const vtb_pass_context *context, const vtb_codegen_options *code,
                               vtb_choices *out, vtb_error *err) {
  const char *said = getenv("VTB_FUSIONS");
  *out = (vtb_choices){0};
  alternatives a = {.module = m,
                    .func = func,
                    .context = context,
                    .backend = vtb_backend_of(context->target),
                    .code = *code,
                    .gpu = *vtb_gpu_or_default(&code->gpu)};
  if (!a.backend || !a.backend->plan) return VTB_OK;
  if (said && *said) return vtb_choices_parse(said, out, err);
  a.code.arch = *a.gpu.arch ? a.gpu.arch : NULL; /* its own plan, whatever text is asked for */
  vtb_error why = {0};
  if (vtb_choose(price, &a, out, &why) == VTB_OK) {
    for (int i = 0; i < out->n; i++)
      if (!out->at[i].fused)
        vtb_log("%s is left out: %.4g ms with it, %.4g without, on %s",
                vtb_choice_names[out->at[i].pass], 1e3 * out->at[i].with, 1e3 * out->at[i].without,
                a.gpu.name);
    return VTB_OK;
  }
  *out = (vtb_choices){0}; /* what is wrong shows again when the module is lowered */
  return VTB_OK;
}
