/* Pictures: one list of shapes as SVG of a file, as an element of a page, as PNG and as PDF. */
#include "frontend/draw/picture.h"
#include "tests/test.h"

#include <math.h>
#include <unistd.h>

static picture draw(void) {
  picture p = {.width = 80, .height = 60};
  const draw_point at[] = {{1, 2}, {3, 4}, {NAN, 0}, {5, 6}};
  picture_begin(&p, (grouping){.tip = "a<b\nsecond", .cell = 3, .stop = true});
  picture_path(&p, at, 4, (pen){DRAW_SERIES + 1, 2, DASH_MIXED, 0.5});
  picture_rect(&p, 10, 10, 30, 20, DRAW_RGB(0xff0000));
  picture_disc(&p, 40, 40, 5, DRAW_NONE, PEN(DRAW_INK, 1));
  picture_end(&p);
  picture_text(&p, 50, 50, (lettering){.size = 5, .colour = DRAW_INK, .haloed = true}, "x&\x01");
  return p;
}

static char *svg(picture *p) {
  vtb_strbuf out = {0};
  picture_svg(p, &out);
  picture_free(p);
  return out.at;
}

#define HAS(text, part) CHECK_MSG(strstr(text, part) != NULL, "no %s in %s", part, text)

TEST(a_file_has_its_colours_and_no_groups) {
  picture p = draw();
  char *text = svg(&p);
  CHECK(vtb_starts_with(text, "<svg width=\"80\" height=\"60\""));
  HAS(text, "d=\"M1.0 2.0L3.0 4.0M5.0 6.0\" fill=\"none\" stroke=\"#cc4b00\" stroke-width=\"2\" "
            "stroke-dasharray=\"9 3 2 3\" opacity=\"0.5\"");
  HAS(text, "d=\"M10.0 10.0L30.0 10.0L30.0 20.0L10.0 20.0z\" fill=\"#ff0000\"");
  HAS(text, "stroke=\"#ffffff\" stroke-width=\"3\">x&amp;\\x01</text>");
  CHECK(!strstr(text, "<g") && !strstr(text, "second") && !strstr(text, "var("));
  vtb_free(text);
}

TEST(a_page_gives_the_colours_and_shows_tips) {
  picture p = draw();
  p.of_page = true;
  p.class_name = "chart";
  char *text = svg(&p);
  HAS(text, "class=\"chart\" aria-hidden=\"true\">");
  HAS(text, "<g class=\"mark\" data-cell=\"3\" tabindex=\"0\"><title>a&lt;b\nsecond</title>");
  HAS(text, "stroke=\"var(--c1)\"");
  HAS(text, "fill=\"#ff0000\"");
  CHECK(!strstr(text, "xmlns"));
  vtb_free(text);
}

/* The first bytes of the picture as it is written under this name; "": it is not. */
static void write_as(const char *ending, int width, char first[6]) {
  char path[64], *bytes = NULL;
  size_t n;
  vtb_error err = {0};
  picture p = draw();
  p.width = width;
  snprintf(path, sizeof path, "/tmp/vtb-picture-%d%s", (int)getpid(), ending);
  memset(first, 0, 6);
  if (picture_write(&p, path, &err) == VTB_OK &&
      vtb_file_read(path, 1 << 20, &bytes, &n, &err) == VTB_OK && n > 100)
    memcpy(first, bytes, 5);
  vtb_free(bytes);
  unlink(path);
  picture_free(&p);
}

TEST(names_end_in_what_is_written) {
  char first[6];
  write_as(".svg", 80, first);
  CHECK_STR(first, "<svg ");
  write_as(".png", 80, first);
  CHECK_STR(first, "\x89PNG\r");
  write_as(".pdf", 80, first);
  CHECK_STR(first, "%PDF-");
  write_as(".png", 40000, first); /* more than cairo's images are wide */
  CHECK_STR(first, "");
}

int main(void) {
  RUN(a_file_has_its_colours_and_no_groups);
  RUN(a_page_gives_the_colours_and_shows_tips);
  RUN(names_end_in_what_is_written);
  return test_done();
}
