/* Weights in panels: which products get them, that they compute what they did, and that callers
 * prepare the panels, once where several calls have the same weight. */
#include "ir/ops.h"
#include "tests/passes/pass_check.h"

static vtb_target panels = {.name = "panels", .panels = {4, 8, 16}};

/* Through the pass; how many products are by panels. */
static int packed_in(vtb_module *m, const char *pipeline) {
  int n = 0;
  vtb_pass_context c = {.module = m, .batch = 2, .target = &panels};
  if (!run_passes_in(&c, pipeline)) return -1;
  for (const vtb_func *f = m->first; f; f = f->next)
    n += f->kind == VTB_FUNC_KERNEL && vtb_starts_with(f->name, "panels");
  return n;
}

static int products(const vtb_module *m, const char *letters) {
  char *text = print_ir(m);
  int n = 0;
  for (const char *at = text; (at = strstr(at, letters)) != NULL; at++) n++;
  free(text);
  return n;
}

/* The text, whose one product is by panels of these letters, or is as it was (NULL). */
static void check(const char *text, const char *letters) {
  vtb_module *m = parse_ir(text), *before = parse_ir(text);
  int n = packed_in(m, "pack");
  CHECK_MSG(n == (letters != NULL), "%d products are packed in\n%s", n, text);
  if (letters) CHECK_MSG(products(m, letters) == 1, "no \"%s\" in\n%s", letters, print_ir(m));
  CHECK(compare_modules(before, m, 3) == 0);
  vtb_module_free(m);
  vtb_module_free(before);
}

#define ENTRY(args, spec, x, w, add, result)                                                       \
  "entry func @f(" args ") -> (" result ") {\n"                                                    \
  "  %y = einsum " x ", " w add " {spec = \"" spec "\"} : " result "\n"                            \
  "  return %y\n}\n"

TEST(products_of_weights_are_by_panels) {
  check(ENTRY("%x: f32[2, 5, 16], %w: f32[12, 16] param \"w\"", "bnd,ed->bne", "%x", "%w", "",
              "f32[2, 5, 12]"),
        "bnd,edj->bnej");
  check(ENTRY("%x: f32[9, 16], %w: f32[16, 8] param \"w\", %c: f32[8] param \"c\"", "nd,de->ne",
              "%x", "%w", ", %c", "f32[9, 8]"),
        "nd,edj->nej");
  /* what is added is of all rows, of each column, or one number */
  check(ENTRY("%x: f32[9, 16], %w: f32[16, 8] param \"w\", %c: f32[9, 8]", "nd,de->ne", "%x", "%w",
              ", %c", "f32[9, 8]"),
        "nd,edj->nej");
  check(ENTRY("%x: f32[9, 16], %w: f32[16, 8] param \"w\", %c: f32[9, 1]", "nd,de->ne", "%x", "%w",
              ", %c", "f32[9, 8]"),
        "nd,edj->nej");
  check(ENTRY("%x: f32[9, 16], %w: f32[16, 8] param \"w\", %c: f32[]", "nd,de->ne", "%x", "%w",
              ", %c", "f32[9, 8]"),
        "nd,edj->nej");
  /* several letters for columns, and for what is summed */
  check(ENTRY("%x: f32[9, 4, 4], %w: f32[3, 8, 4, 4] param \"w\", %c: f32[3, 8] param \"c\"",
              "nxy,heyx->nhe", "%x", "%w", ", %c", "f32[9, 3, 8]"),
        "nxy,hyxj->nhj");
}

TEST(products_that_stay) {
  /* seven rows; ten columns; short sums */
  check(
      ENTRY("%x: f32[7, 16], %w: f32[16, 8] param \"w\"", "nd,de->ne", "%x", "%w", "", "f32[7, 8]"),
      NULL);
  check(ENTRY("%x: f32[9, 16], %w: f32[16, 10] param \"w\"", "nd,de->ne", "%x", "%w", "",
              "f32[9, 10]"),
        NULL);
  check(
      ENTRY("%x: f32[9, 15], %w: f32[15, 8] param \"w\"", "nd,de->ne", "%x", "%w", "", "f32[9, 8]"),
      NULL);
  /* a weight that is none */
  check(ENTRY("%x: f32[9, 16], %w: f32[16, 8]", "nd,de->ne", "%x", "%w", "", "f32[9, 8]"), NULL);
  /* of two weights; columns before rows; a matrix a group; columns apart, or turned round */
  check(ENTRY("%x: f32[9, 16] param \"x\", %w: f32[16, 8] param \"w\"", "nd,de->ne", "%x", "%w", "",
              "f32[9, 8]"),
        NULL);
  check(
      ENTRY("%x: f32[9, 16], %w: f32[16, 8] param \"w\"", "nd,de->en", "%x", "%w", "", "f32[8, 9]"),
      NULL);
  check(ENTRY("%x: f32[9, 2, 16], %w: f32[2, 16, 8] param \"w\"", "ngd,gde->nge", "%x", "%w", "",
              "f32[9, 2, 8]"),
        NULL);
  check(ENTRY("%x: f32[9, 16], %w: f32[3, 16, 8] param \"w\"", "nd,hde->nhe", "%x", "%w", "",
              "f32[9, 3, 8]"),
        NULL);
  check(ENTRY("%x: f32[9, 16], %w: f32[8, 3, 16] param \"w\"", "nd,ehd->nhe", "%x", "%w", "",
              "f32[9, 3, 8]"),
        NULL);
  /* numbers for one letter of the columns alone */
  check(ENTRY("%x: f32[9, 16], %w: f32[3, 8, 16] param \"w\", %c: f32[8] param \"c\"",
              "nd,hed->nhe", "%x", "%w", ", %c", "f32[9, 3, 8]"),
        NULL);
}

