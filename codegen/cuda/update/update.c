/* verdict and update (ir/update.h): a launch each phase over all tensors, a block a piece.
 *
 * Operands of an update stand in the regions of its group (codegen/cuda/plan/update.h), which a
 * table of pieces addresses; a verdict's gradients are those of the first group. Numbers of a rule
 * are computed by one thread in double and handed to the others, who compute elements, four each,
 * in float.
 */
#include "codegen/body/rule.h"
#include "ir/ops.h"
#include "codegen/cuda/emitters.h"
#include "codegen/cuda/loop/expr.h"
#include "codegen/cuda/plan/update.h"
#include "ir/rewrite.h"

#include <string.h>

/* A row of the table: first four, fours, elements, tensor, the tensor's first piece and how many it
 * has. */
enum { THREADS = 256, ROW = 6 };

/* ---- pieces ---------------------------------------------------------------------------------- */

static int32_t *make_table(const vtb_cuda_update_group *g, int *n_pieces) {
  vtb_piece *pieces;
  int *first = vtb_xcalloc((size_t)g->u.tensors + 1, sizeof *first);
  *n_pieces = vtb_cut_pieces(g->inst->operands + VTB_UPDATE_LEAD, g->u.tensors, &pieces, first);
  int32_t *rows = vtb_xcalloc((size_t)*n_pieces * ROW + 1, sizeof *rows);
  for (int i = 0; i < *n_pieces; i++) {
    const vtb_piece *p = &pieces[i];
    const int32_t row[ROW] = {(int32_t)((g->slot[p->tensor] + p->begin) / 4),
                              (int32_t)((p->count + 3) / 4),
                              (int32_t)p->count,
                              p->tensor,
                              first[p->tensor],
                              first[p->tensor + 1] - first[p->tensor]};
    memcpy(&rows[i * ROW], row, sizeof row);
  }
  vtb_free(pieces);
  vtb_free(first);
  return rows;
}

static void use_region(vtb_cuda_kernel *k, const vtb_cuda_update_group *g, int kind,
                       const char *name, int access) {
  vtb_cuda_ref ref = {
      .place = VTB_CUDA_STATE, .value = -1, .offset = g->begin[kind], .bytes = g->bytes};
  vtb__cuda_use_ref(k, ref, "float", name, access);
}

/* ---- verdict --------------------------------------------------------------------------------- */

static void emit_norm(vtb_cuda *c, const int32_t *table, int n_pieces, int parts) {
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "grad_norm", "update_norm.cu", THREADS);
  vtb_cuda_include(k, "update.cuh");
  use_region(k, c->groups, 1, "g", VTB_LAUNCH_READ);
  vtb_cuda_table_i32(k, table, (size_t)n_pieces * ROW, "table");
  vtb_cuda_temp_out(k, parts, "double", "parts");
  VTB_CUDA_NUMBERS(k, {"ROW", ROW});
  vtb_cuda_launch(k, n_pieces);
}

void vtb__cuda_verdict(vtb_cuda *c, const vtb_inst *inst) {
  vtb_check(c->groups && c->groups->u.tensors == inst->n_operands - 2, "a verdict of no update");
  int n_pieces;
  int32_t *table = make_table(c->groups, &n_pieces);
  int parts = vtb_cuda_temp(c, n_pieces * (int64_t)sizeof(double));
  emit_norm(c, table, n_pieces, parts);
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "verdict", "update_verdict.cu", THREADS);
  vtb_cuda_include(k, "update.cuh");
  vtb_cuda_temp_in(k, parts, "double", "parts");
  vtb_cuda_in(k, 0, "scalars");
  vtb_cuda_in(k, 1, "loss");
  vtb_cuda_table_i32(k, table, (size_t)n_pieces * ROW, "table");
  vtb_cuda_out(k, inst->n_operands, "verdict");
  VTB_CUDA_NUMBERS(k, {"ROW", ROW}, {"PIECES", n_pieces}, {"SCALE", VTB_SCALAR_SCALE},
                   {"CLIP", VTB_SCALAR_CLIP}, {"FACTOR", VTB_VERDICT_FACTOR},
                   {"COUNTS", VTB_VERDICT_COUNTS}, {"NORM", VTB_VERDICT_NORM},
                   {"CULPRIT", VTB_VERDICT_CULPRIT});
  vtb_cuda_launch(k, 1);
  vtb_free(table);
}

