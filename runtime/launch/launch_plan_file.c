/* See launch_plan_file.h. Each struct's fields are listed once, for both directions. */
#include "runtime/launch/launch_plan_file.h"

#include "runtime/launch/launch_check.h"
#include "runtime/launch/wire.h"

enum { FORMAT = 11 };
/* Bytes that an element takes at least; see vtb__wire_count(). */
enum {
  LEAST_SOURCE = 4,
  LEAST_KERNEL = 60,
  LEAST_GEMM = 87 + 36,
  STEP = 24,
  LOOP = 20,
  ARG = 40,
  MAP = 112,
  BUCKET = 32
};

/* Whoever adds a field adds it below, and to the format. */
_Static_assert(sizeof(vtb_launch_source) == 8, "source()");
_Static_assert(sizeof(vtb_launch_kernel) == 32 + sizeof(vtb_kernel_info), "kernel()");
_Static_assert(sizeof(vtb_launch_gemm) == 88 + sizeof(vtb_kernel_info), "gemm()");
_Static_assert(sizeof(vtb_launch_step) == 24, "step()");
_Static_assert(sizeof(vtb_launch_loop) == 24, "loop()");
_Static_assert(sizeof(vtb_launch_arg) == 48, "arg()");
_Static_assert(sizeof(vtb_launch_map) == 112, "map()");
_Static_assert(sizeof(vtb_launch_bucket) == 32, "bucket()");

static void kernel(vtb_wire *w, vtb_launch_kernel *k) {
  vtb__wire_i32(w, &k->source);
  vtb__wire_i32(w, &k->threads);
  vtb__wire_i32(w, &k->shared_bytes);
  vtb__wire_i32(w, &k->n_args);
  vtb__wire_i32(w, &k->arch);
  vtb__wire_i32(w, &k->cluster);
  vtb__wire_kernel_info(w, &k->info);
  k->name = k->info.name;
}

static void gemm(vtb_wire *w, vtb_launch_gemm *g) {
  int64_t *sizes[] = {&g->m,   &g->n,   &g->k,        &g->batch,    &g->lda,
                      &g->ldb, &g->ldc, &g->stride_a, &g->stride_b, &g->stride_c};
  uint8_t *flags[] = {&g->trans_a,   &g->trans_b,        &g->has_bias,     &g->accumulate,
                      &g->precision, &g->narrow_factors, &g->narrow_result};
  for (int i = 0; i < 10; i++) vtb__wire_i64(w, sizes[i]);
  for (int i = 0; i < 7; i++) vtb__wire_u8(w, flags[i]);
  vtb__wire_kernel_info(w, &g->info);
}

static void step(vtb_wire *w, vtb_launch_step *s) {
  vtb__wire_i32(w, &s->kind);
  vtb__wire_i32(w, &s->index);
  vtb__wire_i64(w, &s->grid);
  vtb__wire_i32(w, &s->first_arg);
  vtb__wire_i32(w, &s->n_args);
}

static void loop(vtb_wire *w, vtb_launch_loop *l) {
  vtb__wire_i32(w, &l->first);
  vtb__wire_i32(w, &l->n);
  vtb__wire_i64(w, &l->times);
  vtb__wire_i32(w, &l->condition);
}

static void arg(vtb_wire *w, vtb_launch_arg *a) {
  vtb__wire_u8(w, &a->space);
  vtb__wire_u8(w, &a->access);
  vtb__wire_u8(w, &a->element_bytes);
  vtb__wire_u8(w, &a->align);
  vtb__wire_i32(w, &a->tensor);
  vtb__wire_i32(w, &a->value);
  vtb__wire_i64(w, &a->offset);
  vtb__wire_i64(w, &a->bytes);
  vtb__wire_i64(w, &a->touched);
  vtb__wire_i32(w, &a->map);
}

static void map(vtb_wire *w, vtb_launch_map *m) {
  for (int i = 0; i < VTB_LAUNCH_MAP_RANK; i++) {
    vtb__wire_i64(w, &m->size[i]);
    vtb__wire_i64(w, &m->stride[i]);
    vtb__wire_i32(w, &m->box[i]);
  }
  vtb__wire_i32(w, &m->rank);
  vtb__wire_i32(w, &m->element_bytes);
  vtb__wire_i32(w, &m->swizzle);
}

static void bucket(vtb_wire *w, vtb_launch_bucket *b) {
  vtb__wire_i64(w, &b->offset);
  vtb__wire_i64(w, &b->bytes);
  vtb__wire_i32(w, &b->step);
  vtb__wire_i32(w, &b->n_tensors);
  vtb__wire_i32(w, &b->where);
  vtb__wire_i32(w, &b->tensor);
}

static void places(vtb_wire *w, vtb_launch_plan *p) {
  bool any = p->place != NULL;
  vtb__wire_bool(w, &any);
  if (!any) return;
  int32_t n = p->n_tensors;
  if (!w->out) p->place = vtb__wire_elements(w, &n, sizeof *p->place);
  for (int i = 0; i < n; i++) vtb__wire_i64(w, &p->place[i]);
}

