/* What directions cost a ViL whose blocks alternate between them, and how memory grows with the
 * image.
 *
 *   directions [seconds]      time to measure for, each of forward and training step; default 30
 *
 * The models with two, four and eight directions run in turns, one run each, on one thread; the
 * least processor time of each is compared, so that a busy machine does not decide. Memory is the
 * workspace of the compiled program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/codegen.h"
#include "frontend/lang/lang.h"
#include "runtime/launch/threads.h"

static void fail(const char *what, const vtb_error *err) {
  fprintf(stderr, "%s: %s\n", what, err ? err->text : "");
  exit(1);
}

/* `directions` NULL: the model's own. */
static vtb_program *compile(const char *model, const char *directions, const char *image,
                            bool train) {
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_override set[2] = {{.name = "image", .value = image},
                         {.name = "directions", .value = directions}};
  vtb_instantiate_options o = {
      .overrides = set, .n_overrides = directions ? 2 : 1, .training = train};
  vtb_unit *u = vtb_unit_find(model, vtb_search_default(), &diags);
  vtb_module *m = u ? vtb_instantiate(u, model, &o, &diags) : NULL;
  vtb_diags_print(&diags, stderr);
  if (!m) fail(model, NULL);
  vtb_pass_context c = {.module = m, .diags = &diags, .batch = 1};
  vtb_func *step = NULL;
  vtb_program *p = NULL;
  if (vtb_run_pipeline(&c, NULL, &err) != VTB_OK) fail(model, &err);
  if (train &&
      vtb_build_train_step(m, m->entry, &(vtb_train_step){0}, &step, &diags, &err) != VTB_OK)
    fail(model, &err);
  if (step) m->entry = step;
  c.target = vtb_target_find("cpu");
  if (vtb_run_pipeline(&c, NULL, &err) != VTB_OK) fail(model, &err);
  if (vtb_jit(m, m->entry, &(vtb_codegen_options){0}, &p, &err) != VTB_OK) fail(model, &err);
  vtb_module_free(m);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  return p;
}

typedef struct runner {
  vtb_program *program;
  void **args, *workspace;
  double best;
} runner;

static runner runner_new(vtb_program *p) {
  runner r = {.program = p, .best = 1e9};
  r.args = vtb_xcalloc((size_t)p->n_tensors, sizeof *r.args);
  r.workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  for (int i = 0; i < p->n_tensors; i++) {
    int64_t n = vtb_tensor_info_count(&p->tensors[i]);
    if (!r.workspace || !(r.args[i] = vtb_aligned_alloc((size_t)n * 4 + 64)))
      fail("out of memory", NULL);
    for (int64_t k = 0; k < n; k++) {
      if (p->tensors[i].is_int)
        ((int32_t *)r.args[i])[k] = 0;
      else
        ((float *)r.args[i])[k] = (float)(0.02 * ((double)(k * 7919 % 1000) / 500 - 1));
    }
  }
  return r;
}

static void runner_free(runner *r) {
  for (int i = 0; i < r->program->n_tensors; i++) free(r->args[i]);
  free(r->args);
  free(r->workspace);
  vtb_program_free(r->program);
}

static double processor_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void compare(const char *what, bool train, double seconds) {
  static const char *const directions[] = {"bi", "quad", "oct"};
  vtb_services *services = vtb_services_default(1);
  runner r[3];
  for (int k = 0; k < 3; k++)
    r[k] = runner_new(compile("vil_tiny", directions[k], "224x224", train));
  int rounds = 0;
  for (double start = vtb_now(); rounds < 3 || vtb_now() - start < seconds; rounds++)
    for (int k = 0; k < 3; k++) {
      double before = processor_seconds();
      if (vtb_program_execute(r[k].program, r[k].args, r[k].workspace, services, NULL) != VTB_OK)
        exit(1);
      double took = processor_seconds() - before;
      if (took < r[k].best) r[k].best = took;
    }
  printf("| %s | %.1f | %.1f (%+.1f %%) | %.1f (%+.1f %%) | %d |\n", what, 1e3 * r[0].best,
         1e3 * r[1].best, 100 * (r[1].best / r[0].best - 1), 1e3 * r[2].best,
         100 * (r[2].best / r[0].best - 1), rounds);
  fflush(stdout);
  for (int k = 0; k < 3; k++) runner_free(&r[k]);
  vtb_services_free(services);
}

static void memory(const char *model) {
  static const int sizes[] = {224, 512, 1024};
  for (int i = 0; i < 3; i++) {
    char image[32];
    double mib[2];
    sprintf(image, "%dx%d", sizes[i], sizes[i]);
    for (int train = 0; train < 2; train++) {
      vtb_program *p = compile(model, NULL, image, train);
      mib[train] = (double)p->workspace_bytes / 1048576;
      vtb_program_free(p);
    }
    int tokens = sizes[i] * sizes[i] / 256;
    printf("| %s | %d | %d | %.1f (%.1f) | %.1f (%.1f) |\n", model, sizes[i], tokens, mib[0],
           1024 * mib[0] / tokens, mib[1], 1024 * mib[1] / tokens);
    fflush(stdout);
  }
}

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 30;
  puts("| vil_tiny, ms of processor time | two directions | four | eight | runs |\n| --- | --- | "
       "--- | --- | --- |");
  compare("forward, batch 1", false, seconds);
  compare("training step, batch 1", true, seconds);
  puts("\n| model | pixels | tokens | workspace, forward: MiB (KiB a token) | training step |\n"
       "| --- | --- | --- | --- | --- |");
  memory("vil_tiny");
  memory("vim_tiny");
  return 0;
}
