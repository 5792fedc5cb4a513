/* Rows of tables that stand in two files: a format of data sets and its name in the list, a target
 * and what makes its code. Whoever adds one and forgets the other is told here. */
#include "tests/test.h"
#include "tree.h"

/* The text between `before` and `after` at or behind *at; NULL: there is none. */
static const char *next_between(const char **at, const char *before, const char *after,
                                char out[128]) {
  const char *begin = strstr(*at, before);
  const char *end = begin ? strstr(begin + strlen(before), after) : NULL;
  if (!end) return NULL;
  begin += strlen(before);
  snprintf(out, 128, "%.*s", (int)(end - begin), begin);
  *at = end;
  return out;
}

static void check_formats(const house_tree *t, complaints *c) {
  const house_file *list = tree_find(t, "runtime/data/dataset.c");
  char name[128], row[160];
  for (size_t i = 0; list && i < t->files.n; i++) {
    const house_file *f = &t->files.at[i];
    const char *at = f->code;
    if (!vtb_starts_with(f->path, "runtime/data/") || f == list) continue;
    while (next_between(&at, "\nconst vtb__format vtb__", "_format =", name)) {
      snprintf(row, sizeof row, "F(%s)", name);
      if (!strstr(list->code, row))
        complain(c, f->path, 0, "the format '%s' is not tried; put F(%s) into FORMATS of %s", name,
                 name, list->path);
    }
  }
}

/* Each row of one table has one of the other; the interpreter makes no code. */
static void check_targets(const house_tree *t, const char *one, const char *before,
                          const char *other, const char *there, complaints *c) {
  const house_file *f = tree_find(t, one), *g = tree_find(t, other);
  const char *at = f ? f->text : "";
  char name[128], row[160];
  while (g && next_between(&at, before, "\"", name)) {
    snprintf(row, sizeof row, "%s%s\"", there, name);
    if (!strstr(g->text, row) && strcmp(name, "interp") != 0)
      complain(c, one, 0, "the target '%s' has no row in %s", name, other);
  }
}

static const char targets[] = "passes/target.c", makers[] = "codegen/targets.c";

static void check_all(const house_tree *t, complaints *c) {
  check_formats(t, c);
  check_targets(t, targets, "{.name = \"", makers, "{.target = \"", c);
  check_targets(t, makers, "{.target = \"", targets, "{.name = \"", c);
}

TEST(what_is_forgotten_is_found) {
  house_tree t = {0};
  complaints c = {0};
  tree_add(&t, "runtime/data/dataset.c", "#define FORMATS(F) F(idx) F(tar)\n");
  tree_add(&t, "runtime/data/dataset_tar.c", "\nconst vtb__format vtb__tar_format = {0};\n");
  tree_add(&t, "runtime/data/dataset_zip.c", "\nconst vtb__format vtb__zip_format = {0};\n");
  tree_add(&t, targets, "  {.name = \"interp\"},\n  {.name = \"cpu\"},\n  {.name = \"paper\"},\n");
  tree_add(&t, makers, "  {.target = \"cpu\"},\n  {.target = \"stone\"},\n");
  check_all(&t, &c);
  CHECK_MSG(c.n == 3 && strstr(c.text.at, "the format 'zip' is not tried") &&
                strstr(c.text.at, "the target 'paper' has no row in codegen/targets.c") &&
                strstr(c.text.at, "the target 'stone' has no row in passes/target.c"),
            "%s", c.text.at);
  vtb_strbuf_free(&c.text);
  tree_free(&t);
}

TEST(the_tree_has_both) {
  house_tree t = {0};
  complaints c = {0};
  tree_read(&t, VTB_SOURCE_DIR);
  CHECK(tree_find(&t, "runtime/data/dataset.c") && tree_find(&t, makers));
  check_all(&t, &c);
  CHECK_MSG(complaints_end(&c) == 0, "a row is missing");
  tree_free(&t);
}

int main(void) {
  RUN(what_is_forgotten_is_found);
  RUN(the_tree_has_both);
  return test_done();
}
