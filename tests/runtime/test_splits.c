/* Which samples are of which split, and what becomes of damaged ones. */
#include "runtime/data/dataset.h"
#include "tests/runtime/support.h"

static void save_png(const char *name, int value) {
  vtb_image im = vtb_image_new(4, 4, 3);
  memset(im.pixels, value, 48);
  CHECK_OK(vtb_image_save_png(temp_path(name), &im, err));
  vtb_image_free(&im);
}

/* So many images of each of the classes a, b, c; their values tell them apart. */
static void save_classes(const char *folder, int n) {
  char name[128];
  for (int c = 0; c < 3; c++) {
    snprintf(name, sizeof name, "%s/%c", folder, 'a' + c);
    CHECK_OK(vtb_make_dirs(temp_path(name), err));
    for (int i = 0; i < n; i++) {
      snprintf(name, sizeof name, "%s/%c/%02d.png", folder, 'a' + c, i);
      save_png(name, 40 * c + i);
    }
  }
}

static const char damaged_png[] = "\x89PNG\r\n\x1a\nrest";
static void damage(const char *name) { write_file(temp_path(name), damaged_png, 12); }

static vtb_dataset *open_split(const char *folder, const char *split, double fraction,
                               uint64_t seed) {
  vtb_dataset *d = NULL;
  vtb_dataset_options o = {.split = split, .val_fraction = fraction, .val_seed = seed};
  CHECK_OK(vtb_dataset_open(temp_path(folder), &o, &d, err));
  if (!d) exit(1);
  return d;
}

static bool has_file(const vtb_dataset *d, const char *end) {
  for (int64_t i = 0; i < vtb_dataset_count(d); i++)
    if (vtb_ends_with(vtb_dataset_file(d, i), end)) return true;
  return false;
}

TEST(what_is_held_out_is_a_share_of_every_class_and_of_no_other_split) {
  save_classes("even", 20);
  vtb_dataset *train = open_split("even", "train", 0.2, 0),
              *val = open_split("even", "val", 0.2, 0);
  int classes[3] = {0};
  CHECK(vtb_dataset_count(train) == 48 && vtb_dataset_count(val) == 12);
  for (int64_t i = 0; i < 12; i++) {
    classes[vtb_dataset_label(val, i)]++;
    const char *file = vtb_dataset_file(val, i);
    CHECK(file[strlen(file) - 8] == 'a' + vtb_dataset_label(val, i));
    CHECK(!has_file(train, file + strlen(file) - 8));
  }
  CHECK(classes[0] == 4 && classes[1] == 4 && classes[2] == 4);
  vtb_dataset *other = open_split("even", "val", 0.2, 1);
  int same = 0;
  for (int64_t i = 0; i < 12; i++) {
    const char *file = vtb_dataset_file(val, i);
    same += has_file(other, file + strlen(file) - 8);
  }
  CHECK_MSG(same < 12, "val_seed changes nothing: %d", same);
  vtb_dataset_free(other);
  vtb_dataset_free(train);
  vtb_dataset_free(val);
}

TEST(a_file_more_or_less_moves_no_other_and_neither_does_the_folder) {
  save_classes("here", 20), save_classes("there/below", 20);
  CHECK(remove(temp_path("there/below/b/07.png")) == 0);
  vtb_dataset *a = open_split("here", "val", 0.2, 0), *b = open_split("there/below", "val", 0.2, 0);
  int missing = 0;
  for (int64_t i = 0; i < vtb_dataset_count(a); i++) {
    const char *file = vtb_dataset_file(a, i);
    missing += !has_file(b, file + strlen(file) - 8);
  }
  CHECK_MSG(missing <= 1, "%d others", missing);
  vtb_dataset_free(a);
  vtb_dataset_free(b);
}

