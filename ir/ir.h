/* The tensor IR: modules of functions of SSA instructions over statically shaped tensors.
 *
 * Everything a vtb_module points to is owned by its arena and valid until vtb_module_free();
 * instructions that a pass removes stay allocated, unlinked. A module may be used by one thread at
 * a time.
 * Row-major: the last axis is the fastest. Elementwise operands broadcast numpy's way: aligned at
 * the last axis, missing and size-1 axes stretch. The batch is symbolic (VTB_DYN) until
 * passes/graph/bind.c replaces it.
 * Element types: f32 (the interpreter computes it in double) and i32 (labels, indices).
 *
 * Text form (round trips, ir/print.c and ir/parse.c):
 *   func @vil_block(%x: f32[B, N=196, C=192], %w: f32[C=192]) -> (f32[B, N=196, C=192]) {
 *     %y = mul %x, %w : f32[B, N=196, C=192]                     // models/vil.vtb:12
 *     %a, %b = call @f(%y) : f32[B, N=196, C=192], f32[B]
 *     return %a
 *   }
 * Attributes stand in braces after the operands: reduce_sum %x {axes = [2], keep = 1} : f32[B,
 * N=196, 1]
 */
#ifndef VTB_IR_H
#define VTB_IR_H

#include "ir/diag.h"

#define VTB_MAX_RANK 8
#define VTB_DYN (-1) /* the symbolic batch size; -k: k batches end to end, the batch k times */

/* BF16 and F16 are how memory holds f32 values (ir/narrow.h): the pass `storage` makes them, no op
 * computes in them. */
typedef enum vtb_dtype { VTB_F32, VTB_I32, VTB_BF16, VTB_F16 } vtb_dtype;

/* An axis: size and, for messages and dumps, a name ("B", "N", "C", "heads", "K"...); NULL if
 * nameless. Names never change meaning: types are equal when dtype, rank and sizes are. */
typedef struct vtb_dim {
  int64_t size;
  const char *name;
} vtb_dim;

typedef struct vtb_type {
  vtb_dtype dtype;
  int rank;
  vtb_dim dim[VTB_MAX_RANK];
} vtb_type;

typedef int vtb_op; /* ir/ops.h names them */

typedef struct vtb_inst vtb_inst;
typedef struct vtb_func vtb_func;
typedef struct vtb_module vtb_module;

/* An SSA value: a result of an instruction, or an argument of a function (def == NULL). */
typedef struct vtb_value {
  int id; /* unique in its function, dense enough to index side tables: 0 <= id < func->n_values */
  /* Without '%'; unique in its function, stable between runs. Of what a statement assigns the
   * user's name, else the scope and the op: "qkv", "qkv.1", "norm.mul". */
  const char *name;
  vtb_type type;
  vtb_inst *def;
  int index; /* which result of def, or which argument */
  vtb_func *func;
  void *scratch; /* for the pass that is running; NULL at its start is not promised */
  /* every instruction that reads it, and some that do no more: what replaces it looks at them */
  vtb_inst **readers;
  int n_readers;
} vtb_value;

typedef enum vtb_attr_kind {
  VTB_ATTR_INT,
  VTB_ATTR_FLOAT,
  VTB_ATTR_STR,
  VTB_ATTR_INTS,
  VTB_ATTR_FLOATS
} vtb_attr_kind;
typedef struct vtb_attr {
  const char *key;
  vtb_attr_kind kind;
  int64_t i;
  double f;
  const char *s;
  const int64_t *ints;
  const double *floats;
  int n; /* length of ints or floats */
} vtb_attr;
#define VTB_A_INT(k, v) ((vtb_attr){.key = (k), .kind = VTB_ATTR_INT, .i = (v)})
#define VTB_A_FLOAT(k, v) ((vtb_attr){.key = (k), .kind = VTB_ATTR_FLOAT, .f = (v)})
#define VTB_A_STR(k, v) ((vtb_attr){.key = (k), .kind = VTB_ATTR_STR, .s = (v)})
#define VTB_A_INTS(k, v, len)                                                                      \
  ((vtb_attr){.key = (k), .kind = VTB_ATTR_INTS, .ints = (v), .n = (len)})
#define VTB_A_FLOATS(k, v, len)                                                                    \
  ((vtb_attr){.key = (k), .kind = VTB_ATTR_FLOATS, .floats = (v), .n = (len)})

