/* Files of ONNX by their structure, without anything that could run them: parsed back, each name is
 * made before it is read and only once, shapes fill their numbers, parameters are under their
 * official names, loops close. docs/onnx.md lists every form. */
#include "frontend/compile/compile.h"
#include "ir/ops.h"
#include "frontend/compile/driver.h"
#include "frontend/onnx/onnx.h"
#include "frontend/onnx/onnx.pb-c.h"
#include "runtime/artefact/tensors.h"
#include "tests/test.h"

#include <string.h>
#include <unistd.h>

typedef VtbOnnx__Graph graph;
typedef VtbOnnx__Node node;

static char folder[] = "/tmp/vtb_onnx_XXXXXX";

static const char *in_folder(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static vtb_status export_to(const char *path, vtb_compile_options o, vtb_onnx_options x,
                            vtb_onnx_summary *s, vtb_report *r) {
  o.size = sizeof o, x.size = sizeof x;
  return vtb_compile_onnx(&o, &x, path, s, r);
}

static VtbOnnx__Model *parse(const char *path) {
  char *data = NULL;
  size_t n = 0;
  vtb_error err = {0};
  CHECK(vtb_file_read(path, (size_t)1 << 30, &data, &n, &err) == VTB_OK);
  VtbOnnx__Model *m = vtb_onnx__model__unpack(NULL, n, (const uint8_t *)data);
  vtb_free(data);
  CHECK(m != NULL);
  return m;
}

/* ---- structure ------------------------------------------------------------------------------- */

static size_t bytes_of(const VtbOnnx__Tensor *t) {
  size_t n = t->data_type == 7 ? 8 : t->data_type == 11 ? 8 : t->data_type == 10 ? 2 : 4;
  for (size_t i = 0; i < t->n_dims; i++) n *= (size_t)t->dims[i];
  return n;
}

static const char *property(VtbOnnx__StringEntry *const *at, size_t n, const char *key) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(at[i]->key, key) == 0) return at[i]->value;
  return NULL;
}

static void define(vtb_map *known, const char *name) {
  CHECK(*name && !vtb_map_has(known, name));
  vtb_map_set(known, name, known);
}

static void check_info(const VtbOnnx__ValueInfo *v) {
  CHECK(v->name && v->type && v->type->tensor_type && v->type->tensor_type->elem_type > 0);
  for (size_t i = 0; i < v->type->tensor_type->shape->n_dim; i++) {
    const VtbOnnx__Dimension *d = v->type->tensor_type->shape->dim[i];
    CHECK(d->has_dim_value ? d->dim_value > 0 : d->dim_param && !strcmp(d->dim_param, "batch"));
  }
}

static void check_graph(const graph *g, vtb_map *known, size_t *n_nodes);

static void check_node(const node *n, vtb_map *known, size_t *n_nodes) {
  ++*n_nodes;
  CHECK(n->op_type && *n->op_type && n->name && *n->name);
  for (size_t i = 0; i < n->n_input; i++) CHECK(vtb_map_has(known, n->input[i]));
  for (size_t a = 0; a < n->n_attribute; a++)
    if (n->attribute[a]->g) check_graph(n->attribute[a]->g, known, n_nodes);
  for (size_t i = 0; i < n->n_output; i++)
    if (*n->output[i]) define(known, n->output[i]);
}

static void check_graph(const graph *g, vtb_map *known, size_t *n_nodes) {
  vtb_map typed = {0};
  for (size_t i = 0; i < g->n_input; i++) define(known, g->input[i]->name), check_info(g->input[i]);
  for (size_t i = 0; i < g->n_node; i++) check_node(g->node[i], known, n_nodes);
  for (size_t i = 0; i < g->n_output; i++) {
    CHECK(vtb_map_has(known, g->output[i]->name));
    vtb_map_set(&typed, g->output[i]->name, known);
    check_info(g->output[i]);
  }
  for (size_t i = 0; i < g->n_value_info; i++) {
    CHECK(vtb_map_has(known, g->value_info[i]->name) &&
          !vtb_map_has(&typed, g->value_info[i]->name));
    vtb_map_set(&typed, g->value_info[i]->name, known);
    check_info(g->value_info[i]);
  }
  for (size_t i = 0; i < g->n_node; i++)
    for (size_t k = 0; k < g->node[i]->n_output; k++)
      CHECK(!*g->node[i]->output[k] || vtb_map_has(&typed, g->node[i]->output[k]));
  vtb_map_free(&typed);
}