TEST(a_pair_says_what_it_decided) {
  vtb_dataset *train = NULL, *val = NULL;
  vtb_dataset_options o = {.val_fraction = 0.1};
  CHECK_OK(vtb_dataset_open_pair(temp_path("even"), &o, NULL, &train, &val, err));
  CHECK(val && vtb_dataset_count(train) == 54 && vtb_dataset_count(val) == 6);
  CHECK_STR(vtb_dataset_notes(train),
            "even has no val split: 6 of its 60 images are held out for validation\n");
  CHECK_STR(vtb_dataset_split(val), "val");
  vtb_dataset_free(train), vtb_dataset_free(val);
  o.val_fraction = 0;
  CHECK_OK(vtb_dataset_open_pair(temp_path("even"), &o, NULL, &train, &val, err));
  CHECK(!val && vtb_dataset_count(train) == 60);
  vtb_dataset_free(train);
  o.val_fraction = 1;
  CHECK_REFUSED(vtb_dataset_open_pair(temp_path("even"), &o, NULL, &train, &val, err),
                "cannot be held out");

  /* a val split of its own: nothing is held out; a test split is looked at only when it is named */
  save_classes("full/train", 4), save_classes("full/valid", 2), save_classes("full/test", 3);
  o.val_fraction = 0.1;
  CHECK_OK(vtb_dataset_open_pair(temp_path("full"), &o, NULL, &train, &val, err));
  CHECK(vtb_dataset_count(train) == 12 && vtb_dataset_count(val) == 6);
  CHECK_STR(vtb_dataset_notes(train), "");
  vtb_dataset_free(train), vtb_dataset_free(val);
  CHECK_OK(vtb_dataset_open_pair(temp_path("full"), &o, "test", &train, &val, err));
  CHECK(vtb_dataset_count(train) == 12 && vtb_dataset_count(val) == 9);
  vtb_dataset_free(train), vtb_dataset_free(val);
}

/* Folders are sorted by class: the first n alone would be of one. Formats that are mixed give their
 * first. */
TEST(a_limit_takes_samples_of_every_class) {
  for (int64_t limit = 1; limit <= 60; limit += limit < 6 ? 1 : 9) {
    vtb_dataset *d = NULL;
    vtb_dataset_options o = {.split = "all", .limit = limit};
    int classes[3] = {0};
    CHECK_OK(vtb_dataset_open(temp_path("even"), &o, &d, err));
    CHECK(vtb_dataset_count(d) == limit && vtb_dataset_classes(d) == 3);
    for (int64_t i = 0; i < vtb_dataset_count(d); i++) {
      const char *file = vtb_dataset_file(d, i);
      classes[vtb_dataset_label(d, i)]++;
      CHECK(file[strlen(file) - 8] == 'a' + vtb_dataset_label(d, i));
      CHECK(i == 0 || strcmp(vtb_dataset_file(d, i - 1), file) < 0);
    }
    for (int k = 0; k < 3 && limit >= 3; k++)
      CHECK_MSG(abs(3 * classes[k] - (int)limit) <= 3, "%d of %d samples are of class %d",
                classes[k], (int)limit, k);
    vtb_dataset_free(d);
  }
  vtb_dataset *train = NULL, *val = NULL; /* validation is looked at as a whole */
  vtb_dataset_options o = {.val_fraction = 0.1, .limit = 9};
  CHECK_OK(vtb_dataset_open_pair(temp_path("even"), &o, NULL, &train, &val, err));
  CHECK(vtb_dataset_count(train) == 9 && vtb_dataset_count(val) == 6);
  vtb_dataset_free(train);
  vtb_dataset_free(val);
}

TEST(weights_are_judged_by_what_they_were_not_trained_on) {
  vtb_dataset *d = NULL, *train = NULL, *val = NULL;
  vtb_dataset_options o = {.val_fraction = 0.1};
  CHECK_OK(vtb_dataset_open_judge(temp_path("full"), &o, NULL, &d, err));
  CHECK(vtb_dataset_count(d) == 9);
  CHECK_STR(vtb_dataset_notes(d), "");
  vtb_dataset_free(d);
  CHECK_OK(vtb_dataset_open_pair(temp_path("even"), &o, NULL, &train, &val, err));
  char *trained_on = vtb_dataset_describe(train);
  CHECK_OK(vtb_dataset_open_judge(temp_path("even"), &o, trained_on, &d, err));
  CHECK(vtb_dataset_count(d) == 6 && has_file(val, vtb_dataset_file(d, 0)));
  CHECK(strstr(vtb_dataset_notes(d), "that the training held out"));
  vtb_dataset_free(d);
  /* other data are evaluated whole */
  CHECK_OK(vtb_dataset_open_judge(temp_path("full/test"), &o, trained_on, &d, err));
  CHECK(vtb_dataset_count(d) == 9 && strstr(vtb_dataset_notes(d), "all its 9 images"));
  vtb_dataset_free(d);
  free(trained_on);
  vtb_dataset_free(train), vtb_dataset_free(val);
  /* trained on all of it */
  train = open_split("even", "train", 0, 0);
  trained_on = vtb_dataset_describe(train);
  CHECK_OK(vtb_dataset_open_judge(temp_path("even"), &o, trained_on, &d, err));
  CHECK(vtb_dataset_count(d) == 60 && strstr(vtb_dataset_notes(d), "warning: the model was"));
  vtb_dataset_free(d);
  free(trained_on);
  vtb_dataset_free(train);
}

