/* Recurrence lowering: random step functions of every class, folded step by step by the
 * interpreter, equal the lowered form in every mode. */
#include "tests/passes/random_recurrence.h"
#include "ir/ops.h"

static const struct mode {
  const char *name;
  int64_t chunk;
} modes[] = {
    {"recurrent", 0}, {"parallel", 0}, {"chunkwise", 1}, {"chunkwise", 7}, {"chunkwise", 64}};

static void check_config(const config *c, unsigned long long seed) {
  char *text = write_module(c);
  vtb_module *before = parse_ir(text);
  if (!before) return;
  vtb_tensor *args = config_args(c, before->entry, seed);
  vtb_tensor *want = interpret(before, args, 2);
  if (!want) return;
  int n = before->entry->n_returns;
  double *scale = NULL;
  int64_t heads = vtb_type_count(&want[n - 1].type);
  if (has_common_scale(c))
    scale = memcpy(vtb_xcalloc((size_t)heads, sizeof *scale), want[n - 1].data,
                   (size_t)heads * sizeof *scale);
  unscale(want, n);
  for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
    vtb_module *m = vtb_module_clone(before);
    vtb_pass_context pc = {.module = m, .batch = 2, .mode = modes[k].name, .chunk = modes[k].chunk};
    bool good = run_passes_in(&pc, k % 2 ? "recurrence,simplify,cse,dce,bind,select_mode"
                                         : "recurrence,select_mode");
    CHECK(count_ops(m, VTB_OP_recurrence) == 0);
    vtb_tensor *got = good ? interpret(m, args, 2) : NULL;
    for (int64_t h = 0; got && scale && h < heads; h++)
      CHECK_MSG(fabs(got[n - 1].data[h] - scale[h]) <= 1e-12 * (1 + fabs(scale[h])),
                "log scale %g, want %g\n%s", got[n - 1].data[h], scale[h], text);
    if (got) unscale(got, n);
    for (int i = 0; got && i < n - 1; i++) {
      double e = largest_error(&got[i], &want[i]);
      CHECK_MSG(e <= 1e-9, "%s %lld result %d: error %g\n%s", modes[k].name,
                (long long)modes[k].chunk, i, e, text);
    }
    if (got) free_tensors(got, n);
    vtb_module_free(m);
  }
  free(scale);
  free_tensors(want, n);
  free_tensors(args, before->entry->n_args);
  vtb_module_free(before);
  free(text);
}

TEST(random_recurrences_equal_their_steps) {
  unsigned long long rng = 0x9e3779b97f4a7c15ull;
  for (int i = 0; i < 250; i++) {
    config c = random_config(&rng);
    check_config(&c, rng);
  }
}

/* Long sequences, and decays of all classes from exp(-60) to 1. */
TEST(long_recurrences_equal_their_steps) {
  unsigned long long rng = 0x2545f4914f6cdd1dull;
  for (int i = 0; i < 12; i++) {
    config c = random_config(&rng);
    c.path = NULL, c.klass = (vtb_decay_class)(i % 5), c.tokens = 100 + below(&rng, 600);
    c.head_axes = 0, c.decay_size = i % 2 ? 60 : 1;
    if (c.klass > VTB_DECAY_SCALAR) c.gain = c.second_gain = c.reads_scale = false;
    if (c.klass > VTB_DECAY_KEY) c.normalizer = false;
    c.inits = 0;
    check_config(&c, rng);
  }
}

/* Gains that rise and fall by 30 a step, and a gain of +-60. */
TEST(steep_gains_stay_finite) {
  config c = {.rank = 2,
              .klass = VTB_DECAY_SCALAR,
              .head_axes = 1,
              .tokens = 9,
              .k = 3,
              .v = 2,
              .gain = true,
              .normalizer = true,
              .reads_scale = true,
              .gain_size = 60};
  for (int form = 0; form < 3; form++) {
    c.decay_form = form, c.reads_scale = form == 0;
    check_config(&c, 77 + (unsigned long long)form);
  }
}

/* Far below zero nothing may become infinity times zero, at the first step least of all. */
TEST(vanishing_gains_stay_finite) {
  config c = {.rank = 2,
              .klass = VTB_DECAY_SCALAR,
              .tokens = 9,
              .k = 3,
              .v = 2,
              .gain = true,
              .normalizer = true,
              .gain_size = 20,
              .gain_shift = -800};
  for (c.decay_form = 0; c.decay_form < 3; c.decay_form++) check_config(&c, 99);
}

/* What a module returns before and after its recurrences are lowered, up to the last `without`
 * results. */
