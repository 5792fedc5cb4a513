/* storage: which values are 16 bits wide in memory.
 *
 *   %y = einsum %x, %w {precision = "bf16", ...} : f32[...]
 *   %z = einsum %y, %u {precision = "bf16", ...}
 *   =>
 *   %w.1 = cast %w {to = "bf16"} : bf16[...]
 *   %y = einsum %x, %w.1 {precision = "bf16", ...} : bf16[...]
 *
 * A product that rounds its factors to bf16 or fp16 loses nothing if they were stored so, and reads
 * half the bytes. Values that are one place in memory (views, parts of a concatenation, arguments
 * of calls) are one class and stored alike. A class is stored in 16 bits if
 *
 *   - nothing but such products reads it, so that nothing is rounded which was not; or,
 *   - where all products round (bf16-all), such a product reads it, whoever else does, or it is
 *     made by products, of such values alone, or of one at least and as large as the largest.
 *
 * So a residual stream and its adjoint are stored once, in 16 bits; the sums that make them are
 * those of a kernel's registers, in 32. Statistics and gates, which are smaller than what they are
 * made of, stay in 32 bits, and so does what is subtracted from a constant. Parameters stay fp32.
 * Those that only products read get a copy in 16 bits by a `cast` at the beginning of the entry,
 * which is one of the steps that runs do not repeat while parameters stay as they are (prepare.c).
 * In a training step, whose update reads and writes the parameters themselves, the copies are made
 * anew.
 *
 * Needs fused kernels, the products' attributes `precision` and `library`. Kernel functions keep
 * computing in f32: only values of plain functions change. Declines precisions without a type of 16
 * bits.
 */
#include "passes/passes_internal.h"

#include <string.h>

#include "ir/attention.h"
#include "ir/fold.h"
#include "ir/kernels.h"
#include "ir/narrow.h"
#include "ir/recurrence.h"

enum { BARRED = 1, FACTOR = 2, SUMMED = 4, READ = 8, PRODUCT = 16, MADE = 32, BIAS = 64 };

typedef struct storage {
  const vtb_func *entry;
  vtb_factors half; /* how products round that read 16 bits */
  vtb_dtype dtype;
  bool trusts; /* all products round: whoever asks for it wants speed */
  bool part;   /* the entry is a part of a program: its arguments and results are its values */
  vtb_func **funcs;
  size_t n_funcs;
  int *first, n_values; /* of each function's values */
  int *parent;          /* classes: union-find */
  unsigned char *facts; /* of the class, at its root */
  bool *narrow;         /* the values as the last round left them */
} storage;

/* ---- classes --------------------------------------------------------------------------------- */

static int number_of(const storage *s, const vtb_value *v) {
  for (size_t i = 0; i < s->n_funcs; i++)
    if (s->funcs[i] == v->func) return s->first[i] + v->id;
  vtb_bug("value %%%s of @%s is in no function of the program", v->name, v->func->name);
}

static int root_of(storage *s, int x) {
  while (s->parent[x] != x) x = s->parent[x] = s->parent[s->parent[x]];
  return x;
}

static void note(storage *s, const vtb_value *v, unsigned facts) {
  s->facts[root_of(s, number_of(s, v))] |= (unsigned char)facts;
}

static void join(storage *s, const vtb_value *v, const vtb_value *w) {
  int x = root_of(s, number_of(s, v)), y = root_of(s, number_of(s, w));
  s->facts[x] |= s->facts[y];
  s->parent[y] = x;
}

static void join_all(storage *s, const vtb_inst *i) {
  const vtb_value *first = i->n_operands ? i->operands[0] : i->results[0];
  for (int o = 1; o < i->n_operands; o++) join(s, first, i->operands[o]);
  for (int r = 0; r < i->n_results; r++) join(s, first, i->results[r]);
}

/* ---- what instructions make of values -------------------------------------------------------- */

static bool may_be_by_library(const vtb_inst *einsum) {
  return vtb_attr_int(einsum, "library", 0) != 0;
}

static bool is_much(const vtb_value *v, const vtb_value *beside) {
  return vtb_type_count(&v->type) * 8 > vtb_type_count(&beside->type);
}

/* Made of narrow values alone, but for statistics, gates and scales, and as large as they are; or
 * of one at least, and as large as the largest: a residual stream, to which branches are added, its
 * norm's adjoint. Statistics and gates are smaller than what they are made of. */
