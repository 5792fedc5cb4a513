// A kernel or more for each asm statement of intrinsics.cuh and hopper.cuh, run by the emulator and
// by the machine of this folder. What one does not define alike is not asked for: numbers are small
// integers where sums are rounded. Some kernels change what a pending copy is still to read: both
// machines read as late as they may, so that a wait that waits for too much shows, too.
//
// CASE(threads of a block, blocks of the cluster, how results are compared, name)
// x: random bits, some of them chosen; f, b, h: small integers; y: results. Maps: m2, m3, m4 are of
// x (rows turned by 128, 64 and 32 bytes), w2 and w3 of y behind 32768 words.
#define CASE(threads, blocks, how, name)                                                           \
  VTB_KERNEL_ROOMY(threads, name)                                                                  \
  (VTB_MAP(m2), VTB_MAP(m3), VTB_MAP(m4), VTB_MAP(w2), VTB_MAP(w3), VTB_IN(vtb_u32) x,             \
   VTB_IN(float) f, VTB_IN(vtb_bf16) b, VTB_IN(vtb_f16) h, VTB_OUT(vtb_u32) y,                     \
   VTB_OUT(vtb_bf16) yb, VTB_OUT(vtb_f16) yh)

// ---- registers ----------------------------------------------------------------------------------
CASE(32, 1, bits, conversions) {
  for (int i = vtb_tid(); i < 1024; i += 32) {
    const float v = vtb_float(x[i]), w = vtb_float(x[i + 1024]);
    y[i] = vtb_pack_bf16(v, w);
    y[i + 1024] = vtb_pack_f16(v, w);
    y[i + 2048] = (vtb_u32)vtb_to_int(v);
    yb[i] = v;
    yh[i] = v;
    yb[i + 1024] = (float)b[i];
    yh[i + 1024] = (float)h[i];
  }
}
CASE(32, 1, floats, conversions_to_floats) {
  for (int i = vtb_tid(); i < 1024; i += 32) {
    y[i] = vtb_to_tf32(vtb_float(x[i]));
    y[i + 1024] = vtb_bits(vtb_from_f16((unsigned short)x[i]));
    y[i + 2048] = vtb_bits(vtb_max(vtb_float(x[i]), vtb_float(x[i + 1024])));
    y[i + 3072] = vtb_bits(vtb_min(vtb_float(x[i]), vtb_float(x[i + 1024])));
  }
}
CASE(32, 1, near, fast) {
  for (int i = vtb_tid(); i < 1024; i += 32) {
    y[i] = vtb_bits(vtb_exp2_fast(f[i] * 0.37f));
    y[i + 1024] = vtb_bits(vtb_rcp_fast(f[i] * 0.37f + 0.1f));
    y[i + 2048] = vtb_bits(vtb_exp(f[i]));
  }
}
CASE(32, 1, bits, pairs) {
  for (int i = vtb_tid(); i < 1024; i += 32) {
    y[i] = vtb_multiply_bf16(x[i], x[i + 1024]);
    y[i + 1024] = vtb_fma_bf16(x[i], x[i + 1024], x[i + 2048]);
    y[i + 2048] = vtb_multiply_f16(x[i], x[i + 1024]);
  }
}
CASE(64, 1, bits, shuffles) {
  const int t = vtb_tid();
  const float v = f[t];
  y[t] = vtb_bits(vtb_shfl(v, 5));
  y[t + 64] = vtb_bits(vtb_shfl_xor(v, 4));
  y[t + 128] = vtb_bits(vtb_shfl_up(v, 3));
  y[t + 192] = vtb_bits(vtb_shfl_down(v, 9));
  vtb_sync_warp();
}
CASE(32, 1, bits, vectors) {
  const int t = vtb_tid();
  const vtb_f4 p = vtb_load4(f, 4 * t), q = vtb_load4(b, 4 * t), r = vtb_load4(h, 4 * t);
  const vtb_f4 of_pairs = {q.x + r.w, q.y + r.z, q.z + r.y, q.w + r.x};
  y[4 * t] = vtb_bits(of_pairs.x), y[4 * t + 1] = vtb_bits(of_pairs.y);
  y[4 * t + 2] = vtb_bits(of_pairs.z), y[4 * t + 3] = vtb_bits(of_pairs.w);
  vtb_store4(yb, 4 * t, p);
  vtb_store4(yh, 4 * t, p);
  vtb_store4_whole(yb, 4 * t + 256, p);
  vtb_store4_whole(yh, 4 * t + 256, p);
  vtb_store2(yb, 2 * t + 512, p.y, p.z);
  vtb_store2(yh, 2 * t + 512, p.y, p.z);
  const auto settled = vtb_settled(y + 1024);
  settled[vtb_settled(t)] = vtb_bits(p.w);
}

