/* Running scales: states with gains of their own, gains along axes of a state, states without any
 * beside them; step after step by the interpreter, lowered in every mode. Inputs are scaled up so
 * that float32 would overflow many times over. */
#include "tests/passes/grad_check.h"
#include "ir/ops.h"
#include "tests/passes/pass_check.h"

enum { K = 3, V = 4 };

/* Inputs of a step: q, k, g [3], v, w [4], i, j, f []. Logarithms are g, w, i, j, f. */
static const char *const inputs[] = {"q", "k", "g", "v", "w", "i", "j", "f"};
static const int sizes[] = {K, K, K, V, V, 0, 0, 0};
enum { N_INPUTS = 8 };

typedef struct example {
  const char *what, *states[3]; /* shapes */
  const char *body;             /* makes %n0 ..., the new states, and %y [4] */
  int scales;                   /* maxplus ops */
} example;

#define KEYS "  %kc = reshape %k {shape = [3, 1]} : f32[3, 1]\n  %kv = mul %kc, %v : f32[3, 4]\n"
#define GAIN "  %ei = exp %i : f32[]\n  %ej = exp %j : f32[]\n"
#define FORGET "  %lf = log_sigmoid %f : f32[]\n  %d = exp %lf : f32[]\n"
#define BY_KEY "  %eg = exp %g : f32[3]\n  %egc = reshape %eg {shape = [3, 1]} : f32[3, 1]\n"
#define READ(y, s) "  %" y " = einsum %q, %" s " {spec = \"k,kv->v\"} : f32[4]\n"
#define TIMES(y, x, z, t) "  %" y " = mul %" x ", %" z " : f32[" t "]\n"
#define PLUS(y, x, z, t) "  %" y " = add %" x ", %" z " : f32[" t "]\n"

