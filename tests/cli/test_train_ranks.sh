#!/bin/bash
# Training by several processes: the same run as one, on 2 and 4 ranks, killed and gone on with on 3; what they say. Updates
# of several runs, and sharded states.
. "$(dirname "$0")/lib.sh"
: "${JSON_GET:?path of json_get}"
command -v mpirun > /dev/null || exit 77
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
mpirun --oversubscribe -n 2 true > /dev/null 2>&1 || exit 77
small_images 200 40
cd "$work" || exit 1
on() { # N COMMAND...
  local n=$1
  shift
  timeout 100 mpirun --oversubscribe --bind-to none -n "$n" "$@"
}
# what depends on the number of a row, and what is summed over the batch within the step
cat > tiny.vtb <<'END'
use std.nn
use std.conv
model tiny(dim: int = 16, kinds: int = 4) {
  input image: image[1, 8, 8]
  x = patch_embed("embed", image, dim, 4x4, 4x4)
  x += drop_path(gelu(batch_norm("bn", depthwise("conv", x, conv2d, 3, bias = false))), 0.2)
  output y = linear("head", mean(dropout(x, 0.1), axis = "tokens"), kinds)
}
END
run=(tiny.vtb --data data --batch 24 --updates 200 --seed 3 --log-every 1 --threads 1 --ema 0.9 --shift 1 --eval-split test)
losses() { sed -n 's/.*"event":"step","step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1/log.jsonl"; }
near() { # A B TOLERANCE [UPDATES]: the losses of all updates
  paste -d' ' <(losses "$1") <(losses "$2") | awk -v most="$3" -v n="${4:-200}" '
    { d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || !(d <= most)) { print "update " $1 ": " $2 ", " $4; bad = 1 } }
    END { if (NR != n) { print NR " updates"; bad = 1 } exit bad }' || fail "$2 is not $1"
}
weights_near() { # A B TOLERANCE
  command -v python3 > /dev/null && python3 -c 'import numpy' 2>/dev/null || return 0
  python3 - "$@" <<'END' || fail "$2 has other weights than $1"
import json, sys
import numpy as np
def load(path):
    data = open(path + "/weights.safetensors", "rb").read()
    n = int.from_bytes(data[:8], "little")
    head = json.loads(data[8:8 + n])
    return {k: np.frombuffer(data[8 + n:][v["data_offsets"][0]:v["data_offsets"][1]], np.float32)
            for k, v in head.items() if v.get("dtype") == "F32" and k != "__metadata__"}
a, b = load(sys.argv[1]), load(sys.argv[2])
worst = max(np.abs(a[k] - b[k]).max() for k in a)
sys.exit(not (a.keys() == b.keys() and worst <= float(sys.argv[3])) and f"worst {worst}")
END
}

