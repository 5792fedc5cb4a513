/* Statements that stand where they mean nothing: yield outside recurrences, input outside
 * models. */
#include "frontend/lang/parse.h"
#include "ir/diag_codes.h"

typedef struct place {
  vtb_parse *p;
  vtb_decl_kind kind;
  bool in_value; /* inside a block used as a value, which return ends */
  bool in_repeat;
} place;

static void check_list(place at, const vtb_stmt_list *l);
static void check_expr(place at, const vtb_expr *e);

static void misplaced(place at, vtb_span span, const char *what, const char *where) {
  vtb__error(at.p, (vtb_loc){span.begin, span.end}, VTB_DIAG_MISPLACED, "'%s' cannot stand %s %s",
             what, at.in_repeat || at.in_value ? "here in a" : "in a",
             vtb__decl_kind_text(at.kind));
  vtb_diag_help(at.p->diags, "it belongs %s", where);
}

static void check_exprs(place at, const vtb_expr_list *l) {
  for (size_t i = 0; i < l->n; i++) check_expr(at, l->at[i]);
}

static void check_value_block(place at, const vtb_stmt_list *l) {
  at.in_value = true;
  check_list(at, l);
}

static void check_stmt(place at, const vtb_stmt *s) {
  bool recurrence = at.kind == VTB_DECL_RECURRENCE, model = at.kind == VTB_DECL_MODEL;
  switch (s->kind) {
  case VTB_STMT_EXPR:
    check_expr(at, s->u.value);
    break;
  case VTB_STMT_ASSIGN:
  case VTB_STMT_OP_ASSIGN:
    check_expr(at, s->u.assign.value);
    break;
  case VTB_STMT_LET:
    check_expr(at, s->u.let.value);
    break;
  case VTB_STMT_INPUT:
    if (!model)
      misplaced(at, s->span, "input", "in a model");
    else if (at.in_value || at.in_repeat)
      misplaced(at, s->span, "input", "directly in the model's body");
    break;
  case VTB_STMT_OUTPUT:
    if (!model) misplaced(at, s->span, "output", "in a model");
    check_expr(at, s->u.named.value);
    break;
  case VTB_STMT_TAP:
    check_expr(at, s->u.named.value);
    break;
  case VTB_STMT_REPEAT:
    if (recurrence) misplaced(at, s->span, "repeat", "in a model, block or fn");
    check_expr(at, s->u.repeat.count);
    at.in_repeat = true;
    check_list(at, &s->u.repeat.body);
    break;
  case VTB_STMT_IF:
    check_expr(at, s->u.cond.test);
    check_list(at, &s->u.cond.yes);
    check_list(at, &s->u.cond.no);
    break;
  case VTB_STMT_SCOPE:
    if (recurrence) misplaced(at, s->span, "scope", "in a model, block or fn");
    check_list(at, &s->u.scope.body);
    break;
  case VTB_STMT_RETURN:
    if (recurrence)
      misplaced(at, s->span, "return", "in a block or fn; recurrences yield");
    else if (model && !at.in_value)
      misplaced(at, s->span, "return", "in a block or fn; models have outputs");
    check_exprs(at, &s->u.values);
    break;
  case VTB_STMT_YIELD:
    if (!recurrence) misplaced(at, s->span, "yield", "in a recurrence");
    check_exprs(at, &s->u.values);
    break;
  case VTB_STMT_STATE:
    if (!recurrence) misplaced(at, s->span, "state", "in a recurrence");
    break;
  case VTB_STMT_ASSERT:
    check_expr(at, s->u.check.test);
    break;
  }
}

static void check_list(place at, const vtb_stmt_list *l) {
  for (size_t i = 0; i < l->n; i++) check_stmt(at, l->at[i]);
}

static void check_expr(place at, const vtb_expr *e) {
  bool recurrence = at.kind == VTB_DECL_RECURRENCE;
  if (!e) return;
  switch (e->kind) {
  case VTB_EXPR_INTERP:
  case VTB_EXPR_LIST:
    check_exprs(at, &e->u.list);
    break;
  case VTB_EXPR_INDEX:
    check_expr(at, e->u.index.base);
    check_expr(at, e->u.index.index);
    break;
  case VTB_EXPR_MEMBER:
    check_expr(at, e->u.member.base);
    break;
  case VTB_EXPR_CALL:
    check_expr(at, e->u.call.self);
    for (size_t i = 0; i < e->u.call.args.n; i++) check_expr(at, e->u.call.args.at[i]->value);
    break;
  case VTB_EXPR_UNARY:
    check_expr(at, e->u.unary.operand);
    break;
  case VTB_EXPR_BINARY:
    check_expr(at, e->u.binary.left);
    check_expr(at, e->u.binary.right);
    break;
  case VTB_EXPR_CONDITIONAL:
    check_expr(at, e->u.cond.test);
    check_expr(at, e->u.cond.yes);
    check_expr(at, e->u.cond.no);
    break;
  case VTB_EXPR_PARAM:
    if (recurrence) misplaced(at, e->span, "param", "in a model, block or fn");
    check_exprs(at, &e->u.param.dims);
    break;
  case VTB_EXPR_ALONG:
    if (recurrence) misplaced(at, e->span, "along", "in a model, block or fn");
    check_expr(at, e->u.along.path);
    check_value_block(at, &e->u.along.body);
    break;
  case VTB_EXPR_BLOCK:
    check_value_block(at, &e->u.block);
    break;
  case VTB_EXPR_IF:
  case VTB_EXPR_SCOPE:
    at.in_value = true;
    check_stmt(at, e->u.stmt);
    break;
  default:
    break;
  }
}

void vtb__check_places(const vtb_decl *d, vtb_parse *p) {
  if (p->give_up) return;
  check_list((place){.p = p, .kind = d->kind}, &d->body);
}
