/* Checkpoints of other tools under the names of a model: patterns, rules, what a fit reports. */
#include "runtime/weights/fit.h"
#include "runtime/weights/pattern.h"
#include "tests/runtime/support.h"

static vtb_error fault;

/* What the pattern `to` makes of a name of the pattern `from`; "" if it is not one. */
static const char *renamed(const char *from, const char *name, const char *to) {
  static vtb_strbuf out;
  vtb_taken taken;
  vtb_strbuf_format(&out, "%s", "");
  if (vtb_pattern_match(from, name, &taken) && !vtb_pattern_fill(to, &taken, &out)) return "lack";
  return out.at;
}

TEST(patterns) {
  CHECK_STR(renamed("a.*", "a.b.c", "x.*.y"), "x.b.c.y");
  CHECK_STR(renamed("a.*", "a.", "x.*"), "");
  CHECK_STR(renamed("l.{i}.w", "l.12.w", "b.{i}.w"), "b.12.w");
  CHECK_STR(renamed("l.{i}.w", "l.x.w", "b.{i}.w"), "");
  CHECK_STR(renamed("l.{i}.w", "l.07.w", "b.{i}.w"), "");
  CHECK_STR(renamed("l.{2i}.*", "l.6.w", "b.{i}.*"), "b.3.w");
  CHECK_STR(renamed("l.{2i}.*", "l.7.w", "b.{i}.*"), "");
  CHECK_STR(renamed("l.{2i+1}.*", "l.7.w", "b.{i}.*"), "b.3.w");
  CHECK_STR(renamed("b.{i}.*", "b.3.w", "l.{2i+1}.*"), "l.7.w");
  CHECK_STR(renamed("{i}.{j}.w", "2.5.w", "{j}.{i}.w"), "5.2.w");
  CHECK_STR(renamed("l.{i+1}.w", "l.7.w", "b.{i}.w"), "b.6.w");
  CHECK_STR(renamed("l.{2i+3}.w", "l.7.w", "b.{i}.w"), "b.2.w");
  CHECK_STR(renamed("l.{2i+3}.w", "l.1.w", "b.{i}.w"), "");
  CHECK_STR(renamed("l.{i}.{i}.w", "l.3.3.w", "b.{i}.w"), "b.3.w");
  CHECK_STR(renamed("l.{i}.{i}.w", "l.3.4.w", "b.{i}.w"), "");
  CHECK_STR(renamed("l.{i}.{i}.w", "l.0.3.w", "b.{i}.w"), "");
  CHECK_STR(renamed("l.{i}.*", "l.0.w", "b.{3i+2}.*"), "b.2.w");
  CHECK_STR(renamed("[vit.]e.*", "vit.e.t", "e.*"), "e.t");
  CHECK_STR(renamed("[vit.]e.*", "e.t", "e.*"), "e.t");
  CHECK_STR(renamed("[vit.]e.*", "vix.e.t", "e.*"), "");
  CHECK_STR(renamed("a", "a", "{i}"), "lack");
  CHECK_STR(vtb_pattern_fault("a.**", 4), "two * beside each other");
  CHECK_STR(vtb_pattern_fault("a.{3}", 5), "braces hold a number: {i}, {2i} or {2i+1}");
  CHECK_STR(vtb_pattern_fault("[a", 2), "brackets do not match");
  CHECK_STR(vtb_pattern_fault("[a][a][a][a]b", 13), "");
  CHECK_STR(vtb_pattern_fault("[a][a][a][a][a]b", 16), "a name has at most four brackets");
}

static void refused(const char *text, const char *why) {
  vtb_names n;
  vtb_error e = {0};
  vtb_names_init(&n);
  CHECK_MSG(vtb_names_parse(&n, "r.names", text, &e) == VTB_E_INPUT, "accepted: %s", text);
  CHECK_MSG(strstr(e.text, why) != NULL, "%s, not: %s", e.text, why);
  vtb_names_free(&n);
}

