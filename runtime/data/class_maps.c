/* Folders that are classes, and files beside them that say what they are called and in which order
 * they are counted: class_to_idx.json, classes.txt, ImageNet's lists of words, lists in JSON. */
#include "runtime/base/json.h"
#include "runtime/base/utf8.h"
#include "runtime/data/dataset_internal.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_LIMIT ((size_t)16 << 20)

/* The text of folder/name; NULL with VTB_OK: there is no such file. */
static vtb_status read_beside(const char *folder, const char *name, char **text, size_t *n,
                              vtb_error *err) {
  char *path = vtb__join(folder, name);
  *text = NULL;
  if (!path) return vtb_no_memory(err, folder);
  vtb_status status = VTB_OK;
  if (vtb_path_exists(path)) status = vtb_file_read(path, TEXT_LIMIT, text, n, err);
  free(path);
  return status;
}

/* Class k becomes class to[k] of n, which names[] call; takes the names. */
static void renumber(vtb__source *d, const int *to, char **names, int n) {
  for (int64_t i = 0; i < d->count; i++) d->labels[i] = to[d->labels[i]];
  vtb__free_texts(d->class_names, d->n_classes);
  d->class_names = names;
  d->n_classes = n;
}

/* ---- class_to_idx.json ----------------------------------------------------------------------- */

static vtb_status read_numbers(const char *folder, const vtb_json *map, const vtb__source *d,
                               int *to, int *n, vtb_error *err) {
  for (int k = 0; k < d->n_classes; k++) {
    const vtb_json *m = vtb_json_member(map, d->class_names[k]);
    if (!m || m->kind != VTB_JSON_NUMBER || !(m->number >= 0 && m->number < VTB__MOST_CLASSES))
      return vtb_fail(err, VTB_E_INPUT, "%s/class_to_idx.json has no number for the class %s",
                      folder, d->class_names[k]);
    to[k] = (int)m->number;
    if (to[k] >= *n) *n = to[k] + 1;
  }
  return VTB_OK;
}

/* Numbers without a folder are called by their names in the map. */
static vtb_status name_numbers(const char *folder, const vtb_json *map, int n, char **names,
                               vtb_error *err) {
  for (const vtb_json *m = map->first; m; m = m->next) {
    int at = m->kind == VTB_JSON_NUMBER && m->number >= 0 && m->number < n ? (int)m->number : -1;
    if (at < 0) continue;
    if (names[at])
      return vtb_fail(err, VTB_E_INPUT, "%s/class_to_idx.json gives the number %d twice", folder,
                      at);
    if (!(names[at] = strdup(m->key))) return vtb_no_memory(err, folder);
  }
  int nameless = 0;
  for (int i = 0; i < n; i++) nameless += !names[i];
  if (nameless > n - nameless)
    return vtb_fail(err, VTB_E_INPUT,
                    "%s/class_to_idx.json gives the class %s the number %d, and %d of those below "
                    "it to none",
                    folder, names[n - 1], n - 1, nameless);
  for (int i = 0; i < n; i++)
    if (!names[i] && !(names[i] = vtb_strprintf("%d", i))) return vtb_no_memory(err, folder);
  return VTB_OK;
}

static vtb_status by_numbers(const char *folder, char *text, size_t size, vtb__source *d,
                             vtb_error *err) {
  vtb_arena arena;
  bool no_memory = false;
  size_t at = 0;
  int n = d->n_classes;
  vtb_arena_init(&arena);
  const vtb_json *map = vtb_utf8_check(text, size) == size
                            ? vtb_json_parse(text, size, &arena, &no_memory, &at)
                            : NULL;
  int *to = calloc((size_t)d->n_classes + 1, sizeof *to);
  char **names = NULL;
  vtb_status status = VTB_OK;
  if (no_memory || !to)
    status = vtb_no_memory(err, folder);
  else if (!map || map->kind != VTB_JSON_OBJECT)
    status =
        vtb_fail(err, VTB_E_INPUT, "%s/class_to_idx.json: no JSON object (byte %zu)", folder, at);
  if (status == VTB_OK) status = read_numbers(folder, map, d, to, &n, err);
  if (status == VTB_OK && !(names = calloc((size_t)n + 1, sizeof *names)))
    status = vtb_no_memory(err, folder);
  if (status == VTB_OK) status = name_numbers(folder, map, n, names, err);
  if (status == VTB_OK)
    renumber(d, to, names, n);
  else
    vtb__free_texts(names, n);
  free(to);
  vtb_arena_free(&arena);
  return status;
}

