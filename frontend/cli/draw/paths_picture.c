/* The picture of `vertebra paths`. */
#include "frontend/cli/draw/paths_picture.h"

#include "frontend/draw/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 24, GAP = 36, TITLE = 11, CAPTION = 8, LINE = 15, WIDEST = 1560 };
static const draw_colour ink = DRAW_RGB(0x333333), faint = DRAW_RGB(0xaab4c0),
                         cell_fill = DRAW_RGB(0xeef1f5), extra_fill = DRAW_RGB(0xf6c667),
                         start_fill = DRAW_RGB(0x2e933c), end_fill = DRAW_RGB(0x22252b),
                         forward_ink = DRAW_RGB(0x1f6fb4), reversed_ink = DRAW_RGB(0xd1495b);

/* Where the cells of a sequence stand: frames of rows of columns, the frames side by side, some in
 * a row; a sequence without a grid wraps into rows. Numbers are in cells. */
typedef struct board {
  int64_t columns, rows, frames, across;
  int64_t width, height;
} board;

typedef struct panel {
  picture *p;
  const vtb_path *path;
  double x, y, cell; /* of the grid's corner */
  board b;
} panel;

/* ---- places ---------------------------------------------------------------------------------- */

static board board_of(const traversal *t) {
  const vtb_grid *g = &t->path.grid;
  board b = {.columns = g->w, .rows = g->h, .frames = g->t, .across = 1};
  if (!t->on_grid) {
    if (g->w > 24) b.columns = (int64_t)ceil(sqrt((double)g->w));
    b.rows = (g->w + b.columns - 1) / b.columns;
  }
  int64_t least = INT64_MAX;
  for (int64_t across = 1; across <= b.frames; across++) { /* about twice as wide as high */
    int64_t width = across * (b.columns + 1) - 1,
            height = (b.frames + across - 1) / across * (b.rows + 1) - 1;
    int64_t size = width > 2 * height ? width : 2 * height;
    if (size < least) least = size, b.across = across, b.width = width, b.height = height;
  }
  return b;
}

static double cell_size(const board *b) {
  double most = (double)(b->width > b->height ? b->width : b->height), size = floor(340 / most);
  return size < 4 ? 4 : size > 34 ? 34 : size;
}

/* Room for extra tokens on either side, in pixels. */
static double side_room(const traversal *t, double cell) {
  const vtb_path *p = &t->path;
  int64_t left = p->head > p->mid ? p->head : p->mid, most = left > p->tail ? left : p->tail;
  return most ? cell * ((double)most + 1.2) : 0;
}

/* Column and row of a cell of the grid on the board. */
static void cell_place(const board *b, int64_t cell, int64_t *column, int64_t *row) {
  int64_t frame = cell / (b->rows * b->columns), in = cell % (b->rows * b->columns);
  if (b->frames == 1) frame = 0, in = cell;
  *column = frame % b->across * (b->columns + 1) + in % b->columns;
  *row = frame / b->across * (b->rows + 1) + in / b->columns;
}

/* Centre of a storage position; true if it is an extra token. Those stand left of the row they come
 * before, or right of the last row. */
static bool place_position(const panel *a, int64_t position, double *x, double *y) {
  const vtb_path *p = a->path;
  int64_t grid = vtb_grid_cells(&p->grid), i = position - p->head, row = 0, column = 0;
  double at;
  bool extra = true, mid = p->mid && i >= p->at && i < p->at + p->mid;
  if (i < 0) { /* head */
    at = (double)i - 0.2;
  } else if (mid) {
    cell_place(&a->b, p->at < grid ? p->at : grid - 1, &column, &row);
    at = (double)(i - p->at - p->mid) - 0.2;
  } else {
    if (p->mid && i >= p->at) i -= p->mid;
    extra = i >= grid;
    cell_place(&a->b, extra ? grid - 1 : i, &column, &row);
    at = extra ? (double)(a->b.width + i - grid) + 0.2 : (double)column;
  }
  *x = a->x + (at + 0.5) * a->cell;
  bool between = mid && p->at % a->b.columns; /* two rows */
  *y = a->y + ((double)row + (mid ? (between ? 1.0 : 0.0) : 0.5)) * a->cell;
  return extra;
}

