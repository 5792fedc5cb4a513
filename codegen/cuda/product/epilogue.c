/* A product's sums when they are there: stored, with something added, or the body of a fused
 * product evaluated where they are. */
#include <string.h>

#include "codegen/cuda/loop/expr.h"
#include "codegen/cuda/product/product.h"

/* The class of each variable of a nest over the result, and after the probe the value of each
 * group: a part of m, n or batch, whose letters are those axes in the same order. */
typedef struct epilogue {
  product *p;
  char *value; /* of the product */
  vtb_space space;
} epilogue;

static letter_class class_of_axis(const product *p, int axis) {
  for (int i = 0; i < p->n_letters; i++)
    if (p->letters[i].in[OUT] && p->letters[i].at == axis)
      return vtb__product_class(p, &p->letters[i]);
  return LONE;
}

static void evaluate(vtb_body *b, vtb_space *s, void *user) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  epilogue *x = user;
  const vtb_inst *fused = x->p->fused;
  vtb_memo known = {.value = x->p->einsum->results[0], .result = x->value};
  x->space = *s;
  vtb__space_index(&e->body, s, known.index);
  vtb_vec_push(&e->body.memo, known);
  for (int r = 0; r < fused->n_results; r++) {
    if (x->p->sum && r == x->p->sum_result) continue;
    if (x->p->parts.of && (r == x->p->parts.mean || r == x->p->parts.squares)) continue;
    vtb_root root = {.value = fused->callee->returns[r], .tensor = fused->n_operands + r};
    memcpy(root.stride, vtb_cuda_tensor_of(e->c, root.tensor)->stride, sizeof root.stride);
    vtb__cuda_store(e, &root, known.index, vtb__cuda_eval(e, root.value, known.index));
  }
  if (!x->p->parts.of) return;
  const char *of = vtb__cuda_eval(e, x->p->parts.of, known.index);
  vtb_cuda_line(e->k, "vpart = %s;", vtb__cuda_widen(e, of));
}

/* Variables of different classes stay apart; each class' groups are decoded from its number. Four
 * lanes lie along n, which is a multiple of four. */
static void declare_groups(vtb_cuda_expr *e, const letter_class *class) {
  static const char *const numbers[] = {[BATCH] = "batch", [M] = "m", [N] = "n"};
  for (int which = BATCH; which <= N; which++) {
    int list[VTB_NEST_MAX], n = 0;
    for (int g = 0; g < e->body.n_groups; g++)
      if ((int)class[e->body.groups[g].first] == which) list[n++] = g;
    bool lanes = e->body.lanes > 1 && which == N;
    if (lanes && n == 1) {
      static char number[] = "n";
      e->body.groups[list[0]].value = number;
      continue;
    }
    vtb__cuda_decode(e, lanes ? "(n / 4)" : numbers[which], list, n);
  }
}

/* Four neighbours along n are neighbours along the last variable. */
static bool has_lanes(const vtb_cuda_expr *e, const letter_class *class) {
  int last = e->body.n_groups - 1;
  return last >= 0 && class[e->body.groups[last].first] == N && e->body.groups[last].size % 4 == 0;
}

/* The fused body at the element whose product is `value`, as lines that end in its stores; NULL: it
 * takes no four lanes. */
static const char *epilogue_text(product *p, vtb_cuda_kernel *k, const char *value, int lanes) {
  vtb_cuda_expr e;
  vtb_space space;
  epilogue x = {.p = p, .value = vtb_arena_strdup(&p->c->arena, value)};
  letter_class class[VTB_NEST_MAX];
  vtb__cuda_expr_init(&e, p->c, p->fused);
  e.k = k;
  vtb__space_init(&e.body, &space, vtb__product_type(p, OUT));
  for (int a = 0; a + 1 < space.rank; a++)
    if (space.count[a] && class_of_axis(p, a) != class_of_axis(p, a + 1))
      e.body.no_merge[space.first[a]] = true;
  vtb__probe(&e.body, &space, evaluate, &x);
  for (int a = 0; a < x.space.rank; a++)
    for (int v = x.space.first[a]; v < x.space.first[a] + x.space.count[a]; v++)
      class[v] = class_of_axis(p, a);
  bool can = lanes == 1 || has_lanes(&e, class);
  int indent = k->indent;
  k->indent = 5;
  if (can) {
    vtb__cuda_begin_lanes(&e, lanes);
    declare_groups(&e, class);
    evaluate(&e.body, &x.space, &x);
    vtb__nest_end(&e.body);
  }
  k->indent = indent;
  const char *text = vtb_arena_printf(&p->c->arena, "{\n%s        }", k->body.at ? k->body.at : "");
  can = can && (lanes == 1 || !e.no_lanes);
  k->body.n = 0;
  if (k->body.at) k->body.at[0] = '\0';
  vtb__cuda_expr_free(&e);
  return can ? text : NULL;
}

/* How tensor t has four neighbours along n: 1 as 16 bytes (8 of 16-bit elements), 0 as one element,
 * else so many elements apart. */
static int64_t step_of(const product *p, int t, bool *aligned) {
  const letter *n = vtb__product_inner(&p->of[N]);
  int align = vtb_cuda_tensor_of(p->c, vtb__product_tensor(p, t))->align;
  *aligned = n->stride[t] == 1 && align >= 4;
  for (int class = BATCH; class <= N; class ++)
    *aligned = *aligned && vtb__product_multiples(4, &p->of[class], t, n);
  return n->stride[t];
}

