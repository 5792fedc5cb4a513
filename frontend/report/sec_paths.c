/* The traversals, a picture for all the cells that share it. Pictures come in as images, in which
 * nothing runs. */
#include "frontend/report/markup.h"
#include "frontend/report/sections.h"

#include <string.h>

enum { MOST_NAMED = 8 };

/* The cell's own text, or one of the document's; "" if it has none. */
static const char *picture_of(const rp_report *r, size_t cell) {
  const cJSON *own = rp_get(r->cells.at[cell].json, "paths");
  if (cJSON_IsNumber(own) && own->valuedouble >= 0 && own->valuedouble < 1e6)
    own = cJSON_GetArrayItem(rp_get(r->json, "pictures"), (int)own->valuedouble);
  const char *text = cJSON_GetStringValue(own);
  return text ? text : "";
}

static bool drawn_before(const rp_report *r, size_t number, const char *picture) {
  for (size_t i = 0; i < number; i++)
    if (strcmp(picture_of(r, i), picture) == 0) return true;
  return false;
}

/* The value of an axis that all cells with the picture share and others have not; -1: none. */
static int own_value(const rp_report *r, size_t axis, const char *picture) {
  int value = -1;
  bool first = true, others = false;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (strcmp(picture_of(r, i), picture) != 0) continue;
    if (!first && c->value[axis] != value) return -1;
    value = c->value[axis];
    first = false;
  }
  for (size_t i = 0; i < r->cells.n; i++) others |= r->cells.at[i].value[axis] != value;
  return others ? value : -1;
}

static void caption(const rp_report *r, const char *picture, vtb_strbuf *out) {
  int n = 0;
  vtb_strbuf_puts(out, "<figcaption>");
  for (size_t i = 0; i < r->axes.n; i++) {
    int v = own_value(r, i, picture);
    if (v >= 0)
      mk(out, "%s%s = <code>%s</code>", n++ ? ", " : "", r->axes.at[i].name,
         r->axes.at[i].values.at[v]);
  }
  vtb_strbuf_puts(out, n ? ": cells " : "cells ");
  n = 0;
  for (size_t i = 0; i < r->cells.n; i++)
    if (strcmp(picture_of(r, i), picture) == 0 && n++ < MOST_NAMED)
      mk(out, "%s<a href=\"#cell-%d\">%d</a>", n > 1 ? ", " : "", (int)i, (int)i + 1);
  if (n > MOST_NAMED) mk(out, " and %d more", n - MOST_NAMED);
  vtb_strbuf_puts(out, "</figcaption>");
}

/* What is not shown, and how to see it. */
static void too_large(const rp_report *r, vtb_strbuf *out) {
  int n = 0;
  for (size_t i = 0; i < r->cells.n; i++)
    n += cJSON_IsNumber(rp_get(r->cells.at[i].json, "paths_bytes"));
  if (n)
    mk(out,
       "<p>Pictures of %d cell%s with more tokens are too large for a page: "
       "<code>vertebra paths</code> draws them.</p>\n",
       n, n > 1 ? "s" : "");
}

bool sec_paths(const rp_report *r, vtb_strbuf *out) {
  int n = 0;
  for (size_t i = 0; i < r->cells.n; i++) {
    const char *picture = picture_of(r, i);
    if (!strstr(picture, "<svg") || drawn_before(r, i, picture)) continue;
    if (n++ == 0)
      vtb_strbuf_puts(out, "<section id=\"paths\">\n<h2>How the tokens are read</h2>\n"
                           "<div class=\"panels\">\n");
    mk(out, "<figure><div class=\"paper\"><img alt=\"traversals of %s\" src=\"",
       r->cells.at[i].label);
    mk_data_uri(out, "image/svg+xml", picture);
    vtb_strbuf_puts(out, "\"/></div>");
    caption(r, picture, out);
    vtb_strbuf_puts(out, "</figure>\n");
  }
  if (n) vtb_strbuf_puts(out, "</div>\n");
  if (n) too_large(r, out);
  if (n) vtb_strbuf_puts(out, "</section>\n");
  return n > 0;
}
