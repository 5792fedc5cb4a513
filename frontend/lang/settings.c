/* Which hyperparameters a model has, for commands that choose among them. */
#include "frontend/lang/ast.h"

#include <string.h>

static const vtb_decl *last_of(const vtb_file *root, vtb_decl_kind kind) {
  const vtb_decl *found = NULL;
  for (size_t i = 0; i < root->decls.n; i++)
    if (root->decls.at[i]->kind == kind) found = root->decls.at[i];
  return found;
}

/* The model that vtb_instantiate() would take; presets are followed to their model. */
static const vtb_decl *model_of(const vtb_unit *u, const char *name) {
  const vtb_file *root = u->files.at[0];
  const vtb_decl *d = name ? vtb__unit_lookup(u, name) : last_of(root, VTB_DECL_MODEL);
  if (!d && !name) d = last_of(root, VTB_DECL_PRESET);
  d = vtb__behind_presets(d);
  return d && d->kind == VTB_DECL_MODEL ? d : NULL;
}

size_t vtb_unit_int_settings(const vtb_unit *u, const char *name, const char ***out) {
  VTB_VEC(const char *) names = {0};
  const vtb_decl *d = u->files.n ? model_of(u, name) : NULL;
  for (size_t i = 0; d && i < d->params.n; i++) {
    const vtb_type_expr *t = d->params.at[i]->type;
    if (t->kind == VTB_TYPE_NAME && strcmp(t->name.text, "int") == 0)
      vtb_vec_push(&names, d->params.at[i]->name.text);
  }
  *out = names.at;
  return names.n;
}