TEST(what_rules_say_wrong) {
  refused("a -> b\n", "r.names:1: a rule before the first names");
  refused("names \"t\"\n\na b\n", "r.names:3: expected +, -> or :");
  refused("names \"t\"\na -> b.*\n", "the names of a rule need the same *, {i} and {j}");
  refused("names \"t\"\na.* + b.* -> c.* + d.*\n", "joins several tensors or splits one");
  refused("names \"t\"\na -> b : transpose 0 0\n", "transpose takes every axis once");
  refused("names \"t\"\na -> b : upside down\n", "a layout is transpose or reshape");
  refused("names \"t\"\na -> [x.]b\n", "brackets are for names of the file");
  refused("names t\n", "expected names \"whose\"");
  refused("names \"t\"\na ->\n", "a name is missing");
}

static const char rules[] = "names \"other\"\n"
                            "  q.* +\n  k.* -> qk.*\n"
                            "  both.w -> one.w + two.w\n"
                            "  kernel -> weight : transpose 1 0\n"
                            "ignore *.count\n";

static void put(vtb_weights *w, const char *name, int rank, int64_t a, int64_t b, float first) {
  vtb_weight *t = vtb_weights_add(w, name, VTB_ELEM_F32, rank, (int64_t[]){a, b});
  for (int64_t i = 0; i < t->count; i++) ((float *)t->data)[i] = first + (float)i;
}

static vtb_tensor_info want(const char *name, int rank, int64_t a, int64_t b) {
  return (vtb_tensor_info){.name = name, .io = VTB_IO_PARAM, .rank = rank, .dim = {a, b}};
}

TEST(joined_split_and_transposed) {
  vtb_names n;
  vtb_weights *w = vtb_weights_new();
  vtb_fit_report r;
  float qk[6] = {0}, one[2] = {0}, two[2] = {0}, weight[6] = {0};
  vtb_tensor_info t[] = {want("qk.w", 2, 3, 2), want("one.w", 1, 2, 0), want("two.w", 1, 2, 0),
                         want("weight", 2, 3, 2)};
  void *buffers[] = {qk, one, two, weight};
  vtb_names_init(&n);
  CHECK_OK(vtb_names_parse(&n, "r.names", rules, err));
  put(w, "k.w", 2, 2, 2, 10);
  put(w, "q.w", 2, 1, 2, 0);
  put(w, "both.w", 1, 4, 0, 20);
  put(w, "kernel", 2, 2, 3, 0);
  put(w, "norm.count", 1, 1, 0, 0);
  vtb_fit_options o = {.path = "f", .names = &n};
  CHECK_OK(vtb_fit(t, 4, w, &o, buffers, &r, err));
  CHECK(r.n_loaded == 4 && r.n_wanted == 4 && r.ignored.n == 1 && r.unused.n == 0);
  CHECK_STR(r.names, "other");
  CHECK(memcmp(qk, (float[]){0, 1, 10, 11, 12, 13}, sizeof qk) == 0);
  CHECK(one[0] == 20 && one[1] == 21 && two[0] == 22 && two[1] == 23);
  CHECK(memcmp(weight, (float[]){0, 3, 1, 4, 2, 5}, sizeof weight) == 0);
  vtb_fit_report_free(&r);

  put(w, "qk.w", 2, 4, 2, 30); /* what is there under its own name, too, is not taken twice */
  CHECK(vtb_fit(t, 4, w, &o, buffers, &r, &fault) == VTB_E_INPUT);
  CHECK_MSG(strstr(fault.text, "qk.w") != NULL, "%s", fault.text);
  vtb_fit_report_free(&r);
  vtb_weights_free(w);
  w = vtb_weights_new();
  fault = (vtb_error){0};
  put(w, "k.w", 2, 2, 2, 10);
  put(w, "q.w", 2, 1, 2, 0);
  put(w, "both.w", 1, 5, 0, 20); /* no two halves */
  put(w, "kernel", 2, 2, 3, 0);
  CHECK(vtb_fit(t, 4, w, &o, buffers, &r, &fault) == VTB_E_INPUT);
  CHECK_MSG(strstr(fault.text, "one.w") != NULL, "%s", fault.text);
  vtb_fit_report_free(&r);
  vtb_weights_free(w);
  w = vtb_weights_new();
  fault = (vtb_error){0};
  put(w, "k.w", 2, 2, 3, 10); /* rows of another width */
  put(w, "q.w", 2, 1, 2, 0);
  put(w, "both.w", 1, 4, 0, 20);
  put(w, "kernel", 2, 2, 3, 0);
  CHECK(vtb_fit(t, 4, w, &o, buffers, &r, &fault) == VTB_E_INPUT);
  CHECK_MSG(strstr(fault.text, "qk.w") != NULL, "%s", fault.text);
  vtb_fit_report_free(&r);
  vtb_weights_free(w);
  w = vtb_weights_new();
  fault = (vtb_error){0};
  put(w, "k.w", 2, 2, 2, 10);
  put(w, "q.w", 2, 1, 2, 0);
  put(w, "both.w", 1, 4, 0, 20);
  put(w, "kernel", 2, 2, 3, 0);

  put(w, "more.w", 1, 1, 0, 0);
  CHECK(vtb_fit(t, 4, w, &o, buffers, &r, &fault) == VTB_E_INPUT && r.unused.n == 1);
  CHECK(strstr(fault.text, "1 that the model does not have: more.w") != NULL);
  vtb_fit_report_free(&r);
  vtb_weights_free(w);
  vtb_names_free(&n);
  fault = (vtb_error){0};
}

