/* The interpreter against values worked out by hand, and adjoints of convolutions against finite
 * differences. */
#include "tests/ir/interp_fixture.h"

#define FUNC(args, result, body) "func @f(" args ") -> (" result ") {\n" body "  return %y\n}\n"

TEST(scalar_formulas) {
  static const struct {
    const char *op;
    double x, y;
  } cases[] = {{"neg", 2, -2},
               {"abs", -3, 3},
               {"sign", -0.5, -1},
               {"sign", 0, 0},
               {"exp", 1, 2.718281828459045},
               {"log", 2.718281828459045, 1},
               {"sqrt", 2, 1.4142135623730951},
               {"rsqrt", 4, 0.5},
               {"square", -3, 9},
               {"sin", 1, 0.8414709848078965},
               {"cos", 1, 0.5403023058681398},
               {"tanh", 0.5, 0.46211715726000975},
               {"erf", 0.5, 0.5204998778130465},
               {"sigmoid", 0, 0.5},
               {"sigmoid", -800, 0},
               {"log_sigmoid", -800, -800},
               {"log_sigmoid", 0, -0.6931471805599453},
               {"softplus", 800, 800},
               {"softplus", 0, 0.6931471805599453},
               {"silu", 1, 0.7310585786300049},
               {"gelu", 1, 0.8413447460685429},
               {"gelu_tanh", 1, 0.8411919906082768},
               {"relu", -1, 0},
               {"floor", -1.5, -2},
               {"stop_gradient", 7, 7}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[256];
    snprintf(text, sizeof text,
             "func @f(%%x: f32[]) -> (f32[]) {\n  %%y = %s %%x : f32[]\n  return %%y\n}\n",
             cases[i].op);
    const double want[] = {cases[i].y};
    CHECK_RUN(text, (const double *[]){&cases[i].x}, want, 1e-15 * (1 + fabs(cases[i].y)));
  }
}

TEST(two_operand_formulas_and_broadcast) {
  const double x[] = {1, 2, 3, 4, 5, 6}, r[] = {2, 2, 6}, c[] = {1, 0};
#define BINARY(op)                                                                                 \
  FUNC("%x: f32[B, 3], %r: f32[3]", "f32[B, 3]", "  %y = " op " %x, %r : f32[B, 3]\n")
  const double *in[] = {x, r};
  /* with a batch of 1 */
  const double add[] = {3, 4, 9}, div[] = {0.5, 1, 0.5}, gt[] = {0, 0, 0}, ge[] = {0, 1, 0},
               pw[] = {1, 4, 729};
  const double mx[] = {2, 2, 6}, mn[] = {1, 2, 3};
  CHECK_RUN(BINARY("add"), in, add, 0);
  CHECK_RUN(BINARY("div"), in, div, 0);
  CHECK_RUN(BINARY("gt"), in, gt, 0);
  CHECK_RUN(BINARY("ge"), in, ge, 0);
  CHECK_RUN(BINARY("pow"), in, pw, 1e-12);
  CHECK_RUN(BINARY("max"), in, mx, 0);
  CHECK_RUN(BINARY("min"), in, mn, 0);
  const double outer[] = {1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7};
  CHECK_RUN(FUNC("%x: f32[2, 1], %r: f32[3, 1, 2], %z: f32[]", "f32[3, 2, 2]",
                 "  %y = add %x, %r : f32[3, 2, 2]\n"),
            ((const double *[]){x, NUMBERS(0, 1, 2, 3, 4, 5), c}), outer, 0);
  const double sel[] = {1, 2, 2, 2};
  CHECK_RUN(FUNC("%x: f32[2], %r: f32[2], %c: f32[2, 1]", "f32[2, 2]",
                 "  %y = select %c, %x, %r : f32[2, 2]\n"),
            ((const double *[]){x, r, c}), sel, 0);
  const double cut[] = {-1, 1};
  CHECK_RUN(FUNC("%x: f32[2]", "i32[2]", "  %y = cast %x {to = \"i32\"} : i32[2]\n"),
            ((const double *[]){NUMBERS(-1.9, 1.9)}), cut, 0);
}

