/* A graph as a file: what is read is named, becomes messages, and goes out.
 *
 * Numbers are written from where they lie; a message has at most 2 GB, beyond which they go to a
 * file beside it. */
#include "frontend/onnx/internal.h"
#include "frontend/onnx/onnx.pb-c.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef VtbOnnx__Attribute attribute;
typedef VtbOnnx__ValueInfo info;
typedef VtbOnnx__Tensor tensor;

/* The largest message with everything else in it; numbers of fewer bytes are never outside. */
#define MOST_INSIDE (INT64_C(2047) << 20)
enum { LEAST_OUTSIDE = 1024, OUTSIDE_ALIGN = 4096 };

typedef struct writer {
  ox *x;
  vtb_map taken; /* names */
  const char *data_path, *location;
  int64_t data_bytes;
  bool external;
  int64_t n_nodes, n_constants;
} writer;

#define NEW(w, Type, INIT) ((Type *)vtb_arena_memdup(&(w)->x->arena, &(Type)INIT, sizeof(Type)))
#define NEW_LIST(w, Type, n) VTB_NEW_ARRAY(&(w)->x->arena, Type *, (n) + 1)

/* ---- what is read ---------------------------------------------------------------------------- */

/* A loop makes all that its body gives. */
static void mark_back(ox_node *n) {
  for (int i = 0; i < n->n_out; i++) n->used |= n->out[i]->used;
  for (int i = 0; n->used && n->body && i < n->n_out; i++) n->out[i]->used = true;
  for (int i = 0; n->used && i < n->n_in; i++) n->in[i]->used = true;
}

/* Nodes of a graph, the last first. Bodies are marked where their loop is: what they read lies
 * before it. */
