/* Nodes of the syntax tree. Every node knows its depth; one that would be too deep ends the parse
 * with a message, so that recursion over trees is safe. */
#include "frontend/lang/parse.h"
#include "ir/diag_codes.h"

#include <string.h>

/* ---- lists, names ---------------------------------------------------------------------------- */

vtb_list *vtb__list(vtb_parse *p) { return VTB_NEW(&p->unit->arena, vtb_list); }

vtb_list *vtb__list_add(vtb_parse *p, vtb_list *l, void *item) {
  if (!item) return l; /* after a syntax error */
  if (l->n == l->cap) {
    size_t cap = l->cap ? 2 * l->cap : 4;
    void **at = VTB_NEW_ARRAY(&p->unit->arena, void *, cap);
    if (l->n) memcpy(at, l->at, l->n * sizeof *at);
    l->at = at;
    l->cap = cap;
  }
  l->at[l->n++] = item;
  return l;
}

static vtb_expr_list exprs(vtb_list *l) { return (vtb_expr_list){(vtb_expr **)l->at, l->n}; }

static vtb_stmt_list stmts(vtb_parse *p, vtb_block_text b) {
  return (vtb_stmt_list){(vtb_stmt **)b.stmts->at, b.stmts->n, vtb__span(p, b.loc)};
}

vtb_name *vtb__name(vtb_parse *p, const char *text, vtb_loc loc) {
  vtb_name *n = VTB_NEW(&p->unit->arena, vtb_name);
  n->text = text;
  n->span = vtb__span(p, loc);
  return n;
}

/* "front.last", of at most VTB_MAX_NESTING parts. */
vtb_name *vtb__dotted(vtb_parse *p, vtb_name *front, const vtb_name *last, vtb_loc loc) {
  int parts = 2;
  for (const char *c = front->text; *c; c++) parts += *c == '.';
  if (parts > VTB_MAX_NESTING) {
    vtb__report_exhausted(p, loc);
    return front;
  }
  return vtb__name(p, vtb_arena_printf(&p->unit->arena, "%s.%s", front->text, last->text), loc);
}

static vtb_name name_or_none(const vtb_name *n) { return n ? *n : (vtb_name){0}; }

static vtb_name *names(vtb_parse *p, const vtb_list *l) {
  vtb_name *at = VTB_NEW_ARRAY(&p->unit->arena, vtb_name, l->n + 1);
  for (size_t i = 0; i < l->n; i++) at[i] = *(vtb_name *)l->at[i];
  return at;
}

/* ---- depth ----------------------------------------------------------------------------------- */

static int limited(vtb_parse *p, int depth, vtb_span span) {
  if (depth <= VTB_MAX_NESTING) return depth;
  vtb__report_exhausted(p, (vtb_loc){span.begin, span.end});
  return 1; /* give_up is set: nothing looks at this tree */
}

static int deepest(const vtb_expr_list *l) {
  int depth = 0;
  for (size_t i = 0; i < l->n; i++)
    if (l->at[i]->depth > depth) depth = l->at[i]->depth;
  return depth;
}

static int deepest_stmt(const vtb_stmt_list *l) {
  int depth = 0;
  for (size_t i = 0; i < l->n; i++)
    if (l->at[i]->depth > depth) depth = l->at[i]->depth;
  return depth;
}

static int max2(int a, int b) { return a > b ? a : b; }

static int depth_of(const vtb_expr *e) { return e ? e->depth : 0; }

static vtb_expr *expr_at(vtb_parse *p, vtb_expr_kind kind, int children, vtb_loc loc) {
  vtb_expr *e = VTB_NEW(&p->unit->arena, vtb_expr);
  e->kind = kind;
  e->span = vtb__span(p, loc);
  e->depth = limited(p, children + 1, e->span);
  return e;
}

