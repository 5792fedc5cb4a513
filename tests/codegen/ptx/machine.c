/* A cluster of blocks: threads as contexts that run until they must wait, in turn. What is
 * asynchronous happens when somebody waits for it by groups, or when nothing else can go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/emulator/core.h"
#include "tests/codegen/ptx/ptx.h"

ptx_machine ptx_the_machine;
#define M ptx_the_machine
enum { STACK = 131072 };
static void *scheduler, *contexts[PTX_THREADS]; /* their stacks */
static jmp_buf no_thread;                       /* where a fault outside of threads comes back */
static char *stacks;

/* ---- waiting --------------------------------------------------------------------------------- */

void ptx_fault(const char *fmt, ...) {
  char what[400];
  const ptx_thread *t = M.current;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  if (t && t->operands)
    snprintf(M.error, 512, "thread %d of block %d, %s: %s", t->id, t->rank,
             M.text->statement[t->statement].function, what);
  else
    snprintf(M.error, 512, "%s", what);
  M.failed = true;
  void *unused;
  if (t)
    vtb__fiber_switch(&unused, scheduler); /* stacks are left as they are: kernels own nothing */
  longjmp(no_thread, 1);
}

void ptx_wait(ptx_thread *t, ptx_state state) {
  t->state = state;
  t->epoch = M.epoch;
  vtb__fiber_switch(&contexts[t - M.thread], scheduler);
}

void ptx_changed(void) { M.epoch++; }

/* True for the thread of a warp that comes last; the others wait until part(). */
static bool gather(ptx_thread *t, ptx_thread **lane) {
  for (int l = 0; l < PTX_WARP; l++) lane[l] = &M.thread[(t - M.thread) / PTX_WARP * PTX_WARP + l];
  for (int l = 0; l < PTX_WARP; l++) {
    if (lane[l] == t || lane[l]->state == PTX_AT_WARP) continue;
    ptx_wait(t, PTX_AT_WARP);
    return false;
  }
  return true;
}

static void part(const ptx_thread *t, ptx_thread *const *lane) {
  for (int l = 0; l < PTX_WARP; l++)
    if (lane[l] != t) lane[l]->state = PTX_READY;
}

/* ---- items ----------------------------------------------------------------------------------- */

static uint64_t special(const ptx_thread *t, const char *name) {
  const struct {
    const char *name;
    int value;
  } known[] = {{"cluster_ctarank", t->rank}, {"cluster_nctarank", M.launch->cluster},
               {"cluster_ctaid.x", t->rank}, {"cluster_nctaid.x", M.launch->cluster},
               {"ctaid.x", t->rank},         {"tid.x", t->id},
               {"laneid", t->id % PTX_WARP}, {"warpid", t->id / PTX_WARP},
               {"clusterid.x", 0},           {"nctaid.x", M.launch->cluster}};
  for (size_t k = 0; k < sizeof known / sizeof *known; k++)
    if (strcmp(known[k].name, name) == 0) return (uint64_t)known[k].value;
  ptx_fault("no register %%%s", name);
}

static const ptx_operand *operand(const ptx_thread *t, const ptx_item *i, int bytes) {
  const ptx_operand *o = &t->operands[i->number];
  char c = M.text->statement[t->statement].constraint[i->number][0];
  if (c == '=' || c == '+') c = M.text->statement[t->statement].constraint[i->number][1];
  int wanted = c == 'l' ? 8 : c == 'h' ? 2 : 4;
  if (!strchr("rlhfn", c) || (c == 'f') != (o->kind == 'f') || o->bytes != wanted)
    ptx_fault("operand %ld of %d bytes as \"%c\"", i->number, o->bytes, c);
  if (bytes != wanted) ptx_fault("operand %ld of %d bytes, not %d", i->number, o->bytes, bytes);
  return o;
}

uint64_t ptx_get(ptx_thread *t, const ptx_item *i, int bytes) {
  if (i->kind == PTX_NUMBER) return (uint64_t)i->number;
  if (i->kind == PTX_REGISTER) return t->registers[i->number];
  if (i->kind == PTX_SPECIAL) return special(t, i->name);
  const ptx_operand *o = operand(t, i, bytes);
  uint64_t v = 0;
  memcpy(&v, o->at ? o->at : &o->bits, (size_t)bytes);
  return v;
}

void ptx_set(ptx_thread *t, const ptx_item *i, int bytes, uint64_t v) {
  if (i->kind == PTX_REGISTER) t->registers[i->number] = v;
  if (i->kind == PTX_OPERAND) memcpy(operand(t, i, bytes)->at, &v, (size_t)bytes);
}

