/* Nests: variables of an iteration space, probing, merging into groups. */
#include "codegen/body/body.h"

#include <assert.h>

void vtb__body_init(vtb_body *b, const vtb_body_target *target, const vtb_inst *inst) {
  *b = (vtb_body){.target = target, .inst = inst, .vec = -1, .lanes = 1};
  for (int o = 0; inst && o < inst->n_operands; o++) {
    const vtb_value *v = inst->callee ? inst->callee->args[o] : inst->operands[o];
    vtb_vec_push(&b->leaves, ((vtb_leaf){.value = v, .tensor = o}));
  }
}

void vtb__body_free(vtb_body *b) {
  vtb_vec_free(&b->leaves);
  vtb_vec_free(&b->memo);
  vtb_vec_free(&b->kept);
  vtb_vec_free(&b->uses);
  vtb_vec_free(&b->levels);
}

void vtb__nest_end(vtb_body *b) {
  b->memo.n = 0;
  b->vec = -1;
  b->lanes = 1;
}

/* ---- spaces ---------------------------------------------------------------------------------- */

void vtb__space_init(vtb_body *b, vtb_space *s, const vtb_type *shape) {
  *s = (vtb_space){.rank = shape->rank};
  b->n_vars = 0;
  for (int k = 0; k < VTB_NEST_MAX; k++) b->no_merge[k] = false;
  for (int a = 0; a < shape->rank; a++) {
    s->first[a] = b->n_vars;
    s->count[a] = shape->dim[a].size > 1;
    if (s->count[a]) b->var_size[b->n_vars++] = shape->dim[a].size;
  }
}

void vtb__space_index(const vtb_body *b, const vtb_space *s, vtb_index *index) {
  for (int a = 0; a < s->rank; a++) {
    int64_t coef = 1;
    index[a] = vtb__index_const(0);
    for (int k = s->first[a] + s->count[a] - 1; k >= s->first[a]; k--) {
      index[a].coef[k] = coef;
      coef *= b->var_size[k];
    }
  }
}

static void split_var(vtb_body *b, vtb_space *s, int k, int64_t inner) {
  assert(b->n_vars < VTB_NEST_MAX && k < b->n_vars);
  assert(inner > 1 && b->var_size[k] % inner == 0);
  for (int i = b->n_vars; i > k + 1; i--) b->var_size[i] = b->var_size[i - 1];
  b->var_size[k] /= inner;
  b->var_size[k + 1] = inner;
  b->n_vars++;
  for (int a = 0; a < s->rank; a++) {
    if (s->first[a] > k)
      s->first[a]++;
    else if (k < s->first[a] + s->count[a])
      s->count[a]++;
  }
}

/* ---- probing --------------------------------------------------------------------------------- */

static bool may_join(const vtb_body *b, int k) {
  if (b->apart || b->no_merge[k]) return false;
  for (size_t u = 0; u < b->uses.n; u++)
    if (b->uses.at[u].coef[k] != b->uses.at[u].coef[k + 1] * b->var_size[k + 1]) return false;
  return true;
}

static void merge_groups(vtb_body *b) {
  b->n_groups = 0;
  for (int k = 0; k < b->n_vars; k++) {
    vtb_group *g = b->n_groups ? &b->groups[b->n_groups - 1] : NULL;
    if (g && may_join(b, k - 1)) {
      g->last = k;
      g->size *= b->var_size[k];
    } else {
      b->groups[b->n_groups++] = (vtb_group){k, k, b->var_size[k], NULL};
    }
  }
}

static void probe_once(vtb_body *b, vtb_space *s, vtb_probe_fn emit, void *user) {
  void *variable = b->target->begin_probe(b);
  b->n_groups = b->n_vars;
  for (int k = 0; k < b->n_vars; k++) b->groups[k] = (vtb_group){k, k, b->var_size[k], variable};
  b->uses.n = b->memo.n = b->kept.n = 0;
  b->split_inner = 0;
  b->lanes = 1;
  b->vec = b->n_groups - 1;
  b->probing = true;
  emit(b, s, user);
  b->probing = false;
  b->memo.n = 0;
  b->vec = -1;
  b->target->end_probe(b);
}

void vtb__probe(vtb_body *b, vtb_space *s, vtb_probe_fn emit, void *user) {
  for (;;) {
    probe_once(b, s, emit, user);
    if (!b->split_inner) break;
    split_var(b, s, b->split_var, b->split_inner);
  }
  merge_groups(b);
}
