/* See split.h. */
#include "frontend/study/split.h"

#include <string.h>

char *study_trimmed(const char *text, size_t n) {
  while (n && strchr(" \t\r\n", text[0])) text++, n--;
  while (n && strchr(" \t\r\n", text[n - 1])) n--;
  char *copy = vtb_xmalloc(n + 1);
  memcpy(copy, text, n);
  copy[n] = 0;
  return copy;
}

bool study_split(const char *text, size_t n, char separator, study_texts *out) {
  size_t from = 0;
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i < n; i++) {
    char c = text[i];
    if (quote) {
      if (c == '\\' && i + 1 < n) i++;
      if (c == quote) quote = 0;
    } else if (c == '"') {
      quote = c;
    } else if (c && strchr("([{", c)) {
      depth++;
    } else if (c && strchr(")]}", c)) {
      depth--;
    } else if (c == separator && depth <= 0) {
      vtb_vec_push(out, study_trimmed(text + from, i - from));
      from = i + 1;
    }
  }
  vtb_vec_push(out, study_trimmed(text + from, n - from));
  return depth == 0 && !quote;
}
