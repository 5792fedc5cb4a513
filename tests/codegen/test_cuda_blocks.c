/* Products of small matrices, one a group, and with short sums: kernels of text/blocks.cu and
 * text/blocks_sum.cu, emulated, against the interpreter. */
#include <stdlib.h>

#include "tests/codegen/cuda_check.h"
#include "ir/ops.h"

static vtb_type shape(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  return vtb_type_make(VTB_F32, rank, (int64_t[]){a, b, c, d});
}

static vtb_value *einsum(cuda_cases *c, const char *spec, vtb_value *x, vtb_value *y,
                         vtb_value *add) {
  vtb_attr attr = VTB_A_STR("spec", spec);
  vtb_inst *i = vtb_build(&c->b, VTB_OP_einsum, (vtb_value *[]){x, y, add}, add ? 3 : 2, &attr, 1);
  cuda_return(c, i);
  return i->results[0];
}

/* What a block-diagonal projection and its gradients are: B x N tokens, G blocks of `in` to `out`
 * channels. add: 0 nothing, 1 a bias, 2 another result. */
static void headwise(cuda_cases *c, int64_t B, int64_t N, int64_t G, int64_t in, int64_t out,
                     int add) {
  vtb_value *x = cuda_arg(c, shape(4, B, N, G, in), 1, 0),
            *w = cuda_arg(c, shape(3, G, out, in, 0), 1, 0),
            *dy = cuda_arg(c, shape(4, B, N, G, out), 1, 0);
  vtb_value *bias = add == 1   ? cuda_arg(c, shape(2, G, out, 0, 0), 1, 0)
                    : add == 2 ? cuda_arg(c, shape(4, B, N, G, out), 1, 0)
                               : NULL;
  vtb_value *dx = add == 2 ? cuda_arg(c, shape(4, B, N, G, in), 1, 0) : NULL;
  vtb_value *dw = add == 2 ? cuda_arg(c, shape(3, G, out, in, 0), 1, 0) : NULL;
  einsum(c, "bngi,goi->bngo", x, w, bias);
  einsum(c, "bngo,goi->bngi", dy, w, dx);
  einsum(c, "bngo,bngi->goi", dy, x, dw);
  c->n_cases++;
}

TEST(every_size_of_block) {
  cuda_cases c;
  cuda_begin(&c);
  for (int size = 1; size <= 8; size++) headwise(&c, 2, 41 + size, 9, size, size, size % 3);
  headwise(&c, 1, 300, 40, 4, 4, 1); /* more groups than a warp has lanes, and several shares */
  headwise(&c, 3, 57, 24, 2, 2, 2);
  headwise(&c, 1, 97, 33, 1, 1, 2);
  headwise(&c, 2, 50, 5, 4, 8, 1);
  headwise(&c, 2, 50, 5, 6, 3, 0);
  cuda_end(&c, 1e-5, "blocks");
}

/* Views and orders of memory that cannot be moved in fours, or whose rows do not merge. */
static const char layouts[] =
    "func @f(%x: f32[2, 70, 24], %w: f32[6, 4, 4], %t: f32[70, 2, 6, 4], %s: f32[2, 80, 8], %v: "
    "f32[8, 36],\n"
    "    %y: f32[2, 70, 12], %u: f32[2, 70, 13]) -> (f32[2, 70, 3, 4], f32[2, 70, 6, 4], f32[2, "
    "80, 36], f32[3, 4, 4], f32[12, 13], f32[70, 6, 4, 2]) {\n"
    "  %a = slice %x {axis = 2, start = 10, limit = 22} : f32[2, 70, 12]\n"
    "  %b = reshape %a {shape = [2, 70, 3, 4]} : f32[2, 70, 3, 4]\n"
    "  %c = slice %w {axis = 0, start = 1, limit = 6, step = 2} : f32[3, 4, 4]\n"
    "  %p1 = einsum %b, %c {spec = \"bngi,goi->bngo\"} : f32[2, 70, 3, 4]\n"
    "  %p2 = einsum %t, %w {spec = \"nbgi,gio->bngo\"} : f32[2, 70, 6, 4]\n"
    "  %p3 = einsum %s, %v {spec = \"bne,ed->bnd\"} : f32[2, 80, 36]\n"
    "  %d = reshape %y {shape = [2, 70, 3, 4]} : f32[2, 70, 3, 4]\n"
    "  %p4 = einsum %d, %b {spec = \"bngo,bngi->goi\"} : f32[3, 4, 4]\n"
    "  %p5 = einsum %y, %u {spec = \"bnc,bnd->cd\"} : f32[12, 13]\n"
    "  %p6 = einsum %t, %w {spec = \"nbgi,gio->ngob\"} : f32[70, 6, 4, 2]\n"
    "  return %p1, %p2, %p3, %p4, %p5, %p6\n"
    "}\n";

TEST(views_and_orders) {
  vtb_source source = {.path = "<test>", .text = layouts, .n = strlen(layouts)};
  vtb_diags d = {0};
  vtb_module *m = vtb_module_parse(&source, &d);
  vtb_diags_print(&d, stderr);
  CHECK(m != NULL);
  vtb_func *f = m->entry = vtb_module_find(m, "f");
  unsigned long long seed = 99;
  vtb_tensor args[8];
  for (int a = 0; a < f->n_args; a++) {
    args[a] = vtb_tensor_new(f->args[a]->type);
    for (int64_t k = 0; k < vtb_type_count(&args[a].type); k++)
      args[a].data[k] = (float)test_random(&seed);
  }
  cuda_check(m, f, args, 1e-5, "layouts");
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&args[a]);
  vtb_module_free(m);
  vtb_diags_free(&d);
}

/* The kernels are taken: a plan of three products has the two kernels of rows, the one of sums and
 * the one that adds its parts. */
TEST(no_product_falls_back_to_loops) {
  cuda_cases c;
  vtb_error err = {0};
  vtb_launch_plan *plan = NULL;
  cuda_begin(&c);
  headwise(&c, 2, 200, 48, 4, 4, 1);
  vtb_func_set_returns(c.f, c.returns, NULL, c.n_returns);
  c.m->entry = c.f;
  CHECK(cuda_plan(c.m, c.f, &(vtb_codegen_options){0}, &plan, &err) == VTB_OK);
  static const char *const kinds[] = {"blocks_case", "blocks_case", "blocks_sum_case",
                                      "blocks_add_case"};
  CHECK(plan->n_steps == 4);
  for (int s = 0; s < plan->n_steps && s < 4; s++) {
    const char *name = plan->kernels[plan->steps[s].index].name;
    CHECK_MSG(strncmp(name, kinds[s], strlen(kinds[s])) == 0, "step %d is %s", s, name);
  }
  vtb_launch_plan_free(plan);
  for (int i = 0; i < c.f->n_args; i++) vtb_tensor_free(&c.args[i]);
  vtb_module_free(c.m);
}

int main(void) {
  emulate_or_skip();
  RUN(every_size_of_block);
  RUN(views_and_orders);
  RUN(no_product_falls_back_to_loops);
  return test_done();
}
