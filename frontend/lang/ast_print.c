/* The tree as text: nested lists in parentheses, one statement a line. Comments, places and layout
 * do not show, so two texts with the same meaning print the same. Also single expressions as .vtb
 * text, for messages: what the two forms have in common is written once. */
#include "frontend/lang/ast.h"

typedef struct printer {
  vtb_strbuf *out;
  int indent;
  bool tree; /* else .vtb text */
} printer;

static void print_expr(printer *p, const vtb_expr *e);
static void print_type(printer *p, const vtb_type_expr *t);
static void print_stmt(printer *p, const vtb_stmt *s);

static void line(printer *p) { vtb_strbuf_printf(p->out, "\n%*s", p->indent, ""); }

static void print_list(printer *p, const vtb_expr_list *l) {
  for (size_t i = 0; i < l->n; i++) {
    vtb_strbuf_puts(p->out, p->tree ? " " : i ? ", " : "");
    print_expr(p, l->at[i]);
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

static void print_maybe(printer *p, const vtb_expr *e) {
  if (!e) return;
  vtb_strbuf_putc(p->out, ' ');
  print_expr(p, e);
}

/* The form with the next argument for each %: s is text, e an expression, o one behind a blank, or
 * NULL, l a list of expressions, t a type, b statements. */
static void put_form(printer *p, const char *form, ...) {
  va_list ap;
  va_start(ap, form);
  for (const char *c = form; *c; c++) {
    if (*c != '%')
      vtb_strbuf_putc(p->out, *c);
    else if (*++c == 's')
      vtb_strbuf_puts(p->out, va_arg(ap, const char *));
    else if (*c == 'e')
      print_expr(p, va_arg(ap, const vtb_expr *));
    else if (*c == 'o')
      print_maybe(p, va_arg(ap, const vtb_expr *));
    else if (*c == 'l')
      print_list(p, va_arg(ap, const vtb_expr_list *));
    else if (*c == 't')
      print_type(p, va_arg(ap, const vtb_type_expr *));
    else
      print_stmts(p, va_arg(ap, const vtb_stmt_list *));
  }
  va_end(ap);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static void quoted(vtb_strbuf *out, const char *s) {
  for (; *s; s++) {
    if (*s == '\n')
      vtb_strbuf_puts(out, "\\n");
    else if (*s == '\t')
      vtb_strbuf_puts(out, "\\t");
    else {
      if (*s == '"' || *s == '\\' || *s == '{' || *s == '}') vtb_strbuf_putc(out, '\\');
      vtb_strbuf_putc(out, *s);
    }
  }
}

static void print_string(printer *p, const char *s) {
  vtb_strbuf_putc(p->out, '"');
  quoted(p->out, s);
  vtb_strbuf_putc(p->out, '"');
}

/* In text floats keep their point: 2.0, not 2. */
static void print_float(printer *p, double f) {
  size_t before = p->out->n;
  vtb_strbuf_printf(p->out, p->tree ? "(float %.17g)" : "%.9g", f);
  bool plain = true;
  for (size_t i = before; i < p->out->n; i++)
    plain = plain && p->out->at[i] >= '0' && p->out->at[i] <= '9';
  if (plain) vtb_strbuf_puts(p->out, ".0");
}

static void print_interp(printer *p, const vtb_expr_list *pieces) {
  if (p->tree) {
    put_form(p, "(interp%l)", pieces);
    return;
  }
  put_form(p, "\"");
  for (size_t i = 0; i < pieces->n; i++)
    if (pieces->at[i]->kind == VTB_EXPR_STRING)
      quoted(p->out, pieces->at[i]->u.str);
    else
      put_form(p, "{%e}", pieces->at[i]);
  put_form(p, "\"");
}

static void print_range(printer *p, const vtb_expr *e) {
  const vtb_expr *ends[] = {e->u.range.from, e->u.range.to, e->u.range.by};
  put_form(p, p->tree ? "(range" : "");
  for (int i = 0; i < (ends[2] ? 3 : 2); i++) {
    put_form(p, p->tree ? " " : i ? ":" : "");
    if (ends[i])
      print_expr(p, ends[i]);
    else
      put_form(p, p->tree ? "_" : "");
  }
  put_form(p, p->tree ? ")" : "");
}

static void print_call(printer *p, const vtb_expr *e) {
  const vtb_expr *self = e->u.call.self;
  const vtb_arg_list *args = &e->u.call.args;
  if (self && !p->tree) put_form(p, "%e.", self);
  put_form(p, p->tree ? "(call %s%s" : "%s%s(", self && p->tree ? "." : "", e->u.call.callee.text);
  if (self && p->tree) put_form(p, " self=%e", self);
  for (size_t i = 0; i < args->n; i++) {
    put_form(p, p->tree ? " " : i ? ", " : "");
    if (args->at[i]->name.text) put_form(p, p->tree ? "%s=" : "%s = ", args->at[i]->name.text);
    print_expr(p, args->at[i]->value);
  }
  put_form(p, ")");
}

static void print_unary(printer *p, const vtb_expr *e) {
  const char *op = vtb__unary_text(e->u.unary.op);
  const vtb_expr *x = e->u.unary.operand;
  if (!p->tree && e->u.unary.op == VTB_UNARY_REVERSE)
    put_form(p, "%e~", x);
  else
    put_form(p, p->tree ? "(%s %e)" : e->u.unary.op == VTB_UNARY_NOT ? "%s %e" : "%s%e", op, x);
}

static void print_binary(printer *p, const vtb_expr *e) {
  const char *op = vtb__binary_text(e->u.binary.op);
  if (p->tree)
    put_form(p, "(%s %e %e)", op, e->u.binary.left, e->u.binary.right);
  else
    put_form(p, "%e %s %e", e->u.binary.left, op, e->u.binary.right);
}

static void print_member(printer *p, const vtb_expr *e) {
  const char *member = e->u.member.member.text;
  if (p->tree)
    put_form(p, "(.%s %e)", member, e->u.member.base);
  else
    put_form(p, "%e.%s", e->u.member.base, member);
}

static void print_param(printer *p, const vtb_expr *e) {
  put_form(p, p->tree ? "(param %e (shape%l) %e" : "param %e", e->u.param.name, &e->u.param.dims,
           e->u.param.init);
  if (!p->tree) return;
  put_form(p, "%s%s%s)", e->u.param.no_decay ? " no_decay" : "", e->u.param.buffer ? " buffer" : "",
           e->u.param.frozen ? " frozen" : "");
}

static void print_as(printer *p, vtb_name as) {
  if (as.text) put_form(p, " as %s", as.text);
}

static void print_along(printer *p, const vtb_expr *e) {
  if (!p->tree) {
    put_form(p, e->u.along.each ? "along each %e { ... }" : "along(%e) { ... }", e->u.along.path);
    return;
  }
  put_form(p, e->u.along.each ? "(along-each %e" : "(along %e", e->u.along.path);
  if (e->u.along.suffix) put_form(p, " suffix %e", e->u.along.suffix);
  print_as(p, e->u.along.as);
  put_form(p, "%b)", &e->u.along.body);
}

static void print_kind(printer *p, const vtb_expr *e) {
  switch (e->kind) {
  case VTB_EXPR_ERROR:
    put_form(p, "(error)");
    break;
  case VTB_EXPR_INT:
    vtb_strbuf_printf(p->out, "%lld", (long long)e->u.i);
    break;
  case VTB_EXPR_FLOAT:
    print_float(p, e->u.f);
    break;
  case VTB_EXPR_BOOL:
    put_form(p, e->u.b ? "true" : "false");
    break;
  case VTB_EXPR_SIZE:
    vtb_grid_print(&e->u.size, p->out);
    break;
  case VTB_EXPR_STRING:
    print_string(p, e->u.str);
    break;
  case VTB_EXPR_INTERP:
    print_interp(p, &e->u.list);
    break;
  case VTB_EXPR_NAME:
    put_form(p, "%s", e->u.name);
    break;
  case VTB_EXPR_LIST:
    put_form(p, p->tree ? "(list%l)" : "[%l]", &e->u.list);
    break;
  case VTB_EXPR_INDEX:
    put_form(p, p->tree ? "(index %e%l)" : "%e[%l]", e->u.index.base, &e->u.index.places);
    break;
  case VTB_EXPR_RANGE:
    print_range(p, e);
    break;
  case VTB_EXPR_REST:
    put_form(p, "..");
    break;
  case VTB_EXPR_MEMBER:
    print_member(p, e);
    break;
  case VTB_EXPR_CALL:
    print_call(p, e);
    break;
  case VTB_EXPR_UNARY:
    print_unary(p, e);
    break;
  case VTB_EXPR_BINARY:
    print_binary(p, e);
    break;
  case VTB_EXPR_CONDITIONAL:
    put_form(p, p->tree ? "(? %e %e %e)" : "%e ? %e : %e", e->u.cond.test, e->u.cond.yes,
             e->u.cond.no);
    break;
  case VTB_EXPR_PARAM:
    print_param(p, e);
    break;
  case VTB_EXPR_ALONG:
    print_along(p, e);
    break;
  case VTB_EXPR_BLOCK:
    put_form(p, p->tree ? "(block%b)" : "{ ... }", &e->u.block);
    break;
  case VTB_EXPR_IF:
  case VTB_EXPR_SCOPE:
  case VTB_EXPR_REPEAT:
    if (p->tree)
      print_stmt(p, e->u.stmt);
    else
      put_form(p, e->kind == VTB_EXPR_IF      ? "if ..."
                  : e->kind == VTB_EXPR_SCOPE ? "scope ..."
                                              : "[repeat ...]");
    break;
  }
}

static void print_expr(printer *p, const vtb_expr *e) {
  bool inside = e->parenthesised && !p->tree;
  if (inside) vtb_strbuf_putc(p->out, '(');
  print_kind(p, e);
  if (inside) vtb_strbuf_putc(p->out, ')');
}

void vtb__expr_print(const vtb_expr *e, vtb_strbuf *out) { print_expr(&(printer){.out = out}, e); }

/* ---- types and statements -------------------------------------------------------------------- */

static void print_type(printer *p, const vtb_type_expr *t) {
  switch (t->kind) {
  case VTB_TYPE_NAME:
    put_form(p, t->has_dims ? "%s[%l ]" : "%s%l", t->name.text, &t->dims);
    break;
  case VTB_TYPE_LIST:
    put_form(p, t->elem != t ? "(list %t)" : "(list )", t->elem);
    break;
  case VTB_TYPE_SHAPE:
    put_form(p, "(shape%l)", &t->dims);
    break;
  case VTB_TYPE_CHOICE:
    put_form(p, "(one-of");
    for (size_t i = 0; i < t->n_choices; i++) {
      put_form(p, " %s", t->choices[i]->name.text);
      for (size_t k = 0; k < t->choices[i]->n_aliases; k++)
        put_form(p, "=%s", t->choices[i]->aliases[k].text);
    }
    put_form(p, ")");
    break;
  case VTB_TYPE_VIEW:
    put_form(p, t->elem ? "(view %s %t)" : "(view %s)", t->name.text, t->elem);
    break;
  }
}

static void print_assign(printer *p, const vtb_stmt *s) {
  put_form(p, "(%s=", s->kind == VTB_STMT_OP_ASSIGN ? vtb__binary_text(s->u.assign.op) : "");
  for (size_t i = 0; i < s->u.assign.n_targets; i++)
    put_form(p, " %s", s->u.assign.targets[i].text);
  put_form(p, " %e)", s->u.assign.value);
}

static void print_repeat(printer *p, const vtb_stmt *s) {
  put_form(p, "(repeat %e", s->u.repeat.count);
  print_as(p, s->u.repeat.as);
  if (s->u.repeat.scope) put_form(p, " scope %e", s->u.repeat.scope);
  put_form(p, "%b)", &s->u.repeat.body);
}

static void print_iterate(printer *p, const vtb_stmt *s) {
  put_form(p, "(iterate");
  if (s->u.iterate.test) put_form(p, " while %e", s->u.iterate.test);
  if (s->u.iterate.most.text) put_form(p, " %s", s->u.iterate.most.text);
  if (s->u.iterate.count) put_form(p, " %e", s->u.iterate.count);
  print_as(p, s->u.iterate.as);
  put_form(p, "%b)", &s->u.iterate.body);
}

static void print_if(printer *p, const vtb_stmt *s) {
  put_form(p, "(if %e%b", s->u.cond.test, &s->u.cond.yes);
  if (s->u.cond.has_else) {
    line(p);
    put_form(p, "else%b", &s->u.cond.no);
  }
  put_form(p, ")");
}

static void print_state(printer *p, const vtb_stmt *s) {
  put_form(p, "(state");
  for (size_t i = 0; i < s->u.state.n; i++)
    put_form(p, s->u.state.at[i]->type ? " %s %t" : " %s", s->u.state.at[i]->name.text,
             s->u.state.at[i]->type);
  put_form(p, ")");
}

static void print_stmt(printer *p, const vtb_stmt *s) {
  static const char *const scopes[] = {"scope", "share", "freeze", "augment"};
  switch (s->kind) {
  case VTB_STMT_EXPR:
    print_expr(p, s->u.value);
    break;
  case VTB_STMT_ASSIGN:
  case VTB_STMT_OP_ASSIGN:
    print_assign(p, s);
    break;
  case VTB_STMT_LET:
    put_form(p, "(let %s %e)", s->u.let.name.text, s->u.let.value);
    break;
  case VTB_STMT_INPUT:
    put_form(p, "(input");
    for (size_t i = 0; i < s->u.input.n_names; i++) put_form(p, " %s", s->u.input.names[i].text);
    put_form(p, " %t)", s->u.input.type);
    break;
  case VTB_STMT_OUTPUT:
    put_form(p, "(output %e %e)", s->u.named.name, s->u.named.value);
    break;
  case VTB_STMT_TAP:
    put_form(p, "(tap %e %e)", s->u.named.name, s->u.named.value);
    break;
  case VTB_STMT_LOSS:
    put_form(p, "(loss %e%l)", s->u.measure.name, &s->u.measure.values);
    break;
  case VTB_STMT_METRIC:
    put_form(p, s->u.measure.lower ? "(metric-lower %e%l)" : "(metric %e%l)", s->u.measure.name,
             &s->u.measure.values);
    break;
  case VTB_STMT_REPEAT:
    print_repeat(p, s);
    break;
  case VTB_STMT_ITERATE:
    print_iterate(p, s);
    break;
  case VTB_STMT_IF:
    print_if(p, s);
    break;
  case VTB_STMT_SCOPE:
    put_form(p, "(%s%o%b)", scopes[s->u.scope.kind], s->u.scope.name, &s->u.scope.body);
    break;
  case VTB_STMT_RETURN:
    put_form(p, "(return%l)", &s->u.values);
    break;
  case VTB_STMT_YIELD:
    put_form(p, "(yield%l)", &s->u.values);
    break;
  case VTB_STMT_STATE:
    print_state(p, s);
    break;
  case VTB_STMT_ASSERT:
    put_form(p, "(assert %e%o)", s->u.check.test, s->u.check.message);
    break;
  }
}

/* ---- declarations ---------------------------------------------------------------------------- */

static void print_aliases(printer *p, const vtb_name *aliases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    put_form(p, " alias ");
    print_string(p, aliases[i].text);
  }
}

static void print_params(printer *p, const vtb_param_list *l) {
  p->indent += 2;
  for (size_t i = 0; i < l->n; i++) {
    const vtb_param *param = l->at[i];
    line(p);
    put_form(p, param->fallback ? "(%s %t = %e" : "(%s %t", param->name.text, param->type,
             param->fallback);
    print_aliases(p, param->aliases, param->n_aliases);
    put_form(p, ")");
  }
  p->indent -= 2;
}

static void print_decl(printer *p, const vtb_decl *d) {
  put_form(p, "(%s %s", vtb__decl_kind_text(d->kind), d->name.text);
  print_aliases(p, d->aliases, d->n_aliases);
  if (d->value) {
    put_form(p, " %e%o", d->value, d->prepare);
  } else {
    print_params(p, &d->params);
    if (d->n_results) line(p);
    for (size_t i = 0; i < d->n_results; i++) put_form(p, i ? " %t" : "-> %t", d->results[i]);
    print_stmts(p, &d->body);
  }
  put_form(p, ")\n");
}

static void print_note(printer *p, const vtb_note *n) {
  put_form(p, n->kind == VTB_NOTE_PAPER ? "(paper " : "(weights ");
  if (n->of.text) put_form(p, "%s ", n->of.text);
  print_string(p, n->text);
  put_form(p, ")\n");
}

void vtb_unit_print_ast(const vtb_unit *u, vtb_strbuf *out) {
  printer p = {.out = out, .tree = true};
  if (!u->files.n) return;
  const vtb_file *f = u->files.at[0];
  for (size_t i = 0; i < f->uses.n; i++) put_form(&p, "(use %s)\n", f->uses.at[i].path.text);
  for (size_t i = 0; i < f->notes.n; i++) print_note(&p, &f->notes.at[i]);
  for (size_t i = 0; i < f->decls.n; i++) print_decl(&p, f->decls.at[i]);
}
