/* Every allocation of reading others' checkpoints fails once, in the reader as in libzip: a status
 * with a sentence, and nothing left behind. LeakSanitizer sees what is not freed. */
#include "runtime/weights/open.h"
#include "tests/failing_malloc.h"
#include "tests/test.h"

/* libzip 1.7 forgets up to 160 bytes when it finds no memory as it opens a member. Seeing that it
 * is there takes whole stacks. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:zip_fopen_index_encrypted\n"; }
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "fast_unwind_on_malloc=0"; }

/* *hash: of the names, the data and the metadata. */
static vtb_status open_and_free(const char *path, uint64_t *hash, vtb_error *err) {
  vtb_weights *w = NULL;
  vtb_strbuf said = VTB_CHECKED_STRBUF;
  vtb_status status = vtb_weights_open(path, &w, &said, err);
  *hash = VTB_HASH_INIT;
  for (size_t i = 0; w && i < w->n; i++) {
    const vtb_weight *t = w->at[i];
    *hash = vtb_hash_str(*hash, t->name);
    if (t->count)
      *hash = vtb_hash_bytes(*hash, t->data, (size_t)t->count * vtb_elem_bytes(t->elem));
  }
  for (size_t i = 0; w && i < w->meta.n; i++) *hash = vtb_hash_str(*hash, w->meta.at[i].value);
  *hash = vtb_hash_str(*hash, vtb_strbuf_text(&said));
  vtb_weights_free(w);
  vtb_strbuf_free(&said);
  return status;
}

/* Reading fails with VTB_E_MEMORY at its n-th allocation, for every n that there is. What libzip
 * does without some of its own is the same as with it, or a file that is called damaged. */
static void fail_each(const char *name) {
  char path[512];
  vtb_error warm = {0};
  uint64_t want, hash;
  int64_t n = 1;
  snprintf(path, sizeof path, "%s/tests/runtime/weights/%s", VTB_SOURCE_DIR, name);
  CHECK_MSG(open_and_free(path, &want, &warm) == VTB_OK, "%s", warm.text);
  for (bool reached = true; reached && n < 5000; n++) {
    vtb_error err = {0};
    fail_nth(n);
    vtb_status status = open_and_free(path, &hash, &err);
    reached = fail_off();
    bool zip = status == VTB_E_INPUT && strstr(err.text, "zip file");
    bool good = status == VTB_OK ? hash == want : err.text[0] && (status == VTB_E_MEMORY || zip);
    CHECK_MSG(good, "%s, allocation %d: status %d: %s", name, (int)n, (int)status, err.text);
  }
  CHECK_MSG(n > 20, "%s: only %d allocations failed", name, (int)n);
}

TEST(memory_that_runs_out_is_a_status) {
  static const char *const names[] = {"training.pth", "training_legacy.pth", "views.pth",
                                      "packed.pth",   "arrays.pkl",          "averaged.pth",
                                      "folder"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) fail_each(names[i]);
}

int main(void) {
  RUN(memory_that_runs_out_is_a_status);
  return test_done();
}
