/* delta: modes agree, values by hand, and what it means beside linscan. */
#include "tests/ir/interp_fixture.h"

typedef struct shape {
  const char *decay;
  int b, n, h, r, k, v;
  bool init;
  const char *path; /* may be NULL */
} shape;

static const char *const classes[] = {"constant", "scalar", "key"};

/* @f(k, v, b, d, [s]) -> w */
static program delta(const shape *c, const char *mode, int chunk) {
  char d[64], text[1024], more[128] = "";
  int n = snprintf(d, sizeof d, "f32[");
  if (vtb_streq(c->decay, "constant"))
    snprintf(d + n, sizeof d - (size_t)n, "%d]", c->h);
  else if (vtb_streq(c->decay, "scalar"))
    snprintf(d + n, sizeof d - (size_t)n, "%d, %d, %d]", c->b, c->n, c->h);
  else
    snprintf(d + n, sizeof d - (size_t)n, "%d, %d, %d, %d]", c->b, c->n, c->h, c->k);
  n = 0;
  if (chunk) n += snprintf(more, sizeof more, ", chunk = %d", chunk);
  if (c->path) n += snprintf(more + n, sizeof more - (size_t)n, ", path = \"%s\"", c->path);
  if (c->init) snprintf(more + n, sizeof more - (size_t)n, ", init = 1");
  char s[64] = "";
  if (c->init) snprintf(s, sizeof s, ", %%s: f32[%d, %d, %d, %d]", c->b, c->h, c->k, c->v);
  const int rows[] = {c->b, c->n, c->h, c->r};
  char key[64], value[64];
  snprintf(key, sizeof key, "f32[%d, %d, %d, %d, %d]", rows[0], rows[1], rows[2], rows[3], c->k);
  snprintf(value, sizeof value, "f32[%d, %d, %d, %d, %d]", rows[0], rows[1], rows[2], rows[3],
           c->v);
  snprintf(text, sizeof text,
           "func @f(%%k: %s, %%v: %s, %%b: %s, %%d: %s%s) -> (%s) {\n  %%w = delta %%k, %%v, %%b, "
           "%%d%s {class = \"%s\", mode = \"%s\"%s} : %s\n  return %%w\n}\n",
           key, value, key, d, s, value, c->init ? ", %s" : "", c->decay, mode, more, value);
  return program_parse(text);
}

static void random_args(const program *p, vtb_tensor *args, unsigned long long *seed) {
  for (int i = 0; i < p->f->n_args; i++)
    args[i] = random_tensor(p->f->args[i]->type, i == 3 ? 0.2 : -1, 1, seed);
}

static void free_tensors(vtb_tensor *t, int n) {
  for (int i = 0; i < n; i++) vtb_tensor_free(&t[i]);
}

/* Relative to the largest: without a rule behind k and b the states may grow. */
static double difference(const vtb_tensor *a, const vtb_tensor *b) {
  double worst = 0, size = 1;
  for (int64_t i = 0; i < vtb_type_count(&a->type); i++) {
    double d = fabs(a->data[i] - b->data[i]);
    if (!(d <= worst)) worst = d;
    if (fabs(b->data[i]) > size) size = fabs(b->data[i]);
  }
  return worst / size;
}

static void compare_modes(const shape *c, unsigned long long *seed) {
  program base = delta(c, "recurrent", 0);
  vtb_tensor args[5], want, got;
  random_args(&base, args, seed);
  if (c->n > 2 && !vtb_streq(c->decay, "constant")) args[3].data[1] = 0; /* a hard reset */
  run(&base, args, &want);
  const int chunks[] = {-1, 1, 2, 5, 7, 64, c->n};
  for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
    program p = chunks[i] < 0 ? delta(c, "parallel", 0) : delta(c, "chunkwise", chunks[i]);
    run(&p, args, &got);
    double d = difference(&got, &want);
    CHECK_MSG(d <= 1e-11, "class %s, N = %d, R = %d, chunk %d differs by %g", c->decay, c->n, c->r,
              chunks[i], d);
    vtb_tensor_free(&got);
    program_free(&p);
  }
  vtb_tensor_free(&want);
  free_tensors(args, base.f->n_args);
  program_free(&base);
}

TEST(modes_agree) {
  unsigned long long seed = 7;
  for (int k = 0; k < 3; k++)
    for (int init = 0; init < 2; init++) {
      compare_modes(&(shape){classes[k], 2, 12, 2, 1, 3, 4, init, "cols~@3x4"}, &seed);
      compare_modes(&(shape){classes[k], 1, 13, 1, 2, 4, 1, init, NULL}, &seed);
      compare_modes(&(shape){classes[k], 1, 9, 2, 3, 1, 5, init, "snake@3x3"}, &seed);
      compare_modes(&(shape){classes[k], 1, 1, 3, 1, 1, 2, init, "rows@1x1"}, &seed);
    }
}

TEST(random_shapes) {
  unsigned long long seed = 91;
  for (int i = 0; i < 20; i++) {
    int n[6];
    for (int a = 0; a < 6; a++) n[a] = 1 + (int)((test_random(&seed) + 1) * 3);
    compare_modes(&(shape){classes[i % 3], 1 + n[0] / 4, 3 * n[1], n[2], 1 + n[3] / 2, n[4], n[5],
                           i & 1, NULL},
                  &seed);
  }
}