static vtb_stmt *stmt_at(vtb_parse *p, vtb_stmt_kind kind, int children, vtb_loc loc) {
  vtb_stmt *s = VTB_NEW(&p->unit->arena, vtb_stmt);
  s->kind = kind;
  s->span = vtb__span(p, loc);
  s->depth = limited(p, children + 1, s->span);
  return s;
}

/* ---- expressions ----------------------------------------------------------------------------- */

vtb_expr *vtb__expr_new(vtb_parse *p, vtb_expr_kind kind, vtb_loc loc) {
  return expr_at(p, kind, 0, loc);
}

static vtb_loc loc_of(vtb_span s) { return (vtb_loc){s.begin, s.end}; }

vtb_expr *vtb__expr_text(vtb_parse *p, const vtb_name *n) {
  vtb_expr *e = expr_at(p, VTB_EXPR_STRING, 0, loc_of(n->span));
  e->u.str = n->text;
  return e;
}

vtb_expr *vtb__expr_name(vtb_parse *p, const vtb_name *n) {
  vtb_expr *e = expr_at(p, VTB_EXPR_NAME, 0, loc_of(n->span));
  e->u.name = n->text;
  return e;
}

vtb_expr *vtb__expr_list_of(vtb_parse *p, vtb_expr_kind kind, vtb_list *items, vtb_loc loc) {
  vtb_expr_list l = exprs(items);
  vtb_expr *e = expr_at(p, kind, deepest(&l), loc);
  e->u.list = l;
  return e;
}

vtb_expr *vtb__expr_unary(vtb_parse *p, vtb_unary_op op, vtb_expr *x, vtb_loc loc) {
  vtb_expr *e = expr_at(p, VTB_EXPR_UNARY, x->depth, loc);
  e->u.unary.op = op;
  e->u.unary.operand = x;
  return e;
}

vtb_expr *vtb__expr_binary(vtb_parse *p, vtb_binary_op op, vtb_expr *l, vtb_expr *r, vtb_loc op_loc,
                           vtb_loc loc) {
  vtb_expr *e = expr_at(p, VTB_EXPR_BINARY, max2(l->depth, r->depth), loc);
  e->u.binary.op = op;
  e->u.binary.op_span = vtb__span(p, op_loc);
  e->u.binary.left = l;
  e->u.binary.right = r;
  return e;
}

vtb_expr *vtb__expr_conditional(vtb_parse *p, vtb_expr *c, vtb_expr *a, vtb_expr *b, vtb_loc loc) {
  vtb_expr *e = expr_at(p, VTB_EXPR_CONDITIONAL, max2(c->depth, max2(a->depth, b->depth)), loc);
  e->u.cond.test = c;
  e->u.cond.yes = a;
  e->u.cond.no = b;
  return e;
}

vtb_expr *vtb__expr_index(vtb_parse *p, vtb_expr *base, vtb_list *places, vtb_loc loc) {
  vtb_expr_list l = exprs(places);
  vtb_expr *e = expr_at(p, VTB_EXPR_INDEX, max2(base->depth, deepest(&l)), loc);
  e->u.index.base = base;
  e->u.index.places = l;
  return e;
}

vtb_expr *vtb__expr_range(vtb_parse *p, vtb_expr *from, vtb_expr *to, vtb_expr *by, vtb_loc loc) {
  int depth = max2(depth_of(from), max2(depth_of(to), depth_of(by)));
  vtb_expr *e = expr_at(p, VTB_EXPR_RANGE, depth, loc);
  e->u.range.from = from;
  e->u.range.to = to;
  e->u.range.by = by;
  return e;
}

vtb_expr *vtb__expr_member(vtb_parse *p, vtb_expr *base, const vtb_name *member, vtb_loc loc) {
  vtb_expr *e = expr_at(p, VTB_EXPR_MEMBER, base->depth, loc);
  e->u.member.base = base;
  e->u.member.member = *member;
  return e;
}

