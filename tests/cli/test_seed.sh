# Random numbers of a sample: by the seed and the sample's number, for any batch, number of threads and way to run it.
. tests/cli/lib.sh
runner=$(dirname "$VERTEBRA")/vertebra-run
cat > "$work/noisy.vtb" <<'EOF'
use std.draws
model noisy(classes: int = 4) {
  input image: image[1, 8, 8]
  x = patches(image, kernel = 4x4)
  x += random_normal(x) + beta(0.4, 0.4, x)
  mixed = transpose(group(3 * gamma(0.7) + random_int(4), 1), [1, 0])
  output y = mean(x, axis = "tokens")[:, :classes] + mixed * range(classes)
}
EOF
images=()
for i in 1 2 3 4 5 6 7; do cp tests/fuzz/corpus/image/rgb.png "$work/$i.png"; images+=("$work/$i.png"); done

# One image is drawn for seven times, each time another way; another seed draws others.
run() { expect 0 "$VERTEBRA" run "$@" "${images[@]}"; }
run "$work/noisy.vtb" --seed 5 --threads 1; want=$out
[ "$(grep -v png <<<"$out" | sort | uniq -c | awk '$1 > 3' | wc -l)" -lt 2 ] || fail "all images have the same numbers: $out"
run "$work/noisy.vtb" --seed 5 --threads 1; [ "$out" = "$want" ] || fail "a second run gives $out"
run "$work/noisy.vtb" --seed 5 --threads 2 --batch 4; [ "$out" = "$want" ] || fail "a batch of 4 gives $out, not $want"
run "$work/noisy.vtb" --seed 5 --batch 7; [ "$out" = "$want" ] || fail "a batch of 7 gives $out, not $want"
run "$work/noisy.vtb" --seed 6; [ "$out" != "$want" ] || fail "another seed gives the same"
run "$work/noisy.vtb"; [ "$out" != "$want" ] || fail "no seed gives the same"

# Built, by the command and by the runtime alone, whose session puts three images together of two and one.
expect 0 "$VERTEBRA" build "$work/noisy.vtb" --batch 1,2 -o "$work/noisy.so"
run "$work/noisy.so" --seed 5; [ "$out" = "$want" ] || fail "the built file gives $out, not $want"
expect 0 "$runner" --seed 5 "$work/noisy.so" "${images[@]}"; [ "$out" = "$want" ] || fail "vertebra-run gives $out, not $want"
expect 0 "$runner" --seed 6 "$work/noisy.so" "${images[@]}"; [ "$out" != "$want" ] || fail "another seed gives the same"
expect 2 "$runner" --seed x "$work/noisy.so" "${images[0]}"; says "--seed is a number"
