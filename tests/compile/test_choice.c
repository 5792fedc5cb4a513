/* Which fusions a module has, place by place: what costs more than it saves is left out, what a
 * kernel refuses is taken in part, and both are told in lines of 80 columns. */
#include "frontend/compile/fusions.h"
#include "frontend/compile/words.h"
#include "passes/fuse/choice.h"
#include "tests/passes/pass_check.h"

#include "ir/kernels.h"

/* Prices: kernels of a kind, and all else, a launch each. */
typedef struct prices {
  vtb_asker head;
  vtb_kernel_kind kind;
  double kernel, other;
  int most_results; /* of the kernel: more are refused */
  bool alone;       /* all else is refused */
  double result;    /* each result of the kernel but the first more */
} prices;

static vtb_answer ask(vtb_asker *a, const vtb_inst *const *insts, int n) {
  const prices *p = (const prices *)a;
  vtb_answer sum = {.takes = true, .launches = n};
  for (int i = 0; i < n; i++) {
    bool kernel = vtb_kernel_kind_of(insts[i]) == p->kind;
    sum.seconds += kernel ? p->kernel + p->result * (insts[i]->n_results - 1) : p->other;
    sum.takes &= kernel || !p->alone;
    if (!kernel || insts[i]->n_results <= p->most_results) continue;
    sum.takes = false;
    sum.why = "more results than it has room for";
  }
  return sum;
}

static const char text[] =
    "entry func @f(%x: f32[5, 6], %w: f32[6, 7], %r: f32[5, 7]) -> (f32[5, 7], f32[5, 7]) {\n"
    "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
    "  %y = mul %p, %r : f32[5, 7]\n"
    "  %q = einsum %x, %w {spec = \"ab,bc->ac\", library = 1} : f32[5, 7]\n"
    "  %e = exp %q : f32[5, 7]\n"
    "  %o = mul %e, %r : f32[5, 7]\n"
    "  return %y, %o\n}\n";

/* Kernels of kind product; *made: what was decided. */
static int products(prices p, vtb_decisions *made) {
  vtb_module *m = parse_ir(text);
  vtb_error err = {0};
  p.head.ask = ask;
  p.kind = VTB_KERNEL_PRODUCT;
  vtb_pass_context c = {.module = m, .asker = &p.head, .decisions = made};
  vtb_pipeline_options o = {.pipeline = "fuse,grow{products}", .verify_each = true};
  CHECK_MSG(vtb_run_pipeline(&c, &o, &err) == VTB_OK, "%s", err.text);
  int n = 0;
  for (const vtb_inst *i = m->entry->first; i; i = i->next)
    n += vtb_kernel_kind_of(i) == VTB_KERNEL_PRODUCT;
  vtb_module_free(m);
  return n;
}

TEST(a_place_is_taken_by_what_its_kernel_costs) {
  vtb_decisions d = {0};
  /* the sibling goes with it: three launches or one */
  CHECK(products((prices){.kernel = 2.9, .other = 1, .most_results = 9}, &d) == 1);
  CHECK(d.at.n == 1 && d.at.at[0].verdict == VTB_FUSED && d.at.at[0].apart == 3 &&
        d.at.at[0].fused == 2.9 && vtb_streq(d.at.at[0].fusion, "products"));
  CHECK(vtb_streq(d.at.at[0].place, "p"));
  d.at.n = 0;
  CHECK(products((prices){.kernel = 3.2, .other = 1, .most_results = 9}, &d) == 1); /* nearly */
  CHECK(products((prices){.kernel = 3.4, .other = 1, .most_results = 9}, &d) == 0);
  CHECK(d.at.n == 2 && d.at.at[1].verdict == VTB_LEFT_OUT);
  vtb_decisions_free(&d);
  d = (vtb_decisions){.all = true}; /* whatever it costs */
  CHECK(products((prices){.kernel = 9, .other = 1, .most_results = 9}, &d) == 1);
  vtb_decisions_free(&d);
}

TEST(what_is_refused_is_taken_in_part) {
  vtb_decisions d = {0};
  vtb_strbuf out = {0};
  CHECK(products((prices){.kernel = 1, .other = 1, .most_results = 1}, &d) == 1);
  CHECK(d.at.n == 1 && d.at.at[0].verdict == VTB_FUSED_IN_PART && d.at.at[0].fused == 2);
  vtb_decisions_print(&d, "h200", &out);
  CHECK_MSG(strstr(out.at, "  in part\n  more results than it has room for\n"), "%s", out.at);
  out.n = 0;
  d.at.n = 0;
  CHECK(products((prices){.kernel = 1, .other = 1, .most_results = 0}, &d) == 0);
  CHECK(d.at.n == 1 && d.at.at[0].verdict == VTB_LEFT_OUT);
  vtb_decisions_print(&d, "h200", &out);
  CHECK_MSG(strstr(out.at, "3000.0000        -  left out\n"), "%s", out.at);
  vtb_decisions_free(&d);
  d = (vtb_decisions){.all = true};
  CHECK(products((prices){.kernel = 1, .other = 1, .most_results = 0}, &d) == 0);
  vtb_decisions_free(&d);
  vtb_strbuf_free(&out);
}

