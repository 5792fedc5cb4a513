/* An image input as bytes, a quarter of its floats: what a program that says so
 * (vtb_program.pixels) takes in place of them, one buffer of three parts. Element i of sample s and
 * channel c becomes values[c][bytes[i]], or 0 inside the sample's box: the numbers that the CPU's
 * preparing gives, bit for bit.
 *
 *   values  f32 (C, 256)    what each pixel becomes
 *   erased  i32 (B, 4)      x, y, width and height of a box that becomes 0; width 0: none
 *   bytes   u8 (B, C, H, W)
 */
#ifndef VTB_PIXELS_H
#define VTB_PIXELS_H

#include "runtime/launch/program.h"

/* The kernel's kind, which its name begins with, and how many elements a block makes. */
#define VTB_PIXELS_KERNEL "pixels"
enum { VTB_PIXELS_A_BLOCK = 1024 };

static inline int64_t vtb_pixels_blocks(int64_t count) {
  return (count + VTB_PIXELS_A_BLOCK - 1) / VTB_PIXELS_A_BLOCK;
}

/* Offsets in the buffer, multiples of 16, and its size. count: elements of a sample. */
typedef struct vtb_pixels {
  size_t values, erased, bytes, size;
} vtb_pixels;

static inline vtb_pixels vtb_pixels_layout(int64_t batch, int64_t channels, int64_t count) {
  vtb_pixels p = {0};
  p.erased = (size_t)channels * 256 * sizeof(float);
  p.bytes = p.erased + (size_t)batch * 4 * sizeof(int32_t);
  p.size = p.bytes + ((size_t)(batch * count) + 15) / 16 * 16;
  return p;
}

#endif
