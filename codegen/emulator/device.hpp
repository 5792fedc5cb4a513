// The emulator's intrinsics: the names of codegen/cuda/text/intrinsics.cuh on a CPU. What the
// emulator compiles is abi.h, this file, the library and the kernels' text, in this order; nothing
// is included.
//
// With VTB_EMU_CHECKED, pointers are objects that know what they may reach (vtb_emu_pointer), and
// every access to shared memory is reported to the emulator. Without it they are plain pointers.
// VTB_EMU_COUNTED, with VTB_EMU_CHECKED: every access to either memory is reported, for its cost;
// races are not looked for, and tensor cores compute nothing.
typedef unsigned char vtb_u8;
typedef unsigned int vtb_u32;
typedef long long vtb_i64;
typedef unsigned long long vtb_u64;

#define VTB_FN static inline __attribute__((unused))
#define VTB_EMU_INLINE static inline __attribute__((always_inline, unused))
#define VTB_EMULATOR 1
#define VTB_KERNEL(threads, name) extern "C" void name
#define VTB_KERNEL_ROOMY(threads, name) extern "C" void name
#define VTB_KERNEL_PAIRED(threads, name) extern "C" void name
#define VTB_KERNEL_TRIPLE(threads, name) extern "C" void name
#define VTB_UNROLL
#define VTB_NO_UNROLL
#define VTB_EMU_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define VTB_EMU_PLACE(name)                                                                        \
  vtb_emu_place { name, file, line }

VTB_EMU_INLINE vtb_u32 vtb_bits(float v) {
  vtb_u32 r;
  __builtin_memcpy(&r, &v, 4);
  return r;
}
VTB_EMU_INLINE float vtb_float(vtb_u32 bits) {
  float r;
  __builtin_memcpy(&r, &bits, 4);
  return r;
}

// ---- numbers of 16 bits -------------------------------------------------------------------------
VTB_FN vtb_u32 vtb_emu_bf16(float v) { // nearest, ties to even; NaN as the GPU's 0x7fff
  vtb_u32 b = vtb_bits(v);
  return v != v ? 0x7fffu : (b + 0x7fffu + (b >> 16 & 1)) >> 16;
}
VTB_FN vtb_u32 vtb_pack_bf16(float lo, float hi) {
  return vtb_emu_bf16(lo) | vtb_emu_bf16(hi) << 16;
}
// nearest, ties to even; from 65520 on infinity; NaN as the GPU's 0x7fff
VTB_FN vtb_u32 vtb_emu_f16(float v) {
  vtb_u32 b = vtb_bits(v), sign = b >> 16 & 0x8000u, size = b & 0x7fffffffu;
  if (v != v) return 0x7fffu;
  if (size >= 0x477ff000u) return sign | 0x7c00u;
  // the sum's last bit is 2^-24
  if (size < 0x38800000u) return sign | (vtb_bits(vtb_float(size) + 0.5f) - 0x3f000000u);
  return sign | (size + 0xfffu + (size >> 13 & 1) - 0x38000000u) >> 13;
}
VTB_FN vtb_u32 vtb_pack_f16(float lo, float hi) { return vtb_emu_f16(lo) | vtb_emu_f16(hi) << 16; }
VTB_EMU_INLINE float vtb_emu_half(vtb_u32 h) {
  vtb_u32 sign = (h & 0x8000u) << 16, size = h & 0x7fffu;
  if (size < 0x400u) return vtb_float(sign | vtb_bits((float)size * 5.9604644775390625e-8f));
  return vtb_float(sign |
                   (size >= 0x7c00u ? 0x7f800000u | size << 13 : (size << 13) + 0x38000000u));
}
VTB_FN float vtb_from_f16(unsigned short bits) { return vtb_emu_half(bits); }
struct vtb_bf16 {
  unsigned short bits;
  operator float() const { return vtb_float((vtb_u32)bits << 16); }
  void operator=(float v) { bits = (unsigned short)vtb_emu_bf16(v); }
};
struct vtb_f16 {
  unsigned short bits;
  operator float() const { return vtb_from_f16(bits); }
  void operator=(float v) { bits = (unsigned short)vtb_emu_f16(v); }
};

