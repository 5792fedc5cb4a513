/* Names with a meaning of their own: orders, modes, initialisers, `none`, `pi`. */
#include "frontend/lang/value.h"

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
  static const char *const modes[] = {"auto", "parallel", "recurrent", "chunkwise"};
  for (int i = 0; i < 4; i++)
    if (strcmp(name, modes[i]) == 0) {
      *out = (vtb__val){.kind = VTB__MODE, .u.mode = {modes[i], 0}};
      return true;
    }
  if (strcmp(name, "none") == 0)
    *out = VTB__NIL;
  else if (strcmp(name, "training") == 0)
    *out = vtb__bool(e->options->training);
  else if (strcmp(name, "batch") == 0)
    *out = e->batch == VTB_DYN ? vtb__val_string("batch") : vtb__int(e->batch);
  else if (strcmp(name, "pi") == 0)
    *out = vtb__float(3.14159265358979323846);
  else if (vtb__init_builtin(name))
    *out = vtb__init_value(e, name, NULL, 0, VTB_NO_SPAN);
  else
    return false;
  return true;
}

static bool is_word(const char *name) {
  for (size_t i = 0; vtb__words[i]; i++)
    if (strcmp(vtb__words[i], name) == 0) return true;
  return vtb__init_builtin(name);
}

/* What a file declares is found before the builtin of its name, in that file and in those that use
 * it; the others, the standard library among them, go on meaning the builtin. */
static bool hides_builtin(const vtb_decl *d) {
  if (d->kind == VTB_DECL_CONST) return is_word(d->name.text);
  return vtb__is_called(d) && (is_word(d->name.text) || vtb__builtin_find(d->name.text));
}

void vtb__warn_hidden(vtb__eval *e) {
  for (size_t i = 0; i < e->unit->files.n; i++)
    for (size_t k = 0; k < e->unit->files.at[i]->decls.n; k++) {
      const vtb_decl *d = e->unit->files.at[i]->decls.at[k];
      if (!hides_builtin(d)) continue;
      vtb_diag_warning(e->diags, VTB_DIAG_HIDES_BUILTIN, d->name.span,
                       "%s '%s' hides the builtin of that name", vtb__decl_kind_text(d->kind),
                       d->name.text);
      vtb_diag_help(e->diags, "'%s' is the builtin again under another name of this %s",
                    d->name.text, vtb__decl_kind_text(d->kind));
    }
}
