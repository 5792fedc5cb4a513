/* Includes point one way: rules.h says which room builds on which; no header includes itself
 * through others. */
#include "rooms.h"
#include "tests/test.h"
#include "tree.h"

enum { MOST_LINE = 4096, MOST_PATH_BYTES = 256 };

static bool listed(const char *list, const char *path) {
  for (const char *p = list; *p; p += strspn(p, " ")) {
    size_t n = strcspn(p, " ");
    if (under(path, p, n)) return true;
    p += n;
  }
  return false;
}

/* Of the inner room that both files would have to be of, what the first may not include. */
static bool stays_inside(const char *from, const char *path, const house_room **room) {
  for (size_t i = 0; i < sizeof inner_rooms / sizeof *inner_rooms; i++) {
    *room = &inner_rooms[i];
    if (!under(from, (*room)->path, strlen((*room)->path))) continue;
    return room_of(path) != room_of(from) || under(path, (*room)->path, strlen((*room)->path)) ||
           listed((*room)->below, path);
  }
  return true;
}

static void check_include(const house_file *f, int line, const char *path, complaints *c) {
  const house_room *from = room_of(f->path);
  if (vtb_ends_with(path, ".gen.h")) return;
  if (!from)
    complain(c, f->path, line, "this folder is no room; give it a row in tests/house/rules.h");
  else if (room_of(path) != from && !listed(from->below, path))
    complain(c, f->path, line,
             "%s must not include %s: it builds on [%s]; move what is needed down, or the user up",
             from->path, path, from->below);
  const house_room *inner = NULL;
  if (from && !stays_inside(f->path, path, &inner))
    complain(c, f->path, line, "%s must not include %s: of its house it builds on [%s]",
             inner->path, path, inner->below);
}

static void check_directions(const house_tree *t, complaints *c) {
  char line[MOST_LINE], path[MOST_PATH_BYTES];
  for (size_t i = 0; i < t->files.n; i++) {
    const house_file *f = &t->files.at[i];
    if (vtb_starts_with(f->path, "tests/")) continue;
    const char *at = f->text;
    for (int n = 1; next_line(&at, line, sizeof line); n++)
      if (included(line, path, sizeof path)) check_include(f, n, path, c);
  }
}

/* Follows includes from `path` down; `trail` holds the files on the way. */
static void check_ring(const house_tree *t, const char *path, const char **trail, int depth,
                       vtb_map *done, complaints *c) {
  for (int i = 0; i < depth; i++)
    if (strcmp(trail[i], path) == 0) {
      complain(c, path, 0, "includes itself through %s; split what both need into a header below",
               trail[depth - 1]);
      return;
    }
  const house_file *f = tree_find(t, path);
  if (!f || depth == 64 || vtb_map_has(done, path)) return;
  trail[depth] = f->path;
  char line[MOST_LINE], next[MOST_PATH_BYTES];
  const char *at = f->text;
  while (next_line(&at, line, sizeof line))
    if (included(line, next, sizeof next)) check_ring(t, next, trail, depth + 1, done, c);
  vtb_map_set(done, path, NULL);
}

static void check_rings(const house_tree *t, complaints *c) {
  const char *trail[64];
  vtb_map done = {0};
  for (size_t i = 0; i < t->files.n; i++) check_ring(t, t->files.at[i].path, trail, 0, &done, c);
  vtb_map_free(&done);
}

TEST(planted_faults_are_found) {
  house_tree t = {0};
  complaints c = {0};
  tree_add(&t, "ir/a.h", "#include \"ir/b.h\"\n");
  tree_add(&t, "ir/b.h", "#include <stdio.h>\n#include \"ir/a.h\"\n#include \"passes/passes.h\"\n");
  tree_add(&t, "cellar/c.c", "#include \"ir/a.h\"\n");
  tree_add(&t, "passes/graph/d.c", "#include \"passes/passes.h\"\n#include \"passes/fuse/e.h\"\n");
  check_directions(&t, &c);
  CHECK(c.n == 3 &&
        strstr(c.text.at, "graph/d.c:2: passes/graph must not include passes/fuse/e.h"));
  CHECK(c.n == 3 && strstr(c.text.at, "ir/b.h:3: ir must not include passes/passes.h"));
  CHECK(c.n == 3 && strstr(c.text.at, "cellar/c.c:1: this folder is no room"));
  vtb_strbuf_free(&c.text);
  c = (complaints){0};
  check_rings(&t, &c);
  CHECK(c.n == 1 && strstr(c.text.at, "ir/a.h: includes itself through ir/b.h"));
  vtb_strbuf_free(&c.text);
  tree_free(&t);
}

TEST(the_tree_keeps_the_rules) {
  house_tree t = {0};
  complaints c = {0};
  tree_read(&t, VTB_SOURCE_DIR);
  CHECK(t.files.n > 100);
  check_directions(&t, &c);
  check_rings(&t, &c);
  CHECK_MSG(complaints_end(&c) == 0, "includes run upward");
  tree_free(&t);
}

int main(void) {
  RUN(planted_faults_are_found);
  RUN(the_tree_keeps_the_rules);
  return test_done();
}
