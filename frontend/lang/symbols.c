/* The meaning of names in a unit's files.
 *
 * A body has one flat set of variables, that of an `along` a set of its own, which sees those
 * around it (env.c). So names are resolved in two walks over each body: the first declares what
 * gets a value in it, the second looks names up: in the bodies around them, among the parameters,
 * among the declarations that the file sees, among the builtins. */
#include "frontend/lang/symbols.h"
#include "frontend/lang/ast_walk.h"
#include "frontend/lang/builtin.h"
#include "frontend/lang/entry.h"
#include "frontend/lang/symbols_text.h"
#include "frontend/lang/value.h"

typedef struct region { /* where variables can be written */
  uint32_t begin, end;
  const vtb_lang_symbol **symbols;
  size_t n;
} region;

typedef struct call {
  vtb_span span;
  const vtb_lang_symbol *callee;
} call;

struct vtb_symbols {
  vtb_unit *unit;
  vtb_arena arena;
  vtb_map decls;    /* place of a declaration -> symbol */
  vtb_map builtins; /* name -> symbol */
  VTB_VEC(vtb_occurrence) occurrences;
  VTB_VEC(region) regions; /* of the root file */
  VTB_VEC(call) calls;     /* of the root file */
};

typedef struct scope {
  struct scope *up;
  vtb_map names;
  VTB_VEC(const vtb_lang_symbol *) list;
} scope;

typedef struct resolver {
  vtb__visitor visitor;
  vtb_symbols *s;
  const vtb_file *file;
  scope *scope;
} resolver;

/* ---- making symbols -------------------------------------------------------------------------- */

static vtb_lang_symbol *new_symbol(vtb_symbols *s, vtb_symbol_kind kind, const char *name,
                                   vtb_span at) {
  vtb_lang_symbol *symbol = VTB_NEW(&s->arena, vtb_lang_symbol);
  *symbol = (vtb_lang_symbol){.kind = kind, .name = name, .at = at, .doc = "", .signature = name};
  return symbol;
}

static void occurs(resolver *r, const vtb_lang_symbol *symbol, vtb_span at, bool writes) {
  size_t n = at.end - at.begin;
  if (!symbol || !at.source || at.source != r->file->source) return;
  bool same = strlen(symbol->name) == n && memcmp(at.source->text + at.begin, symbol->name, n) == 0;
  vtb_vec_push(&r->s->occurrences,
               ((vtb_occurrence){.symbol = symbol, .at = at, .alias = !same, .writes = writes}));
}

static const char *key_of(const vtb_decl *d, char text[32]) {
  snprintf(text, 32, "%p", (const void *)d);
  return text;
}

static void take_words(vtb_symbols *s, vtb_lang_symbol *symbol, const vtb_type_expr *t) {
  while (t && t->kind == VTB_TYPE_LIST) t = t->elem;
  if (!t || t->kind != VTB_TYPE_CHOICE) return;
  const char **words = VTB_NEW_ARRAY(&s->arena, const char *, t->n_choices);
  for (size_t i = 0; i < t->n_choices; i++) words[i] = t->choices[i]->name.text;
  symbol->words = words;
  symbol->n_words = t->n_choices;
}

static void take_parameters(vtb_symbols *s, vtb_lang_symbol *symbol, const vtb_decl *d) {
  const vtb_lang_symbol **list = VTB_NEW_ARRAY(&s->arena, const vtb_lang_symbol *, d->params.n + 1);
  for (size_t i = 0; i < d->params.n; i++) {
    const vtb_param *p = d->params.at[i];
    vtb_lang_symbol *parameter = new_symbol(s, VTB_SYMBOL_PARAMETER, p->name.text, p->name.span);
    parameter->signature = vtb__one_line(&s->arena, p->span);
    parameter->required = !p->fallback;
    parameter->is_tensor =
        p->type && (p->type->kind == VTB_TYPE_SHAPE ||
                    (p->type->kind == VTB_TYPE_NAME && vtb__is_tensor_type(p->type)));
    parameter->is_function = p->type && vtb__is_function_type(p->type);
    take_words(s, parameter, p->type);
    list[i] = parameter;
  }
  symbol->parameters = list;
  symbol->n_parameters = d->params.n;
}

