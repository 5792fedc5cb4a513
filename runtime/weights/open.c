/* Which reader a file or folder is for: by its first bytes, never by its name. */
#include "runtime/weights/open.h"

#include "runtime/artefact/safetensors.h"
#include "runtime/weights/checkpoint.h"
#include "runtime/weights/shards.h"

#include <string.h>

/* ---- kinds ----------------------------------------------------------------------------------- */

typedef enum kind { ZIP, STREAM, SAFETENSORS, JSON, OTHER } kind;
static const char *const kind_names[] = {"a zip file of PyTorch", "a stream of PyTorch",
                                         "safetensors", "JSON", "unknown"};

static bool begins(const vtb_mapped_file *f, size_t at, const char *bytes, size_t n) {
  return f->n >= at + n && memcmp(f->data + at, bytes, n) == 0;
}

static bool is_safetensors(const vtb_mapped_file *f) {
  uint64_t header = 0;
  if (f->n < 9 || f->data[8] != '{') return false;
  for (int i = 7; i >= 0; i--) header = header << 8 | f->data[i];
  return header <= VTB_SAFETENSORS_MAX_HEADER;
}

/* "cos\nsystem\n": a class or function of protocol 0. */
static bool is_global(const vtb_mapped_file *f) {
  static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  size_t i = 1, lines = 0, in_line = 0;
  if (!begins(f, 0, "c", 1)) return false;
  for (; i < f->n && lines < 2; i++) {
    bool end = f->data[i] == '\n';
    if (!end && (!f->data[i] || !strchr(name, f->data[i]))) return false;
    if (end && !in_line) return false;
    lines += end;
    in_line = end ? 0 : in_line + 1;
  }
  return lines == 2;
}

/* Protocol 2 and later begin with its number; before, with a mark, a dict, a class, or the magic
 * number as text. */
static bool is_pickle(const vtb_mapped_file *f) {
  if (f->n < 2) return false;
  return (f->data[0] == 0x80 && f->data[1] <= 5) || begins(f, 0, "L119547", 7) ||
         begins(f, 0, "(dp", 3) || begins(f, 0, "(lp", 3) || begins(f, 0, "}q", 2) || is_global(f);
}

static kind kind_of(const vtb_mapped_file *f) {
  size_t i = 0;
  if (begins(f, 0, "PK\3\4", 4) || begins(f, 0, "PK\5\6", 4)) return ZIP;
  if (is_safetensors(f)) return SAFETENSORS;
  if (is_pickle(f)) return STREAM;
  while (i < f->n && strchr(" \t\r\n", f->data[i]) && f->data[i]) i++;
  return i < f->n && f->data[i] == '{' ? JSON : OTHER;
}

/* Files that people name instead of weights, and what helps. */
static const struct {
  size_t at;
  const char *bytes, *what;
} others[] = {
    {257, "ustar", "a tar file: PyTorch before 0.1.12 wrote these; save it again with a newer one"},
    {0, "version https://git-lfs", "a pointer of git-lfs, not the file itself: run `git lfs pull`"},
    {0, "\x89HDF", "an HDF5 file, which is not read"},
    {0, "GGUF", "a GGUF file, which is not read"},
    {0, "\x1f\x8b", "compressed with gzip: unpack it first"},
    {0, "<!DOCTYPE", "a web page: the download went wrong"},
    {0, "<html", "a web page: the download went wrong"},
    {0, "\x93NUMPY", "one array of NumPy, which has no names"},
    {0,
     "\x7f"
     "ELF",
     "a program: `--weights` takes what it was built from; `vertebra check` shows it"},
};

static vtb_status refuse_other(const char *path, const vtb_mapped_file *f, vtb_error *err) {
  if (!f->n) return vtb_fail(err, VTB_E_INPUT, "%s is empty", path);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (begins(f, others[i].at, others[i].bytes, strlen(others[i].bytes)))
      return vtb_fail(err, VTB_E_INPUT, "%s is %s", path, others[i].what);
  return vtb_fail(err, VTB_E_INPUT,
                  "%s is no file of weights: neither safetensors, nor a checkpoint of PyTorch, nor "
                  "an index of shards",
                  path);
}

