/* docs/architecture.svg is drawn from the include graph, so that it cannot lie: a box a room of
 * rules.h, a floor above all it includes, an arrow for each room that it builds on directly.
 *
 *   house_test_picture            fails if the file is not what would be drawn
 *   house_test_picture --write    draws it
 */
#include "rooms.h"
#include "tests/test.h"
#include "tree.h"

#define PICTURE VTB_SOURCE_DIR "/docs/architecture.svg"

enum {
  MOST_BOXES = 256, /* rooms, and a bend for each floor that an arrow passes */
  MOST_FLOORS = 32,
  WIDTH = 1000,
  BOX_WIDTH = 182,
  BOX_HEIGHT = 58,
  BEND_WIDTH = 26,
  GAP = 18,
  FLOOR_HEIGHT = 104
};

typedef struct box {
  const house_room *room; /* NULL: a bend */
  int floor;              /* 0: stands on nothing */
  double place, x;        /* order on its floor; the middle */
} box;

typedef struct picture {
  bool includes[N_ROOMS][N_ROOMS]; /* by numbers of rooms */
  box boxes[MOST_BOXES];
  int n, n_floors;
  int edge[MOST_BOXES * 2][2]; /* from a floor to the next one below */
  int n_edges;
} picture;

/* ---- the graph ------------------------------------------------------------------------------- */

static void read_includes(picture *p, const house_tree *t) {
  char line[4096], path[256];
  for (size_t i = 0; i < t->files.n; i++) {
    const house_room *from = room_of(t->files.at[i].path);
    const char *at = t->files.at[i].text;
    while (from && next_line(&at, line, sizeof line)) {
      const house_room *to = included(line, path, sizeof path) ? room_of(path) : NULL;
      if (to && to != from) p->includes[from - rooms][to - rooms] = true;
    }
  }
}

/* Drops what follows from the rest: who includes a and b, where a includes b, gets no arrow to b.
 * What is left of a room's reach is the same. */
static void reduce(picture *p) {
  bool reach[N_ROOMS][N_ROOMS];
  memcpy(reach, p->includes, sizeof reach);
  for (int k = 0; k < N_ROOMS; k++)
    for (int i = 0; i < N_ROOMS; i++)
      for (int j = 0; j < N_ROOMS; j++) reach[i][j] |= reach[i][k] && reach[k][j];
  for (int i = 0; i < N_ROOMS; i++)
    for (int k = 0; k < N_ROOMS; k++)
      for (int j = 0; j < N_ROOMS && p->includes[i][k]; j++)
        if (reach[k][j]) p->includes[i][j] = false;
}

static void find_floors(picture *p) {
  for (p->n = 0; p->n < N_ROOMS; p->n++) p->boxes[p->n].room = &rooms[p->n];
  for (int round = 0; round < N_ROOMS; round++)
    for (int i = 0; i < N_ROOMS; i++)
      for (int j = 0; j < N_ROOMS; j++)
        if (p->includes[i][j] && p->boxes[i].floor <= p->boxes[j].floor)
          p->boxes[i].floor = p->boxes[j].floor + 1;
  for (int i = 0; i < N_ROOMS; i++)
    if (p->boxes[i].floor >= p->n_floors) p->n_floors = p->boxes[i].floor + 1;
}

