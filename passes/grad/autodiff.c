/* Reverse mode over a call graph.
 *
 * before   func @f(%x, %w) -> y                       entry @main calls @f for every block
 * after    func @f_fwd(%x, %w) -> (y, saved...)
 *          func @f_bwd(%x, %w, saved..., %d_y) -> (d_x, d_w)
 *          func @main_grad(args..., %d_out) -> (outs..., adjoints)      with both halves inline
 *
 * 1. bottom up: which returns of a function depend on which args through a derivative
 * 2. top down: which args want an adjoint and which returns have one, united over all call sites
 * 3. bottom up: a joint function (forward, then adjoints in reverse), split in two by
 *    autodiff_split.c
 *
 * A site that has no adjoint for one of the united returns passes zeros; one that does not want an
 * adjoint drops it. Of calls of the entry that are recomputed nothing is kept: their backward is
 *   func @f_again(%x, %w, %d_y) -> (d_x, d_w)       which calls @f_fwd, then @f_bwd
 */
#include "passes/grad/autodiff.h"

#include "ir/scalar.h"

#include <string.h>

/* ---- what depends on what -------------------------------------------------------------------- */

static vtb__grad_rule grad_rule_of(vtb_op op) {
  static const vtb__grad_rule rules[] = {
#define VTB_OP(name, klass, min, max, shape, interp, grad, ...) vtb__grad_##grad,
#include "ir/ops.def"
#undef VTB_OP
  };
  return rules[op];
}

/* False where a change of operand k never reaches the result through a derivative. */
static bool grad_passes(const vtb_inst *inst, int k) {
  if (grad_rule_of(inst->op) == vtb__grad_zero) return false;
  const vtb_scalar *s = vtb_scalar_get(inst->op);
  if (s && s->adjoint[k] < 0) return false;
  return inst->operands[k]->type.dtype == VTB_F32;
}

static vtb__ad_func *ad_find(vtb__ad *ad, const vtb_func *f) {
  for (size_t i = 0; i < ad->n_funcs; i++)
    if (ad->funcs[i].func == f) return &ad->funcs[i];
  return NULL;
}

static bool return_depends(const vtb__ad_func *fi, int ret, int arg) {
  return fi->deps[ret * fi->n_words + arg / 64] >> (arg % 64) & 1;
}

/* Result r of a call can carry a derivative of operand k; for other ops any result of any
 * operand. */
static bool inst_passes(vtb__ad *ad, const vtb_inst *inst, int k, int r) {
  if (ad->values) return inst->op != VTB_OP_call || return_depends(ad_find(ad, inst->callee), r, k);
  if (inst->results[r]->type.dtype != VTB_F32 || !grad_passes(inst, k)) return false;
  return inst->op != VTB_OP_call || return_depends(ad_find(ad, inst->callee), r, k);
}

static void find_deps(vtb__ad *ad, vtb__ad_func *fi) {
  vtb_func *f = fi->func;
  size_t words = (size_t)fi->n_words;
  uint64_t *row = VTB_SCRATCH(f, uint64_t, (size_t)f->n_values * words);
  for (int i = 0; i < f->n_args; i++)
    if (f->args[i]->type.dtype == VTB_F32)
      row[(size_t)f->args[i]->id * words + (size_t)i / 64] |= UINT64_C(1) << (i % 64);
  for (vtb_inst *inst = f->first; inst; inst = inst->next)
    for (int r = 0; r < inst->n_results; r++)
      for (int k = 0; k < inst->n_operands; k++)
        if (inst_passes(ad, inst, k, r))
          for (size_t w = 0; w < words; w++)
            row[(size_t)inst->results[r]->id * words + w] |=
                row[(size_t)inst->operands[k]->id * words + w];
  fi->deps = VTB_SCRATCH(ad, uint64_t, (size_t)f->n_returns * words);
  for (int r = 0; r < f->n_returns; r++)
    memcpy(fi->deps + (size_t)r * words, row + (size_t)f->returns[r]->id * words,
           words * sizeof *row);
}

