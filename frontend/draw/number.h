/* Numbers as people read them. Each writes at most 32 bytes and returns them; NAN is an en dash. */
#ifndef VTB_DRAW_NUMBER_H
#define VTB_DRAW_NUMBER_H

#include "runtime/base/base.h"

const char *nr_count(double x, char text[32]);               /* 5.72 M */
const char *nr_bytes(double x, char text[32]);               /* 49.0 MiB */
const char *nr_fixed(double x, int decimals, char text[32]); /* 0.880 */
const char *nr_digits(double x, int digits, char text[32]);  /* 1.23, 45.6, 7890: so many or more */
const char *nr_tick(double x, char text[32]);                /* 0.5, 200, 1.5k, 2M */

#endif
