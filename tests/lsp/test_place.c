/* Places as an editor counts them and as bytes; paths and URIs. */
#include "frontend/lsp/server.h"
#include "tests/test.h"

/* One, two, three and four bytes of UTF-8; the last is two units of UTF-16. */
static const char text[] = "ab\n\xC3\xA9x\xE2\x82\xACy\xF0\x9F\x99\x82z\n\nend";

static void check(uint32_t offset, int line, int utf16, int utf8) {
  const lsp_text t = {text, sizeof text - 1};
  for (int k = 0; k < 2; k++) {
    lsp_encoding e = k ? LSP_UTF8 : LSP_UTF16;
    cJSON *p = lsp_position(t, offset, e);
    double got_line = cJSON_GetObjectItem(p, "line")->valuedouble,
           got = cJSON_GetObjectItem(p, "character")->valuedouble;
    CHECK_MSG(got_line == line && got == (k ? utf8 : utf16), "byte %u is at %g:%g", offset,
              got_line, got);
    CHECK_MSG(lsp_offset(t, p, e) == offset, "%g:%g is byte %u, not %u", got_line, got,
              lsp_offset(t, p, e), offset);
    cJSON_Delete(p);
  }
}

TEST(units_of_lines_are_utf16_or_bytes) {
  check(0, 0, 0, 0);
  check(2, 0, 2, 2);
  check(3, 1, 0, 0);
  check(5, 1, 1, 2);   /* behind é */
  check(6, 1, 2, 3);   /* behind x */
  check(9, 1, 3, 6);   /* behind € */
  check(14, 1, 6, 11); /* behind the face */
  check(15, 1, 7, 12);
  check(16, 2, 0, 0);
  check(17, 3, 0, 0);
  check(20, 3, 3, 3);
}

TEST(places_beyond_a_line_or_the_text_are_its_end) {
  const lsp_text t = {text, sizeof text - 1};
  const struct {
    int line, column;
    uint32_t at;
  } rows[] = {{0, 99, 2}, {2, 5, 16}, {3, 99, 20}, {99, 0, 20}, {-1, -1, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cJSON *p = cJSON_CreateObject();
    cJSON_AddNumberToObject(p, "line", rows[i].line);
    cJSON_AddNumberToObject(p, "character", rows[i].column);
    CHECK_MSG(lsp_offset(t, p, LSP_UTF16) == rows[i].at, "%d:%d", rows[i].line, rows[i].column);
    cJSON_Delete(p);
  }
}

static void back_and_forth(const char *path, const char *uri) {
  char *made = lsp_uri_of(path), *back = lsp_path_of(uri);
  CHECK_STR(made, uri);
  CHECK_STR(back, path);
  vtb_free(made);
  vtb_free(back);
}

TEST(paths_become_uris_and_come_back) {
  back_and_forth("/no/such/file_1-2.vtb", "file:///no/such/file_1-2.vtb");
  back_and_forth("/no/such/a b%c.vtb", "file:///no/such/a%20b%25c.vtb");
  back_and_forth("/no/such/\xC3\xA9+#?.vtb", "file:///no/such/%C3%A9%2B%23%3F.vtb");
  static const char *const rows[][2] = {{"file://host/a/b", "/a/b"},
                                        {"file:///a%2fb%2", "/a/b%2"},
                                        {"file:///%e2%82%ac", "/\xE2\x82\xAC"},
                                        {"untitled:1", "untitled:1"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *path = lsp_path_of(rows[i][0]);
    CHECK_STR(path, rows[i][1]);
    vtb_free(path);
  }
}

int main(void) {
  RUN(units_of_lines_are_utf16_or_bytes);
  RUN(places_beyond_a_line_or_the_text_are_its_end);
  RUN(paths_become_uris_and_come_back);
  return test_done();
}
