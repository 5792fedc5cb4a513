/* A call of every differentiable op of the table, as text: what tests of derivatives run over. */
#ifndef VTB_TEST_OP_SAMPLES_H
#define VTB_TEST_OP_SAMPLES_H

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
    {.op = "linscan", /* states smaller than pairs of tokens */
     .args = "%q: f32[B, 5, 2, 1], %k: f32[B, 5, 2, 1], %v: f32[B, 5, 2, 2], %d: f32[B, 5, 2], "
             "%s: f32[B, 2, 1, 2], %n: f32[B, 2, 1]",
     .call = "linscan %q, %k, %v, %d, %s, %n {class = \"scalar\", init = 1, normalizer = 1}",
     .types = "f32[B, 5, 2, 2], f32[B, 2, 1, 2], f32[B, 5, 2], f32[B, 2, 1]", .n_results = 4,
     .lo = 0.1, .hi = 0.95},
    {.op = "linscan",
     .args = "%q: f32[B, 5, 2, 1], %k: f32[B, 5, 2, 1], %v: f32[B, 5, 2, 2], %d: f32[2]",
     .call = "linscan %q, %k, %v, %d {class = \"constant\", path = \"rows~@1x5\"}",
     .types = "f32[B, 5, 2, 2], f32[B, 2, 1, 2]", .n_results = 2, .lo = 0.1, .hi = 0.95},
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

static inline void sample_text(const sample *s, vtb_strbuf *out) {
  static const char *const names[] = {"", "%r", "%r, %r1", "%r, %r1, %r2", "%r, %r1, %r2, %r3"};
  const char *results = names[s->n_results ? s->n_results : 1];
  if (vtb_streq(s->op, "call")) vtb_strbuf_puts(out, INNER);
  if (vtb_streq(s->op, "fold")) vtb_strbuf_puts(out, ADVANCE);
  vtb_strbuf_printf(out, "func @f(%s) -> (%s) {\n%s", s->args, s->types, s->pre ? s->pre : "");
  vtb_strbuf_printf(out, "  %s = %s : %s\n  return %s\n}\n", results, s->call, s->types, results);
}

#endif
