/* Elaboration: ViL's published sizes and names, sharing of blocks, paths, entries, configs, a
 * user's variant, and messages. */
#include "frontend/lang/lang.h"
#include "ir/ops.h"
#include "tests/test.h"

#define MODELS VTB_SOURCE_DIR "/models"

static vtb_diags diags;

/* An override of the command line, a field of a config, and one with what it must equal. */
#define SET(n, v)                                                                                  \
  { .name = (n), .value = (v) }
#define FIELD(n, v)                                                                                \
  { .name = (n), .value = (v), .from_config = true }
#define FACT(n, v, x)                                                                              \
  { .name = (n), .value = (v), .from_config = true, .fact = (x) }

static const vtb_search *search(void) {
  static const char *const dirs[] = {MODELS};
  static const vtb_search s = {.dirs = dirs, .n_dirs = 1};
  return &s;
}

static vtb_unit *vil(void) {
  static vtb_unit *u;
  if (!u) u = vtb_unit_load(MODELS "/vil.vtb", search(), &diags);
  return u;
}

static void clear(void) {
  vtb_diags_free(&diags);
  memset(&diags, 0, sizeof diags);
}

static void show(void) { vtb_diags_print(&diags, stderr); }

static vtb_module *make(vtb_unit *u, const char *name, const vtb_instantiate_options *o) {
  clear();
  vtb_module *m = u ? vtb_instantiate(u, name, o, &diags) : NULL;
  vtb_error err = {0};
  if (m && !vtb_module_verify(m, &err)) CHECK_MSG(false, "%s: %s", name ? name : "?", err.text);
  return m;
}

static int64_t parameters(const vtb_module *m, int *tensors) {
  int64_t n = 0;
  *tensors = 0;
  for (int i = 0; i < m->entry->n_args; i++) {
    if (m->entry->arg_info[i].role != VTB_ROLE_PARAM) continue;
    n += vtb_type_count(&m->entry->args[i]->type);
    ++*tensors;
  }
  return n;
}

static const vtb_arg_info *argument(const vtb_module *m, const char *official, vtb_type *type) {
  for (int i = 0; i < m->entry->n_args; i++)
    if (strcmp(m->entry->arg_info[i].official, official) == 0) {
      if (type) *type = m->entry->args[i]->type;
      return &m->entry->arg_info[i];
    }
  return NULL;
}

static int functions(const vtb_module *m) {
  int n = 0;
  for (const vtb_func *f = m->first; f; f = f->next) n++;
  return n;
}

static int count_op(const vtb_module *m, vtb_op op) {
  int n = 0;
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next) n += i->op == op;
  return n;
}

static bool has_path(const vtb_module *m, const char *path) {
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      if (i->op == VTB_OP_permute && strcmp(vtb_attr_str(i, "path", ""), path) == 0) return true;
  return false;
}

static bool has_code(int code) {
  for (size_t i = 0; i < diags.list.n; i++)
    if (diags.list.at[i].code == code) return true;
  return false;
}

static bool said(const char *text) {
  for (size_t i = 0; i < diags.list.n; i++)
    if (strstr(diags.list.at[i].text, text)) return true;
  return false;
}

/* ---- ViL ------------------------------------------------------------------------------------- */

TEST(published_parameter_counts) {
  static const struct {
    const char *name;
    long long count;
  } want[] = {{"vil_tiny_patch16_224", 6391528},
              {"vil_small", 23398696},
              {"vil_base", 89263528},
              {"vil_large", 310489448},
              {"vil_tiny_patch16_192", 6381544},
              {"vil1_tiny", 6088360},
              {"vil1_tinyplus", 7277840},
              {"vil1_small", 22792360},
              {"vil1_smallplus", 24628664},
              {"vil1_base", 88050856}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    vtb_module *m = make(vil(), want[i].name, NULL);
    if (!m) show();
    CHECK(m);
    if (!m) continue;
    int n;
    CHECK_MSG(parameters(m, &n) == want[i].count, "%s has %lld parameters, want %lld", want[i].name,
              (long long)parameters(m, &n), want[i].count);
    vtb_module_free(m);
  }
}

