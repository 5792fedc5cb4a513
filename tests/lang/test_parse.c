/* The grammar: trees of texts, where statements end, places, docs, names through uses, and texts
 * that try to break it. */
#include "frontend/lang/ast.h"
#include "ir/diag_codes.h"
#include "tests/test.h"

static vtb_unit *load(const char *text, vtb_diags *diags) {
  vtb_unit *u = vtb_unit_load_text("test.vtb", text, strlen(text), NULL, diags);
  vtb_check(u, "nothing was read of:\n%s", text);
  return u;
}

static void check_tree(const char *text, const char *want) {
  vtb_diags diags = {0};
  vtb_unit *u = load(text, &diags);
  CHECK_MSG(diags.n_errors == 0, "%s: %s", text, diags.list.n ? diags.list.at[0].text : "");
  vtb_strbuf out = {0};
  vtb_unit_print_ast(u, &out);
  CHECK_STR(out.at, want);
  vtb_strbuf_free(&out);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
}

static int first_code(const char *text) {
  vtb_diags diags = {0};
  vtb_unit_free(load(text, &diags));
  int code = diags.list.n ? diags.list.at[0].code : 0;
  vtb_diags_free(&diags);
  return code;
}

TEST(operators_bind_as_usual) {
  check_tree("const a = 1 + 2 * -3 % 4", "(const a (+ 1 (% (* 2 (- 3)) 4)))\n");
  check_tree("const a = 1 - 2 - 3", "(const a (- (- 1 2) 3))\n");
  check_tree("const a = not b == c and d or e", "(const a (or (and (not (== b c)) d) e))\n");
  check_tree("const a = b ? c : d ? e : f", "(const a (? b c (? d e f)))\n");
  check_tree("const a = (1 + 2) * 3", "(const a (* (+ 1 2) 3))\n");
  check_tree("const a = -b.c[0]~", "(const a (- (~ (index (.c b) 0))))\n");
  check_tree("const a = b[:, 1:, -2:c ? d : e, ::2, .., f]",
             "(const a (index b (range _ _) (range 1 _) (range (- 2) (? c d e)) (range _ _ 2) .. "
             "f))\n");
}

TEST(literals) {
  check_tree(
      "const a = [1, 0.5, 1e-6, 224x196, true, \"x\\n\\{\",]",
      "(const a (list 1 (float 0.5) (float 9.9999999999999995e-07) 224x196 true \"x\\n\\{\"))\n");
  check_tree("const a = \"blocks.{i + 1}{\"q{n}\"}.\"",
             "(const a (interp \"blocks.\" (+ i 1) (interp \"q\" n) \".\"))\n");
}

TEST(statements_end_with_lines) {
  const char *want = "(fn f\n  (x tensor)\n  (= y (+ (call exp x 1) 2))\n  (return y))\n";
  check_tree("fn f(x: tensor) { y = exp(x, 1) + 2\n return y }", want);
  check_tree("fn f(\n  x: tensor,\n)\n{\n\n  y =\n    exp(x,\n 1) +\n 2\n\n\n  return y\n}\n",
             want);
  check_tree("fn f(x: tensor) {\n  y = exp(x, 1)\n    + 2 // a comment\n  // another\n  return y }",
             want);
}

TEST(declarations) {
  check_tree(
      "use std.nn\nconst a = rows~\npreset t alias u alias \"v-1\" = m(dim = 1)\n",
      "(use std.nn)\n(const a (~ rows))\n(preset t alias \"u\" alias \"v-1\" (call m dim=1))\n");
  check_tree(
      "model m(d: int = 3 alias dim, p: [path] = [rows], c: one of x | y alias \"2d\" = x) {\n  "
      "input i: image[3]\n"
      "  let n = d / 3\n  repeat n as k scope \"b.{k}\" { i += param w: [n, 3] ~ normal(0.1) "
      "no_decay }\n"
      "  tap \"t\" = i\n  output y = i\n  assert n > 0, \"positive\"\n}\n",
      "(model m\n  (d int = 3 alias \"dim\")\n  (p (list path) = (list rows))\n  (c (one-of x "
      "y=2d) = x)\n"
      "  (input i image[ 3 ])\n  (let n (/ d 3))\n  (repeat n as k scope (interp \"b.\" k)\n"
      "    (+= i (param \"w\" (shape n 3) (call normal (float 0.10000000000000001)) no_decay)))\n"
      "  (tap \"t\" i)\n  (output \"y\" i)\n  (assert (> n 0) \"positive\"))\n");
  check_tree(
      "recurrence r(a: [K, V], g: []) -> [V], [K] {\n  state h: [K], s: []\n  yield a, h\n}\n",
      "(recurrence r\n  (a (shape K V))\n  (g (shape))\n-> (shape V) (shape K)\n  (state h (shape "
      "K) s (shape))\n"
      "  (yield a h))\n");
}

TEST(words_are_names_where_they_mean_nothing_else) {
  check_tree("fn f(state: int, suffix: string, buffer: int) {\n  state = suffix + 1\n  input, tap "
             "= g(output = state)\n"
             "  return state\n}\n",
             "(fn f\n  (state int)\n  (suffix string)\n  (buffer int)\n  (= state (+ suffix 1))\n"
             "  (= input tap (call g output=state))\n  (return state))\n");
}

