# Kills a training N times at odd moments with SIGKILL, going on after each, and compares weights and log at the end with those
# of a run that nobody disturbed. usage: VERTEBRA=... tests/cli/kills.sh [N]
. tests/cli/lib.sh
kills=${1:-30}
small_images 64 32
cd "$work" || exit 1
cat > tiny.vtb <<'END'
use std.nn
model tiny(dim: int = 16, kinds: int = 4) {
  input image: image[1, 8, 8]
  x = patch_embed("embed", image, dim, 4x4, 4x4)
  x += linear("l", x, dim)
  output y = linear("head", mean(x, axis = "tokens"), kinds)
}
END
run=(tiny.vtb --data data --batch 4 --epochs 300 --checkpoint-minutes 0.0002 --quiet)
expect 0 "$VERTEBRA" train "${run[@]}" --out whole
killed=0
for ((i = 0; i < 20 * kills && killed < kills; i++)); do
  [ "$(tail -n 1 run/log.csv 2>/dev/null | cut -d, -f2)" = 300 ] && rm -rf run # over: once more from the start
  "$VERTEBRA" train "${run[@]}" --out run --resume >/dev/null 2>&1 & pid=$!
  sleep "0.$((15 + (i * 37) % 60))"
  kill -9 $pid 2>/dev/null && killed=$((killed + 1))
  wait $pid 2>/dev/null
done
expect 0 "$VERTEBRA" train "${run[@]}" --out run --resume
cmp whole/weights.safetensors run/weights.safetensors || fail "other weights after $killed kills"
[ "$(cut -d, -f1-7 whole/log.csv)" = "$(cut -d, -f1-7 run/log.csv)" ] || fail "another log after $killed kills"
ls run/*.tmp-* 2>/dev/null && fail "half written files are left"
echo "$killed kills: the same weights and the same log, bit for bit"
