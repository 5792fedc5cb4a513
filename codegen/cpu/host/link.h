/* Objects linked into a shared object by the machine's C compiler: $CC, else cc, gcc or clang.
 * Nothing else of the compiler's is needed: neither headers nor a C library's development files
 * beyond what linking takes. */
#ifndef VTB_CODEGEN_LINK_H
#define VTB_CODEGEN_LINK_H

#include "codegen/codegen.h"

/* The symbol that object i must define: "vtb_entry_0". `buf` has 32 bytes. */
const char *vtb_link_symbol(int i, char *buf);
/* A library whose one symbol is a vtb_artefact_table (runtime/artefact/artefact.h) of the objects'
 * entries; n may be 0. *data is malloc'd. VTB_E_INPUT without a compiler. */
VTB_MUST_USE vtb_status vtb_link_table(const vtb_object *objects, int n, uint64_t build,
                                       char **data, size_t *n_bytes, vtb_error *err);

/* The compiler that links, in words, or what is missing. */
bool vtb_link_probe(vtb_strbuf *out);

#endif
