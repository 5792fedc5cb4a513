// Kernels of clusters of two blocks with a planted bug each, as in emulator_hopper_bugs.cu.
// Arguments: a map of x (64 rows of 64 numbers of 16 bits, boxes of 32 rows, turned by 128 bytes),
// x, and y (4 blocks x 64 x 64 floats). Every block of a sound kernel writes x to its part of y.

// full[0]: copies; full[1]: both warps of both blocks are done; full[2]: both warps of one.
#define VTB_TEST_SHARED                                                                            \
  VTB_SHARED(vtb_u64, full, 0, 3);                                                                 \
  VTB_SHARED(vtb_bf16, tile, 1024, 4096);                                                          \
  VTB_SHARED(float, s, 1024, 4096);                                                                \
  VTB_PTR(float) mine = y + vtb_block() * 4096;                                                    \
  const int other = vtb_cluster_rank() ^ 1;                                                        \
  if (vtb_tid() == 0) {                                                                            \
    vtb_mbar_init(full, 1);                                                                        \
    vtb_mbar_init(full + 1, 4);                                                                    \
    vtb_mbar_init(full + 2, 2);                                                                    \
    vtb_mbar_ready();                                                                              \
  }

// Each block asks for half of x, which both get.
template <class P, class B>
VTB_FN void halves(const P &tile, const vtb_map &map, const B &bar, unsigned blocks) {
  vtb_tma_load_to(blocks, tile + vtb_cluster_rank() * 2048, map, bar, 0, vtb_cluster_rank() * 32);
}
template <class P, class Q> VTB_FN void put(const P &y, const Q &tile) {
  for (int i = vtb_tid(); i < 4096; i += 64) y[i] = tile[i ^ (i / 64 % 8) * 8];
}
template <class P, class Q> VTB_FN void fill(const P &s, const Q &x) {
  for (int i = vtb_tid(); i < 4096; i += 64) s[i] = (float)x[i];
}
template <class B> VTB_FN void done(const B &bar) {
  vtb_sync_warp();
  if (vtb_lane() < 2) vtb_mbar_arrive_at(bar, vtb_lane());
}

VTB_KERNEL(64, ok_multicast)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  if (vtb_tid() == 0) {
    vtb_mbar_expect(full, 8192);
    halves(tile, map, full, 3);
  }
  vtb_mbar_wait(full, 0);
  put(mine, tile);
}
// One stage, filled three times: both blocks must have read it.
VTB_KERNEL(64, ok_stages)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  for (int i = 0; i < 3; i++) {
    if (vtb_tid() == 0) {
      vtb_mbar_wait_cluster(full + 1, (i + 1) & 1);
      vtb_mbar_expect(full, 8192);
      halves(tile, map, full, 3);
    }
    vtb_mbar_wait(full, i & 1);
    put(mine, tile);
    done(full + 1);
  }
  vtb_cluster_sync();
}
// The same, where nothing but the ends of reads is handed on.
template <class B> VTB_FN void read(const B &bar) {
  vtb_sync_warp();
  if (vtb_lane() < 2) vtb_mbar_free_at(bar, vtb_lane());
}
VTB_KERNEL(64, ok_free_stages)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  for (int i = 0; i < 3; i++) {
    if (vtb_tid() == 0) {
      vtb_mbar_wait_free(full + 1, (i + 1) & 1);
      vtb_mbar_expect(full, 8192);
      halves(tile, map, full, 3);
    }
    vtb_mbar_wait(full, i & 1);
    put(mine, tile);
    read(full + 1);
  }
  vtb_cluster_sync();
}
VTB_KERNEL(64, ok_loads)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  fill(s, x);
  vtb_cluster_sync();
  for (int i = vtb_tid() * 4; i < 2048; i += 256)
    vtb_store4(mine, i, vtb_cluster_load4(s, i, other));
  for (int i = vtb_tid() + 2048; i < 4096; i += 64) mine[i] = vtb_cluster_load(s, i, other);
  vtb_cluster_arrive();
  vtb_cluster_wait();
}
VTB_KERNEL(64, ok_stores)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  for (int i = vtb_tid() * 4; i < 2048; i += 256) vtb_cluster_store4(s, i, other, vtb_load4(x, i));
  for (int i = vtb_tid() + 2048; i < 4096; i += 64) vtb_cluster_store(s, i, other, x[i]);
  vtb_cluster_sync();
  for (int i = vtb_tid(); i < 4096; i += 64) mine[i] = s[i];
}
VTB_KERNEL(64, ok_sends)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  if (vtb_tid() == 0) vtb_mbar_expect(full, 16384);
  for (int i = vtb_tid() * 4; i < 2048; i += 256)
    vtb_cluster_send4(s, i, other, vtb_load4(x, i), full);
  for (int i = vtb_tid() + 2048; i < 4096; i += 64) vtb_cluster_send(s, i, other, x[i], full);
  vtb_mbar_wait(full, 0);
  for (int i = vtb_tid(); i < 4096; i += 64) mine[i] = s[i];
}
// What one thread knows of the other block, a barrier of its own tells the rest; and the other way.
VTB_KERNEL(64, ok_known_by_one)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  for (int i = vtb_tid(); i < 4096; i += 64) vtb_cluster_store(s, i, other, x[i]);
  done(full + 1);
  if (vtb_tid() == 63) vtb_mbar_wait_cluster(full + 1, 0);
  vtb_sync();
  for (int i = vtb_tid(); i < 4096; i += 64) mine[i] = s[i];
}

