/* Questions are kept by their text: the op, its attributes, the types, and the same of the body.
 * What is taken has a plan for every architecture, too: a module is decided once and built for
 * all. */
#include "codegen/ask.h"

#include <string.h>

#include "codegen/estimate.h"

typedef struct planner {
  vtb_asker head;
  vtb_plan_fn plan;
  vtb_codegen_options code;
  vtb_gpu gpu;
  vtb_map known; /* question -> vtb_answer */
  vtb_arena arena;
  vtb_strbuf question;
} planner;

/* ---- the question as text -------------------------------------------------------------------- */

static void put_type(const vtb_type *t, vtb_strbuf *out) {
  vtb_strbuf_printf(out, "%s[", vtb_dtype_name(t->dtype));
  for (int a = 0; a < t->rank; a++) vtb_strbuf_printf(out, "%lld ", (long long)t->dim[a].size);
  vtb_strbuf_puts(out, "]");
}

static void put_attr(const vtb_attr *a, vtb_strbuf *out) {
  char buffer[VTB_SPEC_SIZE];
  vtb_strbuf_printf(out, " %s=", a->key);
  switch (a->kind) {
  case VTB_ATTR_INT:
    vtb_strbuf_printf(out, "%lld", (long long)a->i);
    break;
  case VTB_ATTR_FLOAT:
    vtb_strbuf_printf(out, "%.17g", a->f);
    break;
  case VTB_ATTR_STR:
    vtb_strbuf_printf(out, "'%s'", vtb_attr_text(a, buffer));
    break;
  case VTB_ATTR_INTS:
    for (int i = 0; i < a->n; i++) vtb_strbuf_printf(out, "%lld ", (long long)a->ints[i]);
    break;
  case VTB_ATTR_FLOATS:
    for (int i = 0; i < a->n; i++) vtb_strbuf_printf(out, "%.17g ", a->floats[i]);
    break;
  }
}

static void put_body(const vtb_func *f, vtb_strbuf *out);

static void put_op(const vtb_inst *i, vtb_strbuf *out) {
  vtb_strbuf_puts(out, vtb_op_get(i->op)->name);
  for (int a = 0; a < i->n_attrs; a++) put_attr(&i->attrs[a], out);
  for (int r = 0; r < i->n_results; r++) put_type(&i->results[r]->type, out);
  if (i->callee) put_body(i->callee, out);
}

/* Values by number: arguments, then results in the order of the instructions. */
static void put_body(const vtb_func *f, vtb_strbuf *out) {
  int *number = vtb_xcalloc((size_t)f->n_values + 1, sizeof *number), n = 0;
  vtb_strbuf_puts(out, " {");
  for (int a = 0; a < f->n_args; a++) {
    number[f->args[a]->id] = n++;
    put_type(&f->args[a]->type, out);
  }
  for (const vtb_inst *i = f->first; i; i = i->next) {
    vtb_strbuf_putc(out, '\n');
    for (int o = 0; o < i->n_operands; o++)
      vtb_strbuf_printf(out, "%d ", number[i->operands[o]->id]);
    put_op(i, out);
    for (int r = 0; r < i->n_results; r++) number[i->results[r]->id] = n++;
  }
  vtb_strbuf_puts(out, "\n->");
  for (int r = 0; r < f->n_returns; r++) vtb_strbuf_printf(out, " %d", number[f->returns[r]->id]);
  vtb_strbuf_puts(out, " }");
  vtb_free(number);
}

/* The first operand that is the same value. */
static int first_of(const vtb_inst *i, int o) {
  int first = 0;
  while (i->operands[first] != i->operands[o]) first++;
  return first;
}

static bool is_read(const vtb_value *v) {
  vtb_inst **readers;
  bool read = vtb_value_readers(v, &readers) > 0;
  vtb_free(readers);
  for (int r = 0; r < v->func->n_returns; r++) read |= v->func->returns[r] == v;
  return read;
}

/* Kernels may leave out what nobody reads beside results that are read. Of an instruction that
 * stands nowhere yet all are wanted, but for states that are not computed. */
static bool is_wanted(const vtb_inst *i, int r) {
  bool any = false;
  for (int n = 0; n < i->n_results && !any; n++) any = is_read(i->results[n]);
  if (any) return is_read(i->results[r]);
  return i->op != VTB_OP_linscan || vtb_attr_int(i, "last", 1) || r % 2 == 0;
}

