#!/bin/bash
# Ranks under mpirun: sums with the same bits on 2, 3 and 4, a rank that fails, is killed, is stopped; no MPI, another one.
job=${RANKS_JOB:?path of ranks_job}
command -v mpirun > /dev/null || { echo "skipped: no mpirun"; exit 77; }
mpirun --version 2> /dev/null | grep -q 'Open MPI' || { echo "skipped: mpirun is not Open MPI's"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d) failures=0
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() { echo "FAILED: $*"; [ -f err ] && sed 's/^/  | /' err; failures=$((failures + 1)); }
says() { grep -qE -- "$1" err || fail "nobody says: $1"; }
# waits until it is so, or the job is over: how long things take is the machine's affair
within() { local i; for ((i = 0; i < 2000; i++)); do "$@" && return; kill -0 "$mpirun" 2> /dev/null || break; sleep 0.05; done; "$@"; }
ranks() { local n=$1; shift; timeout -k 5 200 mpirun -n "$n" --oversubscribe "$job" "$@" > out 2> err; }
# begins a job that sums for ever, in folder $1 of $2 ranks; when all have begun their processes are ${pids[@]}
begin() {
  mkdir "$1"
  timeout -k 5 200 mpirun -n "$2" --oversubscribe "$job" loop "$1" > out 2> err &
  mpirun=$!
  have_begun() { [ "$(cat "$1"/* 2> /dev/null | wc -l)" = "$2" ]; }
  within have_begun "$1" "$2" || { fail "$1: the ranks do not begin"; exit 1; }
  pids=()
  for ((i = 0; i < $2; i++)); do pids+=("$(cat "$1/$i")"); done
}
# waits for the job; its status must not be 0, and it must take at most $1 seconds
ends() {
  local begin=$SECONDS
  wait "$mpirun" && fail "$2: status 0"
  [ $((SECONDS - begin)) -le "$1" ] || fail "$2: it took $((SECONDS - begin)) seconds"
}

for n in 1 2 3 4; do
  ranks $n sums || fail "$n ranks"
  [ "$(grep -c ': good$' err)" = "$n" ] || fail "$n ranks: not all are good"
done
# through sockets, as between machines
timeout -k 5 200 mpirun -n 2 --oversubscribe --mca btl tcp,self --mca pml ob1 "$job" sums 12 > out 2> err || fail "TCP"

ranks 3 fail && fail "a rank that fails: status 0"
says '^0: rank 2 \(.*, process [0-9]+\): the disk is full'
says '^1: rank 2 \(.*, process [0-9]+\): the disk is full'
says '^2: the disk is full'

ranks 2 exit && fail "a rank that exits: status 0"

begin killed 3
kill -9 "${pids[2]}"
ends 60 "kill -9" # and not when the patience of 300 seconds is over
says "^0: rank 2 \(.*, process ${pids[2]}\) is gone|exited on signal 9"
for p in "${pids[@]}"; do grep -q "^State:.[^ZX]" "/proc/$p/status" 2> /dev/null && fail "process $p lives on"; done

begin term 2
kill -TERM "${pids[1]}"
wait "$mpirun" || fail "SIGTERM: status $?"
says '^0: stopped'
says '^1: stopped'

RANKS_NAME_SECONDS=1 begin stopped 3
kill -STOP "${pids[1]}"
within grep -q 'has not answered' err
says "^0: warning: rank 1 \(.*, process ${pids[1]}\) has not answered for 1"
kill -CONT "${pids[1]}"
within grep -q 'answers again' err
says '^0: warning: rank 1 .* answers again'
kill -TERM "${pids[0]}"
wait "$mpirun" || fail "it does not go on: status $?"
says '^2: stopped'

# outside of a job, without MPI, with something else under its name
"$job" > out 2> err; [ $? = 2 ] || fail "alone: status"
says 'mpirun -n 4'
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 VTB_MPI=/no/libmpi.so "$job" > out 2> err; [ $? = 4 ] || fail "no MPI: status"
says 'VTB_MPI=/no/libmpi.so cannot be loaded'
libm=$(ldd "$job" | awk '/libm\.so/ { print $3 }')
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 VTB_MPI=$libm "$job" > out 2> err; [ $? = 4 ] || fail "another library: status"
says 'it is no Open MPI'
# a launcher that MPI does not know of
env SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=3 "$job" > out 2> err; [ $? = 4 ] || fail "a launcher without PMIx: status"
says 'has started 3 processes, but MPI knows of 1'
says 'srun --mpi=pmix'

[ $failures = 0 ] && echo good
exit $((failures != 0))
