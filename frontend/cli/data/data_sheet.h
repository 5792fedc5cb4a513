/* A contact sheet of a data set: some samples of each class in a row, and its name. */
#ifndef VTB_CLI_DATA_SHEET_H
#define VTB_CLI_DATA_SHEET_H

#include "frontend/cli/cli.h"

/* A sheet of at most 24 classes, at even distances; damaged samples are crossed out. */
VTB_MUST_USE vtb_status data_sheet_save(const vtb_dataset *d, const char *path, vtb_error *err);

#endif
