/* Pairs of states that turn each other: random steps in several arrangements, by the interpreter
 * step after step and lowered, in every mode; their gradients by differences. */
#include "tests/passes/grad_check.h"
#include "ir/ops.h"
#include "tests/passes/pass_check.h"

static int below(unsigned long long *rng, int n) { return (int)((test_random(rng) + 1) / 2 * n); }

typedef struct config {
  int rank;     /* of the states: 0, 1, 2 */
  int angle;    /* axes it varies over, bits */
  int nu;       /* axes of the magnitude's logarithm, bits */
  int heads;    /* head axes: 0, 1, 2 */
  int form;     /* how the turn is written, 0 ... 5 */
  int input;    /* 0 ... 3 */
  int read;     /* 0 ... 3; 4: both results by one query */
  int contract; /* axis of a matrix that is read over */
  int inits;    /* 0: none, 1: states, 2: and their scale */
  bool constant_angle, gain, third;
  const char *path;
} config;

enum { K = 3, V = 4, N_FORMS = 6 };

/* The dims of a value of the step that varies over `axes` of the state, on its frame. */
static const char *dims(const config *c, int axes) {
  static char text[8][32];
  static int next;
  char *t = text[next++ % 8];
  t[0] = 0;
  if (c->rank == 1 && axes) sprintf(t, "%d", V);
  if (c->rank == 2 && axes) sprintf(t, "%d, %d", axes & 1 ? K : 1, axes & 2 ? V : 1);
  return t;
}

static int all_axes(const config *c) { return c->rank == 2 ? 3 : c->rank; }

/* name = op x, y, of the given axes */
static void put(vtb_strbuf *s, const config *c, const char *name, const char *op, const char *x,
                const char *y, int axes) {
  vtb_strbuf_printf(s, "  %%%s = %s %%%s%s%s : f32[%s]\n", name, op, x, y ? ", %" : "", y ? y : "",
                    dims(c, axes));
}

/* %tr = turned re and %ti = turned im, without inputs. */
static void put_turn(vtb_strbuf *s, const config *c) {
  int f = all_axes(c), a = c->angle, m = c->angle | c->nu;
  put(s, c, "M", "exp", "nu", NULL, c->nu);
  if (c->form >= 3) { /* p and q as they are given */
    vtb_strbuf_puts(s, "");
    put(s, c, "mc", "mul", "M", "theta", m);
    put(s, c, "ms", "mul", "M", "phi", m);
  } else {
    put(s, c, "c", "cos", "theta", NULL, a);
    if (c->form == 2) put(s, c, "back", "neg", "theta", NULL, a);
    put(s, c, "s", "sin", c->form == 2 ? "back" : "theta", NULL, a);
    put(s, c, "mc", "mul", "M", "c", m);
    put(s, c, "ms", "mul", "s", "M", m);
  }
  bool outside = c->form == 1 || c->form == 4; /* the magnitude after the turn */
  const char *p = !outside       ? "mc"
                  : c->form == 4 ? "theta"
                                 : "c",
             *q = !outside       ? "ms"
                  : c->form == 4 ? "phi"
                                 : "s";
  bool swapped = c->form == 5;
  put(s, c, "r1", "mul", p, "re", f);
  put(s, c, "r2", "mul", "im", q, f);
  put(s, c, "r3", swapped ? "add" : "sub", "r1", "r2", f);
  put(s, c, "i1", "mul", "re", q, f);
  put(s, c, "i2", "mul", p, "im", f);
  put(s, c, "i3", swapped ? "sub" : "add", "i2", "i1", f);
  put(s, c, "tr", outside ? "mul" : "neg", "r3", outside ? "M" : NULL, f);
  put(s, c, "ti", outside ? "mul" : "neg", "i3", outside ? "M" : NULL, f);
}

