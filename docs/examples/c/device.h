/* See device.c. */
#ifndef DEVICE_H
#define DEVICE_H

#include <vertebra.h>

/* A session whose work is put on the stream. The caller closes it before it destroys the stream. */
vtb_status open_there(vtb_model *model, void *stream, vtb_session **out, vtb_error *err);
/* From the images on the device to the scores there: queued when it returns; the caller reads them
 * behind it on the stream, or after cudaStreamSynchronize(). */
vtb_status run_there(vtb_session *s, void *images, void *scores, int64_t rows, vtb_error *err);

#endif
