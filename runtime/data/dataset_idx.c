/* IDX files: big-endian magic 00 00 type rank, sizes, data. Only unsigned bytes (type 8) occur in
 * image sets. */
#include "runtime/data/dataset_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define IDX_LIMIT_BYTES ((size_t)4 << 30)

/* Reads plain and gzip files alike; *n bytes, malloc'd. */
static vtb_status read_gz(const char *path, unsigned char **data, size_t *n, vtb_error *err) {
  errno = ENOMEM; /* which gzopen() leaves alone when that is the reason */
  gzFile f = gzopen(path, "rb");
  if (!f) return vtb_file_fail(err, "open", path);
  (void)gzbuffer(f, 1u << 17);
  vtb_strbuf s = VTB_CHECKED_STRBUF;
  unsigned char *piece = malloc(1u << 17);
  int got = 0;
  vtb_status status = piece ? VTB_OK : vtb_no_memory(err, path);
  while (piece && !s.failed && (got = gzread(f, piece, 1u << 17)) > 0) {
    if (s.n + (size_t)got > IDX_LIMIT_BYTES) {
      status = vtb_fail(err, VTB_E_INPUT, "%s holds more than %zu bytes", path, IDX_LIMIT_BYTES);
      break;
    }
    vtb_strbuf_write(&s, (char *)piece, (size_t)got);
  }
  int code;
  const char *text = gzerror(f, &code);
  if (status == VTB_OK && (s.failed || code == Z_MEM_ERROR)) status = vtb_no_memory(err, path);
  if (status == VTB_OK && (got < 0 || (code != Z_OK && code != Z_STREAM_END)))
    status = vtb_fail(err, VTB_E_INPUT, "%s: damaged: %s", path,
                      code == Z_ERRNO ? strerror(errno) : text);
  /* A gzip stream that stops early reads as a short file; only closing tells. */
  int closed = gzclose(f);
  if (status == VTB_OK && closed != Z_OK)
    status = vtb_fail(err, VTB_E_INPUT, "%s: damaged: it ends too early", path);
  free(piece);
  if (status != VTB_OK) {
    vtb_strbuf_free(&s);
    return status;
  }
  *data = (unsigned char *)s.at;
  *n = s.n;
  return VTB_OK;
}

