/* The adjoint of attention with rotary embeddings in its kernel: machine code against the
 * interpreter; and when the pass leaves them outside. */
#include "passes/passes.h"
#include "ir/ops.h"
#include "tests/codegen/one_kernel.h"
#include "tests/codegen/turned.h"

typedef enum ending { RIGHT, OTHER_TABLES, FORWARD, READ_TWICE } ending;

typedef struct grad_case {
  int64_t B, N, M, h, g, K, V, r_q, r_k; /* r: channels that turn; 0: none */
  bool by_head, causal, has_bias, dlse;
} grad_case;

typedef struct under_test {
  vtb_module *m;
  vtb_func *f;
  vtb_builder b;
} under_test;

static vtb_value *arg(under_test *u, vtb_type type) {
  char name[16];
  snprintf(name, sizeof name, "x%d", u->f->n_args);
  return vtb_func_add_arg(u->f, name, type);
}
static vtb_type shape(int rank, const int64_t *dims) { return vtb_type_make(VTB_F32, rank, dims); }

static turn_tables tables(under_test *u, int64_t n, int64_t heads, int64_t r) {
  vtb_value *cosines = arg(u, turn_table_type(n, heads, r));
  return turn_tables_of(&u->b, cosines, arg(u, turn_table_type(n, heads, r)));
}

static vtb_value *end(under_test *u, vtb_value *dx, const turn_tables *t, ending how) {
  turn_tables other = {t->sines, t->cosines};
  if (how == FORWARD) return turned(&u->b, dx, t);
  return turned_back(&u->b, dx, how == OTHER_TABLES ? &other : t);
}

/* After the pass. `how` the adjoint of q is turned back; that of k is RIGHT. */
static under_test build(const grad_case *t, ending how) {
  under_test u = {.m = vtb_module_new("test")};
  u.f = vtb_func_new(u.m, "f", VTB_FUNC_PLAIN, (vtb_span){0});
  u.b = (vtb_builder){.module = u.m, .func = u.f};
  vtb_value *v[8] = {arg(&u, shape(4, (int64_t[]){t->B, t->N, t->h, t->K})),
                     arg(&u, shape(4, (int64_t[]){t->B, t->M, t->g, t->K})),
                     arg(&u, shape(4, (int64_t[]){t->B, t->M, t->g, t->V}))};
  vtb_value *returns[5];
  vtb_attr attrs[5] = {VTB_A_FLOAT("scale", 0.3)};
  turn_tables q = {0}, k = {0};
  int n = 3, n_attrs = 1, n_returns = 0;
  if (t->r_q) q = tables(&u, t->N, t->by_head ? t->h : 1, t->r_q), v[0] = turned(&u.b, v[0], &q);
  if (t->r_k) k = tables(&u, t->M, t->by_head ? t->g : 1, t->r_k), v[1] = turned(&u.b, v[1], &k);
  if (t->has_bias) v[n++] = arg(&u, shape(2, (int64_t[]){t->N, t->M}));
  vtb_type y = shape(4, (int64_t[]){t->B, t->N, t->h, t->V}),
           lse = shape(3, (int64_t[]){t->B, t->N, t->h});
  v[n++] = arg(&u, y), v[n++] = arg(&u, lse), v[n++] = arg(&u, y);
  if (t->dlse) v[n++] = arg(&u, lse);
  if (t->causal) attrs[n_attrs++] = VTB_A_INT("causal", 1);
  if (t->has_bias)
    attrs[n_attrs++] = VTB_A_INT("bias", 1), attrs[n_attrs++] = VTB_A_INT("dbias", 1);
  if (t->dlse) attrs[n_attrs++] = VTB_A_INT("dlse", 1);
  vtb_inst *d = vtb_build(&u.b, VTB_OP_attention_grad, v, n, attrs, n_attrs);
  for (int r = 0; r < d->n_results; r++) {
    const turn_tables *back = r == 0 && t->r_q ? &q : r == 1 && t->r_k ? &k : NULL;
    returns[n_returns++] = back ? end(&u, d->results[r], back, r ? RIGHT : how) : d->results[r];
  }
  if (how == READ_TWICE) returns[n_returns++] = d->results[0];
  vtb_func_set_returns(u.f, returns, NULL, n_returns);
  u.m->entry = u.f;
  vtb_error err = {0};
  vtb_pass_context context = {.module = u.m};
  vtb_pipeline_options o = {.pipeline = "grow{rotary}", .verify_each = true};
  CHECK_MSG(vtb_run_pipeline(&context, &o, &err) == VTB_OK, "%s", err.text);
  return u;
}

