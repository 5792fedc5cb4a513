/* Images in tar files: KEY.jpg beside KEY.cls or KEY.json, as the WebDataset library lays them out,
 * or class/NAME.jpg. Headers are read once, by libarchive; then a sample is read from its place.
 *
 * Nothing is ever unpacked: names are keys, links and devices are left out, and of regular members
 * only bytes inside the file are read. */
#include "runtime/base/json.h"
#include "runtime/base/utf8.h"
#include "runtime/data/dataset_internal.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGE_LIMIT ((int64_t)1 << 30)
#define LABEL_LIMIT ((int64_t)1 << 20)
enum { MOST_SHARDS = 1 << 16 };

typedef struct member {
  int shard;
  int64_t offset, size;
  char *name;     /* "shard.tar/path", what messages and lists call it */
  char *label;    /* a number, or a class's name; NULL: none */
  bool by_folder; /* the label is that of the folder */
} member;

typedef struct tar {
  vtb__names shards;
  VTB_VEC(member) at;
  int64_t links, others; /* members that were left out */
} tar;

/* ---- which files ----------------------------------------------------------------------------- */

static bool is_tar(const char *name) { return vtb_ends_with(name, ".tar"); }

static bool is_packed(const char *name) {
  static const char *const endings[] = {".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".tar.bz2"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    if (vtb_ends_with(name, endings[i])) return true;
  return false;
}

static vtb_status packed(const char *path, vtb_error *err) {
  return vtb_fail(err, VTB_E_INPUT,
                  "%s is compressed, and its samples are read in any order: unpack it to a .tar "
                  "first (gunzip, unxz, unzstd)",
                  path);
}

/* Files that a pattern of the shell stands for. */
static vtb_status add_glob(const char *pattern, vtb__names *out, vtb_error *err) {
  glob_t g;
  int failed = glob(pattern, 0, NULL, &g);
  if (failed == GLOB_NOMATCH) return VTB_OK;
  if (failed) return vtb_no_memory(err, pattern);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < g.gl_pathc && status == VTB_OK; i++)
    if (!vtb__add_name(out, strdup(g.gl_pathv[i]))) status = vtb_no_memory(err, pattern);
  globfree(&g);
  return status;
}

/* "{000..004}" is each of the numbers, with as many digits. */
static vtb_status add_pattern(const char *pattern, vtb__names *out, vtb_error *err) {
  const char *open = strchr(pattern, '{'), *close = open ? strchr(open, '}') : NULL;
  long long from, to;
  int used = 0;
  if (!open) return add_glob(pattern, out, err);
  if (!close || sscanf(open, "{%lld..%lld}%n", &from, &to, &used) != 2 ||
      open + used != close + 1 || from < 0 || to < from || to - from >= MOST_SHARDS)
    return vtb_fail(err, VTB_E_INPUT, "%s: a range of files is written like {000..004}", pattern);
  int digits = (int)(strchr(open, '.') - open - 1);
  vtb_status status = VTB_OK;
  for (long long i = from; i <= to && status == VTB_OK; i++) {
    char *one = vtb_strprintf("%.*s%0*lld%s", (int)(open - pattern), pattern, digits, i, close + 1);
    size_t before = out->n;
    status = one ? add_pattern(one, out, err) : vtb_no_memory(err, pattern);
    if (status == VTB_OK && out->n == before)
      status = vtb_fail(err, VTB_E_INPUT, "%s: there is no %s", pattern, one);
    free(one);
  }
  return status;
}

static bool of_split(const char *name, unsigned split) {
  const char *alias;
  for (int k = 0; (alias = vtb__split_alias(split, k)) != NULL; k++)
    if (strncasecmp(name, alias, strlen(alias)) == 0) return true;
  return false;
}

static const char *const tar_endings[] = {".tar", NULL};
static const char *const packed_endings[] = {".gz", ".tgz", ".xz", ".zst", ".bz2", NULL};

