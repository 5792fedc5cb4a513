/* The training step: the sum of the losses that a model declares (passes/train/objective.c), then
 * reverse mode. A model that declares none is a classifier: cross entropy on its logits.
 *
 * With z the logits [B, C], y the labels [B], eps the label smoothing, s = z - max z (the maximum
 * is held constant, as its gradient cancels), v = 1 for rows with y >= 0 and 0 for the others,
 * which pad the last batch:
 *   row_b = log sum_c exp s_bc - sum_c ((1 - eps) [c = y_b] + eps / C) s_bc
 *         = (1 - eps) nll + eps mean(-log p)
 *   loss  = sum_b v_b row_b / max(sum_b v_b, 1)
 * A label of C or more has no class to match; the data layer refuses it. What the entry returns as
 * "updated.<buffer>" is returned too.
 */
#include "ir/objective.h"
#include "passes/passes_internal.h"

static vtb_value *binary(vtb_builder *b, vtb_op op, vtb_value *x, vtb_value *y, const char *name) {
  b->name_hint = name;
  return vtb_b_binary(b, op, x, y);
}

static vtb_value *sum_classes(vtb_builder *b, vtb_value *x) {
  return vtb_b_reduce(b, VTB_OP_reduce_sum, x, (int64_t[]){1}, 1, true);
}

static vtb_value *sum_all(vtb_builder *b, vtb_value *x, const char *name) {
  const int64_t axes[] = {0, 1};
  b->name_hint = name;
  return vtb_b_reduce(b, VTB_OP_reduce_sum, x, axes, 2, false);
}

/* Labels as f32 [B, 1]. */
static vtb_value *label_column(vtb_builder *b, vtb_value *labels) {
  vtb_type column = labels->type;
  column.rank = 2;
  column.dim[1] = (vtb_dim){1, NULL};
  vtb_value *shaped = vtb_b_reshape(b, labels, &column);
  b->name_hint = "label";
  return vtb_b_cast(b, shaped, VTB_F32);
}

/* (1 - eps) [c = y_b] + eps / C, [B, C] */
static vtb_value *target(vtb_builder *b, vtb_value *label, vtb_dim classes, double eps) {
  vtb_type row = vtb_type_scalar();
  row.rank = 2;
  row.dim[0] = (vtb_dim){1, NULL};
  row.dim[1] = classes;
  b->name_hint = "class";
  vtb_value *hit = binary(b, VTB_OP_eq, vtb_b_iota(b, 1, &row), label, "one_hot");
  if (eps == 0.0) return hit;
  double rest = eps / (double)classes.size;
  return vtb_b_select(b, hit, vtb_b_constant(b, 1.0 - eps + rest), vtb_b_constant(b, rest));
}

static vtb_value *cross_entropy(vtb_builder *b, vtb_value *logits, vtb_value *labels, double eps) {
  vtb_value *top = vtb_b_reduce(b, VTB_OP_reduce_max, logits, (int64_t[]){1}, 1, true);
  vtb_value *s =
      binary(b, VTB_OP_sub, logits, vtb_b_unary(b, VTB_OP_stop_gradient, top), "shifted");
  vtb_value *total = sum_classes(b, vtb_b_unary(b, VTB_OP_exp, s));
  vtb_value *label = label_column(b, labels);
  vtb_value *at_target =
      sum_classes(b, vtb_b_binary(b, VTB_OP_mul, target(b, label, logits->type.dim[1], eps), s));
  vtb_value *row = binary(b, VTB_OP_sub, vtb_b_unary(b, VTB_OP_log, total), at_target, "row_loss");
  vtb_value *valid = binary(b, VTB_OP_ge, label, vtb_b_constant(b, 0.0), "valid");
  vtb_value *count = sum_all(b, valid, "n_valid");
  /* select, not mul: a padding row may hold anything */
  vtb_value *loss = sum_all(b, vtb_b_select(b, valid, row, vtb_b_constant(b, 0.0)), "total_loss");
  return binary(b, VTB_OP_div, loss, vtb_b_binary(b, VTB_OP_max, count, vtb_b_constant(b, 1.0)),
                "loss");
}