VTB_FN vtb_emu_thread *vtb_emu_self() {
  unsigned long top = ((unsigned long)__builtin_frame_address(0) | (VTB_EMU_STACK - 1)) + 1;
  return (vtb_emu_thread *)(top - sizeof(vtb_emu_thread));
}

// ---- pointers -----------------------------------------------------------------------------------
template <class T> struct vtb_emu_plain { typedef T type; };
template <class T> struct vtb_emu_plain<const T> { typedef T type; };

#ifdef VTB_EMU_CHECKED

VTB_FN void vtb_emu_outside(bool shared, long first, long n, long size) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->outside(t, shared, first, n, size);
}
#ifdef VTB_EMU_COUNTED
VTB_FN void vtb_emu_read(bool shared, const void *p, long n) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->access(t, shared ? VTB_EMU_SHARED_READ : VTB_EMU_READ, p, n);
}
VTB_FN void vtb_emu_write(bool shared, void *p, long n) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->access(t, shared ? VTB_EMU_SHARED_WRITE : VTB_EMU_WRITE, p, n);
}
#else
VTB_EMU_INLINE void vtb_emu_read(bool shared, const void *p, long n) {
  if (!shared) return;
  vtb_emu_thread *t = vtb_emu_self();
  t->api->shared_read(t, p, n);
}
VTB_EMU_INLINE void vtb_emu_write(bool shared, void *p, long n) {
  if (!shared) return;
  vtb_emu_thread *t = vtb_emu_self();
  t->api->shared_write(t, p, n);
}
#endif

// The type of p[i] of a writable pointer: a read where a value is wanted, a write where it is
// assigned to.
template <class T> struct vtb_emu_element {
  T *at;
  bool shared;
  operator T() const {
    vtb_emu_read(shared, at, sizeof(T));
    return *at;
  }
  T operator=(T v) const {
    vtb_emu_write(shared, at, sizeof(T));
    return *at = v;
  }
  T operator=(const vtb_emu_element &v) const { return *this = (T)v; }
  vtb_emu_element(T *p, bool s) : at(p), shared(s) {}
  vtb_emu_element(const vtb_emu_element &) = default;
  template <class V> T operator+=(V v) const { return *this = (T)((T) * this + v); }
  template <class V> T operator-=(V v) const { return *this = (T)((T) * this - v); }
  template <class V> T operator*=(V v) const { return *this = (T)((T) * this * v); }
  template <class V> T operator/=(V v) const { return *this = (T)((T) * this / v); }
};

template <class T> struct vtb_emu_element16 { // of vtb_bf16, vtb_f16
  T *at;
  bool shared;
  operator float() const {
    vtb_emu_read(shared, at, sizeof(T));
    return *at;
  }
  void operator=(float v) const {
    vtb_emu_write(shared, at, sizeof(T));
    *at = v;
  }
  void operator=(const vtb_emu_element16 &v) const { *this = (float)v; }
  vtb_emu_element16(T *p, bool s) : at(p), shared(s) {}
  vtb_emu_element16(const vtb_emu_element16 &) = default;
};
template <> struct vtb_emu_element<vtb_bf16> : vtb_emu_element16<vtb_bf16> {
  using vtb_emu_element16::vtb_emu_element16;
  using vtb_emu_element16::operator=;
};
template <> struct vtb_emu_element<vtb_f16> : vtb_emu_element16<vtb_f16> {
  using vtb_emu_element16::vtb_emu_element16;
  using vtb_emu_element16::operator=;
};

