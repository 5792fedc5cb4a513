/* How large the rooms are, and how much of them is seen from outside: docs/house.md has what was
 * measured last. What rises needs a reason there.
 *
 *   house_test_measures            prints the rooms, and fails if one has grown
 *   house_test_measures --write    writes the table; a reason is then still to be written
 */
#include <dirent.h>

#include "calls.h"
#include "rooms.h"
#include "tests/test.h"
#include "tree.h"

#define TABLE VTB_SOURCE_DIR "/docs/house.md"
#define TO_BE_SAID "?"

enum { N_INNER = sizeof inner_rooms / sizeof *inner_rooms, MOST_ROW = 1024 };

/* Of a room; `slack` is what one may rise by unasked: a share, and a number. */
enum { FILES, LINES, LARGEST, RINGS, UNUSED, N_MEASURES };
static const struct {
  const char *name;
  double share;
  int more;
} measures[N_MEASURES] = {
    [FILES] = {"files", 0.02, 2},          [LINES] = {"lines", 0.01, 20},
    [LARGEST] = {"largest file", 0, 20},   [RINGS] = {"files in rings", 0, 0},
    [UNUSED] = {"names for itself", 0, 0},
};

typedef struct room {
  const char *path;
  int of[N_MEASURES];
  char why[MOST_ROW]; /* it grew; empty: it did not */
} room;

typedef struct house {
  room at[N_ROOMS + N_INNER + 1]; /* the last is the sum */
  int n;
} house;

static bool too_many(int measure, int now, int before) {
  return now > before + (int)(before * measures[measure].share) + measures[measure].more;
}

/* ---- what there is --------------------------------------------------------------------------- */

static room *room_at(house *h, const char *path) {
  room *best = NULL;
  for (int i = 0; i < h->n; i++)
    if (under(path, h->at[i].path, strlen(h->at[i].path)) &&
        (!best || strlen(h->at[i].path) > strlen(best->path)))
      best = &h->at[i];
  return best;
}

static house house_new(void) {
  house h = {0};
  for (int i = 0; i < N_ROOMS; i++) h.at[h.n++].path = rooms[i].path;
  for (int i = 0; i < N_INNER; i++) h.at[h.n++].path = inner_rooms[i].path;
  return h;
}

static void add_text(house *h, const char *path, const char *text) {
  room *r = room_at(h, path);
  int lines = 0;
  if (!r) return;
  for (const char *p = text; *p; p++) lines += *p == '\n';
  r->of[FILES]++;
  r->of[LINES] += lines;
  if (lines > r->of[LARGEST]) r->of[LARGEST] = lines;
}

static void add_calls(house *h, house_graph *g) {
  graph_find_rings(g);
  for (size_t i = 0; i < g->nodes.n; i++) {
    room *r = room_at(h, g->nodes.at[i].file);
    if (!r) continue;
    r->of[RINGS] += g->nodes.at[i].ring > 2;
    r->of[UNUSED] += g->nodes.at[i].unused;
  }
}

