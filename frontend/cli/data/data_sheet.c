/* A contact sheet of a data set. */
#include "frontend/cli/data/data_sheet.h"
#include "frontend/draw/canvas.h"

#include <string.h>

enum { CELL = 88, GAP = 8, COLUMNS = 8, MOST_ROWS = 24, NAMES = 150, TEXT = 10 };

/* Numbers of at most COLUMNS samples of the class, evenly spread; class -1: of all. */
static int choose_samples(const vtb_dataset *d, int class, int64_t *samples) {
  int64_t n = vtb_dataset_count(d), of_class = 0, seen = 0;
  for (int64_t i = 0; i < n; i++) of_class += class < 0 || vtb_dataset_label(d, i) == class;
  int want = of_class < COLUMNS ? (int)of_class : COLUMNS, have = 0;
  for (int64_t i = 0; i < n && have < want; i++) {
    if (class >= 0 && vtb_dataset_label(d, i) != class) continue;
    if (seen++ * want >= have * of_class) samples[have++] = i;
  }
  return have;
}

/* Fits into a cell, in its proportions, in the middle. */
static void draw_sample(canvas *c, const vtb_dataset *d, int64_t i, double x, double y) {
  vtb_image im = {0};
  vtb_error why = {0};
  picture p = {0};
  picture_rect(&p, x, y, x + CELL, y + CELL, DRAW_GRID);
  if (vtb_dataset_image(d, i, 3, &im, &why) != VTB_OK) {
    picture_line(&p, x, y, x + CELL, y + CELL, PEN(DRAW_RGB(0xc03030), 2));
    picture_line(&p, x + CELL, y, x, y + CELL, PEN(DRAW_RGB(0xc03030), 2));
    canvas_take(c, &p);
    return;
  }
  canvas_take(c, &p);
  double scale = (double)CELL / (im.width > im.height ? im.width : im.height);
  double w = im.width * scale, h = im.height * scale;
  canvas_image(c, x + (CELL - w) / 2, y + (CELL - h) / 2, w, h, &im);
  vtb_image_free(&im);
}

static void draw_name(canvas *c, const char *name, double y) {
  size_t n = canvas_text_fit(name, TEXT, NAMES - 2 * GAP);
  vtb_strbuf text = {0};
  picture p = {0};
  vtb_strbuf_write(&text, name, n);
  if (n < strlen(name)) vtb_strbuf_puts(&text, "...");
  picture_text(&p, GAP, y, (lettering){.size = TEXT, .colour = DRAW_INK}, vtb_strbuf_text(&text));
  canvas_take(c, &p);
  vtb_strbuf_free(&text);
}

static void draw_row(canvas *c, const vtb_dataset *d, int class, const char *name, double y) {
  int64_t samples[COLUMNS];
  int n = choose_samples(d, class, samples);
  draw_name(c, name, y + (CELL + TEXT) / 2.0);
  for (int i = 0; i < n; i++) draw_sample(c, d, samples[i], NAMES + i * (CELL + GAP), y);
}

vtb_status data_sheet_save(const vtb_dataset *d, const char *path, vtb_error *err) {
  if (!vtb_dataset_has_images(d))
    return vtb_fail(err, VTB_E_USAGE, "%s has no images: there is no contact sheet of it",
                    vtb_dataset_name(d));
  int classes = vtb_dataset_has_labels(d) ? vtb_dataset_classes(d) : 0;
  int rows = classes > MOST_ROWS ? MOST_ROWS : classes ? classes : 1;
  canvas *c = canvas_new(NAMES + COLUMNS * (CELL + GAP), GAP + rows * (CELL + GAP));
  for (int row = 0; row < rows; row++) {
    int class = classes ? (int)((int64_t)row * classes / rows) : -1;
    const char *name = classes ? vtb_dataset_class_name(d, class) : vtb_dataset_name(d);
    draw_row(c, d, class, name, GAP + row * (CELL + GAP));
  }
  vtb_status status = canvas_save_png(c, path, err);
  canvas_free(c);
  return status;
}