TEST(moving_elements) {
  const double x[] = {1, 2, 3, 4, 5, 6};
  const double *in[] = {x, NUMBERS(10, 20, 30)};
#define MOVE(result, body)                                                                         \
  FUNC("%x: f32[2, 3], %w: f32[3]", result, "  %y = " body " : " result "\n")
  const double s0[] = {5, 7, 9}, s01[] = {21}, m1[] = {3, 6}, tr[] = {1, 4, 2, 5, 3, 6},
               sl[] = {1, 3, 4, 6};
  const double pd[] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6},
               cc[] = {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6};
  const double br[] = {10, 20, 30, 10, 20, 30};
  CHECK_RUN(MOVE("f32[3]", "reduce_sum %x {axes = [0]}"), in, s0, 0);
  CHECK_RUN(MOVE("f32[1, 1]", "reduce_sum %x {axes = [0, 1], keep = 1}"), in, s01, 0);
  CHECK_RUN(MOVE("f32[2]", "reduce_max %x {axes = [1]}"), in, m1, 0);
  CHECK_RUN(MOVE("f32[2, 3]", "reduce_sum %x {axes = []}"), in, x, 0);
  CHECK_RUN(MOVE("f32[3, 2]", "reshape %x {shape = [3, 2]}"), in, x, 0);
  CHECK_RUN(MOVE("f32[3, 2]", "transpose %x {perm = [1, 0]}"), in, tr, 0);
  CHECK_RUN(MOVE("f32[2, 2]", "slice %x {axis = 1, start = 0, limit = 3, step = 2}"), in, sl, 0);
  CHECK_RUN(MOVE("f32[2, 6]", "pad %x {axis = 1, low = 1, high = 0, step = 2}"), in, pd, 0);
  CHECK_RUN(MOVE("f32[2, 6]", "concat %x, %x {axis = 1}"), in, cc, 0);
  CHECK_RUN(MOVE("f32[2, 3]", "broadcast %w {shape = [2, 3]}"), in, br, 0);
}

TEST(along_paths) {
  const double x[] = {0, 1, 2, 3, 4, 5}, e[] = {9};
  const double *in[] = {x, e};
#define ALONG(body) FUNC("%x: f32[1, 6], %e: f32[1]", "f32[1, 6]", "  %y = " body " : f32[1, 6]\n")
  const double pc[] = {0, 3, 1, 4, 2, 5}, pi[] = {0, 2, 4, 1, 3, 5}, s1[] = {0, 0, 1, 2, 3, 4},
               s2[] = {7, 7, 0, 1, 2, 3};
  const double sb[] = {1, 2, 3, 4, 5, 9}, sr[] = {1, 2, 3, 4, 5, 9}, sc[] = {9, 3, 4, 0, 1, 2};
  CHECK_RUN(ALONG("permute %x {axis = 1, path = \"cols@2x3\"}"), in, pc, 0);
  CHECK_RUN(ALONG("permute %x {axis = 1, path = \"cols@2x3\", inverse = 1}"), in, pi, 0);
  CHECK_RUN(ALONG("shift %x {axis = 1, by = 1}"), in, s1, 0);
  CHECK_RUN(ALONG("shift %x {axis = 1, by = 2, fill = 7}"), in, s2, 0);
  CHECK_RUN(ALONG("shift %x, %e {axis = 1, by = -1}"), in, sb, 0);
  CHECK_RUN(ALONG("shift %x, %e {axis = 1, by = 1, path = \"rows~@2x3\"}"), in, sr, 0);
  CHECK_RUN(ALONG("shift %x, %e {axis = 1, by = 1, path = \"cols@2x3\"}"), in, sc, 0);
}

TEST(sources) {
  const double *in[] = {NUMBERS(3)};
  const double io[] = {0, 0, 1, 1}, cn[] = {1, 2.5, INFINITY, 0};
  CHECK_RUN(FUNC("%s: i32[]", "f32[2, 2]", "  %y = iota {axis = 0} : f32[2, 2]\n"), in, io, 0);
  CHECK_RUN(FUNC("%s: i32[]", "f32[4]", "  %y = constant {data = [1, 2.5, inf, 0]} : f32[4]\n"), in,
            cn, 0);
  double want[3];
  for (uint32_t i = 0; i < 3; i++) want[i] = (double)vtb_random_uniform(3, 5, i);
  CHECK_RUN(FUNC("%s: i32[]", "f32[3]", "  %y = random %s {stream = 5} : f32[3]\n"), in, want, 0);
  /* counted from row 3 on they are those of one row behind the others */
  for (uint32_t i = 0; i < 3; i++) want[i] = (double)vtb_random_uniform(3, 5, 3 + i);
  CHECK_RUN(FUNC("%s: i32[]", "f32[3]", "  %y = random %s, %s {stream = 5} : f32[3]\n"), in, want,
            0);
  double mean = 0;
  for (uint32_t i = 0; i < 4096; i++) {
    float u = vtb_random_uniform(1, 2, i);
    CHECK(u >= 0 && u < 1);
    mean += (double)u / 4096;
  }
  CHECK_NEAR(mean, 0.5, 0.02);
  CHECK(vtb_random_uniform(1, 2, 3) != vtb_random_uniform(1, 3, 2));
}

