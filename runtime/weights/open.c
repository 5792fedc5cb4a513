/* Which reader a file or folder is for. */
#include "runtime/weights/open.h"

#include "runtime/artefact/safetensors.h"

vtb_status vtb_weights_open_part(const char *path, const char *part, vtb_weights **out,
                                 vtb_strbuf *said, vtb_error *err) {
  (void)said;
  if (part)
    return vtb_fail(err, VTB_E_INPUT, "%s holds one set of tensors: there is no part \"%s\"", path,
                    part);
  return vtb_safetensors_load(path, out, err);
}

vtb_status vtb_weights_open(const char *path, vtb_weights **out, vtb_strbuf *said, vtb_error *err) {
  return vtb_weights_open_part(path, NULL, out, said, err);
}
