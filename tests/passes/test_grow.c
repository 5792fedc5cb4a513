/* The rules of all groups (passes/fuse/group.h): what is an argument, what a view is read as, what
 * moves, and that no way leads out of a group and back in. */
#include "tests/passes/pass_check.h"
#include "ir/ops.h"

#include <dirent.h>
#include <string.h>

#include "ir/kernels.h"

typedef struct grown {
  int kernels, operands, results, reshapes; /* of the kernels of the kind together */
  int others;                               /* instructions outside */
} grown;

/* The numbers must be those from before. */
static grown grow(const char *text, const char *rows, vtb_kernel_kind kind) {
  vtb_module *before = parse_ir(text), *after = vtb_module_clone(before);
  char passes[100];
  grown g = {0};
  snprintf(passes, sizeof passes, "fuse,grow{%s}", rows);
  CHECK(run_passes(after, passes));
  CHECK(compare_modules(before, after, 3) < 1e-12);
  for (const vtb_inst *i = after->entry->first; i; i = i->next) {
    if (vtb_kernel_kind_of(i) != kind) {
      g.others++;
      continue;
    }
    g.kernels++;
    g.operands += i->n_operands;
    g.results += i->n_results;
    for (const vtb_inst *k = i->callee->first; k; k = k->next)
      g.reshapes += k->op == VTB_OP_reshape;
  }
  vtb_module_free(before);
  vtb_module_free(after);
  return g;
}

static grown product(const char *text) { return grow(text, "products", VTB_KERNEL_PRODUCT); }

TEST(factors_are_arguments_of_their_own) {
  grown g = product("entry func @f(%x: f32[5, 5], %w: f32[5, 5]) -> (f32[5, 5]) {\n"
                    "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 5]\n"
                    "  %y = mul %p, %x : f32[5, 5]\n"
                    "  return %y\n}\n");
  CHECK(g.kernels == 1 && g.operands == 3);
  g = grow("entry func @f(%x: f32[9, 20], %y: f32[9, 17]) -> (f32[20, 17], f32[20]) {\n"
           "  %p = einsum %x, %y {spec = \"tc,td->cd\"} : f32[20, 17]\n"
           "  %s = reduce_sum %x {axes = [0]} : f32[20]\n"
           "  return %p, %s\n}\n",
           "factor_sums", VTB_KERNEL_PRODUCT);
  CHECK(g.kernels == 1 && g.operands == 2 && g.results == 2);
}

TEST(views_of_others_are_read_as_they_are) {
  grown g = product("entry func @f(%x: f32[5, 6], %w: f32[6, 7], %r: f32[35]) -> (f32[5, 7]) {\n"
                    "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
                    "  %e = exp %r : f32[35]\n"
                    "  %v = reshape %e {shape = [5, 7]} : f32[5, 7]\n"
                    "  %y = add %p, %v : f32[5, 7]\n"
                    "  return %y\n}\n");
  CHECK(g.kernels == 1 && g.operands == 3 && g.reshapes == 0);
}

TEST(siblings_read_no_factor) {
  grown g = product("entry func @f(%x: f32[5, 5], %w: f32[5, 5]) -> (f32[5, 5], f32[5, 5]) {\n"
                    "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 5]\n"
                    "  %y = gelu %p : f32[5, 5]\n"
                    "  %s = silu %x : f32[5, 5]\n"
                    "  return %y, %s\n}\n");
  CHECK(g.kernels == 1 && g.results == 1 && g.others == 1);
}

/* A product keeps statistics of the rows that it makes, of one of its results, and nothing that
 * takes a whole row. */
