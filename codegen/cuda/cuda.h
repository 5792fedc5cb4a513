/* Emission of CUDA C: what an emitter (one file a family of ops, as in codegen/cpu) works with.
 *
 * An instruction becomes one or more kernels, launched in order. Its emitter reads the
 * instruction's tensors with vtb_cuda_tensor_of() and, for each kernel: begins it from a text whose
 * holes it fills (vtb_cuda_begin_text), or writes its shared memory and body line by line; declares
 * its arguments, and launches it.
 *
 *   vtb_cuda_kernel *k = vtb_cuda_begin(c, "maxplus", 128);
 *   vtb_cuda_in(k, 0, "g");                                // operand 0 is pointer g in the text
 *   vtb_cuda_out(k, inst->n_operands, "m");                // results are numbered after operands
 *   vtb_cuda_shared(k, "float", 4, "tile", 1024);          // VTB_SHARED(float, tile, 0, 1024);
 *   vtb_cuda_open(k, "for (int t = 0; t < %d; t++)", n);   // for (...) {
 *   vtb_cuda_line(k, "m[...] = ...;");
 *   vtb_cuda_close(k);                                     // }
 *   vtb_cuda_launch(k, blocks);
 *
 * Kernels with the same text are one kernel, whatever instructions they serve: text must not depend
 * on anything but shapes, strides, alignment and attributes. Shapes are constants in the text. What
 * the text may use of the machine is text/intrinsics.cuh, and text/library.cuh on top of it. Blocks
 * and grids have one dimension; kernels take pointers only. Strides are in elements and 0 along
 * broadcast axes; structured ops find the last axis contiguous (the program copies operands where
 * the memory plan made it otherwise). Base addresses are multiples of tensor.align elements.
 *
 * Ownership: all of this lives in the program under construction. One thread.
 */
#ifndef VTB_CODEGEN_CUDA_H
#define VTB_CODEGEN_CUDA_H

#include "ir/ir.h"
#include "ir/path.h"
#include "runtime/launch/launch_plan.h"

typedef struct vtb_cuda vtb_cuda;               /* the program under construction */
typedef struct vtb_cuda_kernel vtb_cuda_kernel; /* one __global__ function under construction */

/* An operand or result of the instruction being emitted. */
typedef struct vtb_cuda_tensor {
  const vtb_type *type;
  int64_t stride[VTB_MAX_RANK];
  int align; /* 4, 2 or 1; 8 of 16 bits */
} vtb_cuda_tensor;
/* Operands first, then results. Valid while the instruction is emitted. */
const vtb_cuda_tensor *vtb_cuda_tensor_of(const vtb_cuda *c, int i);
/* True if 16-byte accesses along the last axis are allowed: contiguous, aligned, and every other
 * stride and the last axis multiples of four. */
bool vtb_cuda_rows_of_four(const vtb_cuda *c, int i);
/* Elements from the first to behind the last that tensor i reaches. */
int64_t vtb_cuda_reach(const vtb_type *t, const int64_t *stride);

/* ---- a kernel -------------------------------------------------------------------------------- */

/* `threads` of a block, a multiple of 32, at most 1024. `kind` begins the kernel's name. */
vtb_cuda_kernel *vtb_cuda_begin(vtb_cuda *c, const char *kind, int threads);
/* Arguments, in the order of the calls. `tensor` as in vtb_cuda_tensor_of(). */
void vtb_cuda_in(vtb_cuda_kernel *k, int tensor, const char *name);
void vtb_cuda_out(vtb_cuda_kernel *k, int tensor, const char *name);
/* Boxes of a tensor: VTB_MAP(name), for kernels that include hopper.cuh. */
void vtb_cuda_map(vtb_cuda_kernel *k, int tensor, const vtb_launch_map *map, const char *name);
/* True if kernels for sm_90a alone may be made. */
bool vtb_cuda_is_hopper(const vtb_cuda *c);
/* Products by wgmma, clusters even where others are said to be faster. */
bool vtb_cuda_wants_wgmma(const vtb_cuda *c);
bool vtb_cuda_wants_clusters(const vtb_cuda *c);
/* True if indices of so many elements take 64 bits. */
bool vtb_cuda_is_far(const vtb_cuda *c, int64_t elements);
/* Temporary memory of the instruction, from one of its kernels to the next; 256-byte aligned,
 * contents undefined. */
int vtb_cuda_temp(vtb_cuda *c, int64_t n_bytes);
/* type: "float", "int" */
void vtb_cuda_temp_in(vtb_cuda_kernel *k, int temp, const char *type, const char *name);
void vtb_cuda_temp_out(vtb_cuda_kernel *k, int temp, const char *type, const char *name);
/* A table of the program: VTB_IN(int) or VTB_IN(float). */
void vtb_cuda_table_i32(vtb_cuda_kernel *k, const int32_t *data, size_t n, const char *name);
void vtb_cuda_table_f32(vtb_cuda_kernel *k, const float *data, size_t n, const char *name);
/* Declares `count` elements of shared memory, 16-byte aligned, behind those declared so far. */
void vtb_cuda_shared(vtb_cuda_kernel *k, const char *type, int type_bytes, const char *name,
                     int64_t count);

/* Text: a line at the current indentation; `open` ends it with " {" and indents, `close` writes
 * "}". */
