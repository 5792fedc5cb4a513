/* safetensors: header checks first, tensor views into the mapping after. */
#include "runtime/artefact/safetensors.h"

#include "runtime/artefact/content_hash.h"
#include "runtime/base/json.h"
#include "runtime/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
  const char *path;
  const unsigned char *data; /* the tensor bytes, after the header */
  size_t n;
  vtb_weights *w;
  vtb_error *err;
} reader;

#define REFUSE(r, ...) vtb_fail((r)->err, VTB_E_INPUT, __VA_ARGS__)

/* ---- one tensor ------------------------------------------------------------------------------ */

/* Non-negative integers only; doubles are exact up to 2^53, far beyond any file. */
static bool json_size(const vtb_json *v, int64_t *out) {
  if (!v || v->kind != VTB_JSON_NUMBER) return false;
  double d = v->number;
  if (!(d >= 0 && d <= 9007199254740992.0) || d != (double)(int64_t)d) return false;
  *out = (int64_t)d;
  return true;
}

static vtb_status read_shape(reader *r, const char *name, const vtb_json *shape, int *rank,
                             int64_t *dim) {
  if (!shape || shape->kind != VTB_JSON_ARRAY)
    return REFUSE(r, "%s: tensor %s: \"shape\" is missing or not a list", r->path, name);
  *rank = 0;
  for (const vtb_json *size = shape->first; size; size = size->next) {
    if (*rank == VTB_WEIGHT_MAX_RANK)
      return REFUSE(r, "%s: tensor %s has more than %d axes", r->path, name, VTB_WEIGHT_MAX_RANK);
    if (!json_size(size, &dim[*rank]))
      return REFUSE(r, "%s: tensor %s: size of axis %d is not a natural number", r->path, name,
                    *rank);
    ++*rank;
  }
  return VTB_OK;
}

/* [from, to] */
static bool read_offsets(const vtb_json *offsets, int64_t *from, int64_t *to) {
  const vtb_json *first = offsets && offsets->kind == VTB_JSON_ARRAY ? offsets->first : NULL;
  return first && first->next && !first->next->next && json_size(first, from) &&
         json_size(first->next, to);
}

static vtb_status read_tensor(reader *r, const vtb_json *item, const unsigned char **begin,
                              size_t *n_bytes) {
  const char *name = item->key;
  if (item->kind != VTB_JSON_OBJECT)
    return REFUSE(r, "%s: tensor %s: its entry is not an object", r->path, name);
  const vtb_json *dtype = vtb_json_member(item, "dtype");
  vtb_elem elem;
  if (!dtype || dtype->kind != VTB_JSON_STRING)
    return REFUSE(r, "%s: tensor %s: \"dtype\" is missing or not a string", r->path, name);
  if (!vtb_elem_parse(dtype->text, &elem))
    return REFUSE(r, "%s: tensor %s: type \"%.32s\" is not supported", r->path, name, dtype->text);

  int rank = 0;
  int64_t dim[VTB_WEIGHT_MAX_RANK], from, to;
  VTB_TRY(read_shape(r, name, vtb_json_member(item, "shape"), &rank, dim));
  int64_t bytes = (int64_t)vtb_elem_bytes(elem);
  for (int i = 0; i < rank; i++)
    if (__builtin_mul_overflow(bytes, dim[i], &bytes))
      return REFUSE(r, "%s: tensor %s: its shape overflows", r->path, name);

  if (!read_offsets(vtb_json_member(item, "data_offsets"), &from, &to))
    return REFUSE(r, "%s: tensor %s: \"data_offsets\" is not a pair of natural numbers", r->path,
                  name);
  if (from > to || (uint64_t)to > r->n)
    return REFUSE(r, "%s: tensor %s: bytes %lld to %lld are outside the file's %zu bytes of data",
                  r->path, name, (long long)from, (long long)to, r->n);
  if (to - from != bytes)
    return REFUSE(r, "%s: tensor %s: its shape needs %lld bytes, its offsets hold %lld", r->path,
                  name, (long long)bytes, (long long)(to - from));
  if (vtb_weights_find(r->w, name)) return REFUSE(r, "%s: tensor %s appears twice", r->path, name);
  if (!vtb_weights_borrow(r->w, name, elem, rank, dim, r->data + from))
    return vtb_fail(r->err, r->w->error.status, "%s: %s", r->path, r->w->error.text);
  *begin = r->data + from;
  *n_bytes = (size_t)bytes;
  return VTB_OK;
}

