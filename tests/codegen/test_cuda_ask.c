/* What the kernels of CUDA answer before they are emitted (passes/cost/ask.h): of each kind a shape
 * that is taken and one that is past a limit, which is refused with a sentence and crashes nothing.
 * Seconds are those that the plan of the same instruction is estimated to take. */
#include "codegen/estimate.h"
#include "ir/ops.h"
#include "codegen/targets.h"
#include "runtime/launch/launch_check.h"
#include "tests/codegen/asked.h"

#include "ir/kernels.h"

typedef struct shape {
  const char *kernel, *kind; /* text of asked.h, whose letters are: */
  int64_t B, N, h, K, V;
  const char *why; /* part of the refusal; NULL: it is taken */
} shape;

static const shape shapes[] = {
    /* heads of 128 fit a block with their sequence, others go by tiles of rows */
    {ask_mixer, "mixer", 2, 196, 4, 96, 96, NULL},
    {ask_mixer, "mixer", 2, 256, 2, 64, 64, NULL},
    {ask_mixer, "mixer", 2, 257, 2, 64, 64, NULL},
    {ask_mixer, "mixer", 1, 300, 1, 768, 768, NULL},
    {ask_mixer, "mixer", 1, 300, 1, 772, 768, "a mixer of heads of 772 x 768 numbers"},
    {ask_mixer, "mixer", 1, 300, 1, 768, 772, "a mixer of heads of 768 x 772 numbers"},
    /* gates need a block for a sequence */
    {ask_gates, "mixer", 2, 196, 4, 96, 96, NULL},
    {ask_gates, "mixer", 2, 256, 2, 64, 64, NULL},
    {ask_gates, "mixer", 2, 257, 2, 64, 64, "gates in a mixer of 257 tokens"},
    {ask_gates, "mixer", 2, 100, 2, 196, 64, "heads of 196 x 64"},
    {ask_mixer_grad, "mixer_grad", 2, 196, 4, 96, 96, NULL},
    {ask_mixer_grad, "mixer_grad", 2, 208, 4, 512, 512, NULL},
    {ask_mixer_grad, "mixer_grad", 2, 272, 4, 64, 64, NULL},
    {ask_mixer_grad, "mixer_grad", 2, 64, 1, 772, 64, "heads of 772 x 64"},
    {ask_scan, "scan", 2, 197, 1, 16, 384, NULL},
    {ask_scan, "scan", 2, 197, 1, 256, 64, NULL},
    {ask_scan, "scan", 2, 197, 1, 257, 64, "a recurrence of 257 keys, and 256 are the most"},
    {ask_scans, "scan", 2, 512, 1, 16, 384, NULL},
    {ask_scans, "scan", 2, 4096, 1, 16, 384, "bytes of shared memory a block"},
    {ask_scan_grad, "scan", 2, 197, 1, 16, 384, NULL},
    {ask_scan_grad, "scan", 2, 197, 1, 32, 384, NULL},
    {ask_scan_grad, "scan", 2, 197, 1, 640, 384, "threads, and 1024 are the most"},
    /* K: taps in both directions; V: channels of a head */
    {ask_convolution, "local", 2, 14, 4, 3, 96, NULL},
    {ask_convolution, "local", 2, 14, 4, 7, 96, NULL},
    {ask_convolution, "local", 2, 14, 1, 3, 2048, NULL},
    {ask_convolution, "local", 2, 14, 1, 3, 4100, "threads, and 1024 are the most"},
    {ask_blocks, "local", 2, 14, 4, 3, 96, NULL},
    {ask_blocks, "local", 2, 14, 4, 7, 96, NULL},
    {ask_adjoints, "local", 2, 14, 4, 3, 96, NULL},
    {ask_adjoints, "local", 2, 14, 4, 5, 96, NULL},
    {ask_adjoints, "local", 2, 14, 4, 7, 96, NULL},
    {ask_adjoints, "local", 2, 14, 4, 9, 96, "requires 52 + PER * (3 * TAPS + 1) <= 255"},
    {ask_block_adjoints, "local", 2, 14, 4, 3, 96, NULL},
    {ask_block_adjoints, "local", 2, 14, 4, 5, 96, "is not known where a kernel's body reads it"},
    {ask_take, "local", 2, 14, 4, 3, 96, NULL},
    {ask_take, "local", 2, 14, 4, 5, 96, NULL},
    {ask_take, "local", 2, 120, 4, 3, 96, "bytes of shared memory a block"},
    {ask_tap_sums, "sums", 2, 14, 4, 7, 96, NULL},
    {ask_tap_sums, "sums", 2, 14, 4, 9, 96, NULL},
    /* h blocks of K x V */
    {ask_block_sums, "sums", 2, 196, 96, 8, 8, NULL},
    {ask_block_sums, "sums", 2, 196, 4, 72, 72, "blocks of 72 x 72 over 392 rows"},
    {ask_block_sums, "sums", 1, 63, 96, 4, 4, "over 63 rows"},
    {ask_product, "product", 2, 196, 1, 384, 192, NULL},
    {ask_product, "product", 2, 196, 1, 384, 200, "requires !PARTED ||"},
    {ask_attention, "attention", 2, 197, 3, 64, 64, NULL},
    {ask_attention, "attention", 2, 1024, 3, 256, 256, NULL},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static double planned(vtb_module *m, const vtb_codegen_options *o, bool checked, vtb_error *err) {
  vtb_launch_plan *plan = NULL;
  double seconds = -1;
  vtb_status status = vtb_cuda_plan(m, m->entry, o, &plan, err);
  if (status == VTB_OK && checked) status = vtb_launch_plan_check(plan, NULL, err);
  if (status == VTB_OK)
    seconds = vtb_estimate_plan(plan, vtb_gpu_or_default(&o->gpu), NULL).seconds;
  vtb_launch_plan_free(plan);
  return seconds;
}

static void check(const shape *s, const char *machine, bool narrow) {
  vtb_codegen_options o = {.precision = VTB_PRECISION_BF16_ALL, .gpu = *vtb_gpu_find(machine)};
  vtb_error err = {0};
  char what[120];
  snprintf(what, sizeof what, "%s %s, shape %d%s", machine, s->kind, (int)(s - shapes),
           narrow ? ", narrow" : "");
  vtb_module *m = ask_module(s->kernel, s->kind, s->B, s->N, s->h, s->K, s->V);
  if (!m) return;
  vtb_asker *asker = vtb_backend_asker(vtb_target_find("cuda"), &o);
  asker->narrow = narrow;
  vtb_inst *inst = m->entry->first;
  vtb_answer a = vtb_ask(asker, inst), again = vtb_ask(asker, inst);
  CHECK(asker->asked == 2 && asker->made == 1);
  CHECK(again.takes == a.takes && again.seconds == a.seconds && again.why == a.why);
  o.arch = *o.gpu.arch ? o.gpu.arch : NULL;
  if (narrow) vtb_storage_guess(m->entry, o.precision);
  double seconds = planned(m, &o, !narrow, &err); /* programs' own tensors are wide */
  CHECK_MSG(a.takes == !s->why, "%s: %s", what, a.why ? a.why : "it is taken");
  if (s->why) CHECK_MSG(a.why && strstr(a.why, s->why), "%s: %s", what, a.why ? a.why : "");
  CHECK_MSG((seconds >= 0) == a.takes, "%s: the plan says %s", what, err.text);
  CHECK_MSG(!a.takes || (a.seconds == seconds && a.launches > 0 && a.bytes > 0),
            "%s: %g s asked, %g planned", what, a.seconds, seconds);
  if (!a.takes)
    CHECK_MSG(err.status == VTB_E_INPUT && strstr(err.text, a.why) == err.text, "%s: %s", what,
              err.text);
  vtb_asker_free(asker);
  vtb_module_free(m);
}

TEST(limits) {
  for (int i = 0; i < N_SHAPES; i++) check(&shapes[i], "a100", false);
  for (int i = 0; i < N_SHAPES; i++) check(&shapes[i], "b200", false);
}

/* With tensors of 16 bits. */
TEST(widths) {
  for (int i = 0; i < N_SHAPES; i++) check(&shapes[i], "h200", true);
}

/* A block of an A100 has 163 KiB, of an H200 227: a module is built for both. */
TEST(machines) {
  vtb_codegen_options small = {.precision = VTB_PRECISION_BF16_ALL, .gpu = *vtb_gpu_find("a100")},
                      large = {.precision = VTB_PRECISION_BF16_ALL, .gpu = *vtb_gpu_find("h200")};
  vtb_module *m = ask_module(ask_scans, "scan", 2, 1500, 1, 16, 384);
  vtb_asker *a = vtb_backend_asker(vtb_target_find("cuda"), &small),
            *b = vtb_backend_asker(vtb_target_find("cuda"), &large);
  vtb_answer refused = vtb_ask(a, m->entry->first), taken = vtb_ask(b, m->entry->first);
  CHECK_MSG(!refused.takes && strstr(refused.why, "there are 166912"), "%s",
            refused.why ? refused.why : "taken");
  CHECK_MSG(!taken.takes && strstr(taken.why, "there are 166912"), "%s",
            taken.why ? taken.why : "taken");
  vtb_asker_free(a);
  vtb_asker_free(b);
  vtb_module_free(m);
}

static int count(const vtb_func *f, vtb_kernel_kind kind) {
  int n = 0;
  for (const vtb_inst *i = f->first; i; i = i->next) n += vtb_kernel_kind_of(i) == kind;
  return n;
}

/* Where no block has room for a sequence the maximum of gates stays outside. */
TEST(passes_ask) {
  for (int64_t tokens = 256; tokens <= 257; tokens++) {
    vtb_module *m = ask_module(ask_gates, NULL, 2, tokens, 2, 64, 64);
    vtb_codegen_options o = {.precision = VTB_PRECISION_BF16_ALL};
    vtb_diags diags = {0};
    vtb_error err = {0};
    vtb_pass_context c = {.module = m,
                          .diags = &diags,
                          .target = vtb_target_find("cuda"),
                          .precision = o.precision,
                          .asker = vtb_backend_asker(vtb_target_find("cuda"), &o)};
    const vtb_pipeline_options p = {.pipeline = "fuse,grow{maxima+mixers},dce",
                                    .verify_each = true};
    CHECK_MSG(vtb_run_pipeline(&c, &p, &err) == VTB_OK, "%s", err.text);
    CHECK(count(m->entry, VTB_KERNEL_MIXER) == 1);
    CHECK(count(m->entry, VTB_KERNEL_SCAN) == (tokens > 256));
    CHECK_MSG(planned(m, &o, true, &err) > 0, "%s", err.text);
    vtb_asker_free(c.asker);
    vtb_diags_free(&diags);
    vtb_module_free(m);
  }
}

/* Neither names nor places are part of a question; types and numbers are. Without an asker
 * everything is taken. */
TEST(questions) {
  vtb_codegen_options o = {.precision = VTB_PRECISION_BF16_ALL};
  vtb_asker *asker = vtb_backend_asker(vtb_target_find("cuda"), &o);
  const int64_t tokens[] = {64, 64, 65, 64};
  for (int i = 0; i < 4; i++) {
    vtb_module *m = ask_module(ask_scan, "scan", 1, tokens[i], 1, 16, 64);
    vtb_func *body = m->entry->first->callee;
    if (i == 1) vtb_value_rename(body->args[0], "other");
    if (i == 3) body->first->op = VTB_OP_add; /* of a mul */
    CHECK(vtb_ask(asker, m->entry->first).takes && vtb_ask(NULL, m->entry->first).takes);
    vtb_module_free(m);
  }
  CHECK(asker->asked == 4 && asker->made == 3);
  vtb_asker_free(asker);
  CHECK(!vtb_backend_asker(vtb_target_find("cpu"), &o));
}

int main(void) {
  RUN(limits);
  RUN(widths);
  RUN(machines);
  RUN(passes_ask);
  RUN(questions);
  return test_done();
}