void vtb_cuda_line(vtb_cuda_kernel *k, const char *fmt, ...) VTB_PRINTF(2, 3);
void vtb_cuda_open(vtb_cuda_kernel *k, const char *fmt, ...) VTB_PRINTF(2, 3);
void vtb_cuda_close(vtb_cuda_kernel *k);
/* The program's text has codegen/cuda/text/<file> once, behind library.cuh: device functions that
 * the kernel calls. */
void vtb_cuda_include(vtb_cuda_kernel *k, const char *file);
/* A kernel whose body is codegen/cuda/text/<file>, which declares what is filled and shared
 * (compile/text.h). What is not filled exactly once, with what it is declared as, is a bug; a
 * bool is the number 0 or 1. */
vtb_cuda_kernel *vtb_cuda_begin_text(vtb_cuda *c, const char *kind, const char *file, int threads);
/* So many of its blocks, 2 or 3, are to run on a multiprocessor: no more registers than that
 * allows. */
void vtb_cuda_together(vtb_cuda_kernel *k, int blocks);
/* So many blocks, neighbours in the grid, run together (text/hopper.cuh). */
void vtb_cuda_cluster(vtb_cuda_kernel *k, int blocks);
typedef struct vtb_cuda_number {
  const char *name;
  int64_t number;
} vtb_cuda_number;
void vtb_cuda_numbers(vtb_cuda_kernel *k, const vtb_cuda_number *numbers, size_t n);
#define VTB_CUDA_NUMBERS(k, ...)                                                                   \
  vtb_cuda_numbers(k, (const vtb_cuda_number[]){__VA_ARGS__},                                      \
                   sizeof((const vtb_cuda_number[]){__VA_ARGS__}) / sizeof(vtb_cuda_number))
/* A type, an expression, or code. */
void vtb_cuda_fill(vtb_cuda_kernel *k, const char *name, const char *fmt, ...) VTB_PRINTF(3, 4);
/* True if the text declares `name`. */
bool vtb_cuda_has(const vtb_cuda_kernel *k, const char *name);
/* A number or constant of the text, whose holes are filled as far as it depends on them. */
int64_t vtb_cuda_value(vtb_cuda_kernel *k, const char *name);
/* f(x) of a function of integers in a .cuh file. */
int64_t vtb_cuda_formula(const char *f, int64_t x);

/* Ends the kernel: finds its equal or adds it to the program, and launches it with `blocks` blocks
 * (>= 1). */
void vtb_cuda_launch(vtb_cuda_kernel *k, int64_t blocks);

/* True if text/<file> takes these numbers, as far as they are given: what it requires and, unless
 * shared_bytes is NULL, room for its arrays, all of whose numbers are then among them. Types are
 * `type`. For emitters that have several texts to choose from. */
bool vtb_cuda_takes(vtb_cuda *c, const char *file, const char *type, const vtb_cuda_number *numbers,
                    size_t n, int64_t *shared_bytes);
#define VTB_CUDA_TAKES(c, file, type, shared_bytes, ...)                                           \
  vtb_cuda_takes(c, file, type, (const vtb_cuda_number[]){__VA_ARGS__},                            \
                 sizeof((const vtb_cuda_number[]){__VA_ARGS__}) / sizeof(vtb_cuda_number),         \
                 shared_bytes)
/* Shared memory of a block, at most: of kernels for the machine at hand alone if there may be such,
 * else what every architecture has. */
int64_t vtb_cuda_shared_room(const vtb_cuda *c);

/* Stops compilation with a sentence and the instruction's place: an op, class or shape that has no
 * kernel (VTB_E_INPUT). What is emitted after it is not looked at, so that an emitter may go on;
 * the first sentence stays. inst NULL: no instruction's. A kernel that its text or the machine does
 * not take does it by itself, in vtb_cuda_launch(). */
void vtb_cuda_unsupported(vtb_cuda *c, const vtb_inst *inst, const char *why, ...) VTB_PRINTF(3, 4);

/* ---- addresses ------------------------------------------------------------------------------- */

/* Text of a sum of index * stride, zero strides and size-1 axes left out: "b * 37632 + t * 192".
 * `index`: a C expression an axis (NULL: leave the axis out). In the arena of the program. */
const char *vtb_cuda_offset(vtb_cuda *c, int tensor, const char *const *index);

/* Storage position of step `t` (a C expression) along a path: arithmetic where the path has a
 * formula, else a look-up in a table that becomes an argument of the kernel, named `table`. path
 * NULL: t itself. In the arena of the program.
 */
typedef struct vtb_cuda_order {
  enum { VTB_CUDA_ORDER_LINEAR, VTB_CUDA_ORDER_AFFINE, VTB_CUDA_ORDER_TABLE } kind;
  int64_t base, step;
  vtb_path_affine affine;
  const char *table;
} vtb_cuda_order;
vtb_cuda_order vtb_cuda_order_make(vtb_cuda_kernel *k, const char *path, int64_t n,
                                   const char *table);
/* The order of a list of places: the position of step t is places[t]. */
vtb_cuda_order vtb_cuda_order_of(vtb_cuda_kernel *k, const int64_t *places, int64_t n,
                                 const char *table);
const char *vtb_cuda_order_at(vtb_cuda *c, const vtb_cuda_order *o, const char *t);

#endif