static void check_lowered(const char *text, int without, double within) {
  vtb_module *before = parse_ir(text), *after = parse_ir(text);
  if (!before || !after || !run_passes(after, "recurrence,simplify,cse,dce,select_mode")) return;
  CHECK(count_ops(after, VTB_OP_recurrence) == 0);
  vtb_tensor *args = random_args(before->entry, 2, 4321);
  vtb_tensor *want = interpret(before, args, 2), *got = interpret(after, args, 2);
  for (int i = 0; want && got && i < before->entry->n_returns - without; i++)
    CHECK_MSG(largest_error(&got[i], &want[i]) <= within, "result %d: error %g", i,
              largest_error(&got[i], &want[i]));
  if (want) free_tensors(want, before->entry->n_returns);
  if (got) free_tensors(got, after->entry->n_returns);
  free_tensors(args, before->entry->n_args);
  vtb_module_free(before);
  vtb_module_free(after);
}

/* Two products are added at each step: both are in the last state, and the first state is in it
 * once. */
TEST(the_last_state_is_of_all_terms) {
  check_lowered(
      "entry func @f(%S: f32[B, 3, 4], %q: f32[B, N=5, 3], %k: f32[B, N=5, 3], %v: f32[B, N=5, 4], "
      "%l: f32[B, N=5, 3], %w: f32[B, N=5, 4], %f: f32[B, N=5]) -> (f32[B, N=5, 4], f32[B, 3, 4]) "
      "{\n"
      "  %y, %T, %m = recurrence @s(%S, %q, %k, %v, %l, %w, %f) {states = 1, inits = 1, seqs = 6} "
      ": "
      "f32[B, N=5, 4], f32[B, 3, 4], f32[B]\n"
      "  return %y, %T\n}\n"
      "step @s(%S: f32[3, 4], %q: f32[3], %k: f32[3], %v: f32[4], %l: f32[3], %w: f32[4], "
      "%f: f32[]) -> (f32[3, 4], f32[4]) {\n"
      "  %d = sigmoid %f : f32[]\n  %a = mul %S, %d : f32[3, 4]\n"
      "  %k1 = reshape %k {shape = [3, 1]} : f32[3, 1]\n  %u = mul %k1, %v : f32[3, 4]\n"
      "  %l1 = reshape %l {shape = [3, 1]} : f32[3, 1]\n  %z = mul %l1, %w : f32[3, 4]\n"
      "  %b = add %a, %u : f32[3, 4]\n  %S2 = add %b, %z : f32[3, 4]\n"
      "  %y = einsum %q, %S2 {spec = \"a,ab->b\"} : f32[4]\n  return %S2, %y\n}\n",
      0, 1e-12);
}

/* The same where what is added depends on the state: a scan for each of the two rows. */
TEST(the_last_state_is_of_all_corrections) {
  check_lowered(
      "entry func @f(%S: f32[B, 3, 4], %q: f32[B, N=5, 3], %k: f32[B, N=5, 3], %v: f32[B, N=5, 4], "
      "%l: f32[B, N=5, 3], %w: f32[B, N=5, 4], %f: f32[B, N=5]) -> (f32[B, N=5, 4], f32[B, 3, 4]) "
      "{\n"
      "  %y, %T, %m = recurrence @s(%S, %q, %k, %v, %l, %w, %f) {states = 1, inits = 1, seqs = 6} "
      ": "
      "f32[B, N=5, 4], f32[B, 3, 4], f32[B]\n"
      "  return %y, %T\n}\n"
      "step @s(%S: f32[3, 4], %q: f32[3], %k: f32[3], %v: f32[4], %l: f32[3], %w: f32[4], "
      "%f: f32[]) -> (f32[3, 4], f32[4]) {\n"
      "  %d = sigmoid %f : f32[]\n  %a = mul %S, %d : f32[3, 4]\n"
      "  %k1 = reshape %k {shape = [3, 1]} : f32[3, 1]\n"
      "  %rk = einsum %k, %S {spec = \"a,ab->b\"} : f32[4]\n  %ek = sub %v, %rk : f32[4]\n"
      "  %u = mul %k1, %ek : f32[3, 4]\n"
      "  %l1 = reshape %l {shape = [3, 1]} : f32[3, 1]\n"
      "  %rl = einsum %l, %S {spec = \"a,ab->b\"} : f32[4]\n  %el = sub %w, %rl : f32[4]\n"
      "  %z = mul %l1, %el : f32[3, 4]\n"
      "  %b = add %a, %u : f32[3, 4]\n  %S2 = add %b, %z : f32[3, 4]\n"
      "  %y = einsum %q, %S2 {spec = \"a,ab->b\"} : f32[4]\n  return %S2, %y\n}\n",
      0, 1e-11);
}

