/* Folders as Hugging Face's tools write them, and folders of trainings. */
#include "runtime/weights/checkpoint.h"
#include "runtime/weights/shards.h"

#include <string.h>

enum { MOST_TEXT = 1 << 20 };

/* The first that is there is taken. */
static const char *const files[] = {"model.safetensors",   "model.safetensors.index.json",
                                    "pytorch_model.bin",   "pytorch_model.bin.index.json",
                                    "weights.safetensors", NULL};

static char *in_folder(const char *folder, const char *file) {
  size_t n = strlen(folder);
  return vtb_strprintf("%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", file);
}

/* Puts the text of a file, if there is one, into the metadata. */
static vtb_status keep_config(const char *folder, const char *file, const char *key, vtb_weights *w,
                              vtb_strbuf *said, vtb_error *err) {
  char *path = in_folder(folder, file), *text = NULL;
  size_t n = 0;
  if (!path) return vtb_no_memory(err, folder);
  vtb_status status = VTB_OK;
  vtb_error why = {0};
  if (vtb_path_exists(path)) status = vtb_file_read(path, MOST_TEXT, &text, &n, &why);
  if (status == VTB_OK && text && vtb__good_text(text, n)) {
    vtb_weights_set_meta(w, key, text);
  } else if (status == VTB_E_MEMORY) {
    vtb_fail(err, status, "%s", why.text);
  } else if (status != VTB_OK || text) {
    vtb__say(said, "%s is passed over: %s", file, why.text[0] ? why.text : "it is not UTF-8 text");
    status = VTB_OK;
  }
  free(text);
  free(path);
  return status;
}

static vtb_status read_configs(const char *folder, vtb_weights *w, vtb_strbuf *said,
                               vtb_error *err) {
  VTB_TRY(keep_config(folder, "config.json", "hf.config", w, said, err));
  VTB_TRY(keep_config(folder, "preprocessor_config.json", "hf.preprocessor", w, said, err));
  if (w->error.text[0]) return vtb_fail(err, w->error.status, "%s: %s", folder, w->error.text);
  return VTB_OK;
}

static vtb_status no_weights(const char *folder, vtb_error *err) {
  return vtb_fail(err, VTB_E_INPUT,
                  "%s holds no weights that are known by their name: model.safetensors, "
                  "pytorch_model.bin, an index of either, or weights.safetensors; name the file "
                  "itself",
                  folder);
}

vtb_status vtb__open_folder(const char *folder, const char *part, vtb_open_fn open,
                            vtb_weights **out, vtb_strbuf *said, vtb_error *err) {
  const char *taken = NULL, *other = NULL;
  char *path = NULL;
  for (int i = 0; files[i]; i++) {
    char *p = in_folder(folder, files[i]);
    if (!p) {
      free(path);
      return vtb_no_memory(err, folder);
    }
    bool there = vtb_path_exists(p);
    if (there && !taken)
      taken = files[i], path = p;
    else
      free(p);
    if (there && taken != files[i] && !other) other = files[i];
  }
  if (!taken) return no_weights(folder, err);
  if (other)
    vtb__say(said, "of the folder's files %s is read, not %s", taken, other);
  else
    vtb__say(said, "of the folder %s is read", taken);
  vtb_weights *w = NULL;
  vtb_status status = open(path, part, &w, said, err);
  free(path);
  if (status == VTB_OK) status = read_configs(folder, w, said, err);
  if (status == VTB_OK)
    *out = w;
  else
    vtb_weights_free(w);
  return status;
}
