/* select_mode: "auto" becomes a mode and a chunk; the command line's mode replaces the source's.
 *
 *   linscan ... {class="scalar", mode="auto"}
 *   =>
 *   linscan ... {chunk=16, class="scalar", mode="chunkwise"}
 *
 * On a GPU a decay a head has the form whose launches take least by the model of passes/cost/gpu.h
 * (passes/cost/scan_gpu.c); chunks that nobody set have 64, 128 or 256 tokens.
 *
 * Elsewhere, and of other classes, each form has a price a token and head in multiply-adds, by
 * coefficients of the target's row (passes/target.c); T tokens, chunks of L, a state of K x V:
 *
 *   products(n)  (K + V) (own + pair n / 2)            pairs of n tokens
 *   parallel     products(T)
 *   chunkwise    products(L) + state K V               in and out of each chunk's state
 *                + turn K V / L                        which is kept, loaded, decayed
 *   recurrent    step K V
 *
 * The cheapest is taken; of equal ones the later. A chunk that nobody set has the L for which the
 * last is least, about sqrt(2 turn K V / ((K + V) pair)), or the target's own. On the CPU a decay a
 * head is parallel below 144 tokens at K = V = 64. A full decay has no matrix form and runs step by
 * step. A delta pays a row, R of them a token, with prices of its own: pairs are of rows, and
 * solving for a chunk costs as much as reading it. A linscan whose final states have no use is told
 * so: last=0.
 *
 * Where the forms were measured (passes/cost/tuning.h) the fastest is taken instead, or the one
 * above if it is as fast.
 */
#include "passes/passes_internal.h"

#include <math.h>

#include "ir/fold.h"
#include "ir/recurrence.h"
#include "passes/cost/scan_gpu.h"
#include "runtime/base/names.h"

enum { LEAST_CHUNK = 16, MOST_CHUNK = 256 };

typedef struct choice {
  const char *mode;
  int64_t chunk;
} choice;

static double products(const vtb_scan_costs *c, const vtb_tuning_key *s, double n) {
  return (double)(s->K + s->V) * (c->own + c->pair * n / 2);
}

/* Tokens of a chunk where nobody says. */
static int64_t chunk_of(const vtb_scan_costs *c, const vtb_tuning_key *s) {
  if (c->chunk) return c->chunk;
  int64_t chunk = LEAST_CHUNK;
  double best = sqrt(2 * c->turn * (double)(s->K * s->V) / ((double)(s->K + s->V) * c->pair));
  while (chunk < MOST_CHUNK && (double)chunk * sqrt(2) < best) chunk *= 2;
  return chunk;
}

static double chunkwise(const vtb_scan_costs *c, const vtb_tuning_key *s) {
  double rows = (double)(chunk_of(c, s) * s->rank), state = (double)(s->K * s->V);
  return products(c, s, rows) + c->state * state + c->turn * state / rows;
}

static const vtb_scan_costs *costs_of(const vtb_costs *c, const vtb_inst *inst,
                                      vtb_decay_form form) {
  if (inst->op == VTB_OP_delta) return form == VTB_FORM_VECTOR ? &c->delta_vector : &c->delta;
  bool grad = inst->op == VTB_OP_linscan_grad;
  if (form != VTB_FORM_VECTOR) return grad ? &c->matrix_grad : &c->matrix;
  return grad ? &c->vector_grad : &c->vector;
}

static const vtb_decay *decay_of(const vtb_inst *inst) {
  return inst->op == VTB_OP_delta ? vtb_delta_of(inst).decay : vtb_scan_of(inst).decay;
}

static const vtb_target *target_of(const vtb_pass_context *c) {
  return c->target ? c->target : vtb_target_find("cpu");
}

/* Sizes, and what was measured of them. */
static vtb_tuning_key key_of(const vtb_pass_context *c, const vtb_inst *inst) {
  return vtb_tuning_key_of(inst, target_of(c), c->precision, c->threads ? c->threads : 1);
}

/* ---- on a GPU -------------------------------------------------------------------------------- */

static bool by_launches(const vtb_target *t, const vtb_inst *inst) {
  return t->costs.by_launches && inst->op != VTB_OP_delta &&
         decay_of(inst)->form == VTB_FORM_PRODUCTS;
}

static double seconds_of(const vtb_pass_context *c, const vtb_inst *inst, int64_t chunk) {
  vtb_tuning_key s = key_of(c, inst);
  bool grad = inst->op == VTB_OP_linscan_grad;
  return vtb_gpu_scan_seconds(vtb_gpu_or_default(&c->gpu), &s, grad, chunk);
}

static int64_t best_chunk(const vtb_pass_context *c, const vtb_inst *inst) {
  static const int64_t chunks[] = {64, 128, 256};
  int64_t best = chunks[0];
  for (int i = 1; i < 3 && chunks[i] < key_of(c, inst).tokens; i++)
    if (seconds_of(c, inst, chunks[i]) < seconds_of(c, inst, best)) best = chunks[i];
  return best;
}