struct vtb_inst {
  vtb_op op;
  int n_operands, n_results, n_attrs;
  vtb_value **operands;
  vtb_value **results;
  vtb_attr *attrs;
  vtb_func *callee; /* call, fused, recurrence, update; else NULL */
  /* of an einsum with a well-formed spec its letters, without sizes (ir/product.h); else NULL */
  const struct vtb_product *product;
  vtb_span span; /* the .vtb text it came from */
  vtb_inst *prev, *next;
  vtb_func *func;
  int order; /* set by vtb_func_number() */
};

typedef enum vtb_role {
  VTB_ROLE_PLAIN,  /* argument of an inner function */
  VTB_ROLE_INPUT,  /* fed by the user */
  VTB_ROLE_PARAM,  /* a trained weight; `name` is the official checkpoint name */
  VTB_ROLE_BUFFER, /* saved with the weights, not trained (batch norm statistics, fixed tables) */
  VTB_ROLE_GRAD,   /* an adjoint that comes in (functions made by autodiff) */
  VTB_ROLE_STATE   /* what an update remembers (passes/train/update.c) */
} vtb_role;

/* An argument of an entry function, beyond its type. */
typedef struct vtb_arg_info {
  vtb_role role;
  /* official name for params, user's name for inputs; may hold any character */
  const char *official;
  /* canonical initialiser, "trunc_normal(0.02)", "zeros" ... (runtime/artefact/init.h) */
  const char *init;
  int decay;   /* 1 if weight decay applies */
  bool frozen; /* a buffer that would be a param, but is not trained */
  int uses;    /* declarations that mean it: more than one if it is shared; 0: not known */
  vtb_span span;
} vtb_arg_info;

typedef enum vtb_func_kind {
  VTB_FUNC_PLAIN,  /* callable; the entry function is one of these */
  VTB_FUNC_STEP,   /* step equations of a recurrence (see op recurrence) */
  VTB_FUNC_KERNEL, /* body of a fused instruction: one generated kernel */
  VTB_FUNC_RULE /* an optimiser's equations (op update): VTB_DYN stands for a tensor's elements */
} vtb_func_kind;

struct vtb_func {
  const char *name; /* without '@' */
  /* The declaration it is an instance of, "vil_block" of vil_block_1, and what was made of that,
   * "vil_block_fwd": the name without what makes it unique. No part of the text. */
  const char *declared;
  vtb_func_kind kind;
  int n_args, n_returns;
  vtb_value **args;
  vtb_arg_info *arg_info;    /* n_args entries, always present */
  vtb_value **returns;       /* values returned, in order */
  const char **return_names; /* official output names, entries may be NULL */
  vtb_inst *first, *last;
  int n_values;
  vtb_span span;
  vtb_module *module;
  vtb_func *next;
  vtb_map names; /* taken value names; value unused */
  void *scratch; /* as a value's */
};

struct vtb_module {
  vtb_arena arena;
  const char *name;
  /* callees before callers is not promised; vtb_module_post_order() gives it */
  vtb_func *first, *last;
  vtb_func *entry;
  /* what becomes of images before the entry sees them: JSON (runtime/image/prepare.h); no part of
   * the IR text. NULL: nothing is said */
  const char *prepare;
  /* "m.vtb:12": where the model says what becomes of samples in training; likewise */
  const char *augment;
  /* memory of who works on the module, as a pass is: emptied behind each (passes/pass.c) */
  vtb_arena scratch;
};

/* ---- modules and functions ------------------------------------------------------------------- */

vtb_module *vtb_module_new(const char *name);
void vtb_module_free(vtb_module *m);
vtb_module *vtb_module_clone(const vtb_module *m);
/* The name is made unique by a suffix if taken. */
vtb_func *vtb_func_new(vtb_module *m, const char *name, vtb_func_kind kind, vtb_span span);
/* A plain function made of f, "NAME_suffix". */
vtb_func *vtb_func_made_of(const vtb_func *f, const char *suffix);
vtb_func *vtb_module_find(const vtb_module *m, const char *name);
void vtb_module_remove(vtb_module *m, vtb_func *f);
vtb_value *vtb_func_add_arg(vtb_func *f, const char *name,
                            vtb_type type); /* info zeroed: role PLAIN */
void vtb_func_remove_arg(vtb_func *f, int index);
void vtb_func_set_returns(vtb_func *f, vtb_value *const *values, const char *const *names,
                          int n);                                      /* names may be NULL */
void vtb_func_add_return(vtb_func *f, vtb_value *v, const char *name); /* behind the others */
vtb_func *vtb_func_clone(vtb_func *f, vtb_module *into,
                         const char *name); /* callees are shared if same module */
