/* Domains of ops and expressions with a stable sister; see ir/numerics.h. */
#include "ir/numerics.h"
#include "ir/ops.h"

#include "ir/diag_codes.h"
#include "ir/ranges.h"

#include <string.h>

typedef struct check {
  vtb_diags *diags;
  vtb_map said; /* by code and place */
  int n;
} check;

/* ---- what an operand is ---------------------------------------------------------------------- */

/* Through ops that only move elements. */
static const vtb_value *look(const vtb_value *v) {
  while (v->def && (v->def->op == VTB_OP_reshape || v->def->op == VTB_OP_broadcast ||
                    v->def->op == VTB_OP_transpose || v->def->op == VTB_OP_tap))
    v = v->def->operands[0];
  return v;
}

static const vtb_inst *made_by(const vtb_value *v, vtb_op op) {
  v = look(v);
  return v->def && v->def->op == op ? v->def : NULL;
}

static bool is_number(const vtb_value *v, double number) {
  const vtb_inst *i = made_by(v, VTB_OP_constant);
  return i && !vtb_attr_find(i, "data") && vtb_attr_float(i, "value", 0) == number;
}

/* The other operand of number + x or x + number; NULL if v is no such sum. */
static const vtb_value *added_to(const vtb_value *v, double number) {
  const vtb_inst *i = made_by(v, VTB_OP_add);
  if (i && is_number(i->operands[0], number)) return i->operands[1];
  if (i && is_number(i->operands[1], number)) return i->operands[0];
  i = made_by(v, VTB_OP_sub);
  return i && is_number(i->operands[1], -number) ? i->operands[0] : NULL;
}