/* ---- rules ----------------------------------------------------------------------------------- */

typedef struct phase {
  vtb_cuda *c;
  vtb_cuda_kernel *k;
  vtb_rule *r;
  int number;
} phase;

static bool is_last(const phase *h) { return h->number == h->r->n_phases - 1; }

static bool is_number(const vtb_inst *i) {
  return !vtb_rule_is_vector(i->results[0]) || i->op == VTB_OP_constant;
}

/* A number is used beside elements: then every thread has it, as a float. */
static bool meets_elements(const phase *h, const vtb_value *number) {
  const vtb_func *f = h->r->func;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    bool adds = vtb_rule_adds(h->r, i->results[0], h->number);
    bool elements = h->r->needed[i->results[0]->id] && !is_number(i);
    for (int k = 0; (adds || elements) && k < i->n_operands; k++)
      if (i->operands[k] == number) return true;
  }
  return is_last(h) && vtb_is_returned(number);
}

/* $, @ and # are the operands. */
static const char *const double_ops[VTB_OP_COUNT] = {
    [VTB_OP_neg] = "-$",
    [VTB_OP_abs] = "$ < 0.0 ? -$ : $",
    [VTB_OP_square] = "$ * $",
    [VTB_OP_exp] = "vtb_exp64($)",
    [VTB_OP_log] = "vtb_log64($)",
    [VTB_OP_sqrt] = "vtb_sqrt64($)",
    [VTB_OP_rsqrt] = "1.0 / vtb_sqrt64($)",
    [VTB_OP_pow] = "vtb_pow64($, @)",
    [VTB_OP_add] = "$ + @",
    [VTB_OP_sub] = "$ - @",
    [VTB_OP_mul] = "$ * @",
    [VTB_OP_div] = "$ / @",
    [VTB_OP_max] = "$ > @ ? $ : @",
    [VTB_OP_min] = "$ < @ ? $ : @",
    [VTB_OP_gt] = "$ > @ ? 1.0 : 0.0",
    [VTB_OP_ge] = "$ >= @ ? 1.0 : 0.0",
    [VTB_OP_eq] = "$ == @ ? 1.0 : 0.0",
    [VTB_OP_select] = "$ != 0.0 ? @ : #",
    [VTB_OP_broadcast] = "$",
};

/* The operation's text with its operands' names, which are of `letter` and their ids, in it. */
static void put_operation(vtb_strbuf *s, const char *form, const vtb_inst *i, const char *letter,
                          const char *close) {
  for (; *form; form++) {
    int operand = *form == '$' ? 0 : *form == '@' ? 1 : *form == '#' ? 2 : -1;
    if (operand >= 0)
      vtb_strbuf_printf(s, "%s%d%s", letter, i->operands[operand]->id, close);
    else
      vtb_strbuf_putc(s, *form);
  }
}

static void declare_number(phase *h, const vtb_inst *i) {
  vtb_strbuf s = {0};
  if (i->op == VTB_OP_constant) {
    double v = vtb_attr_float(i, "value", 0);
    char digits[40];
    snprintf(digits, sizeof digits, "%.17g", v);
    vtb_strbuf_printf(&s, "%s%s", digits, strpbrk(digits, ".en") ? "" : ".0");
  } else if (double_ops[i->op]) {
    put_operation(&s, double_ops[i->op], i, "d", "");
  } else { /* no arithmetic: in float */
    put_operation(&s, vtb__cuda_float_form(i->op), i, "(float)(d", ")");
  }
  vtb_cuda_line(h->k, "const double d%d = %s;", i->results[0]->id, s.at);
  vtb_strbuf_free(&s);
}

static void declare_row(phase *h, const vtb_value *v, const char *text) {
  if (h->r->needed[v->id]) vtb_cuda_line(h->k, "const double d%d = %s;", v->id, text);
}

static void declare_scalars(phase *h) {
  vtb_value **lead = h->r->func->args + h->r->n_vectors;
  vtb_arena *a = &h->c->arena;
  if (h->r->needed[lead[1]->id] || h->r->needed[lead[2]->id]) vtb_cuda_in(h->k, 1, "rates");
  declare_row(h, lead[0], vtb_arena_printf(a, "verdict[%d]", VTB_VERDICT_FACTOR));
  declare_row(h, lead[1], "rates[2 * tensor]");
  declare_row(h, lead[2], "rates[2 * tensor + 1]");
  for (int i = 0; i < h->r->u.scalars; i++) {
    const vtb_value *v = lead[VTB_RULE_LEAD + i];
    if (!h->r->needed[v->id]) continue;
    vtb_cuda_in(h->k, 0, "scalars");
    declare_row(h, v, vtb_arena_printf(a, "(double)scalars[%d] + scalars[%d]", 2 * i, 2 * i + 1));
  }
}

