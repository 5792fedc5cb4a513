/* The machines, and the model: see gpu.h. */
#include "passes/cost/gpu.h"

#include <math.h>

/* ---- the table ------------------------------------------------------------------------------- */

/* Sources. Data sheets and architecture papers of NVIDIA: multiprocessors, boost clocks, memory,
 * L2, dense tensor rates (A100 312 TF bf16 and 156 tf32, H100 and H200 989 and 495, B200 2250 and
 * 1125). CUDA C Programming Guide, "Arithmetic Instructions" and "Technical Specifications per
 * Compute Capability": 4 schedulers, 16 special functions a clock, 64 warps, 32 blocks, 65536
 * registers, 164 KB of shared memory on 8.0 and 228 KB from 9.0.
 *
 * What programs reach of that:
 *   bytes     of 4.8 TB/s an H200's long copies reach 4.3 (PyTorch, measured); kernels of a model
 *             are taken to reach 4.0, 0.83 of the data sheet, and so on every machine
 *   l2_bytes  microbenchmarks read 5.5 to 7 TB/s from an H100's L2, 4 to 5 from an A100's; writes
 *             and the far half cost more: 5.5 and 3.5. B200: assumed, as its memory to H200's
 *   tensor    wide: cuBLAS on an H200, 8192^3 of random numbers, 769 to 798 TF (measured): 0.8; on
 *             B200 assumed the same. warp: mma.sync is taken to reach 0.6 of Hopper's peak; on A100
 *             there is nothing else, 0.75; on B200 it is assumed no faster a clock than Hopper's
 *   issue     3 of 4 a clock: loops of loads, conversions and multiply-adds stall a quarter
 *   launch    from the end of a kernel to the beginning of the next in a graph of one stream;
 *             assumed, between the 1 to 2 us that others report
 *   latency   600 to 900 clocks of an access to memory in the same microbenchmarks */
#define SCHEDULERS                                                                                 \
  .issue = 3, .special = 16, .wavefronts = 1, .warps = 64, .blocks = 32, .registers = 65536
#define HOPPER                                                                                     \
  SCHEDULERS, .arch = "sm_90a", .processors = 132, .clock = 1.755e9, .shared_bytes = 228 << 10,    \
              .tensor = {0.6 * 989e12, 0.6 * 495e12, 0.8 * 989e12, 0.8 * 495e12},                  \
              .l2_bytes = 5.5e12, .l2_size = 50e6, .launch = 1.5e-6, .latency = 0.5e-6

static const vtb_gpu table[] = {
    {.name = "h200", .what = "NVIDIA H200 SXM, 141 GB", HOPPER, .bytes = 0.83 * 4.8e12},
    {.name = "h100", .what = "NVIDIA H100 SXM, 80 GB", HOPPER, .bytes = 0.83 * 3.35e12},
    {.name = "a100",
     .what = "NVIDIA A100 SXM, 80 GB",
     SCHEDULERS,
     .processors = 108,
     .clock = 1.41e9,
     .shared_bytes = 164 << 10,
     .tensor = {0.75 * 312e12, 0.75 * 156e12},
     .bytes = 0.83 * 2.039e12,
     .l2_bytes = 3.5e12,
     .l2_size = 40e6,
     .launch = 1.8e-6,
     .latency = 0.6e-6},
    {.name = "b200",
     .what = "NVIDIA B200 SXM, 180 GB",
     SCHEDULERS,
     .processors = 148,
     .clock = 1.85e9,
     .shared_bytes = 228 << 10,
     .tensor = {0.6 * 1170e12, 0.6 * 585e12, 0.8 * 2250e12, 0.8 * 1125e12},
     .bytes = 0.83 * 8.0e12,
     .l2_bytes = 9e12,
     .l2_size = 126e6,
     .launch = 1.5e-6,
     .latency = 0.5e-6},
};
enum { N_MACHINES = sizeof table / sizeof *table };

const vtb_gpu *vtb_gpus(size_t *n) {
  *n = N_MACHINES;
  return table;
}

