/* What can be read off the text: columns of code, kernels and docs, lengths of files and functions,
 * that no code knows a model by its name, that a type's name is no other's, that what is written in
 * few places is not written again, that passes have no numbers of kernels, and that nothing ends a
 * process without a word. */
#include <ctype.h>
#include <dirent.h>

#include "rules.h"
#include "tests/test.h"
#include "tree.h"

enum { MOST_LINE = 4096 };

typedef VTB_VEC(int) lengths;

/* ---- columns and lines ----------------------------------------------------------------------- */

/* Characters, not bytes. */
static int columns(const char *line) {
  int n = 0;
  for (; *line; line++) n += (*line & 0xC0) != 0x80;
  return n;
}

static void check_lines(const house_file *f, complaints *c) {
  char line[MOST_LINE];
  const char *at = f->text;
  int n = 0;
  while (next_line(&at, line, sizeof line))
    if (n++, columns(line) > MOST_COLUMNS)
      complain(c, f->path, n, "%d columns, more than %d; break the line", columns(line),
               MOST_COLUMNS);
  int most = vtb_starts_with(f->path, "codegen/cpu/text/") ? MOST_TEXT_LINES : MOST_FILE_LINES;
  if (n > most)
    complain(c, f->path, 0, "%d lines, more than %d; split it by what it does", n, most);
}

static void check_opening(const house_file *f, complaints *c) {
  if (vtb_ends_with(f->path, ".c") && !vtb_starts_with(f->text, "/*"))
    complain(c, f->path, 1, "a file opens with a comment that says what it is");
}

/* "What it is" and "Of the file" do not say of what a comment speaks. */
static void check_beginnings(const house_file *f, complaints *c) {
  static const char *const empty[] = {"/* Of ", "/* What ", "/* Whether ", "/* Those "};
  char line[MOST_LINE];
  const char *at = f->text;
  for (int n = 1; next_line(&at, line, sizeof line); n++)
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
      if (vtb_starts_with(line, empty[i]))
        complain(c, f->path, n, "a comment names the thing first, not \"%s\"", empty[i] + 3);
}

static const house_width *width_of(const char *path) {
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    if (vtb_starts_with(path, widths[i].begins) && vtb_ends_with(path, widths[i].ends))
      return &widths[i];
  return NULL;
}

/* Kernels and whatever else has a row in `widths`. */
static void check_width(const house_file *f, complaints *c) {
  char line[MOST_LINE];
  const char *at = f->text;
  const house_width *most = width_of(f->path);
  int n = 0;
  if (!most) return;
  while (next_line(&at, line, sizeof line))
    if (n++, columns(line) > most->columns)
      complain(c, f->path, n, "%d columns, more than %d; break the line", columns(line),
               most->columns);
  if (most->lines && n > most->lines)
    complain(c, f->path, 0, "%d lines, more than %d; split it by its phases", n, most->lines);
}

/* ---- pragmas in kernels ---------------------------------------------------------------------- */

/* The word that ends before code[n]. */
static bool ends_with(const char *code, size_t n, const char *word) {
  size_t length = strlen(word);
  return n >= length && strncmp(code + n - length, word, length) == 0 &&
         (n == length || !(isalnum((unsigned char)code[n - length - 1])));
}

static size_t before_blanks(const char *code, size_t n) {
  while (n > 0 && isspace((unsigned char)code[n - 1])) n--;
  return n;
}

/* Where the parenthesis opens that closes before code[n]. */
static size_t opening(const char *code, size_t n) {
  int depth = 0;
  while (n > 0) {
    n--;
    depth += (code[n] == ')') - (code[n] == '(');
    if (depth == 0) break;
  }
  return n;
}

/* NVRTC 13 takes an unrolled loop that is the whole of an `if constexpr` for two statements, and
 * leaves out the one behind it with it where the condition is false: braces. */