/* %x and %y, what is added. */
static void put_inputs(vtb_strbuf *s, const config *c) {
  int f = all_axes(c);
  if (c->rank == 2) {
    vtb_strbuf_printf(s, "  %%kc0 = reshape %%k0 {shape = [%d, 1]} : f32[%d, 1]\n", K, K);
    vtb_strbuf_printf(s, "  %%kc1 = reshape %%k1 {shape = [%d, 1]} : f32[%d, 1]\n", K, K);
    put(s, c, "x0", "mul", "kc0", "v0", f);
    put(s, c, "y0", "mul", c->input == 1 ? "kc0" : "kc1", c->input == 0 ? "v0" : "v1", f);
  } else {
    put(s, c, "x0", "mul", "v0", "v1", f);
    put(s, c, "y0", "mul", "v1", "v1", f);
  }
  if (c->gain) {
    vtb_strbuf_puts(s, "  %ei = exp %i : f32[]\n");
    put(s, c, "x", "mul", "ei", "x0", f);
    put(s, c, "y", "mul", "y0", "ei", f);
  } else {
    put(s, c, "x", "neg", "x0", NULL, f);
    put(s, c, "y", c->rank < 2 ? "add" : "neg", "y0", c->rank < 2 ? "none" : NULL, f);
  }
}

static const char *yield_dims(const config *c) {
  static char text[8];
  text[0] = 0;
  if (c->rank == 2)
    sprintf(text, "%d", c->contract == 0 ? V : K);
  else
    sprintf(text, "%s", dims(c, all_axes(c)));
  return text;
}

/* %y1 and %y2. */
static void put_reads(vtb_strbuf *s, const config *c) {
  const char *y = yield_dims(c);
  if (c->rank < 2) {
    put(s, c, "a", "mul", "v0", c->read == 1 ? "re" : "re2", all_axes(c));
    put(s, c, "b", "mul", "v1", "im2", all_axes(c));
  } else {
    const char *spec = c->contract == 0 ? "k,kv->v" : "v,kv->k";
    vtb_strbuf_printf(s, "  %%a = einsum %%q0, %%%s {spec = \"%s\"} : f32[%s]\n",
                      c->read == 1 ? "re" : "re2", spec, y);
    vtb_strbuf_printf(s, "  %%b = einsum %%q%d, %%%s {spec = \"%s\"} : f32[%s]\n", c->read == 2,
                      c->read == 1 ? "im" : "im2", spec, y);
  }
  vtb_strbuf_printf(s, "  %%y1 = sub %%a, %%b : f32[%s]\n", y);
  const char *other = c->read == 3 ? "mul %a, %b" : c->read == 4 ? "neg %y1" : "neg %b";
  vtb_strbuf_printf(s, "  %%y2 = %s : f32[%s]\n", other, y);
}

static const char *const inputs[] = {"theta", "phi", "nu", "k0", "k1",  "v0",
                                     "v1",    "q0",  "q1", "i",  "none"};
enum { N_INPUTS = sizeof inputs / sizeof *inputs };

static const char *input_dims(const config *c, int i) {
  static char text[16];
  if (i < 2) return dims(c, c->angle);
  if (i == 2) return dims(c, c->nu);
  int n = i < 5 ? K : i < 7 ? V : i < 9 ? (c->contract == 0 ? K : V) : 0;
  if (c->rank < 2 && i >= 5 && i < 7) return dims(c, all_axes(c));
  text[0] = 0;
  if (n) sprintf(text, "%d", n);
  return text;
}

static bool is_constant(const config *c, int i) { return i < 2 && c->constant_angle; }

static const char *heads(const config *c) {
  return c->heads == 0 ? "" : c->heads == 1 ? ", h=2" : ", h=2, g=2";
}

static void put_type(vtb_strbuf *s, const char *lead, const config *c, const char *d) {
  const char *h = heads(c);
  if (!*lead && *h) h += 2;
  vtb_strbuf_printf(s, "f32[%s%s%s%s]", lead, h, *d && (*lead || *h) ? ", " : "", d);
}

static int n_states(const config *c) { return c->third ? 3 : 2; }

/* Arguments in the recurrence's order: initial states, inputs by step, constants. */
static void put_operands(vtb_strbuf *s, const config *c, bool types) {
  static const char *const states[] = {"re0", "im0", "c0"};
  const char *comma = "";
  for (int i = 0; c->inits && i < n_states(c) + (c->inits == 2); i++, comma = ", ") {
    vtb_strbuf_printf(s, "%s%%%s%s", comma, i < n_states(c) ? states[i] : "m0", types ? ": " : "");
    if (types) put_type(s, "B", c, i < n_states(c) ? dims(c, all_axes(c)) : "");
  }
  for (int constant = 0; constant < 2; constant++)
    for (int i = 0; i < N_INPUTS; i++) {
      if (is_constant(c, i) != (constant == 1)) continue;
      vtb_strbuf_printf(s, "%s%%%s%s", comma, inputs[i], types ? ": " : "");
      if (types) put_type(s, constant ? "" : "B, N=6", c, input_dims(c, i));
      comma = ", ";
    }
}

