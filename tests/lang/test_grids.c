/* Convolutions, pooling, moves and windows on series, images and videos: what tests/lang/grids.vtb
 * gives in double precision, against plain loops over three axes (absent ones are 1 long). */
#include "frontend/lang/lang.h"
#include "ir/interp.h"
#include "tests/test.h"

enum { BATCH = 2, C = 8, OUT = 3 };

/* Frames, rows, columns. */
typedef struct axes {
  int64_t n[3];
} axes;

typedef struct grid_case {
  const char *model;
  axes side, kernel, stride, pad, odd, shuffle, roll, window;
} grid_case;

static const grid_case cases[] = {{"series_ops",
                                   {{1, 1, 11}},
                                   {{1, 1, 4}},
                                   {{1, 1, 2}},
                                   {{0, 0, 1}},
                                   {{1, 1, 3}},
                                   {{1, 1, 2}},
                                   {{0, 0, -3}},
                                   {{1, 1, 4}}},
                                  {"image_ops",
                                   {{1, 5, 6}},
                                   {{1, 3, 4}},
                                   {{1, 1, 2}},
                                   {{0, 1, 1}},
                                   {{1, 3, 5}},
                                   {{1, 2, 2}},
                                   {{0, 2, -3}},
                                   {{1, 2, 4}}},
                                  {"video_ops",
                                   {{3, 4, 6}},
                                   {{2, 3, 4}},
                                   {{1, 2, 2}},
                                   {{0, 1, 1}},
                                   {{3, 1, 3}},
                                   {{2, 2, 2}},
                                   {{1, 2, -3}},
                                   {{2, 3, 4}}}};

static int64_t cells(axes a) { return a.n[0] * a.n[1] * a.n[2]; }

static axes place(axes side, int64_t i) {
  return (axes){{i / (side.n[1] * side.n[2]), i / side.n[2] % side.n[1], i % side.n[2]}};
}

/* The cell at a place; -1 outside. */
static int64_t cell(axes side, axes at) {
  for (int k = 0; k < 3; k++)
    if (at.n[k] < 0 || at.n[k] >= side.n[k]) return -1;
  return (at.n[0] * side.n[1] + at.n[1]) * side.n[2] + at.n[2];
}

/* The cell that tap `tap` of the patch `patch` reads. */
static int64_t tap_cell(const grid_case *c, axes out, int64_t patch, int64_t tap) {
  axes p = place(out, patch), t = place(c->kernel, tap), at;
  for (int k = 0; k < 3; k++) at.n[k] = p.n[k] * c->stride.n[k] + t.n[k] - c->pad.n[k];
  return cell(c->side, at);
}

static axes patches(const grid_case *c) {
  axes out;
  for (int k = 0; k < 3; k++)
    out.n[k] = (c->side.n[k] + 2 * c->pad.n[k] - c->kernel.n[k]) / c->stride.n[k] + 1;
  return out;
}

typedef struct run {
  const grid_case *c;
  vtb_func *f;
  vtb_tensor *args;
  const double *x; /* [BATCH, N, C] */
} run;

static const double *arg(const run *r, const char *name) {
  for (int i = 0; i < r->f->n_args; i++)
    if (strcmp(r->f->arg_info[i].official, name) == 0) return r->args[i].data;
  printf("no argument %s\n", name);
  exit(1);
}

static double at(const run *r, int64_t b, int64_t i, int64_t ch) {
  return r->x[(b * cells(r->c->side) + i) * C + ch];
}

/* Element (b, token i, channel j) of an output. */
typedef double (*value_fn)(const run *r, int64_t b, int64_t i, int64_t j);

static double conv(const run *r, int64_t b, int64_t i, int64_t j) {
  double sum = arg(r, "conv.bias")[j];
  int64_t taps = cells(r->c->kernel);
  for (int64_t tap = 0; tap < taps; tap++) {
    int64_t from = tap_cell(r->c, patches(r->c), i, tap);
    for (int64_t ch = 0; from >= 0 && ch < C; ch++)
      sum += arg(r, "conv.weight")[(j * C + ch) * taps + tap] * at(r, b, from, ch);
  }
  return sum;
}