const vtb_gpu *vtb_gpu_find(const char *name) {
  for (size_t i = 0; i < N_MACHINES; i++)
    if (vtb_streq(table[i].name, name)) return &table[i];
  return NULL;
}

const vtb_gpu *vtb_gpu_default(void) { return &table[0]; }

const vtb_gpu *vtb_gpu_or_default(const vtb_gpu *g) { return g->name[0] ? g : vtb_gpu_default(); }

/* ---- a launch -------------------------------------------------------------------------------- */

const char *const vtb_limit_names[VTB_N_LIMITS] = {"launch", "memory",  "L2",     "tensor",
                                                   "issue",  "special", "shared", "chain"};

enum {
  REGISTERS_UNIT = 256,    /* given to a warp at a time */
  SYSTEM_SHARED = 1024,    /* of a block */
  PRODUCT_REGISTERS = 128, /* where nothing is known of them */
  OTHER_REGISTERS = 32
};

/* Clocks from an instruction of a warp to its next, if no other warp were there: of unrolled
 * multiply-adds, 4, their latency; where a quarter waits for tensor cores or special functions,
 * half as many more. Stall counts and latencies in the machine code of kernels that a
 * multiprocessor was simulated with: tiles of a scan, 8 warps, 5.7 clocks; adjoints of a selective
 * one, 12 warps, 5.6. */
#define GAP 4.0
#define LONG_GAP 8.0 /* of such an instruction, beside GAP */
#define MOST_GAP 2.0 /* of all, beside GAP: others are between them */
/* Warps of a multiprocessor that keep its special functions and its shared memory busy. */
#define BUSY_WARPS 5.0
/* Bytes that a warp has under way: two loads of 16 bytes a lane. */
#define WARP_BYTES 1024.0

double vtb_gpu_block_shared(const vtb_gpu *g, int blocks) {
  return floor(g->shared_bytes / blocks) - SYSTEM_SHARED;
}

static double tensor_sum(const vtb_work *w) {
  double sum = 0;
  for (int u = 0; u < VTB_N_TENSOR_UNITS; u++) sum += w->tensor[u];
  return sum;
}

static int resident_blocks(const vtb_gpu *m, const vtb_work *w) {
  double warps = fmax(1, ceil(w->threads / 32));
  double registers = w->registers > 0    ? w->registers
                     : tensor_sum(w) > 0 ? PRODUCT_REGISTERS
                                         : OTHER_REGISTERS;
  double per_warp = ceil(registers * 32 / REGISTERS_UNIT) * REGISTERS_UNIT;
  double n = fmin(m->blocks, floor(m->warps / warps));
  n = fmin(n, floor(m->registers / (per_warp * warps)));
  n = fmin(n, floor(m->shared_bytes / (w->shared_bytes + SYSTEM_SHARED)));
  return (int)fmax(1, n);
}

static double tensor_rate(const vtb_gpu *m, int unit) {
  if (m->tensor[unit] > 0 || unit < VTB_TENSOR_WIDE_16) return m->tensor[unit];
  return m->tensor[unit - VTB_TENSOR_WIDE_16];
}

static double tensor_seconds(const vtb_gpu *m, const vtb_work *w) {
  double sum = 0;
  for (int u = 0; u < VTB_N_TENSOR_UNITS; u++)
    if (w->tensor[u] > 0) sum += w->tensor[u] / tensor_rate(m, u);
  return sum;
}

/* Instructions of warps that others wait long for. */
static double long_instructions(const vtb_work *w) {
  enum { MMA_16 = 4096, MMA_TF32 = 2048 }; /* flops of m16n8k16 and m16n8k8 */
  return w->tensor[VTB_TENSOR_WARP_16] / MMA_16 + w->tensor[VTB_TENSOR_WARP_TF32] / MMA_TF32 +
         w->special / 32;
}

/* Clocks of a multiprocessor that issues so many instructions for so many warps. */
static double issue_clocks(const vtb_gpu *m, const vtb_work *w, double warps) {
  double gaps = GAP * w->issue + fmin(MOST_GAP * w->issue, LONG_GAP * long_instructions(w));
  return fmax(w->issue / m->issue, gaps / warps);
}

