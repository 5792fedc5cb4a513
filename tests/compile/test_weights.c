/* Checkpoints of other tools as a model's weights, without the command: a file of PyTorch under the
 * names that rules beside the model know becomes a model, a built file and a file of ONNX. */
#include "frontend/compile/compile.h"
#include "runtime/weights/open.h"
#include "tests/runtime/support.h"

#include <unistd.h>

#define CHECKPOINT VTB_SOURCE_DIR "/tests/runtime/weights/training.pth"

static const char net[] = "use std.nn\nuse std.conv\n"
                          "model net(classes: int = 2) {\n"
                          "  input image: image[2, 1, 1]\n"
                          "  x = linear(\"0\", pixels(image), 3)\n"
                          "  output y = linear(\"head\", mean(x, axis = \"tokens\"), classes)\n"
                          "}\n";
static const char rules[] = "names \"torch\"\n  2.* -> head.*\nignore 1.*\n";
static char folder[] = "/tmp/vertebra_weights_XXXXXX", model[64], names[64], built[64], onnx[64];

static void write_text(const char *path, const char *text) {
  vtb_error err = {0};
  CHECK_MSG(vtb_file_write_atomic(path, text, strlen(text), &err) == VTB_OK, "%s", err.text);
}

static double number(const vtb_weights *w, const char *name, int64_t i) {
  double all[16] = {0};
  const vtb_weight *t = vtb_weights_find(w, name);
  CHECK_MSG(t && t->count <= 16, "%s", name);
  if (t) vtb_weight_read_f64(t, all);
  return all[i];
}

/* What the net makes of x, by the tensors of the checkpoint. */
static void expect(const float x[2], double y[2]) {
  vtb_weights *w = NULL;
  vtb_strbuf said = {0};
  CHECK_OK(vtb_weights_open(CHECKPOINT, &w, &said, err));
  for (int o = 0; w && o < 2; o++) {
    y[o] = number(w, "2.bias", o);
    for (int h = 0; h < 3; h++) {
      double hidden = number(w, "0.bias", h);
      for (int i = 0; i < 2; i++) hidden += number(w, "0.weight", 2 * h + i) * (double)x[i];
      y[o] += number(w, "2.weight", 3 * o + h) * hidden;
    }
  }
  vtb_strbuf_free(&said);
  vtb_weights_free(w);
}

static void check_runs(vtb_model *m) {
  static const float x[2] = {0.5f, -1.25f};
  double want[2];
  vtb_session *s = NULL;
  vtb_array in = {.size = sizeof in}, out = {.size = sizeof out};
  expect(x, want);
  CHECK_OK(vtb_session_open(m, NULL, &s, err));
  if (!s) return;
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_INPUT, NULL, &in, err));
  if (in.data) memcpy(in.data, x, sizeof x);
  CHECK_OK(vtb_session_run(s, 1, err));
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &out, err));
  for (int i = 0; i < 2 && out.data; i++) CHECK_NEAR(((float *)out.data)[i], want[i], 1e-6);
  vtb_session_close(s);
}

static const vtb_compile_options options = {
    .size = sizeof options, .model = model, .weights = CHECKPOINT};

TEST(a_checkpoint_is_a_models_weights) {
  vtb_model *m = NULL;
  vtb_report *r = vtb_report_new();
  CHECK_MSG(vtb_compile_model(&options, &m, r) == VTB_OK, "%s", vtb_report_error(r));
  if (m) check_runs(m);
  if (m) vtb_model_release(m);
  vtb_report_free(r);
}

TEST(a_checkpoint_goes_into_files) {
  vtb_model *m = NULL;
  vtb_report *r = vtb_report_new();
  CHECK_MSG(vtb_compile_file(&options, built, r) == VTB_OK, "%s", vtb_report_error(r));
  CHECK_OK(vtb_model_open(built, NULL, &m, err));
  if (m) check_runs(m);
  if (m) vtb_model_release(m);
  CHECK_MSG(vtb_compile_onnx(&options, NULL, onnx, NULL, r) == VTB_OK, "%s", vtb_report_error(r));
  vtb_report_free(r);
}

/* A file that was built without weights takes them when it is opened, by rules of its own. */
TEST(a_built_file_takes_a_checkpoint) {
  vtb_compile_options bare = options;
  vtb_open_options with = {.size = sizeof with, .weights = CHECKPOINT};
  vtb_model *m = NULL;
  vtb_report *r = vtb_report_new();
  vtb_error why = {0};
  bare.weights = NULL;
  CHECK_MSG(vtb_compile_file(&bare, built, r) == VTB_OK, "%s", vtb_report_error(r));
  write_text(names, "");
  CHECK_OK(vtb_model_open(built, &with, &m, err));
  if (m) check_runs(m);
  if (m) vtb_model_release(m);
  write_text(names, rules);
  static const char *const three = "classes=3";
  bare.defines = &three, bare.n_defines = 1;
  CHECK_MSG(vtb_compile_file(&bare, built, r) == VTB_OK, "%s", vtb_report_error(r));
  m = NULL;
  CHECK(vtb_model_open(built, &with, &m, &why) == VTB_E_INPUT && !m);
  CHECK_MSG(strstr(why.text, "of 2 classes, the model of 3"), "%s", why.text);
  write_text(names, "names \"torch\"\n  2.* ->\n");
  CHECK(vtb_compile_file(&bare, built, r) == VTB_E_INPUT);
  CHECK_MSG(strstr(vtb_report_error(r), "net.names:2"), "%s", vtb_report_error(r));
  write_text(names, rules);
  vtb_report_free(r);
}

TEST(what_does_not_fit_is_said) {
  static const char *const three = "classes=3";
  vtb_compile_options wrong = options;
  vtb_model *m = NULL;
  vtb_report *r = vtb_report_new();
  wrong.defines = &three, wrong.n_defines = 1;
  CHECK(vtb_compile_model(&wrong, &m, r) == VTB_E_INPUT && !m);
  CHECK_MSG(strstr(vtb_report_error(r), "of 2 classes, the model of 3: -D classes=2"), "%s",
            vtb_report_error(r));
  unlink(names); /* without rules */
  CHECK(vtb_compile_model(&options, &m, r) == VTB_E_INPUT && !m);
  CHECK_MSG(strstr(vtb_report_error(r), "head.weight"), "%s", vtb_report_error(r));
  wrong.weights = "/nowhere.pth";
  CHECK(vtb_compile_model(&wrong, &m, r) == VTB_E_INPUT && !m);
  CHECK_MSG(strstr(vtb_report_error(r), "/nowhere.pth"), "%s", vtb_report_error(r));
  vtb_report_free(r);
}

int main(void) {
  CHECK(mkdtemp(folder) != NULL);
  snprintf(model, sizeof model, "%s/net.vtb", folder);
  snprintf(names, sizeof names, "%s/net.names", folder);
  snprintf(built, sizeof built, "%s/net.vtbm", folder);
  snprintf(onnx, sizeof onnx, "%s/net.onnx", folder);
  write_text(model, net);
  write_text(names, rules);
  RUN(a_checkpoint_is_a_models_weights);
  RUN(a_checkpoint_goes_into_files);
  RUN(a_built_file_takes_a_checkpoint);
  RUN(what_does_not_fit_is_said);
  const char *const made[] = {model, names, built, onnx};
  for (int i = 0; i < 4; i++) unlink(made[i]);
  rmdir(folder);
  return test_done();
}
