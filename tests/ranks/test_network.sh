#!/bin/bash
# Ranks of two machines (network namespaces, each with a name of its own) that are 20 ms apart, on a wire that loses one
# frame of a hundred: the same bits, also of a training; a rank over there that is stopped is named, and goes on.
. "$(dirname "$0")/../cli/lib.sh"
job=${RANKS_JOB:?path of ranks_job} network=${RANKS_NETWORK:?path of ranks_network}
skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] && command -v ip > /dev/null && [ -c /dev/net/tun ] || skip "root, ip and /dev/net/tun make networks"
command -v mpirun > /dev/null && mpirun --version 2> /dev/null | grep -q 'Open MPI' || skip "no Open MPI"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
a=vtb-a-$$ b=vtb-b-$$ failures=0
cleanup() {
  exec 3>&- 2> /dev/null
  ip netns del "$a" 2> /dev/null
  ip netns del "$b" 2> /dev/null
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1
fail() { echo "FAILED: $*"; [ -f err ] && sed 's/^/  | /' err; failures=$((failures + 1)); }
ip netns add "$a" 2> /dev/null && ip netns add "$b" 2> /dev/null || skip "no network namespaces"

mkfifo end
"$network" "$a" "$b" 20 10 < end > ready 2> wire.err &
wire=$!
exec 3> end
for ((i = 0; i < 100; i++)); do grep -q ready ready && break; kill -0 $wire 2> /dev/null || break; sleep 0.05; done
grep -q ready ready || skip "no TAP devices: $(cat wire.err)"
n=1
for space in "$a" "$b"; do
  ip -n "$space" link set lo up
  ip -n "$space" addr add 10.99.7.$n/24 dev wire
  ip -n "$space" link set wire up
  n=$((n + 1))
done

# "agent HOST COMMAND...", as mpirun calls ssh
cat > agent <<END
#!/bin/bash
host=\$1; shift
exec ip netns exec $b unshare --uts bash -c 'hostname machine-b; exec bash -c "\$0"' "\$*"
END
chmod +x agent
ranks() {
  timeout -k 5 100 ip netns exec "$a" unshare --uts bash -c 'hostname machine-a; exec "$@"' - \
    mpirun --host 10.99.7.1:2,10.99.7.2:2 -n 3 --map-by node --bind-to none --mca plm_rsh_agent "$work/agent" \
    --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include 10.99.7.0/24 \
    --mca oob_tcp_if_include 10.99.7.0/24 "$@" > out 2> err
}

ranks "$job" sums 6 200001 || fail "sums over the wire"
[ "$(grep -c ': good$' err)" = 3 ] || fail "not all are good"

# the wire is what it is said to be: 20 ms there, 20 ms back
rtt=$(ip netns exec "$a" ping -c 3 -i 0.2 10.99.7.2 2> /dev/null | sed -n 's|^rtt.*= \([0-9]*\).*|\1|p')
[ -z "$rtt" ] || [ "$rtt" -ge 40 ] || fail "a way there and back takes $rtt ms"

tiny_model
small_images 60 40
train=("$VERTEBRA" train "$work/tiny.vtb" --data "$work/data" --batch 12 --updates 10 --threads 1)
timeout -k 5 100 mpirun --oversubscribe -n 3 "${train[@]}" --out "$work/here" > out 2> err || fail "training here"
ranks "${train[@]}" --out "$work/there" || fail "training over the wire"
cmp here/weights.safetensors there/weights.safetensors || fail "other weights over the wire"

mkdir begun
RANKS_NAME_SECONDS=2 ranks "$job" loop "$work/begun" &
mpirun=$!
for ((i = 0; i < 400; i++)); do [ "$(cat begun/* 2> /dev/null | wc -l)" = 3 ] && break; sleep 0.05; done
far=$(cat begun/1) near=$(cat begun/0)
[ -n "$far" ] || { fail "the ranks do not begin"; exit 1; }
kill -STOP "$far"
for ((i = 0; i < 600; i++)); do grep -q 'has not answered' err && break; sleep 0.05; done
grep -qE "^0: warning: rank 1 \(machine-b, process $far\) has not answered for 2" err || fail "it is not named"
kill -CONT "$far"
for ((i = 0; i < 200; i++)); do grep -q 'answers again' err && break; sleep 0.05; done
grep -q 'answers again' err || fail "it does not come back"
kill -TERM "$near"
wait $mpirun || fail "it does not go on: status $?"
[ $failures = 0 ] && echo good
exit $((failures != 0))