static const char *addend(product *p, int lanes) {
  vtb_arena *arena = &p->c->arena;
  const char *at = vtb__product_place(p, ADD);
  bool aligned = false;
  int64_t step = lanes > 1 ? step_of(p, ADD, &aligned) : 0;
  if (step == 0) return vtb_arena_printf(arena, "add[%s]", at);
  if (aligned) return vtb_arena_printf(arena, "vtb_load4(add, %s)", at);
  return vtb_arena_printf(arena, "vtb_gather4(add, %s, %lld)", at, (long long)step);
}

const char *vtb__product_store(product *p, vtb_cuda_kernel *k, int lanes) {
  vtb_arena *arena = &p->c->arena;
  const letter *n = vtb__product_inner(&p->of[N]);
  const char *value = lanes > 1 ? "vsum" : "sum";
  if (lanes > 1 && (!n || n->size % 4)) return NULL;
  if (p->adds) {
    vtb_cuda_in(k, 2, "add");
    value = vtb_arena_printf(arena, "%s + %s", value, addend(p, lanes));
  }
  if (p->fused && p->adds) {
    const char *name = lanes > 1 ? "vall" : "all";
    const char *text = epilogue_text(p, k, name, lanes);
    const char *type = lanes > 1 ? "vtb_f4" : "float";
    return text ? vtb_arena_printf(arena, "{\n          const %s %s = %s;\n          %s\n        }",
                                   type, name, value, text)
                : NULL;
  }
  if (p->fused) return epilogue_text(p, k, value, lanes);
  vtb_cuda_out(k, vtb__product_tensor(p, OUT), "c");
  const char *at = vtb__product_place(p, OUT);
  if (lanes == 1) return vtb_arena_printf(arena, "c[%s] = %s;", at, value);
  bool aligned;
  int64_t step = step_of(p, OUT, &aligned);
  if (aligned) return vtb_arena_printf(arena, "vtb_store4(c, %s, %s);", at, value);
  return vtb_arena_printf(arena, "vtb_scatter4(c, %s, %lld, %s);", at, (long long)step, value);
}

static int64_t columns_of_part(const product *p) {
  return p->whole_rows ? p->of[N].size : VTB_ROW_PART;
}

static int64_t parts_of_all(const product *p) {
  return p->of[BATCH].size * p->of[M].size * p->of[N].size / columns_of_part(p);
}

void vtb__product_begin_parts(product *p) {
  if (p->parts.of && !p->whole_rows) p->part_temp = vtb_cuda_temp(p->c, parts_of_all(p) * 8);
}

/* Results of the statistics: a number a row. */
static void declare_statistics(product *p, vtb_cuda_kernel *k) {
  const int mean = p->fused->n_operands + p->parts.mean,
            squares = p->fused->n_operands + p->parts.squares;
  for (int i = 0; i < 2; i++) {
    const vtb_cuda_tensor *t = vtb_cuda_tensor_of(p->c, i ? squares : mean);
    if (!vtb__is_dense(t->type, t->stride))
      vtb_cuda_unsupported(p->c, p->fused, "statistics of rows that are not dense");
  }
  vtb_cuda_out(k, mean, "mean_to");
  vtb_cuda_out(k, squares, "squares_to");
}

const char *vtb__product_store_part(product *p, vtb_cuda_kernel *k) {
  if (!p->parts.of) return "";
  if (p->whole_rows)
    declare_statistics(p, k);
  else
    vtb_cuda_temp_out(k, p->part_temp, "float", "part_to");
  return vtb_arena_printf(&p->c->arena, "const vtb_i64 part_at = (%s) / %lld;\n          %s",
                          vtb__product_place(p, OUT), (long long)columns_of_part(p),
                          p->whole_rows ? "mean_to[part_at] = part_mean;\n"
                                          "          squares_to[part_at] = part_squares;"
                                        : "vtb_store2(part_to, part_at * 2, part_mean, "
                                          "part_squares);");
}

void vtb__product_add_parts(product *p) {
  if (!p->parts.of || p->whole_rows) return;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(p->c, "parts", "row_parts.cu", THREADS);
  vtb_cuda_temp_in(k, p->part_temp, "float", "part");
  declare_statistics(p, k);
  const int64_t rows = p->of[BATCH].size * p->of[M].size;
  VTB_CUDA_NUMBERS(k, {"ROWS", rows}, {"PARTS", p->of[N].size / VTB_ROW_PART},
                   {"COLUMNS", VTB_ROW_PART});
  vtb_cuda_launch(k, (rows * 8 + THREADS - 1) / THREADS);
}

const char *vtb__product_store_sum(product *p, vtb_cuda_kernel *k) {
  bool rows = p->sum_of == p->a;
  vtb_cuda_out(k, vtb__product_tensor(p, SUM), "sum_to");
  return vtb_arena_printf(&p->c->arena, "sum_to[%s + %s] = total;",
                          vtb__product_offset(p, &p->of[BATCH], SUM, "batch"),
                          vtb__product_offset(p, &p->of[rows ? M : N], SUM, rows ? "m" : "n"));
}