/* Hash of an epoch's batches. */
static uint64_t hash_epoch(const vtb_dataset *d, bool shuffle, int workers, int64_t *n) {
  vtb_transform t = {
      .prepare = {.channels = 3, .height = 4, .width = 4, .crop = 1, .std = {1, 1, 1}}};
  vtb_loader_options o = {.dataset = d,
                          .transform = t,
                          .batch = 5,
                          .shuffle = shuffle,
                          .n_epochs = 2,
                          .n_threads = workers};
  vtb_loader *l = NULL;
  const vtb_batch *b = NULL;
  uint64_t h = VTB_HASH_INIT;
  CHECK_OK(vtb_loader_open(&o, &l, err));
  *n = 0;
  for (;;) {
    CHECK_OK(vtb_loader_next(l, &b, err));
    if (!b) break;
    h = vtb_hash_bytes(h, b->images, 5 * 48 * sizeof(float));
    h = vtb_hash_bytes(h, b->labels, 5 * sizeof(int32_t));
    *n += b->n - b->damaged;
    for (int64_t i = 0; i < b->n; i++)
      if (shuffle) CHECK(b->labels[i] >= 0 && (double)b->images[48 * i] <= 100 / 255.0);
  }
  vtb_loader_close(l);
  return h;
}

TEST(damaged_samples_are_replaced_in_training_and_left_out_in_evaluation) {
  save_classes("hurt", 10);
  damage("hurt/a/03.png"), damage("hurt/a/04.png"), damage("hurt/c/09.png");
  vtb_dataset *d = NULL;
  vtb_dataset_options o = {.skip_damaged = 3};
  int64_t n;
  CHECK_OK(vtb_dataset_open(temp_path("hurt"), &o, &d, err));
  uint64_t one = hash_epoch(d, true, 1, &n);
  CHECK(n == 60);
  for (int workers = 2; workers < 9; workers += 3) CHECK(hash_epoch(d, true, workers, &n) == one);
  CHECK(vtb_dataset_damaged(d) == 3);
  one = hash_epoch(d, false, 1, &n);
  CHECK(n == 54 && hash_epoch(d, false, 4, &n) == one);
  bool named = false;
  for (int k = 0; k < 3; k++) named |= strstr(vtb_dataset_damage(d, k), "hurt/c/09.png") != NULL;
  CHECK(named);
  vtb_dataset_free(d);
}

/* The next sound one takes the place: of samples that follow each other, of the last, the first. */
TEST(the_next_sound_sample_stands_in_for_a_damaged_one) {
  vtb_dataset *d = NULL;
  vtb_loader_options o = {
      .transform =
          {.prepare = {.channels = 1, .height = 4, .width = 4, .crop = 1, .std = {1.0f / 255}}},
      .batch = 10,
      .shuffle = true,
      .n_epochs = 1,
      .n_threads = 1};
  CHECK_OK(vtb_dataset_open(temp_path("hurt"), &(vtb_dataset_options){.skip_damaged = 3}, &d, err));
  o.dataset = d;
  vtb_loader *l = NULL;
  const vtb_batch *b = NULL;
  int times[256] = {0};
  CHECK_OK(vtb_loader_open(&o, &l, err));
  for (;;) {
    CHECK_OK(vtb_loader_next(l, &b, err));
    if (!b) break;
    for (int64_t i = 0; i < b->n; i++) times[lrintf(b->images[16 * i]) & 255]++;
  }
  for (int c = 0; c < 3; c++)
    for (int i = 0; i < 10; i++) {
      bool damaged = (c == 0 && (i == 3 || i == 4)) || (c == 2 && i == 9);
      int want = damaged ? 0 : c == 0 && i == 5 ? 3 : c == 0 && i == 0 ? 2 : 1;
      CHECK_MSG(times[40 * c + i] == want, "%c/%02d comes %d times, not %d", 'a' + c, i,
                times[40 * c + i], want);
    }
  vtb_loader_close(l);
  vtb_dataset_free(d);
}