static bool follows(const storage *s, const vtb_inst *i, const vtb_value *result) {
  int64_t n = vtb_type_count(&result->type);
  bool any = false, all = true, same = false, smaller = false;
  for (int o = 0; o < i->n_operands && s->trusts; o++) {
    const vtb_value *v = i->operands[o];
    int64_t size = vtb_type_count(&v->type);
    if (v->type.dtype != VTB_F32 || !is_much(v, result)) continue;
    bool narrow = s->narrow[number_of(s, v)];
    all &= narrow && is_much(result, v);
    any = true;
    same |= narrow && size == n;
    smaller |= n < size;
  }
  return any && (all || (same && !smaller));
}

static bool is_complement_of(const vtb_inst *i, const vtb_value *v) {
  if (i->op != VTB_OP_sub || vtb_behind_moves(i->operands[1]) != v) return false;
  const vtb_value *from = vtb_behind_moves(i->operands[0]);
  return from->def && from->def->op == VTB_OP_constant;
}

/* Operand o is a gate or a decay: its distance from a constant is taken, 1 - f, of which 8
 * bits of f near 1 leave none. */
static bool is_complemented(const vtb_inst *i, int o) {
  if (i->op != VTB_OP_fused) return is_complement_of(i, vtb_behind_moves(i->operands[o]));
  for (const vtb_inst *inner = i->callee->first; inner; inner = inner->next)
    if (is_complement_of(inner, i->callee->args[o])) return true;
  return false;
}

/* Elementwise ops, norms and the like. */
static void note_computed(storage *s, const vtb_inst *i, unsigned read) {
  for (int o = 0; o < i->n_operands; o++)
    note(s, i->operands[o], is_complemented(i, o) ? read | MADE : read);
  for (int r = 0; r < i->n_results; r++)
    note(s, i->results[r], follows(s, i, i->results[r]) ? PRODUCT : MADE);
}

static void note_all(storage *s, const vtb_inst *i, unsigned read, unsigned made) {
  for (int o = 0; o < i->n_operands; o++) note(s, i->operands[o], read);
  for (int r = 0; r < i->n_results; r++) note(s, i->results[r], made);
}

/* A sum with something as large as the product is made, as a residual stream is: but for
 * bf16-all it is wide. */
static bool adds_to_stream(const storage *s, const vtb_inst *product, int n_factors) {
  int64_t n = vtb_type_count(&product->results[0]->type);
  for (int o = n_factors; o < product->n_operands && product->op != VTB_OP_attention_grad; o++)
    if (!s->trusts && vtb_type_count(&product->operands[o]->type) == n) return true;
  return false;
}

static bool reads_beyond(const vtb_inst *i, const vtb_value *v, int first) {
  for (int o = first; o < i->n_operands; o++)
    if (i->operands[o] == v) return true;
  return false;
}

/* The first `n` operands are factors. */
static void note_product(storage *s, const vtb_inst *i, int n, bool rounds) {
  bool bias = i->op == VTB_OP_einsum && rounds && s->trusts && may_be_by_library(i);
  for (int o = 0; o < i->n_operands; o++)
    if (rounds && o < n && !reads_beyond(i, i->operands[o], n))
      note(s, i->operands[o], FACTOR);
    else
      note(s, i->operands[o], bias && o == 2 ? BIAS : READ);
  rounds = rounds && !adds_to_stream(s, i, n);
  for (int r = 0; r < i->n_results; r++)
    note(s, i->results[r], rounds && is_much(i->results[r], i->operands[0]) ? PRODUCT : MADE);
}

static void note_einsum(storage *s, const vtb_inst *whole, const vtb_inst *einsum) {
  bool rounds = vtb_factors_of(einsum) == s->half;
  if (rounds)
    note_product(s, whole, 2, rounds);
  else
    note_computed(s, whole, READ);
  if (!rounds || einsum->n_operands < 3 || !may_be_by_library(einsum)) return;
  /* the library adds biases of the result's width: those, or else the result, have another */
  if (!s->trusts) note(s, whole->results[0], BARRED);
}

