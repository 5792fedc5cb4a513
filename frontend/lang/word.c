/* Names with a meaning of their own: orders, modes, initialisers, `none`, `pi`. */
#include "frontend/lang/value.h"
#include "ir/recurrence.h"

const char *const vtb__words[] = {"rows",     "cols",  "frames",   "snake",     "diagonal",
                                  "hilbert",  "auto",  "parallel", "recurrent", "none",
                                  "training", "batch", "pi",       NULL};

bool vtb__builtin_name(vtb__eval *e, const char *name, vtb__val *out) {
  static const vtb__path orders[] = {{.order = {.order = VTB_PATH_NEST}},
                                     {.order = {.order = VTB_PATH_NEST, .nest = "h"}},
                                     {.order = {.order = VTB_PATH_NEST, .nest = "t"}},
                                     {.order = {.order = VTB_PATH_NEST, .snake = true}},
                                     {.order = {.order = VTB_PATH_DIAGONAL}},
                                     {.order = {.order = VTB_PATH_HILBERT}}};
  for (int i = 0; i < 6; i++)
    if (strcmp(name, vtb__words[i]) == 0) {
      *out = (vtb__val){.kind = VTB__PATH, .u.path = &orders[i]};
      return true;
    }
  for (int i = 0; i < VTB_N_MODES; i++)
    if (strcmp(name, vtb_mode_names[i]) == 0) {
      *out = (vtb__val){.kind = VTB__MODE, .u.mode = {vtb_mode_names[i], 0}};
      return true;
    }
  if (strcmp(name, "none") == 0)
    *out = VTB__NIL;
  else if (strcmp(name, "training") == 0)
    *out = vtb__bool(e->options->training);
  else if (strcmp(name, "batch") == 0)
    *out = vtb__val_string("batch");
  else if (strcmp(name, "pi") == 0)
    *out = vtb__float(3.14159265358979323846);
  else if (vtb__init_builtin(name))
    *out = vtb__init_value(e, name, NULL, 0, VTB_NO_SPAN);
  else
    return false;
  return true;
}

bool vtb__is_word(const char *name) {
  for (size_t i = 0; vtb__words[i]; i++)
    if (strcmp(vtb__words[i], name) == 0) return true;
  return vtb__init_builtin(name);
}
