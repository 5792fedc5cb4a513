/* The compiler as a library: sources, presets and files to programs, files and texts; what is
 * wrong as data; several compilations at once. */
#include "frontend/compile/driver.h"
#include "runtime/runner.h"
#include "tests/test.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static const char convolutional[] =
    "use std.nn\n"
    "use std.conv\n"
    "model small(depth: int = 2) {\n"
    "  input image: image[1, 6, 6]\n"
    "  x = pixels(image)\n"
    "  repeat depth as i scope \"layers.{i}\" {\n"
    "    x = relu(conv2d(\"conv\", to_image(x), 3, 3, pad = 1))\n"
    "  }\n"
    "  output logits = linear(\"head\", mean(x, axis = \"tokens\"), 4)\n"
    "}\n";
static const char dense[] =
    "use std.nn\n"
    "use std.conv\n"
    "model dense(width: int = 24) {\n"
    "  input image: image[1, 6, 6]\n"
    "  x = pixels(image)\n"
    "  x = gelu(linear(\"up\", layer_norm(\"norm\", linear(\"embed\", x, 8)), width))\n"
    "  output logits = linear(\"head\", mean(x, axis = \"tokens\"), 5)\n"
    "}\n";

static vtb_compile_options options_of(const char *text) {
  return (vtb_compile_options){
      .size = sizeof(vtb_compile_options), .model = "test.vtb", .text = text};
}

/* ---- programs -------------------------------------------------------------------------------- */

typedef struct result {
  float at[64];
  int64_t n;
} result;

/* Of initialised weights on a fixed image. Takes the program. */
static result run(vtb_program *p) {
  result r = {0};
  vtb_runner *m = NULL;
  vtb_error err = {0};
  int64_t n;
  if (vtb_runner_new(p, 1, &m, &err) || vtb_runner_init(m, 7, &err)) {
    CHECK_MSG(false, "%s", err.text);
    return r;
  }
  float *image = vtb_runner_input(m, NULL, &n);
  for (int64_t i = 0; i < n; i++) image[i] = (float)(i % 13) / 13 - 0.4f;
  CHECK_MSG(vtb_runner_run(m, &err) == VTB_OK, "%s", err.text);
  const float *out = vtb_runner_output(m, NULL, &r.n);
  CHECK(r.n <= 64);
  memcpy(r.at, out, (size_t)r.n * sizeof *out);
  vtb_runner_free(m);
  return r;
}

static result compile_and_run(const vtb_compile_options *o) {
  vtb_program *p = NULL;
  vtb_report *r = vtb_report_new();
  vtb_status status = vtb_compile(o, &p, r);
  char *said = vtb_report_text(r, false);
  CHECK_MSG(status == VTB_OK, "status %d: %s%s", status, vtb_report_error(r), said);
  free(said);
  vtb_report_free(r);
  return p ? run(p) : (result){0};
}

static bool equal(const result *a, const result *b) {
  return a->n > 0 && a->n == b->n && memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at) == 0;
}

static void write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static char folder[] = "/tmp/vtb-compile-XXXXXX";

static const char *in_folder(const char *name) {
  static char path[4][256];
  static int i;
  char *p = path[i++ % 4];
  snprintf(p, sizeof *path, "%s/%s", folder, name);
  return p;
}

TEST(text_file_and_settings_are_the_same_source) {
  vtb_compile_options text = options_of(dense), file = options_of(NULL);
  result a = compile_and_run(&text);
  file.model = in_folder("dense.vtb");
  write_text(file.model, dense);
  result b = compile_and_run(&file);
  CHECK(equal(&a, &b) && a.n == 5);

  static const char *const settings[] = {"width=32"};
  text.defines = settings;
  text.n_defines = 1;
  b = compile_and_run(&text);
  CHECK(b.n == 5 && !equal(&a, &b));
  text.defines = NULL;
  text.n_defines = 0;
  text.batch = 3;
  b = compile_and_run(&text);
  CHECK(b.n == 15 && memcmp(a.at, b.at, sizeof *a.at) == 0);
}