/* The tar files of a folder whose names begin with the split's, or all (split 0). */
static vtb_status list_tars(const char *folder, unsigned split, vtb__names *out, vtb_error *err) {
  vtb__names names = {0}, pressed = {0};
  vtb_status status = vtb__list_folder(folder, tar_endings, &names, NULL, err);
  if (status == VTB_OK && !names.n)
    status = vtb__list_folder(folder, packed_endings, &pressed, NULL, err);
  for (size_t i = 0; i < pressed.n && status == VTB_OK; i++)
    if (is_packed(pressed.at[i])) status = packed(pressed.at[i], err);
  for (size_t i = 0; i < names.n && status == VTB_OK; i++)
    if (!split || of_split(names.at[i], split))
      if (!vtb__add_name(out, vtb__join(folder, names.at[i]))) status = vtb_no_memory(err, folder);
  vtb__free_names(&names);
  vtb__free_names(&pressed);
  return status;
}

/* folder/train-000.tar, or folder/train/000.tar. */
static vtb_status tars_of(const char *folder, unsigned split, vtb__names *out, vtb_error *err) {
  bool no_memory = false;
  vtb_status status = list_tars(folder, split, out, err);
  if (status != VTB_OK || out->n || !split) return status;
  char *sub = vtb__split_folder(folder, split, &no_memory);
  if (no_memory) status = vtb_no_memory(err, folder);
  if (sub) status = list_tars(sub, 0, out, err);
  free(sub);
  return status;
}

static vtb_status find_folder(const char *folder, unsigned *splits, bool *found, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (unsigned split = VTB__TRAIN; split <= 2 * VTB__TEST && status == VTB_OK; split *= 2) {
    vtb__names names = {0};
    unsigned which = split <= VTB__TEST ? split : 0;
    if (!which && *splits) break;
    status = tars_of(folder, which, &names, err);
    if (names.n) *splits |= which;
    if (names.n) *found = true;
    vtb__free_names(&names);
  }
  return status;
}

static vtb_status find_files(const char *path, unsigned *splits, bool *found, vtb_error *err) {
  *splits = 0;
  if (is_packed(path)) return packed(path, err);
  *found = is_tar(path);
  if (!*found && strpbrk(path, "*?{"))
    return vtb_fail(err, VTB_E_INPUT, "no data set at %s: patterns are of .tar files", path);
  return VTB_OK;
}

/* ---- reading headers ------------------------------------------------------------------------- */

/* The part of a member's name that its sample's members share, and the ending behind it. */
static size_t key_length(const char *name) {
  const char *base = strrchr(name, '/');
  base = base ? base + 1 : name;
  return (size_t)(base - name) + strcspn(base, ".");
}

static bool ends_as_image(const char *name) {
  const char *dot = strrchr(name, '.');
  for (int i = 0; dot && vtb__image_endings[i]; i++)
    if (strcasecmp(dot, vtb__image_endings[i]) == 0) return true;
  return false;
}

/* The folder that a member lies in. */
static char *folder_label(const char *name) {
  const char *end = strrchr(name, '/');
  if (!end || end == name) return NULL;
  const char *start = end;
  while (start > name && start[-1] != '/') start--;
  return strndup(start, (size_t)(end - start));
}

/* A line's text without the blanks around it; NULL with *no_memory false: it is empty. */
static char *line_label(char *text, bool *no_memory) {
  text += strspn(text, " \t");
  size_t n = strcspn(text, "\r\n");
  while (n && (text[n - 1] == ' ' || text[n - 1] == '\t')) n--;
  char *label = n ? strndup(text, n) : NULL;
  *no_memory = n && !label;
  return label;
}

/* A label in a JSON object, as text; NULL: none. */
static char *json_label(const char *text, size_t n, bool *no_memory) {
  static const char *const names[] = {"label", "cls", "class", "class_id", "category"};
  vtb_arena arena;
  size_t at;
  char *label = NULL;
  vtb_arena_init(&arena);
  *no_memory = false;
  const vtb_json *j =
      vtb_utf8_check(text, n) == n ? vtb_json_parse(text, n, &arena, no_memory, &at) : NULL;
  for (int i = 0; i < 5 && j && j->kind == VTB_JSON_OBJECT && !label; i++) {
    const vtb_json *m = vtb_json_member(j, names[i]);
    bool says = m && (m->kind == VTB_JSON_NUMBER || (m->kind == VTB_JSON_STRING && *m->text));
    if (says)
      label = m->kind == VTB_JSON_STRING ? strdup(m->text) : vtb_strprintf("%.17g", m->number);
    *no_memory |= says && !label;
  }
  vtb_arena_free(&arena);
  return label;
}