static vtb_status check_classifier(const vtb_func *f, const char *logits, double eps, int at,
                                   vtb_error *err) {
  if (!(eps >= 0.0 && eps < 1.0))
    return vtb_fail(err, VTB_E_INPUT, "label smoothing %g is not in [0, 1)", eps);
  if (at < 0 && !logits)
    return vtb_fail(err, VTB_E_INPUT, "@%s has no output to train on", f->name);
  if (at < 0) {
    vtb_strbuf have = {0};
    for (int r = 0; r < f->n_returns; r++)
      vtb_strbuf_printf(&have, "%s%s", r ? ", " : "",
                        f->return_names[r] ? f->return_names[r] : "(nameless)");
    vtb_fail(err, VTB_E_INPUT, "@%s has no output \"%s\" to train on; its outputs are %s", f->name,
             logits, have.at ? have.at : "none");
    vtb_strbuf_free(&have);
    return VTB_E_INPUT;
  }
  const vtb_type *t = &f->returns[at]->type;
  if (t->rank == 2 && t->dtype == VTB_F32 && t->dim[1].size > 0) return VTB_OK;
  vtb_strbuf text = {0};
  vtb_type_print(t, &text);
  vtb_fail(err, VTB_E_INPUT,
           "training needs logits f32[B, classes], but output \"%s\" of @%s is %s",
           f->return_names[at] ? f->return_names[at] : f->returns[at]->name, f->name, text.at);
  vtb_strbuf_free(&text);
  return VTB_E_INPUT;
}

/* Rows without a label fill the batch up. */
static void mask_unlabelled(vtb_func *f, vtb_value *labels) {
  vtb_builder b = {.module = f->module, .func = f, .before = f->first, .span = f->span};
  vtb_value *label = vtb_b_cast(&b, labels, VTB_F32);
  vtb__mask_padding(f, binary(&b, VTB_OP_ge, label, vtb_b_constant(&b, 0.0), "valid"));
}

/* A copy of f with labels as a further input, that returns loss, logits and f's updates of
 * buffers. */
static vtb_func *with_loss(vtb_func *f, int at, double eps) {
  vtb_module *m = f->module;
  vtb_func *l = vtb_func_clone(f, m, "loss");
  vtb_value *logits = l->returns[at];
  vtb_type t = {.dtype = VTB_I32, .rank = 1, .dim = {logits->type.dim[0]}};
  vtb_value *labels = vtb__named_arg(l, "labels", t, VTB_ROLE_INPUT);
  if (vtb__sums_batch(l)) mask_unlabelled(l, labels);
  vtb_builder b = {.module = m, .func = l, .span = logits->def ? logits->def->span : f->span};
  const vtb_func before = *l;
  const char *names[] = {"loss", l->return_names[at] ? l->return_names[at] : "logits"};
  vtb_func_set_returns(l, (vtb_value *[]){cross_entropy(&b, logits, labels, eps), logits}, names,
                       2);
  vtb__return_updates(l, &before);
  return l;
}

/* The adjoint of the loss, the last argument, is the constant 1, or becomes the factor on all
 * adjoints. */
static void seed(vtb_func *train, bool scaled) {
  vtb_value *adjoint = train->args[train->n_args - 1];
  if (scaled) {
    vtb_arg_info *info = &train->arg_info[adjoint->index];
    info->role = VTB_ROLE_INPUT;
    info->official = vtb_intern(train->module, "loss_scale");
    return;
  }
  vtb_builder b = {
      .module = train->module, .func = train, .before = train->first, .name_hint = "one"};
  vtb_replace_all(adjoint, vtb_b_constant(&b, 1.0));
  vtb_func_remove_arg(train, train->n_args - 1);
}

