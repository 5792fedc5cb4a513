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
  if (!isnan(x)) mk(out, "<dt>%s</dt><dd>%s%s</dd>", name, nr_digits(x, 3, text), unit);
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

static void seeds(const rp_report *r, const rp_cell *c, vtb_strbuf *out) {
  const cJSON *list = rp_get(c->json, "train.seeds"), *seed;
  if (cJSON_GetArraySize(list) == 0) return;
  vtb_strbuf_puts(out,
                  "<div class=\"scroll\"><table><thead><tr><th scope=\"col\" class=\"num\">seed"
                  "</th><th scope=\"col\" class=\"num\">val</th><th scope=\"col\" "
                  "class=\"num\">test</th><th scope=\"col\" class=\"num\">seconds</th></tr>"
                  "</thead><tbody>\n");
  cJSON_ArrayForEach(seed, list) {
    char val[32], test[32], took[32];
    mk(out, "<tr><td class=\"num\">%.0f</td><td class=\"num\">%s</td>", rp_number(seed, "seed"),
       rp_format(r, RP_VAL, rp_number(seed, "val"), val));
    mk(out, "<td class=\"num\">%s</td><td class=\"num\">%s</td></tr>\n",
       rp_format(r, RP_TEST, rp_number(seed, "test"), test),
       nr_digits(rp_number(seed, "seconds"), 3, took));
  }
  vtb_strbuf_puts(out, "</tbody></table></div>\n");
}

static void rounds(const rp_cell *c, vtb_strbuf *out) {
  const cJSON *list = rp_get(c->json, "bench.rounds"), *round;
  int n = 0;
  if (cJSON_GetArraySize(list) == 0) return;
  vtb_strbuf_puts(out,
                  "<div class=\"scroll\"><table><thead><tr><th scope=\"col\" class=\"num\">round"
                  "</th><th scope=\"col\" class=\"num\">best, ms</th><th scope=\"col\" "
                  "class=\"num\">median, ms</th></tr></thead><tbody>\n");
  cJSON_ArrayForEach(round, list) {
    char best[32], median[32];
    mk(out,
       "<tr><td class=\"num\">%d</td><td class=\"num\">%s</td><td class=\"num\">%s</td></tr>\n",
       ++n, nr_digits(rp_number(round, "best_ms"), 4, best),
       nr_digits(rp_number(round, "median_ms"), 4, median));
  }
  vtb_strbuf_puts(out, "</tbody></table></div>\n");
  double repeated = rp_number(c->json, "bench.repeated");
  if (repeated > 0)
    mk(out, "<p class=\"note\">Measured again in %.0f rounds: the spread was large.</p>\n",
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
  const cJSON *list = rp_get(r->json, "peaks"), *peak;
  if (cJSON_GetArraySize(list) == 0) return;
  vtb_strbuf_puts(out, "<h3>What the machine reached, round by round</h3>\n<div class=\"scroll\">"
                       "<table><thead><tr><th scope=\"col\" class=\"num\">round</th><th "
                       "scope=\"col\" class=\"num\">product, GFLOP/s</th><th scope=\"col\" "
                       "class=\"num\">copy, GB/s</th></tr></thead><tbody>\n");
  cJSON_ArrayForEach(peak, list) {
    char product[32], copy[32];
    mk(out,
       "<tr><td class=\"num\">%.0f</td><td class=\"num\">%s</td><td class=\"num\">%s</td></tr>\n",
       rp_number(peak, "round") + 1, nr_digits(rp_number(peak, "product_gflops"), 3, product),
       nr_digits(rp_number(peak, "copy_gbytes"), 3, copy));
  }
  vtb_strbuf_puts(out, "</tbody></table></div>\n");
}

bool sec_machine(const rp_report *r, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "<section id=\"machine\">\n<h2>How to repeat this</h2>\n");
  command(out, "vertebra ablate study.yaml -o again/");
  vtb_strbuf_puts(out, "<p class=\"note\">with the study.yaml that lies beside this page; "
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
