/* The passes of targets with tensor cores: what each writes into the IR, and what it leaves alone;
 * targets, and what their pipelines do to a module of every kind of op. */
#include "ir/narrow.h"
#include "ir/ops.h"
#include "tests/passes/pass_check.h"

static char *after(const char *pipeline, vtb_pass_context c, const char *text) {
  c.module = parse_ir(text);
  char *out = c.module && run_passes_in(&c, pipeline) ? print_ir(c.module) : vtb_xstrdup("");
  vtb_module_free(c.module);
  return out;
}

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, what)) != NULL; at++) n++;
  return n;
}

static void says(const char *pipeline, vtb_pass_context c, const char *text, const char *what,
                 int n) {
  char *out = after(pipeline, c, text);
  CHECK_MSG(count(out, what) == n, "%s: %d times '%s', not %d, in\n%s", pipeline, count(out, what),
            what, n, out);
  free(out);
}

#define BF16 ((vtb_pass_context){.precision = VTB_PRECISION_BF16})
#define BF16_ALL ((vtb_pass_context){.precision = VTB_PRECISION_BF16_ALL})
#define FP16 ((vtb_pass_context){.precision = VTB_PRECISION_FP16})
#define FP32 ((vtb_pass_context){0})

/* A product carried on, and one that is a sum a thread (its sum is short). */
static const char two[] = "entry func @f(%x: f32[64, 48], %w: f32[48, 32] param \"w\", "
                          "%u: f32[32, 4], %s: f32[4, 64]) -> (f32[64, 4], f32[64, 64]) {\n"
                          "  %y = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[64, 32]\n"
                          "  %z = einsum %y, %u {spec = \"ab,bc->ac\"} : f32[64, 4]\n"
                          "  %t = einsum %z, %s {spec = \"ab,bc->ac\"} : f32[64, 64]\n"
                          "  return %z, %t\n}\n";

/* The same beside a recurrence. */
static const char scan[] =
    "entry func @f(%x: f32[64, 48], %w: f32[48, 32], %q: f32[2, 9, 1, 4], %g: f32[2, 9, 1]) -> "
    "(f32[64, 32], f32[2, 9, 1, 4]) {\n"
    "  %y = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[64, 32]\n"
    "  %h, %l = linscan %q, %q, %q, %g {class = \"scalar\", mode = \"MODE\"} : f32[2, 9, 1, 4], "
    "f32[2, 1, 4, 4]\n"
    "  return %y, %h\n}\n";

static char *scan_in(const char *mode) {
  char *text = vtb_xstrdup(scan), *hole = strstr(text, "MODE");
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "%.*s%s%s", (int)(hole - text), text, mode, hole + 4);
  free(text);
  return s.at;
}

TEST(products_round_and_short_sums_do_not) {
  says("precision", BF16, two, "precision = \"bf16\"", 2);
  says("precision", FP16, two, "precision = \"fp16\"", 2);
  says("precision", FP32, two, "precision", 0);
}

TEST(products_beside_a_recurrence_are_split_and_steps_do_not_round) {
  char *tiles = scan_in("parallel"), *steps = scan_in("recurrent");
  says("precision", BF16, tiles, "precision = \"split\"", 2);
  says("precision", BF16, steps, "precision = \"split\"", 1);
  says("precision", BF16_ALL, tiles, "precision = \"bf16\"", 2);
  free(tiles);
  free(steps);
}

TEST(the_library_gets_large_products_if_it_is_there) {
  static const char large[] = "entry func @f(%x: f32[64, 64], %w: f32[64, 64], %u: f32[64, 32]) -> "
                              "(f32[64, 64], f32[64, 32]) {\n"
                              "  %y = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[64, 64]\n"
                              "  %z = einsum %x, %u {spec = \"ab,bc->ac\"} : f32[64, 32]\n"
                              "  return %y, %z\n}\n";
  says("library", (vtb_pass_context){.library = true}, large, "library = 1", 1);
  says("library", FP32, large, "library", 0);
}

