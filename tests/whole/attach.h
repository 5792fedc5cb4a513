/* An optimiser of models/std behind a training step. */
#ifndef VTB_TEST_ATTACH_H
#define VTB_TEST_ATTACH_H

#include "frontend/lang/lang.h"
#include "passes/passes.h"

/* Equations of one that goes by shapes, each in a module of its own. */
typedef struct attached {
  vtb_unit *unit;
  const char *name;
  vtb_instantiate_options options;
  VTB_VEC(vtb_module *) modules;
} attached;

static inline const vtb_func *attached_equations(void *user, const char *name, int64_t rows,
                                                 int64_t columns) {
  attached *a = user;
  const vtb_updated_tensor tensor = {name, rows, columns};
  vtb_diags diags = {0};
  a->options.tensor = &tensor;
  vtb_module *m = vtb_instantiate(a->unit, a->name, &a->options, &diags);
  vtb_diags_print(&diags, stderr);
  vtb_diags_free(&diags);
  if (m) vtb_vec_push(&a->modules, m);
  return m ? m->entry : NULL;
}

static inline void forget_spans(vtb_func *f) {
  f->span = VTB_NO_SPAN;
  for (vtb_inst *i = f->first; i; i = i->next) i->span = VTB_NO_SPAN;
}

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
  attached shapes = {.unit = u, .name = file ? NULL : what, .options = o};
  vtb_update_options update = {.rule = rule ? rule->entry : NULL, .average = average};
  if (rule && vtb_optimizer_is_shaped(u, shapes.name))
    update.of_tensor = attached_equations, update.user = &shapes;
  if (!rule || vtb_attach_update(m, step, &update, &err) != VTB_OK) {
    fprintf(stderr, "no update by %s: %s\n", what, err.text);
    exit(1);
  }
  for (vtb_func *f = m->first; f; f = f->next)
    if (f->kind == VTB_FUNC_RULE || update.of_tensor) forget_spans(f);
  for (size_t i = 0; i < shapes.modules.n; i++) vtb_module_free(shapes.modules.at[i]);
  vtb_vec_free(&shapes.modules);
  vtb_module_free(rule);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
}

#endif