vtb_expr *vtb__expr_call(vtb_parse *p, vtb_expr *self, const vtb_name *callee, vtb_list *args,
                         vtb_loc loc) {
  int depth = depth_of(self);
  bool named = false;
  for (size_t i = 0; i < args->n; i++) {
    const vtb_arg *a = args->at[i];
    depth = max2(depth, depth_of(a->value));
    if (a->name.text)
      named = true;
    else if (named && a->value->kind != VTB_EXPR_ERROR)
      vtb__error(p, loc_of(a->span), VTB_DIAG_POSITIONAL_AFTER_NAMED,
                 "positional argument after a named one");
  }
  vtb_expr *e = expr_at(p, VTB_EXPR_CALL, depth, loc);
  e->u.call.callee = *callee;
  e->u.call.self = self;
  e->u.call.args = (vtb_arg_list){(vtb_arg **)args->at, args->n};
  return e;
}

vtb_expr *vtb__expr_param(vtb_parse *p, vtb_expr *name, const vtb_type_expr *shape, vtb_expr *init,
                          int flags, vtb_loc loc) {
  vtb_expr *e =
      expr_at(p, VTB_EXPR_PARAM, max2(max2(name->depth, init->depth), deepest(&shape->dims)), loc);
  e->u.param.name = name;
  e->u.param.dims = shape->dims;
  e->u.param.dims_span = shape->span;
  e->u.param.init = init;
  e->u.param.no_decay = flags & 1;
  e->u.param.buffer = flags & 2;
  e->u.param.frozen = flags & 4;
  return e;
}

vtb_expr *vtb__expr_along(vtb_parse *p, bool each, vtb_expr *path, vtb_expr *suffix,
                          const vtb_name *as, vtb_block_text body, vtb_loc loc) {
  vtb_stmt_list list = stmts(p, body);
  vtb_expr *e = expr_at(p, VTB_EXPR_ALONG,
                        max2(max2(path->depth, depth_of(suffix)), deepest_stmt(&list)), loc);
  e->u.along.each = each;
  e->u.along.path = path;
  e->u.along.suffix = suffix;
  e->u.along.as = name_or_none(as);
  e->u.along.body = list;
  return e;
}

vtb_expr *vtb__expr_block(vtb_parse *p, vtb_block_text body) {
  vtb_stmt_list list = stmts(p, body);
  vtb_expr *e = expr_at(p, VTB_EXPR_BLOCK, deepest_stmt(&list), body.loc);
  e->u.block = list;
  return e;
}

vtb_expr *vtb__expr_stmt(vtb_parse *p, vtb_expr_kind kind, vtb_stmt *s) {
  vtb_expr *e = expr_at(p, kind, s->depth, loc_of(s->span));
  e->u.stmt = s;
  return e;
}

vtb_arg *vtb__arg(vtb_parse *p, const vtb_name *name, vtb_expr *value, vtb_loc loc) {
  vtb_arg *a = VTB_NEW(&p->unit->arena, vtb_arg);
  a->name = name_or_none(name);
  a->value = value;
  a->span = vtb__span(p, loc);
  return a;
}

/* ---- statements ------------------------------------------------------------------------------ */

vtb_stmt *vtb__stmt_value(vtb_parse *p, vtb_expr *e) {
  vtb_stmt *s = stmt_at(p, VTB_STMT_EXPR, e->depth, loc_of(e->span));
  s->u.value = e;
  return s;
}

vtb_stmt *vtb__stmt_assign(vtb_parse *p, vtb_list *targets, vtb_expr *value, vtb_loc op_loc,
                           vtb_loc loc) {
  vtb_stmt *s = stmt_at(p, VTB_STMT_ASSIGN, value->depth, loc);
  s->u.assign.targets = names(p, targets);
  s->u.assign.n_targets = targets->n;
  s->u.assign.op_span = vtb__span(p, op_loc);
  s->u.assign.value = value;
  return s;
}

