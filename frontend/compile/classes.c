/* The hyperparameter that says how many classes a model has. */
#include "frontend/compile/classes.h"

#include "frontend/lang/lang.h"

#include <string.h>

int vtb_class_scores(const vtb_func *f) {
  const vtb_type *t = f->n_returns ? &f->returns[0]->type : NULL;
  return t && t->rank == 2 ? (int)t->dim[1].size : 0;
}

static bool is_set(const vtb_compile_options *o, const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i < o->n_defines; i++)
    if (strncmp(o->defines[i], name, n) == 0 && o->defines[i][n] == '=') return true;
  return false;
}

/* The model with one setting more, in place of number `without` of the options', gives that many
 * scores. */
static bool gives(const vtb_compile_options *o, size_t without, const char *define, int classes) {
  vtb_compile_options with = *o;
  vtb_compilation c;
  vtb_report *quiet = vtb_report_new();
  const char **defines = vtb_xcalloc(o->n_defines + 1, sizeof *defines);
  size_t n = 0;
  for (size_t i = 0; i < o->n_defines; i++)
    if (i != without) defines[n++] = o->defines[i];
  defines[n++] = define;
  with.defines = defines;
  with.n_defines = n;
  bool does = quiet && vtb_compilation_load(&c, &with, NULL, quiet) == VTB_OK &&
              vtb_class_scores(c.module->entry) == classes;
  if (quiet) vtb_compilation_free(&c);
  vtb_report_free(quiet);
  vtb_free(defines);
  return does;
}

bool vtb_class_setting(const vtb_compile_options *o, const vtb_compilation *c, int classes,
                       char *define, size_t n) {
  const char **names;
  size_t count = vtb_unit_int_settings(c->unit, c->module->entry->name, &names);
  bool found = false;
  for (int named = 1; named >= 0 && !found; named--) /* those called after classes first */
    for (size_t i = 0; i < count && !found; i++) {
      bool by_name = strstr(names[i], "class") != NULL;
      char text[64];
      if (by_name != (named == 1) || is_set(o, names[i])) continue;
      if (snprintf(text, sizeof text, "%s=%d", names[i], classes) >= (int)sizeof text) continue;
      found = gives(o, SIZE_MAX, text, classes);
      if (found) snprintf(define, n, "%s", text);
    }
  vtb_free(names);
  return found;
}

vtb_status vtb_wrong_classes(const vtb_compile_options *o, const vtb_compilation *c, int have,
                             int classes) {
  const char *model = c->module->entry->name;
  for (size_t i = 0; i < o->n_defines; i++) {
    char text[64];
    int name = (int)strcspn(o->defines[i], "=");
    if (snprintf(text, sizeof text, "%.*s=%d", name, o->defines[i], classes) < (int)sizeof text &&
        gives(o, i, text, classes))
      return vtb_fail(&c->report->error, VTB_E_INPUT,
                      "the data has %d classes and the model %d, by -D %s: set %s", classes, have,
                      o->defines[i], text);
  }
  return vtb_fail(
      &c->report->error, VTB_E_INPUT,
      "the data has %d classes and the model %d, and no hyperparameter of '%s' sets that: "
      "write its last layer with one, classes: int = %d",
      classes, have, model, classes);
}
