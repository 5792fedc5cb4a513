/* The launch plan: calls are expanded from the entry, which gives each step its addresses. */
#include <string.h>

#include "codegen/cuda/plan/program.h"
#include "codegen/cuda/plan/update.h"
#include "codegen/label.h"
#include "codegen/describe.h"
#include "runtime/launch/launch_walk.h"

/* ---- expansion ------------------------------------------------------------------------------- */

typedef struct expansion {
  vtb_launch_plan *plan;
  int next_value;
  VTB_VEC(vtb_launch_step) steps;
  VTB_VEC(vtb_launch_arg) args;
  VTB_VEC(vtb_launch_map) maps;
  VTB_VEC(vtb_launch_bucket) sums;
  VTB_VEC(vtb_launch_loop) loops;
  int open[VTB_LAUNCH_DEPTH], depth; /* the loops around the step at hand */
  int64_t runs;                      /* of it */
} expansion;

/* From 1; equal ones are one. */
static int32_t number_of_map(expansion *x, const vtb_launch_map *map) {
  if (!map) return 0;
  for (size_t i = 0; i < x->maps.n; i++)
    if (memcmp(&x->maps.at[i], map, sizeof *map) == 0) return (int32_t)i + 1;
  vtb_vec_push(&x->maps, *map);
  return (int32_t)x->maps.n;
}

static vtb_launch_arg resolve(const vtb_cuda_func *f, const vtb_cuda_ref *r,
                              const vtb_launch_arg *outer, int64_t frame, int first_value) {
  int element = vtb__cuda_element(r);
  vtb_launch_arg a = {.element_bytes = (uint8_t)element,
                      .align = (uint8_t)(vtb__cuda_align(r) * element),
                      .access = (uint8_t)r->access};
  a.value = first_value + r->value;
  a.offset = r->offset;
  switch (r->place) {
  case VTB_CUDA_ARG:
    a.space = outer[r->index].space;
    a.tensor = outer[r->index].tensor;
    a.value = outer[r->index].value;
    a.offset += outer[r->index].offset;
    break;
  case VTB_CUDA_FRAME:
    a.space = VTB_LAUNCH_WORKSPACE;
    a.offset += frame;
    break;
  case VTB_CUDA_TAIL:
    a.space = VTB_LAUNCH_WORKSPACE;
    a.offset += frame + f->steps_of->tail_base;
    break;
  case VTB_CUDA_CONSTANT:
    a.space = VTB_LAUNCH_CONSTANT;
    a.value = -1;
    break;
  case VTB_CUDA_STATE:
    a.space = VTB_LAUNCH_STATE;
    a.value = -1;
    break;
  }
  a.bytes = r->bytes;
  a.touched = r->touched && r->touched < r->bytes ? r->touched : r->bytes;
  return a;
}

static void add_sum(expansion *x, const vtb_launch_arg *a) {
  bool tensor = a->space == VTB_LAUNCH_TENSOR;
  for (int i = 0; i < x->depth; i++)
    vtb_check(x->loops.at[x->open[i]].first < (int)x->steps.n, "a sum over ranks begins a turn");
  vtb_check(tensor || a->space == VTB_LAUNCH_WORKSPACE, "a sum over ranks of space %d", a->space);
  vtb_launch_bucket b = {.offset = a->offset,
                         .bytes = a->bytes,
                         .step = (int32_t)x->steps.n - 1,
                         .where = tensor ? VTB_BUCKET_TENSOR : VTB_BUCKET_WORKSPACE,
                         .tensor = tensor ? a->tensor : 0};
  vtb_vec_push(&x->sums, b);
}

static void begin_loop(expansion *x, int64_t times, const vtb_launch_arg *condition) {
  vtb_check(x->depth < VTB_LAUNCH_DEPTH, "more than %d loops in each other", VTB_LAUNCH_DEPTH);
  x->open[x->depth++] = (int)x->loops.n;
  x->runs *= times;
  if (condition) vtb_vec_push(&x->args, *condition);
  vtb_vec_push(&x->loops, ((vtb_launch_loop){.first = (int32_t)x->steps.n,
                                             .times = times,
                                             .condition = condition ? (int32_t)x->args.n : 0}));
}

/* One that launches nothing is no loop, nor are those inside it. */
static void end_loop(expansion *x) {
  vtb_launch_loop *l = &x->loops.at[x->open[--x->depth]];
  l->n = (int32_t)x->steps.n - l->first;
  x->runs /= l->times;
  if (!l->n) x->loops.n = (size_t)x->open[x->depth];
}

