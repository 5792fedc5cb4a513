# vertebra bench --calibrate: the numbers of a GPU measured into a file that --machine, --estimate and VTB_MACHINE take.
. tests/cli/lib.sh
export XDG_CACHE_HOME="$(dirname "$VERTEBRA")/test-cache"
unset VTB_MACHINE
file=$work/gpu.json
expect 0 "$VERTEBRA" bench --calibrate --target cuda-emulated --machine a100 -o "$file"
says "measured"; says "a100"; says "memory, TB/s"; says "a launch, us"; says "special functions a clock"
[ "$("$JSON_GET" vertebra_gpu <"$file")" = 1 ] || fail "$(cat "$file")"
[ "$("$JSON_GET" processors <"$file")" = 108 ] || fail "what is not measured is not a100's: $(cat "$file")"
awk '/"(bytes|issue|special|launch)":/ { n++; if (!($2 + 0 > 0 && $2 + 0 < 1e12)) exit 1 } END { exit n != 4 }' "$file" || fail "$(cat "$file")"
expect 0 "$VERTEBRA" bench --calibrate --target cuda-emulated -o "$work/second.json" --json; json name measured processors 132

# what it says decides, by all ways
expect 0 "$VERTEBRA" dump vil_nano --stage launches --estimate "$file"; says "measured: "; slow=$(sed -n 's/.* launches, \([0-9.]*\) ms a run of .*/\1/p' "$work/out")
expect 0 "$VERTEBRA" dump vil_nano --stage launches --estimate a100; fast=$(sed -n 's/.* launches, \([0-9.]*\) ms a run of .*/\1/p' "$work/out")
awk "BEGIN { exit !($slow > 100 * $fast) }" || fail "an emulated device takes $slow ms, an A100 $fast"
expect 0 "$VERTEBRA" check vil_nano --target cuda --machine "$file" --json; one=$(printf '%s' "$out" | "$JSON_GET" predicted_ms)
expect 0 env VTB_MACHINE="$file" "$VERTEBRA" check vil_nano --target cuda --json; other=$(printf '%s' "$out" | "$JSON_GET" predicted_ms)
[ "$one" = "$other" ] || fail "$one and $other ms"

# damaged files say what is wrong with them
bad() { printf '%s' "$1" >"$work/bad.json"; expect 1 "$VERTEBRA" check vil_nano --target cuda --machine "$work/bad.json"; says "$2"; }
bad '{"vertebra_gpu": 1' "bad.json is no JSON"
bad '[]' "vertebra_gpu is missing or out of range"
bad '{"vertebra_gpu": 2}' "vertebra_gpu, which this program reads as 1,"
bad "$(sed 's/"name":.*/"name": "",/' "$file")" "name is missing or out of range"
bad "$(sed 's/"name":.*/"name": "0123456789012345678901234567890123456789",/' "$file")" "name is missing or out of range"
for field in processors clock issue bytes launch l2_size; do
  bad "$(sed "s/\"$field\":.*/\"$field\": 0,/" "$file")" "$field is missing or out of range"
  bad "$(sed "s/\"$field\":.*/\"$field\": -1e300,/" "$file")" "$field is missing or out of range"
  bad "$(sed "s/\"$field\":.*/\"$field\": \"4\",/" "$file")" "$field is missing or out of range"
  bad "$(sed "/\"$field\":/d" "$file")" "$field is missing or out of range"
done
bad "$(sed 's/"tensor":.*/"tensor": [1e12, 1e12, 0]/' "$file")" "tensor is missing or out of range"
bad "$(sed 's/"tensor":.*/"tensor": [0, 1e12, 0, 0]/' "$file")" "tensor is missing or out of range"
bad "$(head -c 70000 /dev/zero | tr '\0' ' ')" "bad.json"
expect 1 "$VERTEBRA" check vil_nano --target cuda --machine "$work/none.json"; says "none.json"

# without a GPU, or without sense
VTB_CUDA_DRIVER="$work/absent.so" expect 4 "$VERTEBRA" bench --calibrate --target cuda -o "$work/none.json"
[ ! -e "$work/none.json" ] || fail "a file of nothing"
expect 2 "$VERTEBRA" bench --calibrate -o "$work/x.json"; says "--calibrate describes a GPU: --target cuda"
expect 2 "$VERTEBRA" bench --calibrate --target cuda-emulated; says "-o FILE"
expect 2 "$VERTEBRA" bench vil_nano --calibrate -o x.json; says "--calibrate takes no MODEL"