TEST(headless_and_without_second_norm) {
  vtb_override plain[] = {{.name = "pooled_norm", .value = "none"}};
  vtb_override features[] = {SET("task", "features"), SET("image", "512x512"),
                             SET("pooled_norm", "none")};
  int n;
  vtb_module *m =
      make(vil(), "vil_tiny", &(vtb_instantiate_options){.overrides = plain, .n_overrides = 1});
  CHECK(m && parameters(m, &n) == 6390760);
  if (m) vtb_module_free(m);
  m = make(vil(), "vil_base", &(vtb_instantiate_options){.overrides = features, .n_overrides = 3});
  CHECK(m && parameters(m, &n) == 88359360);
  if (m) vtb_module_free(m);
}

TEST(official_names_shapes_and_initialisers) {
  vtb_module *m = make(vil(), "vil_tiny", NULL);
  CHECK(m);
  if (!m) return;
  vtb_type t;
  const vtb_arg_info *a =
      argument(m, "blocks.11.rowwise_from_bot_right.layer.mlstm_cell.igate.weight", &t);
  CHECK(a && t.rank == 2 && t.dim[0].size == 4 && t.dim[1].size == 6 * 192 && a->decay == 1);
  if (a) CHECK_STR(a->init, "zeros");
  a = argument(m, "blocks.0.rowwise_from_top_left.layer.mlstm_cell.fgate.bias", &t);
  CHECK(a && t.dim[0].size == 4 && a->decay == 0);
  if (a) CHECK_STR(a->init, "linspace(3, 6)");
  a = argument(m, "blocks.0.rowwise_from_top_left.layer.conv.weight", &t);
  CHECK(a && t.rank == 4 && t.dim[0].size == 384 && t.dim[1].size == 1 && t.dim[3].size == 3);
  if (a) CHECK_STR(a->init, "uniform_fan_in(9)");
  a = argument(m, "pos_embed.embed", &t);
  CHECK(a && t.rank == 4 && t.dim[1].size == 14 && a->decay == 0);
  CHECK(argument(m, "patch_embed.proj.weight", &t) && t.rank == 4 && t.dim[2].size == 16);
  CHECK(argument(m, "legacy_norm.bias", &t) && t.dim[0].size == 384);
  CHECK(argument(m, "head.weight", &t) && t.dim[0].size == 1000 && t.dim[1].size == 384);
  a = argument(m, "x", &t);
  CHECK(a && a->role == VTB_ROLE_INPUT && t.rank == 4 && t.dim[0].size == VTB_DYN &&
        t.dim[3].size == 224);
  CHECK(m->entry->n_returns == 1);
  CHECK_STR(m->entry->return_names[0], "y");
  vtb_module_free(m);
}

/* Two directions are two functions and one step, however deep the model. */
TEST(blocks_are_shared_functions) {
  for (int depth = 2; depth <= 24; depth += 11) {
    char text[8];
    snprintf(text, sizeof text, "%d", depth);
    vtb_override o[] = {SET("depth", text)};
    vtb_module *m =
        make(vil(), "vil_tiny", &(vtb_instantiate_options){.overrides = o, .n_overrides = 1});
    CHECK(m && functions(m) == 4);
    CHECK(m && count_op(m, VTB_OP_call) == depth);
    if (m) vtb_module_free(m);
  }
}

/* Named after nothing of the user's: "v12", or an op alone, "add.3". */
static bool unnamed(const vtb_value *v) {
  char stem[128];
  snprintf(stem, sizeof stem, "%.*s", (int)strcspn(v->name, "."), v->name);
  vtb_op op;
  bool numbered =
      v->name[0] == 'v' && v->name[1] && !v->name[1 + strspn(v->name + 1, "0123456789")];
  bool suffixed =
      !v->name[strcspn(v->name, ".") + strspn(v->name + strcspn(v->name, "."), ".0123456789")];
  return numbered || (suffixed && (vtb_op_find(stem, &op) || strcmp(stem, "const") == 0));
}

