/* The decoder of UTF-8 against the definition, and columns of a terminal. */
#include "runtime/base/utf8.h"
#include "tests/test.h"

TEST(what_is_encoded_is_decoded) {
  for (uint32_t c = 0; c <= 0x10ffff; c++) {
    char text[4];
    uint32_t back = 1;
    if (c >= 0xd800 && c < 0xe000) continue;
    size_t n = vtb_utf8_encode(c, text);
    if (vtb_utf8_decode(text, n, &back) != n || back != c) CHECK_MSG(false, "a character is lost");
    if (n > 1 && vtb_utf8_decode(text, n - 1, NULL)) CHECK_MSG(false, "a part is taken");
  }
  CHECK(vtb_utf8_decode("", 0, NULL) == 0);
}

/* Of all sequences of two bytes, and of three with each second byte, what the standard's table of
 * well-formed sequences lists. */
TEST(malformed_text_is_not_taken) {
  int two = 0, three = 0;
  for (int a = 0x80; a < 0x100; a++)
    for (int b = 0; b < 0x100; b++) {
      char text[3] = {(char)a, (char)b, (char)0x80};
      two += vtb_utf8_decode(text, 2, NULL) == 2;
      three += vtb_utf8_decode(text, 3, NULL) == 3;
    }
  CHECK(two == 30 * 64);
  CHECK(three == 32 + 12 * 64 + 32 + 2 * 64);
  static const char *const bad[] = {"\x80",
                                    "\xc0\x80",
                                    "\xe0\x9f\xbf",
                                    "\xed\xa0\x80",
                                    "\xf0\x8f\xbf\xbf",
                                    "\xf4\x90\x80\x80",
                                    "\xf5\x80\x80\x80",
                                    "\xff"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK(vtb_utf8_decode(bad[i], strlen(bad[i]), NULL) == 0);
  CHECK(vtb_utf8_check("a\xc3\xa9z", 4) == 4);
  CHECK(vtb_utf8_check("a\xc3\xa9\xc3", 4) == 3);
}

TEST(columns_are_those_of_a_terminal) {
  static const struct {
    const char *text;
    int columns;
  } cases[] = {{"cat", 3},
               {"\xe7\x8c\xab", 2} /* a CJK ideograph */,
               {"e\xcc\x81", 1} /* combining */,
               {"\xf0\x9f\x90\x88", 2} /* an emoji */,
               {"\xef\xbd\xb1", 1} /* half-width katakana */,
               {"\xed\x95\x9c", 2} /* Hangul */,
               {"\xce\xb1", 1},
               {"a\xff", 2},
               {"\xe2\x80\x8b", 0} /* zero width space */};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK(vtb_text_columns(cases[i].text, strlen(cases[i].text)) == cases[i].columns);
  }
  const char *three = "\xe7\x8c\xab\xe7\x8a\xac\xe9\xb3\xa5"; /* of two columns each */
  CHECK(vtb_text_fit(three, 9, 6) == 9);
  CHECK(vtb_text_fit(three, 9, 5) == 6);
  CHECK(vtb_text_fit(three, 9, 1) == 0);
  CHECK(vtb_text_fit("e\xcc\x81z", 4, 1) == 3); /* a mark stays with its letter */
}

TEST(what_acts_on_a_terminal_is_shown_instead) {
  vtb_strbuf s = {0};
  const char *text = "a\033[31m\n\xff\xc2\x9b\xe2\x80\xae\xe7\x8c\xab";
  vtb_text_visible(&s, text, strlen(text));
  CHECK_STR(s.at, "a\\x1b[31m\\x0a\\xff\\xc2\\x9b\\xe2\\x80\\xae\xe7\x8c\xab");
  vtb_strbuf_free(&s);
}

int main(void) {
  RUN(what_is_encoded_is_decoded);
  RUN(malformed_text_is_not_taken);
  RUN(columns_are_those_of_a_terminal);
  RUN(what_acts_on_a_terminal_is_shown_instead);
  return test_done();
}