/* Every assignment of letters, term by term. */
static void check_einsum(const char *spec, const char *a_type, const char *b_type,
                         const char *y_type) {
  char text[512];
  snprintf(text, sizeof text,
           "func @f(%%a: %s, %%b: %s) -> (%s) {\n  %%y = einsum %%a, %%b {spec = \"%s\"} : %s\n  "
           "return %%y\n}\n",
           a_type, b_type, y_type, spec, y_type);
  program p = program_parse(text);
  unsigned long long seed = 7;
  vtb_tensor args[2] = {random_tensor(p.f->args[0]->type, -1, 1, &seed),
                        random_tensor(p.f->args[1]->type, -1, 1, &seed)};
  vtb_tensor y;
  run(&p, args, &y);
  const char *in0 = spec, *in1 = strchr(spec, ',') + 1, *out = strchr(spec, '>') + 1;
  int64_t size[128] = {0};
  char letters[27] = "";
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < args[k].type.rank; i++) {
      char l = (k ? in1 : in0)[i];
      size[(int)l] = args[k].type.dim[i].size;
      if (!strchr(letters, l)) strncat(letters, &l, 1);
    }
  int64_t total = 1;
  for (char *l = letters; *l; l++) total *= size[(int)*l];
  double *want = calloc((size_t)vtb_type_count(&y.type), sizeof *want);
  for (int64_t n = 0; n < total; n++) {
    int64_t at[128] = {0}, rest = n, ia = 0, ib = 0, iy = 0;
    for (char *l = letters; *l; l++) at[(int)*l] = rest % size[(int)*l], rest /= size[(int)*l];
    for (int i = 0; i < args[0].type.rank; i++) ia = ia * size[(int)in0[i]] + at[(int)in0[i]];
    for (int i = 0; i < args[1].type.rank; i++) ib = ib * size[(int)in1[i]] + at[(int)in1[i]];
    for (int i = 0; out[i]; i++) iy = iy * size[(int)out[i]] + at[(int)out[i]];
    want[iy] += args[0].data[ia] * args[1].data[ib];
  }
  for (int64_t i = 0; i < vtb_type_count(&y.type); i++)
    CHECK_MSG(fabs(y.data[i] - want[i]) <= 1e-13, "%s at %d: %g, want %g", spec, (int)i, y.data[i],
              want[i]);
  free(want);
  for (int i = 0; i < 2; i++) vtb_tensor_free(&args[i]);
  vtb_tensor_free(&y);
  program_free(&p);
}

TEST(einsum_equals_its_definition) {
  check_einsum("bnd,ed->bne", "f32[2, 3, 5]", "f32[4, 5]", "f32[2, 3, 4]");
  check_einsum("bhtd,bhsd->bhts", "f32[2, 2, 3, 5]", "f32[2, 2, 4, 5]", "f32[2, 2, 3, 4]");
  check_einsum("bhts,bshd->bthd", "f32[2, 2, 3, 4]", "f32[2, 4, 2, 5]", "f32[2, 3, 2, 5]");
  check_einsum("a,b->ba", "f32[3]", "f32[4]", "f32[4, 3]");
  check_einsum("ab,ab->", "f32[3, 4]", "f32[3, 4]", "f32[]");
  check_einsum("abc,cd->d", "f32[2, 3, 4]", "f32[4, 5]", "f32[5]");
  check_einsum("ab,cd->ac", "f32[2, 3]", "f32[4, 5]", "f32[2, 4]");
  check_einsum(",a->a", "f32[]", "f32[4]", "f32[4]");
  check_einsum("abcdefgh,->", "f32[1, 2, 1, 2, 1, 2, 1, 2]", "f32[]", "f32[]");
  check_einsum("kv,k->v", "f32[9, 2]", "f32[9]", "f32[2]");
}

