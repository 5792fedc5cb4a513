/* Parameters of a model on devices, one copy on each for all sessions there. Any thread may call; a
 * model has one list. */
#ifndef VTB_DEVICE_WEIGHTS_H
#define VTB_DEVICE_WEIGHTS_H

#include "runtime/base/lock.h"
#include "runtime/launch/program.h"

typedef struct vtb__device_weights vtb__device_weights;
typedef struct vtb__device_list {
  vtb__device_weights *first;
  vtb_lock lock;
} vtb__device_list;

/* Where the program's device has copies of its tensors: host has where each is in the host's
 * memory, NULL if it is not the model's; then at is 0. *joined NULL: a user more, who leaves. */
VTB_MUST_USE vtb_status vtb__device_weights_use(vtb__device_list *all, const vtb_program *p,
                                                const void *const *host, uint64_t *at,
                                                vtb__device_weights **joined, vtb_error *err);
/* p: a program on that device. The last user's leaving frees the copies. */
void vtb__device_weights_leave(vtb__device_list *all, vtb__device_weights *w, const vtb_program *p);
/* With the model: in a child of a process whose sessions are still counted. */
void vtb__device_weights_forget(vtb__device_list *all);

#endif
