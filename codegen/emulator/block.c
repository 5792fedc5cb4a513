/* A block, or a cluster of them: threads as fibers that run until they must wait for each other.
 *
 * A fiber leaves the processor at a barrier, at a warp collective, or at its end; it then hands
 * over to another lane of its warp, and to the scheduler once no lane of the warp can run. The last
 * one to arrive releases the others and goes on. When nothing can run and not all threads have
 * ended, somebody waits for a thread that never comes: that is the error a GPU would show as a hang
 * or as wrong numbers.
 */
#include "codegen/emulator/count.h"
#include "codegen/emulator/hopper.h"

#include <string.h>
#include <sys/mman.h>

_Static_assert(sizeof(vtb__emu_fiber) == offsetof(vtb__emu_fiber, t) + sizeof(vtb_emu_thread),
               "t ends the fiber");

/* ---- errors ---------------------------------------------------------------------------------- */

static void set_error(vtb__emu_launch *l, const char *text) {
  pthread_mutex_lock(&l->lock);
  vtb_fail(&l->error, VTB_E_INTERNAL, "%s", text);
  pthread_mutex_unlock(&l->lock);
  atomic_store(&l->stop, true);
}

/* The block's stacks are abandoned where they are: kernels own nothing. */
VTB_NORETURN static void leave_block(vtb__emu_worker *w) {
  void *unused;
  w->failed = true;
  vtb__fiber_switch(&unused, w->scheduler_sp);
  vtb_bug("a fiber of a failed block ran again");
}

VTB_NORETURN static void fail_text(vtb_emu_thread *t, const char *where, const char *what) {
  vtb__emu_worker *w = vtb__emu_fiber_of(t)->worker;
  char text[1024];
  snprintf(text, sizeof text, "kernel %s, block %d, thread %d, %s: %s", w->launch->what->kernel,
           t->block, t->tid, where, what);
  set_error(w->launch, text);
  leave_block(w);
}

