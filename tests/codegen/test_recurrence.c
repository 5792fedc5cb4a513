/* Random recurrences of every class as machine code, in every mode and with their gradients,
 * against the interpreter that runs the equations step by step in double precision. */
#include "runtime/launch/threads.h"
#include "tests/codegen/one_kernel.h"
#include "tests/passes/random_recurrence.h"

/* first argument of the program: this many times more */
static int n_forward = 24, n_gradient = 10;

typedef struct form {
  const char *mode;
  int64_t chunk;
} form;

static form random_form(unsigned long long *rng) {
  static const int64_t chunks[] = {1, 5, 16, 64};
  int i = below(rng, 8);
  if (i < 4) return (form){"chunkwise", chunks[i]};
  if (i < 6) return (form){"chunkwise", 1 + below(rng, 200)};
  return (form){i == 6 ? "recurrent" : "parallel", 0};
}

/* Lengths up to `longest`, mostly through a grid along some path; states of up to `widest` keys and
 * values. */
static config wide_config(unsigned long long *rng, int longest, int widest) {
  static const char *const orders[] = {"rows",  "rows~",    "cols",    "cols~",
                                       "snake", "diagonal", "hilbert", "rows.hflip"};
  static char path[64];
  config c = random_config(rng);
  int height = 1 + below(rng, 26), width = 1 + below(rng, longest / height);
  c.path = NULL;
  c.tokens = below(rng, 3) ? height * width : 1 + below(rng, longest);
  if (c.tokens == height * width && below(rng, 4)) {
    snprintf(path, sizeof path, "%s@%dx%d", orders[below(rng, 8)], height, width);
    c.path = path;
  }
  c.head_axes = below(rng, 2);
  c.k = 1 + below(rng, widest), c.v = 1 + below(rng, widest);
  if (c.klass == VTB_DECAY_FULL) c.k = 1 + c.k / 3;
  c.decay_size = below(rng, 2) ? 60 : 3;
  return c;
}

/* Numbers that float32 holds. */
static void round_all(vtb_tensor *t, int n) {
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; k < vtb_type_count(&t[i].type); k++) t[i].data[k] = (float)t[i].data[k];
}

static char *describe(const config *c, const form *f, const char *what) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s,
                    "%s %s %s %lld path %s N %d K %d V %d rank %d%s%s%s%s decay %d of %g gain %g",
                    what, vtb_decay_class_name(c->klass), f->mode, (long long)f->chunk,
                    c->path ? c->path : "-", c->tokens, c->k, c->v, c->rank, c->gain ? " gain" : "",
                    c->normalizer ? " normalizer" : "", c->inits ? " init" : "",
                    c->read_old ? " old" : "", c->decay_form, c->decay_size, c->gain_size);
  return s.at;
}

/* The machine code's results as tensors of doubles, for a bound function; NULL after a failed
 * check. */
static vtb_tensor *run_native(vtb_module *m, vtb_func *f, const vtb_tensor *args,
                              const char *what) {
  vtb_program *p = kernel_compile(m, f, what);
  if (!p) return NULL;
  float *out[16] = {0};
  unsigned mode = vtb_denormals_flush();
  kernel_run(p, f, args, 2, out);
  vtb_denormals_restore(mode);
  vtb_tensor *results = vtb_xcalloc((size_t)f->n_returns, sizeof *results);
  for (int r = 0; r < f->n_returns; r++) {
    results[r] = vtb_tensor_new(f->returns[r]->type);
    int64_t n = vtb_type_count(&results[r].type);
    for (int64_t k = 0; k < n; k++) results[r].data[k] = out[r][k];
    kernel_free(out[r], (size_t)n * sizeof(float));
  }
  vtb_program_free(p);
  return results;
}

static double largest(const vtb_tensor *t) {
  double most = 0;
  for (int64_t k = 0; k < vtb_type_count(&t->type); k++) most = fmax(most, fabs(t->data[k]));
  return most;
}

/* Errors of the first n results, relative to the largest number of each, or to `least` of the
 * largest of all: what is that small is a difference of larger numbers. */
static void compare(const vtb_tensor *got, const vtb_tensor *want, int n, double tolerance,
                    double least, const char *what) {
  double all = 0;
  for (int r = 0; r < n; r++) all = fmax(all, largest(&want[r]));
  for (int r = 0; r < n; r++) {
    double scale = fmax(largest(&want[r]), least * all), worst = 0;
    for (int64_t k = 0; k < vtb_type_count(&want[r].type); k++) {
      double e = fabs(got[r].data[k] - want[r].data[k]);
      if (!(e <= worst)) worst = isnan(e) ? HUGE_VAL : e;
    }
    CHECK_MSG(worst <= tolerance * scale + 1e-30, "%s: result %d: error %.3g of %.3g", what, r,
              worst, scale);
  }
}

static void check_forward(const config *c, const form *f, unsigned long long seed) {
  char *text = write_module(c), *what = describe(c, f, "forward");
  vtb_module *before = parse_ir(text);
  if (!before) return;
  int n = before->entry->n_returns;
  vtb_tensor *args = config_args(c, before->entry, seed);
  round_all(args, before->entry->n_args);
  vtb_tensor *want = interpret(before, args, 2), *got = NULL;
  vtb_module *m = vtb_module_clone(before);
  vtb_pass_context pc = {.module = m, .batch = 2, .mode = f->mode, .chunk = f->chunk};
  if (want && run_passes_in(&pc, "recurrence,simplify,cse,dce,bind,select_mode,fuse"))
    got = run_native(m, m->entry, args, what);
  if (want && got) {
    unscale(want, n), unscale(got, n);
    /* A quotient whose denominator cancels has large values with few right digits. */
    compare(got, want, n - 1, c->normalizer && c->gain ? 5e-3 : 2e-4, 0, what);
  }
  if (got) free_tensors(got, n);
  if (want) free_tensors(want, n);
  free_tensors(args, before->entry->n_args);
  vtb_module_free(m), vtb_module_free(before);
  free(text), free(what);
}

