/* Decoders of one format each; inside runtime/image only.
 *
 * libpng and libjpeg report errors by a callback that must not return: here it keeps the message
 * and jumps back, so everything allocated lives in a context that outlives the jump. */
#ifndef VTB_CODEC_H
#define VTB_CODEC_H

#include "runtime/image/image.h"

#include <setjmp.h>

typedef struct vtb_codec {
  const char *name;
  const unsigned char *data;
  size_t n, at;
  vtb_image image; /* pixels may be half filled */
  uint8_t *row;    /* one row as decoded, when it needs conversion */
  bool classes;    /* numbers as they are stored: palette entries, grey values of few bits */
  int orientation; /* as EXIF has it, 1 to 8; 0: it does not say */
  jmp_buf escape;
  char message[256];
  bool no_memory; /* why it failed */
} vtb_codec;

vtb_status vtb__codec_error(const vtb_codec *c, const char *format, vtb_error *err);
/* Before anything of that size is allocated. */
VTB_MUST_USE vtb_status vtb__codec_size(const vtb_codec *c, int64_t w, int64_t h, vtb_error *err);

/* c->image, whatever the status, is for the caller to free. */
VTB_MUST_USE vtb_status vtb__decode_png(vtb_codec *c, vtb_error *err);
VTB_MUST_USE vtb_status vtb__decode_jpeg(vtb_codec *c, vtb_error *err);
VTB_MUST_USE vtb_status vtb__decode_webp(vtb_codec *c, vtb_error *err);

/* orientation.c: what EXIF data (a TIFF file, with or without "Exif\0\0" before it) says, 0 if it
 * says nothing sensible. */
int vtb__exif_orientation(const unsigned char *data, size_t n);
/* Turned as the orientation asks, in place of the image; false without memory. */
bool vtb__orient(vtb_image *im, int orientation);

#endif