static void whole(vtb_wire *w, vtb_launch_plan *p) {
  vtb__wire_tensors(w, &p->n_tensors, &p->tensors);
  places(w, p);
  vtb__wire_i64(w, &p->batch);
  vtb__wire_i64(w, &p->workspace_bytes);
  vtb__wire_i64(w, &p->state_bytes);
  vtb__wire_bytes(w, &p->constant_bytes, &p->constants);
  vtb__wire_text(w, &p->common);
  vtb__wire_array(w, &p->n_sources, p->sources, LEAST_SOURCE);
  for (int i = 0; i < p->n_sources; i++) vtb__wire_text(w, &p->sources[i].text);
  vtb__wire_array(w, &p->n_kernels, p->kernels, LEAST_KERNEL);
  for (int i = 0; i < p->n_kernels; i++) kernel(w, &p->kernels[i]);
  vtb__wire_array(w, &p->n_gemms, p->gemms, LEAST_GEMM);
  for (int i = 0; i < p->n_gemms; i++) gemm(w, &p->gemms[i]);
  vtb__wire_array(w, &p->n_steps, p->steps, STEP);
  for (int i = 0; i < p->n_steps; i++) step(w, &p->steps[i]);
  vtb__wire_i32(w, &p->n_prepared);
  vtb__wire_array(w, &p->n_loops, p->loops, LOOP);
  for (int i = 0; i < p->n_loops; i++) loop(w, &p->loops[i]);
  vtb__wire_array(w, &p->n_args, p->args, ARG);
  for (int i = 0; i < p->n_args; i++) arg(w, &p->args[i]);
  vtb__wire_array(w, &p->n_maps, p->maps, MAP);
  for (int i = 0; i < p->n_maps; i++) map(w, &p->maps[i]);
  vtb__wire_array(w, &p->n_buckets, p->buckets, BUCKET);
  for (int i = 0; i < p->n_buckets; i++) bucket(w, &p->buckets[i]);
}

void vtb_launch_plan_write(const vtb_launch_plan *plan, vtb_strbuf *out) {
  /* the wire wants places to read into; writing leaves them as they are */
  vtb_launch_plan copy = *plan;
  vtb_wire w = vtb__wire_writer(out);
  int32_t format = FORMAT;
  vtb__wire_i32(&w, &format);
  whole(&w, &copy);
}

/* The facts that vtb_launch_plan_check() takes for granted. */
static vtb_status check_tables(const vtb_launch_plan *p, vtb_error *err) {
  const int64_t most = INT64_C(1) << 46;
  if (p->batch < 1 || p->workspace_bytes < 0 || p->workspace_bytes > most || p->state_bytes < 0 ||
      p->state_bytes > most)
    return vtb_fail(err, VTB_E_INPUT,
                    "launch plan: batch %lld, workspace of %lld bytes, state of %lld",
                    (long long)p->batch, (long long)p->workspace_bytes, (long long)p->state_bytes);
  for (int i = 0; i < p->n_tensors; i++) {
    int64_t at = vtb_launch_place(p, i), bytes = vtb_tensor_info_count(&p->tensors[i]) * 4;
    if (at != -1 && (at < 0 || at % 16 || at > p->state_bytes || bytes > p->state_bytes - at))
      return vtb_fail(err, VTB_E_INPUT, "launch plan: tensor %s lies outside the state",
                      p->tensors[i].name);
  }
  if (p->n_prepared < 0 || p->n_prepared > p->n_steps)
    return vtb_fail(err, VTB_E_INPUT, "launch plan: %d of %d steps are prepared", p->n_prepared,
                    p->n_steps);
  for (int i = 0; i < p->n_sources; i++)
    if (!p->sources[i].text)
      return vtb_fail(err, VTB_E_INPUT, "launch plan: source %d has no text", i);
  for (int i = 0; i < p->n_kernels; i++) {
    const vtb_launch_kernel *k = &p->kernels[i];
    if (k->source < 0 || k->source >= p->n_sources || k->n_args < 0)
      return vtb_fail(err, VTB_E_INPUT, "launch plan: kernel %s has source %d and %d arguments",
                      k->name, k->source, k->n_args);
  }
  return VTB_OK;
}

vtb_status vtb_launch_plan_read(const void *data, size_t n, vtb_launch_plan **plan,
                                vtb_error *err) {
  vtb_launch_plan *p = calloc(1, sizeof *p);
  if (!p) return vtb_no_memory(err, "a launch plan");
  vtb_arena_init(&p->arena);
  vtb_wire w = vtb__wire_reader(data, n, &p->arena);
  int32_t format = 0;
  vtb_status status = VTB_OK;
  vtb__wire_i32(&w, &format);
  if (!w.bad && format != FORMAT)
    status = vtb_fail(err, VTB_E_INPUT,
                      "the launch plan has format %d; this runtime reads %d: build the file again",
                      format, FORMAT);
  if (status == VTB_OK) {
    whole(&w, p);
    if (w.no_memory)
      status = vtb_no_memory(err, "a launch plan");
    else if (!vtb__wire_complete(&w))
      status = vtb_fail(err, VTB_E_INPUT, "the launch plan is damaged");
  }
  if (status == VTB_OK) status = check_tables(p, err);
  vtb_error inner = {0};
  vtb_status sound = status == VTB_OK ? vtb_launch_plan_check(p, NULL, &inner) : VTB_OK;
  if (sound !=
      VTB_OK) /* what is an internal error of the compiler's plans is a damaged file here */
    status = vtb_fail(err, sound == VTB_E_MEMORY ? sound : VTB_E_INPUT, "%s", inner.text);
  if (status == VTB_OK)
    *plan = p;
  else
    vtb_launch_plan_free(p);
  return status;
}