TEST(values_have_names_of_the_text) {
  static const char *const presets[][2] = {{"vil.vtb", "vil_nano"},
                                           {"vim.vtb", "vim_nano"},
                                           {"vir.vtb", "vir_nano"},
                                           {"vit.vtb", "deit_nano"},
                                           {"vllama.vtb", "vllama_nano"}};
  for (size_t p = 0; p < sizeof presets / sizeof *presets; p++) {
    char path[512];
    snprintf(path, sizeof path, MODELS "/%s", presets[p][0]);
    vtb_unit *u = vtb_unit_load(path, search(), &diags);
    vtb_module *m = make(u, presets[p][1], NULL);
    int n = 0, bad = 0;
    for (vtb_func *f = m ? m->first : NULL; f; f = f->next)
      for (vtb_inst *i = f->first; i; i = i->next, n++)
        bad += i->n_results && unnamed(i->results[0]);
    CHECK_MSG(n > 20 && bad * 20 < n, "%s: %d of %d instructions are unnamed", presets[p][1], bad,
              n);
    if (m) vtb_module_free(m);
    vtb_unit_free(u);
  }
}

/* The line of `m` that defines `name`, without type and place. */
static void check_line(const vtb_module *m, const char *line) {
  vtb_strbuf text = {0};
  vtb_module_print(m, NULL, &text);
  CHECK_MSG(strstr(text.at, line) != NULL, "no line '%s'", line);
  vtb_strbuf_free(&text);
}

TEST(statements_and_scopes_name_their_values) {
  vtb_module *m = make(vil(), "vil_nano", NULL);
  if (!m) return;
  check_line(m, "%qkv = concat %q, %k, %v {");
  check_line(m, "%h, %C, %n, %m = recurrence @mlstm(");
  check_line(m, "%up = add %proj_up.y, %layer.proj_up.bias :");
  check_line(m, "%x.3 = call @vil_block(%x.2, %x.2, "); /* before = x renames nothing */
  check_line(m, "{value = 1e-5}");
  check_line(m, "%proj_up.y = einsum %normed, %layer.proj_up.weight {spec = \"bnc,ec->bne\"}");
  vtb_module_free(m);
}

TEST(paths_print_with_their_grid) {
  vtb_override o[] = {SET("directions", "[rows~, cols, snake.hflip]"), SET("image", "32x48")};
  vtb_module *m =
      make(vil(), "vil_tiny", &(vtb_instantiate_options){.overrides = o, .n_overrides = 2});
  CHECK(m && has_path(m, "rows~@2x3") && has_path(m, "cols@2x3") && has_path(m, "snake.hflip@2x3"));
  if (m) vtb_module_free(m);
  vtb_override cls[] = {SET("cls_tokens", "1"), SET("pooling", "cls_concat"), SET("version", "1"),
                        SET("image", "48x48")};
  m = make(vil(), "vil_tiny", &(vtb_instantiate_options){.overrides = cls, .n_overrides = 4});
  CHECK(m && has_path(m, "rows~@3x3+mid=1,at=5"));
  if (m) vtb_module_free(m);
}

TEST(taps_do_not_cost_when_off) {
  vtb_module *m = make(vil(), "vil_nano", NULL);
  CHECK(m && count_op(m, VTB_OP_tap) == 0);
  if (m) vtb_module_free(m);
  m = make(vil(), "vil_nano", &(vtb_instantiate_options){.taps = true});
  CHECK(m && count_op(m, VTB_OP_tap) > 60);
  if (m) vtb_module_free(m);
}

TEST(stochastic_depth_draws_in_training_only) {
  vtb_override o[] = {SET("drop_path", "0.2")};
  vtb_instantiate_options eval = {.overrides = o, .n_overrides = 1},
                          train = {.overrides = o, .n_overrides = 1, .training = true};
  vtb_module *m = make(vil(), "vil_nano", &eval);
  CHECK(m && count_op(m, VTB_OP_random) == 0 && !argument(m, "seed", NULL));
  if (m) vtb_module_free(m);
  m = make(vil(), "vil_nano", &train);
  CHECK(m && count_op(m, VTB_OP_random) == 6 && argument(m, "seed", NULL) && functions(m) == 4);
  if (m) vtb_module_free(m);
}

