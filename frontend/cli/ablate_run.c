/* vertebra ablate: from a study to its report. */
#include "frontend/cli/ablate.h"

vtb_status ablate_run(study *s, const ablate_options *o) {
  (void)s;
  (void)o;
  return cli_usage_error("ablate", "--dry-run is all there is yet");
}
