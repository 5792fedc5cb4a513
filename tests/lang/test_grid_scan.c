/* Recurrences on the grid as two passes of scans: std.grid_scan beside loops over rows and columns,
 * and what the two passes cannot be. */
#include "frontend/lang/lang.h"
#include "ir/interp.h"
#include "tests/test.h"

enum { H = 4, W = 5, C = 3, N = H * W * C };

static double at(const double *h, int i, int j, int c) {
  return i < 0 || j < 0 ? 0 : h[(i * W + j) * C + c];
}

typedef enum cross {
  NONE,
  LEFT,
  HERE
} cross; /* of the diagonal neighbour: the decay down it has */

/* h[i, j] = right h[i, j-1] + down h[i-1, j] - right (down of the left neighbour, or of the place
 * itself) h[i-1, j-1] + x */
static void loop(const double *x, const double *right, const double *down, cross kind, double *h) {
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      for (int c = 0; c < C; c++) {
        double r = at(right, i, j, c), d = at(down, i, j, c), back = at(h, i - 1, j - 1, c);
        double v = r * at(h, i, j - 1, c) + d * at(h, i - 1, j, c) + at(x, i, j, c);
        if (kind == LEFT) v -= r * at(down, i, j - 1, c) * back;
        if (kind == HERE) v -= r * d * back;
        h[(i * W + j) * C + c] = v;
      }
}

static vtb_module *load(vtb_unit **unit) {
  static const char *const dirs[] = {VTB_SOURCE_DIR "/models"};
  static const vtb_search search = {.dirs = dirs, .n_dirs = 1};
  vtb_diags d = {0};
  *unit = vtb_unit_load(VTB_SOURCE_DIR "/tests/std/grid_scan.vtb", &search, &d);
  vtb_instantiate_options o = {0};
  vtb_module *m = *unit ? vtb_instantiate(*unit, "grid_scan_example", &o, &d) : NULL;
  if (d.list.n) vtb_diags_print(&d, stderr);
  vtb_diags_free(&d);
  return m;
}

/* The passes' result for these inputs, freed by the caller. */
static double *two_passes(vtb_module *m, double *x, double *right, double *down) {
  vtb_tensor args[3], results[4] = {{{0}, NULL}};
  double *in[3] = {x, right, down};
  vtb_error err = {0};
  CHECK(m->entry->n_args == 3 && m->entry->n_returns <= 4);
  for (int i = 0; i < 3; i++) {
    args[i] = (vtb_tensor){m->entry->args[i]->type, in[i]};
    args[i].type.dim[0].size = 1;
  }
  vtb_status status =
      vtb_interpret(m->entry, args, results, &(vtb_interp_options){.batch = 1}, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  for (int i = 1; i < m->entry->n_returns; i++) vtb_tensor_free(&results[i]);
  return results[0].data;
}

static double distance(const double *x, const double *y) {
  double worst = 0;
  for (int i = 0; i < N; i++) worst = fmax(worst, fabs(x[i] - y[i]));
  return worst;
}

TEST(two_passes_are_the_recurrence_with_its_cross_term) {
  vtb_unit *unit;
  vtb_module *m = load(&unit);
  CHECK(m != NULL);
  if (!m) return;
  double x[N], right[N], down[N], h[N];
  unsigned long long seed = 3;
  for (int i = 0; i < N; i++)
    x[i] = test_random(&seed), right[i] = test_random(&seed), down[i] = test_random(&seed);
  double *y = two_passes(m, x, right, down);
  loop(x, right, down, LEFT, h);
  CHECK_MSG(distance(y, h) <= 1e-12, "differs by %g", distance(y, h));
  loop(x, right, down, HERE, h); /* another cross term */
  CHECK(distance(y, h) > 1e-2);
  loop(x, right, down, NONE, h); /* none */
  CHECK(distance(y, h) > 1e-2);
  free(y);
  /* decays down that are one number a row: the cross term with the decays of the place itself */
  for (int i = 0; i < N; i++) down[i] = down[i / (W * C) * W * C];
  y = two_passes(m, x, right, down);
  loop(x, right, down, HERE, h);
  CHECK_MSG(distance(y, h) <= 1e-12, "differs by %g", distance(y, h));
  free(y);
  vtb_module_free(m);
  vtb_unit_free(unit);
}

/* Without the cross term a token reaches another one along every path between them: binomials,
 * whose matrix has determinant 1. A sum of fewer than n pairs of passes has rank below n. */
TEST(without_it_paths_are_counted) {
  double x[N] = {1, 1, 1}, ones[N], h[N], a[H][H];
  for (int i = 0; i < N; i++) ones[i] = 1;
  loop(x, ones, ones, NONE, h);
  double row[H] = {1, 1, 1, 1};
  for (int i = 0; i < H; i++)
    for (int j = 0; j < H; j++) {
      row[j] = i == 0 || j == 0 ? 1 : row[j] + row[j - 1];
      a[i][j] = at(h, i, j, 0);
      CHECK_NEAR(a[i][j], row[j], 0);
    }
  double determinant = 1;
  for (int k = 0; k < H; k++) {
    determinant *= a[k][k];
    for (int i = k + 1; i < H; i++)
      for (int j = H - 1; j >= k; j--) a[i][j] -= a[i][k] / a[k][k] * a[k][j];
  }
  CHECK_NEAR(determinant, 1, 1e-12);
}

int main(void) {
  RUN(two_passes_are_the_recurrence_with_its_cross_term);
  RUN(without_it_paths_are_counted);
  return test_done();
}