static void put_result_types(vtb_strbuf *s, const config *c) {
  for (int i = 0; i < 2; i++) put_type(s, "B, N=6", c, yield_dims(c)), vtb_strbuf_puts(s, ", ");
  for (int i = 0; i < n_states(c); i++)
    put_type(s, "B", c, dims(c, all_axes(c))), vtb_strbuf_puts(s, ", ");
  put_type(s, "B", c, "");
}

static char *write_module(const config *c) {
  vtb_strbuf s = {0};
  char state[32];
  strcpy(state, dims(c, all_axes(c)));
  const char *third = c->third ? ", %c9" : "";
  vtb_strbuf_puts(&s, "entry func @f(");
  put_operands(&s, c, true);
  vtb_strbuf_puts(&s, ") -> (");
  put_result_types(&s, c);
  vtb_strbuf_printf(&s, ") {\n  %%y1, %%y2, %%re9, %%im9%s, %%m = recurrence @s(", third);
  put_operands(&s, c, false);
  int constants = c->constant_angle ? 2 : 0;
  vtb_strbuf_printf(&s, ") {states = %d, inits = %d, seqs = %d%s%s%s} : ", n_states(c),
                    c->inits ? n_states(c) + (c->inits == 2) : 0, N_INPUTS - constants,
                    c->path ? ", path = \"" : "", c->path ? c->path : "", c->path ? "\"" : "");
  put_result_types(&s, c);
  vtb_strbuf_printf(&s, "\n  return %%y1, %%y2, %%re9, %%im9%s, %%m\n}\n", third);
  vtb_strbuf_printf(&s, "step @s(%%re: f32[%s], %%im: f32[%s]", state, state);
  if (c->third) vtb_strbuf_printf(&s, ", %%sum: f32[%s]", state);
  for (int constant = 0; constant < 2; constant++)
    for (int i = 0; i < N_INPUTS; i++)
      if (is_constant(c, i) == (constant == 1))
        vtb_strbuf_printf(&s, ", %%%s: f32[%s]", inputs[i], input_dims(c, i));
  vtb_strbuf_printf(&s, ") -> (f32[%s], f32[%s]", state, state);
  if (c->third) vtb_strbuf_printf(&s, ", f32[%s]", state);
  vtb_strbuf_printf(&s, ", f32[%s], f32[%s]) {\n", yield_dims(c), yield_dims(c));
  put_turn(&s, c);
  put_inputs(&s, c);
  put(&s, c, "re2", "add", "tr", "x", all_axes(c));
  if (c->input == 2)
    put(&s, c, "im2", "neg", "ti", NULL, all_axes(c)), vtb_strbuf_puts(&s, "");
  else
    put(&s, c, "im2", "add", "y", "ti", all_axes(c));
  if (c->third) put(&s, c, "sum2", "add", "sum", "re2", all_axes(c));
  put_reads(&s, c);
  vtb_strbuf_printf(&s, "  return %%re2, %%im2%s, %%y1, %%y2\n}\n", c->third ? ", %sum2" : "");
  return s.at;
}

