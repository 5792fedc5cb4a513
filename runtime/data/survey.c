/* The contents of a data set, by decoding all of it. */
#include "runtime/data/survey.h"
#include "runtime/data/dataset_internal.h"
#include "runtime/launch/threads.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

vtb_status vtb_dataset_layout(const char *path, vtb_layout *out, vtb_error *err) {
  vtb__place at;
  VTB_TRY(vtb__find(path, &at, err));
  *out = (vtb_layout){.what = at.format->what};
  for (unsigned split = VTB__TRAIN; split <= VTB__TEST; split *= 2)
    if (at.splits & split) out->split[out->n_splits++] = vtb__split_name(split);
  return VTB_OK;
}

typedef struct survey {
  const vtb_dataset *d;
  vtb_sample_facts *facts;
  atomic_llong next, done;
  atomic_int stop, running;
  atomic_bool failed;
  vtb_error error; /* of the first that failed */
} survey;

/* Not of the sample: memory, or a library that reads its format, is missing. */
static void fail_survey(survey *s, const vtb_error *why) {
  if (!atomic_exchange(&s->failed, true)) s->error = *why;
  atomic_store(&s->stop, 1);
}

static vtb_sample_facts facts_of(survey *s, int64_t i) {
  const vtb_dataset *d = s->d;
  vtb_image im = {0};
  vtb_error why = {0}, enough = {0};
  vtb_sample_facts f = {0};
  vtb_status status = vtb_dataset_image(d, i, 0, &im, &why);
  if (status == VTB_OK) {
    int size[3] = {im.width, im.height, im.channels};
    f = (vtb_sample_facts){im.width, im.height, im.channels, 0};
    f.hash = vtb_hash_bytes(vtb_hash_bytes(VTB_HASH_INIT, size, sizeof size), im.pixels,
                            (size_t)im.width * (size_t)im.height * (size_t)im.channels);
  } else if (why.status != VTB_E_INPUT) {
    fail_survey(s, &why);
  } else if (vtb_dataset_skip(d, i, &why, &enough) != VTB_OK) {
    /* more than a training would do without: the caller counts them */
  }
  vtb_image_free(&im);
  return f;
}

static void *work(void *user) {
  survey *s = user;
  int64_t i, n = vtb_dataset_count(s->d);
  while (!atomic_load(&s->stop) && (i = atomic_fetch_add(&s->next, 1)) < n) {
    s->facts[i] = facts_of(s, i);
    atomic_fetch_add(&s->done, 1);
  }
  atomic_fetch_sub(&s->running, 1);
  return NULL;
}

/* Waits for the threads, and tells how far they are. */
static void watch(survey *s, const vtb_survey_options *o) {
  while (atomic_load(&s->running) > 0) {
    struct timespec pause = {.tv_nsec = 2000000};
    nanosleep(&pause, NULL);
    if (o->on_sample) o->on_sample(o->user, atomic_load(&s->done), vtb_dataset_count(s->d));
    if (o->stop && *o->stop) atomic_store(&s->stop, 1);
  }
}

vtb_status vtb_dataset_survey(const vtb_dataset *d, const vtb_survey_options *o,
                              vtb_sample_facts **out, int64_t *done, vtb_error *err) {
  int want = o->n_threads > 0 ? o->n_threads : vtb_default_threads(), started = 0;
  survey s = {.d = d, .facts = calloc((size_t)vtb_dataset_count(d) + 1, sizeof *s.facts)};
  pthread_t *threads = calloc((size_t)want, sizeof *threads);
  if (!s.facts || !threads) {
    free(s.facts);
    free(threads);
    return vtb_no_memory(err, "looking at a data set");
  }
  sigset_t all, old; /* signals are the caller's */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (bool more = true; started < want && more;) {
    atomic_fetch_add(&s.running, 1);
    more = pthread_create(&threads[started], NULL, work, &s) == 0;
    if (more)
      started++;
    else
      atomic_fetch_sub(&s.running, 1);
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (started)
    watch(&s, o);
  else
    work(&s);
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  free(threads);
  if (atomic_load(&s.failed)) {
    free(s.facts);
    return vtb_fail(err, s.error.status, "%s", s.error.text);
  }
  *done = atomic_load(&s.done);
  *out = s.facts;
  return VTB_OK;
}
