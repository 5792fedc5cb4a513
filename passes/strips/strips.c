/* strips: a model whose tokens are read one way runs strip by strip of the image's rows.
 *
 *   %p = im2col %x {kernel = [16, 16] ...} : f32[B, N=4096, 768]
 *   %a = call @block(%p, %w)
 *   %y = slice %a {axis = 1, start = 4095, limit = 4096}
 *   =>
 *   %s, %l, %r = fold @strips(%0, %0, 0, %x, %w) {states = 3, steps = 32}     @strips: 128 tokens
 *   %y = %l
 *
 * States are what the recurrences of all blocks hand on, and sums over tokens, tokens that are
 * taken, lines that convolutions wait for. Of the graph, before it is lowered, and of values alone:
 * the way back would keep all of it. Refuses, where something reads tokens that come later.
 */
#include "passes/strips/strips.h"

#include "ir/convolution.h"

/* Tokens of a strip, where nobody says how many rows: a run takes a tenth longer than without
 * strips, with half as many two fifths (docs/results/strips.md). */
enum { TOKENS = 256 };

/* ---- rows ------------------------------------------------------------------------------------ */

static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a; }

/* The rows of all grids have these in common; *tokens: of a row of the first grid. 0: no grid. */
static int64_t count_rows(const vtb_module *m, int64_t *tokens) {
  int64_t rows = 0;
  for (const vtb_func *f = m->first; f; f = f->next) {
    for (const vtb_inst *i = f->first; i && f->kind == VTB_FUNC_PLAIN; i = i->next) {
      vtb_patches p;
      vtb_depthwise d;
      int64_t n = 0, size = 1;
      if (i->op == VTB_OP_im2col && vtb_patches_of(i, &i->operands[0]->type, &p)) {
        n = p.out[VTB_GRID_AXES - p.rank], size = vtb_axes_product(p.out);
      } else if (i->op == VTB_OP_dwconv && vtb_depthwise_of(i, &d)) {
        n = d.grid[vtb__strips_outermost(&d)], size = vtb_axes_product(d.grid);
      }
      if (n < 1 || size == n) continue; /* one line, of tokens */
      if (!rows) *tokens = size / n;
      rows = common(rows, n);
    }
  }
  return rows;
}

/* Images, and where there is no grid sequences of tokens, follow the rows. */
static bool find_inputs(vtb__strips *s, const vtb_func *f, vtb__flow *args) {
  bool any = false;
  s->rows = count_rows(s->module, &s->tokens);
  for (int a = 0; a < f->n_args; a++) {
    const vtb_type *t = &f->args[a]->type;
    int axis = t->rank > 3 ? 2 : 1;
    bool input = f->arg_info[a].role == VTB_ROLE_INPUT && t->rank >= 3 && t->dtype == VTB_F32;
    if (input && !s->rows) s->rows = t->dim[axis].size, s->tokens = 1;
    if (!input || t->dim[axis].size < s->rows) continue;
    int64_t n = t->dim[axis].size;
    args[a] = (vtb__flow){.when = VTB__ROWS, .axis = axis, .per_row = n / s->rows};
    args[a].tail = n - s->rows * args[a].per_row;
    any = true;
  }
  return any;
}

/* The height that is asked for, else the divisor of the rows that comes nearest to TOKENS from
 * below, if it comes near. */
static void choose_height(vtb__strips *s, int64_t asked) {
  int64_t rows = s->rows - s->head, most = asked ? asked : TOKENS / s->tokens;
  if (most < 1) most = 1;
  if (most > rows) most = rows;
  s->height = most;
  for (int64_t h = most; !asked && h > most / 2; h--)
    if (rows % h == 0) {
      s->height = h;
      break;
    }
  s->count = s->height ? rows / s->height : 0;
}

/* ---- the loop -------------------------------------------------------------------------------- */

typedef struct loop {
  vtb_func *body;
  vtb__strip_part *around; /* the entry */
  VTB_VEC(vtb_value *) operands;
} loop;

/* Values from before the loop are constants of it, but for numbers, which are in its code. */
static vtb_value *from_around(vtb__strip_part *p, const vtb_value *v) {
  loop *l = p->user;
  if (v->def && vtb_is_splat(v->def)) return NULL;
  vtb_value *whole = v->def ? vtb__strips_value(l->around, v) : v->func->args[v->index];
  vtb__put(l->body, &l->operands, whole);
  return vtb_func_add_arg(l->body, v->name, v->type);
}