static config random_config(unsigned long long *rng) {
  static const char *const paths[] = {NULL, NULL, "cols~@2x3", "[3,1,5,0,4,2]@2x3"};
  config c = {.rank = below(rng, 3), .heads = below(rng, 3), .form = below(rng, N_FORMS)};
  int axes = all_axes(&c) + 1;
  c.angle = below(rng, axes), c.nu = below(rng, axes);
  c.input = below(rng, 4), c.read = below(rng, 4), c.contract = below(rng, 2);
  if (c.input == 2) c.input = 3; /* see an_input_may_be_real */
  c.inits = below(rng, 2) ? 1 + below(rng, 2) : 0;
  c.constant_angle = below(rng, 3) == 0;
  c.gain = c.nu == 0 && (c.form < 3 || c.angle == 0) && below(rng, 4) == 0;
  c.third = !c.gain && below(rng, 4) == 0;
  c.path = paths[below(rng, 4)];
  return c;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const struct mode {
  const char *name;
  int64_t chunk;
} modes[] = {{"recurrent", 0}, {"parallel", 0}, {"chunkwise", 1}, {"chunkwise", 4}};

/* Results that do not depend on the choice of a running scale. */
static int n_results(const config *c) { return c->gain || c->inits == 2 ? 2 : 2 + n_states(c); }

static vtb_module *lowered(const char *text, const struct mode *mode) {
  vtb_module *m = parse_ir(text);
  vtb_pass_context pc = {.module = m, .batch = 2, .mode = mode->name, .chunk = mode->chunk};
  if (m && run_passes_in(&pc, "recurrence,simplify,cse,dce,select_mode")) return m;
  return NULL;
}

static void check_values(const config *c, const struct mode *mode, unsigned long long seed) {
  char *text = write_module(c);
  vtb_module *before = parse_ir(text), *m = before ? lowered(text, mode) : NULL;
  CHECK_MSG(m != NULL, "%s", text);
  if (!m) return;
  CHECK_MSG(count_ops(m, VTB_OP_fold) == 0 && count_ops(m, VTB_OP_prefix_sum) >= 1, "%s", text);
  vtb_tensor *args = random_args(before->entry, 2, seed);
  vtb_tensor *want = interpret(before, args, 2), *got = interpret(m, args, 2);
  for (int i = 0; want && got && i < n_results(c); i++) {
    double e = largest_error(&got[i], &want[i]);
    CHECK_MSG(e <= 1e-9, "result %d: error %g, %s %lld\n%s", i, e, mode->name,
              (long long)mode->chunk, text);
  }
  free_tensors(want, before->entry->n_returns);
  free_tensors(got, before->entry->n_returns);
  free_tensors(args, before->entry->n_args);
  vtb_module_free(m), vtb_module_free(before);
  free(text);
}

TEST(turns_in_any_arrangement_equal_their_steps) {
  unsigned long long rng = 7;
  for (int i = 0; i < 300; i++) {
    config c = random_config(&rng);
    check_values(&c, &modes[i % 4], rng);
  }
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void check_gradients(const config *c, const struct mode *mode, unsigned long long seed) {
  char *text = write_module(c);
  vtb_module *before = parse_ir(text), *m = before ? lowered(text, mode) : NULL;
  if (!m) return;
  int outs[8] = {0}, wrt[20], n_outs = n_results(c), n_args = m->entry->n_args;
  for (int i = 0; i < n_outs; i++) outs[i] = i;
  for (int i = 0; i < n_args; i++) wrt[i] = i;
  vtb_func *grad = NULL;
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_status status = vtb_autodiff(m, m->entry, outs, n_outs, wrt, n_args, &grad, &d, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  vtb_tensor *args = random_args(grad, GRAD_BATCH, seed), *results = grad_run(grad, args);
  vtb_strbuf what = {0};
  vtb_strbuf_printf(&what, "%s\n%s", mode->name, text);
  grad_differences(before->entry, args, n_args, n_outs, results, m->entry->n_returns, 3, seed,
                   what.at);
  vtb_strbuf_free(&what);
  grad_free(results, grad->n_returns);
  grad_free(args, grad->n_args);
  vtb_diags_free(&d);
  vtb_module_free(m), vtb_module_free(before);
  free(text);
}

TEST(gradients_are_those_of_the_steps) {
  unsigned long long rng = 11;
  for (int i = 0; i < 40; i++) {
    config c = random_config(&rng);
    check_gradients(&c, &modes[i % 4], rng);
  }
}

/* ---- scans ----------------------------------------------------------------------------------- */

/* One scan of a state with one axis twice as long. */
static void check_scan(config c, const char *klass, int k, int v) {
  char *text = write_module(&c);
  vtb_module *m = lowered(text, &modes[0]);
  if (m) CHECK_MSG(count_ops(m, VTB_OP_linscan) == 1, "%s", text);
  for (vtb_inst *inst = m ? m->entry->first : NULL; inst; inst = inst->next) {
    if (inst->op != VTB_OP_linscan) continue;
    CHECK_STR(vtb_attr_str(inst, "class", ""), klass);
    CHECK_MSG(inst->operands[0]->type.dim[3].size == k && inst->operands[2]->type.dim[3].size == v,
              "%s", text);
  }
  if (m) vtb_module_free(m);
  free(text);
}

TEST(a_pair_is_one_scan) {
  check_scan((config){.rank = 2, .read = 4, .angle = 1, .nu = 0}, "scalar", 2 * K, V);
  check_scan((config){.rank = 2, .read = 4, .angle = 1, .nu = 1}, "key", 2 * K, V);
  check_scan((config){.rank = 2, .read = 4, .angle = 1, .nu = 2}, "value", 2 * K, V);
  check_scan((config){.rank = 2, .angle = 2, .nu = 0, .input = 1}, "scalar", K, 2 * V);
  check_scan((config){.rank = 2, .angle = 0, .nu = 1, .input = 1, .read = 3}, "key", K, 2 * V);
  check_scan((config){.rank = 2, .read = 4, .angle = 2, .input = 1, .contract = 1}, "scalar", 2 * V,
             K);
  check_scan((config){.rank = 2, .angle = 3}, "scalar", 1, 2 * K * V);
  check_scan((config){.rank = 1, .angle = 1, .nu = 1}, "value", 1, 2 * V);
  check_scan((config){.rank = 0}, "scalar", 1, 2);
  check_scan((config){.rank = 1, .angle = 1, .constant_angle = true}, "scalar", 1, 2 * V);
}

/* ---- what is no pair ------------------------------------------------------------------------- */

static const char *const coupled =
    "entry func @f(%%u: f32[B, N=6], %%p: f32[B, N=6], %%q: f32[B, N=6]) -> (f32[B, N=6]) {\n"
    "  %%y, %%x1, %%x2, %%m = recurrence @s(%%u, %%p, %%q) {states = 2, inits = 0, seqs = 3, mode "
    "= "
    "\"parallel\"} : f32[B, N=6], f32[B], f32[B], f32[B]\n  return %%y\n}\n"
    "step @s(%%re: f32[], %%im: f32[], %%u: f32[], %%p: f32[], %%q: f32[]) -> (f32[], f32[], "
    "f32[]) {\n"
    "  %%r1 = mul %%p, %%re : f32[]\n  %%r2 = mul %%q, %%im : f32[]\n  %%r3 = sub %%r1, %%r2 : "
    "f32[]\n"
    "  %%i1 = mul %%%s, %%re : f32[]\n  %%i2 = mul %%%s, %%im : f32[]\n  %%i3 = %s %%i1, %%i2 : "
    "f32[]\n"
    "  %%r4 = add %%r3, %%u : f32[]\n  return %%r4, %%i3, %%%s\n}\n";

static void check_coupled(const char *by_re, const char *by_im, const char *op, const char *read,
                          bool turns) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, coupled, by_re, by_im, op, read);
  vtb_module *m = parse_ir(s.at);
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_pipeline_options o = {.pipeline = "recurrence"};
  vtb_pass_context c = {.module = m, .batch = 2, .diags = &d};
  bool good = m && vtb_run_pipeline(&c, &o, &err) == VTB_OK;
  CHECK_MSG(good == turns, "%s", s.at);
  if (!turns) CHECK(d.list.n > 0 && d.list.at[0].code == 3003);
  vtb_diags_free(&d);
  vtb_module_free(m);
  vtb_strbuf_free(&s);
}

TEST(only_a_turn_is_one) {
  check_coupled("q", "p", "add", "r4", true);
  check_coupled("q", "p", "sub", "r4", false); /* -p im */
  check_coupled("p", "q", "add", "r4", false);
  check_coupled("q", "q", "add", "r4", false);
  check_coupled("u", "p", "add", "r4", false);
}

int main(void) {
  RUN(turns_in_any_arrangement_equal_their_steps);
  RUN(gradients_are_those_of_the_steps);
  RUN(a_pair_is_one_scan);
  RUN(only_a_turn_is_one);
  return test_done();
}