static double largest(const run *r, int64_t b, int64_t i, int64_t j) {
  double most = -1e300;
  for (int64_t tap = 0; tap < cells(r->c->kernel); tap++) {
    int64_t from = tap_cell(r->c, patches(r->c), i, tap);
    if (from >= 0) most = fmax(most, at(r, b, from, j));
  }
  return most;
}

static double mean(const run *r, int64_t b, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t tap = 0; tap < cells(r->c->kernel); tap++) {
    int64_t from = tap_cell(r->c, patches(r->c), i, tap);
    if (from >= 0) sum += at(r, b, from, j);
  }
  return sum / (double)cells(r->c->kernel);
}

/* Where x's cell i and a tap of it meet the cell `to` of the result. */
static double scattered(const run *r, const char *weight, axes kernel, axes stride, axes pad,
                        int64_t b, int64_t to, int64_t j) {
  axes side;
  double sum = 0;
  int64_t taps = cells(kernel);
  for (int k = 0; k < 3; k++)
    side.n[k] = (r->c->side.n[k] - 1) * stride.n[k] + kernel.n[k] - 2 * pad.n[k];
  for (int64_t i = 0; i < cells(r->c->side); i++)
    for (int64_t tap = 0; tap < taps; tap++) {
      axes p = place(r->c->side, i), t = place(kernel, tap), q;
      for (int k = 0; k < 3; k++) q.n[k] = p.n[k] * stride.n[k] + t.n[k] - pad.n[k];
      for (int64_t ch = 0; cell(side, q) == to && ch < C; ch++)
        sum += arg(r, weight)[(ch * OUT + j) * taps + tap] * at(r, b, i, ch);
    }
  return sum;
}

static double transposed(const run *r, int64_t b, int64_t i, int64_t j) {
  return arg(r, "transposed.bias")[j] +
         scattered(r, "transposed.weight", r->c->kernel, r->c->stride, r->c->pad, b, i, j);
}

static double apart(const run *r, int64_t b, int64_t i, int64_t j) {
  return arg(r, "apart.bias")[j] +
         scattered(r, "apart.weight", r->c->shuffle, r->c->shuffle, (axes){{0, 0, 0}}, b, i, j);
}

static double depthwise(const run *r, int64_t b, int64_t i, int64_t j) {
  double sum = 0;
  int64_t taps = cells(r->c->odd);
  for (int64_t tap = 0; tap < taps; tap++) {
    axes p = place(r->c->side, i), t = place(r->c->odd, tap);
    for (int k = 0; k < 3; k++) p.n[k] += t.n[k] - r->c->odd.n[k] / 2;
    int64_t from = cell(r->c->side, p);
    if (from >= 0) sum += arg(r, "depthwise.weight")[j * taps + tap] * at(r, b, from, j);
  }
  return sum;
}

static double shuffled(const run *r, int64_t b, int64_t i, int64_t j) {
  axes big, p, small, in;
  for (int k = 0; k < 3; k++) big.n[k] = r->c->side.n[k] * r->c->shuffle.n[k];
  p = place(big, i);
  for (int k = 0; k < 3; k++)
    small.n[k] = p.n[k] / r->c->shuffle.n[k], in.n[k] = p.n[k] % r->c->shuffle.n[k];
  int64_t part = cell(r->c->shuffle, in);
  return at(r, b, cell(r->c->side, small), j * cells(r->c->shuffle) + part);
}

static double rolled(const run *r, int64_t b, int64_t i, int64_t j) {
  axes p = place(r->c->side, i);
  for (int k = 0; k < 3; k++)
    p.n[k] = (p.n[k] - r->c->roll.n[k] + 2 * r->c->side.n[k]) % r->c->side.n[k];
  return at(r, b, cell(r->c->side, p), j);
}

