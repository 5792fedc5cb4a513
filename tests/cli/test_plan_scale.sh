# vertebra train --plan-scale: steps on many ranks, predicted; nothing is trained and nothing written.
. tests/cli/lib.sh
unset VTB_MACHINE
cd "$work" || fail cd
plan() { expect 0 "$VERTEBRA" train vil_nano --target cuda --precision bf16-all "$@"; }

plan --plan-scale 8,512,64 --batch 1024
says "128 images a rank"; says "links: 8 H200 a node"; says "the same experiment:"
[ -z "$(awk '/^ / && length > 80' out)" ] || fail "$(awk '/^ / && length > 80' out)"
# both tables: three rows each, more ranks make more images a second while a rank's batch is held
[ "$(grep -cE '^ +(8|64|512) ' out)" = 6 ] || fail "$out"
awk '/^ +[0-9]+ / && rows++ < 3 { if ($1 <= ranks || $4 < ms || $5 <= rate || $3 != 128 * $1) bad = 1; ranks = $1; ms = $4; rate = $5 } END { exit bad }' out ||
  fail "the first table: $out"
awk '/^ +[0-9]+ / && ++rows > 3 && $3 != 1024 { bad = 1 } END { exit bad }' out || fail "the second table: $out"
[ -z "$(ls | grep -vE '^(out|err)$')" ] || fail "files were written: $(ls)"

plan --plan-scale 2,3 --batch 64 --json; json batch_per_rank 32 machine h200
plan --plan-scale 4 --machine a100; says "8 A100 a node"; says "256 images in all"

expect 2 "$VERTEBRA" train vil_nano --target cuda --plan-scale 8,x; says "--plan-scale takes numbers of ranks"
expect 2 "$VERTEBRA" train vil_nano --target cuda --plan-scale 0; says "--plan-scale takes numbers of ranks"
expect 2 "$VERTEBRA" train vil_nano --target cuda --plan-scale 8, ; says "--plan-scale takes numbers of ranks"
expect 2 "$VERTEBRA" train vil_nano --target cuda --plan-scale 3 --batch 64
says "--batch 64 cannot be shared out to 3 ranks: 63 or 66"
expect 1 "$VERTEBRA" train no_such_model --target cuda --plan-scale 3; says no_such_model

# on this processor: a step of one rank is timed, among as many as share the machine
small_images 8 8 && tiny_model
expect 0 env VTB_THREADS=2 "$VERTEBRA" train tiny.vtb --plan-scale 1,2 --threads 1 --batch 64
says "64 images a rank"; says "2 ranks a node"; says "timing 2 x 64 images on this machine"; says "timing 2 x 32 images"
awk '/^ +[0-9]+ / && !($4 > 0 && $5 > 0) { bad = 1 } END { exit bad }' out || fail "$out"
expect 0 env VTB_THREADS=2 "$VERTEBRA" train tiny.vtb --plan-scale 8 --ranks-per-node 2 --threads 1 --batch 64 --json
[ "$(printf '%s' "$out" | "$JSON_GET" same_batch_per_rank.0.nodes)" = 4 ] || fail "$out"
expect 2 "$VERTEBRA" train tiny.vtb --plan-scale 512 --ranks-per-node 512 --batch 512
says "more than 64 ranks cannot be timed together"