typedef struct reading {
  struct archive *archive;
  const char *path;
  int shard;
  int64_t bytes; /* of the file */
  char *key;     /* of the sample before */
  char *label;   /* of that key, before its image came */
  bool open;     /* the last member of the index is of that key */
} reading;

/* The text of a member that says the label; NULL with VTB_OK: it says none. */
static vtb_status read_label(reading *r, struct archive_entry *e, bool json, char **label,
                             vtb_error *err) {
  int64_t size = archive_entry_size(e);
  *label = NULL;
  if (size < 0 || size > LABEL_LIMIT)
    return vtb_fail(err, VTB_E_INPUT, "%s: %s is too large for a label", r->path,
                    archive_entry_pathname(e));
  char *text = malloc((size_t)size + 1);
  if (!text) return vtb_no_memory(err, r->path);
  la_ssize_t got = archive_read_data(r->archive, text, (size_t)size);
  vtb_status status = VTB_OK;
  bool no_memory = false;
  if (got != size) {
    status = vtb_fail(err, VTB_E_INPUT, "%s: damaged: it ends within %s", r->path,
                      archive_entry_pathname(e));
  } else if (json) {
    *label = json_label(text, (size_t)size, &no_memory);
  } else {
    text[size] = 0;
    *label = line_label(text, &no_memory);
  }
  free(text);
  return no_memory ? vtb_no_memory(err, r->path) : status;
}

static vtb_status take_label(reading *r, tar *t, struct archive_entry *e, bool json,
                             vtb_error *err) {
  char *label;
  vtb_status status = read_label(r, e, json, &label, err);
  if (status != VTB_OK || !label) return status;
  char **to = r->open ? &t->at.at[t->at.n - 1].label : &r->label;
  if (json && *to && !(r->open && t->at.at[t->at.n - 1].by_folder)) { /* .cls goes before .json */
    free(label);
    return VTB_OK;
  }
  free(*to);
  *to = label;
  if (r->open) t->at.at[t->at.n - 1].by_folder = false;
  return VTB_OK;
}

static vtb_status take_image(reading *r, tar *t, struct archive_entry *e, const char *name,
                             vtb_error *err) {
  int64_t size = archive_entry_size(e), offset = archive_filter_bytes(r->archive, -1);
  if (r->open) { /* a second image of the same sample */
    t->others++;
    return VTB_OK;
  }
  if (size < 0 || size > IMAGE_LIMIT || offset < 0 || offset > r->bytes - size)
    return vtb_fail(err, VTB_E_INPUT, "%s: damaged: %s has %lld bytes, the file ends before them",
                    r->path, name, (long long)size);
  member m = {.shard = r->shard, .offset = offset, .size = size, .label = r->label};
  m.name = vtb__join(r->path, name);
  m.by_folder = !m.label;
  if (!m.label) m.label = folder_label(name);
  r->label = NULL;
  if (!m.name || !vtb_vec_try_push(&t->at, m)) {
    free(m.name);
    free(m.label);
    return vtb_no_memory(err, r->path);
  }
  r->open = true;
  return VTB_OK;
}

static vtb_status begin_sample(reading *r, const char *name, vtb_error *err) {
  size_t n = key_length(name);
  if (r->key && strlen(r->key) == n && strncmp(r->key, name, n) == 0) return VTB_OK;
  free(r->key);
  free(r->label);
  r->label = NULL;
  r->open = false;
  r->key = strndup(name, n);
  return r->key ? VTB_OK : vtb_no_memory(err, r->path);
}

