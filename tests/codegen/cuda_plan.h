/* From a module of fused kernels to a launch plan, by the passes that target cuda has behind
 * `fuse`, and by `precision`. */
#ifndef VTB_TEST_CUDA_PLAN_H
#define VTB_TEST_CUDA_PLAN_H

#include "ir/update.h"
#include "codegen/targets.h"

#include <string.h>

static inline vtb_status cuda_lower(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                                    vtb_error *err) {
  vtb_pass_context c = {.module = m,
                        .target = vtb_target_find("cuda"),
                        .precision = o->precision,
                        .library = o->library,
                        .asker = vtb_backend_asker(vtb_target_find("cuda"), o),
                        .updates = vtb_has_update(f)};
  const char *behind = strstr(c.target->pipeline, "fuse,") + strlen("fuse,");
  m->entry = f;
  vtb_status status = vtb_run_pipeline(
      &c, &(vtb_pipeline_options){.pipeline = "precision", .verify_each = true}, err);
  if (status == VTB_OK)
    status =
        vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = behind, .verify_each = true}, err);
  vtb_asker_free(c.asker);
  return status;
}

static inline vtb_status cuda_plan(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                                   vtb_launch_plan **plan, vtb_error *err) {
  vtb_status status = cuda_lower(m, f, o, err);
  return status == VTB_OK ? vtb_cuda_plan(m, f, o, plan, err) : status;
}

#endif
