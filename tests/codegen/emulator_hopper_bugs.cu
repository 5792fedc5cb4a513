// Kernels for sm_90a with a planted bug each, as in emulator_bugs.cu. Arguments: a map of x (64
// rows of 64 numbers of 16 bits, boxes of all of them, rows turned by 128 bytes), x, and y (64 x 64
// floats): y = x x^T.

// A copy that everybody waits for, then the product by the first four warps.
#define VTB_TEST_SHARED                                                                            \
  VTB_SHARED(vtb_u64, full, 0, 2);                                                                 \
  VTB_SHARED(vtb_bf16, tile, 1024, 4096);                                                          \
  VTB_SHARED(vtb_bf16, other, 9216, 4096);                                                         \
  if (vtb_tid() == 0) {                                                                            \
    vtb_mbar_init(full, 1);                                                                        \
    vtb_mbar_init(full + 1, 128);                                                                  \
    vtb_mbar_ready();                                                                              \
  }                                                                                                \
  vtb_sync();

template <class P> VTB_FN void product(float (&d)[32], const P &tile) {
  const vtb_u64 of = vtb_wgmma_tile<128>(tile, 0, 1024);
  for (int k = 0; k < 4; k++) vtb_wgmma<64, false, false, false>(d, of + 2 * k, of + 2 * k, k > 0);
}
template <class P> VTB_FN void put(const P &y, const float (&d)[32]) {
  for (int i = 0; i < 32; i++)
    y[(vtb_warp() % 4 * 16 + vtb_lane() / 4 + i / 2 % 2 * 8) * 64 + i / 4 * 8 + vtb_lane() % 4 * 2 +
      i % 2] = d[i];
}

VTB_KERNEL(160, ok_product)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  if (vtb_tid() == 128) {
    vtb_mbar_expect(full, 8192);
    vtb_tma_load(tile, map, full, 0, 0);
  }
  if (vtb_warp() < 4) {
    vtb_mbar_wait(full, 0);
    vtb_wgmma_fence();
    product(d, tile);
    vtb_wgmma_commit();
    vtb_wgmma_wait<0>();
    put(y, d);
  }
}

// Two stages of one tile: the producer waits until it was read.
VTB_KERNEL(160, ok_stages)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  for (int i = 0; i < 3; i++) {
    if (vtb_tid() == 128) {
      vtb_mbar_wait(full + 1, (i + 1) & 1);
      vtb_mbar_expect(full, 8192);
      vtb_tma_load(tile, map, full, 0, 0);
    }
    if (vtb_warp() < 4) {
      vtb_mbar_wait(full, i & 1);
      vtb_wgmma_fence();
      product(d, tile);
      vtb_wgmma_commit();
      vtb_wgmma_wait<0>();
      vtb_mbar_arrive(full + 1);
    }
  }
  if (vtb_warp() < 4) put(y, d);
}

