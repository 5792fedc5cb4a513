/* Small programs that measure a machine. */
#include "frontend/cli/bench/bench_small.h"

vtb_status bench_small_compile(const cli_model_options *options, const bench_small *s,
                               vtb_program **program) {
  char image[32], dim[32], times[32];
  const char *defines[] = {dim, times};
  snprintf(image, sizeof image, "%dx%d", s->height, s->width);
  snprintf(dim, sizeof dim, "dim=%d", s->dim);
  snprintf(times, sizeof times, "times=%d", s->times);
  vtb_compile_options o = {.size = sizeof o,
                           .behaviour = cli_how(),
                           .model = s->name,
                           .text = s->text,
                           .entry = s->entry,
                           .image = image,
                           .defines = defines,
                           .n_defines = s->times ? 2 : 1,
                           .batch = 1,
                           .library = s->library,
                           .target = options->compile.target,
                           .machine = options->compile.machine,
                           .precision = s->precision ? s->precision : options->compile.precision};
  return cli_report(options, vtb_compile(&o, program, options->report));
}

vtb_status bench_small_best(const vtb_program *p, int64_t threads, double seconds, double *best,
                            vtb_error *err) {
  void **buffers = cli_make_buffers(p, err);
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  vtb_services *services = vtb_need(vtb_services_default((int)threads));
  bench_timing t = {0};
  vtb_status status = err->text[0] ? VTB_E_MEMORY : VTB_OK;
  if (!workspace) status = vtb_no_memory(err, "the workspace");
  if (status == VTB_OK)
    status = bench_time(p, buffers, workspace, services, 0, seconds, NULL, &t, err);
  *best = t.best;
  cli_free_buffers(p, buffers);
  vtb_free(workspace);
  vtb_services_free(services);
  return status == VTB_OK ? VTB_OK : cli_error(err);
}
