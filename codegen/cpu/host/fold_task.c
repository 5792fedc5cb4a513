/* A fold in tiles (ir/fold.h) as one kernel: a task a tile runs all steps.
 *
 *   void fold(closure, begin, end):
 *     for each tile of samples:  states to its buffers
 *       for each step:           inputs of the step to their places,
 *                                step(pointers, frame, services),
 *                                yields to theirs
 *
 * The step is a host function whose tasks it calls itself: no thread waits for another. States, the
 * step's inputs and yields, and its frame are temporaries of the kernel, a piece a tile, and stay
 * in the caches; states go to and fro between the result and a buffer, so that the last step writes
 * the result.
 */
#include "codegen/cpu/host/host.h"
#include "codegen/cpu/loop/order.h"
#include "ir/fold.h"

/* A sequence, or a state, of which a tile has `samples` rows of `len`. */
typedef struct part {
  int tensor; /* of the kernel */
  int64_t len;
  int64_t temp;           /* a tile's step, or a state's other buffer */
  LLVMValueRef all, step; /* at the tile at hand */
} part;

typedef struct fold_task {
  vtb_cpu *c;
  vtb_cpu_task *t;
  vtb_fold p;
  int64_t tile, n;
  part *state, *seq, *yield, *kept;
  LLVMValueRef odd, position, args, frame;
  const vtb_host_func *step;
} fold_task;

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static int64_t piece_bytes(const fold_task *f, const part *p) {
  return round_up(f->tile * p->len * 4);
}

/* A piece of temporary memory for every tile. */
static int64_t take(const fold_task *f, int64_t bytes) {
  return vtb_cpu_temp(f->c, f->t->n * bytes);
}

static LLVMValueRef piece(const fold_task *f, int64_t temp, int64_t bytes) {
  vtb_cpu *c = f->c;
  LLVMValueRef base = vtb_cpu_temp_ptr(c, f->t, temp);
  return vtb_cpu_at(c, base, vtb_cpu_mul(c, f->t->index, bytes / 4));
}

static part *make_parts(fold_task *f, int n, int tensor, bool is_seq) {
  part *p = VTB_NEW_ARRAY(&f->c->host->arena, part, n + 1);
  for (int i = 0; i < n; i++) {
    const vtb_type *t = f->t->t[tensor + i].type;
    p[i] = (part){.tensor = tensor + i};
    p[i].len = vtb_type_count(t) / (t->dim[0].size * (is_seq ? f->n : 1));
    p[i].temp = take(f, piece_bytes(f, &p[i]));
  }
  return p;
}

/* ---- one tile -------------------------------------------------------------------------------- */

static void address(fold_task *f, part *p, int n, int64_t rows) {
  vtb_cpu *c = f->c;
  for (int i = 0; i < n; i++) {
    LLVMValueRef at = vtb_cpu_mul(c, f->t->index, f->tile * rows * p[i].len);
    p[i].all = vtb_cpu_at(c, f->t->t[p[i].tensor].ptr, at);
    p[i].step = piece(f, p[i].temp, piece_bytes(f, &p[i]));
  }
}

static void copy(fold_task *f, LLVMValueRef to, LLVMValueRef from, int64_t n) {
  LLVMBuildMemCpy(f->c->b, to, 4, from, 4, vtb_cpu_i64(f->c, n * 4));
}

/* Rows of the tile between a sequence, where the step is at `position`, and `dense`. */
static void move(fold_task *f, const part *p, LLVMValueRef dense, bool to_sequence) {
  vtb_cpu *c = f->c;
  LLVMValueRef all = vtb_cpu_at(c, p->all, vtb_cpu_mul(c, f->position, p->len));
  vtb_cpu_for b =
      vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, f->tile), vtb_cpu_i64(c, 1));
  LLVMValueRef one = vtb_cpu_at(c, dense, vtb_cpu_mul(c, b.i, p->len));
  LLVMValueRef row = vtb_cpu_at(c, all, vtb_cpu_mul(c, b.i, f->n * p->len));
  copy(f, to_sequence ? row : one, to_sequence ? one : row, p->len);
  vtb_cpu_for_end(c, &b);
}

/* The result, or the buffer: step t reads the buffer if n - t is odd. */
static LLVMValueRef state(fold_task *f, int i, bool old) {
  const part *p = &f->state[i];
  return LLVMBuildSelect(f->c->b, f->odd, old ? p->step : p->all, old ? p->all : p->step, "");
}

/* One sample's step lies in its sequence as the callee takes it. */
static LLVMValueRef step_pointer(fold_task *f, const part *p) {
  if (f->tile > 1) return p->step;
  return vtb_cpu_at(f->c, p->all, vtb_cpu_mul(f->c, f->position, p->len));
}