/* Records the error of the running thread and leaves its block for good. `where` is "file:line". */
VTB_PRINTF(3, 4)
VTB_NORETURN static void fail_at(vtb_emu_thread *t, const char *where, const char *fmt, ...) {
  char what[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  fail_text(t, where, what);
}

void vtb__emu_fail_at(vtb_emu_thread *t, const void *frame, const char *fmt, ...) {
  char what[512], where[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  vtb__emu_locate(vtb__emu_fiber_of(t)->worker->launch->emulator, frame, t, where, sizeof where);
  fail_text(t, where, what);
}

static void api_fail(vtb_emu_thread *t, const char *what) {
  vtb__emu_fail_at(t, __builtin_frame_address(0), "%s", what);
}

static void api_outside(vtb_emu_thread *t, int is_shared, long first, long n_bytes, long size) {
  vtb__emu_fail_at(t, __builtin_frame_address(0),
                   "access out of bounds: bytes %ld to %ld of %s of %ld bytes", first,
                   first + n_bytes - 1, is_shared ? "a shared array" : "an argument", size);
}

/* ---- turns ----------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* The next lane in the warp's order that can run, after the one that ran last. */
static vtb__emu_fiber *next_lane(vtb__emu_warp *w) {
  if (!w->ready) return NULL;
  for (int i = 1; i <= VTB__EMU_WARP; i++) {
    int at = (w->last + i) % VTB__EMU_WARP;
    if (!(w->ready >> w->order[at] & 1u)) continue;
    w->last = at;
    return w->lane[w->order[at]];
  }
  return NULL;
}

static vtb__emu_fiber *fiber(const vtb__emu_worker *w, int id) {
  return w->warps[id / VTB__EMU_WARP].lane[id % VTB__EMU_WARP];
}

static void hand_over(vtb__emu_fiber *f) {
  vtb__emu_fiber *next = next_lane(f->warp);
  vtb__fiber_switch(&f->sp, next ? next->sp : f->worker->scheduler_sp);
}

vtb__emu_fiber *vtb__emu_fiber_at(const vtb__emu_worker *w, int id) { return fiber(w, id); }

static void stop_running(vtb__emu_fiber *f, vtb__emu_state state) {
  f->state = state;
  f->warp->ready &= ~(1u << f->t.tid % VTB__EMU_WARP);
}

static void resume(vtb__emu_fiber *f) {
  f->state = VTB__EMU_READY;
  f->warp->ready |= 1u << f->t.tid % VTB__EMU_WARP;
}

void vtb__emu_wait_in(vtb__emu_fiber *f, vtb__emu_state state) {
  stop_running(f, state);
  hand_over(f);
}

void vtb__emu_resume(vtb__emu_fiber *f) { resume(f); }

/* ---- waiting for each other ------------------------------------------------------------------ */

static const char *place_text(vtb_emu_place at, char *text, size_t n) {
  snprintf(text, n, "%s:%d", at.file, at.line);
  return text;
}

static bool same_place(vtb_emu_place a, vtb_emu_place b) {
  return a.name == b.name && a.line == b.line && a.file == b.file;
}

void vtb__emu_collective(vtb_emu_thread *t, unsigned mask, vtb_emu_place at,
                         vtb_emu_complete complete) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_warp *w = f->warp;
  unsigned lane = (unsigned)t->tid % VTB__EMU_WARP;
  f->mask = mask;
  f->at = at;
  if (w->arrived) {
    const vtb__emu_fiber *other = w->lane[__builtin_ctz(w->arrived)];
    char here[256], there[256];
    if (!same_place(at, other->at))
      fail_at(t, place_text(at, here, sizeof here),
              "divergent %s: thread %d of the warp is at %s in %s", at.name, other->t.tid,
              other->at.name, place_text(other->at, there, sizeof there));
  }
  w->arrived |= 1u << lane;
  if (w->arrived != mask) {
    stop_running(f, VTB__EMU_AT_COLLECTIVE);
    hand_over(f);
    return;
  }
  w->arrived = 0;
  if (f->worker->count) vtb__emu_count_warp(f->worker->count, f->id / VTB__EMU_WARP);
  if (complete) {
    complete(w->threads, mask);
  } else {
    w->sync_time = ++f->worker->clock;
    vtb__emu_join_warp(f->worker, w);
  }
  for (unsigned rest = mask & ~(1u << lane); rest; rest &= rest - 1)
    resume(w->lane[__builtin_ctz(rest)]);
}

static void sync_warp(vtb_emu_thread *t, vtb_emu_place at) {
  vtb__emu_collective(t, 0xffffffffu, at, NULL);
}

static void sync_block(vtb_emu_thread *t, vtb_emu_place at) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_worker *w = f->worker;
  vtb__emu_member *m = f->member;
  int n = vtb__emu_block_threads(w);
  char here[256], there[256];
  f->at = at;
  if (!m->n_at_barrier)
    m->first_at_barrier = f;
  else if (!same_place(at, m->first_at_barrier->at))
    fail_at(t, place_text(at, here, sizeof here),
            "divergent barrier: thread %d waits at the one in %s", m->first_at_barrier->t.tid,
            place_text(m->first_at_barrier->at, there, sizeof there));
  if (++m->n_at_barrier < n) {
    stop_running(f, VTB__EMU_AT_BARRIER);
    hand_over(f);
    return;
  }
  m->n_at_barrier = 0;
  if (w->count) vtb__emu_count_barrier(w, t->rank);
  m->barrier_time = ++w->clock;
  vtb__emu_join_block(f);
  for (int i = m->first; i < m->first + n; i++) {
    vtb__emu_fiber *g = fiber(w, i);
    if (g->state == VTB__EMU_AT_BARRIER) resume(g);
  }
}

static const vtb_emu_api api = {.mbar_init = vtb__emu_mbar_init,
                                .mbar_ready = vtb__emu_mbar_ready,
                                .mbar_arrive = vtb__emu_mbar_arrive,
                                .mbar_wait = vtb__emu_mbar_wait,
                                .async_fence = vtb__emu_async_fence,
                                .tma = vtb__emu_tma,
                                .tma_commit = vtb__emu_tma_commit,
                                .tma_wait = vtb__emu_tma_wait,
                                .sync_part = vtb__emu_sync_part,
                                .registers = vtb__emu_registers,
                                .cluster_arrive = vtb__emu_cluster_arrive,
                                .cluster_wait = vtb__emu_cluster_wait,
                                .send = vtb__emu_send,
                                .wgmma = vtb__emu_wgmma,
                                .wgmma_fence = vtb__emu_wgmma_fence,
                                .wgmma_commit = vtb__emu_wgmma_commit,
                                .wgmma_wait = vtb__emu_wgmma_wait,
                                .collective = vtb__emu_collective,
                                .shuffle = vtb__emu_shuffle,
                                .mma_tf32 = vtb__emu_mma_tf32,
                                .mma_bf16 = vtb__emu_mma_bf16,
                                .mma_f16 = vtb__emu_mma_f16,
                                .ldmatrix = vtb__emu_ldmatrix,
                                .ldmatrix_trans = vtb__emu_ldmatrix_trans,
                                .nothing = vtb__emu_nothing,
                                .sync_warp = sync_warp,
                                .sync = sync_block,
                                .shared_read = vtb__emu_shared_read,
                                .shared_write = vtb__emu_shared_write,
                                .access = vtb__emu_access,
                                .async_copy = vtb__emu_async_copy,
                                .async_commit = vtb__emu_async_commit,
                                .async_wait = vtb__emu_async_wait,
                                .outside = api_outside,
                                .fail = api_fail};

