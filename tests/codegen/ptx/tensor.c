/* Tensor cores: mma.sync, wgmma. Sums are exact where the tests' numbers are small integers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/codegen/ptx/ptx.h"

#define M ptx_the_machine

/* ---- mma.sync -------------------------------------------------------------------------------- */

typedef enum type { BF16, F16, TF32 } type;
static type type_of(const ptx_instruction *i) {
  const char *a = i->word[i->n_words - 3], *b = i->word[i->n_words - 2];
  if (strncmp(i->word[0], "wgmma", 5) == 0)
    a = i->word[i->n_words - 2], b = i->word[i->n_words - 1];
  if (strcmp(a, b) != 0) ptx_fault("factors of two types");
  return *a == 't' ? TF32 : *a == 'f' ? F16 : BF16;
}

/* The k-th number in registers of a fragment. */
static double number_in(ptx_thread *t, const ptx_arg *a, int k, type what) {
  if (what == TF32) {
    uint32_t bits = (uint32_t)ptx_get(t, &a->item[k], 4) & ~0x1fffu;
    float v;
    memcpy(&v, &bits, 4);
    return (double)v;
  }
  uint32_t pair = (uint32_t)ptx_get(t, &a->item[k / 2], 4);
  return ptx_decode16(pair >> k % 2 * 16 & 0xffff, what == F16);
}

/* Where it belongs, as the manual's tables have it: groups of four lanes, of which a register holds
 * one number (tf32) or two neighbours. */
static void place_in_a(int lane, int k, type what, int *row, int *col) {
  int per = what == TF32 ? 1 : 2, reg = k / per;
  *row = lane / 4 + (reg % 2 ? 8 : 0);
  *col = lane % 4 * per + k % per + (reg / 2) * 4 * per;
}
static void place_in_b(int lane, int k, type what, int *row, int *col) {
  int per = what == TF32 ? 1 : 2;
  *row = lane % 4 * per + k % per + k / per * 4 * per;
  *col = lane / 4;
}

void ptx_mma(ptx_thread *const *lane, const ptx_instruction *i) {
  static double a[16][16], b[16][8];
  type what = type_of(i);
  int depth = strcmp(i->word[3], "m16n8k16") == 0 ? 16 : 8, per = what == TF32 ? 1 : 2;
  int n_a = depth / 2, n_b = depth / 4;
  if (what == TF32 && depth == 16) ptx_fault("k of 16 in tf32");
  if (i->arg[0].n != 4 || i->arg[3].n != 4 || i->arg[1].n != n_a / per || i->arg[2].n != n_b / per)
    ptx_fault("fragments of other shapes");
  for (int l = 0; l < PTX_WARP; l++) {
    int row, col;
    for (int k = 0; k < n_a; k++) {
      place_in_a(l, k, what, &row, &col);
      a[row][col] = number_in(lane[l], &i->arg[1], k, what);
    }
    for (int k = 0; k < n_b; k++) {
      place_in_b(l, k, what, &row, &col);
      b[row][col] = number_in(lane[l], &i->arg[2], k, what);
    }
  }
  for (int l = 0; l < PTX_WARP; l++) {
    float d[4];
    for (int e = 0; e < 4; e++) {
      int row = l / 4 + (e >= 2 ? 8 : 0), col = l % 4 * 2 + e % 2;
      double sum = (double)ptx_get_float(lane[l], &i->arg[3].item[e]);
      for (int k = 0; k < depth; k++) sum += a[row][k] * b[k][col];
      d[e] = (float)sum;
    }
    for (int e = 0; e < 4; e++) ptx_set_float(lane[l], &i->arg[0].item[e], d[e]);
  }
}

/* ---- wgmma: factors in shared memory --------------------------------------------------------- */

/* A matrix descriptor. Shared memory is addressed in units of 16 bytes (8 numbers). */
typedef struct descriptor {
  int start, lead, stride, base, row_units; /* row_units: 8, 4, 2 by the swizzle; 1: none */
} descriptor;