VTB_KERNEL(160, stage_taken_too_early)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  for (int i = 0; i < 2; i++) {
    if (vtb_tid() == 128) {
      if (i) vtb_mbar_wait(full, 0);
      vtb_mbar_expect(full, 8192);
      vtb_tma_load(tile, map, full, 0, 0); // BUG stage_taken_too_early
    }
    if (vtb_warp() < 4) {
      vtb_mbar_wait(full, i & 1); // BUG stage_taken_too_early
      vtb_wgmma_fence();
      product(d, tile); // BUG stage_taken_too_early
      vtb_wgmma_commit();
      vtb_wgmma_wait<0>();
    }
  }
  if (vtb_warp() < 4) put(y, d);
}
// The stage is given back before the products that read it are done.
VTB_KERNEL(160, stage_given_too_early)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  for (int i = 0; i < 2; i++) {
    if (vtb_tid() == 128) {
      vtb_mbar_wait(full + 1, (i + 1) & 1);
      vtb_mbar_expect(full, 8192);
      vtb_tma_load(tile, map, full, 0, 0); // BUG stage_given_too_early
    }
    if (vtb_warp() < 4) {
      vtb_mbar_wait(full, i & 1);
      vtb_wgmma_fence();
      product(d, tile);
      vtb_wgmma_commit();
      vtb_mbar_arrive(full + 1);
      vtb_sync_warp();
    }
  }
  if (vtb_warp() < 4) vtb_wgmma_wait<0>();
}
VTB_KERNEL(160, wait_for_the_wrong_phase)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  if (vtb_tid() == 128) {
    vtb_mbar_expect(full, 8192);
    vtb_tma_load(tile, map, full, 0, 0); // BUG wait_for_the_wrong_phase
  }
  if (vtb_warp() < 4) {
    vtb_mbar_wait(full, 1); // BUG wait_for_the_wrong_phase
    vtb_wgmma_fence();
    product(d, tile); // BUG wait_for_the_wrong_phase
    vtb_wgmma_commit();
    vtb_wgmma_wait<0>();
  }
}
VTB_KERNEL(160, too_many_bytes_announced)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  if (vtb_tid() == 128) {
    vtb_mbar_expect(full, 8194);
    vtb_tma_load(tile, map, full, 0, 0);
  }
  vtb_mbar_wait(full, 0); // BUG too_many_bytes_announced
}
VTB_KERNEL(160, too_few_bytes_announced)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  if (vtb_tid() == 128) {
    vtb_mbar_expect(full, 4096);
    vtb_tma_load(tile, map, full, 0, 0); // BUG too_few_bytes_announced
  }
  vtb_mbar_wait(full, 0);
}
VTB_KERNEL(160, too_few_arrive)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  if (vtb_tid() < 127) vtb_mbar_arrive(full + 1);
  vtb_mbar_wait(full + 1, 0); // BUG too_few_arrive
}
VTB_KERNEL(160, too_many_arrive)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  if (vtb_tid() == 5) {
    vtb_mbar_expect(full, 8192);
    vtb_mbar_arrive(full); // BUG too_many_arrive
  }
}
// More arrive than it was initialised for: the last ones in the phase behind theirs.
VTB_KERNEL(160, more_than_it_counts)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  vtb_mbar_arrive(full + 1);
} // BUG_AT_THE_END more_than_it_counts
// The same so often that its last phase is whole.
VTB_KERNEL(160, others_in_every_phase)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  for (int i = 0; i < 4; i++) {
    vtb_mbar_arrive(full + 1); // BUG others_in_every_phase
    vtb_sync();
  }
}
VTB_KERNEL(160, fewer_than_it_counts)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  if (vtb_warp() < 3) vtb_mbar_arrive(full + 1);
} // BUG_AT_THE_END fewer_than_it_counts
VTB_KERNEL(160, bar_without_barrier)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_SHARED(vtb_u64, full, 0, 1);
  if (vtb_tid() == 0) vtb_mbar_init(full, 1);
  if (vtb_tid() == 0) vtb_mbar_arrive(full);
  vtb_mbar_wait(full, 0); // BUG bar_without_barrier
}
VTB_KERNEL(160, bar_not_ready)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_SHARED(vtb_u64, full, 0, 1);
  VTB_SHARED(vtb_bf16, tile, 1024, 4096);
  if (vtb_tid() == 0) vtb_mbar_init(full, 1);
  vtb_sync();
  if (vtb_tid() == 32) {
    vtb_mbar_expect(full, 8192);
    vtb_tma_load(tile, map, full, 0, 0); // BUG bar_not_ready
  }
  vtb_mbar_wait(full, 0);
}
VTB_KERNEL(160, copy_read_without_wait)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  if (vtb_tid() == 0) {
    vtb_mbar_expect(full, 8192);
    vtb_tma_load(tile, map, full, 0, 0);
  }
  vtb_sync();
  y[vtb_tid()] = tile[vtb_tid()]; // BUG copy_read_without_wait
}
VTB_KERNEL(160, box_out_of_line)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  if (vtb_tid() == 0) {
    vtb_mbar_expect(full, 8192);
    vtb_tma_load(tile + 64, map, full, 0, 0); // BUG box_out_of_line
  }
  vtb_mbar_wait(full, 0);
}
VTB_KERNEL(160, box_of_another_rank)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  if (vtb_tid() == 0) {
    vtb_mbar_expect(full, 8192);
    vtb_tma_load(tile, map, full, 0, 0, 0); // BUG box_of_another_rank
  }
  vtb_mbar_wait(full, 0);
}

