/* Line plots: where lines, ticks and legends stand. */
#include "frontend/draw/plot.h"
#include "tests/test.h"

static int count(const char *text, const char *part) {
  int n = 0;
  for (; (text = strstr(text, part)) != NULL; text++) n++;
  return n;
}

static void svg_of(const plot *p, vtb_strbuf *out) {
  picture drawn = {0};
  plot_draw(p, &drawn);
  picture_svg(&drawn, out);
  picture_free(&drawn);
}

TEST(a_plot_has_axes_ticks_lines_and_escaped_text) {
  const double x[] = {0, 1, 2, 3, 4}, y[] = {2.1, 1.4, NAN, 0.9, 0.7}, z[] = {1, 2, 3, 4, 5};
  plot p = {.title = "loss < 3 & falling",
            .x_label = "epoch",
            .y_label = "loss",
            .series = (plot_series[]){{"train", x, y, 5}, {"eval", x, z, 5}},
            .n_series = 2};
  vtb_strbuf out = {0};
  svg_of(&p, &out);
  CHECK(vtb_starts_with(out.at, "<svg ") && vtb_ends_with(out.at, "</svg>\n"));
  CHECK(strstr(out.at, "loss &lt; 3 &amp; falling") != NULL);
  CHECK(count(out.at, "stroke-width=\"1.8\"") == 4); /* two lines, two legend marks */
  CHECK(count(out.at, "<circle ") == 9);             /* a marker a point that is a number */
  CHECK(count(out.at, "stroke=\"#ececea\"") >= 8);
  CHECK(strstr(out.at, "nan") == NULL && strstr(out.at, "inf") == NULL);
  vtb_strbuf_free(&out);
}

/* Where the text of a legend or tick stands, from its y; -1: there is none. */
static double height_of(const char *svg, const char *text) {
  char end[64];
  snprintf(end, sizeof end, ">%s</text>", text);
  const char *at = strstr(svg, end);
  while (at && at > svg && !vtb_starts_with(at, "y=\"")) at--;
  return at && at > svg ? atof(at + 3) : -1;
}

/* Where a number stands: frames reach from 64 to 624 and from 358 up to 46, with a margin of 0.07
 * of the range on each side. */
static double across(double x) { return 64 + (x / 3 + 0.07) / 1.14 * 560; }
static double up(double y) { return 358 - (y / 10 + 0.07) / 1.14 * 312; }

/* Nothing joins points over one that is missing. */
TEST(lines_stand_at_their_numbers) {
  const double x[] = {0, 1, 2, 3}, high[] = {0, 10, 10, 10}, low[] = {2, NAN, 4, 4};
  plot p = {.title = "t",
            .x_label = "x",
            .y_label = "y",
            .series = (plot_series[]){{"high", x, high, 4}, {"low", x, low, 4}},
            .n_series = 2};
  vtb_strbuf out = {0};
  svg_of(&p, &out);
  char line[128];
  snprintf(line, sizeof line, "d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1f\"", across(0), up(0),
           across(1), up(10), across(2), up(10), across(3), up(10));
  CHECK_MSG(strstr(out.at, line) != NULL, "no %s", line);
  snprintf(line, sizeof line, "d=\"M%.1f %.1fM%.1f %.1fL%.1f %.1f\"", across(0), up(2), across(2),
           up(4), across(3), up(4));
  CHECK_MSG(strstr(out.at, line) != NULL, "no %s", line);
  for (int tick = 4; tick <= 10; tick += 2) { /* steps of 1, 2 or 5 times a power of ten */
    char text[8];
    snprintf(text, sizeof text, "%d", tick);
    CHECK_NEAR(height_of(out.at, text), up(tick) + 4, 0.1);
  }
  CHECK(height_of(out.at, "5") < 0 && height_of(out.at, "12") < 0);
  vtb_strbuf_free(&out);
}

TEST(the_legend_takes_the_emptier_corner) {
  const double x[] = {0, 1, 2, 3, 4}, rising[] = {0, 1, 8, 9, 10}, falling[] = {10, 9, 2, 1, 0};
  for (int falls = 0; falls < 2; falls++) {
    const double *y = falls ? falling : rising;
    plot p = {.title = "t",
              .x_label = "x",
              .y_label = "y",
              .series = (plot_series[]){{"first", x, y, 5}, {"second", x, y, 5}},
              .n_series = 2};
    vtb_strbuf out = {0};
    svg_of(&p, &out);
    double at = height_of(out.at, "first");
    CHECK_MSG(at > 0 && (falls ? at < 193 : at > 193), "the legend stands at %g", at);
    CHECK_NEAR(height_of(out.at, "second"), at + 17, 0.1);
    vtb_strbuf_free(&out);
  }
}

TEST(strange_data_gives_a_plot_without_nan) {
  const double x[] = {1, 1}, y[] = {5, 5}, bad[] = {NAN, INFINITY}, zero[] = {0, -1};
  const plot_series all[] = {
      {"flat", x, y, 2}, {"bad", bad, bad, 2}, {"none", NULL, NULL, 0}, {"neg", x, zero, 2}};
  for (size_t i = 0; i < 4; i++)
    for (int log = 0; log < 2; log++) {
      plot p = {.title = "t",
                .x_label = "x",
                .y_label = "y",
                .series = &all[i],
                .n_series = 1,
                .log_y = log};
      vtb_strbuf out = {0};
      svg_of(&p, &out);
      CHECK(strstr(out.at, "nan") == NULL && strstr(out.at, "inf") == NULL);
      CHECK(count(out.at, "stroke=\"#ececea\"") >= 2);
      vtb_strbuf_free(&out);
    }
}

int main(void) {
  RUN(a_plot_has_axes_ticks_lines_and_escaped_text);
  RUN(lines_stand_at_their_numbers);
  RUN(the_legend_takes_the_emptier_corner);
  RUN(strange_data_gives_a_plot_without_nan);
  return test_done();
}
