/* The last bytes of a built file, which hold the hashes of what is before them. */
#include "runtime/artefact/artefact_file.h"

#include <elf.h>
#include <string.h>

static uint64_t little_endian(const unsigned char *p, int n) {
  uint64_t x = 0;
  for (int i = 0; i < n; i++) x |= (uint64_t)p[i] << 8 * i;
  return x;
}

/* ---- trailer --------------------------------------------------------------------------------- */

static void put_number(unsigned char *at, uint64_t x, int n) {
  for (int i = 0; i < n; i++) at[i] = (unsigned char)(x >> 8 * i);
}

void vtb__trailer_write(const vtb__trailer *t, unsigned char *out) {
  const uint64_t numbers[] = {t->code_bytes, t->manifest.offset, t->manifest.bytes, t->file_bytes};
  memset(out, 0, VTB__TRAILER_BYTES);
  for (int i = 0; i < 4; i++) put_number(out + 8 * i, numbers[i], 8);
  memcpy(out + 32, t->compiler, strlen(t->compiler));
  put_number(out + VTB__TRAILER_NUMBERS, t->about, 8);
  put_number(out + VTB__TRAILER_HASHED, t->hash, 8);
  put_number(out + 64, VTB_ARTEFACT_FORMAT, 4);
  put_number(out + 68, VTB__TRAILER_BYTES, 4);
  memcpy(out + 72, VTB__TRAILER_MAGIC, 8);
}

static vtb_status check_trailer(const char *path, const unsigned char *data, size_t n,
                                const vtb__trailer *t, vtb_error *err) {
  if (t->file_bytes != n)
    return vtb_fail(err, VTB_E_INPUT, "%s has %zu bytes, but was built with %llu", path, n,
                    (unsigned long long)t->file_bytes);
  uint64_t body = n - VTB__TRAILER_BYTES;
  if (t->code_bytes > body || t->manifest.offset > body ||
      t->manifest.bytes != body - t->manifest.offset ||
      vtb_hash64(data + t->manifest.offset, (size_t)t->manifest.bytes + VTB__TRAILER_NUMBERS) !=
          t->about)
    return vtb_fail(err, VTB_E_INPUT, "%s is damaged: its contents are not those it was built with",
                    path);
  return VTB_OK;
}

bool vtb__trailer_find_linked(const unsigned char **data, size_t *n) {
  Elf64_Ehdr head;
  if (*n < sizeof head + VTB__TRAILER_BYTES) return false;
  memcpy(&head, *data, sizeof head);
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_type != ET_REL ||
      memcmp(*data + *n - 8, VTB__TRAILER_MAGIC, 8) != 0)
    return false;
  uint64_t bytes = little_endian(*data + *n - VTB__TRAILER_BYTES + 24, 8);
  if (bytes < VTB__TRAILER_BYTES || bytes > *n - sizeof head || (*n - bytes) % 64) return false;
  *data += *n - bytes;
  *n = (size_t)bytes;
  return true;
}

vtb_status vtb__trailer_read(const char *path, const unsigned char *data, size_t n,
                             vtb__trailer *out, vtb_error *err) {
  bool elf = n >= 4 && memcmp(data, "\177ELF", 4) == 0;
  if (n < VTB__TRAILER_BYTES || memcmp(data + n - 8, VTB__TRAILER_MAGIC, 8) != 0)
    return vtb_fail(err, VTB_E_INPUT,
                    elf ? "%s has no manifest of vertebra's at its end: it is another library, or "
                          "was cut short or "
                          "stripped after it was built"
                        : "%s is not a file that `vertebra build` made",
                    path);
  const unsigned char *at = data + n - VTB__TRAILER_BYTES;
  uint64_t format = little_endian(at + 64, 4), size = little_endian(at + 68, 4);
  *out = (vtb__trailer){.code_bytes = little_endian(at, 8),
                        .manifest = {little_endian(at + 8, 8), little_endian(at + 16, 8)},
                        .file_bytes = little_endian(at + 24, 8),
                        .about = little_endian(at + VTB__TRAILER_NUMBERS, 8),
                        .hash = little_endian(at + VTB__TRAILER_HASHED, 8)};
  memcpy(out->compiler, at + 32, 16);
  if (format != VTB_ARTEFACT_FORMAT || size != VTB__TRAILER_BYTES)
    return vtb_fail(
        err, VTB_E_INPUT,
        "%s has format %llu; this is vertebra %s, which reads format %d: build it again%s", path,
        (unsigned long long)format, VTB_VERSION, VTB_ARTEFACT_FORMAT,
        format > VTB_ARTEFACT_FORMAT ? ", or use a newer vertebra" : "");
  return check_trailer(path, data, n, out, err);
}