static const char *const mlstm_text =
    "entry func @f(%q: f32[B, N=5, 3], %k: f32[B, N=5, 3], %v: f32[B, N=5, 4], %i: f32[B, N=5], "
    "%f: f32[B, N=5]) -> "
    "(f32[B, N=5, 4]) {\n"
    "  %y, %C, %n, %m = recurrence @s(%q, %k, %v, %i, %f) {states = 2, inits = 0, seqs = 5} : "
    "f32[B, N=5, 4], f32[B, "
    "3, 4], f32[B, 3], f32[B]\n"
    "  return %y\n}\n"
    "step @s(%C: f32[3, 4], %n: f32[3], %q: f32[3], %k: f32[3], %v: f32[4], %i: f32[], %f: f32[]) "
    "-> (f32[3, 4], "
    "f32[3], f32[4]) {\n"
    "  %lf = log_sigmoid %f : f32[]\n  %d = exp %lf : f32[]\n  %ei = exp %i : f32[]\n"
    "  %dC = mul %d, %C : f32[3, 4]\n  %k1 = reshape %k {shape = [3, 1]} : f32[3, 1]\n  %kv = mul "
    "%k1, %v : f32[3, 4]\n"
    "  %u = mul %ei, %kv : f32[3, 4]\n  %C2 = add %dC, %u : f32[3, 4]\n"
    "  %dn = mul %d, %n : f32[3]\n  %un = mul %ei, %k : f32[3]\n  %n2 = add %dn, %un : f32[3]\n"
    "  %num = einsum %q, %C2 {spec = \"k,kv->v\"} : f32[4]\n  %z = einsum %q, %n2 {spec = "
    "\"k,k->\"} : f32[]\n"
    "  %az = abs %z : f32[]\n  %one = constant {value = 1} : f32[]\n  %den = max %az, %one : "
    "f32[]\n"
    "  %y = div %num, %den : f32[4]\n  return %C2, %n2, %y\n}\n";

TEST(matrix_and_normalizer_are_one_scan) {
  vtb_module *m = parse_ir(mlstm_text);
  if (!m || !run_passes(m, "recurrence,simplify,cse,dce")) return;
  CHECK(count_ops(m, VTB_OP_linscan) == 1);
  CHECK(count_ops(m, VTB_OP_maxplus) == 1);
  for (vtb_inst *inst = m->entry->first; inst; inst = inst->next) {
    if (inst->op != VTB_OP_linscan) continue;
    CHECK_STR(vtb_attr_str(inst, "class", ""), "scalar");
    CHECK(vtb_attr_int(inst, "normalizer", 0) == 1);
  }
  CHECK(vtb_module_find(m, "s") == NULL); /* the step function went with its recurrence */
  vtb_module_free(m);
}

/* Interpreted as it is and lowered, on random arguments; returns the lowered module for further
 * checks. */
static vtb_module *check_text(const char *text, double tolerance) {
  vtb_module *before = parse_ir(text), *m = parse_ir(text);
  if (!before || !m || !run_passes(m, "recurrence,simplify,cse,dce")) return NULL;
  for (unsigned long long seed = 1; seed < 4; seed++) {
    double e = compare_modules(before, m, seed);
    CHECK_MSG(e <= tolerance, "error %g\n%s", e, text);
  }
  vtb_module_free(before);
  return m;
}

static const char *class_of_scan(const vtb_module *m) {
  for (vtb_inst *inst = m->entry->first; inst; inst = inst->next)
    if (inst->op == VTB_OP_linscan) return vtb_attr_str(inst, "class", "");
  return "none";
}

static void check_scan(const char *text, const char *klass, int k, int v) {
  vtb_module *m = check_text(text, 1e-12);
  if (!m) return;
  CHECK(count_ops(m, VTB_OP_linscan) == 1);
  CHECK_STR(class_of_scan(m), klass);
  for (vtb_inst *inst = m->entry->first; inst; inst = inst->next) {
    if (inst->op != VTB_OP_linscan) continue;
    CHECK(inst->operands[0]->type.dim[3].size == k && inst->operands[2]->type.dim[3].size == v);
  }
  vtb_module_free(m);
}

/* h = exp(delta * A) * h + (delta * u) * B; yield dot(h, C): the state axis N is contracted, the
 * channels E are values. */
TEST(selective_scan_has_steps_and_rates) {
  check_scan("entry func @f(%u: f32[B, T=7, E=3], %dt: f32[B, T=7, E=3], %b: f32[B, T=7, S=2], %c: "
             "f32[B, T=7, S=2], %A: "
             "f32[E=3, S=2]) -> (f32[B, T=7, E=3]) {\n"
             "%y, %h, %m = recurrence @s(%u, %dt, %b, %c, %A) {states = 1, inits = 0, seqs = 4} : "
             "f32[B, T=7, E=3], f32[B, "
             "E=3, S=2], f32[B]\nreturn %y\n}\n"
             "step @s(%h: f32[3, 2], %u: f32[3], %dt: f32[3], %b: f32[2], %c: f32[2], %A: f32[3, "
             "2]) -> (f32[3, 2], f32[3]) "
             "{\n"
             "%d1 = reshape %dt {shape = [3, 1]} : f32[3, 1]\n%g = mul %d1, %A : f32[3, 2]\n%d = "
             "exp %g : f32[3, 2]\n%a = mul "
             "%d, %h : f32[3, 2]\n"
             "%du = mul %dt, %u : f32[3]\n%w = einsum %du, %b {spec = \"e,s->es\"} : f32[3, "
             "2]\n%h2 = add %a, %w : f32[3, 2]\n"
             "%y = einsum %h2, %c {spec = \"es,s->e\"} : f32[3]\nreturn %h2, %y\n}\n",
             "rates", 2, 3);
}

