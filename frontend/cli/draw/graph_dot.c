/* A module in the language of graphviz. */
#include "frontend/cli/draw/graph_dot.h"
#include "ir/ops.h"
#include "frontend/cli/draw/graph_fold.h"
#include "frontend/cli/draw/graph_label.h"

#include <ctype.h>
#include <string.h>

enum { LEAST_MODULE = 3 };
#define TIMES "\xc3\x97"
#define FONT "Helvetica,Arial,sans-serif"
#define INK "#1f2937"
#define PALE "#6b7280"

static const struct {
  const char *fill, *line, *name;
} colours[GRAPH_KINDS] = {[GRAPH_INPUT] = {"#f9fafb", "#9ca3af", NULL},
                          [GRAPH_OUTPUT] = {"#f9fafb", "#9ca3af", NULL},
                          [GRAPH_BLOCK] = {"#ffffff", "#374151", "block"},
                          [GRAPH_PRODUCT] = {"#dbeafe", "#2563eb", "matrix product"},
                          [GRAPH_CONVOLUTION] = {"#ccfbf1", "#0d9488", "convolution"},
                          [GRAPH_RECURRENCE] = {"#ffe4e6", "#e11d48", "recurrence"},
                          [GRAPH_ATTENTION] = {"#ede9fe", "#7c3aed", "attention"},
                          [GRAPH_POINTWISE] = {"#fef3c7", "#d97706", "norms and pointwise ops"},
                          [GRAPH_MOVE] = {"#f3f4f6", "#9ca3af", "copies"}};

/* A kind of block, drawn once. */
typedef struct panel {
  char *kind;
  const vtb_func *func; /* the one that is called most */
  int calls, depth;
} panel;
typedef VTB_VEC(panel) panel_list;

typedef struct writer {
  const graph_options *o;
  panel_list panels;
  bool used[GRAPH_KINDS];
  vtb_strbuf *out;
} writer;

/* ---- panels ---------------------------------------------------------------------------------- */

static int find_panel(const writer *w, const vtb_func *f) {
  vtb_strbuf kind = {0};
  int found = -1;
  graph_block_kind(f, &kind);
  for (size_t i = 0; i < w->panels.n && found < 0; i++)
    if (strcmp(w->panels.at[i].kind, kind.at) == 0) found = (int)i;
  vtb_strbuf_free(&kind);
  return found;
}

static int count_calls(const vtb_func *from, const vtb_func *of) {
  int n = 0;
  for (const vtb_inst *i = from->first; i; i = i->next)
    if (i->op == VTB_OP_call) n += (i->callee == of) + count_calls(i->callee, of);
  return n;
}

static void find_panels(writer *w, const vtb_func *entry, const vtb_func *f, int depth) {
  if (depth > w->o->depth) return;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    if (i->op != VTB_OP_call) continue;
    int at = find_panel(w, i->callee);
    if (at < 0) {
      vtb_strbuf kind = {0};
      graph_block_kind(i->callee, &kind);
      at = (int)w->panels.n;
      vtb_vec_push(&w->panels, ((panel){.kind = kind.at, .func = i->callee, .depth = depth}));
      find_panels(w, entry, i->callee, depth + 1);
    }
    panel *p = &w->panels.at[at];
    if (i->callee != p->func && count_calls(entry, i->callee) > count_calls(entry, p->func))
      p->func = i->callee;
    p->calls++;
  }
}

static void put_letter(vtb_strbuf *out, int letter) {
  if (letter >= 26) vtb_strbuf_putc(out, (char)('A' + letter / 26 - 1));
  vtb_strbuf_putc(out, (char)('A' + letter % 26));
}

/* ---- texts of blocks ------------------------------------------------------------------------- */

static void put_list(vtb_strbuf *out, const char *before, graph_lines *lines) {
  for (size_t i = 0; i < lines->n; i++) {
    vtb_strbuf_puts(out, i ? ", " : before);
    vtb_strbuf_xml(out, lines->at[i]);
  }
  graph_lines_free(lines);
}

