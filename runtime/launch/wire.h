/* Data in files: one description of a format serves both directions, so that reader and writer
 * cannot differ.
 *
 *   static void point(vtb_wire *w, struct point *p) {
 *     vtb__wire_i32(w, &p->x);
 *     vtb__wire_text(w, &p->name);
 *   }
 *
 * Numbers are little-endian without padding. Reading trusts nothing: whatever does not fit makes
 * the wire `bad`, gives zeros from then on, and arrays of no elements; memory taken is bounded by
 * the bytes that are there.
 * Ownership: what is read lies in the wire's arena; what is written is appended to `out`.
 */
#ifndef VTB_WIRE_H
#define VTB_WIRE_H

#include "runtime/launch/program.h"

typedef struct vtb_wire {
  vtb_strbuf *out; /* writing, if not NULL */
  const unsigned char *at, *end;
  vtb_arena *arena;
  bool bad, no_memory; /* no_memory: why it is bad */
} vtb_wire;

vtb_wire vtb__wire_writer(vtb_strbuf *out);
vtb_wire vtb__wire_reader(const void *data, size_t n, vtb_arena *arena);
/* Everything was read, and nothing was wrong. */
bool vtb__wire_complete(const vtb_wire *w);

void vtb__wire_u8(vtb_wire *w, uint8_t *x);
void vtb__wire_bool(vtb_wire *w, bool *x);
void vtb__wire_i32(vtb_wire *w, int32_t *x);
void vtb__wire_i64(vtb_wire *w, int64_t *x);
void vtb__wire_u64(vtb_wire *w, uint64_t *x);
void vtb__wire_text(vtb_wire *w, const char **x); /* NULL stays NULL */
void vtb__wire_bytes(vtb_wire *w, int64_t *n, unsigned char **x);
void vtb__wire_require(vtb_wire *w, bool condition); /* bad if not */

/* The length of an array whose elements take at least `least` bytes each. */
void vtb__wire_count(vtb_wire *w, int32_t *n, size_t least);
/* The same, and memory for the elements when reading; they follow, one by one. */
#define vtb__wire_array(w, n, at, least)                                                           \
  (vtb__wire_count((w), (n), (least)),                                                             \
   (w)->out ? (void)0 : (void)((at) = vtb__wire_elements((w), (n), sizeof *(at))))
void *vtb__wire_elements(vtb_wire *w, int32_t *n, size_t size_bytes); /* NULL: *n is 0 */

/* ---- what plans and manifests both hold ------------------------------------------------------ */

void vtb__wire_tensors(vtb_wire *w, int32_t *n, vtb_tensor_info **tensors);
void vtb__wire_kernel_info(vtb_wire *w, vtb_kernel_info *k);

#endif
