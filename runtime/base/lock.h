/* A lock for a few instructions that nobody who forks can leave locked for ever: it knows the
 * process of its holder, and in a child, where a thread of the parent's cannot give it back, it is
 * free again. vtb_lock_take() is false then: what it guards may be half done. */
#ifndef VTB_LOCK_H
#define VTB_LOCK_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

typedef struct vtb_lock {
  _Atomic int holder; /* a process; 0: nobody */
} vtb_lock;

static inline bool vtb_lock_take(vtb_lock *l) {
  const int here = (int)getpid();
  for (;;) {
    int holder = 0;
    if (atomic_compare_exchange_strong(&l->holder, &holder, here)) return true;
    if (holder != here && atomic_compare_exchange_strong(&l->holder, &holder, here)) return false;
    sched_yield();
  }
}
static inline void vtb_lock_give(vtb_lock *l) { atomic_store(&l->holder, 0); }

#endif
