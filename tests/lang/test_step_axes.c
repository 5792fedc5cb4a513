/* Axes of a step: states and results keep the order they were declared with, whatever the order of
 * the others. All sizes are equal, so that no shape tells a wrong order. */
#include "frontend/lang/lang.h"
#include "ir/interp.h"
#include "tests/test.h"

enum { N = 5, D = 3 };

static const char text[] = "recurrence chain(k: [K], v: [V], l: [L]) -> [V] {\n"
                           "  state S: [K, V], R: [L, V]\n"
                           "  S = S + outer(k, v - dot(k, S))\n"
                           "  R = R + outer(l, dot(k, S) - dot(l, R))\n"
                           "  yield dot(l, R)\n"
                           "}\n"
                           "recurrence crossed(k: [K], v: [V]) -> [V, K] {\n"
                           "  state S: [K, V], R: [V, K]\n"
                           "  S = 0.5 * S + outer(k, v)\n"
                           "  R = 0.9 * R + S\n"
                           "  yield R\n"
                           "}\n"
                           "model m() {\n"
                           "  input k: tokens[5, 3]\n"
                           "  input v: tokens[5, 3]\n"
                           "  input l: tokens[5, 3]\n"
                           "  y, _S, R = chain(k, v, l, states = true)\n"
                           "  z, _T, Q = crossed(k, v, states = true)\n"
                           "  output y = y\n"
                           "  output R = R\n"
                           "  output z = z\n"
                           "  output Q = Q\n"
                           "}\n";

/* sum over i of x[i] m[i][j] */
static double read_of(const double *x, double m[D][D], int j) {
  double sum = 0;
  for (int i = 0; i < D; i++) sum += x[i] * m[i][j];
  return sum;
}

static void correct(double m[D][D], const double *key, const double *value) {
  double line[D];
  for (int j = 0; j < D; j++) line[j] = value[j] - read_of(key, m, j);
  for (int i = 0; i < D; i++)
    for (int j = 0; j < D; j++) m[i][j] += key[i] * line[j];
}

static void chain_loop(double in[3][N][D], double y[N][D], double r[D][D]) {
  double s[D][D] = {{0}}, said[D];
  memset(r, 0, sizeof s);
  for (int t = 0; t < N; t++) {
    correct(s, in[0][t], in[1][t]);
    for (int j = 0; j < D; j++) said[j] = read_of(in[0][t], s, j);
    correct(r, in[2][t], said);
    for (int j = 0; j < D; j++) y[t][j] = read_of(in[2][t], r, j);
  }
}

static void crossed_loop(double in[3][N][D], double z[N][D][D], double r[D][D]) {
  double s[D][D] = {{0}};
  memset(r, 0, sizeof s);
  for (int t = 0; t < N; t++)
    for (int v = 0; v < D; v++)
      for (int k = 0; k < D; k++) {
        s[k][v] = 0.5 * s[k][v] + in[0][t][k] * in[1][t][v];
        r[v][k] = 0.9 * r[v][k] + s[k][v];
        z[t][v][k] = r[v][k];
      }
}

static void check_equal(const vtb_tensor *got, const double *want, int64_t n, const char *what) {
  CHECK(vtb_type_count(&got->type) == n);
  for (int64_t i = 0; i < n; i++)
    CHECK_MSG(fabs(got->data[i] - want[i]) < 1e-12, "%s[%d]: %g, not %g", what, (int)i,
              got->data[i], want[i]);
}

TEST(declared_orders_are_kept) {
  vtb_diags d = {0};
  vtb_unit *unit = vtb_unit_load_text("user.vtb", text, strlen(text), NULL, &d);
  vtb_module *m = unit ? vtb_instantiate(unit, NULL, NULL, &d) : NULL;
  if (d.list.n) vtb_diags_print(&d, stderr);
  CHECK(m && m->entry->n_args == 3 && m->entry->n_returns == 4);
  if (!m || m->entry->n_returns != 4) return;
  double in[3][N][D], y[N][D], r[D][D], z[N][D][D], q[D][D];
  unsigned long long seed = 7;
  for (int i = 0; i < 3 * N * D; i++) in[i / (N * D)][i / D % N][i % D] = test_random(&seed);
  vtb_tensor args[3], got[4] = {{{0}, NULL}};
  for (int i = 0; i < 3; i++) {
    args[i] = (vtb_tensor){m->entry->args[i]->type, in[i][0]};
    args[i].type.dim[0].size = 1;
  }
  vtb_error err = {0};
  CHECK_MSG(vtb_interpret(m->entry, args, got, &(vtb_interp_options){.batch = 1}, &err) == VTB_OK,
            "%s", err.text);
  chain_loop(in, y, r);
  crossed_loop(in, z, q);
  check_equal(&got[0], y[0], N * D, "y");
  check_equal(&got[1], r[0], D * D, "R");
  check_equal(&got[2], z[0][0], N * D * D, "z");
  check_equal(&got[3], q[0], D * D, "Q");
  const vtb_type *t = &got[2].type;
  CHECK(strcmp(t->dim[t->rank - 2].name, "V") == 0 && strcmp(t->dim[t->rank - 1].name, "K") == 0);
  for (int i = 0; i < 4; i++) vtb_tensor_free(&got[i]);
  vtb_module_free(m);
  vtb_unit_free(unit);
  vtb_diags_free(&d);
}

int main(void) {
  RUN(declared_orders_are_kept);
  return test_done();
}