/* Alone or with what turns q and k first, which would be rounded twice. */
static void note_attention(storage *s, const vtb_inst *i) {
  const vtb_inst *inner = i->op == VTB_OP_fused ? vtb_turned_attention(i) : i;
  bool rounds = vtb_factors_of(inner) == s->half;
  vtb_attention a = vtb_attention_of(i);
  const int factors[] = {a.q, a.k, a.v};
  for (int o = 0; o < i->n_operands; o++)
    note(s, i->operands[o], o == a.q || o == a.k || o == a.v ? 0 : READ);
  for (int f = 0; f < 3; f++)
    note(s, i->operands[factors[f]],
         rounds && (s->trusts || f == 2 || !a.turn[f].width) ? FACTOR : READ);
  for (int r = 0; r < i->n_results; r++) note(s, i->results[r], rounds ? PRODUCT : MADE);
  /* logarithms are wide */
  if (inner->op == VTB_OP_attention) note(s, i->results[a.result[1] - i->n_operands], BARRED);
  if (a.lse >= 0) note(s, i->operands[a.lse], BARRED);
  if (a.dlse >= 0) note(s, i->operands[a.dlse], BARRED);
}

/* The tensors that are there. */
#define NOTE_TENSORS(s, i, facts, ...)                                                             \
  note_tensors(s, i, facts, (const int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))
static void note_tensors(storage *s, const vtb_inst *i, unsigned facts, const int *tensors,
                         size_t n) {
  for (size_t k = 0; k < n; k++)
    if (tensors[k] >= i->n_operands)
      note(s, i->results[tensors[k] - i->n_operands], facts);
    else if (tensors[k] >= 0)
      note(s, i->operands[tensors[k]], facts);
}

/* Tokens' rows may be of 16 bits; decays and states are not. */
static void note_scan(storage *s, const vtb_inst *whole, const vtb_inst *scan) {
  if (scan->op == VTB_OP_delta) { /* corrections come back with the state: all is wide */
    note_all(s, whole, BARRED, BARRED);
    return;
  }
  vtb_scan_tensors t = vtb_scan_of(scan).at;
  const int made[] = {t.y, t.dq, t.dk, t.dv};
  bool rounds = vtb_factors_of(scan) == s->half;
  NOTE_TENSORS(s, whole, rounds ? FACTOR : READ, t.q, t.k, t.v, t.dy);
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
    const vtb_value *v = made[i] < 0 ? NULL : whole->results[made[i] - whole->n_operands];
    if (v) note(s, v, rounds || follows(s, whole, v) ? PRODUCT : MADE);
  }
  NOTE_TENSORS(s, whole, BARRED, t.d, t.rates, t.s0, t.n0, t.dz, t.ds, t.dn, t.s, t.z, t.n, t.dd,
               t.drates, t.ds0, t.dn0);
}

/* A scan by products whose rows others read where they are made. */
static void note_mixer(storage *s, const vtb_inst *whole) {
  const vtb_inst *scan = vtb_mixer_scan(whole);
  vtb_scan_tensors t = vtb_scan_of(scan).at;
  const vtb_value *gain, *rows[3];
  const vtb_inst *map;
  for (int o = 0; o < 3; o++) rows[o] = vtb_mixer_rows(scan, o, &gain, &map);
  bool rounds = vtb_factors_of(scan) == s->half;
  for (int o = 0; o < whole->n_operands; o++) {
    const vtb_value *arg = whole->callee->args[o];
    bool factor = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) factor |= rows[i] == arg;
    bool only = vtb_reader_count(arg) == 1;
    note(s, whole->operands[o], factor && only && rounds ? FACTOR : READ);
  }
  NOTE_TENSORS(s, whole, BARRED, t.d, t.s0, t.n0);
  for (int r = 0; r < whole->n_results; r++) {
    const vtb_value *v = whole->results[r];
    bool y = whole->callee->returns[r] == scan->results[0];
    bool narrow = (y && rounds) || (is_much(v, whole->operands[0]) && follows(s, whole, v));
    note(s, v, narrow ? PRODUCT : MADE);
  }
}

/* A body with scans: rows and what it makes of them may be of 16 bits, states are not. */
static void note_scan_body(storage *s, const vtb_inst *whole) {
  note_computed(s, whole, READ);
  for (const vtb_inst *i = whole->callee->first; i; i = i->next) {
    if (i->op != VTB_OP_linscan && i->op != VTB_OP_linscan_grad) continue;
    vtb_scan_tensors t = vtb_scan_of(i).at;
    NOTE_TENSORS(s, whole, BARRED, t.s0, t.s, t.rates, t.drates);
  }
}

static bool is_concat(const vtb_inst *i) {
  const vtb_inst *only = i->callee->first;
  return only && !only->next && only->op == VTB_OP_concat;
}

