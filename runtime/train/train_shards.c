/* Sharded optimiser state (ZeRO-1: Rajbhandari et al. 2020, arXiv:1910.02054, section 5.1): a rank
 * updates some of the tensors, and has the states of those alone. Which they are is told by what
 * its program has; after an update their new values go to the others, and checkpoints have the
 * states of all. Whole tensors, so that every bit is that of a run that is not sharded. */
#include "runtime/train/train_internal.h"

#include <stdlib.h>
#include <string.h>

static const char average_of[] = "ema/";

/* A state that some rank has, in the order of ranks. */
typedef struct shard {
  const char *name;
  int64_t count, at; /* at: in its rank's block, in floats */
  int owner;
} shard;

struct vtb_shards {
  int *owners; /* by tensor of the program: whose value goes to the others, -1: nobody's */
  char *names; /* of all states; those of the list below are in it */
  shard *list;
  int n;
  int64_t most;    /* floats of the largest block */
  float *gathered; /* rank 0: blocks of all, while a checkpoint is written */
};

void vtb__shards_free(vtb_trainer *t) {
  struct vtb_shards *s = t->shards;
  vtb__shards_release(t);
  if (!s) return;
  free(s->owners);
  free(s->names);
  free(s->list);
  free(s);
  t->shards = NULL;
}

/* ---- who has what ---------------------------------------------------------------------------- */

static bool is_value(const vtb_tensor_info *info) {
  return info->io == VTB_IO_PARAM || info->io == VTB_IO_BUFFER;
}

/* States that checkpoints have. */
static bool is_state(const vtb_tensor_info *info) {
  return info->io == VTB_IO_STATE && !vtb_starts_with(info->name, VTB_ACCUMULATED);
}

static bool updates(const vtb_program *p, const char *name) {
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_UPDATE &&
        strcmp(p->tensors[i].name + strlen("updated."), name) == 0)
      return true;
  return false;
}

/* The owner of a value is the rank that alone updates it. */
static vtb_status find_owners(vtb_trainer *t, vtb_error *err) {
  const vtb_program *p = t->bound.program;
  struct vtb_shards *s = t->shards;
  int64_t n = 0;
  double *who = calloc(2 * (size_t)p->n_tensors + 1, sizeof *who);
  if (!who) return vtb_no_memory(err, "sharding");
  for (int i = 0; i < p->n_tensors; i++) {
    if (!is_value(&p->tensors[i])) continue;
    bool own = updates(p, p->tensors[i].name);
    who[n++] = own;
    who[n++] = own ? t->rank : 0;
  }
  vtb_status status = vtb_ranks_sum(t->config.ranks, who, n, err);
  for (int i = 0, k = 0; i < p->n_tensors && status == VTB_OK; i++) {
    s->owners[i] = -1;
    if (!is_value(&p->tensors[i])) continue;
    if (who[k] == 1) s->owners[i] = (int)who[k + 1];
    k += 2;
  }
  free(who);
  return status;
}

/* "optim/m/head.weight 1920", a line each. */
static vtb_status list_own(const vtb_trainer *t, vtb_strbuf *out, vtb_error *err) {
  const vtb_program *p = t->bound.program;
  vtb_strbuf_write(out, "", 0);
  for (int i = 0; i < p->n_tensors; i++)
    if (is_state(&p->tensors[i]))
      vtb_strbuf_printf(out, "%s %lld\n", p->tensors[i].name,
                        (long long)vtb_tensor_info_count(&p->tensors[i]));
  return vtb_strbuf_check(out, err);
}

/* The lists of all ranks, `length` bytes each, on all. */
static vtb_status exchange_lists(vtb_trainer *t, int64_t *length, vtb_error *err) {
  struct vtb_shards *s = t->shards;
  vtb_ranks *ranks = t->config.ranks;
  vtb_strbuf own = VTB_CHECKED_STRBUF;
  vtb_status status = list_own(t, &own, err);
  double most = (double)own.n + 1;
  char *mine = NULL;
  if (status == VTB_OK) status = vtb_ranks_max(ranks, &most, 1, err);
  *length = (int64_t)most;
  if (status == VTB_OK) {
    mine = calloc(1, (size_t)*length);
    s->names = calloc((size_t)t->n_ranks, (size_t)*length);
    if (!mine || !s->names) status = vtb_no_memory(err, "sharding");
  }
  if (status == VTB_OK) {
    memcpy(mine, vtb_strbuf_text(&own), own.n);
    status = vtb_ranks_gather(ranks, 0, mine, *length, t->rank ? NULL : s->names, err);
  }
  if (status == VTB_OK) status = vtb_ranks_broadcast(ranks, 0, s->names, *length * t->n_ranks, err);
  free(mine);
  vtb_strbuf_free(&own);
  return status;
}

static bool is_listed(const struct vtb_shards *s, const char *name) {
  for (int i = 0; i < s->n; i++)
    if (strcmp(s->list[i].name, name) == 0) return true;
  return false;
}

/* Values that several ranks have are the first one's. */
static void read_list(struct vtb_shards *s, char *text, int owner) {
  int64_t at = 0;
  char *rest = text;
  for (char *line; (line = strsep(&rest, "\n")) && *line;) {
    char *blank = strrchr(line, ' ');
    *blank = 0;
    shard one = {.name = line, .count = atoll(blank + 1), .at = at, .owner = owner};
    at += one.count;
    if (!is_listed(s, line)) s->list[s->n++] = one;
  }
  if (at > s->most) s->most = at;
}

