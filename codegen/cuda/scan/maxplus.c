/* maxplus: m_t = max(m_{t-1} + g_t, i_t) along axis 1 in path order, and its adjoint:
 * text/maxplus.cu, maxplus_grad.cu; alone, or in a body of elementwise ops before and behind it (a
 * `fused` of kind "scan", passes/fuse/words_scans.c), which is evaluated at a token.
 *
 * A sequence is one batch entry and one index of the axes after the tokens. A warp owns a sequence
 * and its lanes pieces of it: the maximum of a piece is known up to what enters it, so a scan over
 * the lanes gives every piece its start. What the lanes take lies apart in memory: a block copies
 * its sequences to shared memory, neighbours together, and results back. Where there are sequences
 * enough for all lanes of a GPU, a lane owns a whole one, next to its neighbours in memory.
 */
#include <string.h>

#include "codegen/cuda/emitters.h"
#include "ir/ops.h"
#include "codegen/cuda/loop/expr.h"

#define MANY (1 << 15) /* sequences */
#define THREADS 128
#define MOST_STAGED 98304 /* bytes of shared memory */

typedef struct maxplus {
  vtb_cuda_kernel *k;
  const vtb_inst *inst, *scan; /* what is emitted, and the op in its body or itself */
  bool by_head;                /* the text has h, the axis behind the tokens */
  int64_t blocks;
} maxplus;

/* A value that the text has in a variable. */
typedef struct known {
  const vtb_value *value;
  const char *name;
} known;

/* Lines at an index of a type's axes: `value` is returned, or the results are stored. */
typedef struct lines {
  const maxplus *p;
  const vtb_value *value; /* or NULL */
  const known *set;       /* variables that are set, instead of results stored */
  int n_set;
  const known *known;
  int n_known;
  vtb_space space;
} lines;

static const vtb_value *result_of(const maxplus *p, int r) {
  return p->inst->callee ? p->inst->callee->returns[r] : p->inst->results[r];
}

static void know(vtb_cuda_expr *e, const vtb_value *v, const vtb_index *index, const char *name) {
  vtb_memo memo = {.value = v, .result = vtb_arena_strdup(&e->c->arena, name)};
  memcpy(memo.index, index, sizeof *index * (size_t)v->type.rank);
  vtb_vec_push(&e->body.memo, memo);
}

/* m of the token before, wherever the body has it. */
static void know_before(vtb_cuda_expr *e, const maxplus *p, const vtb_index *index) {
  const vtb_inst *i = p->inst->callee ? p->inst->callee->first : NULL;
  for (int n = 0; i; i = i->next) {
    if (i->op != VTB_OP_shift || i->operands[0] != p->scan->results[0]) continue;
    const char *name = vtb_arena_printf(&e->c->arena, "m_before%d", n++);
    const char *fill = e->body.target->number(&e->body, VTB_F32, vtb_attr_float(i, "fill", 0));
    vtb_cuda_line(e->k, "const float %s = t > 0 ? before : %s;", name, fill);
    know(e, i->results[0], index, name);
  }
}

static void store(vtb_cuda_expr *e, const lines *l, const vtb_index *index) {
  const maxplus *p = l->p;
  const vtb_type *type = &l->known[0].value->type;
  for (int n = 0; n < l->n_known; n++) know(e, l->known[n].value, index, l->known[n].name);
  if (p->scan->op == VTB_OP_maxplus) know_before(e, p, index);
  for (int r = 0; r < p->inst->n_results; r++) {
    vtb_root root = {.value = result_of(p, r), .tensor = p->inst->n_operands + r};
    vtb_index at[VTB_MAX_RANK] = {{0}};
    if (vtb_type_count(&root.value->type) != vtb_type_count(type) ||
        (root.value->def == p->scan && root.value->index == 2) != (l->n_known == 1))
      continue;
    vtb__reshape_index(&e->body, type, index, &root.value->type, at);
    memcpy(root.stride, vtb_cuda_tensor_of(e->c, root.tensor)->stride, sizeof root.stride);
    vtb__cuda_store(e, &root, at, vtb__cuda_eval(e, root.value, at));
  }
}