/* An ending that says another format than the content is. */
static void tell_ending(const char *path, kind k, vtb_strbuf *said) {
  bool tensors = vtb_ends_with(path, ".safetensors"), torch = false;
  static const char *const endings[] = {".pth", ".pt", ".th", ".bin", ".ckpt", ".tar"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    torch = torch || vtb_ends_with(path, endings[i]);
  if ((tensors && k != SAFETENSORS) || (torch && k == SAFETENSORS))
    vtb__say(said, "%s is %s, whatever its name says", path, kind_names[k]);
}

/* ---- files ----------------------------------------------------------------------------------- */

static vtb_status open_checkpoint(const char *path, const char *part, kind k, vtb_mapped_file file,
                                  vtb_weights **out, vtb_strbuf *said, vtb_error *err) {
  vtb_checkpoint c = {.path = path, .file = file, .part = part, .said = said, .err = err};
  c.budget = ((uint64_t)512 << 20) + 4 * (uint64_t)file.n;
  c.most_total = ((uint64_t)1 << 30) + 64 * (uint64_t)file.n;
  c.w = vtb_weights_new();
  if (!c.w) {
    vtb_unmap_file(&file);
    return vtb_no_memory(err, path);
  }
  c.w->file = file;
  vtb_arena_init(&c.arena);
  vtb_status status = k == ZIP ? vtb__read_zip(&c) : vtb__read_stream(&c);
  vtb_py_end(&c.machine);
  vtb_arena_free(&c.arena);
  if (status == VTB_OK)
    *out = c.w;
  else
    vtb_weights_free(c.w);
  return status;
}

static vtb_status open_tensors(const char *path, const char *part, vtb_weights **out,
                               vtb_error *err) {
  if (part)
    return vtb_fail(err, VTB_E_INPUT, "%s holds one set of tensors: there is no part \"%.60s\"",
                    path, part);
  return vtb_safetensors_load(path, out, err);
}

/* A file that is no index. */
static vtb_status open_file(const char *path, const char *part, vtb_weights **out, vtb_strbuf *said,
                            vtb_error *err) {
  vtb_mapped_file file;
  vtb_status status = vtb_map_file(path, &file, err);
  if (status != VTB_OK) return status;
  kind k = kind_of(&file);
  tell_ending(path, k, said);
  if (k == ZIP || k == STREAM) return open_checkpoint(path, part, k, file, out, said, err);
  if (k == OTHER || k == JSON)
    status = refuse_other(path, &file, err);
  else
    status = open_tensors(path, part, out, err);
  vtb_unmap_file(&file);
  return status;
}

/* The one of several files that was named: "model-00001-of-00003.safetensors". */
static void tell_shard(const char *path, vtb_strbuf *said) {
  const char *of = strstr(path, "-of-"), *slash = strrchr(path, '/');
  if (of && of > path && strspn(of + 4, "0123456789") == 5 && (!slash || of > slash) &&
      strspn(of - 5 > path ? of - 5 : path, "0123456789") == 5)
    vtb__say(said, "%s is one file of several: name their folder or their index for all", path);
}

static bool is_index(const char *path) {
  vtb_mapped_file file;
  if (vtb_map_file(path, &file, NULL) != VTB_OK) return false;
  bool json = kind_of(&file) == JSON;
  vtb_unmap_file(&file);
  return json;
}

static vtb_status open_any(const char *path, const char *part, vtb_weights **out, vtb_strbuf *said,
                           vtb_error *err) {
  if (is_index(path)) {
    if (!part) return vtb__open_index(path, open_file, out, said, err);
    return vtb_fail(err, VTB_E_INPUT,
                    "%s is an index of one set of tensors: it has no part \"%.60s\"", path, part);
  }
  return open_file(path, part, out, said, err);
}

vtb_status vtb_weights_open_part(const char *path, const char *part, vtb_weights **out,
                                 vtb_strbuf *said, vtb_error *err) {
  vtb_weights *w = NULL;
  vtb_status status;
  if (vtb_path_is_dir(path)) {
    status = vtb__open_folder(path, part, open_any, &w, said, err);
  } else {
    status = open_any(path, part, &w, said, err);
    if (status == VTB_OK) tell_shard(path, said);
  }
  if (status == VTB_OK) status = vtb__unwrap_names(&w, said, err);
  if (status == VTB_OK && said) status = vtb_strbuf_check(said, err);
  if (status == VTB_OK)
    *out = w;
  else
    vtb_weights_free(w);
  return status;
}

vtb_status vtb_weights_open(const char *path, vtb_weights **out, vtb_strbuf *said, vtb_error *err) {
  return vtb_weights_open_part(path, NULL, out, said, err);
}
