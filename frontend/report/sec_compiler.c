/* What the compiler made of each cell: the form of its recurrences and why, launches, bytes, and
 * its prediction against the clock. */
#include "frontend/report/chart.h"
#include "frontend/report/encode.h"
#include "frontend/report/markup.h"
#include "frontend/report/number.h"
#include "frontend/report/sections.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 420, HEIGHT = 340 };

/* ---- the table ------------------------------------------------------------------------------- */

static void recurrence(const cJSON *x, vtb_strbuf *out) {
  double chunk = rp_number(x, "chunk"), count = rp_number(x, "count");
  mk(out, "<div><code>%s", rp_string(x, "mode"));
  if (chunk > 0 && strcmp(rp_string(x, "mode"), "chunkwise") == 0) mk(out, "(%.0f)", chunk);
  mk(out, "</code> %s", rp_string(x, "name"));
  if (count > 1) mk(out, " \xC3\x97 %.0f", count);
  if (*rp_string(x, "reason")) mk(out, " <small>%s</small>", rp_string(x, "reason"));
  vtb_strbuf_puts(out, "</div>");
}

/* Of what was timed. */
static double predicted(const rp_cell *c) {
  bool step = strncmp(rp_string(c->json, "bench.timed"), "train", 5) == 0;
  return rp_number(c->json, step ? "model.train_predicted_ms" : "model.predicted_ms");
}

static void row(const rp_report *r, const rp_cell *c, vtb_strbuf *out) {
  char text[32];
  const cJSON *x;
  mk(out, "<tr><td><a href=\"#cell-%d\">%s</a></td>", c->number, c->label);
  mk(out, "<td class=\"num\">%s</td>", nr_digits(rp_number(c->json, "compiler.launches"), 1, text));
  mk(out, "<td class=\"num\">%s</td>", nr_bytes(rp_number(c->json, "compiler.bytes"), text));
  mk(out, "<td class=\"num\">%s</td>", rp_format(r, RP_MS, predicted(c), text));
  mk(out, "<td class=\"num\">%s</td>", rp_format(r, RP_MS, c->mean[RP_MS], text));
  vtb_strbuf_puts(out, "<td class=\"modes\">");
  cJSON_ArrayForEach(x, rp_get(c->json, "compiler.recurrences")) recurrence(x, out);
  vtb_strbuf_puts(out, "</td></tr>\n");
}

static int table(const rp_report *r, vtb_strbuf *out) {
  int n = 0;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (!cJSON_IsObject(rp_get(c->json, "compiler"))) continue;
    if (n++ == 0)
      vtb_strbuf_puts(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                           "aria-label=\"the compiler's view\"><table><thead><tr>"
                           "<th scope=\"col\">cell</th><th scope=\"col\" class=\"num\">launches"
                           "</th><th scope=\"col\" class=\"num\">moved</th><th scope=\"col\" "
                           "class=\"num\">predicted, ms</th><th scope=\"col\" class=\"num\">"
                           "measured, ms</th><th scope=\"col\">recurrences</th></tr></thead>"
                           "<tbody>\n");
    row(r, c, out);
  }
  if (n) vtb_strbuf_puts(out, "</tbody></table></div>\n");
  return n;
}

/* ---- predicted against measured -------------------------------------------------------------- */

static bool both(const rp_cell *c) { return predicted(c) > 0 && c->mean[RP_MS] > 0; }

static int take_all(const rp_report *r, chart *c) {
  int n = 0;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *cell = &r->cells.at[i];
    if (!both(cell)) continue;
    sc_take(&c->x, predicted(cell));
    sc_take(&c->x, cell->mean[RP_MS]);
    n++;
  }
  c->y = c->x; /* one scale, so that the diagonal is where both agree */
  return n;
}

static void prediction(const rp_report *r, vtb_strbuf *out) {
  en_code code = en_choose(r);
  chart c = ch_new(out, WIDTH, HEIGHT);
  c.x.log = true;
  if (take_all(r, &c) < 3) return;
  vtb_strbuf_puts(out, "<figure><h3>Prediction and clock</h3>\n");
  en_legend(r, code, out);
  ch_begin(&c, "measured against predicted time");
  ch_x_axis(&c, "predicted, ms", NULL, 0);
  ch_y_axis(&c, "measured, ms");
  mk(out, "<path class=\"diagonal\" d=\"M%.1f %.1fL%.1f %.1f\"/>", c.x.from, c.y.from, c.x.to,
     c.y.to);
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *cell = &r->cells.at[i];
    char a[32], b[32];
    if (!both(cell)) continue;
    mk(out,
       "<g class=\"mark s%d\" data-cell=\"%d\"><title>%s\npredicted %s ms\nmeasured %s ms</title>",
       en_colour(code, cell), cell->number, cell->label, nr_digits(predicted(cell), 3, a),
       nr_digits(cell->mean[RP_MS], 3, b));
    ch_mark(&c, en_shape(code, cell), sc_at(&c.x, predicted(cell)), sc_at(&c.y, cell->mean[RP_MS]),
            5);
    vtb_strbuf_puts(out, "</g>\n");
  }
  ch_end(&c);
  vtb_strbuf_puts(out,
                  "<figcaption>On the dotted line both agree; above it the cell is slower than "
                  "predicted.</figcaption></figure>\n");
}

bool sec_compiler(const rp_report *r, vtb_strbuf *out) {
  vtb_strbuf body = {0};
  bool any = table(r, &body) > 0;
  if (any) {
    vtb_strbuf_puts(out, "<section id=\"compiler\">\n<h2>What the compiler made of it</h2>\n");
    vtb_strbuf_write(out, body.at, body.n);
    prediction(r, out);
    vtb_strbuf_puts(out, "</section>\n");
  }
  vtb_strbuf_free(&body);
  return any;
}
