/* Claims of processes on steps of a report. */
#include "frontend/study/claim.h"
#include "runtime/base/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The lock belongs to the open file, not to the process: two of one process exclude each other, and
 * closing another descriptor of the file does not end it. */
static bool lock(int file) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  return fcntl(file, F_OFD_SETLK, &whole) == 0;
}

vtb_status study_claim_take(study_claim *c, const char *path, bool *taken, vtb_error *err) {
  struct stat s;
  *taken = false;
  *c = (study_claim){.file = -1};
  for (;;) {
    int file;
    VTB_TRY(vtb_file_open_own(path, 0666, &file, err));
    if (!lock(file)) {
      int why = errno;
      close(file);
      errno = why;
      return why == EAGAIN || why == EACCES ? VTB_OK : vtb_file_fail(err, "lock", path);
    }
    if (fstat(file, &s) == 0 && s.st_nlink > 0) {
      *taken = true;
      *c = (study_claim){vtb_xstrdup(path), file};
      return VTB_OK;
    }
    close(file); /* who had it took the file away between open and lock */
  }
}

void study_claim_give(study_claim *c) {
  if (c->file < 0) return;
  unlink(c->path);
  close(c->file);
  vtb_free(c->path);
  *c = (study_claim){.file = -1};
}
