/* The second half of fuse_norms: rows that are kept as two numbers of 16 bits, of which products
 * read the first.
 *
 *   %x16, %rest, ... = fused @x(%x) {kind = "row"} : bf16[b, n, c], bf16[b, n, c], ...
 *   %y = add %p, %x
 *   =>
 *   %wide = add %x16, %rest
 *   %y = add %p, %wide
 *
 * The sum of both is x to 2^-17 of itself; a residual stream is written and read as 4 bytes an
 * element, not as 6. Declines, for all streams, if anything reads one that is not elementwise, a
 * sum of a row, or a product that adds it.
 */
#include "ir/axes.h"
#include "passes/fuse/fuse_norms.h"

/* ---- whether --------------------------------------------------------------------------------- */

/* Arguments that are one value at every call are one argument. */
static void join_arguments(vtb_func *f) {
  vtb_inst **calls = vtb__calls_of(f);
  for (int a = 0; a < f->n_args; a++)
    for (int b = a + 1; b < f->n_args; b++) {
      bool same = *calls && vtb_type_equal(&f->args[a]->type, &f->args[b]->type);
      for (vtb_inst **call = calls; *call && same; call++)
        same = (*call)->op == VTB_OP_call && (*call)->operands[a] == (*call)->operands[b];
      if (same) vtb_replace_all(f->args[b], f->args[a]);
    }
}

void vtb__join_stream_arguments(fusing *s) {
  for (size_t g = s->n_funcs; g-- > 0;) /* callers first */
    if (s->funcs[g] != s->module->entry) join_arguments(s->funcs[g]);
}

static bool reads_halves(const fusing *s, const vtb_inst *i, const vtb_value *x) {
  const vtb_op_class klass = vtb_op_get(i->op)->klass;
  const bool einsum = i->op == VTB_OP_einsum, call = i->op == VTB_OP_call;
  bool can = klass == VTB_CLASS_ELEMENTWISE || vtb_reduces_last(i) || call || einsum;
  for (int o = 0; can && o < i->n_operands; o++) {
    if (i->operands[o] != x) continue;
    if (call) can = vtb__source_of(s, i->callee->args[o]) || !vtb_is_read(i->callee->args[o]);
    if (einsum) can = o == 2 && vtb_type_equal(&x->type, &i->results[0]->type);
  }
  return can;
}

/* Results of calls that are not normed where their callee's are. */
static void want_results(fusing *s) {
  for (size_t g = 0; g < s->n_funcs; g++)
    for (vtb_inst *i = s->funcs[g]->first; i; i = i->next)
      for (int r = 0; i->op == VTB_OP_call && r < i->n_results; r++)
        if (vtb__source_of(s, i->callee->returns[r])) vtb__want(s, i->results[r]);
}

bool vtb__can_halve(fusing *s) {
  for (size_t n = 0; n != s->sources.n;) {
    n = s->sources.n;
    want_results(s);
  }
  bool can = true;
  for (size_t k = 0; k < s->sources.n && can; k++) {
    const vtb_value *x = s->sources.at[k].x;
    for (vtb_inst **r = vtb__readers(x); *r && can; r++) can = reads_halves(s, *r, x);
    can &= x->func != s->module->entry || !vtb_is_returned(x);
  }
  return can;
}

/* ---- readers --------------------------------------------------------------------------------- */

static bool keeps(const vtb__norm_source *x, const vtb_inst *i) {
  for (const vtb_inst *k = x->first; k; k = k == x->last ? NULL : k->next)
    if (k == i) return true;
  return false;
}

static void read_both(const fusing *s, vtb_inst *reader, const vtb__norm_source *x) {
  vtb_builder b = vtb__before(reader);
  vtb_value *wide = vtb_b_binary(&b, VTB_OP_add, x->kept[NARROW], x->kept[REST]);
  if (reader->op == VTB_OP_einsum) { /* a product takes the sum */
    vtb_value *bare =
        vtb_build(&b, VTB_OP_einsum, reader->operands, 2, reader->attrs, reader->n_attrs)
            ->results[0];
    vtb__stands_for(s, reader->results[0], vtb_b_binary(&b, VTB_OP_add, bare, wide));
    vtb_inst_unlink(reader);
    return;
  }
  vtb_inst_replace_operand(reader, x->x, wide);
}

void vtb__halve(const fusing *s) {
  for (size_t k = 0; k < s->sources.n; k++) {
    const vtb__norm_source *x = &s->sources.at[k];
    for (vtb_inst **r = vtb__readers(x->x); *r; r++)
      if ((*r)->op != VTB_OP_call && !keeps(x, *r)) read_both(s, *r, x);
  }
}
