/* Products of small matrices, one a group of channels (block-diagonal projections), and products
 * with a short sum: no work for tensor cores, but for memory, so that lanes run along channels.
 *
 *   y[rows, g, n] = sum over k x[rows, g, k] w[g, n, k]     text/blocks.cu, w in registers
 *   w[g, m, n]    = sum over rows a[rows, g, m] b[rows, g, n]     text/blocks_sum.cu, by shares
 *                                                                 that text/parts_add.cu adds
 *
 * Letters are of four classes, each one index, as in einsum.c: g is in both operands and the
 * result. What has another order of memory, or is too large for registers, is left to loops and
 * reductions.
 */
#include "codegen/cuda/cost.h"
#include "codegen/cuda/emitters.h"
#include "codegen/cuda/plan/program.h"
#include "ir/product.h"

enum { A, B, OUT, ADD, TENSORS };
enum { GROUP, M, N, K, CLASSES };
enum { MOST_LETTERS = VTB_MOST_LETTERS, THREADS = 256, REGISTERS = 64, LEAST_ROWS = 64 };
enum { MOST_EACH = 64 };

typedef struct letter {
  vtb_letter_role role;
  bool kept;                     /* in the result */
  int64_t size, stride[TENSORS]; /* elements; 0 where absent */
  int at;                        /* axis of the result, or of the first operand it is in */
} letter;

typedef struct index_of { /* a class' letters, outermost first */
  letter at[MOST_LETTERS];
  int n;
  int64_t size;
} index_of;

typedef struct blocks {
  vtb_cuda *c;
  const vtb_inst *inst;
  letter letters[MOST_LETTERS];
  int n_letters;
  int a, b; /* the operands with m and with n */
  bool adds;
  int bias; /* result that is the sum of a over the rows; 0: none */
  index_of of[CLASSES];
} blocks;

/* ---- letters --------------------------------------------------------------------------------- */

static int number(const blocks *p, int t) {
  return t == OUT ? p->inst->n_operands : t == ADD ? 2 : t;
}
static const vtb_cuda_tensor *tensor(const blocks *p, int t) {
  return vtb_cuda_tensor_of(p->c, number(p, t));
}

static void read_letters(blocks *p) {
  vtb_product e = vtb_product_of(p->inst);
  p->adds = p->inst->n_operands == 3;
  for (int i = 0; i < e.n; i++) {
    const int *at = e.letters[i].at;
    if (e.letters[i].size == 1) continue;
    letter *l = &p->letters[p->n_letters++];
    *l = (letter){.role = e.letters[i].role, .kept = at[OUT] >= 0, .size = e.letters[i].size};
    for (int t = A; t <= OUT; t++)
      if (at[t] >= 0) l->stride[t] = tensor(p, t)->stride[at[t]];
    l->at = at[OUT] >= 0 ? at[OUT] : at[A] >= 0 ? at[A] : at[B];
  }
  int missing = p->adds ? tensor(p, OUT)->type->rank - tensor(p, ADD)->type->rank : 0;
  for (int i = 0; p->adds && i < p->n_letters; i++) {
    letter *l = &p->letters[i];
    int axis = l->kept ? l->at - missing : -1;
    if (axis >= 0 && tensor(p, ADD)->type->dim[axis].size > 1)
      l->stride[ADD] = tensor(p, ADD)->stride[axis];
  }
}

/* CLASSES: in one operand only. */
static int class_of(const blocks *p, const letter *l) {
  switch (l->role) {
  case VTB_LETTER_BATCH:
    return GROUP;
  case VTB_LETTER_SUM:
    return K;
  case VTB_LETTER_ROWS:
    return p->a == A ? M : N;
  case VTB_LETTER_COLUMNS:
    return p->a == A ? N : M;
  default:
    return CLASSES;
  }
}

static bool joins(const letter *outer, const letter *inner) {
  for (int t = 0; t < TENSORS; t++)
    if (outer->stride[t] != inner->stride[t] * inner->size) return false;
  return true;
}