TEST(adjoints_are_turned_back_in_the_kernel) {
  unsigned long long state = 5, *seed = &state;
  static const grad_case cases[] = {
      {.B = 1, .N = 5, .M = 5, .h = 1, .g = 1, .K = 8, .V = 8, .r_q = 8, .r_k = 8, .dlse = true},
      {.B = 2,
       .N = 49,
       .M = 49,
       .h = 2,
       .g = 2,
       .K = 32,
       .V = 32,
       .r_q = 32,
       .r_k = 32,
       .by_head = true},
      {.B = 1,
       .N = 50,
       .M = 60,
       .h = 4,
       .g = 2,
       .K = 20,
       .V = 12,
       .r_q = 12,
       .r_k = 20,
       .by_head = true,
       .causal = true},
      {.B = 2,
       .N = 7,
       .M = 13,
       .h = 2,
       .g = 2,
       .K = 7,
       .V = 5,
       .r_q = 2,
       .r_k = 6,
       .has_bias = true},
      {.B = 1, .N = 9, .M = 300, .h = 1, .g = 1, .K = 16, .V = 16, .r_q = 4, .r_k = 16},
      {.B = 1, .N = 17, .M = 17, .h = 2, .g = 2, .K = 24, .V = 8, .r_k = 24},
      {.B = 1, .N = 17, .M = 17, .h = 2, .g = 2, .K = 10, .V = 8, .r_q = 10},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    under_test u = build(&cases[i], RIGHT);
    char what[32];
    int others, kernels = turned_kernels(u.f, &others);
    snprintf(what, sizeof what, "case %d", (int)i);
    CHECK_MSG(kernels == 1 && others == 0, "%s: %d kernels, %d other ops", what, kernels, others);
    vtb_tensor args[16];
    for (int a = 0; a < u.f->n_args; a++) args[a] = kernel_random(u.f->args[a]->type, seed, 1, 0);
    kernel_check(u.m, u.f, args, 5e-5, what);
    for (int a = 0; a < u.f->n_args; a++) vtb_tensor_free(&args[a]);
    vtb_module_free(u.m);
  }
}

/* The keys still go in; the queries, turned before and their adjoint behind, stay outside. */
TEST(queries_that_stay_outside) {
  static const ending endings[] = {OTHER_TABLES, FORWARD, READ_TWICE};
  const grad_case t = {.B = 1, .N = 3, .M = 4, .h = 2, .g = 2, .K = 6, .V = 4, .r_q = 4, .r_k = 6};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    under_test u = build(&t, endings[i]);
    int others = 0, kernels = turned_kernels(u.f, &others);
    CHECK_MSG(kernels == 1 && others > 0, "ending %d: %d kernels, %d other ops", (int)endings[i],
              kernels, others);
    for (const vtb_inst *k = u.f->first; k; k = k->next)
      if (vtb_is_turned_attention(k))
        CHECK(!vtb_attention_of(k).turn[0].width && vtb_attention_of(k).turn[1].width);
    vtb_module_free(u.m);
  }
}

int main(void) {
  RUN(adjoints_are_turned_back_in_the_kernel);
  RUN(queries_that_stay_outside);
  return test_done();
}