/* ---- the whole header ------------------------------------------------------------------------ */

static vtb_status read_metadata(reader *r, const vtb_json *meta) {
  if (meta->kind != VTB_JSON_OBJECT)
    return REFUSE(r, "%s: \"__metadata__\" is not an object", r->path);
  for (const vtb_json *item = meta->first; item; item = item->next) {
    if (item->kind != VTB_JSON_STRING)
      return REFUSE(r, "%s: metadata \"%.64s\" is not a string", r->path, item->key);
    if (vtb_map_has(&r->w->meta, item->key))
      return REFUSE(r, "%s: metadata \"%.64s\" appears twice", r->path, item->key);
    vtb_weights_set_meta(r->w, item->key, item->text);
  }
  return VTB_OK;
}

typedef struct span {
  size_t from, to;
  const char *name;
} span;

static int by_offset(const void *a, const void *b) {
  const span *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return (x->to > y->to) - (x->to < y->to);
}

/* The data must be covered exactly once. */
static vtb_status check_coverage(reader *r, span *spans, size_t n) {
  if (n) qsort(spans, n, sizeof *spans, by_offset);
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    if (spans[i].from < at)
      return REFUSE(r, "%s: tensors %s and %s overlap", r->path, spans[i - 1].name, spans[i].name);
    if (spans[i].from > at)
      return REFUSE(r, "%s: %zu bytes before tensor %s belong to no tensor", r->path,
                    spans[i].from - at, spans[i].name);
    at = spans[i].to;
  }
  if (at != r->n)
    return REFUSE(r, "%s: the last %zu bytes belong to no tensor", r->path, r->n - at);
  return VTB_OK;
}

static vtb_status read_header(reader *r, const vtb_json *root) {
  if (root->kind != VTB_JSON_OBJECT)
    return REFUSE(r, "%s: the header is not a JSON object", r->path);
  VTB_VEC(span) spans = {0};
  vtb_status status = VTB_OK;
  bool have_meta = false;
  for (const vtb_json *item = root->first; item; item = item->next) {
    if (vtb_streq(item->key, "__metadata__")) {
      status = have_meta ? REFUSE(r, "%s: \"__metadata__\" appears twice", r->path)
                         : read_metadata(r, item);
      have_meta = true;
    } else {
      const unsigned char *begin = r->data;
      size_t n_bytes = 0;
      status = read_tensor(r, item, &begin, &n_bytes);
      if (status == VTB_OK) {
        size_t from = (size_t)(begin - r->data);
        if (!vtb_vec_try_push(&spans, ((span){from, from + n_bytes, item->key})))
          status = vtb_no_memory(r->err, r->path);
      }
    }
    if (status != VTB_OK) break;
  }
  if (status == VTB_OK) status = check_coverage(r, spans.at, spans.n);
  vtb_vec_free(&spans);
  return status;
}

static vtb_status parse_json(reader *r, const char *text, size_t n) {
  size_t bad = vtb_utf8_check(text, n);
  if (bad < n) return REFUSE(r, "%s: the header is not UTF-8 (byte %zu)", r->path, bad);
  if (memchr(text, 0, n) || memmem(text, n, "\\u0000", 6))
    return REFUSE(r, "%s: the header contains a NUL character", r->path);
  vtb_arena arena;
  bool no_memory;
  size_t at;
  vtb_arena_init(&arena);
  const vtb_json *root = vtb_json_parse(text, n, &arena, &no_memory, &at);
  vtb_status status;
  if (no_memory)
    status = vtb_no_memory(r->err, r->path);
  else if (!root)
    status = REFUSE(r, "%s: the header is not valid JSON (near byte %zu)", r->path, at);
  else if (at < n)
    status = REFUSE(r, "%s: the header goes on after its JSON object (byte %zu)", r->path, at);
  else
    status = read_header(r, root);
  vtb_arena_free(&arena);
  return status;
}