/* Sums that are known: every thread gets them. */
static void declare_sums(phase *h) {
  for (const vtb_inst *i = h->r->func->first; i; i = i->next) {
    int id = i->results[0]->id;
    if (h->r->sum[id] >= 0 && h->r->needed[id])
      vtb_cuda_line(h->k,
                    "const double d%d = vtb_sum_parts<%d>(lanes, parts, from, pieces, %d, %d);", id,
                    THREADS, h->r->n_sums, h->r->sum[id]);
  }
}

/* Calls `each` with every number that meets elements and its place among them; returns how many. */
typedef void (*number_fn)(phase *h, const vtb_value *v, int at);
static int each_number(phase *h, number_fn each) {
  const vtb_func *f = h->r->func;
  int n = 0;
  for (int i = h->r->n_vectors; i < f->n_args; i++)
    if (meets_elements(h, f->args[i])) each(h, f->args[i], n++);
  for (const vtb_inst *i = f->first; i; i = i->next)
    if (is_number(i) && h->r->needed[i->results[0]->id] && meets_elements(h, i->results[0]))
      each(h, i->results[0], n++);
  return n;
}

static void hand_on(phase *h, const vtb_value *v, int at) {
  vtb_cuda_line(h->k, "numbers[%d] = (float)d%d;", at, v->id);
}
static void take(phase *h, const vtb_value *v, int at) {
  vtb_cuda_line(h->k, "const float x%d = numbers[%d];", v->id, at);
}
static void count(phase *h, const vtb_value *v, int at) { (void)h, (void)v, (void)at; }

static void emit_numbers(phase *h) {
  declare_sums(h);
  int n = each_number(h, count);
  vtb_cuda_shared(h->k, "float", 4, "numbers", n ? n : 1);
  vtb_cuda_open(h->k, "if (vtb_tid() == 0)");
  declare_scalars(h);
  for (const vtb_inst *i = h->r->func->first; i; i = i->next) {
    int id = i->results[0]->id;
    if (h->r->needed[id] && is_number(i) && h->r->sum[id] < 0) declare_number(h, i);
  }
  each_number(h, hand_on);
  vtb_cuda_close(h->k);
  vtb_cuda_line(h->k, "vtb_sync();");
  each_number(h, take);
}

static void declare_element(phase *h, const vtb_inst *i) {
  vtb_strbuf s = {0};
  if (i->op == VTB_OP_select)
    put_operation(&s, "vtb_select4(vtb_splat($), vtb_splat(@), vtb_splat(#))", i, "x", "");
  else if (i->op == VTB_OP_broadcast)
    put_operation(&s, "vtb_splat($)", i, "x", "");
  else
    put_operation(&s, vtb__cuda_float_form(i->op), i, "x", "");
  vtb_cuda_line(h->k, "const vtb_f4 x%d = %s;", i->results[0]->id, s.at);
  vtb_strbuf_free(&s);
}

/* Padding of a tensor counts for nothing. */
static void add_up(phase *h, const vtb_inst *i) {
  int sum = i->results[0]->id, x = i->operands[0]->id;
  vtb_cuda_line(h->k, "const vtb_f4 y%d = vtb_splat(x%d);", sum, x);
  vtb_cuda_line(h->k,
                "s%d += ((double)y%d.x + (left > 1 ? y%d.y : 0.0f)) + "
                "((double)(left > 2 ? y%d.z : 0.0f) + (left > 3 ? y%d.w : 0.0f));",
                sum, sum, sum, sum, sum);
}