static const char *question_of(planner *p, const vtb_inst *i) {
  vtb_strbuf *out = &p->question;
  out->n = 0;
  vtb_strbuf_puts(out, p->head.narrow ? "narrow " : "");
  for (int o = 0; o < i->n_operands; o++) {
    vtb_strbuf_printf(out, "%d", first_of(i, o));
    put_type(&i->operands[o]->type, out);
  }
  for (int r = 0; r < i->n_results; r++) vtb_strbuf_putc(out, is_wanted(i, r) ? '+' : '-');
  put_op(i, out);
  return out->at;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* A function of the instruction alone. */
static vtb_func *function_of(vtb_module *m, const vtb_inst *i) {
  vtb_func *f = vtb_func_new(m, "asked", VTB_FUNC_PLAIN, VTB_NO_SPAN);
  vtb_builder b = {.module = m, .func = f};
  vtb_value **operands = vtb_xcalloc((size_t)i->n_operands + 1, sizeof *operands);
  vtb_value **returns = vtb_xcalloc((size_t)i->n_results + 1, sizeof *returns);
  int n = 0;
  for (int o = 0; o < i->n_operands; o++) {
    int first = first_of(i, o);
    operands[o] = first < o ? operands[first] : vtb_func_add_arg(f, "x", i->operands[o]->type);
  }
  vtb_inst *copy = vtb_inst_clone(&b, i, operands);
  if (i->callee) copy->callee = vtb_func_clone(i->callee, m, "body");
  for (int r = 0; r < i->n_results; r++) {
    copy->results[r]->type = i->results[r]->type;
    if (is_wanted(i, r)) returns[n++] = copy->results[r];
  }
  vtb_func_set_returns(f, returns, NULL, n);
  m->entry = f;
  vtb_free(operands);
  vtb_free(returns);
  return f;
}

/* What plans' errors say of a refusal, without the instruction, which whoever asks knows. */
static const char *reason(planner *p, const char *text) {
  const char *end = strstr(text, " (no ");
  return vtb_arena_strndup(&p->arena, text, end ? (size_t)(end - text) : strlen(text));
}

static vtb_answer answer(planner *p, const vtb_inst *i) {
  vtb_module *m = vtb_module_new("asked");
  vtb_func *f = function_of(m, i);
  vtb_launch_plan *plan = NULL;
  vtb_error err = {0};
  vtb_answer a = {0};
  if (p->head.narrow) vtb_storage_guess(f, p->code.precision);
  vtb_launch_plan *other = NULL;
  vtb_codegen_options every = p->code;
  every.arch = NULL;
  vtb_status status = p->plan(m, f, &p->code, &plan, &err);
  if (status == VTB_OK && p->code.arch) status = p->plan(m, f, &every, &other, &err);
  if (status == VTB_OK) {
    vtb_estimate e = vtb_estimate_plan(plan, &p->gpu, NULL);
    a = (vtb_answer){
        .takes = true, .seconds = e.seconds, .bytes = e.bytes, .launches = (int)e.launches};
  } else {
    a.why = reason(p, err.text);
  }
  vtb_launch_plan_free(plan);
  vtb_launch_plan_free(other);
  vtb_module_free(m);
  return a;
}

static vtb_answer ask(vtb_asker *a, const vtb_inst *inst) {
  planner *p = (planner *)a;
  const char *question = question_of(p, inst);
  vtb_answer *known = vtb_map_get(&p->known, question);
  a->asked++;
  if (known) return *known;
  a->made++;
  known = VTB_NEW(&p->arena, vtb_answer);
  *known = answer(p, inst);
  vtb_map_set(&p->known, question, known);
  return *known;
}

static void free_all(vtb_asker *a) {
  planner *p = (planner *)a;
  vtb_map_free(&p->known);
  vtb_strbuf_free(&p->question);
  vtb_arena_free(&p->arena);
  vtb_free(p);
}

vtb_asker *vtb_asker_of_plans(vtb_plan_fn plan, const vtb_codegen_options *o) {
  planner *p = vtb_xcalloc(1, sizeof *p);
  *p = (planner){.head = {.ask = ask, .free = free_all},
                 .plan = plan,
                 .code = *o,
                 .gpu = *vtb_gpu_or_default(&o->gpu)};
  p->code.arch = *p->gpu.arch ? p->gpu.arch : NULL;
  vtb_arena_init(&p->arena);
  return &p->head;
}
