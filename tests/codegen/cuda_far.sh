#!/usr/bin/env bash
# Tensors of more than 2^31 elements: plans are made in every precision, for training too, and no launch of them reaches
# out of its arguments. Blocks of real launches run in the emulator over addresses that cost no memory (`dump --audit`):
# an index that 32 bits cut off lies outside.
set -u
: "${VERTEBRA:?path of the vertebra program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

dump() { # PRESET OPTION...
  "$VERTEBRA" dump "$@" --stage launches >"$work/out" 2>&1 && return
  echo "FAIL $*: exit $?: $(tail -1 "$work/out")"
  status=1
}
far() { # there must be a tensor of 8 GB and more, or nothing is tried
  awk '$3 + 0 > 8590 { found = 1 } END { exit !found }' "$work/out" && return
  echo "FAIL $*: no launch moves 8 GB"
  status=1
}

for precision in fp32 tf32 bf16 fp16 bf16-all; do
  dump vil_base -D depth=1 --batch 512 --image 1024 --precision $precision
done
dump vil_small -D depth=1 --batch 1024 --image 512 --train --precision fp32
dump vil_base -D depth=1 --batch 4096 --train --arch sm_90a --precision bf16-all
dump vim_small -D depth=1 --batch 2048 --image 1024 --train --precision bf16-all
dump deit_small -D depth=1 --batch 4096 --image 1024 --train --precision bf16-all
dump vir_small -D depth=1 --batch 4096 --image 512 --train --precision bf16-all

if command -v "${VTB_CXX:-${CXX:-g++}}" clang++ >/dev/null; then
  for options in "vil_tiny --batch 1024 --image 1024 --precision fp32" "deit_tiny --batch 2048 --image 512 --precision bf16-all"; do
    dump $options -D depth=1 --audit
    far $options
  done
fi
exit $status