static descriptor decode(uint64_t d) {
  static const int units[] = {1, 8, 4, 2};
  if (d & (3ull << 14 | 3ull << 30 | 7ull << 46 | 0x3ffull << 52))
    ptx_fault("a descriptor with bits of no field");
  return (descriptor){(int)(d & 0x3fff), (int)(d >> 16 & 0x3fff), (int)(d >> 32 & 0x3fff),
                      (int)(d >> 49 & 7), units[d >> 62]};
}

/* The unit that holds number k of row r (of A, or of B's columns), and which of its eight that is.
 * Eight rows (eight k, if neighbours follow the rows) are `stride` from the next eight, a swizzle's
 * width of the other axis `lead`. */
static int unit_of(const descriptor *d, bool across, int r, int k, int *which) {
  *which = across ? r % 8 : k % 8;
  if (!across) {
    int unit = d->row_units == 1 ? k / 8 * d->lead : k / 8;
    return r % 8 * d->row_units + r / 8 * d->stride + unit;
  }
  int unit = r / 8;
  if (d->row_units == 1) return unit * d->stride + k % 8 + k / 8 * d->lead;
  return unit % d->row_units + unit / d->row_units * d->lead + k % 8 * d->row_units +
         k / 8 * d->stride;
}

static unsigned number_at(int block, const descriptor *d, bool across, int r, int k) {
  int which, address = (d->start + unit_of(d, across, r, k, &which)) * 16;
  if (d->row_units > 1)
    address = ptx_turned(address - d->base * 128, 16 * d->row_units) + d->base * 128;
  address += which * 2 - PTX_SHARED_AT;
  if (address < 0 || address + 2 > PTX_SHARED_BYTES) ptx_fault("a factor outside of shared memory");
  uint16_t v;
  memcpy(&v, M.block[block].async + address, 2);
  return v;
}

/* ---- wgmma ----------------------------------------------------------------------------------- */

typedef struct product { /* a warp's 16 rows of it */
  int n, first_row;
  type what;
  bool a_across, b_across, add, a_in_registers;
  int a_sign, b_sign;
  descriptor a, b;
  double rows[16][16];
  float d[16][256];
  float *registers[PTX_WARP][128];
} product;

/* Place of the e-th accumulator of a lane. */
static float *sum_of(product *p, int lane, int e) {
  return &p->d[lane / 4 + e / 2 % 2 * 8][e / 4 * 8 + lane % 4 * 2 + e % 2];
}

static ptx_later *next_on(const ptx_later *l, const product *p) {
  for (ptx_later *n = l ? l->next : M.later; n; n = n->next)
    if (n->queue == 'w' && ((product *)n->state)->registers[0][0] == p->registers[0][0]) return n;
  return NULL;
}

/* The sums go to the next product on the same registers, or into them. */
static void hand_on(const ptx_later *l, product *p) {
  const ptx_later *next = next_on(l, p);
  if (next) {
    product *q = next->state;
    if (q->n != p->n) ptx_fault("registers of another product");
    if (q->add) memcpy(q->d, p->d, sizeof q->d);
    return;
  }
  for (int lane = 0; lane < PTX_WARP; lane++)
    for (int e = 0; e < p->n / 2; e++) *p->registers[lane][e] = *sum_of(p, lane, e);
}

static void product_happens(ptx_later *l) {
  static double a[16][16], b[16][256];
  product *p = l->state;
  int block = l->by->rank;
  bool half = p->what == F16;
  for (int r = 0; r < 16; r++)
    for (int k = 0; k < 16; k++)
      a[r][k] = p->a_in_registers
                    ? p->rows[r][k]
                    : ptx_decode16(number_at(block, &p->a, p->a_across, p->first_row + r, k), half);
  for (int k = 0; k < 16; k++)
    for (int c = 0; c < p->n; c++)
      b[k][c] = ptx_decode16(number_at(block, &p->b, p->b_across, c, k), half);
  for (int r = 0; r < 16; r++)
    for (int c = 0; c < p->n; c++) {
      double sum = p->add ? (double)p->d[r][c] : 0;
      for (int k = 0; k < 16; k++) sum += p->a_sign * p->b_sign * a[r][k] * b[k][c];
      p->d[r][c] = (float)sum;
    }
  hand_on(l, p);
}

