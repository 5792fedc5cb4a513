/* The objective: what a model returns of its losses and metrics becomes sums over the batch.
 *
 *   return %y, %a "loss:a", %c "metric:c", %n "by:metric:c"       %a: [B, N]; %c, %n: [B, K]
 * =>
 *   return %a.rows "loss:a", %c.rows "metric:c"                   [2, 1], [2, K]
 *
 * With v the input "valid", n = sum_b v_b, a_b the mean of a over all axes but the batch:
 *   a.rows = [sum_b v_b a_b; n],   c.rows = [sum_b v_b c_b; sum_b v_b n_b]
 *   value = mean over the k whose divisor is positive of rows[0, k] / rows[1, k]; 0: there is none
 * One number x without a batch axis stands for all samples: its rows are [n x; n]. With v a select,
 * not a product, a padding row may hold anything. What the model itself sums over the batch leaves
 * padding out, too (padding.c); a further axis of the batch, of a value a pair, is averaged over
 * the samples that are none.
 *
 * In a training step the sum of the losses' values is the scalar that is differentiated. Of a loss
 * without a divisor of its own the value is rows[0] / max(n, 1), and x itself of one number.
 */
#include "ir/objective.h"
#include "passes/passes_internal.h"

#include <string.h>

typedef struct objective {
  vtb_func *f;
  vtb_builder b;
  vtb_value *valid, *count; /* NULL until needed */
} objective;

static bool per_sample(const vtb_value *v) {
  return v->type.rank > 0 && vtb_is_batch(v->type.dim[0].size);
}

static vtb_value *valid_of(objective *o) {
  if (!o->valid)
    o->valid = vtb__named_arg(o->f, VTB_VALID, VTB__F32({VTB_DYN, "B"}), VTB_ROLE_INPUT);
  return o->valid;
}

static vtb_value *count_of(objective *o) {
  if (o->count) return o->count;
  vtb_value *valid = valid_of(o);
  o->b.name_hint = "n_valid";
  return o->count = vtb_b_reduce(&o->b, VTB_OP_reduce_sum, valid, (int64_t[]){0}, 1, false);
}

/* How many rows of x are no padding, of all its batches. */
static vtb_value *rows_in(objective *o, const vtb_value *x) {
  int64_t k = vtb_batches(x->type.dim[0].size);
  if (k == 1) return count_of(o);
  return vtb_b_binary(&o->b, VTB_OP_mul, count_of(o), vtb_b_constant(&o->b, (double)k));
}

/* The mean over the axes behind the batch, [B]. */
static vtb_value *sample_mean(objective *o, vtb_value *x) {
  int64_t axes[VTB_MAX_RANK];
  double count = 1;
  int pairs = 0;
  if (x->type.rank == 1) return x;
  for (int i = 1; i < x->type.rank; i++) {
    axes[i - 1] = i;
    count *= (double)vtb_bound_size(x->type.dim[i].size, 1);
    if (!vtb_is_batch(x->type.dim[i].size)) continue;
    x = vtb__mask_rows(&o->b, valid_of(o), x, i, 0);
    pairs++;
  }
  vtb_value *mean = vtb_b_reduce(&o->b, VTB_OP_reduce_sum, x, axes, x->type.rank - 1, false);
  if (count != 1) mean = vtb_b_binary(&o->b, VTB_OP_mul, mean, vtb_b_constant(&o->b, 1 / count));
  for (; pairs > 0; pairs--) {
    vtb_value *n = vtb_b_binary(&o->b, VTB_OP_max, count_of(o), vtb_b_constant(&o->b, 1));
    mean = vtb_b_binary(&o->b, VTB_OP_div, mean, n);
  }
  return mean;
}

/* The sum over the samples that are no padding; the axes behind the batch stay. */
static vtb_value *valid_sum(objective *o, vtb_value *x) {
  vtb_value *kept = vtb__mask_rows(&o->b, valid_of(o), x, 0, 0);
  return vtb_b_reduce(&o->b, VTB_OP_reduce_sum, kept, (int64_t[]){0}, 1, false);
}

static vtb_value *as_row(objective *o, vtb_value *x) {
  vtb_type t = VTB__F32({1, NULL}, {vtb_type_count(&x->type), NULL});
  return vtb_b_reshape(&o->b, x, &t);
}

typedef struct sums {
  vtb_value *above, *below; /* as they are summed over the batch */
  vtb_value *whole;         /* the value itself, of one number; NULL */
} sums;

