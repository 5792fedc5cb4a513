/* Products by wgmma, in the emulator: every tile, factors along and across the depth, odd sizes,
 * batches, ranges of the depth, epilogues. Factors are squares of small integers, which 16 bits
 * hold, so that results are exact. And what the compiler of the device says of the kernels. */
#include "codegen/codegen.h"
#include "ir/ops.h"
#include "codegen/cuda/compile/nvrtc.h"
#include "runtime/cuda/cuda.h"
#include "runtime/launch/launch_check.h"
#include "runtime/launch/launch_plan_file.h"
#include "tests/codegen/cuda_check.h"

enum { WIDE_TILES = 7 };

typedef struct shape {
  const char *spec;
  int batch, m, n, k;
  bool fp16, epilogue;
  char sum; /* of the first or second factor, 'p' or 'q', over the depth as well */
} shape;

static bool is_batched(const shape *s, const char *operand) {
  return s->batch > 1 && operand[0] == 'b';
}

/* "3, 70, 64" for the letters up to `end`. */
static const char *sizes(const shape *s, const char *letters, char end, char *text, size_t room) {
  size_t n = 0;
  for (const char *l = letters; *l && *l != end; l++)
    n += (size_t)snprintf(text + n, room - n, "%s%d", l == letters ? "" : ", ",
                          *l == 'b'   ? s->batch
                          : *l == 'm' ? s->m
                          : *l == 'n' ? s->n
                                      : s->k);
  return text;
}

static vtb_module *module_of(const shape *s) {
  static vtb_source source;
  static char text[2000];
  char a[40], b[40], c[40], type[40] = "", line[160] = "";
  if (s->sum) {
    const char *of = s->sum == 'p' ? s->spec : strchr(s->spec, ',') + 1;
    snprintf(type, sizeof type, ", f32[%d]", s->sum == 'p' ? s->m : s->n);
    snprintf(line, sizeof line, "  %%s = reduce_sum %%%c {axes = [%d]} : %s\n", s->sum,
             of[0] != 'k', type + 2);
  }
  sizes(s, s->spec, ',', a, sizeof a);
  sizes(s, strchr(s->spec, ',') + 1, '-', b, sizeof b);
  sizes(s, strchr(s->spec, '>') + 1, 0, c, sizeof c);
  snprintf(text, sizeof text,
           "entry func @f(%%a: f32[%s] input \"a\", %%b: f32[%s] input \"b\", %%c: f32[%d] input "
           "\"c\", %%r: f32[%s] input \"r\") -> (f32[%s]%s) {\n"
           "  %%p = square %%a : f32[%s]\n  %%q = square %%b : f32[%s]\n"
           "  %%x = einsum %%p, %%q {spec = \"%s\"} : f32[%s]\n"
           "%s%s%s%s%s%s%s%s  return %s%s\n}\n",
           a, b, s->n, c, c, type, a, b, s->spec, c, s->epilogue ? "  %y = add %x, %c : f32[" : "",
           s->epilogue ? c : "", s->epilogue ? "]\n  %z = relu %y : f32[" : "",
           s->epilogue ? c : "", s->epilogue ? "]\n  %o = add %z, %r : f32[" : "",
           s->epilogue ? c : "", s->epilogue ? "]\n" : "", line, s->epilogue ? "%o" : "%x",
           s->sum ? ", %s" : "");
  vtb_diags diags = {0};
  source = (vtb_source){.path = "wide.ir", .text = text, .n = strlen(text)};
  vtb_module *m = vtb_module_parse(&source, &diags);
  vtb_diags_print(&diags, stderr);
  vtb_diags_free(&diags);
  if (!m) exit(1);
  return m;
}

static int share;      /* 0: blocks alone; 1, 2: clusters of two that share a tile of B, or of A */
static int processors; /* of the machine; 0: as many as the default has */

