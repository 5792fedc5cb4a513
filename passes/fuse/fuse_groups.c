/* Groups of instructions: members, users, places, paths (passes/fuse/fuse_groups.h). */
#include "passes/fuse/fuse_groups.h"

#include "ir/checks.h"
#include "passes/passes_internal.h"

#include <assert.h>

int vtb__group_of(vtb__groups *g, int i) {
  while (g->parent[i] != i) i = g->parent[i] = g->parent[g->parent[i]];
  return i;
}

void vtb__groups_init(vtb__groups *g, vtb_func *f) {
  *g = (vtb__groups){.module = f->module, .n = vtb_func_number(f)};
  int **tables[] = {&g->parent, &g->first, &g->last, &g->next, &g->place, &g->at, &g->mark};
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    *tables[t] = VTB_SCRATCH(g, int, g->n);
  for (int i = 0; i < g->n; i++) {
    g->parent[i] = g->first[i] = g->last[i] = g->place[i] = g->at[i] = i;
    g->next[i] = -1;
  }
  g->users = VTB_SCRATCH(g, vtb__node_list, g->n);
  for (vtb_inst *i = f->first; i; i = i->next)
    for (int o = 0; o < i->n_operands; o++)
      if (i->operands[o]->def) vtb__put(g, &g->users[i->operands[o]->def->order], i->order);
}

/* Marks the groups that `from` leads to, as far as they stand before `to`; true as soon as one of
 * them leads to `to`. */
static bool search(vtb__groups *g, int from, int to, bool direct) {
  g->mark[from] = ++g->mark_now;
  g->stack.n = 0;
  vtb__put(g, &g->stack, from);
  while (g->stack.n) {
    int group = g->stack.at[--g->stack.n];
    VTB__EACH_NODE(g, group, i)
      VTB__EACH_USER(g, i, u) {
        int user = vtb__group_of(g, *u);
        if (user == to && (group != from || direct)) return true;
        if (g->place[user] >= g->place[to] || g->mark[user] == g->mark_now) continue;
        g->mark[user] = g->mark_now;
        vtb__put(g, &g->stack, user);
      }
  }
  return false;
}

bool vtb__groups_path(vtb__groups *g, int a, int b, bool direct) {
  bool ahead = g->place[a] < g->place[b];
  return search(g, ahead ? a : b, ahead ? b : a, direct);
}

static void put(vtb__groups *g, int group, int place) {
  g->at[place] = group;
  if (group >= 0) g->place[group] = place;
}

/* Between the two places: first what the earlier group does not lead to, then `into`, then what it
 * leads to. None of the last leads to the later group, or there would have been a path. */
static void move(vtb__groups *g, int into, int low, int high) {
  int to = low;
  g->stack.n = 0;
  for (int p = low + 1; p < high; p++) {
    int group = g->at[p];
    if (group < 0) continue;
    if (g->mark[group] == g->mark_now)
      vtb__put(g, &g->stack, group);
    else
      put(g, group, to++);
  }
  put(g, into, to++);
  for (size_t k = 0; k < g->stack.n; k++) put(g, g->stack.at[k], to++);
  while (to <= high) put(g, -1, to++);
}

void vtb__groups_join(vtb__groups *g, int into, int from) {
  int a = g->place[into], b = g->place[from];
  assert(into != from && g->parent[into] == into && g->parent[from] == from);
  assert(g->mark[a < b ? into : from] == g->mark_now && "not what was searched last");
  move(g, into, a < b ? a : b, a < b ? b : a);
  g->parent[from] = into;
  g->next[g->last[into]] = g->first[from];
  g->last[into] = g->last[from];
}

/* ---- what is said of groups ------------------------------------------------------------------ */

#define BROKEN(...) (vtb_fail(err, VTB_E_INTERNAL, "groups of fuse: " __VA_ARGS__) == VTB_OK)

/* Every node leads to one that names its group, and stands in that group's list and no other. */
static bool check_members(const vtb__groups *g, int *of, vtb_error *err) {
  int listed = 0;
  for (int i = 0; i < g->n; i++) {
    int steps = 0;
    for (of[i] = i; g->parent[of[i]] != of[i]; of[i] = g->parent[of[i]])
      if (++steps > g->n) return BROKEN("node %d leads to no group", i);
  }
  for (int i = 0; i < g->n; i++) {
    if (of[i] != i) continue;
    for (int k = g->first[i]; k >= 0; k = g->next[k]) {
      if (of[k] != i) return BROKEN("group %d lists node %d of group %d", i, k, of[k]);
      if ((g->next[k] < 0) != (g->last[i] == k))
        return BROKEN("group %d does not end with node %d", i, g->last[i]);
      if (++listed > g->n) return BROKEN("group %d lists a node twice", i);
    }
  }
  return listed == g->n || BROKEN("%d of %d nodes are listed", listed, g->n);
}

/* Groups have places, each its own, and come after those they read. */
static bool check_places(const vtb__groups *g, const int *of, vtb_error *err) {
  for (int p = 0; p < g->n; p++) {
    int group = g->at[p];
    if (group >= 0 && (of[group] != group || g->place[group] != p))
      return BROKEN("place %d is not that of group %d", p, group);
  }
  for (int i = 0; i < g->n; i++) {
    if (g->at[g->place[of[i]]] != of[i])
      return BROKEN("group %d is not at its place %d", of[i], g->place[of[i]]);
    VTB__EACH_USER(g, i, u)
      if (of[*u] != of[i] && g->place[of[*u]] <= g->place[of[i]])
        return BROKEN("group %d is placed before group %d, which it reads", of[*u], of[i]);
  }
  return true;
}

vtb_status vtb__groups_check(vtb__groups *g, vtb_error *err) {
  int *of = VTB_SCRATCH(g, int, g->n);
  return check_members(g, of, err) && check_places(g, of, err) ? VTB_OK : VTB_E_INTERNAL;
}

void vtb__groups_sort(vtb__groups *g) {
  for (int i = 0; i < g->n; i++) g->first[i] = -1;
  for (int i = g->n - 1; i >= 0; i--) {
    int group = vtb__group_of(g, i);
    if (g->first[group] < 0) g->last[group] = i;
    g->next[i] = g->first[group];
    g->first[group] = i;
  }
  vtb_error err = {0};
  if (vtb_checks()) vtb_check(vtb__groups_check(g, &err) == VTB_OK, "%s", err.text);
}
