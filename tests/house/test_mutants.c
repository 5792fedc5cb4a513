/* The list of small wrong changes against the tree: what each replaces is there exactly once, tests
 * that the suite has are named for each, and no two have one name. They are made by
 * tests/mutants/quick.sh and run.sh. */
#include "tests/test.h"
#include "tree.h"

#define LIST "tests/mutants/list.txt"

typedef struct change {
  char name[128], file[256];
  vtb_strbuf old;
  int line;
  bool judged;
} change;

static VTB_VEC(change) changes;
static char *suite; /* as ctest reads it */
static complaints wrong;

static void begin(const char *line, int number) {
  change c = {.line = number};
  if (sscanf(line, "@ %127s %255s", c.name, c.file) != 2)
    complain(&wrong, LIST, number, "no name and file; write '@ name file'");
  vtb_vec_push(&changes, c);
}

static void check_tests(const char *words, int number) {
  char name[128], row[160];
  for (int n; sscanf(words, "%127s%n", name, &n) == 1; words += n) {
    snprintf(row, sizeof row, "[=[%s]=]", name);
    if (!strstr(suite, row))
      complain(&wrong, LIST, number, "the suite has no test %s; name one that it has", name);
  }
}

static void read_line(const char *line, int number) {
  change *c = changes.n ? &changes.at[changes.n - 1] : NULL;
  if (!*line || *line == '#') return;
  if (*line == '@') {
    begin(line, number);
  } else if (!c || !strchr("-+?", *line)) {
    complain(&wrong, LIST, number, "neither @, -, + nor ?; mend the line");
  } else if (*line == '-') {
    if (c->old.n) vtb_strbuf_putc(&c->old, '\n');
    if (line[1]) vtb_strbuf_puts(&c->old, line + 2);
  } else if (*line == '?') {
    c->judged |= line[1] && line[2];
    check_tests(line + 1, number);
  }
}

static void check(const change *c, const char *text) {
  const char *old = vtb_strbuf_text(&c->old), *at = text && *old ? strstr(text, old) : NULL;
  if (!at)
    complain(&wrong, LIST, c->line,
             "%s does not hold what %s replaces: \"%s\"; bring it up to date", c->file, c->name,
             old);
  else if (strstr(at + 1, old))
    complain(&wrong, LIST, c->line,
             "%s holds what %s replaces more than once: \"%s\"; take more of it", c->file, c->name,
             old);
  if (!c->judged)
    complain(&wrong, LIST, c->line, "no test is named for %s; write '? test'", c->name);
}

TEST(every_change_applies) {
  char *list = NULL, line[1024];
  size_t n = 0;
  vtb_error err = {0};
  CHECK_MSG(vtb_file_read(VTB_SOURCE_DIR "/" LIST, 1 << 24, &list, &n, &err) == VTB_OK, "%s",
            err.text);
  CHECK_MSG(vtb_file_read(VTB_BINARY_DIR "/tests/CTestTestfile.cmake", 1 << 26, &suite, &n, &err) ==
                VTB_OK,
            "%s", err.text);
  const char *at = list;
  for (int number = 1; list && suite && next_line(&at, line, sizeof line); number++)
    read_line(line, number);
  CHECK(changes.n > 200);
  for (size_t i = 0; i < changes.n; i++) {
    change *c = &changes.at[i];
    char *path = vtb_strprintf(VTB_SOURCE_DIR "/%s", c->file), *text = NULL;
    if (vtb_file_read(path, 1 << 24, &text, &n, NULL) != VTB_OK) text = NULL;
    check(c, text);
    for (size_t k = 0; k < i; k++)
      if (vtb_streq(changes.at[k].name, c->name))
        complain(&wrong, LIST, c->line, "another change is called %s; take another name", c->name);
    free(text);
    free(path);
  }
  for (size_t i = 0; i < changes.n; i++) vtb_strbuf_free(&changes.at[i].old);
  vtb_vec_free(&changes);
  free(list);
  free(suite);
  CHECK(complaints_end(&wrong) == 0);
}

int main(void) {
  RUN(every_change_applies);
  return test_done();
}
