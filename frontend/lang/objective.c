/* The objective that a model is trained for and measured by: `loss` and `metric` statements, and
 * the returns of the entry (ir/objective.h).
 *
 *   loss ce = cross_entropy(logits, labels)       a value a sample, [B, ...], or one number
 *   metric iou = intersection, total              a sum and what it is divided by
 *
 * They are evaluated in every program, so that mistakes are found, but only a program that trains
 * or measures returns them. In the others what they alone need is dead: the inputs that nothing
 * else reads, the targets, are no inputs there.
 */
#include "ir/objective.h"
#include "ir/ops.h"
#include "frontend/lang/value.h"

/* ---- statements ------------------------------------------------------------------------------ */

/* Inside a `fn` in line, or a block, the model's frame is not the one to declare in. */
static bool in_model(vtb__eval *e, const vtb_stmt *s) {
  if (e->frame && e->frame->is_model) return true;
  vtb__report(e, VTB_DIAG_MISPLACED, s->span, "%s belongs to models",
              s->kind == VTB_STMT_LOSS ? "loss" : "metric");
  return false;
}

static bool is_new(vtb__eval *e, const char *name, vtb_span span) {
  for (size_t i = 0; i < e->frame->measures.n; i++) {
    const vtb__measured *m = &e->frame->measures.at[i];
    if (strcmp(strchr(m->name, ':') + 1, name) != 0) continue;
    vtb__report(e, VTB_DIAG_REPEATED_MEASURE, span, "'%s' is declared twice", name);
    if (!e->stopped) vtb_diag_note(e->diags, m->span, "declared here first");
    return false;
  }
  return true;
}

static bool is_name(const char *s) {
  for (; *s; s++)
    if (!(*s >= 'a' && *s <= 'z') && !(*s >= 'A' && *s <= 'Z') && !(*s >= '0' && *s <= '9') &&
        !strchr("_-.", *s))
      return false;
  return true;
}

/* One number, or a value a sample. */
static vtb_value *measurable(vtb__eval *e, const char *what, vtb__val v, vtb_span span) {
  if (v.kind == VTB__ERROR) return NULL;
  vtb_value *x = v.kind == VTB__TENSOR ? v.u.t.v : NULL;
  const vtb_type *t = x ? &x->type : NULL;
  if (t && t->dtype == VTB_F32 &&
      ((t->rank > 0 && vtb__batches_of(e, t->dim[0])) ||
       (!vtb_type_is_dynamic(t) && vtb_type_count(t) == 1)))
    return x;
  vtb__report(e, VTB_DIAG_MEASURE_SHAPE, span, "a %s is one number or a value a sample, not %s",
              what, vtb__describe(e, v));
  if (e->stopped) return NULL;
  if (t && t->dtype == VTB_F32 && t->rank > 0)
    vtb_diag_help(e->diags, "a value a sample begins with the batch axis, [B] or [B, ...], whose "
                            "other axes are averaged; without a batch einsum(\"ij,ij->\", x, y) is "
                            "the sum of all products, axis = \"NAME\" sums another than the last");
  return NULL;
}

/* The values of the statement: two of them, or a call that returns two, are a quotient. */
static size_t values(vtb__eval *e, const vtb_stmt *s, vtb__val out[2]) {
  const vtb_expr_list *l = &s->u.measure.values;
  size_t n = l->n;
  for (size_t i = 0; i < n && i < 2; i++) out[i] = vtb__expr(e, l->at[i]);
  if (n == 1 && out[0].kind == VTB__TUPLE) {
    vtb__val all = out[0];
    n = all.u.list.n;
    for (size_t i = 0; i < n && i < 2; i++) out[i] = all.u.list.at[i];
  }
  if (n <= 2) return n;
  vtb__report(e, VTB_DIAG_VALUE_COUNT, s->span,
              "a %s is one value, or a sum and what it is divided by; these are %zu",
              s->kind == VTB_STMT_LOSS ? "loss" : "metric", n);
  return 0;
}