/* Every checkpoint of PyTorch's has the counters of its batch norms: they are no parameters of a
 * model that does not count, without rules too, and the buffer of one that does. */
TEST(counters_of_batch_norms) {
  vtb_weights *w = vtb_weights_new();
  vtb_fit_report r;
  float a[2] = {0}, seen[1] = {0};
  vtb_tensor_info t[] = {want("bn.weight", 1, 2, 0), want("bn.num_batches_tracked", 1, 1, 0)};
  void *buffers[] = {a, seen};
  put(w, "bn.weight", 1, 2, 0, 3);
  put(w, "bn.num_batches_tracked", 0, 1, 0, 7);
  vtb_fit_options o = {.path = "f"};
  CHECK_OK(vtb_fit(t, 1, w, &o, buffers, &r, err));
  CHECK(a[1] == 4 && r.ignored.n == 1 && r.unused.n == 0);
  vtb_fit_report_free(&r);
  CHECK_OK(vtb_fit(t, 2, w, &o, buffers, &r, err));
  CHECK(seen[0] == 7 && r.ignored.n == 0);
  vtb_fit_report_free(&r);
  vtb_weights_free(w);
}

/* A misfit offers what lets it pass, and nothing else. */
static void check_offer(const char *in_file, const char *more, bool missing, bool unused) {
  vtb_weights *w = vtb_weights_new();
  vtb_fit_report r;
  float a[2], b[2];
  vtb_tensor_info t[] = {want("a", 1, 2, 0), want("b", 1, 2, 0)};
  void *buffers[] = {a, b};
  put(w, "a", 1, 2, 0, 0);
  put(w, in_file, 1, 2, 0, 0);
  if (more) put(w, more, 1, 2, 0, 0);
  vtb_fit_options o = {.path = "f"};
  CHECK(vtb_fit(t, 2, w, &o, buffers, &r, &fault) == VTB_E_INPUT);
  CHECK_MSG((strstr(fault.text, "--allow-missing") != NULL) == missing, "%s", fault.text);
  CHECK_MSG((strstr(fault.text, "--allow-unused") != NULL) == unused, "%s", fault.text);
  fault = (vtb_error){0};
  vtb_fit_report_free(&r);
  vtb_weights_free(w);
}

TEST(a_misfit_offers_what_helps) {
  check_offer("b", "c", false, true);
  check_offer("a.num_batches_tracked", NULL, true, false);
  check_offer("c", NULL, true, true);
}

