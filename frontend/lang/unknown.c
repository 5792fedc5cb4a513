/* Names that nothing has: what is said besides. A file is suggested only if it declares the
 * name. */
#include "frontend/lang/habits.h"
#include "frontend/lang/value.h"

/* A value that was bound in a body that has ended, or in the body of a caller. */
static const vtb__binding *ended(const vtb__env *env, const char *name) {
  for (; env; env = env->up)
    for (vtb__env *inner = env->ended; inner; inner = inner->ended_next) {
      const vtb__binding *b = vtb__env_find_here(inner, name);
      if (b) return b;
    }
  return NULL;
}

static const vtb__binding *of_caller(const vtb__env *env, const char *name) {
  while (env && env->up) env = env->up;
  for (env = env ? env->caller : NULL; env; env = env->up ? env->up : env->caller) {
    const vtb__binding *b = vtb__env_find_here((vtb__env *)env, name);
    if (b) return b;
  }
  return NULL;
}

static bool hint_ended(vtb__eval *e, const char *name) {
  const vtb__binding *b = ended(e->env, name);
  if (!b) return false;
  if (b->fixed) {
    vtb_diag_note(e->diags, b->span, "'%s' is %s, and is gone after it", name, b->fixed);
    return true;
  }
  vtb_diag_note(e->diags, b->span, "assigned here, inside along, whose variables stay inside");
  vtb_diag_help(e->diags,
                "the value of an along is that of its last line: '%s = along(...) { ... }'", name);
  return true;
}

/* Assigned, or an input, further down in the same body. */
static bool hint_below(vtb__eval *e, const char *name, vtb_span span) {
  if (!e->decl || e->decl->name.span.source != span.source) return false;
  for (size_t i = 0; i < e->decl->body.n; i++) {
    const vtb_stmt *s = e->decl->body.at[i];
    vtb_name n = {0};
    if (s->kind == VTB_STMT_LET) n = s->u.let.name;
    for (size_t k = 0; s->kind == VTB_STMT_ASSIGN && k < s->u.assign.n_targets; k++)
      if (strcmp(s->u.assign.targets[k].text, name) == 0) n = s->u.assign.targets[k];
    for (size_t k = 0; s->kind == VTB_STMT_INPUT && k < s->u.input.n_names; k++)
      if (strcmp(s->u.input.names[k].text, name) == 0) n = s->u.input.names[k];
    if (!n.text || strcmp(n.text, name) != 0 || n.span.begin < span.begin) continue;
    vtb_diag_note(e->diags, n.span, "'%s' gets its value here, further down", name);
    return true;
  }
  return false;
}

static bool hint_caller(vtb__eval *e, const char *name) {
  const vtb__binding *b = of_caller(e->env, name);
  if (!b || !e->decl) return false;
  vtb_diag_note(e->diags, b->span, "this '%s' belongs to the caller", name);
  vtb_diag_help(e->diags,
                "%s '%s' sees its own parameters only: declare '%s: %s' there and pass it, "
                "%s(..., %s = %s)",
                vtb__decl_kind_text(e->decl->kind), e->decl->name.text, name,
                vtb__kind_text(b->value.kind), e->decl->name.text, name, name);
  return true;
}

/* The picture that inputs are views of. */
static bool hint_view(vtb__eval *e, const char *name) {
  const vtb__declared *view = NULL;
  for (size_t i = 0; e->frame && i < e->frame->inputs.n && !view; i++)
    if (vtb_streq(e->frame->inputs.at[i].view, name)) view = &e->frame->inputs.at[i];
  if (view)
    vtb_diag_help(e->diags, "the model sees views of it, like '%s'; augment sees '%s' itself",
                  view->name.text, name);
  return view != NULL;
}

static bool hint_habit(vtb__eval *e, const char *name) {
  const char *help = vtb__habit(VTB__HABIT_NAME, name);
  if (help) vtb_diag_help(e->diags, "%s", help);
  return help != NULL;
}

static void hint_near(vtb__eval *e, const char *name) {
  VTB_VEC(const char *) names = {0};
  for (vtb__env *env = e->env; env; env = env->up)
    for (vtb__binding *b = env->first; b; b = b->next) vtb_vec_push(&names, b->name);
  const char **more = NULL;
  size_t n = vtb__file_names(e->file, &more);
  for (size_t i = 0; i < n; i++) vtb_vec_push(&names, more[i]);
  vtb_free(more);
  n = vtb__builtin_names(&more);
  for (size_t i = 0; i < n; i++) vtb_vec_push(&names, more[i]);
  vtb_free(more);
  vtb__suggest_help(e, name, names.at, names.n);
  vtb_vec_free(&names);
}

vtb__val vtb__unknown_name(vtb__eval *e, const char *what, const char *name, vtb_span span) {
  const vtb_decl *hidden = vtb__unit_lookup_anywhere(e->unit, name);
  const char *use = hidden ? NULL : vtb__file_to_use(e->unit, name);
  if (use && e->missing_use && strcmp(e->missing_use, use) == 0)
    return VTB__ERR; /* one line mends all of these */
  vtb__report(e, VTB_DIAG_UNKNOWN_NAME, span, "unknown %s '%s'", what, name);
  if (e->stopped) return VTB__ERR;
  if (hidden) {
    vtb_diag_note(e->diags, hidden->name.span,
                  "declared here, in a file that this one does not use");
  } else if (use) {
    e->missing_use = use;
    vtb_diag_help(e->diags, "it is declared in std: add `use %s` at the top of the file", use);
  } else if (!hint_ended(e, name) && !hint_below(e, name, span) && !hint_caller(e, name) &&
             !hint_view(e, name) && !hint_habit(e, name)) {
    hint_near(e, name);
  }
  return VTB__ERR;
}