static double windows(const run *r, int64_t b, int64_t i, int64_t j) {
  axes count, p = place(r->c->window, i);
  for (int k = 0; k < 3; k++)
    count.n[k] = (r->c->side.n[k] + r->c->window.n[k] - 1) / r->c->window.n[k];
  axes w = place(count, j / C);
  for (int k = 0; k < 3; k++) p.n[k] += w.n[k] * r->c->window.n[k];
  int64_t from = cell(r->c->side, p);
  return from < 0 ? 0 : at(r, b, from, j % C);
}

static double zero(const run *r, int64_t b, int64_t i, int64_t j) {
  return 0 * ((double)b + (double)i + (double)j + r->x[0]);
}

static const struct {
  const char *name;
  value_fn value;
} outputs[] = {{"conv", conv},         {"transposed", transposed},
               {"apart", apart},       {"depthwise", depthwise},
               {"shuffled", shuffled}, {"unshuffled", zero},
               {"rolled", rolled},     {"largest", largest},
               {"mean", mean},         {"windows", windows},
               {"merged", zero}};
enum { N_OUTPUTS = sizeof outputs / sizeof *outputs };

static void check_output(const run *r, const char *name, const vtb_tensor *y) {
  int64_t tokens = y->type.dim[1].size, width = y->type.dim[2].size;
  for (int k = 0; k < N_OUTPUTS; k++) {
    if (strcmp(outputs[k].name, name) != 0) continue;
    for (int64_t e = 0; e < BATCH * tokens * width; e++) {
      double want = outputs[k].value(r, e / width / tokens, e / width % tokens, e % width);
      if (fabs(y->data[e] - want) <= 1e-9) continue;
      CHECK_MSG(false, "%s: %s at %lld is %g, not %g", r->c->model, name, (long long)e, y->data[e],
                want);
      return;
    }
    return;
  }
  CHECK_MSG(false, "%s is not checked", name);
}

static void run_case(vtb_unit *u, const grid_case *c, vtb_diags *diags) {
  vtb_instantiate_options o = {0};
  vtb_module *m = vtb_instantiate(u, c->model, &o, diags);
  CHECK_MSG(m != NULL, "%s", c->model);
  if (!m) return;
  vtb_func *f = m->entry;
  run r = {.c = c, .f = f, .args = vtb_xcalloc((size_t)f->n_args, sizeof *r.args)};
  vtb_tensor *results = vtb_xcalloc((size_t)f->n_returns, sizeof *results);
  unsigned long long seed = 4711;
  for (int i = 0; i < f->n_args; i++) {
    vtb_type t = f->args[i]->type;
    if (t.dim[0].size == VTB_DYN) t.dim[0].size = BATCH;
    r.args[i] = vtb_tensor_new(t);
    for (int64_t k = 0; k < vtb_type_count(&t); k++) r.args[i].data[k] = test_random(&seed);
  }
  r.x = arg(&r, "x");
  vtb_error err = {0};
  vtb_interp_options batch = {.batch = BATCH};
  CHECK_MSG(vtb_interpret(f, r.args, results, &batch, &err) == VTB_OK, "%s", err.text);
  CHECK(f->n_returns == N_OUTPUTS);
  for (int i = 0; i < f->n_returns; i++) {
    check_output(&r, f->return_names[i], &results[i]);
    vtb_tensor_free(&results[i]);
  }
  for (int i = 0; i < f->n_args; i++) vtb_tensor_free(&r.args[i]);
  free(r.args);
  free(results);
  vtb_module_free(m);
}

TEST(builtins_on_grids_give_what_plain_loops_give) {
  static const char *const dirs[] = {VTB_SOURCE_DIR "/models"};
  vtb_diags diags = {0};
  vtb_unit *u = vtb_unit_load(VTB_SOURCE_DIR "/tests/lang/grids.vtb",
                              &(vtb_search){.dirs = dirs, .n_dirs = 1}, &diags);
  for (size_t i = 0; u && i < sizeof cases / sizeof *cases; i++) run_case(u, &cases[i], &diags);
  if (diags.list.n) vtb_diags_print(&diags, stderr);
  CHECK(u && diags.list.n == 0);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
}

int main(void) {
  RUN(builtins_on_grids_give_what_plain_loops_give);
  return test_done();
}
