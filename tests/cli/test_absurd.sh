# Every option of every command with values that nobody means: huge, negative, nan, empty, of another kind. No command
# crashes, hangs, takes the machine's memory or blames itself: it ends with a status of its own and, unless that is 0, a
# sentence. VTB_ABSURD=all tries every value of the list with every option (minutes), else every second option gets one of
# them, the others on the next day (all of them with `./dev test --all`).
. tests/cli/lib.sh
small_images 16 8
values=('' -1 0 nan inf 99999999999999999999 1e999 2147483647 -0.0001 /dev/null/x 'a=b' '%s%n' 3x0 '"' ../../.. 1e-320)
cat >"$work/m.vtb" <<'END'
use std.nn
use std.conv
model m(width: int = 4) {
  input image: image[1, 8, 8]
  output logits = linear("head", mean(linear("up", pixels(image), width), axis = "tokens"), 4)
}
END
m=$work/m.vtb
expect 0 "$VERTEBRA" train "$m" --data "$work/data" --batch 8 --eval-batch 8 --max-steps 2 --out "$work/run" --quiet --threads 1
w=$work/run/weights.safetensors
printf 'P5 8 8 255\n' >"$work/not.pgm"

# what each command is given besides
base() {
  case $1 in
  check | summary | dump) echo "$m" ;;
  build) echo "$m -o $work/out/m.so" ;;
  run) echo "$m --weights $w $work/not.pgm" ;;
  train) echo "$m --data $work/data --batch 8 --max-steps 1 --quiet --overwrite --threads 1 --out $work/out/run" ;;
  eval) echo "$m --data $work/data --weights $w --batch 8 --threads 1" ;;
  bench) echo "$m --runs 1 --threads 1" ;;
  verify) echo "$m" ;;
  compare) echo "$work/run" ;;
  weights) echo "$w" ;;
  convert) echo "$w $work/out/c.safetensors" ;;
  paths) echo "$m -o $work/out/p.svg" ;;
  fmt) echo "--check $m" ;;
  explain) echo VTB1001 ;;
  data) echo "$work/data" ;;
  man | completions) echo "" ;;
  *) echo "" ;;
  esac
}

n=0 tried=0 bad=0
wrong() {
  [ "${VTB_ABSURD:-}" = all ] || fail "$@"
  echo "WRONG: $*" >&2 # all of them are wanted
  bad=$((bad + 1))
}
# the address sanitizer maps terabytes that it never touches: such a build runs without the limit
limit=8000000
(ulimit -v $limit -c 0; exec "$VERTEBRA" help >/dev/null 2>&1) || limit=unlimited
attempt() {
  local got=0
  tried=$((tried + 1))
  rm -rf "$work/out"; mkdir -p "$work/out"
  (cd "$work/out" && ulimit -v $limit -c 0 && exec timeout 20 "$VERTEBRA" "$@") >"$work/said" 2>"$work/err" </dev/null || got=$?
  case $got in
  0) ;;
  [1-5]) [ -s "$work/err" ] || [ -s "$work/said" ] || wrong "status $got and not a word: vertebra $*" ;;
  124) wrong "still running after 20 s: vertebra $*" ;;
  *) wrong "status $got: vertebra $*
$(tail -n 3 "$work/err")" ;;
  esac
}

commands=$("$VERTEBRA" help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
[ "$(echo "$commands" | wc -w)" -ge 15 ] || fail "commands: $commands"
for c in $commands; do
  [ "$c" = cache ] && continue # it would clear a cache that is not the test's
  attempt "$c"
  attempt "$c" ''
  options=$("$VERTEBRA" "$c" --help | sed -n 's/^  \(-[-a-zA-Z]*\) [^ ].*  .*/\1/p')
  for o in $options; do
    [ "$o" = --out ] || [ "$o" = -o ] && continue # any word is a fine name
    [ "${VTB_ABSURD:-}${VTB_GOLDEN_MODES:-}" != "" ] || [ $((n % 2)) = $((10#$(date +%j) % 2)) ] || { n=$((n + 1)); continue; }
    for ((k = 0; k < ${#values[@]}; k++)); do
      [ "${VTB_ABSURD:-}" = all ] || [ $k = $((n % ${#values[@]})) ] || continue
      # shellcheck disable=SC2046
      attempt "$c" $(base "$c") "$o" "${values[k]}"
    done
    n=$((n + 1))
  done
done
[ "$n" -ge 100 ] || fail "only $n options were found"
[ "$bad" = 0 ] || fail "$bad of $tried runs"
echo "$tried runs of $n options"
