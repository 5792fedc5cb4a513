/* Where a model's numbers can leave what floating point holds: warnings for `vertebra check
 * --numerics`, from ranges (ir/ranges.h) before any pass.
 *
 *   VTB3101  a logarithm, root, power or quotient outside its domain: NaN or infinity
 *   VTB3102  a value that is finite where its gradient is not: sqrt at 0
 *   VTB3103  an expression that loses its digits or overflows where a builtin does not
 *
 * Each place is named once. Nothing is changed; the module is the entry's, as the language makes
 * it.
 */
#ifndef VTB_NUMERICS_H
#define VTB_NUMERICS_H

#include "ir/ir.h"

/* The number of warnings. */
int vtb_numerics_check(vtb_module *m, vtb_diags *diags);

#endif
