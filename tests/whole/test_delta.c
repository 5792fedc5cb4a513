/* Corrections of a state by what is read of it: whatever the arrangement of the equations, they are
 * found (class, rank, scans beside them), every form equals the steps, and gradients equal
 * differences. What only looks alike runs step after step, and is told why. */
#include "frontend/lang/lang.h"
#include "ir/ops.h"
#include "tests/passes/grad_check.h"
#include "tests/passes/pass_check.h"

typedef struct arrangement {
  const char *what, *states, *body;
  const char *klass;
  int deltas, rank, scans; /* rank of the last delta; scans: linscans beside them */
} arrangement;

#define S "state S: [K, V]"
static const arrangement arrangements[] = {
    {"the delta rule", S, "S = S + outer(beta * k, v - dot(k, S))\nyield dot(q, S)", "constant", 1,
     1, 1},
    {"a difference of outer products", S,
     "S = S - outer(beta * k, dot(k, S)) + beta * outer(k, v)\nyield dot(q, S)", "constant", 1, 1,
     1},
    {"a convex sum", S, "S = S + beta * (outer(k, v) - outer(k, dot(k, S)))\nyield dot(S, q)",
     "constant", 1, 1, 1},
    {"the decay outside", S,
     "S = exp(g) * (S - outer(beta * k, dot(k, S))) + outer(beta * k, v)\nyield dot(q, S)",
     "scalar", 1, 1, 1},
    {"the decay outside of all", S,
     "S = exp(g) * (S + beta * outer(k, v - dot(k, S)))\nyield dot(q, S)", "scalar", 1, 1, 1},
    {"the decay first", S,
     "A = sigmoid(g) * S\nS = A + outer(k, beta * (v - dot(k, A)))\nyield dot(q, S)", "scalar", 1,
     1, 1},
    {"a decay a key", S, "A = exp(gk) * S\nS = A - outer(beta * k, dot(k, A) - v)\nyield dot(q, S)",
     "key", 1, 1, 1},
    {"a decay a key, outside", S,
     "S = sigmoid(gk) * (S + outer(k, v - beta * dot(S, k)))\nyield dot(q, S)", "key", 1, 1, 1},
    {"a forgetting that is a sum", S,
     "S = S - sigmoid(g) * S - outer(k, dot(beta * k, S)) + outer(k, v)\nyield dot(q, S)", "scalar",
     1, 1, 1},
    {"RWKV-7: what is read goes elsewhere", S,
     "S = exp(gk) * S + outer(b, dot(a, S)) + outer(k, v)\nyield dot(q, S)", "key", 1, 1, 3},
    {"RWKV-7, tidied", S, "S = outer(k, v) - (outer(-b, dot(S, a)) - S * exp(gk))\nyield dot(q, S)",
     "key", 1, 1, 3},
    {"two steps a token", S,
     "A = exp(g) * S\nB = A + outer(beta * k, v - dot(k, A))\n"
     "S = B + outer(b, v2 - dot(b, B))\nyield dot(q, S)",
     "scalar", 1, 2, 2},
    {"three steps a token, two under one key", S,
     "A = S - outer(k, dot(k, S))\nB = A + outer(b, v - dot(b, A))\n"
     "S = B + outer(beta * k, v2 - dot(k, B))\nyield dot(q, S)",
     "constant", 1, 2, 2},
    {"corrections of one state side by side", S,
     "S = sigmoid(g) * S - outer(k, dot(k, S)) - outer(b, dot(b, S)) + outer(a, v)\n"
     "yield dot(q, S)",
     "scalar", 1, 2, 5},
    {"keys normalised in the step", S,
     "n = k / sqrt(dot(k, k) + 1)\nS = S + outer(beta * n, v - dot(n, S))\nyield dot(q, S)",
     "constant", 1, 1, 1},
    {"only while the gate is open", S,
     "S = where(g > 0, S, S + outer(beta * k, v - dot(k, S)))\nyield dot(q, S)", "scalar", 1, 1, 1},
    {"decayed only while the gate is open", S,
     "S = where(beta > 0, S, exp(g) * (S + outer(k, v - dot(k, S))))\nyield dot(q, S)", "scalar", 1,
     1, 1},
    {"read before the update, and the error", S,
     "e = v - dot(k, S)\nS = S + outer(beta * k, e)\nyield e + dot(q, S)", "constant", 1, 1, 2},
    {"read between two steps", S,
     "A = exp(g) * S\nB = A + outer(beta * k, v - dot(k, A))\nS = B + outer(b, v2 - dot(b, B))\n"
     "yield dot(q, B) + dot(a, S)",
     "scalar", 1, 2, 4},
    {"a state of values by keys", "state S: [V, K]",
     "S = S + outer(v - dot(S, k), beta * k)\nyield dot(S, q)", "constant", 1, 1, 1},
    {"a normaliser beside it", S ", n: [K]",
     "S = exp(g) * S + outer(beta * k, v - exp(g) * dot(k, S))\nn = exp(g) * n + k\n"
     "yield dot(q, S) / (2 + square(dot(q, n)))",
     "scalar", 1, 1, 1},
    {"a vector that is corrected", "state n: [K], C: [K, V]",
     "n = n + beta * k * (1 - dot(k, n))\nC = sigmoid(g) * C + outer(k, v)\n"
     "yield dot(q, C) * dot(q, n)",
     "constant", 1, 1, 2},
    {"a cascade: one corrects by what the other says", S ", T: [K, V]",
     "S = exp(g) * S + outer(beta * k, v - exp(g) * dot(k, S))\n"
     "T = T + outer(k, dot(q, S) - dot(k, T))\nyield dot(q, T)",
     "constant", 2, 1, 2},
    {"everything is forgotten but what is read", S,
     "S = outer(b, dot(a, S)) + outer(k, v)\nyield dot(q, S)", "constant", 1, 1, 3},
    {"under a key of ones", S, "S = S - beta * dot(k, S) + outer(k, v)\nyield dot(q, S)",
     "constant", 1, 1, 3},
};
static const struct refusal {
  const char *states, *body, *why;
} refusals[] = {
    {S, "S = S + outer(k, dot(k, S) * dot(a, S))\nyield dot(q, S)",
     "multiplies the state by itself"},
    {S, "S = S - outer(k, dot(k, S)) - outer(dot(S, v), v)\nyield dot(q, S)",
     "reads the state along both of its axes"},
    {S, "S = S + outer(k, v) * dot(dot(k, S), v)\nyield dot(q, S)",
     "reads the state along both of its axes"},
    {S, "S = S + outer(k, tanh(dot(k, S)))\nyield dot(q, S)", "is not linear in the state"},
    {S, "S = S + outer(k, v2 * dot(k, S))\nyield dot(q, S)", "along the axis it is read out"},
    {S, "S = S + outer(exp(beta) * k, v - dot(k, S))\nyield dot(q, S)",
     "a gain that nothing bounds"},
    {S ", n: [K]",
     "S = S + outer(k, v - dot(k, S))\nn = exp(g) * n + exp(beta) * k\nyield dot(q, S) / dot(q, n)",
     "needs a running scale"},
    {S, "S = sigmoid(v) * S + outer(k, v - dot(k, S))\nyield dot(q, S)",
     "along the axis it is read out"},
    {S, "S = S / (1 + square(dot(k, dot(S, v)))) + outer(k, v)\nyield dot(q, S)", "a state"},
};
#undef S

