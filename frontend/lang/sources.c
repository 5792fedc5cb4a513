/* The files of a unit, under the names that a folder of copies needs. */
#include "frontend/lang/parse.h"

#include <string.h>

static const char *behind_slash(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* "std.nn" as it is used: std/nn.vtb. NULL if no file uses it. */
static const char *used_name(vtb_unit *u, const vtb_file *f) {
  for (size_t i = 0; i < u->files.n; i++) {
    const vtb_file *from = u->files.at[i];
    for (size_t k = 0; k < from->uses.n; k++) {
      if (from->uses.at[k].file != f) continue;
      char *name = vtb_arena_printf(&u->arena, "%s.vtb", from->uses.at[k].path.text);
      for (char *c = name; c < name + strlen(name) - 4; c++)
        if (*c == '.') *c = '/';
      return name;
    }
  }
  return NULL;
}

size_t vtb_unit_sources(vtb_unit *u, vtb_source_file **out) {
  *out = vtb_xcalloc(u->files.n + 1, sizeof **out);
  for (size_t i = 0; i < u->files.n; i++) {
    const vtb_source *s = u->files.at[i]->source;
    const char *name = s->name;
    if (!name && i) name = used_name(u, u->files.at[i]);
    if (!name) name = behind_slash(s->path);
    (*out)[i] = (vtb_source_file){.name = name, .path = s->path, .text = s->text, .n = s->n};
  }
  return u->files.n;
}
