/* A fold a cell: what was run and what came of it, to the last number; and the machine. Folds are
 * open until the script closes them, so that nothing needs it to be read. */
#include "frontend/report/markup.h"
#include "frontend/report/number.h"
#include "frontend/report/sections.h"

#include <math.h>
#include <string.h>

/* ---- lists of names and values --------------------------------------------------------------- */

static void term(vtb_strbuf *out, const char *name, const char *text) {
  if (*text) mk(out, "<dt>%s</dt><dd>%s</dd>", name, text);
}

static void number_term(vtb_strbuf *out, const char *name, double x, const char *unit) {
  char text[32];
  if (!isnan(x))
    mk(out, "<dt>%s</dt><dd>%s%s</dd>", name,
       x == floor(x) ? nr_fixed(x, 0, text) : nr_digits(x, 3, text), unit);
}

static void command(vtb_strbuf *out, const char *text) {
  if (*text) mk(out, "<div class=\"command\"><pre>%s</pre></div>\n", text);
}

/* ---- a cell ---------------------------------------------------------------------------------- */

static void settings(const rp_report *r, const rp_cell *c, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "<dl>");
  for (size_t i = 0; i < r->axes.n; i++)
    if (c->value[i] >= 0)
      mk(out, "<dt>%s</dt><dd class=\"value\">%s</dd>", r->axes.at[i].name,
         r->axes.at[i].values.at[c->value[i]]);
  for (int m = 0; m < RP_MEASURES; m++) {
    char mean[32], spread[32];
    if (isnan(c->mean[m])) continue;
    mk(out, "<dt>%s</dt><dd>%s", rp_name(r, (rp_measure)m),
       rp_format(r, (rp_measure)m, c->mean[m], mean));
    if (c->spread[m] > 0)
      mk(out, " \xC2\xB1 %s", rp_format(r, (rp_measure)m, c->spread[m], spread));
    vtb_strbuf_puts(out, "</dd>");
  }
  term(out, "input", rp_string(c->json, "model.img_size"));
  number_term(out, "tokens", c->tokens, "");
  number_term(out, "batch, timed", rp_number(c->json, "bench.batch"), "");
  number_term(out, "of the machine's peak", rp_number(c->json, "bench.percent_of_peak"), " %");
  vtb_strbuf_puts(out, "</dl>\n");
}

/* A table of numbers: its headings, then td() a number, and end_table(). */
static void begin_table(vtb_strbuf *out, const char *const *names, int n) {
  vtb_strbuf_puts(out, "<div class=\"scroll\"><table><thead><tr>");
  for (int i = 0; i < n; i++) mk(out, "<th scope=\"col\" class=\"num\">%s</th>", names[i]);
  vtb_strbuf_puts(out, "</tr></thead><tbody>\n");
}

static void td(vtb_strbuf *out, const char *text) { mk(out, "<td class=\"num\">%s</td>", text); }

static void td_number(vtb_strbuf *out, double x, int digits) {
  char text[32];
  td(out, nr_digits(x, digits, text));
}

static void end_table(vtb_strbuf *out) { vtb_strbuf_puts(out, "</tbody></table></div>\n"); }

static void seeds(const rp_report *r, const rp_cell *c, vtb_strbuf *out) {
  static const char *const names[] = {"seed", "val", "test", "seconds"};
  const cJSON *list = rp_get(c->json, "train.seeds"), *seed;
  if (cJSON_GetArraySize(list) == 0) return;
  begin_table(out, names, 4);
  cJSON_ArrayForEach(seed, list) {
    char val[32], test[32];
    vtb_strbuf_puts(out, "<tr>");
    td_number(out, rp_number(seed, "seed"), 1);
    td(out, rp_format(r, RP_VAL, rp_number(seed, "val"), val));
    td(out, rp_format(r, RP_TEST, rp_number(seed, "test"), test));
    td_number(out, rp_number(seed, "seconds"), 3);
    vtb_strbuf_puts(out, "</tr>\n");
  }
  end_table(out);
}

static void rounds(const rp_cell *c, vtb_strbuf *out) {
  static const char *const names[] = {"round", "best, ms", "median, ms", "other programs, cores"};
  const cJSON *list = rp_get(c->json, "bench.rounds"), *round;
  int n = 0;
  if (cJSON_GetArraySize(list) == 0) return;
  begin_table(out, names, 4);
  cJSON_ArrayForEach(round, list) {
    vtb_strbuf_puts(out, "<tr>");
    td_number(out, ++n, 1);
    td_number(out, rp_number(round, "best_ms"), 4);
    td_number(out, rp_number(round, "median_ms"), 4);
    td_number(out, rp_number(round, "others"), 2);
    vtb_strbuf_puts(out, "</tr>\n");
  }
  end_table(out);
  double repeated = rp_number(c->json, "bench.repeated");
  if (repeated > 0)
    mk(out, "<p class=\"note\">%.0f rounds were added, because the spread was large.</p>\n",
       repeated);
}

