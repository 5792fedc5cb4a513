/* The images that `run` is given. */
#include "frontend/cli/run/run_files.h"

#include <dirent.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define LIST_BYTES ((size_t)64 << 20)
#define IMAGE_BYTES ((size_t)1 << 30)

static vtb_status add_image(run_files *f, const char *path, bool from_list, vtb_error *err);

/* ---- folders --------------------------------------------------------------------------------- */

static bool is_image_name(const char *name) {
  static const char *const endings[] = {".png", ".jpg", ".jpeg", ".webp"};
  const char *dot = strrchr(name, '.');
  for (int i = 0; dot && i < 4; i++)
    if (strcasecmp(dot, endings[i]) == 0) return true;
  return false;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

enum { MOST_DEPTH = 32 };

/* Links to folders are not followed; what is no regular file is left out. */
static vtb_status walk(run_files *f, const char *folder, int depth, int64_t *others,
                       vtb_error *err) {
  struct dirent **entries;
  if (depth > MOST_DEPTH)
    return vtb_fail(err, VTB_E_INPUT, "%s: more than %d folders deep", folder, MOST_DEPTH);
  int n = scandir(folder, &entries, is_visible, by_name);
  if (n < 0) return vtb_file_fail(err, "open folder", folder);
  vtb_status status = VTB_OK;
  for (int i = 0; i < n; i++) {
    const char *path = vtb_arena_printf(&f->arena, "%s/%s", folder, entries[i]->d_name);
    struct stat st, link;
    bool there = stat(path, &st) == 0 && lstat(path, &link) == 0;
    if (status == VTB_OK && there && S_ISDIR(link.st_mode))
      status = walk(f, path, depth + 1, others, err);
    else if (there && S_ISREG(st.st_mode) && is_image_name(path))
      vtb_vec_push(&f->paths, path);
    else
      ++*others;
    vtb_free(entries[i]);
  }
  vtb_free(entries);
  return status;
}

static vtb_status add_folder(run_files *f, const char *folder, vtb_error *err) {
  size_t before = f->paths.n;
  int64_t others = 0;
  vtb_status status = walk(f, folder, 0, &others, err);
  if (status == VTB_OK && f->paths.n == before)
    return vtb_fail(err, VTB_E_INPUT, "%s: no .png, .jpg, .jpeg or .webp file in it", folder);
  if (status == VTB_OK && others)
    cli_say("%s: %zu images; %lld other entries are left out\n", folder, f->paths.n - before,
            (long long)others);
  return status;
}

/* ---- lists and standard input ---------------------------------------------------------------- */

static vtb_status add_lines(run_files *f, const char *name, char *text, size_t n, vtb_error *err) {
  if (strlen(text) != n)
    return vtb_fail(err, VTB_E_INPUT, "%s: neither an image nor a list of files", name);
  char *rest = text, *line;
  vtb_status status = VTB_OK;
  while (status == VTB_OK && (line = strsep(&rest, "\n")) != NULL) {
    size_t end = strlen(line);
    while (end && (line[end - 1] == '\r' || line[end - 1] == ' ')) line[--end] = 0;
    if (end) status = add_image(f, vtb_arena_strdup(&f->arena, line), true, err);
  }
  return status;
}

static vtb_status add_list(run_files *f, const char *path, vtb_error *err) {
  char *text;
  size_t n;
  VTB_TRY(vtb_file_read(path, LIST_BYTES, &text, &n, err));
  vtb_status status = add_lines(f, path, text, n, err);
  vtb_free(text);
  return status;
}

static bool begins_image(const char *data, size_t n) {
  return (n >= 4 && memcmp(data, "\x89PNG", 4) == 0) ||
         (n >= 2 && memcmp(data, "\xff\xd8", 2) == 0) ||
         (n >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0);
}

static vtb_status add_standard_input(run_files *f, vtb_error *err) {
  char *data;
  size_t n;
  if (f->bytes) return vtb_fail(err, VTB_E_USAGE, "\"-\" is given twice");
  VTB_TRY(vtb_file_read("/dev/stdin", IMAGE_BYTES, &data, &n, err));
  if (begins_image(data, n)) {
    f->bytes = data;
    f->n_bytes = n;
    vtb_vec_push(&f->paths, "-");
    return VTB_OK;
  }
  vtb_status status = add_lines(f, "standard input", data, n, err);
  vtb_free(data);
  return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* from_list: a list names no further lists. */
static vtb_status add_image(run_files *f, const char *path, bool from_list, vtb_error *err) {
  if (vtb_path_is_dir(path)) return add_folder(f, path, err);
  if (!from_list && vtb_streq(path, "-")) return add_standard_input(f, err);
  if (!from_list && path[0] == '@' && !vtb_path_exists(path)) return add_list(f, path + 1, err);
  vtb_vec_push(&f->paths, path);
  return VTB_OK;
}

vtb_status run_files_open(run_files *f, const cli_list *arguments, vtb_error *err) {
  *f = (run_files){0};
  vtb_arena_init(&f->arena);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < arguments->n && status == VTB_OK; i++)
    status = add_image(f, arguments->at[i], false, err);
  return status;
}

vtb_status run_files_image(const run_files *f, size_t i, int channels, vtb_image *out,
                           vtb_error *err) {
  const char *path = f->paths.at[i];
  if (f->bytes && vtb_streq(path, "-"))
    return vtb_image_decode("standard input", f->bytes, f->n_bytes, channels, out, err);
  return vtb_image_load(path, channels, out, err);
}

void run_files_free(run_files *f) {
  vtb_vec_free(&f->paths);
  vtb_free(f->bytes);
  vtb_arena_free(&f->arena);
}
