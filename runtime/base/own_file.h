/* Files of our own that are written where they stand: locks. */
#ifndef VTB_OWN_FILE_H
#define VTB_OWN_FILE_H

#include "runtime/base/base.h"

#include <sys/types.h>

/* Opens a file that stays where it is (a lock) to read and write, or makes it; its contents
 * are left. Somebody else's file is refused: a link, a second name of a file, a pipe. *fd is the
 * caller's, -1 after an error. */
VTB_MUST_USE vtb_status vtb_file_open_own(const char *path, mode_t mode, int *fd, vtb_error *err);

#endif