enum { BATCH = 2, HEADS = 2, TOKENS = 5, KEYS = 3, VALUES = 2 };

static vtb_type lead(int64_t n, int axes, int64_t x, int64_t y) {
  int64_t dims[5] = {BATCH, HEADS, n};
  int rank = n ? 3 : 2;
  if (axes > 0) dims[rank++] = x;
  if (axes > 1) dims[rank++] = y;
  return vtb_type_make(VTB_F32, rank, dims);
}

static char *source_of(const char *states, const char *body) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(
      &s,
      "recurrence r(q: [K], k: [K], v: [V], beta: [], g: [], gk: [K], a: [K], b: [K], "
      "v2: [V]) -> [V] {\n%s\n%s\n}\n",
      states, body);
  return s.at;
}

/* As an entry: every input [B, h, N, ...], the first state's initial value if asked for. */
static vtb_module *make(const char *text, const char *state, bool turned, vtb_unit **unit) {
  static const struct {
    const char *name;
    int axes;
    int64_t n;
  } inputs[] = {{"q", 1, KEYS},  {"k", 1, KEYS}, {"v", 1, VALUES}, {"beta", 0, 0},   {"g", 0, 0},
                {"gk", 1, KEYS}, {"a", 1, KEYS}, {"b", 1, KEYS},   {"v2", 1, VALUES}};
  vtb_shape_binding bound[10];
  size_t n = 0;
  for (; n < 9; n++)
    bound[n] = (vtb_shape_binding){inputs[n].name, lead(TOKENS, inputs[n].axes, inputs[n].n, 0)};
  if (state)
    bound[n++] =
        (vtb_shape_binding){state, lead(0, 2, turned ? VALUES : KEYS, turned ? KEYS : VALUES)};
  vtb_diags diags = {0};
  vtb_search nowhere = {0};
  *unit = vtb_unit_load_text("delta.vtb", text, strlen(text), &nowhere, &diags);
  vtb_instantiate_options o = {.inputs = bound, .n_inputs = n};
  vtb_module *m = *unit ? vtb_instantiate(*unit, "r", &o, &diags) : NULL;
  if (!m) vtb_diags_print(&diags, stderr);
  CHECK_MSG(m != NULL, "%s", text);
  vtb_diags_free(&diags);
  return m;
}

