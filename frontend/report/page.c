#include "frontend/report/page.h"
#include "frontend/report/markup.h"
#include "frontend/report/sections.h"

#include "frontend/report/texts.gen.h"

#include <string.h>

/* ---- the sections, in their order ------------------------------------------------------------ */

static const struct {
  const char *id, *name;
  bool (*write)(const rp_report *r, vtb_strbuf *out);
} sections[] = {
    {"results", "Results", sec_table},      {"front", "Front", sec_scatter},
    {"effects", "Effects", sec_effects},    {"scaling", "Scaling", sec_scaling},
    {"curves", "Training", sec_curves},     {"paths", "Traversals", sec_paths},
    {"compiler", "Compiler", sec_compiler}, {"against", "Against", sec_against},
    {"cells", "Cells", sec_cells},          {"machine", "Machine", sec_machine},
};

/* The sections that there are, and links to them. */
static void write_sections(const rp_report *r, vtb_strbuf *nav, vtb_strbuf *body) {
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
    if (sections[i].write(r, body))
      mk(nav, "<li><a href=\"#%s\">%s</a></li>", sections[i].id, sections[i].name);
}

/* ---- the head -------------------------------------------------------------------------------- */

static void title(const rp_report *r, vtb_strbuf *out) {
  if (*r->title) {
    mk_text(out, r->title);
    return;
  }
  mk_text(out, rp_string(r->study, "model"));
  int n = 0;
  for (size_t i = 0; i < r->axes.n; i++)
    if (r->axes.at[i].varies) mk(out, "%s%s", n++ ? " \xC3\x97 " : ": ", r->axes.at[i].name);
  if (!*rp_string(r->study, "model") && !n) vtb_strbuf_puts(out, "A study");
}

static void arrangement(const rp_report *r, vtb_strbuf *out) {
  const char *a = rp_string(r->study, "arrangement");
  int n = 0;
  for (size_t i = 0; i < r->axes.n; i++)
    if (r->axes.at[i].varies)
      mk(out, "%s<code>%s</code> (%d values)", n++ ? " \xC3\x97 " : " over ", r->axes.at[i].name,
         (int)r->axes.at[i].values.n);
  if (strcmp(a, "one-at-a-time") == 0 || strcmp(a, "one_at_a_time") == 0)
    vtb_strbuf_puts(out, ", one at a time around the defaults");
  else if (strcmp(a, "pairwise") == 0)
    vtb_strbuf_puts(out, ", every two values together once");
  else if (strcmp(a, "sample") == 0)
    vtb_strbuf_puts(out, ", a sample");
  mk(out, ": %d cell%s", (int)r->cells.n, r->cells.n == 1 ? "" : "s");
}

static void lede(const rp_report *r, vtb_strbuf *out) {
  const char *recipe = rp_string(r->study, "recipe"), *data = rp_string(r->study, "data");
  double seeds = rp_number(r->study, "seeds"), rounds = rp_number(r->study, "rounds");
  mk(out, "<p class=\"lede\"><code>%s</code>", rp_string(r->study, "model"));
  arrangement(r, out);
  if (rp_quality(r) != RP_MEASURES) {
    vtb_strbuf_puts(out, ", trained");
    if (*recipe) mk(out, " by the recipe <code>%s</code>", recipe);
    if (*data) mk(out, " on %s", data);
    if (seeds > 1) mk(out, ", %.0f seeds each", seeds);
  }
  if (rp_has(r, RP_MS) && rounds >= 1)
    mk(out, ", timed in %.0f round%s", rounds, rounds > 1 ? "s" : "");
  vtb_strbuf_puts(out, ".</p>\n");
}

static void eyebrow(const rp_report *r, vtb_strbuf *out) {
  mk(out, "<p class=\"eyebrow\">vertebra %s", rp_string(r->json, "vertebra"));
  const char *parts[] = {rp_string(r->json, "began"), rp_string(r->json, "machine.processor")};
  for (size_t i = 0; i < 2; i++)
    if (*parts[i]) {
      char text[80];
      snprintf(text, sizeof text, "%.*s", i ? 79 : 10, parts[i]); /* the day of a time */
      mk(out, " \xC2\xB7 %s", text);
    }
  double threads = rp_number(r->json, "machine.threads");
  if (threads >= 1) mk(out, ", %.0f thread%s", threads, threads > 1 ? "s" : "");
  vtb_strbuf_puts(out, "</p>\n");
}

/* Nothing of the page comes from elsewhere, and the browser is told so. */
static void head(const rp_report *r, vtb_strbuf *out) {
  vtb_strbuf_puts(
      out, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
           "<meta charset=\"utf-8\"/>\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
           "'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\"/>\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>");
  title(r, out);
  vtb_strbuf_puts(out, "</title>\n<style>/*<![CDATA[*/\n");
  vtb_strbuf_puts(out, page_css);
  vtb_strbuf_puts(out, "/*]]>*/</style>\n</head>\n");
}

static void masthead(const rp_report *r, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "<header class=\"top\">\n<div class=\"buttons script\"><button "
                       "type=\"button\" id=\"theme\">Dark</button></div>\n");
  eyebrow(r, out);
  vtb_strbuf_puts(out, "<h1>");
  title(r, out);
  vtb_strbuf_puts(out, "</h1>\n");
  lede(r, out);
  sec_findings(r, out);
  vtb_strbuf_puts(out, "</header>\n");
}

/* ---- the foot -------------------------------------------------------------------------------- */

static void foot(const rp_report *r, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "<footer><p>Written by <code>vertebra ablate</code>. The page needs nothing "
                       "but itself; its numbers are in results.json and results.csv beside it, "
                       "and inside it. <button type=\"button\" id=\"save\" class=\"script\">Save "
                       "results.json</button></p></footer>\n");
  char *json = cJSON_PrintUnformatted(r->json);
  vtb_strbuf_puts(out, "<script type=\"application/json\" id=\"data\">");
  mk_json(out, json ? json : "{}");
  cJSON_free(json);
  vtb_strbuf_puts(out, "</script>\n<script>//<![CDATA[\n");
  vtb_strbuf_puts(out, page_js);
  vtb_strbuf_puts(out, "//]]></script>\n");
}

vtb_status report_page(const cJSON *results, vtb_strbuf *out, vtb_error *err) {
  if (!cJSON_IsObject(results) || !cJSON_IsArray(rp_get(results, "cells")))
    return vtb_fail(err, VTB_E_INPUT, "this is no document of results: it has no list of cells");
  rp_report r;
  vtb_strbuf nav = {0}, body = {0};
  rp_read(&r, results);
  write_sections(&r, &nav, &body);
  head(&r, out);
  vtb_strbuf_puts(out, "<body>\n");
  masthead(&r, out);
  mk(out, "<nav aria-label=\"sections\"><ul>");
  vtb_strbuf_write(out, nav.at, nav.n);
  vtb_strbuf_puts(out, "</ul></nav>\n<main>\n");
  vtb_strbuf_write(out, body.at, body.n);
  vtb_strbuf_puts(out, "</main>\n");
  foot(&r, out);
  vtb_strbuf_puts(out, "</body>\n</html>\n");
  vtb_strbuf_free(&nav);
  vtb_strbuf_free(&body);
  rp_free(&r);
  return VTB_OK;
}
