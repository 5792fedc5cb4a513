/* The batch shared out over ranks: where sums stand, and in double precision, n interpreters at
 * once against one. */
#include "ir/diag_codes.h"
#include "runtime/base/update.h"
#include "tests/passes/pass_check.h"

#include <pthread.h>

enum { RANKS = 3, ROWS = 2, ALL = RANKS * ROWS };

/* ---- n interpreters -------------------------------------------------------------------------- */

typedef struct rank {
  vtb_module *m;
  vtb_tensor *args, *results;
  int number;
} rank;

static pthread_barrier_t barrier;
static double *parts[RANKS];

static void sum(void *user, double *at, int64_t n) {
  const rank *r = user;
  double *mine = vtb_xcalloc((size_t)n + 1, sizeof *mine);
  memcpy(mine, at, (size_t)n * sizeof *mine);
  parts[r->number] = mine;
  pthread_barrier_wait(&barrier);
  for (int64_t i = 0; i < n; i++) {
    at[i] = 0;
    for (int q = 0; q < RANKS; q++) at[i] += parts[q][i];
  }
  pthread_barrier_wait(&barrier);
  vtb_free(mine);
}

static void *run(void *user) {
  rank *r = user;
  vtb_error err = {0};
  vtb_interp_options o = {.batch = ROWS, .sum = sum, .user = r};
  r->results = vtb_xcalloc((size_t)r->m->entry->n_returns + 1, sizeof *r->results);
  CHECK_MSG(vtb_interpret(r->m->entry, r->args, r->results, &o, &err) == VTB_OK, "%s", err.text);
  return NULL;
}

/* Elements of a rank's rows within those of all: x of type `all` to or from y of type `own`. */
static void copy_rows(const vtb_tensor *all, const vtb_tensor *own, int number, bool back) {
  int64_t outer = 1, inner = 1;
  int axis = 0;
  while (axis < all->type.rank && all->type.dim[axis].size == own->type.dim[axis].size)
    outer *= all->type.dim[axis++].size;
  bool split = axis < all->type.rank;
  for (int a = axis + 1; a < all->type.rank; a++) inner *= all->type.dim[a].size;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < (split ? ROWS * inner : 1); k++) {
      double *x = all->data + (split ? o * ALL * inner + number * ROWS * inner + k : o);
      double *y = own->data + (split ? o * ROWS * inner + k : o);
      if (back)
        *x = *y;
      else
        *y = *x;
    }
}

static vtb_tensor *args_of(const vtb_func *f, const vtb_func *whole, const vtb_tensor *all,
                           int number) {
  vtb_tensor *args = random_args(f, ROWS, 1);
  for (int i = 0; i < f->n_args; i++)
    if (i < whole->n_args)
      copy_rows(&all[i], &args[i], number, false);
    else
      args[i].data[0] = number * ROWS; /* its first row */
  return args;
}

static vtb_module *shared(const vtb_module *m, int ranks, vtb_diags *d) {
  vtb_module *made = vtb_module_clone(m);
  vtb_error err = {0};
  vtb_pass_context c = {.module = made, .ranks = ranks, .diags = d};
  vtb_status status =
      vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = "ranks", .verify_each = true}, &err);
  if (status == VTB_OK) return made;
  CHECK_MSG(d->n_errors > 0, "%s", err.text);
  vtb_module_free(made);
  return NULL;
}

/* What the ranks return together is what one returns, and they sum `sums` times; -1: as often as
 * they like. */