static void check_pragmas(const house_file *f, complaints *c) {
  const char *dot = strrchr(f->path, '.');
  if (!dot || (!vtb_streq(dot, ".cu") && !vtb_streq(dot, ".cuh"))) return;
  const char *at = f->code;
  while ((at = strstr(at, "UNROLL")) != NULL) {
    size_t n = (size_t)(at - f->code);
    int line = 1;
    for (const char *p = f->code; p < at; p++) line += *p == '\n';
    at += strlen("UNROLL");
    n -= ends_with(f->code, n, "VTB_NO_") ? strlen("VTB_NO_") : strlen("VTB_");
    n = before_blanks(f->code, n);
    bool closed = n > 0 && f->code[n - 1] == ')';
    if (closed) n = before_blanks(f->code, opening(f->code, n));
    if (closed ? ends_with(f->code, n, "if") || ends_with(f->code, n, "constexpr")
               : ends_with(f->code, n, "else"))
      complain(c, f->path, line, "a pragma begins the statement of an if; put it in braces");
  }
}

/* ---- pages of docs --------------------------------------------------------------------------- */

/* Prose; not tables, nor code between ``` or behind four blanks. */
static void check_page(const char *path, const char *text, complaints *c) {
  char line[MOST_LINE];
  bool code = false;
  for (int n = 1; next_line(&text, line, sizeof line); n++) {
    if (vtb_starts_with(line + strspn(line, " "), "```")) code = !code;
    if (code || line[0] == '|' || vtb_starts_with(line, "    ")) continue;
    if (columns(line) > MOST_DOC_COLUMNS)
      complain(c, path, n, "%d columns, more than %d; break the line", columns(line),
               MOST_DOC_COLUMNS);
  }
}

/* docs/NAME.md but for what programs print: the catalogues, and what the compiler says. */
static void check_pages(complaints *c) {
  static const char *const printed[] = {"errors.md", "ops.md", "reading.md"};
  DIR *d = opendir(VTB_SOURCE_DIR "/docs");
  CHECK(d != NULL);
  for (struct dirent *e; d && (e = readdir(d));) {
    vtb_strbuf path = {0};
    char *text = NULL;
    size_t n = 0;
    bool is = vtb_ends_with(e->d_name, ".md");
    for (size_t k = 0; k < sizeof printed / sizeof *printed; k++)
      is = is && strcmp(e->d_name, printed[k]) != 0;
    vtb_strbuf_printf(&path, VTB_SOURCE_DIR "/docs/%s", e->d_name);
    if (is && vtb_file_read(path.at, 1 << 24, &text, &n, NULL) == VTB_OK)
      check_page(path.at + strlen(VTB_SOURCE_DIR "/"), text, c);
    free(text);
    vtb_strbuf_free(&path);
  }
  if (d) closedir(d);
}

/* ---- functions ------------------------------------------------------------------------------- */

/* The name of the function whose signature is `text`: the last word before its first
 * parenthesis. */
static void name_of(const char *text, char *name, size_t size) {
  const char *end = strchr(text, '(');
  while (end > text && !isalnum((unsigned char)end[-1]) && end[-1] != '_') end--;
  const char *from = end;
  while (from > text && (isalnum((unsigned char)from[-1]) || from[-1] == '_')) from--;
  snprintf(name, size, "%.*s", (int)(end - from), from);
}

static bool allowed_long(const char *path, const char *name) {
  for (size_t i = 0; i < sizeof long_functions / sizeof *long_functions; i++)
    if (vtb_streq(long_functions[i].file, path) && vtb_streq(long_functions[i].name, name))
      return true;
  return false;
}

/* A row of long_functions whose function went must go as well. */
static void check_rows(const house_tree *t, complaints *c) {
  for (size_t i = 0; i < sizeof long_functions / sizeof *long_functions; i++) {
    const house_function *row = &long_functions[i];
    const house_file *f = row->file ? tree_find(t, row->file) : NULL;
    if (row->file && !(f && strstr(f->code, row->name)))
      complain(c, "tests/house/rules.h", 0, "%s has no %s; take its row out", row->file, row->name);
  }
}

