/* Random cells and their gradients, as a target's passes leave them. */
#ifndef VTB_TEST_FOLD_CELLS_H
#define VTB_TEST_FOLD_CELLS_H

#include "passes/passes.h"
#include "ir/ops.h"
#include "tests/passes/random_step.h"

static inline bool cell_passes(vtb_module *m, const char *pipeline, const char *target,
                               int64_t batch) {
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_pass_context c = {.module = m, .diags = &d, .batch = batch};
  vtb_pipeline_options o = {.pipeline = pipeline, .verify_each = true};
  if (target) c.target = vtb_target_find(target);
  vtb_status status = vtb_run_pipeline(&c, &o, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  vtb_diags_free(&d);
  return status == VTB_OK;
}

static inline int fold_count(const vtb_module *m, bool tiled) {
  int n = 0;
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      n += i->op == VTB_OP_fold && (!tiled || vtb_attr_int(i, "tile", 0));
  return n;
}

/* The entry is the cell's results and all gradients; NULL if the cell happens to be linear. */
static inline vtb_module *cell_gradients(random_step r, const char *target, int64_t batch) {
  static vtb_source source;
  int all[16];
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_func *grad = NULL;
  char *text = random_step_text(r);
  source = (vtb_source){.path = "<cell>", .text = text, .n = strlen(text)};
  vtb_module *m = vtb_module_parse(&source, &d);
  CHECK_MSG(m != NULL, "the IR does not parse:\n%s", text);
  if (!m || !cell_passes(m, vtb_pipeline_graph, NULL, batch) || !fold_count(m, false)) return NULL;
  for (int i = 0; i < 16; i++) all[i] = i;
  vtb_status status =
      vtb_autodiff(m, m->entry, all, m->entry->n_returns, all, m->entry->n_args, &grad, NULL, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status != VTB_OK) return NULL;
  m->entry = grad;
  return cell_passes(m, NULL, target, batch) ? m : NULL;
}

#endif
