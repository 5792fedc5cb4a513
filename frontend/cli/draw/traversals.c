/* Collects the paths of a model's scans, block by block, and the windows of its attentions.
 * Attribute `path` is the order of a scan, `layout` the grid and the extra tokens that it goes
 * over, `windows` those of an attention. */
#include "frontend/cli/draw/traversals.h"
#include "ir/ops.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- orders ---------------------------------------------------------------------------------- */

/* Takes the grid of `layout` if one of its paths visits the order of *p, whose text may name it on
 * another grid: "rows~@1x196" and "rows~@14x14" are one order. */
static void lay_out(vtb_path *p, vtb_path layout) {
  for (int i = 0; i < 2; i++) {
    vtb_path q = layout;
    if (!i && p->order != VTB_PATH_LIST) {
      q.order = p->order, q.snake = p->snake;
      memcpy(q.nest, p->nest, sizeof q.nest);
      q.hflip = p->hflip, q.vflip = p->vflip, q.tflip = p->tflip;
    }
    q.reversed = i || p->reversed;
    if (!vtb_path_equal(p, &q)) continue;
    vtb_path_free(p);
    *p = q;
    return;
  }
}

static vtb_path order_of(const vtb_inst *scan, int64_t n) {
  const char *path = vtb_attr_str(scan, "path", NULL), *text = vtb_attr_str(scan, "layout", NULL);
  vtb_path p, layout;
  vtb_error err = {0};
  if (!path || vtb_path_parse(path, &p, &err) != VTB_OK) p = vtb_path_rows(vtb_grid_series(n));
  if (text && vtb_layout_parse(text, &layout, &err) == VTB_OK) lay_out(&p, layout);
  return p;
}

static bool same_windows(const vtb_windows *a, const vtb_windows *b) {
  return vtb_grid_equal(&a->window, &b->window) && vtb_grid_equal(&a->grid, &b->grid) &&
         memcmp(a->shift, b->shift, sizeof a->shift) == 0;
}

static bool same_path(const vtb_path *a, const vtb_path *b) {
  return vtb_grid_equal(&a->grid, &b->grid) && a->head == b->head && a->mid == b->mid &&
         a->at == b->at && vtb_path_equal(a, b);
}

static bool same_order(const traversal *a, const traversal *b) {
  return same_windows(&a->windows, &b->windows) && same_path(&a->path, &b->path);
}

void traversal_print(const traversal *t, vtb_strbuf *out) {
  if (t->windows.grid.rank) {
    vtb_strbuf_puts(out, "windows ");
    vtb_windows_print(&t->windows, out);
  } else {
    vtb_path_print(&t->path, out);
  }
}

/* The windows of an attention; false if it has none. */
static bool windows_of(const vtb_inst *inst, traversal *t) {
  const char *text = vtb_attr_str(inst, "windows", NULL);
  vtb_error err = {0};
  *t = (traversal){.on_grid = true};
  if (!text || vtb_windows_parse(text, &t->windows, &err) != VTB_OK) return false;
  t->path = vtb_path_rows(t->windows.grid);
  return true;
}

static traversal path_of(const vtb_inst *inst) {
  int first = (int)(inst->op == VTB_OP_recurrence ? vtb_attr_int(inst, "inits", 0)
                    : inst->op == VTB_OP_fold     ? vtb_attr_int(inst, "states", 0)
                                                  : 0);
  traversal t = {.path = order_of(inst, inst->operands[first]->type.dim[1].size)};
  t.on_grid = t.path.grid.t * t.path.grid.h > 1;
  return t;
}

static bool is_scan(vtb_op op) {
  return op == VTB_OP_linscan || op == VTB_OP_recurrence || op == VTB_OP_fold || op == VTB_OP_delta;
}

/* Adds the order of a scan or of an attention in windows. */
static void add_order(traversal_group *g, const vtb_inst *inst) {
  traversal t;
  if (is_scan(inst->op))
    t = path_of(inst);
  else if (!windows_of(inst, &t))
    return;
  for (size_t i = 0; i < g->orders.n; i++)
    if (same_order(&g->orders.at[i], &t)) {
      vtb_path_free(&t.path);
      return;
    }
  vtb_vec_push(&g->orders, t);
}

