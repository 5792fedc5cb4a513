#!/usr/bin/env bash
# Every case of the collection that VTB_GOLDEN names, for the families whose models exist, in every mode.
set -u
[ -n "${VTB_GOLDEN:-}" ] && [ -d "$VTB_GOLDEN" ] || { echo "VTB_GOLDEN is not set: skipped"; exit 77; }
status=0
for family in vil vir vim; do
  echo "== $family"
  "$VERTEBRA" verify --modes all "$VTB_GOLDEN/$family"/*.safetensors || status=1
done
exit $status