TEST(patches) {
  const double x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const double *in[] = {x};
  const double cols[] = {0, 0, 0, 1, 0, 0, 2, 3, 0, 4, 0, 7, 5, 6, 8, 9},
               back[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
#define PATCH "kernel = [2, 2], stride = [2, 2], pad = [1, 1, 0, 0]"
  CHECK_RUN(
      FUNC("%x: f32[1, 1, 3, 3]", "f32[1, 4, 4]", "  %y = im2col %x {" PATCH "} : f32[1, 4, 4]\n"),
      in, cols, 0);
  CHECK_RUN(FUNC("%x: f32[1, 1, 3, 3]", "f32[1, 1, 3, 3]",
                 "  %c = im2col %x {" PATCH "} : f32[1, 4, 4]\n"
                 "  %y = col2im %c {" PATCH ", image = [1, 3, 3]} : f32[1, 1, 3, 3]\n"),
            in, back, 0);
  const double behind[] = {1, 2, 4, 5, 3, 0, 6, 0, 7, 8, 0, 0, 9, 0, 0, 0};
  CHECK_RUN(FUNC("%x: f32[1, 1, 3, 3]", "f32[1, 4, 4]",
                 "  %y = im2col %x {kernel = [2, 2], stride = [2, 2], pad = [0, 0, 1, 1]} : "
                 "f32[1, 4, 4]\n"),
            in, behind, 0);
  const double twice[] = {1, 4, 3, 8, 20, 12, 7, 16, 9};
  CHECK_RUN(
      FUNC(
          "%x: f32[1, 1, 3, 3]", "f32[1, 1, 3, 3]",
          "  %c = im2col %x {kernel = [2, 2], stride = [1, 1], pad = [0, 0, 0, 0]} : f32[1, 4, 4]\n"
          "  %y = col2im %c {kernel = [2, 2], stride = [1, 1], pad = [0, 0, 0, 0], image = [1, 3, "
          "3]} : f32[1, "
          "1, 3, 3]\n"),
      in, twice, 0);
}

TEST(depthwise_convolution) {
  const double x[] = {1, 2, 3, 4}, w[] = {1, 10, 100};
  const double *in[] = {x, w};
#define CONV(attrs)                                                                                \
  FUNC("%x: f32[1, 4, 1], %w: f32[1, 1, 3]", "f32[1, 4, 1]",                                       \
       "  %y = dwconv %x, %w {" attrs "} : f32[1, 4, 1]\n")
  const double causal[] = {100, 210, 321, 432}, same[] = {210, 321, 432, 43};
  CHECK_RUN(CONV("grid = [1, 4], pad = [0, 2]"), in, causal, 0);
  CHECK_RUN(CONV("grid = [1, 4], pad = [0, 1]"), in, same, 0);
  const double reversed[] = {123, 234, 340, 400}; /* steps 4 3 2 1: y = 400, 340, 234, 123 */
  CHECK_RUN(CONV("grid = [1, 4], pad = [0, 2], path = \"rows~@1x4\""), in, reversed, 0);
  const double k2[] = {0, 1, 0, 0, 0, 0, 0, 0, 0}, up[] = {0, 0, 1, 2};
  const double *in2[] = {x, k2};
  CHECK_RUN(FUNC("%x: f32[1, 4, 1], %w: f32[1, 3, 3]", "f32[1, 4, 1]",
                 "  %y = dwconv %x, %w {grid = [2, 2], pad = [1, 1]} : f32[1, 4, 1]\n"),
            in2, up, 0);
  /* in columns, the step before is the left neighbour's column: the same kernel looks left */
  const double left[] = {0, 1, 0, 3};
  CHECK_RUN(FUNC("%x: f32[1, 4, 1], %w: f32[1, 3, 3]", "f32[1, 4, 1]",
                 "  %y = dwconv %x, %w {grid = [2, 2], pad = [1, 1], path = \"cols@2x2\"} : f32[1, "
                 "4, 1]\n"),
            in2, left, 0);
}

/* The middle token is none of the row of four: it stays, and the others meet as neighbours. */
TEST(depthwise_past_an_extra_token) {
  const double x[] = {1, 2, 9, 3, 4}, w[] = {1, 10, 100}, b[] = {1000};
  const double *in[] = {x, w, b}, want[] = {1210, 1321, 9, 1432, 1043};
  CHECK_RUN(FUNC("%x: f32[1, 5, 1], %w: f32[1, 1, 3], %b: f32[1]", "f32[1, 5, 1]",
                 "  %y = dwconv %x, %w, %b {grid = [1, 4], pad = [0, 1], extra = [2]} : f32[1, 5, "
                 "1]\n"),
            in, want, 0);
  const double dy[] = {1, 2, 9, 3, 4}, *both[] = {x, dy}, sum[] = {10};
  CHECK_RUN(FUNC("%x: f32[1, 5, 1], %dy: f32[1, 5, 1]", "f32[1]",
                 "  %dw, %y = dwconv_dw %x, %dy {grid = [1, 4], pad = [0, 1], kernel = [1, 3], "
                 "extra = [2], start = 1} : f32[1, 1, 3], f32[1]\n"),
            both, sum, 0);
}

TEST(depthwise_adjoints) {
  static const char *const attrs[] = {"grid = [3, 4], pad = [1, 1]", "grid = [1, 12], pad = [0, 2]",
                                      "grid = [4, 3], pad = [2, 0], path = \"hilbert~@3x4\""};
  for (int i = 0; i < 3; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "func @f(%%x: f32[2, 12, 3], %%w: f32[3, 2, 3]) -> (f32[2, 12, 3]) {\n"
             "  %%y = dwconv %%x, %%w {%s} : f32[2, 12, 3]\n  return %%y\n}\n",
             attrs[i]);
    program f = program_parse(text);
    snprintf(text, sizeof text,
             "func @g(%%x: f32[2, 12, 3], %%w: f32[3, 2, 3], %%dy: f32[2, 12, 3]) -> (f32[2, 12, "
             "3], f32[3, 2, 3]) {\n"
             "  %%dx = dwconv_dx %%dy, %%w {%s} : f32[2, 12, 3]\n"
             "  %%dw = dwconv_dw %%x, %%dy {%s, kernel = [2, 3]} : f32[3, 2, 3]\n  return %%dx, "
             "%%dw\n}\n",
             attrs[i], attrs[i]);
    program g = program_parse(text);
    unsigned long long seed = 3;
    vtb_tensor args[3], d[2];
    for (int k = 0; k < 3; k++) args[k] = random_tensor(g.f->args[k]->type, -1, 1, &seed);
    run(&g, args, d);
    for (int k = 0; k < 2; k++) check_gradient(&f, args, &args[2], k, &d[k], attrs[i]);
    for (int k = 0; k < 3; k++) vtb_tensor_free(&args[k]);
    for (int k = 0; k < 2; k++) vtb_tensor_free(&d[k]);
    program_free(&f);
    program_free(&g);
  }
}