/* ---- lists of lines -------------------------------------------------------------------------- */

static int find_line(const vtb__names *lines, const char *name) {
  for (size_t i = 0; i < lines->n; i++)
    if (strcmp(lines->at[i], name) == 0) return (int)i;
  return -1;
}

/* classes.txt with every folder on a line of its own: their order. */
static vtb_status by_lines(const char *folder, vtb__names *lines, vtb__source *d, bool *done,
                           vtb_error *err) {
  int *to = calloc((size_t)d->n_classes + 1, sizeof *to);
  if (!to) return vtb_no_memory(err, folder);
  *done = lines->n <= VTB__MOST_CLASSES;
  for (int k = 0; k < d->n_classes && *done; k++)
    *done = (to[k] = find_line(lines, d->class_names[k])) >= 0;
  if (*done) {
    renumber(d, to, lines->at, (int)lines->n);
    *lines = (vtb__names){0};
  }
  free(to);
  return VTB_OK;
}

/* The words behind the folder's name on its line, up to a comma; NULL: no such line. */
static const char *words_of(const vtb__names *lines, const char *name, size_t *n) {
  size_t length = strlen(name);
  for (size_t i = 0; i < lines->n; i++) {
    const char *line = lines->at[i];
    if (strncmp(line, name, length) != 0 || !line[length] || !strchr(" \t,:", line[length]))
      continue;
    line += length + strspn(line + length, " \t,:");
    *n = strcspn(line, ",");
    return *n ? line : NULL;
  }
  return NULL;
}

/* Name k of names[]: the words, or without them the folder's name. Words that an earlier class has
 * too are followed by the folder's name. False: no memory. */
static bool put_name(char **names, int k, const char *words, size_t n, const char *folder) {
  names[k] = words ? strndup(words, n) : strdup(folder);
  bool twice = false;
  for (int j = 0; j < k && names[k]; j++) twice |= strcmp(names[j], names[k]) == 0;
  if (!twice) return names[k] != NULL;
  char *both = vtb_strprintf("%s (%s)", names[k], folder);
  free(names[k]);
  names[k] = both;
  return both != NULL;
}

/* "n01440764 tench, Tinca tinca": the folder n01440764 is the class tench. by_place: line k is the
 * name of folder k. */
static vtb_status by_words(const char *folder, const vtb__names *lines, bool by_place,
                           vtb__source *d, int *found, vtb_error *err) {
  char **names = calloc((size_t)d->n_classes + 1, sizeof *names);
  bool enough = names != NULL;
  *found = 0;
  for (int k = 0; k < d->n_classes && enough; k++) {
    size_t n = by_place ? strlen(lines->at[k]) : 0;
    const char *words = by_place ? lines->at[k] : words_of(lines, d->class_names[k], &n);
    *found += words != NULL;
    enough = put_name(names, k, words, n, d->class_names[k]);
  }
  if (enough && *found) {
    vtb__free_texts(d->class_names, d->n_classes);
    d->class_names = names;
  } else {
    vtb__free_texts(names, d->n_classes);
  }
  return enough ? VTB_OK : vtb_no_memory(err, folder);
}