static choice of_least_time(const vtb_pass_context *c, const vtb_inst *inst) {
  int64_t chunk = best_chunk(c, inst);
  bool chunks =
      chunk < key_of(c, inst).tokens && seconds_of(c, inst, chunk) < seconds_of(c, inst, 0);
  return chunks ? (choice){"chunkwise", chunk} : (choice){"parallel", 0};
}

/* The form that prices choose. */
static choice modelled(const vtb_pass_context *context, const vtb_inst *inst) {
  const vtb_target *target = target_of(context);
  const vtb_scan_costs *c = costs_of(&target->costs, inst, decay_of(inst)->form);
  vtb_tuning_key s = key_of(context, inst);
  if (by_launches(target, inst)) return of_least_time(context, inst);
  double chunks = chunkwise(c, &s);
  double parallel = c->chunks ? INFINITY : products(c, &s, (double)(s.tokens * s.rank));
  double steps = c->step > 0 ? c->step * (double)(s.K * s.V) : INFINITY;
  if (steps < chunks && steps <= parallel) return (choice){"recurrent", 0};
  return parallel < chunks ? (choice){"parallel", 0} : (choice){"chunkwise", chunk_of(c, &s)};
}

/* Times this near each other may as well be equal: then tuning changes nothing. */
#define NOISE 1.03

static void prefer(choice model, double seconds, vtb_tuned *best) {
  if (!(seconds > 0) || seconds > NOISE * best->seconds) return;
  if (!vtb_streq(model.mode, best->mode)) {
    best->other = best->mode;
    best->other_chunk = best->chunk;
    best->other_seconds = best->seconds;
  }
  best->mode = model.mode;
  best->chunk = model.chunk;
  best->seconds = seconds;
}

static bool was_measured(const vtb_pass_context *c, const vtb_inst *inst, vtb_tuned *best) {
  if (!c->tuning) return false;
  choice model = modelled(c, inst);
  vtb_tuning_key key = key_of(c, inst);
  if (!vtb_tuning_best(c->tuning, &key, best)) return false;
  prefer(model, vtb_tuning_seconds(c->tuning, &key, model.mode, model.chunk), best);
  return true;
}

static choice automatic(const vtb_pass_context *context, const vtb_inst *inst) {
  vtb_tuned best;
  if (decay_of(inst)->form > VTB_FORM_VECTOR) return (choice){"recurrent", 0};
  if (was_measured(context, inst, &best)) return (choice){best.mode, best.chunk};
  return modelled(context, inst);
}

/* The chunk of mode chunkwise without a number. */
static int64_t default_chunk(const vtb_pass_context *context, const vtb_inst *inst) {
  const vtb_costs *costs = &target_of(context)->costs;
  vtb_tuning_key s = key_of(context, inst);
  if (by_launches(target_of(context), inst)) return best_chunk(context, inst);
  return chunk_of(costs_of(costs, inst, decay_of(inst)->form), &s);
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
    vtb_attr_set(inst, VTB_A_INT("chunk", now.chunk > 0 ? now.chunk : default_chunk(c, inst)));
  else
    vtb_attr_remove(inst, "chunk");
}

/* From how many tokens chunks are cheaper than one piece; 0: from the first, or never one piece. */
static int64_t first_chunked(const vtb_pass_context *context, const vtb_inst *inst) {
  const vtb_scan_costs *c = costs_of(&target_of(context)->costs, inst, decay_of(inst)->form);
  vtb_tuning_key s = key_of(context, inst);
  int64_t below = 0, at = (int64_t)1 << 40;
  while (!c->chunks && at - below > 1) {
    int64_t t = below + (at - below) / 2;
    s.tokens = t;
    bool chunked = chunkwise(c, &s) <= products(c, &s, (double)(t * s.rank));
    *(chunked ? &at : &below) = t;
  }
  return c->chunks ? 0 : at;
}

static void put_mode(const char *mode, int64_t chunk, vtb_strbuf *out) {
  vtb_strbuf_puts(out, mode);
  if (chunk) vtb_strbuf_printf(out, "(%lld)", (long long)chunk);
}

/* ": measured 0.213 ms against 0.251 of chunkwise(64), between 196 and 400 tokens" */
static void put_measured(const vtb_tuned *best, const vtb_tuning_key *s, vtb_strbuf *out) {
  vtb_strbuf_printf(out, ": measured %.3g ms", 1e3 * best->seconds);
  if (best->other) {
    vtb_strbuf_printf(out, " against %.3g of ", 1e3 * best->other_seconds);
    put_mode(best->other, best->other_chunk, out);
  }
  if (best->below != best->above)
    vtb_strbuf_printf(out, ", between %lld and %lld tokens", (long long)best->below,
                      (long long)best->above);
  else if (best->below != s->tokens)
    vtb_strbuf_printf(out, ", with %lld tokens", (long long)best->below);
  if (best->batch != s->batch) vtb_strbuf_printf(out, ", at batch %lld", (long long)best->batch);
}

