/* Random steps that are not linear in their states: one to three states of [K], products with
 * matrices, of states and of inputs, gates, a number a token, a state that only collects. As IR
 * text of an entry @f with one recurrence. */
#ifndef VTB_TEST_RANDOM_STEP_H
#define VTB_TEST_RANDOM_STEP_H

#include "runtime/base/base.h"
#include "tests/test.h"

typedef struct random_step {
  int states, k, j, tokens, heads;
  bool inits, collects; /* a further state only collects */
  const char *attrs;    /* of the recurrence */
  unsigned long long seed;
} random_step;

static inline int step_pick(random_step *r, int n) {
  return (int)((test_random(&r->seed) + 1) / 2 * n) % n;
}

static inline void step_shape(vtb_strbuf *s, const random_step *r, const char *lead, int width) {
  vtb_strbuf_printf(s, "f32[%s", lead);
  if (r->heads > 1) vtb_strbuf_printf(s, "%sheads=%d", *lead ? ", " : "", r->heads);
  if (width) vtb_strbuf_printf(s, "%s%d", *lead || r->heads > 1 ? ", " : "", width);
  vtb_strbuf_puts(s, "]");
}

/* Value %v<n> of the step from earlier ones. %p<i> are states; u, w, g inputs; A, M, b weights. */
static inline void step_value(random_step *r, vtb_strbuf *s, int n) {
  char x[2][16];
  for (int i = 0; i < 2; i++) {
    int pick = step_pick(r, r->states + n + 1);
    if (pick < r->states)
      snprintf(x[i], sizeof x[i], "%%p%d", pick);
    else if (pick < r->states + n)
      snprintf(x[i], sizeof x[i], "%%v%d", pick - r->states);
    else
      snprintf(x[i], sizeof x[i], "%%u");
  }
  vtb_strbuf_printf(s, "  %%v%d = ", n);
  switch (step_pick(r, 8)) {
  case 0:
    vtb_strbuf_printf(s, "einsum %%A, %s {spec = \"ab,b->a\"}", x[0]);
    break;
  case 1:
    vtb_strbuf_printf(s, "einsum %%M, %%w {spec = \"ab,b->a\"}");
    break;
  case 2:
    vtb_strbuf_printf(s, "add %s, %%b", x[0]);
    break;
  case 3:
    vtb_strbuf_printf(s, "tanh %s", x[0]);
    break;
  case 4:
    vtb_strbuf_printf(s, "mul %s, %%g", x[0]);
    break;
  case 5:
    vtb_strbuf_printf(s, "sigmoid %s", x[0]);
    break;
  case 6:
    vtb_strbuf_printf(s, "einsum %s, %%A {spec = \"a,ab->b\"}", x[0]);
    break;
  default:
    vtb_strbuf_printf(s, "mul %s, %s", x[0], x[1]);
  }
  vtb_strbuf_printf(s, " : f32[%d]\n", r->k);
}

/* The last values in a form that stays small and reads every state. */
static inline void step_body(random_step *r, vtb_strbuf *s) {
  enum { VALUES = 7 };
  for (int n = 0; n < VALUES; n++) step_value(r, s, n);
  for (int i = 0; i < r->states; i++) {
    int x = step_pick(r, VALUES), y = (i + 1) % r->states;
    vtb_strbuf_printf(s, "  %%a%d = einsum %%A, %%p%d {spec = \"ab,b->a\"} : f32[%d]\n", i, y,
                      r->k);
    vtb_strbuf_printf(s, "  %%e%d = einsum %%a%d, %%A {spec = \"a,ab->b\"} : f32[%d]\n", i, i,
                      r->k);
    vtb_strbuf_printf(s, "  %%c%d = add %%%c%d, %%v%d : f32[%d]\n", i, i ? 'a' : 'e', i, x, r->k);
    vtb_strbuf_printf(s, "  %%d%d = tanh %%c%d : f32[%d]\n", i, i, r->k);
  }
  if (r->collects)
    vtb_strbuf_printf(s, "  %%d%d = add %%p%d, %%v%d : f32[%d]\n", r->states, r->states,
                      step_pick(r, VALUES), r->k);
  vtb_strbuf_printf(s, "  %%y0 = tanh %%v%d : f32[%d]\n", step_pick(r, VALUES), r->k);
  vtb_strbuf_printf(s, "  %%y = mul %%y0, %%d0 : f32[%d]\n  return ", r->k);
  for (int i = 0; i < r->states + r->collects; i++) vtb_strbuf_printf(s, "%%d%d, ", i);
  vtb_strbuf_puts(s, "%y\n}\n");
}

