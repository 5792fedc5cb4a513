/* The IR text parser. Two rounds over the text: headers of all functions, so that calls may come
 * before what they call, then bodies. Shape rules are checked at the end, when every callee is
 * complete. The first syntax error ends the parse; of wrong types all are reported. Recursive
 * descent of constant depth; sizes are bounded while they are read.
 */
#include "ir/parse_lex.h"

#include <errno.h>

typedef struct body {
  vtb_func *func;
  size_t at; /* offset after '{' */
  VTB_VEC(vtb_type) returns;
  VTB_VEC(const char *) names;
} body;

typedef struct parser {
  vtb__lexer lex;
  vtb_module *module;
  vtb_diags *diags;
  bool failed;
  VTB_VEC(body) bodies;
  vtb_map values; /* of the function being read */
} parser;

static bool fail(parser *p, int code, vtb_span span, const char *what) {
  if (!p->failed) vtb_diag_error(p->diags, code, span, "%s", what);
  p->failed = true;
  return false;
}

static bool fail_name(parser *p, int code, const char *fmt_before, const char *name,
                      const char *after) {
  if (!p->failed)
    vtb_diag_error(p->diags, code, p->lex.span, "%s%.200s%s", fmt_before, name, after);
  p->failed = true;
  return false;
}

static bool syntax(parser *p, const char *what) {
  return fail(p, VTB_DIAG_IR_SYNTAX, p->lex.span, p->lex.kind == VTB__T_BAD ? p->lex.what : what);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool is_punct(const parser *p, char c) {
  return p->lex.kind == VTB__T_PUNCT && p->lex.punct == c;
}
static bool is_word(const parser *p, const char *w) {
  return p->lex.kind == VTB__T_WORD && vtb_streq(p->lex.text.at, w);
}

static bool take(parser *p, char c) {
  if (!is_punct(p, c)) return false;
  vtb__lex_next(&p->lex);
  return true;
}

static bool take_word(parser *p, const char *w) {
  if (!is_word(p, w)) return false;
  vtb__lex_next(&p->lex);
  return true;
}

static bool expect(parser *p, char c) {
  char what[] = "expected '?'";
  what[10] = c;
  return take(p, c) || syntax(p, what);
}

/* The token's text, kept in the module; the token is passed. */
static const char *name_of(parser *p, vtb__token_kind kind, const char *what) {
  if (p->lex.kind != kind) {
    syntax(p, what);
    return NULL;
  }
  const char *name = vtb_intern(p->module, p->lex.text.at);
  vtb__lex_next(&p->lex);
  return name;
}

static bool read_int(parser *p, int64_t *out) {
  if (p->lex.kind != VTB__T_NUMBER) return syntax(p, "expected an integer");
  char *end;
  errno = 0;
  long long v = strtoll(p->lex.text.at, &end, 10);
  if (*end || errno)
    return fail(p, VTB_DIAG_IR_SYNTAX, p->lex.span, "expected an integer of 64 bits");
  *out = v;
  vtb__lex_next(&p->lex);
  return true;
}

static bool read_float(parser *p, double *out) {
  bool word = is_word(p, "inf") || is_word(p, "nan");
  if (!word && p->lex.kind != VTB__T_NUMBER) return syntax(p, "expected a number");
  char *end;
  *out = strtod(p->lex.text.at, &end);
  if (*end) return fail(p, VTB_DIAG_IR_SYNTAX, p->lex.span, "malformed number");
  vtb__lex_next(&p->lex);
  return true;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool read_size(parser *p, vtb_dim *d) {
  vtb_span span = p->lex.span;
  if (!read_int(p, &d->size)) return false;
  if (d->size >= 1 && d->size <= VTB__MAX_DIM) return true;
  return fail(p, VTB_DIAG_IR_LIMIT, span, "an axis has from 1 to 2^31 elements");
}

/* N=196 | B | 196 | ? | 2*B */
static bool read_dim(parser *p, vtb_dim *d) {
  *d = vtb__dim(VTB_DYN, NULL);
  if (p->lex.kind == VTB__T_NUMBER) {
    if (!read_size(p, d)) return false;
    if (!take(p, '*')) return true;
    d->size = -d->size;
    if (!take(p, '?')) d->name = name_of(p, VTB__T_WORD, "expected the batch: 2*B or 2*?");
    return d->name || !p->failed;
  }
  if (take(p, '?')) return true;
  d->name = name_of(p, VTB__T_WORD, "expected an axis: NAME, NAME=SIZE, SIZE or ?");
  if (!d->name) return false;
  return !take(p, '=') || read_size(p, d);
}

static bool read_type(parser *p, vtb_type *t) {
  vtb_span span = p->lex.span;
  vtb_dtype dtype = VTB_F32;
  while (dtype < VTB_F16 && !is_word(p, vtb_dtype_name(dtype))) dtype++;
  *t = (vtb_type){.dtype = dtype};
  if (!take_word(p, vtb_dtype_name(dtype)))
    return syntax(p, "expected a type, f32[...] or i32[...]");
  if (!take(p, '[') || take(p, ']')) return true;
  int64_t n = 1;
  do {
    vtb_dim d;
    if (!read_dim(p, &d)) return false;
    if (t->rank == VTB_MAX_RANK)
      return fail(p, VTB_DIAG_IR_LIMIT, span, "a type has at most 8 axes");
    t->dim[t->rank++] = d;
    if ((n *= vtb_bound_size(d.size, 1)) > VTB__MAX_COUNT)
      return fail(p, VTB_DIAG_IR_LIMIT, span, "the type is too large");
  } while (take(p, ','));
  return expect(p, ']');
}

/* ---- headers --------------------------------------------------------------------------------- */

static bool read_string(parser *p, const char **out) {
  *out = name_of(p, VTB__T_STRING, "expected a string");
  return *out != NULL;
}

static bool read_role(parser *p, vtb_arg_info *info) {
  static const char *const words[] = {"named", "input", "param", "buffer", "grad", "state"};
  for (int r = 0; r < 6; r++) {
    if (!take_word(p, words[r])) continue;
    info->role = (vtb_role)r;
    if (r == VTB_ROLE_PLAIN || p->lex.kind == VTB__T_STRING)
      if (!read_string(p, &info->official)) return false;
    break;
  }
  if (take_word(p, "init") && !read_string(p, &info->init)) return false;
  info->decay = take_word(p, "decay");
  info->frozen = take_word(p, "frozen");
  return true;
}

static bool read_arg(parser *p, vtb_func *f) {
  vtb_span span = p->lex.span;
  vtb_type t;
  vtb_arg_info info = {.span = span};
  const char *name = name_of(p, VTB__T_VALUE, "expected an argument %name");
  if (!name) return false;
  if (vtb_map_has(&f->names, name))
    return fail(p, VTB_DIAG_IR_TWICE, span, "an argument of this name comes before");
  if (!expect(p, ':') || !read_type(p, &t) || !read_role(p, &info)) return false;
  vtb_func_add_arg(f, name, t);
  f->arg_info[f->n_args - 1] = info;
  return true;
}

static bool read_returns(parser *p, body *b) {
  if (p->lex.kind != VTB__T_ARROW) return syntax(p, "expected ->");
  vtb__lex_next(&p->lex);
  if (!expect(p, '(')) return false;
  if (take(p, ')')) return true;
  do {
    vtb_type t;
    const char *name = NULL;
    if (!read_type(p, &t)) return false;
    if (p->lex.kind == VTB__T_STRING && !read_string(p, &name)) return false;
    vtb_vec_push(&b->returns, t);
    vtb_vec_push(&b->names, name);
  } while (take(p, ','));
  return expect(p, ')');
}

static bool skip_body(parser *p) {
  for (int depth = 1; depth > 0; vtb__lex_next(&p->lex)) {
    if (p->lex.kind == VTB__T_END || p->lex.kind == VTB__T_BAD) return syntax(p, "expected '}'");
    depth += is_punct(p, '{') - is_punct(p, '}');
  }
  return true;
}

static bool read_header(parser *p) {
  bool entry = take_word(p, "entry");
  vtb_func_kind kind = is_word(p, "step")     ? VTB_FUNC_STEP
                       : is_word(p, "kernel") ? VTB_FUNC_KERNEL
                       : is_word(p, "rule")   ? VTB_FUNC_RULE
                                              : VTB_FUNC_PLAIN;
  if (!take_word(p, "func") && !take_word(p, "step") && !take_word(p, "kernel") &&
      !take_word(p, "rule"))
    return syntax(p, "expected func, step, kernel or rule");
  vtb_span span = p->lex.span;
  const char *name = name_of(p, VTB__T_FUNC, "expected a function @name");
  if (!name) return false;
  if (vtb_module_find(p->module, name))
    return fail(p, VTB_DIAG_IR_TWICE, span, "a function of this name comes before");
  if (entry && p->module->entry)
    return fail(p, VTB_DIAG_IR_TWICE, span, "another function is the entry");
  vtb_vec_push(&p->bodies, ((body){.func = vtb_func_new(p->module, name, kind, span)}));
  body *b = &p->bodies.at[p->bodies.n - 1];
  if (entry) p->module->entry = b->func;
  if (!expect(p, '(')) return false;
  if (!take(p, ')')) {
    do {
      if (!read_arg(p, b->func)) return false;
    } while (take(p, ','));
    if (!expect(p, ')')) return false;
  }
  if (!read_returns(p, b)) return false;
  b->at = p->lex.at; /* the token is '{' if all is well */
  return expect(p, '{') && skip_body(p);
}

/* ---- instructions ---------------------------------------------------------------------------- */

typedef struct line {
  vtb_op op;
  vtb_func *callee;
  VTB_VEC(const char *) results;
  VTB_VEC(vtb_span) spans;
  VTB_VEC(vtb_value *) operands;
  VTB_VEC(vtb_attr) attrs;
  VTB_VEC(vtb_type) types;
} line;

static void line_free(line *l) {
  vtb_vec_free(&l->results);
  vtb_vec_free(&l->spans);
  vtb_vec_free(&l->operands);
  vtb_vec_free(&l->attrs);
  vtb_vec_free(&l->types);
}

static bool read_operand(parser *p, vtb_value **out) {
  if (p->lex.kind != VTB__T_VALUE) return syntax(p, "expected a value %name");
  *out = vtb_map_get(&p->values, p->lex.text.at);
  if (!*out) return fail_name(p, VTB_DIAG_IR_UNKNOWN, "no value %", p->lex.text.at, " before this");
  vtb__lex_next(&p->lex);
  return true;
}

static bool read_operands(parser *p, line *l) {
  do {
    vtb_value *v;
    if (!read_operand(p, &v)) return false;
    vtb_vec_push(&l->operands, v);
  } while (take(p, ','));
  return true;
}

static bool read_callee(parser *p, line *l) {
  l->callee = vtb_module_find(p->module, p->lex.text.at);
  if (!l->callee) return fail_name(p, VTB_DIAG_IR_UNKNOWN, "no function @", p->lex.text.at, "");
  vtb__lex_next(&p->lex);
  if (!expect(p, '(')) return false;
  return take(p, ')') || (read_operands(p, l) && expect(p, ')'));
}

/* Lists and strings go to the module's arena at once; vtb__inst_new() copies the list again, which
 * is cheap enough. */
static bool read_list(parser *p, vtb_attr *a) {
  VTB_VEC(int64_t) ints = {0};
  VTB_VEC(double) floats = {0};
  bool good = expect(p, '[');
  if (good && !take(p, ']')) {
    do {
      int64_t i = 0;
      double x = 0;
      good = a->kind == VTB_ATTR_INTS ? read_int(p, &i) : read_float(p, &x);
      if (a->kind == VTB_ATTR_INTS)
        vtb_vec_push(&ints, i);
      else
        vtb_vec_push(&floats, x);
    } while (good && take(p, ','));
    good = good && expect(p, ']');
  }
  size_t n = a->kind == VTB_ATTR_INTS ? ints.n : floats.n;
  if (n > (size_t)INT32_MAX) good = syntax(p, "the list is too long");
  if (good) {
    a->n = (int)n;
    a->ints = ints.n ? vtb_arena_memdup(&p->module->arena, ints.at, n * sizeof *ints.at) : NULL;
    a->floats =
        floats.n ? vtb_arena_memdup(&p->module->arena, floats.at, n * sizeof *floats.at) : NULL;
  }
  vtb_vec_free(&ints);
  vtb_vec_free(&floats);
  return good;
}

static bool read_attr(parser *p, line *l) {
  vtb__attr_spec spec;
  vtb_attr a = {0};
  if (p->lex.kind != VTB__T_WORD) return syntax(p, "expected an attribute");
  if (!vtb__attr_spec_find(l->op, p->lex.text.at, &spec))
    return fail_name(p, VTB_DIAG_IR_UNKNOWN, vtb_op_get(l->op)->name, " has no attribute ",
                     p->lex.text.at);
  for (size_t i = 0; i < l->attrs.n; i++)
    if (vtb_streq(l->attrs.at[i].key, p->lex.text.at))
      return syntax(p, "the attribute comes twice");
  a.key = name_of(p, VTB__T_WORD, "expected an attribute");
  a.kind = spec.kind;
  if (!expect(p, '=')) return false;
  bool good;
  if (a.kind == VTB_ATTR_INT && (is_word(p, "true") || is_word(p, "false"))) {
    a.i = is_word(p, "true");
    vtb__lex_next(&p->lex);
    good = true;
  } else if (a.kind == VTB_ATTR_INT) {
    good = read_int(p, &a.i);
  } else if (a.kind == VTB_ATTR_FLOAT) {
    good = read_float(p, &a.f);
  } else if (a.kind == VTB_ATTR_STR) {
    good = read_string(p, &a.s);
  } else {
    good = read_list(p, &a);
  }
  if (good) vtb_vec_push(&l->attrs, a);
  return good;
}

static bool read_results(parser *p, line *l) {
  do {
    vtb_span span = p->lex.span;
    const char *name = name_of(p, VTB__T_VALUE, "expected a value %name");
    if (!name) return false;
    bool twice = vtb_map_has(&p->values, name);
    for (size_t i = 0; i < l->results.n; i++) twice = twice || l->results.at[i] == name;
    if (twice) return fail(p, VTB_DIAG_IR_TWICE, span, "a value of this name comes before");
    if (l->results.n >= 4096) return fail(p, VTB_DIAG_IR_LIMIT, span, "too many results");
    vtb_vec_push(&l->results, name);
    vtb_vec_push(&l->spans, span);
  } while (take(p, ','));
  return expect(p, '=');
}

static bool read_line(parser *p, line *l) {
  if (p->lex.kind == VTB__T_VALUE && !read_results(p, l)) return false;
  if (p->lex.kind != VTB__T_WORD) return syntax(p, "expected an instruction");
  if (!vtb_op_find(p->lex.text.at, &l->op))
    return fail_name(p, VTB_DIAG_IR_UNKNOWN, "no op \"", p->lex.text.at, "\"");
  vtb__lex_next(&p->lex);
  if (p->lex.kind == VTB__T_FUNC && !read_callee(p, l)) return false;
  if (p->lex.kind == VTB__T_VALUE && !l->callee && !read_operands(p, l)) return false;
  if (take(p, '{') && !take(p, '}')) {
    do {
      if (!read_attr(p, l)) return false;
    } while (take(p, ','));
    if (!expect(p, '}')) return false;
  }
  if (l->results.n == 0) return true;
  if (!expect(p, ':')) return false;
  for (size_t i = 0; i < l->results.n; i++) {
    vtb_type t;
    if (i && !expect(p, ',')) return false;
    if (!read_type(p, &t)) return false;
    vtb_vec_push(&l->types, t);
  }
  return true;
}

static void add_line(parser *p, vtb_func *f, const line *l, vtb_span span) {
  vtb_inst *inst = vtb__inst_new(f, l->op, l->callee, l->operands.at, (int)l->operands.n,
                                 l->attrs.at, (int)l->attrs.n, span);
  inst->n_results = (int)l->results.n;
  inst->results = VTB_NEW_ARRAY(&p->module->arena, vtb_value *, l->results.n);
  for (int i = 0; i < inst->n_results; i++) {
    inst->results[i] = vtb__value_new(f, l->results.at[i], &l->types.at[i], inst, i);
    vtb_map_set(&p->values, l->results.at[i], inst->results[i]);
  }
  vtb__inst_link(f, inst, NULL);
}

static bool read_return(parser *p, body *b, vtb_span span) {
  line l = {0};
  bool good = p->lex.kind != VTB__T_VALUE || read_operands(p, &l);
  if (good && l.operands.n != b->returns.n)
    good = fail(p, VTB_DIAG_IR_DECLARED, span, "the header declares another number of results");
  for (size_t i = 0; good && i < l.operands.n; i++)
    if (!vtb_type_equal(&l.operands.at[i]->type, &b->returns.at[i]))
      good = fail(p, VTB_DIAG_IR_DECLARED, span,
                  "a returned value is not of the type that the header declares");
  if (good) vtb_func_set_returns(b->func, l.operands.at, b->names.at, (int)l.operands.n);
  line_free(&l);
  return good && expect(p, '}');
}

static bool read_body(parser *p, body *b) {
  vtb_map_free(&p->values);
  for (int i = 0; i < b->func->n_args; i++)
    vtb_map_set(&p->values, b->func->args[i]->name, b->func->args[i]);
  vtb__lex_at(&p->lex, p->lex.source, b->at);
  for (;;) {
    vtb_span span = p->lex.span;
    if (take_word(p, "return")) return read_return(p, b, span);
    line l = {0};
    bool good = read_line(p, &l);
    /* The last token belongs to the next line; the span ends where the text before it does. */
    span.end = p->lex.span.begin;
    while (span.end > span.begin + 1 && strchr(" \t\r\n", p->lex.source->text[span.end - 1]))
      span.end--;
    if (good) add_line(p, b->func, &l, span);
    line_free(&l);
    if (!good) return false;
  }
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void check_inst(parser *p, const vtb_inst *inst) {
  VTB_VEC(vtb_type) given = {0};
  for (int i = 0; i < inst->n_results; i++) vtb_vec_push(&given, inst->results[i]->type);
  vtb__shape s;
  if (!vtb__shape_infer(&s, inst, given.at, inst->n_results)) {
    vtb_diag_error(p->diags, s.code, inst->span, "%s", s.text);
    p->failed = true;
  } else if ((int)s.results.n != inst->n_results) {
    vtb_diag_error(p->diags, VTB_DIAG_IR_DECLARED, inst->span, "%s has %zu results, not %d",
                   vtb_op_get(inst->op)->name, s.results.n, inst->n_results);
    p->failed = true;
  }
  for (int i = 0; !s.code && i < inst->n_results && (size_t)i < s.results.n; i++) {
    if (vtb_type_equal(&s.results.at[i], &given.at[i])) continue;
    vtb_diag_error(p->diags, VTB_DIAG_IR_DECLARED, inst->span, "%%%s is %s, not %s",
                   inst->results[i]->name, vtb__shape_text(&s, &s.results.at[i]),
                   vtb__shape_text(&s, &given.at[i]));
    p->failed = true;
  }
  vtb__shape_free(&s);
  vtb_vec_free(&given);
}

static void check(parser *p) {
  for (vtb_func *f = p->module->first; f; f = f->next)
    for (vtb_inst *inst = f->first; inst; inst = inst->next) check_inst(p, inst);
  vtb_error err = {0};
  if (!p->failed && !vtb_module_verify(p->module, &err))
    fail(p, VTB_DIAG_IR_DECLARED, p->module->first ? p->module->first->span : VTB_NO_SPAN,
         err.text);
}

static void read_module(parser *p) {
  vtb__lex_at(&p->lex, p->lex.source, 0);
  if (take_word(p, "module")) {
    const char *name;
    if (!read_string(p, &name)) return;
    p->module->name = name;
  }
  while (p->lex.kind != VTB__T_END)
    if (!read_header(p)) return;
  for (size_t i = 0; i < p->bodies.n; i++)
    if (!read_body(p, &p->bodies.at[i])) return;
  check(p);
}

vtb_module *vtb_module_parse(const vtb_source *source, vtb_diags *diags) {
  parser p = {.diags = diags, .module = vtb_module_new("")};
  p.lex.source = source;
  if (source->n > (size_t)INT32_MAX)
    fail(&p, VTB_DIAG_IR_LIMIT, VTB_NO_SPAN, "the text is longer than 2 GiB");
  else
    read_module(&p);
  for (size_t i = 0; i < p.bodies.n; i++) {
    vtb_vec_free(&p.bodies.at[i].returns);
    vtb_vec_free(&p.bodies.at[i].names);
  }
  vtb_vec_free(&p.bodies);
  vtb_map_free(&p.values);
  vtb__lex_free(&p.lex);
  if (!p.failed) return p.module;
  vtb_module_free(p.module);
  return NULL;
}