// ---- copies to shared memory --------------------------------------------------------------------
CASE(64, 1, bits, cp_async) {
  VTB_SHARED(vtb_u32, s, 0, 1024);
  const int t = vtb_tid();
  const int of = 4096; // what is copied lies in y
  for (int i = 0; i < 7; i++) y[of + 7 * 64 + t] = x[t + i], y[of + i * 64 + t] = x[i * 64 + t];
  vtb_sync();
  for (int i = 0; i < 4; i++) s[t * 4 + i] = 7;
  s[256 + t * 2] = s[256 + t * 2 + 1] = s[512 + t] = 7;
  vtb_cp_async16(s + t * 4, y + of + t * 4, t % 3 != 0);
  vtb_cp_commit();
  vtb_cp_async8(s + 256 + t * 2, y + of + 256 + t * 2, t % 3 != 1);
  vtb_cp_commit();
  vtb_cp_async4(s + 512 + t, y + of + 384 + t, t % 3 != 2);
  vtb_cp_commit();
  vtb_cp_wait<2>();
  for (int i = 0; i < 4; i++) y[t * 4 + i] = s[t * 4 + i];
  y[of + 256 + t * 2] = y[of + 256 + t * 2 + 1] = y[of + 384 + t] = 11;
  vtb_cp_wait<1>();
  for (int i = 0; i < 2; i++) y[256 + t * 2 + i] = s[256 + t * 2 + i];
  y[of + 384 + t] = 12;
  vtb_cp_wait<0>();
  y[512 + t] = s[512 + t];
}

CASE(32, 1, bits, ldmatrix) {
  VTB_SHARED(vtb_u32, s, 0, 1024);
  const int t = vtb_tid();
  for (int i = t; i < 1024; i += 32) s[i] = x[i];
  vtb_sync();
  vtb_u32 d[4], e[4];
  const int row = t * 5 % 32 * 32 + t % 7 * 4; // of 16 bytes
  vtb_ldmatrix_x4(d, s + row);
  vtb_ldmatrix_x4_trans(e, s + row);
  for (int i = 0; i < 4; i++) y[i * 32 + t] = d[i], y[128 + i * 32 + t] = e[i];
}

// ---- mma ----------------------------------------------------------------------------------------
CASE(32, 1, floats, mma) {
  const int t = vtb_tid();
  vtb_u32 a[4], c[2], at[4], ct[2], ah[4], ch[2];
  for (int i = 0; i < 4; i++) {
    const float p = f[t * 8 + i], q = f[t * 8 + i + 4];
    a[i] = vtb_pack_bf16(p, q), ah[i] = vtb_pack_f16(p, q), at[i] = vtb_to_tf32(p);
  }
  for (int i = 0; i < 2; i++) {
    const float p = f[512 + t * 4 + i], q = f[512 + t * 4 + i + 2];
    c[i] = vtb_pack_bf16(p, q), ch[i] = vtb_pack_f16(p, q), ct[i] = vtb_to_tf32(p);
  }
  float d[5][4];
  for (int k = 0; k < 5; k++)
    for (int i = 0; i < 4; i++) d[k][i] = f[t + k * 4 + i];
  vtb_mma_tf32_m16n8k8(d[0], at, ct);
  vtb_mma_bf16_m16n8k16(d[1], a, c);
  vtb_mma_bf16_m16n8k8(d[2], a[0], a[1], c[0]);
  vtb_mma_f16_m16n8k8(d[3], ah[0], ah[1], ch[0]);
  vtb_mma_f16_m16n8k16(d[4], ah, ch);
  for (int k = 0; k < 5; k++)
    for (int i = 0; i < 4; i++) y[k * 128 + i * 32 + t] = vtb_bits(d[k][i]);
}

