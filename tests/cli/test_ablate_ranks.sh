#!/bin/bash
# A study by several processes that share its folder, as mpirun begins them: each step is done once, a rank that is
# killed is made up for, the first one writes the report.
. "$(dirname "$0")/lib.sh"
: "${JSON_GET:?path of json_get}"
small_images 60 40
cd "$work" || exit 1
printf 'epochs: 2\nbatch: 10\n' > short.yaml
study=(vil_nano -D depth=1 -D dim=16 --image 8 --vary paths=uni,bi --vary chunk=1,2 --train short.yaml --data data)

expect 2 "$VERTEBRA" ablate "${study[@]}" -o none --launcher mpi
says mpirun
[ ! -e none ] || fail "a folder was made"

for rank in 1 2 0; do
  OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=3 "$VERTEBRA" ablate "${study[@]}" -o ranks --launcher mpi --threads 1 \
    > ranks.$rank.out 2> ranks.$rank.err &
  pids[rank]=$!
done
# a rank that is killed while it trains
for ((i = 0; i < 600; i++)); do
  children=$(cat "/proc/${pids[2]}/task/${pids[2]}/children" 2>/dev/null)
  ls ranks/cells/*/train-0 > /dev/null 2>&1 && [ -n "$children" ] && break
  sleep 0.02
done
kill -9 "${pids[2]}"
wait "${pids[2]}" 2>/dev/null
for rank in 0 1; do wait "${pids[rank]}" || fail "rank $rank: $(cat ranks.$rank.err)"; done
out=$(cat ranks/results.json)
json cells.0.status done cells.1.status done cells.2.status done cells.3.status done
[ -s ranks.1.out ] && fail "a rank that is not the first says something: $(cat ranks.1.out)"
grep -q "page: ranks/index.html" ranks.0.out || fail "no page: $(cat ranks.0.out)"
ls ranks/cells/*/*.claim > /dev/null 2>&1 && fail "claims are left: $(ls ranks/cells/*)"
[ "$(grep -c '"step":' ranks/cells/*/train-0.json | wc -l)" = 4 ] || fail "$(ls ranks/cells/*)"

# under a real mpirun, where there is one
command -v mpirun > /dev/null || exit 0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun --oversubscribe -n 2 true > /dev/null 2>&1 || exit 0
expect 0 mpirun --oversubscribe -n 2 "$VERTEBRA" ablate vil_nano -D depth=1 -D dim=16 --image 8 --vary paths=uni,bi \
  --train short.yaml --data data -o by-mpirun
out=$(cat by-mpirun/results.json)
json cells.0.status done cells.1.status done
exit 0
