/* Every example in docs/language.md and docs/tensors.md, and every model and preset it declares,
 * compiles without a message. */
#include "frontend/lang/lang.h"
#include "tests/test.h"

static const vtb_search *search(void) {
  static const char *const dirs[] = {VTB_SOURCE_DIR "/models"};
  static const vtb_search s = {.dirs = dirs, .n_dirs = 1};
  return &s;
}

static bool is_entry(vtb_decl_kind k) {
  return k == VTB_DECL_MODEL || k == VTB_DECL_PRESET || k == VTB_DECL_OPTIMIZER ||
         k == VTB_DECL_SCHEDULE;
}

static int compile(const char *name, const char *text, size_t n) {
  vtb_diags diags = {0};
  vtb_unit *u = vtb_unit_load_text(name, text, n, search(), &diags);
  const vtb_decl_info *decls;
  size_t n_decls = u ? vtb_unit_decls(u, &decls) : 0;
  int made = 0;
  for (size_t i = 0; i < n_decls && diags.n_errors == 0; i++) {
    if (!is_entry(decls[i].kind)) continue;
    for (int training = 0; training < 2; training++) {
      vtb_instantiate_options o = {.training = training, .taps = training};
      vtb_module *m = vtb_instantiate(u, decls[i].name, &o, &diags);
      vtb_error err = {0};
      CHECK_MSG(m && vtb_module_verify(m, &err), "%s: %s: %s", name, decls[i].name, err.text);
      made += m != NULL;
      vtb_module_free(m);
    }
  }
  if (diags.list.n) vtb_diags_print(&diags, stderr);
  CHECK_MSG(diags.list.n == 0, "%s has messages", name);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  return made;
}

static void check_page(const char *path) {
  static const char fence[] = "```vtb\n";
  char *text;
  size_t n;
  vtb_error err = {0};
  if (vtb_file_read(path, 1 << 20, &text, &n, &err)) {
    CHECK_MSG(false, "%s", err.text);
    return;
  }
  int examples = 0, made = 0;
  for (const char *at = strstr(text, fence); at; at = strstr(at, fence)) {
    at += strlen(fence);
    const char *end = strstr(at, "```");
    CHECK(end);
    if (!end) break;
    char name[32];
    snprintf(name, sizeof name, "example %d", ++examples);
    int count = compile(name, at, (size_t)(end - at));
    CHECK_MSG(count > 0, "%s declares no model", name);
    made += count;
    at = end;
  }
  CHECK(examples >= 6 && made >= 12);
  free(text);
}

TEST(every_example_compiles) {
  check_page(VTB_SOURCE_DIR "/docs/language.md");
  check_page(VTB_SOURCE_DIR "/docs/tensors.md");
}

int main(void) {
  RUN(every_example_compiles);
  return test_done();
}
