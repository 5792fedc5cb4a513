/* A fold in tiles (ir/fold.h) as one kernel: a block runs all steps of a tile's samples.
 *
 * Its states are in shared memory, twice: a step reads one half and writes the other. Within a step
 * come, in turns, what products read and is not stored yet, an element a thread; products and other
 * reductions, a sum a thread; at the end states and yields, an element a thread. Between turns are
 * barriers, and what they leave for each other is shared memory. Inputs are read where their
 * sequence has them. Weights are copied to shared memory first if there is room beside the rest,
 * else the caches have them.
 *
 * How much shared memory a step takes at most, and which steps have a kernel,
 * passes/recurrence/fold_tile.c decides: others are a launch an op and token.
 */
#include <string.h>

#include "codegen/cuda/emitters.h"
#include "ir/ops.h"
#include "codegen/cuda/loop/expr.h"
#include "ir/fold.h"
#include "ir/rewrite.h"

enum { LEAST_THREADS = 64, MOST_THREADS = 512 };

/* A product's reduction and its factors. */
typedef struct product {
  const vtb_value *sum, *factor[2];
} product;

typedef struct steps {
  vtb_cuda_expr e; /* first: steps_of() */
  vtb_body_target target;
  vtb_cuda *c;
  vtb_fold p;
  const vtb_func *callee;
  vtb_func *f; /* the step with products as ops of a body */
  VTB_VEC(product) products;
  VTB_VEC(vtb_root) returned;
  int64_t n;
  int threads, temps;
  bool resident;
} steps;

static steps *steps_of(vtb_body *b) { return (steps *)b; }

/* ---- the body -------------------------------------------------------------------------------- */

static void expand_products(steps *s) {
  for (vtb_inst *i = s->f->first, *next; i; i = next) {
    next = i->next;
    if (i->op != VTB_OP_einsum) continue;
    vtb_builder b = {.module = s->f->module, .func = s->f, .before = i};
    vtb_value *x = i->operands[0], *y = i->operands[1], *r = vtb__einsum_sum(&b, i, x, y, false);
    if (vtb__is_reduce(r)) vtb_vec_push(&s->products, ((product){r, {x, y}}));
    vtb_replace_all(i->results[0], r);
    vtb_inst_unlink(i);
  }
}

/* Samples of a tile times the rest: the same for all that has as many elements. */
static vtb_value *as_rows(steps *s, vtb_builder *b, vtb_value *v) {
  int64_t rows = s->p.tile, len = vtb_type_count(&v->type) / rows;
  vtb_type t = vtb_type_make(v->type.dtype, 2, (const int64_t[]){rows, len});
  return vtb_b_reshape(b, v, &t);
}

