/* Text without effect: variables and parameters of a declaration that nothing reads, params of the
 * model that reach no output. Warnings, for the file that was asked for, once it has no errors. And
 * builtins that a declaration hides.
 *
 * Names are looked for in the text, not in what was evaluated: a variable that only another value
 * of a hyperparameter needs is used. A name that begins with _ is never asked about, and no
 * parameter of a shipped model: its presets may carry what only the published code reads. */
#include "frontend/lang/ast_walk.h"
#include "ir/ops.h"
#include "frontend/lang/value.h"

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct names {
  vtb__visitor visitor;
  vtb_map read; /* name -> anything */
  VTB_VEC(const vtb_stmt *) assigned;
} names;

static bool read_name(vtb__visitor *v, const vtb_expr *x) {
  names *n = (names *)v;
  if (x->kind == VTB_EXPR_NAME) vtb_map_set(&n->read, x->u.name, n);
  if (x->kind == VTB_EXPR_CALL) vtb_map_set(&n->read, x->u.call.callee.text, n);
  return true;
}

static bool note_stmt(vtb__visitor *v, const vtb_stmt *s) {
  names *n = (names *)v;
  if (s->kind == VTB_STMT_ASSIGN) vtb_vec_push(&n->assigned, s);
  for (size_t i = 0; s->kind == VTB_STMT_STATE && i < s->u.state.n; i++)
    vtb_map_set(&n->read, s->u.state.at[i]->name.text, n); /* its old value is what a state is */
  return true;
}

static bool unused(const names *n, const char *name) {
  return name[0] != '_' && !vtb_map_has(&n->read, name);
}

/* Names of one statement: of several values those that are not wanted may be there. */
static void check_assignment(vtb__eval *e, const names *n, const vtb_stmt *s) {
  for (size_t i = 0; i < s->u.assign.n_targets; i++)
    if (!unused(n, s->u.assign.targets[i].text)) return;
  vtb_name first = s->u.assign.targets[0];
  vtb_diag_warning(e->diags, VTB_DIAG_UNUSED_NAME, first.span, "'%s' is assigned and never used",
                   first.text);
}

/* Parameters that commands and configs set is read by them. */
static bool has_meaning(const vtb_decl *d, const vtb_param *p) {
  return d->kind == VTB_DECL_MODEL &&
         (strcmp(p->name.text, "image") == 0 || strcmp(p->name.text, "table_image") == 0);
}

static void check_decl(vtb__eval *e, const vtb_decl *d, bool params_too) {
  names n = {.visitor = {.expr = read_name, .stmt = note_stmt}};
  vtb__walk_decl(&n.visitor, d);
  for (size_t i = 0; params_too && i < d->params.n; i++) {
    const vtb_param *p = d->params.at[i];
    if (!unused(&n, p->name.text) || has_meaning(d, p)) continue;
    vtb_diag_warning(e->diags, VTB_DIAG_UNUSED_NAME, p->name.span,
                     "parameter '%s' of %s '%s' is never used", p->name.text,
                     vtb__decl_kind_text(d->kind), d->name.text);
  }
  for (size_t i = 0; i < n.assigned.n; i++) check_assignment(e, &n, n.assigned.at[i]);
  vtb_map_free(&n.read);
  vtb_vec_free(&n.assigned);
}

static bool pass_name(vtb__visitor *v, const vtb_expr *x) {
  if (x->kind == VTB_EXPR_NAME) vtb_map_set(&((names *)v)->read, x->u.name, v);
  return true;
}

/* Parameters of a function that is passed on are what its caller gives. */
void vtb__warn_unused(vtb__eval *e) {
  const vtb_file *root = e->unit->files.at[0];
  bool params_too = !vtb__is_shipped(root);
  names passed = {.visitor = {.expr = pass_name}};
  for (size_t i = 0; i < root->decls.n; i++) vtb__walk_decl(&passed.visitor, root->decls.at[i]);
  for (size_t i = 0; i < root->decls.n; i++) {
    const vtb_decl *d = root->decls.at[i];
    if (d->kind == VTB_DECL_MODEL || d->kind == VTB_DECL_BLOCK || d->kind == VTB_DECL_FN ||
        d->kind == VTB_DECL_RECURRENCE)
      check_decl(e, d, params_too && !vtb_map_has(&passed.read, d->name.text));
  }
  vtb_map_free(&passed.read);
}

/* ---- params ---------------------------------------------------------------------------------- */

/* Which arguments of f a result depends on; kept by the function's name. */
static const bool *reached(vtb__eval *e, vtb_map *known, const vtb_func *f) {
  const bool *have = vtb_map_get(known, f->name);
  if (have) return have;
  bool *value = VTB_NEW_ARRAY(&e->arena, bool, f->n_values + 1);
  bool *args = VTB_NEW_ARRAY(&e->arena, bool, f->n_args + 1);
  for (int i = 0; i < f->n_returns; i++) value[f->returns[i]->id] = true;
  for (const vtb_inst *i = f->last; i; i = i->prev) {
    bool needed = i->op == VTB_OP_tap;
    for (int r = 0; r < i->n_results; r++) needed |= value[i->results[r]->id];
    const bool *of_callee = needed && i->op == VTB_OP_call ? reached(e, known, i->callee) : NULL;
    for (int o = 0; needed && o < i->n_operands; o++)
      if (!of_callee || of_callee[o]) value[i->operands[o]->id] = true;
  }
  for (int a = 0; a < f->n_args; a++) args[a] = value[f->args[a]->id];
  vtb_map_set(known, f->name, args);
  return args;
}

static bool same_place(vtb_span a, vtb_span b) {
  return a.source == b.source && a.begin == b.begin;
}

void vtb__warn_unreached(vtb__eval *e) {
  const vtb__frame *f = e->frame;
  vtb_map known = {0};
  const bool *args = reached(e, &known, f->func);
  VTB_VEC(const vtb__weight *) lost = {0};
  for (size_t i = 0; i < f->weights.n; i++)
    if (f->weights.at[i].role == VTB_ROLE_PARAM && !args[f->weights.at[i].arg->index])
      vtb_vec_push(&lost, &f->weights.at[i]);
  for (size_t i = 0; i < lost.n; i++) {
    size_t before = 0, more = 0;
    for (size_t k = 0; k < lost.n; k++)
      if (k != i && same_place(lost.at[k]->made, lost.at[i]->made)) *(k < i ? &before : &more) += 1;
    if (before) continue; /* one message a line */
    const char *rest =
        more ? vtb_arena_printf(&e->arena, ", nor on %zu more of this line", more) : "";
    vtb_diag_warning(e->diags, VTB_DIAG_UNREACHED_PARAM, lost.at[i]->made,
                     "no output depends on param '%s'%s", lost.at[i]->name, rest);
  }
  vtb_vec_free(&lost);
  vtb_map_free(&known);
}

/* ---- hidden builtins ------------------------------------------------------------------------- */

/* A declaration of a file is found before the builtin of its name, in that file and in those that
 * use it; the others, the standard library among them, go on meaning the builtin. */
static bool hides_builtin(const vtb_decl *d) {
  if (d->kind == VTB_DECL_CONST) return vtb__is_word(d->name.text);
  return vtb__is_called(d) && (vtb__is_word(d->name.text) || vtb__builtin_find(d->name.text));
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