/* Layer-wise decay: the first block of DeiT keeps all samples, DeiT-III's drop alike; dropout draws
 * for each element. */
TEST(vision_transformers_drop_in_training_only) {
  vtb_override depth[] = {SET("drop_path", "0.2")}, elements[] = {SET("dropout", "0.1")};
  vtb_unit *u = vtb_unit_load(MODELS "/vit.vtb", search(), &diags);
  vtb_instantiate_options o = {.overrides = depth, .n_overrides = 1, .training = true};
  vtb_module *m = make(u, "deit_nano", &o);
  CHECK(m && count_op(m, VTB_OP_random) == 2 * 3);
  if (m) vtb_module_free(m);
  o.overrides = elements;
  m = make(u, "deit_nano", &o);
  CHECK(m && count_op(m, VTB_OP_random) == 1 + 3 && functions(m) == 2);
  if (m) vtb_module_free(m);
  o.training = false;
  m = make(u, "deit_nano", &o);
  CHECK(m && count_op(m, VTB_OP_random) == 0 && !argument(m, "seed", NULL));
  if (m) vtb_module_free(m);
  vtb_unit_free(u);
}

/* A setting that is optional passes entries by that do not know it. */
TEST(optional_settings) {
  vtb_override known[] = {{.name = "table_image", .value = "14x14", .optional = true}},
               unknown[] = {{.name = "no_such", .value = "1", .optional = true}};
  vtb_instantiate_options o = {.overrides = known, .n_overrides = 1};
  vtb_module *m = make(vil(), "vil_nano", &o);
  vtb_type table;
  CHECK(m && argument(m, "pos_embed.embed", &table) && table.dim[1].size == 3 &&
        table.dim[2].size == 3);
  if (m) vtb_module_free(m);
  o.overrides = unknown;
  m = make(vil(), "vil_nano", &o);
  CHECK(m != NULL);
  if (m) vtb_module_free(m);
}

