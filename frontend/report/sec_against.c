/* The study against an older report, cell by cell. */
#include "frontend/report/markup.h"
#include "frontend/report/number.h"
#include "frontend/report/sections.h"

#include <math.h>
#include <string.h>

typedef struct compared {
  const char *member, *name;
  rp_measure format;
  bool relative; /* the difference is a part of the old value */
  int direction; /* 0: the score's own */
} compared;

static const compared measures[] = {
    {"score", "score", RP_TEST, false, 0},
    {"samples_per_sec", "images/s", RP_RATE, true, 1},
    {"peak_bytes", "peak memory", RP_PEAK, true, -1},
    {"param_count", "parameters", RP_PARAMS, true, 0},
};
enum { N_MEASURES = sizeof measures / sizeof *measures };

/* Parameters only where they changed. */
static bool is_shown(const cJSON *cells, const char *member) {
  const cJSON *cell;
  bool changes_only = strcmp(member, "param_count") == 0;
  cJSON_ArrayForEach(cell, cells) {
    const cJSON *pair = rp_get(cell, member);
    if (cJSON_IsObject(pair) && (!changes_only || rp_number(pair, "difference") != 0)) return true;
  }
  return false;
}

static const char *verdict(const rp_report *r, const compared *m, const cJSON *pair) {
  double difference = rp_number(pair, "difference");
  int direction = m->format == RP_TEST ? rp_direction(r, RP_TEST) : m->direction;
  if (!cJSON_IsTrue(rp_get(pair, "significant")) || direction == 0 || isnan(difference)) return "";
  return difference * direction > 0 ? "better" : "worse";
}

/* Three cells: before, now, and the difference, in colour and with a sign where it counts. */
static void pair_cells(const rp_report *r, const compared *m, const cJSON *pair, vtb_strbuf *out) {
  char old[32], now[32], by[32];
  double difference = rp_number(pair, "difference");
  const char *how = verdict(r, m, pair);
  mk(out, "<td class=\"num\">%s</td><td class=\"num\">%s</td>",
     rp_format(r, m->format, rp_number(pair, "old"), old),
     rp_format(r, m->format, rp_number(pair, "new"), now));
  mk(out, "<td class=\"num %s\">", how);
  if (!isnan(difference)) {
    if (m->relative)
      mk(out, "%s%s %%", difference < 0 ? "\xE2\x88\x92" : "+",
         nr_fixed(100 * fabs(difference), 1, by));
    else
      mk(out, "%s%s", difference < 0 ? "\xE2\x88\x92" : "+",
         rp_format(r, m->format, fabs(difference), by));
    if (!*how) vtb_strbuf_puts(out, " <small>(\xE2\x89\x88)</small>");
  }
  vtb_strbuf_puts(out, "</td>");
}

static void head(const cJSON *cells, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "<thead><tr><th scope=\"col\">cell</th>");
  for (int i = 0; i < N_MEASURES; i++)
    if (is_shown(cells, measures[i].member))
      mk(out,
         "<th scope=\"col\" class=\"num\">%s, before</th><th scope=\"col\" class=\"num\">now"
         "</th><th scope=\"col\" class=\"num\">change</th>",
         measures[i].name);
  if (is_shown(cells, "status")) vtb_strbuf_puts(out, "<th scope=\"col\">status</th>");
  vtb_strbuf_puts(out, "</tr></thead>\n");
}

static void row(const rp_report *r, const cJSON *cells, const cJSON *cell, vtb_strbuf *out) {
  mk(out, "<tr><th scope=\"row\">%s</th>", rp_string(cell, "label"));
  for (int i = 0; i < N_MEASURES; i++)
    if (is_shown(cells, measures[i].member))
      pair_cells(r, &measures[i], rp_get(cell, measures[i].member), out);
  if (is_shown(cells, "status")) {
    const cJSON *status = rp_get(cell, "status");
    vtb_strbuf_puts(out, "<td>");
    if (status) mk(out, "%s, was %s", rp_string(status, "new"), rp_string(status, "old"));
    vtb_strbuf_puts(out, "</td>");
  }
  vtb_strbuf_puts(out, "</tr>\n");
}

static void alone(const cJSON *against, const char *member, const char *what, vtb_strbuf *out) {
  const cJSON *label;
  int n = 0;
  cJSON_ArrayForEach(label, rp_get(against, member)) {
    if (!cJSON_IsString(label)) continue;
    if (n++ == 0) mk(out, "<p class=\"note\">%s: ", what);
    mk(out, "%s%s", n > 1 ? "; " : "", label->valuestring);
  }
  if (n) vtb_strbuf_puts(out, ".</p>\n");
}

bool sec_against(const rp_report *r, vtb_strbuf *out) {
  const cJSON *against = rp_get(r->json, "against"), *cells = rp_get(against, "cells"), *cell;
  if (!cJSON_IsObject(against)) return false;
  mk(out, "<section id=\"against\">\n<h2>Against %s</h2>\n<p>", rp_string(against, "report"));
  mk(out, "Written by vertebra %s", rp_string(against, "vertebra"));
  if (*rp_string(against, "ended")) mk(out, ", ended %s", rp_string(against, "ended"));
  vtb_strbuf_puts(out, cJSON_IsFalse(rp_get(against, "same_machine"))
                           ? ", on another machine: times tell of both.</p>\n"
                           : ".</p>\n");
  if (cJSON_GetArraySize(cells) > 0) {
    vtb_strbuf_puts(out,
                    "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"against "
                    "the older report\"><table>");
    head(cells, out);
    vtb_strbuf_puts(out, "<tbody>\n");
    cJSON_ArrayForEach(cell, cells) row(r, cells, cell, out);
    vtb_strbuf_puts(out,
                    "</tbody></table></div>\n<p class=\"note\">In colour: more than chance. "
                    "\xE2\x89\x88: within the spread, or no matter of better and worse.</p>\n");
  }
  alone(against, "only_new", "Only in this report", out);
  alone(against, "only_old", "Only in the older one", out);
  vtb_strbuf_puts(out, "</section>\n");
  return true;
}
