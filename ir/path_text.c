/* The text form of paths: parsing with bounds, canonical printing. */
#include "ir/path.h"

#include <inttypes.h>
#include <string.h>

#define MAX_SIDE (INT64_C(1) << 20)
#define MAX_LENGTH (INT64_C(1) << 24)

static const struct {
  const char *name;
  vtb_path path;
} named[] = {{"rows", {.order = VTB_PATH_NEST}},
             {"cols", {.order = VTB_PATH_NEST, .nest = "h"}},
             {"frames", {.order = VTB_PATH_NEST, .nest = "t"}},
             {"snake", {.order = VTB_PATH_NEST, .snake = true}},
             {"diagonal", {.order = VTB_PATH_DIAGONAL}},
             {"hilbert", {.order = VTB_PATH_HILBERT}}};
enum { N_NAMED = sizeof named / sizeof *named };

typedef struct reader {
  const char *what, *text, *at;
  vtb_error *err;
} reader;

static bool fail(reader *r, const char *what) {
  vtb_fail(r->err, VTB_E_INPUT, "%s \"%.200s\": %s", r->what, r->text, what);
  return false;
}

static bool take(reader *r, const char *word) {
  size_t n = strlen(word);
  if (strncmp(r->at, word, n) != 0) return false;
  r->at += n;
  return true;
}

static bool number(reader *r, int64_t limit, int64_t *out) {
  if (*r->at < '0' || *r->at > '9') return fail(r, "expected a number");
  int64_t v = 0;
  while (*r->at >= '0' && *r->at <= '9') {
    v = v * 10 + (*r->at++ - '0');
    if (v > limit) return fail(r, "a number is too large");
  }
  *out = v;
  return true;
}

static bool read_list(reader *r, vtb_path *p, int64_t *n_list) {
  VTB_VEC(int64_t) list = {0};
  int64_t v;
  bool good;
  do {
    good = number(r, MAX_LENGTH, &v);
    if (good) vtb_vec_push(&list, v);
  } while (good && take(r, ","));
  if (good && !take(r, "]")) good = fail(r, "expected ] after the list");
  if (good && list.n > (size_t)MAX_LENGTH) good = fail(r, "the list is too long");
  p->list = list.at;
  *n_list = (int64_t)list.n;
  return good;
}

/* A name, or the letters of axes: "wth". */
static bool read_name(reader *r, vtb_path *p) {
  for (int k = 0; k < N_NAMED; k++)
    if (take(r, named[k].name)) {
      *p = named[k].path;
      return true;
    }
  char text[VTB_GRID_AXES + 1] = {0};
  size_t n = strspn(r->at, "thw");
  memcpy(text, r->at, n > VTB_GRID_AXES ? 0 : n);
  if (!*text || !vtb_path_nest(p, text))
    return fail(r, "unknown order; orders are rows, cols, frames, snake, diagonal, hilbert, the "
                   "axes t, h, w from outside in, [i,j,...]");
  r->at += n;
  return true;
}

static bool read_order(reader *r, vtb_path *p, int64_t *n_list) {
  p->order = VTB_PATH_LIST;
  if (take(r, "[") ? !read_list(r, p, n_list) : !read_name(r, p)) return false;
  for (;;) {
    if (take(r, "~"))
      p->reversed = !p->reversed;
    else if (take(r, ".hflip"))
      p->hflip = !p->hflip;
    else if (take(r, ".vflip"))
      p->vflip = !p->vflip;
    else if (take(r, ".tflip"))
      p->tflip = !p->tflip;
    else if (p->order == VTB_PATH_NEST && take(r, ".snake"))
      p->snake = true;
    else
      return true;
  }
}

static bool read_extras(reader *r, vtb_path *p) {
  if (!take(r, "+")) return true;
  do {
    int64_t *field = take(r, "head=")   ? &p->head
                     : take(r, "mid=")  ? &p->mid
                     : take(r, "tail=") ? &p->tail
                     : take(r, "at=")   ? &p->at
                                        : NULL;
    if (!field) return fail(r, "expected head=, mid=, tail= or at=");
    if (!number(r, MAX_LENGTH, field)) return false;
  } while (take(r, ","));
  return true;
}

static bool check_list(reader *r, const vtb_path *p, int64_t n_list) {
  if (n_list != p->n) return fail(r, "the list does not name every position of the sequence once");
  bool *seen = vtb_xcalloc((size_t)p->n, sizeof *seen), good = true;
  for (int64_t i = 0; i < p->n && good; i++) {
    good = p->list[i] < p->n && !seen[p->list[i]];
    if (good) seen[p->list[i]] = true;
  }
  vtb_free(seen);
  return good || fail(r, "the list does not name every position of the sequence once");
}

static bool read_grid(reader *r, vtb_grid *g) {
  int64_t side[VTB_GRID_AXES];
  int rank = 0;
  do {
    if (rank == VTB_GRID_AXES) return fail(r, "a grid has at most three axes");
    if (!number(r, MAX_SIDE, &side[rank])) return false;
    if (!side[rank++]) return fail(r, "the grid is empty");
  } while (take(r, "x"));
  *g = vtb_grid_of(rank, side);
  return (double)g->t * (double)g->h * (double)g->w <= (double)MAX_LENGTH ||
         fail(r, "the sequence is too long");
}

static bool read_layout(reader *r, vtb_path *p) {
  if (!read_grid(r, &p->grid) || !read_extras(r, p)) return false;
  if (*r->at) return fail(r, "text after its end");
  int64_t cells = vtb_grid_cells(&p->grid);
  p->n = cells + p->head + p->mid + p->tail;
  if (p->n > MAX_LENGTH) return fail(r, "the sequence is too long");
  if (p->at > cells) return fail(r, "at= is beyond the grid");
  if (p->mid == 0) p->at = 0;
  return true;
}

