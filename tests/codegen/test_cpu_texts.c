/* Texts of kernels for processors: what is missing is told by text and hole, every width of vectors
 * gives what the interpreter gives, and nothing of a text is left in a program. */
#include "codegen/cpu/host/host.h"
#include "codegen/cpu/host/machine.h"
#include "codegen/cpu/text.h"
#include "codegen/cpu/texts.h"
#include "tests/codegen/codegen_check.h"

/* ---- what is missing ------------------------------------------------------------------------- */

typedef struct request {
  const char *text, *hole; /* hole: that is filled by force */
  int width;
  bool all; /* the holes of prefix_sum but EXCLUSIVE */
} request;

static vtb_status use_text(void *arg, vtb_error *err) {
  const request *r = arg;
  vtb_codegen_options o = {.cpu = "x86-64-v3"};
  vtb_machine machine;
  vtb_host host;
  vtb_cpu_kernel kernel = {0};
  VTB_TRY(vtb__machine_open(&o, &machine, err));
  vtb__host_init(&host, &(vtb_module){0}, &o, machine.width);
  host.cpu.kernel = &kernel;
  vtb_cpu_text *x = vtb_cpu_text_open(&host.cpu, r->text, r->width);
  static const char *const numbers[] = {"TOKENS", "OUTER", "INNER", "AXES", "REVERSE"};
  for (size_t i = 0; r->all && i < sizeof numbers / sizeof *numbers; i++)
    vtb_cpu_text_number(x, numbers[i], 1);
  static const char *const lists[] = {"SIZE", "AT", "TOKEN"};
  for (size_t i = 0; r->all && i < sizeof lists / sizeof *lists; i++)
    vtb_cpu_text_numbers(x, lists[i], (int64_t[]){1}, 1);
  if (r->all) vtb_cpu_text_real(x, "WRAP", 0);
  if (r->hole) vtb_cpu_text_number(x, r->hole, 1);
  vtb_cpu_text_run(x, NULL);
  return VTB_OK;
}

static void expect(request r, const char *sentence) {
  vtb_error err = {0};
  vtb_status status = vtb_guard(use_text, &r, &err);
  CHECK_MSG(status == VTB_E_INTERNAL && strstr(err.text, sentence), "\"%s\" does not say \"%s\"",
            err.text, sentence);
}

TEST(what_is_missing_is_told) {
  expect((request){.text = "prefix_products", .width = 8}, "there is no text prefix_products.8.bc");
  expect((request){.text = "prefix_sum", .width = 3}, "there is no text prefix_sum.3.bc");
  expect((request){.text = "prefix_sum", .width = 8, .hole = "REVERSE"},
         "of the text prefix_sum is not filled");
  expect((request){.text = "prefix_sum", .width = 8, .hole = "SKIP"},
         "the text prefix_sum has no hole SKIP");
  expect((request){.text = "prefix_sum", .width = 8, .all = true},
         "the hole EXCLUSIVE of the text prefix_sum is not filled");
  expect((request){.text = "prefix_sum", .width = 8, .all = true, .hole = "EXCLUSIVE"},
         "the function place of the text prefix_sum is not filled");
}

static void version_20(unsigned *major, unsigned *minor, unsigned *patch) {
  *major = 20, *minor = 1, *patch = 0;
}

TEST(another_llvm_is_refused) {
  vtb_error err = {0};
  CHECK(vtb__llvm_need(&err) == VTB_OK && vtb__texts_check(&err) == VTB_OK);
  __typeof__(&version_20) own = LLVMGetVersion;
  LLVMGetVersion = version_20;
  CHECK(vtb__texts_check(&err) == VTB_E_DEVICE);
  CHECK_MSG(strstr(err.text, "LLVM 20.1 was opened") && strstr(err.text, "install libllvm19"), "%s",
            err.text);
  LLVMGetVersion = own;
}

/* ---- widths ---------------------------------------------------------------------------------- */