/* 1 - a * a */
static bool is_one_less_square(const vtb_value *v) {
  const vtb_inst *i = made_by(v, VTB_OP_sub), *m;
  if (!i || !is_number(i->operands[0], 1)) return false;
  m = made_by(i->operands[1], VTB_OP_mul);
  return made_by(i->operands[1], VTB_OP_square) || (m && m->operands[0] == m->operands[1]);
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool is_new(check *c, int code, vtb_span span) {
  char key[64];
  snprintf(key, sizeof key, "%d %p %u", code, (const void *)span.source, span.begin);
  if (vtb_map_has(&c->said, key)) return false;
  vtb_map_set(&c->said, key, c);
  c->n++;
  return true;
}

static void say(check *c, int code, vtb_span span, const char *what, const char *help) {
  if (!is_new(c, code, span)) return;
  vtb_diag_warning(c->diags, code, span, "%s", what);
  if (span.source && span.source->library && span.scope)
    vtb_diag_note(c->diags, VTB_NO_SPAN, "in %s", span.scope);
  if (help) vtb_diag_help(c->diags, "%s", help);
}

/* ---- domains --------------------------------------------------------------------------------- */

static void check_div(check *c, const vtb_inst *i, const vtb_range *x) {
  if (!vtb_range_has_zero(x[1])) return;
  const vtb_inst *root = made_by(i->operands[1], VTB_OP_sqrt);
  say(c, VTB_DIAG_OUT_OF_DOMAIN, i->span, "this divides by a number that can be 0",
      root           ? "x * rsqrt(y + eps) divides by a root that is never 0"
      : x[1].lo >= 0 ? "max(y, 1e-6) or y + 1e-6 keeps it from 0"
                     : "where its sign is known, max(abs(y), 1e-6) keeps it from 0");
}

static void check_log(check *c, const vtb_inst *i, const vtb_range *x) {
  if (x[0].lo > 0 || (x[0].lo >= 0 && x[0].nonzero)) return;
  say(c, VTB_DIAG_OUT_OF_DOMAIN, i->span,
      x[0].lo < 0 ? "the logarithm of a number that can be negative is NaN"
                  : "the logarithm of a number that can be 0 is -infinity, and so is its gradient",
      x[0].lo < 0 ? "log(max(x, 1e-6)), or keep the logarithm and take exp of it where the number "
                    "itself is needed"
                  : "log(x + 1e-6) or log(max(x, 1e-6)) stay finite");
}

static void check_log1p(check *c, const vtb_inst *i, const vtb_range *x) {
  if (x[0].lo > -1) return;
  bool gate = made_by(i->operands[0], VTB_OP_neg) &&
              made_by(look(i->operands[0])->def->operands[0], VTB_OP_sigmoid);
  say(c, VTB_DIAG_OUT_OF_DOMAIN, i->span, "log1p of a number that can be -1 or below",
      gate ? "log1p(-sigmoid(x)) is log_sigmoid(-x)" : "log1p(max(x, -0.999999)) stays finite");
}

static void check_root(check *c, const vtb_inst *i, const vtb_range *x) {
  if (x[0].lo > 0 || (x[0].lo >= 0 && x[0].nonzero)) return;
  bool inverse = i->op == VTB_OP_rsqrt, squares = is_one_less_square(i->operands[0]);
  if (x[0].lo < 0)
    say(c, VTB_DIAG_OUT_OF_DOMAIN, i->span, "the root of a number that can be negative is NaN",
        squares ? "with a = exp(log_a), log_a <= 0: sqrt(max(-expm1(2 * log_a), 1e-6))"
                : "sqrt(max(x, 1e-6)) stays finite, and its gradient too");
  else if (inverse)
    say(c, VTB_DIAG_OUT_OF_DOMAIN, i->span, "1 / root of a number that can be 0 is infinite",
        "rsqrt(x + eps), with eps = 1e-6 say");
  else
    say(c, VTB_DIAG_INFINITE_GRADIENT, i->span,
        squares ? "1 - a * a can be 0, where the gradient of its root is infinite"
                : "the gradient of a root is infinite where its number is 0",
        squares ? "with a = exp(log_a): sqrt(max(-expm1(2 * log_a), 1e-6)) keeps digits near a = 1 "
                  "and the gradient finite"
                : "sqrt(x + eps) or sqrt(max(x, eps)), with eps = 1e-6 say");
}

/* x^y is exp(y log x): x is above 0. */
static void check_pow(check *c, const vtb_inst *i, const vtb_range *x) {
  if (x[0].lo > 0 || (x[0].lo >= 0 && (x[0].nonzero || x[1].lo >= 1))) return;
  if (x[0].lo < 0)
    say(c, VTB_DIAG_OUT_OF_DOMAIN, i->span, "pow of a number that can be negative is NaN",
        is_number(i->operands[1], 2) ? "pow(x, 2) is square(x)"
                                     : "pow(max(x, 1e-6), y); whole powers are products");
  else
    say(c, VTB_DIAG_INFINITE_GRADIENT, i->span,
        "the gradient of pow is infinite where its number is 0", "pow(x + 1e-6, y)");
}

/* ---- digits ---------------------------------------------------------------------------------- */

static void check_sum(check *c, const vtb_inst *i) {
  const vtb_value *other = added_to(i->results[0], -1);
  if (other && made_by(other, VTB_OP_exp))
    say(c, VTB_DIAG_LOSES_DIGITS, i->span, "exp(x) - 1 loses its digits where x is near 0",
        "expm1(x) is the same, accurately");
}

static void check_log_form(check *c, const vtb_inst *i) {
  const vtb_value *x = i->operands[0], *other = added_to(x, 1);
  const vtb_inst *quotient = made_by(x, VTB_OP_div);
  if (other && made_by(other, VTB_OP_exp))
    say(c, VTB_DIAG_LOSES_DIGITS, i->span, "log(1 + exp(x)) overflows for large x",
        "softplus(x) is the same, finite for every x");
  else if (other)
    say(c, VTB_DIAG_LOSES_DIGITS, i->span, "log(1 + x) loses its digits where x is near 0",
        "log1p(x) is the same, accurately");
  else if (made_by(x, VTB_OP_sigmoid))
    say(c, VTB_DIAG_LOSES_DIGITS, i->span, "log(sigmoid(x)) underflows for small x",
        "log_sigmoid(x) is the same, finite for every x");
  else if (quotient && made_by(quotient->operands[0], VTB_OP_exp) &&
           made_by(quotient->operands[1], VTB_OP_reduce_sum))
    say(c, VTB_DIAG_LOSES_DIGITS, i->span, "the logarithm of a softmax underflows",
        "with y = x - stop_gradient(amax(x)): y - log(sum(exp(y)))");
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void watch(void *user, const vtb_inst *i, const vtb_range *x) {
  check *c = user;
  switch (i->op) {
  case VTB_OP_div:
    check_div(c, i, x);
    break;
  case VTB_OP_log:
    check_log_form(c, i);
    check_log(c, i, x);
    break;
  case VTB_OP_log1p:
    check_log1p(c, i, x);
    break;
  case VTB_OP_sqrt:
  case VTB_OP_rsqrt:
    check_root(c, i, x);
    break;
  case VTB_OP_pow:
    check_pow(c, i, x);
    break;
  case VTB_OP_add:
  case VTB_OP_sub:
    check_sum(c, i);
    break;
  default:
    break;
  }
}

int vtb_numerics_check(vtb_module *m, vtb_diags *diags) {
  check c = {.diags = diags};
  vtb_ranges(m->entry, watch, &c);
  vtb_map_free(&c.said);
  return c.n;
}
