/* Formulas: what parses, what does not, what they derive to; and docs/ops.md is what the rows say.
 * VTB_UPDATE=1 writes docs/ops.md anew. */
#include "ir/formula/formula.h"
#include "ir/ops.h"
#include "tests/scalar_samples.h"

static vtb_formulas all;

static vtb_formula_row *add_row(const char *name, vtb_op op, int n, const char *formula,
                                const char *adjoints) {
  vtb_formula_row *r = &all.rows[all.n_rows++];
  *r = (vtb_formula_row){
      .name = name, .op = op, .n_operands = n, .formula = formula, .adjoints = adjoints};
  return r;
}

#define PRIMITIVE NULL
#define DERIVED NULL
static void read_table(void) {
  all.n_rows = 0;
  all.error[0] = '\0';
#define VTB_SCALAR(name, n, formula, adjoints, ...)                                                \
  add_row(#name, VTB_OP_##name, n, formula, adjoints);
#include "ir/scalar_ops.def"
#undef VTB_SCALAR
  for (int i = 0; i < all.n_rows; i++) CHECK_MSG(vtb_formula_read(&all, i), "%s", all.error);
}

static char *text_of(const vtb_scalar_node *nodes, int node) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  vtb_formula_print(nodes, node, out);
  fclose(out);
  return text;
}

static void check_text(const vtb_scalar_node *nodes, int node, const char *want) {
  char *got = text_of(nodes, node);
  CHECK_STR(got, want);
  free(got);
}

/* ---- text ------------------------------------------------------------------------------------ */

TEST(formulas_keep_their_order) {
  static const char *const texts[] = {"x + y + z",
                                      "x + (y + z)",
                                      "x - (y - z) * 2",
                                      "x / y / z",
                                      "x / (y / z)",
                                      "-x * -(y + z)",
                                      "x > 0 ? exp(x) : x >= y ? 0.5 * x : z",
                                      "max(x, min(y, z)) - abs(x == y)"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    read_table();
    vtb_formula_row *r = add_row("new", VTB_OP_COUNT, 3, texts[i], "d; d; d");
    CHECK_MSG(vtb_formula_read(&all, all.n_rows - 1), "%s", all.error);
    check_text(r->at, r->value, texts[i]);
  }
}

TEST(numbers_are_folded_and_names_shared) {
  read_table();
  vtb_formula_row *r = add_row("new", VTB_OP_COUNT, 1, "t = exp(2 / 4 * x): t + t * (1 - 3)", "d");
  CHECK_MSG(vtb_formula_read(&all, all.n_rows - 1), "%s", all.error);
  check_text(r->at, r->value, "exp(0.5 * x) + exp(0.5 * x) * (-2)");
  int n_exp = 0;
  for (int i = 0; i < r->n; i++) n_exp += !r->at[i].leaf && r->at[i].op == VTB_OP_exp;
  CHECK(n_exp == 1);
}

