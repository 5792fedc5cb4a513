# Limits of the process: what does not fit is said, and soon.
. tests/cli/lib.sh
nm "$VERTEBRA" 2>/dev/null | grep -q __asan_init && exit 77 # needs more addresses than the limits leave

# Products take 160 MiB of addresses a thread: with any limit the end comes soon, and with a sentence.
refused=0
for ((limit = 350000; limit <= 950000; limit += 100000)); do
  got=0
  (ulimit -v $limit; exec timeout 30 "$VERTEBRA" bench vit_tiny -D depth=2 --threads 2 --seconds 0.05) >"$work/out" 2>"$work/err" || got=$?
  err=$(cat "$work/err")
  case $got in
  0) ;;
  3) refused=1; [[ $err = *memory* ]] || fail "limit $limit: no word of memory in: $err" ;;
  *) fail "limit $limit: exit status $got: $err" ;;
  esac
done
[ $refused = 1 ] || fail "no limit was too small"

expect 2 "$VERTEBRA" bench vit_nano --threads 100000
says "--threads takes 0 (as many as there are cores) to 1024, not '100000'"
