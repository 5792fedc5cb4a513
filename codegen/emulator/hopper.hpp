// The emulator's part of codegen/cuda/text/hopper.cuh: the same names; what they do is in hopper.c
// and wgmma.c. Compiled only with kernels that use it.
#define VTB_MAP(name) const vtb_map name
struct vtb_map {
  vtb_emu_arg of;
};
template <> struct vtb_emu_parameter<const vtb_map> {
  static vtb_map make(const vtb_emu_arg &a) {
    return vtb_map{a};
  }
};
template <> struct vtb_emu_parameter<vtb_map> : vtb_emu_parameter<const vtb_map> {};

VTB_FN int vtb_emu_box_bytes(const vtb_map &map) {
  if (!map.of.map) vtb_emu_fail("a pointer was passed for a tensor map");
  long n = map.of.map->element_bytes;
  for (int i = 0; i < map.of.map->rank; i++) n *= map.of.map->box[i];
  return (int)n;
}

// ---- mbarriers ----------------------------------------------------------------------------------
template <class B> VTB_FN void vtb_mbar_init(const B &bar, int threads, VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->mbar_init(t, vtb_emu_reaching(bar, 8), threads, VTB_EMU_PLACE("vtb_mbar_init"));
}
VTB_FN void vtb_mbar_ready() {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->mbar_ready(t);
}
template <class B> VTB_FN void vtb_mbar_arrive(const B &bar) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->mbar_arrive(t, vtb_emu_reaching(bar, 8), 0);
}
template <class B> VTB_FN void vtb_mbar_expect(const B &bar, int bytes) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->mbar_arrive(t, vtb_emu_reaching(bar, 8), bytes);
}
template <class B> VTB_FN void vtb_mbar_wait(const B &bar, int parity, VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->mbar_wait(t, vtb_emu_reaching(bar, 8), parity, VTB_EMU_OF_BLOCK,
                    VTB_EMU_PLACE("vtb_mbar_wait"));
}
VTB_FN void vtb_async_fence() {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->async_fence(t);
}

// ---- copies of boxes ----------------------------------------------------------------------------
template <class P, class B, class... I>
VTB_FN void vtb_tma_load(const P &to, const vtb_map &map, const B &bar, I... at) {
  vtb_emu_thread *t = vtb_emu_self();
  const int place[] = {at...};
  void *target = vtb_emu_reaching(to, vtb_emu_box_bytes(map));
  t->api->tma(t, target, &map.of, vtb_emu_reaching(bar, 8), place, sizeof...(at), 0);
}
template <class P, class... I>
VTB_FN void vtb_tma_store(const vtb_map &map, const P &from, I... at) {
  vtb_emu_thread *t = vtb_emu_self();
  const int place[] = {at...};
  t->api->tma(t, (void *)vtb_emu_reaching(from, vtb_emu_box_bytes(map)), &map.of, nullptr, place,
              sizeof...(at), 0);
}
VTB_FN void vtb_tma_commit() {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->tma_commit(t);
}
template <int left> VTB_FN void vtb_tma_wait() {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->tma_wait(t, left);
}

// ---- clusters -----------------------------------------------------------------------------------
VTB_FN int vtb_cluster_rank() { return vtb_emu_self()->rank; }
VTB_FN void vtb_cluster_arrive(VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->cluster_arrive(t, VTB_EMU_PLACE("vtb_cluster_arrive"));
}
VTB_FN void vtb_cluster_wait(VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->cluster_wait(t, VTB_EMU_PLACE("vtb_cluster_wait"));
}
VTB_FN void vtb_cluster_sync(VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->cluster_arrive(t, VTB_EMU_PLACE("vtb_cluster_sync"));
  t->api->cluster_wait(t, VTB_EMU_PLACE("vtb_cluster_sync"));
}
VTB_FN long vtb_emu_to_rank(int rank) { // bytes to the same place of another block
  vtb_emu_thread *t = vtb_emu_self();
  if (rank < 0 || rank >= t->cluster) vtb_emu_fail("no block of the cluster has this rank");
  return (rank - t->rank) * VTB_EMU_SHARED_STRIDE;
}
#ifdef VTB_EMU_CHECKED
template <class T>
VTB_FN vtb_emu_pointer<T> vtb_emu_of_rank(const vtb_emu_pointer<T> &p, int rank) {
  const long by = vtb_emu_to_rank(rank);
  if (!p.shared) vtb_emu_fail("memory that is not shared");
  return vtb_emu_pointer<T>{(T *)((char *)p.at + by), (T *)((char *)p.lo + by),
                            (T *)((char *)p.hi + by), true};
}
#else
template <class T> VTB_FN T *vtb_emu_of_rank(T *p, int rank) {
  return (T *)((char *)p + vtb_emu_to_rank(rank));
}
#endif
template <class B> VTB_FN void vtb_mbar_arrive_at(const B &bar, int rank) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->mbar_arrive(t, vtb_emu_reaching(vtb_emu_of_rank(bar, rank), 8), 0);
}
template <class B> VTB_FN void vtb_mbar_free_at(const B &bar, int rank) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->mbar_arrive(t, vtb_emu_reaching(vtb_emu_of_rank(bar, rank), 8), VTB_EMU_FREES);
}
template <class B> VTB_FN void vtb_mbar_wait_free(const B &bar, int parity, VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->mbar_wait(t, vtb_emu_reaching(bar, 8), parity, VTB_EMU_OF_READS,
                    VTB_EMU_PLACE("vtb_mbar_wait_free"));
}
template <class B> VTB_FN void vtb_mbar_wait_cluster(const B &bar, int parity, VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->mbar_wait(t, vtb_emu_reaching(bar, 8), parity, VTB_EMU_OF_CLUSTER,
                    VTB_EMU_PLACE("vtb_mbar_wait_cluster"));
}
template <class P, class B, class... I>
VTB_FN void vtb_tma_load_to(unsigned blocks, const P &to, const vtb_map &map, const B &bar,
                            I... at) {
  vtb_emu_thread *t = vtb_emu_self();
  const int place[] = {at...};
  void *target = vtb_emu_reaching(to, vtb_emu_box_bytes(map));
  if (!blocks) vtb_emu_fail("a copy to no block");
  t->api->tma(t, target, &map.of, vtb_emu_reaching(bar, 8), place, sizeof...(at), blocks);
}
template <class P> VTB_FN float vtb_cluster_load(const P &p, int at, int rank) {
  return *vtb_emu_raw_read(vtb_emu_of_rank(p, rank), at, 1);
}
template <class P> VTB_FN vtb_f4 vtb_cluster_load4(const P &p, int at, int rank) {
  return vtb_load4(vtb_emu_of_rank(p, rank), at);
}
template <class P> VTB_FN void vtb_cluster_store(const P &p, int at, int rank, float v) {
  *vtb_emu_raw_write(vtb_emu_of_rank(p, rank), at, 1) = v;
}
template <class P> VTB_FN void vtb_cluster_store4(const P &p, int at, int rank, vtb_f4 v) {
  vtb_store4(vtb_emu_of_rank(p, rank), at, v);
}
template <class P, class B, class V>
VTB_FN void vtb_emu_send(const P &p, int at, int rank, V v, const B &bar) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->send(t, vtb_emu_reaching(vtb_emu_of_rank(p, rank) + at, sizeof v), &v, sizeof v,
               vtb_emu_reaching(vtb_emu_of_rank(bar, rank), 8));
}
template <class P, class B>
VTB_FN void vtb_cluster_send(const P &p, int at, int rank, float v, const B &bar) {
  vtb_emu_send(p, at, rank, v, bar);
}
template <class P, class B>
VTB_FN void vtb_cluster_send4(const P &p, int at, int rank, vtb_f4 v, const B &bar) {
  vtb_emu_send(p, at, rank, v, bar);
}

