/* The classes and functions that a pickle of weights may name, and the value that stands for the
 * result of each: nothing else is known, and nothing is called. */
#include "runtime/weights/pickle.h"

#include <string.h>

typedef py_value *(*result_fn)(py_machine *m, const py_value *callee, const py_value *args);
struct py_known {
  const char *name; /* "collections.OrderedDict"; a star at its end: all that begin so */
  result_fn result; /* NULL: a name that is only handed on */
};

static const py_value *argument(const py_value *args, size_t i) {
  return i < args->items.n ? args->items.at[i] : NULL;
}

/* ---- what stands for results ----------------------------------------------------------------- */

/* The items of the first argument, if there is one, in a new value of the kind. */
static py_value *collect_items(py_machine *m, const py_value *args, py_kind kind) {
  py_value *v = vtb_py_new(m, kind);
  const py_value *from = argument(args, 0);
  bool items = from && (from->kind == PY_LIST || from->kind == PY_TUPLE || from->kind == PY_SET);
  for (size_t i = 0; v && items && i < from->items.n; i++)
    if (!vtb_py_append(m, v, from->items.at[i])) return NULL;
  return v;
}

static py_value *a_list(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  return collect_items(m, args, PY_LIST);
}
static py_value *a_tuple(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  return collect_items(m, args, PY_TUPLE);
}
static py_value *a_set(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  return collect_items(m, args, PY_SET);
}

/* A dict of a list of pairs, as OrderedDict writes itself in old pickles, or of a dict. */
static py_value *a_dict(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  py_value *v = vtb_py_new(m, PY_DICT);
  const py_value *from = argument(args, 0);
  if (!v || !from || (from->kind != PY_LIST && from->kind != PY_DICT)) return v;
  for (size_t i = 0; i < from->items.n; i++) {
    const py_value *pair = from->items.at[i];
    if (from->kind == PY_DICT) {
      if (!vtb_py_append(m, v, from->items.at[i])) return NULL;
    } else if ((pair->kind != PY_LIST && pair->kind != PY_TUPLE) || pair->items.n != 2) {
      vtb_py_refuse(m, "a dict of something else than pairs");
      return NULL;
    } else if (!vtb_py_append(m, v, pair->items.at[0]) || !vtb_py_append(m, v, pair->items.at[1])) {
      return NULL;
    }
  }
  return v;
}

/* float(x): x as it is; without arguments nothing. */
static py_value *its_argument(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  return args->items.n ? args->items.at[0] : vtb_py_new(m, PY_NONE);
}

static py_value *an_object(py_machine *m, const py_value *callee, const py_value *args) {
  py_value *v = vtb_py_new(m, PY_OPAQUE);
  if (!v) return NULL;
  v->object.name = callee->global.name;
  py_value *copy = vtb_py_new(m, PY_TUPLE);
  if (!copy) return NULL;
  copy->items = args->items;
  v->object.args = copy;
  return v;
}

/* copyreg._reconstructor(cls, base, state) of protocols 0 and 1 */
static py_value *an_object_of(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  const py_value *class = argument(args, 0);
  py_value none = {.kind = PY_TUPLE};
  if (class && class->kind == PY_GLOBAL && class->global.known->result &&
      class->global.known->result != an_object_of)
    return class->global.known->result(m, class, &none);
  vtb_py_refuse(m, "an object of no class");
  return NULL;
}