static void commands(const rp_cell *c, vtb_strbuf *out) {
  const cJSON *step;
  cJSON_ArrayForEach(step, rp_get(c->json, "commands")) {
    char took[32];
    double seconds = rp_number(step, "seconds"), status = rp_number(step, "status");
    const char *message = rp_string(step, "message");
    command(out, rp_string(step, "command"));
    bool wrong = status != 0 && !isnan(status);
    if (!isnan(seconds) || wrong)
      mk(out, "<p class=\"note\">%s: %s s", rp_string(step, "step"), nr_digits(seconds, 2, took));
    if (wrong) mk(out, ", <span class=\"wrong\">status %.0f</span>", status);
    if (!isnan(seconds) || wrong) vtb_strbuf_puts(out, "</p>\n");
    if (*message) mk(out, "<pre class=\"%s\">%s</pre>\n", wrong ? "wrong" : "", message);
  }
}

static void summary(const rp_report *r, const rp_cell *c, vtb_strbuf *out) {
  char text[32];
  mk(out, "<summary><span class=\"figures\">%d</span><b>%s</b>", c->number + 1, c->label);
  if (!isnan(c->mean[RP_TEST]))
    mk(out, "<span class=\"figures\">%s%s on test</span>",
       rp_format(r, RP_TEST, c->mean[RP_TEST], text), r->percent ? " %" : "");
  if (!isnan(c->mean[RP_MS]))
    mk(out, "<span class=\"figures\">%s ms</span>", rp_format(r, RP_MS, c->mean[RP_MS], text));
  if (!isnan(c->mean[RP_PARAMS]))
    mk(out, "<span class=\"figures\">%s parameters</span>",
       rp_format(r, RP_PARAMS, c->mean[RP_PARAMS], text));
  if (c->status != RP_DONE) mk(out, "<span class=\"wrong\">%s</span>", c->status_text);
  vtb_strbuf_puts(out, "</summary>\n");
}

static void cell(const rp_report *r, const rp_cell *c, vtb_strbuf *out) {
  mk(out, "<details id=\"cell-%d\" open=\"open\">", c->number);
  summary(r, c, out);
  vtb_strbuf_puts(out, "<div>\n");
  if (*c->message) mk(out, "<pre class=\"wrong\">%s</pre>\n", c->message);
  settings(r, c, out);
  commands(c, out);
  seeds(r, c, out);
  rounds(c, out);
  vtb_strbuf_puts(out, "</div></details>\n");
}

bool sec_cells(const rp_report *r, vtb_strbuf *out) {
  if (!r->cells.n) return false;
  vtb_strbuf_puts(out, "<section id=\"cells\">\n<h2>Cell by cell</h2>\n<p>Each step is an ordinary "
                       "command: paste it to run it alone. <button type=\"button\" id=\"unfold\" "
                       "class=\"script\">Open or close all</button></p>\n");
  for (size_t i = 0; i < r->cells.n; i++) cell(r, &r->cells.at[i], out);
  vtb_strbuf_puts(out, "</section>\n");
  return true;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void peaks(const rp_report *r, vtb_strbuf *out) {
  static const char *const names[] = {"round", "product, GFLOP/s", "copy, GB/s",
                                      "other programs, cores"};
  const cJSON *list = rp_get(r->json, "peaks"), *peak;
  if (cJSON_GetArraySize(list) == 0) return;
  vtb_strbuf_puts(out, "<h3>What the machine reached, round by round</h3>\n");
  begin_table(out, names, 4);
  cJSON_ArrayForEach(peak, list) {
    vtb_strbuf_puts(out, "<tr>");
    td_number(out, rp_number(peak, "round") + 1, 1);
    td_number(out, rp_number(peak, "product_gflops"), 3);
    td_number(out, rp_number(peak, "copy_gbytes"), 3);
    td_number(out, rp_number(peak, "others"), 2);
    vtb_strbuf_puts(out, "</tr>\n");
  }
  end_table(out);
}

bool sec_machine(const rp_report *r, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "<section id=\"machine\">\n<h2>How to repeat this</h2>\n");
  command(out, "vertebra ablate study.yaml -o again/");
  vtb_strbuf_puts(
      out, "<p class=\"note\">with the study.yaml that lies beside this page, from where it ran: "
           "what it names by a relative path is looked for from there. "
           "<code>--against</code> compares the two reports.</p>\n<dl>");
  term(out, "processor", rp_string(r->json, "machine.processor"));
  term(out, "host", rp_string(r->json, "machine.host"));
  number_term(out, "cores", rp_number(r->json, "machine.cores"), "");
  number_term(out, "threads of a cell", rp_number(r->json, "machine.threads"), "");
  term(out, "vertebra", rp_string(r->json, "vertebra"));
  term(out, "began", rp_string(r->json, "began"));
  term(out, "ended", rp_string(r->json, "ended"));
  vtb_strbuf_puts(out, "</dl>\n");
  peaks(r, out);
  const char *text = rp_string(r->study, "text");
  if (*text) mk(out, "<h3>study.yaml</h3>\n<pre>%s</pre>\n", text);
  vtb_strbuf_puts(out, "</section>\n");
  return true;
}