template <class T> struct vtb_emu_pointer {
  T *at, *lo, *hi;
  bool shared;
  // n elements from i on, which the caller reads or writes
  T *reach(vtb_i64 i, long n) const {
    T *p = (T *)((unsigned long)at + (unsigned long)i * sizeof(T));
    if (__builtin_expect(p < lo || (unsigned long)p + n * sizeof(T) > (unsigned long)hi, 0))
      vtb_emu_outside(shared, (char *)p - (char *)lo, n * (long)sizeof(T), (char *)hi - (char *)lo);
    return p;
  }
  const T *reading(vtb_i64 i, long n) const {
    T *p = reach(i, n);
    vtb_emu_read(shared, p, n * (long)sizeof(T));
    return p;
  }
  T *writing(vtb_i64 i, long n) const {
    T *p = reach(i, n);
    vtb_emu_write(shared, (void *)p, n * (long)sizeof(T));
    return p;
  }
  vtb_emu_element<T> operator[](vtb_i64 i) const { return vtb_emu_element<T>(reach(i, 1), shared); }
  vtb_emu_pointer operator+(vtb_i64 i) const {
    return vtb_emu_pointer{(T *)((unsigned long)at + (unsigned long)i * sizeof(T)), lo, hi, shared};
  }
  vtb_emu_pointer operator-(vtb_i64 i) const { return *this + -i; }
  vtb_emu_pointer &operator+=(vtb_i64 i) { return *this = *this + i; }
  operator vtb_emu_pointer<const T>() const { return vtb_emu_pointer<const T>{at, lo, hi, shared}; }
};
template <class T> struct vtb_emu_pointer<const T> {
  const T *at, *lo, *hi;
  bool shared;
  const T *reach(vtb_i64 i, long n) const {
    const T *p = (const T *)((unsigned long)at + (unsigned long)i * sizeof(T));
    if (__builtin_expect(p < lo || (unsigned long)p + n * sizeof(T) > (unsigned long)hi, 0))
      vtb_emu_outside(shared, (const char *)p - (const char *)lo, n * (long)sizeof(T),
                      (const char *)hi - (const char *)lo);
    return p;
  }
  const T *reading(vtb_i64 i, long n) const {
    const T *p = reach(i, n);
    vtb_emu_read(shared, p, n * (long)sizeof(T));
    return p;
  }
  T operator[](vtb_i64 i) const { return *reading(i, 1); }
  vtb_emu_pointer operator+(vtb_i64 i) const {
    return vtb_emu_pointer{(const T *)((unsigned long)at + (unsigned long)i * sizeof(T)), lo, hi,
                           shared};
  }
  vtb_emu_pointer operator-(vtb_i64 i) const { return *this + -i; }
  vtb_emu_pointer &operator+=(vtb_i64 i) { return *this = *this + i; }
};

#define VTB_IN(T) vtb_emu_pointer<const T>
#define VTB_OUT(T) vtb_emu_pointer<T>
#define VTB_PTR(T) vtb_emu_pointer<T>
template <class T> VTB_FN const void *vtb_emu_reading(const vtb_emu_pointer<T> &p, long n_bytes) {
  return p.reading(0, n_bytes / (long)sizeof(T));
}
template <class T> VTB_FN void *vtb_emu_reaching(const vtb_emu_pointer<T> &p, long n_bytes) {
  return (void *)p.reach(0, n_bytes / (long)sizeof(T));
}
template <class T>
VTB_FN const T *vtb_emu_raw_read(const vtb_emu_pointer<T> &p, vtb_i64 at, long n) {
  return p.reading(at, n);
}
template <class T> VTB_FN T *vtb_emu_raw_write(const vtb_emu_pointer<T> &p, vtb_i64 at, long n) {
  return p.writing(at, n);
}
template <class T> VTB_FN vtb_emu_pointer<T> vtb_emu_make(T *begin, T *end, bool shared) {
  return vtb_emu_pointer<T>{begin, begin, end, shared};
}
template <class P> struct vtb_emu_target;
template <class T> struct vtb_emu_target<vtb_emu_pointer<T>> { typedef T type; };

#else