/* An arrow down to the next floor is an edge; a longer one bends on each floor between. */
static void add_edges(picture *p) {
  for (int i = 0; i < N_ROOMS; i++)
    for (int j = 0; j < N_ROOMS; j++) {
      if (!p->includes[i][j]) continue;
      int from = i;
      for (int floor = p->boxes[i].floor - 1; floor >= p->boxes[j].floor; floor--) {
        int to = floor == p->boxes[j].floor ? j : p->n++;
        if (to != j) p->boxes[to].floor = floor;
        p->edge[p->n_edges][0] = from;
        p->edge[p->n_edges++][1] = to;
        from = to;
      }
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

static double width_of(const box *b) { return b->room ? BOX_WIDTH : BEND_WIDTH; }

/* The boxes of a floor from left to right; how many. */
static int list_floor(picture *p, int floor, box **list) {
  int n = 0;
  for (int i = 0; i < p->n; i++) {
    if (p->boxes[i].floor != floor) continue;
    int at = n++;
    for (; at && list[at - 1]->place > p->boxes[i].place; at--) list[at] = list[at - 1];
    list[at] = &p->boxes[i];
  }
  return n;
}

/* Sets a floor's boxes side by side, in the middle of the picture. */
static void lay_floor(picture *p, int floor) {
  box *list[MOST_BOXES];
  int n = list_floor(p, floor, list);
  double width = -GAP;
  for (int i = 0; i < n; i++) width += width_of(list[i]) + GAP;
  double x = (WIDTH - width) / 2;
  for (int i = 0; i < n; i++) {
    list[i]->x = x + width_of(list[i]) / 2;
    list[i]->place = list[i]->x;
    x += width_of(list[i]) + GAP;
  }
}

/* Moves each box of a floor towards the mean of its neighbours above (side 0) or below (1). */
static void pull_floor(picture *p, int floor, int side) {
  for (int i = 0; i < p->n; i++) {
    double sum = 0;
    int n = 0;
    if (p->boxes[i].floor != floor) continue;
    for (int e = 0; e < p->n_edges; e++)
      if (p->edge[e][1 - side] == i) sum += p->boxes[p->edge[e][side]].x, n++;
    if (n) p->boxes[i].place = sum / n;
  }
  lay_floor(p, floor);
}

static void find_places(picture *p) {
  for (int i = 0; i < p->n; i++) p->boxes[i].place = i;
  for (int f = 0; f < p->n_floors; f++) lay_floor(p, f);
  for (int round = 0; round < 8; round++) {
    for (int f = 1; f < p->n_floors; f++) pull_floor(p, f, 1);
    for (int f = p->n_floors - 2; f >= 0; f--) pull_floor(p, f, 0);
  }
}

/* ---- drawing --------------------------------------------------------------------------------- */

static double top_of(const picture *p, const box *b) {
  return 14 + (p->n_floors - 1 - b->floor) * FLOOR_HEIGHT;
}

static void draw_edge(const picture *p, const int *edge, vtb_strbuf *out) {
  const box *a = &p->boxes[edge[0]], *b = &p->boxes[edge[1]];
  double y0 = top_of(p, a) + BOX_HEIGHT, y1 = top_of(p, b), middle = (y0 + y1) / 2;
  if (!a->room)
    vtb_strbuf_printf(out, "<path d=\"M%.1f,%.1f V%.1f\"/>\n", a->x, y0 - BOX_HEIGHT, y0);
  vtb_strbuf_printf(out, "<path d=\"M%.1f,%.1f C%.1f,%.1f %.1f,%.1f %.1f,%.1f\"%s/>\n", a->x, y0,
                    a->x, middle, b->x, middle, b->x, y1 - (b->room ? 2 : 0),
                    b->room ? " marker-end=\"url(#to)\"" : "");
}

static void draw_box(const picture *p, const box *b, vtb_strbuf *out) {
  double top = top_of(p, b);
  vtb_strbuf_printf(
      out,
      "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n"
      "<text class=\"name\" x=\"%.1f\" y=\"%.1f\">%s</text>\n"
      "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
      vtb_starts_with(b->room->path, "runtime") ? "runtime" : "compiler", b->x - BOX_WIDTH / 2.0,
      top, BOX_WIDTH, BOX_HEIGHT, b->x, top + 24, b->room->path, b->x, top + 44, b->room->what);
}

static const char head[] =
    "<style>\n"
    "svg { color: #222; background: #fff; font: 13px 'DejaVu Sans', Helvetica, sans-serif }\n"
    "text { fill: #222; text-anchor: middle } .name { font-weight: bold }\n"
    "path { fill: none; stroke: #667; stroke-width: 1.4 } marker path { fill: #667; stroke: none "
    "}\n"
    "rect { stroke: #667 } .compiler { fill: #e8f1fb } .runtime { fill: #fdf3e1 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "svg { background: #0d1117 } text { fill: #e6edf3 }\n"
    "path { stroke: #8b949e } marker path { fill: #8b949e } rect { stroke: #8b949e }\n"
    ".compiler { fill: #16304f } .runtime { fill: #4a3511 }\n"
    "}\n</style>\n"
    "<defs><marker id=\"to\" markerWidth=\"9\" markerHeight=\"9\" refX=\"7\" refY=\"4\" "
    "orient=\"auto\" markerUnits=\"userSpaceOnUse\"><path d=\"M0,0 L8,4 L0,8 "
    "z\"/></marker></defs>\n";

static void draw(const house_tree *t, vtb_strbuf *out) {
  picture p = {0};
  read_includes(&p, t);
  reduce(&p);
  find_floors(&p);
  add_edges(&p);
  find_places(&p);
  vtb_strbuf_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n%s",
                    WIDTH, 28 + (p.n_floors - 1) * FLOOR_HEIGHT + BOX_HEIGHT, head);
  for (int e = 0; e < p.n_edges; e++) draw_edge(&p, p.edge[e], out);
  for (int i = 0; i < N_ROOMS; i++) draw_box(&p, &p.boxes[i], out);
  vtb_strbuf_puts(out, "</svg>\n");
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Words that begin a row are wider than they are; about 7 of 13 pixels a character is on the safe
 * side for what is not bold. */
TEST(texts_fit_their_boxes) {
  for (int i = 0; i < N_ROOMS; i++) {
    CHECK_MSG(strlen(rooms[i].what) * 7 < BOX_WIDTH, "\"%s\" is too long", rooms[i].what);
    CHECK_MSG(strlen(rooms[i].path) * 9 < BOX_WIDTH, "\"%s\" is too long", rooms[i].path);
  }
}

TEST(arrows_follow_includes) {
  house_tree t = {0};
  picture p = {0};
  tree_add(&t, "ir/a.c", "#include \"runtime/base/base.h\"\n");
  tree_add(&t, "passes/a.c", "#include \"runtime/base/base.h\"\n#include \"ir/ir.h\"\n");
  read_includes(&p, &t);
  reduce(&p);
  const house_room *ir = room_of("ir/a.c"), *passes = room_of("passes/a.c"),
                   *base = room_of("runtime/base/base.h");
  CHECK(p.includes[passes - rooms][ir - rooms] && p.includes[ir - rooms][base - rooms]);
  CHECK(!p.includes[passes - rooms][base - rooms]);
  find_floors(&p);
  CHECK(p.n_floors == 3 && p.boxes[passes - rooms].floor == 2);
  tree_free(&t);
}

TEST(the_picture_is_the_tree) {
  house_tree t = {0};
  vtb_strbuf drawn = {0};
  char *text = NULL;
  size_t n = 0;
  vtb_error err = {0};
  tree_read(&t, VTB_SOURCE_DIR);
  draw(&t, &drawn);
  CHECK_MSG(vtb_file_read(PICTURE, 1 << 20, &text, &n, &err) == VTB_OK, "%s", err.text);
  CHECK_MSG(vtb_streq(text, drawn.at), "docs/architecture.svg is not what the includes say; "
                                       "run build/release/tests/house_test_picture --write");
  free(text);
  vtb_strbuf_free(&drawn);
  tree_free(&t);
}

static int write_picture(void) {
  house_tree t = {0};
  vtb_strbuf drawn = {0};
  vtb_error err = {0};
  tree_read(&t, VTB_SOURCE_DIR);
  draw(&t, &drawn);
  vtb_status status = vtb_file_write_atomic(PICTURE, drawn.at, drawn.n, &err);
  if (status != VTB_OK) fprintf(stderr, "%s\n", err.text);
  vtb_strbuf_free(&drawn);
  tree_free(&t);
  return status != VTB_OK;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--write") == 0) return write_picture();
  RUN(texts_fit_their_boxes);
  RUN(arrows_follow_includes);
  RUN(the_picture_is_the_tree);
  return test_done();
}