static void end_function(const house_file *f, int from, int to, const char *signature, lengths *all,
                         complaints *c) {
  char name[128];
  vtb_vec_push(all, to - from + 1);
  if (to - from + 1 <= MOST_FUNCTION_LINES) return;
  name_of(signature, name, sizeof name);
  if (!allowed_long(f->path, name))
    complain(c, f->path, from, "%s has %d lines, more than %d; give its parts names", name,
             to - from + 1, MOST_FUNCTION_LINES);
}

/* A definition begins at the left margin, has a parenthesis before its brace, and is no
 * initialiser. */
static bool may_begin(const char *line) {
  return (isalpha((unsigned char)*line) || *line == '_') && !vtb_starts_with(line, "typedef") &&
         !strchr(line, '=') && !vtb_starts_with(line, "struct ") && !vtb_starts_with(line, "enum ");
}

static void measure_functions(const house_file *f, lengths *all, complaints *c) {
  char line[MOST_LINE];
  vtb_strbuf signature = {0};
  const char *at = f->code;
  int from = 0, open = 0;
  for (int n = 1; next_line(&at, line, sizeof line); n++) {
    size_t len = strlen(line);
    while (len && line[len - 1] == ' ') line[--len] = '\0';
    if (open) {
      if (line[0] != '}') continue;
      end_function(f, open, n, signature.at, all, c);
      open = from = 0;
      continue;
    }
    if (may_begin(line)) from = n, signature.n = 0;
    if (!from) continue;
    vtb_strbuf_puts(&signature, line);
    if (vtb_ends_with(line, "{") && strchr(signature.at, '('))
      open = from;
    else if (vtb_ends_with(line, "}") && strchr(signature.at, '('))
      end_function(f, from, n, signature.at, all, c), from = 0;
    else if (vtb_ends_with(line, ";"))
      from = 0;
  }
  vtb_strbuf_free(&signature);
}

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void check_p90(lengths *all, complaints *c) {
  if (!all->n) return;
  qsort(all->at, all->n, sizeof *all->at, ascending);
  int p90 = all->at[all->n * 9 / 10];
  printf("%zu functions: median %d, nine in ten within %d, longest %d lines\n", all->n,
         all->at[all->n / 2], p90, all->at[all->n - 1]);
  if (p90 > MOST_FUNCTION_LINES_P90)
    complain(c, "the tree", 0, "one function in ten is longer than %d lines; at most %d", p90,
             MOST_FUNCTION_LINES_P90);
}

/* ---- names of models ------------------------------------------------------------------------- */

/* The stems of models/<family>.vtb, and the list of rules.h. */
static void model_names(vtb_map *names) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    vtb_map_set(names, families[i], NULL);
  DIR *d = opendir(VTB_SOURCE_DIR "/models");
  CHECK(d != NULL);
  for (struct dirent *e; d && (e = readdir(d));) {
    char stem[sizeof e->d_name];
    snprintf(stem, sizeof stem, "%s", e->d_name);
    if (!vtb_ends_with(stem, ".vtb")) continue;
    stem[strlen(stem) - strlen(".vtb")] = '\0';
    vtb_map_set(names, stem, NULL);
  }
  if (d) closedir(d);
}

static bool is_example(const char *path, const char *word) {
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
    if (vtb_streq(examples[i].file, path) && vtb_streq(examples[i].word, word)) return true;
  return false;
}

/* Words of code and of literals; comments may cite. A word is letters only: vil_tiny has "vil". */
static void check_names(const house_file *f, const vtb_map *names, complaints *c) {
  const char *p = f->text;
  int line = 1;
  bool comment = false;
  for (; *p; p++) {
    line += *p == '\n';
    if (p[0] == '/' && p[1] == '*') comment = true;
    if (p[0] == '*' && p[1] == '/') comment = false;
    if (p[0] == '/' && p[1] == '/') p += strcspn(p, "\n") - 1;
    if (comment || !isalpha((unsigned char)*p)) continue;
    char word[64];
    size_t n = 0;
    for (; isalpha((unsigned char)*p); p++)
      if (n + 1 < sizeof word) word[n++] = (char)tolower((unsigned char)*p);
    word[n] = '\0';
    if (vtb_map_has(names, word) && !is_example(f->path, word))
      complain(c, f->path, line,
               "code knows the model \"%s\"; let models/ say what is special about it", word);
    p--;
  }
}