static const char calls[] =
    "func @block(%x: f32[2, 5, 8], %w: f32[8, 8], %u: f32[8, 8], %s: f32[8], %v: f32[8, 16]) -> "
    "(f32[2, 5, 8]) {\n"
    "  %t = mul %u, %s : f32[8, 8]\n"
    "  %z = concat %w, %t {axis = 1} : f32[8, 16]\n"
    "  %a = einsum %x, %z {spec = \"bnd,de->bne\"} : f32[2, 5, 16]\n"
    "  %b = tanh %a : f32[2, 5, 16]\n"
    "  %c = einsum %b, %v, %x {spec = \"bnd,ed->bne\"} : f32[2, 5, 8]\n"
    "  return %c\n}\n"
    "entry func @f(%x: f32[2, 5, 8], %w: f32[8, 8] param \"w\", %u: f32[8, 8] param \"u\", %s: "
    "f32[8] param \"s\", %v: f32[8, 16] param \"v\", %r: f32[8, 16] param \"r\") -> "
    "(f32[2, 5, 8]) {\n"
    "  %a = call @block(%x, %w, %u, %s, %v) : f32[2, 5, 8]\n"
    "  %b = call @block(%a, %w, %u, %s, %r) : f32[2, 5, 8]\n"
    "  return %b\n}\n";

/* Sums of 8 are too short, of 16 are not: of v and r are panels, once each. */
TEST(callers_prepare_panels) {
  vtb_module *m = parse_ir(calls), *before = parse_ir(calls);
  CHECK(packed_in(m, "pack,hoist,prepare") == 1);
  int prepared = 0;
  for (const vtb_inst *i = m->entry->first; i; i = i->next)
    prepared += i->op == VTB_OP_fused && vtb_attr_int(i, "prepared", 0);
  CHECK_MSG(prepared == 2, "%d panels are prepared", prepared);
  CHECK(compare_modules(before, m, 3) == 0);
  vtb_module_free(m);
  vtb_module_free(before);
  m = parse_ir(calls);
  vtb_pass_context training = {.module = m, .target = &panels, .updates = true};
  CHECK(run_passes_in(&training, "pack{of inference}"));
  CHECK(products(m, "panels") == 0);
  vtb_module_free(m);
}

/* Two products of one weight read the same panels. */
TEST(products_of_one_weight_share_panels) {
  static const char tied[] =
      "func @block(%x: f32[9, 16], %w: f32[16, 16]) -> (f32[9, 16]) {\n"
      "  %a = einsum %x, %w {spec = \"nd,ed->ne\"} : f32[9, 16]\n"
      "  %b = tanh %a : f32[9, 16]\n"
      "  %c = einsum %b, %w {spec = \"nd,ed->ne\"} : f32[9, 16]\n"
      "  return %c\n}\n"
      "entry func @f(%x: f32[9, 16], %w: f32[16, 16] param \"w\") -> (f32[9, 16]) {\n"
      "  %a = call @block(%x, %w) : f32[9, 16]\n"
      "  %b = call @block(%a, %w) : f32[9, 16]\n"
      "  return %b\n}\n";
  vtb_module *m = parse_ir(tied), *before = parse_ir(tied);
  packed_in(m, "pack,hoist,prepare");
  int prepared = 0;
  for (const vtb_inst *i = m->entry->first; i; i = i->next)
    prepared += i->op == VTB_OP_fused && vtb_attr_int(i, "prepared", 0);
  CHECK_MSG(prepared == 1, "%d panels are prepared", prepared);
  CHECK(compare_modules(before, m, 3) == 0);
  vtb_module_free(m);
  vtb_module_free(before);
}

int main(void) {
  RUN(products_of_weights_are_by_panels);
  RUN(products_that_stay);
  RUN(callers_prepare_panels);
  RUN(products_of_one_weight_share_panels);
  return test_done();
}