/* ": 0.031 ms predicted on h200, 0.04 of chunkwise(64)" */
static void put_predicted(const vtb_pass_context *c, const vtb_inst *inst, const char *mode,
                          vtb_strbuf *out) {
  bool chunked = vtb_streq(mode, "chunkwise");
  int64_t chunk = best_chunk(c, inst);
  vtb_strbuf_printf(
      out, ": %.3g ms predicted on %s, %.3g of ", 1e3 * seconds_of(c, inst, chunked ? chunk : 0),
      vtb_gpu_or_default(&c->gpu)->name, 1e3 * seconds_of(c, inst, chunked ? 0 : chunk));
  put_mode(chunked ? "parallel" : "chunkwise", chunked ? 0 : chunk, out);
}

/* Why the formulas chose the mode. */
static void put_price(const vtb_pass_context *c, const vtb_inst *inst, const char *mode,
                      vtb_strbuf *out) {
  int64_t from = first_chunked(c, inst);
  vtb_tuning_key s = key_of(c, inst);
  if (vtb_streq(mode, "recurrent"))
    vtb_strbuf_printf(out, ": steps of a state %lldx%lld are cheaper than products", (long long)s.K,
                      (long long)s.V);
  else if (vtb_streq(mode, "parallel"))
    vtb_strbuf_printf(out, ": cheaper than chunks below %lld tokens", (long long)from);
  else if (from > 0)
    vtb_strbuf_printf(out, ": cheaper than parallel from %lld tokens", (long long)from);
  else
    vtb_strbuf_puts(out, ": cheaper than steps");
}

static void fold_reason(const vtb_inst *inst, vtb_strbuf *out) {
  vtb_fold p = vtb_fold_of(inst);
  if (!p.steps)
    vtb_strbuf_puts(out, "step after step: no form takes its tokens together");
  else
    vtb_strbuf_printf(out, "a loop of %s%lld step%s", vtb_fold_varies(&p) ? "at most " : "",
                      (long long)p.steps, p.steps == 1 ? "" : "s");
}

void vtb_mode_reason(const vtb_pass_context *c, const vtb_inst *inst, vtb_strbuf *out) {
  if (inst->op == VTB_OP_fold) {
    fold_reason(inst, out);
    return;
  }
  const char *mode = vtb_attr_str(inst, "mode", "auto");
  choice own = automatic(c, inst);
  int64_t chunk = vtb_attr_int(inst, "chunk", 0);
  vtb_tuning_key s = key_of(c, inst);
  vtb_tuned best;
  if (inst->op == VTB_OP_delta)
    vtb_strbuf_printf(out, "%lld correction%s a token, ", (long long)s.rank,
                      s.rank == 1 ? "" : "s");
  vtb_strbuf_printf(out, "%s decay, ", decay_of(inst)->name);
  put_mode(mode, chunk, out);
  if (!vtb_streq(mode, own.mode) || chunk != own.chunk)
    vtb_strbuf_puts(out, ": as asked");
  else if (decay_of(inst)->form > VTB_FORM_VECTOR)
    vtb_strbuf_puts(out, ": products cannot take such decays together");
  else if (was_measured(c, inst, &best))
    put_measured(&best, &s, out);
  else if (by_launches(target_of(c), inst) && s.tokens <= 64)
    vtb_strbuf_puts(out, ": all tokens are one chunk");
  else if (by_launches(target_of(c), inst))
    put_predicted(c, inst, mode, out);
  else
    put_price(c, inst, mode, out);
}

static vtb_status unknown_mode(const char *mode, vtb_error *err) {
  vtb_strbuf modes = {0};
  vtb_strbuf_names(&modes, vtb_mode_names, VTB_N_MODES, ", ", " and ");
  vtb_fail(err, VTB_E_USAGE, "no mode is named \"%s\"; there are %s", mode, modes.at);
  vtb_strbuf_free(&modes);
  return VTB_E_USAGE;
}

/* Final states that nobody reads are not computed. Late, because autodiff copies attributes to
 * linscan_grad. */
static void drop_last_states(vtb_func *f) {
  for (vtb_inst *inst = f->first; inst; inst = inst->next)
    if (inst->op == VTB_OP_linscan && !vtb_is_read(inst->results[1]) &&
        (inst->n_results < 4 || !vtb_is_read(inst->results[3])))
      vtb_attr_set(inst, VTB_A_INT("last", 0));
}

vtb_status vtb__pass_select_mode(vtb_pass_context *c, vtb_error *err) {
  if (c->mode && !vtb_is_mode(c->mode)) return unknown_mode(c->mode, err);
  for (vtb_func *f = c->module->first; f; f = f->next) {
    for (vtb_inst *inst = f->first; inst; inst = inst->next)
      if (inst->op == VTB_OP_linscan || inst->op == VTB_OP_linscan_grad || inst->op == VTB_OP_delta)
        decide(c, inst);
    drop_last_states(f);
  }
  return VTB_OK;
}