/* ---- ends without a word --------------------------------------------------------------------- */

static bool calls(const char *line, const char *name) {
  for (const char *at = line; (at = strstr(at, name)); at++)
    if (at == line || !(isalnum((unsigned char)at[-1]) || at[-1] == '_')) return true;
  return false;
}

/* Only guard.c ends a process by a trap, behind the sentence. */
static void check_ends(const house_file *f, complaints *c) {
  static const char *const silent[] = {"__builtin_trap(", "__builtin_unreachable(", "abort("};
  char line[MOST_LINE];
  const char *at = f->code;
  for (int n = 1; next_line(&at, line, sizeof line); n++)
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
      if (calls(line, silent[i]) && !vtb_streq(f->path, "runtime/base/guard.c"))
        complain(c, f->path, n, "%s) says nothing; vtb_bug() says what is wrong", silent[i]);
}

/* ---- one meaning a name ---------------------------------------------------------------------- */

/* "vtb_map" of "typedef struct vtb_map {", in `name`; false: no type of the tree begins here. */
static bool type_of(const char *line, char *name, size_t size) {
  static const char *const kinds[] = {"struct ", "union ", "enum "};
  if (vtb_starts_with(line, "typedef ")) line += strlen("typedef ");
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    if (!vtb_starts_with(line, kinds[k])) continue;
    line += strlen(kinds[k]);
    size_t n = strcspn(line, " ");
    snprintf(name, size, "%.*s", (int)n, line);
    return vtb_starts_with(line, "vtb") && vtb_starts_with(line + n, " {");
  }
  return false;
}

/* Types of two files have two names; runtime/vertebra.h has those of base.h for applications. */
static void check_types(const house_file *f, vtb_map *types, complaints *c) {
  char line[MOST_LINE], name[128];
  const char *at = f->code;
  for (int n = 1; next_line(&at, line, sizeof line); n++) {
    if (!type_of(line, name, sizeof name)) continue;
    const char *other = vtb_map_get(types, name);
    if (other && strcmp(other, f->path) != 0 && !vtb_streq(f->path, "runtime/vertebra.h"))
      complain(c, f->path, n, "%s is another type in %s; a name has one meaning", name, other);
    vtb_map_set(types, name, f->path);
  }
}

/* ---- what is written in few places ----------------------------------------------------------- */

static bool listed(const char *files, const char *path) {
  size_t n = strlen(path);
  for (const char *at = files; (at = strstr(at, path)); at++)
    if ((at == files || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
  return false;
}

/* Not in comments, which f->code has blanks for. */
static void check_words(const house_file *f, complaints *c) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const house_word *w = &words[i];
    if (listed(w->files, f->path)) continue;
    int line = 1;
    for (const char *p = f->text, *at = p; (at = strstr(at, w->text)); at++) {
      if (f->code[at - f->text] != *at) continue;
      for (; p < at; p++) line += *p == '\n';
      complain(c, f->path, line, "%s is not written here; %s", w->text, w->instead);
    }
  }
}

/* A file of `words` that has not the text, or is not there, goes from its row. */
static void check_word_rows(const house_tree *t, complaints *c) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    for (const char *at = words[i].files; *at; at += strspn(at, " ")) {
      char path[256];
      snprintf(path, sizeof path, "%.*s", (int)strcspn(at, " "), at);
      const house_file *f = tree_find(t, path);
      if (!f || !strstr(f->text, words[i].text))
        complain(c, "tests/house/rules.h", 0, "%s has no %s; take it out of the row", path,
                 words[i].text);
      at += strcspn(at, " ");
    }
}

/* ---- numbers of kernels ---------------------------------------------------------------------- */

/* A name of `table` that ends in * stands for all that begin so. */
static bool is_of(const char *row, const char *name) {
  size_t n = strlen(row);
  return row[n - 1] == '*' ? strncmp(row, name, n - 1) == 0 : vtb_streq(row, name);
}

