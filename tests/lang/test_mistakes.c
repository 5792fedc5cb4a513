/* What is said to mistakes of newcomers: the rows of tests/lang/mistakes.txt, whose head has the
 * format. */
#include "frontend/lang/lang.h"
#include "tests/test.h"

enum { MOST_UNANSWERED = 7, LEAST_ROWS = 65 };

static const char before[] =
    "use std.nn\nuse std.conv\nmodel m(dim: int = 16, classes: int = 10) {\n"
    "  input image: image[3, 32, 32]\n  x = patch_embed(\"embed\", image, dim, 4x4, 4x4)\n"
    "  w = param wt: [8, dim] ~ zeros\n  s = mean(x, axis = \"tokens\")\n  ";
static const char after[] =
    "\n  output logits = linear(\"head\", mean(x, axis = \"tokens\"), classes)\n}\n";

static const vtb_search *search(void) {
  static const char *const dirs[] = {VTB_SOURCE_DIR "/models"};
  static const vtb_search s = {.dirs = dirs, .n_dirs = 1};
  return &s;
}

/* The row's text as a file. */
static void write_out(const char *row, vtb_strbuf *out) {
  bool whole = vtb_starts_with(row, "@@");
  if (!whole) vtb_strbuf_puts(out, before);
  for (const char *c = row + (whole ? 3 : 2); *c; c++) {
    if (c[0] == '\\' && c[1] == 'n')
      vtb_strbuf_putc(out, '\n'), c++;
    else
      vtb_strbuf_putc(out, *c);
  }
  vtb_strbuf_puts(out, whole ? "\n" : after);
}

/* All that is said of it, a line each. */
static void say(const char *row, vtb_strbuf *said) {
  vtb_diags diags = {0};
  vtb_strbuf text = {0};
  write_out(row, &text);
  vtb_unit *u = vtb_unit_load_text("mistake.vtb", text.at, text.n, search(), &diags);
  vtb_module *m = u && !diags.n_errors ? vtb_instantiate(u, NULL, NULL, &diags) : NULL;
  for (size_t i = 0; i < diags.list.n; i++) vtb_strbuf_printf(said, "%s\n", diags.list.at[i].text);
  vtb_module_free(m);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  vtb_strbuf_free(&text);
}

TEST(mistakes_are_answered_with_what_to_write) {
  char *text;
  size_t n;
  vtb_error err = {0};
  int rows = 0, unanswered = 0;
  vtb_strbuf said = {0};
  const char *row = "";
  if (vtb_file_read(VTB_SOURCE_DIR "/tests/lang/mistakes.txt", 1 << 20, &text, &n, &err)) {
    CHECK_MSG(false, "%s", err.text);
    return;
  }
  for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
    if (*line == '@') {
      vtb_strbuf_free(&said);
      say(row = line, &said);
      rows++;
    } else if (*line == '>') {
      CHECK_MSG(said.at && strstr(said.at, line + 2), "%s: no \"%s\" in\n%s", row, line + 2,
                said.at ? said.at : "nothing");
    } else if (*line == '!') {
      unanswered++;
    }
  }
  CHECK(rows >= LEAST_ROWS && unanswered <= MOST_UNANSWERED);
  vtb_strbuf_free(&said);
  free(text);
}

int main(void) {
  RUN(mistakes_are_answered_with_what_to_write);
  return test_done();
}
