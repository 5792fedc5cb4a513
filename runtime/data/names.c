/* Files and folders of data sets: lists, splits, texts. */
#include "runtime/data/dataset_internal.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

const char *const vtb__image_endings[] = {".png", ".jpg", ".jpeg", ".webp", NULL};

void vtb__free_names(vtb__names *v) {
  for (size_t i = 0; i < v->n; i++) free(v->at[i]);
  vtb_vec_free(v);
}

char *vtb__join(const char *folder, const char *name) {
  return vtb_strprintf("%s/%s", folder, name);
}

bool vtb__add_name(vtb__names *v, char *name) {
  if (name && vtb_vec_try_push(v, name)) return true;
  free(name);
  return false;
}

void vtb__free_texts(char **texts, int64_t n) {
  for (int64_t i = 0; texts && i < n; i++) free(texts[i]);
  free(texts);
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

int vtb__find_name(const vtb__names *sorted, const char *name) {
  char *const *at =
      sorted->n ? bsearch(&name, sorted->at, sorted->n, sizeof *sorted->at, by_bytes) : NULL;
  return at ? (int)(at - sorted->at) : -1;
}

static bool ends_in(const char *name, const char *const *endings) {
  const char *dot = strrchr(name, '.');
  for (; dot && *endings; endings++)
    if (strcasecmp(dot, *endings) == 0) return true;
  return false;
}

/* The entry is wanted. A pipe or a device under an image's name would be waited for. */
static bool is_wanted(const char *path, const char *name, const char *const *endings,
                      vtb_strbuf *notes) {
  struct stat st;
  if (endings && !ends_in(name, endings)) return false;
  bool there = stat(path, &st) == 0;
  if (!endings) return there && S_ISDIR(st.st_mode);
  if (there && S_ISREG(st.st_mode)) return true;
  if (notes && !(there && S_ISDIR(st.st_mode)))
    vtb_strbuf_printf(notes, "%s is left out: it is %s\n", path,
                      there ? "no regular file" : "a link to nothing");
  return false;
}

/* Shows each entry to `see`, which says false when out of memory. Hidden ones are left out. */
static vtb_status each_entry(const char *folder,
                             bool (*see)(void *user, const char *path, const char *name),
                             void *user, vtb_error *err) {
  DIR *dir = opendir(folder);
  if (!dir) return vtb_file_fail(err, "open folder", folder);
  const struct dirent *entry;
  bool enough = true;
  while (enough && (entry = readdir(dir)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    char *path = vtb__join(folder, entry->d_name);
    enough = path && see(user, path, entry->d_name);
    free(path);
  }
  closedir(dir);
  return enough ? VTB_OK : vtb_no_memory(err, folder);
}

typedef struct listing {
  const char *const *endings;
  vtb__names *out;
  vtb_strbuf *notes;
} listing;

static bool list_entry(void *user, const char *path, const char *name) {
  const listing *l = user;
  return !is_wanted(path, name, l->endings, l->notes) || vtb__add_name(l->out, strdup(name));
}

vtb_status vtb__list_folder(const char *folder, const char *const *endings, vtb__names *out,
                            vtb_strbuf *notes, vtb_error *err) {
  vtb_status status = each_entry(folder, list_entry, &(listing){endings, out, notes}, err);
  if (status == VTB_OK && out->n) qsort(out->at, out->n, sizeof *out->at, by_bytes);
  return status;
}

/* One entry that vtb__list_folder() passes over without a word. */
static bool count_other(const char *path, const char *name, const char *const *endings,
                        vtb__others *o) {
  bool folder = vtb_path_is_dir(path);
  if (!folder && ends_in(name, endings)) return true;
  int64_t *count = folder ? &o->folders : &o->files;
  char **first = folder ? &o->folder : &o->file;
  ++*count;
  if (*first && strcmp(*first, path) <= 0) return true;
  free(*first);
  return (*first = strdup(path)) != NULL;
}

typedef struct count {
  const char *const *endings;
  vtb__others *others;
} count;

static bool count_entry(void *user, const char *path, const char *name) {
  const count *c = user;
  return count_other(path, name, c->endings, c->others);
}

vtb_status vtb__count_others(const char *folder, const char *const *endings, vtb__others *o,
                             vtb_error *err) {
  return each_entry(folder, count_entry, &(count){endings, o}, err);
}

void vtb__free_others(vtb__others *o) {
  free(o->file);
  free(o->folder);
}

/* ---- splits ---------------------------------------------------------------------------------- */

const char *vtb__split_name(unsigned split) {
  return split == VTB__TRAIN ? "train" : split == VTB__VAL ? "val" : "test";
}

const char *vtb__split_alias(unsigned split, int k) {
  static const char *const validation[] = {"val", "valid", "validation"};
  if (split == VTB__VAL) return k < 3 ? validation[k] : NULL;
  return k < 1 ? vtb__split_name(split) : NULL;
}

/* path/name if that is a folder; *no_memory: that could not be found out. Caller frees. */
static char *sub_folder(const char *path, const char *name, bool *no_memory) {
  char *sub = vtb__join(path, name);
  if (!sub) *no_memory = true;
  if (sub && vtb_path_is_dir(sub)) return sub;
  free(sub);
  return NULL;
}

char *vtb__split_folder(const char *path, unsigned split, bool *no_memory) {
  const char *name;
  for (int k = 0; (name = vtb__split_alias(split, k)) != NULL; k++) {
    char *sub = sub_folder(path, name, no_memory);
    if (sub || *no_memory) return sub;
  }
  return NULL;
}

vtb_status vtb__split_folders(const char *path, unsigned *splits, vtb_error *err) {
  bool no_memory = false;
  *splits = 0;
  for (unsigned split = VTB__TRAIN; split <= VTB__TEST; split *= 2) {
    char *sub = vtb__split_folder(path, split, &no_memory);
    if (sub) *splits |= split;
    free(sub);
  }
  return no_memory ? vtb_no_memory(err, path) : VTB_OK;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* The last two parts of its path, or its number. */
uint64_t vtb__sample_hash(const vtb__source *s, int64_t i) {
  const char *file = s->format->file ? s->format->file(s, i) : NULL;
  if (!file) return (uint64_t)i;
  size_t start = strlen(file);
  for (int slashes = 0; start && (slashes += file[start - 1] == '/') < 2;) start--;
  return vtb_hash_str(VTB_HASH_INIT, file + start);
}