static vtb_status take_member(reading *r, tar *t, struct archive_entry *e, vtb_error *err) {
  const char *name = archive_entry_pathname(e);
  if (archive_entry_filetype(e) == AE_IFDIR) return VTB_OK;
  if (!name || archive_entry_filetype(e) != AE_IFREG || archive_entry_hardlink(e) ||
      archive_entry_sparse_count(e) > 0) {
    t->links++;
    return VTB_OK;
  }
  vtb_status status = begin_sample(r, name, err);
  const char *ending = name + key_length(name);
  if (status != VTB_OK) return status;
  if (strcasecmp(ending, ".cls") == 0) return take_label(r, t, e, false, err);
  if (strcasecmp(ending, ".json") == 0) return take_label(r, t, e, true, err);
  if (ends_as_image(name)) return take_image(r, t, e, name, err);
  t->others++;
  return VTB_OK;
}

static vtb_status archive_error(const reading *r, vtb_error *err) {
  const char *why = archive_error_string(r->archive);
  if (archive_errno(r->archive) == ENOMEM) return vtb_no_memory(err, r->path);
  return vtb_fail(err, VTB_E_INPUT, "%s: damaged tar file: %s", r->path,
                  why ? why : "its headers make no sense");
}

static vtb_status read_headers(reading *r, tar *t, vtb_error *err) {
  struct archive_entry *e;
  vtb_status status = VTB_OK;
  int got = ARCHIVE_OK;
  while (status == VTB_OK &&
         ((got = archive_read_next_header(r->archive, &e)) == ARCHIVE_OK || got == ARCHIVE_WARN))
    status = take_member(r, t, e, err);
  if (status == VTB_OK && got != ARCHIVE_EOF) status = archive_error(r, err);
  return status;
}