/* A decay a head that is a parameter, two head axes, and a constant decay a channel. */
TEST(parameters_decay_by_heads) {
  check_scan("entry func @f(%k: f32[B, N=5, 2, 3, K=2], %v: f32[B, N=5, 2, 3, V=4], %g: f32[2, 3]) "
             "-> (f32[B, N=5, 2, "
             "3, V=4]) {\n"
             "%y, %S, %m = recurrence @s(%k, %v, %g) {states = 1, inits = 0, seqs = 2} : f32[B, "
             "N=5, 2, 3, V=4], "
             "f32[B, 2, 3, K=2, V=4], f32[B, 2, 3]\nreturn %y\n}\n"
             "step @s(%S: f32[2, 4], %k: f32[2], %v: f32[4], %g: f32[]) -> (f32[2, 4], f32[4]) "
             "{\n%d = sigmoid %g : "
             "f32[]\n%a = mul %S, %d : f32[2, 4]\n"
             "%kv = einsum %k, %v {spec = \"k,v->kv\"} : f32[2, 4]\n%S2 = add %a, %kv : f32[2, "
             "4]\n%y = einsum %k, %S2 "
             "{spec = \"k,kv->v\"} : f32[4]\n"
             "return %S2, %y\n}\n",
             "constant", 2, 4);
  check_scan("entry func @f(%u: f32[B, N=5, X=3], %g: f32[X=3]) -> (f32[B, N=5, X=3]) {\n"
             "%y, %S, %m = recurrence @s(%u, %g) {states = 1, inits = 0, seqs = 1} : f32[B, N=5, "
             "X=3], f32[B, X=3], "
             "f32[B]\nreturn %y\n}\n"
             "step @s(%S: f32[3], %u: f32[3], %g: f32[3]) -> (f32[3], f32[3]) {\n%d = sigmoid %g : "
             "f32[3]\n%a = mul "
             "%S, %d : f32[3]\n"
             "%S2 = sub %a, %u : f32[3]\nreturn %S2, %S2\n}\n",
             "value", 1, 3);
}

/* A sum of quotients by the state is no contraction of it. */
TEST(a_state_that_divides_is_read_whole) {
  vtb_module *m = check_text(
      "entry func @f(%u: f32[B, N=8, K=3], %v: f32[B, N=8, V=2], %g: f32[B, N=8]) "
      "-> (f32[B, N=8, V=2]) {\n"
      "%y, %S, %m = recurrence @s(%u, %v, %g) {states = 1, inits = 0, seqs = 3} : "
      "f32[B, N=8, V=2], f32[B, K=3, V=2], f32[B]\nreturn %y\n}\n"
      "step @s(%S: f32[3, 2], %u: f32[3], %v: f32[2], %g: f32[]) -> (f32[3, 2], f32[2]) {\n"
      "%d = sigmoid %g : f32[]\n%a = mul %S, %d : f32[3, 2]\n"
      "%k = sigmoid %u : f32[3]\n%w = sigmoid %v : f32[2]\n"
      "%o = einsum %k, %w {spec = \"k,v->kv\"} : f32[3, 2]\n%S2 = add %a, %o : f32[3, 2]\n"
      "%c = reshape %u {shape = [3, 1]} : f32[3, 1]\n%q = div %c, %S2 : f32[3, 2]\n"
      "%y = reduce_sum %q {axes = [0]} : f32[2]\nreturn %S2, %y\n}\n",
      1e-9);
  if (m) vtb_module_free(m);
}

TEST(a_selected_reset_is_a_decay) {
  vtb_module *m = check_text(
      "entry func @f(%u: f32[B, N=8, X=3], %r: f32[B, N=8]) -> (f32[B, N=8, X=3]) {\n"
      "%y, %S, %m = recurrence @s(%u, %r) {states = 1, inits = 0, seqs = 2} : f32[B, N=8, X=3], "
      "f32[B, X=3], f32[B]\nreturn %y\n}\n"
      "step @s(%S: f32[3], %u: f32[3], %r: f32[]) -> (f32[3], f32[3]) {\n%z = constant {value = "
      "0} : f32[]\n%c = gt %r, %z : f32[]\n"
      "%a = add %S, %u : f32[3]\n%S2 = select %c, %a, %u : f32[3]\nreturn %S2, %S2\n}\n",
      1e-12);
  if (!m) return;
  CHECK_STR(class_of_scan(m), "scalar");
  vtb_module_free(m);
}