TEST(a_preset_is_found_by_its_name) {
  vtb_program *p = NULL;
  vtb_compile_options o = options_of(NULL);
  o.model = "vil_nano";
  CHECK(vtb_compile(&o, &p, NULL) == VTB_OK);
  CHECK(p && p->batch == 1);
  CHECK(p && vtb_program_find(p, "blocks.0.rowwise_from_top_left.layer.proj_up.weight") >= 0);
  vtb_program_free(p);
}

TEST(a_training_step_has_labels_gradients_and_a_loss) {
  vtb_program *p = NULL;
  vtb_compile_options o = options_of(convolutional);
  o.training = true;
  o.label_smoothing = 0.1;
  o.batch = 4;
  CHECK(vtb_compile(&o, &p, NULL) == VTB_OK);
  CHECK(p && vtb_program_find(p, "labels") >= 0 && vtb_program_find(p, "loss") >= 0 &&
        vtb_program_find(p, "d:head.weight") >= 0);
  vtb_program_free(p);
}

/* ---- what is wrong --------------------------------------------------------------------------- */

static void check_range(const vtb_text_range *at, const char *text, const char *marked, int line,
                        int column) {
  CHECK_STR(at->file, "test.vtb");
  CHECK_MSG(at->line == line && at->column == column, "at %d:%d", at->line, at->column);
  CHECK_MSG(at->end - at->begin == strlen(marked) &&
                memcmp(text + at->begin, marked, strlen(marked)) == 0,
            "marked is '%.*s'", (int)(at->end - at->begin), text + at->begin);
  CHECK(at->end_line == line && at->end_column == column + (int)strlen(marked));
}

TEST(errors_are_data_and_several_come_at_once) {
  static const char text[] = "use std.nn\n"
                             "use std.conv\n"
                             "model m() {\n"
                             "  input image: image[1, 6, 6]\n"
                             "  x = pixls(image)\n"
                             "  y = linear(\"a\", pixels(image), widht = 3)\n"
                             "  output logits = y\n"
                             "}\n";
  const vtb_diagnostic *d;
  vtb_report *r = vtb_report_new();
  vtb_program *untouched = (vtb_program *)&text, *p = untouched;
  vtb_compile_options o = options_of(text);
  CHECK(vtb_compile(&o, &p, r) == VTB_E_INPUT && p == untouched);
  CHECK_STR(vtb_report_error(r), "");
  size_t n = vtb_report_diagnostics(r, &d);
  CHECK_MSG(n == 2, "%zu diagnostics", n);
  if (n == 2) {
    CHECK(d[0].is_error && d[0].code == 1101 && strstr(d[0].text, "pixls"));
    check_range(&d[0].at, text, "pixls", 5, 7);
    CHECK(d[0].help && strstr(d[0].help, "pixels"));
    CHECK(d[1].is_error && d[1].code != 0 && strstr(d[1].text, "widht"));
    check_range(&d[1].at, text, "widht = 3", 6, 34);
    CHECK(d[1].n_notes == 1 && strstr(d[1].notes[0].at.file, "std/nn.vtb"));
  }
  char *said = vtb_report_text(r, false), *again = vtb_report_text(r, false);
  CHECK(strstr(said, "test.vtb:5:7: error[VTB1101]") && strstr(said, "^~~~~"));
  CHECK_STR(again, "");
  free(said);
  free(again);
  vtb_report_free(r);
}

TEST(notes_point_elsewhere) {
  static const char text[] = "model m() { input image: image[1, 6, 6]\n output x = image }\n"
                             "model m() { input image: image[1, 6, 6]\n output x = image }\n";
  const vtb_diagnostic *d;
  vtb_report *r = vtb_report_new();
  vtb_program *p = NULL;
  vtb_compile_options o = options_of(text);
  CHECK(vtb_compile(&o, &p, r) == VTB_E_INPUT);
  CHECK(vtb_report_diagnostics(r, &d) == 1);
  check_range(&d[0].at, text, "m", 3, 7);
  CHECK(d[0].n_notes == 1);
  if (d[0].n_notes == 1) check_range(&d[0].notes[0].at, text, "m", 1, 7);
  vtb_report_free(r);
}