static void check_found(const arrangement *x, vtb_module *m) {
  int deltas = 0, scans = 0;
  for (const vtb_inst *i = m->entry->first; i; i = i->next) {
    scans += i->op == VTB_OP_linscan;
    if (i->op != VTB_OP_delta) continue;
    deltas++;
    if (deltas < x->deltas) continue;
    CHECK_STR(vtb_attr_str(i, "class", ""), x->klass);
    CHECK_MSG(i->operands[0]->type.dim[3].size == x->rank, "%s: %d rows, not %d", x->what,
              (int)i->operands[0]->type.dim[3].size, x->rank);
  }
  CHECK_MSG(deltas == x->deltas, "%s: %d deltas, not %d", x->what, deltas, x->deltas);
  CHECK_MSG(scans == x->scans, "%s: %d scans, not %d", x->what, scans, x->scans);
}

static const struct mode {
  const char *name;
  int64_t chunk;
} modes[] = {{"recurrent", 0}, {"parallel", 0}, {"chunkwise", 1}, {"chunkwise", 3}};

static void check_forms(const arrangement *x, bool init) {
  char *text = source_of(x->states, x->body);
  vtb_unit *unit;
  bool turned = strstr(x->states, "[V, K]") != NULL;
  vtb_module *before = make(text, init ? "S0" : NULL, turned, &unit);
  for (size_t k = 0; before && k < sizeof modes / sizeof *modes; k++) {
    vtb_module *m = vtb_module_clone(before);
    vtb_pass_context c = {
        .module = m, .batch = BATCH, .mode = modes[k].name, .chunk = modes[k].chunk};
    bool good = run_passes_in(&c, "recurrence,simplify,cse,dce,select_mode");
    if (good && k == 0) check_found(x, m);
    double e = good ? compare_modules(before, m, 7 + k) : INFINITY;
    CHECK_MSG(e <= 1e-11, "%s, %s(%d): error %g", x->what, modes[k].name, (int)modes[k].chunk, e);
    if (good) {
      grad_case g = grad_case_new(m->entry, 0, 0);
      int failures = test_failures;
      grad_compare(&g, 2e-6);
      if (test_failures != failures) fprintf(stderr, "in %s, %s\n", x->what, modes[k].name);
      grad_case_free(&g);
    }
    vtb_module_free(m);
  }
  vtb_module_free(before);
  vtb_unit_free(unit);
  free(text);
}

TEST(arrangements_are_found_and_equal_their_steps) {
  for (size_t i = 0; i < sizeof arrangements / sizeof *arrangements; i++)
    check_forms(&arrangements[i], false);
}

TEST(initial_states_go_in) {
  for (size_t i = 0; i < sizeof arrangements / sizeof *arrangements; i++)
    if (!strstr(arrangements[i].states, "], ")) /* one state */
      check_forms(&arrangements[i], true);
}

TEST(what_looks_alike_is_told_why) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    char *text = source_of(refusals[i].states, refusals[i].body);
    vtb_unit *unit;
    vtb_module *m = make(text, NULL, false, &unit);
    vtb_diags d = {0};
    vtb_error err = {0};
    vtb_pass_context c = {.module = m, .diags = &d};
    vtb_pipeline_options o = {.pipeline = "recurrence"};
    CHECK(m && vtb_run_pipeline(&c, &o, &err) == VTB_OK);
    CHECK(m && count_ops(m, VTB_OP_fold) == 1 && count_ops(m, VTB_OP_delta) == 0);
    CHECK_MSG(d.list.n == 2 && d.list.at[0].code == 3006, "%s: %d messages", refusals[i].body,
              (int)d.list.n);
    CHECK_MSG(d.list.n == 2 && strstr(d.list.at[1].text, refusals[i].why), "%s: \"%s\", not \"%s\"",
              refusals[i].body, d.list.n == 2 ? d.list.at[1].text : "", refusals[i].why);
    vtb_diags_free(&d);
    vtb_module_free(m);
    vtb_unit_free(unit);
    free(text);
  }
}

int main(void) {
  RUN(arrangements_are_found_and_equal_their_steps);
  RUN(initial_states_go_in);
  RUN(what_looks_alike_is_told_why);
  return test_done();
}