/* Sums of strips of rows, or of shares of a product's depth. */
static bool is_part(const vtb_value *v) {
  if (v->def && vtb_is_share(v->def)) return true;
  return v->def && v->def->op == VTB_OP_reduce_sum && vtb_attr_int(v->def, "parts", 0);
}

/* Its adjoints, with keys that are multiplied by a number a token. */
static void note_mixer_grad(storage *s, const vtb_inst *whole) {
  const vtb_inst *scan = vtb_mixer_scan(whole);
  const vtb_value *gain = NULL, *by, *rows[3];
  const vtb_inst *map;
  bool rounds = vtb_factors_of(scan) == s->half;
  note_scan(s, whole, scan);
  for (int o = 0; o < 3; o++) {
    rows[o] = vtb_mixer_rows(scan, o, &by, &map);
    note(s, whole->operands[rows[o]->index], rounds ? FACTOR : READ);
    for (int w = 1; map && w < map->n_operands; w++)
      note(s, whole->operands[map->operands[w]->index], READ);
    if (by) gain = by;
    const vtb_inst *back = map ? vtb_mixer_back_of(scan, o).rows : NULL;
    const vtb_value *addend = back && back->n_operands == 3 ? back->operands[2] : NULL;
    if (addend && addend->def->op == VTB_OP_reshape && !addend->def->operands[0]->def)
      note(s, whole->operands[addend->def->operands[0]->index], READ);
  }
  if (gain) note(s, whole->operands[gain->index], BARRED);
  for (int r = 0; r < whole->n_results; r++) {
    const vtb_value *v = whole->callee->returns[r];
    if (v->def == scan) continue;
    bool sum = v->def->op == VTB_OP_reduce_sum || v->def->op == VTB_OP_einsum;
    note(s, whole->results[r], sum ? BARRED : rounds ? PRODUCT : MADE);
  }
}

/* The narrow factors of thin products beside a convolution. */
static void note_shares(storage *s, const vtb_inst *whole) {
  for (const vtb_inst *i = whole->callee->first; i; i = i->next)
    if (vtb_is_share(i) && vtb_factors_of(i) == s->half)
      note(s, whole->operands[i->operands[1]->index], FACTOR);
}

static void note_fused(storage *s, const vtb_inst *i) {
  const char *kind = vtb_attr_str(i, "kind", "");
  if (vtb_is_turned_attention(i))
    note_attention(s, i);
  else if (vtb_is_scans(i))
    for (const vtb_inst *scan = i->callee->first; scan; scan = scan->next) note_scan(s, i, scan);
  else if (vtb_streq(kind, "mixer"))
    note_mixer(s, i);
  else if (vtb_streq(kind, "mixer_grad"))
    note_mixer_grad(s, i);
  else if (vtb_streq(kind, "scan"))
    note_scan_body(s, i);
  else if (vtb_streq(kind, "product"))
    note_einsum(s, i, i->callee->first);
  else if (is_concat(i))
    join_all(s, i);
  else
    note_computed(s, i, vtb_streq(kind, "col") || vtb_streq(kind, "sums") ? SUMMED : READ);
  if (vtb_streq(kind, "local")) note_shares(s, i);
  for (int r = 0; r < i->n_results; r++)
    if (is_part(i->callee->returns[r])) note(s, i->results[r], BARRED);
}

static void note_call(storage *s, const vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++) join(s, i->callee->args[o], i->operands[o]);
  for (int r = 0; r < i->n_results; r++) join(s, i->callee->returns[r], i->results[r]);
}

static void bar(storage *s, const vtb_value *outside, const vtb_value *inside) {
  note(s, outside, BARRED);
  if (inside->func->kind == VTB_FUNC_PLAIN) note(s, inside, BARRED);
}

/* Sums of many steps: states and sequences have 32 bits. Constants are as in a call, where steps
 * are calls. */
static void note_fold(storage *s, const vtb_inst *i) {
  vtb_fold p = vtb_fold_of(i);
  const vtb_func *f = i->callee;
  int constants = p.states + p.seqs;
  for (int o = 0; o < i->n_operands; o++)
    if (o < constants || p.tile)
      bar(s, i->operands[o], f->args[o]);
    else
      join(s, f->args[o], i->operands[o]);
  for (int r = 0; r < i->n_results; r++) note(s, i->results[r], BARRED);
  for (int r = 0; r < f->n_returns && f->kind == VTB_FUNC_PLAIN; r++)
    note(s, f->returns[r], BARRED);
}

static bool is_param(const storage *s, const vtb_value *v) {
  return v->func == s->entry && !v->def && s->entry->arg_info[v->index].role == VTB_ROLE_PARAM;
}

