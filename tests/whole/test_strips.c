/* Strip by strip a model computes what it computes of the whole image, whatever is handed on; and
 * what reads tokens that come later is refused where it stands. */
#include "frontend/lang/lang.h"
#include "ir/fold.h"
#include "ir/ops.h"
#include "passes/strips/run.h"
#include "tests/passes/pass_check.h"

static vtb_module *instantiate(const char *text) {
  static const char *const dirs[] = {VTB_SOURCE_DIR "/models"};
  static const vtb_search s = {.dirs = dirs, .n_dirs = 1};
  vtb_diags diags = {0};
  vtb_unit *u = vtb_unit_load_text("strips.vtb", text, strlen(text), &s, &diags);
  vtb_module *m = u ? vtb_instantiate(u, NULL, &(vtb_instantiate_options){0}, &diags) : NULL;
  if (diags.list.n) vtb_diags_print(&diags, stderr);
  CHECK_MSG(m != NULL, "%s", text);
  if (!m) exit(1);
  vtb_diags_free(&diags);
  return m; /* its spans point into the unit */
}

/* The graph, and strips of it; what is wrong stays in `d`. */
static vtb_status lower(vtb_module *m, vtb_strips *strips, vtb_diags *d) {
  vtb_error err = {0};
  vtb_pass_context c = {.module = m, .diags = d};
  vtb_pipeline_options graph = {.verify_each = true};
  vtb_pipeline_options clean = {.pipeline = "simplify,cse,dce", .verify_each = true};
  vtb_status status = vtb_run_pipeline(&c, &graph, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status != VTB_OK || !strips) return status;
  status = vtb_make_strips(m, strips, d, &err);
  return status == VTB_OK ? vtb_run_pipeline(&c, &clean, &err) : status;
}

#define VIR(...)                                                                                   \
  "use vir\npreset m = vir(embed_dim = 16, depth = 2, num_heads = 2, num_classes = 5, patch_size " \
  "= 4, in_chans = 2, " __VA_ARGS__ ")\n"
#define VIL(...)                                                                                   \
  "use vil\npreset m = vil(dim = 16, depth = 2, num_heads = 2, classes = 5, patch = 4, "           \
  "in_channels = 2, " __VA_ARGS__ ")\n"
/* A body from the tokens x [B, 18, 8] of 6 rows, behind `use` of what it needs. */
#define OF_TOKENS(uses, body)                                                                      \
  uses "use std.nn\nmodel m() {\n  input x: image[2, 24, 12]\n"                                    \
       "  x = patch_embed(\"p\", x, 8, 4x4, 4x4)\n" body "  output y = x\n}\n"
/* One that ends in a cell of two heads; g("name") makes sequences of [4], s("name") of numbers. */
#define CELL(name, call)                                                                           \
  OF_TOKENS("use std." name "\n"                                                                   \
            "fn g(name: string, x: tokens) { return group(linear(name, x, 8), 2) }\n"              \
            "fn s(name: string, x: tokens) { return linear(name, x, 2) }\n"                        \
            "fn unit(x: tensor) { return rms_standardize(x, 0.1) / 2 }\n",                         \
            "  x += ungroup(" call ")\n")

