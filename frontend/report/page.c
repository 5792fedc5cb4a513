/* The page: page.html filled from results.json and what is said of it. */
#include "frontend/report/page.h"

#include "frontend/report/template.h"
#include "frontend/report/view.h"
#include "runtime/base/utf8.h"

#include "frontend/report/texts.gen.h"

#include <string.h>

/* ---- formats --------------------------------------------------------------------------------- */

/* "data:TYPE;base64,...": a picture from elsewhere cannot run scripts or fetch anything. */
static void put_picture(vtb_strbuf *out, const char *text) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  vtb_strbuf_puts(out, "data:image/svg+xml;base64,");
  size_t n = strlen(text);
  for (size_t i = 0; i < n; i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; k++) bits = bits << 8 | (i + k < n ? (unsigned char)text[i + k] : 0);
    for (size_t k = 0; k < 4; k++)
      vtb_strbuf_putc(out, i + k > n ? '=' : digit[bits >> (18 - 6 * k) & 63]);
  }
}

/* JSON text as it may stand inside <script>, in HTML and in XML. */
static void put_json(vtb_strbuf *out, const cJSON *value) {
  char *json = cJSON_PrintUnformatted(value);
  for (const char *s = json ? json : "{}"; *s;) {
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
  cJSON_free(json);
}

/* NULL: it is no format of numbers. */
static const char *number_text(const rp_report *r, const char *name, int digits, double x,
                               char text[32]) {
  if (strcmp(name, "bytes") == 0) return nr_bytes(x, text);
  if (strcmp(name, "fixed") == 0) return nr_fixed(x, digits, text);
  if (strcmp(name, "digits") == 0) return nr_digits(x, digits, text);
  if (strcmp(name, "score") == 0) return rp_format(r, RP_TEST, x, text);
  if (strcmp(name, "number") != 0) return NULL;
  return x == floor(x) ? nr_fixed(x, 0, text) : nr_digits(x, 3, text);
}

/* "raw": text of this program; "dash": one where there is no text. */
static bool write_format(const void *user, const char *name, int digits, const cJSON *value,
                         vtb_strbuf *out) {
  const char *own = cJSON_GetStringValue(value);
  double x = cJSON_IsNumber(value) ? value->valuedouble : (double)NAN;
  char text[32];
  const char *number = number_text(user, name, digits, x, text);
  if (number)
    vtb_strbuf_puts(out, number);
  else if (strcmp(name, "json") == 0)
    put_json(out, value);
  else if (strcmp(name, "svg") == 0)
    put_picture(out, own ? own : "");
  else if (strcmp(name, "raw") == 0)
    vtb_strbuf_puts(out, own ? own : "");
  else if (strcmp(name, "dash") == 0)
    picture_put_text(out, own ? own : "\xE2\x80\x93");
  else
    return false;
  return true;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void add_colours(cJSON *view) {
  cJSON *list = view_list(view, "colours");
  for (int i = 1; i < draw_n_colours; i++) {
    const draw_named *c = &draw_colours[i];
    char text[3][16];
    snprintf(text[0], sizeof text[0], "#%06x", (unsigned)c->light);
    snprintf(text[1], sizeof text[1], "#%06x", (unsigned)c->dark);
    snprintf(text[2], sizeof text[2], "#%06x", (unsigned)c->print);
    doc_item(list, F("name", c->name), F("light", text[0]), F("dark", text[1]),
             F("print", text[2]));
  }
}

vtb_status report_page(const cJSON *results, vtb_strbuf *out, vtb_error *err) {
  static void (*const parts[])(const rp_report *, cJSON *) = {
      view_cells,   view_signs,  view_findings, view_front,    view_effects,
      view_scaling, view_curves, view_paths,    view_compiler, view_against};
  if (!cJSON_IsObject(results) || !cJSON_IsArray(study_member(results, "cells")))
    return vtb_fail(err, VTB_E_INPUT, "this is no document of results: it has no list of cells");
  rp_report r;
  rp_read(&r, results);
  cJSON *view = cJSON_CreateObject();
  char day[16];
  cJSON_AddItemReferenceToObject(view, "doc", (cJSON *)(uintptr_t)results);
  cJSON_AddItemReferenceToObject(view, "study", (cJSON *)(uintptr_t)r.study);
  snprintf(day, sizeof day, "%.10s", study_text_of(results, "began"));
  doc_put(view, F("day", day), F("page_css", (const char *)page_css),
          F("page_js", (const char *)page_js));
  add_colours(view);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) parts[i](&r, view);
  tp_fill((const char *)page_html, view, write_format, &r, out);
  cJSON_Delete(view);
  rp_free(&r);
  return VTB_OK;
}
