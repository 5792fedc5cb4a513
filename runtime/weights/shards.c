/* An index names the file of each tensor: {"weight_map": {"head.weight": "model-00001-of..."}}. */
#include "runtime/weights/shards.h"

#include "runtime/base/json.h"
#include "runtime/weights/checkpoint.h"

#include <string.h>

enum { MOST_INDEX = 64 << 20, MOST_SHARDS = 4096 };

typedef struct shards {
  const char *path;
  vtb_map files; /* name -> vtb_weights, which `w` keeps */
  vtb_weights *w;
  vtb_open_fn open;
  vtb_strbuf *said;
  vtb_error *err;
} shards;

static void release(void *w) { vtb_weights_free(w); }

/* The tensors of one shard. */
static vtb_status open_shard(shards *s, const char *file, vtb_weights **out) {
  *out = vtb_map_get(&s->files, file);
  if (*out) return VTB_OK;
  if (strchr(file, '/') || strchr(file, '\\') || file[0] == '.' ||
      !vtb__good_name(file, strlen(file)))
    return vtb_fail(s->err, VTB_E_INPUT,
                    "%s: a shard must be a file beside the index: \"%.80s\" is refused", s->path,
                    file[0] == '.' || strchr(file, '/') ? file : "a name that is no text");
  if (s->files.n == MOST_SHARDS)
    return vtb_fail(s->err, VTB_E_INPUT, "%s names more than %d files", s->path, MOST_SHARDS);
  const char *slash = strrchr(s->path, '/');
  char *path = vtb_strprintf("%.*s%s", slash ? (int)(slash + 1 - s->path) : 0, s->path, file);
  if (!path) return vtb_no_memory(s->err, s->path);
  vtb_status status = s->open(path, NULL, out, s->said, s->err);
  free(path);
  if (status != VTB_OK) return status;
  if (!vtb_weights_keep(s->w, *out, release) || !vtb_map_try_set(&s->files, file, *out))
    return vtb_no_memory(s->err, s->path);
  return VTB_OK;
}

static vtb_status take_entry(shards *s, const vtb_json *entry) {
  vtb_weights *from = NULL;
  if (entry->kind != VTB_JSON_STRING)
    return vtb_fail(s->err, VTB_E_INPUT, "%s: the file of tensor %.200s is no text", s->path,
                    entry->key);
  VTB_TRY(open_shard(s, entry->text, &from));
  const vtb_weight *t = vtb_weights_find(from, entry->key);
  if (!t)
    return vtb_fail(s->err, VTB_E_INPUT, "%s: %s has no tensor %.200s, which the index says it has",
                    s->path, entry->text, entry->key);
  (void)vtb_weights_borrow(s->w, t->name, t->elem, t->rank, t->dim, t->data);
  if (!s->w->error.text[0]) return VTB_OK;
  return vtb_fail(s->err, s->w->error.status, "%s: %s", s->path, s->w->error.text);
}

/* Tensors that the shards have and the index does not name. */
static void count_others(shards *s) {
  size_t n = 0;
  for (size_t i = 0; i < s->files.n; i++) n += ((vtb_weights *)s->files.at[i].value)->n;
  if (n > s->w->n)
    vtb__say(s->said, "left out %zu tensors that the index does not name", n - s->w->n);
}

static vtb_status read_map(shards *s, const vtb_json *map) {
  if (!map || map->kind != VTB_JSON_OBJECT || !map->first)
    return vtb_fail(s->err, VTB_E_INPUT, "%s is JSON, but no index of weights (no \"weight_map\")",
                    s->path);
  for (const vtb_json *entry = map->first; entry; entry = entry->next)
    VTB_TRY(take_entry(s, entry));
  count_others(s);
  vtb__say(s->said, "%zu tensors of %zu files", s->w->n, s->files.n);
  return VTB_OK;
}

static vtb_status parse(shards *s, const char *text, size_t n) {
  vtb_arena arena;
  bool no_memory = false;
  size_t at = 0;
  if (!vtb__good_text(text, n))
    return vtb_fail(s->err, VTB_E_INPUT, "%s is not UTF-8 text", s->path);
  vtb_arena_init(&arena);
  const vtb_json *root = vtb_json_parse(text, n, &arena, &no_memory, &at);
  vtb_status status;
  if (no_memory)
    status = vtb_no_memory(s->err, s->path);
  else if (!root || at < n)
    status = vtb_fail(s->err, VTB_E_INPUT, "%s is not valid JSON (near byte %zu)", s->path, at);
  else
    status = read_map(s, vtb_json_member(root, "weight_map"));
  vtb_arena_free(&arena);
  return status;
}

vtb_status vtb__open_index(const char *path, vtb_open_fn open, vtb_weights **out, vtb_strbuf *said,
                           vtb_error *err) {
  shards s = {.path = path, .open = open, .said = said, .err = err};
  char *text = NULL;
  size_t n = 0;
  VTB_TRY(vtb_file_read(path, MOST_INDEX, &text, &n, err));
  s.w = vtb_weights_new();
  vtb_status status = s.w ? parse(&s, text, n) : vtb_no_memory(err, path);
  free(text);
  vtb_map_free(&s.files);
  if (status == VTB_OK)
    *out = s.w;
  else
    vtb_weights_free(s.w);
  return status;
}
