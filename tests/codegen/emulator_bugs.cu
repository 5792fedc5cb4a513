// Kernels with a planted bug each. test_cuda_emulator_bugs.c expects the error on the line that
// says "BUG" behind the kernel's name, and no error from the kernels called ok_.

VTB_KERNEL(64, ok_reverse)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 64);
  s[vtb_tid()] = x[vtb_tid()];
  vtb_sync();
  y[vtb_tid()] = s[63 - vtb_tid()];
}

VTB_KERNEL(64, missing_barrier)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 64);
  s[vtb_tid()] = x[vtb_tid()]; // BUG missing_barrier
  y[vtb_tid()] = s[63 - vtb_tid()]; // BUG missing_barrier
}

// Reads of one tile and writes of the next one need a barrier between them too.
VTB_KERNEL(64, missing_second_barrier)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 64);
  float sum = 0;
  for (int i = 0; i < 2; i++) {
    s[vtb_tid()] = x[vtb_tid()] + i; // BUG missing_second_barrier
    vtb_sync();
    sum += s[vtb_tid() ^ 32]; // BUG missing_second_barrier
  }
  y[vtb_tid()] = sum;
}

// Lanes of one warp are ordered by vtb_sync_warp, not by luck.
VTB_KERNEL(64, ok_warp)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 64);
  s[vtb_tid()] = x[vtb_tid()];
  vtb_sync_warp();
  y[vtb_tid()] = s[vtb_tid() ^ 1];
}
VTB_KERNEL(64, missing_sync_warp)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 64);
  s[vtb_tid()] = x[vtb_tid()]; // BUG missing_sync_warp
  y[vtb_tid()] = s[vtb_tid() ^ 1]; // BUG missing_sync_warp
}
VTB_KERNEL(64, sync_warp_across_warps)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 64);
  s[vtb_tid()] = x[vtb_tid()]; // BUG sync_warp_across_warps
  vtb_sync_warp();
  y[vtb_tid()] = s[vtb_tid() ^ 32]; // BUG sync_warp_across_warps
}

VTB_KERNEL(64, barrier_in_a_branch)(VTB_IN(float) x, VTB_OUT(float) y) {
  if (vtb_tid() < 40) vtb_sync(); // BUG barrier_in_a_branch
  y[vtb_tid()] = x[vtb_tid()];
}
VTB_KERNEL(64, two_barriers)(VTB_IN(float) x, VTB_OUT(float) y) {
  if (vtb_warp() == 0)
    vtb_sync(); // BUG two_barriers
  else
    vtb_sync(); // BUG two_barriers
  y[vtb_tid()] = x[vtb_tid()];
}
VTB_KERNEL(64, shuffle_after_return)(VTB_IN(float) x, VTB_OUT(float) y) {
  if (vtb_tid() >= 50) return;
  y[vtb_tid()] = vtb_shfl_xor(x[vtb_tid()], 1); // BUG shuffle_after_return
}

VTB_KERNEL(64, read_past_the_end)(VTB_IN(float) x, VTB_OUT(float) y) {
  y[vtb_tid()] = x[vtb_tid() + 1]; // BUG read_past_the_end
}
VTB_KERNEL(64, write_past_the_end)(VTB_IN(float) x, VTB_OUT(float) y) {
  for (int i = vtb_tid(); i <= 64; i += 64)
    y[i] = 1.0f; // BUG write_past_the_end
}
VTB_KERNEL(64, read_before)(VTB_IN(float) x, VTB_OUT(float) y) {
  y[vtb_tid()] = (x + vtb_tid())[-1]; // BUG read_before
}
VTB_KERNEL(64, four_past_the_end)(VTB_IN(float) x, VTB_OUT(float) y) {
  vtb_f4 v = vtb_load4(x, vtb_tid() * 4); // BUG four_past_the_end
  y[vtb_tid()] = vtb_sum4(v);
}
VTB_KERNEL(64, misaligned_four)(VTB_IN(float) x, VTB_OUT(float) y) {
  vtb_store4(y, vtb_tid() / 32 * 4 + 1, vtb_splat(1.0f)); // BUG misaligned_four
}
VTB_KERNEL(64, past_a_shared_array)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, a, 0, 64);
  VTB_SHARED(float, b, 256, 64);
  b[vtb_tid()] = a[vtb_tid()] = x[vtb_tid()];
  vtb_sync();
  y[vtb_tid()] = a[vtb_tid() + 1] + b[vtb_tid()]; // BUG past_a_shared_array
}
VTB_KERNEL(64, too_little_shared)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, a, 512, 64); // BUG too_little_shared
  a[vtb_tid()] = x[vtb_tid()];
  y[vtb_tid()] = a[vtb_tid()];
}

VTB_KERNEL(64, uninitialised_shared)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 64);
  if (vtb_tid() < 63) s[vtb_tid()] = x[vtb_tid()];
  vtb_sync();
  y[vtb_tid()] = s[vtb_tid()]; // BUG uninitialised_shared
}

VTB_KERNEL(64, ok_copy)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 64);
  if (vtb_tid() < 16) vtb_cp_async16(s + vtb_tid() * 4, x + vtb_tid() * 4, true);
  vtb_cp_commit();
  vtb_cp_wait<0>();
  vtb_sync();
  y[vtb_tid()] = s[63 - vtb_tid()];
}
VTB_KERNEL(64, copy_without_wait)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 64);
  if (vtb_tid() < 16) vtb_cp_async16(s + vtb_tid() * 4, x + vtb_tid() * 4, true);
  vtb_cp_commit();
  vtb_sync();
  y[vtb_tid()] = s[63 - vtb_tid()]; // BUG copy_without_wait
  vtb_cp_wait<0>();
}
VTB_KERNEL(64, copy_waits_for_too_few)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 64);
  vtb_cp_async4(s + vtb_tid(), x + vtb_tid(), true);
  vtb_cp_commit();
  vtb_cp_wait<1>();
  vtb_sync();
  y[vtb_tid()] = s[63 - vtb_tid()]; // BUG copy_waits_for_too_few
  vtb_cp_wait<0>();
}
VTB_KERNEL(64, copy_without_barrier)(VTB_IN(float) x, VTB_OUT(float) y) {
  VTB_SHARED(float, s, 0, 64);
  vtb_cp_async4(s + vtb_tid(), x + vtb_tid(), true); // BUG copy_without_barrier
  vtb_cp_commit();
  vtb_cp_wait<0>();
  y[vtb_tid()] = s[63 - vtb_tid()]; // BUG copy_without_barrier
}