/* _codecs.encode(text, 'latin1'): how Python 3 writes bytes for protocol 2. */
static py_value *latin1_bytes(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  const py_value *text = argument(args, 0);
  py_value *v = vtb_py_new(m, PY_BYTES);
  char *to = v && text && text->kind == PY_TEXT ? vtb_py_string(m, NULL, 0) : NULL;
  if (!text || text->kind != PY_TEXT) vtb_py_refuse(m, "bytes of something else than a text");
  if (to) to = vtb_py_alloc(m, text->text.n + 1, 1);
  if (!to) return NULL;
  const unsigned char *p = (const unsigned char *)text->text.at, *end = p + text->text.n;
  size_t n = 0;
  while (p < end) {
    unsigned c = *p++;
    if (c >= 0x80) {
      if ((c != 0xc2 && c != 0xc3) || p == end || (*p & 0xc0) != 0x80) {
        vtb_py_refuse(m, "bytes of a text that is not of Latin letters");
        return NULL;
      }
      c = (c & 3) << 6 | (*p++ & 0x3f);
    }
    to[n++] = (char)c;
  }
  v->text.at = to;
  v->text.n = n;
  return v;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static py_value *a_tensor(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  return vtb_py_rebuild_tensor(m, args, false);
}
static py_value *a_typed_tensor(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  return vtb_py_rebuild_tensor(m, args, true);
}

/* _rebuild_parameter(data, requires_grad, hooks): the data */
static py_value *a_parameter(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  if (args->items.n && args->items.at[0]->kind == PY_TENSOR) return args->items.at[0];
  vtb_py_refuse(m, "a parameter without a tensor");
  return NULL;
}

/* _rebuild_from_type_v2(function, type, args, state): a tensor with attributes */
static py_value *a_tensor_of_type(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  const py_value *by = argument(args, 0), *of = argument(args, 2);
  if (by && by->kind == PY_GLOBAL && of && of->kind == PY_TUPLE) {
    result_fn result = by->global.known->result;
    if (result == a_tensor || result == a_typed_tensor || result == a_parameter)
      return result(m, by, of);
  }
  vtb_py_refuse(m, "a tensor that is built by something else");
  return NULL;
}

static py_value *an_array(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee, (void)args;
  return vtb_py_new_array(m);
}
static py_value *a_scalar(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  return vtb_py_scalar(m, args);
}
static py_value *an_array_of_bytes(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  return vtb_py_from_buffer(m, args);
}

/* dtype('f4', False, True) */
static py_value *a_dtype(py_machine *m, const py_value *callee, const py_value *args) {
  (void)callee;
  const py_value *name = argument(args, 0);
  char text[16] = "";
  if (name && (name->kind == PY_TEXT || name->kind == PY_BYTES) && name->text.n < sizeof text)
    memcpy(text, name->text.at, name->text.n);
  py_value *v = vtb_py_new(m, PY_DTYPE);
  if (v) v->dtype.type = vtb_py_dtype_of_numpy(text);
  return v;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const py_known storage_class = {"storage", NULL};
static const py_known known[] = {
    {"collections.OrderedDict", a_dict},
    {"torch._utils._rebuild_tensor", a_tensor},
    {"torch._utils._rebuild_tensor_v2", a_tensor},
    {"torch._utils._rebuild_tensor_v3", a_typed_tensor},
    {"torch._utils._rebuild_parameter", a_parameter},
    {"torch._utils._rebuild_parameter_with_state", a_parameter},
    {"torch._tensor._rebuild_from_type_v2", a_tensor_of_type},
    {"torch.Tensor", NULL},
    {"torch._tensor.Tensor", NULL},
    {"torch.nn.parameter.Parameter", NULL},
    {"torch.nn.parameter.Buffer", NULL},
    {"torch.Size", a_tuple},
    {"torch.device", an_object},
    {"torch.serialization._get_layout", an_object},
    /* NumPy */
    {"numpy.core.multiarray._reconstruct", an_array},
    {"numpy._core.multiarray._reconstruct", an_array},
    {"numpy.core.multiarray.scalar", a_scalar},
    {"numpy._core.multiarray.scalar", a_scalar},
    {"numpy.core.numeric._frombuffer", an_array_of_bytes},
    {"numpy._core.numeric._frombuffer", an_array_of_bytes},
    {"numpy.ndarray", NULL},
    {"numpy.dtype", a_dtype},
    {"numpy.dtypes.*", NULL},
    {"_codecs.encode", latin1_bytes},
    /* Python's own, under the names of versions 3 and 2 */
    {"collections.defaultdict", a_dict},
    {"collections.Counter", a_dict},
    {"collections.deque", an_object},
    {"builtins.dict", a_dict},
    {"builtins.list", a_list},
    {"builtins.tuple", a_tuple},
    {"builtins.set", a_set},
    {"builtins.frozenset", a_set},
    {"builtins.int", its_argument},
    {"builtins.float", its_argument},
    {"builtins.bool", its_argument},
    {"builtins.str", its_argument},
    {"builtins.bytes", its_argument},
    {"builtins.bytearray", its_argument},
    {"builtins.complex", an_object},
    {"builtins.slice", an_object},
    {"builtins.range", an_object},
    {"builtins.object", an_object},
    {"copyreg._reconstructor", an_object_of},
    {"datetime.*", an_object},
    {"pathlib.*", an_object},
    {"types.SimpleNamespace", an_object},
    {"typing.Any", NULL},
    {"uuid.UUID", an_object},
    /* settings and records of trainings: kept as text, or passed over */
    {"argparse.Namespace", an_object},
    {"addict.addict.Dict", an_object},
    {"easydict.EasyDict", an_object},
    {"lightning.*", an_object},
    {"lightning_fabric.*", an_object},
    {"ml_collections.*", an_object},
    {"mmengine.config.*", an_object},
    {"mmengine.logging.*", an_object},
    {"omegaconf.*", an_object},
    {"pytorch_lightning.*", an_object},
    {"yacs.config.CfgNode", an_object},
};

/* Modules whose functions act on the machine, where a file that names them means harm. */
static const char *const acting[] = {
    "os",       "posix",     "nt",         "subprocess", "sys",      "builtins",  "shutil",
    "socket",   "pty",       "importlib",  "runpy",      "ctypes",   "pickle",    "marshal",
    "code",     "codecs",    "types",      "operator",   "commands", "platform",  "asyncio",
    "requests", "urllib",    "webbrowser", "timeit",     "cProfile", "profile",   "pdb",
    "bdb",      "distutils", "pip",        "tempfile",   "signal",   "threading", "multiprocessing",
    "httplib",  "http",      "io",         "_io",        "_pickle",  "glob",
};

static bool acts(const char *name) {
  size_t n = strcspn(name, ".");
  for (size_t i = 0; i < sizeof acting / sizeof *acting; i++)
    if (strlen(acting[i]) == n && strncmp(acting[i], name, n) == 0) return true;
  return false;
}

static const py_known *find_known(const char *name) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t n = strlen(known[i].name);
    bool all = known[i].name[n - 1] == '*';
    if (strncmp(known[i].name, name, all ? n - 1 : n) == 0 && (all || !name[n])) return &known[i];
  }
  return NULL;
}