TEST(wrong_formulas_are_named) {
  static const struct {
    const char *formula, *adjoints, *message;
  } cases[] = {{"x / (1 + abz(x))", "d", "new: no row above has the op 'abz'"},
               {"new(x)", "d", "new: no row above has the op 'new'"},
               {"x + y", "d", "'y' in \"x + y\" names nothing"},
               {"x * d", "d", "'d' in"},
               {"x + ", "d", "a number, an operand or an op is missing"},
               {"(x + 1", "d", "')' is missing"},
               {"x > 0 ? x", "d", "':' is missing"},
               {"max(x)", "d", "an operand is missing"},
               {"x x", "d", "goes on behind its end"},
               {"x / 1 + 1 / 0", "d", "not finite"},
               {"x", "d; d", "not an adjoint for each of 1 operands"},
               {NULL, NULL, "the adjoints of a primitive op are not derived"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    read_table();
    add_row("new", VTB_OP_COUNT, 1, cases[i].formula, cases[i].adjoints);
    CHECK(!vtb_formula_read(&all, all.n_rows - 1));
    CHECK_MSG(strstr(all.error, cases[i].message), "%s: %s", cases[i].formula, all.error);
  }
}

/* ---- derivatives ----------------------------------------------------------------------------- */

TEST(derivatives_follow_from_the_formula) {
  read_table();
  vtb_formula_row *r = add_row("softsign", VTB_OP_COUNT, 1, "x / (1 + abs(x))", NULL);
  CHECK_MSG(vtb_formula_read(&all, all.n_rows - 1), "%s", all.error);
  check_text(r->at, r->adjoint[0], "d / (1 + abs(x)) - r * (d / (1 + abs(x))) * sign(x)");
  r = add_row("clamp", VTB_OP_COUNT, 3, "min(max(x, y), z)", NULL);
  CHECK_MSG(vtb_formula_read(&all, all.n_rows - 1), "%s", all.error);
  check_text(r->at, r->adjoint[2], "z > max(x, y) ? 0 : d");
  r = add_row("step", VTB_OP_COUNT, 1, "floor(x) * 2", NULL);
  CHECK_MSG(vtb_formula_read(&all, all.n_rows - 1), "%s", all.error);
  CHECK(r->adjoint[0] == -1);
}

/* A row whose adjoints are written out, derived instead. */
static void check_derived(int row) {
  static vtb_formula_row hand, derived;
  hand = derived = all.rows[row];
  vtb_formula_derive(&all, &derived);
  const vtb_scalar *s = vtb_scalar_get(hand.op);
  for (int i = 0; i < N_SCALAR_SAMPLES; i++) {
    double x[VTB_SCALAR_OPERANDS];
    scalar_sample(s, i, x);
    double r = vtb_scalar_eval(hand.op, x);
    for (int k = 0; k < hand.n_operands; k++) {
      double want = scalar_value(hand.at, hand.adjoint[k], x, r, 0.75);
      double got = scalar_value(derived.at, derived.adjoint[k], x, r, 0.75);
      bool kink = hand.op == VTB_OP_relu && x[0] == 0;
      if (!isfinite(got) || kink) continue;
      CHECK_MSG(fabs(got - want) <= 1e-9 * (1 + fabs(want)), "%s(%g, %g): %.17g, not %.17g",
                hand.name, x[0], x[1], got, want);
    }
  }
}

TEST(adjoints_by_hand_are_those_of_the_formula) {
  read_table();
  int n = 0;
  for (int i = 0; i < all.n_rows; i++) {
    if (!all.rows[i].formula || !all.rows[i].adjoints || all.rows[i].adjoint[0] < 0) continue;
    check_derived(i);
    n++;
  }
  CHECK(n >= 10);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_cell(FILE *out, const char *text) {
  fputs(" | ", out);
  for (; *text; text++) {
    if (*text == '|') fputc('\\', out);
    fputc(*text, out);
  }
}

static void put_row(FILE *out, vtb_op op, const vtb_scalar *s) {
  fprintf(out, "| `%s`", vtb_op_get(op)->name);
  put_cell(out, vtb_op_get(op)->doc);
  fprintf(out, s->formula ? " | `%s`" : " | primitive%s", s->formula ? s->formula : "");
  fputs(" | ", out);
  for (int k = 0; k < s->n_operands; k++) {
    char *text = s->adjoint[k] < 0 ? strdup("0") : text_of(s->nodes, s->adjoint[k]);
    fprintf(out, "%s`%s`", k ? ", " : "", text);
    free(text);
  }
  fprintf(out, " | %g to %g | %s |\n", s->from, s->to, s->builtin ? "yes" : "");
}

static char *page(void) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  fputs("# Elementwise operations\n\n"
        "Made from `ir/scalar_ops.def` by `tests/ir/test_formula.c` (`VTB_UPDATE=1` writes it "
        "anew). Operands are x, y\n"
        "and z, r is the result, d its adjoint. Between the two numbers results are finite and "
        "every target is accurate;\n"
        "`builtin` says whether the language has a function of that name (docs/tensors.md).\n\n"
        "| op | computes | formula | adjoints of the operands | operands | builtin |\n"
        "| --- | --- | --- | --- | --- | --- |\n",
        out);
  EACH_SCALAR_OP(op, row) put_row(out, op, row);
  fclose(out);
  return text;
}

TEST(the_page_is_up_to_date) {
  const char *path = VTB_SOURCE_DIR "/docs/ops.md";
  char *want = page(), *got = NULL;
  size_t n = 0;
  vtb_error err = {0};
  if (getenv("VTB_UPDATE")) CHECK(vtb_file_write_atomic(path, want, strlen(want), &err) == VTB_OK);
  CHECK_MSG(vtb_file_read(path, 1 << 20, &got, &n, &err) == VTB_OK, "%s", err.text);
  CHECK_MSG(got && strcmp(got, want) == 0,
            "docs/ops.md differs from ir/scalar_ops.def; run with VTB_UPDATE=1");
  free(got);
  free(want);
}

int main(void) {
  RUN(formulas_keep_their_order);
  RUN(numbers_are_folded_and_names_shared);
  RUN(wrong_formulas_are_named);
  RUN(derivatives_follow_from_the_formula);
  RUN(adjoints_by_hand_are_those_of_the_formula);
  RUN(the_page_is_up_to_date);
  return test_done();
}
