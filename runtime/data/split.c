/* Which samples are of which split: those that the data name, and those held out where they name
 * none. */
#include "runtime/base/random.h"
#include "runtime/data/dataset_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- choosing samples ------------------------------------------------------------------------ */

typedef struct ranked {
  int32_t label;
  uint64_t rank;
  int64_t sample;
} ranked;

static int by_class_and_rank(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->label != y->label) return x->label < y->label ? -1 : 1;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->sample < y->sample ? -1 : x->sample > y->sample;
}

/* The number of n samples that is held out: at least one, and never all. */
static int64_t share(int64_t n, double fraction) {
  int64_t k = (int64_t)llround(fraction * (double)n);
  if (k < 1) k = 1;
  return k < n ? k : n - 1;
}

/* Marks the samples held out: of every class those that rank first. */
static void mark_held(const vtb_dataset *d, ranked *r, double fraction, bool *held) {
  qsort(r, (size_t)d->count, sizeof *r, by_class_and_rank);
  for (int64_t from = 0, to; from < d->count; from = to) {
    for (to = from; to < d->count && r[to].label == r[from].label;) to++;
    for (int64_t i = 0, k = share(to - from, fraction); i < k; i++) held[r[from + i].sample] = true;
  }
}

/* Keeps the samples i with keep[i] == want. */
static vtb_status keep(vtb_dataset *d, const bool *which, bool want, vtb_error *err) {
  int64_t n = 0;
  int64_t *pick = calloc((size_t)d->count + 1, sizeof *pick);
  if (!pick) return vtb_no_memory(err, d->source->name);
  for (int64_t i = 0; i < d->count; i++) {
    if (which[i] != want) continue;
    if (d->labels) d->labels[n] = d->labels[i];
    pick[n++] = d->pick ? d->pick[i] : i;
  }
  free(d->pick);
  d->pick = pick;
  d->count = n;
  return VTB_OK;
}

/* Keeps the samples held out for validation, or the others. */
static vtb_status hold_out(vtb_dataset *d, double fraction, uint64_t seed, bool want,
                           vtb_error *err) {
  bool *held = calloc((size_t)d->count + 1, sizeof *held);
  ranked *r = calloc((size_t)d->count + 1, sizeof *r);
  vtb_status status = held && r ? VTB_OK : vtb_no_memory(err, d->source->name);
  if (status == VTB_OK && d->count < 2)
    status = vtb_fail(err, VTB_E_INPUT, "%s has one sample, of which none can be held out",
                      d->source->name);
  for (int64_t i = 0; i < d->count && status == VTB_OK; i++) {
    bool last = d->source->format->ordered;
    r[i] = (ranked){.label = d->labels && !last ? d->labels[i] : 0,
                    .rank = last ? (uint64_t)(d->count - i)
                                 : vtb_random_u64(seed, vtb__sample_hash(d->source, i)),
                    .sample = i};
  }
  if (status == VTB_OK) {
    mark_held(d, r, fraction, held);
    status = keep(d, held, want, err);
  }
  if (status == VTB_OK && !d->count)
    status = vtb_fail(err, VTB_E_INPUT,
                      "%s: no class has two samples, so that none can be held out for validation",
                      d->source->name);
  d->split = want ? "val" : "train";
  d->held_out = fraction;
  d->held_seed = seed;
  free(held);
  free(r);
  return status;
}

static vtb_status limit_samples(vtb_dataset *d, int64_t n, vtb_error *err) {
  if (n <= 0 || n >= d->count) return VTB_OK;
  bool *kept = calloc((size_t)d->count, sizeof *kept);
  if (!kept) return vtb_no_memory(err, d->source->name);
  bool first = d->source->format->mixed; /* others may be sorted by class */
  for (int64_t i = 0; i < n; i++)
    kept[first ? i : (int64_t)((double)i * (double)d->count / (double)n)] = true;
  vtb_status status = keep(d, kept, true, err);
  free(kept);
  return status;
}

/* ---- opening splits -------------------------------------------------------------------------- */

static vtb_status no_split(const vtb__place *at, const char *split, vtb_error *err) {
  vtb_strbuf have = VTB_CHECKED_STRBUF;
  for (unsigned k = VTB__TRAIN; k <= VTB__TEST; k *= 2)
    if (at->splits & k) vtb_strbuf_printf(&have, "%s%s", have.n ? " and " : "", vtb__split_name(k));
  vtb_status status =
      at->splits
          ? vtb_fail(err, VTB_E_INPUT, "%s: has %s but none for \"%s\"", at->path,
                     vtb_strbuf_text(&have), split)
          : vtb_fail(err, VTB_E_INPUT, "%s: has no splits, and none for \"%s\"", at->path, split);
  vtb_strbuf_free(&have);
  return status;
}

