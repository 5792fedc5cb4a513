/* Recurrences in a body of elementwise ops (a `fused` of kind "scan", passes/fuse/words_scans.c):
 * the body as code for the holes of linscan_steps.cu. What the recurrences read is computed where
 * it is read, what is behind them where a token's result sits in a register. Of several recurrences
 * each is a pass; of those before the last the block keeps one number a token and column: what can
 * be computed behind it of itself and of what its pass reads anyway. */
#include <string.h>

#include "codegen/cuda/emitters.h"
#include "ir/ops.h"
#include "codegen/cuda/loop/expr.h"
#include "codegen/cuda/plan/program.h"
#include "codegen/cuda/scan/linscan.h"
#include "ir/rewrite.h"

enum { MOST_MORE = 4 };

typedef struct scan_body {
  vtb__cuda_scan *s;
  const vtb_inst *fused;
  const vtb_value *kept[VTB__SCAN_DIRS]; /* of each pass but the last */
  const vtb_value *more[VTB__SCAN_DIRS][MOST_MORE];
  int n_more[VTB__SCAN_DIRS];
} scan_body;

/* Writes lines at an index of a type's axes. */
typedef struct scan_code {
  const scan_body *body;
  int pass;
  void (*write)(vtb_cuda_expr *e, const struct scan_code *c, const vtb_index *index);
  const vtb_value *value;
  vtb_space space;
} scan_code;

static int64_t count_of(const vtb_value *v) { return vtb_type_count(&v->type); }
static const vtb_value *y_of(const scan_body *b, int pass) { return b->s->dir[pass]->results[0]; }
/* The last state of a recurrence: the kernel stores it by itself, whatever its size. */
static bool is_state(const vtb_value *v) {
  return v->def && v->def->op == VTB_OP_linscan && v->index > 0;
}

vtb_dtype vtb__scan_kept_type(const vtb_inst *fused) {
  for (int r = 0; r < fused->n_results; r++)
    if (vtb_is_half(fused->results[r]->type.dtype)) return fused->results[r]->type.dtype;
  return VTB_F32;
}

/* ---- what depends on what -------------------------------------------------------------------- */

static bool depends_on(const vtb_value *v, const vtb_value *on) {
  if (v == on) return true;
  for (int o = 0; v->def && o < v->def->n_operands; o++)
    if (depends_on(v->def->operands[o], on)) return true;
  return false;
}

/* The last pass whose result v needs; -1: none. */
static int pass_of(const scan_body *b, const vtb_value *v) {
  int pass = -1;
  for (int p = 0; p < b->s->n_passes; p++)
    if (depends_on(v, y_of(b, p))) pass = p;
  return pass;
}

/* The operands of the pass's recurrence are computed of v. */
static bool is_read_by(const scan_body *b, int pass, const vtb_value *v) {
  const vtb_inst *scan = b->s->dir[pass];
  for (int o = 2; o < 4; o++)
    if (depends_on(scan->operands[o], v)) return true;
  return false;
}

static bool is_small(const scan_body *b, const vtb_value *v) {
  return count_of(v) * 8 <= count_of(y_of(b, 0));
}

/* Everything below v is small, or the pass reads it anyway. */
static bool is_at_hand(const scan_body *b, int pass, const vtb_value *v) {
  if (pass_of(b, v) >= 0) return false;
  for (int a = 0; a < b->fused->callee->n_args; a++) {
    const vtb_value *arg = b->fused->callee->args[a];
    if (depends_on(v, arg) && !is_small(b, arg) && !is_read_by(b, pass, arg)) return false;
  }
  return true;
}

/* As far behind y as it alone leads. */
static const vtb_value *find_kept(const scan_body *b, int pass) {
  const vtb_value *v = y_of(b, pass);
  for (;;) {
    const vtb_inst *next = vtb_only_reader(v);
    for (int o = 0; next && o < next->n_operands; o++)
      if (next->operands[o] != v && !is_at_hand(b, pass, next->operands[o])) next = NULL;
    if (!next || next->n_results != 1) return v;
    v = next->results[0];
  }
}