/* The value is called `name` from now on, with a suffix if that is taken: x, x.1, x.2. */
void vtb_value_rename(vtb_value *v, const char *name);
/* The length of a value's name without its suffix: "mul.3" is "mul". */
size_t vtb_name_stem(const char *name);
/* Gives the suffixes of all instructions' values anew, in the order of the text: without gaps. */
void vtb_module_renumber_names(vtb_module *m);
/* Numbers inst->order from 0; returns the count. */
int vtb_func_number(vtb_func *f);
/* Functions reachable from `root`, callees first. *out is malloc'd. */
size_t vtb_module_post_order(vtb_func *root, vtb_func ***out);

/* The last part of a scope and the numbers behind it: "layer.proj_up" -> "proj_up", "a.blocks.0" ->
 * "blocks.0". */
const char *vtb_scope_end(const char *scope);

/* ---- types ----------------------------------------------------------------------------------- */

vtb_type vtb_type_make(vtb_dtype dtype, int rank, const int64_t *sizes);
vtb_type vtb_type_scalar(void);                            /* f32, rank 0 */
bool vtb_type_equal(const vtb_type *a, const vtb_type *b); /* names ignored */
/* The size of an axis is the batch, or several; how many; the size at a batch of n samples. */
static inline bool vtb_is_batch(int64_t size) { return size < 0; }
static inline int64_t vtb_batches(int64_t size) { return size < 0 ? -size : 1; }
static inline int64_t vtb_bound_size(int64_t size, int64_t n) {
  return size < 0 ? -size * n : size;
}
int64_t vtb_type_count(const vtb_type *t); /* elements of a batch of 1; INT64_MAX: more */
int vtb_dtype_bytes(vtb_dtype d);
const char *vtb_dtype_name(vtb_dtype d); /* "f32" */
bool vtb_dtype_find(const char *name, vtb_dtype *out);
int64_t vtb_type_bytes(const vtb_type *t);
bool vtb_type_is_dynamic(const vtb_type *t);
/* The first n axes of both have the same sizes. */
bool vtb_type_same_axes(const vtb_type *x, const vtb_type *y, int n);
/* Both have the batch, or several, where the other has it: [2, B, 3] and [2*B, 3], not [B, 6]. */
bool vtb_type_same_samples(const vtb_type *x, const vtb_type *y);
/* x and y differ only by axes of size 1. */
bool vtb_type_unit_reshape(const vtb_type *x, const vtb_type *y);
/* One axis more, at `at`; one fewer. */
vtb_type vtb_type_with_axis(const vtb_type *t, int at, vtb_dim dim);
vtb_type vtb_type_without_axis(const vtb_type *t, int at);
/* The first `lead` axes of t, then dims. */
vtb_type vtb_type_behind(const vtb_type *t, int lead, const vtb_dim *dims, int rank);
/* Axes of size 1, of x's dtype, but for those that x's come to: to[a], below 0: that one has size 1
 * (NULL: x's axes are the last). */
vtb_type vtb_type_among_ones(const vtb_type *x, const int *to, int rank);
int vtb_type_batch_axes(const vtb_type *t); /* how many are the batch; two pair samples */
/* Numpy broadcast of two types; false if they do not. Names are taken from the operand that has
 * them. */
bool vtb_type_broadcast(const vtb_type *a, const vtb_type *b, vtb_type *out);
void vtb_type_print(const vtb_type *t, vtb_strbuf *out);
/* Interned copy in the module's arena, for axis names and attribute strings. */
const char *vtb_intern(vtb_module *m, const char *s);

/* ---- building -------------------------------------------------------------------------------- */

/* Inserts at the end of `func`, or before `before` if set. Errors in shapes go to `diags` with the
 * builder's span and return NULL; with diags == NULL they are internal errors. NULL operands, and
 * no builder (NULL), give NULL without a message, so that a front end may continue after the first
 * error. */
typedef struct vtb_builder {
  vtb_module *module;
  vtb_func *func;
  vtb_inst *before;
  vtb_span span;
  vtb_diags *diags;
  const char *name_hint; /* name for the next result; consumed. NULL: the span's scope and the op */
} vtb_builder;

vtb_inst *vtb_build(vtb_builder *b, vtb_op op, vtb_value *const *operands, int n,
                    const vtb_attr *attrs, int n_attrs);
/* For ops whose result types the shape rule cannot know (constant, iota, input-like): the type is
 * given. */
vtb_inst *vtb_build_typed(vtb_builder *b, vtb_op op, vtb_value *const *operands, int n,
                          const vtb_attr *attrs, int n_attrs, const vtb_type *types, int n_results);
