/* Attributes of instructions, and the schema of them in the op table ("axes:ints keep:int?"). */
#include "ir/internal.h"
#include "ir/ops.h"

const vtb_attr *vtb_attr_find(const vtb_inst *inst, const char *key) {
  for (int i = 0; i < inst->n_attrs; i++)
    if (strcmp(inst->attrs[i].key, key) == 0) return &inst->attrs[i];
  return NULL;
}

int vtb_attrs_of(const vtb_inst *inst, const char *keys, vtb_attr *out) {
  char key[32];
  int n = 0;
  for (size_t length; *keys; keys += length + strspn(keys + length, " ")) {
    length = strcspn(keys, " ");
    snprintf(key, sizeof key, "%.*s", (int)length, keys);
    const vtb_attr *a = vtb_attr_find(inst, key);
    if (a) out[n++] = *a;
  }
  return n;
}

int64_t vtb_attr_int(const vtb_inst *inst, const char *key, int64_t otherwise) {
  const vtb_attr *a = vtb_attr_find(inst, key);
  return a && a->kind == VTB_ATTR_INT ? a->i : otherwise;
}

double vtb_attr_float(const vtb_inst *inst, const char *key, double otherwise) {
  const vtb_attr *a = vtb_attr_find(inst, key);
  return a && a->kind == VTB_ATTR_FLOAT ? a->f : otherwise;
}

const char *vtb_attr_str(const vtb_inst *inst, const char *key, const char *otherwise) {
  const vtb_attr *a = vtb_attr_find(inst, key);
  return a && a->kind == VTB_ATTR_STR ? a->s : otherwise;
}

const int64_t *vtb_attr_ints(const vtb_inst *inst, const char *key, int *n) {
  const vtb_attr *a = vtb_attr_find(inst, key);
  bool is = a && a->kind == VTB_ATTR_INTS;
  *n = is ? a->n : 0;
  return is ? a->ints : NULL;
}

/* An empty list still has an address, so that NULL means absent. */
static const void *copy_list(vtb_module *m, const void *list, int n, size_t elem_bytes) {
  void *copy = vtb_arena_array(&m->arena, n > 0 ? (size_t)n : 1, elem_bytes);
  if (n > 0) memcpy(copy, list, (size_t)n * elem_bytes);
  return copy;
}

vtb_attr vtb__attr_copy(vtb_module *m, vtb_attr a) {
  a.key = vtb_intern(m, a.key);
  if (a.kind == VTB_ATTR_STR) a.s = vtb_intern(m, a.s);
  if (a.kind == VTB_ATTR_INTS) a.ints = copy_list(m, a.ints, a.n, sizeof *a.ints);
  if (a.kind == VTB_ATTR_FLOATS) a.floats = copy_list(m, a.floats, a.n, sizeof *a.floats);
  return a;
}

static void set(vtb_inst *inst, vtb_attr attr) {
  for (int i = 0; i < inst->n_attrs; i++) {
    if (strcmp(inst->attrs[i].key, attr.key) != 0) continue;
    inst->attrs[i] = attr;
    return;
  }
  vtb_attr *wider = VTB_NEW_ARRAY(&inst->func->module->arena, vtb_attr, inst->n_attrs + 1);
  for (int i = 0; i < inst->n_attrs; i++) wider[i] = inst->attrs[i];
  wider[inst->n_attrs++] = attr;
  inst->attrs = wider;
}

void vtb_attr_set(vtb_inst *inst, vtb_attr attr) {
  set(inst, vtb__attr_copy(inst->func->module, attr));
  if (inst->op == VTB_OP_einsum) vtb__product_read(inst);
}

void vtb_attr_remove(vtb_inst *inst, const char *key) {
  int n = 0;
  for (int i = 0; i < inst->n_attrs; i++)
    if (strcmp(inst->attrs[i].key, key) != 0) inst->attrs[n++] = inst->attrs[i];
  inst->n_attrs = n;
}

/* ---- equality -------------------------------------------------------------------------------- */

/* The value's bytes; of a text `buf` may hold them. */
static const void *bytes_of(const vtb_attr *a, char buf[VTB_SPEC_SIZE], size_t *n) {
  switch (a->kind) {
  case VTB_ATTR_INT:
    *n = sizeof a->i;
    return &a->i;
  case VTB_ATTR_FLOAT:
    *n = sizeof a->f;
    return &a->f;
  case VTB_ATTR_INTS:
    *n = (size_t)a->n * sizeof *a->ints;
    return a->ints;
  case VTB_ATTR_FLOATS:
    *n = (size_t)a->n * sizeof *a->floats;
    return a->floats;
  case VTB_ATTR_STR:
    break;
  }
  const char *text = vtb_attr_text(a, buf);
  *n = strlen(text);
  return text;
}

bool vtb_attr_equal(const vtb_attr *a, const vtb_attr *b) {
  char x[VTB_SPEC_SIZE], y[VTB_SPEC_SIZE];
  size_t n, m;
  if (a->kind != b->kind || strcmp(a->key, b->key) != 0) return false;
  const void *left = bytes_of(a, x, &n), *right = bytes_of(b, y, &m);
  return n == m && memcmp(left, right, n) == 0;
}

uint64_t vtb_attr_hash(const vtb_attr *a) {
  char buf[VTB_SPEC_SIZE];
  size_t n;
  const void *bytes = bytes_of(a, buf, &n);
  return vtb_hash_bytes(vtb_hash_str(VTB_HASH_INIT, a->key), bytes, n);
}

/* ---- schema ---------------------------------------------------------------------------------- */

static vtb_attr_kind kind_of(const char *word, size_t n) {
  static const char *const names[] = {[VTB_ATTR_INT] = "int",
                                      [VTB_ATTR_FLOAT] = "float",
                                      [VTB_ATTR_STR] = "str",
                                      [VTB_ATTR_INTS] = "ints",
                                      [VTB_ATTR_FLOATS] = "floats"};
  for (int k = 0; k <= VTB_ATTR_FLOATS; k++)
    if (strlen(names[k]) == n && memcmp(names[k], word, n) == 0) return (vtb_attr_kind)k;
  vtb_bug("op table: attribute kind %.*s", (int)n, word);
}

const char *vtb__attr_spec_next(const char *schema, vtb__attr_spec *spec) {
  while (*schema == ' ') schema++;
  if (!*schema) return NULL;
  size_t n = strcspn(schema, " "), key = strcspn(schema, ":");
  vtb_check(key < n && key < sizeof spec->key, "op table: attributes %s", schema);
  memcpy(spec->key, schema, key);
  spec->key[key] = 0;
  spec->optional = schema[n - 1] == '?';
  spec->kind = kind_of(schema + key + 1, n - key - 1 - spec->optional);
  return schema + n;
}

static bool in_schema(const char *schema, const char *key, vtb__attr_spec *spec) {
  while ((schema = vtb__attr_spec_next(schema, spec)))
    if (strcmp(spec->key, key) == 0) return true;
  return false;
}

bool vtb__attr_spec_find(vtb_op op, const char *key, vtb__attr_spec *spec) {
  static const char any_op[] = "prepared:int?"; /* passes/memory/prepare.c */
  return in_schema(vtb_op_get(op)->attrs, key, spec) || in_schema(any_op, key, spec);
}
