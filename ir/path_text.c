/* The text form of paths: parsing with bounds, canonical printing. */
#include "ir/path.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIDE (INT64_C(1) << 20)
#define MAX_LENGTH (INT64_C(1) << 24)

static const char *const order_names[] = {"rows", "cols", "snake", "diagonal", "hilbert"};

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

static bool read_order(reader *r, vtb_path *p, int64_t *n_list) {
  if (take(r, "[")) {
    p->order = VTB_PATH_LIST;
    if (!read_list(r, p, n_list)) return false;
  } else {
    int k = 0;
    while (k < VTB_PATH_LIST && !take(r, order_names[k])) k++;
    if (k == VTB_PATH_LIST)
      return fail(r, "unknown order; orders are rows, cols, snake, diagonal, hilbert, [i,j,...]");
    p->order = (vtb_path_order)k;
  }
  for (;;) {
    if (take(r, "~"))
      p->reversed = !p->reversed;
    else if (take(r, ".hflip"))
      p->hflip = !p->hflip;
    else if (take(r, ".vflip"))
      p->vflip = !p->vflip;
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

static bool read_layout(reader *r, vtb_path *p) {
  if (!number(r, MAX_SIDE, &p->h)) return false;
  if (!take(r, "x")) return fail(r, "expected HxW");
  if (!number(r, MAX_SIDE, &p->w) || !read_extras(r, p)) return false;
  if (*r->at) return fail(r, "text after its end");
  if (p->h < 1 || p->w < 1) return fail(r, "the grid is empty");
  p->n = p->h * p->w + p->head + p->mid + p->tail;
  if (p->n > MAX_LENGTH) return fail(r, "the sequence is too long");
  if (p->at > p->h * p->w) return fail(r, "at= is beyond the grid");
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

void vtb_path_print(const vtb_path *p, vtb_strbuf *out) {
  if (p->order == VTB_PATH_LIST) {
    for (int64_t i = 0; i < p->n; i++)
      vtb_strbuf_printf(out, "%c%" PRId64, i ? ',' : '[', p->list[i]);
    vtb_strbuf_putc(out, ']');
  } else {
    vtb_strbuf_puts(out, order_names[p->order]);
  }
  vtb_strbuf_printf(out, "%s%s%s@", p->reversed ? "~" : "", p->hflip ? ".hflip" : "",
                    p->vflip ? ".vflip" : "");
  vtb_layout_print(p, out);
}

void vtb_layout_print(const vtb_path *p, vtb_strbuf *out) {
  vtb_strbuf_printf(out, "%" PRId64 "x%" PRId64, p->h, p->w);
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
