/* The second half of fuse_norms: rows that are kept as two numbers of 16 bits, of which products
 * read the first.
 *
 *   %x, %x16 = fused @add(...) {kind = "product"} : f32[b, n, c], bf16[b, n, c]
 *   %y = fused @add(%a, %w, %x) {kind = "product"}
 *   =>
 *   %x16, %rest = fused @add(...) {kind = "product"} : bf16[b, n, c], bf16[b, n, c]
 *   %y = fused @add(%a, %w, %x16, %rest) {kind = "product"}      // x16 + rest where x was
 *
 * The sum of both is x to 2^-17 of itself; a residual stream is written and read as 4 bytes an
 * element, not as 6. Declines, for all streams, if anything reads one that is no elementwise or row
 * kernel and no product that adds it.
 */
#include "passes/fuse/fuse_norms.h"

#include <stdlib.h>

/* ---- whether --------------------------------------------------------------------------------- */

/* Arguments that are one value at every call are one argument. */
static void join_arguments(fusing *s, vtb_func *f) {
  for (int a = 0; a < f->n_args; a++)
    for (int b = a + 1; b < f->n_args; b++) {
      bool same = vtb_type_equal(&f->args[a]->type, &f->args[b]->type), called = false;
      for (size_t g = 0; g < s->n_funcs && same; g++)
        for (const vtb_inst *i = s->funcs[g]->first; i && same; i = i->next) {
          if (i->callee != f) continue;
          called = true;
          same = i->op == VTB_OP_call && i->operands[a] == i->operands[b];
        }
      if (same && called) vtb_replace_all(f->args[b], f->args[a]);
    }
}

void vtb__join_stream_arguments(fusing *s) {
  for (size_t g = s->n_funcs; g-- > 0;) /* callers first */
    if (s->funcs[g] != s->module->entry) join_arguments(s, s->funcs[g]);
}

/* A product's operand that it adds: to its sum, or in its epilogue. */
static bool adds(const vtb_inst *product, int o, const vtb_value *x) {
  const vtb_inst *einsum = vtb__einsum_of(product);
  if (o < 2) return false;
  return o >= einsum->n_operands || vtb_type_equal(&x->type, &einsum->results[0]->type);
}

static bool reads_halves(const fusing *s, const vtb_inst *i, const vtb_value *x) {
  vtb_kernel_kind kind = vtb_kernel_kind_of(i);
  bool can = kind == VTB_KERNEL_LOOP || kind == VTB_KERNEL_ROW || i->op == VTB_OP_call ||
             vtb__einsum_of(i);
  for (int o = 0; can && o < i->n_operands; o++) {
    if (i->operands[o] != x) continue;
    const vtb_value *arg = i->op == VTB_OP_call ? i->callee->args[o] : NULL;
    if (arg) can = vtb__source_of(s, arg) || !vtb_is_read(arg);
    if (vtb__einsum_of(i)) can = adds(i, o, x);
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
    vtb_inst **readers;
    size_t n = vtb_value_readers(x, &readers);
    for (size_t i = 0; i < n && can; i++) can = reads_halves(s, readers[i], x);
    vtb_free(readers);
    can &= x->func != s->module->entry || !vtb_is_returned(x);
  }
  return can;
}

/* ---- readers --------------------------------------------------------------------------------- */

static vtb_value *without(const vtb_value *v, const vtb_value *x, vtb_value *narrow) {
  return v == x ? narrow : (vtb_value *)v;
}

