/* A kernel's text, codegen/cuda/text/<file>.cu: its declarations, which are the whole of its
 * contract, and its body.
 *
 *   hole int N, K;             a number: `constexpr int N = 196;` in the kernel; also bool,
 *                              vtb_i64, and float, which is filled with an expression
 *   hole type T;               an element type; `typedef float T;`
 *   hole expr q_from;          an expression, put where the body has ${q_from}
 *   hole code put;             statements likewise
 *   constexpr int P = vtb_pitch_along(K, sizeof(T));
 *   require K % 16 == 0;       what the holes' numbers must obey
 *   shared T tile[64 * P];     dynamic shared memory, 16-byte aligned, behind all arrays before it
 *   shared float all[64] over tile;     or from where others begin: an expression of arrays
 *   cost tensor = 2 * 64 * N * K;       what a block does (vtb__text_costs), for estimates; no code
 *   #include "products.cuh"    device functions that the body calls
 *
 * They come first, each name with its meaning in a comment; the body begins with the first line
 * that is none of them. A line #include "part.cuh" of the body stands for that file's text, a phase
 * of a long kernel that reads the kernel's names. Extents, requirements and constants are
 * expressions of holes, constants and the functions `int f(int, ...) { return ...; }` of the .cuh
 * files, in int64 (a constant that none of these needs may be any expression of C++). An array of
 * extent 0 has a name and no memory. THREADS, if declared, is the block's size.
 *
 * Ownership: names and texts live in the arena and as long as the source. Errors are texts for
 * whoever edits a kernel: parsing and checking fail with VTB_E_INTERNAL. */
#ifndef VTB_CODEGEN_CUDA_TEXT_H
#define VTB_CODEGEN_CUDA_TEXT_H

#include "runtime/base/base.h"

typedef enum vtb__text_kind {
  VTB__TEXT_NUMBER,
  VTB__TEXT_FLOAT,
  VTB__TEXT_TYPE,
  VTB__TEXT_EXPR,
  VTB__TEXT_CODE,
  VTB__TEXT_CONSTANT,
  VTB__TEXT_SHARED,
  VTB__TEXT_REQUIRE,
  VTB__TEXT_COST,
  VTB__TEXT_INCLUDE
} vtb__text_kind;

typedef struct vtb__declaration {
  vtb__text_kind kind;
  const char *name;  /* of a requirement its expression, of an include the file */
  const char *type;  /* C++ type of a number, constant or array element */
  const char *text;  /* a hole's filling; a constant's or an extent's expression */
  const char *over;  /* of an array: where it begins; NULL: behind the others */
  int64_t number;    /* a filled number; a constant's value; an array's first byte */
  bool continues;    /* the statement of the declaration before */
  bool filled, open; /* open: being evaluated */
} vtb__declaration;

typedef struct vtb__text {
  const char *file, *body;
  VTB_VEC(vtb__declaration) all;
} vtb__text;

/* Text of a file that is compiled in (texts.h); a bug if there is none. */
const char *vtb__text_find(const char *file);

/* Parses `source`, called `file` in errors. */
VTB_MUST_USE vtb_status vtb__text_parse(const char *file, const char *source, vtb_arena *arena,
                                        vtb__text *t, vtb_error *err);
void vtb__text_free(vtb__text *t);
/* The check that names are declared once and used, and holes that are used are declared. */
VTB_MUST_USE vtb_status vtb__text_check(const vtb__text *t, vtb_error *err);

/* A bug if there is no such hole of the kind, or it is filled already. */
void vtb__text_fill_number(vtb__text *t, const char *name, int64_t number);
void vtb__text_fill(vtb__text *t, const char *name, const char *text);
bool vtb__text_has(const vtb__text *t, const char *name);

/* The bytes of an element of a type or type hole; 0 for others. */
int64_t vtb__text_bytes_of(const vtb__text *t, const char *type);

/* Value of an expression of numbers and constants; 0 and *err for what cannot be evaluated. */
int64_t vtb__text_value(vtb__text *t, const char *expression, vtb_error *err);

/* Why the text does not take the numbers that are filled: "linscan_tiles.cu requires DEPTH <= 512:
 * DEPTH is 640", the arena's; NULL: it does. What is required of numbers that are not filled is not
 * asked. */
const char *vtb__text_refusal(vtb__text *t, vtb_arena *arena);

/* The work of a block of the kernel, as its text declares it:
 *   tensor, wide     operations of tensor cores, multiply and add, by warps (mma.sync) and by what
 *                    is larger (wgmma, tcgen05), with numbers of one part
 *   issue            instructions of warps, those of products among them
 *   special          results of special functions: ex2, lg2, rcp, rsqrt, sqrt
 *   wavefronts       accesses to L1 and shared memory, 128 bytes each
 *   chain            clocks at least
 *   flight           bytes under way to shared memory; 0: two loads of 16 bytes a lane are
 *   registers        of a thread; 0: nothing is known
 *   after            of issue, what is left when tensor cores have ended
 *   phases           1: a block brings all it needs before it computes */
typedef struct vtb__text_costs {
  bool any;
  int64_t tensor, wide, issue, special, wavefronts, chain, flight, registers, after, phases;
} vtb__text_costs;
/* The costs of a text whose numbers are filled. */
VTB_MUST_USE vtb_status vtb__text_costs_of(vtb__text *t, vtb__text_costs *costs, vtb_error *err);

/* Places the arrays: bytes of shared memory, and each one's `number` and count. */
typedef struct vtb__text_array {
  const char *name, *type;
  int64_t at, count, bytes;
  bool over;
} vtb__text_array;
typedef VTB_VEC(vtb__text_array) vtb__text_arrays;
VTB_MUST_USE vtb_status vtb__text_layout(vtb__text *t, vtb__text_arrays *arrays, int64_t *bytes,
                                         vtb_error *err);

/* Everything is filled and required: the kernel's declarations and body, indented.
 * *shared_bytes: of a block. */
VTB_MUST_USE vtb_status vtb__text_write(vtb__text *t, vtb_strbuf *out, int64_t *shared_bytes,
                                        vtb_error *err);

#endif