static void check(const char *text, int sums) {
  vtb_module *m = parse_ir(text);
  vtb_diags d = {0};
  vtb_module *part = shared(m, RANKS, &d);
  vtb_diags_print(&d, stderr);
  CHECK(part != NULL);
  if (!part) return;
  CHECK_MSG(sums < 0 || count_ops(part, VTB_OP_sum_ranks) == sums, "%d sums",
            count_ops(part, VTB_OP_sum_ranks));
  vtb_tensor *all = random_args(m->entry, ALL, 77);
  for (int i = 0; i < m->entry->n_args; i++)
    if (m->entry->args[i]->type.dtype == VTB_I32) all[i].data[0] = 5;
  vtb_tensor *want = interpret(m, all, ALL);
  pthread_t threads[RANKS];
  rank ranks[RANKS];
  pthread_barrier_init(&barrier, NULL, RANKS);
  for (int r = 0; r < RANKS; r++) {
    ranks[r] = (rank){.m = vtb_module_clone(part), .number = r};
    ranks[r].args = args_of(ranks[r].m->entry, m->entry, all, r);
    pthread_create(&threads[r], NULL, run, &ranks[r]);
  }
  for (int r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
  pthread_barrier_destroy(&barrier);
  for (int i = 0; i < m->entry->n_returns; i++) {
    vtb_tensor got = vtb_tensor_new(want[i].type);
    for (int r = 0; r < RANKS; r++) copy_rows(&got, &ranks[r].results[i], r, true);
    double error = largest_error(&got, &want[i]);
    CHECK_MSG(error < 1e-12, "result %d is %g off in\n%s", i, error, text);
    vtb_tensor_free(&got);
  }
  for (int r = 0; r < RANKS; r++) {
    free_tensors(ranks[r].args, part->entry->n_args);
    free_tensors(ranks[r].results, part->entry->n_returns);
    vtb_module_free(ranks[r].m);
  }
  free_tensors(want, m->entry->n_returns);
  free_tensors(all, m->entry->n_args);
  vtb_module_free(part);
  vtb_module_free(m);
}

/* ---- what is shared out ---------------------------------------------------------------------- */

/* A quotient of two sums needs both, and then everybody has it. */
TEST(statistics) {
  check("entry func @f(%x: f32[B, 4], %w: f32[4]) -> (f32[B, 4], f32[4], f32[]) {\n"
        "  %one = constant {value = 1} : f32[B, 1]\n"
        "  %n = reduce_sum %one {axes = [0, 1]} : f32[]\n"
        "  %s = reduce_sum %x {axes = [0]} : f32[4]\n"
        "  %mean = div %s, %n : f32[4]\n"
        "  %y = sub %x, %mean : f32[B, 4]\n"
        "  %v = mul %mean, %w : f32[4]\n"
        "  %q = reduce_sum %v {axes = [0]} : f32[]\n"
        "  return %y, %v, %q\n}\n",
        2);
}

TEST(linear_chains_have_one_sum) {
  check("entry func @f(%x: f32[B, 4, 3], %w: f32[4, 3], %b: f32[4, 3]) -> (f32[3, 4]) {\n"
        "  %s = reduce_sum %x {axes = [0]} : f32[4, 3]\n"
        "  %p = mul %s, %w : f32[4, 3]\n"
        "  %z = constant {value = 0} : f32[4, 3]\n"
        "  %c = gt %b, %z : f32[4, 3]\n"
        "  %q = select %c, %p, %z : f32[4, 3]\n"
        "  %r = neg %q : f32[4, 3]\n"
        "  %d = sub %r, %s : f32[4, 3]\n"
        "  %t = transpose %d {perm = [1, 0]} : f32[3, 4]\n"
        "  return %t\n}\n",
        1);
  /* a number that is the same on all is no part: it is added once */
  check("entry func @f(%x: f32[B, 4], %b: f32[4]) -> (f32[4]) {\n"
        "  %s = reduce_sum %x {axes = [0]} : f32[4]\n"
        "  %y = add %s, %b : f32[4]\n"
        "  return %y\n}\n",
        1);
}

/* One op on what a sum over the rows is, %s and %t, on what is the same everywhere, %w, and on
 * constants: what it makes is what one process makes of the whole sums, whatever the pass thinks is
 * linear. */
TEST(whatever_reads_sums) {
  static const char *const rows[] = {"neg %s",
                                     "abs %s",
                                     "exp %s",
                                     "tanh %s",
                                     "sigmoid %s",
                                     "relu %s",
                                     "floor %s",
                                     "stop_gradient %s",
                                     "add %s, %t",
                                     "add %s, %w",
                                     "add %w, %s",
                                     "add %s, %zero",
                                     "add %s, %one",
                                     "sub %s, %t",
                                     "sub %s, %w",
                                     "sub %w, %s",
                                     "sub %zero, %s",
                                     "sub %one, %s",
                                     "mul %s, %w",
                                     "mul %w, %s",
                                     "mul %s, %t",
                                     "mul %s, %s",
                                     "div %s, %w",
                                     "div %w, %s",
                                     "div %s, %t",
                                     "max %s, %t",
                                     "max %s, %zero",
                                     "min %s, %w",
                                     "gt %s, %t",
                                     "gt %s, %w",
                                     "select %c, %s, %t",
                                     "select %c, %s, %zero",
                                     "select %c, %s, %w",
                                     "select %c, %one, %s",
                                     "select %d, %s, %t",
                                     "select %d, %w, %zero",
                                     "select %d, %s, %zero",
                                     "select %n, %t, %zero",
                                     "select %n, %s, %t",
                                     "shift %s {axis = 0, by = 1}",
                                     "shift %s {axis = 0, by = 1, fill = 1}",
                                     "shift %s {axis = 0, by = -2, fill = -0.5}",
                                     "shift %s, %e {axis = 0, by = 1}",
                                     "shift %s, %f {axis = 0, by = 1}",
                                     "prefix_sum %s {axis = 0}",
                                     "permute %s {axis = 0, path = \"rows~@2x3\"}"};
  char text[1600];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(text, sizeof text,
             "entry func @f(%%x: f32[B, N=6], %%y: f32[B, N=6], %%w: f32[N=6], %%e: f32[]) -> "
             "(f32[N=6]) {\n"
             "  %%s = reduce_sum %%x {axes = [0]} : f32[N=6]\n"
             "  %%t = reduce_sum %%y {axes = [0]} : f32[N=6]\n"
             "  %%f = reduce_sum %%t {axes = [0]} : f32[]\n"
             "  %%zero = constant {value = 0} : f32[N=6]\n"
             "  %%one = constant {value = 1} : f32[N=6]\n"
             "  %%c = gt %%w, %%zero : f32[N=6]\n"
             "  %%half = constant {value = 0.5} : f32[B, N=6]\n"
             "  %%above = gt %%x, %%half : f32[B, N=6]\n"
             "  %%n = reduce_sum %%above {axes = [0]} : f32[N=6]\n"
             "  %%d = gt %%s, %%zero : f32[N=6]\n"
             "  %%q = sub %%t, %%one : f32[N=6]\n"
             "  %%r = %s : f32[N=6]\n"
             "  %%p = mul %%r, %%w : f32[N=6]\n"
             "  %%z = add %%p, %%q : f32[N=6]\n"
             "  return %%z\n}\n",
             rows[i]);
    check(text, -1);
  }
}