/* False if a letter is in one operand only. */
static bool sort_letters(blocks *p) {
  for (int class = 0; class < CLASSES; class ++) p->of[class] = (index_of){.size = 1};
  for (int axis = 0; axis < VTB_MAX_RANK; axis++)
    for (int i = 0; i < p->n_letters; i++) {
      const letter *l = &p->letters[i];
      if (l->at != axis) continue;
      int class = class_of(p, l);
      if (class == CLASSES) return false;
      index_of *x = &p->of[class];
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
  return true;
}

/* Offset in tensor t of the C variable `i`, the number of a class. */
static const char *offset(blocks *p, int class, int t, const char *i) {
  vtb_strbuf s = {0};
  int64_t inner = 1;
  const index_of *x = &p->of[class];
  for (int k = x->n; k-- > 0; inner *= x->at[k].size) {
    const letter *l = &x->at[k];
    if (!l->stride[t]) continue;
    vtb_strbuf_printf(&s, "%s%s", s.n ? " + " : "(", i);
    if (inner > 1) vtb_strbuf_printf(&s, " / %lld", (long long)inner);
    if (k) vtb_strbuf_printf(&s, " %% %lld", (long long)l->size);
    if (l->stride[t] != 1) vtb_strbuf_printf(&s, " * %lld", (long long)l->stride[t]);
  }
  if (s.n) vtb_strbuf_puts(&s, ")");
  const char *text = vtb_arena_strdup(&p->c->arena, s.n ? s.at : "0");
  vtb_strbuf_free(&s);
  return text;
}

static void fill(blocks *p, vtb_cuda_kernel *k, const char *hole, int class, int t, const char *i) {
  vtb_cuda_fill(k, hole, "%s", offset(p, class, t, i));
}

/* 4 if the elements of an index are neighbours in tensor t and can be moved in fours, `span` groups
 * of them likewise; else 1. */
static int width(const blocks *p, int t, int class, int64_t each, int64_t span) {
  const vtb_cuda_tensor *x = tensor(p, t);
  const index_of *run = &p->of[class], *g = &p->of[GROUP];
  if (x->align < 4 || each * span % 4) return 1;
  if (run->size > 1 && (run->n != 1 || run->at[0].stride[t] != 1)) return 1;
  if (span > 1 && (g->n != 1 || g->at[0].stride[t] != run->size)) return 1;
  for (int c = 0; c < CLASSES; c++)
    for (int i = 0; c != class && i < p->of[c].n; i++) {
      bool along = c == GROUP && span > 1;
      if (!along && p->of[c].at[i].stride[t] % 4) return 1;
    }
  return 4;
}

static void fill_index(blocks *p, vtb_cuda_kernel *k) {
  bool wide = false;
  for (int t = A; t < (p->adds ? TENSORS : ADD); t++)
    wide |= vtb_cuda_is_far(p->c, vtb_cuda_reach(tensor(p, t)->type, tensor(p, t)->stride));
  vtb_cuda_fill(k, "index", wide ? "vtb_i64" : "int");
}

/* ---- rows with small matrices ---------------------------------------------------------------- */

/* The matrix is the operand without rows; lanes run along the result's innermost axis. */
static bool choose_matrix(blocks *p) {
  p->a = A, p->b = B;
  if (!sort_letters(p)) return false;
  if (p->of[N].size > p->of[M].size) p->a = B, p->b = A;
  if (p->of[N].size > p->of[M].size && !sort_letters(p)) return false;
  const index_of *inner = p->of[N].size > 1 ? &p->of[N] : &p->of[GROUP];
  return inner->n && inner->at[inner->n - 1].stride[OUT] == 1 && p->of[M].size >= LEAST_ROWS;
}

/* Columns of a thread: four, in as many groups as that takes, or all of a group; 0: too many. */
static int64_t choose_columns(const blocks *p) {
  int64_t n = p->of[N].size, k = p->of[K].size, groups = p->of[GROUP].size;
  int64_t per = n % 4 == 0 ? 4 : 4 % n == 0 && groups * n % 4 == 0 ? 4 : n <= 8 ? n : 1;
  return per * k <= REGISTERS ? per : k <= REGISTERS ? 1 : 0;
}

/* Blocks that keep the machine busy: eight a multiprocessor. */
static int64_t busy_blocks(const blocks *p) { return 8 * (int64_t)vtb_cuda_gpu(p->c)->processors; }

static bool emit_rows(blocks *p) {
  if (!choose_matrix(p)) return false;
  int64_t per = choose_columns(p), n = p->of[N].size, rows = p->of[M].size;
  int64_t columns = p->of[GROUP].size * n / (per ? per : 1), span = per > n ? per / n : 1;
  if (!per || columns > INT32_MAX) return false;
  int64_t threads = busy_blocks(p) * THREADS, each = (rows * columns + threads - 1) / threads;
  if (each > MOST_EACH) each = MOST_EACH;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(p->c, "blocks", "blocks.cu", THREADS);
  vtb_cuda_in(k, number(p, p->a), "x_in");
  vtb_cuda_in(k, number(p, p->b), "w_in");
  if (p->adds) vtb_cuda_in(k, 2, "add");
  vtb_cuda_out(k, number(p, OUT), "y_out");
  fill_index(p, k);
  VTB_CUDA_NUMBERS(k, {"ROWS", rows}, {"GROUPS", p->of[GROUP].size}, {"N", n}, {"K", p->of[K].size},
                   {"PER", per}, {"EACH", each}, {"X_WIDE", width(p, p->a, K, p->of[K].size, span)},
                   {"W_WIDE", width(p, p->b, K, p->of[K].size, 1)},
                   {"Y_WIDE", per % 4 ? 1 : width(p, OUT, N, per < n ? per : n, span)},
                   {"ADD_WIDE", !p->adds  ? 0
                                : per % 4 ? 1
                                          : width(p, ADD, N, per < n ? per : n, span)});
  fill(p, k, "x_row", M, p->a, "row");
  fill(p, k, "x_g", GROUP, p->a, "g");
  fill(p, k, "x_k", K, p->a, "k");
  fill(p, k, "w_g", GROUP, p->b, "g");
  fill(p, k, "w_n", N, p->b, "n");
  fill(p, k, "w_k", K, p->b, "k");
  fill(p, k, "y_row", M, OUT, "row");
  fill(p, k, "y_g", GROUP, OUT, "g");
  fill(p, k, "y_n", N, OUT, "n");
  fill(p, k, "add_row", M, ADD, "row");
  fill(p, k, "add_g", GROUP, ADD, "g");
  fill(p, k, "add_n", N, ADD, "n");
  vtb_cuda_fill(k, "add_in", p->adds ? "add" : "x_in");
  vtb_cuda_launch(k, ((rows + each - 1) / each * columns + THREADS - 1) / THREADS);
  return true;
}

/* ---- sums over rows -------------------------------------------------------------------------- */

/* The statement that stores `sum`. */
static const char *store_sum(blocks *p, vtb_cuda_kernel *k) {
  const char *add = "";
  vtb_cuda_out(k, number(p, OUT), "y");
  if (p->adds) {
    vtb_cuda_in(k, 2, "add");
    add = vtb_arena_printf(&p->c->arena, " + add[%s + %s + %s]", offset(p, GROUP, ADD, "g"),
                           offset(p, M, ADD, "m"), offset(p, N, ADD, "n"));
  }
  return vtb_arena_printf(&p->c->arena, "y[%s + %s + %s] = sum%s;", offset(p, GROUP, OUT, "g"),
                          offset(p, M, OUT, "m"), offset(p, N, OUT, "n"), add);
}

/* The statement that stores `sum` of group g's a at m. */
static const char *store_bias(blocks *p, vtb_cuda_kernel *k) {
  if (!p->bias) return "";
  vtb_cuda_out(k, p->inst->n_operands + p->bias, "d_bias");
  return vtb_arena_printf(&p->c->arena, "d_bias[g * %lld + m] = sum;", (long long)p->of[M].size);
}

static void add_parts(blocks *p, int temp, int64_t shares) {
  int64_t groups = p->of[GROUP].size, m = p->of[M].size, n = p->of[N].size;
  int64_t columns = p->bias ? n + 1 : n;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(p->c, "blocks_add", "parts_add.cu", THREADS);
  vtb_cuda_temp_in(k, temp, "float", "part");
  VTB_CUDA_NUMBERS(k, {"COUNT", groups * m * columns}, {"SHARES", shares});
  const char *bias = store_bias(p, k);
  if (p->bias) bias = vtb_arena_printf(&p->c->arena, "if (n == %lld) %s else ", (long long)n, bias);
  vtb_cuda_fill(k, "store", "const int g = i %% %lld, n = i / %lld %% %lld, m = i / %lld; %s%s",
                (long long)groups, (long long)groups, (long long)columns,
                (long long)(groups * columns), bias, store_sum(p, k));
  vtb_cuda_launch(k, (groups * m * columns + 31) / 32);
}

static bool emit_sum(blocks *p) {
  p->a = A, p->b = B;
  if (!sort_letters(p)) return false;
  int64_t m = p->of[M].size, n = p->of[N].size, rows = p->of[K].size, groups = p->of[GROUP].size;
  int64_t side = n;
  while (side > 1 && (n % side || side * m > REGISTERS)) side--;
  if (side * m > REGISTERS || rows < LEAST_ROWS || groups * m * n > INT32_MAX / 4) return false;
  int64_t along = groups < 32 ? groups : 32, owners = (groups + along - 1) / along * (n / side);
  int64_t shares = (busy_blocks(p) + owners - 1) / owners, most = rows * along / (4 * THREADS);
  if (shares > most) shares = most;
  if (shares < 1) shares = 1;
  int64_t share = (rows + shares - 1) / shares;
  shares = (rows + share - 1) / share;
  int64_t columns = p->bias ? n + 1 : n; /* of part */
  int temp = shares > 1 ? vtb_cuda_temp(p->c, shares * groups * m * columns * 4) : -1;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(p->c, "blocks_sum", "blocks_sum.cu", THREADS);
  vtb_cuda_in(k, number(p, p->a), "a");
  vtb_cuda_in(k, number(p, p->b), "b");
  if (shares > 1) vtb_cuda_temp_out(k, temp, "float", "part");
  static const char to_part[] =
      "part[((vtb_i64)(share * M + m) * (N + BIAS) + n) * GROUPS + g] = sum;";
  VTB_CUDA_NUMBERS(k, {"BIAS", p->bias > 0});
  vtb_cuda_fill(k, "store", "%s", shares > 1 ? to_part : store_sum(p, k));
  vtb_cuda_fill(k, "store_bias", "%s", p->bias && shares > 1 ? to_part : store_bias(p, k));
  fill_index(p, k);
  VTB_CUDA_NUMBERS(k, {"ROWS", rows}, {"SHARE", share}, {"GROUPS", groups}, {"M", m}, {"N", n},
                   {"ALONG", along}, {"SIDE", side}, {"A_WIDE", width(p, p->a, M, m, 1)},
                   {"B_WIDE", width(p, p->b, N, side, 1)});
  fill(p, k, "a_row", K, p->a, "row");
  fill(p, k, "a_g", GROUP, p->a, "g");
  fill(p, k, "a_m", M, p->a, "m");
  fill(p, k, "b_row", K, p->b, "row");
  fill(p, k, "b_g", GROUP, p->b, "g");
  fill(p, k, "b_n", N, p->b, "n");
  vtb_cuda_launch(k, owners * shares);
  if (shares > 1) add_parts(p, temp, shares);
  return true;
}

void vtb__cuda_blocks_sums(vtb_cuda *c, const vtb_inst *fused) {
  vtb_inst inst = *fused->callee->first; /* its operands are the kernel's */
  blocks p = {.c = c, .inst = &inst, .bias = 1};
  read_letters(&p);
  if (!emit_sum(&p))
    vtb_cuda_unsupported(c, fused,
                         "the gradients of blocks of %lld x %lld over %lld rows and of their bias",
                         (long long)p.of[M].size, (long long)p.of[N].size, (long long)p.of[K].size);
}

bool vtb__cuda_blocks(vtb_cuda *c, const vtb_inst *inst) {
  blocks p = {.c = c, .inst = inst};
  read_letters(&p);
  p.a = A, p.b = B;
  if (!sort_letters(&p)) return false;
  return p.of[K].size <= VTB_SHORT_SUM ? emit_rows(&p) : emit_sum(&p);
}
