#include "calls.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LINE = 4096 };

int graph_node(house_graph *g, const char *file) {
  for (size_t i = 0; i < g->nodes.n; i++)
    if (strcmp(g->nodes.at[i].file, file) == 0) return (int)i;
  house_node n = {.file = vtb_xstrdup(file)};
  vtb_vec_push(&g->nodes, n);
  return (int)g->nodes.n - 1;
}

void graph_free(house_graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++) {
    free(g->nodes.at[i].file);
    vtb_vec_free(&g->nodes.at[i].calls);
  }
  vtb_vec_free(&g->nodes);
  vtb_vec_free(&g->stack);
  vtb_strbuf_free(&g->rings);
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* A ring is what lies on the stack from node v on. */
static void end_ring(house_graph *g, int v) {
  size_t from = g->stack.n;
  while (g->stack.at[--from] != v) continue;
  int n = (int)(g->stack.n - from);
  for (size_t k = from; k < g->stack.n; k++) {
    house_node *x = &g->nodes.at[g->stack.at[k]];
    x->on_stack = false;
    x->ring = n > 1 ? n : 0;
    if (n > 2) vtb_strbuf_printf(&g->rings, "%s%s", k > from ? " " : "", x->file);
  }
  if (n > 2) vtb_strbuf_putc(&g->rings, '\n');
  g->stack.n = from;
}

static void visit(house_graph *g, int v) {
  house_node *x = &g->nodes.at[v];
  x->index = x->low = ++g->n_seen;
  x->on_stack = true;
  vtb_vec_push(&g->stack, v);
  for (size_t i = 0; i < x->calls.n; i++) {
    house_node *y = &g->nodes.at[x->calls.at[i]];
    if (!y->index) visit(g, x->calls.at[i]);
    if (y->on_stack && y->low < x->low) x->low = y->low;
  }
  if (x->low == x->index) end_ring(g, v);
}

void graph_find_rings(house_graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++)
    if (!g->nodes.at[i].index) visit(g, (int)i);
}

/* ---- the build ------------------------------------------------------------------------------- */

/* The source of an object, "ir/shape.c" of "CMakeFiles/vtb_ir.dir/ir/shape.c.o"; NULL for tests and
 * for the second build of the runtime as one library. */
static char *source_of(const char *object) {
  const char *at = strstr(object, ".dir/");
  if (!at || strstr(object, "vertebra_rt") || vtb_starts_with(object, "tests/")) return NULL;
  char *source = vtb_xstrdup(at + strlen(".dir/"));
  if (vtb_ends_with(source, ".o")) source[strlen(source) - strlen(".o")] = '\0';
  return source;
}

/* The objects that the build makes now, space before each; other objects there are leftovers. */
static void list_objects(const char *build, vtb_strbuf *objects) {
  char *text = NULL;
  size_t n = 0;
  vtb_error err = {0};
  vtb_strbuf path = {0};
  vtb_strbuf_printf(&path, "%s/compile_commands.json", build);
  if (vtb_file_read(path.at, 1 << 26, &text, &n, &err) != VTB_OK) {
    fprintf(stderr, "%s\n", err.text);
    exit(1);
  }
  vtb_strbuf_free(&path);
  const char *key = " -o ";
  for (const char *p = text; (p = strstr(p, key));) {
    p += strlen(key);
    vtb_strbuf object = {0};
    vtb_strbuf_printf(&object, "%.*s", (int)strcspn(p, " \""), p);
    char *source = source_of(object.at);
    if (source) vtb_strbuf_printf(objects, " %s", object.at);
    free(source);
    vtb_strbuf_free(&object);
  }
  free(text);
}

/* One line of nm -A, "CMakeFiles/vtb_ir.dir/ir/shape.c.o:0000 T name": a definition or a use. */
typedef struct symbol {
  char *file;
  char kind, name[256];
} symbol;
typedef VTB_VEC(symbol) symbols;

static bool read_symbol(char *line, symbol *s) {
  char *colon = strchr(line, ':'), *end = strrchr(line, ' ');
  if (!colon || !end || end - colon < 2) return false;
  *colon = '\0';
  s->kind = end[-1];
  snprintf(s->name, sizeof s->name, "%.*s", (int)strcspn(end + 1, "\n"), end + 1);
  s->file = source_of(line);
  return s->file != NULL;
}

/* Uses, and definitions by name: the number of the node, from 1. */
static void read_symbols(house_graph *g, const char *build, symbols *uses, symbols *exports,
                         vtb_map *definitions) {
  vtb_strbuf command = {0};
  vtb_strbuf_printf(&command, "cd '%s' && nm -A", build);
  list_objects(build, &command);
  char line[MOST_LINE];
  symbol s;
  FILE *nm = popen(command.at, "r");
  while (nm && fgets(line, sizeof line, nm)) {
    if (!read_symbol(line, &s)) continue;
    int node = graph_node(g, s.file);
    if (s.kind == 'U')
      vtb_vec_push(uses, s);
    else if (strchr("TDBRVWC", s.kind))
      vtb_map_set(definitions, s.name, (void *)(intptr_t)(node + 1));
    if (s.kind == 'T') vtb_vec_push(exports, s);
    if (s.kind != 'U' && s.kind != 'T') free(s.file);
  }
  if (!nm || pclose(nm) != 0) {
    fputs("nm failed: is everything built?\n", stderr);
    exit(1);
  }
  vtb_strbuf_free(&command);
}

static void symbols_free(symbols *s) {
  for (size_t i = 0; i < s->n; i++) free(s->at[i].file);
  vtb_vec_free(s);
}

/* What applications call is used outside of the tree, and generators make more than is wanted. */
static bool is_interface(const char *file, const char *name) {
  return vtb_streq(name, "main") || strstr(file, ".gen.") || strstr(file, ".pb-c.") ||
         vtb_starts_with(file, "frontend/compile/") ||
         (vtb_starts_with(file, "runtime/") && !strchr(file + strlen("runtime/"), '/'));
}

void graph_read(house_graph *g, const char *build) {
  symbols uses = {0}, exports = {0};
  vtb_map definitions = {0}, used = {0};
  read_symbols(g, build, &uses, &exports, &definitions);
  for (size_t i = 0; i < uses.n; i++) {
    int to = (int)(intptr_t)vtb_map_get(&definitions, uses.at[i].name) - 1;
    int from = graph_node(g, uses.at[i].file);
    vtb_map_set(&used, uses.at[i].name, g);
    if (to >= 0 && to != from) vtb_vec_push(&g->nodes.at[from].calls, to);
  }
  for (size_t i = 0; i < exports.n; i++) {
    const symbol *e = &exports.at[i];
    if (!vtb_map_has(&used, e->name) && !is_interface(e->file, e->name))
      g->nodes.at[graph_node(g, e->file)].unused++;
  }
  symbols_free(&uses);
  symbols_free(&exports);
  vtb_map_free(&definitions);
  vtb_map_free(&used);
}
