/* linscan_steps with a state in double: see vtb_scan_is_wide(). */
#define WIDE
#include "codegen/cpu/text/linscan_steps.c"
