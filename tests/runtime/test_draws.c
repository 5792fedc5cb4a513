/* What must differ differs, and what is counted is right: orders of epochs, masks of steps, where
 * rectangles are erased, and on which rank a sample is among the best five. */
#include "runtime/launch/pixels.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train.h"
#include "tests/runtime/fake_program.h"

static vtb_dataset *open_images(const char *name, const char *stem, int n) {
  vtb_dataset *d = NULL;
  fake_dataset(name, stem, n, 3);
  CHECK_OK(vtb_dataset_open(temp_path(name), NULL, &d, err));
  if (!d) exit(1);
  return d;
}

/* ---- what augmentations may do, they do ------------------------------------------------------ */

enum { WIDE = 60, HIGH = 50, MOST = 2, TIMES = 600 };

/* Pixels that say where they are: 4 x and 4 y. */
static vtb_image places(void) {
  vtb_image im = vtb_image_new(WIDE, HIGH, 3);
  for (int i = 0; i < WIDE * HIGH; i++) {
    im.pixels[3 * i] = (uint8_t)(4 * (i % WIDE) + 1);
    im.pixels[3 * i + 1] = (uint8_t)(4 * (i / WIDE) + 1);
    im.pixels[3 * i + 2] = 0;
  }
  return im;
}

static vtb_transform unchanged(int height, int width) {
  return (vtb_transform){.prepare = {.channels = 3,
                                     .height = height,
                                     .width = width,
                                     .std = {1.0f / 255, 1.0f / 255, 1.0f / 255},
                                     .crop = 1,
                                     .filter = VTB_FILTER_BILINEAR}};
}

/* Every shift in both directions comes, each as often as others, and x says nothing of y. */
TEST(shifts_reach_every_place) {
  vtb_image im = places();
  vtb_transform t = unchanged(HIGH, WIDE);
  static float out[3 * WIDE * HIGH];
  int times[2 * MOST + 1][2 * MOST + 1] = {{0}};
  t.augment.shift = MOST;
  for (int64_t key = 0; key < TIMES; key++) {
    CHECK(vtb_transform_apply(&t, &im, vtb_sample_key(3, 0, key), out));
    int middle = HIGH / 2 * WIDE + WIDE / 2;
    int dx = (int)lrintf((out[middle] - 1) / 4) - WIDE / 2;
    int dy = (int)lrintf((out[WIDE * HIGH + middle] - 1) / 4) - HIGH / 2;
    CHECK(abs(dx) <= MOST && abs(dy) <= MOST);
    if (abs(dx) <= MOST && abs(dy) <= MOST) times[dy + MOST][dx + MOST]++;
    CHECK((out[0] == 0) == (dx < 0 || dy < 0)); /* what comes in is black */
  }
  for (int y = 0; y <= 2 * MOST; y++)
    for (int x = 0; x <= 2 * MOST; x++) /* 24 on average */
      CHECK_MSG(times[y][x] > 6 && times[y][x] < 50, "by (%d, %d) %d times", x - MOST, y - MOST,
                times[y][x]);
  vtb_image_free(&im);
}

/* Crops have areas from the least to all, sides from 3 : 4 to 4 : 3, and lie anywhere. */
TEST(crops_reach_every_size_and_edge) {
  enum { SIDE = 12 };
  vtb_image im = places();
  vtb_transform t = unchanged(SIDE, SIDE);
  float out[3 * SIDE * SIDE];
  double least = 1, most = 0, flattest = 1, steepest = 1, left = 99, right = 0, top = 99,
         bottom = 0;
  t.augment.scale_min = 0.3;
  for (int64_t key = 0; key < TIMES; key++) {
    CHECK(vtb_transform_apply(&t, &im, vtb_sample_key(5, 0, key), out));
    /* straight lines away from the edges of the crop, where the filter is cut off */
    const float *x = out + 5 * SIDE, *y = out + SIDE * SIDE + 5;
    double step_x = (double)(x[8] - x[3]) / 20, step_y = (double)(y[8 * SIDE] - y[3 * SIDE]) / 20;
    double w = step_x * SIDE, h = step_y * SIDE, area = w * h / (WIDE * HIGH);
    double from_x = (double)(x[3] - 1) / 4 + 0.5 - 3.5 * step_x,
           from_y = (double)(y[3 * SIDE] - 1) / 4 + 0.5 - 3.5 * step_y;
    least = fmin(least, area), most = fmax(most, area);
    flattest = fmax(flattest, w / h), steepest = fmin(steepest, w / h);
    left = fmin(left, from_x), right = fmax(right, from_x + w);
    top = fmin(top, from_y), bottom = fmax(bottom, from_y + h);
  }
  CHECK_MSG(least > 0.27 && least < 0.36 && most > 0.85 && most < 1.05, "areas from %g to %g",
            least, most);
  CHECK_MSG(flattest > 1.2 && flattest < 1.42 && steepest < 0.83 && steepest > 0.70,
            "sides from %g to %g", steepest, flattest);
  CHECK_MSG(left > -1 && left < 1 && right > WIDE - 1 && right < WIDE + 1, "x from %g to %g", left,
            right);
  CHECK_MSG(top > -1 && top < 1 && bottom > HIGH - 1 && bottom < HIGH + 1, "y from %g to %g", top,
            bottom);
  vtb_image_free(&im);
}

