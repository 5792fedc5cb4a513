/* Questions that rewrites ask of a function before they change it: who reads a value, what it is a
 * view of, what stands before what. Order is that of vtb_func_number(), which the caller has
 * called; readers are those of the value's own function. Nothing is allocated; answers hold until
 * the next change.
 */
#ifndef VTB_REWRITE_H
#define VTB_REWRITE_H

#include "ir/ir.h"

/* ---- who reads a value ----------------------------------------------------------------------- */

/* The first return of its function that v is; -1: none. */
int vtb_return_of(const vtb_value *v);
bool vtb_is_returned(const vtb_value *v);
/* Instructions that read v, each counted once. */
int vtb_reader_count(const vtb_value *v);
/* An instruction reads v, or it is returned. */
bool vtb_is_read(const vtb_value *v);
/* One operand of one instruction is v, and v is not returned. */
bool vtb_is_used_once(const vtb_value *v);
/* A constant that is one number everywhere. */
bool vtb_is_splat(const vtb_inst *i);
/* The one instruction that reads v; NULL if none does, if several do, or if v is returned. */
vtb_inst *vtb_only_reader(const vtb_value *v);

/* ---- sets of values, by id ------------------------------------------------------------------- */

/* One of i's results, or operands, is in the set. */
bool vtb_makes_any(const vtb_inst *i, const bool *set);
/* Adds what those of the set are made of, as far as instructions from `first` to `last` make
 * them. */
void vtb_add_sources(const vtb_inst *first, const vtb_inst *last, bool *set);
/* Adds what is made of those of the set, by instructions from `first` on. */
void vtb_add_uses(const vtb_inst *first, bool *set);

/* ---- before and behind ----------------------------------------------------------------------- */

/* v is there where i stands: an argument, or made by an instruction before it. */
bool vtb_made_before(const vtb_value *v, const vtb_inst *i);

/* i stands in its function: nothing has unlinked it. */
bool vtb_is_linked(const vtb_inst *i);

/* ---- views ----------------------------------------------------------------------------------- */

/* Shows elements of its one operand in other places, each as it is: reshape, transpose, broadcast,
 * slice. */
bool vtb_is_view(vtb_op op);
/* Moves elements or has known ones, and is no kernel of its own: what is of class SHAPE but for
 * concatenations and random numbers. */
bool vtb_is_free(vtb_op op);
/* The value behind reshapes that v is: the same elements in the same order; v itself if it is
 * none. */
vtb_value *vtb_behind_reshapes(const vtb_value *v);
/* Likewise behind all ops of class SHAPE that read one value: nothing is computed between. */
const vtb_value *vtb_behind_moves(const vtb_value *v);

#endif