/* ---- a cluster from start to end ------------------------------------------------------------- */

/* The lowest word of a stack: whoever overwrote it needs a larger one. */
static const uint64_t FLOOR_MARK = UINT64_C(0x6b6361747320666f);
static uint64_t *stack_floor(vtb__emu_fiber *f) {
  return (uint64_t *)(void *)((char *)(f + 1) - VTB_EMU_STACK);
}

/* A block's shared memory is there until all its threads have ended. Whoever uses it from another
 * block must be known to be done by a thread of this one before that, so that a block that leaves
 * too early is found whichever ran first. */
static bool is_known(const vtb__emu_worker *w, const vtb__emu_member *m, int id) {
  for (int i = m->first; i < m->first + vtb__emu_block_threads(w); i++)
    if (m->touched[id] < w->hopper->seen[i][id]) return true;
  return false;
}

/* Apart, since gcc's address sanitizer, once this is inlined, takes the name for out of scope. */
static __attribute__((noinline)) void fail_by_use(vtb__emu_fiber *f, int other) {
  char name[64];
  fail_at(&f->t, "at the block's end", "%s may still use its shared memory",
          vtb__emu_name(f, other, name));
}

static void end_block(vtb__emu_fiber *f) {
  const vtb__emu_worker *w = f->worker;
  char left[256];
  if (vtb__emu_left_over(w, f->t.rank, left)) fail_at(&f->t, "at the block's end", "%s", left);
  for (int i = 0; i < w->n_threads && w->cluster > 1; i++)
    if (f->member->touched[i] && !is_known(w, f->member, i)) fail_by_use(f, i);
}

static void fiber_main(void *argument) {
  vtb__emu_fiber *f = argument;
  f->worker->launch->kernel(f->worker->launch->args);
  if (f->copies.n) fail_at(&f->t, "at its end", "cp.async copies that nobody waited for");
  if (f->stores.n) fail_at(&f->t, "at its end", "TMA stores that nobody waited for");
  if (*stack_floor(f) != FLOOR_MARK)
    fail_at(&f->t, "at its end", "the emulator's stack is too small for it");
  f->worker->n_done++;
  if (++f->member->n_done == vtb__emu_block_threads(f->worker)) end_block(f);
  stop_running(f, VTB__EMU_DONE);
  hand_over(f);
  vtb_bug("a finished fiber ran again");
}

static void swap_lanes(vtb__emu_warp *w, int i, int j) {
  unsigned char lane = w->order[i];
  w->order[i] = w->order[j];
  w->order[j] = lane;
}

static void shuffle_warp(vtb__emu_warp *w, uint64_t *random, bool reversed) {
  for (int i = 0; i < VTB__EMU_WARP; i++) w->order[i] = (unsigned char)i;
  for (int i = VTB__EMU_WARP - 1; i > 0; i--) {
    int j = (int)(next_random(random) % (unsigned)(i + 1));
    swap_lanes(w, i, j);
  }
  for (int i = 0; reversed && i < VTB__EMU_WARP / 2; i++) swap_lanes(w, i, VTB__EMU_WARP - 1 - i);
  w->last = VTB__EMU_WARP - 1;
}

static vtb__emu_fiber *stack_fiber(const vtb__emu_worker *w, int id) {
  return (vtb__emu_fiber *)(void *)(w->stacks + (size_t)(id + 1) * VTB_EMU_STACK -
                                    sizeof(vtb__emu_fiber));
}

