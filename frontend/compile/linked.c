/* Models for static linking: their names, and the headers that declare them. */
#include "codegen/cpu/host/link.h"
#include "frontend/compile/builder.h"

#include <ctype.h>
#include <string.h>

static const char mark[] = "/* A model that `vertebra build` compiled";

static bool is_name(const char *name) {
  bool ok = *name && strlen(name) <= VTB_LINK_NAME && !isdigit((unsigned char)*name);
  for (const char *p = name; *p; p++) ok = ok && (isalnum((unsigned char)*p) || *p == '_');
  return ok;
}

static char *header_of(const char *path) {
  vtb_strbuf s = {0};
  size_t n = strlen(path);
  vtb_strbuf_printf(&s, "%.*s.h", (int)(vtb_ends_with(path, ".o") ? n - 2 : n), path);
  return s.at;
}

static vtb_status check_header(const char *path, const char *header, vtb_error *err) {
  char *text = NULL;
  size_t n = 0;
  if (!vtb_path_exists(header)) return VTB_OK;
  vtb_status status = vtb_file_read(header, (size_t)1 << 20, &text, &n, NULL);
  bool ours = status == VTB_OK && vtb_starts_with(text, mark);
  vtb_free(text);
  if (ours) return VTB_OK;
  return vtb_fail(err, VTB_E_USAGE,
                  "%s is there, is none that `vertebra build` wrote, and the header of %s would "
                  "replace it: call the object otherwise, or move the header",
                  header, path);
}

vtb_status vtb__linked_check(const char *path, const char *name, vtb_error *err) {
  if (!is_name(name))
    return vtb_fail(err, VTB_E_USAGE,
                    "'%s' is no name for C: letters, digits and _, at most %d, and no digit first",
                    name, VTB_LINK_NAME);
  char *header = header_of(path);
  vtb_status status = check_header(path, header, err);
  vtb_free(header);
  return status;
}

vtb_status vtb__linked_header(const char *path, const char *name, vtb_error *err) {
  vtb_strbuf s = {0};
  char *header = header_of(path), guard[VTB_LINK_NAME + 1] = "";
  const char *slash = strrchr(path, '/');
  for (size_t i = 0; name[i] && i < VTB_LINK_NAME; i++)
    guard[i] = (char)toupper((unsigned char)name[i]);
  vtb_strbuf_printf(&s,
                    "%s: link %s, and libvertebra_rt.\n"
                    " *\n"
                    " *   vtb_model *model;\n"
                    " *   if (vtb_model_open_static(&%s_vtb, NULL, &model, &err)) fail(err.text);\n"
                    " */\n"
                    "#ifndef %s_VTB_H\n#define %s_VTB_H\n\n"
                    "#include <vertebra.h>\n\n"
                    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
                    "extern const vtb_static_model %s_vtb;\n\n"
                    "#ifdef __cplusplus\n}\n#endif\n\n#endif\n",
                    mark, slash ? slash + 1 : path, name, guard, guard, name);
  vtb_status status = vtb_file_write_atomic(header, s.at, s.n, err);
  vtb_strbuf_free(&s);
  vtb_free(header);
  return status;
}
