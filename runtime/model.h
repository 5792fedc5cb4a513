/* Between the files of the C API: what a model and a session are. */
#ifndef VTB_MODEL_H
#define VTB_MODEL_H

#include "runtime/artefact/artefact.h"
#include "runtime/base/lock.h"
#include "runtime/device_weights.h"
#include "runtime/vertebra.h"

/* ---- model.c --------------------------------------------------------------------------------- */

/* A program of the model. All have the same parameters, whatever their batch and image size. */
typedef struct vtb__variant {
  vtb_program_info about;
  int n_tensors;
  const vtb_tensor_info *tensors;
  const vtb_artefact_program *built; /* NULL: of a program that was compiled in memory */
  const void **params;               /* one a tensor: where it stands, NULL where it does not */
} vtb__variant;

/* Memory that native programs prepare of the model's parameters, once for all sessions, until the
 * model goes. */
typedef struct vtb__kept {
  struct vtb__kept *next;
  uint64_t key; /* of the programs' kept_key */
  bool is_ready;
  void *memory;
} vtb__kept;
typedef struct vtb__kept_list {
  vtb__kept *first;
  vtb_lock lock;
} vtb__kept_list;

struct vtb_model {
  atomic_int users;
  vtb_artefact *file;   /* NULL: */
  vtb_program *program; /* compiled in memory */
  atomic_bool lent;     /* it works in memory of its own, and a session has it */
  vtb_weights *beside;  /* weights that were named, else NULL */
  vtb_weights *made;    /* parameters that the program computes with in another type */
  bool has_params;
  vtb__variant *variants;
  int n_variants;
  vtb_lock loading; /* of the file's native code */
  vtb__kept_list kept;
  vtb__device_list on_devices;
};

/* The program becomes a model, also on failure. weights: the file of its parameters, or NULL: from
 * their initialisers. taken: what that file became, the model's from now on; NULL: it is read. */
VTB_MUST_USE vtb_status vtb__model_of_program(vtb_program *program, const char *weights,
                                              vtb_weights *taken, vtb_model **out, vtb_error *err);
/* ---- model_weights.c */
/* Where the parameters of each program stand in `w`, which stays. */
VTB_MUST_USE vtb_status vtb__model_find(vtb_model *m, const vtb_weights *w, vtb_error *err);
/* The same of the weights that the options name, whatever tool wrote them. */
VTB_MUST_USE vtb_status vtb__model_weights(vtb_model *m, const vtb_open_options *o, vtb_error *err);
/* ---- model.c */
/* A program that runs the variant; the caller's to give back. */
VTB_MUST_USE vtb_status vtb__model_load(vtb_model *m, const vtb__variant *v, vtb_device device,
                                        const vtb_device_choice *where, vtb_program **out,
                                        vtb_error *err);
void vtb__model_give_back(vtb_model *m, vtb_program *p);
/* ---- model_kept.c */
/* The memory of p's prepared steps, which are run with these, unless they have been. */
VTB_MUST_USE vtb_status vtb__model_prepare(vtb_model *m, const vtb_program *p, void *const *args,
                                           void *workspace, const vtb_services *s, void **kept,
                                           vtb_error *err);
void vtb__model_forget_kept(vtb_model *m); /* nobody uses it any more */

/* A struct that begins with its size: what the caller's has, the rest zeros. False: it has no size,
 * or asks for more than is known here. */
bool vtb__take_struct(const void *given, void *to, size_t n);
/* The other direction: as much as there is room for, but not the size. */
bool vtb__give_struct(const void *from, void *out, size_t n);
vtb_status vtb__wrong_size(const char *what, vtb_error *err);
vtb_array vtb__array_of(const vtb_tensor_info *t, vtb_device device, const void *data);

/* ---- session.c ------------------------------------------------------------------------------- */

typedef struct vtb__part { /* a program that the session runs */
  const vtb__variant *variant;
  int size;             /* number of its image size */
  vtb_program *program; /* NULL until it is needed */
  int *tensor;          /* of each of the program's tensors, its number among the session's */
  bool kept;            /* a device has the parameters */
  void *prepared;       /* what native code made of the model's parameters; NULL: nothing yet */
  uint64_t *weights;    /* on the device, of each of the program's tensors; 0: not the model's */
} vtb__part;

typedef struct vtb__buffer { /* a tensor of the session */
  void *own, *staging;       /* staging: what a program works in where it cannot in the array's */
  size_t own_bytes, staging_bytes;
  bool is_bound;
  vtb_array bound;
  int of;         /* of an adjoint or a gradient: what it is of; else -1 */
  bool on_device; /* the session's own is there, in: */
  uint64_t device;
  size_t device_bytes;
} vtb__buffer;