static void emit_elements(phase *h) {
  const vtb_func *f = h->r->func;
  for (const vtb_inst *i = f->first; i; i = i->next)
    if (vtb_rule_adds(h->r, i->results[0], h->number))
      vtb_cuda_line(h->k, "double s%d = 0.0;", i->results[0]->id);
  vtb_cuda_open(h->k, "for (int i = vtb_tid(); i < fours; i += %d)", THREADS);
  vtb_cuda_line(h->k, "const vtb_i64 at = first + i * 4;");
  if (!is_last(h)) vtb_cuda_line(h->k, "const int left = elements - i * 4;");
  for (int i = 0; i < h->r->n_vectors; i++)
    if (h->r->needed[f->args[i]->id])
      vtb_cuda_line(h->k, "const vtb_f4 x%d = vtb_load4(p%d, at);", f->args[i]->id, i);
  for (const vtb_inst *i = f->first; i; i = i->next) {
    if (h->r->needed[i->results[0]->id] && !is_number(i)) declare_element(h, i);
    if (vtb_rule_adds(h->r, i->results[0], h->number)) add_up(h, i);
  }
  for (int i = 0; is_last(h) && i < f->n_returns; i++)
    vtb_cuda_line(h->k, "vtb_store4(p%d, at, vtb_splat(x%d));", i ? i + 1 : 0, f->returns[i]->id);
  vtb_cuda_close(h->k);
}

static void store_parts(phase *h) {
  for (const vtb_inst *i = h->r->func->first; i; i = i->next) {
    int id = i->results[0]->id;
    if (!vtb_rule_adds(h->r, i->results[0], h->number)) continue;
    vtb_cuda_line(h->k, "s%d = vtb_block_sum<%d>(lanes, s%d);", id, THREADS, id);
    vtb_cuda_line(h->k, "if (vtb_tid() == 0) parts[vtb_block() * %d + %d] = s%d;", h->r->n_sums,
                  h->r->sum[id], id);
  }
}

/* Regions that the phase reads or writes, as p0, p1 ... */
static void use_regions(phase *h, const vtb_cuda_update_group *g) {
  const vtb_func *f = h->r->func;
  for (int i = 0; i < h->r->n_vectors; i++) {
    bool writes = is_last(h) && i != 1 && i < 2 + h->r->u.states;
    int access =
        (h->r->needed[f->args[i]->id] ? VTB_LAUNCH_READ : 0) | (writes ? VTB_LAUNCH_WRITE : 0);
    if (access) use_region(h->k, g, i, vtb_arena_printf(&h->c->arena, "p%d", i), access);
  }
}

static void emit_phase(phase *h, const vtb_cuda_update_group *g, const int32_t *table, int n_pieces,
                       int parts) {
  static const char *const columns[] = {"fours", "elements", "tensor", "from", "pieces"};
  vtb_rule_begin(h->r, h->number);
  vtb_cuda_kernel *k = h->k = vtb_cuda_begin(h->c, h->r->func->name, THREADS);
  use_regions(h, g);
  vtb_cuda_table_i32(k, table, (size_t)n_pieces * ROW, "table");
  vtb_cuda_in(k, 2, "verdict");
  if (h->r->n_sums) vtb_cuda_include(k, "update.cuh");
  if (h->r->n_sums) vtb_cuda_shared(k, "double", 8, "lanes", THREADS);
  int access = (h->number ? VTB_LAUNCH_READ : 0) | (is_last(h) ? 0 : VTB_LAUNCH_WRITE);
  if (access) vtb__cuda_use_temp(k, parts, "double", "parts", access);
  vtb_cuda_line(k, "const vtb_i64 first = (vtb_i64)table[vtb_block() * %d] * 4;", ROW);
  for (int i = 0; i < ROW - 1; i++)
    vtb_cuda_line(k, "const int %s = table[vtb_block() * %d + %d];", columns[i], ROW, i + 1);
  vtb_cuda_line(k, "(void)elements, (void)tensor, (void)from, (void)pieces;");
  vtb_cuda_line(k, "if (verdict[%d] == 0.0f) return;", VTB_VERDICT_COUNTS);
  emit_numbers(h);
  emit_elements(h);
  store_parts(h);
  vtb_cuda_launch(k, n_pieces);
}

void vtb__cuda_update(vtb_cuda *c, const vtb_inst *inst) {
  const vtb_cuda_update_group *g = vtb__cuda_group_of(c, inst);
  vtb_rule r;
  int n_pieces;
  vtb_rule_open(inst, &r);
  int32_t *table = make_table(g, &n_pieces);
  int parts = r.n_sums ? vtb_cuda_temp(c, n_pieces * (int64_t)sizeof(double) * r.n_sums) : -1;
  for (int p = 0; p < r.n_phases; p++)
    emit_phase(&(phase){c, NULL, &r, p}, g, table, n_pieces, parts);
  vtb_free(table);
  vtb_rule_close(&r);
}