static void mark(writer *w, const ox_graph *g) {
  VTB_VEC(ox_node *) nodes = {0};
  for (int i = 0; i < g->n_out; i++) g->out[i]->used = true;
  for (ox_node *n = g->first; n; n = n->next) vtb_vec_push(&nodes, n);
  for (size_t i = nodes.n; i-- > 0;) {
    mark_back(nodes.at[i]);
    if (!nodes.at[i]->used) continue;
    w->n_nodes++;
    if (nodes.at[i]->body) mark(w, nodes.at[i]->body);
  }
  vtb_vec_free(&nodes);
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *own_name(writer *w, const char *wanted) {
  const char *name = wanted;
  for (int k = 1; vtb_map_has(&w->taken, name); k++)
    name = vtb_arena_printf(&w->x->arena, "%s.%d", wanted, k);
  vtb_map_set(&w->taken, name, w);
  return name;
}

static void name_nodes(writer *w, const ox_graph *g) {
  for (int i = 0; i < g->n_in && g != w->x->top; i++) g->in[i]->name = own_name(w, "step.in");
  for (ox_node *n = g->first; n; n = n->next) {
    for (int i = 0; n->used && i < n->n_out; i++) {
      ox_value *v = n->out[i];
      bool output = false;
      for (int k = 0; g == w->x->top && k < g->n_out; k++) output |= g->out[k] == v;
      if (output) continue;
      v->name =
          own_name(w, v->name ? v->name : vtb_arena_printf(&w->x->arena, "%s.%s", n->path, n->op));
    }
    if (n->used && n->body) name_nodes(w, n->body);
  }
}

/* First those that others know: inputs, outputs, parameters. */
static void name_all(writer *w) {
  ox_graph *g = w->x->top;
  for (int i = 0; i < g->n_in; i++) g->in[i]->name = own_name(w, g->in[i]->name);
  for (int i = 0; i < g->n_out; i++) g->out[i]->name = own_name(w, g->out[i]->name);
  for (size_t i = 0; i < w->x->initialisers.n; i++) {
    ox_value *v = w->x->initialisers.at[i];
    if (v->name) v->name = own_name(w, v->name);
  }
  for (size_t i = 0; i < w->x->initialisers.n; i++) {
    ox_value *v = w->x->initialisers.at[i];
    if (!v->used || v->name) continue;
    v->name =
        own_name(w, vtb_arena_printf(&w->x->arena, "constant.%lld", (long long)w->n_constants++));
  }
  name_nodes(w, g);
}

/* ---- messages -------------------------------------------------------------------------------- */

static char *text(const char *s) { return (char *)(uintptr_t)s; }

static info *value_info(writer *w, const ox_value *v) {
  info *out = NEW(w, info, VTB_ONNX__VALUE_INFO__INIT);
  out->name = text(v->name);
  out->type = NEW(w, VtbOnnx__Type, VTB_ONNX__TYPE__INIT);
  VtbOnnx__TensorType *t = out->type->tensor_type =
      NEW(w, VtbOnnx__TensorType, VTB_ONNX__TENSOR_TYPE__INIT);
  t->has_elem_type = 1, t->elem_type = v->type.elem;
  t->shape = NEW(w, VtbOnnx__Shape, VTB_ONNX__SHAPE__INIT);
  t->shape->n_dim = (size_t)v->type.rank;
  t->shape->dim = NEW_LIST(w, VtbOnnx__Dimension, v->type.rank);
  for (int i = 0; i < v->type.rank; i++) {
    VtbOnnx__Dimension *d = t->shape->dim[i] =
        NEW(w, VtbOnnx__Dimension, VTB_ONNX__DIMENSION__INIT);
    if (v->type.dim[i] == VTB_DYN)
      d->dim_param = text("batch");
    else
      d->has_dim_value = 1, d->dim_value = v->type.dim[i];
  }
  return out;
}

static info **value_infos(writer *w, ox_value *const *v, int n) {
  info **out = NEW_LIST(w, info, n);
  for (int i = 0; i < n; i++) out[i] = value_info(w, v[i]);
  return out;
}

static VtbOnnx__StringEntry *entry(writer *w, const char *key, const char *value) {
  VtbOnnx__StringEntry *e = NEW(w, VtbOnnx__StringEntry, VTB_ONNX__STRING_ENTRY__INIT);
  e->key = text(key), e->value = text(value);
  return e;
}

static void place_outside(writer *w, tensor *t, size_t n_bytes) {
  int64_t at = (w->data_bytes + OUTSIDE_ALIGN - 1) / OUTSIDE_ALIGN * OUTSIDE_ALIGN;
  vtb_arena *arena = &w->x->arena;
  t->has_data_location = 1, t->data_location = 1;
  t->n_external_data = 3;
  t->external_data = NEW_LIST(w, VtbOnnx__StringEntry, 3);
  t->external_data[0] = entry(w, "location", w->location);
  t->external_data[1] = entry(w, "offset", vtb_arena_printf(arena, "%lld", (long long)at));
  t->external_data[2] = entry(w, "length", vtb_arena_printf(arena, "%zu", n_bytes));
  w->data_bytes = at + (int64_t)n_bytes;
}

static size_t value_bytes(const ox_value *v) {
  return (size_t)vtb__ox_count(&v->type) * vtb__ox_elem_bytes(v->type.elem);
}

static bool is_outside(const writer *w, const ox_value *v) {
  return w->external && value_bytes(v) >= LEAST_OUTSIDE;
}

static tensor *initialiser(writer *w, const ox_value *v) {
  tensor *t = NEW(w, tensor, VTB_ONNX__TENSOR__INIT);
  size_t n_bytes = value_bytes(v);
  t->name = text(v->name);
  t->has_data_type = 1, t->data_type = v->type.elem;
  t->n_dims = (size_t)v->type.rank;
  t->dims = vtb_arena_memdup(&w->x->arena, v->type.dim, sizeof v->type.dim);
  if (is_outside(w, v)) {
    place_outside(w, t, n_bytes);
  } else {
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){n_bytes, (uint8_t *)(uintptr_t)v->data};
  }
  return t;
}

static VtbOnnx__Graph *graph(writer *w, const ox_graph *g);

static attribute *attribute_of(writer *w, const vtb_attr *a) {
  attribute *out = NEW(w, attribute, VTB_ONNX__ATTRIBUTE__INIT);
  out->name = text(a->key);
  out->has_type = 1;
  vtb_check(a->kind == VTB_ATTR_INT || a->kind == VTB_ATTR_INTS, "onnx: attribute '%s'", a->key);
  if (a->kind == VTB_ATTR_INT) {
    out->type = 2, out->has_i = 1, out->i = a->i;
  } else {
    out->type = 7, out->n_ints = (size_t)a->n;
    out->ints = (int64_t *)(uintptr_t)a->ints;
  }
  return out;
}