/* Rows that fill up a batch of bytes are erased as a whole, of images that are no squares too. */
TEST(padding_is_erased_from_edge_to_edge) {
  enum { B = 8, H = 5, W = 9 };
  vtb_dataset *d = open_images("padded", "train", 11);
  vtb_loader_options o = {.dataset = d, .batch = B, .n_epochs = 1, .pixels = true};
  CHECK_OK(vtb_transform_init(&o.transform, d, 1, H, W, err));
  vtb_loader *l = NULL;
  const vtb_batch *b = NULL;
  CHECK_OK(vtb_loader_open(&o, &l, err));
  for (int batch = 0; batch < 2; batch++) {
    CHECK_OK(vtb_loader_next(l, &b, err));
    if (!b) exit(1);
    vtb_pixels at = vtb_pixels_layout(B, 1, H * W);
    const int32_t *box = (const int32_t *)(const void *)((const char *)b->images + at.erased);
    CHECK(b->n == (batch ? 3 : B));
    for (int64_t i = 0; i < B; i++, box += 4)
      CHECK(i < b->n ? box[2] == 0 && box[3] == 0
                     : box[0] == 0 && box[1] == 0 && box[2] == W && box[3] == H);
  }
  vtb_loader_close(l);
  vtb_dataset_free(d);
}

/* Classes are numbers that have nothing between them, whatever happens to their image. */
TEST(classes_stay_classes_in_crops) {
  enum { SIDE = 24 };
  vtb_image im = vtb_image_new(WIDE, HIGH, 1);
  vtb_transform t = unchanged(SIDE, SIDE);
  int32_t out[SIDE * SIDE];
  for (int i = 0; i < WIDE * HIGH; i++) im.pixels[i] = (i / 7 + i / WIDE) % 2 ? 1 : 9;
  t.augment.scale_min = 0.2, t.augment.shift = 3, t.augment.flip = true;
  for (int64_t key = 0; key < 40; key++) {
    CHECK(vtb_transform_mask(&t, &im, vtb_sample_key(7, 0, key), SIDE, SIDE, out));
    int wrong = 0;
    for (int i = 0; i < SIDE * SIDE; i++) wrong += out[i] != 1 && out[i] != 9 && out[i] != 255;
    CHECK_MSG(wrong == 0, "%d other classes", wrong);
  }
  vtb_image_free(&im);
}

/* ---- the order of an epoch ------------------------------------------------------------------- */

enum { N = 64, EPOCHS = 3 };

/* The sample numbers as they come, EPOCHS x N. */
static void read_orders(const vtb_dataset *d, uint64_t seed, int64_t *out) {
  vtb_loader_options o = {.dataset = d, .batch = 8, .shuffle = true, .seed = seed};
  CHECK_OK(vtb_transform_init(&o.transform, d, 1, FAKE_SIDE, FAKE_SIDE, err));
  o.n_epochs = EPOCHS;
  vtb_loader *l = NULL;
  CHECK_OK(vtb_loader_open(&o, &l, err));
  const vtb_batch *b = NULL;
  for (int i = 0; i < EPOCHS * N / 8; i++) {
    CHECK_OK(vtb_loader_next(l, &b, err));
    if (!b) exit(1);
    CHECK(b->n == 8 && b->epoch == i / (N / 8) && b->index == i % (N / 8));
    memcpy(out + 8 * i, b->samples, 8 * sizeof *out);
  }
  CHECK_OK(vtb_loader_next(l, &b, err));
  CHECK(!b);
  vtb_loader_close(l);
}

/* How many places hold the same sample in both. */
static int same_places(const int64_t *a, const int64_t *b) {
  int same = 0;
  for (int i = 0; i < N; i++) same += a[i] == b[i];
  return same;
}