static const example examples[] = {
    {"two gains",
     {"3, 4", "3, 4"},
     KEYS GAIN FORGET TIMES("a", "d", "s0", "3, 4") TIMES("b", "ei", "kv", "3, 4")
         PLUS("n0", "a", "b", "3, 4") TIMES("c", "ej", "kv", "3, 4") PLUS("n1", "s1", "c",
                                                                          "3, 4") READ("y0", "n0")
             READ("y1", "n1") "  %y2 = abs %y1 : f32[4]\n"
                              "  %o = constant {value = 1} : f32[]\n  %y3 = max %y2, %o : f32[4]\n"
                              "  %y = div %y0, %y3 : f32[4]\n",
     2},
    {"a gain beside a decay by key",
     {"3, 4", "3, 4"},
     KEYS GAIN BY_KEY
     "  %l = log_sigmoid %g : f32[3]\n  %el = exp %l : f32[3]\n"
     "  %elc = reshape %el {shape = [3, 1]} : f32[3, 1]\n" TIMES("a", "ei", "kv", "3, 4")
         PLUS("n0", "s0", "a", "3, 4") TIMES("b", "elc", "s1", "3, 4") PLUS("n1", "b", "kv",
                                                                            "3, 4") READ("y0", "n0")
             READ("y1", "n1") "  %y4 = einsum %q, %n0 {spec = \"k,kv->v\"} : f32[4]\n"
                              "  %e = constant {value = 1} : f32[]\n  %y2 = abs %y0 : f32[4]\n"
                              "  %y3 = max %y2, %e : f32[4]\n  %y5 = div %y4, %y3 : f32[4]\n" PLUS(
                                  "y", "y5", "y1", "4"),
     1},
    {"keys as exponentials, with their sum",
     {"3, 4", "3"},
     BY_KEY "  %vr = reshape %v {shape = [1, 4]} : f32[1, 4]\n" TIMES("a", "egc", "vr", "3, 4")
         PLUS("n0", "s0", "a", "3, 4")
             PLUS("n1", "s1", "eg", "3") "  %p = exp %q : f32[3]\n"
                                         "  %y0 = einsum %p, %n0 {spec = \"k,kv->v\"} : f32[4]\n"
                                         "  %y1 = einsum %p, %n1 {spec = \"k,k->\"} : f32[]\n  %y "
                                         "= div %y0, %y1 : f32[4]\n",
     1},
    {"a decay by key and a gain a head",
     {"3, 4"},
     KEYS GAIN
     "  %l = log_sigmoid %g : f32[3]\n  %el = exp %l : f32[3]\n"
     "  %elc = reshape %el {shape = [3, 1]} : f32[3, 1]\n" TIMES("a", "elc", "s0", "3, 4")
         TIMES("b", "ei", "kv", "3, 4") PLUS("n0", "a", "b", "3, 4") READ(
             "y0",
             "n0") "  %y1 = mul %y0, %y0 : f32[4]\n  %y2 = reduce_sum %y1 {axes = [0]} : f32[]\n"
                   "  %y3 = sqrt %y2 : f32[]\n  %y = div %y0, %y3 : f32[4]\n",
     1},
    {"values as exponentials",
     {"3, 4", "4"},
     "  %kc = reshape %k {shape = [3, 1]} : f32[3, 1]\n  %ew = exp %w : f32[4]\n" TIMES(
         "a", "kc", "ew", "3, 4") PLUS("n0", "s0", "a", "3, 4") PLUS("n1", "s1", "ew", "4")
         READ("y0", "n0") "  %y1 = div %y0, %n1 : f32[4]\n  %y = neg %y1 : f32[4]\n",
     2},
    {"each channel by itself",
     {"4", "4"},
     "  %ew = exp %w : f32[4]\n" FORGET TIMES("a", "d", "s0", "4") TIMES("b", "ew", "v", "4")
         PLUS("n0", "a", "b", "4") TIMES("c", "d", "s1", "4")
             PLUS("n1", "c", "ew", "4") "  %y = div %n0, %n1 : f32[4]\n",
     1},
    {"each channel by itself, before the step",
     {"4", "4"},
     "  %ew = exp %w : f32[4]\n" TIMES("b", "ew", "v", "4") PLUS("n0", "s0", "b", "4")
         PLUS("n1", "s1", "ew", "4") PLUS("t", "s0", "b", "4")
             PLUS("u", "s1", "ew", "4") "  %y = div %t, %u : f32[4]\n",
     1},
    {"both axes",
     {"3, 4", "3, 4"},
     KEYS "  %gc = reshape %g {shape = [3, 1]} : f32[3, 1]\n  %wr = reshape %w {shape = [1, 4]} : "
          "f32[1, 4]\n  %x = add %gc, %wr : f32[3, 4]\n  %ex = exp %x : f32[3, 4]\n" TIMES(
              "a", "ex", "kv", "3, 4") PLUS("n0", "s0", "a", "3, 4")
              PLUS("n1", "s1", "ex", "3, 4") "  %z = div %n0, %n1 : f32[3, 4]\n" READ("y", "z"),
     1},
    {"both axes, each with a gain",
     {"3, 4"},
     KEYS BY_KEY "  %ew = exp %w : f32[4]\n" TIMES("e", "egc", "ew", "3, 4")
         TIMES("a", "e", "kv", "3, 4") PLUS("n0", "s0", "a", "3, 4") READ(
             "y0",
             "n0") "  %y1 = mul %y0, %y0 : f32[4]\n  %y2 = reduce_sum %y1 {axes = [0]} : f32[]\n"
                   "  %y3 = sqrt %y2 : f32[]\n  %y = div %y0, %y3 : f32[4]\n",
     1},
    {"a sum of two scales",
     {"3, 4", "3, 4"},
     KEYS GAIN FORGET TIMES("a", "d", "s0", "3, 4") TIMES("b", "ei", "kv", "3, 4")
         PLUS("n0", "a", "b", "3, 4") TIMES("c", "ej", "kv", "3, 4") PLUS("n1", "s1", "c", "3, 4")
             READ("y0", "n0") READ("y4", "n1") PLUS(
                 "y5", "y0", "y4",
                 "4") "  %y1 = mul %y5, %y5 : f32[4]\n  %y2 = reduce_sum %y1 {axes = [0]} : f32[]\n"
                      "  %y3 = sqrt %y2 : f32[]\n  %y = div %y5, %y3 : f32[4]\n",
     2},
    {"sums of all channels",
     {"4", "4"},
     "  %ew = exp %w : f32[4]\n" TIMES("b", "ew", "v", "4") PLUS("n0", "s0", "b", "4")
         PLUS("n1", "s1", "ew",
              "4") "  %t = reduce_sum %n0 {axes = [0]} : f32[]\n"
                   "  %u = reduce_sum %n1 {axes = [0]} : f32[]\n  %r = div %t, %u : f32[]\n"
                   "  %y = mul %r, %v : f32[4]\n",
     1},
    {"a state read by one with a gain",
     {"4", "4"},
     GAIN FORGET TIMES("a", "d", "s0", "4") PLUS("n0", "a", "v", "4") TIMES("b", "ei", "n0", "4")
         PLUS("n1", "s1", "b",
              "4") "  %t = abs %n1 : f32[4]\n"
                   "  %u = reduce_max %t {axes = [0]} : f32[]\n  %r = div %n1, %u : f32[4]\n" PLUS(
                       "y", "r", "n0", "4"),
     1},
    {"softmax of the keys",
     {"3, 4"},
     "  %t = reduce_max %g {axes = [0], keep = 1} : f32[1]\n  %t2 = stop_gradient %t : f32[1]\n"
     "  %x = sub %g, %t2 : f32[3]\n  %e = exp %x : f32[3]\n"
     "  %z = reduce_sum %e {axes = [0], keep = 1} : f32[1]\n  %p = div %e, %z : f32[3]\n"
     "  %pc = reshape %p {shape = [3, 1]} : f32[3, 1]\n" TIMES("a", "pc", "v", "3, 4")
         PLUS("n0", "s0", "a", "3, 4") READ("y", "n0"),
     0},
};
enum { N_EXAMPLES = sizeof examples / sizeof *examples };