/* K = V = 1, one row: w_t = v_t + S b_t, S = d_t S + k_t w_t. */
TEST(first_steps_by_hand) {
  shape c = {"scalar", 1, 3, 1, 1, 1, 1, true, NULL};
  static const char *const modes[] = {"recurrent", "parallel"};
  for (int i = 0; i < 2; i++) {
    program p = delta(&c, modes[i], 0);
    static double k[] = {1, 2, 3}, v[] = {5, 7, 11}, b[] = {2, -1, 0.5}, d[] = {0.5, 0.25, 0},
                  s0[] = {4};
    double *data[] = {k, v, b, d, s0};
    vtb_tensor args[5], w;
    for (int a = 0; a < 5; a++) args[a] = (vtb_tensor){p.f->args[a]->type, data[a]};
    run(&p, args, &w);
    CHECK_NEAR(w.data[0], 5 + 8, 0);  /* S = 2 + 13 */
    CHECK_NEAR(w.data[1], 7 - 15, 0); /* S = 3.75 - 16 */
    CHECK_NEAR(w.data[2], 11 - 6.125, 0);
    vtb_tensor_free(&w);
    program_free(&p);
  }
}

/* All rows of a token read the state before it: with two rows, the second does not see the
 * first. */
TEST(rows_of_a_token_do_not_see_each_other) {
  shape c = {"constant", 1, 1, 1, 2, 1, 1, true, NULL};
  program p = delta(&c, "parallel", 0);
  static double k[] = {1, 1}, v[] = {1, 2}, b[] = {1, 1}, d[] = {1}, s0[] = {3};
  double *data[] = {k, v, b, d, s0};
  vtb_tensor args[5], w;
  for (int a = 0; a < 5; a++) args[a] = (vtb_tensor){p.f->args[a]->type, data[a]};
  run(&p, args, &w);
  CHECK_NEAR(w.data[0], 4, 0);
  CHECK_NEAR(w.data[1], 5, 0);
  vtb_tensor_free(&w);
  program_free(&p);
}

/* The delta rule itself: what is written under a key of norm 1 is what is read under it. */
TEST(the_delta_rule_overwrites) {
  shape c = {"constant", 1, 4, 1, 1, 2, 1, false, NULL};
  program p = delta(&c, "chunkwise", 3);
  static double k[] = {1, 0, 0.6, 0.8, 1, 0, 1, 0}, v[] = {5, 3, 7, 7}, d[] = {1};
  double b[8];
  for (int i = 0; i < 8; i++) b[i] = -k[i]; /* w = v - S^T k */
  double *data[] = {k, v, b, d};
  vtb_tensor args[4], w;
  for (int a = 0; a < 4; a++) args[a] = (vtb_tensor){p.f->args[a]->type, data[a]};
  run(&p, args, &w);
  CHECK_NEAR(w.data[1], 3 - 3, 1e-15); /* S = [5, 0] reads 3 under [0.6, 0.8] */
  CHECK_NEAR(w.data[2], 7 - 5, 1e-15);
  CHECK_NEAR(w.data[3], 0, 1e-15); /* the same again: nothing to correct */
  vtb_tensor_free(&w);
  program_free(&p);
}

static void refused(const char *inst, const char *why) {
  char text[512];
  snprintf(text, sizeof text,
           "func @f(%%k: f32[1, 4, 1, 2, 3], %%v: f32[1, 4, 1, 2, 5], %%b: f32[1, 4, 1, 1, 3], "
           "%%d: f32[1], %%q: f32[1, 4, 1, 3]) -> (f32[1, 4, 1, 2, 5]) {\n  %%w = delta %s : "
           "f32[1, 4, 1, 2, 5]\n  return %%w\n}\n",
           inst);
  vtb_source source = {.path = "t", .text = text, .n = strlen(text)};
  vtb_diags diags = {0};
  vtb_module *m = vtb_module_parse(&source, &diags);
  CHECK(!m);
  vtb_strbuf s = {0};
  for (size_t i = 0; i < diags.list.n; i++) vtb_strbuf_puts(&s, diags.list.at[i].text);
  CHECK_MSG(s.at && strstr(s.at, why), "%s: %s", inst, s.at ? s.at : "");
  vtb_strbuf_free(&s);
  vtb_diags_free(&diags);
  if (m) vtb_module_free(m);
}

TEST(operands_that_do_not_fit_are_refused) {
  refused("%k, %v, %b, %d {class = \"constant\"}", "b is f32[1, 4, 1, 1, 3], not");
  refused("%k, %v, %k, %d {class = \"scalar\"}", "the decay d is f32[1], not f32[1, 4, 1]");
  refused("%k, %v, %k, %d {class = \"value\"}", "differs along values");
  refused("%q, %v, %k, %d {class = \"constant\"}", "want [B, N, h, R, K]");
  refused("%k, %v, %k, %d {class = \"constant\", init = 1}", "4 operands, want 5");
  refused("%k, %v, %k, %d {class = \"constant\", path = \"rows@1x5\"}", "5");
  refused("%k, %v, %k, %d {class = \"constant\", mode = \"chunkwise\"}", "chunk length");
}

int main(void) {
  RUN(modes_agree);
  RUN(random_shapes);
  RUN(first_steps_by_hand);
  RUN(rows_of_a_token_do_not_see_each_other);
  RUN(the_delta_rule_overwrites);
  RUN(operands_that_do_not_fit_are_refused);
  return test_done();
}
