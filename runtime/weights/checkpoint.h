/* From the value that a pickle holds to named tensors: which of its dicts are the weights, what
 * stands beside them, and the tensors' elements in row-major order. */
#ifndef VTB_WEIGHTS_CHECKPOINT_H
#define VTB_WEIGHTS_CHECKPOINT_H

#include "runtime/weights/pickle.h"

/* A file that is being read. */
typedef struct vtb_checkpoint {
  const char *path;
  vtb_mapped_file file;
  const char *part; /* vtb_weights_open_part() */
  vtb_strbuf *said; /* NULL: nobody listens */
  vtb_weights *w;   /* where tensors go */
  py_machine machine;
  vtb_arena arena;
  vtb_error *err;
  /* Finds bytes from..to of a storage and sets its `data`; what has to be taken for it, w keeps. */
  vtb_status (*load)(struct vtb_checkpoint *c, py_storage *s);
  void *source;               /* of `load` */
  uint64_t budget;            /* bytes that may still be unpacked or copied */
  uint64_t total, most_total; /* bytes of all tensors, and what the file could mean by them */
} vtb_checkpoint;

/* The tensors of torch.save(root), or of pickle.dump(root), into c->w. */
VTB_MUST_USE vtb_status vtb__checkpoint_take(vtb_checkpoint *c, const py_value *root);
/* Takes the elements of `n` tensors under their names. */
typedef struct vtb_named {
  const py_value *name;
  const py_tensor *tensor;
} vtb_named;
VTB_MUST_USE vtb_status vtb__checkpoint_add(vtb_checkpoint *c, const vtb_named *at, size_t n);

/* The readers. They are given the mapped file, and fill c->w. */
VTB_MUST_USE vtb_status vtb__read_zip(vtb_checkpoint *c);
VTB_MUST_USE vtb_status vtb__read_stream(vtb_checkpoint *c);

/* A line for the user. */
void vtb__say(vtb_strbuf *said, const char *fmt, ...) VTB_PRINTF(2, 3);
/* UTF-8 without a NUL: what metadata can be. */
bool vtb__good_text(const char *at, size_t n);
/* The same without control characters, and not too long: what a name can be. */
bool vtb__good_name(const char *at, size_t n);
/* Takes off what wrappers put before the names of all tensors ("module."); what this project wrote
 * is left as it is. */
VTB_MUST_USE vtb_status vtb__unwrap_names(vtb_weights **w, vtb_strbuf *said, vtb_error *err);

#endif
