/* Every differentiable op of the table against finite differences, with random cotangents. A
 * differentiable op without a sample fails. */
#include "tests/passes/grad_check.h"

typedef struct sample {
  const char *op;
  const char *args, *pre,
      *call;         /* pre: instructions before; call: the instruction without its results */
  const char *types; /* of the results */
  int n_results;     /* 0 means 1 */
  double lo, hi;     /* of all arguments; both 0: -1 to 1 */
  bool linear;       /* in all arguments together */
} sample;

/* clang-format off */
#define XT "f32[B, 3, 4]"
#define UNARY(name, ...) \
  {.op = #name, .args = "%x: " XT, .call = #name " %x", .types = XT, __VA_ARGS__}
#define SWAPPED(name, other, call_, ...) \
  {.op = #name, .args = "%x: " XT ", %y: " other, .call = call_, .types = XT, __VA_ARGS__}
#define BINARY(name, other, ...) \
  SWAPPED(name, other, #name " %x, %y", __VA_ARGS__), \
  SWAPPED(name, other, #name " %y, %x", __VA_ARGS__)
#define EINSUM(spec, a, b, r) \
  {.op = "einsum", .args = "%x: " a ", %y: " b, .call = "einsum %x, %y {spec = \"" spec "\"}", \
   .types = r}
#define QKV "%q: f32[B, 5, 2, 3], %k: f32[B, 5, 2, 3], %v: f32[B, 5, 2, 4], %d: "
#define S0 ", %s: f32[B, 2, 3, 4]"
#define N0 ", %n: f32[B, 2, 3]"
#define YS "f32[B, 5, 2, 4], f32[B, 2, 3, 4]"
#define ZN ", f32[B, 5, 2], f32[B, 2, 3]"
#define SCAN_OF(args_, operands, types_, n) \
  {.op = "linscan", .args = QKV args_, .call = "linscan %q, %k, %v, %d" operands "}", \
   .types = types_, .n_results = n, .lo = 0.1, .hi = 0.95}
#define SCAN(d, attrs) SCAN_OF(d, " {" attrs, YS, 2)
#define SCAN_INIT(d, attrs) SCAN_OF(d S0, ", %s {init = 1, " attrs, YS, 2)
#define SCAN_NORM(d, attrs) SCAN_OF(d, " {normalizer = 1, " attrs, YS ZN, 4)
#define SCAN_NORM_INIT(d, attrs) \
  SCAN_OF(d S0 N0, ", %s, %n {init = 1, normalizer = 1, " attrs, YS ZN, 4)
#define DELTA_OF(r, d, more, operand, attrs) \
  {.op = "delta", .args = "%k: f32[B, 5, 2, " r ", 3], %v: f32[B, 5, 2, " r ", 4], " \
                          "%b: f32[B, 5, 2, " r ", 3], %d: " d more, \
   .call = "delta %k, %v, %b, %d" operand attrs "}", .types = "f32[B, 5, 2, " r ", 4]", \
   .lo = -0.7, .hi = 0.7}
#define DELTA(r, d, attrs) DELTA_OF(r, d, "", " {", attrs)
#define DELTA_INIT(r, d, attrs) DELTA_OF(r, d, S0, ", %s {init = 1, ", attrs)

#define ATTENTION(arg, operand, attrs) \
  {.op = "attention", .args = "%q: f32[B, 3, 4, 3], %k: f32[B, 5, 2, 3], %v: f32[B, 5, 2, 2]" arg, \
   .pre = "", .call = "attention %q, %k, %v" operand " {" attrs "}", \
   .types = "f32[B, 3, 4, 2], f32[B, 3, 4]", .n_results = 2}

static const sample samples[] = {
    UNARY(neg, .linear = true), UNARY(abs), UNARY(exp), UNARY(log, .lo = 0.5, .hi = 2),
    UNARY(sqrt, .lo = 0.5, .hi = 2), UNARY(rsqrt, .lo = 0.5, .hi = 2), UNARY(square), UNARY(sin),
    UNARY(cos), UNARY(tanh), UNARY(erf), UNARY(sigmoid), UNARY(log_sigmoid, .lo = -9, .hi = 9),
    UNARY(softplus, .lo = -9, .hi = 9), UNARY(silu, .lo = -4, .hi = 4),
    UNARY(gelu, .lo = -3, .hi = 3), UNARY(gelu_tanh, .lo = -3, .hi = 3), UNARY(relu),
    BINARY(add, XT, .linear = true), BINARY(add, "f32[4]", .linear = true),
    BINARY(add, "f32[]", .linear = true),
    BINARY(sub, "f32[3, 1]", .linear = true), BINARY(mul, "f32[B, 1, 4]"),
    BINARY(mul, "f32[1, 3, 1]"),
    BINARY(mul, "f32[]"),
    BINARY(div, "f32[3, 1]", .lo = 0.5, .hi = 2), BINARY(max, "f32[4]"), BINARY(min, "f32[4]"),
    BINARY(pow, "f32[3, 1]", .lo = 0.5, .hi = 2),
    {.op = "select", .args = "%x: " XT ", %y: f32[3, 1]", .pre = "  %c = gt %x, %y : " XT "\n",
     .call = "select %c, %x, %y", .types = XT},

    {.op = "reduce_sum", .args = "%x: " XT, .call = "reduce_sum %x {axes = [1]}",
     .types = "f32[B, 4]", .linear = true},
    {.op = "reduce_sum", .args = "%x: " XT, .call = "reduce_sum %x {axes = [0, 2], keep = 1}",
     .types = "f32[1, 3, 1]", .linear = true},
    {.op = "reduce_max", .args = "%x: " XT, .call = "reduce_max %x {axes = [2], keep = 1}",
     .types = "f32[B, 3, 1]"},
    {.op = "reduce_max", .args = "%x: " XT, .call = "reduce_max %x {axes = [0, 2]}",
     .types = "f32[3]"},
    {.op = "reduce_max", .args = "%x: " XT, .call = "reduce_max %x {axes = [2, 1]}",
     .types = "f32[B]"},

    {.op = "reshape", .args = "%x: " XT, .call = "reshape %x {shape = [-1, 2, 6]}",
     .types = "f32[B, 2, 6]", .linear = true},
    {.op = "broadcast", .args = "%x: f32[3, 1]", .call = "broadcast %x {shape = [2, 3, 4]}",
     .types = "f32[2, 3, 4]", .linear = true},
    {.op = "transpose", .args = "%x: " XT, .call = "transpose %x {perm = [1, 2, 0]}",
     .types = "f32[3, 4, B]", .linear = true},
    {.op = "slice", .args = "%x: " XT, .call = "slice %x {axis = 2, start = 1, limit = 3}",
     .types = "f32[B, 3, 2]", .linear = true},
    {.op = "slice", .args = "%x: f32[B, 9]",
     .call = "slice %x {axis = 1, start = 1, limit = 8, step = 3}",
     .types = "f32[B, 3]", .linear = true},
    {.op = "pad", .args = "%x: " XT, .call = "pad %x {axis = 1, low = 2, high = 1}",
     .types = "f32[B, 6, 4]", .linear = true},
    {.op = "pad", .args = "%x: " XT, .call = "pad %x {axis = 1, low = 1, high = 0, step = 2}",
     .types = "f32[B, 6, 4]", .linear = true},
    {.op = "concat", .args = "%x: " XT ", %y: f32[B, 1, 4]", .call = "concat %x, %y, %x {axis = 1}",
     .types = "f32[B, 7, 4]", .linear = true},
    {.op = "permute", .args = "%x: f32[B, 6]",
     .call = "permute %x {axis = 1, path = \"cols~@2x3\"}",
     .types = "f32[B, 6]", .linear = true},
    {.op = "permute", .args = "%x: f32[B, 6]",
     .call = "permute %x {axis = 1, path = \"snake@3x2\", inverse = 1}",
     .types = "f32[B, 6]", .linear = true},
    {.op = "shift", .args = "%x: f32[B, 6, 2]",
     .call = "shift %x {axis = 1, by = 2, path = \"cols@2x3\"}",
     .types = "f32[B, 6, 2]", .linear = true},
    {.op = "shift", .args = "%x: f32[B, 6, 2]", .call = "shift %x {axis = 1, by = -1, fill = 3.0}",
     .types = "f32[B, 6, 2]"},
    {.op = "shift", .args = "%x: f32[B, 6, 2], %y: f32[B, 2]",
     .call = "shift %x, %y {axis = 1, by = 1, path = \"cols~@2x3\"}", .types = "f32[B, 6, 2]",
     .linear = true},
    {.op = "shift", .args = "%x: f32[B, 6, 2], %y: f32[B, 2]",
     .call = "shift %x, %y {axis = 1, by = -1, path = \"snake@2x3\"}", .types = "f32[B, 6, 2]",
     .linear = true},

    EINSUM("bnd,ed->bne", XT, "f32[5, 4]", "f32[B, 3, 5]"),
    EINSUM("bnd,bmd->bnm", XT, "f32[B, 5, 4]", "f32[B, 3, 5]"),
    EINSUM("bngi,goi->bngo", "f32[B, 3, 2, 4]", "f32[2, 5, 4]", "f32[B, 3, 2, 5]"),
    EINSUM("bnd,d->bd", XT, "f32[4]", "f32[B, 4]"),   /* n is summed in one operand alone */
    EINSUM("bnd,em->b", XT, "f32[5, 2]", "f32[B]"),
    EINSUM("a,b->ab", "f32[3]", "f32[4]", "f32[3, 4]"),
    {.op = "im2col", .args = "%x: f32[B, 2, 5, 4]", .types = "f32[B, 6, 12]", .linear = true,
     .call = "im2col %x {kernel = [3, 2], stride = [2, 2], pad = [1, 0, 1, 1]}"},
    {.op = "col2im", .args = "%x: f32[B, 6, 12]", .types = "f32[B, 2, 5, 4]", .linear = true,
     .call = "col2im %x {kernel = [3, 2], stride = [2, 2], pad = [1, 0, 1, 1], image = [2, 5, 4]}"},
    {.op = "dwconv", .args = "%x: f32[B, 6, 2], %w: f32[2, 3, 3]", .types = "f32[B, 6, 2]",
     .call = "dwconv %x, %w {grid = [2, 3], pad = [1, 1]}"},
    {.op = "dwconv", .args = "%x: f32[B, 6, 2], %w: f32[2, 3, 2]", .types = "f32[B, 6, 2]",
     .call = "dwconv %x, %w {grid = [3, 2], pad = [1, 0], path = \"cols~@2x3\"}"},
    {.op = "dwconv", .args = "%x: f32[B, 6, 2], %w: f32[2, 1, 4]", .types = "f32[B, 6, 2]",
     .call = "dwconv %x, %w {grid = [1, 6], pad = [0, 3], path = \"rows~@1x6\"}"},
    {.op = "im2col", .args = "%x: f32[B, 2, 3, 4, 3]", .types = "f32[B, 8, 16]", .linear = true,
     .call = "im2col %x {kernel = [2, 2, 2], stride = [1, 2, 2], "
             "pad = [0, 0, 1, 0, 0, 1]}"},
    {.op = "col2im", .args = "%x: f32[B, 8, 16]", .types = "f32[B, 2, 3, 4, 3]", .linear = true,
     .call = "col2im %x {kernel = [2, 2, 2], stride = [1, 2, 2], "
             "pad = [0, 0, 1, 0, 0, 1], image = [2, 3, 4, 3]}"},
    {.op = "im2col", .args = "%x: f32[B, 2, 5]", .types = "f32[B, 3, 6]", .linear = true,
     .call = "im2col %x {kernel = [3], stride = [2], pad = [1, 1]}"},
    {.op = "dwconv", .args = "%x: f32[B, 12, 2], %w: f32[2, 3, 1, 3]", .types = "f32[B, 12, 2]",
     .call = "dwconv %x, %w {grid = [3, 2, 2], pad = [1, 0, 1], path = \"frames~@2x3x2\"}"},
    {.op = "dwconv", .args = "%x: f32[B, 6, 2], %w: f32[2, 3]", .types = "f32[B, 6, 2]",
     .call = "dwconv %x, %w {grid = [6], pad = [1]}"},
    {.op = "dwconv", .args = "%x: f32[B, 8, 2], %w: f32[2, 3, 3], %s: f32[2]",
     .types = "f32[B, 8, 2]",
     .call = "dwconv %x, %w, %s {grid = [2, 3], pad = [1, 1], extra = [3, 7], path = "
             "\"rows~@8\"}"},
    {.op = "dwconv_dx", .args = "%x: f32[B, 7, 2], %w: f32[2, 3, 3]", .types = "f32[B, 7, 2]",
     .call = "dwconv_dx %x, %w {grid = [2, 3], pad = [1, 1], extra = [0]}"},
    {.op = "dwconv_dw", .args = "%x: f32[B, 7, 2], %y: f32[B, 7, 2]", .types = "f32[2, 3, 3]",
     .call = "dwconv_dw %x, %y {grid = [2, 3], pad = [1, 1], kernel = [3, 3], extra = [2], path = "
             "\"rows~@7\"}"},
    {.op = "dwconv_dw", .args = "%x: f32[B, 12, 2], %y: f32[B, 12, 2]",
     .types = "f32[2, 2, 1, 2]",
     .call = "dwconv_dw %x, %y {grid = [2, 2, 3], pad = [1, 0, 0], kernel = [2, 1, 2]}"},
    {.op = "dwconv_dx", .args = "%x: f32[B, 6, 2], %w: f32[2, 3, 3]", .types = "f32[B, 6, 2]",
     .call = "dwconv_dx %x, %w {grid = [2, 3], pad = [1, 1], path = \"rows~@2x3\"}"},
    {.op = "dwconv_dw", .args = "%x: f32[B, 6, 2], %y: f32[B, 6, 2]", .types = "f32[2, 3, 3]",
     .call = "dwconv_dw %x, %y {grid = [2, 3], pad = [1, 1], kernel = [3, 3], "
             "path = \"rows~@2x3\"}"},

    SCAN("f32[2]", "class = \"constant\""),
    SCAN("f32[B, 5, 2]", "class = \"scalar\", mode = \"parallel\""),
    SCAN("f32[B, 5, 2]",
         "class = \"scalar\", mode = \"chunkwise\", chunk = 2, path = \"rows~@1x5\""),
    SCAN("f32[B, 5, 2, 3]", "class = \"key\", mode = \"chunkwise\", chunk = 3"),
    SCAN("f32[B, 5, 2, 4]", "class = \"value\""),
    SCAN("f32[B, 5, 2, 3, 4]", "class = \"full\", path = \"rows~@1x5\""),
    {.op = "linscan", .args = QKV "f32[B, 5, 2, 4], %a: f32[2, 3, 4]" S0,
     .call = "linscan %q, %k, %v, %d, %a, %s {class = \"rates\", init = 1, path = \"rows~@1x5\"}",
     .types = YS,
     .n_results = 2},
    SCAN_INIT("f32[B, 5, 2, 4]", "class = \"value\""),
    SCAN_INIT("f32[B, 5, 2, 3, 4]", "class = \"full\""),
    SCAN_NORM("f32[B, 5, 2]", "class = \"scalar\""),
    SCAN_NORM_INIT("f32[2]", "class = \"constant\""),
    SCAN_NORM_INIT("f32[B, 5, 2]", "class = \"scalar\", mode = \"chunkwise\", chunk = 2"),
    SCAN_NORM_INIT("f32[B, 5, 2, 3]", "class = \"key\", path = \"rows~@1x5\""),
    DELTA("1", "f32[2]", "class = \"constant\""),
    DELTA("1", "f32[B, 5, 2]", "class = \"scalar\", path = \"rows~@1x5\""),
    DELTA("1", "f32[B, 5, 2, 3]", "class = \"key\", mode = \"chunkwise\", chunk = 2"),
    DELTA("2", "f32[2]", "class = \"constant\", mode = \"parallel\""),
    DELTA("2", "f32[B, 5, 2]", "class = \"scalar\", mode = \"chunkwise\", chunk = 3"),
    DELTA("3", "f32[B, 5, 2, 3]", "class = \"key\", path = \"[3,1,4,0,2]@1x5\""),
    DELTA_INIT("1", "f32[2]", "class = \"constant\", path = \"rows~@1x5\""),
    DELTA_INIT("1", "f32[B, 5, 2]", "class = \"scalar\", mode = \"chunkwise\", chunk = 2"),
    DELTA_INIT("1", "f32[B, 5, 2, 3]", "class = \"key\", mode = \"parallel\""),
    DELTA_INIT("2", "f32[2]", "class = \"constant\", path = \"[3,1,4,0,2]@1x5\""),
    DELTA_INIT("3", "f32[B, 5, 2]", "class = \"scalar\""),
    DELTA_INIT("2", "f32[B, 5, 2, 3]", "class = \"key\", path = \"rows~@1x5\""),
    {.op = "maxplus", .args = "%g: f32[B, 6, 2], %i: f32[B, 6, 2]", .types = "f32[B, 6, 2]",
     .call = "maxplus %g, %i {path = \"cols~@2x3\"}"},
    {.op = "maxplus", .args = "%g: f32[B, 6, 2], %i: f32[B, 6, 2], %m: f32[B, 2]",
     .types = "f32[B, 6, 2]",
     .call = "maxplus %g, %i, %m"},
    {.op = "gather", .args = "%x: f32[5, 2]", .types = "f32[4, 2]", .linear = true,
     .pre = "  %i = constant {data = [3, 0, 5, 3]} : i32[4]\n", .call = "gather %x, %i {axis = 0}"},
    {.op = "gather", .args = "%x: f32[B, 2]", .types = "f32[3, 2]", .linear = true,
     .pre = "  %i = constant {data = [1, -1, 0]} : i32[3]\n", .call = "gather %x, %i {axis = 0}"},
    {.op = "gather", .args = "%x: f32[3, 4, 2]", .types = "f32[3, 2, 2, 2]", .linear = true,
     .pre = "  %i = constant {data = [0, 0, 3, 1, 2, 2, 2, 2, 9, 0, 1, 0]} : i32[3, 2, 2]\n",
     .call = "gather %x, %i {axis = 1}"},
    {.op = "scatter_sum", .args = "%x: f32[2, 3, 2]", .types = "f32[2, 4, 2]", .linear = true,
     .pre = "  %i = constant {data = [0, 0, 3, 1, 4, 1]} : i32[2, 3]\n",
     .call = "scatter_sum %x, %i {axis = 1, size = 4}"},
    {.op = "scatter_sum", .args = "%x: f32[3, 2]", .types = "f32[B, 2]", .linear = true,
     .pre = "  %i = constant {data = [1, 1, 0]} : i32[3]\n",
     .call = "scatter_sum %x, %i {axis = 0, size = -1}"},
    {.op = "prefix_sum", .args = "%x: f32[B, 6, 2]", .types = "f32[B, 6, 2]", .linear = true,
     .call = "prefix_sum %x {axis = 1, path = \"cols~@2x3\", exclusive = 1}"},
    {.op = "prefix_sum", .args = "%x: f32[B, 6, 2]", .types = "f32[B, 6, 2]", .linear = true,
     .call = "prefix_sum %x {axis = 2, reverse = 1}"},
    {.op = "prefix_sum", .args = "%x: f32[B, 6, 2]", .types = "f32[B, 6, 2]",
     .call = "prefix_sum %x {axis = 1, wrap = 9.0}"},
    ATTENTION("", "", ""),
    ATTENTION("", "", "scale = 0.7, causal = 1"),
    ATTENTION(", %b: f32[3, 5]", ", %b", "scale = -0.5"),
    ATTENTION(", %b: f32[2, 3, 5]", ", %b", "causal = 1"),
    ATTENTION(", %b: f32[B, 1, 3, 5]", ", %b", ""),
    {.op = "call", .args = "%x: " XT ", %y: f32[4]", .call = "call @inner(%x, %y)", .types = XT},
    {.op = "fold", .args = "%s: f32[B, 4], %x: " XT ", %w: f32[4, 4]",
     .types = XT ", f32[B, 4]", .n_results = 2,
     .call = "fold @advance(%s, %x, %w) {states = 1, seqs = 1, path = \"rows~@1x3\"}"},
    {.op = "tap", .args = "%x: " XT, .call = "tap %x {name = \"seen\"}", .types = XT,
     .linear = true},
};
/* clang-format on */
#define N_SAMPLES (sizeof samples / sizeof *samples)

#define INNER                                                                                      \
  "func @inner(%a: " XT ", %b: f32[4]) -> (" XT ") {\n  %c = mul %a, %b : " XT                     \
  "\n  %d = tanh %c : " XT "\n  return %d\n}\n"

/* s' = tanh(s W + x) */
#define ADVANCE                                                                                    \
  "func @advance(%s: f32[B, 4], %x: f32[B, 1, 4], %w: f32[4, 4]) -> (f32[B, 4], f32[B, 1, 4]) {\n" \
  "  %p = einsum %s, %w {spec = \"bi,io->bo\"} : f32[B, 4]\n  %q = reshape %p {shape = [-1, 1, "   \
  "4]} : f32[B, 1, 4]\n"                                                                           \
  "  %r = add %q, %x : f32[B, 1, 4]\n  %t = tanh %r : f32[B, 1, 4]\n"                              \
  "  %u = reshape %t {shape = [-1, 4]} : f32[B, 4]\n  return %u, %t\n}\n"

static void sample_text(const sample *s, vtb_strbuf *out) {
  static const char *const names[] = {"", "%r", "%r, %r1", "%r, %r1, %r2", "%r, %r1, %r2, %r3"};
  const char *results = names[s->n_results ? s->n_results : 1];
  if (vtb_streq(s->op, "call")) vtb_strbuf_puts(out, INNER);
  if (vtb_streq(s->op, "fold")) vtb_strbuf_puts(out, ADVANCE);
  vtb_strbuf_printf(out, "func @f(%s) -> (%s) {\n%s", s->args, s->types, s->pre ? s->pre : "");
  vtb_strbuf_printf(out, "  %s = %s : %s\n  return %s\n}\n", results, s->call, s->types, results);
}

TEST(samples_match_differences) {
  for (size_t i = 0; i < N_SAMPLES; i++) {
    vtb_strbuf text = {0};
    sample_text(&samples[i], &text);
    int before = test_failures;
    grad_check_text(text.at, "f", samples[i].lo, samples[i].hi);
    if (test_failures != before) fprintf(stderr, "in the sample\n%s", text.at);
    vtb_strbuf_free(&text);
  }
}

/* <v, J u> = <J^T v, u>, where J u = f(u) for linear f. */
TEST(linear_ops_transpose_exactly) {
  int n_linear = 0;
  for (size_t i = 0; i < N_SAMPLES; i++) {
    if (!samples[i].linear) continue;
    n_linear++;
    vtb_strbuf text = {0};
    sample_text(&samples[i], &text);
    vtb_module *m = grad_parse(text.at);
    vtb_func *f = grad_func(m, "f");
    grad_case c = grad_case_new(f, 0, 0);
    double left = grad_dot(&c.results[0], &c.args[f->n_args]), right = 0;
    for (int a = 0; a < f->n_args; a++) right += grad_dot(&c.results[f->n_returns + a], &c.args[a]);
    CHECK_MSG(fabs(left - right) <= 1e-12, "%s: <v, Ju> = %.17g, <J'v, u> = %.17g", samples[i].op,
              left, right);
    grad_case_free(&c);
    vtb_module_free(m);
    vtb_strbuf_free(&text);
  }
  CHECK(n_linear > 15);
}

/* Elementwise ops have theirs in test_scalar_ops.c as well, made from their rows. */
TEST(every_differentiable_op_has_a_sample) {
  static const struct {
    const char *op, *grad;
  } rows[] = {
#define VTB_OP(name, klass, min, max, shape, interp, grad, ...) {#name, #grad},
#include "ir/ops.def"
#undef VTB_OP
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    if (vtb_streq(rows[r].grad, "zero") || vtb_streq(rows[r].grad, "not_diff") ||
        vtb_streq(rows[r].grad, "scalar"))
      continue;
    bool found = false;
    for (size_t i = 0; i < N_SAMPLES; i++) found |= vtb_streq(samples[i].op, rows[r].op);
    CHECK_MSG(found, "%s is differentiable and has no sample", rows[r].op);
  }
}

/* ---- what random numbers do not reach -------------------------------------------------------- */

static void check_at(const char *text, const double *x, int n, const double *want) {
  vtb_module *m = grad_parse(text);
  vtb_func *f = grad_func(m, "f");
  vtb_func *g = grad_of(f);
  vtb_tensor args[2] = {vtb_tensor_new(g->args[0]->type), vtb_tensor_new(g->args[1]->type)};
  for (int i = 0; i < n; i++) args[0].data[i] = x[i];
  for (int64_t i = 0; i < vtb_type_count(&args[1].type); i++) args[1].data[i] = 1;
  vtb_tensor *r = grad_run(g, args);
  for (int i = 0; i < n; i++) CHECK_NEAR(r[1].data[i], want[i], 1e-12);
  grad_free(r, g->n_returns);
  vtb_tensor_free(&args[0]);
  vtb_tensor_free(&args[1]);
  vtb_module_free(m);
}

/* An operand that nothing depends on takes its room all the same. */
TEST(parts_of_a_concatenation_get_their_own) {
  check_at("func @f(%x: f32[3]) -> (f32[7]) {\n"
           "  %c = constant {data = [5, 6]} : f32[2]\n"
           "  %s = square %x : f32[3]\n"
           "  %t = slice %s {axis = 0, start = 1, limit = 3} : f32[2]\n"
           "  %k = concat %c, %s, %t {axis = 0} : f32[7]\n"
           "  %w = constant {data = [1, 10, 100, 1000, 10000, 100000, 1000000]} : f32[7]\n"
           "  %y = mul %k, %w : f32[7]\n"
           "  return %y\n}\n",
           (double[]){1, 2, 3}, 3, (double[]){200, 404000, 6060000});
}

TEST(maximum_with_ties_goes_to_the_first) {
  check_at("func @f(%x: f32[2, 3]) -> (f32[2]) {\n  %y = reduce_max %x {axes = [1]} : f32[2]\n  "
           "return %y\n}\n",
           (double[]){1, 2, 2, 5, 5, 5}, 6, (double[]){0, 1, 0, 1, 0, 0});
  check_at("func @f(%x: f32[2, 3]) -> (f32[]) {\n  %y = reduce_max %x {axes = [0, 1]} : f32[]\n  "
           "return %y\n}\n",
           (double[]){1, 2, 7, 7, 5, 7}, 6, (double[]){0, 0, 1, 0, 0, 0});
}

TEST(kinks_follow_the_table) {
  check_at("func @f(%x: f32[3]) -> (f32[3]) {\n  %y = relu %x : f32[3]\n  return %y\n}\n",
           (double[]){-1, 0, 1}, 3, (double[]){0, 0, 1});
  check_at("func @f(%x: f32[3]) -> (f32[3]) {\n  %y = abs %x : f32[3]\n  return %y\n}\n",
           (double[]){-1, 0, 1}, 3, (double[]){-1, 0, 1});
  check_at("func @f(%x: f32[1]) -> (f32[1]) {\n  %z = neg %x : f32[1]\n  %y = max %x, %z : "
           "f32[1]\n  return %y\n}\n",
           (double[]){0}, 1, (double[]){-1});
}

/* Rules that square a large divisor or exponentiate a large argument would give NaN. */
TEST(large_arguments_stay_finite) {
  check_at("func @f(%x: f32[2]) -> (f32[2]) {\n  %y = div %x, %x : f32[2]\n  return %y\n}\n",
           (double[]){1e200, 1e-200}, 2, (double[]){0, 0});
  check_at("func @f(%x: f32[2]) -> (f32[2]) {\n  %y = softplus %x : f32[2]\n  return %y\n}\n",
           (double[]){1e4, -1e4}, 2, (double[]){1, 0});
  check_at("func @f(%x: f32[2]) -> (f32[2]) {\n  %y = log_sigmoid %x : f32[2]\n  return %y\n}\n",
           (double[]){1e4, -1e4}, 2, (double[]){0, 1});
  check_at("func @f(%x: f32[2]) -> (f32[2]) {\n  %y = gelu %x : f32[2]\n  return %y\n}\n",
           (double[]){1e3, -1e3}, 2, (double[]){1, 0});
}

int main(void) {
  RUN(samples_match_differences);
  RUN(linear_ops_transpose_exactly);
  RUN(every_differentiable_op_has_a_sample);
  RUN(parts_of_a_concatenation_get_their_own);
  RUN(maximum_with_ties_goes_to_the_first);
  RUN(kinks_follow_the_table);
  RUN(large_arguments_stay_finite);
  return test_done();
}
