/* Suggestions of messages for axes that are not there and shapes that do not fit. A shape is
 * suggested only if it has been tried. */
#include "frontend/lang/habits.h"
#include "frontend/lang/value.h"

/* ---- axes ------------------------------------------------------------------------------------ */

static void add_axis(vtb_strbuf *s, const char *name) {
  vtb_strbuf_printf(s, "%s\"%s\"", s->n ? ", " : "", name);
}

/* "\"B\", \"tokens\", \"channels\"", as builtins know them; NULL: no names. */
static const char *axes_text(vtb__eval *e, vtb__val v) {
  static const char *const of_grid[] = {"frames", "height", "width"};
  const vtb_type *t = &v.u.t.v->type;
  const vtb__layout *l = v.u.t.layout;
  bool tokens = l->kind == VTB__TOKENS, image = l->kind == VTB__IMAGE;
  int channels = image ? 1 : tokens ? t->rank - 1 : -1;
  int open = image || (tokens && l->grid.rank > 1 && t->rank == 3) ? l->grid.rank : 0;
  vtb_strbuf s = {0};
  for (int i = 0; i < t->rank; i++) {
    if (tokens && i == 1) add_axis(&s, "tokens");
    for (int k = 0; i == channels && !image && k < open; k++) add_axis(&s, of_grid[3 - open + k]);
    if (i == channels) add_axis(&s, "channels");
    for (int k = 0; i == channels && image && k < open; k++) add_axis(&s, of_grid[3 - open + k]);
    bool said = i == channels || (tokens && i == 1) || (image && i > 1);
    if (!said && t->dim[i].name) add_axis(&s, t->dim[i].name);
  }
  const char *text = s.n ? vtb_arena_strndup(&e->arena, s.at, s.n) : NULL;
  vtb_strbuf_free(&s);
  return text;
}

void vtb__hint_axes(vtb__eval *e, vtb__val v) {
  const char *axes = e->stopped || v.kind != VTB__TENSOR ? NULL : axes_text(e, v);
  bool image = axes && v.u.t.layout->kind == VTB__IMAGE;
  if (axes)
    vtb_diag_help(e->diags, "its axes are %s%s", axes,
                  image ? "" : "; without 'axis' the last one is meant");
}

