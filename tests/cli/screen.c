/* screen [-f] [-r COLUMNS] COLUMNSxROWS COMMAND...: runs a command on a pseudo-terminal of that
 * size and prints what a user would see: every line that stays, as the terminal shows it, without
 * colours.
 *
 *   -f          also lines that are overwritten, behind "~ ", when they are
 *   -r COLUMNS  the window gets that many columns when the first line is overwritten; from the
 *               third on lines must keep to them
 *
 * Exit status: that of the command; 98 if a line came to the right edge and went on below; 97 if
 * something arrived that is no text and moves no cursor as the command line should.
 */
#include "runtime/base/utf8.h"

#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIDEST = 512, WRAPPED = 98, STRANGE = 97 };

typedef struct terminal {
  int columns, at, end; /* of the line: where the cursor is, and where text ends */
  uint32_t cell[WIDEST];
  int overwritten; /* lines */
  bool frames, wrapped, strange;
} terminal;

static void print_line(const terminal *t, const char *before) {
  int end = t->end;
  while (end && (t->cell[end - 1] == ' ' || t->cell[end - 1] == 0)) end--;
  fputs(before, stdout);
  for (int i = 0; i < end; i++) {
    char text[4];
    if (t->cell[i]) fwrite(text, 1, vtb_utf8_encode(t->cell[i], text), stdout);
  }
  putchar('\n');
}

static void next_line(terminal *t) {
  print_line(t, "");
  t->at = t->end = 0;
}

static void overwrite(terminal *t) {
  bool blank = true;
  for (int i = 0; i < t->end; i++) blank &= t->cell[i] == ' ';
  if (!blank && t->frames) print_line(t, "~ ");
  t->overwritten += !blank;
}

static void put(terminal *t, uint32_t c) {
  int width = vtb_char_columns(c);
  if (width == 0) return;
  if (t->at + width > t->columns) {
    t->wrapped = true;
    next_line(t);
  }
  while (t->end < t->at) t->cell[t->end++] = ' ';
  t->cell[t->at] = c;
  if (width == 2) t->cell[t->at + 1] = 0;
  t->at += width;
  if (t->at > t->end) t->end = t->at;
}

/* Bytes of the sequence behind ESC: colours and "erase to the end of the line". */
static size_t escape(terminal *t, const char *s, size_t n) {
  size_t i = 1;
  if (n < 2 || s[0] != '[') return 0;
  while (i < n && strchr("0123456789;", s[i])) i++;
  if (i == n) return 0;
  if (s[i] == 'K') {
    if (t->at == 0) overwrite(t);
    t->end = t->at;
  } else if (s[i] != 'm') {
    t->strange = true;
  }
  return i + 1;
}

/* Returns the bytes taken: the rest is the beginning of something. */
static size_t feed(terminal *t, const char *s, size_t n) {
  size_t i = 0;
  while (i < n) {
    uint32_t c;
    size_t length = vtb_utf8_decode(s + i, n - i, &c);
    if (!length && n - i < 4) break;
    if (!length) t->strange = true, length = 1, c = '?';
    if (c == '\033') {
      size_t more = escape(t, s + i + 1, n - i - 1);
      if (!more) break;
      length += more;
    } else if (c == '\n') {
      next_line(t);
    } else if (c == '\r') {
      if (i + 1 == n) break; /* of a line's end, or of one that is drawn again */
      if (s[i + 1] != '\n') t->at = 0;
    } else if (c < 0x20 && c != '\t') {
      t->strange = true;
    } else {
      put(t, c);
    }
    i += length;
  }
  return i;
}

static int watch(terminal *t, int fd, int resized) {
  char buffer[1 << 14];
  size_t kept = 0;
  int told = 0;
  for (ssize_t n; (n = read(fd, buffer + kept, sizeof buffer - kept)) > 0;) {
    kept += (size_t)n;
    size_t taken = feed(t, buffer, kept);
    memmove(buffer, buffer + taken, kept -= taken);
    if (resized && !told && t->overwritten > 0) {
      struct winsize size = {.ws_col = (unsigned short)resized, .ws_row = 24};
      ioctl(fd, TIOCSWINSZ, &size);
      told = t->overwritten;
    }
    if (told && t->overwritten > told + 1) t->columns = resized;
  }
  if (t->end) print_line(t, "");
  return 0;
}

int main(int argc, char **argv) {
  terminal t = {0};
  int first = 1, resized = 0, rows = 0, status = 0, fd;
  for (; first < argc && argv[first][0] == '-'; first++) {
    if (strcmp(argv[first], "-f") == 0) t.frames = true;
    if (strcmp(argv[first], "-r") == 0 && first + 1 < argc) resized = atoi(argv[++first]);
  }
  if (first + 1 >= argc || sscanf(argv[first], "%dx%d", &t.columns, &rows) != 2 || t.columns < 1 ||
      t.columns >= WIDEST)
    return 2;
  struct winsize size = {.ws_col = (unsigned short)t.columns, .ws_row = (unsigned short)rows};
  pid_t child = forkpty(&fd, NULL, NULL, &size);
  if (child == 0) {
    execvp(argv[first + 1], argv + first + 1);
    _exit(127);
  }
  if (child < 0) return 3;
  watch(&t, fd, resized);
  waitpid(child, &status, 0);
  if (t.strange) return STRANGE;
  if (t.wrapped) return WRAPPED;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
