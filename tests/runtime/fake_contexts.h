/* Contexts and addresses of the fake driver: which is current in a thread, which a stream is of,
 * where an address points to. */
#ifndef VTB_TEST_FAKE_CONTEXTS_H
#define VTB_TEST_FAKE_CONTEXTS_H

#include "tests/runtime/fake_driver.h"

int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context) {
  LOCK;
  FAIL_IF_ASKED("cuCtxSetCurrent");
  if (!depth) depth = 1;
  contexts[depth - 1] = context;
  return OK;
}
int cuCtxGetCurrent(void **context);
int cuCtxGetCurrent(void **context) {
  LOCK;
  FAIL_IF_ASKED("cuCtxGetCurrent");
  *context = current();
  return OK;
}
int cuCtxPushCurrent_v2(void *context);
int cuCtxPushCurrent_v2(void *context) {
  LOCK;
  FAIL_IF_ASKED("cuCtxPushCurrent_v2");
  if (!context || depth == MAX_DEPTH) return INVALID;
  contexts[depth++] = context;
  return OK;
}
int cuCtxPopCurrent_v2(void **context);
int cuCtxPopCurrent_v2(void **context) {
  LOCK;
  if (!depth) return INVALID;
  *context = contexts[--depth];
  return OK; /* what was pushed comes off */
}
int cuCtxGetDevice(int *device);
int cuCtxGetDevice(int *device) {
  LOCK;
  FAIL_IF_ASKED("cuCtxGetDevice");
  *device = current_device();
  return current() ? OK : INVALID;
}
int cuStreamGetCtx(void *of, void **context);
int cuStreamGetCtx(void *of, void **context) {
  LOCK;
  FAIL_IF_ASKED("cuStreamGetCtx");
  const stream *s = stream_of(of);
  if (!s || !s->is_open) return INVALID;
  *context = s->context;
  return OK;
}
int cuStreamIsCapturing(void *of, int *state);
int cuStreamIsCapturing(void *of, int *state) {
  LOCK;
  FAIL_IF_ASKED("cuStreamIsCapturing");
  *state = capturing_on && stream_of(of) == capturing_on;
  return stream_of(of) ? OK : INVALID;
}
/* Of an address that is neither a device's nor pinned nothing is known. */
int cuPointerGetAttribute(void *value, int attribute, uint64_t address);
int cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
  LOCK;
  FAIL_IF_ASKED("cuPointerGetAttribute");
  int *out = value;
  if (is_pinned((const void *)(uintptr_t)address, 1) && attribute == 2) *out = 1;
  for (int i = 0; i < MAX_BLOCKS; i++) {
    uint64_t begin = (uint64_t)(uintptr_t)memory[i].at;
    if (!begin || address < begin || address >= begin + memory[i].n) continue;
    *out = attribute == 2 ? 2 : memory[i].device;
    return attribute == 2 || attribute == 9 ? OK : INVALID;
  }
  return is_pinned((const void *)(uintptr_t)address, 1) ? OK : INVALID;
}
/* The caller records its stream into a graph of its own: launches there are written down and not
 * done, and a graph must not be launched. */
void fake_cuda_capture(void *on);
void fake_cuda_capture(void *on) { capturing_on = on ? stream_of(on) : NULL; }

#endif
