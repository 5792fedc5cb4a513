/* A data set's identity in a line: so that a run is not continued with another one. */
#ifndef VTB_FINGERPRINT_H
#define VTB_FINGERPRINT_H

#include "runtime/data/dataset.h"

enum { VTB_FINGERPRINT = 160 };

/* "samples=60000 classes=<hash> labels=<hash> contents=<hash>": the number of samples, the names of
 * the classes, all labels, and the bytes of up to 64 samples spread over the set. A sample that
 * cannot be read counts as such and is no error here. */
VTB_MUST_USE vtb_status vtb_fingerprint(const vtb_dataset *d, char out[VTB_FINGERPRINT],
                                        vtb_error *err);

/* Appends to `out` what differs between two texts of words "name=value": "lr=0.1 (now lr=0.2), now
 * ema=0.9". Of the path of a model, an optimizer or weights to start from the last part counts. */
void vtb_tell_differences(const char *then, const char *now, char *out, size_t size);
/* The same of what differs otherwise than in time; where: "there" instead of "now". */
void vtb_tell_others(const char *a, const char *b, const char *where, char *out, size_t size);

#endif
