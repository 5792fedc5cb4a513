/* Rows: reductions over the last axis among elementwise ops (norms, softmax, their adjoints).
 *
 * A reduction of level k needs those of lower levels, so a row is walked once a level and once more
 * for the results. Probing finds the reductions, with the index each is needed at, and which values
 * several passes need. Declines if a reduction is over anything else than the row, or a result has
 * another shape. Sums over leading axes that are results, in parts (kind strips), add up what the
 * last pass makes of each row.
 */
#include "codegen/body/body.h"

#include <string.h>

void vtb__row_operand(const vtb_body *b, const vtb_row_sum *s, vtb_index *out) {
  const vtb_type *t = &s->value->def->operands[0]->type;
  for (int a = 0; a + 1 < t->rank; a++) out[a] = s->index[a];
  out[t->rank - 1] =
      t->dim[t->rank - 1].size == 1 ? vtb__index_const(0) : vtb__index_var(b->n_vars - 1, 1);
}

bool vtb__row_root(const vtb_body *b, const vtb_row *r, const vtb_value *v, vtb_index *index,
                   bool *full) {
  vtb_index whole[VTB_MAX_RANK];
  int rank = r->shape.rank, n = v->type.rank;
  vtb__space_index(b, &r->space, whole);
  if (n != rank && n != rank - 1) return false;
  for (int a = 0; a < rank - 1; a++) {
    if (v->type.dim[a].size != r->shape.dim[a].size) return false;
    index[a] = whole[a];
  }
  *full = n == rank && v->type.dim[n - 1].size == r->shape.dim[rank - 1].size;
  if (n == rank && !*full && v->type.dim[n - 1].size != 1) return false;
  if (n == rank) index[n - 1] = *full ? whole[n - 1] : vtb__index_const(0);
  return true;
}

void vtb__row_know(vtb_body *b, const vtb_row_sum *s, void *value) {
  vtb_memo known = {.value = s->value, .result = value};
  memcpy(known.index, s->index, sizeof known.index);
  vtb_vec_push(&b->memo, known);
}

bool vtb__row_is_strip(const vtb_value *v) {
  return vtb__is_reduce(v) && vtb_attr_int(v->def, "parts", 0) > 0;
}

vtb_index vtb__row_strip_index(vtb_body *b, const vtb_row *r) {
  vtb_index index[VTB_MAX_RANK], at = {0};
  int64_t stride = 1;
  vtb__space_index(b, &r->space, index);
  for (int a = r->shape.rank - 1; a >= r->strip; a--) {
    vtb_index part = vtb__index_scale(b, &index[a], stride);
    at = vtb__index_add(b, &at, &part);
    stride *= r->shape.dim[a].size;
  }
  return at;
}

/* ---- probing --------------------------------------------------------------------------------- */

static bool fits(const vtb_body *b, const vtb_row *r, const vtb_value *v, const vtb_index *index) {
  const vtb_type *t = &v->def->operands[0]->type;
  int n;
  const int64_t *axes = vtb_attr_ints(v->def, "axes", &n),
                columns = r->shape.dim[r->shape.rank - 1].size;
  if (n != 1 || axes[0] != t->rank - 1 || t->dim[t->rank - 1].size != columns) return false;
  if (b->var_size[b->n_vars - 1] != columns) return false;
  for (int a = 0; a < v->type.rank; a++)
    if (index[a].dyn || index[a].coef[b->n_vars - 1]) return false;
  return true;
}

static bool is_same(const vtb_body *b, const vtb_row_sum *s, const vtb_value *v,
                    const vtb_index *index) {
  bool same = s->value == v;
  for (int a = 0; same && a < v->type.rank; a++)
    same = vtb__index_equal(b, &s->index[a], &index[a]);
  return same;
}

/* Looks at all that the pass of the sum's level will, with a fresh memo: passes see no values of
 * one another. */
static void look_into(vtb_body *b, const vtb_row_sum *s) {
  vtb_index inner[VTB_MAX_RANK];
  vtb_body outer = *b;
  vtb__row_operand(b, s, inner);
  b->memo.at = NULL;
  b->memo.n = b->memo.cap = 0;
  b->pass = s->level;
  vtb__body_eval(b, s->value->def->operands[0], inner);
  vtb_vec_free(&b->memo);
  b->memo.at = outer.memo.at;
  b->memo.n = outer.memo.n;
  b->memo.cap = outer.memo.cap;
  b->pass = outer.pass;
}

