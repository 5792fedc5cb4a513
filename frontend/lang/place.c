/* Statements that stand where they mean nothing: yield outside recurrences, input outside
 * models. */
#include "frontend/lang/ast_walk.h"
#include "frontend/lang/parse.h"
#include "ir/diag_codes.h"

typedef struct place {
  vtb_parse *p;
  vtb_decl_kind kind;
  bool in_value; /* inside a block used as a value, which return ends */
  bool in_repeat, in_condition, in_loop;
} place;

static void check_list(place at, const vtb_stmt_list *l);
static void check_expr(place at, const vtb_expr *e);

static void misplaced(place at, vtb_span span, const char *what, const char *where) {
  vtb__error(at.p, (vtb_loc){span.begin, span.end}, VTB_DIAG_MISPLACED, "'%s' cannot stand %sin %s",
             what, at.in_repeat || at.in_value || at.in_loop ? "here " : "",
             vtb__decl_kind_an(at.kind));
  vtb_diag_help(at.p->diags, "it belongs %s", where);
}

static void check_exprs(place at, const vtb_expr_list *l) {
  for (size_t i = 0; i < l->n; i++) check_expr(at, l->at[i]);
}

static void check_value_block(place at, const vtb_stmt_list *l) {
  at.in_value = true;
  check_list(at, l);
}

/* A recurrence's states have axes; an optimizer's have the shape of the tensor that is updated
 * where none are written, and stand in its body itself, whatever its hyperparameters say. */
static void check_states(place at, const vtb_stmt *s) {
  bool axes = at.kind == VTB_DECL_RECURRENCE;
  if (!axes && at.in_condition) misplaced(at, s->span, "state", "directly in the optimizer's body");
  for (size_t i = 0; i < s->u.state.n; i++) {
    const vtb_state_decl *d = s->u.state.at[i];
    if (!axes || d->type) continue;
    vtb__error(at.p, (vtb_loc){d->name.span.begin, d->name.span.end}, VTB_DIAG_STATE_AXES,
               "state '%s' has no axes", d->name.text);
    vtb_diag_help(at.p->diags, "write 'state %s: [K]', or [] for one number", d->name.text);
  }
}

static const char *stmt_word(const vtb_stmt *s) {
  return s->kind == VTB_STMT_OUTPUT   ? "output"
         : s->kind == VTB_STMT_LOSS   ? "loss"
         : s->kind == VTB_STMT_METRIC ? "metric"
                                      : "return";
}

static void check_repeat(place at, const vtb_stmt *s) {
  if (at.kind == VTB_DECL_RECURRENCE) misplaced(at, s->span, "repeat", "in a model, block or fn");
  check_expr(at, s->u.repeat.count);
  at.in_repeat = true;
  check_list(at, &s->u.repeat.body);
}

/* Statements of a model or function as a whole, which no step of a loop can make. */
static bool belongs_around(place at, const vtb_stmt *s) {
  return s->kind == VTB_STMT_OUTPUT || s->kind == VTB_STMT_LOSS || s->kind == VTB_STMT_METRIC ||
         (s->kind == VTB_STMT_RETURN && !at.in_value);
}

/* A loop kept at run time has one body for all steps. */
static void check_loop(place at, const vtb_stmt *s) {
  if (at.kind != VTB_DECL_MODEL && at.kind != VTB_DECL_BLOCK && at.kind != VTB_DECL_FN)
    misplaced(at, s->span, "iterate", "in a model, block or fn");
  check_expr(at, s->u.iterate.test);
  check_expr(at, s->u.iterate.count);
  at.in_loop = at.in_repeat = true;
  at.in_value = false;
  check_list(at, &s->u.iterate.body);
}

