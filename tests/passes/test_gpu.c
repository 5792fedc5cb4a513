/* The model of launches: each resource can bind, blocks share multiprocessors, more work never
 * takes less. */
#include "passes/cost/gpu.h"
#include "tests/test.h"

/* A launch that does nothing much: enough blocks and warps to fill the machine. */
static vtb_work idle(const vtb_gpu *m) {
  return (vtb_work){.blocks = 64 * m->processors, .threads = 256, .bytes = 1};
}

/* What a field is, by number. */
enum { BYTES, L2, TENSOR, ISSUE, SPECIAL, WAVEFRONTS, CHAIN, FIELDS, AFTER = FIELDS, ALL };
static double *field(vtb_work *w, int i) {
  double *all[ALL] = {&w->bytes, &w->l2_bytes, &w->tensor[VTB_TENSOR_WARP_16],
                      &w->issue, &w->special,  &w->wavefronts,
                      &w->chain, &w->after};
  return all[i];
}

TEST(names) {
  size_t n;
  const vtb_gpu *all = vtb_gpus(&n);
  CHECK(n >= 4);
  for (size_t i = 0; i < n; i++) {
    CHECK(vtb_gpu_find(all[i].name) == &all[i]);
    CHECK(all[i].what[0] && strlen(all[i].name) < sizeof all[i].name);
  }
  CHECK(vtb_gpu_find("h200") == vtb_gpu_default());
  CHECK(!vtb_gpu_find("h2"));
}

/* A second's worth of each takes a second, and is what binds. */
TEST(limits) {
  size_t n;
  const vtb_gpu *all = vtb_gpus(&n);
  for (size_t i = 0; i < n; i++) {
    const vtb_gpu *m = &all[i];
    double clocks = m->clock * m->processors;
    const double second[FIELDS] = {
        m->bytes,          m->l2_bytes,         m->tensor[VTB_TENSOR_WARP_16],
        m->issue * clocks, m->special * clocks, m->wavefronts * clocks,
        m->clock / 8};
    const vtb_limit limits[FIELDS] = {VTB_LIMIT_MEMORY, VTB_LIMIT_L2,      VTB_LIMIT_TENSOR,
                                      VTB_LIMIT_ISSUE,  VTB_LIMIT_SPECIAL, VTB_LIMIT_WAVEFRONTS,
                                      VTB_LIMIT_CHAIN};
    for (int f = 0; f < FIELDS; f++) {
      vtb_work w = idle(m);
      *field(&w, f) = second[f];
      w.registers = 32;
      vtb_launch_time t = vtb_gpu_time(m, &w);
      CHECK_MSG(t.limit == limits[f], "%s: %s binds instead of %s", m->name,
                vtb_limit_names[t.limit], vtb_limit_names[limits[f]]);
      CHECK_NEAR(t.seconds, 1 + m->launch + m->latency, 1e-3);
      CHECK_NEAR(t.by[t.limit], 1, 1e-3);
    }
    vtb_work nothing = idle(m);
    CHECK(vtb_gpu_time(m, &nothing).limit == VTB_LIMIT_LAUNCH);
    CHECK_NEAR(vtb_gpu_time(m, &nothing).seconds, m->launch + m->latency, 1e-7);
  }
}