void vtb__measure(vtb__eval *e, const vtb_stmt *s) {
  const char *what = s->kind == VTB_STMT_LOSS ? "loss" : "metric";
  const vtb_expr *at = s->u.measure.name;
  vtb__val v[2];
  if (vtb__called_model(e)) return; /* what it was trained for is not what this one is */
  if (!in_model(e, s)) return;
  const char *name = vtb__text(e, at);
  size_t n = values(e, s, v);
  if (!name || !n) return;
  if (!is_name(name)) {
    vtb__report(e, VTB_DIAG_BAD_SCOPE_NAME, at->span, "'%s' cannot be the name of a %s", name,
                what);
    return;
  }
  vtb_span span = s->u.measure.values.at[0]->span;
  vtb_value *value = measurable(e, what, v[0], span),
            *by = n == 2 ? measurable(e, what, v[1],
                                      s->u.measure.values.at[s->u.measure.values.n - 1]->span)
                         : NULL;
  if (!value || (n == 2 && !by) || !is_new(e, name, at->span)) return;
  if (by && !vtb_type_equal(&value->type, &by->type)) {
    vtb__report(e, VTB_DIAG_MEASURE_SHAPE, s->span,
                "the sum is %s and what it is divided by %s: they must have one shape",
                vtb__type_string(e, &value->type), vtb__type_string(e, &by->type));
    return;
  }
  if (by && vtb_type_batch_axes(&value->type) > 1) {
    vtb__report(e, VTB_DIAG_MEASURE_SHAPE, s->span,
                "the sum is %s: a quotient is summed over the first axis, and its other axes stay "
                "apart, which the batch cannot",
                vtb__type_string(e, &value->type));
    vtb__help(e, "sum(x, axis = \"sample\") of both sums each sample's pairs first");
    return;
  }
  const char *prefix = s->kind == VTB_STMT_LOSS ? VTB_MEASURE_LOSS
                       : s->u.measure.lower     ? VTB_MEASURE_LOWER
                                                : VTB_MEASURE_METRIC;
  vtb_vec_push(
      &e->frame->measures,
      ((vtb__measured){vtb_arena_printf(&e->arena, "%s%s", prefix, name), value, by, at->span}));
}

/* ---- the entry's returns --------------------------------------------------------------------- */

typedef struct return_list {
  VTB_VEC(vtb_value *) values;
  VTB_VEC(const char *) names;
} return_list;

static void add_return(return_list *l, vtb_value *v, const char *name) {
  vtb_vec_push(&l->values, v);
  vtb_vec_push(&l->names, name);
}

static void set_returns(vtb__eval *e, bool objective) {
  vtb__frame *f = e->frame;
  return_list l = {0};
  for (size_t i = 0; i < f->outputs.n; i++)
    add_return(&l, f->outputs.at[i].value, f->outputs.at[i].name);
  for (size_t i = 0; objective && i < f->measures.n; i++) {
    const vtb__measured *m = &f->measures.at[i];
    add_return(&l, m->value, m->name);
    if (m->by) add_return(&l, m->by, vtb_arena_printf(&e->arena, "%s%s", VTB_MEASURE_BY, m->name));
  }
  for (size_t i = 0; i < f->updates.n; i++)
    add_return(
        &l, f->updates.at[i].value,
        vtb_arena_printf(&e->arena, "updated.%s", f->weights.at[f->updates.at[i].weight].name));
  vtb_func_set_returns(f->func, l.values.at, l.names.at, (int)l.values.n);
  vtb_vec_free(&l.values);
  vtb_vec_free(&l.names);
}

/* Instructions that nothing uses any more. */
static void remove_dead(vtb_func *f) {
  int *uses = vtb_count_uses(f);
  for (vtb_inst *i = f->last, *before; i; i = before) {
    bool used = i->op == VTB_OP_tap;
    before = i->prev;
    for (int r = 0; r < i->n_results; r++) used |= uses[i->results[r]->id] > 0;
    if (used) continue;
    for (int k = 0; k < i->n_operands; k++) uses[i->operands[k]->id]--;
    vtb_inst_unlink(i);
  }
  vtb_free(uses);
}

/* Inputs that had a use and have none. */
static void remove_targets(vtb_func *f, const int *before) {
  int *after = vtb_count_uses(f);
  for (int a = f->n_args - 1; a >= 0; a--) {
    int id = f->args[a]->id;
    if (f->arg_info[a].role == VTB_ROLE_INPUT && before[id] && !after[id])
      vtb_func_remove_arg(f, a);
  }
  vtb_free(after);
}

static void warn_of_unused_inputs(vtb__eval *e, const int *uses) {
  const vtb_func *f = e->frame->func;
  bool model = e->decl && e->decl->kind == VTB_DECL_MODEL;
  for (int a = 0; model && a < f->n_args; a++) {
    const vtb_arg_info *info = &f->arg_info[a];
    if (info->role != VTB_ROLE_INPUT || uses[f->args[a]->id] || !info->span.source) continue;
    vtb_diag_warning(e->diags, VTB_DIAG_UNUSED_INPUT, info->span, "nothing reads the input '%s'",
                     info->official);
  }
}

/* Messages about a parameter are about the user's line, not about that of a function it calls. */
static void place_weights(const vtb__frame *f) {
  for (size_t i = 0; i < f->weights.n; i++)
    f->func->arg_info[f->weights.at[i].arg->index].span = f->weights.at[i].made;
}

void vtb__set_returns(vtb__eval *e) {
  set_returns(e, true);
  place_weights(e->frame);
}

void vtb__drop_objective(vtb__eval *e) {
  vtb_func *f = e->frame->func;
  int *uses = vtb_count_uses(f);
  warn_of_unused_inputs(e, uses);
  if (e->frame->measures.n && !e->options->objective) {
    set_returns(e, false);
    remove_dead(f);
    remove_targets(f, uses);
  }
  vtb_free(uses);
}
