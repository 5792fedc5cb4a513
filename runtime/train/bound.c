/* A program with its buffers: which tensor is what, what fills its inputs, and memory for them. */
#include "runtime/base/augment.h"
#include "runtime/base/objective.h"
#include "runtime/train/train_internal.h"

#include <stdlib.h>
#include <string.h>

static int find_role(const vtb_program *p, const char *name, vtb_io io) {
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == io && vtb_streq(p->tensors[i].name, name)) return i;
  return -1;
}

static int find_image(const vtb_program *p) {
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_INPUT && !p->tensors[i].is_int && p->tensors[i].rank == 4)
      return i;
  return -1;
}

/* The output of shape (batch, classes). */
static int find_logits(const vtb_program *p) {
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_OUTPUT && p->tensors[i].rank == 2 &&
        p->tensors[i].dim[0] == p->batch)
      return i;
  return -1;
}

static vtb_status check_inputs(const vtb_bound *b, vtb_error *err) {
  const vtb_program *p = b->program;
  for (int i = 0; i < p->n_tensors; i++) {
    vtb_io io = p->tensors[i].io;
    bool known = vtb_starts_with(p->tensors[i].name, "augment.") || i == b->image ||
                 i == b->labels || i == b->seed || i == b->scale || i == b->first ||
                 vtb_starts_with(p->tensors[i].name, "update.");
    if ((io == VTB_IO_INPUT && !known) || io == VTB_IO_GRAD_IN)
      return vtb_fail(err, VTB_E_INPUT,
                      "the model has an input \"%s\" that a classifier's data set cannot fill",
                      p->tensors[i].name);
  }
  return VTB_OK;
}

static vtb_status check_training(const vtb_bound *b, vtb_error *err) {
  const vtb_program *p = b->program;
  if (b->labels < 0 || !p->tensors[b->labels].is_int ||
      vtb_tensor_info_count(&p->tensors[b->labels]) != p->batch)
    return vtb_fail(err, VTB_E_INPUT,
                    "the training program has no integer input \"labels\" of one value a sample");
  if (b->loss < 0 || vtb_tensor_info_count(&p->tensors[b->loss]) != 1)
    return vtb_fail(err, VTB_E_INPUT, "the training program has no output \"loss\" of one value");
  if (b->scale >= 0 && vtb_tensor_info_count(&p->tensors[b->scale]) != 1)
    return vtb_fail(err, VTB_E_INPUT,
                    "the training program's \"" VTB_LOSS_SCALE "\" is not one number");
  return VTB_OK;
}

/* ---- programs that measure what their model declares ----------------------------------------- */

static bool is_fed(const vtb_bound *b, int i) {
  const vtb_tensor_info *t = &b->program->tensors[i];
  return t->io == VTB_IO_INPUT && i != b->seed && i != b->scale && i != b->first &&
         !vtb_starts_with(t->name, "update.");
}

/* "view 2", said in the same place. */
static int view_of(const vtb_tensor_info *t) {
  return t->init && vtb_starts_with(t->init, "view ") ? atoi(t->init + strlen("view ")) : 0;
}

/* "classes 10": what the program compares labels with, said where an initialiser would stand. */
static int classes_of(const vtb_tensor_info *t) {
  return t->init && vtb_starts_with(t->init, "classes ") ? atoi(t->init + strlen("classes ")) : 0;
}

static vtb_status describe_inputs(vtb_bound *b, vtb_error *err) {
  const vtb_program *p = b->program;
  b->feeds = calloc((size_t)p->n_tensors + 1, sizeof *b->feeds);
  b->fed = calloc((size_t)p->n_tensors + 1, sizeof *b->fed);
  if (!b->feeds || !b->fed) return vtb_no_memory(err, "batches");
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    if (t->io == VTB_IO_GRAD_IN || (is_fed(b, i) && (!t->rank || t->dim[0] != p->batch)))
      return vtb_fail(
          err, VTB_E_INPUT,
          "the model has an input \"%s\" that does not begin with the batch: no data set "
          "fills it",
          t->name);
    if (!is_fed(b, i)) continue;
    vtb_feed *f = &b->feeds[b->n_feeds];
    b->fed[b->n_feeds++] = i;
    *f = (vtb_feed){.name = t->name,
                    .is_int = t->is_int,
                    .rank = t->rank - 1,
                    .classes = classes_of(t),
                    .view = view_of(t)};
    memcpy(f->dim, t->dim + 1, (size_t)f->rank * sizeof *f->dim);
  }
  return VTB_OK;
}

static vtb_status find_measured(vtb_bound *b, bool training, vtb_error *err) {
  const vtb_program *p = b->program;
  b->image = b->logits = -1;
  if (training && (b->loss < 0 || vtb_tensor_info_count(&p->tensors[b->loss]) != 1))
    return vtb_fail(err, VTB_E_INPUT, "the training program has no output \"loss\" of one value");
  vtb_status status = vtb_measures_open(&b->measures, p, err);
  return status == VTB_OK ? describe_inputs(b, err) : status;
}

