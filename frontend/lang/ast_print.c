/* The tree as text: nested lists in parentheses, one statement a line. Comments, places and layout
 * do not show, so two texts with the same meaning print the same. Also single expressions as .vtb
 * text, for messages. */
#include "frontend/lang/ast.h"

typedef struct printer {
  vtb_strbuf *out;
  int indent;
} printer;

static void print_expr(printer *p, const vtb_expr *e);
static void print_stmts(printer *p, const vtb_stmt_list *l);
static void print_stmt(printer *p, const vtb_stmt *s);

static void line(printer *p) { vtb_strbuf_printf(p->out, "\n%*s", p->indent, ""); }

static void text(printer *p, const char *s) { vtb_strbuf_puts(p->out, s); }

static void quoted(vtb_strbuf *out, const char *s, bool braces) {
  for (; *s; s++) {
    if (*s == '\n')
      vtb_strbuf_puts(out, "\\n");
    else if (*s == '\t')
      vtb_strbuf_puts(out, "\\t");
    else {
      if (*s == '"' || *s == '\\' || (braces && (*s == '{' || *s == '}')))
        vtb_strbuf_putc(out, '\\');
      vtb_strbuf_putc(out, *s);
    }
  }
}

static void print_string(printer *p, const char *s) {
  text(p, "\"");
  quoted(p->out, s, true);
  text(p, "\"");
}

static void print_list(printer *p, const vtb_expr_list *l) {
  for (size_t i = 0; i < l->n; i++) {
    text(p, " ");
    print_expr(p, l->at[i]);
  }
}

static void print_type(printer *p, const vtb_type_expr *t) {
  switch (t->kind) {
  case VTB_TYPE_NAME:
    text(p, t->name.text);
    break;
  case VTB_TYPE_LIST:
    text(p, "(list ");
    if (t->elem != t) print_type(p, t->elem);
    text(p, ")");
    return;
  case VTB_TYPE_SHAPE:
    text(p, "(shape");
    break;
  case VTB_TYPE_CHOICE:
    text(p, "(one-of");
    for (size_t i = 0; i < t->n_choices; i++) {
      vtb_strbuf_printf(p->out, " %s", t->choices[i]->name.text);
      for (size_t k = 0; k < t->choices[i]->n_aliases; k++)
        vtb_strbuf_printf(p->out, "=%s", t->choices[i]->aliases[k].text);
    }
    text(p, ")");
    return;
  }
  if (t->kind == VTB_TYPE_NAME && t->has_dims) text(p, "[");
  print_list(p, &t->dims);
  if (t->kind == VTB_TYPE_SHAPE)
    text(p, ")");
  else if (t->has_dims)
    text(p, " ]");
}

static void print_args(printer *p, const vtb_arg_list *l) {
  for (size_t i = 0; i < l->n; i++) {
    text(p, " ");
    if (l->at[i]->name.text) vtb_strbuf_printf(p->out, "%s=", l->at[i]->name.text);
    print_expr(p, l->at[i]->value);
  }
}

static void print_along(printer *p, const vtb_expr *e) {
  text(p, e->u.along.each ? "(along-each " : "(along ");
  print_expr(p, e->u.along.path);
  if (e->u.along.suffix) {
    text(p, " suffix ");
    print_expr(p, e->u.along.suffix);
  }
  if (e->u.along.as.text) vtb_strbuf_printf(p->out, " as %s", e->u.along.as.text);
  print_stmts(p, &e->u.along.body);
  text(p, ")");
}

static void print_param(printer *p, const vtb_expr *e) {
  text(p, "(param ");
  print_expr(p, e->u.param.name);
  text(p, " (shape");
  print_list(p, &e->u.param.dims);
  text(p, ") ");
  print_expr(p, e->u.param.init);
  if (e->u.param.no_decay) text(p, " no_decay");
  if (e->u.param.buffer) text(p, " buffer");
  if (e->u.param.frozen) text(p, " frozen");
  text(p, ")");
}

static void print_head_list(printer *p, const char *head, const vtb_expr_list *l) {
  vtb_strbuf_printf(p->out, "(%s", head);
  print_list(p, l);
  text(p, ")");
}

/* "(head a b c)"; the last two may be NULL. */
static void print_parts(printer *p, const char *head, const vtb_expr *a, const vtb_expr *b,
                        const vtb_expr *c) {
  const vtb_expr *parts[] = {a, b, c};
  vtb_strbuf_printf(p->out, "(%s", head);
  for (int i = 0; i < 3 && parts[i]; i++) {
    text(p, " ");
    print_expr(p, parts[i]);
  }
  text(p, ")");
}

static void print_call(printer *p, const vtb_expr *e) {
  vtb_strbuf_printf(p->out, "(call %s%s", e->u.call.self ? "." : "", e->u.call.callee.text);
  if (e->u.call.self) {
    text(p, " self=");
    print_expr(p, e->u.call.self);
  }
  print_args(p, &e->u.call.args);
  text(p, ")");
}

