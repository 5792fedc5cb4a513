/* What kernels are called: merged paths, results without repetitions, widths of products. */
#include "codegen/label.h"
#include "tests/test.h"

static vtb_arena arena;

static const char *merged(const char *a, const char *b) { return vtb_label_merge(a, b, &arena); }

TEST(what_differs_between_sites_becomes_a_star) {
  CHECK_STR(merged(NULL, "head"), "head");
  CHECK_STR(merged("blocks.0.proj_up 64 -> 256", "blocks.1.proj_up 64 -> 256"),
            "blocks.*.proj_up 64 -> 256");
  CHECK_STR(merged("blocks.*.proj_up", "blocks.7.proj_up"), "blocks.*.proj_up");
  CHECK_STR(merged("blocks.0.attn.q_proj", "blocks.1.attn.k_proj"), "blocks.*.attn.*_proj");
  CHECK_STR(merged("norm", "blocks.0.norm"), "*");
  CHECK_STR(merged("x", "yy"), "*");
  CHECK_STR(merged("", "a.b"), "*");
}

static vtb_module *parse(const char *text) {
  static vtb_source source;
  vtb_diags diags = {0};
  source = (vtb_source){.path = "<test>", .text = text, .n = strlen(text)};
  vtb_module *m = vtb_module_parse(&source, &diags);
  vtb_diags_print(&diags, stderr);
  vtb_diags_free(&diags);
  if (!m) exit(1);
  return m;
}

static const char *label(vtb_inst *inst, const char *scope, const char *path) {
  inst->span.scope = scope;
  return vtb_label_of(inst, path, &arena);
}

TEST(labels_are_path_result_and_widths) {
  vtb_module *m = parse("entry func @f(%x: f32[2, 5, 8], %w: f32[16, 8]) -> (f32[2, 5, 8]) {\n"
                        "  %up.y = einsum %x, %w {spec = \"bnc,ec->bne\"} : f32[2, 5, 16]\n"
                        "  %act.3 = silu %up.y : f32[2, 5, 16]\n"
                        "  %d_x = einsum %act.3, %w {spec = \"bne,ec->bnc\"} : f32[2, 5, 8]\n"
                        "  %d_up.weight = einsum %act.3, %x {spec = \"bne,bnc->ec\"} : f32[16, 8]\n"
                        "  return %d_x\n}\n");
  vtb_inst *up = m->entry->first, *act = up->next, *dx = act->next, *dw = dx->next;
  CHECK_STR(label(up, "mlp.up", "blocks.*"), "blocks.*.mlp.up 8 -> 16");
  CHECK_STR(label(act, "mlp", "blocks.*"), "blocks.*.mlp.act");
  CHECK_STR(label(act, NULL, ""), "act");
  CHECK_STR(label(dx, "mlp.up", "blocks.*"), "blocks.*.mlp.up.d_x 16 -> 8");
  CHECK_STR(label(dw, "mlp.up", ""), "mlp.up.d_weight"); /* a sum over images has no widths */
  vtb_strbuf name = {0};
  vtb_label_identifier("blocks.*.mlp.up 8 -> 16", &name);
  CHECK_STR(name.at, "blocks_x_mlp_up");
  vtb_strbuf_free(&name);
  vtb_module_free(m);
}

int main(void) {
  vtb_arena_init(&arena);
  RUN(what_differs_between_sites_becomes_a_star);
  RUN(labels_are_path_result_and_widths);
  vtb_arena_free(&arena);
  return test_done();
}
