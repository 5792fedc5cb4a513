/* The codes of diag_codes.def by name: VTB_DIAG_UNKNOWN_NAME is 1101. */
#ifndef VTB_DIAG_CODES_H
#define VTB_DIAG_CODES_H

typedef enum vtb_diag_number {
#define D(name, number, title, explanation, example, remedy) VTB_DIAG_##name = number,
#include "ir/diag_codes.def"
#undef D
} vtb_diag_number;

#endif
