/* See train_augmented.h: a row a sample, first as it is, then as some epochs show it, each view
 * beside the others; classes of places below it. The loader of a training makes them. */
#include "frontend/cli/train/train_augmented.h"

#include "frontend/draw/canvas.h"

#include <math.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 7, CELL = 112, GAP = 8, HEAD = 24, TEXT = 9 };

typedef struct sheet {
  vtb_augments augments;
  vtb_transform transform;
  VTB_VEC(vtb_feed) feeds;
  int64_t rows; /* samples */
  int epochs;   /* drawn of each */
  int n_images, n_maps;
  canvas *canvas;
} sheet;

/* ---- what is loaded -------------------------------------------------------------------------- */

static int view_of(const vtb_arg_info *info) {
  int view = 0;
  return info->init && sscanf(info->init, "view %d", &view) == 1 ? view : 0;
}

/* The inputs of the model that begin with the batch. */
static vtb_status find_feeds(sheet *s, const vtb_func *f, const vtb_dataset *d, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int a = 0; a < f->n_args && status == VTB_OK; a++) {
    const vtb_type *t = &f->args[a]->type;
    if (f->arg_info[a].role != VTB_ROLE_INPUT || !t->rank) continue;
    vtb_feed feed = {.name = f->arg_info[a].official,
                     .is_int = t->dtype == VTB_I32,
                     .rank = t->rank - 1,
                     .view = view_of(&f->arg_info[a])};
    for (int k = 1; k < t->rank; k++) feed.dim[k - 1] = t->dim[k].size;
    status = vtb_feed_find(&feed, d, &s->transform, err);
    s->n_images += feed.kind == VTB_FEED_IMAGE;
    s->n_maps += feed.kind == VTB_FEED_MASK;
    vtb_vec_push(&s->feeds, feed);
  }
  if (status == VTB_OK && !s->n_images)
    status = vtb_fail(err, VTB_E_USAGE,
                      vtb_dataset_has_images(d)
                          ? "--augmented draws images, and none is an input"
                          : "--augmented draws images, and the data has arrays, whose numbers are "
                            "no colours");
  return status == VTB_OK ? vtb_feeds_check(s->feeds.at, (int)s->feeds.n, err) : status;
}

