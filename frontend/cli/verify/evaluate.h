/* Running one function of a module on named double tensors, on any target: what verify is made of.
 *
 * Argument keys: "param/<official>" for parameters and buffers, "input/<name>" for inputs and plain
 * arguments, "probe/<output>" for adjoints. Result keys are the return names.
 */
#ifndef VTB_CLI_EVALUATE_H
#define VTB_CLI_EVALUATE_H

#include "frontend/cli/cli.h"

/* The key of argument a; valid until `buf` changes. */
const char *cli_arg_key(const vtb_func *f, int a, vtb_strbuf *buf);
/* The value of VTB_DYN that the argument tensors imply; 1 if nothing is dynamic. */
int64_t cli_infer_batch(const vtb_func *f, const vtb_weights *args);
/* Evaluates what `c` compiles, at graph level. Buffers are poisoned with NaN before compiled code
 * runs. *results is the caller's. What is wrong is in the report. */
VTB_MUST_USE vtb_status cli_evaluate(const vtb_compilation *c, const vtb_target *target,
                                     int threads, const vtb_weights *args, vtb_weights **results);

/* Likewise by the interpreter, in double, of what the passes of `target` make of it: products round
 * their factors, and memory keeps what it keeps on that target. bits: of significand that every
 * result is rounded to besides, 24 as in single precision; 0: none. */
VTB_MUST_USE vtb_status cli_interpret(const vtb_compilation *c, const vtb_target *target, int bits,
                                      const vtb_weights *args, vtb_weights **results);

#endif