vtb_stmt *vtb__stmt_op_assign(vtb_parse *p, const vtb_name *target, vtb_binary_op op,
                              vtb_expr *value, vtb_loc op_loc, vtb_loc loc) {
  vtb_stmt *s = stmt_at(p, VTB_STMT_OP_ASSIGN, value->depth, loc);
  s->u.assign.targets = VTB_NEW(&p->unit->arena, vtb_name);
  *s->u.assign.targets = *target;
  s->u.assign.n_targets = 1;
  s->u.assign.op = op;
  s->u.assign.op_span = vtb__span(p, op_loc);
  s->u.assign.value = value;
  return s;
}

vtb_stmt *vtb__stmt_let(vtb_parse *p, const vtb_name *name, vtb_expr *value, vtb_loc loc) {
  vtb_stmt *s = stmt_at(p, VTB_STMT_LET, value->depth, loc);
  s->u.let.name = *name;
  s->u.let.value = value;
  return s;
}

vtb_stmt *vtb__stmt_input(vtb_parse *p, vtb_list *list, vtb_type_expr *type, vtb_loc loc) {
  const vtb_type_expr *of = type->elem ? type->elem : type;
  vtb_stmt *s = stmt_at(p, VTB_STMT_INPUT, deepest(&of->dims), loc);
  s->u.input.names = names(p, list);
  s->u.input.n_names = list->n;
  s->u.input.type = type;
  return s;
}

vtb_stmt *vtb__stmt_named(vtb_parse *p, vtb_stmt_kind kind, vtb_expr *name, vtb_expr *value,
                          vtb_loc loc) {
  vtb_stmt *s = stmt_at(p, kind, max2(name->depth, value->depth), loc);
  s->u.named.name = name;
  s->u.named.value = value;
  return s;
}

vtb_stmt *vtb__stmt_measure(vtb_parse *p, vtb_stmt_kind kind, vtb_expr *name, bool lower,
                            vtb_list *values, vtb_loc loc) {
  vtb_expr_list l = exprs(values);
  vtb_stmt *s = stmt_at(p, kind, max2(name->depth, deepest(&l)), loc);
  s->u.measure.name = name;
  s->u.measure.values = l;
  s->u.measure.lower = lower;
  return s;
}

vtb_stmt *vtb__stmt_repeat(vtb_parse *p, vtb_expr *count, const vtb_name *as, vtb_expr *scope,
                           vtb_block_text body, vtb_loc loc) {
  vtb_stmt_list list = stmts(p, body);
  vtb_stmt *s = stmt_at(p, VTB_STMT_REPEAT,
                        max2(max2(count->depth, depth_of(scope)), deepest_stmt(&list)), loc);
  s->u.repeat.count = count;
  s->u.repeat.as = name_or_none(as);
  s->u.repeat.scope = scope;
  s->u.repeat.body = list;
  return s;
}

vtb_stmt *vtb__stmt_iterate(vtb_parse *p, vtb_expr *test, const vtb_name *most, vtb_expr *count,
                            const vtb_name *as, vtb_block_text body, vtb_loc loc) {
  vtb_stmt_list list = stmts(p, body);
  vtb_stmt *s = stmt_at(p, VTB_STMT_ITERATE,
                        max2(max2(depth_of(test), depth_of(count)), deepest_stmt(&list)), loc);
  s->u.iterate.test = test;
  s->u.iterate.most = name_or_none(most);
  s->u.iterate.count = count;
  s->u.iterate.as = name_or_none(as);
  s->u.iterate.body = list;
  return s;
}

vtb_stmt *vtb__stmt_if(vtb_parse *p, vtb_expr *test, vtb_block_text yes, const vtb_block_text *no,
                       vtb_loc loc) {
  vtb_stmt_list a = stmts(p, yes), b = {0};
  if (no) b = stmts(p, *no);
  vtb_stmt *s =
      stmt_at(p, VTB_STMT_IF, max2(test->depth, max2(deepest_stmt(&a), deepest_stmt(&b))), loc);
  s->u.cond.test = test;
  s->u.cond.yes = a;
  s->u.cond.has_else = no != NULL;
  s->u.cond.no = b;
  return s;
}