/* Where training samples are: a split, or data without any. False: nowhere. */
static bool training_part(const vtb__place *at, unsigned *split) {
  *split = at->splits & VTB__TRAIN;
  return *split || !at->splits;
}

static bool holds_out(const vtb__place *at, const vtb_dataset_options *o) {
  return !(at->splits & VTB__VAL) && o->val_fraction > 0;
}

static vtb_status check_options(const vtb_dataset_options *o, vtb_error *err) {
  if (o->val_fraction >= 0 && o->val_fraction < 1) return VTB_OK;
  return vtb_fail(err, VTB_E_USAGE, "a share of %g of the samples cannot be held out: 0 to below 1",
                  o->val_fraction);
}

/* Opens the part of a source that a split without files of its own is. */
static vtb_status open_part(vtb__source *s, const vtb_dataset_options *o, bool held,
                            vtb_dataset **out, vtb_error *err) {
  VTB_TRY(vtb__view_open(s, o, out, err));
  return hold_out(*out, o->val_fraction, o->val_seed, held, err);
}

static vtb_status open_whole(const vtb__place *at, unsigned split, const vtb_dataset_options *o,
                             vtb_dataset **out, vtb_error *err) {
  vtb__source *s;
  VTB_TRY(vtb__source_open(at, split, &s, err));
  vtb_status status = vtb__view_open(s, o, out, err);
  vtb__source_leave(s);
  return status;
}

static vtb_status open_held(const vtb__place *at, const vtb_dataset_options *o, bool held,
                            vtb_dataset **out, vtb_error *err) {
  unsigned split;
  vtb__source *s;
  if (!training_part(at, &split) || !holds_out(at, o))
    return no_split(at, held ? "val" : "train", err);
  VTB_TRY(vtb__source_open(at, split, &s, err));
  vtb_status status = open_part(s, o, held, out, err);
  vtb__source_leave(s);
  return status;
}

static vtb_status open_named(const vtb__place *at, const char *split, const vtb_dataset_options *o,
                             vtb_dataset **out, vtb_error *err) {
  unsigned from;
  for (unsigned k = VTB__VAL; k <= VTB__TEST; k *= 2)
    if (vtb_streq(split, vtb__split_name(k)) && (at->splits & k))
      return open_whole(at, k, o, out, err);
  if (vtb_streq(split, "val")) return open_held(at, o, true, out, err);
  if (vtb_streq(split, "all") && !at->splits) return open_whole(at, 0, o, out, err);
  if (!vtb_streq(split, "train") || !training_part(at, &from)) return no_split(at, split, err);
  return holds_out(at, o) ? open_held(at, o, false, out, err) : open_whole(at, from, o, out, err);
}

/* Ends an opening. */
static vtb_status give(vtb_dataset *d, int64_t limit, vtb_status status, vtb_dataset **out,
                       vtb_error *err) {
  if (status == VTB_OK) status = limit_samples(d, limit, err);
  if (status == VTB_OK) status = vtb_strbuf_check(&d->notes, err);
  if (status == VTB_OK)
    *out = d;
  else
    vtb_dataset_free(d);
  return status;
}

vtb_status vtb_dataset_open(const char *path, const vtb_dataset_options *options, vtb_dataset **out,
                            vtb_error *err) {
  vtb_dataset_options o = options ? *options : (vtb_dataset_options){0};
  const char *split = o.split ? o.split : "train";
  vtb__place at;
  vtb_dataset *d = NULL;
  if (!vtb_streq(split, "train") && !vtb_streq(split, "val") && !vtb_streq(split, "test") &&
      !vtb_streq(split, "all"))
    return vtb_fail(err, VTB_E_USAGE, "split \"%s\" is none of train, val, test and all", split);
  vtb_status status = check_options(&o, err);
  if (status == VTB_OK) status = vtb__find(path, &at, err);
  if (status == VTB_OK) status = open_named(&at, split, &o, &d, err);
  return give(d, o.limit, status, out, err);
}

/* ---- what a training looks at ---------------------------------------------------------------- */

static void note_held(vtb_dataset *train, const vtb_dataset *val, const vtb__place *at) {
  const char *what = vtb_dataset_has_images(train) ? "images" : "samples";
  vtb_strbuf_printf(&train->notes,
                    "%s has no val split: %lld of its %lld%s %s are held out for validation\n",
                    train->source->name, (long long)val->count, (long long)train->source->count,
                    at->splits ? " training" : "", what);
}

static vtb_status open_both_parts(const vtb__place *at, const vtb_dataset_options *o,
                                  vtb_dataset **train, vtb_dataset **val, vtb_error *err) {
  unsigned split;
  vtb__source *s;
  if (!training_part(at, &split)) return no_split(at, "train", err);
  VTB_TRY(vtb__source_open(at, split, &s, err));
  vtb_status status = open_part(s, o, false, train, err);
  if (status == VTB_OK) status = open_part(s, o, true, val, err);
  if (status == VTB_OK) note_held(*train, *val, at);
  vtb__source_leave(s);
  return status;
}

