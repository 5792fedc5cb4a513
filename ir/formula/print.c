/* Expressions as text: C, CUDA, and for readers. Operators keep the order of operations by as few
 * parentheses as do. */
#include "ir/formula/formula.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const vtb_formula_style vtb_formula_c = {"eval_", "double", "%.17g", ""};
const vtb_formula_style vtb_formula_cuda = {"vtb_", "float", "%.9g", "f"};
const vtb_formula_style vtb_formula_plain = {"", NULL, NULL, ""};

typedef struct printer {
  const vtb_scalar_node *at;
  const vtb_formula_style *style;
  const int *uses; /* of each node; NULL: no locals */
  FILE *out;
} printer;

enum { CHOICE, RELATION, SUM, PRODUCT, FACTOR, ATOM };

static const struct {
  const char *name;
  int n_operands;
} ops[VTB_OP_COUNT] = {
#define VTB_SCALAR(name, n, ...) [VTB_OP_##name] = {#name, n},
#include "ir/scalar_ops.def"
#undef VTB_SCALAR
};

/* Operators; comparisons and choices are functions where numbers have a type. */
static const struct operator{
  vtb_op op;
  const char *text;
  int level;
  bool typed;
}
operators[] = {{VTB_OP_add, " + ", SUM, true},      {VTB_OP_sub, " - ", SUM, true},
               {VTB_OP_mul, " * ", PRODUCT, true},  {VTB_OP_div, " / ", PRODUCT, true},
               {VTB_OP_gt, " > ", RELATION, false}, {VTB_OP_ge, " >= ", RELATION, false},
               {VTB_OP_eq, " == ", RELATION, false}};

static const struct operator* operator_of(const printer *p, vtb_op op) {
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
    if (operators[i].op == op) return operators[i].typed || !p->style->type ? &operators[i] : NULL;
  return NULL;
}

static void print_number(const printer *p, double number, int level) {
  char text[40];
  int digits = 1;
  if (p->style->number)
    snprintf(text, sizeof text, p->style->number, number);
  else
    do snprintf(text, sizeof text, "%.*g", digits, number);
    while (digits++ < 17 && strtod(text, NULL) != number);
  const char *point = p->style->suffix[0] && !strpbrk(text, ".e") ? ".0" : "";
  fprintf(p->out, number < 0 && level >= FACTOR ? "(%s%s%s)" : "%s%s%s", text, point,
          p->style->suffix);
}

static void print_node(const printer *p, int node, int level);

static void print_call(const printer *p, const vtb_scalar_node *node) {
  fprintf(p->out, "%s%s(", p->style->prefix, ops[node->op].name);
  for (int i = 0; i < ops[node->op].n_operands; i++) {
    if (i) fputs(", ", p->out);
    print_node(p, node->arg[i], CHOICE);
  }
  fputc(')', p->out);
}

static void print_op(const printer *p, const vtb_scalar_node *node, int level) {
  const struct operator* o = operator_of(p, node->op);
  bool minus = node->op == VTB_OP_neg, choice = node->op == VTB_OP_select && !p->style->type;
  int own = minus ? FACTOR : choice ? CHOICE : o ? o->level : ATOM;
  bool inside = own < level;
  if (inside) fputc('(', p->out);
  if (minus) {
    fputc('-', p->out);
    print_node(p, node->arg[0], ATOM);
  } else if (choice) {
    print_node(p, node->arg[0], RELATION);
    fputs(" ? ", p->out);
    print_node(p, node->arg[1], RELATION);
    fputs(" : ", p->out);
    print_node(p, node->arg[2], CHOICE);
  } else if (o) {
    print_node(p, node->arg[0], own);
    fputs(o->text, p->out);
    print_node(p, node->arg[1], own + 1);
  } else {
    print_call(p, node);
  }
  if (inside) fputc(')', p->out);
}

static void print_node(const printer *p, int node, int level) {
  const vtb_scalar_node *n = &p->at[node];
  if (n->leaf == VTB_LEAF_NUMBER)
    print_number(p, n->number, level);
  else if (n->leaf)
    fputc("xyzrd"[n->leaf - VTB_LEAF_X], p -> out);
  else if (p->uses && p->uses[node] > 1)
    fprintf(p->out, "t%d", node);
  else
    print_op(p, n, level);
}

static void count_uses(const vtb_formula_row *r, int node, int *uses) {
  if (uses[node]++ || r->at[node].leaf) return;
  for (int i = 0; i < ops[r->at[node].op].n_operands; i++) count_uses(r, r->at[node].arg[i], uses);
}

void vtb_formula_print_body(const vtb_formula_row *r, int node, const vtb_formula_style *style,
                            FILE *out) {
  int uses[VTB_SCALAR_NODES] = {0};
  printer p = {r->at, style, uses, out};
  count_uses(r, node, uses);
  for (int i = 0; i < node; i++) {
    if (uses[i] < 2 || r->at[i].leaf) continue;
    fprintf(out, "  const %s t%d = ", style->type, i);
    print_op(&p, &r->at[i], CHOICE);
    fputs(";\n", out);
  }
  fputs("  return ", out);
  print_node(&p, node, CHOICE);
  fputs(";\n", out);
}

void vtb_formula_print(const vtb_scalar_node *nodes, int node, FILE *out) {
  print_node(&(printer){nodes, &vtb_formula_plain, NULL, out}, node, CHOICE);
}
