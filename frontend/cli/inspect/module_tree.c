/* A model as a tree of modules. */
#include "frontend/cli/inspect/module_tree.h"
#include "ir/ops.h"

#include <string.h>

typedef struct builder {
  module_node *root;
  vtb_arena *arena;
} builder;

static module_node *child(builder *b, module_node *of, const char *name, size_t n) {
  for (module_node *c = of->first; c; c = c->next)
    if (strlen(c->name) == n && strncmp(c->name, name, n) == 0) return c;
  module_node *c = VTB_NEW(b->arena, module_node);
  c->name = vtb_arena_strndup(b->arena, name, n);
  c->kind = "";
  if (of->last)
    of->last->next = c;
  else
    of->first = c;
  return of->last = c;
}

/* The modules of a dotted path below `from`, the outermost first, `from` before them. */
typedef VTB_VEC(module_node *) node_list;

static void enter(builder *b, node_list *path, const char *scope) {
  for (const char *part = scope ? scope : ""; *part;) {
    size_t n = strcspn(part, ".");
    module_node *next = child(b, path->at[path->n - 1], part, n);
    vtb_vec_push(path, next);
    part += n + (part[n] == '.');
  }
}

static double result_bytes(const vtb_inst *i) {
  double sum = 0;
  for (int r = 0; r < i->n_results; r++) sum += (double)vtb_type_bytes(&i->results[r]->type);
  return sum;
}

static bool is_layer(const vtb_inst *i) {
  return vtb_op_get(i->op)->klass == VTB_CLASS_STRUCTURED || i->op == VTB_OP_fold;
}

static void add_instruction(const node_list *path, const vtb_inst *i) {
  vtb_published_macs macs = vtb_inst_published_macs(i);
  double flops = vtb_inst_cost(i, 1).flops;
  for (size_t k = 0; k < path->n; k++) {
    module_node *n = path->at[k];
    n->flops += flops;
    n->layer_macs += macs.layers;
    n->mixer_macs += macs.mixers;
    n->bytes += is_layer(i) ? result_bytes(i) : 0;
    if (i->n_results) n->output = &i->results[0]->type;
  }
  module_node *own = path->at[path->n - 1];
  if (is_layer(i)) own->kind = vtb_op_get(i->op)->name;
}

static void add_function(builder *b, const vtb_func *f, node_list *path) {
  for (const vtb_inst *i = f->first; i; i = i->next) {
    if (vtb_op_get(i->op)->klass == VTB_CLASS_CONTROL && i->op != VTB_OP_call && !is_layer(i))
      continue;
    size_t depth = path->n;
    enter(b, path, i->span.scope);
    if (i->op == VTB_OP_call) {
      if (path->n > depth) path->at[path->n - 1]->kind = i->callee->name;
      add_function(b, i->callee, path);
    } else {
      add_instruction(path, i);
    }
    path->n = depth;
  }
}

static void add_parameter(builder *b, node_list *path, const vtb_arg_info *info, int64_t count) {
  const char *dot = strrchr(info->official, '.');
  if (dot)
    enter(b, path, vtb_arena_strndup(b->arena, info->official, (size_t)(dot - info->official)));
  for (size_t k = 0; k < path->n; k++) {
    path->at[k]->parameters += count;
    if (info->frozen) path->at[k]->frozen += count;
  }
  path->n = 1;
}

module_node *module_tree(const vtb_func *entry, vtb_arena *arena) {
  builder b = {.root = VTB_NEW(arena, module_node), .arena = arena};
  node_list path = {0};
  b.root->name = entry->name;
  b.root->kind = "";
  vtb_vec_push(&path, b.root);
  add_function(&b, entry, &path);
  for (int a = 0; a < entry->n_args; a++) {
    const vtb_arg_info *info = &entry->arg_info[a];
    if (info->role == VTB_ROLE_PARAM || info->frozen)
      add_parameter(&b, &path, info, vtb_type_count(&entry->args[a]->type));
  }
  vtb_vec_free(&path);
  if (entry->n_returns) b.root->output = &entry->returns[0]->type;
  return b.root;
}