vtb_stmt *vtb__stmt_scope(vtb_parse *p, vtb_scope_kind kind, vtb_expr *name, vtb_block_text body,
                          vtb_loc loc) {
  vtb_stmt_list list = stmts(p, body);
  vtb_stmt *s = stmt_at(p, VTB_STMT_SCOPE, max2(depth_of(name), deepest_stmt(&list)), loc);
  s->u.scope.kind = kind;
  s->u.scope.name = name;
  s->u.scope.body = list;
  return s;
}

vtb_stmt *vtb__stmt_values(vtb_parse *p, vtb_stmt_kind kind, vtb_list *values, vtb_loc loc) {
  vtb_expr_list l = exprs(values);
  vtb_stmt *s = stmt_at(p, kind, deepest(&l), loc);
  s->u.values = l;
  return s;
}

vtb_stmt *vtb__stmt_state(vtb_parse *p, vtb_list *states, vtb_loc loc) {
  int depth = 0;
  for (size_t i = 0; i < states->n; i++)
    if (((vtb_state_decl *)states->at[i])->type)
      depth = max2(depth, deepest(&((vtb_state_decl *)states->at[i])->type->dims));
  vtb_stmt *s = stmt_at(p, VTB_STMT_STATE, depth, loc);
  s->u.state.at = (vtb_state_decl **)states->at;
  s->u.state.n = states->n;
  return s;
}

vtb_stmt *vtb__stmt_assert(vtb_parse *p, vtb_expr *test, vtb_expr *message, vtb_loc loc) {
  vtb_stmt *s = stmt_at(p, VTB_STMT_ASSERT, max2(test->depth, depth_of(message)), loc);
  s->u.check.test = test;
  s->u.check.message = message;
  return s;
}

vtb_list *vtb__stmts_add(vtb_parse *p, vtb_list *l, vtb_stmt *s) {
  if (s && l->n && s->kind == VTB_STMT_EXPR && p->source->text[s->span.begin] == '-') {
    vtb__error(p, (vtb_loc){s->span.begin, s->span.begin + 1}, VTB_DIAG_LEADING_MINUS,
               "a line cannot begin with '-': the statement before it has ended");
    vtb_diag_help(p->diags,
                  "put the '-' at the end of the line before, or brackets around the negation");
  }
  return vtb__list_add(p, l, s);
}

/* ---- types, parameters ----------------------------------------------------------------------- */

/* A word that is not `view` leaves a type that nothing has, and its message. */
vtb_type_expr *vtb__type_view(vtb_parse *p, const vtb_name *word, const vtb_name *picture,
                              vtb_type_expr *of, vtb_loc loc) {
  if (strcmp(word->text, "view") != 0) return vtb__type_dims(p, word, NULL, loc);
  vtb_type_expr *t = vtb__type(p, VTB_TYPE_VIEW, loc);
  t->name = *picture;
  t->elem = of;
  return t;
}

vtb_type_expr *vtb__type(vtb_parse *p, vtb_type_kind kind, vtb_loc loc) {
  vtb_type_expr *t = VTB_NEW(&p->unit->arena, vtb_type_expr);
  t->kind = kind;
  t->span = vtb__span(p, loc);
  return t;
}

vtb_type_expr *vtb__type_dims(vtb_parse *p, const vtb_name *name, vtb_list *dims, vtb_loc loc) {
  vtb_type_expr *t = vtb__type(p, name ? VTB_TYPE_NAME : VTB_TYPE_SHAPE, loc);
  t->name = name_or_none(name);
  t->has_dims = dims != NULL;
  if (dims) t->dims = exprs(dims);
  return t;
}

