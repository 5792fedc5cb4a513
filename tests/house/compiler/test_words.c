/* Words of the compiler's tables stand in its tables: no text lists two of them by heart, which
 * would not hear of a third. Help texts name the table in braces, messages ask vtb_words(). */
#include <ctype.h>

#include "frontend/compile/words.h"
#include "tests/house/tree.h"
#include "tests/test.h"

static const char *const tables[] = {"targets",  "modes",      "precisions", "stages",
                                     "machines", "optimizers", "schedules"};
enum { N_TABLES = sizeof tables / sizeof *tables };

/* Texts that name some words of a table, not the table; and what knows no table. */
static const struct {
  const char *file, *table, *why;
} exceptions[] = {
    {"frontend/run/run.c", "targets", "runs built files, without a compiler"},
    {"runtime/artefact/artefact.c", "targets", "likewise"},
    {"frontend/cli/draw/cmd_graph.c", "stages", "the two that are drawn"},
    {"frontend/cli/verify/cmd_verify.c", "precisions", "the bound of each"},
    {"frontend/cli/verify/verify_model.c", "modes", "the two that a recurrence without a form has"},
    {"passes/recurrence/form.c", "modes", "likewise"},
};

/* " fp32 tf32 bf16 ", of each table. */
static vtb_strbuf words[N_TABLES];

static bool is_word_of(int table, const char *text, size_t n) {
  char key[80];
  if (n == 0 || n > sizeof key - 3) return false;
  snprintf(key, sizeof key, " %.*s ", (int)n, text);
  return strstr(words[table].at, key) != NULL;
}

static size_t word_length(const char *s) {
  size_t n = 0;
  while (isalnum((unsigned char)s[n]) || (n && s[n] && strchr("_-:", s[n]))) n++;
  return n;
}

/* What stands between two words of a list, from s on: blanks, commas, bars, "or", "and", and what
 * is said of the word before in parentheses. *told: it is more than blanks. */
static const char *behind_separator(const char *s, bool *told) {
  *told = false;
  for (;;) {
    size_t n = word_length(s);
    bool joins = (n == 2 && strncmp(s, "or", 2) == 0) || (n == 3 && strncmp(s, "and", 3) == 0);
    const char *end = *s == '(' ? strchr(s, ')') : NULL;
    if (*s == ' ')
      s++;
    else if (*s == ',' || *s == '|')
      s++, *told = true;
    else if (joins)
      s += n, *told = true;
    else if (end)
      s = end + 1;
    else
      return s;
  }
}

/* Two words in a list, or three with nothing but blanks between. */
static bool lists_words(int table, const char *text) {
  for (const char *s = text; *s;) {
    size_t n = word_length(s), in_row = 0;
    bool told = false, any = false;
    const char *first = s, *last = NULL;
    while (is_word_of(table, s, n) && !(last && strncmp(s, last, n) == 0)) {
      in_row++;
      last = s;
      any |= told;
      if (in_row > (any ? 1u : 2u)) return true;
      s = behind_separator(s + n, &told);
      n = word_length(s);
    }
    if (s == first) s += n ? n : 1;
  }
  return false;
}

/* One string literal with those that follow it at once; returns where it ends. */
static const char *take_literal(const char *s, vtb_strbuf *out) {
  out->n = 0;
  vtb_strbuf_puts(out, "");
  while (*s == '"') {
    for (s++; *s && *s != '"'; s++) {
      if (*s == '\\' && s[1]) s++;
      vtb_strbuf_putc(out, *s);
    }
    if (*s) s++;
    const char *next = s + strspn(s, " \t\n\\");
    if (*next == '"') s = next;
  }
  return s;
}

static bool is_exception(const char *path, const char *table) {
  for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
    if (vtb_streq(exceptions[i].file, path) && vtb_streq(exceptions[i].table, table)) return true;
  return vtb_starts_with(path, "tests/");
}

static void check_text(const char *path, const char *text, complaints *c) {
  vtb_strbuf literal = {0};
  int line = 1;
  for (const char *s = text; *s;) {
    const char *from = s;
    if (s[0] == '/' && (s[1] == '*' || s[1] == '/')) {
      const char *end = strstr(s, s[1] == '*' ? "*/" : "\n");
      s = end ? end + (s[1] == '*' ? 2 : 0) : s + strlen(s);
    } else if (*s == '\'') {
      s += s[1] == '\\' ? 3 : 2;
      s += *s == '\'';
    } else if (*s == '"') {
      s = take_literal(s, &literal);
      for (int t = 0; t < N_TABLES; t++)
        if (lists_words(t, vtb_strbuf_text(&literal)) && !is_exception(path, tables[t]))
          complain(c, path, line, "lists %s by heart: \"{%s}\" in a help text, or vtb_words()",
                   tables[t], tables[t]);
    } else {
      s++;
    }
    for (; from < s; from++) line += *from == '\n';
  }
  vtb_strbuf_free(&literal);
}

TEST(tables_have_words) {
  for (int t = 0; t < N_TABLES; t++) {
    vtb_strbuf_putc(&words[t], ' ');
    CHECK(vtb_words(tables[t], NULL, " ", " ", &words[t]));
    vtb_strbuf_putc(&words[t], ' ');
  }
  CHECK(is_word_of(0, "cuda-emulated", 13) && is_word_of(5, "lamb", 4) && !is_word_of(5, "lam", 3));
  vtb_strbuf none = {0};
  CHECK(!vtb_words("planets", NULL, " ", " ", &none) && !none.n);
  vtb_words_expand("{modes} (default {auto})", &none);
  CHECK_STR(none.at, "auto, parallel, recurrent or chunkwise (default {auto})");
  vtb_strbuf_free(&none);
}

TEST(planted_lists_are_found) {
  complaints c = {0};
  check_text("a.c", "x = \"adamw (default), sgd, lamb\"; /* \"cpu, cuda\" */ y = '\"';\n", &c);
  CHECK(c.n == 1 && strstr(c.text.at, "a.c:1: lists optimizers by heart"));
  check_text("b.c", "\"of products: fp32, \"\n  \"tf32\"; \"ast ir graph\"; \"h100|a100\";\n", &c);
  CHECK(c.n == 4 && strstr(c.text.at, "b.c:2: lists stages"));
  check_text("c.c", "\"of cuda launches\", \"the plan of a graph\", \"auto\", \"parallel\"", &c);
  CHECK(c.n == 4);
  vtb_strbuf_free(&c.text);
}

TEST(no_text_lists_words_by_heart) {
  house_tree t = {0};
  complaints c = {0};
  tree_read(&t, VTB_SOURCE_DIR);
  for (size_t i = 0; i < t.files.n; i++) check_text(t.files.at[i].path, t.files.at[i].text, &c);
  tree_free(&t);
  CHECK_MSG(complaints_end(&c) == 0, "words of tables in texts");
}

int main(void) {
  RUN(tables_have_words);
  RUN(planted_lists_are_found);
  RUN(no_text_lists_words_by_heart);
  return test_done();
}