static void check_stmt(place at, const vtb_stmt *s) {
  bool optimizer = at.kind == VTB_DECL_OPTIMIZER, model = at.kind == VTB_DECL_MODEL;
  bool recurrence = at.kind == VTB_DECL_RECURRENCE, schedule = at.kind == VTB_DECL_SCHEDULE;
  bool equations = recurrence || optimizer;
  if (at.in_loop && belongs_around(at, s))
    misplaced(at, s->span, stmt_word(s), "before the loop or behind it: it has no value of a step");
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
  case VTB_STMT_LOSS:
  case VTB_STMT_METRIC:
    if (!model) misplaced(at, s->span, stmt_word(s), "in a model");
    check_exprs(at, &s->u.measure.values);
    break;
  case VTB_STMT_TAP:
    if (optimizer || schedule) misplaced(at, s->span, "tap", "in a model, block, fn or recurrence");
    check_expr(at, s->u.named.value);
    break;
  case VTB_STMT_REPEAT:
    check_repeat(at, s);
    break;
  case VTB_STMT_ITERATE:
    check_loop(at, s);
    break;
  case VTB_STMT_IF:
    check_expr(at, s->u.cond.test);
    at.in_condition = true;
    check_list(at, &s->u.cond.yes);
    check_list(at, &s->u.cond.no);
    break;
  case VTB_STMT_SCOPE:
    if (equations || schedule) misplaced(at, s->span, "scope", "in a model, block or fn");
    check_list(at, &s->u.scope.body);
    break;
  case VTB_STMT_RETURN:
    if (recurrence)
      misplaced(at, s->span, "return", "in a block or fn; recurrences yield");
    else if (optimizer)
      misplaced(at, s->span, "return", "in a block or fn; optimizers assign to w and their states");
    else if (schedule && !at.in_value)
      misplaced(at, s->span, "return", "in a block or fn; schedules assign to rate");
    else if (model && !at.in_value)
      misplaced(at, s->span, "return", "in a block or fn; models have outputs");
    check_exprs(at, &s->u.values);
    break;
  case VTB_STMT_YIELD:
    if (!recurrence) misplaced(at, s->span, "yield", "in a recurrence");
    check_exprs(at, &s->u.values);
    break;
  case VTB_STMT_STATE:
    if (!recurrence && !optimizer)
      misplaced(at, s->span, "state", "in a recurrence or an optimizer");
    else
      check_states(at, s);
    break;
  case VTB_STMT_ASSERT:
    check_expr(at, s->u.check.test);
    break;
  }
}

static void check_list(place at, const vtb_stmt_list *l) {
  for (size_t i = 0; i < l->n; i++) check_stmt(at, l->at[i]);
}

typedef struct expr_walk {
  vtb__visitor visitor;
  place at;
} expr_walk;

/* Blocks of statements are checked in their place, and not walked. */
static bool check_node(vtb__visitor *v, const vtb_expr *e) {
  place at = ((expr_walk *)v)->at;
  bool equations = at.kind == VTB_DECL_RECURRENCE || at.kind == VTB_DECL_OPTIMIZER ||
                   at.kind == VTB_DECL_SCHEDULE;
  switch (e->kind) {
  case VTB_EXPR_PARAM:
    if (equations) misplaced(at, e->span, "param", "in a model, block or fn");
    check_exprs(at, &e->u.param.dims);
    return false;
  case VTB_EXPR_ALONG:
    if (equations) misplaced(at, e->span, "along", "in a model, block or fn");
    check_expr(at, e->u.along.path);
    check_value_block(at, &e->u.along.body);
    return false;
  case VTB_EXPR_BLOCK:
    check_value_block(at, &e->u.block);
    return false;
  case VTB_EXPR_IF:
  case VTB_EXPR_SCOPE:
  case VTB_EXPR_REPEAT:
    at.in_value = true;
    check_stmt(at, e->u.stmt);
    return false;
  default:
    return true;
  }
}

static void check_expr(place at, const vtb_expr *e) {
  expr_walk w = {{.expr = check_node}, at};
  vtb__walk_expr(&w.visitor, e);
}

void vtb__check_places(const vtb_decl *d, vtb_parse *p) {
  if (p->give_up) return;
  check_list((place){.p = p, .kind = d->kind}, &d->body);
}
