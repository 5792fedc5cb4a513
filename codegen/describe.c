/* Descriptions of programs, written from modules: see describe.h. */
#include "codegen/describe.h"
#include "ir/ops.h"

static vtb_io input_io(vtb_role role) {
  switch (role) {
  case VTB_ROLE_PARAM:
    return VTB_IO_PARAM;
  case VTB_ROLE_BUFFER:
    return VTB_IO_BUFFER;
  case VTB_ROLE_GRAD:
    return VTB_IO_GRAD_IN;
  case VTB_ROLE_STATE:
    return VTB_IO_STATE;
  default:
    return VTB_IO_INPUT;
  }
}

/* A training step may change the argument of that name. */
static bool can_change(const vtb_func *f, const char *name) {
  for (int a = 0; a < f->n_args; a++) {
    vtb_role role = f->arg_info[a].role;
    bool kept = role == VTB_ROLE_PARAM || role == VTB_ROLE_BUFFER || role == VTB_ROLE_STATE;
    if (kept && vtb_streq(f->arg_info[a].official, name)) return true;
  }
  return false;
}

static vtb_io output_io(const vtb_func *f, const char *name) {
  if (vtb_starts_with(name, "d:")) return VTB_IO_GRAD_OUT;
  return vtb_starts_with(name, "updated.") && can_change(f, name + 8) ? VTB_IO_UPDATE
                                                                      : VTB_IO_OUTPUT;
}

static vtb_tensor_info tensor_of(const vtb_type *t, const char *name, vtb_io io, vtb_arena *arena) {
  vtb_tensor_info x = {.name = vtb_arena_strdup(arena, name),
                       .io = io,
                       .is_int = t->dtype == VTB_I32,
                       .rank = t->rank};
  for (int a = 0; a < t->rank; a++) x.dim[a] = t->dim[a].size;
  return x;
}

/* The ranks that sums of the functions reachable are over. */
static int ranks_of(const vtb_func *entry) {
  vtb_func **order;
  int ranks = 0;
  size_t n = vtb_module_post_order((vtb_func *)entry, &order);
  for (size_t i = 0; i < n; i++)
    for (const vtb_inst *k = order[i]->first; k; k = k->next)
      if (k->op == VTB_OP_sum_ranks) ranks = (int)vtb_attr_int(k, "ranks", 1);
  vtb_free(order);
  return ranks;
}

void vtb__describe_tensors(const vtb_func *f, vtb_program *p, vtb_arena *arena) {
  p->ranks = ranks_of(f);
  p->n_tensors = f->n_args + f->n_returns;
  p->tensors = VTB_NEW_ARRAY(arena, vtb_tensor_info, p->n_tensors + 1);
  for (int a = 0; a < f->n_args; a++) {
    const vtb_arg_info *info = &f->arg_info[a];
    vtb_tensor_info *x = &p->tensors[a];
    *x = tensor_of(&f->args[a]->type, info->official ? info->official : f->args[a]->name,
                   input_io(info->role), arena);
    x->init = info->init ? vtb_arena_strdup(arena, info->init) : NULL;
    x->decay = info->decay;
    if (x->io == VTB_IO_INPUT && x->rank > 0 && p->batch == 0) p->batch = x->dim[0];
  }
  for (int r = 0; r < f->n_returns; r++) {
    const char *name =
        f->return_names && f->return_names[r] ? f->return_names[r] : f->returns[r]->name;
    p->tensors[f->n_args + r] = tensor_of(&f->returns[r]->type, name, output_io(f, name), arena);
  }
  if (p->batch == 0) p->batch = 1;
}
