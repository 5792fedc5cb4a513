/* The interpreter: tensors, frames, dispatch from the op table, calls. The ops are in interp_*.c.
 *
 * A frame holds the tensors of one function and frees each after its last use; callees run in
 * frames of their own on borrowed arguments.
 */
#include "ir/attention.h"
#include "ir/ops.h"
#include "ir/interp_internal.h"
#include "ir/recurrence.h"

static const vtb__interp_fn table[] = {
#define VTB_OP(name, klass, min, max, shape, interp, ...) vtb__interp_##interp,
#include "ir/ops.def"
#undef VTB_OP
};

vtb_tensor vtb_tensor_new(vtb_type type) {
  return (vtb_tensor){type, vtb_xcalloc((size_t)vtb_type_count(&type), sizeof(double))};
}

void vtb_tensor_free(vtb_tensor *t) {
  vtb_free(t->data);
  t->data = NULL;
}

vtb_type vtb__resolve(const vtb__machine *m, const vtb_type *t) {
  vtb_type r = *t;
  for (int i = 0; i < r.rank; i++) r.dim[i].size = vtb_bound_size(r.dim[i].size, m->batch);
  return r;
}

/* ---- frames ---------------------------------------------------------------------------------- */

void vtb__frame_init(vtb__interp_frame *f, const vtb_func *func, bool keep_all) {
  size_t n = (size_t)func->n_values + 1;
  *f = (vtb__interp_frame){.func = func};
  f->t = vtb_xcalloc(n, sizeof *f->t);
  f->borrowed = vtb_xcalloc(n, sizeof *f->borrowed);
  f->uses = keep_all ? NULL : vtb_count_uses((vtb_func *)func);
}

static void drop(vtb__interp_frame *f, int id) {
  if (!f->borrowed[id]) vtb_free(f->t[id].data);
  f->t[id].data = NULL;
}

void vtb__frame_free(vtb__interp_frame *f) {
  for (int id = 0; id < f->func->n_values; id++) drop(f, id);
  vtb_free(f->t);
  vtb_free(f->borrowed);
  vtb_free(f->uses);
}

static void drop_dead(vtb__interp_frame *f, const vtb_inst *inst) {
  if (!f->uses) return;
  for (int i = 0; i < inst->n_operands; i++)
    if (--f->uses[inst->operands[i]->id] == 0) drop(f, inst->operands[i]->id);
  for (int i = 0; i < inst->n_results; i++)
    if (f->uses[inst->results[i]->id] == 0) drop(f, inst->results[i]->id);
}

#define FEW 8

static void round_result(const vtb__machine *m, vtb_tensor *t) {
  int64_t n = vtb_type_count(&t->type);
  int bits = m->options ? m->options->bits : 0;
  if (vtb_is_half(t->type.dtype))
    for (int64_t i = 0; i < n; i++) t->data[i] = vtb_round_stored(t->data[i], t->type.dtype);
  else if (bits && t->type.dtype == VTB_F32)
    for (int64_t i = 0; i < n; i++) t->data[i] = vtb_round_bits(t->data[i], bits);
}

static bool watched(vtb__machine *m, const vtb_inst *inst, vtb_tensor *const *out) {
  if (m->silent || !m->options || !m->options->watch) return true;
  for (int i = 0; i < inst->n_results; i++)
    if (!m->options->watch(m->options->user, inst->results[i], out[i])) return false;
  return true;
}

/* ---- factors --------------------------------------------------------------------------------- */

/* Which operands a recurrence's or an attention's products round, as the instruction says. */
static bool is_factor(const vtb_inst *inst, int operand) {
  if (inst->op == VTB_OP_linscan || inst->op == VTB_OP_linscan_grad) {
    vtb_scan_tensors t = vtb_scan_of(inst).at;
    return operand == t.q || operand == t.k || operand == t.v || operand == t.dy;
  }
  if (inst->op == VTB_OP_attention || inst->op == VTB_OP_attention_grad)
    return operand < 3 || operand == vtb_attention_of(inst).dy;
  return false; /* an einsum rounds as it reads */
}

/* The operands with factors rounded, in `copies`; those without data are as they were. */
static void round_factors(const vtb_inst *inst, vtb_tensor **in, vtb_tensor *copies) {
  vtb_factors factors = vtb_factors_of(inst);
  for (int o = 0; factors != VTB_FACTORS_FP32 && o < inst->n_operands && o < FEW; o++) {
    if (!is_factor(inst, o)) continue;
    copies[o] = vtb_tensor_new(in[o]->type);
    for (int64_t i = vtb_type_count(&in[o]->type); i-- > 0;)
      copies[o].data[i] = vtb_round_factor(in[o]->data[i], factors);
    in[o] = &copies[o];
  }
}