/* Rows `from` to from + n of a run of `rows`, for a program that has more of them: it may read
 * behind them as far as there is memory, and write there in the session's own. */
typedef struct vtb__slice {
  const vtb__part *part;
  int64_t from, n, rows;
} vtb__slice;

struct vtb_session {
  vtb_model *model;
  vtb_session_options options;
  vtb_behaviour how;
  vtb_device device;
  pid_t process; /* that opened it */
  vtb_services *services;
  vtb__part *parts; /* by size, then by falling batch */
  int n_parts, n_sizes, size;
  int n_tensors;
  vtb__buffer *buffers;
  void **args;           /* of a program's run */
  vtb_run_place *places; /* of a program's run on a device */
  int n_args;
  vtb__device_weights *weights; /* the model's, where the session is; NULL: none yet */
  void *workspace;
  size_t workspace_bytes;
  int64_t batch;
  int *best;     /* n_sizes x (batch + 1): the part that begins the cheapest run of so many rows */
  char *prepare; /* what vtb_session_prepare() said, or NULL */
  atomic_bool busy;
};

/* The session is this thread's until it is given back: VTB_E_USAGE if another runs it. */
VTB_MUST_USE vtb_status vtb__session_take(vtb_session *s, vtb_error *err);
void vtb__session_give(vtb_session *s);
/* The first part of the image size at hand. */
const vtb__variant *vtb__session_variant(const vtb_session *s);
/* By kind and name, NULL: the first; -1 with a sentence. */
int vtb__session_find(const vtb_session *s, vtb_array_kind kind, const char *name, vtb_error *err);
/* Memory for the array in which rows can be written and read; NULL without memory. */
void *vtb__session_memory(vtb_session *s, int tensor);
bool vtb__has_rows(const vtb_session *s, int tensor);
int64_t vtb__session_rows(const vtb_session *s, int tensor); /* that its memory has */
/* ---- session_step.c: of sessions that train */
bool vtb__session_owns(const vtb_session *s, const vtb_tensor_info *t);
/* In whose memory the tensor is: that of what it updates, else its own. */
int vtb__session_target(const vtb_session *s, int tensor);
/* Parameters from the model, else from their initialisers. */
VTB_MUST_USE vtb_status vtb__session_begin(vtb_session *s, vtb_error *err);
/* Parameters and state to the device, if it has not got them, or back, if it has. */
VTB_MUST_USE vtb_status vtb__session_exchange(vtb_session *s, bool in, vtb_error *err);

/* ---- session_vjp.c: of sessions that make gradients */
/* Finds the tensor of each adjoint and gradient. */
void vtb__session_match(vtb_session *s);
/* True if a program may work in the tensor's own memory, besides what holds for all sessions. */
bool vtb__vjp_in_place(const vtb__slice *c, int tensor, bool rows);
/* Rows behind the last one of the slice, of `each` bytes, in a copy of all that the program has:
 * they add nothing to any gradient. */
void vtb__vjp_fill(const vtb__slice *c, int tensor, char *copy, size_t each);
/* Adds a program's tensor without rows to what those before it made. */
void vtb__vjp_add(const vtb__slice *c, int tensor, char *memory, const char *made, size_t bytes);
/* Parameters that the caller has bound may change between runs. */
bool vtb__vjp_moves(const vtb_session *s);

/* Its memory on the device, if its array is there; 0: there is none to be had. */
uint64_t vtb__session_address(vtb_session *s, int tensor, vtb_error *err);
/* One of the session's programs; NULL: none works in memory of a device. */
static inline const vtb_program *vtb__session_device(const vtb_session *s) {
  for (int i = 0; i < s->n_parts; i++)
    if (s->parts[i].program && s->parts[i].program->device) return s->parts[i].program;
  return NULL;
}
static inline bool vtb__session_is_there(const vtb_session *s, int tensor) {
  const vtb__buffer *b = &s->buffers[tensor];
  return b->is_bound ? b->bound.device == VTB_DEVICE_CUDA : b->on_device;
}
/* ---- session_bind.c, session_run.c */
/* The check that what is bound fits the image size at hand. */
VTB_MUST_USE vtb_status vtb__session_check(const vtb_session *s, vtb_error *err);
/* The part's program is there, and a workspace for it. */
VTB_MUST_USE vtb_status vtb__session_ready(vtb_session *s, vtb__part *p, vtb_error *err);
/* Which parts to run for how many rows; false without memory. */
bool vtb__session_plan(vtb_session *s);

#endif
