/* Runs a parsed file of ONNX: the nodes that the exporter writes, by their definitions in the
 * operators' specification (opset 17), every number a double. Slow and plain; what it does not know
 * fails the test.
 *
 * Values live in the arena of the run. */
#ifndef VTB_TEST_ONNX_RUN_H
#define VTB_TEST_ONNX_RUN_H

#include "frontend/onnx/onnx.pb-c.h"
#include "runtime/base/base.h"
#include "tests/test.h"

enum { RUN_RANK = 12 };

typedef struct value {
  int rank;
  int64_t dim[RUN_RANK];
  double *at;
} value;

typedef struct run {
  vtb_arena arena;
  vtb_map values; /* by name: one for all graphs, whose names differ */
} run;

typedef VtbOnnx__Node node;
typedef VtbOnnx__Graph graph;

static inline int64_t count_of(const value *v) {
  int64_t n = 1;
  for (int i = 0; i < v->rank; i++) n *= v->dim[i];
  return n;
}

static inline value *new_value(run *r, int rank, const int64_t *dim) {
  value *v = VTB_NEW(&r->arena, value);
  v->rank = rank;
  for (int i = 0; i < rank; i++) v->dim[i] = dim[i];
  v->at = VTB_NEW_ARRAY(&r->arena, double, count_of(v) + 1);
  return v;
}

static inline value *input_of(run *r, const node *n, size_t i) {
  value *v = i < n->n_input ? vtb_map_get(&r->values, n->input[i]) : NULL;
  if (!v) {
    CHECK_MSG(false, "%s has no input %zu", n->name, i);
    exit(1);
  }
  return v;
}

static inline const VtbOnnx__Attribute *attribute(const node *n, const char *name) {
  for (size_t i = 0; i < n->n_attribute; i++)
    if (strcmp(n->attribute[i]->name, name) == 0) return n->attribute[i];
  return NULL;
}

static inline int64_t number(const node *n, const char *name, int64_t otherwise) {
  const VtbOnnx__Attribute *a = attribute(n, name);
  return a ? a->i : otherwise;
}

/* The next index of a shape, the last axis first; false behind the last. */
static inline bool next_index(int64_t *index, int rank, const int64_t *dim) {
  for (int i = rank; i-- > 0;) {
    if (++index[i] < dim[i]) return true;
    index[i] = 0;
  }
  return false;
}