/* The steps of one call, with its arguments and returns in `outer` and its frame at `frame`. */
static void expand(expansion *x, const vtb_cuda_func *f, const vtb_launch_arg *outer,
                   int64_t frame) {
  int first_value = x->next_value;
  x->next_value += f->n_values;
  for (size_t i = 0; i < f->steps.n; i++) {
    const vtb_cuda_step *s = &f->steps.at[i];
    vtb_launch_arg *args = vtb_xcalloc((size_t)s->n_refs + 1, sizeof *args);
    for (int r = 0; r < s->n_refs; r++)
      args[r] = resolve(f, &s->refs[r], outer, frame, first_value);
    if (s->times) {
      begin_loop(x, s->times, s->n_refs ? args : NULL);
    } else if (s->ends_turn) {
      end_loop(x);
    } else if (s->callee) {
      expand(x, s->callee, args, frame + f->steps_of->tail_base + s->frame);
    } else if (s->sum) {
      add_sum(x, &args[0]);
    } else {
      vtb_launch_step step = {VTB_LAUNCH_GEMM, s->gemm, 0, (int32_t)x->args.n, s->n_refs};
      if (s->kernel) {
        step.kind = VTB_LAUNCH_KERNEL;
        step.index = s->kernel->number;
        step.grid = s->grid;
        s->kernel->launches += (int)x->runs;
      }
      vtb_vec_push(&x->steps, step);
      for (int r = 0; r < s->n_refs; r++) {
        args[r].map = number_of_map(x, s->refs[r].map);
        vtb_vec_push(&x->args, args[r]);
      }
    }
    if (f->n_prepared == i + 1) x->plan->n_prepared = (int32_t)x->steps.n;
    vtb_free(args);
  }
}

static void expand_entry(expansion *x, const vtb_cuda_func *entry) {
  int n = x->plan->n_tensors;
  vtb_launch_arg *outer = vtb_xcalloc((size_t)n + 1, sizeof *outer);
  for (int i = 0; i < n; i++)
    outer[i] = (vtb_launch_arg){.space = VTB_LAUNCH_TENSOR, .tensor = i, .value = i};
  x->next_value = n;
  expand(x, entry, outer, 0);
  vtb_free(outer);
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Sources are compiled in parallel and kept in a cache, but each costs its own start: a few kernels
 * in each. */
enum { SOURCE_BYTES = 16 << 10 };

static void end_source(vtb_launch_plan *p, vtb_strbuf *text) {
  if (!text->n) return;
  p->sources[p->n_sources++].text = vtb_arena_strdup(&p->arena, text->at);
  text->n = 0;
}

static void fill_common(const vtb_cuda *c, vtb_launch_plan *p) {
  vtb_strbuf text = {0};
  for (size_t i = 0; i < c->includes.n; i++) {
    vtb_strbuf_puts(&text, c->includes.at[i].value);
    vtb_strbuf_putc(&text, '\n');
  }
  p->common = vtb_arena_strdup(&p->arena, text.n ? text.at : "");
  vtb_strbuf_free(&text);
}

/* "product_blocks_x_proj_up": the kind and the label, with a number where that is taken. */
static const char *function_name(const vtb_cuda_kernel *k, vtb_map *taken, vtb_arena *a) {
  enum { LONGEST = 100 };
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "%s_", k->kind);
  vtb_label_identifier(k->label, &s);
  if (s.n > LONGEST) s.at[s.n = LONGEST] = 0;
  size_t n = s.n;
  for (int i = 2; vtb_map_has(taken, s.at); i++) {
    s.n = n;
    vtb_strbuf_printf(&s, "_%d", i);
  }
  vtb_map_set(taken, s.at, NULL);
  const char *name = vtb_arena_strdup(a, s.at);
  vtb_strbuf_free(&s);
  return name;
}

static void put_kernel(const vtb_cuda_kernel *k, const char *name, vtb_strbuf *out) {
  char clusters[40] = "";
  if (k->cluster > 1) snprintf(clusters, sizeof clusters, "; clusters of %d blocks", k->cluster);
  vtb_strbuf_printf(out, "%s/* %s: %s%s%s%s */\n%s(%d, %s)", out->n ? "\n" : "", k->label, k->ops,
                    k->origin[0] ? ": " : "", k->origin, clusters,
                    k->together == 3   ? "VTB_KERNEL_TRIPLE"
                    : k->together == 2 ? "VTB_KERNEL_PAIRED"
                    : k->arch          ? "VTB_KERNEL_ROOMY"
                                       : "VTB_KERNEL",
                    k->threads, name);
  vtb_strbuf_puts(out, k->text);
}

