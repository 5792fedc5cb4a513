/* Instructions of registers alone: conversions, pairs of 16 bits, predicates. */
#include <math.h>
#include <string.h>

#include "tests/codegen/ptx/ptx.h"

double ptx_round(double v, int bits, int least, ptx_rounding how) {
  if (v == 0 || !isfinite(v)) return v;
  int e = ilogb(v) < least ? least : ilogb(v);
  double unit = ldexp(1, e - bits + 1), q = v / unit;
  return (how == PTX_EVEN ? nearbyint(q) : how == PTX_AWAY ? round(q) : trunc(q)) * unit;
}

typedef struct format16 {
  int bits, least, most; /* of the significand, exponents */
} format16;
static const format16 bf16 = {8, -126, 127}, f16 = {11, -14, 15};

double ptx_decode16(unsigned v, bool half) {
  const format16 *f = half ? &f16 : &bf16;
  int fraction = f->bits - 1, e = (int)(v >> fraction & (half ? 31 : 255));
  double m = (double)(v & ((1u << fraction) - 1)), sign = v >> 15 & 1 ? -1 : 1;
  if (e == (half ? 31 : 255)) return m != 0 ? (double)NAN : sign * (double)INFINITY;
  if (e) m += ldexp(1, fraction);
  return sign * ldexp(m, (e ? e + f->least - 1 : f->least) - fraction);
}

unsigned ptx_encode16(double v, bool half) {
  const format16 *f = half ? &f16 : &bf16;
  int fraction = f->bits - 1;
  if (isnan(v)) return 0x7fff;
  unsigned sign = signbit(v) ? 0x8000 : 0;
  double r = fabs(ptx_round(v, f->bits, f->least, PTX_EVEN));
  if (r > ldexp(2 - ldexp(1, -fraction), f->most)) return sign | (half ? 31u : 255u) << fraction;
  if (r < ldexp(1, f->least)) return sign | (unsigned)ldexp(r, fraction - f->least);
  int e = ilogb(r);
  return sign | (((unsigned)(e - f->least + 1) << fraction) +
                 ((unsigned)ldexp(r, fraction - e) - (1u << fraction)));
}

/* d = {a, b}: b is the low half. */
void ptx_cvt_x2(ptx_thread *t, const ptx_instruction *i) {
  bool half = ptx_has(i, "f16x2");
  unsigned high = ptx_encode16((double)ptx_get_float(t, i->arg[1].item), half);
  unsigned low = ptx_encode16((double)ptx_get_float(t, i->arg[2].item), half);
  ptx_set(t, i->arg[0].item, 4, high << 16 | low);
}

void ptx_cvt_f32_f16(ptx_thread *t, const ptx_instruction *i) {
  double v = ptx_decode16((unsigned)ptx_get(t, i->arg[1].item, 2), true);
  ptx_set_float(t, i->arg[0].item, (float)v);
}

void ptx_cvt_tf32(ptx_thread *t, const ptx_instruction *i) {
  float v = ptx_get_float(t, i->arg[1].item);
  double r = ptx_round((double)v, 11, -126, ptx_has(i, "rna") ? PTX_AWAY : PTX_EVEN);
  uint32_t bits = 0x7fffffff;
  v = (float)r; /* too large: infinity */
  if (!isnan(v)) memcpy(&bits, &v, 4);
  ptx_set(t, i->arg[0].item, 4, bits);
}

void ptx_cvt_s32(ptx_thread *t, const ptx_instruction *i) {
  double v = (double)ptx_get_float(t, i->arg[1].item);
  v = ptx_has(i, "rzi")   ? trunc(v)
      : ptx_has(i, "rmi") ? floor(v)
      : ptx_has(i, "rpi") ? ceil(v)
                          : nearbyint(v);
  int r = isnan(v) ? 0 : v > 2147483647.0 ? 2147483647 : v < -2147483648.0 ? INT32_MIN : (int)v;
  ptx_set(t, i->arg[0].item, 4, (uint32_t)r);
}

/* a b + c of numbers of 16 bits, in a form that rounds to 16 bits as the exact sum does: the last
 * bit of the sum in double says whether something is left below it. */
