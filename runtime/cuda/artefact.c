/* CUDA programs from built files: the images that suit the device, the plan, and what went wrong in
 * words. */
#include "runtime/artefact/artefact_internal.h"
#include "runtime/cuda/run.h"

#include <string.h>

/* "compute_90" is 90; 0 for cubins. */
static int ptx_version(const char *arch) {
  return vtb_starts_with(arch, "compute_") ? (int)strtol(arch + strlen("compute_"), NULL, 10) : 0;
}

/* Cubins of the device's own architecture, else the newest PTX that it understands; the plan of one
 * architecture alone only if it is wanted. */
static const vtb_artefact_images *choose_images(const vtb_artefact_program *p,
                                                const vtb_cuda_device *d) {
  const vtb_artefact_images *best = NULL;
  int version = 0, here = 10 * d->major + d->minor;
  bool common = d->how.wgmma == VTB_NO;
  for (int i = 0; i < p->n_images; i++) {
    int ptx = ptx_version(p->images[i].arch);
    if (common && p->plans[p->images[i].plan].arch) continue;
    if (!ptx && strcmp(p->images[i].arch, d->arch) == 0) return &p->images[i];
    if (ptx <= version || ptx > here) continue;
    best = &p->images[i];
    version = ptx;
  }
  return best;
}

static vtb_status nothing_suits(const vtb_artefact *a, const vtb_artefact_program *p,
                                const vtb_cuda_device *d, vtb_error *err) {
  vtb_strbuf there = VTB_CHECKED_STRBUF;
  for (int i = 0; i < p->n_images; i++)
    vtb_strbuf_printf(&there, "%s%s", i ? ", " : "", p->images[i].arch);
  vtb_status status =
      vtb_fail(err, VTB_E_DEVICE, "%s has code for %s; %s has compute capability %d.%d",
               vtb__artefact_path(a), vtb_strbuf_text(&there), d->name, d->major, d->minor);
  vtb_strbuf_free(&there);
  return status;
}

/* Says what was tried: the commonest reason is a driver older than the compiler. */
static vtb_status refused(const vtb_artefact *a, const vtb_artefact_images *m,
                          const vtb_cuda_device *d, const vtb_error *inner, vtb_error *err) {
  const char *nvrtc = vtb_artefact_manifest(a)->nvrtc;
  return vtb_fail(err, VTB_E_DEVICE, "%s: %s for %s by %s, on %s with the driver of CUDA %d.%d: %s",
                  vtb__artefact_path(a), ptx_version(m->arch) ? "PTX" : "code", m->arch,
                  nvrtc ? nvrtc : "?", d->name, d->driver / 1000, d->driver % 1000 / 10,
                  inner->text);
}

static vtb_status make(const vtb_artefact *a, const vtb_artefact_images *m, vtb_launch_plan *plan,
                       vtb_cuda_device *d, vtb_program **program, vtb_error *err) {
  if (m->n != plan->n_sources)
    return vtb_fail(err, VTB_E_INPUT, "%s: %d images for %d sources", vtb__artefact_path(a), m->n,
                    plan->n_sources);
  vtb_cuda_image *images = calloc((size_t)m->n + 1, sizeof *images);
  if (!images) return vtb_no_memory(err, vtb__artefact_path(a));
  vtb_error inner = {0};
  bool sound = true;
  for (int i = 0; i < m->n; i++) {
    images[i] = (vtb_cuda_image){vtb__artefact_bytes(a, &m->at[i]), (size_t)m->at[i].bytes};
    /* the driver takes the length of PTX from its final zero */
    sound = sound &&
            (!ptx_version(m->arch) || ((const char *)images[i].data)[images[i].n_bytes - 1] == 0);
  }
  vtb_status status = sound ? vtb__cuda_program(plan, images, false, d, program, &inner)
                            : vtb_fail(&inner, VTB_E_INPUT, "PTX without an end");
  free(images);
  return status == VTB_E_DEVICE ? refused(a, m, d, &inner, err)
         : status == VTB_OK     ? VTB_OK
                            : vtb_fail(err, status, "%s: %s", vtb__artefact_path(a), inner.text);
}

vtb_status vtb__artefact_load_cuda(const vtb_artefact *a, const vtb_artefact_program *p,
                                   const vtb_device_choice *where, vtb_program **program,
                                   vtb_error *err) {
  vtb_cuda_device *device = NULL;
  vtb_launch_plan *plan = NULL;
  if (!p->n_images)
    return vtb_fail(err, VTB_E_DEVICE, "%s has no code for CUDA: build it with --target cuda",
                    vtb__artefact_path(a));
  VTB_TRY(vtb__cu_open(where, &device, err));
  const vtb_artefact_images *m = choose_images(p, device);
  vtb_status status =
      m ? vtb_artefact_read_plan(a, p, m->plan, &plan, err) : nothing_suits(a, p, device, err);
  if (status == VTB_OK) status = make(a, m, plan, device, program, err);
  if (status == VTB_OK) return VTB_OK;
  vtb_launch_plan_free(plan);
  vtb_cuda_device_close(device);
  return status;
}
