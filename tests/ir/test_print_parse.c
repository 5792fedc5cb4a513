/* The text form: every op of the table prints, parses and prints the same; wrong text is refused
 * and harmless. */
#include "ir/scalar.h"
#include "ir/ops.h"
#include "tests/test.h"

static const char *const samples[] = {
    "  %c0 = constant {value = 0.1} : f32[]\n"
    "  %c1 = constant {data = [1, -2.5, inf, -inf, nan, 1e-300]} : f32[2, K=3]\n"
    "  %c2 = iota {axis = 1} : i32[B, N=4]\n"
    "  %c3 = random %seed {stream = 7} : f32[B, 4]\n"
    "  %c4 = random %seed, %seed {stream = 7} : f32[B, 4]\n",
    /* elementwise; the rows of ir/scalar_ops.def are added to it */
    "  %u21 = cast %x {to = \"i32\"} : i32[B, N=4, C=6]\n",
    /* moving */
    "  %r0 = reduce_sum %x {axes = [0, 2], keep = 1} : f32[1, N=4, 1]\n"
    "  %r1 = reduce_max %x {axes = [1]} : f32[B, C=6]\n"
    "  %r2 = reshape %x {shape = [-1, 4, 2, 3]} : f32[B, N=4, heads=2, 3]\n"
    "  %r3 = broadcast %w {shape = [-1, 1, 6]} : f32[?, 1, C=6]\n"
    "  %r4 = transpose %x {perm = [1, 0, 2]} : f32[N=4, B, C=6]\n"
    "  %r5 = slice %x {axis = 1, start = 0, limit = 3, step = 2} : f32[B, 2, C=6]\n"
    "  %r6 = pad %r5 {axis = 1, low = 0, high = 1, step = 2} : f32[B, 4, C=6]\n"
    "  %r7 = concat %x, %r5, %x {axis = 1} : f32[B, 10, C=6]\n"
    "  %r8 = permute %x {axis = 1, path = \"cols@2x2\", inverse = 1} : f32[B, N=4, C=6]\n"
    "  %r9 = shift %x {axis = 1, by = -2, fill = 0.5, path = \"rows~@2x2\"} : f32[B, N=4, C=6]\n"
    "  %r10 = shift %x, %r1 {axis = 1, by = 1} : f32[B, N=4, C=6]\n"
    "  %r11 = sum_ranks %m {ranks = 3} : f32[E=5, C=6]\n"
    "  %r12 = sum_ranks %m, %c0 {ranks = 3} : f32[E=5, C=6]\n",
    /* products */
    "  %p0 = einsum %x, %m {spec = \"bnd,ed->bne\"} : f32[B, N=4, E=5]\n"
    "  %p6, %p7, %p8 = quantize %m : i32[1, 2, 16], f32[1, 16], i32[1, 16]\n"
    "  %p9 = product8 %x, %p6, %p7, %p8, %p0 {columns = 5} : f32[B, N=4, 5]\n"
    "  %p1 = im2col %image {kernel = [2, 2], stride = [2, 2], pad = [0, 0, 0, 0]} : f32[B, N=4, "
    "12]\n"
    "  %p2 = col2im %p1 {kernel = [2, 2], stride = [2, 2], pad = [0, 0, 0, 0], image = [3, 4, 4]} "
    ": f32[B, C=3, H=4, "
    "W=4]\n"
    "  %p3 = dwconv %x, %k {grid = [2, 2], pad = [1, 1], path = \"cols@2x2\"} : f32[B, N=4, C=6]\n"
    "  %p4 = dwconv_dx %p3, %k {grid = [2, 2], pad = [1, 1]} : f32[B, N=4, C=6]\n"
    "  %p5 = dwconv_dw %x, %p3 {grid = [2, 2], pad = [1, 1], kernel = [3, 3]} : f32[C=6, 3, 3]\n",
    /* scans */
    "  %s0, %s1, %s2, %s3 = linscan %q, %q, %v, %d {class = \"scalar\", mode = \"chunkwise\", "
    "chunk = 3, normalizer = "
    "1, "
    "path = \"rows~@2x2\"} : f32[B, N=4, h=2, V=5], f32[B, h=2, K=3, V=5], f32[B, N=4, h=2], "
    "f32[B, h=2, K=3]\n"
    "  %s4, %s5, %s6, %s7 = linscan_grad %q, %q, %v, %d, %s0 {class = \"scalar\"} : f32[B, N=4, "
    "h=2, K=3], "
    "f32[B, N=4, h=2, K=3], f32[B, N=4, h=2, V=5], f32[B, N=4, h=2]\n"
    "  %s8 = maxplus %d, %d {path = \"snake@2x2\"} : f32[B, N=4, h=2]\n"
    "  %s9, %s10 = maxplus_grad %d, %d, %s8, %d : f32[B, N=4, h=2], f32[B, N=4, h=2]\n"
    "  %at = constant {data = [3, 0]} : i32[2]\n"
    "  %s97 = gather %w, %at {axis = 0} : f32[2]\n"
    "  %s98 = scatter_sum %s97, %at {axis = 0, size = 6} : f32[6]\n"
    "  %s99 = prefix_sum %d {axis = 1, path = \"snake@2x2\", reverse = 1, exclusive = 1, wrap = "
    "6.5} : f32[B, N=4, h=2]\n"
    "  %s11, %s12, %s13 = recurrence @decay(%q, %d) {states = 1, inits = 0, seqs = 2, mode = "
    "\"auto\"} : "
    "f32[B, N=4, h=2, K=3], f32[B, h=2, K=3], f32[B, h=2]\n"
    "  %s14 = reshape %q {shape = [-1, 4, 2, 1, 3]} : f32[B, N=4, h=2, R=1, K=3]\n"
    "  %s15 = reshape %v {shape = [-1, 4, 2, 1, 5]} : f32[B, N=4, h=2, R=1, V=5]\n"
    "  %s16 = delta %s14, %s15, %s14, %d {class = \"scalar\", path = \"rows~@2x2\"} : f32[B, N=4, "
    "h=2, R=1, V=5]\n",
    /* attention */
    "  %n0, %n1 = attention %q, %q, %v, %bias {scale = 0.5, causal = 1} : f32[B, N=4, h=2, V=5], "
    "f32[B, N=4, h=2]\n"
    "  %n2, %n3, %n4, %n5 = attention_grad %q, %q, %v, %bias, %n0, %n1, %n0, %n1 {bias = 1, dlse = "
    "1, dbias = 1} : "
    "f32[B, N=4, h=2, K=3], f32[B, N=4, h=2, K=3], f32[B, N=4, h=2, V=5], f32[2, 4, 4]\n",
    /* control */
    "  %t0, %t1 = call @two(%w, %w) : f32[C=6], f32[C=6]\n"
    "  %t2 = fused @kern(%w) {kind = \"row\"} : f32[C=6]\n"
    "  %t4, %t5, %t6 = fold @advance(%s12, %q) {states = 1, seqs = 1, path = \"snake@2x2\", "
    "reverse = 1, keep = 1} : "
    "f32[B, N=4, h=2, K=3], f32[B, h=2, K=3], f32[B, N=4, h=2, K=3]\n"
    "  %t7, %t8, %t9, %t10 = tangent @two(%w, %w, %w) {wrt = [1]} : f32[C=6], f32[C=6], f32[C=6], "
    "f32[C=6]\n"
    "  call @nothing()\n"
    "  %vd = verdict %scalars, %scale, %w, %w : f32[4]\n"
    "  %g1, %g2, %g3, %g4 = update @descend(%scalars, %rates, %vd, %w, %k, %w, %k, %w, %k) "
    "{tensors = 2} : f32[C=6], f32[6, 3, 3], f32[C=6], f32[6, 3, 3]\n"
    "  %t3 = tap %x {name = \"blocks.0 \\\"in\\\"\\x01\\xff\\n\"} : f32[B, N=4, C=6]\n"};