static vtb_value *with_step(vtb_builder *b, vtb_value *x) {
  vtb_type t = vtb_type_with_axis(&x->type, 1, (vtb_dim){.size = 1});
  return vtb_b_reshape(b, x, &t);
}

/* [d0, strips, ..., n, ...] with the strips end to end along `axis`. */
static vtb_value *end_to_end(vtb_builder *b, vtb_value *x, int axis) {
  int64_t perm[VTB_MAX_RANK];
  int64_t strips = x->type.dim[1].size;
  for (int a = 0; a < x->type.rank; a++) perm[a] = a < 1 || a > axis ? a : a == axis ? 1 : a + 1;
  if (axis > 1) x = vtb_b_transpose(b, x, perm);
  vtb_type t = vtb_type_without_axis(&x->type, axis);
  t.dim[axis].size = x->type.dim[axis + 1].size * strips;
  return vtb_b_reshape(b, x, &t);
}

/* A part of the entry. What is not of rows stands in the entry, where a loop has it as a
 * constant. */
static vtb__strip_part part_of(vtb__strips *s, vtb__strip_func *f, int part, vtb_value **slots) {
  vtb__strip_part p = {.s = s, .f = f, .part = part, .slot = slots};
  p.b = (vtb_builder){.module = s->module, .func = f->f};
  p.of = VTB_SCRATCH(f->f, vtb_value *, f->f->n_values);
  return p;
}

static bool follows(const vtb__strip_func *f, const vtb_value *v) {
  return f->of[v->id].when == VTB__ROWS;
}

static void know_whole(vtb__strip_part *p) {
  const vtb_func *f = p->f->f;
  for (int a = 0; a < f->n_args; a++)
    if (!follows(p->f, f->args[a])) p->of[f->args[a]->id] = f->args[a];
  for (const vtb_inst *i = f->first; i; i = i == p->f->last ? NULL : i->next)
    for (int r = 0; r < i->n_results; r++)
      if (p->f->of[i->results[r]->id].when == VTB__WHOLE) p->of[i->results[r]->id] = i->results[r];
}

/* The part's rows of the inputs, and everything that is made of them. */
static void run_part(vtb__strip_part *p) {
  const vtb_func *f = p->f->f;
  for (int a = 0; a < f->n_args; a++) {
    const vtb__flow *x = &p->f->of[f->args[a]->id];
    if (x->when != VTB__ROWS) continue;
    if (!vtb__strips_count(p, x)) continue;
    vtb_value *whole = p->outer ? p->outer(p, f->args[a]) : f->args[a];
    p->of[f->args[a]->id] = vtb__strips_out(p, whole, x->axis, x);
  }
  vtb__strips_emit(p);
}

/* Return r has this, behind what it has already. */
static void append(vtb__strip_part *p, vtb_value **at, int r, vtb_value *now) {
  int axis = p->f->of[p->f->f->returns[r]->id].axis;
  at[r] = at[r] ? vtb_b_concat(&p->b, (vtb_value *[]){at[r], now}, 2, axis) : now;
}

static void append_returns(vtb__strip_part *p, vtb_value **at) {
  const vtb_func *f = p->f->f;
  for (int r = 0; r < f->n_returns; r++) {
    vtb_value *now = p->of[f->returns[r]->id];
    if (follows(p->f, f->returns[r]) && now) append(p, at, r, now);
  }
}

/* One strip as the body of the loop: from what is handed on and its first row, as these behind it,
 * and what returns have of it. */
