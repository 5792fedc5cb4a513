/* Text of a formula to nodes, by recursive descent:
 *
 *   formula  name = choice : formula | choice
 *   choice   relation [? choice : choice]
 *   relation sum [(> | < | >= | <= | ==) sum]
 *   sum      product {(+ | -) product}
 *   product  factor {(* | /) factor}
 *   factor   - factor | number | pi | x | y | z | r | d | name | op ( choice, ... ) | ( choice )
 */
#include "ir/formula/formula.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 4, MAX_DEPTH = 32 };

typedef struct parser {
  vtb_formulas *all;
  vtb_formula_row *row;
  const char *text, *at;
  int n_rows, depth, n_names;
  bool adjoint;
  struct {
    const char *at;
    size_t n;
    int node;
  } names[MAX_NAMES];
} parser;

static int choice(parser *p);

static int fail(parser *p, const char *wanted) {
  int where = (int)(p->at - p->text);
  return vtb_formula_fail(p->all, p->row, "\"%s\": %s at \"%.20s\"",
                          p->text + (where > 60 ? where - 60 : 0), wanted, p->at);
}

static void skip_space(parser *p) {
  while (isspace((unsigned char)*p->at)) p->at++;
}

/* Takes `token` if it comes next. */
static bool take(parser *p, const char *token) {
  skip_space(p);
  size_t n = strlen(token);
  if (strncmp(p->at, token, n) != 0) return false;
  p->at += n;
  return true;
}

static void want(parser *p, const char *token) {
  if (!take(p, token)) fail(p, token[0] == ')' ? "')' is missing" : "':' is missing");
}

static int op2(parser *p, vtb_op op, int x, int y) {
  return vtb_formula_op(p->all, p->row, op, (int[]){x, y, 0});
}

/* ---- names ----------------------------------------------------------------------------------- */

static size_t name_length(const char *at) {
  size_t n = 0;
  while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
  return isdigit((unsigned char)at[0]) ? 0 : n;
}

static int call(parser *p, const char *name, size_t n) {
  const vtb_formula_row *op = vtb_formula_find(p->all, name, n);
  int args[VTB_SCALAR_OPERANDS] = {0};
  if (!op || op - p->all->rows >= p->n_rows)
    return vtb_formula_fail(p->all, p->row, "no row%s has the op '%.*s'",
                            p->adjoint ? "" : " above", (int)n, name);
  for (int i = 0; i < op->n_operands; i++) {
    if (i && !take(p, ",")) return fail(p, "an operand is missing");
    args[i] = choice(p);
  }
  want(p, ")");
  return vtb_formula_op(p->all, p->row, op->op, args);
}

static int leaf(parser *p, const char *name, size_t n) {
  static const char letters[] = "xyzrd";
  for (int i = 0; i < p->n_names; i++)
    if (p->names[i].n == n && memcmp(p->names[i].at, name, n) == 0) return p->names[i].node;
  if (n == 2 && memcmp(name, "pi", 2) == 0) return vtb_formula_number(p->all, p->row, M_PI);
  const char *letter = n == 1 ? strchr(letters, *name) : NULL;
  int number = letter ? (int)(letter - letters) : -1;
  if (number >= VTB_SCALAR_OPERANDS ? p->adjoint : number >= 0 && number < p->row->n_operands)
    return vtb_formula_leaf(p->all, p->row, VTB_LEAF_X + (vtb_scalar_leaf)number);
  return vtb_formula_fail(p->all, p->row, "'%.*s' in \"%s\" names nothing", (int)n, name, p->text);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static int factor(parser *p) {
  if (take(p, "-")) return op2(p, VTB_OP_neg, factor(p), 0);
  if (take(p, "(")) {
    int node = choice(p);
    want(p, ")");
    return node;
  }
  if (isdigit((unsigned char)*p->at)) {
    char *end;
    double number = strtod(p->at, &end);
    p->at = end;
    return vtb_formula_number(p->all, p->row, number);
  }
  const char *name = p->at;
  size_t n = name_length(name);
  if (!n) return fail(p, "a number, an operand or an op is missing");
  p->at += n;
  return take(p, "(") ? call(p, name, n) : leaf(p, name, n);
}

static int product(parser *p) {
  int node = factor(p);
  for (;;) {
    if (take(p, "*"))
      node = op2(p, VTB_OP_mul, node, factor(p));
    else if (take(p, "/"))
      node = op2(p, VTB_OP_div, node, factor(p));
    else
      return node;
  }
}

static int sum(parser *p) {
  int node = product(p);
  for (;;) {
    if (take(p, "+"))
      node = op2(p, VTB_OP_add, node, product(p));
    else if (take(p, "-"))
      node = op2(p, VTB_OP_sub, node, product(p));
    else
      return node;
  }
}

static int relation(parser *p) {
  int node = sum(p);
  if (take(p, ">=")) return op2(p, VTB_OP_ge, node, sum(p));
  if (take(p, "<=")) return op2(p, VTB_OP_ge, sum(p), node);
  if (take(p, "==")) return op2(p, VTB_OP_eq, node, sum(p));
  if (take(p, ">")) return op2(p, VTB_OP_gt, node, sum(p));
  if (take(p, "<")) return op2(p, VTB_OP_gt, sum(p), node);
  return node;
}

static int choice(parser *p) {
  if (p->depth == MAX_DEPTH) return fail(p, "too deep");
  p->depth++;
  int args[3] = {relation(p)};
  bool chooses = take(p, "?");
  if (chooses) {
    args[1] = choice(p);
    want(p, ":");
    args[2] = choice(p);
  }
  p->depth--;
  return chooses ? vtb_formula_op(p->all, p->row, VTB_OP_select, args) : args[0];
}

/* "t = tanh(x): " before what uses it. */
static bool take_name(parser *p) {
  skip_space(p);
  const char *name = p->at;
  size_t n = name_length(name);
  p->at += n;
  skip_space(p);
  if (!n || p->at[0] != '=' || p->at[1] == '=' || p->n_names == MAX_NAMES) {
    p->at = name;
    return false;
  }
  p->at++;
  int node = choice(p);
  want(p, ":");
  p->names[p->n_names].at = name;
  p->names[p->n_names].n = n;
  p->names[p->n_names++].node = node;
  return true;
}

int vtb_formula_parse(vtb_formulas *all, vtb_formula_row *r, const char **text, int n_rows,
                      bool adjoint) {
  parser p = {all, r, *text, *text, n_rows, .adjoint = adjoint};
  while (take_name(&p)) continue;
  int node = choice(&p);
  skip_space(&p);
  *text = p.at;
  return node;
}