/* All limits together, if `share` blocks are on a multiprocessor at a time. */
static double seconds_of_work(const vtb_work *w, const vtb_launch_time *t, double share) {
  double moving = fmax(t->by[VTB_LIMIT_MEMORY], t->by[VTB_LIMIT_L2]), computing = 0;
  for (int l = VTB_LIMIT_TENSOR; l < VTB_N_LIMITS; l++) computing = fmax(computing, t->by[l]);
  if (w->after > 0) {
    double rest = t->by[VTB_LIMIT_ISSUE] * fmin(1, w->after / w->issue);
    computing = fmax(computing, t->by[VTB_LIMIT_TENSOR] + rest / share);
  }
  return fmax(moving, computing) + (w->phases ? fmin(moving, computing) / share : 0);
}

vtb_launch_time vtb_gpu_time(const vtb_gpu *m, const vtb_work *w) {
  vtb_launch_time t = {.resident = resident_blocks(m, w)};
  double blocks = fmax(1, w->blocks), most = ceil(blocks / m->processors);
  double share = fmin(most, t.resident), warps = share * fmax(1, ceil(w->threads / 32));
  double busy = fmin(1, warps / BUSY_WARPS), tensor_busy = fmin(1, warps / 4);
  /* times as long as if the work were spread evenly */
  double uneven = most * m->processors / blocks;
  double clocks = m->clock * m->processors;
  double flight = fmax(warps * WARP_BYTES, share * w->flight);
  double under_way = fmin(blocks, m->processors) * flight / m->latency;
  t.waves = blocks / (m->processors * t.resident);
  t.by[VTB_LIMIT_LAUNCH] = m->launch + m->latency;
  t.by[VTB_LIMIT_MEMORY] = w->bytes / fmin(m->bytes, under_way);
  t.by[VTB_LIMIT_L2] = (w->bytes + w->l2_bytes) / fmin(m->l2_bytes, 2 * under_way);
  t.by[VTB_LIMIT_TENSOR] = tensor_seconds(m, w) * uneven / tensor_busy;
  t.by[VTB_LIMIT_ISSUE] = issue_clocks(m, w, warps) / clocks * uneven;
  t.by[VTB_LIMIT_SPECIAL] = w->special / (clocks * m->special) * uneven / busy;
  t.by[VTB_LIMIT_WAVEFRONTS] = w->wavefronts / (clocks * m->wavefronts) * uneven / busy;
  t.by[VTB_LIMIT_CHAIN] = ceil(most / t.resident) * w->chain / m->clock;
  double work = 0;
  for (int l = VTB_LIMIT_MEMORY; l < VTB_N_LIMITS; l++) {
    if (t.by[l] > work && t.by[l] > t.by[t.limit]) t.limit = (vtb_limit)l;
    work = fmax(work, t.by[l]);
  }
  t.seconds = seconds_of_work(w, &t, share) + t.by[VTB_LIMIT_LAUNCH];
  return t;
}

vtb_launch_time vtb_gpu_gemm(const vtb_gpu *g, double rows, double columns, double depth,
                             double batch, vtb_tensor_unit unit, double bytes, double l2_bytes) {
  /* Tiles of 128 x 256, or half of it where those are few; filling and emptying a tile's pipeline
   * takes as long as 128 of the depth. */
  vtb_work w = {.threads = 384, .shared_bytes = 200 << 10, .registers = 168, .bytes = bytes};
  double wide = 256, tiles = ceil(rows / 128) * ceil(columns / wide) * batch;
  if (tiles < 2 * g->processors) {
    wide = 128;
    tiles = ceil(rows / 128) * ceil(columns / wide) * batch;
  }
  w.blocks = tiles;
  w.l2_bytes = l2_bytes;
  double flops = 2 * tiles * 128 * wide * (depth + 128);
  if (unit < VTB_N_TENSOR_UNITS)
    w.tensor[unit] = flops;
  else
    w.issue = 1.1 * flops / 64; /* 32 multiply-adds an instruction, and what brings their factors */
  return vtb_gpu_time(g, &w);
}