static vtb_status by_list(const char *folder, const char *file, bool ordered, vtb__source *d,
                          bool *done, vtb_error *err) {
  char *text;
  size_t n;
  vtb__names lines = {0};
  int found = 0;
  vtb_status status = read_beside(folder, file, &text, &n, err);
  if (status != VTB_OK || !text) return status;
  if (!vtb__read_lines(text, &lines)) status = vtb_no_memory(err, folder);
  if (status == VTB_OK && ordered) status = by_lines(folder, &lines, d, done, err);
  if (status == VTB_OK && !*done) {
    status = by_words(folder, &lines, false, d, &found, err);
    *done = found > 0;
    if (found && found < d->n_classes)
      vtb_strbuf_printf(&d->notes, "%s/%s has no words for %d of the %d classes\n", folder, file,
                        d->n_classes - found, d->n_classes);
  }
  if (status == VTB_OK && ordered && !*done)
    vtb_strbuf_printf(&d->notes, "%s/%s is not used: it does not name the folders\n", folder, file);
  vtb__free_names(&lines);
  free(text);
  return status;
}

/* ---- lists of names in JSON ------------------------------------------------------------------ */

/* ["tench", "goldfish", ...]; *out as far as it was read, after errors too. */
static vtb_status read_json_list(const char *folder, const char *file, const char *text, size_t n,
                                 vtb__names *out, vtb_error *err) {
  vtb_arena arena;
  bool no_memory = false;
  size_t at = 0;
  vtb_arena_init(&arena);
  const vtb_json *list =
      vtb_utf8_check(text, n) == n ? vtb_json_parse(text, n, &arena, &no_memory, &at) : NULL;
  bool is_list = list && list->kind == VTB_JSON_ARRAY;
  for (const vtb_json *j = is_list ? list->first : NULL; j && is_list && !no_memory; j = j->next) {
    is_list = j->kind == VTB_JSON_STRING && *j->text;
    if (is_list) no_memory = !vtb__add_name(out, strdup(j->text));
  }
  vtb_arena_free(&arena);
  if (no_memory) return vtb_no_memory(err, folder);
  return is_list ? VTB_OK
                 : vtb_fail(err, VTB_E_INPUT, "%s/%s: no JSON list of names", folder, file);
}

/* The folders themselves in their order, or a name for each folder in the order of the folders'
 * names. */
static vtb_status by_json_list(const char *folder, const char *file, vtb__source *d, bool *done,
                               vtb_error *err) {
  char *text;
  size_t n;
  vtb__names names = {0};
  int found = 0;
  vtb_status status = read_beside(folder, file, &text, &n, err);
  if (status != VTB_OK || !text) return status;
  status = read_json_list(folder, file, text, n, &names, err);
  size_t count = names.n;
  if (status == VTB_OK) status = by_lines(folder, &names, d, done, err);
  if (status == VTB_OK && !*done && count == (size_t)d->n_classes) {
    status = by_words(folder, &names, true, d, &found, err);
    *done = found > 0;
  }
  if (status == VTB_OK && !*done)
    vtb_strbuf_printf(&d->notes, "%s/%s is not used: it has %zu names, and there are %d classes\n",
                      folder, file, count, d->n_classes);
  vtb__free_names(&names);
  free(text);
  return status;
}

vtb_status vtb__map_classes(const char *folder, vtb__source *d, vtb_error *err) {
  static const char *const lists[] = {"classes.txt", "LOC_synset_mapping.txt", "synset_words.txt",
                                      "words.txt"};
  static const char *const json_lists[] = {"classes.json", "imagenet-simple-labels.json"};
  char *text;
  size_t n;
  bool done = false;
  vtb_status status = read_beside(folder, "class_to_idx.json", &text, &n, err);
  if (status == VTB_OK && text) {
    status = by_numbers(folder, text, n, d, err);
    done = true;
  }
  free(text);
  for (int i = 0; i < 4 && status == VTB_OK && !done; i++)
    status = by_list(folder, lists[i], i == 0, d, &done, err);
  for (int i = 0; i < 2 && status == VTB_OK && !done; i++)
    status = by_json_list(folder, json_lists[i], d, &done, err);
  return status;
}