/* rows: of the image; head: of those before the first strip; count, height: of strips. */
static const struct {
  const char *what, *text;
  int64_t asked, rows, head, count, height;
} cases[] = {
    {"strips that divide the image", VIR("image = 24x20"), 2, 6, 0, 3, 2},
    {"a shorter rest", VIR("image = 28x20"), 3, 7, 0, 2, 3},
    {"one strip, and a rest of tokens alone", VIR("image = 12x20"), 3, 3, 0, 1, 3},
    {"rows by themselves", VIR("image = 16x8"), 1, 4, 0, 4, 1},
    {"more rows than there are", VIR("image = 16x8"), 9, 4, 0, 1, 4},
    {"as many rows as are best", VIR("image = 48x128"), 0, 12, 0, 2, 6},
    {"pixels behind the last patch", VIR("image = 27x23"), 2, 6, 0, 3, 2},
    {"the mean of all tokens", VIR("image = 24x20, class_token = false"), 2, 6, 0, 3, 2},
    {"a token before the image", VIR("image = 24x20, class_token_position = first, pool = last"), 2,
     6, 0, 3, 2},
    {"the first token", VIR("image = 24x20, class_token_position = first"), 2, 6, 0, 3, 2},
    {"positions of another grid", VIR("image = 24x20, pos_grid = [3, 2]"), 2, 6, 0, 3, 2},
    {"states and features of all tokens", VIR("image = 28x20, trace = true"), 2, 7, 0, 3, 2},
    {"chunks that strips do not divide", VIR("image = 28x20, form = chunkwise(4)"), 2, 7, 0, 3, 2},
    {"a causal convolution", VIL("directions = [rows], image = 28x20, version = 1"), 2, 7, 0, 3, 2},
    {"the first and the last token", VIL("directions = [rows], image = 24x20, conv_kind = none"), 2,
     6, 0, 3, 2},
    {"convolutions of the grid, which wait for a row each",
     VIL("directions = [rows], image = 40x12"), 2, 10, 3, 3, 2},
    {"convolutions of five rows", VIL("directions = [rows], image = 52x12, conv_kernel_size = 5"),
     2, 13, 6, 3, 2},
    {"selective scans one way",
     "use vim\npreset m = vim(depth = 2, dim = 16, image = 24x20, patch = 4, num_classes = 5, "
     "class_token = none, bimamba_type = none)\n",
     2, 6, 0, 3, 2},
    {"tokens that are not of an image",
     "use std.nn\nuse std.mlstm\nmodel m() {\n  input x: tokens[21, 8]\n"
     "  x += ungroup(mlstm(group(x, 2), group(x, 2), group(x, 2), linear(\"i\", x, 2), "
     "linear(\"f\", x, 2)))\n  output y = x\n}\n",
     4, 21, 0, 5, 4},
    {"corrections",
     CELL("gated_delta", "gated_delta(g(\"q\", x), unit(g(\"k\", x)), g(\"v\", x), "
                         "sigmoid(s(\"b\", x)), log_sigmoid(s(\"g\", x)))"),
     2, 6, 0, 3, 2},
    {"several corrections a token",
     CELL("delta_product",
          "delta_product(g(\"q\", x), unit(g(\"k\", x)), g(\"v\", x), sigmoid(s(\"b\", x)), "
          "unit(g(\"k2\", x)), g(\"v2\", x), sigmoid(s(\"b2\", x)), log_sigmoid(s(\"g\", x)))"),
     4, 6, 0, 1, 4},
    {"states that turn each other",
     CELL("lru", "lru(g(\"x\", x), g(\"y\", x), g(\"c\", x), g(\"d\", x), -softplus(g(\"n\", x)), "
                 "g(\"t\", x))"),
     2, 6, 0, 3, 2},
    {"steps that are not linear",
     CELL("slstm",
          "slstm(g(\"z\", x), g(\"i\", x), g(\"f\", x), g(\"o\", x), param a: [2, 4, 4] ~ "
          "normal(1), param b: [2, 4, 4] ~ normal(1), param c: [2, 4, 4] ~ normal(1), param "
          "d: [2, 4, 4] ~ normal(1))"),
     2, 6, 0, 3, 2},
    {"a decay an entry",
     OF_TOKENS("use std.selective_scan\n",
               "  x += selective_step(x, softplus(x), -exp(param a: [8, 3] ~ normal(1)), "
               "linear(\"b\", x, 3), linear(\"c\", x, 3))\n"),
     2, 6, 0, 3, 2},
    {"sums so far, and of numbers of tokens",
     OF_TOKENS("", "  n = reshape_param(range(x.tokens), [x.tokens, 1])\n"
                   "  x = cumsum(x, axis = \"tokens\") / (1 + n) * cos(0.3 * n)\n"),
     4, 6, 0, 1, 4},

    {"the largest and the mean of all tokens",
     OF_TOKENS("",
               "  x = linear(\"l\", amax(x, axis = \"tokens\") * mean(x, axis = \"tokens\"), 3)\n"),
     4, 6, 0, 1, 4},
    {"a product over all tokens",
     OF_TOKENS("", "  x = einsum(\"bnc,bnd->bcd\", x, x * cos(reshape_param(range(x.tokens), "
                   "[x.tokens, 1])))\n"),
     4, 6, 0, 1, 4},
    {"one token from the middle", OF_TOKENS("", "  x = x[:, 7]\n"), 2, 6, 0, 3, 2},
    {"convolutions of all channels, to be added to what waits",
     OF_TOKENS("use std.conv\n", "  x += conv2d(\"c\", to_image(x), 8, 3, pad = 1)\n"
                                 "  x += conv2d(\"d\", to_image(relu(x)), 8, 3, pad = 1)\n"),
     1, 6, 3, 3, 1},
};
enum { N_CASES = sizeof cases / sizeof *cases };