float ptx_get_float(ptx_thread *t, const ptx_item *i) {
  uint32_t bits = (uint32_t)ptx_get(t, i, 4);
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

void ptx_set_float(ptx_thread *t, const ptx_item *i, float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  ptx_set(t, i, 4, bits);
}

/* ---- what happens later ---------------------------------------------------------------------- */

ptx_later *ptx_put_off(ptx_thread *t, void (*happen)(ptx_later *), char queue, void *state) {
  ptx_later *l = calloc(1, sizeof *l);
  *l = (ptx_later){.happen = happen, .by = t, .queue = queue, .state = state};
  l->group = queue ? t->groups[(int)queue] : -1;
  *M.last_later = l;
  M.last_later = &l->next;
  return l;
}

static void take_out(ptx_later **at, bool do_it) {
  ptx_later *l = *at;
  *at = l->next;
  if (M.last_later == &l->next) M.last_later = at;
  if (do_it) l->happen(l);
  free(l->state);
  free(l);
  ptx_changed();
}

/* All but the `left` last groups of the thread; what is in none yet goes on. */
void ptx_wait_groups(ptx_thread *t, char queue, int left) {
  int first = t->groups[(int)queue] - left;
  for (ptx_later **at = &M.later; *at;) {
    if ((*at)->by == t && (*at)->queue == queue && (*at)->group < first)
      take_out(at, true);
    else
      at = &(*at)->next;
  }
}

static bool something_happens(void) {
  for (ptx_later **at = &M.later; *at; at = &(*at)->next) {
    if ((*at)->group >= 0) continue;
    take_out(at, true);
    return true;
  }
  return false;
}

/* ---- calls of kernels ------------------------------------------------------------------------ */

static void execute_warp(ptx_thread *t, const ptx_instruction *i) {
  ptx_thread *lane[PTX_WARP];
  if (!gather(t, lane)) return;
  for (int l = 0; l < PTX_WARP; l++)
    if (lane[l]->statement != t->statement) ptx_fault("threads of a warp part before it");
  i->row->warp(lane, i);
  part(t, lane);
}

static void execute(int statement, ptx_operand *operands) {
  ptx_thread *t = M.current;
  ptx_statement *s = &M.text->statement[statement];
  t->statement = statement;
  t->operands = operands;
  s->runs++;
  if (++M.n_executed > PTX_MOST_EXECUTED) ptx_fault("runs for ever");
  for (int k = 0; k < s->n_instructions; k++) {
    const ptx_instruction *i = &s->instruction[k];
    if (i->row->warp)
      execute_warp(t, i);
    else
      i->row->thread(t, i);
  }
}

static unsigned shuffle(int kind, unsigned value, int by) {
  ptx_thread *t = M.current;
  t->shuffle_value = value;
  t->statement = -1 - kind;
  int lane = t->id % PTX_WARP, from = lane;
  if (kind == PTX_SHUFFLE) from = by & 31;
  if (kind == PTX_SHUFFLE_XOR) from = lane ^ by;
  if (kind == PTX_SHUFFLE_UP && lane >= by) from = lane - by;
  if (kind == PTX_SHUFFLE_DOWN && lane + by < PTX_WARP) from = lane + by;
  t->shuffle_by = from;
  ptx_thread *lanes[PTX_WARP];
  if (gather(t, lanes)) {
    unsigned result[PTX_WARP];
    for (int l = 0; l < PTX_WARP; l++) result[l] = lanes[lanes[l]->shuffle_by]->shuffle_value;
    for (int l = 0; l < PTX_WARP; l++) lanes[l]->shuffle_value = result[l];
    part(t, lanes);
  }
  return t->shuffle_value;
}

static void sync(int whole_block) {
  ptx_thread *t = M.current;
  t->operands = NULL;
  if (whole_block) {
    ptx_item number = {.kind = PTX_NUMBER}, threads = {.kind = PTX_NUMBER, M.launch->threads, ""};
    ptx_instruction i = {.arg = {{1, false, false, &number}, {1, false, false, &threads}}};
    ptx_bar_sync(t, &i);
  } else {
    t->statement = -1 - PTX_SHUFFLE_DOWN - 1;
    ptx_thread *lane[PTX_WARP];
    if (gather(t, lane)) part(t, lane);
  }
}

static char *shared(void) { return ptx_block_of(M.current)->generic; }
static unsigned long to_shared(const void *p) {
  long at = (const char *)p - shared();
  if (at < 0 || at >= PTX_SHARED_BYTES) ptx_fault("an address that is not of shared memory");
  return (unsigned long)at + PTX_SHARED_AT;
}
static int thread_index(void) { return M.current->id; }
static int block_index(void) { return M.current->rank; }
const ptx_host ptx_machine_host = {execute,   shuffle,      sync,       shared,
                                   to_shared, thread_index, block_index};

/* ---- a cluster from start to end ------------------------------------------------------------- */

static void thread_main(void *argument) {
  ptx_thread *t = argument;
  void *unused;
  M.launch->kernel(M.launch->arguments);
  t->operands = NULL;
  for (const ptx_later *l = M.later; l; l = l->next)
    if (l->by == t && l->queue)
      ptx_fault("thread %d ends before what it asked for (%c)", t->id, l->queue);
  t->state = PTX_DONE;
  ptx_changed();
  vtb__fiber_switch(&unused, scheduler);
}

static void start(const ptx_launch *l) {
  int registers = PTX_POOL / l->threads / 8 * 8;
  memset(&M.block, 0, sizeof M.block);
  memset(&M.thread, 0, sizeof M.thread);
  M.launch = l;
  M.n_threads = l->threads * l->cluster;
  M.last_later = &M.later;
  M.n_at_cluster = 0;
  M.epoch = M.cluster_phase = 0;
  M.failed = false;
  M.n_executed = 0;
  stacks = malloc((size_t)STACK * (size_t)M.n_threads);
  if (registers > 248) registers = 248;
  for (int b = 0; b < l->cluster; b++) {
    ptx_block *block = &M.block[b];
    char *memory;
    if (posix_memalign((void **)&memory, 1024, 2 * (size_t)PTX_SHARED_BYTES)) abort();
    memset(memory, 0xff, 2 * (size_t)PTX_SHARED_BYTES);
    block->generic = memory;
    block->async = memory + PTX_SHARED_BYTES;
    block->registers_left = PTX_POOL - registers * l->threads;
  }
  for (int k = 0; k < M.n_threads; k++) {
    M.thread[k] =
        (ptx_thread){.id = k % l->threads, .rank = k / l->threads, .n_registers = registers};
    contexts[k] =
        vtb__fiber_prepare(stacks + (size_t)STACK * (size_t)(k + 1), thread_main, &M.thread[k]);
  }
}

static bool can_run(const ptx_thread *t) {
  return t->state == PTX_READY || (t->state == PTX_SPINS && t->epoch != M.epoch);
}

/* One round of all threads; false: none could run. */
static bool turn(void) {
  bool any = false;
  for (int k = 0; k < M.n_threads && !M.failed; k++) {
    int n = M.launch->reversed ? M.n_threads - 1 - k : k;
    if (!can_run(&M.thread[n])) continue;
    any = true;
    M.thread[n].state = PTX_READY;
    M.current = &M.thread[n];
    vtb__fiber_switch(&scheduler, contexts[n]);
    M.current = NULL;
  }
  return any;
}

static bool deliver(void) {
  if (setjmp(no_thread)) return false;
  return something_happens();
}

static void explain_hang(void) {
  for (int k = 0; k < M.n_threads && !M.failed; k++) {
    const ptx_thread *t = &M.thread[k];
    if (t->state == PTX_DONE) continue;
    snprintf(M.error, 512, "thread %d of block %d waits for ever in %s", t->id, t->rank,
             t->operands ? M.text->statement[t->statement].function : "vtb_sync");
    M.failed = true;
  }
}

/* Otherwise who arrives next is counted in a phase that began without him. */
static void check_rest(const ptx_block *b) {
  for (int k = 0; k < PTX_MBARRIERS && !M.failed; k++) {
    const ptx_mbarrier *m = &b->mbarrier[k];
    if (!m->used || (m->pending == m->threads && !m->bytes)) continue;
    snprintf(M.error, 512, "the mbarrier at byte %d is within a phase at the block's end", m->at);
    M.failed = true;
  }
}

bool ptx_run(const ptx_launch *l, ptx_text *text, char *error) {
  M.text = text;
  M.error = error;
  start(l);
  do {
    while (turn() && !M.failed)
      ;
  } while (!M.failed && deliver());
  if (!M.failed) explain_hang();
  for (int b = 0; b < l->cluster; b++) check_rest(&M.block[b]);
  while (M.later) take_out(&M.later, false);
  for (int b = 0; b < l->cluster; b++) free(M.block[b].generic);
  free(stacks);
  return !M.failed;
}
