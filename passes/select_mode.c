/* select_mode: "auto" becomes a mode and a chunk; the command line's mode replaces the source's.
 *
 *   linscan ... {class="scalar", mode="auto"}
 *   =>
 *   linscan ... {chunk=64, class="scalar", mode="chunkwise"}
 *
 * Each form has a price a token and head in multiply-adds, by coefficients of the target's row
 * (passes/target.c); T tokens, chunks of L, a state of K x V:
 *
 *   products(n)  (K + V) (own + pair n / 2)            pairs of n tokens
 *   parallel     products(T)
 *   chunkwise    products(L) + state K V               in and out of each chunk's state
 *                + byte (4 (K + V) + 8 K V / L)        keys and values are read again, for the
 *                                                      states, which are written and read
 *                + launch / (B h T)                    the states are a kernel more
 *   recurrent    step K V
 *
 * The cheapest is taken; of equal ones the later. On the CPU, where a byte and a launch are
 * nothing, a decay a head is parallel below T = L + 4 K V / (K + V), 192 tokens at K = V = 64; on
 * CUDA below 256 in fp32 and more in fewer bits or small batches. The adjoint does three times the
 * operations and moves twice the states: its boundary is taken to be the same. A full decay has no
 * matrix form and runs step by step. A delta pays a row, R of them a token, with prices of its own:
 * pairs are of rows, and solving for a chunk costs as much as reading it. A linscan whose final
 * states have no use is told so: last=0.
 */
#include "passes/passes_internal.h"

#include <math.h>

#include "ir/recurrence.h"

enum { DEFAULT_CHUNK = 64 };

typedef struct choice {
  const char *mode;
  int64_t chunk;
} choice;

typedef struct sizes {
  double b, t, h, r, k, v;
} sizes;

static sizes sizes_of(const vtb_inst *inst) {
  if (inst->op == VTB_OP_delta) {
    vtb_delta d = vtb_delta_of(inst);
    return (sizes){(double)d.n_batch, (double)d.n_tokens, (double)d.n_heads,
                   (double)d.rank,    (double)d.K,        (double)d.V};
  }
  const vtb_dim *q = inst->operands[0]->type.dim, *v = inst->operands[2]->type.dim;
  return (sizes){(double)q[0].size, (double)q[1].size, (double)q[2].size, 1,
                 (double)q[3].size, (double)v[3].size};
}

static double products(const vtb_scan_costs *c, const sizes *s, double n) {
  return (s->k + s->v) * (c->own + c->pair * n / 2);
}

static double chunkwise(const vtb_costs *costs, const vtb_scan_costs *c, double byte,
                        const sizes *s) {
  double l = (double)c->chunk, state = s->k * s->v;
  return products(c, s, l * s->r) + c->state * state +
         byte * (4 * (s->k + s->v) + 8 * state / (l * s->r)) +
         costs->launch / (s->b * s->h * s->t * s->r);
}

static const vtb_scan_costs *costs_of(const vtb_costs *c, const vtb_inst *inst,
                                      vtb_decay_form form) {
  if (inst->op == VTB_OP_delta) return form == VTB_FORM_VECTOR ? &c->delta_vector : &c->delta;
  if (form != VTB_FORM_VECTOR) return &c->matrix;
  return inst->op == VTB_OP_linscan_grad ? &c->vector_grad : &c->vector;
}

static const vtb_decay *decay_of(const vtb_inst *inst) {
  return inst->op == VTB_OP_delta ? vtb_delta_of(inst).decay : vtb_scan_of(inst).decay;
}

static choice automatic(const vtb_pass_context *context, const vtb_inst *inst) {
  const vtb_target *target = context->target ? context->target : vtb_target_find("cpu");
  vtb_decay_form form = decay_of(inst)->form;
  if (form > VTB_FORM_VECTOR) return (choice){"recurrent", 0};
  const vtb_scan_costs *c = costs_of(&target->costs, inst, form);
  sizes s = sizes_of(inst);
  double chunks = chunkwise(&target->costs, c, target->costs.byte[context->precision], &s);
  double parallel = c->chunks ? INFINITY : products(c, &s, s.t * s.r);
  double steps = c->step > 0 ? c->step * s.k * s.v : INFINITY;
  if (steps < chunks && steps <= parallel) return (choice){"recurrent", 0};
  return parallel < chunks ? (choice){"parallel", 0} : (choice){"chunkwise", c->chunk};
}

