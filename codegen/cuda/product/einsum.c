/* einsum as products on tensor cores (text/product.cu), with any strides.
 *
 * Letters are batch (in both operands and the result), m (first operand and result), n (second and
 * result) or k (summed). Letters of a class are one index, outermost first; where all strides allow
 * it they are merged into one letter, and what is left is decoded by divisions at each address:
 * nothing is ever copied into another order. If there are few tiles and a long k, ranges of k are
 * blocks of their own, whose parts a second kernel adds in order. Where the library may be used,
 * large plain matrices are its (attribute `library`). Products without k, with a short k, or with a
 * letter in one operand only are bodies of a product and a sum (fused.c).
 */
#include <string.h>

#include "codegen/cuda/emitters.h"
#include "ir/ops.h"
#include "codegen/cuda/loop/expr.h"
#include "codegen/cuda/product/product.h"

/* ---- letters --------------------------------------------------------------------------------- */

/* The result of a product with an epilogue is no tensor: it is never stored. */
int vtb__product_tensor(const product *p, int which) {
  vtb_check(which != OUT || !p->fused, "the result of a fused product has no place");
  if (which == SUM) return p->c->unit.n_operands + p->sum_result;
  return which == OUT ? p->c->unit.n_operands : which == ADD ? 2 : which;
}

const vtb_type *vtb__product_type(const product *p, int which) {
  if (which == OUT) return &p->einsum->results[0]->type;
  return vtb_cuda_tensor_of(p->c, vtb__product_tensor(p, which))->type;
}

static int64_t stride_of(const product *p, int which, int axis) {
  int64_t dense[VTB_MAX_RANK];
  if (which != OUT || !p->fused)
    return vtb_cuda_tensor_of(p->c, vtb__product_tensor(p, which))->stride[axis];
  vtb__dense_strides(vtb__product_type(p, OUT), dense);
  return dense[axis];
}

static letter *find_letter(product *p, int number) {
  letter *l = p->letters;
  while (l->number != number) l++;
  return l;
}

/* ADD is broadcast to the result. */
static void read_addend(product *p) {
  const vtb_type *add = vtb__product_type(p, ADD);
  int missing = vtb__product_type(p, OUT)->rank - add->rank;
  for (int i = 0; i < p->n_letters; i++) {
    letter *l = &p->letters[i];
    int axis = l->in[OUT] ? l->at - missing : -1;
    if (axis < 0 || add->dim[axis].size == 1) continue;
    l->in[ADD] = true;
    l->stride[ADD] = stride_of(p, ADD, axis);
  }
}

/* SUM has the axes of its factor but those that are summed. */
static void read_sum(product *p) {
  int n_axes, to = 0;
  const int64_t *axes = vtb_attr_ints(p->sum, "axes", &n_axes);
  bool keep = vtb_attr_int(p->sum, "keep", 0) != 0;
  vtb_product e = vtb_product_of(p->einsum);
  for (int axis = 0; axis < e.rank[p->sum_of]; axis++) {
    bool summed = false;
    for (int a = 0; a < n_axes; a++) summed |= axes[a] == axis;
    if (!summed && vtb__product_type(p, p->sum_of)->dim[axis].size != 1) {
      letter *l = find_letter(p, e.of[p->sum_of][axis]);
      l->in[SUM] = true;
      l->stride[SUM] = stride_of(p, SUM, to);
    }
    to += !summed || keep;
  }
}

static void read_letters(product *p) {
  vtb_product e = vtb_product_of(p->einsum);
  p->adds = p->einsum->n_operands == 3;
  for (int i = 0; i < e.n; i++) {
    const int *at = e.letters[i].at;
    if (e.letters[i].size == 1) continue;
    letter *l = &p->letters[p->n_letters++];
    *l = (letter){.number = i, .role = e.letters[i].role, .size = e.letters[i].size};
    for (int which = A; which <= OUT; which++) {
      l->in[which] = at[which] >= 0;
      if (l->in[which]) l->stride[which] = stride_of(p, which, at[which]);
    }
    l->at = at[OUT] >= 0 ? at[OUT] : at[A] >= 0 ? at[A] : at[B];
  }
  if (p->adds) read_addend(p);
  if (p->sum) read_sum(p);
}

