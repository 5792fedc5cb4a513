/* A backtrace tells functions apart by their names: few static functions share one. */
#include "tests/house/tree.h"
#include "tests/test.h"

#include <ctype.h>

enum { MOST_FILES = 8 };

/* Names that stand in more files, and in how many: a ceiling, which falls with what is renamed. */
typedef struct shared_name {
  const char *name;
  int files;
} shared_name;
static const shared_name known[] = {{"take", 12}, {"load", 7}};

static int allowed(const char *name) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, name) == 0) return known[i].files;
  return MOST_FILES;
}

/* The function that a line begins to define or declares: "static int add(const int *x". */
static bool static_function(const char *line, char *name, size_t size) {
  const char *open = strchr(line, '('), *from = open;
  if (!vtb_starts_with(line, "static ") || !open || memchr(line, '=', (size_t)(open - line)))
    return false;
  while (from > line && (isalnum((unsigned char)from[-1]) || from[-1] == '_')) from--;
  snprintf(name, size, "%.*s", (int)(open - from), from);
  return *name != '\0';
}

/* The names of a file, each once, are counted. */
static void count_names(const house_file *f, vtb_map *counts) {
  char line[4096], name[128];
  const char *at = f->code;
  vtb_map own = {0};
  while (next_line(&at, line, sizeof line)) {
    if (!static_function(line, name, sizeof name) || vtb_map_has(&own, name)) continue;
    vtb_map_set(&own, name, NULL);
    vtb_map_set(counts, name, (void *)((uintptr_t)vtb_map_get(counts, name) + 1));
  }
  vtb_map_free(&own);
}

static void check_names(const house_tree *t, complaints *c) {
  vtb_map counts = {0};
  for (size_t i = 0; i < t->files.n; i++)
    if (!vtb_starts_with(t->files.at[i].path, "tests/") &&
        !vtb_starts_with(t->files.at[i].path, "codegen/cpu/text/")) /* all dissolve in tasks */
      count_names(&t->files.at[i], &counts);
  for (size_t i = 0; i < counts.n; i++) {
    int n = (int)(uintptr_t)counts.at[i].value, most = allowed(counts.at[i].key);
    if (n > most)
      complain(c, "statics", 0, "%d files have a function %s(), more than %d; say what of", n,
               counts.at[i].key, most);
    else if (most > MOST_FILES && n < most)
      complain(c, "tests/house/test_statics.c", 0, "%s() is in %d files now; lower its row",
               counts.at[i].key, n);
  }
  vtb_map_free(&counts);
}

TEST(planted_names_are_found) {
  house_tree t = {0};
  complaints c = {0};
  char path[16];
  for (int i = 0; i <= MOST_FILES; i++) {
    snprintf(path, sizeof path, "ir/%d.c", i);
    tree_add(&t, path,
             "static int run(int x);\n"
             "static const char *run_all(void) { return run(0); }\n"
             "static const int table[] = {sizeof(int)}; /* static int a(void) */\n"
             "static int run(int x) {\n  return x;\n}\n");
  }
  check_names(&t, &c);
  CHECK_MSG(c.n == 2 && strstr(c.text.at, "9 files have a function run(), more than 8"), "%s",
            c.text.at);
  CHECK(c.n == 2 && strstr(c.text.at, "run_all()"));
  vtb_strbuf_free(&c.text);
  tree_free(&t);
}

TEST(names_tell_functions_apart) {
  house_tree t = {0};
  complaints c = {0};
  tree_read(&t, VTB_SOURCE_DIR);
  CHECK(t.files.n > 100);
  check_names(&t, &c);
  CHECK_MSG(complaints_end(&c) == 0, "a name says nothing");
  tree_free(&t);
}

int main(void) {
  RUN(planted_names_are_found);
  RUN(names_tell_functions_apart);
  return test_done();
}