static void print_expr(printer *p, const vtb_expr *e) {
  switch (e->kind) {
  case VTB_EXPR_ERROR:
    text(p, "(error)");
    break;
  case VTB_EXPR_INT:
    vtb_strbuf_printf(p->out, "%lld", (long long)e->u.i);
    break;
  case VTB_EXPR_FLOAT:
    vtb_strbuf_printf(p->out, "(float %.17g)", e->u.f);
    break;
  case VTB_EXPR_BOOL:
    text(p, e->u.b ? "true" : "false");
    break;
  case VTB_EXPR_SIZE:
    vtb_grid_print(&e->u.size, p->out);
    break;
  case VTB_EXPR_STRING:
    print_string(p, e->u.str);
    break;
  case VTB_EXPR_INTERP:
    print_head_list(p, "interp", &e->u.list);
    break;
  case VTB_EXPR_NAME:
    text(p, e->u.name);
    break;
  case VTB_EXPR_LIST:
    print_head_list(p, "list", &e->u.list);
    break;
  case VTB_EXPR_INDEX:
    print_parts(p, "index", e->u.index.base, e->u.index.index, NULL);
    break;
  case VTB_EXPR_MEMBER:
    vtb_strbuf_printf(p->out, "(.%s ", e->u.member.member.text);
    print_expr(p, e->u.member.base);
    text(p, ")");
    break;
  case VTB_EXPR_CALL:
    print_call(p, e);
    break;
  case VTB_EXPR_UNARY:
    print_parts(p, vtb__unary_text(e->u.unary.op), e->u.unary.operand, NULL, NULL);
    break;
  case VTB_EXPR_BINARY:
    print_parts(p, vtb__binary_text(e->u.binary.op), e->u.binary.left, e->u.binary.right, NULL);
    break;
  case VTB_EXPR_CONDITIONAL:
    print_parts(p, "?", e->u.cond.test, e->u.cond.yes, e->u.cond.no);
    break;
  case VTB_EXPR_PARAM:
    print_param(p, e);
    break;
  case VTB_EXPR_ALONG:
    print_along(p, e);
    break;
  case VTB_EXPR_BLOCK:
    text(p, "(block");
    print_stmts(p, &e->u.block);
    text(p, ")");
    break;
  case VTB_EXPR_IF:
  case VTB_EXPR_SCOPE:
  case VTB_EXPR_REPEAT:
    print_stmt(p, e->u.stmt);
    break;
  }
}

static void print_stmts(printer *p, const vtb_stmt_list *l) {
  p->indent += 2;
  for (size_t i = 0; i < l->n; i++) {
    line(p);
    print_stmt(p, l->at[i]);
  }
  p->indent -= 2;
}

static void print_assign(printer *p, const vtb_stmt *s) {
  if (s->kind == VTB_STMT_OP_ASSIGN)
    vtb_strbuf_printf(p->out, "(%s=", vtb__binary_text(s->u.assign.op));
  else
    text(p, "(=");
  for (size_t i = 0; i < s->u.assign.n_targets; i++)
    vtb_strbuf_printf(p->out, " %s", s->u.assign.targets[i].text);
  text(p, " ");
  print_expr(p, s->u.assign.value);
  text(p, ")");
}

static void print_repeat(printer *p, const vtb_stmt *s) {
  text(p, "(repeat ");
  print_expr(p, s->u.repeat.count);
  if (s->u.repeat.as.text) vtb_strbuf_printf(p->out, " as %s", s->u.repeat.as.text);
  if (s->u.repeat.scope) {
    text(p, " scope ");
    print_expr(p, s->u.repeat.scope);
  }
  print_stmts(p, &s->u.repeat.body);
  text(p, ")");
}

static void print_scope(printer *p, const vtb_stmt *s) {
  static const char *const heads[] = {"(scope", "(share", "(freeze"};
  text(p, heads[s->u.scope.kind]);
  if (s->u.scope.name) {
    text(p, " ");
    print_expr(p, s->u.scope.name);
  }
  print_stmts(p, &s->u.scope.body);
  text(p, ")");
}

static void print_if(printer *p, const vtb_stmt *s) {
  text(p, "(if ");
  print_expr(p, s->u.cond.test);
  print_stmts(p, &s->u.cond.yes);
  if (s->u.cond.has_else) {
    line(p);
    text(p, "else");
    print_stmts(p, &s->u.cond.no);
  }
  text(p, ")");
}