#define VTB_IN(T) const T *
#define VTB_OUT(T) T *
#define VTB_PTR(T) T *
VTB_FN const void *vtb_emu_reading(const void *p, long) { return p; }
template <class T> VTB_FN T *vtb_emu_reaching(T *p, long) { return p; }
template <class T> VTB_FN const T *vtb_emu_raw_read(T *p, vtb_i64 at, long) { return p + at; }
template <class T> VTB_FN T *vtb_emu_raw_write(T *p, vtb_i64 at, long) { return p + at; }
template <class T> VTB_FN T *vtb_emu_make(T *begin, T *, bool) { return begin; }
template <class P> struct vtb_emu_target;
template <class T> struct vtb_emu_target<T *> { typedef T type; };

#endif

// The parts of a kernel's parameter; hopper.hpp has maps.
template <class P> struct vtb_emu_parameter {
  static P make(const vtb_emu_arg &a) {
    typedef typename vtb_emu_target<P>::type T;
    return vtb_emu_make((T *)a.begin, (T *)a.end, false);
  }
};

VTB_FN void vtb_emu_fail(const char *what) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->fail(t, what);
}
VTB_FN const void *vtb_emu_aligned(const void *p, unsigned long n) {
  if (__builtin_expect(((unsigned long)p & (n - 1)) != 0, 0)) vtb_emu_fail("misaligned address");
  return p;
}

template <class T> VTB_FN VTB_PTR(T) vtb_emu_shared(long at, long count) {
  vtb_emu_thread *t = vtb_emu_self();
  if (at < 0 || at % (long)sizeof(T) || at + count * (long)sizeof(T) > t->shared_bytes)
    vtb_emu_fail("a shared array lies outside the launch's shared memory");
  return vtb_emu_make((T *)(t->shared + at), (T *)(t->shared + at) + count, true);
}
#define VTB_SHARED(T, name, at, count) const auto name = vtb_emu_shared<T>(at, count)

// ---- threads ------------------------------------------------------------------------------------
VTB_FN int vtb_tid() { return vtb_emu_self()->tid; }
VTB_FN int vtb_block() { return vtb_emu_self()->block; }
VTB_FN int vtb_lane() { return vtb_emu_self()->tid & 31; }
VTB_FN int vtb_warp() { return vtb_emu_self()->tid >> 5; }
template <class P> VTB_FN P vtb_settled(P p) { return p; }
VTB_FN void vtb_sync(VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->sync(t, VTB_EMU_PLACE("vtb_sync"));
}
VTB_FN void vtb_sync_warp(VTB_EMU_HERE) {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->sync_warp(t, VTB_EMU_PLACE("vtb_sync_warp"));
}

VTB_FN float vtb_emu_shfl(float v, int from, vtb_emu_place at) {
  vtb_emu_thread *t = vtb_emu_self();
  t->in[0] = vtb_bits(v);
  t->in[1] = (unsigned)from;
  t->api->collective(t, 0xffffffffu, at, t->api->shuffle);
  return vtb_float(t->out[0]);
}
VTB_FN float vtb_shfl(float v, int lane, VTB_EMU_HERE) {
  return vtb_emu_shfl(v, lane & 31, VTB_EMU_PLACE("vtb_shfl"));
}
VTB_FN float vtb_shfl_xor(float v, int mask, VTB_EMU_HERE) {
  return vtb_emu_shfl(v, (vtb_lane() ^ mask) & 31, VTB_EMU_PLACE("vtb_shfl_xor"));
}
VTB_FN float vtb_shfl_up(float v, int by, VTB_EMU_HERE) {
  int from = vtb_lane() - by;
  return vtb_emu_shfl(v, from < 0 ? vtb_lane() : from, VTB_EMU_PLACE("vtb_shfl_up"));
}
VTB_FN float vtb_shfl_down(float v, int by, VTB_EMU_HERE) {
  int from = vtb_lane() + by;
  return vtb_emu_shfl(v, from > 31 ? vtb_lane() : from, VTB_EMU_PLACE("vtb_shfl_down"));
}