letter_class vtb__product_class(const product *p, const letter *l) {
  switch (l->role) {
  case VTB_LETTER_BATCH:
    return BATCH;
  case VTB_LETTER_SUM:
    return K;
  case VTB_LETTER_ROWS:
    return p->a == A ? M : N;
  case VTB_LETTER_COLUMNS:
    return p->a == A ? N : M;
  default:
    return LONE;
  }
}

static bool joins(const letter *outer, const letter *inner) {
  for (int t = 0; t < TENSORS; t++)
    if (outer->stride[t] != inner->stride[t] * inner->size) return false;
  return true;
}

/* The letters of each class in the order of the result (k: of the first operand), merged where
 * strides allow. */
static void sort_letters(product *p) {
  for (int class = 0; class < CLASSES; class ++) {
    index_of *x = &p->of[class];
    x->n = 0;
    x->size = 1;
    for (int axis = 0; axis < VTB_MAX_RANK; axis++)
      for (int i = 0; i < p->n_letters; i++) {
        const letter *l = &p->letters[i];
        if (l->at != axis || (int)vtb__product_class(p, l) != class) continue;
        letter *last = x->n ? &x->at[x->n - 1] : NULL;
        x->size *= l->size;
        if (last && joins(last, l)) {
          letter both = *l;
          both.size *= last->size;
          *last = both;
        } else {
          x->at[x->n++] = *l;
        }
      }
  }
}

/* The result's innermost letter belongs to n, so that neighbouring threads store neighbouring
 * elements. */
static void choose_sides(product *p) {
  const letter *inner = NULL;
  p->a = A;
  p->b = B;
  for (int i = 0; i < p->n_letters; i++)
    if (p->letters[i].in[OUT] && (!inner || p->letters[i].at > inner->at)) inner = &p->letters[i];
  if (!inner || vtb__product_class(p, inner) != M) return;
  p->a = B;
  p->b = A;
}

/* ---- bodies of a product and a sum ----------------------------------------------------------- */

/* The epilogue's ops behind the sum. */
static void append_epilogue(vtb_builder *b, const product *p, vtb_value *sum, vtb_value **args,
                            vtb_value **returns) {
  const vtb_func *body = p->fused->callee;
  vtb_value **inside = vtb_xcalloc((size_t)body->n_values + 1, sizeof *inside);
  for (int a = 0; a < body->n_args; a++) inside[body->args[a]->id] = args[a];
  inside[p->einsum->results[0]->id] = sum;
  for (const vtb_inst *i = p->einsum->next; i; i = i->next) {
    vtb_value **operands = vtb_xcalloc((size_t)i->n_operands + 1, sizeof *operands);
    for (int o = 0; o < i->n_operands; o++) operands[o] = inside[i->operands[o]->id];
    vtb_inst *copy = vtb_inst_clone(b, i, operands);
    for (int r = 0; r < i->n_results; r++) inside[i->results[r]->id] = copy->results[r];
    vtb_free(operands);
  }
  for (int r = 0; r < body->n_returns; r++) returns[r] = inside[body->returns[r]->id];
  vtb_free(inside);
}