static bool count_and_stop(void *user, const vtb_value *value, const vtb_tensor *t) {
  int *left = user;
  return t->data && value && --*left > 0;
}

TEST(calls_and_watching) {
  program p =
      program_parse("entry func @main(%x: f32[B, 2]) -> (f32[B, 2], f32[B, 2], f32[B, 2]) {\n"
                    "  %a, %b = call @g(%x) : f32[B, 2], f32[B, 2]\n"
                    "  %c, %d = call @g(%a) : f32[B, 2], f32[B, 2]\n"
                    "  return %c, %x, %c\n}\n"
                    "func @g(%x: f32[B, 2]) -> (f32[B, 2], f32[B, 2]) {\n"
                    "  %y = add %x, %x : f32[B, 2]\n  return %y, %x\n}\n");
  double x[] = {1, 2, 3, 4, 5, 6};
  vtb_tensor arg = {bound(p.f->args[0]->type, 3), x}, r[3];
  run(&p, &arg, r);
  for (int i = 0; i < 6; i++)
    CHECK(r[0].data[i] == 4 * x[i] && r[1].data[i] == x[i] && r[2].data[i] == 4 * x[i]);
  for (int i = 0; i < 3; i++) vtb_tensor_free(&r[i]);
  int left = 100;
  vtb_interp_options o = {.watch = count_and_stop, .user = &left};
  vtb_error err = {0};
  CHECK(vtb_interpret(p.f, &arg, r, &o, &err) == VTB_OK);
  CHECK(left == 100 - 6); /* two results of each call, one inside each */
  for (int i = 0; i < 3; i++) vtb_tensor_free(&r[i]);
  left = 2;
  CHECK(vtb_interpret(p.f, &arg, r, &o, &err) == VTB_E_NUMBERS && err.text[0]);
  arg.type.dim[1].size = 3;
  err.text[0] = 0;
  CHECK(vtb_interpret(p.f, &arg, r, NULL, &err) == VTB_E_INPUT);
  program_free(&p);
}

int main(void) {
  RUN(scalar_formulas);
  RUN(two_operand_formulas_and_broadcast);
  RUN(moving_elements);
  RUN(along_paths);
  RUN(sources);
  RUN(einsum_equals_its_definition);
  RUN(patches);
  RUN(depthwise_convolution);
  RUN(depthwise_past_an_extra_token);
  RUN(depthwise_adjoints);
  RUN(calls_and_watching);
  return test_done();
}