/* Everything that nodes read is there; returns how many nodes there are. */
static size_t check_file(const VtbOnnx__Model *m) {
  vtb_map known = {0};
  size_t n_nodes = 0;
  CHECK(m->ir_version == VTB_ONNX_IR_VERSION && m->n_opset_import == 1);
  CHECK(m->opset_import[0]->version == VTB_ONNX_OPSET && !strcmp(m->producer_name, "vertebra"));
  for (size_t i = 0; i < m->graph->n_initializer; i++) {
    const VtbOnnx__Tensor *t = m->graph->initializer[i];
    define(&known, t->name);
    if (t->data_location)
      CHECK((size_t)atoll(property(t->external_data, t->n_external_data, "length")) == bytes_of(t));
    else
      CHECK(t->raw_data.len == bytes_of(t));
  }
  check_graph(m->graph, &known, &n_nodes);
  vtb_map_free(&known);
  return n_nodes;
}

static bool has_op(const VtbOnnx__Model *m, const char *op) {
  for (size_t i = 0; i < m->graph->n_node; i++)
    if (strcmp(m->graph->node[i]->op_type, op) == 0) return true;
  return false;
}

static const VtbOnnx__Tensor *find(const VtbOnnx__Model *m, const char *name) {
  for (size_t i = 0; i < m->graph->n_initializer; i++)
    if (strcmp(m->graph->initializer[i]->name, name) == 0) return m->graph->initializer[i];
  return NULL;
}

/* ---- models ---------------------------------------------------------------------------------- */

TEST(every_family_holds_together_in_every_mode) {
  static const char *const models[] = {"vit_nano",  "vil_nano",      "vim_nano",   "vir_nano",
                                       "swin_nano", "convnext_nano", "vrwkv_nano", "vil_delta_nano",
                                       "lru_rows",  "hgrn2",         "video_scan"};
  static const char *const modes[] = {NULL, "parallel", "chunkwise", "scan"};
  for (size_t i = 0; i < 4 * (sizeof models / sizeof *models); i++) {
    vtb_onnx_summary s;
    vtb_report *r = vtb_report_new();
    const char *path = in_folder("m.onnx");
    vtb_compile_options o = {
        .model = models[i / 4], .mode = modes[i % 4], .chunk = i % 4 == 2 ? 7 : 0};
    vtb_status status = export_to(path, o, (vtb_onnx_options){0}, &s, r);
    CHECK_MSG(status == VTB_OK, "%s: %s", o.model, vtb_report_error(r));
    VtbOnnx__Model *m = parse(path);
    CHECK(check_file(m) == (size_t)s.n_nodes);
    CHECK(m->graph->n_initializer == (size_t)s.n_initialisers);
    vtb_onnx__model__free_unpacked(m, NULL);
    vtb_report_free(r);
  }
}

static VtbOnnx__Model *exported(const char *name, vtb_compile_options o, vtb_onnx_options x) {
  vtb_onnx_summary s;
  vtb_report *r = vtb_report_new();
  vtb_status status = export_to(in_folder(name), o, x, &s, r);
  CHECK_MSG(status == VTB_OK, "%s", vtb_report_error(r));
  vtb_report_free(r);
  return parse(in_folder(name));
}

