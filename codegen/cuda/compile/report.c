/* The resource report: see report.h. Occupancy is the share of a multiprocessor's threads that can
 * be resident, limited by registers (given out in units of 256 a warp), shared memory (1 KB a block
 * is the system's) and blocks. */
#include "codegen/cuda/compile/report.h"
#include "runtime/launch/launch_walk.h"

#include <string.h>

enum {
  REGISTERS = 65536,
  THREADS = 2048,
  BLOCKS = 32,
  WARP_REGISTERS_UNIT = 256,
  SYSTEM_SHARED = 1024
};

static int shared_of(const char *arch) {
  return strncmp(arch, "sm_8", 4) == 0 ? 164 << 10 : 228 << 10;
}

static int least(int a, int b) { return a < b ? a : b; }

static int occupancy_percent(const vtb_launch_kernel *k, int registers, const char *arch) {
  int warps = k->threads / 32;
  int per_warp =
      (registers * 32 + WARP_REGISTERS_UNIT - 1) / WARP_REGISTERS_UNIT * WARP_REGISTERS_UNIT;
  int blocks = least(BLOCKS, THREADS / k->threads);
  if (per_warp) blocks = least(blocks, REGISTERS / (per_warp * warps));
  blocks = least(blocks, shared_of(arch) / (k->shared_bytes + SYSTEM_SHARED));
  return blocks * k->threads * 100 / THREADS;
}

/* The width of the column of kernels' names. */
static int names_width(const vtb_launch_plan *plan) {
  size_t wide = strlen("library product");
  for (int i = 0; i < plan->n_kernels; i++)
    if (strlen(plan->kernels[i].name) > wide) wide = strlen(plan->kernels[i].name);
  return (int)wide;
}

vtb_status vtb_cuda_report(const vtb_launch_plan *plan, const char *arch,
                           const struct vtb_behaviour *how, vtb_strbuf *out, int *n_spilling,
                           vtb_error *err) {
  if (!arch) arch = "sm_90a";
  int wide = names_width(plan);
  vtb_cuda_code *codes = vtb_xcalloc((size_t)plan->n_sources + 1, sizeof *codes);
  vtb_status status = vtb_cuda_compile_plan(plan, arch, how, codes, err);
  *n_spilling = 0;
  if (status == VTB_OK)
    vtb_strbuf_printf(out, "%-*s %7s %8s %9s %7s %7s %9s %8s  %s\n", wide, "kernel", "threads",
                      "launches", "registers", "spills", "stack", "shared", "resident", arch);
  for (int i = 0; status == VTB_OK && i < plan->n_kernels; i++) {
    const vtb_launch_kernel *k = &plan->kernels[i];
    vtb_cuda_resources r;
    if (!vtb_cuda_resources_of(codes[k->source].log, k->name, &r))
      status = vtb_fail(err, VTB_E_INTERNAL, "NVRTC's log says nothing of kernel %s", k->name);
    vtb_strbuf_printf(out, "%-*s %7d %8d %9d %7d %7d %9d %7d%%  %s\n", wide, k->name, k->threads,
                      k->info.launches, r.registers, r.spill_bytes, r.stack_bytes, k->shared_bytes,
                      occupancy_percent(k, r.registers, arch), k->info.origin);
    *n_spilling += r.spill_bytes > 0;
  }
  for (int i = 0; i < plan->n_sources; i++) vtb_cuda_code_free(&codes[i]);
  vtb_free(codes);
  return status;
}

/* ---- launches -------------------------------------------------------------------------------- */

static double mib(int64_t bytes) { return (double)bytes / (1024.0 * 1024.0); }

/* Those that begin with the step. */
static void put_loops(const vtb_launch_plan *plan, int step, vtb_strbuf *out) {
  for (int i = 0; i < plan->n_loops; i++)
    if (plan->loops[i].first == step)
      vtb_strbuf_printf(out, "%5s %s%lld x steps %d to %d:\n", "",
                        plan->loops[i].condition ? "at most " : "", (long long)plan->loops[i].times,
                        step, step + plan->loops[i].n - 1);
}

void vtb_cuda_launches(const vtb_launch_plan *plan, vtb_strbuf *out) {
  vtb_launch_traffic all = {0, 0};
  int wide = names_width(plan);
  vtb_strbuf_printf(out, "%5s %-*s %9s %7s %10s %10s\n", "step", wide, "kernel", "blocks",
                    "threads", "KiB read", "written");
  for (int i = 0; i < plan->n_steps; i++) {
    put_loops(plan, i, out);
    const vtb_launch_step *s = &plan->steps[i];
    const vtb_launch_kernel *k = s->kind == VTB_LAUNCH_KERNEL ? &plan->kernels[s->index] : NULL;
    vtb_launch_traffic t = vtb_launch_traffic_of(plan, s);
    char clusters[40] = "";
    if (k && k->cluster > 1) snprintf(clusters, sizeof clusters, "clusters of %d  ", k->cluster);
    vtb_strbuf_printf(
        out, "%5d %-*s %9lld %7d %10.1f %10.1f  %s%s%s\n", i, wide, k ? k->name : "library product",
        (long long)s->grid, k ? k->threads : 0, (double)t.read / 1024, (double)t.written / 1024,
        i < plan->n_prepared ? "prepared  " : "", clusters, vtb_launch_info(plan, s)->origin);
    int64_t runs = (int64_t)vtb_launch_runs(plan, i);
    for (int b = 0; b < plan->n_buckets; b++)
      if (plan->buckets[b].step == i && plan->buckets[b].where != VTB_BUCKET_STATE)
        vtb_strbuf_printf(out, "%5s bucket %d, summed here: %lld bytes\n", "", b,
                          (long long)plan->buckets[b].bytes);
      else if (plan->buckets[b].step == i)
        vtb_strbuf_printf(out, "%5s bucket %d complete: %.1f MB, %d tensors\n", "", b,
                          (double)plan->buckets[b].bytes / 1e6, plan->buckets[b].n_tensors);
    if (i < plan->n_prepared) continue;
    all.read += runs * t.read;
    all.written += runs * t.written;
  }
  vtb_strbuf_printf(
      out,
      "%.0f launches and %d prepared; %.2f MiB read, %.2f MiB written, workspace of %.2f MiB\n",
      vtb_launch_count(plan), plan->n_prepared, mib(all.read), mib(all.written),
      mib(plan->workspace_bytes));
}
