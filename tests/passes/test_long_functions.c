/* Functions of 10,000 ops and more: the passes take seconds, not minutes, and the graph of groups
 * that fusion works on is what a search of everything says it is. */
#include "passes/fuse/fuse_groups.h"
#include "ir/ops.h"
#include "passes/passes.h"
#include "tests/test.h"

#include <time.h>

/* ---- groups against a search of everything --------------------------------------------------- */

enum { N = 40 };
static unsigned long long seed = 99;

static int below(int n) { return (int)((test_random(&seed) + 1) / 2 * n); }

/* Op k reads up to three earlier ones. */
static vtb_func *random_function(vtb_module *m) {
  vtb_func *f = vtb_func_new(m, "f", VTB_FUNC_PLAIN, (vtb_span){0});
  vtb_builder b = {.module = m, .func = f};
  vtb_value *v[N + 1] = {vtb_func_add_arg(f, "x", vtb_type_scalar())};
  for (int k = 1; k <= N; k++)
    v[k] = vtb_b_select(&b, v[below(k)], v[below(k)], v[k < 8 ? 0 : k - 1 - below(7)]);
  vtb_func_set_returns(f, &v[N], NULL, 1);
  return f;
}

static void edges_of(vtb__groups *g, bool edge[N][N]) {
  memset(edge, 0, sizeof(bool[N][N]));
  for (int i = 0; i < N; i++)
    VTB__EACH_USER(g, i, u) edge[vtb__group_of(g, i)][vtb__group_of(g, *u)] = true;
}

static bool leads(bool edge[N][N], int a, int b, bool *seen) {
  for (int k = 0; k < N; k++) {
    if (!edge[a][k] || k == a || seen[k]) continue;
    if (k == b) return true;
    seen[k] = true;
    if (leads(edge, k, b, seen)) return true;
  }
  return false;
}

/* Does a path lead from a to b, through a third group unless `direct`? */
static bool path_between(vtb__groups *g, int a, int b, bool direct) {
  bool edge[N][N], seen[N] = {0};
  edges_of(g, edge);
  if (!direct) edge[a][b] = false;
  return leads(edge, a, b, seen);
}

static void check_places(vtb__groups *g) {
  bool edge[N][N];
  edges_of(g, edge);
  for (int a = 0; a < N; a++)
    for (int b = 0; b < N; b++) CHECK(!edge[a][b] || a == b || g->place[a] < g->place[b]);
}

TEST(groups_answer_as_a_search_of_everything) {
  int joined = 0, refused = 0;
  for (int round = 0; round < 50; round++) {
    vtb_module *m = vtb_module_new("m");
    vtb_func *f = random_function(m);
    vtb__groups g;
    vtb__groups_init(&g, f);
    for (int k = 0; k < 60; k++) {
      int a = vtb__group_of(&g, below(N)), b = vtb__group_of(&g, below(N));
      bool direct = below(2);
      if (a == b) continue;
      bool want = path_between(&g, a, b, direct) || path_between(&g, b, a, direct);
      CHECK(vtb__groups_path(&g, a, b, direct) == want);
      if (want) refused++;
      if (want) continue;
      vtb__groups_join(&g, a, b);
      joined++;
      check_places(&g);
    }
    vtb__groups_sort(&g);
    for (int i = 0; i < N; i++)
      CHECK(g.next[i] < 0 ||
            (g.next[i] > i && vtb__group_of(&g, g.next[i]) == vtb__group_of(&g, i)));
    vtb_module_free(m);
  }
  CHECK(joined > 500 && refused > 500);
}

/* ---- long functions -------------------------------------------------------------------------- */

static const int64_t shape[] = {4, 16};

/* x = x * w + tanh(x v') over and over, each with parameters of its own: 4 ops a turn. */
static vtb_func *long_chain(vtb_module *m, int turns) {
  int64_t square[] = {16, 16};
  vtb_func *f = vtb_func_new(m, "chain", VTB_FUNC_PLAIN, (vtb_span){0});
  vtb_builder b = {.module = m, .func = f};
  vtb_value *x = vtb_func_add_arg(f, "x", vtb_type_make(VTB_F32, 2, shape));
  f->arg_info[0].role = VTB_ROLE_INPUT;
  for (int k = 0; k < turns; k++) {
    vtb_value *w = vtb_func_add_arg(f, "w", vtb_type_make(VTB_F32, 1, square));
    vtb_value *v = vtb_func_add_arg(f, "v", vtb_type_make(VTB_F32, 2, square));
    f->arg_info[f->n_args - 1].role = f->arg_info[f->n_args - 2].role = VTB_ROLE_PARAM;
    vtb_value *h = vtb_b_unary(&b, VTB_OP_tanh, vtb_b_einsum(&b, "nc,dc->nd", x, v));
    x = vtb_b_binary(&b, VTB_OP_add, vtb_b_binary(&b, VTB_OP_mul, x, w), h);
  }
  vtb_func_set_returns(f, &x, NULL, 1);
  m->entry = f;
  return f;
}

static void run(vtb_module *m, const char *pipeline) {
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_pass_context c = {.module = m, .diags = &diags, .batch = 2};
  vtb_pipeline_options o = {.pipeline = pipeline};
  CHECK_MSG(vtb_run_pipeline(&c, &o, &err) == VTB_OK, "%s", err.text);
}

/* Seconds of the processor for passes over 4 turns ops, their gradients, and passes over these. */
static double seconds_of(int turns) {
  vtb_module *m = vtb_module_new("m");
  vtb_func *f = long_chain(m, turns), *grad;
  int *wrt = calloc(2 * (size_t)turns, sizeof *wrt), outs[] = {0};
  vtb_diags diags = {0};
  vtb_error err = {0};
  clock_t start = clock();
  for (int i = 0; i < 2 * turns; i++) wrt[i] = i + 1;
  run(m, "simplify,cse,unscale,join_products,split_concat,dce");
  CHECK(vtb_autodiff(m, f, outs, 1, wrt, 2 * turns, &grad, &diags, &err) == VTB_OK);
  m->entry = grad;
  run(m, "simplify,cse,dce,bind,add_in_product,split_rows,fuse,grow{products}");
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  CHECK_MSG(vtb_module_verify(m, &err), "%s", err.text);
  free(wrt);
  vtb_module_free(m);
  return seconds;
}

/* Four times as long for twice the ops: beside fewer of the same run, since a machine that others
 * use may be slow. */
TEST(passes_over_ten_thousand_ops_and_their_gradients_take_seconds) {
  double few = seconds_of(1250), many = seconds_of(2500);
  CHECK_MSG(many < 6 * few + 1 && many < 60, "%.1f s for twice the ops of %.1f s", many, few);
}

int main(void) {
  RUN(groups_answer_as_a_search_of_everything);
  RUN(passes_over_ten_thousand_ops_and_their_gradients_take_seconds);
  return test_done();
}