/* The same of ops whose results have another shape. */
TEST(whatever_moves_sums) {
  static const char *const rows[][2] = {
      {"slice %s {axis = 0, start = 1, limit = 4}", "f32[3]"},
      {"slice %s {axis = 0, start = 0, limit = 6, step = 2}", "f32[3]"},
      {"concat %s, %w {axis = 0}", "f32[12]"},
      {"concat %s, %t {axis = 0}", "f32[12]"},
      {"concat %s, %one {axis = 0}", "f32[12]"},
      {"concat %zero, %s {axis = 0}", "f32[12]"},
      {"pad %s {axis = 0, low = 1, high = 2}", "f32[9]"},
      {"reshape %s {shape = [2, 3]}", "f32[2, 3]"},
      {"broadcast %s {shape = [2, 6]}", "f32[2, 6]"},
      {"reduce_sum %s {axes = [0]}", "f32[]"},
      {"reduce_max %s {axes = [0]}", "f32[]"},
      {"einsum %s, %w {spec = \"n,n->n\"}", "f32[6]"},
      {"einsum %s, %t {spec = \"n,m->nm\"}", "f32[6, 6]"},
      {"einsum %w, %t {spec = \"n,n->\"}", "f32[]"},
      {"einsum %s, %w, %w {spec = \"n,n->n\"}", "f32[6]"},
      {"einsum %w, %w, %s {spec = \"n,n->n\"}", "f32[6]"}};
  char text[1200];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(text, sizeof text,
             "entry func @f(%%x: f32[B, 6], %%y: f32[B, 6], %%w: f32[6]) -> (%s, f32[6]) {\n"
             "  %%s = reduce_sum %%x {axes = [0]} : f32[6]\n"
             "  %%t = reduce_sum %%y {axes = [0]} : f32[6]\n"
             "  %%zero = constant {value = 0} : f32[6]\n"
             "  %%one = constant {value = 1} : f32[6]\n"
             "  %%q = sub %%t, %%one : f32[6]\n"
             "  %%r = %s : %s\n"
             "  return %%r, %%q\n}\n",
             rows[i][1], rows[i][0], rows[i][1]);
    check(text, -1);
  }
}