TEST(resident_blocks) {
  const vtb_gpu *m = vtb_gpu_find("h200");
  const struct {
    double threads, shared, registers;
    int resident;
  } cases[] = {{1024, 0, 32, 2},        {256, 0, 32, 8},         {32, 0, 16, 32},
               {256, 0, 128, 2},        {256, 0, 160, 1},        {256, 0, 129, 1},
               {128, 100 << 10, 32, 2}, {128, 227 << 10, 32, 1}, {128, 57856, 32, 3},
               {384, 0, 168, 1},        {128, 83 << 10, 136, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    vtb_work w = {.blocks = 1e4,
                  .threads = cases[i].threads,
                  .shared_bytes = cases[i].shared,
                  .registers = cases[i].registers};
    CHECK_MSG(vtb_gpu_time(m, &w).resident == cases[i].resident, "case %d: %d", (int)i,
              vtb_gpu_time(m, &w).resident);
  }
  /* of products more registers are taken where nothing is known */
  vtb_work w = {.blocks = 1e4, .threads = 256};
  int plain = vtb_gpu_time(m, &w).resident;
  w.tensor[VTB_TENSOR_WARP_16] = 1;
  CHECK(vtb_gpu_time(m, &w).resident < plain);
}

/* One block more than there are multiprocessors takes twice as long, if a block takes the same. */
TEST(waves) {
  const vtb_gpu *m = vtb_gpu_find("a100");
  vtb_work w = {.blocks = m->processors, .threads = 512, .registers = 128};
  w.tensor[VTB_TENSOR_WARP_16] = 1e9 * w.blocks;
  double one = vtb_gpu_time(m, &w).by[VTB_LIMIT_TENSOR];
  CHECK_NEAR(vtb_gpu_time(m, &w).waves, 1, 1e-9);
  w.blocks++;
  w.tensor[VTB_TENSOR_WARP_16] = 1e9 * w.blocks;
  CHECK_NEAR(vtb_gpu_time(m, &w).by[VTB_LIMIT_TENSOR], 2 * one, 1e-9);
  /* few blocks leave multiprocessors, and memory, idle */
  vtb_work few = {.blocks = 8, .threads = 128, .bytes = 1e9}, many = few;
  many.blocks = 1e4;
  CHECK(vtb_gpu_time(m, &few).by[VTB_LIMIT_MEMORY] >
        10 * vtb_gpu_time(m, &many).by[VTB_LIMIT_MEMORY]);
  /* unless they keep much under way */
  vtb_work full = few;
  full.flight = 1e6;
  CHECK(vtb_gpu_time(m, &full).by[VTB_LIMIT_MEMORY] <
        0.1 * vtb_gpu_time(m, &few).by[VTB_LIMIT_MEMORY]);
  /* a chain is as long as the waves are many: 3 of 108 * 2 blocks */
  vtb_work chain = {.blocks = 500, .threads = 1024, .registers = 16, .chain = 1.41e6};
  CHECK_NEAR(vtb_gpu_time(m, &chain).by[VTB_LIMIT_CHAIN], 3e-3, 1e-9);
}

TEST(monotonic) {
  unsigned long long seed = 7;
  size_t n;
  const vtb_gpu *all = vtb_gpus(&n);
  for (int i = 0; i < 2000; i++) {
    const vtb_gpu *m = &all[i % (int)n];
    vtb_work w = {.blocks = floor(exp(10 * fabs(test_random(&seed)))) + 1,
                  .threads = 32 * floor(1 + 31 * fabs(test_random(&seed))),
                  .shared_bytes = 1e5 * fabs(test_random(&seed)),
                  .registers = floor(255 * fabs(test_random(&seed))),
                  .phases = test_random(&seed) > 0};
    for (int f = 0; f < ALL; f++) *field(&w, f) = exp(24 * fabs(test_random(&seed)));
    double before = vtb_gpu_time(m, &w).seconds;
    CHECK(isfinite(before) && before > 0);
    vtb_work more = w;
    *field(&more, i % ALL) *= 3;
    CHECK(vtb_gpu_time(m, &more).seconds >= before);
    more = w;
    more.shared_bytes += 4096; /* never more blocks at a time */
    CHECK(vtb_gpu_time(m, &more).seconds >= before * (1 - 1e-12));
    CHECK(vtb_gpu_time(m, &more).resident <= vtb_gpu_time(m, &w).resident);
  }
}

/* What a block does one after the other adds up, as far as others do not fill the gaps. */
TEST(phases) {
  const vtb_gpu *m = vtb_gpu_find("h200");
  double clocks = m->clock * m->processors, start = m->launch + m->latency;
  vtb_work w = {.blocks = 64 * m->processors, .threads = 1024, .registers = 64};
  w.bytes = m->bytes;
  w.issue = m->issue * clocks;
  CHECK_NEAR(vtb_gpu_time(m, &w).seconds, 1 + start, 1e-3);
  w.phases = true;
  CHECK(vtb_gpu_time(m, &w).resident == 1);
  CHECK_NEAR(vtb_gpu_time(m, &w).seconds, 2 + start, 1e-3);
  w.registers = 32;
  CHECK_NEAR(vtb_gpu_time(m, &w).seconds, 1.5 + start, 1e-3);
  /* results behind a product: half of what is issued */
  vtb_work p = {.blocks = 64 * m->processors, .threads = 512, .registers = 128};
  p.tensor[VTB_TENSOR_WIDE_16] = m->tensor[VTB_TENSOR_WIDE_16];
  p.issue = m->issue * clocks;
  CHECK_NEAR(vtb_gpu_time(m, &p).seconds, 1 + start, 1e-3);
  p.after = p.issue / 2;
  CHECK_NEAR(vtb_gpu_time(m, &p).seconds, 1.5 + start, 1e-3);
}

/* Few warps issue little, and less where they wait for tensor cores: the scan of 16-bit tiles that
 * was simulated has 8 warps and 1.4 instructions a clock. */
TEST(few_warps_wait) {
  const vtb_gpu *m = vtb_gpu_find("h200");
  double clocks = m->clock * m->processors;
  vtb_work w = {.blocks = 64 * m->processors, .threads = 256, .registers = 240, .issue = clocks};
  double plain = 1 / vtb_gpu_time(m, &w).by[VTB_LIMIT_ISSUE];
  CHECK_NEAR(plain, 2, 1e-9);
  w.tensor[VTB_TENSOR_WARP_16] = 4096 * clocks / 4;
  double tiles = 1 / vtb_gpu_time(m, &w).by[VTB_LIMIT_ISSUE];
  CHECK_MSG(tiles > 1.2 && tiles < 1.5, "%g instructions a clock", tiles);
  w.registers = 32;
  CHECK_NEAR(1 / vtb_gpu_time(m, &w).by[VTB_LIMIT_ISSUE], m->issue, 1e-9);
}

static double gemm(const vtb_gpu *g, double m, double n, double k, vtb_tensor_unit unit) {
  return vtb_gpu_gemm(g, m, n, k, 1, unit, 2 * (m * n + m * k + k * n), 0).seconds;
}

/* An H200 makes large products at about 790 TF, small ones slower. */
TEST(library_products) {
  const vtb_gpu *g = vtb_gpu_find("h200"), *a = vtb_gpu_find("a100");
  double n = 8192, rate = 2 * n * n * n / gemm(g, n, n, n, VTB_TENSOR_WIDE_16);
  CHECK_MSG(rate > 7.2e14 && rate < 8.0e14, "%g", rate);
  double small = gemm(g, 200, 192, 192, VTB_TENSOR_WIDE_16);
  CHECK(small > g->launch && small < 1e-5);
  CHECK(gemm(g, 4096, 4096, 256, VTB_TENSOR_WIDE_16) <
        gemm(g, 4096, 4096, 512, VTB_TENSOR_WIDE_16));
  double lanes = 2 * n * n * n / gemm(g, n, n, n, VTB_N_TENSOR_UNITS);
  CHECK_MSG(lanes > 30e12 && lanes < 60e12, "%g", lanes); /* of 67 on the data sheet */
  /* without wide units they are made of small ones */
  CHECK_NEAR(gemm(a, n, n, n, VTB_TENSOR_WIDE_16), gemm(a, n, n, n, VTB_TENSOR_WARP_16), 1e-12);
}

int main(void) {
  RUN(names);
  RUN(limits);
  RUN(resident_blocks);
  RUN(waves);
  RUN(monotonic);
  RUN(phases);
  RUN(few_warps_wait);
  RUN(library_products);
  return test_done();
}
