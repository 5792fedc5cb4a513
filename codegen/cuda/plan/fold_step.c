/* The steps of a fold's sequences, by a number in memory: see fold.c. */
#include "codegen/cuda/plan/fold_step.h"

enum { THREADS = 256, MOST_BLOCKS = 1024 };

/* ---- places ---------------------------------------------------------------------------------- */

static int64_t place_bytes(vtb_cuda_fold *l, int64_t bytes) {
  int64_t at = l->frame;
  l->frame += vtb_places_round(&l->c->steps.places, bytes);
  return at;
}

static vtb_cuda_ref number(vtb_cuda_fold *l) {
  return (vtb_cuda_ref){.place = VTB_CUDA_TAIL,
                        .value = l->c->func->n_values++,
                        .offset = place_bytes(l, sizeof(int32_t)),
                        .bytes = sizeof(int32_t)};
}

static vtb_spot place_of(vtb_cuda_fold *l, const vtb_fold_part *p) {
  if (p->copied) return p->step;
  return (vtb_spot){.at = VTB_AT_TAIL,
                    .value = l->c->func->n_values++,
                    .offset = place_bytes(l, vtb_type_bytes(&p->type)),
                    .type = &p->type,
                    .stride = {p->len, 1}};
}

static vtb_cuda_kernel *begin(vtb_cuda_fold *l, const char *kind, int threads) {
  vtb__cuda_begin_unit(l->c, kind);
  l->c->unit.label = l->label;
  l->c->unit.tail_bytes = l->frame;
  return vtb_cuda_begin(l->c, kind, threads);
}

static void end(vtb_cuda_kernel *k, int64_t blocks) {
  vtb_cuda *c = k->c;
  vtb_cuda_launch(k, blocks);
  vtb__cuda_end_unit(c);
}

void vtb__cuda_fold_places(vtb_cuda_fold *l) {
  const vtb_fold *p = &l->fold->p;
  int n = p->seqs + p->yields; /* kept states have places of their own */
  l->step = VTB_NEW_ARRAY(&l->c->arena, vtb_spot, n + 1);
  for (int i = 0; i < n; i++) l->step[i] = place_of(l, &l->fold->parts[i]);
  for (int i = 0; i < 2; i++) l->counter[i] = number(l);
  if (!n && !p->keep) return;
  vtb_cuda_kernel *k = begin(l, "fold_begin", 32);
  vtb__cuda_use_ref(k, l->counter[0], "int", "step", VTB_LAUNCH_WRITE);
  vtb_cuda_line(k, "if (vtb_tid() == 0) step[0] = 0;");
  end(k, 1);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static int64_t count_of(const vtb_cuda_move *m) { return vtb_type_count(&m->part->type); }

/* Argument `name` is a place of the move. */
static void use(vtb_cuda_kernel *k, const vtb_cuda_move *m, bool sequence, const char *name) {
  const vtb_spot *spot = sequence ? &m->part->sequence : &m->step;
  vtb_cuda_ref ref;
  vtb__cuda_refs(k->c, spot, 1, &ref);
  ref.touched = count_of(m) * vtb__cuda_element(&ref);
  vtb__cuda_use_ref(k, ref, vtb__cuda_type_name(spot->type->dtype), name,
                    m->to_sequence == sequence ? VTB_LAUNCH_WRITE : VTB_LAUNCH_READ);
}

/* Sample i / LEN of the step is at (i / LEN) * N * LEN + position * LEN of the sequence. */
static void copy(vtb_cuda_kernel *k, const vtb_cuda_move *m, int number, int64_t blocks) {
  vtb_arena *a = &k->c->arena;
  long long count = count_of(m), len = m->part->len, n = m->part->n;
  const char *all = vtb_arena_printf(a, "all%d", number);
  const char *one = vtb_arena_printf(a, "one%d", number);
  const char *index = vtb_cuda_is_far(k->c, m->part->n * count) ? "vtb_i64" : "int";
  use(k, m, true, all);
  use(k, m, false, one);
  vtb_cuda_open(k, "for (%s i = vtb_block() * %d + vtb_tid(); i < %lld; i += %lld)", index, THREADS,
                count, (long long)blocks * THREADS);
  vtb_cuda_line(k, "const %s at = (i / %lld * %lld + position) * %lld + i %% %lld;", index, len, n,
                len, len);
  vtb_cuda_line(k, m->to_sequence ? "%s[at] = %s[i];" : "%2$s[i] = %1$s[at];", all, one);
  vtb_cuda_close(k);
}

void vtb__cuda_fold_moves(vtb_cuda_fold *l, const vtb_cuda_moves *moves) {
  int64_t most = 1;
  if (!moves->n) return;
  for (size_t i = 0; i < moves->n; i++)
    if (count_of(&moves->at[i]) > most) most = count_of(&moves->at[i]);
  int64_t blocks = (most + THREADS - 1) / THREADS;
  if (blocks > MOST_BLOCKS) blocks = MOST_BLOCKS;
  vtb_cuda_kernel *k = begin(l, "fold_step", THREADS);
  vtb_cuda_order order = vtb_cuda_order_of(k, l->order, l->fold->n, "order");
  vtb__cuda_use_ref(k, l->counter[0], "int", "step", VTB_LAUNCH_READ);
  if (l->counts) vtb__cuda_use_ref(k, l->counter[1], "int", "next", VTB_LAUNCH_WRITE);
  vtb_cuda_line(k, "const int t = step[0], position = %s;", vtb_cuda_order_at(l->c, &order, "t"));
  if (l->counts) vtb_cuda_line(k, "if (vtb_block() == 0 && vtb_tid() == 0) next[0] = t + 1;");
  l->counts = false;
  for (size_t i = 0; i < moves->n; i++) copy(k, &moves->at[i], (int)i, blocks);
  end(k, blocks);
}