static const char sums[] =
    "module \"t\"\n"
    "func @f(%x: f32[3, 13, 2, 21], %g: f32[2, 12, 37], %i: f32[2, 12, 37], %z: f32[2, 37], %d: "
    "f32[2, 12, 37]) -> (f32[3, 13, 2, 21], f32[3, 13, 2, 21], f32[2, 12, 37], f32[2, 12, 37], "
    "f32[2, 12, 37], f32[2, 37]) {\n"
    "  %a = prefix_sum %x {axis = 1, wrap = 2.5} : f32[3, 13, 2, 21]\n"
    "  %b = prefix_sum %x {axis = 3, reverse = 1, exclusive = 1} : f32[3, 13, 2, 21]\n"
    "  %m = maxplus %g, %i, %z {path = \"cols@3x4\"} : f32[2, 12, 37]\n"
    "  %p, %q, %r = maxplus_grad %g, %i, %z, %m, %d {init = 1, path = \"cols@3x4\"} : f32[2, 12, "
    "37], f32[2, 12, 37], f32[2, 37]\n"
    "  return %a, %b, %m, %p, %q, %r\n"
    "}\n";

TEST(all_widths_agree) {
  static const char *const cpus[] = {"x86-64", "x86-64-v3", "host"};
  for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
    vtb_module *m = parse_ir(sums);
    check_function(m, m->first, cpus[i], &(check_options){.cpu = cpus[i]});
    check_function(m, m->first, cpus[i], &(check_options){.cpu = cpus[i], .no_opt = true});
    vtb_module_free(m);
  }
}

TEST(programs_hold_nothing_of_texts) {
  vtb_module *m = parse_ir(sums);
  vtb_error err = {0};
  vtb_strbuf out = {0};
  CHECK(vtb_codegen_text(m, m->first, NULL, false, &out, &err) == VTB_OK);
  CHECK(strstr(vtb_strbuf_text(&out), "@maxplus_grad_3.p.maxplus_grad.0(ptr"));
  CHECK(!strstr(out.at, "@maxplus_grad.3.") && !strstr(out.at, "@TOKENS"));
  vtb_strbuf_free(&out);
  vtb_module_free(m);
}

/* ---- functions that texts share -------------------------------------------------------------- */

static const char attentions[] =
    "module \"t\"\n"
    "func @f(%q: f32[1, 5, 2, 16], %k: f32[1, 9, 2, 16]) -> (f32[1, 5, 2, 16], f32[1, 5, 2], "
    "f32[1, 9, 2, 16], f32[1, 9, 2]) {\n"
    "  %a, %b = attention %q, %k, %k {scale = 0.25} : f32[1, 5, 2, 16], f32[1, 5, 2]\n"
    "  %c, %d = attention %k, %q, %q {scale = 0.25} : f32[1, 9, 2, 16], f32[1, 9, 2]\n"
    "  return %a, %b, %c, %d\n"
    "}\n";

static int count(const char *text, const char *what) {
  int n = 0;
  for (; (text = strstr(text, what)); text++) n++;
  return n;
}

TEST(what_texts_share_is_there_once) {
  vtb_module *m = parse_ir(attentions);
  vtb_error err = {0};
  vtb_strbuf out = {0};
  CHECK(vtb_codegen_text(m, m->first, NULL, false, &out, &err) == VTB_OK);
  /* the definition and the calls: keys of each, two products of each */
  CHECK(count(vtb_strbuf_text(&out), "@vtb_product_from(") == 5);
  CHECK(count(out.at, "@vtb_transpose(") == 3);
  CHECK(!strstr(out.at, "@vtb_solve") && !strstr(out.at, "@vtb_load_part"));
  vtb_strbuf_free(&out);
  vtb_module_free(m);
}

static int fused_adds(const char *cpu) {
  vtb_module *m = parse_ir(attentions);
  vtb_codegen_options o = {.cpu = cpu};
  vtb_error err = {0};
  vtb_strbuf out = {0};
  CHECK(vtb_codegen_text(m, m->first, &o, false, &out, &err) == VTB_OK);
  int n = count(vtb_strbuf_text(&out), "@llvm.fma.v4f32(");
  vtb_strbuf_free(&out);
  vtb_module_free(m);
  return n;
}

/* Vectors of four are in 16 registers or in 32, and tiles of products as large as these allow. */
TEST(tiles_fill_the_registers) { CHECK(fused_adds("aarch64") > fused_adds("x86-64")); }

int main(void) {
  RUN(what_is_missing_is_told);
  RUN(another_llvm_is_refused);
  RUN(all_widths_agree);
  RUN(programs_hold_nothing_of_texts);
  RUN(what_texts_share_is_there_once);
  RUN(tiles_fill_the_registers);
  return test_done();
}
