/* delta: machine code against the interpreter, over classes, modes, chunks, ranks, paths and ragged
 * shapes. */
#include "tests/codegen/scan_cases.h"
#include "ir/ops.h"

#include "ir/recurrence.h"

typedef struct delta_case {
  vtb_decay_class decay;
  const char *mode, *path;
  int64_t chunk, B, N, h, R, K, V;
  bool init, views;
  const char *second; /* path of a second direction: one kernel for both */
} delta_case;

static vtb_type shape(int rank, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  return vtb_type_make(VTB_F32, rank, (int64_t[]){a, b, c, d, e});
}

static vtb_type decay_type(const delta_case *s) {
  if (s->decay == VTB_DECAY_CONSTANT) return shape(1, s->h, 0, 0, 0, 0);
  if (s->decay == VTB_DECAY_SCALAR) return shape(3, s->B, s->N, s->h, 0, 0);
  return shape(4, s->B, s->N, s->h, s->K, 0);
}

/* Rows of length 1 at most, and b = -gate k / R, as in the delta rule: states do not grow. */
static void fill_keys(const delta_case *s, vtb_tensor *k, vtb_tensor *b, unsigned long long *seed) {
  for (int64_t row = 0; row < kernel_count(&k->type) / s->K; row++) {
    double *at = k->data + row * s->K, norm = 1e-3, gate = 1 + test_random(seed);
    for (int64_t i = 0; i < s->K; i++) norm += at[i] * at[i];
    for (int64_t i = 0; i < s->K; i++) {
      at[i] = (float)(at[i] / sqrt(norm));
      b->data[row * s->K + i] = (float)(-gate * at[i] / (double)s->R + 0.02 * test_random(seed));
    }
  }
}

/* The operand as a view: [B, N, h, R, X] read from [B, h, N, R, X]. */
static vtb_value *transposed(vtb_builder *b, vtb_func *f, const char *name, vtb_type t) {
  vtb_dim swap = t.dim[1];
  t.dim[1] = t.dim[2];
  t.dim[2] = swap;
  return vtb_b_transpose(b, vtb_func_add_arg(f, name, t), (int64_t[]){0, 2, 1, 3, 4});
}

static vtb_func *build(vtb_module *m, const delta_case *s) {
  vtb_func *f = vtb_func_new(m, "delta", VTB_FUNC_PLAIN, (vtb_span){0});
  vtb_builder b = {.module = m, .func = f};
  static const char *const names[] = {"k", "v", "b", "d", "s"};
  const vtb_type types[] = {
      shape(5, s->B, s->N, s->h, s->R, s->K), shape(5, s->B, s->N, s->h, s->R, s->V),
      shape(5, s->B, s->N, s->h, s->R, s->K), decay_type(s), shape(4, s->B, s->h, s->K, s->V, 0)};
  vtb_value *operands[5];
  int n = s->init ? 5 : 4, n_attrs = 0;
  for (int i = 0; i < n; i++)
    operands[i] = s->views && i < 2 ? transposed(&b, f, names[i], types[i])
                                    : vtb_func_add_arg(f, names[i], types[i]);
  vtb_attr attrs[6];
  attrs[n_attrs++] = VTB_A_STR("class", vtb_decay_class_name(s->decay));
  attrs[n_attrs++] = VTB_A_STR("mode", s->mode);
  if (vtb_streq(s->mode, "chunkwise")) attrs[n_attrs++] = VTB_A_INT("chunk", s->chunk);
  int path_at = s->path ? n_attrs : -1;
  if (s->path) attrs[n_attrs++] = VTB_A_STR("path", s->path);
  if (s->init) attrs[n_attrs++] = VTB_A_INT("init", 1);
  vtb_value *returns[2];
  returns[0] = vtb_build(&b, VTB_OP_delta, operands, n, attrs, n_attrs)->results[0];
  if (s->second) { /* its own reads, and its own initial state */
    operands[2] = vtb_func_add_arg(f, "b2", types[2]);
    if (s->init) operands[4] = vtb_func_add_arg(f, "s2", types[4]);
    attrs[path_at < 0 ? n_attrs++ : path_at] = VTB_A_STR("path", s->second);
    returns[1] = vtb_build(&b, VTB_OP_delta, operands, n, attrs, n_attrs)->results[0];
  }
  vtb_func_set_returns(f, returns, NULL, s->second ? 2 : 1);
  m->entry = f;
  return f;
}

