/* Lines of a measure against a number of cells. */
#include "frontend/report/lines.h"

#include <math.h>
#include <string.h>

double ln_x(const rp_cell *c, ln_across across) {
  return across == LN_TOKENS ? c->tokens : c->chunk;
}

/* ---- which cells are a line ------------------------------------------------------------------ */

/* Two cells that differ in the axis alone have other values of x. */
static bool moves_x(const rp_report *r, ln_across across, size_t axis) {
  const char *name = r->axes.at[axis].name;
  return across == LN_TOKENS ? r->axes.at[axis].resizes
                             : strcmp(name, "chunk") == 0 || strcmp(name, "mode") == 0;
}

/* True if two values are one but for x: "chunkwise(16)" and "chunkwise(64)" share a line across
 * chunks, "parallel" has none. */
static bool same_word(const rp_axis *a, int i, int k) {
  if (i < 0 || k < 0) return i == k;
  const char *v = a->values.at[i], *w = a->values.at[k];
  size_t n = strcspn(v, "(");
  return n == strcspn(w, "(") && strncmp(v, w, n) == 0;
}

static bool same_line(const rp_report *r, ln_across across, const bool *moves, const rp_cell *a,
                      const rp_cell *b) {
  for (size_t i = 0; i < r->axes.n; i++) {
    const rp_axis *axis = &r->axes.at[i];
    if (a->value[i] == b->value[i]) continue;
    if (!moves[i]) return false;
    if (across == LN_CHUNK && strcmp(axis->name, "mode") == 0 &&
        !same_word(axis, a->value[i], b->value[i]))
      return false;
  }
  return true;
}

bool ln_is_auto(const rp_report *r, const rp_cell *c) {
  for (size_t i = 0; i < r->axes.n; i++)
    if (strcmp(r->axes.at[i].name, "mode") == 0 && c->value[i] >= 0 &&
        strcmp(r->axes.at[i].values.at[c->value[i]], "auto") == 0)
      return true;
  return false;
}

/* The label of a line: values of the axes that vary and do not move x. */
static char *label_of(const rp_report *r, const bool *moves, const rp_cell *c) {
  vtb_strbuf s = {0};
  for (size_t i = 0; i < r->axes.n; i++) {
    const rp_axis *a = &r->axes.at[i];
    if (moves[i] || !a->varies || c->value[i] < 0) continue;
    const char *v = a->values.at[c->value[i]];
    bool bare = strspn(v, "0123456789.+-eE") == strlen(v) || strcmp(v, "true") == 0 ||
                strcmp(v, "false") == 0;
    vtb_strbuf_printf(&s, "%s%s%s%s", s.n ? ", " : "", bare ? a->name : "", bare ? " " : "", v);
  }
  if (!s.n) vtb_strbuf_puts(&s, study_text_of(r->study, "model"));
  char *label = vtb_xstrdup(vtb_strbuf_text(&s));
  vtb_strbuf_free(&s);
  return label;
}

/* ---- collecting ------------------------------------------------------------------------------ */

static ln_line *line_of(const rp_report *r, ln_across across, const bool *moves, const rp_cell *c,
                        ln_lines *lines) {
  for (size_t i = 0; i < lines->n; i++)
    if (same_line(r, across, moves, lines->at[i].cells.at[0], c)) return &lines->at[i];
  ln_line line = {.label = label_of(r, moves, c), .chooses = ln_is_auto(r, c)};
  vtb_vec_push(lines, line);
  return &lines->at[lines->n - 1];
}

/* Into its place by x; of two cells with the same x the first stays. */
static void insert(ln_line *l, ln_across across, const rp_cell *c) {
  size_t at = l->cells.n;
  double x = ln_x(c, across);
  while (at > 0 && ln_x(l->cells.at[at - 1], across) > x) at--;
  if (at > 0 && ln_x(l->cells.at[at - 1], across) == x) return;
  vtb_vec_push(&l->cells, c);
  memmove(&l->cells.at[at + 1], &l->cells.at[at], (l->cells.n - 1 - at) * sizeof *l->cells.at);
  l->cells.at[at] = c;
}

static void drop_short(ln_lines *lines) {
  size_t n = 0;
  for (size_t i = 0; i < lines->n; i++)
    if (lines->at[i].cells.n > 1) {
      lines->at[n++] = lines->at[i];
    } else {
      vtb_free(lines->at[i].label);
      vtb_vec_free(&lines->at[i].cells);
    }
  lines->n = n;
}

void ln_collect(const rp_report *r, ln_across across, rp_measure m, ln_lines *lines) {
  bool *moves = vtb_xcalloc(r->axes.n + 1, sizeof *moves);
  for (size_t i = 0; i < r->axes.n; i++) moves[i] = moves_x(r, across, i);
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (ln_x(c, across) > 0 && c->mean[m] > 0)
      insert(line_of(r, across, moves, c, lines), across, c);
  }
  vtb_free(moves);
  drop_short(lines);
}

void ln_free(ln_lines *lines) {
  for (size_t i = 0; i < lines->n; i++) {
    vtb_free(lines->at[i].label);
    vtb_vec_free(&lines->at[i].cells);
  }
  vtb_vec_free(lines);
}