static void note_inst(storage *s, const vtb_inst *i) {
  switch (i->op) {
  case VTB_OP_constant:
  case VTB_OP_delta:
    note_all(s, i, BARRED, BARRED);
    return;
  case VTB_OP_call:
    note_call(s, i);
    return;
  case VTB_OP_fold:
    note_fold(s, i);
    return;
  case VTB_OP_fused:
    note_fused(s, i);
    return;
  case VTB_OP_einsum:
    note_einsum(s, i, i);
    return;
  case VTB_OP_linscan:
  case VTB_OP_linscan_grad:
    note_scan(s, i, i);
    return;
  case VTB_OP_dwconv:
  case VTB_OP_dwconv_dx:
  case VTB_OP_dwconv_dw:
    note_all(s, i, READ, PRODUCT);
    return;
  case VTB_OP_attention:
  case VTB_OP_attention_grad:
    note_attention(s, i);
    return;
  default:
    break;
  }
  vtb_op_class klass = vtb_op_get(i->op)->klass;
  if (i->op == VTB_OP_cast && is_param(s, i->operands[0])) return; /* of any width, as parameters */
  if (klass == VTB_CLASS_SHAPE)
    join_all(s, i);
  else if (klass == VTB_CLASS_ELEMENTWISE || i->op == VTB_OP_im2col || i->op == VTB_OP_col2im)
    note_computed(s, i, READ);
  else
    note_all(s, i, BARRED, BARRED);
}

/* ---- the choice ------------------------------------------------------------------------------ */

static void note_func(storage *s, const vtb_func *f) {
  for (int a = 0; a < f->n_args; a++)
    if (f->args[a]->type.dtype != VTB_F32 ||
        (f == s->entry && !s->part && !is_param(s, f->args[a])))
      note(s, f->args[a], BARRED);
  for (int r = 0; r < f->n_returns && f == s->entry && !s->part; r++)
    note(s, f->returns[r], BARRED);
  for (const vtb_inst *i = f->first; i; i = i->next) {
    note_inst(s, i);
    for (int r = 0; r < i->n_results; r++)
      if (i->results[r]->type.dtype != VTB_F32) note(s, i->results[r], BARRED);
  }
}

static bool is_half(storage *s, int number) {
  unsigned facts = s->facts[root_of(s, number)];
  if (facts & BARRED) return false;
  if (facts & FACTOR && s->trusts) return true;
  if (facts & (FACTOR | BIAS) && !(facts & (s->trusts ? READ : READ | SUMMED))) return true;
  return s->trusts && facts & PRODUCT && !(facts & MADE);
}

/* Until nothing more follows from what is narrow; each round can only add to it. */
static void note_program(storage *s) {
  for (bool changed = true; changed;) {
    memset(s->facts, 0, (size_t)s->n_values);
    for (size_t i = 0; i < s->n_funcs; i++) note_func(s, s->funcs[i]);
    changed = false;
    for (int x = 0; x < s->n_values; x++) {
      bool half = is_half(s, x);
      changed |= half && !s->narrow[x];
      s->narrow[x] |= half;
    }
  }
}

static void set(storage *s, vtb_value *v) {
  if (s->narrow[number_of(s, v)]) v->type.dtype = s->dtype;
}

static vtb_value *cast_parameter(vtb_value *v, vtb_dtype to, const char *name) {
  vtb_builder b = vtb__before(v->func->first);
  b.span = v->func->arg_info[v->index].span;
  b.name_hint = name;
  return vtb_b_cast(&b, v, to);
}

/* A copy of the parameter takes its place. */
static void cast(storage *s, vtb_value *v) {
  if (!s->narrow[number_of(s, v)]) return;
  vtb_value *copy = cast_parameter(v, s->dtype, NULL);
  for (vtb_inst *i = copy->def->next; i; i = i->next) vtb_inst_replace_operand(i, v, copy);
}

/* ---- parameters that the step changes -------------------------------------------------------- */

/* Its readers but the update, through a cast that changes nothing yet. */
static vtb_inst *part_from_update(vtb_value *v) {
  vtb_inst **readers = vtb__readers(v);
  bool updated = false, read = false;
  for (vtb_inst **r = readers; *r; r++) *((*r)->op == VTB_OP_update ? &updated : &read) = true;
  if (!updated || !read) return NULL;
  vtb_value *copy = cast_parameter(v, VTB_F32, v->name);
  for (vtb_inst **r = readers; *r; r++)
    if ((*r)->op != VTB_OP_update) vtb_inst_replace_operand(*r, v, copy);
  return copy->def;
}