static vtb_status index_shard(const char *path, int shard, tar *t, vtb_error *err) {
  struct stat st;
  if (stat(path, &st) != 0) return vtb_file_fail(err, "open", path);
  if (!S_ISREG(st.st_mode)) return vtb_fail(err, VTB_E_INPUT, "%s is no regular file", path);
  reading r = {.path = path, .shard = shard, .bytes = st.st_size, .archive = archive_read_new()};
  if (!r.archive) return vtb_no_memory(err, path);
  archive_read_support_format_tar(r.archive);
  archive_read_support_filter_none(r.archive);
  vtb_status status = VTB_OK;
  if (archive_read_open_filename(r.archive, path, 1 << 16) != ARCHIVE_OK)
    status = archive_error(&r, err);
  if (status == VTB_OK) status = read_headers(&r, t, err);
  archive_read_free(r.archive);
  free(r.key);
  free(r.label);
  return status;
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Labels are those of folders, as no sample says its own. One folder alone says nothing. */
static bool labels_are_folders(const tar *t) {
  bool several = false;
  for (size_t i = 0; i < t->at.n; i++) {
    const member *m = &t->at.at[i];
    if (m->label && !m->by_folder) return false;
    several |= i && m->label && t->at.at[0].label && strcmp(m->label, t->at.at[0].label) != 0;
  }
  return several;
}

/* Either every sample has a label, or none has. */
static vtb_status take_labels(const tar *t, vtb__source *d, vtb_error *err) {
  size_t without = 0, bare = 0;
  bool folders = labels_are_folders(t);
  for (size_t i = 0; i < t->at.n; i++) {
    const member *m = &t->at.at[i];
    if (m->label && m->by_folder == folders) continue;
    if (!without++) bare = i;
  }
  if (without == t->at.n) return VTB_OK;
  if (without)
    return vtb_fail(err, VTB_E_INPUT,
                    "%s has no label: a member of its name that ends in .cls, or in .json with "
                    "\"label\", or a folder",
                    t->at.at[bare].name);
  char **texts = malloc((t->at.n + 1) * sizeof *texts);
  if (!texts) return vtb_no_memory(err, d->name);
  for (size_t i = 0; i < t->at.n; i++) texts[i] = t->at.at[i].label;
  vtb_status status = vtb__take_labels(texts, (int64_t)t->at.n, folders, d, err);
  free(texts);
  return status;
}

/* ---- opening and reading --------------------------------------------------------------------- */

static vtb_status index_all(const char *path, vtb__source *d, vtb_error *err) {
  tar *t = d->data;
  vtb_status status = VTB_OK;
  if (!t->shards.n) return vtb_fail(err, VTB_E_INPUT, "%s: no .tar file", path);
  for (size_t i = 0; i < t->shards.n && status == VTB_OK; i++)
    status = index_shard(t->shards.at[i], (int)i, t, err);
  d->count = (int64_t)t->at.n;
  if (status == VTB_OK && !t->at.n)
    status = vtb_fail(err, VTB_E_INPUT, "%s: no .jpg, .jpeg, .png or .webp member in it", path);
  if (status == VTB_OK) status = take_labels(t, d, err);
  if (t->links)
    vtb_strbuf_printf(&d->notes, "%lld members of %s are left out: links, devices, sparse files\n",
                      (long long)t->links, path);
  if (t->others)
    vtb_strbuf_printf(&d->notes, "%lld members of %s are left out: no image and no label\n",
                      (long long)t->others, path);
  return status;
}

static vtb_status open_folder(const char *path, unsigned split, vtb__source *d, vtb_error *err) {
  tar *t = d->data = calloc(1, sizeof *t);
  if (!t) return vtb_no_memory(err, path);
  vtb_status status = tars_of(path, split, &t->shards, err);
  return status == VTB_OK ? index_all(path, d, err) : status;
}

static vtb_status open_files(const char *path, unsigned split, vtb__source *d, vtb_error *err) {
  (void)split;
  tar *t = d->data = calloc(1, sizeof *t);
  if (!t) return vtb_no_memory(err, path);
  vtb_status status = VTB_OK;
  if (!vtb_path_exists(path))
    status = add_pattern(path, &t->shards, err);
  else if (!vtb__add_name(&t->shards, strdup(path)))
    status = vtb_no_memory(err, path);
  return status == VTB_OK ? index_all(path, d, err) : status;
}

static vtb_status load_member(const vtb__source *d, int64_t i, int channels, vtb_image *out,
                              vtb_error *err) {
  const tar *t = d->data;
  const member *m = &t->at.at[i];
  int fd = open(t->shards.at[m->shard], O_RDONLY | O_CLOEXEC);
  if (fd < 0) return vtb_file_fail(err, "open", t->shards.at[m->shard]);
  char *bytes = malloc((size_t)m->size + 1);
  int64_t have = 0;
  ssize_t got = 1;
  while (bytes && have < m->size && got > 0) {
    got = pread(fd, bytes + have, (size_t)(m->size - have), (off_t)(m->offset + have));
    if (got > 0) have += got;
  }
  close(fd);
  vtb_status status;
  if (!bytes)
    status = vtb_no_memory(err, m->name);
  else if (have < m->size)
    status = vtb_fail(err, VTB_E_INPUT, "%s: damaged: the file ends within it", m->name);
  else
    status = vtb_image_decode(m->name, bytes, (size_t)m->size, channels, out, err);
  free(bytes);
  return status;
}

static const char *file_of(const vtb__source *d, int64_t i) {
  return ((const tar *)d->data)->at.at[i].name;
}

static void close_tar(vtb__source *d) {
  tar *t = d->data;
  for (size_t i = 0; i < t->at.n; i++) {
    free(t->at.at[i].name);
    free(t->at.at[i].label);
  }
  vtb_vec_free(&t->at);
  vtb__free_names(&t->shards);
  free(t);
}

const vtb__format vtb__tar_format = {.is_file = true,
                                     .what = ".tar files of images, \"shards-{000..004}.tar\"",
                                     .find = find_files,
                                     .open = open_files,
                                     .image = load_member,
                                     .file = file_of,
                                     .close = close_tar};
const vtb__format vtb__tars_format = {.what = ".tar files of images (train-000.tar ...)",
                                      .find = find_folder,
                                      .open = open_folder,
                                      .image = load_member,
                                      .file = file_of,
                                      .close = close_tar};
