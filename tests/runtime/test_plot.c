#include "runtime/train/log.h"
#include "runtime/train/plot.h"
#include "tests/runtime/support.h"

static int count(const char *text, const char *part) {
  int n = 0;
  for (; (text = strstr(text, part)) != NULL; text++) n++;
  return n;
}

TEST(a_plot_has_axes_ticks_lines_and_escaped_text) {
  const double x[] = {0, 1, 2, 3, 4}, y[] = {2.1, 1.4, NAN, 0.9, 0.7}, z[] = {1, 2, 3, 4, 5};
  vtb_plot p = {.title = "loss < 3 & falling",
                .x_label = "epoch",
                .y_label = "loss",
                .series = (vtb_plot_series[]){{"train", x, y, 5}, {"eval", x, z, 5}},
                .n_series = 2};
  vtb_strbuf out = {0};
  vtb_plot_svg(&p, &out);
  CHECK(vtb_starts_with(out.at, "<svg ") && vtb_ends_with(out.at, "</svg>\n"));
  CHECK(strstr(out.at, "loss &lt; 3 &amp; falling") != NULL);
  CHECK(count(out.at, "class=\"line\"") == 4); /* two lines, two legend marks */
  CHECK(count(out.at, "<circle ") == 9);       /* a marker a point that is a number */
  CHECK(count(out.at, "class=\"grid\"") >= 8);
  CHECK(strstr(out.at, "nan") == NULL && strstr(out.at, "inf") == NULL);
  vtb_strbuf_free(&out);
}

TEST(strange_data_gives_a_plot_without_nan) {
  const double x[] = {1, 1}, y[] = {5, 5}, bad[] = {NAN, INFINITY}, zero[] = {0, -1};
  const vtb_plot_series all[] = {
      {"flat", x, y, 2}, {"bad", bad, bad, 2}, {"none", NULL, NULL, 0}, {"neg", x, zero, 2}};
  for (size_t i = 0; i < 4; i++)
    for (int log = 0; log < 2; log++) {
      vtb_plot p = {.title = "t",
                    .x_label = "x",
                    .y_label = "y",
                    .series = &all[i],
                    .n_series = 1,
                    .log_y = log};
      vtb_strbuf out = {0};
      vtb_plot_svg(&p, &out);
      CHECK(strstr(out.at, "nan") == NULL && strstr(out.at, "inf") == NULL);
      CHECK(count(out.at, "class=\"grid\"") >= 2);
      vtb_strbuf_free(&out);
    }
}

TEST(json_lines_escape_and_turn_what_is_not_finite_into_null) {
  vtb_log_field f[] = {{.key = "a\"b", .kind = VTB_LOG_TEXT, .text = "x\ny"},
                       {.key = "n", .kind = VTB_LOG_INT, .i = INT64_MAX},
                       {.key = "r", .kind = VTB_LOG_REAL, .r = 0.1},
                       {.key = "bad", .kind = VTB_LOG_REAL, .r = NAN}};
  vtb_strbuf out = {0};
  vtb_json_line(&out, f, 4);
  CHECK_STR(out.at, "{\"a\\\"b\":\"x\\ny\",\"n\":9223372036854775807,\"r\":0.1,\"bad\":null}\n");
  vtb_strbuf_free(&out);
}

int main(void) {
  RUN(a_plot_has_axes_ticks_lines_and_escaped_text);
  RUN(strange_data_gives_a_plot_without_nan);
  RUN(json_lines_escape_and_turn_what_is_not_finite_into_null);
  return test_done();
}
