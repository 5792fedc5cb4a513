/* Recurrence lowering: random step functions of every class, folded step by step by the interpreter, equal the lowered form in every mode. */
#include "tests/passes/pass_check.h"

#include "ir/recurrence.h"

typedef struct config {
  int rank;            /* of the main state: 0, 1, 2 */
  vtb_decay_class klass;
  int head_axes;       /* 0, 1, 2 */
  int tokens, k, v;
  int decay_form;      /* how the decay is written */
  bool gain, normalizer, reads_scale, read_whole, read_old, second_gain, transposed;
  int inits;           /* 0, states, states + 1 */
  const char *path;    /* or NULL */
  double gain_size;
} config;

static const char *head_dims(const config *c) { return c->head_axes == 0 ? "" : c->head_axes == 1 ? ", h=3" : ", h=2, g=2"; }

static const char *state_dims(const config *c, char *buf) {
  if (c->rank == 2 && c->transposed) sprintf(buf, "%d, %d", c->v, c->k);
  else if (c->rank == 2) sprintf(buf, "%d, %d", c->k, c->v);
  else if (c->rank == 1) sprintf(buf, "%d", c->v);
  else buf[0] = '\0';
  return buf;
}

/* Shape of the decay input within the state's frame. */
static const char *decay_dims(const config *c, char *buf) {
  buf[0] = '\0';
  if (c->rank == 2) {
    bool key = c->klass == VTB_DECAY_KEY || c->klass == VTB_DECAY_FULL, value = c->klass == VTB_DECAY_VALUE || c->klass == VTB_DECAY_FULL;
    if (!key && !value) return buf;
    if (c->transposed) sprintf(buf, "%d, %d", value ? c->v : 1, key ? c->k : 1);
    else sprintf(buf, "%d, %d", key ? c->k : 1, value ? c->v : 1);
  } else if (c->rank == 1 && c->klass >= VTB_DECAY_KEY) {
    sprintf(buf, "%d", c->v);
  }
  return buf;
}

/* %d, the decay itself, from the raw input %f. */
static void put_decay(vtb_strbuf *s, const config *c, const char *dims) {
  if (c->decay_form == 0) vtb_strbuf_printf(s, "%%lf = log_sigmoid %%f : f32[%s]\n%%d = exp %%lf : f32[%s]\n", dims, dims);
  if (c->decay_form == 1) vtb_strbuf_printf(s, "%%d = sigmoid %%f : f32[%s]\n", dims);
  if (c->decay_form == 2)
    vtb_strbuf_printf(s, "%%sp = softplus %%f : f32[%s]\n%%np = neg %%sp : f32[%s]\n%%e = exp %%np : f32[%s]\n%%half = constant {value = 0.9} : "
                         "f32[]\n%%d = mul %%half, %%e : f32[%s]\n", dims, dims, dims, dims);
}

static void put_update(vtb_strbuf *s, const config *c, const char *x) {
  char e[40];
  sprintf(e, "f32[%s]", x);
  vtb_strbuf_printf(s, "%%a = mul %%S, %%d : %s\n", e);
  if (c->rank == 2 && c->transposed)
    vtb_strbuf_printf(s, "%%v1 = reshape %%v {shape = [%d, 1]} : f32[%d, 1]\n%%u = mul %%v1, %%k : %s\n", c->v, c->v, e);
  else if (c->rank == 2)
    vtb_strbuf_printf(s, "%%k1 = reshape %%k {shape = [%d, 1]} : f32[%d, 1]\n%%u = mul %%k1, %%v : %s\n", c->k, c->k, e);
  else
    vtb_strbuf_printf(s, "%%u = mul %%v, %%w : %s\n", e);
  if (c->gain) vtb_strbuf_printf(s, "%%ei = exp %%i : f32[]\n%%ui = mul %%ei, %%u : %s\n", e);
  const char *u = c->gain ? "ui" : "u";
  if (c->second_gain) {
    vtb_strbuf_printf(s, "%%i2 = mul %%i, %%w : f32[]\n%%ej = exp %%i2 : f32[]\n%%uj = mul %%ej, %%u : %s\n%%us = sub %%%s, %%uj : %s\n", e, u, e);
    u = "us";
  }
  vtb_strbuf_printf(s, "%%S2 = add %%a, %%%s : %s\n", u, e);
  if (!c->normalizer) return;
  /* The decay of n: the same factor, on the key axis if it has one. */
  const char *d = "d";
  if (c->klass == VTB_DECAY_KEY) {
    vtb_strbuf_printf(s, "%%d1 = reshape %%d {shape = [%d]} : f32[%d]\n", c->k, c->k);
    d = "d1";
  }
  vtb_strbuf_printf(s, "%%b = mul %%%s, %%n : f32[%d]\n", d, c->k);
  if (c->gain) vtb_strbuf_printf(s, "%%kn = mul %%k, %%ei : f32[%d]\n", c->k);
  vtb_strbuf_printf(s, "%%n2 = add %%b, %%%s : f32[%d]\n", c->gain ? "kn" : "k", c->k);
}

