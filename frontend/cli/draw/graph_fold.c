/* Blocks of a picture that repeat. */
#include "frontend/cli/draw/graph_fold.h"
#include "ir/ops.h"
#include "frontend/cli/draw/graph_label.h"
#include "ir/product.h"

#include <ctype.h>
#include <string.h>

enum { MOST_PERIOD = 12 };

/* ---- texts that are the same where units are ------------------------------------------------- */

static void put_type(vtb_strbuf *out, const vtb_type *t) {
  for (int d = 0; d < t->rank; d++) vtb_strbuf_printf(out, "%lld,", (long long)t->dim[d].size);
}

/* Ops and shapes; not the order that tokens are visited in. */
static void sign(const vtb_func *f, vtb_strbuf *out) {
  for (const vtb_inst *i = f->first; i; i = i->next) {
    vtb_strbuf_printf(out, "%s(%s", vtb_op_get(i->op)->name, vtb_einsum_text(i));
    for (int r = 0; r < i->n_results; r++) put_type(out, &i->results[r]->type);
    if (i->callee) sign(i->callee, out);
    vtb_strbuf_putc(out, ')');
  }
}

void graph_block_kind(const vtb_func *f, vtb_strbuf *out) {
  vtb_strbuf_puts(out, f->declared);
  for (const vtb_inst *i = f->first; i; i = i->next) {
    if (vtb_op_get(i->op)->klass == VTB_CLASS_SHAPE) continue;
    vtb_strbuf_printf(out, " %s", vtb_op_get(i->op)->name);
    if (i->op == VTB_OP_call) graph_block_kind(i->callee, out);
  }
}

/* Without the numbers in names. */
static char *key_of(const graph_unit *u) {
  vtb_strbuf s = {0}, title = {0};
  graph_lines lines = {0};
  graph_title(u, 0, &title);
  vtb_strbuf_printf(&s, "%d ", (int)u->kind);
  for (const char *c = vtb_strbuf_text(&title); *c; c++)
    if (!isdigit((unsigned char)*c)) vtb_strbuf_putc(&s, *c);
  if (u->kind == GRAPH_BLOCK) sign(u->main->callee, &s);
  if (u->type) put_type(&s, u->type);
  graph_describe(u, &lines);
  for (size_t i = 0; i < lines.n; i++) vtb_strbuf_printf(&s, "|%s", lines.at[i]);
  graph_lines_free(&lines);
  vtb_strbuf_free(&title);
  return s.at;
}

/* ---- repeats --------------------------------------------------------------------------------- */

typedef struct finder {
  const graph_part *part;
  graph_fold *fold;
  char **key; /* by place in the order */
} finder;

/* True if something goes from the units [a, a + n) to [b, b + n). */
static bool leads(const finder *f, int a, int b, int n) {
  for (size_t k = 0; k < f->part->edges.n; k++) {
    const graph_edge *e = &f->part->edges.at[k];
    bool from = false, to = false;
    for (int i = 0; i < n; i++) {
      from |= f->fold->order.at[a + i] == e->from;
      to |= f->fold->order.at[b + i] == e->to;
    }
    if (from && to) return true;
  }
  return false;
}

static bool same(const finder *f, int a, int b, int n) {
  for (int i = 0; i < n; i++)
    if (strcmp(f->key[a + i], f->key[b + i]) != 0) return false;
  return leads(f, a, b, n);
}

static int times_at(const finder *f, int at, int period) {
  int n = (int)f->fold->order.n, times = 1;
  while (at + (times + 1) * period <= n &&
         same(f, at + (times - 1) * period, at + times * period, period))
    times++;
  return times;
}

static graph_repeat best_at(const finder *f, int at) {
  graph_repeat best = {at, 1, 1};
  for (int period = 1; period <= MOST_PERIOD; period++) {
    int times = times_at(f, at, period);
    if (times > 1 && times * period > (best.times > 1 ? best.times * best.period : 1))
      best = (graph_repeat){at, period, times};
  }
  return best;
}

void graph_fold_find(graph_fold *out, const graph_part *p, bool fold) {
  *out = (graph_fold){.shown = vtb_xcalloc(p->units.n + 1, sizeof(int))};
  finder f = {.part = p, .fold = out};
  for (int i = 0; i < (int)p->units.n; i++) {
    out->shown[i] = p->units.at[i].gone ? -1 : i;
    if (!p->units.at[i].gone) vtb_vec_push(&out->order, i);
  }
  if (!fold) return;
  f.key = vtb_xcalloc(out->order.n + 1, sizeof *f.key);
  for (size_t i = 0; i < out->order.n; i++) f.key[i] = key_of(&p->units.at[out->order.at[i]]);
  for (int at = 0; at < (int)out->order.n;) {
    graph_repeat r = best_at(&f, at);
    if (r.times > 1) vtb_vec_push(&out->repeats, r);
    for (int i = 0; i < r.times * r.period; i++)
      out->shown[out->order.at[at + i]] = out->order.at[at + i % r.period];
    at += r.times * r.period;
  }
  for (size_t i = 0; i < out->order.n; i++) vtb_free(f.key[i]);
  vtb_free(f.key);
}

void graph_fold_free(graph_fold *f) {
  vtb_vec_free(&f->order);
  vtb_vec_free(&f->repeats);
  vtb_free(f->shown);
}

const graph_repeat *graph_fold_repeat(const graph_fold *f, int unit) {
  for (size_t i = 0; i < f->repeats.n; i++) {
    const graph_repeat *r = &f->repeats.at[i];
    for (int k = 0; k < r->period; k++)
      if (f->order.at[r->first + k] == unit) return r;
  }
  return NULL;
}
