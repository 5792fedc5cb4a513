/* Rows of x, brought to 8 bits each by its own scale, times a matrix that is (ir/int8.h):
 *
 *   y[r, c] = (sum over k of q[r, k] w[c, k]) scale[r] scale[c] + add[r, c]
 *
 * The sums are of integers, and exact: nothing follows from how rows are tiled or what instructions
 * add them. First all rows are brought to 8 bits, then tiles of ROWS_AT x VECTORS registers walk
 * along k. `dot` adds to the lanes of a register what four numbers of a row make with those of as
 * many columns: where one instruction does it for bytes, of which the row's have no sign, ACROSS
 * lanes are W columns; else numbers of the row are stored in 16 bits, and two lanes are a column.
 */
#include "codegen/cpu/text/int8.h"

hole long ROWS, K, COLUMNS, RANK, SIZE[MOST_AXES]; /* of the result, whose last axis has COLUMNS */
hole long ROWS_AT, VECTORS;                        /* a tile of registers */
hole long UNSIGNED;                                /* bytes without sign: 128 more than they are */
hole long ADDS, ADD_STRIDE[MOST_AXES];             /* of the result's axes */
vi dot(vi sums, const char *row, const signed char *columns);

enum { X, NUMBERS, SCALES, SUMS, ADD, PANEL = 16, GROUP = 4, MOST_ROWS = 12, MOST_VECTORS = 4 };
#define Y (4 + ADDS)
#define ACROSS (UNSIGNED ? W : W / 2) /* columns of a register */
#define WIDTH (UNSIGNED ? 1 : 2)      /* bytes of a number of a row */
#define TILE_COLUMNS (VECTORS * ACROSS)
#define TILES pieces(COLUMNS, TILE_COLUMNS)
#define LD (round_up(K, 64) * WIDTH + 64)
#define STORED round_up(ROWS, ROWS_AT)
/* Rows of a task: what it reads of them stays in the second cache. */
#define BLOCK round_up(pieces(ROWS, pieces(ROWS, 112)), ROWS_AT)
#define BLOCKS pieces(ROWS, BLOCK)

typedef char bytes __attribute__((ext_vector_type(VTB_W), aligned(1)));
typedef short words __attribute__((ext_vector_type(VTB_W), aligned(2)));

/* Where a row of a tensor with these strides is. */
static inline long row_at(long row, const long *stride) {
  long at = 0;
  UNROLL for (int a = MOST_AXES - 2; a >= 0; a--) if (a < RANK - 1) {
    at += remainder(row, SIZE[a]) * stride[a];
    row = quotient(row, SIZE[a]);
  }
  return at;
}

static inline char *row_of(char *temp, long row) { return temp + row * LD; }
static inline float *scale_at(char *temp, long row) { return (float *)row_of(temp, STORED) + row; }

long temp_bytes(void) { return STORED * (LD + (long)sizeof(float)); }

TASK(rows, ROWS, 8, 0) {
  const float *x = t[X] + row_at(index, STRIDE[X]);
  const float scale = scale_of(largest(x, K)), inverse = inverse_of(scale);
  char *to = row_of(temp, index);
  *scale_at(temp, index) = scale;
  for (long k = 0; k < K; k += W) {
    const vi q = rounded(load_least(x + k, K - k), inverse) + (UNSIGNED ? 128 : 0);
    if (UNSIGNED)
      *(bytes *)(to + k) = __builtin_convertvector(q, bytes);
    else
      *(words *)(to + 2 * k) = __builtin_convertvector(q, words);
  }
}

typedef struct tile {
  float *const *t;
  char *temp;
  long row, column;
} tile;

/* W columns of one row, of the registers that have their sums. */
static inline void put(const tile *at, long i, long column, vi sums) {
  const long row = at->row + i, left = COLUMNS - column;
  const float *scales = at->t[SCALES] + column;
  vf y = __builtin_convertvector(sums, vf) * (load(scales) * *scale_at(at->temp, row));
  if (ADDS) {
    const float *add = at->t[ADD] + row_at(row, ADD_STRIDE);
    if (!ADD_STRIDE[RANK - 1])
      y += *add;
    else
      y += COLUMNS % W == 0 ? load(add + column) : load_least(add + column, left);
  }
  float *to = at->t[Y] + row_at(row, STRIDE[Y]) + column;
  if (COLUMNS % W == 0 || left >= W)
    store(to, y);
  else
    store_part(to, y, left);
}

#define EVEN(lane, d) (2 * (lane))
#define ODD(lane, d) (2 * (lane) + 1)

/* Columns 0 ... of register j of a row, two registers where two lanes are a column. */
static inline vi columns_of(const vi *sums, long j) {
  if (UNSIGNED) return sums[j];
  const vi low = sums[2 * j], high = sums[2 * j + 1];
  return __builtin_shufflevector(low, high, LANES_OF_(VTB_W)(EVEN, 0)) +
         __builtin_shufflevector(low, high, LANES_OF_(VTB_W)(ODD, 0));
}

static inline void multiply(const tile *at) {
  vi sums[MOST_ROWS][MOST_VECTORS];
  const signed char *columns[MOST_VECTORS];
  const long length = round_up(K, GROUP);
  UNROLL for (int j = 0; j < VECTORS; j++) {
    /* columns beyond the last are those of the last panel again */
    const long c = least(at->column + j * ACROSS, round_up(COLUMNS, PANEL) - ACROSS);
    columns[j] = (const signed char *)at->t[NUMBERS] + quotient(c, PANEL) * PANEL * length +
                 remainder(c, PANEL) * GROUP;
    vi first = 0;
    if (UNSIGNED) first = *(const vi_at *)((const int *)at->t[SUMS] + c) * -128;
    UNROLL for (int i = 0; i < ROWS_AT; i++) sums[i][j] = first;
  }
  const char *rows = row_of(at->temp, at->row);
  for (long k = 0; k < length; k += GROUP)
    UNROLL for (int j = 0; j < VECTORS; j++) UNROLL for (int i = 0; i < ROWS_AT; i++) sums[i][j] =
        dot(sums[i][j], rows + (i * LD + k * WIDTH), columns[j] + k * PANEL);
  UNROLL for (int i = 0; i < ROWS_AT; i++) if (at->row + i < ROWS)
      UNROLL for (int j = 0; j < VECTORS * ACROSS / W; j++) {
    const long column = at->column + j * W;
    if (COLUMNS % TILE_COLUMNS == 0 || column < COLUMNS) put(at, i, column, columns_of(sums[i], j));
  }
}

TASK(product, BLOCKS *TILES, 1, 0) {
  tile at = {.t = t, .temp = temp, .column = remainder(index, TILES) * TILE_COLUMNS};
  const long from = quotient(index, TILES) * BLOCK;
  for (at.row = from; at.row < least(from + BLOCK, ROWS); at.row += ROWS_AT) multiply(&at);
}
