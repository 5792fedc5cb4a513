/* What a model is trained with is what it is run with: every preset and every model of models/
 * declares the same parameters and buffers, of the same shapes, in training and without. Weights
 * that training wrote would not fit otherwise; tests/trained has small ones trained and used. */
#include "frontend/compile/driver.h"
#include "frontend/lang/lang.h"
#include "tests/runtime/support.h"

#include <glob.h>

static vtb_func *load(vtb_compilation *c, const char *path, const char *entry, bool training,
                      vtb_report *r) {
  vtb_compile_options o = {.size = sizeof o, .model = path, .entry = entry};
  vtb_instantiate_options more = {.training = training};
  vtb_status status = vtb_compilation_load(c, &o, &more, r);
  CHECK_MSG(status == VTB_OK, "%s of %s: %s", entry, path, vtb_report_text(r, false));
  return status == VTB_OK ? c->module->entry : NULL;
}

static const vtb_arg_info *declared(const vtb_func *f, int i) {
  const vtb_arg_info *a = &f->arg_info[i];
  return a->role == VTB_ROLE_PARAM || a->role == VTB_ROLE_BUFFER ? a : NULL;
}

static bool same_shape(const vtb_type *a, const vtb_type *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++) same = a->dim[i].size == b->dim[i].size;
  return same;
}

/* Everything that `a` declares is in `b`. */
static void check_within(const vtb_func *a, const vtb_func *b, const char *what, const char *of) {
  vtb_map names = {0};
  for (int i = 0; i < b->n_args; i++)
    if (declared(b, i)) vtb_map_set(&names, b->arg_info[i].official, (void *)(uintptr_t)(i + 1));
  for (int i = 0; i < a->n_args; i++) {
    const vtb_arg_info *info = declared(a, i);
    if (!info) continue;
    int at = (int)(uintptr_t)vtb_map_get(&names, info->official) - 1;
    CHECK_MSG(at >= 0, "%s declares %s only in %s", what, info->official, of);
    if (at < 0) continue;
    CHECK_MSG(same_shape(&a->args[i]->type, &b->args[at]->type) &&
                  b->arg_info[at].role == info->role,
              "%s: %s is another tensor in training", what, info->official);
  }
  vtb_map_free(&names);
}

static void compare(const char *path, const char *entry) {
  vtb_compilation plain = {0}, training = {0};
  vtb_report *r = vtb_report_new();
  vtb_func *a = load(&plain, path, entry, false, r), *b = load(&training, path, entry, true, r);
  if (a && b) check_within(a, b, entry, "inference");
  if (a && b) check_within(b, a, entry, "training");
  vtb_compilation_free(&plain);
  vtb_compilation_free(&training);
  vtb_report_free(r);
}

/* "preset NAME" and "model NAME(" at the beginnings of lines; how many presets. */
static int compare_all_of(const char *path) {
  size_t n;
  char *text = read_file(path, &n), *rest = text;
  int presets = 0;
  for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
    bool preset = vtb_starts_with(line, "preset ");
    if (!preset && !vtb_starts_with(line, "model ")) continue;
    char *name = strchr(line, ' ') + 1;
    name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")] = 0;
    compare(path, name);
    presets += preset;
  }
  free(text);
  return presets;
}

TEST(training_and_inference_declare_the_same) {
  static const char *const where[] = {VTB_SOURCE_DIR "/models/*.vtb",
                                      VTB_SOURCE_DIR "/models/examples/*.vtb"};
  int presets = 0;
  for (int i = 0; i < 2; i++) {
    glob_t found = {0};
    CHECK(glob(where[i], 0, NULL, &found) == 0);
    for (size_t k = 0; k < found.gl_pathc; k++) presets += compare_all_of(found.gl_pathv[k]);
    globfree(&found);
  }
  CHECK_MSG(presets >= 100, "%d presets", presets);
}

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  RUN(training_and_inference_declare_the_same);
  return test_done();
}
