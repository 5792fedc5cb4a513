/* The formatter: what it makes of some texts, and for every .vtb file of the tree and a text with
 * everything in it, that formatting twice changes nothing and that the meaning stays. */
#include "frontend/lang/lang.h"
#include "tests/test.h"

#include <dirent.h>

static char *formatted(const char *text) {
  vtb_diags diags = {0};
  vtb_source source = {.path = "test.vtb", .text = text, .n = strlen(text)};
  vtb_strbuf out = {0};
  CHECK_MSG(vtb_format(&source, &out, &diags), "does not parse: %s",
            diags.list.n ? diags.list.at[0].text : "");
  vtb_diags_free(&diags);
  return out.at ? out.at : vtb_xstrdup("");
}

static char *tree(const char *text) {
  vtb_diags diags = {0};
  vtb_search nowhere = {0};
  vtb_unit *u = vtb_unit_load_text("test.vtb", text, strlen(text), &nowhere, &diags);
  vtb_strbuf out = {0};
  vtb_strbuf_puts(&out, "");
  vtb_unit_print_ast(u, &out);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  return out.at;
}

static void check_stable(const char *path, const char *text) {
  char *once = formatted(text), *twice = formatted(once);
  CHECK_MSG(strcmp(once, twice) == 0, "%s: formatting twice:\n%s\n--- then\n%s", path, once, twice);
  char *before = tree(text), *after = tree(once);
  CHECK_MSG(strcmp(before, after) == 0, "%s: meaning changed:\n%s\n--- to\n%s", path, before,
            after);
  free(once);
  free(twice);
  free(before);
  free(after);
}

static void check(const char *text, const char *want) {
  char *got = formatted(text);
  CHECK_STR(got, want);
  free(got);
  check_stable("text in the test", text);
}

TEST(blanks_are_canonical) {
  check("const a=1\nconst   b = [ 1,2 ]", "const a = 1\nconst b = [1, 2]\n");
  check("const a = -1*(2- -3)%4", "const a = -1 * (2 - -3) % 4\n");
  check("const a = - -b", "const a = - -b\n");
  check("const p = rows ~\nconst q=p . hflip", "const p = rows~\nconst q = p.hflip\n");
  check("const c = a?b:d[ 0 ]", "const c = a ? b : d[0]\n");
  check("fn f(x:tensor,n:int=3){return x*n}", "fn f(x: tensor, n: int = 3) { return x * n }\n");
  check("fn f(x:tensor){y=param w:[x.dim]~zeros no_decay\nreturn x*y}",
        "fn f(x: tensor) {\n  y = param w: [x.dim] ~ zeros no_decay\n  return x * y\n}\n");
  check("fn f(x:tensor){y=c?param w:[3]~zeros:-x\n}",
        "fn f(x: tensor) {\n  y = c ? param w: [3] ~ zeros : -x\n}\n");
  check("model m(a:one  of x|y alias \"2\"=x){input i:image[3]\noutput o=i}",
        "model m(a: one of x | y alias \"2\" = x) {\n  input i: image[3]\n  output o = i\n}\n");
  check("fn f(x: tensor) { f , b=along each[rows]suffix[\"\"] as d{ x } }",
        "fn f(x: tensor) { f, b = along each [rows] suffix [\"\"] as d { x } }\n");
}

TEST(blank_lines_group_statements) {
  check("\n\nconst a = 1\n\n\n\nconst b = 2\n\n", "const a = 1\n\nconst b = 2\n");
  check("fn f(x: tensor) {\n\n  y = x\n\n\n  return y\n\n}\nconst a = 1\n",
        "fn f(x: tensor) {\n  y = x\n\n  return y\n}\n\nconst a = 1\n");
}