/* A cast that is narrow now stays. */
static void finish_cast(const storage *s, vtb_inst *copy) {
  if (s->narrow[number_of(s, copy->results[0])]) {
    vtb_attr_set(copy, VTB_A_STR("to", vtb_dtype_name(s->dtype)));
  } else {
    vtb_replace_all(copy->results[0], copy->operands[0]);
    vtb_inst_unlink(copy);
  }
}

static void set_func(storage *s, vtb_func *f) {
  for (int a = 0; a < f->n_args && f != s->entry; a++) set(s, f->args[a]);
  for (vtb_inst *i = f->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++) set(s, i->results[r]);
}

static void begin(storage *s) {
  int values = 0;
  s->funcs = vtb__callees_first(s->entry->module, (vtb_func *)s->entry);
  for (size_t i = 0; s->funcs[i]; i++)
    if (s->funcs[i]->kind == VTB_FUNC_PLAIN) s->funcs[s->n_funcs++] = s->funcs[i];
  s->first = VTB_SCRATCH(s->entry, int, s->n_funcs);
  for (size_t i = 0; i < s->n_funcs; i++) {
    s->first[i] = values;
    values += s->funcs[i]->n_values;
  }
  s->n_values = values;
  s->narrow = VTB_SCRATCH(s->entry, bool, values);
  s->parent = VTB_SCRATCH(s->entry, int, values);
  s->facts = VTB_SCRATCH(s->entry, unsigned char, values);
  for (int i = 0; i < values; i++) s->parent[i] = i;
}

static storage storage_of(const vtb_func *entry, vtb_precision precision) {
  static const struct {
    vtb_factors half;
    vtb_dtype dtype;
  } by_precision[VTB_N_PRECISIONS] = {[VTB_PRECISION_BF16] = {VTB_FACTORS_BF16, VTB_BF16},
                                      [VTB_PRECISION_BF16_ALL] = {VTB_FACTORS_BF16, VTB_BF16},
                                      [VTB_PRECISION_FP16] = {VTB_FACTORS_FP16, VTB_F16}};
  return (storage){.entry = entry,
                   .half = by_precision[precision].half,
                   .dtype = by_precision[precision].dtype,
                   .trusts = precision == VTB_PRECISION_BF16_ALL};
}

void vtb__change_storage(vtb_pass_context *c) {
  vtb_func *entry = c->module->entry;
  storage s = storage_of(entry, c->precision);
  if (!vtb_is_half(s.dtype)) return;
  vtb_inst **copies = VTB_SCRATCH(entry, vtb_inst *, entry->n_args);
  for (int a = 0; a < entry->n_args; a++)
    if (is_param(&s, entry->args[a])) copies[a] = part_from_update(entry->args[a]);
  begin(&s);
  note_program(&s);
  for (size_t i = 0; i < s.n_funcs; i++) set_func(&s, s.funcs[i]);
  for (int a = entry->n_args; a-- > 0;) cast(&s, entry->args[a]);
  for (int a = 0; a < entry->n_args; a++)
    if (copies[a]) finish_cast(&s, copies[a]);
}

/* ---- of a part of a program ------------------------------------------------------------------ */

/* Inputs are narrow if that is usual: as large as other things, where all products round. */
static void assume(storage *s, const vtb_func *f) {
  const vtb_value *largest = f->returns[0];
  for (int a = 0; a < f->n_args; a++)
    if (vtb_type_count(&f->args[a]->type) > vtb_type_count(&largest->type)) largest = f->args[a];
  for (int a = 0; a < f->n_args; a++)
    s->narrow[number_of(s, f->args[a])] =
        s->trusts && f->args[a]->type.dtype == VTB_F32 && is_much(f->args[a], largest);
}

void vtb_storage_guess(vtb_func *f, vtb_precision precision) {
  storage s = storage_of(f, precision);
  if (!vtb_is_half(s.dtype) || !f->n_returns) return;
  s.part = true;
  begin(&s);
  assume(&s, f);
  note_program(&s);
  for (int a = 0; a < f->n_args; a++) {
    int number = number_of(&s, f->args[a]);
    s.narrow[number] &= !(s.facts[root_of(&s, number)] & (BARRED | MADE));
    set(&s, f->args[a]);
  }
  set_func(&s, f);
}