// ---- mbarriers, boxes ---------------------------------------------------------------------------
// Two phases of one barrier by threads alone: first the upper warp has arrived, then the lower one.
CASE(64, 1, bits, arrivals) {
  VTB_SHARED(vtb_u64, bar, 0, 2);
  VTB_SHARED(vtb_u32, s, 1024, 64);
  const int t = vtb_tid();
  if (t == 0) {
    vtb_mbar_init(bar, 32);
    vtb_mbar_init(bar + 1, 32);
    vtb_mbar_ready();
  }
  vtb_sync();
  for (int i = 0; i < 3; i++) {
    if (t >= 32) {
      vtb_mbar_wait(bar + 1, (i + 1) & 1);
      s[t] = x[i * 64 + t];
      vtb_mbar_arrive(bar);
    } else {
      vtb_mbar_wait(bar, i & 1);
      y[i * 32 + t] = s[32 + 31 - t];
      vtb_mbar_arrive(bar + 1);
    }
  }
}
// The first box reaches over the edges; the second comes on the next phase.
template <class M, class P, class... I> VTB_FN void boxes(const M &map, const P &y, I... at) {
  VTB_SHARED(vtb_u64, bar, 0, 1);
  VTB_SHARED(vtb_u32, s, 1024, 512);
  const int t = vtb_tid();
  if (t == 0) {
    vtb_mbar_init(bar, 1);
    vtb_mbar_ready();
    vtb_mbar_expect(bar, 2048);
    vtb_tma_load(s, map, bar, at...);
  }
  vtb_sync();
  vtb_mbar_wait(bar, 0);
  for (int i = t; i < 512; i += 64) y[i] = s[i];
  vtb_sync();
  if (t == 0) {
    vtb_mbar_expect(bar, 2048);
    vtb_tma_load(s, map, bar, (at + 1)...);
  }
  vtb_mbar_wait(bar, 1);
  for (int i = t; i < 512; i += 64) y[512 + i] = s[i];
}
CASE(64, 1, bits, boxes_2) { boxes(m2, y, -3, 11); }
CASE(64, 1, bits, boxes_3) { boxes(m3, y, 17, -2, 2); }
CASE(64, 1, bits, boxes_4) { boxes(m4, y, 5, 2, -1, 1); }

// Two groups of a store each, read as late as they may be; then what stands in their place shows
// which were waited for.
CASE(64, 1, bits, box_stores) {
  VTB_SHARED(vtb_u32, s, 1024, 512);
  VTB_SHARED(vtb_u32, r, 4096, 512);
  const int t = vtb_tid();
  for (int i = t; i < 512; i += 64) s[i] = x[i], r[i] = x[i + 512];
  for (int i = t; i < 32768; i += 64) y[32768 + i] = 3;
  vtb_async_fence();
  vtb_sync();
  if (t == 0) {
    vtb_tma_store(w2, s, -2, 5);
    vtb_tma_commit();
    vtb_tma_store(w3, r, 9, 2, 1);
    vtb_tma_commit();
    vtb_tma_wait<1>();
    for (int i = 0; i < 4096; i++) y[i] = y[32768 + i];
    for (int i = 0; i < 4096; i++) y[32768 + 16384 + i] = 4;
    vtb_tma_wait<0>();
  }
}

// ---- clusters -----------------------------------------------------------------------------------
CASE(32, 2, bits, ranks) { y[vtb_block() * 32 + vtb_tid()] = (vtb_u32)vtb_cluster_rank() + 10; }

// Values for the other block, in its memory before it goes on; loads of it; halves of the cluster's
// barrier.
CASE(64, 2, bits, neighbours) {
  VTB_SHARED(float, s, 0, 1024);
  const int t = vtb_tid(), own = vtb_cluster_rank(), other = 1 - own, at = own * 2048;
  vtb_cluster_store(s, t, other, f[t + own * 64]);
  vtb_f4 v = vtb_load4(f, 4 * (t + own * 64));
  vtb_cluster_store4(s, 256 + 4 * t, other, v);
  vtb_cluster_sync();
  y[at + t] = vtb_bits(s[t]);
  for (int i = 0; i < 4; i++) y[at + 64 + i * 64 + t] = vtb_bits(s[256 + i * 64 + t]);
  y[at + 320 + t] = vtb_bits(vtb_cluster_load(s, 63 - t, other));
  v = vtb_cluster_load4(s, 256 + 4 * (63 - t), other);
  y[at + 384 + 4 * t] = vtb_bits(v.x), y[at + 385 + 4 * t] = vtb_bits(v.y);
  y[at + 386 + 4 * t] = vtb_bits(v.z), y[at + 387 + 4 * t] = vtb_bits(v.w);
  vtb_cluster_arrive();
  vtb_cluster_wait();
}