// ---- parts of a block ---------------------------------------------------------------------------
VTB_FN void vtb_sync_part(int number, int threads, VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->sync_part(t, number, threads, VTB_EMU_PLACE("vtb_sync_part"));
}
template <int n> VTB_FN void vtb_emu_registers(int up, vtb_emu_place at) {
  static_assert(n >= 24 && n <= 256 && n % 8 == 0, "registers of setmaxnreg");
  vtb_emu_thread *t = vtb_emu_self();
  t->api->collective(t, 0xffffffffu, at, t->api->nothing);
  t->api->registers(t, n, up, at);
}
template <int n> VTB_FN void vtb_registers_down(VTB_EMU_HERE) {
  vtb_emu_registers<n>(0, VTB_EMU_PLACE("vtb_registers_down"));
}
template <int n> VTB_FN void vtb_registers_up(VTB_EMU_HERE) {
  vtb_emu_registers<n>(1, VTB_EMU_PLACE("vtb_registers_up"));
}

// ---- wgmma --------------------------------------------------------------------------------------
template <int SWIZZLE, class P> VTB_FN vtb_u64 vtb_wgmma_tile(const P &tile, int lead, int stride) {
  static_assert(SWIZZLE == 128 || SWIZZLE == 64 || SWIZZLE == 32, "bytes of a swizzle");
  const vtb_u64 at = (vtb_u64)((const char *)vtb_emu_reaching(tile, 2) - vtb_emu_self()->shared +
                               VTB_EMU_SHARED_AT);
  return (at >> 4 & 0x3fff) | (vtb_u64)(lead >> 4) << 16 | (vtb_u64)(stride >> 4) << 32 |
         (vtb_u64)(SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : 3) << 62;
}
VTB_FN void vtb_wgmma_fence(VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->wgmma_fence(t, VTB_EMU_PLACE("vtb_wgmma_fence"));
}
VTB_FN void vtb_wgmma_commit(VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->wgmma_commit(t, VTB_EMU_PLACE("vtb_wgmma_commit"));
}
template <int left> VTB_FN void vtb_wgmma_wait(VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->wgmma_wait(t, left, VTB_EMU_PLACE("vtb_wgmma_wait"));
}
template <int N, bool HALF, bool A_MN, bool B_MN>
VTB_FN void vtb_wgmma(float (&d)[N / 2], vtb_u64 a, vtb_u64 b, int add, VTB_EMU_HERE) {
  static_assert(N % 8 == 0 && N >= 8 && N <= 256, "columns of a wgmma");
  vtb_emu_thread *t = vtb_emu_self();
  const vtb_emu_wgmma op = {a, b, nullptr, d, N, HALF, A_MN, B_MN, add != 0};
  t->api->wgmma(t, &op, VTB_EMU_PLACE("vtb_wgmma"));
}
template <int N, bool HALF, bool B_MN>
VTB_FN void vtb_wgmma_rows(float (&d)[N / 2], const vtb_u32 (&a)[4], vtb_u64 b, int add,
                           VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  const vtb_emu_wgmma op = {0, b, a, d, N, HALF, false, B_MN, add != 0};
  t->api->wgmma(t, &op, VTB_EMU_PLACE("vtb_wgmma_rows"));
}