TEST(blocks_have_values) {
  check_tree(
      "fn f(x: tensor) {\n  a, b = along each [rows, cols] suffix [\"\", \"_b\"] as d { x }\n"
      "  y = along(rows) {\n    z = x\n    z\n  } * 2\n  u = if c { a } else if d { b } else { y "
      "}\n"
      "  return { x }\n}\n",
      "(fn f\n  (x tensor)\n  (= a b (along-each (list rows cols) suffix (list \"\" \"_b\") as d\n "
      "   x))\n"
      "  (= y (* (along rows\n    (= z x)\n    z) 2))\n  (= u (if c\n    a\n  else\n    (if d\n    "
      "  b\n    "
      "else\n      y)))\n"
      "  (return (block\n    x)))\n");
}

TEST(places_are_bytes_of_the_text) {
  vtb_diags diags = {0};
  vtb_unit *u = load("const a = \"\xc3\xa9{bc + 1}\"\n", &diags);
  const vtb_decl *d = vtb__unit_lookup(u, "a");
  CHECK(d && d->value->kind == VTB_EXPR_INTERP && d->value->u.list.n == 2);
  if (d) {
    const vtb_expr *sum = d->value->u.list.at[1];
    CHECK(sum->kind == VTB_EXPR_BINARY && sum->span.begin == 14 && sum->span.end == 20);
    CHECK(sum->u.binary.left->span.begin == 14 && sum->u.binary.left->span.end == 16);
    CHECK(d->span.begin == 0 && d->span.end == 22);
  }
  vtb_unit_free(u);
  vtb_diags_free(&diags);
}

TEST(docs_are_the_comments_directly_above) {
  vtb_diags diags = {0};
  vtb_unit *u = load("// file\n\n// one\n// two\nconst a = 1 // not b's\nconst b = 2\n/* three\n * "
                     "four */\nconst c = 3\n",
                     &diags);
  const vtb_decl_info *infos;
  size_t n = vtb_unit_decls(u, &infos);
  CHECK(n == 3);
  if (n == 3) {
    CHECK_STR(infos[0].doc, "one\ntwo");
    CHECK_STR(infos[1].doc, "");
    CHECK_STR(infos[2].doc, "three\nfour");
    CHECK_STR(infos[2].name, "c");
  }
  vtb_unit_free(u);
  vtb_diags_free(&diags);
}

TEST(names_are_seen_through_one_use) {
  vtb_diags diags = {0};
  const char *text = "use parts.outer\nconst own = 1\n";
  vtb_unit *u =
      vtb_unit_load_text(VTB_SOURCE_DIR "/tests/lang/user.vtb", text, strlen(text), NULL, &diags);
  CHECK(u && diags.n_errors == 0);
  CHECK(vtb__unit_lookup(u, "own") != NULL);
  CHECK(vtb__unit_lookup(u, "in_outer") != NULL);
  CHECK(vtb__unit_lookup(u, "in_inner") == NULL); /* outer uses it, this text does not */
  CHECK(vtb__unit_lookup_anywhere(u, "in_inner") != NULL);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
}

TEST(files_are_found_by_what_they_declare) {
  vtb_diags diags = {0};
  const char *dirs[] = {VTB_SOURCE_DIR "/models"};
  vtb_search search = {.dirs = dirs, .n_dirs = 1};
  vtb_unit *u = vtb_unit_find("layer_norm", &search, &diags);
  CHECK(u && diags.n_errors == 0 && vtb__unit_lookup(u, "layer_norm"));
  vtb_unit_free(u);
  CHECK(vtb_unit_find("no_such_model", &search, &diags) == NULL);
  CHECK(diags.n_errors == 1 && diags.list.at[0].code == VTB_DIAG_UNKNOWN_ENTRY);
  CHECK(vtb_unit_load("/no/such/file.vtb", &search, &diags) == NULL);
  CHECK(diags.n_errors == 2 && diags.list.at[diags.list.n - 1].code == VTB_DIAG_FILE_UNREADABLE);
  CHECK(vtb_unit_load(VTB_SOURCE_DIR, &search, &diags) == NULL);
  vtb_diags_free(&diags);
}

TEST(expressions_outside_files) {
  vtb_diags diags = {0};
  vtb_unit *u = load("const a = 1\n", &diags);
  const struct {
    const char *text, *want;
  } good[] = {{"192", "192"},
              {"[rows, rows~]", "[rows, rows~]"},
              {"chunkwise( 16 )", "chunkwise(16)"},
              {"224x224\n", "224x224"},
              {"\"a{b}\"", "\"a{b}\""},
              {"0.5", "0.5"},
              {"-(1+x.y)", "-(1 + x.y)"}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    vtb_expr *e = vtb__parse_expr_text(u, "<command line>", good[i].text, &diags);
    vtb_strbuf out = {0};
    CHECK_MSG(e != NULL, "%s", good[i].text);
    if (e) vtb__expr_print(e, &out);
    CHECK_STR(out.at, good[i].want);
    vtb_strbuf_free(&out);
  }
  CHECK(diags.n_errors == 0);
  CHECK(vtb__parse_expr_text(u, "<command line>", "", &diags) == NULL);
  CHECK(vtb__parse_expr_text(u, "<command line>", "1 2", &diags) == NULL);
  CHECK(diags.n_errors == 2);
  CHECK(!u->has_syntax_errors);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
}

