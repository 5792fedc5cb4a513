/* Every allocation of opening data sets fails once: a status with a sentence, or all of it. Not of
 * tar files: libarchive 3.6 itself does not survive it (archive_read_next_header() sets fields of
 * an entry that it could not make). */
#include "runtime/data/dataset.h"
#include "tests/failing_malloc.h"
#include "tests/runtime/support.h"

/* Opens both parts, and hashes what they hold. */
static vtb_status open_pair(const char *path, uint64_t *hash, vtb_error *err) {
  vtb_dataset *both[2] = {NULL, NULL};
  vtb_dataset_options o = {.val_fraction = 0.3};
  *hash = VTB_HASH_INIT;
  vtb_status status = vtb_dataset_open_pair(path, &o, NULL, &both[0], &both[1], err);
  for (int k = 0; k < 2 && both[k] && status == VTB_OK; k++) {
    for (int64_t i = 0; i < vtb_dataset_count(both[k]); i++) {
      int label = vtb_dataset_label(both[k], i);
      *hash = vtb_hash_bytes(*hash, &label, sizeof label);
      *hash = vtb_hash_str(*hash, vtb_dataset_class_name(both[k], label));
    }
    *hash = vtb_hash_str(*hash, vtb_dataset_notes(both[k]));
  }
  vtb_dataset_free(both[0]);
  vtb_dataset_free(both[1]);
  return status;
}

static void fail_each(const char *name) {
  char path[512];
  uint64_t want, hash;
  vtb_error err = {0};
  int failures = 0;
  snprintf(path, sizeof path, "%s", temp_path(name));
  CHECK_MSG(open_pair(path, &want, &err) == VTB_OK, "%s", err.text);
  for (int64_t n = 1;; n++) {
    err = (vtb_error){0};
    fail_nth(n);
    vtb_status status = open_pair(path, &hash, &err);
    bool reached = fail_off();
    failures += status != VTB_OK;
    CHECK_MSG(status == VTB_OK ? hash == want : status == VTB_E_MEMORY && err.text[0],
              "%s, allocation %d: status %d \"%s\"", name, (int)n, (int)status, err.text);
    if (!reached) break;
  }
  CHECK_MSG(failures > 10, "%s: %d failures", name, failures);
}

static void save_png(const char *name) {
  vtb_image im = vtb_image_new(4, 4, 3);
  memset(im.pixels, 9, 48);
  CHECK_OK(vtb_image_save_png(temp_path(name), &im, err));
  vtb_image_free(&im);
}

static void save_text(const char *name, const char *text) {
  write_file(temp_path(name), text, strlen(text));
}

TEST(folders_with_names_of_their_classes) {
  CHECK_OK(vtb_make_dirs(temp_path("folder/cat"), err));
  CHECK_OK(vtb_make_dirs(temp_path("folder/dog"), err));
  save_png("folder/cat/a.png"), save_png("folder/cat/b.png"), save_png("folder/dog/a.png");
  CHECK(symlink("/nowhere", temp_path("folder/dog/gone.png")) == 0);
  fail_each("folder");
  save_text("folder/words.txt", "cat tiger\ndog wolf\n");
  fail_each("folder");
  save_text("folder/classes.txt", "dog\ncow\ncat\n");
  fail_each("folder");
  save_text("folder/class_to_idx.json", "{\"cat\": 2, \"dog\": 0, \"cow\": 1}");
  fail_each("folder");
}

TEST(lists) {
  CHECK_OK(vtb_make_dirs(temp_path("list"), err));
  save_text("list/train.csv", "file,label\na.png,cat\nb.png,dog\nc.png,cat\n");
  save_text("list/val.csv", "file,label\nb.png,dog\n");
  fail_each("list");
}

TEST(cifar) {
  unsigned char file[3 * 3073] = {0};
  CHECK_OK(vtb_make_dirs(temp_path("cifar"), err));
  for (int k = 1; k < 6; k++) {
    char name[64];
    snprintf(name, sizeof name, "cifar/data_batch_%d.bin", k);
    write_file(temp_path(name), file, sizeof file);
  }
  fail_each("cifar");
}

int main(void) {
  RUN(folders_with_names_of_their_classes);
  RUN(lists);
  RUN(cifar);
  return test_done();
}
