/* Shared by the files of this folder: values and names, shape rules, attributes. Not for other
 * folders. */
#ifndef VTB_IR_INTERNAL_H
#define VTB_IR_INTERNAL_H

#include "ir/diag_codes.h"
#include "ir/ir.h"
#include "ir/narrow.h"
#include "ir/path.h"
#include "ir/product.h"

#include <stdlib.h>
#include <string.h>

/* Bounds on numbers in types and attributes, so that products of two of them stay within 64
 * bits. */
#define VTB__MAX_DIM (INT64_C(1) << 31)
#define VTB__MAX_COUNT (INT64_C(1) << 46)
#define VTB__MAX_CALL_DEPTH 256

/* A module with the tables that its users need not see. */
typedef struct vtb__module {
  vtb_module base;
  vtb_map interned;  /* string -> the copy in the arena */
  vtb_map functions; /* name -> function; NULL once removed */
  vtb_map suffixes;  /* name -> the lowest number that may be free behind it */
  vtb_map products;  /* an einsum's spec -> its letters (product.c) */
} vtb__module;

/* ---- names and values ------------------------------------------------------------------------ */

bool vtb__is_name_char(char c, bool first);
/* axis names into the module, made identifiers */
vtb_type vtb__type_intern(vtb_module *m, const vtb_type *t);
/* t with the axis names of `named` (may be NULL) if the two are equal. */
vtb_type vtb__type_with_names(vtb_type t, const vtb_type *named);
vtb_value *vtb__value_new(vtb_func *f, const char *hint, const vtb_type *type, vtb_inst *def,
                          int index);
/* Room for one more in an arena array of n that grows by doubling at powers of two. */
void *vtb__array_grow(vtb_arena *a, void *at, int n, size_t elem_bytes);
void vtb__inst_link(vtb_func *f, vtb_inst *inst, vtb_inst *before);
/* An instruction with copied attributes, without results, not linked. */
vtb_inst *vtb__inst_new(vtb_func *f, vtb_op op, vtb_func *callee, vtb_value *const *operands, int n,
                        const vtb_attr *attrs, int n_attrs, vtb_span span);
vtb_attr vtb__attr_copy(vtb_module *m, vtb_attr a);
/* "f32[B, N=196]" in memory of the arena. */
const char *vtb__type_text(vtb_arena *a, const vtb_type *t);

/* Functions reachable from the roots added, callees first, each once. */
typedef struct vtb__func_order {
  vtb_map seen;
  VTB_VEC(vtb_func *) list;
} vtb__func_order;
void vtb__order_add(vtb__func_order *o, vtb_func *root);

/* ---- attributes ------------------------------------------------------------------------------ */

/* One word of an op's attribute schema, "axes:ints" or "keep:int?". Returns the rest of the schema,
 * NULL at its end. */
typedef struct vtb__attr_spec {
  char key[32];
  vtb_attr_kind kind;
  bool optional;
} vtb__attr_spec;
const char *vtb__attr_spec_next(const char *schema, vtb__attr_spec *spec);
bool vtb__attr_spec_find(vtb_op op, const char *key, vtb__attr_spec *spec);

/* ---- shape rules ----------------------------------------------------------------------------- */

/* One application of a rule: reads `inst` (operands, attributes, callee), pushes result types or
 * fails. */
typedef struct vtb__shape {
  const vtb_inst *inst;
  const vtb_type *given; /* types the maker of the instruction gave, or NULL */
  int n_given;
  vtb_type *wide; /* of the operands, as they are computed with */
  VTB_VEC(vtb_type) results;
  int code; /* of the first failure, 0 while there is none */
  char *text;
  vtb_arena scratch;
} vtb__shape;

typedef bool (*vtb__shape_fn)(vtb__shape *s);

/* Checks operand count, attributes and shapes of `inst` and computes its result types. The caller
 * frees with vtb__shape_free() whether it holds or not. */