TEST(strips_compute_what_the_whole_is) {
  for (int i = 0; i < N_CASES; i++) {
    vtb_module *m = instantiate(cases[i].text), *whole = vtb_module_clone(m);
    vtb_diags d = {0};
    vtb_strips s = {.height = cases[i].asked};
    vtb_status status = lower(m, &s, &d);
    if (status != VTB_OK) vtb_diags_print(&d, stderr);
    CHECK_MSG(status == VTB_OK, "%s", cases[i].what);
    CHECK_MSG(s.rows == cases[i].rows && s.head == cases[i].head && s.count == cases[i].count &&
                  s.height == cases[i].height,
              "%s: %d rows, %d of the head, %d strips of %d", cases[i].what, (int)s.rows,
              (int)s.head, (int)s.count, (int)s.height);
    if (status == VTB_OK && lower(whole, NULL, &d) == VTB_OK) {
      double worst = compare_modules(whole, m, 3);
      CHECK_MSG(count_ops(m, VTB_OP_fold) > 0, "%s: no loop", cases[i].what);
      CHECK_MSG(worst <= 1e-12, "%s: %g off", cases[i].what, worst);
    }
    vtb_diags_free(&d);
    vtb_module_free(m);
    vtb_module_free(whole);
  }
}

/* says: of the message; place: what its source has there. */
static const struct {
  const char *what, *text, *says, *place;
} refused[] = {
    {"every second block from the other end",
     VIL("image = 24x20, directions = [rows, rows~], conv_kind = none"),
     "blocks.0.rowwise_from_bot_right.layer.mlstm_cell: a recurrence reads the tokens from the "
     "last "
     "one on",
     "mlstm(group(q"},
    {"its convolution", VIL("image = 24x20, directions = [rows, rows~]"),
     "layer.conv: a convolution goes over the tokens from the last one on", "depthwise"},
    {"down the columns", VIL("image = 24x20, conv_kind = none, directions = [cols]"),
     "a recurrence reads the tokens in another order than row after row", "mlstm(group(q"},
    {"a token in the middle",
     "use vim\npreset m = vim(depth = 1, dim = 16, image = 24x20, patch = 4, num_classes = 5)\n",
     "tokens 0 to 14 of 30 are read apart from the others", "insert_tokens("},
    {"both ways in one block",
     "use vim\npreset m = vim(depth = 1, dim = 16, image = 24x20, patch = 4, num_classes = 5, "
     "class_token = none)\n",
     "the tokens from the last one on", ""},
    {"attention",
     "use vit\npreset m = deit(depth = 2, dim = 16, heads = 2, image = 24x20, patch = 4, "
     "num_classes = 5)\n",
     "blocks.0.attn: attention reads tokens that come later", "attention("},
    {"attention with turns",
     "use vllama\npreset m = visionllama_plain(depth = 1, dim = 16, heads = 2, image = 24x20, "
     "patch "
     "= 4)\n",
     "attention reads tokens that come later", ""},
    {"patches and then their reverse", VIR("image = 24x20, multipass = concat_cls_last"),
     "another order reads tokens that come later", "sequence("},
    {"weights by all scores", VIR("image = 24x20, kind = vir_release, form = parallel"),
     "every token meets every other one", "einsum("},
    {"channels scaled by their means",
     OF_TOKENS("use std.conv\n", "  x = squeeze_excite(\"s\", x, 4)\n"),
     "tokens read what is made of all of them", "x * group("},
    {"patches that overlap",
     "use std.nn\nmodel m() {\n  input x: image[2, 26, 14]\n"
     "  output y = patch_embed(\"p\", x, 8, 6x6, 4x4)\n}\n",
     "patches overlap or are cut off", "patches("},
    {"a state that is read before it is updated",
     CELL("rwkv7",
          "rwkv7(g(\"r\", x), g(\"w\", x), g(\"k\", x), g(\"v\", x), g(\"a\", x), g(\"b\", x))"),
     "a token reads what comes behind it", "rwkv7("},
};

TEST(what_reads_later_tokens_is_refused_with_its_place) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    vtb_module *m = instantiate(refused[i].text);
    vtb_diags d = {0};
    vtb_strips s = {.height = 2};
    vtb_status status = lower(m, &s, &d);
    const vtb_diag *first = d.list.n ? &d.list.at[0] : NULL;
    CHECK_MSG(status == VTB_E_INPUT && first && first->code == 3007, "%s", refused[i].what);
    if (first && first->code == 3007) {
      const char *at = first->span.source ? first->span.source->text + first->span.begin : "";
      CHECK_MSG(strstr(first->text, refused[i].says), "%s: %s", refused[i].what, first->text);
      CHECK_MSG(vtb_starts_with(at, refused[i].place), "%s: at %.40s", refused[i].what, at);
    }
    vtb_diags_free(&d);
    vtb_module_free(m);
  }
}

int main(void) {
  RUN(strips_compute_what_the_whole_is);
  RUN(what_reads_later_tokens_is_refused_with_its_place);
  return test_done();
}