/* A text of `n` times `piece` between two others. */
static int code_of_repeated(const char *before, const char *piece, int n, const char *after) {
  vtb_strbuf text = {0};
  vtb_strbuf_puts(&text, before);
  for (int i = 0; i < n; i++) vtb_strbuf_puts(&text, piece);
  vtb_strbuf_puts(&text, after);
  int code = first_code(text.at);
  vtb_strbuf_free(&text);
  return code;
}

TEST(nesting_has_a_limit) {
  const int deep = VTB_DIAG_NESTING_TOO_DEEP;
  CHECK(code_of_repeated("const a = ", "(", 150, "1") == VTB_DIAG_SYNTAX);
  CHECK(code_of_repeated("const a = ", "(", 100000, "") == deep);
  CHECK(code_of_repeated("const a = ", "[", 100000, "") == deep);
  CHECK(code_of_repeated("const a = ", "- ", 100000, "1") == deep);
  CHECK(code_of_repeated("const a = ", "not ", 100000, "true") == deep);
  CHECK(code_of_repeated("const a = 1", " + 1", 100000, "") == deep);
  CHECK(code_of_repeated("const a = b", ".c", 100000, "") == deep);
  CHECK(code_of_repeated("use a", ".a", 100000, "") == deep);
  CHECK(code_of_repeated("use a", ".a", 150, "") != deep);
  CHECK(code_of_repeated("const a = b", "~", 100000, "") == deep);
  CHECK(code_of_repeated("const a = ", "b ? c : ", 100000, "d") == deep);
  CHECK(code_of_repeated("fn f(x: tensor) {", "if a { } else ", 100000, "{ } }") == deep);
  CHECK(code_of_repeated("fn f(x: tensor) {", "{", 100000, "") != 0);
  CHECK(code_of_repeated("const a = ", "\"{", 100000, "") != 0);
  CHECK(code_of_repeated("const a = ", "f(", 100000, "") == deep);
  CHECK(code_of_repeated("", "}", 100000, "") == VTB_DIAG_UNBALANCED);
  CHECK(code_of_repeated("const a = [", "1, ", 20000, "1]") == 0); /* long is not deep */
  CHECK(code_of_repeated("const a = \"", "{1}", 20000, "\"") == 0);
}

TEST(odd_texts) {
  CHECK(first_code("") == 0);
  CHECK(first_code("\n\n  // only a comment") == 0);
  CHECK(first_code("\xef\xbb\xbf"
                   "const a = 1\r\nconst b = 2\r\n") == 0); /* byte order mark, CR LF */
  CHECK(first_code("const a = \"\\") == VTB_DIAG_UNTERMINATED_STRING);
  CHECK(first_code("\"") == VTB_DIAG_UNTERMINATED_STRING);
  CHECK(first_code("/*") == VTB_DIAG_UNTERMINATED_COMMENT);
  CHECK(first_code("const a = \"{") == VTB_DIAG_UNTERMINATED_STRING);
  CHECK(first_code("const") == VTB_DIAG_SYNTAX);
  CHECK(first_code("use") == VTB_DIAG_SYNTAX);
  CHECK(first_code("one of") == VTB_DIAG_UNKNOWN_DECLARATION);
  CHECK(first_code("const a = \xf0\x9f\xa6\xb4") == VTB_DIAG_BAD_CHARACTER);
  CHECK(first_code("const a = 1 \xf0\x9f") == VTB_DIAG_BAD_UTF8);
}

TEST(truncated_texts) {
  char *text = NULL;
  size_t n = 0;
  CHECK(vtb_file_read(VTB_SOURCE_DIR "/models/std/nn.vtb", 1 << 20, &text, &n, NULL) == VTB_OK);
  for (size_t k = 0; k < n && k < 3000;
       k++) { /* every prefix ends with messages or without, but it ends */
    vtb_diags diags = {0};
    vtb_unit_free(vtb_unit_load_text("test.vtb", text, k, NULL, &diags));
    vtb_diags_free(&diags);
  }
  free(text);
}

int main(void) {
  RUN(operators_bind_as_usual);
  RUN(literals);
  RUN(statements_end_with_lines);
  RUN(declarations);
  RUN(words_are_names_where_they_mean_nothing_else);
  RUN(blocks_have_values);
  RUN(places_are_bytes_of_the_text);
  RUN(docs_are_the_comments_directly_above);
  RUN(names_are_seen_through_one_use);
  RUN(files_are_found_by_what_they_declare);
  RUN(expressions_outside_files);
  RUN(nesting_has_a_limit);
  RUN(odd_texts);
  RUN(truncated_texts);
  return test_done();
}
