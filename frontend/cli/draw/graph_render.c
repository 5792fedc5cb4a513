/* Graphviz as a library, looked up when a picture is drawn: no other command waits for it to be
 * loaded, and nobody who draws none needs it. */
#include "frontend/cli/draw/graph_dot.h"

#include <dlfcn.h>
#include <string.h>

typedef struct graphviz {
  void *graphs, *layouts; /* libcgraph, libgvc */
  void *(*context)(void);
  void *(*read)(const char *text);
  int (*layout)(void *context, void *graph, const char *engine);
  int (*render)(void *context, void *graph, const char *format, char **data, unsigned *n);
  void (*free_data)(char *data);
  int (*free_layout)(void *context, void *graph);
  int (*close)(void *graph);
  int (*free_context)(void *context);
  int (*complain)(int level);
} graphviz;

enum { SILENT = 3 };

static void *find_symbol(void *library, const char *name) {
  return library ? dlsym(library, name) : NULL;
}

static bool open_library(graphviz *g) {
  g->graphs = dlopen("libcgraph.so.6", RTLD_NOW | RTLD_GLOBAL);
  g->layouts = dlopen("libgvc.so.6", RTLD_NOW | RTLD_GLOBAL);
  *(void **)&g->context = find_symbol(g->layouts, "gvContext");
  *(void **)&g->layout = find_symbol(g->layouts, "gvLayout");
  *(void **)&g->render = find_symbol(g->layouts, "gvRenderData");
  *(void **)&g->free_data = find_symbol(g->layouts, "gvFreeRenderData");
  *(void **)&g->free_layout = find_symbol(g->layouts, "gvFreeLayout");
  *(void **)&g->free_context = find_symbol(g->layouts, "gvFreeContext");
  *(void **)&g->read = find_symbol(g->graphs, "agmemread");
  *(void **)&g->close = find_symbol(g->graphs, "agclose");
  *(void **)&g->complain = find_symbol(g->graphs, "agseterr");
  return g->context && g->layout && g->render && g->free_data && g->free_layout &&
         g->free_context && g->read && g->close && g->complain;
}

/* The drawing from its <svg on, with a name for those who do not see it. */
static void name_picture(const char *svg, size_t n, const char *title, vtb_strbuf *out) {
  const char *at = memmem(svg, n, "<svg ", 5);
  if (!at) at = svg;
  size_t tag = at < svg + n ? strcspn(at, ">") : 0;
  vtb_strbuf_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  vtb_strbuf_write(out, at, tag);
  vtb_strbuf_puts(out, " role=\"img\"><title>");
  for (const char *c = title; *c; c++)
    if (!strchr("<>&", *c)) vtb_strbuf_putc(out, *c);
  vtb_strbuf_puts(out, " as a graph of its blocks and kernels</title");
  vtb_strbuf_write(out, at + tag, n - (size_t)(at - svg) - tag);
}

static vtb_status draw(const graphviz *g, const char *dot, const char *format, const char *title,
                       vtb_strbuf *out, vtb_error *err) {
  char *data = NULL;
  unsigned n = 0;
  g->complain(SILENT);
  void *context = g->context(), *graph = g->read(dot);
  bool laid = graph && g->layout(context, graph, "dot") == 0;
  if (laid) g->render(context, graph, format, &data, &n);
  if (data && strcmp(format, "svg") == 0)
    name_picture(data, n, title, out);
  else if (data)
    vtb_strbuf_write(out, data, n);
  if (data) g->free_data(data);
  if (laid) g->free_layout(context, graph);
  if (graph) g->close(graph);
  g->free_context(context);
  return out->n ? VTB_OK
                : vtb_fail(err, VTB_E_INPUT,
                           "graphviz cannot draw this as %s: -o FILE.dot writes "
                           "what it was given",
                           format);
}

vtb_status graph_render(const vtb_strbuf *dot, const char *format, const char *title, char **data,
                        size_t *n, vtb_error *err) {
  graphviz g = {0};
  vtb_strbuf out = {0};
  if (!open_library(&g))
    return vtb_fail(err, VTB_E_INPUT,
                    "pictures are laid out by graphviz, which is not installed (Debian: libgvc6); "
                    "-o FILE.dot needs nothing");
  vtb_status status = draw(&g, dot->at, format, title, &out, err);
  *data = out.at;
  *n = out.n;
  return status;
}