static const char prologue[] =
    "module \"a \\\\ module\"\n\n"
    "step @decay(%S: f32[K=3], %q: f32[K=3], %g: f32[]) -> (f32[K=3], f32[K=3]) {\n"
    "  %e = exp %g : f32[]\n"
    "  %Se = mul %S, %e : f32[K=3]\n"
    "  %new = add %Se, %q : f32[K=3]\n"
    "  %scale = state_scale {log = 1} : f32[]\n"
    "  %y = mul %new, %scale : f32[K=3]\n"
    "  return %new, %y\n"
    "}\n\n"
    "entry func @main(\n"
    "    %x: f32[B, N=4, C=6] input \"tokens\",\n"
    "    %w: f32[C=6] param \"norm.weight\" init \"trunc_normal(0.02)\" decay,\n"
    "    %m: f32[E=5, C=6] buffer \"fixed\",\n"
    "    %k: f32[6, 3, 3] grad,\n"
    "    %image: f32[B, C=3, H=4, W=4] named \"odd\",\n"
    "    %q: f32[B, N=4, h=2, K=3],\n"
    "    %v: f32[B, N=4, h=2, V=5],\n"
    "    %d: f32[B, N=4, h=2],\n"
    "    %bias: f32[2, 4, 4],\n"
    "    %seed: i32[],\n"
    "    %scalars: f32[5, 2] input \"update.scalars\" init \"descend t lr average clip scale\",\n"
    "    %rates: f32[2, 2],\n"
    "    %scale: f32[] state \"optim/scale\"\n"
    "  ) -> (f32[B, N=4, C=6] \"out\", f32[C=6]) {\n";
