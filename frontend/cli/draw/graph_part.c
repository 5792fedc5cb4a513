/* A function as units of a picture. */
#include "frontend/cli/draw/graph_part.h"
#include "ir/ops.h"
#include "ir/rewrite.h"

#include <string.h>

enum { HIDDEN = -1 };

typedef struct reader {
  graph_part *part;
  int *source; /* by value: the unit that gives it, or HIDDEN */
} reader;

/* ---- what an instruction is ------------------------------------------------------------------ */

static bool is_parameter(const vtb_value *v) {
  const vtb_arg_info *info = &v->func->arg_info[v->index];
  return info->role != VTB_ROLE_INPUT && info->role != VTB_ROLE_GRAD && info->official;
}

static bool is_convolution(vtb_op op) {
  return op == VTB_OP_dwconv || op == VTB_OP_dwconv_dx || op == VTB_OP_dwconv_dw ||
         op == VTB_OP_im2col || op == VTB_OP_col2im;
}

static graph_kind kind_of_op(vtb_op op) {
  const char *name = vtb_op_get(op)->name;
  if (op == VTB_OP_einsum) return GRAPH_PRODUCT;
  if (is_convolution(op)) return GRAPH_CONVOLUTION;
  if (vtb_starts_with(name, "attention")) return GRAPH_ATTENTION;
  if (vtb_op_get(op)->klass == VTB_CLASS_STRUCTURED || op == VTB_OP_recurrence)
    return GRAPH_RECURRENCE;
  return vtb_op_get(op)->klass == VTB_CLASS_SHAPE ? GRAPH_MOVE : GRAPH_POINTWISE;
}

/* The kind of a kernel is what it does besides looking at things: sums and arithmetic, or
 * copies. */
static graph_kind kind_of(const vtb_inst *i) {
  if (i->op == VTB_OP_call) return GRAPH_BLOCK;
  if (i->op != VTB_OP_fused && i->op != VTB_OP_fold) return kind_of_op(i->op);
  graph_kind kind = GRAPH_MOVE;
  for (const vtb_inst *k = i->callee->first; k; k = k->next) {
    graph_kind one = kind_of_op(k->op);
    bool better = kind == GRAPH_MOVE || (kind == GRAPH_POINTWISE && one != GRAPH_MOVE);
    if (vtb_op_get(k->op)->klass != VTB_CLASS_CONTROL && better) kind = one;
  }
  return kind;
}

/* ---- reading --------------------------------------------------------------------------------- */

static graph_unit *add_unit(graph_part *p, graph_kind kind) {
  vtb_vec_push(&p->units, ((graph_unit){.kind = kind}));
  return &p->units.at[p->units.n - 1];
}

static void add_edge(graph_part *p, int from, int to, const vtb_type *type) {
  if (from == to) return;
  for (size_t i = 0; i < p->edges.n; i++) {
    graph_edge *e = &p->edges.at[i];
    if (e->from != from || e->to != to) continue;
    e->more++;
    return;
  }
  vtb_vec_push(&p->edges, ((graph_edge){.from = from, .to = to, .type = type}));
}

static void add_params(graph_unit *u, const vtb_value *v) {
  if (v->def) {
    for (int i = 0; i < v->def->n_operands; i++) add_params(u, v->def->operands[i]);
    return;
  }
  for (size_t i = 0; i < u->params.n; i++)
    if (u->params.at[i] == v) return;
  vtb_vec_push(&u->params, v);
}

static void add_ops(graph_unit *u, const vtb_inst *i) {
  if ((i->op == VTB_OP_fused || i->op == VTB_OP_fold) && i->callee) {
    for (const vtb_inst *k = i->callee->first; k; k = k->next) vtb_vec_push(&u->ops, k);
  } else {
    vtb_vec_push(&u->ops, i);
  }
}

static bool is_given_before(const vtb_inst *i, int k) {
  for (int before = 0; before < k; before++)
    if (i->operands[before] == i->operands[k]) return true;
  return false;
}