/* ---- one direction --------------------------------------------------------------------------- */

/* The cell around (x, y), with a little paper between it and the next. */
static void draw_cell(const panel *a, double x, double y, draw_colour colour) {
  double half = a->cell / 2 - (a->cell > 8 ? 1 : 0.5);
  picture_rect(a->p, x - half, y - half, x + half, y + half, colour);
}

static void draw_cells(const panel *a) {
  double x, y;
  for (int64_t i = 0; i < a->path->n; i++) {
    bool extra = place_position(a, i, &x, &y);
    draw_cell(a, x, y, extra ? extra_fill : cell_fill);
  }
}

/* The number of a cell's window along axis k, three taking turns: 0, 1, 0, 1 ..., and 2 where the
 * last would be like the first beside it, round the end. */
static int window_turn(const vtb_windows *w, int k, int64_t at) {
  const int64_t side[VTB_GRID_AXES] = {w->grid.t, w->grid.h, w->grid.w},
                window[VTB_GRID_AXES] = {w->window.t, w->window.h, w->window.w};
  int64_t count = (side[k] + window[k] - 1) / window[k], whole = count * window[k];
  int64_t number = ((at - w->shift[k]) % whole + whole) % whole / window[k];
  return number == count - 1 && count % 2 && count > 1 ? 2 : (int)(number % 2);
}

/* Windows beside each other differ in colour; frames darken it. */
static draw_colour window_colour(const vtb_windows *w, int64_t cell) {
  static const uint32_t tints[3][3] = {{0xa9c9e8, 0xf2c9a1, 0xd9d2a8},
                                       {0xb5dfb8, 0xe3b5c9, 0xc3b8e0},
                                       {0x9fd5d1, 0xf0e0a0, 0xe8b0a0}};
  const vtb_grid *g = &w->grid;
  uint32_t c = tints[window_turn(w, 1, cell / g->w % g->h)][window_turn(w, 2, cell % g->w)],
           out = 0;
  int shade = 100 - 14 * window_turn(w, 0, cell / g->w / g->h);
  for (int byte = 0; byte < 24; byte += 8)
    out |= ((c >> byte & 255) * (uint32_t)shade / 100) << byte;
  return DRAW_RGB(out);
}

static void draw_windows(const panel *a, const vtb_windows *w) {
  double x, y;
  for (int64_t i = 0; i < a->path->n; i++) {
    place_position(a, i, &x, &y);
    draw_cell(a, x, y, window_colour(w, i));
  }
}

/* From a place to the same one in the next frame or the one before, which is no jump. */
static bool through_time(const vtb_path *p, int64_t from, int64_t to) {
  int64_t frame = p->grid.h * p->grid.w;
  return p->grid.t > 1 && p->n == vtb_grid_cells(&p->grid) && llabs(to - from) == frame;
}

/* A head of this length that points away from `from`, its tip at `to`. */
static void draw_head(picture *p, const double *from, const double *to, double size,
                      draw_colour colour) {
  double dx = to[0] - from[0], dy = to[1] - from[1], d = hypot(dx, dy);
  if (d < 1e-9) dx = 1, dy = 0, d = 1;
  dx *= size / d, dy *= size / d;
  draw_point at[] = {{to[0], to[1]},
                     {to[0] - dx - dy / 2, to[1] - dy + dx / 2},
                     {to[0] - dx + dy / 2, to[1] - dy - dx / 2}};
  picture_area(p, at, 3, colour, (pen){0});
}

static void draw_step(const panel *a, draw_colour colour, const double *from, const double *to,
                      bool arrow, bool jump) {
  double reach = fmax(fabs(to[0] - from[0]), fabs(to[1] - from[1])) / a->cell;
  if (jump) colour = faint;
  double size = jump || reach > 1.75 ? 1 : a->cell > 12 ? 2 : 1.4;
  picture_line(a->p, from[0], from[1], to[0], to[1],
               (pen){colour, size, jump ? DASH_EVEN : DASH_NONE, 0});
  if (!arrow) return;
  double head = a->cell * 0.34, t = jump ? 0.5 : 0.5 + head / (2 * fmax(reach * a->cell, 1));
  double tip[] = {from[0] + t * (to[0] - from[0]), from[1] + t * (to[1] - from[1])};
  draw_head(a->p, from, tip, head, colour);
}

