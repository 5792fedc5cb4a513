/* Vertebra: what kernels for sm_90a may use beside intrinsics.cuh: mbarriers, the copy engine
 * (TMA), wgmma, clusters, parts of a block. PTX inline; the emulator replaces exactly this text by
 * its own with the same names. docs/hopper.md.
 *
 * Two kinds of access: threads' own (loads, stores) and those of the copy engine and of wgmma, the
 * "async proxy". What threads stored, the async proxy sees behind vtb_async_fence() of each of them
 * and a barrier.
 *
 * mbarriers: vtb_u64 in shared memory. A phase ends when as many threads have arrived as it was
 *            initialised with and all bytes that were announced (expect) have come; it then begins
 *            anew. vtb_mbar_wait(bar, p) goes on when the last phase that ended was one of parity
 *            p, phases being counted from 0: at first, p = 1 does not wait.
 * Maps:      VTB_MAP(name) is an argument: a tensor in global memory and a box that is copied to
 *            shared memory at once. Coordinates (innermost first) are in elements; what lies
 *            outside is read as zero and not written. One thread asks; addresses in shared memory
 *            are multiples of 128 bytes. The plan describes the map. */
#ifndef VTB_EMULATOR
struct __align__(64) vtb_map {
  vtb_u64 opaque[16];
};
#define VTB_MAP(name) const __grid_constant__ vtb_map name

/* ---- mbarriers ------------------------------------------------------------------------------- */
VTB_FN void vtb_mbar_init(vtb_u64 *bar, int threads) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(vtb_shared_address(bar)),
               "r"(threads)
               : "memory");
}
/* The initialisations of this thread can be seen by the copy engine; a barrier tells the other
 * threads. */
VTB_FN void vtb_mbar_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
VTB_FN void vtb_mbar_arrive(vtb_u64 *bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(vtb_shared_address(bar))
               : "memory");
}
/* Arrives, and announces bytes of copies. */
VTB_FN void vtb_mbar_expect(vtb_u64 *bar, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(vtb_shared_address(bar)),
      "r"(bytes)
      : "memory");
}
VTB_FN void vtb_mbar_wait(vtb_u64 *bar, int parity) {
  int done;
  do {
    asm volatile("{\n  .reg .pred p;\n  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "  selp.b32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(vtb_shared_address(bar)), "r"(parity)
                 : "memory");
  } while (!done);
}
/* This thread's stores to shared memory, before what the async proxy does behind the next
 * barrier. */
VTB_FN void vtb_async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* ---- copies of boxes: the data has come when the phase of `bar` ends ------------------------- */
VTB_FN void vtb_tma_load(void *to, const vtb_map &map, vtb_u64 *bar, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4}], [%2];" ::"r"(vtb_shared_address(to)),
               "l"(&map), "r"(vtb_shared_address(bar)), "r"(x), "r"(y)
               : "memory");
}
VTB_FN void vtb_tma_load(void *to, const vtb_map &map, vtb_u64 *bar, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(vtb_shared_address(to)),
               "l"(&map), "r"(vtb_shared_address(bar)), "r"(x), "r"(y), "r"(z)
               : "memory");
}
VTB_FN void vtb_tma_load(void *to, const vtb_map &map, vtb_u64 *bar, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(vtb_shared_address(to)),
               "l"(&map), "r"(vtb_shared_address(bar)), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}
/* Stores belong to groups of the thread that asks. The box in shared memory is read until
 * vtb_tma_wait. */
VTB_FN void vtb_tma_store(const vtb_map &map, const void *from, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
      "r"(vtb_shared_address(from)), "r"(x), "r"(y)
      : "memory");
}
VTB_FN void vtb_tma_store(const vtb_map &map, const void *from, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
      "r"(vtb_shared_address(from)), "r"(x), "r"(y), "r"(z)
      : "memory");
}
VTB_FN void vtb_tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int left> VTB_FN void vtb_tma_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(left) : "memory");
}

/* ---- clusters: blocks that run together and reach each other's shared memory --------------------
 * Blocks of a cluster follow each other in the grid. A block must not end while another uses its
 * memory, and its mbarriers are there for the others behind a barrier of the cluster. */
VTB_FN int vtb_cluster_rank() {
  vtb_u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}
/* The cluster's barrier, of all threads of all its blocks, in two halves: what was done before the
 * first is known behind the second. */
