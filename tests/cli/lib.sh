# Shared by the command-line tests: each test_*.sh is one story, fails at the first surprise and cleans up after itself.
set -u
: "${VERTEBRA:?path of the vertebra program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*" >&2; exit 1; }

# expect STATUS COMMAND...: runs it; output in $out, errors in $err
expect() {
  local want=$1 got=0
  shift
  "$@" >"$work/out" 2>"$work/err" || got=$?
  out=$(cat "$work/out") err=$(cat "$work/err")
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