static inline void step_types(const random_step *r, vtb_strbuf *s) {
  char tokens[32];
  int n = r->states + r->collects;
  snprintf(tokens, sizeof tokens, "B, N=%d", r->tokens);
  step_shape(s, r, tokens, r->k);
  for (int i = 0; i < n; i++) vtb_strbuf_puts(s, ", "), step_shape(s, r, "B", r->k);
}

static inline void step_entry(const random_step *r, vtb_strbuf *s) {
  char tokens[32];
  int n = r->states + r->collects;
  snprintf(tokens, sizeof tokens, "B, N=%d", r->tokens);
  vtb_strbuf_puts(s, "entry func @f(");
  for (int i = 0; r->inits && i < n; i++) {
    vtb_strbuf_printf(s, "%%i%d: ", i);
    step_shape(s, r, "B", r->k);
    vtb_strbuf_puts(s, ", ");
  }
  vtb_strbuf_puts(s, "%u: "), step_shape(s, r, tokens, r->k);
  vtb_strbuf_puts(s, ", %w: "), step_shape(s, r, tokens, r->j);
  vtb_strbuf_puts(s, ", %g: "), step_shape(s, r, tokens, 0);
  vtb_strbuf_printf(s, ", %%A: f32[%d, %d], %%M: f32[%d, %d], %%b: ", r->k, r->k, r->k, r->j);
  step_shape(s, r, "", r->k);
  vtb_strbuf_puts(s, ") -> ("), step_types(r, s), vtb_strbuf_puts(s, ") {\n  %y");
  for (int i = 0; i < n; i++) vtb_strbuf_printf(s, ", %%s%d", i);
  vtb_strbuf_puts(s, ", %m = recurrence @cell(");
  for (int i = 0; r->inits && i < n; i++) vtb_strbuf_printf(s, "%%i%d, ", i);
  vtb_strbuf_printf(s, "%%u, %%w, %%g, %%A, %%M, %%b) {states = %d, inits = %d, seqs = 3%s} : ", n,
                    r->inits ? n : 0, r->attrs);
  step_types(r, s), vtb_strbuf_puts(s, ", "), step_shape(s, r, "B", 0);
  vtb_strbuf_puts(s, "\n  return %y");
  for (int i = 0; i < n; i++) vtb_strbuf_printf(s, ", %%s%d", i);
  vtb_strbuf_puts(s, "\n}\n");
}

static inline char *random_step_text(random_step r) {
  vtb_strbuf s = {0};
  step_entry(&r, &s);
  vtb_strbuf_puts(&s, "step @cell(");
  for (int i = 0; i < r.states + r.collects; i++) vtb_strbuf_printf(&s, "%%p%d: f32[%d], ", i, r.k);
  vtb_strbuf_printf(&s,
                    "%%u: f32[%d], %%w: f32[%d], %%g: f32[], %%A: f32[%d, %d], %%M: f32[%d, %d],"
                    " %%b: f32[%d]) -> (",
                    r.k, r.j, r.k, r.k, r.k, r.j, r.k);
  for (int i = 0; i <= r.states + r.collects; i++)
    vtb_strbuf_printf(&s, "%sf32[%d]", i ? ", " : "", r.k);
  vtb_strbuf_puts(&s, ") {\n");
  step_body(&r, &s);
  return s.at;
}

/* The i-th of a family: states, heads, tokens (one among them), paths, initial states. */
static inline random_step random_step_of(int i) {
  static const struct {
    int tokens;
    const char *attrs;
  } orders[] = {{6, ", path = \"snake@2x3\""}, {1, ""}, {5, ", path = \"rows~@1x5\""}, {4, ""}};
  return (random_step){.states = 1 + i % 3,
                       .k = 2 + i % 4,
                       .j = 1 + i % 3,
                       .tokens = orders[i % 4].tokens,
                       .heads = 1 + i / 2 % 3,
                       .inits = i / 3 % 2,
                       .collects = i % 5 == 2,
                       .attrs = orders[i % 4].attrs,
                       .seed = 77u + 1000003u * (unsigned)i};
}

#endif
