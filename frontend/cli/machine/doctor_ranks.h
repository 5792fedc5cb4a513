/* The part of `vertebra doctor` that several processes run together. */
#ifndef VTB_CLI_DOCTOR_RANKS_H
#define VTB_CLI_DOCTOR_RANKS_H

#include "runtime/base/base.h"

/* Every process of a job calls it; rank 0 prints. */
vtb_status cli_doctor_ranks(void);

#endif