/* A random expression of the state s (degree 1), the input u, the scale, its logarithm, and
 * constants. */
static char *random_readout(unsigned long long *rng) {
  static const char *const unary[] = {"neg",    "abs",  "relu",         "tanh",
                                      "square", "sign", "stop_gradient"};
  static const char *const binary[] = {"add", "sub", "mul", "max", "min", "gt", "ge"};
  vtb_strbuf s = {0};
  vtb_strbuf_puts(&s, "entry func @f(%u: f32[B, N=6, 2], %i: f32[B, N=6, 2], %f: f32[B, N=6, 2]) "
                      "-> (f32[B, N=6, 2]) {\n"
                      "%y, %S, %m = recurrence @s(%u, %i, %f) {states = 1, inits = 0, seqs = 3} : "
                      "f32[B, N=6, 2], f32[B, "
                      "2], f32[B, 2]\nreturn %y\n}\n"
                      "step @s(%S: f32[], %u: f32[], %i: f32[], %f: f32[]) -> (f32[], f32[]) "
                      "{\n%lf = log_sigmoid %f : "
                      "f32[]\n%d = exp %lf : f32[]\n"
                      "%a = mul %d, %S : f32[]\n%four = constant {value = 4} : f32[]\n%i4 = mul "
                      "%i, %four : f32[]\n%e = "
                      "exp %i4 : f32[]\n%b = mul %e, %u : f32[]\n%t0 = add %a, %b : f32[]\n"
                      "%t1 = state_scale : f32[]\n%t2 = state_scale {log = 1} : f32[]\n%t3 = "
                      "constant {value = 0.5} : "
                      "f32[]\n%t4 = neg %u : f32[]\n");
  int n = 5 + 1 + below(rng, 6);
  for (int k = 5; k < n; k++) {
    int x = below(rng, k), y = below(rng, k), z = below(rng, k);
    switch (below(rng, 6)) {
    case 0:
      vtb_strbuf_printf(&s, "%%t%d = %s %%t%d : f32[]\n", k, unary[below(rng, 7)], x);
      break;
    case 1:
      vtb_strbuf_printf(&s,
                        "%%b%d = abs %%t%d : f32[]\n%%c%d = add %%b%d, %%t3 : f32[]\n%%t%d = div "
                        "%%t%d, %%c%d : f32[]\n",
                        k, x, k, k, k, y, k);
      break;
    case 2:
      vtb_strbuf_printf(&s,
                        "%%b%d = square %%t%d : f32[]\n%%c%d = add %%b%d, %%t1 : f32[]\n%%t%d = %s "
                        "%%c%d : f32[]\n",
                        k, x, k, k, k,
                        below(rng, 2)   ? "log"
                        : below(rng, 2) ? "sqrt"
                                        : "rsqrt",
                        k);
      break;
    case 3:
      vtb_strbuf_printf(
          &s, "%%c%d = gt %%t%d, %%t%d : f32[]\n%%t%d = select %%c%d, %%t%d, %%t%d : f32[]\n", k, x,
          y, k, k, y, z);
      break;
    default:
      vtb_strbuf_printf(&s, "%%t%d = %s %%t%d, %%t%d : f32[]\n", k, binary[below(rng, 7)], x, y);
      break;
    }
  }
  vtb_strbuf_printf(&s, "return %%t0, %%t%d\n}\n", n - 1);
  return s.at;
}

TEST(readouts_of_any_degree_are_true_values) {
  unsigned long long rng = 0xda3e39cb94b95bdbull;
  for (int i = 0; i < 200; i++) {
    char *text = random_readout(&rng);
    vtb_module *m = check_text(text, 1e-9);
    if (m) vtb_module_free(m);
    free(text);
  }
}

/* Without a gain there is nothing to stabilise; the decay is used as it is. */
TEST(no_gain_no_scale) {
  config c = {.rank = 2, .klass = VTB_DECAY_SCALAR, .head_axes = 1, .tokens = 6, .k = 2, .v = 3};
  char *text = write_module(&c);
  vtb_module *m = parse_ir(text);
  if (m && run_passes(m, "recurrence,simplify,cse,dce")) {
    CHECK(count_ops(m, VTB_OP_maxplus) == 0);
    CHECK(count_ops(m, VTB_OP_linscan) == 1);
  }
  if (m) vtb_module_free(m);
  free(text);
}