TEST(mode_can_be_overridden) {
  vtb_module *m =
      make(vil(), "vil_nano", &(vtb_instantiate_options){.mode = "chunkwise", .chunk = 16});
  int seen = 0;
  for (const vtb_func *f = m ? m->first : NULL; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      seen += i->op == VTB_OP_recurrence && strcmp(vtb_attr_str(i, "mode", ""), "chunkwise") == 0 &&
              vtb_attr_int(i, "chunk", 0) == 16;
  CHECK(seen == 2);
  if (m) vtb_module_free(m);
}

/* ---- entries and configs --------------------------------------------------------------------- */

static vtb_type shape(int rank, const int64_t *sizes) {
  return vtb_type_make(VTB_F32, rank, sizes);
}
#define SHAPE(...)                                                                                 \
  shape(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

TEST(recurrence_as_entry) {
  vtb_shape_binding in[] = {{"q", SHAPE(2, 3, 11, 8)}, {"k", SHAPE(2, 3, 11, 8)},
                            {"v", SHAPE(2, 3, 11, 5)}, {"i", SHAPE(2, 3, 11)},
                            {"f", SHAPE(2, 3, 11)},    {"C0", SHAPE(2, 3, 8, 5)},
                            {"n0", SHAPE(2, 3, 8)},    {"m0", SHAPE(2, 3, 1)}};
  vtb_override o[] = {FIELD("form", "\"chunkwise\""), FIELD("chunk_size", "4"),
                      FIELD("num_heads", "3"),        FIELD("seq_len", "11"),
                      FACT("head_dim", "8", "K"),     FIELD("initial_state", "true")};
  vtb_instantiate_options opt = {.inputs = in, .n_inputs = 8, .overrides = o, .n_overrides = 6};
  vtb_module *m = make(vil(), "mlstm", &opt);
  if (!m) show();
  CHECK(m);
  if (!m) return;
  static const char *const names[] = {"y", "C_last", "n_last", "m_last"};
  CHECK(m->entry->n_returns == 4);
  for (int i = 0; i < 4 && i < m->entry->n_returns; i++)
    CHECK_STR(m->entry->return_names[i], names[i]);
  vtb_type want = SHAPE(2, 3, 11, 5), last = SHAPE(2, 3, 1);
  CHECK(vtb_type_equal(&m->entry->returns[0]->type, &want) &&
        vtb_type_equal(&m->entry->returns[3]->type, &last));
  vtb_module_free(m);
  o[2].value = "4";
  CHECK(!make(vil(), "mlstm", &opt) && has_code(1504) && said("num_heads"));
}

TEST(block_and_function_as_entries) {
  vtb_shape_binding in[] = {{"x", SHAPE(3, 12, 16)}, {"keep", SHAPE(3)}};
  vtb_override o[] = {FIELD("grid_height", "3"), FIELD("grid_width", "4"),
                      FIELD("direction", "\"row_br\""), FACT("width", "16", "x.dim"),
                      FIELD("conv_bias", "true")};
  vtb_module *m = make(
      vil(), "vil_block",
      &(vtb_instantiate_options){.inputs = in, .n_inputs = 2, .overrides = o, .n_overrides = 5});
  if (!m) show();
  CHECK(m && has_path(m, "rows~@3x4") && argument(m, "layer.proj_up.weight", NULL));
  if (m) vtb_module_free(m);
  o[0].value =
      "5"; /* a grid is a setting of tokens, of blocks that have no such hyperparameter too */
  m = make(
      vil(), "vil_block",
      &(vtb_instantiate_options){.inputs = in, .n_inputs = 2, .overrides = o, .n_overrides = 5});
  CHECK(!m && said("not the tokens of a grid 5x4"));
  vtb_shape_binding embed[] = {{"embed", SHAPE(1, 4, 4, 6)}};
  vtb_override size[] = {FIELD("out_height", "7"), FIELD("out_width", "5"),
                         FIELD("mode", "\"bicubic\"")};
  m = make(vil(), "resize_pos_embed",
           &(vtb_instantiate_options){
               .inputs = embed, .n_inputs = 1, .overrides = size, .n_overrides = 3});
  vtb_type want = SHAPE(1, 7, 5, 6);
  CHECK(m && m->entry->n_returns == 1 && vtb_type_equal(&m->entry->returns[0]->type, &want));
  if (m) vtb_module_free(m);
}

TEST(config_must_mean_something) {
  vtb_override good[] = {
      FIELD("num_blocks", "2"),     FIELD("grid_height", "14"),
      FIELD("inner_dim", "384"),    FIELD("directions", "[\"row_tl\", \"col_br\"]"),
      FIELD("conv_kind", "\"2d\""), FACT("width", "193", "dim + 1")};
  vtb_module *m =
      make(vil(), "vil", &(vtb_instantiate_options){.overrides = good, .n_overrides = 6});
  if (!m) show();
  CHECK(m && has_path(m, "cols~@14x14"));
  if (m) vtb_module_free(m);
  static const struct {
    vtb_override o;
    int code;
    const char *text;
  } bad[] = {{FIELD("nun_blocks", "2"), 1503, "num_blocks"},
             {FIELD("grid_height", "13"), 1504, "grid_height"},
             {FIELD("conv_kind", "\"3d\""), 1207, "3d"},
             {SET("dmi", "3"), 1501, "dim"},
             {SET("dim", "wide"), 1101, "wide"},
             {SET("dim", "0.5"), 1201, "dim"},
             {FIELD("directions", "[\"row_tr\", \"row_xx\"]"), 1214, "row_xx"},
             {SET("inner_dim", "384"), 1501, "inner_dim"},
             {FACT("width", "384", "dim + 1"), 1504, "width"},
             {FACT("width", "193", "dmi + 1"), 1101, "dmi"},
             {FACT("width", "193", "dim +"), 1020, "expected an expression"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK(
        !make(vil(), "vil", &(vtb_instantiate_options){.overrides = &bad[i].o, .n_overrides = 1}));
    CHECK_MSG(has_code(bad[i].code) && said(bad[i].text), "%s = %s", bad[i].o.name, bad[i].o.value);
  }
}

/* ---- a user's variant ------------------------------------------------------------------------ */

static const char variant[] =
    "use std.nn\n"
    "const three = [snake, rows~, cols.vflip]\n"
    "recurrence gated(q: [K], k: [K], v: [V], i: [], f: []) -> [V] {\n"
    "  state C: [K, V], n: [K]\n"
    "  C = sigmoid(f) * C + sigmoid(i) * outer(k, v)\n"
    "  n = sigmoid(f) * n + sigmoid(i) * k\n"
    "  yield dot(q, C) / max(abs(dot(q, n)), 1)\n"
    "}\n"
    "block mixer(x: tokens, path: path, heads: int) {\n"
    "  return along(path) {\n"
    "    a = silu(depthwise(\"conv1\", x, conv2d, 3))\n"
    "    a = silu(depthwise(\"conv2\", a, causal1d, 4))\n"
    "    q, k = split(linear(\"qk\", a, 2 * x.dim), 2)\n"
    "    i, f = split(linear(\"gates\", a, 2 * heads), 2)\n"
    "    y = gated(group(q, heads), group(k, heads), group(x, heads), i, f)\n"
    "    linear(\"out\", ungroup(y), x.dim)\n"
    "  }\n"
    "}\n"
    "model snakes(dim: int = 32, depth: int = 6, paths: [path] = three) {\n"
    "  input image: image[3, 32, 48]\n"
    "  x = patch_embed(\"stem\", image, dim, 8x8, 8x8)\n"
    "  repeat depth as i scope \"blocks.{i}\" { x += mixer(layer_norm(\"norm\", x), paths[i % "
    "len(paths)], 4) }\n"
    "  output logits = linear(\"head\", mean(x, axis = \"tokens\"), 10)\n"
    "}\n";

static vtb_module *text_model(const char *text, vtb_unit **unit) {
  clear();
  *unit = vtb_unit_load_text("user.vtb", text, strlen(text), search(), &diags);
  if (!*unit) return NULL;
  vtb_module *m = vtb_instantiate(*unit, NULL, NULL, &diags);
  vtb_error err = {0};
  if (m) CHECK_MSG(vtb_module_verify(m, &err), "%s", err.text);
  return m;
}

TEST(users_variant) {
  vtb_unit *u;
  vtb_module *m = text_model(variant, &u);
  if (!m) show();
  CHECK(m && functions(m) == 1 + 3 + 1 && count_op(m, VTB_OP_recurrence) == 3);
  CHECK(m && has_path(m, "snake@4x6") && has_path(m, "cols.vflip@4x6"));
  CHECK(m && argument(m, "blocks.5.conv2.weight", NULL));
  if (m) vtb_module_free(m);
  vtb_unit_free(u);
}

/* Builtins of numbers, by the column `language` of their rows. */
TEST(rows_of_numbers) {
  vtb_unit *u;
  vtb_module *m =
      text_model("model m(n: int = 7) {\n  input x: tokens[2x2, 4]\n"
                 "  output y = matmul(x, param \"a\": [abs(-3), floor(4.9)] ~ zeros)\n"
                 "  output z = matmul(x, param \"b\": [max(5, 2.5), pow(2, 2)] ~ zeros)\n"
                 "  output w = x * gelu(2) + x * floor(n / 2) + x * square(3)\n}\n",
                 &u);
  vtb_strbuf text = {0};
  if (m) vtb_module_print(m, &(vtb_print_options){0}, &text);
  CHECK(m && strstr(text.at, "%a: f32[3, 4]") && strstr(text.at, "%b: f32[5, 4]"));
  CHECK(m && strstr(text.at, "value = 1.9544997361036416}") && strstr(text.at, "value = 3}") &&
        strstr(text.at, "value = 9}"));
  vtb_strbuf_free(&text);
  vtb_module_free(m);
  vtb_unit_free(u);
}

TEST(directions_with_suffixes) {
  static const char text[] =
      "use std.nn\nmodel m() {\n  input x: tokens[2x3, 8]\n"
      "  f, b = along each [rows, rows~] suffix [\"\", \"_b\"] as d {\n"
      "    depthwise(\"conv1d\", x, causal1d, 4) * (param \"A{suffix}_log\": [8] ~ zeros)\n  }\n"
      "  output y = f + b\n}\n";
  vtb_unit *u;
  vtb_module *m = text_model(text, &u);
  if (!m) show();
  CHECK(m && argument(m, "conv1d.weight", NULL) && argument(m, "conv1d_b.weight", NULL) &&
        argument(m, "A_log", NULL) && argument(m, "A_b_log", NULL));
  if (m) vtb_module_free(m);
  vtb_unit_free(u);
}

/* Axes of a step meet by name: [E] * [E, N] needs no reshape in the source. */
TEST(steps_broadcast_by_axis_name) {
  static const char text[] =
      "recurrence scan(u: [E], delta: [E], A: [E, N], B: [N], C: [N]) -> [E] {\n"
      "  state h: [E, N]\n  h = exp(delta * A) * h + (delta * u) * B\n  yield dot(h, C)\n}\n"
      "model m() {\n  input u: tokens[3x3, 6]\n  input B: tokens[3x3, 4]\n"
      "  A = param A: [6, 4] ~ s4d_real\n  output y = scan(u, sigmoid(u), -exp(A), B, B)\n}\n";
  vtb_unit *u;
  vtb_module *m = text_model(text, &u);
  if (!m) show();
  vtb_type want = {.rank = 3, .dim = {{VTB_DYN, NULL}, {9, NULL}, {6, NULL}}};
  CHECK(m && vtb_type_equal(&m->entry->returns[0]->type, &want));
  if (m) vtb_module_free(m);
  vtb_unit_free(u);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void expect_code(int code, const char *in, const char *body) {
  char text[4096];
  snprintf(text, sizeof text,
           "use std.nn\nmodel m() {\n  input image: image[3, 16, 16]\n  x = patches(image, kernel "
           "= 4x4)\n%s\n  output "
           "y = x\n}\n",
           body);
  vtb_unit *u;
  vtb_module *m = text_model(text, &u);
  CHECK_MSG(!m && has_code(code) && (!in || said(in)), "VTB%d from %s", code, body);
  if (!m && !has_code(code)) show();
  if (m) vtb_module_free(m);
  vtb_unit_free(u);
}

TEST(wrong_uses_have_their_codes) {
  expect_code(1101, "did you mean 'image'", "  x = imgae");
  expect_code(1101, "linear", "  x = liner(\"a\", x, 3)");
  expect_code(1301, "N=16, C=48", "  x += param w: [47] ~ zeros");
  expect_code(1303, "C=48", "  x = matmul(x, param w: [8, 47] ~ zeros)");
  expect_code(
      1305, "extra token",
      "  x = insert_tokens(x, param c: [1, 1, 48] ~ zeros)\n  x = depthwise(\"c\", x, conv2d, 3)");
  expect_code(1308, "5 groups", "  x = group(x, 5)");
  expect_code(1313, NULL, "  x = first(image)");
  expect_code(1315, "grid 2x8", "  x += as_tokens(param t: [1, 2, 8, 48] ~ zeros)");
  expect_code(1204, "remainder", "  x *= 7 / 2");
  expect_code(1117, "two params", "  repeat 2 { x = linear(\"same\", x, 48) }");
  expect_code(1204, NULL, "  let n = 7 / 2");
  expect_code(1202, NULL, "  if mean(x) > 0 { x = -x }");
  expect_code(1211, "mine", "  assert 1 > 2, \"mine\"");
  expect_code(1212, NULL, "  a, b = x");
}

TEST(errors_do_not_cascade) {
  vtb_unit *u;
  vtb_module *m = text_model(
      "model m() {\n  input image: image[3, 16, 16]\n  x = patches(image, kernel = 4x4)\n"
      "  y = x + nothing\n  z = exp(y) * 2\n  w = mean(z) + other\n  output y = w + z\n}\n",
      &u);
  CHECK(!m && diags.n_errors == 2 && said("nothing") && said("other"));
  vtb_unit_free(u);
}

/* Lists of tensors are arguments of a block like others: calls with lists of one shape share its
 * function. */
TEST(blocks_take_lists_of_tensors) {
  vtb_unit *u;
  vtb_module *m =
      text_model("block mix(x: tensor, parts: [tensor], scale: int) {\n"
                 "  return scale * x * parts[0] + parts[1]\n}\n"
                 "model m() {\n  input x: tensor[8]\n"
                 "  repeat 2 as i scope \"{i}\" { x = mix(x, [param a: [8] ~ ones, param b: [8] ~ "
                 "zeros], 3) }\n"
                 "  output y = mix(x, [param a: [8] ~ ones, param c: [1] ~ zeros], 3)\n}\n",
                 &u);
  CHECK(m && functions(m) == 3 && count_op(m, VTB_OP_call) == 3);
  for (const vtb_func *f = m ? m->first : NULL; f; f = f->next)
    if (f != m->entry) CHECK(f->n_args == 3);
  if (m) vtb_module_free(m);
  vtb_unit_free(u);
}

/* No text can hang or exhaust memory. */
TEST(limits) {
  static const struct {
    int code;
    const char *text;
  } bad[] = {
      {1114,
       "fn f(x: tensor) { return f(x) }\nmodel m() {\n  input x: image[3]\n  output y = f(x)\n}\n"},
      {1224, "model m() {\n  input x: image[3]\n  n = 0\n  repeat 10000 { repeat 10000 { n = n + 1 "
             "} }\n  output y = x\n}\n"},
      {1224, "model m() {\n  input x: image[3]\n  repeat 10000 { repeat 10000 { x += 1 } }\n  "
             "output y = x\n}\n"},
      {1224, "model m() {\n  input x: image[3]\n  l = [1, 2]\n  repeat 60 { l = l + l }\n  output "
             "y = x\n}\n"},
      {1224, "model m() {\n  input x: image[3]\n  s = \"ab\"\n  repeat 60 { s = \"{s}{s}\" }\n  "
             "output y = x\n}\n"},
      {1115, "const a = b\nconst b = a\nmodel m() {\n  input x: image[3]\n  output y = x * a\n}\n"},
      {1206, "model m() {\n  input x: image[3]\n  n = 2\n  repeat 80 { n = n * n }\n  output y = "
             "x\n}\n"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    vtb_unit *u;
    vtb_module *m = text_model(bad[i].text, &u);
    CHECK_MSG(!m && has_code(bad[i].code), "limit %zu", i);
    vtb_unit_free(u);
  }
}

int main(void) {
  RUN(published_parameter_counts);
  RUN(headless_and_without_second_norm);
  RUN(official_names_shapes_and_initialisers);
  RUN(blocks_are_shared_functions);
  RUN(blocks_take_lists_of_tensors);
  RUN(values_have_names_of_the_text);
  RUN(statements_and_scopes_name_their_values);
  RUN(paths_print_with_their_grid);
  RUN(taps_do_not_cost_when_off);
  RUN(stochastic_depth_draws_in_training_only);
  RUN(vision_transformers_drop_in_training_only);
  RUN(optional_settings);
  RUN(mode_can_be_overridden);
  RUN(recurrence_as_entry);
  RUN(block_and_function_as_entries);
  RUN(config_must_mean_something);
  RUN(users_variant);
  RUN(rows_of_numbers);
  RUN(directions_with_suffixes);
  RUN(steps_broadcast_by_axis_name);
  RUN(wrong_uses_have_their_codes);
  RUN(errors_do_not_cascade);
  RUN(limits);
  vtb_unit_free(vil());
  clear();
  return test_done();
}
