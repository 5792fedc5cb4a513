/* Messages within the columns of a terminal. Lines of source stay as they are: their carets point
 * up. What goes to a file or another program is not broken, unless COLUMNS is set. */
#include "frontend/cli/cli.h"
#include "frontend/document/wrap.h"
#include "runtime/base/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { INDENT = 8, NARROWEST = 40 };

int cli_columns(FILE *f) {
  const char *set = getenv("COLUMNS");
  struct winsize size;
  int n = set ? atoi(set) : 0;
  if (n == 0 && isatty(fileno(f)) && ioctl(fileno(f), TIOCGWINSZ, &size) == 0) n = size.ws_col;
  return n > 0 && n < NARROWEST ? NARROWEST : n;
}

/* "   12 | x = 1" or "      |     ^". */
static bool is_excerpt(const char *line) {
  const char *c = line + strspn(line, " ");
  c += strspn(c, "0123456789");
  return c > line && strncmp(c, " | ", 3) == 0;
}

void cli_print_wrapped(FILE *f, const char *text) {
  int columns = cli_columns(f);
  vtb_strbuf out = {0};
  while (*text) {
    size_t n = strcspn(text, "\n");
    if (columns == 0 || is_excerpt(text))
      vtb_strbuf_write(&out, text, n);
    else
      doc_wrap(&out, text, n, columns, 0, INDENT, false);
    if (text[n]) vtb_strbuf_putc(&out, '\n');
    text += n + (text[n] != '\0');
  }
  if (out.n) fwrite(out.at, 1, out.n, f);
  vtb_strbuf_free(&out);
}

void cli_put_paragraph(FILE *f, const char *text, int columns, int at, int indent) {
  vtb_strbuf out = {0};
  cli_progress_clear();
  doc_wrap(&out, text, strlen(text), columns, at, indent, true);
  fprintf(f, "%s\n", vtb_strbuf_text(&out));
  vtb_strbuf_free(&out);
}

void cli_print_paragraph(const char *text, int at, int indent) {
  cli_put_paragraph(stdout, text, cli_columns(stdout), at, indent);
}

static char *format_visible(const char *fmt, va_list ap) {
  vtb_strbuf text = {0}, visible = {0};
  vtb_strbuf_vprintf(&text, fmt, ap);
  if (text.n && text.at[text.n - 1] == '\n') text.at[--text.n] = 0;
  vtb_lines_visible(&visible, vtb_strbuf_text(&text));
  vtb_strbuf_putc(&visible, '\n');
  vtb_strbuf_free(&text);
  return visible.at;
}

void cli_say(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *text = format_visible(fmt, ap);
  va_end(ap);
  cli_progress_clear();
  cli_print_wrapped(stderr, text);
  vtb_free(text);
}

void cli_printf(int indent, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *text = format_visible(fmt, ap);
  va_end(ap);
  text[strlen(text) - 1] = 0;
  cli_print_paragraph(text, 0, indent);
  vtb_free(text);
}

/* 6391528 -> 6,391,528 */
const char *cli_grouped(int64_t n, char *buf, size_t size) {
  char digits[32];
  int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
  size_t k = 0;
  for (int i = 0; i < len && k + 2 < size; i++) {
    if (i && (len - i) % 3 == 0) buf[k++] = ',';
    buf[k++] = digits[i];
  }
  buf[k] = 0;
  return buf;
}

const char *cli_write_grouped(double n, char *buf, size_t size) {
  return cli_grouped((int64_t)n, buf, size);
}