static void add_orders(traversal_group *g, const vtb_func *func, int depth) {
  for (const vtb_inst *inst = func->first; inst; inst = inst->next) {
    add_order(g, inst);
    if (inst->op == VTB_OP_call && depth < 64) add_orders(g, inst->callee, depth + 1);
  }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The module that a call stands in, "blocks.0". */
static char *block_name(const vtb_inst *call) {
  const char *scope = call->span.scope;
  return vtb_xstrdup(scope && *scope ? scope : call->callee->declared);
}

static bool same_orders(const traversal_group *a, const traversal_group *b) {
  if (a->orders.n != b->orders.n) return false;
  for (size_t i = 0; i < a->orders.n; i++)
    if (!same_order(&a->orders.at[i], &b->orders.at[i])) return false;
  return true;
}

static void group_free(traversal_group *g) {
  for (size_t i = 0; i < g->orders.n; i++) vtb_path_free(&g->orders.at[i].path);
  for (size_t i = 0; i < g->blocks.n; i++) vtb_free(g->blocks.at[i]);
  vtb_vec_free(&g->orders);
  vtb_vec_free(&g->blocks);
}

/* Takes g. */
static void add_group(traversals *t, traversal_group g, char *block) {
  for (size_t i = 0; i < t->groups.n; i++)
    if (g.orders.n && same_orders(&t->groups.at[i], &g)) {
      traversal_group *known = &t->groups.at[i];
      if (vtb_streq(known->blocks.at[known->blocks.n - 1], block))
        vtb_free(block); /* several in the model's own body */
      else
        vtb_vec_push(&known->blocks, block);
      group_free(&g);
      return;
    }
  vtb_vec_push(&g.blocks, block);
  if (g.orders.n)
    vtb_vec_push(&t->groups, g);
  else
    group_free(&g);
}

void traversals_find(const vtb_module *m, traversals *out) {
  *out = (traversals){0};
  for (const vtb_inst *inst = m->entry->first; inst; inst = inst->next) {
    traversal_group g = {0};
    if (inst->op == VTB_OP_call) {
      add_orders(&g, inst->callee, 0);
      add_group(out, g, block_name(inst));
    } else if (is_scan(inst->op) || vtb_attr_find(inst, "windows")) {
      add_order(&g, inst);
      add_group(out, g, vtb_xstrdup(m->entry->name));
    }
  }
}

void traversals_free(traversals *t) {
  for (size_t i = 0; i < t->groups.n; i++) group_free(&t->groups.at[i]);
  vtb_vec_free(&t->groups);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The last number in a name: its place, length and value. False if there is none. */
static bool last_number(const char *name, size_t *at, size_t *n, long *value) {
  size_t end = strlen(name);
  while (end && !isdigit((unsigned char)name[end - 1])) end--;
  size_t begin = end;
  while (begin && isdigit((unsigned char)name[begin - 1])) begin--;
  *at = begin, *n = end - begin;
  *value = strtol(name + begin, NULL, 10);
  return end > begin;
}

void traversals_print_blocks(const traversal_group *g, vtb_strbuf *out) {
  size_t at, n, at2, n2;
  long value, value2;
  for (size_t i = 0; i < g->blocks.n; i++) {
    const char *name = g->blocks.at[i];
    if (i) vtb_strbuf_puts(out, ", ");
    size_t run = i + 1;
    bool numbered = last_number(name, &at, &n, &value);
    for (; numbered && run < g->blocks.n; run++) {
      const char *next = g->blocks.at[run];
      if (!last_number(next, &at2, &n2, &value2) || at2 != at || strncmp(name, next, at) != 0 ||
          strcmp(name + at + n, next + at2 + n2) != 0)
        break;
    }
    if (run - i < 2) {
      vtb_strbuf_puts(out, name);
      continue;
    }
    vtb_strbuf_printf(out, "%.*s[", (int)at, name);
    for (size_t k = i; k < run; k++) {
      bool shown = run - i <= 5 || k < i + 2 || k + 1 == run;
      if (!shown && k > i + 2) continue;
      last_number(g->blocks.at[k], &at2, &n2, &value2);
      if (k > i) vtb_strbuf_puts(out, ", ");
      if (shown)
        vtb_strbuf_printf(out, "%ld", value2);
      else
        vtb_strbuf_puts(out, "...");
    }
    vtb_strbuf_printf(out, "]%s", name + at + n);
    i = run - 1;
  }
}
