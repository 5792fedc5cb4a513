/* Places: bytes here, lines and columns of UTF-16 (or UTF-8) units there; paths and URIs. */
#include "frontend/lsp/server.h"
#include "runtime/base/utf8.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Bytes and units of the character at `at`; what is no UTF-8 is a byte and a unit. */
static size_t step(const char *at, size_t n, lsp_encoding e, uint32_t *units) {
  uint32_t c;
  size_t k = vtb_utf8_decode(at, n, &c);
  if (k == 0) k = 1, c = 0;
  *units = e == LSP_UTF8 ? (uint32_t)k : c > 0xffff ? 2 : 1;
  return k;
}

static int64_t number_of(const cJSON *object, const char *name) {
  const cJSON *x = cJSON_GetObjectItemCaseSensitive(object, name);
  double d = cJSON_IsNumber(x) ? x->valuedouble : 0;
  return d >= 0 && d < 4e9 ? (int64_t)d : 0;
}

uint32_t lsp_offset(lsp_text t, const cJSON *position, lsp_encoding e) {
  int64_t line = number_of(position, "line"), column = number_of(position, "character");
  size_t at = 0;
  while (line > 0 && at < t.n) {
    const char *end = memchr(t.at + at, '\n', t.n - at);
    at = end ? (size_t)(end - t.at) + 1 : t.n;
    line--;
  }
  for (uint32_t units; line == 0 && column > 0 && at < t.n && t.at[at] != '\n'; column -= units)
    at += step(t.at + at, t.n - at, e, &units);
  return (uint32_t)at;
}

cJSON *lsp_position(lsp_text t, uint32_t offset, lsp_encoding e) {
  size_t begin = 0, line = 0, end = offset < t.n ? offset : t.n;
  int64_t column = 0;
  for (const char *at; (at = memchr(t.at + begin, '\n', end - begin)); line++)
    begin = (size_t)(at - t.at) + 1;
  for (uint32_t units; begin < end; column += units)
    begin += step(t.at + begin, t.n - begin, e, &units);
  cJSON *p = cJSON_CreateObject();
  cJSON_AddNumberToObject(p, "line", (double)line);
  cJSON_AddNumberToObject(p, "character", (double)column);
  return p;
}

cJSON *lsp_range(lsp_text t, uint32_t begin, uint32_t end, lsp_encoding e) {
  cJSON *range = cJSON_CreateObject();
  cJSON_AddItemToObject(range, "start", lsp_position(t, begin, e));
  cJSON_AddItemToObject(range, "end", lsp_position(t, end, e));
  return range;
}

static int digit(char c) {
  return isdigit((unsigned char)c) ? c - '0' : (tolower((unsigned char)c) - 'a' + 10);
}

char *lsp_path_of(const char *uri) {
  static const char scheme[] = "file://";
  if (!vtb_starts_with(uri, scheme)) return vtb_xstrdup(uri);
  const char *from = uri + strlen(scheme);
  const char *path = strchr(from, '/'); /* behind a host, which is empty or this one */
  char *out = vtb_xstrdup(path ? path : from), *to = out;
  for (const char *c = out; *c; c++) {
    bool escaped = *c == '%' && isxdigit((unsigned char)c[1]) && isxdigit((unsigned char)c[2]);
    *to++ = escaped ? (char)(digit(c[1]) * 16 + digit(c[2])) : *c;
    if (escaped) c += 2;
  }
  *to = '\0';
  return out;
}

char *lsp_uri_of(const char *path) {
  vtb_strbuf out = {0};
  char *whole = realpath(path, NULL);
  const char *from = whole ? whole : path;
  if (from[0] == '/') vtb_strbuf_puts(&out, "file://");
  for (const char *c = from; *c; c++)
    if (isalnum((unsigned char)*c) || strchr("/-._~", *c))
      vtb_strbuf_putc(&out, *c);
    else
      vtb_strbuf_printf(&out, "%%%02X", (unsigned char)*c);
  vtb_free(whole);
  return out.at;
}