/* Names of Python 2 under those of 3, what is no name shown as question marks. */
static char *full_name(py_machine *m, const char *module, size_t n_module, const char *name,
                       size_t n_name) {
  static const char *const renamed[][2] = {{"__builtin__", "builtins"}, {"copy_reg", "copyreg"}};
  if (n_module > 200 || n_name > 200) {
    vtb_py_refuse(m, "the name of a class has %zu characters", n_module + n_name);
    return NULL;
  }
  for (size_t i = 0; i < 2; i++)
    if (strlen(renamed[i][0]) == n_module && memcmp(renamed[i][0], module, n_module) == 0)
      module = renamed[i][1], n_module = strlen(module);
  char *full = vtb_py_alloc(m, n_module + n_name + 2, 1);
  if (!full) return NULL;
  memcpy(full, module, n_module);
  full[n_module] = '.';
  memcpy(full + n_module + 1, name, n_name);
  for (size_t i = 0; i < n_module + 1 + n_name; i++)
    if (full[i] <= ' ' || full[i] > '~') full[i] = '?';
  return full;
}

/* Tensors of kinds that models here cannot have. */
static const char *const kinds[][2] = {
    {"torch._utils._rebuild_qtensor", "quantised tensors"},
    {"torch._utils._rebuild_sparse_tensor", "sparse tensors"},
    {"torch._utils._rebuild_sparse_csr_tensor", "sparse tensors"},
    {"torch._utils._rebuild_nested_tensor", "nested tensors"},
    {"torch._utils._rebuild_meta_tensor_no_storage", "tensors without data (device \"meta\")"},
};

static void refuse_name(py_machine *m, const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (vtb_streq(name, kinds[i][0]))
      vtb_fail(m->err, VTB_E_INPUT, "%s: the file holds %s, which are not read", m->path,
               kinds[i][1]);
  if (acts(name))
    vtb_fail(m->err, VTB_E_INPUT,
             "%s: the file calls %s, which no weights need: refused, and nothing was executed",
             m->path, name);
  vtb_fail(m->err, VTB_E_INPUT,
           "%s: the file uses %s, which is more than weights need: refused, and nothing was "
           "executed; if you trust the file, save the model's state_dict() in Python and take that",
           m->path, name);
}

