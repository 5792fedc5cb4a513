/* safetensors: header checks first, tensor views into the mapping after. */
#include "runtime/artefact/safetensors.h"

#include <cjson/cJSON.h>
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

/* ---- UTF-8: no overlong forms, surrogates, or values beyond U+10FFFF ------------------------- */

static size_t utf8_length(const unsigned char *p, size_t n) {
  if (p[0] < 0x80) return 1;
  size_t k = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
  if (p[0] < 0xc2 || p[0] > 0xf4 || k > n) return 0;
  for (size_t i = 1; i < k; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
  if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
  return k;
}

/* Offset of the first bad byte, or n. */
static size_t utf8_check(const char *text, size_t n) {
  size_t i = 0;
  while (i < n) {
    size_t k = utf8_length((const unsigned char *)text + i, n - i);
    if (!k) return i;
    i += k;
  }
  return n;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* Non-negative integers only; doubles are exact up to 2^53, far beyond any file. */
static bool json_size(const cJSON *v, int64_t *out) {
  if (!cJSON_IsNumber(v)) return false;
  double d = v->valuedouble;
  if (!(d >= 0 && d <= 9007199254740992.0) || d != (double)(int64_t)d) return false;
  *out = (int64_t)d;
  return true;
}

static vtb_status read_shape(reader *r, const char *name, const cJSON *shape, int *rank,
                             int64_t *dim) {
  if (!cJSON_IsArray(shape))
    return REFUSE(r, "%s: tensor %s: \"shape\" is missing or not a list", r->path, name);
  *rank = 0;
  const cJSON *size;
  cJSON_ArrayForEach(size, shape) {
    if (*rank == VTB_WEIGHT_MAX_RANK)
      return REFUSE(r, "%s: tensor %s has more than %d axes", r->path, name, VTB_WEIGHT_MAX_RANK);
    if (!json_size(size, &dim[*rank]))
      return REFUSE(r, "%s: tensor %s: size of axis %d is not a natural number", r->path, name,
                    *rank);
    ++*rank;
  }
  return VTB_OK;
}

static vtb_status read_tensor(reader *r, const cJSON *item, const unsigned char **begin,
                              size_t *n_bytes) {
  const char *name = item->string;
  if (!cJSON_IsObject(item))
    return REFUSE(r, "%s: tensor %s: its entry is not an object", r->path, name);
  const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
  const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
  vtb_elem elem;
  if (!cJSON_IsString(dtype))
    return REFUSE(r, "%s: tensor %s: \"dtype\" is missing or not a string", r->path, name);
  if (!vtb_elem_parse(dtype->valuestring, &elem))
    return REFUSE(r, "%s: tensor %s: type \"%.32s\" is not supported", r->path, name,
                  dtype->valuestring);

  int rank = 0;
  int64_t dim[VTB_WEIGHT_MAX_RANK], from, to;
  vtb_status status =
      read_shape(r, name, cJSON_GetObjectItemCaseSensitive(item, "shape"), &rank, dim);
  if (status != VTB_OK) return status;
  int64_t bytes = (int64_t)vtb_elem_bytes(elem);
  for (int i = 0; i < rank; i++)
    if (__builtin_mul_overflow(bytes, dim[i], &bytes))
      return REFUSE(r, "%s: tensor %s: its shape overflows", r->path, name);

  if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
      !json_size(cJSON_GetArrayItem(offsets, 0), &from) ||
      !json_size(cJSON_GetArrayItem(offsets, 1), &to))
    return REFUSE(r, "%s: tensor %s: \"data_offsets\" is not a pair of natural numbers", r->path,
                  name);
  if (from > to || (uint64_t)to > r->n)
    return REFUSE(r, "%s: tensor %s: bytes %lld to %lld are outside the file's %zu bytes of data",
                  r->path, name, (long long)from, (long long)to, r->n);
  if (to - from != bytes)
    return REFUSE(r, "%s: tensor %s: its shape needs %lld bytes, its offsets hold %lld", r->path,
                  name, (long long)bytes, (long long)(to - from));
  if (vtb_weights_find(r->w, name)) return REFUSE(r, "%s: tensor %s appears twice", r->path, name);
  vtb_weights_borrow(r->w, name, elem, rank, dim, r->data + from);
  *begin = r->data + from;
  *n_bytes = (size_t)bytes;
  return VTB_OK;
}

/* ---- the whole header ------------------------------------------------------------------------ */

static vtb_status read_metadata(reader *r, const cJSON *meta) {
  if (!cJSON_IsObject(meta)) return REFUSE(r, "%s: \"__metadata__\" is not an object", r->path);
  const cJSON *item;
  cJSON_ArrayForEach(item, meta) {
    if (!cJSON_IsString(item))
      return REFUSE(r, "%s: metadata \"%.64s\" is not a string", r->path, item->string);
    if (vtb_map_has(&r->w->meta, item->string))
      return REFUSE(r, "%s: metadata \"%.64s\" appears twice", r->path, item->string);
    vtb_weights_set_meta(r->w, item->string, item->valuestring);
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

static vtb_status read_header(reader *r, const cJSON *root) {
  if (!cJSON_IsObject(root)) return REFUSE(r, "%s: the header is not a JSON object", r->path);
  VTB_VEC(span) spans = {0};
  vtb_status status = VTB_OK;
  bool have_meta = false;
  const cJSON *item;
  cJSON_ArrayForEach(item, root) {
    if (vtb_streq(item->string, "__metadata__")) {
      status = have_meta ? REFUSE(r, "%s: \"__metadata__\" appears twice", r->path)
                         : read_metadata(r, item);
      have_meta = true;
    } else {
      const unsigned char *begin = r->data;
      size_t n_bytes = 0;
      status = read_tensor(r, item, &begin, &n_bytes);
      if (status == VTB_OK) {
        size_t from = (size_t)(begin - r->data);
        vtb_vec_push(&spans, ((span){from, from + n_bytes, item->string}));
      }
    }
    if (status != VTB_OK) break;
  }
  if (status == VTB_OK) status = check_coverage(r, spans.at, spans.n);
  vtb_vec_free(&spans);
  return status;
}

static vtb_status parse_json(reader *r, const char *text, size_t n) {
  size_t bad = utf8_check(text, n);
  if (bad < n) return REFUSE(r, "%s: the header is not UTF-8 (byte %zu)", r->path, bad);
  if (memchr(text, 0, n) || memmem(text, n, "\\u0000", 6))
    return REFUSE(r, "%s: the header contains a NUL character", r->path);
  const char *end = NULL;
  cJSON *root = cJSON_ParseWithLengthOpts(text, n, &end, false);
  vtb_status status = VTB_OK;
  if (!root) {
    size_t at = end && end >= text ? (size_t)(end - text) : 0;
    return REFUSE(r, "%s: the header is not valid JSON (near byte %zu)", r->path, at);
  }
  for (const char *p = end; p < text + n; p++)
    if (*p != ' ' && *p != '\n' && *p != '\t' && *p != '\r') {
      status = REFUSE(r, "%s: the header goes on after its JSON object (byte %zu)", r->path,
                      (size_t)(p - text));
      break;
    }
  if (status == VTB_OK) status = read_header(r, root);
  cJSON_Delete(root);
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
  vtb_status status = parse_json(&r, (const char *)bytes + 8, (size_t)header);
  if (status != VTB_OK) {
    vtb_weights_free(r.w);
    return status;
  }
  *out = r.w;
  return VTB_OK;
}

vtb_status vtb_safetensors_load(const char *path, vtb_weights **out, vtb_error *err) {
  vtb_mapped_file file;
  vtb_status status = vtb_map_file(path, &file, err);
  if (status != VTB_OK) return status;
  vtb_weights *w = NULL;
  status = vtb_safetensors_parse(path, file.data, file.n, &w, err);
  if (status != VTB_OK) {
    vtb_unmap_file(&file);
    return status;
  }
  w->file = file;
  *out = w;
  return VTB_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int by_alignment_then_name(const void *a, const void *b) {
  const vtb_weight *x = *(vtb_weight *const *)a, *y = *(vtb_weight *const *)b;
  size_t p = vtb_elem_bytes(x->elem), q = vtb_elem_bytes(y->elem);
  return p != q ? (p > q ? -1 : 1) : strcmp(x->name, y->name);
}

static int by_key(const void *a, const void *b) {
  return strcmp(((const struct vtb_map_entry *)a)->key, ((const struct vtb_map_entry *)b)->key);
}

static void put_json_string(vtb_strbuf *s, const char *text) {
  vtb_strbuf_putc(s, '"');
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '"' || *p == '\\')
      vtb_strbuf_printf(s, "\\%c", *p);
    else if (*p < 0x20)
      vtb_strbuf_printf(s, "\\u%04x", *p);
    else
      vtb_strbuf_putc(s, (char)*p);
  }
  vtb_strbuf_putc(s, '"');
}

static void put_metadata(vtb_strbuf *s, const vtb_map *meta) {
  if (!meta->n) return;
  struct vtb_map_entry *sorted = vtb_xmalloc(meta->n * sizeof *sorted);
  memcpy(sorted, meta->at, meta->n * sizeof *sorted);
  qsort(sorted, meta->n, sizeof *sorted, by_key);
  vtb_strbuf_puts(s, "\"__metadata__\":{");
  for (size_t i = 0; i < meta->n; i++) {
    if (i) vtb_strbuf_putc(s, ',');
    put_json_string(s, sorted[i].key);
    vtb_strbuf_putc(s, ':');
    put_json_string(s, sorted[i].value);
  }
  vtb_strbuf_putc(s, '}');
  free(sorted);
}

static void put_tensor(vtb_strbuf *s, const vtb_weight *t, uint64_t *offset) {
  uint64_t bytes = (uint64_t)t->count * vtb_elem_bytes(t->elem);
  put_json_string(s, t->name);
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

/* The sorted tensors, and the header that describes them. */
static vtb_weight **prepare(const vtb_weights *w, vtb_strbuf *header) {
  vtb_weight **sorted = vtb_xmalloc((w->n ? w->n : 1) * sizeof *sorted);
  if (w->n) memcpy(sorted, w->at, w->n * sizeof *sorted);
  if (w->n) qsort(sorted, w->n, sizeof *sorted, by_alignment_then_name);
  uint64_t offset = 0;
  vtb_strbuf_putc(header, '{');
  put_metadata(header, &w->meta);
  for (size_t i = 0; i < w->n; i++) {
    if (i || w->meta.n) vtb_strbuf_putc(header, ',');
    put_tensor(header, sorted[i], &offset);
  }
  vtb_strbuf_putc(header, '}');
  while (header->n % 8) vtb_strbuf_putc(header, ' ');
  return sorted;
}

vtb_status vtb_safetensors_write(FILE *file, const vtb_weights *w, uint64_t *n_bytes,
                                 vtb_error *err) {
  vtb_strbuf header = {0};
  vtb_weight **sorted = prepare(w, &header);
  errno = 0;
  bool ok = write_all(file, &header, sorted, w->n);
  *n_bytes = 8 + header.n;
  for (size_t i = 0; i < w->n; i++)
    *n_bytes += (uint64_t)sorted[i]->count * vtb_elem_bytes(sorted[i]->elem);
  vtb_strbuf_free(&header);
  free(sorted);
  return ok ? VTB_OK : vtb_fail(err, VTB_E_INPUT, "cannot write tensors: %s", strerror(errno));
}

vtb_status vtb_safetensors_save(const char *path, const vtb_weights *w, vtb_error *err) {
  vtb_atomic_file file;
  uint64_t n_bytes;
  vtb_error inner = {0};
  vtb_status status = vtb_atomic_begin(&file, path, err);
  if (status != VTB_OK) return status;
  status = vtb_safetensors_write(file.file, w, &n_bytes, &inner);
  if (status == VTB_OK) return vtb_atomic_commit(&file, err);
  vtb_atomic_abort(&file);
  return vtb_fail(err, status, "%s: %s", path, inner.text);
}