TEST(epochs_and_seeds_have_orders_of_their_own) {
  vtb_dataset *d = open_images("orders", "train", N);
  int64_t one[EPOCHS * N], again[EPOCHS * N], other[EPOCHS * N], in_order[N];
  read_orders(d, 7, one);
  read_orders(d, 7, again);
  read_orders(d, 8, other);
  CHECK(memcmp(one, again, sizeof one) == 0);
  for (int i = 0; i < N; i++) in_order[i] = i;
  for (int e = 0; e < EPOCHS; e++) {
    int times[N] = {0};
    for (int i = 0; i < N; i++) times[one[e * N + i]]++;
    for (int i = 0; i < N; i++) CHECK_MSG(times[i] == 1, "sample %d: %d times", i, times[i]);
    CHECK(same_places(one + e * N, in_order) < 8);
    CHECK(same_places(one + e * N, other + e * N) < 8);
    CHECK(same_places(one + e * N, one + (e + 1) % EPOCHS * N) < 8);
  }
  vtb_dataset_free(d);
}

/* A sample is augmented anew in every epoch. */
TEST(epochs_have_augmentations_of_their_own) {
  enum { SAMPLES = 16 };
  vtb_dataset *d = open_images("anew", "train", SAMPLES);
  vtb_loader_options o = {.dataset = d, .batch = SAMPLES, .shuffle = true, .n_epochs = 32};
  CHECK_OK(vtb_transform_init(&o.transform, d, 1, FAKE_SIDE, FAKE_SIDE, err));
  o.transform.augment.shift = 2;
  vtb_loader *l = NULL;
  CHECK_OK(vtb_loader_open(&o, &l, err));
  float first[FAKE_PIXELS] = {0};
  int same = 0;
  for (int e = 0; e < 32; e++) {
    const vtb_batch *b = NULL;
    int at = 0;
    CHECK_OK(vtb_loader_next(l, &b, err));
    if (!b) exit(1);
    while (at < SAMPLES - 1 && b->samples[at] != 3) at++;
    if (e == 0) memcpy(first, b->images + at * FAKE_PIXELS, sizeof first);
    same += memcmp(first, b->images + at * FAKE_PIXELS, sizeof first) == 0;
  }
  CHECK_MSG(same < 8, "%d of 32 are like the first", same); /* by chance one in 25 */
  vtb_loader_close(l);
  vtb_dataset_free(d);
}

/* ---- the mask of a step ---------------------------------------------------------------------- */

enum { STEPS = 36 };
static int32_t seeds[STEPS];
static int n_seeds;

static void note_seed(void *const *a, void *workspace, const vtb_services *s) {
  if (n_seeds < STEPS) seeds[n_seeds++] = *(const int32_t *)a[2];
  fake_step(a, workspace, s);
}

static void train(const vtb_train_config *c) {
  vtb_trainer *t = NULL;
  CHECK_OK(vtb_trainer_open(c, &t, err));
  if (!t) exit(1);
  CHECK_OK(vtb_trainer_run(t, NULL, err));
  vtb_trainer_close(t);
}

TEST(steps_have_masks_of_their_own_and_a_resumed_run_the_same) {
  vtb_dataset *d = open_images("masks", "train", 96);
  vtb_services *s = vtb_services_default(1);
  vtb_program step = fake_step_program();
  step.entry = note_seed;
  vtb_train_config c = vtb_train_defaults();
  c.step = &step, c.services = s, c.train_set = d, c.epochs = 3, c.seed = 5;
  c.optim.clip_norm = 1, c.optim.ema_decay = 0.9;
  CHECK_OK(vtb_transform_init(&c.train_transform, d, 1, FAKE_SIDE, FAKE_SIDE, err));
  train(&c);
  CHECK(n_seeds == STEPS);
  for (int i = 0; i < STEPS; i++)
    for (int k = 0; k < i; k++) CHECK_MSG(seeds[i] != seeds[k], "steps %d and %d", k, i);
  int32_t whole[STEPS];
  memcpy(whole, seeds, sizeof whole);
  n_seeds = 0;
  c.checkpoint = temp_path("masks.safetensors"), c.resume = true, c.max_steps = 17;
  train(&c);
  c.max_steps = 0;
  train(&c);
  CHECK(n_seeds == STEPS && memcmp(whole, seeds, sizeof whole) == 0);
  n_seeds = 0;
  c.checkpoint = NULL, c.seed = 6;
  train(&c);
  for (int i = 0; i < STEPS; i++) CHECK(seeds[i] != whole[i]);
  vtb_services_free(s);
  vtb_dataset_free(d);
}

