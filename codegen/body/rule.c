/* See rule.h. */
#include "codegen/body/rule.h"
#include "ir/ops.h"

void vtb_rule_open(const vtb_inst *update, vtb_rule *r) {
  const vtb_func *f = update->callee;
  size_t n = (size_t)f->n_values + 1;
  *r = (vtb_rule){.func = f, .u = vtb_update_of(update), .n_phases = 1};
  r->n_vectors = vtb_update_vectors(&r->u);
  r->level = vtb_xcalloc(n, sizeof *r->level);
  r->sum = vtb_xcalloc(n, sizeof *r->sum);
  r->needed = vtb_xcalloc(n, sizeof *r->needed);
  for (int v = 0; v < f->n_values; v++) r->sum[v] = -1;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    int level = 0, id = i->results[0]->id;
    for (int o = 0; o < i->n_operands; o++)
      if (r->level[i->operands[o]->id] > level) level = r->level[i->operands[o]->id];
    if (i->op == VTB_OP_reduce_sum) r->sum[id] = r->n_sums++, level++;
    r->level[id] = level;
    if (level >= r->n_phases) r->n_phases = level + 1;
  }
}

void vtb_rule_close(vtb_rule *r) {
  vtb_free(r->level);
  vtb_free(r->sum);
  vtb_free(r->needed);
}

bool vtb_rule_adds(const vtb_rule *r, const vtb_value *v, int p) {
  return r->sum[v->id] >= 0 && r->level[v->id] == p + 1;
}

void vtb_rule_begin(vtb_rule *r, int p) {
  const vtb_func *f = r->func;
  bool last = p == r->n_phases - 1;
  for (int v = 0; v < f->n_values; v++) r->needed[v] = false;
  for (int k = 0; last && k < f->n_returns; k++) r->needed[f->returns[k]->id] = true;
  for (const vtb_inst *i = f->last; i; i = i->prev) {
    const vtb_value *v = i->results[0];
    bool adds = vtb_rule_adds(r, v, p), known = r->sum[v->id] >= 0;
    if (adds || (r->needed[v->id] && !known))
      for (int o = 0; o < i->n_operands; o++) r->needed[i->operands[o]->id] = true;
  }
}

int vtb_cut_pieces(vtb_value *const *tensors, int n, vtb_piece **out, int *first) {
  VTB_VEC(vtb_piece) v = {0};
  for (int i = 0; i < n; i++) {
    int64_t count = vtb_type_count(&tensors[i]->type);
    first[i] = (int)v.n;
    for (int64_t at = 0; at < count; at += VTB_PIECE) {
      int64_t left = count - at < VTB_PIECE ? count - at : VTB_PIECE;
      vtb_vec_push(&v, ((vtb_piece){i, at, left}));
    }
  }
  first[n] = (int)v.n;
  *out = v.at;
  return (int)v.n;
}
