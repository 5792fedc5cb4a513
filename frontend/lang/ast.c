/* Words for kinds of nodes, and which declaration a name means where. */
#include "frontend/lang/ast.h"

const char *vtb__unary_text(vtb_unary_op op) {
  static const char *const text[] = {"-", "not", "~"};
  return text[op];
}

const char *vtb__binary_text(vtb_binary_op op) {
  static const char *const text[] = {
      "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or"};
  return text[op];
}

const char *vtb__decl_kind_text(vtb_decl_kind k) {
  static const char *const text[] = {"model",      "preset", "block",     "fn",
                                     "recurrence", "const",  "optimizer", "schedule"};
  return text[k];
}

vtb_decl *vtb__file_own(const vtb_file *f, const char *name) {
  for (size_t i = 0; i < f->decls.n; i++) {
    vtb_decl *d = f->decls.at[i];
    if (vtb_streq(d->name.text, name)) return d;
    for (size_t k = 0; k < d->n_aliases; k++)
      if (vtb_streq(d->aliases[k].text, name)) return d;
  }
  return NULL;
}

const char *vtb__decl_kind_an(vtb_decl_kind k) {
  static const char *const text[] = {"a model",      "a preset", "a block",      "a fn",
                                     "a recurrence", "a const",  "an optimizer", "a schedule"};
  return text[k];
}

const vtb_decl *vtb__behind_presets(const vtb_decl *d) {
  enum { MOST = 32 }; /* one may lead to itself */
  for (int i = 0; i < MOST && d && d->kind == VTB_DECL_PRESET; i++) {
    const vtb_expr *x = d->value;
    d = x && x->kind == VTB_EXPR_CALL && d->file ? vtb__file_lookup(d->file, x->u.call.callee.text)
                                                 : NULL;
  }
  return d && d->kind == VTB_DECL_PRESET ? NULL : d;
}

bool vtb__is_called(const vtb_decl *d) {
  return d->kind == VTB_DECL_FN || d->kind == VTB_DECL_BLOCK || d->kind == VTB_DECL_RECURRENCE;
}

bool vtb__is_used(const vtb_decl *d) {
  return d->kind != VTB_DECL_OPTIMIZER && d->kind != VTB_DECL_SCHEDULE;
}

vtb_decl *vtb__file_lookup(const vtb_file *file, const char *name) {
  vtb_decl *d = vtb__file_own(file, name);
  for (size_t i = 0; !d && i < file->uses.n; i++) {
    vtb_decl *other = file->uses.at[i].file ? vtb__file_own(file->uses.at[i].file, name) : NULL;
    if (other && vtb__is_used(other)) d = other;
  }
  return d;
}

vtb_decl *vtb__unit_lookup(const vtb_unit *u, const char *name) {
  return u->files.n ? vtb__file_lookup(u->files.at[0], name) : NULL;
}

vtb_decl *vtb__unit_lookup_anywhere(const vtb_unit *u, const char *name) {
  for (size_t i = 0; i < u->files.n; i++) {
    vtb_decl *d = vtb__file_own(u->files.at[i], name);
    if (d) return d;
  }
  return NULL;
}

typedef VTB_VEC(const char *) name_vec;

static void add_names(name_vec *v, const vtb_file *f) {
  for (size_t i = 0; i < f->decls.n; i++) {
    vtb_vec_push(v, f->decls.at[i]->name.text);
    for (size_t k = 0; k < f->decls.at[i]->n_aliases; k++)
      vtb_vec_push(v, f->decls.at[i]->aliases[k].text);
  }
}

size_t vtb__file_names(const vtb_file *file, const char ***out) {
  name_vec v = {0};
  add_names(&v, file);
  for (size_t i = 0; i < file->uses.n; i++)
    if (file->uses.at[i].file) add_names(&v, file->uses.at[i].file);
  *out = v.at;
  return v.n;
}