/* By value id: the value depends on a wanted arg and a live return depends on it. */
static bool *find_active(vtb__ad *ad, const vtb__ad_func *fi) {
  vtb_func *f = fi->func;
  bool *varies = VTB_SCRATCH(f, bool, f->n_values);
  bool *useful = VTB_SCRATCH(f, bool, f->n_values);
  for (int i = 0; i < f->n_args; i++)
    varies[f->args[i]->id] = fi->wanted[i] && f->args[i]->type.dtype == VTB_F32;
  for (int r = 0; r < f->n_returns; r++) useful[f->returns[r]->id] |= fi->live[r];
  for (vtb_inst *inst = f->first; inst; inst = inst->next)
    for (int r = 0; r < inst->n_results; r++)
      for (int k = 0; k < inst->n_operands; k++)
        if (varies[inst->operands[k]->id] && inst_passes(ad, inst, k, r))
          varies[inst->results[r]->id] = true;
  for (vtb_inst *inst = f->last; inst; inst = inst->prev)
    for (int r = 0; r < inst->n_results; r++)
      for (int k = 0; k < inst->n_operands; k++)
        if (useful[inst->results[r]->id] && inst_passes(ad, inst, k, r))
          useful[inst->operands[k]->id] = true;
  for (int v = 0; v < f->n_values; v++) varies[v] &= useful[v];
  return varies;
}

/* Adds what the calls in `fi` need to the sets of their callees. */
static void ask_callees(vtb__ad *ad, const vtb__ad_func *fi) {
  bool *active = find_active(ad, fi);
  for (vtb_inst *inst = fi->func->first; inst; inst = inst->next) {
    if (inst->op != VTB_OP_call || !vtb_makes_any(inst, active)) continue;
    vtb__ad_func *callee = ad_find(ad, inst->callee);
    for (int r = 0; r < inst->n_results; r++) callee->live[r] |= active[inst->results[r]->id];
    for (int k = 0; k < inst->n_operands; k++) callee->wanted[k] |= active[inst->operands[k]->id];
  }
}

/* ---- the joint function ---------------------------------------------------------------------- */

static vtb_value *track(vtb__ad *ad, vtb_value *v, bool active) {
  vtb__node *n = VTB_NEW(&ad->module->scratch, vtb__node);
  n->active = active;
  v->scratch = n;
  return v;
}

static void copy_args(vtb__gradient *g, const vtb__ad_func *fi, const bool *active) {
  vtb_func *f = fi->func;
  for (int i = 0; i < f->n_args; i++) {
    vtb_value *a = vtb_func_add_arg(g->joint, f->args[i]->name, f->args[i]->type);
    g->joint->arg_info[i] = f->arg_info[i];
    g->forward[f->args[i]->id] = track(g->ad, a, active[f->args[i]->id]);
  }
}

/* A call that a gradient passes through calls the forward half, which has further results; so has a
 * fold, its states before each step. */
static vtb_inst *copy_inst(vtb__gradient *g, const vtb_inst *inst, vtb_value *const *operands,
                           bool active) {
  vtb__ad_func *callee = inst->op == VTB_OP_call && active ? ad_find(g->ad, inst->callee) : NULL;
  bool keeps = inst->op == VTB_OP_fold && active && !vtb_attr_int(inst, "keep", 0);
  g->b.span = inst->span;
  if (!keeps && (!callee || callee->fwd == inst->callee))
    return vtb_inst_clone(&g->b, inst, operands);
  vtb_attr *attrs = VTB_SCRATCH(g->ad, vtb_attr, inst->n_attrs);
  for (int i = 0; i < inst->n_attrs; i++) attrs[i] = inst->attrs[i];
  attrs[inst->n_attrs] = VTB_A_INT("keep", 1);
  vtb_inst *copy = vtb_build_call(&g->b, inst->op, callee ? callee->fwd : inst->callee, operands,
                                  inst->n_operands, attrs, inst->n_attrs + keeps);
  for (int r = 0; r < inst->n_results; r++)
    vtb_value_rename(copy->results[r], inst->results[r]->name);
  return copy;
}

