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
  vtb_status status = read_gz(path, &data, &n, err);
  if (status != VTB_OK) return status;
  status = check_idx(path, data, n, min_rank, max_rank, rank, dim, err);
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
  vtb_status status = vtb__idx_read(path, 3, 4, &rank, dim, &p->pixels, err);
  if (status != VTB_OK) return status;
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

/* Labels of both splits, which must agree on how many classes there are. */
typedef struct census {
  bool seen[256];
  int most;      /* the highest label */
  int64_t where; /* its first sample */
  char file[400];
} census;

static void count_label(census *c, const char *path, int label, int64_t i) {
  c->seen[label] = true;
  if (label <= c->most) return;
  c->most = label;
  c->where = i;
  snprintf(c->file, sizeof c->file, "%s", path);
}

static vtb_status take_labels(const char *path, vtb__source *d, census *c, vtb_error *err) {
  int rank = 0;
  int64_t n = 0;
  unsigned char *labels = NULL;
  vtb_status status = vtb__idx_read(path, 1, 1, &rank, &n, &labels, err);
  if (status != VTB_OK) return status;
  if (n != d->count) {
    free(labels);
    return vtb_fail(err, VTB_E_INPUT, "%s: %lld labels for %lld images", path, (long long)n,
                    (long long)d->count);
  }
  d->labels = calloc((size_t)n, sizeof *d->labels);
  if (!d->labels) {
    free(labels);
    return vtb_no_memory(err, path);
  }
  for (int64_t i = 0; i < n; i++) count_label(c, path, d->labels[i] = labels[i], i);
  free(labels);
  return VTB_OK;
}

static vtb_status other_labels(const char *folder, const char *stem, census *c, vtb_error *err) {
  char *path;
  vtb_status status = find_file(folder, stem, "labels-idx1", &path, err);
  if (!path) return status;
  int rank = 0;
  int64_t n = 0;
  unsigned char *labels = NULL;
  status = vtb__idx_read(path, 1, 1, &rank, &n, &labels, err);
  for (int64_t i = 0; status == VTB_OK && i < n; i++) count_label(c, path, labels[i], i);
  free(labels);
  free(path);
  return status;
}

/* One wrong byte would make hundreds of classes: more of them without a sample than with one, and
 * no file that names them, are a mistake. */
static vtb_status check_labels(const char *folder, const census *c, vtb__source *d,
                               vtb_error *err) {
  const vtb__known *known = vtb__find_known(d->name);
  int empty = 0;
  for (int k = 0; k <= c->most; k++) empty += !c->seen[k];
  char *path = vtb__join(folder, "classes.txt");
  if (!path) return vtb_no_memory(err, folder);
  bool named = vtb_path_exists(path);
  free(path);
  d->n_classes = known && c->most < 10 ? 10 : c->most + 1;
  if (known && c->most > 9)
    return vtb_fail(err, VTB_E_INPUT, "%s: sample %lld has the label %d; those of %s are 0 to 9",
                    c->file, (long long)c->where, c->most, known->name);
  if (!named && empty > c->most + 1 - empty)
    return vtb_fail(err, VTB_E_INPUT,
                    "%s: sample %lld has the label %d, and %d of the classes below it have no "
                    "samples; if that is right, name the classes in %s/classes.txt, one a line",
                    c->file, (long long)c->where, c->most, empty, folder);
  if (empty && !known)
    vtb_strbuf_printf(&d->notes, "%d of the %d classes of %s have no samples\n", empty,
                      d->n_classes, folder);
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
  census c = {.most = -1};
  vtb_status status = find_file(folder, stem_of(split), "images-idx3", &images, err);
  if (status == VTB_OK) status = find_file(folder, stem_of(split), "labels-idx1", &labels, err);
  if (status == VTB_OK && !(images && labels))
    status = vtb_fail(err, VTB_E_INPUT, "%s: its files are gone", folder);
  if (status == VTB_OK) status = take_images(images, d, err);
  if (status == VTB_OK) status = take_labels(labels, d, &c, err);
  if (status == VTB_OK)
    status = other_labels(folder, stem_of(split == VTB__TRAIN ? VTB__TEST : VTB__TRAIN), &c, err);
  if (status == VTB_OK) status = check_labels(folder, &c, d, err);
  free(images);
  free(labels);
  return status;
}

static vtb_status copy(const vtb__source *d, int64_t i, int channels, vtb_image *out,
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
                                     .image = copy,
                                     .close = close_idx};
