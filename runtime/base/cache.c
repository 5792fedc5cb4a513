/* Where caches lie, and that nobody else can write there: what is read from them is run. */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/base.h"

/* The home folder that the system knows, for processes whose environment has none. */
static void put_home(vtb_strbuf *s) {
  struct passwd entry, *found = NULL;
  char text[4096];
  const char *home = getenv("HOME");
  if (home && home[0] == '/')
    vtb_strbuf_printf(s, "%s/.cache/vertebra", home);
  else if (getpwuid_r(geteuid(), &entry, text, sizeof text, &found) == 0 && found &&
           found->pw_dir[0] == '/' && found->pw_dir[1])
    vtb_strbuf_printf(s, "%s/.cache/vertebra", found->pw_dir);
  else
    vtb_strbuf_printf(s, "/tmp/vertebra-%lu", (unsigned long)geteuid());
}

char *vtb_cache_dir(void) {
  vtb_strbuf s = {0};
  const char *xdg = getenv("XDG_CACHE_HOME");
  if (xdg && xdg[0] == '/')
    vtb_strbuf_printf(&s, "%s/vertebra", xdg);
  else
    put_home(&s);
  return s.at;
}

/* Ours, a folder and no link; that others may write to it is taken back. */
static vtb_status make_private(const char *path, vtb_error *err) {
  struct stat st;
  if (lstat(path, &st) != 0) return vtb_file_fail(err, "look at", path);
  if (!S_ISDIR(st.st_mode))
    return vtb_fail(err, VTB_E_INPUT, "%s is not a folder: the cache cannot be there", path);
  if (st.st_uid != geteuid())
    return vtb_fail(err, VTB_E_INPUT,
                    "the cache folder %s belongs to another user, who could put code there: set "
                    "XDG_CACHE_HOME to a folder of your own",
                    path);
  if ((st.st_mode & (S_IWGRP | S_IWOTH)) && chmod(path, st.st_mode & 0755) != 0)
    return vtb_file_fail(err, "close to others", path);
  return VTB_OK;
}

vtb_status vtb_cache_make(const char *part, char **folder, vtb_error *err) {
  vtb_strbuf path = {0};
  char *base = vtb_cache_dir();
  vtb_strbuf_printf(&path, "%s/%s", base, part);
  vtb_status status = vtb_make_dirs(path.at, err);
  if (status == VTB_OK) status = make_private(base, err);
  if (status == VTB_OK) status = make_private(path.at, err);
  vtb_free(base);
  if (status == VTB_OK)
    *folder = path.at;
  else
    vtb_strbuf_free(&path);
  return status;
}
