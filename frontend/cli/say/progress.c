/* Progress on stderr. */
#include "frontend/cli/say/progress.h"
#include "frontend/document/wrap.h"

#include "runtime/base/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_BAR = 10, MOST_BAR = 32 };

static struct {
  bool shown;  /* a line that can be erased is on the screen */
  double last; /* when it was drawn */
} screen;

/* ---- lines ----------------------------------------------------------------------------------- */

void cli_line_add(cli_line *l, const char *fmt, ...) {
  if (l->n == CLI_LINE_FIELDS) return;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(l->field[l->n++], CLI_FIELD_BYTES, fmt, ap);
  va_end(ap);
}

const char *cli_duration(double seconds, char *buf, size_t size) {
  long long t = seconds < 0 ? -1 : (long long)(seconds + 0.5);
  if (t < 0)
    snprintf(buf, size, "?");
  else if (t < 60)
    snprintf(buf, size, "%lld s", t);
  else if (t < 3600)
    snprintf(buf, size, "%lld:%02lld", t / 60, t % 60);
  else
    snprintf(buf, size, "%lld:%02lld:%02lld", t / 3600, t / 60 % 60, t % 60);
  return buf;
}

static void put_fields(const cli_line *l, int columns, vtb_strbuf *out) {
  const char *fields[CLI_LINE_FIELDS];
  for (int i = 0; i < l->n; i++) fields[i] = l->field[i];
  doc_put_line(out, fields, l->n, columns, 2, l->cut);
}

/* ---- the screen ------------------------------------------------------------------------------ */

bool cli_progress_live(void) {
  const char *term = getenv("TERM");
  return vtb_color_enabled(stderr) && !(term && strcmp(term, "dumb") == 0);
}

bool cli_progress_due(void) { return cli_progress_live() && vtb_now() - screen.last >= 0.1; }

void cli_progress_clear(void) {
  if (screen.shown) fputs("\r\033[K", stderr);
  screen.shown = false;
}

/* "  [=====>    ]" in what is left of the columns. */
static void put_bar(vtb_strbuf *out, double part, int room) {
  int width = room - 4 < MOST_BAR ? room - 4 : MOST_BAR;
  if (part < 0 || width < LEAST_BAR) return;
  int full = (int)(part * width);
  vtb_strbuf_puts(out, "  [");
  for (int i = 0; i < width; i++) vtb_strbuf_putc(out, i < full ? '=' : i == full ? '>' : ' ');
  vtb_strbuf_putc(out, ']');
}

/* The window is asked each time: it may have been resized. The last column stays free, where a
 * terminal would begin a new line. */
void cli_progress_show(const cli_line *l, double part) {
  int columns = cli_columns(stderr);
  vtb_strbuf out = VTB_CHECKED_STRBUF; /* without memory there is no line */
  if (!cli_progress_live()) return;
  if (columns == 0) columns = 80;
  put_fields(l, columns - 1, &out);
  put_bar(&out, part, columns - 1 - vtb_text_columns(vtb_strbuf_text(&out), out.n));
  if (!out.failed) {
    fflush(stdout);
    fprintf(stderr, "\r%s\033[K", vtb_strbuf_text(&out));
    fflush(stderr);
    screen.shown = true;
    screen.last = vtb_now();
  }
  vtb_strbuf_free(&out);
}

void cli_progress_note(const char *fmt, ...) {
  cli_line l = {.n = 1};
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(l.field[0], CLI_FIELD_BYTES, fmt, ap);
  va_end(ap);
  cli_progress_show(&l, -1);
}

void cli_progress_print(const cli_line *l) {
  int columns = isatty(fileno(stderr)) ? cli_columns(stderr) : 0;
  vtb_strbuf out = VTB_CHECKED_STRBUF;
  put_fields(l, columns, &out);
  cli_progress_clear();
  if (!out.failed) fprintf(stderr, "%s\n", vtb_strbuf_text(&out));
  fflush(stderr);
  vtb_strbuf_free(&out);
}

void cli_progress_images(const char *what, int64_t done, int64_t total, double start) {
  double seconds = vtb_now() - start;
  char left[32], n[32], of[32];
  cli_line l = {0};
  if (done >= total) cli_progress_clear();
  if (done >= total || !cli_progress_due()) return;
  double rate = seconds > 0 ? (double)done / seconds : 0;
  cli_line_add(&l, "%s %s/%s images", what, cli_grouped(done, n, sizeof n),
               cli_grouped(total, of, sizeof of));
  cli_line_add(&l, "left %s",
               cli_duration(rate > 0 ? (double)(total - done) / rate : -1, left, sizeof left));
  cli_line_add(&l, "%.0f img/s", rate);
  cli_progress_show(&l, (double)done / (double)total);
}
