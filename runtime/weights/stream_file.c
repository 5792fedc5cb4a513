/* Checkpoints as one stream, as PyTorch wrote them before 1.6: the pickles of a magic number, a
 * version, the machine, the object, and the keys of its storages; then each storage as the number
 * of its elements and the elements. A pickle of another kind, of NumPy arrays for one, is a single
 * one.
 *
 * torch/serialization.py, _legacy_save. */
#include "runtime/weights/checkpoint.h"

#include <string.h>

static bool is_magic(const py_value *v) {
  static const char bytes[] = "l\xfc\x9c"
                              "F\xf9 j\xa8P\x19",
                    digits[] = "119547037146038801333356";
  size_t n = v->text.n;
  return v->kind == PY_LONG && ((n == sizeof bytes - 1 && memcmp(v->text.at, bytes, n) == 0) ||
                                (n == sizeof digits - 1 && memcmp(v->text.at, digits, n) == 0));
}

static vtb_status damaged(vtb_checkpoint *c, const char *what) {
  return vtb_fail(c->err, VTB_E_INPUT, "%s: damaged: %s", c->path, what);
}

/* The elements of one storage, where the stream stands. */
static vtb_status place_storage(vtb_checkpoint *c, const py_value *key) {
  py_machine *m = &c->machine;
  int64_t n, bytes;
  bool text = key->kind == PY_TEXT || key->kind == PY_BYTES;
  const char *name = text ? vtb_py_string(m, key->text.at, key->text.n) : NULL;
  py_storage *s = name ? vtb_map_get(&m->storages, name) : NULL;
  if (!s || s->data) return damaged(c, "a storage that no tensor has, or that is there twice");
  if (m->end - m->at < 8) return damaged(c, "it ends before its tensors do");
  memcpy(&n, m->at, 8);
  m->at += 8;
  if (n < 0 || __builtin_mul_overflow(n, (int64_t)s->dtype->bytes, &bytes) || bytes != s->n_bytes)
    return damaged(c, "a storage is not as large as its tensors say");
  if (m->end - m->at < bytes) return damaged(c, "it ends before its tensors do");
  s->data = m->at;
  s->to = bytes;
  m->at += bytes;
  return VTB_OK;
}

static vtb_status place_all(vtb_checkpoint *c) {
  py_value *keys = NULL;
  vtb_status status = vtb_py_load(&c->machine, &keys);
  if (status != VTB_OK) return status;
  if (keys->kind != PY_LIST) return damaged(c, "it has no list of storages");
  for (size_t i = 0; i < keys->items.n && status == VTB_OK; i++)
    status = place_storage(c, keys->items.at[i]);
  return status;
}

static vtb_status missing(vtb_checkpoint *c, py_storage *s) {
  (void)s;
  return damaged(c, "a tensor's storage is not in the file");
}

/* After the magic number: the version, and the machine that wrote it. */
static vtb_status read_head(vtb_checkpoint *c) {
  py_value *version = NULL, *machine = NULL;
  int64_t number, little = 1;
  VTB_TRY(vtb_py_load(&c->machine, &version));
  VTB_TRY(vtb_py_load(&c->machine, &machine));
  if (!vtb_py_int(version, &number) || number != 1001)
    return damaged(c, "its version is not 1001, the only one there is");
  if (vtb_py_int(vtb_py_member(machine, "little_endian"), &little) && !little)
    return vtb_fail(c->err, VTB_E_INPUT, "%s: its numbers are in big-endian order", c->path);
  return VTB_OK;
}

vtb_status vtb__read_stream(vtb_checkpoint *c) {
  py_machine *m = &c->machine;
  py_value *root = NULL;
  vtb_py_begin(m, c->path, c->file.data, c->file.n, &c->arena, c->err);
  c->load = missing;
  vtb_status status = vtb_py_load(m, &root);
  if (status != VTB_OK) return status;
  if (is_magic(root)) {
    status = read_head(c);
    m->torch = true;
    if (status == VTB_OK) status = vtb_py_load(m, &root);
    if (status == VTB_OK) status = place_all(c);
  }
  return status == VTB_OK ? vtb__checkpoint_take(c, root) : status;
}
