/* Behaviour comes from options: libraries ask the environment for facts of the machine alone, and
 * docs/environment.md is made of the table that vtb_options_from_environment() reads.
 *
 *   house_test_environment [--write]   writes the page's tables */
#include <stdint.h>
#include <string.h>

#include "rules.h"
#include "tests/test.h"
#include "tree.h"

#define PAGE VTB_SOURCE_DIR "/docs/environment.md"

typedef struct variable {
  const char *group, *name, *field, *words,
      *text; /* group: of its first row; field: NULL: a fact */
  int32_t least, most;
} variable;

static const variable table[] = {
#define GROUP(title) {title, NULL, NULL, NULL, NULL, 0, 0},
#define SWITCH(name, field, no, yes, text)                                                         \
  {NULL, name, #field, "`" no "` or `" yes "`", text, 0, 0},
#define NUMBER(name, field, least, most, text) {NULL, name, #field, NULL, text, least, most},
#define DEVICE NUMBER
#define TEXT(name, field, values, text) {NULL, name, #field, values, text, 0, 0},
#define FACT(name, values, text) {NULL, name, NULL, values, text, 0, 0},
#include "runtime/environment.def"
};
enum { ROWS = sizeof table / sizeof *table };

/* ---- the page -------------------------------------------------------------------------------- */

static void print_tables(vtb_strbuf *out) {
  for (int i = 0; i < ROWS; i++) {
    const variable *v = &table[i];
    if (v->group)
      vtb_strbuf_printf(out,
                        "%s## %s\n\n| variable | values | field | meaning |\n"
                        "| --- | --- | --- | --- |\n",
                        i ? "\n" : "", v->group);
    else if (v->words)
      vtb_strbuf_printf(out, "| `%s` | %s |", v->name, v->words);
    else
      vtb_strbuf_printf(out, "| `%s` | %d to %d |", v->name, v->least, v->most);
    if (v->name && v->field) vtb_strbuf_printf(out, " `%s` | %s |\n", v->field, v->text);
    if (v->name && !v->field) vtb_strbuf_printf(out, " | %s |\n", v->text);
  }
}

static bool write_now;

TEST(the_page_is_made_of_the_table) {
  char *page = NULL;
  size_t n = 0;
  vtb_error err = {0};
  vtb_strbuf tables = {0}, whole = {0};
  CHECK_MSG(vtb_file_read(PAGE, 1 << 20, &page, &n, &err) == VTB_OK, "%s", err.text);
  if (!page) return;
  print_tables(&tables);
  const char *begin = strstr(page, "\n## "), *end = strstr(page, "\n## What is written\n");
  CHECK_MSG(begin && end, "docs/environment.md has no tables, or nothing behind them");
  if (begin && end)
    vtb_strbuf_printf(&whole, "%.*s\n%s%s", (int)(begin - page), page, tables.at, end);
  if (write_now)
    CHECK_MSG(vtb_file_write_atomic(PAGE, whole.at, whole.n, &err) == VTB_OK, "%s", err.text);
  else
    CHECK_MSG(vtb_streq(vtb_strbuf_text(&whole), page),
              "docs/environment.md is not what the table says: run house_test_environment --write");
  vtb_strbuf_free(&tables);
  vtb_strbuf_free(&whole);
  free(page);
}

/* ---- who asks -------------------------------------------------------------------------------- */

/* Files that ask for variables by a table's or a caller's names, and why those are no behaviour. */
static const struct {
  const char *path, *why;
} askers[] = {
    {"runtime/environment.c", "the table"},
    {"runtime/base/library.c", "files of libraries that are opened late, and where they lie"},
    {"runtime/base/launched.c", "ranks, as launchers say them"},
    {"runtime/cuda/device.c", "likewise"},
};

static bool may_ask(const char *path) {
  for (size_t i = 0; i < sizeof askers / sizeof *askers; i++)
    if (vtb_streq(askers[i].path, path)) return true;
  return false;
}

/* "NAME" between the quotes behind getenv( is a fact of the table. */
static bool is_fact(const char *name, size_t n) {
  for (int i = 0; i < ROWS; i++)
    if (table[i].name && !table[i].field && strlen(table[i].name) == n &&
        strncmp(table[i].name, name, n) == 0)
      return true;
  return false;
}

static void check_file(const house_file *f, complaints *c) {
  static const char call[] = "getenv(";
  if (vtb_starts_with(f->path, "tests/") || may_ask(f->path)) return;
  for (const char *at = f->code; (at = strstr(at, call)); at++) {
    const char *argument = f->text + (at - f->code) + sizeof call - 1;
    const char *name = argument + (*argument == '"');
    size_t n = strcspn(name, "\"");
    int line = 1;
    for (const char *p = f->code; p < at; p++) line += *p == '\n';
    if (*argument != '"')
      complain(c, f->path, line,
               "the variable is not told by name; a reason in test_environment.c?");
    else if (!is_fact(name, n))
      complain(c, f->path, line,
               "%.*s is behaviour: a field of vtb_behaviour, with a row of environment.def", (int)n,
               name);
  }
}

/* how.field, how->field, how()->field: somebody goes by it. */
static bool is_used(const house_tree *t, const char *field) {
  static const char *const before[] = {"how.", "how->", "how()->"};
  for (size_t i = 0; i < t->files.n; i++) {
    if (vtb_starts_with(t->files.at[i].path, "tests/")) continue;
    for (size_t k = 0; k < sizeof before / sizeof *before; k++)
      for (const char *at = t->files.at[i].code; (at = strstr(at, before[k])); at++) {
        const char *word = at + strlen(before[k]);
        size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz_0123456789");
        if (strlen(field) == n && strncmp(word, field, n) == 0) return true;
      }
  }
  return false;
}

TEST(behaviour_comes_from_options) {
  house_tree t = {0};
  complaints c = {0};
  tree_read(&t, VTB_SOURCE_DIR);
  for (size_t i = 0; i < t.files.n; i++) check_file(&t.files.at[i], &c);
  for (int i = 0; i < ROWS; i++)
    if (table[i].field && !is_used(&t, table[i].field))
      complain(&c, "runtime/environment.def", i, "%s: nobody goes by the field %s", table[i].name,
               table[i].field);
  for (size_t i = 0; i < sizeof askers / sizeof *askers; i++) {
    const house_file *f = tree_find(&t, askers[i].path);
    CHECK_MSG(f && strstr(f->text, "getenv"), "%s asks no more (%s)", askers[i].path,
              askers[i].why);
  }
  tree_free(&t);
  CHECK_MSG(complaints_end(&c) == 0, "behaviour by environment");
}

TEST(planted_questions_are_found) {
  house_tree t = {0};
  complaints c = {0};
  tree_add(&t, "passes/a.c",
           "bool a = getenv(\"HOME\");\nbool b = getenv(\"VTB_FUSIONS\");\n"
           "bool c = getenv(name); /* getenv(\"VTB_TUNING\") */\nbool d = say(\"getenv(x)\");\n"
           "if (show.threads || how->threading || o->how.cuda_graph) return;\n");
  tree_add(&t, "tests/b.c", "bool a = getenv(\"VTB_FUSIONS\");\nuse(how->fusions);\n");
  check_file(&t.files.at[0], &c);
  check_file(&t.files.at[1], &c);
  CHECK(c.n == 2 && strstr(c.text.at, "passes/a.c:2: VTB_FUSIONS is behaviour") &&
        strstr(c.text.at, "passes/a.c:3: the variable is not told by name"));
  CHECK(is_used(&t, "cuda_graph") && !is_used(&t, "cuda") && !is_used(&t, "fusions"));
  vtb_strbuf_free(&c.text);
  tree_free(&t);
}

int main(int argc, char **argv) {
  write_now = argc > 1 && strcmp(argv[1], "--write") == 0;
  RUN(planted_questions_are_found);
  RUN(the_page_is_made_of_the_table);
  RUN(behaviour_comes_from_options);
  return test_done();
}
