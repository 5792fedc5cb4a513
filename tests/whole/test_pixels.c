/* The kernel that makes a training step's image of bytes, at sizes that are no multiple of
 * anything, with every access checked, against its formula. */
#include "codegen/codegen.h"
#include "codegen/emulator/emulator.h"
#include "frontend/lang/lang.h"
#include "runtime/base/random.h"
#include "runtime/launch/launch_plan.h"
#include "runtime/launch/pixels.h"
#include "runtime/launch/threads.h"
#include "tests/codegen/cuda_plan.h"
#include "tests/runtime/support.h"
#include "tests/whole/attach.h"

static vtb_launch_plan *plan_of(const char *text, int batch) {
  vtb_diags diags = {0};
  vtb_unit *u = vtb_unit_load_text("m.vtb", text, strlen(text), vtb_search_default(), &diags);
  vtb_instantiate_options o = {.training = true};
  vtb_module *m = vtb_instantiate(u, "m", &o, &diags);
  vtb_diags_print(&diags, stderr);
  if (!m) exit(1);
  vtb_pass_context c = {.module = m, .diags = &diags, .batch = batch};
  vtb_func *train = NULL;
  vtb_launch_plan *plan = NULL;
  CHECK_OK(vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = vtb_pipeline_graph}, err));
  CHECK_OK(vtb_build_train_step(m, m->entry, &(vtb_train_step){0}, &train, &diags, err));
  m->entry = train;
  attach_update(m, train, "adamw", NULL, 0, false);
  c.target = vtb_target_find("cpu");
  CHECK_OK(vtb_run_pipeline(&c, NULL, err));
  CHECK_OK(cuda_plan(m, m->entry, &(vtb_codegen_options){0}, &plan, err));
  vtb_module_free(m);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  if (!plan) exit(1);
  return plan;
}

static int find_kernel(const vtb_launch_plan *p) {
  for (int k = 0; k < p->n_kernels; k++)
    if (vtb_starts_with(p->kernels[k].name, VTB_PIXELS_KERNEL "_")) return k;
  return -1;
}

enum { MOST = 2048 };
static uint8_t bytes[MOST];
static int32_t erased[4 * 8];
static float values[3 * 256], image[MOST + 1];

static void draw(int batch, int channels, int count, int height, int width) {
  for (int i = 0; i < batch * count; i++) bytes[i] = (uint8_t)vtb_random_u64(1, (uint64_t)i);
  for (int i = 0; i < 256 * channels; i++) values[i] = (float)(1000 + i);
  for (int s = 0; s < batch; s++) {
    const int32_t box[4] = {s % width, s % height, s % 2 ? width - s % width : 0, height / 2};
    memcpy(erased + 4 * s, box, sizeof box);
  }
  for (int i = 0; i <= MOST; i++) image[i] = -7;
}

static float want(int i, int channels, int height, int width) {
  int plane = height * width;
  const int32_t *box = erased + 4 * (i / (channels * plane));
  int x = i % width - box[0], y = i % plane / width - box[1];
  bool gone = x >= 0 && x < box[2] && y >= 0 && y < box[3];
  return gone ? 0 : values[i / plane % channels * 256 + bytes[i]];
}

static void compare(const char *text, int batch, int channels, int height, int width) {
  vtb_launch_plan *p = plan_of(text, batch);
  int k = find_kernel(p), n = batch * channels * height * width, wrong = 0;
  CHECK(k >= 0);
  if (k < 0) return;
  const vtb_launch_kernel *kernel = &p->kernels[k];
  CHECK(kernel->n_args == 4 && kernel->info.launches == 0 && !strcmp(kernel->info.what, "image"));
  vtb_strbuf source = {0};
  vtb_strbuf_puts(&source, p->common);
  vtb_strbuf_puts(&source, p->sources[kernel->source].text);
  const char *names[] = {kernel->name};
  vtb_emulator *e = NULL;
  vtb_services *services = vtb_services_default(1);
  CHECK_OK(vtb_emulator_new(source.at, names, 1, &(vtb_emulator_options){.seed = 2}, &e, err));
  draw(batch, channels, channels * height * width, height, width);
  vtb_emu_arg args[4] = {{.begin = (char *)bytes, .end = (char *)bytes + (n + 3) / 4 * 4},
                         {.begin = (char *)erased, .end = (char *)(erased + 4 * batch)},
                         {.begin = (char *)values, .end = (char *)(values + 256 * channels)},
                         {.begin = (char *)image, .end = (char *)(image + n)}};
  vtb_emulator_launch l = {.kernel = kernel->name,
                           .grid = vtb_pixels_blocks(n),
                           .threads = kernel->threads,
                           .shared_bytes = kernel->shared_bytes,
                           .n_args = 4,
                           .args = args};
  CHECK_OK(vtb_emulator_run(e, &l, services, err));
  for (int i = 0; i < n; i++) wrong += image[i] != want(i, channels, height, width);
  CHECK_MSG(wrong == 0, "%d of %d differ", wrong, n);
  CHECK(image[n] == -7);
  vtb_emulator_free(e);
  vtb_services_free(services);
  vtb_strbuf_free(&source);
  vtb_launch_plan_free(p);
}

#define MODEL(size)                                                                                \
  "use std.nn\nuse std.conv\nmodel m() {\n  input image: image[" size "]\n"                        \
  "  x = conv2d(\"conv\", image, 2, 3, pad = 1)\n"                                                 \
  "  output logits = linear(\"head\", mean(x, axis = \"tokens\"), 4)\n}\n"

TEST(bytes_become_what_a_model_takes) {
  compare(MODEL("3, 5, 7"), 3, 3, 5, 7); /* 315 elements: no whole fours */
  compare(MODEL("1, 13, 11"), 8, 1, 13, 11);
  compare(MODEL("3, 16, 12"), 2, 3, 16, 12); /* more than a block */
}

int main(void) {
  vtb_error none = {0};
  if (!vtb_emulator_available(NULL, &none)) {
    printf("skipped: %s\n", none.text);
    return 77;
  }
  setenv("XDG_CACHE_HOME", VTB_BINARY_DIR "/test-cache", 1);
  RUN(bytes_become_what_a_model_takes);
  return test_done();
}