static void print_stmt(printer *p, const vtb_stmt *s) {
  switch (s->kind) {
  case VTB_STMT_EXPR:
    print_expr(p, s->u.value);
    break;
  case VTB_STMT_ASSIGN:
  case VTB_STMT_OP_ASSIGN:
    print_assign(p, s);
    break;
  case VTB_STMT_LET:
    vtb_strbuf_printf(p->out, "(let %s ", s->u.let.name.text);
    print_expr(p, s->u.let.value);
    text(p, ")");
    break;
  case VTB_STMT_INPUT:
    vtb_strbuf_printf(p->out, "(input %s ", s->u.input.name.text);
    print_type(p, s->u.input.type);
    text(p, ")");
    break;
  case VTB_STMT_OUTPUT:
  case VTB_STMT_TAP:
    text(p, s->kind == VTB_STMT_TAP ? "(tap " : "(output ");
    print_expr(p, s->u.named.name);
    text(p, " ");
    print_expr(p, s->u.named.value);
    text(p, ")");
    break;
  case VTB_STMT_LOSS:
  case VTB_STMT_METRIC:
    text(p, s->kind == VTB_STMT_LOSS ? "(loss "
            : s->u.measure.lower     ? "(metric-lower "
                                     : "(metric ");
    print_expr(p, s->u.measure.name);
    for (size_t i = 0; i < s->u.measure.values.n; i++) {
      text(p, " ");
      print_expr(p, s->u.measure.values.at[i]);
    }
    text(p, ")");
    break;
  case VTB_STMT_REPEAT:
    print_repeat(p, s);
    break;
  case VTB_STMT_IF:
    print_if(p, s);
    break;
  case VTB_STMT_SCOPE:
    print_scope(p, s);
    break;
  case VTB_STMT_RETURN:
    print_head_list(p, "return", &s->u.values);
    break;
  case VTB_STMT_YIELD:
    print_head_list(p, "yield", &s->u.values);
    break;
  case VTB_STMT_STATE:
    text(p, "(state");
    for (size_t i = 0; i < s->u.state.n; i++) {
      vtb_strbuf_printf(p->out, " %s", s->u.state.at[i]->name.text);
      if (!s->u.state.at[i]->type) continue;
      text(p, " ");
      print_type(p, s->u.state.at[i]->type);
    }
    text(p, ")");
    break;
  case VTB_STMT_ASSERT:
    text(p, "(assert ");
    print_expr(p, s->u.check.test);
    if (s->u.check.message) {
      text(p, " ");
      print_expr(p, s->u.check.message);
    }
    text(p, ")");
    break;
  }
}

static void print_aliases(printer *p, const vtb_name *aliases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    text(p, " alias ");
    print_string(p, aliases[i].text);
  }
}

static void print_params(printer *p, const vtb_param_list *l) {
  p->indent += 2;
  for (size_t i = 0; i < l->n; i++) {
    const vtb_param *param = l->at[i];
    line(p);
    vtb_strbuf_printf(p->out, "(%s ", param->name.text);
    print_type(p, param->type);
    if (param->fallback) {
      text(p, " = ");
      print_expr(p, param->fallback);
    }
    print_aliases(p, param->aliases, param->n_aliases);
    text(p, ")");
  }
  p->indent -= 2;
}

static void print_decl(printer *p, const vtb_decl *d) {
  vtb_strbuf_printf(p->out, "(%s %s", vtb__decl_kind_text(d->kind), d->name.text);
  print_aliases(p, d->aliases, d->n_aliases);
  if (d->value) {
    text(p, " ");
    print_expr(p, d->value);
    if (d->prepare) text(p, " ");
    if (d->prepare) print_expr(p, d->prepare);
  } else {
    print_params(p, &d->params);
    if (d->n_results) {
      line(p);
      text(p, "->");
    }
    for (size_t i = 0; i < d->n_results; i++) {
      text(p, " ");
      print_type(p, d->results[i]);
    }
    print_stmts(p, &d->body);
  }
  text(p, ")\n");
}

void vtb_unit_print_ast(const vtb_unit *u, vtb_strbuf *out) {
  printer p = {out, 0};
  if (!u->files.n) return;
  const vtb_file *f = u->files.at[0];
  for (size_t i = 0; i < f->uses.n; i++)
    vtb_strbuf_printf(out, "(use %s)\n", f->uses.at[i].path.text);
  for (size_t i = 0; i < f->decls.n; i++) print_decl(&p, f->decls.at[i]);
}

/* ---- expressions as .vtb text ---------------------------------------------------------------- */

static void write_list(const vtb_expr_list *l, vtb_strbuf *out) {
  for (size_t i = 0; i < l->n; i++) {
    if (i) vtb_strbuf_puts(out, ", ");
    vtb__expr_print(l->at[i], out);
  }
}