VTB_FN void vtb_cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
VTB_FN void vtb_cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
VTB_FN void vtb_cluster_sync() {
  vtb_cluster_arrive();
  vtb_cluster_wait();
}
/* The same place in the shared memory of another block. */
VTB_FN vtb_u32 vtb_cluster_address(const void *p, int rank) {
  vtb_u32 at;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(vtb_shared_address(p)), "r"(rank));
  return at;
}
VTB_FN void vtb_mbar_arrive_at(vtb_u64 *bar, int rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" 
               ::"r"(vtb_cluster_address(bar, rank))
               : "memory");
}
/* As vtb_mbar_wait; then also what threads of other blocks did before they arrived is known. */
VTB_FN void vtb_mbar_wait_cluster(vtb_u64 *bar, int parity) {
  int done;
  do {
    asm volatile("{\n  .reg .pred p;\n"
                 "  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                 "  selp.b32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(vtb_shared_address(bar)), "r"(parity)
                 : "memory");
  } while (!done);
}
/* That this thread's reads are over, said to a block of the cluster, and the wait for that: what a
 * thread wrote before is not handed on. (`release.cluster` is a barrier of the whole GPU.) */
VTB_FN void vtb_mbar_free_at(vtb_u64 *bar, int rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(vtb_cluster_address(bar, rank))
               : "memory");
}
VTB_FN void vtb_mbar_wait_free(vtb_u64 *bar, int parity) { vtb_mbar_wait(bar, parity); }
/* Copies of boxes to the same place of each block whose bit is set, and their bytes to each one's
 * own `bar`. */
VTB_FN void vtb_tma_load_to(vtb_u32 blocks, void *to, const vtb_map &map, vtb_u64 *bar, int x,
                            int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(vtb_shared_address(to)),
               "l"(&map), "r"(vtb_shared_address(bar)), "h"((unsigned short)blocks), "r"(x), "r"(y)
               : "memory");
}
VTB_FN void vtb_tma_load_to(vtb_u32 blocks, void *to, const vtb_map &map, vtb_u64 *bar, int x,
                            int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%4, %5, %6}], [%2], %3;"
               ::"r"(vtb_shared_address(to)),
               "l"(&map), "r"(vtb_shared_address(bar)), "h"((unsigned short)blocks), "r"(x), "r"(y),
               "r"(z)
               : "memory");
}
VTB_FN void vtb_tma_load_to(vtb_u32 blocks, void *to, const vtb_map &map, vtb_u64 *bar, int x,
                            int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%4, %5, %6, %7}], [%2], %3;"
               ::"r"(vtb_shared_address(to)),
               "l"(&map), "r"(vtb_shared_address(bar)), "h"((unsigned short)blocks), "r"(x), "r"(y),
               "r"(z), "r"(w)
               : "memory");
}
/* p[at] of another block; four are aligned to 16 bytes. */
VTB_FN float vtb_cluster_load(const float *p, int at, int rank) {
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];"
               : "=f"(v)
               : "r"(vtb_cluster_address(p + at, rank))
               : "memory");
  return v;
}
VTB_FN vtb_f4 vtb_cluster_load4(const float *p, int at, int rank) {
  vtb_f4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(vtb_cluster_address(p + at, rank))
               : "memory");
  return v;
}
VTB_FN void vtb_cluster_store(float *p, int at, int rank, float v) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(vtb_cluster_address(p + at, rank)), "f"(v)
               : "memory");
}
VTB_FN void vtb_cluster_store4(float *p, int at, int rank, vtb_f4 v) {
  asm volatile(
      "st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(vtb_cluster_address(p + at, rank)),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
      : "memory");
}
/* Stores whose bytes that block's `bar` counts: they have come when its phase ends. */
VTB_FN void vtb_cluster_send(float *p, int at, int rank, float v, vtb_u64 *bar) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
               ::"r"(vtb_cluster_address(p + at, rank)),
               "r"(vtb_bits(v)), "r"(vtb_cluster_address(bar, rank))
               : "memory");
}
VTB_FN void vtb_cluster_send4(float *p, int at, int rank, vtb_f4 v, vtb_u64 *bar) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
               "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(vtb_cluster_address(p + at, rank)),
               "r"(vtb_bits(v.x)), "r"(vtb_bits(v.y)), "r"(vtb_bits(v.z)), "r"(vtb_bits(v.w)),
               "r"(vtb_cluster_address(bar, rank))
               : "memory");
}