vtb_type_expr *vtb__type_choices(vtb_parse *p, vtb_list *choices, vtb_loc loc) {
  vtb_type_expr *t = vtb__type(p, VTB_TYPE_CHOICE, loc);
  t->choices = (vtb_choice **)choices->at;
  t->n_choices = choices->n;
  return t;
}

vtb_choice *vtb__choice(vtb_parse *p, const vtb_name *name, vtb_list *aliases) {
  vtb_choice *c = VTB_NEW(&p->unit->arena, vtb_choice);
  c->name = *name;
  c->aliases = names(p, aliases);
  c->n_aliases = aliases->n;
  return c;
}

vtb_state_decl *vtb__state(vtb_parse *p, const vtb_name *name, vtb_type_expr *type) {
  vtb_state_decl *s = VTB_NEW(&p->unit->arena, vtb_state_decl);
  s->name = *name;
  s->type = type;
  return s;
}

vtb_param *vtb__param(vtb_parse *p, const vtb_name *name, vtb_type_expr *type, vtb_expr *fallback,
                      vtb_list *aliases, vtb_loc loc) {
  if (!type) {
    vtb__error(p, loc_of(name->span), VTB_DIAG_PARAMETER_WITHOUT_TYPE, "parameter '%s' has no type",
               name->text);
    vtb_diag_help(p->diags, "write '%s: tensor', or tokens, int, float, bool, string, [int] ...",
                  name->text);
    type = vtb__type_dims(p, vtb__name(p, "tensor", loc), NULL, loc);
  }
  vtb_param *param = VTB_NEW(&p->unit->arena, vtb_param);
  param->name = *name;
  param->type = type;
  param->fallback = fallback;
  param->aliases = names(p, aliases);
  param->n_aliases = aliases->n;
  param->span = vtb__span(p, loc);
  return param;
}

/* ---- declarations ---------------------------------------------------------------------------- */

/* [int] was parsed as a shape; outside recurrences it is a list type. */
static vtb_type_expr *list_type(vtb_parse *p, const vtb_expr_list *dims, vtb_span span) {
  vtb_type_expr *t = vtb__type(p, VTB_TYPE_LIST, loc_of(span));
  const vtb_expr *e = dims->n == 1 ? dims->at[0] : NULL;
  if (e && e->kind == VTB_EXPR_NAME) {
    vtb_name name = {e->u.name, e->span};
    t->elem = vtb__type_dims(p, &name, NULL, loc_of(e->span));
  } else if (e && e->kind == VTB_EXPR_LIST) {
    t->elem = list_type(p, &e->u.list, e->span);
  } else {
    if (!e || e->kind != VTB_EXPR_ERROR)
      vtb__error(p, loc_of(span), VTB_DIAG_BAD_LIST_TYPE,
                 "a list type is one type in brackets, such as [int]");
    t->elem = t;
  }
  return t;
}

/* Text of a comment without its marks, appended as lines. */
static void comment_text(vtb_strbuf *out, const char *text, vtb_span c) {
  const char *at = text + c.begin + 2, *end = text + c.end;
  bool block = text[c.begin + 1] == '*';
  if (block) end -= 2;
  while (at < end) {
    const char *line_end = memchr(at, '\n', (size_t)(end - at));
    if (!line_end) line_end = end;
    while (at < line_end && (*at == ' ' || *at == '\t')) at++;
    if (block && at < line_end && *at == '*') at++;
    while (at < line_end && (*at == ' ' || *at == '\t')) at++;
    const char *last = line_end;
    while (last > at && (last[-1] == ' ' || last[-1] == '\t' || last[-1] == '\r')) last--;
    if (out->n) vtb_strbuf_putc(out, '\n');
    vtb_strbuf_write(out, at, (size_t)(last - at));
    at = line_end + 1;
  }
}

/* Exactly one line end, and blanks, between two places. */
static bool directly_above(const char *text, uint32_t end, uint32_t begin) {
  int lines = 0;
  for (; end < begin; end++) {
    if (text[end] == '\n')
      lines++;
    else if (!strchr(" \t\r", text[end]))
      return false;
  }
  return lines == 1;
}

