/* Objects linked into a shared object, or into one object for static linking, by a C compiler of
 * their architecture: $CC, else cc, gcc or clang; on machines of another one
 * aarch64-linux-gnu-gcc. Nothing else of the compiler's is needed: neither headers nor a C
 * library's development files beyond what linking takes. */
#ifndef VTB_CODEGEN_LINK_H
#define VTB_CODEGEN_LINK_H

#include "codegen/codegen.h"

enum { VTB_LINK_SYMBOL = 128, VTB_LINK_NAME = 64 }; /* bytes of a symbol; most of a name's */

/* The symbol that object i must define: "vtb_entry_0", or of the objects of a static model
 * "NAME_vtb_0", since programs may have several. `buf` has VTB_LINK_SYMBOL bytes. */
const char *vtb_link_symbol(const char *name, int i, char *buf);
/* A library whose one symbol is a vtb_artefact_table (runtime/artefact/artefact.h) of the objects'
 * entries; n may be 0. *data is malloc'd. VTB_E_INPUT without a compiler. */
VTB_MUST_USE vtb_status vtb_link_table(const vtb_object *objects, int n, uint64_t build,
                                       char **data, size_t *n_bytes, vtb_error *err);

/* An object for static linking that defines NAME_vtb (vtb_artefact_linked) of the objects'
 * entries. Its image comes at the next multiple of 64 behind *n_bytes, and its size, as 64 bits, at
 * both of `size_at`. */
VTB_MUST_USE vtb_status vtb_link_static(const vtb_object *objects, int n, uint64_t build,
                                        const char *name, char **data, size_t *n_bytes,
                                        uint64_t size_at[2], vtb_error *err);

/* The compiler that links, in words, or what is missing. */
bool vtb_link_probe(vtb_strbuf *out);

#endif