TEST(a_part_of_a_file_and_another_head) {
  vtb_weights *w = vtb_weights_new();
  vtb_fit_report r;
  float a[4], b[4], head[6] = {7, 7, 7, 7, 7, 7};
  vtb_tensor_info t[] = {want("a", 1, 4, 0), want("b", 1, 4, 0), want("head", 2, 3, 2)};
  void *buffers[] = {a, b, head};
  put(w, "backbone.a", 1, 4, 0, 0);
  put(w, "backbone.b", 1, 4, 0, 4);
  put(w, "backbone.head", 2, 1000, 2, 0);
  put(w, "neck.c", 1, 1, 0, 0);
  vtb_fit_options o = {.path = "f", .classes = 3, .allow_unused = true};
  CHECK(vtb_fit(t, 3, w, &o, buffers, &r, &fault) == VTB_E_INPUT && r.file_classes == 1000);
  vtb_fit_report_free(&r);
  fault = (vtb_error){0};
  o.new_head = true;
  CHECK_OK(vtb_fit(t, 3, w, &o, buffers, &r, err));
  CHECK(r.n_loaded == 2 && r.new_head.n == 1 && r.unused.n == 1 && head[0] == 7 && b[3] == 7);
  CHECK_STR(r.prefix, "backbone.");
  vtb_strbuf s = VTB_CHECKED_STRBUF;
  vtb_fit_summary(&r, &s);
  CHECK_STR(s.at, "2 of 3 tensors, those under \"backbone.\"; new: head; not used: neck.c");
  vtb_strbuf_free(&s);
  vtb_fit_report_free(&r);
  vtb_weights_free(w);
}

/* Every file beside the models is read, and means what it says. */
static void check_renamed(const char *family, const char *set, const char *name, const char *as) {
  char path[512];
  vtb_names n;
  vtb_renaming r;
  vtb_weights *w = vtb_weights_new();
  size_t k = 0;
  snprintf(path, sizeof path, "%s/models/%s.names", VTB_SOURCE_DIR, family);
  vtb_names_init(&n);
  CHECK_OK(vtb_names_read(&n, path, err));
  while (k < n.sets.n && !strstr(vtb_names_label(&n, k), set)) k++;
  put(w, name, 1, 4, 0, 0);
  CHECK_OK(vtb_rename(&n, k, "", w, &r, err));
  CHECK_MSG(vtb_renaming_find(&r, as) != NULL, "%s is not %s", name, as);
  vtb_renaming_free(&r);
  vtb_weights_free(w);
  vtb_names_free(&n);
}

TEST(rules_of_the_families) {
  check_renamed("vit", "timm", "blocks.3.ls1.gamma", "blocks.3.gamma_1");
  check_renamed("vit", "Hugging", "vit.encoder.layer.3.output.dense.bias", "blocks.3.mlp.fc2.bias");
  check_renamed("vit", "Hugging", "vit.layers.3.mlp.fc2.bias", "blocks.3.mlp.fc2.bias");
  check_renamed("vit", "Hugging", "deit.embeddings.distillation_token", "dist_token");
  check_renamed("vit", "torchvision",
                "encoder.layers.encoder_layer_11.self_attention.in_proj_weight",
                "blocks.11.attn.qkv.weight");
  check_renamed("vit", "MMPreTrain", "backbone.layers.0.ffn.layers.1.weight",
                "blocks.0.mlp.fc2.weight");
  check_renamed("vil", "version 2", "xlstm.blocks.3.xlstm.conv1d.weight",
                "blocks.1.rowwise_from_bot_right.layer.conv.weight");
  check_renamed("vil", "version 1", "xlstm.blocks.3.xlstm_norm.weight", "blocks.3.norm.weight");
  check_renamed("vil", "version 2", "head.0.weight", "legacy_norm.weight");
  check_renamed("vil", "version 1", "head.0.weight", "norm.weight");
  check_renamed("vil", "single blocks", "blocks.4.layer.conv.bias",
                "blocks.2.rowwise_from_top_left.layer.conv.bias");
  check_renamed("vir", "timm", "blocks.3.attn.qkv.weight", "blocks.3.retention.qkv.weight");
  check_renamed("vir", "timm", "blocks.3.attn.proj.bias", "blocks.3.retention.out_proj.bias");
  check_renamed("vllama", "MMPreTrain", "layers.2.ffn.w12.bias", "blocks.2.mlp.c_fc2.bias");
}

