/* Tensors of PyTorch and arrays of NumPy in a pickle: where their elements lie, checked; no element
 * is read here. */
#include "runtime/weights/pickle.h"

#include <string.h>

/* ---- element types --------------------------------------------------------------------------- */

static const py_dtype dtypes[] = {
    {"float32", "FloatStorage", 4, VTB_ELEM_F32},
    {"float64", "DoubleStorage", 8, VTB_ELEM_F64},
    {"float16", "HalfStorage", 2, VTB_ELEM_F16},
    {"bfloat16", "BFloat16Storage", 2, VTB_ELEM_BF16},
    {"int64", "LongStorage", 8, VTB_ELEM_I64},
    {"int32", "IntStorage", 4, VTB_ELEM_I32},
    {"int16", "ShortStorage", 2, VTB_ELEM_I16},
    {"int8", "CharStorage", 1, VTB_ELEM_I8},
    {"uint64", NULL, 8, VTB_ELEM_U64},
    {"uint32", NULL, 4, VTB_ELEM_U32},
    {"uint16", NULL, 2, VTB_ELEM_U16},
    {"uint8", "ByteStorage", 1, VTB_ELEM_U8},
    {"bool", "BoolStorage", 1, VTB_ELEM_BOOL},
    {"untyped", "UntypedStorage", 1, -1},
    {"complex32", NULL, 4, -1},
    {"complex64", "ComplexFloatStorage", 8, -1},
    {"complex128", "ComplexDoubleStorage", 16, -1},
    {"quint8", "QUInt8Storage", 1, -1},
    {"qint8", "QInt8Storage", 1, -1},
    {"qint32", "QInt32Storage", 4, -1},
    {"quint4x2", "QUInt4x2Storage", 1, -1},
    {"quint2x4", "QUInt2x4Storage", 1, -1},
    {"float8_e4m3fn", NULL, 1, -1},
    {"float8_e4m3fnuz", NULL, 1, -1},
    {"float8_e5m2", NULL, 1, -1},
    {"float8_e5m2fnuz", NULL, 1, -1},
    {"float8_e8m0fnu", NULL, 1, -1},
};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

static const py_dtype other_numpy = {"no plain numbers", NULL, 0, -1},
                      swapped_numpy = {"numbers in big-endian order", NULL, 0, -1};

const py_dtype *vtb_py_dtype_of_torch(const char *name) {
  for (int i = 0; i < N_DTYPES; i++)
    if (vtb_streq(dtypes[i].name, name)) return &dtypes[i];
  return NULL;
}

const py_dtype *vtb_py_dtype_of_storage(const char *name) {
  if (vtb_streq(name, "_UntypedStorage")) name++;
  for (int i = 0; i < N_DTYPES; i++)
    if (dtypes[i].storage && vtb_streq(dtypes[i].storage, name)) return &dtypes[i];
  return NULL;
}