static void set(vtb_cuda_expr *e, const lines *l, const vtb_index *index) {
  const vtb_type *type = &l->known[0].value->type;
  for (int n = 0; n < l->n_known; n++) know(e, l->known[n].value, index, l->known[n].name);
  know_before(e, l->p, index);
  for (int n = 0; n < l->n_set; n++) {
    vtb_index at[VTB_MAX_RANK] = {{0}};
    vtb__reshape_index(&e->body, type, index, &l->set[n].value->type, at);
    vtb_cuda_line(e->k, "%s = %s;", l->set[n].name, vtb__cuda_eval(e, l->set[n].value, at));
  }
}

static void write_lines(vtb_body *b, vtb_space *s, void *user) {
  lines *l = user;
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  vtb_index index[VTB_MAX_RANK];
  l->space = *s;
  vtb__space_index(b, s, index);
  if (l->value)
    vtb_cuda_line(e->k, "return %s;", vtb__cuda_eval(e, l->value, index));
  else if (l->n_set)
    set(e, l, index);
  else
    store(e, l, index);
}

/* Fills `hole` with the lines where the text has b, pos (if the type has tokens) and r, the index
 * of the axes behind. */
static void fill(const maxplus *p, const char *hole, const vtb_type *type, bool tokens, lines l) {
  vtb_cuda_kernel *k = p->k;
  vtb_cuda_expr e;
  vtb_space space;
  l.p = p;
  vtb__cuda_expr_init(&e, k->c, p->inst);
  e.k = k;
  vtb__space_init(&e.body, &space, type);
  for (int v = 0; v < VTB_NEST_MAX; v++) e.body.no_merge[v] = true;
  vtb__probe(&e.body, &space, write_lines, &l);
  int indent = k->indent;
  k->indent = 2;
  e.next_name = 0;
  int64_t inner = 1;
  for (int a = type->rank - 1; a >= 0; a--) {
    int list[VTB_NEST_MAX], n = 0, first = l.space.first[a];
    bool behind = a > tokens;
    for (int g = 0; g < e.body.n_groups; g++)
      if (e.body.groups[g].first >= first && e.body.groups[g].first < first + l.space.count[a])
        list[n++] = g;
    long long size = (long long)type->dim[a].size;
    const char *number = a == 0 ? "b" : "pos";
    if (behind)
      number = p->by_head
                   ? "h"
                   : vtb_arena_printf(&k->c->arena, "(r / %lld %% %lld)", (long long)inner, size);
    if (behind) inner *= size;
    vtb__cuda_decode(&e, number, list, n);
  }
  write_lines(&e.body, &l.space, &l);
  k->indent = indent;
  vtb_cuda_fill(k, hole, "\n%s", k->body.at ? k->body.at : "");
  k->body.n = 0;
  if (k->body.at) k->body.at[0] = '\0';
  vtb__cuda_expr_free(&e);
}

static void fill_value(const maxplus *p, const char *hole, int operand, bool tokens) {
  const vtb_value *v = p->scan->operands[operand];
  fill(p, hole, &v->type, tokens, (lines){.value = v});
}

/* Sequences side by side in memory that a block takes together. */
static int neighbours(int64_t rest) {
  int n = rest < 8 ? (int)rest : 8;
  while (rest % n) n--;
  return n;
}

