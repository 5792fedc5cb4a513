#!/usr/bin/env bash
# map.sh: every line of cases.map has a case that needs it, here or in the collection that VTB_GOLDEN names.
set -u
here=${0%/*}
[ -n "${VTB_GOLDEN:-}" ] && [ -d "$VTB_GOLDEN" ] || { echo "VTB_GOLDEN is not set: skipped"; exit 77; }
exec "$VERTEBRA" verify --map "$here/cases.map" --unused "$here"/*/*.safetensors "$VTB_GOLDEN"/*/*.safetensors