/* Those with an epilogue or sums of a factor keep them. */
TEST(the_library_gets_what_stands_alone) {
  static const char both[] = "entry func @f(%x: f32[64, 64], %w: f32[64, 64], %u: f32[64, 64]) -> "
                             "(f32[64, 64], f32[64, 64], f32[64, 64], f32[64]) {\n"
                             "  %y = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[64, 64]\n"
                             "  %g = gelu %y : f32[64, 64]\n"
                             "  %z = einsum %x, %u {spec = \"ab,bc->ac\"} : f32[64, 64]\n"
                             "  %v = einsum %w, %u {spec = \"ta,tb->ab\"} : f32[64, 64]\n"
                             "  %s = reduce_sum %w {axes = [0]} : f32[64]\n"
                             "  return %g, %z, %v, %s\n}\n";
  says("fuse,grow{products+factor_sums},library", (vtb_pass_context){.library = true}, both,
       "library = 1", 1);
  says("fuse,grow{products+factor_sums},library", (vtb_pass_context){.library = true}, both,
       "kind = \"product\"", 2);
}

TEST(memory_holds_16_bits_of_what_only_products_read) {
  says("precision,storage", BF16, two, "cast %w {to = \"bf16\"} : bf16[48, 32]", 1);
  says("precision,storage", BF16, two, "einsum %x, %w.1", 1);
  says("precision,storage", FP16, two, " : f16[", 2);
  says("precision,storage", FP32, two, "cast", 0);
  says("storage", BF16, two, "bf16", 0); /* no product says that it rounds */
}

/* A gate whose complement is taken keeps its digits; one that is only multiplied does not. */
#define GATED(op)                                                                                  \
  "kernel @gate(%y: f32[64, 32]) -> (f32[64, 32]) {\n"                                             \
  "  %f = sigmoid %y : f32[64, 32]\n"                                                              \
  "  return %f\n}\n"                                                                               \
  "kernel @keep(%f: f32[64, 32], %y: f32[64, 32]) -> (f32[64, 32]) {\n"                            \
  "  %one = constant {value = 1} : f32[]\n"                                                        \
  "  %g = " op " : f32[64, 32]\n"                                                                  \
  "  %z = mul %g, %y : f32[64, 32]\n"                                                              \
  "  return %z\n}\n"                                                                               \
  "entry func @f(%x: f32[64, 48], %w: f32[48, 32] param \"w\", %u: f32[32, 32] param \"u\") -> "   \
  "(f32[64, 32]) {\n"                                                                              \
  "  %y = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[64, 32]\n"                                    \
  "  %f = fused @gate(%y) {kind = \"loop\"} : f32[64, 32]\n"                                       \
  "  %z = fused @keep(%f, %y) {kind = \"loop\"} : f32[64, 32]\n"                                   \
  "  %o = einsum %z, %u {spec = \"ab,bc->ac\"} : f32[64, 32]\n"                                    \
  "  return %o\n}\n"

TEST(what_is_taken_from_a_constant_keeps_its_digits) {
  static const char multiplied[] = GATED("mul %one, %f"), taken[] = GATED("sub %one, %f");
  says("precision,storage", BF16_ALL, multiplied, "fused @gate(%y) {kind = \"loop\"} : bf16", 1);
  says("precision,storage", BF16_ALL, taken, "fused @gate(%y) {kind = \"loop\"} : f32", 1);
}

TEST(a_view_is_stored_as_what_it_views) {
  static const char views[] = "entry func @f(%x: f32[64, 48], %w: f32[8, 6, 32] param \"w\") -> "
                              "(f32[64, 32]) {\n"
                              "  %v = reshape %w {shape = [48, 32]} : f32[48, 32]\n"
                              "  %y = einsum %x, %v {spec = \"ab,bc->ac\"} : f32[64, 32]\n"
                              "  return %y\n}\n";
  says("precision,storage", BF16, views, "bf16[48, 32]", 1);
  vtb_error err = {0};
  vtb_module *m = parse_ir(views);
  m->entry->first->results[0]->type.dtype = VTB_BF16;
  CHECK(!vtb_module_verify(m, &err) && strstr(err.text, "is not stored as %w"));
  vtb_module_free(m);
}

