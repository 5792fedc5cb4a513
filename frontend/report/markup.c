#include "frontend/report/markup.h"
#include "runtime/base/utf8.h"

#include <string.h>

/* A byte of a text: what is no ASCII passes. */
static void put_char(vtb_strbuf *out, char c) { vtb_strbuf_xml(out, (char[]){c, 0}); }

/* U+FFFE and U+FFFF are characters of UTF-8 and none of XML. */
static bool no_character(const char *s) {
  return (unsigned char)s[0] == 0xEF && (unsigned char)s[1] == 0xBF &&
         ((unsigned char)s[2] & 0xFE) == 0xBE;
}

void mk_text(vtb_strbuf *out, const char *text) {
  vtb_strbuf visible = {0};
  vtb_lines_visible(&visible, text ? text : "");
  for (const char *s = vtb_strbuf_text(&visible); *s; s++)
    if (no_character(s)) {
      vtb_strbuf_puts(out, "\xEF\xBF\xBD");
      s += 2;
    } else {
      put_char(out, *s);
    }
  vtb_strbuf_free(&visible);
}

/* One conversion, from its % on; returns what follows it. */
static const char *convert(vtb_strbuf *out, const char *at, va_list *ap) {
  char spec[16];
  size_t n = 1 + strcspn(at + 1, "sdcfg%");
  if (n + 1 >= sizeof spec) vtb_bug("no conversion of mk(): %s", at);
  memcpy(spec, at, n + 1);
  spec[n + 1] = 0;
  switch (at[n]) {
  case '%':
    vtb_strbuf_putc(out, '%');
    break;
  case 's':
    mk_text(out, va_arg(*ap, const char *));
    break;
  case 'c':
    put_char(out, (char)va_arg(*ap, int));
    break;
  case 'd':
    vtb_strbuf_printf(out, "%d", va_arg(*ap, int));
    break;
  default: {
    char number[400];
    snprintf(number, sizeof number, spec, va_arg(*ap, double));
    vtb_strbuf_puts(out, number);
  }
  }
  return at + n + 1;
}

void mk(vtb_strbuf *out, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  while (*fmt) {
    size_t plain = strcspn(fmt, "%");
    vtb_strbuf_write(out, fmt, plain);
    fmt += plain;
    if (*fmt) fmt = convert(out, fmt, &ap);
  }
  va_end(ap);
}

void mk_data_uri(vtb_strbuf *out, const char *type, const char *text) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  mk(out, "data:%s;base64,", type);
  size_t n = strlen(text);
  for (size_t i = 0; i < n; i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; k++) bits = bits << 8 | (i + k < n ? (unsigned char)text[i + k] : 0);
    for (size_t k = 0; k < 4; k++)
      vtb_strbuf_putc(out, i + k > n ? '=' : digit[bits >> (18 - 6 * k) & 63]);
  }
}

void mk_json(vtb_strbuf *out, const char *json) {
  for (const char *s = json; *s;) {
    uint32_t c;
    size_t n = vtb_utf8_decode(s, strnlen(s, 4), &c);
    bool plain = n > 0 && c >= 0x20 && c < 0x7f && !strchr("<>&", (int)c);
    if (plain)
      vtb_strbuf_putc(out, *s);
    else if (n == 0)
      vtb_strbuf_puts(out, "\\ufffd");
    else if (c > 0xffff)
      vtb_strbuf_printf(out, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
                        (unsigned)(0xdc00 + ((c - 0x10000) & 0x3ff)));
    else
      vtb_strbuf_printf(out, "\\u%04x", (unsigned)c);
    s += n ? n : 1;
  }
}