// ---- vectors of four ----------------------------------------------------------------------------
struct alignas(16) vtb_f4 {
  float x, y, z, w;
};
template <class T> VTB_FN vtb_f4 vtb_emu_load4(const T *p) {
  vtb_emu_aligned(p, 4 * sizeof(T));
  return vtb_f4{p[0], p[1], p[2], p[3]};
}
template <class T> VTB_FN void vtb_emu_store4(T *p, vtb_f4 v) {
  vtb_emu_aligned(p, 4 * sizeof(T));
  p[0] = v.x, p[1] = v.y, p[2] = v.z, p[3] = v.w;
}
template <class P> VTB_FN vtb_f4 vtb_load4(const P &p, vtb_i64 at) {
  return vtb_emu_load4(vtb_emu_raw_read(p, at, 4));
}
template <class P> VTB_FN void vtb_store4(const P &p, vtb_i64 at, vtb_f4 v) {
  vtb_emu_store4(vtb_emu_raw_write(p, at, 4), v);
}

template <class P> VTB_FN void vtb_store4_whole(const P &p, vtb_i64 at, vtb_f4 v) {
  vtb_store4(p, at, v);
}
template <class T> VTB_FN void vtb_emu_store2(T *p, float x, float y) {
  vtb_emu_aligned(p, 2 * sizeof(T));
  p[0] = x, p[1] = y;
}
template <class P> VTB_FN void vtb_store2(const P &p, vtb_i64 at, float x, float y) {
  vtb_emu_store2(vtb_emu_raw_write(p, at, 2), x, y);
}
VTB_FN vtb_u32 vtb_multiply_bf16(vtb_u32 x, vtb_u32 y) {
  return vtb_pack_bf16(vtb_float(x << 16) * vtb_float(y << 16),
                       vtb_float(x & 0xffff0000u) * vtb_float(y & 0xffff0000u));
}
// x + y in a form that rounds to 16 bits as the exact sum does: the last bit is odd if something is
// left below it.
VTB_FN float vtb_emu_odd_sum(float x, float y) {
  float s = x + y, of_x = s - y, rest = (x - of_x) + (y - (s - of_x));
  if (s - s != 0.0f || rest == 0.0f || vtb_bits(s) & 1) return s;
  return vtb_float(vtb_bits(s) + ((rest > 0) == (s > 0) ? 1 : -1));
}
VTB_FN vtb_u32 vtb_fma_bf16(vtb_u32 x, vtb_u32 y, vtb_u32 z) { // products of 16 bits are exact
  const float low = vtb_float(x << 16) * vtb_float(y << 16),
              high = vtb_float(x & 0xffff0000u) * vtb_float(y & 0xffff0000u);
  return vtb_pack_bf16(vtb_emu_odd_sum(low, vtb_float(z << 16)),
                       vtb_emu_odd_sum(high, vtb_float(z & 0xffff0000u)));
}
VTB_FN vtb_u32 vtb_multiply_f16(vtb_u32 x, vtb_u32 y) {
  return vtb_pack_f16(vtb_emu_half(x & 0xffffu) * vtb_emu_half(y & 0xffffu),
                      vtb_emu_half(x >> 16) * vtb_emu_half(y >> 16));
}

// ---- asynchronous copies ------------------------------------------------------------------------
template <class A, class B>
VTB_FN void vtb_emu_cp_async(const A &to, const B &from, bool valid, int n) {
  vtb_emu_thread *t = vtb_emu_self();
  void *target = vtb_emu_reaching(to, n);
  const void *source = valid ? vtb_emu_reading(from, n) : nullptr;
#ifdef VTB_EMU_COUNTED
  vtb_emu_write(true, target, n);
#endif
  vtb_emu_aligned(target, n);
  vtb_emu_aligned(source, n);
  t->api->async_copy(t, target, source, n);
}
template <class A, class B> VTB_FN void vtb_cp_async16(const A &to, const B &from, bool valid) {
  vtb_emu_cp_async(to, from, valid, 16);
}
template <class A, class B> VTB_FN void vtb_cp_async8(const A &to, const B &from, bool valid) {
  vtb_emu_cp_async(to, from, valid, 8);
}
template <class A, class B> VTB_FN void vtb_cp_async4(const A &to, const B &from, bool valid) {
  vtb_emu_cp_async(to, from, valid, 4);
}
VTB_FN void vtb_cp_commit() {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->async_commit(t);
}
template <int left> VTB_FN void vtb_cp_wait() {
  vtb_emu_thread *t = vtb_emu_self();
  t->api->async_wait(t, left);
}