/* A copy of f that returns the loss first. */
static vtb_status find_loss(vtb_func *f, const vtb_train_step *o, vtb_func **out, vtb_error *err) {
  if (vtb_has_loss(f)) {
    if (o->label_smoothing > 0)
      return vtb_fail(err, VTB_E_INPUT,
                      "@%s declares its loss: label smoothing is written there, as in "
                      "cross_entropy(logits, labels, smoothing = 0.1)",
                      f->name);
    *out = vtb__objective_of(f, true);
    return VTB_OK;
  }
  if (vtb_has_measure(f))
    return vtb_fail(err, VTB_E_INPUT,
                    "@%s declares a metric and no loss: there is nothing to train it by", f->name);
  int at = o->logits ? vtb_find_measure(f, "", o->logits) : f->n_returns ? 0 : -1;
  vtb_status status = check_classifier(f, o->logits, o->label_smoothing, at, err);
  if (status == VTB_OK) *out = with_loss(f, at, o->label_smoothing);
  return status;
}

vtb_status vtb_build_train_step(vtb_module *m, vtb_func *f, const vtb_train_step *o,
                                vtb_func **train, vtb_diags *diags, vtb_error *err) {
  vtb_func *l = NULL;
  vtb_status status = find_loss(f, o, &l, err);
  if (status != VTB_OK) return status;
  int *wrt = VTB_SCRATCH(l, int, l->n_args), loss = 0;
  int n = vtb__find_trained(f, l, wrt, true, diags);
  vtb_gradients of = {.outs = &loss,
                      .n_outs = 1,
                      .wrt = wrt,
                      .n_wrt = n,
                      .keeps = o->keeps,
                      .starts = o->starts,
                      .recompute = o->recompute,
                      .recomputed = o->recomputed};
  if (n < 0)
    status =
        vtb_fail(err, VTB_E_INPUT, "@%s has %d parameters that nothing trains", f->name, -1 - n);
  else
    status = vtb_autodiff_as(m, l, &of, err);
  vtb_module_remove(m, l);
  if (status != VTB_OK) return status;
  seed(of.grad, o->loss_scale);
  *train = vtb_func_clone(of.grad, m, "train");
  vtb_module_remove(m, of.grad);
  return vtb__verified(m, "after the training step was built", VTB_OK, err);
}

vtb_status vtb__pass_train_step(vtb_pass_context *c, vtb_error *err) {
  static const vtb_train_step plain = {0};
  vtb_func *train = NULL;
  vtb_status status = vtb_build_train_step(
      c->module, c->module->entry, c->train_step ? c->train_step : &plain, &train, c->diags, err);
  if (status == VTB_OK) c->module->entry = train;
  return status;
}

void vtb_check_training(vtb_func *f, vtb_diags *diags) {
  const vtb_type *first = f->n_returns ? &f->returns[0]->type : NULL;
  vtb_func *l = NULL;
  vtb_error err = {0};
  vtb_train_step step = {0};
  if (!vtb_has_loss(f) && (!first || first->rank != 2 || first->dtype != VTB_F32)) return;
  if (find_loss(f, &step, &l, &err) != VTB_OK) return;
  int *wrt = VTB_SCRATCH(l, int, l->n_args);
  int n = vtb__find_trained(f, l, wrt, false, diags), loss = 0;
  vtb_func *grad = NULL;
  /* what a step cannot differentiate is found where the step would find it */
  if (n > 0 && vtb_has_loss(f)) {
    if (vtb_autodiff(f->module, l, &loss, 1, wrt, n, &grad, diags, &err) == VTB_OK)
      vtb_module_remove(f->module, grad);
    else
      vtb_diag_error(diags, VTB_DIAG_NO_DERIVATIVE, VTB_NO_SPAN, "%s", err.text);
  }
  vtb_module_remove(f->module, l);
}