/* %y [V], or [] for a scalar state. */
static void put_yield(vtb_strbuf *s, const config *c) {
  const char *from = c->read_old ? "S" : "S2", *e = c->rank == 0 ? "" : "V";
  char y[20];
  sprintf(y, c->rank ? "f32[%d]" : "f32[]", c->v);
  (void)e;
  if (c->rank == 2 && c->transposed)
    vtb_strbuf_printf(s, "%%p = mul %%%s, %%q : f32[%d, %d]\n%%y0 = reduce_sum %%p {axes = [1]} : %s\n", from, c->v, c->k, y);
  else if (c->rank == 2 && c->read_whole)
    vtb_strbuf_printf(s, "%%ab = abs %%%s : f32[%d, %d]\n%%y0 = reduce_sum %%ab {axes = [0]} : %s\n", from, c->k, c->v, y);
  else if (c->rank == 2)
    vtb_strbuf_printf(s, "%%y0 = einsum %%q, %%%s {spec = \"a,ab->b\"} : %s\n", from, y);
  else
    vtb_strbuf_printf(s, "%%y0 = mul %%%s, %%w : %s\n", from, y);
  if (!c->normalizer) {
    vtb_strbuf_printf(s, "%%y = add %%y0, %%v : %s\n", y);
    return;
  }
  vtb_strbuf_printf(s, "%%one = constant {value = 1.0} : f32[]\n%%z = einsum %%q, %%%s {spec = \"k,k->\"} : f32[]\n%%az = abs %%z : f32[]\n"
                       "%%den0 = max %%az, %%one : f32[]\n", c->read_old ? "n" : "n2");
  if (c->reads_scale)
    vtb_strbuf_printf(s, "%%eps = constant {value = 0.125} : f32[]\n%%sc = state_scale : f32[]\n%%es = mul %%eps, %%sc : f32[]\n"
                         "%%den = add %%den0, %%es : f32[]\n");
  vtb_strbuf_printf(s, "%%y = div %%y0, %%%s : %s\n", c->reads_scale ? "den" : "den0", y);
}

static char *write_module(const config *c) {
  vtb_strbuf s = {0};
  char x[32], d[32], dc[40], yt[40], path[80] = "", h[24];
  snprintf(h, sizeof h, "%s", head_dims(c));
  state_dims(c, x);
  decay_dims(c, d);
  const char *xs = *x ? ", " : "";
  bool constant = c->klass == VTB_DECAY_CONSTANT;
  int n_states = 1 + c->normalizer;
  if (c->path) sprintf(path, ", path = \"%s\"", c->path);
  if (constant) sprintf(dc, "f32[%s]", h[0] ? h + 2 : "");
  else sprintf(dc, "f32[B, N=%d%s%s%s]", c->tokens, h, *d ? ", " : "", d);
  sprintf(yt, c->rank ? "f32[B, N=%d%s, %d]" : "f32[B, N=%d%s]", c->tokens, h, c->v);
  char bn[60], vs[60], finals[200], inits_args[200] = "", inits_ops[60] = "", states[200], news[60];
  sprintf(bn, "f32[B, N=%d%s", c->tokens, h);
  sprintf(vs, c->rank ? "%s, %d]" : "%s]", bn, c->v);
  int at = sprintf(finals, "f32[B%s%s%s]", h, xs, x);
  if (c->normalizer) at += sprintf(finals + at, ", f32[B%s, %d]", h, c->k);
  sprintf(finals + at, ", f32[B%s]", h);
  if (c->inits) {
    at = sprintf(inits_args, "%%S0: f32[B%s%s%s], ", h, xs, x);
    if (c->normalizer) at += sprintf(inits_args + at, "%%n0: f32[B%s, %d], ", h, c->k);
    if (c->inits > n_states) sprintf(inits_args + at, "%%m0: f32[B%s], ", h);
    sprintf(inits_ops, "%%S0, %s%s", c->normalizer ? "%n0, " : "", c->inits > n_states ? "%m0, " : "");
  }
  vtb_strbuf_printf(&s, "entry func @f(%s%%q: %s, %d], %%k: %s, %d], %%v: %s, %%i: %s], %s%s%s%%w: f32[]) -> (%s, %s) {\n", inits_args, bn, c->k, bn,
                    c->k, vs, bn, "%f: ", dc, ", ", yt, finals);
  vtb_strbuf_printf(&s, "%%y, %%Sf, %s%%mf = recurrence @step(%s%%q, %%k, %%v, %%i, %%f, %%w) {states = %d, inits = %d, seqs = %d%s} : %s, %s\n",
                    c->normalizer ? "%nf, " : "", inits_ops, n_states, c->inits, constant ? 4 : 5, path, yt, finals);
  vtb_strbuf_printf(&s, "return %%y, %%Sf, %s%%mf\n}\n", c->normalizer ? "%nf, " : "");
  at = sprintf(states, "%%S: f32[%s], ", x);
  if (c->normalizer) sprintf(states + at, "%%n: f32[%d], ", c->k);
  at = sprintf(news, "f32[%s], ", x);
  if (c->normalizer) sprintf(news + at, "f32[%d], ", c->k);
  char v_step[20], dstep[32];
  sprintf(v_step, c->rank ? "f32[%d]" : "f32[]", c->v);
  sprintf(dstep, "%s", constant ? "" : d);
  vtb_strbuf_printf(&s, "step @step(%s%%q: f32[%d], %%k: f32[%d], %%v: %s, %%i: f32[], %%f: f32[%s], %%w: f32[]) -> (%s%s) {\n", states, c->k, c->k,
                    v_step, dstep, news, v_step);
  put_decay(&s, c, dstep);
  put_update(&s, c, x);
  put_yield(&s, c);
  vtb_strbuf_printf(&s, "return %%S2, %s%%y\n}\n", c->normalizer ? "%n2, " : "");
  return s.at;
}