static void make_body(loop *l) {
  vtb__strip_part *around = l->around;
  vtb__strips *s = around->s;
  vtb__strip_func *f = around->f;
  int n = (int)f->slots.n, n_returns = 0;
  vtb_type one = {.dtype = VTB_I32};
  vtb_value **slots = VTB_SCRATCH(f->f, vtb_value *, n);
  vtb_value **returns = VTB_SCRATCH(f->f, vtb_value *, n + 1 + f->f->n_returns);
  vtb__strip_part p = part_of(s, f, VTB__STRIP, slots);
  p.b.func = l->body;
  p.outer = from_around;
  p.user = l;
  for (int k = 0; k < n; k++) {
    slots[k] = vtb_func_add_arg(l->body, "before", f->slots.at[k].type);
    vtb__put(f->f, &l->operands, around->slot[k]);
  }
  p.row = vtb_func_add_arg(l->body, "row", one);
  vtb__put(f->f, &l->operands, vtb_b_splat(&around->b, (double)s->head, &one));
  run_part(&p);
  for (int k = 0; k < n; k++) returns[n_returns++] = slots[k];
  vtb_value *height = vtb_b_splat(&p.b, (double)s->height, &one);
  returns[n_returns++] = vtb_b_binary(&p.b, VTB_OP_add, p.row, height);
  for (int r = 0; r < f->f->n_returns; r++)
    if (follows(f, f->f->returns[r]))
      returns[n_returns++] = with_step(&p.b, p.of[f->f->returns[r]->id]);
  vtb_func_set_returns(l->body, returns, NULL, n_returns);
}

static void run_loop(vtb__strip_part *around, vtb_value **at) {
  vtb__strip_func *f = around->f;
  int n = (int)f->slots.n, yields = 0;
  loop l = {.body = vtb_func_made_of(f->f, "strips"), .around = around};
  make_body(&l);
  vtb_attr attrs[] = {VTB_A_INT("states", n + 1), VTB_A_INT("seqs", 0),
                      VTB_A_INT("steps", around->s->count)};
  vtb_inst *fold =
      vtb_build_call(&around->b, VTB_OP_fold, l.body, l.operands.at, (int)l.operands.n, attrs, 3);
  for (int r = 0; r < f->f->n_returns; r++) {
    int axis = f->of[f->f->returns[r]->id].axis;
    if (follows(f, f->f->returns[r]))
      append(around, at, r, end_to_end(&around->b, fold->results[yields++], axis));
  }
  for (int k = 0; k < n; k++) around->slot[k] = fold->results[yields + k];
}

static void run_entry(vtb__strips *s, vtb__strip_func *f) {
  int n_returns = f->f->n_returns;
  vtb_value **slots = VTB_SCRATCH(f->f, vtb_value *, f->slots.n);
  vtb_value **at = VTB_SCRATCH(f->f, vtb_value *, n_returns);
  vtb__strip_part p = part_of(s, f, VTB__HEAD, slots);
  know_whole(&p);
  for (int k = 0; k < (int)f->slots.n; k++) slots[k] = vtb__strips_first(&p, k);
  if (s->head || s->has_head) run_part(&p);
  append_returns(&p, at);
  if (s->count) run_loop(&p, at);
  p = part_of(s, f, VTB__REST, slots);
  know_whole(&p);
  run_part(&p);
  append_returns(&p, at);
  for (int r = 0; r < n_returns; r++)
    if (!at[r]) at[r] = vtb__strips_value(&p, f->f->returns[r]);
  vtb_func_set_returns(f->f, at, f->f->return_names, n_returns);
}

static vtb_status make_strips(vtb_module *m, vtb_strips *out, vtb_diags *diags, vtb_error *err) {
  vtb_func *f = m->entry;
  vtb__strips s = {.module = m, .diags = diags};
  vtb__flow *args = VTB_SCRATCH(f, vtb__flow, f->n_args);
  if (!find_inputs(&s, f, args))
    return vtb_fail(err, VTB_E_INPUT, "@%s takes neither images nor sequences: there are no strips",
                    f->name);
  vtb__strip_func *found = vtb__strips_find(&s, f, args);
  if (!found) return vtb_fail(err, VTB_E_INPUT, "there are no strips");
  s.head = found->need;
  if (s.head >= s.rows)
    return vtb_fail(err, VTB_E_INPUT,
                    "convolutions wait for %lld rows of patches, and the image has %lld: there are "
                    "no strips",
                    (long long)s.head, (long long)s.rows);
  choose_height(&s, out->height);
  run_entry(&s, found);
  *out = (vtb_strips){.height = s.height, .count = s.count, .head = s.head, .rows = s.rows};
  return VTB_OK;
}

vtb_status vtb_make_strips(vtb_module *m, vtb_strips *strips, vtb_diags *diags, vtb_error *err) {
  vtb_status status = vtb__verified(m, "after strips", make_strips(m, strips, diags, err), err);
  vtb_arena_free(&m->scratch);
  return status;
}
