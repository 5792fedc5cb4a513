/* Which room of rules.h a file lies in. */
#ifndef VTB_HOUSE_ROOMS_H
#define VTB_HOUSE_ROOMS_H

#include <string.h>

#include "rules.h"
#include "tree.h"

enum { N_ROOMS = sizeof rooms / sizeof *rooms };

/* Does `path` lie under `folder` (or is it that file)? */
static inline bool under(const char *path, const char *folder, size_t n) {
  return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static inline const house_room *room_of(const char *path) {
  const house_room *best = NULL;
  for (int i = 0; i < N_ROOMS; i++)
    if (under(path, rooms[i].path, strlen(rooms[i].path)) &&
        (!best || strlen(rooms[i].path) > strlen(best->path)))
      best = &rooms[i];
  return best;
}

#endif