static double exact_fma(double a, double b, double c) {
  double p = a * b, s = p + c;
  if (!isfinite(s)) return s;
  double from_p = s - c, rest = (p - from_p) + (c - (s - from_p));
  uint64_t bits;
  memcpy(&bits, &s, 8);
  if (rest == 0 || bits & 1) return s;
  return nextafter(s, rest > 0 ? (double)INFINITY : -(double)INFINITY);
}

static unsigned pairs(unsigned a, unsigned b, unsigned c, bool half) {
  unsigned r = 0;
  for (int k = 0; k < 32; k += 16) {
    double v = exact_fma(ptx_decode16(a >> k & 0xffff, half), ptx_decode16(b >> k & 0xffff, half),
                         ptx_decode16(c >> k & 0xffff, half));
    r |= ptx_encode16(v, half) << k;
  }
  return r;
}

void ptx_fma_bf16x2(ptx_thread *t, const ptx_instruction *i) {
  unsigned v[3];
  for (int k = 0; k < 3; k++) v[k] = (unsigned)ptx_get(t, i->arg[k + 1].item, 4);
  ptx_set(t, i->arg[0].item, 4, pairs(v[0], v[1], v[2], ptx_has(i, "f16x2")));
}

void ptx_mul_f16x2(ptx_thread *t, const ptx_instruction *i) {
  unsigned a = (unsigned)ptx_get(t, i->arg[1].item, 4), b = (unsigned)ptx_get(t, i->arg[2].item, 4);
  ptx_set(t, i->arg[0].item, 4, pairs(a, b, 0x80008000u, ptx_has(i, "f16x2")));
}

/* +0 is larger than -0. */
void ptx_extreme(ptx_thread *t, const ptx_instruction *i) {
  float a = ptx_get_float(t, i->arg[1].item), b = ptx_get_float(t, i->arg[2].item), r;
  bool less = a < b || (a == b && signbit(a));
  if (isnan(a) || isnan(b))
    r = ptx_has(i, "NaN") || (isnan(a) && isnan(b)) ? NAN : isnan(a) ? b : a;
  else
    r = less == ptx_has(i, "max") ? b : a;
  ptx_set_float(t, i->arg[0].item, r);
}

void ptx_ex2(ptx_thread *t, const ptx_instruction *i) {
  ptx_set_float(t, i->arg[0].item, (float)exp2((double)ptx_get_float(t, i->arg[1].item)));
}

void ptx_rcp(ptx_thread *t, const ptx_instruction *i) {
  ptx_set_float(t, i->arg[0].item, (float)(1 / (double)ptx_get_float(t, i->arg[1].item)));
}

void ptx_setp(ptx_thread *t, const ptx_instruction *i) {
  uint32_t a = (uint32_t)ptx_get(t, i->arg[1].item, 4), b = (uint32_t)ptx_get(t, i->arg[2].item, 4);
  int64_t x = ptx_has(i, "u32") ? (int64_t)a : (int64_t)(int32_t)a;
  int64_t y = ptx_has(i, "u32") ? (int64_t)b : (int64_t)(int32_t)b;
  const char *how = i->word[1];
  bool less = how[0] == 'l' ? x < y : how[0] == 'g' && x > y;
  bool equal = strcmp(how, "eq") == 0 || (how[0] != 'n' && how[1] == 'e');
  ptx_set(t, i->arg[0].item, 1, strcmp(how, "ne") == 0 ? x != y : less || (equal && x == y));
}

void ptx_selp(ptx_thread *t, const ptx_instruction *i) {
  bool p = ptx_get(t, i->arg[3].item, 1) != 0;
  ptx_set(t, i->arg[0].item, 4, ptx_get(t, i->arg[p ? 1 : 2].item, 4));
}

void ptx_mov(ptx_thread *t, const ptx_instruction *i) {
  ptx_set(t, i->arg[0].item, 4, ptx_get(t, i->arg[1].item, 4));
}

/* The same place in the block of that rank. */
void ptx_mapa(ptx_thread *t, const ptx_instruction *i) {
  uint64_t at = ptx_get(t, i->arg[1].item, 4), rank = ptx_get(t, i->arg[2].item, 4);
  if (at >> 24) ptx_fault("mapa of an address of another block");
  if (rank >= (uint64_t)ptx_the_machine.launch->cluster) ptx_fault("mapa of rank %d", (int)rank);
  ptx_set(t, i->arg[0].item, 4, (rank + 1) << 24 | at);
}