/* ---- parts of a block ------------------------------------------------------------------------ */
/* A barrier of `threads`, whole warps, by its number, 1 to 15. */
VTB_FN void vtb_sync_part(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
/* All four warps of a group: fewer registers, for others to have more. For VTB_KERNEL_ROOMY
 * only. */
template <int n> VTB_FN void vtb_registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}
template <int n> VTB_FN void vtb_registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}

/* ---- wgmma: D (64 x N, f32) = A (64 x 16) B (16 x N) (+ D), executed by groups of four warps ----
 * With g = lane / 4 and t = lane % 4, warp w % 4 of the group has rows 16 (w % 4) + ...:
 *   d[4 j + e] is (g + e / 2 * 8, 8 j + 2 t + e % 2); A in registers as of vtb_mma_bf16_m16n8k16.
 * In shared memory a factor lies as its descriptor says: "along" if neighbours follow k, "across"
 * if they follow m or n (A_MN, B_MN). Rows of `SWIZZLE` bytes (128, 64, 32), 8 of them a pattern,
 * as TMA writes boxes of that swizzle:
 *   along    row r (m or n) at r / 8 * stride + r % 8 * SWIZZLE; k within the row; lead is not used
 *   across   element r of row k at r / (SWIZZLE / 2) * lead + k / 8 * stride + k % 8 * SWIZZLE
 * Bytes added to an address are added to the descriptor divided by 16. */
template <int SWIZZLE> VTB_FN vtb_u64 vtb_wgmma_tile(const void *tile, int lead, int stride) {
  static_assert(SWIZZLE == 128 || SWIZZLE == 64 || SWIZZLE == 32, "bytes of a swizzle");
  constexpr vtb_u64 kind = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : 3;
  return (vtb_u64)(vtb_shared_address(tile) >> 4 & 0x3fff) | (vtb_u64)(lead >> 4) << 16 |
         (vtb_u64)(stride >> 4) << 32 | kind << 62;
}
/* Before the first wgmma, and when registers of one were touched since. */
VTB_FN void vtb_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
VTB_FN void vtb_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* Until at most `left` groups go on; their registers and shared memory are not to be touched
 * before. */
template <int left> VTB_FN void vtb_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
#define VTB_N0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define VTB_N1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define VTB_N2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define VTB_N3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define VTB_N4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define VTB_N5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define VTB_N6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define VTB_N7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define VTB_N8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define VTB_N9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define VTB_N10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define VTB_N11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define VTB_N12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define VTB_N13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define VTB_N14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define VTB_N15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define VTB_D(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define VTB_D8(i) VTB_D(i), VTB_D(i + 4)
#define VTB_D16(i) VTB_D8(i), VTB_D8(i + 8)
#define VTB_D32(i) VTB_D16(i), VTB_D16(i + 16)
#define VTB_WGMMA_TEXT(N, TYPE, LIST, A, B, ADD, MAJORS)                                           \
  "{\n  .reg .pred p;\n  setp.ne.b32 p, " ADD ", 0;\n"                                             \
  "  wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" LIST "}, " A ", " B       \
  ", p, 1, 1, " MAJORS ";\n}"
template <int N> struct vtb_wgmma_of;
/* R: registers; S..., X...: numbers of the operands behind them */
#define VTB_WGMMA(N, R, LIST, S0, S1, S2, S3, S4, X0, X1, X2, X3, X4, X5, X6, ...)                 \
  template <> struct vtb_wgmma_of<N> {                                                             \
    template <bool HALF, bool A_MN, bool B_MN>                                                     \
    static __device__ __forceinline__ void shared(float (&d)[R], vtb_u64 a, vtb_u64 b, int add) {  \
      if constexpr (HALF)                                                                          \
        asm volatile(VTB_WGMMA_TEXT(N, "f16", LIST, S0, S1, S2, S3 ", " S4)                        \
                     : __VA_ARGS__                                                                 \
                     : "l"(a), "l"(b), "r"(add), "n"((int)A_MN), "n"((int)B_MN));                  \
      else                                                                                         \
        asm volatile(VTB_WGMMA_TEXT(N, "bf16", LIST, S0, S1, S2, S3 ", " S4)                       \
                     : __VA_ARGS__                                                                 \
                     : "l"(a), "l"(b), "r"(add), "n"((int)A_MN), "n"((int)B_MN));                  \
    }                                                                                              \
    template <bool HALF, bool B_MN>                                                                \
    static __device__ __forceinline__ void rows(float (&d)[R], const vtb_u32 (&a)[4], vtb_u64 b,   \
                                                int add) {                                         \
      if constexpr (HALF)                                                                          \
        asm volatile(VTB_WGMMA_TEXT(N, "f16", LIST, "{" X0 "," X1 "," X2 "," X3 "}", X4, X5, X6)   \
                     : __VA_ARGS__                                                                 \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add),               \
                       "n"((int)B_MN));                                                            \
      else                                                                                         \
        asm volatile(VTB_WGMMA_TEXT(N, "bf16", LIST, "{" X0 "," X1 "," X2 "," X3 "}", X4, X5, X6)  \
                     : __VA_ARGS__                                                                 \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add),               \
                       "n"((int)B_MN));                                                            \
    }                                                                                              \
  };