static const char epilogue[] = "  return %x, %w\n"
                               "}\n\n"
                               "func @two(%a: f32[C=6], %b: f32[C=6]) -> (f32[C=6], f32[C=6]) {\n"
                               "  return %b, %a\n"
                               "}\n\n"
                               "func @advance(%s: f32[B, h=2, K=3], %q: f32[B, N=1, h=2, K=3]) -> "
                               "(f32[B, h=2, K=3], f32[B, N=1, h=2, K=3]) {\n"
                               "  return %s, %q\n"
                               "}\n\n"
                               "kernel @kern(%a: f32[C=6]) -> (f32[C=6]) {\n"
                               "  %r = relu %a : f32[C=6]\n"
                               "  return %r\n"
                               "}\n\n"
                               "rule @descend(\n"
                               "    %w: f32[B],\n"
                               "    %g: f32[B],\n"
                               "    %m: f32[B],\n"
                               "    %factor: f32[],\n"
                               "    %rate: f32[],\n"
                               "    %decays: f32[],\n"
                               "    %t: f32[],\n"
                               "    %lr: f32[],\n"
                               "    %average: f32[],\n"
                               "    %clip: f32[],\n"
                               "    %loss_scale: f32[]\n"
                               "  ) -> (f32[B], f32[B]) {\n"
                               "  %next = mul %m, %g : f32[B]\n"
                               "  return %next, %m\n"
                               "}\n\n"
                               "func @nothing() -> () {\n"
                               "  return\n"
                               "}\n";

static vtb_module *parse(const char *text, vtb_diags *diags) {
  static vtb_source s; /* outlives the module of one test */
  s = (vtb_source){.path = "test.ir", .text = text, .n = strlen(text)};
  return vtb_module_parse(&s, diags);
}

