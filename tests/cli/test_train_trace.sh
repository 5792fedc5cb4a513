# vertebra train --trace: kernels of the first updates, and on ranks the sums beside them.
. tests/cli/lib.sh
small_images 64 16
tiny_model
cd "$work" || fail cd
train() { "$VERTEBRA" train tiny.vtb --data data --batch 16 --updates 6 --threads 1 --eval-split test --quiet "$@"; }
# count PATTERN: events whose name begins so
count() { grep -o "\"name\":\"$1" t.json | wc -l; }

expect 0 train --out plain
expect 0 train --out alone --trace t.json; says "t.json: the first 3 runs of the step"
out=$(cat t.json); json otherData.ranks 1 otherData.rank_batch 16 traceEvents.0.ph M
[ "$(count 'patch_embed\|embed')" -ge 3 ] || fail "no kernels of the patch embedding in $(head -c 2000 t.json)"
[ "$(count exchange)" = 0 ] || fail "one rank exchanged something"
cmp -s plain/weights.safetensors alone/weights.safetensors || fail "a trace changes the weights"
grep -q '^ *trace' alone/run.yaml && fail "the trace is part of the recipe"
expect 2 train --out no --trace t.txt; says ".json"

command -v mpirun >/dev/null || exit 0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
mpirun --oversubscribe -n 2 true >/dev/null 2>&1 || exit 0
expect 0 timeout 100 mpirun --oversubscribe --bind-to none -n 2 "$VERTEBRA" train tiny.vtb --data data --batch 16 \
  --updates 6 --threads 1 --eval-split test --quiet --out two --trace t.json
out=$(cat t.json); json otherData.ranks 2 otherData.rank_batch 8
[ "$(count exchange)" -ge 6 ] && [ "$(count wait)" -ge 6 ] || fail "no sums in $(head -c 2000 t.json)"
grep -q 'rank 0 (' t.json && grep -q 'rank 1 (' t.json || fail "a rank is missing"
