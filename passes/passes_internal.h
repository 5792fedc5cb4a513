/* What the files of this folder share: the entry points of the passes and small questions about
 * instructions. */
#ifndef VTB_PASSES_INTERNAL_H
#define VTB_PASSES_INTERNAL_H

#include "ir/diag_codes.h"
#include "ir/rewrite.h"
#include "passes/passes.h"

#define X(name, summary) vtb_status vtb__pass_##name(vtb_pass_context *c, vtb_error *err);
#define F(name, summary) void vtb__visit_##name(const vtb_pass_context *c, vtb_func *f);
#include "passes/passes.def"
#undef X
#undef F

/* `made`, the status of what changed the module outside of a pipeline; where checks are wanted
 * (vtb_checks), VTB_E_INTERNAL if it broke a rule: "after autodiff: ..." (util.c). */
VTB_MUST_USE vtb_status vtb__verify(const vtb_module *m, const char *when, vtb_error *err);
VTB_MUST_USE vtb_status vtb__verified(const vtb_module *m, const char *when, vtb_status made,
                                      vtb_error *err);

/* How recurrences run that are not linear; said once after the error. */
void vtb__recurrent_only_help(vtb_diags *d);

/* ---- questions (util.c) ---------------------------------------------------------------------- */

/* True if every element of v is one number; looks through reshape and broadcast. */
bool vtb__splat(const vtb_value *v, double *value);
bool vtb__is_constant(const vtb_value *v, double value);
/* x and y differ only by axes of size 1. */
bool vtb__unit_reshape(const vtb_type *x, const vtb_type *y);
/* Order of visits of a path of n tokens; malloc'd. The text is checked when it enters the IR, so it
 * parses. */
int64_t *vtb__path_indices(const char *path, int64_t n);
/* The token that is visited first, or last. */
int64_t vtb__path_end(const char *path, int64_t n, bool last);
/* Both names stay taken, so this is safe for two values of one function. */
void vtb__swap_names(vtb_value *x, vtb_value *y);
/* An empty kernel function in which `inst` will stand, called after the scope and the first
 * result: "norm.normed". */
vtb_func *vtb__kernel_new(const vtb_inst *inst);
/* The body of a kernel function once more, where `b` stands: of[id] is what a value of the body is
 * there, given for its arguments. */
void vtb__copy_body(vtb_builder *b, const vtb_func *body, vtb_value **of);
/* Of a body, from one of its instructions on. */
void vtb__copy_body_from(vtb_builder *b, const vtb_inst *first, vtb_value **of);
/* Whoever reads `old` reads `with`, which takes its name. */
void vtb__stand_in(vtb_value *old, vtb_value *with);
/* A call with the same callee kind and attributes but other operands, placed before `inst`, which
 * is unlinked; result i of `inst` becomes result map[i] of the new one (map NULL: the same
 * places). */
vtb_inst *vtb__replace_call(vtb_inst *inst, vtb_func *callee, vtb_value *const *operands, int n,
                            const int *map);

/* A product of small matrices, "bngi,goi->bngo" or with the matrix turned round, of a size that
 * divides 32, to which a bias at most is added, that kernels of recurrences can make of rows
 * (passes/fuse/words_mixer.c). */
bool vtb__is_small_map(const vtb_inst *i);
int64_t vtb__small_map_size(const vtb_inst *map);

/* Somebody does not want the fusion of that name (pass.c). */
bool vtb__fusion_declined(const vtb_pass_context *c, const char *name);

/* ---- parts of passes used by others ---------------------------------------------------------- */

int vtb__cse_func(vtb_func *f); /* returns the number of instructions removed */
int vtb__dce_func(vtb_func *f);
/* A `fused`, the only one of its kernel, without what nobody reads of it and what it does not
 * read. */
vtb_inst *vtb__shrink_kernel(vtb_inst *fused);
/* What is in callees stands where they were called (expand_calls.c). */
void vtb__expand_calls(vtb_func *f);
/* Callers compute what f makes of parameters alone, of `only` the n results among it (NULL: all of
 * it) (hoist.c). */
void vtb__hoist(vtb_func *f, vtb_value *const *only, int n);
/* Every VTB_DYN of the function becomes `batch` (bind.c). */
void vtb__bind_func(vtb_func *f, int64_t batch);

/* objective.c: a copy of f that returns the rows of its measures; `training`: the loss before them,
 * and its updates of buffers behind. */
vtb_func *vtb__objective_of(vtb_func *f, bool training);

/* padding.c: whether f, or what it calls, sums over the samples of a batch; makes that leave out
 * rows for which `valid`, [B], is 0, in copies of what it calls; x, of the batch along an axis,
 * with `fill` in those rows. */
bool vtb__sums_batch(const vtb_func *f);
void vtb__mask_padding(vtb_func *f, vtb_value *valid);
vtb_value *vtb__mask_rows(vtb_builder *b, vtb_value *valid, vtb_value *x, int axis, double fill);

/* min_cut.c: the cheapest set of vertices whose removal parts every source from every sink, the one
 * nearest the sinks. Vertices may be in the set whether source, sink or neither. edge[2e] ->
 * edge[2e+1]. Fills cut[n]. */
void vtb__min_vertex_cut(int n, const int64_t *weight, const bool *source, const bool *sink,
                         const int *edge, int n_edges, bool *cut);

/* By argument of f: whether return `ret` depends on it, and whether through a derivative. */
void vtb__dependence(vtb_module *m, vtb_func *f, int ret, bool *value, bool *gradient);
/* train_check.c: numbers of the arguments of `loss`, whose first return is the loss of `model`,
 * that are trained; how many, or below 0 if there is a parameter that nothing trains. What is odd
 * is in diags, an error if `as_error`. */
int vtb__find_trained(vtb_func *model, vtb_func *loss, int *wrt, bool as_error, vtb_diags *diags);

#endif
