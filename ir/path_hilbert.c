/* The generalised Hilbert curve: every cell of a grid of any sides once, neighbours after each
 * other wherever the sides allow it.
 *
 * A block is spanned from a corner by the vectors a, b (and c); the curve enters at the corner and
 * leaves at the end of a. Blocks much longer than wide are halved along a, the others are cut into
 * three (a plane) or five (space) that are entered along b, crossed along a (c) and left along -b.
 * Halves are even where they can be: then steps between blocks meet without a diagonal.
 * source  J. Cerveny, "gilbert": space-filling curves for rectangles of any size */
#include "ir/path.h"

#include <stdlib.h>

typedef struct vec {
  int64_t x, y, z; /* column, row, frame */
} vec;

typedef struct curve {
  const vtb_grid *g;
  int64_t *at;
} curve;

static int64_t sign(int64_t x) { return (x > 0) - (x < 0); }
static int64_t half(int64_t x) {
  return x < 0 ? -(-x / 2) - (-x % 2) : x / 2;
} /* toward minus infinity */

static vec plus(vec a, vec b) { return (vec){a.x + b.x, a.y + b.y, a.z + b.z}; }
static vec minus(vec a, vec b) { return (vec){a.x - b.x, a.y - b.y, a.z - b.z}; }
static vec back(vec a) { return (vec){-a.x, -a.y, -a.z}; }
static vec unit(vec a) { return (vec){sign(a.x), sign(a.y), sign(a.z)}; }
static int64_t length(vec a) { return llabs(a.x + a.y + a.z); }

/* About half of a, even if a is long enough. */
static vec halved(vec a) {
  vec h = {half(a.x), half(a.y), half(a.z)};
  return length(h) % 2 && length(a) > 2 ? plus(h, unit(a)) : h;
}

static void line(curve *c, vec p, vec a) {
  for (int64_t i = 0, n = length(a); i < n; i++, p = plus(p, unit(a)))
    *c->at++ = (p.z * c->g->h + p.y) * c->g->w + p.x;
}

static void plane(curve *c, vec p, vec a, vec b) {
  int64_t w = length(a), h = length(b);
  if (w == 1 || h == 1) {
    line(c, p, h == 1 ? a : b);
    return;
  }
  vec a2 = {half(a.x), half(a.y), half(a.z)}, b2 = halved(b);
  if (2 * w > 3 * h) {
    a2 = halved(a);
    plane(c, p, a2, b);
    plane(c, plus(p, a2), minus(a, a2), b);
    return;
  }
  plane(c, p, b2, a2);
  plane(c, plus(p, b2), a, minus(b, b2));
  plane(c, plus(p, plus(minus(a, unit(a)), minus(b2, unit(b)))), back(b2), back(minus(a, a2)));
}

/* Blocks of one thin axis are planes. */
static bool flat(curve *k, vec p, vec a, vec b, vec c) {
  if (length(a) > 1 && length(b) > 1 && length(c) > 1) return false;
  if (length(c) == 1)
    plane(k, p, a, b);
  else if (length(b) == 1)
    plane(k, p, a, c);
  else if (length(b) >= length(c)) /* one step of a: from the corner round to its end */
    plane(k, p, b, c);
  else
    plane(k, p, c, b);
  return true;
}

static void space(curve *k, vec p, vec a, vec b, vec c) {
  int64_t w = length(a), h = length(b), d = length(c);
  if (flat(k, p, a, b, c)) return;
  vec a2 = halved(a), b2 = halved(b), c2 = halved(c), end = plus(p, minus(a, unit(a)));
  if (2 * w > 3 * h && 2 * w > 3 * d) {
    space(k, p, a2, b, c);
    space(k, plus(p, a2), minus(a, a2), b, c);
  } else if (3 * h > 4 * d) {
    space(k, p, b2, c, a2);
    space(k, plus(p, b2), a, minus(b, b2), c);
    space(k, plus(end, minus(b2, unit(b))), back(b2), c, back(minus(a, a2)));
  } else if (3 * d > 4 * h) {
    space(k, p, c2, a2, b);
    space(k, plus(p, c2), a, b, minus(c, c2));
    space(k, plus(end, minus(c2, unit(c))), back(c2), back(minus(a, a2)), b);
  } else {
    vec far = minus(c, unit(c)), low = minus(b2, unit(b));
    space(k, p, b2, c2, a2);
    space(k, plus(p, b2), c, a2, minus(b, b2));
    space(k, plus(p, plus(low, far)), a, back(b2), back(minus(c, c2)));
    space(k, plus(end, plus(b2, far)), back(c), back(minus(a, a2)), minus(b, b2));
    space(k, plus(end, low), back(b2), c2, back(minus(a, a2)));
  }
}

void vtb__path_hilbert(const vtb_grid *g, int64_t *at) {
  curve k = {g, at};
  vec o = {0, 0, 0}, x = {g->w, 0, 0}, y = {0, g->h, 0}, z = {0, 0, g->t};
  if (g->t == 1)
    plane(&k, o, g->w >= g->h ? x : y, g->w >= g->h ? y : x);
  else if (g->w >= g->h && g->w >= g->t)
    space(&k, o, x, y, z);
  else if (g->h >= g->t)
    space(&k, o, y, x, z);
  else
    space(&k, o, z, x, y);
}
