/* The tree, walked in the order of the text. */
#include "frontend/lang/ast_walk.h"

static void walk_exprs(vtb__visitor *v, const vtb_expr_list *l);

static void walk_stmt(vtb__visitor *v, const vtb_stmt *s);

void vtb__walk_type(vtb__visitor *v, const vtb_type_expr *t) {
  if (!t || (v->type && !v->type(v, t))) return;
  walk_exprs(v, &t->dims);
  if (t->kind == VTB_TYPE_LIST || t->kind == VTB_TYPE_VIEW) vtb__walk_type(v, t->elem);
}

void vtb__walk_expr(vtb__visitor *v, const vtb_expr *x) {
  if (!x || (v->expr && !v->expr(v, x))) return;
  switch (x->kind) {
  case VTB_EXPR_INTERP:
  case VTB_EXPR_LIST:
    walk_exprs(v, &x->u.list);
    break;
  case VTB_EXPR_INDEX:
    vtb__walk_expr(v, x->u.index.base);
    walk_exprs(v, &x->u.index.places);
    break;
  case VTB_EXPR_RANGE:
    vtb__walk_expr(v, x->u.range.from);
    vtb__walk_expr(v, x->u.range.to);
    vtb__walk_expr(v, x->u.range.by);
    break;
  case VTB_EXPR_MEMBER:
    vtb__walk_expr(v, x->u.member.base);
    break;
  case VTB_EXPR_CALL:
    vtb__walk_expr(v, x->u.call.self);
    for (size_t i = 0; i < x->u.call.args.n; i++) vtb__walk_expr(v, x->u.call.args.at[i]->value);
    break;
  case VTB_EXPR_UNARY:
    vtb__walk_expr(v, x->u.unary.operand);
    break;
  case VTB_EXPR_BINARY:
    vtb__walk_expr(v, x->u.binary.left);
    vtb__walk_expr(v, x->u.binary.right);
    break;
  case VTB_EXPR_CONDITIONAL:
    vtb__walk_expr(v, x->u.cond.test);
    vtb__walk_expr(v, x->u.cond.yes);
    vtb__walk_expr(v, x->u.cond.no);
    break;
  case VTB_EXPR_PARAM:
    vtb__walk_expr(v, x->u.param.name);
    walk_exprs(v, &x->u.param.dims);
    vtb__walk_expr(v, x->u.param.init);
    break;
  case VTB_EXPR_ALONG:
    vtb__walk_expr(v, x->u.along.path);
    vtb__walk_expr(v, x->u.along.suffix);
    vtb__walk_stmts(v, &x->u.along.body);
    break;
  case VTB_EXPR_BLOCK:
    vtb__walk_stmts(v, &x->u.block);
    break;
  case VTB_EXPR_IF:
  case VTB_EXPR_SCOPE:
  case VTB_EXPR_REPEAT:
    walk_stmt(v, x->u.stmt);
    break;
  default:
    break;
  }
}

static void walk_exprs(vtb__visitor *v, const vtb_expr_list *l) {
  for (size_t i = 0; i < l->n; i++) vtb__walk_expr(v, l->at[i]);
}

void vtb__walk_stmts(vtb__visitor *v, const vtb_stmt_list *l) {
  for (size_t i = 0; i < l->n; i++) walk_stmt(v, l->at[i]);
}

static void walk_stmt(vtb__visitor *v, const vtb_stmt *s) {
  if (!s || (v->stmt && !v->stmt(v, s))) return;
  switch (s->kind) {
  case VTB_STMT_EXPR:
    vtb__walk_expr(v, s->u.value);
    break;
  case VTB_STMT_ASSIGN:
  case VTB_STMT_OP_ASSIGN:
    vtb__walk_expr(v, s->u.assign.value);
    break;
  case VTB_STMT_LET:
    vtb__walk_expr(v, s->u.let.value);
    break;
  case VTB_STMT_INPUT:
    vtb__walk_type(v, s->u.input.type);
    break;
  case VTB_STMT_OUTPUT:
  case VTB_STMT_TAP:
    vtb__walk_expr(v, s->u.named.name);
    vtb__walk_expr(v, s->u.named.value);
    break;
  case VTB_STMT_LOSS:
  case VTB_STMT_METRIC:
    vtb__walk_expr(v, s->u.measure.name);
    walk_exprs(v, &s->u.measure.values);
    break;
  case VTB_STMT_REPEAT:
    vtb__walk_expr(v, s->u.repeat.count);
    vtb__walk_expr(v, s->u.repeat.scope);
    vtb__walk_stmts(v, &s->u.repeat.body);
    break;
  case VTB_STMT_ITERATE:
    vtb__walk_expr(v, s->u.iterate.test);
    vtb__walk_expr(v, s->u.iterate.count);
    vtb__walk_stmts(v, &s->u.iterate.body);
    break;
  case VTB_STMT_IF:
    vtb__walk_expr(v, s->u.cond.test);
    vtb__walk_stmts(v, &s->u.cond.yes);
    vtb__walk_stmts(v, &s->u.cond.no);
    break;
  case VTB_STMT_SCOPE:
    vtb__walk_expr(v, s->u.scope.name);
    vtb__walk_stmts(v, &s->u.scope.body);
    break;
  case VTB_STMT_RETURN:
  case VTB_STMT_YIELD:
    walk_exprs(v, &s->u.values);
    break;
  case VTB_STMT_STATE:
    for (size_t i = 0; i < s->u.state.n; i++) vtb__walk_type(v, s->u.state.at[i]->type);
    break;
  case VTB_STMT_ASSERT:
    vtb__walk_expr(v, s->u.check.test);
    vtb__walk_expr(v, s->u.check.message);
    break;
  }
}

void vtb__walk_decl(vtb__visitor *v, const vtb_decl *d) {
  for (size_t i = 0; i < d->params.n; i++) {
    vtb__walk_type(v, d->params.at[i]->type);
    vtb__walk_expr(v, d->params.at[i]->fallback);
  }
  for (size_t i = 0; i < d->n_results; i++) vtb__walk_type(v, d->results[i]);
  vtb__walk_type(v, d->type);
  vtb__walk_expr(v, d->value);
  vtb__walk_expr(v, d->prepare);
  vtb__walk_stmts(v, &d->body);
}