static void check_usage(const vtb_compile_options *o, const char *says) {
  vtb_report *r = vtb_report_new();
  vtb_program *p = NULL;
  const vtb_diagnostic *d;
  CHECK(vtb_compile(o, &p, r) == VTB_E_USAGE && !p);
  CHECK_MSG(strstr(vtb_report_error(r), says), "\"%s\" is not in \"%s\"", says,
            vtb_report_error(r));
  CHECK(vtb_report_diagnostics(r, &d) == 0);
  vtb_report_free(r);
}

TEST(option_values_that_are_none_are_usage_errors) {
  static const char *const wrong[] = {"width"};
  vtb_compile_options o = options_of(dense);
  o.size = 0;
  check_usage(&o, "sizeof(vtb_compile_options)");
  o = options_of(dense);
  o.mode = "sideways";
  check_usage(&o, "unknown mode 'sideways'; modes are auto");
  o = options_of(dense);
  o.target = "gpu";
  check_usage(&o, "unknown target 'gpu'; there are cpu");
  o.target = "interp";
  check_usage(&o, "unknown target 'interp'");
  o = options_of(dense);
  o.precision = "fp8";
  check_usage(&o, "no precision is named 'fp8'");
  o.precision = "bf16";
  check_usage(&o, "target cpu does not know precision bf16");
  o = options_of(dense);
  o.training = true;
  o.optimizer = "adam";
  check_usage(&o, "unknown optimizer 'adam'");
  o = options_of(dense);
  o.defines = wrong;
  o.n_defines = 1;
  check_usage(&o, "a setting is NAME=VALUE, not 'width'");
  o = options_of(dense);
  o.batch = -1;
  check_usage(&o, "at least 0");
  o = options_of(NULL);
  o.model = NULL;
  check_usage(&o, "neither a model nor its text");
  o = options_of(dense);
  o.print_after = "fuze";
  check_usage(&o, "did you mean \"fuse\"");
}

TEST(fields_beyond_the_size_are_not_read) {
  vtb_compile_options o = options_of(dense);
  memset((char *)&o + offsetof(vtb_compile_options, mode), 0xff,
         sizeof o - offsetof(vtb_compile_options, mode));
  o.size = offsetof(vtb_compile_options, mode);
  result r = compile_and_run(&o);
  CHECK(r.n == 5);
}

/* A recurrence that is not linear in its state warns. */
TEST(a_report_takes_a_warning_once) {
  static const char text[] = "use std.nn\n"
                             "use std.gru\n"
                             "model m() {\n"
                             "  input x: tokens[3x4, 8]\n"
                             "  r, z, n = split(linear(\"in\", x, 24), 3)\n"
                             "  output y = gru(group(r, 2), group(z, 2), group(n, 2),\n"
                             "                 param Rr: [2, 4, 4] ~ normal(0.5),\n"
                             "                 param Rz: [2, 4, 4] ~ normal(0.5),\n"
                             "                 param Rn: [2, 4, 4] ~ normal(0.5),\n"
                             "                 param b: [2, 4] ~ normal(0.5))\n"
                             "}\n";
  vtb_report *r = vtb_report_new();
  vtb_compile_options o = options_of(text);
  const vtb_diagnostic *d;
  char *out = NULL;
  CHECK(vtb_compile_stage(&o, "graph", NULL, &out, r) == VTB_OK);
  CHECK_MSG(vtb_report_diagnostics(r, &d) == 1 && !d[0].is_error && d[0].at.file, "%s", out);
  free(out);
  CHECK(vtb_compile_stage(&o, "graph", NULL, &out, r) == VTB_OK);
  CHECK(vtb_report_diagnostics(r, &d) == 1);
  free(out);
  vtb_report_free(r);
}

/* ---- stages and files ------------------------------------------------------------------------ */

static void listen(void *user, const char *text) { *(size_t *)user += strlen(text); }