VTB_WGMMA(16, 8, VTB_N0, "%8", "%9", "%10", "%11", "%12", "%8", "%9", "%10", "%11", "%12", "%13",
          "%14", VTB_D8(0))
VTB_WGMMA(32, 16, VTB_N0 ", " VTB_N1, "%16", "%17", "%18", "%19", "%20", "%16", "%17", "%18", "%19",
          "%20", "%21", "%22", VTB_D16(0))
VTB_WGMMA(64, 32, VTB_N0 ", " VTB_N1 ", " VTB_N2 ", " VTB_N3, "%32", "%33", "%34", "%35", "%36",
          "%32", "%33", "%34", "%35", "%36", "%37", "%38", VTB_D32(0))
VTB_WGMMA(96, 48, VTB_N0 ", " VTB_N1 ", " VTB_N2 ", " VTB_N3 ", " VTB_N4 ", " VTB_N5, "%48", "%49",
          "%50", "%51", "%52", "%48", "%49", "%50", "%51", "%52", "%53", "%54", VTB_D32(0),
          VTB_D16(32))
VTB_WGMMA(128, 64,
          VTB_N0 ", " VTB_N1 ", " VTB_N2 ", " VTB_N3 ", " VTB_N4 ", " VTB_N5 ", " VTB_N6
                 ", " VTB_N7,
          "%64", "%65", "%66", "%67", "%68", "%64", "%65", "%66", "%67", "%68", "%69", "%70",
          VTB_D32(0), VTB_D32(32))
VTB_WGMMA(192, 96,
          VTB_N0 ", " VTB_N1 ", " VTB_N2 ", " VTB_N3 ", " VTB_N4 ", " VTB_N5 ", " VTB_N6 ", " VTB_N7
                 ", " VTB_N8 ", " VTB_N9 ", " VTB_N10 ", " VTB_N11,
          "%96", "%97", "%98", "%99", "%100", "%96", "%97", "%98", "%99", "%100", "%101", "%102",
          VTB_D32(0), VTB_D32(32), VTB_D32(64))
VTB_WGMMA(256, 128,
          VTB_N0 ", " VTB_N1 ", " VTB_N2 ", " VTB_N3 ", " VTB_N4 ", " VTB_N5 ", " VTB_N6 ", " VTB_N7
                 ", " VTB_N8 ", " VTB_N9 ", " VTB_N10 ", " VTB_N11 ", " VTB_N12 ", " VTB_N13
                 ", " VTB_N14 ", " VTB_N15,
          "%128", "%129", "%130", "%131", "%132", "%128", "%129", "%130", "%131", "%132", "%133",
          "%134", VTB_D32(0), VTB_D32(32), VTB_D32(64), VTB_D32(96))
/* `add`: 0 leaves D's old contents out. */
template <int N, bool HALF, bool A_MN, bool B_MN>
VTB_FN void vtb_wgmma(float (&d)[N / 2], vtb_u64 a, vtb_u64 b, int add) {
  vtb_wgmma_of<N>::template shared<HALF, A_MN, B_MN>(d, a, b, add);
}
template <int N, bool HALF, bool B_MN>
VTB_FN void vtb_wgmma_rows(float (&d)[N / 2], const vtb_u32 (&a)[4], vtb_u64 b, int add) {
  vtb_wgmma_of<N>::template rows<HALF, B_MN>(d, a, b, add);
}
#endif