static void check_class(const char *klass, vtb_decay_class of, int rank) {
  config c = {.rank = rank, .klass = of, .tokens = 4, .k = 2, .v = 3};
  char *text = write_module(&c);
  vtb_module *m = parse_ir(text);
  if (m && run_passes(m, "recurrence,dce"))
    for (vtb_inst *inst = m->entry->first; inst; inst = inst->next)
      if (inst->op == VTB_OP_linscan) CHECK_STR(vtb_attr_str(inst, "class", ""), klass);
  if (m) vtb_module_free(m);
  free(text);
}

TEST(the_class_is_the_smallest_axis_set) {
  for (int k = 0; k <= VTB_DECAY_FULL; k++)
    check_class(vtb_decay_class_name((vtb_decay_class)k), (vtb_decay_class)k, 2);
  check_class("value", VTB_DECAY_FULL, 1);
  check_class("scalar", VTB_DECAY_FULL, 0);
}

/* One state, one input u and one result; `update` computes %s2. */
static vtb_module *one_state(const char *update) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s,
                    "entry func @f(%%u: f32[B, N=4, 3], %%i: f32[B, N=4, 3]) -> (f32[B, N=4, 3]) "
                    "{\n  %%y, %%sf, %%m = recurrence "
                    "@s(%%u, %%i) {states = 1, "
                    "inits = 0, seqs = 2, mode = \"parallel\"} : f32[B, N=4, 3], f32[B, 3], "
                    "f32[B]\n  return %%y\n}\n"
                    "step @s(%%s: f32[3], %%u: f32[3], %%i: f32[3]) -> (f32[3], f32[3]) {\n%s\n  "
                    "return %%s2, %%s2\n}\n",
                    update);
  vtb_module *m = parse_ir(s.at);
  return m; /* the text belongs to the source of the module's spans */
}

static void check_refused(int code, const char *what, vtb_module *m) {
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_pass_context c = {.module = m, .diags = &d};
  if (!m) return;
  CHECK(vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = "recurrence"}, &err) ==
        VTB_E_INPUT);
  CHECK_MSG(d.n_errors == 1 && d.list.n > 0 && d.list.at[0].code == code, "code %d, want %d",
            d.list.n ? d.list.at[0].code : 0, code);
  CHECK_MSG(d.list.n && strstr(d.list.at[0].text, what), "\"%s\" is not in \"%s\"", what,
            d.list.n ? d.list.at[0].text : "");
  bool helps = false;
  for (size_t i = 1; i < d.list.n; i++) helps = helps || d.list.at[i].severity == VTB_SEV_HELP;
  CHECK(helps);
  vtb_diags_free(&d);
  vtb_module_free(m);
}

TEST(what_is_not_linear_is_named) {
  check_refused(3001, "multiplies two states",
                one_state("  %p = mul %s, %s : f32[3]\n  %s2 = add %p, %u : f32[3]"));
  check_refused(3001, "applies tanh to a state",
                one_state("  %t = tanh %s : f32[3]\n  %s2 = add %t, %u : f32[3]"));
  check_refused(3001, "divides by a state", one_state("  %s2 = div %u, %s : f32[3]"));
  check_refused(3001, "decides by a state", one_state("  %s2 = select %s, %u, %i : f32[3]"));
}

TEST(what_is_not_diagonal_is_named) {
  check_refused(
      3002, "reads the state by a matrix",
      one_state(
          "  %w = iota {axis = 0} : f32[3]\n  %k = reshape %w {shape = [3, 1]} : f32[3, 1]\n"
          "  %A = mul %k, %w : f32[3, 3]\n  %t = einsum %A, %s {spec = \"ab,b->a\"} : f32[3]\n"
          "  %s2 = add %t, %u : f32[3]"));
  check_refused(
      3002, "moves the state's elements",
      one_state("  %z = slice %s {axis = 0, start = 1, limit = 2} : f32[1]\n  %t = reduce_sum %z "
                "{axes = [0]} : f32[]\n  %s2 = add %t, %u : f32[3]"));
}

/* Doubling forty times is two to the forty terms. */
TEST(updates_that_explode_are_refused) {
  vtb_strbuf s = {0};
  vtb_strbuf_puts(&s, "  %t0 = add %s, %u : f32[3]\n");
  for (int k = 1; k <= 40; k++)
    vtb_strbuf_printf(&s, "  %%t%d = add %%t%d, %%t%d : f32[3]\n", k, k - 1, k - 1);
  vtb_strbuf_puts(&s, "  %s2 = add %t40, %u : f32[3]");
  check_refused(3005, "too many terms", one_state(s.at));
  vtb_strbuf_free(&s);
  vtb_strbuf_puts(&s, "  %t0 = sigmoid %u : f32[3]\n");
  for (int k = 1; k <= 40; k++)
    vtb_strbuf_printf(&s, "  %%t%d = mul %%t%d, %%t%d : f32[3]\n", k, k - 1, k - 1);
  vtb_strbuf_puts(&s, "  %a = mul %s, %t40 : f32[3]\n  %s2 = add %a, %t40 : f32[3]");
  vtb_module *m = one_state(s.at);
  if (m && run_passes(m, "recurrence")) CHECK(count_ops(m, VTB_OP_linscan) == 1);
  if (m) vtb_module_free(m);
  vtb_strbuf_free(&s);
}