const py_dtype *vtb_py_dtype_of_numpy(const char *name) {
  static const char *const names[][2] = {
      {"f4", "float32"}, {"f8", "float64"}, {"f2", "float16"}, {"i8", "int64"},
      {"i4", "int32"},   {"i2", "int16"},   {"i1", "int8"},    {"u8", "uint64"},
      {"u4", "uint32"},  {"u2", "uint16"},  {"u1", "uint8"},   {"b1", "bool"},
  };
  if (name[0] == '<' || name[0] == '|' || name[0] == '=') name++;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (vtb_streq(names[i][0], name)) return vtb_py_dtype_of_torch(names[i][1]);
  return &other_numpy;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Natural numbers of a tuple; their count in *n. */
static bool read_sizes(py_machine *m, const py_value *from, int *n, int64_t *out) {
  if (!from || (from->kind != PY_TUPLE && from->kind != PY_LIST))
    return vtb_py_refuse(m, "a tensor without a shape");
  if (from->items.n > VTB_WEIGHT_MAX_RANK)
    return vtb_py_refuse(m, "a tensor of more than %d axes", VTB_WEIGHT_MAX_RANK);
  for (size_t i = 0; i < from->items.n; i++)
    if (!vtb_py_int(from->items.at[i], &out[i]) || out[i] < 0)
      return vtb_py_refuse(m, "a tensor whose sizes or strides are no natural numbers");
  *n = (int)from->items.n;
  return true;
}

/* All elements lie in the storage. */
static bool inside(const py_tensor *t) {
  int64_t last = t->offset, bytes, reach;
  for (int i = 0; i < t->rank; i++) {
    if (!t->dim[i]) return t->offset <= t->storage->n_bytes;
    if (__builtin_mul_overflow(t->dim[i] - 1, t->stride[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  return !__builtin_add_overflow(last, 1, &last) &&
         !__builtin_mul_overflow(last, (int64_t)t->dtype->bytes, &bytes) &&
         bytes <= t->storage->n_bytes;
}

static py_value *new_tensor(py_machine *m) {
  py_value *v = vtb_py_new(m, PY_TENSOR);
  if (v) v->tensor = vtb_py_alloc(m, 1, sizeof *v->tensor);
  return v && v->tensor ? v : NULL;
}

py_value *vtb_py_rebuild_tensor(py_machine *m, const py_value *args, bool typed) {
  py_value *v = new_tensor(m), **a = args->items.at;
  if (!v) return NULL;
  py_tensor *t = v->tensor;
  int n_strides = 0;
  if (args->items.n < (typed ? 7u : 4u) || a[0]->kind != PY_STORAGE ||
      !vtb_py_int(a[1], &t->offset) || t->offset < 0 || (typed && a[6]->kind != PY_DTYPE)) {
    vtb_py_refuse(m, "a tensor that is not of a storage");
    return NULL;
  }
  t->storage = a[0]->storage;
  t->dtype = typed ? a[6]->dtype.type : t->storage->dtype;
  if (!read_sizes(m, a[2], &t->rank, t->dim) || !read_sizes(m, a[3], &n_strides, t->stride))
    return NULL;
  if (n_strides != t->rank || !inside(t)) {
    vtb_py_refuse(m, "a tensor reaches beyond its storage");
    return NULL;
  }
  return v;
}

/* ---- NumPy ----------------------------------------------------------------------------------- */

py_value *vtb_py_new_array(py_machine *m) {
  py_value *v = new_tensor(m);
  if (v) v->tensor->dtype = &other_numpy;
  return v;
}

/* An array over bytes in row-major, or with `fortran` in column-major order. */
static bool place_array(py_machine *m, py_tensor *t, const py_value *dtype, bool fortran,
                        const py_value *bytes) {
  int64_t step = 1;
  if (dtype->kind != PY_DTYPE) return vtb_py_refuse(m, "an array without a type");
  t->dtype =
      dtype->dtype.swapped && dtype->dtype.type->bytes > 1 ? &swapped_numpy : dtype->dtype.type;
  if (t->dtype->elem < 0) return true; /* objects, texts: its data is a list, or not of use */
  if (bytes->kind != PY_BYTES) return vtb_py_refuse(m, "an array without data");
  for (int k = 0; k < t->rank; k++) {
    int i = fortran ? k : t->rank - 1 - k;
    t->stride[i] = step;
    if (t->dim[i] && __builtin_mul_overflow(step, t->dim[i], &step))
      return vtb_py_refuse(m, "an array that is too large");
  }
  t->storage = vtb_py_alloc(m, 1, sizeof *t->storage);
  if (!t->storage) return false;
  *t->storage = (py_storage){.key = "array",
                             .passing = true,
                             .dtype = t->dtype,
                             .n_bytes = (int64_t)bytes->text.n,
                             .to = (int64_t)bytes->text.n,
                             .data = (const unsigned char *)bytes->text.at};
  return inside(t) ? true : vtb_py_refuse(m, "an array is larger than its data");
}

bool vtb_py_set_array(py_machine *m, py_tensor *t, const py_value *state) {
  int64_t fortran;
  if (state->kind != PY_TUPLE || state->items.n != 5 || !vtb_py_int(state->items.at[3], &fortran))
    return vtb_py_refuse(m, "an array without a state");
  py_value **a = state->items.at;
  return read_sizes(m, a[1], &t->rank, t->dim) && place_array(m, t, a[2], fortran, a[4]);
}

py_value *vtb_py_from_buffer(py_machine *m, const py_value *args) {
  py_value *v = new_tensor(m), **a = args->items.at;
  if (!v) return NULL;
  if (args->items.n != 4) {
    vtb_py_refuse(m, "an array without data");
    return NULL;
  }
  py_tensor *t = v->tensor;
  bool good = read_sizes(m, a[2], &t->rank, t->dim) &&
              place_array(m, t, a[1], vtb_py_is_text(a[3], "F"), a[0]);
  return good ? v : NULL;
}

/* The number that the bytes are, as the store of tensors reads it. */
py_value *vtb_py_scalar(py_machine *m, const py_value *args) {
  py_value *v = vtb_py_new(m, PY_NONE), **a = args->items.at;
  if (!v || args->items.n < 2 || a[0]->kind != PY_DTYPE || a[1]->kind != PY_BYTES) return v;
  const py_dtype *type = a[0]->dtype.type;
  if (type->elem < 0 || a[0]->dtype.swapped || a[1]->text.n != (size_t)type->bytes) return v;
  vtb_weight one = {
      .elem = (vtb_elem)type->elem, .count = 1, .data = (void *)(uintptr_t)a[1]->text.at};
  double x;
  vtb_weight_read_f64(&one, &x);
  bool whole = type->elem >= VTB_ELEM_I64 && x >= -9e15 && x <= 9e15;
  v->kind = type->elem == VTB_ELEM_BOOL ? PY_BOOL : whole ? PY_INT : PY_FLOAT;
  if (whole)
    v->integer = (int64_t)x;
  else
    v->number = x;
  return v;
}
