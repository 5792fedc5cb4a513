#!/bin/bash
# Kernels for CUDA on several ranks, in the emulator: buckets of gradients are summed over processes, and losses are those of one
. "$(dirname "$0")/lib.sh"
"$VERTEBRA" doctor | grep -q '^cuda emulator  *ok' || { echo "skipped: no emulator"; exit 77; }
command -v mpirun > /dev/null && "$VERTEBRA" doctor | grep -q '^mpi  *ok  *Open MPI' || { echo "skipped: no Open MPI"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 VTB_TUNING=off
tiny_model
small_images 60 40
cd "$work" || exit 1
train=("$VERTEBRA" train tiny.vtb --data data --target cuda-emulated --batch 12 --updates 5 --threads 1)
losses() { grep -o '"event":"epoch".*"train_loss":[^,]*\|"loss":[^,]*' "$1/log.jsonl" | sed 's/.*://'; }
expect 0 "${train[@]}" --out alone
for n in 2 3; do
  expect 0 timeout -k 5 100 mpirun --oversubscribe -n $n "${train[@]}" --out ranks$n
  says "$n ranks"
  paste <(losses alone) <(losses ranks$n) |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= 1e-5 * $1)) exit 1 } END { exit NR < 2 }' ||
    fail "losses on $n ranks: $(losses ranks$n | tr '\n' ' ') and on one: $(losses alone | tr '\n' ' ')"
done