// Stores are not handed on with the ends of reads, and who waits for them must not think so.
VTB_KERNEL(64, writes_are_told_as_reads)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  for (int i = vtb_tid(); i < 4096; i += 64)
    vtb_cluster_store(s, i, other, x[i]); // BUG writes_are_told_as_reads
  read(full + 1);
  if (vtb_tid() == 63) vtb_mbar_wait_free(full + 1, 0);
  vtb_sync();
  for (int i = vtb_tid(); i < 4096; i += 64) mine[i] = s[i]; // BUG writes_are_told_as_reads
  vtb_cluster_sync();
}
VTB_KERNEL(64, waits_for_more_than_reads)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  read(full + 1);
  if (vtb_tid() == 0) vtb_mbar_wait_cluster(full + 1, 0); // BUG waits_for_more_than_reads
  vtb_cluster_sync();
}
// The own block's reads alone are known behind a wait that says nothing of others.
VTB_KERNEL(64, waits_for_own_reads)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  for (int i = 0; i < 2; i++) {
    if (vtb_tid() == 0) {
      vtb_mbar_wait(full + 1, (i + 1) & 1);
      vtb_mbar_expect(full, 8192); // BUG waits_for_own_reads
      halves(tile, map, full, 3);  // BUG waits_for_own_reads
    }
    vtb_mbar_wait(full, i & 1);
    put(mine, tile); // BUG waits_for_own_reads
    read(full + 1);
  }
  vtb_cluster_sync();
}