static void decide(const vtb_pass_context *c, vtb_inst *inst) {
  choice now = {vtb_attr_str(inst, "mode", "auto"), vtb_attr_int(inst, "chunk", 0)};
  if (c->mode) now.mode = c->mode;
  if (c->chunk > 0) now.chunk = c->chunk;
  if (vtb_streq(now.mode, "auto")) {
    int64_t asked = now.chunk;
    now = automatic(c, inst);
    if (asked > 0 && now.chunk) now.chunk = asked;
  }
  vtb_attr_set(inst, VTB_A_STR("mode", now.mode));
  if (vtb_streq(now.mode, "chunkwise"))
    vtb_attr_set(inst, VTB_A_INT("chunk", now.chunk > 0 ? now.chunk : DEFAULT_CHUNK));
  else
    vtb_attr_remove(inst, "chunk");
}

/* From how many tokens chunks are cheaper than one piece; 0: from the first, or never one piece. */
static int64_t first_chunked(const vtb_target *target, const vtb_inst *inst) {
  const vtb_scan_costs *c = costs_of(&target->costs, inst, decay_of(inst)->form);
  sizes s = sizes_of(inst);
  int64_t below = 0, at = (int64_t)1 << 40;
  while (!c->chunks && at - below > 1) {
    int64_t t = below + (at - below) / 2;
    s.t = (double)t;
    bool chunked = chunkwise(&target->costs, c, target->costs.byte[VTB_PRECISION_FP32], &s) <=
                   products(c, &s, s.t * s.r);
    *(chunked ? &at : &below) = t;
  }
  return c->chunks ? 0 : at;
}

void vtb_mode_reason(const vtb_target *target, const vtb_inst *inst, vtb_strbuf *out) {
  const char *mode = vtb_attr_str(inst, "mode", "auto");
  vtb_pass_context context = {.target = target};
  choice own = automatic(&context, inst);
  int64_t chunk = vtb_attr_int(inst, "chunk", 0), from = 0;
  sizes s = sizes_of(inst);
  if (decay_of(inst)->form <= VTB_FORM_VECTOR) from = first_chunked(target, inst);
  if (inst->op == VTB_OP_delta)
    vtb_strbuf_printf(out, "%.0f correction%s a token, ", s.r, s.r == 1 ? "" : "s");
  vtb_strbuf_printf(out, "%s decay, %s", decay_of(inst)->name, mode);
  if (chunk) vtb_strbuf_printf(out, "(%lld)", (long long)chunk);
  if (!vtb_streq(mode, own.mode) || chunk != own.chunk)
    vtb_strbuf_puts(out, ": as asked");
  else if (decay_of(inst)->form > VTB_FORM_VECTOR)
    vtb_strbuf_puts(out, ": products cannot take such decays together");
  else if (vtb_streq(mode, "recurrent"))
    vtb_strbuf_printf(out, ": steps of a state %.0fx%.0f are cheaper than products", s.k, s.v);
  else if (vtb_streq(mode, "parallel"))
    vtb_strbuf_printf(out, ": cheaper than chunks below %lld tokens", (long long)from);
  else if (from > 0)
    vtb_strbuf_printf(out, ": cheaper than parallel from %lld tokens", (long long)from);
  else
    vtb_strbuf_puts(out, ": cheaper than steps");
}

static bool known_mode(const char *mode) {
  return !mode || vtb_streq(mode, "auto") || vtb_streq(mode, "recurrent") ||
         vtb_streq(mode, "parallel") || vtb_streq(mode, "chunkwise");
}

/* Final states that nobody reads are not computed. Late, because autodiff copies attributes to
 * linscan_grad. */
static void drop_last_states(vtb_func *f) {
  int *uses = vtb_count_uses(f);
  for (vtb_inst *inst = f->first; inst; inst = inst->next)
    if (inst->op == VTB_OP_linscan && !uses[inst->results[1]->id] &&
        (inst->n_results < 4 || !uses[inst->results[3]->id]))
      vtb_attr_set(inst, VTB_A_INT("last", 0));
  vtb_free(uses);
}

vtb_status vtb__pass_select_mode(vtb_pass_context *c, vtb_error *err) {
  if (!known_mode(c->mode))
    return vtb_fail(err, VTB_E_USAGE,
                    "no mode is named \"%s\"; there are auto, recurrent, parallel and chunkwise",
                    c->mode);
  for (vtb_func *f = c->module->first; f; f = f->next) {
    for (vtb_inst *inst = f->first; inst; inst = inst->next)
      if (inst->op == VTB_OP_linscan || inst->op == VTB_OP_linscan_grad || inst->op == VTB_OP_delta)
        decide(c, inst);
    drop_last_states(f);
  }
  return VTB_OK;
}