/* Element of `v` at an index of what it is broadcast to. */
static inline double at_index(const value *v, const int64_t *index, int rank) {
  int64_t at = 0;
  for (int i = 0; i < v->rank; i++)
    at = at * v->dim[i] + (v->dim[i] == 1 ? 0 : index[rank - v->rank + i]);
  return v->at[at];
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static inline double apply_one(const char *op, double x, bool *known) {
  *known = true;
#define ONE(name, y)                                                                               \
  if (strcmp(op, name) == 0) return y
  ONE("Neg", -x);
  ONE("Abs", fabs(x));
  ONE("Sign", (x > 0) - (x < 0));
  ONE("Exp", exp(x));
  ONE("Log", log(x));
  ONE("Sqrt", sqrt(x));
  ONE("Sin", sin(x));
  ONE("Cos", cos(x));
  ONE("Tan", tan(x));
  ONE("Atan", atan(x));
  ONE("Tanh", tanh(x));
  ONE("Erf", erf(x));
  ONE("Floor", floor(x));
  ONE("Round", nearbyint(x));
  ONE("Relu", fmax(x, 0));
  ONE("Sigmoid", 1 / (1 + exp(-x)));
  ONE("Reciprocal", 1 / x);
  ONE("Identity", x);
#undef ONE
  *known = false;
  return 0;
}

static inline double apply_two(const char *op, double x, double y, bool *known) {
  *known = true;
#define TWO(name, z)                                                                               \
  if (strcmp(op, name) == 0) return z
  TWO("Add", x + y);
  TWO("Sub", x - y);
  TWO("Mul", x * y);
  TWO("Div", x / y);
  TWO("Pow", pow(x, y));
  TWO("Max", x > y ? x : y);
  TWO("Min", x < y ? x : y);
  TWO("Greater", x > y);
  TWO("GreaterOrEqual", x >= y);
  TWO("Less", x < y);
  TWO("And", x && y);
  TWO("Equal", x == y);
#undef TWO
  *known = false;
  return 0;
}

static inline value *broadcast(run *r, value *const *in, int n) {
  value t = {0};
  for (int k = 0; k < n; k++) t.rank = in[k]->rank > t.rank ? in[k]->rank : t.rank;
  for (int i = 0; i < t.rank; i++) t.dim[i] = 1;
  for (int k = 0; k < n; k++)
    for (int i = 0; i < in[k]->rank; i++) {
      int64_t *to = &t.dim[t.rank - in[k]->rank + i], d = in[k]->dim[i];
      CHECK(*to == d || *to == 1 || d == 1);
      if (*to == 1) *to = d;
    }
  return new_value(r, t.rank, t.dim);
}

/* NULL if the node is another. */
static inline value *elementwise(run *r, const node *n) {
  bool known = false, where = strcmp(n->op_type, "Where") == 0;
  if (n->n_input > 3 || n->n_input < 1) return NULL;
  if (!where && n->n_input == 1) (void)apply_one(n->op_type, 1, &known);
  if (!where && n->n_input == 2) (void)apply_two(n->op_type, 1, 1, &known);
  if (!where && !known) return NULL;
  value *in[3] = {0};
  for (size_t k = 0; k < n->n_input; k++) in[k] = input_of(r, n, k);
  value *y = broadcast(r, in, (int)n->n_input);
  int64_t index[RUN_RANK] = {0}, at = 0;
  do {
    double x[3] = {0};
    for (size_t k = 0; k < n->n_input; k++) x[k] = at_index(in[k], index, y->rank);
    y->at[at++] = where             ? (x[0] != 0 ? x[1] : x[2])
                  : n->n_input == 1 ? apply_one(n->op_type, x[0], &known)
                                    : apply_two(n->op_type, x[0], x[1], &known);
  } while (next_index(index, y->rank, y->dim));
  return y;
}

static inline value *cast(run *r, const node *n) {
  const value *x = input_of(r, n, 0);
  value *y = new_value(r, x->rank, x->dim);
  int64_t to = number(n, "to", 1);
  for (int64_t i = 0; i < count_of(x); i++)
    y->at[i] = to == 9 ? x->at[i] != 0 : to == 6 || to == 7 ? trunc(x->at[i]) : x->at[i];
  return y;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static inline value *reshape(run *r, const node *n) {
  const value *x = input_of(r, n, 0), *to = input_of(r, n, 1);
  int64_t dim[RUN_RANK], rest = count_of(x);
  int rank = (int)count_of(to);
  for (int i = 0; i < rank; i++) {
    dim[i] = to->at[i] == 0 ? x->dim[i] : (int64_t)to->at[i];
    if (dim[i] > 0) rest /= dim[i];
  }
  for (int i = 0; i < rank; i++)
    if (dim[i] < 0) dim[i] = rest;
  value *y = new_value(r, rank, dim);
  CHECK_MSG(count_of(y) == count_of(x), "%s: another number of elements", n->name);
  memcpy(y->at, x->at, (size_t)count_of(x) * sizeof *x->at);
  return y;
}

static inline value *expand(run *r, const node *n) {
  value *x = input_of(r, n, 0);
  const value *to = input_of(r, n, 1);
  int64_t dim[RUN_RANK], index[RUN_RANK] = {0}, at = 0;
  for (int i = 0; i < (int)count_of(to); i++) dim[i] = (int64_t)to->at[i];
  value *y = broadcast(r, (value *const[]){x, new_value(r, (int)count_of(to), dim)}, 2);
  do y->at[at++] = at_index(x, index, y->rank);
  while (next_index(index, y->rank, y->dim));
  return y;
}

/* Elements that `y` takes from `x`: base + the sum of index times step, per axis of y. */
static inline void take(const value *x, value *y, int64_t base, const int64_t *step) {
  int64_t index[RUN_RANK] = {0}, at = 0;
  do {
    int64_t from = base;
    for (int i = 0; i < y->rank; i++) from += index[i] * step[i];
    y->at[at++] = x->at[from];
  } while (count_of(y) > 0 && next_index(index, y->rank, y->dim));
}

static inline void steps_of(const value *x, int64_t *step) {
  int64_t n = 1;
  for (int i = x->rank; i-- > 0;) step[i] = n, n *= x->dim[i];
}

static inline value *transpose(run *r, const node *n) {
  const value *x = input_of(r, n, 0);
  const VtbOnnx__Attribute *perm = attribute(n, "perm");
  int64_t dim[RUN_RANK], of_x[RUN_RANK], step[RUN_RANK];
  steps_of(x, of_x);
  for (int i = 0; i < x->rank; i++) dim[i] = x->dim[perm->ints[i]], step[i] = of_x[perm->ints[i]];
  value *y = new_value(r, x->rank, dim);
  take(x, y, 0, step);
  return y;
}

static inline value *slice(run *r, const node *n) {
  const value *x = input_of(r, n, 0), *start = input_of(r, n, 1), *limit = input_of(r, n, 2),
              *axes = input_of(r, n, 3), *by = input_of(r, n, 4);
  int64_t dim[RUN_RANK], step[RUN_RANK], base = 0;
  steps_of(x, step);
  memcpy(dim, x->dim, sizeof dim);
  for (int64_t k = 0; k < count_of(axes); k++) {
    int a = (int)axes->at[k];
    int64_t from = (int64_t)start->at[k], to = (int64_t)limit->at[k], s = (int64_t)by->at[k];
    to = to < x->dim[a] ? to : x->dim[a];
    base += from * step[a];
    dim[a] = (to - from + s - 1) / s;
    step[a] *= s;
  }
  value *y = new_value(r, x->rank, dim);
  take(x, y, base, step);
  return y;
}

static inline value *pad(run *r, const node *n) {
  const value *x = input_of(r, n, 0), *pads = input_of(r, n, 1), *with = input_of(r, n, 2);
  int64_t dim[RUN_RANK], index[RUN_RANK] = {0}, at = 0, step[RUN_RANK];
  for (int i = 0; i < x->rank; i++)
    dim[i] = x->dim[i] + (int64_t)pads->at[i] + (int64_t)pads->at[x->rank + i];
  value *y = new_value(r, x->rank, dim);
  steps_of(x, step);
  do {
    int64_t from = 0;
    bool inside = true;
    for (int i = 0; i < x->rank; i++) {
      int64_t k = index[i] - (int64_t)pads->at[i];
      inside &= k >= 0 && k < x->dim[i];
      from += k * step[i];
    }
    y->at[at++] = inside ? x->at[from] : with->at[0];
  } while (next_index(index, y->rank, y->dim));
  return y;
}

static inline value *concat(run *r, const node *n) {
  int axis = (int)number(n, "axis", 0);
  value shape = *input_of(r, n, 0);
  int64_t outer = 1, inner = 1, begin = 0;
  for (size_t k = 1; k < n->n_input; k++) shape.dim[axis] += input_of(r, n, k)->dim[axis];
  for (int i = 0; i < axis; i++) outer *= shape.dim[i];
  for (int i = axis + 1; i < shape.rank; i++) inner *= shape.dim[i];
  value *y = new_value(r, shape.rank, shape.dim);
  for (size_t k = 0; k < n->n_input; k++) {
    const value *x = input_of(r, n, k);
    int64_t size = x->dim[axis] * inner;
    for (int64_t o = 0; o < outer; o++)
      memcpy(y->at + o * shape.dim[axis] * inner + begin, x->at + o * size,
             (size_t)size * sizeof *x->at);
    begin += size;
  }
  return y;
}

static inline value *gather(run *r, const node *n) {
  const value *x = input_of(r, n, 0), *at = input_of(r, n, 1);
  int axis = (int)number(n, "axis", 0), rank = 0;
  int64_t dim[RUN_RANK], outer = 1, inner = 1, m = count_of(at);
  for (int i = 0; i < axis; i++) outer *= dim[rank++] = x->dim[i];
  for (int i = 0; i < at->rank; i++) dim[rank++] = at->dim[i];
  for (int i = axis + 1; i < x->rank; i++) inner *= dim[rank++] = x->dim[i];
  value *y = new_value(r, rank, dim);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < m; k++) {
      CHECK(at->at[k] >= 0 && at->at[k] < (double)x->dim[axis]);
      memcpy(y->at + (o * m + k) * inner, x->at + (o * x->dim[axis] + (int64_t)at->at[k]) * inner,
             (size_t)inner * sizeof *x->at);
    }
  return y;
}

/* Of indices of one number, behind axes in common. */
static inline value *gather_nd(run *r, const node *n) {
  const value *x = input_of(r, n, 0), *at = input_of(r, n, 1);
  int lead = (int)number(n, "batch_dims", 0), rank = 0;
  int64_t dim[RUN_RANK], outer = 1, inner = 1, m = count_of(at);
  CHECK(at->dim[at->rank - 1] == 1);
  for (int i = 0; i < lead; i++) outer *= x->dim[i];
  for (int i = 0; i + 1 < at->rank; i++) dim[rank++] = at->dim[i];
  for (int i = lead + 1; i < x->rank; i++) inner *= dim[rank++] = x->dim[i];
  value *y = new_value(r, rank, dim);
  for (int64_t k = 0; k < m; k++) {
    CHECK(at->at[k] >= 0 && at->at[k] < (double)x->dim[lead]);
    memcpy(y->at + k * inner, x->at + (k / (m / outer) * x->dim[lead] + (int64_t)at->at[k]) * inner,
           (size_t)inner * sizeof *x->at);
  }
  return y;
}

static inline value *shape_of(run *r, const node *n) {
  const value *x = input_of(r, n, 0);
  int64_t start = number(n, "start", 0), end = number(n, "end", x->rank), size = end - start;
  value *y = new_value(r, 1, &size);
  for (int64_t i = 0; i < size; i++) y->at[i] = (double)x->dim[start + i];
  return y;
}

/* ---- sums and products ----------------------------------------------------------------------- */

static inline value *reduce(run *r, const node *n) {
  const value *x = input_of(r, n, 0);
  bool sum = strcmp(n->op_type, "ReduceSum") == 0, keep = number(n, "keepdims", 1) != 0;
  bool gone[RUN_RANK] = {false};
  const VtbOnnx__Attribute *a = sum ? NULL : attribute(n, "axes");
  const value *axes = sum ? input_of(r, n, 1) : NULL;
  for (size_t i = 0; i < (sum ? (size_t)count_of(axes) : a->n_ints); i++)
    gone[sum ? (int64_t)axes->at[i] : a->ints[i]] = true;
  int64_t kept[RUN_RANK], dim[RUN_RANK], index[RUN_RANK] = {0}, at = 0;
  int rank = 0;
  for (int i = 0; i < x->rank; i++) {
    kept[i] = gone[i] ? 1 : x->dim[i];
    if (keep || !gone[i]) dim[rank++] = kept[i];
  }
  value *y = new_value(r, rank, dim), *full = new_value(r, x->rank, kept);
  int64_t step[RUN_RANK];
  steps_of(full, step);
  for (int64_t i = 0; i < count_of(y); i++) y->at[i] = sum ? 0 : -INFINITY;
  do {
    int64_t to = 0;
    for (int i = 0; i < x->rank; i++) to += gone[i] ? 0 : index[i] * step[i];
    double v = x->at[at++];
    y->at[to] = sum ? y->at[to] + v : v > y->at[to] ? v : y->at[to];
  } while (next_index(index, x->rank, x->dim));
  return y;
}

static inline value *matmul(run *r, const node *n) {
  const value *a = input_of(r, n, 0), *b = input_of(r, n, 1);
  int64_t rows = a->dim[a->rank - 2], k = a->dim[a->rank - 1], cols = b->dim[b->rank - 1];
  CHECK_MSG(b->dim[b->rank - 2] == k, "%s: a product of %d and %d", n->name, (int)k,
            (int)b->dim[b->rank - 2]);
  value outer_a = {.rank = a->rank - 2}, outer_b = {.rank = b->rank - 2};
  memcpy(outer_a.dim, a->dim, sizeof a->dim);
  memcpy(outer_b.dim, b->dim, sizeof b->dim);
  value *outer = broadcast(r, (value *const[]){&outer_a, &outer_b}, 2), shape = *outer;
  shape.dim[shape.rank++] = rows, shape.dim[shape.rank++] = cols;
  value *y = new_value(r, shape.rank, shape.dim);
  int64_t index[RUN_RANK] = {0}, at = 0;
  do {
    int64_t from[2] = {0};
    const value *parts[] = {&outer_a, &outer_b};
    for (int p = 0; p < 2; p++)
      for (int i = 0; i < parts[p]->rank; i++)
        from[p] = from[p] * parts[p]->dim[i] +
                  (parts[p]->dim[i] == 1 ? 0 : index[outer->rank - parts[p]->rank + i]);
    const double *x = a->at + from[0] * rows * k, *z = b->at + from[1] * k * cols;
    double *to = y->at + at++ * rows * cols;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t l = 0; l < k; l++)
        for (int64_t j = 0; j < cols; j++) to[i * cols + j] += x[i * k + l] * z[l * cols + j];
  } while (next_index(index, outer->rank, outer->dim));
  return y;
}