// Each block fills the other's memory, says so at its barrier, and waits at its own.
CASE(32, 2, bits, arrivals_of_others) {
  VTB_SHARED(vtb_u64, bar, 0, 2);
  VTB_SHARED(float, s, 1024, 256);
  const int t = vtb_tid(), own = vtb_cluster_rank(), other = 1 - own;
  if (t == 0) {
    vtb_mbar_init(bar, 64);
    vtb_mbar_init(bar + 1, 32);
    vtb_mbar_ready();
  }
  vtb_cluster_sync();
  for (int i = 0; i < 2; i++) {
    vtb_cluster_store(s, i * 64 + t, other, f[i * 32 + t + own * 64]);
    vtb_mbar_arrive_at(bar, other);
    vtb_mbar_arrive_at(bar, own);
    vtb_mbar_wait_cluster(bar, i);
    y[own * 256 + i * 32 + t] = vtb_bits(s[i * 64 + 31 - t]);
    vtb_mbar_free_at(bar + 1, other);
    vtb_mbar_wait_free(bar + 1, i);
  }
  vtb_cluster_sync();
}

CASE(32, 2, bits, sends) {
  VTB_SHARED(vtb_u64, bar, 0, 4);
  VTB_SHARED(float, s, 1024, 512);
  const int t = vtb_tid(), own = vtb_cluster_rank(), other = 1 - own;
  if (t == 0) {
    vtb_mbar_init(bar, 1);
    vtb_mbar_init(bar + 1, 1);
    vtb_mbar_ready();
    vtb_mbar_expect(bar, 128);
    vtb_mbar_expect(bar + 1, 512);
  }
  vtb_cluster_sync();
  const vtb_f4 v = vtb_load4(f, 4 * t + own * 128);
  vtb_cluster_send(s, t, other, f[t + own * 64], bar);
  vtb_cluster_send4(s, 128 + 4 * t, other, v, bar + 1);
  vtb_mbar_wait_cluster(bar, 0);
  y[own * 256 + t] = vtb_bits(s[31 - t]);
  vtb_mbar_wait_cluster(bar + 1, 0);
  for (int i = 0; i < 4; i++) y[own * 256 + 32 + i * 32 + t] = vtb_bits(s[128 + i * 32 + t]);
  vtb_cluster_sync();
}

// To both blocks, and to the other one only.
template <class M, class P, class... I> VTB_FN void boxes_to(const M &map, const P &y, I... at) {
  VTB_SHARED(vtb_u64, bar, 0, 2);
  VTB_SHARED(vtb_u32, s, 1024, 1536);
  const int t = vtb_tid(), own = vtb_cluster_rank();
  if (t == 0) {
    vtb_mbar_init(bar, 1);
    vtb_mbar_init(bar + 1, 1);
    vtb_mbar_ready();
    vtb_mbar_expect(bar, 4096);
    vtb_mbar_expect(bar + 1, 2048);
  }
  vtb_cluster_sync();
  if (t == 0) {
    vtb_tma_load_to(3, s + own * 512, map, bar, (at + own)...);
    vtb_tma_load_to(2 >> own, s + 1024, map, bar + 1, (at + 2 * own)...);
  }
  vtb_mbar_wait_cluster(bar, 0);
  for (int i = t; i < 1024; i += 32) y[own * 2048 + i] = s[i];
  vtb_mbar_wait_cluster(bar + 1, 0);
  for (int i = t; i < 512; i += 32) y[own * 2048 + 1024 + i] = s[1024 + i];
  vtb_cluster_sync();
}
CASE(32, 2, bits, boxes_2_to) { boxes_to(m2, y, -3, 11); }
CASE(32, 2, bits, boxes_3_to) { boxes_to(m3, y, 17, -2, 2); }
CASE(32, 2, bits, boxes_4_to) { boxes_to(m4, y, 5, 2, -1, 1); }

// ---- parts of a block ---------------------------------------------------------------------------
// Warps 0 and 1, and 2 and 3, hand on numbers both ways.
CASE(128, 1, bits, parts) {
  VTB_SHARED(vtb_u32, s, 0, 128);
  const int t = vtb_tid();
  s[t] = x[t];
  vtb_sync_part(1 + t / 64, 64);
  y[t] = s[t ^ 63];
}

// Two groups take registers that there are once the third has given some back.
CASE(384, 1, bits, registers) {
  const int t = vtb_tid();
  if (t < 256)
    vtb_registers_up<232>();
  else
    vtb_registers_down<40>();
  y[t] = x[t];
}