vtb_status vtb_safetensors_parse(const char *name, const void *data, size_t n, vtb_weights **out,
                                 vtb_error *err) {
  const unsigned char *bytes = data;
  reader r = {.path = name, .err = err};
  if (n < 8)
    return REFUSE(&r, "%s: not a safetensors file: %zu bytes, too short for a header", name, n);
  uint64_t header = 0;
  for (int i = 7; i >= 0; i--) header = header << 8 | bytes[i];
  if (header > VTB_SAFETENSORS_MAX_HEADER)
    return REFUSE(&r, "%s: not a safetensors file: it asks for a header of %llu bytes", name,
                  (unsigned long long)header);
  if (header > n - 8)
    return REFUSE(&r, "%s: truncated: the header should have %llu bytes, the file has %zu", name,
                  (unsigned long long)header, n - 8);
  if (header < 2 || bytes[8] != '{')
    return REFUSE(&r, "%s: not a safetensors file: no JSON header", name);
  r.data = bytes + 8 + header;
  r.n = n - 8 - (size_t)header;
  r.w = vtb_weights_new();
  if (!r.w) return vtb_no_memory(err, name);
  vtb_status status = parse_json(&r, (const char *)bytes + 8, (size_t)header);
  if (status == VTB_OK && r.w->error.text[0])
    status = vtb_fail(err, r.w->error.status, "%s: %s", name, r.w->error.text);
  if (status != VTB_OK) {
    vtb_weights_free(r.w);
    return status;
  }
  *out = r.w;
  return VTB_OK;
}

vtb_status vtb_safetensors_load(const char *path, vtb_weights **out, vtb_error *err) {
  vtb_mapped_file file;
  VTB_TRY(vtb_map_file(path, &file, err));
  vtb_weights *w = NULL;
  vtb_status status = vtb_safetensors_parse(path, file.data, file.n, &w, err);
  if (status == VTB_OK) status = vtb_content_hash_check(path, w, err);
  if (status != VTB_OK) {
    vtb_weights_free(w);
    vtb_unmap_file(&file);
    return status;
  }
  w->file = file;
  *out = w;
  return VTB_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* There may be no gaps between tensors: those that leave the next one at a multiple of 64 bytes
 * come first, so that a mapped file can be computed with where it lies. */
enum { DATA_ALIGNMENT = 64 };
static bool is_whole(const vtb_weight *t) {
  return (uint64_t)t->count * vtb_elem_bytes(t->elem) % DATA_ALIGNMENT == 0;
}

static int by_alignment_then_name(const void *a, const void *b) {
  const vtb_weight *x = *(vtb_weight *const *)a, *y = *(vtb_weight *const *)b;
  size_t p = vtb_elem_bytes(x->elem), q = vtb_elem_bytes(y->elem);
  if (is_whole(x) != is_whole(y)) return is_whole(x) ? -1 : 1;
  return p != q ? (p > q ? -1 : 1) : strcmp(x->name, y->name);
}

static int by_key(const void *a, const void *b) {
  return strcmp(((const struct vtb_map_entry *)a)->key, ((const struct vtb_map_entry *)b)->key);
}

/* A sorted copy of n > 0 elements; NULL when out of memory. */
static void *sorted_copy(const void *at, size_t n, size_t bytes,
                         int (*order)(const void *a, const void *b)) {
  void *copy = malloc(n * bytes);
  if (!copy) return NULL;
  memcpy(copy, at, n * bytes);
  qsort(copy, n, bytes, order);
  return copy;
}

static bool put_metadata(vtb_strbuf *s, const vtb_weights *w) {
  const vtb_map *meta = &w->meta;
  char hash[VTB_CONTENT_HASH_BYTES];
  if (!meta->n) return true;
  if (vtb_map_has(meta, VTB_CONTENT_HASH)) vtb_content_hash(w, hash);
  struct vtb_map_entry *sorted = sorted_copy(meta->at, meta->n, sizeof *sorted, by_key);
  if (!sorted) return false;
  vtb_strbuf_puts(s, "\"__metadata__\":{");
  for (size_t i = 0; i < meta->n; i++) {
    if (i) vtb_strbuf_putc(s, ',');
    vtb_strbuf_json(s, sorted[i].key);
    vtb_strbuf_putc(s, ':');
    vtb_strbuf_json(s, vtb_streq(sorted[i].key, VTB_CONTENT_HASH) ? hash : sorted[i].value);
  }
  vtb_strbuf_putc(s, '}');
  free(sorted);
  return true;
}

static void put_tensor(vtb_strbuf *s, const vtb_weight *t, uint64_t *offset) {
  uint64_t bytes = (uint64_t)t->count * vtb_elem_bytes(t->elem);
  vtb_strbuf_json(s, t->name);
  vtb_strbuf_printf(s, ":{\"dtype\":\"%s\",\"shape\":[", vtb_elem_name(t->elem));
  for (int i = 0; i < t->rank; i++)
    vtb_strbuf_printf(s, "%s%lld", i ? "," : "", (long long)t->dim[i]);
  vtb_strbuf_printf(s, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*offset,
                    (unsigned long long)(*offset + bytes));
  *offset += bytes;
}

static bool write_all(FILE *f, const vtb_strbuf *header, vtb_weight *const *tensors, size_t n) {
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header->n >> (8 * i));
  if (fwrite(length, 1, 8, f) != 8 || fwrite(header->at, 1, header->n, f) != header->n)
    return false;
  for (size_t i = 0; i < n; i++) {
    size_t bytes = (size_t)tensors[i]->count * vtb_elem_bytes(tensors[i]->elem);
    if (bytes && fwrite(tensors[i]->data, 1, bytes, f) != bytes) return false;
  }
  return true;
}