/* Parameters of a builtin function: of its last form, which has most. */
static void take_builtin(vtb_symbols *s, vtb_lang_symbol *symbol) {
  const vtb__builtin *row = vtb__builtin_find(symbol->name);
  if (!row || !row->parameters) return;
  vtb__parameter p[VTB__MOST_PARAMETERS];
  const char *at = row->parameters;
  int n = 0;
  while (*at) n = vtb__builtin_form(&s->arena, &at, p);
  const vtb_lang_symbol **list = VTB_NEW_ARRAY(&s->arena, const vtb_lang_symbol *, n + 1);
  for (int i = 0; i < n; i++) {
    vtb_lang_symbol *parameter = new_symbol(s, VTB_SYMBOL_PARAMETER, p[i].name, VTB_NO_SPAN);
    parameter->signature =
        vtb_arena_printf(&s->arena, "%s: %s%s%s%s", p[i].name, p[i].kind, p[i].any ? "..." : "",
                         p[i].otherwise ? " = " : "", p[i].otherwise ? p[i].otherwise : "");
    parameter->required = !p[i].otherwise;
    parameter->is_tensor = p[i].kind[0] == 't';
    list[i] = parameter;
  }
  symbol->parameters = list;
  symbol->n_parameters = (size_t)n;
  symbol->doc = row->doc;
  symbol->signature = vtb_arena_printf(&s->arena, "%s(%s)", row->name, row->parameters);
}

