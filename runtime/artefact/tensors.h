/* Named tensors in memory: weights files, checkpoints, cases. Insertion-ordered, names unique.
 *
 * Ownership: a vtb_weights owns its names, its metadata and the data of tensors added with
 * vtb_weights_add(); tensors of a loaded file point into the mapped file, which it also owns. Data
 * of a loaded file may be unaligned: read it through vtb_weight_read_*(). Everything lives until
 * vtb_weights_free().
 */
#ifndef VTB_TENSORS_H
#define VTB_TENSORS_H

#include "runtime/launch/program.h"

#define VTB_WEIGHT_MAX_RANK 8

typedef enum vtb_elem {
  VTB_ELEM_F32,
  VTB_ELEM_F64,
  VTB_ELEM_F16,
  VTB_ELEM_BF16,
  VTB_ELEM_I64,
  VTB_ELEM_I32,
  VTB_ELEM_I16,
  VTB_ELEM_I8,
  VTB_ELEM_U64,
  VTB_ELEM_U32,
  VTB_ELEM_U16,
  VTB_ELEM_U8,
  VTB_ELEM_BOOL,
  VTB_N_ELEMS
} vtb_elem;

size_t vtb_elem_bytes(vtb_elem e);
const char *vtb_elem_name(vtb_elem e);                /* as in safetensors: "F32", "BF16", "BOOL" */
bool vtb_elem_parse(const char *name, vtb_elem *out); /* false if unknown */

typedef struct vtb_weight {
  char *name;
  vtb_elem elem;
  int rank;
  int64_t dim[VTB_WEIGHT_MAX_RANK];
  int64_t count; /* elements */
  void *data;    /* row-major; 64-byte aligned if added, maybe unaligned and read-only if loaded */
  bool owned;
} vtb_weight;

/* The owner of borrowed data: given back by release(what) with the store, the latest first. */
typedef struct vtb_weights_hold {
  void *what;
  void (*release)(void *what);
} vtb_weights_hold;

typedef struct vtb_weights {
  size_t n;
  vtb_weight **at; /* pointers stay valid as more are added */
  size_t cap;
  vtb_map index;   /* name -> vtb_weight */
  vtb_map meta;    /* string -> malloc'd string */
  vtb_error error; /* the first that adding something met; text empty: none */
  vtb_mapped_file file;
  VTB_VEC(vtb_weights_hold) holds;
} vtb_weights;

vtb_weights *vtb_weights_new(void);    /* NULL when out of memory */
void vtb_weights_free(vtb_weights *w); /* NULL is fine */

/* A tensor that cannot be added (no memory, a name that is there, a shape beyond counting) is told
 * in `error`, which saving returns: only who uses the tensor must look.
 *
 * Adds a zeroed tensor; NULL if it cannot be. */
vtb_weight *vtb_weights_add(vtb_weights *w, const char *name, vtb_elem elem, int rank,
                            const int64_t *dim);
/* The same, copying `data`. */
vtb_weight *vtb_weights_put(vtb_weights *w, const char *name, vtb_elem elem, int rank,
                            const int64_t *dim, const void *data);
/* Borrows `data`, which must outlive the store: for saving without a copy. */
vtb_weight *vtb_weights_borrow(vtb_weights *w, const char *name, vtb_elem elem, int rank,
                               const int64_t *dim, const void *data);
vtb_weight *vtb_weights_find(const vtb_weights *w, const char *name); /* NULL if absent */
/* `what` lives as long as the store. False, and it is released at once, when out of memory. */
bool vtb_weights_keep(vtb_weights *w, void *what, void (*release)(void *what));

void vtb_weights_set_meta(vtb_weights *w, const char *key, const char *value); /* copies both */
const char *vtb_weights_meta(const vtb_weights *w, const char *key);           /* NULL if absent */

/* Convert to what the caller computes with. Integers that an i32 cannot hold are an error naming
 * the tensor. */
void vtb_weight_read_f32(const vtb_weight *t, float *out);
void vtb_weight_read_f64(const vtb_weight *t, double *out);
VTB_MUST_USE vtb_status vtb_weight_read_i32(const vtb_weight *t, int32_t *out, vtb_error *err);

/* A matrix that files have in 8 bits is a tensor of I8 and, under its name with this behind it, the
 * F32 scales of its first axis. Of a store with such tensors *w becomes one in which they are F32
 * by themselves, numbers times scales; it owns the old one. */
#define VTB_WEIGHTS_SCALES ":scale"
VTB_MUST_USE vtb_status vtb_weights_widen(vtb_weights **w, vtb_error *err);

/* "[64, 3, 16, 16]" */
void vtb_shape_print(vtb_strbuf *out, int rank, const int64_t *dim);

/* Fills buffers[i] (i: tensor number in `p`, NULL where not wanted) of every PARAM and BUFFER
 * tensor of `p` from the tensor of the same name, prefixed by `prefix` ("" or NULL for none).
 * Shapes must be equal. Missing tensors are an error that counts them, names the first and suggests
 * a near name, unless `n_missing` is given, which then counts them. Tensors of `w` that the program
 * does not know are counted in *n_unused (may be NULL). */
VTB_MUST_USE vtb_status vtb_weights_bind(const vtb_program *p, const vtb_weights *w,
                                         const char *prefix, void *const *buffers, int *n_missing,
                                         int *n_unused, vtb_error *err);

/* The same without copies, for who only reads: at[i] is where the tensor's numbers stand in `w` as
 * the program computes with them (f32 or i32, at a multiple of 4 bytes), else in `made`, to which
 * they are converted once. */
VTB_MUST_USE vtb_status vtb_weights_view(const vtb_program *p, const vtb_weights *w,
                                         vtb_weights *made, const void **at, vtb_error *err);

#endif