TEST(what_parameters_make_comes_first) {
  static const char late[] = "entry func @f(%x: f32[4], %w: f32[4] param \"w\") -> (f32[4]) {\n"
                             "  %y = exp %x : f32[4]\n"
                             "  %v = exp %w : f32[4]\n"
                             "  %z = add %y, %v : f32[4]\n"
                             "  return %z\n}\n";
  char *text = after("prepare", FP32, late);
  CHECK(strstr(text, "%v = exp %w {prepared = 1}") < strstr(text, "%y = exp %x"));
  CHECK(count(text, "prepared") == 1);
  free(text);
  static const char both_ways[] =
      "entry func @f(%x: f32[4], %w: f32[4] param \"w\") -> (f32[4]) {\n"
      "  %v = exp %w : f32[4]\n"
      "  %a = sub %v, %x : f32[4]\n"
      "  %b = sub %x, %v : f32[4]\n"
      "  %z = add %a, %b : f32[4]\n"
      "  return %z\n}\n";
  says("prepare", FP32, both_ways, "prepared", 1);
  says("prepare", (vtb_pass_context){.updates = true}, late, "prepared", 0);
  /* of inference: nothing moves in others */
  static const char gradient[] =
      "entry func @f(%x: f32[4], %w: f32[4] param \"w\") -> (f32[4] \"y\", f32[4] \"d:x\") {\n"
      "  %y = exp %x : f32[4]\n"
      "  %v = exp %w : f32[4]\n"
      "  %z = add %y, %v : f32[4]\n"
      "  return %z, %y\n}\n";
  char *plain = after("cse", FP32, late);
  text = after("prepare{of inference}", (vtb_pass_context){.updates = true}, late);
  CHECK(strcmp(text, plain) == 0);
  free(text);
  free(plain);
  says("prepare{of inference}", FP32, late, "prepared", 1);
  says("prepare", FP32, gradient, "prepared", 1);
  says("prepare{of inference}", FP32, gradient, "prepared", 0);
}

/* What leads from weights to gradients alone is side by side for all blocks, last what the update
 * reads; a gradient made of no weights stays. */
TEST(small_kernels_on_the_way_to_gradients_stand_together) {
  static const char step[] =
      "entry func @f(%x: f32[8], %s: f32[16, 2], %u: f32[8] param \"u\", %v: f32[8] param \"v\") "
      "-> (f32[4], f32[8]) {\n"
      "  %u1 = exp %u : f32[8]\n"
      "  %u2 = neg %u1 : f32[8]\n"
      "  %y = call @block(%x, %u2) : f32[8]\n"
      "  %v1 = exp %v : f32[8]\n"
      "  %v2 = neg %v1 : f32[8]\n"
      "  %z = call @block(%y, %v2) : f32[8]\n"
      "  %dv1 = mul %z, %v1 : f32[8]\n"
      "  %dv2 = mul %z, %v : f32[8]\n"
      "  %dx = mul %z, %z : f32[8]\n"
      "  %t = call @block(%z, %dv1) : f32[8]\n"
      "  %du1 = mul %t, %u1 : f32[8]\n"
      "  %du2 = neg %du1 : f32[8]\n"
      "  %l = reduce_sum %t {axes = [0]} : f32[]\n"
      "  %k = verdict %s, %l, %du2, %dv2, %dx : f32[4]\n"
      "  return %k, %t\n}\n"
      "func @block(%x: f32[8], %w: f32[8]) -> (f32[8]) {\n"
      "  %y = add %x, %w : f32[8]\n  return %y\n}\n";
  static const char *const order[] = {
      "%u1 = ", "%u2 = ", "%y = ", "%v1 = ",  "%v2 = ",  "%z = ",   "%dv1 = ",
      "%dx = ", "%t = ",  "%l = ", "%du1 = ", "%dv2 = ", "%du2 = ", "%k = "};
  char *text = after("gather", (vtb_pass_context){.updates = true}, step);
  const char *at = text;
  for (size_t i = 0; at && i < sizeof order / sizeof *order; i++) {
    const char *found = strstr(at, order[i]);
    CHECK_MSG(found != NULL, "%s is not behind what stands before it in\n%s", order[i], text);
    at = found;
  }
  free(text);
  char *same = after("gather", FP32, step), *plain = after("cse", FP32, step);
  CHECK(strcmp(same, plain) == 0); /* no step */
  free(same);
  free(plain);
}

