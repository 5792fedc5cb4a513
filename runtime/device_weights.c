/* Parameters of a model on a device: there once for all of its sessions. */
#include "runtime/device_weights.h"

#include <stdlib.h>

enum { ALIGNMENT = 256 };

/* Which tensors of the host's memory have a copy in the memory of one device. Sessions there count
 * as users; the last one frees it. */
struct vtb__device_weights {
  vtb__device_weights *next;
  const void *space;
  int users, n, n_blocks;
  struct copied {
    const void *host;
    uint64_t at;
  } * list;
  uint64_t *blocks;
};

static size_t padded(const vtb_tensor_info *t) {
  return ((size_t)vtb_tensor_info_count(t) * 4 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t find_copy(const vtb__device_weights *w, const void *host) {
  for (int i = 0; host && i < w->n; i++)
    if (w->list[i].host == host) return w->list[i].at;
  return 0;
}

/* Bytes of what has no copy yet; *n: how many tensors. */
static size_t count_missing(const vtb__device_weights *w, const vtb_program *p,
                            const void *const *host, int *n) {
  size_t bytes = 0;
  *n = 0;
  for (int i = 0; i < p->n_tensors; i++) {
    if (!host[i] || find_copy(w, host[i])) continue;
    bytes += padded(&p->tensors[i]);
    ++*n;
  }
  return bytes;
}

static vtb_status fill_block(vtb__device_weights *w, const vtb_program *p, const void *const *host,
                             uint64_t at, vtb_error *err) {
  vtb_status status = VTB_OK;
  int before = w->n;
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++) {
    size_t bytes = (size_t)vtb_tensor_info_count(&p->tensors[i]) * 4;
    if (!host[i] || find_copy(w, host[i])) continue;
    status = p->device->copy(p->owner, at, (void *)(uintptr_t)host[i], bytes, true, err);
    w->list[w->n++] = (struct copied){host[i], at};
    at += padded(&p->tensors[i]);
  }
  if (status != VTB_OK) w->n = before;
  return status;
}

static vtb_status add_block(vtb__device_weights *w, const vtb_program *p, const void *const *host,
                            vtb_error *err) {
  uint64_t at = 0;
  int n;
  size_t bytes = count_missing(w, p, host, &n);
  if (!n) return VTB_OK;
  void *list = realloc(w->list, ((size_t)w->n + (size_t)n) * sizeof *w->list);
  if (list) w->list = list;
  void *blocks = realloc(w->blocks, ((size_t)w->n_blocks + 1) * sizeof *w->blocks);
  if (blocks) w->blocks = blocks;
  if (!list || !blocks) return vtb_no_memory(err, "parameters on a device");
  VTB_TRY(p->device->take(p->owner, bytes, &at, err));
  vtb_status status = fill_block(w, p, host, at, err);
  if (status == VTB_OK)
    w->blocks[w->n_blocks++] = at;
  else
    p->device->give(p->owner, at);
  return status;
}

/* The weights of the device that the program is on, made if there are none. */
static vtb__device_weights *find_weights(vtb__device_list *all, const vtb_program *p) {
  const void *space = p->device->space(p->owner);
  vtb__device_weights *w = all->first;
  while (w && w->space != space) w = w->next;
  if (w || !(w = calloc(1, sizeof *w))) return w;
  w->space = space;
  w->next = all->first;
  all->first = w;
  return w;
}

static void leave(vtb__device_list *all, vtb__device_weights *w, const vtb_program *p) {
  vtb__device_weights **at = &all->first;
  if (--w->users > 0) return;
  while (*at != w) at = &(*at)->next;
  *at = w->next;
  for (int i = 0; i < w->n_blocks; i++) p->device->give(p->owner, w->blocks[i]);
  free(w->blocks);
  free(w->list);
  free(w);
}

vtb_status vtb__device_weights_use(vtb__device_list *all, const vtb_program *p,
                                   const void *const *host, uint64_t *at,
                                   vtb__device_weights **joined, vtb_error *err) {
  (void)vtb_lock_take(&all->lock);
  vtb__device_weights *w = find_weights(all, p);
  bool joins = w && !*joined;
  if (joins) w->users++;
  vtb_status status = w ? add_block(w, p, host, err) : vtb_no_memory(err, "parameters on a device");
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++) at[i] = find_copy(w, host[i]);
  if (status == VTB_OK)
    *joined = w;
  else if (joins)
    leave(all, w, p);
  vtb_lock_give(&all->lock);
  return status;
}

void vtb__device_weights_leave(vtb__device_list *all, vtb__device_weights *w,
                               const vtb_program *p) {
  (void)vtb_lock_take(&all->lock);
  leave(all, w, p);
  vtb_lock_give(&all->lock);
}

void vtb__device_weights_forget(vtb__device_list *all) {
  for (vtb__device_weights *w = all->first, *next; w; w = next) {
    next = w->next;
    free(w->blocks);
    free(w->list);
    free(w);
  }
  all->first = NULL;
}