static int n_states(const example *e) {
  int n = 0;
  while (n < 3 && e->states[n]) n++;
  return n;
}

static void put_inputs(vtb_strbuf *s, const char *lead, bool types) {
  for (int i = 0; i < N_INPUTS; i++) {
    vtb_strbuf_printf(s, "%s%%%s", i ? ", " : "", inputs[i]);
    if (!types) continue;
    vtb_strbuf_printf(s, ": f32[%s", lead);
    if (sizes[i]) vtb_strbuf_printf(s, "%s%d", *lead ? ", " : "", sizes[i]);
    vtb_strbuf_puts(s, "]");
  }
}

static void put_states(vtb_strbuf *s, const example *e, const char *lead) {
  for (int i = 0; i < n_states(e); i++) vtb_strbuf_printf(s, ", f32[%s%s]", lead, e->states[i]);
}

static char *write_module(const example *e, bool init, const char *path) {
  vtb_strbuf s = {0};
  vtb_strbuf_puts(&s, "entry func @f(");
  for (int i = 0; init && i < n_states(e); i++)
    vtb_strbuf_printf(&s, "%%i%d: f32[B, h=2, %s], ", i, e->states[i]);
  put_inputs(&s, "B, N=6, h=2", true);
  vtb_strbuf_puts(&s, ") -> (f32[B, N=6, h=2, 4]");
  put_states(&s, e, "B, h=2, ");
  vtb_strbuf_puts(&s, ", f32[B, h=2]) {\n  %y");
  for (int i = 0; i < n_states(e); i++) vtb_strbuf_printf(&s, ", %%r%d", i);
  vtb_strbuf_puts(&s, ", %m = recurrence @s(");
  for (int i = 0; init && i < n_states(e); i++) vtb_strbuf_printf(&s, "%%i%d, ", i);
  put_inputs(&s, "", false);
  vtb_strbuf_printf(&s, ") {states = %d, inits = %d, seqs = %d%s%s%s} : f32[B, N=6, h=2, 4]",
                    n_states(e), init ? n_states(e) : 0, N_INPUTS, path ? ", path = \"" : "",
                    path ? path : "", path ? "\"" : "");
  put_states(&s, e, "B, h=2, ");
  vtb_strbuf_puts(&s, ", f32[B, h=2]\n  return %y");
  for (int i = 0; i < n_states(e); i++) vtb_strbuf_printf(&s, ", %%r%d", i);
  vtb_strbuf_puts(&s, ", %m\n}\nstep @s(");
  for (int i = 0; i < n_states(e); i++) vtb_strbuf_printf(&s, "%%s%d: f32[%s], ", i, e->states[i]);
  put_inputs(&s, "", true);
  vtb_strbuf_puts(&s, ") -> (");
  for (int i = 0; i < n_states(e); i++) vtb_strbuf_printf(&s, "f32[%s], ", e->states[i]);
  vtb_strbuf_printf(&s, "f32[4]) {\n%s  return ", e->body);
  for (int i = 0; i < n_states(e); i++) vtb_strbuf_printf(&s, "%%n%d, ", i);
  vtb_strbuf_puts(&s, "%y\n}\n");
  return s.at;
}