static void copy_forward(vtb__gradient *g, const vtb__ad_func *fi) {
  bool *active = find_active(g->ad, fi);
  g->forward = VTB_SCRATCH(g->ad, vtb_value *, fi->func->n_values);
  copy_args(g, fi, active);
  for (vtb_inst *inst = fi->func->first; inst; inst = inst->next) {
    vtb_value **operands = VTB_SCRATCH(g->ad, vtb_value *, inst->n_operands);
    for (int k = 0; k < inst->n_operands; k++) operands[k] = g->forward[inst->operands[k]->id];
    vtb_inst *copy = copy_inst(g, inst, operands, vtb_makes_any(inst, active));
    for (int r = 0; r < copy->n_results; r++) {
      bool own = r < inst->n_results;
      track(g->ad, copy->results[r], own && active[inst->results[r]->id]);
      if (own) g->forward[inst->results[r]->id] = copy->results[r];
    }
  }
  g->last_forward = g->joint->last;
  const vtb_func *f = fi->func;
  for (int r = 0; r < f->n_returns; r++)
    vtb_func_add_return(g->joint, g->forward[f->returns[r]->id],
                        f->return_names ? f->return_names[r] : NULL);
}

static bool has_adjoint(vtb__gradient *g, const vtb_inst *inst) {
  bool any = false;
  for (int r = 0; r < inst->n_results; r++)
    if (vtb__wants(inst->results[r]) && vtb__adjoint(g, inst->results[r])) any = true;
  return any;
}

static bool any_operand_wants(const vtb_inst *inst) {
  for (int k = 0; k < inst->n_operands; k++)
    if (vtb__wants(inst->operands[k])) return true;
  return false;
}

static void emit_adjoints(vtb__gradient *g) {
  for (vtb_inst *inst = g->last_forward; inst && g->ad->status == VTB_OK; inst = inst->prev) {
    g->again |= inst == g->last_again;
    g->b.span = inst->span;
    if (any_operand_wants(inst) && has_adjoint(g, inst)) grad_rule_of(inst->op)(g, inst);
  }
}

static vtb__ad_func *find_halves(vtb__ad *ad, const vtb_func *fwd) {
  for (size_t i = 0; i < ad->n_funcs; i++)
    if (ad->funcs[i].fwd == fwd) return &ad->funcs[i];
  return NULL;
}

/* The forward half returns more than the function. */
static bool saves(vtb__ad *ad, const vtb_inst *i) {
  const vtb__ad_func *fi = i->op == VTB_OP_call ? find_halves(ad, i->callee) : NULL;
  return fi && fi->bwd && fi->fwd != fi->func;
}

/* The forward half and the backward half of it in one function:
 *   @f_again(args, adjoints of live returns) -> adjoints of wanted args
 * Since it is given adjoints, no pass can bring the first call of it to where the forward runs. */
static vtb_func *join_halves(vtb__ad *ad, vtb__ad_func *fi) {
  if (fi->again) return fi->again;
  const vtb_func *f = fi->func, *bwd = fi->bwd;
  fi->again = vtb_func_made_of(f, "again");
  vtb_builder b = {.module = ad->module, .func = fi->again, .span = f->span};
  vtb_value **operands = VTB_SCRATCH(ad, vtb_value *, bwd->n_args);
  for (int i = 0; i < f->n_args; i++) {
    vtb_func_add_arg(fi->again, f->args[i]->name, f->args[i]->type);
    fi->again->arg_info[i] = f->arg_info[i];
  }
  const vtb_inst *fwd = vtb_b_call(&b, fi->fwd, fi->again->args, f->n_args);
  int n = 0;
  for (int i = 0; i < fi->n_bwd_args; i++) operands[n++] = fi->again->args[fi->bwd_args[i]];
  for (int i = 0; i < fi->n_saved; i++) operands[n++] = fwd->results[fi->saved[i]];
  for (; n < bwd->n_args; n++)
    operands[n] = vtb_func_add_arg(fi->again, bwd->args[n]->name, bwd->args[n]->type);
  const vtb_inst *back = vtb_b_call(&b, fi->bwd, operands, n);
  for (int r = 0; r < back->n_results; r++) vtb_func_add_return(fi->again, back->results[r], NULL);
  return fi->again;
}

/* What the backward half takes of the forward call: arguments and what it saved, or, where that
 * runs again, all arguments alone. */
static int take_forward(const vtb__ad_func *fi, const vtb_inst *inst, bool again,
                        vtb_value **operands) {
  int n = 0;
  for (int i = 0; i < inst->n_operands && again; i++) operands[n++] = inst->operands[i];
  for (int i = 0; i < fi->n_bwd_args && !again; i++)
    operands[n++] = inst->operands[fi->bwd_args[i]];
  for (int i = 0; i < fi->n_saved && !again; i++) operands[n++] = inst->results[fi->saved[i]];
  return n;
}

