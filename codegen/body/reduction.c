/* Reductions over any axes, several of one operand shape together: their nest. */
#include "codegen/body/body.h"

void *vtb__reduction_operand(vtb_body *b, const vtb_reduction *d, int r) {
  vtb_index index[VTB_MAX_RANK];
  vtb__space_index(b, &d->space, index);
  return vtb__body_eval(b, d->roots[r].value->def->operands[0], index);
}

vtb_index vtb__reduction_result(vtb_body *b, const vtb_reduction *d) {
  vtb_index index[VTB_MAX_RANK], at = {0};
  int64_t stride = 1;
  const vtb_type *t = &d->roots[0].value->def->operands[0]->type;
  vtb__space_index(b, &d->space, index);
  for (int a = t->rank - 1; a >= 0; a--) {
    if (d->reduced[a]) continue;
    vtb_index part = vtb__index_scale(b, &index[a], stride);
    at = vtb__index_add(b, &at, &part);
    stride *= t->dim[a].size;
  }
  return at;
}

bool vtb__reduction_over(const vtb_reduction *d, const vtb_group *g) {
  for (int a = 0; a < d->space.rank; a++)
    if (g->first >= d->space.first[a] && g->first < d->space.first[a] + d->space.count[a])
      return d->reduced[a];
  return false;
}

static void probe_reduction(vtb_body *b, vtb_space *s, void *user) {
  vtb_reduction *d = user;
  d->space = *s;
  for (int r = 0; r < d->n; r++) vtb__reduction_operand(b, d, r);
  vtb_index at = vtb__reduction_result(b, d);
  vtb__index_used(b, &at);
  bool over[VTB_NEST_MAX] = {0};
  for (int a = 0; a < s->rank; a++)
    for (int k = s->first[a]; k < s->first[a] + s->count[a]; k++) over[k] = d->reduced[a];
  for (int k = 0; k + 1 < b->n_vars; k++) b->no_merge[k] = over[k] != over[k + 1];
}

void vtb__reduction_begin(vtb_body *b, vtb_reduction *d, const vtb_root *roots, int n) {
  const vtb_inst *first = roots[0].value->def;
  int n_axes;
  const int64_t *axes = vtb_attr_ints(first, "axes", &n_axes);
  *d = (vtb_reduction){.roots = roots, .n = n, .count = vtb_type_count(&roots[0].value->type)};
  for (int i = 0; i < n_axes; i++) d->reduced[axes[i]] = true;
  vtb_space space;
  vtb__space_init(b, &space, &first->operands[0]->type);
  vtb__probe(b, &space, probe_reduction, d);
  if (b->n_groups > 0) return; /* all axes have size 1: a loop of one turn */
  b->n_vars = b->n_groups = 1;
  b->var_size[0] = 1;
  b->groups[0] = (vtb_group){0, 0, 1, NULL};
}
