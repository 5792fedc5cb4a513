/* The words between the processes of one training: that they are the same run, what the update came
 * to, whether it goes on. All of them call all of this in the same order. */
#include "runtime/train/train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- who takes what -------------------------------------------------------------------------- */

/* ", or 2 or 4 ranks": the numbers next to `ranks` by which the batch divides. */
static void tell_ranks(int64_t batch, int64_t ranks, int64_t pieces, char *out, size_t size) {
  int64_t below = ranks - 1, above = ranks + 1, most = batch / pieces;
  while (below > 1 && batch % (below * pieces)) below--;
  while (above <= most && batch % (above * pieces)) above++;
  out[0] = 0;
  if (ranks < 2 || batch % pieces) return;
  if (below > 1 && above <= most)
    snprintf(out, size, ", or %lld or %lld ranks", (long long)below, (long long)above);
  else if (below > 1 || above <= most)
    snprintf(out, size, ", or %lld ranks", (long long)(below > 1 ? below : above));
}

vtb_status vtb_train_divide(int64_t batch, int ranks, int64_t pieces, int64_t *rows,
                            vtb_error *err) {
  int64_t parts = ranks * pieces, below = batch / parts * parts;
  *rows = batch / parts;
  if (*rows > 0 && *rows * parts == batch) return VTB_OK;
  char who[48] = "", runs[48] = "", fewer[32] = "", others[80];
  if (ranks > 1) snprintf(who, sizeof who, "%d ranks", ranks);
  if (pieces > 1)
    snprintf(runs, sizeof runs, "%s%lld runs an update", ranks > 1 ? " of " : "",
             (long long)pieces);
  if (below > 0) snprintf(fewer, sizeof fewer, "%lld or ", (long long)below);
  tell_ranks(batch, ranks, pieces, others, sizeof others);
  return vtb_fail(err, VTB_E_USAGE, "a batch of %lld cannot be divided among %s%s: %s%lld can%s",
                  (long long)batch, who, runs, fewer, (long long)(below + parts), others);
}

/* Sums for programs that are no code of this process, on memory of the host. */
static vtb_status sum_bucket(void *user, const vtb_bucket *b, vtb_error *err) {
  if (b->stream)
    return vtb_fail(err, VTB_E_DEVICE,
                    "nothing sums over ranks on this device: train on processors");
  float *at = (float *)(uintptr_t)b->at;
  vtb_status status = vtb_ranks_sum_begin(user, at, b->bytes / (int64_t)sizeof *at, err);
  return status == VTB_OK ? vtb_ranks_sum_wait(user, err) : status;
}

vtb_status vtb__ranks_open(vtb_trainer *t, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  t->n_ranks = vtb_ranks_count(c->ranks);
  t->rank = vtb_ranks_rank(c->ranks);
  t->pieces = c->accumulate > 1 ? c->accumulate : 1;
  t->rows = c->step->batch;
  t->whole = t->rows * t->pieces * t->n_ranks;
  if (t->n_ranks > 1 && c->step->run && !c->step->on_bucket) {
    c->step->on_bucket = sum_bucket;
    c->step->bucket_user = c->ranks;
  }
  t->votes = calloc((size_t)t->n_ranks + VTB__VOTES, sizeof *t->votes);
  return t->votes ? VTB_OK : vtb_no_memory(err, "training");
}

/* ---- the same run ---------------------------------------------------------------------------- */

enum { MOST_TEXT = 4096 };

/* Finds who has other words than rank 0, and which. */
static void find_other(const char *all, int n, const char *what, char *said, size_t size) {
  for (int r = 1; r < n && !*said; r++) {
    char which[400] = "";
    const char *text = all + (size_t)r * MOST_TEXT;
    if (strcmp(all, text) == 0) continue;
    vtb_tell_others(all, text, "there", which, sizeof which);
    snprintf(said, size, "rank %d has other %s than rank 0: %s", r, what,
             *which ? which : "the texts differ");
  }
}

vtb_status vtb_train_compare(vtb_ranks *ranks, const char *what, const char *text, vtb_error *err) {
  int n = vtb_ranks_count(ranks);
  char said[600] = "";
  if (n == 1) return VTB_OK;
  char *mine = calloc(1, MOST_TEXT), *all = calloc((size_t)n, MOST_TEXT);
  vtb_status status = mine && all ? VTB_OK : vtb_no_memory(err, "comparing ranks");
  if (status == VTB_OK) {
    size_t length = strlen(text), kept = length < MOST_TEXT - 40 ? length : MOST_TEXT - 40;
    memcpy(mine, text, kept);
    if (kept < length) /* of longer ones the rest is a number */
      snprintf(mine + kept, 40, " rest=%016llx",
               (unsigned long long)vtb_hash_str(VTB_HASH_INIT, text + kept));
    status = vtb_ranks_gather(ranks, 0, mine, MOST_TEXT, vtb_ranks_rank(ranks) ? NULL : all, err);
  }
  if (status == VTB_OK && !vtb_ranks_rank(ranks)) find_other(all, n, what, said, sizeof said);
  free(mine);
  free(all);
  if (status == VTB_OK) status = vtb_ranks_broadcast(ranks, 0, said, sizeof said, err);
  if (status != VTB_OK || !*said) return status;
  return vtb_fail(err, VTB_E_INPUT, "%s", said);
}

