/* The structure of a model as `vertebra check` prints it: its layers with what repeats said once,
 * and how each recurrence is computed and why. */
#include "codegen/label.h"
#include "frontend/cli/inspect/check.h"
#include "frontend/cli/say/progress.h"
#include "passes/passes.h"

#include <stdio.h>

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

/* A recurrence: its class, and the form that was chosen, with the reason. */
static void print_recurrence(const vtb_pass_context *context, const vtb_inst *i, vtb_strbuf *text) {
  if (i->op == VTB_OP_fold)
    vtb_strbuf_puts(text, "step after step: no form takes its tokens together");
  else
    vtb_mode_reason(context, i, text);
}

/* The types of its operands, or how a recurrence is computed. */
static void describe(const vtb_pass_context *context, const vtb_inst *i, vtb_strbuf *text) {
  bool recurrence = i->op == VTB_OP_linscan || i->op == VTB_OP_delta || i->op == VTB_OP_fold;
  if (recurrence) print_recurrence(context, i, text);
  for (int o = 0; o < i->n_operands && o < 3 && !recurrence; o++) {
    vtb_strbuf_puts(text, o ? ", " : "");
    vtb_type_print(&i->operands[o]->type, text);
  }
}

static void print_op(const vtb_pass_context *context, const vtb_inst *i) {
  vtb_strbuf text = {0};
  vtb_arena arena;
  char place[256];
  cli_line l = {.cut = true};
  vtb_arena_init(&arena);
  describe(context, i, &text);
  cli_line_add(&l, "      %-33s", vtb_label_of(i, "", &arena));
  cli_line_add(&l, "%-8s", vtb_op_get(i->op)->name);
  cli_line_add(&l, cli_columns(stdout) ? "%s" : "%-66s", vtb_strbuf_text(&text));
  cli_line_add(&l, "%s", vtb_span_text(i->span, place, sizeof place));
  cli_line_print(&l);
  vtb_strbuf_free(&text);
  vtb_arena_free(&arena);
}

static void print_body(const vtb_pass_context *context, const vtb_func *f) {
  for (const vtb_inst *i = f->first; i; i = i->next)
    if (vtb_op_get(i->op)->klass == VTB_CLASS_STRUCTURED || i->op == VTB_OP_fold)
      print_op(context, i);
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

static void print_run(const check_facts *c, vtb_map *seen, const vtb_inst *const *calls, size_t n,
                      size_t times) {
  printf("    %zu x\n", times);
  for (size_t i = 0; i < n; i++) {
    vtb_func *callee = calls[i]->callee;
    printf("      @%s: %lld parameters, %.3f GFLOP\n", callee->name,
           (long long)call_params(c->modes, calls[i]),
           vtb_func_cost(callee, 1).flops / (double)c->batch * 1e-9);
    if (vtb_map_has(seen, callee->name)) continue;
    vtb_map_set(seen, callee->name, callee);
    print_body(c->context, callee);
  }
}

/* Runs of equal calls, one after the other; what repeats nothing stands together. */
static void print_calls(const check_facts *c, vtb_map *seen, const vtb_inst **calls, size_t n) {
  vtb_func **callee = vtb_xcalloc(n + 1, sizeof *callee);
  for (size_t i = 0; i < n; i++) callee[i] = calls[i]->callee;
  size_t single = 0; /* where what repeats nothing began */
  for (size_t i = 0; i < n;) {
    size_t p = period_of(callee + i, n - i), times = repeats_of(callee + i, n - i, p);
    if (times > 1) {
      if (i > single) print_run(c, seen, calls + single, i - single, 1);
      print_run(c, seen, calls + i, p, times);
      single = i + p * times;
    }
    i += p * times;
  }
  if (n > single) print_run(c, seen, calls + single, n - single, 1);
  vtb_free(callee);
}

void check_print_structure(const check_facts *c) {
  vtb_map seen = {0};
  VTB_VEC(const vtb_inst *) calls = {0};
  for (const vtb_inst *i = c->modes->first; i; i = i->next) {
    if (i->op == VTB_OP_call) {
      vtb_vec_push(&calls, i);
      continue;
    }
    if (vtb_op_get(i->op)->klass != VTB_CLASS_STRUCTURED && i->op != VTB_OP_fold) continue;
    if (calls.n) print_calls(c, &seen, calls.at, calls.n);
    calls.n = 0;
    print_op(c->context, i);
  }
  if (calls.n) print_calls(c, &seen, calls.at, calls.n);
  vtb_vec_free(&calls);
  vtb_map_free(&seen);
}
