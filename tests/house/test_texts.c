/* Emitters whose kernels are texts (codegen/cpu/text) fill holes and build no instructions. */
#include "rules.h"
#include "tests/test.h"
#include "tree.h"

static void check_emitter(const house_file *f, complaints *c) {
  char line[4096];
  const char *at = f->code;
  bool listed = false;
  for (size_t i = 0; i < sizeof of_texts / sizeof *of_texts; i++)
    listed |= vtb_starts_with(f->path, of_texts[i]);
  for (int n = 1; listed && next_line(&at, line, sizeof line); n++)
    if (strstr(line, "LLVM"))
      complain(c, f->path, n, "its kernel is a text, and it builds instructions; say it there");
}

static void check_rows(const house_tree *t, complaints *c) {
  for (size_t i = 0; i < sizeof of_texts / sizeof *of_texts; i++) {
    bool found = false;
    for (size_t k = 0; k < t->files.n; k++)
      found |= vtb_starts_with(t->files.at[k].path, of_texts[i]);
    if (!found) complain(c, "tests/house/rules.h", 0, "%s is not there", of_texts[i]);
  }
}

TEST(instructions_beside_texts_are_found) {
  static const char text[] = "/* LLVMBuildAdd is in a comment. */\n"
                             "static void f(vtb_cpu *c) { vtb_cpu_text_open(c, \"LLVM\", 8); }\n"
                             "static LLVMValueRef g(void) { return LLVMBuildAdd(); }\n";
  house_tree t = {0};
  complaints c = {0};
  tree_add(&t, "codegen/cpu/scan/maxplus.c", text);
  tree_add(&t, "codegen/cpu/loop/a.c", text);
  for (size_t i = 0; i < t.files.n; i++) check_emitter(&t.files.at[i], &c);
  CHECK(c.n == 1 && strstr(c.text.at, "maxplus.c:3: its kernel is a text"));
  check_rows(&t, &c);
  CHECK(strstr(c.text.at, "codegen/cpu/attention/ is not there"));
  vtb_strbuf_free(&c.text);
  tree_free(&t);
}

TEST(the_tree_keeps_the_rules) {
  house_tree t = {0};
  complaints c = {0};
  tree_read(&t, VTB_SOURCE_DIR);
  for (size_t i = 0; i < t.files.n; i++) check_emitter(&t.files.at[i], &c);
  check_rows(&t, &c);
  CHECK_MSG(complaints_end(&c) == 0, "an emitter breaks a rule");
  tree_free(&t);
}

int main(void) {
  RUN(instructions_beside_texts_are_found);
  RUN(the_tree_keeps_the_rules);
  return test_done();
}