static void take_registers(ptx_thread *const *lane, const ptx_instruction *i, product *p) {
  for (int l = 0; l < PTX_WARP; l++)
    for (int e = 0; e < p->n / 2; e++) {
      const ptx_item *item = &i->arg[0].item[e];
      *sum_of(p, l, e) = ptx_get_float(lane[l], item);
      p->registers[l][e] = lane[l]->operands[item->number].at;
    }
}

static void poison(const product *p) {
  for (int l = 0; l < PTX_WARP; l++)
    for (int e = 0; e < p->n / 2; e++) *p->registers[l][e] = NAN;
}

static void read_rows(ptx_thread *const *lane, const ptx_arg *a, product *p) {
  int row, col;
  p->a_in_registers = true;
  if (a->n != 4) ptx_fault("%d registers of a factor", a->n);
  for (int l = 0; l < PTX_WARP; l++)
    for (int k = 0; k < 8; k++) {
      place_in_a(l, k, p->what, &row, &col);
      p->rows[row][col] = number_in(lane[l], a, k, p->what);
    }
}

static int one_of(ptx_thread *const *lane, const ptx_item *i, int low, int high) {
  int64_t v = (int64_t)ptx_get(lane[0], i, 4);
  for (int l = 1; l < PTX_WARP; l++)
    if ((int64_t)ptx_get(lane[l], i, 4) != v) ptx_fault("threads of a warp with different numbers");
  if (v < low || v > high || (low < 0 && !v)) ptx_fault("an immediate of %d", (int)v);
  return (int)v;
}

/* d, a, b, p, sign of a, sign of b, (a is across,) b is across */
void ptx_wgmma(ptx_thread *const *lane, const ptx_instruction *i) {
  int n = 0, given = sscanf(i->word[4], "m64n%dk16", &n), last = i->n_args - 1;
  if (given != 1 || strcmp(strchr(i->word[4], 'k'), "k16") != 0 || n < 8 || n > 256 || n % 8)
    ptx_fault("no shape %s", i->word[4]);
  if (i->arg[0].n != n / 2 || i->arg[1].is_list == (i->n_args == 8))
    ptx_fault("arguments of another shape");
  if (!lane[0]->fenced) ptx_fault("no wgmma.fence since the last wait");
  product *p = calloc(1, sizeof *p);
  p->n = n;
  p->what = type_of(i);
  p->first_row = lane[0]->id / PTX_WARP % 4 * 16;
  if (i->arg[1].is_list)
    read_rows(lane, &i->arg[1], p);
  else
    p->a = decode(ptx_get(lane[0], i->arg[1].item, 8)),
    p->a_across = one_of(lane, i->arg[6].item, 0, 1);
  p->b = decode(ptx_get(lane[0], i->arg[2].item, 8));
  p->b_across = one_of(lane, i->arg[last].item, 0, 1);
  p->add = ptx_get(lane[0], i->arg[3].item, 1) != 0;
  p->a_sign = one_of(lane, i->arg[4].item, -1, 1);
  p->b_sign = one_of(lane, i->arg[5].item, -1, 1);
  take_registers(lane, i, p);
  poison(p);
  ptx_put_off(lane[0], product_happens, 'w', p);
}

void ptx_wgmma_fence(ptx_thread *const *lane, const ptx_instruction *i) {
  (void)i;
  for (int l = 0; l < PTX_WARP; l++) lane[l]->fenced = true;
}

void ptx_wgmma_commit(ptx_thread *const *lane, const ptx_instruction *i) {
  (void)i;
  lane[0]->groups['w']++;
}

void ptx_wgmma_wait(ptx_thread *const *lane, const ptx_instruction *i) {
  ptx_wait_groups(lane[0], 'w', one_of(lane, i->arg[0].item, 0, 7));
  for (int l = 0; l < PTX_WARP; l++) lane[l]->fenced = false;
}