/* A feature of the keys that is a sum with a bounded exponential stays one factor: one scan of
 * matrix and normalizer. */
TEST(features_that_are_sums_stay_factors) {
  static const char *const before =
      "entry func @f(%q: f32[B, N=5, K=2], %k: f32[B, N=5, K=2], %v: f32[B, N=5, V=3]) -> (f32[B, "
      "N=5, V=3]) {\n"
      "  %y, %Sf, %nf, %m = recurrence @s(%q, %k, %v) {states = 2, inits = 0, seqs = 3} : f32[B, "
      "N=5, V=3], f32[B, "
      "K=2, "
      "V=3], f32[B, K=2], f32[B]\n  return %y\n}\n"
      "step @s(%S: f32[2, 3], %n: f32[2], %q: f32[2], %k: f32[2], %v: f32[3]) -> (f32[2, 3], "
      "f32[2], f32[3]) {\n"
      "  %z = constant {value = 0} : f32[]\n  %a = max %k, %z : f32[2]\n  %b = min %k, %z : "
      "f32[2]\n"
      "  %c = exp %b : f32[2]\n  %p = add %a, %c : f32[2]\n"
      "  %kv = einsum %p, %v {spec = \"k,v->kv\"} : f32[2, 3]\n  %S2 = add %S, %kv : f32[2, 3]\n"
      "  %n2 = add %n, %p : f32[2]\n  %y = einsum %q, %S2 {spec = \"k,kv->v\"} : f32[3]\n"
      "  %w = einsum %q, %n2 {spec = \"k,k->\"} : f32[]\n  %r = div %y, %w : f32[3]\n  return %S2, "
      "%n2, %r\n}\n";
  static const char *const after =
      "entry func @f(%q: f32[B, N=5, K=2], %k: f32[B, N=5, K=2], %v: f32[B, N=5, V=3]) -> (f32[B, "
      "N=5, V=3]) {\n"
      "  %q.1 = reshape %q {shape = [-1, 5, 1, 2]} : f32[B, N=5, h=1, K=2]\n"
      "  %k.1 = reshape %k {shape = [-1, 5, 1, 2]} : f32[B, N=5, h=1, K=2]\n"
      "  %z.1 = constant {value = 0} : f32[1]\n"
      "  %a = max %k.1, %z.1 : f32[B, N=5, h=1, K=2]\n"
      "  %b = min %k.1, %z.1 : f32[B, N=5, h=1, K=2]\n"
      "  %c = exp %b : f32[B, N=5, h=1, K=2]\n"
      "  %p = add %a, %c : f32[B, N=5, h=1, K=2]\n"
      "  %v.1 = reshape %v {shape = [-1, 5, 1, 3]} : f32[B, N=5, h=1, V=3]\n"
      "  %const.1 = constant {value = 1} : f32[h=1]\n"
      "  %S.read, %Sf, %n.read, %nf = linscan %q.1, %p, %v.1, %const.1 {class = \"constant\", "
      "normalizer "
      "= 1} : f32[B, N=5, "
      "h=1, V=3], f32[B, h=1, K=2, V=3], f32[B, N=5, h=1], f32[B, h=1, K=2]\n"
      "  %n.read.1 = reshape %n.read {shape = [-1, 5, 1, 1]} : f32[B, N=5, h=1, 1]\n"
      "  %r = div %S.read, %n.read.1 : f32[B, N=5, h=1, V=3]\n"
      "  %y = reshape %r {shape = [-1, 5, 3]} : f32[B, N=5, V=3]\n"
      "  return %y\n"
      "}\n";
  CHECK_PASS("recurrence,simplify,cse,dce", before, after);
}

/* A gain that cannot grow needs no scale; another one has one that varies with it. */
TEST(gains_along_a_state_axis_have_a_scale_along_it) {
  static const char *const logs[] = {"%l = neg %i : f32[3]", "%l = log_sigmoid %i : f32[3]"};
  for (int k = 0; k < 2; k++) {
    char body[400];
    snprintf(
        body, sizeof body,
        "  %s\n  %%e = exp %%l : f32[3]\n  %%t = mul %%e, %%u : f32[3]\n  %%s2 = add %%s, %%t : "
        "f32[3]",
        logs[k]);
    vtb_module *m = one_state(body);
    vtb_module *before = m ? vtb_module_clone(m) : NULL;
    if (m && run_passes(m, "recurrence,simplify,dce")) {
      CHECK(compare_modules(before, m, 5) <= 1e-12);
      CHECK(count_ops(m, VTB_OP_maxplus) == 1 - k);
    }
    if (m) vtb_module_free(before), vtb_module_free(m);
  }
}

