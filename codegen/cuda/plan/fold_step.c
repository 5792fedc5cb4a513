/* The steps of a fold's sequences, by a number in memory: see fold.c. */
#include "codegen/cuda/plan/fold_step.h"

enum { THREADS = 256, WARPS = THREADS / 32, MOST_BLOCKS = 1024 };

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

void vtb__cuda_fold_places(vtb_cuda_fold *l) {
  const vtb_fold *p = &l->fold->p;
  int n = p->seqs + p->yields; /* kept states have places of their own */
  l->counts = n || p->keep;
  l->step = VTB_NEW_ARRAY(&l->c->arena, vtb_spot, n + 1);
  for (int i = 0; i < n; i++) l->step[i] = place_of(l, &l->fold->parts[i]);
  for (int i = 0; i < 2; i++) l->counter[i] = number(l);
  if (p->has_limit) l->first = number(l);
  if (vtb_fold_varies(p)) l->turns = number(l);
}

static vtb_cuda_kernel *begin(vtb_cuda_fold *l, const char *kind) {
  vtb__cuda_begin_unit(l->c, kind);
  l->c->unit.label = l->label;
  l->c->unit.tail_bytes = l->frame;
  return vtb_cuda_begin(l->c, kind, THREADS);
}

static void end(vtb_cuda_kernel *k, int64_t blocks) {
  vtb_cuda *c = k->c;
  vtb_cuda_launch(k, blocks);
  vtb__cuda_end_unit(c);
}

static void use(vtb_cuda_kernel *k, const vtb_spot *spot, const char *name, int access,
                int64_t count) {
  vtb_cuda_ref ref;
  vtb__cuda_refs(k->c, spot, 1, &ref);
  ref.touched = count * vtb__cuda_element(&ref);
  vtb__cuda_use_ref(k, ref, vtb__cuda_type_name(spot->type->dtype), name, access);
}

/* ---- how often ------------------------------------------------------------------------------- */

/* `state` is the name of the first state as it is now. */
static void ask_state(vtb_cuda_kernel *k, const vtb_cuda_fold *l, const char *state) {
  vtb__cuda_use_ref(k, l->turns, "int", "turns", VTB_LAUNCH_WRITE);
  vtb_cuda_shared(k, "float", 4, "any", 32);
  vtb_cuda_open(k, "if (vtb_block() == 0)");
  vtb_cuda_line(k, "float on = 0.0f;");
  vtb_cuda_line(k, "for (int i = vtb_tid(); i < %lld; i += %d)",
                (long long)vtb_type_count(l->fold->result[0].type), THREADS);
  vtb_cuda_line(k, "  on = (float)%s[i] != 0.0f ? 1.0f : on;", state);
  vtb_cuda_line(k, "on = vtb_block_max(on, %d, any);", WARPS);
  vtb_cuda_line(k, "if (vtb_tid() == 0) turns[0] = on != 0.0f;");
  vtb_cuda_close(k);
}

/* Declares `n`: the limit, within 0 and the steps there are. */
static void use_limit(vtb_cuda_kernel *k, const vtb_cuda_fold *l) {
  use(k, &l->fold->constants[0], "limit", VTB_LAUNCH_READ, 1);
  vtb_cuda_line(k, "const int n = vtb_min_int(vtb_max_int(limit[0], 0), %lld);",
                (long long)l->fold->n);
}