static void read_inst(reader *r, const vtb_inst *i) {
  int from = HIDDEN;
  for (int k = 0; k < i->n_operands && from == HIDDEN; k++) from = r->source[i->operands[k]->id];
  int made = from;
  if (from != HIDDEN && !vtb_is_view(i->op)) {
    made = (int)r->part->units.n;
    graph_unit *u = add_unit(r->part, kind_of(i));
    u->main = i;
    u->type = i->n_results ? &i->results[0]->type : NULL;
    add_ops(u, i);
    for (int k = 0; k < i->n_operands; k++) {
      if (is_given_before(i, k)) continue;
      int source = r->source[i->operands[k]->id];
      if (source == HIDDEN)
        add_params(u, i->operands[k]);
      else
        add_edge(r->part, source, made, &i->operands[k]->type);
    }
  }
  for (int k = 0; k < i->n_results; k++) r->source[i->results[k]->id] = made;
}

/* ---- units that are one ---------------------------------------------------------------------- */

/* `gone` becomes part of `into`. */
static void merge(graph_part *p, int gone, int into) {
  graph_unit *g = &p->units.at[gone], *u = &p->units.at[into];
  g->gone = true;
  for (size_t i = 0; i < g->params.n; i++) add_params(u, g->params.at[i]);
  size_t n = p->edges.n;
  graph_edge *old = p->edges.at;
  p->edges.at = NULL;
  p->edges.n = p->edges.cap = 0;
  for (size_t i = 0; i < n; i++) {
    int from = old[i].from == gone ? into : old[i].from, to = old[i].to == gone ? into : old[i].to;
    size_t before = p->edges.n;
    add_edge(p, from, to, old[i].type);
    if (p->edges.n > before) p->edges.at[before].more = old[i].more;
  }
  vtb_free(old);
}

/* Patches and their product are a convolution. */
static void join_patches(graph_part *p) {
  for (size_t i = 0; i < p->units.n; i++) {
    graph_unit *u = &p->units.at[i];
    int readers = 0, to = 0;
    if (!u->main || u->main->op != VTB_OP_im2col) continue;
    for (size_t k = 0; k < p->edges.n; k++)
      if (p->edges.at[k].from == (int)i) readers++, to = p->edges.at[k].to;
    graph_unit *product = readers == 1 ? &p->units.at[to] : NULL;
    if (!product || product->kind != GRAPH_PRODUCT) continue;
    product->kind = GRAPH_CONVOLUTION;
    product->patches = u->main;
    merge(p, (int)i, to);
  }
}

static bool reaches(const graph_part *p, int from, int to, bool *seen) {
  if (from == to) return true;
  if (seen[from]) return false;
  seen[from] = true;
  for (size_t k = 0; k < p->edges.n; k++)
    if (p->edges.at[k].from == from && reaches(p, p->edges.at[k].to, to, seen)) return true;
  return false;
}

static bool same_scope(const graph_unit *a, const graph_unit *b) {
  return a->main && b->main && a->main->span.scope && *a->main->span.scope &&
         vtb_streq(a->main->span.scope, b->main->span.scope);
}

/* True if unit `from` may become part of the later `to`: no other way leads from the one to the
 * other. */
static bool may_join(const graph_part *p, int from, int to) {
  bool *seen = vtb_xcalloc(p->units.n, sizeof *seen), may = true;
  for (size_t k = 0; k < p->edges.n && may; k++) {
    const graph_edge *e = &p->edges.at[k];
    if (e->from != from || e->to == to) continue;
    may = !reaches(p, e->to, to, seen);
  }
  vtb_free(seen);
  return may;
}

/* Pointwise ops of a module go with what it computes: a norm is one unit, a linear layer with its
 * bias another. */
static void join_modules(graph_part *p) {
  for (int to = 0; to < (int)p->units.n; to++) {
    if (p->units.at[to].kind != GRAPH_POINTWISE || p->units.at[to].main->op == VTB_OP_fused)
      continue;
    for (size_t k = 0; k < p->edges.n; k++) {
      int from = p->edges.at[k].from;
      graph_unit *a = &p->units.at[from], *b = &p->units.at[to];
      if (p->edges.at[k].to != to || !same_scope(a, b)) continue;
      if (a->kind == GRAPH_BLOCK || a->kind == GRAPH_RECURRENCE || a->kind == GRAPH_ATTENTION ||
          (a->kind != GRAPH_POINTWISE && b->kind != GRAPH_POINTWISE) || !may_join(p, from, to))
        continue;
      for (size_t o = 0; o < b->ops.n; o++) vtb_vec_push(&a->ops, b->ops.at[o]);
      vtb_vec_free(&b->ops);
      b->ops = (typeof(b->ops)){0};
      for (size_t o = 0; o < a->ops.n; o++) vtb_vec_push(&b->ops, a->ops.at[o]);
      b->patches = a->patches;
      if (a->kind != GRAPH_POINTWISE) b->kind = a->kind, b->main = a->main;
      merge(p, from, to);
      k = (size_t)-1;
    }
  }
}