static bool read_path(reader *r, vtb_path *p) {
  int64_t n_list = 0;
  if (!read_order(r, p, &n_list)) return false;
  if (!take(r, "@")) return fail(r, "expected @ and the grid");
  return read_layout(r, p) && (p->order != VTB_PATH_LIST || check_list(r, p, n_list));
}

vtb_status vtb_path_parse(const char *text, vtb_path *p, vtb_error *err) {
  vtb_path made = {0};
  reader r = {"path", text, text, err};
  if (!read_path(&r, &made)) {
    vtb_path_free(&made);
    *p = (vtb_path){0};
    return VTB_E_INPUT;
  }
  *p = made;
  return VTB_OK;
}

vtb_status vtb_layout_parse(const char *text, vtb_path *p, vtb_error *err) {
  reader r = {"layout", text, text, err};
  *p = (vtb_path){0};
  if (read_layout(&r, p)) return VTB_OK;
  *p = (vtb_path){0};
  return VTB_E_INPUT;
}

static void print_nest(const vtb_path *p, vtb_strbuf *out) {
  int axes[VTB_GRID_AXES];
  for (int k = 0; k < N_NAMED; k++)
    if (named[k].path.order == VTB_PATH_NEST && strcmp(named[k].path.nest, p->nest) == 0 &&
        (named[k].path.snake == p->snake || *p->nest)) {
      vtb_strbuf_puts(out, named[k].name);
      return;
    }
  vtb_path_axes(p, axes);
  for (int k = 0; k < VTB_GRID_AXES; k++) vtb_strbuf_putc(out, "thw"[axes[k]]);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Numbers with x between them, which may be 0. */
static bool read_shift(reader *r, int rank, int64_t *shift) {
  for (int k = VTB_GRID_AXES - rank; k < VTB_GRID_AXES; k++) {
    if (k > VTB_GRID_AXES - rank && !take(r, "x")) return fail(r, "expected a shift an axis");
    if (!number(r, MAX_SIDE, &shift[k])) return false;
  }
  return true;
}

static bool read_windows(reader *r, vtb_windows *w) {
  if (!read_grid(r, &w->window)) return false;
  if (!take(r, "/")) return fail(r, "expected / and the grid");
  if (!read_grid(r, &w->grid)) return false;
  if (w->window.rank != w->grid.rank) return fail(r, "windows have the axes of their grid");
  if (take(r, "-") && !read_shift(r, w->grid.rank, w->shift)) return false;
  return !*r->at || fail(r, "text after its end");
}

vtb_status vtb_windows_parse(const char *text, vtb_windows *w, vtb_error *err) {
  reader r = {"windows", text, text, err};
  vtb_windows made = {0};
  bool good = read_windows(&r, &made);
  *w = good ? made : (vtb_windows){0};
  return good ? VTB_OK : VTB_E_INPUT;
}

void vtb_windows_print(const vtb_windows *w, vtb_strbuf *out) {
  vtb_grid_print(&w->window, out);
  vtb_strbuf_putc(out, '/');
  vtb_grid_print(&w->grid, out);
  if (!(w->shift[0] | w->shift[1] | w->shift[2])) return;
  for (int k = VTB_GRID_AXES - w->grid.rank; k < VTB_GRID_AXES; k++)
    vtb_strbuf_printf(out, "%c%" PRId64, k == VTB_GRID_AXES - w->grid.rank ? '-' : 'x',
                      w->shift[k]);
}

/* ---- printing -------------------------------------------------------------------------------- */

void vtb_path_print_order(const vtb_path *p, vtb_strbuf *out) {
  if (p->order == VTB_PATH_NEST)
    print_nest(p, out);
  else
    vtb_strbuf_puts(out, p->order == VTB_PATH_LIST       ? "list"
                         : p->order == VTB_PATH_DIAGONAL ? "diagonal"
                                                         : "hilbert");
  vtb_strbuf_printf(out, "%s%s%s%s%s", p->snake && *p->nest ? ".snake" : "", p->reversed ? "~" : "",
                    p->hflip ? ".hflip" : "", p->vflip ? ".vflip" : "", p->tflip ? ".tflip" : "");
}

void vtb_path_print(const vtb_path *p, vtb_strbuf *out) {
  vtb_strbuf order = {0};
  vtb_path_print_order(p, &order);
  if (p->order == VTB_PATH_LIST)
    for (int64_t i = 0; i < p->n; i++)
      vtb_strbuf_printf(out, "%c%" PRId64 "%s", i ? ',' : '[', p->list[i], i + 1 < p->n ? "" : "]");
  vtb_strbuf_printf(out, "%s@", order.at + (p->order == VTB_PATH_LIST ? strlen("list") : 0));
  vtb_strbuf_free(&order);
  vtb_layout_print(p, out);
}

void vtb_layout_print(const vtb_path *p, vtb_strbuf *out) {
  vtb_grid_print(&p->grid, out);
  char sep = '+';
  const struct {
    const char *name;
    int64_t value;
  } extras[] = {{"head", p->head}, {"mid", p->mid}, {"tail", p->tail}, {"at", p->mid ? p->at : 0}};
  for (int i = 0; i < 4; i++) {
    if (!extras[i].value) continue;
    vtb_strbuf_printf(out, "%c%s=%" PRId64, sep, extras[i].name, extras[i].value);
    sep = ',';
  }
}