static bool is_reasoned(const char *path, const char *name) {
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (vtb_streq(numbers[i].file, path) && is_of(numbers[i].name, name)) return true;
  return false;
}

/* Whether a constant's name says that it bounds something or is a kernel's measure. */
static bool names_a_bound(const char *name) {
  static const char *const stems[] = {"MOST", "LEAST",  "LARGEST",   "WANTED",  "BLOCK",
                                      "TILE", "WARPS",  "REGISTERS", "THREADS", "LANES",
                                      "TAPS", "SHARED", "ROOM",      "STAGES",  "FULL"};
  char word[64];
  for (const char *at = name; *at; at += strspn(at, "_")) {
    size_t n = strcspn(at, "_");
    snprintf(word, sizeof word, "%.*s", (int)n, at);
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++)
      if (vtb_streq(word, stems[i])) return true;
    at += n;
  }
  return false;
}

/* Numbers that only a GPU has: multiprocessors, bytes and KB of their shared memory. */
static bool is_machine(const char *digits, size_t n) {
  static const char *const known[] = {"108",   "132",    "148",    "227",    "228",
                                      "49152", "101376", "166912", "232448", "233472"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strlen(known[i]) == n && strncmp(known[i], digits, n) == 0) return true;
  return false;
}

/* `text` follows a constant's name: "= 4", or, in a #define, "4". */
static bool is_given(const char *text, bool macro) {
  text += strspn(text, " ");
  if (!macro && *text++ != '=') return false;
  text += strspn(text, " (");
  return isdigit((unsigned char)*text) != 0;
}

static void check_numbers(const house_file *f, complaints *c) {
  char line[MOST_LINE];
  const char *at = f->code;
  if (!vtb_starts_with(f->path, "passes/") || vtb_starts_with(f->path, "passes/cost/")) return;
  for (int n = 1; next_line(&at, line, sizeof line); n++) {
    bool macro = vtb_starts_with(line, "#define ");
    for (const char *p = line; *p;) {
      size_t word = 0;
      while (isalnum((unsigned char)p[word]) || p[word] == '_') word++;
      char name[64];
      snprintf(name, sizeof name, "%.*s", (int)word, p);
      if (is_machine(p, word))
        complain(c, f->path, n, "%s is a GPU's; ask vtb_gpu (passes/cost/gpu.h)", name);
      else if (isupper((unsigned char)*p) && names_a_bound(name) && is_given(p + word, macro) &&
               !is_reasoned(f->path, name))
        complain(c, f->path, n, "%s bounds what a kernel takes; let the kernel say so", name);
      p += word ? word : 1;
    }
  }
}

/* A row of `numbers` whose constant went goes, too. */
static void check_number_rows(const house_tree *t, complaints *c) {
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const house_file *f = tree_find(t, numbers[i].file);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(numbers[i].name, "*"), numbers[i].name);
    if (!f || !strstr(f->code, name))
      complain(c, "tests/house/rules.h", 0, "%s has no %s; take its row out", numbers[i].file,
               numbers[i].name);
  }
}

/* ---- the rules ------------------------------------------------------------------------------- */

static void check_tree(const house_tree *t, complaints *c) {
  lengths all = {0};
  vtb_map names = {0}, types = {0};
  model_names(&names);
  for (size_t i = 0; i < t->files.n; i++) {
    const house_file *f = &t->files.at[i];
    check_lines(f, c);
    if (vtb_starts_with(f->path, "tests/")) continue;
    check_opening(f, c);
    if (!vtb_starts_with(f->path, "passes/") && !vtb_starts_with(f->path, "codegen/"))
      check_beginnings(f, c);
    measure_functions(f, &all, c);
    check_names(f, &names, c);
    check_ends(f, c);
    check_types(f, &types, c);
    check_words(f, c);
    check_numbers(f, c);
  }
  for (size_t i = 0; i < t->texts.n; i++) {
    check_width(&t->texts.at[i], c);
    check_pragmas(&t->texts.at[i], c);
  }
  check_p90(&all, c);
  vtb_vec_free(&all);
  vtb_map_free(&names);
  vtb_map_free(&types);
}