/* A kernel that pays with all of them may be quicker without some. */
TEST(less_in_one_kernel_may_be_quicker) {
  vtb_decisions d = {0};
  vtb_strbuf out = {0};
  prices p = {.kernel = 0.5, .other = 0.45, .most_results = 9, .result = 0.5};
  CHECK(products(p, &d) == 1); /* 1.0, and 0.95 with the sibling beside it: hardly */
  CHECK(d.at.n == 1 && d.at.at[0].verdict == VTB_FUSED);
  p.result = 0.9;
  d.at.n = 0;
  CHECK(products(p, &d) == 1);
  CHECK(d.at.n == 1 && d.at.at[0].verdict == VTB_FUSED_IN_PART);
  vtb_decisions_print(&d, "h200", &out);
  CHECK_MSG(strstr(out.at, "in part\n  all of it in one kernel would take"), "%s", out.at);
  vtb_decisions_free(&d);
  d = (vtb_decisions){.all = true}; /* whatever it costs */
  CHECK(products(p, &d) == 1 && d.at.at[0].verdict == VTB_FUSED);
  vtb_decisions_free(&d);
  vtb_strbuf_free(&out);
}

/* What nobody takes by itself has to be in a kernel, whatever that costs; what its maker refuses is
 * asked about without it. */
TEST(members_that_are_refused) {
  vtb_decisions d = {0};
  CHECK(products((prices){.kernel = 9, .other = 1, .most_results = 9, .alone = true}, &d) == 1);
  CHECK(d.at.n == 1 && d.at.at[0].verdict == VTB_FUSED);
  vtb_decisions_free(&d);
}

TEST(somebody_may_say_which) {
  vtb_decisions d;
  vtb_error err = {0};
  CHECK(vtb_decisions_parse("all", &d, &err) == VTB_OK && d.all && d.declined == 0);
  CHECK(vtb_decisions_parse("-fuse_norms,-products", &d, &err) == VTB_OK);
  CHECK(d.declined == (1u << vtb_fusion_find("fuse_norms") | 1u << vtb_fusion_find("products")));
  CHECK(products((prices){.kernel = 1, .other = 1, .most_results = 9}, &d) == 0);
  static const char *const wrong[] = {"", "fuse_norms", "-fuse", "-fuse_norms,", "all,-fuse_norms"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CHECK(vtb_decisions_parse(wrong[i], &d, &err) == VTB_E_USAGE);
    CHECK_MSG(strstr(err.text, "names no fusion") && strstr(err.text, "products"), "%s", err.text);
  }
}

TEST(targets_know_their_precisions) {
  vtb_error err = {0};
  CHECK(vtb_target_knows(vtb_target_find("cuda"), VTB_PRECISION_BF16, &err) == VTB_OK);
  CHECK(vtb_target_knows(vtb_target_find("cpu"), VTB_PRECISION_BF16, &err) == VTB_E_USAGE);
  CHECK(strstr(err.text, "target cpu does not know precision bf16: it computes in fp32"));
}

TEST(lines_have_80_columns) {
  vtb_decisions d = {0};
  vtb_strbuf out = {0};
  static const char *const names[] = {
#define VTB_FUSION(name, ...) name,
#include "ir/kernels.def"
#undef VTB_FUSION
  };
  vtb_decisions_print(&d, "h200", &out);
  CHECK(strstr(out.at, "nothing to decide") != NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    vtb_decision x = {.fusion = names[i], .apart = 12.3456, .fused = 0.5, .verdict = VTB_LEFT_OUT};
    memset(x.place, 'x', sizeof x.place - 1);
    memset(x.why, 'y', sizeof x.why - 1);
    vtb_vec_push(&d.at, x);
  }
  vtb_decisions_print(&d, "a machine of some name", &out);
  for (const char *s = out.at; *s; s += strcspn(s, "\n") + 1)
    CHECK_MSG(strcspn(s, "\n") <= 80, "%.*s", (int)strcspn(s, "\n"), s);
  vtb_decisions_free(&d);
  vtb_strbuf_free(&out);
}

int main(void) {
  RUN(a_place_is_taken_by_what_its_kernel_costs);
  RUN(what_is_refused_is_taken_in_part);
  RUN(less_in_one_kernel_may_be_quicker);
  RUN(members_that_are_refused);
  RUN(somebody_may_say_which);
  RUN(targets_know_their_precisions);
  RUN(lines_have_80_columns);
  return test_done();
}
