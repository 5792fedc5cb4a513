/* Guards, and the allocation functions that never fail: see base.h.
 *
 * A thread's innermost guard is where setjmp() was called. One table a thread, from its outermost
 * guard's beginning to its end, holds the address of everything taken inside; entries are numbered
 * in the order of taking, so that what belongs to an inner guard is what has a number from the
 * inner guard's first one on. */
#include "runtime/base/base.h"

#include <setjmp.h>
#include <string.h>
#include <sys/uio.h>

typedef struct taken {
  uintptr_t address; /* 0: a free slot */
  uint64_t number;
} taken;

typedef struct deferred {
  void (*undo)(void *what);
  void *what;
  uint64_t number;
} deferred;

typedef struct guard {
  jmp_buf jump;
  uint64_t first;
  vtb_error *err;
  struct guard *outer;
} guard;

typedef struct guards {
  guard *innermost;
  uint64_t number;        /* the next */
  taken *table;           /* open addressing */
  size_t n, cap;          /* cap: a power of two */
  deferred *actions;      /* in the order of their numbers */
  size_t n_actions, room; /* room: for so many */
} guards;

/* One pointer, in the static block: a lazily made thread-local variable would end the process
 * without memory. */
static _Thread_local guards *mine __attribute__((tls_model("initial-exec")));

/* ---- the table ------------------------------------------------------------------------------- */

