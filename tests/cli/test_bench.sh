# Measuring: what the machine reaches, and how much of it a model does.
. tests/cli/lib.sh
tiny=(vil_nano -D dim=16 -D depth=1 --image 8 --threads 1)
positive() { [ "$(printf '%s' "$out" | "$JSON_GET" "$1" | awk '{ print ($1 > 0) }')" = 1 ] || fail "$1 is no positive number: $out"; }

expect 0 "$VERTEBRA" bench --peak --json --threads 1 --target cuda-emulated
json threads 1 target cuda-emulated precision fp32 copies 4 one_thread none
positive product_gflops; positive copy_gbytes; positive copies.0.gbytes
expect 0 "$VERTEBRA" bench "${tiny[@]}" --runs 2 --peak
says "product"; says "% of the peak"; says "% peak"
expect 0 "$VERTEBRA" bench "${tiny[@]}" --runs 2 --peak --json
positive percent_of_peak; positive peak.product_gflops; positive peak.one_thread.copy_gbytes; positive kernels.0.percent_of_peak
expect 2 "$VERTEBRA" bench --peak --target gpu; says "unknown target 'gpu'"
expect 2 "$VERTEBRA" bench; says "one MODEL"