static void fill(vtb_strbuf *s, const char *line, int times) {
  while (times-- > 0) vtb_strbuf_puts(s, line);
}

TEST(planted_faults_are_found) {
  house_tree t = {0};
  complaints c = {0};
  vtb_strbuf text = {0};
  vtb_strbuf_puts(&text, "/* vil may be cited */\nstatic int long_one(int a,\n    int b) {\n");
  fill(&text, "  a++; /* } */\n", 90);
  vtb_strbuf_puts(&text, "}\nint table[] = {\n");
  fill(&text, "    1,\n", 600);
  vtb_strbuf_puts(&text, "};\nconst char *s = \"vil_tiny\";\n// ");
  fill(&text, "0123456789", 10);
  vtb_strbuf_puts(&text, "\nvoid silent(void) { abort(); }\n/* \"spec\" */\n");
  vtb_strbuf_puts(&text, "const char *s = vtb_attr_str(i, \"spec\", \"\");\n");
  tree_add(&t, "ir/a.c", text.at);
  tree_add(&t, "ir/b.c", "#include \"ir/ir.h\"\n/* Whether late. */\n");
  check_tree(&t, &c);
  CHECK(c.n == 9);
  CHECK(strstr(c.text.at, "ir/b.c:2: a comment names the thing first, not \"Whether \""));
  CHECK(strstr(c.text.at, "ir/b.c:1: a file opens with a comment"));
  CHECK(strstr(c.text.at, "ir/a.c:2: long_one has 93 lines"));
  CHECK(strstr(c.text.at, "ir/a.c:697: code knows the model \"vil\""));
  CHECK(strstr(c.text.at, "ir/a.c:698: 103 columns"));
  CHECK(strstr(c.text.at, "ir/a.c: 701 lines"));
  CHECK(strstr(c.text.at, "ir/a.c:699: abort() says nothing"));
  CHECK(strstr(c.text.at, "ir/a.c:701: \"spec\" is not written here; ask vtb_product_of()"));
  CHECK(strstr(c.text.at, "one function in ten is longer"));
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&c.text);
  tree_free(&t);
}

TEST(wide_prose_is_found) {
  complaints c = {0};
  vtb_strbuf page = {0};
  const char *const before[] = {"# A page\n", "\n| ", "\n```\n", "\n```\n    "};
  for (int i = 0; i < 4; i++) {
    vtb_strbuf_puts(&page, before[i]);
    for (int k = 0; k < 13; k++) vtb_strbuf_puts(&page, "0123456789");
  }
  check_page("docs/a.md", page.at, &c);
  CHECK(c.n == 1 && strstr(c.text.at, "docs/a.md:2: 130 columns, more than 120"));
  vtb_strbuf_free(&page);
  vtb_strbuf_free(&c.text);
}

TEST(wide_texts_are_found) {
  char text[MOST_LINE];
  complaints c = {0};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    for (int more = 0; more < 2; more++) {
      char path[32];
      snprintf(path, sizeof path, "%sa%s", widths[i].begins, widths[i].ends);
      snprintf(text, sizeof text, "\n%*s\n", widths[i].columns + more, "x");
      check_width(&(house_file){path, text, NULL}, &c);
      CHECK(c.n == (int)i + more);
    }
  CHECK(strstr(c.text.at, "a.cu:2: 101 columns, more than 100"));
  memset(text, '\n', MOST_TEXT_LINES + 1);
  text[MOST_TEXT_LINES + 1] = '\0';
  check_width(&(house_file){"a.cu", text, NULL}, &c);
  CHECK(c.n == sizeof widths / sizeof *widths + 1);
  CHECK(strstr(c.text.at, "a.cu: 401 lines, more than 400; split it by its phases"));
  snprintf(text, sizeof text, "%*s\n", 200, "x");
  check_width(&(house_file){"ir/a.def", text, NULL}, &c);
  CHECK(c.n == sizeof widths / sizeof *widths + 1);
  vtb_strbuf_free(&c.text);
}

