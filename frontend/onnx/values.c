/* Values, constants and nodes of a graph in the making. */
#include "frontend/onnx/internal.h"

size_t vtb__ox_elem_bytes(ox_elem e) {
  switch (e) {
  case OX_I64:
  case OX_F64:
    return 8;
  case OX_F16:
    return 2;
  case OX_BOOL:
    return 1;
  case OX_F32:
  case OX_I32:
    break;
  }
  return 4;
}

ox_type vtb__ox_shape(ox_elem elem, int rank, const int64_t *dim) {
  ox_type t = {.elem = elem, .rank = rank};
  vtb_check(rank <= OX_MAX_RANK, "onnx: a tensor of rank %d", rank);
  for (int i = 0; i < rank; i++) t.dim[i] = dim[i];
  return t;
}

ox_type vtb__ox_type(const vtb_type *t) {
  ox_type out = {.elem = t->dtype == VTB_I32 ? OX_I32 : OX_F32, .rank = t->rank};
  for (int i = 0; i < t->rank; i++) out.dim[i] = t->dim[i].size;
  return out;
}

int64_t vtb__ox_count(const ox_type *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dim[i] == VTB_DYN ? 1 : t->dim[i];
  return n;
}

ox_value *vtb__ox_new(ox *x, const ox_type *t) {
  ox_value *v = VTB_NEW(&x->arena, ox_value);
  *v = (ox_value){.type = *t};
  return v;
}

/* ---- constants ------------------------------------------------------------------------------- */

ox_value *vtb__ox_data(ox *x, const ox_type *t, const void *data) {
  size_t n_bytes = (size_t)vtb__ox_count(t) * vtb__ox_elem_bytes(t->elem);
  char hash[33];
  vtb_strbuf key = {0};
  vtb_hash128(data, n_bytes, hash);
  vtb_strbuf_printf(&key, "%d %s", (int)t->elem, hash);
  for (int i = 0; i < t->rank; i++) vtb_strbuf_printf(&key, " %lld", (long long)t->dim[i]);
  ox_value *v = vtb_map_get(&x->constants, key.at);
  if (!v) {
    v = vtb__ox_new(x, t);
    v->data = vtb_arena_memdup(&x->arena, data, n_bytes);
    vtb_vec_push(&x->initialisers, v);
    vtb_map_set(&x->constants, key.at, v);
  }
  vtb_strbuf_free(&key);
  return v;
}

ox_value *vtb__ox_number_of(ox *x, ox_elem e, double value) {
  ox_type t = {.elem = e};
  float f = (float)value;
  int32_t i = (int32_t)(e == OX_I32 ? value : 0);
  vtb_check(e == OX_F32 || e == OX_I32 || e == OX_F64, "onnx: a number of type %d", (int)e);
  return vtb__ox_data(x, &t, e == OX_F32 ? (void *)&f : e == OX_I32 ? (void *)&i : (void *)&value);
}

ox_value *vtb__ox_number(ox *x, double value) { return vtb__ox_number_of(x, OX_F32, value); }

ox_value *vtb__ox_ints(ox *x, int n, const int64_t *at) {
  ox_type t = vtb__ox_shape(OX_I64, 1, (const int64_t[]){n});
  return vtb__ox_data(x, &t, at);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static vtb_attr copy_attr(ox *x, const vtb_attr *a) {
  vtb_attr c = *a;
  if (a->kind == VTB_ATTR_INTS)
    c.ints = vtb_arena_memdup(&x->arena, a->ints, (size_t)a->n * sizeof *a->ints);
  return c;
}

ox_node *vtb__ox_node(ox *x, const char *op, ox_value *const *in, int n_in, const vtb_attr *attrs,
                      int n_attrs, const ox_type *types, int n_out) {
  ox_node *n = VTB_NEW(&x->arena, ox_node);
  *n = (ox_node){.op = op, .n_in = n_in, .n_out = n_out, .n_attrs = n_attrs};
  n->path = x->path;
  n->place = x->place;
  n->graph = x->at;
  n->in = VTB_NEW_ARRAY(&x->arena, ox_value *, n_in + 1);
  n->out = VTB_NEW_ARRAY(&x->arena, ox_value *, n_out + 1);
  n->attrs = VTB_NEW_ARRAY(&x->arena, vtb_attr, n_attrs + 1);
  for (int i = 0; i < n_in; i++) n->in[i] = in[i];
  for (int i = 0; i < n_attrs; i++) n->attrs[i] = copy_attr(x, &attrs[i]);
  for (int i = 0; i < n_out; i++) {
    n->out[i] = vtb__ox_new(x, &types[i]);
    n->out[i]->def = n;
  }
  *(x->at->last ? &x->at->last->next : &x->at->first) = n;
  x->at->last = n;
  return n;
}

ox_value *vtb__ox_one(ox *x, const char *op, ox_type t, const vtb_attr *attrs, int n_attrs,
                      ox_value *const *in, int n_in) {
  return vtb__ox_node(x, op, in, n_in, attrs, n_attrs, &t, 1)->out[0];
}
