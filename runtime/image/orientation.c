/* Which side of a photo is up: the one tag of EXIF that changes pixels. */
#include "runtime/image/codec.h"

#include <string.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, ENTRY_BYTES = 12 };

static unsigned read_number(const unsigned char *p, int bytes, bool big) {
  unsigned v = 0;
  for (int i = 0; i < bytes; i++) v |= (unsigned)p[i] << 8 * (big ? bytes - 1 - i : i);
  return v;
}

int vtb__exif_orientation(const unsigned char *data, size_t n) {
  if (n >= 6 && memcmp(data, "Exif\0", 6) == 0) data += 6, n -= 6;
  if (n < 8) return 0;
  bool big = memcmp(data, "MM\0*", 4) == 0;
  if (!big && memcmp(data, "II*\0", 4) != 0) return 0;
  size_t at = read_number(data + 4, 4, big);
  if (at > n || n - at < 2) return 0;
  unsigned entries = read_number(data + at, 2, big);
  const unsigned char *p = data + at + 2, *end = data + n;
  for (; entries > 0 && end - p >= ENTRY_BYTES; entries--, p += ENTRY_BYTES) {
    if (read_number(p, 2, big) != TAG_ORIENTATION) continue;
    unsigned v = read_number(p + 8, 2, big);
    return read_number(p + 2, 2, big) == TYPE_SHORT && v >= 1 && v <= 8 ? (int)v : 0;
  }
  return 0;
}

/* The source of a result's pixel (x, y): from + x * across + y * down, in pixels. */
typedef struct walk {
  int width, height; /* of the result */
  ptrdiff_t from, across, down;
} walk;

static walk walk_of(int w, int h, int orientation) {
  bool turned = orientation >= 5;
  ptrdiff_t last_x = w - 1, last_y = (ptrdiff_t)(h - 1) * w;
  bool right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  bool bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  ptrdiff_t x = right ? -1 : 1, y = bottom ? -w : w;
  return (walk){turned ? h : w, turned ? w : h, (right ? last_x : 0) + (bottom ? last_y : 0),
                turned ? y : x, turned ? x : y};
}

bool vtb__orient(vtb_image *im, int orientation) {
  if (orientation < 2 || orientation > 8) return true;
  walk k = walk_of(im->width, im->height, orientation);
  vtb_image out = vtb_image_new(k.width, k.height, im->channels);
  if (!out.pixels) return false;
  ptrdiff_t c = im->channels;
  uint8_t *to = out.pixels;
  for (int y = 0; y < k.height; y++) {
    const uint8_t *p = im->pixels + (k.from + y * k.down) * c;
    for (int x = 0; x < k.width; x++, to += c) memcpy(to, p + x * k.across * c, (size_t)c);
  }
  vtb_image_free(im);
  *im = out;
  return true;
}