TEST(statistics_of_rows_are_kept_once) {
#define ROWS(name, width, also, made)                                                              \
  "kernel @" name "(%x: f32[5, " width "]) -> (f32[5, 1], f32[5, 1]" also ") {\n"                  \
  "  %a = reduce_sum %x {axes = [1], keep = 1} : f32[5, 1]\n"                                      \
  "  %i = constant {value = 0.015625} : f32[]\n  %m = mul %a, %i : f32[5, 1]\n"                    \
  "  %o = sub %x, %m : f32[5, " width "]\n  %q = square %o : f32[5, " width "]\n"                  \
  "  %s = reduce_sum %q {axes = [1], keep = 1} : f32[5, 1]\n" made
#define KEPT(width, of, also, made)                                                                \
  "entry func @f(%x: f32[5, 40], %w: f32[40, " width "]) -> (f32[5, 1], f32[5, 1]" also ", "       \
  "f32[5, 1], f32[5, 1]) {\n"                                                                      \
  "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, " width "]\n"                              \
  "  %q = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, " width "]\n"                              \
  "  %n, %t = fused @again(%" of ") {kind = \"row\"} : f32[5, 1], f32[5, 1]\n" made ROWS(          \
      "again", width, "", "  return %m, %s\n}\n")
#define PLAIN(width, of)                                                                           \
  KEPT(width, of, "",                                                                              \
       "  %m, %s = fused @rows(%p) {kind = \"row\"} : f32[5, 1], f32[5, 1]\n"                      \
       "  return %m, %s, %n, %t\n}\n")                                                             \
  ROWS("rows", width, "", "  return %m, %s\n}\n")
#define MORE(also, made, value)                                                                    \
  KEPT("64", "q", also,                                                                            \
       "  %m, %s, %o = fused @rows(%p) {kind = \"row\"} : f32[5, 1], f32[5, 1]" also "\n"          \
       "  return %m, %s, %o, %n, %t\n}\n")                                                         \
  ROWS("rows", "64", also, made "  return %m, %s, %" value "\n}\n")
  grown g = product(PLAIN("64", "q"));
  CHECK(g.kernels == 2 && g.results == 4 && g.others == 0);
  g = product(PLAIN("64", "p"));
  CHECK(g.kernels == 1 && g.results == 3 && g.others == 1); /* the other kernel reads it */
  CHECK(product(PLAIN("48", "q")).kernels == 0 && product(PLAIN("32", "q")).kernels == 0);
  CHECK(product(MORE(", f32[5, 64]", "  %e = exp %x : f32[5, 64]\n", "e")).kernels == 2);
  CHECK(product(MORE(", f32[5, 64]", "", "o")).kernels == 1);
  CHECK(product(MORE(", f32[5, 64]", "  %e = mul %x, %m : f32[5, 64]\n", "e")).kernels == 1);
  CHECK(product(MORE(", f32[5, 1]", "  %e = exp %s : f32[5, 1]\n", "e")).kernels == 1);
#undef ROWS
#undef KEPT
#undef PLAIN
#undef MORE
}

TEST(readers_that_stand_too_early_move) {
  grown g = product("entry func @f(%x: f32[5, 6], %w: f32[6, 7], %v: f32[7, 5]) -> "
                    "(f32[5, 5], f32[5, 7]) {\n"
                    "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
                    "  %q = einsum %p, %v {spec = \"ab,bc->ac\"} : f32[5, 5]\n"
                    "  %r = einsum %x, %w {spec = \"ab,bc->ac\", library = 1} : f32[5, 7]\n"
                    "  %y = mul %p, %r : f32[5, 7]\n"
                    "  return %q, %y\n}\n");
  CHECK(g.kernels == 1 && g.results == 2 && g.others == 2);
}

TEST(no_way_leads_out_and_back_in) {
  grown g = product("entry func @f(%x: f32[5, 6], %w: f32[6, 7], %v: f32[7, 7]) -> (f32[5, 7]) {\n"
                    "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
                    "  %q = einsum %p, %v {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
                    "  %y = mul %p, %q : f32[5, 7]\n"
                    "  return %y\n}\n");
  CHECK(g.kernels == 1 && g.others == 1); /* the second takes it, not the first */
}

/* A reshape is no member: its readers join, and it is made again inside. */
TEST(reshapes_between_are_made_inside) {
  grown g = grow("entry func @f(%x: f32[2, 6, 8], %w: f32[8, 3], %b: f32[2, 6, 2, 4]) -> "
                 "(f32[2, 6, 2, 4]) {\n"
                 "  %y = dwconv %x, %w {grid = [6], pad = [1]} : f32[2, 6, 8]\n"
                 "  %v = reshape %y {shape = [2, 6, 2, 4]} : f32[2, 6, 2, 4]\n"
                 "  %o = mul %v, %b : f32[2, 6, 2, 4]\n"
                 "  return %o\n}\n",
                 "local", VTB_KERNEL_LOCAL);
  CHECK(g.kernels == 1 && g.reshapes == 1 && g.results == 1 && g.others == 0);
}

/* What a kernel reads may not be made of its own convolution's input alone. */
TEST(nothing_of_a_local_kernel_feeds_its_convolution) {
  grown g = grow("entry func @f(%x: f32[2, 6, 2, 4], %u: f32[2, 4, 4], %w: f32[8, 3]) -> "
                 "(f32[2, 6, 8]) {\n"
                 "  %a = einsum %x, %u {spec = \"bngi,goi->bngo\"} : f32[2, 6, 2, 4]\n"
                 "  %v = reshape %a {shape = [2, 6, 8]} : f32[2, 6, 8]\n"
                 "  %y = dwconv %v, %w {grid = [6], pad = [1]} : f32[2, 6, 8]\n"
                 "  %z = silu %y : f32[2, 6, 8]\n"
                 "  return %z\n}\n",
                 "local", VTB_KERNEL_LOCAL);
  CHECK(g.kernels == 1 && g.others == 2);
}