static const struct mode {
  const char *name;
  int64_t chunk;
} modes[] = {{"recurrent", 0}, {"parallel", 0}, {"chunkwise", 1}, {"chunkwise", 4}};

/* Logarithms times `size`; initial states as they are. */
static vtb_tensor *make_args(const vtb_func *f, double size, unsigned long long seed) {
  vtb_tensor *args = random_args(f, 2, seed);
  for (int i = 0; i < f->n_args; i++) {
    const char *name = f->args[i]->name;
    if (name[1] || !strchr("gwij", name[0])) continue;
    for (int64_t k = 0; k < vtb_type_count(&args[i].type); k++) args[i].data[k] *= size;
  }
  return args;
}

/* Final states are relative to a scale that the two may choose differently: as numbers they are
 * the same. */
static void check_states(const vtb_tensor *got, const vtb_tensor *want, int n, const char *text) {
  for (int i = 1; i <= n; i++) {
    int64_t all = vtb_type_count(&want[i].type), heads = vtb_type_count(&want[n + 1].type);
    for (int64_t k = 0; k < all; k++) {
      double x = got[i].data[k] * exp(got[n + 1].data[k / (all / heads)]),
             y = want[i].data[k] * exp(want[n + 1].data[k / (all / heads)]);
      CHECK_MSG(fabs(x - y) <= 1e-9 * (1 + fabs(y)), "state %d: %g, want %g\n%s", i, x, y, text);
    }
  }
}

static void check_example(const example *e, const struct mode *mode, bool init, double size,
                          const char *path) {
  char *text = write_module(e, init, path);
  vtb_module *before = parse_ir(text), *m = parse_ir(text);
  if (!before || !m) return;
  vtb_pass_context pc = {.module = m, .batch = 2, .mode = mode->name, .chunk = mode->chunk};
  if (!run_passes_in(&pc, "recurrence,simplify,cse,dce,select_mode")) return;
  CHECK_MSG(count_ops(m, VTB_OP_maxplus) == e->scales && count_ops(m, VTB_OP_fold) == 0,
            "%s: %d scales", e->what, count_ops(m, VTB_OP_maxplus));
  vtb_tensor *args = make_args(before->entry, size, 5);
  vtb_tensor *want = interpret(before, args, 2), *got = interpret(m, args, 2);
  if (want && got) {
    double worst = largest_error(&got[0], &want[0]);
    CHECK_MSG(worst <= 1e-9, "%s: error %g, %s %lld, init %d\n%s", e->what, worst, mode->name,
              (long long)mode->chunk, init, text);
    check_states(got, want, n_states(e), text);
  }
  free_tensors(want, before->entry->n_returns);
  free_tensors(got, before->entry->n_returns);
  free_tensors(args, before->entry->n_args);
  vtb_module_free(m), vtb_module_free(before);
  free(text);
}

