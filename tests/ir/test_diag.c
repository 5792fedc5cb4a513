/* Diagnostics: spans, limits, text with carets. */
#include "ir/diag.h"
#include "tests/test.h"

static const char text[] = "model vil {\n\tx = linear(\"a\", y)\n}\n";
static const vtb_source source = {.path = "models/x.vtb", .text = text, .n = sizeof text - 1};

static vtb_span span_of(const char *needle) {
  uint32_t at = (uint32_t)(strstr(text, needle) - text);
  return (vtb_span){.source = &source, .begin = at, .end = at + (uint32_t)strlen(needle)};
}

TEST(line_and_column_count_from_one) {
  vtb_line_col a = vtb_source_locate(&source, 0),
               b = vtb_source_locate(&source, span_of("linear").begin);
  CHECK(a.line == 1 && a.col == 1);
  CHECK(b.line == 2 && b.col == 6);
  CHECK(vtb_source_locate(&source, 100000).line == 4);
  char buf[64];
  CHECK_STR(vtb_span_text(span_of("linear"), buf, sizeof buf), "models/x.vtb:2");
  CHECK_STR(vtb_span_text(VTB_NO_SPAN, buf, sizeof buf), "");
}

TEST(text_shows_line_caret_note_help) {
  vtb_diags d = {0};
  vtb_diag_error(&d, 2001, span_of("linear"), "no block named %s", "linear");
  vtb_diag_note(&d, span_of("model"), "while building this");
  vtb_diag_help(&d, "write it");
  vtb_strbuf out = {0};
  vtb_diags_render(&d, &out, false);
  CHECK_STR(out.at, "models/x.vtb:2:6: error[VTB2001]: no block named linear\n"
                    "    2 |  x = linear(\"a\", y)\n"
                    "      |      ^~~~~~\n"
                    "models/x.vtb:1:1: note: while building this\n"
                    "    1 | model vil {\n"
                    "      | ^~~~~\n"
                    "help: write it\n");
  vtb_strbuf_free(&out);
  vtb_diags_render(&d, &out, true);
  CHECK(strstr(out.at, "\033[1;31merror") != NULL);
  vtb_strbuf_free(&out);
  vtb_diags_free(&d);
}

TEST(errors_beyond_the_limit_are_counted_only) {
  vtb_diags d = {.limit = 2};
  for (int i = 0; i < 5; i++) {
    vtb_diag_error(&d, 2001, VTB_NO_SPAN, "e%d", i);
    vtb_diag_note(&d, VTB_NO_SPAN, "n%d", i);
  }
  CHECK(d.n_errors == 5 && d.list.n == 4);
  vtb_strbuf out = {0};
  vtb_diags_render(&d, &out, false);
  CHECK(strstr(out.at, "3 more errors not shown") != NULL);
  vtb_strbuf_free(&out);
  vtb_diags_free(&d);
}

TEST(odd_places_do_not_upset) {
  static const char odd[] = "\x80\xff\x01 \xc3\xa9x\n";
  vtb_source s = {.path = "odd", .text = odd, .n = sizeof odd - 1};
  vtb_diags d = {0};
  vtb_diag_error(&d, 2001, (vtb_span){.source = &s, .begin = 6, .end = 7},
                 "after a wide character");
  vtb_diag_error(&d, 2001, (vtb_span){.source = &s, .begin = 900, .end = 20}, "beyond the end");
  char wide[4000];
  memset(wide, 'a', sizeof wide);
  vtb_source w = {.path = "wide", .text = wide, .n = sizeof wide};
  vtb_diag_error(&d, 2001, (vtb_span){.source = &w, .begin = 2000, .end = 3999}, "far right");
  vtb_strbuf out = {0};
  vtb_diags_render(&d, &out, false);
  CHECK(strstr(out.at, "    1 | ??? \xc3\xa9x\n      |      ^\n") != NULL);
  CHECK(out.n < 1500);
  vtb_strbuf_free(&out);
  vtb_diags_free(&d);
}

TEST(codes_are_unique) {
  size_t n;
  const vtb_diag_code *codes = vtb_diag_codes(&n);
  for (size_t i = 0; i < n; i++) CHECK(vtb_diag_code_find(codes[i].number) == &codes[i]);
  CHECK(vtb_diag_code_find(-5) == NULL);
}

int main(void) {
  RUN(line_and_column_count_from_one);
  RUN(text_shows_line_caret_note_help);
  RUN(errors_beyond_the_limit_are_counted_only);
  RUN(odd_places_do_not_upset);
  RUN(codes_are_unique);
  return test_done();
}
