/* docs/std.md is what rows, signatures and comments say (VTB_UPDATE=1 writes it anew), and none of
 * them is silent. */
#include "frontend/lang/reference.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

static const vtb_search *search(void) {
  static const char *const dirs[] = {VTB_SOURCE_DIR "/models"};
  static const vtb_search s = {.dirs = dirs, .n_dirs = 1};
  return &s;
}

/* A comment's lines as one; one in front of another line of a table. */
static void put_text(vtb_strbuf *out, const char *text) {
  for (; *text; text++) {
    if (*text == '|') vtb_strbuf_putc(out, '\\');
    vtb_strbuf_putc(out, *text == '\n' ? ' ' : *text);
  }
}

static void put_entry(vtb_strbuf *out, const vtb_reference_entry *e, const char *before) {
  if (e->module && !vtb_streq(e->module, before)) {
    vtb_strbuf_printf(out, "\n## %s\n\n", e->module);
    if (e->about) vtb_strbuf_printf(out, "%s\n\n", e->about);
    vtb_strbuf_puts(out, "| declaration | |\n|---|---|\n");
  }
  vtb_strbuf_puts(out, "| `");
  put_text(out, e->signature);
  vtb_strbuf_puts(out, "` | ");
  put_text(out, e->doc);
  vtb_strbuf_puts(out, " |\n");
}

TEST(the_page_is_what_rows_and_comments_say) {
  static const char head[] =
      "# What can be called\n\n"
      "The builtin functions, from `frontend/lang/builtins.def` and `ir/scalar_ops.def`, then the "
      "declarations of\n`models/std` with the comments above them; `vertebra help NAME` prints "
      "one. "
      "[The language](language.md) explains how\nthey are used. This file is made by "
      "`VTB_UPDATE=1 ctest -R lang/reference`.\n\n## Builtin functions\n\n"
      "Kinds of arguments: a tensor, tokens (a tensor that knows where they stand), int, number, "
      "bool, string, size (or an\nint), and value, of which the text tells.\n\n"
      "| function | |\n|---|---|\n";
  const char *path = VTB_SOURCE_DIR "/docs/std.md";
  vtb_reference r;
  vtb_strbuf page = {0};
  vtb_error err = {0};
  char *text = NULL;
  size_t n = 0;
  vtb_reference_read(search(), &r);
  vtb_strbuf_puts(&page, head);
  for (size_t i = 0; i < r.n; i++) {
    CHECK_MSG(*r.at[i].doc, "%s says nothing of itself: a comment above it", r.at[i].name);
    put_entry(&page, &r.at[i], i ? r.at[i - 1].module : NULL);
  }
  if (getenv("VTB_UPDATE")) {
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(page.at, f) >= 0 && fclose(f) == 0);
  }
  CHECK(vtb_file_read(path, 1 << 22, &text, &n, &err) == VTB_OK);
  CHECK_MSG(text && strcmp(text, page.at) == 0, "docs/std.md differs; run with VTB_UPDATE=1");
  CHECK(r.n > 200);
  vtb_free(text);
  vtb_strbuf_free(&page);
  vtb_reference_free(&r);
}

int main(void) {
  RUN(the_page_is_what_rows_and_comments_say);
  return test_done();
}