static void emit_generic(product *p, bool unroll) {
  vtb_cuda *c = p->c;
  const vtb_inst *inst = p->einsum, *whole = p->fused ? p->fused : p->einsum;
  if (vtb_product_of(inst).n > VTB_MAX_RANK) {
    vtb_cuda_unsupported(c, inst, "too many letters");
    return;
  }
  vtb_module *m = vtb_module_new("einsum");
  vtb_func *f = vtb_func_new(m, "body", VTB_FUNC_KERNEL, VTB_NO_SPAN);
  vtb_builder b = {.module = m, .func = f};
  vtb_value **args = vtb_xcalloc((size_t)whole->n_operands + 1, sizeof *args);
  vtb_value **returns = vtb_xcalloc((size_t)whole->n_results + 1, sizeof *returns);
  for (int o = 0; o < whole->n_operands; o++) {
    char name[16];
    snprintf(name, sizeof name, "x%d", o);
    vtb_type type = whole->operands[o]->type;
    type.dtype = VTB_F32;
    args[o] = vtb_func_add_arg(f, name, type);
  }
  vtb_value *r = vtb__einsum_sum(&b, inst, args[0], args[1], unroll);
  if (p->adds) r = vtb_b_binary(&b, VTB_OP_add, r, args[2]);
  returns[0] = r;
  if (p->fused) append_epilogue(&b, p, r, args, returns);
  vtb_func_set_returns(f, returns, NULL, whole->n_results);
  vtb_inst fused = *whole;
  fused.op = VTB_OP_fused;
  fused.callee = f;
  vtb__cuda_body(c, &fused);
  vtb_free(args);
  vtb_free(returns);
  vtb_module_free(m);
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Offset in tensor t of the number `i` (a C name) of a class. */
const char *vtb__product_offset(product *p, const index_of *x, int t, const char *i) {
  int64_t reach = 1, inner = 1;
  for (int l = 0; l < p->n_letters; l++)
    reach += (p->letters[l].size - 1) * p->letters[l].stride[t];
  const char *wide = vtb_cuda_is_far(p->c, reach) ? "(vtb_i64)" : "";
  vtb_strbuf s = {0};
  for (int k = x->n; k-- > 0;) {
    const letter *l = &x->at[k];
    if (l->stride[t]) {
      if (s.n) vtb_strbuf_puts(&s, " + ");
      vtb_strbuf_printf(&s, "%s%s%s", wide, *wide && (inner > 1 || k) ? "(" : "", i);
      if (inner > 1) vtb_strbuf_printf(&s, " / %lld", (long long)inner);
      if (k) vtb_strbuf_printf(&s, " %% %lld", (long long)l->size);
      if (*wide && (inner > 1 || k)) vtb_strbuf_putc(&s, ')');
      if (l->stride[t] != 1) vtb_strbuf_printf(&s, " * %lld", (long long)l->stride[t]);
    }
    inner *= l->size;
  }
  const char *text = vtb_arena_strdup(&p->c->arena, s.n ? s.at : "0");
  vtb_strbuf_free(&s);
  return text;
}

/* How the tile of an operand is copied: along k or along its rows, 16 bytes, 4, or one element of 2
 * at a time. */
typedef struct fetch {
  bool along_k;
  int element; /* bytes */
  int width;   /* elements copied at a time */
} fetch;

bool vtb__product_multiples(int64_t n, const index_of *x, int t, const letter *but) {
  for (int i = 0; i < x->n; i++)
    if (&x->at[i] != but && x->at[i].stride[t] % n) return false;
  return true;
}

static fetch choose_fetch(const product *p, int t, letter_class rows) {
  const letter *k = vtb__product_inner(&p->of[K]), *r = vtb__product_inner(&p->of[rows]);
  int align = vtb_cuda_tensor_of(p->c, vtb__product_tensor(p, t))->align;
  bool k_run = k && k->stride[t] == 1, r_run = r && r->stride[t] == 1;
  fetch f = {.along_k = k_run || !r_run,
             .width = 1,
             .element = vtb_dtype_bytes(vtb__product_type(p, t)->dtype)};
  const letter *run = f.along_k ? k : r;
  for (int n = 16 / f.element; n > 1 && (k_run || r_run); n = n * f.element > 4 ? 4 / f.element : 1)
    if (align >= n && run->size % n == 0 && vtb__product_multiples(n, &p->of[K], t, run) &&
        vtb__product_multiples(n, &p->of[rows], t, run) &&
        vtb__product_multiples(n, &p->of[BATCH], t, run)) {
      f.width = n;
      break;
    }
  return f;
}

const char *vtb__product_place(product *p, int t) {
  return vtb_arena_printf(
      &p->c->arena, "%s + %s + %s", vtb__product_offset(p, &p->of[BATCH], t, "batch"),
      vtb__product_offset(p, &p->of[M], t, "m"), vtb__product_offset(p, &p->of[N], t, "n"));
}

/* ---- the product ----------------------------------------------------------------------------- */

static vtb_dtype dtype_of(const product *p, int which) {
  return vtb__product_type(p, which)->dtype;
}
static bool has_half(const product *p) {
  return vtb_is_half(dtype_of(p, A)) || vtb_is_half(dtype_of(p, B));
}

static vtb_factors factors_of(const product *p) {
  vtb_factors factors = vtb_factors_of(p->einsum);
  return has_half(p) && factors != VTB_FACTORS_FP16 ? VTB_FACTORS_BF16 : factors;
}

/* Fills `store` or `store4`, and says by EACH which; and `store_part`. */
static void fill_store(product *p, vtb_cuda_kernel *k) {
  const char *four = vtb__product_store(p, k, 4);
  const char *one = four ? "" : vtb__product_store(p, k, 1);
  VTB_CUDA_NUMBERS(k, {"EACH", four ? 4 : 1}, {"PARTED", p->parts.of != NULL});
  vtb_cuda_fill(k, "store_part", "%s", vtb__product_store_part(p, k));
  vtb_cuda_fill(k, "store", "%s", one);
  vtb_cuda_fill(k, "store4", "%s", four ? four : "");
}

static int64_t size_of_sum(const product *p) {
  return p->sum ? p->of[BATCH].size * p->of[p->sum_of == p->a ? M : N].size : 0;
}

/* The sums of a factor, or their parts behind those of the product. */
void vtb__product_sum(product *p, vtb_cuda_kernel *k) {
  const char *text = "";
  int which = !p->sum ? 0 : p->sum_of == p->a ? 1 : 2;
  if (which && p->splits == 1)
    text = vtb__product_store_sum(p, k);
  else if (which)
    text = vtb_arena_printf(&p->c->arena,
                            "part[(vtb_i64)M * N * BATCHES * %lld + (split * BATCHES + batch) * %s "
                            "+ %s] = total;",
                            (long long)p->splits, which == 1 ? "M" : "N", which == 1 ? "m" : "n");
  VTB_CUDA_NUMBERS(k, {"SUMMED", which});
  vtb_cuda_fill(k, "store_total_m", "%s", which == 1 ? text : "");
  vtb_cuda_fill(k, "store_total_n", "%s", which == 2 ? text : "");
}

/* Stores a block's sums: ranges of k are parts for write_total(). */
void vtb__product_accumulate(product *p, vtb_cuda_kernel *k, int temp) {
  static const char at[] = "((vtb_i64)(split * BATCHES + batch) * M + m) * N + n";
  bool four = p->of[N].size % 4 == 0;
  if (p->splits == 1) {
    fill_store(p, k);
    return;
  }
  vtb_cuda_temp_out(k, temp, "float", "part");
  VTB_CUDA_NUMBERS(k, {"EACH", four ? 4 : 1}, {"PARTED", 0});
  vtb_cuda_fill(k, "store_part", "%s", "");
  const char *text =
      vtb_arena_printf(&p->c->arena, four ? "vtb_store4(part, %s, vsum);" : "part[%s] = sum;", at);
  vtb_cuda_fill(k, "store", "%s", four ? "" : text);
  vtb_cuda_fill(k, "store4", "%s", four ? text : "");
}

/* A factor, called `name` in the text: its rows are of `class`. */
static void fill_factor(product *p, vtb_cuda_kernel *k, int t, letter_class class, char name) {
  fetch f = choose_fetch(p, t, class);
  char upper[] = {(char)(name - 'a' + 'A'), 0}, row[] = {class == M ? 'm' : 'n', 0};
  char hole[16];
  vtb_cuda_in(k, vtb__product_tensor(p, t), (char[]){name, 0});
  vtb_cuda_fill(k, upper, "%s", vtb__cuda_type_name(dtype_of(p, t)));
  snprintf(hole, sizeof hole, "%s_ALONG", upper);
  VTB_CUDA_NUMBERS(k, {hole, f.along_k});
  snprintf(hole, sizeof hole, "%s_WIDE", upper);
  VTB_CUDA_NUMBERS(k, {hole, f.width});
  snprintf(hole, sizeof hole, "%c_batch", name);
  vtb_cuda_fill(k, hole, "%s", vtb__product_offset(p, &p->of[BATCH], t, "batch"));
  snprintf(hole, sizeof hole, "%c_%s", name, row);
  vtb_cuda_fill(k, hole, "%s", vtb__product_offset(p, &p->of[class], t, row));
  snprintf(hole, sizeof hole, "%c_k", name);
  vtb_cuda_fill(k, hole, "%s", vtb__product_offset(p, &p->of[K], t, "k"));
}

static void write_product(product *p, int temp) {
  vtb_cuda_kernel *k = vtb_cuda_begin_text(p->c, "product", "product.cu", THREADS);
  VTB_CUDA_NUMBERS(k, {"M", p->of[M].size}, {"N", p->of[N].size}, {"K", p->of[K].size},
                   {"BATCHES", p->of[BATCH].size}, {"BM", p->bm}, {"BN", p->bn},
                   {"WARPS_N", p->warps_n}, {"STEP", p->k_step}, {"RANGE", p->k_range},
                   {"FACTORS", factors_of(p)}, {"TOGETHER", p->fused ? 2 : 8});
  fill_factor(p, k, p->a, M, 'a');
  fill_factor(p, k, p->b, N, 'b');
  vtb__product_accumulate(p, k, temp);
  vtb__product_sum(p, k);
  vtb_cuda_launch(k, vtb_cuda_value(k, "BLOCKS") * p->splits);
}

/* The parts of ranges of k, added in order. */
static void write_total(product *p, int temp) {
  vtb_cuda_kernel *k = vtb_cuda_begin_text(p->c, "total", "product_total.cu", THREADS);
  int64_t m = p->of[M].size, n = p->of[N].size, batches = p->of[BATCH].size;
  vtb_cuda_temp_in(k, temp, "float", "part");
  fill_store(p, k);
  VTB_CUDA_NUMBERS(k, {"M", m}, {"N", n}, {"BATCHES", batches}, {"SPLITS", p->splits},
                   {"SUMS", size_of_sum(p)}, {"SUM_ROWS", p->sum && p->sum_of == p->b ? n : m});
  if (p->sum)
    vtb_cuda_fill(k, "store_total", "const int %s = at;\n  %s", p->sum_of == p->b ? "n" : "m",
                  vtb__product_store_sum(p, k));
  else
    vtb_cuda_fill(k, "store_total", "%s", "");
  int64_t each = vtb_cuda_value(k, "EACH");
  vtb_cuda_launch(k, (m * n * batches / each + size_of_sum(p) + THREADS - 1) / THREADS);
}

/* ---- by the library -------------------------------------------------------------------------- */

/* A matrix with rows r and columns c in tensor t, as BLAS sees it. */
static bool is_matrix(const letter *r, const letter *c, int t, uint8_t *trans, int64_t *leading) {
  *trans = c->stride[t] != 1;
  *leading = *trans ? c->stride[t] : r->stride[t];
  return *trans ? r->stride[t] == 1 && c->stride[t] >= r->size : r->stride[t] >= c->size;
}

static bool is_bias(const product *p) {
  if (p->of[BATCH].n && p->of[BATCH].at[0].stride[ADD]) return false;
  return !p->of[M].at[0].stride[ADD] && p->of[N].at[0].stride[ADD] == 1;
}

/* A large product of plain matrices, with a bias or nothing added, as a step of the plan; false if
 * it is not one. */
static bool by_library(product *p) {
  vtb_launch_gemm g;
  uint8_t trans_c;
  memset(&g, 0, sizeof g); /* compared byte by byte */
  vtb_factors factors = vtb_factors_of(p->einsum);
  vtb_dtype a = dtype_of(p, A), b = dtype_of(p, B), add = p->adds ? dtype_of(p, ADD) : VTB_F32;
  if (!vtb_attr_int(p->einsum, "library", 0) || p->fused || p->of[BATCH].n > 1 ||
      factors == VTB_FACTORS_SPLIT)
    return false;
  /* what the library combines */
  if (a != b || (p->adds && add != dtype_of(p, OUT)) ||
      (vtb_is_half(dtype_of(p, OUT)) && dtype_of(p, OUT) != a))
    return false;
  for (int class = M; class <= K; class ++)
    if (p->of[class].n != 1) return false;
  const letter *m = &p->of[M].at[0], *n = &p->of[N].at[0], *k = &p->of[K].at[0];
  const letter *batch = p->of[BATCH].n ? &p->of[BATCH].at[0] : NULL;
  if (!is_matrix(m, k, p->a, &g.trans_a, &g.lda) || !is_matrix(k, n, p->b, &g.trans_b, &g.ldb) ||
      !is_matrix(m, n, OUT, &trans_c, &g.ldc) || trans_c || (p->adds && !is_bias(p)))
    return false;
  g.m = m->size;
  g.n = n->size;
  g.k = k->size;
  g.batch = batch ? batch->size : 1;
  g.stride_a = batch ? batch->stride[p->a] : 0;
  g.stride_b = batch ? batch->stride[p->b] : 0;
  g.stride_c = batch ? batch->stride[OUT] : 0;
  g.has_bias = p->adds;
  g.precision = (uint8_t)factors;
  g.narrow_factors = vtb_is_half(a);
  g.narrow_result = vtb_is_half(dtype_of(p, OUT));
  vtb__cuda_gemm(p->c, &g,
                 (int[]){vtb__product_tensor(p, p->a), vtb__product_tensor(p, p->b),
                         vtb__product_tensor(p, OUT), 2});
  return true;
}

static void emit(product *p) {
  read_letters(p);
  choose_sides(p);
  sort_letters(p);
  if (!vtb_is_product(p->einsum)) {
    if (!p->fused && vtb__cuda_blocks(p->c, p->einsum)) return;
    emit_generic(p, p->of[LONE].n == 0 && p->of[K].size <= VTB_SHORT_SUM);
    return;
  }
  if (by_library(p)) return;
  p->k_step = has_half(p) ? 32 : 16;
  vtb__product_choose_tile(p, factors_of(p));
  bool wide = vtb__product_choose_wide(p, factors_of(p));
  int temp = -1;
  p->whole_rows = wide && p->splits == 1 && p->of[N].size <= p->bn;
  vtb__product_begin_parts(p);
  if (p->splits > 1)
    temp = vtb_cuda_temp(
        p->c, (p->of[BATCH].size * p->of[M].size * p->of[N].size + size_of_sum(p)) * p->splits * 4);
  if (wide)
    vtb__product_write_wide(p, factors_of(p), temp);
  else
    write_product(p, temp);
  if (p->splits > 1) write_total(p, temp);
  vtb__product_add_parts(p);
}

void vtb__cuda_einsum(vtb_cuda *c, const vtb_inst *inst) {
  product p = {.c = c, .einsum = inst};
  emit(&p);
}

/* A sum of a factor in the fused body. */
static void find_sum(product *p) {
  const vtb_func *body = p->fused->callee;
  for (int r = 0; r < body->n_returns; r++) {
    const vtb_inst *i = body->returns[r]->def;
    if (!i || i->op != VTB_OP_reduce_sum || (p->parts.of && r == p->parts.squares)) continue;
    if (p->sum || i->operands[0]->def || i->operands[0]->index > 1) {
      vtb_cuda_unsupported(p->c, p->fused,
                           "a product whose body sums something else than a factor");
      return;
    }
    p->sum = i;
    p->sum_of = i->operands[0]->index;
    p->sum_result = r;
  }
}

void vtb__cuda_product(vtb_cuda *c, const vtb_inst *fused) {
  product p = {.c = c,
               .einsum = fused->callee->first,
               .fused = fused,
               .parts = vtb_row_parts_of(fused->callee)};
  find_sum(&p);
  if (!c->failed) emit(&p);
}