void vtb__cuda_fold_begin(vtb_cuda_fold *l) {
  const vtb_fold *p = &l->fold->p;
  vtb_cuda_kernel *k = begin(l, "fold_begin");
  vtb__cuda_use_ref(k, l->counter[0], "int", "step", VTB_LAUNCH_WRITE);
  vtb_cuda_line(k, "if (vtb_tid() == 0) step[0] = 0;");
  if (p->is_while) {
    use(k, &l->fold->result[0], "state", VTB_LAUNCH_READ, vtb_type_count(l->fold->result[0].type));
    ask_state(k, l, "state");
  }
  if (p->has_limit) {
    use_limit(k, l);
    vtb__cuda_use_ref(k, l->first, "int", "first", VTB_LAUNCH_WRITE);
    vtb__cuda_use_ref(k, l->turns, "int", "turns", VTB_LAUNCH_WRITE);
    vtb_cuda_line(k, "if (vtb_tid() == 0) first[0] = n %% 2;");
    vtb_cuda_line(k, "if (vtb_tid() == 0) turns[0] = -(n / 2);");
  }
  end(k, 1);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static int64_t count_of(const vtb_cuda_move *m) { return vtb_type_count(&m->part->type); }

static void open_copy(vtb_cuda_kernel *k, const char *index, int64_t count, int64_t blocks) {
  vtb_cuda_open(k, "for (%s i = vtb_block() * %d + vtb_tid(); i < %lld; i += %lld)", index, THREADS,
                (long long)count, (long long)blocks * THREADS);
}

/* Sample i / LEN of the step is at (i / LEN) * N * LEN + position * LEN of the sequence. */
static void copy(vtb_cuda_kernel *k, const vtb_cuda_move *m, int number, int64_t blocks) {
  vtb_arena *a = &k->c->arena;
  long long len = m->part->len, n = m->part->n;
  const char *all = vtb_arena_printf(a, "all%d", number);
  const char *one = vtb_arena_printf(a, "one%d", number);
  const char *index = vtb_cuda_is_far(k->c, m->part->n * count_of(m)) ? "vtb_i64" : "int";
  use(k, &m->part->sequence, all, m->to_sequence ? VTB_LAUNCH_WRITE : VTB_LAUNCH_READ, count_of(m));
  use(k, &m->step, one, m->to_sequence ? VTB_LAUNCH_READ : VTB_LAUNCH_WRITE, count_of(m));
  open_copy(k, index, count_of(m), blocks);
  vtb_cuda_line(k, "const %s at = (i / %lld * %lld + position) * %lld + i %% %lld;", index, len, n,
                len, len);
  vtb_cuda_line(k, m->to_sequence ? "%s[at] = %s[i];" : "%2$s[i] = %1$s[at];", all, one);
  vtb_cuda_close(k);
}

static void hand(vtb_cuda_kernel *k, const vtb_cuda_fold *l, int i, bool on, int64_t blocks) {
  vtb_arena *a = &k->c->arena;
  int64_t count = vtb_type_count(l->fold->result[i].type);
  const char *old = vtb_arena_printf(a, "old%d", i), *new = vtb_arena_printf(a, "new%d", i);
  use(k, on ? &l->fold->other[i] : &l->fold->result[i], old, VTB_LAUNCH_READ, count);
  use(k, on ? &l->fold->result[i] : &l->fold->other[i], new, VTB_LAUNCH_WRITE, count);
  open_copy(k, vtb_cuda_is_far(k->c, count) ? "vtb_i64" : "int", count, blocks);
  vtb_cuda_line(k, "%s[i] = %s[i];", new, old);
  vtb_cuda_close(k);
}

static int64_t blocks_of(const vtb_cuda_fold *l, const vtb_cuda_side *side) {
  int64_t most = 1;
  for (size_t i = 0; i < side->moves.n; i++)
    if (count_of(&side->moves.at[i]) > most) most = count_of(&side->moves.at[i]);
  for (int i = 0; side->hands && i < l->fold->p.states; i++)
    if (vtb_type_count(l->fold->result[i].type) > most)
      most = vtb_type_count(l->fold->result[i].type);
  int64_t blocks = (most + THREADS - 1) / THREADS;
  return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
}

/* Declares `position`: where step t lies in its sequences. */
static void find_position(vtb_cuda_kernel *k, const vtb_cuda_fold *l) {
  if (l->fold->p.has_limit && l->fold->p.reverse) {
    use_limit(k, l);
    vtb_cuda_line(k, "const int position = n - 1 - t;");
  } else {
    vtb_cuda_order order = vtb_cuda_order_of(k, l->order, l->fold->n, "order");
    vtb_cuda_line(k, "const int position = %s;", vtb_cuda_order_at(l->c, &order, "t"));
  }
}

void vtb__cuda_fold_side(vtb_cuda_fold *l, const vtb_cuda_side *side) {
  int64_t blocks = blocks_of(l, side);
  vtb_cuda_kernel *k = begin(l, "fold_step");
  if (l->counts) {
    vtb__cuda_use_ref(k, *side->from, "int", "step", VTB_LAUNCH_READ);
    vtb_cuda_line(k, "const int t = step[0]%s;", side->counted ? " - 1" : "");
    if (side->moves.n) find_position(k, l);
  }
  if (l->counts && side->to) {
    vtb__cuda_use_ref(k, *side->to, "int", "next", VTB_LAUNCH_WRITE);
    vtb_cuda_line(k, "if (vtb_block() == 0 && vtb_tid() == 0) next[0] = t + 1;");
  }
  for (size_t i = 0; i < side->moves.n; i++) copy(k, &side->moves.at[i], (int)i, blocks);
  for (int i = 0; side->hands && i < l->fold->p.states; i++)
    hand(k, l, i, side->hands == VTB_HANDS_ON, blocks);
  if (side->hands == VTB_HANDS_ON) ask_state(k, l, "old0");
  end(k, blocks);
}