static void draw_path(const panel *a) {
  int64_t n = a->path->n, *perm = vtb_xcalloc((size_t)n, sizeof *perm);
  draw_colour colour = a->path->reversed ? reversed_ink : forward_ink;
  double at[2], next[2];
  vtb_path_indices(a->path, perm);
  for (int pass = 0; pass < 2; pass++) { /* jumps beneath, steps above */
    for (int64_t t = 0; t + 1 < n; t++) {
      place_position(a, perm[t], &at[0], &at[1]);
      place_position(a, perm[t + 1], &next[0], &next[1]);
      bool jump = fmax(fabs(next[0] - at[0]), fabs(next[1] - at[1])) > 1.75 * a->cell &&
                  !through_time(a->path, perm[t], perm[t + 1]);
      if (jump == (pass == 0))
        draw_step(a, colour, at, next, a->cell >= 14 || (jump && a->cell >= 8) || t % 4 == 1, jump);
    }
  }
  double mark = fmax(a->cell * 0.24, 2.5);
  place_position(a, perm[n - 1], &at[0], &at[1]);
  picture_rect(a->p, at[0] - mark, at[1] - mark, at[0] + mark, at[1] + mark, end_fill);
  place_position(a, perm[0], &at[0], &at[1]);
  picture_disc(a->p, at[0], at[1], mark * 1.2, start_fill, (pen){0});
  vtb_free(perm);
}

/* "cols.hflip~ 14x14, reversed", "sequence of 33, forward". */
static void caption(const traversal *t, vtb_strbuf *out) {
  const vtb_path *p = &t->path;
  if (t->windows.grid.rank) {
    traversal_print(t, out);
    return;
  }
  if (t->on_grid) {
    vtb_path_print_order(p, out);
    vtb_strbuf_putc(out, ' ');
    vtb_grid_print(&p->grid, out);
  } else {
    vtb_strbuf_printf(out, "sequence of %lld", (long long)p->n);
  }
  vtb_strbuf_printf(out, ", %s", p->reversed ? "reversed" : "forward");
  int64_t extra = p->head + p->mid + p->tail;
  if (extra) vtb_strbuf_printf(out, ", %lld extra", (long long)extra);
}

/* As wide as it is measured, whatever font shows it. */
static void text(picture *p, double x, double y, double size, draw_colour colour, const char *s) {
  picture_text(p, x, y, (lettering){.size = size, .colour = colour, .fitted = true}, s);
}

static double traversal_width(const traversal *t) {
  board b = board_of(t);
  double cell = cell_size(&b);
  vtb_strbuf s = {0};
  caption(t, &s);
  double width =
      fmax(2 * side_room(t, cell) + cell * (double)b.width, canvas_text_width(s.at, CAPTION));
  vtb_strbuf_free(&s);
  return width;
}

static void draw_traversal(picture *p, const traversal *t, double x, double y, double *bottom) {
  board b = board_of(t);
  double cell = cell_size(&b), room = side_room(t, cell);
  vtb_strbuf s = {0};
  panel a = {.p = p, .path = &t->path, .x = x + room, .y = y + CAPTION + 10, .cell = cell, .b = b};
  caption(t, &s);
  text(p, x, y + CAPTION, CAPTION, t->path.reversed ? reversed_ink : forward_ink, s.at);
  if (t->windows.grid.rank) {
    draw_windows(&a, &t->windows);
  } else {
    draw_cells(&a);
    draw_path(&a);
  }
  *bottom = fmax(*bottom, a.y + cell * (double)b.height);
  vtb_strbuf_free(&s);
}

/* ---- the picture ----------------------------------------------------------------------------- */

