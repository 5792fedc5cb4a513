/* Scans: modes agree, closed values, adjoints against finite differences, recurrences against their
 * lowered meaning. */
#include "tests/ir/interp_fixture.h"

typedef struct shape {
  const char *decay;
  int b, n, h, k, v;
  bool normalizer, init, dlast;
  const char *path; /* may be NULL */
} shape;

static void put_type(vtb_strbuf *s, const int *dims, int rank) {
  vtb_strbuf_puts(s, "f32[");
  for (int i = 0; i < rank; i++) vtb_strbuf_printf(s, "%s%d", i ? ", " : "", dims[i]);
  vtb_strbuf_putc(s, ']');
}

static void put_types(vtb_strbuf *s, const char *kinds, const shape *c, const char *const *names) {
  for (const char *p = kinds; *p; p++) {
    if (p > kinds) vtb_strbuf_puts(s, ", ");
    if (names) vtb_strbuf_printf(s, "%%%s: ", names[p - kinds]);
    const int b = c->b, n = c->n, h = c->h, k = c->k, v = c->v;
    switch (*p) {
    case 'q':
      put_type(s, (int[]){b, n, h, k}, 4);
      break;
    case 'v':
      put_type(s, (int[]){b, n, h, v}, 4);
      break;
    case 'z':
      put_type(s, (int[]){b, n, h}, 3);
      break;
    case 'S':
      put_type(s, (int[]){b, h, k, v}, 4);
      break;
    case 'n':
      put_type(s, (int[]){b, h, k}, 3);
      break;
    case 'h':
      put_type(s, (int[]){h}, 1);
      break;
    case 'f':
      put_type(s, (int[]){b, n, h, k, v}, 5);
      break;
    case 'a':
      put_type(s, (int[]){h, k, v}, 3);
      break;
    default:
      vtb_bug("type %c", *p);
    }
  }
}

static const char *decay_type(const char *name) {
  return vtb_streq(name, "constant") ? "h"
         : vtb_streq(name, "scalar") ? "z"
         : vtb_streq(name, "key")    ? "q"
         : vtb_streq(name, "value")  ? "v"
         : vtb_streq(name, "rates")  ? "va"
                                     : "f";
}

/* One function holding one instruction: operands and results of the types given by letters. */
static program one_op(const char *op, const char *in, const char *out, const char *attrs,
                      const shape *c) {
  static const char *const names[] = {"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"};
  vtb_strbuf s = {0};
  vtb_strbuf_puts(&s, "func @f(");
  put_types(&s, in, c, names);
  vtb_strbuf_puts(&s, ") -> (");
  put_types(&s, out, c, NULL);
  vtb_strbuf_puts(&s, ") {\n  ");
  for (size_t i = 0; i < strlen(out); i++) vtb_strbuf_printf(&s, "%s%%r%zu", i ? ", " : "", i);
  vtb_strbuf_printf(&s, " = %s", op);
  for (size_t i = 0; i < strlen(in); i++) vtb_strbuf_printf(&s, "%s%%a%zu", i ? ", " : " ", i);
  vtb_strbuf_printf(&s, " {%s} : ", attrs);
  put_types(&s, out, c, NULL);
  vtb_strbuf_puts(&s, "\n  return ");
  for (size_t i = 0; i < strlen(out); i++) vtb_strbuf_printf(&s, "%s%%r%zu", i ? ", " : "", i);
  vtb_strbuf_puts(&s, "\n}\n");
  program p = program_parse(s.at);
  vtb_strbuf_free(&s);
  return p;
}

static program linscan(const shape *c, const char *mode, int chunk) {
  char in[16], attrs[256];
  snprintf(in, sizeof in, "qqv%s%s%s", decay_type(c->decay), c->init ? "S" : "",
           c->init && c->normalizer ? "n" : "");
  int n = snprintf(attrs, sizeof attrs, "class = \"%s\", mode = \"%s\", normalizer = %d, init = %d",
                   c->decay, mode, c->normalizer, c->init);
  if (chunk) n += snprintf(attrs + n, sizeof attrs - (size_t)n, ", chunk = %d", chunk);
  if (c->path) snprintf(attrs + n, sizeof attrs - (size_t)n, ", path = \"%s\"", c->path);
  return one_op("linscan", in, c->normalizer ? "vSzn" : "vS", attrs, c);
}

