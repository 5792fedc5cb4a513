/* See npy.h. */
#include "runtime/artefact/npy.h"

#include <stdlib.h>
#include <string.h>

static const struct {
  const char *descr;
  vtb_elem elem;
} kinds[] = {{"f4", VTB_ELEM_F32}, {"f8", VTB_ELEM_F64}, {"f2", VTB_ELEM_F16},
             {"i8", VTB_ELEM_I64}, {"i4", VTB_ELEM_I32}, {"i2", VTB_ELEM_I16},
             {"i1", VTB_ELEM_I8},  {"u8", VTB_ELEM_U64}, {"u4", VTB_ELEM_U32},
             {"u2", VTB_ELEM_U16}, {"u1", VTB_ELEM_U8},  {"b1", VTB_ELEM_BOOL}};

/* The text behind 'key': in the header, a literal of a Python dictionary. */
static const char *field(const char *header, const char *key) {
  const char *at = strstr(header, key);
  if (!at) return NULL;
  at += strlen(key);
  while (*at == ' ' || *at == ':') at++;
  return at;
}

static bool read_elem(const char *header, vtb_elem *elem) {
  const char *at = field(header, "'descr'");
  if (!at || *at++ != '\'' || !strchr("<|=", *at) || !*at) return false;
  at++;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strncmp(at, kinds[i].descr, 2) == 0 && at[2] == '\'') {
      *elem = kinds[i].elem;
      return true;
    }
  return false;
}

static bool read_shape(const char *header, int *rank, int64_t *dim) {
  const char *at = field(header, "'shape'");
  if (!at || *at++ != '(') return false;
  for (*rank = 0;; (*rank)++) {
    char *end;
    while (*at == ' ' || *at == ',') at++;
    if (*at == ')') return true;
    if (*rank == VTB_WEIGHT_MAX_RANK) return false;
    dim[*rank] = strtoll(at, &end, 10);
    if (end == at || dim[*rank] < 0) return false;
    at = end;
  }
}

/* The header as a text, and where the data begin; 0: there is none. */
static size_t find_header(const unsigned char *data, size_t n, char **text) {
  size_t wide = n > 8 && data[6] >= 2 ? 4 : 2, length = 0;
  if (n < 8 + wide || memcmp(data, "\x93NUMPY", 6) != 0) return 0;
  for (size_t i = 0; i < wide; i++) length |= (size_t)data[8 + i] << (8 * i);
  if (length > n - 8 - wide) return 0;
  *text = strndup((const char *)data + 8 + wide, length);
  return 8 + wide + length;
}

static vtb_status parse(const char *path, const char *name, const vtb_mapped_file *f,
                        vtb_weights *into, vtb_error *err) {
  char *header = NULL;
  size_t at = find_header(f->data, f->n, &header);
  if (!at) return vtb_fail(err, VTB_E_INPUT, "%s: not a .npy file", path);
  if (!header) return vtb_no_memory(err, path);
  vtb_elem elem = VTB_ELEM_F32;
  int rank = 0;
  int64_t dim[VTB_WEIGHT_MAX_RANK];
  const char *order = field(header, "'fortran_order'");
  bool sound = read_shape(header, &rank, dim) && order, known = read_elem(header, &elem);
  bool rows = sound && strncmp(order, "False", 5) == 0;
  free(header);
  if (!sound) return vtb_fail(err, VTB_E_INPUT, "%s: its header is damaged", path);
  if (!known || !rows)
    return vtb_fail(err, VTB_E_INPUT,
                    "%s: only row-major arrays of numbers in this machine's byte order are read",
                    path);
  double bytes = (double)vtb_elem_bytes(elem);
  for (int i = 0; i < rank; i++) bytes *= (double)dim[i];
  if (bytes != (double)(f->n - at))
    return vtb_fail(err, VTB_E_INPUT, "%s: %.0f bytes of data, its shape needs %.0f", path,
                    (double)(f->n - at), bytes);
  if (vtb_weights_put(into, name, elem, rank, dim, f->data + at)) return VTB_OK;
  return vtb_fail(err, into->error.status, "%s: %s", path, into->error.text);
}

vtb_status vtb_npy_load(const char *path, const char *name, vtb_weights *into, vtb_error *err) {
  vtb_mapped_file f;
  VTB_TRY(vtb_map_file(path, &f, err));
  vtb_status status = parse(path, name, &f, into, err);
  vtb_unmap_file(&f);
  return status;
}
