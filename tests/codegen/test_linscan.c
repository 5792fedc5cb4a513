/* linscan and linscan_grad: machine code against the interpreter, over classes, modes, chunks,
 * paths and ragged shapes. */
#include "tests/codegen/scan_cases.h"
#include "ir/ops.h"

#include "ir/recurrence.h"

typedef struct scan_case {
  vtb_decay_class decay;
  const char *mode, *path;
  int64_t chunk, B, N, h, K, V;
  bool normalizer, init, dlast, grad, views;
  const char *second; /* path of a second direction: one kernel for both */
} scan_case;

static vtb_type shape(int rank, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  return vtb_type_make(VTB_F32, rank, (int64_t[]){a, b, c, d, e});
}

static vtb_type decay_type(const scan_case *s) {
  switch (s->decay) {
  case VTB_DECAY_CONSTANT:
    return shape(1, s->h, 0, 0, 0, 0);
  case VTB_DECAY_SCALAR:
    return shape(3, s->B, s->N, s->h, 0, 0);
  case VTB_DECAY_KEY:
    return shape(4, s->B, s->N, s->h, s->K, 0);
  case VTB_DECAY_VALUE:
  case VTB_DECAY_RATES: /* the step sizes */
    return shape(4, s->B, s->N, s->h, s->V, 0);
  case VTB_DECAY_FULL:
    break;
  }
  return shape(5, s->B, s->N, s->h, s->K, s->V);
}

/* Step sizes times rates from 0 to far below where the decay is 0: most steps are short, a few are
 * 0 or 60. */
static void fill_rates(vtb_tensor *step, vtb_tensor *rate, unsigned long long *seed) {
  for (int64_t i = 0; i < kernel_count(&step->type); i++) {
    double u = test_random(seed), v = 0.5 + 0.5 * test_random(seed);
    step->data[i] = (float)(u < -0.9 ? 0 : u < -0.85 ? 60 : u < 0 ? v : 0.05 * v);
  }
  for (int64_t i = 0; i < kernel_count(&rate->type); i++)
    rate->data[i] = (float)(-8 - 8 * test_random(seed));
}

static int operand_types(const scan_case *s, vtb_type *t) {
  int n = 0;
  t[n++] = shape(4, s->B, s->N, s->h, s->K, 0);
  t[n++] = shape(4, s->B, s->N, s->h, s->K, 0);
  t[n++] = shape(4, s->B, s->N, s->h, s->V, 0);
  t[n++] = decay_type(s);
  if (s->decay == VTB_DECAY_RATES) t[n++] = shape(3, s->h, s->K, s->V, 0, 0);
  if (s->init) t[n++] = shape(4, s->B, s->h, s->K, s->V, 0);
  if (s->init && s->normalizer) t[n++] = shape(3, s->B, s->h, s->K, 0, 0);
  if (s->grad) t[n++] = shape(4, s->B, s->N, s->h, s->V, 0);
  if (s->grad && s->normalizer) t[n++] = shape(3, s->B, s->N, s->h, 0, 0);
  if (s->grad && s->dlast) t[n++] = shape(4, s->B, s->h, s->K, s->V, 0);
  if (s->grad && s->dlast && s->normalizer) t[n++] = shape(3, s->B, s->h, s->K, 0, 0);
  return n;
}

/* The operand as a view: [B, N, h, X] read from [B, h, N, X]. */
static vtb_value *transposed(vtb_builder *b, vtb_func *f, const char *name, vtb_type t) {
  vtb_dim swap = t.dim[1];
  t.dim[1] = t.dim[2];
  t.dim[2] = swap;
  return vtb_b_transpose(b, vtb_func_add_arg(f, name, t), (int64_t[]){0, 2, 1, 3});
}

static vtb_func *build(vtb_module *m, const scan_case *s) {
  vtb_func *f = vtb_func_new(m, "scan", VTB_FUNC_PLAIN, (vtb_span){0});
  vtb_builder b = {.module = m, .func = f};
  vtb_type types[11];
  vtb_value *operands[11];
  int n = operand_types(s, types), n_attrs = 0;
  for (int i = 0; i < n; i++) {
    char name[8];
    snprintf(name, sizeof name, "x%d", i);
    operands[i] =
        s->views && i < 3 ? transposed(&b, f, name, types[i]) : vtb_func_add_arg(f, name, types[i]);
  }
  vtb_attr attrs[8];
  int path_at = -1;
  attrs[n_attrs++] = VTB_A_STR("class", vtb_decay_class_name(s->decay));
  attrs[n_attrs++] = VTB_A_STR("mode", s->mode);
  if (vtb_streq(s->mode, "chunkwise")) attrs[n_attrs++] = VTB_A_INT("chunk", s->chunk);
  if (s->path) path_at = n_attrs, attrs[n_attrs++] = VTB_A_STR("path", s->path);
  if (s->normalizer) attrs[n_attrs++] = VTB_A_INT("normalizer", 1);
  if (s->init) attrs[n_attrs++] = VTB_A_INT("init", 1);
  if (s->grad && s->dlast) attrs[n_attrs++] = VTB_A_INT("dlast", 1);
  bool no_last = !s->grad && !s->dlast; /* final states are not asked for */
  if (no_last) attrs[n_attrs++] = VTB_A_INT("last", 0);
  vtb_value *returns[16];
  int n_returns = 0;
  for (int direction = 0;; direction++) {
    vtb_inst *inst =
        vtb_build(&b, s->grad ? VTB_OP_linscan_grad : VTB_OP_linscan, operands, n, attrs, n_attrs);
    for (int i = 0; i < inst->n_results; i++)
      if (!no_last || i == 0 || i == 2) returns[n_returns++] = inst->results[i];
    if (!s->second || direction == 1) break;
    /* the second direction has its own keys, and its own initial state and adjoints */
    operands[1] = vtb_func_add_arg(f, "k2", types[1]);
    for (int i = s->decay == VTB_DECAY_RATES ? 5 : 4; i < n; i++)
      operands[i] = vtb_func_add_arg(f, "second", types[i]);
    attrs[path_at < 0 ? n_attrs++ : path_at] = VTB_A_STR("path", s->second);
  }
  vtb_func_set_returns(f, returns, NULL, n_returns);
  m->entry = f;
  return f;
}