TEST(names_of_two_types_are_found) {
  house_tree t = {0};
  complaints c = {0};
  vtb_map types = {0};
  tree_add(&t, "ir/a.h",
           "typedef struct vtb_map vtb_map;\ntypedef struct vtb_part {\n  int a;\n} vtb_part;\n");
  tree_add(&t, "ir/b.h", "struct vtb_map {\n  int a;\n};\n");
  tree_add(&t, "runtime/b.c", "typedef enum vtb_part { ONE } vtb_part;\n");
  for (size_t i = 0; i < t.files.n; i++) check_types(&t.files.at[i], &types, &c);
  CHECK(c.n == 1);
  CHECK(c.n && strstr(c.text.at, "runtime/b.c:1: vtb_part is another type in ir/a.h"));
  vtb_map_free(&types);
  vtb_strbuf_free(&c.text);
  tree_free(&t);
}

TEST(numbers_of_kernels_are_found) {
  static const char text[] = "enum { MOST_KEYS = 64, KEYS = 3, MOST_NAMES }; /* 132 */\n"
                             "#define VTB_BLOCK_ROWS 16\n"
                             "static int f(int n) { return n * 132 + MOST_KEYS * 8; }\n";
  house_tree t = {0};
  complaints c = {0};
  tree_add(&t, "passes/fuse/a.c", text);
  tree_add(&t, "passes/cost/a.c", text);
  tree_add(&t, "codegen/a.c", text);
  for (size_t i = 0; i < t.files.n; i++) check_numbers(&t.files.at[i], &c);
  CHECK(c.n == 3);
  CHECK(strstr(c.text.at, "passes/fuse/a.c:1: MOST_KEYS bounds"));
  CHECK(strstr(c.text.at, "passes/fuse/a.c:2: VTB_BLOCK_ROWS bounds"));
  CHECK(strstr(c.text.at, "passes/fuse/a.c:3: 132 is a GPU's"));
  check_number_rows(&t, &c);
  CHECK(strstr(c.text.at, "passes/fuse/words_local.c has no BLOCK; take its row out"));
  vtb_strbuf_free(&c.text);
  tree_free(&t);
}

TEST(bare_pragmas_are_found) {
  static const char text[] = "if constexpr (A || (B)) VTB_UNROLL for (;;) x();\n"
                             "for (;;) VTB_UNROLL for (;;) { VTB_UNROLL for (;;) x(); }\n"
                             "if (a) { /* all */\n  VTB_UNROLL for (;;) x();\n} else\n"
                             "  VTB_NO_UNROLL for (;;) y();\n"
                             "if (a) /* few */\n  VTB_NO_UNROLL for (;;) y();\n";
  house_tree t = {0};
  complaints c = {0};
  tree_add(&t, "codegen/cuda/text/a.cu", text);
  for (size_t i = 0; i < t.texts.n; i++) check_pragmas(&t.texts.at[i], &c);
  CHECK(t.texts.n == 1 && c.n == 3);
  CHECK(strstr(c.text.at, "a.cu:1: a pragma begins"));
  CHECK(strstr(c.text.at, "a.cu:6: a pragma begins"));
  CHECK(strstr(c.text.at, "a.cu:8: a pragma begins"));
  vtb_strbuf_free(&c.text);
  tree_free(&t);
}

TEST(the_tree_keeps_the_rules) {
  house_tree t = {0};
  complaints c = {0};
  tree_read(&t, VTB_SOURCE_DIR);
  CHECK(t.files.n > 100);
  check_tree(&t, &c);
  check_pages(&c);
  check_rows(&t, &c);
  check_word_rows(&t, &c);
  check_number_rows(&t, &c);
  CHECK_MSG(complaints_end(&c) == 0, "the tree breaks a rule");
  tree_free(&t);
}

int main(void) {
  RUN(planted_faults_are_found);
  RUN(wide_prose_is_found);
  RUN(wide_texts_are_found);
  RUN(names_of_two_types_are_found);
  RUN(numbers_of_kernels_are_found);
  RUN(bare_pragmas_are_found);
  RUN(the_tree_keeps_the_rules);
  return test_done();
}