vtb_inst *vtb_build_call(vtb_builder *b, vtb_op op, vtb_func *callee, vtb_value *const *operands,
                         int n, const vtb_attr *attrs, int n_attrs); /* call, fused, recurrence */

/* One-result conveniences over vtb_build; all may return NULL as above. */
vtb_value *vtb_b_op(vtb_builder *b, vtb_op op, vtb_value *const *operands, int n,
                    const vtb_attr *attrs, int n_attrs);
vtb_value *vtb_b_data(vtb_builder *b, const double *data, const vtb_type *type); /* known numbers */
vtb_value *vtb_b_constant(vtb_builder *b, double value); /* f32 scalar; broadcast does the rest */
vtb_value *vtb_b_splat(vtb_builder *b, double value, const vtb_type *type);
vtb_value *vtb_b_unary(vtb_builder *b, vtb_op op, vtb_value *x);
vtb_value *vtb_b_binary(vtb_builder *b, vtb_op op, vtb_value *x, vtb_value *y);
vtb_value *vtb_b_select(vtb_builder *b, vtb_value *cond, vtb_value *x, vtb_value *y);
vtb_value *vtb_b_reduce(vtb_builder *b, vtb_op op, vtb_value *x, const int64_t *axes, int n_axes,
                        bool keep);
vtb_value *vtb_b_reshape(vtb_builder *b, vtb_value *x, const vtb_type *shape); /* dtype from x */
vtb_value *vtb_b_broadcast(vtb_builder *b, vtb_value *x, const vtb_type *shape);
/* Likewise, but x itself if it has the shape; the name hint then stays. */
vtb_value *vtb_b_shaped(vtb_builder *b, vtb_value *x, const vtb_type *shape);
vtb_value *vtb_b_stretched(vtb_builder *b, vtb_value *x, const vtb_type *shape);
vtb_value *vtb_b_cast(vtb_builder *b, vtb_value *x, vtb_dtype to);
vtb_value *vtb_b_iota(vtb_builder *b, int axis, const vtb_type *type);
vtb_value *vtb_b_transpose(vtb_builder *b, vtb_value *x, const int64_t *perm);
vtb_value *vtb_b_slice(vtb_builder *b, vtb_value *x, int axis, int64_t start, int64_t limit,
                       int64_t step);
vtb_value *vtb_b_concat(vtb_builder *b, vtb_value *const *xs, int n, int axis);
vtb_value *vtb_b_einsum(vtb_builder *b, const char *spec, vtb_value *x, vtb_value *y);
/* Rows of x along `axis` at i32 indices, whose first `axis` axes are those of x. */
vtb_value *vtb_b_gather(vtb_builder *b, vtb_value *x, vtb_value *indices, int axis);
vtb_value *vtb_b_permute(vtb_builder *b, vtb_value *x, int axis, const char *path, bool inverse);
vtb_inst *vtb_b_call(vtb_builder *b, vtb_func *callee, vtb_value *const *operands, int n);
/* Sum `x` down to `shape`, the adjoint of broadcasting `shape` to x's type. */
vtb_value *vtb_b_reduce_to(vtb_builder *b, vtb_value *x, const vtb_type *shape);

/* ---- attributes ------------------------------------------------------------------------------ */

const vtb_attr *vtb_attr_find(const vtb_inst *inst, const char *key);
/* Its attributes among the keys, "mode chunk path", in the order of the keys; how many. */
int vtb_attrs_of(const vtb_inst *inst, const char *keys, vtb_attr *out);
int64_t vtb_attr_int(const vtb_inst *inst, const char *key, int64_t otherwise);
double vtb_attr_float(const vtb_inst *inst, const char *key, double otherwise);
const char *vtb_attr_str(const vtb_inst *inst, const char *key, const char *otherwise);
const int64_t *vtb_attr_ints(const vtb_inst *inst, const char *key,
                             int *n);             /* NULL, *n = 0 if absent */
void vtb_attr_set(vtb_inst *inst, vtb_attr attr); /* copies into the arena */
void vtb_attr_remove(vtb_inst *inst, const char *key);
/* Same key and value. Specifications of einsums are equal whatever their letters are:
 * "bnc,ec->bne" and "abc,zc->abz". */
bool vtb_attr_equal(const vtb_attr *a, const vtb_attr *b);
uint64_t vtb_attr_hash(const vtb_attr *a);
/* The string of an attribute; of an einsum's specification with letters in the order of appearance,
 * "abc,dc->abd", written to `buf`. */