static void check(const scan_case *s, unsigned long long *seed) {
  vtb_module *m = vtb_module_new("test");
  vtb_func *f = build(m, s);
  if (s->second) join_directions(m);
  vtb_tensor args[20];
  for (int i = 0; i < f->n_args; i++) args[i] = kernel_random(f->args[i]->type, seed, 1, 0);
  if (s->decay == VTB_DECAY_RATES)
    fill_rates(&args[3], &args[4], seed);
  else
    fill_decays(&args[3], seed);
  vtb_strbuf what = {0};
  vtb_strbuf_printf(
      &what, "%s %s %s chunk %lld path %s and %s B %lld N %lld h %lld K %lld V %lld%s%s%s%s",
      s->grad ? "grad" : "scan", vtb_decay_class_name(s->decay), s->mode, (long long)s->chunk,
      s->path ? s->path : "-", s->second ? s->second : "-", (long long)s->B, (long long)s->N,
      (long long)s->h, (long long)s->K, (long long)s->V, s->normalizer ? " normalizer" : "",
      s->init ? " init" : "", s->dlast ? " dlast" : "", s->views ? " views" : "");
  kernel_check(m, f, args, 2e-5, what.at);
  vtb_strbuf_free(&what);
  for (int i = 0; i < f->n_args; i++) vtb_tensor_free(&args[i]);
  vtb_module_free(m);
}

static int n_random = 18; /* the first argument of the program: more */

static scan_case random_case(unsigned long long *seed) {
  static const char *const modes[] = {"recurrent", "parallel", "chunkwise"};
  static char path[64], second[64];
  scan_case s = {.decay = (vtb_decay_class)PICK(0, 1, 1, 2, 3, 4, 5, 5),
                 .mode = modes[PICK(0, 1, 1, 2, 2)]};
  s.grad = PICK(0, 1), s.init = PICK(0, 1), s.dlast = PICK(0, 1), s.views = PICK(0, 0, 1);
  s.normalizer = s.decay <= VTB_DECAY_KEY && PICK(0, 1);
  s.chunk = PICK(1, 7, 16, 64, 300);
  s.B = PICK(1, 1, 2), s.h = PICK(1, 2, 3, 4), s.K = PICK(1, 3, 8, 12, 48, 96),
  s.V = PICK(1, 3, 8, 12, 48, 96);
  bool big = s.decay >= VTB_DECAY_FULL && s.K * s.V > 1000;
  int64_t gh = PICK(1, 1, 2, 4, 5, 8, 10, 14), gw = big ? 3 : PICK(1, 2, 4, 5, 8, 10, 14, 17);
  static const char *const orders[] = {"rows",  "rows~",   "cols",      "cols~",
                                       "snake", "hilbert", "rows.hflip"};
  int order = (int)PICK(-1, 0, 1, 2, 3, 4, 5, 6);
  s.N = gh * gw;
  if (order >= 0) {
    bool extra = PICK(0, 0, 1);
    s.N += extra;
    snprintf(path, sizeof path, "%s@%lldx%lld%s", orders[order], (long long)gh, (long long)gw,
             extra ? "+head=1" : "");
    s.path = path;
    snprintf(second, sizeof second, "%s@%lldx%lld%s", orders[(order + 1) % 7], (long long)gh,
             (long long)gw, extra ? "+head=1" : "");
    if (PICK(0, 1)) s.second = second;
  } else {
    s.N = PICK(1, 2, 5, 16, 17, 37, 64, 100);
  }
  return s;
}

TEST(random_cases) {
  unsigned long long state = 20240613, *seed = &state;
  for (int i = 0; i < n_random; i++) {
    scan_case s = random_case(seed);
    check(&s, seed);
  }
}

/* Decays a key and a value as matrices: whole and ragged sub-blocks, chunks and vectors, forward
 * and back, whatever the random cases meet. */