TEST(products) {
  check("entry func @f(%x: f32[B, N=5, 4], %y: f32[B, N=5, 3], %w: f32[3, 2], %m: f32[4, 3]) -> "
        "(f32[4, 2], f32[4, 3], f32[B, N=5, 4]) {\n"
        "  %g = einsum %x, %y {spec = \"bnc,bne->ce\"} : f32[4, 3]\n"
        "  %h = einsum %g, %w {spec = \"ce,ed->cd\"} : f32[4, 2]\n"
        "  %k = einsum %x, %y, %m {spec = \"bnc,bne->ce\"} : f32[4, 3]\n"
        "  %z = einsum %y, %k {spec = \"bne,ce->bnc\"} : f32[B, N=5, 4]\n"
        "  return %h, %k, %z\n}\n",
        2);
}

TEST(rows_inside) {
  check("entry func @f(%x: f32[B, N=6, 4], %k: f32[4, 3, 3]) -> (f32[6, B, 2, 2], f32[4, 3, 3]) {\n"
        "  %t = transpose %x {perm = [1, 0, 2]} : f32[6, B, 4]\n"
        "  %r = reshape %t {shape = [6, -1, 2, 2]} : f32[6, B, 2, 2]\n"
        "  %d = dwconv_dw %x, %x {grid = [2, 3], pad = [1, 1], kernel = [3, 3]} : f32[4, 3, 3]\n"
        "  return %r, %d\n}\n",
        1);
}

TEST(numbers_of_rows) {
  check("entry func @f(%seed: i32[], %x: f32[B, 3]) -> (f32[B, 3], f32[B], f32[B, 1], f32[2]) {\n"
        "  %i = iota {axis = 0} : f32[B, 1]\n"
        "  %a, %u = call @g(%seed, %x) : f32[B, 3], f32[B]\n"
        "  %r = random %seed {stream = 9} : f32[2]\n"
        "  return %a, %u, %i, %r\n}\n"
        "func @g(%seed: i32[], %x: f32[B, 3]) -> (f32[B, 3], f32[B]) {\n"
        "  %u = random %seed {stream = 1} : f32[B, 3]\n"
        "  %v = random %seed {stream = 2} : f32[B]\n"
        "  %y = mul %u, %x : f32[B, 3]\n"
        "  return %y, %v\n}\n",
        0);
}

/* Sums of what calls return stand behind the calls; of what calls need themselves in the callee. */
TEST(calls) {
  static const char text[] = "entry func @f(%x: f32[B, 3], %w: f32[3]) -> (f32[B, 3], f32[3]) {\n"
                             "  %y, %g, %z = call @g(%x, %w) : f32[B, 3], f32[3], f32[3]\n"
                             "  %t, %h, %o = call @g(%y, %w) : f32[B, 3], f32[3], f32[3]\n"
                             "  %s = add %g, %h : f32[3]\n"
                             "  %u = add %s, %z : f32[3]\n"
                             "  return %t, %u\n}\n"
                             "func @g(%x: f32[B, 3], %w: f32[3]) -> (f32[B, 3], f32[3], f32[3]) {\n"
                             "  %m = reduce_sum %x {axes = [0]} : f32[3]\n"
                             "  %e = tanh %m : f32[3]\n"
                             "  %y = mul %x, %e : f32[B, 3]\n"
                             "  %p = mul %y, %w : f32[B, 3]\n"
                             "  %d = reduce_sum %p {axes = [0]} : f32[3]\n"
                             "  %none = constant {value = 0} : f32[3]\n"
                             "  return %y, %d, %none\n}\n";
  check(text, 2);
  vtb_module *m = parse_ir(text);
  vtb_diags d = {0};
  vtb_module *part = shared(m, RANKS, &d);
  CHECK(part && part->entry->returns[1]->def->op == VTB_OP_sum_ranks);
  vtb_module_free(part);
  vtb_module_free(m);
}

