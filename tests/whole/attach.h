/* An optimiser of models/std behind a training step. */
#ifndef VTB_TEST_ATTACH_H
#define VTB_TEST_ATTACH_H

#include "frontend/lang/lang.h"
#include "passes/passes.h"

/* what: a name, or a path. settings: its hyperparameters. The optimiser's text goes, and with it
 * what refers to it. */
static inline void attach_update(vtb_module *m, vtb_func *step, const char *what,
                                 const vtb_override *settings, size_t n, bool average) {
  vtb_diags diags = {0};
  vtb_error err = {0};
  bool file = vtb_ends_with(what, ".vtb");
  vtb_unit *u = file ? vtb_unit_load(what, NULL, &diags) : vtb_unit_find(what, NULL, &diags);
  vtb_instantiate_options o = {.overrides = settings, .n_overrides = n};
  vtb_module *rule = vtb_instantiate(u, file ? NULL : what, &o, &diags);
  vtb_diags_print(&diags, stderr);
  vtb_update_options update = {.rule = rule ? rule->entry : NULL, .average = average};
  if (!rule || vtb_attach_update(m, step, &update, &err) != VTB_OK) {
    fprintf(stderr, "no update by %s: %s\n", what, err.text);
    exit(1);
  }
  for (vtb_func *f = m->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_RULE) continue;
    f->span = VTB_NO_SPAN;
    for (vtb_inst *i = f->first; i; i = i->next) i->span = VTB_NO_SPAN;
  }
  vtb_module_free(rule);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
}

#endif
