/* Ranks in one process: a hall where a sender's message waits for its receiver or the other way
 * round; whoever comes second copies. */
#include "runtime/ranks/link.h"

#include <pthread.h>
#include <string.h>

typedef struct message {
  struct message *next, *older; /* in its list; of its owner */
  int from, to, tag;
  bool is_receive, done, listed;
  void *at;
  int64_t bytes;
} message;

struct vtb__hall {
  pthread_mutex_t lock;
  int n, inside;
  message *waiting; /* sends and receives without their other half, oldest first */
};

typedef struct thread_link {
  vtb__link link;
  vtb__hall *hall;
  message *own; /* all that have not been seen to be done */
} thread_link;

/* The lists hold a few dozen messages. */
static message *find_message(vtb__hall *h, bool is_receive, int from, int to, int tag) {
  message *m = h->waiting;
  while (m && !(m->is_receive == is_receive && (from < 0 || m->from == from) && m->to == to &&
                m->tag == tag))
    m = m->next;
  return m;
}

static void unlist(vtb__hall *h, message *m) {
  message **at = &h->waiting;
  while (*at != m) at = &(*at)->next;
  *at = m->next;
  m->listed = false;
}

static void enlist(vtb__hall *h, message *m) {
  message **at = &h->waiting;
  while (*at) at = &(*at)->next;
  *at = m;
  m->listed = true;
}

static void copy_message(const message *from, const message *to) {
  memcpy(to->at, from->at, (size_t)(from->bytes < to->bytes ? from->bytes : to->bytes));
}

static bool post(thread_link *t, message m, void **request) {
  message *mine = malloc(sizeof *mine);
  if (!mine) {
    snprintf(t->link.error, sizeof t->link.error, "out of memory for a message");
    return false;
  }
  m.older = t->own;
  *mine = m;
  t->own = mine;
  pthread_mutex_lock(&t->hall->lock);
  message *other = find_message(t->hall, !m.is_receive, m.from, m.to, m.tag);
  if (other) {
    copy_message(m.is_receive ? other : mine, m.is_receive ? mine : other);
    unlist(t->hall, other);
    mine->done = other->done = true;
  } else {
    enlist(t->hall, mine);
  }
  pthread_mutex_unlock(&t->hall->lock);
  *request = mine;
  return true;
}

static bool send(vtb__link *l, int to, int tag, const void *at, int64_t bytes, void **request) {
  message m = {.from = l->rank, .to = to, .tag = tag, .at = (void *)(uintptr_t)at, .bytes = bytes};
  return post((thread_link *)l, m, request);
}

static bool receive(vtb__link *l, int from, int tag, void *at, int64_t bytes, void **request) {
  message m = {
      .is_receive = true, .from = from, .to = l->rank, .tag = tag, .at = at, .bytes = bytes};
  return post((thread_link *)l, m, request);
}

static void forget(thread_link *t, message *m) {
  message **at = &t->own;
  while (*at != m) at = &(*at)->older;
  *at = m->older;
  free(m);
}

static int test(vtb__link *l, int n, void **requests) {
  thread_link *t = (thread_link *)l;
  bool all = true;
  pthread_mutex_lock(&t->hall->lock);
  for (int i = 0; i < n; i++) {
    message *m = requests[i];
    if (m && m->done) {
      forget(t, m);
      requests[i] = NULL;
    }
    all = all && !requests[i];
  }
  pthread_mutex_unlock(&t->hall->lock);
  return all;
}

static int take_message(vtb__link *l, int tag, void *at, int64_t bytes) {
  thread_link *t = (thread_link *)l;
  const message mine = {.at = at, .bytes = bytes};
  int from = -1;
  pthread_mutex_lock(&t->hall->lock);
  message *m = find_message(t->hall, false, -1, l->rank, tag);
  if (m) {
    copy_message(m, &mine);
    unlist(t->hall, m);
    m->done = true;
    from = m->from;
  }
  pthread_mutex_unlock(&t->hall->lock);
  return from;
}

static void close_link(vtb__link *l, bool orderly) {
  thread_link *t = (thread_link *)l;
  (void)orderly;
  pthread_mutex_lock(&t->hall->lock);
  for (message *m = t->own, *older; m; m = older) {
    older = m->older;
    if (m->listed) unlist(t->hall, m);
    free(m);
  }
  pthread_mutex_unlock(&t->hall->lock);
  vtb__hall_leave(t->hall);
  free(t);
}

vtb__hall *vtb__hall_new(int n) {
  vtb__hall *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  pthread_mutex_init(&h->lock, NULL);
  h->n = h->inside = n;
  return h;
}

void vtb__hall_leave(vtb__hall *h) {
  pthread_mutex_lock(&h->lock);
  bool last = --h->inside == 0;
  pthread_mutex_unlock(&h->lock);
  if (!last) return;
  pthread_mutex_destroy(&h->lock);
  free(h);
}

vtb__link *vtb__hall_join(void *arg, vtb_error *err) {
  vtb__join *j = arg;
  thread_link *t = calloc(1, sizeof *t);
  if (!t) {
    (void)vtb_no_memory(err, "a rank of a job");
    return NULL;
  }
  j->taken = true;
  t->hall = j->hall;
  t->link = (vtb__link){.rank = j->rank,
                        .n = j->hall->n,
                        .send = send,
                        .receive = receive,
                        .test = test,
                        .take = take_message,
                        .close = close_link};
  return &t->link;
}