static size_t slot_of(const guards *g, uintptr_t address) {
  size_t i = (size_t)(((uint64_t)address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (g->cap - 1);
  while (g->table[i].address && g->table[i].address != address) i = (i + 1) & (g->cap - 1);
  return i;
}

static void put_entry(guards *g, uintptr_t address, uint64_t number) {
  size_t i = slot_of(g, address);
  g->n += !g->table[i].address;
  g->table[i] = (taken){address, number};
}

/* Entries behind the gap that could not be found any more move up. */
static void take_out(guards *g, size_t gap) {
  g->table[gap].address = 0;
  g->n--;
  for (size_t i = (gap + 1) & (g->cap - 1); g->table[i].address; i = (i + 1) & (g->cap - 1)) {
    taken moved = g->table[i];
    g->table[i].address = 0;
    g->table[slot_of(g, moved.address)] = moved;
  }
}

/* Room for one more entry; false when out of memory. */
static bool make_room(guards *g) {
  if (2 * (g->n + 1) <= g->cap) return true;
  size_t old_cap = g->cap, cap = old_cap ? 2 * old_cap : 256;
  taken *old = g->table, *table = calloc(cap, sizeof *table);
  if (!table) return false;
  g->table = table;
  g->cap = cap;
  for (size_t i = 0; i < old_cap; i++)
    if (old[i].address) g->table[slot_of(g, old[i].address)] = old[i];
  free(old);
  return true;
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* Everything from `first` on. A removed entry may be replaced by a later one, never by one that was
 * kept before. */
static void take_back(guards *g, uint64_t first) {
  while (g->n_actions && g->actions[g->n_actions - 1].number >= first) {
    deferred a = g->actions[--g->n_actions];
    a.undo(a.what);
  }
  for (size_t i = 0; i < g->cap;) {
    taken t = g->table[i];
    if (t.address && t.number >= first) {
      take_out(g, i);
      free((void *)t.address);
    } else {
      i++;
    }
  }
}

/* Nobody would hear a status: what is wrong goes to the standard error, and the process ends. */
static VTB_NORETURN void end_with(const char *words) {
  struct iovec line[] = {{(void *)(uintptr_t)words, strlen(words)}, {(void *)(uintptr_t) "\n", 1}};
  ssize_t said = writev(2, line, 2);
  (void)said;
  __builtin_trap();
}

/* Deferred work may point into the frames that are being left: it is undone before the jump. */
static VTB_NORETURN void leave(vtb_status status, const char *words) {
  if (!mine || !mine->innermost) end_with(words); /* who calls what never fails has a guard */
  guard *g = mine->innermost;
  if (g->err) {
    *g->err = (vtb_error){0};
    (void)vtb_fail(g->err, status, "%s", words);
  }
  mine->innermost = g->outer;
  take_back(mine, g->first);
  longjmp(g->jump, (int)status);
}

void vtb_out_of_memory(size_t size_bytes) {
  char words[96] = "out of memory";
  if (size_bytes)
    snprintf(words, sizeof words, "out of memory (a request for %zu bytes failed)", size_bytes);
  leave(VTB_E_MEMORY, words);
}

void vtb_bug_at(const char *file, int line, const char *fmt, ...) {
  char what[512], words[sizeof what + 512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  snprintf(words, sizeof words,
           "internal error at %s:%d: %s\nThis is a defect in vertebra, not in your input; please "
           "report it with the command you ran.",
           file, line, what);
  leave(VTB_E_INTERNAL, words);
}

/* ---- guards ---------------------------------------------------------------------------------- */

static void end_outermost(guards *g) {
  mine = NULL;
  free(g->table);
  free(g->actions);
  free(g);
}

vtb_status vtb_guard(vtb_guarded_fn body, void *arg, vtb_error *err) {
  if (!mine) mine = calloc(1, sizeof *mine);
  if (!mine) return vtb_no_memory(err, "the work");
  guard g = {.first = mine->number, .err = err, .outer = mine->innermost};
  vtb_status status;
  mine->innermost = &g;
  int left = setjmp(g.jump);
  if (left) {
    status = (vtb_status)left;
  } else {
    status = body(arg, err);
    mine->innermost = g.outer;
  }
  if (!mine->innermost) end_outermost(mine);
  return status;
}

void vtb_defer(void (*undo)(void *what), void *what) {
  guards *g = mine;
  if (!g) return;
  if (g->n_actions == g->room) {
    size_t room = g->room ? 2 * g->room : 16;
    deferred *actions = realloc(g->actions, room * sizeof *actions);
    if (!actions) {
      undo(what);
      vtb_out_of_memory(room * sizeof *actions);
    }
    g->actions = actions;
    g->room = room;
  }
  g->actions[g->n_actions++] = (deferred){undo, what, g->number++};
}

void vtb_forget(const void *what) {
  guards *g = mine;
  if (!g) return;
  for (size_t i = g->n_actions; i > 0; i--) {
    if (g->actions[i - 1].what != what) continue;
    memmove(&g->actions[i - 1], &g->actions[i], (g->n_actions - i) * sizeof *g->actions);
    g->n_actions--;
    return;
  }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Takes the block into the books, for which there is room. */
static void *book(void *p, size_t size_bytes) {
  if (!p) vtb_out_of_memory(size_bytes);
  if (mine) put_entry(mine, (uintptr_t)p, mine->number++);
  return p;
}

static void open_book(size_t size_bytes) {
  if (mine && !make_room(mine)) vtb_out_of_memory(size_bytes);
}

void *vtb_xmalloc(size_t size_bytes) {
  open_book(size_bytes);
  return book(malloc(size_bytes ? size_bytes : 1), size_bytes);
}

void *vtb_xcalloc(size_t count, size_t size_bytes) {
  open_book(size_bytes);
  return book(calloc(count ? count : 1, size_bytes ? size_bytes : 1), size_bytes);
}

/* A block that was there before the guard stays nobody's of the guard's. */
void *vtb_xrealloc(void *p, size_t count, size_t size_bytes) {
  size_t total;
  if (__builtin_mul_overflow(count, size_bytes, &total)) vtb_out_of_memory(SIZE_MAX);
  if (!p) return vtb_xmalloc(total);
  size_t slot = mine && mine->cap ? slot_of(mine, (uintptr_t)p) : 0;
  taken old = mine && mine->cap ? mine->table[slot] : (taken){0};
  void *grown = realloc(p, total ? total : 1);
  if (!grown) vtb_out_of_memory(total);
  if (old.address) {
    take_out(mine, slot);
    put_entry(mine, (uintptr_t)grown, old.number);
  }
  return grown;
}

char *vtb_xstrdup(const char *s) {
  size_t n = strlen(s) + 1;
  return memcpy(vtb_xmalloc(n), s, n);
}

void *vtb_need(void *p) {
  if (!p) vtb_out_of_memory(0);
  return p;
}

void vtb_free(void *p) {
  if (mine && mine->n && p) {
    size_t slot = slot_of(mine, (uintptr_t)p);
    if (mine->table[slot].address) take_out(mine, slot);
  }
  free(p);
}
