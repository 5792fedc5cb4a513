/* Decays that are step sizes times rates: which exponents are taken apart, and that nothing changes
 * by it. */
#include "tests/passes/pass_check.h"
#include "ir/ops.h"

typedef struct form {
  const char *text;  /* %g, the exponent, from %d1 [E, 1], %A [E, S], %f [E, S] a per-step input */
  const char *klass; /* of the scan */
} form;

/* ES stands for the type of the state. */
static const form forms[] = {
    {"%g = mul %d1, %A : ES\n", "rates"},
    {"%a = exp %A : ES\n%n = neg %a : ES\n%g = mul %n, %d1 : ES\n", "rates"},
    {"%a = mul %A, %d1 : ES\n%c = constant {value = 0.25} : f32[]\n%a2 = mul %a, %c : ES\n%g = mul "
     "%a2, %d1 : ES\n",
     "rates"},
    {"%c = constant {value = 2} : f32[]\n%a = mul %A, %d1 : ES\n%g = div %a, %c : ES\n", "rates"},
    {"%a = mul %d1, %A : ES\n%g = add %a, %A : ES\n", "full"},
    {"%g = mul %f, %A : ES\n", "full"},
    {"%s = sin %d1 : D1\n%g = mul %s, %A : ES\n", "rates"},
};

static void put(vtb_strbuf *s, const char *text, const char *es, const char *d1) {
  for (; *text; text++) {
    bool state = strncmp(text, "ES", 2) == 0, steps = strncmp(text, "D1", 2) == 0;
    if (!state && !steps)
      vtb_strbuf_putc(s, *text);
    else
      vtb_strbuf_puts(s, state ? es : d1), text++;
  }
}

/* The recurrence of one random case. */
typedef struct config {
  int form, heads, tokens, channels, states;
  /* state [E, S] or [S, E]; divided by exp of the negative exponent */
  bool channels_first, init, divide;
  const char *path;
} config;

static char *write_module(const config *c) {
  vtb_strbuf s = {0};
  char es[32], d1[32], h[16] = "", path[64] = "";
  int e = c->channels, n = c->states, t = c->tokens, x = c->channels_first ? e : n,
      y = c->channels_first ? n : e;
  sprintf(es, "f32[%d, %d]", x, y);
  sprintf(d1, "f32[%d, %d]", c->channels_first ? e : 1, c->channels_first ? 1 : e);
  if (c->heads) sprintf(h, "h=%d, ", c->heads);
  if (c->path) sprintf(path, ", path = \"%s\"", c->path);
  vtb_strbuf_printf(&s,
                    "entry func @f(%%h0: f32[B, %s%d, %d], %%u: f32[B, T=%d, %s%d], %%d: f32[B, "
                    "T=%d, %s%d], %%b: f32[B, "
                    "T=%d, %s%d], %%q: f32[B, T=%d, %s%d], %%f: f32[B, T=%d, %s%d, %d], %%A: "
                    "f32[%s%d, %d]) -> (f32[B, "
                    "T=%d, %s%d], f32[B, %s%d, %d]) {\n",
                    h, x, y, t, h, e, t, h, e, t, h, n, t, h, n, t, h, x, y, h, x, y, t, h, e, h, x,
                    y);
  vtb_strbuf_printf(&s,
                    "%%y, %%S, %%m = recurrence @s(%s%%u, %%d, %%b, %%q, %%f, %%A) {states = 1, "
                    "inits = %d, seqs = 5%s} : "
                    "f32[B, T=%d, %s%d], f32[B, %s%d, %d], f32[B%s%.*s]\nreturn %%y, %%S\n}\n",
                    c->init ? "%h0, " : "", c->init, path, t, h, e, h, x, y, c->heads ? ", " : "",
                    c->heads ? (int)strlen(h) - 2 : 0, h);
  vtb_strbuf_printf(&s,
                    "step @s(%%h: %s, %%u: f32[%d], %%d: f32[%d], %%b: f32[%d], %%q: f32[%d], %%f: "
                    "%s, %%A: %s) -> (%s, "
                    "f32[%d]) {\n%%d1 = reshape %%d {shape = %s} : %s\n",
                    es, e, e, n, n, es, es, es, e, d1 + strlen("f32"), d1);
  put(&s, forms[c->form].text, es, d1);
  if (c->divide)
    put(&s, "%m = neg %g : ES\n%e = exp %m : ES\n%a9 = div %h, %e : ES\n", es, d1);
  else
    put(&s, "%e = exp %g : ES\n%a9 = mul %e, %h : ES\n", es, d1);
  vtb_strbuf_printf(&s, "%%w = einsum %%u, %%b {spec = \"e,s->%s\"} : %s\n",
                    c->channels_first ? "es" : "se", es);
  vtb_strbuf_printf(
      &s, "%%h2 = add %%a9, %%w : %s\n%%y = einsum %%h2, %%q {spec = \"%s,s->e\"} : f32[%d]\n", es,
      c->channels_first ? "es" : "se", e);
  vtb_strbuf_puts(&s, "return %h2, %y\n}\n");
  return s.at;
}

static int below(unsigned long long *rng, int n) { return (int)((test_random(rng) + 1) / 2 * n); }

static void check(const config *c) {
  char *text = write_module(c);
  vtb_module *before = parse_ir(text), *m = parse_ir(text);
  if (before && m && run_passes(m, "recurrence,simplify,cse,dce")) {
    CHECK(count_ops(m, VTB_OP_linscan) == 1 && count_ops(m, VTB_OP_recurrence) == 0);
    for (vtb_inst *inst = m->entry->first; inst; inst = inst->next) {
      if (inst->op != VTB_OP_linscan) continue;
      CHECK_STR(vtb_attr_str(inst, "class", ""), forms[c->form].klass);
      CHECK(inst->operands[0]->type.dim[3].size == c->states &&
            inst->operands[2]->type.dim[3].size == c->channels);
    }
    double error = compare_modules(before, m, 3);
    CHECK_MSG(error <= 1e-12, "error %g\n%s", error, text);
  }
  if (before) vtb_module_free(before);
  if (m) vtb_module_free(m);
}

TEST(exponents_are_taken_apart) {
  unsigned long long seed = 5, *rng = &seed;
  for (int f = 0; f < (int)(sizeof forms / sizeof *forms); f++)
    for (int variant = 0; variant < 8; variant++) {
      config c = {.form = f,
                  .heads = variant & 1 ? 3 : 0,
                  .channels_first = variant & 2,
                  .divide = variant & 4};
      c.init = below(rng, 2), c.channels = 2 + below(rng, 4), c.states = 2 + below(rng, 3),
      c.tokens = 6;
      c.path = below(rng, 2) ? "cols~@2x3" : NULL;
      check(&c);
    }
}

int main(void) {
  RUN(exponents_are_taken_apart);
  return test_done();
}
