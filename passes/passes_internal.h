/* Shared by the files of this folder: the entry points of the passes, small questions about
 * instructions. */
#ifndef VTB_PASSES_INTERNAL_H
#define VTB_PASSES_INTERNAL_H

#include "ir/diag_codes.h"
#include "ir/ops.h"
#include "ir/path.h"
#include "ir/rewrite.h"
#include "passes/passes.h"

#define X(name, summary) vtb_status vtb__pass_##name(vtb_pass_context *c, vtb_error *err);
#define M(name, summary) void vtb__change_##name(vtb_pass_context *c);
#define F(name, summary) void vtb__visit_##name(const vtb_pass_context *c, vtb_func *f);
#include "passes/passes.def"
#undef X
#undef M
#undef F

/* `made`, the status of what changed the module outside of a pipeline; where checks are wanted
 * (vtb_checks), VTB_E_INTERNAL if it broke a rule: "after autodiff: ..." (util.c). */
VTB_MUST_USE vtb_status vtb__verify(const vtb_module *m, const char *when, vtb_error *err);
VTB_MUST_USE vtb_status vtb__verified(const vtb_module *m, const char *when, vtb_status made,
                                      vtb_error *err);

/* ---- memory of a pass ------------------------------------------------------------------------ */

/* n elements, and one more that ends a list, zeroed: of whatever has a module, a function or a
 * builder. They live as long as the pass runs, and so does what the functions here hand out. */
#define VTB_SCRATCH(of, T, n) VTB_NEW_ARRAY(&(of)->module->scratch, T, (size_t)(n) + 1)
/* Behind a VTB_VEC() that nobody frees. */
#define vtb__put(of, v, x) vtb_vec_put(&(of)->module->scratch, v, x)
/* A table by value id, zeroed, that has values made since. */
#define vtb__by_id(of, v, id) (vtb_vec_extend(&(of)->module->scratch, v, (id) + 1), &(v)->at[id])
/* A text. */
#define vtb__text(of, ...) vtb_arena_printf(&(of)->module->scratch, __VA_ARGS__)
/* As vtb_count_uses(). */
int *vtb__uses(vtb_func *f);
/* Lists that end with NULL: as vtb_value_readers(); functions that root reaches, callees first, or
 * all as they stand (root NULL); instructions of the whole module. */
vtb_inst **vtb__readers(const vtb_value *v);
vtb_func **vtb__callees_first(vtb_module *m, vtb_func *root);
vtb_inst **vtb__all_of(vtb_module *m, vtb_op op);
/* The whole module's instructions whose callee is f. */
vtb_inst **vtb__calls_of(const vtb_func *f);

/* The instructions of f, of which `i` may go meanwhile; `next` comes then. */
#define VTB__EACH_INST(f, i, next)                                                                 \
  for (vtb_inst *i = (f)->first, *next; i && (next = i->next, true); i = next)

/* ---- building -------------------------------------------------------------------------------- */

/* Builds before i, as its text. */
vtb_builder vtb__before(vtb_inst *i);
/* The type f32 of axes, vtb_dim each. */
#define VTB__F32(...)                                                                              \
  ((vtb_type){.dtype = VTB_F32,                                                                    \
              .rank = sizeof((vtb_dim[]){__VA_ARGS__}) / sizeof(vtb_dim),                          \
              .dim = {__VA_ARGS__}})
/* x op y, where NULL is nothing: the other. */
vtb_value *vtb__joined(vtb_builder *b, vtb_op op, vtb_value *x, vtb_value *y);
/* x as vtb_type_among_ones() has it. */
vtb_value *vtb__among_ones(vtb_builder *b, vtb_value *x, const int *to, int rank);
/* The call with n more operands behind its own, of `callee`. */
vtb_inst *vtb__call_with(vtb_inst *call, vtb_func *callee, vtb_value *const *more, int n);

/* ---- questions (util.c) ---------------------------------------------------------------------- */

/* True if every element of v is one number; looks through reshape and broadcast. */
bool vtb__splat(const vtb_value *v, double *value);
bool vtb__is_constant(const vtb_value *v, double value);
/* Every attribute of a but one is in b (NULL: every one). */
bool vtb__attrs_within(const vtb_inst *a, const vtb_inst *b, const char *but);
/* A path, whose text was checked when it entered the IR: vtb_path_free(). Its text. */
vtb_path vtb__path_of(const char *text);
const char *vtb__path_text(vtb_module *m, const vtb_path *p);
/* Order of visits of a path of n tokens (NULL: one after the other). */
int64_t *vtb__path_indices(vtb_module *m, const char *path, int64_t n);
/* The token that is visited first, or last. */
int64_t vtb__path_end(vtb_module *m, const char *path, int64_t n, bool last);
/* Both names stay taken, so this is safe for two values of one function. */
void vtb__swap_names(vtb_value *x, vtb_value *y);
/* One more argument, of that official name too. */
vtb_value *vtb__named_arg(vtb_func *f, const char *name, vtb_type type, vtb_role role);
/* An empty kernel function in which `inst` will stand, called after the scope and the first
 * result: "norm.normed". */
vtb_func *vtb__kernel_new(const vtb_inst *inst);
/* The body of f once more where `b` stands, for its arguments the operands: what its returns are
 * there. */