TEST(scaled_states_equal_their_steps) {
  static const char *const paths[] = {NULL, "cols~@2x3"};
  for (int i = 0; i < N_EXAMPLES; i++)
    for (int k = 0; k < 4; k++)
      for (int init = 0; init < 2; init++)
        check_example(&examples[i], &modes[k], init, init ? 3 : 30, paths[k / 2]);
}

/* Gradients by differences where exponentials are moderate; finite where they would overflow
 * doubles. The first example's result is as large as its gains. */
static void check_gradients(const example *e, const struct mode *mode, double size) {
  char *text = write_module(e, true, NULL);
  vtb_module *before = parse_ir(text), *m = parse_ir(text);
  vtb_pass_context pc = {.module = m, .batch = 2, .mode = mode->name, .chunk = mode->chunk};
  if (!before || !m || !run_passes_in(&pc, "recurrence,simplify,cse,dce,select_mode")) return;
  int outs[1] = {0}, wrt[20], n_args = m->entry->n_args;
  for (int i = 0; i < n_args; i++) wrt[i] = i;
  vtb_func *grad = NULL;
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_status status = vtb_autodiff(m, m->entry, outs, 1, wrt, n_args, &grad, &d, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  vtb_tensor *args = make_args(grad, size, 3), *results = grad_run(grad, args);
  for (int i = 0; i < n_args; i++)
    for (int64_t k = 0, n = vtb_type_count(&args[i].type); k < n; k += n / 3 + 1) {
      double got = results[m->entry->n_returns + i].data[k], old = args[i].data[k], sum[2];
      CHECK_MSG(isfinite(got), "%s: d_%s[%lld] is %g", e->what, grad->args[i]->name, (long long)k,
                got);
      for (int side = 0; size < 10 && side < 2; side++) {
        args[i].data[k] = old + (side ? 1e-5 : -1e-5);
        vtb_tensor *y = grad_run(before->entry, args);
        sum[side] = grad_dot(&y[0], &args[n_args]);
        grad_free(y, before->entry->n_returns);
      }
      args[i].data[k] = old;
      double want = size < 10 ? (sum[1] - sum[0]) / 2e-5 : got;
      CHECK_MSG(fabs(got - want) <= 1e-5 * (1 + fabs(want)),
                "%s: d_%s[%lld] = %.10g, differences give %.10g, %s", e->what, grad->args[i]->name,
                (long long)k, got, want, mode->name);
    }
  grad_free(results, grad->n_returns), grad_free(args, grad->n_args);
  vtb_diags_free(&d);
  vtb_module_free(m), vtb_module_free(before);
  free(text);
}

TEST(gradients_of_scaled_states_are_those_of_the_steps) {
  for (int i = 0; i < N_EXAMPLES; i++) {
    check_gradients(&examples[i], &modes[i % 4], 1);
    if (i > 0) check_gradients(&examples[i], &modes[(i + 1) % 4], 1000);
  }
}

TEST(no_gain_is_too_large) {
  for (int i = 1; i < N_EXAMPLES; i++) {
    char *text = write_module(&examples[i], false, NULL);
    vtb_module *m = parse_ir(text);
    if (!m || !run_passes(m, "recurrence,simplify,cse,dce")) return;
    vtb_tensor *args = make_args(m->entry, 1000, 4), *y = interpret(m, args, 2);
    for (int64_t k = 0; y && k < vtb_type_count(&y[0].type); k++)
      CHECK_MSG(isfinite(y[0].data[k]), "%s: %g at %lld", examples[i].what, y[0].data[k],
                (long long)k);
    free_tensors(y, m->entry->n_returns), free_tensors(args, m->entry->n_args);
    vtb_module_free(m);
    free(text);
  }
}

int main(void) {
  RUN(scaled_states_equal_their_steps);
  RUN(gradients_of_scaled_states_are_those_of_the_steps);
  RUN(no_gain_is_too_large);
  return test_done();
}
