/* Names and contents of a picture's units. */
#include "frontend/cli/draw/graph_label.h"
#include "ir/ops.h"
#include "ir/product.h"

#include <string.h>

void graph_lines_free(graph_lines *l) {
  for (size_t i = 0; i < l->n; i++) vtb_free(l->at[i]);
  vtb_vec_free(l);
}

/* A text that may be there already. */
static void put_once(graph_lines *l, char *text) {
  for (size_t i = 0; i < l->n; i++) {
    if (strcmp(l->at[i], text) != 0) continue;
    vtb_free(text);
    return;
  }
  vtb_vec_push(l, text);
}

/* ---- numbers --------------------------------------------------------------------------------- */

void graph_shape(const vtb_type *t, vtb_strbuf *out) {
  vtb_strbuf_putc(out, '[');
  for (int d = 0; d < t->rank; d++) {
    bool batch = d == 0 && (vtb_is_batch(t->dim[d].size) || vtb_streq(t->dim[d].name, "B"));
    if (d) vtb_strbuf_puts(out, ", ");
    if (batch)
      vtb_strbuf_putc(out, 'B');
    else
      vtb_strbuf_printf(out, "%lld", (long long)t->dim[d].size);
  }
  vtb_strbuf_putc(out, ']');
}

void graph_count(double n, vtb_strbuf *out) {
  static const char *const units[] = {"", " k", " M", " G", " T"};
  int u = 0;
  for (; n >= 1000 && u < 4; u++) n /= 1000;
  vtb_strbuf_printf(out, u && n < 100 ? (n < 10 ? "%.2f%s" : "%.1f%s") : "%.0f%s", n, units[u]);
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool counts(const vtb_inst *i) {
  return vtb_op_get(i->op)->klass != VTB_CLASS_CONTROL && i->op != VTB_OP_constant &&
         i->op != VTB_OP_reshape && i->op != VTB_OP_broadcast && i->op != VTB_OP_transpose;
}

/* How much of the scopes of all its ops is the same, in whole parts. */
static size_t common_scope(const graph_unit *u, const char **scope) {
  size_t n = 0;
  *scope = NULL;
  for (size_t i = 0; i < u->ops.n; i++) {
    const char *one = u->ops.at[i]->span.scope ? u->ops.at[i]->span.scope : "";
    if (!counts(u->ops.at[i]) && u->ops.n > 1) continue;
    if (!*scope) *scope = one, n = strlen(one);
    size_t same = 0;
    while (same < n && one[same] == (*scope)[same]) same++;
    bool whole = same == n ? !one[same] || one[same] == '.' : !one[same] && (*scope)[same] == '.';
    while (!whole && same && (*scope)[--same] != '.') {
    }
    n = same;
  }
  return n;
}

void graph_scope(const graph_unit *u, vtb_strbuf *out) {
  const char *scope;
  if (u->name || u->kind == GRAPH_BLOCK) return;
  size_t n = common_scope(u, &scope);
  const char *own = u->main->span.scope ? u->main->span.scope : "";
  bool is_own = strncmp(own, scope ? scope : "", n) == 0 && (!own[n] || own[n] == '.');
  if (!is_own) scope = own, n = strlen(own); /* a kernel that stands elsewhere too */
  if (n) vtb_strbuf_write(out, scope, n);
}

void graph_title(const graph_unit *u, size_t within, vtb_strbuf *out) {
  vtb_strbuf scope = {0};
  graph_scope(u, &scope);
  if (u->name) {
    vtb_strbuf_puts(out, u->name);
  } else if (u->kind == GRAPH_BLOCK) {
    vtb_strbuf_puts(out, u->main->callee->declared);
  } else if (scope.n > within) {
    vtb_strbuf_puts(out, scope.at + within + (within > 0));
  } else if (u->main->n_results) {
    const char *name = u->main->results[0]->name, *module = vtb_scope_end(vtb_strbuf_text(&scope));
    size_t n = vtb_name_stem(name), own = strlen(module);
    bool op = own && n > own && strncmp(name, module, own) == 0 && name[own] == '.';
    vtb_strbuf_write(out, name + (op ? own + 1 : 0), n - (op ? own + 1 : 0));
  }
  vtb_strbuf_free(&scope);
}

/* ---- what it does ---------------------------------------------------------------------------- */

/* "[2, 2]" as "2x2" */
static void put_sides(vtb_strbuf *out, const int64_t *at, int n) {
  for (int i = 0; i < n; i++)
    vtb_strbuf_printf(out, "%s%lld", i ? "\xc3\x97" : "", (long long)at[i]);
}

static bool is_weight(const vtb_value *v) {
  while (v->def && v->def->n_operands) v = v->def->operands[0];
  return !v->def && v->func->arg_info[v->index].official &&
         v->func->arg_info[v->index].role != VTB_ROLE_INPUT;
}

/* Elements of the letters of operand 1 that both factors have and the result lacks, or that the
 * result has and operand 0 lacks; and of those that all three have. */
static void sizes_of(const vtb_inst *e, int64_t *in, int64_t *out, int64_t *groups) {
  vtb_product p = vtb_product_of(e);
  *in = vtb_product_size(&p, VTB_LETTER_SUM, VTB_DYN);
  *out = vtb_product_size(&p, VTB_LETTER_COLUMNS, VTB_DYN);
  *groups = vtb_product_size(&p, VTB_LETTER_BATCH, VTB_DYN);
}

static void describe_convolution(const graph_unit *u, graph_lines *out) {
  int n, m;
  vtb_strbuf s = {0};
  const vtb_inst *patches = u->patches ? u->patches : u->main;
  if (patches->op == VTB_OP_im2col) {
    const int64_t *kernel = vtb_attr_ints(patches, "kernel", &n),
                  *stride = vtb_attr_ints(patches, "stride", &m);
    int64_t in = patches->operands[0]->type.dim[1].size;
    bool strided = false;
    for (int i = 0; i < m; i++) strided |= stride[i] > 1;
    vtb_strbuf_puts(&s, u->patches ? "conv " : "patches ");
    put_sides(&s, kernel, n);
    if (strided) vtb_strbuf_puts(&s, " stride ");
    if (strided) put_sides(&s, stride, stride[0] == stride[m - 1] ? 1 : m);
    if (u->patches)
      vtb_strbuf_printf(&s, ", %lld \xe2\x86\x92 %lld", (long long)in,
                        (long long)u->type->dim[u->type->rank - 1].size);
  } else {
    vtb_strbuf_printf(&s, "%s", vtb_op_get(u->main->op)->name);
    if (u->main->op == VTB_OP_dwconv) {
      const vtb_type *w = &u->main->operands[1]->type;
      int64_t sides[VTB_MAX_RANK];
      for (int d = 1; d < w->rank; d++) sides[d - 1] = w->dim[d].size;
      s.n = 0;
      vtb_strbuf_puts(&s, "depthwise conv ");
      put_sides(&s, sides, w->rank - 1);
    }
  }
  vtb_vec_push(out, s.at);
}

static void describe_product(const graph_unit *u, graph_lines *out) {
  const vtb_inst *e = u->main;
  int64_t in, to, groups;
  for (size_t i = 0; i < u->ops.n && e->op != VTB_OP_einsum; i++)
    if (u->ops.at[i]->op == VTB_OP_einsum) e = u->ops.at[i];
  if (e->op != VTB_OP_einsum) return;
  if (e->func == u->main->func && !is_weight(e->operands[1])) {
    vtb_vec_push(out, vtb_strprintf("product %s", vtb_einsum_text(e)));
    return;
  }
  sizes_of(e, &in, &to, &groups);
  char *text = vtb_strprintf("linear %lld \xe2\x86\x92 %lld", (long long)(in * groups),
                             (long long)(to * groups));
  if (groups > 1) {
    char *grouped = vtb_strprintf("%s in %lld groups", text, (long long)groups);
    vtb_free(text);
    text = grouped;
  }
  vtb_vec_push(out, text);
}

static const char *symbol_of(vtb_op op) {
  switch (op) {
  case VTB_OP_add:
    return "+";
  case VTB_OP_sub:
  case VTB_OP_neg:
    return "\xe2\x88\x92";
  case VTB_OP_mul:
    return "\xc3\x97";
  case VTB_OP_div:
    return "\xc3\xb7";
  case VTB_OP_reduce_sum:
    return "sum";
  case VTB_OP_reduce_max:
    return "max";
  default:
    return vtb_op_get(op)->name;
  }
}

static bool is_plain(const vtb_inst *i) {
  vtb_op_class k = vtb_op_get(i->op)->klass;
  return counts(i) && k != VTB_CLASS_STRUCTURED && i->op != VTB_OP_slice && i->op != VTB_OP_iota;
}

/* The ops of `scope` among those of the unit, each once: "silu, x, +"; a norm by its name. */
static char *ops_of_scope(const graph_unit *u, const char *scope) {
  graph_lines names = {0};
  vtb_strbuf s = {0};
  bool root = false, sum = false;
  const char *only = NULL;
  for (size_t i = 0; i < u->ops.n; i++) {
    const vtb_inst *o = u->ops.at[i];
    if (!is_plain(o) || !vtb_streq(o->span.scope ? o->span.scope : "", scope)) continue;
    root |= o->op == VTB_OP_rsqrt;
    sum |= o->op == VTB_OP_reduce_sum;
    put_once(&names, vtb_xstrdup(symbol_of(o->op)));
    only = vtb_op_get(o->op)->name;
  }
  if (root && sum) {
    vtb_strbuf_puts(&s, "normalise");
  } else if (names.n == 1) {
    vtb_strbuf_puts(&s, only);
  } else {
    for (size_t i = 0; i < names.n && i < 5; i++)
      vtb_strbuf_printf(&s, "%s%s", i ? " " : "", names.at[i]);
    if (names.n > 5) vtb_strbuf_puts(&s, " \xe2\x80\xa6");
  }
  graph_lines_free(&names);
  return s.at ? s.at : vtb_xstrdup("");
}

/* A line a module: "outnorm: normalise". */
static void describe_pointwise(const graph_unit *u, graph_lines *out) {
  graph_lines scopes = {0};
  for (size_t i = 0; i < u->ops.n; i++)
    if (is_plain(u->ops.at[i]))
      put_once(&scopes, vtb_xstrdup(u->ops.at[i]->span.scope ? u->ops.at[i]->span.scope : ""));
  for (size_t i = 0; i < scopes.n && i < 5; i++) {
    char *ops = ops_of_scope(u, scopes.at[i]);
    const char *end = vtb_scope_end(scopes.at[i]);
    bool alone = scopes.n == 1 || !*end;
    if (*ops) vtb_vec_push(out, alone ? vtb_xstrdup(ops) : vtb_strprintf("%s: %s", end, ops));
    vtb_free(ops);
  }
  if (scopes.n > 5) vtb_vec_push(out, vtb_strprintf("and %zu more", scopes.n - 5));
  graph_lines_free(&scopes);
}

/* ---- recurrences ----------------------------------------------------------------------------- */

static bool is_recurrence(const vtb_inst *i) {
  return i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad || i->op == VTB_OP_delta ||
         i->op == VTB_OP_recurrence;
}

static char *mode_of(const vtb_inst *i) {
  const char *mode = vtb_attr_str(i, "mode", i->op == VTB_OP_recurrence ? "step by step" : "auto");
  int64_t chunk = vtb_attr_int(i, "chunk", 0);
  bool chunked = chunk > 0 && vtb_starts_with(mode, "chunkwise");
  return chunked ? vtb_strprintf("chunkwise, chunks of %lld", (long long)chunk) : vtb_xstrdup(mode);
}

static char *path_of(const vtb_inst *i) {
  const char *path = vtb_attr_str(i, "path", "rows");
  if (*path == '[') return vtb_xstrdup("a list of places");
  return vtb_strprintf("%.*s", (int)strcspn(path, "@"), path);
}

static void describe_one(const vtb_inst *i, graph_lines *out) {
  char *path = path_of(i), *mode = mode_of(i);
  if (i->op == VTB_OP_maxplus || i->op == VTB_OP_maxplus_grad) {
    put_once(out, vtb_xstrdup("running maximum"));
  } else if (!is_recurrence(i)) {
    put_once(out, vtb_xstrdup(vtb_op_get(i->op)->name));
  } else {
    const char *decay = vtb_attr_str(i, "class", NULL);
    const char *what = i->op == VTB_OP_recurrence ? "recurrence"
                       : i->op == VTB_OP_delta    ? "delta rule"
                                                  : "linear recurrence";
    put_once(out,
             vtb_strprintf("%s%s", what,
                           vtb_ends_with(vtb_op_get(i->op)->name, "_grad") ? ", gradient" : ""));
    if (decay) put_once(out, vtb_strprintf("decay: %s", decay));
    put_once(out, vtb_strprintf("%s", mode));
    put_once(out, vtb_strprintf("along %s", path));
  }
  vtb_free(path);
  vtb_free(mode);
}

static void describe_recurrence(const graph_unit *u, graph_lines *out) {
  for (size_t i = 0; i < u->ops.n; i++) {
    const vtb_inst *o = u->ops.at[i];
    vtb_op_class k = vtb_op_get(o->op)->klass;
    if (k == VTB_CLASS_STRUCTURED ? o->op != VTB_OP_einsum : o->op == VTB_OP_recurrence)
      describe_one(o, out);
  }
}

static void walk_recurrences(const vtb_func *f, char *(*text)(const vtb_inst *), graph_lines *out) {
  for (const vtb_inst *i = f->first; i; i = i->next) {
    if (is_recurrence(i)) put_once(out, text(i));
    if (i->callee && i->op != VTB_OP_recurrence) walk_recurrences(i->callee, text, out);
  }
}

void graph_directions(const vtb_func *f, graph_lines *out) { walk_recurrences(f, path_of, out); }
void graph_modes(const vtb_func *f, graph_lines *out) { walk_recurrences(f, mode_of, out); }

static void describe_attention(const graph_unit *u, graph_lines *out) {
  const vtb_inst *a = NULL;
  for (size_t i = 0; i < u->ops.n && !a; i++)
    if (vtb_starts_with(vtb_op_get(u->ops.at[i]->op)->name, "attention")) a = u->ops.at[i];
  if (!a) return;
  const vtb_type *q = &a->operands[0]->type;
  const char *gradient = a->op == VTB_OP_attention ? "" : ", gradient";
  if (q->rank == 4)
    vtb_vec_push(out, vtb_strprintf("attention%s, %lld head%s of %lld", gradient,
                                    (long long)q->dim[2].size, q->dim[2].size == 1 ? "" : "s",
                                    (long long)q->dim[3].size));
  const char *windows = vtb_attr_str(a, "windows", NULL);
  if (windows)
    vtb_vec_push(out, vtb_strprintf("windows of %.*s", (int)strcspn(windows, "/"), windows));
}

void graph_describe(const graph_unit *u, graph_lines *out) {
  if (!u->main || u->kind == GRAPH_BLOCK) return;
  if (u->kind == GRAPH_CONVOLUTION) describe_convolution(u, out);
  if (u->kind == GRAPH_PRODUCT) describe_product(u, out);
  if (u->kind == GRAPH_RECURRENCE) describe_recurrence(u, out);
  if (u->kind == GRAPH_ATTENTION) describe_attention(u, out);
  describe_pointwise(u, out);
}