/* Roots in the order of the fold's results: yields, then states. */
static void list_returned(steps *s) {
  vtb_builder b = {.module = s->f->module, .func = s->f};
  for (int r = 0; r < s->p.yields + s->p.states; r++) {
    bool is_state = r >= s->p.yields;
    int from = is_state ? r - s->p.yields : s->p.states + r;
    vtb_root root = {.value = as_rows(s, &b, s->f->returns[from]),
                     .tensor = s->c->unit.n_operands + r};
    root.stride[0] = root.value->type.dim[1].size * (is_state ? 1 : s->n);
    root.stride[1] = 1;
    vtb_vec_push(&s->returned, root);
  }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool is_weight(const steps *s, int arg) { return arg >= s->p.states + s->p.seqs; }

static int64_t count_of(const steps *s, int arg) {
  return vtb_type_count(&s->callee->args[arg]->type);
}

/* "state2[now * 64 + ": an argument of the step up to the index of the element. */
static const char *argument(steps *s, int arg, int64_t *stride) {
  vtb_arena *a = &s->c->arena;
  const vtb_type *t = &s->callee->args[arg]->type;
  vtb__dense_strides(t, stride);
  if (arg < s->p.states)
    return vtb_arena_printf(a, "state%d[now * %lld + ", arg, (long long)count_of(s, arg));
  if (is_weight(s, arg) && s->resident) return vtb_arena_printf(a, "w%d[", arg);
  vtb__cuda_use(s->e.k, arg, vtb_arena_printf(a, "a%d", arg), VTB_LAUNCH_READ);
  if (is_weight(s, arg)) return vtb_arena_printf(a, "a%d[", arg);
  stride[0] *= s->n;
  return vtb_arena_printf(a, "a%d[at%d + ", arg, arg);
}

static void *load(vtb_body *b, const vtb_leaf *leaf, const vtb_index *index) {
  steps *s = steps_of(b);
  vtb_arena *a = &s->c->arena;
  const vtb_value *v = leaf->value;
  int64_t stride[VTB_MAX_RANK];
  const char *from;
  if (leaf->tensor >= 0) {
    from = argument(s, leaf->tensor, stride);
  } else {
    vtb__dense_strides(&v->type, stride);
    from = vtb_arena_printf(a, "t%lld[", (long long)leaf->temp);
  }
  vtb_index at = vtb__linear(b, &v->type, stride, index);
  bool is_int = v->type.dtype == VTB_I32;
  char *name = vtb_arena_printf(a, "%c%d", is_int ? 'n' : 's', s->e.next_name++);
  vtb_cuda_line(s->e.k, "const %s %s = %s%s];", is_int ? "int" : "float", name, from,
                vtb__cuda_index_text(&s->e, &at));
  return name;
}

/* Shared memory for a value of every step, which becomes a leaf. */
static int64_t new_temp(steps *s, const vtb_value *v) {
  const char *name = vtb_arena_printf(&s->c->arena, "t%d", s->temps);
  vtb_cuda_shared(s->e.k, "float", 4, name, vtb_type_count(&v->type));
  return s->temps++;
}

static void store(steps *s, const vtb_root *r, const vtb_index *index, const char *value) {
  vtb_arena *a = &s->c->arena;
  vtb_index at = vtb__linear(&s->e.body, &r->value->type, r->stride, index);
  int result = r->tensor - s->c->unit.n_operands, state = result - s->p.yields;
  const char *to;
  if (r->tensor < 0) {
    to = vtb_arena_printf(a, "t%lld[", (long long)r->temp);
  } else if (state >= 0) {
    to = vtb_arena_printf(a, "state%d[(1 - now) * %lld + ", state, (long long)count_of(s, state));
  } else {
    vtb__cuda_use(s->e.k, r->tensor, vtb_arena_printf(a, "r%d", result), VTB_LAUNCH_WRITE);
    to = vtb_arena_printf(a, "r%d[to%d + ", result, result);
  }
  vtb_cuda_line(s->e.k, "%s%s] = %s;", to, vtb__cuda_index_text(&s->e, &at), value);
}

static void sync(steps *s) { vtb_cuda_line(s->e.k, "vtb_sync();"); }

/* ---- turns ----------------------------------------------------------------------------------- */

typedef struct turn {
  steps *s;
  const vtb_root *roots;
  int n;
  vtb_space space;
} turn;

static void store_roots(const turn *t) {
  vtb_index index[VTB_MAX_RANK];
  vtb__space_index(&t->s->e.body, &t->space, index);
  for (int r = 0; r < t->n; r++)
    store(t->s, &t->roots[r], index, vtb__cuda_eval(&t->s->e, t->roots[r].value, index));
}

static void probe_roots(vtb_body *b, vtb_space *space, void *user) {
  (void)b;
  turn *t = user;
  t->space = *space;
  store_roots(t);
}

static void open_loop(steps *s, const char *i, int64_t n) {
  vtb_cuda_open(s->e.k, "for (int %s = vtb_tid(); %s < %lld; %s += %d)", i, i, (long long)n, i,
                s->threads);
}

/* Elementwise values of one shape, an element a thread. */
static void emit_elements(steps *s, const vtb_root *roots, int n) {
  vtb_cuda_expr *e = &s->e;
  turn t = {.s = s, .roots = roots, .n = n};
  int all[VTB_NEST_MAX];
  vtb_space space;
  vtb__space_init(&e->body, &space, &roots[0].value->type);
  vtb__probe(&e->body, &space, probe_roots, &t);
  for (int g = 0; g < e->body.n_groups; g++) all[g] = g;
  vtb__cuda_begin_lanes(e, 1);
  open_loop(s, "i", vtb__cuda_groups_size(e, all, e->body.n_groups));
  vtb__cuda_decode(e, "i", all, e->body.n_groups);
  store_roots(&t);
  vtb_cuda_close(e->k);
  vtb__nest_end(&e->body);
}

static void emit_by_shape(steps *s, vtb_root *roots, int n) {
  for (int from = 0, to; from < n; from = to) {
    to = from + 1;
    for (int i = to; i < n; i++)
      if (vtb_type_equal(&roots[i].value->type, &roots[from].value->type)) {
        vtb_root swap = roots[to];
        roots[to++] = roots[i];
        roots[i] = swap;
      }
    emit_elements(s, roots + from, to - from);
  }
}

static bool is_max(const vtb_root *r) { return r->value->def->op == VTB_OP_reduce_max; }

static void add_operands(steps *s, const vtb_reduction *d) {
  for (int r = 0; r < d->n; r++) {
    const char *v = vtb__reduction_operand(&s->e.body, d, r);
    vtb_cuda_line(s->e.k,
                  is_max(&d->roots[r]) ? "sum%d = vtb_max(sum%d, %s);" : "sum%d = sum%d + %s;", r,
                  r, v);
  }
}

/* Reductions of one operand shape over the same axes, a result of each a thread. */
static void emit_sums(steps *s, const vtb_root *roots, int n) {
  vtb_cuda_expr *e = &s->e;
  vtb_reduction d;
  int kept[VTB_NEST_MAX], over[VTB_NEST_MAX], n_kept = 0, n_over = 0;
  vtb__reduction_begin(&e->body, &d, roots, n);
  for (int g = 0; g < e->body.n_groups; g++)
    if (vtb__reduction_over(&d, &e->body.groups[g]))
      over[n_over++] = g;
    else
      kept[n_kept++] = g;
  vtb__cuda_begin_lanes(e, 1);
  open_loop(s, "i", vtb__cuda_groups_size(e, kept, n_kept));
  vtb__cuda_decode(e, "i", kept, n_kept);
  for (int r = 0; r < n; r++)
    vtb_cuda_line(e->k, "float sum%d = %s;", r, is_max(&roots[r]) ? "-VTB_INF" : "0.0f");
  int64_t size = vtb__cuda_groups_size(e, over, n_over);
  vtb_cuda_open(e->k, "for (int j = 0; j < %lld; j++)", (long long)size);
  vtb__cuda_decode(e, "j", over, n_over);
  add_operands(s, &d);
  e->body.memo.n = 0;
  vtb_cuda_close(e->k);
  vtb_index at = vtb__reduction_result(&e->body, &d);
  for (int r = 0; r < n; r++)
    vtb_cuda_line(e->k, "t%lld[%s] = sum%d;", (long long)roots[r].temp,
                  vtb__cuda_index_text(e, &at), r);
  vtb_cuda_close(e->k);
  vtb__nest_end(&e->body);
}

/* ---- one step -------------------------------------------------------------------------------- */

static bool same_space(const vtb_value *x, const vtb_value *y) {
  int n, m;
  const int64_t *a = vtb_attr_ints(x->def, "axes", &n), *b = vtb_attr_ints(y->def, "axes", &m);
  return x->def->op == y->def->op &&
         vtb_type_equal(&x->def->operands[0]->type, &y->def->operands[0]->type) && n == m &&
         (n == 0 || memcmp(a, b, sizeof *a * (size_t)n) == 0);
}

/* The stored value that a factor of a product is a view of. */
static const vtb_value *stored(steps *s, const vtb_value *v) {
  while (v->def && !vtb__leaf_find(&s->e.body, v) && v->def->n_operands == 1 &&
         vtb_is_view(v->def->op))
    v = v->def->operands[0];
  return v;
}

static vtb_root temp_root(steps *s, const vtb_value *v) {
  vtb_root r = {.value = v, .tensor = -1, .temp = new_temp(s, v)};
  vtb__dense_strides(&v->type, r.stride);
  return r;
}

static void make_leaves(steps *s, const vtb_root *roots, size_t n) {
  for (size_t i = 0; i < n; i++)
    vtb_vec_push(&s->e.body.leaves, ((vtb_leaf){roots[i].value, -1, roots[i].temp, NULL}));
  s->e.body.levels.n = 0;
}

static bool has_root(const vtb_root *roots, size_t n, const vtb_value *v) {
  for (size_t i = 0; i < n; i++)
    if (roots[i].value == v) return true;
  return false;
}

/* Factors of the products of this turn that are computed: once, not at every use. */
static void store_factors(steps *s, const vtb_root *sums, size_t n) {
  VTB_VEC(vtb_root) now = {0};
  for (size_t i = 0; i < s->products.n; i++) {
    const product *p = &s->products.at[i];
    if (!has_root(sums, n, p->sum)) continue;
    for (int k = 0; k < 2; k++) {
      const vtb_value *v = stored(s, p->factor[k]);
      bool known = vtb__leaf_find(&s->e.body, v) || !v->def || v->def->op == VTB_OP_constant;
      if (!known && !has_root(now.at, now.n, v)) vtb_vec_push(&now, temp_root(s, v));
    }
  }
  if (now.n) {
    emit_by_shape(s, now.at, (int)now.n);
    make_leaves(s, now.at, now.n);
    sync(s);
  }
  vtb_vec_free(&now);
}

/* The reductions whose operands are known, in turns, until none are left. */
static void emit_reductions(steps *s) {
  for (;;) {
    VTB_VEC(vtb_root) now = {0};
    const vtb_value *v;
    for (int i = 0; (v = vtb__body_reduction(&s->e.body, i)); i++)
      if (vtb__reduce_level(&s->e.body, v) == 1 && (!now.n || same_space(v, now.at[0].value)))
        vtb_vec_push(&now, ((vtb_root){.value = v, .tensor = -1}));
    if (!now.n) return;
    for (size_t i = 0; i < now.n; i++) now.at[i] = temp_root(s, now.at[i].value);
    store_factors(s, now.at, now.n);
    emit_sums(s, now.at, (int)now.n);
    make_leaves(s, now.at, now.n);
    sync(s);
    vtb_vec_free(&now);
  }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void copy_weights(steps *s) {
  for (int i = s->p.states + s->p.seqs; s->resident && i < s->c->unit.n_operands; i++) {
    const char *name = vtb_arena_printf(&s->c->arena, "a%d", i);
    vtb__cuda_use(s->e.k, i, name, VTB_LAUNCH_READ);
    vtb_cuda_shared(s->e.k, s->callee->args[i]->type.dtype == VTB_I32 ? "int" : "float", 4,
                    vtb_arena_printf(&s->c->arena, "w%d", i), count_of(s, i));
    open_loop(s, "i", count_of(s, i));
    vtb_cuda_line(s->e.k, "w%d[i] = a%d[i];", i, i);
    vtb_cuda_close(s->e.k);
  }
}

static void copy_states(steps *s, bool in) {
  for (int i = 0; i < s->p.states; i++) {
    long long n = (long long)count_of(s, i);
    int result = s->p.yields + i, t = in ? i : s->c->unit.n_operands + result;
    const char *name = vtb_arena_printf(&s->c->arena, in ? "a%d" : "r%d", in ? i : result);
    vtb__cuda_use(s->e.k, t, name, in ? VTB_LAUNCH_READ : VTB_LAUNCH_WRITE);
    if (in)
      vtb_cuda_shared(s->e.k, "float", 4, vtb_arena_printf(&s->c->arena, "state%d", i), 2 * n);
    open_loop(s, "i", n);
    if (in)
      vtb_cuda_line(s->e.k, "state%d[i] = %s[tile * %lld + i];", i, name, n);
    else
      vtb_cuda_line(s->e.k, "%s[tile * %lld + i] = state%d[now * %lld + i];", name, n, i, n);
    vtb_cuda_close(s->e.k);
  }
}

/* Where sequences have the step at hand. */
static void place(steps *s, const char *name, int number, int64_t count) {
  vtb_cuda_line(s->e.k, "const vtb_i64 %s%d = (tile * %lld + pos) * %lld;", name, number,
                (long long)(s->p.tile * s->n), (long long)(count / s->p.tile));
}

static void keep_states(steps *s) {
  for (int i = 0; s->p.keep && i < s->p.states; i++) {
    int result = s->p.yields + s->p.states + i;
    long long n = (long long)count_of(s, i), len = n / s->p.tile;
    const char *name = vtb_arena_printf(&s->c->arena, "r%d", result);
    vtb__cuda_use(s->e.k, s->c->unit.n_operands + result, name, VTB_LAUNCH_WRITE);
    place(s, "to", result, n);
    open_loop(s, "i", n);
    vtb_cuda_line(s->e.k, "%s[to%d + i / %lld * %lld + i %% %lld] = state%d[now * %lld + i];", name,
                  result, len, len * (long long)s->n, len, i, n);
    vtb_cuda_close(s->e.k);
  }
}

static void emit_step(steps *s) {
  keep_states(s);
  for (int i = s->p.states; i < s->p.states + s->p.seqs; i++) place(s, "at", i, count_of(s, i));
  for (int i = 0; i < s->p.yields; i++)
    place(s, "to", i, vtb_type_count(&s->callee->returns[s->p.states + i]->type));
  emit_reductions(s);
  emit_by_shape(s, s->returned.at, (int)s->returned.n);
  sync(s);
  vtb_cuda_line(s->e.k, "now = 1 - now;");
}

static void emit_kernel(steps *s) {
  vtb_cuda_kernel *k = s->e.k = vtb_cuda_begin(s->c, "steps", s->threads);
  vtb_cuda_order order = vtb_cuda_order_make(k, s->p.path, s->n, "order");
  vtb_cuda_line(k, "const vtb_i64 tile = vtb_block();");
  copy_weights(s);
  copy_states(s, true);
  sync(s);
  vtb_cuda_line(k, "int now = 0;");
  vtb_cuda_open(k, "for (int t = 0; t < %lld; t++)", (long long)s->n);
  const char *t =
      s->p.reverse ? vtb_arena_printf(&s->c->arena, "(%lld - t)", (long long)s->n - 1) : "t";
  vtb_cuda_line(k, "const vtb_i64 pos = %s;", vtb_cuda_order_at(s->c, &order, t));
  emit_step(s);
  vtb_cuda_close(k);
  copy_states(s, false);
}

/* A thread an element of the largest value, within reason. */
static int threads_for(const vtb_func *f) {
  int64_t most = 1;
  for (const vtb_inst *i = f->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++) {
      int64_t n = vtb_type_count(&i->results[r]->type);
      if (n > most) most = n;
    }
  most = (most + 31) / 32 * 32;
  return most < LEAST_THREADS ? LEAST_THREADS : most > MOST_THREADS ? MOST_THREADS : (int)most;
}

static bool weights_fit(const steps *s) {
  int64_t bytes = vtb_fold_step_bytes(s->callee, s->p.states);
  for (int i = s->p.states + s->p.seqs; i < s->callee->n_args; i++)
    bytes += (count_of(s, i) * 4 + 15) / 16 * 16;
  return bytes <= VTB_FOLD_SHARED;
}

void vtb__cuda_fold(vtb_cuda *c, const vtb_inst *inst) {
  steps s = {.c = c, .p = vtb_fold_of(inst), .callee = inst->callee, .n = vtb_fold_steps(inst)};
  vtb_module *m = vtb_module_new("step");
  s.f = vtb_func_clone(inst->callee, m, "step");
  s.threads = threads_for(inst->callee);
  s.resident = weights_fit(&s);
  expand_products(&s);
  list_returned(&s);
  vtb_inst body = *inst;
  body.callee = s.f;
  vtb__cuda_expr_init(&s.e, c, &body);
  s.target = *s.e.body.target;
  s.target.load = load;
  s.e.body.target = &s.target;
  emit_kernel(&s);
  vtb_cuda_launch(s.e.k, inst->operands[s.p.states]->type.dim[0].size / s.p.tile);
  vtb__cuda_expr_free(&s.e);
  vtb_vec_free(&s.products);
  vtb_vec_free(&s.returned);
  vtb_module_free(m);
}
