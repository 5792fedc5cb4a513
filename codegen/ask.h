/* Who answers what kernels take (passes/cost/ask.h), of targets whose code is a plan of launches:
 * an instruction is planned as a program of its own, and the plan estimated. */
#ifndef VTB_CODEGEN_ASK_H
#define VTB_CODEGEN_ASK_H

#include "codegen/codegen.h"

typedef vtb_status (*vtb_plan_fn)(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                                  vtb_launch_plan **plan, vtb_error *err);

/* With plans for the machine that the options name, whatever architecture texts are for. Free it
 * with vtb_asker_free(). */
vtb_asker *vtb_asker_of_plans(vtb_plan_fn plan, const vtb_codegen_options *o);

#endif