// Threads store the tile themselves, turned as a copy would have it.
template <class P, class Q> VTB_FN void fill(const P &tile, const Q &x) {
  for (int i = vtb_tid(); i < 4096; i += 128) tile[i ^ (i / 64 % 8) * 8] = x[i];
}
VTB_KERNEL(160, ok_own_stores)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  if (vtb_warp() < 4) {
    fill(tile, x);
    vtb_async_fence();
    vtb_sync_part(1, 128);
    vtb_wgmma_fence();
    product(d, tile);
    vtb_wgmma_commit();
    vtb_wgmma_wait<0>();
    put(y, d);
  }
}
VTB_KERNEL(160, stores_without_fence)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  if (vtb_warp() < 4) {
    fill(tile, x);
    vtb_sync_part(1, 128);
    vtb_wgmma_fence();
    product(d, tile); // BUG stores_without_fence
    vtb_wgmma_commit();
    vtb_wgmma_wait<0>();
  }
}
VTB_KERNEL(160, fence_behind_the_barrier)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  if (vtb_warp() < 4) {
    fill(tile, x);
    vtb_sync_part(1, 128);
    vtb_async_fence();
    vtb_wgmma_fence();
    product(d, tile); // BUG fence_behind_the_barrier
    vtb_wgmma_commit();
    vtb_wgmma_wait<0>();
  }
}
VTB_KERNEL(160, part_of_a_part)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  if (vtb_warp() < 3) vtb_sync_part(1, 128); // BUG part_of_a_part
}
VTB_KERNEL(160, race_between_parts)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 160);
  s[vtb_tid()] = 1.0f; // BUG race_between_parts
  if (vtb_warp() < 4) {
    vtb_sync_part(1, 128);
    y[vtb_tid()] = s[vtb_tid() + 32]; // BUG race_between_parts
  }
}

VTB_KERNEL(160, registers_without_fence)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  if (vtb_tid() == 128) {
    vtb_mbar_expect(full, 8192);
    vtb_tma_load(tile, map, full, 0, 0);
  }
  if (vtb_warp() < 4) {
    vtb_mbar_wait(full, 0);
    product(d, tile); // BUG registers_without_fence
    vtb_wgmma_commit();
    vtb_wgmma_wait<0>();
  }
}
VTB_KERNEL(160, product_without_wait)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  if (vtb_tid() == 128) {
    vtb_mbar_expect(full, 8192);
    vtb_tma_load(tile, map, full, 0, 0);
  }
  if (vtb_warp() < 4) {
    vtb_mbar_wait(full, 0);
    vtb_wgmma_fence();
    product(d, tile);
    vtb_wgmma_commit();
  } // BUG_AT_THE_END product_without_wait
}
VTB_KERNEL(160, descriptors_that_differ)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  if (vtb_warp() < 4) {
    fill(tile, x);
    vtb_async_fence();
    vtb_sync_part(1, 128);
    vtb_wgmma_fence();
    product(d, tile + vtb_lane() * 8); // BUG descriptors_that_differ
    vtb_wgmma_commit();
    vtb_wgmma_wait<0>();
  }
}
VTB_KERNEL(160, descriptor_outside)(VTB_MAP(map), VTB_IN(vtb_bf16) x, VTB_OUT(float) y) {
  VTB_TEST_SHARED
  float d[32];
  if (vtb_warp() < 4) {
    fill(tile, x);
    vtb_async_fence();
    vtb_sync_part(1, 128);
    vtb_wgmma_fence();
    const vtb_u64 of = vtb_wgmma_tile<128>(tile, 0, 4096);
    vtb_wgmma<64, false, false, false>(d, of, of, 0); // BUG descriptor_outside
    vtb_wgmma_commit();
    vtb_wgmma_wait<0>();
  }
}
