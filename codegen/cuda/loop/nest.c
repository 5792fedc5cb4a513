/* Nests as C: indices as text, a group's value from a thread's number, and a place to probe. */
#include "codegen/cuda/loop/expr.h"

const char *vtb__cuda_int(const vtb_cuda_expr *e) { return e->wide ? "vtb_i64" : "int"; }

const char *vtb__cuda_index_text(vtb_cuda_expr *e, const vtb_index *x) {
  vtb_strbuf s = {0};
  vtb__index_used(&e->body, x);
  for (int g = 0; g < e->body.n_groups; g++) {
    int64_t coef = x->coef[e->body.groups[g].last];
    if (!coef) continue;
    vtb_strbuf_printf(&s, "%s%s", s.n ? (coef < 0 ? " - " : " + ") : (coef < 0 ? "-" : ""),
                      (const char *)e->body.groups[g].value);
    if (coef != 1 && coef != -1)
      vtb_strbuf_printf(&s, " * %lld", (long long)(coef < 0 ? -coef : coef));
  }
  if (x->dyn) vtb_strbuf_printf(&s, "%s%s", s.n ? " + " : "", (const char *)x->dyn);
  if (x->c || !s.n)
    vtb_strbuf_printf(&s, "%s%lld",
                      !s.n       ? ""
                      : x->c < 0 ? " - "
                                 : " + ",
                      (long long)(s.n && x->c < 0 ? -x->c : x->c));
  const char *text = vtb_arena_strdup(&e->c->arena, s.at);
  vtb_strbuf_free(&s);
  return text;
}

/* ---- probing --------------------------------------------------------------------------------- */

/* A kernel of its own, which is thrown away. */
void *vtb__cuda_begin_probe(vtb_body *b) {
  static char variable[] = "i";
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  int64_t elements = 1;
  for (int k = 0; k < b->n_vars; k++) elements *= b->var_size[k];
  e->wide |= vtb_cuda_is_far(e->c, elements);
  e->behind = e->k;
  e->k = vtb_cuda_begin(e->c, "probe", 32);
  return variable;
}

void vtb__cuda_end_probe(vtb_body *b) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  vtb__cuda_discard(e->k);
  e->k = e->behind;
}

void vtb__cuda_begin_lanes(vtb_cuda_expr *e, int lanes) {
  e->body.lanes = lanes;
  e->body.vec = e->body.n_groups - 1;
  e->body.memo.n = 0;
  e->no_lanes = false;
  e->next_name = 0;
  e->whole = e->apart = 0;
}

/* ---- numbers to variables -------------------------------------------------------------------- */

static int64_t steps_of(const vtb_cuda_expr *e, int g) {
  return e->body.groups[g].size / (g == e->body.vec ? e->body.lanes : 1);
}

int64_t vtb__cuda_groups_size(const vtb_cuda_expr *e, const int *groups, int n) {
  int64_t size = 1;
  for (int i = 0; i < n; i++) size *= steps_of(e, groups[i]);
  return size;
}

void vtb__cuda_decode(vtb_cuda_expr *e, const char *linear, const int *groups, int n) {
  int64_t inner = 1;
  for (int i = n; i-- > 0;) {
    int g = groups[i];
    vtb_strbuf s = {0};
    bool whole = n == 1 && inner == 1;
    vtb_strbuf_printf(&s, whole ? "%s" : "(%s)", linear);
    if (inner > 1) vtb_strbuf_printf(&s, " / %lld", (long long)inner);
    if (i > 0) vtb_strbuf_printf(&s, " %% %lld", (long long)steps_of(e, g));
    if (g == e->body.vec && e->body.lanes > 1) vtb_strbuf_printf(&s, " * %d", e->body.lanes);
    e->body.groups[g].value = vtb_arena_printf(&e->c->arena, "i%d", g);
    if (!vtb_streq(s.at, e->body.groups[g].value))
      vtb_cuda_line(e->k, "const %s %s = %s;", vtb__cuda_int(e),
                    (const char *)e->body.groups[g].value, s.at);
    vtb_strbuf_free(&s);
    inner *= steps_of(e, g);
  }
}
