/* Nests: variables of an iteration space, probing, merging into groups, and a group's value from a thread's number.
 * Mirrors codegen/cpu/nest.c. */
#include <string.h>

#include "codegen/cuda/expr.h"

void vtb__cuda_expr_init(vtb_cuda_expr *e, vtb_cuda *c, const vtb_inst *inst) {
  *e = (vtb_cuda_expr){.c = c, .inst = inst, .vec = -1, .lanes = 1};
  for (int o = 0; inst && o < inst->n_operands; o++) {
    const vtb_value *v = inst->callee ? inst->callee->args[o] : inst->operands[o];
    vtb_vec_push(&e->leaves, ((vtb_cuda_leaf){.value = v, .tensor = o}));
  }
  for (int i = 0; i < c->unit.n_operands + c->unit.n_results; i++)
    e->wide |= vtb_cuda_reach(c->unit.t[i].type, c->unit.t[i].stride) > INT32_MAX;
}

void vtb__cuda_expr_free(vtb_cuda_expr *e) {
  vtb_vec_free(&e->leaves);
  vtb_vec_free(&e->memo);
  vtb_vec_free(&e->kept);
  vtb_vec_free(&e->uses);
  vtb_vec_free(&e->levels);
}

const char *vtb__cuda_int(const vtb_cuda_expr *e) { return e->wide ? "vtb_i64" : "int"; }

void vtb__cuda_forget(vtb_cuda_expr *e, size_t known) { e->memo.n = known; }

/* ---- spaces ----------------------------------------------------------------------------------------------- */

void vtb__cuda_space_init(vtb_cuda_expr *e, vtb_cuda_space *s, const vtb_type *shape) {
  *s = (vtb_cuda_space){.rank = shape->rank};
  e->n_vars = 0;
  for (int a = 0; a < shape->rank; a++) {
    s->first[a] = e->n_vars;
    s->count[a] = shape->dim[a].size > 1;
    if (s->count[a]) e->var_size[e->n_vars++] = shape->dim[a].size;
  }
  e->wide |= vtb_type_count(shape) > INT32_MAX;
}

void vtb__cuda_space_index(const vtb_cuda_expr *e, const vtb_cuda_space *s, vtb_cuda_index *index) {
  for (int a = 0; a < s->rank; a++) {
    int64_t coef = 1;
    index[a] = vtb__cuda_index_const(0);
    for (int k = s->first[a] + s->count[a] - 1; k >= s->first[a]; k--) {
      index[a].coef[k] = coef;
      coef *= e->var_size[k];
    }
  }
}

static void split_var(vtb_cuda_expr *e, vtb_cuda_space *s, int k, int64_t inner) {
  for (int i = e->n_vars; i > k + 1; i--) e->var_size[i] = e->var_size[i - 1];
  e->var_size[k] /= inner;
  e->var_size[k + 1] = inner;
  e->n_vars++;
  for (int a = 0; a < s->rank; a++) {
    if (s->first[a] > k)
      s->first[a]++;
    else if (k < s->first[a] + s->count[a])
      s->count[a]++;
  }
}

/* ---- probing ---------------------------------------------------------------------------------------------- */

static bool may_join(const vtb_cuda_expr *e, int k) {
  if (e->no_merge[k]) return false;
  for (size_t u = 0; u < e->uses.n; u++)
    if (e->uses.at[u].coef[k] != e->uses.at[u].coef[k + 1] * e->var_size[k + 1]) return false;
  return true;
}

static void merge_groups(vtb_cuda_expr *e) {
  e->n_groups = 0;
  for (int k = 0; k < e->n_vars; k++) {
    vtb_cuda_group *g = e->n_groups ? &e->groups[e->n_groups - 1] : NULL;
    if (g && may_join(e, k - 1)) {
      g->last = k;
      g->size *= e->var_size[k];
    } else {
      e->groups[e->n_groups++] = (vtb_cuda_group){k, k, e->var_size[k], NULL};
    }
  }
}

/* Into a kernel of its own, which is thrown away. */
static void probe_once(vtb_cuda_expr *e, vtb_cuda_space *s, vtb_cuda_probe_fn body, void *user) {
  vtb_cuda_kernel *kernel = e->k;
  e->k = vtb_cuda_begin(e->c, "probe", 32);
  e->n_groups = e->n_vars;
  for (int k = 0; k < e->n_vars; k++) e->groups[k] = (vtb_cuda_group){k, k, e->var_size[k], "i"};
  e->uses.n = e->memo.n = e->kept.n = 0;
  e->split_inner = 0;
  e->lanes = 1;
  e->vec = e->n_groups - 1;
  e->probing = true;
  body(e, s, user);
  e->probing = false;
  e->memo.n = 0;
  e->vec = -1;
  vtb__cuda_discard(e->k);
  e->k = kernel;
}

void vtb__cuda_probe(vtb_cuda_expr *e, vtb_cuda_space *s, vtb_cuda_probe_fn body, void *user) {
  for (;;) {
    probe_once(e, s, body, user);
    if (!e->split_inner) break;
    split_var(e, s, e->split_var, e->split_inner);
  }
  merge_groups(e);
}

/* ---- numbers to variables --------------------------------------------------------------------------------- */

static int64_t steps_of(const vtb_cuda_expr *e, int g) { return e->groups[g].size / (g == e->vec ? e->lanes : 1); }

int64_t vtb__cuda_groups_size(const vtb_cuda_expr *e, const int *groups, int n) {
  int64_t size = 1;
  for (int i = 0; i < n; i++) size *= steps_of(e, groups[i]);
  return size;
}

void vtb__cuda_decode(vtb_cuda_expr *e, const char *linear, const int *groups, int n) {
  int64_t inner = 1;
  for (int i = n; i-- > 0;) {
    int g = groups[i];
    vtb_strbuf s = {0};
    bool whole = n == 1 && inner == 1;
    vtb_strbuf_printf(&s, whole ? "%s" : "(%s)", linear);
    if (inner > 1) vtb_strbuf_printf(&s, " / %lld", (long long)inner);
    if (i > 0) vtb_strbuf_printf(&s, " %% %lld", (long long)steps_of(e, g));
    if (g == e->vec && e->lanes > 1) vtb_strbuf_printf(&s, " * %d", e->lanes);
    e->groups[g].value = vtb_arena_printf(&e->c->arena, "i%d", g);
    if (strcmp(s.at, e->groups[g].value) != 0)
      vtb_cuda_line(e->k, "const %s %s = %s;", vtb__cuda_int(e), e->groups[g].value, s.at);
    vtb_strbuf_free(&s);
    inner *= steps_of(e, g);
  }
}
