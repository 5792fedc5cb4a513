/* What builtins and functions of models/std compute, in double precision: every output of
 * tests/lang/values.vtb and loops.vtb is 0, whatever the inputs and parameters are; every output of
 * tests/lang/called_models.vtb whose name begins with "same" too; and every output of the examples
 * in tests/std whose name begins with "one" is 1. */
#include "frontend/lang/lang.h"
#include "ir/interp.h"
#include "tests/test.h"

#include <glob.h>

enum { BATCH = 3 };

static const vtb_search *search(void) {
  static const char *const dirs[] = {VTB_SOURCE_DIR "/models"};
  static const vtb_search s = {.dirs = dirs, .n_dirs = 1};
  return &s;
}

static vtb_tensor random_tensor(vtb_type t, unsigned long long *seed) {
  for (int a = 0; a < t.rank; a++)
    if (t.dim[a].size == VTB_DYN) t.dim[a].size = BATCH;
  vtb_tensor x = vtb_tensor_new(t);
  for (int64_t i = 0; i < vtb_type_count(&t); i++) x.data[i] = test_random(seed);
  if (t.dtype == VTB_I32)
    for (int64_t i = 0; i < vtb_type_count(&t); i++) x.data[i] = floor(fabs(x.data[i]) * 3);
  return x;
}

static void check_all(const char *model, const char *name, const vtb_tensor *y, double want) {
  for (int64_t i = 0; i < vtb_type_count(&y->type); i++)
    if (!(fabs(y->data[i] - want) <= 1e-6)) {
      CHECK_MSG(false, "%s: %s is %g at %lld", model, name, y->data[i], (long long)i);
      return;
    }
}

/* Outputs that were looked at. */
static int run(vtb_func *f, const char *prefix, double want) {
  vtb_tensor *args = vtb_xcalloc((size_t)f->n_args + 1, sizeof *args);
  vtb_tensor *results = vtb_xcalloc((size_t)f->n_returns + 1, sizeof *results);
  unsigned long long seed = 88172645463325252ull;
  for (int i = 0; i < f->n_args; i++) args[i] = random_tensor(f->args[i]->type, &seed);
  vtb_error err = {0};
  vtb_status status = vtb_interpret(f, args, results, &(vtb_interp_options){.batch = BATCH}, &err);
  CHECK_MSG(status == VTB_OK, "%s: %s", f->name, err.text);
  int looked_at = 0;
  for (int i = 0; i < f->n_returns && status == VTB_OK; i++) {
    if (strncmp(f->return_names[i], prefix, strlen(prefix)) == 0) {
      check_all(f->name, f->return_names[i], &results[i], want);
      looked_at++;
    }
    vtb_tensor_free(&results[i]);
  }
  for (int i = 0; i < f->n_args; i++) vtb_tensor_free(&args[i]);
  free(args);
  free(results);
  return looked_at;
}

static int check_file(const char *path, const char *prefix, double want) {
  vtb_diags diags = {0};
  vtb_unit *u = vtb_unit_load(path, search(), &diags);
  const vtb_decl_info *decls;
  size_t n = u ? vtb_unit_decls(u, &decls) : 0;
  int looked_at = 0;
  for (size_t i = 0; i < n && !diags.n_errors; i++) {
    if (decls[i].kind != VTB_DECL_MODEL) continue;
    for (int training = 0; training < 2; training++) {
      vtb_instantiate_options o = {.training = training};
      vtb_module *m = vtb_instantiate(u, decls[i].name, &o, &diags);
      if (m) looked_at += run(m->entry, prefix, want);
      vtb_module_free(m);
    }
  }
  if (diags.list.n) vtb_diags_print(&diags, stderr);
  CHECK_MSG(u && diags.list.n == 0, "%s has messages", path);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  return looked_at;
}

TEST(builtins_give_what_they_are_defined_to_give) {
  CHECK(check_file(VTB_SOURCE_DIR "/tests/lang/values.vtb", "", 0) > 60);
}

TEST(loops_give_what_their_steps_give) {
  CHECK(check_file(VTB_SOURCE_DIR "/tests/lang/loops.vtb", "", 0) == 42);
}

TEST(models_called_in_models_give_their_outputs) {
  CHECK(check_file(VTB_SOURCE_DIR "/tests/lang/called_models.vtb", "same", 0) == 12);
}

TEST(examples_of_std_give_what_they_say) {
  glob_t files;
  int looked_at = 0;
  if (glob(VTB_SOURCE_DIR "/tests/std/*.vtb", 0, NULL, &files)) return;
  for (size_t i = 0; i < files.gl_pathc; i++) looked_at += check_file(files.gl_pathv[i], "one", 1);
  globfree(&files);
  CHECK(looked_at > 20);
}

int main(void) {
  RUN(builtins_give_what_they_are_defined_to_give);
  RUN(loops_give_what_their_steps_give);
  RUN(models_called_in_models_give_their_outputs);
  RUN(examples_of_std_give_what_they_say);
  return test_done();
}