TEST(a_mode_decides_the_form) {
  static const struct {
    const char *mode;
    bool scan;
  } rows[] = {{"auto", false}, {"parallel", false}, {"chunkwise", false}, {"scan", true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    vtb_compile_options o = {.model = "vil_nano", .mode = rows[i].mode};
    VtbOnnx__Model *m = exported("mode.onnx", o, (vtb_onnx_options){0});
    CHECK(has_op(m, "Scan") == rows[i].scan);
    vtb_onnx__model__free_unpacked(m, NULL);
  }
}

TEST(parameters_have_official_names_and_places) {
  VtbOnnx__Model *m =
      exported("n.onnx", (vtb_compile_options){.model = "vit_nano"}, (vtb_onnx_options){0});
  const VtbOnnx__Tensor *t = find(m, "blocks.0.attn.qkv.weight");
  bool found = false;
  CHECK(t && t->n_dims == 2 && t->data_type == 1);
  for (size_t i = 0; i < m->graph->n_node; i++) {
    const node *n = m->graph->node[i];
    if (strcmp(n->name, "blocks.1.norm1.mean") != 0) continue;
    found = true;
    CHECK(n->doc_string && strncmp(n->doc_string, "std/nn.vtb:", 11) == 0);
  }
  CHECK(found);
  CHECK_STR(property(m->metadata_props, m->n_metadata_props, "model"), "vit_nano");
  vtb_onnx__model__free_unpacked(m, NULL);
}

TEST(a_fixed_batch_leaves_no_symbol) {
  VtbOnnx__Model *m = exported("b.onnx", (vtb_compile_options){.model = "vil_nano", .batch = 5},
                               (vtb_onnx_options){0});
  CHECK(m->graph->input[0]->type->tensor_type->shape->dim[0]->dim_value == 5);
  CHECK(!has_op(m, "Shape"));
  check_file(m);
  vtb_onnx__model__free_unpacked(m, NULL);
}

TEST(half_is_stored_and_cast) {
  VtbOnnx__Model *m = exported("h.onnx", (vtb_compile_options){.model = "vit_nano"},
                               (vtb_onnx_options){.half = true});
  CHECK(find(m, "norm.weight")->data_type == 10 && has_op(m, "Cast"));
  check_file(m);
  vtb_onnx__model__free_unpacked(m, NULL);
}

/* ---- files ----------------------------------------------------------------------------------- */

static char *content(const char *path, size_t *n) {
  char *data = NULL;
  vtb_error err = {0};
  CHECK(vtb_file_read(path, (size_t)1 << 30, &data, n, &err) == VTB_OK);
  return data;
}

TEST(numbers_outside_are_the_numbers_inside) {
  vtb_compile_options o = {.model = "vit_nano"};
  VtbOnnx__Model *in = exported("in.onnx", o, (vtb_onnx_options){0});
  VtbOnnx__Model *out = exported("out.onnx", o, (vtb_onnx_options){.external = true});
  size_t n, n_outside = 0;
  char *data = content(in_folder("out.onnx.data"), &n);
  check_file(out);
  CHECK(in->graph->n_initializer == out->graph->n_initializer);
  for (size_t i = 0; i < out->graph->n_initializer; i++) {
    const VtbOnnx__Tensor *a = in->graph->initializer[i], *b = out->graph->initializer[i];
    if (!b->data_location) continue;
    size_t at = (size_t)atoll(property(b->external_data, b->n_external_data, "offset"));
    n_outside++;
    CHECK_STR(property(b->external_data, b->n_external_data, "location"), "out.onnx.data");
    CHECK(at % 4096 == 0 && at + a->raw_data.len <= n);
    CHECK(memcmp(data + at, a->raw_data.data, a->raw_data.len) == 0);
  }
  CHECK(n_outside > 10);
  vtb_free(data);
  vtb_onnx__model__free_unpacked(in, NULL);
  vtb_onnx__model__free_unpacked(out, NULL);
}

/* Writes a layer of 64 * 80 numbers and a bias of 80 as m.onnx, of at most so many bytes. */
static vtb_status write_layer(int64_t most_bytes, vtb_onnx_made *made, vtb_error *err) {
  static const char text[] = "use std.nn\nmodel layer() {\n  input x: tokens[1, 64]\n"
                             "  output y = linear(\"l\", x, 80)\n}\n";
  const vtb_compile_options o = {.size = sizeof o, .model = "layer.vtb", .text = text};
  vtb_compilation c;
  vtb_report *r = vtb_report_new();
  vtb_diags diags = {0};
  vtb_weights *w = vtb_weights_new();
  vtb_weights_add(w, "l.weight", VTB_ELEM_F32, 2, (int64_t[]){80, 64});
  vtb_weights_add(w, "l.bias", VTB_ELEM_F32, 1, (int64_t[]){80});
  vtb_status status = vtb_compilation_load(&c, &o, NULL, r);
  if (status == VTB_OK) status = vtb_compilation_graph(&c);
  CHECK(status == VTB_OK);
  vtb_onnx_job job = {.entry = c.module->entry, .weights = w, .most_bytes = most_bytes};
  status = vtb_onnx_write(&job, in_folder("layer.onnx"), made, &diags, err);
  vtb_weights_free(w);
  vtb_compilation_free(&c);
  vtb_report_free(r);
  return status;
}

TEST(numbers_go_outside_where_a_message_would_not_hold_them) {
  const int64_t n = 4 * (64 * 80 + 80);
  vtb_onnx_made made = {0};
  vtb_error err = {0};
  char data[300];
  snprintf(data, sizeof data, "%s.data", in_folder("layer.onnx"));
  CHECK(write_layer(0, &made, &err) == VTB_OK);
  CHECK(made.n_data_bytes == 0 && made.n_bytes > n && access(data, F_OK) != 0);
  CHECK(write_layer(2 * n, &made, &err) == VTB_OK && made.n_data_bytes == 0);
  /* the graph has a thirty-second of the file to itself */
  CHECK(write_layer(n + n / 40, &made, &err) == VTB_OK);
  CHECK(made.n_data_bytes >= 4 * 64 * 80 && made.n_bytes < 4096 && access(data, F_OK) == 0);
  VtbOnnx__Model *m = parse(in_folder("layer.onnx"));
  CHECK(find(m, "l.weight")->data_location == 1 && !find(m, "l.bias")->data_location);
  vtb_onnx__model__free_unpacked(m, NULL);
  CHECK(write_layer(100, &made, &err) == VTB_E_INPUT && strstr(err.text, "a model file holds 100"));
}

TEST(equal_inputs_give_equal_files) {
  size_t n, k;
  for (int i = 0; i < 2; i++)
    vtb_onnx__model__free_unpacked(exported(i ? "1.onnx" : "0.onnx",
                                            (vtb_compile_options){.model = "vim_nano"},
                                            (vtb_onnx_options){0}),
                                   NULL);
  char *a = content(in_folder("0.onnx"), &n), *b = content(in_folder("1.onnx"), &k);
  CHECK(n == k && memcmp(a, b, n) == 0);
  vtb_free(a), vtb_free(b);
}

/* ---- what cannot be -------------------------------------------------------------------------- */

TEST(what_has_no_form_is_said_at_its_place) {
  static const char text[] = "use std.nn\n"
                             "model noisy() {\n"
                             "  input image: image[1, 8, 8]\n"
                             "  x = patch_embed(\"e\", image, 8, 4x4, 4x4)\n"
                             "  output y = x + random(x)\n"
                             "}\n";
  vtb_report *r = vtb_report_new();
  vtb_onnx_summary s;
  const vtb_diagnostic *d;
  vtb_compile_options o = {.model = "noisy.vtb", .text = text};
  CHECK(export_to(in_folder("no.onnx"), o, (vtb_onnx_options){0}, &s, r) == VTB_E_INPUT);
  CHECK(vtb_report_diagnostics(r, &d) == 1 && d->code == 3301 && d->at.line == 5);
  CHECK(access(in_folder("no.onnx"), F_OK) != 0);
  vtb_report_free(r);
}

TEST(damaged_weights_leave_what_was_there) {
  vtb_report *r = vtb_report_new();
  vtb_onnx_summary s;
  vtb_error err = {0};
  CHECK(vtb_file_write_atomic(in_folder("old.onnx"), "old", 3, &err) == VTB_OK);
  char weights[256];
  snprintf(weights, sizeof weights, "%s", in_folder("bad.safetensors"));
  CHECK(vtb_file_write_atomic(weights, "\x10\0\0\0\0\0\0\0{\"a\":", 13, &err) == VTB_OK);
  vtb_compile_options o = {.model = "vit_nano", .weights = weights};
  CHECK(export_to(in_folder("old.onnx"), o, (vtb_onnx_options){0}, &s, r) == VTB_E_INPUT);
  CHECK(strstr(vtb_report_error(r), "bad.safetensors"));
  size_t n;
  char *old = content(in_folder("old.onnx"), &n);
  CHECK(n == 3);
  vtb_free(old);
  vtb_report_free(r);
}

/* ---- docs/onnx.md ---------------------------------------------------------------------------- */

static void add_row(vtb_strbuf *s, vtb_op op) {
  const char *form = vtb_onnx_form(op);
  if (form) vtb_strbuf_printf(s, "| `%s` | %s |\n", vtb_op_get(op)->name, form);
}

TEST(the_page_lists_every_form) {
  static const char path[] = VTB_SOURCE_DIR "/docs/onnx.md",
                    begin[] = "| op | ONNX |\n| --- | --- |\n";
  vtb_strbuf rows = {0}, page = {0};
  vtb_error err = {0};
  size_t n;
  for (int op = 0; op < VTB_OP_COUNT; op++) add_row(&rows, (vtb_op)op);
  char *text = content(path, &n), *at = strstr(text, begin);
  CHECK(at != NULL);
  at += strlen(begin);
  char *end = strstr(at, "\n\n");
  CHECK(end != NULL);
  if (getenv("VTB_UPDATE")) {
    vtb_strbuf_printf(&page, "%.*s%s%s", (int)(at - text), text, rows.at, end + 1);
    CHECK(vtb_file_write_atomic(path, page.at, page.n, &err) == VTB_OK);
  } else {
    CHECK_MSG((size_t)(end + 1 - at) == rows.n && strncmp(at, rows.at, rows.n) == 0,
              "VTB_UPDATE=1 %s/tests/compile_test_onnx writes the table anew", VTB_BINARY_DIR);
  }
  vtb_strbuf_free(&rows), vtb_strbuf_free(&page), vtb_free(text);
}

int main(void) {
  char command[300];
  if (!mkdtemp(folder)) return 1;
  RUN(every_family_holds_together_in_every_mode);
  RUN(a_mode_decides_the_form);
  RUN(parameters_have_official_names_and_places);
  RUN(a_fixed_batch_leaves_no_symbol);
  RUN(half_is_stored_and_cast);
  RUN(numbers_outside_are_the_numbers_inside);
  RUN(numbers_go_outside_where_a_message_would_not_hold_them);
  RUN(equal_inputs_give_equal_files);
  RUN(what_has_no_form_is_said_at_its_place);
  RUN(damaged_weights_leave_what_was_there);
  RUN(the_page_lists_every_form);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) != 0 || test_done();
}