/* The number that the pass stores as v is computed of `on` when the recurrences' results are
 * there. */
static bool reads(const scan_body *b, int pass, const vtb_value *v, const vtb_value *on) {
  if (v == on) return true;
  for (int p = 0; p < pass; p++)
    if (v == b->kept[p]) return false;
  if (!v->def || v->def->op == VTB_OP_linscan) return false;
  for (int o = 0; o < v->def->n_operands; o++)
    if (reads(b, pass, v->def->operands[o], on)) return true;
  return false;
}

/* Numbers, as many as y has, that the pass's results are computed of are loaded ahead. */
static void find_more(scan_body *b, int pass) {
  const vtb_func *f = b->fused->callee;
  for (int a = 0; a < f->n_args && b->n_more[pass] < MOST_MORE; a++) {
    bool wanted = pass < b->s->n_passes - 1 && reads(b, pass, b->kept[pass], f->args[a]);
    for (int r = 0; r < f->n_returns && !wanted; r++)
      wanted = pass_of(b, f->returns[r]) == pass && reads(b, pass, f->returns[r], f->args[a]);
    if (wanted && count_of(f->args[a]) == count_of(y_of(b, pass)) &&
        f->args[a]->type.dtype == VTB_F32)
      b->more[pass][b->n_more[pass]++] = f->args[a];
  }
}

/* ---- code ------------------------------------------------------------------------------------ */

static void write_at(vtb_body *b, vtb_space *s, void *user) {
  scan_code *c = user;
  vtb_index index[VTB_MAX_RANK];
  c->space = *s;
  vtb__space_index(b, s, index);
  c->write(vtb__cuda_expr_of(b), c, index);
}

/* The lines of `write` where the axes of `type` are called `names`. */
static const char *code(const scan_body *b, const vtb_type *type, const char *const *names,
                        scan_code c) {
  vtb_cuda_kernel *k = b->s->k;
  vtb_cuda_expr e;
  vtb_space space;
  c.body = b;
  vtb__cuda_expr_init(&e, b->s->c, b->fused);
  e.k = k;
  vtb__space_init(&e.body, &space, type);
  for (int v = 0; v < e.body.n_vars; v++) e.body.no_merge[v] = true;
  vtb__probe(&e.body, &space, write_at, &c);
  int indent = k->indent;
  k->indent = 4;
  e.next_name = 0;
  for (int a = 0; a < c.space.rank; a++) {
    int list[VTB_NEST_MAX], n = 0, first = c.space.first[a];
    for (int g = 0; g < e.body.n_groups; g++)
      if (e.body.groups[g].first >= first && e.body.groups[g].first < first + c.space.count[a])
        list[n++] = g;
    vtb__cuda_decode(&e, names[a], list, n);
  }
  write_at(&e.body, &c.space, &c);
  k->indent = indent;
  const char *text = vtb_arena_printf(&b->s->c->arena, "\n%s", k->body.at ? k->body.at : "");
  k->body.n = 0;
  if (k->body.at) k->body.at[0] = '\0';
  vtb__cuda_expr_free(&e);
  return text;
}

static void know(vtb_cuda_expr *e, const vtb_value *v, const vtb_index *index, const char *name) {
  vtb_memo known = {.value = v, .result = vtb_arena_strdup(&e->c->arena, name)};
  memcpy(known.index, index, sizeof *index * (size_t)v->type.rank);
  vtb_vec_push(&e->body.memo, known);
}

/* The index of v, which has as many elements as y, where y has `index`. */
static void index_of(vtb_cuda_expr *e, const scan_code *c, const vtb_value *v,
                     const vtb_index *index, vtb_index *out) {
  const vtb_type *y = &c->body->s->dir[c->pass]->operands[2]->type;
  vtb__reshape_index(&e->body, y, index, &v->type, out);
}

static void write_return(vtb_cuda_expr *e, const scan_code *c, const vtb_index *index) {
  vtb_cuda_line(e->k, "return %s;", vtb__cuda_eval(e, c->value, index));
}