/* Zeros stand where another site has an adjoint. */
void vtb__grad_call(vtb__gradient *g, vtb_inst *inst) {
  vtb__ad_func *fi = find_halves(g->ad, inst->callee);
  vtb_check(fi && fi->bwd, "@%s has no backward", inst->callee->name);
  bool again = g->again && saves(g->ad, inst);
  vtb_func *half = again ? join_halves(g->ad, fi) : fi->bwd;
  vtb_value **operands = VTB_SCRATCH(g->ad, vtb_value *, half->n_args);
  int n = take_forward(fi, inst, again, operands);
  for (int r = 0; r < fi->func->n_returns; r++)
    if (fi->live[r]) operands[n++] = vtb__adjoint_or_zeros(g, inst->results[r]);
  const vtb_inst *back = vtb_b_call(&g->b, half, operands, n);
  n = 0;
  for (int k = 0; k < inst->n_operands; k++)
    if (fi->wanted[k]) vtb__contribute(g, inst->operands[k], back->results[n++]);
}

static vtb__gradient joint_new(vtb__ad *ad, const vtb__ad_func *fi, const char *suffix) {
  vtb__gradient g = {.ad = ad};
  g.joint = vtb_func_made_of(fi->func, suffix);
  g.b = (vtb_builder){.module = ad->module, .func = g.joint};
  return g;
}

/* An argument of the joint function that is the adjoint of return `ret`. */
static void add_seed(vtb__gradient *g, const vtb__ad_func *fi, int ret) {
  const vtb_func *f = fi->func;
  vtb_value *out = g->forward[f->returns[ret]->id];
  const char *name = vtb__text(g->ad, "d_%s", f->returns[ret]->name);
  for (int i = 2; vtb_map_has(&g->joint->names, name); i++)
    name = vtb__text(g->ad, "d_%s_%d", f->returns[ret]->name, i);
  vtb_value *seed = vtb_func_add_arg(g->joint, name, out->type);
  const char *official = g->joint->return_names[ret];
  g->joint->arg_info[seed->index].role = VTB_ROLE_GRAD;
  g->joint->arg_info[seed->index].official = vtb_intern(
      g->ad->module, vtb__text(g->ad, "d:%s", official ? official : f->returns[ret]->name));
  vtb__contribute(g, out, seed);
}

/* ---- halves ---------------------------------------------------------------------------------- */

static bool is_asked(const vtb__ad_func *fi) {
  bool wanted = false, live = false;
  for (int i = 0; i < fi->func->n_args; i++) wanted |= fi->wanted[i];
  for (int r = 0; r < fi->func->n_returns; r++) live |= fi->live[r];
  return wanted && live;
}

static void make_halves(vtb__ad *ad, vtb__ad_func *fi) {
  vtb__gradient g = joint_new(ad, fi, "joint");
  copy_forward(&g, fi);
  for (int r = 0; r < fi->func->n_returns; r++)
    if (fi->live[r]) add_seed(&g, fi, r);
  emit_adjoints(&g);
  if (ad->status == VTB_OK) {
    vtb_value **outs = VTB_SCRATCH(ad, vtb_value *, fi->func->n_args);
    int n = 0;
    for (int i = 0; i < fi->func->n_args; i++)
      if (fi->wanted[i]) outs[n++] = vtb__adjoint_or_zeros(&g, g.joint->args[i]);
    vtb__ad_split(ad, fi, g.joint, g.last_forward, outs, n);
  }
  vtb_module_remove(ad->module, g.joint);
}

/* ---- the entry ------------------------------------------------------------------------------- */

static const char *adjoint_name(vtb__ad *ad, const vtb_func *f, int arg) {
  const char *official = f->arg_info[arg].official;
  return vtb__text(ad, "d:%s", official ? official : f->args[arg]->name);
}

/* The last of the first n calls that save something. What the very last one saves is wanted at
 * once: running it again would free nothing. Returns how many there are. */
static int64_t choose_again(vtb__gradient *g, int64_t asked) {
  vtb_inst *before = NULL;
  int64_t n = asked;
  for (vtb_inst *i = g->joint->first; i && n > 0; i = i->next) {
    if (!saves(g->ad, i)) continue;
    if (before) g->last_again = before, n--;
    before = i;
  }
  return asked - n;
}