cmp_tensors() { # A B: the same bytes behind the headers, whose times differ
  cmp <(tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1") <(tail -c +$((9 + $(od -An -tu8 -N8 "$2"))) "$2")
}

expect 0 "$VERTEBRA" train "${run[@]}" --out one
for n in 2 4; do
  expect 0 on $n "$VERTEBRA" train "${run[@]}" --out by-$n
  says "batch 24 = $n ranks x $((24 / n)), 8 updates an epoch, 1 thread a rank"
  says "rank"
  [ "$(grep -c '^weights: ' <<< "$out")" = 1 ] || fail "who speaks: $out"
  near one by-$n 1e-5
  weights_near one by-$n 1e-4
done
expect 0 on 2 "$VERTEBRA" train "${run[@]}" --out again
cmp again/weights.safetensors by-2/weights.safetensors || fail "2 ranks do not repeat"
grep -q '"event":"begin","step":0,"batch":24,"ranks":4,"accumulate":1,"rank_batch":6' by-4/log.jsonl || fail "log"

# an update of several runs is the same update, by however many; sharded states change no bit of it
grep -v batch_norm tiny.vtb > plain.vtb
plain=(plain.vtb "${run[@]:1}")
expect 0 "$VERTEBRA" train "${plain[@]}" --out plain
expect 0 "$VERTEBRA" train "${plain[@]}" --accumulate 3 --out thirds
says "batch 24 = 3 x 8,"
near plain thirds 1e-5
expect 0 on 2 "$VERTEBRA" train "${plain[@]}" --accumulate 4 --max-steps 60 --out quarters
says "batch 24 = 2 ranks x 4 x 3,"
expect 0 on 4 "$VERTEBRA" train --resume quarters --accumulate 2 --threads 1
near plain quarters 1e-5
expect 0 on 4 "$VERTEBRA" train "${run[@]}" --shard-optimizer --out shards
for file in weights checkpoint best; do
  cmp_tensors by-4/$file.safetensors shards/$file.safetensors || fail "sharded: another $file"
done
here=$(sed -n 's/.*"state_bytes":\([0-9]*\).*/\1/p' shards/log.jsonl) all=$(sed -n 's/.*"state_bytes_of_all":\([0-9]*\).*/\1/p' shards/log.jsonl)
[ "$here" -gt 0 ] && [ $((10 * here)) -lt $((6 * all)) ] || fail "states: $here bytes of $all" # one tensor is half of it
# more ranks than tensors: some have none
cat > few.vtb <<'END'
use std.nn
model few(kinds: int = 4) {
  input image: image[1, 8, 8]
  output y = linear("head", mean(patch_embed("embed", image, 8, 4x4, 4x4), axis = "tokens"), kinds)
}
END
few=(few.vtb "${run[@]:1}" --updates 6)
expect 0 on 6 "$VERTEBRA" train "${few[@]}" --out few
expect 0 on 6 "$VERTEBRA" train "${few[@]}" --shard-optimizer --out few-shards
cmp_tensors few/weights.safetensors few-shards/weights.safetensors || fail "shards of few tensors: other weights"
cmp_tensors few/checkpoint.safetensors few-shards/checkpoint.safetensors || fail "shards of few tensors: another checkpoint"
expect 2 "$VERTEBRA" train "${plain[@]}" --accumulate 7 --out no
says "a batch of 24 cannot be divided among 7 runs an update: 21 or 28 can"

# where kernels are those of a GPU
expect 0 "$VERTEBRA" train "${run[@]}" --updates 5 --target cuda-emulated --out device
expect 0 on 2 "$VERTEBRA" train "${run[@]}" --updates 5 --target cuda-emulated --out by-2-device
near device by-2-device 1e-5 5

# a rank that is killed: the others end, with a sentence; on 3 and on 1 it goes on as if nothing had been
on 4 "$VERTEBRA" train "${run[@]}" --out "$work/killed" --checkpoint-minutes 0.0005 > by.out 2>&1 & pid=$!
rank() { # N FOLDER: the process, once there is one
  pgrep -f "train.*--out $work/$2" | while read -r p; do
    tr '\0' '\n' < "/proc/$p/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$p"; done | head -n 1
}
victim= # looked for first: 200 updates are soon over
for ((i = 0; i < 2000; i++)); do
  [ -n "$victim" ] || victim=$(rank 2 killed)
  [ -n "$victim" ] && [ -s killed/checkpoint.safetensors ] && break
  kill -0 $pid 2>/dev/null || fail "over before: $(cat by.out)"
  sleep 0.01
done
[ -n "$victim" ] || fail "no rank 2 to be seen"
kill -9 "$victim"
wait $pid && fail "exit status 0: $(cat by.out)"
cp -r killed killed-1
expect 0 on 3 "$VERTEBRA" train --resume killed --threads 1
says "resumed after update"
near one killed 1e-5
expect 0 "$VERTEBRA" train --resume killed-1 --threads 1
near one killed-1 1e-5

# asked to stop: a checkpoint, and on with another number
on 2 "$VERTEBRA" train "${run[@]}" --out "$work/asked" --updates 20000 > by.out 2>&1 & pid=$!
for ((i = 0; i < 2000; i++)); do
  grep -q '"step":5,' asked/log.jsonl 2>/dev/null && break
  sleep 0.01
done
victim=$(rank 1 asked)
kill -TERM "$victim"
wait $pid && fail "exit status 0: $(cat by.out)"
grep -q "stopped early; --resume continues" by.out || fail "asked to stop: $(cat by.out)"
[ -s asked/checkpoint.safetensors ] || fail "no checkpoint"

# what cannot be
expect 2 on 3 "$VERTEBRA" train tiny.vtb --data data --batch 64 --out no
says "a batch of 64 cannot be divided among 3 ranks: 63 or 66 can, or 2 or 4 ranks"
[ ! -e no ] || fail "a folder is left: $(ls -A no)"
refused() { # COMMAND... on 2 ranks: the status is that of whoever ends first
  WHERE=$work on 2 "$@" > out 2> err && fail "exit status 0"
  out=$(cat out) err=$(cat err)
}
mkdir other && sed 's/0.2)/0.3)/' tiny.vtb > other/tiny.vtb
cat > differ.sh <<'END'
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && cd other && ln -sfn ../data data
exec "$VERTEBRA" train tiny.vtb --data data --batch 24 --updates 5 --threads 1 --out "$WHERE/differs"
END
refused bash differ.sh
says "rank 1 has other text of the model than rank 0"
cat > broken.sh <<'END'
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && set -- --data nowhere
exec "$VERTEBRA" train tiny.vtb --data data --batch 24 --updates 5 --threads 1 --out "$WHERE/differs" "$@"
END
refused bash broken.sh
says "nowhere"

# evaluation is shared out; other commands say that they know nothing of ranks
expect 0 "$VERTEBRA" eval tiny.vtb --weights one/weights.safetensors --data data --batch 8 --allow-unused --json
alone=$(printf '%s' "$out" | "$JSON_GET" loss)
expect 0 on 3 "$VERTEBRA" eval tiny.vtb --weights one/weights.safetensors --data data --batch 8 --allow-unused --json
json images 40
awk -v a="$alone" -v b="$(printf '%s' "$out" | "$JSON_GET" loss)" 'BEGIN { exit !(a - b < 1e-6 && b - a < 1e-6) }' ||
  fail "another loss than $alone: $out"
expect 0 on 2 "$VERTEBRA" check tiny.vtb
says "is for one process: each of the 2"
VTB_RANKS=off expect 0 on 2 "$VERTEBRA" check tiny.vtb
silent_about "one process"
exit 0