VTB_KERNEL(64, ends_while_another_reads)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  fill(s, x);
  vtb_cluster_sync();
  if (vtb_cluster_rank() == 1)
    mine[vtb_tid()] = vtb_cluster_load(s, vtb_tid(), 0); // BUG ends_while_another_reads
} // BUG_AT_THE_END ends_while_another_reads
VTB_KERNEL(64, ends_before_it_is_told)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  if (vtb_tid() == 0) vtb_mbar_arrive_at(full + 1, other); // BUG ends_before_it_is_told
} // BUG_AT_THE_END ends_before_it_is_told
VTB_KERNEL(64, copy_to_one_block_only)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  if (vtb_tid() == 0) {
    vtb_mbar_expect(full, 8192);
    halves(tile, map, full, vtb_cluster_rank() ? 3 : 1);
  }
  vtb_mbar_wait(full, 0); // BUG copy_to_one_block_only
  put(mine, tile);
}
VTB_KERNEL(64, copy_to_blocks_that_are_not)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  if (vtb_tid() == 0) {
    vtb_mbar_expect(full, 8192);
    vtb_tma_load_to(7, tile, map, full, 0, 0); // BUG copy_to_blocks_that_are_not
  }
  vtb_mbar_wait(full, 0);
}
VTB_KERNEL(64, only_own_bytes_announced)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  if (vtb_tid() == 0) {
    const int at = vtb_cluster_rank() * 2048;
    vtb_mbar_expect(full, 4096);                    // BUG only_own_bytes_announced
    vtb_tma_load_to(3, tile + at, map, full, 0, 0); // BUG only_own_bytes_announced
  }
  vtb_mbar_wait(full, 0);
  put(mine, tile); // BUG only_own_bytes_announced
}
VTB_KERNEL(64, arrives_before_it_is_there)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_sync();
  if (vtb_tid() == 0) vtb_mbar_arrive_at(full + 1, other); // BUG arrives_before_it_is_there
  vtb_cluster_sync();
}
VTB_KERNEL(64, copies_before_it_is_there)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_sync();
  if (vtb_tid() == 0) {
    const int at = vtb_cluster_rank() * 2048;
    vtb_mbar_expect(full, 8192);
    vtb_tma_load_to(3, tile + at, map, full, 0, 0); // BUG copies_before_it_is_there
  }
  vtb_mbar_wait(full, 0);
}
// A stage is filled again when the own block has read it; the other one may not have.
VTB_KERNEL(64, overwrites_what_another_reads)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  for (int i = 0; i < 2; i++) {
    if (vtb_tid() == 0) {
      vtb_mbar_wait_cluster(full + 2, (i + 1) & 1);
      vtb_mbar_expect(full, 8192); // BUG overwrites_what_another_reads
      const int at = vtb_cluster_rank() * 2048;
      vtb_tma_load_to(3, tile + at, map, full, 0, 0); // BUG overwrites_what_another_reads
    }
    vtb_mbar_wait(full, i & 1);
    for (int e = vtb_tid(); e < 4096; e += 64)
      mine[e] = tile[e]; // BUG overwrites_what_another_reads
    vtb_sync_warp();
    if (vtb_lane() == 0) vtb_mbar_arrive(full + 2);
  }
  vtb_cluster_sync();
}
// The wait of one block's scope does not tell what the other block has done.
VTB_KERNEL(64, waits_within_the_block)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  vtb_cluster_store(s, vtb_tid(), other, 1.0f);
  done(full + 1);
  vtb_mbar_wait(full + 1, 0);
  mine[vtb_tid()] = s[vtb_tid()]; // BUG waits_within_the_block
  vtb_cluster_sync();
}
VTB_KERNEL(64, stores_without_barrier)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  s[vtb_tid()] = 2.0f; // BUG stores_without_barrier
  vtb_sync();
  vtb_cluster_store(s, vtb_tid(), other, 1.0f); // BUG stores_without_barrier
  vtb_cluster_sync();
}
VTB_KERNEL(64, reads_without_barrier)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  fill(s, x);
  vtb_cluster_sync();
  mine[vtb_tid()] = vtb_cluster_load(s, vtb_tid(), other); // BUG reads_without_barrier
  vtb_sync();
  s[vtb_tid()] = 0.0f; // BUG reads_without_barrier
  vtb_cluster_sync();
}
VTB_KERNEL(64, sent_and_not_awaited)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_sync();
  if (vtb_tid() == 0) {
    vtb_mbar_expect(full, 4);
    vtb_cluster_send(s, 0, other, 1.0f, full);
  }
  vtb_cluster_sync();
  mine[vtb_tid()] = s[0]; // BUG sent_and_not_awaited
}
VTB_KERNEL(64, a_warp_does_not_come)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  if (vtb_warp() == 0 || vtb_cluster_rank() == 0) vtb_cluster_sync(); // BUG a_warp_does_not_come
}
VTB_KERNEL(64, arrives_twice)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_cluster_arrive();
  vtb_cluster_arrive(); // BUG arrives_twice
}
VTB_KERNEL(64, no_such_block)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  fill(s, x);
  vtb_cluster_sync();
  mine[vtb_tid()] = vtb_cluster_load(s, vtb_tid(), 2); // BUG no_such_block
  vtb_cluster_sync();
}
