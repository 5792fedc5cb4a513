/* Inputs and results on a GPU, work on the caller's stream: for programs that use CUDA, whose
 * cudaStream_t and device pointers these are. Nothing passes through the host, nothing waits. */
#include "device.h"

vtb_status open_there(vtb_model *model, void *stream, vtb_session **out, vtb_error *err) {
  const vtb_session_options o = {
      .size = sizeof o, .device = VTB_DEVICE_CUDA, .cuda_stream = stream, .has_cuda_stream = true};
  return vtb_session_open(model, &o, out, err);
}

/* Memory of the device for the first array of the kind, which has as many rows as there are. */
static vtb_status bind(vtb_session *s, vtb_array_kind kind, void *data, int64_t rows,
                       vtb_error *err) {
  vtb_array a = {.size = sizeof a};
  vtb_status status = vtb_session_array(s, kind, NULL, &a, err);
  if (status != VTB_OK) return status;
  a.device = VTB_DEVICE_CUDA;
  a.data = data;
  a.dim[0] = rows;
  return vtb_session_bind(s, a.name, &a, err);
}

vtb_status run_there(vtb_session *s, void *images, void *scores, int64_t rows, vtb_error *err) {
  vtb_status status = bind(s, VTB_ARRAY_INPUT, images, rows, err);
  if (status == VTB_OK) status = bind(s, VTB_ARRAY_OUTPUT, scores, rows, err);
  return status == VTB_OK ? vtb_session_run(s, rows, err) : status;
}