/* exp(g) with g made so that it is at most 0, by the rows of its ops: constant signs, and what
 * moves one way from zero. */
TEST(bounded_gains_are_seen_through_rows) {
  static const char *const at_most_0[] = {
      "%p = softplus %i : f32[3]\n  %h = tanh %p : f32[3]\n  %l = neg %h : f32[3]",
      ("%p = square %i : f32[3]\n  %h = abs %i : f32[3]\n  %z = neg %p : f32[3]\n"
       "  %l = sub %z, %h : f32[3]"),
      "%p = relu %i : f32[3]\n  %h = log_sigmoid %i : f32[3]\n  %l = mul %p, %h : f32[3]",
      "%p = log_sigmoid %i : f32[3]\n  %l = min %i, %p : f32[3]"};
  static const char *const open[] = {"%l = tanh %i : f32[3]",
                                     "%p = softplus %i : f32[3]\n  %l = sub %i, %p : f32[3]",
                                     "%p = log_sigmoid %i : f32[3]\n  %l = max %i, %p : f32[3]"};
  for (int k = 0; k < 7; k++) {
    char body[400];
    snprintf(body, sizeof body,
             "  %s\n  %%e = exp %%l : f32[3]\n  %%t = mul %%e, %%u : f32[3]\n"
             "  %%s2 = add %%s, %%t : f32[3]",
             k < 4 ? at_most_0[k] : open[k - 4]);
    vtb_module *m = one_state(body);
    CHECK_MSG(m && run_passes(m, "recurrence,simplify,dce"), "%s", body);
    CHECK_MSG(count_ops(m, VTB_OP_maxplus) == (k >= 4), "%s", body);
    vtb_module_free(m);
  }
}

static const char *const two_states =
    "entry func @f(%%u: f32[B, N=6], %%a: f32[B, N=6]) -> (f32[B, N=6]) {\n  %%y, %%x1, %%x2, %%m "
    "= recurrence @s(%%u, "
    "%%a) {states = 2, "
    "inits = 0, seqs = 2, mode = \"parallel\"} : f32[B, N=6], f32[B], f32[B], f32[B]\n  return "
    "%%y\n}\n"
    "step @s(%%p: f32[], %%q: f32[], %%u: f32[], %%a: f32[]) -> (f32[], f32[], f32[]) {\n  %%d = "
    "sigmoid %%a : f32[]\n"
    "  %%p1 = mul %%d, %%p : f32[]\n  %%p2 = add %%p1, %%%s : f32[]\n  %%q1 = mul %%d, %%q : "
    "f32[]\n  %%q2 = add %%q1, "
    "%%%s : f32[]\n"
    "  return %%p2, %%q2, %%q2\n}\n";

static vtb_module *states_that_read(const char *p_reads, const char *q_reads) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, two_states, p_reads, q_reads);
  return parse_ir(s.at);
}

TEST(a_state_may_read_another_one_way) {
  for (int old = 0; old < 2; old++) {
    vtb_module *m = states_that_read("u", old ? "p" : "p2");
    vtb_module *before = m ? vtb_module_clone(m) : NULL;
    if (m && run_passes(m, "recurrence,simplify,cse,dce")) {
      CHECK(count_ops(m, VTB_OP_linscan) == 2);
      CHECK(compare_modules(before, m, 6) <= 1e-12);
    }
    if (m) vtb_module_free(before), vtb_module_free(m);
  }
  check_refused(3003, "read each other", states_that_read("q", "p"));
}

int main(void) {
  RUN(random_recurrences_equal_their_steps);
  RUN(long_recurrences_equal_their_steps);
  RUN(steep_gains_stay_finite);
  RUN(vanishing_gains_stay_finite);
  RUN(the_last_state_is_of_all_terms);
  RUN(the_last_state_is_of_all_corrections);
  RUN(matrix_and_normalizer_are_one_scan);
  RUN(selective_scan_has_steps_and_rates);
  RUN(parameters_decay_by_heads);
  RUN(a_state_that_divides_is_read_whole);
  RUN(a_selected_reset_is_a_decay);
  RUN(readouts_of_any_degree_are_true_values);
  RUN(no_gain_no_scale);
  RUN(the_class_is_the_smallest_axis_set);
  RUN(what_is_not_linear_is_named);
  RUN(what_is_not_diagonal_is_named);
  RUN(updates_that_explode_are_refused);
  RUN(features_that_are_sums_stay_factors);
  RUN(gains_along_a_state_axis_have_a_scale_along_it);
  RUN(bounded_gains_are_seen_through_rows);
  RUN(a_state_may_read_another_one_way);
  return test_done();
}