static void scale_gains(vtb_func *f, vtb_tensor *args, double size) {
  for (int i = 0; i < f->n_args; i++)
    if (vtb_streq(f->args[i]->name, "i"))
      for (int64_t k = 0; k < vtb_type_count(&args[i].type); k++) args[i].data[k] *= size;
}

/* States times e^m: what two runs must agree on whatever scale each reports. */
static void unscale(vtb_tensor *results, int n) {
  const vtb_tensor *m = &results[n - 1];
  int64_t heads = vtb_type_count(&m->type);
  for (int i = 1; i < n - 1; i++) {
    int64_t each = vtb_type_count(&results[i].type) / heads;
    for (int64_t k = 0; k < heads * each; k++) results[i].data[k] *= exp(m->data[k / each]);
  }
}

static const struct mode {
  const char *name;
  int64_t chunk;
} modes[] = {{"recurrent", 0}, {"parallel", 0}, {"chunkwise", 1}, {"chunkwise", 7}, {"chunkwise", 64}};

static void check_config(const config *c, unsigned long long seed) {
  char *text = write_module(c);
  vtb_module *before = parse_ir(text);
  if (!before) return;
  vtb_tensor *args = random_args(before->entry, 2, seed);
  scale_gains(before->entry, args, c->gain_size);
  vtb_tensor *want = interpret(before, args, 2);
  int n = before->entry->n_returns;
  if (want) unscale(want, n);
  for (size_t k = 0; want && k < sizeof modes / sizeof *modes; k++) {
    vtb_module *m = vtb_module_clone(before);
    vtb_pass_context pc = {.module = m, .batch = 2, .mode = modes[k].name, .chunk = modes[k].chunk};
    bool good = run_passes_in(&pc, k % 2 ? "recurrence,simplify,cse,dce,bind,select_mode" : "recurrence,select_mode");
    CHECK(count_ops(m, VTB_OP_recurrence) == 0);
    vtb_tensor *got = good ? interpret(m, args, 2) : NULL;
    if (got) unscale(got, n);
    for (int i = 0; got && i < n - 1; i++) {
      double e = largest_error(&got[i], &want[i]);
      CHECK_MSG(e <= 1e-9, "%s %lld result %d: error %g\n%s", modes[k].name, (long long)modes[k].chunk, i, e, text);
    }
    if (got) free_tensors(got, n);
    vtb_module_free(m);
  }
  if (want) free_tensors(want, n);
  free_tensors(args, before->entry->n_args);
  vtb_module_free(before);
  free(text);
}

static int below(unsigned long long *rng, int n) { return (int)((test_random(rng) + 1) / 2 * n); }

