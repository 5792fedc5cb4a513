/* A module at graph level as a file of ONNX: what each op becomes, docs/onnx.md.
 *
 * The entry's inputs and outputs keep their names; parameters are initialisers under their official
 * names. Functions are expanded where they are called; values are called after the modules around
 * them and nodes carry the .vtb place they came from. Every value's element type and shape is
 * written. Equal inputs give equal bytes.
 */
#ifndef VTB_ONNX_H
#define VTB_ONNX_H

#include "ir/ir.h"
#include "runtime/artefact/tensors.h"

enum { VTB_ONNX_OPSET = 17, VTB_ONNX_IR_VERSION = 8 };

/* The form of recurrences. AUTO: products of matrices where the decay's class has them, of all
 * tokens or in chunks by how many there are; else step after step. */
typedef enum vtb_onnx_mode {
  VTB_ONNX_AUTO,
  VTB_ONNX_PARALLEL,
  VTB_ONNX_CHUNKWISE,
  VTB_ONNX_SCAN
} vtb_onnx_mode;

typedef struct vtb_onnx_pair {
  const char *key, *value;
} vtb_onnx_pair;

typedef struct vtb_onnx_job {
  const vtb_func *entry;      /* of a module that vtb_pipeline_graph has run over */
  const vtb_weights *weights; /* every parameter and buffer of the entry under its official name */
  vtb_onnx_mode mode;
  int64_t chunk;             /* tokens; 0: what suits the class */
  bool half;                 /* parameters of f32 are stored as f16 and cast where they are read */
  bool external;             /* numbers in PATH.data; always so beyond what one message holds */
  int64_t most_bytes;        /* of the model file; 0: what a message holds, 2 GB */
  const vtb_onnx_pair *meta; /* the file's metadata_props */
  size_t n_meta;
} vtb_onnx_job;

/* The contents of a file in numbers. */
typedef struct vtb_onnx_made {
  int64_t n_nodes, n_initialisers; /* nodes of bodies of loops count once */
  int64_t n_bytes;                 /* of the model file */
  int64_t n_data_bytes;            /* of the file beside it; 0: there is none */
} vtb_onnx_made;

/* Writes `path`, and path.data if numbers lie outside: under other names, synced, renamed; on
 * failure what was there stays. An op without a form is an error of `diags` with its place, and
 * VTB_E_INPUT; VTB_E_NUMBERS, a parameter that f16 has no number for. */
VTB_MUST_USE vtb_status vtb_onnx_write(const vtb_onnx_job *job, const char *path,
                                       vtb_onnx_made *made, vtb_diags *diags, vtb_error *err);

/* The form of an op in words: "MatMul; Transpose and Reshape where axes ask for it". NULL: it has
 * no form. */
const char *vtb_onnx_form(vtb_op op);

#endif