static char *whole_text(void) {
  vtb_strbuf t = {0};
  vtb_strbuf_puts(&t, prologue);
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) vtb_strbuf_puts(&t, samples[i]);
  for (vtb_op op = 0; op < VTB_OP_COUNT; op++) {
    static const char *const operands[] = {"%x", "%x, %w", "%x, %x, %w"};
    const vtb_scalar *row = vtb_scalar_get(op);
    if (row)
      vtb_strbuf_printf(&t, "  %%e%d = %s %s : f32[B, N=4, C=6]\n", (int)op, vtb_op_get(op)->name,
                        operands[row->n_operands - 1]);
  }
  vtb_strbuf_puts(&t, epilogue);
  return t.at;
}

static void print_diags(const vtb_diags *d) {
  if (d->n_errors) vtb_diags_print(d, stderr);
}

TEST(every_op_round_trips) {
  char *text = whole_text();
  vtb_diags diags = {0};
  vtb_module *m = parse(text, &diags);
  print_diags(&diags);
  CHECK(m != NULL);
  if (!m) return;
  vtb_strbuf out = {0};
  vtb_module_print(m, NULL, &out);
  CHECK_STR(out.at, text);
  bool seen[VTB_OP_COUNT] = {0};
  for (vtb_func *f = m->first; f; f = f->next)
    for (vtb_inst *inst = f->first; inst; inst = inst->next) seen[inst->op] = true;
  for (int op = 0; op < VTB_OP_COUNT; op++)
    CHECK_MSG(seen[op], "op %s has no sample here", vtb_op_get((vtb_op)op)->name);
  vtb_error err = {0};
  CHECK_MSG(vtb_module_verify(m, &err), "%s", err.text);
  /* A module that was cloned prints the same, and with spans it still parses to the same. */
  vtb_module *copy = vtb_module_clone(m);
  vtb_strbuf with_spans = {0}, again = {0};
  vtb_module_print(copy, &(vtb_print_options){.spans = true}, &with_spans);
  CHECK(strstr(with_spans.at, "// test.ir:") != NULL);
  vtb_module *back = parse(with_spans.at, &diags);
  CHECK(back != NULL);
  if (back) vtb_module_print(back, NULL, &again);
  CHECK_STR(again.at, text);
  vtb_module_free(back);
  vtb_module_free(copy);
  vtb_module_free(m);
  vtb_strbuf_free(&with_spans);
  vtb_strbuf_free(&again);
  vtb_strbuf_free(&out);
  vtb_diags_free(&diags);
  free(text);
}

TEST(costs_of_every_op_are_finite) {
  char *text = whole_text();
  vtb_diags diags = {0};
  vtb_module *m = parse(text, &diags);
  for (vtb_func *f = m ? m->first : NULL; f; f = f->next)
    for (vtb_inst *inst = f->first; inst; inst = inst->next) {
      vtb_cost c = vtb_inst_cost(inst, 4);
      CHECK_MSG(isfinite(c.flops) && isfinite(c.bytes) && c.flops >= 0 && c.bytes >= 0, "%s",
                vtb_op_get(inst->op)->name);
      if (vtb_op_get(inst->op)->klass == VTB_CLASS_STRUCTURED && inst->op != VTB_OP_im2col &&
          inst->op != VTB_OP_state_scale)
        CHECK_MSG(c.flops > 0, "%s costs nothing", vtb_op_get(inst->op)->name);
    }
  vtb_module_free(m);
  free(text);
}

typedef struct wrong {
  int code;
  const char *body; /* of a function of %x: f32[B, 4] and %i: i32[], returning %x */
} wrong;