vtb_value **vtb__inlined(vtb_builder *b, const vtb_func *f, vtb_value *const *operands);
/* The same in place of what calls it; of all calls of f. */
void vtb__expand(vtb_inst *call);
void vtb__expand_calls(vtb_func *f);
/* Whoever reads `old` reads `with`, which takes its name. */
void vtb__stand_in(vtb_value *old, vtb_value *with);
/* The same for the one result of an instruction, which goes. */
void vtb__become(vtb_inst *old, vtb_value *with);
/* A call with the same callee kind and attributes but other operands, placed before `inst`, which
 * is unlinked; result i of `inst` becomes result map[i] of the new one (map NULL: the same
 * places). */
vtb_inst *vtb__replace_call(vtb_inst *inst, vtb_func *callee, vtb_value *const *operands, int n,
                            const int *map);

/* A product of small matrices, "bngi,goi->bngo" or with the matrix turned round, of a size that
 * vtb_blocks_joined takes, to which a bias at most is added, that kernels of recurrences can make
 * of rows (passes/fuse/words_mixer.c). */
bool vtb__is_small_map(const vtb_inst *i);

/* True if the sizes of an einsum are those of a product, which it gives as m, n and k. */
bool vtb__product_sizes(const vtb_inst *einsum, int64_t size[3]);
/* True if the kernel of a product can keep statistics of its result's rows, each in its columns. */
bool vtb__keeps_parts(const vtb_inst *einsum);
/* One that the library takes, if nothing is made of it where it is made (memory/library.c). */
bool vtb__is_large(const vtb_inst *einsum);

/* A parameter, or a buffer: the same in every run of an entry until somebody changes it. */
bool vtb__is_parameter(const vtb_value *v);
/* With the options "of inference" a pass leaves other programs alone, whose runs change parameters
 * or make gradients. */
bool vtb__is_left_alone(const vtb_pass_context *c);
/* Somebody does not want the fusion of that name (pass.c). */
bool vtb__fusion_declined(const vtb_pass_context *c, const char *name);

/* ---- parts of passes used by others ---------------------------------------------------------- */

int vtb__cse_func(vtb_func *f); /* returns the number of instructions removed */
int vtb__dce_func(vtb_func *f);
/* Marks, in all functions, what is made of parameters alone; by value id, true of it, until the
 * function's `scratch` is used otherwise (hoist.c). */
void vtb__find_made_of_parameters(vtb_module *m);
const bool *vtb__made_of_parameters(const vtb_func *f);
/* Callers compute what f makes of parameters alone, of `only` the n results among it (NULL: all of
 * it) (hoist.c). */
void vtb__hoist(vtb_func *f, vtb_value *const *only, int n);

/* whole.c: x [.., B, ..] among the rows of all ranks, zeros for those of others, as f32; a rank's
 * own rows of x [.., ranks*B, ..]; what inst makes of operands that have the rows of all. `first`
 * is the number of the rank's first row. */
vtb_value *vtb__among_all_rows(vtb_builder *b, vtb_value *x, vtb_value *first, int ranks);
vtb_value *vtb__own_rows(vtb_builder *b, vtb_value *x, vtb_value *first, int ranks);
vtb_value *vtb__on_all_rows(vtb_builder *b, const vtb_inst *inst, int ranks);
vtb_type vtb__of_all_rows(const vtb_type *t, int ranks);

/* Every VTB_DYN of the function becomes `batch` (bind.c). */
void vtb__bind_func(vtb_func *f, int64_t batch);

/* objective.c: a copy of f that returns the rows of its measures; `training`: the loss before them,
 * and its updates of buffers behind. */
vtb_func *vtb__objective_of(vtb_func *f, bool training);
/* Returns, behind the others, the updates of buffers that f returned before it was changed. */
void vtb__return_updates(vtb_func *f, const vtb_func *before);

/* padding.c: whether f, or what it calls, sums over the samples of a batch; makes that leave out
 * rows for which `valid`, [B], is 0, in copies of what it calls; x, of the batch along an axis,
 * with `fill` in those rows. */
bool vtb__sums_batch(const vtb_func *f);

/* rank_loops.c: by id, the values of a fold's callee that are made of rows, in one step or over
 * several. */
const bool *vtb__made_of_rows(const vtb_inst *fold);
/* v, how many steps the rows of a loop took, is read by more than the loop's adjoint, which runs as
 * many: each process has rows, and so a number, of its own. */
bool vtb__is_count_read(const vtb_value *v);
void vtb__mask_padding(vtb_func *f, vtb_value *valid);
vtb_value *vtb__mask_rows(vtb_builder *b, vtb_value *valid, vtb_value *x, int axis, double fill);

/* min_cut.c: the cheapest set of vertices whose removal parts every source from every sink, the one
 * nearest the sinks. Vertices may be in the set whether source, sink or neither. edge[2e] ->
 * edge[2e+1]. Fills cut[n]. */
void vtb__min_vertex_cut(vtb_module *m, int n, const int64_t *weight, const bool *source,
                         const bool *sink, const int *edge, int n_edges, bool *cut);

/* By argument of f: whether return `ret` depends on it, and whether through a derivative. */
void vtb__dependence(vtb_module *m, vtb_func *f, int ret, bool *value, bool *gradient);
/* train_check.c: numbers of the arguments of `loss`, whose first return is the loss of `model`,
 * that are trained; how many, or below 0 if there is a parameter that nothing trains. What is odd
 * is in diags, an error if `as_error`. */
int vtb__find_trained(vtb_func *model, vtb_func *loss, int *wrt, bool as_error, vtb_diags *diags);

#endif