static sums sums_of(objective *o, vtb_value *x, vtb_value *by) {
  if (by && per_sample(x)) return (sums){valid_sum(o, x), valid_sum(o, by), NULL};
  if (by) return (sums){x, by, NULL};
  if (per_sample(x)) return (sums){valid_sum(o, sample_mean(o, x)), rows_in(o, x), NULL};
  vtb_type scalar = vtb_type_scalar();
  vtb_value *one = x->type.rank ? vtb_b_reshape(&o->b, x, &scalar) : x;
  return (sums){vtb_b_binary(&o->b, VTB_OP_mul, one, count_of(o)), count_of(o), one};
}

static vtb_value *rows_of(objective *o, const sums *s, const char *name) {
  vtb_value *both[] = {as_row(o, s->above), as_row(o, s->below)};
  o->b.name_hint = name;
  return vtb_b_concat(&o->b, both, 2, 0);
}

/* The mean of the quotients whose divisor is positive. */
static vtb_value *quotient(objective *o, const sums *s) {
  const int64_t axes[] = {0, 1};
  vtb_builder *b = &o->b;
  vtb_value *below = as_row(o, s->below), *zero = vtb_b_constant(b, 0);
  vtb_value *there = vtb_b_binary(b, VTB_OP_gt, below, zero);
  vtb_value *safe = vtb_b_select(b, there, below, vtb_b_constant(b, 1));
  vtb_value *each =
      vtb_b_select(b, there, vtb_b_binary(b, VTB_OP_div, as_row(o, s->above), safe), zero);
  vtb_value *n = vtb_b_reduce(b, VTB_OP_reduce_sum, there, axes, 2, false);
  vtb_value *sum = vtb_b_reduce(b, VTB_OP_reduce_sum, each, axes, 2, false);
  return vtb_b_binary(b, VTB_OP_div, sum, vtb_b_binary(b, VTB_OP_max, n, vtb_b_constant(b, 1)));
}

static vtb_value *loss_of(objective *o, const sums *s, bool divided) {
  if (s->whole) return s->whole;
  if (divided) return quotient(o, s);
  vtb_builder *b = &o->b;
  return vtb_b_binary(b, VTB_OP_div, s->above,
                      vtb_b_binary(b, VTB_OP_max, s->below, vtb_b_constant(b, 1)));
}

/* The rows of every measure; their names as return names; *total: the sum of the losses. */
static int add_measures(objective *o, vtb_value **rows, const char **names, vtb_value **total) {
  vtb_func *f = o->f;
  int n = 0;
  *total = NULL;
  for (int r = 0; r < f->n_returns; r++) {
    const char *prefix, *name = f->return_names[r];
    if (!vtb_is_measure(name, &prefix)) continue;
    int by = vtb_find_measure(f, VTB_MEASURE_BY, name);
    o->b.span = f->returns[r]->def ? f->returns[r]->def->span : f->span;
    sums s = sums_of(o, f->returns[r], by < 0 ? NULL : f->returns[by]);
    names[n] = name;
    rows[n++] = rows_of(o, &s, name + strlen(prefix));
    if (strcmp(prefix, VTB_MEASURE_LOSS) != 0) continue;
    vtb_value *loss = loss_of(o, &s, by >= 0);
    *total = vtb__joined(&o->b, VTB_OP_add, *total, loss);
  }
  return n;
}

void vtb__return_updates(vtb_func *f, const vtb_func *before) {
  for (int r = 0; r < before->n_returns; r++) {
    const char *name = before->return_names[r];
    if (name && vtb_starts_with(name, "updated.")) vtb_func_add_return(f, before->returns[r], name);
  }
}

vtb_func *vtb__objective_of(vtb_func *f, bool training) {
  static const char *const loss[] = {"loss"};
  vtb_func *made = vtb_func_clone(f, f->module, training ? "loss" : "evaluation");
  const vtb_func before = *made;
  objective o = {.f = made};
  o.b = (vtb_builder){.module = f->module, .func = made, .span = f->span};
  vtb_value **rows = VTB_SCRATCH(made, vtb_value *, made->n_returns), *total;
  const char **names = VTB_SCRATCH(made, const char *, made->n_returns);
  if (vtb__sums_batch(made)) vtb__mask_padding(made, valid_of(&o));
  int n = add_measures(&o, rows, names, &total);
  vtb_func_set_returns(made, &total, loss, training);
  for (int r = 0; r < n; r++) vtb_func_add_return(made, rows[r], names[r]);
  if (training) vtb__return_updates(made, &before);
  return made;
}

vtb_status vtb_build_evaluation(vtb_module *m, vtb_func *f, vtb_func **made, vtb_error *err) {
  if (!vtb_has_measure(f))
    return vtb_fail(err, VTB_E_INPUT, "@%s declares neither a loss nor a metric", f->name);
  *made = vtb__objective_of(f, false);
  return vtb__verified(m, "after the evaluation was built", VTB_OK, err);
}