bool vtb__shape_infer(vtb__shape *s, const vtb_inst *inst, const vtb_type *given, int n_given);
void vtb__shape_free(vtb__shape *s);

/* always false */
bool vtb__shape_fail(vtb__shape *s, int code, const char *fmt, ...) VTB_PRINTF(3, 4);
void vtb__shape_push(vtb__shape *s, vtb_type t);
const vtb_type *vtb__shape_operand(const vtb__shape *s, int i);
const char *vtb__shape_text(vtb__shape *s, const vtb_type *t);
bool vtb__shape_axis(vtb__shape *s, const vtb_type *t, int64_t axis);
/* The attribute's list if it has exactly n entries, else NULL and a failure. */
const int64_t *vtb__shape_list(vtb__shape *s, const char *key, int n);
bool vtb__shape_f32(vtb__shape *s);
/* The operand can be added to t, a product. */
bool vtb__shape_adds(vtb__shape *s, int operand, const vtb_type *t);
/* Checks the optional `path` attribute against a sequence of n positions. */
bool vtb__shape_path(vtb__shape *s, int64_t n);
vtb_dim vtb__dim(int64_t size, const char *name);

bool vtb__shape_given(vtb__shape *s);
bool vtb__shape_broadcast(vtb__shape *s);
bool vtb__shape_cast(vtb__shape *s);
bool vtb__shape_reduce(vtb__shape *s);
bool vtb__shape_reshape(vtb__shape *s);
bool vtb__shape_expand(vtb__shape *s);
bool vtb__shape_transpose(vtb__shape *s);
bool vtb__shape_slice(vtb__shape *s);
bool vtb__shape_pad(vtb__shape *s);
bool vtb__shape_concat(vtb__shape *s);
bool vtb__shape_permute(vtb__shape *s);
bool vtb__shape_shift(vtb__shape *s);
bool vtb__shape_prefix_sum(vtb__shape *s);
bool vtb__shape_gather(vtb__shape *s);
bool vtb__shape_scatter_sum(vtb__shape *s);
bool vtb__shape_einsum(vtb__shape *s);
bool vtb__shape_quantize(vtb__shape *s);
bool vtb__shape_product8(vtb__shape *s);
bool vtb__shape_im2col(vtb__shape *s);
bool vtb__shape_col2im(vtb__shape *s);
bool vtb__shape_dwconv(vtb__shape *s);
bool vtb__shape_dwconv_dx(vtb__shape *s);
bool vtb__shape_dwconv_dw(vtb__shape *s);
bool vtb__shape_recurrence(vtb__shape *s);
bool vtb__shape_linscan(vtb__shape *s);
bool vtb__shape_linscan_grad(vtb__shape *s);
bool vtb__shape_delta(vtb__shape *s);
bool vtb__shape_maxplus(vtb__shape *s);
bool vtb__shape_maxplus_grad(vtb__shape *s);
bool vtb__shape_attention(vtb__shape *s);
bool vtb__shape_attention_grad(vtb__shape *s);
bool vtb__shape_call(vtb__shape *s);
bool vtb__shape_tangent(vtb__shape *s);
bool vtb__shape_fold(vtb__shape *s);
bool vtb__shape_verdict(vtb__shape *s);
bool vtb__shape_update(vtb__shape *s);
bool vtb__shape_sum_ranks(vtb__shape *s);
bool vtb__shape_tap(vtb__shape *s);

/* ---- einsum ---------------------------------------------------------------------------------- */

/* NULL when well formed, else what is wrong. Sizes are 1. */
const char *vtb__product_parse(const char *spec, vtb_product *p);
/* Takes the spec of an einsum apart, which is new. */
void vtb__product_read(vtb_inst *einsum);
/* "bnd,ed->bne"; as the attribute of an einsum. */
const char *vtb__spec_text(const vtb_spec *s, char buf[VTB_SPEC_SIZE]);
vtb_attr vtb__spec_attr(const char *text);

#endif
