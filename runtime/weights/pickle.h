/* Reading Python's pickles (protocols 0 to 5) without Python: a machine that builds a tree of plain
 * values in an arena. Names of classes and functions are looked up in a table of what checkpoints
 * of weights need (pickle_call.c); any other is refused by its name, and none is ever called: the
 * table says which value stands for the result.
 *
 * The format: pickletools.py of CPython documents every opcode; PEP 3154 and 574 the later ones.
 *
 * Ownership: values are the arena's. Texts and bytes point into the pickle, which must stay.
 * Memory: what a pickle may build is limited, whatever it says. */
#ifndef VTB_WEIGHTS_PICKLE_H
#define VTB_WEIGHTS_PICKLE_H

#include "runtime/artefact/tensors.h"

typedef enum py_kind {
  PY_NONE,
  PY_BOOL,   /* integer */
  PY_INT,    /* integer */
  PY_LONG,   /* text: an integer beyond 64 bits, little-endian bytes or decimal digits */
  PY_FLOAT,  /* number */
  PY_TEXT,   /* text, UTF-8 that was checked */
  PY_BYTES,  /* text: strings of Python 2 are this, too */
  PY_LIST,   /* items */
  PY_TUPLE,  /* items */
  PY_SET,    /* items */
  PY_DICT,   /* items: key, value, key, value ... */
  PY_GLOBAL, /* global: a class or function by its name */
  PY_DTYPE,  /* dtype: an element type of NumPy, or of PyTorch */
  PY_STORAGE,
  PY_TENSOR, /* tensor: of PyTorch, or an array of NumPy */
  PY_OPAQUE  /* object: of a class that is known to be harmless */
} py_kind;

typedef struct py_value py_value;

/* An element type under its own name; those that tensors here cannot have are known, too. */
typedef struct py_dtype {
  const char *name, *storage; /* "float32", "FloatStorage" */
  int bytes;                  /* of an element */
  int elem;                   /* a vtb_elem, or -1 */
} py_dtype;

typedef struct py_known py_known; /* a row of the table of globals */

/* Bytes that tensors look into; read when a tensor of it is wanted. */
typedef struct py_storage {
  const char *key; /* the name that the file gives it */
  const py_dtype *dtype;
  int64_t n_bytes;           /* as the pickle says */
  int64_t from, to;          /* what of it is wanted */
  const unsigned char *data; /* to - from bytes; NULL: not there yet */
  bool passing;              /* the data goes with the pickle */
} py_storage;

typedef struct py_tensor {
  py_storage *storage; /* NULL: an array without data yet */
  const py_dtype *dtype;
  int64_t offset; /* elements from the storage's beginning */
  int rank;       /* -1: more axes than can be */
  int64_t dim[VTB_WEIGHT_MAX_RANK], stride[VTB_WEIGHT_MAX_RANK]; /* in elements */
} py_tensor;

struct py_value {
  py_kind kind;
  union {
    int64_t integer;
    double number;
    struct {
      const char *at;
      size_t n;
    } text;
    struct {
      py_value **at;
      size_t n, cap;
    } items;
    struct {
      const py_known *known;
      const char *name; /* "collections.OrderedDict" */
    } global;
    struct {
      const py_dtype *type;
      bool swapped; /* its bytes are in the other order */
    } dtype;
    py_storage *storage;
    py_tensor *tensor;
    struct {
      const char *name;       /* of its class */
      py_value *args, *state; /* NULL: none */
    } object;
  };
};

typedef struct py_machine {
  const char *path; /* for messages */
  const unsigned char *begin, *at, *end;
  vtb_arena *arena;
  vtb_error *err;
  bool torch;       /* persistent ids are storages of PyTorch; if not, there may be none */
  vtb_map storages; /* key -> py_storage */
  VTB_VEC(py_value *) stack;
  VTB_VEC(py_value *) memo;
  VTB_VEC(size_t) marks;
} py_machine;

/* From the n bytes at `data`; several pickles may follow one another. */
void vtb_py_begin(py_machine *m, const char *path, const void *data, size_t n, vtb_arena *arena,
                  vtb_error *err);
void vtb_py_end(py_machine *m);
/* The next pickle; m->at stands behind it then. */
VTB_MUST_USE vtb_status vtb_py_load(py_machine *m, py_value **out);

/* ---- values: pickle_value.c ------------------------------------------------------------------ */

/* NULL, with the error set, when there is no memory or no more is allowed. */
py_value *vtb_py_new(py_machine *m, py_kind kind);
void *vtb_py_alloc(py_machine *m, size_t count, size_t size_bytes);
bool vtb_py_append(py_machine *m, py_value *to, py_value *item);
/* A copy of n bytes with a NUL behind them. */
char *vtb_py_string(py_machine *m, const char *at, size_t n);
/* The value of a key of a dict, NULL if it is none or has no such key; the last one counts. */
py_value *vtb_py_member(const py_value *dict, const char *key);
bool vtb_py_is_text(const py_value *v, const char *text);
bool vtb_py_int(const py_value *v, int64_t *out); /* false: it is no integer */
/* As Python would print it, with limits on depth and length: "lr=0.001, betas=(0.9, 0.95)". */
void vtb_py_print(const py_value *v, vtb_strbuf *out);
/* "a list", "None": for messages. */
const char *vtb_py_kind_name(const py_value *v);
/* False, always: the error says the file, the byte, and this. */
bool vtb_py_refuse(py_machine *m, const char *fmt, ...) VTB_PRINTF(2, 3);

/* ---- classes and functions: pickle_call.c ---------------------------------------------------- */

/* NULL, with the error set, if a name is not in the table. */
py_value *vtb_py_global(py_machine *m, const char *module, size_t n_module, const char *name,
                        size_t n_name);
/* The value that stands for callee(*args), or for cls.__new__(cls, *args). */
py_value *vtb_py_call(py_machine *m, py_value *callee, py_value *args);
/* obj.__setstate__(state) */
bool vtb_py_build(py_machine *m, py_value *object, py_value *state);
/* The storage that a persistent id stands for. */
py_value *vtb_py_persistent(py_machine *m, const py_value *id);

/* ---- tensors: pickle_tensor.c ---------------------------------------------------------------- */

const py_dtype *vtb_py_dtype_of_torch(const char *name);   /* "float32"; NULL: not known */
const py_dtype *vtb_py_dtype_of_storage(const char *name); /* "FloatStorage" */
const py_dtype *vtb_py_dtype_of_numpy(const char *name);   /* "f4", as a dtype's first argument */
/* _rebuild_tensor(storage, offset, size, stride, ...); `typed`: the dtype is args[6]. */
py_value *vtb_py_rebuild_tensor(py_machine *m, const py_value *args, bool typed);
/* A new array of NumPy that has no data yet, and its state: (version, shape, dtype, fortran,
 * bytes). */
py_value *vtb_py_new_array(py_machine *m);
bool vtb_py_set_array(py_machine *m, py_tensor *t, const py_value *state);
/* scalar(dtype, bytes) */
py_value *vtb_py_scalar(py_machine *m, const py_value *args);
/* _frombuffer(bytes, dtype, shape, order) */
py_value *vtb_py_from_buffer(py_machine *m, const py_value *args);

#endif