// ---- wgmma --------------------------------------------------------------------------------------
// Two products on the same registers (the second adds), one on others that is waited for later.
// Shared memory is full of numbers; what a descriptor says is where they come from.
template <bool HALF, class P>
VTB_FN void fill(const P &s, VTB_IN(vtb_bf16) b, VTB_IN(vtb_f16) h, int words) {
  for (int i = vtb_tid(); i < words; i += 128)
    s[i] = HALF ? vtb_pack_f16(h[i * 2 % 4093], h[i * 2 % 4093 + 1])
                : vtb_pack_bf16(b[i * 2 % 4093], b[i * 2 % 4093 + 1]);
  vtb_async_fence();
  vtb_sync();
}
template <int R, class P> VTB_FN void put(const P &y, const float (&d)[R]) {
  for (int i = 0; i < R; i++) y[i * 128 + vtb_tid()] = vtb_bits(d[i]);
}
template <int N, bool HALF, bool A_MN, bool B_MN, int A_SWIZZLE, int B_SWIZZLE, class P>
VTB_FN void products(const P &y, VTB_IN(vtb_bf16) b, VTB_IN(vtb_f16) h) {
  VTB_SHARED(vtb_u32, s, HALF ? 163840 : 0, 12288); // an address of 18 bits
  fill<HALF>(s, b, h, 12288);
  const vtb_u64 p = vtb_wgmma_tile<A_SWIZZLE>(s, 2048, 1024) + (A_MN || A_SWIZZLE == 32 ? 0 : 2);
  const vtb_u64 q = vtb_wgmma_tile<B_SWIZZLE>(s + 2048, 2048, 8 * B_SWIZZLE);
  float d[N / 2], e[N / 2];
  for (int i = 0; i < N / 2; i++) d[i] = e[i] = (float)(i % 5);
  vtb_wgmma_fence();
  vtb_wgmma<N, HALF, A_MN, B_MN>(d, p, q, 0);
  vtb_wgmma<N, HALF, A_MN, B_MN>(d, p + 64, q, 1);
  vtb_wgmma_commit();
  vtb_wgmma<N, HALF, A_MN, B_MN>(e, p, q, 1);
  vtb_wgmma_commit();
  vtb_wgmma_wait<1>();
  put(y, d);
  put(y + 128 * (N / 2), e); // not waited for
  vtb_wgmma_wait<0>();
  put(y + 128 * N, e);
}
template <int N, bool HALF, bool B_MN, int SWIZZLE, class P>
VTB_FN void row_products(const P &y, VTB_IN(float) f, VTB_IN(vtb_bf16) b, VTB_IN(vtb_f16) h) {
  VTB_SHARED(vtb_u32, s, 0, 12288);
  fill<HALF>(s, b, h, 12288);
  const vtb_u64 q = vtb_wgmma_tile<SWIZZLE>(s + 2048, 2048, 8 * SWIZZLE);
  float d[N / 2];
  vtb_u32 a[4];
  for (int i = 0; i < N / 2; i++) d[i] = (float)(i % 5);
  for (int i = 0; i < 4; i++) {
    const float v = f[vtb_tid() * 8 + i], w = f[vtb_tid() * 8 + 4 + i];
    a[i] = HALF ? vtb_pack_f16(v, w) : vtb_pack_bf16(v, w);
  }
  vtb_wgmma_fence();
  vtb_wgmma_rows<N, HALF, B_MN>(d, a, q, 1);
  vtb_wgmma_commit();
  vtb_wgmma_wait<0>();
  put(y, d);
}
#define WGMMA(N, S, T)                                                                             \
  CASE(128, 1, floats, wgmma_##N) {                                                                \
    products<N, false, (N / 32) % 2 == 1, (N / 64) % 2 == 0, S, T>(y, b, h);                       \
  }                                                                                                \
  CASE(128, 1, floats, wgmma_half_##N) {                                                           \
    products<N, true, (N / 32) % 2 == 0, (N / 64) % 2 == 1, T, S>(y, b, h);                        \
  }                                                                                                \
  CASE(128, 1, floats, wgmma_rows_##N) {                                                           \
    row_products<N, false, (N / 32) % 2 == 1, S>(y, f, b, h);                                      \
  }                                                                                                \
  CASE(128, 1, floats, wgmma_rows_half_##N) {                                                      \
    row_products<N, true, (N / 32) % 2 == 0, T>(y, f, b, h);                                       \
  }
WGMMA(16, 128, 64)
WGMMA(32, 64, 32)
WGMMA(64, 32, 128)
WGMMA(96, 128, 64)
WGMMA(128, 128, 128)
WGMMA(192, 64, 32)
WGMMA(256, 32, 32)
