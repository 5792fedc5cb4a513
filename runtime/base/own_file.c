/* Files of our own that are written where they stand. */
#include "runtime/base/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

vtb_status vtb_file_open_own(const char *path, mode_t mode, int *fd, vtb_error *err) {
  struct stat st;
  *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
  if (*fd < 0 && errno == ELOOP)
    return vtb_fail(err, VTB_E_INPUT, "%s is a link, through which nothing is written: remove it",
                    path);
  if (*fd < 0) return vtb_file_fail(err, "write", path);
  if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink <= 1) return VTB_OK;
  close(*fd);
  *fd = -1;
  return vtb_fail(err, VTB_E_INPUT,
                  "%s is no file of this program's own (it has another name too, or is none): "
                  "remove it",
                  path);
}