static vtb_status run_inst(vtb__machine *m, vtb__interp_frame *f, const vtb_inst *inst) {
  vtb_tensor *few[2 * FEW], **in = few;
  int n = inst->n_operands + inst->n_results;
  if (n > 2 * FEW) in = vtb_xmalloc((size_t)n * sizeof *in);
  vtb_tensor **out = in + inst->n_operands;
  for (int i = 0; i < inst->n_operands; i++) in[i] = &f->t[inst->operands[i]->id];
  for (int i = 0; i < inst->n_results; i++) {
    out[i] = &f->t[inst->results[i]->id];
    if (!out[i]->data) *out[i] = vtb_tensor_new(vtb__resolve(m, &inst->results[i]->type));
  }
  vtb_tensor rounded[FEW] = {0};
  round_factors(inst, in, rounded);
  vtb__interp_eval e = {m, f, inst, in, out};
  vtb_status status = table[inst->op](&e);
  for (int i = 0; i < FEW; i++) vtb_tensor_free(&rounded[i]);
  if (status == VTB_OK && m->held && inst->op == VTB_OP_stop_gradient) vtb__hold(m->held, out[0]);
  for (int i = 0; status == VTB_OK && i < inst->n_results; i++) round_result(m, out[i]);
  if (status == VTB_OK && !watched(m, inst, out))
    status = vtb_fail(m->err, VTB_E_NUMBERS, "stopped at %%%s in @%s",
                      inst->n_results ? inst->results[0]->name : "", f->func->name);
  if (in != few) vtb_free(in);
  return status;
}

vtb_status vtb__frame_run(vtb__machine *m, vtb__interp_frame *f) {
  for (const vtb_inst *inst = f->func->first; inst; inst = inst->next) {
    vtb_status status = run_inst(m, f, inst);
    if (status) return status;
    drop_dead(f, inst);
  }
  return VTB_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

vtb_status vtb__interp_callee(vtb__interp_eval *e, vtb_tensor *const *in, vtb_tensor *const *out) {
  const vtb_func *callee = e->inst->callee;
  if (e->machine->depth >= VTB__MAX_CALL_DEPTH)
    return vtb_fail(e->machine->err, VTB_E_INPUT, "calls nest too deeply at @%s", callee->name);
  vtb__interp_frame f;
  vtb__frame_init(&f, callee, false);
  for (int i = 0; i < callee->n_args; i++) {
    f.t[callee->args[i]->id] = *in[i];
    f.borrowed[callee->args[i]->id] = true;
  }
  e->machine->depth++;
  vtb_status status = vtb__frame_run(e->machine, &f);
  e->machine->depth--;
  for (int i = 0; status == VTB_OK && i < callee->n_returns; i++) {
    const vtb_tensor *r = &f.t[callee->returns[i]->id];
    memcpy(out[i]->data, r->data, (size_t)vtb_type_count(&r->type) * sizeof(double));
  }
  vtb__frame_free(&f);
  return status;
}

vtb_status vtb__interp_call(vtb__interp_eval *e) { return vtb__interp_callee(e, e->in, e->out); }

vtb_status vtb__interp_sum_ranks(vtb__interp_eval *e) {
  const vtb_interp_options *o = e->machine->options;
  int64_t n = vtb_type_count(&e->out[0]->type);
  memcpy(e->out[0]->data, e->in[0]->data, (size_t)n * sizeof(double));
  bool wanted = e->inst->n_operands == 1 || e->in[1]->data[0] != 0;
  if (o && o->sum && wanted) o->sum(o->user, e->out[0]->data, n);
  return VTB_OK;
}

vtb_status vtb__interp_tap(vtb__interp_eval *e) {
  memcpy(e->out[0]->data, e->in[0]->data,
         (size_t)vtb_type_count(&e->out[0]->type) * sizeof(double));
  return VTB_OK;
}

/* ---- entry ----------------------------------------------------------------------------------- */

static int64_t find_batch(const vtb_func *f, const vtb_tensor *args, const vtb_interp_options *o) {
  if (o && o->batch > 0) return o->batch;
  for (int i = 0; i < f->n_args; i++)
    for (int k = 0; k < f->args[i]->type.rank && k < args[i].type.rank; k++)
      if (vtb_is_batch(f->args[i]->type.dim[k].size))
        return args[i].type.dim[k].size / vtb_batches(f->args[i]->type.dim[k].size);
  return 1;
}

static vtb_status check_args(const vtb__machine *m, const vtb_func *f, const vtb_tensor *args) {
  for (int i = 0; i < f->n_args; i++) {
    vtb_type want = vtb__resolve(m, &f->args[i]->type);
    if (args[i].data && vtb_type_equal(&want, &args[i].type)) continue;
    vtb_strbuf a = {0}, b = {0};
    vtb_type_print(&want, &a);
    vtb_type_print(&args[i].type, &b);
    vtb_status status = vtb_fail(m->err, VTB_E_INPUT, "@%s: argument %s is %s, got %s", f->name,
                                 f->args[i]->name, a.at, b.at);
    vtb_strbuf_free(&a);
    vtb_strbuf_free(&b);
    return status;
  }
  return VTB_OK;
}

vtb_status vtb_interpret(vtb_func *f, const vtb_tensor *args, vtb_tensor *results,
                         const vtb_interp_options *options, vtb_error *err) {
  vtb__machine m = {.batch = find_batch(f, args, options), .options = options, .err = err};
  vtb_status status = check_args(&m, f, args);
  if (status) return status;
  vtb__interp_frame frame;
  vtb__frame_init(&frame, f, false);
  for (int i = 0; i < f->n_args; i++) {
    frame.t[f->args[i]->id] = args[i];
    frame.borrowed[f->args[i]->id] = true;
  }
  status = vtb__frame_run(&m, &frame);
  for (int i = 0; status == VTB_OK && i < f->n_returns; i++) {
    const vtb_tensor *r = &frame.t[f->returns[i]->id];
    results[i] = vtb_tensor_new(vtb__resolve(&m, &f->returns[i]->type));
    memcpy(results[i].data, r->data, (size_t)vtb_type_count(&results[i].type) * sizeof(double));
  }
  vtb__frame_free(&frame);
  return status;
}