static void write_values(vtb_cuda_expr *e, const scan_code *c, const vtb_index *index) {
  const scan_body *b = c->body;
  const vtb_inst *scan = b->s->dir[c->pass];
  vtb_cuda_line(e->k, "input = %s;", vtb__cuda_eval(e, scan->operands[2], index));
  if (b->s->decay->axes != VTB_ALONG_KEY)
    vtb_cuda_line(e->k, "step = %s;", vtb__cuda_eval(e, scan->operands[3], index));
  for (int m = 0; m < b->n_more[c->pass]; m++) { /* none in adjoints */
    vtb_index at[VTB_MAX_RANK];
    index_of(e, c, b->more[c->pass][m], index, at);
    vtb_cuda_line(e->k, "more[%d] = %s;", m, vtb__cuda_eval(e, b->more[c->pass][m], at));
  }
}

static void write_put(vtb_cuda_expr *e, const scan_code *c, const vtb_index *index) {
  const scan_body *b = c->body;
  const vtb_func *f = b->fused->callee;
  vtb_index at[VTB_MAX_RANK];
  know(e, y_of(b, c->pass), index, "scanned");
  for (int m = 0; m < b->n_more[c->pass]; m++) {
    index_of(e, c, b->more[c->pass][m], index, at);
    know(e, b->more[c->pass][m], at, vtb_arena_printf(&e->c->arena, "more[i][%d]", m));
  }
  for (int p = 0; p < c->pass; p++) {
    const char *name = vtb_arena_printf(&e->c->arena, "s_kept%d", p);
    vtb_cuda_line(e->k, "const float %s = kept_of(%d, pos);", name, p);
    index_of(e, c, b->kept[p], index, at);
    know(e, b->kept[p], at, name);
  }
  for (int r = 0; r < f->n_returns; r++) {
    vtb_root root = {.value = f->returns[r], .tensor = b->fused->n_operands + r};
    int pass = pass_of(b, root.value);
    if (is_state(root.value) || count_of(root.value) != count_of(y_of(b, 0)) ||
        (pass < 0 ? b->s->n_passes - 1 : pass) != c->pass)
      continue;
    memcpy(root.stride, vtb_cuda_tensor_of(e->c, root.tensor)->stride, sizeof root.stride);
    index_of(e, c, root.value, index, at);
    vtb__cuda_store(e, &root, at, vtb__cuda_eval(e, root.value, at));
  }
  if (c->pass + 1 == b->s->n_passes) return;
  index_of(e, c, b->kept[c->pass], index, at);
  vtb_cuda_line(e->k, "keep(%d, pos, %s);", c->pass, vtb__cuda_eval(e, b->kept[c->pass], at));
}

/* `what` of each pass, chosen by `pass`. */
static const char *by_pass(const scan_body *b, const char *pass, const char *const *what) {
  const char *all = "";
  if (b->s->n_passes == 1) return what[0];
  for (int p = 0; p < b->s->n_passes; p++)
    all = p + 1 < b->s->n_passes ? vtb_arena_printf(&b->s->c->arena, "%sif (%s == %d) {%s} else ",
                                                    all, pass, p, what[p])
                                 : vtb_arena_printf(&b->s->c->arena, "%s{%s}", all, what[p]);
  return all;
}

/* Operand o of each recurrence as what returns an element of it. */
static const char *operand(const scan_body *b, int o, const char *const *names) {
  const char *of[VTB__SCAN_DIRS];
  for (int p = 0; p < b->s->n_passes; p++) {
    const vtb_value *v = b->s->dir[p]->operands[o];
    of[p] = code(b, &v->type, names, (scan_code){.pass = p, .write = write_return, .value = v});
  }
  return by_pass(b, "pass", of);
}