static const char *doc_of(vtb_parse *p, uint32_t begin) {
  size_t last = p->comments.n;
  while (last > 0 && p->comments.at[last - 1].begin >= begin) last--;
  size_t first = last;
  uint32_t next = begin;
  while (first > 0 && directly_above(p->source->text, p->comments.at[first - 1].end, next) &&
         vtb__first_on_line(p, p->comments.at[first - 1].begin))
    next = p->comments.at[--first].begin;
  vtb_strbuf text = {0};
  for (size_t i = first; i < last; i++) comment_text(&text, p->source->text, p->comments.at[i]);
  const char *doc = vtb_arena_strdup(&p->unit->arena, text.at ? text.at : "");
  vtb_strbuf_free(&text);
  return doc;
}

static vtb_decl *decl_at(vtb_parse *p, vtb_decl_kind kind, const vtb_name *name, vtb_loc loc) {
  vtb_decl *d = VTB_NEW(&p->unit->arena, vtb_decl);
  d->kind = kind;
  d->name = *name;
  d->span = vtb__span(p, loc);
  d->doc = doc_of(p, loc.begin);
  d->file = p->file;
  if (p->file) vtb_vec_push(&p->file->decls, d);
  return d;
}

void vtb__add_decl(vtb_parse *p, vtb_decl_kind kind, const vtb_name *name, vtb_list *params,
                   vtb_list *results, const vtb_block_text *body, vtb_loc loc) {
  vtb_decl *d = decl_at(p, kind, name, loc);
  d->params = (vtb_param_list){(vtb_param **)params->at, params->n};
  for (size_t i = 0; kind != VTB_DECL_RECURRENCE && i < params->n; i++) {
    vtb_param *param = params->at[i];
    if (param->type->kind == VTB_TYPE_SHAPE)
      param->type = list_type(p, &param->type->dims, param->type->span);
  }
  if (results) {
    d->results = (vtb_type_expr **)results->at;
    d->n_results = results->n;
  }
  d->body = stmts(p, *body);
  vtb__check_places(d, p);
}

void vtb__add_constant(vtb_parse *p, const vtb_name *name, vtb_type_expr *type, vtb_expr *value,
                       vtb_loc loc) {
  vtb_decl *d = decl_at(p, VTB_DECL_CONST, name, loc);
  d->value = value;
  d->type = type;
}

void vtb__add_preset(vtb_parse *p, const vtb_name *name, vtb_list *aliases, vtb_expr *value,
                     vtb_expr *prepare, vtb_loc loc) {
  vtb_decl *d = decl_at(p, VTB_DECL_PRESET, name, loc);
  d->value = value;
  d->prepare = prepare;
  d->aliases = names(p, aliases);
  d->n_aliases = aliases->n;
  if (value->kind != VTB_EXPR_CALL && value->kind != VTB_EXPR_ERROR)
    vtb__error(p, loc_of(value->span), VTB_DIAG_BAD_PRESET,
               "a preset is a call of a model, such as vil(dim = 192)");
}

void vtb__add_note(vtb_parse *p, int kind, const vtb_name *of, const vtb_expr *text, vtb_loc loc) {
  vtb_note note = {.kind = kind, .span = text->span};
  if (of) note.of = *of;
  if (text->kind == VTB_EXPR_STRING)
    note.text = text->u.str;
  else
    vtb__error(p, loc, VTB_DIAG_BAD_NOTE, "%s has a plain text, without {...}",
               kind == VTB_NOTE_PAPER ? "a paper" : "weights");
  if (p->file && note.text) vtb_vec_push(&p->file->notes, note);
}

void vtb__add_use(vtb_parse *p, const vtb_name *path) {
  if (p->file) vtb_vec_push(&p->file->uses, ((vtb_use){*path, NULL}));
}