static void *found_sum(vtb_body *b, const vtb_value *v, const vtb_index *index) {
  vtb_row *r = b->user;
  void *nothing = b->target->number(b, VTB_F32, 0);
  vtb_check(b->probing, "row sum %%%s is not in its pass", v->name);
  if (r->failed || !fits(b, r, v, index)) {
    r->failed = true;
    return nothing;
  }
  for (size_t i = 0; i < r->sums.n; i++)
    if (is_same(b, &r->sums.at[i], v, index)) return nothing;
  vtb_row_sum s = {.value = v, .level = vtb__reduce_level(b, v)};
  memcpy(s.index, index, sizeof *index * (size_t)v->type.rank);
  vtb_vec_push(&r->sums, s);
  if (s.level > r->levels) r->levels = s.level;
  look_into(b, &s);
  return nothing;
}

/* Its columns, an element a row; strips cut the rows, so that what they are over stays apart. */
static void probe_strip(vtb_body *b, vtb_row *r, const vtb_value *v) {
  vtb_index whole[VTB_MAX_RANK];
  int n;
  vtb_attr_ints(v->def, "axes", &n);
  r->failed |=
      (r->strip && r->strip != n) || !vtb_type_equal(&v->def->operands[0]->type, &r->shape);
  r->strip = n;
  if (r->failed) return;
  vtb__space_index(b, &r->space, whole);
  vtb__body_eval(b, v->def->operands[0], whole);
  vtb_index at = vtb__row_strip_index(b, r);
  vtb__index_used(b, &at);
  int kept = r->space.first[n]; /* the first variable that is not summed over */
  if (kept > 0) b->no_merge[kept - 1] = true;
}

static void probe_row(vtb_body *b, vtb_space *s, void *user) {
  vtb_row *r = user;
  r->space = *s;
  r->sums.n = 0;
  r->levels = r->strip = 0;
  r->failed = false;
  for (int i = 0; i < r->n_roots && !r->failed; i++) {
    vtb_index index[VTB_MAX_RANK];
    bool full;
    b->pass = VTB_LAST_PASS;
    if (vtb__row_is_strip(r->roots[i].value))
      probe_strip(b, r, r->roots[i].value);
    else if (vtb__row_root(b, r, r->roots[i].value, index, &full))
      b->target->store(b, &r->roots[i], index, vtb__body_eval(b, r->roots[i].value, index));
    else
      r->failed = true;
  }
  if (b->n_vars > 1) b->no_merge[b->n_vars - 2] = true; /* the row stays apart */
}

bool vtb__row_begin(vtb_body *b, vtb_row *r, const vtb_root *roots, int n) {
  const vtb_value *v =
      vtb__row_is_strip(roots[0].value) ? roots[0].value->def->operands[0] : roots[0].value;
  *r = (vtb_row){.roots = roots, .n_roots = n, .shape = v->type};
  /* the largest shape among results and reduced operands is that of the rows */
  for (int i = 0; i < n; i++)
    if (vtb_type_count(&roots[i].value->type) > vtb_type_count(&r->shape) &&
        !vtb__row_is_strip(roots[i].value))
      r->shape = roots[i].value->type;
  for (int i = 0; (v = vtb__body_reduction(b, i)); i++)
    if (vtb_type_count(&v->def->operands[0]->type) > vtb_type_count(&r->shape))
      r->shape = v->def->operands[0]->type;
  if (r->shape.rank == 0 || r->shape.dim[r->shape.rank - 1].size == 1) return false;
  vtb_space space;
  vtb__space_init(b, &space, &r->shape);
  b->user = r;
  b->reduce = found_sum;
  b->keep = true;
  vtb__probe(b, &space, probe_row, r);
  return !r->failed && r->levels < VTB_LAST_PASS;
}

void vtb__row_end(vtb_body *b, vtb_row *r) {
  vtb__nest_end(b);
  b->kept.n = 0;
  b->keep = false;
  b->reduce = NULL;
  vtb_vec_free(&r->sums);
}