TEST(comments_stay) {
  check("// doc\nconst a = 1 // why\n  // own\nconst bcd = 2 /* in */ + 3// both\nconst e = 4 // "
        "f\n//end",
        "// doc\nconst a = 1  // why\n// own\nconst bcd = 2 /* in */ + 3  // both\nconst e = 4     "
        "            // "
        "f\n//end\n");
  check("fn f(x: tensor) { // head\n  // first\n  return x\n  // last\n} // tail\n",
        "fn f(x: tensor) {  // head\n  // first\n  return x\n  // last\n}  // tail\n");
  check("const a = [1, // one\n 2]\n", "const a = [\n  1,  // one\n  2\n]\n");
  check("/* a\n   b */\nconst a = 1\n", "/* a\n   b */\nconst a = 1\n");
  check("const a = 1 + // one\n 2\n", "const a = 1 +  // one\n    2\n");
}

TEST(trailing_commas_ask_for_one_element_a_line) {
  check("model m(a: int = 1, b: int = 2,) {\n  input i: image[3]\n}\n",
        "model m(\n  a: int = 1,\n  b: int = 2,\n) {\n  input i: image[3]\n}\n");
}

TEST(blocks_on_one_line_stay_if_they_fit) {
  check(
      "fn f(x: tensor) {\n  if c { x += 1 }\n  else { x += 2 }\n  if c { x += 1 } else { x += 2 }\n"
      "  if c {\n    x += 1 }\n  else {\n x += 2 }\n  return x\n}\n",
      "fn f(x: tensor) {\n  if c { x += 1 }\n  else { x += 2 }\n  if c { x += 1 } else { x += 2 }\n"
      "  if c {\n    x += 1\n  } else {\n    x += 2\n  }\n  return x\n}\n");
  check("fn f(x: tensor)\n{\n  return x\n}\n", "fn f(x: tensor) {\n  return x\n}\n");
}

TEST(long_lists_are_filled) {
  check("fn linear(name: string, x: tensor, out: int, bias: bool = true, init: init = "
        "trunc_normal(0.02), bias_init: "
        "init "
        "= zeros) { return x }\n",
        "fn linear(name: string, x: tensor, out: int, bias: bool = true, init: init = "
        "trunc_normal(0.02),\n"
        "          bias_init: init = zeros) { return x }\n");
}

TEST(no_line_is_longer_than_it_must_be) {
  char *got = formatted(
      "fn f(aaaa: tensor) {\n  y = aaaa + aaaa * aaaa - aaaa + aaaa * aaaa - aaaa + aaaa * aaaa - "
      "aaaa + "
      "aaaa * aaaa - aaaa + aaaa * aaaa - aaaa + aaaa * aaaa - exp(aaaa, aaaa)\n  return y\n}\n");
  size_t longest = 0, n = 0;
  for (char *c = got; *c; c++) {
    n = *c == '\n' ? 0 : n + 1;
    if (n > longest) longest = n;
  }
  CHECK_MSG(longest <= 120, "%zu:\n%s", longest, got);
  free(got);
}

TEST(broken_text_is_refused) {
  vtb_diags diags = {0};
  vtb_source source = {.path = "test.vtb", .text = "const = 1", .n = 9};
  vtb_strbuf out = {0};
  CHECK(!vtb_format(&source, &out, &diags));
  CHECK(diags.n_errors == 1);
  CHECK(out.n == 0);
  vtb_diags_free(&diags);
  vtb_strbuf_free(&out);
}

/* Formats every file under a folder that parses. */
static int check_folder(const char *dir, int depth) {
  DIR *d = depth < 4 ? opendir(dir) : NULL;
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    char path[1024];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= sizeof path) continue;
    if (e->d_name[0] == '.') continue;
    if (vtb_path_is_dir(path)) n += check_folder(path, depth + 1);
    if (!vtb_ends_with(path, ".vtb")) continue;
    char *text = NULL;
    size_t size = 0;
    vtb_diags diags = {0};
    CHECK(vtb_file_read(path, 1 << 22, &text, &size, NULL) == VTB_OK);
    vtb_source source = {.path = path, .text = text, .n = size};
    vtb_strbuf out = {0};
    if (vtb_format(&source, &out, &diags)) {
      check_stable(path, text);
      n++;
    }
    vtb_strbuf_free(&out);
    vtb_diags_free(&diags);
    free(text);
  }
  if (d) closedir(d);
  return n;
}