static void expect_refusal(int64_t skip, const char *says) {
  vtb_transform t = {
      .prepare = {.channels = 3, .height = 4, .width = 4, .crop = 1, .std = {1, 1, 1}}};
  vtb_dataset *d = NULL;
  vtb_dataset_options o = {.skip_damaged = skip};
  CHECK_OK(vtb_dataset_open(temp_path("hurt"), &o, &d, err));
  vtb_loader_options lo = {
      .dataset = d, .transform = t, .batch = 30, .n_epochs = 1, .n_threads = 1};
  vtb_loader *l = NULL;
  const vtb_batch *b;
  CHECK_OK(vtb_loader_open(&lo, &l, err));
  CHECK_REFUSED(vtb_loader_next(l, &b, err), says);
  vtb_loader_close(l);
  vtb_dataset_free(d);
}

TEST(more_damaged_samples_than_allowed_end_the_loading_with_their_names) {
  expect_refusal(0, "hurt/a/03.png");
  expect_refusal(2, "more than 2 of the 30 samples of hurt are damaged");
  expect_refusal(2, "hurt/a/04.png");
  expect_refusal(VTB_SKIP_SOME, "more than 1 of the 30");
}

TEST(pipes_and_links_to_nothing_are_left_out_and_said) {
  save_classes("odd", 2);
  CHECK(mkfifo(temp_path("odd/a/pipe.png"), 0600) == 0);
  CHECK(symlink("/nowhere/at/all", temp_path("odd/b/gone.jpg")) == 0);
  vtb_dataset *d = open_split("odd", "all", 0, 0);
  CHECK(vtb_dataset_count(d) == 6);
  CHECK(strstr(vtb_dataset_notes(d), "pipe.png is left out: it is no regular file"));
  CHECK(strstr(vtb_dataset_notes(d), "gone.jpg is left out: it is a link to nothing"));
  vtb_dataset_free(d);
}

TEST(labels_become_a_models_by_name) {
  static char *const names[] = {"zebra", "c", "a", "b"}, *const few[] = {"a", "c"};
  vtb_dataset *d = open_split("even", "all", 0, 0);
  bool moved;
  CHECK_REFUSED(vtb_dataset_relabel(d, few, 2, &moved, err), "not known to the model: b");
  CHECK_OK(vtb_dataset_relabel(d, names, 4, &moved, err));
  CHECK(moved && vtb_dataset_classes(d) == 4);
  CHECK(vtb_dataset_label(d, 0) == 2 && vtb_dataset_label(d, 20) == 3 &&
        vtb_dataset_label(d, 59) == 1);
  CHECK_STR(vtb_dataset_class_name(d, 0), "zebra");
  vtb_dataset_free(d);
}

TEST(augmentations_have_ranges) {
  vtb_augmentation a = {.scale_min = 0.3, .shift = 8, .erase_prob = 1};
  CHECK_OK(vtb_augmentation_check(&a, 8, 9, err));
  a.shift = 2147483647;
  CHECK_REFUSED(vtb_augmentation_check(&a, 8, 9, err), "not 2147483647");
  a = (vtb_augmentation){.erase_prob = 2};
  CHECK_REFUSED(vtb_augmentation_check(&a, 8, 9, err), "erase");
  a = (vtb_augmentation){.scale_min = 5};
  CHECK_REFUSED(vtb_augmentation_check(&a, 8, 9, err), "crop-scale");
  a = (vtb_augmentation){.scale_min = NAN};
  CHECK_REFUSED(vtb_augmentation_check(&a, 8, 9, err), "crop-scale");
}

int main(void) {
  RUN(what_is_held_out_is_a_share_of_every_class_and_of_no_other_split);
  RUN(a_file_more_or_less_moves_no_other_and_neither_does_the_folder);
  RUN(a_pair_says_what_it_decided);
  RUN(a_limit_takes_samples_of_every_class);
  RUN(weights_are_judged_by_what_they_were_not_trained_on);
  RUN(damaged_samples_are_replaced_in_training_and_left_out_in_evaluation);
  RUN(the_next_sound_sample_stands_in_for_a_damaged_one);
  RUN(more_damaged_samples_than_allowed_end_the_loading_with_their_names);
  RUN(pipes_and_links_to_nothing_are_left_out_and_said);
  RUN(labels_become_a_models_by_name);
  RUN(augmentations_have_ranges);
  return test_done();
}