// ---- conversions --------------------------------------------------------------------------------
VTB_FN vtb_u32 vtb_to_tf32(float v) { // nearest, ties away from zero
  vtb_u32 b = vtb_bits(v);
  return v != v ? 0x7fffe000u : (b & 0x7f800000u) == 0x7f800000u ? b : (b + 0x1000u) & 0xffffe000u;
}
VTB_FN int vtb_to_int(float v) {
  return v != v               ? 0
         : v >= 2147483648.0f ? 2147483647
         : v < -2147483648.0f ? -2147483647 - 1
                              : (int)v;
}

// ---- tensor cores: collect.c --------------------------------------------------------------------
VTB_FN void vtb_emu_mma(float (&d)[4], const vtb_u32 (&a)[4], const vtb_u32 (&b)[2],
                        vtb_emu_complete complete, vtb_emu_place at) {
  vtb_emu_thread *t = vtb_emu_self();
  for (int i = 0; i < 4; i++) t->in[i] = vtb_bits(d[i]), t->in[4 + i] = a[i];
  t->in[8] = b[0];
  t->in[9] = b[1];
#ifdef VTB_EMU_COUNTED
  complete = nullptr;
#endif
  t->api->collective(t, 0xffffffffu, at, complete);
  for (int i = 0; i < 4; i++) d[i] = vtb_float((complete ? t->out : t->in)[i]);
}
VTB_FN void vtb_mma_tf32_m16n8k8(float (&d)[4], const vtb_u32 (&a)[4], const vtb_u32 (&b)[2],
                                 VTB_EMU_HERE) {
  vtb_emu_mma(d, a, b, vtb_emu_self()->api->mma_tf32, VTB_EMU_PLACE("vtb_mma_tf32_m16n8k8"));
}
VTB_FN void vtb_mma_bf16_m16n8k16(float (&d)[4], const vtb_u32 (&a)[4], const vtb_u32 (&b)[2],
                                  VTB_EMU_HERE) {
  vtb_emu_mma(d, a, b, vtb_emu_self()->api->mma_bf16, VTB_EMU_PLACE("vtb_mma_bf16_m16n8k16"));
}
VTB_FN void vtb_mma_bf16_m16n8k8(float (&d)[4], vtb_u32 low, vtb_u32 high, vtb_u32 b,
                                 VTB_EMU_HERE) {
  const vtb_u32 a[4] = {low, high, 0, 0}, w[2] = {b, 0};
  vtb_emu_mma(d, a, w, vtb_emu_self()->api->mma_bf16, VTB_EMU_PLACE("vtb_mma_bf16_m16n8k8"));
}
VTB_FN void vtb_mma_f16_m16n8k8(float (&d)[4], vtb_u32 low, vtb_u32 high, vtb_u32 b, VTB_EMU_HERE) {
  const vtb_u32 a[4] = {low, high, 0, 0}, w[2] = {b, 0};
  vtb_emu_mma(d, a, w, vtb_emu_self()->api->mma_f16, VTB_EMU_PLACE("vtb_mma_f16_m16n8k8"));
}
VTB_FN void vtb_mma_f16_m16n8k16(float (&d)[4], const vtb_u32 (&a)[4], const vtb_u32 (&b)[2],
                                 VTB_EMU_HERE) {
  vtb_emu_mma(d, a, b, vtb_emu_self()->api->mma_f16, VTB_EMU_PLACE("vtb_mma_f16_m16n8k16"));
}

