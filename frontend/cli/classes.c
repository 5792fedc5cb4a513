#include "frontend/cli/classes.h"

#include "frontend/lang/lang.h"

#include <string.h>

int cli_class_scores(const vtb_func *f) {
  const vtb_type *t = f->n_returns ? &f->returns[0]->type : NULL;
  return t && t->rank == 2 ? (int)t->dim[1].size : 0;
}

static bool is_set(const vtb_compile_options *o, const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i < o->n_defines; i++)
    if (strncmp(o->defines[i], name, n) == 0 && o->defines[i][n] == '=') return true;
  return false;
}

/* The model with one setting more gives that many scores. */
static bool gives(const vtb_compile_options *o, const char *define, int classes) {
  vtb_compile_options with = *o;
  vtb_compilation c;
  vtb_report *quiet = vtb_report_new();
  const char **defines = vtb_xcalloc(o->n_defines + 1, sizeof *defines);
  for (size_t i = 0; i < o->n_defines; i++) defines[i] = o->defines[i];
  defines[o->n_defines] = define;
  with.defines = defines;
  with.n_defines = o->n_defines + 1;
  bool does = quiet && vtb_compilation_load(&c, &with, NULL, quiet) == VTB_OK &&
              cli_class_scores(c.module->entry) == classes;
  if (quiet) vtb_compilation_free(&c);
  vtb_report_free(quiet);
  vtb_free(defines);
  return does;
}

bool cli_class_setting(const vtb_compile_options *o, const vtb_compilation *c, int classes,
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
      found = gives(o, text, classes);
      if (found) snprintf(define, n, "%s", text);
    }
  vtb_free(names);
  return found;
}