TEST(every_file_keeps_its_meaning) {
  CHECK(check_folder(VTB_SOURCE_DIR "/models", 0) >= 2);
  CHECK(check_folder(VTB_SOURCE_DIR "/tests/errors", 0) >= 20); /* those with semantic errors */
  CHECK(check_folder(VTB_SOURCE_DIR "/tests/lang", 0) >= 1);
}

TEST(empty_bodies_are_two_braces) {
  check("fn f() {}\n", "fn f() {}\n");
  check("fn f() {\n\n}\n", "fn f() {}\n");
  check("model m() {\n  if true {\n  } else {\n\n\n  }\n}\n",
        "model m() {\n  if true {} else {}\n}\n");
}

static unsigned long long seed = 7;
static size_t below(size_t n) { return (size_t)((test_random(&seed) + 1) / 2 * (double)n); }

/* A piece of a file with something put in, taken out or said twice, a few times. */
static char *mutated(const char *text, size_t n) {
  static const char *const pieces[] = {"\n", "\n\n", "{}", "{\n\n}", " ",  "// c\n", "/* c */",
                                       ",",  ", ",   "(",  ")",      "[]", "x",      "- "};
  vtb_strbuf s = {0};
  vtb_strbuf_write(&s, text, n);
  for (size_t k = 1 + below(4); k-- > 0;) {
    size_t at = below(s.n), cut = below(3) ? 0 : below(12);
    if (cut > s.n - at) cut = s.n - at;
    vtb_strbuf next = {0};
    vtb_strbuf_write(&next, s.at, at);
    vtb_strbuf_puts(&next, pieces[below(sizeof pieces / sizeof *pieces)]);
    vtb_strbuf_write(&next, s.at + at + cut, s.n - at - cut);
    vtb_strbuf_free(&s);
    s = next;
  }
  return s.at;
}

/* Declarations of the file, mutated; how many of them parsed. */
static int check_mutations(const char *path, int times) {
  char *text = NULL;
  size_t n = 0;
  int parsed = 0;
  CHECK(vtb_file_read(path, 1 << 22, &text, &n, NULL) == VTB_OK);
  for (int i = 0; i < times; i++) {
    const char *begin = strstr(text + below(n), "\n\n"), *end;
    if (!begin || !(end = strstr(begin + 2, "\n\n"))) continue;
    char *other = mutated(begin, (size_t)(end - begin));
    vtb_diags diags = {0};
    vtb_source source = {.path = path, .text = other, .n = strlen(other)};
    vtb_strbuf out = {0};
    if (vtb_format(&source, &out, &diags)) {
      check_stable(path, other);
      parsed++;
    }
    vtb_strbuf_free(&out);
    vtb_diags_free(&diags);
    vtb_free(other);
  }
  free(text);
  return parsed;
}

TEST(mutated_texts_are_stable_and_keep_their_meaning) {
  static const char *const files[] = {"std/nn", "std/conv", "vil", "vim", "vir", "vllama"};
  int parsed = 0;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[512];
    snprintf(path, sizeof path, VTB_SOURCE_DIR "/models/%s.vtb", files[i]);
    parsed += check_mutations(path, 1600);
  }
  CHECK_MSG(parsed > 1000, "%d parsed", parsed);
}

int main(void) {
  RUN(empty_bodies_are_two_braces);
  RUN(mutated_texts_are_stable_and_keep_their_meaning);
  RUN(blanks_are_canonical);
  RUN(blank_lines_group_statements);
  RUN(comments_stay);
  RUN(trailing_commas_ask_for_one_element_a_line);
  RUN(blocks_on_one_line_stay_if_they_fit);
  RUN(long_lists_are_filled);
  RUN(no_line_is_longer_than_it_must_be);
  RUN(broken_text_is_refused);
  RUN(every_file_keeps_its_meaning);
  return test_done();
}