static vtb_status check_classes(const vtb_dataset *a, const vtb_dataset *b, vtb_error *err) {
  if (!b || a->n_classes == b->n_classes) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT, "%s: %d classes to train on but %d to look at", a->source->name,
                  a->n_classes, b->n_classes);
}

vtb_status vtb_dataset_open_pair(const char *path, const vtb_dataset_options *o, const char *watch,
                                 vtb_dataset **train, vtb_dataset **val, vtb_error *err) {
  vtb__place at;
  vtb_dataset *a = NULL, *b = NULL;
  bool own = !watch || vtb_streq(watch, "val");
  unsigned split;
  vtb_status status = check_options(o, err);
  if (status == VTB_OK) status = vtb__find(path, &at, err);
  if (status != VTB_OK) return status;
  if (own && holds_out(&at, o)) {
    status = open_both_parts(&at, o, &a, &b, err);
  } else {
    if (!training_part(&at, &split)) return no_split(&at, "train", err);
    vtb_dataset_options whole = *o;
    whole.val_fraction = 0;
    status = open_whole(&at, split, &whole, &a, err);
    if (status == VTB_OK && (!own || at.splits & VTB__VAL))
      status = open_named(&at, own ? "val" : watch, &whole, &b, err);
  }
  if (status == VTB_OK && b) status = vtb__agree_on_classes(a, b, err);
  if (status == VTB_OK) status = check_classes(a, b, err);
  if (status == VTB_OK) {
    status = give(a, o->limit, VTB_OK, train, err);
    if (status == VTB_OK) *val = b;
    if (status == VTB_OK) return VTB_OK;
    a = NULL;
  }
  vtb_dataset_free(a);
  vtb_dataset_free(b);
  return status;
}

/* ---- what finished weights are judged by ----------------------------------------------------- */

char *vtb_dataset_describe(const vtb_dataset *d) {
  return vtb_strprintf("%016llx %.9g %llu", (unsigned long long)vtb_dataset_fingerprint(d),
                       d->held_out, (unsigned long long)d->held_seed);
}

/* All samples, or those that a training on them held out. */
static vtb_status open_unsplit(const vtb__place *at, const vtb_dataset_options *o,
                               const char *trained_on, vtb_dataset **out, vtb_error *err) {
  unsigned long long print, seed;
  double fraction;
  vtb_status status = open_whole(at, at->splits & VTB__TRAIN, o, out, err);
  if (status != VTB_OK) return status;
  vtb_dataset *d = *out;
  const char *what = vtb_dataset_has_images(d) ? "images" : "samples";
  if (trained_on && sscanf(trained_on, "%llx %lf %llu", &print, &fraction, &seed) == 3 &&
      print == vtb_dataset_fingerprint(d) && fraction >= 0 && fraction < 1) {
    int64_t all = d->count;
    if (fraction > 0) status = hold_out(d, fraction, seed, true, err);
    if (fraction > 0)
      vtb_strbuf_printf(&d->notes,
                        "%s has no test split: these are the %lld of its %lld %s that the training "
                        "held out\n",
                        d->source->name, (long long)d->count, (long long)all, what);
    else
      vtb_strbuf_printf(&d->notes,
                        "warning: the model was trained on all %s of %s, which is what these "
                        "numbers are of\n",
                        what, d->source->name);
    return status;
  }
  vtb_strbuf_printf(&d->notes, "%s has no splits: all its %lld %s are evaluated%s\n",
                    d->source->name, (long long)d->count, what,
                    trained_on ? "" : "; if the model was trained on them the numbers say little");
  return VTB_OK;
}

vtb_status vtb_dataset_open_judge(const char *path, const vtb_dataset_options *o,
                                  const char *trained_on, vtb_dataset **out, vtb_error *err) {
  vtb__place at;
  vtb_dataset *d = NULL;
  vtb_status status = vtb__find(path, &at, err);
  if (status != VTB_OK) return status;
  if (at.splits & VTB__TEST) {
    status = open_whole(&at, VTB__TEST, o, &d, err);
  } else if (at.splits & VTB__VAL) {
    status = open_whole(&at, VTB__VAL, o, &d, err);
    if (status == VTB_OK)
      vtb_strbuf_printf(&d->notes, "%s has no test split: these are the %lld %s of val\n",
                        d->source->name, (long long)d->count,
                        vtb_dataset_has_images(d) ? "images" : "samples");
  } else {
    status = open_unsplit(&at, o, trained_on, &d, err);
  }
  return give(d, o->limit, status, out, err);
}