static const vtb_lang_symbol *symbol_of(vtb_symbols *s, const vtb_decl *d) {
  char key[32];
  vtb_lang_symbol *symbol = vtb_map_get(&s->decls, key_of(d, key));
  if (symbol || !d) return symbol;
  symbol = new_symbol(s, VTB_SYMBOL_DECL, d->name.text, d->name.span);
  vtb_map_set(&s->decls, key, symbol);
  symbol->decl_kind = d->kind;
  symbol->all = d->span;
  symbol->doc = d->doc ? d->doc : "";
  symbol->signature = vtb__signature(&s->arena, d);
  symbol->n_results = d->n_results;
  symbol->is_function =
      d->kind != VTB_DECL_CONST && d->kind != VTB_DECL_OPTIMIZER && d->kind != VTB_DECL_SCHEDULE;
  take_parameters(s, symbol, d);
  const vtb_decl *base = vtb__behind_presets(d);
  if (d->kind == VTB_DECL_PRESET && base && base->kind == VTB_DECL_MODEL) {
    const vtb_lang_symbol *model = symbol_of(s, base);
    symbol->parameters = model->parameters;
    symbol->n_parameters = model->n_parameters;
  }
  return symbol;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

static const vtb_lang_symbol *declare(resolver *r, const char *name, vtb_span at) {
  vtb_lang_symbol *known = name ? vtb_map_get(&r->scope->names, name) : NULL;
  if (known || !name) return known;
  vtb_lang_symbol *symbol = new_symbol(r->s, VTB_SYMBOL_VARIABLE, name, at);
  symbol->signature = vtb__line_of(&r->s->arena, at);
  vtb_map_set(&r->scope->names, name, symbol);
  vtb_vec_push(&r->scope->list, symbol);
  return symbol;
}

/* A name that gets a value: a parameter's keeps its symbol. */
static void write_name(resolver *r, const vtb_name *name) {
  if (name->text) occurs(r, declare(r, name->text, name->span), name->span, true);
}

static bool is_bare(const vtb_expr *x) {
  return x && x->kind == VTB_EXPR_STRING && x->span.source &&
         x->span.end - x->span.begin == strlen(x->u.str);
}

static bool declare_stmt(vtb__visitor *v, const vtb_stmt *s) {
  resolver *r = (resolver *)v;
  switch (s->kind) {
  case VTB_STMT_ASSIGN:
  case VTB_STMT_OP_ASSIGN:
    for (size_t i = 0; i < s->u.assign.n_targets; i++) write_name(r, &s->u.assign.targets[i]);
    break;
  case VTB_STMT_LET:
    write_name(r, &s->u.let.name);
    break;
  case VTB_STMT_INPUT:
    for (size_t i = 0; i < s->u.input.n_names; i++) write_name(r, &s->u.input.names[i]);
    if (s->u.input.type->kind == VTB_TYPE_VIEW) write_name(r, &s->u.input.type->name);
    break;
  case VTB_STMT_REPEAT:
    write_name(r, &s->u.repeat.as);
    break;
  case VTB_STMT_ITERATE:
    write_name(r, &s->u.iterate.as);
    break;
  case VTB_STMT_STATE:
    for (size_t i = 0; i < s->u.state.n; i++) write_name(r, &s->u.state.at[i]->name);
    break;
  case VTB_STMT_OUTPUT:
    if (is_bare(s->u.named.name)) {
      vtb_name name = {s->u.named.name->u.str, s->u.named.name->span};
      write_name(r, &name);
    }
    break;
  default:
    break;
  }
  return true;
}

/* Bodies of `along` are scopes of their own; what is around them is not. */
static bool declare_expr(vtb__visitor *v, const vtb_expr *x) {
  if (x->kind != VTB_EXPR_ALONG) return true;
  vtb__walk_expr(v, x->u.along.path);
  vtb__walk_expr(v, x->u.along.suffix);
  return false;
}

/* [K, V] in the types of a recurrence, and their like: axes are named where they first stand. */
static bool declare_type(vtb__visitor *v, const vtb_type_expr *t) {
  resolver *r = (resolver *)v;
  for (size_t i = 0; i < t->dims.n; i++) {
    const vtb_expr *x = t->dims.at[i];
    if (x->kind == VTB_EXPR_NAME && !vtb__file_lookup(r->file, x->u.name))
      declare(r, x->u.name, x->span);
  }
  return t->kind == VTB_TYPE_LIST;
}

static void begin_scope(resolver *r, scope *inner) {
  *inner = (scope){.up = r->scope};
  r->scope = inner;
}

/* The scope's names may be written between the bytes. */
static void end_scope(resolver *r, uint32_t begin, uint32_t end) {
  scope *inner = r->scope;
  if (r->file == r->s->unit->files.at[0] && inner->list.n) {
    region g = {.begin = begin, .end = end, .n = inner->list.n};
    g.symbols = vtb_arena_memdup(&r->s->arena, inner->list.at, g.n * sizeof *g.symbols);
    vtb_vec_push(&r->s->regions, g);
  }
  r->scope = inner->up;
  vtb_map_free(&inner->names);
  vtb_vec_free(&inner->list);
}

/* ---- looking up ------------------------------------------------------------------------------ */

static const vtb_lang_symbol *builtin(vtb_symbols *s, const char *name) {
  return vtb_map_get(&s->builtins, name);
}

static const vtb_lang_symbol *find_symbol(const resolver *r, const char *name) {
  for (const scope *at = r->scope; at; at = at->up) {
    const vtb_lang_symbol *symbol = vtb_map_get(&at->names, name);
    if (symbol) return symbol;
  }
  const vtb_decl *d = vtb__file_lookup(r->file, name);
  return d ? symbol_of(r->s, d) : builtin(r->s, name);
}

/* A variable of a declaration's name is not called, unless its type says that it is a function. */
static const vtb_lang_symbol *callee_of(const resolver *r, const char *name) {
  const vtb_lang_symbol *any = find_symbol(r, name);
  if (any && any->is_function) return any;
  const vtb_decl *d = vtb__file_lookup(r->file, name);
  const vtb_lang_symbol *declared = d ? symbol_of(r->s, d) : builtin(r->s, name);
  return declared ? declared : any;
}

static const vtb_lang_symbol *parameter_of(const vtb_symbols *s, const vtb_decl *d,
                                           const char *name) {
  d = vtb__behind_presets(d);
  int k = d ? vtb__param_index(d, name) : -1;
  return k < 0 ? NULL : symbol_of((vtb_symbols *)s, d)->parameters[k];
}

static void resolve_call(resolver *r, const vtb_expr *x) {
  vtb_name name = x->u.call.callee;
  const vtb_lang_symbol *callee = callee_of(r, name.text);
  const vtb_decl *d = vtb__file_lookup(r->file, name.text);
  occurs(r, callee, name.span, false);
  if (callee && r->file == r->s->unit->files.at[0])
    vtb_vec_push(&r->s->calls, ((call){.span = x->span, .callee = callee}));
  for (size_t i = 0; d && i < x->u.call.args.n; i++) {
    const vtb_name *argument = &x->u.call.args.at[i]->name;
    if (argument->text) occurs(r, parameter_of(r->s, d, argument->text), argument->span, false);
  }
}

static void resolve_along(resolver *r, const vtb_expr *x);

static bool resolve_expr(vtb__visitor *v, const vtb_expr *x) {
  resolver *r = (resolver *)v;
  if (x->kind == VTB_EXPR_NAME && x->span.end - x->span.begin == strlen(x->u.name))
    occurs(r, find_symbol(r, x->u.name), x->span, false);
  if (x->kind == VTB_EXPR_CALL) resolve_call(r, x);
  if (x->kind != VTB_EXPR_ALONG) return true;
  resolve_along(r, x);
  return false;
}

/* A body: its declarations, then the meaning of its names. */
static void in_body(resolver *r, const vtb_stmt_list *body) {
  vtb__visitor resolving = r->visitor;
  r->visitor = (vtb__visitor){.expr = declare_expr, .stmt = declare_stmt};
  vtb__walk_stmts(&r->visitor, body);
  r->visitor = resolving;
  vtb__walk_stmts(&r->visitor, body);
}

static void resolve_along(resolver *r, const vtb_expr *x) {
  scope inner;
  vtb__walk_expr(&r->visitor, x->u.along.path);
  vtb__walk_expr(&r->visitor, x->u.along.suffix);
  begin_scope(r, &inner);
  write_name(r, &x->u.along.as);
  in_body(r, &x->u.along.body);
  end_scope(r, x->span.begin, x->span.end);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void bind_parameters(resolver *r, const vtb_decl *d, const vtb_lang_symbol *symbol) {
  for (size_t i = 0; d->kind != VTB_DECL_PRESET && i < d->params.n; i++) {
    vtb_lang_symbol *parameter = (vtb_lang_symbol *)symbol->parameters[i];
    vtb_map_set(&r->scope->names, parameter->name, parameter);
    vtb_vec_push(&r->scope->list, parameter);
    occurs(r, parameter, parameter->at, true);
    for (size_t k = 0; k < d->params.at[i]->n_aliases; k++)
      occurs(r, parameter, d->params.at[i]->aliases[k].span, true);
  }
}

static void in_types(resolver *r, const vtb_decl *d) {
  vtb__visitor resolving = r->visitor;
  r->visitor = (vtb__visitor){.type = declare_type};
  for (size_t i = 0; i < d->params.n; i++) vtb__walk_type(&r->visitor, d->params.at[i]->type);
  for (size_t i = 0; i < d->n_results; i++) vtb__walk_type(&r->visitor, d->results[i]);
  r->visitor = resolving;
  for (size_t i = 0; i < d->params.n; i++) {
    vtb__walk_type(&r->visitor, d->params.at[i]->type);
    vtb__walk_expr(&r->visitor, d->params.at[i]->fallback);
  }
  for (size_t i = 0; i < d->n_results; i++) vtb__walk_type(&r->visitor, d->results[i]);
}

static void in_decl(resolver *r, const vtb_decl *d, uint32_t end) {
  const vtb_lang_symbol *symbol = symbol_of(r->s, d);
  scope inner;
  occurs(r, symbol, d->name.span, true);
  for (size_t i = 0; i < d->n_aliases; i++) occurs(r, symbol, d->aliases[i].span, true);
  begin_scope(r, &inner);
  bind_parameters(r, d, symbol);
  in_types(r, d);
  vtb__walk_type(&r->visitor, d->type);
  vtb__walk_expr(&r->visitor, d->value);
  vtb__walk_expr(&r->visitor, d->prepare);
  in_body(r, &d->body);
  end_scope(r, d->span.begin, end);
}

static void in_file(vtb_symbols *s, const vtb_file *f) {
  resolver r = {.visitor = {.expr = resolve_expr}, .s = s, .file = f};
  for (size_t i = 0; i < f->uses.n; i++) {
    const vtb_use *use = &f->uses.at[i];
    if (!use->file) continue;
    vtb_span begin = {.source = use->file->source};
    vtb_lang_symbol *file = new_symbol(s, VTB_SYMBOL_FILE, use->path.text, begin);
    file->signature = vtb_arena_printf(&s->arena, "use %s", use->path.text);
    occurs(&r, file, use->path.span, false);
  }
  for (size_t i = 0; i < f->notes.n; i++)
    if (f->notes.at[i].decl)
      occurs(&r, symbol_of(s, f->notes.at[i].decl), f->notes.at[i].of.span, false);
  for (size_t i = 0; i < f->decls.n; i++) {
    bool last = i + 1 == f->decls.n;
    in_decl(&r, f->decls.at[i], last ? (uint32_t)f->source->n + 1 : f->decls.at[i + 1]->span.begin);
  }
}

/* By file and place. */
static int by_place(const void *a, const void *b) {
  const vtb_span *x = &((const vtb_occurrence *)a)->at, *y = &((const vtb_occurrence *)b)->at;
  if (x->source != y->source) return (uintptr_t)x->source < (uintptr_t)y->source ? -1 : 1;
  return (x->begin > y->begin) - (x->begin < y->begin);
}

vtb_symbols *vtb_symbols_new(vtb_unit *u) {
  vtb_symbols *s = vtb_xcalloc(1, sizeof *s);
  s->unit = u;
  vtb_arena_init(&s->arena);
  for (int functions = 0; functions < 2; functions++) {
    const char **names;
    size_t n = vtb_builtins(functions, &names);
    for (size_t i = 0; i < n; i++) {
      vtb_lang_symbol *symbol = new_symbol(s, VTB_SYMBOL_BUILTIN, names[i], VTB_NO_SPAN);
      symbol->is_function = functions;
      if (functions) take_builtin(s, symbol);
      vtb_map_set(&s->builtins, names[i], symbol);
    }
    vtb_free(names);
  }
  for (size_t i = 0; i < u->files.n; i++) in_file(s, u->files.at[i]);
  if (s->occurrences.n)
    qsort(s->occurrences.at, s->occurrences.n, sizeof *s->occurrences.at, by_place);
  return s;
}

void vtb_symbols_free(vtb_symbols *s) {
  if (!s) return;
  vtb_map_free(&s->decls);
  vtb_map_free(&s->builtins);
  vtb_vec_free(&s->occurrences);
  vtb_vec_free(&s->regions);
  vtb_vec_free(&s->calls);
  vtb_arena_free(&s->arena);
  vtb_free(s);
}

/* ---- asking ---------------------------------------------------------------------------------- */

size_t vtb_symbols_occurrences(const vtb_symbols *s, const vtb_occurrence **out) {
  *out = s->occurrences.at;
  return s->occurrences.n;
}

const vtb_occurrence *vtb_symbols_at(const vtb_symbols *s, uint32_t offset) {
  const vtb_source *root = s->unit->files.at[0]->source;
  const vtb_occurrence *best = NULL;
  for (size_t i = 0; i < s->occurrences.n; i++) {
    const vtb_occurrence *o = &s->occurrences.at[i];
    if (o->at.source != root || offset < o->at.begin || offset > o->at.end) continue;
    if (!best || o->at.begin >= best->at.begin) best = o;
  }
  return best;
}

typedef VTB_VEC(const vtb_lang_symbol *) symbol_list;

static void see(symbol_list *list, vtb_map *seen, const vtb_lang_symbol *symbol) {
  if (vtb_map_has(seen, symbol->name)) return;
  vtb_map_set(seen, symbol->name, (void *)symbol);
  vtb_vec_push(list, symbol);
}

size_t vtb_symbols_visible(const vtb_symbols *s, uint32_t offset, const vtb_lang_symbol ***out) {
  symbol_list list = {0};
  vtb_map seen = {0};
  const vtb_file *root = s->unit->files.at[0];
  for (size_t i = 0; i < s->regions.n; i++) { /* inner ones end, and stand, first */
    const region *g = &s->regions.at[i];
    for (size_t k = 0; offset >= g->begin && offset <= g->end && k < g->n; k++)
      see(&list, &seen, g->symbols[k]);
  }
  for (size_t i = 0; i < root->decls.n; i++)
    see(&list, &seen, symbol_of((vtb_symbols *)s, root->decls.at[i]));
  for (size_t i = 0; i < root->uses.n; i++) {
    const vtb_file *used = root->uses.at[i].file;
    for (size_t k = 0; used && k < used->decls.n; k++)
      see(&list, &seen, symbol_of((vtb_symbols *)s, used->decls.at[k]));
  }
  for (size_t i = 0; i < s->builtins.n; i++) see(&list, &seen, s->builtins.at[i].value);
  vtb_map_free(&seen);
  *out = list.at;
  return list.n;
}

const vtb_lang_symbol *vtb_symbols_call(const vtb_symbols *s, uint32_t offset) {
  const call *best = NULL;
  for (size_t i = 0; i < s->calls.n; i++) {
    const call *c = &s->calls.at[i];
    if (offset > c->span.begin && offset <= c->span.end &&
        (!best || c->span.begin >= best->span.begin))
      best = c;
  }
  return best ? best->callee : NULL;
}

size_t vtb_symbols_decls(const vtb_symbols *s, const vtb_lang_symbol ***out) {
  symbol_list list = {0};
  const vtb_file *root = s->unit->files.at[0];
  for (size_t i = 0; i < root->decls.n; i++)
    vtb_vec_push(&list, symbol_of((vtb_symbols *)s, root->decls.at[i]));
  *out = list.at;
  return list.n;
}

size_t vtb_builtins(bool functions, const char ***out) {
  const char **all;
  size_t n = vtb__builtin_names(&all), kept = 0;
  for (size_t i = 0; i < n; i++)
    if ((vtb__builtin_find(all[i]) != NULL) == functions) all[kept++] = all[i];
  *out = all;
  return kept;
}