static void put_sizes(vtb_strbuf *out, double parameters, double macs) {
  if (parameters > 0) {
    graph_count(parameters, out);
    vtb_strbuf_puts(out, " parameters");
  }
  if (macs > 0) {
    vtb_strbuf_puts(out, parameters > 0 ? ", " : "");
    graph_count(macs, out);
    vtb_strbuf_puts(out, " MACs");
  }
}

static void put_line(vtb_strbuf *out, const char *colour, int size, const vtb_strbuf *text) {
  if (!text->n) return;
  vtb_strbuf_printf(
      out, "<TR><TD ALIGN=\"LEFT\"><FONT COLOR=\"%s\" POINT-SIZE=\"%d\">%s</FONT></TD></TR>",
      colour, size, text->at);
}

/* "blocks.0" and "blocks.11": "blocks.0-11"; the first alone where they are no pair of numbers. */
static void put_range(vtb_strbuf *out, const char *a, const char *b) {
  size_t same = 0;
  while (a[same] && a[same] == b[same]) same++;
  while (same && isdigit((unsigned char)a[same - 1])) same--;
  size_t n = strspn(a + same, "0123456789"), m = strspn(b + same, "0123456789");
  if (!n || !m || strcmp(a, b) == 0)
    vtb_strbuf_puts(out, a);
  else
    vtb_strbuf_printf(out, "%.*s\xe2\x80\x93%.*s", (int)(same + n), a, (int)m, b + same);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

typedef struct drawing {
  writer *w;
  const graph_part *part;
  graph_fold fold;
  int number;    /* of the panel; -1: the entry */
  size_t within; /* bytes of the module's name that stand around the unit that is drawn */
} drawing;

static void put_name(const drawing *d, int unit) {
  vtb_strbuf_printf(d->w->out, "n%d_%d", d->number + 1, unit);
}

static void begin_box(const drawing *d, int unit, graph_kind kind) {
  d->w->used[kind] = true;
  vtb_strbuf_puts(d->w->out, "    ");
  put_name(d, unit);
  vtb_strbuf_printf(d->w->out,
                    " [label=<<TABLE BORDER=\"%d\" STYLE=\"ROUNDED\" COLOR=\"%s\" BGCOLOR=\"%s\" "
                    "CELLBORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"3\">",
                    kind == GRAPH_RECURRENCE || kind == GRAPH_BLOCK ? 2 : 1, colours[kind].line,
                    colours[kind].fill);
}

static void put_title(vtb_strbuf *out, const char *title, int letter, int times) {
  vtb_strbuf_puts(out, "<TR><TD ALIGN=\"LEFT\">");
  if (letter >= 0) {
    vtb_strbuf_printf(out, "<FONT COLOR=\"#e11d48\"><B>");
    put_letter(out, letter);
    vtb_strbuf_puts(out, "</B></FONT>  ");
  }
  vtb_strbuf_puts(out, "<B>");
  vtb_strbuf_xml(out, title);
  vtb_strbuf_puts(out, "</B>");
  if (times > 1) vtb_strbuf_printf(out, "  <B>" TIMES " %d</B>", times);
  vtb_strbuf_puts(out, "</TD></TR>");
}

/* The last unit that `unit` stands for, and how its recurrences are: of all of them. */
static int gather(const drawing *d, int unit, graph_lines *directions, graph_lines *modes) {
  int last = unit;
  for (size_t i = 0; i < d->part->units.n; i++) {
    if (d->fold.shown[i] != unit) continue;
    last = (int)i;
    graph_directions(d->part->units.at[i].main->callee, directions);
    graph_modes(d->part->units.at[i].main->callee, modes);
  }
  return last;
}

static void put_block(const drawing *d, int unit) {
  const graph_unit *u = &d->part->units.at[unit];
  const graph_repeat *r = graph_fold_repeat(&d->fold, unit);
  vtb_strbuf title = {0}, range = {0}, where = {0}, how = {0}, size = {0};
  graph_lines directions = {0}, modes = {0};
  int last = gather(d, unit, &directions, &modes);
  const char *first = u->main->span.scope ? u->main->span.scope : "",
             *end = d->part->units.at[last].main->span.scope;
  int times = r && r->period == 1 ? r->times : 1;
  graph_title(u, 0, &title);
  put_range(&range, first, end ? end : "");
  vtb_strbuf_xml(&where, vtb_strbuf_text(&range));
  put_list(&how, modes.n ? "recurrence: " : "", &modes);
  put_list(&how, how.n ? "; " : "", &directions);
  put_sizes(&size, (double)graph_unit_parameters(u), graph_unit_macs(u));
  if (r && size.n) vtb_strbuf_puts(&size, " each");
  begin_box(d, unit, GRAPH_BLOCK);
  put_title(d->w->out, vtb_strbuf_text(&title), find_panel(d->w, u->main->callee), times);
  put_line(d->w->out, PALE, 9, &where);
  put_line(d->w->out, "#be123c", 9, &how);
  put_line(d->w->out, PALE, 9, &size);
  vtb_strbuf_puts(d->w->out, "</TABLE>>];\n");
  vtb_strbuf_free(&title);
  vtb_strbuf_free(&range);
  vtb_strbuf_free(&where);
  vtb_strbuf_free(&how);
  vtb_strbuf_free(&size);
}

static void put_unit(const drawing *d, int unit) {
  const graph_unit *u = &d->part->units.at[unit];
  if (u->kind == GRAPH_BLOCK) {
    put_block(d, unit);
    return;
  }
  vtb_strbuf title = {0}, line = {0};
  graph_lines lines = {0};
  graph_title(u, d->within, &title);
  graph_describe(u, &lines);
  begin_box(d, unit, u->kind);
  put_title(d->w->out, vtb_strbuf_text(&title), -1, 1);
  for (size_t i = 0; i < lines.n; i++) {
    line.n = 0;
    if (lines.n == 1 && strcmp(lines.at[i], title.at) == 0) continue;
    vtb_strbuf_xml(&line, lines.at[i]);
    put_line(d->w->out, INK, 9, &line);
  }
  vtb_strbuf_puts(d->w->out, "</TABLE>>];\n");
  graph_lines_free(&lines);
  vtb_strbuf_free(&title);
  vtb_strbuf_free(&line);
}

/* ---- edges ----------------------------------------------------------------------------------- */

static int place_of(const drawing *d, int unit) {
  for (size_t i = 0; i < d->fold.order.n; i++)
    if (d->fold.order.at[i] == unit) return (int)i;
  return -1;
}

/* Edges; what leads back is the repeat itself. */
static void put_edges(const drawing *d) {
  size_t n = d->part->units.n;
  bool *drawn = vtb_xcalloc(n * n + 1, sizeof *drawn), *told = vtb_xcalloc(n + 1, sizeof *told);
  for (size_t k = 0; k < d->part->edges.n; k++) {
    const graph_edge *e = &d->part->edges.at[k];
    int from = d->fold.shown[e->from], to = d->fold.shown[e->to];
    const graph_repeat *a = graph_fold_repeat(&d->fold, from), *b = graph_fold_repeat(&d->fold, to);
    bool back = from == to || (a && a == b && place_of(d, e->to) - place_of(d, e->from) >= 0 &&
                               place_of(d, to) <= place_of(d, from));
    if (from < 0 || to < 0 || back || drawn[(size_t)from * n + (size_t)to]) continue;
    drawn[(size_t)from * n + (size_t)to] = true;
    vtb_strbuf_puts(d->w->out, "    ");
    put_name(d, from);
    vtb_strbuf_puts(d->w->out, " -> ");
    put_name(d, to);
    if (!told[from] || e->more) {
      vtb_strbuf_puts(d->w->out, " [label=\" ");
      graph_shape(e->type, d->w->out);
      if (e->more) vtb_strbuf_printf(d->w->out, " and %d more", e->more);
      vtb_strbuf_puts(d->w->out, "\"]");
    }
    told[from] = true;
    vtb_strbuf_puts(d->w->out, ";\n");
  }
  vtb_free(drawn);
  vtb_free(told);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Units in the module `scope` or below it. */
static int count_within(const drawing *d, const char *scope, size_t n) {
  vtb_strbuf one = {0};
  int count = 0;
  for (size_t i = 0; i < d->fold.order.n; i++) {
    one.n = 0;
    graph_scope(&d->part->units.at[d->fold.order.at[i]], &one);
    count += one.n >= n && memcmp(one.at, scope, n) == 0 && (one.n == n || one.at[n] == '.');
  }
  vtb_strbuf_free(&one);
  return count;
}

/* Opens a box for each module around the unit that holds more than it; returns how many. */
static int open_modules(drawing *d, int unit) {
  vtb_strbuf scope = {0};
  int open = 0;
  size_t from = 0;
  d->within = 0;
  graph_scope(&d->part->units.at[unit], &scope);
  for (size_t n = 1; n <= scope.n && d->number >= 0; n++) {
    if (n < scope.n && scope.at[n] != '.') continue;
    int count = count_within(d, scope.at, n);
    if (count < LEAST_MODULE || count == (int)d->fold.order.n) continue;
    vtb_strbuf_printf(d->w->out, "    subgraph \"cluster_module%d_%.*s\" { label=\"%.*s\"; ",
                      d->number + 1, (int)n, scope.at, (int)(n - from), scope.at + from);
    vtb_strbuf_puts(d->w->out, "labeljust=l; style=rounded; color=\"#9ca3af\"; fontsize=9; "
                               "fontcolor=\"" PALE "\"; margin=8;\n");
    d->within = n;
    from = n + 1;
    open++;
  }
  vtb_strbuf_free(&scope);
  return open;
}

static void put_units(drawing *d) {
  const graph_repeat *open = NULL;
  for (size_t i = 0; i < d->fold.order.n; i++) {
    int unit = d->fold.order.at[i];
    if (d->fold.shown[unit] != unit) continue;
    const graph_repeat *r = graph_fold_repeat(&d->fold, unit);
    bool own = r && (r->period > 1 || d->part->units.at[unit].kind != GRAPH_BLOCK);
    if (open && (!own || r != open)) vtb_strbuf_puts(d->w->out, "    }\n"), open = NULL;
    if (own && !open) {
      vtb_strbuf_printf(d->w->out,
                        "    subgraph cluster_repeat%d_%d {\n    label=<<B>" TIMES " %d</B>>; "
                        "labeljust=r; style=\"rounded,dashed\"; color=\"" PALE
                        "\"; bgcolor=none; margin=10;\n",
                        d->number + 1, r->first, r->times);
      open = r;
    }
    int modules = open_modules(d, unit);
    put_unit(d, unit);
    for (; modules > 0; modules--) vtb_strbuf_puts(d->w->out, "    }\n");
  }
  if (open) vtb_strbuf_puts(d->w->out, "    }\n");
}

static void put_part(writer *w, const vtb_func *f, int number, const vtb_strbuf *head) {
  graph_part part;
  graph_part_read(&part, f);
  drawing d = {.w = w, .part = &part, .number = number};
  graph_fold_find(&d.fold, &part, w->o->fold && number < 0);
  vtb_strbuf_printf(
      w->out,
      "  subgraph cluster_part%d {\n"
      "    label=<<TABLE BORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"1\">%s</TABLE>>;\n"
      "    labeljust=l; style=\"rounded,filled\"; color=\"#d1d5db\"; "
      "fillcolor=\"#fcfcfd\"; margin=14;\n",
      number + 1, vtb_strbuf_text(head));
  put_units(&d);
  put_edges(&d);
  vtb_strbuf_puts(w->out, "  }\n");
  graph_fold_free(&d.fold);
  graph_part_free(&part);
}

static double parameters_of(const vtb_func *f) {
  double n = 0;
  for (int a = 0; a < f->n_args; a++) {
    const vtb_arg_info *info = &f->arg_info[a];
    if (info->role == VTB_ROLE_PARAM || (info->role == VTB_ROLE_PLAIN && info->official))
      n += (double)vtb_type_count(&f->args[a]->type);
  }
  return n;
}

static void put_head(vtb_strbuf *head, const char *title, int letter, const vtb_func *f,
                     int calls) {
  vtb_published_macs macs = vtb_func_published_macs(f);
  vtb_strbuf size = {0};
  put_sizes(&size, parameters_of(f), macs.layers + macs.mixers);
  if (calls > 1) vtb_strbuf_printf(&size, "%scalled %d times", size.n ? "; " : "", calls);
  put_title(head, title, letter, 1);
  put_line(head, PALE, 9, &size);
  vtb_strbuf_free(&size);
}

static void put_legend(writer *w) {
  vtb_strbuf_puts(w->out, "  labelloc=b; labeljust=l;\n  label=<<TABLE BORDER=\"0\" "
                          "CELLSPACING=\"6\" CELLPADDING=\"3\"><TR>");
  for (int k = GRAPH_BLOCK; k < GRAPH_KINDS; k++)
    if (w->used[k])
      vtb_strbuf_printf(w->out,
                        "<TD BORDER=\"1\" STYLE=\"ROUNDED\" COLOR=\"%s\" BGCOLOR=\"%s\"><FONT "
                        "POINT-SIZE=\"9\">%s</FONT></TD>",
                        colours[k].line, colours[k].fill, colours[k].name);
  vtb_strbuf_printf(w->out,
                    "<TD><FONT POINT-SIZE=\"9\" COLOR=\"" PALE "\">%s</FONT></TD></TR></TABLE>>;\n",
                    w->o->fused ? "what one outline holds runs as one kernel"
                                : "an outline is what one module computes");
}

void graph_dot(const vtb_func *entry, const graph_options *o, vtb_strbuf *out) {
  writer w = {.o = o, .out = out};
  vtb_strbuf head = {0};
  find_panels(&w, entry, entry, 1);
  vtb_strbuf_puts(out, "digraph ");
  vtb_strbuf_json(out, o->title);
  vtb_strbuf_puts(
      out, " {\n  bgcolor=white; fontname=\"" FONT "\"; fontcolor=\"" INK "\"; fontsize=11;"
           " nodesep=0.2; ranksep=0.28; pad=0.2;\n"
           "  node [shape=plain, fontname=\"" FONT "\", fontsize=11, fontcolor=\"" INK "\"];\n"
           "  edge [fontname=\"" FONT "\", fontsize=8, fontcolor=\"" PALE "\", color=\"" PALE
           "\", arrowsize=0.5];\n");
  put_head(&head, o->title, -1, entry, 1);
  put_part(&w, entry, -1, &head);
  for (size_t i = 0; i < w.panels.n; i++) {
    head.n = 0;
    put_head(&head, w.panels.at[i].func->declared, (int)i, w.panels.at[i].func,
             w.panels.at[i].calls);
    put_part(&w, w.panels.at[i].func, (int)i, &head);
  }
  put_legend(&w);
  vtb_strbuf_puts(out, "}\n");
  for (size_t i = 0; i < w.panels.n; i++) vtb_free(w.panels.at[i].kind);
  vtb_vec_free(&w.panels);
  vtb_strbuf_free(&head);
}