/* What a block makes of parameters is made by the entry, once where two calls make the same, and
 * prepared there with the parts of its concatenation; what reads x stays. */
TEST(blocks_leave_what_parameters_alone_make_to_the_entry) {
  static const char text[] =
      "func @block(%x: f32[2, 4], %w: f32[2, 2], %v: f32[2, 2]) -> (f32[2, 4]) {\n"
      "  %e = exp %w : f32[2, 2]\n"
      "  %c = concat %e, %v {axis = 1} : f32[2, 4]\n"
      "  %r = reshape %c {shape = [4, 2]} : f32[4, 2]\n"
      "  %s = exp %r : f32[4, 2]\n"
      "  %t = reshape %s {shape = [2, 4]} : f32[2, 4]\n"
      "  %y = mul %x, %t : f32[2, 4]\n"
      "  %z = exp %y : f32[2, 4]\n"
      "  return %z\n}\n"
      "entry func @f(%x: f32[2, 4], %w: f32[2, 2] param \"w\", %v: f32[2, 2] param \"v\", %u: "
      "f32[2, 2] "
      "param \"u\") -> (f32[2, 4]) {\n"
      "  %a = call @block(%x, %w, %v) : f32[2, 4]\n"
      "  %b = call @block(%a, %w, %v) : f32[2, 4]\n"
      "  %c = call @block(%b, %u, %v) : f32[2, 4]\n"
      "  return %c\n}\n";
  vtb_module *m = parse_ir(text), *before = parse_ir(text);
  vtb_pass_context updates = {.module = m, .updates = true};
  CHECK(run_passes_in(&updates, "hoist{of inference}") && vtb_module_find(m, "block")->n_args == 3);
  run_passes(m, "hoist,prepare");
  const vtb_func *block = vtb_module_find(m, "block");
  int exps = 0, prepared = 0;
  for (const vtb_inst *i = block->first; i; i = i->next) exps += i->op == VTB_OP_exp;
  for (const vtb_inst *i = m->entry->first; i; i = i->next)
    prepared += vtb_attr_int(i, "prepared", 0) != 0;
  CHECK_MSG(exps == 1, "%d exponentials are left in the block", exps);
  CHECK_MSG(block->n_args == 4, "the block takes %d values: x, w, v and what x meets",
            block->n_args);
  CHECK_MSG(count_ops(m, VTB_OP_concat) == 2 && prepared >= 6, "%d concatenations, %d prepared",
            count_ops(m, VTB_OP_concat), prepared);
  vtb_tensor args[4], want, got;
  vtb_error err = {0};
  unsigned long long seed = 5;
  for (int a = 0; a < 4; a++) {
    args[a] = vtb_tensor_new(before->entry->args[a]->type);
    for (int64_t k = 0; k < vtb_type_count(&args[a].type); k++)
      args[a].data[k] = test_random(&seed) - 1;
  }
  CHECK(vtb_interpret(before->entry, args, &want, &(vtb_interp_options){.batch = 1}, &err) ==
        VTB_OK);
  CHECK(vtb_interpret(m->entry, args, &got, &(vtb_interp_options){.batch = 1}, &err) == VTB_OK);
  for (int k = 0; k < 8; k++) CHECK(got.data[k] == want.data[k]);
  for (int a = 0; a < 4; a++) vtb_tensor_free(&args[a]);
  vtb_tensor_free(&want);
  vtb_tensor_free(&got);
  vtb_module_free(m);
  vtb_module_free(before);
}