void vtb__hint_call(vtb__eval *e, const char *builtin) {
  const char *help = vtb__habit(VTB__HABIT_CALL, builtin);
  if (help && !e->stopped) vtb_diag_help(e->diags, "%s", help);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static const char *shown(vtb__eval *e, const vtb_type *t) {
  vtb_strbuf s = {0};
  vtb_type_print(t, &s);
  const char *text = vtb_arena_strndup(&e->arena, s.at ? s.at : "", s.n);
  vtb_strbuf_free(&s);
  return text;
}

static bool fits(const vtb_type *a, const vtb_type *b) {
  vtb_type joint;
  return vtb_type_broadcast(a, b, &joint);
}

/* v with its last axis divided into n groups. */
static bool grouped(const vtb_type *v, int64_t n, vtb_type *out) {
  if (v->rank < 2 || v->rank == VTB_MAX_RANK || n < 1) return false;
  vtb_dim last = v->dim[v->rank - 1];
  if (vtb_is_batch(last.size) || last.size % n != 0) return false;
  *out = *v;
  out->dim[v->rank - 1] = (vtb_dim){n, "heads"};
  out->dim[out->rank++] = (vtb_dim){last.size / n, last.name};
  return true;
}

/* The call that makes the operand `side` of type v fit `other`; false if nothing that is known
 * does. */
static bool hint_operand(vtb__eval *e, const char *side, const vtb_type *v, const vtb_type *other) {
  vtb_type t;
  for (int i = 0; i < 2 && other->rank == v->rank + 1 && v->rank > 2; i++) {
    int64_t n = i ? 1 : other->dim[other->rank - 2].size;
    if (!grouped(v, n, &t) || !fits(&t, other)) continue;
    vtb_diag_help(e->diags, "group(x, %lld) of %s is %s, which fits", (long long)n, side,
                  shown(e, &t));
    return true;
  }
  if (v->rank > 1 && other->rank == v->rank + 1 && vtb_is_batch(v->dim[0].size)) {
    t = vtb_type_with_axis(v, 1, (vtb_dim){1, NULL});
    if (fits(&t, other)) {
      vtb_diag_help(e->diags, "unsqueeze(x, 1) of %s is %s, which fits", side, shown(e, &t));
      return true;
    }
  }
  if (v->rank == 2) {
    t = *v;
    t.dim[0] = v->dim[1], t.dim[1] = v->dim[0];
    if (v->dim[0].size != v->dim[1].size && fits(&t, other)) {
      vtb_diag_help(e->diags, "transpose(x, [1, 0]) of %s is %s, which fits", side, shown(e, &t));
      return true;
    }
  }
  t = *v;
  if (v->rank == 1 && t.rank < VTB_MAX_RANK) {
    t.dim[t.rank++] = (vtb_dim){1, NULL};
    if (!vtb_is_batch(v->dim[0].size) && v->dim[0].size > 1 && fits(&t, other)) {
      vtb_diag_help(e->diags, "axes meet from the last one: as [%lld, 1] %s would fit",
                    (long long)v->dim[0].size, side);
      return true;
    }
  }
  return false;
}

void vtb__hint_shapes(vtb__eval *e, const vtb_type *a, const vtb_type *b) {
  if (e->stopped) return;
  if (hint_operand(e, "the right operand", b, a) || hint_operand(e, "the left operand", a, b))
    return;
  if (a->rank && b->rank && a->dim[0].size != b->dim[0].size && vtb_is_batch(a->dim[0].size) &&
      vtb_is_batch(b->dim[0].size)) {
    vtb_diag_help(e->diags, "one is as many batches as the other when it is joined, too: concat(x, "
                            "x, axis = \"B\"), random(2 * batch)");
    return;
  }
  for (int i = 1; i <= a->rank && i <= b->rank; i++) {
    vtb_dim x = a->dim[a->rank - i], y = b->dim[b->rank - i];
    if (x.size == y.size || x.size == 1 || y.size == 1 || vtb_is_batch(x.size) ||
        vtb_is_batch(y.size))
      continue;
    const char *name = x.name ? x.name : y.name;
    vtb_diag_help(e->diags,
                  "axes meet from the last one: %s%s is %lld on the left and %lld on "
                  "the right",
                  name     ? "axis "
                  : i == 1 ? "the last axis"
                           : "an axis before it",
                  name ? name : "", (long long)x.size, (long long)y.size);
    return;
  }
}

/* [B, 1, H, W] with [B, H, W]: the axis that the lesser needs behind its batch. */
static void help_align(vtb__eval *e, const vtb_type *less, const vtb_type *more, bool left) {
  const char *side = left ? "the left operand" : "the right operand";
  int n = more->rank - less->rank;
  if (n == 0)
    vtb_diag_help(e->diags,
                  "if pairs of samples are meant, a product makes them: "
                  "einsum(\"i,j->ij\", a, b), of [B, C] einsum(\"ic,jc->ij\", a, b); across(b) "
                  "of [B] meets each sample of a");
  else if (n == 1)
    vtb_diag_help(e->diags, "%s needs an axis of 1 behind its batch: unsqueeze(x, 1)", side);
  else
    vtb_diag_help(e->diags, "%s needs %d axes of 1 behind its batch", side, n);
}

void vtb__hint_batch(vtb__eval *e, const vtb_type *x, const vtb_type *y) {
  bool left = x->rank < y->rank;
  if (!e->stopped) help_align(e, left ? x : y, left ? y : x, left);
}

void vtb__chunk_help(vtb__eval *e) {
  if (!e->stopped)
    vtb_diag_help(e->diags, "a chunk has at least one token: chunkwise(64), or chunkwise alone to "
                            "leave it to the compiler");
}

/* ---- entries -------------------------------------------------------------------------------- */

void vtb__several_models(vtb__eval *e, const vtb_file *root, const vtb_decl *taken) {
  vtb_strbuf others = {0};
  for (size_t i = 0; i < root->decls.n; i++)
    if (root->decls.at[i]->kind == VTB_DECL_MODEL && root->decls.at[i] != taken)
      vtb_strbuf_printf(&others, "%s%s", others.n ? ", " : "", root->decls.at[i]->name.text);
  vtb_diag_warning(e->diags, VTB_DIAG_SEVERAL_MODELS, taken->name.span,
                   "of the models of this file '%s' is taken, the last", taken->name.text);
  vtb_diag_help(e->diags, "--entry NAME takes another: %s", others.at);
  vtb_strbuf_free(&others);
}

void vtb__list_entries(vtb__eval *e, const vtb_file *root) {
  vtb_strbuf list = {0};
  for (size_t i = 0; i < root->decls.n && list.n < 400; i++) {
    const vtb_decl *d = root->decls.at[i];
    if (d->kind == VTB_DECL_MODEL || d->kind == VTB_DECL_PRESET)
      vtb_strbuf_printf(&list, "%s%s", list.n ? ", " : "", d->name.text);
  }
  if (list.n) vtb_diag_help(e->diags, "its models and presets are %s", list.at);
  vtb_strbuf_free(&list);
}

void vtb__list_hyperparameters(vtb__eval *e, const vtb_decl *d) {
  vtb_strbuf text = {0};
  for (size_t i = 0; i < d->params.n; i++)
    vtb_strbuf_printf(&text, "%s%s", i ? ", " : "", d->params.at[i]->name.text);
  vtb_diag_help(e->diags, "its hyperparameters are %s", text.at ? text.at : "none");
  vtb_strbuf_free(&text);
}
