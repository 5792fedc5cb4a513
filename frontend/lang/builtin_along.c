/* The axis that a builtin works along, by the name that the user has for it.
 *
 * Without a name it is the last one, which of an image is its width: that is an error. "channels",
 * "frames", "height" and "width" mean the same of tokens, images and grids [B, h, w, C]; "tokens"
 * is that of tokens, and every axis has the name that its type shows. An axis of the grid that
 * tokens stand on is none of their tensor: they are taken apart, and put together again. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

static const char *const grid_words[VTB_GRID_AXES] = {"frames", "height", "width"};
static const char *const grid_names[VTB_GRID_AXES] = {"T", "H", "W"};

/* The number of the grid's axis that the word means, the outermost 0; -1: none. */
static int grid_axis(int rank, const char *word) {
  for (int k = 0; k < rank; k++)
    if (strcmp(grid_words[VTB_GRID_AXES - rank + k], word) == 0) return k;
  return -1;
}

static int named(const vtb_type *t, const char *name) {
  for (int i = 0; i < t->rank; i++)
    if (vtb_streq(t->dim[i].name, name)) return i;
  return -1;
}

/* The axis of x's type that the word means; -1: none. */
static int find(const vtb__eval *e, vtb__val x, const char *word) {
  const vtb_type *t = &x.u.t.v->type;
  const vtb__layout *l = x.u.t.layout;
  int axis = named(t, word), k = grid_axis(VTB_GRID_AXES, word);
  if (axis >= 0 || (e->frame && e->frame->step)) return axis;
  if (strcmp(word, "channels") == 0) return l->kind == VTB__IMAGE ? 1 : t->rank - 1;
  if (l->kind == VTB__TOKENS) return strcmp(word, "tokens") == 0 ? 1 : -1;
  if (l->kind == VTB__IMAGE)
    return grid_axis(l->grid.rank, word) < 0 ? -1 : 2 + grid_axis(l->grid.rank, word);
  return k < 0 ? -1 : named(t, grid_names[k]);
}

bool vtb__take_axis(vtb__eval *e, const vtb__args *a, vtb__val x, vtb__axis *out) {
  const char *word = vtb__arg(a, "axis").u.str.s;
  const vtb__layout *l = x.u.t.layout;
  const vtb_type *t = &x.u.t.v->type;
  *out = (vtb__axis){.x = x, .axis = t->rank - 1, .span = a->span};
  if (!word)
    vtb__warn_windows(e, a->span, x,
                      vtb_arena_printf(&e->arena, "'%s' is along all of them", a->name));
  if (!word && t->rank) return vtb__channels_last(e, a, x);
  if (!word) {
    vtb__report(e, VTB_DIAG_WRONG_RANK, a->span, "%s of a scalar", a->name);
    return false;
  }
  int k = l->kind == VTB__TOKENS ? grid_axis(l->grid.rank, word) : -1;
  if (k >= 0 && l->grid.rank > 1) {
    if (!vtb__needs_grid(e, a, x, true)) return false;
    vtb_type open = vtb__grid_type(t, &l->grid);
    out->x = vtb__tensor(vtb_b_reshape(vtb__at(e, a->span), x.u.t.v, &open), NULL);
    out->axis = 1 + k, out->of_grid = out->opened = true;
    return out->x.kind == VTB__TENSOR;
  }
  out->axis = k == 0 ? 1 : find(e, x, word); /* the width of a series is its tokens */
  out->tokens = l->kind == VTB__TOKENS && out->axis == 1;
  out->of_grid = l->kind == VTB__IMAGE && out->axis > 1;
  if (out->axis >= 0) return true;
  vtb__report(e, strcmp(word, "tokens") == 0 ? VTB_DIAG_NEEDS_TOKENS : VTB_DIAG_WRONG_RANK, a->span,
              "%s has no axis '%s'", vtb__describe(e, x), word);
  vtb__hint_axes(e, x);
  return false;
}

const vtb__layout *vtb__reduced_layout(const vtb__axis *w) {
  return w->tokens || w->of_grid ? &vtb__plain : w->x.u.t.layout;
}

vtb__val vtb__along_axis(vtb__eval *e, const vtb__axis *w, vtb_value *y) {
  if (!y) return VTB__ERR;
  const vtb__layout *l = w->x.u.t.layout;
  vtb_type t = y->type;
  if (w->axis < t.rank - 1) y->type.dim[w->axis].name = w->x.u.t.v->type.dim[w->axis].name;
  if (w->tokens && t.dim[1].size != w->x.u.t.v->type.dim[1].size)
    return vtb__tensor(y,
                       vtb__layout_new(e, (vtb__layout){.kind = VTB__TOKENS,
                                                        .joined = l->joined,
                                                        .grid = vtb_grid_series(t.dim[1].size)}));
  if (!w->of_grid) return vtb__tensor(y, l);
  int64_t side[VTB_GRID_AXES], cells = 1;
  int rank = t.rank - 2, first = w->opened ? 1 : 2;
  for (int k = 0; k < rank; k++) cells *= side[k] = t.dim[first + k].size;
  vtb__layout out = {.kind = w->opened ? VTB__TOKENS : VTB__IMAGE, .grid = vtb_grid_of(rank, side)};
  if (w->opened) {
    vtb_type tokens = {.dtype = t.dtype,
                       .rank = 3,
                       .dim = {t.dim[0], {cells, vtb_intern(e->module, "N")}, t.dim[t.rank - 1]}};
    y = vtb_b_reshape(vtb__at(e, w->span), y, &tokens);
  }
  return vtb__tensor(y, vtb__layout_new(e, out));
}