/* The text of a sign that takes so many pixels; returns where the next one begins. */
static double legend_text(picture *p, double x, double y, double sign, const char *s) {
  text(p, x + sign, y, CAPTION, ink, s);
  return x + sign + canvas_text_width(s, CAPTION) + 20;
}

static double legend(picture *p, double x, double y) {
  picture_disc(p, x + 5, y - 4, 5, start_fill, (pen){0});
  x = legend_text(p, x, y, 16, "first token");
  picture_rect(p, x, y - 8, x + 8, y, end_fill);
  x = legend_text(p, x, y, 16, "last");
  picture_rect(p, x, y - 9, x + 10, y + 1, extra_fill);
  x = legend_text(p, x, y, 16, "extra token");
  picture_line(p, x, y - 4, x + 22, y - 4, (pen){faint, 1, DASH_EVEN, 0});
  return legend_text(p, x, y, 30, "jump") - 20;
}

/* The blocks that read alike, broken at blanks; draws them with a picture and counts the lines. */
static int title_of(picture *p, const traversal_group *g, double x, double y, double width) {
  vtb_strbuf s = {0};
  int lines = 0;
  traversals_print_blocks(g, &s);
  if (g->blocks.n > 1) vtb_strbuf_printf(&s, "  (%zu blocks)", g->blocks.n);
  for (char *at = s.at; *at; lines++) {
    size_t n = canvas_text_fit(at, CAPTION + 1, width), cut = n;
    while (at[n] && cut > 0 && at[cut] != ' ') cut--;
    if (at[n] && cut > 0) n = cut;
    if (n == 0) n = strlen(at);
    char after = at[n];
    at[n] = 0;
    if (p) text(p, x, y + lines * LINE, CAPTION + 1, ink, at);
    at[n] = after;
    at += n;
    while (*at == ' ') at++;
  }
  vtb_strbuf_free(&s);
  return lines;
}

/* The width of a group's grids side by side, as many as the picture may be wide. */
static double group_width(const traversal_group *g) {
  double row = 0, most = 0;
  for (size_t k = 0; k < g->orders.n; k++) {
    double width = traversal_width(&g->orders.at[k]);
    if (row > 0 && row + GAP + width > WIDEST) row = 0;
    row += (row > 0 ? GAP : 0) + width;
    most = fmax(most, row);
  }
  return fmax(most, 240);
}

/* A group's title of `lines` lines and its grids below it. */
static void draw_group(picture *p, const traversal_group *g, double x, double y, int lines,
                       double *bottom) {
  double from = x, below = y + lines * LINE;
  title_of(p, g, x, y, group_width(g));
  y = below;
  for (size_t k = 0; k < g->orders.n; k++) {
    double width = traversal_width(&g->orders.at[k]);
    if (x > from && x - from + width > WIDEST) x = from, y = below + GAP;
    draw_traversal(p, &g->orders.at[k], x, y, &below);
    x += width + GAP;
  }
  *bottom = fmax(*bottom, below);
}

void paths_draw(picture *p, const char *model, const traversals *t) {
  double y = MARGIN + TITLE, right = MARGIN + canvas_text_width(model, TITLE);
  text(p, MARGIN, y, TITLE, ink, model);
  y += GAP;
  for (size_t i = 0, next; i < t->groups.n; i = next) {
    double x = 0, bottom = y;
    int lines = 1;
    for (next = i; next < t->groups.n; next++) {
      const traversal_group *g = &t->groups.at[next];
      double width = group_width(g);
      if (next > i && x + width > WIDEST) break;
      int n = title_of(NULL, g, 0, 0, width);
      x += width + GAP;
      if (n > lines) lines = n;
    }
    x = MARGIN;
    for (size_t k = i; k < next; k++) {
      draw_group(p, &t->groups.at[k], x, y, lines, &bottom);
      x += group_width(&t->groups.at[k]) + GAP;
    }
    right = fmax(right, x - GAP);
    y = bottom + GAP;
  }
  right = fmax(right, legend(p, MARGIN, y));
  p->width = (int)ceil(right) + MARGIN;
  p->height = (int)ceil(y) + MARGIN;
}