/* Decays in [0.2, 1], the rest in [-1, 1]. */
static void random_args(const program *p, int decay_arg, vtb_tensor *args,
                        unsigned long long *seed) {
  for (int i = 0; i < p->f->n_args; i++)
    args[i] = random_tensor(p->f->args[i]->type, i == decay_arg ? 0.2 : -1, 1, seed);
}

static void free_tensors(vtb_tensor *t, int n) {
  for (int i = 0; i < n; i++) vtb_tensor_free(&t[i]);
}

static double largest_difference(const vtb_tensor *a, const vtb_tensor *b) {
  double worst = 0;
  for (int64_t i = 0; i < vtb_type_count(&a->type); i++) {
    double d = fabs(a->data[i] - b->data[i]);
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

static const char *const classes[] = {"constant", "scalar", "key", "value", "full", "rates"};

static void compare_modes(const shape *c) {
  unsigned long long seed = 11;
  program base = linscan(c, "recurrent", 0);
  vtb_tensor args[8], want[4], got[4];
  random_args(&base, 3, args, &seed);
  if (c->n > 2 && !vtb_streq(c->decay, "constant")) args[3].data[1] = 0; /* a hard reset */
  run(&base, args, want);
  const int chunks[] = {-1, 1, 2, 3, 5, 7, 64, c->n};
  for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
    program p = chunks[i] < 0 ? linscan(c, "parallel", 0) : linscan(c, "chunkwise", chunks[i]);
    run(&p, args, got);
    for (int r = 0; r < base.f->n_returns; r++) {
      double d = largest_difference(&got[r], &want[r]);
      CHECK_MSG(d <= 1e-12, "class %s, N = %d, chunk %d, result %d differs by %g", c->decay, c->n,
                chunks[i], r, d);
    }
    free_tensors(got, base.f->n_returns);
    program_free(&p);
  }
  free_tensors(want, base.f->n_returns);
  free_tensors(args, base.f->n_args);
  program_free(&base);
}

TEST(modes_agree) {
  for (int k = 0; k < 6; k++)
    for (int init = 0; init < 2; init++) {
      bool norm = k < 3 && init;
      compare_modes(&(shape){classes[k], 2, 12, 2, 3, 4, norm, init, false, "cols~@3x4"});
      compare_modes(&(shape){classes[k], 1, 13, 1, 4, 1, norm, init, false, NULL});
      compare_modes(&(shape){classes[k], 1, 1, 3, 1, 2, norm, init, false, "rows@1x1"});
    }
}

TEST(first_steps_by_hand) {
  /* K = V = 1: S_t = d_t S_{t-1} + k_t v_t, y_t = S_t q_t */
  shape c = {.decay = "scalar", .b = 1, .n = 3, .h = 1, .k = 1, .v = 1, .init = true};
  program p = linscan(&c, "recurrent", 0);
  vtb_tensor args[8], r[4];
  static double q[] = {1, 2, 3}, k[] = {1, 1, 2}, v[] = {5, 7, 11}, d[] = {0.5, 0.25, 0},
                s0[] = {4};
  double *data[] = {q, k, v, d, s0};
  for (int i = 0; i < 5; i++) args[i] = (vtb_tensor){p.f->args[i]->type, data[i]};
  run(&p, args, r);
  CHECK_NEAR(r[0].data[0], 7, 0);
  CHECK_NEAR(r[0].data[1], 2 * (7 * 0.25 + 7), 0);
  CHECK_NEAR(r[0].data[2], 66, 0);
  CHECK_NEAR(r[1].data[0], 22, 0);
  free_tensors(r, 2);
  program_free(&p);
}

/* One step of the recurrent and of the parallel form, which read q, k, v and the state or the score
 * q k in 8 bits. */
TEST(factors_are_rounded_as_the_instruction_says) {
  const double u = 0x1p-7; /* the step between 1 and its successor */
  static const char *const modes[] = {"recurrent", "parallel"};
  for (int m = 0; m < 2; m++) {
    shape c = {.decay = "scalar", .b = 1, .n = 1, .h = 1, .k = 1, .v = 1, .init = true};
    program p = linscan(&c, modes[m], 0);
    vtb_attr_set(p.f->first, VTB_A_STR("precision", "bf16"));
    vtb_tensor args[8], r[4];
    double q[] = {1 + u + u / 8}, k[] = {1 + u}, v[] = {3}, d[] = {1}, s0[] = {0};
    double *data[] = {q, k, v, d, s0};
    for (int i = 0; i < 5; i++) args[i] = (vtb_tensor){p.f->args[i]->type, data[i]};
    run(&p, args, r);
    /* k v = 3 + 3u is 3 + 4u in 8 bits, q k = 1 + 2u + u^2 is 1 + 2u */
    CHECK_NEAR(r[0].data[0], m ? (1 + 2 * u) * 3 : (3 + 4 * u) * (1 + u), 0);
    free_tensors(r, 2);
    program_free(&p);
  }
}

TEST(a_reversed_path_is_flip_run_flip) {
  shape c = {.decay = "key", .b = 2, .n = 5, .h = 2, .k = 2, .v = 3};
  program plain = linscan(&c, "recurrent", 0);
  c.path = "rows~@1x5";
  program reversed = linscan(&c, "chunkwise", 2);
  unsigned long long seed = 5;
  vtb_tensor args[4], flipped[4], a[2], b[2];
  random_args(&plain, 3, args, &seed);
  for (int i = 0; i < 4; i++) {
    flipped[i] = vtb_tensor_new(args[i].type);
    int64_t row = c.h * args[i].type.dim[3].size;
    for (int64_t n = 0; n < c.b * c.n; n++)
      memcpy(flipped[i].data + n * row, args[i].data + (n / c.n * c.n + c.n - 1 - n % c.n) * row,
             (size_t)row * sizeof(double));
  }
  run(&plain, flipped, a);
  run(&reversed, args, b);
  CHECK(largest_difference(&a[1], &b[1]) <= 1e-14);
  int64_t row = c.h * c.v;
  for (int64_t n = 0; n < c.b * c.n; n++)
    for (int64_t i = 0; i < row; i++)
      CHECK_NEAR(b[0].data[n * row + i], a[0].data[(n / c.n * c.n + c.n - 1 - n % c.n) * row + i],
                 1e-14);
  free_tensors(args, 4);
  free_tensors(flipped, 4);
  free_tensors(a, 2);
  free_tensors(b, 2);
  program_free(&plain);
  program_free(&reversed);
}

static void check_linscan_grad(const shape *c) {
  program f = linscan(c, "recurrent", 0);
  char in[24], out[16], attrs[256];
  snprintf(out, sizeof out, "qqv%s%s%s", decay_type(c->decay), c->init ? "S" : "",
           c->init && c->normalizer ? "n" : "");
  snprintf(in, sizeof in, "%sv%s%s%s", out, c->normalizer ? "z" : "", c->dlast ? "S" : "",
           c->dlast && c->normalizer ? "n" : "");
  int n = snprintf(attrs, sizeof attrs, "class = \"%s\", normalizer = %d, init = %d, dlast = %d",
                   c->decay, c->normalizer, c->init, c->dlast);
  if (c->path) snprintf(attrs + n, sizeof attrs - (size_t)n, ", path = \"%s\"", c->path);
  program g = one_op("linscan_grad", in, out, attrs, c);
  unsigned long long seed = 17;
  vtb_tensor args[12], d[6];
  random_args(&g, 3, args, &seed);
  run(&g, args, d);
  /* results of linscan are y, S_T, z, n_T; adjoints come as dy, dz, dS_T, dn_T */
  vtb_tensor weights[4] = {0};
  int at = f.f->n_args;
  weights[0] = args[at++];
  if (c->normalizer) weights[2] = args[at++];
  if (c->dlast) weights[1] = args[at++];
  if (c->dlast && c->normalizer) weights[3] = args[at++];
  for (int i = 0; i < f.f->n_args; i++) check_gradient(&f, args, weights, i, &d[i], c->decay);
  free_tensors(d, g.f->n_returns);
  free_tensors(args, g.f->n_args);
  program_free(&f);
  program_free(&g);
}

TEST(linscan_adjoint_equals_finite_differences) {
  for (int k = 0; k < 6; k++)
    for (int variant = 0; variant < 4; variant++)
      check_linscan_grad(&(shape){classes[k], 2, 4, 2, 2, 3, k < 3 && (variant & 2), variant & 1,
                                  (variant & 1) || variant == 2,
                                  variant == 3 ? "snake@2x2" : NULL});
  check_linscan_grad(&(shape){"scalar", 1, 1, 1, 1, 1, true, true, true, NULL});
}

TEST(maxplus_and_its_adjoint) {
  static const char *const paths[] = {"", "path = \"cols~@2x3\""};
  for (int variant = 0; variant < 4; variant++) {
    bool init = variant & 1;
    const char *path = paths[variant / 2];
    char text[1024];
    snprintf(text, sizeof text,
             "func @f(%%g: f32[2, 6, 3], %%i: f32[2, 6, 3]%s) -> (f32[2, 6, 3]) {\n"
             "  %%y = maxplus %%g, %%i%s {%s} : f32[2, 6, 3]\n  return %%y\n}\n",
             init ? ", %m0: f32[2, 3]" : "", init ? ", %m0" : "", path);
    program f = program_parse(text);
    snprintf(
        text, sizeof text,
        "func @g(%%g: f32[2, 6, 3], %%i: f32[2, 6, 3]%s, %%m: f32[2, 6, 3], %%dm: f32[2, 6, 3]) -> "
        "(f32[2, 6, 3], f32[2, 6, 3]%s) {\n"
        "  %%dg, %%di%s = maxplus_grad %%g, %%i%s, %%m, %%dm {init = %d%s%s} : f32[2, 6, 3], "
        "f32[2, 6, 3]%s\n"
        "  return %%dg, %%di%s\n}\n",
        init ? ", %m0: f32[2, 3]" : "", init ? ", f32[2, 3]" : "", init ? ", %d0" : "",
        init ? ", %m0" : "", init, *path ? ", " : "", path, init ? ", f32[2, 3]" : "",
        init ? ", %d0" : "");
    program g = program_parse(text);
    unsigned long long seed = 23;
    vtb_tensor args[5], m, d[3];
    for (int i = 0; i < g.f->n_args; i++) args[i] = random_tensor(g.f->args[i]->type, -1, 1, &seed);
    run(&f, args, &m);
    vtb_tensor_free(&args[2 + init]);
    args[2 + init] = m;
    run(&g, args, d);
    for (int i = 0; i < 2 + init; i++)
      check_gradient(&f, args, &args[3 + init], i, &d[i], "maxplus");
    free_tensors(d, 2 + init);
    free_tensors(args, 4 + init);
    program_free(&f);
    program_free(&g);
  }
}

TEST(maxplus_by_hand_and_ties) {
  program p =
      program_parse("func @f(%g: f32[1, 3], %i: f32[1, 3]) -> (f32[1, 3], f32[1, 3], f32[1, 3]) {\n"
                    "  %m = maxplus %g, %i : f32[1, 3]\n"
                    "  %dg, %di = maxplus_grad %g, %i, %m, %i : f32[1, 3], f32[1, 3]\n"
                    "  return %m, %dg, %di\n}\n");
  double g[] = {-1, -1, 0}, i[] = {2, 1, 3};
  vtb_tensor args[] = {{p.f->args[0]->type, g}, {p.f->args[1]->type, i}}, r[3];
  run(&p, args, r);
  const double want[3][3] = {{2, 1, 3}, {0, 0, 0}, {2, 1, 3}};
  for (int k = 0; k < 3; k++)
    for (int t = 0; t < 3; t++) CHECK_NEAR(r[k].data[t], want[k][t], 0);
  free_tensors(r, 3);
  program_free(&p);
}

TEST(prefix_sum_by_hand) {
  program p = program_parse(
      "func @f(%x: f32[2, 3]) -> (f32[2, 3], f32[2, 3], f32[2, 3], f32[2, 3]) {\n"
      "  %a = prefix_sum %x {axis = 1} : f32[2, 3]\n"
      "  %b = prefix_sum %x {axis = 1, path = \"[1,2,0]@1x3\", exclusive = 1} : f32[2, 3]\n"
      "  %c = prefix_sum %x {axis = 0, reverse = 1} : f32[2, 3]\n"
      "  %d = prefix_sum %x {axis = 1, wrap = 4.0} : f32[2, 3]\n"
      "  return %a, %b, %c, %d\n}\n");
  double x[] = {1, 2, 4, -3, 5, 0.5};
  vtb_tensor args[] = {{p.f->args[0]->type, x}}, r[4];
  run(&p, args, r);
  const double want[4][6] = {{1, 3, 7, -3, 2, 2.5},
                             {6, 0, 2, 5.5, 0, 5},
                             {-2, 7, 4.5, -3, 5, 0.5},
                             {1, -1, -1, 1, -2, -1.5}};
  for (int k = 0; k < 4; k++)
    for (int i = 0; i < 6; i++) CHECK_NEAR(r[k].data[i], want[k][i], 0);
  free_tensors(r, 4);
  program_free(&p);
}

/* ---- recurrences before lowering ------------------------------------------------------------- */

static const char mlstm[] = "entry func @main(%q: f32[2, 5, 2, 3], %k: f32[2, 5, 2, 3], %v: f32[2, "
                            "5, 2, 4], %i: f32[2, 5, 2], %f: f32[2, 5, "
                            "2]) -> "
                            "(f32[2, 5, 2, 4], f32[2, 2, 3, 4], f32[2, 2, 3], f32[2, 2]) {\n"
                            "  %y, %C, %n, %m = recurrence @mlstm(%q, %k, %v, %i, %f) {states = 2, "
                            "inits = 0, seqs = 5, path = \"rows~@1x5\"} "
                            ": "
                            "f32[2, 5, 2, 4], f32[2, 2, 3, 4], f32[2, 2, 3], f32[2, 2]\n"
                            "  return %y, %C, %n, %m\n}\n"
                            "step @mlstm(%C: f32[3, 4], %n: f32[3], %q: f32[3], %k: f32[3], %v: "
                            "f32[4], %i: f32[], %f: f32[]) -> "
                            "(f32[3, 4], f32[3], f32[4]) {\n"
                            "  %g = log_sigmoid %f : f32[]\n"
                            "  %a = exp %g : f32[]\n"
                            "  %b = exp %i : f32[]\n"
                            "  %Ca = mul %C, %a : f32[3, 4]\n"
                            "  %bk = mul %k, %b : f32[3]\n"
                            "  %kv = einsum %bk, %v {spec = \"k,v->kv\"} : f32[3, 4]\n"
                            "  %C1 = add %kv, %Ca : f32[3, 4]\n"
                            "  %na = mul %a, %n : f32[3]\n"
                            "  %n1 = add %na, %bk : f32[3]\n"
                            "  %num = einsum %q, %C1 {spec = \"k,kv->v\"} : f32[4]\n"
                            "  %den = einsum %q, %n1 {spec = \"k,k->\"} : f32[]\n"
                            "  %abs = abs %den : f32[]\n"
                            "  %one = constant {value = 1} : f32[]\n"
                            "  %max = max %abs, %one : f32[]\n"
                            "  %y = div %num, %max : f32[4]\n"
                            "  return %C1, %n1, %y\n}\n";

/* The same by loops in the test, with the stabilised formulas. */
static void mlstm_by_hand(const vtb_tensor *a, double *y, double *C_out, double *m_out) {
  for (int b = 0; b < 2; b++)
    for (int h = 0; h < 2; h++) {
      double C[3][4] = {{0}}, n[3] = {0}, m = 0;
      for (int t = 4; t >= 0; t--) {
        int row = (b * 5 + t) * 2 + h;
        double g = -log1p(exp(-a[4].data[row])), i = a[3].data[row], m1 = fmax(m + g, i), den = 0;
        for (int k = 0; k < 3; k++) {
          double kk = exp(i - m1) * a[1].data[row * 3 + k];
          n[k] = exp(g + m - m1) * n[k] + kk;
          den += n[k] * a[0].data[row * 3 + k];
          for (int v = 0; v < 4; v++)
            C[k][v] = exp(g + m - m1) * C[k][v] + kk * a[2].data[row * 4 + v];
        }
        m = m1;
        for (int v = 0; v < 4; v++) {
          double num = 0;
          for (int k = 0; k < 3; k++) num += C[k][v] * a[0].data[row * 3 + k];
          y[row * 4 + v] = num / fmax(fabs(den), exp(-m));
        }
      }
      memcpy(C_out + (b * 2 + h) * 12, C, sizeof C);
      m_out[b * 2 + h] = m;
    }
}

TEST(mlstm_equals_its_stabilised_form) {
  program p = program_parse(mlstm);
  unsigned long long seed = 3;
  vtb_tensor args[5], r[4];
  for (int i = 0; i < 5; i++)
    args[i] = random_tensor(p.f->args[i]->type, i == 3 ? -4 : -2, i == 3 ? 6 : 2, &seed);
  run(&p, args, r);
  double y[80], C[48], m[4];
  mlstm_by_hand(args, y, C, m);
  for (int i = 0; i < 80; i++) CHECK_NEAR(r[0].data[i], y[i], 1e-12);
  for (int i = 0; i < 48; i++) CHECK_NEAR(r[1].data[i], C[i], 1e-12);
  for (int i = 0; i < 4; i++) CHECK_NEAR(r[3].data[i], m[i], 1e-12);
  free_tensors(args, 5);
  free_tensors(r, 4);
  program_free(&p);
}

TEST(a_handed_over_state_equals_the_uncut_run) {
  const char *text = "entry func @main(%x: f32[1, 4], %g: f32[1, 4], %i: f32[1, 4]) -> (f32[1, 4], "
                     "f32[1, 4], f32[1], f32[1]) {\n"
                     "  %y, %S, %m = recurrence @s(%x, %g, %i) {states = 1, inits = 0, seqs = 3} : "
                     "f32[1, 4], f32[1], f32[1]\n"
                     "  %xa = slice %x {axis = 1, start = 0, limit = 2} : f32[1, 2]\n"
                     "  %ga = slice %g {axis = 1, start = 0, limit = 2} : f32[1, 2]\n"
                     "  %ia = slice %i {axis = 1, start = 0, limit = 2} : f32[1, 2]\n"
                     "  %ya, %Sa, %ma = recurrence @s(%xa, %ga, %ia) {states = 1, inits = 0, seqs "
                     "= 3} : f32[1, 2], f32[1], f32[1]\n"
                     "  %xb = slice %x {axis = 1, start = 2, limit = 4} : f32[1, 2]\n"
                     "  %gb = slice %g {axis = 1, start = 2, limit = 4} : f32[1, 2]\n"
                     "  %ib = slice %i {axis = 1, start = 2, limit = 4} : f32[1, 2]\n"
                     "  %yb, %Sb, %mb = recurrence @s(%Sa, %ma, %xb, %gb, %ib) {states = 1, inits "
                     "= 2, seqs = 3} : f32[1, 2], f32[1], "
                     "f32[1]\n"
                     "  %yab = concat %ya, %yb {axis = 1} : f32[1, 4]\n"
                     "  %dS = sub %S, %Sb : f32[1]\n"
                     "  %dm = sub %m, %mb : f32[1]\n"
                     "  return %y, %yab, %dS, %dm\n}\n"
                     "step @s(%S: f32[], %x: f32[], %g: f32[], %i: f32[]) -> (f32[], f32[]) {\n"
                     "  %scale = state_scale : f32[]\n"
                     "  %a = exp %g : f32[]\n"
                     "  %b = exp %i : f32[]\n"
                     "  %Sa = mul %a, %S : f32[]\n"
                     "  %xb = mul %b, %x : f32[]\n"
                     "  %S1 = add %Sa, %xb : f32[]\n"
                     "  %y = div %S1, %S1 : f32[]\n"
                     "  %z = mul %y, %S1 : f32[]\n"
                     "  return %S1, %z\n}\n";
  program p = program_parse(text);
  double x[] = {1, 2, 3, 4}, g[] = {-0.5, -0.1, -2, -0.3}, i[] = {3, 0.5, 1, -1};
  vtb_tensor args[] = {{p.f->args[0]->type, x}, {p.f->args[1]->type, g}, {p.f->args[2]->type, i}},
             r[4];
  run(&p, args, r);
  for (int t = 0; t < 4; t++) CHECK_NEAR(r[0].data[t], r[1].data[t], 1e-12);
  CHECK_NEAR(r[2].data[0], 0, 1e-12);
  CHECK_NEAR(r[3].data[0], 0, 1e-12);
  free_tensors(r, 4);
  program_free(&p);
}

TEST(state_scale_is_the_running_maximum) {
  program p = program_parse(
      "entry func @main(%x: f32[1, 3], %g: f32[1, 3], %i: f32[1, 3]) -> (f32[1, 3], f32[1]) {\n"
      "  %y, %S, %m = recurrence @s(%x, %g, %i) {states = 1, inits = 0, seqs = 3} : f32[1, 3], "
      "f32[1], f32[1]\n"
      "  return %y, %m\n}\n"
      "step @s(%S: f32[], %x: f32[], %g: f32[], %i: f32[]) -> (f32[], f32[]) {\n"
      "  %m = state_scale {log = 1} : f32[]\n"
      "  %gi = add %i, %g : f32[]\n"
      "  %b = exp %gi : f32[]\n"
      "  %a = exp %g : f32[]\n"
      "  %Sx = add %S, %x : f32[]\n"
      "  %c = exp %i : f32[]\n"
      "  %S1 = mul %a, %Sx : f32[]\n"
      "  %u = mul %x, %c : f32[]\n"
      "  %S2 = sub %S1, %u : f32[]\n"
      "  %w = mul %b, %m : f32[]\n"
      "  return %S2, %m\n}\n");
  /* S' = e^g S + e^g x - e^i x: decay g, gains g and i */
  double x[] = {1, 2, 3}, g[] = {-3, -1, -2}, i[] = {-5, -4, 2};
  vtb_tensor args[] = {{p.f->args[0]->type, x}, {p.f->args[1]->type, g}, {p.f->args[2]->type, i}},
             r[2];
  run(&p, args, r);
  CHECK_NEAR(r[0].data[0], -3, 0);
  CHECK_NEAR(r[0].data[1], -1, 0);
  CHECK_NEAR(r[0].data[2], 2, 0);
  CHECK_NEAR(r[1].data[0], 2, 0); /* from 0: max(0 - 3, -3), -1, 2 */
  free_tensors(r, 2);
  program_free(&p);
}

TEST(constants_and_vector_decays) {
  /* h' = exp(delta A) h + delta u B over channels E and states N; constants with and without a head
   * axis */
  program p = program_parse(
      "entry func @main(%u: f32[2, 3, 1, 2], %A: f32[2, 2], %D: f32[1, 2]) -> (f32[2, 3, 1, 2], "
      "f32[2, "
      "1, 2, 2], f32[2, 1]) {\n"
      "  %y, %S, %m = recurrence @scan(%u, %A, %D) {states = 1, inits = 0, seqs = 1} : f32[2, 3, "
      "1, 2], "
      "f32[2, 1, 2, 2], f32[2, 1]\n"
      "  return %y, %S, %m\n}\n"
      "step @scan(%h: f32[2, 2], %u: f32[2], %A: f32[2, 2], %D: f32[2]) -> (f32[2, 2], f32[2]) {\n"
      "  %a = exp %A : f32[2, 2]\n"
      "  %ha = mul %a, %h : f32[2, 2]\n"
      "  %u1 = reshape %u {shape = [2, 1]} : f32[2, 1]\n"
      "  %h1 = add %ha, %u1 : f32[2, 2]\n"
      "  %s = reduce_sum %h1 {axes = [1]} : f32[2]\n"
      "  %y = add %s, %D : f32[2]\n"
      "  return %h1, %y\n}\n");
  unsigned long long seed = 9;
  vtb_tensor args[3], r[3];
  for (int i = 0; i < 3; i++) args[i] = random_tensor(p.f->args[i]->type, -1, 1, &seed);
  run(&p, args, r);
  for (int b = 0; b < 2; b++) {
    double h[4] = {0};
    for (int t = 0; t < 3; t++)
      for (int e = 0; e < 2; e++) {
        for (int n = 0; n < 2; n++)
          h[e * 2 + n] =
              exp(args[1].data[e * 2 + n]) * h[e * 2 + n] + args[0].data[(b * 3 + t) * 2 + e];
        CHECK_NEAR(r[0].data[(b * 3 + t) * 2 + e], h[e * 2] + h[e * 2 + 1] + args[2].data[e],
                   1e-14);
      }
    for (int i = 0; i < 4; i++) CHECK_NEAR(r[1].data[b * 4 + i], h[i], 1e-14);
    CHECK_NEAR(r[2].data[b], 0, 0);
  }
  free_tensors(args, 3);
  free_tensors(r, 3);
  program_free(&p);
}

int main(void) {
  RUN(modes_agree);
  RUN(first_steps_by_hand);
  RUN(factors_are_rounded_as_the_instruction_says);
  RUN(a_reversed_path_is_flip_run_flip);
  RUN(linscan_adjoint_equals_finite_differences);
  RUN(maxplus_and_its_adjoint);
  RUN(maxplus_by_hand_and_ties);
  RUN(prefix_sum_by_hand);
  RUN(mlstm_equals_its_stabilised_form);
  RUN(a_handed_over_state_equals_the_uncut_run);
  RUN(state_scale_is_the_running_maximum);
  RUN(constants_and_vector_decays);
  return test_done();
}