static void add_up(house *h) {
  room *sum = &h->at[h->n];
  *sum = (room){.path = "all"};
  for (int i = 0; i < h->n; i++)
    for (int m = 0; m < N_MEASURES; m++) {
      int of = h->at[i].of[m];
      if (m != LARGEST) sum->of[m] += of;
      if (m == LARGEST && of > sum->of[m]) sum->of[m] = of;
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

/* "| room | 1 | 2 | 3 | 4 | 5 | why |"; false: no row of a room. */
static bool read_row(const char *line, house *h) {
  char path[64], why[MOST_ROW] = "";
  int of[N_MEASURES];
  if (sscanf(line, "| `%63[^`]` | %d | %d | %d | %d | %d | %1000[^|]", path, &of[0], &of[1], &of[2],
             &of[3], &of[4], why) < 6)
    return false;
  size_t n = strlen(why);
  while (n && why[n - 1] == ' ') why[--n] = '\0';
  for (int i = 0; i <= h->n; i++)
    if (h->at[i].path && strcmp(h->at[i].path, path) == 0) {
      memcpy(h->at[i].of, of, sizeof of);
      snprintf(h->at[i].why, sizeof h->at[i].why, "%s", why);
    }
  return true;
}

static house read_table(const char *text) {
  house h = house_new();
  char line[4096];
  h.at[h.n].path = "all";
  while (next_line(&text, line, sizeof line)) read_row(line, &h);
  return h;
}

/* What was measured now, with the reasons there were; of what has grown one is missing. */
static void print_table(const house *now, const house *before, vtb_strbuf *out) {
  for (int i = 0; i <= now->n; i++) {
    const room *r = &now->at[i], *was = &before->at[i];
    bool grew = false;
    if (!r->of[FILES]) continue;
    vtb_strbuf_printf(out, "| `%s` |", r->path);
    for (int m = 0; m < N_MEASURES; m++) {
      vtb_strbuf_printf(out, " %d |", r->of[m]);
      grew |= i < now->n && too_many(m, r->of[m], was->of[m]);
    }
    vtb_strbuf_printf(out, " %s |\n", grew ? TO_BE_SAID : was->why);
  }
}

static void compare(const house *now, const house *before, complaints *c) {
  for (int i = 0; i < now->n; i++) {
    const room *r = &now->at[i], *was = &before->at[i];
    for (int m = 0; m < N_MEASURES; m++)
      if (too_many(m, r->of[m], was->of[m]))
        complain(c, r->path, 0,
                 "%s: %d, and %d when last measured; make it smaller, or write the table anew "
                 "(house_test_measures --write) and say in docs/house.md why it grew",
                 measures[m].name, r->of[m], was->of[m]);
    if (vtb_streq(was->why, TO_BE_SAID))
      complain(c, "docs/house.md", 0, "%s: say why it grew", r->path);
  }
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(rings_and_growth_are_found) {
  house_graph g = {0};
  complaints c = {0};
  const char *const files[] = {"ir/a.c", "ir/b.c", "ir/c.c", "ir/ground.c"};
  for (int i = 0; i < 4; i++) CHECK(graph_node(&g, files[i]) == i);
  for (int i = 0; i < 3; i++) {
    vtb_vec_push(&g.nodes.at[i].calls, (i + 1) % 3);
    vtb_vec_push(&g.nodes.at[i].calls, 3);
  }
  g.nodes.at[3].unused = 1;
  house now = house_new();
  add_text(&now, "ir/a.c", "one\ntwo\n");
  add_text(&now, "passes/fuse/a.c", "one\n");
  add_calls(&now, &g);
  add_up(&now);
  CHECK_STR(g.rings.at, "ir/a.c ir/b.c ir/c.c\n");
  CHECK(room_at(&now, "passes/fuse/a.c")->of[LINES] == 1);
  house before =
      read_table("| `ir` | 1 | 2 | 2 | 2 | 0 | ? |\n| `passes/fuse` | 9 | 9 | 9 | 0 | 0 | |\n");
  compare(&now, &before, &c);
  CHECK(c.n == 3);
  CHECK(c.n && strstr(c.text.at, "ir: files in rings: 3, and 2 when"));
  CHECK(c.n && strstr(c.text.at, "ir: names for itself: 1, and 0 when"));
  CHECK(c.n && strstr(c.text.at, "ir: say why it grew"));
  vtb_strbuf_free(&c.text);
  vtb_strbuf table = {0};
  print_table(&now, &before, &table);
  CHECK_STR(table.at, "| `ir` | 1 | 2 | 2 | 3 | 1 | ? |\n| `passes/fuse` | 1 | 1 | 1 | 0 | 0 |  |\n"
                      "| `all` | 2 | 3 | 2 | 3 | 1 |  |\n");
  vtb_strbuf_free(&table);
  graph_free(&g);
}

static house measure(void) {
  house h = house_new();
  house_tree t = {0};
  house_graph g = {0};
  tree_read(&t, VTB_SOURCE_DIR);
  for (size_t i = 0; i < t.files.n; i++) add_text(&h, t.files.at[i].path, t.files.at[i].text);
  for (size_t i = 0; i < t.texts.n; i++) add_text(&h, t.texts.at[i].path, t.texts.at[i].text);
  graph_read(&g, VTB_BINARY_DIR);
  CHECK(g.nodes.n > 100);
  for (size_t i = 0; i < g.nodes.n; i++)
    CHECK_MSG(room_at(&h, g.nodes.at[i].file), "%s is in no room of tests/house/rules.h",
              g.nodes.at[i].file);
  add_calls(&h, &g);
  add_up(&h);
  if (g.rings.n) printf("files that call each other in rings:\n%s", g.rings.at);
  tree_free(&t);
  graph_free(&g);
  return h;
}

/* The page up to its table, which ends it. */
static size_t head_of(const char *page) {
  const char *rule = strstr(page, "| --- |");
  const char *end = rule ? strchr(rule, '\n') : NULL;
  CHECK_MSG(end, "docs/house.md has no table");
  return end ? (size_t)(end + 1 - page) : 0;
}

static bool write_now;

TEST(no_room_grows_without_a_reason) {
  char *page = NULL;
  size_t n = 0;
  vtb_error err = {0};
  complaints c = {0};
  CHECK_MSG(vtb_file_read(TABLE, 1 << 20, &page, &n, &err) == VTB_OK, "%s", err.text);
  if (!page) return;
  house now = measure(), before = read_table(page);
  vtb_strbuf out = {0};
  print_table(&now, &before, &out);
  puts(out.at);
  vtb_strbuf whole = {0};
  vtb_strbuf_printf(&whole, "%.*s%s", (int)head_of(page), page, out.at);
  if (write_now)
    CHECK_MSG(vtb_file_write_atomic(TABLE, whole.at, whole.n, &err) == VTB_OK, "%s", err.text);
  else
    compare(&now, &before, &c);
  CHECK_MSG(complaints_end(&c) == 0, "rooms have grown");
  vtb_strbuf_free(&out);
  vtb_strbuf_free(&whole);
  free(page);
}

int main(int argc, char **argv) {
  write_now = argc > 1 && strcmp(argv[1], "--write") == 0;
  RUN(rings_and_growth_are_found);
  RUN(no_room_grows_without_a_reason);
  return test_done();
}