TEST(wrong_text_is_refused_with_its_code) {
  static const wrong cases[] = {
      {2101, "  %y = %x\n"},
      {2101, "  %y = neg %x : f32[B, 4\n"},
      {2101, "  %y = neg %x : f64[B, 4]\n"},
      {2101, "  %y = slice %x {axis = 1.5, start = 0, limit = 1} : f32[B, 1]\n"},
      {2101, "  %y = tap %x {name = \"a} : f32[B, 4]\n"},
      {2101, "  %y = tap %x {name = \"\\q\"} : f32[B, 4]\n"},
      {2101, "  %y = slice %x {axis = 1, axis = 1, start = 0, limit = 1} : f32[B, 1]\n"},
      {2102, "  %y = neg %z : f32[B, 4]\n"},
      {2102, "  %y = negate %x : f32[B, 4]\n"},
      {2102, "  %y = call @g(%x) : f32[B, 4]\n"},
      {2102, "  %y = neg %x {axis = 1} : f32[B, 4]\n"},
      {2103, "  %x = neg %x : f32[B, 4]\n"},
      {2103, "  %y, %y = neg %x : f32[B, 4], f32[B, 4]\n"},
      {2104, "  %y = neg %x : f32[B, 5]\n"},
      {2104, "  %y, %z = neg %x : f32[B, 4], f32[B, 4]\n"},
      {2105, "  %y = iota {axis = 0} : i32[9999999999]\n"},
      {2105, "  %y = iota {axis = 0} : i32[2147483648, 2147483648, 2147483648]\n"},
      {2105, "  %y = iota {axis = 0} : i32[1,1,1,1,1,1,1,1,1]\n"},
      {2105, "  %y = iota {axis = 0} : i32[0]\n"},
      {2002, "  %y = iota {axis = 3} : i32[4]\n"},
      {2003, "  %y = constant {data = [1, 2]} : f32[3]\n"},
      {2006, "  %y = slice %x {axis = 1, start = 3, limit = 2} : f32[B, 1]\n"},
      {2006, "  %y = pad %x {axis = 1, low = -1, high = 2} : f32[B, 5]\n"},
      {2007, "  %y = exp %i : i32[]\n"},
      {2007, "  %y = cast %x {to = \"f64\"} : f32[B, 4]\n"},
      {2007, "  %y = add %x, %i : f32[B, 4]\n"},
      {2008, "  %y = permute %x {axis = 1, path = \"rows@3x3\"} : f32[B, 4]\n"},
      {2008, "  %y = permute %x {axis = 1, path = \"rowz@2x2\"} : f32[B, 4]\n"},
      {2008, "  %y = maxplus %x, %x {layout = \"1x3\"} : f32[B, 4]\n"},
      {2008, "  %y = maxplus %x, %x {layout = \"2x\"} : f32[B, 4]\n"},
      {2002, "  %y = prefix_sum %x {axis = 2} : f32[B, 4]\n"},
      {2011, "  %y = prefix_sum %x {axis = 1, wrap = 0.0} : f32[B, 4]\n"},
      {2008, "  %y = prefix_sum %x {axis = 1, path = \"rows@3x3\"} : f32[B, 4]\n"},
      {2002, "  %y = gather %x, %i {axis = 2} : f32[B]\n"},
      {2006, "  %y = gather %x, %x {axis = 0} : f32[B, 4, 4]\n"},
      {2006, "  %y = gather %x, %i {axis = 1} : f32[B]\n"},
      {2006, "  %y = scatter_sum %x, %i {axis = 0, size = 0} : f32[B, 4]\n"},
      {2006, "  %y = scatter_sum %x, %i {axis = 1, size = 3} : f32[3, B, 4]\n"},
      {2006, "  %y = scatter_sum %i, %i {axis = 0, size = 3} : i32[3]\n"},
      {2002, "  %y = permute %x {axis = 0, path = \"rows@2x2\"} : f32[B, 4]\n"},
      {2010, "  %y = call @f(%x) : f32[B, 4]\n"},
      {2011, "  %y = neg %x, %x : f32[B, 4]\n"},
      {2011, "  %y = neg : f32[B, 4]\n"},
      {2011, "  %y = reduce_sum %x : f32[]\n"},
      {2011, "  %y = constant : f32[]\n"},
      {2011, "  %y = transpose %x {perm = [0]} : f32[B, 4]\n"},
      {2011, "  %y = slice %x {axis = 1, start = 0, limit = 9223372036854775807} : f32[B, 1]\n"},
      {2010, "  %y = neg @f(%x) : f32[B, 4]\n"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "func @f(%%x: f32[B, 4], %%i: i32[]) -> (f32[B, 4]) {\n%s  return %%x\n}\n",
             cases[i].body);
    vtb_diags diags = {0};
    vtb_module *m = parse(text, &diags);
    CHECK_MSG(m == NULL && diags.list.n >= 1 && diags.list.at[0].code == cases[i].code,
              "%s gives %d (%s)", cases[i].body, diags.list.n ? diags.list.at[0].code : 0,
              diags.list.n ? diags.list.at[0].text : "");
    vtb_module_free(m);
    vtb_diags_free(&diags);
  }
}