static attribute *body_of(writer *w, const ox_graph *g) {
  attribute *out = NEW(w, attribute, VTB_ONNX__ATTRIBUTE__INIT);
  out->name = text("body");
  out->has_type = 1, out->type = 5;
  out->g = graph(w, g);
  return out;
}

static VtbOnnx__Node *node(writer *w, const ox_node *n) {
  VtbOnnx__Node *out = NEW(w, VtbOnnx__Node, VTB_ONNX__NODE__INIT);
  out->op_type = text(n->op);
  out->name = text(n->out[0]->name);
  if (n->place && *n->place) out->doc_string = text(n->place);
  out->n_input = (size_t)n->n_in, out->n_output = (size_t)n->n_out;
  out->input = NEW_LIST(w, char, n->n_in), out->output = NEW_LIST(w, char, n->n_out);
  for (int i = 0; i < n->n_in; i++) out->input[i] = text(n->in[i]->name);
  for (int i = 0; i < n->n_out; i++) out->output[i] = text(n->out[i]->used ? n->out[i]->name : "");
  out->attribute = NEW_LIST(w, attribute, n->n_attrs + 1);
  for (int i = 0; i < n->n_attrs; i++)
    out->attribute[out->n_attribute++] = attribute_of(w, &n->attrs[i]);
  if (n->body) out->attribute[out->n_attribute++] = body_of(w, n->body);
  return out;
}

static bool is_output(const ox_graph *g, const ox_value *v) {
  bool is = false;
  for (int i = 0; i < g->n_out; i++) is |= g->out[i] == v;
  return is;
}

static VtbOnnx__Graph *graph(writer *w, const ox_graph *g) {
  VtbOnnx__Graph *out = NEW(w, VtbOnnx__Graph, VTB_ONNX__GRAPH__INIT);
  int n_nodes = 0, n_values = 0;
  out->name = text(g->name);
  for (const ox_node *n = g->first; n; n = n->next) n_nodes++, n_values += n->n_out;
  out->node = NEW_LIST(w, VtbOnnx__Node, n_nodes);
  out->value_info = NEW_LIST(w, info, n_values);
  for (const ox_node *n = g->first; n; n = n->next) {
    if (!n->used) continue;
    out->node[out->n_node++] = node(w, n);
    for (int i = 0; i < n->n_out; i++)
      if (n->out[i]->used && !is_output(g, n->out[i]))
        out->value_info[out->n_value_info++] = value_info(w, n->out[i]);
  }
  out->n_input = (size_t)g->n_in, out->n_output = (size_t)g->n_out;
  out->input = value_infos(w, g->in, g->n_in);
  out->output = value_infos(w, g->out, g->n_out);
  return out;
}

static void initialisers(writer *w, VtbOnnx__Graph *g) {
  g->initializer = NEW_LIST(w, tensor, w->x->initialisers.n);
  for (size_t i = 0; i < w->x->initialisers.n; i++)
    if (w->x->initialisers.at[i]->used)
      g->initializer[g->n_initializer++] = initialiser(w, w->x->initialisers.at[i]);
}