vtb_status vtb__fingerprint_of(vtb_trainer *t, int which, vtb_error *err) {
  const vtb_dataset *d = which ? t->config.eval_set : t->config.train_set;
  return d && !t->data[which][0] ? vtb_fingerprint(d, t->data[which], err) : VTB_OK;
}

/* A hash of the values that all begin with. */
static uint64_t hash_of_values(const vtb_trainer *t) {
  const vtb_program *p = t->bound.program;
  uint64_t h = VTB_HASH_INIT;
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *info = &p->tensors[i];
    if (info->io != VTB_IO_PARAM && info->io != VTB_IO_BUFFER) continue;
    uint64_t values = vtb_hash64(t->bound.args[i], (size_t)vtb_tensor_info_count(info) * 4);
    h = vtb_hash_bytes(vtb_hash_str(h, info->name), &values, sizeof values);
  }
  return h;
}

vtb_status vtb__ranks_compare(vtb_trainer *t, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  static const char *const names[2] = {"training data", "evaluation data"};
  vtb_strbuf text = VTB_CHECKED_STRBUF;
  if (t->n_ranks == 1) return VTB_OK;
  vtb_strbuf_printf(&text, "vertebra=" VTB_VERSION " batch=%lld pieces=%lld seed=%llu %s %s%s%s",
                    (long long)t->rows, (long long)t->pieces, (unsigned long long)c->seed,
                    c->recipe ? c->recipe : "", c->more_recipe ? c->more_recipe : "",
                    c->model_hash ? " model_text=" : "", c->model_hash ? c->model_hash : "");
  vtb_status status = vtb_strbuf_check(&text, err);
  if (status == VTB_OK) status = vtb_train_compare(c->ranks, "settings", text.at, err);
  vtb_strbuf_free(&text);
  for (int k = 0; k < 2 && status == VTB_OK; k++) {
    status = vtb__fingerprint_of(t, k, err);
    if (status == VTB_OK) status = vtb_train_compare(c->ranks, names[k], t->data[k], err);
  }
  if (status != VTB_OK) return status;
  char begin[120];
  snprintf(begin, sizeof begin, "update=%lld values=%016llx", (long long)t->state.step,
           (unsigned long long)hash_of_values(t));
  return vtb_train_compare(c->ranks, "weights", begin, err);
}

/* ---- after every update ---------------------------------------------------------------------- */

enum { STOP, LATE, OVER, RIGHT, SAMPLES, PLAN, WAITED };
_Static_assert((int)WAITED == (int)VTB__VOTES, "a number each, then one a rank");

/* Seconds that this rank has waited for the others since the last time. */
static double waited_since(vtb_trainer *t) {
  vtb_ranks_stats s = {0};
  vtb_ranks_get_stats(t->config.ranks, &s);
  double since = s.waited - t->waited_before;
  t->waited_before = s.waited;
  return since;
}

void vtb__waiting_begins(vtb_trainer *t) {
  (void)waited_since(t);
  t->waited_when = vtb_now();
  t->all_waited = t->all_seconds = 0;
}

/* Shares of the time since the last time, from what each rank has waited. */
static void take_waiting(vtb_trainer *t, const double *waited) {
  double now = vtb_now(), seconds = now - t->waited_when, sum = 0;
  t->waited_when = now;
  t->slowest = 0;
  for (int r = 0; r < t->n_ranks; r++) {
    sum += waited[r];
    if (waited[r] < waited[t->slowest]) t->slowest = r;
  }
  t->waited = seconds > 0 ? fmin(1, sum / t->n_ranks / seconds) : 0;
  t->all_waited += sum / t->n_ranks;
  t->all_seconds += seconds;
}

vtb_status vtb__vote(vtb_trainer *t, bool waiting, int64_t *n, int64_t *right, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  double *v = t->votes;
  if (t->n_ranks == 1) return VTB_OK;
  memset(v, 0, (size_t)(VTB__VOTES + t->n_ranks) * sizeof *v);
  v[STOP] = c->stop && *c->stop;
  v[RIGHT] = (double)*right;
  v[SAMPLES] = (double)*n;
  if (!t->rank) { /* by its clock */
    v[LATE] = vtb__checkpoint_is_late(t);
    v[OVER] = vtb__time_is_over(t);
    v[PLAN] = (double)vtb__plan_anew(t);
  }
  if (waiting) v[WAITED + t->rank] = waited_since(t);
  VTB_TRY(vtb_ranks_sum(c->ranks, v, VTB__VOTES + (waiting ? t->n_ranks : 0), err));
  t->vote = (vtb_vote){
      .stop = v[STOP] > 0, .late = v[LATE] > 0, .over = v[OVER] > 0, .plan = (int64_t)v[PLAN]};
  *right = (int64_t)v[RIGHT];
  *n = (int64_t)v[SAMPLES];
  if (waiting) take_waiting(t, v + WAITED);
  return VTB_OK;
}