/* The reader with both halves where x was: the second behind its other operands. */
static void read_both(fusing *s, vtb_inst *reader, const row_source *x) {
  const vtb_inst *einsum = vtb__einsum_of(reader);
  const vtb_func *body = reader->op == VTB_OP_fused ? reader->callee : NULL;
  vtb_func *f = reader->func, *k = vtb__kernel_new(reader);
  vtb_builder b = {.module = f->module, .func = k, .span = reader->span};
  bool starts = einsum && einsum->n_operands == 3 && reader->operands[2] == x->x;
  size_t room = (size_t)(body ? body->n_values : 0) + (size_t)reader->n_operands + 3;
  vtb_value **inputs = vtb_xcalloc(room, sizeof *inputs), **args = vtb_xcalloc(room, sizeof *args),
            **inside = vtb_xcalloc(room, sizeof *inside);
  int n = reader->n_operands;
  for (int o = 0; o < n; o++) inputs[o] = without(reader->operands[o], x->x, x->narrow);
  inputs[n++] = x->rest;
  for (int o = 0; o < n; o++) args[o] = vtb__kernel_argument(k, inputs[o]);
  vtb_value *sum = NULL, *product = NULL;
  if (einsum) { /* it is the first of the body */
    vtb_inst *copy = vtb_build(&b, VTB_OP_einsum, args, starts ? 2 : einsum->n_operands,
                               einsum->attrs, einsum->n_attrs);
    product = copy->results[0];
  }
  for (int o = 0; o < reader->n_operands; o++) {
    if (reader->operands[o] != x->x) continue;
    if (!sum) sum = vtb_b_binary(&b, VTB_OP_add, args[o], args[n - 1]);
    args[o] = sum;
  }
  if (starts) product = vtb_b_binary(&b, VTB_OP_add, product, sum);
  if (body) {
    for (int a = 0; a < body->n_args; a++) inside[body->args[a]->id] = args[a];
    if (einsum) inside[einsum->results[0]->id] = product;
    vtb__copy_body_from(&b, einsum ? einsum->next : body->first, inside);
  }
  vtb_value **returns = vtb_xcalloc((size_t)reader->n_results + 1, sizeof *returns);
  returns[0] = product;
  for (int r = 0; body && r < body->n_returns; r++) returns[r] = inside[body->returns[r]->id];
  vtb_func_set_returns(k, returns, NULL, reader->n_results);
  vtb_inst *now = vtb__call_kernel(
      f, reader, k, einsum ? VTB_KERNEL_PRODUCT : vtb_kernel_kind_of(reader), inputs, n);
  vtb__replace_kernel(s, reader, now, NULL);
  vtb_free(inputs);
  vtb_free(args);
  vtb_free(inside);
  vtb_free(returns);
}

/* ---- results that nobody reads any more ------------------------------------------------------ */

static void drop_results(fusing *s, vtb_inst *product) {
  const vtb_func *body = product->callee;
  int n = 0;
  for (int r = 0; r < product->n_results; r++) n += vtb_is_read(product->results[r]);
  if (n == product->n_results || n == 0) return;
  vtb_func *k = vtb__kernel_new(product);
  vtb_builder b = {.module = k->module, .func = k, .span = product->span};
  vtb_value **inside = vtb_xcalloc((size_t)body->n_values + 1, sizeof *inside);
  vtb_value **returns = vtb_xcalloc((size_t)n + 1, sizeof *returns);
  for (int a = 0; a < body->n_args; a++)
    inside[body->args[a]->id] = vtb__kernel_argument(k, product->operands[a]);
  vtb__copy_body(&b, body, inside);
  for (int r = 0, at = 0; r < product->n_results; r++)
    if (vtb_is_read(product->results[r])) returns[at++] = inside[body->returns[r]->id];
  vtb_func_set_returns(k, returns, NULL, n);
  vtb_inst *now = vtb__call_kernel(product->func, product, k, VTB_KERNEL_PRODUCT, product->operands,
                                   product->n_operands);
  int *map = vtb_xcalloc((size_t)product->n_results + 1, sizeof *map);
  for (int r = 0, at = 0; r < product->n_results; r++)
    map[r] = vtb_is_read(product->results[r]) ? at++ : -1;
  vtb__replace_kernel(s, product, now, map);
  vtb_free(map);
  vtb_free(inside);
  vtb_free(returns);
}

void vtb__halve(fusing *s) {
  for (size_t k = 0; k < s->sources.n; k++) {
    const row_source *x = &s->sources.at[k];
    vtb_inst **readers;
    size_t n = vtb_value_readers(x->x, &readers);
    for (size_t i = 0; i < n; i++)
      if (readers[i]->op != VTB_OP_call && readers[i] != x->narrow->def)
        read_both(s, readers[i], x);
    vtb_free(readers);
  }
}

void vtb__drop_results(fusing *s) {
  for (size_t g = 0; g < s->n_funcs; g++)
    for (vtb_inst *i = s->funcs[g]->first, *next; i; i = next) {
      next = i->next;
      if (vtb_kernel_kind_of(i) == VTB_KERNEL_PRODUCT) drop_results(s, i);
    }
}