template <class P>
VTB_FN void vtb_emu_ldmatrix_x4(vtb_u32 (&d)[4], const P &row, vtb_emu_complete complete,
                                vtb_emu_place at) {
  vtb_emu_thread *t = vtb_emu_self();
  t->address = vtb_emu_aligned(vtb_emu_reading(row, 16), 16);
  t->api->collective(t, 0xffffffffu, at, complete);
  for (int i = 0; i < 4; i++) d[i] = t->out[i];
}
template <class P> VTB_FN void vtb_ldmatrix_x4(vtb_u32 (&d)[4], const P &row, VTB_EMU_HERE) {
  vtb_emu_ldmatrix_x4(d, row, vtb_emu_self()->api->ldmatrix, VTB_EMU_PLACE("vtb_ldmatrix_x4"));
}
template <class P> VTB_FN void vtb_ldmatrix_x4_trans(vtb_u32 (&d)[4], const P &row, VTB_EMU_HERE) {
  vtb_emu_ldmatrix_x4(d, row, vtb_emu_self()->api->ldmatrix_trans,
                      VTB_EMU_PLACE("vtb_ldmatrix_x4_trans"));
}

// ---- mathematics --------------------------------------------------------------------------------
VTB_FN float vtb_exp(float x) { return __builtin_expf(x); }
VTB_FN float vtb_log(float x) { return __builtin_logf(x); }
VTB_FN float vtb_log1p(float x) { return __builtin_log1pf(x); }
VTB_FN float vtb_sqrt(float x) { return __builtin_sqrtf(x); }
VTB_FN double vtb_sqrt64(double x) { return __builtin_sqrt(x); }
VTB_FN double vtb_pow64(double x, double y) { return __builtin_pow(x, y); }
VTB_FN double vtb_exp64(double x) { return __builtin_exp(x); }
VTB_FN double vtb_log64(double x) { return __builtin_log(x); }
VTB_FN double vtb_rint64(double x) { return __builtin_rint(x); }
VTB_FN float vtb_sin(float x) { return __builtin_sinf(x); }
VTB_FN float vtb_cos(float x) { return __builtin_cosf(x); }
VTB_FN float vtb_tanh(float x) { return __builtin_tanhf(x); }
VTB_FN float vtb_erf(float x) { return __builtin_erff(x); }
VTB_FN float vtb_floor(float x) { return __builtin_floorf(x); }
VTB_FN float vtb_round(float x) { return __builtin_rintf(x); }
VTB_FN float vtb_expm1(float x) { return __builtin_expm1f(x); }
VTB_FN float vtb_atan2(float x, float y) { return __builtin_atan2f(x, y); }
VTB_FN float vtb_abs(float x) { return __builtin_fabsf(x); }
VTB_FN float vtb_fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
VTB_FN float vtb_max(float x, float y) { return x != x || x > y ? x : y; }
VTB_FN float vtb_min(float x, float y) { return x != x || x < y ? x : y; }
VTB_FN float vtb_exp2_fast(float x) { return __builtin_exp2f(x); }
VTB_FN float vtb_rcp_fast(float x) { return 1.0f / x; }

// ---- how the emulator calls a kernel ------------------------------------------------------------
template <int... i> struct vtb_emu_numbers {};
template <int n, int... i> struct vtb_emu_count : vtb_emu_count<n - 1, n - 1, i...> {};
template <int... i> struct vtb_emu_count<0, i...> { typedef vtb_emu_numbers<i...> type; };
template <class... P, int... i>
VTB_FN void vtb_emu_call(void (*kernel)(P...), const vtb_emu_arg *args, vtb_emu_numbers<i...>) {
  kernel(vtb_emu_parameter<P>::make(args[i])...);
}
template <class... P> VTB_FN int vtb_emu_invoke(void (*kernel)(P...), const vtb_emu_arg *args) {
  if (args) vtb_emu_call(kernel, args, typename vtb_emu_count<sizeof...(P)>::type());
  return (int)sizeof...(P);
}
// Runs one thread; without arguments it only tells how many the kernel takes.
#define VTB_EMU_ENTRY(name)                                                                        \
  extern "C" __attribute__((visibility("default"))) int                                            \
  vtb_emu_run_##name(const vtb_emu_arg *args) {                                                    \
    return vtb_emu_invoke(name, args);                                                             \
  }