/* ---- what goes in and comes out -------------------------------------------------------------- */

enum { MOST_ENDS = 6 }; /* inputs, and outputs, with a unit of their own */

static int add_end(graph_part *p, graph_kind kind, char *name, const vtb_type *type) {
  graph_unit *u = add_unit(p, kind);
  u->name = name;
  u->type = type;
  return (int)p->units.n - 1;
}

static void read_inputs(reader *r, const vtb_func *f) {
  int n = 0, all = -1;
  for (int a = 0; a < f->n_args; a++) n += !is_parameter(f->args[a]);
  for (int a = 0; a < f->n_args; a++) {
    const vtb_value *v = f->args[a];
    bool hidden = is_parameter(v);
    r->source[v->id] = HIDDEN;
    if (!hidden && n > MOST_ENDS && all < 0)
      all = add_end(r->part, GRAPH_INPUT, vtb_strprintf("%d tensors", n), &v->type);
    if (!hidden)
      r->source[v->id] =
          n > MOST_ENDS ? all : add_end(r->part, GRAPH_INPUT, vtb_xstrdup(v->name), &v->type);
  }
}

static void read_outputs(reader *r, const vtb_func *f) {
  int gradients = -1, rest = -1, n = 0;
  for (int k = 0; k < f->n_returns; k++) {
    const char *name = f->return_names ? f->return_names[k] : NULL;
    n += name && vtb_starts_with(name, "d:");
  }
  for (int k = 0; k < f->n_returns; k++) {
    const char *name = f->return_names ? f->return_names[k] : NULL;
    const vtb_type *type = &f->returns[k]->type;
    int source = r->source[f->returns[k]->id], to;
    bool many = f->n_returns > MOST_ENDS, gradient = name && vtb_starts_with(name, "d:");
    if (source == HIDDEN) continue;
    if (many && gradient && gradients < 0)
      gradients = add_end(r->part, GRAPH_OUTPUT, vtb_strprintf("gradients of %d", n), type);
    if (many && !name && rest < 0)
      rest = add_end(r->part, GRAPH_OUTPUT, vtb_strprintf("%d results", f->n_returns), type);
    to = many && gradient ? gradients
         : many && !name
             ? rest
             : add_end(r->part, GRAPH_OUTPUT, vtb_xstrdup(name ? name : "result"), type);
    add_edge(r->part, source, to, type);
  }
}

void graph_part_read(graph_part *p, const vtb_func *f) {
  *p = (graph_part){.func = f};
  reader r = {.part = p, .source = vtb_xcalloc((size_t)f->n_values + 1, sizeof(int))};
  read_inputs(&r, f);
  for (const vtb_inst *i = f->first; i; i = i->next) read_inst(&r, i);
  read_outputs(&r, f);
  vtb_free(r.source);
  join_patches(p);
  join_modules(p);
}

void graph_part_free(graph_part *p) {
  for (size_t i = 0; i < p->units.n; i++) {
    vtb_free(p->units.at[i].name);
    vtb_vec_free(&p->units.at[i].ops);
    vtb_vec_free(&p->units.at[i].params);
  }
  vtb_vec_free(&p->units);
  vtb_vec_free(&p->edges);
}

int64_t graph_unit_parameters(const graph_unit *u) {
  int64_t n = 0;
  for (size_t i = 0; i < u->params.n; i++) {
    vtb_role role = u->params.at[i]->func->arg_info[u->params.at[i]->index].role;
    if (role == VTB_ROLE_PARAM || role == VTB_ROLE_PLAIN)
      n += vtb_type_count(&u->params.at[i]->type);
  }
  return n;
}

double graph_unit_macs(const graph_unit *u) {
  if (!u->main) return 0;
  vtb_published_macs m = vtb_inst_published_macs(u->main);
  return m.layers + m.mixers;
}