static void start_fiber(vtb__emu_worker *w, int id) {
  vtb__emu_fiber *f = stack_fiber(w, id);
  vtb__emu_warp *warp = &w->warps[id / VTB__EMU_WARP];
  int rank = id / vtb__emu_block_threads(w);
  f->copies.n = 0;
  f->stores.n = 0;
  f->store_group = 0;
  f->worker = w;
  f->warp = warp;
  f->state = VTB__EMU_READY;
  f->async_group = 0;
  f->id = id;
  f->member = &w->members[rank];
  f->has_arrived = false;
  f->registers = 0;
  f->t.tid = id - f->member->first;
  f->t.block = w->block + rank;
  f->t.rank = rank;
  f->t.cluster = w->cluster;
  f->t.shared_bytes = w->launch->what->shared_bytes;
  f->t.shared = w->shared + rank * VTB_EMU_SHARED_STRIDE;
  f->t.api = &api;
  *stack_floor(f) = FLOOR_MARK;
  f->sp = vtb__fiber_prepare((char *)f, fiber_main, f);
  warp->lane[id % VTB__EMU_WARP] = f;
  warp->threads[id % VTB__EMU_WARP] = &f->t;
  warp->ready |= 1u << id % VTB__EMU_WARP;
}

/* Their barrier_time is vtb__emu_shadow_block's. */
static void start_members(vtb__emu_worker *w) {
  const vtb_emulator_launch *l = w->launch->what;
  for (int r = 0; r < w->cluster; r++) {
    vtb__emu_member *m = &w->members[r];
    m->first = r * l->threads;
    m->n_done = m->n_at_barrier = m->spare_registers = 0;
    m->barrier_time = 0;
    memset(m->touched, 0, (size_t)w->n_threads * sizeof *m->touched);
    /* NaN, as far as it is read as floats */
    memset(w->shared + r * VTB_EMU_SHARED_STRIDE, 0xff, (size_t)l->shared_bytes);
  }
}

static void start_cluster(vtb__emu_worker *w, int block) {
  const vtb_emulator_launch *l = w->launch->what;
  w->block = block;
  w->failed = false;
  w->cluster = l->cluster ? l->cluster : 1;
  w->n_threads = l->threads * w->cluster;
  if (w->most_threads < w->n_threads) w->most_threads = w->n_threads;
  w->n_warps = w->n_threads / VTB__EMU_WARP;
  w->n_done = 0;
  w->random = w->launch->emulator->seed * UINT64_C(0x2545f4914f6cdd1d) + (uint64_t)block;
  memset(w->warps, 0, (size_t)w->n_warps * sizeof *w->warps);
  start_members(w);
  vtb__emu_shadow_block(w);
  vtb__emu_hopper_block(w);
  for (int i = 0; i < w->n_warps; i++)
    shuffle_warp(&w->warps[i], &w->random, w->launch->emulator->reversed);
  for (int i = 0; i < w->n_threads; i++) start_fiber(w, i);
}

static const char *state_text(const vtb__emu_fiber *f, char *text, size_t n) {
  if (f->state == VTB__EMU_DONE) return "has ended";
  snprintf(text, n, "waits at %s in %s:%d", f->at.name, f->at.file, f->at.line);
  return text;
}

static void report_registers(const vtb__emu_fiber *f) {
  char a[256], text[1024];
  snprintf(text, sizeof text,
           "kernel %s, block %d, thread %d %s for ever: %d registers are left of those that "
           "others of the block gave back",
           f->worker->launch->what->kernel, f->t.block, f->t.tid, state_text(f, a, sizeof a),
           f->member->spare_registers);
  set_error(f->worker->launch, text);
}

static void report_phase(const vtb__emu_fiber *f) {
  const vtb__emu_mbar *b = f->bar;
  char a[256], text[1024];
  snprintf(text, sizeof text,
           "kernel %s, block %d, thread %d %s for ever: phase %u of the mbarrier lacks %d of %d "
           "threads, and %ld of %ld bytes have come",
           f->worker->launch->what->kernel, f->t.block, f->t.tid, state_text(f, a, sizeof a),
           b->phase, b->missing, b->threads, b->coming, b->announced);
  set_error(f->worker->launch, text);
}

/* The more threads a barrier has, the less does one that waits there say. */
static int precision_of(const vtb__emu_fiber *f) {
  return f->state == VTB__EMU_AT_COLLECTIVE ? 3 : f->state == VTB__EMU_AT_CLUSTER ? 1 : 2;
}

/* f might be whom `waiting` waits for. */
static bool is_concerned(const vtb__emu_fiber *f, const vtb__emu_fiber *waiting) {
  if (waiting->state == VTB__EMU_AT_COLLECTIVE) return f->warp == waiting->warp;
  return waiting->state == VTB__EMU_AT_CLUSTER || f->member == waiting->member;
}

/* Nothing can run: one thread that waits, and one that should come and does not. A warp's
 * collective is the more precise place. */