TEST(wrong_types_are_all_reported_with_their_places) {
  const char *text = "func @f(%x: f32[3]) -> (f32[3]) {\n"
                     "  %y = neg %x : f32[4]\n"
                     "  %z = add %x, %y : f32[3]\n"
                     "  return %x\n"
                     "}\n";
  vtb_diags diags = {0};
  CHECK(parse(text, &diags) == NULL);
  CHECK(diags.n_errors == 2);
  vtb_strbuf out = {0};
  vtb_diags_render(&diags, &out, false);
  CHECK_STR(out.at, "test.ir:2:3: error[VTB2104]: %y is f32[3], not f32[4]\n"
                    "    2 |   %y = neg %x : f32[4]\n"
                    "      |   ^~~~~~~~~~~~~~~~~~~~\n"
                    "test.ir:3:3: error[VTB2001]: add: shapes f32[3] and f32[4] do not broadcast: "
                    "axis 0 from the last is 3 and 4\n"
                    "    3 |   %z = add %x, %y : f32[3]\n"
                    "      |   ^~~~~~~~~~~~~~~~~~~~~~~~\n");
  vtb_strbuf_free(&out);
  vtb_diags_free(&diags);
}

/* What a fuzzer would do first: cut, flip and repeat bytes of good text. Only that nothing crashes
 * is checked, and that what is taken prints to something that is taken. */
TEST(damaged_text_is_harmless) {
  char *text = whole_text();
  size_t n = strlen(text);
  unsigned long long seed = 12345;
  for (int round = 0; round < 3000; round++) {
    char *bad = strdup(text);
    int edits = 1 + round % 4;
    for (int e = 0; e < edits; e++) {
      size_t at = (size_t)((test_random(&seed) + 1) / 2 * (double)n);
      size_t from = (size_t)((test_random(&seed) + 1) / 2 * (double)n);
      switch (round % 3) {
      case 0:
        bad[at] = (char)(test_random(&seed) * 127);
        break;
      case 1:
        bad[at] = text[from];
        break;
      default:
        memmove(bad + at, bad + (at > from ? at : from), n + 1 - (at > from ? at : from));
        break;
      }
      n = n < strlen(bad) ? n : strlen(text);
    }
    vtb_source s = {.path = "fuzz", .text = bad, .n = strlen(bad)};
    vtb_diags diags = {0};
    vtb_module *m = vtb_module_parse(&s, &diags);
    CHECK((m == NULL) == (diags.n_errors > 0));
    vtb_strbuf out = {0};
    vtb_diags_render(&diags, &out, false);
    vtb_strbuf_free(&out);
    if (m) {
      vtb_module_print(m, NULL, &out);
      vtb_source again = {.path = "again", .text = out.at, .n = out.n};
      vtb_module *back = vtb_module_parse(&again, &diags);
      CHECK(back != NULL);
      vtb_module_free(back);
      vtb_strbuf_free(&out);
    }
    vtb_module_free(m);
    vtb_diags_free(&diags);
    free(bad);
  }
  free(text);
}

int main(void) {
  RUN(every_op_round_trips);
  RUN(costs_of_every_op_are_finite);
  RUN(wrong_text_is_refused_with_its_code);
  RUN(wrong_types_are_all_reported_with_their_places);
  RUN(damaged_text_is_harmless);
  return test_done();
}