static vtb_launch_plan *plan_of(const shape *s, int tile, vtb_module **m) {
  vtb_launch_plan *plan = NULL;
  vtb_error err = {0};
  vtb_codegen_options o = {.arch = "sm_90a",
                           .precision = s->fp16 ? VTB_PRECISION_FP16 : VTB_PRECISION_BF16_ALL};
  o.gpu = *vtb_gpu_default();
  if (processors) o.gpu.processors = processors;
  *m = module_of(s);
  vtb_pass_context context = {.module = *m, .target = vtb_target_find("cuda")};
  vtb_status status = vtb_run_pipeline(
      &context, &(vtb_pipeline_options){.pipeline = s->sum ? "grow{factor_sums},fuse" : "fuse"},
      &err);
  if (status == VTB_OK) status = cuda_lower(*m, (*m)->entry, &o, &err);
  for (vtb_func *f = (*m)->first; f; f = f->next)
    for (vtb_inst *i = f->first; i; i = i->next)
      if (i->op == VTB_OP_einsum) {
        vtb_attr_set(i, VTB_A_INT("wide", tile));
        vtb_attr_set(i, VTB_A_INT("share", share));
      }
  if (status == VTB_OK) status = vtb_cuda_plan(*m, (*m)->entry, &o, &plan, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (!plan) exit(1);
  status = vtb_launch_plan_check(plan, NULL, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  return plan;
}

static float *numbers(int n, int seed) {
  float *x = vtb_aligned_alloc((size_t)n * 4 + 64);
  for (int i = 0; i < n; i++) x[i] = (float)((i * 7 + i / 13 * 3 + seed) % 4);
  return x;
}

static float at(const shape *s, const float *x, const char *letters, int b, int m, int n, int k) {
  int place = 0;
  for (const char *l = letters; *l >= 'a' && *l <= 'z'; l++) {
    int size = *l == 'b' ? s->batch : *l == 'm' ? s->m : *l == 'n' ? s->n : s->k;
    place = place * size + (*l == 'b' ? b : *l == 'm' ? m : *l == 'n' ? n : k);
  }
  return x[place] * x[place];
}

/* The result's letters are b, m, n. */
static int wrong(const shape *s, float *const *x, const float *got) {
  const char *of_b = strchr(s->spec, ',') + 1;
  int bad = 0;
  for (int e = 0; e < s->batch * s->m * s->n; e++) {
    int b = e / (s->m * s->n), m = e / s->n % s->m, n = e % s->n;
    float sum = 0;
    for (int k = 0; k < s->k; k++)
      sum += at(s, x[0], s->spec, b, m, n, k) * at(s, x[1], of_b, b, m, n, k);
    if (s->epilogue) sum = fmaxf(sum + x[2][n], 0) + x[3][e];
    bad += got[e] != sum;
  }
  return bad;
}

static int wrong_sums(const shape *s, float *const *x) {
  int bad = 0, n = !s->sum ? 0 : s->sum == 'p' ? s->m : s->n;
  for (int r = 0; r < n; r++) {
    float sum = 0;
    for (int k = 0; k < s->k; k++)
      sum += s->sum == 'p' ? at(s, x[0], s->spec, 0, r, 0, k)
                           : at(s, x[1], strchr(s->spec, ',') + 1, 0, 0, r, k);
    bad += x[5][r] != sum;
  }
  return bad;
}

/* The plan's product is by wgmma, in clusters and with sums if and only if these are wanted. */
static void check_plan(const shape *s, const vtb_launch_plan *plan) {
  int wide = 0;
  for (int i = 0; i < plan->n_kernels; i++) {
    const vtb_launch_kernel *k = &plan->kernels[i];
    const char *text = strstr(plan->sources[k->source].text, k->name);
    text = k->arch == 90 && text ? strstr(text, "constexpr int SUMMED = ") : NULL;
    if (!text) continue;
    wide++;
    CHECK_MSG((k->cluster > 1) == (share > 0), "%s: clusters of %d", s->spec, k->cluster);
    CHECK_MSG((text[strlen("constexpr int SUMMED = ")] != '0') == (s->sum > 0),
              "%s %d %d %d: sum '%c' and %.25s", s->spec, s->m, s->n, s->k, s->sum, text);
  }
  CHECK_MSG(wide == 1, "%s %d %d %d: %d kernels of wgmma", s->spec, s->m, s->n, s->k, wide);
}

/* In the order of a seed, or the opposite one. */
static void run(const shape *s, int tile, bool reversed) {
  vtb_module *m;
  vtb_launch_plan *plan = plan_of(s, tile, &m);
  vtb_program *p = NULL;
  vtb_error err = {0};
  int a = (is_batched(s, s->spec) ? s->batch : 1) * s->m * s->k,
      b = (is_batched(s, strchr(s->spec, ',') + 1) ? s->batch : 1) * s->n * s->k,
      c = s->batch * s->m * s->n;
  check_plan(s, plan);
  const vtb_emulator_options o = {.seed = (uint64_t)tile + 1, .reversed = reversed};
  vtb_status status = vtb_emulator_program(plan, &o, &p, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status != VTB_OK) return;
  float *x[] = {numbers(a, 0), numbers(b, 1), numbers(s->n, 2),
                numbers(c, 3), numbers(c, 0), numbers(s->m + s->n, 0)};
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  vtb_services *services = vtb_services_default(1);
  status = vtb_program_execute(p, (void *const *)x, workspace, services, &err);
  vtb_services_free(services);
  CHECK_MSG(status == VTB_OK, "%s %d %d %d, tile %d: %s", s->spec, s->m, s->n, s->k, tile,
            err.text);
  int bad = status == VTB_OK ? wrong(s, x, x[4]) + wrong_sums(s, x) : 0;
  CHECK_MSG(!bad, "%s %d %d %d, tile %d: %d of %d are wrong", s->spec, s->m, s->n, s->k, tile, bad,
            c);
  for (int i = 0; i < 6; i++) free(x[i]);
  free(workspace);
  vtb_program_free(p);
  vtb_module_free(m);
}

static void check(const shape *s, int tile) { run(s, tile, tile % 2); }

static void check_both(const shape *s, int tile) {
  run(s, tile, false);
  run(s, tile, true);
}

TEST(every_tile) {
  static const shape s = {.spec = "mk,nk->mn", .batch = 1, .m = 150, .n = 300, .k = 200};
  for (int tile = 0; tile < WIDE_TILES; tile++) check(&s, tile);
}

/* Columns in multiples of 16 come in the order in which results are stored; whole tiles have no
 * edges. */
TEST(columns_in_the_order_of_results) {
  static const shape odd = {"mk,nk->mn", 1, 150, 304, 136, false, true, 0},
                     whole = {"mk,nk->mn", 1, 256, 256, 72, true, true, 0};
  for (int tile = 0; tile < WIDE_TILES; tile++) {
    check(tile % 3 ? &odd : &whole, tile);
  }
}

TEST(every_order_and_odd_sizes) {
  static const shape shapes[] = {{"mk,kn->mn", 1, 77, 72, 136, false, false, 0},
                                 {"km,nk->mn", 1, 136, 75, 72, false, false, 0},
                                 {"km,kn->mn", 1, 200, 136, 91, false, false, 0},
                                 {"bmk,bkn->bmn", 3, 70, 64, 64, false, true, 0},
                                 {"bmk,nk->bmn", 2, 100, 104, 88, true, true, 0},
                                 {"bkm,bnk->bmn", 2, 64, 33, 40, false, true, 0},
                                 {"mk,nk->mn", 1, 3, 130, 40, false, true, 0}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    check(&shapes[i], (int)i % WIDE_TILES);
}

TEST(ranges_of_the_depth_are_added) {
  static const shape s = {.spec = "km,kn->mn", .batch = 1, .m = 72, .n = 64, .k = 2100};
  check_both(&s, 4);
}

/* Along and across the depth, several tiles of either side, ranges. */
TEST(factors_are_summed) {
  static const shape shapes[] = {
      {.spec = "km,kn->mn", .batch = 1, .m = 200, .n = 136, .k = 91, .sum = 'p'},
      {.spec = "km,kn->mn", .batch = 1, .m = 136, .n = 600, .k = 200, .sum = 'q'},
      {.spec = "mk,nk->mn", .batch = 1, .m = 150, .n = 300, .k = 200, .sum = 'p', .fp16 = true},
      {.spec = "mk,nk->mn", .batch = 1, .m = 131, .n = 70, .k = 136, .sum = 'q', .epilogue = true},
      {.spec = "km,kn->mn", .batch = 1, .m = 72, .n = 64, .k = 2100, .sum = 'p'},
      {.spec = "km,kn->mn", .batch = 1, .m = 72, .n = 80, .k = 2100, .sum = 'q'}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    check_both(&shapes[i], (int)i % WIDE_TILES);
}

/* Clusters of two: tiles that two does not divide, factors along and across, columns in the order
 * of results, batches, ranges; sums of either factor, of which the ring of stages goes round. */
TEST(clusters_share_a_tile) {
  static const shape shapes[] = {{"mk,nk->mn", 1, 150, 304, 200, false, true, 0},
                                 {"mk,nk->mn", 1, 77, 512, 72, true, false, 0},
                                 {"mk,kn->mn", 1, 77, 72, 136, false, false, 0},
                                 {"km,nk->mn", 1, 136, 75, 72, false, false, 0},
                                 {"km,kn->mn", 1, 200, 136, 91, false, false, 0},
                                 {"bmk,bnk->bmn", 3, 70, 64, 64, false, true, 0},
                                 {"km,kn->mn", 1, 72, 64, 2100, false, false, 0},
                                 {"km,kn->mn", 1, 200, 136, 91, false, false, 'p'},
                                 {"mk,nk->mn", 1, 131, 70, 136, false, true, 'q'},
                                 {"mk,nk->mn", 1, 70, 150, 600, true, false, 'p'},
                                 {"km,kn->mn", 1, 136, 200, 331, false, false, 'q'},
                                 {"km,kn->mn", 1, 72, 80, 2100, false, false, 'p'},
                                 {"mk,nk->mn", 1, 75, 136, 88, false, false, 'q'}};
  enum { N_SHAPES = sizeof shapes / sizeof *shapes };
  for (int i = 0; i < N_SHAPES; i++) {
    share = 1 + i % 2;
    if (shapes[i].sum)
      check_both(&shapes[i], (5 * i + 1) % WIDE_TILES);
    else
      check(&shapes[i], (5 * i + 1) % WIDE_TILES);
  }
  share = 0;
}

/* Blocks, alone or in clusters, go from tile to tile: of a machine that has room for few. */
TEST(more_tiles_than_blocks) {
  static const shape plain = {"mk,nk->mn", 1, 300, 200, 200, false, true, 0},
                     summed = {"km,kn->mn", 1, 264, 200, 72, false, false, 'p'};
  processors = 4;
  for (share = 0; share < 3; share++) {
    check(&plain, WIDE_TILES - 2);
    check_both(&summed, WIDE_TILES - 2);
  }
  processors = share = 0;
}

/* ---- plans ---------------------------------------------------------------------------------- */

static const shape plain = {.spec = "mk,nk->mn", .batch = 1, .m = 150, .n = 72, .k = 200};

static bool is_sound(const vtb_launch_plan *p, const char *says) {
  vtb_error err = {0};
  bool sound = vtb_launch_plan_check(p, NULL, &err) == VTB_OK;
  CHECK_MSG(sound || strstr(err.text, says), "%s", err.text);
  return sound;
}

TEST(maps_that_no_driver_takes_are_refused) {
  vtb_module *m;
  vtb_launch_plan *p = plan_of(&plain, 0, &m);
  CHECK(p->n_maps == 2 && is_sound(p, ""));
  vtb_launch_map *map = &p->maps[0], kept = *map;
  map->stride[1] += 8;
  CHECK(!is_sound(p, "no driver takes"));
  *map = kept, map->box[1] = 257;
  CHECK(!is_sound(p, "no driver takes"));
  *map = kept, map->box[0] = 32;
  CHECK(!is_sound(p, "no driver takes"));
  *map = kept, map->rank = 6;
  CHECK(!is_sound(p, "no driver takes"));
  *map = kept, map->size[1]++;
  CHECK(!is_sound(p, "bytes over"));
  *map = kept;
  for (int i = 0; i < p->n_kernels; i++) p->kernels[i].arch = 0;
  CHECK(!is_sound(p, "sm_80 has"));
  vtb_launch_plan_free(p);
  vtb_module_free(m);
}

TEST(plans_keep_their_maps_in_files) {
  vtb_module *m;
  vtb_error err = {0};
  vtb_strbuf bytes = {0}, again = {0};
  vtb_launch_plan *p = plan_of(&plain, 0, &m), *q = NULL;
  vtb_launch_plan_write(p, &bytes);
  CHECK_MSG(vtb_launch_plan_read(bytes.at, bytes.n, &q, &err) == VTB_OK, "%s", err.text);
  if (q) vtb_launch_plan_write(q, &again);
  CHECK(bytes.n == again.n && memcmp(bytes.at, again.at, bytes.n) == 0);
  for (int i = 0; q && i < q->n_steps; i++)
    if (q->kernels[q->steps[i].index].arch)
      CHECK_MSG(vtb_launch_plan_check(q, vtb_arch_find("sm_80"), &err) != VTB_OK &&
                    strstr(err.text, "sm_90a alone"),
                "%s", err.text);
  vtb_strbuf_free(&bytes);
  vtb_strbuf_free(&again);
  vtb_launch_plan_free(q);
  vtb_launch_plan_free(p);
  vtb_module_free(m);
}

/* The driver encodes the maps, and a launch takes them. */
TEST(a_device_gets_maps) {
  vtb_module *m;
  vtb_error err = {0};
  vtb_cuda_device *d = NULL;
  vtb_program *program = NULL;
  vtb_launch_plan *p = plan_of(&plain, 0, &m);
  vtb_strbuf module = {0};
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  vtb_strbuf_puts(&module, "fake\n");
  for (int i = 0; i < p->n_kernels; i++)
    vtb_strbuf_printf(&module, "%s %d\n", p->kernels[i].name, p->kernels[i].n_args);
  vtb_cuda_image *images = vtb_xcalloc((size_t)p->n_sources, sizeof *images);
  for (int i = 0; i < p->n_sources; i++) images[i] = (vtb_cuda_image){module.at, module.n + 1};
  CHECK_MSG(vtb_cuda_device_open(NULL, &d, &err) == VTB_OK, "%s", err.text);
  CHECK_MSG(vtb_cuda_program(p, images, d, &program, &err) == VTB_OK, "%s", err.text);
  float *x[] = {numbers(150 * 200, 0), numbers(72 * 200, 1), numbers(72, 2), numbers(150 * 72, 3),
                numbers(150 * 72, 0)};
  if (program)
    CHECK_MSG(program->run(program->owner, (void *const *)x, NULL, &err) == VTB_OK, "%s", err.text);
  for (int i = 0; i < 5; i++) free(x[i]);
  vtb_program_free(program);
  vtb_strbuf_free(&module);
  free(images);
  vtb_module_free(m);
}

/* No spills; serial wgmma and setmaxnreg without effect are errors of vtb_cuda_compile. */
TEST(the_device_compiler_takes_them) {
  static const shape shapes[] = {
      {.spec = "mk,nk->mn", .batch = 1, .m = 1000, .n = 768, .k = 192, .epilogue = true},
      {.spec = "km,kn->mn", .batch = 1, .m = 1000, .n = 768, .k = 192, .sum = 'p'}};
  vtb_strbuf nvrtc = {0};
  bool there = vtb_cuda_describe_nvrtc(&nvrtc);
  vtb_strbuf_free(&nvrtc);
  for (int tile = 0; tile < 2 * WIDE_TILES && there; tile++) {
    vtb_module *m;
    vtb_error err = {0};
    share = tile < WIDE_TILES ? 0 : 1 + tile % 2;
    vtb_launch_plan *plan = plan_of(&shapes[tile % 2], tile % WIDE_TILES, &m);
    vtb_cuda_code *codes = vtb_xcalloc((size_t)plan->n_sources, sizeof *codes);
    vtb_status status = vtb_cuda_compile_plan(plan, "sm_90a", NULL, codes, &err);
    CHECK_MSG(status == VTB_OK, "tile %d: %s", tile, err.text);
    for (int i = 0; status == VTB_OK && i < plan->n_kernels; i++) {
      vtb_cuda_resources r;
      CHECK(vtb_cuda_resources_of(codes[plan->kernels[i].source].log, plan->kernels[i].name, &r));
      CHECK_MSG(r.spill_bytes == 0, "tile %d: %s spills %d bytes", tile, plan->kernels[i].name,
                r.spill_bytes);
    }
    for (int i = 0; status == VTB_OK && i < plan->n_sources; i++) vtb_cuda_code_free(&codes[i]);
    free(codes);
    vtb_launch_plan_free(plan);
    vtb_module_free(m);
  }
  share = 0;
}

int main(void) {
  emulate_or_skip();
  RUN(every_tile);
  RUN(columns_in_the_order_of_results);
  RUN(every_order_and_odd_sizes);
  RUN(ranges_of_the_depth_are_added);
  RUN(factors_are_summed);
  RUN(clusters_share_a_tile);
  RUN(more_tiles_than_blocks);
  RUN(maps_that_no_driver_takes_are_refused);
  RUN(plans_keep_their_maps_in_files);
  RUN(a_device_gets_maps);
  RUN(the_device_compiler_takes_them);
  return test_done();
}
