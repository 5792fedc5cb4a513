/* Modules and functions: making, copying, ordering. Values and names. */
#include "ir/internal.h"

vtb_module *vtb_module_new(const char *name) {
  vtb__module *full = vtb_xcalloc(1, sizeof *full);
  vtb_arena_init(&full->base.arena);
  full->base.name = vtb_arena_strdup(&full->base.arena, name ? name : "");
  return &full->base;
}

void vtb_module_free(vtb_module *m) {
  if (!m) return;
  vtb__module *full = (vtb__module *)m;
  for (vtb_func *f = m->first; f; f = f->next) vtb_map_free(&f->names);
  vtb_map_free(&full->interned);
  vtb_map_free(&full->functions);
  vtb_map_free(&full->suffixes);
  vtb_map_free(&full->products);
  vtb_arena_free(&m->scratch);
  vtb_arena_free(&m->arena);
  vtb_free(full);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void put_name(vtb_strbuf *out, const char *hint) {
  if (!vtb__is_name_char(hint[0], true)) vtb_strbuf_putc(out, '_');
  for (const char *p = hint; *p; p++) vtb_strbuf_putc(out, vtb__is_name_char(*p, false) ? *p : '_');
}

size_t vtb_name_stem(const char *name) {
  size_t n = strlen(name), end = n;
  while (end && name[end - 1] >= '0' && name[end - 1] <= '9') end--;
  return end > 1 && end < n && name[end - 1] == '.' ? end - 1 : n;
}

/* The map's value is the next suffix to try, so that many equal hints do not cost a search each. */
static const char *value_name(vtb_func *f, const char *hint, int id) {
  vtb_strbuf base = {0};
  if (hint && *hint)
    put_name(&base, hint);
  else
    vtb_strbuf_printf(&base, "v%d", id);
  if (vtb_map_has(&f->names, base.at)) {
    size_t n = vtb_name_stem(base.at);
    base.at[n] = 0;
    char *stem = vtb_xstrdup(base.at);
    uintptr_t suffix = (uintptr_t)vtb_map_get(&f->names, stem);
    if (!suffix) suffix = 1;
    do {
      base.n = n;
      vtb_strbuf_printf(&base, ".%zu", (size_t)suffix++);
    } while (vtb_map_has(&f->names, base.at));
    vtb_map_set(&f->names, stem, (void *)suffix);
    vtb_free(stem);
  }
  vtb_map_set(&f->names, base.at, (void *)(uintptr_t)1);
  char *name = vtb_arena_strdup(&f->module->arena, base.at);
  vtb_strbuf_free(&base);
  return name;
}

void vtb_value_rename(vtb_value *v, const char *name) {
  v->name = value_name(v->func, name, v->id);
}

static void renumber(vtb_func *f) {
  vtb_map_free(&f->names);
  for (int i = 0; i < f->n_args; i++) vtb_map_set(&f->names, f->args[i]->name, (void *)1);
  for (vtb_inst *inst = f->first; inst; inst = inst->next)
    for (int i = 0; i < inst->n_results; i++) {
      char *stem = vtb_xstrdup(inst->results[i]->name);
      stem[vtb_name_stem(stem)] = 0;
      vtb_value_rename(inst->results[i], stem);
      vtb_free(stem);
    }
}

void vtb_module_renumber_names(vtb_module *m) {
  for (vtb_func *f = m->first; f; f = f->next) renumber(f);
}

vtb_value *vtb__value_new(vtb_func *f, const char *hint, const vtb_type *type, vtb_inst *def,
                          int index) {
  vtb_value *v = VTB_NEW(&f->module->arena, vtb_value);
  v->id = f->n_values++;
  v->name = value_name(f, hint, v->id);
  v->type = vtb__type_intern(f->module, type);
  v->def = def;
  v->index = index;
  v->func = f;
  return v;
}

static const char *func_name(vtb_module *m, const char *hint) {
  vtb__module *full = (vtb__module *)m;
  vtb_strbuf name = {0};
  put_name(&name, hint && *hint ? hint : "f");
  if (vtb_map_get(&full->functions, name.at)) {
    size_t n = name.n;
    char *base = vtb_xstrdup(name.at);
    uintptr_t suffix = (uintptr_t)vtb_map_get(&full->suffixes, base);
    if (!suffix) suffix = 1;
    do {
      name.n = n;
      vtb_strbuf_printf(&name, "_%zu", (size_t)suffix++);
    } while (vtb_map_get(&full->functions, name.at));
    vtb_map_set(&full->suffixes, base, (void *)suffix);
    vtb_free(base);
  }
  const char *copy = vtb_arena_strdup(&m->arena, name.at);
  vtb_strbuf_free(&name);
  return copy;
}

/* ---- functions ------------------------------------------------------------------------------- */

vtb_func *vtb_func_new(vtb_module *m, const char *name, vtb_func_kind kind, vtb_span span) {
  vtb_func *f = VTB_NEW(&m->arena, vtb_func);
  f->name = func_name(m, name);
  f->declared = vtb_intern(m, name);
  f->kind = kind;
  f->span = span;
  f->module = m;
  if (m->last)
    m->last->next = f;
  else
    m->first = f;
  m->last = f;
  vtb_map_set(&((vtb__module *)m)->functions, f->name, f);
  return f;
}

vtb_func *vtb_func_made_of(const vtb_func *f, const char *suffix) {
  vtb_module *m = f->module;
  const char *name = vtb_arena_printf(&m->scratch, "%s_%s", f->name, suffix);
  vtb_func *made = vtb_func_new(m, name, VTB_FUNC_PLAIN, f->span);
  made->declared = vtb_arena_printf(&m->arena, "%s_%s", f->declared, suffix);
  return made;
}

vtb_func *vtb_module_find(const vtb_module *m, const char *name) {
  return vtb_map_get(&((const vtb__module *)m)->functions, name);
}

/* "f_12" is gone: the next "f" that needs a number may have 12. */
static void free_suffix(vtb__module *full, const char *name) {
  const char *end = strrchr(name, '_');
  if (!end) return;
  char *base = vtb_xstrdup(name);
  base[end - name] = 0;
  uintptr_t suffix = strtoul(end + 1, NULL, 10);
  if (suffix && suffix < (uintptr_t)vtb_map_get(&full->suffixes, base))
    vtb_map_set(&full->suffixes, base, (void *)suffix);
  vtb_free(base);
}

void vtb_module_remove(vtb_module *m, vtb_func *f) {
  vtb_func *before = NULL;
  for (vtb_func *g = m->first; g != f; g = g->next) {
    vtb_check(g != NULL, "removing @%s, which is not in the module", f->name);
    before = g;
  }
  if (before)
    before->next = f->next;
  else
    m->first = f->next;
  if (m->last == f) m->last = before;
  if (m->entry == f) m->entry = NULL;
  vtb_map_set(&((vtb__module *)m)->functions, f->name, NULL);
  free_suffix((vtb__module *)m, f->name);
  vtb_map_free(&f->names);
  f->next = NULL;
}

void *vtb__array_grow(vtb_arena *a, void *at, int n, size_t elem_bytes) {
  if ((n & (n - 1)) != 0) return at;
  void *wider = vtb_arena_array(a, n ? 2 * (size_t)n : 1, elem_bytes);
  if (n) memcpy(wider, at, (size_t)n * elem_bytes);
  return wider;
}

vtb_value *vtb_func_add_arg(vtb_func *f, const char *name, vtb_type type) {
  vtb_arena *a = &f->module->arena;
  f->args = vtb__array_grow(a, f->args, f->n_args, sizeof *f->args);
  f->arg_info = vtb__array_grow(a, f->arg_info, f->n_args, sizeof *f->arg_info);
  vtb_value *v = vtb__value_new(f, name, &type, NULL, f->n_args);
  f->arg_info[f->n_args] = (vtb_arg_info){.role = VTB_ROLE_PLAIN};
  f->args[f->n_args++] = v;
  return v;
}

void vtb_func_remove_arg(vtb_func *f, int index) {
  vtb_check(index >= 0 && index < f->n_args, "@%s has no argument %d", f->name, index);
  /* vtb__array_grow() counts on the capacity that belongs to n_args: shorter arrays are new. */
  vtb_arena *a = &f->module->arena;
  int n = f->n_args;
  vtb_value **args = f->args;
  vtb_arg_info *info = f->arg_info;
  f->args = NULL;
  f->arg_info = NULL;
  f->n_args = 0;
  for (int i = 0; i < n; i++) {
    if (i == index) continue;
    f->args = vtb__array_grow(a, f->args, f->n_args, sizeof *f->args);
    f->arg_info = vtb__array_grow(a, f->arg_info, f->n_args, sizeof *f->arg_info);
    args[i]->index = f->n_args;
    f->arg_info[f->n_args] = info[i];
    f->args[f->n_args++] = args[i];
  }
}

void vtb_func_add_return(vtb_func *f, vtb_value *v, const char *name) {
  vtb_arena *a = &f->module->arena;
  vtb_check(v && v->func == f, "@%s returns a value of another function", f->name);
  f->returns = vtb__array_grow(a, f->returns, f->n_returns, sizeof *f->returns);
  f->return_names = vtb__array_grow(a, f->return_names, f->n_returns, sizeof *f->return_names);
  f->return_names[f->n_returns] = name ? vtb_intern(f->module, name) : NULL;
  f->returns[f->n_returns++] = v;
}

/* The old arrays, which may be those that are given, stay in the arena. */
void vtb_func_set_returns(vtb_func *f, vtb_value *const *values, const char *const *names, int n) {
  f->returns = NULL;
  f->return_names = NULL;
  f->n_returns = 0;
  for (int i = 0; i < n; i++) vtb_func_add_return(f, values[i], names ? names[i] : NULL);
}

int vtb_func_number(vtb_func *f) {
  int n = 0;
  for (vtb_inst *inst = f->first; inst; inst = inst->next) inst->order = n++;
  return n;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static const char *intern_or_null(vtb_module *m, const char *s) {
  return s ? vtb_intern(m, s) : NULL;
}

static vtb_func *copy_shell(vtb_func *f, vtb_module *into, const char *name) {
  vtb_func *copy = vtb_func_new(into, name, f->kind, f->span);
  copy->declared = vtb_intern(into, f->declared);
  for (int i = 0; i < f->n_args; i++) {
    vtb_func_add_arg(copy, f->args[i]->name, f->args[i]->type);
    vtb_arg_info info = f->arg_info[i];
    info.official = intern_or_null(into, info.official);
    info.init = intern_or_null(into, info.init);
    copy->arg_info[i] = info;
  }
  return copy;
}

static vtb_func *callee_in(vtb_func *callee, vtb_module *into) {
  if (!callee || callee->module == into) return callee;
  vtb_func *there = vtb_module_find(into, callee->name);
  return there ? there : vtb_func_clone(callee, into, callee->name);
}

static void copy_body(vtb_func *f, vtb_func *copy) {
  vtb_value **map = vtb_xcalloc((size_t)f->n_values + 1, sizeof(vtb_value *));
  VTB_VEC(vtb_value *) operands = {0};
  for (int i = 0; i < f->n_args; i++) map[f->args[i]->id] = copy->args[i];
  for (vtb_inst *inst = f->first; inst; inst = inst->next) {
    operands.n = 0;
    for (int i = 0; i < inst->n_operands; i++) vtb_vec_push(&operands, map[inst->operands[i]->id]);
    vtb_span span = inst->span;
    span.scope = intern_or_null(copy->module, span.scope);
    vtb_inst *made = vtb__inst_new(copy, inst->op, callee_in(inst->callee, copy->module),
                                   operands.at, inst->n_operands, inst->attrs, inst->n_attrs, span);
    made->n_results = inst->n_results;
    made->results = VTB_NEW_ARRAY(&copy->module->arena, vtb_value *, inst->n_results);
    for (int i = 0; i < inst->n_results; i++) {
      const vtb_value *r = inst->results[i];
      made->results[i] = map[r->id] = vtb__value_new(copy, r->name, &r->type, made, i);
    }
    vtb__inst_link(copy, made, NULL);
  }
  operands.n = 0;
  for (int i = 0; i < f->n_returns; i++) vtb_vec_push(&operands, map[f->returns[i]->id]);
  vtb_func_set_returns(copy, operands.at, f->return_names, f->n_returns);
  vtb_vec_free(&operands);
  vtb_free(map);
}

vtb_func *vtb_func_clone(vtb_func *f, vtb_module *into, const char *name) {
  vtb_func *copy = copy_shell(f, into, name ? name : f->name);
  copy_body(f, copy);
  return copy;
}

vtb_module *vtb_module_clone(const vtb_module *m) {
  vtb_module *copy = vtb_module_new(m->name);
  for (vtb_func *f = m->first; f; f = f->next) copy_shell(f, copy, f->name);
  for (vtb_func *f = m->first; f; f = f->next) copy_body(f, vtb_module_find(copy, f->name));
  if (m->entry) copy->entry = vtb_module_find(copy, m->entry->name);
  copy->prepare = intern_or_null(copy, m->prepare);
  copy->augment = intern_or_null(copy, m->augment);
  return copy;
}

/* ---- order ----------------------------------------------------------------------------------- */

typedef struct visit {
  vtb_func *func;
  vtb_inst *next;
} visit;

/* With an explicit stack: call chains of a parsed module may be as long as the text. A cycle is
 * left where it closes; the verifier refuses it. */
void vtb__order_add(vtb__func_order *o, vtb_func *root) {
  VTB_VEC(visit) stack = {0};
  if (vtb_map_has(&o->seen, root->name)) return;
  vtb_map_set(&o->seen, root->name, root);
  vtb_vec_push(&stack, ((visit){root, root->first}));
  while (stack.n) {
    visit *top = &stack.at[stack.n - 1];
    vtb_inst *inst = top->next;
    if (!inst) {
      vtb_vec_push(&o->list, top->func);
      stack.n--;
      continue;
    }
    top->next = inst->next;
    if (!inst->callee || vtb_map_has(&o->seen, inst->callee->name)) continue;
    vtb_map_set(&o->seen, inst->callee->name, inst->callee);
    vtb_vec_push(&stack, ((visit){inst->callee, inst->callee->first}));
  }
  vtb_vec_free(&stack);
}

size_t vtb_module_post_order(vtb_func *root, vtb_func ***out) {
  vtb__func_order o = {0};
  vtb__order_add(&o, root);
  vtb_map_free(&o.seen);
  *out = o.list.at;
  return o.list.n;
}