/* What a family's file says of names that are no parameters, and of those that need no rule. */
TEST(names_that_are_no_parameters) {
  vtb_names n;
  vtb_fit_report r;
  float weight[4];
  vtb_tensor_info t[] = {want("layers.0.mixer.A_b_log", 1, 4, 0)};
  void *buffers[] = {weight};
  vtb_weights *w = vtb_weights_new();
  vtb_names_init(&n);
  CHECK_OK(vtb_names_read(&n, VTB_SOURCE_DIR "/models/vim.names", err));
  put(w, "layers.0.mixer.A_b_log", 1, 4, 0, 0);
  put(w, "rope.freqs_cos", 1, 4, 0, 0);
  put(w, "backbone.rope.freqs_sin", 1, 4, 0, 0);
  vtb_fit_options o = {.path = "f", .names = &n};
  CHECK_OK(vtb_fit(t, 1, w, &o, buffers, &r, err));
  CHECK(r.n_loaded == 1 && r.ignored.n == 2 && r.unused.n == 0 && !r.names);
  vtb_fit_report_free(&r);
  vtb_weights_free(w);
  vtb_names_free(&n);
}

/* A grid of one number stays so; of a slope, the middle does. */
TEST(tables) {
  float in[9], out[25];
  for (int i = 0; i < 9; i++) in[i] = 3;
  vtb_resize_table(in, (vtb_table_grid){3, 3}, out, (vtb_table_grid){5, 5}, 1);
  for (int i = 0; i < 25; i++) CHECK_NEAR(out[i], 3, 1e-6);
  for (int i = 0; i < 9; i++) in[i] = (float)(i % 3);
  vtb_resize_table(in, (vtb_table_grid){3, 3}, out, (vtb_table_grid){5, 5}, 1);
  CHECK_NEAR(out[12], 1, 1e-6);
  CHECK(out[10] < out[11] && out[13] < out[14]);
}

/* Rows of class tokens stand before the grid: they stay, and nothing of them is in the cells. */
TEST(tables_with_tokens_before_the_grid) {
  enum { EXTRA = 2, FROM = 9, TO = 25, C = 3 };
  float table[(EXTRA + TO) * C], grid[FROM * C], cells[TO * C];
  vtb_weights *w = vtb_weights_new();
  vtb_tensor_info t[] = {{"pos", VTB_IO_PARAM, false, 3, {1, EXTRA + TO, C}, NULL, false}};
  void *buffers[] = {table};
  vtb_fit_report r;
  vtb_weight *a = vtb_weights_add(w, "pos", VTB_ELEM_F32, 3, (int64_t[]){1, EXTRA + FROM, C});
  for (int i = 0; i < (EXTRA + FROM) * C; i++)
    ((float *)a->data)[i] = (float)(i < EXTRA * C ? 1000 + i : i % 7);
  memcpy(grid, (float *)a->data + (size_t)EXTRA * C, sizeof grid);
  vtb_resize_table(grid, (vtb_table_grid){3, 3}, cells, (vtb_table_grid){5, 5}, C);
  vtb_fit_options o = {.path = "f", .height = 40, .width = 40};
  CHECK_OK(vtb_fit(t, 1, w, &o, buffers, &r, err));
  CHECK(r.n_loaded == 1);
  for (int i = 0; i < EXTRA * C; i++) CHECK(table[i] == (float)(1000 + i));
  for (int i = 0; i < TO * C; i++) CHECK(table[EXTRA * C + i] == cells[i]);
  vtb_fit_report_free(&r);
  vtb_weights_free(w);
}

int main(void) {
  RUN(patterns);
  RUN(what_rules_say_wrong);
  RUN(joined_split_and_transposed);
  RUN(counters_of_batch_norms);
  RUN(a_misfit_offers_what_helps);
  RUN(a_part_of_a_file_and_another_head);
  RUN(rules_of_the_families);
  RUN(names_that_are_no_parameters);
  RUN(tables);
  RUN(tables_with_tokens_before_the_grid);
  return test_done();
}