py_value *vtb_py_global(py_machine *m, const char *module, size_t n_module, const char *name,
                        size_t n_name) {
  const char *full = full_name(m, module, n_module, name, n_name);
  if (!full) return NULL;
  const char *last = full;
  if (vtb_starts_with(full, "torch.")) last = strrchr(full, '.') + 1;
  const py_dtype *type =
      strlen("torch.") == (size_t)(last - full) ? vtb_py_dtype_of_torch(last) : NULL;
  const py_known *row = find_known(full);
  if (!row && last > full && vtb_py_dtype_of_storage(last)) row = &storage_class;
  if (!row && !type) {
    refuse_name(m, full);
    return NULL;
  }
  py_value *v = vtb_py_new(m, type ? PY_DTYPE : PY_GLOBAL);
  if (v && type) {
    v->dtype.type = type;
  } else if (v) {
    v->global.known = row;
    v->global.name = full;
  }
  return v;
}

py_value *vtb_py_call(py_machine *m, py_value *callee, py_value *args) {
  if (args->kind != PY_TUPLE) {
    vtb_py_refuse(m, "arguments are %s", vtb_py_kind_name(args));
    return NULL;
  }
  if (callee->kind == PY_GLOBAL && callee->global.known->result)
    return callee->global.known->result(m, callee, args);
  vtb_py_refuse(m, "%s is called",
                callee->kind == PY_GLOBAL ? callee->global.name : vtb_py_kind_name(callee));
  return NULL;
}

/* (version, byte order, ...) of numpy.dtype */
static bool set_order(py_value *dtype, const py_value *state) {
  if (state->kind == PY_TUPLE && state->items.n > 1)
    dtype->dtype.swapped = vtb_py_is_text(state->items.at[1], ">");
  return true;
}

bool vtb_py_build(py_machine *m, py_value *object, py_value *state) {
  switch (object->kind) {
  case PY_DICT: /* attributes, such as _metadata of a state_dict */
  case PY_SET:
  case PY_LIST:
    return true;
  case PY_TENSOR:
    return object->tensor->storage || vtb_py_set_array(m, object->tensor, state);
  case PY_DTYPE:
    return set_order(object, state);
  case PY_OPAQUE:
    if (!object->object.state || state->kind == PY_DICT) object->object.state = state;
    return true;
  case PY_NONE:
  case PY_BOOL:
  case PY_INT:
  case PY_LONG:
  case PY_FLOAT:
  case PY_TEXT:
  case PY_BYTES:
  case PY_TUPLE:
  case PY_GLOBAL:
  case PY_STORAGE:
    break;
  }
  return vtb_py_refuse(m, "%s gets a state", vtb_py_kind_name(object));
}

/* ('storage', class, key, location, number of elements[, view]) */
py_value *vtb_py_persistent(py_machine *m, const py_value *id) {
  int64_t n, bytes;
  bool good = m->torch && id->kind == PY_TUPLE && id->items.n >= 5 &&
              vtb_py_is_text(id->items.at[0], "storage") && id->items.at[1]->kind == PY_GLOBAL &&
              id->items.at[1]->global.known == &storage_class &&
              (id->items.at[2]->kind == PY_TEXT || id->items.at[2]->kind == PY_BYTES) &&
              id->items.at[2]->text.n < 100 && vtb_py_int(id->items.at[4], &n) && n >= 0;
  if (!good) {
    vtb_py_refuse(m, "a reference that is no storage of tensors");
    return NULL;
  }
  if (id->items.n > 5 && id->items.at[5]->kind != PY_NONE) {
    vtb_fail(m->err, VTB_E_INPUT,
             "%s: storages that are parts of others, as PyTorch wrote before 0.4, are not read; "
             "save the file again with a newer PyTorch",
             m->path);
    return NULL;
  }
  const char *key = vtb_py_string(m, id->items.at[2]->text.at, id->items.at[2]->text.n);
  const py_dtype *type = vtb_py_dtype_of_storage(strrchr(id->items.at[1]->global.name, '.') + 1);
  py_value *v = key ? vtb_py_new(m, PY_STORAGE) : NULL;
  if (!v) return NULL;
  py_storage *s = vtb_map_get(&m->storages, key);
  if (__builtin_mul_overflow(n, (int64_t)type->bytes, &bytes) ||
      (s && (s->n_bytes != bytes || s->dtype != type))) {
    vtb_py_refuse(m, "a storage that has two sizes, or too large a one");
    return NULL;
  }
  if (!s) {
    s = vtb_py_alloc(m, 1, sizeof *s);
    if (!s) return NULL;
    *s = (py_storage){.key = key, .dtype = type, .n_bytes = bytes};
    if (!vtb_map_try_set(&m->storages, key, s)) {
      vtb_no_memory(m->err, m->path);
      return NULL;
    }
  }
  v->storage = s;
  return v;
}
