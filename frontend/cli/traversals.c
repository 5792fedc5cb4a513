/* Collects the paths of a model's scans, block by block.
 *
 * A scan in storage order carries no path: its grid is found among the paths of other scans,
 * patches and convolutions that have its number of tokens, and extra tokens in the concat that put
 * them there. */
#include "frontend/cli/traversals.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct finder {
  const vtb_module *m;
  VTB_VEC(vtb_path) known; /* grids, in storage order */
} finder;

/* ---- grids ----------------------------------------------------------------------------------- */

static void learn(finder *f, vtb_path p) {
  p.order = VTB_PATH_ROWS;
  p.reversed = p.hflip = p.vflip = false;
  p.list = NULL;
  p.n = p.h * p.w + p.head + p.mid + p.tail;
  for (size_t i = 0; i < f->known.n; i++)
    if (f->known.at[i].n == p.n) return;
  vtb_vec_push(&f->known, p);
}

static void learn_grid(finder *f, int64_t h, int64_t w) {
  if (h > 1 && w > 0) learn(f, (vtb_path){.h = h, .w = w});
}

static const vtb_path *grid_of(const finder *f, int64_t n) {
  for (size_t i = 0; i < f->known.n; i++)
    if (f->known.at[i].n == n) return &f->known.at[i];
  return NULL;
}

static void learn_from(finder *f, const vtb_inst *inst) {
  int n;
  const char *text = vtb_attr_str(inst, "path", NULL);
  vtb_path p;
  vtb_error err = {0};
  if (text && vtb_path_parse(text, &p, &err) == VTB_OK) {
    if (p.h > 1) learn(f, p);
    vtb_path_free(&p);
  }
  const int64_t *grid = vtb_attr_ints(inst, "grid", &n);
  if (n == 2) learn_grid(f, grid[0], grid[1]);
  const int64_t *stride = vtb_attr_ints(inst, "stride", &n);
  if (inst->op != VTB_OP_im2col || n != 2) return;
  const int64_t *kernel = vtb_attr_ints(inst, "kernel", &n), *pad = vtb_attr_ints(inst, "pad", &n);
  const vtb_type *t = &inst->operands[0]->type;
  if (n != 4 || !kernel) return;
  learn_grid(f, (t->dim[2].size + pad[0] + pad[2] - kernel[0]) / stride[0] + 1,
             (t->dim[3].size + pad[1] + pad[3] - kernel[1]) / stride[1] + 1);
}

/* ---- extra tokens ---------------------------------------------------------------------------- */

/* Marks what the inputs reach. */
static bool *reached_by_inputs(const vtb_func *f) {
  bool *marked = vtb_xcalloc((size_t)f->n_values + 1, sizeof *marked);
  for (int i = 0; i < f->n_args; i++)
    marked[f->args[i]->id] = f->arg_info[i].role == VTB_ROLE_INPUT;
  for (const vtb_inst *inst = f->first; inst; inst = inst->next) {
    bool any = false;
    for (int i = 0; i < inst->n_operands; i++) any |= marked[inst->operands[i]->id];
    for (int i = 0; i < inst->n_results; i++) marked[inst->results[i]->id] = any;
  }
  return marked;
}

/* concat of patches and of tokens that no input reaches. */
static void learn_concat(finder *f, const vtb_inst *inst, const bool *marked) {
  if (inst->op != VTB_OP_concat || vtb_attr_int(inst, "axis", 0) != 1 ||
      inst->results[0]->type.rank < 2)
    return;
  int64_t patches = 0, head = 0, mid = 0, at = 0, tail = 0;
  for (int i = 0; i < inst->n_operands; i++) {
    int64_t n = inst->operands[i]->type.dim[1].size;
    if (marked[inst->operands[i]->id]) {
      if (tail) mid = tail, at = patches, tail = 0;
      patches += n;
    } else if (patches) {
      tail += n;
    } else {
      head += n;
    }
  }
  const vtb_path *grid = head + mid + tail ? grid_of(f, patches) : NULL;
  if (!grid || grid->head + grid->mid + grid->tail) return;
  learn(f,
        (vtb_path){.h = grid->h, .w = grid->w, .head = head, .mid = mid, .at = at, .tail = tail});
}

