/* Interpreter: einsum, patches, depthwise convolutions. */
#include "ir/convolution.h"
#include "ir/interp_internal.h"
#include "ir/product.h"

/* ---- einsum ---------------------------------------------------------------------------------- */

/* Letters by role, those of the result in its order, those that are summed in the first factor's.
 * What one factor alone has is summed while that is brought into order. */
typedef struct contraction {
  vtb_product p;
  const vtb_letter *by[VTB_LETTER_ROLES][VTB_MOST_LETTERS];
  int n[VTB_LETTER_ROLES];
} contraction;

static void classify(contraction *c) {
  for (int place = VTB_IN_RESULT; place >= 0; place -= VTB_IN_RESULT)
    for (int axis = 0; axis < c->p.rank[place]; axis++) {
      const vtb_letter *l = vtb_product_at(&c->p, place, axis);
      if (place == VTB_IN_RESULT || l->role == VTB_LETTER_SUM) c->by[l->role][c->n[l->role]++] = l;
    }
}

/* Factors as a product takes them. */
static void round_factors(double *x, int64_t n, vtb_factors factors) {
  if (factors == VTB_FACTORS_FP32) return;
  for (int64_t i = 0; i < n; i++) x[i] = vtb_round_factor(x[i], factors);
}

static int64_t size_of(const contraction *c, vtb_letter_role role) {
  return vtb_product_size(&c->p, role, 0);
}

static int64_t stride_of(const vtb_letter *l, int place, const vtb_type *t) {
  int64_t strides[VTB_MAX_RANK];
  vtb__strides(t, strides);
  return l->at[place] < 0 ? 0 : strides[l->at[place]];
}

/* The operand as a contiguous array over the letters of the three roles, other letters summed
 * away. */
static double *ordered(const contraction *c, int k, const vtb_tensor *x,
                       const vtb_letter_role roles[3]) {
  int64_t size[3 * VTB_MAX_RANK], from[3 * VTB_MAX_RANK], n = 1;
  int rank = 0;
  for (int g = 0; g < 3; g++)
    for (int i = 0; i < c->n[roles[g]]; i++) {
      const vtb_letter *l = c->by[roles[g]][i];
      size[rank] = l->size;
      from[rank++] = stride_of(l, k, &x->type);
    }
  vtb__loops solo = {.n_streams = 1};
  for (int i = 0; i < c->p.rank[k]; i++) {
    const vtb_letter *l = vtb_product_at(&c->p, k, i);
    if (l->role != VTB_LETTER_ALONE) continue;
    solo.size[solo.rank] = l->size;
    solo.stride[0][solo.rank++] = stride_of(l, k, &x->type);
  }
  int64_t to[3 * VTB_MAX_RANK];
  for (int i = rank - 1; i >= 0; i--) {
    to[i] = n;
    n *= size[i];
  }
  double *data = vtb_xcalloc((size_t)n, sizeof *data);
  if (solo.rank == 0) {
    vtb__copy_strided(rank, size, data, to, x->data, from);
    return data;
  }
  double *part = vtb_xmalloc((size_t)n * sizeof *part);
  int64_t index[VTB_MAX_RANK] = {0}, offset[VTB__MAX_STREAMS] = {0};
  solo.size[solo.rank++] = 1; /* the walk leaves its innermost axis to the caller */
  do {
    vtb__copy_strided(rank, size, part, to, x->data + offset[0], from);
    for (int64_t i = 0; i < n; i++) data[i] += part[i];
  } while (vtb__loops_next(&solo, index, offset));
  vtb_free(part);
  return data;
}

/* c[m, n] += sum_k a[m, k] b[k, n], in order of k: four rows of b at a time. */
static void matmul(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
  for (int64_t i = 0; i < m; i++, a += k, c += n) {
    int64_t p = 0;
    for (; p + 4 <= k; p += 4) {
      const double *b0 = b + p * n, *b1 = b0 + n, *b2 = b1 + n, *b3 = b2 + n;
      double a0 = a[p], a1 = a[p + 1], a2 = a[p + 2], a3 = a[p + 3];
      for (int64_t j = 0; j < n; j++)
        c[j] = (((c[j] + a0 * b0[j]) + a1 * b1[j]) + a2 * b2[j]) + a3 * b3[j];
    }
    for (; p < k; p++)
      for (int64_t j = 0; j < n; j++) c[j] += a[p] * b[p * n + j];
  }
}

void vtb__add_broadcast(vtb_tensor *y, const vtb_tensor *x) {
  int64_t count = vtb_type_count(&y->type);
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i, at = 0, stride = 1;
    for (int a = y->type.rank - 1, b = x->type.rank - 1; b >= 0; a--, b--) {
      int64_t k = rest % y->type.dim[a].size;
      rest /= y->type.dim[a].size;
      if (x->type.dim[b].size != 1) at += k * stride;
      stride *= x->type.dim[b].size;
    }
    y->data[i] += x->data[at];
  }
}