/* The header that describes the tensors, which are sorted. */
static bool put_header(vtb_strbuf *header, const vtb_weights *w, vtb_weight *const *sorted) {
  uint64_t offset = 0;
  vtb_strbuf_putc(header, '{');
  if (!put_metadata(header, w)) return false;
  for (size_t i = 0; i < w->n; i++) {
    if (i || w->meta.n) vtb_strbuf_putc(header, ',');
    put_tensor(header, sorted[i], &offset);
  }
  vtb_strbuf_putc(header, '}');
  while (!header->failed && (8 + header->n) % DATA_ALIGNMENT) vtb_strbuf_putc(header, ' ');
  return !header->failed;
}

static uint64_t total_bytes(const vtb_weights *w) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < w->n; i++)
    bytes += (uint64_t)w->at[i]->count * vtb_elem_bytes(w->at[i]->elem);
  return bytes;
}

vtb_status vtb_safetensors_write(FILE *file, const vtb_weights *w, uint64_t *n_bytes,
                                 vtb_error *err) {
  vtb_strbuf header = VTB_CHECKED_STRBUF;
  vtb_weight **sorted = NULL;
  vtb_status status = VTB_OK;
  if (w->error.text[0]) return vtb_fail(err, w->error.status, "%s", w->error.text);
  if (w->n) sorted = sorted_copy(w->at, w->n, sizeof *sorted, by_alignment_then_name);
  errno = 0;
  if ((w->n && !sorted) || !put_header(&header, w, sorted))
    status = vtb_no_memory(err, "the list of tensors");
  else if (!write_all(file, &header, sorted, w->n))
    status = vtb_file_fail(err, "write", "tensors");
  *n_bytes = 8 + header.n + total_bytes(w);
  vtb_strbuf_free(&header);
  free(sorted);
  return status;
}

vtb_status vtb_safetensors_save(const char *path, const vtb_weights *w, vtb_error *err) {
  vtb_atomic_file file;
  uint64_t n_bytes;
  vtb_error inner = {0};
  VTB_TRY(vtb_atomic_begin(&file, path, err));
  vtb_status status = vtb_safetensors_write(file.file, w, &n_bytes, &inner);
  if (status == VTB_OK) return vtb_atomic_commit(&file, err);
  vtb_atomic_abort(&file);
  return vtb_fail(err, status, "%s: %s", path, inner.text);
}
