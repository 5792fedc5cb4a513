/* The speed at which samples of a data set are prepared. */
#include "frontend/cli/bench/bench_data.h"
#include "runtime/data/survey.h"

#include <string.h>

typedef struct measured {
  const char *what;
  int workers;
  double per_second;
} measured;

/* Samples a second that the loader gives, after its first batches. */
static vtb_status rate(const vtb_dataset *d, const vtb_transform *t, const vtb_feed *feeds,
                       int n_feeds, int workers, double seconds, double *out, vtb_error *err) {
  int64_t batch = vtb_dataset_count(d) < 64 ? vtb_dataset_count(d) : 64, n = 0;
  vtb_loader_options o = {.dataset = d,
                          .transform = *t,
                          .batch = batch,
                          .shuffle = true,
                          .feeds = feeds,
                          .n_feeds = n_feeds,
                          .drop_last = true,
                          .n_epochs = INT32_MAX,
                          .n_threads = workers};
  vtb_loader *l = NULL;
  const vtb_batch *b;
  vtb_status status = vtb_loader_open(&o, &l, err);
  for (int i = 0; i < 4 && status == VTB_OK; i++) status = vtb_loader_next(l, &b, err);
  double start = vtb_now(), took = 0;
  while (status == VTB_OK && (took = vtb_now() - start) < seconds) {
    status = vtb_loader_next(l, &b, err);
    n += batch;
  }
  *out = took > 0 ? (double)n / took : 0;
  vtb_loader_close(l);
  return status;
}

/* Decoding alone: single samples on a thread, as the loader's workers decode them. */
static vtb_status decode_rate(const vtb_dataset *d, double seconds, double *out, vtb_error *err) {
  double start = vtb_now(), took = 0;
  int64_t n = 0;
  vtb_status status = VTB_OK;
  for (; status == VTB_OK && (took = vtb_now() - start) < seconds; n++) {
    vtb_image im = {0};
    vtb_error why = {0};
    int64_t i = vtb_permute(0, 0, vtb_dataset_count(d), n % vtb_dataset_count(d));
    if (vtb_dataset_image(d, i, 3, &im, &why) != VTB_OK) status = vtb_dataset_skip(d, i, &why, err);
    vtb_image_free(&im);
  }
  *out = took > 0 ? (double)n / took : 0;
  return status;
}

static vtb_status measure_all(const vtb_dataset *d, int height, int width, int workers,
                              double seconds, measured *m, int *n, vtb_error *err) {
  vtb_transform plain;
  vtb_status status = vtb_transform_init(&plain, d, 3, height, width, err);
  vtb_transform augmented = plain;
  augmented.augment = (vtb_augmentation){.scale_min = 0.08, .flip = true, .erase_prob = 0.25};
  const struct {
    const char *what;
    const vtb_transform *t;
    int workers;
  } rows[] = {{"decode and prepare", &plain, 1},
              {"decode and prepare", &plain, workers},
              {"decode, crop, flip, erase", &augmented, workers}};
  if (status == VTB_OK) {
    m[*n] = (measured){"decode alone", 1, 0};
    status = decode_rate(d, seconds, &m[(*n)++].per_second, err);
  }
  for (int i = 0; i < 3 && status == VTB_OK; i++) {
    if (i == 0 && workers == 1) continue;
    m[*n] = (measured){rows[i].what, rows[i].workers, 0};
    status = rate(d, rows[i].t, NULL, 0, rows[i].workers, seconds, &m[(*n)++].per_second, err);
  }
  return status;
}

static void tell_loading(const vtb_dataset *data, int height, int width, const measured *m, int n) {
  doc *d = doc_new(cJSON_CreateObject());
  cJSON *list = cJSON_AddArrayToObject(d->json, "rates");
  doc_say(d, 4, "%s, %s: %lld images, as %d x %d pixels", vtb_dataset_name(data),
          vtb_dataset_split(data), (long long)vtb_dataset_count(data), width, height);
  for (int i = 0; i < n; i++) {
    doc_item(list, F("what", m[i].what), F("workers", m[i].workers),
             F("images_per_second", m[i].per_second));
    doc_say(d, 4, "%-28s %2d worker%s %9.0f img/s, %.0f a worker", m[i].what, m[i].workers,
            m[i].workers > 1 ? "s" : " ", m[i].per_second, m[i].per_second / m[i].workers);
  }
  cli_tell(d);
}

static bool read_size(const char *text, int *height, int *width) {
  char rest;
  *height = *width = 224;
  if (!text) return true;
  if (sscanf(text, "%dx%d%c", height, width, &rest) == 2) return *height > 0 && *width > 0;
  if (sscanf(text, "%d%c", height, &rest) != 1 || *height < 1) return false;
  *width = *height;
  return true;
}

vtb_status bench_data(const cli_data_options *o, const char *image, double seconds) {
  vtb_error err = {0};
  vtb_dataset *d = NULL;
  vtb_layout layout;
  measured m[4];
  int height, width, n = 0;
  if (!read_size(image, &height, &width))
    return cli_usage_error("bench", "--image is SIZE or HEIGHTxWIDTH, not '%s'", image);
  vtb_dataset_options with = cli_data_for(o);
  cli_data_keep_memory();
  with.val_fraction = 0;
  vtb_status status = vtb_dataset_layout(o->path, &layout, &err);
  if (status == VTB_OK && layout.n_splits) with.split = layout.split[0];
  if (status == VTB_OK) status = vtb_dataset_open(o->path, &with, &d, &err);
  int workers = o->workers > 0 ? (int)o->workers : vtb_default_threads();
  if (status == VTB_OK) status = measure_all(d, height, width, workers, seconds / 4, m, &n, &err);
  if (status == VTB_OK) tell_loading(d, height, width, m, n);
  cli_data_say_damaged(d);
  vtb_dataset_free(d);
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}
