/* Event files of TensorBoard: records of length, checksum, an Event of runtime/train/events.proto,
 * checksum. */
#ifndef VTB_TENSORBOARD_H
#define VTB_TENSORBOARD_H

#include "runtime/base/base.h"

typedef struct vtb_board vtb_board;

/* A new file in `folder`, which is made. after_step: of a run that goes on, the last update that
 * counts of earlier files; -1: it begins. */
VTB_MUST_USE vtb_status vtb_board_open(const char *folder, int64_t after_step, vtb_board **out,
                                       vtb_error *err);
typedef struct vtb_board_value {
  char tag[96];
  double value; /* not finite: left out */
} vtb_board_value;
/* One record, written through. */
VTB_MUST_USE vtb_status vtb_board_put(vtb_board *b, int64_t step, const vtb_board_value *values,
                                      size_t n, vtb_error *err);
void vtb_board_close(vtb_board *b); /* NULL is fine */

/* CRC-32C (Castagnoli) as the files have it: rotated and shifted, so that checksums of texts with
 * checksums in them differ. */
uint32_t vtb_board_checksum(const void *bytes, size_t n);

#endif