TEST(stages_are_texts) {
  vtb_compile_options o = options_of(dense);
  char *text = NULL;
  size_t heard = 0;
  CHECK(vtb_compile_stage(&o, "ast", NULL, &text, NULL) == VTB_OK && strstr(text, "dense"));
  free(text);
  CHECK(vtb_compile_stage(&o, "llvm", "x86-64-v3", &text, NULL) == VTB_OK &&
        strstr(text, "vtb_entry"));
  free(text);
  o.print_after = "fuse";
  o.time_passes = true;
  o.say = listen;
  o.user = &heard;
  CHECK(vtb_compile_stage(&o, "fused", NULL, &text, NULL) == VTB_OK && strstr(text, "kernel @"));
  CHECK(heard > strlen(text));
  free(text);
  vtb_report *r = vtb_report_new();
  CHECK(vtb_compile_stage(&o, "fusd", NULL, &text, r) == VTB_E_USAGE);
  CHECK_STR(vtb_report_error(r), "unknown stage 'fusd'; did you mean fused");
  vtb_report_free(r);
}

TEST(a_file_runs_without_the_compiler) {
  vtb_compile_options o = options_of(dense);
  const char *path = in_folder("dense.so");
  vtb_report *r = vtb_report_new();
  vtb_model *m = NULL;
  vtb_error err = {0};
  CHECK(vtb_compile_file(&o, path, r) == VTB_OK);
  CHECK_MSG(vtb_model_open(path, NULL, &m, &err) == VTB_OK, "%s", err.text);
  vtb_model_release(m);
  o.model = path;
  o.text = NULL;
  CHECK(vtb_compile_file(&o, path, r) == VTB_E_INPUT);
  CHECK(strstr(vtb_report_error(r), "compiled already"));
  o = options_of(dense);
  o.target = "cpu:z80";
  CHECK(vtb_compile_file(&o, path, r) == VTB_E_USAGE && access(path, R_OK) == 0);
  o.target = NULL;
  CHECK(vtb_compile_file(&o, in_folder("none/dense.so"), r) == VTB_E_INPUT);
  vtb_report_free(r);
}

TEST(the_same_source_gives_the_same_code) {
  static const char *const stages[] = {"fused", "llvm", "asm", "cuda"};
  for (int i = 0; i < 4; i++) {
    char *a = NULL, *b = NULL;
    vtb_compile_options o = options_of(convolutional);
    CHECK(vtb_compile_stage(&o, stages[i], NULL, &a, NULL) == VTB_OK);
    CHECK(vtb_compile_stage(&o, stages[i], NULL, &b, NULL) == VTB_OK);
    CHECK_MSG(a && b && strcmp(a, b) == 0, "stage %s differs", stages[i]);
    free(a);
    free(b);
  }
}

/* ---- several at once ------------------------------------------------------------------------- */

enum { ROUNDS = 12 };

typedef struct worker {
  const char *text;
  result want;
  int different, failed;
} worker;

static void *compile_often(void *user) {
  worker *w = user;
  vtb_compile_options o = options_of(w->text);
  for (int i = 0; i < ROUNDS; i++) {
    vtb_program *p = NULL;
    if (vtb_compile(&o, &p, NULL) != VTB_OK) {
      w->failed++;
      continue;
    }
    result got = run(p);
    w->different += !equal(&got, &w->want);
  }
  return NULL;
}

TEST(models_are_compiled_at_once) {
  worker w[] = {{.text = convolutional}, {.text = dense}};
  pthread_t thread[2];
  for (int i = 0; i < 2; i++) {
    vtb_compile_options o = options_of(w[i].text);
    w[i].want = compile_and_run(&o);
  }
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&thread[i], NULL, compile_often, &w[i]) == 0);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 2; i++)
    CHECK_MSG(w[i].failed == 0 && w[i].different == 0, "%d failed, %d differ", w[i].failed,
              w[i].different);
}

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  CHECK(mkdtemp(folder) != NULL);
  RUN(text_file_and_settings_are_the_same_source);
  RUN(a_preset_is_found_by_its_name);
  RUN(a_training_step_has_labels_gradients_and_a_loss);
  RUN(errors_are_data_and_several_come_at_once);
  RUN(notes_point_elsewhere);
  RUN(option_values_that_are_none_are_usage_errors);
  RUN(fields_beyond_the_size_are_not_read);
  RUN(a_report_takes_a_warning_once);
  RUN(stages_are_texts);
  RUN(a_file_runs_without_the_compiler);
  RUN(the_same_source_gives_the_same_code);
  RUN(models_are_compiled_at_once);
  unlink(in_folder("dense.vtb"));
  unlink(in_folder("dense.so"));
  rmdir(folder);
  return test_done();
}
