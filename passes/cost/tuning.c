/* See tuning.h. */
#include "passes/cost/tuning.h"
#include "ir/ops.h"

#include <math.h>
#include <string.h>

#include "ir/recurrence.h"

enum { MOST_ROWS = 1 << 16 };

/* ---- rows ------------------------------------------------------------------------------------ */

static void copy_name(char to[16], const char *name) { snprintf(to, 16, "%s", name); }

vtb_tuning_key vtb_tuning_key_of(const vtb_inst *inst, const vtb_target *target,
                                 vtb_precision precision, int threads) {
  vtb_tuning_key k = {.precision = precision, .threads = threads};
  copy_name(k.target, target->name);
  copy_name(k.op, vtb_op_get(inst->op)->name);
  if (inst->op == VTB_OP_delta) {
    vtb_delta d = vtb_delta_of(inst);
    copy_name(k.klass, d.decay->name);
    k.batch = d.n_batch, k.tokens = d.n_tokens, k.heads = d.n_heads;
    k.rank = d.rank, k.K = d.K, k.V = d.V;
    return k;
  }
  vtb_scan s = vtb_scan_of(inst);
  copy_name(k.klass, s.decay->name);
  k.batch = s.n_batch, k.tokens = s.n_tokens, k.heads = s.n_heads;
  k.rank = 1, k.K = s.K, k.V = s.V, k.normalizer = s.normalizer;
  return k;
}

bool vtb_tuning_same_key(const vtb_tuning_key *a, const vtb_tuning_key *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

static bool same_form(const vtb_tuning_row *a, const vtb_tuning_row *b) {
  return a->chunk == b->chunk && vtb_streq(a->mode, b->mode);
}

void vtb_tuning_set(vtb_tuning *t, const vtb_tuning_row *row) {
  for (size_t i = 0; i < t->rows.n; i++) {
    vtb_tuning_row *at = &t->rows.at[i];
    if (!vtb_tuning_same_key(&at->key, &row->key) || !same_form(at, row)) continue;
    *at = *row;
    return;
  }
  if (t->rows.n < MOST_ROWS) vtb_vec_push(&t->rows, *row);
}

void vtb_tuning_merge(vtb_tuning *t, const vtb_tuning *from) {
  for (size_t i = 0; i < from->rows.n; i++) vtb_tuning_set(t, &from->rows.at[i]);
}

void vtb_tuning_free(vtb_tuning *t) {
  vtb_vec_free(&t->rows);
  *t = (vtb_tuning){0};
}

/* ---- what is fastest ------------------------------------------------------------------------- */

/* Where the heads of the batch keep all threads busy, more of them change no order of forms. */
static bool is_wide(const vtb_tuning_key *k) { return k->batch * k->heads >= k->threads; }

/* Equal but for the tokens. */
static bool same_kind(const vtb_tuning_key *row, const vtb_tuning_key *key, bool any_batch) {
  vtb_tuning_key k = *row;
  k.tokens = key->tokens;
  if (any_batch && is_wide(row) && is_wide(key)) k.batch = key->batch;
  return vtb_tuning_same_key(&k, key);
}

/* A number of tokens that was measured: the nearest to the key's from below or above; 0: none. */
static int64_t measured(const vtb_tuning *t, const vtb_tuning_key *key, bool any_batch,
                        bool above) {
  int64_t best = 0;
  for (size_t i = 0; i < t->rows.n; i++) {
    const vtb_tuning_key *k = &t->rows.at[i].key;
    if (!same_kind(k, key, any_batch)) continue;
    if (above ? k->tokens < key->tokens : k->tokens > key->tokens) continue;
    if (!best || (above ? k->tokens < best : k->tokens > best)) best = k->tokens;
  }
  return best;
}

/* Seconds of the row's form at so many tokens, at the key's batch; 0: not measured. */
static double seconds_at(const vtb_tuning *t, const vtb_tuning_row *form, const vtb_tuning_key *key,
                         bool any_batch, int64_t tokens) {
  for (size_t i = 0; i < t->rows.n; i++) {
    const vtb_tuning_row *r = &t->rows.at[i];
    if (r->key.tokens == tokens && same_kind(&r->key, key, any_batch) && same_form(r, form))
      return 1e-9 * (double)r->nanoseconds * (double)key->batch / (double)r->key.batch;
  }
  return 0;
}

double vtb_tuning_seconds(const vtb_tuning *t, const vtb_tuning_key *key, const char *mode,
                          int64_t chunk) {
  vtb_tuning_row form = {.chunk = chunk};
  snprintf(form.mode, sizeof form.mode, "%s", mode);
  return seconds_at(t, &form, key, false, key->tokens);
}

/* Between two numbers of tokens as a power of them. */
static double between(double a, double b, const vtb_tuned *at, int64_t tokens) {
  if (at->below == at->above) return a * (double)tokens / (double)at->below;
  double part =
      log((double)tokens / (double)at->below) / log((double)at->above / (double)at->below);
  return a * pow(b / a, part);
}

static void consider(const vtb_tuning_row *r, double seconds, vtb_tuned *out) {
  if (!out->mode || seconds < out->seconds) {
    if (out->mode && !vtb_streq(out->mode, r->mode)) {
      out->other = out->mode, out->other_chunk = out->chunk, out->other_seconds = out->seconds;
    }
    out->mode = r->mode, out->chunk = r->chunk, out->seconds = seconds;
    out->batch = r->key.batch;
  } else if (!vtb_streq(out->mode, r->mode) && (!out->other || seconds < out->other_seconds)) {
    out->other = r->mode, out->other_chunk = r->chunk, out->other_seconds = seconds;
  }
}

static bool best_of(const vtb_tuning *t, const vtb_tuning_key *key, bool any_batch,
                    vtb_tuned *out) {
  for (size_t i = 0; i < t->rows.n; i++) {
    const vtb_tuning_row *r = &t->rows.at[i];
    if (r->key.tokens != out->below || !same_kind(&r->key, key, any_batch)) continue;
    double a = seconds_at(t, r, key, any_batch, out->below),
           b = seconds_at(t, r, key, any_batch, out->above);
    if (a > 0 && b > 0) consider(r, between(a, b, out, key->tokens), out);
  }
  return out->mode != NULL;
}

static bool best(const vtb_tuning *t, const vtb_tuning_key *key, bool any_batch, vtb_tuned *out) {
  int64_t below = measured(t, key, any_batch, false), above = measured(t, key, any_batch, true);
  bool near_below = below && key->tokens - below <= key->tokens / 8,
       near_above = above && above - key->tokens <= key->tokens / 8;
  *out = (vtb_tuned){.below = below, .above = above};
  if (!below || !above || above > 4 * below) {
    if (!near_below && !near_above) return false;
    out->below = out->above =
        near_below && (!near_above || key->tokens - below <= above - key->tokens) ? below : above;
  }
  return best_of(t, key, any_batch, out);
}

bool vtb_tuning_best(const vtb_tuning *t, const vtb_tuning_key *key, vtb_tuned *out) {
  return t && (best(t, key, false, out) || best(t, key, true, out));
}
