/* Gradients of a recurrence with a normalizer, mLSTM's, whose gates leave one token in the state:
 * machine code and emulated CUDA kernels against the interpreter. There y is v of that token, and
 * the gradients of queries and keys are differences of equal numbers over q . k. */
#include "tests/codegen/cuda_check.h"
#include "tests/passes/random_recurrence.h"

enum { TOKENS = 40, BATCH = 2, KEYS = 16 };

/* The gates of token t. */
typedef struct gates {
  const char *name;
  double f, i, i_else; /* i of tokens from ... to - 1, every `step`-th of them */
  int from, to, step;
} gates;

static const gates saturated[] = {
    {"spikes of 300, f -1e4", -1e4, 300, -30, 2, TOKENS, 5},
    {"from 150 to -150, f -80", -80, 150, -150, 0, 33, 1},
    {"one of 300 that stays", 50, 300, -30, 4, 5, 1},
};
enum { GATES = sizeof saturated / sizeof *saturated };

/* What lies before a chunk has gone through a state of floats, whose columns round apart
 * (docs/recurrences.md): there the last gates have a bound of their own, of what that costs. */
static const struct {
  const char *mode;
  int chunk;
  double bound[GATES];
} forms[] = {{"recurrent", 0, {1e-3, 1e-3, 1e-3}},
             {"parallel", 0, {1e-3, 1e-3, 1e-3}},
             {"chunkwise", 7, {1e-3, 1e-3, 0.5}}};

static const config mlstm = {.rank = 2,
                             .klass = VTB_DECAY_SCALAR,
                             .tokens = TOKENS,
                             .k = KEYS,
                             .v = 12,
                             .gain = true,
                             .gain_size = 1,
                             .normalizer = true,
                             .reads_scale = true,
                             .eps = 1e-6};

static bool is_large(const gates *g, int64_t t) {
  return t >= g->from && t < g->to && (t - g->from) % g->step == 0;
}

static vtb_tensor *input(const vtb_func *f, vtb_tensor *args, const char *name) {
  int a = 0;
  while (!vtb_streq(f->args[a]->name, name)) a++;
  return &args[a];
}

/* Query and key of the token that the state then holds are all but orthogonal: q . k = 1e-3. */
static void aim(double *q, const double *k) {
  double qk = 0, kk = 0;
  for (int c = 0; c < KEYS; c++) qk += q[c] * k[c], kk += k[c] * k[c];
  for (int c = 0; c < KEYS; c++) q[c] += (1e-3 - qk) / kk * k[c];
}

static void saturate(const gates *g, const vtb_func *f, vtb_tensor *args) {
  double *q = input(f, args, "q")->data, *k = input(f, args, "k")->data;
  double *i = input(f, args, "i")->data, *forget = input(f, args, "f")->data;
  for (int64_t b = 0, held = 0; b < BATCH; b++)
    for (int64_t t = 0, n = b * TOKENS; t < TOKENS; t++, n++) {
      if (t == 0 || is_large(g, t)) held = n;
      i[n] = is_large(g, t) ? g->i : g->i_else;
      forget[n] = g->f;
      aim(q + n * KEYS, k + held * KEYS);
    }
  for (int a = 0; a < f->n_args; a++)
    for (int64_t x = 0; x < vtb_type_count(&args[a].type); x++)
      args[a].data[x] = (float)args[a].data[x];
}

static bool is_compared(int r) { return r == 0 || r > 3; } /* not the final states */

static double largest(const vtb_tensor *t) {
  double most = 0;
  for (int64_t k = 0; k < vtb_type_count(&t->type); k++) most = fmax(most, fabs(t->data[k]));
  return most;
}

/* Errors relative to a result's largest number, or to 1e-3 of the largest of all. */
static void compare(const vtb_func *f, float *const *got, const vtb_tensor *want, double bound,
                    const char *what) {
  double all = 0;
  for (int r = 0; r < f->n_returns; r++)
    if (is_compared(r)) all = fmax(all, largest(&want[r]));
  for (int r = 0; r < f->n_returns; r++) {
    double worst = 0, scale = fmax(largest(&want[r]), 1e-3 * all);
    for (int64_t k = 0; is_compared(r) && k < vtb_type_count(&want[r].type); k++) {
      double e = fabs(got[r][k] - want[r].data[k]);
      if (!(e <= worst)) worst = isnan(e) ? HUGE_VAL : e;
    }
    if (getenv("VTB_TEST_SAY"))
      printf("%s: %s %.2g of %.2g\n", what, f->returns[r]->name, worst, scale);
    CHECK_MSG(worst <= bound * scale, "%s: %s: error %.3g of %.3g", what, f->returns[r]->name,
              worst, scale);
  }
}

static vtb_program *compile(vtb_module *m, const char *target) {
  vtb_error err = {0};
  vtb_program *p = NULL;
  if (!vtb_streq(target, "cpu")) return cuda_program(m, m->entry, 1, target);
  CHECK_MSG(vtb_jit(m, m->entry, &(vtb_codegen_options){.no_opt = test_is_quick()}, &p, &err) ==
                VTB_OK,
            "%s", err.text);
  return p;
}

/* m: the gradients, in one form for one target. */
static void check_form(vtb_module *m, int form, const char *target) {
  vtb_func *f = m->entry;
  vtb_module *plain = vtb_module_clone(m);
  vtb_program *p = compile(m, target);
  for (int g = 0; p && g < GATES; g++) {
    char what[120];
    snprintf(what, sizeof what, "%s, %s(%d), %s", saturated[g].name, forms[form].mode,
             forms[form].chunk, target);
    vtb_tensor *args = random_args(plain->entry, BATCH, 77);
    saturate(&saturated[g], plain->entry, args);
    vtb_tensor *want = interpret(plain, args, BATCH);
    void **all = cuda_run(p, f->n_args, args);
    if (want) compare(f, (float *const *)all + f->n_args, want, forms[form].bound[g], what);
    for (int t = 0; t < p->n_tensors; t++) free(all[t]);
    free(all);
    if (want) free_tensors(want, f->n_returns);
    free_tensors(args, f->n_args);
  }
  if (p) vtb_program_free(p);
  vtb_module_free(plain);
}

static void check(int form, const char *target) {
  char *text = write_module(&mlstm);
  vtb_module *m = parse_ir(text);
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_func *grad = NULL;
  vtb_pass_context c = {.module = m, .batch = BATCH, .target = vtb_target_find(target)};
  bool good =
      run_passes_in(&c, "recurrence,simplify,cse,dce") &&
      vtb_autodiff(m, m->entry, &(int){0}, 1, (int[]){0, 1, 2, 3, 4}, 5, &grad, &d, &err) == VTB_OK;
  CHECK_MSG(good, "%s", err.text);
  if (good) m->entry = grad;
  c.mode = forms[form].mode, c.chunk = forms[form].chunk;
  if (good && run_passes_in(&c, "dce,bind,select_mode,simplify,cse,dce,fuse"))
    check_form(m, form, target);
  vtb_diags_free(&d);
  vtb_module_free(m);
  free(text);
}

static void check_all(const char *target) {
  for (int i = 0; i < (int)(sizeof forms / sizeof *forms); i++) check(i, target);
}

TEST(on_the_cpu) { check_all("cpu"); }
TEST(on_emulated_cuda) { check_all("cuda"); }

int main(void) {
  RUN(on_the_cpu);
  emulate_or_skip();
  RUN(on_emulated_cuda);
  return test_done();
}
