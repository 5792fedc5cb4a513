/* The most memory that the process has taken. */
#include "frontend/cli/cli.h"

#include <string.h>
#include <sys/resource.h>

/* The kernel's own count of this program: what getrusage() tells begins with what the process had
 * before it became this program. */
int64_t cli_peak_bytes(void) {
  char *text = NULL;
  size_t n = 0;
  long long kilobytes = 0;
  if (vtb_file_read("/proc/self/status", 1 << 20, &text, &n, NULL) == VTB_OK) {
    const char *at = strstr(text, "VmHWM:");
    if (!at || sscanf(at, "VmHWM: %lld", &kilobytes) != 1) kilobytes = 0;
  }
  vtb_free(text);
  struct rusage used;
  if (!kilobytes && getrusage(RUSAGE_SELF, &used) == 0) kilobytes = used.ru_maxrss;
  return kilobytes << 10;
}
