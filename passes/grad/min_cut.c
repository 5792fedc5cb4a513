/* Minimum vertex cut by maximum flow (shortest augmenting paths). Graphs here have at most a few
 * hundred vertices.
 *
 * Vertex v becomes an edge 2v -> 2v+1 of its weight; all other edges are unbounded. Among the
 * minimum cuts the one nearest the sinks is taken: vertices whose outer half reaches a sink in the
 * residual graph and whose inner half does not.
 */
#include "passes/passes_internal.h"

#include <assert.h>

#define UNBOUNDED (INT64_MAX / 4)

typedef struct flow_edge {
  int to, next;
  int64_t room;
} flow_edge;

typedef struct network {
  vtb_module *module;
  int n;
  int *head;
  VTB_VEC(flow_edge) edges; /* e and e^1 are each other's reverse */
  int *via, *queue;
} network;

static void connect(network *w, int from, int to, int64_t room) {
  vtb__put(w, &w->edges, ((flow_edge){to, w->head[from], room}));
  w->head[from] = (int)w->edges.n - 1;
  vtb__put(w, &w->edges, ((flow_edge){from, w->head[to], 0}));
  w->head[to] = (int)w->edges.n - 1;
}

/* Breadth first along edges with room, or against them; via[v] is the edge that reached v, -1 if
 * none did. True if `to` was reached. */
static bool search(network *w, int from, int to, bool back) {
  for (int i = 0; i < w->n; i++) w->via[i] = -1;
  int first = 0, last = 0;
  w->queue[last++] = from;
  while (first < last) {
    int v = w->queue[first++];
    for (int e = w->head[v]; e >= 0; e = w->edges.at[e].next) {
      int u = w->edges.at[e].to;
      if (w->edges.at[back ? e ^ 1 : e].room == 0 || u == from || w->via[u] >= 0) continue;
      w->via[u] = e;
      if (u == to) return true;
      w->queue[last++] = u;
    }
  }
  return false;
}

static void augment(network *w, int from, int to) {
  int64_t room = UNBOUNDED;
  for (int v = to; v != from; v = w->edges.at[w->via[v] ^ 1].to)
    if (w->edges.at[w->via[v]].room < room) room = w->edges.at[w->via[v]].room;
  assert(room > 0 && room < UNBOUNDED); /* else a source is a sink and nothing parts them */
  for (int v = to; v != from; v = w->edges.at[w->via[v] ^ 1].to) {
    w->edges.at[w->via[v]].room -= room;
    w->edges.at[w->via[v] ^ 1].room += room;
  }
}

void vtb__min_vertex_cut(vtb_module *m, int n, const int64_t *weight, const bool *source,
                         const bool *sink, const int *edge, int n_edges, bool *cut) {
  network w = {.module = m, .n = 2 * n + 2};
  int from = 2 * n, to = 2 * n + 1;
  w.head = VTB_SCRATCH(&w, int, w.n);
  w.via = VTB_SCRATCH(&w, int, w.n);
  w.queue = VTB_SCRATCH(&w, int, w.n);
  for (int i = 0; i < w.n; i++) w.head[i] = -1;
  for (int v = 0; v < n; v++) {
    assert(weight[v] >= 0);
    connect(&w, 2 * v, 2 * v + 1, weight[v]);
    if (source[v]) connect(&w, from, 2 * v, UNBOUNDED);
    if (sink[v]) connect(&w, 2 * v + 1, to, UNBOUNDED);
  }
  for (int e = 0; e < 2 * n_edges; e++) assert(edge[e] >= 0 && edge[e] < n);
  for (int e = 0; e < n_edges; e++)
    connect(&w, 2 * edge[2 * e] + 1, 2 * edge[2 * e + 1], UNBOUNDED);
  while (search(&w, from, to, false)) augment(&w, from, to);
  search(&w, to, -1, true); /* what reaches a sink */
  for (int v = 0; v < n; v++) cut[v] = w.via[2 * v + 1] >= 0 && w.via[2 * v] < 0;
}