/* Along the last axis, as it is written. */
static inline value *softmax(run *r, const node *n) {
  const value *x = input_of(r, n, 0);
  value *y = new_value(r, x->rank, x->dim);
  int64_t m = x->dim[x->rank - 1];
  CHECK(number(n, "axis", -1) == -1);
  for (int64_t o = 0; o < count_of(x) / m; o++) {
    const double *from = x->at + o * m;
    double top = from[0], sum = 0;
    for (int64_t i = 1; i < m; i++) top = from[i] > top ? from[i] : top;
    for (int64_t i = 0; i < m; i++) sum += y->at[o * m + i] = exp(from[i] - top);
    for (int64_t i = 0; i < m; i++) y->at[o * m + i] /= sum;
  }
  return y;
}

static inline value *cumulate(run *r, const node *n) {
  const value *x = input_of(r, n, 0);
  int axis = (int)input_of(r, n, 1)->at[0];
  bool reverse = number(n, "reverse", 0) != 0, exclusive = number(n, "exclusive", 0) != 0;
  value *y = new_value(r, x->rank, x->dim);
  int64_t inner = 1, m = x->dim[axis];
  for (int i = axis + 1; i < x->rank; i++) inner *= x->dim[i];
  for (int64_t o = 0; o < count_of(x) / m; o++) {
    int64_t base = o / inner * m * inner + o % inner;
    double sum = 0;
    for (int64_t t = 0; t < m; t++) {
      int64_t at = base + (reverse ? m - 1 - t : t) * inner;
      double before = sum;
      sum += x->at[at];
      y->at[at] = exclusive ? before : sum;
    }
  }
  return y;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* y[b, o, p] += x[b, c, p stride - pad + k] w[o, c, k]; transposed, what was read is written. */
static inline value *convolve(run *r, const node *n) {
  bool back = strcmp(n->op_type, "ConvTranspose") == 0;
  const value *x = input_of(r, n, 0), *w = input_of(r, n, 1);
  const int64_t *stride = attribute(n, "strides")->ints, *pads = attribute(n, "pads")->ints;
  int rank = x->rank - 2;
  int64_t groups = number(n, "group", 1), dim[RUN_RANK] = {x->dim[0]};
  dim[1] = back ? w->dim[1] * groups : w->dim[0];
  for (int i = 0; i < rank; i++) {
    int64_t pad_both = pads[i] + pads[rank + i], k = w->dim[2 + i], size = x->dim[2 + i];
    dim[2 + i] =
        back ? (size - 1) * stride[i] + k - pad_both + attribute(n, "output_padding")->ints[i]
             : (size + pad_both - k) / stride[i] + 1;
  }
  value *y = new_value(r, x->rank, dim);
  const value *small = back ? x : y, *large = back ? y : x; /* has an element a place, is read */
  int64_t of_small[RUN_RANK], of_large[RUN_RANK], of_w[RUN_RANK];
  steps_of(small, of_small), steps_of(large, of_large), steps_of(w, of_w);
  int64_t in_group = large->dim[1] / groups, out_group = small->dim[1] / groups;
  int64_t at[RUN_RANK] = {0}; /* batch, channel of small, place */
  do {
    int64_t g = at[1] / out_group, tap[RUN_RANK] = {0}, here = 0;
    for (int i = 0; i < small->rank; i++) here += at[i] * of_small[i];
    do { /* channel of the group, tap */
      int64_t there = at[0] * of_large[0] + (g * in_group + tap[0]) * of_large[1];
      int64_t weight = at[1] * of_w[0] + tap[0] * of_w[1];
      bool inside = true;
      for (int i = 0; i < rank; i++) {
        int64_t k = at[2 + i] * stride[i] - pads[i] + tap[1 + i];
        inside &= k >= 0 && k < large->dim[2 + i];
        there += k * of_large[2 + i];
        weight += tap[1 + i] * of_w[2 + i];
      }
      if (inside && back) y->at[there] += x->at[here] * w->at[weight];
      if (inside && !back) y->at[here] += x->at[there] * w->at[weight];
    } while (next_index(tap, 1 + rank,
                        (int64_t[RUN_RANK]){in_group, w->dim[2], rank > 1 ? w->dim[3] : 1,
                                            rank > 2 ? w->dim[4] : 1}));
  } while (next_index(at, small->rank, small->dim));
  return y;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static inline void run_graph(run *r, const graph *g);

/* Part t along the axis, or into it. */
static inline value *part_of(run *r, const value *x, int axis, int64_t t) {
  int64_t step[RUN_RANK], of_y[RUN_RANK], dim[RUN_RANK];
  int rank = 0;
  steps_of(x, step);
  for (int i = 0; i < x->rank; i++)
    if (i != axis) dim[rank] = x->dim[i], of_y[rank++] = step[i];
  value *y = new_value(r, rank, dim);
  take(x, y, t * step[axis], of_y);
  return y;
}

static inline void put_part(value *y, const value *x, int axis, int64_t t) {
  int64_t inner = 1;
  for (int i = axis; i < x->rank; i++) inner *= x->dim[i];
  for (int64_t i = 0; i < count_of(x); i++)
    y->at[(i / inner * y->dim[axis] + t) * inner + i % inner] = x->at[i];
}

static inline void scan(run *r, const node *n) {
  const graph *g = attribute(n, "body")->g;
  size_t seqs = (size_t)number(n, "num_scan_inputs", 0), states = n->n_input - seqs,
         yields = n->n_output - states;
  const int64_t *in_axes = attribute(n, "scan_input_axes")->ints;
  const int64_t *out_axes = yields ? attribute(n, "scan_output_axes")->ints : NULL;
  int64_t steps = input_of(r, n, states)->dim[in_axes[0]];
  value *held[16], *out[16] = {0};
  CHECK(states < 16 && yields < 16 && g->n_input == n->n_input && g->n_output == n->n_output);
  for (size_t i = 0; i < states; i++) held[i] = input_of(r, n, i);
  for (int64_t t = 0; t < steps; t++) {
    for (size_t i = 0; i < states; i++) vtb_map_set(&r->values, g->input[i]->name, held[i]);
    for (size_t i = 0; i < seqs; i++)
      vtb_map_set(&r->values, g->input[states + i]->name,
                  part_of(r, input_of(r, n, states + i), (int)in_axes[i], t));
    run_graph(r, g);
    for (size_t i = 0; i < states; i++) held[i] = vtb_map_get(&r->values, g->output[i]->name);
    for (size_t i = 0; i < yields; i++) {
      const value *y = vtb_map_get(&r->values, g->output[states + i]->name);
      int axis = (int)out_axes[i];
      int64_t dim[RUN_RANK];
      for (int k = 0; k < y->rank + 1; k++)
        dim[k] = k < axis ? y->dim[k] : k == axis ? steps : y->dim[k - 1];
      if (!out[i]) out[i] = new_value(r, y->rank + 1, dim);
      put_part(out[i], y, axis, t);
    }
  }
  for (size_t i = 0; i < n->n_output; i++)
    if (*n->output[i])
      vtb_map_set(&r->values, n->output[i], i < states ? held[i] : out[i - states]);
}

static inline value *evaluate(run *r, const node *n) {
  static const struct {
    const char *op;
    value *(*fn)(run *, const node *);
  } rows[] = {{"Cast", cast},      {"Reshape", reshape},       {"Expand", expand},
              {"Slice", slice},    {"Transpose", transpose},   {"Pad", pad},
              {"Concat", concat},  {"Gather", gather},         {"GatherND", gather_nd},
              {"Shape", shape_of}, {"ReduceSum", reduce},      {"ReduceMax", reduce},
              {"MatMul", matmul},  {"Softmax", softmax},       {"CumSum", cumulate},
              {"Conv", convolve},  {"ConvTranspose", convolve}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].op, n->op_type) == 0) return rows[i].fn(r, n);
  return elementwise(r, n);
}

static inline void run_graph(run *r, const graph *g) {
  for (size_t i = 0; i < g->n_node; i++) {
    const node *n = g->node[i];
    if (strcmp(n->op_type, "Scan") == 0) {
      scan(r, n);
      continue;
    }
    value *v = evaluate(r, n);
    if (!v) {
      CHECK_MSG(false, "%s: no %s is known here", n->name, n->op_type);
      exit(1);
    }
    vtb_map_set(&r->values, n->output[0], v);
  }
}

#endif
