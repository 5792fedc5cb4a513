/* Damaged checkpoints of other tools, their indexes and folders, and renaming rules: see
 * hostile.h. The sound files are those of tests/runtime/make_weights.py. */
#include "runtime/weights/open.h"
#include "runtime/weights/rename.h"
#include "tests/hostile/hostile.h"

static char *source(const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/%s", VTB_SOURCE_DIR, name);
  return path;
}

static vtb_status read_weights(const char *path, vtb_error *err) {
  vtb_weights *w = NULL;
  vtb_strbuf said = VTB_CHECKED_STRBUF;
  double sum = 0;
  vtb_status status = vtb_weights_open(path, &w, &said, err);
  for (size_t i = 0; status == VTB_OK && i < w->n; i++) {
    double *values = calloc((size_t)w->at[i]->count + 1, sizeof *values);
    if (!values) break;
    vtb_weight_read_f64(w->at[i], values);
    sum += values[0];
    free(values);
  }
  vtb_weights_free(w);
  vtb_strbuf_free(&said);
  return isnan(sum) ? VTB_OK : status;
}

static vtb_status read_one(const char *path, const char *folder, vtb_error *err) {
  (void)folder;
  return read_weights(path, err);
}

static vtb_status read_folder(const char *path, const char *folder, vtb_error *err) {
  (void)path;
  return read_weights(folder, err);
}

static vtb_status read_names(const char *path, const char *folder, vtb_error *err) {
  (void)folder;
  vtb_names n;
  vtb_names_init(&n);
  vtb_status status = vtb_names_read(&n, path, err);
  vtb_names_free(&n);
  return status;
}

/* The other files of tests/runtime/weights/folder. */
static void beside(const char *folder) {
  char path[1024], name[600];
  DIR *d = opendir(source("tests/runtime/weights/folder"));
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "tests/runtime/weights/folder/%.255s", e->d_name);
    snprintf(path, sizeof path, "%s/%.255s", folder, e->d_name);
    bytes b = hostile_sample(source(name));
    write_file(path, b.at, b.n);
    free(b.at);
  }
  if (d) closedir(d);
}

TEST(damaged_checkpoints_are_refused_with_a_sentence) {
#define FOLDER "tests/runtime/weights/folder/"
  const struct {
    const char *name, *from, *file;
    hostile_reader read;
    void (*companions)(const char *folder);
    int refused;
  } formats[] = {
      {"pth", "tests/runtime/weights/training.pth", "w.pth", read_one, NULL, 100},
      {"pth_protocol5", "tests/runtime/weights/protocol5.pth", "w.pth", read_one, NULL, 100},
      {"pth_stream", "tests/runtime/weights/training_legacy.pth", "w.pth", read_one, NULL, 100},
      {"index", FOLDER "pytorch_model.bin.index.json", "pytorch_model.bin.index.json", read_folder,
       beside, 100},
      {"hf_config", FOLDER "config.json", "config.json", read_folder, beside, 0},
      {"hf_preparation", FOLDER "preprocessor_config.json", "preprocessor_config.json", read_folder,
       beside, 0},
      {"names", "models/vil.names", "m.names", read_names, NULL, 40},
  };
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    hostile_format f = {.name = formats[i].name,
                        .file = formats[i].file,
                        .sound = hostile_sample(source(formats[i].from)),
                        .read = formats[i].read,
                        .companions = formats[i].companions,
                        .refused = formats[i].refused};
    hostile_check(&f);
    free(f.sound.at);
  }
}

int main(void) {
  RUN(damaged_checkpoints_are_refused_with_a_sentence);
  return test_done();
}
