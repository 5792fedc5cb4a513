# Shared by the command-line tests: each test_*.sh is one story, fails at the first surprise and cleans up after itself.
set -u
: "${VERTEBRA:?path of the vertebra program}"
work=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
fail() { echo "FAIL: $*" >&2; exit 1; }

# expect STATUS COMMAND...: runs it; output in $out, errors in $err
expect() {
  local want=$1 got=0
  shift
  "$@" >"$work/out" 2>"$work/err" || got=$?
  out=$(<"$work/out") err=$(<"$work/err")
  [ "$got" = "$want" ] || fail "exit status $got, want $want: $*
$out
$err"
}
says() { case "$out$err" in *"$1"*) ;; *) fail "no \"$1\" in:
$out
$err" ;; esac; }
silent_about() { case "$out$err" in *"$1"*) fail "unexpected \"$1\" in:
$out
$err" ;; *) ;; esac; }

# json PATH WANT...: values in the document that the last command left on stdout
json() {
  local got
  while [ $# -gt 0 ]; do
    got=$(printf '%s' "$out" | "$JSON_GET" "$1") || fail "no JSON document"
    [ "$got" = "$2" ] || fail "$1 is '$got', want '$2' in:
$out"
    shift 2
  done
}

# The smallest model that trains on small_images, as $work/tiny.vtb.
tiny_model() {
  cat > "$work/tiny.vtb" <<'END'
use std.nn
model tiny(dim: int = 16, kinds: int = 10) {
  input image: image[1, 8, 8]
  x = patch_embed("embed", image, dim, 4x4, 4x4)
  x += linear("l", x, dim)
  output y = linear("head", mean(x, axis = "tokens"), kinds)
}
END
}

# small_images TRAIN TEST: so many 8 x 8 images of 4 classes in $work/data, as IDX files; a bright column tells the class
small_images() {
  mkdir "$work/data"
  idx train "$1"
  idx t10k "$2"
}
idx() { # STEM COUNT
  { printf '\0\0\10\3\0\0\0'; printf "\\$(printf %o "$2")"; printf '\0\0\0\10\0\0\0\10'
    LC_ALL=C awk -v n="$2" 'BEGIN { for (i = 0; i < n; i++) for (p = 0; p < 64; p++)
      printf "%c", (p % 8) % 4 == i % 4 ? 100 + (i * 7 + p * 13) % 27 : 1 + (i * 31 + p * 17) % 40 }'
  } > "$work/data/$1-images-idx3-ubyte"
  { printf '\0\0\10\1\0\0\0'; printf "\\$(printf %o "$2")"
    for ((i = 0; i < $2; i++)); do printf "\\$(printf %o $((i % 4)))"; done
  } > "$work/data/$1-labels-idx1-ubyte"
}

# What runs in the background as $pid, and says what it says in by.out.
waits_for() { # CONDITION...: the process $pid still runs when it comes true
  for ((i = 0; i < 6000; i++)); do
    "$@" && return
    kill -0 $pid 2>/dev/null || fail "over before: $* ($(cat by.out 2>/dev/null))"
    sleep 0.01
  done
  fail "never: $*"
}
hears_interrupt() { (( 0x$(sed -n 's/^SigCgt:[[:space:]]*//p' /proc/$pid/status 2>/dev/null || echo 0) & 2 )); }
