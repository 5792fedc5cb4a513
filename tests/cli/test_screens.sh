# What a user sees: on terminals of 80 and 60 columns, without colours, in a log file. Screens lie in
# tests/cli/screens with # for every number; VTB_UPDATE=1 writes them anew, to be looked at.
. tests/cli/lib.sh
: "${SCREEN:?path of the pseudo-terminal}"
unset NO_COLOR COLUMNS
export TERM=xterm VTB_THREADS=1

mask() {
  sed -E "s#$work#WORK#g; s#/[^ ]*/models#MODELS#g; s/[0-9]+([.,][0-9]+)*(e[-+]?[0-9]+)?/#/g; s/ +#/ #/g; s/# +/# /g
    s/(best # %).*/\1/"
}
words() { tr -s '[:space:]' '\n' <"$1"; } # lines are broken elsewhere where a number is longer
# same NAME: what the terminal showed, without lines that were drawn again, is the stored screen
same() {
  grep -v '^~' "$work/screen" | mask >"$work/masked"
  if [ "${VTB_UPDATE:-}" = 1 ]; then
    cp "$work/masked" "tests/cli/screens/$1.txt"
  else
    words "tests/cli/screens/$1.txt" >"$work/want"
    words "$work/masked" | diff -u "$work/want" - || fail "another screen: $1"
  fi
}
# look NAME COMMAND...: on both terminals, or on those of $on columns; no line goes beyond the right edge
look() {
  local name=$1 columns status
  shift
  for columns in ${on:-80 60}; do
    status=0
    "$SCREEN" -f ${columns}x24 "$@" >"$work/screen" 2>&1 || status=$?
    [ $status = "${want:-0}" ] || fail "exit status $status (98: a line wraps): $* on $columns columns
$(cat "$work/screen")"
    same "$name-$columns"
  done
}

look check "$VERTEBRA" check vil_nano
look summary "$VERTEBRA" summary vil_nano --depth 5
look models "$VERTEBRA" models 'deit*'
look help "$VERTEBRA" help verify
on=60 look verify "$VERTEBRA" verify vil_nano -D depth=1 --no-grad --mode chunkwise
want=1 look error "$VERTEBRA" check vil_nano -D "directions=[rows, hilber]"
want=2 look usage "$VERTEBRA" check vil_nano --bacth 3

# A training: progress that is drawn again, lines that stay, results. Names of classes are wide, or act on terminals.
small_images 120 20
train=("$VERTEBRA" train vil_nano -D depth=1 -D dim=16 --image 8 --data "$work/data" --batch 2 --seed 5 --epochs 2)
on=80 look train "${train[@]}" --out "$work/r"
on=60 look train "${train[@]}" --out "$work/f"
grep -q '^~ epoch [0-9]*/2  [0-9]*/[0-9]*  loss [0-9.]*  left' "$work/screen" || fail "no progress: $(cat "$work/screen")"
grep -q '^~ compiling' "$work/screen" || fail "nothing is said while the model is compiled"
"$SCREEN" -f -r 60 80x24 "${train[@]}" --epochs 4 --out "$work/s" >"$work/screen" || fail "a frame wraps in a window made smaller: $(cat "$work/screen")"

# Where nothing can be drawn again, an epoch is a line.
plain() { # FILE
  ! grep -q "$(printf '[\033\r]')" "$1" || fail "control characters in $1"
  [ "$(grep -c '^epoch' "$1")" = 2 ] || fail "not a line an epoch: $(cat "$1")"
  grep -q '^epoch 2/2  loss [0-9.]*  top-1 [0-9.]* %  best' "$1" || fail "not whole: $(cat "$1")"
}
"${train[@]}" --out "$work/log" >"$work/log.txt" 2>&1 || fail "train: $(cat "$work/log.txt")"
plain "$work/log.txt"
NO_COLOR=1 "$SCREEN" -f 200x24 "${train[@]}" --out "$work/no_color" >"$work/no_color.txt" || fail "with NO_COLOR"
plain "$work/no_color.txt"
! grep -q '^~' "$work/no_color.txt" || fail "NO_COLOR, and a line is drawn again"
TERM=dumb "$SCREEN" -f 200x24 "$VERTEBRA" bench vil_nano --runs 1 --top 0 >"$work/dumb.txt" || fail "on a dumb terminal"
! grep -q '^~' "$work/dumb.txt" || fail "a dumb terminal, and a line is drawn again"

weights=$work/r/weights.safetensors
"$VERTEBRA" eval vil_nano --weights "$weights" --data "$work/data" --write-images "$work/png" >/dev/null 2>&1 || fail "eval"
cat=$(printf '%s/\xe7\x8c\xab.png' "$work") evil=$(printf '%s/a\033[31mb.png' "$work")
set -- "$work"/png/*.png
cp "$1" "$cat"; cp "$1" "$evil"
look run "$VERTEBRA" run vil_nano --weights "$weights" "$cat" "$evil"
grep -q '\\x1b' "$work/screen" || fail "no escape sequence is shown"
long=$(printf 'long_name_%.0s' {1..9}); wide=$(printf '\xe7\x8c\xab%.0s' {1..30})
mkdir -p "$work/kinds/$long" "$work/kinds/$wide" "$work/kinds/x"
for kind in "$work"/kinds/*; do cp "$1" "$kind/1.png"; done
on=60 look data "$VERTEBRA" data "$work/kinds"
look eval "$VERTEBRA" eval vil_nano --weights "$weights" --data "$work/data" --confusion
on=60 look bench "$VERTEBRA" bench vil_nano --runs 2 --top 0