enum { VTB_SPEC_SIZE = 64 };
const char *vtb_attr_text(const vtb_attr *a, char buf[VTB_SPEC_SIZE]);

/* ---- rewriting ------------------------------------------------------------------------------- */

void vtb_inst_unlink(vtb_inst *inst);
void vtb_inst_move_before(vtb_inst *inst, vtb_inst *pos); /* pos NULL: to the end */
/* The only way to change an operand: the value learns of its reader. */
void vtb_inst_set_operand(vtb_inst *inst, int at, vtb_value *v);
/* Wherever inst reads `old` it reads `with`. */
void vtb_inst_replace_operand(vtb_inst *inst, const vtb_value *old, vtb_value *with);
/* One more behind the others, of a call with a result whose function has got an argument or a
 * return; the module's own. */
void vtb_inst_add_operand(vtb_inst *inst, vtb_value *v);
vtb_value *vtb_inst_add_result(vtb_inst *inst, const vtb_type *type);
/* The instructions that read v, each once, by `order`; *out is malloc'd. */
size_t vtb_value_readers(const vtb_value *v, vtb_inst ***out);
/* Operands and returns of the function. */
void vtb_replace_all(vtb_value *old, vtb_value *with);
int *vtb_count_uses(vtb_func *f); /* by value id, returns included; malloc'd */
/* An independent copy of one instruction at the builder's place with other operands; results keep
 * their names if free. */
vtb_inst *vtb_inst_clone(vtb_builder *b, const vtb_inst *inst, vtb_value *const *operands);
/* The same where of[id] stands for each operand; of[] learns what stands for the results. */
vtb_inst *vtb_inst_copy(vtb_builder *b, const vtb_inst *inst, vtb_value **of);

/* ---- text, verification ---------------------------------------------------------------------- */

typedef struct vtb_print_options {
  bool spans; /* trailing // file:line */
  /* for people: parameters a block on one line, "%blocks.0.*: 42 parameters, 63376 elements",
   * likewise in calls; such text does not parse back */
  bool fold;
} vtb_print_options;
void vtb_module_print(const vtb_module *m, const vtb_print_options *o, vtb_strbuf *out);
void vtb_func_print(const vtb_func *f, const vtb_print_options *o, vtb_strbuf *out);
void vtb_inst_print(const vtb_inst *inst, vtb_strbuf *out); /* one line, no newline */
/* NULL with messages in `diags` if the text is wrong. */
vtb_module *vtb_module_parse(const vtb_source *source, vtb_diags *diags);

/* True if every rule holds: operands dominate, types agree with shape rules, names unique, callees
 * match, attributes known. Otherwise the first broken rule is in `err`: function, instruction,
 * rule. */
bool vtb_module_verify(const vtb_module *m, vtb_error *err);

/* ---- the op table ---------------------------------------------------------------------------- */

typedef enum vtb_op_class {
  VTB_CLASS_ELEMENTWISE, /* one scalar expression of its operands, broadcast */
  VTB_CLASS_REDUCE,
  VTB_CLASS_SHAPE,      /* moves elements, computes nothing */
  VTB_CLASS_STRUCTURED, /* matmul, conv, scan: its own kernel */
  VTB_CLASS_CONTROL     /* call, fused, recurrence, return */
} vtb_op_class;

typedef struct vtb_op_info {
  const char *name;
  vtb_op_class klass;
  int min_operands, max_operands; /* max -1: any number */
  const char *attrs;              /* "axes:ints keep:int?" ; '?' marks optional */
  const char *doc;
} vtb_op_info;
const vtb_op_info *vtb_op_get(vtb_op op);
bool vtb_op_find(const char *name, vtb_op *op);

/* FLOPs (multiply and add counted apart) and bytes of one instruction; VTB_DYN counted as
 * `batch`. */
typedef struct vtb_cost {
  double flops, bytes;
} vtb_cost;
vtb_cost vtb_inst_cost(const vtb_inst *inst, int64_t batch);
vtb_cost vtb_func_cost(const vtb_func *f, int64_t batch); /* the sum over its instructions */

/* FLOPs as papers count them: multiply-adds an image, pointwise work free, whatever form is
 * executed. Some papers leave out what the mixers multiply themselves. */
typedef struct vtb_published_macs {
  double layers; /* products with weights, convolutions */
  double mixers; /* recurrences and attention */
} vtb_published_macs;
vtb_published_macs vtb_inst_published_macs(const vtb_inst *inst);
vtb_published_macs vtb_func_published_macs(const vtb_func *f);

#endif
