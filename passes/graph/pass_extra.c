/* pass_extra: a depthwise convolution of a grid lets the extra tokens of its sequence past.
 *
 *   %s = slice %x ... %t = slice %x ...       the tokens of the grid
 *   %g = concat %s, %t {axis = 1}
 *   %c = dwconv %g, %w {grid = [14, 14]}
 *   %y = add %c, %b                           or none
 *   %z = concat slice %y, slice %x, slice %y {axis = 1}
 *   =>
 *   %z = dwconv %x, %w, %b {grid = [14, 14], extra = [98]}
 *
 * A class token, registers: the sequence is not taken apart and put together again in either
 * direction of training, orders of tokens go on through it (path_fold), and kernels before and
 * behind have all tokens. Before path_fold. Declines where something else reads what is between, or
 * where tokens change places.
 */
#include "passes/passes_internal.h"

#include "ir/axes.h"

enum { TOKENS = 1 }; /* their axis */

typedef struct extra_tokens {
  vtb_inst *conv, *last; /* last: of what is between the convolution and the sequence */
  vtb_value *x, *start;
  int64_t *at;
  int n;
} extra_tokens;

/* The sequence of which v is the tokens from *first on; v itself, from 0 on. */
static vtb_value *piece_of(vtb_value *v, int64_t *first) {
  const vtb_inst *i = v->def;
  vtb_slice s = i && i->op == VTB_OP_slice ? vtb_slice_of(i) : (vtb_slice){0};
  bool cut = s.axis == TOKENS && s.step == 1;
  *first = cut ? s.start : 0;
  return cut ? i->operands[0] : v;
}

static int64_t tokens_of(const vtb_value *v) { return v->type.dim[TOKENS].size; }

/* A number a channel, [C] or that broadcast; NULL: not. */
static vtb_value *of_channels(vtb_value *v) {
  if (v->def && v->def->op == VTB_OP_broadcast) v = v->def->operands[0];
  return v->type.rank == 1 && v->type.dtype == VTB_F32 ? v : NULL;
}

/* y is the convolution, or a number a channel added to it. */
static bool find_convolution(extra_tokens *e, vtb_value *y) {
  vtb_inst *i = y->def;
  e->last = i;
  for (int o = 0; i && i->op == VTB_OP_add && o < 2; o++) {
    const vtb_inst *conv = i->operands[o]->def;
    e->start = of_channels(i->operands[1 - o]);
    if (conv && conv->op == VTB_OP_dwconv && e->start && vtb_only_reader(conv->results[0]) == i)
      i = i->operands[o]->def;
  }
  if (!i || i->op != VTB_OP_dwconv || i->n_operands != 2) return false;
  e->conv = i;
  return !vtb_attr_find(i, "path") && !vtb_attr_find(i, "extra") && !vtb_is_returned(y);
}

/* Tokens that the convolution does not have stand where x has them, the others in their order. */
static bool find_extra(extra_tokens *e, const vtb_inst *sequence) {
  const vtb_value *y = e->last->results[0];
  int64_t at = 0, cells = 0, first;
  for (int o = 0; o < sequence->n_operands; o++) {
    vtb_value *part = sequence->operands[o], *of = piece_of(part, &first);
    int64_t n = tokens_of(part);
    if (of == y) {
      if (first != cells) return false;
      cells += n;
    } else {
      if (first != at || (e->x && of != e->x)) return false;
      e->x = of;
      for (int64_t i = 0; i < n; i++) e->at[e->n++] = at + i;
    }
    at += n;
  }
  return e->x && cells == tokens_of(y) && tokens_of(e->x) == at;
}

/* The convolution reads x without these. */
static bool reads_the_rest(const extra_tokens *e) {
  vtb_value *whole = e->conv->operands[0];
  vtb_inst *joined = whole->def && whole->def->op == VTB_OP_concat ? whole->def : NULL;
  if (joined && vtb_attr_int(joined, "axis", 0) != TOKENS) return false;
  int64_t at = 0, first; /* at: of x, behind what has been read */
  int e_at = 0;
  for (int o = 0; o < (joined ? joined->n_operands : 1); o++) {
    vtb_value *part = joined ? joined->operands[o] : whole;
    if (piece_of(part, &first) != e->x) return false;
    for (; e_at < e->n && e->at[e_at] == at; e_at++) at++;
    if (first != at) return false;
    at += tokens_of(part);
    if (e_at < e->n && e->at[e_at] < at) return false;
  }
  return true;
}

static bool only_sequence_reads(const extra_tokens *e, const vtb_inst *sequence) {
  for (vtb_inst **r = vtb__readers(e->last->results[0]); *r; r++)
    if (*r != sequence &&
        ((*r)->op != VTB_OP_slice || vtb_only_reader((*r)->results[0]) != sequence))
      return false;
  return true;
}

static void take(const extra_tokens *e, vtb_inst *sequence) {
  vtb_attr attrs[8];
  vtb_builder b = vtb__before(sequence);
  vtb_value *operands[] = {e->x, e->conv->operands[1], e->start};
  int n = vtb_attrs_of(e->conv, "grid pad", attrs);
  attrs[n++] = VTB_A_INTS("extra", e->at, e->n);
  b.span = e->conv->span;
  b.name_hint = e->conv->results[0]->name;
  vtb_inst *conv = vtb_build(&b, VTB_OP_dwconv, operands, e->start ? 3 : 2, attrs, n);
  vtb_replace_all(sequence->results[0], conv->results[0]);
  vtb_inst_unlink(sequence);
}

void vtb__visit_pass_extra(const vtb_pass_context *c, vtb_func *f) {
  (void)c;
  vtb_func_number(f);
  VTB__EACH_INST(f, i, next) {
    if (i->op != VTB_OP_concat || vtb_attr_int(i, "axis", 0) != TOKENS) continue;
    for (int o = 0; o < i->n_operands; o++) {
      extra_tokens e = {.at = VTB_SCRATCH(f, int64_t, tokens_of(i->results[0]))};
      int64_t first;
      if (!find_convolution(&e, piece_of(i->operands[o], &first))) continue;
      if (e.last == e.conv) e.start = NULL;
      if (find_extra(&e, i) && reads_the_rest(&e) && only_sequence_reads(&e, i)) take(&e, i);
      break;
    }
  }
}