/* The kernel with g, i and the initial m, the operands from 0 on. */
static maxplus begin(vtb_cuda *c, const vtb_inst *inst, const char *file) {
  maxplus p = {.inst = inst, .scan = inst->callee ? inst->callee->first : inst};
  while (p.scan->op != VTB_OP_maxplus && p.scan->op != VTB_OP_maxplus_grad) p.scan = p.scan->next;
  bool init =
      p.scan->op == VTB_OP_maxplus ? p.scan->n_operands == 3 : vtb_attr_int(p.scan, "init", 0) != 0;
  const vtb_type *g = &p.scan->operands[0]->type;
  int64_t rest = 1, N = g->dim[1].size;
  for (int a = 2; a < g->rank; a++) rest *= g->dim[a].size;
  int64_t sequences = g->dim[0].size * rest;
  bool many = sequences >= MANY;
  int near = neighbours(rest), per_block = many ? THREADS : near * ((3 + near) / near);
  bool staged = !many && per_block * N * 16 <= MOST_STAGED;
  vtb_cuda_kernel *k = p.k =
      vtb_cuda_begin_text(c, vtb_op_get(p.scan->op)->name, file, many ? THREADS : 32 * per_block);
  vtb_cuda_order order = vtb_cuda_order_make(k, vtb_attr_str(p.scan, "path", NULL), N, "order");
  vtb_cuda_fill(k, "place", "%s", vtb_cuda_order_at(c, &order, "t"));
  fill_value(&p, "gate", 0, true);
  fill_value(&p, "gain", 1, true);
  if (init)
    fill_value(&p, "first", 2, false);
  else
    vtb_cuda_fill(k, "first", " return -VTB_INF; ");
  VTB_CUDA_NUMBERS(k, {"N", N}, {"REST", rest}, {"SEQUENCES", sequences}, {"LANES", many ? 1 : 32},
                   {"PIECE", many ? N : (N + 31) / 32}, {"STAGED", staged},
                   {"NEAR", staged ? near : 1});
  p.blocks = (sequences + per_block - 1) / per_block;
  return p;
}

void vtb__cuda_maxplus(vtb_cuda *c, const vtb_inst *inst) {
  maxplus p = begin(c, inst, "maxplus.cu");
  const vtb_inst *s = p.scan;
  const known all[] = {
      {s->results[0], "m"}, {s->operands[0], "gate_t"}, {s->operands[1], "gain_t"}};
  fill(&p, "put", &s->results[0]->type, true, (lines){.known = all, .n_known = 3});
  vtb_cuda_launch(p.k, p.blocks);
}

void vtb__cuda_fill_gates(vtb_cuda_kernel *k, const vtb_inst *whole, const vtb_inst *scan,
                          const vtb_value *step, const vtb_value *gain) {
  const maxplus p = {.k = k, .inst = whole, .scan = scan, .by_head = true};
  const known all[] = {
      {scan->results[0], "m"}, {scan->operands[0], "gate_t"}, {scan->operands[1], "entry_t"}};
  const known set[] = {{step, "step"}, {gain, "gain"}};
  fill_value(&p, "gate", 0, true);
  fill_value(&p, "entry", 1, true);
  fill(&p, "weigh", &scan->results[0]->type, true,
       (lines){.known = all, .n_known = 3, .set = set, .n_set = gain ? 2 : 1});
}

void vtb__cuda_maxplus_grad(vtb_cuda *c, const vtb_inst *inst) {
  maxplus p = begin(c, inst, "maxplus_grad.cu");
  const vtb_inst *s = p.scan;
  bool init = vtb_attr_int(s, "init", 0) != 0;
  fill_value(&p, "scale", 2 + init, true);
  fill_value(&p, "adjoint", 3 + init, true);
  const known all[] = {
      {s->results[0], "to_gate"}, {s->results[1], "to_gain"}, {s->operands[3 + init], "adjoint_t"}};
  fill(&p, "put", &s->results[0]->type, true, (lines){.known = all, .n_known = 3});
  if (init) {
    const known carry = {s->results[2], "carry"};
    fill(&p, "put_first", &s->results[2]->type, false, (lines){.known = &carry, .n_known = 1});
  } else {
    vtb_cuda_fill(p.k, "put_first", "(void)carry;");
  }
  vtb_cuda_launch(p.k, p.blocks);
}
