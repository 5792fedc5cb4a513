/* Code generation's part of a target's row (passes/target.h): the functions that make code, text
 * and programs of a module after the target's pipeline. A target without a row here is interpreted.
 *
 * Ownership and errors are those of the functions of codegen.h that the rows name. Any thread, a
 * module a thread.
 */
#ifndef VTB_CODEGEN_TARGETS_H
#define VTB_CODEGEN_TARGETS_H

#include "codegen/codegen.h"

/* A stage of the way from entry f to what runs, as text appended to `out`. */
typedef struct vtb_backend_text {
  const char *stage; /* "llvm" */
  vtb_status (*print)(vtb_module *m, vtb_func *f, const vtb_codegen_options *o, vtb_strbuf *out,
                      vtb_error *err);
} vtb_backend_text;

typedef struct vtb_backend {
  const char *target; /* its name */
  /* True if the vendor's library is there to make large products; NULL: the target has none. */
  bool (*library)(void);
  /* Entry f, compiled and ready to run; NULL: the target has texts alone. vtb_compile_target()
   * (frontend/compile) refuses it where programs are wanted, and nobody else asks. */
  vtb_status (*program)(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                        vtb_program **program, vtb_error *err);
  /* Its code as an object file; NULL: it is not native. */
  vtb_status (*object)(vtb_module *m, vtb_func *f, const vtb_codegen_options *o, const char *symbol,
                       vtb_object *out, vtb_error *err);
  /* Its kernels and launches, checked; NULL: its code is native. */
  vtb_status (*plan)(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                     vtb_launch_plan **plan, vtb_error *err);
  /* A program of such a plan that needs no code beside it; takes the plan, also on failure. NULL:
   * plans run by code that was compiled of them (runtime/artefact). */
  vtb_status (*run_plan)(vtb_launch_plan *plan, const vtb_behaviour *how, vtb_program **program,
                         vtb_error *err);
  /* Who answers what the kernels that code would get take (passes/cost/ask.h); NULL: nobody. The
   * options' texts outlive it. */
  vtb_asker *(*asker)(const vtb_codegen_options *o);
  const vtb_backend_text *texts; /* ends with stage NULL */
} vtb_backend;
const vtb_backend *vtb_backend_of(const vtb_target *t); /* NULL: interpreted */
/* The asker of the target's row; NULL: it has none, or there is none. */
vtb_asker *vtb_backend_asker(const vtb_target *t, const vtb_codegen_options *o);
/* True if something runs on the target: it is interpreted, or programs are made for it. */
bool vtb_target_runs(const vtb_target *t);
/* NULL: the target has no such stage. */
const vtb_backend_text *vtb_backend_text_of(const vtb_backend *b, const char *stage);
/* The first target that has it; NULL: none. */
const vtb_target *vtb_target_with_stage(const char *stage);

#endif
