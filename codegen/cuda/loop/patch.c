/* Loop kernels that read along another axis than they write: transposes, channels that move, copies
 * between layouts.
 *
 * With lanes along the last axis alone, a warp reads 32 places far apart and wants four bytes of
 * each sector. A patch is a warp's share of both axes: `across` elements along the axis (or small
 * axes) that the reads go along, and 32 / across steps along the last:
 *
 *   i = ((... * steps / 4 + step / 4) * size of x / 8 + x / 8) * 32 + step % 4 * 8 + x % 8
 *
 * so that reads find whole sectors of floats, and writes rows of at least a sector. */
#include <stdlib.h>

#include "codegen/cuda/loop/expr.h"

enum { WARP = 32, ACROSS = 8, LEAST_ACROSS = 4 };

static int64_t coef_of(const vtb_cuda_expr *e, const vtb_index *use, int g) {
  return llabs(use->coef[e->body.groups[g].last]);
}

static bool is_taken(const vtb_cuda_patch *p, int g) {
  for (int i = 0; i < p->n; i++)
    if (p->group[i] == g) return true;
  return false;
}

/* The groups that the addresses of `use` go along, innermost first, as far as a patch needs
 * them. */
static vtb_cuda_patch along(const vtb_cuda_expr *e, const vtb_index *use, int vec) {
  vtb_cuda_patch p = {.across = 1};
  int64_t want = 1;
  for (int g = 0; g < e->body.n_groups && p.across < ACROSS; g++) {
    if (g == vec || is_taken(&p, g) || coef_of(e, use, g) != want) continue;
    int64_t size = e->body.groups[g].size, left = ACROSS / p.across;
    if (size < left && left % size) break;
    p.group[p.n] = g;
    p.part[p.n] = size < left ? size : left;
    p.across *= p.part[p.n++];
    want *= size;
    g = -1; /* from the first again */
  }
  return p;
}

vtb_cuda_patch vtb__cuda_patch_of(const vtb_cuda_expr *e) {
  vtb_cuda_patch best = {.across = 1};
  int vec = e->body.n_groups - 1;
  if (vec < 1) return best;
  for (size_t u = 0; u < e->body.uses.n; u++) {
    const vtb_index *use = &e->body.uses.at[u];
    if (coef_of(e, use, vec) < 2) continue;
    vtb_cuda_patch p = along(e, use, vec);
    if (p.across >= LEAST_ACROSS && p.across > best.across) best = p;
  }
  return best;
}

bool vtb__cuda_patch_interleaves(const vtb_cuda_expr *e, const vtb_cuda_patch *p) {
  int vec = e->body.n_groups - 1;
  for (size_t u = 0; u < e->body.uses.n && p->across == LEAST_ACROSS; u++)
    if (coef_of(e, &e->body.uses.at[u], vec) == p->across) return true;
  return false;
}

bool vtb__cuda_patch_fits(const vtb_cuda_expr *e, const vtb_cuda_patch *p, int lanes) {
  if (p->across <= 1) return false;
  return e->body.groups[e->body.n_groups - 1].size / lanes >= WARP / p->across;
}

static int64_t part_of(const vtb_cuda_expr *e, const vtb_cuda_patch *p, int g) {
  for (int i = 0; i < p->n; i++)
    if (p->group[i] == g) return p->part[i];
  return g == e->body.vec ? WARP / p->across : 1;
}

static int64_t steps_of(const vtb_cuda_expr *e, int g) {
  return e->body.groups[g].size / (g == e->body.vec ? e->body.lanes : 1);
}

static int64_t outer_of(const vtb_cuda_expr *e, const vtb_cuda_patch *p, int g) {
  int64_t part = part_of(e, p, g);
  return (steps_of(e, g) + part - 1) / part;
}

int64_t vtb__cuda_patch_size(const vtb_cuda_expr *e, const vtb_cuda_patch *p) {
  int64_t n = WARP;
  for (int g = 0; g < e->body.n_groups; g++) n *= outer_of(e, p, g);
  return n;
}

/* The patch's own groups move fastest from patch to patch, so that a block completes the sectors
 * that a patch takes half. */
static int order(const vtb_cuda_expr *e, const vtb_cuda_patch *p, int out[VTB_NEST_MAX]) {
  int n = 0;
  for (int i = 0; i < p->n; i++) out[n++] = p->group[i];
  for (int g = e->body.n_groups - 1; g >= 0; g--)
    if (!is_taken(p, g)) out[n++] = g;
  return n;
}

/* "i / 32 % 12": digit `i` of a number whose digits below it make `below`. */
static void put_digit(vtb_strbuf *s, int64_t below, int64_t n) {
  if (below > 1)
    vtb_strbuf_printf(s, "i / %lld %% %lld", (long long)below, (long long)n);
  else
    vtb_strbuf_printf(s, "i %% %lld", (long long)n);
}

/* Group g, of which `within` elements and `among` patches vary faster. */
static void decode_group(vtb_cuda_expr *e, const vtb_cuda_patch *p, int g, int64_t within,
                         int64_t among) {
  int64_t part = part_of(e, p, g), outer = outer_of(e, p, g);
  bool fours = g == e->body.vec && e->body.lanes > 1;
  vtb_strbuf s = {0};
  if (outer > 1) put_digit(&s, among, outer);
  if (outer > 1 && part > 1) vtb_strbuf_printf(&s, " * %lld + ", (long long)part);
  if (part > 1) put_digit(&s, within, part);
  if (!s.n) vtb_strbuf_puts(&s, "0");
  e->body.groups[g].value = vtb_arena_printf(&e->c->arena, "i%d", g);
  vtb_cuda_line(e->k, fours ? "const %s i%d = (%s) * %d;" : "const %s i%d = %s;", vtb__cuda_int(e),
                g, s.at, e->body.lanes);
  vtb_strbuf_free(&s);
}

bool vtb__cuda_patch_decode(vtb_cuda_expr *e, const vtb_cuda_patch *p) {
  int groups[VTB_NEST_MAX], n = order(e, p, groups);
  int64_t within = 1, among = WARP;
  vtb_strbuf guard = {0};
  for (int i = 0; i < n; i++) {
    int g = groups[i];
    /* the last axis lies behind what the patch goes across */
    decode_group(e, p, g, g == e->body.vec ? p->across : within, among);
    if (steps_of(e, g) % part_of(e, p, g))
      vtb_strbuf_printf(&guard, "%si%d < %lld", guard.n ? " && " : "", g,
                        (long long)e->body.groups[g].size);
    if (g != e->body.vec) within *= part_of(e, p, g);
    among *= outer_of(e, p, g);
  }
  bool guarded = guard.n > 0;
  if (guarded) vtb_cuda_open(e->k, "if (%s)", guard.at);
  vtb_strbuf_free(&guard);
  return guarded;
}