/* A state that begins with zeros collects parts of a sum over all steps. */
TEST(folds) {
  check(
      "entry func @f(%x: f32[B, N=4, 3], %s: f32[B, 3], %w: f32[3]) -> (f32[B, N=4, 3], f32[3]) "
      "{\n"
      "  %zero = constant {value = 0} : f32[3]\n"
      "  %y, %e, %d = fold @step(%s, %zero, %x, %w) {states = 2, seqs = 1} : f32[B, N=4, 3], "
      "f32[B, 3], f32[3]\n"
      "  return %y, %d\n}\n"
      "func @step(%s: f32[B, 3], %d: f32[3], %x: f32[B, 1, 3], %w: f32[3]) -> (f32[B, 3], f32[3], "
      "f32[B, 1, 3]) {\n"
      "  %r = reshape %x {shape = [-1, 3]} : f32[B, 3]\n"
      "  %a = mul %s, %w : f32[B, 3]\n"
      "  %b = add %a, %r : f32[B, 3]\n"
      "  %c = tanh %b : f32[B, 3]\n"
      "  %g = reduce_sum %c {axes = [0]} : f32[3]\n"
      "  %t = add %d, %g : f32[3]\n"
      "  %y = reshape %c {shape = [-1, 1, 3]} : f32[B, 1, 3]\n"
      "  return %c, %t, %y\n}\n",
      1);
}

/* ---- what is not ----------------------------------------------------------------------------- */

TEST(refusals) {
  static const char *const cases[][2] = {
      {"%y = reduce_max %x {axes = [0]} : f32[N=4, 3]", "reduce_max cannot be shared out over 3"},
      {"%y = reshape %x {shape = [4, -1, 3]} : f32[4, B, 3]", "reshape cannot"},
      {"%y = einsum %x, %x {spec = \"bnc,anc->ba\"} : f32[B, B]",
       "rows of a batch with one another"},
      {"%t = transpose %x {perm = [1, 2, 0]} : f32[4, 3, B]\n  %y = random %s {stream = 1} : "
       "f32[4, B]",
       "its rows are not the outermost axis"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    vtb_strbuf s = {0}, said = {0};
    const char *type = strrchr(cases[i][0], ':') + 2;
    vtb_strbuf_printf(&s,
                      "entry func @f(%%x: f32[B, N=4, 3], %%s: i32[]) -> (%s) {\n  %s\n  return "
                      "%%y\n}\n",
                      type, cases[i][0]);
    vtb_module *m = parse_ir(s.at);
    if (!m) continue;
    vtb_diags d = {0}, none = {0};
    CHECK_MSG(shared(m, RANKS, &d) == NULL, "%s", s.at);
    vtb_diags_render(&d, &said, false);
    CHECK_MSG(strstr(said.at, cases[i][1]) && strstr(said.at, "VTB3203"), "%s", said.at);
    vtb_module *alone = shared(m, 1, &none);
    char *before = print_ir(m), *after = print_ir(alone);
    CHECK_STR(after, before); /* one process may do anything */
    vtb_free(before), vtb_free(after);
    vtb_module_free(alone);
    vtb_diags_free(&d);
    vtb_strbuf_free(&s);
    vtb_strbuf_free(&said);
    vtb_module_free(m);
  }
}

int main(void) {
  RUN(statistics);
  RUN(linear_chains_have_one_sum);
  RUN(whatever_reads_sums);
  RUN(whatever_moves_sums);
  RUN(products);
  RUN(rows_inside);
  RUN(numbers_of_rows);
  RUN(calls);
  RUN(folds);
  RUN(refusals);
  return test_done();
}