static void fill_kernels(const vtb_cuda *c, vtb_launch_plan *p) {
  vtb_arena *a = &p->arena;
  vtb_strbuf text = {0};
  vtb_map taken = {0};
  fill_common(c, p);
  p->n_kernels = (int32_t)c->kernel_list.n;
  p->kernels = VTB_NEW_ARRAY(a, vtb_launch_kernel, p->n_kernels + 1);
  p->sources = VTB_NEW_ARRAY(a, vtb_launch_source, p->n_kernels + 1);
  vtb_work *work = VTB_NEW_ARRAY(a, vtb_work, p->n_kernels + 1);
  p->work = work;
  for (int i = 0; i < p->n_kernels; i++) {
    const vtb_cuda_kernel *k = c->kernel_list.at[i];
    const char *name = function_name(k, &taken, a);
    work[i] = k->work;
    p->kernels[i] = (vtb_launch_kernel){
        .name = name,
        .source = p->n_sources,
        .threads = k->threads,
        .shared_bytes = (int32_t)k->shared_bytes,
        .n_args = k->n_args,
        .arch = k->arch,
        .cluster = k->cluster,
        .info = {name, vtb_arena_strdup(a, k->label), vtb_arena_strdup(a, k->ops),
                 vtb_arena_strdup(a, k->origin), k->flops, 0, k->launches}};
    put_kernel(k, name, &text);
    if (text.n >= SOURCE_BYTES) end_source(p, &text);
  }
  end_source(p, &text);
  vtb_strbuf_free(&text);
  vtb_map_free(&taken);
}

/* Library products say of themselves what kernels do; their texts move to the plan. */
static void fill_products(vtb_launch_plan *p) {
  for (int i = 0; i < p->n_gemms; i++) {
    vtb_kernel_info *info = &p->gemms[i].info;
    info->name = vtb_arena_strdup(&p->arena, info->name);
    info->what = vtb_arena_strdup(&p->arena, info->what);
    info->ops = vtb_arena_strdup(&p->arena, info->ops);
    info->origin = vtb_arena_strdup(&p->arena, info->origin);
  }
  for (int i = 0; i < p->n_steps; i++)
    if (p->steps[i].kind == VTB_LAUNCH_GEMM)
      p->gemms[p->steps[i].index].info.launches += (int)vtb_launch_runs(p, i);
}

/* The bytes that a launch of each kernel and product moves, for profiles: its first one. */
static void fill_bytes(vtb_launch_plan *p) {
  for (int i = p->n_steps; i-- > 0;) {
    const vtb_launch_step *s = &p->steps[i];
    vtb_launch_traffic t = vtb_launch_traffic_of(p, s);
    vtb_kernel_info *info =
        s->kind == VTB_LAUNCH_KERNEL ? &p->kernels[s->index].info : &p->gemms[s->index].info;
    info->bytes = (double)(t.read + t.written);
  }
}

vtb_launch_plan *vtb__cuda_expand(vtb_cuda *c, const vtb_func *entry) {
  vtb_launch_plan *p = vtb_xcalloc(1, sizeof *p);
  vtb_program tensors = {0};
  vtb_arena_init(&p->arena);
  vtb__describe_tensors(entry, &tensors, &p->arena);
  p->n_tensors = tensors.n_tensors;
  p->tensors = tensors.tensors;
  p->batch = tensors.batch;
  if (c->groups) vtb__cuda_place_tensors(c, p);
  expansion x = {.plan = p, .runs = 1};
  const vtb_cuda_func *f = &c->funcs.at[vtb_steps_find(&c->steps, entry)];
  expand_entry(&x, f);
  p->workspace_bytes = f->total_bytes;
  p->constant_bytes = (int64_t)c->constants.n;
  p->constants = vtb_arena_memdup(&p->arena, c->constants.n ? c->constants.at : "", c->constants.n);
  p->n_gemms = (int32_t)c->gemms.n;
  p->gemms = vtb_arena_memdup(&p->arena, c->gemms.n ? (void *)c->gemms.at : "",
                              c->gemms.n * sizeof *c->gemms.at);
  p->n_steps = (int32_t)x.steps.n;
  p->n_args = (int32_t)x.args.n;
  p->steps = vtb_arena_memdup(&p->arena, x.steps.n ? (void *)x.steps.at : "",
                              x.steps.n * sizeof *x.steps.at);
  p->args =
      vtb_arena_memdup(&p->arena, x.args.n ? (void *)x.args.at : "", x.args.n * sizeof *x.args.at);
  p->n_loops = (int32_t)x.loops.n;
  p->loops = vtb_arena_memdup(&p->arena, x.loops.n ? (void *)x.loops.at : "",
                              x.loops.n * sizeof *x.loops.at);
  p->n_maps = (int32_t)x.maps.n;
  p->maps =
      vtb_arena_memdup(&p->arena, x.maps.n ? (void *)x.maps.at : "", x.maps.n * sizeof *x.maps.at);
  vtb__cuda_fill_buckets(c, p, x.sums.at, (int)x.sums.n);
  vtb_vec_free(&x.sums);
  vtb__cuda_pixels(c, p);
  fill_kernels(c, p);
  fill_products(p);
  fill_bytes(p);
  vtb_vec_free(&x.loops);
  vtb_vec_free(&x.maps);
  vtb_vec_free(&x.steps);
  vtb_vec_free(&x.args);
  return p;
}
