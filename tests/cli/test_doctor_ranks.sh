#!/bin/bash
# vertebra doctor: which MPI there is; --ranks: processes that talk to each other, and one that is no part of a job
. "$(dirname "$0")/lib.sh"
VTB_MPI=$work/absent.so expect 0 "$VERTEBRA" doctor; says "mpi            absent"; says "VTB_MPI=$work/absent.so"
expect 2 env -u OMPI_COMM_WORLD_RANK "$VERTEBRA" doctor --ranks; says "mpirun -n 2 vertebra doctor --ranks"
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 VTB_MPI=$work/absent.so expect 4 "$VERTEBRA" doctor --ranks
says "cannot be loaded"

command -v mpirun > /dev/null && "$VERTEBRA" doctor | grep -q '^mpi  *ok  *Open MPI' || { echo "skipped: no Open MPI"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks() { timeout -k 5 100 mpirun --oversubscribe -n "$@"; }
expect 0 ranks 3 "$VERTEBRA" doctor --ranks
says "3 ranks talk to each other, by Open MPI"
says "sum over all of"
[ "$(grep -c 'GB/s  *[^ ]*$' "$work/out")" -ge 3 ] || fail "a row a rank: $out"
awk 'length > 80 { exit 1 }' "$work/out" || fail "longer than 80 columns: $out"
expect 0 ranks 2 "$VERTEBRA" doctor --ranks --json
json n_ranks 2 ranks.1.rank 1 sums.0.bytes 4096
expect 0 ranks 1 "$VERTEBRA" doctor --ranks; says "it has nobody to talk to"