static config random_config(unsigned long long *rng) {
  static const char *const paths[] = {"rows~@1x%d", "cols~@%dx1", "rows.hflip@1x%d"};
  static char path[40];
  config c = {.rank = below(rng, 5) ? 2 : below(rng, 2), .klass = (vtb_decay_class)below(rng, 5), .head_axes = below(rng, 3)};
  c.tokens = below(rng, 3) == 0 ? 1 + below(rng, 3) : 1 + below(rng, 40);
  c.k = 1 + below(rng, 4), c.v = 1 + below(rng, 4);
  c.decay_form = below(rng, 3);
  bool scalar = c.klass <= VTB_DECAY_SCALAR || c.rank == 0;
  c.gain = scalar && below(rng, 3) > 0;
  c.second_gain = c.gain && below(rng, 5) == 0;
  c.gain_size = below(rng, 2) ? 2 : 30;
  c.transposed = c.rank == 2 && below(rng, 4) == 0;
  c.normalizer = c.rank == 2 && below(rng, 2) && (scalar || (c.klass == VTB_DECAY_KEY && !c.transposed));
  c.reads_scale = c.normalizer && c.gain && c.decay_form == 0 && !c.second_gain && below(rng, 2);
  c.read_whole = c.rank == 2 && below(rng, 4) == 0;
  c.read_old = !c.second_gain && below(rng, 5) == 0;
  int states = 1 + c.normalizer;
  c.inits = below(rng, 2) ? 0 : c.gain && below(rng, 2) ? states + 1 : states;
  if (below(rng, 2)) {
    sprintf(path, paths[below(rng, 3)], c.tokens);
    c.path = path;
  }
  return c;
}

TEST(random_recurrences_equal_their_steps) {
  unsigned long long rng = 0x9e3779b97f4a7c15ull;
  for (int i = 0; i < 250; i++) {
    config c = random_config(&rng);
    check_config(&c, rng);
  }
}

/* Gains that rise and fall by 30 a step, and a gain of +-60. */
TEST(steep_gains_stay_finite) {
  config c = {.rank = 2, .klass = VTB_DECAY_SCALAR, .head_axes = 1, .tokens = 9, .k = 3, .v = 2, .gain = true, .normalizer = true, .reads_scale = true, .gain_size = 60};
  for (int form = 0; form < 3; form++) {
    c.decay_form = form, c.reads_scale = form == 0;
    check_config(&c, 77 + (unsigned long long)form);
  }
}

static const char *const mlstm_text =
    "entry func @f(%q: f32[B, N=5, 3], %k: f32[B, N=5, 3], %v: f32[B, N=5, 4], %i: f32[B, N=5], %f: f32[B, N=5]) -> (f32[B, N=5, 4]) {\n"
    "  %y, %C, %n, %m = recurrence @s(%q, %k, %v, %i, %f) {states = 2, inits = 0, seqs = 5} : f32[B, N=5, 4], f32[B, 3, 4], f32[B, 3], f32[B]\n"
    "  return %y\n}\n"
    "step @s(%C: f32[3, 4], %n: f32[3], %q: f32[3], %k: f32[3], %v: f32[4], %i: f32[], %f: f32[]) -> (f32[3, 4], f32[3], f32[4]) {\n"
    "  %lf = log_sigmoid %f : f32[]\n  %d = exp %lf : f32[]\n  %ei = exp %i : f32[]\n"
    "  %dC = mul %d, %C : f32[3, 4]\n  %k1 = reshape %k {shape = [3, 1]} : f32[3, 1]\n  %kv = mul %k1, %v : f32[3, 4]\n"
    "  %u = mul %ei, %kv : f32[3, 4]\n  %C2 = add %dC, %u : f32[3, 4]\n"
    "  %dn = mul %d, %n : f32[3]\n  %un = mul %ei, %k : f32[3]\n  %n2 = add %dn, %un : f32[3]\n"
    "  %num = einsum %q, %C2 {spec = \"k,kv->v\"} : f32[4]\n  %z = einsum %q, %n2 {spec = \"k,k->\"} : f32[]\n"
    "  %az = abs %z : f32[]\n  %one = constant {value = 1} : f32[]\n  %den = max %az, %one : f32[]\n"
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
  for (int k = 0; k <= VTB_DECAY_FULL; k++) check_class(vtb_decay_class_name((vtb_decay_class)k), (vtb_decay_class)k, 2);
  check_class("value", VTB_DECAY_FULL, 1);
  check_class("scalar", VTB_DECAY_FULL, 0);
}