/* ---- crossings ------------------------------------------------------------------------------- */

static const rp_cell *cell_at(const ln_line *l, ln_across across, double x) {
  for (size_t i = 0; i < l->cells.n; i++)
    if (ln_x(l->cells.at[i], across) == x) return l->cells.at[i];
  return NULL;
}

/* The best line at x; ties go to the one that was. lines->n: none is there. */
static size_t best_at(const rp_report *r, ln_across across, rp_measure m, const ln_lines *lines,
                      double x, size_t was) {
  size_t best = was < lines->n && cell_at(&lines->at[was], across, x) ? was : lines->n;
  for (size_t i = 0; i < lines->n; i++) {
    const rp_cell *c = lines->at[i].chooses ? NULL : cell_at(&lines->at[i], across, x);
    const rp_cell *d = best < lines->n ? cell_at(&lines->at[best], across, x) : NULL;
    if (!c) continue;
    bool ahead = d && rp_direction(r, m) * (c->mean[m] - d->mean[m]) > 0;
    if (!d || (best == was ? rp_beats(r, m, c, d) : ahead)) best = i;
  }
  return best;
}

/* Where two lines meet between x and the next x, on logarithmic axes. */
static void meet(ln_across across, rp_measure m, const ln_line *from, const ln_line *to, double low,
                 double high, ln_crossing *c) {
  const rp_cell *a = cell_at(from, across, low), *b = cell_at(from, across, high);
  const rp_cell *p = cell_at(to, across, low), *q = cell_at(to, across, high);
  c->x = high;
  c->y = q->mean[m];
  if (!a || !b || !p) return;
  double before = log(p->mean[m] / a->mean[m]), after = log(q->mean[m] / b->mean[m]);
  double part = before / (before - after);
  if (!(part >= 0 && part <= 1)) return;
  c->x = low * pow(high / low, part);
  c->y = a->mean[m] * pow(b->mean[m] / a->mean[m], part);
}

static double next_x(ln_across across, const ln_lines *lines, double after) {
  double next = INFINITY;
  for (size_t i = 0; i < lines->n; i++)
    for (size_t k = 0; k < lines->at[i].cells.n; k++) {
      double x = ln_x(lines->at[i].cells.at[k], across);
      if (x > after && x < next) next = x;
    }
  return next;
}

/* Across chunks two lines may be of images of two sizes: neither is better. */
static bool same_sizes(const rp_report *r, const ln_lines *lines, ln_across across) {
  if (across == LN_TOKENS) return true;
  for (size_t i = 0; i < r->axes.n; i++)
    for (size_t k = 1; k < lines->n; k++)
      if (r->axes.at[i].resizes &&
          lines->at[k].cells.at[0]->value[i] != lines->at[0].cells.at[0]->value[i])
        return false;
  return true;
}

/* True if the one is told to be better than the other at a place up to x. */
static bool ever_beats(const rp_report *r, ln_across across, rp_measure m, const ln_line *one,
                       const ln_line *other, double x) {
  for (size_t i = 0; i < one->cells.n; i++) {
    const rp_cell *a = one->cells.at[i], *b = cell_at(other, across, ln_x(a, across));
    if (b && ln_x(a, across) <= x && rp_beats(r, m, a, b)) return true;
  }
  return false;
}

bool ln_cross(const rp_report *r, ln_across across, rp_measure m, const ln_lines *lines,
              ln_crossings *found, size_t *first) {
  size_t best = lines->n, others = 0;
  double last = 0;
  if (!same_sizes(r, lines, across)) return false;
  for (size_t i = 0; i < lines->n; i++) others += !lines->at[i].chooses;
  for (double x = next_x(across, lines, 0); isfinite(x); x = next_x(across, lines, x)) {
    size_t now = best_at(r, across, m, lines, x, best);
    if (now == lines->n) continue;
    if (best == lines->n) {
      *first = now;
    } else if (now != best && !ever_beats(r, across, m, &lines->at[best], &lines->at[now], last)) {
      *(found->n ? &found->at[found->n - 1].to : first) = now; /* they were level before */
    } else if (now != best) {
      ln_crossing c = {.from = best, .to = now};
      meet(across, m, &lines->at[best], &lines->at[now], last, x, &c);
      vtb_vec_push(found, c);
    }
    best = now;
    last = x;
  }
  return best != lines->n && others > 1;
}

ln_lead ln_lead_of(const rp_report *r, ln_across across, rp_measure m, const ln_lines *lines,
                   size_t best) {
  size_t beaten = 0, level = 0;
  for (size_t i = 0; i < lines->n; i++) {
    if (i == best || lines->at[i].chooses) continue;
    for (size_t k = 0; k < lines->at[i].cells.n; k++) {
      const rp_cell *c = lines->at[i].cells.at[k];
      const rp_cell *b = cell_at(&lines->at[best], across, ln_x(c, across));
      if (!b) continue;
      *(rp_beats(r, m, b, c) ? &beaten : &level) += 1;
    }
  }
  return !beaten ? LN_LEVEL : level ? LN_SHARES : LN_LEADS;
}