vtb_status vtb__interp_einsum(vtb__interp_eval *e) {
  contraction c = {.p = vtb_product_of(e->inst)};
  for (int k = 0; k < 2; k++) /* the batch is that of the values */
    for (int i = 0; i < c.p.rank[k]; i++)
      c.p.letters[c.p.of[k][i]].size = e->in[k]->type.dim[i].size;
  classify(&c);
  double *a = ordered(&c, 0, e->in[0],
                      (const vtb_letter_role[]){VTB_LETTER_BATCH, VTB_LETTER_ROWS, VTB_LETTER_SUM});
  double *b =
      ordered(&c, 1, e->in[1],
              (const vtb_letter_role[]){VTB_LETTER_BATCH, VTB_LETTER_SUM, VTB_LETTER_COLUMNS});
  int64_t nb = size_of(&c, VTB_LETTER_BATCH), m = size_of(&c, VTB_LETTER_ROWS),
          n = size_of(&c, VTB_LETTER_COLUMNS), k = size_of(&c, VTB_LETTER_SUM);
  round_factors(a, nb * m * k, vtb_factors_of(e->inst));
  round_factors(b, nb * n * k, vtb_factors_of(e->inst));
  double *y = vtb_xcalloc((size_t)(nb * m * n), sizeof *y);
  for (int64_t i = 0; i < nb; i++) matmul(m, n, k, a + i * m * k, b + i * k * n, y + i * m * n);
  int64_t size[VTB_MAX_RANK], to[VTB_MAX_RANK], from[VTB_MAX_RANK], stride = 1;
  int rank = 0;
  for (int g = VTB_LETTER_BATCH; g <= VTB_LETTER_COLUMNS; g++)
    for (int i = 0; i < c.n[g]; i++) {
      size[rank] = c.by[g][i]->size;
      to[rank++] = stride_of(c.by[g][i], VTB_IN_RESULT, &e->out[0]->type);
    }
  for (int i = rank - 1; i >= 0; i--) {
    from[i] = stride;
    stride *= size[i];
  }
  vtb__copy_strided(rank, size, e->out[0]->data, to, y, from);
  if (e->inst->n_operands == 3) vtb__add_broadcast(e->out[0], e->in[2]);
  vtb_free(a);
  vtb_free(b);
  vtb_free(y);
  return VTB_OK;
}

/* ---- patches --------------------------------------------------------------------------------- */

/* Calls fn for every element of a patch and the element of the image it is; -1 in the padding. */
static void for_patches(const vtb_patches *p, const double *from, double *to,
                        void (*fn)(const double *from, double *to, int64_t col, int64_t pix)) {
  int64_t taps = vtb_axes_product(p->kernel), patches = vtb_axes_product(p->out), col = 0;
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t n = 0; n < patches; n++)
      for (int64_t c = 0; c < p->channels; c++)
        for (int64_t tap = 0; tap < taps; tap++, col++) {
          int64_t place = n, part = tap, pix = 0, step = 1;
          bool inside = true;
          for (int k = VTB_GRID_AXES - 1; k >= 0; k--) { /* the innermost first */
            int64_t at = place % p->out[k] * p->stride[k] + part % p->kernel[k] - p->low[k];
            inside = inside && at >= 0 && at < p->size[k];
            pix += at * step, step *= p->size[k];
            place /= p->out[k], part /= p->kernel[k];
          }
          fn(from, to, col, inside ? (b * p->channels + c) * step + pix : -1);
        }
}

static void gather(const double *from, double *to, int64_t col, int64_t pix) {
  to[col] = pix < 0 ? 0 : from[pix];
}

static void add_back(const double *from, double *to, int64_t col, int64_t pix) {
  if (pix >= 0) to[pix] += from[col];
}

vtb_status vtb__interp_im2col(vtb__interp_eval *e) {
  vtb_patches p;
  vtb_check(vtb_patches_of(e->inst, &e->in[0]->type, &p), "im2col: attributes");
  for_patches(&p, e->in[0]->data, e->out[0]->data, gather);
  return VTB_OK;
}

vtb_status vtb__interp_col2im(vtb__interp_eval *e) {
  vtb_patches p;
  vtb_check(vtb_patches_of(e->inst, &e->out[0]->type, &p), "col2im: attributes");
  memset(e->out[0]->data, 0, (size_t)vtb_type_count(&e->out[0]->type) * sizeof(double));
  for_patches(&p, e->in[0]->data, e->out[0]->data, add_back);
  return VTB_OK;
}

/* ---- depthwise convolution ------------------------------------------------------------------- */

typedef struct depthwise {
  vtb_depthwise g;
  int64_t b, n, c, taps, cells, *places;
} depthwise;