/* Numbers from 0 to 1, whatever the model's mean and deviation. */
static vtb_status plan_images(sheet *s, const char *what, const vtb_compilation *c,
                              const train_options *o, vtb_error *err) {
  int channels, height, width;
  VTB_TRY(vtb_compilation_image_size(c, &channels, &height, &width));
  vtb_augmentation augment = o->train.train_transform.augment;
  const cli_prepare_sources from = {.command = "train",
                                    .model = what,
                                    .said = c->module->prepare ? c->module->prepare : "",
                                    .data = o->train.train_set,
                                    .options = &o->prepare,
                                    .channels = channels,
                                    .height = height,
                                    .width = width};
  VTB_TRY(cli_prepare(&from, &s->transform, err));
  s->transform.augment = augment;
  for (int k = 0; k < 3; k++) s->transform.prepare.mean[k] = 0, s->transform.prepare.std[k] = 1;
  return vtb_augmentation_check(&augment, height, width, err);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void draw_text(sheet *s, double x, double y, const char *text) {
  picture p = {0};
  picture_text(&p, x, y, LETTERS(TEXT, DRAW_INK, ANCHOR_MIDDLE, false), text);
  canvas_take(s->canvas, &p);
}

/* (C, H, W) in a square cell, in its proportions. */
static void draw_image(sheet *s, const vtb_feed *f, const float *chw, double x, double y) {
  int c = (int)f->dim[0], h = (int)f->dim[1], w = (int)f->dim[2];
  vtb_image im = vtb_image_new(w, h, c), rgb;
  for (int i = 0; im.pixels && i < c * h * w; i++)
    im.pixels[i % (h * w) * c + i / (h * w)] = (uint8_t)lrintf(255 * fminf(1, fmaxf(0, chw[i])));
  rgb = vtb_image_convert(&im, 3);
  double scale = (double)CELL / (w > h ? w : h);
  if (rgb.pixels)
    canvas_image(s->canvas, x + (CELL - w * scale) / 2, y + (CELL - h * scale) / 2, w * scale,
                 h * scale, &rgb);
  vtb_image_free(&im);
  vtb_image_free(&rgb);
}

/* A colour a class, none for places that do not count; each place as large as in the image. */
static void draw_map(sheet *s, const vtb_feed *f, const int32_t *classes, double x, double y) {
  int side = f->width > f->height ? f->width : f->height, w = CELL * f->width / side,
      h = CELL * f->height / side;
  vtb_image im = vtb_image_new(w, h, 3);
  for (int i = 0; im.pixels && i < w * h; i++) {
    int class = classes[i / w * f->height / h * f->width + i % w * f->width / w];
    uint32_t hash = (uint32_t)(class + 1) * UINT32_C(0x9E3779B1);
    bool counts = class >= 0 && class != 255;
    for (int k = 0; k < 3; k++)
      im.pixels[3 * i + k] = counts ? (uint8_t)(48 + (hash >> (8 * k + 8) & 255) * 3 / 5) : 255;
  }
  if (im.pixels) canvas_image(s->canvas, x, y, w, h, &im);
  vtb_image_free(&im);
}

static double column_x(const sheet *s, int column) {
  double apart = column && s->n_images ? 2.0 * GAP + GAP * ((column - 1) / s->n_images) : 0;
  return GAP + column * (CELL + GAP) + apart;
}

static double row_y(const sheet *s, int64_t row) {
  return HEAD + (double)row * (1 + (s->n_maps > 0)) * (CELL + GAP);
}

/* Epoch e of a batch; -1: as it is, of which the first image stands for all. */
static void draw_batch(sheet *s, const vtb_batch *b, int e) {
  int image = 0;
  for (size_t i = 0; i < s->feeds.n; i++) {
    const vtb_feed *f = &s->feeds.at[i];
    bool is_image = f->kind == VTB_FEED_IMAGE;
    if ((!is_image && f->kind != VTB_FEED_MASK) || (e < 0 && is_image && image)) continue;
    int column = e < 0 ? 0 : 1 + e * s->n_images + (is_image ? image : 0);
    double x = column_x(s, column);
    for (int64_t row = 0; row < b->n; row++) {
      if (is_image)
        draw_image(s, f, (const float *)b->at[i] + row * f->count, x, row_y(s, row));
      else
        draw_map(s, f, (const int32_t *)b->at[i] + row * f->count, x, row_y(s, row) + CELL + GAP);
    }
    image += is_image;
  }
}

static void draw_heads(sheet *s) {
  int column = 1;
  draw_text(s, column_x(s, 0) + CELL / 2.0, HEAD - GAP, "as it is");
  for (int e = 0; e < s->epochs; e++)
    for (size_t i = 0; i < s->feeds.n; i++) {
      if (s->feeds.at[i].kind != VTB_FEED_IMAGE) continue;
      char text[80];
      snprintf(text, sizeof text, s->n_images > 1 ? "epoch %d, %s" : "epoch %d", e + 1,
               s->feeds.at[i].name);
      draw_text(s, column_x(s, column++) + CELL / 2.0, HEAD - GAP, text);
    }
}

/* Batches of all epochs, augmented, or one without anything random. */
static vtb_status load(sheet *s, const train_options *o, bool plain, vtb_error *err) {
  vtb_loader_options with = {.dataset = o->train.train_set,
                             .transform = s->transform,
                             .batch = s->rows,
                             .feeds = s->feeds.at,
                             .n_feeds = (int)s->feeds.n,
                             .augments = s->augments.at,
                             .n_augments = plain ? 0 : (int)s->augments.n,
                             .seed = o->train.seed,
                             .n_epochs = plain ? 1 : s->epochs,
                             .n_threads = (int)o->data.workers};
  if (plain) with.transform.augment = (vtb_augmentation){0};
  vtb_loader *loader;
  const vtb_batch *batch;
  VTB_TRY(vtb_loader_open(&with, &loader, err));
  vtb_status status = vtb_loader_next(loader, &batch, err);
  while (status == VTB_OK && batch) {
    if (batch->index == 0) draw_batch(s, batch, plain ? -1 : (int)batch->epoch);
    status = vtb_loader_next(loader, &batch, err);
  }
  vtb_loader_close(loader);
  return status;
}

static vtb_status draw(sheet *s, const train_options *o, const char *path, vtb_error *err) {
  int64_t n = vtb_dataset_count(o->train.train_set);
  s->rows = n < ROWS ? n : ROWS;
  s->epochs = s->n_images < COLUMNS ? COLUMNS / s->n_images : 1;
  int columns = 1 + s->epochs * s->n_images;
  s->canvas = canvas_new((int)column_x(s, columns - 1) + CELL + GAP, (int)row_y(s, s->rows));
  draw_heads(s);
  vtb_status status = load(s, o, true, err);
  if (status == VTB_OK) status = load(s, o, false, err);
  if (status == VTB_OK) status = canvas_save_png(s->canvas, path, err);
  canvas_free(s->canvas);
  return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static vtb_status make(const char *what, train_options *o, const char *path, vtb_error *err) {
  sheet s = {.rows = 0};
  vtb_compilation c;
  vtb_compile_options with = cli_compile_options(&o->model, o->source ? o->source : what);
  with.training = true;
  vtb_status status = vtb_compilation_load(&c, &with, NULL, o->model.report);
  if (status == VTB_OK) status = vtb_compile_augments(&c, &s.augments, o->model.report);
  if (status == VTB_OK) status = plan_images(&s, what, &c, o, err);
  if (status == VTB_OK) status = find_feeds(&s, c.module->entry, o->train.train_set, err);
  vtb_status told = cli_report(&o->model, err->text[0] ? VTB_OK : status);
  if (status == VTB_OK) status = draw(&s, o, path, err);
  vtb_compilation_free(&c);
  vtb_augments_free(&s.augments);
  vtb_vec_free(&s.feeds);
  return told == VTB_OK ? status : told;
}

vtb_status train_augmented(const char *what, train_options *o, const char *path) {
  vtb_dataset *train, *val;
  vtb_error err = {0};
  if (cli_is_built(what))
    return cli_usage_error("train", "--augmented is for a model's source, and %s is compiled",
                           what);
  if (!o->data.limit) o->data.limit = ROWS;
  vtb_dataset_options with = cli_data_for(&o->data);
  with.val_fraction = 0;
  vtb_status status = vtb_dataset_open_pair(o->data.path, &with, o->data.split, &train, &val, &err);
  if (status != VTB_OK) return cli_error(&err);
  o->train.train_set = train;
  status = make(what, o, path, &err);
  if (status != VTB_OK && err.text[0]) cli_error(&err);
  if (status == VTB_OK && !o->quiet) cli_say("%s: what training makes of some samples\n", path);
  vtb_dataset_free(train);
  vtb_dataset_free(val);
  return status;
}
