/* Ops that only move elements, as changes of index. */
#include "codegen/body/body.h"
#include "ir/ops.h"
#include "ir/path.h"

/* Numpy broadcast: the operand's axes are the last ones of the result. */
void vtb__operand_index(const vtb_value *operand, const vtb_type *result, const vtb_index *index,
                        vtb_index *out) {
  int skip = result->rank - operand->type.rank;
  for (int a = 0; a < operand->type.rank; a++)
    out[a] = operand->type.dim[a].size == 1 ? vtb__index_const(0) : index[a + skip];
}

/* Row-major regrouping: runs of axes with equal products are joined, then cut at the operand's
 * sizes. */
void vtb__reshape_index(vtb_body *body, const vtb_type *to, const vtb_index *index,
                        const vtb_type *from, vtb_index *out) {
  int a = to->rank - 1, b = from->rank - 1;
  while (b >= 0) {
    if (from->dim[b].size == 1) {
      out[b--] = vtb__index_const(0);
      continue;
    }
    while (a >= 0 && to->dim[a].size == 1) a--;
    vtb_check(a >= 0, "reshape of different counts");
    int first = b;
    int64_t have = to->dim[a].size, want = from->dim[b].size;
    vtb_index joined = index[a--];
    while (have != want) {
      if (have < want) {
        vtb_index part = vtb__index_scale(body, &index[a], have);
        joined = vtb__index_add(body, &joined, &part);
        have *= to->dim[a--].size;
      } else {
        want *= from->dim[--first].size;
      }
    }
    for (int k = b; k > first; k--) {
      vtb_index q;
      vtb__index_split(body, &joined, from->dim[k].size, &q, &out[k]);
      joined = q;
    }
    out[first] = joined;
    b = first - 1;
  }
}

int32_t *vtb__source_table(const vtb_inst *i, int64_t n) {
  int64_t *perm = vtb_xcalloc((size_t)n + 1, sizeof *perm);
  const char *text = vtb_attr_str(i, "path", NULL);
  for (int64_t t = 0; t < n; t++) perm[t] = t;
  if (text) {
    vtb_path path;
    vtb_error err = {0};
    vtb_check(vtb_path_parse(text, &path, &err) == VTB_OK && path.n == n, "path %s: %s", text,
              err.text);
    vtb_path_indices(&path, perm);
    vtb_path_free(&path);
  }
  int32_t *from = vtb_xcalloc((size_t)n + 1, sizeof *from);
  int64_t by = vtb_attr_int(i, "by", 0);
  bool inverse = vtb_attr_int(i, "inverse", 0) != 0;
  for (int64_t t = 0; t < n; t++) {
    if (i->op == VTB_OP_shift)
      from[perm[t]] = t - by >= 0 && t - by < n ? (int32_t)perm[t - by] : -1;
    else if (inverse)
      from[perm[t]] = (int32_t)t;
    else
      from[t] = (int32_t)perm[t];
  }
  vtb_free(perm);
  return from;
}

bool vtb__table_is_line(const int32_t *from, int64_t n, int64_t *lo, int64_t *hi, int64_t *a,
                        int64_t *b) {
  for (*lo = 0; *lo < n && from[*lo] < 0;) ++*lo;
  for (*hi = n; *hi > *lo && from[*hi - 1] < 0;) --*hi;
  *a = *hi - *lo > 1 ? from[*lo + 1] - from[*lo] : 1;
  *b = *lo < n ? from[*lo] - *a * *lo : 0;
  for (int64_t s = *lo; s < *hi; s++)
    if (from[s] < 0 || from[s] != *a * s + *b) return false;
  return true;
}

bool vtb__table_is_grid(const int32_t *from, int64_t n, int64_t *inner, int64_t *outer_step,
                        int64_t *inner_step) {
  if (n < 4 || from[0] < 0) return false;
  *inner_step = from[1] - from[0];
  for (*inner = 1; *inner < n && from[*inner] - from[*inner - 1] == *inner_step;) ++*inner;
  if (*inner == n || n % *inner) return false;
  *outer_step = from[*inner] - from[0];
  for (int64_t s = 0; s < n; s++)
    if (from[s] != from[0] + s / *inner * *outer_step + s % *inner * *inner_step) return false;
  return true;
}
