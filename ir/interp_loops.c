/* Strided loops over several arrays, with axes merged so that inner loops are long. */
#include "ir/interp_internal.h"

void vtb__strides(const vtb_type *t, int64_t *strides) {
  int64_t n = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    strides[i] = n;
    n *= t->dim[i].size;
  }
}

void vtb__broadcast_strides(const vtb_type *t, const vtb_type *to, int64_t *strides) {
  int64_t own[VTB_MAX_RANK];
  int lead = to->rank - t->rank;
  vtb__strides(t, own);
  for (int i = 0; i < to->rank; i++)
    strides[i] =
        i < lead || (t->dim[i - lead].size == 1 && to->dim[i].size != 1) ? 0 : own[i - lead];
}

static bool merges(const vtb__loops *l, int outer, int inner) {
  for (int s = 0; s < l->n_streams; s++)
    if (l->stride[s][outer] != l->stride[s][inner] * l->size[inner]) return false;
  return true;
}

void vtb__loops_merge(vtb__loops *l) {
  vtb__loops m = {.n_streams = l->n_streams};
  for (int i = 0; i < l->rank; i++) {
    if (l->size[i] == 1) continue;
    m.size[m.rank] = l->size[i];
    for (int s = 0; s < l->n_streams; s++) m.stride[s][m.rank] = l->stride[s][i];
    if (m.rank && merges(&m, m.rank - 1, m.rank)) {
      m.size[m.rank - 1] *= m.size[m.rank];
      for (int s = 0; s < l->n_streams; s++) m.stride[s][m.rank - 1] = m.stride[s][m.rank];
    } else {
      m.rank++;
    }
  }
  if (m.rank == 0) m.size[m.rank++] = 1;
  *l = m;
}

bool vtb__loops_next(const vtb__loops *l, int64_t *index, int64_t *offset) {
  for (int i = l->rank - 2; i >= 0; i--) {
    for (int s = 0; s < l->n_streams; s++) offset[s] += l->stride[s][i];
    if (++index[i] < l->size[i]) return true;
    for (int s = 0; s < l->n_streams; s++) offset[s] -= l->stride[s][i] * l->size[i];
    index[i] = 0;
  }
  return false;
}

void vtb__copy_strided(int rank, const int64_t *size, double *dst, const int64_t *dst_stride,
                       const double *src, const int64_t *src_stride) {
  vtb__loops l = {.rank = rank, .n_streams = 2};
  for (int i = 0; i < rank; i++) {
    l.size[i] = size[i];
    l.stride[0][i] = dst_stride[i];
    l.stride[1][i] = src_stride[i];
  }
  vtb__loops_merge(&l);
  int64_t index[VTB_MAX_RANK] = {0}, offset[2] = {0}, n = l.size[l.rank - 1];
  int64_t ds = l.stride[0][l.rank - 1], ss = l.stride[1][l.rank - 1];
  do {
    double *d = dst + offset[0];
    const double *s = src + offset[1];
    if (ds == 1 && ss == 1)
      memcpy(d, s, (size_t)n * sizeof *d);
    else
      for (int64_t i = 0; i < n; i++) d[i * ds] = s[i * ss];
  } while (vtb__loops_next(&l, index, offset));
}

int64_t *vtb__path_perm(const vtb_inst *inst, int64_t n) {
  int64_t *perm = vtb_xmalloc((size_t)n * sizeof *perm);
  const char *text = vtb_attr_str(inst, "path", NULL);
  for (int64_t t = 0; t < n; t++) perm[t] = t;
  if (!text) return perm;
  vtb_path path;
  vtb_error err = {0};
  if (vtb_path_parse(text, &path, &err)) vtb_bug("%s", err.text);
  vtb_check(path.n == n, "path %s on a sequence of another length", text);
  vtb_path_indices(&path, perm);
  vtb_path_free(&path);
  return perm;
}