static void check(const delta_case *s, unsigned long long *seed) {
  vtb_module *m = vtb_module_new("test");
  vtb_func *f = build(m, s);
  if (s->second) join_directions(m);
  vtb_tensor args[7];
  for (int i = 0; i < f->n_args; i++) args[i] = kernel_random(f->args[i]->type, seed, 1, 0);
  fill_decays(&args[3], seed);
  if (!s->views) fill_keys(s, &args[0], &args[2], seed);
  for (int a = 4; a < f->n_args; a++) /* of a second direction */
    for (int64_t i = 0; args[a].type.rank == 5 && i < kernel_count(&args[a].type); i++)
      args[a].data[i] = (float)(args[a].data[i] / (double)(s->K * s->R));
  for (int64_t i = 0; s->views && i < kernel_count(&args[2].type); i++)
    args[2].data[i] = (float)(args[2].data[i] / (double)(s->K * s->R));
  vtb_strbuf what = {0};
  vtb_strbuf_printf(&what, "%s %s chunk %lld path %s B %lld N %lld h %lld R %lld K %lld V %lld%s%s",
                    vtb_decay_class_name(s->decay), s->mode, (long long)s->chunk,
                    s->path ? s->path : "-", (long long)s->B, (long long)s->N, (long long)s->h,
                    (long long)s->R, (long long)s->K, (long long)s->V, s->init ? " init" : "",
                    s->views ? " views" : "");
  kernel_check(m, f, args, 2e-5, what.at);
  vtb_strbuf_free(&what);
  for (int i = 0; i < f->n_args; i++) vtb_tensor_free(&args[i]);
  vtb_module_free(m);
}

static int n_random = 18; /* the first argument of the program: more */

static delta_case random_case(unsigned long long *seed) {
  static const char *const modes[] = {"recurrent", "parallel", "chunkwise"};
  static const char *const orders[] = {"rows", "rows~", "cols", "cols~", "snake", "hilbert"};
  static char path[64];
  delta_case s = {.decay = (vtb_decay_class)PICK(0, 1, 1, 2, 2),
                  .mode = modes[PICK(0, 1, 1, 2, 2, 2)]};
  s.init = PICK(0, 1), s.views = PICK(0, 0, 1);
  s.chunk = PICK(1, 7, 16, 64, 300);
  s.B = PICK(1, 1, 2), s.h = PICK(1, 2, 3), s.R = PICK(1, 1, 1, 2, 3, 4);
  s.K = PICK(1, 3, 8, 12, 48, 70), s.V = PICK(1, 3, 8, 12, 48, 96);
  int64_t gh = PICK(1, 1, 2, 4, 5, 8, 14), gw = PICK(1, 2, 4, 5, 8, 14, 17);
  int order = (int)PICK(-1, -1, 0, 1, 2, 3, 4, 5);
  s.N = PICK(1, 2, 5, 16, 17, 37, 64, 100);
  if (order >= 0) {
    bool extra = PICK(0, 0, 1);
    s.N = gh * gw + extra;
    snprintf(path, sizeof path, "%s@%lldx%lld%s", orders[order], (long long)gh, (long long)gw,
             extra ? "+head=1" : "");
    s.path = path;
  }
  return s;
}

TEST(random_cases) {
  unsigned long long state = 20241122, *seed = &state;
  for (int i = 0; i < n_random; i++) {
    delta_case s = random_case(seed);
    check(&s, seed);
  }
}

/* Every class and mode at lengths around blocks and chunks, and far beyond them. */
TEST(long_and_ragged) {
  unsigned long long state = 8, *seed = &state;
  static const int64_t lengths[] = {23, 49, 129, 700};
  for (int i = 0; i < 4; i++)
    for (int decay = 0; decay < 3; decay++) {
      delta_case s = {.decay = (vtb_decay_class)decay, .mode = "chunkwise", .chunk = 64};
      s.B = 1, s.N = lengths[i], s.h = 1, s.R = 1, s.K = 17, s.V = 12, s.init = i % 2;
      check(&s, seed);
      s.mode = i == 3 ? "parallel" : "recurrent";
      if (i % 2) check(&s, seed);
    }
}

/* More rows a token than a vector has lanes, and numbers of rows that divide nothing. */
TEST(many_rows_a_token) {
  unsigned long long state = 5, *seed = &state;
  static const int64_t ranks[] = {5, 7, 8, 13, 20, 30};
  for (int i = 0; i < 6; i++)
    for (int decay = 0; decay < 3; decay++) {
      delta_case s = {.decay = (vtb_decay_class)decay, .mode = "chunkwise", .chunk = 3};
      s.B = 1, s.N = 11, s.h = 1, s.R = ranks[i], s.K = 6, s.V = 9, s.init = true;
      s.mode = i % 2 ? "parallel" : "chunkwise";
      check(&s, seed);
    }
}

/* Two directions of one cell are one kernel. */
TEST(two_directions) {
  unsigned long long state = 6, *seed = &state;
  for (int decay = 0; decay < 3; decay++) {
    delta_case s = {.decay = (vtb_decay_class)decay, .mode = "chunkwise", .chunk = 16};
    s.B = 2, s.N = 30, s.h = 2, s.R = 1 + decay % 2, s.K = 12, s.V = 10, s.init = decay > 0;
    s.path = decay ? "rows@5x6" : NULL, s.second = "cols~@5x6";
    check(&s, seed);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) n_random = atoi(argv[1]);
  RUN(random_cases);
  RUN(long_and_ragged);
  RUN(many_rows_a_token);
  RUN(two_directions);
  return test_done();
}