/* Adjoints of an input and of a weight are one kernel if they are of one convolution. */
TEST(adjoints_of_one_convolution_are_one) {
#define ADJOINTS(dw, dx)                                                                           \
  "entry func @f(%x: f32[2, 6, 8], %d: f32[2, 6, 8], %w: f32[8, 3]) -> (f32[8, 3], "               \
  "f32[2, 6, 8]) {\n  %a = dwconv_dw %x, %d {grid = [6], kernel = [3], " dw "} : f32[8, 3]\n"      \
  "  %b = dwconv_dx %d, %w {grid = [6], " dx "} : f32[2, 6, 8]\n  return %a, %b\n}\n"
  const char *rows = "filter_gradients";
  CHECK(grow(ADJOINTS("pad = [1]", "pad = [1]"), rows, VTB_KERNEL_LOCAL).kernels == 1);
  CHECK(grow(ADJOINTS("pad = [1]", "pad = [2]"), rows, VTB_KERNEL_LOCAL).kernels == 0);
  CHECK(grow(ADJOINTS("pad = [1]", "pad = [1], path = \"rows~@1x6\""), rows, VTB_KERNEL_LOCAL)
            .kernels == 0);
#undef ADJOINTS
}

/* Scans that one kernel adds up are one, but not if the second needs the first. */
TEST(twins_do_not_read_each_other) {
#define TWINS(second)                                                                              \
  "entry func @f(%q: f32[2, 5, 1, 1], %u: f32[2, 5, 1, 1], %p: f32[2, 5, 1, 1], "                  \
  "%A: f32[1, 1, 1]) -> (f32[2, 5, 1, 1]) {\n"                                                     \
  "  %y, %s = linscan %q, %q, %u, %p, %A {class = \"rates\", last = 0} : f32[2, 5, 1, 1], "        \
  "f32[2, 1, 1, 1]\n  %v = exp %" second " : f32[2, 5, 1, 1]\n"                                    \
  "  %z, %r = linscan %q, %q, %v, %p, %A {class = \"rates\", last = 0} : f32[2, 5, 1, 1], "        \
  "f32[2, 1, 1, 1]\n  %o = add %y, %z : f32[2, 5, 1, 1]\n  return %o\n}\n"
  CHECK(grow(TWINS("u"), "scans", VTB_KERNEL_SCAN).kernels == 1);
  CHECK(grow(TWINS("y"), "scans", VTB_KERNEL_SCAN).kernels == 2);
#undef TWINS
}

/* Whether a test of the folder names the row among those that grow. */
static bool is_reached(const char *folder, const char *row) {
  DIR *dir = opendir(folder);
  bool reached = false;
  CHECK(dir != NULL);
  for (struct dirent *e; dir && !reached && (e = readdir(dir));) {
    char path[512], *text = NULL, *at;
    vtb_error err = {0};
    size_t n;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (e->d_name[0] == '.' || vtb_file_read(path, 1 << 20, &text, &n, &err) != VTB_OK) continue;
    for (at = text; !reached && (at = strstr(at, "grow{")); at++) {
      const char *end = strchr(at, '}'), *found = strstr(at, row);
      size_t length = strlen(row);
      reached =
          end && found && found < end && strchr("{+", found[-1]) && strchr("+}", found[length]);
    }
    vtb_free(text);
  }
  if (dir) closedir(dir);
  return reached;
}

TEST(each_row_is_reached_by_a_test) {
  static const char *const rows[] = {
#define VTB_FUSION(name, ...) name,
#include "ir/kernels.def"
#undef VTB_FUSION
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    CHECK_MSG(is_reached(VTB_SOURCE_DIR "/tests/passes", rows[r]) ||
                  is_reached(VTB_SOURCE_DIR "/tests/codegen", rows[r]),
              "ir/kernels.def: no test grows \"%s\"", rows[r]);
}

int main(void) {
  RUN(each_row_is_reached_by_a_test);
  RUN(factors_are_arguments_of_their_own);
  RUN(views_of_others_are_read_as_they_are);
  RUN(siblings_read_no_factor);
  RUN(statistics_of_rows_are_kept_once);
  RUN(readers_that_stand_too_early_move);
  RUN(no_way_leads_out_and_back_in);
  RUN(reshapes_between_are_made_inside);
  RUN(adjoints_of_one_convolution_are_one);
  RUN(twins_do_not_read_each_other);
  RUN(nothing_of_a_local_kernel_feeds_its_convolution);
  return test_done();
}
