/* A part of linscan_tiles.cu: what brings slabs of states and of columns. */
/* The ring: slabs of the state, then, of each tile of columns, slabs of B and of C. */
constexpr int STATE_SLABS = OUTSIDE ? (DEPTH + 31) / 32 : 0, C_SLABS = 64 / C_ROWS,
              PER_STEP = SLABS + C_SLABS;
/* where a slab is brought to, comes from next, and came from */
int to_slot = 0, slot = 0, current = (STAGES - 1) * STAGE;
auto follow = [&](int at) { return at == (STAGES - 1) * STAGE ? 0 : at + STAGE; };
/* columns of a tile are found while the one before it is met, or, where its first slab is brought
 * then, the one before that */
constexpr bool AHEAD = STAGES > PER_STEP;
auto find_columns = [&](int step) {
  const int from = first_of(step),
            t = from + (FORWARD && !PAIRED ? tid : vtb_min_int(tid, c1 - 1 - from));
  if (tid < 64 && step < n_steps) column_at[step % 2 * 64 + tid] = place(t);
};
/* of the last tile's next nothing */
auto bring = [&](int step, int part) {
  const int n = step > 0 && FORWARD && !PAIRED ? 64 : vtb_min_int(c1 - first_of(step), 64),
            at = step % 2 * 64;
  auto to = ring + to_slot;
  auto row_of = [&](int r) { return column_at[at + r]; };
  if constexpr (WGMMA) {
    if (step < n_steps && part == 0)
      vtb_bring_panels<B_EIGHT, 64, SLAB, THREADS>(to, n, DEPTH, b_of, b_stride, row_of);
    else if (step < n_steps)
      vtb_bring_panels<C_EIGHT, 64, TILE, THREADS>(to, n, WIDTH, c_of, c_stride, row_of);
  } else if (step < n_steps && part < SLABS) {
    const int x0 = part * SLAB;
    vtb_bring_rows<B_EIGHT, 64, SLAB, PB, THREADS, true>(to, n, DEPTH - x0, b_of + x0, b_stride,
                                                         row_of);
  } else if (step < n_steps) {
    const int r0 = (part - SLABS) * C_ROWS;
    vtb_bring_rows<C_EIGHT, C_ROWS, TILE, PC, THREADS, true>(
        to, n - r0, WIDTH, c_of, c_stride, [&](int r) { return row_of(r0 + r); });
  }
  vtb_cp_commit();
};
auto bring_state = [&](int x0) {
  auto to = ring + to_slot;
  auto state = states_of + state_of * (K * STATE_PITCH);
  if constexpr (WGMMA && STATE_ACROSS)
    vtb_bring_panels<true, TILE, 32, THREADS>(to, WIDTH, STATE_PITCH - x0, state + x0, STATE_PITCH,
                                              [&](int o) { return o; });
  else if constexpr (WGMMA)
    vtb_bring_panels<true, 32, TILE, THREADS>(to, DEPTH - x0, STATE_PITCH, state, STATE_PITCH,
                                              [&](int x) { return x0 + x; });
  else if constexpr (STATE_ACROSS)
    vtb_bring_rows<true, TILE, 32, PS, THREADS, true>(to, WIDTH, STATE_PITCH - x0, state + x0,
                                                      STATE_PITCH, [&](int o) { return o; });
  else
    vtb_bring_rows<true, 32, TILE, PC, THREADS, true>(to, DEPTH - x0, STATE_PITCH, state,
                                                      STATE_PITCH, [&](int x) { return x0 + x; });
  vtb_cp_commit();
};
auto arrive = [&]() -> int { /* the next slab's place; another may be brought to the last one's */
  vtb_cp_wait<STAGES - 2>();
  PRODUCTS::stored();
  vtb_sync();
  to_slot = current;
  current = slot;
  slot = follow(slot);
  return current;
};