/* ---- where is erased ------------------------------------------------------------------------- */

enum { SIDE = 32, KEYS = 3000 };

typedef struct tally {
  int erased; /* images */
  int column[SIDE], row[SIDE];
  double area, width, height; /* sums of fractions */
} tally;

/* Adds the rectangle of zeros of an image that was 1 everywhere; checks that it is one. */
static void find_rectangle(tally *t, const float *image) {
  int x0 = SIDE, x1 = -1, y0 = SIDE, y1 = -1, zeros = 0;
  for (int i = 0; i < SIDE * SIDE; i++) {
    if (image[i] != 0) continue;
    int x = i % SIDE, y = i / SIDE;
    zeros++;
    x0 = x < x0 ? x : x0, x1 = x > x1 ? x : x1;
    y0 = y < y0 ? y : y0, y1 = y > y1 ? y : y1;
  }
  if (!zeros) return;
  int w = x1 - x0 + 1, h = y1 - y0 + 1;
  CHECK_MSG(zeros == w * h, "%d pixels in a box of %d x %d", zeros, w, h);
  for (int x = x0; x <= x1; x++) t->column[x]++;
  for (int y = y0; y <= y1; y++) t->row[y]++;
  t->erased++;
  t->area += (double)zeros / (SIDE * SIDE);
  t->width += (double)w / SIDE;
  t->height += (double)h / SIDE;
}

/* Every row and column, the last too, in images that are as often erased as was asked. */
TEST(erased_rectangles_reach_every_edge) {
  vtb_image im = vtb_image_new(SIDE, SIDE, 1);
  memset(im.pixels, 255, SIDE * SIDE);
  vtb_transform f = {
      .prepare = {.channels = 1, .height = SIDE, .width = SIDE, .std = {1}, .crop = 1}};
  f.augment.erase_prob = 0.5;
  tally t = {0};
  float out[SIDE * SIDE];
  for (int k = 0; k < KEYS; k++) {
    CHECK(vtb_transform_apply(&f, &im, vtb_sample_key(2, 0, k), out));
    find_rectangle(&t, out);
  }
  CHECK_MSG(abs(t.erased - KEYS / 2) < KEYS / 20, "%d of %d", t.erased, KEYS);
  for (int i = 0; i < SIDE; i++) {
    CHECK_MSG(t.column[i] > 0 && t.row[i] > 0, "column or row %d is never erased", i);
    CHECK_MSG(abs(t.column[i] - t.column[SIDE - 1 - i]) < 100, "column %d: %d, opposite %d", i,
              t.column[i], t.column[SIDE - 1 - i]);
    CHECK_MSG(abs(t.row[i] - t.row[SIDE - 1 - i]) < 100, "row %d: %d, opposite %d", i, t.row[i],
              t.row[SIDE - 1 - i]);
  }
  CHECK_NEAR(t.area / t.erased, (0.02 + 1.0 / 3) / 2, 0.01);
  CHECK_NEAR(t.width / t.erased, t.height / t.erased, 0.03);
  vtb_image_free(&im);
}

/* ---- counts of an evaluation ----------------------------------------------------------------- */

enum { CLASSES = 9, SAMPLES = 45 };

/* Pixel 0 says which class the sample is and on which rank its score comes, from 0. */
static void ranked(void *const *a, void *workspace, const vtb_services *s) {
  (void)workspace, (void)s;
  for (int i = 0; i < FAKE_BATCH; i++) {
    int said = (int)lrintf(((const float *)a[0])[i * FAKE_PIXELS]), class = said / 16,
        above = said % 16;
    float *row = (float *)a[1] + i * CLASSES;
    for (int k = 0, n = 0; k < CLASSES; k++)
      row[k] = k == class ? 0.5f : n++ < above ? 1.0f + (float)k : -1.0f - (float)k;
  }
}

static void alike(void *const *a, void *workspace, const vtb_services *s) {
  (void)workspace, (void)s;
  for (int i = 0; i < FAKE_BATCH * CLASSES; i++) ((float *)a[1])[i] = 3;
}