/* Floats keep their point: 2.0, not 2. */
static void write_float(double f, vtb_strbuf *out) {
  size_t before = out->n;
  vtb_strbuf_printf(out, "%.9g", f);
  bool plain = true;
  for (size_t i = before; i < out->n; i++)
    plain = plain && ((out->at[i] >= '0' && out->at[i] <= '9'));
  if (plain) vtb_strbuf_puts(out, ".0");
}

static void write_interp(const vtb_expr_list *pieces, vtb_strbuf *out) {
  vtb_strbuf_putc(out, '"');
  for (size_t i = 0; i < pieces->n; i++) {
    const vtb_expr *piece = pieces->at[i];
    if (piece->kind == VTB_EXPR_STRING) {
      quoted(out, piece->u.str, true);
      continue;
    }
    vtb_strbuf_putc(out, '{');
    vtb__expr_print(piece, out);
    vtb_strbuf_putc(out, '}');
  }
  vtb_strbuf_putc(out, '"');
}

static void write_call(const vtb_expr *e, vtb_strbuf *out) {
  if (e->u.call.self) {
    vtb__expr_print(e->u.call.self, out);
    vtb_strbuf_putc(out, '.');
  }
  vtb_strbuf_printf(out, "%s(", e->u.call.callee.text);
  for (size_t i = 0; i < e->u.call.args.n; i++) {
    const vtb_arg *a = e->u.call.args.at[i];
    vtb_strbuf_printf(out, "%s%s%s", i ? ", " : "", a->name.text ? a->name.text : "",
                      a->name.text ? " = " : "");
    vtb__expr_print(a->value, out);
  }
  vtb_strbuf_putc(out, ')');
}

static void write_expr(const vtb_expr *e, vtb_strbuf *out) {
  printer p = {out, 0};
  switch (e->kind) {
  case VTB_EXPR_FLOAT:
    write_float(e->u.f, out);
    break;
  case VTB_EXPR_INTERP:
    write_interp(&e->u.list, out);
    break;
  case VTB_EXPR_LIST:
    vtb_strbuf_putc(out, '[');
    write_list(&e->u.list, out);
    vtb_strbuf_putc(out, ']');
    break;
  case VTB_EXPR_INDEX:
    vtb__expr_print(e->u.index.base, out);
    vtb_strbuf_putc(out, '[');
    vtb__expr_print(e->u.index.index, out);
    vtb_strbuf_putc(out, ']');
    break;
  case VTB_EXPR_MEMBER:
    vtb__expr_print(e->u.member.base, out);
    vtb_strbuf_printf(out, ".%s", e->u.member.member.text);
    break;
  case VTB_EXPR_CALL:
    write_call(e, out);
    break;
  case VTB_EXPR_UNARY:
    if (e->u.unary.op != VTB_UNARY_REVERSE)
      vtb_strbuf_printf(out, "%s%s", vtb__unary_text(e->u.unary.op),
                        e->u.unary.op == VTB_UNARY_NOT ? " " : "");
    vtb__expr_print(e->u.unary.operand, out);
    if (e->u.unary.op == VTB_UNARY_REVERSE) vtb_strbuf_putc(out, '~');
    break;
  case VTB_EXPR_BINARY:
    vtb__expr_print(e->u.binary.left, out);
    vtb_strbuf_printf(out, " %s ", vtb__binary_text(e->u.binary.op));
    vtb__expr_print(e->u.binary.right, out);
    break;
  case VTB_EXPR_CONDITIONAL:
    vtb__expr_print(e->u.cond.test, out);
    vtb_strbuf_puts(out, " ? ");
    vtb__expr_print(e->u.cond.yes, out);
    vtb_strbuf_puts(out, " : ");
    vtb__expr_print(e->u.cond.no, out);
    break;
  case VTB_EXPR_PARAM:
    vtb_strbuf_puts(out, "param ");
    vtb__expr_print(e->u.param.name, out);
    break;
  case VTB_EXPR_ALONG:
    vtb_strbuf_puts(out, e->u.along.each ? "along each " : "along(");
    vtb__expr_print(e->u.along.path, out);
    vtb_strbuf_puts(out, e->u.along.each ? " { ... }" : ") { ... }");
    break;
  case VTB_EXPR_BLOCK:
    vtb_strbuf_puts(out, "{ ... }");
    break;
  case VTB_EXPR_IF:
    vtb_strbuf_puts(out, "if ...");
    break;
  case VTB_EXPR_REPEAT:
    vtb_strbuf_puts(out, "[repeat ...]");
    break;
  case VTB_EXPR_SCOPE:
    vtb_strbuf_puts(out, "scope ...");
    break;
  default:
    print_expr(&p, e);
    break; /* leaves look the same in both forms */
  }
}

void vtb__expr_print(const vtb_expr *e, vtb_strbuf *out) {
  if (e->parenthesised) vtb_strbuf_putc(out, '(');
  write_expr(e, out);
  if (e->parenthesised) vtb_strbuf_putc(out, ')');
}