/* Output 0 in all arguments; the gradients of the double interpreter are checked by differences in
 * tests/passes. */
static void check_gradient(const config *c, const form *f, unsigned long long seed) {
  char *text = write_module(c), *what = describe(c, f, "gradient");
  vtb_module *m = parse_ir(text);
  if (!m) return;
  int wrt[12], n_wrt = m->entry->n_args;
  for (int i = 0; i < n_wrt; i++) wrt[i] = i;
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_func *grad = NULL;
  bool good =
      run_passes_in(&(vtb_pass_context){.module = m, .batch = 2}, "recurrence,simplify,cse,dce") &&
      vtb_autodiff(m, m->entry, &(int){0}, 1, wrt, n_wrt, &grad, &d, &err) == VTB_OK;
  CHECK_MSG(good, "%s: %s", what, err.text);
  vtb_pass_context pc = {.module = m, .batch = 2, .mode = f->mode, .chunk = f->chunk};
  if (good) m->entry = grad;
  if (good && run_passes_in(&pc, "dce,bind,select_mode,simplify,cse,dce,fuse")) {
    vtb_tensor *args = config_args(c, grad, seed);
    round_all(args, grad->n_args);
    vtb_tensor *want = interpret(m, args, 2), *got = run_native(m, grad, args, what);
    if (want && got) compare(got, want, grad->n_returns, 5e-4, 1e-3, what);
    if (got) free_tensors(got, grad->n_returns);
    if (want) free_tensors(want, grad->n_returns);
    free_tensors(args, grad->n_args);
  }
  vtb_diags_free(&d);
  vtb_module_free(m);
  free(text), free(what);
}

TEST(random_recurrences) {
  unsigned long long rng = 0x853c49e6748fea9bull;
  for (int i = 0; i < n_forward; i++) {
    config c = wide_config(&rng, 700, 24);
    form f = random_form(&rng);
    check_forward(&c, &f, rng);
  }
}

TEST(gradients_of_random_recurrences) {
  unsigned long long rng = 0xda3e39cb94b95bdbull;
  for (int i = 0; i < n_gradient; i++) {
    config c = wide_config(&rng, 300, 20);
    form f = random_form(&rng);
    c.gain_size = 2;
    if (c.klass == VTB_DECAY_CONSTANT)
      c.decay_size = 3; /* 1 - sigmoid(20) has no digits in float32 */
    check_gradient(&c, &f, rng);
  }
}

/* Bytes a thread needs beside the tensors for the gradient of one head of 32 keys and values. */
static int64_t gradient_bytes(const char *klass, const char *decay, int tokens, int chunk) {
  vtb_strbuf s = {0};
  char row[40], d[40];
  snprintf(row, sizeof row, "f32[1, %d, 1, 32]", tokens);
  snprintf(d, sizeof d, "f32[1, %d, 1%s]", tokens, decay);
  vtb_strbuf_printf(
      &s,
      "entry func @f(%%q: %s, %%d: %s) -> (%s, %s) {\n%%dq, %%dk, %%dv, %%dd = linscan_grad %%q, "
      "%%q, "
      "%%q, %%d, %%q {class = \"%s\", mode = \"chunkwise\", chunk = %d} : %s, %s, %s, %s\n"
      "return %%dq, %%dd\n}\n",
      row, d, row, d, klass, chunk, row, row, row, d);
  vtb_module *m = parse_ir(s.at);
  vtb_program *p = m ? kernel_compile(m, m->entry, klass) : NULL;
  if (!p) return -1;
  vtb_tensor *args = random_args(m->entry, 1, 1);
  float *out[2];
  kernel_run(p, m->entry, args, 1, out);
  int64_t bytes = (int64_t)kernel_scratch.bytes;
  for (int r = 0; r < 2; r++)
    kernel_free(out[r], (size_t)vtb_type_count(&m->entry->returns[r]->type) * sizeof(float));
  free_tensors(args, 2);
  vtb_program_free(p);
  vtb_module_free(m);
  vtb_strbuf_free(&s);
  return bytes;
}

/* What more tokens cost in training is the state before each of their chunks. */
TEST(training_keeps_chunk_states_alone) {
  static const char *const classes[][2] = {{"scalar", ""}, {"key", ", 32"}, {"value", ", 32"}};
  const int64_t state = 32 * 32 * (int64_t)sizeof(float);
  for (int i = 0; i < 3; i++)
    for (int chunk = 16; chunk <= 64; chunk *= 4) {
      int64_t some = gradient_bytes(classes[i][0], classes[i][1], 512, chunk);
      int64_t more = gradient_bytes(classes[i][0], classes[i][1], 1024, chunk),
              states = 512 / chunk;
      CHECK_MSG(some > 0 && more - some >= states * state && more - some <= states * state + 1024,
                "class %s, chunk %d: %lld bytes for 512 tokens, %lld for 1024, %lld states of %lld "
                "bytes more",
                classes[i][0], chunk, (long long)some, (long long)more, (long long)states,
                (long long)state);
    }
}

int main(int argc, char **argv) {
  if (argc > 1) n_forward *= atoi(argv[1]), n_gradient *= atoi(argv[1]);
  RUN(random_recurrences);
  RUN(gradients_of_random_recurrences);
  RUN(training_keeps_chunk_states_alone);
  return test_done();
}