/* The batch is that of the values: types may leave it open. */
static depthwise depthwise_of(const vtb__interp_eval *e) {
  const vtb_inst *inst = e->inst;
  depthwise d;
  vtb_check(vtb_depthwise_of(inst, &d.g), "dwconv: attributes");
  d.b = e->in[0]->type.dim[0].size, d.n = d.g.tokens, d.c = d.g.channels;
  d.taps = vtb_axes_product(d.g.kernel), d.cells = d.n - d.g.n_extra;
  d.places = vtb_xcalloc((size_t)d.n, sizeof *d.places);
  vtb_depthwise_places(inst, &d.g, d.places);
  return d;
}

/* The cell that a tap reads at cell t; -1 outside the grid. */
static int64_t tap_step(const vtb_depthwise *g, int64_t t, int64_t tap) {
  int64_t step = 0, size = 1;
  for (int k = VTB_GRID_AXES - 1; k >= 0; k--) {
    int64_t at = t % g->grid[k] + tap % g->kernel[k] - g->pad[k];
    if (at < 0 || at >= g->grid[k]) return -1;
    step += at * size, size *= g->grid[k];
    t /= g->grid[k], tap /= g->kernel[k];
  }
  return step;
}

/* One tap: rows of C channels of the output at a cell and the input it reads, for kernel element
 * (i, j). */
typedef void (*tap_fn)(const depthwise *d, double *out, const double *in, const double *other,
                       int64_t tap);

/* Visits every (output token, input token, kernel element) in a fixed order. `first` and `second`
 * are [B, N, C] arrays walked at the output's and the input's token. */
static void for_taps(const depthwise *d, double *first, const double *second, const double *other,
                     tap_fn fn, bool first_is_input, bool whole) {
  for (int64_t b = 0; b < d->b; b++)
    for (int64_t t = 0; t < d->cells; t++)
      for (int64_t tap = 0; tap < d->taps; tap++) {
        int64_t at = tap_step(&d->g, t, tap);
        if (at < 0) continue;
        int64_t y = (b * d->n + d->places[t]) * d->c, x = (b * d->n + d->places[at]) * d->c;
        fn(d, whole ? first : first + (first_is_input ? x : y), second + (first_is_input ? y : x),
           whole ? other + y : other, tap);
      }
}

/* out[c] += in[c] * w[c, tap] */
static void tap_weight(const depthwise *d, double *out, const double *in, const double *w,
                       int64_t tap) {
  for (int64_t c = 0, k = d->taps; c < d->c; c++) out[c] += in[c] * w[c * k + tap];
}

/* dw[c, tap] += x[c] * dy[c] */
static void tap_gradient(const depthwise *d, double *dw, const double *x, const double *dy,
                         int64_t tap) {
  for (int64_t c = 0, k = d->taps; c < d->c; c++) dw[c * k + tap] += x[c] * dy[c];
}

static void clear(vtb_tensor *t) {
  memset(t->data, 0, (size_t)vtb_type_count(&t->type) * sizeof(double));
}

/* The sums begin with `start`, or 0; extra tokens are copied. */
static void begin(const depthwise *d, double *y, const double *x, const double *start) {
  for (int64_t b = 0; b < d->b; b++)
    for (int64_t t = 0; t < d->n; t++) {
      int64_t at = (b * d->n + d->places[t]) * d->c;
      for (int64_t c = 0; c < d->c; c++)
        y[at + c] = t >= d->cells ? x[at + c] : start ? start[c] : 0;
    }
}

static vtb_status convolve(vtb__interp_eval *e, bool adjoint) {
  depthwise d = depthwise_of(e);
  begin(&d, e->out[0]->data, e->in[0]->data, e->inst->n_operands == 3 ? e->in[2]->data : NULL);
  for_taps(&d, e->out[0]->data, e->in[0]->data, e->in[1]->data, tap_weight, adjoint, false);
  vtb_free(d.places);
  return VTB_OK;
}

vtb_status vtb__interp_dwconv(vtb__interp_eval *e) { return convolve(e, false); }
vtb_status vtb__interp_dwconv_dx(vtb__interp_eval *e) { return convolve(e, true); }

vtb_status vtb__interp_dwconv_dw(vtb__interp_eval *e) {
  depthwise d = depthwise_of(e);
  clear(e->out[0]);
  for_taps(&d, e->out[0]->data, e->in[0]->data, e->in[1]->data, tap_gradient, false, true);
  for (int r = 1; r < e->inst->n_results; r++) {
    clear(e->out[r]);
    for (int64_t i = 0; i < d.b * d.cells; i++) {
      const double *dy = e->in[1]->data + (i / d.cells * d.n + d.places[i % d.cells]) * d.c;
      for (int64_t c = 0; c < d.c; c++) e->out[r]->data[c] += dy[c];
    }
  }
  vtb_free(d.places);
  return VTB_OK;
}