static void pass(fold_task *f, int slot, LLVMValueRef pointer) {
  vtb_cpu *c = f->c;
  LLVMValueRef at =
      LLVMBuildInBoundsGEP2(c->b, c->ptr, f->args, (LLVMValueRef[]){vtb_cpu_i64(c, slot)}, 1, "");
  LLVMBuildStore(c->b, pointer, at);
}

static void call_step(fold_task *f) {
  vtb_cpu *c = f->c;
  const vtb_fold *p = &f->p;
  int slot = 0, consts = p->states + p->seqs;
  for (int i = 0; i < p->states; i++) pass(f, slot++, state(f, i, true));
  for (int i = 0; i < p->seqs; i++) pass(f, slot++, step_pointer(f, &f->seq[i]));
  for (int i = 0; i < p->consts; i++) pass(f, slot++, f->t->t[consts + i].ptr);
  for (int i = 0; i < p->states; i++) pass(f, slot++, state(f, i, false));
  for (int i = 0; i < p->yields; i++) pass(f, slot++, step_pointer(f, &f->yield[i]));
  LLVMValueRef args[] = {f->args, f->frame, f->t->services};
  LLVMBuildCall2(c->b, c->host->host_type, f->step->fn, args, 3, "");
}

static void one_step(fold_task *f, const vtb__loop_order *order, LLVMValueRef t) {
  vtb_cpu *c = f->c;
  LLVMValueRef left = LLVMBuildSub(c->b, vtb_cpu_i64(c, f->n), t, "left");
  LLVMValueRef back = LLVMBuildSub(c->b, left, vtb_cpu_i64(c, 1), "");
  f->odd = LLVMBuildTrunc(c->b, left, c->i1, "odd");
  f->position = vtb__order_at(c, order, f->p.reverse ? back : t);
  for (int i = 0; f->p.keep && i < f->p.states; i++) move(f, &f->kept[i], state(f, i, true), true);
  for (int i = 0; f->tile > 1 && i < f->p.seqs; i++) move(f, &f->seq[i], f->seq[i].step, false);
  call_step(f);
  for (int i = 0; f->tile > 1 && i < f->p.yields; i++)
    move(f, &f->yield[i], f->yield[i].step, true);
}

static void begin_tile(fold_task *f) {
  vtb_cpu *c = f->c;
  address(f, f->state, f->p.states, 1);
  address(f, f->seq, f->p.seqs, f->n);
  address(f, f->yield, f->p.yields, f->n);
  if (f->p.keep) address(f, f->kept, f->p.states, f->n);
  f->odd = LLVMConstInt(c->i1, f->n % 2, 0);
  for (int i = 0; i < f->p.states; i++) {
    int64_t n = f->tile * f->state[i].len;
    LLVMValueRef at = vtb_cpu_mul(c, f->t->index, n);
    copy(f, state(f, i, true), vtb_cpu_at(c, f->t->t[i].ptr, at), n);
  }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void plan(fold_task *f) {
  const vtb_fold *p = &f->p;
  int results = f->t->n_operands, slots = 2 * p->states + p->seqs + p->consts + p->yields;
  vtb_cpu *c = f->c;
  f->state = make_parts(f, p->states, results + p->yields, false);
  f->seq = make_parts(f, p->seqs, p->states, true);
  f->yield = make_parts(f, p->yields, results, true);
  f->kept = p->keep ? make_parts(f, p->states, results + p->yields + p->states, true) : NULL;
  f->args = LLVMBuildAlloca(f->t->prologue, LLVMArrayType2(c->ptr, (uint64_t)slots), "args");
}

void vtb__cpu_fold(vtb_cpu *c, const vtb_inst *inst) {
  vtb_host *h = c->host;
  vtb_fold p = vtb_fold_of(inst);
  const vtb_type *x = &inst->operands[p.states]->type;
  fold_task f = {.c = c, .p = p, .tile = p.tile, .n = x->dim[1].size};
  f.step = &h->funcs[vtb_steps_find(&h->steps, inst->callee)];
  f.t = vtb_cpu_task_begin(c, inst, "steps", x->dim[0].size / p.tile, 1);
  plan(&f);
  int64_t bytes = round_up(f.step->total_bytes);
  f.frame = piece(&f, take(&f, bytes), bytes);
  begin_tile(&f);
  vtb__loop_order order = vtb__order_make(c, p.path, f.n);
  vtb_cpu_for t = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, f.n), vtb_cpu_i64(c, 1));
  one_step(&f, &order, t.i);
  vtb_cpu_for_end(c, &t);
  vtb_cpu_task_end(c, f.t);
}
