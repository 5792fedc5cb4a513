/* The structure of a model as `vertebra check` prints it: its layers with what repeats said once,
 * and how each recurrence is computed and why. */
#include "codegen/label.h"
#include "ir/ops.h"
#include "frontend/cli/inspect/check.h"
#include "passes/passes.h"

bool check_is_param(const vtb_arg_info *info) {
  return info->role == VTB_ROLE_PARAM || info->frozen;
}

static int64_t call_params(const vtb_func *f, const vtb_inst *call) {
  int64_t n = 0;
  for (int o = 0; o < call->n_operands; o++) {
    const vtb_value *v = call->operands[o];
    if (!v->def && check_is_param(&f->arg_info[v->index])) n += vtb_type_count(&v->type);
  }
  return n;
}

/* The types of its operands, or how a recurrence is computed. */
static void describe_inst(const vtb_pass_context *context, const vtb_inst *i, vtb_strbuf *text) {
  bool recurrence = i->op == VTB_OP_linscan || i->op == VTB_OP_delta || i->op == VTB_OP_fold;
  if (recurrence) vtb_mode_reason(context, i, text);
  for (int o = 0; o < i->n_operands && o < 3 && !recurrence; o++) {
    vtb_strbuf_puts(text, o ? ", " : "");
    vtb_type_print(&i->operands[o]->type, text);
  }
}

/* A listing: what is printed, and where. */
typedef struct listing {
  const check_facts *c;
  doc *d;
  doc_table *table;
  vtb_map seen; /* functions whose bodies are there */
} listing;

static void add_op(listing *l, const vtb_inst *i) {
  vtb_strbuf text = {0};
  char place[256];
  describe_inst(l->c->context, i, &text);
  doc_row(l->d, l->table, V(vtb_label_of(i, "", &l->d->arena)), V(vtb_op_get(i->op)->name),
          V(text.at), V(vtb_span_text(i->span, place, sizeof place)));
  vtb_strbuf_free(&text);
}

static void add_body(listing *l, const vtb_func *f) {
  for (const vtb_inst *i = f->first; i; i = i->next)
    if (vtb_op_get(i->op)->klass == VTB_CLASS_STRUCTURED || i->op == VTB_OP_fold) add_op(l, i);
}

/* How often the first p of n callees come one after the other. */
static size_t repeats_of(vtb_func *const *callee, size_t n, size_t p) {
  size_t k = p;
  while (k < n && callee[k] == callee[k - p]) k++;
  return k / p;
}

/* The period at the start that most of the n callees repeat; 1 if none does. */
static size_t period_of(vtb_func *const *callee, size_t n) {
  size_t best = 1, most = 1;
  for (size_t p = 1; p <= n / 2; p++) {
    size_t times = repeats_of(callee, n, p);
    if (times > 1 && times * p > most) best = p, most = times * p;
  }
  return best;
}

static void add_run(listing *l, const vtb_inst *const *calls, size_t n, size_t times) {
  doc_sentence_row(l->d, l->table, "    %zu x", times);
  for (size_t i = 0; i < n; i++) {
    vtb_func *callee = calls[i]->callee;
    doc_sentence_row(l->d, l->table, "      @%s: %lld parameters, %.3f GFLOP", callee->name,
                     (long long)call_params(l->c->modes, calls[i]),
                     vtb_func_cost(callee, 1).flops / (double)l->c->batch * 1e-9);
    if (vtb_map_has(&l->seen, callee->name)) continue;
    vtb_map_set(&l->seen, callee->name, callee);
    add_body(l, callee);
  }
}

/* Runs of equal calls, one after the other; what repeats nothing stands together. */
static void add_calls(listing *l, const vtb_inst **calls, size_t n) {
  vtb_func **callee = vtb_xcalloc(n + 1, sizeof *callee);
  for (size_t i = 0; i < n; i++) callee[i] = calls[i]->callee;
  size_t single = 0; /* where what repeats nothing began */
  for (size_t i = 0; i < n;) {
    size_t p = period_of(callee + i, n - i), times = repeats_of(callee + i, n - i, p);
    if (times > 1) {
      if (i > single) add_run(l, calls + single, i - single, 1);
      add_run(l, calls + i, p, times);
      single = i + p * times;
    }
    i += p * times;
  }
  if (n > single) add_run(l, calls + single, n - single, 1);
  vtb_free(callee);
}

void check_add_structure(const check_facts *c, doc *d) {
  static const doc_column columns[] = {
      {.heading = "label", .width = -33, .ragged = true},
      {.heading = "op", .width = -8},
      {.heading = "types, or form", .width = -66, .ragged = true},
      {.heading = "place", .width = -1},
  };
  listing l = {.c = c, .d = d, .table = DOC_TABLE(d, NULL, columns)};
  VTB_VEC(const vtb_inst *) calls = {0};
  l.table->indent = 6, l.table->headless = true, l.table->cut = 2;
  for (const vtb_inst *i = c->modes->first; i; i = i->next) {
    if (i->op == VTB_OP_call) {
      vtb_vec_push(&calls, i);
      continue;
    }
    if (vtb_op_get(i->op)->klass != VTB_CLASS_STRUCTURED && i->op != VTB_OP_fold) continue;
    if (calls.n) add_calls(&l, calls.at, calls.n);
    calls.n = 0;
    add_op(&l, i);
  }
  if (calls.n) add_calls(&l, calls.at, calls.n);
  vtb_vec_free(&calls);
  vtb_map_free(&l.seen);
}