vtb__scan_codes vtb__scan_codes_make(vtb__cuda_scan *s, const vtb_inst *fused) {
  static const char *const row[] = {"b", "pos", "h", "x"}, *const rates[] = {"h", "key", "x"},
                           *const state[] = {"b", "h", "key", "x"};
  const char *values[VTB__SCAN_DIRS], *put[VTB__SCAN_DIRS];
  scan_body b = {.s = s, .fused = fused};
  vtb__scan_codes codes = {.rate = "return 0.0f;", .first = "return 0.0f;"};
  for (int p = 0; p + 1 < s->n_passes; p++) b.kept[p] = find_kept(&b, p);
  for (int p = 0; p < s->n_passes; p++) {
    find_more(&b, p);
    if (b.n_more[p] > codes.more) codes.more = b.n_more[p];
  }
  for (int p = 0; p < s->n_passes; p++) {
    const vtb_type *y = &y_of(&b, p)->type;
    values[p] = code(&b, y, row, (scan_code){.pass = p, .write = write_values});
    put[p] = vtb_arena_printf(&s->c->arena, "\n    const float scanned = value;%s",
                              code(&b, y, row, (scan_code){.pass = p, .write = write_put}));
  }
  codes.q = operand(&b, 0, row);
  codes.k = operand(&b, 1, row);
  codes.decay_row = s->decay->axes == VTB_ALONG_KEY ? operand(&b, 3, row) : "return 0.0f;";
  if (s->decay->rates) codes.rate = operand(&b, 4, rates);
  if (s->init) codes.first = operand(&b, s->decay->rates ? 5 : 4, state);
  codes.values = by_pass(&b, "p", values);
  codes.put = by_pass(&b, "p", put);
  return codes;
}

/* ---- the adjoint ----------------------------------------------------------------------------- */

vtb_dtype vtb__scan_state_type(const vtb_inst *fused) {
  for (const vtb_inst *i = fused->callee->first; i; i = i->next)
    if (i->op == VTB_OP_linscan_grad && vtb_streq(vtb_attr_str(i, "precision", ""), "bf16"))
      return VTB_BF16;
  for (int o = 0; o < fused->n_operands; o++)
    if (vtb_is_half(fused->operands[o]->type.dtype)) return VTB_BF16;
  return VTB_F32;
}

static bool is_sum(const vtb_value *v) { return v->def && v->def->op == VTB_OP_reduce_sum; }

static void write_given(vtb_cuda_expr *e, const scan_code *c, const vtb_index *index) {
  const vtb_inst *scan = c->body->s->dir[0];
  write_values(e, c, index);
  vtb_cuda_line(e->k, "dy = %s;", vtb__cuda_eval(e, scan->operands[5], index));
}

/* v, and what it is another view of. */
static void know_row(vtb_cuda_expr *e, const scan_code *c, const vtb_value *v,
                     const vtb_index *index, const char *name) {
  vtb_index at[VTB_MAX_RANK];
  know(e, v, index, name);
  while (v->def && v->def->op == VTB_OP_reshape) {
    v = v->def->operands[0];
    index_of(e, c, v, index, at);
    know(e, v, at, name);
  }
}

/* The code behind the adjoints of v and of the steps. */
static void write_adjoints(vtb_cuda_expr *e, const scan_code *c, const vtb_index *index) {
  const scan_body *b = c->body;
  const vtb_inst *scan = b->s->dir[0];
  int n_sums = 0;
  know(e, scan->results[2], index, "d_input");
  know(e, scan->results[3], index, "d_step");
  know(e, scan->operands[3], index, "step");
  know_row(e, c, scan->operands[5], index, "dy");
  for (int r = 0; r < b->fused->n_results; r++) {
    vtb_root root = {.value = b->fused->callee->returns[r], .tensor = b->fused->n_operands + r};
    vtb_index at[VTB_MAX_RANK];
    bool sum = is_sum(root.value);
    const vtb_value *v = sum ? root.value->def->operands[0] : root.value;
    if (v->def == scan && v->index != 2 && v->index != 3) continue;
    index_of(e, c, v, index, at);
    const char *value = vtb__cuda_eval(e, v, at);
    memcpy(root.stride, vtb_cuda_tensor_of(e->c, root.tensor)->stride, sizeof root.stride);
    if (sum)
      vtb_cuda_line(e->k, "total[%d] += %s;", n_sums++, value);
    else
      vtb__cuda_store(e, &root, at, value);
  }
}

