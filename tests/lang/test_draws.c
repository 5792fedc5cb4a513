/* What std.draws gives, against the distributions' own functions: the largest distance between the
 * share of numbers below x and what it is to be (Kolmogorov and Smirnov), of numbers that one seed
 * gives. */
#include "frontend/lang/lang.h"
#include "ir/interp.h"
#include "tests/test.h"

#include <math.h>

enum { N = 60000 };
#define FAR 1.95 /* of sqrt(N) times the distance: one in a thousand is farther */

static const double pi = 3.14159265358979323846;

static double uniform(double x) { return x; }
static double arcsine(double x) { return 2 / pi * asin(sqrt(x)); }
static double beta_2_3(double x) { return x * x * (6 - 8 * x + 3 * x * x); }
static double beta_1_fifth(double x) { return 1 - pow(1 - x, 0.2); }
static double exponential(double x) { return -expm1(-x); }
static double gamma_half(double x) { return erf(sqrt(x)); }
static double gamma_5_halves(double x) {
  return erf(sqrt(x)) - 2 / sqrt(pi) * exp(-x) * sqrt(x) * (1 + 2 * x / 3);
}
static double gamma_3_doubled(double x) { return 1 - exp(-x / 2) * (1 + x / 2 + x * x / 8); }
static double dice(double x) { return (x + 1) / 6; }
static double weights(double x) { return x < 2 ? 0.25 : x < 3 ? 0.75 : 1; }

typedef struct draw {
  const char *call;
  double (*below)(double); /* the share that is not above x */
  bool whole;
} draw;

static const draw draws[] = {{"drawn(x)", uniform, false},
                             {"beta(1, 1, x)", uniform, false},
                             {"beta(0.5, 0.5, x)", arcsine, false},
                             {"beta(2, 3, x)", beta_2_3, false},
                             {"beta(1, 0.2, x)", beta_1_fifth, false},
                             {"exponential(x)", exponential, false},
                             {"gamma(1, of = x)", exponential, false},
                             {"gamma(0.5, of = x)", gamma_half, false},
                             {"gamma(2.5, of = x)", gamma_5_halves, false},
                             {"gamma(3, scale = 2.0, of = x)", gamma_3_doubled, false},
                             {"random_int(6, x)", dice, true},
                             {"choice([1, 2, 3], weights = [1, 2, 1], of = x)", weights, true}};
enum { N_DRAWS = sizeof draws / sizeof *draws };

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double distance(const draw *d, double *x) {
  double worst = 0;
  qsort(x, N, sizeof *x, compare);
  for (int i = 0; i < N; i++) {
    bool last = i + 1 == N || x[i + 1] != x[i];
    double want = d->below(x[i]);
    if (last) worst = fmax(worst, fabs((i + 1.0) / N - want));
    if (!d->whole) worst = fmax(worst, fabs(i / (double)N - want));
    if (isnan(x[i])) return 1;
  }
  return worst;
}

TEST(numbers_follow_their_distributions) {
  vtb_strbuf text = {0};
  vtb_strbuf_printf(&text, "use std.draws\nmodel m() {\n  input x: tensor[%d]\n  output of = x\n",
                    N);
  for (int i = 0; i < N_DRAWS; i++)
    vtb_strbuf_printf(&text, "  output y%d = %s\n", i, draws[i].call);
  vtb_strbuf_puts(&text, "}\n");
  static const char *const dirs[] = {VTB_SOURCE_DIR "/models"};
  const vtb_search search = {.dirs = dirs, .n_dirs = 1};
  vtb_diags diags = {0};
  vtb_unit *unit = vtb_unit_load_text("draws.vtb", text.at, text.n, &search, &diags);
  vtb_module *m = unit ? vtb_instantiate(unit, "m", &(vtb_instantiate_options){0}, &diags) : NULL;
  if (diags.list.n) vtb_diags_print(&diags, stderr);
  CHECK(m != NULL);
  vtb_tensor args[2], results[N_DRAWS + 1];
  for (int a = 0; m && a < 2; a++) {
    vtb_type t = m->entry->args[a]->type;
    if (t.rank) t.dim[0].size = 1;
    args[a] = vtb_tensor_new(t);
    if (!t.rank) args[a].data[0] = 2024; /* the seed */
  }
  vtb_error err = {0};
  vtb_interp_options options = {.batch = 1};
  if (m && vtb_interpret(m->entry, args, results, &options, &err) == VTB_OK) {
    for (int i = 0; i < N_DRAWS; i++) {
      double far = sqrt(N) * distance(&draws[i], results[i + 1].data);
      CHECK_MSG(far <= FAR, "%s is %.2f away from its distribution", draws[i].call, far);
    }
    for (int r = 0; r <= N_DRAWS; r++) vtb_tensor_free(&results[r]);
  } else {
    CHECK_MSG(false, "%s", err.text);
  }
  for (int a = 0; m && a < 2; a++) vtb_tensor_free(&args[a]);
  vtb_module_free(m);
  vtb_unit_free(unit);
  vtb_diags_free(&diags);
  vtb_strbuf_free(&text);
}

int main(void) {
  RUN(numbers_follow_their_distributions);
  return test_done();
}