static vtb_status find_states(vtb_trainer *t, vtb_error *err) {
  struct vtb_shards *s = t->shards;
  int64_t length = 0, lines = 0;
  VTB_TRY(exchange_lists(t, &length, err));
  for (int64_t i = 0; i < length * t->n_ranks; i++) lines += s->names[i] == '\n';
  s->list = calloc((size_t)lines + 1, sizeof *s->list);
  if (!s->list) return vtb_no_memory(err, "sharding");
  for (int r = 0; r < t->n_ranks; r++) read_list(s, s->names + r * length, r);
  return VTB_OK;
}

vtb_status vtb__shards_open(vtb_trainer *t, vtb_error *err) {
  if (!t->config.shard || t->n_ranks == 1) return VTB_OK;
  if (t->bound.program->exchange)
    return vtb_fail(err, VTB_E_USAGE,
                    "the optimiser's state can be sharded where it is in the host's memory only");
  t->shards = calloc(1, sizeof *t->shards);
  if (t->shards) t->shards->owners = calloc((size_t)t->bound.program->n_tensors + 1, sizeof(int));
  if (!t->shards || !t->shards->owners) return vtb_no_memory(err, "sharding");
  vtb_status status = find_owners(t, err);
  return status == VTB_OK ? find_states(t, err) : status;
}

void vtb__state_bytes(const vtb_trainer *t, int64_t *here, int64_t *all) {
  const vtb_program *p = t->bound.program;
  *here = *all = 0;
  for (int i = 0; i < p->n_tensors; i++)
    if (is_state(&p->tensors[i])) *here += vtb_tensor_info_count(&p->tensors[i]) * 4;
  for (int i = 0; t->shards && i < t->shards->n; i++) *all += t->shards->list[i].count * 4;
  if (!t->shards) *all = *here;
}

/* ---- values and averages --------------------------------------------------------------------- */

vtb_status vtb__shards_share(vtb_trainer *t, vtb_error *err) {
  const vtb_program *p = t->bound.program;
  vtb_status status = VTB_OK;
  if (!t->shards) return VTB_OK;
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++)
    if (t->shards->owners[i] >= 0)
      status = vtb_ranks_share_begin(t->config.ranks, t->shards->owners[i], t->bound.args[i],
                                     vtb_tensor_info_count(&p->tensors[i]), err);
  return status == VTB_OK ? vtb_ranks_sum_wait(t->config.ranks, err) : status;
}

void vtb__shards_release(vtb_trainer *t) {
  for (int i = 0; t->averages && i < t->bound.program->n_tensors; i++) free(t->averages[i]);
  free(t->averages);
  t->averages = NULL;
  if (!t->shards) return;
  free(t->shards->gathered);
  t->shards->gathered = NULL;
}

float *vtb__average(const vtb_trainer *t, int tensor) {
  float *own = vtb_optim_average(t->optim, tensor);
  return own || !t->averages ? own : t->averages[tensor];
}

/* The average of tensor i, which `owner` has. */
static vtb_status fetch(vtb_trainer *t, int i, const shard *one, vtb_error *err) {
  float *at = vtb_optim_average(t->optim, i);
  if (!at) at = t->averages[i] = vtb_aligned_alloc((size_t)one->count * sizeof *at);
  if (!at) return vtb_no_memory(err, "averages of other ranks");
  return vtb_ranks_share_begin(t->config.ranks, one->owner, at, one->count, err);
}

vtb_status vtb__shards_fetch_averages(vtb_trainer *t, vtb_error *err) {
  const struct vtb_shards *s = t->shards;
  vtb_status status = VTB_OK;
  if (!s || !(t->config.optim.ema_decay > 0)) return VTB_OK;
  t->averages = calloc((size_t)t->bound.program->n_tensors + 1, sizeof *t->averages);
  if (!t->averages) return vtb_no_memory(err, "averages of other ranks");
  for (int k = 0; k < s->n && status == VTB_OK; k++) {
    if (!vtb_starts_with(s->list[k].name, average_of)) continue;
    int i = vtb_program_find(t->bound.program, s->list[k].name + strlen(average_of));
    if (i >= 0) status = fetch(t, i, &s->list[k], err);
  }
  return status == VTB_OK ? vtb_ranks_sum_wait(t->config.ranks, err) : status;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* The states of this rank one after the other, as its list has them. */
static void pack(const vtb_trainer *t, float *block) {
  const vtb_program *p = t->bound.program;
  for (int i = 0; i < p->n_tensors; i++) {
    if (!is_state(&p->tensors[i])) continue;
    int64_t n = vtb_tensor_info_count(&p->tensors[i]);
    memcpy(block, t->bound.args[i], (size_t)n * sizeof *block);
    block += n;
  }
}

vtb_status vtb__shards_gather(vtb_trainer *t, vtb_error *err) {
  struct vtb_shards *s = t->shards;
  if (!s) return VTB_OK;
  size_t bytes = (size_t)s->most * sizeof(float);
  float *mine = malloc(bytes + 1);
  if (!t->rank) s->gathered = malloc(bytes * (size_t)t->n_ranks + 1);
  vtb_status status = mine && (t->rank || s->gathered)
                          ? VTB_OK
                          : vtb_no_memory(err, "the optimiser's state of all ranks");
  if (status == VTB_OK) pack(t, mine);
  if (status == VTB_OK)
    status = vtb_ranks_gather(t->config.ranks, 0, mine, (int64_t)bytes, s->gathered, err);
  free(mine);
  return status;
}

void vtb__shards_put(const vtb_trainer *t, vtb_weights *w) {
  const struct vtb_shards *s = t->shards;
  for (int i = 0; s && i < s->n; i++)
    if (s->list[i].owner != t->rank)
      vtb_weights_borrow(w, s->list[i].name, VTB_ELEM_F32, 1, &s->list[i].count,
                         s->gathered + s->list[i].owner * s->most + s->list[i].at);
}