static VtbOnnx__Model *model(writer *w) {
  const vtb_onnx_job *job = w->x->job;
  VtbOnnx__Model *m = NEW(w, VtbOnnx__Model, VTB_ONNX__MODEL__INIT);
  m->has_ir_version = 1, m->ir_version = VTB_ONNX_IR_VERSION;
  m->producer_name = text("vertebra"), m->producer_version = text(VTB_VERSION);
  m->n_opset_import = 1;
  m->opset_import = NEW_LIST(w, VtbOnnx__OperatorSet, 1);
  m->opset_import[0] = NEW(w, VtbOnnx__OperatorSet, VTB_ONNX__OPERATOR_SET__INIT);
  m->opset_import[0]->domain = text("");
  m->opset_import[0]->has_version = 1, m->opset_import[0]->version = VTB_ONNX_OPSET;
  m->n_metadata_props = job->n_meta;
  m->metadata_props = NEW_LIST(w, VtbOnnx__StringEntry, job->n_meta);
  for (size_t i = 0; i < job->n_meta; i++)
    m->metadata_props[i] = entry(w, job->meta[i].key, job->meta[i].value);
  m->graph = graph(w, w->x->top);
  initialisers(w, m->graph);
  return m;
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct sink {
  ProtobufCBuffer base;
  FILE *file;
} sink;

/* Appends to the file: what goes wrong shows in ferror() when the file is closed. */
static void append(ProtobufCBuffer *b, size_t n, const uint8_t *bytes) {
  if (n) (void)fwrite(bytes, 1, n, ((sink *)b)->file);
}

static void put_outside(writer *w, FILE *file) {
  static const char zeros[OUTSIDE_ALIGN];
  int64_t at = 0;
  for (size_t i = 0; i < w->x->initialisers.n; i++) {
    const ox_value *v = w->x->initialisers.at[i];
    if (!v->used || !is_outside(w, v)) continue;
    size_t gap = (size_t)((OUTSIDE_ALIGN - at % OUTSIDE_ALIGN) % OUTSIDE_ALIGN);
    (void)fwrite(zeros, 1, gap, file);
    (void)fwrite(v->data, 1, value_bytes(v), file);
    at += (int64_t)(gap + value_bytes(v));
  }
}

static vtb_status settle(FILE *file, const char *path, vtb_error *err) {
  if (ferror(file) || fflush(file) != 0 || fsync(fileno(file)) != 0)
    return vtb_file_fail(err, "write", path);
  return VTB_OK;
}

/* Both files are complete on disk before either gets its name. */
static vtb_status put_files(writer *w, const VtbOnnx__Model *m, const char *path, vtb_error *err) {
  vtb_atomic_file data = {0}, file = {0};
  vtb_status status = w->data_bytes ? vtb_atomic_begin(&data, w->data_path, err) : VTB_OK;
  if (status == VTB_OK && data.file) {
    put_outside(w, data.file);
    status = settle(data.file, w->data_path, err);
  }
  if (status == VTB_OK) status = vtb_atomic_begin(&file, path, err);
  if (status == VTB_OK) {
    sink out = {{append}, file.file};
    (void)protobuf_c_message_pack_to_buffer(&m->base, &out.base);
    status = settle(file.file, path, err);
  }
  if (status == VTB_OK && data.file) status = vtb_atomic_commit(&data, err);
  if (status == VTB_OK) status = vtb_atomic_commit(&file, err);
  vtb_atomic_abort(&data);
  vtb_atomic_abort(&file);
  return status;
}

static int64_t initialiser_bytes(const ox *x) {
  int64_t n = 0;
  for (size_t i = 0; i < x->initialisers.n; i++)
    if (x->initialisers.at[i]->used) n += (int64_t)value_bytes(x->initialisers.at[i]);
  return n;
}

vtb_status vtb__ox_write(ox *x, const char *path, vtb_onnx_made *made, vtb_error *err) {
  writer w = {.x = x};
  const char *slash = strrchr(path, '/');
  w.data_path = vtb_arena_printf(&x->arena, "%s.data", path);
  w.location = vtb_arena_printf(&x->arena, "%s.data", slash ? slash + 1 : path);
  mark(&w, x->top);
  const int64_t most = x->job->most_bytes ? x->job->most_bytes : MOST_INSIDE;
  w.external = x->job->external || initialiser_bytes(x) > most - most / 32; /* and the graph */
  name_all(&w);
  VtbOnnx__Model *m = model(&w);
  int64_t n_bytes = (int64_t)protobuf_c_message_get_packed_size(&m->base);
  vtb_status status = VTB_OK;
  if (n_bytes > most)
    status = vtb_fail(err, VTB_E_INPUT, "the graph alone has %lld bytes; a model file holds %lld",
                      (long long)n_bytes, (long long)most);
  if (status == VTB_OK) status = put_files(&w, m, path, err);
  *made = (vtb_onnx_made){.n_nodes = w.n_nodes,
                          .n_initialisers = (int64_t)m->graph->n_initializer,
                          .n_bytes = n_bytes,
                          .n_data_bytes = w.data_bytes};
  vtb_map_free(&w.taken);
  return status;
}