vtb_status vtb__bound_feed(vtb_bound *b, const vtb_dataset *d, const vtb_transform *t,
                           vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < b->n_feeds && status == VTB_OK; i++) {
    vtb_feed *f = &b->feeds[i];
    if (strcmp(f->name, VTB_VALID) == 0 && !f->is_int && f->rank == 0) {
      f->kind = VTB_FEED_VALID;
      f->count = 1;
    } else {
      status = vtb_feed_find(f, d, t, err);
    }
  }
  return status == VTB_OK ? vtb_feeds_check(b->feeds, b->n_feeds, err) : status;
}

void vtb__bound_fill(vtb_bound *b, const vtb_batch *batch) {
  for (int i = 0; i < b->n_feeds; i++) b->args[b->fed[i]] = batch->at[i];
  if (b->image >= 0) b->args[b->image] = batch->images;
  if (b->labels >= 0) b->args[b->labels] = batch->labels;
}

bool vtb__bound_takes_pixels(const vtb_bound *b) {
  int n = 0, image = b->image;
  for (int i = 0; i < b->n_feeds; i++)
    if (b->feeds[i].kind == VTB_FEED_IMAGE) n++, image = b->fed[i];
  return (n == 1 || !b->n_feeds) && b->program->pixels == image + 1;
}

/* ---- any program ----------------------------------------------------------------------------- */

vtb_status vtb__bound_find(vtb_bound *b, const vtb_program *p, const char *image,
                           const char *logits, bool training, vtb_error *err) {
  *b = (vtb_bound){.program = p, .labels = -1, .first = -1, .loss = -1, .scale = -1};
  b->image = image ? find_role(p, image, VTB_IO_INPUT) : find_image(p);
  b->logits = logits ? find_role(p, logits, VTB_IO_OUTPUT) : find_logits(p);
  b->seed = find_role(p, "seed", VTB_IO_INPUT);
  if (b->seed >= 0 &&
      (!p->tensors[b->seed].is_int || vtb_tensor_info_count(&p->tensors[b->seed]) != 1))
    b->seed = -1;
  b->first = find_role(p, VTB_RANK_FIRST, VTB_IO_INPUT);
  if (training) {
    b->loss = find_role(p, "loss", VTB_IO_OUTPUT);
    b->scale = find_role(p, VTB_LOSS_SCALE, VTB_IO_INPUT);
  }
  if (vtb_program_measures(p)) return find_measured(b, training, err);
  if (training) {
    b->labels = find_role(p, "labels", VTB_IO_INPUT);
    VTB_TRY(check_training(b, err));
  }
  if (b->image < 0 || p->tensors[b->image].rank != 4 || p->tensors[b->image].dim[0] != p->batch)
    return vtb_fail(err, VTB_E_INPUT,
                    "the model has no image input%s%s of shape [batch, channels, height, width]",
                    image ? " " : "", image ? image : "");
  if (b->logits < 0 || p->tensors[b->logits].rank != 2 || p->tensors[b->logits].dim[0] != p->batch)
    return vtb_fail(err, VTB_E_INPUT, "the model has no output%s%s of shape [batch, classes]",
                    logits ? " " : "", logits ? logits : "");
  b->classes = p->tensors[b->logits].dim[1];
  VTB_TRY(check_inputs(b, err));
  return find_role(p, VTB_AUGMENT_MOMENTS, VTB_IO_INPUT) < 0 ? VTB_OK : describe_inputs(b, err);
}

vtb_status vtb__bound_allocate(vtb_bound *b, unsigned roles, vtb_error *err) {
  const vtb_program *p = b->program;
  b->args = calloc((size_t)p->n_tensors + 1, sizeof *b->args);
  b->owned = calloc((size_t)p->n_tensors + 1, sizeof *b->owned);
  b->workspace = vtb_aligned_alloc((size_t)p->workspace_bytes);
  bool enough = b->args && b->owned && b->workspace;
  for (int i = 0; i < p->n_tensors && enough; i++) {
    vtb_io io = p->tensors[i].io;
    bool on_device = vtb_program_is_resident(p, i) && io != VTB_IO_PARAM && io != VTB_IO_BUFFER;
    if (!(roles >> io & 1u) || on_device) continue;
    size_t bytes = (size_t)vtb_tensor_info_count(&p->tensors[i]) * 4;
    b->args[i] = vtb_aligned_alloc(bytes);
    b->owned[i] = enough = b->args[i] != NULL;
    if (enough) memset(b->args[i], 0, bytes);
  }
  if (enough) return VTB_OK;
  return vtb_fail(err, VTB_E_MEMORY, "out of memory for the model (workspace %lld bytes)",
                  (long long)p->workspace_bytes);
}

void vtb__bound_free(vtb_bound *b) {
  for (int i = 0; b->args && b->owned && i < b->program->n_tensors; i++)
    if (b->owned[i]) free(b->args[i]);
  free(b->args);
  free(b->owned);
  free(b->workspace);
  free(b->feeds);
  free(b->fed);
  vtb_measures_free(&b->measures);
  *b = (vtb_bound){0};
}