/* One state, one input u and one result; `update` computes %s2. */
static vtb_module *one_state(const char *update) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "entry func @f(%%u: f32[B, N=4, 3], %%i: f32[B, N=4, 3]) -> (f32[B, N=4, 3]) {\n  %%y, %%sf, %%m = recurrence @s(%%u, %%i) {states = 1, "
                        "inits = 0, seqs = 2} : f32[B, N=4, 3], f32[B, 3], f32[B]\n  return %%y\n}\n"
                        "step @s(%%s: f32[3], %%u: f32[3], %%i: f32[3]) -> (f32[3], f32[3]) {\n%s\n  return %%s2, %%s2\n}\n", update);
  vtb_module *m = parse_ir(s.at);
  return m; /* the text belongs to the source of the module's spans */
}

static void check_refused(int code, const char *what, vtb_module *m) {
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_pass_context c = {.module = m, .diags = &d};
  if (!m) return;
  CHECK(vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = "recurrence"}, &err) == VTB_E_INPUT);
  CHECK_MSG(d.n_errors == 1 && d.list.n > 0 && d.list.at[0].code == code, "code %d, want %d", d.list.n ? d.list.at[0].code : 0, code);
  CHECK_MSG(d.list.n && strstr(d.list.at[0].text, what), "\"%s\" is not in \"%s\"", what, d.list.n ? d.list.at[0].text : "");
  CHECK(d.list.n > 1 && d.list.at[1].severity == VTB_SEV_HELP);
  vtb_diags_free(&d);
  vtb_module_free(m);
}

TEST(what_is_not_linear_is_named) {
  check_refused(3001, "multiplies two states", one_state("  %p = mul %s, %s : f32[3]\n  %s2 = add %p, %u : f32[3]"));
  check_refused(3001, "applies tanh to a state", one_state("  %t = tanh %s : f32[3]\n  %s2 = add %t, %u : f32[3]"));
  check_refused(3001, "divides by a state", one_state("  %s2 = div %u, %s : f32[3]"));
  check_refused(3001, "decides by a state", one_state("  %s2 = select %s, %u, %i : f32[3]"));
}

TEST(what_is_not_diagonal_is_named) {
  check_refused(3002, "mixes the state's elements",
                one_state("  %z = reduce_sum %s {axes = [0], keep = 1} : f32[1]\n  %s2 = add %z, %u : f32[3]") ? one_state("  %w = iota {axis = 0} : f32[3]\n  %k = reshape %w {shape = [3, 1]} : f32[3, 1]\n  %A = mul %k, %w : f32[3, 3]\n  %t = einsum %A, %s {spec = \"ab,b->a\"} : f32[3]\n  %s2 = add %t, %u : f32[3]") : NULL);
  check_refused(3002, "not diagonal", one_state("  %z = reduce_sum %s {axes = [0], keep = 1} : f32[1]\n  %s2 = add %z, %u : f32[3]"));
}

TEST(gains_along_a_state_axis_must_be_bounded) {
  check_refused(3004, "its gain varies", one_state("  %e = exp %i : f32[3]\n  %t = mul %e, %u : f32[3]\n  %s2 = add %s, %t : f32[3]"));
  vtb_module *m = one_state("  %l = log_sigmoid %i : f32[3]\n  %e = exp %l : f32[3]\n  %t = mul %e, %u : f32[3]\n  %s2 = add %s, %t : f32[3]");
  vtb_module *before = m ? vtb_module_clone(m) : NULL;
  if (m && run_passes(m, "recurrence,simplify,dce")) CHECK(compare_modules(before, m, 5) <= 1e-12);
  if (m) vtb_module_free(before), vtb_module_free(m);
}

static const char *const two_states =
    "entry func @f(%%u: f32[B, N=6], %%a: f32[B, N=6]) -> (f32[B, N=6]) {\n  %%y, %%x1, %%x2, %%m = recurrence @s(%%u, %%a) {states = 2, "
    "inits = 0, seqs = 2} : f32[B, N=6], f32[B], f32[B], f32[B]\n  return %%y\n}\n"
    "step @s(%%p: f32[], %%q: f32[], %%u: f32[], %%a: f32[]) -> (f32[], f32[], f32[]) {\n  %%d = sigmoid %%a : f32[]\n"
    "  %%p1 = mul %%d, %%p : f32[]\n  %%p2 = add %%p1, %%%s : f32[]\n  %%q1 = mul %%d, %%q : f32[]\n  %%q2 = add %%q1, %%%s : f32[]\n"
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
  RUN(steep_gains_stay_finite);
  RUN(matrix_and_normalizer_are_one_scan);
  RUN(no_gain_no_scale);
  RUN(the_class_is_the_smallest_axis_set);
  RUN(what_is_not_linear_is_named);
  RUN(what_is_not_diagonal_is_named);
  RUN(gains_along_a_state_axis_must_be_bounded);
  RUN(a_state_may_read_another_one_way);
  return test_done();
}
