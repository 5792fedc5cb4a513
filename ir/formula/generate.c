/* Made of ir/scalar_ops.def while the tree is built:
 *
 *   formulas c                         ir/scalar_ops.gen.h: values in double precision, expressions
 *   formulas cuda INTRINSICS LIBRARY   library.cuh with the functions that formulas give, and all
 *                                      of them for four elements, in place of the line that says
 *                                      so
 */
#include "ir/formula/formula.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HERE "/* @scalar_ops */\n"
enum { MAX_TEXT = 1 << 17 };

static vtb_formulas all;

static _Noreturn void quit(const char *what) {
  fprintf(stderr, "ir/scalar_ops.def: %s\n", what);
  exit(1);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool is(const char *word, const char *wanted) { return strcmp(word, wanted) == 0; }

static void check_row(const vtb_formula_row *r, double from, double to) {
  bool infix = is(r->cuda, "infix"), by_hand = is(r->eval, "hand") && is(r->cpu, "hand");
  if ((!is(r->eval, "hand") && !is(r->eval, "formula")) ||
      (!is(r->cpu, "hand") && !is(r->cpu, "formula")) ||
      (!is(r->cuda, "hand") && !is(r->cuda, "formula") && !infix))
    vtb_formula_fail(&all, r, "a form is neither hand nor formula");
  if (!r->formula && (!by_hand || is(r->cuda, "formula")))
    vtb_formula_fail(&all, r, "a primitive op needs every form by hand");
  if (!(from < to)) vtb_formula_fail(&all, r, "no operands between %g and %g", from, to);
}

static void add_row(vtb_formula_row row, double from, double to) {
  if (all.n_rows == VTB_FORMULA_MAX_ROWS) quit("more rows than VTB_FORMULA_MAX_ROWS");
  all.rows[all.n_rows++] = row;
  check_row(&row, from, to);
}

/* Adjoints may use every row, so all are known before the first is read. */
static void read_rows(void) {
#define PRIMITIVE NULL
#define DERIVED NULL
#define VTB_SCALAR(name_, n, formula_, adjoints_, eval_, cpu_, cuda_, ints, cost, flops, monotone, \
                   sign, from, to, ...)                                                            \
  add_row((vtb_formula_row){.name = #name_,                                                        \
                            .op = VTB_OP_##name_,                                                  \
                            .n_operands = n,                                                       \
                            .formula = formula_,                                                   \
                            .adjoints = adjoints_,                                                 \
                            .eval = #eval_,                                                        \
                            .cpu = #cpu_,                                                          \
                            .cuda = #cuda_},                                                       \
          from, to);
#include "ir/scalar_ops.def"
#undef VTB_SCALAR
  for (int i = 0; i < all.n_rows && !all.error[0]; i++) vtb_formula_read(&all, i);
  if (all.error[0]) quit(all.error);
}

/* ---- C --------------------------------------------------------------------------------------- */

static void print_parameters(const char *type, int n) {
  for (int i = 0; i < n; i++) printf("%s%s %c", i ? ", " : "", type, "xyz"[i]);
}

static void print_function(const vtb_formula_row *r, const char *head,
                           const vtb_formula_style *style) {
  printf("%s %s %s%s(", head, style->type, style->prefix, r->name);
  print_parameters(style->type, r->n_operands);
  puts(") {");
  vtb_formula_print_body(r, r->value, style, stdout);
  puts("}");
}

static void print_nodes(const vtb_formula_row *r) {
  static const char *const leaves[] = {"NONE", "NUMBER", "X", "Y", "Z", "R", "D"};
  printf("static const vtb_scalar_node nodes_%s[] = {\n", r->name);
  for (int i = 0; i < r->n; i++) {
    const vtb_scalar_node *n = &r->at[i];
    printf("  {.leaf = VTB_LEAF_%s", leaves[n->leaf]);
    if (n->leaf == VTB_LEAF_NUMBER) printf(", .number = %.17g", n->number);
    if (!n->leaf)
      printf(", .op = VTB_OP_%s, .arg = {%d, %d, %d}", vtb_formula_row_of(&all, n->op)->name,
             n->arg[0], n->arg[1], n->arg[2]);
    puts("},");
  }
  printf("};\n#define CODE_%s .nodes = nodes_%s, .n_nodes = %d, .value = %d, ", r->name, r->name,
         r->n, r->value);
  printf(".adjoint = {%d, %d, %d}\n", r->adjoint[0], r->adjoint[1], r->adjoint[2]);
}

static void generate_c(void) {
  puts("/* Made of ir/scalar_ops.def by ir/formula/generate.c. */");
  for (int i = 0; i < all.n_rows; i++) {
    const vtb_formula_row *r = &all.rows[i];
    if (is(r->eval, "formula")) print_function(r, "static", &vtb_formula_c);
    print_nodes(r);
  }
}

/* ---- CUDA ------------------------------------------------------------------------------------ */

static void read_text(const char *path, char text[MAX_TEXT]) {
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(text, 1, MAX_TEXT, f) : 0;
  if (!f || ferror(f) || n == MAX_TEXT) {
    fprintf(stderr, "%s: not read, or larger than %d bytes\n", path, MAX_TEXT);
    exit(1);
  }
  text[n] = '\0';
  fclose(f);
}

static bool defines(const char *text, const char *name) {
  char head[80];
  snprintf(head, sizeof head, "float vtb_%s(float ", name);
  return strstr(text, head) != NULL;
}

static void print_cuda_row(const vtb_formula_row *r, const char *intrinsics, const char *library) {
  static const char *const lifts[] = {"UNARY", "BINARY", "TERNARY"};
  bool by_hand = is(r->cuda, "hand"),
       there = defines(intrinsics, r->name) || defines(library, r->name);
  if (by_hand != there && !(is(r->cuda, "infix") && !r->formula))
    vtb_formula_fail(&all, r, "codegen/cuda/text %s vtb_%s", there ? "has" : "has no", r->name);
  if (!by_hand && r->formula) print_function(r, "VTB_FN", &vtb_formula_cuda);
  if (by_hand || r->formula) printf("VTB_%s4(vtb_%s)\n", lifts[r->n_operands - 1], r->name);
}

static void generate_cuda(const char *intrinsics_path, const char *library_path) {
  static char intrinsics[MAX_TEXT], library[MAX_TEXT];
  read_text(intrinsics_path, intrinsics);
  read_text(library_path, library);
  char *here = strstr(library, HERE);
  if (!here) quit("the text of the CUDA library has no line " HERE);
  fwrite(library, 1, (size_t)(here - library), stdout);
  for (int i = 0; i < all.n_rows; i++) print_cuda_row(&all.rows[i], intrinsics, library);
  fputs(here + strlen(HERE), stdout);
}

int main(int n, char **args) {
  read_rows();
  if (n == 2 && is(args[1], "c"))
    generate_c();
  else if (n == 4 && is(args[1], "cuda"))
    generate_cuda(args[2], args[3]);
  else
    quit("usage: formulas c | formulas cuda INTRINSICS LIBRARY");
  if (all.error[0]) quit(all.error);
  return fflush(stdout) == 0 ? 0 : 1;
}
