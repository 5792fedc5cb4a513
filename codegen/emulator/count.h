/* Costs of a warp's accesses to memory, counted while blocks run (count.c). Between block.c and
 * whoever asks for counts; not for other folders.
 *
 * Lanes are fibers and run one after another, so an access of a warp is put together from theirs:
 * lanes meet that come to the same place of the code (all return addresses up to the kernel) for
 * the same time since the last event of the warp (a shuffle, a product, a barrier). That is what a
 * GPU does with lanes that go through the same iterations; where some lanes skip iterations in the
 * middle of a loop, later ones move up.
 */
#ifndef VTB_EMULATOR_COUNT_H
#define VTB_EMULATOR_COUNT_H

#include "codegen/emulator/core.h"

typedef struct vtb__emu_count vtb__emu_count;

vtb__emu_count *vtb__emu_count_new(vtb_emulator_counts *to);
void vtb__emu_count_free(vtb__emu_count *c); /* NULL is fine */
/* One lane's access, of `kind` (abi.h), before it happens. */
void vtb__emu_access(vtb_emu_thread *t, int kind, const void *p, long n_bytes);
/* An event of warp `warp`: what its lanes did since the last one is counted. */
void vtb__emu_count_warp(vtb__emu_count *c, int warp);
/* A row of a box that a tensor map copies, bytes `begin` to `end`: an access of its own, of no
 * lanes. Nothing if they are equal. */
void vtb__emu_count_row(vtb__emu_count *c, bool write, const char *begin, const char *end);
/* All warps of a block, at a barrier. */
void vtb__emu_count_barrier(const vtb__emu_worker *w, int rank);
/* The end of a cluster. */
void vtb__emu_count_cluster(vtb__emu_worker *w);
/* The place whose accesses touch most beyond their ideal goes to `to`, once all blocks ran. */
void vtb__emu_count_end(vtb__emu_count *c, vtb_emulator *e);

#endif