/* The final states of a scan with a normalizer are left out if nothing reads either of them. */
TEST(final_states_are_computed_where_one_is_read) {
  static const char head[] =
      "entry func @f(%q: f32[2, 9, 1, 4], %d: f32[2, 9, 1]) -> (f32[2, 9, 1, 4]";
  static const char scans[] =
      " {\n  %y, %S, %z, %n = linscan %q, %q, %q, %d {class = \"scalar\", normalizer = 1} : "
      "f32[2, 9, 1, 4], f32[2, 1, 4, 4], f32[2, 9, 1], f32[2, 1, 4]\n";
  const struct {
    const char *types, *returns;
    int dropped;
  } cases[] = {{")", "%y", 1},
               {", f32[2, 9, 1])", "%y, %z", 1},
               {", f32[2, 1, 4, 4])", "%y, %S", 0},
               {", f32[2, 1, 4])", "%y, %n", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[600];
    snprintf(text, sizeof text, "%s%s%s  return %s\n}\n", head, cases[i].types, scans,
             cases[i].returns);
    says("select_mode", FP32, text, "last = 0", cases[i].dropped);
  }
}

TEST(attributes_and_types_are_checked_and_survive_text) {
  char *text = after("precision,library,storage,prepare",
                     (vtb_pass_context){.precision = VTB_PRECISION_BF16, .library = true}, two);
  vtb_module *again = parse_ir(text);
  char *second = again ? print_ir(again) : vtb_xstrdup("");
  CHECK_MSG(strcmp(text, second) == 0, "%s\n%s", text, second);
  vtb_error err = {0};
  vtb_attr wrong = VTB_A_STR("precision", "fp8");
  for (vtb_inst *i = again->entry->first; i; i = i->next)
    if (i->op == VTB_OP_einsum) vtb_attr_set(i, wrong);
  CHECK(!vtb_module_verify(again, &err) && strstr(err.text, "rounded to \"fp8\""));
  vtb_module_free(again);
  free(text);
  free(second);
}

TEST(the_interpreter_shows_the_rounding) {
  const struct {
    vtb_pass_context c;
    double least, most;
  } runs[] = {{FP32, 0, 0}, {BF16, 1e-3, 0.2}, {FP16, 1e-4, 0.02}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    vtb_module *plain = parse_ir(two), *narrow = vtb_module_clone(plain);
    vtb_pass_context c = runs[i].c;
    c.module = narrow;
    run_passes_in(&c, "precision,storage,prepare");
    double error = compare_modules(plain, narrow, 5);
    CHECK_MSG(error >= runs[i].least && error <= runs[i].most, "run %zu: %g", i, error);
    vtb_module_free(plain);
    vtb_module_free(narrow);
  }
}

TEST(numbers_of_few_bits) {
  CHECK(vtb_round_stored(1.00390625, VTB_BF16) == 1);        /* a tie, to even */
  CHECK(vtb_round_stored(1.01171875, VTB_BF16) == 1.015625); /* a tie, to even */
  CHECK(vtb_round_stored(65519, VTB_F16) == 65504 && isinf(vtb_round_stored(65520, VTB_F16)));
  CHECK(vtb_round_stored(0x1p-25, VTB_F16) == 0 && vtb_round_stored(0x1.8p-25, VTB_F16) == 0x1p-24);
  CHECK(vtb_round_factor(1 + 0x1p-11, VTB_FACTORS_TF32) == 1);
  CHECK(vtb_round_factor(1 + 0x1p-12, VTB_FACTORS_SPLIT) == 1 + 0x1p-12);
  CHECK(isnan(vtb_round_stored(NAN, VTB_BF16)) && vtb_round_stored(-0.0, VTB_BF16) == 0);
}

TEST(targets_are_found) {
  size_t n;
  const vtb_target *all = vtb_targets(&n);
  for (size_t i = 0; i < n; i++) CHECK(vtb_target_find(all[i].name) == &all[i]);
  CHECK(!vtb_target_find("abacus"));
}

int main(void) {
  RUN(products_round_and_short_sums_do_not);
  RUN(products_beside_a_recurrence_are_split_and_steps_do_not_round);
  RUN(the_library_gets_large_products_if_it_is_there);
  RUN(the_library_gets_what_stands_alone);
  RUN(memory_holds_16_bits_of_what_only_products_read);
  RUN(what_is_taken_from_a_constant_keeps_its_digits);
  RUN(a_view_is_stored_as_what_it_views);
  RUN(what_parameters_make_comes_first);
  RUN(small_kernels_on_the_way_to_gradients_stand_together);
  RUN(blocks_leave_what_parameters_alone_make_to_the_entry);
  RUN(final_states_are_computed_where_one_is_read);
  RUN(attributes_and_types_are_checked_and_survive_text);
  RUN(the_interpreter_shows_the_rounding);
  RUN(numbers_of_few_bits);
  RUN(targets_are_found);
  return test_done();
}