static vtb_func *make_entry(vtb__ad *ad, const vtb__ad_func *fi, const vtb_gradients *of) {
  vtb_func *f = fi->func;
  vtb__gradient g = joint_new(ad, fi, "grad");
  copy_forward(&g, fi);
  int64_t recomputed = choose_again(&g, of->recompute);
  if (of->recomputed) *of->recomputed = recomputed;
  for (int k = 0; k < of->n_outs; k++) add_seed(&g, fi, of->outs[k]);
  emit_adjoints(&g);
  if (ad->status != VTB_OK) {
    vtb_module_remove(ad->module, g.joint);
    return NULL;
  }
  g.b.span = f->span;
  for (int k = 0; k < of->n_wrt; k++)
    vtb_func_add_return(g.joint, vtb__adjoint_or_zeros(&g, g.joint->args[of->wrt[k]]),
                        adjoint_name(ad, f, of->wrt[k]));
  return g.joint;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void list_funcs(vtb__ad *ad, vtb_func *root) {
  vtb_func **order = vtb__callees_first(ad->module, root);
  while (order[ad->n_funcs]) ad->n_funcs++;
  ad->funcs = VTB_NEW_ARRAY(&ad->module->scratch, vtb__ad_func, ad->n_funcs);
  for (size_t i = 0; i < ad->n_funcs; i++) {
    vtb__ad_func *fi = &ad->funcs[i];
    fi->func = order[i];
    fi->n_words = (order[i]->n_args + 63) / 64;
    fi->wanted = VTB_SCRATCH(ad, bool, order[i]->n_args);
    fi->live = VTB_SCRATCH(ad, bool, order[i]->n_returns);
  }
  for (size_t i = 0; i < ad->n_funcs; i++) find_deps(ad, &ad->funcs[i]);
}

static void copy_dependence(vtb_module *m, vtb_func *f, int ret, bool values, bool *out) {
  vtb__ad ad = {.module = m, .values = values};
  list_funcs(&ad, f);
  const vtb__ad_func *fi = ad_find(&ad, f);
  for (int a = 0; a < f->n_args; a++) out[a] = return_depends(fi, ret, a);
}

void vtb__dependence(vtb_module *m, vtb_func *f, int ret, bool *value, bool *gradient) {
  copy_dependence(m, f, ret, true, value);
  copy_dependence(m, f, ret, false, gradient);
}

static vtb_status check_request(const vtb_func *f, const vtb_gradients *g, vtb_error *err) {
  const int *outs = g->outs, *wrt = g->wrt;
  for (int i = 0; i < g->n_outs; i++) {
    if (outs[i] < 0 || outs[i] >= f->n_returns)
      return vtb_fail(err, VTB_E_USAGE, "@%s has no output number %d", f->name, outs[i]);
    if (f->returns[outs[i]]->type.dtype != VTB_F32)
      return vtb_fail(err, VTB_E_USAGE, "output %d of @%s holds integers and has no adjoint",
                      outs[i], f->name);
  }
  for (int i = 0; i < g->n_wrt; i++) {
    if (wrt[i] < 0 || wrt[i] >= f->n_args)
      return vtb_fail(err, VTB_E_USAGE, "@%s has no argument number %d", f->name, wrt[i]);
    if (f->args[wrt[i]]->type.dtype != VTB_F32)
      return vtb_fail(err, VTB_E_USAGE, "argument %%%s of @%s holds integers and has no adjoint",
                      f->args[wrt[i]]->name, f->name);
  }
  return VTB_OK;
}

/* After a failure the module holds what it held before. */
static void remove_halves(vtb__ad *ad) {
  for (size_t i = 0; i < ad->n_funcs; i++) {
    vtb__ad_func *fi = &ad->funcs[i];
    if (fi->fwd && fi->fwd != fi->func) vtb_module_remove(ad->module, fi->fwd);
    if (fi->bwd) vtb_module_remove(ad->module, fi->bwd);
    if (fi->again) vtb_module_remove(ad->module, fi->again);
  }
}

/* Marks what every function is asked for; then makes the halves of all but the entry. */
static vtb_status begin(vtb__ad *ad, vtb_func *f, const vtb_gradients *g) {
  VTB_TRY(check_request(f, g, ad->err));
  list_funcs(ad, f);
  vtb__ad_func *entry = ad_find(ad, f);
  for (int i = 0; i < g->n_outs; i++) entry->live[g->outs[i]] = true;
  for (int i = 0; i < g->n_wrt; i++) entry->wanted[g->wrt[i]] = true;
  for (size_t i = ad->n_funcs; i-- > 0;) ask_callees(ad, &ad->funcs[i]);
  for (size_t i = 0; i < ad->n_funcs && ad->status == VTB_OK; i++)
    if (&ad->funcs[i] != entry && is_asked(&ad->funcs[i])) make_halves(ad, &ad->funcs[i]);
  return ad->status;
}

/* ---- halves of an entry ---------------------------------------------------------------------- */

static const char *saved_name(vtb__ad *ad, const vtb__ad_func *fi, int result) {
  const vtb_func *f = fi->func;
  const char *name = vtb__text(ad, "saved.%d", result - f->n_returns);
  if (result < f->n_returns) {
    const char *own = f->return_names ? f->return_names[result] : NULL;
    name = vtb__text(ad, "result.%s", own ? own : f->returns[result]->name);
  }
  return vtb_intern(ad->module, name);
}

/* Names and roles, which functions inside of others do without. */
static void name_halves(vtb__ad *ad, vtb__ad_func *fi) {
  vtb_func *f = fi->func, *fwd = fi->fwd, *bwd = fi->bwd;
  const char **names = VTB_SCRATCH(ad, const char *, fwd->n_returns + bwd->n_returns);
  for (int r = 0; r < fwd->n_returns && fwd != f; r++)
    names[r] = r < f->n_returns && f->return_names ? f->return_names[r]
               : r < f->n_returns                  ? NULL
                                                   : saved_name(ad, fi, r);
  if (fwd != f) vtb_func_set_returns(fwd, fwd->returns, names, fwd->n_returns);
  int n = 0, k = 0;
  for (; n < fi->n_bwd_args; n++) bwd->arg_info[n] = f->arg_info[fi->bwd_args[n]];
  for (; k < fi->n_saved; k++, n++)
    bwd->arg_info[n] =
        (vtb_arg_info){.role = VTB_ROLE_INPUT, .official = saved_name(ad, fi, fi->saved[k])};
  k = 0;
  for (int a = 0; a < f->n_args; a++)
    if (fi->wanted[a]) names[k++] = adjoint_name(ad, f, a);
  vtb_func_set_returns(bwd, bwd->returns, names, bwd->n_returns);
}

vtb_status vtb_autodiff_as(vtb_module *m, vtb_func *f, vtb_gradients *g, vtb_error *err) {
  vtb__ad ad = {.module = m, .err = err, .keeps = g->keeps, .starts = g->starts};
  vtb_status status = begin(&ad, f, g);
  vtb__ad_func *entry = status == VTB_OK ? ad_find(&ad, f) : NULL;
  if (entry && g->halves && !is_asked(entry))
    status = vtb_fail(err, VTB_E_USAGE, "no gradient of @%s is asked for", f->name);
  else if (entry && g->halves)
    make_halves(&ad, entry), status = ad.status;
  else if (entry)
    g->grad = make_entry(&ad, entry, g), status = ad.status;
  if (status != VTB_OK) {
    remove_halves(&ad);
  } else if (g->halves) {
    name_halves(&ad, entry);
    g->fwd = entry->fwd;
    g->bwd = entry->bwd;
  }
  vtb_map_free(&ad.backs);
  return vtb__verified(m, "after autodiff", status, err);
}

vtb_status vtb_autodiff(vtb_module *m, vtb_func *f, const int *outs, int n_outs, const int *wrt,
                        int n_wrt, vtb_func **grad, vtb_diags *diags, vtb_error *err) {
  vtb_gradients g = {.outs = outs, .wrt = wrt, .n_outs = n_outs, .n_wrt = n_wrt};
  /* there is no way to go wrong that a message with a place would explain better than err */
  (void)diags;
  vtb_status status = vtb_autodiff_as(m, f, &g, err);
  if (status == VTB_OK) *grad = g.grad;
  return status;
}

vtb_status vtb__pass_autodiff(vtb_pass_context *c, vtb_error *err) {
  if (!c->autodiff)
    return vtb_fail(err, VTB_E_USAGE, "pass \"autodiff\": no gradient is asked for");
  return vtb_autodiff_as(c->module, c->module->entry, c->autodiff, err);
}