static void learn_all(finder *f, vtb_func **funcs, size_t n) {
  for (size_t i = 0; i < n; i++)
    for (const vtb_inst *inst = funcs[i]->first; inst; inst = inst->next) learn_from(f, inst);
  bool *marked = reached_by_inputs(f->m->entry);
  for (const vtb_inst *inst = f->m->entry->first; inst; inst = inst->next)
    learn_concat(f, inst, marked);
  vtb_free(marked);
}

/* ---- orders ---------------------------------------------------------------------------------- */

static vtb_path storage_order(const finder *f, int64_t n) {
  const vtb_path *grid = grid_of(f, n);
  vtb_path p = grid ? *grid : (vtb_path){.h = 1, .w = n, .n = n};
  p.n = n;
  return p;
}

static void add_order(const finder *f, traversal_group *g, const vtb_inst *inst) {
  int first = (int)(inst->op == VTB_OP_recurrence ? vtb_attr_int(inst, "inits", 0)
                    : inst->op == VTB_OP_fold     ? vtb_attr_int(inst, "states", 0)
                                                  : 0);
  const char *text = vtb_attr_str(inst, "path", NULL);
  traversal t = {0};
  vtb_error err = {0};
  if (!text || vtb_path_parse(text, &t.path, &err) != VTB_OK)
    t.path = storage_order(f, inst->operands[first]->type.dim[1].size);
  if (t.path.h == 1 && t.path.order == VTB_PATH_ROWS && !t.path.head && !t.path.mid &&
      !t.path.tail) {
    vtb_path p = storage_order(f, t.path.n); /* "rows~@1x196" of a grid that is known */
    p.reversed = t.path.reversed != t.path.hflip;
    if (p.h > 1) t.path = p;
  }
  t.on_grid = t.path.h > 1;
  for (size_t i = 0; i < g->orders.n; i++)
    if (vtb_path_equal(&g->orders.at[i].path, &t.path)) {
      vtb_path_free(&t.path);
      return;
    }
  vtb_vec_push(&g->orders, t);
}

static bool is_scan(vtb_op op) {
  return op == VTB_OP_linscan || op == VTB_OP_recurrence || op == VTB_OP_fold;
}

static void add_orders(const finder *f, traversal_group *g, const vtb_func *func, int depth) {
  for (const vtb_inst *inst = func->first; inst; inst = inst->next) {
    if (is_scan(inst->op)) add_order(f, g, inst);
    if (inst->op == VTB_OP_call && depth < 64) add_orders(f, g, inst->callee, depth + 1);
  }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* What the official names of a call's weights have in common, up to a dot. */
static char *block_name(const vtb_inst *call) {
  const char *common = NULL;
  size_t n = 0;
  for (int i = 0; i < call->n_operands; i++) {
    const vtb_value *v = call->operands[i];
    if (v->def || v->func->arg_info[v->index].role != VTB_ROLE_PARAM) continue;
    const char *name = v->func->arg_info[v->index].official;
    if (!common) common = name, n = strlen(name);
    for (size_t k = 0; k < n; k++)
      if (name[k] != common[k]) n = k;
  }
  while (n && common[n - 1] != '.') n--;
  char *name = vtb_xstrdup(n > 1 ? common : call->callee->name);
  if (n > 1) name[n - 1] = '\0';
  return name;
}

static bool same_orders(const traversal_group *a, const traversal_group *b) {
  if (a->orders.n != b->orders.n) return false;
  for (size_t i = 0; i < a->orders.n; i++)
    if (!vtb_path_equal(&a->orders.at[i].path, &b->orders.at[i].path)) return false;
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
      vtb_vec_push(&t->groups.at[i].blocks, block);
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
  finder f = {.m = m};
  vtb_func **funcs;
  size_t n = vtb_module_post_order(m->entry, &funcs);
  *out = (traversals){0};
  learn_all(&f, funcs, n);
  vtb_free(funcs);
  for (const vtb_inst *inst = m->entry->first; inst; inst = inst->next) {
    traversal_group g = {0};
    if (inst->op == VTB_OP_call) {
      add_orders(&f, &g, inst->callee, 0);
      add_group(out, g, block_name(inst));
    } else if (is_scan(inst->op)) {
      add_order(&f, &g, inst);
      add_group(out, g, vtb_xstrdup(m->entry->name));
    }
  }
  vtb_vec_free(&f.known);
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