vtb__scan_codes vtb__scan_grad_codes_make(vtb__cuda_scan *s, const vtb_inst *fused) {
  static const char *const row[] = {"b", "pos", "h", "x"}, *const rates[] = {"h", "key", "x"};
  scan_body b = {.s = s, .fused = fused};
  vtb__scan_codes codes = {0};
  const vtb_type *v = &s->dir[0]->operands[2]->type;
  codes.q = operand(&b, 0, row);
  codes.k = operand(&b, 1, row);
  codes.rate = operand(&b, 4, rates);
  codes.values = code(&b, v, row, (scan_code){.write = write_values});
  codes.given = code(&b, v, row, (scan_code){.write = write_given});
  codes.put = code(&b, v, row, (scan_code){.write = write_adjoints});
  for (int r = 0; r < fused->n_results; r++)
    if (is_sum(fused->callee->returns[r])) codes.sums[codes.n_sums++] = fused->n_operands + r;
  return codes;
}

/* ---- what there is code for ------------------------------------------------------------------ */

static bool are_alike(const vtb__cuda_scan *s, const vtb_inst *other) {
  vtb_scan a = vtb_scan_of(s->inst), b = vtb_scan_of(other);
  return a.decay == b.decay && a.grad == b.grad && a.n_batch == b.n_batch &&
         a.n_tokens == b.n_tokens && a.n_heads == b.n_heads && a.K == b.K && a.V == b.V;
}

/* Why a body with these recurrences has no code; NULL: it may have. */
static const char *refusal(const vtb__cuda_scan *s, const vtb_inst *fused) {
  vtb_decay_axes axes = s->decay->axes;
  int sums = 0;
  for (int r = 0; r < fused->n_results; r++) sums += is_sum(fused->callee->returns[r]);
  if (!s->by_steps || s->normalizer)
    return "a body with a recurrence that does not run token by token, or has a normalizer";
  for (int p = 1; p < s->n_passes; p++)
    if (!are_alike(s, s->dir[p])) return "a body with recurrences of several shapes";
  if (!s->decay->rates && (s->grad || (axes != VTB_ALONG_KEY && axes != VTB_ALONG_VALUE)))
    return "a body with a recurrence of another class of decays";
  if (s->n_passes > 1 && (s->init || s->last || s->grad))
    return "a body with several recurrences that have states at their ends or are adjoints";
  if (s->grad && (s->init || s->dlast)) return "a body with an adjoint of states";
  if (sums > (s->grad ? VTB_MAX_SCAN_SUMS : 0))
    return vtb_arena_printf(&s->c->arena, "a body with %d sums over tokens, and %d are the most",
                            sums, s->grad ? VTB_MAX_SCAN_SUMS : 0);
  return NULL;
}

void vtb__cuda_scan_body(vtb_cuda *c, const vtb_inst *inst) {
  vtb__cuda_scan s = {0};
  for (const vtb_inst *i = inst->callee->first; i; i = i->next) {
    if (i->op == VTB_OP_maxplus || i->op == VTB_OP_maxplus_grad) {
      (i->op == VTB_OP_maxplus ? vtb__cuda_maxplus : vtb__cuda_maxplus_grad)(c, inst);
      return;
    }
    if (i->op != VTB_OP_linscan && i->op != VTB_OP_linscan_grad) continue;
    if (!s.n_passes) s = vtb__cuda_scan_make(c, i);
    if (s.n_passes < VTB__SCAN_DIRS) s.dir[s.n_passes] = i;
    s.n_passes++;
  }
  const char *why = !s.n_passes ? "a body without a recurrence"
                    : s.n_passes > VTB__SCAN_DIRS
                        ? vtb_arena_printf(&c->arena, "%d recurrences, and %d are the most",
                                           s.n_passes, VTB__SCAN_DIRS)
                        : refusal(&s, inst);
  if (why)
    vtb_cuda_unsupported(c, inst, "%s", why);
  else if (s.grad)
    vtb__cuda_scan_rates_grad(&s, inst);
  else
    vtb__cuda_scan_steps_body(&s, inst);
}