static uint32_t big_endian(const unsigned char *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static vtb_status check_idx(const char *path, const unsigned char *data, size_t n, int min_rank,
                            int max_rank, int *rank, int64_t *dim, vtb_error *err) {
  if (n < 4 || data[0] || data[1]) return vtb_fail(err, VTB_E_INPUT, "%s: not an IDX file", path);
  if (data[2] != 8)
    return vtb_fail(err, VTB_E_INPUT,
                    "%s: IDX type %02x is not supported, only unsigned bytes (08)", path, data[2]);
  if (data[3] < min_rank || data[3] > max_rank)
    return vtb_fail(err, VTB_E_INPUT, "%s: IDX rank %d where %d was expected", path, data[3],
                    min_rank);
  *rank = data[3];
  size_t header = 4 + 4 * (size_t)*rank;
  if (n < header) return vtb_fail(err, VTB_E_INPUT, "%s: truncated in its header", path);
  int64_t total = 1;
  for (int i = 0; i < *rank; i++) {
    dim[i] = big_endian(data + 4 + 4 * i);
    if (__builtin_mul_overflow(total, dim[i], &total))
      return vtb_fail(err, VTB_E_INPUT, "%s: its sizes overflow", path);
  }
  if ((uint64_t)total != n - header)
    return vtb_fail(err, VTB_E_INPUT, "%s: its sizes need %lld bytes of data, it has %zu", path,
                    (long long)total, n - header);
  return VTB_OK;
}

vtb_status vtb__idx_read(const char *path, int min_rank, int max_rank, int *rank, int64_t *dim,
                         unsigned char **bytes, vtb_error *err) {
  unsigned char *data = NULL;
  size_t n = 0;
  VTB_TRY(read_gz(path, &data, &n, err));
  vtb_status status = check_idx(path, data, n, min_rank, max_rank, rank, dim, err);
  if (status != VTB_OK) {
    free(data);
    return status;
  }
  size_t header = 4 + 4 * (size_t)*rank;
  memmove(data, data + header, n - header);
  *bytes = data;
  return VTB_OK;
}

/* *path: "folder/stem-what-ubyte", or that with ".gz", whichever exists; NULL if neither. Caller
 * frees. */
static vtb_status find_file(const char *folder, const char *stem, const char *what, char **path,
                            vtb_error *err) {
  for (int zipped = 0; zipped < 2; zipped++) {
    *path = vtb_strprintf("%s/%s-%s-ubyte%s", folder, stem, what, zipped ? ".gz" : "");
    if (!*path) return vtb_no_memory(err, folder);
    if (vtb_path_exists(*path)) return VTB_OK;
    free(*path);
    *path = NULL;
  }
  return VTB_OK;
}

/* All images in memory, channels interleaved. */
typedef struct pixels {
  unsigned char *pixels;
  int channels, height, width;
} pixels;

static vtb_status take_images(const char *path, vtb__source *d, vtb_error *err) {
  pixels *p = d->data = calloc(1, sizeof *p);
  if (!p) return vtb_no_memory(err, path);
  int rank = 0;
  int64_t dim[4] = {0};
  VTB_TRY(vtb__idx_read(path, 3, 4, &rank, dim, &p->pixels, err));
  if (rank == 4 && dim[3] != 1 && dim[3] != 3)
    return vtb_fail(err, VTB_E_INPUT, "%s: images with %lld channels; 1 or 3 are supported", path,
                    (long long)dim[3]);
  if (dim[0] == 0 || dim[1] < 1 || dim[2] < 1 || dim[1] > VTB_IMAGE_MAX_SIDE ||
      dim[2] > VTB_IMAGE_MAX_SIDE || dim[1] * dim[2] > VTB_IMAGE_MAX_PIXELS)
    return vtb_fail(err, VTB_E_INPUT, "%s: %lld images of %lld x %lld pixels", path,
                    (long long)dim[0], (long long)dim[2], (long long)dim[1]);
  d->count = dim[0];
  p->height = (int)dim[1];
  p->width = (int)dim[2];
  p->channels = rank == 4 ? (int)dim[3] : 1;
  return VTB_OK;
}

/* Labels of both splits, which must agree on how many classes there are. Malloc'd. */
static vtb_status read_labels(const char *path, vtb__source *d, int32_t **out, int64_t *n,
                              vtb_error *err) {
  int rank = 0;
  unsigned char *bytes = NULL;
  VTB_TRY(vtb__idx_read(path, 1, 1, &rank, n, &bytes, err));
  int32_t *labels = malloc((size_t)*n * sizeof *labels + 1);
  for (int64_t i = 0; labels && i < *n; i++) labels[i] = bytes[i];
  free(bytes);
  vtb_status status =
      labels ? vtb__count_labels(d, path, labels, *n, err) : vtb_no_memory(err, path);
  *out = labels;
  return status;
}

static vtb_status take_labels(const char *path, vtb__source *d, vtb_error *err) {
  int64_t n = 0;
  VTB_TRY(read_labels(path, d, &d->labels, &n, err));
  if (n != d->count)
    return vtb_fail(err, VTB_E_INPUT, "%s: %lld labels for %lld images", path, (long long)n,
                    (long long)d->count);
  return VTB_OK;
}

static vtb_status other_labels(const char *folder, const char *stem, vtb__source *d,
                               vtb_error *err) {
  char *path;
  int32_t *labels = NULL;
  int64_t n = 0;
  vtb_status status = find_file(folder, stem, "labels-idx1", &path, err);
  d->census.all_splits = true;
  if (path) status = read_labels(path, d, &labels, &n, err);
  free(labels);
  free(path);
  return status;
}

/* Data that are known by name have ten classes, whichever of them are there. */
static vtb_status check_known(vtb__source *d, vtb_error *err) {
  const vtb__known *known = vtb__find_known(d->name);
  if (!known) return VTB_OK;
  if (d->n_classes > 10)
    return vtb_fail(err, VTB_E_INPUT, "%s: sample %lld has the label %d; those of %s are 0 to 9",
                    d->census.file, (long long)d->census.where, d->n_classes - 1, known->name);
  d->n_classes = 10;
  return VTB_OK;
}

static const char *stem_of(unsigned split) { return split == VTB__TRAIN ? "train" : "t10k"; }

static vtb_status find_idx(const char *folder, unsigned *splits, bool *found, vtb_error *err) {
  for (unsigned split = VTB__TRAIN; split <= VTB__TEST; split *= 4) {
    char *images = NULL, *labels = NULL;
    vtb_status status = find_file(folder, stem_of(split), "images-idx3", &images, err);
    if (status == VTB_OK) status = find_file(folder, stem_of(split), "labels-idx1", &labels, err);
    if (status == VTB_OK && !images != !labels)
      status =
          vtb_fail(err, VTB_E_INPUT, "%s: has %s-%s-... but not the %s that belong to it", folder,
                   stem_of(split), images ? "images" : "labels", images ? "labels" : "images");
    if (images && labels) *splits |= split;
    free(images);
    free(labels);
    if (status != VTB_OK) return status;
  }
  *found = *splits != 0;
  return VTB_OK;
}

static vtb_status open_idx(const char *folder, unsigned split, vtb__source *d, vtb_error *err) {
  char *images = NULL, *labels = NULL;
  vtb_status status = find_file(folder, stem_of(split), "images-idx3", &images, err);
  if (status == VTB_OK) status = find_file(folder, stem_of(split), "labels-idx1", &labels, err);
  if (status == VTB_OK && !(images && labels))
    status = vtb_fail(err, VTB_E_INPUT, "%s: its files are gone", folder);
  if (status == VTB_OK) status = take_images(images, d, err);
  if (status == VTB_OK) status = take_labels(labels, d, err);
  if (status == VTB_OK)
    status = other_labels(folder, stem_of(split == VTB__TRAIN ? VTB__TEST : VTB__TRAIN), d, err);
  if (status == VTB_OK) status = check_known(d, err);
  free(images);
  free(labels);
  return status;
}

static vtb_status copy_pixels(const vtb__source *d, int64_t i, int channels, vtb_image *out,
                              vtb_error *err) {
  const pixels *p = d->data;
  size_t n = (size_t)p->height * (size_t)p->width * (size_t)p->channels;
  vtb_image view = {p->width, p->height, p->channels, p->pixels + (size_t)i * n};
  vtb_image made = vtb_image_convert(&view, channels ? channels : p->channels);
  if (!made.pixels) return vtb_no_memory(err, "an image");
  *out = made;
  return VTB_OK;
}

static void close_idx(vtb__source *d) {
  pixels *p = d->data;
  free(p->pixels);
  free(p);
}

const vtb__format vtb__idx_format = {.what = "IDX files (train-images-idx3-ubyte.gz ...)",
                                     .mixed = true,
                                     .find = find_idx,
                                     .open = open_idx,
                                     .image = copy_pixels,
                                     .close = close_idx};
