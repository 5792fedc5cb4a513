/* No more than a few files call each other in a ring: more cannot be read one at a time.
 *
 * The edges are the symbols that objects define and use, as nm lists them, so a function in a table
 * counts as called by the file that holds the table. The objects are those of the build folder. */
#include "rooms.h"
#include "tests/test.h"
#include "tree.h"

enum { MOST_LINE = 4096 };

typedef struct node {
  char *file;
  VTB_VEC(int) calls; /* numbers of nodes */
  int index, low;     /* of Tarjan's algorithm; index 0: not seen */
  bool on_stack;
} node;

typedef struct graph {
  VTB_VEC(node) nodes;
  VTB_VEC(int) stack;
  int n_seen;
} graph;

static int node_of(graph *g, const char *file) {
  for (size_t i = 0; i < g->nodes.n; i++)
    if (strcmp(g->nodes.at[i].file, file) == 0) return (int)i;
  node n = {.file = vtb_xstrdup(file)};
  vtb_vec_push(&g->nodes, n);
  return (int)g->nodes.n - 1;
}

static void graph_free(graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++) {
    free(g->nodes.at[i].file);
    vtb_vec_free(&g->nodes.at[i].calls);
  }
  vtb_vec_free(&g->nodes);
  vtb_vec_free(&g->stack);
}

/* ---- rings ----------------------------------------------------------------------------------- */

static int most_allowed(const char *file) {
  for (size_t i = 0; i < sizeof rings / sizeof *rings; i++)
    if (vtb_streq(rings[i].file, file)) return rings[i].most;
  return MOST_RING_FILES;
}

/* A ring is what lies on the stack from node v on. */
static void end_ring(graph *g, int v, complaints *c) {
  vtb_strbuf files = {0};
  int n = 0, most = MOST_RING_FILES, last;
  do {
    last = g->stack.at[--g->stack.n];
    node *x = &g->nodes.at[last];
    x->on_stack = false;
    vtb_strbuf_printf(&files, "\n  %s", x->file);
    if (most_allowed(x->file) > most) most = most_allowed(x->file);
    n++;
  } while (last != v);
  if (n > most)
    complain(c, g->nodes.at[v].file, 0,
             "%d files call each other in a ring, more than %d; split what all stand on from what "
             "calls them all:%s",
             n, most, files.at);
  vtb_strbuf_free(&files);
}

static void visit(graph *g, int v, complaints *c) {
  node *x = &g->nodes.at[v];
  x->index = x->low = ++g->n_seen;
  x->on_stack = true;
  vtb_vec_push(&g->stack, v);
  for (size_t i = 0; i < x->calls.n; i++) {
    node *y = &g->nodes.at[x->calls.at[i]];
    if (!y->index) visit(g, x->calls.at[i], c);
    if (y->on_stack && y->low < x->low) x->low = y->low;
  }
  if (x->low == x->index) end_ring(g, v, c);
}

static void check_rings(graph *g, complaints *c) {
  for (size_t i = 0; i < g->nodes.n; i++)
    if (!g->nodes.at[i].index) visit(g, (int)i, c);
}

/* ---- the graph of the build ------------------------------------------------------------------ */

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
static void list_objects(vtb_strbuf *objects) {
  char *text = NULL;
  size_t n = 0;
  vtb_error err = {0};
  vtb_status status =
      vtb_file_read(VTB_BINARY_DIR "/compile_commands.json", 1 << 26, &text, &n, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  const char *key = " -o ";
  for (const char *p = text; p && (p = strstr(p, key));) {
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

static bool read_symbol(char *line, symbol *s) {
  char *colon = strchr(line, ':'), *end = strrchr(line, ' ');
  if (!colon || !end || end - colon < 2) return false;
  *colon = '\0';
  s->kind = end[-1];
  snprintf(s->name, sizeof s->name, "%.*s", (int)strcspn(end + 1, "\n"), end + 1);
  s->file = source_of(line);
  return s->file != NULL;
}

static void read_calls(graph *g) {
  vtb_strbuf command = {0};
  vtb_strbuf_puts(&command, "cd '" VTB_BINARY_DIR "' && nm -A");
  list_objects(&command);
  VTB_VEC(symbol) uses = {0};
  vtb_map definitions = {0};
  char line[MOST_LINE];
  symbol s;
  FILE *nm = popen(command.at, "r");
  while (nm && fgets(line, sizeof line, nm)) {
    if (!read_symbol(line, &s)) continue;
    if (s.kind == 'U') {
      vtb_vec_push(&uses, s);
      continue;
    }
    if (strchr("TDBRVWC", s.kind))
      vtb_map_set(&definitions, s.name, (void *)(intptr_t)(node_of(g, s.file) + 1));
    free(s.file);
  }
  CHECK_MSG(nm && pclose(nm) == 0, "nm failed: is everything built?");
  for (size_t i = 0; i < uses.n; i++) {
    int to = (int)(intptr_t)vtb_map_get(&definitions, uses.at[i].name) - 1;
    int from = node_of(g, uses.at[i].file);
    if (to >= 0 && to != from) vtb_vec_push(&g->nodes.at[from].calls, to);
    free(uses.at[i].file);
  }
  vtb_vec_free(&uses);
  vtb_map_free(&definitions);
  vtb_strbuf_free(&command);
}

TEST(planted_faults_are_found) {
  graph g = {0};
  complaints c = {0};
  const char *const files[] = {"a.c", "b.c", "c.c", "d.c", "e.c", "ground.c"};
  for (int i = 0; i < 6; i++) CHECK(node_of(&g, files[i]) == i);
  for (int i = 0; i < 5; i++) {
    vtb_vec_push(&g.nodes.at[i].calls, (i + 1) % 5);
    vtb_vec_push(&g.nodes.at[i].calls, 5);
  }
  check_rings(&g, &c);
  CHECK(c.n == 1 && strstr(c.text.at, "5 files call each other in a ring"));
  CHECK(c.n == 1 && !strstr(c.text.at, "ground.c"));
  vtb_strbuf_free(&c.text);
  graph_free(&g);
}

TEST(the_tree_keeps_the_rules) {
  graph g = {0};
  complaints c = {0};
  read_calls(&g);
  CHECK(g.nodes.n > 100);
  for (size_t i = 0; i < g.nodes.n; i++)
    if (!room_of(g.nodes.at[i].file))
      complain(&c, g.nodes.at[i].file, 0, "compiled, but in no room of tests/house/rules.h");
  check_rings(&g, &c);
  CHECK_MSG(complaints_end(&c) == 0, "rings of calls, or files in no room");
  graph_free(&g);
}

int main(void) {
  RUN(planted_faults_are_found);
  RUN(the_tree_keeps_the_rules);
  return test_done();
}