static void report_hang(vtb__emu_worker *w) {
  const vtb__emu_fiber *waiting = NULL, *missing = NULL;
  for (int i = 0; i < w->n_threads; i++)
    if (fiber(w, i)->state == VTB__EMU_AT_REGISTERS) {
      report_registers(fiber(w, i));
      return;
    }
  for (int i = 0; i < w->n_threads; i++) {
    const vtb__emu_fiber *f = fiber(w, i);
    bool better = !waiting || precision_of(waiting) < precision_of(f);
    if (f->state == VTB__EMU_AT_MBARRIER) {
      report_phase(f);
      return;
    }
    if (f->state != VTB__EMU_DONE && better) waiting = f;
  }
  for (int i = 0; i < w->n_threads && !missing; i++) {
    const vtb__emu_fiber *f = fiber(w, i);
    if (is_concerned(f, waiting) && (f->state != waiting->state || !same_place(f->at, waiting->at)))
      missing = f;
  }
  char a[256], b[256], text[1024];
  vtb_check(missing != NULL, "a block of %s hangs though everybody has come",
            w->launch->what->kernel);
  snprintf(text, sizeof text, "kernel %s, block %d, thread %d %s for ever: thread %d %s",
           w->launch->what->kernel, waiting->t.block, waiting->t.tid,
           state_text(waiting, a, sizeof a), missing->t.tid, state_text(missing, b, sizeof b));
  set_error(w->launch, text);
}

/* AddressSanitizer still holds the frames of abandoned stacks for alive. */
#if defined(__SANITIZE_ADDRESS__)
void __asan_unpoison_memory_region(void const volatile *at, size_t n_bytes);
static void forget_frames(const vtb__emu_worker *w) {
  __asan_unpoison_memory_region(w->stacks, VTB__EMU_MAX_THREADS * VTB_EMU_STACK);
}
#else
static void forget_frames(const vtb__emu_worker *w) { (void)w; }
#endif

static bool run_fibers(vtb__emu_worker *w) {
  int first = (int)(next_random(&w->random) % (unsigned)w->n_warps),
      step = next_random(&w->random) & 1 ? 1 : -1;
  if (w->launch->emulator->reversed) first = (first - step + w->n_warps) % w->n_warps, step = -step;
  while (w->n_done < w->n_threads) {
    bool ran = false;
    for (int i = 0; i < w->n_warps; i++) {
      vtb__emu_warp *warp = &w->warps[(first + step * i + 2 * w->n_warps) % w->n_warps];
      for (vtb__emu_fiber *f; (f = next_lane(warp)); ran = true) {
        vtb__fiber_switch(&w->scheduler_sp, f->sp);
        if (w->failed) return false;
      }
    }
    if (!ran) {
      report_hang(w);
      return false;
    }
  }
  return true;
}

bool vtb__emu_run_cluster(vtb__emu_worker *w, int block) {
  start_cluster(w, block);
  if (run_fibers(w)) return true;
  forget_frames(w);
  return false;
}

/* ---- workers --------------------------------------------------------------------------------- */

vtb__emu_worker *vtb__emu_worker_new(vtb_error *err) {
  vtb__emu_worker *w = vtb_xcalloc(1, sizeof *w);
  /* aligned to the stack's size: one more than needed, from the first multiple on; pages come when
   * they are touched */
  w->mapping_bytes = (VTB__EMU_MAX_THREADS + 1) * VTB_EMU_STACK;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  w->mapping = mmap(NULL, w->mapping_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  w->shared = vtb_aligned_alloc(VTB__EMU_CLUSTER * VTB__EMU_MAX_SHARED);
  if (w->mapping == MAP_FAILED || !w->shared) {
    if (w->mapping != MAP_FAILED) munmap(w->mapping, w->mapping_bytes);
    vtb_free(w->shared);
    vtb_free(w);
    vtb_fail(err, VTB_E_MEMORY, "out of memory for the emulator's stacks");
    return NULL;
  }
  w->stacks =
      (char *)(((uintptr_t)w->mapping + VTB_EMU_STACK - 1) & ~(uintptr_t)(VTB_EMU_STACK - 1));
  return w;
}

void vtb__emu_worker_free(vtb__emu_worker *w) {
  if (!w) return;
  for (int i = 0; i < VTB__EMU_MAX_THREADS && w->most_threads > i; i++)
    vtb_vec_free(&stack_fiber(w, i)->copies), vtb_vec_free(&stack_fiber(w, i)->stores);
  vtb__emu_hopper_free(w);
  munmap(w->mapping, w->mapping_bytes);
  vtb_free(w->shared);
  vtb_free(w->cells);
  vtb_free(w);
}