static void write_ranks(const char *folder) {
  unsigned char images[16 + SAMPLES * FAKE_PIXELS] = {0, 0, 8, 3,         0, 0, 0, SAMPLES,
                                                      0, 0, 0, FAKE_SIDE, 0, 0, 0, FAKE_SIDE};
  unsigned char labels[8 + SAMPLES] = {0, 0, 8, 1, 0, 0, 0, SAMPLES};
  char path[256];
  vtb_error err = {0};
  if (vtb_make_dirs(temp_path(folder), &err) != VTB_OK) exit(1);
  for (int i = 0; i < SAMPLES; i++) {
    labels[8 + i] = (unsigned char)(i / 5 % CLASSES);
    images[16 + i * FAKE_PIXELS] = (unsigned char)(16 * labels[8 + i] + i % CLASSES);
  }
  snprintf(path, sizeof path, "%s/t10k-images-idx3-ubyte", folder);
  write_file(temp_path(path), images, sizeof images);
  snprintf(path, sizeof path, "%s/t10k-labels-idx1-ubyte", folder);
  write_file(temp_path(path), labels, sizeof labels);
}

/* Each of nine ranks five times: one ninth is first, five ninths are among the first five. The
 * last of six batches is three samples padding. */
TEST(the_first_and_the_first_five_are_counted) {
  write_ranks("ranks");
  vtb_tensor_info tensors[2] = {FAKE_IMAGE, FAKE_LOGITS};
  tensors[1].dim[1] = CLASSES;
  vtb_program p = {.entry = ranked, .n_tensors = 2, .tensors = tensors, .batch = FAKE_BATCH};
  vtb_services *s = vtb_services_default(1);
  vtb_dataset *d = NULL;
  vtb_dataset_options split = {.split = "test"};
  CHECK_OK(vtb_dataset_open(temp_path("ranks"), &split, &d, err));
  vtb_eval_options o = {.dataset = d, .services = s, .confusion = true};
  o.transform =
      (vtb_transform){.prepare = {.channels = 1, .height = FAKE_SIDE, .width = FAKE_SIDE}};
  o.transform.prepare.std[0] = 1.0f / 255, o.transform.prepare.crop = 1;
  vtb_eval_result r = {0};
  void *params[2] = {NULL, NULL};
  CHECK_OK(vtb_evaluate(&p, params, &o, &r, err));
  CHECK(r.n == SAMPLES && r.classes == CLASSES);
  CHECK_NEAR(r.top1, 1.0 / 9, 1e-12);
  CHECK_NEAR(r.top5, 5.0 / 9, 1e-12);
  int64_t right = 0, all = 0;
  for (int i = 0; r.confusion && i < CLASSES * CLASSES; i++) {
    all += r.confusion[i];
    if (i % (CLASSES + 1) == 0) right += r.confusion[i];
  }
  CHECK(all == SAMPLES && right == SAMPLES / 9);
  free(r.confusion);
  vtb_dataset_free(d);
  vtb_services_free(s);
}

/* Scores that are all alike say class 0: twelve samples, five of them of class 0. */
TEST(equal_scores_are_no_right_ones) {
  write_ranks("equal");
  vtb_tensor_info tensors[2] = {FAKE_IMAGE, FAKE_LOGITS};
  tensors[1].dim[1] = CLASSES;
  vtb_program p = {.entry = alike, .n_tensors = 2, .tensors = tensors, .batch = FAKE_BATCH};
  vtb_services *s = vtb_services_default(1);
  vtb_dataset *d = NULL;
  vtb_dataset_options split = {.split = "test", .limit = 12};
  CHECK_OK(vtb_dataset_open(temp_path("equal"), &split, &d, err));
  vtb_eval_options o = {.dataset = d, .services = s};
  CHECK_OK(vtb_transform_init(&o.transform, d, 1, FAKE_SIDE, FAKE_SIDE, err));
  vtb_eval_result r = {0};
  void *params[2] = {NULL, NULL};
  CHECK_OK(vtb_evaluate(&p, params, &o, &r, err));
  CHECK_NEAR(r.top1, 5.0 / 12, 1e-12);
  CHECK_NEAR(r.top5, 1, 1e-12);
  CHECK_NEAR(r.loss, log(CLASSES), 1e-6);
  vtb_dataset_free(d);
  vtb_services_free(s);
}

int main(void) {
  RUN(shifts_reach_every_place);
  RUN(crops_reach_every_size_and_edge);
  RUN(classes_stay_classes_in_crops);
  RUN(padding_is_erased_from_edge_to_edge);
  RUN(epochs_and_seeds_have_orders_of_their_own);
  RUN(epochs_have_augmentations_of_their_own);
  RUN(steps_have_masks_of_their_own_and_a_resumed_run_the_same);
  RUN(erased_rectangles_reach_every_edge);
  RUN(the_first_and_the_first_five_are_counted);
  RUN(equal_scores_are_no_right_ones);
  return test_done();
}