TEST(vector_decays_as_matrices) {
  unsigned long long state = 11, *seed = &state;
  for (int i = 0; i < 8; i++) {
    scan_case s = {.decay = i & 1 ? VTB_DECAY_KEY : VTB_DECAY_VALUE,
                   .mode = i & 4 ? "chunkwise" : "parallel",
                   .chunk = 37};
    s.grad = (i & 2) != 0, s.init = s.dlast = (i & 4) != 0;
    s.normalizer = i == 1, s.views = i == 4;
    s.B = 1, s.N = 90, s.h = 2, s.K = i & 4 ? 24 : 13, s.V = i & 4 ? 19 : 32;
    check(&s, seed);
  }
}

/* Class rates: chunks of the adjoint, tiles and groups of channels, blocks of keys, all with
 * remainders. */
TEST(rates_at_any_shape) {
  unsigned long long state = 99, *seed = &state;
  static const char *const paths[] = {NULL, "rows~@1x", "cols@1x"};
  static char path[32];
  for (int i = 0; i < n_random / 2; i++) {
    scan_case s = {.decay = VTB_DECAY_RATES, .mode = "recurrent", .chunk = 5};
    s.grad = i % 2, s.init = PICK(0, 1), s.dlast = PICK(0, 1), s.views = PICK(0, 0, 1);
    s.B = PICK(1, 1, 3), s.h = PICK(1, 1, 2), s.K = PICK(1, 2, 16, 16, 17, 35),
    s.V = PICK(1, 15, 16, 17, 40, 144);
    s.N = 1 + (int64_t)((test_random(seed) + 1) / 2 * (s.K * s.V > 1000 ? 60 : 700));
    const char *order = paths[PICK(0, 1, 2)];
    if (order) snprintf(path, sizeof path, "%s%lld", order, (long long)s.N), s.path = path;
    check(&s, seed);
  }
}

/* Exponents from -60 to 60: a growing state is as exact as a fading one. */
TEST(steep_rates) {
  unsigned long long state = 5, *seed = &state;
  for (int grad = 0; grad <= 1; grad++) {
    scan_case s = {.decay = VTB_DECAY_RATES,
                   .mode = "recurrent",
                   .B = 1,
                   .N = 2,
                   .h = 1,
                   .K = 16,
                   .V = 33,
                   .grad = grad};
    vtb_module *m = vtb_module_new("test");
    vtb_func *f = build(m, &s);
    vtb_tensor args[11];
    for (int i = 0; i < f->n_args; i++) args[i] = kernel_random(f->args[i]->type, seed, 1, 0);
    for (int64_t i = 0; i < kernel_count(&args[4].type); i++)
      args[4].data[i] = (float)(60 * test_random(seed));
    kernel_check(m, f, args, 2e-5, "steep rates");
    for (int i = 0; i < f->n_args; i++) vtb_tensor_free(&args[i]);
    vtb_module_free(m);
  }
}

/* The shape of a small vision backbone, blocks and remainders in all directions. */
TEST(model_shape) {
  unsigned long long state = 7, *seed = &state;
  for (int grad = 0; grad <= 1; grad++) {
    scan_case s = {VTB_DECAY_SCALAR,
                   "parallel",
                   "rows~@14x14",
                   0,
                   1,
                   196,
                   2,
                   96,
                   96,
                   true,
                   false,
                   false,
                   grad,
                   false,
                   NULL};
    check(&s, seed);
    s.second = "rows@14x14";
    check(&s, seed);
    s.mode = "chunkwise", s.chunk = 64, s.path = "cols@14x14";
    check(&s, seed);
  }
  scan_case odd = {VTB_DECAY_CONSTANT,
                   "parallel",
                   NULL,
                   0,
                   2, /* samples: their sums for a head's decay are added up */
                   197,
                   1,
                   33,
                   70,
                   true,
                   true,
                   true,
                   true,
                   true,
                   NULL};
  check(&odd, seed);
}

/* One hard reset in the middle: the gradient of a decay of 0 is finite and not 0. */
TEST(gradient_at_reset) {
  unsigned long long state = 3, *seed = &state;
  for (int chunk = 4; chunk <= 20; chunk += 8) {
    scan_case s = {VTB_DECAY_SCALAR,
                   "chunkwise",
                   NULL,
                   chunk,
                   1,
                   17,
                   1,
                   4,
                   5,
                   false,
                   true,
                   true,
                   true,
                   false,
                   NULL};
    vtb_module *m = vtb_module_new("test");
    vtb_func *f = build(m, &s);
    vtb_tensor args[10];
    for (int i = 0; i < f->n_args; i++) args[i] = kernel_random(f->args[i]->type, seed, 1, 0);
    for (int t = 0; t < 17; t++) args[3].data[t] = t == 9 ? 0 : 0.75f;
    kernel_check(m, f, args, 2e-5, "reset");
    for (int i = 0; i < f->n_args; i++) vtb_tensor_free(&args[i]);
    vtb_module_free(m);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) n_random = atoi(argv[1]);
  RUN(gradient_at_reset);
  RUN(random_cases);
  RUN(vector_decays_as_matrices);
  RUN(rates_at_any_shape);
  RUN(steep_rates);
  RUN(model_shape);
  return test_done();
}
